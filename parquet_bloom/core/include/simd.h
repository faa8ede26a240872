/* The primitives that an instruction set brings to the loops of kernels.pxi, each a function over many keys:
 *
 *   pb_hash4, pb_hash8     XXH64 of keys of 4 and 8 bytes that stand one behind the other
 *   pb_hash_spans          XXH64 of byte strings anywhere, of any length
 *   pb_locate              hash -> where its block begins, in bytes, and the lower half, which chooses the bits
 *   pb_insert, pb_check    set, or ask for, a key's eight bits in its block
 *   pb_insert_new          ask and set, key by key
 *
 * Each returns how many keys it has done, from the first on; the loops do the rest in plain Cython. A set that is no
 * better at something leaves it at 0. One file holds one set; setup.py names it by PB_SIMD and gives its flags to that
 * one extension. Nothing is read outside of the keys.
 */
#ifndef PB_SIMD_H
#define PB_SIMD_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "constants.h"

#define PB_SSE41 1
#define PB_AVX2 2
#define PB_AVX512 3

#if PB_SIMD == PB_AVX512
#include "simd_avx512.h"
#elif PB_SIMD == PB_AVX2
#include "simd_avx2.h"
#else
#include "simd_sse41.h"
#endif

#endif
