# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""An exact set of 64-bit hashes, to determine the size of a filter."""

import os

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from .buckets cimport (
    Buckets, bucket_at, bucket_index, distribute, forget, free_buckets, is_lopsided, make_buckets, num_buckets,
    num_hashes, redistribute, settle
)

from ..dispatch import kernels
from ..keys import Keys

cdef extern from "memory.h" nogil:
    void* allocate "pb_allocate"(size_t num_bytes)
    void release "pb_release"(void* memory, size_t num_bytes)

cdef enum:
    LEAST_ROOM = 1 << 10  # hashes
    FIRST_ROOM = 1 << 17  # hashes with room allocated at first: 1.1 MiB, which fit into the L2 cache
    MOST_ROOM = 1 << 22   # maximum number of hashes with room allocated in advance: 34 MiB
    SIFTED = 1 << 10      # hashes processed at a time
    RECENT_BITS = 15      # log2 of the number of recent hashes that are remembered: 256 KiB
    MAP_BITS = 32         # bits of a map, per hash in it
    MAP_MOST_BITS = 23    # log2 of its maximum number of bits: 1 MiB
    PIECE = 1 << 13       # minimum number of hashes inserted into a filter at a time

# The multiplier that mixes unevenly distributed hashes: random, so that keys cannot be crafted to fill one bucket.
cdef uint64_t FACTOR = int.from_bytes(os.urandom(8), "little") | 1
cdef uint64_t SCATTER = <uint64_t>0x9E3779B97F4A7C15  # spreads hashes that share their upper bits


cdef inline uint64_t recent_slot(uint64_t h) noexcept nogil:
    return (h * FACTOR) >> (64 - RECENT_BITS)


