/* SPDX-License-Identifier: MIT
 *
 * Muon and Adam against plain float64, over several steps and shapes, on every instruction set; and what the
 * header promises beside the numbers: clipping, decay, norms, states, the same bits for any number of
 * threads, gradients that are not finite. */
#include <inttypes.h>
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
#include "optim/muon.h"
#include "optim/optimizer.h"
#include "problem.h"

/* Largest |error| of the values, less what STEPS roundings of a float of that size explain, over the farthest
 * that a value has moved. The iteration of Muon multiplies small singular values, and their errors, by up to
 * 3.4445^5 = 485; sums over its products average most of that away. */
static const double ADAM_BOUND = 2e-6, MUON_BOUND = 2e-5;

enum { STEPS = 6 };

/* ------------------------------------------------------------------------------------- one tensor, twice */

typedef struct parameter {
    sia_optim_tensor t;
    float *gradient;
    double *value, *m, *v, *start; /* the float64 side; m is also Muon's momentum */
} parameter;

static parameter parameter_create(const char *name, int64_t rows, int64_t columns, sia_group group) {
    size_t n = (size_t)(rows * columns);
    parameter p = {.t = {.name = name, .rows = rows, .columns = columns, .group = group},
                   .gradient = malloc(n * sizeof(float)),
                   .value = calloc(n, sizeof(double)),
                   .m = calloc(n, sizeof(double)),
                   .v = calloc(n, sizeof(double)),
                   .start = calloc(n, sizeof(double))};
    p.t.value = malloc(n * sizeof(float));
    p.t.gradient = p.gradient;
    assert_true(p.gradient && p.value && p.m && p.v && p.start && p.t.value);
    for (size_t i = 0; i < n; i++)
        p.start[i] = p.value[i] = p.t.value[i] = (float)(0.1 * sia_random_normal(77, i));
    return p;
}

static void parameter_destroy(parameter *p) {
    free(p->t.value);
    free(p->gradient);
    free(p->value);
    free(p->m);
    free(p->v);
    free(p->start);
}

static int64_t count_of(const parameter *p) { return p->t.rows * p->t.columns; }

/* Gradients of very different sizes, some of them 0. */
static void fill_gradient(parameter *p, int step) {
    uint64_t seed = sia_random_stream(5, (uint64_t)step);
    for (int64_t i = 0; i < count_of(p); i++) {
        double size = exp2(-4.0 * (double)(i % 5)) * 1e-2;
        p->gradient[i] = i % 11 == 10 ? 0 : (float)(size * sia_random_normal(seed, (uint64_t)i));
    }
}

/* ------------------------------------------------------------------------------------- the plain versions */

static void plain_adam(parameter *p, const sia_optim_config *c, int step, double rate, double factor) {
    double decay = p->t.group == SIA_GROUP_SCALAR ? 0 : c->weight_decay;
    for (int64_t i = 0; i < count_of(p); i++) {
        double g = factor * p->gradient[i];
        p->m[i] = c->beta1 * p->m[i] + (1 - c->beta1) * g;
        p->v[i] = c->beta2 * p->v[i] + (1 - c->beta2) * g * g;
        double m = p->m[i] / (1 - pow(c->beta1, step + 1)), v = p->v[i] / (1 - pow(c->beta2, step + 1));
        p->value[i] = p->value[i] - rate * decay * p->value[i] - rate * m / (sqrt(v) + c->epsilon);
    }
}

/* c [m][n] = a b, with element (i, l) of a at a[i * ai + l * al]. */
static void plain_product(int64_t m, int64_t n, int64_t k, const double *a, int64_t ai, int64_t al,
                          const double *b, int64_t bl, int64_t bj, double *c) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++) sum += a[i * ai + l * al] * b[l * bl + j * bj];
            c[i * n + j] = sum;
        }
}

