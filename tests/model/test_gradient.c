/* SPDX-License-Identifier: MIT
 *
 * The gradient of the whole model against central differences of the float64 model of reference.c: every
 * scheme, every parameter tensor. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "larger.h"
#include "model/training.h"
#include "problem.h"
#include "reference.h"

enum { BATCH = 2, LENGTH = 23, TOKENS = BATCH * LENGTH, VOCABULARY = 37 };

/* Whether long stretches are not scored, at the start of the batch. */
static bool few_scored;

static void fill_batch(uint32_t *ids, uint32_t *targets) {
    for (int i = 0; i < TOKENS; i++) {
        ids[i] = (uint32_t)sia_random_below(1, (uint64_t)i, VOCABULARY);
        targets[i] = (uint32_t)sia_random_below(2, (uint64_t)i, VOCABULARY);
    }
    targets[3] = SIA_NO_TARGET; /* one that does not count */
    for (int i = 0; few_scored && i < TOKENS; i++)
        if (i < 30 || i > 43) targets[i] = SIA_NO_TARGET;
}

/* A model none of whose tensors is 0, so that every gradient is of some size. */
static sia_model *model_of(const char *scheme, int kv_heads, int threads) {
    sia_model_config config = {.layers = 2,
                               .width = 24,
                               .heads = 2,
                               .kv_heads = kv_heads,
                               .head_dim = 16,
                               .hidden = 40,
                               .vocabulary = VOCABULARY,
                               .train_len = 16,
                               .seed = 5};
    (void)snprintf(config.scheme, sizeof config.scheme, "%s", scheme);
    /* Beyond the training length ntk and yarn differ from rope. */
    return reference_model(&config, scheme, 64, threads);
}

static double run(sia_model *m, bool recompute, bool add, float scale) {
    uint32_t ids[TOKENS], targets[TOKENS];
    fill_batch(ids, targets);
    sia_training *t;
    sia_error err;
    double sum = 0;
    int64_t scored = 0;
    if (sia_training_create(&t, m, BATCH, LENGTH, recompute, &err) || sia_model_pack(m, true, &err) ||
        sia_training_run(t, ids, targets, scale, add, &sum, &scored, &err))
        fail_msg("%s", err.text);
    assert_int_equal(scored, few_scored ? 14 : TOKENS - 1);
    sia_training_destroy(t);
    return sum;
}

/* The largest difference over every `step`-th number of a tensor, over the largest gradient of the tensor. */
static double difference(const reference *r, int which) {
    uint32_t ids[TOKENS], targets[TOKENS];
    fill_batch(ids, targets);
    const sia_parameter *p = &r->m->parameters.list[which];
    int64_t count = p->rows * p->columns, step = count > 12 ? count / 12 : 1;
    double worst = 0, most = 0;
    const double h = 1e-5;
    for (int64_t i = 0; i < count; i++) most = larger(most, fabs((double)p->gradient[i]));
    for (int64_t i = 0; i < count; i += step) {
        double *x = &r->values[which][i], before = *x;
        *x = before + h;
        double up = reference_loss(r, BATCH, LENGTH, ids, targets, NULL);
        *x = before - h;
        double down = reference_loss(r, BATCH, LENGTH, ids, targets, NULL);
        *x = before;
        worst = larger(worst, fabs((up - down) / (2 * h) - p->gradient[i]));
    }
    return worst / most;
}

/* Losses by a pass without gradients, of `batch` sequences. */
static void forward_losses(sia_model *m, int64_t batch, const uint32_t *ids, const uint32_t *targets,
                           float *losses) {
    sia_training_plan plan = {.batch = batch, .length = LENGTH, .forward_only = true};
    sia_training *t;
    sia_error err;
    if (sia_training_plan_create(&t, m, &plan, &err) || sia_model_pack(m, false, &err) ||
        sia_training_losses(t, ids, targets, losses, &err))
        fail_msg("%s", err.text);
    sia_training_destroy(t);
}

static void gradients(void **state) {
    (void)state;
    const double bound = 5e-6;
    int which = 0;
    for (const char *const *scheme = sia_scheme_list(); *scheme; scheme++) {
        few_scored = which % 3 == 2;
        sia_model *m = model_of(*scheme, 1 + which++ % 2, 2);
        double loss = run(m, false, false, 1);
        reference r = reference_create(m);
        uint32_t ids[TOKENS], targets[TOKENS];
        fill_batch(ids, targets);
        double of_token[TOKENS], wanted = reference_loss(&r, BATCH, LENGTH, ids, targets, of_token),
                                 worst = 0;
        const char *name = "";
        for (int i = 0; i < sia_model_tensors(m); i++) {
            double error = difference(&r, i);
            if (!(error <= worst)) name = m->parameters.list[i].name;
            worst = larger(worst, error);
        }
        printf("%-12s loss %.1e  gradients of %d tensors %.1e (%s)  bound %.0e\n", *scheme,
               fabs(loss - wanted) / wanted, sia_model_tensors(m), worst, name, bound);
        assert_true(fabs(loss - wanted) / wanted < 1e-6 && worst < bound);
        float alone[TOKENS] = {0};
        forward_losses(m, BATCH, ids, targets, alone);
        for (int i = 0; i < TOKENS; i++) assert_true(fabs(alone[i] - of_token[i]) <= 2e-6 * of_token[i]);
        reference_destroy(&r);
        sia_model_destroy(m);
    }
    few_scored = false;
}

