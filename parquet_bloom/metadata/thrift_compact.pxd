"""The cursor over the Thrift compact protocol, and page headers, for other compiled modules."""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef struct Field:
    int64_t id
    int type
    Py_ssize_t start    # of the field header
    Py_ssize_t value    # of the value, after the header
    bint long_form      # the id was written out, not as a difference to the field before


cdef class Cursor:
    cdef object owner
    cdef const uint8_t* data
    cdef Py_ssize_t pos
    cdef Py_ssize_t end
    cdef int64_t row_group  # what is being read, for errors; -1 outside of all
    cdef int64_t chunk

    cdef int fail(self, str problem) except -1
    cdef int fail_with(self, const char* problem, int64_t number=*, int64_t other=*) except -1 nogil
    cdef int need(self, uint64_t num_bytes) except -1 nogil
    cdef uint64_t varint(self) except? 0xFFFFFFFFFFFFFFFF nogil
    cdef int64_t integer(self) except? -9223372036854775807 nogil
    cdef bint next_field(self, Field* field) except -1 nogil
    cdef uint64_t list_header(self, int* element_type) except? 0xFFFFFFFFFFFFFFFF nogil
    cdef int skip(self, int type, int depth, bint element=*) except -1 nogil
    cdef object value(self, int type, int depth, bint element=*)


cdef struct Page:
    int64_t kind           # 0 data, 2 dictionary, 3 data of version 2
    int64_t header_bytes
    int64_t size           # after the header
    int64_t num_values
    int64_t encoding
    int64_t unpacked       # size when decompressed
    int64_t level_encoding # of the definition levels
    int64_t repeat_encoding # of version 1: of the repetition levels
    int64_t repeat_bytes   # of version 2: levels in front of the values, never compressed
    int64_t level_bytes
    int64_t num_nulls      # of version 2
    int64_t num_rows
    bint compressed        # of version 2: whether its values are
    int64_t checksum       # CRC-32 of what follows the header


cdef int read_page(Cursor cursor, Page* page) except -1 nogil


cdef enum:
    PAGE_FIELDS = 14


cdef struct PageRows:
    int64_t* rows     # as `index_pages` returns them; to be freed
    Py_ssize_t count
    Py_ssize_t room


cdef int describe_page(Cursor cursor, int64_t* row) except -1 nogil
cdef int64_t* add_page(PageRows* pages, Py_ssize_t max_pages) except NULL nogil
cdef int walk_pages(Cursor cursor, PageRows* pages, Py_ssize_t max_pages) except -1 nogil
