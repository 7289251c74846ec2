/* SPDX-License-Identifier: MIT
 *
 * Numbers at the edges of float, on every instruction set, by every way to attend: a forward pass, a cache of
 * each type, token by token and in chunks, and the backward pass. What is expected is what sia.h promises. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "problem.h"

/* ------------------------------------------------------------------------------------------ ways to attend */

typedef struct way {
    const char *name;
    bool cache;
    sia_type type;
    int64_t step;  /* positions at a time, of a cache */
    double bound;  /* of out, relative to its largest number: what the type rounds */
    double lowest; /* numbers below it may be lost */
    double most;   /* numbers above it become it */
} way;

static const way ways[] = {
    {"forward", false, SIA_F32, 0, 2e-5, 0, INFINITY},
    {"f32 decode", true, SIA_F32, 1, 2e-5, 0, INFINITY},
    {"f32 chunks", true, SIA_F32, 64, 2e-5, 0, INFINITY},
    {"f16 decode", true, SIA_F16, 1, 1e-2, 6e-8, 65504},
    {"f16 chunks", true, SIA_F16, 64, 1e-2, 6e-8, 65504},
    {"i8 decode", true, SIA_I8, 1, 1e-1, 1e-33, INFINITY},
    {"i8 chunks", true, SIA_I8, 64, 1e-1, 1e-33, INFINITY},
};
enum { WAYS = sizeof ways / sizeof *ways };

static void attend(problem *p, const way *w) {
    if (w->cache)
        problem_decode(p, w->type, w->step);
    else
        problem_forward(p);
}

/* ------------------------------------------------------------------------------------------ sizes of numbers
 *
 * One head without a scheme, of 16 numbers, or of 64 where kernels take another way then. Every query is (q, 0, ..), or
 * (2 q, 0, ..); keys are (k, 0, ..), each seventh of them (high, 0, ..): the logit is q k / 4. Values are normal, times
 * v. */
typedef struct extreme {
    const char *name;
    float q, k, high, v;
} extreme;

static const extreme extremes[] = {
    {"zeros", 0, 0, 0, 1},
    {"values of 0", 1, 1, 2, 0},
    {"logits of 1e30", 2e15f, -2e15f, 2e15f, 1},
    {"equal logits of 1e30", 2e15f, 2e15f, 2e15f, 1},
    {"equal logits of -1e30", 2e15f, -2e15f, -2e15f, 1},
    {"logits of 5e37", 1.5e19f, -1.5e19f, 1.5e19f, 1},
    {"logits of 1e8", 2e4f, -2e4f, 2e4f, 1},
    /* Around 2^16 (AVX-512), 2^18 (AVX2) and 2^20 (others) to the base 2, beyond which exponentials are taken in
       another way. */
    {"logits of 4.53e4 and 4.56e4", 1024, 177, 178, 1},
    {"logits of -4.53e4 and -4.56e4", 1024, -178, -177, 1},
    {"equal logits of 1.80e5", 1024, 704, 704, 1},
    {"equal logits of 1.83e5", 1024, 715, 715, 1},
    {"equal logits of -1.83e5", 1024, -715, -715, 1},
    {"logits of 1.80e5 and 1.83e5", 1024, 704, 715, 1},
    {"logits of -1.80e5 and -1.83e5", 1024, -715, -704, 1},
    {"logits of 7.26e5 and 7.28e5", 1024, 2838, 2842, 1},
    {"logits of -7.26e5 and -7.28e5", 1024, -2842, -2838, 1},
    /* 2^126 and 2^-126, up to which exponentials need no largest logit, and beyond. Weights of that size leave no room
       for these values. */
    {"equal logits of 87.2", 16, 21.8125f, 21.8125f, 1e28f},
    {"equal logits of -87.2", 16, -21.8125f, -21.8125f, 1e-32f},
    {"equal logits of 87.5", 16, 21.875f, 21.875f, 1e28f},
    {"equal logits of -87.5", 16, -21.875f, -21.875f, 1e-32f},
    {"equal logits of 21", 16, 5.25f, 5.25f, 1e28f},
    {"equal logits of -21", 16, -5.25f, -5.25f, 1e-32f},
    {"equal logits of -11", 16, -2.75f, -2.75f, 1e-32f},
    {"logits of -88.3 and -87.3", 16, -22.078125f, -21.828125f, 1},
    {"logits of -88.3 and -80", 16, -22.078125f, -20, 1},
    {"logits of -88.3 and -76", 16, -22.078125f, -19, 1},
    {"logits of -86 and -60", 16, -21.5f, -15, 1},
    {"logits of -87.2 and 87.2", 16, -21.8125f, 21.8125f, 1e28f},
    {"a large query", 1e30f, -1e-28f, 1e-28f, 1},
    {"a large key", 1e-28f, -1e30f, 1e30f, 1},
    {"logits that overflow", 1e20f, -1e20f, 1e20f, 1},
    {"logits that all overflow below", 1e20f, -1e20f, -1e20f, 1},
    {"denormal queries and keys", 1e-40f, -1e-40f, 1e-40f, 1},
    {"values of 5e-33", 0, 0, 0, 5e-33f},
    {"denormal values", 1, -1, 1, 1e-40f},
    {"all denormal", 1e-41f, 1e-41f, 1e-41f, 1e-41f},
    {"the smallest numbers", 1.4e-45f, 1.4e-45f, 1.4e-45f, 1.4e-45f},
    /* 128 keys of a weight of 2^-23: their sum needs no reference. */
    {"equal logits of -15.9 under values of 1e-29", 16, -3.96875f, -3.96875f, 1e-29f},
    {"equal logits of -15.9 under values of 1e-24", 16, -3.96875f, -3.96875f, 1e-24f},
    {"equal logits of -15.9 under values of 1e-22", 16, -3.96875f, -3.96875f, 1e-22f},
    {"values of 1e29", 1, -1, 1, 1e28f}, /* the largest of some thousand normal numbers is below 10 */
    {"values of 1e29 under large logits", 1e5f, -1e5f, 1e5f, 1e28f},
};

