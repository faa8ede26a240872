/* Four lanes of 64 bits in two NEON vectors: the lower halves in one, the upper halves in the other, as multiplications
 * have operands of 32 bits. Byte strings of different lengths are left to the scalar loop: masking lanes takes more than twice
 * its instructions here. */

#define PB_LANES 4
#define PB_GROUPS 2
#define PB_SAME_LENGTHS_ONLY
/* By less than 32 bits. */
#define PB_ROTATE(a, bits)                                                                                             \
    pb_pair(vsriq_n_u32(vshlq_n_u32((a).low, bits), (a).high, 32 - (bits)),                                            \
            vsriq_n_u32(vshlq_n_u32((a).high, bits), (a).low, 32 - (bits)))
/* By any constant; of the two expressions that the compiler sees one is used, and both need counts in their range. */
#define PB_RIGHT(a, bits)                                                                                              \
    ((bits) < 32 ? pb_pair(vsriq_n_u32(vshlq_n_u32((a).high, (32 - (bits)) & 31), (a).low, ((bits) - 1) % 32 + 1),     \
                           vshrq_n_u32((a).high, ((bits) - 1) % 32 + 1))                                               \
                 : pb_pair(pb_right_word((a).high, (bits)-32), vdupq_n_u32(0)))
#define PB_ROW_ROTATE(a, bits) PB_ROTATE(a, bits)

typedef struct {
    uint32x4_t low, high;
} pb_vec;
typedef pb_vec pb_row;

static inline pb_vec pb_pair(uint32x4_t low, uint32x4_t high) {
    const pb_vec a = {low, high};
    return a;
}

static inline uint32x4_t pb_right_word(uint32x4_t word, int bits) {
    return vshlq_u32(word, vdupq_n_s32(-bits));
}

static inline pb_vec pb_fill(uint64_t number) {
    return pb_pair(vdupq_n_u32((uint32_t)number), vdupq_n_u32((uint32_t)(number >> 32)));
}

static inline pb_vec pb_split(uint64x2_t first, uint64x2_t second) {
    const uint32x4_t a = vreinterpretq_u32_u64(first), b = vreinterpretq_u32_u64(second);
    return pb_pair(vuzp1q_u32(a, b), vuzp2q_u32(a, b));
}

static inline pb_vec pb_load(const void *from) {
    const uint8_t *bytes = (const uint8_t *)from; /* at any address */
    return pb_split(vreinterpretq_u64_u8(vld1q_u8(bytes)), vreinterpretq_u64_u8(vld1q_u8(bytes + 16)));
}

static inline pb_vec pb_load32(const void *from) {
    return pb_pair(vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)from)), vdupq_n_u32(0));
}

static inline void pb_store(void *to, pb_vec a) {
    uint8_t *bytes = (uint8_t *)to;
    vst1q_u8(bytes, vreinterpretq_u8_u32(vzip1q_u32(a.low, a.high)));
    vst1q_u8(bytes + 16, vreinterpretq_u8_u32(vzip2q_u32(a.low, a.high)));
}

static inline pb_vec pb_of4(const uint64_t words[4]) {
    return pb_load(words);
}

static inline pb_vec pb_sum(pb_vec a, pb_vec b) {
    const uint32x4_t low = vaddq_u32(a.low, b.low);
    return pb_pair(low, vsubq_u32(vaddq_u32(a.high, b.high), vcltq_u32(low, a.low))); /* a carry is -1 there */
}

static inline pb_vec pb_xor(pb_vec a, pb_vec b) {
    return pb_pair(veorq_u32(a.low, b.low), veorq_u32(a.high, b.high));
}

static inline pb_vec pb_and(pb_vec a, pb_vec b) {
    return pb_pair(vandq_u32(a.low, b.low), vandq_u32(a.high, b.high));
}

/* a * factor + term: the product of the lower halves has 64 bits, of the two mixed products the lower 32 count. */
static inline pb_vec pb_mul_add(pb_vec a, uint64_t factor, uint64_t term) {
    const uint32_t low = (uint32_t)factor, high = (uint32_t)(factor >> 32);
    const uint64x2_t start = vdupq_n_u64(term);
    pb_vec product = pb_split(vmlal_u32(start, vget_low_u32(a.low), vdup_n_u32(low)),
                              vmlal_high_u32(start, a.low, vdupq_n_u32(low)));
    product.high = vaddq_u32(product.high, vmlaq_n_u32(vmulq_n_u32(a.low, high), a.high, low));
    return product;
}

static inline pb_vec pb_mul(pb_vec a, uint64_t factor) {
    const uint32_t low = (uint32_t)factor, high = (uint32_t)(factor >> 32);
    pb_vec product =
        pb_split(vmull_u32(vget_low_u32(a.low), vdup_n_u32(low)), vmull_high_u32(a.low, vdupq_n_u32(low)));
    product.high = vaddq_u32(product.high, vmlaq_n_u32(vmulq_n_u32(a.low, high), a.high, low));
    return product;
}

static inline pb_vec pb_right(pb_vec a, uint64_t bits) {
    /* A shift to the left by a negative count is one to the right, and by 32 or more leaves nothing. */
    const int32x4_t right = vdupq_n_s32(-(int32_t)bits), left = vdupq_n_s32(32 - (int32_t)bits);
    return pb_pair(vorrq_u32(vshlq_u32(a.low, right), vshlq_u32(a.high, left)), vshlq_u32(a.high, right));
}

static inline pb_row pb_load_row(const uint8_t *bytes) {
    return pb_load(bytes);
}

static inline pb_row pb_sum_rows(pb_row a, pb_row b) {
    return pb_sum(a, b);
}

static inline pb_row pb_row_mul(pb_row row, uint64_t factor) {
    return pb_mul(row, factor);
}

static inline pb_row pb_row_of4(const uint64_t words[4]) {
    return pb_of4(words);
}

/* Four vectors of four words: rows become columns. */
static inline void pb_turn(const uint32x4_t rows[4], uint32x4_t columns[4]) {
    const uint32x4_t even01 = vtrn1q_u32(rows[0], rows[1]), odd01 = vtrn2q_u32(rows[0], rows[1]);
    const uint32x4_t even23 = vtrn1q_u32(rows[2], rows[3]), odd23 = vtrn2q_u32(rows[2], rows[3]);
    columns[0] = vcombine_u32(vget_low_u32(even01), vget_low_u32(even23));
    columns[1] = vcombine_u32(vget_low_u32(odd01), vget_low_u32(odd23));
    columns[2] = vcombine_u32(vget_high_u32(even01), vget_high_u32(even23));
    columns[3] = vcombine_u32(vget_high_u32(odd01), vget_high_u32(odd23));
}

static inline void pb_columns(const pb_row rows[4], pb_vec columns[4]) {
    uint32x4_t low[4], high[4];
    for (int k = 0; k < 4; k++) low[k] = rows[k].low, high[k] = rows[k].high;
    pb_turn(low, low);
    pb_turn(high, high);
    for (int k = 0; k < 4; k++) columns[k] = pb_pair(low[k], high[k]);
}

static inline pb_vec pb_words(const uint8_t *const *starts, uint64_t offset) {
    uint8x8_t words[4];
    for (int k = 0; k < 4; k++) words[k] = vld1_u8(starts[k] + offset);
    return pb_split(vreinterpretq_u64_u8(vcombine_u8(words[0], words[1])),
                    vreinterpretq_u64_u8(vcombine_u8(words[2], words[3])));
}

#include "simd_xxh64.h"
