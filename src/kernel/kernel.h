/* SPDX-License-Identifier: MIT
 *
 * The contract between the attention functions and the kernels: one table of function pointers for each
 * instruction set. docs/kernels.md has the picture of the data movement.
 *
 * Two layouts, made by the packing functions (NR = panel, the columns of a register tile):
 *
 *     column panels   x [rows][d]  to  [ceil(d/NR)][rows][NR]       numbers of a row in runs of NR
 *     key panels      x [rows][d]  to  [ceil(rows/NR)][d][NR]       x transposed: NR rows side by side
 *
 * What is missing in the last panel of columns or keys is 0. */
#ifndef SIA_KERNEL_KERNEL_H
#define SIA_KERNEL_KERNEL_H

#include <stdbool.h>

#include "kernel/processor.h"
#include "position/table.h"

enum {
    SIA_BLOCK_Q = 384,  /* queries in a task of the forward pass, at most */
    SIA_BLOCK_K = 256,  /* keys in a block of the forward pass, at most */
    SIA_BLOCK_BK = 192, /* keys in a task of the backward pass, at most */
    SIA_BLOCK_BQ = 96,  /* queries that it meets at a time */
    SIA_MAX_DIM = 256,
    SIA_MAX_TILE = 16,   /* no kernel's tile has more rows */
    SIA_BLOCK_ROWS = 96, /* rows of a product that one pass over the panels serves */
    SIA_BLOCK_SUM = 384, /* terms of a sum in a block of a product, at most */
    SIA_NEAR = 126,      /* 2 to the power of that, and of minus that, is a float as good as any */
};

/* ---------------------------------------------------------------------------------------------- packing */

/* Rows of q, k, v or dO on their way to the kernels: turned by the rotary slot, times a factor. For gradients on
 * their way back (sia_kernel.unpack) it says where they go; x and factor are not read. */
typedef struct sia_rows {
    const float *x; /* row i at x + i * stride */
    int64_t stride;
    int64_t rows;
    int head_dim;
    const sia_tables *turn; /* NULL: not turned */
    int64_t position;       /* of row 0 */
    const float *factor;    /* [rows], or NULL */
} sia_rows;

/* ---------------------------------------------------------------------------------------------- forward */

/* The running softmax of a block of queries. Begin, any number of stretches of keys in any order, end.
 * With `near` above 0 there is one stretch. */
typedef struct sia_softmax {
    int head_dim;
    int64_t rows;       /* at most SIA_BLOCK_Q */
    const float *scale; /* tables of this head, at t = 0 */
    const float *bias;
    const float *q; /* column panels of q_rows rows, 0 up to a whole tile */
    int64_t q_rows;
    float *scratch; /* sia_kernel.softmax_floats(head_dim) of them, aligned */
    bool statistics;
    float near; /* a row of q with a sum of squares below this has no logit beyond SIA_NEAR; 0: not known */
} sia_softmax;

/* A stretch of keys: key panels of k, column panels of v; and blocks of SIA_BLOCK_K of them as sia_kernel.ready_block leaves
 * them, block_floats apart. Where `ready` is NULL, a kernel that wants them makes them when it meets them. */
typedef struct sia_keys {
    const float *k, *v, *ready;
    int64_t v_rows; /* rows of a column panel of v */
    int64_t count;
    int64_t offset; /* position of query row 0 minus position of the first key */
} sia_keys;

/* ---------------------------------------------------------------------------------------------- backward */

/* One block of keys (at most SIA_BLOCK_BK) against one block of queries (at most SIA_BLOCK_BQ). */
typedef struct sia_gradient {
    int head_dim;
    int64_t q_rows, k_rows;
    int64_t offset; /* position of query row 0 minus position of key row 0 */
    const float *scale, *bias;
    const float *q, *d_out; /* column panels of SIA_BLOCK_BQ rows */
    const float *k;         /* column panels, k_panel floats from one to the next */
    int64_t k_panel;
    const float *k_t, *v_t; /* key panels */
    const float *lse;       /* [q_rows] log2 of the row sums */
    const float *delta;     /* [q_rows] d_out . out */
    float *d_q;             /* [q_rows rounded up][padded d], row-major */
    float *d_k, *d_v;       /* [k_rows rounded up][padded d], row-major, added to */
    float *weights;         /* scratch: sia_kernel.gradient_floats(head_dim) */
} sia_gradient;

