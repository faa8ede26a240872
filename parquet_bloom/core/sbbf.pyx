# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The split-block Bloom filter: blocks of 256 bits, eight words of 32 bits a block, one bit a word and key.

Source: the Parquet format's BloomFilter.md. A hash's upper half chooses the block by multiply-shift, its lower half
the eight bits. A *bitset* is a buffer of bytes; only its whole blocks count (writers exist that leave a shorter rest).
"""

from cpython.buffer cimport Py_buffer, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from .block cimport num_blocks_of

from .dispatch import kernels
from .keys import Keys

BLOCK_BYTES = 32

insert_keys = kernels.insert_keys
check_keys = kernels.check_keys
probe_filters = kernels.probe_filters

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define pb_popcount32(x) __builtin_popcount(x)
    #else
    static int pb_popcount32(uint32_t x) {
        x -= (x >> 1) & 0x55555555U;
        x = (x & 0x33333333U) + ((x >> 2) & 0x33333333U);
        return (int)((((x + (x >> 4)) & 0x0F0F0F0FU) * 0x01010101U) >> 24);
    }
    #endif
    """
    int popcount32 "pb_popcount32"(uint32_t) nogil

cdef class Bitset:
    """What holds a bitset and gives its bytes out by the buffer protocol (Python classes cannot before 3.12)."""

    cdef public object _bitset  # uint8 array

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyObject_GetBuffer(self._bitset, buffer, flags)  # the array becomes the view's owner and releases it


def insert_hashes(bitset not None, hashes not None):
    """Insert keys given by their hashes (a uint64 array)."""
    insert_keys(bitset, Keys.hashed(hashes))


def check_hashes(bitset not None, hashes not None):
    """Probe keys given by their hashes (a uint64 array): a bool array, False where the key is certainly absent."""
    return check_keys(bitset, Keys.hashed(hashes))


def merge(uint8_t[::1] bitset not None, const uint8_t[::1] other not None):
    """OR `other` into `bitset`; both have the same size, so that every key keeps its block."""
    cdef Py_ssize_t i
    if bitset.shape[0] != other.shape[0]:
        raise ValueError(f"bitsets of {bitset.shape[0]} and {other.shape[0]} bytes cannot be merged")
    with nogil:
        for i in range(bitset.shape[0]):
            bitset[i] |= other[i]


def fold(const uint8_t[::1] bitset not None):
    """Half the bitset: blocks 2i and 2i + 1 ORed into block i, where multiply-shift sends their keys at half the size."""
    cdef uint64_t num_blocks = num_blocks_of(bitset.shape[0])
    cdef Py_ssize_t i, j
    if num_blocks % 2:
        raise ValueError(f"an odd number of blocks ({num_blocks}) cannot be folded")
    out = np.empty(16 * num_blocks, dtype=np.uint8)
    cdef uint8_t[::1] half = out
    with nogil:
        for i in range(<Py_ssize_t>(num_blocks // 2)):
            for j in range(32):
                half[32 * i + j] = bitset[64 * i + j] | bitset[64 * i + 32 + j]
    return out


def measure(const uint8_t[::1] bitset not None):
    """Count what is set: (set bits, false-positive probability for a random absent key).

    A random key asks for one random bit in each of a random block's eight words, so the probability is the mean over
    the blocks of the product of the words' shares of set bits.
    """
    cdef uint64_t num_blocks = num_blocks_of(bitset.shape[0])
    cdef const uint8_t* blocks = &bitset[0]
    cdef uint64_t bits = 0
    cdef double total = 0.0
    cdef double product
    cdef uint32_t words[8]
    cdef uint64_t b
    cdef int i, count
    with nogil:
        for b in range(num_blocks):
            memcpy(words, blocks + 32 * b, 32)
            product = 1.0
            for i in range(8):
                count = popcount32(words[i])
                bits += count
                product *= count / 32.0
            total += product
    return bits, total / num_blocks