/* Five rounds on x [rows][columns], transposed when tall, as the method is written down. */
static void plain_newton_schulz(int64_t rows, int64_t columns, double *x) {
    int64_t r = rows < columns ? rows : columns, n = rows < columns ? columns : rows;
    bool tall = rows > columns;
    double *y = calloc((size_t)(r * n), sizeof *y), *bx = calloc((size_t)(r * n), sizeof *bx);
    double *a = calloc((size_t)(r * r), sizeof *a), *b = calloc((size_t)(r * r), sizeof *b);
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < n; j++) y[i * n + j] = tall ? x[j * columns + i] : x[i * columns + j];
    for (int round = 0; round < 5; round++) {
        plain_product(r, r, n, y, n, 1, y, 1, n, a);
        plain_product(r, r, r, a, r, 1, a, r, 1, b);
        for (int64_t i = 0; i < r * r; i++) b[i] = -4.7750 * a[i] + 2.0315 * b[i];
        plain_product(r, n, r, b, r, 1, y, n, 1, bx);
        for (int64_t i = 0; i < r * n; i++) y[i] = 3.4445 * y[i] + bx[i];
    }
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < n; j++) *(tall ? &x[j * columns + i] : &x[i * columns + j]) = y[i * n + j];
    free(y);
    free(bx);
    free(a);
    free(b);
}

static void plain_muon(parameter *p, const sia_optim_config *c, double rate, double factor) {
    int64_t n = count_of(p);
    double *u = calloc((size_t)n, sizeof *u), norm = 0;
    for (int64_t i = 0; i < n; i++) {
        double g = factor * p->gradient[i];
        p->m[i] = c->momentum * p->m[i] + g;
        u[i] = g + c->momentum * p->m[i];
        norm += u[i] * u[i];
    }
    for (int64_t i = 0; i < n; i++) u[i] /= sqrt(norm) + 1e-7;
    plain_newton_schulz(p->t.rows, p->t.columns, u);
    double scale = sqrt(fmax(1, (double)p->t.rows / (double)p->t.columns));
    for (int64_t i = 0; i < n; i++)
        p->value[i] = p->value[i] - rate * c->weight_decay * p->value[i] - rate * scale * u[i];
    free(u);
}

static void plain_step(parameter *p, int64_t count, const sia_optim_config *c, int step, double rate_factor) {
    double squares = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count_of(&p[i]); j++) squares += (double)p[i].gradient[j] * p[i].gradient[j];
    double norm = sqrt(squares), factor = c->clip > 0 && norm > c->clip ? c->clip / norm : 1;
    for (int64_t i = 0; i < count; i++) {
        double rate = c->rate[p[i].t.group] * rate_factor;
        if (p[i].t.group == SIA_GROUP_MATRIX)
            plain_muon(&p[i], c, rate, factor);
        else
            plain_adam(&p[i], c, step, rate, factor);
    }
}

/* ------------------------------------------------------------------------------------- comparison */

static double value_error(const parameter *p) {
    double error = 0, moved = 0;
    for (int64_t i = 0; i < count_of(p); i++) {
        if (!isfinite(p->t.value[i])) return INFINITY;
        double rounding = STEPS * 0x1p-24 * fmax(fabs(p->value[i]), fabs(p->start[i]));
        error = fmax(error, fabs(p->t.value[i] - p->value[i]) - rounding);
        moved = fmax(moved, fabs(p->start[i] - p->value[i]));
    }
    assert_true(moved > 0);
    return error / moved;
}

static sia_optimizer *create(const parameter *p, int64_t count, const sia_optim_config *config) {
    sia_optim_tensor *tensors = malloc((size_t)count * sizeof *tensors);
    for (int64_t i = 0; i < count; i++) tensors[i] = p[i].t;
    sia_optimizer *o;
    sia_error err;
    if (sia_optimizer_create(&o, tensors, count, config, &err)) fail_msg("%s", err.text);
    free(tensors);
    return o;
}

static void step_both(sia_optimizer *o, parameter *p, int64_t count, const sia_optim_config *c, int step) {
    double rate_factor = 1 - 0.1 * step;
    for (int64_t i = 0; i < count; i++) fill_gradient(&p[i], step);
    sia_error err;
    if (sia_optimizer_step(o, step, rate_factor, NULL, &err)) fail_msg("%s", err.text);
    plain_step(p, count, c, step, rate_factor);
}

static const char *const group_names[SIA_GROUPS] = {"embedding", "matrix", "unembedding", "scalar"};

