/* Included by row_scan.h, once for each instruction set: PB_NAME names the functions, PB_TARGET is put before them,
 * PB_VECTOR_BYTES is the vectors' width. Compilers without vectors of their own get plain loops. */
#if defined(__GNUC__) || defined(__clang__)

#define PB_VECTORS (PB_STRIPE_BYTES / PB_VECTOR_BYTES)
#define PB_UNALIGNED __attribute__((vector_size(PB_VECTOR_BYTES), aligned(1), may_alias))

typedef uint64_t PB_NAME(pb_words) PB_UNALIGNED;
typedef uint16_t PB_NAME(pb_halves) PB_UNALIGNED;
typedef uint8_t PB_NAME(pb_bytes) PB_UNALIGNED;

PB_TARGET void PB_NAME(pb_sum)(pb_row_sum *state, const uint8_t *data, size_t num_stripes) {
    PB_NAME(pb_words) words[PB_VECTORS], sums[PB_VECTORS];
    memcpy(words, state->words, sizeof words);
    memcpy(sums, state->sums, sizeof sums);
    for (size_t i = 0; i < num_stripes; i++) {
        const PB_NAME(pb_words) *stripe = (const PB_NAME(pb_words) *)(data + PB_STRIPE_BYTES * i);
        for (size_t k = 0; k < PB_VECTORS; k++) {
            words[k] += stripe[k] ^ (stripe[k] >> 32);
            sums[k] += words[k];
        }
    }
    memcpy(state->words, words, sizeof words);
    memcpy(state->sums, sums, sizeof sums);
}

/* Four vectors are compared before testing whether any item in them is equal. */
#define PB_SEARCH(item, vector)                                                                         \
    const size_t in_one = PB_VECTOR_BYTES / sizeof(item), in_four = 4 * in_one;                         \
    PB_NAME(vector) all;                                                                                \
    size_t i = start;                                                                                   \
    for (size_t k = 0; k < in_one; k++) all[k] = target;                                                \
    for (; i + in_four <= count; i += in_four) {                                                        \
        const PB_NAME(vector) *block = (const PB_NAME(vector) *)(data + sizeof(item) * i);              \
        const PB_NAME(pb_words) any = (PB_NAME(pb_words))((block[0] == all) | (block[1] == all) |       \
                                                          (block[2] == all) | (block[3] == all));       \
        uint64_t seen = 0;                                                                              \
        for (size_t k = 0; k < PB_VECTOR_BYTES / 8; k++) seen |= any[k];                                \
        if (seen) break;                                                                                \
    }                                                                                                   \
    for (; i < count; i++) {                                                                            \
        item value;                                                                                     \
        memcpy(&value, data + sizeof(item) * i, sizeof value);                                          \
        if (value == target) return i;                                                                  \
    }                                                                                                   \
    return count;

PB_TARGET size_t PB_NAME(pb_next16)(const uint8_t *data, size_t start, size_t count, uint16_t target) {
    PB_SEARCH(uint16_t, pb_halves)
}

PB_TARGET size_t PB_NAME(pb_next8)(const uint8_t *data, size_t start, size_t count, uint8_t target) {
    PB_SEARCH(uint8_t, pb_bytes)
}

#undef PB_SEARCH
#undef PB_VECTORS
#undef PB_UNALIGNED

#else

PB_TARGET void PB_NAME(pb_sum)(pb_row_sum *state, const uint8_t *data, size_t num_stripes) {
    for (size_t i = 0; i < num_stripes; i++) {
        for (size_t lane = 0; lane < PB_LANES; lane++) {
            uint64_t word;
            memcpy(&word, data + PB_STRIPE_BYTES * i + 8 * lane, 8);
            state->words[lane] += word ^ (word >> 32);
            state->sums[lane] += state->words[lane];
        }
    }
}

PB_TARGET size_t PB_NAME(pb_next16)(const uint8_t *data, size_t start, size_t count, uint16_t target) {
    for (size_t i = start; i < count; i++) {
        uint16_t value;
        memcpy(&value, data + 2 * i, 2);
        if (value == target) return i;
    }
    return count;
}

PB_TARGET size_t PB_NAME(pb_next8)(const uint8_t *data, size_t start, size_t count, uint8_t target) {
    for (size_t i = start; i < count; i++)
        if (data[i] == target) return i;
    return count;
}

#endif

#undef PB_NAME
#undef PB_TARGET
#undef PB_VECTOR_BYTES
