/* SPDX-License-Identifier: MIT
 *
 * Reading tokenizers: a table of good and bad tokenizer.json files, each made from a good one by one change,
 * a table of GPT-2's pairs of files, and that no beginning of a good file is taken for one. */
#include "support.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* A good file with 260 tokens: 256 bytes, the merges "t h" (256), "th e" (257), "i n" (258), <|endoftext|>
 * (259). */
static json_t *good(void) {
    json_t *vocab = json_object();
    for (int b = 0; b < 256; b++) {
        char byte = (char)b, text[4];
        (void)sia_bytes_to_text(&byte, 1, text);
        assert_int_equal(json_object_set_new(vocab, text, json_integer(b)), 0);
    }
    json_object_set_new(vocab, "th", json_integer(256));
    json_object_set_new(vocab, "the", json_integer(257));
    json_object_set_new(vocab, "in", json_integer(258));
    json_object_set_new(vocab, SIA_END_OF_TEXT, json_integer(259));
    json_t *root =
        json_pack("{s:s, s:[{s:i, s:s, s:b}], s:n, s:{s:s, s:b, s:b}, s:n, s:{s:s}, s:{s:s, s:o, s:[s,s,s]}}",
                  "version", "1.0", "added_tokens", "id", 259, "content", SIA_END_OF_TEXT, "special", 1,
                  "normalizer", "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 1,
                  "post_processor", "decoder", "type", "ByteLevel", "model", "type", "BPE", "vocab", vocab,
                  "merges", "t h", "th e", "i n");
    assert_non_null(root);
    return root;
}

/* Sets the value at "a/b/c"; a number is a place in a list. NULL removes it. */
static void change(json_t *root, const char *path, const char *value) {
    char copy[128], *rest = NULL;
    (void)snprintf(copy, sizeof copy, "%s", path);
    char *key = strtok_r(copy, "/", &rest);
    for (char *next; (next = strtok_r(NULL, "/", &rest)); key = next)
        root = json_is_array(root) ? json_array_get(root, (size_t)atoi(key)) : json_object_get(root, key);
    json_t *changed = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    if (!value)
        assert_int_equal(
            json_is_array(root) ? json_array_remove(root, (size_t)atoi(key)) : json_object_del(root, key), 0);
    else if (json_is_array(root)) {
        size_t place = (size_t)atoi(key);
        assert_int_equal(place == json_array_size(root) ? json_array_append_new(root, changed)
                                                        : json_array_set_new(root, place, changed),
                         0);
    } else
        assert_int_equal(json_object_set_new(root, key, changed), 0);
}

