/* SPDX-License-Identifier: MIT
 *
 * What the fuzz targets of tokenizers check beyond not crashing: abort() is how libFuzzer hears of it. */
#ifndef SIA_TESTS_FUZZ_H
#define SIA_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sia.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A failure has a sentence that ends within its array. */
static inline void fuzz_sentence(const sia_error *err) {
    if (err->status == SIA_OK || !memchr(err->text, 0, sizeof err->text) || err->text[0] == 0) abort();
}

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
