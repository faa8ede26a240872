/* AVX-512 (F, DQ, VL, BW) and BMI2: eight lanes of 64 bits. Loops over `v` arrays are unrolled by the compiler; they
 * keep four independent chains in flight, as one chain of multiplications waits for itself most of the time. */

#include "simd_block256.h"

static inline __m512i pb_mul(__m512i a, uint64_t factor) {
    return _mm512_mullo_epi64(a, _mm512_set1_epi64((long long)factor));
}

static inline __m512i pb_add(__m512i a, uint64_t term) {
    return _mm512_add_epi64(a, _mm512_set1_epi64((long long)term));
}

/* One 8-byte word, one 4-byte word, one byte of a key mixed into its hash; the names are those of the scalar twins. */
static inline __m512i pb_mix_lane(__m512i word) {
    return pb_mul(_mm512_rol_epi64(pb_mul(word, PB_PRIME_2), 31), PB_PRIME_1);
}

static inline __m512i pb_mix8(__m512i h, __m512i word) {
    h = _mm512_xor_si512(h, pb_mix_lane(word));
    return pb_add(pb_mul(_mm512_rol_epi64(h, 27), PB_PRIME_1), PB_PRIME_4);
}

static inline __m512i pb_mix4(__m512i h, __m512i word) {
    h = _mm512_xor_si512(h, pb_mul(word, PB_PRIME_1));
    return pb_add(pb_mul(_mm512_rol_epi64(h, 23), PB_PRIME_2), PB_PRIME_3);
}

static inline __m512i pb_mix1(__m512i h, __m512i byte) {
    h = _mm512_xor_si512(h, pb_mul(byte, PB_PRIME_5));
    return pb_mul(_mm512_rol_epi64(h, 11), PB_PRIME_1);
}

static inline __m512i pb_avalanche(__m512i h) {
    h = pb_mul(_mm512_xor_si512(h, _mm512_srli_epi64(h, 33)), PB_PRIME_2);
    h = pb_mul(_mm512_xor_si512(h, _mm512_srli_epi64(h, 29)), PB_PRIME_3);
    return _mm512_xor_si512(h, _mm512_srli_epi64(h, 32));
}

/* Four vectors at once through the last steps of the hash. */
static inline void pb_finish4(__m512i v[4], uint64_t *out) {
    for (int j = 0; j < 4; j++) v[j] = pb_mul(_mm512_xor_si512(v[j], _mm512_srli_epi64(v[j], 33)), PB_PRIME_2);
    for (int j = 0; j < 4; j++) v[j] = pb_mul(_mm512_xor_si512(v[j], _mm512_srli_epi64(v[j], 29)), PB_PRIME_3);
    for (int j = 0; j < 4; j++) v[j] = _mm512_xor_si512(v[j], _mm512_srli_epi64(v[j], 32));
    for (int j = 0; j < 4; j++) _mm512_storeu_si512(out + 8 * j, v[j]);
}

static inline ptrdiff_t pb_hash8(const uint8_t *keys, ptrdiff_t count, uint64_t *out) {
    const __m512i seed = _mm512_set1_epi64((long long)(PB_PRIME_5 + 8));
    ptrdiff_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m512i v[4];
        for (int j = 0; j < 4; j++) v[j] = pb_mul(_mm512_loadu_si512(keys + 8 * i + 64 * j), PB_PRIME_2);
        for (int j = 0; j < 4; j++) v[j] = pb_mul(_mm512_rol_epi64(v[j], 31), PB_PRIME_1);
        for (int j = 0; j < 4; j++) v[j] = _mm512_rol_epi64(_mm512_xor_si512(v[j], seed), 27);
        for (int j = 0; j < 4; j++) v[j] = pb_add(pb_mul(v[j], PB_PRIME_1), PB_PRIME_4);
        pb_finish4(v, out + i);
    }
    return i;
}

static inline ptrdiff_t pb_hash4(const uint8_t *keys, ptrdiff_t count, uint64_t *out) {
    const __m512i seed = _mm512_set1_epi64((long long)(PB_PRIME_5 + 4));
    ptrdiff_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m512i v[4];
        for (int j = 0; j < 4; j++)
            v[j] = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(keys + 4 * i + 32 * j)));
        for (int j = 0; j < 4; j++) v[j] = _mm512_xor_si512(pb_mul(v[j], PB_PRIME_1), seed);
        for (int j = 0; j < 4; j++) v[j] = pb_add(pb_mul(_mm512_rol_epi64(v[j], 23), PB_PRIME_2), PB_PRIME_3);
        pb_finish4(v, out + i);
    }
    return i;
}

