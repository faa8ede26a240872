# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Values to search for, and the search of pages for them, without the interpreter lock.

Nothing here trusts the bytes: what is not a page of its kind ends in UnusualPageError.

Source: Encodings.md of the format: "RLE / bit-packing hybrid", "PLAIN".
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy

import numpy as np

from .page_decode cimport (
    MOST_BYTES, MOST_VALUES, NUM_VALUES, Levels, PageBody, PageVisitor, Runs, StoredColumn, close_page, count_levels, cut_page,
    is_dictionary, needs_dictionary, next_block, next_entries, number_at, refuse, reserve, start_indices, start_levels,
    unpack_block, unpack_page
)
from .page_encodings cimport make_plain

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
    is_piece : whether values that have it are searched for, see `of_piece`.
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

    @classmethod
    def of_piece(cls, bytes piece not None):
        """Return the target that every byte array is which has a piece, of at least one byte, anywhere.

        Pages are searched for it, and nothing else: what a value is that was found, it does not tell.
        """
        if not piece:
            raise ValueError("every value has the empty piece")
        targets = Targets.__new__(Targets)
        (<Targets>targets).prepare(np.frombuffer(piece, np.uint8), np.array([0, len(piece)], np.int64))
        (<Targets>targets).is_piece = True
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
) except -1 nogil:
    """Search `count` length-prefixed values; return the number of matches."""
    cdef Py_ssize_t matches = 0, i, target, pos = 0
    cdef uint32_t length = 0
    for i in range(count):
        if size - pos < 4:
            refuse("it has fewer values than its header says")
        memcpy(&length, data + pos, 4)  # little-endian, as the processor is
        pos += 4
        if length > <uint64_t>(size - pos):
            refuse("a value is cut off")
        if targets.shortest <= <Py_ssize_t>length <= targets.longest:
            target = find_target(targets, data + pos, length)
            if target != NO_TARGET:
                positions[matches], which[matches] = i, <int32_t>target
                matches += 1
        pos += length
    return matches


cdef Py_ssize_t find_piece(
    const uint8_t* data, Py_ssize_t size, const uint8_t* piece, Py_ssize_t length, Py_ssize_t at
) noexcept nogil:
    """Return where a piece of some bytes begins first, from `at` on; `size` if it is not there.

    Three bytes of it are looked for, 64 places at once, in a loop that compilers turn into vector instructions.
    """
    cdef Py_ssize_t middle = length // 2, last = length - 1, i
    cdef uint8_t first_byte = piece[0], middle_byte = piece[middle], last_byte = piece[last], maybe
    cdef const uint8_t* place
    while at + 64 + last <= size:
        place, maybe = data + at, 0
        for i in range(64):
            maybe |= (
                <uint8_t>(place[i] == first_byte)
                & <uint8_t>(place[i + middle] == middle_byte)
                & <uint8_t>(place[i + last] == last_byte)
            )
        if maybe:
            for i in range(64):
                if place[i] == first_byte and memcmp(place + i, piece, length) == 0:
                    return at + i
        at += 64
    while at + last < size:
        if memcmp(data + at, piece, length) == 0:
            return at
        at += 1
    return size


cdef Py_ssize_t match_pieces(
    Targets targets, const uint8_t* data, Py_ssize_t size, Py_ssize_t count, int64_t* positions, int32_t* which
) except -1 nogil:
    """Search `count` length-prefixed values for a piece; return the number of those that have it."""
    cdef Py_ssize_t matches = 0, i, pos = 0, end
    cdef const uint8_t* piece = &targets.data[0]
    cdef Py_ssize_t found = find_piece(data, size, piece, targets.longest, 0)
    cdef uint32_t length = 0
    for i in range(count):
        if size - pos < 4:
            refuse("it has fewer values than its header says")
        memcpy(&length, data + pos, 4)  # little-endian, as the processor is
        pos += 4
        if length > <uint64_t>(size - pos):
            refuse("a value is cut off")
        end = pos + length
        if found < end:
            if found < pos:  # among the bytes of lengths
                found = find_piece(data, size, piece, targets.longest, pos)
            if found <= end - targets.longest:
                positions[matches], which[matches] = i, 0
                matches += 1
            if found < end:
                found = find_piece(data, size, piece, targets.longest, end)
        pos = end
    return matches


