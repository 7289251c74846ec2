/* SPDX-License-Identifier: MIT
 *
 * Matrix products for the model with AMX: what multiply.h computes, c = alpha a b + beta c, in tiles (amx.h).
 *
 *     a     96 rows become triples, which serve all columns
 *     b     two panels become triples, which serve all these rows; meanwhile the tiles compute with the two before
 *     c     sums of 32 x 32 over a block of terms, from tiles to memory, and from there to c
 *
 * What is in a wild row of a or a wild column of b comes from the tiles of registers of multiply.h; all else is what it
 * would be without them. */
#ifndef SIA_KERNEL_MULTIPLY_AMX_H
#define SIA_KERNEL_MULTIPLY_AMX_H

#include "kernel/amx.h"
#include "kernel/forward_amx.h"
#include "kernel/multiply.h"

_Static_assert(MR == (int)SIDE && NR == (int)SIDE, "a strip and a panel are tiles");

/* The triples of a block of rows and of TERMS, 248 KiB with those of b, are on the stack. Below FEWEST_TERMS, and where
 * there are no more than 16 rows or columns, vectors are faster. */
enum { AMX_ROWS = SIA_BLOCK_ROWS, TERMS = 256, STEPS = TERMS / DEPTH, FEWEST_TERMS = DEPTH };
_Static_assert(AMX_ROWS % (int)PAIR == 0 && TERMS <= (int)BLOCK, "blocks are whole tiles");

/* Two panels of b. */
typedef struct panel_pair {
    _Alignas(64) float triples[2][STEPS * TRIPLE]; /* of columns */
    vi tame[2];                                    /* -1 for columns that are */
} panel_pair;

/* A block of rows and of terms. */
typedef struct tiled_product {
    _Alignas(64) float a[AMX_ROWS / SIDE][STEPS * TRIPLE]; /* of rows */
    panel_pair b[2];
    float sums[PAIR * PAIR];
    bool wild[AMX_ROWS];
    bool any_wild[AMX_ROWS / SIDE];
    const sia_multiply *p;
    int64_t row, rows;
    int64_t from, terms, steps;
} tiled_product;

/* ---------------------------------------------------------------------------------------------- operands */

INLINE int64_t lesser(int64_t x, int64_t y) { return x < y ? x : y; }

/* 16 numbers, of which `count` are there: zeros behind them. */
INLINE vf vload_some(const float *x, int64_t count) {
    if (count >= VW) return vload(x);
    float part[VW] = {0};
    for (int64_t i = 0; i < count; i++) part[i] = x[i];
    return vload(part);
}

/* 16 rows of a, from row i of the block on. Behind the last row it comes again. */
static void split_strip_by_rows(tiled_product *t, int64_t i) {
    const sia_multiply *p = t->p;
    for (int r = 0; r < SIDE; r++) {
        const float *x = p->a + (t->row + lesser(i + r, t->rows - 1)) * p->a_stride + t->from;
        float *triples = t->a[i / SIDE];
        extent seen = extent_none();
        for (int64_t k = 0; k < t->terms; k += DEPTH, triples += TRIPLE) {
            vf low = vload_some(x + k, t->terms - k), high = vload_some(x + k + VW, t->terms - k - VW);
            extent_add(&seen, low);
            extent_add(&seen, high);
            split(low, high, triples, r);
        }
        t->wild[i + r] = !all_lanes(extent_tame(seen));
    }
}

/* The same from a strip [k][16], which is turned. */
static void split_strip_by_columns(tiled_product *t, int64_t i) {
    static const float nothing[SIDE];
    float turned[SIDE * DEPTH], *triples = t->a[i / SIDE];
    const float *x = t->p->a + (t->row + i) * t->p->k + t->from * SIDE;
    vi tame = extent_tame(extent_of_rows(x, SIDE, t->terms));
    for (int r = 0; r < SIDE; r++) t->wild[i + r] = !tame[r];
    for (int64_t k = 0; k < t->terms; k += DEPTH, triples += TRIPLE) {
        for (int j = 0; j < DEPTH; j += 8) {
            const float *rows[8];
            for (int r = 0; r < 8; r++) rows[r] = k + j + r < t->terms ? x + (k + j + r) * SIDE : nothing;
            transpose8(rows, 0, turned + j, DEPTH, NULL);
            transpose8(rows, 8, turned + 8 * DEPTH + j, DEPTH, NULL);
        }
        for (int r = 0; r < SIDE; r++)
            split(vload(turned + r * DEPTH), vload(turned + r * DEPTH + VW), triples, r);
    }
}

