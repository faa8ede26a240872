# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Decompress the beginning of a Snappy block, to read one value of a page without decompressing the rest.

Source: format_description.txt of Snappy.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np


cdef Py_ssize_t read_size(const uint8_t* data, Py_ssize_t end, int64_t* size) noexcept nogil:
    """Read the uncompressed size that a block begins with; return where its data starts, or -1 if there is none."""
    cdef uint64_t announced = 0
    cdef Py_ssize_t pos = 0
    cdef int shift = 0
    while True:
        if pos >= end or shift > 28:
            return -1
        announced |= <uint64_t>(data[pos] & 0x7F) << shift
        shift += 7
        pos += 1
        if data[pos - 1] < 0x80:
            size[0] = <int64_t>announced
            return pos


cdef int64_t unpack(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, uint8_t* out, int64_t size, int64_t needed
) noexcept nogil:
    """Decompress until `needed` of `size` bytes are available; return their number, or -1 if the data is invalid.

    If all of them are needed, the data must end with them.
    """
    cdef int64_t done = 0, length, offset, i
    cdef int more
    cdef uint8_t tag
    while done < needed and pos < end:
        tag = data[pos]
        pos += 1
        if tag & 3 == 0:
            length = (tag >> 2) + 1
            if length > 60:
                more = <int>length - 60
                if more > end - pos:
                    return -1
                length = 1
                for i in range(more):
                    length += <int64_t>data[pos + i] << (8 * i)
                pos += more
            if length > end - pos or length > size - done:
                return -1
            if length <= SLACK and end - pos >= SLACK:
                memcpy(out + done, data + pos, SLACK)
            else:
                memcpy(out + done, data + pos, length)
            pos += length
            done += length
            continue
        more = 4 if tag & 3 == 3 else tag & 3
        if more > end - pos:
            return -1
        length = (tag >> 2) + 1
        if more == 1:
            length = ((tag >> 2) & 7) + 4
            offset = (<int64_t>(tag >> 5) << 8) | data[pos]
        else:
            offset = data[pos] | (<int64_t>data[pos + 1] << 8)
            if more == 4:
                offset |= (<int64_t>data[pos + 2] << 16) | (<int64_t>data[pos + 3] << 24)
        pos += more
        if offset == 0 or offset > done or length > size - done:
            return -1
        if offset >= SLACK:
            i = 0
            while i < length:
                memcpy(out + done + i, out + done + i - offset, SLACK)
                i += SLACK
        else:  # source and destination overlap: it repeats the bytes just written
            for i in range(length):
                out[done + i] = out[done + i - offset]
        done += length
    return -1 if done == size == needed and pos < end else done


def unpack_front(const uint8_t[::1] data not None, Py_ssize_t size, Py_ssize_t needed):
    """Return at least the first `needed` of the `size` uncompressed bytes as a uint8 array; all of them if fewer.

    The data after them is not read, and so may be invalid; if all are needed, none may follow.

    Raises
    ------
    ValueError
        The data is not a valid beginning of `size` compressed bytes.
    """
    cdef int64_t announced = 0
    cdef Py_ssize_t pos
    cdef int64_t done
    cdef uint8_t[::1] out
    if size < 0 or needed < 0:
        raise ValueError("a size is below 0")
    pos = read_size(&data[0], data.shape[0], &announced) if data.shape[0] else -1
    if pos < 0:
        raise ValueError("snappy: the size in front is missing")
    if announced != size:
        raise ValueError(f"snappy: {announced} bytes were compressed, not {size}")
    result = np.empty(size + SLACK, np.uint8)
    out = result
    with nogil:
        done = unpack(&data[0], pos, data.shape[0], &out[0], size, min(needed, size))
    if done < min(needed, size):
        raise ValueError("snappy: the bytes are broken")
    return result[:done]
