/* SPDX-License-Identifier: MIT
 *
 * What fuzz targets share, and what they check beyond not crashing: abort() is how libFuzzer hears of it. */
#ifndef SIA_TESTS_FUZZ_H
#define SIA_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sia.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A failure has a sentence that ends within its array. */
static inline void fuzz_sentence(const sia_error *err) {
    if (err->status == SIA_OK || !memchr(err->text, 0, sizeof err->text) || err->text[0] == 0) abort();
}

/* ------------------------------------------------------------------------------------- readers that want a folder */

static char fuzz_folder_path[64];

static inline void fuzz_folder_remove(void) {
    static const char *const names[] = {"config.json",      "metrics.jsonl", "lock", "data.json",
                                        "train_000000.bin", "eval.jsonl",    "run",  NULL};
    static const char *const steps[] = {"model.safetensors", "optimizer.safetensors", NULL};
    char path[256];
    for (int i = 0; names[i]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", fuzz_folder_path, names[i]);
        (void)remove(path);
    }
    for (int i = 0; steps[i]; i++) {
        (void)snprintf(path, sizeof path, "%s/step-000001/%s", fuzz_folder_path, steps[i]);
        (void)remove(path);
    }
    (void)snprintf(path, sizeof path, "%s/step-000001", fuzz_folder_path);
    (void)rmdir(path);
    (void)rmdir(fuzz_folder_path);
}

/* A folder for this process, in memory where the system has such a place; removed at the end. */
static inline const char *fuzz_folder(void) {
    if (fuzz_folder_path[0]) return fuzz_folder_path;
    (void)snprintf(fuzz_folder_path, sizeof fuzz_folder_path, "%s/sia-fuzz-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(fuzz_folder_path)) abort();
    (void)atexit(fuzz_folder_remove);
    return fuzz_folder_path;
}

static inline void fuzz_file(const char *name, const uint8_t *data, size_t size) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
}

/* Two files in one input: two bytes, the length of the first, then both. */
static inline void fuzz_split(const uint8_t **data, size_t *size, const uint8_t **second,
                              size_t *second_size) {
    size_t first = *size < 2 ? 0 : (size_t)(*data)[0] | (size_t)(*data)[1] << 8;
    size_t skip = *size < 2 ? *size : 2;
    *data += skip;
    *size -= skip;
    if (first > *size) first = *size;
    *second = *data + first;
    *second_size = *size - first;
    *size = first;
}

/* ------------------------------------------------------------------------------------------------- tokenizers */

/* Text comes back from its ids. Closes t. */
static inline void fuzz_tokenizer(sia_tokenizer *t, const uint8_t *data, size_t size) {
    uint32_t *ids = malloc((size + 1) * sizeof *ids);
    char *back = malloc(size + 1);
    size_t count, bytes = size;
    if (!ids || !back) abort();
    if (sia_tokenizer_encode(t, (const char *)data, size, ids, &count, NULL) || count > size) abort();
    if (sia_tokenizer_decode(t, ids, count, back, &bytes, NULL) || bytes != size ||
        memcmp(back, data, size) != 0)
        abort();
    if (!sia_tokenizer_special(t, sia_tokenizer_end_of_text(t))) abort();
    free(ids);
    free(back);
    sia_tokenizer_close(t);
}

#endif
