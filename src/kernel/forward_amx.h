/* SPDX-License-Identifier: MIT
 *
 * The forward pass of a block of queries with AMX: what forward.h computes, with both products in tiles (amx.h), for two
 * strips of 16 queries at a time.
 *
 *     q, k, v   become triples: q when a block of queries begins, k and v once for all blocks of queries
 *     logits    32 queries x 32 keys at a time, from tiles to memory
 *     weights   a row of 32 at a time, from memory to triples, while the tiles are busy with other patches
 *     output    32 x 32 sums over a block of keys
 *
 * Weights are made as if no reference moved from 0, which sums then confirm: they hardly ever do. Where one has moved, or
 * does, or where there is a wild row (amx.h), or statistics are wanted, logits are kept and go through the functions of
 * forward.h: the same bits, later. */
#ifndef SIA_KERNEL_FORWARD_AMX_H
#define SIA_KERNEL_FORWARD_AMX_H

#include "kernel/amx.h"
#include "kernel/forward.h"

_Static_assert(MR == (int)SIDE && NR == (int)SIDE, "a strip and a panel are tiles");

/* Of fewer, most of a tile would be padding. */
enum { AMX_LEAST_DIM = 32 };

/* A patch of the matrix of logits is 32 queries by a block of 256 keys. */
enum { PAIR = 2 * SIDE, GROUPS = BK / PAIR, PAIRS_OF_STRIPS = BQ / PAIR };
_Static_assert(BK % (int)PAIR == 0 && BQ % (int)PAIR == 0, "blocks are whole tiles");

/* A block of keys that is ready for tiles. */
typedef struct amx_block {
    int64_t steps, panels; /* of 32 and of 16 numbers of the head dimension */
    float *k;              /* [BK/16][steps] triples of columns */
    float *v;              /* [BK/32][panels] triples of columns */
    float *k_wild;         /* [BK] whether the key is */
    float *v_wild;         /* [BK] */
    float *wild;           /* whether any of them is */
} amx_block;

/* Counts bytes where there is no memory yet, as in sia_carve. */
INLINE size_t amx_block_places(amx_block *b, int head_dim, float *memory) {
    sia_carve c = {(char *)memory, 0};
    b->steps = (head_dim + DEPTH - 1) / DEPTH;
    b->panels = (head_dim + SIDE - 1) / SIDE;
    b->k = sia_carve_floats(&c, BK / SIDE * b->steps * TRIPLE);
    b->v = sia_carve_floats(&c, BK / DEPTH * b->panels * TRIPLE);
    b->k_wild = sia_carve_floats(&c, BK);
    b->v_wild = sia_carve_floats(&c, BK);
    b->wild = sia_carve_floats(&c, 1);
    return c.used;
}

static size_t amx_block_floats(int head_dim) {
    amx_block b;
    return head_dim < AMX_LEAST_DIM ? block_floats(head_dim)
                                    : amx_block_places(&b, head_dim, NULL) / sizeof(float);
}

/* What the scratch holds behind the state of forward.h. Patches take turns with two rooms for weights, sums and products:
 * while one is multiplied with values, the next becomes weights. */
typedef struct amx_state {
    state st;
    int64_t steps, panels;
    float *q;           /* [BQ/16][steps] triples of rows */
    float *block;       /* room for an amx_block */
    float *weights[2];  /* [GROUPS][2] triples of rows: of the two strips */
    float *products[2]; /* [GROUPS][32][32] q.k */
    float *sums[2];     /* [32][VW] of weights */
    float *logits;      /* [2][MR][BK] */
    float *q_wild;      /* [BQ] whether the row is */
    float *pair_wild;   /* [BQ/32] whether a row of q of the two strips is */
} amx_state;

