"""`RowTaker`, for other compiled modules."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from .page_decode cimport FIELDS, PageBody


cdef class RowTaker:
    cdef Py_ssize_t width, num_rows, taken, num_values
    cdef bint required
    cdef int codec
    cdef uint8_t* values
    cdef Py_ssize_t size, capacity
    cdef int32_t[::1] ends       # of byte arrays
    cdef uint8_t[::1] valid
    cdef object _ends, _valid
    cdef const uint8_t* dictionary_data
    cdef int64_t[FIELDS] dictionary_page
    cdef int64_t num_entries     # of the dictionary; -1 without one
    cdef PageBody dictionary     # decompressed, as far as entries were needed
    cdef int64_t num_ready       # entries that are decompressed
    cdef int64_t* entries        # where their byte arrays begin

    cdef void begin(self, int codec) noexcept nogil
    cdef int open_dictionary(self, const uint8_t* data, const int64_t* page) noexcept nogil
    cdef void forget_dictionary(self) noexcept nogil
    cdef int need_entries(self, int64_t count) noexcept nogil
    cdef int unpack_entries(self, int64_t count, int64_t needed) noexcept nogil
    cdef int take_page(
        self, const uint8_t* data, const int64_t* page, int64_t before, const int64_t* rows, Py_ssize_t count
    ) noexcept nogil
    cdef int take_from_front(
        self, const uint8_t* data, const int64_t* page, int64_t before, const int64_t* rows, Py_ssize_t count, bint whole
    ) noexcept nogil
    cdef int take_values(self, PageBody* body, const int64_t* page, int64_t* numbers, Py_ssize_t count) noexcept nogil
    cdef int copy_values(
        self, PageBody* body, const int64_t* page, int64_t* numbers, Py_ssize_t num_values, Py_ssize_t count
    ) noexcept nogil
    cdef int grow(self, Py_ssize_t count) except -1
    cdef void end_nulls(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef int append(self, const uint8_t* value, Py_ssize_t length) noexcept nogil
    cdef Py_ssize_t next_row(self, Py_ssize_t row) noexcept nogil
    cdef int copy_plain(self, PageBody* body, const int64_t* numbers, Py_ssize_t count, Py_ssize_t rows) noexcept nogil
    cdef int copy_entries(self, const int64_t* numbers, Py_ssize_t count, Py_ssize_t rows) noexcept nogil
