from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy


cdef enum Layout:
    FIXED      # `width` bytes per key, `lead` included, consecutive
    OFFSETS32  # bytes addressed by length + 1 offsets of 32 bits
    OFFSETS64  # bytes addressed by length + 1 offsets of 64 bits
    VIEWS      # 16 bytes per key that hold it, or its location
    HASHES     # hashes of keys: 8 bytes each


cdef struct View:
    int32_t length
    int32_t prefix            # the key itself begins here, if it has at most INLINE_BYTES
    int32_t buffer
    int32_t offset


cdef enum:
    INLINE_START = 4
    INLINE_BYTES = 12


cdef struct KeySpan:
    Layout layout
    const uint8_t* data
    const uint8_t* offsets    # at the first key; NULL except for OFFSETS
    const uint8_t** buffers   # the buffers that VIEWS refer to
    Py_ssize_t width          # bytes per key; 0 for OFFSETS and VIEWS
    Py_ssize_t lead           # bytes in front of each key that belong to none; 0 except for FIXED and OFFSETS
    const uint8_t* validity   # Arrow bitmap, NULL if every key is valid
    int64_t validity_offset   # bit of the first key
    Py_ssize_t length         # keys


cdef class Keys:
    cdef KeySpan span
    cdef tuple owners         # keeps the memory alive
    cdef _set_validity(self, validity, Py_ssize_t offset)
    cdef _set_buffers(self, tuple buffers)


cdef inline bint is_valid(const KeySpan* keys, Py_ssize_t i) noexcept nogil:
    cdef int64_t bit
    if keys.validity == NULL:
        return True
    bit = keys.validity_offset + i
    return (keys.validity[bit >> 3] >> (bit & 7)) & 1


# Buffers may have any alignment, hence the copies.

cdef inline int64_t key_offset(const KeySpan* keys, Py_ssize_t i) noexcept nogil:
    """Return the offset of key i in the data, which is also the end of key i - 1; for OFFSETS only."""
    cdef int32_t narrow
    cdef int64_t wide
    if keys.layout == OFFSETS32:
        memcpy(&narrow, keys.offsets + 4 * i, 4)
        return narrow
    memcpy(&wide, keys.offsets + 8 * i, 8)
    return wide


cdef inline View key_view(const KeySpan* keys, Py_ssize_t i) noexcept nogil:
    cdef View view
    memcpy(&view, keys.data + sizeof(View) * i, sizeof(View))
    return view
