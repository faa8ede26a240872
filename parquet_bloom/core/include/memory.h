/* Zeroed memory for tables and filters: aligned to cache lines, so that a block is never in two lines, and from 2 MiB on
 * with huge pages, as otherwise a random access in a large table costs a TLB miss, and each new 4 KiB a page fault. Pages
 * are zeroed by the system when they are first accessed, not here. */
#ifndef PB_MEMORY_H
#define PB_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define PB_LINE ((size_t)64)
#define PB_HUGE ((size_t)2 << 20)
#define PB_MOST_BYTES (SIZE_MAX / 2) /* more than any machine has, and sums of smaller sizes do not overflow */

/* The pointer returned by calloc is stored before the aligned bytes: it is at least a multiple of 8, so there is room. */
static void *pb_allocate_lines(size_t num_bytes) {
    uint8_t *given = (uint8_t *)calloc(num_bytes + PB_LINE, 1);
    if (given == NULL) return NULL;
    uint8_t *memory = (uint8_t *)(((uintptr_t)given + PB_LINE) & ~(uintptr_t)(PB_LINE - 1));
    ((void **)memory)[-1] = given;
    return memory;
}

static void pb_release_lines(void *memory) {
    if (memory != NULL) free(((void **)memory)[-1]);
}

#if defined(__linux__)
#include <sys/mman.h>

static size_t pb_whole_pages(size_t num_bytes) { return (num_bytes + PB_HUGE - 1) & ~(PB_HUGE - 1); }

/* Returns NULL if there is no memory. */
static void *pb_allocate(size_t num_bytes) {
    if (num_bytes > PB_MOST_BYTES) return NULL;
    if (num_bytes < PB_HUGE) return pb_allocate_lines(num_bytes);
    const size_t size = pb_whole_pages(num_bytes);
    uint8_t *mapped = (uint8_t *)mmap(NULL, size + PB_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return NULL;
    const size_t before = (size_t)(-(uintptr_t)mapped & (PB_HUGE - 1));
    if (before) munmap(mapped, before);
    if (before < PB_HUGE) munmap(mapped + before + size, PB_HUGE - before);
#ifdef MADV_HUGEPAGE
    madvise(mapped + before, size, MADV_HUGEPAGE); /* a hint: small pages work as well */
#endif
    return mapped + before;
}

static void pb_release(void *memory, size_t num_bytes) {
    if (num_bytes < PB_HUGE) pb_release_lines(memory);
    else if (memory != NULL) munmap(memory, pb_whole_pages(num_bytes));
}

#else

static void *pb_allocate(size_t num_bytes) { return num_bytes > PB_MOST_BYTES ? NULL : pb_allocate_lines(num_bytes); }

static void pb_release(void *memory, size_t num_bytes) {
    (void)num_bytes;
    pb_release_lines(memory);
}

#endif
#endif
