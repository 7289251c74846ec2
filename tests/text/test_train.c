/* SPDX-License-Identifier: MIT
 *
 * Training: against the definition on small texts, the same for any number of threads and any order of the
 * texts, on real books within its time, and what it refuses. */
#include "support.h"

#include <sys/resource.h>

#include "base/file.h"
#include "text/split.h"

/* The definition: words as lists of tokens, pairs counted anew for each merge. Returns the merges made. */
typedef struct naive_word {
    uint32_t ids[64];
    size_t length;
} naive_word;

static uint32_t naive_train(const char *text, size_t bytes, uint32_t merges, uint32_t min_count,
                            sia_merge *made) {
    enum { WORDS = 4096, TOKENS = 512 };
    static naive_word words[WORDS];
    static uint32_t counts[TOKENS][TOKENS];
    size_t word_count = 0;
    for (size_t at = 0, length; at < bytes; at += length) {
        length = sia_split_next(text + at, bytes - at);
        assert_true(length <= 64 && word_count < WORDS);
        naive_word *word = &words[word_count++];
        word->length = length;
        for (size_t i = 0; i < length; i++) word->ids[i] = (unsigned char)text[at + i];
    }
    for (uint32_t rank = 0; rank < merges; rank++) {
        memset(counts, 0, sizeof counts);
        uint32_t best = 0, left = 0, right = 0;
        for (size_t w = 0; w < word_count; w++)
            for (size_t i = 0; i + 1 < words[w].length; i++) counts[words[w].ids[i]][words[w].ids[i + 1]]++;
        for (uint32_t a = 0; a < TOKENS; a++)
            for (uint32_t b = 0; b < TOKENS; b++)
                if (counts[a][b] > best) {
                    best = counts[a][b];
                    left = a;
                    right = b;
                }
        if (best < min_count) return rank;
        made[rank] = (sia_merge){left, right, 256 + rank};
        for (size_t w = 0; w < word_count; w++) {
            size_t n = 0;
            for (size_t i = 0; i < words[w].length; i++, n++) {
                bool pair =
                    i + 1 < words[w].length && words[w].ids[i] == left && words[w].ids[i + 1] == right;
                words[w].ids[n] = pair ? 256 + rank : words[w].ids[i];
                i += pair;
            }
            words[w].length = n;
        }
    }
    return merges;
}

/* Words of few letters, so that pairs overlap, run on and tie. */
static size_t make_words(uint64_t seed, char *text, size_t bytes) {
    uint64_t letters = 1 + sia_random_below(seed, 0, 4), lengths = 1 + sia_random_below(seed, 1, 12);
    size_t used = 0, n = 2;
    while (used < bytes) {
        uint64_t length = 1 + sia_random_below(seed, n++, lengths);
        for (uint64_t i = 0; i < length && used < bytes; i++)
            text[used++] = (char)('a' + sia_random_below(seed, n++, letters));
        if (used < bytes) text[used++] = ' ';
    }
    return used;
}

static void test_against_definition(void **state) {
    (void)state;
    enum { ROOM = 1500, MERGES = 60 };
    char text[ROOM];
    sia_merge want[MERGES];
    sia_error err;
    size_t compared = 0;
    for (uint64_t seed = 0; seed < 120; seed++) {
        size_t bytes = make_words(seed, text, 20 + sia_random_below(seed, 77, ROOM - 20));
        uint32_t min_count = 1 + (uint32_t)(seed % 3),
                 made = naive_train(text, bytes, MERGES, min_count, want);
        sia_tokenizer *t;
        sia_tokenizer_training training = {.size = 257 + made, .min_count = min_count, .threads = 1};
        check(sia_tokenizer_train(&t, &training, &(sia_text){text, bytes}, 1, &err), &err);
        assert_int_equal(t->merge_count, made);
        for (uint32_t rank = 0; rank < made; rank++, compared++)
            if (memcmp(&t->merges[rank], &want[rank], sizeof *want) != 0)
                fail_msg("seed %d, merge %u: (%u, %u), want (%u, %u)", (int)seed, rank, t->merges[rank].left,
                         t->merges[rank].right, want[rank].left, want[rank].right);
        sia_tokenizer_close(t);
        /* One more than there is must be refused. */
        if (made < MERGES) {
            training.size++;
            assert_int_equal(sia_tokenizer_train(&t, &training, &(sia_text){text, bytes}, 1, &err),
                             SIA_ARGUMENT);
            assert_null(t);
            assert_non_null(strstr(err.text, "give more text or a smaller vocabulary"));
        }
    }
    assert_true(compared > 2000);
}

