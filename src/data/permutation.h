/* SPDX-License-Identifier: MIT
 *
 * A random order of 0 .. n-1 without a table: a Feistel network of four rounds permutes the numbers of 2h
 * bits, and is applied again for as long as its result is not below n (at most four times on average, since
 * 2^2h < 4n). Applying a permutation until it comes back into a subset permutes the subset: every number
 * comes exactly once. */
#ifndef SIA_DATA_PERMUTATION_H
#define SIA_DATA_PERMUTATION_H

#include <stdint.h>

#include "base/random.h"

static inline uint64_t sia_permute(uint64_t seed, uint64_t n, uint64_t i) {
    int half = 1;
    while (half < 32 && (uint64_t)1 << 2 * half < n) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (sia_random_u64(seed, right << 2 | round) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

#endif