enum { N = 150, MOST_DIM = 64 };

static problem extreme_problem(const extreme *e, int d) {
    problem p = problem_create("nope", (shape){1, 1, d, {.q_len = N, .k_len = N}}, NULL, 71, 1);
    for (int64_t i = 0; i < N * d; i++) {
        p.q.f[i] = i % d ? 0 : e->q * (float)sqrt(d / 16.0);
        p.k.f[i] = i % d ? 0 : i / d % 7 == 3 ? e->high : e->k;
        p.v.f[i] *= e->v;
    }
    return p;
}

/* What is stored of x. */
static double stored(const way *w, float x) {
    if (w->type == SIA_F16 && fabsf(x) < 0x1p-14f) return nearbyint(x * 0x1p24) * 0x1p-24;
    return fmin(fmax(x, -w->most), w->most);
}

typedef enum verdict { IS_NAN, IS_NOTHING, IS_NUMBER } verdict;

/* Row i of the softmax in float64, of products as a float can hold them. */
static verdict plain_row(const problem *p, const way *w, int64_t i, double out[MOST_DIM], double *lse) {
    const int d = p->shape.head_dim;
    double most = -INFINITY, sum = 0, logit[N];
    for (int64_t j = 0; j <= i; j++) {
        logit[j] = (double)(float)((double)p->q.f[i * d] * stored(w, p->k.f[j * d])) / sqrt(d);
        if (logit[j] == INFINITY) return IS_NAN;
        most = fmax(most, logit[j]);
    }
    if (most == -INFINITY) return IS_NOTHING;
    memset(out, 0, (size_t)d * sizeof(double));
    for (int64_t j = 0; j <= i; j++) {
        double weight = exp(logit[j] - most);
        sum += weight;
        for (int c = 0; c < d; c++) out[c] += weight * stored(w, p->v.f[j * d + c]);
    }
    for (int c = 0; c < d; c++) out[c] /= sum;
    *lse = most + log(sum);
    return IS_NUMBER;
}

/* Tiles have no numbers below the normal ones. */
static double lost_in_tiles(int d) { return d == MOST_DIM ? FLT_MIN : 0; }

static bool row_is_right(const problem *p, const way *w, int64_t i, double size) {
    const int d = p->shape.head_dim;
    double out[MOST_DIM], lse, lowest = w->lowest + 1e-44 + lost_in_tiles(d);
    verdict is = plain_row(p, w, i, out, &lse);
    for (int c = 0; c < d; c++) {
        float found = p->out.f[i * d + c];
        if (is == IS_NAN ? !isnan(found) : is == IS_NOTHING ? found != 0 : !isfinite(found)) return false;
        if (is == IS_NUMBER && fabs(found - out[c]) > w->bound * size + lowest) return false;
    }
    float found = p->lse.f[i];
    if (is != IS_NUMBER) return is == IS_NAN ? isnan(found) : found == -INFINITY;
    /* Keys of i8 are exact here, but their product with a query has 15 bits. */
    return fabs(found - lse) <= (w->type == SIA_I8 ? 1e-4 : 1e-6) * fabs(lse) + 1e-5;
}

