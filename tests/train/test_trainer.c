/* SPDX-License-Identifier: MIT
 *
 * Steps of training on a batch that is always the same: it is learnt by heart; parts of a batch,
 * recomputation and threads do not change the curve; every option of the optimiser does what it says. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "larger.h"
#include "train/trainer.h"

enum { BATCH = 8, LENGTH = 24, VOCABULARY = 64, MOST_STEPS = 200 };

static sia_error said;
#define OK(call)                             \
    do {                                     \
        if (call) fail_msg("%s", said.text); \
    } while (0)

static sia_settings small_settings(int64_t steps) {
    sia_settings s;
    OK(sia_settings_preset(&s, "tiny", &said));
    s.model.layers = 2;
    s.model.width = 48;
    s.model.heads = 2;
    s.model.vocabulary = VOCABULARY;
    s.model.train_len = LENGTH;
    s.training.batch = BATCH;
    s.training.steps = steps;
    return s;
}

/* Tokens without any order, learnt from the tokens before alone; each sequence starts with a token of its
 * own, or the second one could not be known. */
static sia_status same_batch(void *context, int64_t step, uint32_t *ids, uint32_t *targets, sia_error *err) {
    (void)context, (void)step, (void)err;
    for (uint64_t i = 0; i < BATCH; i++)
        for (uint64_t j = 0; j < LENGTH; j++) {
            uint64_t at = i * (LENGTH + 1) + j;
            ids[i * LENGTH + j] = j ? (uint32_t)sia_random_below(5, at, VOCABULARY) : (uint32_t)i;
            targets[i * LENGTH + j] = (uint32_t)sia_random_below(5, at + 1, VOCABULARY);
        }
    return SIA_OK;
}

/* Numbers from the first weight to the last; there are gaps between tensors, which hold 0. */
static size_t span_of(const sia_model *m) {
    const sia_parameter *last = sia_unembedding(&m->parameters);
    return (size_t)(last->value - m->parameters.values + last->rows * last->columns);
}

typedef struct curve {
    double loss[MOST_STEPS], rate_factor[MOST_STEPS], clip_factor[MOST_STEPS];
    float *weights; /* in the end; freed with sia_free */
    size_t count;
} curve;

static curve train(sia_settings s, int threads) {
    curve c = {0};
    sia_model *m;
    sia_trainer *t;
    assert_true(s.training.steps <= MOST_STEPS);
    OK(sia_settings_complete(&s, &said));
    OK(sia_model_create(&m, &s.model, threads, &said));
    OK(sia_trainer_create(&t, m, &s, same_batch, NULL, &said));
    for (int64_t step = 0; step < s.training.steps; step++) {
        sia_step_result r;
        OK(sia_trainer_step(t, step, &r, &said));
        assert_int_equal(r.tokens, BATCH * LENGTH);
        c.loss[step] = r.loss;
        c.rate_factor[step] = r.rate_factor;
        c.clip_factor[step] = r.statistics.clip_factor;
    }
    c.count = span_of(m);
    c.weights = sia_alloc(c.count, sizeof(float));
    assert_non_null(c.weights);
    memcpy(c.weights, m->parameters.values, c.count * sizeof(float));
    sia_trainer_destroy(t);
    sia_model_destroy(m);
    return c;
}

static bool same_bits(const curve *a, const curve *b) {
    bool same = a->count == b->count && memcmp(a->weights, b->weights, a->count * sizeof(float)) == 0;
    for (int i = 0; i < MOST_STEPS; i++) same = same && a->loss[i] == b->loss[i];
    return same;
}

static void test_overfits(void **state) {
    (void)state;
    static const char *const schemes[] = {"si+prope", "rope", "logn+prope", "alibi"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        sia_settings s = small_settings(MOST_STEPS);
        (void)snprintf(s.model.scheme, sizeof s.model.scheme, "%s", schemes[i]);
        s.training.unembedding_rate = 0.02;
        curve c = train(s, 1);
        print_message("  %-10s loss %.4f at first, %.4f after %d steps; want ln %d = %.4f and < 0.05\n",
                      schemes[i], c.loss[0], c.loss[MOST_STEPS - 1], MOST_STEPS, VOCABULARY, log(VOCABULARY));
        assert_true(fabs(c.loss[0] - log(VOCABULARY)) < 1e-3);
        assert_true(c.loss[MOST_STEPS - 1] < 0.05);
        sia_free(c.weights);
    }
}

