/* SPDX-License-Identifier: MIT
 *
 * Every scheme, in every shape, with every instruction set, against the float64 oracle: forward, statistics,
 * backward. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "problem.h"

/* Relative to the largest number of the tensor. */
static const double FORWARD_BOUND = 2e-5, GRADIENT_BOUND = 1e-4;

static const char *const more_schemes[] = {"logn+nope", "logn+si+prope", "alibi+rope", "si+ntk",
                                           "si+yarn",   "sharp+alibi",   "logn+yarn",  NULL};

/* Around the tile (6, 12 or 4 rows; 8, 16 or 32 columns), the blocks (96 to 384 queries; 96, 192 and 256
 * keys), and their ends. */
static const shape shapes[] = {
    {1, 1, 8, {.q_len = 1, .k_len = 1}},
    {2, 1, 8, {.q_len = 5, .k_len = 5}},
    {2, 2, 16, {.q_len = 6, .k_len = 6}},
    {3, 1, 24, {.q_len = 7, .k_len = 7}},
    {2, 2, 32, {.q_len = 15, .k_len = 15}},
    {4, 2, 40, {.q_len = 16, .k_len = 16}},
    {2, 1, 48, {.q_len = 17, .k_len = 17, .batch = 2}},
    /* Two heads: the gradient of logn is a number a head, and one alone may nearly cancel. */
    {2, 2, 56, {.q_len = 33, .k_len = 33}},
    {2, 2, 64, {.q_len = 95, .k_len = 95}},
    {2, 1, 64, {.q_len = 96, .k_len = 96}},
    {1, 1, 64, {.q_len = 97, .k_len = 97}},
    {6, 3, 72, {.q_len = 50, .k_len = 50, .batch = 3}},
    {1, 1, 96, {.q_len = 193, .k_len = 193}},
    {2, 2, 128, {.q_len = 131, .k_len = 131}},
    {1, 1, 200, {.q_len = 61, .k_len = 61}},
    {1, 1, 256, {.q_len = 100, .k_len = 100}},
    /* Offsets: one query at the end, a chunk of a prompt, queries before some keys, before all keys, far
       away. */
    {2, 1, 64, {.q_len = 1, .k_len = 300, .q_pos = 299}},
    {2, 2, 32, {.q_len = 37, .k_len = 111, .q_pos = 74}},
    {1, 1, 40, {.q_len = 120, .k_len = 40, .q_pos = 0, .k_pos = 50}},
    {1, 1, 24, {.q_len = 20, .k_len = 30, .q_pos = 3, .k_pos = 40}},
    {2, 1, 48, {.q_len = 30, .k_len = 100, .q_pos = 5000, .k_pos = 13}},
    {1, 1, 64, {.q_len = 29, .k_len = 300, .q_pos = 100, .k_pos = 90}},
    /* The rest of one less, as many and one more than the rows and columns of each instruction set's tile and the
       blocks. */
    {2, 1, 16, {.q_len = 3, .k_len = 3}},
    {2, 1, 16, {.q_len = 4, .k_len = 4}},
    {2, 2, 24, {.q_len = 8, .k_len = 8}},
    {2, 2, 8, {.q_len = 9, .k_len = 9}},
    {2, 1, 32, {.q_len = 11, .k_len = 11}},
    {2, 1, 40, {.q_len = 12, .k_len = 12}},
    {2, 2, 48, {.q_len = 13, .k_len = 13}},
    {2, 2, 56, {.q_len = 31, .k_len = 31}},
    {2, 1, 16, {.q_len = 32, .k_len = 32}},
    {2, 2, 8, {.q_len = 191, .k_len = 191}},
    {2, 1, 16, {.q_len = 192, .k_len = 192}},
    {2, 2, 16, {.q_len = 255, .k_len = 255}},
    {2, 1, 24, {.q_len = 256, .k_len = 256}},
    {2, 2, 8, {.q_len = 257, .k_len = 257}},
    {2, 1, 8, {.q_len = 383, .k_len = 383}},
    {2, 1, 8, {.q_len = 384, .k_len = 384}},
    {2, 1, 8, {.q_len = 385, .k_len = 385}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const shape long_shape = {2, 1, 16, {.q_len = 1031, .k_len = 1031}}; /* for every scheme */
static const shape longer_shapes[] = {
    {2, 1, 64, {.q_len = 1100, .k_len = 1100}},
    {1, 1, 128, {.q_len = 1031, .k_len = 1031}},
    {1, 1, 8, {.q_len = 3100, .k_len = 3100}}, /* the largest tasks of both passes */
};

static const char *const few_schemes[] = {"logn+rope", "si+prope", "alibi", NULL};

typedef struct worst {
    double error;
    int shape;
    const char *tensor;
} worst;

static void consider(worst *w, const tensor *t, const char *name, int shape_index, double bound) {
    double error = tensor_error(t) / bound;
    if (error >= w->error || isnan(error)) *w = (worst){error, shape_index, name};
}

enum { MOST_ISAS = 8 };

typedef struct result {
    worst forward, gradient;
} result;

/* The oracle takes longer than all kernels together, and is asked once for all of them. */
static void check_shape(const char *scheme, const shape *s, int index, result results[MOST_ISAS]) {
    problem p = problem_create(scheme, *s, NULL, 1000 + (uint64_t)index, 1);
    result *of = results;
    problem_oracle(&p, true);
    FOR_EACH_ISA (kernel) {
        assert_true(of < results + MOST_ISAS);
        problem_renew(&p);
        problem_forward(&p);
        consider(&of->forward, &p.out, "out", index, FORWARD_BOUND);
        consider(&of->forward, &p.lse, "lse", index, FORWARD_BOUND);
        problem_backward(&p);
        consider(&of->gradient, &p.d_q, "d_q", index, GRADIENT_BOUND);
        consider(&of->gradient, &p.d_k, "d_k", index, GRADIENT_BOUND);
        consider(&of->gradient, &p.d_v, "d_v", index, GRADIENT_BOUND);
        if (p.logn) consider(&of->gradient, &p.d_s, "d_logn", index, GRADIENT_BOUND);
        of++;
    }
    problem_destroy(&p);
}

static bool report(const sia_kernel *kernel, const char *scheme, const char *pass, worst w, double bound,
                   const shape *table) {
    const shape *s = &table[w.shape];
    bool good = w.error <= 1;
    printf("%-9s %-14s %-9s worst %s in %lld x %lld, %d heads of %d: error %.1e, bound %.0e, %s\n",
           kernel->name, scheme, pass, w.tensor, (long long)s->span.q_len, (long long)s->span.k_len, s->heads,
           s->head_dim, w.error * bound, bound, good ? "good" : "BAD");
    return good;
}

static bool check_scheme(const char *scheme, const shape *table, int count) {
    result results[MOST_ISAS] = {0}, *of = results;
    bool good = true;
    for (int i = 0; i < count; i++) check_shape(scheme, &table[i], i, results);
    FOR_EACH_ISA (kernel) {
        good = report(kernel, scheme, "forward", of->forward, FORWARD_BOUND, table) && good;
        good = report(kernel, scheme, "backward", of->gradient, GRADIENT_BOUND, table) && good;
        of++;
    }
    return good;
}

static bool check_schemes(const shape *table, int count) {
    bool good = true;
    for (const char *const *scheme = test_in_haste() ? few_schemes : sia_scheme_list(); *scheme; scheme++)
        good = check_scheme(*scheme, table, count) && good;
    for (const char *const *scheme = more_schemes; !test_in_haste() && *scheme; scheme++)
        good = check_scheme(*scheme, table, count) && good;
    return good;
}

static void every_scheme_and_shape(void **state) {
    (void)state;
    assert_true(check_schemes(shapes, SHAPES));
}

static void long_sequences(void **state) {
    (void)state;
    bool good = check_schemes(&long_shape, 1);
    good = check_scheme("si+prope", longer_shapes, 3) && good;
    assert_true(check_scheme("logn+rope", longer_shapes, 1) && good);
}

/* Far from all keys, ALiBi's bias is what is left of a logit, and a float holds it to 1e-7 of itself, as the header says:
 * with the slopes of two heads, as in the table, the usual bound still holds, with those of eight it does not. */
static void alibi_far_away(void **state) {
    (void)state;
    enum { AWAY = 5000, QUERIES = 30 };
    const shape s = {8, 8, 16, {.q_len = QUERIES, .k_len = 100, .q_pos = AWAY}};
    double steepest = 0.5, bound = 2 * 1e-7 * steepest * (AWAY + QUERIES);
    problem p = problem_create("alibi", s, NULL, 11, 1);
    problem_oracle(&p, false);
    FOR_EACH_ISA (kernel) {
        problem_renew(&p);
        problem_forward(&p);
        printf("%-9s alibi far away: error %.1e, bound %.0e\n", kernel->name, tensor_error(&p.out), bound);
        assert_true(tensor_error(&p.out) < bound);
        assert_true(tensor_error(&p.lse) < FORWARD_BOUND);
    }
    problem_destroy(&p);
}

static void adjacent_pairs(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel) {
        sia_attention_config config = {.pairs = SIA_PAIRS_ADJACENT};
        problem p = problem_create("si+rope", shapes[13], &config, 7, 1);
        problem_oracle(&p, true);
        problem_forward(&p);
        problem_backward(&p);
        assert_true(tensor_error(&p.out) < FORWARD_BOUND);
        assert_true(tensor_error(&p.d_q) < GRADIENT_BOUND);
        assert_true(tensor_error(&p.d_k) < GRADIENT_BOUND);
        problem_destroy(&p);
    }
}

static void power_law(void *context, int head, int heads, int64_t first, int64_t count, double *scale,
                      double *bias) {
    (void)heads;
    for (int64_t i = 0; i < count; i++) {
        scale[i] = 1 + 0.1 * head;
        bias[i] = -*(double *)context * log1p((double)(first + i));
    }
}

static void distance_slot_of_ones_own(void **state) {
    (void)state;
    double exponent = 0.7;
    FOR_EACH_ISA (kernel) {
        sia_attention_config config = {.fill = power_law, .fill_context = &exponent};
        problem p = problem_create("prope", shapes[11], &config, 8, 1);
        assert_string_equal(sia_attention_scheme(p.a), "own+prope");
        problem_oracle(&p, true);
        problem_forward(&p);
        problem_backward(&p);
        assert_true(tensor_error(&p.out) < FORWARD_BOUND);
        assert_true(tensor_error(&p.d_q) < GRADIENT_BOUND);
        problem_destroy(&p);
    }
}

/* Parameters away from their defaults, and numbers that leave no room in the exponent. */
static void parameters(void **state) {
    (void)state;
    static const struct {
        const char *scheme;
        sia_attention_config config; /* a parameter that is not its default */
    } cases[] = {
        {"si+prope", {.tau = 0.01}},
        {"si+prope", {.tau = 100}},
        {"si+prope", {.alpha = 1, .beta = 0.5}},
        {"si+prope", {.alpha = 2, .beta = 2 * M_LN2}},
        {"si+prope", {.prope_share = 0.25, .prope_base = 31}},
        {"si+yarn", {.rotary_base = 500, .train_len = 16, .eval_len = 4096}},
        {"yarn", {.train_len = 40, .eval_len = 50}}, /* a little longer, and shorter */
        {"ntk", {.train_len = 40, .eval_len = 50}},
        {"yarn", {.train_len = 200, .eval_len = 50}},
        {"ntk", {.train_len = 200, .eval_len = 50}},
        {"sharp+prope", {.sharp = 3}},
    };
    FOR_EACH_ISA (kernel)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            problem p = problem_create(cases[i].scheme, shapes[8], &cases[i].config, 9, 1);
            problem_oracle(&p, true);
            problem_forward(&p);
            problem_backward(&p);
            assert_true(tensor_error(&p.out) < FORWARD_BOUND);
            assert_true(tensor_error(&p.d_q) < GRADIENT_BOUND);
            assert_true(tensor_error(&p.d_k) < GRADIENT_BOUND);
            problem_destroy(&p);
        }
}