static void sizes_forward(void **state) {
    (void)state;
    bool good = true;
    FOR_EACH_ISA (kernel)
        for (size_t e = 0; e < sizeof extremes / sizeof *extremes; e++)
            for (int w = 0; w < WAYS; w++) {
                const int d = test_dim(kernel, 16);
                problem p = extreme_problem(&extremes[e], d);
                attend(&p, &ways[w]);
                double size = 0;
                for (int64_t i = 0; i < N * d; i++) size = fmax(size, fabs(stored(&ways[w], p.v.f[i])));
                int64_t wrong = -1;
                for (int64_t i = N - 1; i >= 0; i--)
                    if (!row_is_right(&p, &ways[w], i, size)) wrong = i;
                if (wrong >= 0)
                    printf("%-9s %-10s %s: row %lld is wrong: out %g, lse %g\n", kernel->name, ways[w].name,
                           extremes[e].name, (long long)wrong, (double)p.out.f[wrong * d],
                           (double)p.lse.f[wrong]);
                good = good && wrong < 0;
                problem_destroy(&p);
            }
    assert_true(good);
}

/* Entropy and mass: the same numbers with a statistic beside them. */
static void sizes_statistics(void **state) {
    (void)state;
    enum { LONG = 700 }; /* several blocks of keys, so that the maximum moves */
    const float size[] = {0, 1e-40f, 1, 1e4f, 2e15f, 1.2e19f};
    FOR_EACH_ISA (kernel)
        for (int i = 0; i < 6; i++) {
            const int d = test_dim(kernel, 16);
            problem p = problem_create("nope", (shape){1, 1, d, {.q_len = LONG, .k_len = LONG}}, NULL, 72, 1);
            for (int64_t j = 0; j < LONG * d; j++) {
                p.q.f[j] = j % d ? 0 : size[i] * (float)sqrt(d / 16.0);
                p.k.f[j] = j % d ? 0 : (j / d < 300 ? -size[i] : size[i]); /* the second half takes all */
            }
            problem_statistics(&p);
            for (int64_t row = 0; row < LONG; row++) {
                double seen = size[i] > 1e3f && row >= 300 ? (double)row - 299 : (double)row + 1, mass = 0;
                for (int j = 0; j < SIA_DECADES; j++) mass += p.mass.f[row * SIA_DECADES + j];
                if (size[i] == 1 && row >= 300)
                    seen = exp((double)p.entropy.f[row]); /* between; finite is enough */
                if (!(fabs(p.entropy.f[row] - log(seen)) < 1e-4) || !(fabs(mass - 1) < 1e-5))
                    fail_msg("%s: size %g, row %lld: entropy %g, want %g; mass %g", kernel->name,
                             (double)size[i], (long long)row, (double)p.entropy.f[row], log(seen), mass);
            }
            problem_destroy(&p);
        }
}

/* d_v is the sum of weights times d_out, and no weight is above 1. */
static void check_bounded(const problem *p, const char *kernel, const char *name) {
    double most = 0;
    for (int64_t i = 0; i < p->d_out.count; i++) most = fmax(most, fabs((double)p->d_out.f[i]));
    for (int64_t i = 0; i < N * p->shape.head_dim; i++) {
        if (!(fabs((double)p->d_v.f[i]) <= N * most))
            fail_msg("%s %s: d_v is %g", kernel, name, (double)p->d_v.f[i]);
        if (!isfinite(p->d_q.f[i]) || !isfinite(p->d_k.f[i]))
            fail_msg("%s %s: d_q %g, d_k %g", kernel, name, (double)p->d_q.f[i], (double)p->d_k.f[i]);
    }
}

static void sizes_backward(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel)
        for (size_t e = 0; e < sizeof extremes / sizeof *extremes; e++) {
            const extreme *x = &extremes[e];
            const int d = test_dim(kernel, 16);
            problem p = extreme_problem(x, d);
            float q = p.q.f[0];
            problem_forward(&p);
            problem_backward(&p);
            bool overflows = !isfinite(q * x->high) && x->high > 0;
            if (overflows) { /* the three rows before the first such key, and they see nothing */
                for (int i = 0; i < 3 * d; i++) assert_true(p.d_q.f[i] == 0);
                problem_destroy(&p);
                continue;
            }
            check_bounded(&p, kernel->name, x->name);
            if (!isfinite(q * x->k)) /* nothing is seen, nothing has a gradient */
                for (int i = 0; i < N * d; i++)
                    assert_true(p.d_q.f[i] == 0 && p.d_k.f[i] == 0 && p.d_v.f[i] == 0);
            else if (fabsf(x->q * x->k) < 1e3f) {
                for (int64_t i = 0; i < N * d; i++) {
                    p.q.d[i] = p.q.f[i];
                    p.k.d[i] = p.k.f[i];
                    p.v.d[i] = p.v.f[i];
                }
                problem_oracle(&p, true);
                assert_true(tensor_error(&p.d_v) < 1e-4);
                /* Keys of two kinds: what their gradients give to q cancels, and what is left is to be small
                 * beside the terms. */
                double largest = fmax(fabs((double)x->high), fabs((double)x->k)),
                       logit = q * largest / sqrt(d);
                double terms = (double)x->v * fmax(1e-5, 4e-7 * logit), few_bits = 1e-42 + lost_in_tiles(d);
                for (int64_t i = 0; i < N * d; i++)
                    if (!(fabs(p.d_q.f[i] - p.d_q.d[i]) <= terms * largest + few_bits) ||
                        !(fabs(p.d_k.f[i] - p.d_k.d[i]) <= terms * fabs((double)q) + few_bits))
                        fail_msg("%s %s: row %lld: d_q %g, want %g, d_k %g, want %g", kernel->name, x->name,
                                 (long long)i / d, (double)p.d_q.f[i], p.d_q.d[i], (double)p.d_k.f[i],
                                 p.d_k.d[i]);
            }
            problem_destroy(&p);
        }
}

