/* SPDX-License-Identifier: MIT
 *
 * The needle task: exact lengths, the answer under the mask, needles where they are said to be, places
 * spread evenly and independent of each other, text from all of the corpus, nothing in common between
 * training and validation. */
#include "support.h"

#include <math.h>

#include "data/haystack.h"

static sia_tokenizer *tokenizer;
static sia_corpus *corpus;

static int create(void **state) {
    (void)state;
    tokenizer = small_tokenizer(400);
    return sia_corpus_generate(&corpus, tokenizer, 1, 0, 4, 5000, 1, NULL);
}

static int destroy(void **state) {
    (void)state;
    sia_corpus_close(corpus);
    sia_tokenizer_close(tokenizer);
    return 0;
}

static char *decode(const sia_tokenizer *t, const uint32_t *ids, int64_t count) {
    static char text[1 << 16];
    size_t bytes = sizeof text - 1;
    OK(sia_tokenizer_decode(t, ids, (size_t)count, text, &bytes, &said));
    text[bytes] = 0;
    return text;
}

static void check_sample(const sia_haystack *h, const sia_tokenizer *t, uint64_t n) {
    int count = h->needles ? h->needles : 3, digits = h->digits ? h->digits : 7;
    uint32_t *ids = calloc((size_t)h->length + 2, sizeof *ids);
    uint8_t *mask = malloc((size_t)h->length + 1);
    sia_needle needles[SIA_NEEDLES_MOST];
    ids[h->length + 1] = 12345;
    mask[h->length] = 77;
    OK(sia_haystack_read(h, n, ids, mask, needles, &said));
    assert_int_equal(ids[h->length + 1], 12345);
    assert_int_equal(mask[h->length], 77);
    assert_int_equal(ids[0], sia_tokenizer_end_of_text(t));
    char answer[2048] = "", sentence[128], question[2048] = "\nWhat are the special magic numbers";
    for (int i = 0; i < count; i++) {
        const sia_needle *needle = &needles[i];
        (void)snprintf(answer + strlen(answer), sizeof answer - strlen(answer), "%s%.15s=%.15s", i ? ";" : "",
                       needle->city, needle->number);
        (void)snprintf(sentence, sizeof sentence,
                       h->literal ? " %.15s=%.15s;" : " The special magic %.15s number is %.15s.",
                       needle->city, needle->number);
        assert_string_equal(decode(t, ids + needle->first, needle->count), sentence);
        (void)snprintf(sentence, sizeof sentence, "%.15s=%.15s", needle->city, needle->number);
        assert_string_equal(decode(t, ids + needle->answer_first, needle->answer_count), sentence);
        assert_int_equal(strlen(needle->number), digits);
        assert_int_equal(sia_haystack_for_validation(strtoull(needle->number, NULL, 10)), h->validation);
        if (!h->name_cities && i) assert_true(needle->first >= needles[i - 1].first + needles[i - 1].count);
        if (h->name_cities)
            (void)snprintf(question + strlen(question), sizeof question - strlen(question), "%s %.15s",
                           i ? "," : " of", needle->city);
        for (int j = 0; j < i; j++) assert_string_not_equal(needle->city, needles[j].city);
    }
    (void)snprintf(question + strlen(question), sizeof question - strlen(question), "?\n");
    /* The mask: one stretch up to the end, which is the answer; the question stands before it. Of numbers_only the
     * digits, which are the last tokens of each part of the answer. */
    int64_t masked = 0;
    for (int64_t i = 0; i < h->length; i++) {
        assert_true(mask[i] <= 1);
        if (i && !h->numbers_only) assert_true(mask[i] >= mask[i - 1]);
        masked += mask[i];
    }
    if (h->numbers_only) {
        assert_int_equal(masked, count * digits);
        for (int i = 0; i < count; i++)
            for (int64_t j = 0, end = needles[i].answer_first + needles[i].answer_count; j < digits; j++)
                assert_int_equal(mask[end - digits + j - 1], 1);
        masked = h->length + 1 - needles[0].answer_first;
    }
    assert_string_equal(decode(t, ids + h->length + 1 - masked, masked), answer);
    const char *all = decode(t, ids, h->length + 1);
    assert_memory_equal(all + strlen(all) - strlen(answer) - strlen(question), question, strlen(question));
    free(ids);
    free(mask);
}