/* Recomputation, threads and two halves of a gradient change nothing, or only what they must. */
static void same_bits(void **state) {
    (void)state;
    sia_model *one = model_of("logn+rope", 2, 1);
    double loss = run(one, false, false, 1);
    size_t bytes =
        (size_t)(sia_unembedding(&one->parameters)->gradient - one->parameters.gradients) * sizeof(float);
    for (int threads = 1; threads <= 3; threads++)
        for (int recompute = 0; recompute < 2; recompute++) {
            sia_model *other = model_of("logn+rope", 2, threads);
            assert_true(run(other, recompute, false, 1) == loss);
            assert_memory_equal(one->parameters.gradients, other->parameters.gradients, bytes);
            sia_model_destroy(other);
        }
    sia_model *halves = model_of("logn+rope", 2, 2);
    (void)run(halves, false, false, 0.5f);
    (void)run(halves, false, true, 0.5f);
    for (int i = 0; i < sia_model_tensors(one); i++) {
        const sia_parameter *a = &one->parameters.list[i], *b = &halves->parameters.list[i];
        for (int64_t j = 0; j < a->rows * a->columns; j++)
            assert_true(fabsf(a->gradient[j] - b->gradient[j]) <= 1e-5f * (1 + fabsf(a->gradient[j])));
    }
    sia_model_destroy(halves);
    sia_model_destroy(one);
}

