/* SPDX-License-Identifier: MIT
 *
 * The forward pass of a block of queries with AMX: what forward.h computes, with both products in tiles (amx.h), for two
 * strips of 16 queries at a time.
 *
 *     q, k, v   become triples: q when a block of queries begins, k and v of a block of keys when it is its turn
 *     logits    32 queries x 32 keys at a time, from tiles to memory
 *     weights   32 x 32, from memory to triples; meanwhile the tiles compute the next logits
 *     output    32 x 32 sums over the block's keys
 *
 * Where a strip needs its largest logits, statistics, or a wild row (amx.h), the logits of the whole block are made
 * first, and go through the functions of forward.h: the same bits, later. */
#ifndef SIA_KERNEL_FORWARD_AMX_H
#define SIA_KERNEL_FORWARD_AMX_H

#include "kernel/amx.h"
#include "kernel/forward.h"

_Static_assert(MR == (int)SIDE && NR == (int)SIDE, "a strip and a panel are tiles");

/* Of fewer, most of a tile would be padding. */
enum { AMX_LEAST_DIM = 32 };

/* Keys in a block: the weights of 32 queries and their q are to stay in the first-level cache. */
enum { AMX_KEYS = 128, PAIR = 2 * SIDE };
_Static_assert(AMX_KEYS % (int)DEPTH == 0 && AMX_KEYS <= (int)BK && (int)BQ % PAIR == 0,
               "blocks are whole tiles");

/* What the scratch holds behind the state of forward.h. */
typedef struct amx_state {
    state st;
    int64_t steps;    /* of 32 numbers of the head dimension */
    int64_t panels;   /* of 16 */
    float *q;         /* [BQ/16][steps] triples of rows */
    float *k;         /* [AMX_KEYS/16][steps] triples of columns */
    float *v;         /* [AMX_KEYS/32][panels] triples of columns */
    float *p;         /* [2][AMX_KEYS/32] triples of rows: weights of the two strips */
    float *sums;      /* [2][32][32] tiles on their way to a vector */
    float *logits;    /* [2][MR][BK] */
    float *q_wild;    /* [BQ] whether the row is */
    float *k_wild;    /* [AMX_KEYS] */
    float *v_wild;    /* [AMX_KEYS] */
    bool *any_wild_q; /* [BQ/32] in the pair of strips */
} amx_state;

INLINE int64_t amx_floats(amx_state *a, int head_dim, float *base) {
    float *at = base;
    a->panels = (head_dim + SIDE - 1) / SIDE;
    a->steps = (head_dim + DEPTH - 1) / DEPTH;
    a->q = at, at += BQ / SIDE * a->steps * TRIPLE;
    a->k = at, at += AMX_KEYS / SIDE * a->steps * TRIPLE;
    a->v = at, at += AMX_KEYS / DEPTH * a->panels * TRIPLE;
    a->p = at, at += 2 * AMX_KEYS / DEPTH * TRIPLE;
    a->sums = at, at += 2 * PAIR * PAIR;
    a->logits = at, at += PAIR * BK;
    a->q_wild = at, at += BQ;
    a->k_wild = at, at += AMX_KEYS;
    a->v_wild = at, at += AMX_KEYS;
    a->any_wild_q = (bool *)at, at += BQ / PAIR;
    return at - base;
}

static size_t state_floats(int head_dim) { return (softmax_floats(head_dim) + SIDE - 1) / SIDE * SIDE; }

static size_t amx_softmax_floats(int head_dim) {
    amx_state a;
    return state_floats(head_dim) + (size_t)amx_floats(&a, head_dim, NULL);
}

INLINE amx_state amx_state_of(const sia_softmax *s) {
    amx_state a = {.st = state_of(s)};
    (void)amx_floats(&a, s->head_dim, s->scratch + state_floats(s->head_dim));
    return a;
}

/* ---------------------------------------------------------------------------------------------- operands */

/* Which of `rows` rows in column panels, `apart` floats from one panel to the next, are wild; whether any is. */
static bool find_wild_rows(const float *x, int64_t panels, int64_t apart, int64_t rows, float *wild) {
    extent all = extent_none();
    for (int64_t c = 0; c < panels; c++) extent_join(&all, extent_of_rows(x + c * apart, SIDE, rows));
    memset(wild, 0, sizeof(float) * (size_t)rows);
    if (all_lanes(extent_tame(all))) return false;
    for (int64_t i = 0; i < rows; i++)
        wild[i] = !all_lanes(extent_tame(extent_of_rows(x + i * SIDE, apart, panels)));
    return true;
}

