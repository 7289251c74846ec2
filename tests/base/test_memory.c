/* SPDX-License-Identifier: MIT
 *
 * Memory by whole pages: zeroed, large mappings at a huge page, and nothing left behind. Arrays that grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/memory.h"

enum { HUGE_PAGE = 2 << 20, SMALL_PAGE = 4096 };

/* Pages of the process's address space. */
static long pages_mapped(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    assert_int_equal(fscanf(file, "%ld", &pages), 1);
    (void)fclose(file);
    return pages;
}

static void maps_every_size(void **state) {
    (void)state;
    const size_t sizes[] = {1,
                            SMALL_PAGE,
                            HUGE_PAGE - 1,
                            HUGE_PAGE,
                            HUGE_PAGE + 1,
                            HUGE_PAGE + SMALL_PAGE,
                            3 * (size_t)HUGE_PAGE - 1,
                            5 * (size_t)HUGE_PAGE};
    (void)pages_mapped(); /* the first call of fopen takes memory of its own */
    long before = pages_mapped();
    for (int repeat = 0; repeat < 3; repeat++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned char *pages = sia_pages_map(sizes[i]);
            assert_non_null(pages);
            if (sizes[i] >= HUGE_PAGE) assert_int_equal((uintptr_t)pages % HUGE_PAGE, 0);
            for (size_t at = 0; at < sizes[i]; at += SMALL_PAGE / 2) assert_int_equal(pages[at], 0);
            pages[0] = pages[sizes[i] - 1] = 1;
            sia_pages_unmap(pages, sizes[i]);
        }
    assert_int_equal(pages_mapped(), before);
}

static void refuses_what_is_too_much(void **state) {
    (void)state;
    assert_null(sia_pages_map(SIZE_MAX));
    assert_null(sia_pages_map(SIZE_MAX / 2));
    sia_pages_unmap(NULL, 1);
}

static void grows_an_array(void **state) {
    (void)state;
    uint16_t *array = NULL;
    size_t room = 0, moves = 0;
    for (size_t count = 0; count < 100000; count++) {
        size_t before = room;
        assert_true(sia_grow(&array, &room, count + 1, sizeof *array));
        assert_true(room > count);
        moves += room != before;
        array[count] = (uint16_t)count;
    }
    assert_true(moves < 30); /* each by half */
    for (size_t i = 0; i < 100000; i++) assert_int_equal(array[i], (uint16_t)i);

    const uint16_t *then = array;
    size_t had = room;
    assert_false(sia_grow(&array, &room, SIZE_MAX, sizeof *array));
    assert_false(sia_grow(&array, &room, SIZE_MAX / 2 + 2, sizeof *array)); /* times 2 it is 2 */
    assert_ptr_equal(array, then);
    assert_int_equal(room, had);
    assert_true(sia_grow(&array, &room, 1, sizeof *array)); /* it never shrinks */
    assert_int_equal(room, had);
    free(array);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps_every_size),
                                       cmocka_unit_test(refuses_what_is_too_much),
                                       cmocka_unit_test(grows_an_array)};
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
