/* SPDX-License-Identifier: MIT
 *
 * The backward pass of one block of keys against one block of queries. Weights are computed again from the
 * row sums:
 *
 *     p  = 2^(scale[t] * (q.k) + bias[t] - lse)                           weights
 *     dp = dO . v                              ds = scale[t] * p * (dp - delta)        delta = dO . out
 *     dq += ds k        dk += ds^T q        dv += p^T dO
 *
 * lse is a float: where logits are large, its rounding alone makes the exponent positive, and at 1e8 and more
 * by far. No weight is above 1, so the exponent is taken to be at most 0.
 *
 * scale carries log2(e) / sqrt(d); the caller multiplies dq and dk by ln 2 at the end. Entries behind the
 * diagonal hold numbers without meaning, and nothing reads them: every product below stops at the diagonal. Behind the
 * last key they are read for the rows of dk and dv that fill up its tile, which nobody reads. */
#ifndef SIA_KERNEL_BACKWARD_H
#define SIA_KERNEL_BACKWARD_H

#include "kernel/pack.h"

enum { GQ = SIA_BLOCK_BQ, GK = SIA_BLOCK_BK };
/* Half of it is a block, too. */
_Static_assert(GQ % MR == 0 && GK / 2 % NR == 0 && GK / 2 % MR == 0, "blocks are whole tiles");

static size_t gradient_floats(int head_dim) {
    (void)head_dim;
    return 2 * GQ * GK;
}

/* Here each block of queries is complete by itself. */
static void gradient_begin(const sia_gradient *g) { (void)g; }
static void gradient_end(const sia_gradient *g) { (void)g; }

/* A vector of row r of a strip of MR queries, from its sums: exponents of the weights; from dp and the weights, ds. */
INLINE void exponents_row(vf sum, int r, const float *scale, const float *bias, float lse, float *p) {
    vf l = vfma(vload(scale - r), sum, vload(bias - r));
    vstore(p + r * GK, vmin(vzero(), l - vdup(lse)));
}
INLINE void differences_row(vf sum, int r, const float *scale, float delta, const float *p, float *ds) {
    vf weight = vload(p + r * GK) * vload(scale - r);
    vstore(ds + r * GK, (sum - vdup(delta)) * weight);
}

NOINLINE void exponents_strip(const sia_gradient *g, int64_t row, int64_t columns, float *p) {
    int d = g->head_dim;
    int64_t t = g->offset + row, panel = (int64_t)d * NR;
    const float *q = g->q + row * NR, *k = g->k_t, *scale = g->scale - t, *bias = g->bias - t;
    const float *lse = g->lse + row;
    if (columns % NR) {
        int64_t column = columns - VW;
        narrow_tile c;
        narrow_from_panels(&c, d, q, GQ * NR, k + column * d);
        FOR_ROWS(exponents_row(c.sum[r], r, scale + column, bias + column, lse[r], p + column);)
    }
    if (columns < NR) return;
    tile c;
    TILE_CHAIN(&c, columns / NR, q, NR, k, panel, tile_from_panels(&c, d, q, GQ * NR, k),
               FOR_VECTORS(exponents_row(c.sum[r][v], r, scale + v * VW, bias + v * VW, lse[r], p + v * VW);),
               (scale += NR, bias += NR, p += NR))
}

NOINLINE void differences_strip(const sia_gradient *g, int64_t row, int64_t columns, const float *p,
                                float *ds) {
    int d = g->head_dim;
    int64_t panel = (int64_t)d * NR;
    const float *d_out = g->d_out + row * NR, *v_t = g->v_t, *scale = g->scale - (g->offset + row);
    const float *delta = g->delta + row;
    if (columns % NR) {
        int64_t column = columns - VW;
        narrow_tile c;
        narrow_from_panels(&c, d, d_out, GQ * NR, v_t + column * d);
        FOR_ROWS(differences_row(c.sum[r], r, scale + column, delta[r], p + column, ds + column);)
    }
    if (columns < NR) return;
    tile c;
    TILE_CHAIN(
        &c, columns / NR, d_out, NR, v_t, panel, tile_from_panels(&c, d, d_out, GQ * NR, v_t),
        FOR_VECTORS(differences_row(c.sum[r][v], r, scale + v * VW, delta[r], p + v * VW, ds + v * VW);),
        (scale += NR, p += NR, ds += NR))
}

