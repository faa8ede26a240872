# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Aligned cuckoo filters of many units: the same number of buckets for all, and as many slots per bucket as each needs.

Row b holds bucket b of every unit, consecutively, so that all units are probed by reading two rows. This module builds
filters; cuckoo_rows.pyx converts rows to bytes, and searches them. Source: Fan, Andersen, Kaminsky, Mitzenmacher,
"Cuckoo Filter: Practically Better Than Bloom", CoNEXT 2014; the number of buckets need not be a power of two, as the
other bucket is a constant of the fingerprint minus the bucket, modulo their number.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

import numpy as np

cdef enum:
    MOST_VISITED = 1024  # buckets searched for a free slot before every bucket gets one more slot

MOST_BUCKETS = 1 << 24
FINGERPRINT_BITS = (8, 12, 16, 24)


cdef class Layout:
    """The mapping of hashes to fingerprints and buckets, and of rows to bytes.

    The fingerprint (never 0, which is an empty slot) comes from the lower half of the hash, the first bucket from the upper.
    A row's bytes: a plane with the lower 16 bits of each fingerprint (8, if fingerprints have 8 or 12), a plane with the
    bits above (a byte each, or half a byte, the lower half first), and 4 bytes of checksum.

    Parameters
    ----------
    num_buckets : 1 to 2**24.
    fingerprint_bits : 8, 12, 16 or 24.
    """

    def __init__(self, num_buckets, fingerprint_bits):
        if not 1 <= num_buckets <= MOST_BUCKETS:
            raise ValueError(f"there are 1 to {MOST_BUCKETS} buckets, not {num_buckets}")
        if fingerprint_bits not in FINGERPRINT_BITS:
            raise ValueError(f"fingerprints have 8, 12, 16 or 24 bits, not {fingerprint_bits}")
        self.num_buckets, self.fingerprint_bits = num_buckets, fingerprint_bits

    @property
    def dtype(self):
        """Return the dtype of fingerprints in arrays."""
        return np.dtype(np.uint8 if self.fingerprint_bits == 8 else np.uint16 if self.fingerprint_bits < 24 else np.uint32)

    def row_bytes(self, Py_ssize_t num_slots):
        """Return the length of a row of `num_slots` slots, in bytes."""
        return body_bytes(self.fingerprint_bits, num_slots) + 4

    def locate(self, const uint64_t[::1] hashes not None):
        """Return the fingerprint, the first and the second bucket of each hash: three uint32 arrays."""
        cdef Py_ssize_t i, n = hashes.shape[0]
        out = np.empty((3, n), np.uint32)
        cdef uint32_t[:, ::1] view = out
        with nogil:
            for i in range(n):
                view[0, i] = make_fingerprint(hashes[i], self.fingerprint_bits)
                view[1, i] = first_bucket(hashes[i], self.num_buckets)
                view[2, i] = other_bucket(view[0, i], view[1, i], self.num_buckets)
        return out[0], out[1], out[2]


