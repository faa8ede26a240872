# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Rows taken out of data pages into buffers of Arrow's layout, without decoding the other rows.

Nothing here trusts the bytes: what is not a page of its kind ends in MalformedFooterError.

Source: Encodings.md of the format: "RLE / bit-packing hybrid", "PLAIN"; Arrow's columnar format.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

import numpy as np

from ..errors import MalformedFooterError

from .page_decode cimport (
    DATA_PAGE, DATA_PAGE_V2, ENCODING, FIELDS, KIND, MOST_BYTES, NO_MEMORY, NOT_IN_DICTIONARY, NUM_VALUES, PLAIN, UNPACKED,
    UNSUPPORTED, VALUE_CUT_OFF, VALUES_MISSING, PageBody, close_page, is_dictionary, needs_dictionary, open_page
)
from .page_encodings cimport fail_page, has_other_encoding, make_plain
from .runs cimport Runs, locate_values, require_repeated, start_runs, take_numbers

cdef enum:
    EXTRA_BYTES = 4096     # decompressed beyond the share of a page that its rows would take if all had the same size
    MOST_TAKEN = 1 << 24   # bytes of values: many rows may share one long value of a dictionary


cdef class RowTaker:
    """Takes rows of a column, page after page, into one buffer of values.

    Parameters
    ----------
    width : bytes per value; 0 for length-prefixed byte arrays.
    required : whether each row has a value.
    num_rows : that will be taken in all.
    """

    def __cinit__(self, Py_ssize_t width, bint required, Py_ssize_t num_rows):
        if width < 0 or not 0 <= num_rows <= MOST_TAKEN or width * num_rows > MOST_TAKEN:
            raise MalformedFooterError(f"page: {num_rows} values of {width} bytes are requested")
        self.width, self.required, self.num_rows = width, required, num_rows
        self.num_entries = -1
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

    cdef void begin(self, int codec) noexcept nogil:
        """Begin another column chunk, whose pages are compressed with a codec."""
        self.codec = codec
        self.forget_dictionary()

    cdef int open_dictionary(self, const uint8_t* data, const int64_t* page) noexcept nogil:
        """Set the dictionary of the chunk, whose bytes have to stay where they are; they are read when entries are needed."""
        self.forget_dictionary()
        if not is_dictionary(page):
            return UNSUPPORTED
        self.dictionary_data = data
        memcpy(self.dictionary_page, page, FIELDS * sizeof(int64_t))
        self.num_entries = page[NUM_VALUES]
        return 0

    cdef void forget_dictionary(self) noexcept nogil:
        close_page(&self.dictionary)
        free(self.entries)
        self.entries = NULL
        self.num_entries = -1
        self.num_ready = 0

    cdef int need_entries(self, int64_t count) noexcept nogil:
        """Decompress the dictionary as far as its first `count` entries reach; return 0, or a problem."""
        cdef int64_t unpacked = self.dictionary_page[UNPACKED]
        cdef int problem = UNSUPPORTED
        if count <= self.num_ready:
            return 0
        if count > self.num_entries:
            return NOT_IN_DICTIONARY
        if self.num_ready == 0:
            problem = self.unpack_entries(
                count, <int64_t>(<double>unpacked * count / self.num_entries) + EXTRA_BYTES
            )
        if problem:  # perhaps the share was too small: sizes of values differ; or more entries are needed than before
            problem = self.unpack_entries(self.num_entries, MOST_BYTES)
        return problem

    cdef int unpack_entries(self, int64_t count, int64_t needed) noexcept nogil:
        """Decompress at least `needed` bytes of the dictionary, which must have the first `count` entries."""
        cdef Py_ssize_t i, pos = 0
        cdef uint32_t length = 0
        cdef int problem
        close_page(&self.dictionary)
        free(self.entries)
        self.entries = NULL
        self.num_ready = 0
        problem = open_page(self.dictionary_data, self.dictionary_page, self.codec, True, needed, &self.dictionary)
        if problem:
            return problem
        if self.width:
            if self.dictionary.value_bytes // self.width < count:
                return VALUES_MISSING
        else:
            self.entries = <int64_t*>malloc(max(1, count) * sizeof(int64_t))
            if self.entries == NULL:
                return NO_MEMORY
            for i in range(count):
                if self.dictionary.value_bytes - pos < 4:
                    return VALUES_MISSING
                memcpy(&length, self.dictionary.values + pos, 4)
                if length > <size_t>(self.dictionary.value_bytes - pos - 4):
                    return VALUE_CUT_OFF
                self.entries[i] = pos
                pos += 4 + <Py_ssize_t>length
        self.num_ready = count
        return 0

    cdef int take_page(
        self, const uint8_t* data, const int64_t* page, int64_t before, const int64_t* rows, Py_ssize_t count
    ) noexcept nogil:
        """Take rows of a page, which follows `before` rows; return 0, or a problem."""
        cdef int problem = self.take_from_front(data, page, before, rows, count, False)
        if problem:  # perhaps the share was too small: sizes of values differ
            problem = self.take_from_front(data, page, before, rows, count, True)
        return problem

    cdef int take_from_front(
        self, const uint8_t* data, const int64_t* page, int64_t before, const int64_t* rows, Py_ssize_t count, bint whole
    ) noexcept nogil:
        cdef PageBody body
        cdef Py_ssize_t taken = self.taken, num_values = self.num_values, size = self.size, i
        cdef int64_t needed = MOST_BYTES
        cdef int64_t* numbers
        cdef int problem
        if page[KIND] != DATA_PAGE and page[KIND] != DATA_PAGE_V2:
            return UNSUPPORTED
        if not whole and page[ENCODING] == PLAIN:
            needed = <int64_t>(<double>page[UNPACKED] * (rows[count - 1] - before + 1) / page[NUM_VALUES]) + EXTRA_BYTES
        problem = open_page(data, page, self.codec, self.required, needed, &body)
        if not problem:
            numbers = <int64_t*>malloc(count * sizeof(int64_t))
            if numbers == NULL:
                problem = NO_MEMORY
            else:
                for i in range(count):
                    numbers[i] = rows[i] - before
                problem = self.take_values(&body, page, numbers, count)
            free(numbers)
        close_page(&body)
        if problem:
            self.taken, self.num_values, self.size = taken, num_values, size
        return problem

    cdef int take_values(
        self, PageBody* body, const int64_t* page, int64_t* numbers, Py_ssize_t count
    ) noexcept nogil:
        """Append the values of rows of an open page; `numbers` has the rows, and is overwritten."""
        cdef Runs runs
        cdef Py_ssize_t num_values = count
        if not self.required:
            start_runs(&runs, body.levels, body.level_bytes, 1)
            num_values = locate_values(&runs, numbers, count, &self.valid[self.taken], numbers)
            if num_values < 0:
                return <int>num_values
        return self.copy_values(body, page, numbers, num_values, count)

    cdef int copy_values(
        self, PageBody* body, const int64_t* page, int64_t* numbers, Py_ssize_t num_values, Py_ssize_t count
    ) noexcept nogil:
        """Append rows, of which `valid` says which ones have a value; `numbers` has those of the values, ascending."""
        cdef Runs runs
        cdef int problem
        if num_values == 0:
            problem = 0
        elif page[ENCODING] == PLAIN or has_other_encoding(page):
            problem = 0 if page[ENCODING] == PLAIN else make_plain(body, page, self.width)
            if not problem:
                problem = self.copy_plain(body, numbers, num_values, count)
        elif not needs_dictionary(page) or self.num_entries < 0 or body.value_bytes == 0 or body.values[0] > 32:
            return UNSUPPORTED
        else:
            if body.values[0] == 0:  # a dictionary of one entry has numbers of no bits
                problem = require_repeated(body.values + 1, body.value_bytes - 1, numbers[num_values - 1] + 1)
                if problem:
                    return problem
                memset(numbers, 0, num_values * sizeof(int64_t))
            else:
                start_runs(&runs, body.values + 1, body.value_bytes - 1, body.values[0])
                problem = take_numbers(&runs, numbers, num_values, numbers)
                if problem:
                    return problem
            problem = self.copy_entries(numbers, num_values, count)
        if problem:
            return problem
        if not self.width and num_values == 0:
            self.end_nulls(self.taken, self.taken + count)
        self.taken += count
        self.num_values += num_values
        return 0

    cdef int grow(self, Py_ssize_t count) except -1:
        """Make room for some more rows than were taken, beyond those that were announced."""
        cdef Py_ssize_t needed = self.taken + count, num_rows = max(needed, 2 * self.num_rows)
        cdef uint8_t* larger
        if needed <= self.num_rows:
            return 0
        if needed > MOST_TAKEN or self.width * needed > MOST_TAKEN:
            fail_page(UNSUPPORTED)
        valid = np.ones(num_rows, np.uint8)
        valid[:self.taken] = self._valid[:self.taken]
        if self.width:
            larger = <uint8_t*>realloc(self.values, self.width * num_rows)
            if larger == NULL:
                raise MemoryError()
            self.values, self.capacity = larger, self.width * num_rows
        else:
            ends = np.zeros(num_rows + 1, np.int32)
            ends[:self.taken + 1] = self._ends[:self.taken + 1]
            self._ends = ends
            self.ends = ends
        self._valid = valid
        self.valid = valid
        self.num_rows = num_rows
        return 0

    cdef void end_nulls(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
        """Give rows without a value their ends."""
        cdef Py_ssize_t i
        for i in range(start, stop):
            self.ends[i + 1] = <int32_t>self.size

    cdef int append(self, const uint8_t* value, Py_ssize_t length) noexcept nogil:
        cdef uint8_t* larger
        cdef Py_ssize_t capacity
        if length > self.capacity - self.size:
            capacity = max(2 * self.capacity, self.size + length)
            if self.size + length > MOST_TAKEN:
                return UNSUPPORTED
            larger = <uint8_t*>realloc(self.values, capacity)
            if larger == NULL:
                return NO_MEMORY
            self.values, self.capacity = larger, capacity
        memcpy(self.values + self.size, value, length)
        self.size += length
        return 0

    cdef Py_ssize_t next_row(self, Py_ssize_t row) noexcept nogil:
        """Return the first row from `row` on that has a value; byte arrays of the others end where they begin."""
        while not self.valid[row]:
            if not self.width:
                self.ends[row + 1] = <int32_t>self.size
            row += 1
        return row

    cdef int copy_plain(self, PageBody* body, const int64_t* numbers, Py_ssize_t count, Py_ssize_t rows) noexcept nogil:
        """Append plain-encoded values, given by their numbers, ascending; `rows` rows have these and nulls."""
        cdef Py_ssize_t i, pos = 0, value = 0, row = self.taken
        cdef uint32_t length = 0
        cdef int problem
        if self.width:
            if numbers[count - 1] >= body.value_bytes // self.width:
                return VALUES_MISSING
            for i in range(count):
                memcpy(self.values + self.size, body.values + numbers[i] * self.width, self.width)
                self.size += self.width
            return 0
        for i in range(count):
            while True:
                if body.value_bytes - pos < 4:
                    return VALUES_MISSING
                memcpy(&length, body.values + pos, 4)  # little-endian, as the processor is
                if length > <size_t>(body.value_bytes - pos - 4):
                    return VALUE_CUT_OFF
                if value == numbers[i]:
                    break
                pos += 4 + <Py_ssize_t>length
                value += 1
            row = self.next_row(row)
            problem = self.append(body.values + pos + 4, length)
            if problem:
                return problem
            self.ends[row + 1] = <int32_t>self.size
            row += 1
        self.end_nulls(row, self.taken + rows)
        return 0

    cdef int copy_entries(self, const int64_t* numbers, Py_ssize_t count, Py_ssize_t rows) noexcept nogil:
        """Append values by their numbers in the dictionary; `rows` rows have these and nulls."""
        cdef Py_ssize_t i, row = self.taken
        cdef int64_t last = 0
        cdef uint32_t length = 0
        cdef const uint8_t* entry
        cdef int problem
        for i in range(count):
            last = max(last, numbers[i])
        problem = self.need_entries(last + 1)
        if problem:
            return problem
        for i in range(count):
            if self.width:
                memcpy(self.values + self.size, self.dictionary.values + numbers[i] * self.width, self.width)
                self.size += self.width
                continue
            entry = self.dictionary.values + self.entries[numbers[i]]
            memcpy(&length, entry, 4)
            row = self.next_row(row)
            problem = self.append(entry + 4, length)
            if problem:
                return problem
            self.ends[row + 1] = <int32_t>self.size
            row += 1
        if not self.width:
            self.end_nulls(row, self.taken + rows)
        return 0

    def finish(self):
        """Return the buffers of Arrow's layout of all rows that were announced.

        Returns
        -------
        (valid, ends, values) : valid, bool: whether a row has a value, or None if all have one; ends, int32: of byte
            arrays, beginning with 0, or None; values, uint8, of rows without a value too if they have a width.
        """
        cdef Py_ssize_t row, value
        cdef uint8_t[::1] out
        if self.taken != self.num_rows:
            raise ValueError(f"{self.taken} rows of {self.num_rows} were taken")
        if self.size > INT32_MAX:
            fail_page(UNSUPPORTED)
        full = self.num_values == self.num_rows
        size = self.width * self.num_rows if self.width else self.size
        values = np.zeros(size, np.uint8) if self.width and not full else np.empty(size, np.uint8)
        if self.size:
            out = values
            if full or not self.width:
                memcpy(&out[0], self.values, self.size)
            else:
                value = 0
                for row in range(self.num_rows):
                    if self.valid[row]:
                        memcpy(&out[row * self.width], self.values + value * self.width, self.width)
                        value += 1
        ends = None if self.width else self._ends[:self.num_rows + 1]
        return None if full else self._valid[:self.num_rows].view(np.bool_), ends, values
