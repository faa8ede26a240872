# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Postings: the units that hold a hash, as sorted keys packed into blocks that can be read separately.

A *key* is a uint64: the top `prefix_bits` bits of a hash, below them the number of a unit. The space of all hashes is cut
into 2**bucket_bits sub-buckets of equal width, 2**block_bits of which, consecutively, make a block:

    counts    a byte per sub-bucket: its number of entries; 255 continues in the next byte
    entries   {remainder, id} of remainder_bits + id_bits bits each, the id in the lower bits, bit-packed from the lowest
              bit of the first byte on; in the order of their keys
    hot       12 bytes per hot prefix: offset (uint64) and length (uint32) of its list of units, in bytes
    checksum  uint32: the lower half of the XXH64 of all before, and, exclusive or, of the block's number (uint64)

An id of all ones is not a unit: it refers to the units of a hot prefix, whose list is the block's k-th for the k-th such
entry. Readers of blocks validate every byte: the checksum detects accidental damage, not malicious changes.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcpy, memset

import numpy as np

from ..hash.xxh64 cimport hash8, hash_bytes, load64

cdef enum:
    SUM_BYTES = 4
    HOT_BYTES = 12
    MOST_PREFIX_BITS = 40
    MOST_BLOCK_BITS = 12
    MOST_ID_BITS = 32
    MOST_ENTRY_BITS = 56  # so that an entry never lies in more than 8 bytes
    FEW = 32

HOT = 64
"""Longer runs of one prefix are stored as separate lists."""

REASONS = (
    "",
    "it does not fit its checksum",
    "its counts and its length contradict each other",
    "it names a unit that there is none of",
    "it lacks the location of a list",
    "its entries are not in order",
)

cdef enum Status:
    FINE
    BAD_SUM
    BAD_COUNTS
    BAD_UNIT
    BAD_HOT
    BAD_ORDER


cdef struct Shape:
    int prefix_bits
    int bucket_bits
    int block_bits
    int id_bits
    int remainder_bits
    int entry_bits


cdef inline uint64_t low_bits(uint64_t x, int count) noexcept nogil:
    """Return a mask of the lowest bits, fewer than 64."""
    return x & (((<uint64_t>1) << count) - 1)


cdef inline uint64_t key_prefix(const Shape* shape, uint64_t h) noexcept nogil:
    return h >> (64 - shape.prefix_bits)


cdef inline uint64_t key_block(const Shape* shape, uint64_t h) noexcept nogil:
    return key_prefix(shape, h) >> (shape.remainder_bits + shape.block_bits)


cdef inline uint64_t bucket_in_block(const Shape* shape, uint64_t h) noexcept nogil:
    return low_bits(key_prefix(shape, h) >> shape.remainder_bits, shape.block_bits)


cdef inline uint64_t key_unit(const Shape* shape, uint64_t key) noexcept nogil:
    return low_bits(key, 64 - shape.prefix_bits)


cdef inline uint32_t compute_checksum(const uint8_t* data, Py_ssize_t size, uint64_t block) noexcept nogil:
    """Return the checksum of `size` bytes; it includes the number, to detect a block in the place of another."""
    return <uint32_t>hash_bytes(data, size) ^ <uint32_t>hash8(<const uint8_t*>&block)


cdef class Layout:
    """The bit widths of a part's blocks.

    Parameters
    ----------
    prefix_bits : bits stored of a hash, 1 to 40.
    bucket_bits : log2 of the number of sub-buckets of all hashes; at most prefix_bits.
    block_bits : log2 of the number of sub-buckets per block; at most bucket_bits, and 12.
    id_bits : bits of the number of a unit, 1 to 32; the largest such number is reserved.

    Raises
    ------
    ValueError
        A value is out of range, or remainder and id have more than 56 bits together.
    """

    cdef Shape shape

    def __init__(self, int prefix_bits, int bucket_bits, int block_bits, int id_bits):
        if not (
            1 <= prefix_bits <= MOST_PREFIX_BITS and 0 <= bucket_bits <= prefix_bits
            and 0 <= block_bits <= min(bucket_bits, <int>MOST_BLOCK_BITS) and 1 <= id_bits <= MOST_ID_BITS
            and prefix_bits - bucket_bits + id_bits <= MOST_ENTRY_BITS
        ):
            raise ValueError(f"no blocks have these bits: {prefix_bits}, {bucket_bits}, {block_bits}, {id_bits}")
        self.shape.prefix_bits = prefix_bits
        self.shape.bucket_bits = bucket_bits
        self.shape.block_bits = block_bits
        self.shape.id_bits = id_bits
        self.shape.remainder_bits = prefix_bits - bucket_bits
        self.shape.entry_bits = self.shape.remainder_bits + id_bits

    @property
    def prefix_bits(self):
        return self.shape.prefix_bits

    @property
    def bucket_bits(self):
        return self.shape.bucket_bits

    @property
    def block_bits(self):
        return self.shape.block_bits

    @property
    def id_bits(self):
        return self.shape.id_bits

    def block_number(self, uint64_t h):
        """Return the number of the block of a hash, or of a key."""
        return key_block(&self.shape, h)

    def first_key(self, uint64_t block):
        """Return the smallest key that can be in a block, as a Python int: 2**64 after the last block."""
        return (<object>block) << (64 - self.shape.bucket_bits + self.shape.block_bits)


