# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Search of whole data pages for the values that are equal to one of some targets, without the interpreter lock.

Nothing here trusts the bytes: truncated pages end in MalformedFooterError.

Source: Encodings.md of the format: "RLE / bit-packing hybrid", "PLAIN".
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

import numpy as np

from ..errors import MalformedFooterError

from .runs cimport Runs, count_set, describe_problem, next_run, packed_number, start_runs

cdef enum:
    MOST_VALUES = 1 << 24  # of a page: runs of a few bytes could claim any amount of memory
    SIEVE_BITS = 16        # of a hash: its table of 8 KiB stays in the cache
    NO_TARGET = -1

cdef enum Problem:
    VALUES_MISSING = -10
    VALUE_CUT_OFF = -11
    NOT_IN_DICTIONARY = -12


cdef int fail(str problem) except -1:
    raise MalformedFooterError(f"page: {problem}")


cdef str describe(Py_ssize_t problem, int width):
    if problem == VALUES_MISSING:
        return "it has fewer values than its header says"
    if problem == VALUE_CUT_OFF:
        return "a value is cut off"
    if problem == NOT_IN_DICTIONARY:
        return "a number is not in the dictionary"
    return describe_problem(<int>problem, width)


cdef inline uint64_t mix(const uint8_t* value, Py_ssize_t length) noexcept nogil:
    """Hash a value by its length, its first and its last bytes."""
    cdef uint64_t first = 0, last = 0
    if length >= 8:
        memcpy(&first, value, 8)
        memcpy(&last, value + length - 8, 8)
    elif length >= 4:
        memcpy(&first, value, 4)
        memcpy(&last, value + length - 4, 4)
    else:
        for i in range(length):
            first = first << 8 | value[i]
    return (first ^ (last << 32 | last >> 32) ^ <uint64_t>length) * 0x9E3779B97F4A7C15ULL


cdef class Targets:
    """Values to search for, as they are stored, without length prefixes; shared by threads.

    Parameters
    ----------
    values : bytes objects, all different.
    """

    cdef uint8_t[::1] data
    cdef int64_t[::1] starts          # of each value in `data`, and the end of the last one
    cdef uint64_t[::1] sieve          # a bit for each hash of SIEVE_BITS bits
    cdef int32_t[::1] table           # value, or NO_TARGET, by hash; collisions go to the next entry
    cdef int table_shift
    cdef Py_ssize_t count, shortest, longest
    cdef readonly list values

    def __init__(self, list values not None):
        cdef Py_ssize_t i, bits = 4, at, size
        cdef uint64_t hashed
        self.values = values
        self.count = len(values)
        self.data = np.frombuffer(b"".join(values) + b"\0", np.uint8).copy()
        self.starts = np.cumsum([0, *map(len, values)], dtype=np.int64)
        self.shortest = min(map(len, values), default=0)
        self.longest = max(map(len, values), default=-1)
        while (1 << bits) < 2 * self.count:
            bits += 1
        size = 1 << bits
        self.table_shift = 64 - bits
        self.table = np.full(size, NO_TARGET, np.int32)
        self.sieve = np.zeros(1 << (SIEVE_BITS - 6), np.uint64)
        for i in range(self.count):
            hashed = mix(&self.data[self.starts[i]], self.starts[i + 1] - self.starts[i])
            self.sieve[hashed >> (64 - SIEVE_BITS) >> 6] |= <uint64_t>1 << (hashed >> (64 - SIEVE_BITS) & 63)
            at = hashed >> self.table_shift
            while self.table[at] != NO_TARGET:
                at = (at + 1) & (size - 1)
            self.table[at] = <int32_t>i

    def __len__(self) -> int:
        return self.count

    cdef inline Py_ssize_t find(self, const uint8_t* value, Py_ssize_t length) noexcept nogil:
        """Return the number of the target that a value is; NO_TARGET if it is none."""
        cdef uint64_t hashed = mix(value, length)
        cdef uint64_t bit = hashed >> (64 - SIEVE_BITS)
        cdef Py_ssize_t at
        cdef int32_t target
        if not self.sieve[bit >> 6] >> (bit & 63) & 1:
            return NO_TARGET
        at = hashed >> self.table_shift
        while True:
            target = self.table[at]
            if target == NO_TARGET:
                return NO_TARGET
            if (
                self.starts[target + 1] - self.starts[target] == length
                and memcmp(&self.data[self.starts[target]], value, length) == 0
            ):
                return target
            at = (at + 1) & (self.table.shape[0] - 1)


