/* SPDX-License-Identifier: MIT
 *
 * Files from someone else: what a header claims costs nothing, text from a file does not reach the
 * terminal as an escape sequence, nothing is written outside of the folder that was named, no variable of
 * the environment changes what is written, and a file that is cut while it is used is an error or, where
 * it is mapped, a death that loses nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/harmless.h"
#include "base/safetensors.h"
#include "cli/options.h"
#include "data/manifest.h"
#include "end_child.h"
#include "faults.h"
#include "support.h"
#include "train/checkpoint.h"
#include "train/run.h"
#include "train/train.h"
#include "tree.h"

/* ------------------------------------------------------------------------------------------------ claims */

/* A safetensors file: the length of its header as told, the header, zeros. */
static const char *tensors_file(uint64_t length, const char *header, size_t data) {
    static char bytes[8192];
    memset(bytes, 0, sizeof bytes);
    size_t used = strlen(header);
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + 8, header, used); // NOLINT(bugprone-not-null-terminated-result)
    return write_file("claim", bytes, 8 + used + data);
}

static sia_status open_tensors(const char *path, sia_error *err) {
    sia_safetensors *file;
    sia_status status = sia_safetensors_open(&file, path, err);
    sia_safetensors_close(file);
    return status;
}

static sia_status open_model(const char *path, sia_error *err) {
    sia_model *m;
    sia_status status = sia_model_open(&m, path, 1, err);
    sia_model_destroy(m);
    return status;
}

static sia_status open_corpus(const char *path, sia_error *err) {
    sia_corpus *c;
    sia_status status = sia_corpus_open(&c, path, &(sia_corpus_config){.scan = 1}, err);
    sia_corpus_close(c);
    return status;
}

static sia_status open_tokenizer(const char *path, sia_error *err) {
    sia_tokenizer *t;
    sia_status status = sia_tokenizer_open(&t, path, err);
    sia_tokenizer_close(t);
    return status;
}

/* Refused, and the most memory that it took is a small multiple of the file. */
static void assert_cheap(const char *what, const char *path, sia_status (*open)(const char *, sia_error *)) {
    struct stat about;
    sia_error err = {0};
    assert_int_equal(stat(path, &about), 0);
    faults_peak_reset();
    size_t before = faults_live_bytes(), blocks = faults_live();
    sia_status status = open(path, &err);
    size_t most = faults_peak_bytes() - before, bound = 64 * (size_t)about.st_size + (1 << 17);
    print_message("  %-28s %6lld bytes, %7zu of memory, largest block %7zu: %s\n", what,
                  (long long)about.st_size, most, faults_largest(),
                  strrchr(err.text, '/') ? strrchr(err.text, '/') + 1 : err.text);
    assert_true(status == SIA_FORMAT || status == SIA_ARGUMENT);
    assert_true(strlen(err.text) > 5);
    assert_true(most <= bound && faults_largest() <= bound);
    assert_int_equal(faults_live(), blocks);
}

