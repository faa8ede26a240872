# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Probes of the Bloom filters of many files in one call: the blocks that keys select are read and checked.

Blocks that are close to each other are read together, which for many keys or a small filter is the whole filter.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp

import numpy as np

from ...core.block cimport block_check, block_index
from .local_files cimport pb_close, pb_is_same, pb_open, pb_read_at_once, pb_read_range

cpdef enum:
    ABSENT = 0   # none of the keys is in the filter
    MAYBE = 1    # some may be
    EMPTY = 2    # no bit of the filter is set: perhaps it was never filled
    ODD = 3      # the header is not the usual one of a filter of this length
    UNREAD = 4   # the bytes could not be read

cdef enum:
    TOGETHER = 64       # files that are open at a time, so that the disk can work on all their blocks at once
    GAP = 4096          # bytes between blocks that are read along: a call takes as long as copying them
    MAX_RUN = 1 << 18   # bytes that are read at a time
    MAX_HEADER = 19     # bytes of the usual header of the largest filter


cdef struct Range:
    int64_t offset
    int64_t length
    const uint8_t* data


cdef struct OpenFile:
    const char* path        # NULL: only what is in memory
    int descriptor          # -1: not open
    bint failed
    bint at_once            # read only what the page cache has, and ask the kernel for the rest
    bint waits              # something was asked for
    const Range* ranges     # what is in memory
    int64_t num_ranges
    uint8_t* buffer         # of MAX_RUN bytes
    int64_t requests
    int64_t num_bytes


cdef struct Filter:
    int64_t offset          # of the header, or of the bitset if that is known
    int64_t length          # of header and bitset, or of the bitset
    bint has_header         # whether there is a header, which is checked


cdef const uint8_t* fetch(OpenFile* file, int64_t offset, int64_t length) noexcept nogil:
    """Return bytes of a file, valid until the next call; NULL if they are waited for, or cannot be read."""
    cdef int64_t i
    for i in range(file.num_ranges):
        if file.ranges[i].offset <= offset and offset - file.ranges[i].offset <= file.ranges[i].length - length:
            return file.ranges[i].data + (offset - file.ranges[i].offset)
    if file.failed:
        return NULL
    if file.descriptor < 0:
        file.descriptor = -1 if file.path == NULL else pb_open(file.path)
        if file.descriptor < 0:
            file.failed = True
            return NULL
    if file.at_once:
        if not pb_read_at_once(file.descriptor, file.buffer, length, offset):
            file.waits = True
            return NULL
    elif not pb_read_range(file.descriptor, file.buffer, length, offset):
        file.failed = True
        return NULL
    file.requests += 1
    file.num_bytes += length
    return file.buffer


cdef int write_usual_header(int64_t length, uint8_t* header) noexcept nogil:
    """Write the header that a filter of `length` bytes, header included, has; return its length, or 0 for none."""
    cdef const char* rest = b"\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x00"
    cdef int64_t value
    cdef int digits, i, at
    for digits in range(1, 6):
        value = 2 * (length - 14 - digits)  # as thrift encodes numbers from 0
        if value < 64 or value >> (7 * digits) or (digits > 1 and not value >> (7 * (digits - 1))):
            continue
        header[0] = 0x15
        at = 1
        for i in range(digits):
            header[at] = <uint8_t>(value & 0x7F) | (0x80 if i + 1 < digits else 0)
            value >>= 7
            at += 1
        for i in range(13):
            header[at + i] = <uint8_t>rest[i]
        return at + 13
    return 0


cdef bint has_bit(const uint8_t* data, int64_t length) noexcept nogil:
    cdef int64_t i
    for i in range(length):
        if data[i]:
            return True
    return False


cdef int search_for_a_bit(OpenFile* file, int64_t offset, int64_t length) noexcept nogil:
    """Tell a sparse filter, in which the keys are absent, from one that was never filled."""
    cdef int64_t done = 0, size
    cdef const uint8_t* data
    while done < length:
        size = min(length - done, MAX_RUN)
        data = fetch(file, offset + done, size)
        if data == NULL:
            return UNREAD
        if has_bit(data, size):
            return ABSENT
        done += size
    return EMPTY


