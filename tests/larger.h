/* SPDX-License-Identifier: MIT
 *
 * The largest of some errors. fmax leaves out what is not a number, and a test that takes the worst of its errors by
 * it passes on results that are none. */
#ifndef SIA_TESTS_LARGER_H
#define SIA_TESTS_LARGER_H

#include <math.h>

/* The larger of two; NaN where one of them is. */
static inline double larger(double a, double b) { return a >= b || isnan(a) ? a : b; }

#endif