cdef class Group:
    """Builder of the filters of many units in memory.

    `add` puts hashes into the filter of the current unit, `close_unit` completes it and begins the next one.

    Attributes
    ----------
    num_slots : slots per bucket, of all completed units.
    num_entries : fingerprints in them.
    num_bytes : memory for them and for the current unit.
    """

    cdef Layout layout
    cdef readonly int64_t num_slots, num_entries
    cdef int item_bytes
    # the completed units, each with its buckets consecutively
    cdef uint8_t* done
    cdef size_t filled, done_room
    cdef int64_t* unit_slots
    cdef size_t num_units, units_room
    # the current unit
    cdef uint32_t* table   # bucket b's fingerprints from number b * stride on
    cdef uint32_t* counts  # their number
    cdef uint32_t* seen    # number of the last search that reached a bucket
    cdef uint32_t search
    cdef size_t stride, slots, num_stored
    cdef uint32_t queue[MOST_VISITED]      # buckets, in the order of a search
    cdef int parents[MOST_VISITED]         # the one from which each was reached
    cdef uint32_t exits[MOST_VISITED]      # the slot of the fingerprint that leads there

    def __cinit__(self, Layout layout not None):
        self.layout = layout
        self.item_bytes = layout.dtype.itemsize
        self.stride = 4
        self.table = <uint32_t*>malloc(4 * <size_t>layout.num_buckets * self.stride)
        self.counts = <uint32_t*>calloc(layout.num_buckets, 4)
        self.seen = <uint32_t*>calloc(layout.num_buckets, 4)
        if self.table == NULL or self.counts == NULL or self.seen == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.done)
        free(self.unit_slots)
        free(self.table)
        free(self.counts)
        free(self.seen)

    @property
    def num_bytes(self):
        return self.done_room + 8 * self.units_room + 4 * self.layout.num_buckets * (self.stride + 2)

    @property
    def done_bytes(self):
        """Return the memory of the completed units."""
        return self.filled

    def add(self, const uint64_t[::1] hashes not None):
        """Put hashes into the filter of the current unit; those that are in it already change nothing."""
        cdef Py_ssize_t i, n = hashes.shape[0]
        cdef uint64_t h
        cdef bint enough = True
        if not n:
            return
        if not self.slots and not self._widen(self._least_slots(n)):
            raise MemoryError
        with nogil:
            for i in range(n):
                h = hashes[i]
                enough = self._insert(
                    make_fingerprint(h, self.layout.fingerprint_bits), first_bucket(h, self.layout.num_buckets)
                )
                if not enough:
                    break
        if not enough:
            raise MemoryError

    cdef size_t _least_slots(self, Py_ssize_t n):
        """Return the minimum number of slots for a number of distinct hashes; few fingerprints collide, unless short."""
        cdef double kinds = 0.5 * max_fingerprint(self.layout.fingerprint_bits) * self.layout.num_buckets
        cdef double distinct = kinds * -np.expm1(-n / kinds)
        return max(1, <size_t>(0.99 * distinct / self.layout.num_buckets + 0.5))

    cdef bint _widen(self, size_t slots) noexcept nogil:
        """Grow buckets to a number of slots; return False if there is no memory."""
        cdef size_t stride, b
        cdef uint32_t* table
        if slots > self.stride:
            stride = max(slots, 2 * self.stride)
            if stride > (<size_t>1 << 46) // <size_t>self.layout.num_buckets:
                return False
            table = <uint32_t*>malloc(4 * <size_t>self.layout.num_buckets * stride)
            if table == NULL:
                return False
            for b in range(<size_t>self.layout.num_buckets):
                memcpy(table + b * stride, self.table + b * self.stride, 4 * <size_t>self.counts[b])
            free(self.table)
            self.table, self.stride = table, stride
        self.slots = slots
        return True

    cdef inline bint _has(self, uint32_t fingerprint, uint32_t bucket) noexcept nogil:
        cdef const uint32_t* entries = self.table + bucket * self.stride
        cdef size_t i
        for i in range(self.counts[bucket]):
            if entries[i] == fingerprint:
                return True
        return False

    cdef inline void _put(self, uint32_t fingerprint, uint32_t bucket) noexcept nogil:
        self.table[bucket * self.stride + self.counts[bucket]] = fingerprint
        self.counts[bucket] += 1

    cdef bint _insert(self, uint32_t fingerprint, uint32_t first) noexcept nogil:
        """Insert a fingerprint; return False if there is no memory."""
        cdef uint32_t second = other_bucket(fingerprint, first, self.layout.num_buckets)
        cdef uint32_t emptier = second if self.counts[second] < self.counts[first] else first
        if self._has(fingerprint, first) or self._has(fingerprint, second):
            return True
        self.num_stored += 1
        if self.counts[emptier] < self.slots:
            self._put(fingerprint, emptier)
        elif not self._make_room(fingerprint, first, second):
            if not self._widen(self.slots + 1):
                return False
            self._put(fingerprint, emptier)
        return True

    cdef bint _make_room(self, uint32_t fingerprint, uint32_t first, uint32_t second) noexcept nogil:
        """Put a fingerprint into one of its full buckets, by moving the shortest chain of others to make room.

        All reachable buckets are tried, nearest first, up to MOST_VISITED. Return False if none has room.
        """
        cdef uint32_t bucket, other, moved
        cdef uint32_t* entries
        cdef int head = 0, tail = 1
        cdef size_t slot
        self.search += 1
        if not self.search:  # the counter has wrapped around
            memset(self.seen, 0, 4 * <size_t>self.layout.num_buckets)
            self.search = 1
        self.queue[0], self.parents[0] = first, -1
        self.seen[first] = self.search
        if second != first:
            self.queue[1], self.parents[1] = second, -1
            self.seen[second] = self.search
            tail = 2
        while head < tail:
            bucket = self.queue[head]
            entries = self.table + bucket * self.stride
            for slot in range(self.slots):
                moved = entries[slot]
                other = other_bucket(moved, bucket, self.layout.num_buckets)
                if self.seen[other] == self.search:
                    continue
                self.seen[other] = self.search
                if self.counts[other] < self.slots:
                    self._put(moved, other)
                    while self.parents[head] >= 0:  # move each fingerprint of the chain to the next bucket
                        bucket = self.queue[self.parents[head]]
                        entries[slot] = self.table[bucket * self.stride + self.exits[head]]
                        slot = self.exits[head]
                        head = self.parents[head]
                        entries = self.table + bucket * self.stride
                    entries[slot] = fingerprint
                    return True
                if tail < MOST_VISITED:
                    self.queue[tail], self.parents[tail], self.exits[tail] = other, head, <uint32_t>slot
                    tail += 1
            head += 1
        return False

    def close_unit(self):
        """Complete the filter of the current unit; return its slots per bucket, 0 if it has no hashes."""
        cdef size_t slots = self.slots
        cdef size_t needed = slots * <size_t>self.layout.num_buckets * self.item_bytes
        if slots:
            if not self._reserve(needed):
                raise MemoryError
            with nogil:
                self._keep()
            self.filled += needed
            self.unit_slots[self.num_units] = slots
            self.num_units += 1
            self.num_slots += slots
            self.num_entries += self.num_stored
            self.slots = self.num_stored = 0
            memset(self.counts, 0, 4 * <size_t>self.layout.num_buckets)
        return slots

    cdef bint _reserve(self, size_t needed) noexcept:
        """Make room for one more unit; return False if there is no memory."""
        cdef size_t room = self.done_room
        cdef void* memory
        if self.filled + needed > room:
            room = max(self.filled + needed, room + room // 2)
            memory = realloc(self.done, room)
            if memory == NULL:
                return False
            self.done, self.done_room = <uint8_t*>memory, room
        if self.num_units == self.units_room:
            room = max(<size_t>64, 2 * self.units_room)
            memory = realloc(self.unit_slots, 8 * room)
            if memory == NULL:
                return False
            self.unit_slots, self.units_room = <int64_t*>memory, room
        return True

    cdef void _keep(self) noexcept nogil:
        """Append the current unit to the completed ones."""
        cdef uint8_t* out = self.done + self.filled
        cdef const uint32_t* entries
        cdef size_t b, i, count
        memset(out, 0, self.slots * <size_t>self.layout.num_buckets * self.item_bytes)
        for b in range(<size_t>self.layout.num_buckets):
            entries = self.table + b * self.stride
            count = self.counts[b]
            if self.item_bytes == 1:
                for i in range(count):
                    out[i] = <uint8_t>entries[i]
            elif self.item_bytes == 2:
                for i in range(count):
                    (<uint16_t*>out)[i] = <uint16_t>entries[i]
            else:
                memcpy(out, entries, 4 * count)
            out += self.slots * self.item_bytes

    def rows(self, Py_ssize_t first, Py_ssize_t count):
        """Return rows of all completed units, as an array of shape (count, num_slots)."""
        cdef Py_ssize_t b
        cdef size_t unit, width
        cdef const uint8_t* source
        cdef uint8_t* row
        cdef size_t row_bytes = <size_t>self.num_slots * self.item_bytes
        if first < 0 or count < 0 or first + count > self.layout.num_buckets:
            raise ValueError("the rows are out of range")
        out = np.empty((count, self.num_slots), self.layout.dtype)
        if not out.size:
            return out
        cdef uint8_t[:, ::1] view = out.view(np.uint8)
        cdef uint8_t* target = &view[0, 0]
        with nogil:
            source = self.done
            for unit in range(self.num_units):
                width = <size_t>self.unit_slots[unit] * self.item_bytes
                for b in range(count):
                    copy_short(target + b * row_bytes, source + (first + b) * width, width)
                target += width
                source += width * <size_t>self.layout.num_buckets
        return out

    def clear(self):
        """Remove the completed units, and keep the memory for others."""
        self.filled = self.num_units = 0
        self.num_slots = self.num_entries = 0


cdef inline void copy_short(uint8_t* out, const uint8_t* source, size_t num_bytes) noexcept nogil:
    cdef size_t i
    if num_bytes > 16:
        memcpy(out, source, num_bytes)
        return
    for i in range(num_bytes):
        out[i] = source[i]