static void test_samples(void **state) {
    (void)state;
    static const sia_haystack cases[] = {
        {.length = 256},
        {.length = 257},
        {.length = 4096},
        {.length = 256, .validation = true},
        {.length = 256, .name_cities = true},
        {.length = 256, .name_cities = true, .numbers_only = true},
        {.length = 256, .one_token_a_digit = true},
        {.length = 256, .literal = true},
        {.length = 256, .literal = true, .one_token_a_digit = true, .name_cities = true},
        {.length = 128, .needles = 1, .digits = 1, .validation = true},
        {.length = 128, .needles = 1, .digits = 1},
        {.length = 300, .needles = 2, .digits = 4, .name_cities = true, .one_token_a_digit = true},
        {.length = 2048, .needles = 16, .digits = 15, .name_cities = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t n = 0; n < 50; n++) {
            sia_haystack h = cases[i];
            h.corpus = corpus;
            h.tokenizer = tokenizer;
            h.seed = i;
            check_sample(&h, tokenizer, n);
        }
}

/* With GPT-2's tokenizer, over real text. */
static void test_real(void **state) {
    (void)state;
    (void)need_real_data("gpt2-tokenizer");
    (void)need_real_data("fineweb-like.bin");
    sia_tokenizer *t;
    sia_corpus *c;
    OK(sia_tokenizer_open(&t, real_data("gpt2-tokenizer"), &said));
    OK(sia_corpus_open(&c, real_data("fineweb-like.bin"), NULL, &said));
    for (uint64_t n = 0; n < 50; n++)
        check_sample(&(sia_haystack){.corpus = c, .tokenizer = t, .length = 4096}, t, n);
    uint32_t ids[257];
    uint8_t mask[256];
    OK(sia_haystack_read(&(sia_haystack){.corpus = c, .tokenizer = t, .length = 256}, 0, ids, mask, NULL,
                         &said));
    print_message("  %s\n", decode(t, ids, 257));
    sia_corpus_close(c);
    sia_tokenizer_close(t);
}

/* A needle is anywhere with the same probability: ten equal stretches, chi-square with 9 degrees of
 * freedom, p ~ 1e-5. */
static void test_depth(void **state) {
    (void)state;
    enum { SAMPLES = 3000, LENGTH = 1024 };
    int counts[10] = {0}, digits[10] = {0};
    uint32_t ids[LENGTH + 1];
    uint8_t mask[LENGTH];
    sia_needle needle;
    sia_haystack h = {.corpus = corpus, .tokenizer = tokenizer, .length = LENGTH, .needles = 1};
    for (uint64_t n = 0; n < SAMPLES; n++) {
        OK(sia_haystack_read(&h, n, ids, mask, &needle, &said));
        /* Its place among the tokens of the text alone. */
        int64_t tail = 0;
        for (int64_t i = 0; i < LENGTH; i++) tail += mask[i];
        double question = 40; /* at least; a bound is enough here */
        double depth =
            (double)(needle.first - 1) / (double)(LENGTH - tail - needle.count - (int64_t)question);
        counts[depth < 1 ? (int)(depth * 10) : 9]++;
        digits[needle.number[6] - '0']++;
    }
    double chi = 0, chi_digits = 0;
    for (int i = 0; i < 10; i++) {
        chi += (counts[i] - SAMPLES / 10.0) * (counts[i] - SAMPLES / 10.0) / (SAMPLES / 10.0);
        chi_digits += (digits[i] - SAMPLES / 10.0) * (digits[i] - SAMPLES / 10.0) / (SAMPLES / 10.0);
    }
    print_message("  chi-square of depths %.1f, of last digits %.1f, bound 40\n", chi, chi_digits);
    assert_true(chi < 40);
    assert_true(chi_digits < 40);
}

/* Where in the corpus the text stands; -1: nowhere. */
static int64_t find_text(const uint32_t *all, int64_t total, const uint32_t *text, int64_t count) {
    for (int64_t i = 0; i + count <= total; i++)
        if (memcmp(all + i, text, (size_t)count * sizeof *text) == 0) return i;
    return -1;
}

/* Two needles: for independent places the part g of the text that stands between them is at most x with
 * probability 2x - x^2. The text around them is one stretch of the corpus, and that stretch is anywhere with
 * the same probability. Both in ten classes, chi-square with 9 degrees of freedom, p ~ 1e-5. */
static void test_places(void **state) {
    (void)state;
    enum { SAMPLES = 2000, LENGTH = 512 };
    int gaps[10] = {0}, starts[10] = {0};
    uint32_t ids[LENGTH + 1], text[LENGTH], question[LENGTH];
    uint8_t mask[LENGTH];
    sia_needle needles[2];
    sia_haystack h = {.corpus = corpus, .tokenizer = tokenizer, .length = LENGTH, .needles = 2};
    static const char asked[] = "\nWhat are the special magic numbers?\n";
    size_t question_count = 0;
    OK(sia_tokenizer_encode(tokenizer, asked, strlen(asked), question, &question_count, &said));
    int64_t total = sia_corpus_tokens(corpus);
    uint32_t *all = malloc((size_t)total * sizeof *all);
    OK(sia_corpus_read(corpus, 0, total, all, &said));
    for (uint64_t n = 0; n < SAMPLES; n++) {
        OK(sia_haystack_read(&h, n, ids, mask, needles, &said));
        int64_t until = LENGTH + 1 - (int64_t)question_count, count = 0;
        for (int64_t i = 0; i < LENGTH; i++) until -= mask[i];
        for (int64_t i = 1; i < until; i++) {
            bool inside = false;
            for (int j = 0; j < 2; j++)
                inside = inside || (i >= needles[j].first && i < needles[j].first + needles[j].count);
            if (!inside) text[count++] = ids[i];
        }
        int64_t gap = needles[1].first - needles[0].first - needles[0].count;
        int64_t start = find_text(all, total, text, count);
        assert_true(start >= 0);
        gaps[gap * 10 / (count + 1)]++;
        starts[start * 10 / (total - count + 1)]++;
    }
    double chi_gaps = 0, chi_starts = 0;
    for (int i = 0; i < 10; i++) {
        double wanted = SAMPLES * (19 - 2 * i) / 100.0, even = SAMPLES / 10.0;
        chi_gaps += (gaps[i] - wanted) * (gaps[i] - wanted) / wanted;
        chi_starts += (starts[i] - even) * (starts[i] - even) / even;
    }
    print_message("  chi-square of gaps %.1f, of the text's starts %.1f, bound 40\n", chi_gaps, chi_starts);
    assert_true(chi_gaps < 40);
    assert_true(chi_starts < 40);
    free(all);
}

/* Where the question names the cities, each order is as likely as the others; and the ends of a short text are places,
 * too. */
static void test_orders_and_ends(void **state) {
    (void)state;
    enum { SAMPLES = 1200, LENGTH = 256 };
    int orders[3][3][3] = {{{0}}}, at_start = 0, at_end = 0;
    uint32_t ids[LENGTH + 1];
    uint8_t mask[LENGTH];
    sia_needle needles[3];
    sia_haystack h = {.corpus = corpus, .tokenizer = tokenizer, .length = LENGTH, .name_cities = true};
    for (uint64_t n = 0; n < SAMPLES; n++) {
        OK(sia_haystack_read(&h, n, ids, mask, needles, &said));
        int rank[3] = {0};
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) rank[i] += needles[j].first < needles[i].first;
        orders[rank[0]][rank[1]][rank[2]]++;
    }
    /* Six classes of 200, whose standard deviation is 13. */
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 3; c++) {
                bool order = a != b && b != c && a != c;
                assert_true(order ? abs(orders[a][b][c] - 200) < 65 : orders[a][b][c] == 0);
            }
    /* The shortest that there is, with 8 tokens of text: 9 places. */
    h = (sia_haystack){.corpus = corpus, .tokenizer = tokenizer, .length = 1, .needles = 1, .digits = 1};
    sia_error err;
    static const char asked[] = "\nWhat are the special magic numbers?\n";
    uint32_t question[64];
    size_t count = 0;
    OK(sia_tokenizer_encode(tokenizer, asked, strlen(asked), question, &count, &said));
    while (sia_haystack_read(&h, 0, ids, mask, needles, &err)) h.length++;
    int64_t answer = 0;
    for (int64_t i = 0; i < h.length; i++) answer += mask[i];
    assert_int_equal(h.length + 1, 1 + needles[0].count + (int64_t)count + answer); /* and no text */
    h.length += 8;
    for (uint64_t n = 0; n < 300; n++) {
        int64_t tail = 0;
        if (sia_haystack_read(&h, n, ids, mask, needles, &err)) continue; /* a longer city */
        for (int64_t i = 0; i < h.length; i++) tail += mask[i];
        at_start += needles[0].first == 1;
        at_end += needles[0].first + needles[0].count == h.length + 1 - tail - (int64_t)count;
    }
    assert_true(at_start > 5 && at_end > 5);
    /* Of 16 numbers of three digits two would be the same in one sample of eight. */
    sia_needle many[16];
    uint32_t long_ids[1025];
    uint8_t long_mask[1024];
    h = (sia_haystack){.corpus = corpus, .tokenizer = tokenizer, .length = 1024, .needles = 16, .digits = 3};
    for (uint64_t n = 0; n < 60; n++) {
        OK(sia_haystack_read(&h, n, long_ids, long_mask, many, &said));
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < i; j++) assert_string_not_equal(many[i].number, many[j].number);
    }
}