static void test_claims(void **state) {
    (void)state;
    char text[4096];
    static const char huge[] =
        "{\"a\":{\"dtype\":\"F64\",\"shape\":[1152921504606846976],\"data_offsets\":[0,64]}}";
    static const char huge_end[] =
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1152921504606846976],\"data_offsets\":[0,1152921504606846976]}}";
    static const char product[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}";
    assert_cheap("2^60 elements", tensors_file(strlen(huge), huge, 64), open_tensors);
    assert_cheap("2^60 bytes", tensors_file(strlen(huge_end), huge_end, 64), open_tensors);
    assert_cheap("2^32 times 2^32", tensors_file(strlen(product), product, 0), open_tensors);
    assert_cheap("a header of 2^63 bytes", tensors_file(UINT64_C(1) << 63, "{}", 0), open_tensors);
    assert_cheap("a header of 100 MB", tensors_file(100000000, "{}", 0), open_tensors);

    /* A model of 4 TB in the metadata of a file of a few hundred bytes. */
    (void)snprintf(text, sizeof text,
                   "{\"__metadata__\":{\"step\":\"1\",\"model\":\"{\\\"layers\\\":1024,\\\"width\\\":65536,"
                   "\\\"heads\\\":1024,"
                   "\\\"vocabulary\\\":1048576,\\\"train_len\\\":1073741824}\"},"
                   "\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}");
    assert_cheap("a model of terabytes", tensors_file(strlen(text), text, 16), open_model);

    int32_t shard[256] = {20240520, 1, INT32_MAX};
    assert_cheap("2^31 tokens", write_file("claim.bin", shard, sizeof shard), open_corpus);
    (void)mkdir(in_scratch("packed"), 0777);
    write_file("packed/train_000000.bin", shard, sizeof shard);
    write_text(
        "packed/data.json",
        "{\"format\":\"sia "
        "data\",\"version\":1,\"tokenizer\":{\"file\":\"tokenizer.json\",\"vocabulary\":300,"
        "\"end_of_text\":299,\"sha256\":\"0\"},\"train\":{\"tokens\":2147483647,\"documents\":1,\"bytes\":1,"
        "\"shards\":[{\"file\":\"train_000000.bin\",\"tokens\":2147483647,\"sha256\":\"0\"}]}}");
    assert_cheap("a folder that claims them", in_scratch("packed"), open_corpus);
    assert_cheap(
        "an id of 2^60",
        write_text("claim.json",
                   "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                   "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1152921504606846976},\"merges\":[]}}"),
        open_tokenizer);
    /* Deep nesting must not use up the stack either. */
    static char deep[4000];
    memset(deep, '[', sizeof deep);
    assert_cheap("4000 arrays in each other", write_file("deep.json", deep, sizeof deep), open_tokenizer);
}

/* What a description of generated text may ask for has a bound. */
static void test_generated_claim(void **state) {
    (void)state;
    sia_error err;
    sia_train_data d;
    (void)mkdir(in_scratch("generated"), 0777);
    sia_tokenizer *t = small_tokenizer(300);
    OK(sia_train_tokenizer_save(t, in_scratch("generated"), &said));
    sia_tokenizer_close(t);
    json_t *json = json_pack("{s:s, s:i, s:i, s:I, s:i}", "kind", "generated", "seed", 0, "words", 16384,
                             "documents", (json_int_t)1 << 50, "val_documents", 1);
    assert_int_equal(sia_train_data_open(&d, json,
                                         &(sia_data_opening){.folder = in_scratch("generated"), .threads = 1},
                                         &err),
                     SIA_FORMAT);
    assert_sentence(&err, "more generated text than a run is given");
    json_decref(json);
}

/* ------------------------------------------------------------------------------------------------ terminals */

// Marks that turn text round are what is tested. NOLINTBEGIN(misc-misleading-bidirectional)

static void test_harmless(void **state) {
    (void)state;
    static const struct {
        const char *text, *kept, *shown;
    } cases[] = {
        {"plain \xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80", "", "plain \xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80"},
        {"\x1b[2J\x07\b\r\n\t\x7f", "", "?[2J??????"},
        {"a\nb\tc\rd\x1b", "\n\t", "a\nb\tc?d?"},
        {"\xc2\x9b"
         "31m",
         "", "??31m"}, /* C1, as UTF-8 */
        {"\x9b"
         "31m \xff",
         "", "?31m ?"}, /* and as a byte */
        {"\xe2\x80\xae"
         "abc\xe2\x81\xa6",
         "", "???abc???"}, /* text turned round */
        {"\xe2\x80\xa8|\xd8\x9c|\xe2\x80\x8f", "", "???|??|???"},
        {"\xed\xa0\x80 \xc0\xaf \xf4\x90\x80\x80", "",
         "??? ?? ????"},        /* no UTF-8: surrogate, long form, too large */
        {"\xe2\x80", "", "??"}, /* cut off */
        {"\xe2"
         "a",
         "", "?a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s", cases[i].text);
        assert_string_equal(sia_harmless(text, strlen(text), cases[i].kept), cases[i].shown);
        assert_true(sia_is_utf8(text, strlen(text)));
    }
    char part[] = "a\x1b\xf0\x9f\x98";
    assert_int_equal(sia_harmless_part(part, 5, ""), 2);
    assert_memory_equal(part, "a?\xf0\x9f\x98", 5);
    sia_error err;
    (void)sia_fail(&err, SIA_FORMAT, "%s: tensor \"%s\"", "a\x1b]0;title\x07",
                   "\xc2\x9b"
                   "2J\xe2\x80\xae");
    assert_string_equal(err.text, "a?]0;title?: tensor \"??2J???\"");
}

