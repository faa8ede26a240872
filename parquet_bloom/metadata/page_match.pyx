# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Search of whole data pages for the values that are equal to one of some targets, without the interpreter lock.

Nothing here trusts the bytes: what is not a page of its kind ends in MalformedFooterError.

Source: Encodings.md of the format: "RLE / bit-packing hybrid", "PLAIN".
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

import numpy as np

from .page_decode cimport (
    DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, ENCODING, FIELDS, KIND, MOST_BYTES, MOST_VALUES, NO_MEMORY, NOT_IN_DICTIONARY,
    NUM_VALUES, OTHER_ROWS, PLAIN, UNSUPPORTED, VALUE_CUT_OFF, VALUES_MISSING, PageBody, close_page, is_dictionary,
    needs_dictionary, open_page
)
from .page_encodings cimport has_other_encoding, make_plain
from .runs cimport Runs, count_set, next_run, packed_number, require_repeated, start_runs

cdef uint64_t FACTOR_1 = 0x9E3779B97F4A7C15ULL
cdef uint64_t FACTOR_2 = 0xC2B2AE3D27D4EB4FULL

cdef enum:
    SIEVE_BITS = 16        # of a hash, for a table of 8 KiB, which stays in the cache
    MOST_SIEVE_BITS = 28   # 32 MiB: for more targets each value costs a search all the same
    SPARSE_BITS = 4        # so that at most one bit in 8 is set, and one value in 64 has to be searched for


cdef inline uint64_t mix(const uint8_t* value, Py_ssize_t length) noexcept nogil:
    """Hash a value by its length, its first and its last bytes: enough to rule out most values."""
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
    last *= FACTOR_2
    return (first ^ (last << 31 | last >> 33) ^ <uint64_t>length) * FACTOR_1


cdef inline uint64_t mix_all(const uint8_t* value, Py_ssize_t length) noexcept nogil:
    """Hash all bytes of a value."""
    cdef uint64_t hashed = <uint64_t>length * FACTOR_1, word
    cdef Py_ssize_t at = 0
    while at < length:
        word = 0
        memcpy(&word, value + at, min(8, length - at))
        hashed = (hashed ^ word) * FACTOR_1
        hashed ^= hashed >> 29
        at += 8
    hashed *= FACTOR_2
    return hashed ^ hashed >> 32


cdef inline uint64_t find_pattern(Py_ssize_t sieve_bits, uint64_t hashed) noexcept nogil:
    """Return the two bits of a hash in its word of a sieve; the word's number are the bits of the hash above theirs."""
    return <uint64_t>1 << (hashed >> (64 - sieve_bits) & 63) | <uint64_t>1 << (hashed >> (58 - sieve_bits) & 63)


