/* SPDX-License-Identifier: MIT
 *
 * The kernels that go over rows of numbers, one by one, against float64: lengths around every width of a vector,
 * and numbers at the edges of float. Arrays end where the allocation ends, so that the address sanitizer sees a
 * step outside. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "kernel/matrix.h"
#include "optim/muon.h"
#include "problem.h"

static const int64_t lengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200};
enum { LENGTHS = sizeof lengths / sizeof *lengths, MOST = 200, ROWS = 3 };

static float *normal(int64_t count, uint64_t seed, double size) {
    float *x = malloc((size_t)count * sizeof(float));
    assert_non_null(x);
    for (int64_t i = 0; i < count; i++) x[i] = (float)(size * sia_random_normal(seed, (uint64_t)i));
    return x;
}

static bool near(double found, double want, double bound) {
    return isnan(want) ? isnan(found) : found == want || fabs(found - want) <= bound;
}

/* ------------------------------------------------------------------------------------------ norms */

static void norm_follows_float64(void **state) {
    (void)state;
    const double sizes[] = {1, 1e-3, 1e-4, 1e-10, 1e-38, 1e-42, 1e5, 1e18, 1e20, 1e30, 7e37};
    FOR_EACH_ISA (kernel)
        for (int l = 0; l < LENGTHS; l++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                int64_t n = lengths[l];
                float *x = normal(ROWS * n, 80, sizes[s]), *y = malloc((size_t)(ROWS * n) * sizeof(float)),
                      r[ROWS];
                kernel->norm_rows(x, y, ROWS, n, r);
                for (int64_t i = 0; i < ROWS; i++) {
                    double mean = 0;
                    for (int64_t j = 0; j < n; j++) mean += (double)x[i * n + j] * x[i * n + j] / (double)n;
                    double want = 1 / sqrt(mean + 0x1p-23);
                    /* The inverse of a row beyond 1e38 is itself below the normal numbers. */
                    double bound = want < FLT_MIN ? 1e-3 : 2e-6;
                    if (!near(r[i], want, bound * want))
                        fail_msg("%s: %lld numbers of size %g: 1/rms %g, want %g", kernel->name, (long long)n,
                                 sizes[s], (double)r[i], want);
                    for (int64_t j = 0; j < n; j++)
                        assert_true(near(y[i * n + j], x[i * n + j] * want, bound * 15));
                }
                free(x);
                free(y);
            }
}

static void norm_of_extremes(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    FOR_EACH_ISA (kernel)
        for (int l = 0; l < LENGTHS; l++) {
            int64_t n = lengths[l];
            float x[ROWS * MOST] = {0}, y[ROWS * MOST], r[ROWS];
            kernel->norm_rows(x, y, ROWS, n, r);
            for (int64_t i = 0; i < ROWS * n; i++) assert_true(y[i] == 0);
            for (int i = 0; i < ROWS; i++) assert_true(fabsf(r[i] - 2896.309f) < 1e-2f);
            for (int kind = 0; kind < 3;
                 kind++) { /* row 1 has it, at its start, middle or end; the others do not */
                for (int64_t i = 0; i < ROWS * n; i++) x[i] = 1;
                x[n + (kind == 0 ? 0 : kind == 1 ? n / 2 : n - 1)] = bad[kind];
                kernel->norm_rows(x, y, ROWS, n, r);
                for (int64_t i = 0; i < ROWS * n; i++)
                    assert_true(i / n == 1 ? isnan(y[i]) : fabsf(y[i] - 1) < 1e-6f);
            }
        }
}

