/* The loops over a row of fingerprints: a checksum, and the search for a fingerprint.
 *
 * row_loops.h has each of them once, with the compiler's vector types; it is compiled here for the platform's baseline,
 * and again for AVX2 with a function target attribute. The caller selects one (core/index/cuckoo_rows.pyx uses
 * core/dispatch.py); everything else in the module is compiled for the baseline only. */
#ifndef PB_ROW_SCAN_H
#define PB_ROW_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PB_LANES 8
#define PB_STRIPE_BYTES ((size_t)8 * PB_LANES)

/* Lane by lane over words of 64 bits, the upper half of each mixed into its lower one: the sum of the words, and the sum
 * of these sums after each word. Of two changed bits, wherever they are, one sum at least keeps a trace: a lane has fewer
 * than 2^32 words, so that their distance times the difference is not a multiple of 2^64. */
typedef struct {
    uint64_t words[PB_LANES];
    uint64_t sums[PB_LANES];
} pb_row_sum;

#define PB_NAME(name) name##_base
#define PB_TARGET static
#define PB_VECTOR_BYTES 16
#include "row_loops.h"

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define PB_NAME(name) name##_avx2
#define PB_TARGET static __attribute__((target("avx2")))
#define PB_VECTOR_BYTES 32
#include "row_loops.h"
#define PB_CHOOSE(name, wide) ((wide) ? name##_avx2 : name##_base)
#else
#define PB_CHOOSE(name, wide) ((void)(wide), name##_base)
#endif

static void pb_sum(int wide, pb_row_sum *state, const uint8_t *data, size_t num_stripes) {
    PB_CHOOSE(pb_sum, wide)(state, data, num_stripes);
}

/* Returns the number of the first of `count` items, from `start` on, that equals `target`; `count` if there is none. */
static size_t pb_next16(int wide, const uint8_t *data, size_t start, size_t count, uint16_t target) {
    return PB_CHOOSE(pb_next16, wide)(data, start, count, target);
}

static size_t pb_next8(int wide, const uint8_t *data, size_t start, size_t count, uint8_t target) {
    return PB_CHOOSE(pb_next8, wide)(data, start, count, target);
}

#endif