/* ------------------------------------------------------------------------------------------ not finite */

static bool same_rows(const tensor *x, const tensor *y, int64_t width, int64_t from, int64_t to) {
    return memcmp(x->f + from * width, y->f + from * width, (size_t)((to - from) * width) * sizeof(float)) ==
           0;
}

/* A NaN or an infinity in one number of q, k or v: which rows have it, and that no other row has a bit changed. */
static void not_finite_stays(void **state) {
    (void)state;
    enum { LENGTH = 130, HEADS = 2, ROW = 101, AT = 5 };
    const float bad[] = {NAN, INFINITY, -INFINITY};
    FOR_EACH_ISA (kernel)
        for (int w = 0; w < WAYS; w++) {
            const int dim = test_dim(kernel, 24);
            shape s = {HEADS, 1, dim, {.q_len = LENGTH, .k_len = LENGTH}};
            problem clean = problem_create("si+prope", s, NULL, 73, 1);
            attend(&clean, &ways[w]);
            for (int kind = 0; kind < 3; kind++)
                for (int where = 0; where < 3; where++) {
                    problem p = problem_create("si+prope", s, NULL, 73, 1);
                    tensor *x = where == 0 ? &p.q : where == 1 ? &p.k : &p.v;
                    x->f[ROW * (where ? 1 : HEADS) * dim + AT] = bad[kind];
                    attend(&p, &ways[w]);
                    int64_t width = HEADS * dim, after = where ? LENGTH : ROW + 1;
                    bool good = same_rows(&p.out, &clean.out, width, 0, ROW) &&
                                same_rows(&p.out, &clean.out, width, after, LENGTH) &&
                                same_rows(&p.lse, &clean.lse, HEADS, 0, ROW);
                    /* The rows that it reaches. An infinite query or key may make a logit of -infinity of a
                     * component, a weight of 0; a NaN never does. */
                    bool rounded = ways[w].type != SIA_F32, nan = kind == 0 || (rounded && where);
                    for (int64_t i = ROW; i < after; i++) {
                        const float *out = p.out.f + i * width;
                        if (where == 2) good = good && !isfinite(out[AT]) && !isfinite(out[dim + AT]);
                        if (where < 2 && nan) good = good && isnan(out[0]) && isnan(out[dim - 1]);
                        /* In a value, it stays in its column, but for i8, which has one scale for a row. */
                        if (where == 2 && ways[w].type != SIA_I8) good = good && isfinite(out[AT + 1]);
                    }
                    if (where == 0)
                        good = good && same_rows(&p.out, &clean.out, dim, ROW * HEADS + 1, LENGTH * HEADS);
                    if (!good)
                        fail_msg("%s %s: %g in %c", kernel->name, ways[w].name, (double)bad[kind],
                                 "qkv"[where]);
                    problem_destroy(&p);
                }
            problem_destroy(&clean);
        }
}

/* The learned numbers of logn: one head's stay its own. */
static void learned_scales(void **state) {
    (void)state;
    enum { LENGTH = 40, DIM = 8 };
    const float scale[] = {0, 1e-40f, 1e30f, -1e30f, NAN};
    FOR_EACH_ISA (kernel)
        for (int w = 0; w < WAYS; w++)
            for (int i = 0; i < 5; i++) {
                problem p = problem_create("logn", (shape){2, 2, DIM, {.q_len = LENGTH, .k_len = LENGTH}},
                                           NULL, 74, 1);
                attend(&p, &ways[w]);
                float other[LENGTH][DIM];
                for (int j = 0; j < LENGTH; j++)
                    memcpy(other[j], p.out.f + (2 * j + 1) * DIM, sizeof other[j]);
                p.s.f[0] = scale[i];
                attend(&p, &ways[w]);
                for (int j = 0; j < LENGTH; j++) {
                    assert_memory_equal(other[j], p.out.f + (2 * j + 1) * DIM, sizeof other[j]);
                    for (int c = 0; c < DIM; c++)
                        assert_true(isnan(scale[i]) == isnan(p.out.f[2 * j * DIM + c]) &&
                                    !isinf(p.out.f[2 * j * DIM + c]));
                }
                problem_destroy(&p);
            }
}

