/* XXH64 of many keys, a lane of 64 bits each; written once in terms of these macros for AVX2 and AVX-512:
 *
 *   pb_vec, PB_LANES                          a vector of lanes, and how many it has
 *   pb_fill, pb_load, pb_load32, pb_store     one number in all lanes; from and to memory (32: words of 4 bytes)
 *   pb_sum, pb_xor, pb_and                    of two vectors
 *   pb_mul, pb_mul_add                        by one factor in all lanes; plus one term
 *   PB_ROTATE, PB_RIGHT, pb_right             rotate left, shift right, by a constant; shift right by any count
 *   pb_lanes, pb_at_least, pb_has_bit,        a mask of lanes, by comparison or by a bit; whether it is not empty; the
 *   pb_any, pb_select                         lanes of the first of two vectors where the mask is set, else the second's
 *   pb_row, pb_load_row, pb_row_of4,          the same for a row, four lanes that belong to one key, from memory or of four
 *   pb_sum_rows, pb_row_mul, PB_ROW_ROTATE    numbers
 *   pb_columns                                PB_LANES rows -> four vectors, the n-th lanes of all rows in the n-th
 *   pb_words                                  8 bytes of each key, at the same offset in all
 *   pb_rests                                  the last bytes of keys (below 32), as words
 *   PB_GROUPS                                 how many vectors of byte strings are hashed side by side
 *
 * Loops over a few vectors are unrolled by the compiler: they keep independent chains of multiplications in flight, as
 * one chain waits for itself most of the time.
 */

static inline pb_vec pb_add(pb_vec a, uint64_t term) {
    return pb_sum(a, pb_fill(term));
}

/* One 8-byte word, one 4-byte word, one byte of a key mixed into its hash; the names are those of the scalar twins. */
static inline pb_vec pb_mix_lane(pb_vec word) {
    return pb_mul(PB_ROTATE(pb_mul(word, PB_PRIME_2), 31), PB_PRIME_1);
}

static inline pb_vec pb_mix8(pb_vec h, pb_vec word) {
    h = pb_xor(h, pb_mix_lane(word));
    return pb_mul_add(PB_ROTATE(h, 27), PB_PRIME_1, PB_PRIME_4);
}

static inline pb_vec pb_mix4(pb_vec h, pb_vec word) {
    h = pb_xor(h, pb_mul(word, PB_PRIME_1));
    return pb_mul_add(PB_ROTATE(h, 23), PB_PRIME_2, PB_PRIME_3);
}

static inline pb_vec pb_mix1(pb_vec h, pb_vec byte) {
    h = pb_xor(h, pb_mul(byte, PB_PRIME_5));
    return pb_mul(PB_ROTATE(h, 11), PB_PRIME_1);
}

static inline void pb_finish(pb_vec *h, int num_vectors, uint64_t *out) {
    for (int j = 0; j < num_vectors; j++) h[j] = pb_mul(pb_xor(h[j], PB_RIGHT(h[j], 33)), PB_PRIME_2);
    for (int j = 0; j < num_vectors; j++) h[j] = pb_mul(pb_xor(h[j], PB_RIGHT(h[j], 29)), PB_PRIME_3);
    for (int j = 0; j < num_vectors; j++) pb_store(out + PB_LANES * j, pb_xor(h[j], PB_RIGHT(h[j], 32)));
}

static inline ptrdiff_t pb_hash8(const uint8_t *keys, ptrdiff_t count, uint64_t *out) {
    const pb_vec seed = pb_fill(PB_PRIME_5 + 8);
    ptrdiff_t i = 0;
    for (; i + 4 * PB_LANES <= count; i += 4 * PB_LANES) {
        pb_vec h[4];
        for (int j = 0; j < 4; j++) h[j] = pb_mul(pb_load(keys + 8 * (i + PB_LANES * j)), PB_PRIME_2);
        for (int j = 0; j < 4; j++) h[j] = pb_xor(pb_mul(PB_ROTATE(h[j], 31), PB_PRIME_1), seed);
        for (int j = 0; j < 4; j++) h[j] = pb_mul_add(PB_ROTATE(h[j], 27), PB_PRIME_1, PB_PRIME_4);
        pb_finish(h, 4, out + i);
    }
    return i;
}

