/* SPDX-License-Identifier: MIT
 *
 * The forward pass of a block of queries: an online softmax over blocks of keys.
 *
 *     l = scale[t] * (q.k) + bias[t]        log2 of the weights         q, k   queries, keys of the block
 *     m' = max(m, max over keys of l)       maximum so far (rounded)    p      weights, 2^(l - m')
 *     c = 2^(m - m')                        what a new maximum takes    o      output, not yet divided
 *     z = c z + sum of p                    sum of the weights          z      as VW partial sums a row
 *     o = c o + p v
 *
 * The work goes by strips of MR queries. A strip's logits for one block of keys stay in the first-level
 * cache; the block's keys and values stay in the second while all strips of the task go over them. */
#ifndef SIA_KERNEL_FORWARD_H
#define SIA_KERNEL_FORWARD_H

#include "kernel/pack.h"

enum { BQ = SIA_BLOCK_Q, BK = SIA_BLOCK_K };
_Static_assert(BQ % MR == 0 && BK % NR == 0, "blocks are whole tiles");

/* The parts of sia_softmax.scratch. */
typedef struct state {
    float *logits; /* [MR][BK], of the strip at hand; weights once exponentiated */
    float *max;    /* [BQ] m */
    float *sum;    /* [BQ][VW] z */
    float *out;    /* [BQ][width] o; not set before the strip's first block of keys */
    float *begun;  /* [BQ/MR] whether the strip has had its first block */
    float *moment; /* [BQ] sum of p * log2 p, for the entropy */
    float *mass;   /* [BQ][SIA_DECADES] */
    int64_t width; /* head_dim in whole panels */
} state;

INLINE state state_of(const sia_softmax *s) {
    state st;
    st.width = (s->head_dim + NR - 1) / NR * NR;
    st.logits = s->scratch;
    st.sum = st.logits + MR * BK;
    st.out = st.sum + BQ * VW;
    st.max = st.out + BQ * st.width;
    st.begun = st.max + BQ;
    st.moment = st.begun + BQ / MR;
    st.mass = st.moment + BQ;
    return st;
}

static size_t softmax_floats(int head_dim) {
    size_t width = ((size_t)head_dim + NR - 1) / NR * NR;
    return MR * BK + BQ * VW + BQ * width + 2 * BQ + BQ / MR + (size_t)BQ * SIA_DECADES;
}

static void softmax_begin(sia_softmax *s) {
    state st = state_of(s);
    /* The lowest number instead of -infinity: infinity minus infinity would make a NaN of a row without keys.
     */
    size_t strips = (size_t)(s->rows + MR - 1) / MR, rows = strips * MR;
    for (size_t i = 0; i < rows; i++) st.max[i] = -FLT_MAX;
    memset(st.sum, 0, sizeof(float) * rows * VW);
    memset(st.begun, 0, sizeof(float) * strips);
    if (!s->statistics) return;
    memset(st.moment, 0, sizeof(float) * rows);
    memset(st.mass, 0, sizeof(float) * rows * SIA_DECADES);
}

/* One strip of MR queries and one block of keys. */
typedef struct strip {
    int d;
    int64_t row, n;  /* the strip's first row; keys of the block */
    int64_t t;       /* distance of row 0 and column 0 */
    int64_t limit;   /* columns that row 0 sees; each row down sees one more */
    int64_t columns; /* columns that any row sees, in whole panels */
    const float *q, *k, *scale, *bias;
    int64_t q_panel; /* floats from one panel of q to the next */
} strip;

/* Row r of a tile of logits. scale and bias point at the distance of row 0 and the tile's first key; a row
 * down is one distance more, an element less. */
INLINE void logits_row(const tile *c, int r, const float *scale, const float *bias, float *out) {
    FOR_VECTORS(
        vstore(out + v * VW, vfma(vload(scale + v * VW - r), c->sum[r][v], vload(bias + v * VW - r)));)
}

NOINLINE void logits_strip(const strip *s, float *logits) {
    const float *q = s->q, *k = s->k, *scale = s->scale - s->t, *bias = s->bias - s->t;
    int d = s->d;
    int64_t k_panel = (int64_t)d * NR, q_panel = s->q_panel;
    tile c;
    TILE_CHAIN(&c, s->columns / NR, q, NR, k, k_panel, tile_from_panels(&c, d, q, q_panel, k),
               logits_row(&c, r, scale, bias, logits + r * BK), (scale += NR, bias += NR, logits += NR))
}

/* Minus infinity where a row does not see. */
INLINE void mask_strip(const strip *s, float *logits) {
    for (int r = 0; r < MR; r++) {
        int64_t sees = s->limit + r < s->n ? s->limit + r : s->n;
        for (int64_t j = sees < 0 ? 0 : sees / VW * VW; j < s->columns; j += VW) {
            float *l = logits + r * BK + j;
            vstore(l, vselect(viota() < (int32_t)(sees - j), vload(l), vdup(-INFINITY)));
        }
    }
}

