/* SPDX-License-Identifier: MIT
 *
 * Muon: momentum, then Newton-Schulz iteration in float32. With r = min(rows, columns) every product but the
 * last of a round is r x r and symmetric: half of it is computed and mirrored.
 *
 *     A = X X'                   r x r      a tall X (rows > columns) uses A = X' X instead: no transposing,
 *     P = a I + b A + c A A      r x r      since P(X X') X = X P(X' X)
 *     X = P X                    rows x columns
 *
 * The last round writes into W itself. */
#include "optim/muon.h"

#include <math.h>
#include <string.h>

#include "kernel/matrix.h"

enum { ROUNDS = 5 };
static const double POLYNOMIAL_A = 3.4445, POLYNOMIAL_B = -4.7750, POLYNOMIAL_C = 2.0315, EPSILON = 1e-7;

static int64_t aligned(int64_t floats) { return (floats + 15) / 16 * 16; }
static int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

/* The three products of a round; x, gram, polynomial, out are filled in by the caller. */
static sia_product gram_of(int64_t rows, int64_t columns, const float *x, float *gram) {
    bool tall = rows > columns;
    int64_t r = smaller(rows, columns);
    return (sia_product){.m = r,
                         .n = r,
                         .k = tall ? rows : columns,
                         .a = x,
                         .a_stride = columns,
                         .a_transposed = tall,
                         .b = x,
                         .b_stride = columns,
                         .b_transposed = !tall,
                         .c = gram,
                         .c_stride = r,
                         .alpha = 1,
                         .upper = true};
}

static sia_product square_of(int64_t r, const float *gram, float *out) {
    return (sia_product){.m = r,
                         .n = r,
                         .k = r,
                         .a = gram,
                         .a_stride = r,
                         .b = gram,
                         .b_stride = r,
                         .c = out,
                         .c_stride = r,
                         .alpha = (float)POLYNOMIAL_C,
                         .beta = (float)POLYNOMIAL_B,
                         .upper = true};
}

static sia_product apply(int64_t rows, int64_t columns, const float *polynomial, const float *x, float *out) {
    bool tall = rows > columns;
    int64_t r = smaller(rows, columns);
    return (sia_product){.m = rows,
                         .n = columns,
                         .k = r,
                         .a = tall ? x : polynomial,
                         .a_stride = r,
                         .b = tall ? polynomial : x,
                         .b_stride = columns,
                         .c = out,
                         .c_stride = columns,
                         .alpha = 1};
}

static int64_t product_floats(int64_t rows, int64_t columns) {
    sia_product products[] = {gram_of(rows, columns, NULL, NULL),
                              square_of(smaller(rows, columns), NULL, NULL),
                              apply(rows, columns, NULL, NULL, NULL)};
    int64_t most = 0;
    for (int i = 0; i < 3; i++)
        if (sia_product_floats(&products[i]) > most) most = sia_product_floats(&products[i]);
    return most;
}

int64_t sia_muon_floats(int64_t rows, int64_t columns) {
    int64_t r = smaller(rows, columns);
    return 2 * aligned(rows * columns) + 2 * aligned(r * r) + product_floats(rows, columns);
}

double sia_muon_flops(int64_t rows, int64_t columns) {
    double r = (double)smaller(rows, columns), all = (double)rows * (double)columns;
    double gram = r * all, square = r * r * r, product = 2 * r * all;
    return ROUNDS * (gram + square + product);
}

/* polynomial = a I + b A + c A A, from A = gram, which is symmetric and whole. */
static void polynomial_of(int64_t r, const float *gram, float *polynomial, float *work) {
    memcpy(polynomial, gram, (size_t)(r * r) * sizeof(float));
    sia_product square = square_of(r, gram, polynomial);
    sia_product_run(&square, work);
    sia_mirror(polynomial, r, r);
    for (int64_t i = 0; i < r; i++) polynomial[i * r + i] += (float)POLYNOMIAL_A;
}

void sia_muon_step(const sia_muon *p, float *work) {
    const sia_kernel *kernel = sia_kernel_get();
    int64_t count = p->rows * p->columns, r = smaller(p->rows, p->columns);
    float *x = work, *next = x + aligned(count), *gram = next + aligned(count);
    float *polynomial = gram + aligned(r * r);
    work = polynomial + aligned(r * r);

    kernel->update_momentum(p->gradient, (float)p->factor, (float)p->beta, p->momentum, x, count);
    kernel->scale(x, count, (float)(1 / (sqrt(kernel->sum_squares(x, count)) + EPSILON)));
    for (int round = 0; round < ROUNDS; round++) {
        sia_product product = gram_of(p->rows, p->columns, x, gram);
        sia_product_run(&product, work);
        sia_mirror(gram, r, r);
        polynomial_of(r, gram, polynomial, work);
        product = apply(p->rows, p->columns, polynomial, x, next);
        if (round == ROUNDS - 1) {
            product.c = p->value;
            product.alpha = (float)(-p->rate * sqrt(fmax(1, (double)p->rows / (double)p->columns)));
            product.beta = (float)p->keep;
        }
        sia_product_run(&product, work);
        float *swap = x;
        x = next;
        next = swap;
    }
}
