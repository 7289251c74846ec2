/* SPDX-License-Identifier: MIT
 *
 * Batches are pure functions of (seed, step, rank); each epoch shows every window once, a shuffled one in an
 * order of its own; validation windows stay inside documents and hold the same targets at every length. */
#include "support.h"

#include "data/permutation.h"
#include "data/windows.h"

enum { TOKENS = 1000, END = 7 };

/* Token i is i + 8, so that an id tells its place; end-of-text where documents start. */
static uint16_t tokens[TOKENS];

static sia_corpus *make_corpus(int64_t count, const int64_t *starts, int documents) {
    for (int i = 0; i < TOKENS; i++) tokens[i] = (uint16_t)(i + 8);
    for (int i = 0; i < documents; i++) tokens[starts[i]] = END;
    sia_corpus *c;
    sia_corpus_config config = {.vocabulary = 2000, .end_of_text = END, .scan = 1};
    OK(sia_corpus_borrow(&c, tokens, count, &config, &said));
    return c;
}

static void test_permutation(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4096, 4097, 99991};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t n = sizes[i], fixed = 0;
        char *seen = calloc(n, 1);
        for (uint64_t j = 0; j < n; j++) {
            uint64_t to = sia_permute(i, n, j);
            assert_true(to < n);
            assert_false(seen[to]);
            seen[to] = 1;
            fixed += to == j;
        }
        /* A random permutation has one fixed point on average. */
        if (n >= 1000) assert_true(fixed < 10);
        free(seen);
    }
    /* Every place is reached from a given one about equally often: chi-square, 15 degrees of freedom, p ~
     * 1e-6. */
    int counts[16] = {0};
    for (uint64_t seed = 0; seed < 16000; seed++) counts[sia_permute(seed, 16, 3)]++;
    double chi = 0;
    for (int i = 0; i < 16; i++) chi += (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000.0;
    print_message("  chi-square %.1f, bound 56\n", chi);
    assert_true(chi < 56);
}

/* length, sequences, ranks, tokens: every case goes through three epochs. */
static const int64_t shapes[][4] = {{1, 1, 1, 2},   {1, 1, 1, 100},  {10, 4, 1, 1000}, {10, 3, 2, 999},
                                    {7, 5, 3, 500}, {99, 1, 1, 100}, {16, 64, 1, 200}};

/* order[epoch * windows + i]: window i of the epoch. Two random orders agree in one place on average,
 * whatever their length; in ten or more with probability 1e-7. */
static void check_orders_differ(const int64_t *order, int64_t windows) {
    for (int64_t one = 0; one < 3; one++)
        for (int64_t other = 0; other < one; other++) {
            int64_t same = 0;
            for (int64_t i = 0; i < windows; i++)
                same += order[one * windows + i] == order[other * windows + i];
            assert_true(same < 10);
        }
}

static void check_epochs(const sia_batches *b, const int64_t *shape) {
    int64_t windows = sia_batches_windows(b), global = b->sequences * b->ranks;
    assert_int_equal(windows, (shape[3] - 1) / b->length);
    uint32_t *ids = malloc((size_t)(b->sequences * (b->length + 1)) * sizeof *ids);
    int *seen = calloc((size_t)windows * 4, sizeof *seen);
    int64_t *order = calloc((size_t)windows * 3, sizeof *order);
    int64_t steps = (3 * windows + global - 1) / global, moved = 0;
    for (int64_t step = 0; step < steps; step++)
        for (int64_t rank = 0; rank < b->ranks; rank++) {
            sia_batch_place place;
            OK(sia_batches_read(b, step, rank, ids, &place, &said));
            for (int64_t s = 0; s < b->sequences; s++) {
                int64_t sequence = (step * b->ranks + rank) * b->sequences + s, epoch = sequence / windows;
                int64_t at = ids[s * (b->length + 1)] - 8;
                assert_int_equal(at % b->length, 0);
                for (int64_t i = 0; i <= b->length; i++)
                    assert_int_equal(ids[s * (b->length + 1) + i], at + i + 8);
                if (s == 0) assert_int_equal(place.first_epoch, epoch);
                if (s == 0) assert_int_equal(place.first_window, at / b->length);
                if (s == b->sequences - 1) assert_int_equal(place.last_epoch, epoch);
                if (b->order == SIA_ORDER_SEQUENTIAL) assert_int_equal(at / b->length, sequence % windows);
                moved += at / b->length != sequence % windows;
                if (epoch < 3) seen[epoch * windows + at / b->length]++;
                if (epoch < 3) order[sequence] = at / b->length;
            }
        }
    for (int64_t i = 0; i < 3 * windows; i++) assert_int_equal(seen[i], 1);
    if (b->order == SIA_ORDER_SHUFFLED && windows > 20) assert_true(moved > windows);
    if (b->order == SIA_ORDER_SHUFFLED && windows > 20) check_orders_differ(order, windows);
    free(order);
    free(seen);
    free(ids);
}

