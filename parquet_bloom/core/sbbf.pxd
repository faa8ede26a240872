from libc.stdint cimport uint8_t, uint64_t


cdef uint64_t num_blocks_of(Py_ssize_t num_bytes) except 0
cdef void insert_hash(uint8_t* blocks, uint64_t num_blocks, uint64_t h) noexcept nogil