def squeeze(uint64_t[::1] keys not None):
    """Move the distinct ones of sorted keys to the front; return their number."""
    cdef Py_ssize_t i, count = 0
    with nogil:
        for i in range(keys.shape[0]):
            if count == 0 or keys[i] != keys[count - 1]:
                keys[count] = keys[i]
                count += 1
    return count


def hot_runs(Layout layout not None, const uint64_t[::1] keys not None, Py_ssize_t threshold=HOT):
    """Return the runs of more than `threshold` keys of one prefix in sorted keys: (start, length) of each, int64."""
    cdef Py_ssize_t i = 0, first, num_keys = keys.shape[0]
    cdef Py_ssize_t step = max(threshold, <Py_ssize_t>0)
    cdef int shift = 64 - layout.shape.prefix_bits
    cdef uint64_t prefix
    starts, lengths = [], []
    while i < num_keys:
        with nogil:
            # As keys are sorted, the key `threshold` positions after the first of a longer run has the same prefix.
            while i + step < num_keys and keys[i] >> shift != keys[i + step] >> shift:
                i += 1
        if i + step >= num_keys:
            break
        first, prefix = i, keys[i] >> shift
        i += step
        with nogil:
            while i < num_keys and keys[i] >> shift == prefix:
                i += 1
        starts.append(first)
        lengths.append(i - first)
    return np.array(starts, np.int64), np.array(lengths, np.int64)


cdef struct Packer:
    uint8_t* out
    Py_ssize_t size      # bytes written
    uint64_t bits        # bits of an incomplete byte
    int num_bits


cdef inline void put_bits(Packer* packer, uint64_t value, int count) noexcept nogil:
    """Append at most 56 bits."""
    packer.bits |= value << packer.num_bits
    packer.num_bits += count
    while packer.num_bits >= 8:
        packer.out[packer.size] = <uint8_t>packer.bits
        packer.size += 1
        packer.bits >>= 8
        packer.num_bits -= 8


cdef inline void fill_byte(Packer* packer) noexcept nogil:
    if packer.num_bits:
        packer.out[packer.size] = <uint8_t>packer.bits
        packer.size += 1
    packer.bits = 0
    packer.num_bits = 0


