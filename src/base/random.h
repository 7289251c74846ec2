/* SPDX-License-Identifier: MIT
 *
 * Counter-based random numbers: the n-th number of a stream is a pure function of (seed, n), so that a batch,
 * an initial weight or a test case can be made again from its index alone, in any order, on any thread. */
#ifndef SIA_BASE_RANDOM_H
#define SIA_BASE_RANDOM_H

#include <math.h>
#include <stdint.h>

#include "base/wrap.h"

/* Two rounds of the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), each over a Weyl step. */
SIA_WRAPS static inline uint64_t sia_mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t sia_random_u64(uint64_t seed, uint64_t n) {
    return sia_mix(sia_mix(seed) ^ sia_mix(~n));
}

/* Uniform in [0, 1), 53 bits. */
static inline double sia_random_uniform(uint64_t seed, uint64_t n) {
    return (double)(sia_random_u64(seed, n) >> 11) * 0x1p-53;
}

/* Uniform in 0 .. bound-1. The bias is below bound / 2^64. */
static inline uint64_t sia_random_below(uint64_t seed, uint64_t n, uint64_t bound) {
    return (uint64_t)(((unsigned __int128)sia_random_u64(seed, n) * bound) >> 64);
}

/* Standard normal, Box and Muller; takes the numbers 2n and 2n+1 of the stream. */
SIA_WRAPS static inline double sia_random_normal(uint64_t seed, uint64_t n) {
    double u = 1.0 - sia_random_uniform(seed, 2 * n), v = sia_random_uniform(seed, 2 * n + 1);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586477 * v);
}

/* A seed for a part of the work, so that parts draw from streams of their own. */
SIA_WRAPS static inline uint64_t sia_random_stream(uint64_t seed, uint64_t part) {
    return sia_mix(seed ^ sia_mix(part + 1));
}

#endif
