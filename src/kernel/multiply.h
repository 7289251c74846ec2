/* SPDX-License-Identifier: MIT
 *
 * Matrix products for the model: c = alpha a b + beta c, in register tiles of MR x NR (tile.h).
 *
 * b comes as panels, NR columns side by side, so that a weight is packed once a step and used for every
 * token; a is read where it lies. k is cut into blocks of at most BLOCK, so that the panel of a block stays
 * in the first cache while all rows of a pass over it; sums of blocks are added in their order.
 *
 *     panels   [ceil(n/NR)][k][NR], missing columns 0
 *     strips   [ceil(m/MR)][k][MR], missing rows 0         an a that lies transposed: the gradient of a weight */
#ifndef SIA_KERNEL_MULTIPLY_H
#define SIA_KERNEL_MULTIPLY_H

#include "kernel/kernel.h"
#include "kernel/pack.h"

enum { BLOCK = SIA_BLOCK_SUM };

/* Rows of a symmetric product in a call: with tiles panels are made ready in each. */
#ifdef TILES
enum { UPPER_ROWS = SIA_BLOCK_ROWS };
#else
enum { UPPER_ROWS = 24 };
#endif

/* x [k][n], row by row, to panels. */
static void panels_from_rows(const float *x, int64_t stride, int64_t k, int64_t n, float *out) {
    for (int64_t first = 0; first < n; first += NR, out += k * NR) {
        int64_t width = n - first < NR ? n - first : NR;
        const float *row = x + first;
        for (int64_t i = 0; i < k; i++, row += stride) {
            if (width == NR) {
                FOR_VECTORS(vstore(out + i * NR + v * VW, vload(row + v * VW));)
                continue;
            }
            for (int64_t j = 0; j < NR; j++) out[i * NR + j] = j < width ? row[j] : 0;
        }
    }
}

/* x [n][k], row by row, to panels of its transpose. */
static void panels_from_columns(const float *x, int64_t stride, int64_t k, int64_t n, float *out) {
    for (int64_t first = 0; first < n; first += NR, out += k * NR) {
        int64_t width = n - first < NR ? n - first : NR;
        for (int64_t j = 0; j < NR; j += 8) {
            const float *row[8];
            int64_t i = 0;
            for (int r = 0; r < 8; r++) row[r] = x + (first + j + r) * stride;
            if (j + 8 <= width)
                for (; i + 8 <= k; i += 8) transpose8(row, i, out + i * NR + j, NR, NULL);
            for (; i < k; i++)
                for (int64_t r = 0; r < 8; r++) out[i * NR + j + r] = j + r < width ? row[r][i] : 0;
        }
    }
}

/* x [k][m], row by row, to strips. */
static void strips_from_rows(const float *x, int64_t stride, int64_t k, int64_t m, float *out) {
    for (int64_t first = 0; first < m; first += MR, out += k * MR) {
        int64_t height = m - first < MR ? m - first : MR;
        const float *row = x + first;
        if (height == MR)
            for (int64_t i = 0; i < k; i++, row += stride) memcpy(out + i * MR, row, MR * sizeof(float));
        else
            for (int64_t i = 0; i < k; i++, row += stride)
                for (int64_t r = 0; r < MR; r++) out[i * MR + r] = r < height ? row[r] : 0;
    }
}

/* The lower half of c from the upper, in squares of 8 x 8: by single numbers, every one would touch a cache
 * line of its own. */
static void mirror(float *c, int64_t n, int64_t stride) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int64_t r = i; r < i + 8; r++)
            for (int64_t j = r + 1; j < i + 8; j++) c[j * stride + r] = c[r * stride + j];
        const float *row[8];
        int64_t j = i + 8;
        for (int r = 0; r < 8; r++) row[r] = c + (i + r) * stride;
        for (; j + 8 <= n; j += 8) transpose8(row, j, c + j * stride + i, stride, NULL);
        for (; j < n; j++)
            for (int64_t r = i; r < i + 8; r++) c[j * stride + r] = c[r * stride + j];
    }
    for (; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) c[j * stride + i] = c[i * stride + j];
}

/* One tile into c, whole or in part. */
INLINE void tile_out(const tile *t, const sia_multiply *p, bool first, float *c, int64_t rows,
                     int64_t columns) {
    float beta = first ? p->beta : 1;
    vf alpha = vdup(p->alpha), b = vdup(beta);
    if (rows >= MR && columns >= NR) {
        if (beta == 0)
            FOR_ROWS(FOR_VECTORS(vstore(c + r * p->c_stride + v * VW, alpha * t->sum[r][v]);))
        else
            FOR_ROWS(FOR_VECTORS(float *q = c + r * p->c_stride + v * VW;
                                 vstore(q, vfma(alpha, t->sum[r][v], b * vload(q)));))
        return;
    }
    float part[MR * NR];
    FOR_ROWS(FOR_VECTORS(vstore(part + r * NR + v * VW, alpha * t->sum[r][v]);))
    for (int64_t r = 0; r < rows && r < MR; r++)
        for (int64_t j = 0; j < columns && j < NR; j++) {
            float *q = c + r * p->c_stride + j;
            // cppcheck-suppress uninitvar; it does not see vstore write
            *q = part[r * NR + j] + (beta == 0 ? 0 : beta * *q);
        }
}

