/* SPDX-License-Identifier: MIT
 *
 * Retrieval with predictors whose answers are known: what counts as right, depths, threads, stops. */
#include "support.h"

#include "eval/retrieval.h"

/* ------------------------------------------------------------------------------------------------ scoring */

static const struct {
    const char *answer, *right; /* one letter for each of three needles: + right, - wrong */
} answers[] = {
    {"Lima=123;Oslo=456;Quito=789", "+++"},
    {"Lima=123;Oslo=456;Quito=789;", "+++"},
    {"Lima=123;Oslo=456;Quito=789 and more", "+++"},
    {"Lima=123;Oslo=456;Quito=7890", "++-"},
    {"Lima=123;Oslo=456;Quito=78", "++-"},
    {"Lima=123;Oslo=456;", "++-"},
    {"Lima=123;Oslo=456", "+--"}, /* nothing follows: where the second ends is not known */
    {"Lima=124;Oslo=456;Quito=789", "-++"},
    {"Lima=1234;Oslo=456;Quito=789", "-++"},
    {"Lim=123;Oslo=456;Quito=789", "-++"},
    {"lima=123;Oslo=456;Quito=789", "-++"},
    {" Lima=123;Oslo=456;Quito=789", "-++"},
    {"Lima=123;Quito=456;Oslo=789", "+--"}, /* city and number must both be right */
    {"Oslo=456;Lima=123;Quito=789", "--+"}, /* the order is that of the text */
    {"Lima123;Oslo=456;Quito=789", "-++"},
    {";;", "---"},
    {"", "---"},
    {"Lima=123", "---"},
};

static void right_answers_are_counted(void **state) {
    (void)state;
    const sia_needle needles[3] = {{.city = "Lima", .number = "123"},
                                   {.city = "Oslo", .number = "456"},
                                   {.city = "Quito", .number = "789"}};
    int failures = 0;
    for (size_t c = 0; c < sizeof answers / sizeof *answers; c++) {
        bool right[3];
        sia_answer_score(answers[c].answer, needles, 3, right);
        for (int i = 0; i < 3; i++)
            if (right[i] != (answers[c].right[i] == '+')) {
                print_message("'%s': needle %d\n", answers[c].answer, i);
                failures++;
            }
    }
    assert_int_equal(failures, 0);
}

/* ------------------------------------------------------------------------------------------------ an oracle */

enum { LENGTH = 700, SAMPLES = 23, THREADS = 3 };

/* Knows every answer, and gets the last token of the needles that `wrong` picks wrong. */
typedef struct oracle {
    sia_haystack haystack;
    bool (*wrong)(int64_t sample, int needle);
    struct {
        int64_t sample;
        uint32_t ids[LENGTH + 1];
        sia_needle needles[SIA_NEEDLES_MOST];
    } workers[THREADS];
    int stops_after, asked;
} oracle;

static bool never(int64_t sample, int needle) {
    (void)sample;
    (void)needle;
    return false;
}

static bool always(int64_t sample, int needle) { return !never(sample, needle); }
static bool some(int64_t sample, int needle) { return (sample + needle) % 5 == 0; }

static bool find_sample(oracle *o, int worker, const uint32_t *ids, int64_t count) {
    uint8_t mask[LENGTH];
    for (int64_t n = 0; n < SAMPLES; n++) {
        o->workers[worker].sample = n;
        assert_int_equal(sia_haystack_read(&o->haystack, (uint64_t)n, o->workers[worker].ids, mask,
                                           o->workers[worker].needles, NULL),
                         SIA_OK);
        /* The question is read to its end, and nothing of the answer. */
        if (o->workers[worker].needles[0].answer_first == count &&
            memcmp(o->workers[worker].ids, ids, (size_t)count * sizeof *ids) == 0)
            return true;
    }
    return false;
}

static sia_status predict(void *context, int worker, int64_t from, const uint32_t *ids, int64_t count,
                          uint32_t *next, sia_error *err) {
    oracle *o = context;
    (void)err;
    if (from == 0 && !find_sample(o, worker, ids, count)) return SIA_NUMBER;
    int64_t at = from + count;
    *next = at <= LENGTH ? o->workers[worker].ids[at] : o->workers[worker].ids[LENGTH];
    for (int i = 0; i < 3; i++) {
        const sia_needle *needle = &o->workers[worker].needles[i];
        if (at == needle->answer_first + needle->answer_count - 1 && o->wrong(o->workers[worker].sample, i))
            *next = *next == '7' ? '8' : '7'; /* ids below 256 are bytes */
    }
    /* What is given needs not be known. */
    if (o->haystack.numbers_only && (*next < '0' || *next > '9')) *next = 'x';
    return SIA_OK;
}