/* ---------------------------------------------------------------------------------------------- decode */

/* Few queries over a stretch of keys in the cache's type. Blocks are laid out by sia_cache (see decode.h). */
typedef struct sia_decode {
    int head_dim;
    int rows;                  /* queries, at most SIA_DECODE_ROWS */
    sia_reading reading;       /* sia_reading_of_cache(type, rows) */
    const float *q;            /* [rows][head_dim], turned and scaled */
    const float *const *scale; /* [rows] tables at t = 0 */
    const float *const *bias;
    const int64_t *limit; /* [rows] keys of the stretch up to the last that the row sees; may be below 1 */
    const void *const *block; /* the blocks of the stretch, this head's part of each */
    int64_t count;            /* keys in the stretch */
    float *max, *sum;         /* [rows] */
    float *out;               /* [rows][padded d], not yet divided by sum */
} sia_decode;

enum { SIA_DECODE_ROWS = 16, SIA_CACHE_BLOCK = 256, SIA_PEAK_ROUNDS = 1 << 23 };

/* ---------------------------------------------------------------------------------------------- products */

/* c [m][n] = alpha a b + beta c, with b as panels (multiply.h). c is not read where beta is 0. */
typedef struct sia_multiply {
    int64_t m, n, k;
    const float *a;   /* [m][k], a_stride floats a row; or strips */
    int64_t a_stride; /* not used for strips */
    bool strips;
    bool cut; /* a is a part of more rows, cut where room ended: no bit may depend on m, as with strips */
    const float *b;
    float *c;
    int64_t c_stride;
    float alpha, beta;
} sia_multiply;

/* ---------------------------------------------------------------------------------------------- updates */

/* One step of Adam for n numbers, with g = factor * gradient:
 *
 *     m = beta1 m + rest1 g        v = beta2 v + rest2 g^2        value = keep value - rate m / (root sqrt(v) + epsilon) */
typedef struct sia_adam {
    float *value, *m, *v;
    const float *gradient;
    float factor, beta1, rest1, beta2, rest2, rate, root, epsilon, keep;
} sia_adam;

/* ---------------------------------------------------------------------------------------------- the table */

