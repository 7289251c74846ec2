/* SPDX-License-Identifier: MIT
 *
 * Quantiles of a sample and of the Gaussian, for quantile-quantile plots. */
#ifndef SIA_EVAL_QUANTILE_H
#define SIA_EVAL_QUANTILE_H

#include <stdint.h>

/* The x with P(g < x) = level for g ~ N(0, 1); 1e-9 < level < 1 - 1e-9, to about 1e-12. */
double sia_gaussian_quantile(double level);

/* Ascending; NaNs are not for it. */
void sia_sort_floats(float *values, int64_t count);

/* Of count >= 1 values in ascending order, interpolated: the i-th of n has the level i/(n - 1). */
double sia_sorted_quantile(const float *values, int64_t count, double level);

#endif