/* Eight rows of four words become four columns of eight: lane k of column w is word w of row k. */
static inline void pb_transpose(const __m256i rows[8], __m512i columns[4]) {
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

/* The four accumulators of one key, and 32 more bytes of it. */
static inline __m256i pb_stripe(__m256i lanes, const uint8_t *bytes) {
    const __m256i words = _mm256_loadu_si256((const __m256i *)bytes);
    lanes = _mm256_add_epi64(lanes, _mm256_mullo_epi64(words, _mm256_set1_epi64x((long long)PB_PRIME_2)));
    return _mm256_mullo_epi64(_mm256_rol_epi64(lanes, 31), _mm256_set1_epi64x((long long)PB_PRIME_1));
}

static inline __m256i pb_fresh_lanes(void) {
    return _mm256_setr_epi64x((long long)(PB_PRIME_1 + PB_PRIME_2), (long long)PB_PRIME_2, 0, (long long)(0 - PB_PRIME_1));
}

static inline __m512i pb_merge_lanes(const __m512i lanes[4]) {
    __m512i h = _mm512_add_epi64(
        _mm512_add_epi64(_mm512_rol_epi64(lanes[0], 1), _mm512_rol_epi64(lanes[1], 7)),
        _mm512_add_epi64(_mm512_rol_epi64(lanes[2], 12), _mm512_rol_epi64(lanes[3], 18)));
    __m512i mixed[4];
    for (int j = 0; j < 4; j++) mixed[j] = pb_mix_lane(lanes[j]);
    for (int j = 0; j < 4; j++) h = pb_add(pb_mul(_mm512_xor_si512(h, mixed[j]), PB_PRIME_1), PB_PRIME_4);
    return h;
}

/* The last `length` bytes (below 32) of a key, zeros behind them; nothing past them is touched. */
static inline __m256i pb_rest(const uint8_t *bytes, uint32_t length) {
    return _mm256_maskz_loadu_epi8(_bzhi_u32(0xFFFFFFFFU, length), bytes);
}

/* Eight keys of one length. */
static inline __m512i pb_hash_same(const uint8_t *const *starts, uint64_t length) {
    const uint32_t rest = (uint32_t)(length & 31);
    const uint64_t whole = length - rest;
    __m256i rows[8];
    __m512i columns[4], h;
    if (whole) {
        for (int k = 0; k < 8; k++) rows[k] = pb_stripe(pb_fresh_lanes(), starts[k]);
        for (uint64_t done = 32; done < whole; done += 32)
            for (int k = 0; k < 8; k++) rows[k] = pb_stripe(rows[k], starts[k] + done);
        pb_transpose(rows, columns);
        h = pb_merge_lanes(columns);
    } else {
        h = _mm512_set1_epi64((long long)PB_PRIME_5);
    }
    h = pb_add(h, length);
    if (rest == 4) { /* the end of a UUID's text */
        int32_t words[8];
        for (int k = 0; k < 8; k++) memcpy(words + k, starts[k] + whole, 4);
        return pb_avalanche(pb_mix4(h, _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)words))));
    }
    if (rest) {
        for (int k = 0; k < 8; k++) rows[k] = pb_rest(starts[k] + whole, rest);
        pb_transpose(rows, columns);
        uint32_t word = 0;
        for (; word < rest / 8; word++) h = pb_mix8(h, columns[word]);
        if (rest & 7) {
            __m512i tail = columns[word];
            uint32_t left = rest & 7;
            if (left >= 4) {
                h = pb_mix4(h, _mm512_and_si512(tail, _mm512_set1_epi64(0xFFFFFFFFLL)));
                tail = _mm512_srli_epi64(tail, 32);
                left -= 4;
            }
            for (; left; left--, tail = _mm512_srli_epi64(tail, 8))
                h = pb_mix1(h, _mm512_and_si512(tail, _mm512_set1_epi64(255)));
        }
    }
    return pb_avalanche(h);
}

