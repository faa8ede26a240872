/* AVX2: four lanes of 64 bits. There is no 64-bit multiplication; three of 32 bits make one. Byte strings are hashed as
 * fast by the scalar multiplier. */

#include "simd_block256.h"

static inline __m256i pb_mul(__m256i a, uint64_t factor) {
    const __m256i swapped = _mm256_set1_epi64x((long long)((factor >> 32) | (factor << 32)));
    __m256i cross = _mm256_mullo_epi32(a, swapped); /* low * high in the upper half, high * low in the lower */
    cross = _mm256_add_epi32(cross, _mm256_slli_epi64(cross, 32));
    cross = _mm256_and_si256(cross, _mm256_set1_epi64x((long long)0xFFFFFFFF00000000ULL));
    return _mm256_add_epi64(_mm256_mul_epu32(a, _mm256_set1_epi64x((long long)factor)), cross);
}

static inline __m256i pb_add(__m256i a, uint64_t term) {
    return _mm256_add_epi64(a, _mm256_set1_epi64x((long long)term));
}

#define PB_ROTATE(a, bits) _mm256_or_si256(_mm256_slli_epi64(a, bits), _mm256_srli_epi64(a, 64 - (bits)))

/* Four vectors at once through the last steps of the hash: four independent chains, as one waits for itself. */
static inline void pb_finish4(__m256i v[4], uint64_t *out) {
    for (int j = 0; j < 4; j++) v[j] = pb_mul(_mm256_xor_si256(v[j], _mm256_srli_epi64(v[j], 33)), PB_PRIME_2);
    for (int j = 0; j < 4; j++) v[j] = pb_mul(_mm256_xor_si256(v[j], _mm256_srli_epi64(v[j], 29)), PB_PRIME_3);
    for (int j = 0; j < 4; j++) v[j] = _mm256_xor_si256(v[j], _mm256_srli_epi64(v[j], 32));
    for (int j = 0; j < 4; j++) _mm256_storeu_si256((__m256i *)(out + 4 * j), v[j]);
}

static inline ptrdiff_t pb_hash8(const uint8_t *keys, ptrdiff_t count, uint64_t *out) {
    const __m256i seed = _mm256_set1_epi64x((long long)(PB_PRIME_5 + 8));
    ptrdiff_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256i v[4];
        for (int j = 0; j < 4; j++)
            v[j] = pb_mul(_mm256_loadu_si256((const __m256i *)(keys + 8 * i + 32 * j)), PB_PRIME_2);
        for (int j = 0; j < 4; j++) v[j] = pb_mul(PB_ROTATE(v[j], 31), PB_PRIME_1);
        for (int j = 0; j < 4; j++) v[j] = _mm256_xor_si256(v[j], seed);
        for (int j = 0; j < 4; j++) v[j] = pb_add(pb_mul(PB_ROTATE(v[j], 27), PB_PRIME_1), PB_PRIME_4);
        pb_finish4(v, out + i);
    }
    return i;
}

static inline ptrdiff_t pb_hash4(const uint8_t *keys, ptrdiff_t count, uint64_t *out) {
    const __m256i seed = _mm256_set1_epi64x((long long)(PB_PRIME_5 + 4));
    ptrdiff_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256i v[4];
        for (int j = 0; j < 4; j++)
            v[j] = _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(keys + 4 * i + 16 * j)));
        for (int j = 0; j < 4; j++) v[j] = _mm256_xor_si256(pb_mul(v[j], PB_PRIME_1), seed);
        for (int j = 0; j < 4; j++) v[j] = pb_add(pb_mul(PB_ROTATE(v[j], 23), PB_PRIME_2), PB_PRIME_3);
        pb_finish4(v, out + i);
    }
    return i;
}

static inline ptrdiff_t pb_hash_spans(const uint8_t *const *starts, const uint64_t *lengths, ptrdiff_t count,
                                      uint64_t *out) {
    (void)starts, (void)lengths, (void)count, (void)out;
    return 0;
}

/* The lower halves of eight lanes, in order. */
static inline __m256i pb_lower_halves(__m256i a, __m256i b) {
    const __m256 mixed = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(mixed), 0xD8);
}

static inline ptrdiff_t pb_locate(const uint64_t *hashes, ptrdiff_t count, uint64_t num_blocks, uint32_t *blocks,
                                  uint32_t *keys) {
    const __m256i factor = _mm256_set1_epi64x((long long)num_blocks);
    ptrdiff_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i h[2], block[2];
        for (int j = 0; j < 2; j++) {
            h[j] = _mm256_loadu_si256((const __m256i *)(hashes + i + 4 * j));
            block[j] = _mm256_srli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(h[j], 32), factor), 32);
        }
        _mm256_storeu_si256((__m256i *)(blocks + i), pb_lower_halves(block[0], block[1]));
        _mm256_storeu_si256((__m256i *)(keys + i), pb_lower_halves(h[0], h[1]));
    }
    return i;
}

static inline ptrdiff_t pb_check(const uint8_t *bitset, const uint32_t *blocks, const uint32_t *keys, ptrdiff_t count,
                                 uint8_t *found) {
    for (ptrdiff_t i = 0; i < count; i++) {
        const __m256i block = _mm256_loadu_si256((const __m256i *)(bitset + 32 * (size_t)blocks[i]));
        found[i] = (uint8_t)_mm256_testc_si256(block, pb_mask(keys[i]));
    }
    return count;
}
