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
                                         ".tmp-0123456789ab",
                                         "a.tmp-0123456789a",
                                         "a.tmp-0123456789AB",
                                         "a.tmp-0123456789abc",
                                         "a.tmp-0123456789ab.old"};
    assert_true(sia_temporary_is("a.tmp-0123456789ab"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_false(sia_temporary_is(others[i]));
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

/* Links and pipes that look so are removed as what they are. */
static void test_what_is_neither(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_scratch("odd"), 0777), 0);
    assert_int_equal(mkdir(in_scratch("kept"), 0777), 0);
    (void)write_text("kept/file", "x");
    assert_int_equal(symlink("../kept", in_scratch("odd/a.tmp-0123456789ab")), 0);
    assert_int_equal(mkfifo(in_scratch("odd/b.tmp-0123456789ab"), 0600), 0);
    OK(sia_folder_clean(in_scratch("odd"), &said));
    assert_int_equal(count_entries(in_scratch("odd")), 0);
    assert_true(exists(in_scratch("kept/file")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_at_work_and_left),
        cmocka_unit_test(test_what_is_neither),
    };
    return cmocka_run_group_tests_name("temporary", tests, scratch_create, scratch_destroy);
}
