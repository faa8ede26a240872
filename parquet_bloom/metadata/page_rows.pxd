"""`RowTaker`, for other compiled modules."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from .page_decode cimport FIELDS, Buffer, PageBody, PageVisitor


cdef class RowTaker(PageVisitor):
    cdef Py_ssize_t taken, num_values  # rows or elements, of which `num_values` have a value
    cdef Buffer valid            # whether they have one
    cdef Buffer values           # one after the other
    cdef Py_ssize_t size         # of the values
    cdef Buffer ends             # of byte arrays, int32, beginning with 0
    cdef object _has_list, _lengths
    # Of lists: whether each row has one, and of how many elements, up to the current chunk.
    cdef uint8_t[::1] has_list
    cdef int32_t[::1] lengths
    # Of the chunk: the rows that are taken, of which `at` are passed.
    cdef const int64_t* rows
    cdef Py_ssize_t count, at, first
    cdef int64_t row             # of lists: that began last
    cdef uint8_t last            # definition level
    cdef Buffer numbers          # of values in a page, int64
    cdef const uint8_t* dictionary_content
    cdef int64_t[FIELDS] dictionary_page
    cdef int64_t num_entries     # of the dictionary; -1 without one
    cdef PageBody dictionary     # decompressed, as far as entries were needed
    cdef int64_t num_ready       # entries that are decompressed
    cdef Buffer entries          # where their byte arrays begin, int64

    cdef int begin(self, int codec, const int64_t* rows, Py_ssize_t count) except -1 nogil
    cdef int need_entries(self, int64_t count) except -1 nogil
    cdef bint locate_entries(self, int64_t count) except -1 nogil
    cdef int take_rows(self, PageBody* body, int64_t before) except -1 nogil
    cdef int take_elements(self, PageBody* body) except -1 nogil
    cdef bint take_values(self, PageBody* body, Py_ssize_t num_values, Py_ssize_t count) except -1 nogil
    cdef int append(self, const uint8_t* data, const int64_t* places, Py_ssize_t count) except -1 nogil
