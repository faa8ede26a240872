/* Elements of Snappy blocks without a branch on their kind: the order of literals and copies cannot be predicted.
 *
 * What an element does is taken from a table. Where its bytes come from, and where the next element begins, are
 * conditional moves; the compiler would make branches of them. The time of an element is then the latency of the way to
 * the next one, so that two blocks in turn take little more time than one.
 *
 * Elements near the end of a block, long literals, copies with offsets of four bytes, copies that repeat what they write,
 * and whatever is invalid, are left to the caller. */
#ifndef PB_SNAPPY_H
#define PB_SNAPPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define PB_RARELY(condition) __builtin_expect(!!(condition), 0)
#else
#define PB_RARELY(condition) (condition)
#endif

typedef struct {
    const uint8_t *in, *in_end; /* of the compressed bytes, those that follow */
    uint8_t *start, *out;       /* the decompressed bytes, and where the next ones go */
    uint8_t *stop;              /* decompressed bytes from here on are not needed */
    uint8_t *out_end;           /* of the decompressed bytes */
} pb_snappy;

enum { PB_SNAPPY_STEP = 64 }; /* the most bytes that an element here writes, and that are read behind its tag */

/* Of a tag: length, offset without the bytes that follow, which bits of the two bytes that follow belong to it, and the
 * least offset from which it is copied here. */
typedef struct {
    uint16_t length, offset, mask, least;
} pb_snappy_tag;

static pb_snappy_tag pb_snappy_tags[256];

static void pb_snappy_prepare(void) {
    for (int tag = 0; tag < 256; tag++) {
        int kind = tag & 3, length = (tag >> 2) + 1;
        pb_snappy_tag one = {(uint16_t)length, 0, 0, 1}; /* left to the caller, as an offset of 0 is */
        if (kind == 0 && length <= 60) {
            one.offset = 16; /* passes for a copy from far enough, behind the first 16 bytes */
        } else if (kind == 1) {
            one.length = (uint16_t)(4 + ((tag >> 2) & 7));
            one.offset = (uint16_t)((tag >> 5) << 8);
            one.mask = 0xFF;
        } else if (kind == 2) {
            one.mask = 0xFFFF;
        }
        if (kind) one.least = one.length < 16 ? one.length : 16; /* nearer ones repeat what they write */
        pb_snappy_tags[tag] = one;
    }
}

/* Of a literal, take its size and its source. */
#if defined(__GNUC__) && defined(__x86_64__)
#define PB_SELECT(tag, size, literal_size, from, literal_from)                                 \
    __asm__("test $3, %b2\n\tcmovz %3, %0\n\tcmovz %4, %1"                                     \
            : "+&r"(size), "+&r"(from)                                                         \
            : "q"(tag), "r"(literal_size), "r"(literal_from)                                   \
            : "cc")
#else
#define PB_SELECT(tag, size, literal_size, from, literal_from) \
    do {                                                       \
        size = (tag & 3) == 0 ? literal_size : size;           \
        from = (tag & 3) == 0 ? literal_from : from;           \
    } while (0)
#endif

static inline uint64_t pb_snappy_u16(const uint8_t *bytes) {
    return (uint64_t)bytes[0] | ((uint64_t)bytes[1] << 8);
}

/* Decompress one element; return 0 if it is left to the caller. */
static inline int pb_snappy_element(const uint8_t **in, uint8_t **out, const uint8_t *start) {
    uint64_t tag = **in;
    const pb_snappy_tag *known = &pb_snappy_tags[tag];
    uint64_t length = known->length;
    uint64_t offset = (pb_snappy_u16(*in + 1) & known->mask) | known->offset;
    uint64_t size = (tag & 3) + 1, literal_size = (tag >> 2) + 2; /* in the block */
    const uint8_t *literal_from = *in + 1, *from;
    if (PB_RARELY((offset < known->least) | (offset > (uint64_t)(*out - start)))) return 0;
    from = (const uint8_t *)((uintptr_t)*out - (uintptr_t)offset);
    PB_SELECT(tag, size, literal_size, from, literal_from);
    memmove(*out, from, 16); /* it is far enough for these 16, or for all of fewer, of which the rest may overlap */
    if (PB_RARELY(length > 16)) {
        memcpy(*out + 16, from + 16, 16);
        memcpy(*out + 32, from + 32, 16);
        memcpy(*out + 48, from + 48, 16);
    }
    *in += size;
    *out += length;
    return 1;
}

/* The number of elements that can be decompressed before the end of the compressed, of the decompressed, or of the needed
 * bytes has to be watched. */
static inline ptrdiff_t pb_snappy_count(const pb_snappy *block, const uint8_t *in, const uint8_t *out) {
    ptrdiff_t left = block->in_end - in - 1, room = block->out_end - out, missing = block->stop - out + PB_SNAPPY_STEP - 1;
    if (missing < room) room = missing;
    return (left < room ? left : room) / PB_SNAPPY_STEP;
}

/* Decompress up to an element that is left to the caller, or until few bytes are left. */
static void pb_snappy_run(pb_snappy *block) {
    const uint8_t *in = block->in, *start = block->start;
    uint8_t *out = block->out;
    ptrdiff_t count;
    while ((count = pb_snappy_count(block, in, out)) > 0) {
        while (count && pb_snappy_element(&in, &out, start)) count--;
        if (count) break;
    }
    block->in = in;
    block->out = out;
}

/* Decompress two blocks in turn; return 0 or 1 for the block whose next element is left to the caller, 2 if one has few
 * bytes left. */
static int pb_snappy_run_two(pb_snappy *blocks) {
    const uint8_t *in0 = blocks[0].in, *in1 = blocks[1].in, *start0 = blocks[0].start, *start1 = blocks[1].start;
    uint8_t *out0 = blocks[0].out, *out1 = blocks[1].out;
    int left = 2;
    while (left == 2) {
        ptrdiff_t count = pb_snappy_count(&blocks[0], in0, out0), other = pb_snappy_count(&blocks[1], in1, out1);
        if (other < count) count = other;
        if (count <= 0) break;
        for (; count; count--) {
            if (!pb_snappy_element(&in0, &out0, start0)) {
                left = 0;
                break;
            }
            if (!pb_snappy_element(&in1, &out1, start1)) {
                left = 1;
                break;
            }
        }
    }
    blocks[0].in = in0;
    blocks[0].out = out0;
    blocks[1].in = in1;
    blocks[1].out = out1;
    return left;
}

#endif
