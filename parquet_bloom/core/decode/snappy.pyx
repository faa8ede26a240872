# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Decompress Snappy blocks, or the beginning of one, to read one value of a page without decompressing the rest.

Source: format_description.txt of Snappy.
"""

from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from ...errors import UnusualPageError

cdef extern from "snappy.h" nogil:
    ctypedef struct Block "pb_snappy":
        const uint8_t* next "in"  # of the compressed bytes, up to `end`
        const uint8_t* end "in_end"
        uint8_t* start  # of the decompressed bytes
        uint8_t* out    # next one
        uint8_t* stop   # of those that are needed
        uint8_t* out_end
    void prepare "pb_snappy_prepare"()
    void run "pb_snappy_run"(Block* block)
    int run_two "pb_snappy_run_two"(Block* blocks)

cdef extern from "Python.h":
    Py_ssize_t count_references "Py_REFCNT"(PyObject* object)

prepare()

cdef enum:
    MOST_KEPT = 16           # arrays of a `Scratch`
    MOST_KEPT_BYTES = 8 << 20


cdef class Scratch:
    """Arrays that are used again once nothing refers to them: each page of fresh memory costs a fault and zeroing."""

    cdef list arrays

    def __init__(self):
        self.arrays = []

    def take(self, Py_ssize_t size):
        """Return a uint8 array of `size` bytes of any content."""
        cdef Py_ssize_t i
        for i in range(len(self.arrays)):
            if count_references(<PyObject*>PyList_GET_ITEM(self.arrays, i)) == 1:
                if len(self.arrays[i]) >= size:
                    return self.arrays[i][:size]
                if size <= MOST_KEPT_BYTES:
                    self.arrays[i] = np.empty(size + size // 8, np.uint8)
                    return self.arrays[i][:size]
        array = np.empty(size + size // 8, np.uint8)
        if size <= MOST_KEPT_BYTES and len(self.arrays) < MOST_KEPT:
            self.arrays.append(array)
        return array[:size]


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


cdef int step(Block* block) noexcept nogil:
    """Decompress one element of any kind, checking each of its bytes; return whether it is valid."""
    cdef const uint8_t* data = block.next
    cdef uint8_t* out = block.out
    cdef int64_t left = block.end - data, room = block.out_end - out, pos = 1, length, offset, i
    cdef int more
    cdef uint8_t tag
    if left < 1:
        return False
    tag = data[0]
    if tag & 3 == 0:
        length = (tag >> 2) + 1
        if length > 60:
            more = <int>length - 60
            if more > left - pos:
                return False
            length = 1
            for i in range(more):
                length += <int64_t>data[pos + i] << (8 * i)
            pos += more
        if length > left - pos or length > room:
            return False
        memcpy(out, data + pos, length)
        block.next, block.out = data + pos + length, out + length
        return True
    more = 4 if tag & 3 == 3 else tag & 3
    if more > left - pos:
        return False
    length = (tag >> 2) + 1
    if more == 1:
        length = ((tag >> 2) & 7) + 4
        offset = (<int64_t>(tag >> 5) << 8) | data[pos]
    else:
        offset = data[pos] | (<int64_t>data[pos + 1] << 8)
        if more == 4:
            offset |= (<int64_t>data[pos + 2] << 16) | (<int64_t>data[pos + 3] << 24)
    if offset == 0 or offset > out - block.start or length > room:
        return False
    i = 0
    if offset < SLACK:  # source and destination overlap: it repeats the bytes just written
        while i < min(length, <int64_t>SLACK):
            out[i] = out[i - offset]
            i += 1
        offset *= (SLACK + offset - 1) // offset  # of the same bytes, far enough
    while i < length:
        memcpy(out + i, out + i - offset, SLACK)
        i += SLACK
    block.next, block.out = data + pos + more, out + length
    return True


cdef inline int64_t finish(Block* block) noexcept nogil:
    """Decompress what is needed; return the number of bytes that are available, or -1 if the data is invalid."""
    while block.out < block.stop and block.next < block.end:
        run(block)
        if block.out < block.stop and not step(block):
            return -1
    if block.out == block.out_end == block.stop and block.next < block.end:
        return -1
    return block.out - block.start


cdef inline Block open_block(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, uint8_t* out, int64_t size, int64_t needed
) noexcept nogil:
    cdef Block block
    block.next, block.end = data + pos, data + end
    block.start = block.out = out
    block.stop, block.out_end = out + needed, out + size
    return block


cdef int64_t unpack(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, uint8_t* out, int64_t size, int64_t needed
) noexcept nogil:
    """Decompress until `needed` of `size` bytes are available; return their number, or -1 if the data is invalid.

    If all of them are needed, the data must end with them.
    """
    cdef Block block = open_block(data, pos, end, out, size, needed)
    return finish(&block)


cdef void unpack_two(Block* blocks) noexcept nogil:
    """Decompress two blocks, in turn as long as both have elements for it; `finish` has to follow for each."""
    cdef int left
    while True:
        left = run_two(blocks)
        if left == 2 or not step(&blocks[left]):
            return


cdef _open(const uint8_t[::1] data, Py_ssize_t size, Py_ssize_t needed, Block* block, Scratch scratch=None):
    """Make a buffer for a block, and prepare to decompress it; return the buffer, which is SLACK bytes longer."""
    cdef int64_t announced = 0
    cdef Py_ssize_t pos
    cdef uint8_t[::1] out
    if size < 0 or needed < 0:
        raise ValueError("a size is below 0")
    pos = read_size(&data[0], data.shape[0], &announced) if data.shape[0] else -1
    if pos < 0:
        raise UnusualPageError("snappy: the size in front is missing")
    if announced != size:
        raise UnusualPageError(f"snappy: {announced} bytes were compressed, not {size}")
    result = np.empty(size + SLACK, np.uint8) if scratch is None else scratch.take(size + SLACK)
    out = result
    block[0] = open_block(&data[0], pos, data.shape[0], &out[0], size, min(needed, size))
    return result


cdef _close(result, const Block* block, int64_t done):
    if done < block.stop - block.start:
        raise UnusualPageError("snappy: the bytes are broken")
    return result[:done]


def unpack_front(const uint8_t[::1] data not None, Py_ssize_t size, Py_ssize_t needed):
    """Return at least the first `needed` of the `size` uncompressed bytes as a uint8 array; all of them if fewer.

    The data after them is not read, and so may be invalid; if all are needed, none may follow.

    Raises
    ------
    UnusualPageError
        The data is not a valid beginning of `size` compressed bytes.
    """
    cdef Block block
    cdef int64_t done
    result = _open(data, size, needed, &block)
    with nogil:
        done = finish(&block)
    return _close(result, &block, done)


def unpack_pair(
    const uint8_t[::1] first not None, Py_ssize_t first_size, const uint8_t[::1] second not None,
    Py_ssize_t second_size, Scratch scratch=None
):
    """Return all uncompressed bytes of two blocks as uint8 arrays, in little more time than one of them takes.

    The arrays are taken from `scratch`, if there is one.

    Raises
    ------
    UnusualPageError
        The data of one is invalid.
    """
    cdef Block[2] blocks
    cdef int64_t[2] done
    one = _open(first, first_size, first_size, &blocks[0], scratch)
    other = _open(second, second_size, second_size, &blocks[1], scratch)
    with nogil:
        unpack_two(blocks)
        done[0] = finish(&blocks[0])
        done[1] = finish(&blocks[1])
    return _close(one, &blocks[0], done[0]), _close(other, &blocks[1], done[1])