/* ------------------------------------------------------------------------------------------ unseen distances */

/* A window: distances from 0 to 19 are seen, but not 3; with context set, none are. */
static void window(void *context, int head, int heads, int64_t first, int64_t count, double *scale,
                   double *bias) {
    (void)head;
    (void)heads;
    for (int64_t i = 0; i < count; i++) {
        scale[i] = 1;
        bias[i] = first + i < 20 && first + i != 3 && !context ? 0 : -INFINITY;
    }
}

static void unseen_distances(void **state) {
    (void)state;
    enum { LENGTH = 600 };
    FOR_EACH_ISA (kernel)
        for (int none = 0; none < 2; none++) {
            const int dim = test_dim(kernel, 8);
            sia_attention_config config = {.fill = window, .fill_context = none ? &config : NULL};
            shape s = {1, 1, dim, {.q_len = LENGTH, .k_len = LENGTH}};
            problem p = problem_create("nope", s, &config, 75, 1);
            problem_oracle(&p, true);
            for (int w = 0; w < WAYS; w++) {
                attend(&p, &ways[w]);
                if (!none) assert_true(tensor_error(&p.out) < ways[w].bound);
                for (int64_t i = 0; none && i < p.out.count; i++) assert_true(p.out.f[i] == 0);
                for (int64_t i = 0; none && i < LENGTH; i++) assert_true(p.lse.f[i] == -INFINITY);
            }
            problem_forward(&p);
            problem_backward(&p);
            for (int64_t i = 0; none && i < p.q.count; i++) p.d_q.d[i] = p.d_k.d[i] = p.d_v.d[i] = 0;
            assert_true(tensor_error(&p.d_q) < 1e-4);
            assert_true(tensor_error(&p.d_k) < 1e-4);
            assert_true(tensor_error(&p.d_v) < 1e-4);
            problem_destroy(&p);
        }
}

/* The lowest logit that a float holds, at every distance: the weights are equal, as of any other number. */
static void lowest(void *context, int head, int heads, int64_t first, int64_t count, double *scale,
                   double *bias) {
    (void)context;
    (void)head;
    (void)heads;
    (void)first;
    for (int64_t i = 0; i < count; i++) {
        scale[i] = 1;
        bias[i] = -(double)FLT_MAX * M_LN2; /* logits are kept to the base 2 */
    }
}

static void lowest_logit(void **state) {
    (void)state;
    enum { LENGTH = 600 };
    sia_attention_config config = {.fill = lowest};
    FOR_EACH_ISA (kernel)
        for (int w = 0; w < WAYS; w++) {
            const int dim = test_dim(kernel, 8);
            problem p = problem_create("nope", (shape){1, 1, dim, {.q_len = LENGTH, .k_len = LENGTH}},
                                       &config, 78, 1);
            memset(p.q.f, 0, (size_t)p.q.count * sizeof(float));
            for (int64_t i = 0; i < p.v.count; i++) p.v.f[i] = i % 2 ? 1 : 0;
            attend(&p, &ways[w]);
            for (int64_t i = 0; i < p.out.count; i++)
                if (i % 2 ? !(fabs(p.out.f[i] - 1.0) <= ways[w].bound) : p.out.f[i] != 0)
                    fail_msg("%s %s: out is %g", kernel->name, ways[w].name, (double)p.out.f[i]);
            problem_destroy(&p);
        }
}

/* Logits around each power of two, above and below 0: one reference for all of them loses no weight, and gives none
 * the size of an infinity. Values are as large as they may be. */
