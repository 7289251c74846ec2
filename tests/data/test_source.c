/* SPDX-License-Identifier: MIT
 *
 * Generated text: a pure function of (seed, document), with the statistics that were measured on books
 * (docs/data.md), and the same ones at the beginning and at the end of a document. */
#include "support.h"

#include <math.h>

#include "base/random.h"
#include "base/sha256.h"
#include "data/inputs.h"
#include "data/lexicon.h"
#include "data/statistics.h"

/* The text is fixed: recorded results would change with it. A change here is to be made on purpose. */
static void test_purity(void **state) {
    (void)state;
    static const char *const sums[] = {
        "e1582de598e9ba63cc9c990acd0a0af25f29657d8d01a51bba42a7a12215e745",
        "20b71535dca8730685eb6829711a9343994f41d8cbb09bf5bc7b6a5f3ec4938b",
    };
    sia_source *one, *two, *other;
    OK(sia_source_create(&one, 1, 3000, &said));
    OK(sia_source_create(&two, 1, 3000, &said));
    OK(sia_source_create(&other, 2, 3000, &said));
    for (uint64_t n = 0; n < 2; n++) {
        char *a, *b, *c, sum[SIA_SHA256_TEXT];
        size_t a_length, b_length, c_length;
        OK(sia_source_document(two, 7, NULL, &b, &b_length, &said));
        free(b);
        OK(sia_source_document(one, n, NULL, &a, &a_length, &said));
        OK(sia_source_document(two, n, NULL, &b, &b_length, &said));
        OK(sia_source_document(other, n, NULL, &c, &c_length, &said));
        assert_int_equal(a_length, b_length);
        assert_memory_equal(a, b, a_length);
        assert_false(a_length == c_length && memcmp(a, c, a_length) == 0);
        assert_true(a[a_length - 1] == '\n' && a[a_length - 2] == '.');
        assert_null(memchr(a, '\f', a_length));
        print_message("  document %d: %zu bytes, %s\n", (int)n, a_length, sia_sha256(a, a_length, sum));
        assert_string_equal(sum, sums[n]);
        free(a);
        free(b);
        free(c);
    }
    sia_source_destroy(one);
    sia_source_destroy(two);
    sia_source_destroy(other);
    sia_error err;
    assert_int_equal(sia_source_create(&one, 1, 0, &err), SIA_ARGUMENT);
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

static void test_spelling(void **state) {
    (void)state;
    static char words[SIA_LEXICON_SIZE][SIA_WORD_LENGTH];
    for (int rank = 0; rank < SIA_LEXICON_SIZE; rank++) {
        int length = sia_lexicon_spell(rank, words[rank]);
        assert_int_equal(length, strlen(words[rank]));
        assert_int_equal(strspn(words[rank], "abcdefghijklmnoprstuvz"), length);
    }
    qsort(words, SIA_LEXICON_SIZE, SIA_WORD_LENGTH, by_text);
    for (int i = 1; i < SIA_LEXICON_SIZE; i++) assert_string_not_equal(words[i - 1], words[i]);
}

/* --------------------------------------------------------------------------------------- the statistics */

static sia_word_list generate(uint64_t seed, int documents, int64_t words) {
    sia_source *source;
    sia_word_list list = {0};
    OK(sia_source_create(&source, seed, words, &said));
    for (int i = 0; i < documents; i++) {
        char *text;
        size_t length;
        OK(sia_source_document(source, (uint64_t)i, NULL, &text, &length, &said));
        OK(sia_word_list_add(&list, text, length, &said));
        free(text);
    }
    sia_source_destroy(source);
    return list;
}

/* What books have, and how far the source may be from it. */
static void test_like_books(void **state) {
    (void)state;
    SKIP_WITH_THREAD_SANITIZER();
    sia_word_list list = generate(1, 60, 40000);
    sia_sequence text = sia_word_list_sequence(&list);
    sia_statistics r;
    OK(sia_statistics_compute(&text, &(sia_statistics_options){.max_distance = 1000}, &r, &said));
    double information[8] = {0}, recurrence[8] = {0};
    for (int i = 0; i < r.distances; i++)
        for (int decade = 0, distance = 1; decade < 5; decade++, distance *= 10)
            if (r.at[i].distance == distance)
                information[decade] = r.at[i].information, recurrence[decade] = r.at[i].recurrence;
    const struct {
        const char *what;
        double found, books, factor;
    } cases[] = {
        {"Zipf's exponent, ranks 10 to 1000", r.zipf_head, 1.11, 1.1},
        {"Zipf's exponent, ranks 1000 to 10000", r.zipf_tail, 1.28, 1.15},
        {"share of the first word", r.share[0], 0.0496, 1.2},
        {"entropy of a word", r.entropy, 6.83, 1.05},
        {"information at 1", information[0], 0.844, 1.3},
        {"information at 10", information[1], 0.0185, 1.6},
        {"information at 100", information[2], 0.0058, 1.6},
        {"information at 1000", information[3], 0.0029, 1.6},
        {"power of the information", r.information_power, 0.40, 1.3},
        {"recurrence at 10", recurrence[1], 70.5, 1.5},
        {"recurrence at 100", recurrence[2], 35.8, 1.5},
        {"recurrence at 1000", recurrence[3], 15.3, 1.5},
        {"power of the recurrence, to 1000", r.recurrence_power, 0.36, 1.3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double factor = fmax(cases[i].found / cases[i].books, cases[i].books / cases[i].found);
        print_message("  %-40s %8.4f   books %8.4f   factor %.2f, bound %.2f\n", cases[i].what,
                      cases[i].found, cases[i].books, factor, cases[i].factor);
        assert_true(factor < cases[i].factor);
    }
    sia_word_list_free(&list);
}

/* ------------------------------------------------------------------------------------------------ drift
 *
 * A figure of each document, at its beginning and at its end. If nothing drifts, the differences of the two
 * have mean 0: z is that mean over its standard error. */

enum { SLICE = 10, FREQUENT = 40, FIGURES = FREQUENT + 1 + 4 };

typedef struct figures {
    double value[FIGURES];
} figures;

static figures figures_of(const sia_sequence *s, int64_t document, const uint32_t *frequent) {
    static const int64_t distances[] = {1, 10, 50, 200};
    const uint32_t *x = s->symbols + s->starts[document];
    int64_t n = s->starts[document + 1] - s->starts[document];
    figures f = {0};
    for (int i = 0; i < FREQUENT; i++) {
        for (int64_t j = 0; j < n; j++) f.value[i] += x[j] == frequent[i];
        f.value[i] /= (double)n;
    }
    /* Words that are new, among the first of the slice. */
    int64_t few = n < 300 ? n : 300;
    for (int64_t j = 0; j < few; j++) {
        bool seen = false;
        for (int64_t k = 0; k < j && !seen; k++) seen = x[k] == x[j];
        f.value[FREQUENT] += !seen;
    }
    f.value[FREQUENT] /= (double)few;
    for (int d = 0; d < 4; d++) {
        for (int64_t j = 0; j + distances[d] < n; j++)
            f.value[FREQUENT + 1 + d] += x[j] == x[j + distances[d]];
        f.value[FREQUENT + 1 + d] /= (double)n;
    }
    return f;
}

/* The largest |z| of all figures. */
static double drift(const sia_sequence *text, const uint32_t *frequent) {
    sia_sequence first, last;
    OK(sia_sequence_slice(text, 0, 1.0 / SLICE, &first, &said));
    OK(sia_sequence_slice(text, 1 - 1.0 / SLICE, 1, &last, &said));
    double sum[FIGURES] = {0}, squares[FIGURES] = {0}, n = (double)text->documents, worst = 0;
    for (int64_t i = 0; i < text->documents; i++) {
        figures a = figures_of(&first, i, frequent), b = figures_of(&last, i, frequent);
        for (int j = 0; j < FIGURES; j++) {
            double difference = b.value[j] - a.value[j];
            sum[j] += difference;
            squares[j] += difference * difference;
        }
    }
    for (int j = 0; j < FIGURES; j++) {
        double mean = sum[j] / n, error = sqrt((squares[j] / n - mean * mean) / (n - 1));
        if (error > 0 && fabs(mean) / error > worst) worst = fabs(mean) / error;
    }
    sia_sequence_free(&first);
    sia_sequence_free(&last);
    return worst;
}

static void most_frequent(const sia_sequence *text, uint32_t *frequent) {
    uint32_t types = 0;
    for (int64_t i = 0; i < text->count; i++)
        types = text->symbols[i] >= types ? text->symbols[i] + 1 : types;
    int64_t *counts = calloc((size_t)types + 1, sizeof *counts);
    for (int64_t i = 0; i < text->count; i++) counts[text->symbols[i]]++;
    for (int i = 0; i < FREQUENT; i++) {
        uint32_t best = 0;
        for (uint32_t type = 1; type < types; type++)
            if (counts[type] > counts[best]) best = type;
        frequent[i] = best;
        counts[best] = -1;
    }
    free(counts);
}

/* 45 figures: under no drift the largest |z| is above 4.5 with a probability of 3e-4, and the seed is
 * fixed. */
static void test_no_drift(void **state) {
    (void)state;
    SKIP_WITH_THREAD_SANITIZER();
    static const int64_t lengths[] = {1000, 10000};
    for (int i = 0; i < 2; i++) {
        uint32_t frequent[FREQUENT];
        sia_word_list list = generate(3, 300, lengths[i]);
        sia_sequence text = sia_word_list_sequence(&list);
        most_frequent(&text, frequent);
        double z = drift(&text, frequent);
        print_message("  300 documents of %d words: largest |z| of %d figures %.2f, bound 4.5\n",
                      (int)lengths[i], FIGURES, z);
        assert_true(z < 4.5);
        sia_word_list_free(&list);
    }
}

/* The same measure must see a source that does drift: one that copies from all that it has said. */
static void test_drift_is_seen(void **state) {
    (void)state;
    enum { DOCUMENTS = 300, WORDS = 1000 };
    uint32_t *symbols = malloc(sizeof *symbols * DOCUMENTS * WORDS), frequent[FREQUENT];
    int64_t starts[DOCUMENTS + 1];
    for (int64_t i = 0; i < DOCUMENTS; i++) {
        starts[i] = i * WORDS;
        for (int64_t j = 0; j < WORDS; j++) {
            uint64_t at = (uint64_t)(i * WORDS + j);
            bool fresh = j == 0 || sia_random_uniform(5, at) < 0.1;
            symbols[at] = fresh ? (uint32_t)sia_random_below(6, at, 5000)
                                : symbols[i * WORDS + (int64_t)sia_random_below(7, at, (uint64_t)j)];
        }
    }
    starts[DOCUMENTS] = (int64_t)DOCUMENTS * WORDS;
    sia_sequence text = {symbols, starts[DOCUMENTS], starts, DOCUMENTS};
    most_frequent(&text, frequent);
    double z = drift(&text, frequent);
    print_message("  a source that drifts: largest |z| %.1f\n", z);
    assert_true(z > 10);
    free(symbols);
}

/* ----------------------------------------------------------------------------------------- longer pasts
 *
 * A simple reader: the frequency f of words, mixed with how often a word came in each stretch of the past,
 * 1 to 16 words ago, 17 to 64, 65 to 256, ..., of which it sees the first w:
 *
 *     p(x) = (1 - 0.08 w) f(x) + 0.08 sum over those stretches of their own frequency of x
 *
 * It gains from each longer past, on books as on generated text. */

enum { PASTS = 6, LONGEST_PAST = 16384, PLACES = 20000 };

static void losses(const sia_sequence *text, double loss[PASTS]) {
    const double share = 0.08;
    uint32_t types = 0;
    for (int64_t i = 0; i < text->count; i++)
        types = text->symbols[i] >= types ? text->symbols[i] + 1 : types;
    double *frequency = calloc((size_t)types + 1, sizeof *frequency);
    for (int64_t i = 0; i < text->count; i++) frequency[text->symbols[i]] += 1.0 / (double)text->count;
    for (int w = 0; w < PASTS; w++) loss[w] = 0;
    for (uint64_t n = 0; n < PLACES; n++) {
        int64_t document = (int64_t)sia_random_below(11, n, (uint64_t)text->documents);
        int64_t start = text->starts[document], length = text->starts[document + 1] - start;
        int64_t t =
            start + LONGEST_PAST + (int64_t)sia_random_below(12, n, (uint64_t)(length - LONGEST_PAST));
        double mixed = 0;
        uint32_t x = text->symbols[t];
        for (int w = 0, j = 1, past = 16; w < PASTS; w++, past *= 4) {
            int found = 0, first = j;
            for (; j <= past; j++) found += text->symbols[t - j] == x;
            mixed += share * found / (past - first + 1);
            loss[w] -= log((1 - share * (w + 1)) * frequency[x] + mixed) / PLACES;
        }
    }
    free(frequency);
}

static void print_losses(const char *name, const double loss[PASTS]) {
    print_message("  %-10s", name);
    for (int w = 0, past = 16; w < PASTS; w++, past *= 4) print_message("  %d: %.3f", past, loss[w]);
    print_message("\n");
}

static void test_longer_pasts_help(void **state) {
    (void)state;
    SKIP_WITH_THREAD_SANITIZER();
    double loss[PASTS];
    sia_word_list list = generate(8, 40, 40000);
    sia_sequence text = sia_word_list_sequence(&list);
    losses(&text, loss);
    print_losses("generated", loss);
    for (int w = 1; w < PASTS; w++) assert_true(loss[w] < loss[w - 1] - 0.01);
    sia_word_list_free(&list);
    if (!real_data("books-train.txt")) return;
    sia_map map;
    OK(sia_map_open(&map, real_data("books-train.txt"), &said));
    sia_text document;
    for (size_t at = 0; sia_next_document(map.bytes, map.size, false, &at, &document);)
        OK(sia_word_list_add(&list, document.bytes, document.size, &said));
    text = sia_word_list_sequence(&list);
    losses(&text, loss);
    print_losses("books", loss);
    sia_word_list_free(&list);
    sia_map_close(&map);
}

/* ------------------------------------------------------------------------------------------ as a corpus */

static void test_corpus(void **state) {
    (void)state;
    sia_tokenizer *t = small_tokenizer(500);
    sia_corpus *one, *two, *later;
    OK(sia_corpus_generate(&one, t, 4, 0, 6, 500, 1, &said));
    OK(sia_corpus_generate(&two, t, 4, 0, 6, 500, 2, &said));
    OK(sia_corpus_generate(&later, t, 4, 2, 1, 500, 1, &said));
    assert_int_equal(sia_corpus_documents(one), 6);
    assert_int_equal(sia_corpus_tokens(one), sia_corpus_tokens(two));
    int64_t first, count, n = sia_corpus_tokens(one);
    uint32_t *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b);
    OK(sia_corpus_read(one, 0, n, a, &said));
    OK(sia_corpus_read(two, 0, n, b, &said));
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    OK(sia_corpus_document(one, 2, &first, &count, &said));
    assert_int_equal(sia_corpus_tokens(later), count);
    OK(sia_corpus_read(later, 0, count, b, &said));
    assert_memory_equal(a + first, b, (size_t)count * sizeof *a);
    sia_corpus *none;
    sia_error err;
    assert_int_equal(sia_corpus_generate(&none, t, 4, 0, 0, 500, 1, &err), SIA_ARGUMENT);
    assert_int_equal(sia_corpus_generate(&none, t, 4, 0, 1, 0, 1, &err), SIA_ARGUMENT);
    assert_int_equal(sia_corpus_generate(&none, t, 4, 0, 1, 500, -1, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "threads -1: want 0 to 1024");
    free(a);
    free(b);
    sia_corpus_close(one);
    sia_corpus_close(two);
    sia_corpus_close(later);
    sia_tokenizer_close(t);
}

static _Atomic int asked, answers; /* how often it was asked; and answered no */
static bool stop_later(void) { return ++asked > answers; }

/* A document of several blocks has the tokens of its text; and a wish to stop is heard in the text and in its tokens. */
static void test_long_document(void **state) {
    (void)state;
    enum { WORDS = 60000 };
    sia_tokenizer *t = small_tokenizer(500);
    sia_source *source;
    sia_corpus *c;
    sia_error err;
    char *text;
    size_t length, count;
    OK(sia_source_create(&source, 4, WORDS, &said));
    answers = INT32_MAX;
    OK(sia_source_document(source, 0, stop_later, &text, &length, &said));
    int sentences = asked;
    assert_true(length > 2 * 131072 && sentences > WORDS / 100);
    uint32_t *ids = malloc((length + 1) * sizeof *ids), *found = malloc((length + 1) * sizeof *found);
    assert_true(ids && found);
    OK(sia_tokenizer_encode(t, text, length, ids, &count, &said));
    OK(sia_corpus_generate(&c, t, 4, 0, 1, WORDS, 1, &said));
    assert_int_equal(sia_corpus_tokens(c), count + 1);
    OK(sia_corpus_read(c, 1, (int64_t)count, found, &said));
    assert_memory_equal(ids, found, count * sizeof *ids);
    sia_corpus_close(c);
    free(ids);
    free(found);
    free(text);
    const int after[] = {0, sentences / 2, sentences, sentences + 1};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        asked = 0;
        answers = after[i];
        assert_int_equal(sia_corpus_generate_until(&c, t, 4, 0, 1, WORDS, 1, stop_later, &err), SIA_STOPPED);
        assert_null(c);
        assert_string_equal(err.text, "stopped");
        assert_int_equal(asked, after[i] + 1); /* and not again */
    }
    sia_source_destroy(source);
    sia_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_purity),        cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_like_books),    cmocka_unit_test(test_no_drift),
        cmocka_unit_test(test_drift_is_seen), cmocka_unit_test(test_longer_pasts_help),
        cmocka_unit_test(test_corpus),        cmocka_unit_test(test_long_document),
    };
    return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
