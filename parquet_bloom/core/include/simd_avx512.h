/* AVX-512 (F, DQ, VL, BW) and BMI2: eight lanes of 64 bits. */

#include "simd_block256.h"

#define PB_LANES 8
#define PB_GROUPS 2
#define PB_ROTATE(a, bits) _mm512_rol_epi64(a, bits)
#define PB_RIGHT(a, bits) _mm512_srli_epi64(a, bits)
#define PB_ROW_ROTATE(a, bits) _mm256_rol_epi64(a, bits)

typedef __m512i pb_vec;
typedef __mmask8 pb_lanes;

static inline pb_vec pb_fill(uint64_t number) {
    return _mm512_set1_epi64((long long)number);
}

static inline pb_vec pb_load(const void *from) {
    return _mm512_loadu_si512(from);
}

static inline pb_vec pb_load32(const void *from) {
    return _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)from));
}

static inline void pb_store(void *to, pb_vec a) {
    _mm512_storeu_si512(to, a);
}

static inline pb_vec pb_sum(pb_vec a, pb_vec b) {
    return _mm512_add_epi64(a, b);
}

static inline pb_vec pb_xor(pb_vec a, pb_vec b) {
    return _mm512_xor_si512(a, b);
}

static inline pb_vec pb_and(pb_vec a, pb_vec b) {
    return _mm512_and_si512(a, b);
}

static inline pb_vec pb_mul(pb_vec a, uint64_t factor) {
    return _mm512_mullo_epi64(a, pb_fill(factor));
}

static inline pb_vec pb_mul_add(pb_vec a, uint64_t factor, uint64_t term) {
    return pb_sum(pb_mul(a, factor), pb_fill(term));
}

static inline pb_vec pb_right(pb_vec a, uint64_t bits) {
    return _mm512_srl_epi64(a, _mm_cvtsi64_si128((long long)bits));
}

static inline pb_lanes pb_at_least(pb_vec a, uint64_t least) {
    return _mm512_cmpge_epu64_mask(a, pb_fill(least));
}

static inline pb_lanes pb_has_bit(pb_vec a, uint64_t bit) {
    return _mm512_test_epi64_mask(a, pb_fill(bit));
}

static inline int pb_any(pb_lanes chosen) {
    return chosen;
}

static inline pb_vec pb_select(pb_lanes chosen, pb_vec yes, pb_vec no) {
    return _mm512_mask_mov_epi64(no, chosen, yes);
}

static inline pb_row pb_row_mul(pb_row row, uint64_t factor) {
    return _mm256_mullo_epi64(row, _mm256_set1_epi64x((long long)factor));
}

static inline void pb_columns(const pb_row rows[8], pb_vec columns[4]) {
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    __m512i pair[4];
    for (int j = 0; j < 4; j++) pair[j] = _mm512_inserti64x4(_mm512_castsi256_si512(rows[j]), rows[j + 4], 1);
    const __m512i low01 = _mm512_unpacklo_epi64(pair[0], pair[1]), high01 = _mm512_unpackhi_epi64(pair[0], pair[1]);
    const __m512i low23 = _mm512_unpacklo_epi64(pair[2], pair[3]), high23 = _mm512_unpackhi_epi64(pair[2], pair[3]);
    columns[0] = _mm512_permutex2var_epi64(low01, even, low23);
    columns[1] = _mm512_permutex2var_epi64(high01, even, high23);
    columns[2] = _mm512_permutex2var_epi64(low01, odd, low23);
    columns[3] = _mm512_permutex2var_epi64(high01, odd, high23);
}

static inline pb_vec pb_words(const uint8_t *const *starts, uint64_t offset) {
    long long words[8];
    for (int k = 0; k < 8; k++) memcpy(words + k, starts[k] + offset, 8);
    return _mm512_setr_epi64(words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7]);
}

/* A key's last bytes, followed by zeros: a masked load reads no others. */
static inline __m256i pb_rest(const uint8_t *start, uint64_t length) {
    return _mm256_maskz_loadu_epi8(_bzhi_u32(0xFFFFFFFFU, (uint32_t)(length & 31)), start + (length & ~31ULL));
}

static inline void pb_rests(const uint8_t *const *starts, const uint64_t *lengths, pb_vec rest, pb_vec words[4],
                            pb_vec *tail) {
    __m256i rows[8];
    for (int k = 0; k < 8; k++) rows[k] = pb_rest(starts[k], lengths[k]);
    pb_columns(rows, words);
    *tail = words[0];
    for (int word = 0; word < 3; word++) *tail = pb_select(pb_at_least(rest, 8 * word + 8), words[word + 1], *tail);
}

#include "simd_xxh64.h"

static inline ptrdiff_t pb_locate(const uint64_t *hashes, ptrdiff_t count, uint64_t num_blocks, uint64_t *offsets,
                                  uint32_t *keys) {
    const __m512i factor = _mm512_set1_epi64((long long)num_blocks);
    ptrdiff_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m512i h = _mm512_loadu_si512(hashes + i);
        const __m512i block = _mm512_srli_epi64(_mm512_mul_epu32(_mm512_srli_epi64(h, 32), factor), 32);
        _mm512_storeu_si512(offsets + i, _mm512_slli_epi64(block, 5));
        _mm256_storeu_si256((__m256i *)(keys + i), _mm512_cvtepi64_epi32(h));
    }
    return i;
}

static inline ptrdiff_t pb_check(const uint8_t *bitset, const uint64_t *offsets, const uint32_t *keys, ptrdiff_t count,
                                 uint8_t *results) {
    ptrdiff_t i = 0;
    for (; i + 64 <= count; i += 64) {
        /* A word whose bit is unset gives a bit here; the bytes are turned into results all at once. */
        uint8_t missing[64];
        for (int j = 0; j < 64; j++) {
            const __m256i block = _mm256_loadu_si256((const __m256i *)(bitset + offsets[i + j]));
            missing[j] = (uint8_t)_mm256_testn_epi32_mask(block, pb_mask(keys[i + j]));
        }
        const __mmask64 none = _mm512_testn_epi8_mask(_mm512_loadu_si512(missing), _mm512_set1_epi8(-1));
        _mm512_storeu_si512(results + i, _mm512_maskz_set1_epi8(none, 1));
    }
    for (; i < count; i++) {
        const __m256i block = _mm256_loadu_si256((const __m256i *)(bitset + offsets[i]));
        results[i] = _mm256_testn_epi32_mask(block, pb_mask(keys[i])) == 0;
    }
    return i;
}