cdef int probe_one(OpenFile* file, const Filter* of, const uint64_t* keys, int64_t num_keys) noexcept nogil:
    """Probe a filter for keys in ascending order, which is the order of their blocks."""
    cdef uint8_t header[MAX_HEADER]
    cdef int header_bytes = 0
    cdef bint check_header = of.has_header, is_read = True, any_bit = False
    cdef int64_t bitset, num_bytes, start, end, block, i = 0, j
    cdef uint64_t num_blocks
    cdef const uint8_t* data
    if of.offset < 0 or of.offset > <int64_t>1 << 62 or of.length > <int64_t>1 << 36:
        return ODD
    if check_header:
        header_bytes = write_usual_header(of.length, header)
        if not header_bytes:
            return ODD
    bitset, num_bytes = of.offset + header_bytes, of.length - header_bytes
    num_blocks = num_bytes // 32
    if num_bytes < 32 or num_blocks > 0x7FFFFFFF:
        return ODD
    if num_keys == 0:
        return MAYBE
    while i < num_keys or check_header:
        if check_header:
            start, end = of.offset, bitset
        else:
            start = bitset + 32 * <int64_t>block_index(keys[i], num_blocks)
            end = start + 32
        j = i
        while j < num_keys:
            block = bitset + 32 * <int64_t>block_index(keys[j], num_blocks)
            if block - end > GAP or block + 32 - start > MAX_RUN:
                break
            end = max(end, block + 32)
            j += 1
        data = fetch(file, start, end - start)
        if data == NULL:
            if file.failed:
                return UNREAD
            is_read = False  # go on, so that the kernel is asked for the other blocks as well
        elif check_header and memcmp(data, header, header_bytes):
            return ODD
        elif is_read:
            for i in range(i, j):
                block = bitset + 32 * <int64_t>block_index(keys[i], num_blocks)
                if block_check(data + (block - start), <uint32_t>keys[i]):
                    return MAYBE
            any_bit = any_bit or has_bit(data + max(0, bitset - start), end - max(start, bitset))
        check_header = False
        i = j
    if not is_read:
        return UNREAD
    return ABSENT if any_bit else search_for_a_bit(file, bitset, num_bytes)


cdef void probe_some(
    OpenFile* files, const int64_t* identities, const int64_t* first, int64_t start, int64_t stop,
    const Filter* filters, const int64_t* which, const int64_t* first_key, const uint64_t* keys,
    uint8_t* answers, uint8_t* same, Py_ssize_t count
) noexcept nogil:
    """Probe the filters [start, stop) of `count` files, at most TOGETHER; `first` has indices of their filters."""
    cdef Py_ssize_t i
    cdef int64_t j
    cdef int turn
    cdef OpenFile* file
    for turn in range(2):
        for i in range(count):
            file = files + i
            file.at_once = turn == 0
            if turn == 0 or file.waits:
                for j in range(max(start, first[i]), min(stop, first[i + 1])):
                    if answers[j - start] == UNREAD:
                        answers[j - start] = probe_one(
                            file, filters + j, keys + first_key[which[j]], first_key[which[j] + 1] - first_key[which[j]]
                        )
            if file.waits == (turn == 1):
                # Checked last, so that the bytes are those of the unchanged file.
                same[i] = not file.failed and (
                    file.path == NULL or pb_is_same(file.descriptor, file.path, identities + 5 * i)
                )
                if file.descriptor >= 0:
                    pb_close(file.descriptor)


def usual_header(int64_t length):
    """Return the header, as bytes, that a filter of `length` bytes, header included, has; empty if none fits."""
    cdef uint8_t header[MAX_HEADER]
    cdef int header_bytes = write_usual_header(length, header) if 0 < length <= <int64_t>1 << 36 else 0
    return PyBytes_FromStringAndSize(<const char*>header, header_bytes)


