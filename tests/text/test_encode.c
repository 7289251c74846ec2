/* SPDX-License-Identifier: MIT
 *
 * Encoding and decoding: tiktoken's ids for 110 strings, text that comes back, merging against its
 * definition, any number of threads, and the time of a very long word. */
#include "support.h"

#include <jansson.h>
#include <pthread.h>

#include "base/file.h"
#include "text/merge.h"
#include "text/split.h"

static void gpt2_folder(char folder[4096]) {
    (void)snprintf(folder, 4096, "%s", need_real_data("gpt2-tokenizer/vocab.bpe"));
    *strrchr(folder, '/') = 0;
}

/* Each line of vectors.jsonl: {"text": ..., "ids": [...]}, as tiktoken's r50k_base gives them. */
static void test_vectors(void **state) {
    (void)state;
    char folder[4096], *lines;
    size_t bytes, cases = 0;
    sia_error err;
    sia_tokenizer *t;
    gpt2_folder(folder);
    check(sia_tokenizer_open(&t, folder, &err), &err);
    assert_int_equal(sia_tokenizer_size(t), 50257);
    assert_int_equal(sia_tokenizer_end_of_text(t), 50256);
    assert_string_equal(sia_tokenizer_special(t, 50256), "<|endoftext|>");
    check(sia_file_read(need_real_data("gpt2-tokenizer/vectors.jsonl"), 1 << 24, &lines, &bytes, &err), &err);
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), cases++) {
        json_error_t where;
        json_t *vector = json_loads(line, JSON_ALLOW_NUL, &where);
        assert_non_null(vector);
        json_t *text = json_object_get(vector, "text"), *want = json_object_get(vector, "ids");
        size_t length = json_string_length(text), count;
        uint32_t *ids = malloc((length + 1) * sizeof *ids);
        assert_non_null(ids);
        check(sia_tokenizer_encode(t, json_string_value(text), length, ids, &count, &err), &err);
        if (count != json_array_size(want))
            fail_msg("%s: %zu ids, want %zu", line, count, json_array_size(want));
        for (size_t i = 0; i < count; i++)
            if (ids[i] != json_integer_value(json_array_get(want, i)))
                fail_msg("%s: id %zu is %u", line, i, ids[i]);
        free(ids);
        json_decref(vector);
    }
    assert_int_equal(cases, 110);
    free(lines);
    sia_tokenizer_close(t);
}

static void round_trip(const sia_tokenizer *t, int threads, const char *text, size_t bytes) {
    sia_error err;
    uint32_t *ids = malloc((bytes + 1) * sizeof *ids);
    char *back = malloc(bytes + 1);
    size_t count, length = 0;
    assert_non_null(ids);
    assert_non_null(back);
    check(sia_tokenizer_encode_parallel(t, threads, text, bytes, ids, &count, &err), &err);
    check(sia_tokenizer_decode(t, ids, count, NULL, &length, &err), &err);
    assert_int_equal(length, bytes);
    check(sia_tokenizer_decode(t, ids, count, back, &length, &err), &err);
    assert_int_equal(length, bytes);
    assert_int_equal(memcmp(back, text, bytes), 0);
    size_t special = 0;
    for (size_t i = 0; i < count; i++) special += sia_tokenizer_special(t, ids[i]) != NULL;
    assert_int_equal(special, 0);
    free(ids);
    free(back);
}

static void test_round_trip_random(void **state) {
    (void)state;
    enum { ROOM = 512 };
    char text[ROOM];
    sia_tokenizer *t = small_tokenizer(330);
    for (uint64_t seed = 0; seed < 3000; seed++) round_trip(t, 1, text, random_text(seed, text, ROOM));
    size_t bytes = 3 << 17;
    char *large = malloc(bytes);
    assert_non_null(large);
    for (size_t i = 0; i < bytes; i++) large[i] = (char)sia_random_below(99, i, 256);
    for (int threads = 1; threads <= 3; threads++) round_trip(t, threads, large, bytes);
    free(large);
    sia_tokenizer_close(t);
}

static void test_round_trip_books(void **state) {
    (void)state;
    sia_map map;
    sia_error err;
    sia_tokenizer *t;
    char folder[4096];
    check(sia_map_open(&map, need_real_data("books-train.txt"), &err), &err);
    gpt2_folder(folder);
    check(sia_tokenizer_open(&t, folder, &err), &err);
    round_trip(t, 2, map.bytes, map.size);
    sia_tokenizer_close(t);
    sia_map_close(&map);
}

