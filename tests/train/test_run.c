/* SPDX-License-Identifier: MIT
 *
 * A run's folder: who may write into it, and what its logs hold after kills, full disks and steps back. */
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "support.h"
#include "train/run.h"

static void assert_file(const char *name, const char *content) {
    char *bytes;
    size_t size;
    OK(sia_file_read(in_scratch(name), 1 << 20, &bytes, &size, &said));
    assert_string_equal(bytes, content);
    free(bytes);
}

/* ------------------------------------------------------------------------------------------------- the lock */

/* Forks a child that holds the run until it is killed. */
static pid_t hold(const char *folder) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sia_run *run;
        if (sia_run_open(&run, folder, NULL) == SIA_OK && write(ready[1], "x", 1) == 1)
            for (;;) (void)pause();
        _exit(1);
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    return child;
}

static void test_lock(void **state) {
    (void)state;
    sia_run *run;
    sia_error err;
    char *folder = in_scratch("locked"), sentence[700];
    pid_t child = hold(folder);
    assert_int_equal(sia_run_open(&run, folder, &err), SIA_BUSY);
    assert_null(run);
    (void)snprintf(sentence, sizeof sentence, "%s: process %ld is at work in this run", folder, (long)child);
    assert_string_equal(err.text, sentence);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    OK(sia_run_open(&run, folder, &said));
    sia_run *second;
    assert_int_equal(sia_run_open(&second, folder, &err), SIA_BUSY); /* not even in one process */
    sia_run_close(run);
    OK(sia_run_open(&run, folder, &said));
    sia_run_close(run);
}