cdef Py_ssize_t pack_block(
    const Shape* shape, const uint64_t[::1] keys, Py_ssize_t first, Py_ssize_t end, uint64_t block,
    const int64_t[::1] hot_first, const int64_t[::1] hot_length, const uint64_t[:, ::1] hot_locations, Py_ssize_t hot,
    Packer* packer, uint32_t* counts
) noexcept nogil:
    """Append the block of keys[first:end]; `hot` is the first hot run in it. Return the next hot run."""
    cdef Py_ssize_t i, k, num_buckets = (<Py_ssize_t>1) << shape.block_bits, start = packer.size
    cdef uint64_t mark = low_bits(~<uint64_t>0, shape.id_bits), entry
    cdef uint32_t count, length
    cdef Py_ssize_t bucket
    memset(counts, 0, num_buckets * sizeof(uint32_t))
    k, i = hot, first
    while i < end:
        counts[bucket_in_block(shape, keys[i])] += 1
        if k < hot_first.shape[0] and hot_first[k] == i:
            i += hot_length[k]
            k += 1
        else:
            i += 1
    for bucket in range(num_buckets):
        count = counts[bucket]
        while count >= 255:
            packer.out[packer.size] = 255
            packer.size += 1
            count -= 255
        packer.out[packer.size] = <uint8_t>count
        packer.size += 1
    k, i = hot, first
    while i < end:
        entry = low_bits(key_prefix(shape, keys[i]), shape.remainder_bits) << shape.id_bits
        if k < hot_first.shape[0] and hot_first[k] == i:
            entry |= mark
            i += hot_length[k]
            k += 1
        else:
            entry |= key_unit(shape, keys[i])
            i += 1
        put_bits(packer, entry, shape.entry_bits)
    fill_byte(packer)
    for i in range(hot, k):
        length = <uint32_t>hot_locations[i, 1]
        memcpy(packer.out + packer.size, &hot_locations[i, 0], 8)
        memcpy(packer.out + packer.size + 8, &length, 4)
        packer.size += HOT_BYTES
    count = compute_checksum(packer.out + start, packer.size - start, block)
    memcpy(packer.out + packer.size, &count, SUM_BYTES)
    packer.size += SUM_BYTES
    return k


cdef int require_keys(
    const Shape* shape, const uint64_t[::1] keys, uint64_t first_block, uint64_t num_blocks
) except -1:
    cdef Py_ssize_t i
    cdef uint64_t last_unit = low_bits(~<uint64_t>0, shape.id_bits) - 1
    cdef bint fine = True
    with nogil:
        for i in range(keys.shape[0]):
            fine &= key_unit(shape, keys[i]) <= last_unit and (i == 0 or keys[i] > keys[i - 1])
    if not fine:
        raise ValueError("keys have to ascend, and their units to be numbers that the layout has room for")
    if keys.shape[0] and (
        key_block(shape, keys[0]) < first_block or key_block(shape, keys[keys.shape[0] - 1]) - first_block >= num_blocks
    ):
        raise ValueError(f"there are keys outside of the blocks from {first_block} to {first_block + num_blocks - 1}")
    return 0


cdef int require_runs(
    const Shape* shape, const uint64_t[::1] keys, const int64_t[::1] first, const int64_t[::1] length,
    const uint64_t[:, ::1] locations
) except -1:
    cdef Py_ssize_t k, end = 0
    if not first.shape[0] == length.shape[0] == locations.shape[0] or locations.shape[1] != 2:
        raise ValueError("each hot run needs a start, a length and a location")
    for k in range(first.shape[0]):
        if not (end <= first[k] < keys.shape[0] and 1 <= length[k] <= keys.shape[0] - first[k]):
            raise ValueError(f"hot run {k} is outside the keys, or overlaps the one before")
        end = first[k] + length[k]
        if key_prefix(shape, keys[first[k]]) != key_prefix(shape, keys[end - 1]):
            raise ValueError(f"hot run {k} has keys of more than one prefix")
        if (
            (first[k] and key_prefix(shape, keys[first[k] - 1]) == key_prefix(shape, keys[end - 1]))
            or (end < keys.shape[0] and key_prefix(shape, keys[end]) == key_prefix(shape, keys[end - 1]))
        ):
            raise ValueError(f"hot run {k} has not all keys of its prefix")
        if locations[k, 1] >> 32:
            raise ValueError(f"the list of hot run {k} has {locations[k, 1]} bytes")
    return 0


