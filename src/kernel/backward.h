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
 * diagonal hold numbers without meaning, and nothing reads them: every product below stops at the diagonal.
 */
#ifndef SIA_KERNEL_BACKWARD_H
#define SIA_KERNEL_BACKWARD_H

#include "kernel/pack.h"

enum { GQ = SIA_BLOCK_Q, GK = SIA_BLOCK_B };
_Static_assert(GQ % MR == 0 && GK % NR == 0 && GK % MR == 0, "blocks are whole tiles");

static size_t gradient_floats(void) { return 2 * GQ * GK; }

/* p and ds of MR queries and the NR keys of one panel. */
NOINLINE void gradient_tile(const sia_gradient *g, int64_t row, int64_t j, float *p, float *ds) {
    int d = g->head_dim;
    int64_t t = g->offset + row - j;
    const float *scale = g->scale - t, *bias = g->bias - t;
    tile c;
    tile_zero(&c);
    tile_from_panels(&c, d, g->q + row * NR, GQ * NR, g->k_t + j * d);
    FOR_ROWS({
        vf lse = vdup(g->lse[row + r]);
        FOR_VECTORS({
            vf l = vfma(vload(scale + v * VW - r), c.sum[r][v], vload(bias + v * VW - r));
            vstore(p + r * GK + v * VW, vexp2(vmin(vzero(), l - lse)));
        })
    })
    tile_zero(&c);
    tile_from_panels(&c, d, g->d_out + row * NR, GQ * NR, g->v_t + j * d);
    FOR_ROWS({
        vf delta = vdup(g->delta[row + r]);
        FOR_VECTORS({
            vf weight = vload(p + r * GK + v * VW);
            vstore(ds + r * GK + v * VW, (c.sum[r][v] - delta) * weight * vload(scale + v * VW - r));
        })
    })
}

static void gradient_weights(const sia_gradient *g) {
    float *p = g->weights, *ds = p + GQ * GK;
    for (int64_t row = 0; row < g->q_rows; row += MR) {
        int64_t last = g->offset + row + MR; /* keys that the last row of the strip sees */
        if (last > g->k_rows) last = g->k_rows;
        for (int64_t j = 0; j < last; j += NR) gradient_tile(g, row, j, p + row * GK + j, ds + row * GK + j);
    }
}

/* MR queries and NR columns of dq. */
NOINLINE void query_tile(const float *ds, const float *k, int64_t limit, int64_t k_rows, float *out,
                         int64_t width, bool first) {
    tile sum;
    tile_zero(&sum);
    tile_by_rows_causal(&sum, limit, k_rows, ds, GK, k);
    if (first)
        tile_store(&sum, out, width);
    else
        tile_add(&sum, out, width);
}

/* MR keys and NR columns of dv or dk: out += a^T b, from the first query that sees the key. */
NOINLINE void key_tile(const float *a, const float *b, int64_t first, int64_t q_rows, float *out,
                       int64_t width) {
    tile sum;
    tile_zero(&sum);
    tile_by_columns_causal(&sum, first, q_rows, a, GK, b);
    tile_add(&sum, out, width);
}

static void gradient_q(const sia_gradient *g, bool first) {
    const float *ds = g->weights + GQ * GK;
    int64_t width = (g->head_dim + NR - 1) / NR * NR;
    for (int64_t row = 0; row < g->q_rows; row += MR) {
        int64_t limit = g->offset + row + 1;
        for (int64_t c = 0; c < width; c += NR)
            query_tile(ds + row * GK, g->k + c * GK, limit, g->k_rows, g->d_q + row * width + c, width,
                       first);
    }
}

static void gradient_kv(const sia_gradient *g) {
    const float *p = g->weights, *ds = p + GQ * GK;
    int64_t width = (g->head_dim + NR - 1) / NR * NR;
    for (int64_t key = 0; key < g->k_rows; key += MR) {
        int64_t first = key - g->offset; /* the first query that sees this key */
        if (first >= g->q_rows) break;
        for (int64_t c = 0; c < width; c += NR) {
            key_tile(p + key, g->d_out + c * GQ, first, g->q_rows, g->d_v + key * width + c, width);
            key_tile(ds + key, g->q + c * GQ, first, g->q_rows, g->d_k + key * width + c, width);
        }
    }
}

#endif