cdef class Targets:
    """Values to search for, as they are stored, without length prefixes; shared by threads.

    Parameters
    ----------
    values : bytes objects, all different.

    Attributes
    ----------
    longest : bytes of the longest one; -1 if there is none.
    """

    def __init__(self, list values not None):
        starts = np.cumsum([0, *map(len, values)], dtype=np.int64)
        self.prepare(np.frombuffer(b"".join(values) + b"\0", np.uint8), starts)

    @classmethod
    def of_buffer(cls, data not None, starts not None):
        """Return the targets of values that lie one after the other in one buffer, all different.

        Parameters
        ----------
        data : buffer of bytes.
        starts : where each value begins, and the end of the last one; int64, ascending.
        """
        targets = Targets.__new__(Targets)
        (<Targets>targets).prepare(np.frombuffer(data, np.uint8), np.ascontiguousarray(starts, np.int64))
        return targets

    cdef prepare(self, data, starts):
        cdef const uint8_t[::1] given = data
        cdef Py_ssize_t bits = 4, size, i
        cdef int64_t length
        self.starts = starts
        self.count = self.starts.shape[0] - 1
        self.shortest, self.longest = 0, -1
        cdef bint is_inside = 0 <= self.count <= MOST_VALUES and self.starts[0] >= 0
        is_inside = is_inside and self.starts[self.count] <= given.shape[0]
        for i in range(self.count if is_inside else 0):
            length = self.starts[i + 1] - self.starts[i]
            is_inside &= length >= 0
            self.shortest = length if i == 0 else min(self.shortest, length)
            self.longest = max(self.longest, length)
        if not is_inside:
            raise ValueError("the values are not inside of their buffer")
        # The byte behind the last value is there to be pointed at.
        self.data = np.zeros(self.starts[self.count] + 1, np.uint8)
        if self.starts[self.count]:
            memcpy(&self.data[0], &given[0], self.starts[self.count])
        while (1 << bits) < 2 * self.count:
            bits += 1
        size = 1 << bits
        self.table = np.full(size, NO_TARGET, np.int32)
        self.sieve_bits = min(max(SIEVE_BITS, bits - 1 + SPARSE_BITS), MOST_SIEVE_BITS)
        self.sieve = np.zeros(1 << (self.sieve_bits - 6), np.uint64)
        with nogil:
            self.fill(size)

    cdef void fill(self, Py_ssize_t size) noexcept nogil:
        """Enter the targets into the sieve and the table."""
        cdef Py_ssize_t i, at, length
        cdef uint64_t hashed
        cdef const uint8_t* value
        for i in range(self.count):
            value, length = &self.data[self.starts[i]], self.starts[i + 1] - self.starts[i]
            hashed = mix(value, length)
            self.sieve[hashed >> (70 - self.sieve_bits)] |= find_pattern(self.sieve_bits, hashed)
            at = mix_all(value, length) & (size - 1)
            while self.table[at] != NO_TARGET:
                at = (at + 1) & (size - 1)
            self.table[at] = <int32_t>i

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, Py_ssize_t number):
        """Return a value as bytes."""
        if not 0 <= number < self.count:
            raise IndexError(number)
        cdef Py_ssize_t start = self.starts[number], end = self.starts[number + 1]
        return (<char*>&self.data[start])[: end - start]

    def contain_fixed(self, const uint8_t[::1] data not None, Py_ssize_t width, Py_ssize_t count):
        """Return for each of `count` values of `width` bytes whether it is one of the targets; a bool array."""
        cdef Py_ssize_t i
        if width < 1 or count < 0 or data.shape[0] // width < count:
            raise ValueError("the values are not inside of their buffer")
        is_target = np.zeros(count, np.bool_)
        cdef uint8_t[::1] result = is_target.view(np.uint8)
        if self.shortest <= width <= self.longest:
            with nogil:
                for i in range(count):
                    result[i] = find_target(self, &data[i * width], width) != NO_TARGET
        return is_target

    def contain_slices(self, const uint8_t[::1] data not None, const int64_t[::1] starts not None):
        """Return for each of some values whether it is one of the targets; see `of_buffer`."""
        cdef Py_ssize_t i, count = starts.shape[0] - 1, length
        cdef const uint8_t* first = &data[0] if data.shape[0] else <const uint8_t*>b""
        is_target = np.zeros(max(count, 0), np.bool_)
        cdef uint8_t[::1] result = is_target.view(np.uint8)
        cdef bint inside = True
        with nogil:
            for i in range(count):
                length = starts[i + 1] - starts[i]
                if starts[i] < 0 or length < 0 or starts[i + 1] > data.shape[0]:
                    inside = False
                    break
                if self.shortest <= length <= self.longest:
                    result[i] = find_target(self, first + starts[i], length) != NO_TARGET
        if not inside:
            raise ValueError("the values are not inside of their buffer")
        return is_target


cdef inline Py_ssize_t find_target(Targets targets, const uint8_t* value, Py_ssize_t length) noexcept nogil:
    """Return the number of the target that a value is; NO_TARGET if it is none."""
    cdef uint64_t hashed = mix(value, length), pattern = find_pattern(targets.sieve_bits, hashed)
    cdef Py_ssize_t at, start
    cdef int32_t target
    if targets.sieve[hashed >> (70 - targets.sieve_bits)] & pattern != pattern:
        return NO_TARGET
    if targets.shortest == targets.longest and length != targets.longest:
        return NO_TARGET
    at = mix_all(value, length) & (targets.table.shape[0] - 1)
    while True:
        target = targets.table[at]
        if target == NO_TARGET:
            return NO_TARGET
        if targets.shortest == targets.longest:  # most time is spent on memory that is far away: this is less of it
            start = targets.starts[0] + target * length
            if memcmp(&targets.data[start], value, length) == 0:
                return target
        elif (
            targets.starts[target + 1] - targets.starts[target] == length
            and memcmp(&targets.data[targets.starts[target]], value, length) == 0
        ):
            return target
        at = (at + 1) & (targets.table.shape[0] - 1)


ctypedef fused Word:
    uint32_t
    uint64_t


