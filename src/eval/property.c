/* SPDX-License-Identifier: MIT */
#include "eval/property.h"

#include <math.h>

#include "base/random.h"
#include "base/threads.h"
#include "eval/distance_sum.h"

/* ------------------------------------------------------------------------------------------------ closed */

/* psi(x), x > 0: up to x >= 16 by psi(x) = psi(x + 1) - 1/x, then its asymptotic series, good to 1e-16. */
static double digamma(double x) {
    double sum = 0;
    while (x < 16) {
        sum -= 1 / x;
        x += 1;
    }
    double r = 1 / (x * x);
    double series = r * (1 / 12.0 - r * (1 / 120.0 - r * (1 / 252.0 - r * (1 / 240.0 - r / 132))));
    return sum + log(x) - 0.5 / x - series;
}

/* ------------------------------------------------------------------------------------------------ quadrature */

/* The trapezoid rule, which on the whole line is exact for Gaussians but for e^(-2 pi^2 / step^2) = 1e-34. The
 * integrand phi(x) e^(a x + m) has its mass around x = a; 12 standard deviations are taken on either side. */
static void integrate(const void *context, double a, double m, double *values) {
    const double step = 0.5;
    (void)context;
    double z = 0, n = 0, first = round((a - 12) / step);
    for (int i = 0; i <= 48; i++) {
        double x = (first + i) * step, l = a * x + m;
        double w = exp(l - x * x / 2);
        z += w;
        n += l * w;
    }
    values[0] = z * step / sqrt(2 * M_PI);
    values[1] = n * step / sqrt(2 * M_PI);
}

/* ------------------------------------------------------------------------------------------------ sampled */

enum { DRAWS = 4096 };

typedef struct tilting {
    const sia_row_model *model;
    int64_t t;
    int ratio;
    uint64_t seed;
    double (*sums)[4]; /* of each block: z, z^2, n, n^2 */
} tilting;

/* One block of samples. A distance k has probability ln((k + 1)/k) / ln D; a logit has the density of the
 * tilted Gaussian, and the sample is e^L times the ratio of the two densities. */
static void draw_block(void *context, int64_t block, int worker) {
    const tilting *s = context;
    double *sums = s->sums[block], ratio = log(s->ratio);
    uint64_t seed = sia_random_stream(s->seed, (uint64_t)block);
    (void)worker;
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        /* Numbers 2i and 2i + 1 of the stream make the normal number i; distances have a stream of their own. */
        double u = sia_random_uniform(~seed, i), g = sia_random_normal(seed, i), a, m;
        int64_t k = (int64_t)((double)s->t * exp(u * ratio));
        if (k >= s->t * s->ratio) k = s->t * s->ratio - 1; /* exp may round up */
        sia_distance_values(s->model->scheme, &s->model->config, 0, k, 1, &a, &m);
        double above = a * a + a * g, tilted = above - a * a; /* L - m, and L less its tilted mean */
        double l = m + above, densities = (tilted * tilted - above * above) / (2 * a * a);
        double z = exp(l + densities) * ratio / log1p(1 / (double)k), n = l * z;
        sums[0] += z;
        sums[1] += z * z;
        sums[2] += n;
        sums[3] += n * n;
    }
}

static void finish(sia_property *p, double sum, double squares, double count) {
    p->sampled = sum / count;
    p->error = sqrt(fmax(squares / count - p->sampled * p->sampled, 0) / (count - 1));
    /* Z has next to no variance left at large t; what is left is rounding. */
    double slack = 5 * p->error + 1e-9 * fabs(p->closed);
    p->holds =
        fabs(p->quadrature - p->closed) <= 1e-6 * fabs(p->closed) && fabs(p->sampled - p->closed) <= slack;
}

void sia_property_check(const sia_row_model *model, int64_t t, int ratio, int64_t draws, uint64_t seed,
                        int threads, sia_property property[2]) {
    enum { MOST_BLOCKS = SIA_PROPERTY_DRAWS / DRAWS };
    double block_sums[MOST_BLOCKS][4], sums[4] = {0}, quadrature[2];
    const sia_attention_config *c = &model->config;
    double terms = digamma((double)(t * ratio) + c->tau) - digamma((double)t + c->tau);
    int64_t blocks = (draws + DRAWS - 1) / DRAWS;
    blocks = blocks < 1 ? 1 : blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks;
    sia_distance_sum(model, t, t * ratio, 2, integrate, NULL, quadrature);
    tilting s = {model, t, ratio, seed, block_sums};
    sia_parallel(threads, blocks, draw_block, &s);
    for (int64_t block = 0; block < blocks; block++)
        for (int i = 0; i < 4; i++) sums[i] += block_sums[block][i];
    for (int i = 0; i < 2; i++) {
        double factor = i ? c->beta : c->alpha;
        property[i] = (sia_property){.quantity = i ? 'N' : 'Z',
                                     .ratio = ratio,
                                     .t = t,
                                     .limit = factor * c->tau * log(ratio),
                                     .closed = factor * c->tau * terms,
                                     .quadrature = quadrature[i]};
        finish(&property[i], sums[2 * i], sums[2 * i + 1], (double)(blocks * DRAWS));
    }
}

/* ------------------------------------------------------------------------------------------------ plain */

static void mean_and_variance(const void *context, double a, double m, double *values) {
    (void)context;
    values[0] = exp(m + a * a / 2);
    values[1] = exp(2 * (m + a * a)) - exp(2 * m + a * a);
}

double sia_property_spread(const sia_row_model *model, int64_t t, int ratio) {
    double sums[2];
    sia_distance_sum(model, t, t * ratio, 2, mean_and_variance, NULL, sums);
    return sqrt(sums[1]) / sums[0];
}