static inline ptrdiff_t pb_hash4(const uint8_t *keys, ptrdiff_t count, uint64_t *out) {
    const pb_vec seed = pb_fill(PB_PRIME_5 + 4);
    ptrdiff_t i = 0;
    for (; i + 4 * PB_LANES <= count; i += 4 * PB_LANES) {
        pb_vec h[4];
        for (int j = 0; j < 4; j++)
            h[j] = pb_xor(pb_mul(pb_load32(keys + 4 * (i + PB_LANES * j)), PB_PRIME_1), seed);
        for (int j = 0; j < 4; j++) h[j] = pb_mul_add(PB_ROTATE(h[j], 23), PB_PRIME_2, PB_PRIME_3);
        pb_finish(h, 4, out + i);
    }
    return i;
}

/* A key's four accumulators, and 32 more bytes of it. */
static inline pb_row pb_stripe(pb_row row, const uint8_t *bytes) {
    row = pb_sum_rows(row, pb_row_mul(pb_load_row(bytes), PB_PRIME_2));
    return pb_row_mul(PB_ROW_ROTATE(row, 31), PB_PRIME_1);
}

static inline pb_row pb_first_row(void) {
    const uint64_t accumulators[4] = {PB_PRIME_1 + PB_PRIME_2, PB_PRIME_2, 0, 0 - PB_PRIME_1};
    return pb_row_of4(accumulators);
}

/* The accumulators of PB_LANES keys become one hash each; PB_GROUPS times. */
static inline void pb_merge_rows(pb_row rows[PB_GROUPS][PB_LANES], pb_vec h[PB_GROUPS]) {
    pb_vec lanes[PB_GROUPS][4];
    for (int g = 0; g < PB_GROUPS; g++) {
        pb_columns(rows[g], lanes[g]);
        h[g] = pb_sum(pb_sum(PB_ROTATE(lanes[g][0], 1), PB_ROTATE(lanes[g][1], 7)),
                      pb_sum(PB_ROTATE(lanes[g][2], 12), PB_ROTATE(lanes[g][3], 18)));
    }
    for (int lane = 0; lane < 4; lane++)
        for (int g = 0; g < PB_GROUPS; g++)
            h[g] = pb_mul_add(pb_xor(h[g], pb_mix_lane(lanes[g][lane])), PB_PRIME_1, PB_PRIME_4);
}

/* PB_GROUPS * PB_LANES byte strings of one length, which is at least 8. */
static inline void pb_hash_same(const uint8_t *const *starts, const uint64_t length, uint64_t *out) {
    const uint64_t rest = length & 31;
    pb_vec h[PB_GROUPS];
    if (length >= 32) {
        pb_row rows[PB_GROUPS][PB_LANES];
        for (int g = 0; g < PB_GROUPS; g++)
            for (int k = 0; k < PB_LANES; k++) rows[g][k] = pb_stripe(pb_first_row(), starts[PB_LANES * g + k]);
        for (uint64_t done = 32; done + 32 <= length; done += 32)
            for (int g = 0; g < PB_GROUPS; g++)
                for (int k = 0; k < PB_LANES; k++) rows[g][k] = pb_stripe(rows[g][k], starts[PB_LANES * g + k] + done);
        pb_merge_rows(rows, h);
        for (int g = 0; g < PB_GROUPS; g++) h[g] = pb_add(h[g], length);
    } else {
        for (int g = 0; g < PB_GROUPS; g++) h[g] = pb_fill(PB_PRIME_5 + length);
    }
    for (uint64_t done = length - rest; done + 8 <= length; done += 8)
        for (int g = 0; g < PB_GROUPS; g++) h[g] = pb_mix8(h[g], pb_words(starts + PB_LANES * g, done));
    uint64_t left = rest & 7;
    if (left) {
        pb_vec tail[PB_GROUPS]; /* the last 8 bytes, without those already mixed in */
        for (int g = 0; g < PB_GROUPS; g++)
            tail[g] = pb_right(pb_words(starts + PB_LANES * g, length - 8), 64 - 8 * left);
        if (left >= 4) {
            left -= 4;
            for (int g = 0; g < PB_GROUPS; g++) {
                h[g] = pb_mix4(h[g], pb_and(tail[g], pb_fill(0xFFFFFFFFU)));
                tail[g] = PB_RIGHT(tail[g], 32);
            }
        }
        for (; left; left--)
            for (int g = 0; g < PB_GROUPS; g++) {
                h[g] = pb_mix1(h[g], pb_and(tail[g], pb_fill(255)));
                tail[g] = PB_RIGHT(tail[g], 8);
            }
    }
    pb_finish(h, PB_GROUPS, out);
}