static void assert_same(const sia_tokenizer *a, const sia_tokenizer *b) {
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->merge_count, b->merge_count);
    assert_int_equal(a->end_of_text, b->end_of_text);
    assert_int_equal(memcmp(a->merges, b->merges, a->merge_count * sizeof *a->merges), 0);
    for (uint32_t id = 0; id < a->size; id++) {
        size_t n, m;
        const char *x = sia_tokenizer_bytes(a, id, &n), *y = sia_tokenizer_bytes(b, id, &m);
        assert_int_equal(n, m);
        assert_int_equal(memcmp(x, y, n), 0);
    }
}

/* No two tokens have the same bytes: a file, whose keys they are, could not hold both. */
static int by_bytes(const void *a, const void *b) {
    const sia_text *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->size < y->size ? x->size : y->size);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static void assert_distinct(const sia_tokenizer *t) {
    sia_text *tokens = calloc(t->size, sizeof *tokens);
    assert_non_null(tokens);
    for (uint32_t id = 0; id < t->size; id++) tokens[id].bytes = sia_tokenizer_bytes(t, id, &tokens[id].size);
    qsort(tokens, t->size, sizeof *tokens, by_bytes);
    for (uint32_t i = 1; i < t->size; i++) assert_true(by_bytes(&tokens[i - 1], &tokens[i]) < 0);
    free(tokens);
}

static void test_deterministic(void **state) {
    (void)state;
    size_t bytes = 400000;
    char *text = malloc(bytes);
    assert_non_null(text);
    for (size_t used = 0; used < bytes;)
        used += make_words(used, text + used, bytes - used < 997 ? bytes - used : 997);
    sia_error err;
    sia_tokenizer *want, *t;
    size_t half = sia_tokenizer_cut(text, bytes / 2);
    sia_text whole = {text, bytes}, halves[2] = {{text + half, bytes - half}, {text, half}};
    check(sia_tokenizer_train(&want, &(sia_tokenizer_training){.size = 900, .threads = 1}, &whole, 1, &err),
          &err);
    assert_distinct(want);
    for (int threads = 1; threads <= 4; threads++) {
        sia_tokenizer_training training = {.size = 900, .threads = threads};
        check(sia_tokenizer_train(&t, &training, &whole, 1, &err), &err);
        assert_same(want, t);
        sia_tokenizer_close(t);
        check(sia_tokenizer_train(&t, &training, halves, 2, &err), &err);
        assert_same(want, t);
        sia_tokenizer_close(t);
    }
    free(text);
    sia_tokenizer_close(want);
}

/* Written, read again, and written again: the same tokenizer, and the same file. */
static void test_saved(void **state) {
    (void)state;
    char first[] = "/tmp/sia-test-XXXXXX", second[] = "/tmp/sia-test-XXXXXX", *a, *b;
    size_t a_bytes, b_bytes;
    sia_error err;
    sia_tokenizer *t = small_tokenizer(330), *again;
    int one = mkstemp(first), two = mkstemp(second);
    assert_true(one >= 0 && two >= 0);
    check(sia_tokenizer_save(t, first, &err), &err);
    check(sia_tokenizer_open(&again, first, &err), &err);
    assert_same(t, again);
    check(sia_tokenizer_save(again, second, &err), &err);
    check(sia_file_read(first, 1 << 24, &a, &a_bytes, &err), &err);
    check(sia_file_read(second, 1 << 24, &b, &b_bytes, &err), &err);
    assert_int_equal(a_bytes, b_bytes);
    assert_int_equal(memcmp(a, b, a_bytes), 0);
    free(a);
    free(b);
    (void)remove(first);
    (void)remove(second);
    sia_tokenizer_close(t);
    sia_tokenizer_close(again);
}

