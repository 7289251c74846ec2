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
 *     from panels   a(r, k) = panel[k / NR][row r][k % NR]      q times K^T, dO times V^T
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
#define WITH(name, number, ...) \
    {                           \
        enum { name = number }; \
        __VA_ARGS__             \
    }
#define FOUR_ROWS(first, ...)   \
    WITH(r, first, __VA_ARGS__) \
    WITH(r, first + 1, __VA_ARGS__) WITH(r, first + 2, __VA_ARGS__) WITH(r, first + 3, __VA_ARGS__)
/* Every second row: r is the first of two. */
#define TWO_PAIRS(first, ...) WITH(r, first, __VA_ARGS__) WITH(r, first + 2, __VA_ARGS__)
#if MR == 4
#    define FOR_ROWS(...) \
        { FOUR_ROWS(0, __VA_ARGS__) }
#    define FOR_PAIRS_OF_ROWS(...) \
        { TWO_PAIRS(0, __VA_ARGS__) }
#elif MR == 6
#    define FOR_ROWS(...) \
        { FOUR_ROWS(0, __VA_ARGS__) WITH(r, 4, __VA_ARGS__) WITH(r, 5, __VA_ARGS__) }
#    define FOR_PAIRS_OF_ROWS(...) \
        { TWO_PAIRS(0, __VA_ARGS__) WITH(r, 4, __VA_ARGS__) }
#elif MR == 12
#    define FOR_ROWS(...) \
        { FOUR_ROWS(0, __VA_ARGS__) FOUR_ROWS(4, __VA_ARGS__) FOUR_ROWS(8, __VA_ARGS__) }
#    define FOR_PAIRS_OF_ROWS(...) \
        { TWO_PAIRS(0, __VA_ARGS__) TWO_PAIRS(4, __VA_ARGS__) TWO_PAIRS(8, __VA_ARGS__) }
#elif MR == 16
#    define FOR_ROWS(...)                                                                  \
        {                                                                                  \
            FOUR_ROWS(0, __VA_ARGS__)                                                      \
            FOUR_ROWS(4, __VA_ARGS__) FOUR_ROWS(8, __VA_ARGS__) FOUR_ROWS(12, __VA_ARGS__) \
        }
#    define FOR_PAIRS_OF_ROWS(...)                                                         \
        {                                                                                  \
            TWO_PAIRS(0, __VA_ARGS__)                                                      \
            TWO_PAIRS(4, __VA_ARGS__) TWO_PAIRS(8, __VA_ARGS__) TWO_PAIRS(12, __VA_ARGS__) \
        }
#else
#    error "write FOR_ROWS and FOR_PAIRS_OF_ROWS for this MR"
#endif
#if NV == 1
#    define FOR_VECTORS(...) \
        { WITH(v, 0, __VA_ARGS__) }
#elif NV == 2
#    define FOR_VECTORS(...) \
        { WITH(v, 0, __VA_ARGS__) WITH(v, 1, __VA_ARGS__) }
#elif NV == 4
#    define FOR_VECTORS(...)                                                        \
        {                                                                           \
            WITH(v, 0, __VA_ARGS__)                                                 \
            WITH(v, 1, __VA_ARGS__) WITH(v, 2, __VA_ARGS__) WITH(v, 3, __VA_ARGS__) \
        }
#else
#    error "write FOR_VECTORS for this NV"
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

/* tile_rounds       four steps at a time, at least once; one of `row` and `next` is 1. With `begun`, the first step of all
 *                   is left out: TILE_BEGIN has seen to it
 * tile_from_panels  a from panels, `between` floats apart, over 1 <= k < d, a multiple of 8: the tile has begun
 *
 * Fewer than four at a time, and the loop's own instructions are felt when another thread shares the core. */
#if defined(__FMA__) && VW == 8 && MR == 6 && NV == 2 && !SANITIZED
#    include "kernel/tile_avx2.h"
#else
INLINE void tile_rounds(tile *c, bool begun, int64_t rounds, const float *a, int64_t row, int64_t next,
                        const float *b) {
    for (; rounds > 0; rounds--, a += 4 * next, b += 4 * NR) {
        if (!begun) tile_step(c, 0, MR, a, row, b);
        begun = false;
        tile_step(c, 0, MR, a + next, row, b + NR);
        tile_step(c, 0, MR, a + 2 * next, row, b + 2 * NR);
        tile_step(c, 0, MR, a + 3 * next, row, b + 3 * NR);
    }
}

INLINE void tile_from_panels(tile *c, int d, const float *a, int64_t between, const float *b) {
    for (bool begun = true;; begun = false) {
        tile_rounds(c, begun, (d < NR ? d : NR) / 4, a, NR, 1, b);
        d -= NR;
        if (d <= 0) return;
        a += between;
        b += NR * NR;
    }
}
#endif

/* All k < steps, but for 0 if the tile has begun. */
INLINE void tile_steps(tile *c, bool begun, int64_t steps, const float *a, int64_t row, int64_t next,
                       const float *b) {
    int64_t k = begun;
    if (steps >= 4) {
        tile_rounds(c, begun, steps / 4, a, row, next, b);
        k = steps / 4 * 4;
    }
    for (; k < steps; k++) tile_step(c, 0, MR, a + k * next, row, b + k * NR);
}

