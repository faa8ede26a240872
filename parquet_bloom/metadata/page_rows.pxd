"""`RowTaker`, for other compiled modules."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from .page_decode cimport FIELDS, PageBody, PageVisitor


cdef class RowTaker(PageVisitor):
    cdef Py_ssize_t room, taken, num_values  # taken: values, of which `num_values` are stored
    cdef uint8_t* values
    cdef Py_ssize_t size, capacity
    cdef int32_t[::1] ends       # of byte arrays
    cdef uint8_t[::1] valid
    cdef object _ends, _valid, _has_list, _lengths
    # Of lists: whether each row has one, and of how many elements, up to the current chunk.
    cdef uint8_t[::1] has_list
    cdef int32_t[::1] lengths
    # Of the chunk: the rows that are taken, of which `at` are passed.
    cdef const int64_t* rows
    cdef Py_ssize_t count, at, first
    cdef int64_t row             # of lists: that began last
    cdef uint8_t last            # definition level
    cdef int64_t* numbers        # of values in a page
    cdef Py_ssize_t most_numbers
    cdef const uint8_t* dictionary_content
    cdef int64_t[FIELDS] dictionary_page
    cdef int64_t num_entries     # of the dictionary; -1 without one
    cdef PageBody dictionary     # decompressed, as far as entries were needed
    cdef int64_t num_ready       # entries that are decompressed
    cdef int64_t* entries        # where their byte arrays begin

    cdef int begin(self, int codec, const int64_t* rows, Py_ssize_t count) except -1 nogil
    cdef int need_entries(self, int64_t count) except -1 nogil
    cdef bint locate_entries(self, int64_t count) except -1 nogil
    cdef int take_rows(self, PageBody* body, int64_t before) except -1 nogil
    cdef int take_elements(self, PageBody* body) except -1 nogil
    cdef bint copy_values(
        self, PageBody* body, int64_t* numbers, Py_ssize_t num_values, Py_ssize_t count
    ) except -1 nogil
    cdef bint copy_plain(self, PageBody* body, const int64_t* numbers, Py_ssize_t count, Py_ssize_t rows) except -1 nogil
    cdef int copy_entries(self, const int64_t* numbers, Py_ssize_t count, Py_ssize_t rows) except -1 nogil
    cdef int need_numbers(self, Py_ssize_t count) except -1 nogil
    cdef int grow(self, Py_ssize_t count) except -1
    cdef void end_nulls(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef int append(self, const uint8_t* value, Py_ssize_t length) except -1 nogil
    cdef Py_ssize_t next_row(self, Py_ssize_t row) noexcept nogil