static void test_epochs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int order = 0; order < 2; order++) {
            sia_corpus *c = make_corpus(shapes[i][3], NULL, 0);
            sia_batches b = {c, shapes[i][0], shapes[i][1], shapes[i][2], (sia_order)order, 42};
            check_epochs(&b, shapes[i]);
            sia_corpus_close(c);
        }
}

/* The windows of a step are the same however they are divided, and the same when asked for again. */
static void test_ranks_and_purity(void **state) {
    (void)state;
    sia_corpus *c = make_corpus(1000, NULL, 0);
    uint32_t whole[12 * 11], again[12 * 11], part[12 * 11];
    sia_batches one = {c, 10, 12, 1, SIA_ORDER_SHUFFLED, 5}, other = one;
    other.seed = 6;
    for (int64_t step = 30; step >= 0; step--) {
        OK(sia_batches_read(&one, step, 0, whole, NULL, &said));
        OK(sia_batches_read(&one, step, 0, again, NULL, &said));
        assert_memory_equal(whole, again, sizeof whole);
        static const int64_t divisions[] = {2, 3, 4, 6, 12};
        for (int i = 0; i < 5; i++) {
            sia_batches b = {c, 10, 12 / divisions[i], divisions[i], SIA_ORDER_SHUFFLED, 5};
            for (int64_t rank = 0; rank < b.ranks; rank++)
                OK(sia_batches_read(&b, step, rank, part + rank * b.sequences * 11, NULL, &said));
            assert_memory_equal(whole, part, sizeof whole);
        }
        OK(sia_batches_read(&other, step, 0, again, NULL, &said));
        assert_memory_not_equal(whole, again, sizeof whole);
    }
    assert_true(sia_batches_epochs(&one, 33) == 33 * 12 / 99.0);
    sia_corpus_close(c);
}

static void test_batch_errors(void **state) {
    (void)state;
    sia_corpus *c = make_corpus(100, NULL, 0);
    static const struct {
        int64_t length, sequences, ranks, step, rank;
        int order;
        const char *sentence;
    } cases[] = {
        {0, 1, 1, 0, 0, 0, "length 0: want at least 1"},
        {10, 0, 1, 0, 0, 0, "0 sequences for 1 ranks"},
        {10, 1, -1, 0, 0, 0, "1 sequences for -1 ranks"},
        {10, 1, 2, 0, 2, 0, "rank 2: want 0 to 1"},
        {10, 1, 1, -1, 0, 0, "step -1"},
        {10, 1, 1, INT64_MAX, 0, 0, "out of range"},
        {100, 1, 1, 0, 0, 0, "the corpus has 100 tokens: want at least 101"},
        {INT64_MAX, 1, 1, 0, 0, 0, "the corpus has 100 tokens: want at least 9223372036854775808"},
        {10, 1, 1, 0, 0, 2, "order 2: want sequential or shuffled"},
    };
    uint32_t ids[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_error err = {0};
        sia_batches b = {c, cases[i].length, cases[i].sequences, cases[i].ranks, (sia_order)cases[i].order,
                         0};
        assert_int_equal(sia_batches_read(&b, cases[i].step, cases[i].rank, ids, NULL, &err), SIA_ARGUMENT);
        assert_sentence(&err, cases[i].sentence);
    }
    sia_batches none = {.corpus = c, .sequences = 1};
    assert_int_equal(sia_batches_windows(&none), 0);
    assert_true(sia_batches_epochs(&none, 5) == 0);
    sia_corpus_close(c);
}

