/* SPDX-License-Identifier: MIT */
#include "eval/quantile.h"

#include <math.h>
#include <stdlib.h>

/* Newton's method from the middle. Phi is concave above 0: a tangent never reaches the level after the curve
 * does, so that the steps go up to the root and not beyond it. */
static double upper_quantile(double tail) {
    double x = 0;
    for (int i = 0; i < 100; i++) {
        double step = (0.5 * erfc(x * M_SQRT1_2) - tail) * sqrt(2 * M_PI) * exp(0.5 * x * x);
        x += step;
        if (fabs(step) < 1e-14 * (1 + x)) break;
    }
    return x;
}

double sia_gaussian_quantile(double level) {
    return level < 0.5 ? -upper_quantile(level) : upper_quantile(1 - level);
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void sia_sort_floats(float *values, int64_t count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
}

double sia_sorted_quantile(const float *values, int64_t count, double level) {
    double place = level * (double)(count - 1);
    int64_t below = (int64_t)place;
    if (below >= count - 1) return (double)values[count - 1];
    double share = place - (double)below;
    return (1 - share) * (double)values[below] + share * (double)values[below + 1];
}