static void logits_near_powers(void **state) {
    (void)state;
    enum { LENGTH = 24, STEPS = 12 };
    FOR_EACH_ISA (kernel) {
        const int dim = test_dim(kernel, 16);
        const double to_two = M_LOG2E / sqrt(dim);
        problem p =
            problem_create("nope", (shape){1, 1, dim, {.q_len = LENGTH, .k_len = LENGTH}}, NULL, 80, 1);
        for (int64_t i = 0; i < p.v.count; i++) p.v.f[i] = 1e29f;
        for (int power = 5; power <= 50; power++)
            for (int step = -STEPS; step < STEPS; step++)
                for (int sign = -1; sign <= 1; sign += 2) {
                    float ulp = ldexpf(1, power - 24);
                    for (int64_t i = 0; i < p.q.count; i++) {
                        p.q.f[i] = i % dim ? 0 : 65536;
                        p.k.f[i] =
                            i % dim ? 0 : (float)(sign * (ldexp(1, power) + step * ulp) / to_two / 65536);
                    }
                    for (int w = 0; w < WAYS; w++) {
                        if (ways[w].type != SIA_F32) continue;
                        attend(&p, &ways[w]);
                        double want = 65536 * (double)p.k.f[0] / sqrt(dim);
                        for (int64_t i = 0; i < LENGTH; i++)
                            if (!(fabs(p.out.f[i * dim] / 1e29 - 1) < 2e-5) ||
                                !(fabs(p.lse.f[i] - want - log((double)i + 1)) < 1e-6 + 2e-7 * fabs(want)))
                                fail_msg("%s %s: row %lld at 2^%d %+d: out %g, lse %g, want %g", kernel->name,
                                         ways[w].name, (long long)i, power, step, (double)p.out.f[i * dim],
                                         (double)p.lse.f[i], want + log((double)i + 1));
                    }
                }
        problem_destroy(&p);
    }
}

/* The smallest scales under the largest products: the key with the larger logit takes all. */
static void tiny(void *context, int head, int heads, int64_t first, int64_t count, double *scale,
                 double *bias) {
    (void)head;
    (void)heads;
    (void)first;
    for (int64_t i = 0; i < count; i++) {
        scale[i] = *(double *)context;
        bias[i] = 0;
    }
}

static void tiny_scales(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel)
        for (int power = -36; power <= 36; power++) {
            const int dim = test_dim(kernel, 8);
            double size = pow(10, power);
            sia_attention_config config = {.fill = tiny, .fill_context = &size};
            problem p = problem_create("nope", (shape){1, 1, dim, {.q_len = 2, .k_len = 2}}, &config, 81, 1);
            float root = (float)fmin(sqrt(1e3 / size), 1e19);
            for (int64_t i = 0; i < p.q.count; i++) {
                p.q.f[i] = i % dim ? 0 : root;
                p.k.f[i] = i % dim ? 0 : i ? -root : root;
            }
            double logit = size * (double)root * root / sqrt(dim), first = 1 / (1 + exp(-2 * logit));
            for (int w = 0; w < 3; w++) {
                attend(&p, &ways[w]);
                for (int c = 0; c < dim; c++) {
                    double want = first * p.v.f[c] + (1 - first) * p.v.f[dim + c];
                    if (!(fabs(p.out.f[dim + c] - want) < 1e-4))
                        fail_msg("%s %s: a scale of %g: out %g, want %g", kernel->name, ways[w].name, size,
                                 (double)p.out.f[dim + c], want);
                }
            }
            problem_destroy(&p);
        }
}

/* One key that weighs as much as all others together, in blocks of their own: none is lost for being small. */
static void small_values_of_bytes(void **state) {
    (void)state;
    enum { LENGTH = 1024 };
    FOR_EACH_ISA (kernel)
        for (int power = -32; power <= 0; power++) {
            const int dim = test_dim(kernel, 8);
            float size = powf(10, (float)power);
            problem p =
                problem_create("nope", (shape){1, 1, dim, {.q_len = LENGTH, .k_len = LENGTH}}, NULL, 82, 1);
            for (int64_t i = 0; i < p.q.count; i++) {
                p.q.f[i] = i % dim ? 0 : (float)(10 * M_LN2 * sqrt(dim));
                p.k.f[i] = i % dim || i == 0 ? 0 : -1;
                p.v.f[i] = size;
            }
            for (int w = 0; w < WAYS; w++) {
                if (ways[w].type == SIA_F16) continue;
                attend(&p, &ways[w]);
                double error = fabs(p.out.f[p.out.count - 1] / (double)size - 1);
                if (!(error < 1e-2))
                    fail_msg("%s %s: values of %g: out %g", kernel->name, ways[w].name, (double)size,
                             (double)p.out.f[p.out.count - 1]);
            }
            problem_destroy(&p);
        }
}

/* Weights of 1, and of 2^8 and 2^-8: the log of the sum is that of a number known exactly, to the last bits of a float. */
static void logs_of_counts(void **state) {
    (void)state;
    enum { LENGTH = 3000 };
    FOR_EACH_ISA (kernel)
        for (int power = -8; power <= 8; power += 8) {
            const int dim = test_dim(kernel, 8);
            problem p =
                problem_create("nope", (shape){1, 1, dim, {.q_len = LENGTH, .k_len = LENGTH}}, NULL, 79, 1);
            float q = (float)(M_LN2 * sqrt(dim));
            double logit = (double)q * power / sqrt(dim);
            for (int64_t i = 0; i < LENGTH * dim; i++) {
                p.q.f[i] = i % dim ? 0 : q;
                p.k.f[i] = i % dim ? 0 : (float)power;
            }
            problem_forward(&p);
            for (int64_t i = 0; i < LENGTH; i++) {
                double want = log((double)(i + 1)) + logit, error = fabs(p.lse.f[i] - want);
                if (!(error <= 3e-7 + 2e-7 * fabs(logit) + 6e-8 * fabs(want)))
                    fail_msg("%s: the log of %lld times 2^%d is %.9g, want %.9g", kernel->name,
                             (long long)i + 1, power, (double)p.lse.f[i], want);
            }
            problem_destroy(&p);
        }
}

