# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Rows taken out of data pages into buffers of Arrow's layout, without decoding the other rows.

Nothing here trusts the bytes: what is not a page of its kind ends in UnusualPageError.

Source: Encodings.md of the format: "RLE / bit-packing hybrid", "PLAIN"; Arrow's columnar format.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

import numpy as np

from ..errors import UnusualPageError

from .page_decode cimport (
    ENCODING, FIELDS, MOST_BYTES, NUM_VALUES, PLAIN, UNPACKED, Buffer, Levels, PageBody, PageVisitor, Runs, close_page,
    cut_page, fall_short, is_dictionary, needs_dictionary, next_block, next_run, number_at, refuse, reserve, start_indices,
    start_levels, unpack_block, unpack_page
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


cdef bint place_values(const PageBody* body, Py_ssize_t width, int64_t* numbers, Py_ssize_t count) except -1 nogil:
    """Replace the numbers of some plain-encoded values of a page, ascending, by where in its values these begin.

    Returns False if only a part of the page is decompressed, without them.
    """
    cdef Py_ssize_t i, pos = 0, value = 0
    cdef uint32_t length = 0
    if width and numbers[count - 1] >= body.value_bytes // width:
        return fall_short(body, "it has fewer values than its header says")
    for i in range(count):
        if width:
            numbers[i] *= width
            continue
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
        numbers[i] = pos
    return True


cdef make_array(const Buffer* buffer, Py_ssize_t size, kind):
    return np.frombuffer(PyBytes_FromStringAndSize(<const char*>buffer.data, size), kind)


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
        self.num_entries = -1
        reserve(&self.values, 0)
        reserve(&self.ends, sizeof(int32_t))
        (<int32_t*>self.ends.data)[0] = 0

    def __dealloc__(self):
        close_page(&self.dictionary)
        free(self.entries.data)
        free(self.values.data)
        free(self.ends.data)
        free(self.valid.data)
        free(self.numbers.data)

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
        cdef int64_t i, last = count - 1
        cdef int64_t* places = &last
        if not self.column.width:
            reserve(&self.entries, count * sizeof(int64_t))
            places = <int64_t*>self.entries.data
            for i in range(count):
                places[i] = i
        if not place_values(&self.dictionary, self.column.width, places, 1 if self.column.width else count):
            return False
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
        cdef Py_ssize_t count = 0, num_values, i
        cdef const int64_t* rows = self.rows + self.at
        while self.at + count < self.count and rows[count] < before + body.page[NUM_VALUES]:
            count += 1
        reserve(&self.numbers, count * sizeof(int64_t))
        reserve(&self.valid, self.taken + count)
        cdef int64_t* numbers = <int64_t*>self.numbers.data
        self.at += count
        while True:
            num_values = count
            if self.column.shape.max_definition:
                num_values = locate_values(body, rows, count, before, self.valid.data + self.taken, numbers)
            else:
                for i in range(count):
                    numbers[i] = rows[i] - before
            if self.take_values(body, num_values, count):
                return 0
            unpack_page(body, self.decompress, MOST_BYTES)  # the share was too small, as sizes of values differ

    cdef int take_elements(self, PageBody* body) except -1 nogil:
        """Take the elements of lists of one level; a list may go on in the next page."""
        cdef Levels levels
        cdef Py_ssize_t value = 0, found = 0, num_stored = 0, i
        cdef uint8_t definition, least = body.shape.least[1], most = <uint8_t>body.shape.max_definition
        cdef const int64_t* rows = self.rows
        cdef uint8_t* has_list = &self.has_list[self.first]
        cdef int32_t* lengths = &self.lengths[self.first]
        cdef int64_t* numbers
        cdef uint8_t* valid
        reserve(&self.numbers, body.page[NUM_VALUES] * sizeof(int64_t))
        numbers = <int64_t*>self.numbers.data
        start_levels(&levels, body, self.last)
        while self.at < self.count and next_block(&levels):
            self.last = levels.definition[levels.length]
            if rows[self.at] > self.row + levels.num_rows:
                self.row += levels.num_rows
                value += levels.num_values
                continue
            if max(1, self.column.width) * (self.taken + found + levels.length) > MOST_TAKEN:
                refuse("its lists have too many elements")
            reserve(&self.valid, self.taken + found + levels.length)
            valid = self.valid.data + self.taken
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
                    valid[found] = definition == most
                    if definition == most:
                        numbers[num_stored] = value
                        num_stored += 1
                    found += 1
                value += definition == most
        if found:
            self.take_values(body, num_stored, found)
        return 0

    cdef bint take_values(self, PageBody* body, Py_ssize_t num_values, Py_ssize_t count) except -1 nogil:
        """Take the values whose numbers in the page are in `numbers`, ascending: those of `count` rows or elements.

        Returns False if only a part of the page is decompressed, without them.
        """
        cdef int64_t* numbers = <int64_t*>self.numbers.data
        cdef Py_ssize_t i, width = self.column.width
        cdef int64_t last = 0
        cdef Runs runs
        if num_values and needs_dictionary(body.encoding):
            start_indices(&runs, body)
            take_numbers(&runs, numbers, num_values, numbers)
            for i in range(num_values):
                last = max(last, numbers[i])
            self.need_entries(last + 1)
            for i in range(num_values):
                numbers[i] = numbers[i] * width if width else (<int64_t*>self.entries.data)[numbers[i]]
            self.append(self.dictionary.values, numbers, num_values)
        elif num_values:
            make_plain(body, width)
            if not place_values(body, width, numbers, num_values):
                return False
            self.append(body.values, numbers, num_values)
        self.taken += count
        return True

    cdef int append(self, const uint8_t* data, const int64_t* places, Py_ssize_t count) except -1 nogil:
        """Append values, given by where they begin in some data."""
        cdef Py_ssize_t i, width = self.column.width, size = self.size
        cdef int32_t* ends
        cdef uint32_t length = 0
        if width:
            reserve(&self.values, size + count * width)
            for i in range(count):
                memcpy(self.values.data + size + i * width, data + places[i], width)
            size += count * width
        else:
            reserve(&self.ends, (self.num_values + count + 1) * sizeof(int32_t))
            ends = <int32_t*>self.ends.data + self.num_values + 1
            for i in range(count):
                memcpy(&length, data + places[i], 4)
                if length > MOST_TAKEN - size:
                    refuse("its values are too long")
                if length > self.values.size - size:
                    reserve(&self.values, size + length)
                memcpy(self.values.data + size, data + places[i] + 4, length)
                size += length
                ends[i] = <int32_t>size
        self.size = size
        self.num_values += count
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
        cdef Py_ssize_t width = self.column.width
        valid, values = None, make_array(&self.values, self.size, np.uint8)
        ends = None if width else make_array(&self.ends, (self.num_values + 1) * sizeof(int32_t), np.int32)
        if self.num_values != self.taken:
            valid = make_array(&self.valid, self.taken, np.bool_)
            if width:
                spread = np.zeros(self.taken, f"V{width}")
                spread[valid] = values.view(spread.dtype)
                values = spread.view(np.uint8)
            else:  # those of the others end where they begin
                ends = ends[np.concatenate([[0], np.cumsum(valid)])]
        taken = valid, ends, values
        if self.column.shape.max_repetition == 0:
            return taken
        num_lists = self.first + self.count
        ends = np.zeros(num_lists + 1, np.int32)
        np.cumsum(self._lengths[:num_lists], out=ends[1:])
        return self._has_list[:num_lists].view(np.bool_), ends, taken