static char shown[1 << 16];

static int run(char *line) {
    char *words[40], *rest = NULL;
    int count = 0;
    for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    return cli_main(count, words);
}

/* Runs the program with a terminal for stdin, stdout and stderr, and collects what it shows there. */
static int run_on_terminal(const char *line) {
    int master, result;
    char copy[1024];
    (void)snprintf(copy, sizeof copy, "%s", line);
    (void)fflush(NULL);
    pid_t child = forkpty(&master, NULL, NULL, NULL);
    assert_true(child >= 0);
    if (child == 0) {
        if (chdir(scratch) != 0 || isatty(STDOUT_FILENO) != 1) _exit(99);
        (void)setenv("TERM", "dumb", 1); /* no colours of our own */
        int code = run(copy);
        (void)fflush(NULL);
        end_child(code);
    }
    size_t used = 0;
    for (ssize_t n;
         used < sizeof shown - 1 && (n = read(master, shown + used, sizeof shown - 1 - used)) != 0;) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break; /* EIO: the other side is gone */
        used += (size_t)n;
    }
    shown[used] = 0;
    (void)close(master);
    assert_int_equal(waitpid(child, &result, 0), child);
    return WIFEXITED(result) ? WEXITSTATUS(result) : -1;
}

/* Only what the terminal's own driver adds, and text. */
static void assert_terminal(const char *line, int code, const char *says) {
    int found = run_on_terminal(line);
    size_t bytes = strlen(shown);
    char *copy = strdup(shown);
    assert_non_null(copy);
    (void)sia_harmless(copy, bytes, "\r\n\t");
    if (strcmp(copy, shown) != 0) fail_msg("%s: an escape sequence reached the terminal: %s", line, copy);
    if (found != code || !strstr(shown, says))
        fail_msg("%s: exit code %d, want %d; want '%s' in: %s", line, found, code, says, copy);
    free(copy);
}

#define EVIL                   \
    "\x1b]0;owned\x07\xc2\x9b" \
    "2J\xe2\x80\xae"

static void make_run(const char *name) {
    char line[512], home[4096];
    assert_non_null(getcwd(home, sizeof home));
    assert_int_equal(chdir(scratch), 0);
    (void)snprintf(line, sizeof line, "sia data generate --words 300 --documents 2 --seed 3 --out text.txt");
    assert_int_equal(run(line), 0);
    (void)snprintf(line, sizeof line,
                   "sia train text.txt --vocabulary 262 --quiet --layers 1 --width 16 --heads 1 --train-len "
                   "16 --batch 2 "
                   "--steps 1 --eval-windows 2 --lengths 1x --threads 1 --out %s",
                   name);
    assert_int_equal(run(line), 0);
    assert_int_equal(chdir(home), 0);
}