static void test_disjoint_and_pure(void **state) {
    (void)state;
    enum { SAMPLES = 2000, LENGTH = 200 };
    static sia_needle seen[2][SAMPLES];
    uint32_t ids[LENGTH + 1], again[LENGTH + 1];
    uint8_t mask[LENGTH];
    sia_haystack h = {.corpus = corpus, .tokenizer = tokenizer, .length = LENGTH, .needles = 1, .digits = 3};
    for (int set = 0; set < 2; set++) {
        h.validation = set;
        for (uint64_t n = 0; n < SAMPLES; n++) OK(sia_haystack_read(&h, n, ids, mask, &seen[set][n], &said));
    }
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < SAMPLES; j++) {
            assert_string_not_equal(seen[0][i].city, seen[1][j].city);
            assert_string_not_equal(seen[0][i].number, seen[1][j].number);
        }
    OK(sia_haystack_read(&h, 5, ids, mask, NULL, &said));
    OK(sia_haystack_read(&h, 6, again, mask, NULL, &said));
    assert_memory_not_equal(ids, again, sizeof ids);
    OK(sia_haystack_read(&h, 5, again, mask, NULL, &said));
    assert_memory_equal(ids, again, sizeof ids);
    h.seed = 1;
    OK(sia_haystack_read(&h, 5, again, mask, NULL, &said));
    assert_memory_not_equal(ids, again, sizeof ids);
}