cdef Py_ssize_t match_word(const uint8_t* data, Word target, Py_ssize_t count, int64_t* positions) noexcept nogil:
    """Search `count` words for one, in loops that compilers turn into vector instructions; return the matches."""
    cdef Py_ssize_t matches = 0, i, j, end
    cdef Word value = 0
    cdef bint any_equal
    for i in range(0, count, 64):
        end = min(i + 64, count)
        any_equal = False
        for j in range(i, end):
            memcpy(&value, data + sizeof(Word) * j, sizeof(Word))
            any_equal |= value == target
        if any_equal:
            for j in range(i, end):
                memcpy(&value, data + sizeof(Word) * j, sizeof(Word))
                if value == target:
                    positions[matches] = j
                    matches += 1
    return matches


cdef Py_ssize_t match_fixed(
    Targets targets, const uint8_t* data, Py_ssize_t width, Py_ssize_t count, int64_t* positions, int32_t* which
) noexcept nogil:
    """Search `count` values of `width` bytes; return the number of matches."""
    cdef Py_ssize_t matches = 0, i, target
    cdef uint64_t word8 = 0
    cdef uint32_t word4 = 0
    if targets.count == 1 and (width == 8 or width == 4):
        if width == 8:
            memcpy(&word8, &targets.data[0], 8)
            matches = match_word[uint64_t](data, word8, count, positions)
        else:
            memcpy(&word4, &targets.data[0], 4)
            matches = match_word[uint32_t](data, word4, count, positions)
        for i in range(matches):
            which[i] = 0
        return matches
    for i in range(count):
        target = find_target(targets, data + i * width, width)
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
            target = find_target(targets, data + pos, length)
            if target != NO_TARGET:
                positions[matches], which[matches] = i, <int32_t>target
                matches += 1
        pos += length
    return matches


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


cdef Py_ssize_t count_levels(Runs* runs, Py_ssize_t count) noexcept nogil:
    """Count the rows that have a value by levels of one bit; return it, or a `RunError`."""
    cdef Py_ssize_t total = 0, done = 0, end
    cdef int problem
    while done < count:
        problem = next_run(runs)
        if problem:
            return problem
        end = min(runs.length, count - done)
        total += count_set(runs, 0, end)
        done += end
    return total


cdef Py_ssize_t find_rows(Runs* runs, int64_t* values, Py_ssize_t count) noexcept nogil:
    """Replace numbers of values, which ascend, by the rows that have them; return 0, or a `RunError`."""
    cdef Py_ssize_t before = 0, value = 0, i = 0, row, inside
    cdef int problem
    while i < count:
        problem = next_run(runs)
        if problem:
            return problem
        inside = count_set(runs, 0, runs.length)
        if not runs.packed:
            while i < count and values[i] < value + inside:
                values[i] += before - value
                i += 1
        elif values[i] < value + inside:
            inside = 0
            for row in range(runs.length):
                if packed_number(runs, row):
                    if i < count and values[i] == value + inside:
                        values[i] = before + row
                        i += 1
                    inside += 1
        value += inside
        before += runs.length
    return 0


cdef Py_ssize_t match_values(
    PageBody* body, const int64_t* page, Py_ssize_t count, Py_ssize_t width, Targets targets,
    const int32_t* by_entry, Py_ssize_t num_entries, int64_t* positions, int32_t* which
) noexcept nogil:
    """Search the `count` values of a data page; return the number of matches, or a problem."""
    cdef Runs runs
    cdef Py_ssize_t i
    cdef int problem
    if page[KIND] == DICTIONARY_PAGE or page[ENCODING] == PLAIN or has_other_encoding(page):
        if has_other_encoding(page):
            problem = make_plain(body, page, width)
            if problem:
                return problem
        if width == 0:
            return match_byte_arrays(targets, body.values, body.value_bytes, count, positions, which)
        if body.value_bytes // width < count:
            return VALUES_MISSING
        return match_fixed(targets, body.values, width, count, positions, which)
    if num_entries == 0 or body.value_bytes == 0 or body.values[0] > 32:
        return UNSUPPORTED
    if body.values[0] == 0:  # a dictionary of one entry has numbers of no bits
        problem = require_repeated(body.values + 1, body.value_bytes - 1, count)
        if problem:
            return problem
        if by_entry[0] == NO_TARGET:
            return 0
        for i in range(count):
            positions[i], which[i] = i, by_entry[0]
        return count
    start_runs(&runs, body.values + 1, body.value_bytes - 1, body.values[0])
    return match_runs(&runs, count, by_entry, num_entries, positions, which)


