# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""SipHash: the hash of the index files of another program (lake/partition_index_files.py).

Source: Aumasson, Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from .xxh64 cimport load64, rotate_left


cdef struct State:
    uint64_t v0, v1, v2, v3


cdef inline State begin(uint64_t k0, uint64_t k1) noexcept nogil:
    cdef State state
    state.v0 = k0 ^ <uint64_t>0x736F6D6570736575
    state.v1 = k1 ^ <uint64_t>0x646F72616E646F6D
    state.v2 = k0 ^ <uint64_t>0x6C7967656E657261
    state.v3 = k1 ^ <uint64_t>0x7465646279746573
    return state


cdef inline void mix(State* s, int rounds) noexcept nogil:
    cdef int i
    for i in range(rounds):
        s.v0 += s.v1
        s.v1 = rotate_left(s.v1, 13) ^ s.v0
        s.v0 = rotate_left(s.v0, 32)
        s.v2 += s.v3
        s.v3 = rotate_left(s.v3, 16) ^ s.v2
        s.v0 += s.v3
        s.v3 = rotate_left(s.v3, 21) ^ s.v0
        s.v2 += s.v1
        s.v1 = rotate_left(s.v1, 17) ^ s.v2
        s.v2 = rotate_left(s.v2, 32)


cdef inline void take(State* state, uint64_t word, int rounds) noexcept nogil:
    state.v3 ^= word
    mix(state, rounds)
    state.v0 ^= word


cdef inline uint64_t end(State state, uint64_t last, int rounds, int last_rounds) noexcept nogil:
    """Finish a hash; `state` is a copy, so that the caller's can be continued."""
    take(&state, last, rounds)
    state.v2 ^= 0xFF
    mix(&state, last_rounds)
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3


def siphash(const uint8_t[::1] data not None, uint64_t k0, uint64_t k1, int rounds=1, int last_rounds=3):
    """Return the hash of bytes: SipHash-1-3, unless other numbers of rounds are given."""
    cdef Py_ssize_t length = data.shape[0], i
    cdef uint64_t last = <uint64_t>(length & 0xFF) << 56
    cdef State state = begin(k0, k1)
    for i in range(length // 8):
        take(&state, load64(&data[8 * i]), rounds)
    for i in range(length % 8):
        last |= <uint64_t>data[length - length % 8 + i] << (8 * i)
    return end(state, last, rounds, last_rounds)


def hash_words(const uint64_t[::1] values not None, uint64_t k0, uint64_t k1):
    """Return SipHash-1-3 of the 8 little-endian bytes of each value as a uint64 array."""
    cdef Py_ssize_t i
    cdef State state
    out = np.empty(values.shape[0], np.uint64)
    cdef uint64_t[::1] view = out
    with nogil:
        for i in range(values.shape[0]):
            state = begin(k0, k1)
            take(&state, values[i], 1)
            view[i] = end(state, <uint64_t>8 << 56, 1, 3)
    return out


def fingerprints(const uint64_t[::1] values not None, uint64_t k0, uint64_t k1):
    """Return the lower 16 bits of SipHash-1-3 of each value as a uint16 array without zeros.

    While they are 0, the hash is appended to the hashed bytes, as 8 more bytes, and all of these are hashed again.
    """
    cdef Py_ssize_t i
    cdef uint64_t h, length
    cdef State state
    out = np.empty(values.shape[0], np.uint16)
    cdef unsigned short[::1] view = out
    with nogil:
        for i in range(values.shape[0]):
            state = begin(k0, k1)
            h, length = values[i], 0
            while True:
                take(&state, h, 1)
                length += 8
                h = end(state, (length & 0xFF) << 56, 1, 3)
                if h & 0xFFFF:
                    break
            view[i] = <unsigned short>(h & 0xFFFF)
    return out
