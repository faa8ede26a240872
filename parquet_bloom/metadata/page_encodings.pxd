"""Values of a page in other encodings than PLAIN, made plain, for other compiled modules."""

from libc.stdint cimport int64_t

from .page_decode cimport PageBody

cdef enum:
    # Encodings, by the format's numbers; and others for PLAIN and RLE where a value is one bit.
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    BYTE_STREAM_SPLIT = 9
    PLAIN_BITS = 64
    RLE_BITS = 65


cdef bint has_other_encoding(const int64_t* page) noexcept nogil

cdef int make_plain(PageBody* body, const int64_t* page, Py_ssize_t width) noexcept nogil

cdef int fail_page(Py_ssize_t problem) except -1
