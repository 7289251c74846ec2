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
 * cache; the block's keys and values stay in the second while all strips of the task go over them.
 *
 * m need not be the maximum. Where no logit of a strip can be far from 0, by the lengths of its queries and of
 * the keys, it is 0: nothing to look for, to limit or to correct. As m is always a whole number, and weights
 * are then the same but for a power of two, results have the same bits either way. Products with v are not to
 * leave the range of a float: should the weights of a row become very large, its strip goes on with the maximum;
 * should all be very small in the end, it begins again with it. */
#ifndef SIA_KERNEL_FORWARD_H
#define SIA_KERNEL_FORWARD_H

#include "kernel/pack.h"

enum { BQ = SIA_BLOCK_Q, BK = SIA_BLOCK_K };
_Static_assert(BQ % MR == 0 && BK % NR == 0, "blocks are whole tiles");

enum { NEAR = 1, WAS_NEAR = 2 };

/* The parts of sia_softmax.scratch. */
typedef struct state {
    float *logits; /* [MR][BK], of the strip at hand; weights once exponentiated */
    float *max;    /* [BQ] m */
    float *sum;    /* [BQ][VW] z */
    float *out;    /* [BQ][width] o; not set before the strip's first block of keys */
    float *begun;  /* [BQ/MR] whether the strip has had its first block */
    float *near;   /* [BQ/MR] whether its logits are near 0: NEAR as long as m is 0, then WAS_NEAR; else 0 */
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
    st.near = st.begun + BQ / MR;
    st.moment = st.near + BQ / MR;
    st.mass = st.moment + BQ;
    return st;
}

static size_t softmax_floats(int head_dim) {
    size_t width = ((size_t)head_dim + NR - 1) / NR * NR;
    return MR * BK + BQ * VW + BQ * width + 2 * BQ + 2 * (BQ / MR) + (size_t)BQ * SIA_DECADES;
}

static float largest_magnitude(const float *x, int64_t n) {
    vf most = vzero();
    int64_t i = 0;
    for (; i + VW <= n; i += VW) most = vmax(vabs(vload(x + i)), most);
    float result = vmaximum(most);
    for (; i < n; i++) result = fabsf(x[i]) > result ? fabsf(x[i]) : result;
    return result;
}

/* Whether all rows of a strip have a sum of squares below s->near. */
INLINE bool queries_are_near(const sia_softmax *s, int64_t row, int64_t width) {
    if (!(s->near > 0) || s->statistics) return false;
    const float *q = s->q + row * NR;
    vf sum[MR];
    FOR_ROWS(sum[r] = vzero();)
    for (int64_t c = 0; c < width; c += NR, q += s->q_rows * NR)
        FOR_ROWS(FOR_VECTORS({
            vf x = vload(q + r * NR + v * VW);
            sum[r] = vfma(x, x, sum[r]);
        }))
    bool near = true;
    FOR_ROWS(near = near && vsum(sum[r]) < s->near;)
    return near;
}

INLINE void begin_strip(const sia_softmax *s, const state *st, int64_t row, bool near) {
    st->begun[row / MR] = 0;
    st->near[row / MR] = near ? NEAR : 0;
    /* The lowest number instead of -infinity: infinity minus infinity would make a NaN of a row without keys.
     */
    FOR_ROWS(st->max[row + r] = near ? 0 : -FLT_MAX; vstore(st->sum + (row + r) * VW, vzero());)
    if (!s->statistics) return;
    memset(st->moment + row, 0, sizeof(float) * MR);
    memset(st->mass + row * SIA_DECADES, 0, sizeof(float) * MR * SIA_DECADES);
}

