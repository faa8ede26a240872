from libc.stdint cimport int64_t, uint8_t


cdef enum Layout:
    FIXED      # `width` bytes a key, one behind the other
    OFFSETS32  # bytes addressed by length + 1 offsets of 32 bits
    OFFSETS64  # the same with offsets of 64 bits
    HASHES     # no keys, but their hashes: 8 bytes each


cdef struct KeySpan:
    Layout layout
    const uint8_t* data
    const void* offsets       # at the first key; NULL when FIXED
    Py_ssize_t width          # bytes a key; 0 under OFFSETS
    const uint8_t* validity   # Arrow bitmap, NULL when every key is valid
    int64_t validity_offset   # bit of the first key
    Py_ssize_t length         # keys


cdef class Keys:
    cdef KeySpan span
    cdef tuple owners         # keeps the memory alive
    cdef _set_validity(self, validity, Py_ssize_t offset)


cdef inline bint is_valid(const KeySpan* keys, Py_ssize_t i) noexcept nogil:
    cdef int64_t bit
    if keys.validity == NULL:
        return True
    bit = keys.validity_offset + i
    return (keys.validity[bit >> 3] >> (bit & 7)) & 1
