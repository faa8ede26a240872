"""Hash one Python value as it is stored, for the common types, without calling Python code.

Other values (of subclasses, bools, strings without a UTF-8 encoding) are left to the caller.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_AsUnsignedLongLong, PyLong_CheckExact
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_CheckExact
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr

from ..hash.xxh64 cimport hash4, hash8, hash_bytes


cdef enum Form:
    NO_FORM   # every value is left to the caller
    INTEGERS  # an int in a range, little-endian in 4 or 8 bytes
    FLOATS    # a float of 4 or 8 bytes
    STRINGS   # bytes, and the UTF-8 of a str


cdef struct Scalars:
    Form form
    Py_ssize_t width     # bytes per value; negative for STRINGS of any length
    int64_t low          # INTEGERS: the smallest
    uint64_t high        # INTEGERS: the largest
    bint texts           # STRINGS: whether a str means its UTF-8 encoding
    bint backslashes     # STRINGS: whether this includes a str with a backslash


cdef enum Answer:
    UNSURE  # left to the caller
    NEVER   # no stored value equals it
    ANY     # its hash does not tell whether it is present
    HASHED  # it has one hash
    ZERO    # it is a floating-point zero, with two possible hashes


cdef class ScalarHasher:
    cdef Scalars expected


cdef inline Answer hash_integer(const Scalars* expected, object value, uint64_t* out) except *:
    cdef int overflow = 0
    cdef long long signed_value = PyLong_AsLongLongAndOverflow(value, &overflow)
    cdef uint64_t bits = <uint64_t>signed_value
    if overflow < 0:
        return NEVER
    if overflow:
        if expected.high <= <uint64_t>INT64_MAX:
            return NEVER
        try:
            bits = PyLong_AsUnsignedLongLong(value)
        except OverflowError:
            return NEVER
    elif signed_value < expected.low:
        return NEVER
    if (overflow or signed_value >= 0) and bits > expected.high:
        return NEVER
    cdef uint32_t half = <uint32_t>bits
    out[0] = hash8(<const uint8_t*>&bits) if expected.width == 8 else hash4(<const uint8_t*>&half)
    return HASHED


cdef inline uint64_t hash_float(const Scalars* expected, double value) noexcept:
    cdef float narrow = <float>value  # rounded to the nearest, or to infinity
    return hash8(<const uint8_t*>&value) if expected.width == 8 else hash4(<const uint8_t*>&narrow)


cdef inline Answer hash_string(const Scalars* expected, const char* start, Py_ssize_t length, uint64_t* out) noexcept:
    if expected.width >= 0 and length != expected.width:
        return NEVER
    out[0] = hash_bytes(<const uint8_t*>start, length)
    return HASHED


cdef inline Answer hash_scalar(const Scalars* expected, object value, uint64_t* out) except *:
    """Hash a value into `out[0]` if the result is HASHED, into `out[0]` and `out[1]` for both zeros if it is ZERO."""
    cdef Py_ssize_t length = 0
    cdef const char* start
    cdef double number
    if expected.form == INTEGERS:
        return hash_integer(expected, value, out) if PyLong_CheckExact(value) else UNSURE
    if expected.form == STRINGS:
        if PyBytes_CheckExact(value):
            return hash_string(expected, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), out)
        if not expected.texts or not PyUnicode_CheckExact(value):
            return UNSURE
        try:
            start = PyUnicode_AsUTF8AndSize(value, &length)
        except UnicodeEncodeError:
            return UNSURE
        if not expected.backslashes and memchr(start, c"\\", length) != NULL:
            return UNSURE
        return hash_string(expected, start, length, out)
    if expected.form == FLOATS and PyFloat_CheckExact(value):
        number = PyFloat_AS_DOUBLE(value)
        if number != number:
            return ANY
        out[0] = hash_float(expected, number)
        if <float>number != 0 if expected.width == 4 else number != 0:
            return HASHED
        out[0] = hash_float(expected, 0.0)
        out[1] = hash_float(expected, -0.0)
        return ZERO
    return UNSURE
