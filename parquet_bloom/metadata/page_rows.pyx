# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Rows taken out of data pages into buffers of Arrow's layout, without decoding the other rows.

Nothing here trusts the bytes: what is not a page of its kind ends in UnusualPageError.

Source: Encodings.md of the format: "RLE / bit-packing hybrid", "PLAIN"; Arrow's columnar format.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

import numpy as np

from ..errors import UnusualPageError

from .page_decode cimport (
    ENCODING, FIELDS, MOST_BYTES, NUM_VALUES, PLAIN, UNPACKED, Levels, PageBody, PageVisitor, Runs, close_page, cut_page,
    fall_short, is_dictionary, needs_dictionary, next_block, next_run, number_at, refuse, start_indices, start_levels, unpack_block,
    unpack_page
)
from .page_encodings cimport make_plain

cdef enum:
    EXTRA_BYTES = 4096     # decompressed beyond the share of a page that its rows would take if all had the same size
    MOST_TAKEN = 1 << 24   # bytes of values: many rows may share one long value of a dictionary


cdef Py_ssize_t locate_values(
    const PageBody* body, const int64_t* rows, Py_ssize_t num_rows, int64_t before, uint8_t* has_value, int64_t* numbers
) except -1 nogil:
    """Find the values of some rows of a page of a column without lists, some of whose values are null.

    Parameters
    ----------
    rows : ascending; of the chunk, where `before` rows are in front of the page.
    has_value, numbers : take a flag for each row, and the numbers among the stored values of those that have one.

    Returns
    -------
    How many have a value.
    """
    cdef Levels levels
    cdef Py_ssize_t i = 0, count = 0, value = 0, inside, seen, at
    cdef uint8_t most = <uint8_t>body.shape.max_definition
    start_levels(&levels, body, 0)
    while i < num_rows and next_block(&levels):
        unpack_block(&levels)
        inside = seen = 0  # rows of the block that are passed, and the number of values among them
        while i < num_rows and rows[i] < before + levels.length:
            at = rows[i] - before
            if levels.is_run:
                inside = at
                has_value[i] = levels.num_values > 0
            else:
                while seen < at:
                    inside += levels.definition[seen + 1] == most
                    seen += 1
                has_value[i] = levels.definition[at + 1] == most
            if has_value[i]:
                numbers[count] = value + inside
                count += 1
            i += 1
        value += levels.num_values
        before += levels.length
    return count


cdef int take_numbers(Runs* runs, const int64_t* positions, Py_ssize_t count, int64_t* out) except -1 nogil:
    """Decode the numbers at some positions, which ascend. `out` may be `positions`."""
    cdef Py_ssize_t i, before = 0  # numbers in front of the run
    cdef int64_t position
    cdef Runs run = runs[0]
    for i in range(count):
        position = positions[i]
        while position >= before + run.length:
            before += run.length
            next_run(runs)
            run = runs[0]
        out[i] = number_at(&run, position - before) if run.packed else run.value
    return 0