static void norm_back_follows_float64(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel)
        for (int l = 0; l < LENGTHS; l++)
            for (int with_add = 0; with_add < 3; with_add++) { /* 2: into the array that is added */
                int64_t n = lengths[l];
                float *y = normal(ROWS * n, 81, 1), *dy = normal(ROWS * n, 82, 1),
                      *add = normal(ROWS * n, 83, 1);
                float *dx = malloc((size_t)(ROWS * n) * sizeof(float)), r[ROWS] = {0.5f, 2, 3000};
                double want[ROWS * MOST];
                for (int64_t i = 0; i < ROWS; i++) {
                    double mean = 0;
                    for (int64_t j = 0; j < n; j++) mean += (double)y[i * n + j] * dy[i * n + j] / (double)n;
                    for (int64_t j = i * n; j < (i + 1) * n; j++)
                        want[j] = r[i] * (dy[j] - y[j] * mean) + (with_add ? add[j] : 0);
                }
                float *out = with_add == 2 ? add : with_add == 0 ? dy : dx;
                kernel->norm_rows_back(y, r, dy, with_add ? add : NULL, out, ROWS, n);
                for (int64_t j = 0; j < ROWS * n; j++)
                    assert_true(near(out[j], want[j], 1e-5 * r[j / n] + 1e-6));
                free(y);
                free(dy);
                free(add);
                free(dx);
            }
}

/* ------------------------------------------------------------------------------------------ magnitudes */

static void largest_at_every_place(void **state) {
    (void)state;
    const float largest[] = {3, -3, 1e38f, -INFINITY};
    FOR_EACH_ISA (kernel) {
        assert_true(kernel->largest_magnitude(NULL, 0) == 0);
        for (int l = 0; l < LENGTHS; l++)
            for (int64_t at = 0; at < lengths[l]; at++)
                for (int i = 0; i < 4; i++) {
                    float *x = malloc((size_t)lengths[l] * sizeof(float));
                    assert_non_null(x);
                    for (int64_t j = 0; j < lengths[l]; j++) x[j] = j == at ? largest[i] : (float)(j % 5) - 2;
                    assert_true(kernel->largest_magnitude(x, lengths[l]) == fabsf(largest[i]));
                    free(x);
                }
    }
}

/* ------------------------------------------------------------------------------------------ squared ReLU */

static void relu_follows(void **state) {
    (void)state;
    const float special[] = {0, -0.0f, 1e-40f, -1e-40f, 1e19f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN};
    FOR_EACH_ISA (kernel)
        for (int l = 0; l < LENGTHS; l++) {
            int64_t n = lengths[l];
            float *x = normal(n, 84, 1), *h = malloc((size_t)n * sizeof(float)),
                  *square = malloc((size_t)n * 4);
            float *d = normal(n, 85, 1), *before = normal(n, 85, 1);
            for (int64_t i = 0; i < n; i++)
                if (i % 3 == 1) x[i] = special[i / 3 % 10];
            memcpy(h, x, (size_t)n * sizeof(float));
            kernel->relu_square(h, square, n);
            for (int64_t i = 0; i < n; i++) {
                float want = isnan(x[i]) ? NAN : x[i] > 0 ? x[i] : 0;
                assert_true(near(h[i], want, 0) && near(square[i], want * want, 0));
            }
            kernel->relu_square_back(h, d, n);
            for (int64_t i = 0; i < n; i++) {
                float want = isnan(x[i]) ? NAN : x[i] > 0 ? x[i] : 0;
                assert_true(near(d[i], 2 * want * before[i], fabs(1e-6 * want * before[i])));
                assert_true(near(h[i], want * want, 0));
            }
            free(x);
            free(h);
            free(square);
            free(d);
            free(before);
        }
}

/* ------------------------------------------------------------------------------------------ cross entropy */

typedef struct loss_case {
    const char *name;
    double size;     /* of normal logits */
    float target;    /* what the target's logit is, NAN: as drawn */
    float other;     /* another one, NAN: as drawn */
    bool other_nan;  /* the other one is a NaN */
    double sentinel; /* NAN, INFINITY, or 0: by the formula */
} loss_case;

static const loss_case losses[] = {
    {"plain", 1, NAN, NAN, false, 0},
    {"large", 1e4, NAN, NAN, false, 0},
    {"1e30", 1e30, NAN, NAN, false, 0},
    {"zeros", 0, NAN, NAN, false, 0},
    {"denormal", 1e-41, NAN, NAN, false, 0},
    {"sure", 1, 1e30f, NAN, false, 0},
    {"surely wrong", 1, -1e30f, NAN, false, 0},
    {"another is sure", 1, NAN, 1e30f, false, 0},
    {"another is impossible", 1, NAN, -INFINITY, false, 0},
    {"the target is impossible", 1, -INFINITY, NAN, false, INFINITY},
    {"the target is infinite", 1, INFINITY, NAN, false, NAN},
    {"another is infinite", 1, NAN, INFINITY, false, NAN},
    {"the target is NaN", 1, NAN, NAN, true, NAN},
    {"the whole range", 1, 3e38f, -3e38f, false, 0},
};

