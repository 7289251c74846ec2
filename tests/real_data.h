/* SPDX-License-Identifier: MIT
 *
 * Real texts, a real tokenizer, real weights: where they are not, the tests that want them are skipped, with a
 * word. Include cmocka first. */
#ifndef SIA_TESTS_REAL_DATA_H
#define SIA_TESTS_REAL_DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The path of a file, in a static buffer, or NULL where it is absent. */
static inline const char *real_data(const char *name) {
    static char path[4096];
    const char *folder = getenv("SIA_TEST_DATA");
    (void)snprintf(path, sizeof path, "%s/%s", folder ? folder : SIA_SOURCE_DIR "/../shared/data", name);
    return access(path, R_OK) == 0 ? path : NULL;
}

static inline const char *need_real_data(const char *name) {
    const char *path = real_data(name);
    if (!path) {
        print_message("skipped: %s is not here (SIA_TEST_DATA)\n", name);
        skip();
    }
    return path;
}

#endif
