/* SPDX-License-Identifier: MIT
 *
 * Packing: documents come back byte for byte, in order, whatever the size of a shard; and the command
 * refuses bad input with a sentence and leaves nothing behind. */
#include "support.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "data/pack.h"
#include "data/shard.h"
#include "text/tokenizer.h"

static sia_tokenizer *tokenizer;

static int create(void **state) {
    if (scratch_create(state)) return -1;
    tokenizer = small_tokenizer(400);
    return sia_tokenizer_save(tokenizer, in_scratch("tokenizer.json"), NULL);
}

static int destroy(void **state) {
    sia_tokenizer_close(tokenizer);
    return scratch_destroy(state);
}

/* The documents of a part, each as `[text]`. */
static char *unpack(const char *folder, const char *part) {
    static char out[1 << 20];
    size_t used = 0;
    sia_corpus *c;
    OK(sia_corpus_open(&c, folder, &(sia_corpus_config){.part = part, .tokenizer = tokenizer, .scan = 1},
                       &said));
    for (int64_t i = 0; i < sia_corpus_documents(c); i++) {
        int64_t first, count;
        OK(sia_corpus_document(c, i, &first, &count, &said));
        uint32_t *ids = malloc((size_t)count * sizeof *ids);
        OK(sia_corpus_read(c, first, count, ids, &said));
        assert_int_equal(ids[0], sia_tokenizer_end_of_text(tokenizer));
        size_t bytes = sizeof out - used - 3;
        out[used++] = '[';
        OK(sia_tokenizer_decode(tokenizer, ids + 1, (size_t)count - 1, out + used, &bytes, &said));
        used += bytes;
        out[used++] = ']';
        free(ids);
    }
    out[used] = 0;
    sia_corpus_close(c);
    return out;
}

static sia_status pack(const char *folder, sia_pack_options options, const char *train, const char *val,
                       bool *tails) {
    sia_inputs inputs[2] = {{0}};
    sia_manifest m = {0};
    sia_status status = sia_inputs_add(&inputs[0], train, false, &said);
    if (!status && val) status = sia_inputs_add(&inputs[1], val, false, &said);
    options.tokenizer = tokenizer;
    options.folder = folder;
    options.inputs[0] = &inputs[0];
    options.inputs[1] = val ? &inputs[1] : NULL;
    options.threads = 1;
    if (!options.shard_tokens) options.shard_tokens = 1000000;
    if (!status) status = sia_pack(&options, &m, tails, &said);
    sia_manifest_free(&m);
    sia_inputs_free(&inputs[0]);
    sia_inputs_free(&inputs[1]);
    return status;
}

static void test_documents(void **state) {
    (void)state;
    static const struct {
        const char *text, *train, *val; /* val NULL: no such part */
        double fraction;
        bool whole, tails;
    } cases[] = {
        {"one", "[one]", NULL, 0, false, false},
        {"one\n\f\ntwo\n", "[one\n][two\n]", NULL, 0, false, false},
        {"one\n\f\r\ntwo\n\f", "[one\n][two\n]", NULL, 0, false, false},
        {"\f\n\f\none\n\f\n \n\f\n", "[one\n]", NULL, 0, false, false},
        {"a\fb\n\fc\nd\f\ne", "[a\fb\n\fc\nd\f\ne]", NULL, 0, false, false},
        {"one\n\f\ntwo\n", "[one\n\f\ntwo\n]", NULL, 0, true, false},
        {"<|endoftext|> stays text", "[<|endoftext|> stays text]", NULL, 0, false, false},
        {"\xff\xfe not UTF-8 but mostly text, so it is taken as it is",
         "[\xff\xfe not UTF-8 but mostly text, so it is taken as it is]", NULL, 0, false, false},
        {"1\n\f\n2\n\f\n3\n\f\n4\n", "[1\n][3\n]", "[2\n][4\n]", 0.5, false, false},
        {"1\n\f\n2\n\f\n3\n\f\n4\n", "[1\n][2\n][3\n]", "[4\n]", 0.25, false, false},
        {"1\n\f\n2\n\f\n3\n\f\n4\n\f\n5\n\f\n6\n\f\n7\n", "[1\n][2\n][3\n][5\n][6\n]", "[4\n][7\n]", 0.3,
         false, false},
        {"first line\nsecond line\nlast\n", "[first line\nsecond line\n]", "[last\n]", 0.2, false, true},
        {"a b c d e f g h", "[a b c d e f ]", "[g h]", 0.25, false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int64_t shard_tokens = 1; shard_tokens <= 1000; shard_tokens = shard_tokens * 3 + 1) {
            bool tails = false;
            char *folder = in_scratch("packed"), command[600];
            write_text("in.txt", cases[i].text);
            sia_pack_options options = {.whole_files = cases[i].whole, .val_fraction = cases[i].fraction};
            options.shard_tokens = shard_tokens;
            OK(pack(folder, options, in_scratch("in.txt"), NULL, &tails));
            assert_int_equal(tails, cases[i].tails);
            assert_string_equal(unpack(folder, "train"), cases[i].train);
            if (cases[i].val) assert_string_equal(unpack(folder, "val"), cases[i].val);
            sia_manifest m = {0};
            OK(sia_manifest_read(&m, folder, &said));
            OK(sia_manifest_verify(&m, folder, &said));
            assert_int_equal(m.parts[1].shard_count > 0, cases[i].val != NULL);
            for (int64_t s = 0; s < m.parts[0].shard_count; s++)
                assert_true(m.parts[0].shards[s].tokens <= shard_tokens);
            sia_manifest_free(&m);
            (void)snprintf(command, sizeof command, "rm -r '%s'", folder);
            assert_int_equal(system(command), 0);
        }
    }
}

