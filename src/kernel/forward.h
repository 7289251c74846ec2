/* SPDX-License-Identifier: MIT
 *
 * The forward pass of a block of queries: an online softmax over blocks of keys.
 *
 *     l = scale[t] * (q.k) + bias[t]        log2 of the weights         q, k   queries, keys of the block
 *     m' = 0, or max(m, largest l)          reference of the row        p      weights, 2^(l - m')
 *     c = 2^(m - m')                        what a new one takes        o      output, not yet divided
 *     z = c z + sum of p                    sum of the weights          z      as VW partial sums a row
 *     o = c o + p v
 *
 * The work goes by strips of MR queries. A strip's logits for one block of keys stay in the first-level
 * cache; the block's keys and values stay in the second while all strips of the task go over them.
 *
 * The reference is 0 as long as that serves the row: until a logit is above SIA_NEAR, or the first ones are all far
 * below 0, or the sum of weights leaves no room for products with v. From there on it is the largest logit so far,
 * rounded, or what that sum made it. So a row's
 * result depends on nothing but what the row sees. Where the lengths of a strip's queries and of the keys tell
 * that no logit can be that far, nothing needs to be looked for, limited or corrected: the same bits, sooner. */
#ifndef SIA_KERNEL_FORWARD_H
#define SIA_KERNEL_FORWARD_H

#include "base/memory.h"
#include "kernel/pack.h"

enum { BQ = SIA_BLOCK_Q, BK = SIA_BLOCK_K };
_Static_assert(BQ % MR == 0 && BK % NR == 0, "blocks are whole tiles");

/* The parts of sia_softmax.scratch. */
typedef struct state {
    float *logits;    /* [MR][BK], of the strip at hand; weights once exponentiated */
    float *reference; /* [BQ] m */
    float *unmoved;   /* [BQ] 1 as long as the reference is 0, then 0 */
    float *sum;       /* [BQ][VW] z */
    float *out;       /* [BQ][width] o; not set before the strip's first block of keys */
    float *begun;     /* [BQ/MR] whether the strip has had its first block */
    float *near;      /* [BQ/MR] whether no reference of the strip has moved, and none will for a logit */
    float *largest;   /* [BQ] the largest logit so far, rounded: for the statistics, as all below */
    float *moment;    /* [BQ] sum of p * log2 p, for the entropy */
    float *mass;      /* [BQ][SIA_DECADES] sums of p */
    int64_t width;    /* head_dim in whole panels */
} state;

/* Counts bytes where there is no memory yet, as in sia_carve. */
INLINE size_t state_places(state *st, int head_dim, float *memory) {
    sia_carve c = {(char *)memory, 0};
    st->width = width_of(head_dim);
    st->logits = sia_carve_floats(&c, MR * BK);
    st->sum = sia_carve_floats(&c, BQ * VW);
    st->out = sia_carve_floats(&c, BQ * st->width);
    st->reference = sia_carve_floats(&c, BQ);
    st->unmoved = sia_carve_floats(&c, BQ);
    st->begun = sia_carve_floats(&c, BQ / MR);
    st->near = sia_carve_floats(&c, BQ / MR);
    st->largest = sia_carve_floats(&c, BQ);
    st->moment = sia_carve_floats(&c, BQ);
    st->mass = sia_carve_floats(&c, BQ * SIA_DECADES);
    return c.used;
}

static size_t softmax_floats(int head_dim) {
    state st;
    return state_places(&st, head_dim, NULL) / sizeof(float);
}

INLINE state state_of(const sia_softmax *s) {
    state st;
    (void)state_places(&st, s->head_dim, s->scratch);
    return st;
}

