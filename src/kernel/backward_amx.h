/* SPDX-License-Identifier: MIT
 *
 * The backward pass of one block of keys against one block of queries with AMX: what backward.h computes, with all five
 * products in tiles (amx.h).
 *
 *     s = q k^T, dp = dO v^T     32 queries x 32 keys at a time, from tiles to memory
 *     p, ds                      32 x 32, from memory to triples; meanwhile the tiles compute the next s and dp
 *     dq  += ds k                ds as rows
 *     dv' += dO' p               turned by 90 degrees, [d][keys]: p and ds as columns, which are two rows of them in
 *     dk' += q' ds               turns, while p' and ds' would have to be turned for every pair of blocks
 *
 * k and v become triples once for all blocks of queries, by gradient_begin; gradient_end turns dk' and
 * dv' back. A pair of blocks with a wild row goes through backward.h. */
#ifndef SIA_KERNEL_BACKWARD_AMX_H
#define SIA_KERNEL_BACKWARD_AMX_H

#include "kernel/amx.h"
#include "kernel/backward.h"
#include "kernel/forward_amx.h"

enum { PAIRS = GQ / PAIR, KEY_GROUPS = GK / PAIR };
_Static_assert(GQ % (int)PAIR == 0 && GK % (int)PAIR == 0, "blocks are whole pairs of tiles");

/* What sia_gradient.weights holds behind the weights of backward.h. */
typedef struct amx_gradient {
    int64_t steps, panels; /* of 32 and of 16 numbers of the head dimension */
    float *k_t, *v_t;      /* [GK/16][steps] triples of columns */
    float *k;              /* [GK/32][panels] triples of columns */
    float *q, *d_out;      /* [GQ/16][steps] triples of rows */
    float *q_t; /* [2 steps][GQ/32] triples of rows: 16 numbers of the head dimension of 32 queries */
    float *d_out_t;
    float *p, *ds_columns; /* [GQ/32][GK/16] triples of columns */
    float *ds_rows;        /* [GQ/16][GK/32] triples of rows */
    float *s, *dp;         /* [2][32][32] tiles on their way to a vector */
    float *dk_t, *dv_t;    /* [2 steps * 16][GK] */
    float *wild;           /* [GK] room to tell which rows are */
    float *wild_keys;      /* whether any of the block's keys or values is */
    float *wild_pair;      /* whether any of the pair of blocks is */
} amx_gradient;

INLINE size_t amx_gradient_places(amx_gradient *a, int head_dim, float *memory) {
    sia_carve c = {(char *)memory, 0};
    a->panels = (head_dim + SIDE - 1) / SIDE;
    a->steps = (head_dim + DEPTH - 1) / DEPTH;
    a->k_t = sia_carve_floats(&c, GK / SIDE * a->steps * TRIPLE);
    a->v_t = sia_carve_floats(&c, GK / SIDE * a->steps * TRIPLE);
    a->k = sia_carve_floats(&c, KEY_GROUPS * a->panels * TRIPLE);
    a->q = sia_carve_floats(&c, GQ / SIDE * a->steps * TRIPLE);
    a->d_out = sia_carve_floats(&c, GQ / SIDE * a->steps * TRIPLE);
    a->q_t = sia_carve_floats(&c, 2 * a->steps * PAIRS * TRIPLE);
    a->d_out_t = sia_carve_floats(&c, 2 * a->steps * PAIRS * TRIPLE);
    a->p = sia_carve_floats(&c, PAIRS * (GK / SIDE) * TRIPLE);
    a->ds_columns = sia_carve_floats(&c, PAIRS * (GK / SIDE) * TRIPLE);
    a->ds_rows = sia_carve_floats(&c, GQ / SIDE * KEY_GROUPS * TRIPLE);
    a->s = sia_carve_floats(&c, 2 * PAIR * PAIR);
    a->dp = sia_carve_floats(&c, 2 * PAIR * PAIR);
    a->dk_t = sia_carve_floats(&c, a->steps * DEPTH * GK);
    a->dv_t = sia_carve_floats(&c, a->steps * DEPTH * GK);
    a->wild = sia_carve_floats(&c, GK);
    a->wild_keys = sia_carve_floats(&c, 1);
    a->wild_pair = sia_carve_floats(&c, 1);
    return c.used;
}

