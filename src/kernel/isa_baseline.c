/* SPDX-License-Identifier: MIT
 *
 * The kernels for any processor: vectors of four floats, which every 64-bit x86 and ARM has. */
#include <stdbool.h>

#define ISA baseline
#define VW 4
#define MR 4
#define NV 2

static bool supported(void) { return true; }

#include "kernel/body.h"
