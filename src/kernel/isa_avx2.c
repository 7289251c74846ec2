/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX2 with FMA and F16C: 16 registers of 8 floats; a tile of 6 x 16 leaves 4 for its
 * operands. */
#include <cpuid.h>
#include <stdbool.h>

#define ISA avx2
#define VW 8
#define MR 6
#define NV 2

static bool supported(void) {
    unsigned a, b, c, d; /* clang's __builtin_cpu_supports does not know f16c */
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#include "kernel/body.h"
