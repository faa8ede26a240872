# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""An exact set of 64-bit hashes, which a filter's size is taken from."""

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

import numpy as np


cdef class HashSet:
    """Distinct hashes, by open addressing: the hashes are uniform, so their low bits serve as the first slot.

    Memory: 16 to 32 bytes a distinct hash.
    """

    cdef uint64_t* slots        # 0 is an empty slot; the hash 0 itself is kept aside
    cdef uint64_t mask
    cdef Py_ssize_t used
    cdef bint has_zero

    def __cinit__(self):
        self.mask = 1023
        self.slots = <uint64_t*>calloc(self.mask + 1, 8)
        if self.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return self.used + self.has_zero

    def __contains__(self, uint64_t h):
        cdef uint64_t i = h & self.mask
        if h == 0:
            return self.has_zero
        while self.slots[i] and self.slots[i] != h:
            i = (i + 1) & self.mask
        return self.slots[i] == h

    cdef bint _grow(self) noexcept nogil:
        cdef uint64_t mask = 4 * self.mask + 3
        cdef uint64_t* slots = <uint64_t*>calloc(mask + 1, 8)
        cdef uint64_t i, j, h
        if slots == NULL:
            return False
        for i in range(self.mask + 1):
            h = self.slots[i]
            if h:
                j = h & mask
                while slots[j]:
                    j = (j + 1) & mask
                slots[j] = h
        free(self.slots)
        self.slots = slots
        self.mask = mask
        return True

    def add(self, const uint64_t[::1] hashes not None):
        """Add hashes, given as a uint64 array."""
        cdef Py_ssize_t k
        cdef uint64_t h, i
        cdef bint enough = True
        with nogil:
            for k in range(hashes.shape[0]):
                h = hashes[k]
                if h == 0:
                    self.has_zero = True
                    continue
                i = h & self.mask
                while self.slots[i] and self.slots[i] != h:
                    i = (i + 1) & self.mask
                if self.slots[i] == 0:
                    self.slots[i] = h
                    self.used += 1
                    if 2 * <uint64_t>self.used > self.mask:
                        enough = self._grow()
                        if not enough:
                            break
        if not enough:
            raise MemoryError

    def to_array(self):
        """The distinct hashes, as a uint64 array in no particular order."""
        out = np.zeros(len(self), dtype=np.uint64)
        cdef uint64_t[::1] view = out
        cdef Py_ssize_t written = 0
        cdef uint64_t i
        with nogil:
            for i in range(self.mask + 1):
                if self.slots[i]:
                    view[written] = self.slots[i]
                    written += 1
        return out