/* Columns c and c + 16 of row i, zeros where there are none. */
INLINE vf panel_row(const float *x, int64_t panel, int64_t panels, int64_t apart, int64_t i, bool there) {
    return there && panel < panels ? vload(x + panel * apart + i * SIDE) : vzero();
}

/* 16 rows of column panels, from row on, as triples of rows; there are none from `end` on. */
static void split_rows(const float *x, int64_t panels, int64_t apart, int64_t row, int64_t end,
                       const float *wild, float *triples) {
    for (int64_t c = 0; c < panels; c += 2, triples += TRIPLE)
        for (int i = 0; i < SIDE; i++) {
            bool there = row + i < end && !wild[row + i];
            split_row(panel_row(x, c, panels, apart, row + i, there),
                      panel_row(x, c + 1, panels, apart, row + i, there), triples, i);
        }
}

/* 32 rows of column panels as triples of columns, one for each panel. */
static void split_columns(const float *x, int64_t panels, int64_t apart, int64_t row, int64_t end,
                          const float *wild, float *triples) {
    for (int64_t c = 0; c < panels; c++, triples += TRIPLE)
        for (int i = 0; i < SIDE; i++) {
            int64_t j = row + 2 * i;
            split_rows_as_columns(panel_row(x, c, panels, apart, j, j < end && !wild[j]),
                                  panel_row(x, c, panels, apart, j + 1, j + 1 < end && !wild[j + 1]), triples,
                                  i);
        }
}

/* A key panel [d][16] as triples of columns; whether a key is wild. */
static bool split_key_panel(const float *k, int d, float *wild, float *triples) {
    vi tame = extent_tame(extent_of_rows(k, SIDE, d));
    vstore(wild, vselect(tame, vzero(), vdup(1)));
    for (int c = 0; c < d; c += DEPTH, triples += TRIPLE)
        for (int i = 0; i < SIDE; i++) {
            int j = c + 2 * i; /* d is a multiple of 8 */
            vf x = j < d ? vload(k + j * SIDE) : vzero(), y = j < d ? vload(k + (j + 1) * SIDE) : vzero();
            split_rows_as_columns((vf)((vi)x & tame), (vf)((vi)y & tame), triples, i);
        }
    return !all_lanes(tame);
}

/* ---------------------------------------------------------------------------------------------- two strips */

/* Two strips and a block of keys. */
typedef struct strip_pair {
    const amx_state *a;
    const sia_softmax *s;
    const float *k, *v; /* of the block, in floats */
    int64_t v_apart;
    int64_t row, n, limit;     /* as in strip */
    int64_t groups;            /* of 32 keys that any row sees */
    const float *scale, *bias; /* at the distance of row 0 and column 0 */
    int strips;                /* 1 where there are no more rows */
} strip_pair;

INLINE void logits_tiles(const strip_pair *p, int64_t group) {
    const amx_state *a = p->a;
    const float *q = a->q + p->row / SIDE * a->steps * TRIPLE, *k = a->k + 2 * group * a->steps * TRIPLE;
    int64_t next = a->steps * TRIPLE;
    sums_zero();
    for (int64_t i = 0; i < a->steps; i++, q += TRIPLE, k += TRIPLE) products(q, q + next, k, k + next, true);
    sums_store(a->sums + group % 2 * PAIR * PAIR, PAIR, true);
}

/* The logits of two vectors of a row. */
INLINE void logits_of_row(const strip_pair *p, int64_t group, int r, vf *x, vf *y) {
    const float *sums = p->a->sums + group % 2 * PAIR * PAIR + r * PAIR;
    const float *scale = p->scale + group * PAIR - r, *bias = p->bias + group * PAIR - r;
    *x = vfma(vload(scale), vload(sums), vload(bias));
    *y = vfma(vload(scale + VW), vload(sums + VW), vload(bias + VW));
}

INLINE void mask_row(const strip_pair *p, int64_t group, int r, float hidden, vf *x, vf *y) {
    int64_t sees = p->limit + r < p->n ? p->limit + r : p->n;
    int32_t left = sees < 0 ? 0 : (int32_t)(sees - group * PAIR);
    *x = vselect(viota() < left, *x, vdup(hidden));
    *y = vselect(viota() < left - VW, *y, vdup(hidden));
}

