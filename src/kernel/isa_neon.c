/* SPDX-License-Identifier: MIT
 *
 * The kernels for 64-bit ARM: 32 registers of 4 floats; a tile of 6 x 16 takes 24 of them. */
#include <stdbool.h>

#define ISA neon
#define VW 4
#define MR 6
#define NV 4

static bool supported(void) { return true; }

#include "kernel/body.h"