/* Between the making of a lock and its number, or on a full disk. */
static void test_lock_without_a_number(void **state) {
    (void)state;
    char *folder = in_scratch("unnamed"), sentence[700];
    sia_run *run;
    sia_error err;
    assert_int_equal(mkdir(folder, 0777), 0);
    (void)snprintf(sentence, sizeof sentence, "%s: process ? is at work in this run", folder);
    int fd = open(write_text("unnamed/lock", ""), O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(sia_run_open(&run, folder, &err), SIA_BUSY);
    assert_string_equal(err.text, sentence);
    assert_int_equal(close(fd), 0);
}

/* One who is refused changes nothing: the other's temporary files stay. */
static void test_refused_changes_nothing(void **state) {
    (void)state;
    sia_run *run, *second;
    OK(sia_run_open(&run, in_scratch("busy"), &said));
    (void)write_text("busy/x.tmp-ghijklmnopqr", "");
    (void)write_text("busy/metrics.jsonl", "{\"step\": 1");
    assert_int_equal(sia_run_open(&second, in_scratch("busy"), NULL), SIA_BUSY);
    assert_true(exists(in_scratch("busy/x.tmp-ghijklmnopqr")));
    assert_file("busy/metrics.jsonl", "{\"step\": 1");
    sia_run_close(run);
    OK(sia_run_open(&run, in_scratch("busy"), &said));
    assert_false(exists(in_scratch("busy/x.tmp-ghijklmnopqr")));
    assert_file("busy/metrics.jsonl", "");
    sia_run_close(run);
}

static void test_folder(void **state) {
    (void)state;
    sia_run *run;
    sia_error err;
    OK(sia_run_open(&run, in_scratch("new/"), &said));
    assert_string_equal(sia_run_folder(run), in_scratch("new/"));
    sia_run_close(run);
    OK(sia_run_open(&run, in_scratch("new"), &said));
    assert_int_equal(count_entries(in_scratch("new")), 1); /* no empty logs */
    sia_run_close(run);
    OK(sia_run_open(&run, in_scratch("above/new"), &said)); /* with the folder above it */
    sia_run_close(run);
    (void)write_text("file", "");
    assert_int_equal(sia_run_open(&run, in_scratch("file"), &err), SIA_FILE);
}

/* Where a person's files are, none of them is touched; a run that came without its lock is known by what it holds. */
static void test_others(void **state) {
    (void)state;
#define OF_A_RUN \
    "{\"model\": {\"scheme\": \"rope\"}, \"training\": {\"steps\": 3}, \"data\": {\"kind\": \"shards\"}}"
#define OF_A_STUDY "{\"budget\": {\"settings\": {\"model\": {}}}, \"data\": {\"kind\": \"packed\"}}"
    static const struct {
        const char *name, *text;
        bool taken;
    } cases[] = {
        {"eval.jsonl", "{\"mine\": 1", false},
        {"tokenizer.json", "{}", false},
        {"notes.tmp-aside", "mine", false},
        {"step-3", "mine", false},
        {"config.json", "{\"model_type\": \"gpt2\"}", false},
        {"config.json", "{\"training\": {\"lr\": 1}}", false},
        {"config.json", "{\"model\": {}, \"training\": {}, \"data\": {}}", false},
        {"config.json", "[1", false},
        {"config.json", "", false},
        {"study.json", "{\"title\": 1}", false},
        {"study.json", "{\"budget\": 100}", false},
        {"needle.jsonl", "{\"kind\": \"pin\"}", false},
        {"lock", "the key of the house is under the mat", false},
        {"lock", "pid 12 on host", false},
        {"lock", "12345", false},
        {"lock", "sia 12345", true},
        {"config.json", OF_A_RUN, true},
        {"study.json", OF_A_STUDY, true},
        {"needle.jsonl", "{\"kind\": \"study\", \"runs\": {}}\n{\"kind\": \"needle\"}\n", true},
    };
    assert_int_equal(mkdir(in_scratch("others"), 0777), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_run *run;
        sia_error err;
        char name[64];
        (void)snprintf(name, sizeof name, "others/%s", cases[i].name);
        (void)write_text(name, cases[i].text);
        (void)write_text("others/notes.txt", "mine");
        (void)write_text("others/x.tmp-ghijklmnopqr", "");
        sia_status status = sia_run_open(&run, in_scratch("others"), &err);
        if (status != (cases[i].taken ? SIA_OK : SIA_ARGUMENT))
            fail_msg("%s with %s: %s", cases[i].name, cases[i].text, status ? err.text : "taken");
        assert_int_equal(exists(in_scratch("others/x.tmp-ghijklmnopqr")), status != SIA_OK);
        assert_file("others/notes.txt", "mine");
        if (status) {
            assert_sentence(&err, "is there, in a folder that is neither a run nor a study: name another");
            assert_file(name, cases[i].text);
            assert_int_equal(count_entries(in_scratch("others")), 3);
        }
        sia_run_close(run);
        assert_int_equal(unlink(in_scratch(name)), 0);
        (void)unlink(in_scratch("others/x.tmp-ghijklmnopqr"));
        (void)unlink(in_scratch("others/lock"));
    }
}

/* What has no name of ours does not stand in the way: results of other commands, logs, a volume's own files. */
static void test_beside(void **state) {
    (void)state;
    sia_run *run;
    sia_error err;
    assert_int_equal(mkdir(in_scratch("beside"), 0777), 0);
    (void)write_text("beside/theory.jsonl", "{}");
    (void)write_text("beside/slurm.out", "");
    (void)write_text("beside/.hidden", "");
    (void)write_text("beside/lock", ""); /* of a start that was killed at its first moment */
    (void)write_text("beside/data.tmp-ghijklmnopqr",
                     ""); /* or later, when the disk had been too full for a lock */
    OK(sia_run_open(&run, in_scratch("beside"), &said));
    assert_int_equal(count_entries(in_scratch("beside")), 4);
    sia_run_close(run);
    assert_int_equal(count_entries(in_scratch("beside")),
                     4); /* we made no lock: there is none to take away */
    /* A lock of someone else's in a run of ours stays his. */
    (void)write_text("beside/config.json", OF_A_RUN);
    (void)write_text("beside/lock", "pid 12 on host");
    assert_int_equal(sia_run_open(&run, in_scratch("beside"), &err), SIA_ARGUMENT);
    assert_sentence(&err, "beside/lock: is not the lock of a run");
    assert_file("beside/lock", "pid 12 on host");
}

/* A start that fails leaves no lock, by which what a person puts there later would be taken for ours; one that wrote
 * something does. */
static void test_given_back(void **state) {
    (void)state;
    sia_run *run;
    sia_error err;
    OK(sia_run_open(&run, in_scratch("given/back"), &said));
    assert_true(exists(in_scratch("given/back/lock")));
    sia_run_close(run);
    assert_false(exists(in_scratch("given/back"))); /* which was made for the run */
    assert_int_equal(mkdir(in_scratch("given/back"), 0777), 0);
    OK(sia_run_open(&run, in_scratch("given/back"), &said));
    sia_run_close(run);
    assert_int_equal(count_entries(in_scratch("given/back")), 0); /* but not this one */
    (void)write_text("given/back/eval.jsonl", "mine");
    assert_int_equal(sia_run_open(&run, in_scratch("given/back"), &err), SIA_ARGUMENT);
    assert_int_equal(count_entries(in_scratch("given/back")), 1);
    OK(sia_run_open(&run, in_scratch("given"), &said));
    OK(sia_run_append(run, SIA_RUN_EVAL, "{}", &said));
    sia_run_close(run);
    assert_true(exists(in_scratch("given/lock")));
    OK(sia_run_open(&run, in_scratch("given"), &said));
    sia_run_close(run);
    assert_true(exists(in_scratch("given/lock")));
}

#define LINE(step) "{\"step\": " step ", \"loss\": 1}\n"

/* A lock that is taken away belongs to who takes it: not when the folder under the name is another one by then. */
static void test_folder_moved(void **state) {
    (void)state;
    sia_run *run, *second;
    char moved[1024];
    (void)snprintf(moved, sizeof moved, "%s", in_scratch("moved"));
    OK(sia_run_open(&run, in_scratch("here"), &said));
    assert_int_equal(rename(in_scratch("here"), moved), 0);
    OK(sia_run_open(&second, in_scratch("here"), &said));
    sia_run_close(run);
    assert_true(exists(in_scratch("here/lock")));
    sia_run_close(second);
    assert_false(exists(in_scratch("here/lock")));
}

/* A folder that is known by its lock alone stays so when the disk is full. In a child, which has the limit. */
static int open_on_full_disk(const char *folder) {
    sia_run *run;
    struct rlimit none = {0, 0};
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &none) != 0) return 2;
    sia_status status = sia_run_open(&run, folder, NULL);
    sia_run_close(run);
    return (int)status;
}

