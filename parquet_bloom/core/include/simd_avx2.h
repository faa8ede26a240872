/* AVX2: four lanes of 64 bits. There is no 64-bit multiplication; three of 32 bits make one. */

#include "simd_block256.h"

#define PB_LANES 4
#define PB_GROUPS 4
#define PB_ROTATE(a, bits) _mm256_or_si256(_mm256_slli_epi64(a, bits), _mm256_srli_epi64(a, 64 - (bits)))
#define PB_RIGHT(a, bits) _mm256_srli_epi64(a, bits)
#define PB_ROW_ROTATE(a, bits) PB_ROTATE(a, bits)

typedef __m256i pb_vec;
typedef __m256i pb_lanes;

static inline pb_vec pb_fill(uint64_t number) {
    return _mm256_set1_epi64x((long long)number);
}

static inline pb_vec pb_load(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

static inline pb_vec pb_load32(const void *from) {
    return _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)from));
}

static inline void pb_store(void *to, pb_vec a) {
    _mm256_storeu_si256((__m256i *)to, a);
}

static inline pb_vec pb_of4(const uint64_t words[4]) {
    return pb_row_of4(words);
}

static inline pb_vec pb_sum(pb_vec a, pb_vec b) {
    return _mm256_add_epi64(a, b);
}

static inline pb_vec pb_xor(pb_vec a, pb_vec b) {
    return _mm256_xor_si256(a, b);
}

static inline pb_vec pb_and(pb_vec a, pb_vec b) {
    return _mm256_and_si256(a, b);
}

static inline pb_vec pb_mul(pb_vec a, uint64_t factor) {
    /* low * high in the upper half of each lane, high * low in the lower; their sum is due in the upper half */
    __m256i cross = _mm256_mullo_epi32(a, pb_fill((factor >> 32) | (factor << 32)));
    cross = _mm256_add_epi32(cross, _mm256_slli_epi64(cross, 32));
    cross = _mm256_and_si256(cross, pb_fill(0xFFFFFFFF00000000ULL));
    return _mm256_add_epi64(_mm256_mul_epu32(a, pb_fill(factor)), cross);
}

static inline pb_vec pb_mul_add(pb_vec a, uint64_t factor, uint64_t term) {
    return pb_sum(pb_mul(a, factor), pb_fill(term));
}

static inline pb_vec pb_right(pb_vec a, uint64_t bits) {
    return _mm256_srl_epi64(a, _mm_cvtsi64_si128((long long)bits));
}

static inline pb_lanes pb_at_least(pb_vec a, uint64_t least) {
    return _mm256_cmpgt_epi64(a, pb_fill(least - 1)); /* signed, but no length reaches 2^63 */
}

static inline pb_lanes pb_has_bit(pb_vec a, uint64_t bit) {
    return pb_at_least(pb_and(a, pb_fill(bit)), 1);
}

static inline int pb_any(pb_lanes chosen) {
    return !_mm256_testz_si256(chosen, chosen);
}

static inline pb_vec pb_select(pb_lanes chosen, pb_vec yes, pb_vec no) {
    return _mm256_blendv_epi8(no, yes, chosen);
}

static inline pb_row pb_row_mul(pb_row row, uint64_t factor) {
    return pb_mul(row, factor);
}

static inline void pb_columns(const pb_row rows[4], pb_vec columns[4]) {
    const __m256i low01 = _mm256_unpacklo_epi64(rows[0], rows[1]), high01 = _mm256_unpackhi_epi64(rows[0], rows[1]);
    const __m256i low23 = _mm256_unpacklo_epi64(rows[2], rows[3]), high23 = _mm256_unpackhi_epi64(rows[2], rows[3]);
    columns[0] = _mm256_permute2x128_si256(low01, low23, 0x20);
    columns[1] = _mm256_permute2x128_si256(high01, high23, 0x20);
    columns[2] = _mm256_permute2x128_si256(low01, low23, 0x31);
    columns[3] = _mm256_permute2x128_si256(high01, high23, 0x31);
}

