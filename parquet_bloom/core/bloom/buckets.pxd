"""Partition hashes into buckets by their upper bits, to find duplicates within a few kilobytes at a time."""

from libc.math cimport sqrt
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memmove, memset

cdef extern from "memory.h" nogil:
    void* allocate "pb_allocate"(size_t num_bytes)
    void release "pb_release"(void* memory, size_t num_bytes)

cdef enum:
    SMALL_BUCKET = 2048     # target number of hashes per bucket ...
    FEW_BUCKETS = 8         # ... up to 2^8 buckets: more do not fit into the L1 cache
    LARGE_BUCKET = 50000    # hashes: their numbers in a bucket have 16 bits
    SPARSE = 16             # slots per hash: each collision is a mispredicted branch
    PATIENCE = 4            # mean steps per hash to its slot; random hashes need far fewer


cdef struct Buckets:
    uint64_t* hashes    # the buckets, consecutive, with room for `capacity` hashes each
    uint32_t* counts    # number of hashes in each
    uint16_t* slots     # hash table to find duplicates in one bucket: 1 + number of a hash in it, or 0
    uint64_t room       # hashes that fit if evenly distributed
    uint64_t capacity
    int bits            # log2 of the number of buckets
    uint64_t factor     # 0: buckets are in the order of hashes; else the multiplier that mixes hashes


cdef inline int slot_bits(uint64_t count) noexcept nogil:
    """Return log2 of the number of slots for a number of hashes."""
    cdef int bits = 4
    while <uint64_t>1 << bits < SPARSE * count:
        bits += 1
    return bits


cdef inline bint make_buckets(Buckets* buckets, uint64_t room, uint64_t factor) noexcept nogil:
    """Allocate empty buckets; return False if there is no memory."""
    cdef int bits = 0
    while room >> bits > LARGE_BUCKET or (bits < FEW_BUCKETS and room >> bits > SMALL_BUCKET):
        bits += 1
    buckets.room = room
    buckets.factor = factor
    buckets.bits = bits
    buckets.capacity = room >> bits
    buckets.capacity += <uint64_t>(6 * sqrt(<double>buckets.capacity)) + 16  # random hashes do not fill them evenly
    buckets.hashes = <uint64_t*>allocate((<size_t>8 * buckets.capacity) << bits)
    buckets.counts = <uint32_t*>allocate(<size_t>4 << bits)
    buckets.slots = <uint16_t*>allocate(<size_t>2 << slot_bits(buckets.capacity))
    if buckets.hashes != NULL and buckets.counts != NULL and buckets.slots != NULL:
        return True
    free_buckets(buckets)
    return False


cdef inline void free_buckets(Buckets* buckets) noexcept nogil:
    if buckets.hashes != NULL:
        release(buckets.hashes, (<size_t>8 * buckets.capacity) << buckets.bits)
    if buckets.counts != NULL:
        release(buckets.counts, <size_t>4 << buckets.bits)
    if buckets.slots != NULL:
        release(buckets.slots, <size_t>2 << slot_bits(buckets.capacity))
    buckets.hashes = NULL
    buckets.counts = NULL
    buckets.slots = NULL


cdef inline size_t num_buckets(const Buckets* buckets) noexcept nogil:
    return <size_t>1 << buckets.bits


cdef inline uint64_t* bucket_at(const Buckets* buckets, size_t bucket) noexcept nogil:
    return buckets.hashes + bucket * buckets.capacity


cdef inline uint64_t num_hashes(const Buckets* buckets) noexcept nogil:
    """Return the number of hashes, including duplicates not removed yet."""
    cdef uint64_t total = 0
    cdef size_t bucket
    for bucket in range(num_buckets(buckets)):
        total += buckets.counts[bucket]
    return total


cdef inline uint64_t scatter(uint64_t h, uint64_t factor) noexcept nogil:
    """Return the number whose upper bits are a hash's bucket, and the next ones its slot."""
    if factor:
        h *= factor
        h = (h ^ (h >> 32)) * factor
    return h


cdef inline size_t bucket_index(uint64_t h, uint64_t factor, int bits) noexcept nogil:
    return <size_t>(scatter(h, factor) >> 1 >> (63 - bits))  # in two steps, as a shift by 64 is undefined


cdef inline Py_ssize_t distribute_by(
    Buckets* buckets, const uint64_t* hashes, Py_ssize_t n, uint64_t factor
) noexcept nogil:
    cdef uint64_t* first = buckets.hashes
    cdef uint32_t* counts = buckets.counts
    cdef uint64_t capacity = buckets.capacity
    cdef int bits = buckets.bits
    cdef size_t bucket
    cdef uint64_t count
    cdef Py_ssize_t i
    for i in range(n):
        bucket = bucket_index(hashes[i], factor, bits)
        count = counts[bucket]
        if count == capacity:
            return i
        first[bucket * capacity + count] = hashes[i]
        counts[bucket] = <uint32_t>(count + 1)
    return n


