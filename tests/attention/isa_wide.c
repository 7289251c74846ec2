/* SPDX-License-Identifier: MIT
 *
 * The kernels in the shape that AVX-512 has, vectors of 16 floats and tiles of 12 x 32, compiled for AVX2:
 * the compiler makes two instructions of each. So the tests see the body at that width on processors without
 * AVX-512; what they do not see there are the few intrinsics that vector.h and decode.h use with it. */
#include <stdbool.h>

#define ISA wide
#define VW 16
#define MR 12
#define NV 2

static bool supported(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#include "kernel/body.h"