static bool follow(const sia_kernel *kernel, int64_t rows, int64_t columns, sia_group group,
                   const sia_optim_config *config, double bound) {
    parameter p = parameter_create("w", rows, columns, group);
    sia_optimizer *o = create(&p, 1, config);
    double worst = 0;
    for (int step = 0; step < STEPS; step++) {
        step_both(o, &p, 1, config, step);
        worst = fmax(worst, value_error(&p));
    }
    bool good = worst < bound;
    printf("%-9s %-11s %4" PRId64 " x %-5" PRId64 " clip %-5g decay %-4g: error %.1e, bound %.0e%s\n",
           kernel->name, group_names[group], rows, columns, config->clip, config->weight_decay, worst, bound,
           good ? "" : ": FAILED");
    sia_optimizer_destroy(o);
    parameter_destroy(&p);
    return good;
}

static void adam_follows_float64(void **state) {
    (void)state;
    const int64_t shapes[][2] = {{1, 1}, {1, 7}, {3, 5}, {17, 31}, {129, 128}, {3, 16384}};
    bool good = true;
    FOR_EACH_ISA (kernel)
        for (int i = 0; i < 6; i++) {
            sia_optim_config c = sia_optim_config_default();
            c.threads = 2;
            c.clip = i % 2 ? 0.01 : 0;
            c.weight_decay = i % 3 ? 0 : 0.1;
            const sia_group groups[] = {SIA_GROUP_EMBEDDING, SIA_GROUP_UNEMBEDDING, SIA_GROUP_SCALAR};
            good = follow(kernel, shapes[i][0], shapes[i][1], groups[i % 3], &c, ADAM_BOUND) && good;
            good = follow(kernel, shapes[i][0], shapes[i][1], groups[(i + 1) % 3], &c, ADAM_BOUND) && good;
        }
    assert_true(good);
}

static void muon_follows_float64(void **state) {
    (void)state;
    const int64_t shapes[][2] = {{1, 1},   {1, 50},  {50, 1},  {2, 3},    {16, 16},  {31, 31}, {24, 96},
                                 {96, 24}, {97, 33}, {33, 97}, {13, 401}, {401, 13}, {96, 96}, {97, 97}};
    bool good = true;
    FOR_EACH_ISA (kernel)
        for (int i = 0; i < 14; i++) {
            sia_optim_config c = sia_optim_config_default();
            c.threads = 1;
            c.clip = i % 4 == 3 ? 0.01 : 0;
            c.weight_decay = i % 3 == 2 ? 0.1 : 0;
            good = follow(kernel, shapes[i][0], shapes[i][1], SIA_GROUP_MATRIX, &c, MUON_BOUND) && good;
        }
    assert_true(good);
}

/* ------------------------------------------------------------------------------------- the singular values */

/* Eigenvalues of the symmetric a [n][n] by Jacobi's rotations; a is destroyed, they are left on its diagonal. */
static void jacobi(double *a, int64_t n) {
    for (int sweep = 0; sweep < 12; sweep++)
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double apq = a[p * n + q];
                if (fabs(apq) < 1e-14) continue;
                double theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
                double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
                double c = 1 / sqrt(t * t + 1), s = t * c;
                for (int64_t k = 0; k < n; k++) {
                    double x = a[k * n + p], y = a[k * n + q];
                    a[k * n + p] = c * x - s * y, a[k * n + q] = s * x + c * y;
                }
                for (int64_t k = 0; k < n; k++) {
                    double x = a[p * n + k], y = a[q * n + k];
                    a[p * n + k] = c * x - s * y, a[q * n + k] = s * x + c * y;
                }
            }
}

/* A step of rate 1 from 0 is the update itself: for a random gradient its singular values are near 1. */
static void singular_values_near_one(void **state) {
    (void)state;
    const int64_t shapes[][2] = {{32, 48}, {48, 32}, {20, 100}, {64, 256}, {1, 9}};
    FOR_EACH_ISA (kernel)
        for (int i = 0; i < 5; i++) {
            int64_t rows = shapes[i][0], columns = shapes[i][1], n = rows * columns;
            int64_t r = rows < columns ? rows : columns;
            float *w = calloc((size_t)n, sizeof *w), *momentum = calloc((size_t)n, sizeof *w);
            float *g = calloc((size_t)n, sizeof *g);
            for (int64_t j = 0; j < n; j++) g[j] = (float)(1e-3 * sia_random_normal(9, (uint64_t)j));
            float *work = sia_alloc((size_t)sia_muon_floats(rows, columns), sizeof *work);
            sia_muon_step(&(sia_muon){w, momentum, g, rows, columns, 1, 0.95, 1, 1}, work);
            double *x = calloc((size_t)n, sizeof *x), *a = calloc((size_t)(r * r), sizeof *a);
            double scale = sqrt(fmax(1, (double)rows / (double)columns));
            for (int64_t j = 0; j < n; j++) x[j] = w[j] / scale;
            if (rows <= columns)
                plain_product(r, r, columns, x, columns, 1, x, 1, columns, a);
            else
                plain_product(r, r, rows, x, 1, columns, x, columns, 1, a);
            jacobi(a, r);
            double least = INFINITY, most = 0;
            for (int64_t j = 0; j < r; j++) {
                least = fmin(least, sqrt(a[j * r + j]));
                most = fmax(most, sqrt(a[j * r + j]));
            }
            printf("%-9s %" PRId64 " x %" PRId64 ": singular values %.3f to %.3f, want 0.6 to 1.3\n",
                   kernel->name, rows, columns, least, most);
            assert_true(least > 0.6 && most < 1.3);
            free(w), free(momentum), free(g), free(x), free(a);
            sia_free(work);
        }
}