/* Eight keys of any lengths: where lengths differ, lanes are masked instead of branched on. */
static inline __m512i pb_hash_mixed(const uint8_t *const *starts, const uint64_t *lengths) {
    const __m512i length = _mm512_loadu_si512(lengths);
    const __m512i rest = _mm512_and_si512(length, _mm512_set1_epi64(31));
    __m256i rows[8], rests[8];
    __m512i columns[4], h = _mm512_set1_epi64((long long)PB_PRIME_5);
    for (int k = 0; k < 8; k++) {
        const uint8_t *bytes = starts[k];
        uint64_t left = lengths[k];
        rows[k] = pb_fresh_lanes();
        for (; left >= 32; left -= 32, bytes += 32) rows[k] = pb_stripe(rows[k], bytes);
        rests[k] = pb_rest(bytes, (uint32_t)left);
    }
    const __mmask8 is_long = _mm512_cmpge_epu64_mask(length, _mm512_set1_epi64(32));
    if (is_long) {
        pb_transpose(rows, columns);
        h = _mm512_mask_mov_epi64(h, is_long, pb_merge_lanes(columns));
    }
    h = _mm512_add_epi64(h, length);
    pb_transpose(rests, columns);
    __m512i tail = columns[0];
    for (int word = 0; word < 3; word++) {
        const __mmask8 has = _mm512_cmpge_epu64_mask(rest, _mm512_set1_epi64(8 * word + 8));
        if (!has) break;
        h = _mm512_mask_mov_epi64(h, has, pb_mix8(h, columns[word]));
        tail = _mm512_mask_mov_epi64(tail, has, columns[word + 1]);
    }
    const __mmask8 has4 = _mm512_test_epi64_mask(rest, _mm512_set1_epi64(4));
    if (has4) {
        h = _mm512_mask_mov_epi64(h, has4, pb_mix4(h, _mm512_and_si512(tail, _mm512_set1_epi64(0xFFFFFFFFLL))));
        tail = _mm512_mask_srli_epi64(tail, has4, tail, 32);
    }
    const __m512i bytes = _mm512_and_si512(rest, _mm512_set1_epi64(3));
    for (int byte = 0; byte < 3; byte++, tail = _mm512_srli_epi64(tail, 8)) {
        const __mmask8 has = _mm512_cmpgt_epu64_mask(bytes, _mm512_set1_epi64(byte));
        if (!has) break;
        h = _mm512_mask_mov_epi64(h, has, pb_mix1(h, _mm512_and_si512(tail, _mm512_set1_epi64(255))));
    }
    return pb_avalanche(h);
}

static inline ptrdiff_t pb_hash_spans(const uint8_t *const *starts, const uint64_t *lengths, ptrdiff_t count,
                                      uint64_t *out) {
    ptrdiff_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m512i first = _mm512_set1_epi64((long long)lengths[i]);
        const int same = _mm512_cmpneq_epi64_mask(_mm512_loadu_si512(lengths + i), first) == 0;
        const __m512i h = same ? pb_hash_same(starts + i, lengths[i]) : pb_hash_mixed(starts + i, lengths + i);
        _mm512_storeu_si512(out + i, h);
    }
    return i;
}

static inline ptrdiff_t pb_locate(const uint64_t *hashes, ptrdiff_t count, uint64_t num_blocks, uint32_t *blocks,
                                  uint32_t *keys) {
    const __m512i factor = _mm512_set1_epi64((long long)num_blocks);
    ptrdiff_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m512i h = _mm512_loadu_si512(hashes + i);
        const __m512i block = _mm512_srli_epi64(_mm512_mul_epu32(_mm512_srli_epi64(h, 32), factor), 32);
        _mm256_storeu_si256((__m256i *)(blocks + i), _mm512_cvtepi64_epi32(block));
        _mm256_storeu_si256((__m256i *)(keys + i), _mm512_cvtepi64_epi32(h));
    }
    return i;
}

static inline ptrdiff_t pb_check(const uint8_t *bitset, const uint32_t *blocks, const uint32_t *keys, ptrdiff_t count,
                                 uint8_t *found) {
    ptrdiff_t i = 0;
    for (; i + 64 <= count; i += 64) {
        /* A word whose bit is unset gives a bit here; the bytes become answers all at once. */
        uint8_t missing[64];
        for (int j = 0; j < 64; j++) {
            const __m256i block = _mm256_loadu_si256((const __m256i *)(bitset + 32 * (size_t)blocks[i + j]));
            missing[j] = (uint8_t)_mm256_testn_epi32_mask(block, pb_mask(keys[i + j]));
        }
        const __mmask64 none = _mm512_testn_epi8_mask(_mm512_loadu_si512(missing), _mm512_set1_epi8(-1));
        _mm512_storeu_si512(found + i, _mm512_maskz_set1_epi8(none, 1));
    }
    for (; i < count; i++) {
        const __m256i block = _mm256_loadu_si256((const __m256i *)(bitset + 32 * (size_t)blocks[i]));
        found[i] = _mm256_testn_epi32_mask(block, pb_mask(keys[i])) == 0;
    }
    return i;
}
