/* SPDX-License-Identifier: MIT
 *
 * Rows of Gaussian logits: what attention looks like when the scores are independent normal numbers.
 *
 *     L_t = scale[t] * row * g_t + bias[t]        g_t ~ N(0, 1), independent
 *
 *     sia_row_model model;
 *     if (sia_row_model_create(&model, "si", &config, err)) return err->status;
 *     int64_t bounds[] = {0, 100, 1000};
 *     sia_weight_sum sums[64 * 2];                              64 rows, two ranges each
 *     sia_rows_sample(&model, &(sia_row_sampling){.count = 64, .bounds = bounds, .ranges = 2, .seed = 1, .threads = 2},
 *                     sums, err);
 *     double entropy = sia_weight_entropy(sia_weight_join(sums[0], sums[1]));
 *
 * A range of up to `full` distances is made logit by logit. Of a longer one only the largest few hundred logits
 * are: the others, millions that each weigh next to nothing, add up to a normal number whose mean and variance
 * are known exactly (thin.h). A row of 10^9 keys then costs what a row of 10^4 does.
 *
 * Same bits for any number of threads: a logit is a function of (seed, row, range, its place in the range), and
 * sums have one order. */
#ifndef SIA_EVAL_ROWS_H
#define SIA_EVAL_ROWS_H

#include <stdbool.h>

#include "position/scheme.h"

/* The scores' transform: the distance slot of a scheme, and a factor for the row. */
typedef struct sia_row_model {
    sia_scheme scheme;
    sia_attention_config config;
    double row; /* [1] logn: s ln N */
} sia_row_model;

/* scheme is a name such as "nope", "si", "alibi"; of config, tau, alpha and beta count, 0 for the default.
 * There is one head: the slope of alibi is 2^-8, the gentlest that it has for any number of heads. */
sia_status sia_row_model_create(sia_row_model *model, const char *scheme, const sia_attention_config *config,
                                sia_error *err);

/* Z = sum of e^L and N = sum of L e^L over some distances, as multiples of e^top, so that no logit is too large
 * or too small for them:  Z = e^top z,  N = e^top (n + top z). No distances: z = 0, top = -infinity. */
typedef struct sia_weight_sum {
    double top, z, n;
} sia_weight_sum;

extern const sia_weight_sum sia_weight_none;
sia_weight_sum sia_weight_of(const double *logits, int64_t count);
sia_weight_sum sia_weight_join(sia_weight_sum a, sia_weight_sum b);
double sia_weight_entropy(sia_weight_sum sum); /* ln Z - N/Z, in nats; 0 for no distances */

/* Called on the calling thread now and then, with the rows done so far; not 0 stops the work. */
typedef int sia_rows_progress(void *context, int64_t rows);

enum { SIA_ROWS_FULL = 8192 };

typedef struct sia_row_sampling {
    int64_t count;
    const int64_t *bounds; /* [ranges + 1] ascending distances; range i is bounds[i] <= t < bounds[i + 1] */
    int ranges;            /* 1 .. SIA_ROWS_RANGES */
    int64_t full;          /* [SIA_ROWS_FULL] at least SIA_ROWS_FULL */
    uint64_t seed;
    int threads;
    sia_rows_progress *progress; /* or NULL */
    void *progress_context;
} sia_row_sampling;

enum { SIA_ROWS_RANGES = 16 };

/* sums [count, ranges]. SIA_STOPPED when progress says so. */
sia_status sia_rows_sample(const sia_row_model *model, const sia_row_sampling *rows, sia_weight_sum *sums,
                           sia_error *err);

/* Fills normal[i], i < count, with the numbers of the stream from place `first` on; first and count are
 * multiples of SIA_NORMAL_BLOCK. In float: the error of a number is about 1e-6, its size 7.4 at most. */
enum { SIA_NORMAL_BLOCK = 512 };
void sia_normal_fill(uint64_t seed, uint64_t first, int64_t count, float *normal);

#endif