static inline uint64_t pb_word(const uint8_t *from) {
    uint64_t word;
    memcpy(&word, from, 8);
    return word;
}

static inline uint64_t pb_half(const uint8_t *from) {
    uint32_t word;
    memcpy(&word, from, 4);
    return word;
}

static inline pb_vec pb_words(const uint8_t *const *starts, uint64_t offset) {
    uint64_t words[4];
    for (int k = 0; k < 4; k++) words[k] = pb_word(starts[k] + offset);
    return pb_of4(words);
}

/* Lengths vary at random, so the code that depends on them is branch-free: a mispredicted branch costs as much as the
 * whole hash. */

/* A key's last bytes (fewer than 8), followed by zeros. Bytes outside of the key must not be read, but its own bytes may
 * be read twice. */
static inline uint64_t pb_tail(const uint8_t *start, uint64_t length) {
    const uint64_t left = length & 7;
    const uint8_t *end = start + length;
    if (length >= 4) {
        const uint64_t whole = 0 - (uint64_t)(length >= 8); /* all ones if there are 8 bytes to take it from */
        const uint64_t high = pb_half(end - 4) << 32, low = pb_half(start + (whole & (length - 8)));
        const uint64_t beyond = 63 - 8 * left; /* bits, less one: a shift by 64 is undefined */
        return high >> 1 >> beyond | low >> (whole & 1) >> (whole & beyond);
    }
    if (left) return start[0] | (uint64_t)start[left / 2] << (8 * (left / 2)) | (uint64_t)end[-1] << (8 * left - 8);
    return 0;
}

static inline void pb_rests(const uint8_t *const *starts, const uint64_t *lengths, pb_vec rest, pb_vec words[4],
                            pb_vec *tail) {
    static const uint8_t nothing[8] = {0};
    uint64_t lane[4];
    for (int k = 0; k < 4; k++) lane[k] = pb_tail(starts[k], lengths[k]);
    *tail = pb_of4(lane);
    for (int word = 0; word < 3; word++) {
        if (!pb_any(pb_at_least(rest, 8 * word + 8))) break;
        for (int k = 0; k < 4; k++) {
            const uint64_t before = (lengths[k] & ~31ULL) + 8 * word;
            const uintptr_t there = 0 - (uintptr_t)(before + 8 <= lengths[k]);
            const uintptr_t from = ((uintptr_t)(starts[k] + before) & there) | ((uintptr_t)nothing & ~there);
            lane[k] = pb_word((const uint8_t *)from);
        }
        words[word] = pb_of4(lane);
    }
}

#include "simd_xxh64.h"

/* The lower halves of eight lanes, in order. */
static inline __m256i pb_lower_halves(__m256i a, __m256i b) {
    const __m256 mixed = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(mixed), 0xD8);
}

static inline ptrdiff_t pb_locate(const uint64_t *hashes, ptrdiff_t count, uint64_t num_blocks, uint64_t *offsets,
                                  uint32_t *keys) {
    const __m256i factor = _mm256_set1_epi64x((long long)num_blocks);
    ptrdiff_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i h[2];
        for (int j = 0; j < 2; j++) {
            h[j] = _mm256_loadu_si256((const __m256i *)(hashes + i + 4 * j));
            const __m256i block = _mm256_srli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(h[j], 32), factor), 32);
            _mm256_storeu_si256((__m256i *)(offsets + i + 4 * j), _mm256_slli_epi64(block, 5));
        }
        _mm256_storeu_si256((__m256i *)(keys + i), pb_lower_halves(h[0], h[1]));
    }
    return i;
}

static inline ptrdiff_t pb_check(const uint8_t *bitset, const uint64_t *offsets, const uint32_t *keys, ptrdiff_t count,
                                 uint8_t *results) {
    for (ptrdiff_t i = 0; i < count; i++) {
        const __m256i block = _mm256_loadu_si256((const __m256i *)(bitset + offsets[i]));
        results[i] = (uint8_t)_mm256_testc_si256(block, pb_mask(keys[i]));
    }
    return count;
}
