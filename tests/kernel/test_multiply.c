/* SPDX-License-Identifier: MIT
 *
 * Matrix products against a loop in float64: every edge of tiles, panels and blocks, transposed and not,
 * strides, factors, symmetric results, on every instruction set. Arrays are allocated to the last number, so
 * that the address sanitizer sees a step outside; the gaps between rows hold NaN, and must keep it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "kernel/matrix.h"
#include "problem.h"

/* Of an element: |error| / (|alpha| sum |a b| + |beta c|). Float sums of k terms err by some 2^-24 sqrt(k). */
static const double BOUND = 1e-6;

/* Numbers of a matrix with `gap` floats of NaN between its rows; nothing behind the last row. */
typedef struct matrix {
    int64_t rows, columns, stride;
    float *x;
} matrix;

static matrix matrix_create(int64_t rows, int64_t columns, int64_t gap, uint64_t seed) {
    matrix m = {rows, columns, columns + gap, NULL};
    int64_t floats = rows ? (rows - 1) * m.stride + columns : 0;
    m.x = malloc((size_t)floats * sizeof(float));
    assert_true(m.x || floats == 0);
    for (int64_t i = 0; i < floats; i++)
        m.x[i] = i % m.stride < columns ? (float)sia_random_normal(seed, (uint64_t)i) : NAN;
    return m;
}

static bool gaps_kept(const matrix *m) {
    for (int64_t i = 0; i + 1 < m->rows; i++)
        for (int64_t j = m->columns; j < m->stride; j++)
            if (!isnan(m->x[i * m->stride + j])) return false;
    return true;
}

typedef struct product_case {
    int64_t m, n, k, gap;
    bool a_transposed, b_transposed, upper;
    float alpha, beta;
    bool packed; /* b, and a where it is transposed, packed as a whole, as a model keeps its weights */
} product_case;

static double element_error(const product_case *p, const matrix *a, const matrix *b, double before, int64_t i,
                            int64_t j, double found) {
    double sum = 0, size = 0;
    for (int64_t l = 0; l < p->k; l++) {
        double x = p->a_transposed ? a->x[l * a->stride + i] : a->x[i * a->stride + l];
        double y = p->b_transposed ? b->x[j * b->stride + l] : b->x[l * b->stride + j];
        sum += x * y;
        size += fabs(x * y);
    }
    double alpha = p->alpha, want = alpha * sum, scale = fabs(alpha) * size;
    if (p->beta != 0) want += p->beta * before, scale += fabs(p->beta * before);
    if (!isfinite(found)) return INFINITY;
    return scale > 0 ? fabs(found - want) / scale : fabs(found - want);
}

/* The rows that are compared in full: all of a small matrix, of a large one the edges of its blocks. */
static bool row_is_checked(int64_t i, int64_t rows) {
    return rows <= 40 || i % 48 <= 1 || i % 48 >= 46 || rows - i <= 2;
}

/* By the kernel alone, which then divides the terms into blocks itself. */
static void run_packed(const sia_product *p) {
    const sia_kernel *kernel = sia_kernel_get();
    float *panels = sia_alloc((size_t)sia_panel_floats(p->k, p->n), sizeof(float));
    float *strips = sia_alloc((size_t)((p->m + kernel->tile) * p->k), sizeof(float));
    assert_true(panels && strips);
    if (p->b_transposed)
        kernel->panels_from_columns(p->b, p->b_stride, p->k, p->n, panels);
    else
        kernel->panels_from_rows(p->b, p->b_stride, p->k, p->n, panels);
    if (p->a_transposed) kernel->strips_from_rows(p->a, p->a_stride, p->k, p->m, strips);
    kernel->multiply(&(sia_multiply){.m = p->m,
                                     .n = p->n,
                                     .k = p->k,
                                     .a = p->a_transposed ? strips : p->a,
                                     .a_stride = p->a_stride,
                                     .strips = p->a_transposed,
                                     .b = panels,
                                     .c = p->c,
                                     .c_stride = p->c_stride,
                                     .alpha = p->alpha,
                                     .beta = p->beta});
    sia_free(panels);
    sia_free(strips);
}