INLINE void exponentials_strip(float *p, int64_t columns) {
    vexp2_from zero = vexp2_reference(vzero());
    for (int64_t j = 0; j < columns; j += VW, p += VW)
        FOR_PAIRS_OF_ROWS({
            vf x = vload(p + r * GK), y = vload(p + (r + 1) * GK);
            vexp2_two(&x, zero, &y, zero);
            vstore(p + r * GK, x);
            vstore(p + (r + 1) * GK, y);
        })
}

static void gradient_weights(const sia_gradient *g) {
    for (int64_t row = 0; row < g->q_rows; row += MR) {
        int64_t last = g->offset + row + MR; /* keys that the last row of the strip sees */
        if (last > g->k_rows) last = g->k_rows;
        if (last <= 0) continue;
        int64_t columns = columns_for(last);
        float *p = g->weights + row * GK, *ds = p + GQ * GK;
        exponents_strip(g, row, columns, p);
        exponentials_strip(p, columns);
        differences_strip(g, row, columns, p, ds);
    }
}

INLINE void query_row(const tile *sum, int r, bool first, float *out) {
    if (first)
        tile_row_store(sum, r, out);
    else
        tile_row_add(sum, r, out);
}

/* MR queries of dq. */
NOINLINE void query_strip(const sia_gradient *g, int64_t row, bool first) {
    const float *ds = g->weights + (GQ + row) * GK, *k = g->k;
    int64_t limit = g->offset + row + 1, k_rows = g->k_rows, k_panel = g->k_panel,
            width = width_of(g->head_dim);
    float *out = g->d_q + row * width;
    tile sum;
    if (limit < 1) { /* row 0 sees nothing */
        for (int64_t c = 0; c < width; c += NR, k += k_panel, out += NR) {
            tile_zero(&sum);
            tile_by_rows_causal(&sum, false, limit, k_rows, ds, GK, k);
            FOR_ROWS(query_row(&sum, r, first, out + r * width);)
        }
        return;
    }
    TILE_CHAIN(&sum, width / NR, ds, GK, k, k_panel,
               tile_by_rows_causal(&sum, true, limit, k_rows, ds, GK, k),
               query_row(&sum, r, first, out + r * width), out += NR)
}

/* MR keys of dv or dk: out += a^T b, from the first query that sees the key. */
NOINLINE void key_strip(const float *a, const float *b, int64_t first, int64_t q_rows, float *out,
                        int64_t width) {
    int64_t full = first + MR - 1 < 0 ? 0 : first + MR - 1;
    tile sum;
    if (full >= q_rows) { /* no query sees all of the keys */
        for (int64_t c = 0; c < width; c += NR, b += NR * GQ, out += NR) {
            tile_zero(&sum);
            tile_by_columns_causal(&sum, first, full, false, q_rows, a, GK, b);
            FOR_ROWS(tile_row_add(&sum, r, out + r * width);)
        }
        return;
    }
    const float *a_full = a + full * GK, *b_full = b + full * NR;
    TILE_CHAIN(&sum, width / NR, a_full, 1, b_full, NR * GQ,
               tile_by_columns_causal(&sum, first, full, true, q_rows, a, GK, b_full - full * NR),
               tile_row_add(&sum, r, out + r * width), out += NR)
}

static void gradient_q(const sia_gradient *g, bool first) {
    for (int64_t row = 0; row < g->q_rows; row += MR) query_strip(g, row, first);
}

/* All keys of dv or dk. */
INLINE void key_strips(const sia_gradient *g, const float *a, const float *b, float *out) {
    int64_t width = width_of(g->head_dim);
    for (int64_t key = 0; key < g->k_rows; key += MR) {
        int64_t first = key - g->offset; /* the first query that sees this key */
        if (first >= g->q_rows) break;
        key_strip(a + key, b, first, g->q_rows, out + key * width, width);
    }
}

/* One after the other: each goes over its one block of queries again and again, which stays in the first-level cache. */
static void gradient_kv(const sia_gradient *g) {
    key_strips(g, g->weights, g->d_out, g->d_v);
    key_strips(g, g->weights + GQ * GK, g->q, g->d_k);
}

#endif
