"""The hybrid of repeated and bit-packed numbers, for other modules that read it."""

from libc.stdint cimport uint8_t, uint32_t


cdef struct Runs:
    const uint8_t* data
    Py_ssize_t pos
    Py_ssize_t end
    int width
    # The run whose header ends at `pos`:
    bint packed
    bint cut             # packed, with fewer numbers than its header says
    Py_ssize_t start     # of its bytes
    Py_ssize_t length    # numbers in the run
    uint32_t value       # that it repeats


cdef Runs open_runs(const uint8_t[::1] data, int width) except *
cdef int next_run(Runs* runs) except -1 nogil
cdef uint32_t packed_number(const Runs* runs, Py_ssize_t number) noexcept nogil