static void softmax_begin(sia_softmax *s) {
    state st = state_of(s);
    for (int64_t row = 0; row < s->rows; row += MR)
        begin_strip(s, &st, row, queries_are_near(s, row, st.width));
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

/* `hidden` where a row does not see. */
INLINE void mask_strip(const strip *s, float hidden, float *logits) {
    if (s->limit >= s->columns && s->n >= s->columns) return;
    for (int r = 0; r < MR; r++) {
        int64_t sees = s->limit + r < s->n ? s->limit + r : s->n;
        for (int64_t j = sees < 0 ? 0 : sees / VW * VW; j < s->columns; j += VW) {
            float *l = logits + r * BK + j;
            vstore(l, vselect(viota() < (int32_t)(sees - j), vload(l), vdup(hidden)));
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

INLINE void exponentials_and_sums(float *logits, int64_t columns, const vexp2_from from[MR], bool near,
                                  vf sum[MR]) {
    FOR_ROWS(sum[r] = vzero();)
    for (int64_t j = 0; j < columns; j += VW, logits += VW)
        FOR_PAIRS_OF_ROWS({
            float *l = logits + r * BK;
            vf p = vload(l), q = vload(l + BK);
            if (near)
                vexp2_two_near(&p, from[r], &q, from[r + 1]);
            else
                vexp2_two(&p, from[r], &q, from[r + 1]);
            vstore(l, p);
            vstore(l + BK, q);
            sum[r] += p;
            sum[r + 1] += q;
        })
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
    })
    exponentials_and_sums(st->logits, columns, from, false, sum);
    for (int r = 0; r < MR; r += VW) vstore(correction + r, vexp2(vload(shift + r)));
    FOR_ROWS(vstore(z + r * VW, vfma(vload(z + r * VW), vdup(correction[r]), sum[r]));)
}

/* The same where m is 0 and stays it. False if it should not, with the sums as they were: up to 2^31, the output is
 * finite for all the values of which sia.h says so. */
INLINE bool weights_from_near_logits(const state *st, int64_t row, int64_t columns) {
    float *z = st->sum + row * VW;
    vf sum[MR], most = vzero();
    vexp2_from from[MR];
    FOR_ROWS(from[r] = vexp2_reference(vzero());)
    exponentials_and_sums(st->logits, columns, from, true, sum);
    FOR_ROWS({
        sum[r] += vload(z + r * VW);
        most = vmax(sum[r], most);
    })
    if (!(vmaximum(most) < 0x1p31f / VW)) return false;
    FOR_ROWS(vstore(z + r * VW, sum[r]);)
    return true;
}

/* Weights with m = 0 to weights by the largest of each row, or by 1 if that is larger. */
NOINLINE void lower_weights(const state *st, int64_t row, int64_t columns,
                            float correction[ROWS_IN_VECTORS]) {
    for (int r = 0; r < MR; r++) {
        float *p = st->logits + r * BK, *z = st->sum + (row + r) * VW;
        vf most = vdup(1.0f), sum = vzero();
        for (int64_t j = 0; j < columns; j += VW) most = vmax(vload(p + j), most);
        float m = logbf(vmaximum(most));
        st->max[row + r] = m;
        correction[r] = scalar_exp2(-m);
        for (int64_t j = 0; j < columns; j += VW) {
            vf lower = vload(p + j) * vdup(correction[r]);
            vstore(p + j, lower);
            sum += lower;
        }
        vstore(z, vfma(vload(z), vdup(correction[r]), sum));
    }
}

/* Logits to weights by the largest of each row. */
INLINE void weights_strip(const state *st, const strip *s, bool statistics,
                          float correction[ROWS_IN_VECTORS]) {
    vf m[MR];
    mask_strip(s, -INFINITY, st->logits);
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

    float correction[ROWS_IN_VECTORS], *begun = st->begun + row / MR, *near = st->near + row / MR;
    logits_strip(&s, st->logits);
    if (*near == NEAR) {
        mask_strip(&s, -SIA_NEAR, st->logits); /* what that adds to a sum is far below its last bit */
        FOR_ROWS(correction[r] = 1;)
        if (!weights_from_near_logits(st, row, s.columns)) {
            lower_weights(st, row, s.columns, correction);
            *near = WAS_NEAR;
        }
    } else
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

INLINE void softmax_rows(const sia_softmax *s, const state *st, const sia_keys *keys, int64_t row,
                         int64_t end) {
    int64_t block = block_keys(st->width);
    for (int64_t first = 0; first < keys->count; first += block) {
        int64_t n = keys->count - first < block ? keys->count - first : block;
        for (int64_t i = row; i < end; i += MR) softmax_strip(s, st, keys, i, first, n);
    }
}

/* Not if the row saw no key, or a NaN. */
INLINE bool sums_are_fair(const float *sum) {
    bool fair = true;
    FOR_ROWS(fair = fair && vsum(vload(sum + r * VW)) > 0x1p-32f;)
    return fair;
}

static void softmax_keys(sia_softmax *s, const sia_keys *keys) {
    state st = state_of(s);
    softmax_rows(s, &st, keys, 0, s->rows);
    for (int64_t row = 0; row < s->rows; row += MR) {
        if (st.near[row / MR] == 0 || sums_are_fair(st.sum + row * VW)) continue;
        begin_strip(s, &st, row, false);
        softmax_rows(s, &st, keys, row, row + MR);
    }
}

/* The natural log of the sum of weights of each row, minus infinity where there is none, `stride` floats apart. The
 * stores come last: heads of other threads write to the same lines. */
INLINE void log_sums(const float *z, const float *m, int64_t rows, float *room, float *lse, int64_t stride) {
    for (int64_t i = 0; i < rows; i += VW) {
        vf sum = vload(z + i);
        vstore(room + i, vselect(sum == vzero(), vdup(-INFINITY), vlog_times(sum, vload(m + i))));
    }
    for (int64_t i = 0; i < rows; i++) lse[i * stride] = room[i];
}

static void softmax_end(sia_softmax *s, float *out, int64_t out_stride, float *lse, float *entropy,
                        float *mass, int64_t stride) {
    _Static_assert(BQ % VW == 0 && 2 * BQ <= MR * BK, "sums and their logs take the place of the logits");
    state st = state_of(s);
    float *sums = st.logits;
    for (int64_t i = 0; i < s->rows; i++) {
        float z = vsum(vload(st.sum + i * VW)), inverse = 1 / z, *to = out + i * out_stride;
        sums[i] = z;
        if (z == 0)
            memset(to, 0, sizeof(float) * (size_t)s->head_dim); /* a row without keys */
        else
            for (int c = 0; c < s->head_dim; c += 8)
                store8(to + c, load8(st.out + i * st.width + c) * inverse);
        /* H = ln Z - N / Z with everything relative to the maximum. */
        if (entropy) entropy[i * stride] = z == 0 ? 0 : (log2f(z) - st.moment[i] * inverse) * (float)M_LN2;
        for (int j = 0; mass && j < SIA_DECADES; j++)
            mass[i * stride * SIA_DECADES + j] = z == 0 ? 0 : st.mass[i * SIA_DECADES + j] * inverse;
    }
    if (lse) log_sums(sums, st.max, s->rows, sums + BQ, lse, stride);
}

#endif