static void check_loss(const sia_kernel *kernel, const loss_case *c, int64_t n, uint32_t target,
                       float scale) {
    float *x = normal(n, 86, c->size), before[MOST];
    uint32_t other = target == 0 ? (uint32_t)n - 1 : 0;
    if (!isnan(c->target)) x[target] = c->target;
    if (!isnan(c->other)) x[other] = c->other;
    if (c->other_nan) x[other] = NAN;
    memcpy(before, x, (size_t)n * sizeof(float));
    double most = -INFINITY;
    for (int64_t i = 0; i < n; i++) most = fmax(most, before[i]);
    double sum = exp(before[0] - most);
    for (int64_t i = 1; i < n; i++) sum += exp(before[i] - most);
    double want = most + log(sum) - before[target];
    if (c->sentinel != 0) want = c->sentinel;
    float found = kernel->cross_entropy(x, n, target, scale);
    bool good = near(found, want, 2e-6 * (1 + fabs(want)));
    for (int64_t i = 0; i < n; i++) {
        double p = exp(before[i] - most) / sum, d = scale * (p - (i == target));
        if (scale != 0 && isfinite(want)) good = good && near(x[i], d, 1e-6 * fabs((double)scale));
        if (scale != 0 && isnan(want)) good = good && isnan(x[i]);
    }
    if (scale == 0) assert_memory_equal(x, before, (size_t)n * sizeof(float)); /* left alone */
    if (!good)
        fail_msg("%s: %s, %lld logits, target %u, scale %g: loss %g, want %g", kernel->name, c->name,
                 (long long)n, target, (double)scale, (double)found, want);
    free(x);
}

static void loss_follows_float64(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel)
        for (size_t c = 0; c < sizeof losses / sizeof *losses; c++)
            for (int l = 1; l < LENGTHS; l++)
                for (int place = 0; place < 3; place++)
                    for (int scaled = 0; scaled < 3; scaled++) {
                        int64_t n = lengths[l];
                        uint32_t target = (uint32_t)(place == 0 ? 0 : place == 1 ? n / 2 : n - 1);
                        check_loss(kernel, &losses[c], n, target, scaled == 0 ? 0 : scaled == 1 ? 1 : 1e-4f);
                    }
}

/* ------------------------------------------------------------------------------------------ updates */

static void sums_and_scales(void **state) {
    (void)state;
    const double sizes[] = {1, 1e-42, 1e-20, 1e20, 3e37};
    FOR_EACH_ISA (kernel)
        for (int l = 0; l < LENGTHS; l++)
            for (int s = 0; s < 5; s++) {
                int64_t n = lengths[l];
                float *x = normal(n, 87, sizes[s]);
                double sum = 0;
                for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
                assert_true(near(kernel->sum_squares(x, n), sum, 1e-12 * sum));
                float *y = normal(n, 87, sizes[s]);
                kernel->scale(y, n, -0.75f);
                for (int64_t i = 0; i < n; i++) assert_true(y[i] == -0.75f * x[i]);
                x[n - 1] = INFINITY;
                assert_true(kernel->sum_squares(x, n) == INFINITY);
                x[n / 2] = NAN;
                assert_true(isnan(kernel->sum_squares(x, n)));
                free(x);
                free(y);
            }
}

static double flushed(double x) { return fabs(x) < (double)FLT_MIN ? 0 : x; }

