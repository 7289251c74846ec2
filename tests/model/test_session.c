/* SPDX-License-Identifier: MIT
 *
 * A text through the KV cache against the float64 model, in chunks of all sizes; and the choice of tokens. */
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "larger.h"
#include "model/session.h"
#include "model/tap.h"
#include "model/validation.h"
#include "problem.h"
#include "reference.h"

enum { LENGTH = 80, VOCABULARY = 61 };

static sia_model *model_of(const char *scheme, int threads) {
    sia_model_config config = {.layers = 2,
                               .width = 40,
                               .heads = 2,
                               .kv_heads = 1,
                               .head_dim = 24,
                               .hidden = 72,
                               .vocabulary = VOCABULARY,
                               .train_len = 32,
                               .seed = 9};
    (void)snprintf(config.scheme, sizeof config.scheme, "%s", scheme);
    return reference_model(&config, scheme, LENGTH, threads);
}

static void text_of(uint32_t ids[LENGTH], uint32_t targets[LENGTH]) {
    for (int i = 0; i < LENGTH; i++) ids[i] = (uint32_t)sia_random_below(1, (uint64_t)i, VOCABULARY);
    for (int i = 0; i < LENGTH; i++) targets[i] = i + 1 < LENGTH ? ids[i + 1] : 0;
}

/* Feeds the text in pieces of `piece` tokens. */
static void feed(sia_session *s, int piece, float losses[LENGTH], float logits[VOCABULARY]) {
    uint32_t ids[LENGTH], targets[LENGTH];
    sia_error err;
    text_of(ids, targets);
    for (int at = 0; at < LENGTH; at += piece)
        if (sia_session_feed(s, ids + at, at + piece <= LENGTH ? piece : LENGTH - at, targets + at,
                             losses + at, logits, &err))
            fail_msg("%s", err.text);
    assert_int_equal(sia_session_length(s), LENGTH);
}

static void against_reference(void **state) {
    (void)state;
    const struct {
        sia_type type;
        const char *name;
        double bound;
    } types[] = {{SIA_F32, "f32", 1e-5}, {SIA_F16, "f16", 3e-3}, {SIA_I8, "int8", 6e-2}};
    const int pieces[] = {LENGTH, 33, 7, 1};
    for (const char *const *scheme = sia_scheme_list(); *scheme; scheme++) {
        sia_model *m = model_of(*scheme, 2);
        reference r = reference_create(m);
        uint32_t ids[LENGTH], targets[LENGTH];
        double wanted[LENGTH];
        text_of(ids, targets);
        (void)reference_loss(&r, 1, LENGTH, ids, targets, wanted);
        printf("%-12s", *scheme);
        for (size_t type = 0; type < sizeof types / sizeof *types; type++)
            for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
                sia_session *s;
                sia_error err;
                float losses[LENGTH], logits[VOCABULARY];
                if (sia_session_create(&s, m, types[type].type, &err)) fail_msg("%s", err.text);
                feed(s, pieces[p], losses, logits);
                double worst = 0, sum = 0;
                for (int i = 0; i < LENGTH; i++) worst = larger(worst, fabs(losses[i] - wanted[i]));
                for (int i = 0; i < VOCABULARY; i++) sum += exp((double)logits[i]);
                double last = log(sum) - (double)logits[targets[LENGTH - 1]];
                worst = larger(worst, fabs(last - wanted[LENGTH - 1]));
                if (p == 0) printf("  %s", types[type].name);
                printf(" %.0e", worst);
                assert_true(worst < types[type].bound);
                sia_session_destroy(s);
            }
        putchar('\n');
        reference_destroy(&r);
        sia_model_destroy(m);
    }
}

