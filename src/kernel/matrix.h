/* SPDX-License-Identifier: MIT
 *
 * Products of matrices that lie in memory row by row, either of them transposed:
 *
 *     c [m][n] = alpha op(a) op(b) + beta c
 *
 *     sia_product p = {.m = 64, .n = 64, .k = 256, .a = x, .a_stride = 256,
 *                      .b = x, .b_stride = 256, .b_transposed = true, .c = gram, .c_stride = 64, .alpha = 1};
 *     sia_product_run(&p, work);               work: sia_product_floats(&p) floats, aligned to 64
 *
 * On the calling thread. The order of every sum is fixed by m, n, k alone. */
#ifndef SIA_KERNEL_MATRIX_H
#define SIA_KERNEL_MATRIX_H

#include "kernel/kernel.h"

typedef struct sia_product {
    int64_t m, n, k;
    const float *a; /* [m][k]; transposed: [k][m] */
    int64_t a_stride;
    const float *b; /* [k][n]; transposed: [n][k] */
    int64_t b_stride;
    float *c; /* not read where beta is 0 */
    int64_t c_stride;
    float alpha, beta;
    bool a_transposed, b_transposed;
    bool upper; /* the result is symmetric: only its upper half (and some below the diagonal) is computed;
                   sia_mirror fills the rest */
} sia_product;

int64_t sia_product_floats(const sia_product *p);
void sia_product_run(const sia_product *p, float *work);

/* c[j][i] = c[i][j] for i < j < n. */
void sia_mirror(float *c, int64_t n, int64_t stride);

/* A matrix as panels for sia_kernel.multiply: floats of room. */
int64_t sia_panel_floats(int64_t k, int64_t n);

#endif
