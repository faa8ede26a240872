from libc.stdint cimport int64_t, uint8_t

cdef enum:
    SLACK = 16  # bytes that may be written after the end, so that short copies take one instruction

cdef Py_ssize_t read_size(const uint8_t* data, Py_ssize_t end, int64_t* size) noexcept nogil

cdef int64_t unpack(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, uint8_t* out, int64_t size, int64_t needed
) noexcept nogil
