/* SPDX-License-Identifier: MIT
 *
 * Above the threshold u, Q = P(g > u): the gaps between distances that exceed it are geometric, so that every
 * distance exceeds it with probability Q, independently of the others; the excess is drawn by Marsaglia's
 * method for the tail, x = sqrt(u^2 - 2 ln v), accepted with probability u / x.
 *
 * Below it, with L = a g + m, l = L - top, and the Mills ratio R(x) = P(g > x) / phi(x), k = 1, 2:
 *
 *     E_k = phi(u) e^(k (m + a u - top)),   r = R(k a - u),   c = m - top + k a^2
 *     E[e^(k l); g <= u]     = E_k r
 *     E[l e^(k l); g <= u]   = E_k (c r - a)
 *     E[l^2 e^(k l); g <= u] = E_k ((c^2 + a^2) r - a (2 c + a (u - k a)))
 *
 * k = 1 are the means of Z and N, k = 2 their second moments. In this form nothing overflows, however large a
 * is: top is the largest logit below the threshold. */
#include "eval/thin.h"

#include <math.h>

#include "base/random.h"
#include "eval/distance_sum.h"

static double density(double x) { return exp(-x * x / 2) / sqrt(2 * M_PI); }
static double tail(double x) { return 0.5 * erfc(x * M_SQRT1_2); }

/* Far out the ratio is a continued fraction, 1/(x + 1/(x + 2/(x + 3/...))): there, tail and density are 0. */
static double mills(double x) {
    if (x < 10) return tail(x) / density(x);
    double fraction = x;
    for (int i = 20; i >= 1; i--) fraction = x + i / fraction;
    return 1 / fraction;
}

/* u with P(g > u) = share, by halving: 60 steps leave nothing to halve. */
static double threshold_of(double share) {
    double low = 0, high = 40;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (tail(middle) > share)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* ------------------------------------------------------------------------------------------------ prepare */

/* For one distance, of the logits known to be below the threshold: E[w], E[l w], Var w, Cov(w, l w), Var l w,
 * where w = e^l. */
static void below(const void *context, double a, double m, double *values) {
    const sia_thin *thin = context;
    double u = thin->threshold, keep = 1 - thin->above, moment[3][3] = {{0}};
    for (int k = 1; k <= 2; k++) {
        double e = density(u) * exp(k * (m + a * u - thin->top)) / keep, r = mills(k * a - u);
        double c = m - thin->top + k * a * a;
        moment[k][0] = e * r;
        moment[k][1] = e * (c * r - a);
        moment[k][2] = e * ((c * c + a * a) * r - a * (2 * c + a * (u - k * a)));
    }
    values[0] = moment[1][0];
    values[1] = moment[1][1];
    values[2] = moment[2][0] - moment[1][0] * moment[1][0];
    values[3] = moment[2][1] - moment[1][0] * moment[1][1];
    values[4] = moment[2][2] - moment[1][1] * moment[1][1];
}

/* The largest m + a u: at one of the ends, for every scheme there is. */
static double largest_below(const sia_row_model *model, int64_t begin, int64_t end, double u) {
    double a[2], m[2];
    sia_distance_values(model->scheme, &model->config, 0, begin, 1, &a[0], &m[0]);
    sia_distance_values(model->scheme, &model->config, 0, end - 1, 1, &a[1], &m[1]);
    return fmax(m[0] + a[0] * model->row * u, m[1] + a[1] * model->row * u);
}

sia_thin sia_thin_prepare(const sia_row_model *model, int64_t begin, int64_t end) {
    sia_thin thin = {.model = model, .begin = begin, .end = end};
    double sums[5];
    thin.threshold = threshold_of(SIA_THIN_LARGE / (double)(end - begin));
    thin.above = tail(thin.threshold);
    thin.top = largest_below(model, begin, end, thin.threshold);
    sia_distance_sum(model, begin, end, 5, below, &thin, sums);
    double keep = 1 - thin.above;
    thin.mean_z = sums[0];
    thin.mean_n = sums[1];
    thin.root_zz = sqrt(fmax(keep * sums[2], 0));
    thin.root_nz = thin.root_zz > 0 ? keep * sums[3] / thin.root_zz : 0;
    thin.root_nn = sqrt(fmax(keep * sums[4] - thin.root_nz * thin.root_nz, 0));
    return thin;
}

/* ------------------------------------------------------------------------------------------------ sample */

enum { RUN = 256 };

static double large_normal(const sia_thin *thin, uint64_t seed, uint64_t *next) {
    for (;;) {
        double v = 1 - sia_random_uniform(seed, (*next)++), w = sia_random_uniform(seed, (*next)++);
        double x = sqrt(thin->threshold * thin->threshold - 2 * log(v));
        if (w * x < thin->threshold) return x;
    }
}

sia_weight_sum sia_thin_sample(const sia_thin *thin, uint64_t seed) {
    const sia_row_model *model = thin->model;
    sia_weight_sum sum = sia_weight_none;
    double logit[RUN], gap = 1 / log1p(-thin->above), length = (double)(thin->end - thin->begin);
    double place = -1; /* a gap may lead beyond what an integer holds */
    int64_t large = 0;
    uint64_t next = 0;
    int used = 0;
    for (;;) {
        place += 1 + floor(log(1 - sia_random_uniform(seed, next++)) * gap);
        if (!(place < length)) break;
        double a, m, g = large_normal(thin, seed, &next);
        sia_distance_values(model->scheme, &model->config, 0, thin->begin + (int64_t)place, 1, &a, &m);
        logit[used++] = a * model->row * g + m;
        large++;
        if (used < RUN) continue;
        sum = sia_weight_join(sum, sia_weight_of(logit, used));
        used = 0;
    }
    sum = sia_weight_join(sum, sia_weight_of(logit, used));

    uint64_t own = sia_random_stream(seed, 0);
    double share = 1 - (double)large / length, x = sia_random_normal(own, 0), y = sia_random_normal(own, 1);
    double z = share * thin->mean_z + thin->root_zz * x;
    double n = share * thin->mean_n + thin->root_nz * x + thin->root_nn * y;
    /* Five standard deviations below its mean and more; no weight is negative. */
    if (!(z > 0)) return sum;
    return sia_weight_join(sum, (sia_weight_sum){thin->top, z, n});
}
