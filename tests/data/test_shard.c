/* SPDX-License-Identifier: MIT
 *
 * Shards and corpora: what is written is read back, and every broken file is refused with the sentence that
 * says why. */
#include "support.h"

#include "base/sha256.h"
#include "data/manifest.h"
#include "data/shard.h"

static void test_sha256(void **state) {
    (void)state;
    char text[SIA_SHA256_TEXT], *million = malloc(1000000);
    memset(million, 'a', 1000000);
    const struct {
        const char *bytes;
        size_t size;
        const char *sum;
    } cases[] = {
        {"", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {million, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {million, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {million, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(sia_sha256(cases[i].bytes, cases[i].size, text), cases[i].sum);
    free(million);
}

/* ----------------------------------------------------------------------------------------- broken files */

typedef struct broken {
    const char *what;
    int32_t magic, version, count;
    int tokens;       /* in the file */
    int cut;          /* bytes less than that */
    uint16_t largest; /* one token, the fourth */
    const char *sentence;
} broken;

static const broken broken_shards[] = {
    {"right", 20240520, 1, 10, 10, 0, 50256, NULL},
    {"right and empty", 20240520, 1, 0, 0, 0, 0, NULL},
    {"wrong magic", 20240521, 1, 10, 10, 0, 0,
     "not a token shard: its first number is 20240521, want 20240520"},
    {"big-endian magic", -663997183, 1, 10, 10, 0, 0, "not a token shard"},
    {"wrong version", 20240520, 2, 10, 10, 0, 0, "shard of version 2: want version 1"},
    {"count too large", 20240520, 1, 11, 10, 0, 0, "header says 11 tokens, file holds 10"},
    {"count too small", 20240520, 1, 9, 10, 0, 0, "header says 9 tokens, file holds 10"},
    {"count below zero", 20240520, 1, -1, 10, 0, 0, "header says -1 tokens"},
    {"count enormous", 20240520, 1, INT32_MAX, 10, 0, 0, "header says 2147483647 tokens, file holds 10"},
    {"cut tail", 20240520, 1, 10, 10, 4, 0, "header says 10 tokens, file holds 8"},
    {"cut inside a token", 20240520, 1, 10, 10, 1, 0, "header says 10 tokens, file holds 9 and half of one"},
    {"cut inside the header", 20240520, 1, 10, 10, 100, 0,
     "944 bytes: want a token shard, whose header alone has 1024"},
    {"no file at all", 20240520, 1, 10, 0, 1024, 0, "0 bytes: want a token shard"},
    {"outside the vocabulary", 20240520, 1, 10, 10, 0, 50257, "token 3 is 50257: want below 50257"},
    {"last id", 20240520, 1, 10, 10, 0, 65535, "token 3 is 65535: want below 50257"},
};

static size_t build(const broken *b, char *file) {
    int32_t header[256] = {b->magic, b->version, b->count};
    uint16_t tokens[16] = {50256, 1, 2};
    if (b->largest) tokens[3] = b->largest;
    memcpy(file, header, sizeof header);
    memcpy(file + sizeof header, tokens, sizeof tokens);
    return sizeof header + 2 * (size_t)b->tokens - (size_t)b->cut;
}

static void test_broken_shards(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof broken_shards / sizeof *broken_shards; i++) {
        const broken *b = &broken_shards[i];
        char file[2048] = {0};
        sia_error err = {0};
        sia_corpus *c = NULL;
        char *path = write_file("shard.bin", file, build(b, file));
        sia_status status = sia_corpus_open(&c, path, &(sia_corpus_config){.scan = 1}, &err);
        print_message("  %-24s %s\n", b->what, status ? strrchr(err.text, '/') + 1 : "read");
        if (!b->sentence) {
            assert_int_equal(status, SIA_OK);
            assert_int_equal(sia_corpus_tokens(c), b->count);
        } else {
            assert_int_equal(status, SIA_FORMAT);
            assert_null(c);
            assert_sentence(&err, b->sentence);
        }
        sia_corpus_close(c);
    }
}

/* Without a scan a token is checked when it is read, and not before. */
static void test_outside_when_read(void **state) {
    (void)state;
    char file[2048] = {0};
    uint32_t ids[10];
    sia_error err;
    sia_corpus *c;
    OK(sia_corpus_open(&c, write_file("outside.bin", file, build(&broken_shards[13], file)), NULL, &said));
    OK(sia_corpus_read(c, 0, 3, ids, &said));
    OK(sia_corpus_read(c, 4, 6, ids, &said));
    assert_int_equal(sia_corpus_read(c, 2, 4, ids, &err), SIA_FORMAT);
    assert_sentence(&err, "outside.bin: token 3 is 50257: want below 50257");
    assert_int_equal(sia_corpus_read(c, 5, 6, ids, &err), SIA_ARGUMENT);
    assert_sentence(&err, "6 tokens from 5 on: the corpus has 10");
    assert_int_equal(sia_corpus_read(c, -1, 1, ids, &err), SIA_ARGUMENT);
    assert_int_equal(sia_corpus_read(c, 1, INT64_MAX, ids, &err), SIA_ARGUMENT);
    sia_corpus_close(c);
}

/* The first token that is outside, in any of the blocks that are looked at one by one. */
static void test_outside_anywhere(void **state) {
    (void)state;
    enum { TOKENS = 10000 };
    static const int64_t places[] = {0, 1, 4095, 4096, 8191, 8192, TOKENS - 1};
    static uint16_t tokens[TOKENS];
    assert_int_equal(sia_shard_outside(tokens, TOKENS, 100), TOKENS);
    for (int i = sizeof places / sizeof *places - 1; i >= 0; i--) { /* those behind it stay */
        tokens[places[i]] = 100;
        assert_int_equal(sia_shard_outside(tokens, TOKENS, 100), places[i]);
        assert_int_equal(sia_shard_outside(tokens, TOKENS, 101), TOKENS);
    }
}

/* ---------------------------------------------------------------------------------------- whole corpora */

static void write_shard(const char *name, const uint32_t *ids, size_t count) {
    sia_shard_writer *w;
    OK(sia_shard_create(&w, in_scratch(name), &said));
    for (size_t i = 0; i < count; i += 3) OK(sia_shard_add(w, ids + i, count - i < 3 ? count - i : 3, &said));
    assert_false(exists(in_scratch(name)));
    OK(sia_shard_finish(w, &said));
}

/* Three shards, one of them empty, with a document over their border, are one sequence. */
static void test_pattern(void **state) {
    (void)state;
    static const uint32_t all[] = {5, 99, 1, 2, 3, 99, 4, 5, 6, 7, 8, 99, 9};
    static const struct { int64_t first, count; } documents[] = {{0, 1}, {1, 4}, {5, 6}, {11, 2}};
    sia_corpus *c;
    uint32_t ids[13];
    sia_error err;
    write_shard("part_1.bin", all, 7);
    write_shard("part_2.bin", all, 0);
    write_shard("part_3.bin", all + 7, 6);
    sia_corpus_config config = {.vocabulary = 100, .end_of_text = 99, .scan = 1};
    OK(sia_corpus_open(&c, in_scratch("part_*.bin"), &config, &said));
    assert_int_equal(sia_corpus_tokens(c), 13);
    assert_int_equal(sia_corpus_shards(c), 3);
    assert_int_equal(sia_corpus_documents(c), 4);
    for (int64_t first = 0; first < 13; first++)
        for (int64_t count = 0; first + count <= 13; count++) {
            OK(sia_corpus_read(c, first, count, ids, &said));
            assert_memory_equal(ids, all + first, (size_t)count * sizeof *ids);
        }
    for (int64_t i = 0; i < 4; i++) {
        int64_t first, count;
        OK(sia_corpus_document(c, i, &first, &count, &said));
        assert_int_equal(first, documents[i].first);
        assert_int_equal(count, documents[i].count);
    }
    sia_corpus_close(c);
    assert_int_equal(sia_corpus_open(&c, in_scratch("nothing_*.bin"), NULL, &err), SIA_FILE);
    assert_sentence(&err, "no file matches");
    assert_int_equal(symlink("loop", in_scratch("loop")), 0);
    assert_int_equal(sia_corpus_open(&c, in_scratch("loop/*.bin"), NULL, &err), SIA_FILE);
    assert_sentence(&err, "loop/*.bin: a folder could not be read");
    static const char *const many[] = {"*/part_1.bin", "d?/../part_*.bin", "[a-z]*/../part_1.bin"};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        assert_int_equal(sia_corpus_open(&c, in_scratch(many[i]), NULL, &err), SIA_ARGUMENT);
        assert_sentence(&err, "in the names of files alone, not of folders");
    }
    assert_int_equal(sia_corpus_open(&c, in_scratch("nothing.bin"), NULL, &err), SIA_FILE);
    assert_sentence(&err, "No such file");
    assert_int_equal(sia_corpus_open(&c, scratch, NULL, &err), SIA_FILE);
    assert_sentence(&err, "data.json");
}

static void test_shard_limits(void **state) {
    (void)state;
    sia_shard_writer *w;
    sia_error err;
    OK(sia_shard_create(&w, in_scratch("limits.bin"), &said));
    assert_int_equal(sia_shard_add(w, (uint32_t[]){65536}, 1, &err), SIA_ARGUMENT);
    assert_sentence(&err, "token 65536: a shard holds tokens below 65536");
    assert_int_equal(sia_shard_add(w, NULL, (size_t)SIA_SHARD_MOST + 1, &err),
                     SIA_ARGUMENT); /* before it is read */
    assert_sentence(&err, "a shard of more than 2147483647 tokens");
    sia_shard_abandon(w);
    assert_false(exists(in_scratch("limits.bin")));
}

static void test_fineweb_like(void **state) {
    (void)state;
    (void)need_real_data("fineweb-like.bin");
    sia_corpus *c;
    OK(sia_corpus_open(&c, real_data("fineweb-like.bin"), &(sia_corpus_config){.scan = 1}, &said));
    assert_int_equal(sia_corpus_tokens(c), 7148);
    assert_int_equal(sia_corpus_documents(c), 5);
    int64_t first, count, total = 0;
    uint32_t id;
    for (int64_t i = 0; i < 5; i++) {
        OK(sia_corpus_document(c, i, &first, &count, &said));
        OK(sia_corpus_read(c, first, 1, &id, &said));
        assert_int_equal(id, 50256);
        assert_int_equal(first, total);
        total += count;
        print_message("  document %d: %d tokens\n", (int)i, (int)count);
    }
    assert_int_equal(total, 7148);
    sia_corpus_close(c);
}

/* Each document, decoded and encoded again, is the same tokens: the shard holds text, cut where documents
 * start. */
static void test_fineweb_like_text(void **state) {
    (void)state;
    (void)need_real_data("fineweb-like.bin");
    (void)need_real_data("gpt2-tokenizer");
    sia_corpus *c;
    sia_tokenizer *t;
    OK(sia_tokenizer_open(&t, real_data("gpt2-tokenizer"), &said));
    OK(sia_corpus_open(&c, real_data("fineweb-like.bin"), &(sia_corpus_config){.tokenizer = t, .scan = 1},
                       &said));
    static uint32_t ids[8192], again[65536];
    static char text[65536];
    for (int64_t i = 0; i < 5; i++) {
        int64_t first, count;
        size_t bytes = sizeof text, back;
        OK(sia_corpus_document(c, i, &first, &count, &said));
        OK(sia_corpus_read(c, first, count, ids, &said));
        OK(sia_tokenizer_decode(t, ids + 1, (size_t)count - 1, text, &bytes, &said));
        OK(sia_tokenizer_encode(t, text, bytes, again, &back, &said));
        assert_int_equal(back, count - 1);
        assert_memory_equal(again, ids + 1, back * sizeof *ids);
        print_message("  \"%.50s...\"\n", text);
    }
    sia_corpus_close(c);
    sia_tokenizer_close(t);
}

/* -------------------------------------------------------------------------------------------- data.json */

#define SUM "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define TOKENIZER                                                                                           \
    "\"tokenizer\": {\"file\": \"tokenizer.json\", \"vocabulary\": 300, \"end_of_text\": 299, \"sha256\": " \
    "\"" SUM "\"}"
#define PART(tokens, file)                                                                     \
    "{\"tokens\": " tokens ", \"documents\": 1, \"bytes\": 2, \"shards\": [{\"file\": \"" file \
    "\", \"tokens\": 9, \"sha256\": \"" SUM "\"}]}"
#define HEAD "{\"format\": \"sia data\", \"version\": 1, "

static void test_manifests(void **state) {
    (void)state;
    static const struct {
        const char *json, *sentence;
    } cases[] = {
        {HEAD TOKENIZER ", \"train\": " PART("9", "a.bin") "}", NULL},
        {HEAD TOKENIZER ", \"train\": " PART("9", "a.bin") ", \"val\": " PART("9", "b.bin") "}", NULL},
        {"", "line 1"},
        {"{\"format\": ", "line 1"},
        {"[]", "not written by 'sia data pack'"},
        {"{\"format\": \"sia data\", \"version\": 2, " TOKENIZER "}", "version 2: want 1"},
        {HEAD "\"train\": 1}", "\"tokenizer\": \"file\": want \"tokenizer.json\""},
        {HEAD "\"tokenizer\": {\"file\": \"tokenizer.json\"}, \"train\": 1}",
         "\"vocabulary\": want a whole number"},
        {HEAD TOKENIZER "}", "\"train\": want an object"},
        {HEAD TOKENIZER ", \"train\": " PART("8", "a.bin") "}", "says 8 tokens, its shards have 9"},
        {HEAD TOKENIZER ", \"train\": " PART("-9", "a.bin") "}", "\"tokens\" is -9: want 0 to"},
        {HEAD TOKENIZER ", \"train\": " PART("9.5", "a.bin") "}", "\"tokens\": want a whole number"},
        {HEAD TOKENIZER ", \"train\": " PART("9", "../a.bin") "}",
         "want the name of a file in the same folder"},
        {HEAD TOKENIZER ", \"train\": " PART("9", "/etc/passwd") "}",
         "want the name of a file in the same folder"},
        {HEAD TOKENIZER ", \"train\": " PART("9", "") "}", "\"file\": want a text"},
        {HEAD TOKENIZER ", \"train\": {\"tokens\": 0, \"documents\": 0, \"bytes\": 0}}",
         "\"shards\": want an array"},
        {"{\"format\": \"sia data\", \"format\": \"x\"}", "duplicate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_manifest m;
        sia_error err = {0};
        sia_status status = sia_manifest_parse(&m, cases[i].json, strlen(cases[i].json), "data.json", &err);
        if (cases[i].sentence) {
            assert_int_equal(status, SIA_FORMAT);
            assert_sentence(&err, cases[i].sentence);
        } else if (status) {
            fail_msg("%s", err.text);
        }
        sia_manifest_free(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_broken_shards),
        cmocka_unit_test(test_outside_when_read),
        cmocka_unit_test(test_outside_anywhere),
        cmocka_unit_test(test_pattern),
        cmocka_unit_test(test_shard_limits),
        cmocka_unit_test(test_fineweb_like),
        cmocka_unit_test(test_fineweb_like_text),
        cmocka_unit_test(test_manifests),
    };
    return cmocka_run_group_tests_name("shard", tests, scratch_create, scratch_destroy);
}