/* The names of special tokens in text are only text. */
static void test_special(void **state) {
    (void)state;
    static const char text[] = "a<|endoftext|>b <|endoftext|>";
    sia_tokenizer *t = small_tokenizer(300);
    uint32_t end = sia_tokenizer_end_of_text(t);
    size_t length;
    round_trip(t, 1, text, sizeof text - 1);
    assert_int_equal(end, 299);
    (void)sia_tokenizer_bytes(t, end, &length);
    assert_int_equal(length, 0);
    (void)sia_tokenizer_bytes(t, 300, &length);
    assert_int_equal(length, 0);
    assert_null(sia_tokenizer_special(t, 300));
    assert_null(sia_tokenizer_special(t, 298));
    sia_tokenizer_close(t);
}

/* Encoding is: split, then merging as it is defined. Three ways to merge agree, on ranks in their natural
 * order and on ranks in an order that no training gives. */
static void test_merging(void **state) {
    (void)state;
    enum { ROOM = 80 };
    char text[ROOM + 8];
    uint32_t want[ROOM + 8], found[ROOM + 8];
    sia_error err;
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        sia_tokenizer *t = small_tokenizer(330);
        sia_merger m = {0};
        if (shuffled) {
            for (uint32_t i = t->merge_count; i-- > 1;) {
                uint32_t j = (uint32_t)sia_random_below(5, i, i + 1);
                sia_merge merge = t->merges[i];
                t->merges[i] = t->merges[j];
                t->merges[j] = merge;
            }
            free(t->pairs);
            free(t->result);
            free(t->byte_rank);
            t->end_of_text = SIA_NONE;
            check(sia_vocabulary_finish(t, &err), &err);
        }
        for (uint64_t seed = 0; seed < 700; seed++) {
            size_t bytes = 1 + (size_t)sia_random_below(seed, 0, SIA_SHORT_PIECE), count;
            for (size_t i = 0; i < bytes; i++) text[i] = "theraing oi"[sia_random_below(seed, i + 1, 11)];
            size_t n = naive_merge(t, text, bytes, want);
            assert_int_equal(sia_merge_short(t, text, bytes, found), n);
            assert_int_equal(memcmp(want, found, n * sizeof *want), 0);
            check(sia_merge_long(&m, t, text, bytes, found, &count, &err), &err);
            assert_int_equal(count, n);
            assert_int_equal(memcmp(want, found, n * sizeof *want), 0);
        }
        sia_merger_free(&m);
        sia_tokenizer_close(t);
    }
}

/* Pieces of all lengths around those at which the way of encoding changes, each twice: new, and from the
 * cache. */
static void test_lengths(void **state) {
    (void)state;
    sia_tokenizer *t = small_tokenizer(330);
    sia_error err;
    for (size_t length = 1; length < 140; length += length < 35 || (length > 60 && length < 70) ? 1 : 9)
        for (size_t behind = 0; behind < 40; behind += 13) {
            /* The text ends where the memory ends, so that the sanitizers see a byte read too far. */
            char *text = malloc(length + behind);
            uint32_t *want = malloc((length + behind) * sizeof *want),
                     *found = malloc((length + behind) * sizeof *found);
            assert_true(text && want && found);
            for (size_t i = 0; i < length; i++) text[i] = "theing"[sia_random_below(length, i, 6)];
            memset(text + length, ' ', behind);
            size_t n = naive_merge(t, text, length, want), count;
            for (int again = 0; again < 2; again++) {
                check(sia_tokenizer_encode(t, text, length + behind, found, &count, &err), &err);
                assert_true(count >= n);
                assert_int_equal(memcmp(want, found, n * sizeof *want), 0);
            }
            free(text);
            free(want);
            free(found);
        }
    sia_tokenizer_close(t);
}

static void test_threads(void **state) {
    (void)state;
    size_t bytes = 3000000, serial, parallel;
    char *text = malloc(bytes);
    uint32_t *want = malloc(bytes * sizeof *want), *found = malloc(bytes * sizeof *found);
    sia_tokenizer *t = small_tokenizer(330);
    sia_error err;
    assert_true(text && want && found);
    for (size_t used = 0; used < bytes;) {
        char part[256];
        size_t n = random_text(used, part, sizeof part);
        n = n < bytes - used ? n : bytes - used;
        memcpy(text + used, part, n);
        used += n;
    }
    memset(text + 700000, 'x', 600000); /* a word over several blocks */
    check(sia_tokenizer_encode(t, text, bytes, want, &serial, &err), &err);
    for (int threads = 0; threads <= 7; threads++) {
        check(sia_tokenizer_encode_parallel(t, threads, text, bytes, found, &parallel, &err), &err);
        assert_int_equal(serial, parallel);
        assert_int_equal(memcmp(want, found, serial * sizeof *want), 0);
    }
    /* By parts, as a program does that reads a stream. */
    size_t at = 0, total = 0, window = 100000;
    while (at < bytes) {
        size_t room = bytes - at < window ? bytes - at : window;
        size_t cut = room == bytes - at ? room : sia_tokenizer_cut(text + at, room);
        if (cut == 0) {
            window *= 2;
            continue;
        }
        check(sia_tokenizer_encode(t, text + at, cut, found + total, &parallel, &err), &err);
        total += parallel;
        at += cut;
    }
    assert_int_equal(total, serial);
    assert_int_equal(memcmp(want, found, serial * sizeof *want), 0);
    assert_int_equal(sia_tokenizer_encode_parallel(t, -1, text, bytes, found, &parallel, &err), SIA_ARGUMENT);
    free(text);
    free(want);
    free(found);
    sia_tokenizer_close(t);
}

