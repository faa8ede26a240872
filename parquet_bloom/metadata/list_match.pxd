"""Search of the elements of lists for the values that are equal to one of some targets, without the interpreter lock."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from .page_match cimport Targets
from .page_rows cimport RowTaker

cdef enum:
    MOST_LEVEL = 255  # higher levels are left to pyarrow
    MOST_DEPTH = 15   # and so are deeper lists


cdef struct ListShape:
    # The levels of a column with lists; at least 1 and at most MOST_DEPTH and MOST_LEVEL.
    int max_repetition
    int max_definition
    uint8_t[16] least  # by repetition level, the least definition level of an element of its lists; 0 for level 0


cdef Py_ssize_t search_list_pages(
    const uint8_t* data, const int64_t* pages, Py_ssize_t num_pages, Py_ssize_t width, int codec,
    const ListShape* shape, Py_ssize_t num_rows, int64_t num_values, Targets targets, int64_t* rows
) noexcept nogil

cdef int take_lists(
    RowTaker taker, const uint8_t* data, const int64_t* pages, Py_ssize_t num_pages, int codec, const ListShape* shape,
    int64_t num_values, const int64_t* rows, Py_ssize_t count, uint8_t* valid, int32_t* lengths
) except -1 nogil

cdef ListShape make_shape(const int64_t[::1] least, int max_definition) except *