def pack(
    Layout layout not None, const uint64_t[::1] keys not None, uint64_t first_block, uint64_t num_blocks,
    const int64_t[::1] hot_first not None, const int64_t[::1] hot_length not None,
    const uint64_t[:, ::1] hot_locations not None
):
    """Pack keys into blocks.

    Parameters
    ----------
    keys : all keys of these blocks, sorted, distinct.
    first_block, num_blocks : range of blocks.
    hot_first, hot_length : runs of keys (see `hot_runs`) that are replaced by references to lists.
    hot_locations : a row per run: offset and length, in bytes, of its list.

    Returns
    -------
    (data, starts) : the blocks, consecutively, uint8; and the offset of each, int64.

    Raises
    ------
    ValueError
        An argument is not as described.
    """
    cdef Shape shape = layout.shape
    cdef Py_ssize_t num_buckets = (<Py_ssize_t>1) << shape.block_bits
    cdef Py_ssize_t i = 0, end, low, high, hot = 0, block
    cdef Packer packer
    cdef uint32_t* counts
    cdef uint8_t[::1] out
    cdef int64_t[::1] start_view
    cdef uint64_t all_blocks = (<uint64_t>1) << (shape.bucket_bits - shape.block_bits)
    if num_blocks > all_blocks or first_block > all_blocks - num_blocks:
        raise ValueError(f"there are {all_blocks} blocks")
    require_keys(&shape, keys, first_block, num_blocks)
    require_runs(&shape, keys, hot_first, hot_length, hot_locations)
    # One more byte for each 255 entries of a sub-bucket, and at most one for an incomplete byte.
    room = num_blocks * (num_buckets + SUM_BYTES + 1) + keys.shape[0] * shape.entry_bits // 8 + keys.shape[0] // 255
    data = np.empty(room + HOT_BYTES * hot_first.shape[0], np.uint8)
    starts = np.empty(num_blocks, np.int64)
    if num_blocks == 0:
        return data[:0], starts
    out, start_view = data, starts
    counts = <uint32_t*>calloc(num_buckets, sizeof(uint32_t))
    if counts == NULL:
        raise MemoryError
    packer = Packer(&out[0], 0, 0, 0)
    with nogil:
        for block in range(<Py_ssize_t>num_blocks):
            low, high = i, keys.shape[0]
            while low < high:
                end = low + (high - low) // 2
                if key_block(&shape, keys[end]) <= first_block + <uint64_t>block:
                    low = end + 1
                else:
                    high = end
            start_view[block] = packer.size
            hot = pack_block(
                &shape, keys, i, low, first_block + <uint64_t>block, hot_first, hot_length, hot_locations, hot, &packer,
                counts
            )
            i = low
    free(counts)
    return data[: packer.size], starts


cdef struct Block:
    const uint8_t* data
    Py_ssize_t size           # without the checksum
    Py_ssize_t entries_at     # offset of the entries
    Py_ssize_t num_entries
    Py_ssize_t hot_at
    Py_ssize_t num_hot


cdef inline Py_ssize_t sum_bytes(const uint8_t* data, Py_ssize_t count) noexcept nogil:
    cdef uint32_t total = 0  # of at most 2**MOST_BLOCK_BITS bytes
    cdef Py_ssize_t i
    for i in range(count):
        total += data[i]
    return total


cdef Status parse_block(
    const Shape* shape, const uint8_t* data, Py_ssize_t size, uint64_t bucket, Block* block, Py_ssize_t* before,
    Py_ssize_t* count
) noexcept nogil:
    """Locate the parts of a block; the entries of a sub-bucket are `count` ones after the first `before`."""
    cdef Py_ssize_t at = 0, limit = size - SUM_BYTES, total = 0, start
    cdef Py_ssize_t number, num_buckets = (<Py_ssize_t>1) << shape.block_bits
    cdef Py_ssize_t num_bytes
    if limit >= num_buckets and memchr(data, 255, num_buckets) == NULL:  # nearly always, and fast
        start = sum_bytes(data, bucket)
        total = start + sum_bytes(data + bucket, num_buckets - <Py_ssize_t>bucket)
        before[0], count[0] = start, data[bucket]
        at = num_buckets
    else:
        for number in range(num_buckets):
            start = total
            while True:
                if at >= limit:
                    return BAD_COUNTS
                total += data[at]
                at += 1
                if data[at - 1] < 255:
                    break
            if number == <Py_ssize_t>bucket:
                before[0] = start
                count[0] = total - start
    num_bytes = (total * shape.entry_bits + 7) // 8
    if num_bytes > limit - at or (limit - at - num_bytes) % HOT_BYTES:
        return BAD_COUNTS
    block.data, block.size = data, limit
    block.entries_at, block.num_entries = at, total
    block.hot_at = at + num_bytes
    block.num_hot = (limit - block.hot_at) // HOT_BYTES
    return FINE


cdef inline uint64_t entry_at(const Shape* shape, const Block* block, Py_ssize_t number) noexcept nogil:
    """Read an entry; its number must be less than `num_entries`."""
    cdef Py_ssize_t bit = number * shape.entry_bits
    cdef Py_ssize_t at = block.entries_at + bit // 8
    cdef uint64_t bits = 0
    if block.size - at >= 8:
        bits = load64(block.data + at)
    else:
        memcpy(&bits, block.data + at, block.size - at)
    return low_bits(bits >> (bit & 7), shape.entry_bits)


