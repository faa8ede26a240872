"""Hashes dealt out to buckets by their upper bits, so that repetitions are looked for in a few kilobytes at a time."""

from libc.math cimport sqrt
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memmove, memset

cdef extern from "memory.h" nogil:
    void* allocate "pb_allocate"(size_t num_bytes)
    void release "pb_release"(void* memory, size_t num_bytes)

cdef enum:
    SMALL_BUCKET = 2048     # hashes wanted in a bucket ...
    FEW_BUCKETS = 8         # ... while there are at most 2^8: more of them fall out of the first cache
    LARGE_BUCKET = 50000    # hashes: those of a bucket are numbered in 16 bits
    SPARSE = 16             # slots a hash: few meet another one in theirs, and each that does is a branch mispredicted
    PATIENCE = 4            # steps a hash to its slot: chance brings about far fewer


cdef struct Buckets:
    uint64_t* hashes    # the buckets one behind the other, with room for `capacity` hashes each
    uint32_t* counts    # how many there are in each
    uint16_t* slots     # where one bucket's repetitions are found: 1 + number of a hash in its bucket, or 0
    uint64_t room       # hashes that fit in when they lie evenly
    uint64_t capacity
    int bits            # log2 of the number of buckets
    uint64_t factor     # 0: buckets stand in the order of the hashes; else what hashes are mixed by


cdef inline int slot_bits(uint64_t count) noexcept nogil:
    """log2 of the number of slots for so many hashes."""
    cdef int bits = 4
    while <uint64_t>1 << bits < SPARSE * count:
        bits += 1
    return bits


cdef inline bint make_buckets(Buckets* buckets, uint64_t room, uint64_t factor) noexcept nogil:
    """Empty buckets; False if there is no memory for them."""
    cdef int bits = 0
    while room >> bits > LARGE_BUCKET or (bits < FEW_BUCKETS and room >> bits > SMALL_BUCKET):
        bits += 1
    buckets.room = room
    buckets.factor = factor
    buckets.bits = bits
    buckets.capacity = room >> bits
    buckets.capacity += <uint64_t>(6 * sqrt(<double>buckets.capacity)) + 16  # chance does not fill them all alike
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
    """How many hashes there are, with the repetitions that have not been looked for."""
    cdef uint64_t total = 0
    cdef size_t bucket
    for bucket in range(num_buckets(buckets)):
        total += buckets.counts[bucket]
    return total


cdef inline uint64_t place_of(uint64_t h, uint64_t factor) noexcept nogil:
    """The number whose upper bits are a hash's bucket, the next ones its slot."""
    if factor:
        h *= factor
        h = (h ^ (h >> 32)) * factor
    return h


cdef inline size_t bucket_of(uint64_t h, uint64_t factor, int bits) noexcept nogil:
    return <size_t>(place_of(h, factor) >> 1 >> (63 - bits))  # in two steps: a shift by 64 is none


cdef inline Py_ssize_t deal_out_by(
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
        bucket = bucket_of(hashes[i], factor, bits)
        count = counts[bucket]
        if count == capacity:
            return i
        first[bucket * capacity + count] = hashes[i]
        counts[bucket] = <uint32_t>(count + 1)
    return n


cdef inline Py_ssize_t deal_out(Buckets* buckets, const uint64_t* hashes, Py_ssize_t n) noexcept nogil:
    """Put hashes into their buckets, up to one whose bucket is full; returns how many were put."""
    # Two loops, so that the usual one does not look at the factor.
    return deal_out_by(buckets, hashes, n, buckets.factor) if buckets.factor else deal_out_by(buckets, hashes, n, 0)


cdef inline bint settle_by(Buckets* buckets, size_t bucket, uint64_t factor) noexcept nogil:
    cdef uint64_t* hashes = bucket_at(buckets, bucket)
    cdef uint16_t* slots = buckets.slots
    cdef Py_ssize_t count = buckets.counts[bucket]
    cdef int bits = slot_bits(count)
    cdef int shift = 64 - buckets.bits - bits
    cdef uint64_t last = (<uint64_t>1 << bits) - 1
    cdef Py_ssize_t patience = PATIENCE * count
    cdef Py_ssize_t kept = 0
    cdef Py_ssize_t i
    cdef uint64_t h, slot
    memset(slots, 0, <size_t>2 << bits)
    for i in range(count):
        h = hashes[i]
        slot = (place_of(h, factor) >> shift) & last
        while slots[slot] != 0:
            if hashes[slots[slot] - 1] == h:
                break
            slot = (slot + 1) & last
            patience -= 1
            if patience < 0 and factor == 0:
                memmove(hashes + kept, hashes + i, 8 * <size_t>(count - i))
                buckets.counts[bucket] = <uint32_t>(kept + count - i)
                return False
        else:
            hashes[kept] = h
            kept += 1
            slots[slot] = <uint16_t>kept
    buckets.counts[bucket] = <uint32_t>kept
    return True


cdef inline bint settle(Buckets* buckets, size_t bucket) noexcept nogil:
    """Take the repetitions out of a bucket; False if its hashes crowd the same slots: it would take too long."""
    return settle_by(buckets, bucket, buckets.factor) if buckets.factor else settle_by(buckets, bucket, 0)


cdef inline void forget(Buckets* buckets, uint64_t factor) noexcept nogil:
    """Empty buckets again, in the memory they have."""
    memset(buckets.counts, 0, <size_t>4 << buckets.bits)
    buckets.factor = factor


cdef inline bint take_buckets(Buckets* spare, Buckets* buckets, uint64_t room, uint64_t factor) noexcept nogil:
    """Empty buckets: the spare ones if they are large enough, else new ones. False if there is no memory for them."""
    if spare.hashes == NULL or spare.room < room:
        return make_buckets(buckets, room, factor)
    buckets[0] = spare[0]
    spare.hashes = NULL
    forget(buckets, factor)
    return True


cdef inline void leave_buckets(Buckets* spare, Buckets* buckets) noexcept nogil:
    """Buckets are not needed for now: they become the spare ones if there are none."""
    if spare.hashes == NULL:
        spare[0] = buckets[0]
    else:
        free_buckets(buckets)


cdef enum Poured:
    ALL_IN
    ONE_FULL  # of distinct hashes
    CROWDED   # see `settle`


cdef inline Poured pour(Buckets* buckets, const uint64_t* hashes, Py_ssize_t n) noexcept nogil:
    """Put hashes into their buckets, without their repetitions where these would fill one."""
    cdef Py_ssize_t done = 0
    cdef size_t bucket
    while True:
        done += deal_out(buckets, hashes + done, n - done)
        if done == n:
            return ALL_IN
        bucket = bucket_of(hashes[done], buckets.factor, buckets.bits)
        if not settle(buckets, bucket):
            return CROWDED
        if 2 * buckets.counts[bucket] > buckets.capacity:
            return ONE_FULL


cdef inline bint is_lopsided(const Buckets* buckets) noexcept nogil:
    """Whether one bucket, as far as it is full, stands out: hashes share their upper bits."""
    return not buckets.factor and 4 * num_hashes(buckets) < buckets.capacity << buckets.bits


cdef inline bint deal_anew(
    Buckets* buckets, Buckets* spare, uint64_t room, uint64_t factor, uint64_t mixing
) noexcept nogil:
    """Put all hashes into other buckets, mixed by `factor`, or by `mixing` if they crowd a few buckets without.

    False if there is no memory: then nothing has changed.
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