cdef Py_ssize_t match_fixed(
    Targets targets, const uint8_t* data, Py_ssize_t width, Py_ssize_t count, int64_t* positions, int32_t* which
) noexcept nogil:
    """Search `count` values of `width` bytes; return the number of matches."""
    cdef Py_ssize_t matches = 0, i, j, end, target
    cdef uint64_t one8 = 0, value8
    cdef uint32_t one4 = 0, value4
    cdef bint any_equal
    if targets.count == 1 and width == 8:  # loops that compilers turn into vector instructions
        memcpy(&one8, &targets.data[0], 8)
        for i in range(0, count, 64):
            end = min(i + 64, count)
            any_equal = False
            for j in range(i, end):
                memcpy(&value8, data + 8 * j, 8)
                any_equal |= value8 == one8
            if any_equal:
                for j in range(i, end):
                    memcpy(&value8, data + 8 * j, 8)
                    if value8 == one8:
                        positions[matches], which[matches] = j, 0
                        matches += 1
        return matches
    if targets.count == 1 and width == 4:
        memcpy(&one4, &targets.data[0], 4)
        for i in range(0, count, 64):
            end = min(i + 64, count)
            any_equal = False
            for j in range(i, end):
                memcpy(&value4, data + 4 * j, 4)
                any_equal |= value4 == one4
            if any_equal:
                for j in range(i, end):
                    memcpy(&value4, data + 4 * j, 4)
                    if value4 == one4:
                        positions[matches], which[matches] = j, 0
                        matches += 1
        return matches
    for i in range(count):
        target = targets.find(data + i * width, width)
        if target != NO_TARGET:
            positions[matches], which[matches] = i, <int32_t>target
            matches += 1
    return matches


cdef Py_ssize_t match_byte_arrays(
    Targets targets, const uint8_t* data, Py_ssize_t size, Py_ssize_t count, int64_t* positions, int32_t* which
) noexcept nogil:
    """Search `count` length-prefixed values; return the number of matches, or a `Problem`."""
    cdef Py_ssize_t matches = 0, i, target, pos = 0
    cdef uint32_t length = 0
    for i in range(count):
        if size - pos < 4:
            return VALUES_MISSING
        memcpy(&length, data + pos, 4)  # little-endian, as the processor is
        pos += 4
        if length > <uint64_t>(size - pos):
            return VALUE_CUT_OFF
        if targets.shortest <= <Py_ssize_t>length <= targets.longest:
            target = targets.find(data + pos, length)
            if target != NO_TARGET:
                positions[matches], which[matches] = i, <int32_t>target
                matches += 1
        pos += length
    return matches


def match_plain(const uint8_t[::1] data not None, Py_ssize_t width, Py_ssize_t count, Targets targets not None):
    """Search the plain-encoded values of a page.

    Parameters
    ----------
    width : bytes per value; 0 for length-prefixed byte arrays.
    count : number of values, all of which are searched.

    Returns
    -------
    (positions, target_numbers) : of the values that are equal to a target: their positions, int64 and ascending; and the
        number of the target of each, int32.

    Raises
    ------
    MalformedFooterError
        There are fewer values.
    """
    cdef const uint8_t* start = &data[0] if data.shape[0] else NULL
    cdef Py_ssize_t size = data.shape[0], matches
    cdef int64_t[::1] positions
    cdef int32_t[::1] which
    if not 0 <= count <= MOST_VALUES or width < 0:
        fail(f"{count} values of {width} bytes")
    if width and size // width < count:
        fail(describe(VALUES_MISSING, 0))
    all_positions, all_targets = np.empty(max(1, count), np.int64), np.empty(max(1, count), np.int32)
    positions, which = all_positions, all_targets
    if targets.count == 0 or (width and not targets.shortest <= width <= targets.longest):
        return all_positions[:0], all_targets[:0]
    with nogil:
        if width:
            matches = match_fixed(targets, start, width, count, &positions[0], &which[0])
        else:
            matches = match_byte_arrays(targets, start, size, count, &positions[0], &which[0])
    if matches < 0:
        fail(describe(matches, 0))
    return all_positions[:matches].copy(), all_targets[:matches].copy()


cdef Py_ssize_t match_runs(
    Runs* runs, Py_ssize_t count, const int32_t* targets, Py_ssize_t num_entries, int64_t* positions, int32_t* which
) noexcept nogil:
    """Search `count` numbers; return how many are of an entry with a target, or a `Problem` or `RunError`."""
    cdef Py_ssize_t matches = 0, done = 0, i, end
    cdef uint32_t number
    cdef uint64_t bits, mask = ((<uint64_t>1) << runs.width) - 1
    cdef Py_ssize_t bit, byte
    cdef int problem
    while done < count:
        problem = next_run(runs)
        if problem:
            return problem
        end = min(runs.length, count - done)
        if not runs.packed:
            if runs.value >= <size_t>num_entries:
                return NOT_IN_DICTIONARY
            if targets[runs.value] != NO_TARGET:
                for i in range(end):
                    positions[matches], which[matches] = done + i, targets[runs.value]
                    matches += 1
            done += end
            continue
        for i in range(end):
            bit = i * runs.width
            byte = runs.start + (bit >> 3)
            if runs.end - byte >= 8:
                memcpy(&bits, runs.data + byte, 8)
                number = <uint32_t>(bits >> (bit & 7) & mask)
            else:
                number = packed_number(runs, i)
            if number >= <size_t>num_entries:
                return NOT_IN_DICTIONARY
            if targets[number] != NO_TARGET:
                positions[matches], which[matches] = done + i, targets[number]
                matches += 1
        done += end
    return matches


