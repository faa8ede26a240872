# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Single blocks of many bitsets: locate a key's block in each, and probe blocks that were read."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from ..block cimport block_check, block_index, count_blocks


def locate_blocks(const int64_t[::1] num_bytes not None, const uint64_t[::1] hashes not None):
    """Return the offset of the block of each hash in each bitset.

    Parameters
    ----------
    num_bytes : sizes of the bitsets.
    hashes : keys.

    Returns
    -------
    int64 array of shape (bitsets, hashes), in bytes from the bitset's beginning.

    Raises
    ------
    ValueError
        A size is not valid for a bitset.
    """
    cdef Py_ssize_t i, j
    cdef uint64_t num_blocks
    out = np.empty((num_bytes.shape[0], hashes.shape[0]), dtype=np.int64)
    cdef int64_t[:, ::1] offsets = out
    for i in range(num_bytes.shape[0]):
        num_blocks = count_blocks(num_bytes[i])
        for j in range(hashes.shape[0]):
            offsets[i, j] = 32 * <int64_t>block_index(hashes[j], num_blocks)
    return out


def check_blocks(
    const uint8_t[:, ::1] blocks not None, const int64_t[:, ::1] numbers not None, const uint64_t[::1] hashes not None
):
    """Probe each hash in the blocks that were read for it.

    Parameters
    ----------
    blocks : blocks, of shape (blocks, 32).
    numbers : index of the block of each bitset and hash, of shape (bitsets, hashes).
    hashes : keys.

    Returns
    -------
    bool array of the shape of `numbers`, False where a key is certainly absent.

    Raises
    ------
    ValueError
        The shapes do not match, or an index is out of range.
    """
    cdef Py_ssize_t i, j
    cdef Py_ssize_t num_hashes = hashes.shape[0]
    if blocks.shape[1] != 32 or numbers.shape[1] != num_hashes:
        raise ValueError("blocks have 32 bytes, and numbers a column a hash")
    out = np.empty((numbers.shape[0], num_hashes), dtype=np.bool_)
    cdef uint8_t[:, ::1] results = out.view(np.uint8)
    for i in range(numbers.shape[0]):
        for j in range(num_hashes):
            if not 0 <= numbers[i, j] < blocks.shape[0]:
                raise ValueError(f"block {numbers[i, j]} is out of range: there are {blocks.shape[0]}")
            results[i, j] = block_check(&blocks[numbers[i, j], 0], <uint32_t>hashes[j])
    return out