static void test_lock_on_full_disk(void **state) {
    (void)state;
    static const struct {
        const char *lock;
        int status;
        bool stays;
    } cases[] = {{"sia 12345", SIA_OK, true}, {"", SIA_FILE, true}, {NULL, SIA_FILE, false}};
    assert_int_equal(mkdir(in_scratch("tight"), 0777), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int result;
        (void)unlink(in_scratch("tight/lock"));
        if (cases[i].lock) (void)write_text("tight/lock", cases[i].lock);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) _exit(open_on_full_disk(in_scratch("tight")));
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_int_equal(WEXITSTATUS(result), cases[i].status);
        assert_int_equal(exists(in_scratch("tight/lock")), cases[i].stays);
        if (cases[i].stays) assert_file("tight/lock", cases[i].lock);
    }
}

/* What is written in place must not change under a name elsewhere, as in a backup of hard links. */
static void test_second_names(void **state) {
    (void)state;
    sia_run *run;
    sia_error err;
    char there[1024];
    assert_int_equal(mkdir(in_scratch("hard"), 0777), 0);
    (void)write_text("hard/config.json", OF_A_RUN);
    (void)write_text("notes", LINE("1") "the rest");
    (void)write_text("backup", "sia 12345");
    (void)snprintf(there, sizeof there, "%s", in_scratch("hard/eval.jsonl"));
    assert_int_equal(link(in_scratch("notes"), there), 0);
    (void)snprintf(there, sizeof there, "%s", in_scratch("hard/lock"));
    assert_int_equal(link(in_scratch("backup"), there), 0);
    OK(sia_run_open(&run, in_scratch("hard"), &said));
    OK(sia_run_append(run, SIA_RUN_EVAL, "{}", &said));
    sia_run_close(run);
    assert_file("hard/eval.jsonl", LINE("1") "{}\n");
    assert_file("notes", LINE("1") "the rest");
    /* An empty file elsewhere is not known to be a lock. */
    assert_int_equal(unlink(there), 0);
    (void)write_text("empty", "");
    assert_int_equal(link(in_scratch("empty"), there), 0);
    assert_int_equal(sia_run_open(&run, in_scratch("hard"), &err), SIA_ARGUMENT);
    assert_sentence(&err, "hard/lock: is not the lock of a run");
    assert_file("empty", "");
}

