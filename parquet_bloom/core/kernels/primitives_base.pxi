# Without special instruction sets: every primitive does nothing, and the loops process all keys in plain Cython.

cdef inline Py_ssize_t pb_hash4(const uint8_t* keys, Py_ssize_t count, uint64_t* out) noexcept nogil:
    return 0

cdef inline Py_ssize_t pb_hash8(const uint8_t* keys, Py_ssize_t count, uint64_t* out) noexcept nogil:
    return 0

cdef inline Py_ssize_t pb_hash_spans(
    const uint8_t** starts, const uint64_t* lengths, Py_ssize_t count, uint64_t* out
) noexcept nogil:
    return 0

cdef inline Py_ssize_t pb_locate(
    const uint64_t* hashes, Py_ssize_t count, uint64_t num_blocks, uint64_t* offsets, uint32_t* keys
) noexcept nogil:
    return 0

cdef inline Py_ssize_t pb_insert(
    uint8_t* bitset, const uint64_t* offsets, const uint32_t* keys, Py_ssize_t count
) noexcept nogil:
    return 0

cdef inline Py_ssize_t pb_check(
    const uint8_t* bitset, const uint64_t* offsets, const uint32_t* keys, Py_ssize_t count, uint8_t* results
) noexcept nogil:
    return 0

cdef inline Py_ssize_t pb_insert_new(
    uint8_t* bitset, const uint64_t* offsets, const uint32_t* keys, Py_ssize_t count, uint8_t* results
) noexcept nogil:
    return 0