/* In a pass of its own: kept while tiles are finished, the largest would have to be stored for each. */
INLINE void largest_logits(const float *logits, int64_t columns, vf best[MR]) {
    FOR_ROWS(best[r] = vdup(-INFINITY);)
    for (int64_t j = 0; j < columns; j += NR)
        FOR_ROWS(FOR_VECTORS(best[r] = vmax(vload(logits + r * BK + j + v * VW), best[r]);))
}

INLINE void values_row(const tile *o, int r, const float *correction, float *out) {
    if (correction)
        tile_row_scale_add(o, r, out, correction[r]);
    else
        tile_row_store(o, r, out);
}

/* MR rows of the output, up to the diagonal: out = weights v, and later out = correction * out + weights v.
 * Panels of v lie `apart` floats from each other. */
INLINE void values_strip(const strip *s, const float *weights, const float *v_panel, int64_t apart,
                         const float *correction, float *out, int64_t width) {
    int64_t limit = s->limit, n = s->n;
    tile o;
    if (limit < 1) { /* row 0 sees nothing */
        for (int64_t c = 0; c < width; c += NR, v_panel += apart, out += NR) {
            tile_zero(&o);
            tile_by_rows_causal(&o, limit, n, weights, BK, v_panel);
            FOR_ROWS(values_row(&o, r, correction, out + r * width);)
        }
        return;
    }
    TILE_CHAIN(&o, width / NR, weights, BK, v_panel, apart,
               tile_by_rows_causal(&o, limit - 1, n - 1, weights + 1, BK, v_panel + NR),
               values_row(&o, r, correction, out + r * width), out += NR)
}
NOINLINE void values_first(const strip *s, const float *weights, const float *v, int64_t apart, float *out,
                           int64_t width) {
    values_strip(s, weights, v, apart, NULL, out, width);
}
NOINLINE void values_later(const strip *s, const float *weights, const float *v, int64_t apart,
                           const float *correction, float *out, int64_t width) {
    values_strip(s, weights, v, apart, correction, out, width);
}

/* The fused statistics of one row of a strip: columns 0 .. n-1 of the block, weights p = 2^(l - m), distance
 * of column 0 is t. Everything so far is rescaled by c, and the moment of old weights moves with the maximum.
 */
static void add_statistics(const float *logits, int64_t n, int64_t t, float m, float m_before,
                           float sum_before, float c, float *moment, float *mass) {
    if (sum_before > 0) *moment = c > 0 ? c * (*moment + (m_before - m) * sum_before) : 0; /* 0 * infinity */
    for (int i = 0; i < SIA_DECADES; i++) mass[i] *= c;
    int64_t j = 0;
    while (j < n) { /* runs of columns within one decade; the distance falls along the row */
        int decade = 0;
        int64_t low = 0;
        for (int64_t from = 1; t - j >= from; from *= 10, decade++) low = from;
        int64_t end = t - low + 1 < n ? t - low + 1 : n;
        vf sum = vzero(), weighted = vzero();
        for (; j + VW <= end; j += VW) {
            vf l = vload(logits + j) - vdup(m), p = vexp2(l);
            sum += p;
            weighted = vfma(p, vmax(vdup(-200.0f), l), weighted); /* 0 * -infinity is no part of it */
        }
        float rest = 0, rest_weighted = 0;
        for (; j < end; j++) {
            float l = logits[j] - m, p = scalar_exp2(l);
            rest += p;
            rest_weighted += p * (l < -200.0f ? -200.0f : l);
        }
        mass[decade] += vsum(sum) + rest;
        *moment += vsum(weighted) + rest_weighted;
    }
}

enum { ROWS_IN_VECTORS = (MR + VW - 1) / VW * VW };

/* What the exponentials of a row need of its maximum. Where that is too far from 0, the row's logits are made
 * relative to it here. */
INLINE vexp2_from reference_of(float *logits, int64_t columns, vf m) {
    if (fabsf(m[0]) < EXP2_FAR) return vexp2_reference(m);
    for (int64_t j = 0; j < columns; j += VW) vstore(logits + j, vload(logits + j) - m);
    return vexp2_reference(vzero());
}