/* Each block of keys has logits of another size: references move up, and stay when they should. */
static void blocks_of_levels(void **state) {
    (void)state;
    enum { LENGTH = 900, BLOCK = 128, SEEDS = 40 };
    const float levels[] = {-200, -88.4f, -87, -70, -45, -20, -11, 0, 11, 20, 45, 70, 87, 88.4f, 200};
    FOR_EACH_ISA (kernel)
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            const int dim = test_dim(kernel, 8);
            problem p =
                problem_create("nope", (shape){1, 1, dim, {.q_len = LENGTH, .k_len = LENGTH}}, NULL, 84, 1);
            for (int64_t i = 0; i < p.q.count; i++) {
                uint64_t level =
                    sia_random_below(seed, (uint64_t)(i / dim / BLOCK), sizeof levels / sizeof *levels);
                p.q.f[i] = i % dim ? 0 : (float)sqrt(dim);
                p.k.f[i] = i % dim ? 0 : levels[level] + p.v.f[i];
                p.q.d[i] = p.q.f[i];
                p.k.d[i] = p.k.f[i];
            }
            problem_oracle(&p, false);
            problem_forward(&p);
            for (int64_t i = 0; i < LENGTH; i++)
                if (!(fabs(p.lse.f[i] - p.lse.d[i]) < 1e-4) ||
                    !(fabs(p.out.f[i * dim] - p.out.d[i * dim]) < 2e-4))
                    fail_msg("%s, seed %d: row %lld: out %g, want %g, lse %g, want %g", kernel->name,
                             (int)seed, (long long)i, (double)p.out.f[i * dim], p.out.d[i * dim],
                             (double)p.lse.f[i], p.lse.d[i]);
            problem_destroy(&p);
        }
}

/* One key at most counts in a block of keys, each more than all before it: the statistics move with the largest. */
static void statistics_of_steps(void **state) {
    (void)state;
    enum { LENGTH = 1100 };
    FOR_EACH_ISA (kernel)
        for (int shift = -300; shift <= 300; shift += 100) {
            const int dim = test_dim(kernel, 8);
            problem p =
                problem_create("nope", (shape){1, 1, dim, {.q_len = LENGTH, .k_len = LENGTH}}, NULL, 83, 1);
            for (int64_t i = 0; i < p.q.count; i++) {
                int64_t row = i / dim;
                p.q.f[i] = i % dim ? 0 : (float)sqrt(dim);
                p.k.f[i] = i % dim ? 0 : (float)shift + (row % 300 == 7 ? (float)row / 300 : -1000);
            }
            for (int64_t i = 0; i < p.q.count; i++) {
                p.q.d[i] = p.q.f[i];
                p.k.d[i] = p.k.f[i];
            }
            problem_oracle(&p, false);
            sia_forward io = problem_forward_io(&p, true);
            io.lse = NULL; /* statistics do not need it */
            assert_int_equal(sia_attention_forward(p.a, p.shape.span, &io, NULL, NULL), SIA_OK);
            double bound = 2e-6 * fmax(1, abs(shift) / 10.0); /* a logit is rounded to its own size */
            for (int64_t i = 7; i < LENGTH; i++) {
                if (!(fabs(p.entropy.f[i] - p.entropy.d[i]) < bound))
                    fail_msg("%s: row %lld at %d: entropy %g, want %g", kernel->name, (long long)i, shift,
                             (double)p.entropy.f[i], p.entropy.d[i]);
                for (int d = 0; d < SIA_DECADES; d++)
                    if (!(fabs(p.mass.f[i * SIA_DECADES + d] - p.mass.d[i * SIA_DECADES + d]) < bound))
                        fail_msg("%s: row %lld at %d: mass %d is %g, want %g", kernel->name, (long long)i,
                                 shift, d, (double)p.mass.f[i * SIA_DECADES + d],
                                 p.mass.d[i * SIA_DECADES + d]);
            }
            problem_destroy(&p);
        }
}

/* ------------------------------------------------------------------------------------------ lengths */

