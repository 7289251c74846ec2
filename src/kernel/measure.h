/* SPDX-License-Identifier: MIT
 *
 * What the machine can do, for `sia bench` to compare with: multiply-adds that never leave the registers, and
 * a pass over memory that does nothing but add. */
#ifndef SIA_KERNEL_MEASURE_H
#define SIA_KERNEL_MEASURE_H

#include "kernel/tile.h"

/* One tile of chains: enough of them to cover a latency of 4 at two a cycle, with registers left for the
 * operands. The start of each chain is hidden from the compiler: chains that it knows to be equal it merges,
 * and the peak comes out too high. So is a factor of each step: without an instruction for both, it would multiply once and
 * only add. Each step adds 1: the sums tell their number. */
NOINLINE double fma_peak(int64_t rounds) {
    tile c;
    double done = 0;
    vf x = vdup(1), y = vdup(1);
    FOR_ROWS(FOR_VECTORS(c.sum[r][v] = vdup((float)(r * NV + v)); KEEP_IN_REGISTER(c.sum[r][v]);))
    KEEP_IN_REGISTER(y);
    for (int64_t round = 0; round < rounds; round++)
        FOR_ROWS(FOR_VECTORS(KEEP_IN_REGISTER(x); vaccumulate(&c.sum[r][v], x, y);))
    FOR_ROWS(FOR_VECTORS(KEEP_IN_REGISTER(c.sum[r][v]);))
    FOR_ROWS(FOR_VECTORS(done += (double)c.sum[r][v][0] - (r * NV + v);))
    return 2 * VW * done;
}

/* Four streams at once, asked for by hand only where that is faster: a roof must not be too low. On AMD's processors one
 * stream is a tenth slower, and asking a fifth; on Intel's it is 6 % faster. */
NOINLINE float read_memory(const float *x, int64_t floats) {
    vf sum[8] = {0};
    int64_t quarter = floats / 4, ahead = sia_read_ahead() / 4;
    for (int64_t i = 0; i + 2 * VW <= quarter; i += 2 * VW) {
        for (int j = 0; j < 4 && ahead; j++) prefetch_bytes(x + j * quarter + i, ahead, 2 * VW * 4);
        for (int j = 0; j < 8; j++) sum[j] += vload(x + j / 2 * quarter + i + j % 2 * VW);
    }
    for (int j = 1; j < 8; j++) sum[0] += sum[j];
    return vsum(sum[0]);
}

#endif