INLINE size_t amx_places(amx_state *a, int head_dim, float *memory) {
    sia_carve c = {(char *)memory, 0};
    a->panels = (head_dim + SIDE - 1) / SIDE;
    a->steps = (head_dim + DEPTH - 1) / DEPTH;
    a->q = sia_carve_floats(&c, BQ / SIDE * a->steps * TRIPLE);
    a->block = sia_carve_floats(&c, (int64_t)amx_block_floats(head_dim));
    for (int i = 0; i < 2; i++) {
        a->weights[i] = sia_carve_floats(&c, GROUPS * 2 * TRIPLE);
        a->products[i] = sia_carve_floats(&c, GROUPS * PAIR * PAIR);
        a->sums[i] = sia_carve_floats(&c, PAIR * VW);
    }
    a->logits = sia_carve_floats(&c, PAIR * BK);
    a->q_wild = sia_carve_floats(&c, BQ);
    a->pair_wild = sia_carve_floats(&c, PAIRS_OF_STRIPS);
    return c.used;
}

static size_t amx_softmax_floats(int head_dim) {
    amx_state a;
    return softmax_floats(head_dim) + amx_places(&a, head_dim, NULL) / sizeof(float);
}

INLINE amx_state amx_state_of(const sia_softmax *s) {
    amx_state a = {.st = state_of(s)};
    (void)amx_places(&a, s->head_dim, s->scratch + softmax_floats(s->head_dim));
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
            split(panel_row(x, c, panels, apart, row + i, there),
                  panel_row(x, c + 1, panels, apart, row + i, there), triples, i);
        }
}

/* 32 rows of column panels as triples of columns, one for each panel. */
static void split_columns(const float *x, int64_t panels, int64_t apart, int64_t row, int64_t end,
                          const float *wild, float *triples) {
    for (int64_t c = 0; c < panels; c++, triples += TRIPLE)
        for (int i = 0; i < SIDE; i++) {
            int64_t j = row + i, k = j + SIDE;
            split(panel_row(x, c, panels, apart, j, j < end && wild[j] == 0),
                  panel_row(x, c, panels, apart, k, k < end && wild[k] == 0), triples, i);
        }
}

/* A key panel [d][16] as triples of columns; whether a key is wild. */
static bool split_key_panel(const float *k, int d, float *wild, float *triples) {
    vi tame = extent_tame(extent_of_rows(k, SIDE, d));
    vstore(wild, vselect(tame, vzero(), vdup(1)));
    for (int c = 0; c < d; c += DEPTH, triples += TRIPLE)
        for (int i = 0; i < SIDE; i++) {
            int j = c + i, l = j + SIDE;
            vf x = j < d ? vload(k + j * SIDE) : vzero(), y = l < d ? vload(k + l * SIDE) : vzero();
            split((vf)((vi)x & tame), (vf)((vi)y & tame), triples, i);
        }
    return !all_lanes(tame);
}

/* ---------------------------------------------------------------------------------------------- a patch */

/* 32 queries, or 16 where there are no more, and a block of keys. */
typedef struct patch {
    const float *q, *k, *v;       /* triples */
    const float *k_wild, *v_wild; /* of the block's keys */
    const float *all_k, *all_v;   /* the block's panels in floats */
    int64_t v_apart;              /* floats from a panel of v to the next */
    const float *scale, *bias;    /* at the distance of the first query and the first key */
    int64_t row, n, limit;        /* as in strip; limit: keys that the first query sees */
    int groups;                   /* of 32 keys that any row sees */
    int strips, room;
    bool wild; /* whether any of the keys or values is */
} patch;

/* Whether all references of the rows are 0. */
INLINE bool is_unmoved(const amx_state *a, const patch *p) {
    vi unmoved = vload(a->st.unmoved + p->row) != vzero();
    if (p->strips == 2) unmoved &= vload(a->st.unmoved + p->row + MR) != vzero();
    return all_lanes(unmoved);
}

