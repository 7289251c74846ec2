/* SPDX-License-Identifier: MIT
 *
 * Temporary names: what is at work on one keeps it, what a killed process left is gone with the next. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/temporary.h"
#include "support.h"

static void test_names(void **state) {
    (void)state;
    char *one = sia_temporary_name("run/model"), *two = sia_temporary_name("run/model");
    assert_memory_equal(one, "run/model.tmp-", strlen("run/model.tmp-"));
    assert_string_not_equal(one, two);
    assert_true(sia_temporary_is(one) && sia_temporary_is(two));
    free(one);
    free(two);
    static const char *const others[] = {"",
                                         "model",
                                         ".tmp-ghijklmnopqr",
                                         "a.tmp-ghijklmnopq",
                                         "a.tmp-ghijklmnopqR",
                                         "a.tmp-ghijklmnopqrs",
                                         "a.tmp-202611161620",
                                         "a.tmp-ghijklmnopqr.old"};
    assert_true(sia_temporary_is("a.tmp-ghijklmnopqr"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_false(sia_temporary_is(others[i]));
}

/* The longest name that a file can have leaves no room for an ending. */
static void test_long_names(void **state) {
    (void)state;
    enum { MOST = 255, ENDING = 17 };
    char name[MOST + 6] = "long/", left[MOST + 6] = "long/";
    memset(name + 5, 'n', MOST);
    assert_int_equal(mkdir(in_scratch("long"), 0777), 0);
    OK(sia_file_replace(in_scratch(name), "new", 3, &said));
    memset(left + 5, 'n', MOST - ENDING); /* what a killed process left of it */
    memcpy(left + 5 + MOST - ENDING, ".tmp-ghijklmnopqr", ENDING);
    (void)write_text(left, "half");
    OK(sia_file_replace(in_scratch(name), "newer", 5, &said));
    assert_int_equal(count_entries(in_scratch("long")), 1);
}

/* A child that makes files and folders under temporary names, and waits to be killed. */
static pid_t leave(const char *folder) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char file[300];
        sia_output *out;
        sia_new_folder made = {.path = ""};
        (void)snprintf(file, sizeof file, "%s/file", folder);
        bool good = !sia_output_open(&out, file, NULL);
        (void)snprintf(file, sizeof file, "%s/one", folder);
        good = good && !sia_folder_create(&made, file, NULL);
        (void)snprintf(file, sizeof file, "%s/inside", made.path);
        good = good && !sia_file_replace(file, "x", 1, NULL);
        if (!good || write(ready[1], "r", 1) != 1) _exit(1);
        for (;;) (void)pause();
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    return child;
}