/* Folders are gone through in the order of names, hidden files are left out, and a second input validates. */
static void test_folders(void **state) {
    (void)state;
    bool tails;
    assert_int_equal(mkdir(in_scratch("tree"), 0777), 0);
    assert_int_equal(mkdir(in_scratch("tree/b"), 0777), 0);
    assert_int_equal(mkdir(in_scratch("tree/.git"), 0777), 0);
    write_text("tree/c.txt", "c");
    write_text("tree/B.txt", "B");
    write_text("tree/a.txt", "a");
    write_text("tree/b/2", "b2");
    write_text("tree/b/10", "b10");
    write_text("tree/.hidden", "hidden");
    write_text("tree/.git/x", "hidden");
    write_text("val.txt", "v");
    OK(pack(in_scratch("packed-tree"), (sia_pack_options){0}, in_scratch("tree"), in_scratch("val.txt"),
            &tails));
    assert_string_equal(unpack(in_scratch("packed-tree"), "train"), "[B][a][b10][b2][c]");
    assert_string_equal(unpack(in_scratch("packed-tree"), "val"), "[v]");
    sia_corpus *c;
    sia_error err;
    assert_int_equal(
        sia_corpus_open(&c, in_scratch("packed-tree"), &(sia_corpus_config){.part = "test"}, &err),
        SIA_ARGUMENT);
    assert_sentence(&err, "part \"test\": want train or val");
    sia_corpus_config other = {.vocabulary = 50257, .end_of_text = 50256};
    assert_int_equal(sia_corpus_open(&c, in_scratch("packed-tree"), &other, &err), SIA_FORMAT);
    assert_sentence(&err, "packed for a vocabulary of 400");
    /* A changed shard is found by its checksum. */
    FILE *file = fopen(in_scratch("packed-tree/train_000000.bin"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 1030, SEEK_SET), 0);
    assert_int_equal(fputc(1, file), 1);
    assert_int_equal(fclose(file), 0);
    sia_manifest m;
    OK(sia_manifest_read(&m, in_scratch("packed-tree"), &said));
    assert_int_equal(sia_manifest_verify(&m, in_scratch("packed-tree"), &err), SIA_FORMAT);
    assert_sentence(&err, "the file has changed");
    sia_manifest_free(&m);
}

