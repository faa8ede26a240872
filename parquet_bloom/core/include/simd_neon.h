/* NEON, which every aarch64 processor has. A block is two vectors of four words, and there are shifts by different counts.
 *
 * There is no multiplication of 64 bits: hashing is left to the scalar loops. */

#include <arm_neon.h>

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
    const uint32_t factor = (uint32_t)num_blocks; /* at most 2^31 - 1, see count_blocks */
    ptrdiff_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const uint32x4_t h01 = vreinterpretq_u32_u64(vld1q_u64(hashes + i));
        const uint32x4_t h23 = vreinterpretq_u32_u64(vld1q_u64(hashes + i + 2));
        const uint32x4_t high = vuzp2q_u32(h01, h23);
        const uint32x2_t block01 = vshrn_n_u64(vmull_u32(vget_low_u32(high), vdup_n_u32(factor)), 32);
        const uint32x2_t block23 = vshrn_n_u64(vmull_high_u32(high, vdupq_n_u32(factor)), 32);
        vst1q_u32(keys + i, vuzp1q_u32(h01, h23));
        vst1q_u64(offsets + i, vshll_n_u32(block01, 5));
        vst1q_u64(offsets + i + 2, vshll_n_u32(block23, 5));
    }
    return i;
}

/* A key's eight bits, in the words of the two halves of its block. */
static inline uint32x4x2_t pb_mask(uint32_t key) {
    const uint32x4_t one = vdupq_n_u32(1);
    uint32x4x2_t mask;
    for (int half = 0; half < 2; half++) {
        const uint32x4_t bit = vshrq_n_u32(vmulq_n_u32(vld1q_u32(pb_salt + 4 * half), key), 27);
        mask.val[half] = vshlq_u32(one, vreinterpretq_s32_u32(bit));
    }
    return mask;
}

/* Bytes, not words: a bitset may have any alignment. */
static inline uint32x4_t pb_load_half(const uint8_t *block, int half) {
    return vreinterpretq_u32_u8(vld1q_u8(block + 16 * half));
}

static inline void pb_store_half(uint8_t *block, int half, uint32x4_t words) {
    vst1q_u8(block + 16 * half, vreinterpretq_u8_u32(words));
}

/* The bits of a key that its block lacks, in any of four words. */
static inline uint32x4_t pb_missing(const uint8_t *block, uint32x4x2_t mask) {
    return vorrq_u32(vbicq_u32(mask.val[0], pb_load_half(block, 0)), vbicq_u32(mask.val[1], pb_load_half(block, 1)));
}

static inline void pb_set(uint8_t *block, uint32x4x2_t mask) {
    for (int half = 0; half < 2; half++) pb_store_half(block, half, vorrq_u32(pb_load_half(block, half), mask.val[half]));
}

/* For each of four keys, all ones if it lacks no bit: the largest of its four words is 0. */
static inline uint32x4_t pb_none_missing(const uint32x4_t missing[4]) {
    const uint32x4_t first = vpmaxq_u32(missing[0], missing[1]), second = vpmaxq_u32(missing[2], missing[3]);
    return vceqzq_u32(vpmaxq_u32(first, second));
}

/* Results of eight keys, a byte each. */
static inline void pb_store_results(const uint32x4_t missing[8], uint8_t *results) {
    const uint16x8_t none = vuzp1q_u16(vreinterpretq_u16_u32(pb_none_missing(missing)),
                                       vreinterpretq_u16_u32(pb_none_missing(missing + 4)));
    vst1_u8(results, vand_u8(vmovn_u16(none), vdup_n_u8(1)));
}

static inline ptrdiff_t pb_insert(uint8_t *bitset, const uint64_t *offsets, const uint32_t *keys, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++) pb_set(bitset + offsets[i], pb_mask(keys[i]));
    return count;
}

static inline ptrdiff_t pb_insert_new(uint8_t *bitset, const uint64_t *offsets, const uint32_t *keys, ptrdiff_t count,
                                      uint8_t *results) {
    ptrdiff_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint32x4_t missing[8];
        for (int j = 0; j < 8; j++) { /* in order: a key counts for those after it */
            uint8_t *block = bitset + offsets[i + j];
            const uint32x4x2_t mask = pb_mask(keys[i + j]);
            missing[j] = pb_missing(block, mask);
            pb_set(block, mask);
        }
        pb_store_results(missing, results + i);
    }
    return i;
}

static inline ptrdiff_t pb_check(const uint8_t *bitset, const uint64_t *offsets, const uint32_t *keys, ptrdiff_t count,
                                 uint8_t *results) {
    ptrdiff_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint32x4_t missing[8];
        for (int j = 0; j < 8; j++) missing[j] = pb_missing(bitset + offsets[i + j], pb_mask(keys[i + j]));
        pb_store_results(missing, results + i);
    }
    return i;
}
