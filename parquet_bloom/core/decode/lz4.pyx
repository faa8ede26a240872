# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Count the bytes that an LZ4 block decompresses to, which neither the block nor pyarrow's codec reports.

Source: lz4_Block_format.md of LZ4.
"""

from libc.stdint cimport int64_t, uint8_t

from ...errors import UnusualPageError


cdef int64_t add_length(const uint8_t* data, Py_ssize_t* pos, Py_ssize_t end, int64_t nibble) noexcept nogil:
    """Return a length that begins in four bits of a token; -1 if its further bytes are cut off."""
    cdef int64_t length = nibble
    cdef uint8_t more = 255
    if nibble < 15:
        return length
    while more == 255:
        if pos[0] >= end:
            return -1
        more = data[pos[0]]
        pos[0] += 1
        length += more
    return length


cdef int64_t count(const uint8_t* data, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t pos = 0
    cdef int64_t total = 0, length
    cdef uint8_t token
    while pos < end:
        token = data[pos]
        pos += 1
        length = add_length(data, &pos, end, token >> 4)
        if length < 0 or length > end - pos:
            return -1
        pos += length
        total += length
        if pos == end:  # the last sequence has no match
            return total
        pos += 2
        if pos > end:
            return -1
        length = add_length(data, &pos, end, token & 15)
        if length < 0:
            return -1
        total += length + 4
    return -1


def count_unpacked(const uint8_t[::1] data not None) -> int:
    """Return the number of bytes that a block decompresses to, by the lengths in it.

    Raises
    ------
    UnusualPageError
        The block is cut off.
    """
    cdef int64_t total
    with nogil:
        total = count(&data[0], data.shape[0]) if data.shape[0] else -1
    if total < 0:
        raise UnusualPageError("lz4: the block is cut off")
    return total
