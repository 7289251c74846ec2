/* SPDX-License-Identifier: MIT */
#include "base/path.h"
#include "support.h"

static void test_parts(void **state) {
    (void)state;
    static const struct {
        const char *path, *above, *last;
    } cases[] = {
        {"run", ".", "run"},     {"a/run", "a", "run"},  {"a/run//", "a", "run"}, {"a//run", "a", "run"},
        {"/run", "/", "run"},    {"//run/", "/", "run"}, {"/a/b/c", "/a/b", "c"}, {"./run", ".", "run"},
        {"../run", "..", "run"}, {"/", "/", ""},         {"//", "/", ""},         {"", ".", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length;
        char *above = sia_path_above(cases[i].path);
        const char *last = sia_path_last(cases[i].path, &length);
        assert_string_equal(above, cases[i].above);
        assert_int_equal(length, strlen(cases[i].last));
        assert_memory_equal(last, cases[i].last, length);
        free(above);
    }
}

static void test_join(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"run", "lock", "run/lock"},
        {"run//", "lock", "run/lock"},
        {"a/run/", "lock", "a/run/lock"},
        {".", "x", "./x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = sia_path_join(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        free(path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_join),
    };
    return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}