static void flops(void **state) {
    (void)state;
    /* 2 r^2 n / 2 + 2 r^3 / 2 + 2 r^2 n, five times, with r = 2, n = 3: 12 + 8 + 24 */
    assert_true(sia_muon_flops(2, 3) == 5 * 44);
    assert_true(sia_muon_flops(3, 2) == 5 * 44);
}

/* ------------------------------------------------------------------------------------- whole optimisers */

enum { TENSORS = 7 };

static void create_all(parameter p[TENSORS]) {
    p[0] = parameter_create("embedding", 700, 48, SIA_GROUP_EMBEDDING);
    p[1] = parameter_create("layer.0.q", 48, 48, SIA_GROUP_MATRIX);
    p[2] = parameter_create("layer.0.up", 192, 48, SIA_GROUP_MATRIX);
    p[3] = parameter_create("layer.0.scale", 1, 3, SIA_GROUP_SCALAR);
    p[4] = parameter_create("layer.0.down", 48, 192, SIA_GROUP_MATRIX);
    p[5] = parameter_create("layer.1.q", 99, 101, SIA_GROUP_MATRIX);
    p[6] = parameter_create("unembedding", 401, 48, SIA_GROUP_UNEMBEDDING);
}

static void destroy_all(parameter p[TENSORS]) {
    for (int i = 0; i < TENSORS; i++) parameter_destroy(&p[i]);
}

/* Several groups at once, clipped by the norm of all of them. */
static void groups_together(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel) {
        parameter p[TENSORS];
        create_all(p);
        sia_optim_config c = sia_optim_config_default();
        c.threads = 2;
        c.clip = 0.05;
        c.weight_decay = 0.01;
        sia_optimizer *o = create(p, TENSORS, &c);
        for (int step = 0; step < 3; step++) step_both(o, p, TENSORS, &c, step);
        for (int i = 0; i < TENSORS; i++) {
            double bound = p[i].t.group == SIA_GROUP_MATRIX ? MUON_BOUND : ADAM_BOUND;
            assert_true(value_error(&p[i]) < bound);
        }
        sia_optimizer_destroy(o);
        destroy_all(p);
    }
}

static void threads_same_bits(void **state) {
    (void)state;
    const int threads[] = {1, 2, 3, 8};
    FOR_EACH_ISA (kernel) {
        parameter reference[TENSORS];
        sia_optim_statistics first = {0};
        for (int run = 0; run < 4; run++) {
            parameter p[TENSORS];
            create_all(p);
            sia_optim_config c = sia_optim_config_default();
            c.threads = threads[run];
            c.clip = 0.05;
            sia_optimizer *o = create(p, TENSORS, &c);
            sia_optim_statistics s = {0};
            for (int step = 0; step < 3; step++) {
                for (int i = 0; i < TENSORS; i++) fill_gradient(&p[i], step);
                assert_int_equal(sia_optimizer_step(o, step, 1, &s, NULL), SIA_OK);
            }
            sia_optimizer_destroy(o);
            if (run == 0) {
                memcpy(reference, p, sizeof p);
                first = s;
                continue;
            }
            for (int i = 0; i < TENSORS; i++)
                assert_memory_equal(p[i].t.value, reference[i].t.value,
                                    (size_t)count_of(&p[i]) * sizeof(float));
            assert_memory_equal(&s, &first, sizeof s);
            destroy_all(p);
        }
        destroy_all(reference);
    }
}