/* data.json is believed in nothing: each field that is changed is found, and named. */
static void test_manifest(void **state) {
    (void)state;
    static const struct {
        const char *was, *becomes, *sentence;
    } cases[] = {
        {"\"version\": 1", "\"version\": 1", NULL},
        {"\"version\": 1", "\"version\": 2", "data.json: version 2: want 1"},
        {"\"file\": \"tokenizer.json\"", "\"file\": \"t.json\"", "\"file\": want \"tokenizer.json\""},
        {"\"vocabulary\": 400", "\"vocabulary\": 401",
         "data.json: \"tokenizer\": \"vocabulary\" is 401: tokenizer.json has 400"},
        {"\"end_of_text\": 399", "\"end_of_text\": 3",
         "data.json: \"tokenizer\": \"end_of_text\" is 3: tokenizer.json has 399"},
        {"\"documents\": 2", "\"documents\": 3", "\"train\": \"documents\" is 3: its shards have 2"},
        {"\"bytes\": 8", "\"bytes\": 9", "\"train\": \"bytes\" is 9: the text of its tokens has 8"},
        {"\"documents\": 1", "\"documents\": 0", "\"val\": \"documents\" is 0: its shards have 1"},
        {"\"bytes\": 5", "\"bytes\": 50", "\"val\": \"bytes\" is 50: the text of its tokens has 5"},
        {"\"tokens\": ", "\"tokens\": 1", "\"train\" says 1"},
        {"\"sha256\": \"", "\"sha256\": \"0", "\"sha256\": want a text of 1 to 64 bytes"},
        {"train_000000.bin", "val_000000.bin", "the file has changed"},
    };
    bool tails;
    sia_map map;
    write_text("in.txt", "one\n\f\ntwo\n");
    write_text("held.txt", "three");
    OK(pack(in_scratch("claims"), (sia_pack_options){0}, in_scratch("in.txt"), in_scratch("held.txt"),
            &tails));
    OK(sia_map_open(&map, in_scratch("claims/data.json"), &said));
    char *json = strndup(map.bytes, map.size), changed[8192];
    sia_map_close(&map);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = strstr(json, cases[i].was);
        assert_non_null(at);
        (void)snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - json), json, cases[i].becomes,
                       at + strlen(cases[i].was));
        write_text("claims/data.json", changed);
        sia_manifest m = {0};
        sia_error err;
        sia_status status = sia_manifest_read(&m, in_scratch("claims"), &err);
        if (!status) status = sia_manifest_verify(&m, in_scratch("claims"), &err);
        assert_int_equal(status, cases[i].sentence ? SIA_FORMAT : SIA_OK);
        if (cases[i].sentence) assert_sentence(&err, cases[i].sentence);
        sia_manifest_free(&m);
    }
    free(json);
}

/* data.json against its shards: a number of tokens, or a token, that is not what it says. */
static void test_claims(void **state) {
    (void)state;
    bool tails;
    sia_map map;
    sia_manifest m;
    sia_corpus *c;
    sia_error err;
    write_text("in.txt", "one\n\f\ntwo\n");
    OK(pack(in_scratch("said"), (sia_pack_options){0}, in_scratch("in.txt"), NULL, &tails));
    assert_int_equal(sia_corpus_open(&c, in_scratch("said"), &(sia_corpus_config){.part = "val"}, &err),
                     SIA_FORMAT);
    assert_sentence(&err, "said: has no part \"val\"");
    OK(sia_manifest_read(&m, in_scratch("said"), &said));
    int64_t tokens = m.parts[0].shards[0].tokens;

    m.parts[0].shards[0].tokens = m.parts[0].tokens = tokens + 1;
    OK(sia_manifest_write(&m, in_scratch("said"), &said));
    char sentence[100];
    (void)snprintf(sentence, sizeof sentence, "train_000000.bin: data.json says %d tokens, file holds %d",
                   (int)tokens + 1, (int)tokens);
    assert_int_equal(sia_manifest_verify(&m, in_scratch("said"), &err), SIA_FORMAT);
    assert_sentence(&err, sentence);
    assert_int_equal(sia_corpus_open(&c, in_scratch("said"), NULL, &err), SIA_FORMAT);
    assert_sentence(&err, sentence);

    /* A token that the vocabulary does not have, under a checksum that is right. */
    m.parts[0].shards[0].tokens = m.parts[0].tokens = tokens;
    char *path = in_scratch("said/train_000000.bin");
    OK(sia_map_open(&map, path, &said));
    char *bytes = malloc(map.size);
    size_t size = map.size;
    memcpy(bytes, map.bytes, size);
    sia_map_close(&map);
    bytes[size - 1] = 2; /* the last token: at least 512 */
    (void)write_file("said/train_000000.bin", bytes, size);
    free(bytes);
    OK(sia_file_sha256(path, m.parts[0].shards[0].sha256, &said));
    assert_int_equal(sia_manifest_verify(&m, in_scratch("said"), &err), SIA_FORMAT);
    (void)snprintf(sentence, sizeof sentence, "train_000000.bin: token %d is 5", (int)tokens - 1);
    assert_sentence(&err, sentence);
    assert_sentence(&err, "want below 400");
    sia_manifest_free(&m);
}