/* The gradient of a batch is the sum over its parts. */
static void test_parts_of_a_batch(void **state) {
    (void)state;
    const int64_t steps = 30;
    sia_settings s = small_settings(steps);
    curve whole = train(s, 1);
    static const int64_t parts[] = {1, 2, 4};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        double most = 0;
        s.training.micro_batch = parts[i];
        curve c = train(s, 1);
        for (int64_t k = 0; k < steps; k++) most = larger(most, fabs(c.loss[k] - whole.loss[k]));
        print_message("  parts of %d: losses differ by %.1e at most; want 1e-5\n", (int)parts[i], most);
        assert_true(most < 1e-5);
        sia_free(c.weights);
    }
    sia_free(whole.weights);
}

static void test_same_bits(void **state) {
    (void)state;
    sia_settings s = small_settings(20);
    (void)snprintf(s.model.scheme, sizeof s.model.scheme, "logn+prope");
    s.training.micro_batch = 4;
    s.training.clip = 0.5;
    s.training.weight_decay = 0.1;
    curve first = train(s, 1);
    for (int threads = 1; threads <= 3; threads++)
        for (int recompute = 0; recompute < 2; recompute++) {
            s.training.recompute = recompute;
            curve c = train(s, threads);
            if (!same_bits(&first, &c)) fail_msg("threads %d, recompute %d: other bits", threads, recompute);
            sia_free(c.weights);
        }
    sia_free(first.weights);
}

static double norm_of(const curve *c) {
    double sum = 0;
    for (size_t i = 0; i < c->count; i++) sum += (double)c->weights[i] * c->weights[i];
    return sqrt(sum);
}

static void test_options(void **state) {
    (void)state;
    const int64_t steps = 20;
    sia_settings s = small_settings(steps);
    curve plain = train(s, 1);
    assert_true(plain.clip_factor[0] == 1 && plain.rate_factor[0] == 1);

    s.training.clip = 1e-3;
    curve clipped = train(s, 1);
    assert_true(clipped.clip_factor[0] < 1 && !same_bits(&plain, &clipped));

    s = small_settings(steps);
    s.training.weight_decay = 0.5;
    curve decayed = train(s, 1);
    print_message("  norm of the weights %.2f, with decay %.2f\n", norm_of(&plain), norm_of(&decayed));
    assert_true(norm_of(&decayed) < 0.9 * norm_of(&plain));

    s = small_settings(steps);
    s.training.warmup = 5;
    curve warm = train(s, 1);
    assert_true(fabs(warm.rate_factor[0] - 0.2) < 1e-12 && warm.rate_factor[5] == 1);
    assert_true(warm.loss[1] > plain.loss[1]); /* a first step of a fifth */

    s = small_settings(steps);
    s.training.schedule = SIA_SCHEDULE_COSINE;
    curve cosine = train(s, 1);
    assert_true(cosine.rate_factor[0] == 1 && fabs(cosine.rate_factor[10] - 0.5) < 1e-12);
    assert_true(!same_bits(&plain, &cosine));

    const curve *all[] = {&plain, &clipped, &decayed, &warm, &cosine};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_true(all[i]->loss[steps - 1] < all[i]->loss[0]);
        sia_free(all[i]->weights);
    }
}

/* What a first step moves, by group. Adam's averages over one gradient are that gradient: the largest change is the
 * rate. Muon's change has singular values near the rate: between 0.6 and 1.3 times the rate by root mean square. */