static void edit(const char *name, const char *from, const char *to) {
    char *text, *at, whole[1 << 14];
    size_t bytes;
    OK(sia_file_read(in_scratch(name), sizeof whole, &text, &bytes, &said));
    assert_non_null(at = strstr(text, from));
    (void)snprintf(whole, sizeof whole, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    (void)write_text(name, whole);
    free(text);
}

static void test_terminal(void **state) {
    (void)state;
    make_run("run");
    /* The names of files and folders. */
    assert_int_equal(mkdir(in_scratch("dir" EVIL), 0777), 0);
    assert_terminal("sia report dir" EVIL, 1, "nothing to report");
    assert_terminal("sia eval absent" EVIL, 1, "No such file");
    assert_terminal("sia " EVIL, 2, "unknown command");
    assert_terminal("sia tokenizer " EVIL, 2, "want one of these");
    assert_terminal("sia train --" EVIL, 2, "unknown option");
    assert_terminal("sia train --steps " EVIL, 2, "want a whole number");
    assert_terminal("sia data info dir" EVIL, 1, "dir?");
    assert_terminal("sia data pack --tokenizer run/tokenizer.json --out packed" EVIL " text.txt --threads 1",
                    0, "packed?");
    /* Bytes that a tokenizer gives back: 27 is ESC, 194 and 155 are a C1 control, 240 is the start of a
     * character. */
    write_text("ids", "72 105 27 91 50 74 194 155 240 159 152 128 10 240");
    assert_terminal("sia tokenizer decode --tokenizer run/tokenizer.json ids --quiet", 0,
                    "Hi?[2J??\xf0\x9f\x98\x80\r\n?");
    /* What a model says: at this temperature any byte. */
    assert_terminal("sia generate run --tokens 400 --temperature 1000 --threads 1 --ignore-end", 0, "?");
    assert_terminal("sia generate run --tokens 4000 --temperature 1000 --threads 1 --ignore-end --json", 0,
                    "\\u007F");
    /* Texts in JSON files. */
    edit("run/config.json", "\"from\": \"text.txt\"", "\"from\": \"\\u001b[31mtext\\u009b\"");
    assert_terminal("sia train --resume --out run --threads 1", 0, "?[31mtext??");
    edit("run/config.json", "\"layers\"", "\"lay\\u001bers\"");
    assert_terminal("sia train --resume --out run --threads 1", 1, "lay?ers");
    edit("run/tokenizer.json", "<|endoftext|>", "<|endoftext|>");
    write_text("run/metrics.jsonl", "{\"step\": \"\x1b[2J\n");
    assert_terminal("sia report run", 1, "not JSON");
}

// NOLINTEND(misc-misleading-bidirectional)

/* ------------------------------------------------------------------------------------------------ writes elsewhere */

static void test_links(void **state) {
    (void)state;
    static const char *const names[] = {"lock",         "metrics.jsonl", "eval.jsonl",     "compare.jsonl",
                                        "needle.jsonl", "config.json",   "tokenizer.json", "study.json",
                                        "data",         "runs"};
    sia_run *opened;
    sia_error err;
    char victim[512];
    (void)snprintf(victim, sizeof victim, "%s", write_text("victim", "mine\n"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "theirs/%s", names[i]);
        tree_remove(in_scratch("theirs"));
        assert_int_equal(mkdir(in_scratch("theirs"), 0777), 0);
        if (i) (void)write_text("theirs/lock", "sia 1");
        assert_int_equal(symlink(victim, in_scratch(name)), 0);
        assert_int_equal(sia_run_open(&opened, in_scratch("theirs"), &err), SIA_FILE);
        assert_sentence(&err, "is a link");
        assert_sentence(&err, names[i]);
        if (i == 0) continue; /* a lock that stands aside does not come back: there is one by then */
        /* What a killed process left aside is put back, and may be a link as well. */
        char aside[80];
        (void)snprintf(aside, sizeof aside, "%s.tmp-aside", name);
        assert_int_equal(rename(in_scratch(name), in_scratch(aside)), 0);
        assert_int_equal(sia_run_open(&opened, in_scratch("theirs"), &err), SIA_FILE);
        assert_sentence(&err, "is a link");
        assert_sentence(&err, names[i]);
    }
    /* A report is written where the results are, unless a person names another place. */
    make_run("honest");
    assert_int_equal(symlink(victim, in_scratch("honest/report.html")), 0);
    char line[600];
    (void)snprintf(line, sizeof line, "sia report --quiet %s", in_scratch("honest"));
    assert_int_equal(run_on_terminal(line), 1);
    assert_non_null(strstr(shown, "is a link"));
    char *text;
    size_t bytes;
    OK(sia_file_read(victim, 100, &text, &bytes, &said));
    assert_string_equal(text, "mine\n");
    free(text);
    /* A link that a person names is followed, as ever. */
    assert_int_equal(symlink(victim, in_scratch("link")), 0);
    OK(sia_file_replace(in_scratch("link"), "new", 3, &said));
    OK(sia_file_read(victim, 100, &text, &bytes, &said));
    assert_string_equal(text, "new");
    free(text);
    /* A checkpoint that is a link is removed as a link. */
    make_run("linked");
    assert_int_equal(mkdir(in_scratch("precious"), 0777), 0);
    write_text("precious/file", "x");
    assert_int_equal(symlink(in_scratch("precious"), in_scratch("linked/step-000009")), 0);
    OK(sia_run_open(&opened, in_scratch("linked"), &said));
    assert_int_equal(sia_checkpoint_save(opened, 9, NULL, NULL, NULL, 0, 0, &err), SIA_FILE);
    assert_sentence(&err, "step-000009: is a link");
    OK(sia_folder_remove(in_scratch("linked/step-000009"), &said));
    sia_run_close(opened);
    assert_true(exists(in_scratch("precious/file")));
}

/* Data elsewhere is named as what it is, whatever the description calls it. */
static void test_data_named(void **state) {
    (void)state;
    char text[200];
    json_t *json =
        json_pack("{s:s, s:s, s:s}", "kind", "packed", "path", "/home/someone/private", "from", "books.txt");
    sia_train_data d = {.description = json};
    assert_string_equal(sia_train_data_text(&d, text, sizeof text), "/home/someone/private");
    assert_string_equal(sia_train_data_val_text(&d, text, sizeof text),
                        "/home/someone/private, its validation part");
    json_decref(json);
    json = json_pack("{s:s, s:s, s:s, s:{s:s}}", "kind", "packed", "path", "/home/someone/private", "from",
                     "books.txt", "names", "val", "harmless.txt");
    d.description = json;
    assert_string_equal(sia_train_data_val_text(&d, text, sizeof text),
                        "/home/someone/private, its validation part");
    json_decref(json);
}

/* ------------------------------------------------------------------------------------------------ the environment */

static const char *const wild[] = {"HOME=/nowhere",      "TMPDIR=/nowhere", "LANG=tr_TR.UTF-8",
                                   "LC_ALL=de_DE.UTF-8", "TERM=xterm",      "NO_COLOR=1",
                                   "POSIXLY_CORRECT=1",  "COLUMNS=20",      "PATH=/nowhere",
                                   "OMP_NUM_THREADS=3",  "SIA_THREADS=9",   "XDG_CONFIG_HOME=/nowhere"};

static void test_environment(void **state) {
    (void)state;
    char why[TREE_WHY];
    make_run("plain");
    int result;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) (void)putenv((char *)wild[i]);
        make_run("wild");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    edit("wild/config.json", "--out wild", "--out plain");
    tree a = tree_read(in_scratch("plain")), b = tree_read(in_scratch("wild"));
    if (!tree_same(&a, &b, why)) fail_msg("the environment changed what was written: %s", why);
    tree_free(&a);
    tree_free(&b);
}