cdef Py_ssize_t search_page(
    const uint8_t* data, const int64_t* page, Py_ssize_t width, int codec, bint required, Targets targets,
    const int32_t* by_entry, Py_ssize_t num_entries, int64_t* positions, int32_t* which, PageBody* body
) noexcept nogil:
    """Search a data page; return the number of matching rows, or a problem. `close_page` must be called for `body`."""
    cdef Runs runs
    cdef Py_ssize_t count = page[NUM_VALUES], matches
    cdef int problem = open_page(data, page, codec, required, MOST_BYTES, body)
    if problem:
        return problem
    if not required:
        start_runs(&runs, body.levels, body.level_bytes, 1)
        count = count_levels(&runs, count)
        if count <= 0:
            return count
    matches = match_values(body, page, count, width, targets, by_entry, num_entries, positions, which)
    if matches > 0 and count < page[NUM_VALUES]:
        start_runs(&runs, body.levels, body.level_bytes, 1)
        problem = <int>find_rows(&runs, positions, matches)
        if problem:
            return problem
    return matches


cdef Py_ssize_t search_dictionary(
    const uint8_t* data, const int64_t* page, Py_ssize_t width, int codec, Targets targets, int32_t** by_entry
) noexcept nogil:
    """Find the target that each entry of a dictionary is; return how many are one, or a problem.

    `by_entry` is set to the numbers of the targets, which are to be freed.
    """
    cdef PageBody body
    cdef Py_ssize_t count = page[NUM_VALUES], matches, i
    cdef int64_t* positions = NULL
    cdef int32_t* which = NULL
    if not is_dictionary(page):
        return UNSUPPORTED
    by_entry[0] = <int32_t*>malloc(max(1, count) * sizeof(int32_t))
    if by_entry[0] == NULL:
        return NO_MEMORY
    if count == 0:  # its bytes may be none
        return 0
    for i in range(count):
        by_entry[0][i] = NO_TARGET
    matches = open_page(data, page, codec, True, MOST_BYTES, &body)
    if matches == 0:
        positions = <int64_t*>malloc(count * sizeof(int64_t))
        which = <int32_t*>malloc(count * sizeof(int32_t))
        if positions == NULL or which == NULL:
            matches = NO_MEMORY
        else:
            matches = match_values(&body, page, count, width, targets, NULL, 0, positions, which)
        for i in range(matches):
            by_entry[0][positions[i]] = which[i]
    free(positions)
    free(which)
    close_page(&body)
    return matches


cdef Py_ssize_t search_chunk(
    const uint8_t* data, const int64_t* pages, Py_ssize_t num_pages, Py_ssize_t width, int codec, bint required,
    int64_t num_rows, Targets targets, int64_t* positions, int32_t* which
) noexcept nogil:
    """Search the pages of a chunk with one value a row, or none; return the number of matching rows, or a problem.

    Parameters
    ----------
    pages : which are inside of `data`.
    positions, which : have room for all rows.
    """
    cdef PageBody body
    cdef Py_ssize_t i, j, first = 0, num_entries = 0, matches = 0, in_page
    cdef const int64_t* page
    cdef int32_t* by_entry = NULL
    cdef int64_t before = 0
    for i in range(num_pages):
        page = pages + i * FIELDS
        if page[KIND] == DICTIONARY_PAGE:
            if i or page[NUM_VALUES] > MOST_VALUES:
                return UNSUPPORTED
            first, num_entries = 1, page[NUM_VALUES]
            continue
        if page[KIND] != DATA_PAGE and page[KIND] != DATA_PAGE_V2 or page[NUM_VALUES] > num_rows - before:
            return UNSUPPORTED
        if not (page[ENCODING] == PLAIN or has_other_encoding(page) or needs_dictionary(page) and first):
            return UNSUPPORTED
        before += page[NUM_VALUES]
    if before != num_rows:
        return OTHER_ROWS
    if targets.count == 0 or width and not targets.shortest <= width <= targets.longest:
        return 0
    if first:
        matches = min(search_dictionary(data, pages, width, codec, targets, &by_entry), 0)
    before = 0
    for i in range(first, num_pages):
        if matches < 0:
            break
        page = pages + i * FIELDS
        # Also if no entry is a target: a page whose header is wrong may have one.
        in_page = search_page(
            data, page, width, codec, required, targets, by_entry, num_entries, positions + matches, which + matches, &body
        )
        close_page(&body)
        if in_page < 0:
            matches = in_page
            break
        for j in range(matches, matches + in_page):
            positions[j] += before
        matches += in_page
        before += page[NUM_VALUES]
    free(by_entry)
    return matches