static void test_errors(void **state) {
    (void)state;
    static const struct {
        sia_haystack h;
        const char *sentence;
    } cases[] = {
        {{.length = 20}, "length 20: the needles, question and answer alone take"},
        {{.length = 10000000}, "length 10000000: the corpus has"},
        {{.length = 256, .needles = 17}, "17 needles: want 1 to 16"},
        {{.length = 256, .needles = -1}, "-1 needles"},
        {{.length = 256, .digits = 16}, "numbers of 16 digits: want 1 to 15"},
    };
    uint32_t ids[257];
    uint8_t mask[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_error err = {0};
        sia_haystack h = cases[i].h;
        h.corpus = corpus;
        h.tokenizer = tokenizer;
        assert_int_equal(sia_haystack_read(&h, 0, ids, mask, NULL, &err), SIA_ARGUMENT);
        assert_sentence(&err, cases[i].sentence);
    }
    sia_tokenizer *other = small_tokenizer(300);
    sia_error err = {0};
    sia_haystack h = {.corpus = corpus, .tokenizer = other, .length = 256};
    assert_int_equal(sia_haystack_read(&h, 0, ids, mask, NULL, &err), SIA_ARGUMENT);
    assert_sentence(&err, "the tokenizer has 300 tokens, the corpus is for 400");
    sia_tokenizer_close(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),         cmocka_unit_test(test_real),
        cmocka_unit_test(test_depth),           cmocka_unit_test(test_places),
        cmocka_unit_test(test_orders_and_ends), cmocka_unit_test(test_disjoint_and_pure),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests_name("haystack", tests, create, destroy);
}
