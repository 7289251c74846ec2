/* SPDX-License-Identifier: MIT
 *
 * Loss by length and by position against the float64 model; lengths as people write them; windows over joined
 * documents; a text much longer than what goes through the model at once. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "data/windows.h"
#include "eval/loss.h"
#include "eval/text.h"
#include "larger.h"
#include "reference.h"
#include "small_run.h"
#include "text/tokenizer.h"

enum { VOCABULARY = 61, TRAIN_LEN = 16, LONGEST = 64, WINDOWS = 3, TOKENS = 1000 };

static sia_error said;
#define OK(call)                                    \
    do {                                            \
        if ((call) != 0) fail_msg("%s", said.text); \
    } while (0)

static sia_model *model_of(const char *scheme) {
    sia_model_config config = {.layers = 2,
                               .width = 40,
                               .heads = 2,
                               .kv_heads = 1,
                               .head_dim = 24,
                               .hidden = 72,
                               .vocabulary = VOCABULARY,
                               .train_len = TRAIN_LEN,
                               .seed = 9};
    (void)snprintf(config.scheme, sizeof config.scheme, "%s", scheme);
    sia_model *m;
    OK(sia_model_create(&m, &config, 2, &said));
    draw_weights(m, 0.3f);
    return m;
}

/* Documents start at token 0 and wherever 60 comes up: at 300. */
static sia_corpus *corpus_of(uint16_t tokens[TOKENS]) {
    for (int i = 0; i < TOKENS; i++) tokens[i] = (uint16_t)sia_random_below(1, (uint64_t)i, VOCABULARY - 1);
    tokens[0] = tokens[300] = VOCABULARY - 1;
    sia_corpus *c;
    sia_corpus_config config = {.vocabulary = VOCABULARY, .end_of_text = VOCABULARY - 1, .scan = 1};
    OK(sia_corpus_borrow(&c, tokens, TOKENS, &config, &said));
    return c;
}

/* The losses of all parts of all windows, by position; the standard error is that of the windows' means. */
static double reference_mean(const sia_model *m, const sia_windows *w, int64_t length, double *by_position,
                             double *error) {
    reference r = reference_create(m);
    uint32_t ids[LONGEST + 1];
    double losses[LONGEST], of_window[WINDOWS] = {0}, mean = 0, squares = 0;
    int64_t parts = LONGEST / length, count = sia_windows_count(w) * parts;
    memset(by_position, 0, LONGEST * sizeof *by_position);
    for (int64_t i = 0; i < count; i++) {
        OK(sia_windows_read(w, i / parts, parts, i % parts, ids, &said));
        of_window[i / parts] += reference_loss(&r, 1, length, ids, ids + 1, losses) / LONGEST;
        for (int64_t p = 0; p < length; p++) by_position[p] += losses[p] / (double)count;
    }
    reference_destroy(&r);
    for (int i = 0; i < WINDOWS; i++) mean += of_window[i] / WINDOWS;
    for (int i = 0; i < WINDOWS; i++) squares += pow(of_window[i] - mean, 2);
    *error = sqrt(squares / (WINDOWS - 1) / WINDOWS);
    return mean;
}

static void check_length(sia_model *m, const sia_loss_eval *e, int64_t length) {
    sia_loss_result result;
    double by_position[LONGEST], worst = 0, error;
    OK(sia_eval_loss(m, e, length, &result, &said));
    /* The reference has the attention that is in the model; evaluating leaves that as it was. */
    const char *scheme = e->scheme ? e->scheme : sia_model_settings(m)->scheme;
    OK(sia_model_set_scheme(m, scheme, length, &said));
    double wanted = reference_mean(m, e->windows, length, by_position, &error);
    int64_t at = 0;
    for (int b = 0; b < result.bin_count; b++) {
        double sum = 0;
        assert_int_equal(at, b ? 1 << (b - 1) : 0);
        assert_int_equal(result.bins[b].from, at);
        for (; at < result.bins[b].to; at++) sum += by_position[at];
        double mean = sum / (double)(result.bins[b].to - result.bins[b].from);
        worst = larger(worst, fabs(result.bins[b].loss - mean));
    }
    assert_int_equal(at, length);
    assert_int_equal(result.mean.tokens, WINDOWS * LONGEST);
    printf("%-12s %3d tokens  loss %.6f  error %.1e, of bins %.1e  bound 1e-4\n",
           e->scheme ? e->scheme : "own", (int)length, result.mean.loss, fabs(result.mean.loss - wanted),
           worst);
    assert_true(fabs(result.mean.loss - wanted) < 1e-4 && worst < 1e-4);
    assert_true(error > 1e-3 && fabs(result.mean.error - error) < 1e-4);
}

