/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a tokenizer.json. A file that is taken must make a tokenizer whose text comes back. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sia_tokenizer *t;
    sia_error err;
    if (sia_tokenizer_parse(&t, (const char *)data, size, &err) == SIA_OK)
        fuzz_tokenizer(t, data, size);
    else
        fuzz_sentence(&err);
    return 0;
}
