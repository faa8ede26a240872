# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The hashes and the bits of ORC's Bloom filters.

Source: ORC specification v1, "Bloom Filter Index"; details that it omits were determined by rebuilding filters of its
writers: Thomas Wang's hash has arithmetic shifts, and the hash of bytes is a Murmur3 variant with one 64-bit lane.
"""

from libc.math cimport log, round as c_round
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stddef cimport size_t

import numpy as np

from .xxh64 cimport load64, rotate_left

cpdef enum:
    MAX_HASH_FUNCTIONS = 255  # more than any writer uses: a probability of 10^-76

cdef enum:
    SEED = 104729

cdef uint64_t C1 = 0x87C37B91114253D5
cdef uint64_t C2 = 0x4CF5AD432745937F


cdef inline uint64_t wang(uint64_t key) noexcept nogil:
    """Return Thomas Wang's hash of 64 bits, with arithmetic shifts like Java's `>>`."""
    key = ~key + (key << 21)
    key ^= <uint64_t>(<int64_t>key >> 24)
    key = key + (key << 3) + (key << 8)
    key ^= <uint64_t>(<int64_t>key >> 14)
    key = key + (key << 2) + (key << 4)
    key ^= <uint64_t>(<int64_t>key >> 28)
    return key + (key << 31)


cdef inline uint64_t mix(uint64_t word) noexcept nogil:
    return rotate_left(word * C1, 31) * C2


cdef uint64_t murmur(const uint8_t* data, size_t length) noexcept nogil:
    cdef uint64_t h = SEED
    cdef uint64_t last = 0
    cdef size_t i
    for i in range(length // 8):
        h = rotate_left(h ^ mix(load64(data + 8 * i)), 27) * 5 + <uint64_t>0x52DCE729
    for i in range(length % 8):
        last |= <uint64_t>data[length - length % 8 + i] << (8 * i)
    if length % 8:
        h ^= mix(last)
    h ^= length
    h ^= h >> 33
    h *= <uint64_t>0xFF51AFD7ED558CCD
    h ^= h >> 33
    h *= <uint64_t>0xC4CEB9FE1A85EC53
    return h ^ (h >> 33)


def hash_longs(const int64_t[::1] values not None):
    """Return the hashes of 64-bit integers as a uint64 array."""
    cdef Py_ssize_t i
    out = np.empty(values.shape[0], np.uint64)
    cdef uint64_t[::1] view = out
    with nogil:
        for i in range(values.shape[0]):
            view[i] = wang(<uint64_t>values[i])
    return out


def hash_bytes(const uint8_t[::1] data not None, const int64_t[::1] offsets not None):
    """Return the hashes of byte strings as a uint64 array.

    Parameters
    ----------
    data : buffer with the strings.
    offsets : start of each string, which is also the end of the one before; one more than there are strings.

    Raises
    ------
    ValueError
        The offsets decrease, or point outside of `data`.
    """
    cdef Py_ssize_t i, count = offsets.shape[0] - 1
    cdef const uint8_t* start = &data[0] if data.shape[0] else NULL
    cdef bint inside = count >= 0 and 0 <= offsets[0] and offsets[count] <= data.shape[0]
    for i in range(count):
        inside = inside and offsets[i] <= offsets[i + 1]
    if not inside:
        raise ValueError("offsets must ascend inside of the data")
    out = np.empty(count, np.uint64)
    cdef uint64_t[::1] view = out
    with nogil:
        for i in range(count):
            view[i] = murmur(start + offsets[i], <size_t>(offsets[i + 1] - offsets[i]))
    return out


cdef int require(Py_ssize_t num_bytes, int num_hash_functions) except -1:
    if num_bytes < 1:
        raise ValueError("a bitset has at least one byte")
    if not 1 <= num_hash_functions <= MAX_HASH_FUNCTIONS:
        raise ValueError(f"a filter has 1 to {MAX_HASH_FUNCTIONS} hash functions, not {num_hash_functions}")
    return 0


cdef inline uint64_t position(uint64_t hashed, uint32_t i, uint64_t num_bits) noexcept nogil:
    """Return the i-th bit of a hash, in 32-bit arithmetic with wrap-around; negative results are complemented."""
    cdef uint32_t combined = <uint32_t>hashed + i * <uint32_t>(hashed >> 32)
    if combined >> 31:
        combined = ~combined
    return combined % num_bits


def insert(uint8_t[::1] bitset not None, const uint64_t[::1] hashes not None, int num_hash_functions):
    """Set the bits of hashes in a bitset, whose bits are numbered from the lowest one of each byte.

    Raises
    ------
    ValueError
        The bitset is empty, or the number of hash functions is not between 1 and `MAX_HASH_FUNCTIONS`.
    """
    require(bitset.shape[0], num_hash_functions)
    cdef Py_ssize_t i
    cdef uint32_t j
    cdef uint64_t bit, num_bits = 8 * <uint64_t>bitset.shape[0]
    with nogil:
        for i in range(hashes.shape[0]):
            for j in range(1, <uint32_t>num_hash_functions + 1):
                bit = position(hashes[i], j, num_bits)
                bitset[<Py_ssize_t>(bit >> 3)] |= <uint8_t>(1 << (bit & 7))


def check(const uint8_t[::1] bitset not None, const uint64_t[::1] hashes not None, int num_hash_functions):
    """Return which hashes have all their bits set, as a bool array; raises the same errors as `insert`."""
    require(bitset.shape[0], num_hash_functions)
    cdef Py_ssize_t i
    cdef uint32_t j
    cdef uint64_t bit, num_bits = 8 * <uint64_t>bitset.shape[0]
    cdef uint8_t is_set
    out = np.empty(hashes.shape[0], np.bool_)
    cdef uint8_t[::1] view = out.view(np.uint8)
    with nogil:
        for i in range(hashes.shape[0]):
            is_set = 1
            for j in range(1, <uint32_t>num_hash_functions + 1):
                bit = position(hashes[i], j, num_bits)
                is_set = (bitset[<Py_ssize_t>(bit >> 3)] >> (bit & 7)) & 1
                if not is_set:
                    break
            view[i] = is_set
    return out


def size_for(int64_t num_values, double fpp):
    """Return the size of the filter that ORC's writers build for a row group with a number of values.

    Returns
    -------
    num_bits : a multiple of 64.
    num_hash_functions : at least 1.

    Raises
    ------
    ValueError
        There are no values, `fpp` is not inside (0, 1), or the filter would have 2^31 bits or more.
    """
    if num_values < 1 or not 0 < fpp < 1:
        raise ValueError(f"num_values must be at least 1 and fpp between 0 and 1, got {num_values} and {fpp}")
    cdef double exact_bits = -<double>num_values * log(fpp) / (log(2) * log(2))
    if exact_bits >= 2**31 - 64:
        raise ValueError("an ORC filter has less than 2^31 bits")
    cdef int64_t least = <int64_t>exact_bits
    cdef int64_t num_bits = least + 64 - least % 64  # as in ORC's writers: adds 64 even if `least` is a multiple of 64
    cdef int64_t count = <int64_t>c_round(<double>num_bits / num_values * log(2))
    return num_bits, max(1, count)