cdef inline Py_ssize_t distribute(Buckets* buckets, const uint64_t* hashes, Py_ssize_t n) noexcept nogil:
    """Put hashes into their buckets until a bucket is full; return the number of hashes put."""
    # Two loops, so that the usual one does not test the factor.
    return distribute_by(buckets, hashes, n, buckets.factor) if buckets.factor else distribute_by(buckets, hashes, n, 0)


cdef inline bint settle_by(Buckets* buckets, size_t bucket, uint64_t factor) noexcept nogil:
    cdef uint64_t* hashes = bucket_at(buckets, bucket)
    cdef uint16_t* slots = buckets.slots
    cdef Py_ssize_t count = buckets.counts[bucket]
    cdef int bits = slot_bits(count)
    cdef int shift = 64 - buckets.bits - bits
    cdef uint64_t last = (<uint64_t>1 << bits) - 1
    cdef Py_ssize_t patience = PATIENCE * count
    cdef Py_ssize_t num_kept = 0
    cdef Py_ssize_t i
    cdef uint64_t h, slot
    memset(slots, 0, <size_t>2 << bits)
    for i in range(count):
        h = hashes[i]
        slot = (scatter(h, factor) >> shift) & last
        while slots[slot] != 0:
            if hashes[slots[slot] - 1] == h:
                break
            slot = (slot + 1) & last
            patience -= 1
            if patience < 0 and factor == 0:
                memmove(hashes + num_kept, hashes + i, 8 * <size_t>(count - i))
                buckets.counts[bucket] = <uint32_t>(num_kept + count - i)
                return False
        else:
            hashes[num_kept] = h
            num_kept += 1
            slots[slot] = <uint16_t>num_kept
    buckets.counts[bucket] = <uint32_t>num_kept
    return True


cdef inline bint settle(Buckets* buckets, size_t bucket) noexcept nogil:
    """Remove the duplicates of a bucket; return False if too many hashes collide, which would take too long."""
    return settle_by(buckets, bucket, buckets.factor) if buckets.factor else settle_by(buckets, bucket, 0)


cdef inline void forget(Buckets* buckets, uint64_t factor) noexcept nogil:
    """Clear the buckets, and keep their memory."""
    memset(buckets.counts, 0, <size_t>4 << buckets.bits)
    buckets.factor = factor


cdef inline bint take_buckets(Buckets* spare, Buckets* buckets, uint64_t room, uint64_t factor) noexcept nogil:
    """Get empty buckets: the spare ones if large enough, else new ones; return False if there is no memory."""
    if spare.hashes == NULL or spare.room < room:
        return make_buckets(buckets, room, factor)
    buckets[0] = spare[0]
    spare.hashes = NULL
    forget(buckets, factor)
    return True


cdef inline void leave_buckets(Buckets* spare, Buckets* buckets) noexcept nogil:
    """Release buckets; they become the spare ones if there are none."""
    if spare.hashes == NULL:
        spare[0] = buckets[0]
    else:
        free_buckets(buckets)


cdef enum Poured:
    ALL_IN
    ONE_FULL  # of distinct hashes
    CROWDED   # see `settle`


cdef inline Poured pour(Buckets* buckets, const uint64_t* hashes, Py_ssize_t n) noexcept nogil:
    """Put hashes into their buckets, removing duplicates from buckets that are full."""
    cdef Py_ssize_t done = 0
    cdef size_t bucket
    while True:
        done += distribute(buckets, hashes + done, n - done)
        if done == n:
            return ALL_IN
        bucket = bucket_index(hashes[done], buckets.factor, buckets.bits)
        if not settle(buckets, bucket):
            return CROWDED
        if 2 * buckets.counts[bucket] > buckets.capacity:
            return ONE_FULL


cdef inline bint is_lopsided(const Buckets* buckets) noexcept nogil:
    """Return whether a full bucket is an outlier, because hashes share their upper bits."""
    return not buckets.factor and 4 * num_hashes(buckets) < buckets.capacity << buckets.bits


cdef inline bint redistribute(
    Buckets* buckets, Buckets* spare, uint64_t room, uint64_t factor, uint64_t mixing
) noexcept nogil:
    """Move all hashes to other buckets, mixed by `factor`, or by `mixing` if they are too uneven otherwise.

    Return False if there is no memory; then nothing has changed.
    """
    cdef Buckets other
    cdef size_t bucket
    cdef Poured poured = ONE_FULL
    while poured != ALL_IN:
        if not take_buckets(spare, &other, room, factor):
            return False
        for bucket in range(num_buckets(buckets)):
            poured = pour(&other, bucket_at(buckets, bucket), buckets.counts[bucket])
            if poured != ALL_IN:
                break
        if poured != ALL_IN:
            if poured == CROWDED or is_lopsided(&other):
                factor = mixing
            else:
                room = 2 * other.room
            leave_buckets(spare, &other)
    leave_buckets(spare, buckets)
    buckets[0] = other
    return True