def probe(
    list paths not None, const int64_t[:, ::1] identities not None, dict in_memory not None,
    const int64_t[::1] first not None, Py_ssize_t start, Py_ssize_t stop,
    const int64_t[:, ::1] filters not None, const int64_t[::1] which not None,
    const int64_t[::1] first_key not None, const uint64_t[::1] keys not None,
):
    """Probe filters of many files, and report which files have not changed.

    Parameters
    ----------
    paths : the files, as bytes; None for one of which only the bytes in memory are used.
    identities : of shape (files, 5): the fields of `FileIdentity` as signed 64-bit numbers.
    in_memory : {number of a file: sequence of (offset, bytes)} of what is in memory.
    first : file i has the filters from first[i] to first[i + 1].
    start, stop : of the filters, those to probe; files with none of them are only checked.
    filters : of shape (filters, 3): offset, length, and 1 if a header is in front of the bitset, which is checked to be
        the usual one of this length, else 0.
    which : the number of each filter's set of keys.
    first_key : set i has the keys from first_key[i] to first_key[i + 1].
    keys : hashes, ascending in each set.

    Returns
    -------
    Four arrays: the answer of each filter from `start` to `stop`, which is ABSENT, MAYBE, EMPTY, ODD or UNREAD; whether
    each file is unchanged, without which its answers are meaningless; and the requests and bytes that each took.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """
    cdef Py_ssize_t count = len(paths), i, j, begin, end, num_ranges = 0
    if identities.shape[0] != count or identities.shape[1] != 5 or first.shape[0] != count + 1:
        raise ValueError("identities and first filters do not fit the number of files")
    if filters.shape[1] != 3 or which.shape[0] != filters.shape[0]:
        raise ValueError("there must be three numbers and a set of keys for each filter")
    if first[0] < 0 or first[count] > filters.shape[0] or not 0 <= start <= stop <= filters.shape[0]:
        raise ValueError("first filters must lie within the filters")
    for i in range(count):
        if first[i] > first[i + 1]:
            raise ValueError("first filters must not decrease")
    if first_key.shape[0] == 0 or first_key[0] < 0 or first_key[first_key.shape[0] - 1] > keys.shape[0]:
        raise ValueError("first keys must lie within the keys")
    for i in range(first_key.shape[0] - 1):
        if first_key[i] > first_key[i + 1]:
            raise ValueError("first keys must not decrease")
        for j in range(first_key[i] + 1, first_key[i + 1]):
            if keys[j - 1] > keys[j]:
                raise ValueError("the keys of a set must be ascending")
    for i in range(which.shape[0]):
        if not 0 <= which[i] < first_key.shape[0] - 1:
            raise ValueError(f"there is no set {which[i]} of keys")
    for path in paths:
        if path is not None and (not isinstance(path, bytes) or b"\0" in path):
            raise ValueError("paths are bytes without null characters")
    answers = np.full(stop - start, UNREAD, np.uint8)
    same, costs = np.ones(count, np.bool_), np.zeros((2, count), np.int64)
    if count == 0:
        return answers, same, costs[0], costs[1]
    cdef uint8_t no_answer = 0
    cdef int64_t no_number = 0
    cdef uint64_t no_key = 0
    cdef uint8_t[::1] answer_of = answers
    cdef uint8_t[::1] is_same = same.view(np.uint8)
    cdef int64_t[:, ::1] cost_of = costs
    cdef const uint8_t[::1] view
    views = {
        file: [(offset, np.frombuffer(data, np.uint8)) for offset, data in ranges] for file, ranges in in_memory.items()
    }
    num_ranges = sum(map(len, views.values()))
    cdef OpenFile* files = <OpenFile*>malloc(count * sizeof(OpenFile))
    cdef Filter* described = <Filter*>malloc(max(1, filters.shape[0]) * sizeof(Filter))
    cdef Range* ranges_of = <Range*>malloc(max(1, num_ranges) * sizeof(Range))
    cdef uint8_t* buffer = <uint8_t*>malloc(MAX_RUN)
    try:
        if files == NULL or described == NULL or ranges_of == NULL or buffer == NULL:
            raise MemoryError()
        for i in range(filters.shape[0]):
            described[i].offset, described[i].length = filters[i, 0], filters[i, 1]
            described[i].has_header = filters[i, 2] != 0
        for i in range(count):
            files[i].path = NULL if paths[i] is None else PyBytes_AS_STRING(paths[i])
            files[i].descriptor, files[i].failed, files[i].waits = -1, False, False
            files[i].buffer = buffer
            files[i].requests = files[i].num_bytes = 0
            files[i].ranges, files[i].num_ranges = NULL, 0
        num_ranges = 0
        for i, ranges in views.items():
            if not 0 <= i < count:
                raise ValueError(f"there is no file {i}")
            files[i].ranges = ranges_of + num_ranges
            for offset, data in ranges:
                view = data
                if view.shape[0] and offset >= 0:
                    ranges_of[num_ranges] = Range(offset, view.shape[0], &view[0])
                    num_ranges += 1
                    files[i].num_ranges += 1
        for begin in range(0, count, TOGETHER):
            end = min(count, begin + TOGETHER)
            with nogil:
                probe_some(
                    files + begin, &identities[begin, 0], &first[begin], start, stop, described,
                    &which[0] if which.shape[0] else &no_number, &first_key[0],
                    &keys[0] if keys.shape[0] else &no_key,
                    &answer_of[0] if answer_of.shape[0] else &no_answer, &is_same[begin], end - begin
                )
            PyErr_CheckSignals()
        for i in range(count):
            cost_of[0, i], cost_of[1, i] = files[i].requests, files[i].num_bytes
    finally:
        free(files)
        free(described)
        free(ranges_of)
        free(buffer)
    return answers, same, costs[0], costs[1]
