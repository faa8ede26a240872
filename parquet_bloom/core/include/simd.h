/* The primitives of an instruction set for the loops of kernels.pxi, each a function over many keys:
 *
 *   pb_hash4, pb_hash8     XXH64 of consecutive keys of 4 and 8 bytes
 *   pb_hash_spans          XXH64 of byte strings anywhere, of any length
 *   pb_locate              hash -> byte offset of its block, and the lower half, which selects the bits
 *   pb_insert, pb_check    set, or test, a key's eight bits in its block
 *   pb_insert_new          test and set, key by key
 *
 * Each returns the number of keys that it has processed, from the first on; the loops process the rest in plain Cython. A
 * set without an advantage for a primitive returns 0. Each file holds one set; setup.py selects it by PB_SIMD and passes
 * its flags to that extension only. Nothing is read outside of the keys.
 */
#ifndef PB_SIMD_H
#define PB_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "constants.h"

#define PB_AVX2 1
#define PB_AVX512 2
#define PB_NEON 3

#if PB_SIMD <= PB_AVX512
#include <immintrin.h>
#endif

#if PB_SIMD == PB_AVX512
#include "simd_avx512.h"
#elif PB_SIMD == PB_AVX2
#include "simd_avx2.h"
#else
#include "simd_neon.h"
#endif

#endif