static double product_error(const product_case *p) {
    matrix a = p->a_transposed ? matrix_create(p->k, p->m, p->gap, 1) : matrix_create(p->m, p->k, p->gap, 1);
    matrix b = p->b_transposed ? matrix_create(p->n, p->k, p->gap, 2) : matrix_create(p->k, p->n, p->gap, 2);
    if (p->upper) { /* a a', or a' a */
        free(b.x);
        b = a;
    }
    matrix c = matrix_create(p->m, p->n, p->gap, 3), before = matrix_create(p->m, p->n, p->gap, 3);
    if (p->upper) sia_mirror(c.x, p->m, c.stride), sia_mirror(before.x, p->m, before.stride);
    if (p->beta == 0)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) c.x[i * c.stride + j] = NAN; /* must not be read */
    sia_product product = {.m = p->m,
                           .n = p->n,
                           .k = p->k,
                           .a = a.x,
                           .a_stride = a.stride,
                           .a_transposed = p->a_transposed,
                           .b = b.x,
                           .b_stride = b.stride,
                           .b_transposed = p->b_transposed,
                           .c = c.x,
                           .c_stride = c.stride,
                           .alpha = p->alpha,
                           .beta = p->beta,
                           .upper = p->upper};
    /* As many floats as were asked for; aligned memory is rounded up, so the end is checked by hand too. */
    int64_t floats = sia_product_floats(&product);
    float *work = sia_alloc((size_t)floats + 16, sizeof(float));
    assert_non_null(work);
    for (int64_t i = 0; i < floats + 16; i++) work[i] = NAN;
    if (p->packed)
        run_packed(&product);
    else
        sia_product_run(&product, work);
    for (int64_t i = floats; i < floats + 16; i++) assert_true(isnan(work[i]));
    if (p->upper) sia_mirror(c.x, p->m, c.stride);

    double worst = gaps_kept(&c) ? 0 : INFINITY;
    for (int64_t i = 0; i < p->m; i++) {
        if (!row_is_checked(i, p->m)) continue;
        for (int64_t j = 0; j < p->n; j++)
            worst = fmax(worst, element_error(p, &a, &b, before.x[i * before.stride + j], i, j,
                                              c.x[i * c.stride + j]));
    }
    sia_free(work);
    free(a.x);
    if (!p->upper) free(b.x);
    free(c.x);
    free(before.x);
    return worst;
}

static bool check(const sia_kernel *kernel, const product_case *p) {
    double error = product_error(p);
    bool good = error < BOUND;
    if (!good)
        printf("%-9s %lld x %lld x %lld%s%s%s gap %lld alpha %g beta %g: error %.1e, bound %.0e: FAILED\n",
               kernel->name, (long long)p->m, (long long)p->n, (long long)p->k, p->a_transposed ? " a'" : "",
               p->b_transposed ? " b'" : "", p->upper ? " upper" : "", (long long)p->gap, (double)p->alpha,
               (double)p->beta, error, BOUND);
    return good;
}

static const float factors[][2] = {{1, 0}, {-0.5f, 0}, {1, 1}, {2.0315f, -4.775f}, {0, 0.5f}};
enum { FACTORS = sizeof factors / sizeof *factors };

/* Every pair of edges of a tile, with few and with odd numbers of terms. */
static void small_shapes(void **state) {
    (void)state;
    bool good = true;
    int cases = 0;
    FOR_EACH_ISA (kernel) {
        const int64_t m[] = {1, kernel->tile - 1, kernel->tile, kernel->tile + 1, 2 * kernel->tile + 1};
        const int64_t n[] = {
            1, 7, 8, 9, kernel->panel - 1, kernel->panel, kernel->panel + 1, 2 * kernel->panel + 3};
        const int64_t k[] = {1, 2, 7, 8, 33};
        for (int i = 0; i < 5 * 8 * 5; i++)
            for (int form = 0; form < 4; form++, cases++) {
                const float *f = factors[cases % FACTORS];
                product_case p = {.m = m[i % 5],
                                  .n = n[i / 5 % 8],
                                  .k = k[i / 40],
                                  .gap = cases % 3,
                                  .a_transposed = form & 1,
                                  .b_transposed = form & 2,
                                  .alpha = f[0],
                                  .beta = f[1]};
                good = check(kernel, &p) && good;
            }
    }
    printf("%d small products, bound %.0e\n", cases, BOUND);
    assert_true(good);
}

