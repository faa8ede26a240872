"""One 256-bit block in plain Cython: eight words of 32 bits, in each of which a key sets one bit."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "constants.h":
    const uint32_t SALT "pb_salt"[8]


cdef inline uint32_t bit_index(uint32_t key, int word) noexcept nogil:
    return (key * SALT[word]) >> 27


cdef inline uint32_t block_index(uint64_t h, uint64_t num_blocks) noexcept nogil:
    """Return the block that the upper half of a hash selects, by multiply-shift."""
    return <uint32_t>(((h >> 32) * num_blocks) >> 32)


cdef inline void block_insert(uint8_t* block, uint32_t key) noexcept nogil:
    cdef uint32_t words[8]
    cdef int i
    memcpy(words, block, 32)  # a bitset may have any alignment
    for i in range(8):
        words[i] |= <uint32_t>1 << bit_index(key, i)
    memcpy(block, words, 32)


cdef inline bint block_check(const uint8_t* block, uint32_t key) noexcept nogil:
    cdef uint32_t words[8]
    cdef uint32_t all_set = 1
    cdef int i
    memcpy(words, block, 32)
    for i in range(8):
        all_set &= words[i] >> bit_index(key, i)
    return all_set & 1


cdef inline void insert_hash(uint8_t* bitset, uint64_t num_blocks, uint64_t h) noexcept nogil:
    block_insert(bitset + 32 * <size_t>block_index(h, num_blocks), <uint32_t>h)


cdef inline bint check_hash(const uint8_t* bitset, uint64_t num_blocks, uint64_t h) noexcept nogil:
    return block_check(bitset + 32 * <size_t>block_index(h, num_blocks), <uint32_t>h)


cdef inline uint64_t count_blocks(Py_ssize_t num_bytes) except 0:
    """Return the number of complete blocks of a bitset."""
    cdef uint64_t num_blocks = num_bytes // 32
    if num_blocks == 0 or num_blocks > <uint64_t>0x7FFFFFFF:
        raise ValueError(f"a bitset has 1 to 2^31 - 1 blocks of 32 bytes, not {num_bytes} bytes")
    return num_blocks