static void norms_and_clipping(void **state) {
    (void)state;
    parameter p[TENSORS];
    create_all(p);
    double all = 0, group[SIA_GROUPS] = {0};
    for (int i = 0; i < TENSORS; i++) {
        fill_gradient(&p[i], 0);
        for (int64_t j = 0; j < count_of(&p[i]); j++) {
            double square = (double)p[i].gradient[j] * p[i].gradient[j];
            all += square, group[p[i].t.group] += square;
        }
    }
    for (int clipped = 0; clipped < 3; clipped++) {
        sia_optim_config c = sia_optim_config_default();
        c.clip = clipped == 0 ? 0 : clipped == 1 ? sqrt(all) / 4 : sqrt(all) * 2;
        sia_optimizer *o = create(p, TENSORS, &c);
        sia_optim_statistics s;
        assert_int_equal(sia_optimizer_step(o, 0, 1, &s, NULL), SIA_OK);
        assert_true(fabs(s.gradient_norm / sqrt(all) - 1) < 1e-12);
        for (int g = 0; g < SIA_GROUPS; g++) assert_true(fabs(s.group_norm[g] / sqrt(group[g]) - 1) < 1e-12);
        assert_true(fabs(s.clip_factor - (clipped == 1 ? 0.25 : 1)) < 1e-12);
        sia_optimizer_destroy(o);
    }
    destroy_all(p);
}

/* Every element is watched, wherever it lies; nothing moves, and the optimiser can go on. */
static void gradients_that_are_not_finite(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    parameter p[TENSORS], q[TENSORS];
    create_all(p);
    create_all(q);
    sia_optim_config c = sia_optim_config_default();
    c.threads = 2;
    sia_optimizer *o = create(p, TENSORS, &c), *untroubled = create(q, TENSORS, &c);
    for (int step = 0; step < TENSORS; step++) {
        for (int i = 0; i < TENSORS; i++) fill_gradient(&p[i], step), fill_gradient(&q[i], step);
        int64_t at = step % 2 ? 0 : count_of(&p[step]) - 1;
        float good = p[step].gradient[at];
        p[step].gradient[at] = bad[step % 3];
        p[6].gradient[3] = NAN; /* a later one is not the one named */
        sia_error err;
        sia_optim_statistics s;
        assert_int_equal(sia_optimizer_step(o, step, 1, &s, &err), SIA_NUMBER);
        assert_false(isfinite(s.gradient_norm));
        assert_false(isfinite(s.group_norm[p[step].t.group]));
        assert_ptr_equal(strstr(err.text, p[step].t.name), err.text);
        p[step].gradient[at] = good;
        fill_gradient(&p[6], step);
        assert_int_equal(sia_optimizer_step(o, step, 1, &s, &err), SIA_OK);
        assert_int_equal(sia_optimizer_step(untroubled, step, 1, &s, &err), SIA_OK);
        for (int i = 0; i < TENSORS; i++)
            assert_memory_equal(p[i].t.value, q[i].t.value, (size_t)count_of(&p[i]) * sizeof(float));
    }
    sia_optimizer_destroy(o);
    sia_optimizer_destroy(untroubled);
    destroy_all(p);
    destroy_all(q);
}

/* A gradient whose square is beyond float would spoil Adam's state for ever: refused, unless clipping makes it
 * small. */
static void gradients_that_are_too_large(void **state) {
    (void)state;
    for (int clipped = 0; clipped < 2; clipped++) {
        parameter p[TENSORS];
        create_all(p);
        sia_optim_config c = sia_optim_config_default();
        c.clip = clipped ? 1 : 0;
        sia_optimizer *o = create(p, TENSORS, &c);
        for (int i = 0; i < TENSORS; i++) fill_gradient(&p[i], 0);
        p[2].gradient[1] = -2e18f;
        float before = p[2].t.value[0];
        sia_error err;
        assert_int_equal(sia_optimizer_step(o, 0, 1, NULL, &err), clipped ? SIA_OK : SIA_NUMBER);
        if (!clipped) assert_ptr_equal(strstr(err.text, p[2].t.name), err.text);
        if (!clipped) assert_true(p[2].t.value[0] == before);
        p[2].gradient[1] = 9e17f;
        assert_int_equal(sia_optimizer_step(o, 1, 1, NULL, &err), SIA_OK);
        p[2].gradient[1] = -3e38f;
        assert_int_equal(sia_optimizer_step(o, 2, 1, NULL, &err), clipped ? SIA_OK : SIA_NUMBER);
        for (int i = 0; i < TENSORS; i++)
            for (int64_t j = 0; j < count_of(&p[i]); j++) assert_true(isfinite(p[i].t.value[j]));
        int64_t states;
        const sia_optim_state *s = sia_optimizer_states(o, &states);
        for (int64_t i = 0; i < states; i++)
            for (int64_t j = 0; j < s[i].rows * s[i].columns; j++) assert_true(isfinite(s[i].data[j]));
        sia_optimizer_destroy(o);
        destroy_all(p);
    }
}