cdef struct Hit:
    int64_t query
    uint32_t unit


cdef struct HotHit:
    int64_t query
    uint64_t offset
    uint32_t length


cdef struct Hits:
    Hit* hits
    Py_ssize_t count
    Py_ssize_t room
    HotHit* hot
    Py_ssize_t num_hot
    Py_ssize_t hot_room


cdef bint add_hit(Hits* hits, int64_t query, uint32_t unit) noexcept nogil:
    """Add a unit; return False if there is no memory."""
    cdef Hit* more
    if hits.count == hits.room:
        more = <Hit*>realloc(hits.hits, (2 * hits.room + FEW) * sizeof(Hit))
        if more == NULL:
            return False
        hits.hits, hits.room = more, 2 * hits.room + FEW
    hits.hits[hits.count] = Hit(query, unit)
    hits.count += 1
    return True


cdef bint add_hot(Hits* hits, int64_t query, const uint8_t* record) noexcept nogil:
    """Add the list of a hot prefix; return False if there is no memory."""
    cdef HotHit* more
    cdef HotHit hit
    if hits.num_hot == hits.hot_room:
        more = <HotHit*>realloc(hits.hot, (2 * hits.hot_room + FEW) * sizeof(HotHit))
        if more == NULL:
            return False
        hits.hot, hits.hot_room = more, 2 * hits.hot_room + FEW
    hit.query = query
    memcpy(&hit.offset, record, 8)
    memcpy(&hit.length, record + 8, 4)
    hits.hot[hits.num_hot] = hit
    hits.num_hot += 1
    return True


cdef Status check_sum(const Shape* shape, const uint8_t* data, Py_ssize_t size, uint64_t block) noexcept nogil:
    cdef uint32_t expected
    if size < SUM_BYTES:
        return BAD_SUM
    memcpy(&expected, data + size - SUM_BYTES, SUM_BYTES)
    return FINE if compute_checksum(data, size - SUM_BYTES, block) == expected else BAD_SUM


cdef Status scan(
    const Shape* shape, const uint8_t* data, Py_ssize_t size, uint64_t h, int64_t query, uint64_t num_units, Hits* hits,
    bint* lost
) noexcept nogil:
    """Add the units of a hash in a block with a valid checksum; set `lost` if there is no memory."""
    cdef Block block
    cdef Py_ssize_t i, j, before = 0, count = 0, marks = 0
    cdef uint64_t remainder = low_bits(key_prefix(shape, h), shape.remainder_bits)
    cdef uint64_t mark = low_bits(~<uint64_t>0, shape.id_bits), entry, unit
    cdef Py_ssize_t old_count = hits.count, old_hot = hits.num_hot
    cdef Status status = parse_block(shape, data, size, bucket_in_block(shape, h), &block, &before, &count)
    if status != FINE:
        return status
    for i in range(before, before + count):
        entry = entry_at(shape, &block, i)
        if entry >> shape.id_bits != remainder:
            continue
        unit = low_bits(entry, shape.id_bits)
        if unit == mark:
            for j in range(i):
                marks += low_bits(entry_at(shape, &block, j), shape.id_bits) == mark
            if marks >= block.num_hot or hits.num_hot != old_hot:
                status = BAD_HOT
                break
            if not add_hot(hits, query, data + block.hot_at + HOT_BYTES * marks):
                lost[0] = True
                break
        elif unit >= num_units:
            status = BAD_UNIT
            break
        elif not add_hit(hits, query, <uint32_t>unit):
            lost[0] = True
            break
    if status != FINE:
        hits.count, hits.num_hot = old_count, old_hot
    return status


cdef tuple take_hits(Hits* hits):
    """Return (queries, units, hot queries, hot offsets, hot lengths) as arrays."""
    cdef Py_ssize_t i
    cdef Py_ssize_t[::1] queries
    cdef uint32_t[::1] units
    cdef int64_t[:, ::1] hot_view
    arrays = np.empty(hits.count, np.intp), np.empty(hits.count, np.uint32)
    hot = np.empty((3, hits.num_hot), np.int64)
    queries, units = arrays
    hot_view = hot
    for i in range(hits.count):
        queries[i], units[i] = hits.hits[i].query, hits.hits[i].unit
    for i in range(hits.num_hot):
        hot_view[0, i] = hits.hot[i].query
        hot_view[1, i] = <int64_t>hits.hot[i].offset
        hot_view[2, i] = hits.hot[i].length
    return *arrays, *hot


