/* Zeroed memory for tables and filters: from 2 MiB on it asks for huge pages, without which a random access in a large
 * table costs a second one for its address, and each new 4 KiB of it a fault. */
#ifndef PB_MEMORY_H
#define PB_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__linux__)
#include <sys/mman.h>

#define PB_HUGE ((size_t)2 << 20)

static size_t pb_whole_pages(size_t num_bytes) { return (num_bytes + PB_HUGE - 1) & ~(PB_HUGE - 1); }

/* NULL when there is no memory. */
static void *pb_allocate(size_t num_bytes) {
    if (num_bytes < PB_HUGE) return calloc(num_bytes, 1);
    const size_t size = pb_whole_pages(num_bytes);
    uint8_t *mapped = (uint8_t *)mmap(NULL, size + PB_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return NULL;
    const size_t before = (size_t)(-(uintptr_t)mapped & (PB_HUGE - 1));
    if (before) munmap(mapped, before);
    if (before < PB_HUGE) munmap(mapped + before + size, PB_HUGE - before);
#ifdef MADV_HUGEPAGE
    madvise(mapped + before, size, MADV_HUGEPAGE); /* a wish: small pages do as well */
#endif
    return mapped + before;
}

static void pb_release(void *memory, size_t num_bytes) {
    if (num_bytes < PB_HUGE) free(memory);
    else if (memory != NULL) munmap(memory, pb_whole_pages(num_bytes));
}

#else

static void *pb_allocate(size_t num_bytes) { return calloc(num_bytes, 1); }

static void pb_release(void *memory, size_t num_bytes) {
    (void)num_bytes;
    free(memory);
}

#endif
#endif