/* A second optimiser that is given the states of the first goes on in the same bits. */
static void states_are_all_there_is(void **state) {
    (void)state;
    static const char *const names[] = {"embedding.m",           "embedding.v",        "layer.0.q.momentum",
                                        "layer.0.up.momentum",   "layer.0.scale.m",    "layer.0.scale.v",
                                        "layer.0.down.momentum", "layer.1.q.momentum", "unembedding.m",
                                        "unembedding.v"};
    parameter p[TENSORS];
    create_all(p);
    sia_optim_config c = sia_optim_config_default();
    sia_optimizer *first = create(p, TENSORS, &c);
    for (int step = 0; step < 2; step++) step_both(first, p, TENSORS, &c, step);

    parameter q[TENSORS];
    create_all(q);
    sia_optimizer *second = create(q, TENSORS, &c);
    int64_t states, same;
    const sia_optim_state *from = sia_optimizer_states(first, &states);
    const sia_optim_state *to = sia_optimizer_states(second, &same);
    assert_int_equal(states, 10);
    assert_int_equal(same, 10);
    for (int64_t i = 0; i < states; i++) {
        assert_string_equal(from[i].name, names[i]);
        assert_int_equal((uintptr_t)to[i].data % SIA_ALIGN, 0);
        memcpy(to[i].data, from[i].data, (size_t)(from[i].rows * from[i].columns) * sizeof(float));
    }
    for (int i = 0; i < TENSORS; i++)
        memcpy(q[i].t.value, p[i].t.value, (size_t)count_of(&p[i]) * sizeof(float));
    step_both(first, p, TENSORS, &c, 2);
    step_both(second, q, TENSORS, &c, 2);
    for (int i = 0; i < TENSORS; i++)
        assert_memory_equal(p[i].t.value, q[i].t.value, (size_t)count_of(&p[i]) * sizeof(float));
    sia_optimizer_destroy(first);
    sia_optimizer_destroy(second);
    destroy_all(p);
    destroy_all(q);
}

/* A gradient of 0 for ever: no division by 0, and averages that end at a true 0. */
static void gradients_of_zero(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel)
        for (int g = 0; g < SIA_GROUPS; g++) {
            parameter p = parameter_create("w", 9, 9, (sia_group)g);
            sia_optim_config c = sia_optim_config_default();
            c.threads = 1;
            sia_optimizer *o = create(&p, 1, &c);
            fill_gradient(&p, 0);
            for (int step = 0; step < 2500; step++) {
                assert_int_equal(sia_optimizer_step(o, step, 1, NULL, NULL), SIA_OK);
                memset(p.gradient, 0, 81 * sizeof(float));
            }
            int64_t states;
            const sia_optim_state *s = sia_optimizer_states(o, &states);
            for (int64_t i = 0; i < states; i++)
                for (int j = 0; j < 81; j++) assert_true(s[i].data[j] == 0);
            for (int j = 0; j < 81; j++) assert_true(isfinite(p.t.value[j]));
            sia_optimizer_destroy(o);
            parameter_destroy(&p);
        }
}

static sia_status alone(void *context, double *numbers, int64_t count, sia_error *err) {
    (void)context, (void)numbers, (void)count, (void)err;
    return SIA_OK;
}

/* Every number has one owner, with its states; Muon's work is dealt so that no rank has more than the least of them and
 * one matrix, the costliest. */
