# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Decoders for decompressed data pages: runs of levels or dictionary indices, and byte arrays.

Nothing here trusts the bytes: truncated pages end in MalformedFooterError.

Source: Encodings.md of the format: "RLE / bit-packing hybrid", "PLAIN".
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy

import numpy as np

from ..errors import MalformedFooterError

from .runs cimport Runs, describe_problem, locate_values, require_repeated, start_runs, take_numbers

cdef enum:
    MOST_VALUES = 1 << 24  # of a page: runs of a few bytes could claim any amount of memory
    MOST_TAKEN = 1 << 28   # bytes copied: many rows may share one long value of a dictionary


cdef int fail(str problem) except -1:
    raise MalformedFooterError(f"page: {problem}")


cdef Runs open_runs(const uint8_t[::1] data, int width) except *:
    cdef Runs runs
    if not 1 <= width <= 32:
        fail(f"numbers of {width} bits")
    start_runs(&runs, &data[0] if data.shape[0] else NULL, data.shape[0], width)
    return runs


cdef int require_ascending(const int64_t[::1] numbers, Py_ssize_t count) except -1:
    cdef Py_ssize_t i
    for i in range(numbers.shape[0]):
        if numbers[i] < 0 or numbers[i] >= count or (i and numbers[i] < numbers[i - 1]):
            fail(f"positions must ascend below {count}, got {numbers[i]}")
    return 0


def take_hybrid(const uint8_t[::1] data not None, int width, const int64_t[::1] numbers not None):
    """Decode some of the `width`-bit numbers stored in runs, as an int64 array.

    Parameters
    ----------
    numbers : positions of the numbers, counted from 0, ascending.

    Raises
    ------
    MalformedFooterError
        A position is past the end, or `width` is invalid.
    """
    cdef Runs runs
    cdef int64_t[::1] out
    cdef int problem
    result = np.zeros(numbers.shape[0], np.int64)
    if numbers.shape[0] == 0:
        return result
    out = result
    require_ascending(numbers, MOST_VALUES)
    if width == 0:  # a dictionary of one entry has numbers of no bits
        problem = require_repeated(&data[0] if data.shape[0] else NULL, data.shape[0], numbers[numbers.shape[0] - 1] + 1)
        if problem:
            fail(describe_problem(problem, width))
        return result
    runs = open_runs(data, width)
    problem = take_numbers(&runs, &numbers[0], numbers.shape[0], &out[0])
    if problem:
        fail(describe_problem(problem, width))
    return result


def find_values(const uint8_t[::1] levels not None, Py_ssize_t count, const int64_t[::1] rows not None):
    """Find the values of some rows of a page, by definition levels of one bit.

    Parameters
    ----------
    levels : one bit per row, in runs: whether the row has a value.
    count : number of rows of the page.
    rows : rows to find, counted from 0, ascending.

    Returns
    -------
    (has_value, numbers) : a bool array of the length of `rows`; and for each of these that has a value, its position
        among the page's values, int64.

    Raises
    ------
    MalformedFooterError
        There are too few levels.
    """
    cdef Runs runs = open_runs(levels, 1)
    cdef uint8_t[::1] out
    cdef int64_t[::1] number_view
    cdef Py_ssize_t num_values = 0
    require_ascending(rows, count)
    has_value, numbers = np.zeros(rows.shape[0], np.uint8), np.empty(rows.shape[0], np.int64)
    if rows.shape[0]:
        out, number_view = has_value, numbers
        num_values = locate_values(&runs, &rows[0], rows.shape[0], &out[0], &number_view[0])
    if num_values < 0:
        fail(describe_problem(<int>num_values, 1))
    return has_value.view(np.bool_), numbers[:num_values]


def take_byte_arrays(const uint8_t[::1] data not None, const int64_t[::1] numbers not None):
    """Copy some of the length-prefixed byte arrays in a buffer, in the same format.

    Parameters
    ----------
    numbers : positions of the byte arrays, counted from 0, in any order.

    Raises
    ------
    MalformedFooterError
        A position is past the end, or the result would exceed 256 MiB.
    """
    cdef Py_ssize_t pos = 0, end = data.shape[0], total = 0, i, at, value = 0
    cdef int64_t[::1] order
    cdef const int64_t* sorted_by = NULL  # where the numbers are not ascending already
    cdef int64_t[::1] starts = np.empty(numbers.shape[0], np.int64)
    cdef int64_t[::1] lengths = np.empty(numbers.shape[0], np.int64)
    cdef uint32_t length = 0
    cdef uint8_t[::1] out
    for i in range(1, numbers.shape[0]):
        if numbers[i] < numbers[i - 1]:
            order = np.argsort(numbers, kind="stable")
            sorted_by = &order[0]
            break
    for i in range(numbers.shape[0]):
        at = i if sorted_by == NULL else sorted_by[i]
        if numbers[at] < value and not (i and numbers[at] == value - 1):
            fail(f"value {numbers[at]} does not exist")
        while value <= numbers[at]:
            if end - pos < 4:
                fail(f"there are {value} values, not {numbers[at] + 1}")
            memcpy(&length, &data[pos], 4)  # little-endian, as the processor is
            if length > <uint64_t>(end - pos - 4):
                fail(f"value {value} is cut off")
            pos += 4 + <Py_ssize_t>length
            value += 1
        starts[at] = pos - 4 - length
        lengths[at] = 4 + <int64_t>length
        total += lengths[at]
        if total > MOST_TAKEN:
            fail(f"values of more than {MOST_TAKEN} bytes are requested")
    result = np.empty(total, np.uint8)
    if total:
        out = result
        pos = 0
        for i in range(numbers.shape[0]):
            memcpy(&out[pos], &data[starts[i]], lengths[i])
            pos += lengths[i]
    return result.tobytes()


