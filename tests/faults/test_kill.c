/* SPDX-License-Identifier: MIT
 *
 * SIGKILL at every system call. A child is traced: it stops before and after each of its calls into the system, and is
 * killed at the n-th stop, for n = 1, 2, 3, ... until it ends by itself. Each time what it left is opened:
 *
 *     a reader, at once:        the old checkpoint whole or the new one whole, never a mixture
 *     the next writer:          cleans what was left over, and saves
 *
 *     test_kill [--all]         with --all whole runs of 'sia train' at every stop too, which takes minutes */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/path.h"
#include "base/random.h"
#include "cli/options.h"
#include "support.h"
#include "train/checkpoint.h"
#include "tree.h"

enum { FLOATS = 500, LATEST = 4, OUT_OF_REACH = 1 << 30 };

static bool all_stops;

/* ----------------------------------------------------------------------------------------------- the hunter */

typedef void deed(void *context);

/* Does the deed in a child and kills that at its n-th stop. True when it was killed, false when it ended
 * before. */
static bool kill_at(int n, deed *what, void *context) {
    int result, stops = 0;
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
        (void)raise(SIGSTOP);
        what(context);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    if (WIFEXITED(result) && WEXITSTATUS(result) == 77) return false;
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD), 0);
    for (;;) {
        int signal_number = 0;
        if (WIFSTOPPED(result) && WSTOPSIG(result) == (SIGTRAP | 0x80)) {
            if (++stops == n) break;
        } else if (WIFSTOPPED(result) && WSTOPSIG(result) != SIGSTOP) {
            signal_number = WSTOPSIG(result);
        }
        if (ptrace(PTRACE_SYSCALL, child, NULL, signal_number) != 0) break;
        assert_int_equal(waitpid(child, &result, 0), child);
        if (!WIFSTOPPED(result)) {
            if (!WIFEXITED(result) || WEXITSTATUS(result) != 0) fail_msg("the deed failed: %d", result);
            return false;
        }
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL);
    return true;
}

static void nothing(void *context) { (void)context; }

/* A sandbox may forbid tracing. */
static bool may_trace(void) {
    int result;
    pid_t child = fork();
    if (child == 0) _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
    return child > 0 && waitpid(child, &result, 0) == child && WIFEXITED(result) &&
           WEXITSTATUS(result) == 0 && kill_at(1, nothing, NULL);
}

#define NEED_TRACE()                                          \
    do {                                                      \
        if (!may_trace()) {                                   \
            print_message("skipped: tracing is forbidden\n"); \
            skip();                                           \
        }                                                     \
    } while (0)

/* -------------------------------------------------------------------------------------------------- checkpoints */

static float weights[FLOATS], states[FLOATS];
static const sia_tensor_entry model_entry = {"weights", weights, 1, {FLOATS}},
                              state_entry = {"states", states, 1, {FLOATS}};
static const sia_tensor_table model = {&model_entry, 1}, optimizer = {&state_entry, 1};

static void set_values(int mark) {
    for (int i = 0; i < FLOATS; i++) {
        weights[i] = (float)(mark * 1000 + i);
        states[i] = (float)(-mark * 1000 - i);
    }
}

/* The mark that all values agree on, -1 for a mixture. */
static int mark_of_values(void) {
    int mark = (int)(weights[0] / 1000);
    for (int i = 0; i < FLOATS; i++)
        if (weights[i] != (float)(mark * 1000 + i) || states[i] != (float)(-mark * 1000 - i)) return -1;
    return mark;
}

static sia_status save(sia_run *run, int64_t step, int mark, int64_t keep, sia_error *err) {
    char line[64];
    set_values(mark);
    (void)snprintf(line, sizeof line, "{\"step\":%" PRId64 ",\"mark\":%d}", step, mark);
    sia_status status = sia_run_append(run, SIA_RUN_METRICS, line, err);
    return status ? status : sia_checkpoint_save(run, step, &model, &optimizer, NULL, 0, keep, err);
}

typedef struct saving {
    const char *folder;
    int64_t step, keep;
    int mark;
} saving;

static void open_and_save(void *context) {
    const saving *s = context;
    sia_run *run;
    if (sia_run_open(&run, s->folder, NULL) || save(run, s->step, s->mark, s->keep, NULL)) _exit(1);
    sia_run_close(run);
}

/* The mark of a step, as a reader finds it who asks nobody. */
static int mark_of(const char *folder, int64_t step) {
    sia_checkpoint *c;
    if (sia_checkpoint_open(&c, folder, step, false, &said)) return -1;
    set_values(999);
    sia_status status = sia_checkpoint_read(c, &model, &optimizer, &said);
    sia_checkpoint_close(c);
    return status ? -1 : mark_of_values();
}

