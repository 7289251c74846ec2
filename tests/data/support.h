/* SPDX-License-Identifier: MIT
 *
 * What the tests of src/data share: a scratch folder, files in it, the real material, a small tokenizer. */
#ifndef SIA_TESTS_DATA_SUPPORT_H
#define SIA_TESTS_DATA_SUPPORT_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/source.h"
#include "real_data.h"
#include "sanitizers.h"
#include "sia.h"

static char scratch[256];

static inline int scratch_create(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    (void)snprintf(scratch, sizeof scratch, "%s/sia-test-XXXXXX", base ? base : "/tmp");
    return mkdtemp(scratch) ? 0 : -1;
}

static inline int scratch_destroy(void **state) {
    (void)state;
    char command[300];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command) == 0 ? 0 : -1;
}

/* A path in the scratch folder; good until eight more were asked for. */
static inline char *in_scratch(const char *name) {
    static char paths[8][1024];
    static int turn;
    char *path = paths[turn++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

static inline char *write_file(const char *name, const void *bytes, size_t size) {
    char *path = in_scratch(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline char *write_text(const char *name, const char *text) {
    return write_file(name, text, strlen(text));
}

static inline bool exists(const char *path) { return access(path, F_OK) == 0; }

/* Entries of a folder, without . and .. */
static inline int count_entries(const char *folder) {
    int count = 0;
    DIR *open = opendir(folder);
    assert_non_null(open);
    for (struct dirent *entry; (entry = readdir(open));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(open);
    return count;
}

/* The thread sanitizer makes single-threaded counting over millions of words take minutes, and sees nothing
 * in it. */
#ifdef __SANITIZE_THREAD__
#    define SKIP_WITH_THREAD_SANITIZER() skip()
#else
#    define SKIP_WITH_THREAD_SANITIZER() ((void)0)
#endif

/* What the library said last; OK fails the test with it. */
static sia_error said;

#define OK(call)                             \
    do {                                     \
        if (call) fail_msg("%s", said.text); \
    } while (0)

/* A tokenizer of this size, trained on generated text. */
static inline sia_tokenizer *small_tokenizer(uint32_t size) {
    sia_source *source;
    sia_tokenizer *tokenizer;
    char *text;
    size_t length;
    OK(sia_source_create(&source, 99, 20000, &said));
    OK(sia_source_document(source, 0, NULL, &text, &length, &said));
    sia_text one = {text, length};
    OK(sia_tokenizer_train(&tokenizer, &(sia_tokenizer_training){.size = size, .threads = 1}, &one, 1,
                           &said));
    free(text);
    sia_source_destroy(source);
    return tokenizer;
}

static inline void assert_sentence(const sia_error *err, const char *wanted) {
    if (!strstr(err->text, wanted)) fail_msg("\"%s\": want \"%s\" in it", err->text, wanted);
}

#endif
