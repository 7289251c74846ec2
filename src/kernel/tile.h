/* SPDX-License-Identifier: MIT
 *
 * The heart of every kernel: a tile of MR x NR sums held in registers,
 *
 *     c[r][j] += sum over k of a(r, k) * b(k, j)         r < MR, j < NR = NV vectors
 *
 * b is a panel: NR floats for each k, one after the other. a is read one number at a time, from wherever it
 * is: the distances from one row to the next and from one k to the next are constants once this is inlined.
 * Three forms are used:
 *
 *     from a strip  a(r, k) = strip[k][r]                       forward: q times K^T
 *     from panels   a(r, k) = panel[k / NR][row r][k % NR]      backward: q times K^T, dO times V^T
 *     by rows       a(r, k) = block[r][k]                       weights times V, dS times K
 *     by columns    a(r, k) = block[k][r]                       weights^T times dO, dS^T times Q
 *
 * MR and NV are chosen so that sums, one row of b and one number of a fill the registers. */
#ifndef SIA_KERNEL_TILE_H
#define SIA_KERNEL_TILE_H

#include "kernel/vector.h"

#define NR (NV * VW)

typedef struct tile {
    vf sum[MR][NV];
} tile;

/* Statements for each row r and each vector v of a tile, written out: an index must be a constant before the
 * compiler decides what lives in registers, and it unrolls loops only after that. */
#define WITH_ROW(number, ...) \
    {                         \
        enum { r = number };  \
        __VA_ARGS__           \
    }
#define WITH_VECTOR(number, ...) \
    {                            \
        enum { v = number };     \
        __VA_ARGS__              \
    }
#define FOUR_ROWS(first, ...)    \
    WITH_ROW(first, __VA_ARGS__) \
    WITH_ROW(first + 1, __VA_ARGS__) WITH_ROW(first + 2, __VA_ARGS__) WITH_ROW(first + 3, __VA_ARGS__)
#if MR == 4
#    define FOR_ROWS(...) \
        { FOUR_ROWS(0, __VA_ARGS__) }
#elif MR == 6
#    define FOR_ROWS(...) \
        { FOUR_ROWS(0, __VA_ARGS__) WITH_ROW(4, __VA_ARGS__) WITH_ROW(5, __VA_ARGS__) }
#elif MR == 12
#    define FOR_ROWS(...) \
        { FOUR_ROWS(0, __VA_ARGS__) FOUR_ROWS(4, __VA_ARGS__) FOUR_ROWS(8, __VA_ARGS__) }
#endif
#if NV == 2
#    define FOR_VECTORS(...) \
        { WITH_VECTOR(0, __VA_ARGS__) WITH_VECTOR(1, __VA_ARGS__) }
#elif NV == 4
#    define FOR_VECTORS(...)                                                                    \
        {                                                                                       \
            WITH_VECTOR(0, __VA_ARGS__)                                                         \
            WITH_VECTOR(1, __VA_ARGS__) WITH_VECTOR(2, __VA_ARGS__) WITH_VECTOR(3, __VA_ARGS__) \
        }
#endif

INLINE void tile_zero(tile *c) { FOR_ROWS(FOR_VECTORS(c->sum[r][v] = vzero();)) }

/* One k, for the rows first .. last-1. */
INLINE void tile_step(tile *c, int first, int last, const float *a, int64_t row, const float *b) {
    vf bv[NV];
    FOR_VECTORS(bv[v] = vload(b + v * VW);)
    FOR_ROWS(if (r >= first && r < last) {
        vf x = vdup(a[r * row]);
        FOR_VECTORS(vaccumulate(&c->sum[r][v], x, bv[v]);)
    })
}

/* Two steps a round: longer rounds are slower, the decoded instructions no longer fit where the processor
 * wants them. */
INLINE void tile_steps(tile *c, int64_t steps, const float *a, int64_t row, int64_t next, const float *b) {
    for (; steps >= 2; steps -= 2, a += 2 * next, b += 2 * NR) {
        tile_step(c, 0, MR, a, row, b);
        tile_step(c, 0, MR, a + next, row, b + NR);
    }
    if (steps) tile_step(c, 0, MR, a, row, b);
}

/* a from panels, `between` floats apart, over k < d, a multiple of 8. */
INLINE void tile_from_panels(tile *c, int d, const float *a, int64_t between, const float *b) {
    for (; d > 0; d -= NR, a += between - NR)
        for (int k = 0; k < (d < NR ? d : NR); k += 2, a += 2, b += 2 * NR) {
            tile_step(c, 0, MR, a, NR, b);
            tile_step(c, 0, MR, a + 1, NR, b + NR);
        }
}

/* The diagonal. Row r of the tile meets k < limit + r, within 0 .. most-1: the common part in full rows, then
 * a triangle that touches no number behind the diagonal. So nothing is computed in vain, and a NaN there goes
 * nowhere. */
INLINE void tile_by_rows_causal(tile *c, int64_t limit, int64_t most, const float *a, int64_t row,
                                const float *b) {
    int64_t common = limit < 0 ? 0 : limit < most ? limit : most;
    tile_steps(c, common, a, row, 1, b);
    if (limit >= most) return;
    FOR_ROWS(if (r < MR - 1) {
        int64_t k = limit + r; /* seen by the rows below r */
        if (k >= 0 && k < most) tile_step(c, r + 1, MR, a + k, row, b + k * NR);
    })
}

/* The same for columns: row r of the tile (a key) meets k >= first + r (the queries that see it). */
INLINE void tile_by_columns_causal(tile *c, int64_t first, int64_t most, const float *a, int64_t next,
                                   const float *b) {
    if (first > -(MR - 1)) {
        FOR_ROWS(if (r < MR - 1) {
            int64_t k = first + r; /* sees the rows up to r */
            if (k >= 0 && k < most) tile_step(c, 0, r + 1, a + k * next, 1, b + k * NR);
        })
    }
    int64_t full = first + MR - 1 < 0 ? 0 : first + MR - 1;
    if (full < most) tile_steps(c, most - full, a + full * next, 1, next, b + full * NR);
}

/* Into out, with `stride` floats a row: out = factor[r] * out + c, out += c, out = c. */
INLINE void tile_scale_add(const tile *c, float *out, int64_t stride, const float *factor) {
    FOR_ROWS(vf f = vdup(factor[r]);
             FOR_VECTORS(float *p = out + r * stride + v * VW; vstore(p, vfma(vload(p), f, c->sum[r][v]));))
}

INLINE void tile_add(const tile *c, float *out, int64_t stride) {
    FOR_ROWS(FOR_VECTORS(float *p = out + r * stride + v * VW; vstore(p, vload(p) + c->sum[r][v]);))
}

INLINE void tile_store(const tile *c, float *out, int64_t stride) {
    FOR_ROWS(FOR_VECTORS(vstore(out + r * stride + v * VW, c->sum[r][v]);))
}

#endif