static void test_first_step(void **state) {
    (void)state;
    sia_settings s = small_settings(10);
    (void)snprintf(s.model.scheme, sizeof s.model.scheme, "logn+prope");
    s.training.warmup = 2; /* half of each rate */
    s.training.embedding_rate = 0.3;
    s.training.matrix_rate = 0.02;
    s.training.unembedding_rate = 0.004;
    s.training.scalar_rate = 0.007;
    const double rates[SIA_GROUPS] = {[SIA_GROUP_EMBEDDING] = 0.15,
                                      [SIA_GROUP_MATRIX] = 0.01,
                                      [SIA_GROUP_UNEMBEDDING] = 0.002,
                                      [SIA_GROUP_SCALAR] = 0.0035};
    sia_model *m;
    sia_trainer *t;
    sia_step_result r;
    OK(sia_settings_complete(&s, &said));
    OK(sia_model_create(&m, &s.model, 1, &said));
    OK(sia_trainer_create(&t, m, &s, same_batch, NULL, &said));
    /* Away from 0, or there are no gradients but the unembedding's. */
    for (size_t i = 0; i < span_of(m); i++) m->parameters.values[i] = 0.1f * (float)sia_random_normal(8, i);
    size_t bytes = span_of(m) * sizeof(float);
    float *before = sia_alloc(bytes, 1);
    assert_non_null(before);
    memcpy(before, m->parameters.values, bytes);
    OK(sia_trainer_step(t, 0, &r, &said));
    for (int i = 0; i < m->parameters.count; i++) {
        const sia_parameter *p = &m->parameters.list[i];
        double most = 0, squares = 0, rate = rates[p->group];
        int64_t least = p->rows < p->columns ? p->rows : p->columns;
        for (int64_t k = 0; k < p->rows * p->columns; k++) {
            double change = fabs((double)p->value[k] - before[p->value - m->parameters.values + k]);
            most = larger(most, change);
            squares += change * change;
        }
        double tall = p->rows > p->columns ? (double)p->rows / (double)p->columns : 1;
        double root = sqrt(squares / (double)least / tall) / rate;
        if (p->group == SIA_GROUP_MATRIX ? !(root > 0.6 && root < 1.3) : !(fabs(most / rate - 1) < 1e-3))
            fail_msg("%s: the largest change is %g, the root mean square %g rates, the rate %g", p->name,
                     most, root, rate);
    }
    sia_free(before);
    sia_trainer_destroy(t);
    sia_model_destroy(m);
}

/* A step that fails has changed no weight: what is saved afterwards is what was before. */
static void test_failed_step(void **state) {
    (void)state;
    static const struct {
        float value;
        const char *sentence;
    } cases[] = {{NAN, "not a number"}, {1e4f, "that of a model that knows nothing is 4.16"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_settings s = small_settings(10);
        sia_model *m;
        sia_trainer *t;
        sia_step_result r;
        sia_error err;
        OK(sia_settings_complete(&s, &said));
        OK(sia_model_create(&m, &s.model, 1, &said));
        OK(sia_trainer_create(&t, m, &s, same_batch, NULL, &said));
        OK(sia_trainer_step(t, 0, &r, &said));
        const sia_parameter *w = sia_unembedding(&m->parameters);
        for (int64_t k = 0; k < w->columns; k++) w->value[k] = cases[i].value;
        size_t bytes = span_of(m) * sizeof(float);
        float *before = sia_alloc(bytes, 1);
        assert_non_null(before);
        memcpy(before, m->parameters.values, bytes);
        assert_int_equal(sia_trainer_step(t, 1, &r, &err), SIA_NUMBER);
        if (!strstr(err.text, cases[i].sentence)) fail_msg("%s", err.text);
        assert_memory_equal(before, m->parameters.values, bytes);
        sia_free(before);
        sia_trainer_destroy(t);
        sia_model_destroy(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overfits),   cmocka_unit_test(test_parts_of_a_batch),
        cmocka_unit_test(test_same_bits),  cmocka_unit_test(test_options),
        cmocka_unit_test(test_first_step), cmocka_unit_test(test_failed_step),
    };
    return cmocka_run_group_tests_name("trainer", tests, NULL, NULL);
}