static size_t amx_gradient_floats(int head_dim) {
    amx_gradient a;
    return gradient_floats(head_dim) + amx_gradient_places(&a, head_dim, NULL) / sizeof(float);
}

INLINE amx_gradient amx_gradient_of(const sia_gradient *g) {
    amx_gradient a;
    (void)amx_gradient_places(&a, g->head_dim, g->weights + gradient_floats(g->head_dim));
    return a;
}

/* ---------------------------------------------------------------------------------------------- operands */

static void amx_gradient_begin(const sia_gradient *g) {
    gradient_begin(g);
    if (g->head_dim < AMX_LEAST_DIM) return;
    amx_gradient a = amx_gradient_of(g);
    int d = g->head_dim;
    bool wild = find_wild_rows(g->k, a.panels, g->k_panel, g->k_rows, a.wild);
    for (int64_t j = 0; j < g->k_rows; j += PAIR)
        split_columns(g->k, a.panels, g->k_panel, j, g->k_rows, a.wild, a.k + j / PAIR * a.panels * TRIPLE);
    for (int64_t j = 0; j < (g->k_rows + PAIR - 1) / PAIR * PAIR; j += SIDE) {
        float *k_t = a.k_t + j / SIDE * a.steps * TRIPLE, *v_t = a.v_t + j / SIDE * a.steps * TRIPLE;
        if (j < g->k_rows) {
            wild |= split_key_panel(g->k_t + j * d, d, a.wild, k_t);
            wild |= split_key_panel(g->v_t + j * d, d, a.wild, v_t);
        } else {
            memset(k_t, 0, (size_t)(a.steps * TRIPLE) * sizeof(float));
            memset(v_t, 0, (size_t)(a.steps * TRIPLE) * sizeof(float));
        }
    }
    *a.wild_keys = wild;
    memset(a.dk_t, 0, (size_t)(a.steps * DEPTH * GK) * sizeof(float));
    memset(a.dv_t, 0, (size_t)(a.steps * DEPTH * GK) * sizeof(float));
}

/* 32 queries of column panels, from row on, as triples of rows of their transpose, one for each panel; zeros where
 * there is no panel. */
static void split_turned(const float *x, const amx_gradient *a, int64_t row, float *triples) {
    float turned[SIDE * PAIR];
    for (int64_t c = 0; c < 2 * a->steps; c++, triples += PAIRS * TRIPLE) {
        if (c >= a->panels) {
            memset(triples, 0, TRIPLE * sizeof(float));
            continue;
        }
        for (int i = 0; i < PAIR; i += 8) {
            const float *rows[8];
            for (int r = 0; r < 8; r++) rows[r] = x + (c * GQ + row + i + r) * SIDE;
            transpose8(rows, 0, turned + i, PAIR, NULL);
            transpose8(rows, 8, turned + 8 * PAIR + i, PAIR, NULL);
        }
        for (int i = 0; i < SIDE; i++)
            split(vload(turned + i * PAIR), vload(turned + i * PAIR + VW), triples, i);
    }
}

