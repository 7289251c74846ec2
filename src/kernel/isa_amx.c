/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX-512 with AMX: products of floats in tiles of bfloat16 (amx.h), all else in vectors. A tile of 16 x
 * 16 floats is one of AMX, and takes 16 of the 32 registers where vectors multiply. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ISA amx
#define VW 16
#define MR 16
#define NV 1
#define TILES

/* The system gives a process tiles when it asks for them; threads of it have them, too. */
static bool tiles_granted(void) {
#if defined(__linux__)
    enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 }; /* of asm/prctl.h */
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
#else
    return false;
#endif
}

static bool supported(void) {
    unsigned a, b, c, d, wanted = 1U << 22 | 1U << 24; /* AMX-BF16, AMX-TILE */
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted && tiles_granted();
}

#include "kernel/body.h"
#ifndef REAL_TILES
#    error "amx.h does not know this compiler's name for AMX"
#endif