/* The edges of the tiles of AMX, alone and in pairs, and of their blocks of terms. */
static void matrix_tile_edges(void **state) {
    (void)state;
    const int64_t edges[] = {15, 16, 17, 31, 32, 33, 49}, k[] = {31, 32, 33, 63, 65, 256, 257, 385};
    bool good = true;
    int cases = 0;
    FOR_EACH_ISA (kernel)
        for (int i = 0; i < 7 * 7 * 8; i++, cases++) {
            const float *f = factors[cases % FACTORS];
            product_case p = {.m = edges[i % 7],
                              .n = edges[i / 7 % 7],
                              .k = k[i / 49],
                              .gap = cases % 3,
                              .a_transposed = cases & 1,
                              .b_transposed = cases & 2,
                              .alpha = f[0],
                              .beta = f[1],
                              .packed = true};
            good = check(kernel, &p) && good;
        }
    printf("%d products at the edges of tiles, bound %.0e\n", cases, BOUND);
    assert_true(good);
}

/* The edges of blocks of rows (96) and of terms (384). */
static void block_edges(void **state) {
    (void)state;
    const int64_t shapes[][3] = {
        {95, 17, 383}, {96, 16, 384}, {97, 33, 385}, {193, 31, 769}, {20, 385, 97},   {385, 20, 96},
        {3, 769, 5},   {769, 3, 95},  {1, 1, 769},   {13, 96, 768},  {192, 40, 1153}, {96, 384, 10},
        {1, 64, 7},    {1, 128, 385}, {1, 303, 50}, /* one row reads panels in four places */
    };
    bool good = true;
    int cases = 0;
    FOR_EACH_ISA (kernel)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int form = 0; form < 4; form++, cases++) {
                const float *f = factors[cases % FACTORS];
                product_case p = {.m = shapes[i][0],
                                  .n = shapes[i][1],
                                  .k = shapes[i][2],
                                  .gap = cases % 2 * 5,
                                  .a_transposed = form & 1,
                                  .b_transposed = form & 2,
                                  .alpha = f[0],
                                  .beta = f[1]};
                good = check(kernel, &p) && good;
            }
    printf("%d products at the edges of blocks, bound %.0e\n", cases, BOUND);
    assert_true(good);
}

/* More terms than a block has (384), packed as a whole: the last block is shorter than the others. */
static void packed_sums(void **state) {
    (void)state;
    const int64_t terms[] = {0, 384, 385, 769, 1153};
    bool good = true;
    int cases = 0;
    FOR_EACH_ISA (kernel)
        for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
            for (int rows = 1; rows <= 2 * kernel->tile + 1; rows += kernel->tile)
                for (int form = 0; form < 4; form++, cases++) {
                    const float *f = factors[cases % FACTORS];
                    product_case p = {.m = rows,
                                      .n = 2 * kernel->panel - 5,
                                      .k = terms[i],
                                      .gap = cases % 2 * 5,
                                      .a_transposed = form & 1,
                                      .b_transposed = form & 2,
                                      .alpha = f[0],
                                      .beta = f[1],
                                      .packed = true};
                    good = check(kernel, &p) && good;
                }
    printf("%d products of packed matrices, bound %.0e\n", cases, BOUND);
    assert_true(good);
}

static void symmetric_results(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 5, 8, 13, 23, 24, 25, 49, 95, 96, 97, 130, 193, 385}, terms[] = {1, 50, 385};
    bool good = true;
    int cases = 0;
    FOR_EACH_ISA (kernel)
        for (int i = 0; i < 14 * 3; i++, cases++) {
            int64_t n = sizes[i % 14];
            const float *f = factors[cases % FACTORS];
            product_case p = {.m = n,
                              .n = n,
                              .k = terms[i / 14],
                              .gap = cases % 2 * 3,
                              .a_transposed = cases & 1,
                              .b_transposed = !(cases & 1),
                              .upper = true,
                              .alpha = f[0],
                              .beta = f[1]};
            good = check(kernel, &p) && good;
        }
    printf("%d symmetric products, bound %.0e\n", cases, BOUND);
    assert_true(good);
}