/* A corpus that was not looked through has no documents, and one of nothing is refused. */
static void test_corpus_errors(void **state) {
    (void)state;
    sia_corpus *c;
    sia_windows *w;
    sia_error err;
    int64_t first, count;
    sia_corpus_config config = {.vocabulary = 10, .end_of_text = 9};
    assert_int_equal(sia_corpus_borrow(&c, NULL, 100, &config, &err), SIA_ARGUMENT);
    assert_sentence(&err, "corpus: want a place for the result, tokens and a config, got NULL");
    assert_int_equal(sia_corpus_borrow(&c, tokens, -1, &config, &err), SIA_ARGUMENT);
    assert_null(c);
    OK(sia_corpus_borrow(&c, tokens, 100, &config, &said));
    assert_int_equal(sia_corpus_end_of_text(c), 9);
    assert_int_equal(sia_windows_create(&w, c, 10, 0, &err), SIA_ARGUMENT);
    assert_sentence(&err, "the corpus was not scanned for documents");
    assert_int_equal(sia_corpus_document(c, 0, &first, &count, &err), SIA_ARGUMENT);
    assert_sentence(&err, "document 0: the corpus has 0");
    sia_corpus_close(c);
    /* A corpus without a token has no documents, scanned or not. */
    config.scan = 1;
    OK(sia_corpus_borrow(&c, tokens, 0, &config, &said));
    assert_int_equal(sia_windows_create(&w, c, 10, 0, &err), SIA_ARGUMENT);
    assert_sentence(&err,
                    "no document of 11 tokens: the longest has 0; want longer documents or shorter lengths");
    sia_corpus_close(c);
}

static const int64_t starts[] = {0, 100, 165, 166, 700};

static void test_windows(void **state) {
    (void)state;
    sia_corpus *c = make_corpus(1000, starts, 5);
    /* Documents of 100, 65, 1, 534 and 300 tokens hold 1, 1, 0, 8 and 4 windows of 64. */
    static const struct {
        int64_t asked, got;
    } cases[] = {{0, 14}, {14, 14}, {50, 14}, {1, 1}, {5, 5}, {13, 13}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_windows *w;
        OK(sia_windows_create(&w, c, 64, cases[i].asked, &said));
        assert_int_equal(sia_windows_count(w), cases[i].got);
        int64_t before = -64;
        for (int64_t n = 0; n < cases[i].got; n++) {
            int64_t first = sia_windows_first(w, n), document = 4;
            assert_true(first >= before + 64);
            before = first;
            while (starts[document] > first) document--;
            assert_true(first + 65 <= (document < 4 ? starts[document + 1] : 1000));
            assert_int_equal((first - starts[document]) % 64, 0);
        }
        sia_windows_destroy(w);
    }
    sia_corpus_close(c);
}