static int stop(void *context, const char *phase, double done) {
    (void)context, (void)phase, (void)done;
    return 1;
}

/* A text in which no cut is safe for longer than a chunk: it is one chunk, and every byte of it is there. */
static void test_without_a_cut(void **state) {
    (void)state;
    enum { BYTES = (8 << 20) + 5 };
    bool tails;
    char *text = malloc(BYTES + 1);
    assert_non_null(text);
    memset(text, 'x', BYTES);
    text[BYTES] = 0;
    (void)write_text("endless.txt", text);
    sia_tokenizer *small = tokenizer;
    tokenizer = small_tokenizer(257); /* a token for each byte */
    OK(pack(in_scratch("endless"), (sia_pack_options){0}, in_scratch("endless.txt"), NULL, &tails));
    sia_corpus *c;
    OK(sia_corpus_open(&c, in_scratch("endless"), &(sia_corpus_config){.tokenizer = tokenizer}, &said));
    assert_int_equal(sia_corpus_tokens(c), 1 + BYTES); /* the mark of a document, its bytes */
    sia_corpus_close(c);
    sia_tokenizer_close(tokenizer);
    tokenizer = small;
    free(text);
}

/* What sia made is no text: a folder of it is refused when it is named, and left out inside of another. */
static void test_own_folders(void **state) {
    (void)state;
    static const struct {
        const char *first, *second;
        bool ours;
    } cases[] = {{"data.json", "tokenizer.json", true}, {"lock", "config.json", true},
                 {"lock", "study.json", true},          {"lock", "compare.jsonl", true},
                 {"lock", "needle.jsonl", true},        {"data.json", "config.json", false},
                 {"lock", "tokenizer.json", false}};
    assert_int_equal(mkdir(in_scratch("around"), 0777), 0);
    assert_int_equal(mkdir(in_scratch("around/it"), 0777), 0);
    (void)write_text("around/book.txt", "a book");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char first[64], second[64];
        sia_inputs inputs = {0};
        sia_error err = {0};
        (void)snprintf(first, sizeof first, "around/it/%s", cases[i].first);
        (void)snprintf(second, sizeof second, "around/it/%s", cases[i].second);
        (void)write_text(first, "{}");
        (void)write_text(second, "{}");
        assert_int_equal(sia_inputs_add(&inputs, in_scratch("around/it"), false, &err),
                         cases[i].ours ? SIA_ARGUMENT : SIA_OK);
        if (cases[i].ours) assert_sentence(&err, "it: packed text, a run or a study: want text files");
        OK(sia_inputs_add(&inputs, in_scratch("around"), false, &said));
        assert_int_equal(inputs.count,
                         cases[i].ours ? 1 : 2 + 3); /* the book; else all, and those of before */
        sia_inputs_free(&inputs);
        assert_int_equal(unlink(in_scratch(first)), 0);
        assert_int_equal(unlink(in_scratch(second)), 0);
    }
    (void)unlink(in_scratch("around/book.txt"));
    (void)rmdir(in_scratch("around/it"));
    (void)rmdir(in_scratch("around"));
}

/* Bytes and pairs of bytes: one token more than a shard can hold. */
static sia_tokenizer *large_tokenizer(void) {
    sia_tokenizer *t;
    OK(sia_vocabulary_create(&t, "large", 65536 + 1, 0, &said));
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t pair = i < 256 ? i << 8 : i - 256;
        char bytes[2] = {(char)(pair >> 8), (char)(pair & 0xff)};
        OK(sia_vocabulary_set(t, i, bytes, i < 256 ? 1 : 2, &said));
    }
    OK(sia_vocabulary_set_special(t, 65536, "<|endoftext|>", &said));
    OK(sia_vocabulary_finish(t, &said));
    return t;
}