static void threads_and_truncation(void **state) {
    (void)state;
    float first[LENGTH], again[LENGTH], logits[2][VOCABULARY];
    for (int threads = 1; threads <= 3; threads++) {
        sia_model *m = model_of("si+prope", threads);
        sia_session *s;
        sia_error err;
        if (sia_session_create(&s, m, SIA_F32, &err)) fail_msg("%s", err.text);
        feed(s, 9, again, logits[1]);
        if (threads == 1) {
            memcpy(first, again, sizeof first);
            memcpy(logits[0], logits[1], sizeof logits[0]);
        }
        assert_memory_equal(first, again, sizeof first);
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
        assert_int_equal(sia_session_truncate(s, 0, &err), SIA_OK);
        feed(s, 9, again, logits[1]);
        assert_memory_equal(first, again, sizeof first);
        assert_int_equal(sia_session_truncate(s, LENGTH + 1, &err), SIA_ARGUMENT);
        uint32_t outside = VOCABULARY;
        assert_int_equal(sia_session_feed(s, &outside, 1, NULL, NULL, NULL, &err), SIA_ARGUMENT);
        assert_string_equal(err.text, "input 0 is token 61: the vocabulary ends at 61");
        assert_int_equal(sia_session_length(s), LENGTH);
        sia_session_destroy(s);
        sia_model_destroy(m);
    }
}

static void schemes_that_fit(void **state) {
    (void)state;
    const struct {
        const char *trained, *wanted;
        sia_status status;
    } cases[] = {{"rope", "rope+ntk", SIA_OK},         {"rope", "yarn", SIA_OK},
                 {"logn+rope", "logn+ntk", SIA_OK},    {"rope", "prope", SIA_SCHEME},
                 {"rope", "logn+rope", SIA_SCHEME},    {"prope", "si+prope", SIA_SCHEME},
                 {"si+prope", "si+prope", SIA_OK},     {"nope", "rope", SIA_SCHEME},
                 {"rope", "no such word", SIA_SCHEME}, {"rope+ntk", "rope", SIA_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_model *m = model_of(cases[i].trained, 1);
        assert_int_equal(sia_model_set_scheme(m, cases[i].wanted, 128, NULL), cases[i].status);
        sia_model_destroy(m);
    }
}

/* Caches borrow the attention that another scheme would replace. */
static void scheme_under_sessions(void **state) {
    (void)state;
    sia_error err;
    sia_session *s[2], *none;
    float before[LENGTH], after[LENGTH], logits[VOCABULARY];
    sia_model *m = model_of("rope", 1);
    assert_int_equal(sia_session_create(&none, m, (sia_type)9, &err),
                     SIA_ARGUMENT); /* is not one that is open */
    for (int i = 0; i < 2; i++)
        if (sia_session_create(&s[i], m, SIA_F32, &err)) fail_msg("%s", err.text);
    feed(s[0], 9, before, logits);
    static const char *const sentences[] = {"model: 2 sessions open: want none for another scheme",
                                            "model: 1 session open: want none for another scheme"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sia_model_set_scheme(m, "rope+ntk", 128, &err), SIA_ARGUMENT);
        assert_string_equal(err.text, sentences[i]);
        assert_int_equal(sia_session_truncate(s[i], 0, &err), SIA_OK);
        feed(s[i], 9, after, logits);
        assert_memory_equal(before, after, sizeof before);
        sia_session_destroy(s[i]);
    }
    assert_int_equal(sia_model_set_scheme(m, "rope+ntk", 128, &err), SIA_OK);
    sia_model_destroy(m);
}