/* One token sees itself: out = v but for the rounding of w v / w, lse = its logit, and only v has a gradient. */
static void length_one(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel)
        for (const char *const *scheme = sia_scheme_list(); *scheme; scheme++) {
            problem p = problem_create(*scheme, (shape){3, 1, 40, {.q_len = 1, .k_len = 1}}, NULL, 76, 1);
            for (int w = 0; w < WAYS; w++) {
                attend(&p, &ways[w]);
                for (int64_t i = 0; i < p.out.count; i++) {
                    double v = p.v.f[i % 40], bound = w < 3 ? 3e-7 * fabs(v) : ways[w].bound * 4;
                    assert_true(fabs(p.out.f[i] - v) <= bound);
                }
            }
            problem_forward(&p);
            problem_backward(&p);
            for (int64_t i = 0; i < p.out.count; i++) assert_true(fabsf(p.d_q.f[i]) < 2e-5f);
            for (int64_t i = 0; i < 40; i++) {
                assert_true(fabsf(p.d_k.f[i]) < 2e-5f);
                double sum = (double)p.d_out.f[i] + p.d_out.f[40 + i] + p.d_out.f[80 + i];
                assert_true(fabs(p.d_v.f[i] - sum) < 1e-5);
            }
            problem_destroy(&p);
        }
}

/* The last query of 1,048,576 positions, forward and backward. */
static void length_of_a_million(void **state) {
    (void)state;
    enum { LENGTH = 1 << 20 };
    if (test_in_haste()) skip();
    shape s = {1, 1, 8, {.q_len = 1, .k_len = LENGTH, .q_pos = LENGTH - 1}};
    problem p = problem_create("si", s, NULL, 77, 1);
    problem_oracle(&p, true);
    FOR_EACH_ISA (kernel) {
        problem_renew(&p);
        problem_forward(&p);
        problem_backward(&p);
        const tensor *result[] = {&p.out, &p.lse, &p.d_q, &p.d_k, &p.d_v};
        for (int i = 0; i < 5; i++) {
            double error = tensor_error(result[i]);
            if (!(error < 1e-4)) fail_msg("%s: error %.1e of result %d", kernel->name, error, i);
        }
    }
    problem_destroy(&p);
}

/* The sanitizers' own memory does not bear a limit. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

/* The longest length is not refused for its number. Few machines have the memory to go on with it: a child has a limit
 * on its memory, and arrays that it may not touch. */
static int longest_in_a_child(bool tables) {
    sia_attention *a;
    sia_attention_config config = {.heads = 1, .head_dim = 8, .threads = 1};
    if (sia_attention_create(&a, "si", &config, NULL)) return 100;
    struct rlimit most = {1 << 28, 1 << 28}, no_core = {0, 0};
    float *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (nothing == MAP_FAILED || setrlimit(RLIMIT_AS, &most) || setrlimit(RLIMIT_CORE, &no_core)) return 101;
    (void)signal(SIGSEGV, SIG_DFL);
    if (tables) return (int)sia_attention_tables(a, 0, SIA_MAX_POSITION, nothing, nothing, NULL);
    return (int)sia_attention_reserve(a, SIA_MAX_POSITION, NULL);
}

static void longest_length(void **state) {
    (void)state;
    if (__asan_init || __tsan_init) skip();
    for (int tables = 0; tables < 2; tables++) {
        pid_t child = fork();
        if (child == 0) _exit(longest_in_a_child(tables));
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (tables) /* it began to write */
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        else
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SIA_MEMORY);
    }
    sia_attention *a;
    sia_error err;
    float x[1], y[1];
    sia_attention_config config = {.heads = 1, .head_dim = 8, .threads = 1};
    assert_int_equal(sia_attention_create(&a, "si", &config, NULL), SIA_OK);
    assert_int_equal(sia_attention_reserve(a, SIA_MAX_POSITION + 1, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "length 1073741825: want 1 to 1073741824");
    assert_int_equal(sia_attention_tables(a, 0, SIA_MAX_POSITION + 1, x, y, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "count 1073741825: want 0 to 1073741824");
    sia_attention_destroy(a);
}

int main(void) {
    test_of_tiles = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_forward),         cmocka_unit_test(sizes_statistics),
        cmocka_unit_test(sizes_backward),        cmocka_unit_test(not_finite_stays),
        cmocka_unit_test(learned_scales),        cmocka_unit_test(unseen_distances),
        cmocka_unit_test(lowest_logit),          cmocka_unit_test(logs_of_counts),
        cmocka_unit_test(logits_near_powers),    cmocka_unit_test(tiny_scales),
        cmocka_unit_test(small_values_of_bytes), cmocka_unit_test(statistics_of_steps),
        cmocka_unit_test(blocks_of_levels),      cmocka_unit_test(length_one),
        cmocka_unit_test(length_of_a_million),   cmocka_unit_test(longest_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