static void test_reference(void **state) {
    (void)state;
    static const struct {
        const char *trained, *evaluated;
    } cases[] = {{"si+prope", NULL}, {"logn+rope", NULL},   {"alibi", NULL},    {"rope", "rope"},
                 {"rope", "ntk"},    {"rope", "rope+yarn"}, {"rope+ntk", NULL}, {"rope+ntk", "rope"}};
    uint16_t tokens[TOKENS];
    sia_corpus *c = corpus_of(tokens);
    sia_windows *w;
    OK(sia_windows_create(&w, c, LONGEST, WINDOWS, &said));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_model *m = model_of(cases[i].trained);
        sia_loss_eval e = {.windows = w, .longest = LONGEST, .scheme = cases[i].evaluated, .positions = true};
        for (int64_t length = TRAIN_LEN; length <= LONGEST; length *= 2) check_length(m, &e, length);
        sia_model_destroy(m);
    }
    sia_windows_destroy(w);
    sia_corpus_close(c);
}

/* NTK at its length is not rope: the test above would not see a scheme that is never set. */
static void test_scheme_matters(void **state) {
    (void)state;
    uint16_t tokens[TOKENS];
    sia_corpus *c = corpus_of(tokens);
    sia_windows *w;
    sia_model *m = model_of("rope");
    sia_loss_result rope, ntk;
    OK(sia_windows_create(&w, c, LONGEST, WINDOWS, &said));
    sia_loss_eval e = {.windows = w, .longest = LONGEST};
    OK(sia_eval_loss(m, &e, LONGEST, &rope, &said));
    e.scheme = "ntk";
    OK(sia_eval_loss(m, &e, LONGEST, &ntk, &said));
    assert_true(fabs(rope.mean.loss - ntk.mean.loss) > 1e-4);
    assert_true(rope.mean.error > 0);
    e.scheme = "alibi";
    assert_int_equal(sia_eval_loss(m, &e, LONGEST, &ntk, &said), SIA_SCHEME);
    sia_windows_destroy(w);
    sia_model_destroy(m);
    sia_corpus_close(c);
}