/* Adds up the losses and gradients of `count` sequences, so many of them at a time. */
static double by_sequences(sia_model *m, const uint32_t *ids, const uint32_t *targets, int count,
                           int at_a_time) {
    sia_training *t;
    sia_error err;
    double sum, all = 0;
    int64_t scored;
    if (sia_training_create(&t, m, at_a_time, LENGTH, false, &err) || sia_model_pack(m, true, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < count; i += at_a_time, all += sum)
        if (sia_training_run(t, ids + i * LENGTH, targets + i * LENGTH, 1, i > 0, &sum, &scored, &err))
            fail_msg("%s", err.text);
    sia_training_destroy(t);
    return all;
}

/* A batch of more tokens than a block of the loss has is the sum of its sequences, which have fewer. */
static void blocks_of_a_batch(void **state) {
    (void)state;
    enum { SEQUENCES = 9 };
    uint32_t ids[SEQUENCES * LENGTH], targets[SEQUENCES * LENGTH];
    _Static_assert(SEQUENCES * LENGTH > 2 * SIA_BLOCK_ROWS && (int)LENGTH < (int)SIA_BLOCK_ROWS,
                   "several blocks, and one");
    for (uint64_t i = 0; i < SEQUENCES * LENGTH; i++) {
        ids[i] = (uint32_t)sia_random_below(3, i, VOCABULARY);
        targets[i] = (uint32_t)sia_random_below(4, i, VOCABULARY);
    }
    sia_model *whole = model_of("si+prope", 2, 2), *parts = model_of("si+prope", 2, 2);
    double sum = by_sequences(whole, ids, targets, SEQUENCES, SEQUENCES);
    assert_true(fabs(by_sequences(parts, ids, targets, SEQUENCES, 1) - sum) < 1e-6 * sum);
    for (int i = 0; i < sia_model_tensors(whole); i++) {
        const sia_parameter *a = &whole->parameters.list[i], *b = &parts->parameters.list[i];
        for (int64_t j = 0; j < a->rows * a->columns; j++)
            assert_true(fabsf(a->gradient[j] - b->gradient[j]) <= 1e-5f * (1 + fabsf(a->gradient[j])));
    }
    sia_model_destroy(whole);
    sia_model_destroy(parts);
}

/* A vocabulary so large that the logits of a batch are made in several chunks: each loss is what it is in its sequence
 * alone, which is one chunk, and so is the gradient. */
static void chunks_of_a_batch(void **state) {
    (void)state;
    enum { SEQUENCES = 5, MANY = 200000, ALL = SEQUENCES * LENGTH };
    sia_model_config config = {
        .layers = 1, .width = 8, .heads = 1, .head_dim = 8, .hidden = 8, .vocabulary = MANY, .train_len = 32};
    (void)snprintf(config.scheme, sizeof config.scheme, "si");
    assert_true(LENGTH < sia_loss_rows(&config) && sia_loss_rows(&config) * 3 < ALL);
    sia_model *whole = reference_model(&config, "si", 32, 2), *parts = reference_model(&config, "si", 32, 2);
    uint32_t ids[ALL], targets[ALL];
    float together[ALL] = {0}, alone[ALL] = {0};
    for (uint64_t i = 0; i < ALL; i++) {
        ids[i] = (uint32_t)sia_random_below(5, i, MANY);
        targets[i] = i % 11 == 4 ? SIA_NO_TARGET : (uint32_t)sia_random_below(6, i, MANY);
    }
    forward_losses(whole, SEQUENCES, ids, targets, together);
    for (int i = 0; i < ALL; i += LENGTH) forward_losses(whole, 1, ids + i, targets + i, alone + i);
    double sum = 0;
    for (int i = 0; i < ALL; i++) {
        assert_true(targets[i] == SIA_NO_TARGET ? together[i] == 0 : together[i] > 0);
        assert_true(fabsf(together[i] - alone[i]) <= 2e-6f * alone[i]);
        sum += together[i];
    }
    assert_true(fabs(by_sequences(whole, ids, targets, SEQUENCES, SEQUENCES) - sum) < 1e-6 * sum);
    assert_true(fabs(by_sequences(parts, ids, targets, SEQUENCES, 1) - sum) < 1e-6 * sum);
    for (int i = 0; i < sia_model_tensors(whole); i++) {
        const sia_parameter *a = &whole->parameters.list[i], *b = &parts->parameters.list[i];
        for (int64_t j = 0; j < a->rows * a->columns; j++)
            if (!(fabsf(a->gradient[j] - b->gradient[j]) <= 1e-5f * (1 + fabsf(a->gradient[j]))))
                fail_msg("%s: %lld", a->name, (long long)j);
    }
    sia_model_destroy(whole);
    sia_model_destroy(parts);
}

/* A weight of more columns than a block of a gradient has. */
static void blocks_of_columns(void **state) {
    (void)state;
    sia_model_config config = {.layers = 1,
                               .width = 16,
                               .heads = 1,
                               .head_dim = 16,
                               .hidden = 2 * SIA_GRADIENT_COLUMNS + 40,
                               .vocabulary = VOCABULARY,
                               .train_len = 32,
                               .seed = 8};
    (void)snprintf(config.scheme, sizeof config.scheme, "si");
    sia_model *m = reference_model(&config, "si", 32, 2);
    (void)run(m, false, false, 1);
    reference r = reference_create(m);
    for (int i = 0; i < sia_model_tensors(m); i++)
        if (m->parameters.list[i].columns == config.hidden) assert_true(difference(&r, i) < 5e-6);
    reference_destroy(&r);
    sia_model_destroy(m);
}

/* A batch in which nothing is scored has no gradient, whatever was there before. */
static void nothing_scored(void **state) {
    (void)state;
    sia_model *m = model_of("si+prope", 2, 2);
    (void)run(m, false, false, 1);
    uint32_t ids[TOKENS], targets[TOKENS];
    fill_batch(ids, targets);
    for (int i = 0; i < TOKENS; i++) targets[i] = SIA_NO_TARGET;
    assert_true(by_sequences(m, ids, targets, BATCH, BATCH) == 0);
    for (int i = 0; i < sia_model_tensors(m); i++) {
        const sia_parameter *p = &m->parameters.list[i];
        for (int64_t j = 0; j < p->rows * p->columns; j++) assert_true(p->gradient[j] == 0);
    }
    sia_model_destroy(m);
}

static void each_instruction_set(void **state) {
    (void)state;
    double first = 0;
    FOR_EACH_ISA (kernel) {
        sia_model *m = model_of("si+prope", 2, 2);
        double loss = run(m, false, false, 1);
        printf("%-8s loss %.6f\n", kernel->name, loss);
        if (first == 0) first = loss;
        assert_true(fabs(loss - first) < 1e-5 * first);
        sia_model_destroy(m);
    }
}

/* A new model knows nothing: its loss is ln(vocabulary). */
static void first_loss(void **state) {
    (void)state;
    for (const char *const *preset = sia_model_presets(); strncmp(*preset, "paper", 5) != 0; preset++) {
        sia_model_config config;
        sia_model *m;
        sia_training *t;
        sia_error err;
        uint32_t ids[64], targets[64];
        double sum = 0;
        int64_t scored = 0;
        assert_int_equal(sia_model_preset(*preset, &config, &err), SIA_OK);
        if (sia_model_create(&m, &config, 2, &err)) fail_msg("%s", err.text);
        for (uint32_t i = 0; i < 64; i++)
            ids[i] = i * 7 % config.vocabulary, targets[i] = i * 3 % config.vocabulary;
        if (sia_training_create(&t, m, 1, 64, false, &err) || sia_model_pack(m, true, &err) ||
            sia_training_run(t, ids, targets, 1, false, &sum, &scored, &err))
            fail_msg("%s", err.text);
        printf("%-8s %lld parameters, first loss %.6f, ln(vocabulary) %.6f\n", *preset,
               (long long)sia_model_size(m), sum / 64, log(config.vocabulary));
        assert_true(fabs(sum / 64 - log(config.vocabulary)) < 1e-3);
        sia_training_destroy(t);
        sia_model_destroy(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients),
                                       cmocka_unit_test(same_bits),
                                       cmocka_unit_test(blocks_of_a_batch),
                                       cmocka_unit_test(chunks_of_a_batch),
                                       cmocka_unit_test(nothing_scored),
                                       cmocka_unit_test(blocks_of_columns),
                                       cmocka_unit_test(each_instruction_set),
                                       cmocka_unit_test(first_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
