from libc.stdint cimport int64_t, uint64_t


cdef struct Shortest:
    bint negative
    uint64_t digits     # without trailing zeros; 0 for zero
    int exponent        # the number is digits * 10 ** exponent


cdef enum:
    LONGEST_FLOAT = 32  # bytes that `write_number` writes at most

cdef void find_shortest(double number, Shortest* out) noexcept nogil
cdef void find_shortest_float(float number, Shortest* out) noexcept nogil
cdef int write_double(double number, char* out) noexcept nogil
cdef int write_float(float number, char* out) noexcept nogil
