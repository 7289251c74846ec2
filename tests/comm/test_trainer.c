/* SPDX-License-Identifier: MIT
 *
 * Steps of training on ranks that are threads: the losses and the states of one process, for batches and sequences that
 * the ranks do not divide; each state with one owner; states that move to another number of ranks. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/random.h"
#include "larger.h"
#include "threads.h"
#include "train/checkpoint.h"
#include "train/gather.h"
#include "train/train.h"

enum { BATCH = 5, LENGTH = 27, VOCABULARY = 64, STEPS = 8 };

typedef struct job {
    const char *scheme;
    int together;
    int64_t micro_batch;
    int64_t first, last; /* steps */
    float *given;        /* states to begin with, or NULL; and weights */
    const float *weights_given;
    double loss[MOST_RANKS][STEPS];
    float *states, *weights; /* rank 0's, in the end */
    int64_t state_floats, weight_floats;
    int64_t state_bytes[MOST_RANKS];
    sia_error said[MOST_RANKS];
    _Atomic int failed;
} job;

static sia_settings settings_of(const job *j) {
    sia_settings s;
    if (sia_settings_preset(&s, "tiny", NULL)) abort();
    s.model.layers = 2;
    s.model.width = 48;
    s.model.heads = 2;
    s.model.vocabulary = VOCABULARY;
    s.model.train_len = LENGTH;
    (void)snprintf(s.model.scheme, sizeof s.model.scheme, "%s", j->scheme);
    s.training.batch = BATCH;
    s.training.micro_batch = j->micro_batch;
    s.training.steps = STEPS;
    s.training.clip = 0.5;
    if (sia_settings_complete(&s, NULL)) abort();
    return s;
}

/* Some targets are left out, and not as many in each sequence. */
static sia_status some_batch(void *context, int64_t step, uint32_t *ids, uint32_t *targets, sia_error *err) {
    (void)context, (void)err;
    for (uint64_t i = 0; i < BATCH * LENGTH; i++) {
        ids[i] = (uint32_t)sia_random_below((uint64_t)step + 5, i, VOCABULARY);
        targets[i] = (ids[i] + 1) % VOCABULARY;
        if (i % LENGTH < i / LENGTH) targets[i] = SIA_NO_TARGET;
    }
    return SIA_OK;
}

static int64_t floats_of(const sia_optimizer *o) {
    int64_t count, floats = 0;
    const sia_optim_state *states = sia_optimizer_states(o, &count);
    for (int64_t i = 0; i < count; i++) floats += states[i].rows * states[i].columns;
    return floats;
}

static void keep_weights(job *j, const sia_model *m) {
    float *at = j->weights = malloc((size_t)sia_model_size(m) * sizeof(float));
    j->weight_floats = sia_model_size(m);
    for (int i = 0; i < sia_model_tensors(m); i++) {
        sia_tensor t = sia_model_tensor(m, i);
        memcpy(at, t.value, (size_t)(t.rows * t.columns) * sizeof(float));
        at += t.rows * t.columns;
    }
}

static void set_weights(const job *j, const sia_model *m) {
    const float *at = j->weights_given;
    for (int i = 0; i < sia_model_tensors(m); i++) {
        sia_tensor t = sia_model_tensor(m, i);
        memcpy(t.value, at, (size_t)(t.rows * t.columns) * sizeof(float));
        at += t.rows * t.columns;
    }
}

/* One process has them where they are. */
static void keep_states(job *j, sia_comm *c, sia_optimizer *o, sia_error *err) {
    float *whole;
    if (sia_states_collect(c, o, &whole, err)) {
        j->failed++;
        return;
    }
    if (sia_comm_rank(c) != 0) return;
    j->state_floats = floats_of(o);
    if (j->state_floats < 1) {
        j->failed++;
        return;
    }
    int64_t count;
    const sia_optim_state *states = sia_optimizer_states(o, &count);
    float *at = j->states = malloc((size_t)j->state_floats * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        memcpy(at, sia_state_at(o, whole, i), (size_t)(states[i].rows * states[i].columns) * sizeof(float));
        at += states[i].rows * states[i].columns;
    }
    sia_free(whole);
}

static sia_status resume(const job *j, sia_comm *c, sia_model *m, sia_optimizer *o, sia_error *err) {
    if (sia_comm_rank(c) == 0) set_weights(j, m);
    sia_status status = sia_weights_spread(c, m, err);
    if (sia_comm_size(c) > 1) return status ? status : sia_states_deal(c, o, j->given, err);
    int64_t count;
    const sia_optim_state *states = sia_optimizer_states(o, &count);
    const float *at = j->given;
    for (int64_t i = 0; i < count; at += states[i].rows * states[i].columns, i++)
        memcpy(states[i].data, at, (size_t)(states[i].rows * states[i].columns) * sizeof(float));
    return status;
}