/* Sets the mask of each group by an expression of g; the value is whether any mask is not empty. */
#define PB_CHOOSE(chosen, expression)                                                                                  \
    int some = 0;                                                                                                      \
    for (int g = 0; g < PB_GROUPS; g++) {                                                                              \
        chosen[g] = (expression);                                                                                      \
        some |= pb_any(chosen[g]);                                                                                     \
    }

/* PB_GROUPS * PB_LANES byte strings of any lengths: lanes are masked instead of branched on, and a step that no key
 * needs is skipped. */
static inline void pb_hash_mixed(const uint8_t *const *starts, const uint64_t *lengths, uint64_t *out) {
    pb_vec h[PB_GROUPS], length[PB_GROUPS], rest[PB_GROUPS], words[PB_GROUPS][4], tail[PB_GROUPS];
    pb_lanes chosen[PB_GROUPS];
    for (int g = 0; g < PB_GROUPS; g++) {
        length[g] = pb_load(lengths + PB_LANES * g);
        rest[g] = pb_and(length[g], pb_fill(31));
        h[g] = pb_fill(PB_PRIME_5);
    }
    {
        PB_CHOOSE(chosen, pb_at_least(length[g], 32))
        if (some) {
            pb_row rows[PB_GROUPS][PB_LANES];
            pb_vec merged[PB_GROUPS];
            for (int g = 0; g < PB_GROUPS; g++)
                for (int k = 0; k < PB_LANES; k++) {
                    const uint8_t *bytes = starts[PB_LANES * g + k];
                    pb_row row = pb_first_row();
                    for (uint64_t left = lengths[PB_LANES * g + k]; left >= 32; left -= 32, bytes += 32)
                        row = pb_stripe(row, bytes);
                    rows[g][k] = row;
                }
            pb_merge_rows(rows, merged);
            for (int g = 0; g < PB_GROUPS; g++) h[g] = pb_select(chosen[g], merged[g], h[g]);
        }
    }
    for (int g = 0; g < PB_GROUPS; g++) {
        h[g] = pb_sum(h[g], length[g]);
        pb_rests(starts + PB_LANES * g, lengths + PB_LANES * g, rest[g], words[g], &tail[g]);
    }
    for (int word = 0; word < 3; word++) {
        PB_CHOOSE(chosen, pb_at_least(rest[g], 8 * word + 8))
        if (!some) break;
        for (int g = 0; g < PB_GROUPS; g++) h[g] = pb_select(chosen[g], pb_mix8(h[g], words[g][word]), h[g]);
    }
    {
        PB_CHOOSE(chosen, pb_has_bit(rest[g], 4))
        if (some) {
            for (int g = 0; g < PB_GROUPS; g++) {
                h[g] = pb_select(chosen[g], pb_mix4(h[g], pb_and(tail[g], pb_fill(0xFFFFFFFFU))), h[g]);
                tail[g] = pb_select(chosen[g], PB_RIGHT(tail[g], 32), tail[g]);
            }
        }
    }
    for (int byte = 1; byte < 4; byte++) {
        PB_CHOOSE(chosen, pb_at_least(pb_and(rest[g], pb_fill(3)), byte))
        if (!some) break;
        for (int g = 0; g < PB_GROUPS; g++) {
            h[g] = pb_select(chosen[g], pb_mix1(h[g], pb_and(tail[g], pb_fill(255))), h[g]);
            tail[g] = PB_RIGHT(tail[g], 8);
        }
    }
    pb_finish(h, PB_GROUPS, out);
}

static inline ptrdiff_t pb_hash_spans(const uint8_t *const *starts, const uint64_t *lengths, ptrdiff_t count,
                                      uint64_t *out) {
    ptrdiff_t i = 0;
    for (; i + PB_GROUPS * PB_LANES <= count; i += PB_GROUPS * PB_LANES) {
        uint64_t other = 0;
        for (int k = 1; k < PB_GROUPS * PB_LANES; k++) other |= lengths[i + k] ^ lengths[i];
        if (other || lengths[i] < 8) {
            pb_hash_mixed(starts + i, lengths + i, out + i);
        } else {
            pb_hash_same(starts + i, lengths[i], out + i);
        }
    }
    return i;
}
