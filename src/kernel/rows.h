/* SPDX-License-Identifier: MIT
 *
 * What the model does to rows of numbers between its matrix products. Sums run over vectors, then over the
 * rest, then over the lanes: their order depends on the length of the row alone. */
#ifndef SIA_KERNEL_ROWS_H
#define SIA_KERNEL_ROWS_H

#include "kernel/kernel.h"
#include "kernel/vector.h"

/* 1 / sqrt(mean(x^2)) of a row whose squares are beyond float; NaN where a number of it is not finite. */
static float inverse_of_large(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += (double)x[j] * x[j];
    return isfinite(sum) ? (float)(1 / sqrt(sum / (double)n)) : NAN;
}

/* RMSNorm without a gain: y = x r, r = 1 / sqrt(mean(x^2) + 2^-23). The constant is that of PyTorch's rms_norm
 * in float32; a row of zeros stays a row of zeros. Any finite row has a finite norm; one that is not finite is
 * NaN throughout. */
static void norm_rows(const float *x, float *y, int64_t rows, int64_t n, float *inverse) {
    for (int64_t i = 0; i < rows; i++, x += n, y += n) {
        vf sum[4] = {vzero(), vzero(), vzero(), vzero()};
        int64_t j = 0;
        for (; j + 4 * VW <= n; j += 4 * VW)
            for (int u = 0; u < 4; u++) {
                vf a = vload(x + j + u * VW);
                sum[u] = vfma(a, a, sum[u]);
            }
        float rest = 0;
        for (; j < n; j++) rest += x[j] * x[j];
        float mean = (vsum((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest) / (float)n;
        float r = mean <= FLT_MAX ? 1.0f / sqrtf(mean + 0x1p-23f) : inverse_of_large(x, n);
        inverse[i] = r;
        for (j = 0; j + VW <= n; j += VW) vstore(y + j, vload(x + j) * vdup(r));
        for (; j < n; j++) y[j] = x[j] * r;
    }
}

/* dx = r (dy - y mean(dy y)), plus what `add` holds where it is not NULL. dx may be dy or add. */
static void norm_rows_back(const float *y, const float *inverse, const float *dy, const float *add, float *dx,
                           int64_t rows, int64_t n) {
    for (int64_t i = 0; i < rows; i++, y += n, dy += n, dx += n) {
        vf sum[4] = {vzero(), vzero(), vzero(), vzero()};
        int64_t j = 0;
        for (; j + 4 * VW <= n; j += 4 * VW)
            for (int u = 0; u < 4; u++) sum[u] = vfma(vload(y + j + u * VW), vload(dy + j + u * VW), sum[u]);
        float rest = 0;
        for (; j < n; j++) rest += y[j] * dy[j];
        float mean = (vsum((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest) / (float)n;
        vf r = vdup(inverse[i]), m = vdup(mean);
        for (j = 0; j + VW <= n; j += VW) {
            vf d = r * (vload(dy + j) - vload(y + j) * m);
            vstore(dx + j, add ? d + vload(add + j) : d);
        }
        for (; j < n; j++) {
            float d = inverse[i] * (dy[j] - y[j] * mean);
            dx[j] = add ? d + add[j] : d;
        }
        if (add) add += n;
    }
}

/* h = max(h, 0), square = h^2. A NaN stays one. */
static void relu_square(float *h, float *square, int64_t n) {
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        vf x = vmax(vzero(), vload(h + i));
        vstore(h + i, x);
        vstore(square + i, x * x);
    }
    for (; i < n; i++) {
        h[i] = h[i] < 0 ? 0 : h[i];
        square[i] = h[i] * h[i];
    }
}

/* d = 2 h d, then h = h^2, which the gradient of the next weight wants. */
static void relu_square_back(float *h, float *d, int64_t n) {
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        vf x = vload(h + i);
        vstore(d + i, (x + x) * vload(d + i));
        vstore(h + i, x * x);
    }
    for (; i < n; i++) {
        d[i] *= 2 * h[i];
        h[i] *= h[i];
    }
}

/* Gradients of logits so small that tiles would take their rows for wild (amx.h) might as well have underflowed. */
INLINE vf if_it_counts(vf gradient) {
#ifdef TILES
    return vselect(vabs(gradient) < vdup(0x1p-75f), vzero(), gradient);
#else
    return gradient;
#endif
}

/* Cross entropy of one row of logits: log(sum of exp) - logit of the target. The logits become
 * scale * (softmax - target) where scale is not 0. */
static float cross_entropy(float *logits, int64_t n, uint32_t target, float scale) {
    const float log2e = 1.44269504f;
    vf highest = vdup(-INFINITY);
    int64_t whole = n / VW * VW, i;
    for (i = 0; i < whole; i += VW) highest = vmax(highest, vload(logits + i));
    float max = vmaximum(highest);
    for (; i < n; i++) max = logits[i] > max ? logits[i] : max;
    /* The target's logit is read before it is overwritten. */
    float wanted = logits[target] - max;
    vf factor = vdup(log2e), sums[2] = {vzero(), vzero()};
    float rest = 0;
    for (i = 0; i + 2 * VW <= whole; i += 2 * VW)
        for (int u = 0; u < 2; u++) {
            vf e = vexp2((vload(logits + i + u * VW) - vdup(max)) * factor);
            sums[u] += e;
            if (scale != 0) vstore(logits + i + u * VW, e);
        }
    for (; i < n; i++) {
        float e = scalar_exp2((logits[i] - max) * log2e);
        rest += e;
        if (scale != 0) logits[i] = e;
    }
    float sum = vsum(sums[0] + sums[1]) + rest;
    if (scale != 0) {
        float f = scale / sum;
        for (i = 0; i < whole; i += VW) vstore(logits + i, if_it_counts(vload(logits + i) * vdup(f)));
        for (; i < n; i++) logits[i] = if_it_counts(vdup(logits[i] * f))[0];
        logits[target] -= scale;
    }
    return logf(sum) - wanted;
}

#endif
