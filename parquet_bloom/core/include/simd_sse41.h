/* SSE4.1: a block is two vectors of four words. Two lanes of 64 bits hash no faster than the scalar multiplier, and there
 * is no shift by different counts: 2^bit is made as a float, whose exponent it is. */

static inline ptrdiff_t pb_hash8(const uint8_t *keys, ptrdiff_t count, uint64_t *out) {
    (void)keys, (void)count, (void)out;
    return 0;
}

static inline ptrdiff_t pb_hash4(const uint8_t *keys, ptrdiff_t count, uint64_t *out) {
    (void)keys, (void)count, (void)out;
    return 0;
}

static inline ptrdiff_t pb_hash_spans(const uint8_t *const *starts, const uint64_t *lengths, ptrdiff_t count,
                                      uint64_t *out) {
    (void)starts, (void)lengths, (void)count, (void)out;
    return 0;
}

static inline ptrdiff_t pb_locate(const uint64_t *hashes, ptrdiff_t count, uint64_t num_blocks, uint64_t *offsets,
                                  uint32_t *keys) {
    (void)hashes, (void)count, (void)num_blocks, (void)offsets, (void)keys;
    return 0;
}

/* Four of a key's bits, in the words of one half of its block. 2^31 is out of a signed conversion's range, whose answer
 * to that, 0x80000000, is the very bit. */
static inline __m128i pb_mask(uint32_t key, int half) {
    const __m128i salt = _mm_loadu_si128((const __m128i *)pb_salt + half);
    const __m128i bit = _mm_srli_epi32(_mm_mullo_epi32(_mm_set1_epi32((int)key), salt), 27);
    const __m128i exponent = _mm_add_epi32(_mm_slli_epi32(bit, 23), _mm_set1_epi32(0x3F800000));
    return _mm_cvttps_epi32(_mm_castsi128_ps(exponent));
}

static inline ptrdiff_t pb_insert(uint8_t *bitset, const uint64_t *offsets, const uint32_t *keys, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++) {
        __m128i *block = (__m128i *)(bitset + offsets[i]);
        for (int half = 0; half < 2; half++)
            _mm_storeu_si128(block + half, _mm_or_si128(_mm_loadu_si128(block + half), pb_mask(keys[i], half)));
    }
    return count;
}

static inline ptrdiff_t pb_insert_new(uint8_t *bitset, const uint64_t *offsets, const uint32_t *keys, ptrdiff_t count,
                                      uint8_t *results) {
    for (ptrdiff_t i = 0; i < count; i++) {
        __m128i *block = (__m128i *)(bitset + offsets[i]);
        int all = 1;
        for (int half = 0; half < 2; half++) {
            const __m128i before = _mm_loadu_si128(block + half), mask = pb_mask(keys[i], half);
            all &= _mm_testc_si128(before, mask);
            _mm_storeu_si128(block + half, _mm_or_si128(before, mask));
        }
        results[i] = (uint8_t)all;
    }
    return count;
}

static inline ptrdiff_t pb_check(const uint8_t *bitset, const uint64_t *offsets, const uint32_t *keys, ptrdiff_t count,
                                 uint8_t *results) {
    for (ptrdiff_t i = 0; i < count; i++) {
        const __m128i *block = (const __m128i *)(bitset + offsets[i]);
        results[i] = (uint8_t)(_mm_testc_si128(_mm_loadu_si128(block), pb_mask(keys[i], 0)) &
                             _mm_testc_si128(_mm_loadu_si128(block + 1), pb_mask(keys[i], 1)));
    }
    return count;
}
