/* SPDX-License-Identifier: MIT
 *
 * Weights at the edges of float through the whole model, on every instruction set: training, a session with each
 * type of cache, sampling. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "optim/optimizer.h"
#include "problem.h"
#include "reference.h"

enum { LENGTH = 19, VOCABULARY = 37, WIDTH = 24, TOKEN = 5, AT = 4 };

typedef enum outcome { FINITE, NAN_FROM_TOKEN, NAN_EVERYWHERE } outcome;

/* What is done to the weights, and what losses follow. */
typedef struct weight_case {
    const char *name;
    sia_kind kind;
    float value;
    bool whole; /* the whole tensor (of an embedding: the row of TOKEN), else one number of it */
    outcome is;
} weight_case;

static const weight_case cases[] = {
    {"a token that is 0", SIA_KIND_EMBEDDING, 0, true, FINITE}, /* 0 under every norm */
    {"a token of 1e30", SIA_KIND_EMBEDDING, 1e30f, true, FINITE},
    {"a denormal token", SIA_KIND_EMBEDDING, 1e-41f, true, FINITE},
    {"a token with a number of 3e38", SIA_KIND_EMBEDDING, 3e38f, false, FINITE},
    {"queries of 0 under the norm", SIA_KIND_Q, 0, true, FINITE},
    {"keys of 0 under the norm", SIA_KIND_K, 0, true, FINITE},
    {"queries of 1e30", SIA_KIND_Q, 1e30f, true, FINITE},
    {"keys of 1e30", SIA_KIND_K, 1e30f, true, FINITE},
    {"denormal keys", SIA_KIND_K, 1e-41f, true, FINITE},
    {"values of 1e20", SIA_KIND_V, 1e20f, true, FINITE},
    {"a number of 1e10 in the MLP", SIA_KIND_IN, 1e10f, false, FINITE},
    {"a NaN in a token", SIA_KIND_EMBEDDING, NAN, false, NAN_FROM_TOKEN},
    {"an infinity in a token", SIA_KIND_EMBEDDING, INFINITY, false, NAN_FROM_TOKEN},
    {"a NaN in q", SIA_KIND_Q, NAN, false, NAN_EVERYWHERE},
    {"a NaN in k", SIA_KIND_K, NAN, false, NAN_EVERYWHERE},
    {"a NaN in v", SIA_KIND_V, NAN, false, NAN_EVERYWHERE},
    {"a NaN in o", SIA_KIND_O, NAN, false, NAN_EVERYWHERE},
    {"a NaN in the MLP", SIA_KIND_IN, NAN, false, NAN_EVERYWHERE},
    {"a NaN in the MLP's other half", SIA_KIND_OUT, NAN, false, NAN_EVERYWHERE},
    {"a NaN in the unembedding", SIA_KIND_UNEMBEDDING, NAN, false, NAN_EVERYWHERE},
    {"infinite values", SIA_KIND_V, INFINITY, true, NAN_EVERYWHERE},
};
enum { CASES = sizeof cases / sizeof *cases };

static const sia_model_config config = {.layers = 2,
                                        .width = WIDTH,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .head_dim = 16,
                                        .hidden = 40,
                                        .vocabulary = VOCABULARY,
                                        .train_len = LENGTH,
                                        .scheme = "si+prope",
                                        .seed = 6};

static sia_model *model_of(const weight_case *c) {
    sia_model *m = reference_model(&config, config.scheme, LENGTH, 1);
    for (int i = 0; i < m->parameters.count; i++) {
        sia_parameter *p = &m->parameters.list[i];
        if (p->kind != c->kind) continue;
        float *from = p->value + (c->kind == SIA_KIND_EMBEDDING ? TOKEN * WIDTH : 0);
        int64_t count = c->kind == SIA_KIND_EMBEDDING ? WIDTH : p->rows * p->columns;
        for (int64_t j = 0; c->whole && j < count; j++) from[j] = j % 3 == 1 ? -c->value : c->value;
        if (!c->whole) from[AT] = c->value;
        break; /* the first layer's */
    }
    return m;
}

/* TOKEN comes at position AT. */
static void fill(uint32_t ids[LENGTH], uint32_t targets[LENGTH]) {
    for (uint32_t i = 0; i < LENGTH; i++) {
        ids[i] = i == AT ? TOKEN : 6 + i;
        targets[i] = (7 * i) % VOCABULARY;
    }
}

static bool is_nan_at(const weight_case *c, int64_t i) {
    return c->is == NAN_EVERYWHERE || (c->is == NAN_FROM_TOKEN && i >= AT);
}

