/* Words of four byte strings at once, read by scalar loads: for sets with four lanes, AVX2 and NEON. They define pb_of4, which
 * makes a vector of four words. */

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
