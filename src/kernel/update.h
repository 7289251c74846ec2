/* SPDX-License-Identifier: MIT
 *
 * The inner loops of the optimisers, one pass over memory each; plain C that the compilers vectorise.
 *
 * A number whose size falls below the smallest normal float is set to 0: the averages of a token that is no
 * longer seen decay into that range within some thousand steps, where many processors are a hundred times
 * slower. */
#ifndef SIA_KERNEL_UPDATE_H
#define SIA_KERNEL_UPDATE_H

#include "kernel/kernel.h"
#include "kernel/vector.h"

INLINE float without_subnormals(float x) { return fabsf(x) < FLT_MIN ? 0 : x; }

/* Products of floats are exact in double, and the sums have fixed lanes: the same bits on every instruction
 * set. */
static double sum_squares(const float *x, int64_t n) {
    enum { LANES = 16 };
    double sum[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) sum[j] += (double)x[i + j] * x[i + j];
    for (; i < n; i++) sum[i % LANES] += (double)x[i] * x[i];
    for (int width = LANES / 2; width; width /= 2)
        for (int j = 0; j < width; j++) sum[j] += sum[j + width];
    return sum[0];
}

static void scale(float *x, int64_t n, float factor) {
    for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

static void update_adam(const sia_adam *p, int64_t n) {
    float *restrict value = p->value, *restrict mean = p->m, *restrict square = p->v;
    const float *restrict gradient = p->gradient;
    const float factor = p->factor, beta1 = p->beta1, beta2 = p->beta2, rest1 = p->rest1, rest2 = p->rest2;
    const float rate = p->rate, root = p->root, epsilon = p->epsilon, keep = p->keep;
    for (int64_t i = 0; i < n; i++) {
        float g = gradient[i] * factor;
        float m = without_subnormals(beta1 * mean[i] + rest1 * g);
        float v = without_subnormals(beta2 * square[i] + rest2 * g * g);
        mean[i] = m;
        square[i] = v;
        value[i] = keep * value[i] - rate * (m / (sqrtf(v) * root + epsilon));
    }
}

static void update_momentum(const float *gradient, float factor, float momentum, float *buffer, float *out,
                            int64_t n) {
    const float *restrict in = gradient;
    float *restrict sum = buffer, *restrict ahead = out;
    for (int64_t i = 0; i < n; i++) {
        float g = in[i] * factor, b = without_subnormals(momentum * sum[i] + g);
        sum[i] = b;
        ahead[i] = g + momentum * b;
    }
}

#endif