/* Lines are whole, and of the old saves and perhaps the new one. */
static void assert_log(const char *folder, int lines) {
    char *path = sia_path_join(folder, "metrics.jsonl"), *text;
    size_t bytes;
    OK(sia_file_read(path, 1 << 20, &text, &bytes, &said));
    int found = 0;
    for (size_t i = 0; i < bytes; i++) found += text[i] == '\n';
    assert_true(bytes == 0 || text[bytes - 1] == '\n');
    assert_true(found == lines || found == lines + 1);
    free(text);
    free(path);
}

static void prepare(const char *folder, int64_t steps) {
    sia_run *run;
    tree_remove(folder);
    OK(sia_run_open(&run, folder, &said));
    for (int64_t step = 1; step <= steps; step++) OK(save(run, step, 1, 0, &said));
    sia_run_close(run);
}

/* A step that is new, with older ones to remove; a step that is there already. */
static void test_checkpoint(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t before, step, keep;
    } cases[] = {
        {"a new step", 3, 4, 0}, {"a new step, older ones go", 3, 4, 2}, {"the same step again", 3, 3, 0}};
    NEED_TRACE();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *folder = in_scratch("run");
        saving s = {folder, cases[i].step, cases[i].keep, 2};
        int n = 1, old = 0, new = 0, leftovers = 0;
        for (bool killed = true; killed; n++) {
            prepare(folder, cases[i].before);
            killed = kill_at(n, open_and_save, &s);
            int64_t *steps, count;
            OK(sia_checkpoint_list(folder, &steps, &count, &said));
            for (int64_t k = 0; k < count; k++) {
                int mark = mark_of(folder, steps[k]);
                bool saved = steps[k] == cases[i].step;
                if (mark != 1 && !(saved && mark == 2))
                    fail_msg("%s, stop %d: step %d: mark %d: %s", cases[i].name, n, (int)steps[k], mark,
                             said.text);
                if (saved) (mark == 2 ? new ++ : old++);
            }
            /* What was kept before the new one came is there until it has come. */
            assert_true(count >= (cases[i].keep ? cases[i].keep : cases[i].before));
            assert_true(steps[count - 1] >= cases[i].before);
            free(steps);
            leftovers += count_entries(folder) - (int)count - 2; /* the lock and the log */

            sia_run *run;
            OK(sia_run_open(&run, folder, &said));
            assert_log(folder, (int)cases[i].before);
            assert_int_equal(count_entries(folder), count + 2);
            OK(save(run, 9, 3, 1, &said));
            sia_run_close(run);
            assert_int_equal(mark_of(folder, 9), 3);
            assert_int_equal(count_entries(folder), 3);
        }
        print_message("  %s: %d stops; %d times the old, %d times the new; %d leftovers cleaned\n",
                      cases[i].name, n - 1, old, new, leftovers);
        assert_true(new > 0 && n > 50);
    }
}

/* --------------------------------------------------------------------------------------- folders, files, logs */

static void put_file(const char *folder, const char *text) {
    char *path = sia_path_join(folder, "file");
    if (!path || sia_file_replace(path, text, strlen(text), NULL)) _exit(1);
    free(path);
}

/* Where the file system cannot exchange two names: two renames. */
static void swap(void *context) {
    sia_new_folder made;
    if (sia_folder_create(&made, context, NULL)) _exit(1);
    put_file(made.path, "new");
    if (sia_folder_commit(&made, context, false, NULL)) _exit(1);
}

static bool holds(const char *folder, const char *text) {
    char *path = sia_path_join(folder, "file"), *found = NULL;
    size_t bytes;
    bool same = path && !sia_file_read(path, 100, &found, &bytes, NULL) && strcmp(found, text) == 0;
    free(found);
    free(path);
    return same;
}

static void test_two_renames(void **state) {
    (void)state;
    NEED_TRACE();
    int n = 1, absent = 0;
    char *home = in_scratch("home"), *folder = in_scratch("home/folder");
    for (bool killed = true; killed; n++) {
        tree_remove(home);
        OK(sia_folder_ensure(folder, &said));
        put_file(folder, "old");
        killed = kill_at(n, swap, folder);
        absent += !exists(folder);
        OK(sia_folder_clean(home, &said));
        assert_int_equal(count_entries(home), 1);
        assert_true(holds(folder, "old") || holds(folder, "new"));
    }
    print_message("  two renames: %d stops, at %d of them the folder stood aside\n", n - 1, absent);
    assert_true(absent > 0 && holds(folder, "new"));
}

