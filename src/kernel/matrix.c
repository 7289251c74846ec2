/* SPDX-License-Identifier: MIT
 *
 * Products of any two matrices, through the kernel that wants b as panels. */
#include "kernel/matrix.h"

#include "base/memory.h"

/* Arrays in the workspace start at whole cache lines. */
static int64_t aligned_floats(int64_t floats) {
    return (int64_t)(sia_aligned((size_t)floats * sizeof(float)) / sizeof(float));
}

int64_t sia_panel_floats(int64_t k, int64_t n) { return aligned_floats(sia_padded(sia_kernel_get(), n) * k); }

/* k in even blocks: none is much shorter than the others. */
static int64_t block_length(int64_t k) {
    int64_t blocks = (k + SIA_BLOCK_SUM - 1) / SIA_BLOCK_SUM;
    return blocks ? (k + blocks - 1) / blocks : 0;
}

int64_t sia_product_floats(const sia_product *p) {
    int64_t k = block_length(p->k), strips = p->a_transposed ? (SIA_BLOCK_ROWS + SIA_MAX_TILE) * k : 0;
    return sia_panel_floats(k, p->n) + strips;
}

/* Rows of c in blocks whose part of a stays in the second cache. Of a symmetric result what lies left of the diagonal's
 * block is left out: lower blocks leave out more, but pass over each panel more often. */
static void multiply_rows(const sia_product *p, const sia_kernel *kernel, int64_t from, int64_t k,
                          const float *panels, float *strips) {
    sia_multiply multiply = {.n = p->n,
                             .k = k,
                             .a_stride = p->a_stride,
                             .strips = p->a_transposed,
                             .b = panels,
                             .c_stride = p->c_stride,
                             .alpha = p->alpha,
                             .beta = from ? 1 : p->beta};
    int64_t block = p->upper ? kernel->upper_rows : SIA_BLOCK_ROWS;
    for (int64_t row = 0; row < p->m; row += block) {
        multiply.m = p->m - row < block ? p->m - row : block;
        multiply.c = p->c + row * p->c_stride;
        multiply.a = p->a + row * p->a_stride + from;
        if (p->a_transposed) {
            kernel->strips_from_rows(p->a + from * p->a_stride + row, p->a_stride, k, multiply.m, strips);
            multiply.a = strips;
        }
        if (p->upper) { /* columns left of the block lie below the diagonal */
            int64_t skip = row / kernel->panel * kernel->panel;
            multiply.n = p->n - skip;
            multiply.b = panels + skip * k;
            multiply.c += skip;
        }
        kernel->multiply(&multiply);
    }
}

void sia_product_run(const sia_product *p, float *work) {
    const sia_kernel *kernel = sia_kernel_get();
    int64_t length = block_length(p->k);
    float *strips = work + sia_panel_floats(length, p->n);
    int64_t from = 0;
    do { /* once even where k is 0: c = beta c */
        int64_t k = p->k - from < length ? p->k - from : length;
        if (p->b_transposed)
            kernel->panels_from_columns(p->b + from, p->b_stride, k, p->n, work);
        else
            kernel->panels_from_rows(p->b + from * p->b_stride, p->b_stride, k, p->n, work);
        multiply_rows(p, kernel, from, k, work, strips);
        from += length;
    } while (from < p->k);
}

void sia_mirror(float *c, int64_t n, int64_t stride) { sia_kernel_get()->mirror(c, n, stride); }