/* Threads of the caller's own, all at once on one tokenizer. */
typedef struct caller {
    const sia_tokenizer *t;
    uint64_t seed;
    bool good;
} caller;

static void *call_often(void *argument) {
    caller *c = argument;
    char text[512], back[520];
    uint32_t ids[520];
    for (int i = 0; i < 300; i++) {
        size_t bytes = random_text(c->seed + (uint64_t)i, text, sizeof text), count, length = sizeof back;
        if (sia_tokenizer_encode(c->t, text, bytes, ids, &count, NULL) ||
            sia_tokenizer_decode(c->t, ids, count, back, &length, NULL) || length != bytes ||
            memcmp(text, back, bytes) != 0)
            return NULL;
    }
    c->good = true;
    return NULL;
}

static void test_callers(void **state) {
    (void)state;
    enum { CALLERS = 4 };
    sia_tokenizer *t = small_tokenizer(330);
    pthread_t thread[CALLERS];
    caller callers[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.t = t, .seed = (uint64_t)i * 150};
        assert_int_equal(pthread_create(&thread[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(thread[i], NULL);
        assert_true(callers[i].good);
    }
    sia_tokenizer_close(t);
}

/* A word of 1 MB takes about 16 times as long as one of 64 KB, and less than a second; were merging
 * quadratic, it would take minutes. Three kinds of word: all the same letter, random letters, many merges. */
static void test_long_word(void **state) {
    (void)state;
    size_t sizes[2] = {1 << 16, 1 << 20};
    sia_tokenizer *t = small_tokenizer(330);
    sia_error err;
    char *text = malloc(sizes[1]);
    uint32_t *ids = malloc(sizes[1] * sizeof *ids);
    assert_true(text && ids);
    for (int kind = 0; kind < 3; kind++) {
        double best[2] = {1e9, 1e9};
        for (size_t i = 0; i < sizes[1]; i++)
            text[i] = kind == 0   ? 'a'
                      : kind == 1 ? (char)('a' + sia_random_below(1, i, 26))
                                  : "thereading"[i % 10];
        for (int round = 0; round < 2; round++)
            for (int s = 0; s < 2; s++) {
                size_t count;
                double started = seconds_now();
                check(sia_tokenizer_encode(t, text, sizes[s], ids, &count, &err), &err);
                double seconds = seconds_now() - started;
                if (seconds < best[s]) best[s] = seconds;
            }
        print_message("a word of %zu bytes, kind %d: %.3f s, %.1f times one of %zu\n", sizes[1], kind,
                      best[1], best[1] / best[0], sizes[0]);
        assert_true(best[1] < 10); /* with a sanitizer, on a busy machine */
    }
    free(text);
    free(ids);
    sia_tokenizer_close(t);
}

static void test_decode_errors(void **state) {
    (void)state;
    sia_tokenizer *t = small_tokenizer(300);
    sia_error err;
    char text[4];
    size_t bytes = sizeof text;
    uint32_t ids[] = {104, 105, 300};
    assert_int_equal(sia_tokenizer_decode(t, ids, 3, text, &bytes, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "token 2 is 300, want ids below 300");
    assert_int_equal(bytes, sizeof text);
    memcpy(text, "....", sizeof text);
    for (size_t room = 0; room < 2; room++) {
        char sentence[80];
        bytes = room;
        assert_int_equal(sia_tokenizer_decode(t, ids, 2, text, &bytes, &err), SIA_ARGUMENT);
        (void)snprintf(sentence, sizeof sentence, "the text of 2 tokens does not fit into %zu bytes: want 2",
                       room);
        assert_string_equal(err.text, sentence);
        assert_int_equal(bytes, 2); /* the room to bring */
        assert_memory_equal(text + room, "....", sizeof text - room);
    }
    assert_int_equal(sia_tokenizer_decode(t, ids, 2, text, &bytes, &err), SIA_OK);
    assert_memory_equal(text, "hi", 2);
    size_t count = 1;
    check(sia_tokenizer_encode(t, "", 0, ids, &count, &err), &err);
    assert_int_equal(count, 0);
    sia_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),          cmocka_unit_test(test_round_trip_random),
        cmocka_unit_test(test_round_trip_books), cmocka_unit_test(test_special),
        cmocka_unit_test(test_merging),          cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_threads),          cmocka_unit_test(test_callers),
        cmocka_unit_test(test_long_word),        cmocka_unit_test(test_decode_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