def take_fixed(const uint8_t[::1] data not None, Py_ssize_t width, const int64_t[::1] numbers not None):
    """Copy some of the `width`-byte values in a buffer.

    Parameters
    ----------
    numbers : positions of the values, counted from 0, in any order.

    Raises
    ------
    MalformedFooterError
        A position is past the end.
    """
    cdef Py_ssize_t i, count
    cdef uint8_t[::1] out
    if width <= 0:
        fail(f"values of {width} bytes")
    count = data.shape[0] // width
    result = np.empty(numbers.shape[0] * width, np.uint8)
    if numbers.shape[0]:
        out = result
    for i in range(numbers.shape[0]):
        if not 0 <= numbers[i] < count:
            fail(f"there are {count} values, not {numbers[i] + 1}")
        memcpy(&out[i * width], &data[numbers[i] * width], width)
    return result.tobytes()


def split_byte_arrays(const uint8_t[::1] data not None, const uint8_t[::1] valid not None):
    """Convert length-prefixed byte arrays to Arrow's layout: offsets, and the bytes without prefixes.

    Parameters
    ----------
    valid : 1 for each entry that has a value, 0 for each that has none.

    Returns
    -------
    (offsets, data) : int32 with one more entry than `valid`; uint8.

    Raises
    ------
    MalformedFooterError
        There are too few or too many byte arrays, or they have more bytes than int32 can count.
    """
    cdef Py_ssize_t pos = 0, end = data.shape[0], total = 0, i
    cdef uint32_t length = 0
    cdef uint8_t[::1] out
    cdef int32_t[::1] ends
    if end > INT32_MAX:
        fail(f"{end} bytes of values")
    offsets, values = np.empty(valid.shape[0] + 1, np.int32), np.empty(end, np.uint8)
    ends, out = offsets, values
    ends[0] = 0
    for i in range(valid.shape[0]):
        if valid[i]:
            if end - pos < 4:
                fail(f"value {i} is missing")
            memcpy(&length, &data[pos], 4)
            if length > <uint64_t>(end - pos - 4):
                fail(f"value {i} is cut off")
            if length:
                memcpy(&out[total], &data[pos + 4], length)
            pos += 4 + <Py_ssize_t>length
            total += length
        ends[i + 1] = <int32_t>total
    if pos != end:
        fail(f"{end - pos} bytes are of no value")
    return offsets, values[:total]


def find_equal(
    const uint8_t[::1] data not None, Py_ssize_t width, const int64_t[::1] numbers not None, list targets not None
):
    """Find the plain-encoded values of a page that are equal, byte for byte, to one of some targets.

    Parameters
    ----------
    width : bytes per value; 0 for length-prefixed byte arrays.
    numbers : positions of the values to compare, counted from 0, ascending.
    targets : bytes objects to search for.

    Returns
    -------
    (positions, target_indices) : int64 arrays: positions in `numbers` of matching values, ascending; and the index in
        `targets` of each.

    Raises
    ------
    MalformedFooterError
        A position is past the end.
    """
    cdef Py_ssize_t pos = 0, end = data.shape[0], i, length = width, count = 0, value = 0
    cdef Py_ssize_t num_targets = len(targets), target
    cdef uint32_t prefix
    cdef const uint8_t* start = NULL
    cdef int64_t[::1] position_view, target_view
    cdef bytes text
    addresses, sizes = np.empty(num_targets, np.uintp), np.empty(num_targets, np.int64)
    cdef uintptr_t[::1] texts = addresses
    cdef int64_t[::1] lengths = sizes
    for target in range(num_targets):
        text = targets[target]
        texts[target] = <uintptr_t><const char*>text
        lengths[target] = len(text)
    positions, target_indices = np.empty(numbers.shape[0], np.int64), np.empty(numbers.shape[0], np.int64)
    position_view, target_view = positions, target_indices
    require_ascending(numbers, MOST_VALUES)
    for i in range(numbers.shape[0]):
        if width:
            if numbers[i] >= end // width:
                fail(f"there are {end // width} values, not {numbers[i] + 1}")
            start = &data[0] + numbers[i] * width
        while width == 0 and value <= numbers[i]:
            if end - pos < 4:
                fail(f"there are {value} values, not {numbers[i] + 1}")
            memcpy(&prefix, &data[pos], 4)  # little-endian, as the processor is
            if prefix > <uint64_t>(end - pos - 4):
                fail(f"value {value} is cut off")
            length = prefix
            start = &data[0] + pos + 4
            pos += 4 + length
            value += 1
        for target in range(num_targets):
            if lengths[target] == length and memcmp(start, <const void*>texts[target], length) == 0:
                position_view[count], target_view[count] = i, target
                count += 1
                break
    return positions[:count], target_indices[:count]