static void statistics(void **state) {
    (void)state;
    static const int which[] = {0, 6, 8, 12, 16, 18, 20, 21};
    FOR_EACH_ISA (kernel)
        for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
            problem p = problem_create(i % 2 ? "nope" : "si+prope", shapes[which[i]], NULL, 10, 2);
            problem_oracle(&p, false);
            problem_statistics(&p);
            double entropy = tensor_error(&p.entropy), mass = tensor_error(&p.mass);
            printf("%-9s statistics of shape %d: entropy %.1e, mass %.1e, bound %.0e\n", kernel->name,
                   which[i], entropy, mass, FORWARD_BOUND);
            assert_true(entropy < FORWARD_BOUND);
            assert_true(mass < FORWARD_BOUND);
            for (int64_t row = 0; row < p.entropy.count;
                 row++) /* of one key, too, where all that is left is rounding */
                assert_true(p.entropy.f[row] >= 0);
            assert_true(tensor_error(&p.out) < FORWARD_BOUND);
            problem_destroy(&p);
        }
}

int main(void) {
    test_of_tiles = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scheme_and_shape),
        cmocka_unit_test(long_sequences),
        cmocka_unit_test(alibi_far_away),
        cmocka_unit_test(adjacent_pairs),
        cmocka_unit_test(distance_slot_of_ones_own),
        cmocka_unit_test(parameters),
        cmocka_unit_test(statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