def find(
    Layout layout not None, const uint8_t[::1] data not None, const int64_t[::1] starts not None,
    const int64_t[::1] ends not None, const uint64_t[::1] hashes not None, uint64_t num_units
):
    """Look up hashes in blocks. Checksums are verified first; for adjacent queries of the same block, once.

    Parameters
    ----------
    data : blocks.
    starts, ends : the block of hash i is data[starts[i]:ends[i]].
    num_units : number of units; a block with a larger unit number is damaged.

    Returns
    -------
    (queries, units, hot_queries, hot_offsets, hot_lengths, damaged, reasons) : numbers of hashes, ascending, and for each
        a unit that may hold it, uint32; the same for lists of units (int64, offsets as two's complement); and the
        hashes whose blocks are damaged, with the indices of their reasons in `REASONS`.

    Raises
    ------
    ValueError
        A block is not inside of `data`.
    """
    cdef Shape shape = layout.shape
    cdef Hits hits
    cdef Py_ssize_t i, num_queries = hashes.shape[0]
    cdef Status status = FINE, sound = FINE
    cdef uint8_t[::1] states
    cdef const uint8_t* bytes_ = &data[0] if data.shape[0] else NULL
    cdef bint lost = False
    if starts.shape[0] != num_queries or ends.shape[0] != num_queries:
        raise ValueError("each hash has one block")
    for i in range(num_queries):
        if not (0 <= starts[i] <= ends[i] <= data.shape[0]):
            raise ValueError(f"the block of hash {i} is outside the data")
    reasons = np.zeros(num_queries, np.uint8)
    states = reasons
    memset(&hits, 0, sizeof(hits))
    try:
        with nogil:
            for i in range(num_queries):
                if (
                    i == 0 or starts[i] != starts[i - 1] or ends[i] != ends[i - 1]
                    or key_block(&shape, hashes[i]) != key_block(&shape, hashes[i - 1])
                ):
                    sound = check_sum(&shape, bytes_ + starts[i], ends[i] - starts[i], key_block(&shape, hashes[i]))
                status = sound
                if status == FINE:
                    status = scan(
                        &shape, bytes_ + starts[i], ends[i] - starts[i], hashes[i], i, num_units, &hits, &lost
                    )
                states[i] = status
                if lost:
                    break
        if lost:
            raise MemoryError
        damaged = np.flatnonzero(reasons)
        return *take_hits(&hits), damaged, reasons[damaged]
    finally:
        free(hits.hits)
        free(hits.hot)


def find_one(Layout layout not None, bytes block not None, uint64_t h, uint64_t num_units):
    """Look up one hash in its block: (units, location of a list of units or None, number of the reason if damaged)."""
    cdef Shape shape = layout.shape
    cdef Hits hits
    cdef Py_ssize_t i, size = PyBytes_GET_SIZE(block)
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(block)
    cdef bint lost = False
    cdef Status status
    cdef uint32_t[::1] units
    memset(&hits, 0, sizeof(hits))
    try:
        # Takes two microseconds: releasing the GIL would cost more.
        status = check_sum(&shape, data, size, key_block(&shape, h))
        if status == FINE:
            status = scan(&shape, data, size, h, 0, num_units, &hits, &lost)
        if lost:
            raise MemoryError
        result = np.empty(hits.count, np.uint32)
        if hits.count:
            units = result
            for i in range(hits.count):
                units[i] = hits.hits[i].unit
        hot = (int(hits.hot[0].offset), int(hits.hot[0].length)) if hits.num_hot else None
        return result, hot, <int>status
    finally:
        free(hits.hits)
        free(hits.hot)


