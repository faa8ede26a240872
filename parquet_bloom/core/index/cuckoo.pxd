"""The buckets and fingerprints of hashes in cuckoo filters, and the lengths of rows."""

from libc.stdint cimport uint32_t, uint64_t

from ..hash.xxh64 cimport avalanche


cdef class Layout:
    cdef readonly uint32_t num_buckets
    cdef readonly int fingerprint_bits


cdef inline uint32_t first_bucket(uint64_t h, uint64_t num_buckets) noexcept nogil:
    return <uint32_t>(((h >> 32) * num_buckets) >> 32)


cdef inline uint64_t max_fingerprint(int bits) noexcept nogil:
    """Return the largest fingerprint."""
    cdef uint64_t one = 1
    return (one << bits) - one


cdef inline uint32_t make_fingerprint(uint64_t h, int bits) noexcept nogil:
    cdef uint64_t low = <uint32_t>h
    cdef uint64_t kinds = max_fingerprint(bits)
    return <uint32_t>((low * kinds) >> 32) + 1


cdef inline uint32_t other_bucket(uint32_t fingerprint, uint32_t bucket, uint64_t num_buckets) noexcept nogil:
    cdef uint32_t both = first_bucket(avalanche(fingerprint), num_buckets)  # the sum of the two, modulo their number
    return both - bucket if both >= bucket else <uint32_t>(both + num_buckets - bucket)


cdef inline size_t front_bytes(int bits, size_t num_slots) noexcept nogil:
    return num_slots if bits <= 12 else 2 * num_slots


cdef inline size_t body_bytes(int bits, size_t num_slots) noexcept nogil:
    cdef size_t front = front_bytes(bits, num_slots)
    return front + (num_slots + 1) // 2 if bits == 12 else front + num_slots if bits == 24 else front