def match_numbers(
    const uint8_t[::1] data not None, int width, Py_ssize_t count, const int32_t[::1] target_by_entry not None
):
    """Search the numbers of dictionary entries of a page, stored in runs of `width` bits, for entries with a target.

    Parameters
    ----------
    count : of the numbers, all of which are searched.
    target_by_entry : number of the target that each entry of the dictionary is; -1 if it is none.

    Returns
    -------
    (positions, target_numbers) : as `match_plain` does.

    Raises
    ------
    MalformedFooterError
        There are fewer numbers, one is not in the dictionary, or `width` is invalid.
    """
    cdef Runs runs
    cdef Py_ssize_t matches, num_entries = target_by_entry.shape[0]
    cdef int64_t[::1] positions
    cdef int32_t[::1] which
    if not 0 <= count <= MOST_VALUES or not 0 <= width <= 32:
        fail(f"{count} numbers of {width} bits")
    if count and not num_entries:
        fail(describe(NOT_IN_DICTIONARY, width))
    if width == 0:  # a dictionary of one entry has numbers of no bits
        matches = count if count and target_by_entry[0] != NO_TARGET else 0
        return np.arange(matches), np.full(matches, target_by_entry[0] if count else 0, np.int32)
    all_positions, all_targets = np.empty(max(1, count), np.int64), np.empty(max(1, count), np.int32)
    positions, which = all_positions, all_targets
    start_runs(&runs, &data[0] if data.shape[0] else NULL, data.shape[0], width)
    with nogil:
        matches = match_runs(&runs, count, &target_by_entry[0] if count else NULL, num_entries, &positions[0], &which[0])
    if matches < 0:
        fail(describe(matches, width))
    return all_positions[:matches].copy(), all_targets[:matches].copy()


def count_values(const uint8_t[::1] levels not None, Py_ssize_t count):
    """Count the rows of a page that have a value, by definition levels of one bit in runs.

    Parameters
    ----------
    count : rows of the page.

    Raises
    ------
    MalformedFooterError
        There are too few levels.
    """
    cdef Runs runs
    cdef Py_ssize_t total = 0, done = 0, end
    cdef int problem = 0
    start_runs(&runs, &levels[0] if levels.shape[0] else NULL, levels.shape[0], 1)
    with nogil:
        while done < count:
            problem = next_run(&runs)
            if problem:
                break
            end = min(runs.length, count - done)
            total += count_set(&runs, 0, end)
            done += end
    if problem:
        fail(describe(problem, 1))
    return total


def find_rows(const uint8_t[::1] levels not None, Py_ssize_t count, const int64_t[::1] values not None):
    """Find the rows of some values of a page, by definition levels of one bit in runs.

    Parameters
    ----------
    count : rows of the page.
    values : positions among the values of the page, ascending.

    Returns
    -------
    The row of each value, counted from the first row of the page; int64.

    Raises
    ------
    MalformedFooterError
        There are too few levels, or too few of them are of a value.
    """
    cdef Runs runs
    cdef Py_ssize_t before = 0, value = 0, i = 0, row, end, inside
    cdef int problem = 0
    cdef int64_t[::1] out
    result = np.empty(values.shape[0], np.int64)
    out = result
    start_runs(&runs, &levels[0] if levels.shape[0] else NULL, levels.shape[0], 1)
    with nogil:
        while i < values.shape[0] and before < count:
            problem = next_run(&runs)
            if problem:
                break
            end = min(runs.length, count - before)
            inside = count_set(&runs, 0, end)
            if not runs.packed:
                while inside and i < values.shape[0] and values[i] < value + inside:
                    out[i] = before + values[i] - value
                    i += 1
            elif i < values.shape[0] and values[i] < value + inside:
                inside = 0
                for row in range(end):
                    if packed_number(&runs, row):
                        while i < values.shape[0] and values[i] == value + inside:
                            out[i] = before + row
                            i += 1
                        inside += 1
            value += inside
            before += end
    if problem:
        fail(describe(problem, 1))
    if i < values.shape[0]:
        fail(f"it has {value} values, not {values[i] + 1}")
    return result
