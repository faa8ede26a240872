# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Passes over all levels, dictionary indices or byte arrays of a decompressed page, without the interpreter lock.

Nothing here trusts the bytes: whatever a page lacks ends in MalformedFooterError.

Source: Encodings.md of the format: "RLE / bit-packing hybrid", "PLAIN".
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from ..errors import MalformedFooterError

from .runs cimport Runs, describe_problem, next_run, packed_number, start_runs

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define pb_rarely(condition) __builtin_expect(!!(condition), 0)
    #else
    #define pb_rarely(condition) (condition)
    #endif
    """
    bint rarely "pb_rarely"(bint condition) noexcept nogil


cdef int fail(const char* problem) except -1 nogil:
    with gil:
        raise MalformedFooterError(f"page: {problem.decode()}")


cdef inline int take_run(Runs* runs, Py_ssize_t missing, Py_ssize_t* length) except -1 nogil:
    """Go to the next run, and set how many of its numbers are among the missing ones."""
    cdef int problem = next_run(runs)
    if problem:
        with gil:
            raise MalformedFooterError(f"page: {describe_problem(problem, runs.width)}")
    if runs.cut:  # readers disagree about such runs
        fail("a run is cut off")
    length[0] = min(runs.length, missing)
    return 0


cdef inline uint64_t load(const uint8_t* start) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, start, 8)  # little-endian, as the processor is
    return word


cdef Py_ssize_t count_bits(const uint8_t* bits, Py_ssize_t count) noexcept nogil:
    """Count those of the first `count` bits that are set."""
    cdef Py_ssize_t i = 0, total = 0
    cdef uint64_t x
    while i + 64 <= count:
        x = load(bits + i // 8)
        x -= (x >> 1) & <uint64_t>0x5555555555555555
        x = (x & <uint64_t>0x3333333333333333) + ((x >> 2) & <uint64_t>0x3333333333333333)
        x = (x + (x >> 4)) & <uint64_t>0x0F0F0F0F0F0F0F0F
        total += <Py_ssize_t>((x * <uint64_t>0x0101010101010101) >> 56)
        i += 64
    while i < count:
        total += (bits[i // 8] >> (i % 8)) & 1
        i += 1
    return total


cdef inline uint32_t number_at(const Runs* runs, Py_ssize_t number) noexcept nogil:
    """Return a number of a bit-packed run: as `packed_number`, in one load wherever eight bytes remain."""
    cdef Py_ssize_t bit = number * runs.width
    cdef Py_ssize_t at = runs.start + bit // 8
    if runs.end - at < 8:
        return packed_number(runs, number)
    return <uint32_t>((load(runs.data + at) >> (bit & 7)) & ((<uint64_t>1 << runs.width) - 1))


cdef int count_in_run(const Runs* runs, Py_ssize_t length, uint32_t most, uint32_t level, Py_ssize_t* total) noexcept nogil:
    """Add the number of levels of a run that are `level`; return whether one is above `most`."""
    cdef Py_ssize_t i, equal = 0
    cdef uint32_t value
    cdef bint above = False
    if not runs.packed:
        total[0] += length if runs.value == level else 0
        return runs.value > most
    if runs.width == 1:
        equal = count_bits(runs.data + runs.start, length)
        total[0] += equal if level else length - equal
        return False
    for i in range(length):
        value = number_at(runs, i)
        equal += value == level
        above |= value > most
    total[0] += equal
    return above


cdef Runs open_runs(const uint8_t[::1] data, int width) except *:
    cdef Runs runs
    if not 0 <= width <= 32:
        raise MalformedFooterError(f"page: numbers of {width} bits")
    start_runs(&runs, &data[0] if data.shape[0] else NULL, data.shape[0], width)
    return runs


cdef Runs open_levels(const uint8_t[::1] data, int64_t most) except *:
    cdef int width = 0
    if not 0 < most <= INT32_MAX:
        raise ValueError(f"levels up to {most}")
    while most >> width:
        width += 1
    return open_runs(data, width)


def count_present(const uint8_t[::1] definition not None, int64_t most, Py_ssize_t count):
    """Count the values of a page that are not null, of a column without lists.

    Parameters
    ----------
    definition : the definition levels, in runs, without their length in front.
    most : the highest level of the column, which its values have; at least 1.
    count : number of levels.

    Raises
    ------
    MalformedFooterError
        There are fewer levels, or one is higher than `most`.
    """
    cdef Runs runs = open_levels(definition, most)
    cdef Py_ssize_t done = 0, length = 0, total = 0
    with nogil:
        while done < count:
            take_run(&runs, count - done, &length)
            if count_in_run(&runs, length, <uint32_t>most, <uint32_t>most, &total):
                fail("a level is higher than the schema has any")
            done += length
    return total


def count_nested(
    const uint8_t[::1] repetition not None, const uint8_t[::1] definition not None, const int64_t[::1] least not None,
    int64_t most, Py_ssize_t count, int64_t before
):
    """Count the rows that begin in a page of a column with lists, and its values that are not null.

    Parameters
    ----------
    repetition, definition : the levels, in runs, without their lengths in front.
    least : for each repetition level, the least definition level of an element of its lists; 0 for level 0.
    most : the highest definition level of the column, which its values have; at least 1.
    count : number of levels of each kind.
    before : the last definition level of the page before; -1 for the first page.

    Returns
    -------
    (rows, values, last definition level)

    Raises
    ------
    MalformedFooterError
        There are fewer levels, one is higher than the schema has any, or a list goes on that has no elements.
    """
    cdef Runs repeats = open_levels(repetition, least.shape[0] - 1), definitions = open_levels(definition, most)
    cdef Py_ssize_t done = 0, i, num_rows = 0, num_values = 0
    cdef Py_ssize_t repeat_at = 0, repeat_length = 0, level_at = 0, level_length = 0  # in the current runs
    cdef uint32_t depth, num_depths = <uint32_t>least.shape[0]
    cdef int64_t level, last = before
    with nogil:
        while done < count:
            if repeat_at == repeat_length:
                take_run(&repeats, count - done, &repeat_length)
                repeat_at = 0
            if level_at == level_length:
                take_run(&definitions, count - done, &level_length)
                level_at = 0
            for i in range(min(repeat_length - repeat_at, level_length - level_at)):
                depth = number_at(&repeats, repeat_at + i) if repeats.packed else repeats.value
                level = number_at(&definitions, level_at + i) if definitions.packed else definitions.value
                if rarely(depth >= num_depths or level > most):
                    fail("a level is higher than the schema has any")
                if rarely(depth and (level < least[depth] or last < least[depth])):
                    fail("a list without elements goes on")
                num_rows += depth == 0
                num_values += level == most
                last = level
            i = min(repeat_length - repeat_at, level_length - level_at)
            repeat_at += i
            level_at += i
            done += i
    return num_rows, num_values, last


def mark_used(const uint8_t[::1] data not None, int width, Py_ssize_t count, uint8_t[::1] used not None):
    """Set the flags of the dictionary entries that a page uses.

    Parameters
    ----------
    data : the entries' numbers, of `width` bits each, in runs.
    count : how many numbers.
    used : one byte for each entry.

    Raises
    ------
    MalformedFooterError
        There are fewer numbers, or one is not of an entry.
    """
    cdef Runs runs = open_runs(data, width)
    cdef Py_ssize_t done = 0, length = 0, i
    cdef uint32_t number
    cdef uint64_t num_entries = <uint64_t>used.shape[0]
    with nogil:
        while done < count:
            if width == 0 and runs.pos < runs.end and runs.data[runs.pos] & 1:
                fail("a packed run of numbers without bits")
            take_run(&runs, count - done, &length)
            if not runs.packed:
                if runs.value >= num_entries:
                    fail("a number is not in the dictionary")
                used[runs.value] = 1
            else:
                for i in range(length):
                    number = number_at(&runs, i)
                    if rarely(number >= num_entries):
                        fail("a number is not in the dictionary")
                    used[number] = 1
            done += length


def measure_byte_arrays(const uint8_t[::1] data not None, Py_ssize_t count):
    """Return the bytes that each of some length-prefixed byte arrays takes, if all are of one length and fill a buffer.

    Returns
    -------
    Number of bytes, prefix included; 0 if there is no such number.
    """
    cdef Py_ssize_t size = data.shape[0], i
    cdef uint64_t width
    cdef uint32_t first = 0, length = 0, other = 0
    cdef const uint8_t* start
    if count < 1 or size < 4:
        return 0
    start = &data[0]
    memcpy(&first, start, 4)  # little-endian, as the processor is
    width = 4 + <uint64_t>first
    if <uint64_t>size % width or <uint64_t>size // width != <uint64_t>count:
        return 0
    with nogil:
        for i in range(count):
            memcpy(&length, start + i * <Py_ssize_t>width, 4)
            other |= length ^ first
    return 0 if other else width


def locate_byte_arrays(const uint8_t[::1] data not None, Py_ssize_t count):
    """Return the offsets of length-prefixed byte arrays that fill a buffer, and its size: int32, `count` + 1 numbers.

    Raises
    ------
    MalformedFooterError
        There are more or fewer than `count`, or the buffer has more bytes than int32 can count.
    """
    cdef uint64_t end = <uint64_t>data.shape[0], pos = 0
    cdef uint32_t length = 0, usual = 0
    cdef Py_ssize_t i
    cdef const uint8_t* start = &data[0] if end else NULL
    cdef int32_t[::1] out
    if count < 0 or end > INT32_MAX or <uint64_t>count > end // 4:
        fail("its values are of another size")
    offsets = np.empty(count + 1, np.int32)
    out = offsets
    with nogil:
        for i in range(count):
            out[i] = <int32_t>pos
            if end - pos < 4:
                fail("values are missing")
            memcpy(&length, start + pos, 4)  # little-endian, as the processor is
            # The next position must not wait for this load: most lengths are that of the value before.
            if rarely(length != usual):
                usual = length
            if rarely(usual > end - pos - 4):
                fail("a value is cut off")
            pos += 4 + <uint64_t>usual
        out[count] = <int32_t>pos
        if pos != end:
            fail("bytes of no value follow the values")
    return offsets