static void adam_of_extremes(void **state) {
    (void)state;
    const float sizes[] = {0, 1e-45f, 1e-40f, 1e-30f, 1e-10f, 1, 1e10f, 1e18f};
    FOR_EACH_ISA (kernel)
        for (int l = 0; l < LENGTHS; l++)
            for (int s = 0; s < 8; s++) {
                int64_t n = lengths[l];
                float *value = normal(n, 88, 1), *start = normal(n, 88, 1), *gradient = normal(n, 89, 1);
                float *m = normal(n, 90, 1e-3), *v = normal(n, 91, 1e-3), *m0 = normal(n, 90, 1e-3);
                float *v0 = normal(n, 91, 1e-3);
                for (int64_t i = 0; i < n; i++) {
                    gradient[i] *= sizes[s] / 6; /* a normal number is below 6 */
                    v[i] = v0[i] = i % 4 == 3 ? 1e-38f : fabsf(v[i]);
                    if (i % 4 == 3) m[i] = m0[i] = -1.2e-38f;
                }
                sia_adam p = {value, m,     v,     gradient, 0.5f,  0.9f, 0.1f,
                              0.95f, 0.05f, 0.01f, 1.25f,    1e-8f, 0.75f};
                kernel->update_adam(&p, n);
                for (int64_t i = 0; i < n; i++) {
                    double g = (double)gradient[i] * 0.5, mean = 0.9f * (double)m0[i] + 0.1f * g;
                    double square = 0.95f * (double)v0[i] + 0.05f * g * g;
                    /* At the edge of the normal numbers rounding decides which side it is. */
                    bool edge = fabs(fabs(mean) / (double)FLT_MIN - 1) < 1e-5 ||
                                fabs(square / (double)FLT_MIN - 1) < 1e-5;
                    if (edge) continue;
                    mean = flushed(mean);
                    square = flushed(square);
                    double step = 0.01f * (mean / (sqrt(square) * 1.25 + 1e-8f)),
                           want = 0.75 * start[i] - step;
                    assert_true(near(m[i], mean, 1e-6 * fabs(mean)) && near(v[i], square, 1e-6 * square));
                    assert_true(near(value[i], want, 1e-6 * (fabs(step) + 1)));
                }
                float *all[] = {value, start, gradient, m, v, m0, v0};
                for (int i = 0; i < 7; i++) free(all[i]);
            }
}

static void momentum_of_extremes(void **state) {
    (void)state;
    const float sizes[] = {0, 1e-45f, 1e-39f, 1e-30f, 1, 1e18f};
    FOR_EACH_ISA (kernel)
        for (int l = 0; l < LENGTHS; l++)
            for (int s = 0; s < 6; s++) {
                int64_t n = lengths[l];
                float *g = normal(n, 92, sizes[s]), *b = normal(n, 93, sizes[s]),
                      *b0 = normal(n, 93, sizes[s]);
                float *out = malloc((size_t)n * sizeof(float));
                kernel->update_momentum(g, 0.5f, 0.95f, b, out, n);
                for (int64_t i = 0; i < n; i++) {
                    float x = g[i] * 0.5f;
                    double sum = flushed(0.95f * (double)b0[i] + x), ahead = x + 0.95f * (double)b[i];
                    if (fabs(fabs(sum) / (double)FLT_MIN - 1) < 1e-5) continue;
                    assert_true(near(b[i], sum, 1e-6 * (fabs(sum) + fabs((double)x))));
                    assert_true(near(out[i], ahead, 1e-6 * (fabs((double)x) + fabs((double)b[i])) + 3e-45));
                }
                free(g);
                free(b);
                free(b0);
                free(out);
            }
}

/* A gradient of any size gives a step of the size of the rate; of nothing, none; and of 1e-20, next to none. */
static void muon_of_extremes(void **state) {
    (void)state;
    enum { R = 24, C = 40 };
    const double sizes[] = {0, 1e-45, 1e-30, 1e-20, 1e-3, 1, 1e10, 1e17};
    FOR_EACH_ISA (kernel)
        for (int s = 0; s < 8; s++) {
            float *g = normal(R * C, 94, sizes[s]), value[R * C] = {0}, momentum[R * C] = {0};
            float *work = sia_alloc((size_t)sia_muon_floats(R, C), sizeof(float));
            sia_muon p = {value, momentum, g, R, C, 1, 0.95, 0.02, 1};
            sia_muon_step(&p, work);
            double square = 0;
            for (int i = 0; i < R * C; i++) square += (double)value[i] * value[i];
            double rms = sqrt(square / R) / 0.02; /* each of R directions about 1 */
            bool small = sizes[s] < 1e-10;
            assert_true(sizes[s] == 0 ? rms == 0 : small ? rms < 1e-6 : rms > 0.6 && rms < 1.3);
            sia_free(work);
            free(g);
        }
}