/* Panels are all that register tiles want. */
static size_t block_floats(int head_dim) {
    (void)head_dim;
    return 0;
}
static void ready_block(int head_dim, const sia_keys *keys, float *out) {
    (void)head_dim, (void)keys, (void)out;
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

static void softmax_begin(sia_softmax *s) {
    state st = state_of(s);
    for (int64_t row = 0; row < s->rows; row += MR) {
        st.begun[row / MR] = 0;
        st.near[row / MR] = queries_are_near(s, row, st.width);
        FOR_ROWS({
            st.reference[row + r] = 0;
            st.unmoved[row + r] = 1;
            vstore(st.sum + (row + r) * VW, vzero());
        })
    }
    if (!s->statistics) return;
    for (int i = 0; i < BQ; i++) st.largest[i] = -FLT_MAX; /* not -infinity: minus itself, that is NaN */
    memset(st.moment, 0, sizeof(float) * BQ);
    memset(st.mass, 0, sizeof(float) * BQ * SIA_DECADES);
}

/* One strip of MR queries and one block of keys. */
typedef struct strip {
    int d;
    int64_t row, n;  /* the strip's first row; keys of the block */
    int64_t t;       /* distance of row 0 and column 0 */
    int64_t limit;   /* columns that row 0 sees; each row down sees one more */
    int64_t columns; /* columns_for those that any row sees */
    const float *q, *k, *scale, *bias;
    int64_t q_panel; /* floats from one panel of q to the next */
} strip;

/* A vector of row r of a tile of logits, from its sums. scale, bias and out point at the distance of row 0 and the
 * vector's first key; a row down is one distance more, an element less. */
INLINE void logits_row(vf sum, int r, const float *scale, const float *bias, float *out) {
    vstore(out + r * BK, vfma(vload(scale - r), sum, vload(bias - r)));
}

NOINLINE void logits_narrow(const strip *s, float *logits) {
    int64_t column = s->columns - VW;
    const float *scale = s->scale - s->t + column, *bias = s->bias - s->t + column;
    narrow_tile c;
    narrow_from_panels(&c, s->d, s->q, s->q_panel, s->k + column * s->d);
    FOR_ROWS(logits_row(c.sum[r], r, scale, bias, logits + column);)
}

NOINLINE void logits_strip(const strip *s, float *logits) {
    const float *q = s->q, *k = s->k, *scale = s->scale - s->t, *bias = s->bias - s->t;
    int d = s->d;
    int64_t k_panel = (int64_t)d * NR, q_panel = s->q_panel;
    tile c;
    if (s->columns % NR) logits_narrow(s, logits);
    if (s->columns < NR) return;
    TILE_CHAIN(&c, s->columns / NR, q, NR, k, k_panel, tile_from_panels(&c, d, q, q_panel, k),
               FOR_VECTORS(logits_row(c.sum[r][v], r, scale + v * VW, bias + v * VW, logits + v * VW);),
               (scale += NR, bias += NR, logits += NR))
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
    for (int64_t j = 0; j < columns; j += VW) FOR_ROWS(best[r] = vmax(vload(logits + r * BK + j), best[r]);)
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
            tile_by_rows_causal(&o, false, limit, n, weights, BK, v_panel);
            FOR_ROWS(values_row(&o, r, correction, out + r * width);)
        }
        return;
    }
    TILE_CHAIN(&o, width / NR, weights, BK, v_panel, apart,
               tile_by_rows_causal(&o, true, limit, n, weights, BK, v_panel),
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

/* The fused statistics of one row of a strip: columns 0 .. n-1 of the block, distance of column 0 is t. They are
 * relative to the largest logit m of the row so far, whatever its reference is: log p is then small where p counts. */
static void row_statistics(const float *logits, int64_t n, int64_t t, float m, float *m_before, float *moment,
                           float *mass) {
    float sum_before = 0, c = scalar_exp2(*m_before - m);
    for (int i = 0; i < SIA_DECADES; i++) sum_before += mass[i];
    if (sum_before > 0) *moment = c > 0 ? c * (*moment + (*m_before - m) * sum_before) : 0; /* 0 * infinity */
    for (int i = 0; i < SIA_DECADES; i++) mass[i] *= c;
    *m_before = m;
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

/* What the exponentials of a row need of its reference. Where that is too far from 0, the row's logits are made
 * relative to it here. */
INLINE vexp2_from exponents_from(float *logits, int64_t columns, float m) {
    if (fabsf(m) < EXP2_FAR) return vexp2_reference(vdup(m));
    for (int64_t j = 0; j < columns; j += VW) vstore(logits + j, vload(logits + j) - vdup(m));
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

/* Sums with the reference 0. Up to the upper one, the output is finite for all the values of which sia.h says so;
 * from the lower one on, it is as exact for these as with any other reference. */
#define SUM_LOW 0x1p-16f
#define SUM_HIGH 0x1p31f

/* Where a row has no weight yet, a largest logit below this moves the reference before weights are lost; it would move
 * by the sum in any case. */
#define LOGIT_LOW (-64.0f)

/* The sums of a strip, and the references that they move: weights with reference 0 become weights by the largest, if
 * they are too small, or by their sum, if they are too large. Returns whether there were any. */
NOINLINE bool settle_sums(const state *st, int64_t row, int64_t columns, const vf sums[MR],
                          float correction[ROWS_IN_VECTORS]) {
    bool moved = false;
    for (int r = 0; r < MR; r++) {
        float *p = st->logits + r * BK, *z = st->sum + (row + r) * VW, total = vsum(sums[r]);
        /* 0: it has seen nothing; and a NaN will stay one. */
        if (st->unmoved[row + r] == 0 || total == 0 || !(total <= SUM_LOW || total >= SUM_HIGH)) {
            vstore(z, sums[r]);
            continue;
        }
        vf most = vzero(), sum = vzero();
        for (int64_t j = 0; j < columns; j += VW) most = vmax(vload(p + j), most);
        float m = logbf(total >= SUM_HIGH && total <= FLT_MAX ? total : vmaximum(most));
        if (m > SIA_NEAR) m = SIA_NEAR; /* whose power is the last that has an inverse */
        st->reference[row + r] = m;
        st->unmoved[row + r] = 0;
        moved = true;
        vf power = vdup(scalar_exp2(-m));
        correction[r] = power[0];
        for (int64_t j = 0; j < columns; j += VW) {
            vf weight = vload(p + j) * power;
            vstore(p + j, weight);
            sum += weight;
        }
        vstore(z, vfma(vload(z), power, sum));
    }
    return moved;
}

/* Logits to weights, in place, and the sums. Returns whether these moved a reference. */
INLINE bool weights_from_logits(const state *st, int64_t row, int64_t columns, const vexp2_from from[MR],
                                bool near, float correction[ROWS_IN_VECTORS]) {
    float *z = st->sum + row * VW;
    vf sum[MR];
    vi usual = ~(vi){0};
    exponentials_and_sums(st->logits, columns, from, near, sum);
    FOR_ROWS({
        sum[r] = vfma(vload(z + r * VW), vdup(correction[r]), sum[r]);
        usual &= (sum[r] > vdup(SUM_LOW)) & (sum[r] < vdup(SUM_HIGH / VW));
    })
    if (vmaximum(vselect(usual, vzero(), vdup(1.0f))) > 0)
        return settle_sums(st, row, columns, sum, correction);
    FOR_ROWS(vstore(z + r * VW, sum[r]);)
    return false;
}

/* The reference that a row without weights gets from its largest logit: the one that settle_sums would find, if it is
 * so near that it might be asked. */
INLINE float first_reference(float largest) {
    return largest >= -SIA_NEAR && largest < 0 ? logbf(scalar_exp2(largest)) : exp2_rounded(largest);
}

/* The references for a block, by the largest logit that each row sees there, and what they take from sums and output. */
INLINE void move_references(const state *st, int64_t row, const vf largest[MR],
                            float correction[ROWS_IN_VECTORS]) {
    float shift[ROWS_IN_VECTORS] = {0};
    FOR_ROWS({
        float *m = st->reference + row + r;
        float most = vmaximum(largest[r]), before = *m;
        if (st->unmoved[row + r] == 0)
            *m = fmaxf(exp2_rounded(most), before);
        else if (most > SIA_NEAR || (most < LOGIT_LOW && most != -INFINITY)) {
            bool empty = vsum(vload(st->sum + (row + r) * VW)) == 0;
            if (empty || most > SIA_NEAR) {
                st->unmoved[row + r] = 0;
                *m = first_reference(most);
            }
            if (empty) before = -FLT_MAX; /* not -infinity: infinity minus infinity is NaN */
        }
        shift[r] = before - *m;
    })
    for (int r = 0; r < MR; r += VW) vstore(correction + r, vexp2(vload(shift + r)));
}

static void strip_statistics(const state *st, const strip *s, const vf largest[MR]) {
    for (int r = 0; r < MR; r++) {
        int64_t i = s->row + r, sees = s->limit + r < s->n ? s->limit + r : s->n;
        float m = fmaxf(exp2_rounded(vmaximum(largest[r])), st->largest[i]);
        row_statistics(st->logits + r * BK, sees, s->t + r, m, st->largest + i, st->moment + i,
                       st->mass + i * SIA_DECADES);
    }
}

/* Logits to weights where any logit is possible. */
INLINE void weights_strip(const state *st, const strip *s, bool statistics,
                          float correction[ROWS_IN_VECTORS]) {
    vf largest[MR];
    vexp2_from from[MR];
    mask_strip(s, -INFINITY, st->logits);
    largest_logits(st->logits, s->columns, largest);
    if (statistics) strip_statistics(st, s, largest);
    move_references(st, s->row, largest, correction);
    FOR_ROWS(from[r] = exponents_from(st->logits + r * BK, s->columns, st->reference[s->row + r]);)
    (void)weights_from_logits(st, s->row, s->columns, from, false, correction);
}

/* Logits to weights where none can move the reference from 0. Returns whether the sums do not either. */
INLINE bool near_weights_strip(const state *st, const strip *s, float correction[ROWS_IN_VECTORS]) {
    vexp2_from from[MR];
    mask_strip(s, -127, st->logits); /* of which vexp2 makes 0 */
    FOR_ROWS({
        correction[r] = 1;
        from[r] = vexp2_reference(vzero());
    })
    return !weights_from_logits(st, s->row, s->columns, from, true, correction);
}

static void softmax_strip(const sia_softmax *softmax, const state *st, const sia_keys *keys, int64_t row,
                          int64_t first, int64_t n) {
    strip s = {.d = softmax->head_dim, .row = row, .n = n, .t = keys->offset + row - first};
    s.limit = s.t + 1;
    if (s.limit + MR - 1 <= 0) return;
    int64_t seen = s.limit + MR - 1 < n ? s.limit + MR - 1 : n;
    s.columns = columns_for(seen);
    s.q = softmax->q + row * NR;
    s.q_panel = softmax->q_rows * NR;
    s.k = keys->k + first * s.d;
    s.scale = softmax->scale;
    s.bias = softmax->bias;

    float correction[ROWS_IN_VECTORS], *begun = st->begun + row / MR, *near = st->near + row / MR;
    logits_strip(&s, st->logits);
    if (*near != 0)
        *near = near_weights_strip(st, &s, correction);
    else
        weights_strip(st, &s, softmax->statistics, correction);
    const float *v = keys->v + first * NR;
    float *out = st->out + row * st->width;
    if (*begun)
        values_later(&s, st->logits, v, keys->v_rows * NR, correction, out, st->width);
    else
        values_first(&s, st->logits, v, keys->v_rows * NR, out, st->width);
    *begun = 1;
}

/* Keys in a block: its keys and values together take a quarter of the second-level cache, which has 512 KiB, or 1 MiB
 * on nearly all processors with AVX-512. */
INLINE int64_t block_keys(int64_t width) {
    int64_t keys = (VW == 16 ? 131072 : 65536) / (int64_t)sizeof(float) / width / NR * NR;
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

/* The natural log of the sum of weights of each row, minus infinity where there is none, `stride` floats apart. The
 * stores come last: heads of other threads write to the same lines. */
INLINE void log_sums(const float *z, const float *m, int64_t rows, float *room, float *lse, int64_t stride) {
    for (int64_t i = 0; i < rows; i += VW) {
        vf sum = vload(z + i);
        vstore(room + i, vselect(sum == vzero(), vdup(-INFINITY), vlog_times(sum, vload(m + i))));
    }
    for (int64_t i = 0; i < rows; i++) lse[i * stride] = room[i];
}

/* With all weights relative to the largest: H = ln Z - N / Z. */
static void put_statistics(const state *st, int64_t row, bool nothing, float *entropy, float *mass) {
    const float *p = st->mass + row * SIA_DECADES;
    float z = 0;
    for (int i = 0; i < SIA_DECADES; i++) z += p[i];
    float h = (log2f(z) - st->moment[row] / z) * (float)M_LN2;
    if (entropy) *entropy = nothing || h < 0 ? 0 : h; /* rounding may go below 0; NaN stays */
    for (int i = 0; mass && i < SIA_DECADES; i++) mass[i] = nothing ? 0 : p[i] / z;
}

static void softmax_end(sia_softmax *s, float *out, int64_t out_stride, float *lse, float *entropy,
                        float *mass, int64_t stride) {
    _Static_assert(BQ % VW == 0 && 2 * BQ <= MR * BK, "sums and their logs take the place of the logits");
    state st = state_of(s);
    float *sums = st.logits;
    for (int64_t i = 0; i < s->rows; i++) {
        float z = vsum(vload(st.sum + i * VW)), inverse = 1 / z, *to = out + i * out_stride;
        prefetch_row(TO_WRITE, out, out_stride, i + ROWS_AHEAD, s->rows, s->head_dim);
        sums[i] = z;
        if (z == 0) {
            memset(to, 0, sizeof(float) * (size_t)s->head_dim); /* a row without keys */
            continue;
        }
        scale_row(s->head_dim, inverse, st.out + i * st.width, to);
    }
    for (int64_t i = 0; i < s->rows && s->statistics; i++)
        put_statistics(&st, i, sums[i] == 0, entropy ? entropy + i * stride : NULL,
                       mass ? mass + i * stride * SIA_DECADES : NULL);
    if (lse) log_sums(sums, st.reference, s->rows, sums + BQ, lse, stride);
}

#endif