/* Every number below the diagonal is the one above it, and no other is touched. */
static void mirrored(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel)
        for (int64_t n = 1; n < 40; n += 3) {
            matrix c = matrix_create(n, n, 5, 9), before = matrix_create(n, n, 5, 9);
            sia_mirror(c.x, n, c.stride);
            assert_true(gaps_kept(&c));
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++) {
                    float want = before.x[i < j ? i * c.stride + j : j * c.stride + i];
                    assert_true(c.x[i * c.stride + j] == want);
                }
            free(c.x);
            free(before.x);
        }
}

/* A sum without terms is 0: c = beta c. */
static void no_terms(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel) {
        for (int i = 0; i < FACTORS; i++) {
            product_case p = {
                .m = 7, .n = 19, .k = 0, .gap = 2, .alpha = factors[i][0], .beta = factors[i][1]};
            assert_true(check(kernel, &p));
        }
    }
}

/* No element depends on rows that are computed beside it: the rows of a product can be cut at blocks. */
static void cut_at_blocks(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel) {
        matrix a = matrix_create(250, 100, 0, 1), b = matrix_create(100, 70, 0, 2);
        matrix whole = matrix_create(250, 70, 0, 3), parts = matrix_create(250, 70, 0, 3);
        sia_product p = {.m = 250,
                         .n = 70,
                         .k = 100,
                         .a = a.x,
                         .a_stride = 100,
                         .b = b.x,
                         .b_stride = 70,
                         .c = whole.x,
                         .c_stride = 70,
                         .alpha = 0.7f,
                         .beta = 0.3f};
        float *work = sia_alloc((size_t)sia_product_floats(&p), sizeof(float));
        sia_product_run(&p, work);
        for (int64_t row = 0; row < 250; row += SIA_BLOCK_ROWS) {
            p.m = 250 - row < SIA_BLOCK_ROWS ? 250 - row : SIA_BLOCK_ROWS;
            p.a = a.x + row * 100;
            p.c = parts.x + row * 70;
            sia_product_run(&p, work);
        }
        assert_memory_equal(whole.x, parts.x, 250 * 70 * sizeof(float));
        sia_free(work);
        free(a.x);
        free(b.x);
        free(whole.x);
        free(parts.x);
    }
}

/* Where rows are cut by the room there is, down to single ones, no bit tells. */
static void cut_by_room(void **state) {
    (void)state;
    enum { M = 50, N = 70, K = 400 };
    FOR_EACH_ISA (kernel) {
        matrix a = matrix_create(M, K, 0, 1), b = matrix_create(K, N, 0, 2);
        matrix whole = matrix_create(M, N, 0, 3), parts = matrix_create(M, N, 0, 3);
        float *panels = sia_alloc((size_t)sia_panel_floats(K, N), sizeof(float));
        kernel->panels_from_rows(b.x, N, K, N, panels);
        sia_multiply p = {.m = M,
                          .n = N,
                          .k = K,
                          .a = a.x,
                          .a_stride = K,
                          .cut = true,
                          .b = panels,
                          .c = whole.x,
                          .c_stride = N,
                          .alpha = 1};
        kernel->multiply(&p);
        for (int64_t rows = 1, row = 0; row < M; row += rows, rows = row % 3 * 7 + 1) {
            p.m = M - row < rows ? M - row : rows;
            p.a = a.x + row * K;
            p.c = parts.x + row * N;
            kernel->multiply(&p);
        }
        assert_memory_equal(whole.x, parts.x, M * N * sizeof(float));
        sia_free(panels);
        free(a.x);
        free(b.x);
        free(whole.x);
        free(parts.x);
    }
}

/* ------------------------------------------------------------------------------------------ one row or column */

enum { SIZE = 50, TERMS = 300, ROW = 34, COLUMN = 19 }; /* of the last tiles, and of those before */

/* A product of two matrices [SIZE][TERMS] and [TERMS][SIZE], either of them turned. */
typedef struct one_of_many {
    bool a_turned, b_turned;
    matrix a, b;
    float c[SIZE * SIZE], clean[SIZE * SIZE];
} one_of_many;