/* Which of all windows are taken: evenly, window floor(k total / count) for k = 0 ... Joined, documents do not end them. */
static void test_spread(void **state) {
    (void)state;
    sia_corpus *c = make_corpus(1000, starts, 5);
    enum { MOST = 15 };
    static const struct {
        int64_t length, asked;
        bool join;
        int64_t got, first[MOST];
    } cases[] = {
        {64, 0, false, 14, {0, 100, 166, 230, 294, 358, 422, 486, 550, 614, 700, 764, 828, 892}},
        {64, 5, false, 5, {0, 166, 358, 550, 764}},
        {64, 3, false, 3, {0, 294, 614}},
        {533, 2, false, 1, {166}},
        {64, 0, true, 15, {0, 64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896}},
        {64, 99, true, 15, {0, 64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896}},
        {64, 4, true, 4, {0, 192, 448, 704}},
        {499, 0, true, 2, {0, 499}},
        {999, 7, true, 1, {0}},
        {1, 3, false, 3, {0, 334, 666}},
        {1, 3, true, 3, {0, 333, 666}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_windows *w;
        OK(sia_windows_make(&w, c, cases[i].length, cases[i].asked, cases[i].join, &said));
        assert_int_equal(sia_windows_count(w), cases[i].got);
        for (int64_t n = 0; n < cases[i].got; n++)
            assert_int_equal(sia_windows_first(w, n), cases[i].first[n]);
        assert_int_equal(sia_windows_first(w, -1), -1);
        assert_int_equal(sia_windows_first(w, cases[i].got), -1);
        sia_windows_destroy(w);
    }
    static const struct {
        int64_t length, count;
        bool join;
        const char *sentence;
    } wrong[] = {
        {0, 3, false, "3 windows of 0 tokens"},
        {64, -1, false, "-1 windows of 64 tokens"},
        {0, 3, true, "3 windows of 0 tokens"},
        {64, -1, true, "-1 windows of 64 tokens"},
        {1000, 0, true, "all documents together have 1000 tokens: want 1001"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sia_windows *w;
        sia_error err;
        assert_int_equal(sia_windows_make(&w, c, wrong[i].length, wrong[i].count, wrong[i].join, &err),
                         SIA_ARGUMENT);
        assert_null(w);
        assert_sentence(&err, wrong[i].sentence);
    }
    sia_corpus_close(c);
}

/* 1 part, 4 parts and 16 parts have the same targets in the same order; only what stands before them
 * differs. */
static void test_window_parts(void **state) {
    (void)state;
    sia_corpus *c = make_corpus(1000, starts, 5);
    sia_windows *w;
    uint32_t whole[65], ids[65];
    sia_error err;
    OK(sia_windows_create(&w, c, 64, 0, &said));
    static const int64_t divisions[] = {1, 2, 4, 16, 64};
    for (int64_t n = 0; n < sia_windows_count(w); n++) {
        OK(sia_windows_read(w, n, 1, 0, whole, &said));
        for (int i = 0; i < 5; i++)
            for (int64_t part = 0, length = 64 / divisions[i]; part < divisions[i]; part++) {
                OK(sia_windows_read(w, n, divisions[i], part, ids, &said));
                assert_memory_equal(ids, whole + part * length, (size_t)(length + 1) * sizeof *ids);
            }
    }
    assert_int_equal(sia_windows_read(w, 14, 1, 0, ids, &err), SIA_ARGUMENT);
    assert_sentence(&err, "window 14: want 0 to 13");
    assert_int_equal(sia_windows_read(w, 0, 3, 0, ids, &err), SIA_ARGUMENT);
    assert_sentence(&err, "3 parts: want a divisor of the length 64");
    assert_int_equal(sia_windows_read(w, 0, 4, 4, ids, &err), SIA_ARGUMENT);
    assert_sentence(&err, "part 4: want 0 to 3");
    sia_windows_destroy(w);
    assert_int_equal(sia_windows_create(&w, c, 534, 0, &err), SIA_ARGUMENT);
    assert_sentence(&err, "no document of 535 tokens: the longest has 534; want longer documents or shorter "
                          "lengths");
    assert_int_equal(sia_windows_create(&w, c, INT64_MAX, 0, &err), SIA_ARGUMENT);
    assert_sentence(&err, "no document of 9223372036854775808 tokens");
    assert_int_equal(sia_windows_create(&w, c, 0, 0, &err), SIA_ARGUMENT);
    sia_corpus_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permutation),      cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_ranks_and_purity), cmocka_unit_test(test_batch_errors),
        cmocka_unit_test(test_corpus_errors),    cmocka_unit_test(test_windows),
        cmocka_unit_test(test_spread),           cmocka_unit_test(test_window_parts),
    };
    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
