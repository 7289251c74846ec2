/* SPDX-License-Identifier: MIT
 *
 * Sums over distances, of functions that are smooth in ln t: a range of 10^9 distances costs what one of a few
 * thousand does, and the error is about 1e-8 of the sum.
 *
 *     double sums[2];
 *     sia_distance_sum(&model, begin, end, 2, term, &context, sums);       term fills two values for a, m */
#ifndef SIA_EVAL_DISTANCE_SUM_H
#define SIA_EVAL_DISTANCE_SUM_H

#include "eval/rows.h"

enum { SIA_DISTANCE_SUMS = 5 };

/* The values at a distance where L ~ N(m, a^2). */
typedef void sia_distance_term(const void *context, double a, double m, double *values);

/* sums[0 .. count): each value, summed over begin <= t < end; count <= SIA_DISTANCE_SUMS. */
void sia_distance_sum(const sia_row_model *model, int64_t begin, int64_t end, int count,
                      sia_distance_term *term, const void *context, double *sums);

#endif