/* ------------------------------------------------------------------------------------------------ temporary files */

static void test_modes(void **state) {
    (void)state;
    struct stat about;
    char *path = in_scratch("secret");
    mode_t old = umask(077);
    OK(sia_file_replace(path, "a", 1, &said));
    (void)umask(022);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    OK(sia_file_replace(path, "b", 1, &said)); /* stays as it was */
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    sia_output *out;
    OK(sia_output_open(&out, path, &said));
    /* The file on the way is no more open to others than the one that it replaces. */
    int found = 0;
    DIR *folder = opendir(scratch);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strncmp(entry->d_name, "secret.tmp-", 11) == 0) {
            assert_int_equal(stat(in_scratch(entry->d_name), &about), 0);
            assert_int_equal(about.st_mode & 0777, 0600);
            found++;
        }
    (void)closedir(folder);
    assert_int_equal(found, 1);
    sia_output_abandon(out);
    (void)umask(old);
}

/* ------------------------------------------------------------------------------------------------ files that shrink */

static void test_shrinking_model(void **state) {
    (void)state;
    sia_safetensors_writer *w;
    sia_safetensors *file;
    const sia_stored_tensor *t;
    static float values[100000];
    sia_error err;
    char *path = in_scratch("model.safetensors");
    OK(sia_safetensors_create(&w, path, &said));
    OK(sia_safetensors_declare(w, "a", SIA_DTYPE_F32, 1, (int64_t[]){100000}, &said));
    OK(sia_safetensors_write(w, "a", values, sizeof values, &said));
    OK(sia_safetensors_finish(w, &said));
    OK(sia_safetensors_open(&file, path, &said));
    OK(sia_safetensors_want(file, "a", SIA_DTYPE_F32, 1, (int64_t[]){100000}, &t, &said));
    OK(sia_safetensors_copy(file, t, values, &said));
    assert_int_equal(truncate(path, 5000), 0);
    assert_int_equal(sia_safetensors_copy(file, t, values, &err), SIA_FILE);
    assert_sentence(&err, "ends at byte 5000: it was cut while it was read");
    sia_safetensors_close(file);
}