cdef Py_ssize_t match_packed(
    const Runs* run, Py_ssize_t count, uint32_t num_entries, const int32_t* targets, int64_t first, int64_t* positions,
    int32_t* which
) except -1 nogil:
    """Search the first `count` numbers of a bit-packed run, with `first` numbers before it; as `match_numbers`.

    Eight numbers of at most `FEW_BITS` bits are looked up at once, since few have a target: without it `shapes.py`, "no
    filter", takes up to 1.18 times as long.
    """
    cdef int width = run.width
    cdef Py_ssize_t in_words = max(0, run.end - run.start - 8) // width * 8 if width <= FEW_BITS else 0  # with 8 bytes
    cdef Py_ssize_t matches = 0, i = 0, stop
    cdef uint64_t bits, mask = (<uint64_t>1 << width) - 1
    cdef uint32_t number
    cdef int32_t every
    cdef int k
    while i < count:
        stop = min(i + 8, count)
        if stop == i + 8 and i < in_words:
            memcpy(&bits, run.data + run.start + (i >> 3) * width, 8)  # little-endian, as the processor is
            every = NO_TARGET
            for k in range(8):
                every &= targets[bits & mask]
                bits >>= width
            if every == NO_TARGET:
                i = stop
                continue
        while i < stop:
            number = number_at(run, i)
            if number >= num_entries:
                refuse("a number is not in the dictionary")
            if targets[number] != NO_TARGET:
                positions[matches], which[matches] = first + i, targets[number]
                matches += 1
            i += 1
    return matches


cdef Py_ssize_t match_numbers(
    const PageBody* body, Py_ssize_t count, uint32_t num_entries, const int32_t* targets, int64_t* positions,
    int32_t* which
) except -1 nogil:
    """Search the first `count` numbers of dictionary entries of a page; return how many are of an entry with a target.

    Parameters
    ----------
    targets : of each entry, and `OUTSIDE` of further numbers of `FEW_BITS` bits.
    positions, which : have room for all numbers.
    """
    cdef Py_ssize_t matches = 0, done = 0, length, i
    cdef int32_t target
    cdef Runs runs
    if num_entries == 0:
        refuse("it has numbers of a dictionary that is not there, or empty")
    start_indices(&runs, body)
    while done < count:
        length = next_entries(&runs, count - done, num_entries)
        if runs.packed:
            matches += match_packed(&runs, length, num_entries, targets, done, positions + matches, which + matches)
        else:
            target = targets[runs.value]
            for i in range(length if target != NO_TARGET else 0):
                positions[matches], which[matches] = done + i, target
                matches += 1
        done += length
    return matches


cdef Py_ssize_t find_rows(
    const PageBody* body, const int64_t* matches, const int32_t* targets, Py_ssize_t num_matches, int64_t row,
    int64_t last_row, int64_t* rows, int32_t* which
) except -1 nogil:
    """Return in how many rows some stored values of a page are.

    Parameters
    ----------
    matches, targets : their numbers in the page, ascending, and the target of each.
    row : the last one that began in the pages before; -1 if there is none.
    last_row : is left out: it is known to match.
    rows, which : take the rows, ascending, each once, and the target of the first of the values.
    """
    cdef Levels levels
    cdef Py_ssize_t value = 0, match = 0, num_found = 0, i
    cdef uint8_t most = <uint8_t>body.shape.max_definition
    start_levels(&levels, body, most)  # what goes on was checked before
    while match < num_matches and next_block(&levels):
        if matches[match] >= value + levels.num_values:
            value += levels.num_values
            row += levels.num_rows
            continue
        if levels.is_run:
            while match < num_matches and matches[match] < value + levels.num_values:
                rows[num_found], which[num_found] = row + 1 + matches[match] - value, targets[match]
                num_found += 1
                match += 1
            value += levels.num_values
            row += levels.num_rows
            continue
        unpack_block(&levels)
        for i in range(levels.length):
            row += levels.repeat[i] == 0
            if levels.definition[i + 1] == most:
                if match < num_matches and matches[match] == value:
                    if row != last_row:
                        which[num_found] = targets[match]
                        rows[num_found] = last_row = row
                        num_found += 1
                    match += 1
                value += 1
    return num_found


