"""Many local files that are open at once, for other compiled modules."""

from libc.stdint cimport int64_t, uint8_t


cdef class RangeReader:
    cdef readonly bint is_remote
    cdef readonly bint counts_reads
    cdef int read(self, Py_ssize_t file, int64_t offset, int64_t length, uint8_t* to) except -1 nogil


cdef class OpenFiles(RangeReader):
    cdef list _paths
    cdef const int64_t[:, ::1] _identities
    cdef int* _descriptors
    cdef Py_ssize_t _count

    cdef void _close(self) noexcept nogil
