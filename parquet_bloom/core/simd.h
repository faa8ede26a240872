/* The primitives that an instruction set brings to the loops of kernels.pxi, each a function over many keys:
 *
 *   pb_hash4, pb_hash8     XXH64 of keys of 4 and 8 bytes that stand one behind the other
 *   pb_hash_spans          XXH64 of byte strings anywhere, of any length
 *   pb_locate              hash -> the block's number and the lower half, which chooses its bits
 *   pb_insert, pb_check    set, or ask for, a key's eight bits in its block
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

#define PB_PRIME_1 0x9E3779B185EBCA87ULL
#define PB_PRIME_2 0xC2B2AE3D27D4EB4FULL
#define PB_PRIME_3 0x165667B19E3779F9ULL
#define PB_PRIME_4 0x85EBCA77C2B2AE63ULL
#define PB_PRIME_5 0x27D4EB2F165667C5ULL

static const uint32_t pb_salt[8] = {0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                                    0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};

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
