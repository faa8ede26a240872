from libc.stdint cimport int64_t, uint8_t

from .variant_cursor cimport Fault, Row, Scalar, Spot, Text


cdef struct Target:
    int type            # a Type; TIMESTAMP and the like as in Arrow
    int bits            # of an integer
    int precision
    int scale
    int width           # bytes of a value; 0 of strings and binaries


cdef Fault cast_spot(Row* row, const Spot* spot, const Target* target, uint8_t* out, Text* text, bint* is_null) noexcept nogil