typedef struct sia_kernel {
    const char *name;
    bool (*supported)(void);
    int panel; /* NR */
    int tile;  /* MR */

    /* out: column panels, `panel_rows` rows from one to the next; rows x.rows to fill_rows - 1 are 0. */
    void (*pack_columns)(const sia_rows *x, float *out, int64_t panel_rows, int64_t fill_rows);
    /* out: key panels. Returns the largest sum of squares of a row, which is NaN or infinite if any is. */
    float (*pack_keys)(const sia_rows *x, float *out);
    /* The way back for gradients: out[i] = unturned(x[i]) * constant, x dense rows of `width`. */
    void (*unpack)(const sia_rows *to, const float *x, int64_t width, float constant, float *out);

    /* One row: out = x turned, times factor. */
    void (*turn)(const sia_tables *tables, int d, int64_t position, float factor, const float *x, float *out);
    /* out[i] = x[i] . y[i] over d numbers. */
    void (*row_dots)(const float *x, int64_t x_stride, const float *y, int64_t y_stride, int64_t rows, int d,
                     float *out);

    float (*largest_magnitude)(const float *x, int64_t n);

    size_t (*block_floats)(int head_dim); /* 0: there is nothing to make ready */
    void (*ready_block)(int head_dim, const sia_keys *keys, float *out);
    size_t (*softmax_floats)(int head_dim);
    void (*softmax_begin)(sia_softmax *s);
    void (*softmax_keys)(sia_softmax *s, const sia_keys *keys);
    /* out, lse (natural log), entropy (nats) and mass of row i at stride i times theirs; lse, entropy, mass
     * may be NULL. */
    void (*softmax_end)(sia_softmax *s, float *out, int64_t out_stride, float *lse, float *entropy,
                        float *mass, int64_t stride);

    size_t (*gradient_floats)(int head_dim);
    /* A block of keys, for any number of blocks of queries, for each of which: the weights and dS; then what each
     * gradient gets of it. d_q is set when `first`, else added to; d_k and d_v are complete at the end. Begin and end look
     * at what says nothing of queries. */
    void (*gradient_begin)(const sia_gradient *g);
    void (*gradient_weights)(const sia_gradient *g);
    void (*gradient_q)(const sia_gradient *g, bool first);
    void (*gradient_kv)(const sia_gradient *g);
    void (*gradient_end)(const sia_gradient *g);

    size_t (*cache_block_bytes)(sia_type type, int head_dim);
    /* One position of the cache: row i of block, from k (turned) and v of one head. */
    void (*cache_write)(sia_type type, int head_dim, void *block, int row, const float *k, const float *v);
    /* A block to float: key panels of k, column panels of v with SIA_CACHE_BLOCK rows. */
    void (*cache_read)(sia_type type, int head_dim, const void *block, float *k, float *v);
    void (*decode)(sia_type type, const sia_decode *d);

    /* Packing for products: x [k][n] and x [n][k] to panels, x [k][m] to strips. */
    void (*panels_from_rows)(const float *x, int64_t stride, int64_t k, int64_t n, float *out);
    void (*panels_from_columns)(const float *x, int64_t stride, int64_t k, int64_t n, float *out);
    void (*strips_from_rows)(const float *x, int64_t stride, int64_t k, int64_t m, float *out);
    void (*multiply)(const sia_multiply *p);
    int upper_rows; /* of a symmetric product that are best computed at a time, up to SIA_BLOCK_ROWS */
    void (*mirror)(float *c, int64_t n, int64_t stride); /* c[j][i] = c[i][j] for i < j */

    /* Rows of n numbers (rows.h). */
    void (*norm_rows)(const float *x, float *y, int64_t rows, int64_t n, float *inverse);
    void (*norm_rows_back)(const float *y, const float *inverse, const float *dy, const float *add, float *dx,
                           int64_t rows, int64_t n);
    void (*relu_square)(float *h, float *square, int64_t n);
    void (*relu_square_back)(float *h, float *d, int64_t n);
    float (*cross_entropy)(float *logits, int64_t n, uint32_t target, float scale);
    /* The inner loops of the optimisers (update.h); arrays do not overlap. */
    double (*sum_squares)(const float *x, int64_t n);
    void (*scale)(float *x, int64_t n, float factor);
    void (*update_adam)(const sia_adam *p, int64_t n);
    /* With g = factor * gradient: buffer = momentum buffer + g, out = g + momentum buffer (Nesterov). */
    void (*update_momentum)(const float *gradient, float factor, float momentum, float *buffer, float *out,
                            int64_t n);

    /* For `sia bench`: multiply-adds in registers alone, and a pass over memory. */
    double (*fma_peak)(int64_t rounds); /* up to SIA_PEAK_ROUNDS; floating-point operations done */
    float (*read_memory)(const float *x, int64_t floats); /* their sum */
} sia_kernel;

/* Every set that was compiled, best last, ended by NULL. */
extern const sia_kernel *const sia_kernel_table[];

/* The best that the processor has, or the one that SIA_ISA names; chosen once. */
const sia_kernel *sia_kernel_get(void);

/* SIA_ARGUMENT when SIA_ISA names a set that is not known or that the processor lacks. */
sia_status sia_kernel_check(sia_error *err);

/* For the tests: makes sia_kernel_get return this one (NULL: choose again), while no other thread computes. */
void sia_kernel_set(const sia_kernel *kernel);

/* d rounded up to whole panels. */
static inline int64_t sia_padded(const sia_kernel *kernel, int64_t n) {
    return (n + kernel->panel - 1) / kernel->panel * kernel->panel;
}

#endif