/* q and dO of the block; rows behind the last are zeros in the panels. */
static bool split_queries(const sia_gradient *g, const amx_gradient *a) {
    if (find_wild_rows(g->q, a->panels, GQ * SIDE, g->q_rows, a->wild)) return false;
    if (find_wild_rows(g->d_out, a->panels, GQ * SIDE, g->q_rows, a->wild)) return false;
    for (int64_t row = 0; row < g->q_rows; row += PAIR) {
        for (int64_t i = row; i < row + PAIR; i += SIDE) {
            split_rows(g->q, a->panels, GQ * SIDE, i, g->q_rows, a->wild,
                       a->q + i / SIDE * a->steps * TRIPLE);
            split_rows(g->d_out, a->panels, GQ * SIDE, i, g->q_rows, a->wild,
                       a->d_out + i / SIDE * a->steps * TRIPLE);
        }
        split_turned(g->q, a, row, a->q_t + row / PAIR * TRIPLE);
        split_turned(g->d_out, a, row, a->d_out_t + row / PAIR * TRIPLE);
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------- weights */

/* 32 queries from `row` on, and the groups of 32 keys that any of them sees. */
typedef struct gradient_pair {
    const sia_gradient *g;
    const amx_gradient *a;
    int64_t row, limit, groups; /* limit: keys that the first of them sees */
    const float *scale, *bias;
} gradient_pair;

INLINE gradient_pair gradient_pair_of(const sia_gradient *g, const amx_gradient *a, int64_t row) {
    int64_t t = g->offset + row, last = t + PAIR < g->k_rows ? t + PAIR : g->k_rows;
    return (gradient_pair){.g = g,
                           .a = a,
                           .row = row,
                           .limit = t + 1,
                           .groups = last <= 0 ? 0 : (last + PAIR - 1) / PAIR,
                           .scale = g->scale - t,
                           .bias = g->bias - t};
}

/* The weights of a group of keys, two rows at a time, i and i + 16, spread among the products of the next group. Everything
 * in it points to the next of these rows. */
typedef struct row_pairs {
    const float *s, *dp;
    const float *scale, *bias, *lse, *delta;
    float *p, *ds_columns, *ds_rows;
    int left;             /* pairs of rows */
    int due, rate;        /* 256ths of them that are to be done, and how many more each time */
    int32_t sees;         /* keys from the group's first on that row i sees */
    int32_t n, rows_left; /* keys of the group; rows of the block from row i on */
    bool masked;
} row_pairs;

static row_pairs row_pairs_of(const gradient_pair *w, int64_t group, int64_t turns) {
    const amx_gradient *a = w->a;
    int64_t pair = w->row / PAIR, columns = (pair * (GK / SIDE) + 2 * group) * TRIPLE,
            n = w->g->k_rows - group * PAIR;
    int64_t sees = w->limit - group * PAIR, rows = w->g->q_rows - w->row;
    return (row_pairs){.s = a->s + group % 2 * PAIR * PAIR,
                       .dp = a->dp + group % 2 * PAIR * PAIR,
                       .scale = w->scale + group * PAIR,
                       .bias = w->bias + group * PAIR,
                       .lse = w->g->lse + w->row,
                       .delta = w->g->delta + w->row,
                       .p = a->p + columns,
                       .ds_columns = a->ds_columns + columns,
                       .ds_rows = a->ds_rows + (2 * pair * KEY_GROUPS + group) * TRIPLE,
                       .left = SIDE,
                       .rate = (int)((SIDE * 256 + turns - 1) / turns),
                       .sees = sees < -PAIR  ? -PAIR
                               : sees > PAIR ? PAIR
                                             : (int32_t)sees,
                       .n = n < PAIR ? (int32_t)n : PAIR,
                       .rows_left = rows < PAIR ? (int32_t)rows : PAIR,
                       .masked = sees < PAIR || n < PAIR || rows < PAIR};
}

/* Two vectors of p and of ds of row r = 0 or 16 behind the next one. */
INLINE void gradient_of_row(const row_pairs *w, int r, vf p[2], vf ds[2]) {
    const float *scale = w->scale - r, *bias = w->bias - r, *s = w->s + r * PAIR, *dp = w->dp + r * PAIR;
    vf lse = vdup(w->lse[r]), delta = vdup(w->delta[r]);
    vexp2_from zero = vexp2_reference(vzero());
    for (int v = 0; v < 2; v++)
        p[v] = vmin(vzero(), vfma(vload(scale + v * VW), vload(s + v * VW), vload(bias + v * VW)) - lse);
    vexp2_two(&p[0], zero, &p[1], zero);
    for (int v = 0; v < 2; v++) ds[v] = (vload(dp + v * VW) - delta) * (p[v] * vload(scale + v * VW));
    if (!w->masked) return;
    int32_t sees = r < w->rows_left ? w->sees + r : 0;
    if (sees > w->n) sees = w->n;
    for (int v = 0; v < 2; v++) {
        vi seen = viota() < sees - v * VW;
        p[v] = vselect(seen, p[v], vzero());
        ds[v] = vselect(seen, ds[v], vzero());
    }
}

INLINE void two_rows(row_pairs *w) {
    vf p[2][2], ds[2][2];
    for (int r = 0; r < 2; r++) gradient_of_row(w, r * SIDE, p[r], ds[r]);
    for (int v = 0; v < 2; v++) split(p[0][v], p[1][v], w->p + v * TRIPLE, 0);
    split_both_ways(ds, w->ds_rows, KEY_GROUPS * TRIPLE, w->ds_columns, 0);
    w->s += PAIR;
    w->dp += PAIR;
    w->scale--;
    w->bias--;
    w->lse++;
    w->delta++;
    w->p += SIDE;
    w->ds_columns += SIDE;
    w->ds_rows += SIDE;
    w->sees++;
    w->rows_left--;
    w->left--;
}

INLINE void some_row_pairs(row_pairs *w) {
    for (w->due += w->rate; w->due > 0 && w->left > 0; w->due -= 256) two_rows(w);
}

/* s and dp of a group, and meanwhile the weights of the one before. */
INLINE void products_and_weights(const gradient_pair *w, int64_t group, row_pairs *todo) {
    const amx_gradient *a = w->a;
    int64_t next = a->steps * TRIPLE;
    const float *rows[] = {a->q + w->row / SIDE * next, a->d_out + w->row / SIDE * next};
    const float *columns[] = {a->k_t + 2 * group * next, a->v_t + 2 * group * next};
    float *out[] = {a->s, a->dp};
    for (int x = 0; x < 2; x++) {
        const float *left = rows[x], *right = columns[x];
        sums_zero();
        for (int64_t i = 0; i < a->steps; i++, left += TRIPLE, right += TRIPLE)
            PRODUCTS_WITH(left, left + next, right, right + next, true, some_row_pairs(todo))
        sums_store(out[x] + group % 2 * PAIR * PAIR, PAIR, true);
    }
    while (todo->left > 0) two_rows(todo);
}

NOINLINE void pair_gradient_weights(const gradient_pair *w) {
    row_pairs todo = {0};
    for (int64_t group = 0; group < w->groups; group++) {
        products_and_weights(w, group, &todo);
        todo = row_pairs_of(w, group, 2 * TURNS * w->a->steps);
    }
    while (todo.left > 0) two_rows(&todo);
}

static void amx_gradient_weights(const sia_gradient *g) {
    if (g->head_dim < AMX_LEAST_DIM) {
        gradient_weights(g);
        return;
    }
    amx_gradient a = amx_gradient_of(g);
    *a.wild_pair = *a.wild_keys != 0 || !split_queries(g, &a);
    if (*a.wild_pair != 0) {
        gradient_weights(g);
        return;
    }
    tiles_begin();
    for (int64_t row = 0; row < g->q_rows; row += PAIR) {
        gradient_pair w = gradient_pair_of(g, &a, row);
        if (w.groups > 0) pair_gradient_weights(&w);
    }
    tiles_end();
}

/* ---------------------------------------------------------------------------------------------- gradients */

/* 32 queries of dq. */
NOINLINE void pair_query_gradient(const gradient_pair *w, bool first) {
    const amx_gradient *a = w->a;
    int64_t width = a->panels * SIDE;
    for (int64_t c = 0; c < a->panels; c += 2) {
        bool both = c + 1 < a->panels;
        float *out = w->g->d_q + w->row * width + c * SIDE;
        const float *ds = a->ds_rows + 2 * (w->row / PAIR) * KEY_GROUPS * TRIPLE, *k = a->k + c * TRIPLE;
        if (first)
            sums_zero();
        else
            sums_load(out, width, both);
        for (int64_t j = 0; j < w->groups; j++, ds += TRIPLE, k += a->panels * TRIPLE)
            if (both)
                products(ds, ds + KEY_GROUPS * TRIPLE, k, k + TRIPLE, true);
            else
                products(ds, ds + KEY_GROUPS * TRIPLE, k, k, false);
        sums_store(out, width, both);
    }
}

static void amx_gradient_q(const sia_gradient *g, bool first) {
    amx_gradient a = amx_gradient_of(g);
    if (g->head_dim < AMX_LEAST_DIM || *a.wild_pair != 0) {
        gradient_q(g, first);
        return;
    }
    tiles_begin();
    for (int64_t row = 0; row < g->q_rows; row += PAIR) {
        gradient_pair w = gradient_pair_of(g, &a, row);
        if (first || w.groups > 0) pair_query_gradient(&w, first);
    }
    tiles_end();
}

/* out' += left right, for the queries of all pairs that see a key of the group. */
NOINLINE void key_gradients(const sia_gradient *g, const amx_gradient *a, const float *left,
                            const float *right, float *out) {
    for (int64_t group = 0; group * PAIR < g->k_rows; group++) {
        int64_t first = 0, pairs = (g->q_rows + PAIR - 1) / PAIR;
        while (first < pairs && gradient_pair_of(g, a, first * PAIR).groups <= group) first++;
        for (int64_t c = 0; c < 2 * a->steps && first < pairs; c += 2) {
            float *sums = out + c * SIDE * GK + group * PAIR;
            sums_load(sums, GK, true);
            for (int64_t i = first; i < pairs; i++) {
                const float *rows = left + (c * PAIRS + i) * TRIPLE;
                const float *columns = right + (i * (GK / SIDE) + 2 * group) * TRIPLE;
                products(rows, rows + PAIRS * TRIPLE, columns, columns + TRIPLE, true);
            }
            sums_store(sums, GK, true);
        }
    }
}

static void amx_gradient_kv(const sia_gradient *g) {
    amx_gradient a = amx_gradient_of(g);
    if (g->head_dim < AMX_LEAST_DIM || *a.wild_pair != 0) {
        gradient_kv(g);
        return;
    }
    tiles_begin();
    key_gradients(g, &a, a.d_out_t, a.p, a.dv_t);
    key_gradients(g, &a, a.q_t, a.ds_columns, a.dk_t);
    tiles_end();
}

/* out += the transpose of x [d][GK]. */
static void add_turned(const float *x, int64_t rows, int64_t width, float *out) {
    float turned[8 * 8];
    for (int64_t i = 0; i < rows; i += 8)
        for (int64_t c = 0; c < width; c += 8) {
            const float *row[8];
            for (int r = 0; r < 8; r++) row[r] = x + (c + r) * GK;
            transpose8(row, i, turned, 8, NULL);
            for (int64_t r = 0; r < 8 && i + r < rows; r++)
                store8(out + (i + r) * width + c, load8(out + (i + r) * width + c) + load8(turned + r * 8));
        }
}

static void amx_gradient_end(const sia_gradient *g) {
    gradient_end(g);
    if (g->head_dim < AMX_LEAST_DIM) return;
    amx_gradient a = amx_gradient_of(g);
    add_turned(a.dk_t, g->k_rows, a.panels * SIDE, g->d_k);
    add_turned(a.dv_t, g->k_rows, a.panels * SIDE, g->d_v);
}

#endif