/* Weights of row r, where no reference moves for a logit. */
INLINE void near_weights(const strip_pair *p, int64_t group, bool masked, int r, vf *sum) {
    float *triple = p->a->p + (r / SIDE * (AMX_KEYS / DEPTH) + group) * TRIPLE;
    vexp2_from zero = vexp2_reference(vzero());
    vf x, y;
    logits_of_row(p, group, r, &x, &y);
    if (masked) mask_row(p, group, r, -127, &x, &y);
    vexp2_two_near(&x, zero, &y, zero);
    *sum += x;
    *sum += y;
    split_row(x, y, triple, r % SIDE);
}

/* The rows of a group of weights, some at a time. */
typedef struct rows_to_do {
    int64_t group;
    int next, at_a_time;
} rows_to_do;

INLINE void some_weights(const strip_pair *p, rows_to_do *w, bool masked, vf *sum) {
    int end = w->next + w->at_a_time < PAIR ? w->next + w->at_a_time : PAIR;
    for (; w->next < end; w->next++) near_weights(p, w->group, masked, w->next, sum + w->next);
}

/* The logits of a group, and meanwhile the weights of the one before. */
INLINE void logits_and_weights(const strip_pair *p, int64_t group, bool masked, vf *sum) {
    const amx_state *a = p->a;
    const float *q = a->q + p->row / SIDE * a->steps * TRIPLE, *k = a->k + 2 * group * a->steps * TRIPLE;
    int64_t next = a->steps * TRIPLE, turns = TURNS * a->steps;
    rows_to_do w = {group - 1, 0, (int)((PAIR + turns - 1) / turns)};
    sums_zero();
    for (int64_t i = 0; i < a->steps; i++, q += TRIPLE, k += TRIPLE)
        PRODUCTS_WITH(q, q + next, k, k + next, true, some_weights(p, &w, masked, sum))
    sums_store(a->sums + group % 2 * PAIR * PAIR, PAIR, true);
}

/* The sums of rows with weights; false, and nothing has happened, where one moves a reference. */
INLINE bool add_usual_sums(const strip_pair *p, const vf *sum) {
    float *z = p->a->st.sum + p->row * VW;
    vi usual = ~(vi){0};
    for (int r = 0; r < p->strips * MR; r++) {
        vf total = sum[r] + vload(z + r * VW);
        usual &= (total > vdup(SUM_LOW)) & (total < vdup(SUM_HIGH / VW));
    }
    if (!all_lanes(usual)) return false;
    for (int r = 0; r < p->strips * MR; r++) vstore(z + r * VW, sum[r] + vload(z + r * VW));
    return true;
}

INLINE void output_load(const strip_pair *p, int64_t panel, bool both) {
    const state *st = &p->a->st;
    if (st->begun[p->row / MR] != 0)
        sums_load(st->out + p->row * st->width + panel * SIDE, st->width, both);
    else
        sums_zero();
}
INLINE void output_store(const strip_pair *p, int64_t panel, bool both) {
    const state *st = &p->a->st;
    sums_store(st->out + p->row * st->width + panel * SIDE, st->width, both);
}

/* Weights of groups from .. to - 1 times two panels of values, or one. */
INLINE void values_products(const strip_pair *p, int64_t panel, int64_t from, int64_t to, bool both) {
    const amx_state *a = p->a;
    const float *w = a->p + from * TRIPLE, *v = a->v + (from * a->panels + panel) * TRIPLE;
    for (; from < to; from++, w += TRIPLE, v += a->panels * TRIPLE)
        products(w, w + AMX_KEYS / DEPTH * TRIPLE, v, v + TRIPLE, both);
}

/* out += weights v, from a panel on. */
static void rest_of_values(const strip_pair *p, int64_t panel) {
    for (; panel < p->a->panels; panel += 2) {
        bool both = panel + 1 < p->a->panels;
        output_load(p, panel, both);
        if (both)
            values_products(p, panel, 0, p->groups, true);
        else
            values_products(p, panel, 0, p->groups, false);
        output_store(p, panel, both);
    }
    for (int i = 0; i < p->strips; i++) p->a->st.begun[p->row / MR + i] = 1;
}

/* All but the last group times the first two panels of values, and meanwhile the weights of the last. */
INLINE void values_and_weights(const strip_pair *p, bool masked, vf *sum) {
    const amx_state *a = p->a;
    const float *w = a->p, *v = a->v;
    int64_t last = p->groups - 1, turns = TURNS * last;
    rows_to_do rows = {last, 0, turns ? (int)((PAIR + turns - 1) / turns) : PAIR};
    for (int64_t g = 0; g < last; g++, w += TRIPLE, v += a->panels * TRIPLE)
        PRODUCTS_WITH(w, w + AMX_KEYS / DEPTH * TRIPLE, v, v + TRIPLE, true,
                      some_weights(p, &rows, masked, sum))
    some_weights(p, &rows, masked, sum);
}

