# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""An exact set of 64-bit hashes, which a filter's size is taken from."""

from libc.stdint cimport uint8_t, uint64_t

import numpy as np

from .block cimport insert_hash, num_blocks_of

cdef extern from "memory.h" nogil:
    void* allocate "pb_allocate"(size_t num_bytes)
    void release "pb_release"(void* memory, size_t num_bytes)

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define pb_prefetch(p) __builtin_prefetch(p, 1)
    #else
    #define pb_prefetch(p) ((void)(p))
    #endif
    """
    void prefetch "pb_prefetch"(const void*) nogil

cdef enum:
    RUN = 64    # slots taken at once; a table has a multiple of it
    AHEAD = 16  # slots fetched before they are looked at: a large table lives outside of the near caches
    MOST_BITS = 22  # of the room made in advance: 32 MiB
    FAR = 1024  # slots from the first to the one found, more than chance brings about

cdef uint64_t SCATTER = <uint64_t>0x9E3779B97F4A7C15  # odd: what it multiplies is still all different


cdef class HashSet:
    """Distinct hashes, by open addressing. The upper bits are the first slot, so that slots stand in the order of a
    filter's blocks, and filling a filter from them walks through its memory once. Rows that come in the order of their
    hashes (as some databases sort them) would crowd the first slots; when that is seen, the order is given up.

    Memory: 16 to 64 bytes a distinct hash.

    Parameters
    ----------
    expected : how many hashes may come, if that is known: room for (some of) them is made at once.
    """

    cdef uint64_t* slots        # 0 is an empty slot; the hash 0 itself is kept aside
    cdef int bits               # log2 of the number of slots
    cdef uint64_t factor        # of the hash whose upper bits are the first slot: 1, or SCATTER
    cdef Py_ssize_t used
    cdef bint has_zero

    def __cinit__(self, uint64_t expected=0):
        self.bits = 10
        while self.bits < MOST_BITS and <uint64_t>1 << self.bits <= 2 * expected:
            self.bits += 1
        self.factor = 1
        self.slots = <uint64_t*>allocate(<size_t>8 << self.bits)
        if self.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        release(self.slots, <size_t>8 << self.bits)

    def __len__(self):
        return self.used + self.has_zero

    cdef bint _rebuild(self, int bits, uint64_t factor) noexcept nogil:
        cdef uint64_t* slots = <uint64_t*>allocate(<size_t>8 << bits)
        cdef uint64_t i
        if slots == NULL:
            return False
        for i in range(<uint64_t>1 << self.bits):
            if self.slots[i]:
                slots[find(slots, bits, factor, self.slots[i])] = self.slots[i]
        release(self.slots, <size_t>8 << self.bits)
        self.slots = slots
        self.bits = bits
        self.factor = factor
        return True

    def add(self, const uint64_t[::1] hashes not None):
        """Add hashes, given as a uint64 array."""
        cdef Py_ssize_t n = hashes.shape[0]
        cdef Py_ssize_t k
        cdef uint64_t slot
        cdef bint enough = True
        with nogil:
            for k in range(n):
                if k + AHEAD < n:
                    prefetch(self.slots + ((hashes[k + AHEAD] * self.factor) >> (64 - self.bits)))
                if hashes[k] == 0:
                    self.has_zero = True
                    continue
                slot = find(self.slots, self.bits, self.factor, hashes[k])
                if self.slots[slot] == 0:
                    self.slots[slot] = hashes[k]
                    self.used += 1
                    if 2 * <uint64_t>self.used > <uint64_t>1 << self.bits:
                        enough = self._rebuild(self.bits + 2, self.factor)
                    elif self.factor == 1 and far_off(slot, self.bits, hashes[k]):
                        enough = self._rebuild(self.bits, SCATTER)
                    if not enough:
                        break
        if not enough:
            raise MemoryError

    cdef Py_ssize_t _take(self, uint64_t* slot, uint64_t* out) noexcept nogil:
        """Copy the hashes of the next RUN slots to `out`, which has room for as many; returns how many there were."""
        cdef Py_ssize_t taken = 0
        cdef int i
        for i in range(RUN):
            out[taken] = slot[i]  # without a branch: whether a slot is used is a coin toss
            taken += slot[i] != 0
        return taken

    def fill(self, uint8_t[::1] bitset not None):
        """Insert every hash of the set into a filter's bitset."""
        cdef uint64_t num_blocks = num_blocks_of(bitset.shape[0])
        cdef uint8_t* blocks = &bitset[0]
        cdef uint64_t run[RUN]
        cdef uint64_t number
        cdef Py_ssize_t taken, k
        with nogil:
            for number in range((<uint64_t>1 << self.bits) // RUN):
                taken = self._take(self.slots + RUN * number, run)
                for k in range(taken):
                    insert_hash(blocks, num_blocks, run[k])
            if self.has_zero:
                insert_hash(blocks, num_blocks, 0)

    def to_array(self):
        """The distinct hashes, as a uint64 array in no particular order."""
        out = np.zeros(len(self) + RUN, dtype=np.uint64)
        cdef uint64_t[::1] view = out
        cdef Py_ssize_t written = self.has_zero
        cdef uint64_t number
        with nogil:
            for number in range((<uint64_t>1 << self.bits) // RUN):
                written += self._take(self.slots + RUN * number, &view[written])
        return out[: len(self)]


cdef inline uint64_t find(const uint64_t* slots, int bits, uint64_t factor, uint64_t h) noexcept nogil:
    """The slot that holds a hash, or the empty one where it belongs."""
    cdef uint64_t mask = (<uint64_t>1 << bits) - 1
    cdef uint64_t i = (h * factor) >> (64 - bits)
    while slots[i] and slots[i] != h:
        i = (i + 1) & mask
    return i


cdef inline bint far_off(uint64_t slot, int bits, uint64_t h) noexcept nogil:
    """Whether a hash (of factor 1) was put more than FAR slots behind its first one."""
    return ((slot - (h >> (64 - bits))) & ((<uint64_t>1 << bits) - 1)) > FAR