cdef class RowTaker(PageVisitor):
    """Takes rows of a column, page after page, into one buffer of values.

    Parameters
    ----------
    column, decompress : as of `PageVisitor`.
    num_rows : that will be taken in all; of a column with lists, at most.
    """

    def __cinit__(self, column, decompress, Py_ssize_t num_rows):
        cdef Py_ssize_t width = self.column.width, depth = self.column.shape.max_repetition
        if depth > 1 or depth and self.column.shape.max_definition > self.column.shape.least[1] + 1:
            raise UnusualPageError("page: lists of lists, or of structs")
        if num_rows < 0 or depth == 0 and max(1, width) * num_rows > MOST_TAKEN:
            raise UnusualPageError(f"page: {num_rows} values of {width} bytes are requested")
        if depth:
            self._has_list, self._lengths = np.empty(num_rows, np.uint8), np.empty(num_rows, np.int32)
            self.has_list, self.lengths = self._has_list, self._lengths
            num_rows = 0
        self.num_entries, self.room = -1, num_rows
        self.capacity = width * num_rows if width else 64 * num_rows
        self.values = <uint8_t*>malloc(max(1, self.capacity))
        if self.values == NULL:
            raise MemoryError()
        self._valid = np.ones(max(1, num_rows), np.uint8)
        self.valid = self._valid
        if not width:
            self._ends = np.zeros(num_rows + 1, np.int32)
            self.ends = self._ends

    def __dealloc__(self):
        close_page(&self.dictionary)
        free(self.entries)
        free(self.values)
        free(self.numbers)

    cdef int begin(self, int codec, const int64_t* rows, Py_ssize_t count) except -1 nogil:
        """Begin another column chunk, of which some rows are taken, ascending, of lists each once; `rows` have to stay."""
        self.first += self.count
        self.codec, self.rows, self.count, self.at = codec, rows, count, 0
        self.row, self.last = -1, 0
        self.num_entries, self.num_ready = -1, 0  # the dictionary of the chunk before is not this one's
        return 0

    cdef int end(self) except -1 nogil:
        if self.column.shape.max_repetition and self.at == self.count - 1 and self.row == self.rows[self.at]:
            self.at += 1
        if self.at < self.count:
            refuse("its column chunk has not as many rows as the row group")
        return 0

    cdef int open_dictionary(self, const uint8_t* content, const int64_t* page) except -1 nogil:
        """Set the dictionary of the chunk, whose bytes have to stay; they are decompressed when entries are needed."""
        if not is_dictionary(page):
            refuse("it is a dictionary of another kind")
        close_page(&self.dictionary)
        memcpy(self.dictionary_page, page, FIELDS * sizeof(int64_t))
        self.dictionary_content, self.num_entries, self.num_ready = content, page[NUM_VALUES], 0
        return 0

    cdef int need_entries(self, int64_t count) except -1 nogil:
        """Decompress the dictionary as far as its first `count` entries reach."""
        cdef int64_t unpacked = self.dictionary_page[UNPACKED]
        if count <= self.num_ready:
            return 0
        if count > self.num_entries:
            refuse("a number is not in the dictionary")
        if self.dictionary.page == NULL:
            cut_page(&self.dictionary, self.dictionary_content, self.dictionary_page, self.codec, NULL)
            unpack_page(
                &self.dictionary, self.decompress,
                <int64_t>(<double>unpacked * count / self.num_entries) + EXTRA_BYTES
            )
            if self.locate_entries(count):
                return 0
        # The share was too small, as sizes of values differ; or more entries are needed than before.
        if self.dictionary.partial:
            unpack_page(&self.dictionary, self.decompress, MOST_BYTES)
        self.locate_entries(self.num_entries)
        return 0

    cdef bint locate_entries(self, int64_t count) except -1 nogil:
        """Find the first entries of the dictionary; return False if only a part of it is decompressed, without them."""
        cdef PageBody* body = &self.dictionary
        cdef Py_ssize_t i, pos = 0
        cdef uint32_t length = 0
        if self.column.width:
            if body.value_bytes // self.column.width < count:
                return fall_short(body, "it has fewer values than its header says")
        else:
            free(self.entries)
            self.entries = <int64_t*>malloc(max(1, count) * sizeof(int64_t))
            if self.entries == NULL:
                refuse("there is no memory for it")
            for i in range(count):
                if body.value_bytes - pos >= 4:
                    memcpy(&length, body.values + pos, 4)
                if body.value_bytes - pos < 4 or length > <size_t>(body.value_bytes - pos - 4):
                    return fall_short(body, "a value is cut off")
                self.entries[i] = pos
                pos += 4 + <Py_ssize_t>length
        self.num_ready = count
        return True

    cdef int64_t find_needed(self, const int64_t* page, int64_t before) noexcept nogil:
        cdef Py_ssize_t i = self.at
        cdef int64_t row = before
        if self.at == self.count:
            return 0
        if self.column.shape.max_repetition or page[ENCODING] != PLAIN:
            return MOST_BYTES
        while i < self.count and self.rows[i] < before + page[NUM_VALUES]:
            row = self.rows[i]
            i += 1
        return <int64_t>(<double>page[UNPACKED] * (row - before + 1) / page[NUM_VALUES]) + EXTRA_BYTES

    cdef int visit(self, PageBody* body, int64_t before) except -1 nogil:
        """Take the rows that are in a page."""
        if self.column.shape.max_repetition:
            self.take_elements(body)
        else:
            self.take_rows(body, before)
        return 0

    cdef int take_rows(self, PageBody* body, int64_t before) except -1 nogil:
        cdef Py_ssize_t count = 0, num_values, i, taken = self.taken, size = self.size
        cdef const int64_t* rows = self.rows + self.at
        while self.at + count < self.count and rows[count] < before + body.page[NUM_VALUES]:
            count += 1
        self.need_numbers(count)
        self.at += count
        while True:
            num_values = count
            if self.column.shape.max_definition:
                num_values = locate_values(body, rows, count, before, &self.valid[taken], self.numbers)
            else:
                for i in range(count):
                    self.numbers[i] = rows[i] - before
            if self.copy_values(body, self.numbers, num_values, count):
                return 0
            self.size = size  # the share was too small, as sizes of values differ
            unpack_page(body, self.decompress, MOST_BYTES)

    cdef int take_elements(self, PageBody* body) except -1 nogil:
        """Take the elements of lists of one level; a list may go on in the next page."""
        cdef Levels levels
        cdef Py_ssize_t value = 0, found = 0, num_stored = 0, i
        cdef uint8_t definition, least = body.shape.least[1], most = <uint8_t>body.shape.max_definition
        cdef const int64_t* rows = self.rows
        cdef uint8_t* has_list = &self.has_list[self.first]
        cdef int32_t* lengths = &self.lengths[self.first]
        self.need_numbers(body.page[NUM_VALUES])
        start_levels(&levels, body, self.last)
        while self.at < self.count and next_block(&levels):
            self.last = levels.definition[levels.length]
            if rows[self.at] > self.row + levels.num_rows:
                self.row += levels.num_rows
                value += levels.num_values
                continue
            if self.taken + found + levels.length > self.room:
                with gil:
                    self.grow(found + levels.length)
            for i in range(levels.length):
                definition = levels.definition[i + 1]
                if levels.repeat[i] == 0:
                    if self.row == rows[self.at]:
                        self.at += 1
                        if self.at == self.count:
                            break
                    self.row += 1
                    if self.row == rows[self.at]:
                        has_list[self.at] = definition + 1 >= least
                        lengths[self.at] = 0
                if self.row == rows[self.at] and definition >= least:
                    lengths[self.at] += 1
                    self.valid[self.taken + found] = definition == most
                    if definition == most:
                        self.numbers[num_stored] = value
                        num_stored += 1
                    found += 1
                value += definition == most
        if found:
            self.copy_values(body, self.numbers, num_stored, found)
        return 0

    cdef bint copy_values(
        self, PageBody* body, int64_t* numbers, Py_ssize_t num_values, Py_ssize_t count
    ) except -1 nogil:
        """Append rows, of which `valid` says which ones have a value, and `numbers` which these are, ascending.

        Returns False if only a part of the page is decompressed, without them.
        """
        cdef Runs runs
        if num_values == 0:
            if not self.column.width:
                self.end_nulls(self.taken, self.taken + count)
        elif needs_dictionary(body.encoding):
            start_indices(&runs, body)
            take_numbers(&runs, numbers, num_values, numbers)
            self.copy_entries(numbers, num_values, count)
        else:
            make_plain(body, self.column.width)
            if not self.copy_plain(body, numbers, num_values, count):
                return False
        self.taken += count
        self.num_values += num_values
        return True

    cdef int need_numbers(self, Py_ssize_t count) except -1 nogil:
        if count > self.most_numbers:
            free(self.numbers)
            self.numbers = <int64_t*>malloc(count * sizeof(int64_t))
            self.most_numbers = count if self.numbers != NULL else 0
            if self.numbers == NULL:
                refuse("there is no memory for it")
        return 0

    cdef int grow(self, Py_ssize_t count) except -1:
        """Make room for some more values than were taken."""
        cdef Py_ssize_t needed = self.taken + count, room = max(needed, 2 * self.room), width = self.column.width
        cdef uint8_t* larger
        if needed > MOST_TAKEN or width * needed > MOST_TAKEN:
            refuse("its lists have too many elements")
        valid = np.ones(room, np.uint8)
        valid[:self.room] = self._valid[:self.room]
        if width:
            larger = <uint8_t*>realloc(self.values, width * room)
            if larger == NULL:
                raise MemoryError()
            self.values, self.capacity = larger, width * room
        else:
            ends = np.zeros(room + 1, np.int32)
            ends[:self.taken + 1] = self._ends[:self.taken + 1]
            self._ends = ends
            self.ends = ends
        self._valid = valid
        self.valid = valid
        self.room = room
        return 0

    cdef void end_nulls(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
        """Give rows without a value their ends."""
        cdef Py_ssize_t i
        for i in range(start, stop):
            self.ends[i + 1] = <int32_t>self.size

    cdef int append(self, const uint8_t* value, Py_ssize_t length) except -1 nogil:
        cdef uint8_t* larger
        cdef Py_ssize_t capacity
        if length > self.capacity - self.size:
            capacity = max(2 * self.capacity, self.size + length)
            if self.size + length > MOST_TAKEN:
                refuse("its values are too long")
            larger = <uint8_t*>realloc(self.values, capacity)
            if larger == NULL:
                refuse("there is no memory for it")
            self.values, self.capacity = larger, capacity
        memcpy(self.values + self.size, value, length)
        self.size += length
        return 0

    cdef Py_ssize_t next_row(self, Py_ssize_t row) noexcept nogil:
        """Return the first row from `row` on that has a value; byte arrays of the others end where they begin."""
        while not self.valid[row]:
            self.ends[row + 1] = <int32_t>self.size
            row += 1
        return row

    cdef bint copy_plain(self, PageBody* body, const int64_t* numbers, Py_ssize_t count, Py_ssize_t rows) except -1 nogil:
        """Append plain-encoded values, given by their numbers, ascending; `rows` rows have these and nulls.

        Returns False if only a part of the page is decompressed, without them.
        """
        cdef Py_ssize_t i, pos = 0, value = 0, row = self.taken, width = self.column.width
        cdef uint32_t length = 0
        if width:
            if numbers[count - 1] >= body.value_bytes // width:
                return fall_short(body, "it has fewer values than its header says")
            for i in range(count):
                memcpy(self.values + self.size, body.values + numbers[i] * width, width)
                self.size += width
            return True
        for i in range(count):
            while True:
                if body.value_bytes - pos < 4:
                    return fall_short(body, "it has fewer values than its header says")
                memcpy(&length, body.values + pos, 4)  # little-endian, as the processor is
                if length > <size_t>(body.value_bytes - pos - 4):
                    return fall_short(body, "a value is cut off")
                if value == numbers[i]:
                    break
                pos += 4 + <Py_ssize_t>length
                value += 1
            row = self.next_row(row)
            self.append(body.values + pos + 4, length)
            self.ends[row + 1] = <int32_t>self.size
            row += 1
        self.end_nulls(row, self.taken + rows)
        return True

    cdef int copy_entries(self, const int64_t* numbers, Py_ssize_t count, Py_ssize_t rows) except -1 nogil:
        """Append values by their numbers in the dictionary; `rows` rows have these and nulls."""
        cdef Py_ssize_t i, row = self.taken, width = self.column.width
        cdef int64_t last = 0
        cdef uint32_t length = 0
        cdef const uint8_t* entry
        for i in range(count):
            last = max(last, numbers[i])
        self.need_entries(last + 1)
        for i in range(count):
            if width:
                memcpy(self.values + self.size, self.dictionary.values + numbers[i] * width, width)
                self.size += width
                continue
            entry = self.dictionary.values + self.entries[numbers[i]]
            memcpy(&length, entry, 4)
            row = self.next_row(row)
            self.append(entry + 4, length)
            self.ends[row + 1] = <int32_t>self.size
            row += 1
        if not width:
            self.end_nulls(row, self.taken + rows)
        return 0

    def finish(self):
        """Return what was taken, in buffers of Arrow's layout.

        Returns
        -------
        (valid, ends, values) : valid, bool: whether a row has a value, or None if all have one; ends, int32: of byte
            arrays, beginning with 0, or None; values, uint8, of rows without a value too if they have a width. Of a
            column with lists instead: valid, bool, whether a row has a list; ends, int32, of the lists, beginning with
            0; and the three of the elements.
        """
        cdef Py_ssize_t row, value, width = self.column.width, count = self.taken
        cdef uint8_t[::1] out
        if self.size > INT32_MAX:
            refuse("its values are too long")
        full = self.num_values == count
        size = width * count if width else self.size
        values = np.zeros(size, np.uint8) if width and not full else np.empty(size, np.uint8)
        if self.size:
            out = values
            if full or not width:
                memcpy(&out[0], self.values, self.size)
            else:
                value = 0
                for row in range(count):
                    if self.valid[row]:
                        memcpy(&out[row * width], self.values + value * width, width)
                        value += 1
        taken = None if full else self._valid[:count].view(np.bool_), None if width else self._ends[:count + 1], values
        if self.column.shape.max_repetition == 0:
            return taken
        num_lists = self.first + self.count
        ends = np.zeros(num_lists + 1, np.int32)
        np.cumsum(self._lengths[:num_lists], out=ends[1:])
        return self._has_list[:num_lists].view(np.bool_), ends, taken