static void split_a(tiled_product *t) {
    for (int64_t i = 0; i < t->rows; i += SIDE) {
        if (t->p->strips)
            split_strip_by_columns(t, i);
        else
            split_strip_by_rows(t, i);
        bool any = false;
        for (int r = 0; r < SIDE; r++) any |= t->wild[i + r];
        t->any_wild[i / SIDE] = any;
    }
}

/* Two panels on their way to triples, two rows of both at a time. */
typedef struct split_to_do {
    const float *panel[2];
    panel_pair *to;
    int64_t terms, next, end;
    extent seen[2];
} split_to_do;

/* Of the panels from column j on; where there is one, it comes twice. None from the last column on. */
INLINE split_to_do split_begin(const tiled_product *t, int64_t j, panel_pair *to) {
    const sia_multiply *p = t->p;
    const float *b = p->b + j * p->k + t->from * NR;
    return (split_to_do){.panel = {b, j + NR < p->n ? b + NR * p->k : b},
                         .to = to,
                         .terms = t->terms,
                         .end = j < p->n ? t->steps * SIDE : 0,
                         .seen = {extent_none(), extent_none()}};
}

INLINE void split_some(split_to_do *s, int64_t count) {
    int64_t end = lesser(s->next + count, s->end);
    for (; s->next < end; s->next++) {
        int64_t k = s->next / SIDE * DEPTH + s->next % SIDE;
        bool has_x = k < s->terms, has_y = k + SIDE < s->terms;
        for (int i = 0; i < 2; i++) {
            const float *at = s->panel[i] + k * NR;
            vf x = has_x ? vload(at) : vzero(), y = has_y ? vload(at + SIDE * NR) : vzero();
            extent_add(&s->seen[i], x);
            extent_add(&s->seen[i], y);
            split(x, y, s->to->triples[i] + s->next / SIDE * TRIPLE, (int)(s->next % SIDE));
        }
    }
}

INLINE void split_end(split_to_do *s) {
    split_some(s, s->end);
    for (int i = 0; i < 2; i++) s->to->tame[i] = extent_tame(s->seen[i]);
}

/* ---------------------------------------------------------------------------------------------- sums */

/* Sums of a strip and a panel, of which some are of wild rows or columns: these in floats. */
NOINLINE void wild_sums(const tiled_product *t, int64_t i, int64_t j, vi tame, float *sums) {
    const sia_multiply *p = t->p;
    const vi nothing = {0};
    float floats[SIDE * SIDE];
    int64_t row = t->row + i;
    multiply(&(sia_multiply){.m = lesser(t->rows - i, SIDE),
                             .n = SIDE,
                             .k = t->terms,
                             .a = p->strips ? p->a + row * p->k + t->from * SIDE
                                            : p->a + row * p->a_stride + t->from,
                             .a_stride = p->a_stride,
                             .strips = p->strips,
                             .cut = true,
                             .b = p->b + j * p->k + t->from * NR,
                             .c = floats,
                             .c_stride = SIDE,
                             .alpha = 1});
    for (int64_t r = 0; r < SIDE && i + r < t->rows; r++) {
        vi from_tiles = t->wild[i + r] ? nothing : tame;
        vstore(sums + r * PAIR, vselect(from_tiles, vload(sums + r * PAIR), vload(floats + r * SIDE)));
    }
}