/* Loss and gradients, and what the optimiser says to them. */
static void training(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel)
        for (int i = 0; i < CASES; i++) {
            const weight_case *c = &cases[i];
            sia_model *m = model_of(c);
            sia_training *t;
            sia_error err;
            uint32_t ids[LENGTH], targets[LENGTH];
            double sum;
            int64_t scored;
            fill(ids, targets);
            assert_int_equal(sia_training_create(&t, m, 1, LENGTH, false, &err), SIA_OK);
            assert_int_equal(sia_model_pack(m, true, &err), SIA_OK);
            assert_int_equal(sia_training_run(t, ids, targets, 1.0f / LENGTH, false, &sum, &scored, &err),
                             SIA_OK);
            if (c->is == FINITE ? !isfinite(sum) : !isnan(sum))
                fail_msg("%s: %s: the loss is %g", kernel->name, c->name, sum);
            sia_optim_tensor tensors[32];
            for (int j = 0; j < m->parameters.count; j++) {
                const sia_parameter *p = &m->parameters.list[j];
                tensors[j] =
                    (sia_optim_tensor){p->name, p->value, p->gradient, p->rows, p->columns, p->group};
            }
            sia_optim_config optim = sia_optim_config_default();
            optim.threads = 1;
            sia_optimizer *o;
            assert_int_equal(sia_optimizer_create(&o, tensors, m->parameters.count, &optim, &err), SIA_OK);
            static float before[1 << 16];
            size_t bytes = (size_t)m->parameters.total * sizeof(float);
            assert_true(bytes <= sizeof before);
            memcpy(before, m->parameters.values, bytes);
            sia_status status = sia_optimizer_step(o, 0, 1, NULL, &err);
            if (status != (c->is == FINITE ? SIA_OK : SIA_NUMBER))
                fail_msg("%s: %s: the optimiser says %s", kernel->name, c->name, sia_status_name(status));
            if (status) assert_memory_equal(before, m->parameters.values, bytes);
            for (int64_t j = 0; !status && j < m->parameters.total; j++)
                assert_true(isfinite(m->parameters.values[j]));
            sia_optimizer_destroy(o);
            sia_training_destroy(t);
            sia_model_destroy(m);
        }
}

/* The same losses token by token, and logits that sampling takes or refuses. */
static void sessions(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel)
        for (int i = 0; i < CASES * 3; i++) {
            const weight_case *c = &cases[i / 3];
            sia_model *m = model_of(c);
            sia_session *s;
            sia_error err;
            uint32_t ids[LENGTH], targets[LENGTH], next;
            float losses[LENGTH], logits[VOCABULARY];
            fill(ids, targets);
            assert_int_equal(sia_session_create(&s, m, (sia_type)(i % 3), &err), SIA_OK);
            for (int64_t j = 0; j < LENGTH; j++) {
                assert_int_equal(sia_session_feed(s, ids + j, 1, targets + j, losses + j, logits, &err),
                                 SIA_OK);
                if (isnan(losses[j]) != is_nan_at(c, j) || isinf(losses[j]))
                    fail_msg("%s: %s: cache %d: loss %g at %lld", kernel->name, c->name, i % 3,
                             (double)losses[j], (long long)j);
            }
            sia_sampling sampling = {.temperature = i % 2};
            assert_int_equal(sia_sample(logits, VOCABULARY, &sampling, 0, &next, &err),
                             c->is == FINITE ? SIA_OK : SIA_NUMBER);
            sia_session_destroy(s);
            sia_model_destroy(m);
        }
}

/* The choice among logits at the edges. */
static void sampling_of_extremes(void **state) {
    (void)state;
    const float logits[] = {-3e38f, 3e38f, 3e38f, 0, 1e-40f};
    uint32_t id;
    sia_error err;
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(sia_sample(logits, 5, &(sia_sampling){.temperature = 1000}, i, &id, &err), SIA_OK);
        assert_true(id == 1 || id == 2);
        assert_int_equal(sia_sample(logits + 3, 2, &(sia_sampling){.temperature = 1e-300}, i, &id, &err),
                         SIA_OK);
        assert_true(id < 2);
    }
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        float one[3] = {0, bad[i], 1};
        assert_int_equal(sia_sample(one, 3, &(sia_sampling){0}, 0, &id, &err), SIA_NUMBER);
        assert_non_null(strstr(err.text, "token 1"));
        /* Beyond the limit nobody looks. */
        assert_int_equal(sia_sample(one, 3, &(sia_sampling){.limit = 1}, 0, &id, &err), SIA_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(training), cmocka_unit_test(sessions),
                                       cmocka_unit_test(sampling_of_extremes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