static float *number_of_a(one_of_many *o, int i, int l) {
    return o->a.x + (o->a_turned ? l * SIZE + i : i * TERMS + l);
}
static float *number_of_b(one_of_many *o, int l, int j) {
    return o->b.x + (o->b_turned ? j * TERMS + l : l * SIZE + j);
}

static void one_product(one_of_many *o, float *c) {
    run_packed(&(sia_product){.m = SIZE,
                              .n = SIZE,
                              .k = TERMS,
                              .a = o->a.x,
                              .a_stride = o->a.stride,
                              .a_transposed = o->a_turned,
                              .b = o->b.x,
                              .b_stride = o->b.stride,
                              .b_transposed = o->b_turned,
                              .c = c,
                              .c_stride = SIZE,
                              .alpha = 1});
}

static void one_create(one_of_many *o, int form) {
    o->a_turned = form & 1;
    o->b_turned = form & 2;
    o->a = o->a_turned ? matrix_create(TERMS, SIZE, 0, 4) : matrix_create(SIZE, TERMS, 0, 4);
    o->b = o->b_turned ? matrix_create(SIZE, TERMS, 0, 5) : matrix_create(TERMS, SIZE, 0, 5);
    one_product(o, o->clean);
}

static void one_free(one_of_many *o) {
    free(o->a.x);
    free(o->b.x);
}

/* A row of a and a column of b of any size: they are as exact as all others, which are what they were. */
static void sizes_of_rows(void **state) {
    (void)state;
    const double sizes[][2] = {
        {0x1p-115, 1}, {1, 0x1p-115}, {0x1p-120, 0x1p100}, {0x1p62, 0x1p60}, {0x1p-110, 0x1p-10}};
    FOR_EACH_ISA (kernel)
        for (int i = 0; i < 4 * 5; i++) {
            one_of_many o;
            one_create(&o, i % 4);
            const double *size = sizes[i / 4];
            for (int l = 0; l < TERMS; l++) {
                *number_of_a(&o, ROW, l) *= (float)size[0];
                *number_of_b(&o, l, COLUMN) *= (float)size[1];
            }
            one_product(&o, o.c);
            product_case p = {.k = TERMS, .a_transposed = o.a_turned, .b_transposed = o.b_turned, .alpha = 1};
            for (int at = 0; at < SIZE * SIZE; at++) {
                int row = at / SIZE, column = at % SIZE;
                assert_true(element_error(&p, &o.a, &o.b, 0, row, column, o.c[at]) < BOUND);
                if (row != ROW && column != COLUMN) assert_true(o.c[at] == o.clean[at]);
            }
            one_free(&o);
        }
}

/* What is not finite reaches its row or column, with the sign that it has there, and nothing else. */
static void not_finite_in_rows(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    FOR_EACH_ISA (kernel)
        for (int i = 0; i < 4 * 3 * 2 * 2; i++) {
            one_of_many o;
            one_create(&o, i % 4);
            int l = i / 24 ? TERMS - 9 : 0;
            float x = bad[i / 4 % 3];
            bool in_a = i / 12 % 2;
            *(in_a ? number_of_a(&o, ROW, l) : number_of_b(&o, l, COLUMN)) = x;
            one_product(&o, o.c);
            for (int at = 0; at < SIZE * SIZE; at++) {
                int row = at / SIZE, column = at % SIZE;
                float want = in_a ? x * *number_of_b(&o, l, column) : x * *number_of_a(&o, row, l);
                if (in_a ? row != ROW : column != COLUMN)
                    assert_true(o.c[at] == o.clean[at]);
                else
                    assert_true(isnan(x) ? isnan(o.c[at]) : o.c[at] == want);
            }
            one_free(&o);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes),  cmocka_unit_test(matrix_tile_edges),  cmocka_unit_test(block_edges),
        cmocka_unit_test(packed_sums),   cmocka_unit_test(symmetric_results),  cmocka_unit_test(mirrored),
        cmocka_unit_test(no_terms),      cmocka_unit_test(cut_at_blocks),      cmocka_unit_test(cut_by_room),
        cmocka_unit_test(sizes_of_rows), cmocka_unit_test(not_finite_in_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