/* How often each token is drawn, against its probability. */
static void sampling(void **state) {
    (void)state;
    const float logits[5] = {0, 1, 2, 1, -1};
    const struct {
        sia_sampling s;
        double wanted[5];
    } cases[] = {
        {{.temperature = 0}, {0, 0, 1, 0, 0}},
        {{.temperature = 1, .top_k = 1}, {0, 0, 1, 0, 0}},
        {{.temperature = 1}, {1, exp(1), exp(2), exp(1), exp(-1)}},
        {{.temperature = 0.5}, {1, exp(2), exp(4), exp(2), exp(-2)}},
        {{.temperature = 1, .top_k = 2}, {0, exp(1), exp(2), 0, 0}}, /* of equal ones the smaller id */
        {{.temperature = 1, .top_p = 0.5}, {0, 0, 1, 0, 0}},
        {{.temperature = 1, .top_p = 0.6}, {0, exp(1), exp(2), 0, 0}},
        {{.temperature = 1, .limit = 2}, {1, exp(1), 0, 0, 0}},
        {{.temperature = 0, .limit = 2}, {0, 1, 0, 0, 0}},
        {{.temperature = 1, .limit = 1}, {1, 0, 0, 0, 0}},
        {{.temperature = 1000}, {1, exp(1e-3), exp(2e-3), exp(1e-3), exp(-1e-3)}},
    };
    enum { DRAWS = 20000 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int count[5] = {0};
        double sum = 0;
        for (uint64_t n = 0; n < DRAWS; n++) {
            uint32_t id;
            sia_error err;
            if (sia_sample(logits, 5, &cases[i].s, n, &id, &err)) fail_msg("%s", err.text);
            count[id]++;
        }
        for (int j = 0; j < 5; j++) sum += cases[i].wanted[j];
        for (int j = 0; j < 5; j++) {
            double p = cases[i].wanted[j] / sum, error = sqrt(p * (1 - p) / DRAWS);
            assert_true(fabs((double)count[j] / DRAWS - p) <= 4.5 * error);
        }
    }
    uint32_t id;
    const float broken[3] = {0, NAN, 0};
    for (int i = 0; i < 2; i++) /* the last, the first */
        assert_int_equal(sia_sample(broken + i, 2, &(sia_sampling){.temperature = 1}, 0, &id, NULL),
                         SIA_NUMBER);
    assert_int_equal(sia_sample(logits, 5, &(sia_sampling){.temperature = -1}, 0, &id, NULL), SIA_ARGUMENT);
    assert_int_equal(sia_sample(logits, 5, &(sia_sampling){.top_p = 1.5}, 0, &id, NULL), SIA_ARGUMENT);
    assert_int_equal(sia_sample(logits, 5, &(sia_sampling){.limit = 6}, 0, &id, NULL), SIA_ARGUMENT);
}

static void types(void **state) {
    (void)state;
    static const struct {
        const char *name;
        sia_type type;
    } names[] = {{"f32", SIA_F32}, {"f16", SIA_F16}, {"int8", SIA_I8}};
    sia_type type;
    sia_error err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(sia_type_parse(names[i].name, &type, &err), SIA_OK);
        assert_int_equal(type, names[i].type);
    }
    assert_int_equal(sia_type_parse("int4", &type, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "cache 'int4': want f32, f16 or int8");
}