/* ------------------------------------------------------------------------------------------------- the logs */

/* The log as a killed process left it; then open, go back to a step, append step 9. */
static void test_rewind(void **state) {
    (void)state;
    static const struct {
        const char *before;
        int64_t step;
        const char *after, *sentence;
    } cases[] = {
        {"", 0, "", NULL},
        {LINE("1") LINE("2") LINE("3"), 3, LINE("1") LINE("2") LINE("3"), NULL},
        {LINE("1") LINE("2") LINE("3"), 2, LINE("1") LINE("2"), NULL},
        {LINE("1") LINE("2") LINE("3"), 0, "", NULL},
        {LINE("1") LINE("2") "{\"step\": 3, \"lo", 2, LINE("1") LINE("2"), NULL},
        {LINE("1") LINE("2") "{\"step\": 3}", 5, LINE("1") LINE("2") "{\"step\": 3}\n", NULL}, /* whole */
        {"{\"step\": 1", 5, "", NULL},
        {"{\"seed\": 7}\n" LINE("1") LINE("2") "{\"note\": \"x\"}\n", 1,
         "{\"seed\": 7}\n" LINE("1") "{\"note\": \"x\"}\n", NULL},
        {LINE("999999") LINE("1000000"), 999999, LINE("999999"), NULL},
        {LINE("2.0") LINE("2.5"), 2, LINE("2.0"), NULL},
        {LINE("1") "\n" LINE("3"), 1, NULL, "metrics.jsonl: line 2: want a JSON object"},
        {LINE("1") "[3]\n", 1, NULL, "metrics.jsonl: line 2: want a JSON object"},
        {LINE("1") "{\"step\": \n", 1, NULL, "metrics.jsonl: line 2: want a JSON object"},
    };
    assert_int_equal(mkdir(in_scratch("rewind"), 0777), 0);
    (void)write_text("rewind/lock", "sia 12345");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_run *run;
        sia_error err = {0};
        char wanted[1000];
        (void)write_text("rewind/metrics.jsonl", cases[i].before);
        OK(sia_run_open(&run, in_scratch("rewind"), &said));
        sia_status status = sia_run_rewind(run, cases[i].step, &err);
        print_message("  case %zu: %s\n", i, status ? strrchr(err.text, '/') + 1 : "rewound");
        if (cases[i].sentence) {
            assert_int_equal(status, SIA_FORMAT);
            assert_sentence(&err, cases[i].sentence);
            assert_file("rewind/metrics.jsonl", cases[i].before);
        } else {
            assert_int_equal(status, SIA_OK);
            OK(sia_run_append(run, SIA_RUN_METRICS, "{\"step\": 9}", &said));
            (void)snprintf(wanted, sizeof wanted, "%s{\"step\": 9}\n", cases[i].after);
            assert_file("rewind/metrics.jsonl", wanted);
        }
        assert_int_equal(count_entries(in_scratch("rewind")), 2);
        sia_run_close(run);
    }
}

