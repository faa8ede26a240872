"""XXH64, seed 0, of one key at a time, in plain Cython.

Source: the xxHash specification (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), XXH64, which is
what the Parquet format names as the hash of its Bloom filters.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "constants.h":
    const uint64_t PRIME_1 "PB_PRIME_1"
    const uint64_t PRIME_2 "PB_PRIME_2"
    const uint64_t PRIME_3 "PB_PRIME_3"
    const uint64_t PRIME_4 "PB_PRIME_4"
    const uint64_t PRIME_5 "PB_PRIME_5"


cdef inline uint64_t rotate_left(uint64_t x, int bits) noexcept nogil:
    return (x << bits) | (x >> (64 - bits))


cdef inline uint64_t load64(const uint8_t* p) noexcept nogil:
    cdef uint64_t x
    memcpy(&x, p, 8)  # keys may have any alignment; little-endian, as required by core/__init__.py
    return x


cdef inline uint64_t load32(const uint8_t* p) noexcept nogil:
    cdef uint32_t x
    memcpy(&x, p, 4)
    return x


cdef inline uint64_t mix_lane(uint64_t lane, uint64_t word) noexcept nogil:
    return rotate_left(lane + word * PRIME_2, 31) * PRIME_1


cdef inline uint64_t mix8(uint64_t h, uint64_t word) noexcept nogil:
    return rotate_left(h ^ mix_lane(0, word), 27) * PRIME_1 + PRIME_4


cdef inline uint64_t mix4(uint64_t h, uint64_t word) noexcept nogil:
    return rotate_left(h ^ (word * PRIME_1), 23) * PRIME_2 + PRIME_3


cdef inline uint64_t avalanche(uint64_t h) noexcept nogil:
    h ^= h >> 33
    h *= PRIME_2
    h ^= h >> 29
    h *= PRIME_3
    return h ^ (h >> 32)


cdef inline uint64_t hash4(const uint8_t* p) noexcept nogil:
    return avalanche(mix4(PRIME_5 + 4, load32(p)))


cdef inline uint64_t hash8(const uint8_t* p) noexcept nogil:
    return avalanche(mix8(PRIME_5 + 8, load64(p)))


cdef inline uint64_t hash_bytes(const uint8_t* p, uint64_t length) noexcept nogil:
    cdef uint64_t h, a, b, c, d
    cdef uint64_t remaining = length
    if length >= 32:
        a = PRIME_1 + PRIME_2
        b = PRIME_2
        c = 0
        d = 0 - PRIME_1
        while remaining >= 32:
            a = mix_lane(a, load64(p))
            b = mix_lane(b, load64(p + 8))
            c = mix_lane(c, load64(p + 16))
            d = mix_lane(d, load64(p + 24))
            p += 32
            remaining -= 32
        h = rotate_left(a, 1) + rotate_left(b, 7) + rotate_left(c, 12) + rotate_left(d, 18)
        h = (h ^ mix_lane(0, a)) * PRIME_1 + PRIME_4
        h = (h ^ mix_lane(0, b)) * PRIME_1 + PRIME_4
        h = (h ^ mix_lane(0, c)) * PRIME_1 + PRIME_4
        h = (h ^ mix_lane(0, d)) * PRIME_1 + PRIME_4
    else:
        h = PRIME_5
    h += length
    while remaining >= 8:
        h = mix8(h, load64(p))
        p += 8
        remaining -= 8
    if remaining >= 4:
        h = mix4(h, load32(p))
        p += 4
        remaining -= 4
    while remaining:
        h = rotate_left(h ^ (p[0] * PRIME_5), 11) * PRIME_1
        p += 1
        remaining -= 1
    return avalanche(h)