static void end(pid_t child) {
    int status;
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void test_at_work_and_left(void **state) {
    (void)state;
    char *folder = in_scratch("work");
    assert_int_equal(mkdir(folder, 0777), 0);
    pid_t child = leave(folder);
    assert_int_equal(count_entries(folder), 2);
    /* Neither cleaning nor writing the same names takes them from one who is at work. */
    OK(sia_folder_clean(folder, &said));
    OK(sia_file_replace(in_scratch("work/file"), "new", 3, &said));
    assert_int_equal(count_entries(folder), 3);
    end(child);
    /* The next who writes a name removes what was left of it, and of no other. */
    OK(sia_file_replace(in_scratch("work/file"), "newer", 5, &said));
    assert_int_equal(count_entries(folder), 2);
    sia_new_folder made;
    OK(sia_folder_create(&made, in_scratch("work/one"), &said));
    assert_int_equal(count_entries(folder), 2);
    OK(sia_folder_commit(&made, in_scratch("work/one"), true, &said));
    assert_int_equal(count_entries(folder), 2);
    assert_true(exists(in_scratch("work/one")));
    /* And so does who cleans the folder. */
    end(leave(folder));
    assert_int_equal(count_entries(folder), 4);
    OK(sia_folder_clean(folder, &said));
    assert_int_equal(count_entries(folder), 2);
}

/* Who writes a file removes no folder that looks like its leftover, and the other way round. */
static void test_of_its_kind(void **state) {
    (void)state;
    sia_new_folder made;
    assert_int_equal(mkdir(in_scratch("kind"), 0777), 0);
    assert_int_equal(mkdir(in_scratch("kind/a.tmp-gggggggggggg"), 0777), 0);
    (void)write_text("kind/b.tmp-gggggggggggg", "");
    OK(sia_file_replace(in_scratch("kind/a"), "x", 1, &said));
    OK(sia_folder_create(&made, in_scratch("kind/b"), &said));
    OK(sia_folder_commit(&made, in_scratch("kind/b"), true, &said));
    assert_int_equal(count_entries(in_scratch("kind")), 4);
    OK(sia_file_replace(in_scratch("kind/b.tmp-gggggggggggg"), "y", 1, &said)); /* a name like any other */
    OK(sia_folder_clean(in_scratch("kind"), &said));
    assert_int_equal(count_entries(in_scratch("kind")), 2);
}

/* In a folder of everybody's, what another user made stays. Only root can make it so. */
static void test_of_others(void **state) {
    (void)state;
    if (geteuid() != 0) skip();
    assert_int_equal(mkdir(in_scratch("shared"), 0777), 0);
    assert_int_equal(mkdir(in_scratch("shared/a.tmp-gggggggggggg"), 0777), 0);
    (void)write_text("shared/a.tmp-gggggggggggg/file", "theirs");
    (void)write_text("shared/b.tmp-gggggggggggg", "theirs");
    assert_int_equal(chown(in_scratch("shared/a.tmp-gggggggggggg"), 65534, 65534), 0);
    assert_int_equal(chown(in_scratch("shared/b.tmp-gggggggggggg"), 65534, 65534), 0);
    OK(sia_file_replace(in_scratch("shared/b"), "x", 1, &said));
    OK(sia_folder_clean(in_scratch("shared"), &said));
    assert_int_equal(count_entries(in_scratch("shared")), 3);
    assert_true(exists(in_scratch("shared/a.tmp-gggggggggggg/file")));
}

enum { CROWD = 3000, LOOKS = 20000, TRIES = 5 };

/* One who sees that a folder is being emptied, and puts a link to another folder in its place. */
static int exchange_for_link(const char *first, const char *folder, const char *away, const char *victim) {
    for (int i = 0; i < LOOKS && access(first, F_OK) == 0; i++) (void)usleep(100);
    return rename(folder, away) != 0 || symlink(victim, folder) != 0;
}

/* Returns whether the link came in time. */
static bool remove_while_exchanged(int number) {
    char first[1100], folder[1050], away[1024], victim[1024], name[64];
    int result;
    (void)snprintf(name, sizeof name, "tree%d", number);
    assert_int_equal(mkdir(in_scratch(name), 0777), 0);
    (void)snprintf(folder, sizeof folder, "%s/sub", in_scratch(name));
    assert_int_equal(mkdir(folder, 0777), 0);
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(name, sizeof name, "tree%d/sub/%d", number, i);
        (void)write_text(name, "");
    }
    (void)snprintf(first, sizeof first, "%s/0", folder);
    (void)snprintf(name, sizeof name, "away%d", number);
    (void)snprintf(away, sizeof away, "%s", in_scratch(name));
    (void)snprintf(victim, sizeof victim, "%s", in_scratch("victim"));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(exchange_for_link(first, folder, away, victim));
    (void)snprintf(name, sizeof name, "tree%d", number);
    sia_tree_remove(in_scratch(name));
    assert_int_equal(waitpid(child, &result, 0), child);
    return result == 0;
}

/* Removing goes into no folder but those that it found: names are those of the victim's files. */
static void test_exchanged_for_a_link(void **state) {
    (void)state;
    char name[64];
    assert_int_equal(mkdir(in_scratch("victim"), 0777), 0);
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(name, sizeof name, "victim/%d", i);
        (void)write_text(name, "precious");
    }
    bool exchanged = false;
    for (int i = 0; i < TRIES && !exchanged; i++) exchanged = remove_while_exchanged(i);
    assert_true(exchanged);
    assert_int_equal(count_entries(in_scratch("victim")), CROWD);
}

/* A tree deeper than we would ever make is left, and nothing overflows. */
static void test_deep(void **state) {
    (void)state;
    char path[256] = "deep";
    for (int i = 0; i < 100; i++) {
        assert_int_equal(mkdir(in_scratch(path), 0777), 0);
        (void)snprintf(path + strlen(path), sizeof path - strlen(path), "/d");
    }
    sia_tree_remove(in_scratch("deep"));
    assert_true(exists(in_scratch("deep/d/d")));
}

/* Links and pipes that look so nobody of us made. */
static void test_what_is_neither(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_scratch("odd"), 0777), 0);
    assert_int_equal(mkdir(in_scratch("kept"), 0777), 0);
    (void)write_text("kept/file", "x");
    assert_int_equal(symlink("../kept", in_scratch("odd/a.tmp-ghijklmnopqr")), 0);
    assert_int_equal(mkfifo(in_scratch("odd/b.tmp-ghijklmnopqr"), 0600), 0);
    OK(sia_folder_clean(in_scratch("odd"), &said));
    assert_int_equal(count_entries(in_scratch("odd")), 2);
    sia_tree_remove(in_scratch("odd"));
    assert_false(exists(in_scratch("odd")));
    assert_true(exists(in_scratch("kept/file")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),      cmocka_unit_test(test_at_work_and_left),
        cmocka_unit_test(test_long_names), cmocka_unit_test(test_of_its_kind),
        cmocka_unit_test(test_of_others),  cmocka_unit_test(test_exchanged_for_a_link),
        cmocka_unit_test(test_deep),       cmocka_unit_test(test_what_is_neither),
    };
    return cmocka_run_group_tests_name("temporary", tests, scratch_create, scratch_destroy);
}
