/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX-512 (F, VL, BW, DQ): 32 registers of 16 floats; a tile of 12 x 32 takes 24 of them. */
#include <stdbool.h>

#define ISA avx512
#define VW 16
#define MR 12
#define NV 2

static bool supported(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

#include "kernel/body.h"