static int stop_at(void *context, const char *phase, double done) {
    return strcmp(phase, context) == 0 && done > 0.1;
}

static void test_refused(void **state) {
    (void)state;
    static const char text[] = "the theory of the thing is there";
    static const struct {
        sia_tokenizer_training training;
        sia_status status;
        const char *sentence;
    } cases[] = {
        {{.size = 10}, SIA_ARGUMENT, "a vocabulary of 10: want 257 to 1000000"},
        {{.size = 256}, SIA_ARGUMENT, "a vocabulary of 256"},
        {{.size = 1000001}, SIA_ARGUMENT, "a vocabulary of 1000001"},
        {{.size = 5000}, SIA_ARGUMENT, "want 5000: give more text or a smaller vocabulary"},
        {{.size = 260, .threads = -1}, SIA_ARGUMENT, "threads -1"},
        {{.size = 260, .progress = stop_at, .progress_context = "count"},
         SIA_STOPPED,
         "stopped while counting"},
        {{.size = 260, .progress = stop_at, .progress_context = "merge"},
         SIA_STOPPED,
         "stopped after 1 of 3 merges"},
        {{.size = 257}, SIA_OK, ""},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        sia_error err = {0};
        sia_tokenizer *t;
        sia_status status =
            sia_tokenizer_train(&t, &cases[c].training, &(sia_text){text, sizeof text - 1}, 1, &err);
        if (status != cases[c].status || !strstr(err.text, cases[c].sentence))
            fail_msg("case %zu: %s, '%s'", c, sia_status_name(status), err.text);
        assert_true((t == NULL) == (status != SIA_OK));
        sia_tokenizer_close(t);
    }
    sia_tokenizer *t;
    sia_error err;
    check(sia_tokenizer_train(&t, &(sia_tokenizer_training){.size = 257}, NULL, 0, &err), &err);
    sia_tokenizer_close(t);
}

/* One word of a megabyte: a pass costs what it changes, not the length of the word. */
static void test_long_word(void **state) {
    (void)state;
    size_t bytes = 1 << 20;
    char *text = malloc(bytes);
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++) text[i] = (char)('a' + sia_random_below(7, i, 8));
    sia_error err;
    sia_tokenizer *t;
    double started = seconds_now();
    check(sia_tokenizer_train(&t, &(sia_tokenizer_training){.size = 2000}, &(sia_text){text, bytes}, 1, &err),
          &err);
    print_message("1743 merges in one word of %zu bytes: %.2f s\n", bytes, seconds_now() - started);
    assert_distinct(t);
    sia_tokenizer_close(t);
    free(text);
}

static void test_books(void **state) {
    (void)state;
    sia_map map;
    sia_error err;
    sia_tokenizer *t;
    check(sia_map_open(&map, need_real_data("books-train.txt"), &err), &err);
    double started = seconds_now();
    sia_tokenizer_training training = {.size = 4096, .threads = 2};
    check(sia_tokenizer_train(&t, &training, &(sia_text){map.bytes, map.size}, 1, &err), &err);
    double seconds = seconds_now() - started;
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    print_message("4096 tokens from %zu bytes: %.2f s, at most %ld MB\n", map.size, seconds,
                  usage.ru_maxrss / 1000);
    assert_true(seconds < 60);
    assert_distinct(t);
    sia_tokenizer_close(t);
    sia_map_close(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_definition),
        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_saved),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_books),
    };
    sia_error err;
    if (sia_split_prepare(&err)) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