static int progress(void *context, const char *phase, double done) {
    oracle *o = context;
    (void)phase;
    assert_true(done >= 0 && done < 1);
    return o->stops_after && ++o->asked > o->stops_after;
}

static void an_oracle_is_counted_exactly(void **state) {
    (void)state;
    sia_tokenizer *tokenizer = small_tokenizer(400);
    sia_corpus *corpus;
    assert_int_equal(sia_corpus_generate(&corpus, tokenizer, 1, 0, 2, 3000, 1, NULL), SIA_OK);
    oracle o = {.haystack = {.corpus = corpus,
                             .tokenizer = tokenizer,
                             .length = LENGTH,
                             .one_token_a_digit = true,
                             .validation = true}};
    bool (*const pickers[])(int64_t, int) = {never, always, some};
    for (int p = 0; p < 6; p++) {
        sia_retrieval_result want = {0}, found;
        o.wrong = pickers[p / 2];
        o.haystack.numbers_only = p % 2;
        for (int64_t n = 0; n < SAMPLES; n++) {
            uint32_t ids[LENGTH + 1];
            uint8_t mask[LENGTH];
            sia_needle needles[3];
            assert_int_equal(sia_haystack_read(&o.haystack, (uint64_t)n, ids, mask, needles, NULL), SIA_OK);
            for (int i = 0; i < 3; i++) {
                int depth = (int)(10.0 * (double)needles[i].first / LENGTH);
                want.count++;
                want.depth_count[depth]++;
                want.right += !o.wrong(n, i);
                want.depth_right[depth] += !o.wrong(n, i);
            }
        }
        assert_int_equal(want.count, 3 * SAMPLES);
        for (int threads = 1; threads <= THREADS; threads++) {
            sia_retrieval r = {.haystack = o.haystack,
                               .samples = SAMPLES,
                               .threads = threads,
                               .progress = progress,
                               .progress_context = &o};
            r.haystack.validation = false; /* it is set for us */
            assert_int_equal(sia_retrieval_run(&r, predict, &o, &found, NULL), SIA_OK);
            assert_memory_equal(&found, &want, sizeof want);
        }
    }
    sia_corpus_close(corpus);
    sia_tokenizer_close(tokenizer);
}

/* Goes on for ever with one token: answers end all the same. */
static sia_status babble(void *context, int worker, int64_t from, const uint32_t *ids, int64_t count,
                         uint32_t *next, sia_error *err) {
    (void)worker;
    (void)from;
    (void)ids;
    (void)count;
    (void)err;
    *next = *(uint32_t *)context;
    return SIA_OK;
}

static void failures_have_sentences(void **state) {
    (void)state;
    sia_tokenizer *tokenizer = small_tokenizer(400);
    sia_corpus *corpus;
    sia_error err;
    assert_int_equal(sia_corpus_generate(&corpus, tokenizer, 1, 0, 2, 3000, 1, NULL), SIA_OK);
    oracle o = {.haystack = {.corpus = corpus, .tokenizer = tokenizer, .length = LENGTH, .validation = true},
                .wrong = never,
                .stops_after = 2};
    sia_retrieval r = {.haystack = o.haystack,
                       .samples = SAMPLES,
                       .threads = 2,
                       .progress = progress,
                       .progress_context = &o};
    sia_retrieval_result result;
    assert_int_equal(sia_retrieval_run(&r, predict, &o, &result, &err), SIA_STOPPED);
    r.progress = NULL;
    uint32_t tokens[] = {'x', ';', sia_tokenizer_end_of_text(tokenizer)};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sia_retrieval_run(&r, babble, &tokens[i], &result, &err), SIA_OK);
        assert_int_equal(result.right, 0);
        assert_int_equal(result.count, 3 * SAMPLES);
    }
    r.samples = 0;
    assert_int_equal(sia_retrieval_run(&r, predict, &o, &result, &err), SIA_ARGUMENT);
    r.samples = SAMPLES;
    r.haystack.length = 20;
    assert_int_equal(sia_retrieval_run(&r, predict, &o, &result, &err), SIA_ARGUMENT);
    assert_non_null(strstr(err.text, "length 20: the needles, question and answer alone take"));
    sia_model_config config = {.layers = 1, .width = 16, .heads = 1, .vocabulary = 399, .train_len = 64};
    sia_model *m;
    assert_int_equal(sia_model_create(&m, &config, 1, &err), SIA_OK);
    assert_int_equal(sia_retrieval_of_model(m, &r, &result, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "the tokenizer has 400 tokens, the model 399");
    sia_model_destroy(m);
    sia_corpus_close(corpus);
    sia_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_answers_are_counted),
        cmocka_unit_test(an_oracle_is_counted_exactly),
        cmocka_unit_test(failures_have_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