/* A block of keys where no reference moves for a logit. False, and nothing has happened, if one does for the sums. */
NOINLINE bool near_pair(const strip_pair *p) {
    vf sum[PAIR];
    for (int r = 0; r < PAIR; r++) sum[r] = vzero();
    logits_tiles(p, 0);
    int64_t whole = (p->limit < p->n ? p->limit : p->n) / PAIR; /* groups that all rows see */
    for (int64_t g = 1; g < p->groups; g++)
        if (g <= whole)
            logits_and_weights(p, g, false, sum);
        else
            logits_and_weights(p, g, true, sum);
    output_load(p, 0, true);
    if (p->groups <= whole)
        values_and_weights(p, false, sum);
    else
        values_and_weights(p, true, sum);
    if (!add_usual_sums(p, sum)) return false;
    values_products(p, 0, p->groups - 1, p->groups, true);
    output_store(p, 0, true);
    rest_of_values(p, 2);
    return true;
}

/* q.k of a row and 16 keys, in floats. */
static vf wild_products(const strip_pair *p, int64_t i, int64_t j) {
    const float *q = p->s->q + (p->row + i) * SIDE, *k = p->k + j * p->s->head_dim;
    vf sum = vzero();
    for (int c = 0; c < p->s->head_dim; c++)
        sum = vfma(vdup(q[c / SIDE * p->s->q_rows * SIDE + c % SIDE]), vload(k + c * SIDE), sum);
    return sum;
}

/* Logits of the wild queries and keys. Behind the diagonal they are masked later. */
static void wild_logits(const strip_pair *p) {
    const amx_state *a = p->a;
    for (int64_t r = 0; r < p->strips * MR && p->row + r < p->s->rows; r++)
        for (int64_t j = 0; j < p->n && j < p->limit + r; j += SIDE) {
            vi wild = (vload(a->k_wild + j) != vzero()) | (vdup(a->q_wild[p->row + r]) != vzero());
            if (all_lanes(~wild)) continue;
            const float *scale = p->scale + j - r, *bias = p->bias + j - r;
            float *logits = a->logits + r * BK + j;
            vf x = vfma(vload(scale), wild_products(p, r, j), vload(bias));
            vstore(logits, vselect(wild, x, vload(logits)));
        }
}

/* The block's logits, [2][MR][BK]. */
static void pair_logits(const strip_pair *p, bool wild) {
    const amx_state *a = p->a;
    for (int64_t g = 0; g < p->groups; g++) {
        logits_tiles(p, g);
        for (int r = 0; r < PAIR; r++) {
            vf x, y;
            logits_of_row(p, g, r, &x, &y);
            vstore(a->logits + r * BK + g * PAIR, x);
            vstore(a->logits + r * BK + g * PAIR + VW, y);
        }
    }
    if (wild) wild_logits(p);
}

/* Weights of one of the strips from its logits, any of them, as in forward.h; and what its reference takes from the
 * output. */
static void strip_weights(const strip_pair *p, int half) {
    const amx_state *a = p->a;
    state st = a->st;
    st.logits = a->logits + half * MR * BK;
    int64_t row = p->row + half * MR, limit = p->limit + half * MR;
    int64_t seen = limit + MR - 1 < p->n ? limit + MR - 1 : p->n,
            columns = seen <= 0 || half >= p->strips ? 0 : columns_for(seen);
    if (columns > 0) {
        strip s = {
            .d = p->s->head_dim, .row = row, .n = p->n, .limit = limit, .t = limit - 1, .columns = columns};
        float correction[ROWS_IN_VECTORS], *near = st.near + row / MR, *out = st.out + row * st.width;
        if (*near != 0)
            *near = near_weights_strip(&st, &s, correction);
        else
            weights_strip(&st, &s, p->s->statistics, correction);
        for (int64_t i = 0; st.begun[row / MR] != 0 && i < MR; i++)
            if (correction[i] != 1)
                scale_row((int)st.width, correction[i], out + i * st.width, out + i * st.width);
    }
    for (int64_t g = 0; g < p->groups; g++)
        for (int r = 0; r < MR; r++) {
            float *w = st.logits + r * BK + g * PAIR;
            if (g * PAIR + VW > columns - VW) /* rest of a group of which the strip sees not all */
                for (int64_t j = columns - g * PAIR < 0 ? 0 : columns - g * PAIR; j < PAIR; j += VW)
                    vstore(w + j, vzero());
            split_row(vload(w), vload(w + VW), a->p + (half * (AMX_KEYS / DEPTH) + g) * TRIPLE, r);
        }
}