static const float *by_these;
static int by_logit(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (by_these[x] != by_these[y]) return by_these[x] > by_these[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The definition: tokens sorted by their logits, cut, and the one at which the sum of probabilities passes the number. */
static uint32_t sample_by_sorting(const float *logits, uint32_t count, const sia_sampling *s,
                                  uint64_t index) {
    uint32_t order[600] = {0}, kept = 0, most = s->top_k && s->top_k < count ? (uint32_t)s->top_k : count;
    double p[600] = {0}, whole = 0, sum = 0, at = 0;
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    by_these = logits;
    qsort(order, count, sizeof *order, by_logit);
    for (uint32_t i = 0; i < most; i++) {
        p[i] = exp((double)(logits[order[i]] - logits[order[0]]) / s->temperature);
        whole += p[i];
    }
    while (kept < most && (kept == 0 || s->top_p == 0 || sum < s->top_p * whole)) sum += p[kept++];
    double wanted = sia_random_uniform(s->seed, index) * sum;
    for (uint32_t i = 0; i < kept; i++)
        if ((at += p[i]) > wanted) return order[i];
    return order[kept - 1];
}

static void sample_is_the_sorted_one(void **state) {
    (void)state;
    static const sia_sampling cases[] = {
        {.temperature = 1, .seed = 1},
        {.temperature = 100, .seed = 2}, /* so far that the last ones are drawn, too */
        {.temperature = 0.1, .seed = 3},
        {.temperature = 2, .top_k = 40, .seed = 4},
        {.temperature = 1, .top_p = 0.9, .seed = 5},
        {.temperature = 100, .top_p = 0.99, .top_k = 599, .seed = 6},
        {.temperature = 3, .top_k = 2, .top_p = 0.999, .limit = 2, .seed = 7},
    };
    for (uint64_t n = 0; n < 300; n++) {
        float logits[600];
        for (uint32_t i = 0; i < 600; i++) /* every third has equals */
            logits[i] = i % 3 == 0 ? (float)(i % 7) : 2 * (float)sia_random_normal(8, n * 600 + i);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const sia_sampling *s = &cases[i];
            uint32_t id, count = s->limit ? s->limit : 600;
            assert_int_equal(sia_sample(logits, 600, s, n, &id, NULL), SIA_OK);
            assert_int_equal(id, sample_by_sorting(logits, count, s, n));
        }
    }
}

/* What the calls refuse, and with which sentence. */
static void wrong_uses(void **state) {
    (void)state;
    sia_model *m = model_of("si", 1), *none = m;
    sia_model_config config = *sia_model_settings(m);
    sia_session *s;
    sia_training *t;
    sia_tap *tap;
    sia_error err;
    uint32_t ids[LENGTH], targets[LENGTH], picked[LENGTH];
    float losses[LENGTH], logits[VOCABULARY] = {0};
    text_of(ids, targets);
#define REFUSED(call, sentence)                    \
    do {                                           \
        assert_int_equal(call, SIA_ARGUMENT);      \
        assert_string_equal(err.text, (sentence)); \
    } while (0)
    REFUSED(sia_model_create(NULL, &config, 1, &err),
            "model: want a place for the result and a configuration, got NULL");
    REFUSED(sia_model_create(&none, &config, -1, &err), "threads -1: want 0 to 1024");
    sia_model_config narrow = config;
    narrow.width = INT_MIN; /* of which four times is no int: not before it is looked at */
    narrow.heads = 2;
    REFUSED(sia_model_create(&none, &narrow, 1, &err), "width -2147483648: want 8 to 65536");
    assert_null(none);
    REFUSED(sia_model_preset(NULL, &config, &err), "model: want a preset and a place for it, got NULL");
    config.init = (sia_init)7;
    REFUSED(sia_model_create(&none, &config, 1, &err), "init: want one of: paper narrow");
    REFUSED(sia_model_open(&none, NULL, 1, &err), "model: want a place for the result and a path, got NULL");
    memset(config.scheme, 'x', sizeof config.scheme);
    REFUSED(sia_model_create(&none, &config, 1, &err), "scheme: the name has no end");

    REFUSED(sia_session_create(NULL, m, SIA_F32, &err),
            "session: want a place for the result and a model, got NULL");
    REFUSED(sia_session_create(&s, m, (sia_type)9, &err), "cache type 9: want f32, f16 or i8");
    assert_int_equal(sia_session_create(&s, m, SIA_F32, &err), SIA_OK);
    REFUSED(sia_session_feed(s, NULL, 1, NULL, NULL, NULL, &err),
            "session: want a session and tokens, got NULL");
    REFUSED(sia_session_feed(s, ids, 1, targets, NULL, NULL, &err),
            "session: targets and losses go together");
    REFUSED(sia_session_feed(s, ids, 0, targets, losses, NULL, &err),
            "0 tokens after 0: want 1 to 1073741824 in all");
    assert_int_equal(sia_session_feed(s, ids, 3, targets, losses, NULL, &err), SIA_OK);
    REFUSED(sia_session_feed(s, ids, SIA_MAX_POSITION - 2, NULL, NULL, NULL, &err),
            "1073741822 tokens after 3: want 1 to 1073741824 in all");
    REFUSED(sia_session_pretend(s, SIA_MAX_POSITION - 2, 1, &err),
            "1073741822 tokens after 3: want 1 to 1073741824 in all");
    assert_int_equal(sia_session_length(s), 3);
    sia_session_destroy(s);
    REFUSED(sia_sample(logits, VOCABULARY, NULL, 0, ids, &err),
            "sample: want logits, settings and a place, got NULL");

    REFUSED(sia_tap_create(&tap, m, 0, &err), "length 0: want 1 to 1073741824");
    REFUSED(sia_training_create(&t, m, 0, 8, false, &err),
            "batch of 0 sequences of 8 tokens: want 1 to 1073741824 tokens in all");
    REFUSED(sia_training_create(&t, m, 1 << 20, 1 << 11, false, &err),
            "batch of 1048576 sequences of 2048 tokens: want 1 to 1073741824 tokens in all");
    assert_null(t);
    assert_int_equal(sia_training_create(&t, m, 2, LENGTH, false, &err), SIA_OK);
    REFUSED(sia_training_resize(t, 3, &err), "batch of 3 sequences: want 1 to 2");
    REFUSED(sia_training_resize(t, 0, &err), "batch of 0 sequences: want 1 to 2");
    sia_training_pick(t, ids, picked); /* without a ring, all of a row */
    assert_memory_equal(picked, ids, sizeof ids);
    sia_training_destroy(t);
    sia_validation v = {.length = 10, .parts = 3};
    sia_validation_result result;
    REFUSED(sia_validate(m, &v, &result, &err), "3 parts: want a divisor of the window's 10 tokens");
    sia_model_destroy(m);
}

/* Validation that ranks would share, of which there is one. */
static void validation_refused(void **state) {
    (void)state;
    sia_model *m = model_of("si", 1);
    sia_corpus *c;
    sia_windows *w;
    sia_error err;
    sia_validation_result result;
    sia_corpus_config config = {.vocabulary = VOCABULARY, .end_of_text = 0, .scan = 1};
    const uint16_t text[20] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    assert_int_equal(sia_corpus_borrow(&c, text, 20, &config, &err), SIA_OK);
    assert_int_equal(sia_windows_create(&w, c, 8, 0, &err), SIA_OK);
    sia_validation v = {.windows = w, .length = 8, .parts = 1, .together = 2};
    REFUSED(sia_validate(m, &v, &result, &err),
            "context parallel 2 on 1 rank: want a divisor of their number");
    v.cache = SIA_F16;
    REFUSED(sia_validate(m, &v, &result, &err),
            "context parallel: there is no cache, so its type must be f32");
    v.cache = SIA_F32;
    v.together = 0;
    assert_int_equal(sia_validate(m, &v, &result, &err), SIA_OK);
    assert_true(result.tokens == 8 * sia_windows_count(w) && result.loss > 0);
    sia_windows_destroy(w);
    sia_corpus_close(c);
    sia_model_destroy(m);
}

/* sia.h says how much of the calling thread's stack a session takes. */
static void *feed_all(void *session) {
    float losses[LENGTH], logits[VOCABULARY];
    feed(session, LENGTH, losses, logits);
    return NULL;
}

static void small_stack(void **state) {
    (void)state;
    sia_session *s;
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, 512 << 10), 0);
    FOR_EACH_ISA (kernel) {
        sia_model *m = model_of("si+prope", 1);
        assert_int_equal(sia_session_create(&s, m, SIA_F32, NULL), SIA_OK);
        assert_int_equal(pthread_create(&thread, &attributes, feed_all, s), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        sia_session_destroy(s);
        sia_model_destroy(m);
    }
    (void)pthread_attr_destroy(&attributes);
}

int main(void) {
    test_of_tiles = true; /* AMX takes most of the stack */
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_reference),
                                       cmocka_unit_test(threads_and_truncation),
                                       cmocka_unit_test(schemes_that_fit),
                                       cmocka_unit_test(scheme_under_sessions),
                                       cmocka_unit_test(sample_is_the_sorted_one),
                                       cmocka_unit_test(wrong_uses),
                                       cmocka_unit_test(validation_refused),
                                       cmocka_unit_test(sampling),
                                       cmocka_unit_test(types),
                                       cmocka_unit_test(small_stack)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
