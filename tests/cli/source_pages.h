/* SPDX-License-Identifier: MIT
 *
 * The pages of the source, which the environment variable SOURCE names. */
#ifndef SIA_TESTS_CLI_SOURCE_PAGES_H
#define SIA_TESTS_CLI_SOURCE_PAGES_H

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

/* To be freed with globfree. */
static inline glob_t source_pages(void) {
    static const char *const patterns[] = {"*.md", "docs/*.md", "src/*.md", "python/*.md"};
    glob_t files = {0};
    assert_non_null(getenv("SOURCE"));
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char pattern[4096];
        (void)snprintf(pattern, sizeof pattern, "%s/%s", getenv("SOURCE"), patterns[i]);
        assert_int_equal(glob(pattern, i ? GLOB_APPEND : 0, NULL, &files), 0);
    }
    return files;
}

#endif