/* What cannot be packed is refused before anything is made, and one who stops it finds nothing. */
static void test_refusals(void **state) {
    (void)state;
    static const struct {
        sia_pack_options options;
        bool val;
        sia_status status;
        const char *sentence;
    } cases[] = {
        {{.shard_tokens = -1}, false, SIA_ARGUMENT, "shards of -1 tokens: want 1 to"},
        {{.shard_tokens = SIA_SHARD_MOST + 1}, false, SIA_ARGUMENT, "want 1 to"},
        {{.val_fraction = 0.51}, false, SIA_ARGUMENT, "a validation part of 0.51: want 0 to 0.5"},
        {{.val_fraction = -0.1}, false, SIA_ARGUMENT, "a validation part of -0.1: want 0 to 0.5"},
        {{.val_fraction = 0.0 / 0.0}, false, SIA_ARGUMENT, "want 0 to 0.5"},
        {{.val_fraction = 0.5}, true, SIA_ARGUMENT, "want a fraction or files, not both"},
        {{.progress = stop}, false, SIA_STOPPED, "refused was not made"},
    };
    bool tails;
    write_text("in.txt", "one\n\f\ntwo\n");
    int before = count_entries(scratch);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *val = cases[i].val ? in_scratch("in.txt") : NULL;
        assert_int_equal(pack(in_scratch("refused"), cases[i].options, in_scratch("in.txt"), val, &tails),
                         cases[i].status);
        assert_sentence(&said, cases[i].sentence);
        assert_int_equal(count_entries(scratch), before);
    }
    sia_tokenizer *small = tokenizer;
    tokenizer = large_tokenizer();
    assert_int_equal(pack(in_scratch("refused"), (sia_pack_options){0}, in_scratch("in.txt"), NULL, &tails),
                     SIA_ARGUMENT);
    assert_sentence(&said, "a vocabulary of 65537: shards hold tokens below 65536");
    sia_corpus *c;
    assert_int_equal(sia_corpus_generate(&c, tokenizer, 1, 0, 1, 10, 1, &said), SIA_ARGUMENT);
    assert_sentence(&said, "a vocabulary of 65537: a corpus has tokens below 65536");
    sia_tokenizer_close(tokenizer);
    tokenizer = small;
    assert_int_equal(count_entries(scratch), before);
    /* An empty folder is taken. */
    assert_int_equal(mkdir(in_scratch("free"), 0777), 0);
    OK(pack(in_scratch("free"), (sia_pack_options){0}, in_scratch("in.txt"), NULL, &tails));
    assert_string_equal(unpack(in_scratch("free"), "train"), "[one\n][two\n]");
}

static int lose_folder(void *context, const char *phase, double done) {
    char command[600];
    (void)context, (void)phase, (void)done;
    (void)snprintf(command, sizeof command, "rm -rf '%s'/lost.tmp-*", scratch);
    return system(command);
}

/* A file that grows between the look at it and its reading. */
static void test_changed(void **state) {
    (void)state;
    sia_inputs inputs = {0};
    sia_input_text text;
    sia_error err;
    OK(sia_inputs_add(&inputs, write_text("in.txt", "one\n"), false, &said));
    OK(sia_input_open(&inputs.list[0], &text, &said));
    sia_input_close(&text);
    (void)write_text("in.txt", "one\ntwo\n");
    assert_int_equal(sia_input_open(&inputs.list[0], &text, &err), SIA_FILE);
    assert_sentence(&err, "in.txt: changed while it was read");
    sia_inputs_free(&inputs);
}

/* What goes wrong in the temporary folder is told of the one that was asked for. */
static void test_names(void **state) {
    (void)state;
    bool tails;
    char wanted[600];
    write_text("in.txt", "one\n\f\ntwo\n");
    (void)snprintf(wanted, sizeof wanted, "%s/lost/train_00000", scratch);
    sia_pack_options options = {.shard_tokens = 2, .progress = lose_folder};
    assert_int_equal(pack(in_scratch("lost//"), options, in_scratch("in.txt"), NULL, &tails), SIA_FILE);
    assert_sentence(&said, wanted);
    assert_null(strstr(said.text, "lost.tmp-"));
}