/* `meanwhile` is done between the products. */
#define PATCH_PRODUCTS(a, p, meanwhile)                                                                      \
    {                                                                                                        \
        const float *patch_k = (p)->k;                                                                       \
        int64_t patch_next = (a)->steps * TRIPLE;                                                            \
        for (int group = 0; group < (p)->groups; group++, patch_k += patch_next) {                           \
            const float *patch_q = (p)->q;                                                                   \
            sums_zero();                                                                                     \
            for (int64_t i = 0; i < (a)->steps; i++, patch_q += TRIPLE, patch_k += TRIPLE)                   \
                PRODUCTS_WITH(patch_q, patch_q + patch_next, patch_k, patch_k + patch_next, true, meanwhile) \
            sums_store((a)->products[(p)->room] + group * PAIR * PAIR, PAIR, true);                          \
        }                                                                                                    \
    }

/* out += weights v, two panels at a time. */
#define PATCH_VALUES(a, p, meanwhile)                                                                \
    {                                                                                                \
        const state *patch_st = &(a)->st;                                                            \
        float *patch_begun = patch_st->begun + (p)->row / MR;                                        \
        float *patch_out = patch_st->out + (p)->row * patch_st->width;                               \
        int64_t patch_next = (a)->panels * TRIPLE;                                                   \
        for (int64_t c = 0; c < (a)->panels; c += 2, patch_out += PAIR) {                            \
            bool both = c + 1 < (a)->panels;                                                         \
            const float *patch_w = (a)->weights[(p)->room], *patch_v = (p)->v + c * TRIPLE;          \
            if (*patch_begun != 0)                                                                   \
                sums_load(patch_out, patch_st->width, both);                                         \
            else                                                                                     \
                sums_zero();                                                                         \
            for (int g = 0; g < (p)->groups; g++, patch_w += 2 * TRIPLE, patch_v += patch_next)      \
                PRODUCTS_WITH(patch_w, patch_w + TRIPLE, patch_v, patch_v + TRIPLE, both, meanwhile) \
            sums_store(patch_out, patch_st->width, both);                                            \
        }                                                                                            \
        for (int i = 0; i < (p)->strips; i++) patch_begun[i] = 1;                                    \
    }

/* ---------------------------------------------------------------------------------------------- usual ones */

/* The rows of a patch's weights, as long as their references are 0: in turns with the products of other patches, a few
 * at a time. Everything in it points to the next row. */
typedef struct rows_to_do {
    const float *products, *scale, *bias;
    float *sum, *triple;
    int left, groups; /* rows of this group, groups behind it */
    int due, rate;    /* 256ths of rows that are to be done, and how many more each time */
    int64_t sees, n;  /* keys from the group's first on: that the row sees, that there are */
} rows_to_do;

INLINE rows_to_do rows_of_patch(const amx_state *a, const patch *p, int64_t turns) {
    int rows = p->groups * PAIR;
    return (rows_to_do){.products = a->products[p->room],
                        .scale = p->scale,
                        .bias = p->bias,
                        .sum = a->sums[p->room],
                        .triple = a->weights[p->room],
                        .left = PAIR,
                        .groups = p->groups - 1,
                        .rate = turns > 0 ? (int)((rows * 256 + turns - 1) / turns) : 0,
                        .sees = p->limit,
                        .n = p->n};
}

/* A weight of that much is no usual one. */
#define LOGIT_HIGH 127.0f

INLINE void weights_of_row(rows_to_do *w) {
    vf x = vfma(vload(w->scale), vload(w->products), vload(w->bias));
    vf y = vfma(vload(w->scale + VW), vload(w->products + VW), vload(w->bias + VW));
    if (w->sees < PAIR || w->n < PAIR) {
        int32_t sees = (int32_t)(w->sees < w->n ? w->sees : w->n);
        x = vselect(viota() < sees, x, vdup(-INFINITY));
        y = vselect(viota() < sees - VW, y, vdup(-INFINITY));
    }
    vexp2_from zero = vexp2_reference(vzero());
    x = vmin(vdup(LOGIT_HIGH), x);
    y = vmin(vdup(LOGIT_HIGH), y);
    vexp2_two(&x, zero, &y, zero);
    vstore(w->sum, (vload(w->sum) + x) + y);
    split(x, y, w->triple, 0);
    w->products += PAIR;
    w->scale--;
    w->bias--;
    w->sum += VW;
    w->triple += w->left == SIDE + 1 ? TRIPLE - (SIDE - 1) * SIDE : SIDE;
    w->sees++;
    if (--w->left > 0 || w->groups == 0) return;
    w->left = PAIR;
    w->groups--;
    w->scale += 2 * PAIR;
    w->bias += 2 * PAIR;
    w->sum -= PAIR * VW;
    w->triple += TRIPLE - SIDE * SIDE;
    w->sees -= 2 * PAIR;
    w->n -= PAIR;
}