static void rank_work(sia_comm *c, void *context) {
    job *j = context;
    int rank = sia_comm_rank(c);
    sia_error *err = &j->said[rank];
    sia_settings s = settings_of(j);
    sia_model *m;
    sia_trainer *t = NULL;
    sia_status status = sia_model_create(&m, &s.model, 1, err);
    if (!status)
        status =
            sia_trainer_create_ranks(&t, m, &s, some_batch, NULL, (sia_trainer_ranks){c, j->together}, err);
    if (!status && j->given) status = resume(j, c, m, sia_trainer_optimizer(t), err);
    for (int64_t step = j->first; !status && step < j->last; step++) {
        sia_step_result r;
        status = sia_trainer_step(t, step, &r, err);
        j->loss[rank][step] = r.loss;
    }
    if (!status) {
        j->state_bytes[rank] = (int64_t)sia_optimizer_bytes(sia_trainer_optimizer(t));
        keep_states(j, c, sia_trainer_optimizer(t), err);
        if (rank == 0) keep_weights(j, m);
    } else {
        j->failed++;
    }
    sia_trainer_destroy(t);
    sia_model_destroy(m);
}

static job train(int ranks, job j) {
    run_ranks(ranks, 60, rank_work, &j);
    for (int r = 0; j.failed && r < ranks; r++) print_error("rank %d: %s\n", r, j.said[r].text);
    assert_int_equal(j.failed, 0);
    for (int64_t step = j.first; step < j.last; step++)
        for (int r = 1; r < ranks; r++) assert_true(j.loss[r][step] == j.loss[0][step]);
    return j;
}

static void release(job *j) {
    free(j->states);
    free(j->weights);
}

static double difference(const float *x, const float *y, int64_t count) {
    double most = 0, error = 0;
    for (int64_t i = 0; i < count; i++) {
        most = larger(most, fabs((double)x[i]));
        error = larger(error, fabs((double)x[i] - (double)y[i]));
    }
    return error / most;
}

static void as_one_process(void **state) {
    (void)state;
    const struct {
        const char *scheme;
        int ranks, together;
        int64_t micro_batch;
    } cases[] = {{"si+prope", 2, 1, 5}, {"si+prope", 3, 1, 1}, {"logn+rope", 5, 1, 1}, {"logn+rope", 2, 2, 5},
                 {"alibi", 6, 3, 5},    {"logn+ntk", 4, 2, 1}, {"nope", 8, 2, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job base = {.scheme = cases[i].scheme, .micro_batch = cases[i].micro_batch, .last = STEPS};
        job one = train(1, base);
        base.together = cases[i].together;
        job all = train(cases[i].ranks, base), again = train(cases[i].ranks, base);
        double worst = 0;
        int64_t bytes = 0;
        for (int step = 0; step < STEPS; step++)
            worst = larger(worst, fabs(one.loss[0][step] - all.loss[0][step]) / one.loss[0][step]);
        for (int r = 0; r < cases[i].ranks; r++) bytes += all.state_bytes[r];
        double states = difference(one.states, all.states, one.state_floats);
        print_message("%s, %d ranks, %d together: losses %.1e (1e-05), states %.1e (1e-04)\n",
                      cases[i].scheme, cases[i].ranks, cases[i].together, worst, states);
        assert_true(worst <= 1e-5 && states <= 1e-4);
        /* Each state once, up to the rounding of parts to whole cache lines. */
        assert_true(bytes >= one.state_floats * 4 && bytes <= one.state_bytes[0] + 64 * 4 * cases[i].ranks);
        assert_memory_equal(all.states, again.states, (size_t)all.state_floats * sizeof(float));
        assert_memory_equal(all.weights, again.weights, (size_t)all.weight_floats * sizeof(float));
        release(&one);
        release(&all);
        release(&again);
    }
}

/* Half of the steps on some ranks, the other half on others. */
static void moved(void **state) {
    (void)state;
    const int numbers[][2] = {{1, 3}, {3, 1}, {2, 5}, {5, 2}};
    job base = {.scheme = "logn+rope", .micro_batch = 1, .last = STEPS};
    job one = train(1, base);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        job half = base, rest = base;
        half.last = rest.first = STEPS / 2;
        half = train(numbers[i][0], half);
        rest.given = half.states;
        rest.weights_given = half.weights;
        rest = train(numbers[i][1], rest);
        for (int step = STEPS / 2; step < STEPS; step++)
            assert_true(fabs(one.loss[0][step] - rest.loss[0][step]) <= 1e-5 * one.loss[0][step]);
        assert_true(difference(one.states, rest.states, one.state_floats) <= 1e-4);
        release(&half);
        release(&rest);
    }
    release(&one);
}

static void expect_failure(sia_comm *c, void *context) {
    job *j = context;
    sia_settings s = settings_of(j);
    sia_model *m;
    sia_trainer *t;
    sia_error *err = &j->said[sia_comm_rank(c)];
    if (sia_model_create(&m, &s.model, 1, err)) abort();
    if (sia_trainer_create_ranks(&t, m, &s, some_batch, NULL, (sia_trainer_ranks){c, j->together}, err) !=
        SIA_ARGUMENT)
        j->failed++;
    sia_model_destroy(m);
}