static const struct {
    const char *path, *value, *sentence; /* sentence NULL: the file is good all the same */
} changes[] = {
    {"version", "\"1.0\"", NULL},
    {"model/type", NULL, NULL},
    {"model/merges/1", "[\"th\", \"e\"]", NULL},
    {"model/dropout", "0.0", NULL},
    {"model/dropout", "null", NULL},
    {"model/end_of_word_suffix", "\"\"", NULL},
    {"model/unk_token", "\"<unk>\"", NULL},
    {"model/vocab/<|endoftext|>", NULL, NULL}, /* in added_tokens alone */
    {"decoder", "null", NULL},
    {"padding", "{\"strategy\": \"BatchLongest\"}", NULL},
    {"model/type", "\"WordPiece\"", "model.type: want BPE"},
    {"model/dropout", "0.1", "model.dropout: want none"},
    {"model/continuing_subword_prefix", "\"##\"", "model.continuing_subword_prefix: want none"},
    {"model/end_of_word_suffix", "\"</w>\"", "model.end_of_word_suffix: want none"},
    {"model/ignore_merges", "true", "model.ignore_merges: want none"},
    {"normalizer", "{\"type\": \"NFC\"}", "normalizer: want none"},
    {"pre_tokenizer", "null", "pre_tokenizer.type: want ByteLevel"},
    {"pre_tokenizer/type", "\"Whitespace\"", "pre_tokenizer.type: want ByteLevel"},
    {"pre_tokenizer/add_prefix_space", "true", "pre_tokenizer.add_prefix_space: want false"},
    {"pre_tokenizer/use_regex", "false", "pre_tokenizer.use_regex: want true"},
    {"post_processor", "{\"type\": \"TemplateProcessing\"}", "post_processor.type: want ByteLevel"},
    {"decoder/type", "\"BPEDecoder\"", "decoder.type: want ByteLevel"},
    {"model", "17", "model.vocab: want an object"},
    {"model/vocab", "[]", "model.vocab: want an object"},
    {"model/merges", "{}", "model.merges: want a list"},
    {"model/vocab/the", "\"257\"", "id is not a whole number"},
    {"model/vocab/the", "-1", "has id -1, want 0 to 259"},
    {"model/vocab/the", "99999999999", "has id 99999999999, want 0 to 259"},
    {"model/vocab/the", "260", "has id 260, want 0 to 259"},
    {"model/vocab/the", "256", "two tokens have id 256"},
    {"model/vocab/the", NULL, "want 0 to 258"},
    {"model/vocab/a", NULL, "want 0 to 258"},
    {"model/vocab/a b", "260", "token 260 has a character that stands for no byte"},
    {"model/vocab/\xe6\xbc\xa2", "260", "token 260 has a character that stands for no byte"},
    {"model/vocab/the", "259", "two tokens have id 259"},
    {"model/vocab/<|endoftext|>", "258", "one id in added_tokens and another in vocab"},
    {"model/merges/0", "\"th\"", "merge 0: want two tokens with a space between"},
    {"model/merges/0", "\"t h e\"", "merge 0: want two tokens with a space between"},
    {"model/merges/0", "\" h\"", "merge 0: want two tokens with a space between"},
    {"model/merges/0", "17", "merge 0: want two tokens"},
    {"model/merges/0", "[\"t\"]", "merge 0: want two tokens"},
    {"model/merges/1", "\"th x\"", "merge 1: its result is not in the vocabulary"},
    {"model/merges/1", "\"zzz e\"", "merge 1: its left part is not in the vocabulary"},
    {"model/merges/1", "\"e zzz\"", "merge 1: its right part is not in the vocabulary"},
    {"model/merges/2", "\"t h\"", "merge 2 is also merge 0"},
    {"added_tokens", "17", "added_tokens: want a list"},
    {"added_tokens/0", "17", "added_tokens[0]: want a content and an id"},
    {"added_tokens/0/special", "false", "added_tokens[0] is not special"},
    {"added_tokens/0/content", "\"\"", "added_tokens[0]: want a content and an id"},
    {"added_tokens/0", NULL, "no special token, want <|endoftext|>"},
    {"added_tokens/1", "{\"id\": 259, \"content\": \"<|endoftext|>\", \"special\": true}",
     "has the name of another one"},
    {"added_tokens/1", "{\"id\": 5, \"content\": \"<pad>\", \"special\": true}", "two tokens have id 5"},
    {"added_tokens/1", "{\"id\": 260, \"content\": \"<pad>\", \"special\": true}", NULL},
    {"added_tokens/1", "{\"id\": 261, \"content\": \"<pad>\", \"special\": true}",
     "has id 261, want 0 to 260"},
};

static void test_json(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
        json_t *root = good();
        change(root, changes[c].path, changes[c].value);
        char *text = json_dumps(root, 0);
        sia_error err = {0};
        sia_tokenizer *t;
        sia_status status = sia_tokenizer_parse(&t, text, strlen(text), &err);
        bool right = changes[c].sentence ? status == SIA_FORMAT && !t && strstr(err.text, changes[c].sentence)
                                         : status == SIA_OK && t;
        if (!right)
            fail_msg("%s = %s: %s, '%s'", changes[c].path, changes[c].value, sia_status_name(status),
                     err.text);
        if (t) {
            uint32_t ids[8];
            size_t count;
            check(sia_tokenizer_encode(t, "thein", 5, ids, &count, &err), &err);
            assert_int_equal(count, 2);
            assert_int_equal(ids[0], 257);
            assert_int_equal(ids[1], 258);
        }
        sia_tokenizer_close(t);
        free(text);
        json_decref(root);
    }
}