/* ------------------------------------------------------------------------------------------ products */

/* A NaN or an infinity in row i of a, or in column j of b, reaches row i, or column j, of c, and nothing else. */
static void products_of_extremes(void **state) {
    (void)state;
    enum { M = 29, NUMBER = 37, K = 50, I = 27, J = 35 };
    const float bad[] = {NAN, INFINITY, -INFINITY};
    FOR_EACH_ISA (kernel)
        for (int form = 0; form < 4 * 2 * 3; form++) {
            int m = form / 12 ? 1 : M, i = m == 1 ? 0 : I;
            bool in_a = form & 1, a_transposed = form & 2;
            float *a = normal(m * K, 95, 1), *b = normal(K * NUMBER, 96, 1), c[M * NUMBER],
                  clean[M * NUMBER] = {0};
            sia_product p = {.m = m,
                             .n = NUMBER,
                             .k = K,
                             .a = a,
                             .a_stride = a_transposed ? m : K,
                             .b = b,
                             .b_stride = NUMBER,
                             .c = clean,
                             .c_stride = NUMBER,
                             .alpha = 1,
                             .a_transposed = a_transposed};
            float *work = sia_alloc((size_t)sia_product_floats(&p), sizeof(float));
            sia_product_run(&p, work);
            if (in_a)
                a[a_transposed ? 7 * m + i : i * K + 7] = bad[form % 3];
            else
                b[7 * NUMBER + J] = bad[form % 3];
            p.c = c;
            sia_product_run(&p, work);
            for (int at = 0; at < m * NUMBER; at++) {
                bool reached = in_a ? at / NUMBER == i : at % NUMBER == J;
                assert_true(reached ? !isfinite(c[at]) : c[at] == clean[at]);
            }
            sia_free(work);
            free(a);
            free(b);
        }
    /* Sizes at both ends: products of 1e-30 and 1e30, and sums that end in the range of float. */
    FOR_EACH_ISA (kernel) {
        float *a = normal(M * K, 97, 1e30), *b = normal(K * NUMBER, 98, 1e-35), c[M * NUMBER];
        sia_product p = {M, NUMBER, K, a, K, b, NUMBER, c, NUMBER, 1, 0, false, false, false};
        float *work = sia_alloc((size_t)sia_product_floats(&p), sizeof(float));
        sia_product_run(&p, work);
        for (int at = 0; at < M * NUMBER; at++) {
            double sum = 0;
            for (int j = 0; j < K; j++) sum += (double)a[at / NUMBER * K + j] * b[j * NUMBER + at % NUMBER];
            assert_true(near(c[at], sum, 1e-5 * 3e-5));
        }
        sia_free(work);
        free(a);
        free(b);
    }
}

/* The peak that everything is compared with: a multiply and an add for each number of a tile and round. */
static void peak_counts_operations(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int rows, columns;
    } tiles[] = {{"baseline", 4, 8}, {"avx2", 6, 16}, {"avx512", 12, 32}, {"wide", 12, 32},
                 {"neon", 6, 16},    {"amx", 16, 16}, {"tiles", 16, 16}};
    FOR_EACH_ISA (kernel) {
        double round = 0;
        for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
            if (!strcmp(tiles[i].name, kernel->name)) round = 2 * tiles[i].rows * tiles[i].columns;
        assert_true(round > 0 && kernel->fma_peak(1) == round && kernel->fma_peak(0) == 0);
        assert_true(kernel->fma_peak(SIA_PEAK_ROUNDS) == SIA_PEAK_ROUNDS * round);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_follows_float64),
        cmocka_unit_test(norm_of_extremes),
        cmocka_unit_test(norm_back_follows_float64),
        cmocka_unit_test(largest_at_every_place),
        cmocka_unit_test(relu_follows),
        cmocka_unit_test(loss_follows_float64),
        cmocka_unit_test(sums_and_scales),
        cmocka_unit_test(adam_of_extremes),
        cmocka_unit_test(momentum_of_extremes),
        cmocka_unit_test(muon_of_extremes),
        cmocka_unit_test(products_of_extremes),
        cmocka_unit_test(peak_counts_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
