"""Memory for filters: zeroed, aligned to cache lines, on huge pages if it is large (see memory.h)."""

from cpython.buffer cimport Py_buffer, PyBuffer_FillInfo
from libc.stddef cimport size_t

import numpy as np

cdef extern from "memory.h" nogil:
    void* allocate "pb_allocate"(size_t num_bytes)
    void release "pb_release"(void* memory, size_t num_bytes)


cdef class Memory:
    """Zeroed memory with the buffer protocol, freed with the last view of it.

    Raises
    ------
    MemoryError
        There is not enough memory.
    """

    cdef void* start
    cdef readonly Py_ssize_t num_bytes

    def __cinit__(self, Py_ssize_t num_bytes):
        if num_bytes < 1:
            raise ValueError(f"memory has 1 byte or more, not {num_bytes}")
        self.num_bytes = num_bytes
        self.start = allocate(num_bytes)
        if self.start == NULL:
            raise MemoryError(f"no memory for {num_bytes} bytes")

    def __dealloc__(self):
        if self.start != NULL:
            release(self.start, self.num_bytes)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.start, self.num_bytes, False, flags)


def zeros(Py_ssize_t num_bytes):
    """Allocate a uint8 array of zeros."""
    return np.frombuffer(Memory(num_bytes), np.uint8)


def copied(const unsigned char[::1] data not None):
    """Allocate a uint8 array with a copy of the bytes of a buffer."""
    out = zeros(data.shape[0])
    cdef unsigned char[::1] view = out
    with nogil:
        view[:] = data
    return out
