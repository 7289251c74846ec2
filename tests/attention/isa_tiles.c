/* SPDX-License-Identifier: MIT
 *
 * The kernels for AMX, compiled for AVX2: products of tiles are those that amx.h emulates, and the compiler makes two
 * instructions of each on a vector of 16 floats. So the tests see that body on processors without AMX, and memory
 * checkers, which do not know tiles, see what it reads; tests/kernel/test_amx.c compares the two products. */
#include <stdbool.h>

#define ISA tiles
#define VW 16
#define MR 16
#define NV 1
#define TILES

static bool supported(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#include "kernel/body.h"
