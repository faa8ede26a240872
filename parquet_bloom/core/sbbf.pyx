# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The split-block Bloom filter: blocks of 256 bits, eight words of 32 bits a block, one bit a word and key.

Source: the Parquet format's BloomFilter.md. A hash's upper half chooses the block by multiply-shift, its lower half
the eight bits. A *bitset* is a buffer of bytes; only its whole blocks count (writers exist that leave a shorter rest).
"""

from cpython.buffer cimport Py_buffer, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from .xxh64 cimport Keys, hash_chunk, is_valid

BLOCK_BYTES = 32

cdef extern from *:
    """
    /* The eight odd multipliers of the specification, one a word of the block. */
    static const uint32_t PB_SALT[8] = {
        0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU, 0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};
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
    const uint32_t SALT "PB_SALT"[8]
    int popcount32 "pb_popcount32"(uint32_t) nogil

cdef enum:
    CHUNK = 128  # keys hashed before their blocks are touched: small enough for the first cache


cdef inline uint32_t bit_of(uint32_t key, int word) noexcept nogil:
    return (key * SALT[word]) >> 27


cdef inline uint64_t block_of(uint64_t h, uint64_t num_blocks) noexcept nogil:
    return ((h >> 32) * num_blocks) >> 32


cdef inline void block_insert(uint8_t* block, uint32_t key) noexcept nogil:
    cdef uint32_t words[8]
    cdef int i
    memcpy(words, block, 32)  # a bitset stands at any address
    for i in range(8):
        words[i] |= <uint32_t>1 << bit_of(key, i)
    memcpy(block, words, 32)


cdef inline uint8_t block_check(const uint8_t* block, uint32_t key) noexcept nogil:
    cdef uint32_t words[8]
    cdef uint32_t found = 1
    cdef int i
    memcpy(words, block, 32)
    for i in range(8):
        found &= words[i] >> bit_of(key, i)
    return found & 1


cdef void insert_hash(uint8_t* blocks, uint64_t num_blocks, uint64_t h) noexcept nogil:
    block_insert(blocks + 32 * block_of(h, num_blocks), <uint32_t>h)


cdef uint64_t num_blocks_of(Py_ssize_t num_bytes) except 0:
    cdef uint64_t num_blocks = num_bytes // 32
    if num_blocks == 0 or num_blocks > <uint64_t>0x7FFFFFFF:
        raise ValueError(f"a bitset has 1 to 2^31 - 1 blocks of 32 bytes, not {num_bytes} bytes")
    return num_blocks


cdef class Bitset:
    """What holds a bitset and gives its bytes out by the buffer protocol (Python classes cannot before 3.12)."""

    cdef public object _bitset  # uint8 array

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyObject_GetBuffer(self._bitset, buffer, flags)  # the array becomes the view's owner and releases it


def insert_keys(uint8_t[::1] bitset not None, Keys keys not None):
    """Insert every valid key."""
    cdef uint64_t num_blocks = num_blocks_of(bitset.shape[0])
    cdef uint8_t* blocks = &bitset[0]
    cdef uint64_t hashes[CHUNK]
    cdef Py_ssize_t n = keys.span.length
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t count, i
    with nogil:
        while start < n:
            count = min(n - start, <Py_ssize_t>CHUNK)
            hash_chunk(&keys.span, start, count, hashes)
            if keys.span.validity == NULL:
                for i in range(count):
                    block_insert(blocks + 32 * block_of(hashes[i], num_blocks), <uint32_t>hashes[i])
            else:
                for i in range(count):
                    if is_valid(&keys.span, start + i):
                        block_insert(blocks + 32 * block_of(hashes[i], num_blocks), <uint32_t>hashes[i])
            start += count


def check_keys(const uint8_t[::1] bitset not None, Keys keys not None):
    """Probe every key: a bool array, False where the key is certainly absent. A null is not hashed and answers True."""
    cdef uint64_t num_blocks = num_blocks_of(bitset.shape[0])
    cdef const uint8_t* blocks = &bitset[0]
    cdef uint64_t hashes[CHUNK]
    cdef Py_ssize_t n = keys.span.length
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t count, i
    out = np.empty(n, dtype=np.bool_)
    cdef uint8_t[::1] found = out.view(np.uint8)
    with nogil:
        while start < n:
            count = min(n - start, <Py_ssize_t>CHUNK)
            hash_chunk(&keys.span, start, count, hashes)
            for i in range(count):
                found[start + i] = block_check(blocks + 32 * block_of(hashes[i], num_blocks), <uint32_t>hashes[i])
            if keys.span.validity != NULL:
                for i in range(count):
                    found[start + i] |= not is_valid(&keys.span, start + i)
            start += count
    return out


def insert_hashes(uint8_t[::1] bitset not None, const uint64_t[::1] hashes not None):
    """Insert keys given by their hashes."""
    cdef uint64_t num_blocks = num_blocks_of(bitset.shape[0])
    cdef uint8_t* blocks = &bitset[0]
    cdef Py_ssize_t i
    with nogil:
        for i in range(hashes.shape[0]):
            block_insert(blocks + 32 * block_of(hashes[i], num_blocks), <uint32_t>hashes[i])


def check_hashes(const uint8_t[::1] bitset not None, const uint64_t[::1] hashes not None):
    """Probe keys given by their hashes: a bool array, False where the key is certainly absent."""
    cdef uint64_t num_blocks = num_blocks_of(bitset.shape[0])
    cdef const uint8_t* blocks = &bitset[0]
    cdef Py_ssize_t i
    out = np.empty(hashes.shape[0], dtype=np.bool_)
    cdef uint8_t[::1] found = out.view(np.uint8)
    with nogil:
        for i in range(hashes.shape[0]):
            found[i] = block_check(blocks + 32 * block_of(hashes[i], num_blocks), <uint32_t>hashes[i])
    return out


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