cdef class PageSearch(PageVisitor):
    """Finds the rows of column chunks that have at least one value that is equal to one of some targets.

    Parameters
    ----------
    column, decompress : as of `PageVisitor`.
    targets : to search for.
    """

    def __cinit__(self, StoredColumn column not None, decompress, Targets targets not None):
        if targets.is_piece and column.width:
            raise ValueError("pieces are searched for in byte arrays")
        self.targets = targets

    def __dealloc__(self):
        free(self.by_entry.data)
        free(self.positions.data)
        free(self.numbers.data)

    cdef bint begin(self, int codec, int64_t num_rows, int64_t* rows, int32_t* which) noexcept nogil:
        """Begin another column chunk; return whether it may have rows.

        Parameters
        ----------
        codec : that compresses its pages.
        num_rows : for which there is room in `rows`, that take the rows, ascending, and `which`, the number of the first
            target that each of them has.
        """
        self.codec, self.num_rows, self.rows, self.which = codec, num_rows, rows, which
        self.begun = self.num_found = self.num_entries = 0
        self.last = 0  # none that a list could go on from
        return self.targets.count > 0 and (
            self.column.width == 0 or self.targets.shortest <= self.column.width <= self.targets.longest
        )

    cdef int open_dictionary(self, const uint8_t* content, const int64_t* page) except -1 nogil:
        """Find the target that each entry of a dictionary is."""
        cdef PageBody body
        cdef Py_ssize_t count = page[NUM_VALUES], matches, i
        cdef Py_ssize_t size = max(count, <Py_ssize_t>1 << FEW_BITS)
        cdef int32_t* by_entry
        if not is_dictionary(page):
            refuse("it is a dictionary of another kind")
        reserve(&self.by_entry, size * sizeof(int32_t))
        by_entry = <int32_t*>self.by_entry.data
        for i in range(size):
            by_entry[i] = NO_TARGET if i < count else OUTSIDE
        self.num_entries = count
        if count == 0:  # its bytes may be none
            return 0
        try:
            cut_page(&body, content, page, self.codec, NULL)
            unpack_page(&body, self.decompress, MOST_BYTES)
            matches = self.match(&body, count, False)
        finally:
            close_page(&body)
        for i in range(matches):
            by_entry[(<int64_t*>self.positions.data)[i]] = (<int32_t*>self.numbers.data)[i]
        return 0

    cdef Py_ssize_t match(self, const PageBody* body, Py_ssize_t count, bint by_entry) except -1 nogil:
        """Return how many of the values of a page are targets; put their numbers and targets into `positions`, `numbers`.

        Parameters
        ----------
        count : of the values.
        by_entry : whether they are numbers of the dictionary's entries; plain-encoded if not.
        """
        cdef Py_ssize_t width = self.column.width
        reserve(&self.positions, count * sizeof(int64_t))
        reserve(&self.numbers, count * sizeof(int32_t))
        cdef int64_t* positions = <int64_t*>self.positions.data
        cdef int32_t* numbers = <int32_t*>self.numbers.data
        if by_entry:
            return match_numbers(body, count, self.num_entries, <int32_t*>self.by_entry.data, positions, numbers)
        if self.targets.is_piece:
            return match_pieces(self.targets, body.values, body.value_bytes, count, positions, numbers)
        if width == 0:
            return match_byte_arrays(self.targets, body.values, body.value_bytes, count, positions, numbers)
        if body.value_bytes // width < count:
            refuse("it has fewer values than its header says")
        return match_fixed(self.targets, body.values, width, count, positions, numbers)

    cdef int visit(self, PageBody* body, int64_t before) except -1 nogil:
        cdef Py_ssize_t matches, in_page = 0, i
        cdef Py_ssize_t count = count_levels(body, &self.last, &in_page)
        cdef bint has_lists = self.column.shape.max_repetition > 0, by_entry = needs_dictionary(body.encoding)
        cdef int64_t* rows = self.rows + self.num_found
        cdef int32_t* which = self.which + self.num_found
        if self.begun + in_page > self.num_rows:  # before any row is stored
            refuse("its column chunk has not as many rows as the row group")
        if has_lists:
            before = self.begun
        self.begun += in_page
        if count == 0:
            return 0
        if not by_entry:
            make_plain(body, self.column.width)
        matches = self.match(body, count, by_entry)
        cdef const int64_t* positions = <int64_t*>self.positions.data
        cdef const int32_t* numbers = <int32_t*>self.numbers.data
        if (has_lists or count < in_page) and matches:
            matches = find_rows(
                body, positions, numbers, matches, before - 1, self.rows[self.num_found - 1] if self.num_found else -1,
                rows, which
            )
        else:
            for i in range(matches):
                rows[i], which[i] = before + positions[i], numbers[i]
        self.num_found += matches
        return 0

    cdef int end(self) except -1 nogil:
        if self.column.shape.max_repetition > 0 and self.begun != self.num_rows:
            refuse("its column chunk has not as many rows as the row group")
        return 0
