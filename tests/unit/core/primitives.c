/* Compares each primitive of an instruction set with plain C, written after the two specifications, on random keys; compiled
 * with PB_SIMD and the set's flags by test_primitives.py, and run on this processor or by an emulator.
 *
 * Prints the number of keys that each primitive has processed; the first difference ends it with exit code 1. Memory comes
 * from malloc with no room to spare, so that a sanitizer or valgrind sees any other access. */
#include <stdio.h>
#include <stdlib.h>

#include "simd.h"

#define MOST 200

static uint64_t state = 88172645463325252ULL;

static uint64_t draw(void) { /* xorshift64 */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t below(uint64_t limit) { return (draw() >> 11) % limit; }

static void *room(size_t num_bytes) {
    uint8_t *memory = malloc(num_bytes ? num_bytes : 1);
    if (memory == NULL) exit(2);
    for (size_t i = 0; i < num_bytes; i++) memory[i] = (uint8_t)(draw() >> 32);
    return memory;
}

static void expect(int same, const char *primitive, ptrdiff_t count, ptrdiff_t at) {
    if (same) return;
    printf("%s of %td keys is wrong at key %td\n", primitive, count, at);
    exit(1);
}

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static uint64_t number(const uint8_t *from, int num_bytes) {
    uint64_t x = 0;
    for (int i = 0; i < num_bytes; i++) x |= (uint64_t)from[i] << 8 * i;
    return x;
}

static uint64_t mix(uint64_t lane, uint64_t word) { return rotate(lane + word * PB_PRIME_2, 31) * PB_PRIME_1; }

static uint64_t xxh64(const uint8_t *key, uint64_t length) {
    const uint8_t *end = key + length;
    uint64_t h = PB_PRIME_5;
    if (length >= 32) {
        static const int turns[4] = {1, 7, 12, 18};
        uint64_t lanes[4] = {PB_PRIME_1 + PB_PRIME_2, PB_PRIME_2, 0, 0 - PB_PRIME_1};
        for (; end - key >= 32; key += 32)
            for (int k = 0; k < 4; k++) lanes[k] = mix(lanes[k], number(key + 8 * k, 8));
        h = 0;
        for (int k = 0; k < 4; k++) h += rotate(lanes[k], turns[k]);
        for (int k = 0; k < 4; k++) h = (h ^ mix(0, lanes[k])) * PB_PRIME_1 + PB_PRIME_4;
    }
    h += length;
    for (; end - key >= 8; key += 8) h = rotate(h ^ mix(0, number(key, 8)), 27) * PB_PRIME_1 + PB_PRIME_4;
    for (; end - key >= 4; key += 4) h = rotate(h ^ number(key, 4) * PB_PRIME_1, 23) * PB_PRIME_2 + PB_PRIME_3;
    for (; end > key; key++) h = rotate(h ^ *key * PB_PRIME_5, 11) * PB_PRIME_1;
    h = (h ^ h >> 33) * PB_PRIME_2;
    h = (h ^ h >> 29) * PB_PRIME_3;
    return h ^ h >> 32;
}

static uint64_t num_hash4, num_hash8, num_spans, num_located, num_inserted, num_checked, num_new;

static void try_fixed(ptrdiff_t count) {
    uint8_t *keys = room(8 * count);
    uint64_t *out = room(8 * count);
    const ptrdiff_t eights = pb_hash8(keys, count, out);
    for (ptrdiff_t i = 0; i < eights; i++) expect(out[i] == xxh64(keys + 8 * i, 8), "pb_hash8", count, i);
    uint8_t *halves = room(4 * count);
    const ptrdiff_t fours = pb_hash4(halves, count, out);
    for (ptrdiff_t i = 0; i < fours; i++) expect(out[i] == xxh64(halves + 4 * i, 4), "pb_hash4", count, i);
    num_hash8 += eights, num_hash4 += fours;
    free(keys), free(halves), free(out);
}

/* Each key in memory of its own. Of every other call all lengths are the same; some are above 32, 64, ... bytes. */
static void try_spans(ptrdiff_t count, uint64_t longest) {
    uint64_t *lengths = room(8 * count), *out = room(8 * count);
    const uint8_t **starts = malloc(sizeof *starts * (count ? count : 1));
    if (starts == NULL) exit(2);
    const uint64_t same = below(longest + 1), vary = below(2);
    for (ptrdiff_t i = 0; i < count; i++) {
        lengths[i] = vary ? below(longest + 1) : same;
        starts[i] = room(lengths[i]);
    }
    const ptrdiff_t done = pb_hash_spans(starts, lengths, count, out);
    for (ptrdiff_t i = 0; i < done; i++) expect(out[i] == xxh64(starts[i], lengths[i]), "pb_hash_spans", count, i);
    num_spans += done;
    for (ptrdiff_t i = 0; i < count; i++) free((void *)starts[i]);
    free(lengths), free(out), free(starts);
}

static int has_all(const uint8_t *block, uint32_t key) {
    int all = 1;
    for (int word = 0; word < 8; word++) all &= number(block + 4 * word, 4) >> (key * pb_salt[word] >> 27) & 1;
    return all;
}

static void set_all(uint8_t *block, uint32_t key) {
    for (int word = 0; word < 8; word++) {
        const uint32_t bit = key * pb_salt[word] >> 27;
        block[4 * word + bit / 8] |= (uint8_t)(1 << bit % 8);
    }
}

/* The bitset begins at any address. */
static void try_blocks(ptrdiff_t count, uint64_t num_blocks, int shift) {
    const size_t num_bytes = 32 * num_blocks;
    uint64_t *hashes = room(8 * count), *offsets = room(8 * count);
    uint32_t *keys = room(4 * count);
    uint8_t *given = room(num_bytes + shift), *bitset = given + shift, *twin = room(num_bytes), *results = room(count);
    const ptrdiff_t located = pb_locate(hashes, count, num_blocks, offsets, keys);
    for (ptrdiff_t i = 0; i < count; i++) {
        const uint64_t offset = ((hashes[i] >> 32) * num_blocks >> 32) * 32;
        if (i < located)
            expect(offsets[i] == offset && keys[i] == (uint32_t)hashes[i], "pb_locate", count, i);
        offsets[i] = offset, keys[i] = (uint32_t)hashes[i];
    }
    for (ptrdiff_t i = 0; i < count; i += 2) set_all(bitset + offsets[i], keys[i]); /* so that there are hits */
    memcpy(twin, bitset, num_bytes);
    const ptrdiff_t checked = pb_check(bitset, offsets, keys, count, results);
    for (ptrdiff_t i = 0; i < checked; i++)
        expect(results[i] == has_all(twin + offsets[i], keys[i]), "pb_check", count, i);
    expect(!memcmp(bitset, twin, num_bytes), "pb_check", count, 0);

    memset(bitset, 0, num_bytes), memset(twin, 0, num_bytes);
    const ptrdiff_t tried = pb_insert_new(bitset, offsets, keys, count, results);
    for (ptrdiff_t i = 0; i < tried; i++) {
        expect(results[i] == has_all(twin + offsets[i], keys[i]), "pb_insert_new", count, i);
        set_all(twin + offsets[i], keys[i]);
    }
    expect(!memcmp(bitset, twin, num_bytes), "pb_insert_new", count, -1);

    memset(bitset, 0, num_bytes), memset(twin, 0, num_bytes);
    const ptrdiff_t inserted = pb_insert(bitset, offsets, keys, count);
    for (ptrdiff_t i = 0; i < inserted; i++) set_all(twin + offsets[i], keys[i]);
    expect(!memcmp(bitset, twin, num_bytes), "pb_insert", count, -1);
    num_located += located, num_checked += checked, num_new += tried, num_inserted += inserted;
    free(hashes), free(offsets), free(keys), free(given), free(twin), free(results);
}

/* Only the products count here, and 2^31 - 1 blocks would not fit into memory. */
static void try_largest(ptrdiff_t count) {
    uint64_t *hashes = room(8 * count), *offsets = room(8 * count);
    uint32_t *keys = room(4 * count);
    if (count) hashes[0] = UINT64_MAX;
    const ptrdiff_t located = pb_locate(hashes, count, 0x7FFFFFFF, offsets, keys);
    for (ptrdiff_t i = 0; i < located; i++)
        expect(offsets[i] == ((hashes[i] >> 32) * 0x7FFFFFFF >> 32) * 32, "pb_locate", count, i);
    free(hashes), free(offsets), free(keys);
}

int main(void) {
    for (ptrdiff_t count = 0; count < MOST; count++) {
        try_fixed(count);
        for (uint64_t longest = 0; longest < 140; longest += 7) try_spans(count, longest);
        for (int shift = 0; shift < 3; shift++) try_blocks(count, 1 + below(40), shift);
        try_largest(count);
    }
    printf("hash4=%llu hash8=%llu hash_spans=%llu locate=%llu check=%llu insert_new=%llu insert=%llu\n",
           (unsigned long long)num_hash4, (unsigned long long)num_hash8, (unsigned long long)num_spans,
           (unsigned long long)num_located, (unsigned long long)num_checked, (unsigned long long)num_new,
           (unsigned long long)num_inserted);
    return 0;
}