/* Logits to weights, in place, relative to the new maximum m of each row: its correction, the sums. */
INLINE void weights_from_logits(const state *st, int64_t row, int64_t columns, const vf m[MR],
                                float correction[ROWS_IN_VECTORS]) {
    float shift[ROWS_IN_VECTORS] = {0}, *z = st->sum + row * VW;
    vf sum[MR];
    vexp2_from from[MR];
    FOR_ROWS({
        shift[r] = st->max[row + r] - m[r][0];
        st->max[row + r] = m[r][0];
        from[r] = reference_of(st->logits + r * BK, columns, m[r]);
        sum[r] = vzero();
    })
    float *l = st->logits;
    for (int64_t j = 0; j < columns; j += VW, l += VW)
        FOR_PAIRS_OF_ROWS({
            vf p = vload(l + r * BK), q = vload(l + (r + 1) * BK);
            vexp2_two(&p, from[r], &q, from[r + 1]);
            vstore(l + r * BK, p);
            vstore(l + (r + 1) * BK, q);
            sum[r] += p;
            sum[r + 1] += q;
        })
    for (int r = 0; r < MR; r += VW) vstore(correction + r, vexp2(vload(shift + r)));
    FOR_ROWS(vstore(z + r * VW, vfma(vload(z + r * VW), vdup(correction[r]), sum[r]));)
}

INLINE void weights_strip(const state *st, const strip *s, bool statistics,
                          float correction[ROWS_IN_VECTORS]) {
    vf m[MR];
    logits_strip(s, st->logits);
    if (s->limit < s->columns || s->n < s->columns) mask_strip(s, st->logits);
    largest_logits(st->logits, s->columns, m);
    FOR_ROWS(m[r] = vmax(vexp2_rounded(vmax_all(m[r])), vdup(st->max[s->row + r]));)
    for (int r = 0; r < MR && statistics; r++) {
        int64_t i = s->row + r, sees = s->limit + r < s->n ? s->limit + r : s->n;
        float before = st->max[i], now = m[r][0];
        add_statistics(st->logits + r * BK, sees, s->t + r, now, before, vsum(vload(st->sum + i * VW)),
                       scalar_exp2(before - now), st->moment + i, st->mass + i * SIA_DECADES);
    }
    weights_from_logits(st, s->row, s->columns, m, correction);
}

static void softmax_strip(const sia_softmax *softmax, const state *st, const sia_keys *keys, int64_t row,
                          int64_t first, int64_t n) {
    strip s = {.d = softmax->head_dim, .row = row, .n = n, .t = keys->offset + row - first};
    s.limit = s.t + 1;
    if (s.limit + MR - 1 <= 0) return;
    int64_t seen = s.limit + MR - 1 < n ? s.limit + MR - 1 : n;
    s.columns = (seen + NR - 1) / NR * NR;
    s.q = softmax->q + row * NR;
    s.q_panel = softmax->q_rows * NR;
    s.k = keys->k + first * s.d;
    s.scale = softmax->scale;
    s.bias = softmax->bias;

    float correction[ROWS_IN_VECTORS], *begun = st->begun + row / MR;
    weights_strip(st, &s, softmax->statistics, correction);
    const float *v = keys->v + first * NR;
    float *out = st->out + row * st->width;
    if (*begun)
        values_later(&s, st->logits, v, keys->v_rows * NR, correction, out, st->width);
    else
        values_first(&s, st->logits, v, keys->v_rows * NR, out, st->width);
    *begun = 1;
}

/* Keys in a block: its keys and values together take a quarter of a second-level cache of 512 KiB. */
INLINE int64_t block_keys(int64_t width) {
    int64_t keys = 65536 / (int64_t)sizeof(float) / width / NR * NR;
    return keys < NR ? NR : keys < BK ? keys : BK;
}

static void softmax_keys(sia_softmax *s, const sia_keys *keys) {
    state st = state_of(s);
    int64_t block = block_keys(st.width);
    for (int64_t first = 0; first < keys->count; first += block) {
        int64_t n = keys->count - first < block ? keys->count - first : block;
        for (int64_t row = 0; row < s->rows; row += MR) softmax_strip(s, &st, keys, row, first, n);
    }
}

static void softmax_end(sia_softmax *s, float *out, int64_t out_stride, float *lse, float *entropy,
                        float *mass, int64_t stride) {
    state st = state_of(s);
    for (int64_t i = 0; i < s->rows; i++) {
        float z = vsum(vload(st.sum + i * VW)), inverse = 1 / z, *to = out + i * out_stride;
        if (z == 0)
            memset(to, 0, sizeof(float) * (size_t)s->head_dim); /* a row without keys */
        else
            for (int c = 0; c < s->head_dim; c += 8)
                store8(to + c, load8(st.out + i * st.width + c) * inverse);
        if (lse) lse[i * stride] = z == 0 ? -INFINITY : (st.max[i] + log2f(z)) * (float)M_LN2;
        /* H = ln Z - N / Z with everything relative to the maximum. */
        if (entropy) entropy[i * stride] = z == 0 ? 0 : (log2f(z) - st.moment[i] * inverse) * (float)M_LN2;
        for (int j = 0; mass && j < SIA_DECADES; j++)
            mass[i * stride * SIA_DECADES + j] = z == 0 ? 0 : st.mass[i * SIA_DECADES + j] * inverse;
    }
}

#endif