static void owners(void **state) {
    (void)state;
    parameter p[TENSORS];
    create_all(p);
    for (int ranks = 1; ranks <= 5; ranks++) {
        double load[5] = {0}, largest = 0, least = INFINITY, most = 0;
        int64_t owned[TENSORS] = {0}, count;
        for (int rank = 0; rank < ranks; rank++) {
            sia_optim_config c = sia_optim_config_default();
            c.rank = rank, c.ranks = ranks, c.add_up = alone;
            sia_optimizer *o = create(p, TENSORS, &c);
            const sia_optim_part *parts = sia_optimizer_parts(o, &count);
            for (int64_t i = 0; i < count; i++) {
                const parameter *of = &p[parts[i].tensor];
                bool matrix = of->t.group == SIA_GROUP_MATRIX;
                assert_int_equal(parts[i].states, matrix ? 1 : 2);
                for (int s = 0; s < parts[i].states; s++)
                    assert_true(!parts[i].state[s] == (parts[i].owner != rank));
                if (rank) continue;
                assert_int_equal(parts[i].from, owned[parts[i].tensor]);
                owned[parts[i].tensor] += parts[i].count;
                double flops = matrix ? sia_muon_flops(of->t.rows, of->t.columns) : 0;
                load[parts[i].owner] += flops;
                largest = fmax(largest, flops);
            }
            sia_optimizer_destroy(o);
        }
        for (int i = 0; i < TENSORS; i++) assert_int_equal(owned[i], count_of(&p[i]));
        for (int rank = 0; rank < ranks; rank++)
            least = fmin(least, load[rank]), most = fmax(most, load[rank]);
        assert_true(most > 0 && most - least <= largest);
    }
    destroy_all(p);
}

static void refusals(void **state) {
    (void)state;
    parameter p = parameter_create("w", 4, 4, SIA_GROUP_MATRIX);
    sia_optim_config good = sia_optim_config_default(), bad[15];
    for (int i = 0; i < 15; i++) bad[i] = good;
    bad[0].rate[2] = -1;
    bad[1].beta1 = 1;
    bad[2].beta2 = NAN;
    bad[3].epsilon = 0;
    bad[4].momentum = 1;
    bad[5].weight_decay = INFINITY;
    bad[6].clip = -1;
    bad[7].threads = -1;
    bad[8].threads = 1 << 20;
    bad[9].rank = 1; /* the second of one */
    bad[10].ranks = -1;
    bad[11].ranks = 2; /* without a way to add up */
    bad[12].rate[0] = NAN;
    bad[13].rate[SIA_GROUPS - 1] = INFINITY;
    bad[14].epsilon = 1.1;
    sia_optimizer *o;
    sia_error err;
    for (int i = 0; i < 15; i++) {
        assert_int_equal(sia_optimizer_create(&o, &p.t, 1, &bad[i], &err), SIA_ARGUMENT);
        assert_null(o);
    }
    sia_optim_tensor tensors[5] = {p.t, p.t, p.t, p.t, p.t};
    tensors[0].name = NULL;
    tensors[1].value = NULL;
    tensors[2].rows = 0;
    tensors[3].columns = INT64_MAX;
    tensors[4].group = SIA_GROUPS;
    for (int i = 0; i < 5; i++)
        assert_int_equal(sia_optimizer_create(&o, &tensors[i], 1, &good, &err), SIA_ARGUMENT);
    assert_int_equal(sia_optimizer_create(&o, NULL, 0, &good, &err), SIA_ARGUMENT);
    o = create(&p, 1, &good);
    assert_int_equal(sia_optimizer_step(o, -1, 1, NULL, &err), SIA_ARGUMENT);
    assert_int_equal(sia_optimizer_step(o, 0, NAN, NULL, &err), SIA_ARGUMENT);
    sia_optimizer_destroy(o);
    sia_optimizer_destroy(NULL);
    parameter_destroy(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_follows_float64),
        cmocka_unit_test(muon_follows_float64),
        cmocka_unit_test(singular_values_near_one),
        cmocka_unit_test(flops),
        cmocka_unit_test(groups_together),
        cmocka_unit_test(threads_same_bits),
        cmocka_unit_test(norms_and_clipping),
        cmocka_unit_test(gradients_that_are_not_finite),
        cmocka_unit_test(gradients_that_are_too_large),
        cmocka_unit_test(states_are_all_there_is),
        cmocka_unit_test(gradients_of_zero),
        cmocka_unit_test(owners),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