static void refusals(void **state) {
    (void)state;
    job few = {.scheme = "nope", .micro_batch = 5, .together = 1};
    run_ranks(6, 60, expect_failure, &few);
    assert_int_equal(few.failed, 0);
    assert_string_equal(few.said[0].text, "a batch of 5 sequences on 6 ranks: want one each at least");
    job odd = {.scheme = "nope", .micro_batch = 5, .together = 2};
    run_ranks(3, 60, expect_failure, &odd);
    assert_int_equal(odd.failed, 0);
    assert_string_equal(odd.said[0].text, "context parallel 2 on 3 ranks: want a divisor of their number");
}

/* ------------------------------------------------------------------------------------------------ whole runs */

typedef struct texts {
    sia_tokenizer *tokenizer;
    const char *folder;
    bool other;     /* the last rank has another text */
    bool other_val; /* and to validate on */
    bool stopped;   /* rank 0 asks to stop when a validation begins */
    int together;
    sia_status status[MOST_RANKS];
    sia_error said[MOST_RANKS];
} texts;

static int stop_validation(void *context, const sia_train_event *event) {
    (void)context;
    return event->kind == SIA_TRAIN_VALIDATING;
}

static void run_of_rank(sia_comm *c, void *context) {
    texts *t = context;
    int rank = sia_comm_rank(c);
    sia_settings s = settings_of(&(job){.scheme = "si+prope", .micro_batch = 5});
    s.model.vocabulary = 320;
    s.training.multiples[1] = 0;
    s.training.eval_windows = 2;
    sia_train_data data = {.tokenizer = t->tokenizer, .description = json_pack("{s:s}", "kind", "generated")};
    uint64_t seed = t->other && rank == sia_comm_size(c) - 1 ? 2 : 1;
    if (sia_corpus_generate(&data.train, t->tokenizer, seed, 0, 2, 400, 1, NULL)) abort();
    uint64_t val_seed = t->other_val && rank == sia_comm_size(c) - 1 ? 4 : 3;
    if (sia_corpus_generate(&data.val, t->tokenizer, val_seed, 100, 2, 400, 1, NULL)) abort();
    sia_train_job run = {.folder = t->folder,
                         .settings = &s,
                         .data = &data,
                         .threads = 1,
                         .comm = c,
                         .together = t->together,
                         .hook = t->stopped && rank == 0 ? stop_validation : NULL};
    t->status[rank] = sia_train(&run, &t->said[rank]);
    sia_corpus_close(data.train);
    sia_corpus_close(data.val);
    json_decref(data.description);
}

/* Ranks that see another text are refused; rank 0 alone writes. */
static void whole_runs(void **state) {
    (void)state;
    char folder[] = "/tmp/sia-test-XXXXXX", refused[64], run[64], stopped[64], command[128];
    static const char words[] =
        "a text of some words that are merged, some words of a text that are merged again";
    texts t = {.other = true, .folder = refused};
    sia_tokenizer_training training = {.size = 270};
    sia_text text = {words, sizeof words - 1};
    assert_int_equal(sia_tokenizer_train(&t.tokenizer, &training, &text, 1, &t.said[0]), SIA_OK);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(refused, sizeof refused, "%s/refused", folder);
    (void)snprintf(run, sizeof run, "%s/run", folder);
    (void)snprintf(stopped, sizeof stopped, "%s/stopped", folder);
    run_ranks(3, 60, run_of_rank, &t);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(t.status[r], SIA_ARGUMENT);
        assert_string_equal(t.said[r].text, "rank 2: its text to train on is not that of rank 0");
    }
    t.other = false;
    t.other_val = true;
    run_ranks(3, 60, run_of_rank, &t);
    assert_string_equal(t.said[1].text, "rank 2: its text to validate on is not that of rank 0");
    t.other_val = false;
    t.folder = run;
    run_ranks(3, 60, run_of_rank, &t);
    for (int r = 0; r < 3; r++)
        if (t.status[r]) fail_msg("rank %d: %s", r, t.said[r].text);
    sia_checkpoint *c;
    assert_int_equal(sia_checkpoint_open(&c, run, STEPS, false, &t.said[0]), SIA_OK);
    sia_checkpoint_close(c);
    /* One rank of those that share a sequence wants to stop: all do, and the step that is validated is there. */
    t.folder = stopped;
    t.stopped = true;
    t.together = 3;
    run_ranks(3, 60, run_of_rank, &t);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(t.status[r], SIA_STOPPED);
        assert_string_equal(t.said[r].text, "stopped");
    }
    assert_int_equal(sia_checkpoint_open(&c, stopped, STEPS, false, &t.said[0]), SIA_OK);
    sia_checkpoint_close(c);
    sia_tokenizer_close(t.tokenizer);
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_one_process), cmocka_unit_test(moved),
                                       cmocka_unit_test(refusals), cmocka_unit_test(whole_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
