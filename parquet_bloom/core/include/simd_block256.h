/* A block, or a row of four lanes of 64 bits, in one vector of 256 bits: for AVX2 and AVX-512. */

typedef __m256i pb_row;

static inline pb_row pb_load_row(const uint8_t *bytes) {
    return _mm256_loadu_si256((const __m256i *)bytes);
}

static inline pb_row pb_sum_rows(pb_row a, pb_row b) {
    return _mm256_add_epi64(a, b);
}

static inline pb_row pb_row_of4(const uint64_t words[4]) {
    return _mm256_setr_epi64x((long long)words[0], (long long)words[1], (long long)words[2], (long long)words[3]);
}

static inline __m256i pb_mask(uint32_t key) {
    const __m256i salt = _mm256_loadu_si256((const __m256i *)pb_salt);
    const __m256i bit = _mm256_srli_epi32(_mm256_mullo_epi32(_mm256_set1_epi32((int)key), salt), 27);
    return _mm256_sllv_epi32(_mm256_set1_epi32(1), bit);
}

static inline ptrdiff_t pb_insert(uint8_t *bitset, const uint64_t *offsets, const uint32_t *keys, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++) {
        __m256i *block = (__m256i *)(bitset + offsets[i]);
        _mm256_storeu_si256(block, _mm256_or_si256(_mm256_loadu_si256(block), pb_mask(keys[i])));
    }
    return count;
}

static inline ptrdiff_t pb_insert_new(uint8_t *bitset, const uint64_t *offsets, const uint32_t *keys, ptrdiff_t count,
                                      uint8_t *results) {
    for (ptrdiff_t i = 0; i < count; i++) {
        __m256i *block = (__m256i *)(bitset + offsets[i]);
        const __m256i before = _mm256_loadu_si256(block), mask = pb_mask(keys[i]);
        results[i] = (uint8_t)_mm256_testc_si256(before, mask);
        _mm256_storeu_si256(block, _mm256_or_si256(before, mask));
    }
    return count;
}