/* What values that are wild add to the rows that see them. */
static void wild_values(const strip_pair *p) {
    const amx_state *a = p->a;
    int64_t width = a->st.width;
    for (int64_t j = 0; j < p->n; j++) {
        if (!a->v_wild[j]) continue;
        for (int64_t r = 0; r < p->strips * MR; r++)
            for (int64_t c = 0; c < width && j < p->limit + r; c += SIDE) {
                float *out = a->st.out + (p->row + r) * width + c;
                vf v = vload(p->v + c / SIDE * p->v_apart + j * SIDE);
                vstore(out, vfma(vdup(a->logits[r * BK + j]), v, vload(out)));
            }
    }
}

/* ---------------------------------------------------------------------------------------------- the block */

static void amx_softmax_begin(sia_softmax *s) {
    softmax_begin(s);
    if (s->head_dim < AMX_LEAST_DIM) return;
    amx_state a = amx_state_of(s);
    (void)find_wild_rows(s->q, a.panels, s->q_rows * SIDE, s->rows, a.q_wild);
    for (int64_t row = 0; row < s->rows; row += PAIR) {
        bool wild = false;
        for (int64_t i = row; i < row + PAIR && i < s->rows; i++) wild = wild || a.q_wild[i] != 0;
        a.any_wild_q[row / PAIR] = wild;
        for (int64_t i = row; i < row + PAIR; i += SIDE)
            split_rows(s->q, a.panels, s->q_rows * SIDE, i, s->rows, a.q_wild,
                       a.q + i / SIDE * a.steps * TRIPLE);
    }
}

static void softmax_pair(const sia_softmax *s, const amx_state *a, strip_pair *p, bool wild_k, bool wild_v) {
    p->strips = p->row + MR < s->rows ? 2 : 1;
    int64_t sees = p->limit + p->strips * MR - 1;
    if (sees <= 0) return;
    p->groups = ((sees < p->n ? sees : p->n) + PAIR - 1) / PAIR;
    const float *near = a->st.near + p->row / MR;
    bool wild = wild_k || a->any_wild_q[p->row / PAIR];
    if (!wild && !wild_v && near[0] != 0 && (p->strips == 1 || near[1] != 0) && near_pair(p)) return;
    pair_logits(p, wild);
    strip_weights(p, 0);
    strip_weights(p, 1);
    rest_of_values(p, 0);
    if (wild_v) wild_values(p);
}

static void amx_softmax_keys(sia_softmax *s, const sia_keys *keys) {
    if (s->head_dim < AMX_LEAST_DIM) {
        softmax_keys(s, keys);
        return;
    }
    amx_state a = amx_state_of(s);
    tiles_begin();
    for (int64_t first = 0; first < keys->count; first += AMX_KEYS) {
        int64_t n = keys->count - first < AMX_KEYS ? keys->count - first : AMX_KEYS;
        const float *k = keys->k + first * s->head_dim, *v = keys->v + first * SIDE;
        bool wild_k = false;
        for (int64_t j = 0; j < AMX_KEYS && j < (n + PAIR - 1) / PAIR * PAIR; j += SIDE) {
            float *triples = a.k + j / SIDE * a.steps * TRIPLE;
            if (j < n)
                wild_k |= split_key_panel(k + j * s->head_dim, s->head_dim, a.k_wild + j, triples);
            else
                memset(triples, 0, (size_t)(a.steps * TRIPLE) * sizeof(float));
        }
        bool wild_v = find_wild_rows(v, a.panels, keys->v_rows * SIDE, n, a.v_wild);
        for (int64_t j = 0; j < n; j += DEPTH)
            split_columns(v, a.panels, keys->v_rows * SIDE, j, n, a.v_wild,
                          a.v + j / DEPTH * a.panels * TRIPLE);
        for (int64_t row = 0; row < s->rows; row += PAIR) {
            int64_t t = keys->offset + row - first;
            strip_pair p = {.a = &a,
                            .s = s,
                            .k = k,
                            .v = v,
                            .v_apart = keys->v_rows * SIDE,
                            .row = row,
                            .n = n,
                            .limit = t + 1,
                            .scale = s->scale - t,
                            .bias = s->bias - t};
            softmax_pair(s, &a, &p, wild_k, wild_v);
        }
    }
    tiles_end();
}

#endif