/* 40 MB as one document are encoded in chunks; the tokens are those of the text encoded at once. */
static void test_chunks(void **state) {
    (void)state;
    SKIP_WITH_THREAD_SANITIZER();
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", need_real_data("books-train.txt"));
    bool tails;
    sia_map map;
    OK(sia_map_open(&map, path, &said));
    uint32_t *ids = malloc(map.size * sizeof *ids), *packed = malloc(map.size * sizeof *ids);
    size_t count;
    OK(sia_tokenizer_encode_parallel(tokenizer, 1, map.bytes, map.size, ids, &count, &said));
    OK(pack(in_scratch("big"), (sia_pack_options){.whole_files = true, .shard_tokens = 7000000}, path, NULL,
            &tails));
    sia_corpus *c;
    OK(sia_corpus_open(&c, in_scratch("big"), NULL, &said));
    assert_int_equal(sia_corpus_tokens(c), count + 1);
    OK(sia_corpus_read(c, 1, (int64_t)count, packed, &said));
    assert_memory_equal(ids, packed, count * sizeof *ids);
    print_message("  %zu tokens in %d shards\n", count, (int)sia_corpus_shards(c));
    sia_corpus_close(c);
    sia_map_close(&map);
    free(ids);
    free(packed);
}

/* ------------------------------------------------------------------------------------------ the command */

/* Runs the program in the scratch folder, as a user who is not root; returns its exit code, its stdout and
 * stderr in text. */