cdef Status take_block(
    const Shape* shape, const Block* block, const uint8_t* counts, uint64_t first_bucket, uint64_t num_units,
    uint64_t* keys, Py_ssize_t* num_keys, uint64_t* hot, Py_ssize_t* num_hot
) noexcept nogil:
    """Read the keys of a block; for each hot prefix the number of keys before it, the prefix, offset and length."""
    cdef Py_ssize_t number = 0, i, count, marks = 0
    cdef uint64_t bucket, entry, last = 0, unit, prefix
    cdef uint64_t mark = low_bits(~<uint64_t>0, shape.id_bits)
    cdef uint32_t length
    for bucket in range((<uint64_t>1) << shape.block_bits):
        count = 0
        while counts[0] == 255:
            count += 255
            counts += 1
        count += counts[0]
        counts += 1
        for i in range(count):
            entry = entry_at(shape, block, number)
            number += 1
            if i and entry <= last:
                return BAD_ORDER
            unit = low_bits(entry, shape.id_bits)
            prefix = ((first_bucket + bucket) << shape.remainder_bits) | (entry >> shape.id_bits)
            if unit == mark:
                if i and entry >> shape.id_bits == last >> shape.id_bits:
                    return BAD_ORDER  # all of a hot prefix's units are in its list
                if marks >= block.num_hot:
                    return BAD_HOT
                hot[4 * num_hot[0]] = num_keys[0]
                hot[4 * num_hot[0] + 1] = prefix
                memcpy(&hot[4 * num_hot[0] + 2], block.data + block.hot_at + HOT_BYTES * marks, 8)
                memcpy(&length, block.data + block.hot_at + HOT_BYTES * marks + 8, 4)
                hot[4 * num_hot[0] + 3] = length
                num_hot[0] += 1
                marks += 1
            elif unit >= num_units:
                return BAD_UNIT
            else:
                keys[num_keys[0]] = (prefix << (64 - shape.prefix_bits)) | unit
                num_keys[0] += 1
            last = entry
    return FINE if marks == block.num_hot else BAD_HOT


def unpack(
    Layout layout not None, const uint8_t[::1] data not None, const int64_t[::1] starts not None, uint64_t first_block,
    uint64_t num_units
):
    """Read the keys of adjacent blocks.

    Parameters
    ----------
    data : the blocks.
    starts : offset of each block, and the end of the last one.
    first_block : number of the first block.
    num_units : number of units.

    Returns
    -------
    (keys, hot, damaged) : sorted keys, uint64; a row for each hot prefix: the number of keys before it, the prefix,
        offset and length of its list, uint64; and {number of a damaged block: reason}; these give no keys.

    Raises
    ------
    ValueError
        A block is not inside of `data`.
    """
    cdef Shape shape = layout.shape
    cdef Py_ssize_t i, num_blocks = starts.shape[0] - 1, total = 0, total_hot = 0, num_keys = 0, num_hot = 0
    cdef Py_ssize_t before = 0, count = 0, old_keys, old_hot
    cdef Block block
    cdef uint64_t[::1] out
    cdef uint64_t[:, ::1] out_hot
    cdef Status status
    cdef const uint8_t* at
    damaged = {}
    for i in range(num_blocks):
        if not (0 <= starts[i] <= starts[i + 1] <= data.shape[0]):
            raise ValueError(f"block {i} is outside the data")
    fine = []
    for i in range(num_blocks):
        at = &data[0] + starts[i] if data.shape[0] else NULL
        status = check_sum(&shape, at, starts[i + 1] - starts[i], first_block + <uint64_t>i)
        if status == FINE:
            status = parse_block(&shape, at, starts[i + 1] - starts[i], 0, &block, &before, &count)
        if status != FINE:
            damaged[first_block + <uint64_t>i] = REASONS[<int>status]
            continue
        fine.append(i)
        total += block.num_entries
        total_hot += block.num_hot
    keys, hot = np.empty(total + 1, np.uint64), np.empty((total_hot + 1, 4), np.uint64)
    out, out_hot = keys, hot
    for i in fine:
        at = &data[0] + starts[i]
        old_keys, old_hot = num_keys, num_hot
        with nogil:
            status = parse_block(&shape, at, starts[i + 1] - starts[i], 0, &block, &before, &count)
            if status == FINE:
                status = take_block(
                    &shape, &block, at, (first_block + <uint64_t>i) << shape.block_bits, num_units, &out[0], &num_keys,
                    &out_hot[0, 0], &num_hot
                )
        if status != FINE:
            num_keys, num_hot = old_keys, old_hot
            damaged[first_block + <uint64_t>i] = REASONS[<int>status]
    return keys[:num_keys], hot[:num_hot], damaged