INLINE void some_rows(rows_to_do *w) {
    for (w->due += w->rate; w->due > 0 && w->left > 0; w->due -= 256) weights_of_row(w);
}
INLINE void all_rows(rows_to_do *w) {
    while (w->left > 0) weights_of_row(w);
}

/* The sums of rows with the patch's weights; false, and nothing has happened, where they or a logit move a reference: a
 * logit that does, above SIA_NEAR or the largest of a row and below LOGIT_LOW, makes no usual sum. */
static bool add_usual_sums(const amx_state *a, const patch *p) {
    float *z = a->st.sum + p->row * VW;
    const float *more = a->sums[p->room];
    vi usual = ~(vi){0};
    for (int r = 0; r < p->strips * MR; r++) {
        vf total = vload(more + r * VW) + vload(z + r * VW);
        usual &= (total > vdup(SUM_LOW)) & (total < vdup(SUM_HIGH / VW));
    }
    if (!all_lanes(usual)) return false;
    for (int r = 0; r < p->strips * MR; r++) vstore(z + r * VW, vload(more + r * VW) + vload(z + r * VW));
    return true;
}

/* ---------------------------------------------------------------------------------------------- any others */

/* q.k of a row and 16 keys, in floats. */
static vf wild_products(const sia_softmax *s, const patch *p, int64_t i, int64_t j) {
    const float *q = s->q + (p->row + i) * SIDE, *k = p->all_k + j * s->head_dim;
    vf sum = vzero();
    for (int c = 0; c < s->head_dim; c++)
        sum = vfma(vdup(q[c / SIDE * s->q_rows * SIDE + c % SIDE]), vload(k + c * SIDE), sum);
    return sum;
}

/* Logits of the wild queries and keys. Behind the diagonal they are masked later. */
static void wild_logits(const sia_softmax *s, const amx_state *a, const patch *p) {
    for (int64_t r = 0; r < p->strips * MR && p->row + r < s->rows; r++)
        for (int64_t j = 0; j < p->n && j < p->limit + r; j += SIDE) {
            vi wild = (vload(p->k_wild + j) != vzero()) | (vdup(a->q_wild[p->row + r]) != vzero());
            if (all_lanes(~wild)) continue;
            const float *scale = p->scale + j - r, *bias = p->bias + j - r;
            float *logits = a->logits + r * BK + j;
            vf x = vfma(vload(scale), wild_products(s, p, r, j), vload(bias));
            vstore(logits, vselect(wild, x, vload(logits)));
        }
}

/* The patch's logits, [2][MR][BK]. */
static void patch_logits(const sia_softmax *s, const amx_state *a, const patch *p) {
    PATCH_PRODUCTS(a, p, )
    for (int g = 0; g < p->groups; g++)
        for (int r = 0; r < PAIR; r++)
            for (int v = 0; v < 2; v++) {
                int at = g * PAIR + v * VW;
                vf product = vload(a->products[p->room] + (g * PAIR + r) * PAIR + v * VW);
                vf logits = vfma(vload(p->scale + at - r), product, vload(p->bias + at - r));
                vstore(a->logits + r * BK + at, logits);
            }
    if (p->wild || a->pair_wild[p->row / PAIR] != 0) wild_logits(s, a, p);
}