static void replace(void *context) { put_file(context, "new"); }

static void test_file(void **state) {
    (void)state;
    NEED_TRACE();
    int n = 1;
    char *folder = in_scratch("files");
    for (bool killed = true; killed; n++) {
        tree_remove(folder);
        OK(sia_folder_ensure(folder, &said));
        put_file(folder, "old");
        killed = kill_at(n, replace, folder);
        assert_true(holds(folder, "old") || holds(folder, "new"));
        OK(sia_folder_clean(folder, &said));
        assert_int_equal(count_entries(folder), 1);
    }
    print_message("  a file: %d stops\n", n - 1);
    assert_true(holds(folder, "new"));
}

/* A log that loses its last lines. */
static void rewind_log(void *context) {
    sia_run *run;
    if (sia_run_open(&run, context, NULL) || sia_run_rewind(run, 1, NULL)) _exit(1);
    sia_run_close(run);
}

static void test_rewind(void **state) {
    (void)state;
    NEED_TRACE();
    int n = 1;
    char *folder = in_scratch("log");
    for (bool killed = true; killed; n++) {
        prepare(folder, 3);
        killed = kill_at(n, rewind_log, folder);
        char *path = sia_path_join(folder, "metrics.jsonl"), *text;
        size_t bytes;
        OK(sia_file_read(path, 1000, &text, &bytes, &said));
        size_t lines = bytes / strlen("{\"step\":1,\"mark\":1}\n");
        assert_true(lines == 1 || lines == 3);
        assert_true(killed || lines == 1);
        free(text);
        free(path);
    }
    print_message("  a log: %d stops\n", n - 1);
}

/* ------------------------------------------------------------------------------------------------------- whole runs */

#define TRAIN                                                                                             \
    "sia train text.txt --tokenizer tok.json --quiet --steps 3 --save-every 1 --keep 2 --eval-windows 2 " \
    "--lengths 1x,2x "                                                                                    \
    "--layers 1 --width 16 --heads 1 --train-len 16 --batch 2 --log-every 1 --threads 1 --out run --resume"

static int sia(const char *line) {
    char copy[1024], *words[100], *rest = NULL;
    int count = 0;
    (void)snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    return cli_main(count, words);
}

static void train(void *context) {
    (void)context;
    if (sia(TRAIN)) _exit(1);
}

/* Killed at a stop, then resumed: the same folder as that of a run that nobody killed. */
static void test_train(void **state) {
    (void)state;
    NEED_TRACE();
    char *work = in_scratch("work"), why[TREE_WHY];
    OK(sia_folder_ensure(work, &said));
    assert_int_equal(chdir(work), 0);
    assert_int_equal(sia("sia data generate --words 300 --documents 2 --seed 3 --out text.txt"), 0);
    assert_int_equal(sia("sia tokenizer train --size 262 --out tok.json --quiet --threads 1 text.txt"), 0);
    tree before = tree_read(work);
    train(NULL);
    tree after = tree_read(work);
    int kills = 0, stops = 0;
    for (int n = 1; n < OUT_OF_REACH;
         stops = n, n += all_stops ? 1 : 1 + (int)sia_random_below(5, (uint64_t)n, 90)) {
        assert_int_equal(chdir("/"), 0);
        tree_remove(work);
        tree_write(&before, work);
        assert_int_equal(chdir(work), 0);
        if (!kill_at(n, train, NULL)) break;
        kills++;
        train(NULL);
        tree found = tree_read(work);
        if (!tree_same(&after, &found, why)) fail_msg("killed at stop %d, then resumed: %s", n, why);
        tree_free(&found);
    }
    print_message("  sia train: killed at %d of about %d stops, resumed each time to the same bytes\n", kills,
                  stops);
    assert_true(kills > 5);
    assert_int_equal(chdir("/"), 0);
    tree_free(&before);
    tree_free(&after);
}

int main(int argc, char **argv) {
    /* In memory where the system has such a place: a sync takes its time on a disk, and is the same system call. */
    if (access("/dev/shm", W_OK) == 0) (void)setenv("TMPDIR", "/dev/shm", 0);
    all_stops = argc > 1 && strcmp(argv[1], "--all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint), cmocka_unit_test(test_two_renames), cmocka_unit_test(test_file),
        cmocka_unit_test(test_rewind),     cmocka_unit_test(test_train),
    };
    return cmocka_run_group_tests_name("kill", tests, scratch_create, scratch_destroy);
}