static void test_cut_off(void **state) {
    (void)state;
    json_t *root = good();
    char *text = json_dumps(root, 0);
    size_t bytes = strlen(text);
    sia_error err;
    sia_tokenizer *t;
    for (size_t n = 0; n < bytes; n++) {
        /* A copy of exactly that length, so that the sanitizers see a byte read too far. */
        char *part = malloc(n ? n : 1);
        assert_non_null(part);
        memcpy(part, text, n);
        assert_int_equal(sia_tokenizer_parse(&t, part, n, &err), SIA_FORMAT);
        assert_null(t);
        free(part);
    }
    static const char *const other[] = {"",
                                        "[]",
                                        "17",
                                        "{}",
                                        "null",
                                        "{\"model\": {}}",
                                        "{\"a\": 1, \"a\": 2}",
                                        "\xff\xfe",
                                        "{\"a\": \"\\u0000\"}"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_int_equal(sia_tokenizer_parse(&t, other[i], strlen(other[i]), &err), SIA_FORMAT);
    size_t deep = 100000;
    char *nested = malloc(deep);
    assert_non_null(nested);
    memset(nested, '[', deep);
    assert_int_equal(sia_tokenizer_parse(&t, nested, deep, &err), SIA_FORMAT);
    free(nested);
    free(text);
    json_decref(root);
}

static const struct {
    const char *merges, *sentence;
} merge_files[] = {
    {"#version: 0.2\nt h\nth e\ni n\n", NULL},
    {"t h\nth e\ni n", NULL},
    {"#version: 0.2\r\nt h\r\nth e\r\ni n\r\n", NULL},
    {"", NULL},
    {"#version: 0.2\nt h\n\n\nth e\n", NULL},
    {"t h\nth\n", "vocab.bpe: merge 1: want two tokens with a space between"},
    {"t  h\n", "merge 0: want two tokens"},
    {"t h\nt h\n", "merge 1 is also merge 0"},
    {"q q\n", "merge 0: its result is not in the vocabulary"},
    {"<|endoftext |>\n", "merge 0: its left part is not in the vocabulary"},
    {"# comment\n", "merge 0: its right part is not in the vocabulary"},
};

static void test_gpt2(void **state) {
    (void)state;
    json_t *root = good();
    char *encoder = json_dumps(json_object_get(json_object_get(root, "model"), "vocab"), 0);
    sia_error err;
    sia_tokenizer *t;
    for (size_t c = 0; c < sizeof merge_files / sizeof *merge_files; c++) {
        err.text[0] = 0;
        sia_status status =
            sia_tokenizer_parse_gpt2(&t, "encoder.json", encoder, strlen(encoder), "vocab.bpe",
                                     merge_files[c].merges, strlen(merge_files[c].merges), &err);
        if (merge_files[c].sentence ? status != SIA_FORMAT || t || !strstr(err.text, merge_files[c].sentence)
                                    : status != SIA_OK)
            fail_msg("'%s': '%s'", merge_files[c].merges, err.text);
        sia_tokenizer_close(t);
    }
    assert_int_equal(sia_tokenizer_parse_gpt2(&t, "e", encoder, strlen(encoder), "v", "t\0h i\n", 6, &err),
                     SIA_FORMAT);
    assert_int_equal(sia_tokenizer_parse_gpt2(&t, "encoder.json", "{}", 2, "v", "", 0, &err), SIA_FORMAT);
    assert_string_equal(err.text, "encoder.json: no token <|endoftext|>");
    assert_int_equal(
        sia_tokenizer_parse_gpt2(&t, "encoder.json", "{\"<|endoftext|>\": 0}", 20, "v", "", 0, &err),
        SIA_FORMAT);
    assert_non_null(strstr(err.text, "no token for byte"));
    free(encoder);
    json_decref(root);
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[256];
    sia_error err;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    check(sia_file_replace(path, text, strlen(text), &err), &err);
}

static void remove_file(const char *folder, const char *name) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)remove(path);
}

/* What sia_tokenizer_open looks for in a folder, under which names. */
static void test_folders(void **state) {
    (void)state;
    char folder[] = "/tmp/sia-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    json_t *root = good();
    char *json = json_dumps(root, 0),
         *encoder = json_dumps(json_object_get(json_object_get(root, "model"), "vocab"), 0);
    static const char *const pairs[][2] = {{"encoder.json", "vocab.bpe"}, {"vocab.json", "merges.txt"}};
    sia_error err;
    sia_tokenizer *t;
    assert_int_equal(sia_tokenizer_open(&t, folder, &err), SIA_FILE);
    assert_non_null(strstr(err.text, "holds neither tokenizer.json nor encoder.json and vocab.bpe"));
    for (int i = 0; i < 2; i++) {
        write_file(folder, pairs[i][0], encoder);
        assert_int_equal(sia_tokenizer_open(&t, folder, &err), SIA_FILE);
        write_file(folder, pairs[i][1], "t h\n");
        check(sia_tokenizer_open(&t, folder, &err), &err);
        assert_int_equal(sia_tokenizer_merges(t), 1);
        sia_tokenizer_close(t);
        remove_file(folder, pairs[i][0]);
        remove_file(folder, pairs[i][1]);
    }
    write_file(folder, "tokenizer.json", json);
    check(sia_tokenizer_open(&t, folder, &err), &err);
    assert_int_equal(sia_tokenizer_merges(t), 3);
    sia_tokenizer_close(t);
    write_file(folder, "tokenizer.json", "");
    assert_int_equal(sia_tokenizer_open(&t, folder, &err), SIA_FORMAT);
    assert_non_null(strstr(err.text, "the file is empty"));
    remove_file(folder, "tokenizer.json");
    (void)rmdir(folder);
    assert_int_equal(sia_tokenizer_open(&t, folder, &err), SIA_FILE);
    assert_non_null(strstr(err.text, "No such file or directory"));
    free(json);
    free(encoder);
    json_decref(root);
}