/* A shard is mapped: the process that reads it ends by SIGBUS, as file.h says. Nobody else is touched. */
static void test_shrinking_shard(void **state) {
    (void)state;
    enum { TOKENS = 100000 };
    int result;
    struct {
        int32_t header[256];
        uint16_t tokens[TOKENS];
    } *shard = calloc(1, sizeof *shard);
    assert_non_null(shard);
    shard->header[0] = 20240520, shard->header[1] = 1, shard->header[2] = TOKENS;
    char *path = write_file("mapped.bin", shard, sizeof *shard);
    free(shard);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sia_corpus *c;
        uint32_t id;
        (void)signal(SIGBUS, SIG_DFL);
        if (sia_corpus_open(&c, path, NULL, NULL) || truncate(path, 2000)) _exit(1);
        _exit(sia_corpus_read(c, TOKENS - 1, 1, &id, NULL) ? 2 : 3);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
#ifdef __SANITIZE_ADDRESS__
    assert_true(WIFSIGNALED(result) || WEXITSTATUS(result) != 0);
#else
    assert_true(WIFSIGNALED(result) && WTERMSIG(result) == SIGBUS);
#endif
    sia_corpus *c;
    sia_error err;
    assert_int_equal(sia_corpus_open(&c, path, NULL, &err), SIA_FORMAT);
    assert_sentence(&err, "100000 tokens");
}

int main(void) {
    faults_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims),          cmocka_unit_test(test_generated_claim),
        cmocka_unit_test(test_harmless),        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_links),           cmocka_unit_test(test_data_named),
        cmocka_unit_test(test_environment),     cmocka_unit_test(test_modes),
        cmocka_unit_test(test_shrinking_model), cmocka_unit_test(test_shrinking_shard),
    };
    return cmocka_run_group_tests_name("safety", tests, scratch_create, scratch_destroy);
}
