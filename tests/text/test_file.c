/* SPDX-License-Identifier: MIT
 *
 * Files: what is read, what is refused, and that an output is there whole or not at all. */
#define _GNU_SOURCE
#include "support.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char folder[] = "/tmp/sia-test-XXXXXX";

static const char *in_folder(const char *name) {
    static char path[4][512];
    static int turn;
    char *p = path[turn++ % 4];
    (void)snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static int entries(void) {
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

static void assert_holds(const char *path, const char *want) {
    char *bytes;
    size_t size;
    sia_error err;
    check(sia_file_read(path, 1 << 20, &bytes, &size, &err), &err);
    assert_string_equal(bytes, want);
    assert_int_equal(size, strlen(want));
    free(bytes);
}

static int clear(void **state) {
    (void)state;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) (void)remove(in_folder(e->d_name));
    if (d) (void)closedir(d);
    return 0;
}

static void test_replace(void **state) {
    (void)state;
    sia_error err;
    const char *path = in_folder("a");
    check(sia_file_replace(path, "one", 3, &err), &err);
    assert_holds(path, "one");
    check(sia_file_replace(path, "", 0, &err), &err);
    assert_holds(path, "");
    check(sia_file_replace(path, "three", 5, &err), &err);
    assert_holds(path, "three");
    assert_int_equal(entries(), 1);
}

/* Until the commit the old file stands; abandoned, nothing of the new one is left. */
static void test_abandon(void **state) {
    (void)state;
    sia_error err;
    sia_output *out;
    const char *path = in_folder("a");
    check(sia_file_replace(path, "old", 3, &err), &err);
    check(sia_output_open(&out, path, &err), &err);
    char *large = calloc(1, 1 << 20);
    assert_non_null(large);
    check(sia_output_write(out, "new", 3, &err), &err);
    check(sia_output_write(out, large, 1 << 20, &err), &err);
    assert_int_equal(entries(), 2);
    assert_holds(path, "old");
    sia_output_abandon(out);
    assert_int_equal(entries(), 1);
    assert_holds(path, "old");
    free(large);
    sia_output_abandon(NULL);
}

static void test_patch(void **state) {
    (void)state;
    sia_error err;
    sia_output *out;
    check(sia_output_open(&out, in_folder("a"), &err), &err);
    check(sia_output_printf(out, &err, "%s-%d", "count", 0), &err);
    check(sia_output_patch(out, 6, "7", 1, &err), &err);
    check(sia_output_write(out, "!", 1, &err), &err);
    check(sia_output_commit(out, &err), &err);
    assert_holds(in_folder("a"), "count-7!");
}

static void test_mode_and_links(void **state) {
    (void)state;
    sia_error err;
    struct stat about;
    check(sia_file_replace(in_folder("a"), "one", 3, &err), &err);
    assert_int_equal(chmod(in_folder("a"), 0640), 0);
    assert_int_equal(symlink("a", in_folder("link")), 0);
    check(sia_file_replace(in_folder("link"), "two", 3, &err), &err);
    assert_int_equal(lstat(in_folder("link"), &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_holds(in_folder("a"), "two");
    assert_int_equal(stat(in_folder("a"), &about), 0);
    assert_int_equal(about.st_mode & 07777, 0640);
    /* A device is written to, not replaced. */
    check(sia_file_replace("/dev/null", "x", 1, &err), &err);
    assert_int_equal(stat("/dev/null", &about), 0);
    assert_true(S_ISCHR(about.st_mode));
}

static void test_refused(void **state) {
    (void)state;
    sia_error err;
    sia_map map;
    sia_output *out;
    char *bytes;
    size_t size;
    assert_int_equal(sia_map_open(&map, in_folder("none"), &err), SIA_FILE);
    assert_non_null(strstr(err.text, "none: No such file or directory"));
    assert_int_equal(sia_map_open(&map, folder, &err), SIA_FILE);
    assert_non_null(strstr(err.text, "is a folder"));
    assert_int_equal(sia_map_open(&map, "/dev/null", &err), SIA_FILE);
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_int_equal(sia_map_open(&map, in_folder("pipe"), &err), SIA_FILE); /* and does not hang */
    assert_int_equal(sia_output_open(&out, folder, &err), SIA_FILE);
    assert_null(out);
    assert_int_equal(sia_output_open(&out, in_folder("no/such/folder"), &err), SIA_FILE);
    assert_non_null(strstr(err.text, "No such file"));
    check(sia_file_replace(in_folder("a"), "12345", 5, &err), &err);
    assert_int_equal(sia_file_read(in_folder("a"), 4, &bytes, &size, &err), SIA_FORMAT);
    assert_non_null(strstr(err.text, "more than 4 bytes"));
    assert_null(bytes);
    check(sia_file_read(in_folder("a"), 5, &bytes, &size, &err), &err);
    free(bytes);
    assert_int_equal(sia_output_open(&out, "/dev/full", &err), SIA_OK);
    check(sia_output_write(out, "x", 1, &err), &err);
    assert_int_equal(sia_output_commit(out, &err), SIA_FILE);
    assert_non_null(strstr(err.text, "No space left"));
}

static void test_map(void **state) {
    (void)state;
    sia_error err;
    sia_map map;
    check(sia_file_replace(in_folder("empty"), "", 0, &err), &err);
    check(sia_map_open(&map, in_folder("empty"), &err), &err);
    assert_int_equal(map.size, 0);
    sia_map_close(&map);
    check(sia_file_replace(in_folder("a"), "abc", 3, &err), &err);
    check(sia_map_open(&map, in_folder("a"), &err), &err);
    sia_map_sequential(&map);
    assert_int_equal(map.size, 3);
    assert_memory_equal(map.bytes, "abc", 3);
    sia_map_close(&map);
    sia_map_close(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_replace, NULL, clear),
        cmocka_unit_test_setup_teardown(test_abandon, NULL, clear),
        cmocka_unit_test_setup_teardown(test_patch, NULL, clear),
        cmocka_unit_test_setup_teardown(test_mode_and_links, NULL, clear),
        cmocka_unit_test_setup_teardown(test_refused, NULL, clear),
        cmocka_unit_test_setup_teardown(test_map, NULL, clear),
    };
    if (!mkdtemp(folder)) return 1;
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rmdir(folder);
    return result;
}