/* The builder that all readers use: bytes 0 to 255, "th" (256), <|endoftext|> (257), one merge; a change by `step`. */
static sia_status build(int step, sia_tokenizer **t, sia_error *err) {
    sia_status status = sia_vocabulary_create(t, "made",
                                              step == 1   ? SIA_VOCABULARY_MAX + 1
                                              : step == 9 ? 259
                                                          : 258,
                                              1, err);
    for (uint32_t b = 0; !status && b < 256; b++) {
        char byte = (char)b;
        status = sia_vocabulary_set(*t, b, &byte, 1, err);
    }
    if (!status && step == 2) status = sia_vocabulary_set(*t, 258, "x", 1, err);
    if (!status && step == 3) status = sia_vocabulary_set(*t, 256, "x", SIA_TOKENIZER_FILE_MAX, err);
    if (!status && step != 4)
        status = sia_vocabulary_set(*t, 256,
                                    step == 5   ? "a"
                                    : step == 6 ? "tx"
                                                : "th",
                                    step == 5 ? 1 : 2, err);
    if (!status) status = sia_vocabulary_set_special(*t, 257, SIA_END_OF_TEXT, err);
    if (!status && step == 9) status = sia_vocabulary_set_special(*t, 258, SIA_END_OF_TEXT, err);
    if (!status)
        status = sia_vocabulary_set_merge(*t, step == 10,
                                          step == 7   ? 258
                                          : step == 8 ? 257
                                                      : 't',
                                          'h', 256, err);
    return status ? status : sia_vocabulary_finish(*t, err);
}

static void test_builder(void **state) {
    (void)state;
    static const char *const sentences[] = {
        NULL,
        "made: 1000001 tokens and 1 merges, want at most 1000000 of each",
        "made: a token has id 258, want ids below the number of tokens, 258",
        "made: token 256 is too long",
        "made: no token has id 256, want ids without gaps",
        "made: tokens 97 and 256 are the same byte",
        "made: merge 0 (116, 104) does not give token 256",
        "made: merge 0 (258, 104 to 256): no such token",
        "made: merge 0 uses a special token",
        "made: two tokens are named <|endoftext|>",
        "made: merge 1 (116, 104 to 256): no such token",
    };
    for (int step = 0; step < (int)(sizeof sentences / sizeof *sentences); step++) {
        sia_tokenizer *t;
        sia_error err;
        sia_status status = build(step, &t, &err);
        assert_int_equal(status, sentences[step] ? SIA_FORMAT : SIA_OK);
        if (sentences[step]) assert_string_equal(err.text, sentences[step]);
        sia_tokenizer_close(t);
    }
}

/* Bytes as characters: all 256, there and back, and characters that stand for none. */
static void test_characters(void **state) {
    (void)state;
    char bytes[256], text[513], back[513];
    size_t length;
    for (int b = 0; b < 256; b++) bytes[b] = (char)b;
    size_t used = sia_bytes_to_text(bytes, 256, text);
    assert_int_equal(used, strlen(text));
    assert_true(sia_text_to_bytes(text, back, &length));
    assert_int_equal(length, 256);
    assert_memory_equal(bytes, back, 256);
    (void)sia_bytes_to_text(" \n\xad", 3, text);
    assert_string_equal(text, "\xc4\xa0\xc4\x8a\xc5\x83"); /* as in GPT-2's files: U+0120, U+010A, U+0143 */
    static const char *const none[] = {" ",        "a b",  "\xc5\x84", "\xe6\xbc\xa2",
                                       "\xc2\xad", "\x7f", "\xff",     "\xc3"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(sia_text_to_bytes(none[i], back, &length));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),    cmocka_unit_test(test_cut_off),    cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_folders), cmocka_unit_test(test_characters), cmocka_unit_test(test_builder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