/* Weights of one of the strips from its logits, as in forward.h; and what its reference takes from the output. */
static void strip_weights(const sia_softmax *softmax, const amx_state *a, const patch *p, int half) {
    state st = a->st;
    st.logits = a->logits + half * MR * BK;
    int64_t row = p->row + half * MR, limit = p->limit + half * MR;
    int64_t seen = limit + MR - 1 < p->n ? limit + MR - 1 : p->n;
    int64_t columns = seen <= 0 || half >= p->strips ? 0 : columns_for(seen);
    if (columns > 0) {
        strip s = {.d = softmax->head_dim,
                   .row = row,
                   .n = p->n,
                   .limit = limit,
                   .t = limit - 1,
                   .columns = columns};
        float correction[ROWS_IN_VECTORS], *out = st.out + row * st.width;
        weights_strip(&st, &s, softmax->statistics, correction);
        for (int64_t i = 0; st.begun[row / MR] != 0 && i < MR; i++)
            if (correction[i] != 1)
                scale_row((int)st.width, correction[i], out + i * st.width, out + i * st.width);
    }
    for (int g = 0; g < p->groups; g++)
        for (int r = 0; r < MR; r++) {
            float *w = st.logits + r * BK + g * PAIR;
            for (int v = 0; v < 2; v++)
                if (g * PAIR + v * VW >= columns) vstore(w + v * VW, vzero());
            split(vload(w), vload(w + VW), a->weights[p->room] + (2 * g + half) * TRIPLE, r);
        }
}

/* What values that are wild add to the rows that see them. */
static void wild_values(const amx_state *a, const patch *p) {
    int64_t width = a->st.width;
    for (int64_t j = 0; j < p->n; j++) {
        if (p->v_wild[j] == 0) continue;
        for (int64_t r = 0; r < p->strips * MR; r++)
            for (int64_t c = 0; c < width && j < p->limit + r; c += SIDE) {
                float *out = a->st.out + (p->row + r) * width + c;
                vf v = vload(p->all_v + c / SIDE * p->v_apart + j * SIDE);
                vstore(out, vfma(vdup(a->logits[r * BK + j]), v, vload(out)));
            }
    }
}

/* A patch of any kind. */
static void any_patch(const sia_softmax *s, const amx_state *a, const patch *p) {
    patch_logits(s, a, p);
    strip_weights(s, a, p, 0);
    strip_weights(s, a, p, 1);
    PATCH_VALUES(a, p, )
    if (p->wild) wild_values(a, p);
}

/* ---------------------------------------------------------------------------------------------- blocks */

/* Patches whose references are 0, and hardly ever move, one after the other. The tiles work on the products of one patch and the
 * values of the one before, the vectors on the weights between these two. */
NOINLINE void usual_patches(const sia_softmax *s, const amx_state *a, const patch *p, int count) {
    if (count == 0) return;
    PATCH_PRODUCTS(a, p, )
    rows_to_do rows = rows_of_patch(a, p, 0);
    memset(rows.sum, 0, PAIR * VW * sizeof(float));
    for (; count > 0; p++, count--) {
        if (count > 1) PATCH_PRODUCTS(a, p + 1, some_rows(&rows))
        all_rows(&rows);
        bool usual = is_unmoved(a, p) && add_usual_sums(a, p);
        if (count > 1) {
            int64_t turns =
                TURNS * (p->groups * ((a->panels + 1) / 2) + (count > 2 ? p[2].groups * a->steps : 0));
            rows = rows_of_patch(a, p + 1, turns);
            memset(rows.sum, 0, PAIR * VW * sizeof(float));
        }
        if (usual)
            PATCH_VALUES(a, p, some_rows(&rows))
        else
            any_patch(s, a, p);
    }
}

static void amx_softmax_begin(sia_softmax *s) {
    if (s->head_dim >= AMX_LEAST_DIM) s->near = 0; /* which saves more where vectors do all the work */
    softmax_begin(s);
    if (s->head_dim < AMX_LEAST_DIM) return;
    amx_state a = amx_state_of(s);
    bool any = find_wild_rows(s->q, a.panels, s->q_rows * SIDE, s->rows, a.q_wild);
    for (int64_t row = 0; row < s->rows; row += PAIR) {
        bool wild = false;
        for (int64_t i = row; any && i < row + PAIR && i < s->rows; i++) wild = wild || a.q_wild[i] != 0;
        a.pair_wild[row / PAIR] = wild;
        for (int64_t i = row; i < row + PAIR; i += SIDE)
            split_rows(s->q, a.panels, s->q_rows * SIDE, i, s->rows, a.q_wild,
                       a.q + i / SIDE * a.steps * TRIPLE);
    }
}