cdef class HashSet:
    """A set of hashes. They are first only partitioned into buckets by their upper bits; the duplicates of a bucket are
    removed when it is full, and when the size of the set is requested. Both work within the CPU caches, unlike a single
    table of all hashes.

    Buckets are in the order of a filter's blocks, so that filling a filter from them accesses its memory sequentially.
    Hashes that share their upper bits (of crafted keys, or of rows sorted by their hashes) would all fall into a few
    buckets; when that is detected, this order is given up.

    Memory: 8 to 64 bytes per distinct hash, and 2.5 MiB. Once more than a quarter of that is used, 9 bytes for each
    expected hash (34 MiB at most) are allocated at once. It is kept until the set is deleted, as new pages take more
    time than the counting.

    Parameters
    ----------
    expected : expected number of hashes, including duplicates, if known.
    """

    cdef Buckets buckets
    cdef Buckets spare  # the initial small buckets while large ones are in use, or vice versa
    cdef uint64_t* recent  # recent hashes, each in its slot: most duplicates are dropped here
    cdef uint64_t expected
    cdef bint settled  # whether no bucket has repetitions

    def __cinit__(self, uint64_t expected=0):
        self.settled = True
        self._expect(expected)
        if not make_buckets(&self.buckets, min(self.expected, <uint64_t>FIRST_ROOM), 0):
            raise MemoryError

    def __dealloc__(self):
        free_buckets(&self.buckets)
        free_buckets(&self.spare)
        if self.recent != NULL:
            release(self.recent, <size_t>8 << RECENT_BITS)

    @property
    def at_most(self):
        """Return an upper bound of the number of hashes, without removing duplicates as len() does."""
        return num_hashes(&self.buckets)

    cdef void _expect(self, uint64_t expected) noexcept nogil:
        self.expected = max(<uint64_t>LEAST_ROOM, min(expected, <uint64_t>MOST_ROOM))

    def clear(self, uint64_t expected=0):
        """Remove all hashes, and keep the memory for the next ones; `expected` as for a new set."""
        cdef Buckets large
        if self.spare.hashes != NULL and self.spare.room < self.buckets.room:
            large = self.buckets
            self.buckets = self.spare  # few distinct values fit into the CPU caches
            self.spare = large
        forget(&self.buckets, 0)
        if self.recent != NULL:
            self._forget_recent()
        self._expect(expected)
        self.settled = True

    def __len__(self):
        self._settle()
        return num_hashes(&self.buckets)

    cdef bint _mix(self) noexcept nogil:
        """Give up the order of the buckets; return False if there is no memory."""
        return redistribute(&self.buckets, &self.spare, self.buckets.room, FACTOR, FACTOR)

    cdef bint _make_room(self, size_t bucket) noexcept nogil:
        """Make room in a full bucket; return False if there is no memory."""
        if not settle(&self.buckets, bucket):
            return self._mix()
        if 2 * self.buckets.counts[bucket] <= self.buckets.capacity:
            return True
        if self.buckets.room < self.expected:
            return redistribute(&self.buckets, &self.spare, self.expected, self.buckets.factor, FACTOR)
        # One full bucket, and little in the others?
        if is_lopsided(&self.buckets):
            return self._mix()
        return redistribute(&self.buckets, &self.spare, 4 * self.buckets.room, self.buckets.factor, FACTOR)

    def add(self, const uint64_t[::1] hashes not None):
        """Add hashes, given as a uint64 array."""
        cdef Py_ssize_t n = hashes.shape[0]
        cdef Py_ssize_t start = 0
        cdef Py_ssize_t count
        cdef uint64_t other[SIFTED]
        cdef bint enough = True
        if n == 0:
            return
        self.settled = False
        with nogil:
            if n < SIFTED or not self._remember():
                enough = self._deal(&hashes[0], n)
            else:
                while start < n and enough:
                    count = self._sift(&hashes[start], min(n - start, <Py_ssize_t>SIFTED), other)
                    enough = self._deal(other, count)
                    start += SIFTED
        if not enough:
            raise MemoryError

    cdef bint _remember(self) noexcept nogil:
        """Allocate the table of recent hashes; return False if there is no memory."""
        if self.recent == NULL:
            self.recent = <uint64_t*>allocate(<size_t>8 << RECENT_BITS)
            if self.recent != NULL:
                self._forget_recent()
        return self.recent != NULL

    cdef void _forget_recent(self) noexcept nogil:
        memset(self.recent, 0, <size_t>8 << RECENT_BITS)
        # Empty slots hold 0, which is a hash of this slot, so this slot is filled with a hash of another one.
        self.recent[0] = 1
        while recent_slot(self.recent[0]) == 0:
            self.recent[0] += 1

    cdef Py_ssize_t _sift(self, const uint64_t* hashes, Py_ssize_t n, uint64_t* other) noexcept nogil:
        """Copy the hashes that are not among the recent ones; return their number."""
        cdef Py_ssize_t num_kept = 0
        cdef Py_ssize_t i
        cdef uint64_t* slot
        for i in range(n):
            slot = self.recent + recent_slot(hashes[i])
            other[num_kept] = hashes[i]
            num_kept += slot[0] != hashes[i]
            slot[0] = hashes[i]
        return num_kept

    cdef bint _deal(self, const uint64_t* hashes, Py_ssize_t n) noexcept nogil:
        """Put hashes into the buckets; return False if there is no memory."""
        cdef Py_ssize_t done = 0
        while True:
            done += distribute(&self.buckets, hashes + done, n - done)
            if done == n:
                return True
            if not self._make_room(bucket_index(hashes[done], self.buckets.factor, self.buckets.bits)):
                return False

    cdef _settle(self):
        """Remove all duplicates."""
        cdef size_t bucket = 0
        cdef bint enough = True
        with nogil:
            while not self.settled and enough:
                self.settled = True
                for bucket in range(num_buckets(&self.buckets)):
                    if not settle(&self.buckets, bucket):
                        self.settled = False
                        enough = self._mix()
                        break
        if not enough:
            raise MemoryError

    cdef Py_ssize_t _copy(self, size_t* bucket, uint64_t* out, Py_ssize_t least) noexcept nogil:
        """Copy buckets, from number `bucket` on, until there are at least as many hashes; return their number."""
        cdef Py_ssize_t copied = 0
        while copied < least and bucket[0] < num_buckets(&self.buckets):
            memcpy(out + copied, bucket_at(&self.buckets, bucket[0]), 8 * <size_t>self.buckets.counts[bucket[0]])
            copied += self.buckets.counts[bucket[0]]
            bucket[0] += 1
        return copied

    def count_with(self, const uint64_t[::1] others not None):
        """Return the number of distinct hashes in this set and `others` together; those of `others` are distinct.

        Only the others that may be in the set according to a bit map are looked up; they are added to the set.
        """
        cdef Py_ssize_t n = others.shape[0]
        cdef Py_ssize_t num_maybe = 0
        cdef Py_ssize_t i
        cdef int shift = 64 - 6
        cdef uint64_t bit
        cdef uint64_t* map_words
        mine = self.to_array()
        while shift > 64 - MAP_MOST_BITS and <uint64_t>1 << (64 - shift) < MAP_BITS * <uint64_t>len(mine):
            shift -= 1
        is_there = np.zeros(<size_t>1 << (64 - shift - 6), dtype=np.uint64)
        maybe = np.empty(n + 1, dtype=np.uint64)
        cdef uint64_t[::1] map_view = is_there
        cdef uint64_t[::1] maybe_view = maybe
        cdef const uint64_t[::1] mine_view = mine
        map_words = &map_view[0]
        with nogil:
            for i in range(mine_view.shape[0]):
                bit = (mine_view[i] * SCATTER) >> shift
                map_words[bit >> 6] |= <uint64_t>1 << (bit & 63)
            for i in range(n):
                bit = (others[i] * SCATTER) >> shift
                maybe_view[num_maybe] = others[i]
                num_maybe += (map_words[bit >> 6] >> (bit & 63)) & 1
        self.add(maybe[:num_maybe])
        return n - num_maybe + len(self)

    def fill(self, bitset not None):
        """Insert every hash of the set into a filter's bitset."""
        cdef size_t bucket = 0
        cdef Py_ssize_t copied = 0
        piece = np.empty(PIECE + self.buckets.capacity, dtype=np.uint64)
        cdef uint64_t[::1] view = piece
        while True:
            copied = self._copy(&bucket, &view[0], PIECE)
            kernels.insert_keys(bitset, Keys.hashed(piece[:copied]))  # also if there are none, to validate the bitset
            if bucket == num_buckets(&self.buckets):
                break

    def to_array(self):
        """Return the distinct hashes as a uint64 array, in no particular order."""
        cdef size_t bucket = 0
        out = np.empty(len(self) + 1, dtype=np.uint64)
        cdef uint64_t[::1] view = out
        return out[: self._copy(&bucket, &view[0], view.shape[0])]