static int run_program(char *const *arguments, char *text, size_t room) {
    int out[2];
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(out[1], 1);
        dup2(out[1], 2);
        if (chdir(scratch) != 0) _exit(99);
        if (geteuid() == 0 && (setgid(65534) || setuid(65534))) _exit(99);
        execv("./sia", arguments);
        _exit(99);
    }
    close(out[1]);
    size_t used = 0;
    for (ssize_t got; used + 1 < room && (got = read(out[0], text + used, room - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = 0;
    close(out[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define TO "data", "pack", "--tokenizer", "tokenizer.json", "--out"
#define PACK "data", "pack", "--tokenizer", "tokenizer.json", "--out", "made/result"

static const struct {
    const char *arguments[12];
    int code;
    const char *sentence;
} commands[] = {
    {{PACK, "good.txt"}, 0, "1 document, 1 shard"},
    {{PACK, "mixed", "--skip-unusable"}, 0, "2 empty or binary files left out"},
    {{PACK, "good.txt", "empty.txt", "--skip-unusable"}, 0, "1 empty or binary file left out"},
    {{PACK, "noise.txt", "mixed", "--skip-unusable"}, 0, "3 empty or binary files left out"},
    {{PACK, "mixed", "--val", "mixed", "--skip-unusable"}, 0, "4 empty or binary files left out"},
    {{PACK, "-", "good.txt", "--skip-unusable"}, 0, "1 empty or binary file left out"},
    {{PACK, "empty.txt", "noise.txt", "--skip-unusable"},
     1,
     "no text for train: all files (2) are empty or binary"},
    {{PACK, "good.txt", "--val", "noise.txt", "--skip-unusable"},
     1,
     "no text for val: all files (1) are empty or binary"},
    {{PACK, "good.txt", "hollow", "--skip-unusable"}, 1, "hollow: no text in it"},
    {{PACK, "good.txt", "missing.txt"}, 1, "missing.txt: No such file or directory"},
    {{PACK, "good.txt", "locked"}, 1, "Permission denied"},
    {{PACK, "unreadable.txt"}, 1, "unreadable.txt: Permission denied"},
    {{PACK, "good.txt", "empty.txt"}, 1, "empty.txt: an empty file: want text"},
    {{PACK, "good.txt", "mixed"}, 1, "mixed/2.txt: a binary file: want text"},
    {{PACK, "noise.txt"}, 1, "noise.txt: a binary file: want text"},
    {{PACK, "blank.txt"}, 2, "no text is left for training"},
    {{PACK, "hollow"}, 1, "hollow: no text in it"},
    {{PACK, "-"}, 1, "stdin: an empty file: want text"},
    {{PACK, "good.txt", "--val", "missing.txt"}, 1, "missing.txt: No such file or directory"},
    {{PACK, "short.txt", "--val-fraction", "0.01"}, 2, "no text is left for validation"},
    {{PACK, "good.txt", "--val", "good.txt", "--val-fraction", "0.1"},
     2,
     "--val or --val-fraction, not both"},
    {{PACK, "good.txt", "--val-fraction", "0.9"}, 2, "--val-fraction 0.9: want 0 to 0.5"},
    {{PACK, "good.txt", "--shard-tokens", "0"}, 2, "--shard-tokens 0: want 1 to"},
    {{PACK, "good.txt", "--val", "good.txt", "--val=short.txt"}, 2, "--val: given twice"},
    {{PACK, "good.txt", "--threads", "1", "--threads", "1"}, 2, "--threads: given twice"},
    {{PACK, "good.txt", "--whole-files", "--whole-files"}, 0, "1 document"},
    {{PACK}, 2, "want files, folders, or - for stdin"},
    {{"data", "pack", "--out", "made/result", "good.txt"}, 2, "want --tokenizer PATH"},
    {{"data", "pack", "--tokenizer", "tokenizer.json", "good.txt"}, 2, "want --out FOLDER"},
    {{"data", "pack", "--tokenizer", "missing.json", "--out", "made/result", "good.txt"},
     1,
     "missing.json: No such file"},
    {{"data", "pack", "--tokenizer", "good.txt", "--out", "made/result", "good.txt"}, 1, "good.txt"},
    {{"data", "pack", "--tokenizer", "tokenizer.json", "--out", "mixed", "good.txt"},
     1,
     "mixed: exists already and is not empty"},
    {{TO, "no/such/place", "good.txt"}, 1, "sia: no/such/place: No such file or directory"},
    {{TO, ".", "good.txt"}, 1, "\".\": want a folder that can be made or replaced"},
    {{TO, "made/../", "good.txt"}, 1, "\"made/../\": want a folder that can be made or replaced"},
    {{TO, "made/.", "good.txt"}, 1, "\"made/.\": want a folder that can be made or replaced"},
    {{TO, "//", "good.txt"}, 1, "\"//\": want a folder that can be made or replaced"},
    {{TO, "", "good.txt"}, 1, "\"\": want a folder that can be made or replaced"},
    {{TO, "made/...", "good.txt"}, 0, "made/...\n"},
    {{TO, "made/result//", "good.txt"}, 0, "1 document"},
    {{"data", "pack", "--tokenizer", "tokenizer.json", "--out", "good.txt", "good.txt"},
     1,
     "good.txt: Not a directory"},
    {{PACK, "good.txt", "--tokeniser", "x"}, 2, "did you mean --tokenizer?"},
    {{"data", "info"}, 2, "want a shard, a folder, a pattern or a text"},
    {{"data", "info", "missing.bin"}, 1, "missing.bin: No such file or directory"},
    {{"data", "info", "good.bin"}, 1, "good.bin: 10 bytes: want a token shard"},
    {{"data", "info", "locked"}, 1, "Permission denied"},
    {{"data", "info", "nothing*.bin"}, 1, "no file matches"},
    {{"data", "info", "mixed"}, 1, "binary file"},
    {{"data", "info", "loose"},
     1,
     "loose: shards without a data.json: give a pattern, such as 'loose/*.bin'"},
    {{"data", "info", "loose/*.bin"}, 0, "median document, tokens   3\n"},
    {{"data", "info", "even.bin"}, 0, "median document, tokens   2.5\n"},
    {{"data", "info", "even.bin", "--json"}, 0, "\"median\": 2.5,"},
    {{"data", "info", "long.txt"}, 0, "words                     1500\n"},
    {{"data", "info", "long.txt"}, 0, "documents                 3\n"},
    {{"data", "info", "long.txt", "--symbols", "1000", "--statistics"},
     0,
     "words                     1500\n"},
    {{"data", "info", "long.txt", "--symbols", "1000", "--statistics"},
     0,
     "Statistics of the first 1000 of 1500 words (--symbols):\n  1000 words, "},
    {{"data", "info", "long.txt", "--symbols", "1500", "--statistics"}, 0, "1500\n  1500 words, "},
    {{"data", "info", "long.txt", "--symbols", "1000", "--statistics", "--json"},
     0,
     "\"words\": 1500, \"statistics_of_first\": 1000"},
    {{"data", "generate", "--words", "0"}, 2, "--words 0: want 1 to"},
    {{"data", "generate", "--words", "50", "--out", "no/such/place"}, 1, "No such file or directory"},
    {{"data", "generate", "--words", "50", "--out", "made/text"}, 0, ""},
    {{"data"}, 2, "sia data pack"},
};

static void fill_scratch(void) {
    char noise[4096], command[1200];
    /* A copy of the program, since that other user may not be able to reach the build folder. */
    (void)snprintf(command, sizeof command, "cp \"$SIA\" '%s/sia' && chmod 755 '%s/sia'", scratch, scratch);
    assert_int_equal(system(command), 0);
    write_text("good.txt", "some words\n");
    write_text("good.bin", "some words");
    write_text("short.txt", "word");
    char words[1500 * 2 + 3 * 2 + 1] = "";
    for (size_t i = 0, at = 0; i < 1500; i++)
        at += (size_t)snprintf(words + at, sizeof words - at, "%c%s", (int)('a' + i * i % 26),
                               i % 500 == 499 ? "\n\f\n" : " ");
    write_text("long.txt", words);
    write_text("blank.txt", " \n\f\n \n");
    write_text("empty.txt", "");
    assert_int_equal(mkdir(in_scratch("mixed"), 0777), 0);
    write_text("mixed/1.txt", "one");
    write_file("mixed/2.txt", "\x89PNG\r\n\x1a\n\0\0\0", 11);
    write_text("mixed/3.txt", "");
    /* No zero byte in it, but no text either. */
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)(1 + (i * i * 31 + i * 17) % 255);
    write_file("noise.txt", noise, sizeof noise);
    assert_int_equal(mkdir(in_scratch("hollow"), 0777), 0);
    assert_int_equal(mkdir(in_scratch("locked"), 0), 0);
    sia_shard_writer *shard;
    assert_int_equal(mkdir(in_scratch("loose"), 0777), 0);
    OK(sia_shard_create(&shard, in_scratch("loose/x.bin"), &said));
    OK(sia_shard_add(shard, (uint32_t[]){50256, 1, 2}, 3, &said));
    OK(sia_shard_finish(shard, &said));
    OK(sia_shard_create(&shard, in_scratch("even.bin"), &said));
    OK(sia_shard_add(shard, (uint32_t[]){50256, 1, 2, 50256, 1}, 5, &said));
    OK(sia_shard_finish(shard, &said));
    write_text("unreadable.txt", "text");
    assert_int_equal(chmod(in_scratch("unreadable.txt"), 0), 0);
    assert_int_equal(mkdir(in_scratch("made"), 0777), 0);
    assert_int_equal(chmod(in_scratch("made"), 0777), 0);
    assert_int_equal(chmod(scratch, 0755), 0);
    assert_int_equal(chmod(in_scratch("tokenizer.json"), 0644), 0);
}

static void test_commands(void **state) {
    (void)state;
    fill_scratch();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char *arguments[16] = {(char *)"sia"}, text[65536], command[600];
        for (int j = 0; j < 12; j++) arguments[j + 1] = (char *)commands[i].arguments[j];
        int code = run_program(arguments, text, sizeof text);
        if (code != commands[i].code || !strstr(text, commands[i].sentence))
            fail_msg("case %zu: code %d, want %d; said \"%s\", want \"%s\"", i, code, commands[i].code, text,
                     commands[i].sentence);
        /* Done: the result is there. Failed: nothing is, neither under its name nor under a temporary one. */
        bool makes = code == 0 && strcmp(commands[i].arguments[1], "info") != 0;
        assert_int_equal(count_entries(in_scratch("made")), makes ? 1 : 0);
        (void)snprintf(command, sizeof command, "find '%s/made' -mindepth 1 -delete", scratch);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(chmod(in_scratch("locked"), 0700), 0);
}

static bool always(void) { return true; }

/* A folder may be endless to list: a signal is heard there. */
static void test_stopped_listing(void **state) {
    (void)state;
    sia_error err;
    sia_inputs inputs = {.stopped = always};
    assert_int_equal(mkdir(in_scratch("listed"), 0777), 0);
    (void)write_text("listed/a.txt", "text");
    assert_int_equal(sia_inputs_add(&inputs, in_scratch("listed"), false, &err), SIA_STOPPED);
    assert_int_equal(inputs.count, 0);
    sia_inputs_free(&inputs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents), cmocka_unit_test(test_folders),
        cmocka_unit_test(test_manifest),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_claims),    cmocka_unit_test(test_changed),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_own_folders),
        cmocka_unit_test(test_chunks),    cmocka_unit_test(test_without_a_cut),
        cmocka_unit_test(test_commands),  cmocka_unit_test(test_stopped_listing),
    };
    return cmocka_run_group_tests_name("pack", tests, create, destroy);
}