static void amx_ready_block(int head_dim, const sia_keys *keys, float *out) {
    if (head_dim < AMX_LEAST_DIM) {
        ready_block(head_dim, keys, out);
        return;
    }
    amx_block b;
    (void)amx_block_places(&b, head_dim, out);
    int64_t apart = keys->v_rows * SIDE, floats = b.steps * TRIPLE, n = keys->count;
    bool wild = find_wild_rows(keys->v, b.panels, apart, n, b.v_wild);
    for (int64_t j = 0; j < n; j += PAIR) {
        split_columns(keys->v, b.panels, apart, j, n, b.v_wild, b.v + j / PAIR * b.panels * TRIPLE);
        for (int64_t i = j; i < j + PAIR; i += SIDE)
            if (i < n)
                wild |=
                    split_key_panel(keys->k + i * head_dim, head_dim, b.k_wild + i, b.k + i / SIDE * floats);
            else
                memset(b.k + i / SIDE * floats, 0, (size_t)floats * sizeof(float));
    }
    *b.wild = wild;
}

/* 32 queries from `row` on, and a block. */
INLINE patch patch_of(const sia_softmax *s, const sia_keys *block, const amx_block *b, const amx_state *a,
                      int64_t row) {
    int64_t t = block->offset + row;
    patch p = {.q = a->q + row / SIDE * a->steps * TRIPLE,
               .k = b->k,
               .v = b->v,
               .k_wild = b->k_wild,
               .v_wild = b->v_wild,
               .all_k = block->k,
               .all_v = block->v,
               .v_apart = block->v_rows * SIDE,
               .scale = s->scale - t,
               .bias = s->bias - t,
               .row = row,
               .n = block->count,
               .limit = t + 1,
               .strips = row + MR < s->rows ? 2 : 1,
               .wild = *b->wild != 0};
    int64_t sees = p.limit + p.strips * MR - 1;
    if (sees > p.n) sees = p.n;
    p.groups = sees <= 0 ? 0 : (int)((sees + PAIR - 1) / PAIR);
    return p;
}

static void softmax_block(const sia_softmax *s, const amx_state *a, const sia_keys *block) {
    if (!block->ready) amx_ready_block(s->head_dim, block, a->block);
    amx_block b;
    (void)amx_block_places(&b, s->head_dim, block->ready ? (float *)block->ready : a->block);
    patch patches[PAIRS_OF_STRIPS];
    int usual = 0;
    for (int64_t row = 0; row < s->rows; row += PAIR) {
        patch *p = patches + usual;
        *p = patch_of(s, block, &b, a, row);
        if (p->groups == 0) continue;
        p->room = usual % 2;
        if (s->statistics || p->wild || a->pair_wild[row / PAIR] != 0 || !is_unmoved(a, p))
            any_patch(s, a, p);
        else
            usual++;
    }
    usual_patches(s, a, patches, usual);
}

static void amx_softmax_keys(sia_softmax *s, const sia_keys *keys) {
    if (s->head_dim < AMX_LEAST_DIM) {
        softmax_keys(s, keys);
        return;
    }
    amx_state a = amx_state_of(s);
    tiles_begin();
    for (int64_t first = 0; first < keys->count; first += BK) {
        sia_keys block = *keys;
        block.k += first * s->head_dim;
        block.v += first * SIDE;
        block.count = keys->count - first < BK ? keys->count - first : BK;
        block.offset -= first;
        if (block.ready) block.ready += first / BK * (int64_t)amx_block_floats(s->head_dim);
        softmax_block(s, &a, &block);
    }
    tiles_end();
}

#endif
