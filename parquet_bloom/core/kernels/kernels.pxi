# The loops over keys, written once and compiled for each instruction set (see simd.h for the primitives).
#
# Keys are processed in chunks: chunk c + 1 is hashed and its blocks are located (and prefetched, if the filter is larger
# than the L2 cache) before the blocks of chunk c are accessed, to hide the latency of memory.

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define pb_fetch(address) __builtin_prefetch((address), 0, 2)
    #else
    #define pb_fetch(address) ((void)(address))
    #endif
    """
    void pb_fetch(const void* address) noexcept nogil

cdef enum:
    CHUNK = 64          # keys; larger chunks do not fit into the L1 cache
    LINE = 64           # bytes of a cache line
    INPUT_AHEAD = 4096  # distance of prefetching input, in bytes: random block reads defeat the hardware prefetcher
    FILTERS_AHEAD = 16  # bitsets whose blocks are prefetched before they are probed
    NEAR_BLOCKS = 65536  # 2 MiB of blocks: larger filters are prefetched


cdef struct Located:
    Py_ssize_t start         # number of the first key
    Py_ssize_t count         # keys read, nulls included
    Py_ssize_t num_located   # number of these with a block
    uint64_t hashes[CHUNK]
    uint64_t block_offsets[CHUNK]   # byte offsets of their blocks in the bitset
    uint32_t keys[CHUNK]     # lower halves of the hashes, which select the bits


cdef inline void fetch_lines(const uint8_t* start, Py_ssize_t num_bytes) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(0, num_bytes, 64):
        pb_fetch(start + i)


cdef inline void find_strings(
    const KeySpan* span, int offset_bytes, Py_ssize_t start, Py_ssize_t count, const uint8_t** starts, uint64_t* lengths
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        starts[i] = span.data + key_offset(span, start + i) + span.lead
        lengths[i] = <uint64_t>(key_offset(span, start + i + 1) - key_offset(span, start + i) - span.lead)
    fetch_lines(span.offsets + offset_bytes * start + INPUT_AHEAD, offset_bytes * count)
    fetch_lines(
        span.data + key_offset(span, start) + INPUT_AHEAD, key_offset(span, start + count) - key_offset(span, start)
    )


cdef void hash_strings(const KeySpan* span, Py_ssize_t start, Py_ssize_t count, uint64_t* out) noexcept nogil:
    """Hash keys that are not 4 or 8 bytes long, in any layout."""
    cdef const uint8_t* starts[CHUNK]
    cdef uint64_t lengths[CHUNK]
    cdef View view
    cdef Py_ssize_t i
    if span.layout == FIXED:
        for i in range(count):
            starts[i] = span.data + span.width * (start + i) + span.lead
            lengths[i] = <uint64_t>(span.width - span.lead)
        fetch_lines(span.data + span.width * start + INPUT_AHEAD, span.width * count)
    elif span.layout == OFFSETS32:
        find_strings(span, 4, start, count, starts, lengths)
    elif span.layout == OFFSETS64:
        find_strings(span, 8, start, count, starts, lengths)
    else:
        for i in range(count):
            starts[i] = span.data
            lengths[i] = 0
            if is_valid(span, start + i):  # the view of a null is undefined
                view = key_view(span, start + i)
                lengths[i] = <uint64_t>view.length
                if view.length <= INLINE_BYTES:
                    starts[i] = span.data + sizeof(View) * (start + i) + INLINE_START
                else:
                    starts[i] = span.buffers[view.buffer] + view.offset
        fetch_lines(span.data + sizeof(View) * start + INPUT_AHEAD, sizeof(View) * count)
    for i in range(pb_hash_spans(starts, lengths, count, out), count):
        out[i] = hash_bytes(starts[i], lengths[i])


cdef void hash_chunk(const KeySpan* span, Py_ssize_t start, Py_ssize_t count, uint64_t* out) noexcept nogil:
    """Hash 1 to CHUNK keys, including those of nulls, whose bytes exist, but whose hashes are meaningless."""
    cdef const uint8_t* keys = span.data + span.width * start
    cdef Py_ssize_t i
    if span.layout == HASHES:
        fetch_lines(keys + INPUT_AHEAD, 8 * count)
        memcpy(out, keys, 8 * count)
    elif span.layout == FIXED and span.width == 8 and span.lead == 0:
        fetch_lines(keys + INPUT_AHEAD, 8 * count)
        for i in range(pb_hash8(keys, count, out), count):
            out[i] = hash8(keys + 8 * i)
    elif span.layout == FIXED and span.width == 4 and span.lead == 0:
        fetch_lines(keys + INPUT_AHEAD, 4 * count)
        for i in range(pb_hash4(keys, count, out), count):
            out[i] = hash4(keys + 4 * i)
    else:
        hash_strings(span, start, count, out)


cdef inline Py_ssize_t first_count(const KeySpan* span) noexcept nogil:
    """Return the number of keys of the first chunk, so that the second begins at a cache line, if possible."""
    cdef size_t past = <size_t>span.data % LINE
    if span.width in (4, 8) and past % span.width == 0:
        return CHUNK - <Py_ssize_t>(past / span.width)
    return CHUNK


cdef inline Py_ssize_t keep_valid(const KeySpan* span, Py_ssize_t start, Py_ssize_t count, uint64_t* hashes) noexcept nogil:
    """Move the hashes of valid keys to the front; return their number."""
    cdef Py_ssize_t num_kept = 0
    cdef Py_ssize_t i
    for i in range(count):
        hashes[num_kept] = hashes[i]
        num_kept += is_valid(span, start + i)
    return num_kept


cdef void locate_chunk(
    const KeySpan* span, const uint8_t* bitset, uint64_t num_blocks, bint valid_only, Located* chunk
) noexcept nogil:
    """Hash a chunk, whose start and count are set, and locate its blocks."""
    cdef uint64_t* hashes = chunk.hashes
    cdef Py_ssize_t i
    hash_chunk(span, chunk.start, chunk.count, hashes)
    chunk.num_located = chunk.count
    if valid_only and span.validity != NULL:
        chunk.num_located = keep_valid(span, chunk.start, chunk.count, hashes)
    for i in range(
        pb_locate(hashes, chunk.num_located, num_blocks, chunk.block_offsets, chunk.keys), chunk.num_located
    ):
        chunk.block_offsets[i] = 32 * <uint64_t>block_index(hashes[i], num_blocks)
        chunk.keys[i] = <uint32_t>hashes[i]
    if num_blocks > NEAR_BLOCKS:
        for i in range(chunk.num_located):
            pb_fetch(bitset + chunk.block_offsets[i])


cdef inline void next_chunk(const KeySpan* span, const Located* before, Located* chunk) noexcept nogil:
    chunk.start = before.start + before.count
    chunk.count = min(span.length - chunk.start, first_count(span) if chunk.start == 0 else CHUNK)


cdef void insert_span(const KeySpan* span, uint8_t* bitset, uint64_t num_blocks) noexcept nogil:
    cdef Located ring[2]
    cdef Located* chunk
    cdef int turn = 0
    cdef Py_ssize_t i
    ring[1].start = ring[1].count = 0
    while True:
        next_chunk(span, &ring[1 - turn], &ring[turn])
        if ring[turn].count:
            locate_chunk(span, bitset, num_blocks, True, &ring[turn])
        chunk = &ring[1 - turn]
        if chunk.count:
            for i in range(pb_insert(bitset, chunk.block_offsets, chunk.keys, chunk.num_located), chunk.num_located):
                block_insert(bitset + chunk.block_offsets[i], chunk.keys[i])
        if not ring[turn].count:
            break
        turn = 1 - turn


cdef Py_ssize_t insert_new_span(
    const KeySpan* span, uint8_t* bitset, uint64_t num_blocks, uint64_t* fresh, uint64_t* seen, Py_ssize_t* num_seen
) noexcept nogil:
    cdef Located ring[2]
    cdef Located* chunk
    cdef uint8_t was_set[CHUNK]
    cdef Py_ssize_t num_fresh = 0
    cdef int turn = 0
    cdef Py_ssize_t i
    ring[1].start = ring[1].count = num_seen[0] = 0
    while True:
        next_chunk(span, &ring[1 - turn], &ring[turn])
        if ring[turn].count:
            locate_chunk(span, bitset, num_blocks, True, &ring[turn])
        chunk = &ring[1 - turn]
        if chunk.count:
            for i in range(
                pb_insert_new(bitset, chunk.block_offsets, chunk.keys, chunk.num_located, was_set), chunk.num_located
            ):
                was_set[i] = block_check(bitset + chunk.block_offsets[i], chunk.keys[i])
                block_insert(bitset + chunk.block_offsets[i], chunk.keys[i])
            for i in range(chunk.num_located):  # branch-free: each is written to both, but counted in one
                fresh[num_fresh] = chunk.hashes[i]
                seen[num_seen[0]] = chunk.hashes[i]
                num_fresh += not was_set[i]
                num_seen[0] += was_set[i]
        if not ring[turn].count:
            return num_fresh
        turn = 1 - turn


cdef void check_span(
    const KeySpan* span, const uint8_t* bitset, uint64_t num_blocks, uint8_t* results
) noexcept nogil:
    cdef Located ring[2]
    cdef Located* chunk
    cdef uint8_t* answers
    cdef int turn = 0
    cdef Py_ssize_t i
    ring[1].start = ring[1].count = 0
    while True:
        next_chunk(span, &ring[1 - turn], &ring[turn])
        if ring[turn].count:
            locate_chunk(span, bitset, num_blocks, False, &ring[turn])
        chunk = &ring[1 - turn]
        if chunk.count:
            answers = results + chunk.start
            for i in range(pb_check(bitset, chunk.block_offsets, chunk.keys, chunk.count, answers), chunk.count):
                answers[i] = block_check(bitset + chunk.block_offsets[i], chunk.keys[i])
            if span.validity != NULL:
                for i in range(chunk.count):
                    answers[i] |= not is_valid(span, chunk.start + i)
        if not ring[turn].count:
            break
        turn = 1 - turn


def hash_keys(Keys keys not None):
    """Return the hashes of the valid keys, in order, as a uint64 array; nulls are omitted."""
    cdef Py_ssize_t n = keys.span.length
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t written = 0
    cdef Py_ssize_t count
    out = np.empty(n + CHUNK, dtype=np.uint64)
    cdef uint64_t[::1] view = out
    with nogil:
        while start < n:
            count = min(n - start, first_count(&keys.span) if start == 0 else CHUNK)
            hash_chunk(&keys.span, start, count, &view[written])
            if keys.span.validity == NULL:
                written += count
            else:
                written += keep_valid(&keys.span, start, count, &view[written])
            start += count
    return out[:written]


def insert_keys(uint8_t[::1] bitset not None, Keys keys not None):
    """Insert every valid key."""
    cdef uint64_t num_blocks = count_blocks(bitset.shape[0])
    with nogil:
        insert_span(&keys.span, &bitset[0], num_blocks)


def insert_new(
    uint8_t[::1] bitset not None, Keys keys not None, uint64_t[::1] fresh not None, uint64_t[::1] seen not None
):
    """Insert every valid key, and record which ones are new: a key that sets a bit has not been inserted before.

    Parameters
    ----------
    bitset, keys : as for `insert_keys`.
    fresh : receives the hashes of keys that set a bit, all distinct.
    seen : receives the hashes of the others, which were inserted before, or collide with such keys.

    Returns
    -------
    The number of hashes in each of the two, which must have room for as many as there are keys.
    """
    cdef uint64_t num_blocks = count_blocks(bitset.shape[0])
    cdef Py_ssize_t num_fresh
    cdef Py_ssize_t num_seen = 0
    if min(fresh.shape[0], seen.shape[0]) < keys.span.length:
        raise ValueError(f"there is no room for {keys.span.length} hashes")
    if keys.span.length == 0:
        return 0, 0
    with nogil:
        num_fresh = insert_new_span(&keys.span, &bitset[0], num_blocks, &fresh[0], &seen[0], &num_seen)
    return num_fresh, num_seen


def check_keys(const uint8_t[::1] bitset not None, Keys keys not None):
    """Probe every key; return a bool array, False where a key is certainly absent. Nulls are not hashed and give True."""
    cdef uint64_t num_blocks = count_blocks(bitset.shape[0])
    out = np.empty(keys.span.length, dtype=np.bool_)
    cdef uint8_t[::1] results = out.view(np.uint8)
    if keys.span.length:
        with nogil:
            check_span(&keys.span, &bitset[0], num_blocks, &results[0])
    return out


def probe_filters(
    const uint8_t[::1] data not None, const int64_t[::1] offsets not None, const int64_t[::1] num_bytes not None,
    const uint64_t[::1] hashes not None,
):
    """Probe a few hashes in many bitsets of one buffer, such as a mapped file, reading one block each.

    Parameters
    ----------
    data : the buffer.
    offsets, num_bytes : offset and size of each bitset, in bytes.
    hashes : keys.

    Returns
    -------
    bool array of shape (bitsets, hashes), False where a key is certainly absent.
    """
    cdef Py_ssize_t num_filters = offsets.shape[0]
    cdef Py_ssize_t num_hashes = hashes.shape[0]
    cdef Py_ssize_t i, j, ahead
    cdef const uint8_t* start
    if num_bytes.shape[0] != num_filters:
        raise ValueError("offsets and num_bytes must be of one length")
    for i in range(num_filters):
        if not (0 <= offsets[i] <= data.shape[0] and 0 <= num_bytes[i] <= data.shape[0] - offsets[i]):
            raise ValueError(f"bitset {i} is outside the buffer")
        count_blocks(num_bytes[i])
    out = np.empty((num_filters, num_hashes), dtype=np.bool_)
    cdef uint8_t[:, ::1] results = out.view(np.uint8)
    with nogil:
        for i in range(num_filters):
            ahead = i + FILTERS_AHEAD
            if ahead < num_filters:
                for j in range(num_hashes):
                    pb_fetch(&data[offsets[ahead]] + 32 * <size_t>block_index(hashes[j], num_bytes[ahead] // 32))
            start = &data[offsets[i]]
            for j in range(num_hashes):
                results[i, j] = block_check(
                    start + 32 * <size_t>block_index(hashes[j], num_bytes[i] // 32), <uint32_t>hashes[j]
                )
    return out


def hash_one(const uint8_t[::1] value not None):
    """Return XXH64 of one byte string."""
    return hash_bytes(&value[0] if value.shape[0] else NULL, value.shape[0])
