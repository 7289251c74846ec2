/* SPDX-License-Identifier: MIT
 *
 * Folders that are whole or absent, in both ways of replacing one, and what a kill between two renames
 * leaves. */
#include "base/file.h"
#include "base/folder.h"
#include "support.h"

/* A folder of one file, or of none for NULL. */
static void make(const char *name, const char *content) {
    char file[200];
    assert_int_equal(mkdir(in_scratch(name), 0777), 0);
    (void)snprintf(file, sizeof file, "%s/file", name);
    if (content) (void)write_text(file, content);
}

static void assert_content(const char *name, const char *content) {
    char file[200], *bytes;
    size_t size;
    (void)snprintf(file, sizeof file, "%s/file", name);
    OK(sia_file_read(in_scratch(file), 100, &bytes, &size, &said));
    assert_string_equal(bytes, content);
    free(bytes);
}

static void test_commit(void **state) {
    (void)state;
    for (int exchange = 0; exchange < 2; exchange++) {
        for (int before = 0; before < 3; before++) { /* absent, empty, with a file */
            sia_new_folder made;
            char *path, file[200];
            assert_int_equal(mkdir(in_scratch("run"), 0777), 0);
            if (before) make("run/one", before == 2 ? "old" : NULL);
            OK(sia_folder_create(&made, in_scratch("run/one"), &said));
            (void)snprintf(file, sizeof file, "%s/file", made.path + strlen(scratch) + 1);
            path = write_text(file, "new");
            assert_true(exists(path));
            OK(sia_folder_commit(&made, in_scratch("run/one"), exchange, &said));
            assert_content("run/one", "new");
            assert_int_equal(count_entries(in_scratch("run")), 1);
            OK(sia_folder_remove(in_scratch("run/one"), &said));
            assert_int_equal(count_entries(in_scratch("run")), 0);
            assert_int_equal(rmdir(in_scratch("run")), 0);
        }
    }
}

static void test_refusals(void **state) {
    (void)state;
    sia_error err;
    sia_new_folder made;
    assert_int_equal(sia_folder_create(&made, in_scratch("absent/one"), &err), SIA_FILE);
    assert_null(made.path);
    assert_int_equal(sia_folder_remove(in_scratch("absent"), &err), SIA_FILE);
    assert_int_equal(sia_folder_clean(in_scratch("absent"), &err), SIA_FILE);
    /* Folders above are made as well, but not through a file. */
    assert_int_equal(sia_folder_ensure(in_scratch("deep/er/one"), &err), SIA_OK);
    assert_int_equal(sia_folder_ensure(in_scratch("deep/er/one/"), &err), SIA_OK);
    (void)write_text("plain", "file");
    assert_int_equal(sia_folder_ensure(in_scratch("plain/one"), &err), SIA_FILE);
    /* In the place of a file: it stays, and the new folder is gone. */
    assert_int_equal(mkdir(in_scratch("place"), 0777), 0);
    (void)write_text("place/taken", "file");
    OK(sia_folder_create(&made, in_scratch("place/taken"), &said));
    assert_int_equal(sia_folder_commit(&made, in_scratch("place/taken"), true, &err), SIA_FILE);
    assert_int_equal(count_entries(in_scratch("place")), 1);
    assert_true(exists(in_scratch("place/taken")));
}

/* What is removed, what stays, what comes back. */
static void test_clean(void **state) {
    (void)state;
    static const char *const leftovers[] = {"a.json.tmp-ghijklmnopqr", "x.tmp-gggggggggggg"},
                             *const others[] = {"a.json",
                                                "a.tmp-ghijklmnopq",
                                                "a.tmp-ghijklmnopqrs",
                                                "a.tmp-ghijklmnopqR",
                                                "a.tmp-202611161620",
                                                ".tmp-ghijklmnopqr",
                                                "tmp-ghijklmnopqr"};
    enum { LEFTOVERS = sizeof leftovers / sizeof *leftovers, OTHERS = sizeof others / sizeof *others };
    char name[200];
    assert_int_equal(mkdir(in_scratch("clean"), 0777), 0);
    for (int i = 0; i < LEFTOVERS + OTHERS; i++) {
        (void)snprintf(name, sizeof name, "clean/%s", i < LEFTOVERS ? leftovers[i] : others[i - LEFTOVERS]);
        (void)write_text(name, "");
    }
    make("clean/step.tmp-vvvvvvvvvvvv", "half");
    make("clean/step.tmp-vvvvvvvvvvvv/deep", "half");
    assert_int_equal(symlink(in_scratch("clean/a.json"), in_scratch("clean/step.tmp-vvvvvvvvvvvv/link")), 0);
    make("clean/gone.tmp-aside", "old"); /* killed between the renames */
    make("clean/both.tmp-aside", "old"); /* killed behind them */
    make("clean/both", "new");
    OK(sia_folder_clean(in_scratch("clean"), &said));
    assert_int_equal(count_entries(in_scratch("clean")), OTHERS + 2);
    for (int i = 0; i < OTHERS; i++) {
        (void)snprintf(name, sizeof name, "clean/%s", others[i]);
        assert_true(exists(in_scratch(name)));
    }
    assert_content("clean/gone", "old");
    assert_content("clean/both", "new");
}

/* One that cannot come back: its name is a link to nothing. It stays where it is. */
static void test_put_back(void **state) {
    (void)state;
    sia_error err;
    assert_int_equal(mkdir(in_scratch("back"), 0777), 0);
    make("back/one.tmp-aside", "old");
    assert_int_equal(symlink("nowhere", in_scratch("back/one")), 0);
    assert_int_equal(sia_folder_clean(in_scratch("back"), &err), SIA_FILE);
    assert_sentence(&err, "back/one: Not a directory");
    assert_content("back/one.tmp-aside", "old");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_put_back),
    };
    return cmocka_run_group_tests_name("folder", tests, scratch_create, scratch_destroy);
}
