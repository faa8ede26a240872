/* Constants of the two specifications: XXH64's primes, and the odd multipliers (salts) of a block's eight words. */
#ifndef PB_CONSTANTS_H
#define PB_CONSTANTS_H

#include <stdint.h>

#define PB_PRIME_1 0x9E3779B185EBCA87ULL
#define PB_PRIME_2 0xC2B2AE3D27D4EB4FULL
#define PB_PRIME_3 0x165667B19E3779F9ULL
#define PB_PRIME_4 0x85EBCA77C2B2AE63ULL
#define PB_PRIME_5 0x27D4EB2F165667C5ULL

static const uint32_t pb_salt[8] = {0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                                    0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};

#endif