NOINLINE void multiply_rows_tile(const sia_multiply *p, bool first, int64_t k, const float *a, const float *b,
                                 float *c, int64_t rows, int64_t columns) {
    tile t;
    tile_zero(&t);
    tile_steps(&t, false, k, a, p->a_stride, 1, b);
    tile_out(&t, p, first, c, rows, columns);
}

NOINLINE void multiply_strips_tile(const sia_multiply *p, bool first, int64_t k, const float *a,
                                   const float *b, float *c, int64_t rows, int64_t columns) {
    tile t;
    tile_zero(&t);
    tile_steps(&t, false, k, a, 1, MR, b);
    tile_out(&t, p, first, c, rows, columns);
}

/* The last rows of an a that is read by rows, fewer than MR: a copy, so that nothing behind a is read. */
static void multiply_last_rows(const sia_multiply *p, bool first, int64_t from, int64_t k, int64_t row) {
    float a[MR * BLOCK];
    int64_t rows = p->m - row;
    for (int64_t r = 0; r < MR; r++)
        for (int64_t i = 0; i < k; i++)
            a[i * MR + r] = r < rows ? p->a[(row + r) * p->a_stride + from + i] : 0;
    for (int64_t j = 0; j < p->n; j += NR)
        multiply_strips_tile(p, first, k, a, p->b + j * p->k + from * NR, p->c + row * p->c_stride + j, rows,
                             p->n - j);
}

/* One row: every number of b is used once, and what counts is to read it as fast as memory gives it, which is
 * faster in several places at once. `ways` panels that lie `apart` floats from one another, from column j on. */
INLINE void multiply_one_row_at(const sia_multiply *p, int ways, int64_t j, int64_t apart) {
    const float *b = p->b + j * p->k;
    vf sum[4][2][NV];
    int split = ways == 1 ? 2 : 1; /* terms of the sum at a time, so that multiply-adds do not wait */
    for (int w = 0; w < ways; w++)
        for (int u = 0; u < split; u++) FOR_VECTORS(sum[w][u][v] = vzero();)
    int64_t i = 0;
    for (; i + 4 <= p->k; i += 4)
#pragma GCC unroll 4
        for (int u = 0; u < 4; u++) {
            vf a = vdup(p->a[i + u]);
#pragma GCC unroll 4
            for (int w = 0; w < ways; w++)
                FOR_VECTORS(vf *s = &sum[w][u % split][v];
                            *s = vfma(a, vload(b + w * apart * p->k + (i + u) * NR + v * VW), *s);)
        }
    for (; i < p->k; i++)
        for (int w = 0; w < ways; w++)
            FOR_VECTORS(sum[w][0][v] =
                            vfma(vdup(p->a[i]), vload(b + w * apart * p->k + i * NR + v * VW), sum[w][0][v]);)
    for (int w = 0; w < ways; w++) {
        float part[NR];
        FOR_VECTORS(if (split > 1) sum[w][0][v] += sum[w][1][v];
                    vstore(part + v * VW, vdup(p->alpha) * sum[w][0][v]);)
        int64_t at = j + w * apart;
        for (int64_t c = 0; c < NR && at + c < p->n; c++)
            p->c[at + c] = part[c] + (p->beta == 0 ? 0 : p->beta * p->c[at + c]);
    }
}

static void multiply_one_row(const sia_multiply *p) {
    int64_t quarter = (p->n + NR - 1) / NR / 4 * NR, j = 0;
    for (; j < quarter; j += NR) multiply_one_row_at(p, 4, j, quarter);
    for (j = 4 * quarter; j < p->n; j += NR) multiply_one_row_at(p, 1, j, 0);
}

/* Once even where k is 0: c = beta c. */
static void multiply(const sia_multiply *p) {
    if (p->m == 1 && !p->strips && !p->cut) {
        multiply_one_row(p);
        return;
    }
    int64_t blocks = (p->k + BLOCK - 1) / BLOCK, length = blocks ? (p->k + blocks - 1) / blocks : 0;
    int64_t whole = p->strips ? p->m : p->m / MR * MR, from = 0;
    do {
        bool first = from == 0;
        int64_t k = p->k - from < length ? p->k - from : length;
        for (int64_t j = 0; j < p->n; j += NR) {
            const float *b = p->b + j * p->k + from * NR;
            for (int64_t i = 0; i < whole; i += MR) {
                float *c = p->c + i * p->c_stride + j;
                if (p->strips)
                    multiply_strips_tile(p, first, k, p->a + i * p->k + from * MR, b, c, p->m - i, p->n - j);
                else
                    multiply_rows_tile(p, first, k, p->a + i * p->a_stride + from, b, c, MR, p->n - j);
            }
        }
        if (whole < p->m) multiply_last_rows(p, first, from, k, whole);
        from += length;
    } while (from < p->k);
}

#endif
