/* Counts the set bits in each word of a bitset. Plain arithmetic in a loop that compilers vectorize with instructions
 * that every processor of the platform has; the popcount instruction is not part of the x86-64 baseline. */
#ifndef PB_POPCOUNT_H
#define PB_POPCOUNT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void pb_count_bits(const uint8_t *words, size_t num_words, uint32_t *counts) {
    memcpy(counts, words, num_words * sizeof *counts); /* a bitset may have any alignment */
    for (size_t i = 0; i < num_words; i++) {
        uint32_t x = counts[i];
        x -= (x >> 1) & 0x55555555U;
        x = (x & 0x33333333U) + ((x >> 2) & 0x33333333U);
        x = (x + (x >> 4)) & 0x0F0F0F0FU;
        x += x >> 8;
        counts[i] = (x + (x >> 16)) & 0x3FU;
    }
}

#endif
