/* SPDX-License-Identifier: MIT
 *
 * One long range of a row, by its largest logits.
 *
 *     sia_thin thin = sia_thin_prepare(&model, begin, end);     once a range
 *     sia_weight_sum sum = sia_thin_sample(&thin, seed);        once a row
 *
 * A threshold u is set so that about SIA_THIN_LARGE of the normal numbers g_t are above it. Which ones, and how
 * large they are, is drawn exactly. Those below are many and bounded: their Z and N are drawn from the normal
 * distribution with the mean and the covariance that they have. tests/eval compares the entropies with those of
 * rows made logit by logit. */
#ifndef SIA_EVAL_THIN_H
#define SIA_EVAL_THIN_H

#include "eval/rows.h"

enum { SIA_THIN_LARGE = 256 };

typedef struct sia_thin {
    const sia_row_model *model; /* borrowed */
    int64_t begin, end;
    double threshold; /* u */
    double above;     /* P(g > u) */
    /* Below the threshold, as multiples of e^top: the means of Z and N for a distance that is known to be
     * below it, summed over all distances; and the square root (Cholesky) of the covariance. */
    double top, mean_z, mean_n, root_zz, root_nz, root_nn;
} sia_thin;

/* More than SIA_ROWS_FULL distances. */
sia_thin sia_thin_prepare(const sia_row_model *model, int64_t begin, int64_t end);
sia_weight_sum sia_thin_sample(const sia_thin *thin, uint64_t seed);

#endif