/* The first k of a tile multiplies, where others add. Each row of the sums is handed to the statement at the
 * end just before it is overwritten: what a tile leaves is stored while the next one begins. Twelve stores in
 * a row behind a loop of multiply-adds would hold up the next loop for 30 cycles (docs/speed.md). */
#define TILE_BEGIN(c, a, row, b, ...)                  \
    {                                                  \
        vf first_b[NV];                                \
        FOR_VECTORS(first_b[v] = vload((b) + v * VW);) \
        FOR_ROWS({                                     \
            __VA_ARGS__                                \
            vf first_a = vdup((a)[r * (row)]);         \
            FOR_VECTORS({                              \
                (c)->sum[r][v] = first_a * first_b[v]; \
                KEEP_IN_REGISTER((c)->sum[r][v]);      \
            })                                         \
        })                                             \
    }

/* `count` tiles, at least one, one after the other: `rest` adds the terms after the first, `finish` takes row
 * r of what came out, and `advance` moves on all but b, which goes on by b_step. All have the same a. */
#define TILE_CHAIN(c, count, a, row, b, b_step, rest, finish, advance) \
    {                                                                  \
        TILE_BEGIN(c, a, row, b, )                                     \
        for (int64_t tiles_left = (count);;) {                         \
            rest;                                                      \
            if (--tiles_left == 0) break;                              \
            b += (b_step);                                             \
            TILE_BEGIN(c, a, row, b, finish;)                          \
            advance;                                                   \
        }                                                              \
        FOR_ROWS(finish;)                                              \
    }

/* Of a panel of which no more is seen, the first vector alone: at the diagonal that is half of the panels. The sums are
 * the same to the last bit. */
typedef struct narrow_tile {
    vf sum[MR];
} narrow_tile;

/* Columns to be computed where the first n are seen: whole panels, and the first vector of one if that is enough. */
INLINE int64_t columns_for(int64_t n) {
    int64_t rest = n % NR;
    return n - rest + (rest == 0 ? 0 : rest <= VW ? VW : NR);
}

/* From panels, over all k < d. */
INLINE void narrow_from_panels(narrow_tile *c, int d, const float *a, int64_t between, const float *b) {
    vf first = vload(b);
    FOR_ROWS(c->sum[r] = vdup(a[r * NR]) * first; KEEP_IN_REGISTER(c->sum[r]);)
    for (int k = 1;; k = 0) {
        int end = d < NR ? d : NR;
        for (; k < end; k++) {
            vf x = vload(b + k * NR);
            FOR_ROWS(vaccumulate(&c->sum[r], vdup(a[r * NR + k]), x);)
        }
        d -= NR;
        if (d <= 0) return;
        a += between;
        b += NR * NR;
    }
}

/* The diagonal. Row r of the tile meets k < limit + r, within 0 .. most-1: the common part in full rows, then
 * a triangle that touches no number behind the diagonal. So nothing is computed in vain, and a NaN there goes
 * nowhere. */
INLINE void tile_by_rows_causal(tile *c, bool begun, int64_t limit, int64_t most, const float *a, int64_t row,
                                const float *b) {
    int64_t common = limit < 0 ? 0 : limit < most ? limit : most;
    tile_steps(c, begun, common, a, row, 1, b);
    if (limit >= most) return;
    FOR_ROWS(if (r < MR - 1) {
        int64_t k = limit + r; /* seen by the rows below r */
        if (k >= 0 && k < most) tile_step(c, r + 1, MR, a + k, row, b + k * NR);
    })
}

/* The same for columns: row r of the tile (a key) meets k >= first + r (the queries that see it). All rows
 * meet those from `full` on; the caller has seen to k = full if `begun`. */
INLINE void tile_by_columns_causal(tile *c, int64_t first, int64_t full, bool begun, int64_t most,
                                   const float *a, int64_t next, const float *b) {
    if (full < most) tile_steps(c, begun, most - full, a + full * next, 1, next, b + full * NR);
    if (first <= -(MR - 1)) return;
    FOR_ROWS(if (r < MR - 1) {
        int64_t k = first + r; /* sees the rows up to r */
        if (k >= 0 && k < most) tile_step(c, 0, r + 1, a + k * next, 1, b + k * NR);
    })
}

/* Row r of a tile into out: out = factor * out + c, out += c, out = c. */
INLINE void tile_row_scale_add(const tile *c, int r, float *out, float factor) {
    vf f = vdup(factor);
    FOR_VECTORS(vstore(out + v * VW, vfma(vload(out + v * VW), f, c->sum[r][v]));)
}

INLINE void tile_row_add(const tile *c, int r, float *out) {
    FOR_VECTORS(vstore(out + v * VW, vload(out + v * VW) + c->sum[r][v]);)
}

INLINE void tile_row_store(const tile *c, int r, float *out) {
    FOR_VECTORS(vstore(out + v * VW, c->sum[r][v]);)
}

#endif
