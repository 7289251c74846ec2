/* SPDX-License-Identifier: MIT
 *
 * The statistics, on sequences whose figures are known in closed form. */
#include "support.h"

#include <math.h>

#include "base/random.h"
#include "data/statistics.h"

enum { COUNT = 400000, DOCUMENTS = 4 };
static uint32_t symbols[COUNT];
static int64_t starts[DOCUMENTS + 1];

static sia_sequence sequence(void) {
    for (int i = 0; i <= DOCUMENTS; i++) starts[i] = (int64_t)COUNT / DOCUMENTS * i;
    return (sia_sequence){symbols, COUNT, starts, DOCUMENTS};
}

static const sia_statistics_at *at_distance(const sia_statistics *r, int64_t distance) {
    for (int i = 0; i < r->distances; i++)
        if (r->at[i].distance == distance) return &r->at[i];
    fail_msg("no distance %d", (int)distance);
    return NULL;
}

/* A binary chain that changes with probability e: P(x_{i+d} = x_i) = (1 + (1-2e)^d) / 2, so that I(d) = ln
 * 2 - H(that). */
static void test_markov(void **state) {
    (void)state;
    SKIP_WITH_THREAD_SANITIZER();
    static const double change[] = {0.5, 0.3, 0.1, 0.02};
    for (int c = 0; c < 4; c++) {
        for (int i = 1; i < COUNT; i++)
            symbols[i] = symbols[i - 1] ^ (sia_random_uniform((uint64_t)c, (uint64_t)i) < change[c]);
        sia_statistics r;
        sia_sequence s = sequence();
        OK(sia_statistics_compute(&s, &(sia_statistics_options){.classes = 16, .max_distance = 100}, &r,
                                  &said));
        assert_int_equal(r.types, 2);
        for (int i = 0; i < r.distances; i++) {
            double same = (1 + pow(1 - 2 * change[c], (double)r.at[i].distance)) / 2;
            double wanted =
                log(2) + (same > 0 ? same * log(same) : 0) + (same < 1 ? (1 - same) * log(1 - same) : 0);
            double bound = 0.04 * wanted + 5e-4; /* the slowest chain has some 8000 independent stretches */
            if (!(fabs(r.at[i].information - wanted) <= bound))
                fail_msg("change %g, distance %d: %.6f, want %.6f +- %.6f", change[c], (int)r.at[i].distance,
                         r.at[i].information, wanted, bound);
        }
        print_message("  change %.2f: I(1) %.5f\n", change[c], r.at[0].information);
    }
}

/* Independent Zipf words: the exponent comes back, and the information is nothing although the plain count
 * of it is large. */
static void test_independent_zipf(void **state) {
    (void)state;
    SKIP_WITH_THREAD_SANITIZER();
    enum { TYPES = 20000 };
    static double upto[TYPES];
    double sum = 0;
    for (int i = 0; i < TYPES; i++) upto[i] = sum += 1 / pow(i + 1, 1.1);
    for (int i = 0; i < COUNT; i++) {
        double u = sia_random_uniform(77, (uint64_t)i) * sum;
        int low = 0, high = TYPES - 1;
        while (low < high) {
            int middle = (low + high) / 2;
            if (upto[middle] > u)
                high = middle;
            else
                low = middle + 1;
        }
        symbols[i] = (uint32_t)low;
    }
    sia_statistics r;
    sia_sequence s = sequence();
    OK(sia_statistics_compute(&s, &(sia_statistics_options){.max_distance = 1000}, &r, &said));
    print_message("  Zipf %.3f, want 1.1; share of rank 1 %.4f, want %.4f\n", r.zipf_head, r.share[0],
                  1 / sum);
    assert_true(fabs(r.zipf_head - 1.1) < 0.03);
    assert_true(fabs(r.share[0] - 1 / sum) < 0.002);
    double recurrence = 0;
    for (int i = 0; i < r.distances; i++) {
        if (!(fabs(r.at[i].information) <= 5 * r.at[i].noise))
            fail_msg("distance %d: %.6f, noise %.6f", (int)r.at[i].distance, r.at[i].information,
                     r.at[i].noise);
        recurrence += r.at[i].recurrence / r.distances;
    }
    /* Some ten recurrences at each distance. */
    print_message("  mean recurrence %.2f, want 1\n", recurrence);
    assert_true(fabs(recurrence - 1) < 0.3);
    assert_true(r.at[0].noise < 0.002);
}

/* Rare symbols, each written twice at distance 50: half of them come again there, and nowhere else. */
static void test_recurrence(void **state) {
    (void)state;
    for (int i = 0; i < COUNT; i++) symbols[i] = (uint32_t)(i % 100 < 50 ? i : i - 50) + 1000;
    sia_statistics r;
    sia_sequence s = sequence();
    OK(sia_statistics_compute(&s, &(sia_statistics_options){.classes = 4, .max_distance = 100}, &r, &said));
    /* By chance: 2 in COUNT. */
    double chance = 2.0 / COUNT;
    assert_true(fabs(at_distance(&r, 50)->recurrence * chance - 0.5) < 0.01);
    assert_true(at_distance(&r, 20)->recurrence < 1e-9);
    assert_true(at_distance(&r, 100)->recurrence < 1e-9);
}

/* Ten symbols in runs of 40: at a distance d below that P(same) = 1 - d/40 + d/40 / 10, and by chance it is 1/10. The
 * power is that of the line through three points, the fewest that make one. */