/* Up to 16 sums into a row of c. */
INLINE void sums_out(const sia_multiply *p, float beta, const float *sums, float *c, int64_t columns) {
    if (columns >= SIDE) {
        vf x = vdup(p->alpha) * vload(sums);
        vstore(c, beta == 0 ? x : vfma(vdup(beta), vload(c), x));
        return;
    }
    for (int64_t j = 0; j < columns; j++) c[j] = p->alpha * sums[j] + (beta == 0 ? 0 : beta * c[j]);
}

/* 32 x 32 sums into c, those of row i of the block and column j and behind. */
static void pair_out(tiled_product *t, int64_t i, int64_t j, const vi *tame) {
    const sia_multiply *p = t->p;
    float beta = t->from == 0 ? p->beta : 1, *c = p->c + (t->row + i) * p->c_stride + j;
    int64_t rows = lesser(t->rows - i, PAIR);
    if (p->alpha == 1 && beta == 0 && rows == PAIR && p->n - j >= PAIR && !t->any_wild[i / SIDE] &&
        !t->any_wild[i / SIDE + 1] && all_lanes(tame[0] & tame[1])) {
        sums_store(c, p->c_stride, true);
        return;
    }
    sums_store(t->sums, PAIR, true);
    for (int64_t r = 0; r < rows; r += SIDE)
        for (int h = 0; h < 2 && j + h * SIDE < p->n; h++)
            if (t->any_wild[(i + r) / SIDE] || !all_lanes(tame[h]))
                wild_sums(t, i + r, j + h * SIDE, tame[h], t->sums + r * PAIR + h * SIDE);
    for (int64_t r = 0; r < rows; r++, c += p->c_stride) {
        sums_out(p, beta, t->sums + r * PAIR, c, p->n - j);
        sums_out(p, beta, t->sums + r * PAIR + SIDE, c + SIDE, p->n - j - SIDE);
    }
}

/* All rows of the block times two panels, and meanwhile the next two become triples. */
static void pair_of_panels(tiled_product *t, int64_t j, const panel_pair *b, split_to_do *next) {
    int64_t turns = TURNS * ((t->rows + PAIR - 1) / PAIR), at_a_time = (SIDE + turns - 1) / turns;
    for (int64_t i = 0; i < t->rows; i += PAIR) {
        const float *a0 = t->a[i / SIDE], *a1 = i + SIDE < t->rows ? t->a[i / SIDE + 1] : a0;
        sums_zero();
        for (int64_t k = 0; k < t->steps * TRIPLE; k += TRIPLE)
            PRODUCTS_WITH(a0 + k, a1 + k, b->triples[0] + k, b->triples[1] + k, true,
                          split_some(next, at_a_time))
        pair_out(t, i, j, b->tame);
    }
}

static void block_of_products(tiled_product *t) {
    split_a(t);
    panel_pair *now = &t->b[0], *then = &t->b[1];
    split_to_do next = split_begin(t, 0, now);
    split_end(&next);
    for (int64_t j = 0; j < t->p->n; j += PAIR) {
        next = split_begin(t, j + PAIR, then);
        pair_of_panels(t, j, now, &next);
        split_end(&next);
        panel_pair *used = now;
        now = then;
        then = used;
    }
}

static void amx_multiply(const sia_multiply *p) {
    if (p->k < FEWEST_TERMS || p->n <= SIDE || (p->m <= SIDE && !p->strips && !p->cut)) {
        multiply(p);
        return;
    }
    tiled_product t;
    t.p = p;
    int64_t blocks = (p->k + TERMS - 1) / TERMS,
            length = ((p->k + blocks - 1) / blocks + DEPTH - 1) / DEPTH * DEPTH;
    tiles_begin();
    for (t.row = 0; t.row < p->m; t.row += AMX_ROWS)
        for (t.from = 0; t.from < p->k; t.from += length) {
            t.rows = lesser(p->m - t.row, AMX_ROWS);
            t.terms = lesser(p->k - t.from, length);
            t.steps = (t.terms + DEPTH - 1) / DEPTH;
            block_of_products(&t);
        }
    tiles_end();
}

#endif