/* Both logs; a log that is open while it is rewound. */
static void test_append(void **state) {
    (void)state;
    sia_run *run;
    sia_error err;
    OK(sia_run_open(&run, in_scratch("append"), &said));
    for (int step = 1; step <= 5; step++) {
        char line[64];
        (void)snprintf(line, sizeof line, "{\"step\": %d}", step);
        OK(sia_run_append(run, SIA_RUN_METRICS, line, &said));
        if (step % 2 == 0) OK(sia_run_append(run, SIA_RUN_EVAL, line, &said));
    }
    OK(sia_run_sync(run, &said));
    OK(sia_run_rewind(run, 3, &said));
    OK(sia_run_append(run, SIA_RUN_METRICS, "{\"step\": 4, \"again\": 1}", &said));
    assert_file("append/metrics.jsonl",
                "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": 4, \"again\": 1}\n");
    assert_file("append/eval.jsonl", "{\"step\": 2}\n");
    assert_int_equal(sia_run_append(run, SIA_RUN_METRICS, "{}\n{}", &err), SIA_ARGUMENT);
    assert_sentence(&err, "want one line");
    sia_run_close(run);
}

/* A disk that takes only the start of a line: the limit on the size of files plays its part, in a child. */
static int fill(const char *folder, rlim_t limit) {
    sia_run *run;
    sia_error err;
    struct rlimit most = {limit, limit};
    if (sia_run_open(&run, folder, NULL)) return 1;
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &most) != 0) return 2;
    if (sia_run_append(run, SIA_RUN_METRICS, "{\"step\": 1}", NULL)) return 3;
    if (sia_run_append(run, SIA_RUN_METRICS, "{\"step\": 2}", &err) != SIA_FILE) return 4;
    if (!strstr(err.text, "metrics.jsonl: File too large")) return 5;
    return 0;
}

static void test_full_disk(void **state) {
    (void)state;
    int result;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(fill(in_scratch("full"), 17));
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_file("full/metrics.jsonl", "{\"step\": 1}\n");
}

/* Killed while it appends: every line that was promised is there, and reopening leaves whole lines. */
static void test_kill(void **state) {
    (void)state;
    for (int round = 0; round < 10; round++) {
        int said_so[2];
        int64_t promised = 0;
        assert_int_equal(pipe(said_so), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            sia_run *run;
            char line[2000];
            if (sia_run_open(&run, in_scratch("kill"), NULL) || sia_run_rewind(run, 0, NULL)) _exit(1);
            for (int64_t step = 1;; step++) {
                (void)snprintf(line, sizeof line, "{\"step\": %lld, \"x\": \"%01500d\"}", (long long)step, 0);
                if (sia_run_append(run, SIA_RUN_METRICS, line, NULL)) _exit(1);
                if (write(said_so[1], &step, sizeof step) != sizeof step) _exit(1);
            }
        }
        (void)close(said_so[1]);
        assert_int_equal(read(said_so[0], &promised, sizeof promised), sizeof promised);
        (void)usleep((useconds_t)(300 * round));
        assert_int_equal(kill(child, SIGKILL), 0);
        while (read(said_so[0], &promised, sizeof promised) == sizeof promised) {
        }
        (void)close(said_so[0]);
        assert_int_equal(waitpid(child, NULL, 0), child);
        sia_run *run;
        char *bytes;
        size_t size, lines = 0;
        OK(sia_run_open(&run, in_scratch("kill"), &said));
        OK(sia_run_rewind(run, promised, &said));
        OK(sia_file_read(in_scratch("kill/metrics.jsonl"), 1 << 30, &bytes, &size, &said));
        for (size_t i = 0; i < size; i++) lines += bytes[i] == '\n';
        assert_int_equal(lines, promised);
        free(bytes);
        sia_run_close(run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_lock_without_a_number),
        cmocka_unit_test(test_refused_changes_nothing),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_given_back),
        cmocka_unit_test(test_folder_moved),
        cmocka_unit_test(test_lock_on_full_disk),
        cmocka_unit_test(test_second_names),
        cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_kill),
    };
    return cmocka_run_group_tests_name("run", tests, scratch_create, scratch_destroy);
}