static void test_lengths(void **state) {
    (void)state;
    static const struct {
        const char *text, *says; /* NULL: it is good */
        int count;
        int64_t list[3];
    } cases[] = {
        {"1x,4x,16x", NULL, 3, {256, 1024, 4096}},
        {"16x,256", NULL, 2, {256, 4096}},
        {"7", NULL, 1, {7}},
        {"1073741824", NULL, 1, {1073741824}},
        {"4194304x", NULL, 1, {1073741824}},
        {"", "want multiples of the training length or tokens", 0, {0}},
        {"1x,", "want multiples", 0, {0}},
        {"x", "want multiples", 0, {0}},
        {"0", "want multiples", 0, {0}},
        {"-4x", "want multiples", 0, {0}},
        {"4y", "want multiples", 0, {0}},
        {"99999999999999999999", "want multiples", 0, {0}},
        {"1073741825", "want at most 1073741824 tokens", 0, {0}},
        {"4194305x", "want at most 1073741824 tokens", 0, {0}},
        {"1x,256", "256 is there twice", 0, {0}},
        {"3x,4x", "768 does not divide 1024", 0, {0}},
        {"1,2,4,8,16,32,64,128,256,512,1024,2048,4096,8192,16384,32768,65536", "want 16 at most", 0, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_lengths l;
        sia_error err = {0};
        sia_status status = sia_lengths_parse(&l, cases[i].text, 256, &err);
        if (cases[i].says && (status != SIA_ARGUMENT || !strstr(err.text, cases[i].says)))
            fail_msg("'%s': status %d, '%s'; want '%s'", cases[i].text, status, err.text, cases[i].says);
        if (cases[i].says) continue;
        assert_int_equal(status, SIA_OK);
        assert_int_equal(l.count, cases[i].count);
        assert_memory_equal(l.list, cases[i].list, (size_t)l.count * sizeof *l.list);
    }
}

/* Many chunks, blocks and stretches; what the cache holds is linear in the length. */
static void test_long(void **state) {
    (void)state;
    enum { LONG = 20480 };
    static uint16_t tokens[LONG + 1];
    for (int i = 0; i <= LONG; i++) tokens[i] = (uint16_t)sia_random_below(3, (uint64_t)i, 30);
    sia_model_config config = {
        .layers = 1, .width = 16, .heads = 1, .head_dim = 8, .vocabulary = 32, .train_len = 32};
    sia_model *m;
    sia_corpus *c;
    sia_windows *w;
    sia_loss_result result[3];
    OK(sia_model_create(&m, &config, 2, &said));
    draw_weights(m, 0.3f);
    OK(sia_corpus_borrow(&c, tokens, LONG + 1,
                         &(sia_corpus_config){.vocabulary = 32, .end_of_text = 31, .scan = 1}, &said));
    OK(sia_windows_create(&w, c, LONG, 0, &said));
    for (int type = SIA_F32; type <= SIA_I8; type++) {
        sia_loss_eval e = {.windows = w, .longest = LONG, .cache = (sia_type)type, .positions = true};
        OK(sia_eval_loss(m, &e, LONG, &result[type], &said));
        assert_int_equal(result[type].bin_count, 16);
        assert_true(fabs(result[type].mean.loss - result[0].mean.loss) < 1e-2);
    }
    sia_windows_destroy(w);
    sia_corpus_close(c);
    sia_model_destroy(m);
}

/* Every pair of bytes is a token: more than 16 bits can tell apart, whatever the model's vocabulary is. */
static void test_large_tokenizer(void **state) {
    (void)state;
    enum { PAIRS = 65536, SIZE = 256 + PAIRS + 1 };
    sia_tokenizer *t;
    sia_eval_text text;
    OK(sia_vocabulary_create(&t, "large", SIZE, 0, &said));
    for (uint32_t i = 0; i < SIZE - 1; i++) {
        uint32_t pair = i < 256 ? i << 8 : i - 256;
        char bytes[2] = {(char)(pair >> 8), (char)(pair & 0xff)};
        OK(sia_vocabulary_set(t, i, bytes, i < 256 ? 1 : 2, &said));
    }
    OK(sia_vocabulary_set_special(t, SIZE - 1, "<|endoftext|>", &said));
    OK(sia_vocabulary_finish(t, &said));
    sia_eval_source source = {.path = "/dev/null", .tokenizer = t, .vocabulary = SIZE, .threads = 1};
    assert_int_equal(sia_eval_text_open(&text, &source, &said), SIA_ARGUMENT);
    assert_string_equal(said.text, "the tokenizer has 65793 tokens: want at most 65536");
    sia_eval_text_close(&text);
    source.vocabulary--;
    assert_int_equal(sia_eval_text_open(&text, &source, &said), SIA_ARGUMENT);
    assert_string_equal(said.text, "the tokenizer has 65793 tokens, the model's vocabulary ends at 65792");
    sia_eval_text_close(&text);
    sia_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference),
                                       cmocka_unit_test(test_scheme_matters), cmocka_unit_test(test_lengths),
                                       cmocka_unit_test(test_long), cmocka_unit_test(test_large_tokenizer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