static void test_powers(void **state) {
    (void)state;
    static const double distance[] = {10, 20, 30};
    double x[3], y[3], mean_x = 0, mean_y = 0, xx = 0, xy = 0;
    for (int i = 0; i < COUNT; i++) symbols[i] = (uint32_t)sia_random_below(5, (uint64_t)i / 40, 10);
    for (int i = 0; i < 3; i++) {
        double d = distance[i] / 40;
        x[i] = log(distance[i]);
        y[i] = log((1 - d + d / 10) * 10 - 1);
        mean_x += x[i] / 3;
        mean_y += y[i] / 3;
    }
    for (int i = 0; i < 3; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    sia_statistics three, two;
    sia_sequence s = sequence();
    OK(sia_statistics_compute(&s, &(sia_statistics_options){.classes = 4, .max_distance = 30}, &three,
                              &said));
    OK(sia_statistics_compute(&s, &(sia_statistics_options){.classes = 4, .max_distance = 20}, &two, &said));
    print_message("  recurrence falls by the power %.3f, want %.3f\n", three.recurrence_power, -xy / xx);
    assert_true(fabs(three.recurrence_power + xy / xx) < 0.05);
    assert_true(isnan(two.recurrence_power));
}

static void test_word_list(void **state) {
    (void)state;
    static const char text[] = "The cat's paw--the CAT; caf\xc3\xa9 'tis don' 42 x1y";
    static const char *const words[] = {"the",         "cat's", "paw", "the", "cat",
                                        "caf\xc3\xa9", "tis",   "don", "x",   "y"};
    sia_word_list w = {0};
    OK(sia_word_list_add(&w, text, sizeof text - 1, &said));
    OK(sia_word_list_add(&w, "", 0, &said));
    OK(sia_word_list_add(&w, "the", 3, &said));
    assert_int_equal(w.documents, 3);
    assert_int_equal(w.count, 11);
    for (int i = 0; i < 10; i++) {
        size_t length;
        const char *word = sia_word_list_text(&w, w.symbols[i], &length);
        assert_int_equal(length, strlen(words[i]));
        assert_memory_equal(word, words[i], length);
    }
    assert_int_equal(w.symbols[10], w.symbols[0]);
    sia_word_list_free(&w);
    /* Many types, to make the table grow; a word without an end is cut into one of 256 bytes. */
    char word[16], *endless = malloc(100000);
    for (int i = 0; i < 30000; i++) {
        for (int j = 0, n = i; j < 6; j++, n /= 26) word[j] = (char)('a' + n % 26);
        OK(sia_word_list_add(&w, word, 6, &said));
        assert_int_equal(w.symbols[i], i);
    }
    memset(endless, 'a', 100000);
    OK(sia_word_list_add(&w, endless, 100000, &said));
    assert_int_equal(w.count, 30001);
    size_t longest;
    (void)sia_word_list_text(&w, w.symbols[30000], &longest);
    assert_int_equal(longest, 256);
    free(endless);
    sia_word_list_free(&w);
    /* A limit keeps the first words, in the middle of a document too, and counts all. */
    for (int most = 0; most <= 6; most++) {
        static const int kept_documents[] = {0, 1, 1, 2, 2, 3, 3};
        w = (sia_word_list){.limited = true, .most = most};
        OK(sia_word_list_add(&w, "a b", 3, &said));
        OK(sia_word_list_add(&w, "c d", 3, &said));
        OK(sia_word_list_add(&w, "e", 1, &said));
        assert_int_equal(w.words, 5);
        assert_int_equal(w.texts, 3);
        assert_int_equal(w.count, most < 5 ? most : 5);
        assert_int_equal(w.documents, kept_documents[most]);
        if (w.documents) assert_int_equal(w.starts[w.documents], w.count);
        sia_word_list_free(&w);
    }
}

static void test_errors(void **state) {
    (void)state;
    sia_statistics r;
    sia_error err;
    sia_sequence s = sequence();
    assert_int_equal(sia_statistics_compute(&s, &(sia_statistics_options){.classes = 1}, &r, &err),
                     SIA_ARGUMENT);
    assert_int_equal(sia_statistics_compute(&s, &(sia_statistics_options){.classes = 5000}, &r, &err),
                     SIA_ARGUMENT);
    s.count = 1;
    assert_int_equal(sia_statistics_compute(&s, NULL, &r, &err), SIA_ARGUMENT);
    assert_sentence(&err, "statistics of 1 symbols");
}

static int asked;
static bool stop_when_asked_twice(void) { return ++asked >= 2; }

static void test_stopped(void **state) {
    (void)state;
    static uint32_t text[5000];
    int64_t places[] = {0, 5000};
    for (uint32_t i = 0; i < 5000; i++) text[i] = i * i % 100;
    sia_sequence s = {text, 5000, places, 1};
    sia_statistics r;
    sia_error err;
    assert_int_equal(
        sia_statistics_compute(&s, &(sia_statistics_options){.stopped = stop_when_asked_twice}, &r, &err),
        SIA_STOPPED);
    assert_sentence(&err, "stopped");
    /* From then on nothing is counted, or it would have been asked more often. */
    assert_int_equal(asked, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_markov),     cmocka_unit_test(test_independent_zipf),
        cmocka_unit_test(test_recurrence), cmocka_unit_test(test_powers),
        cmocka_unit_test(test_word_list),  cmocka_unit_test(test_errors),
        cmocka_unit_test(test_stopped),
    };
    return cmocka_run_group_tests_name("statistics", tests, NULL, NULL);
}
