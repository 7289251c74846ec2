/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a folder of 'sia data pack': two bytes are the length of data.json, which follows; the rest is
 * train_000000.bin. Refused with a sentence, or every token can be read and the counts agree. */
#include "fuzz.h"

#include "data/manifest.h"

static void check_corpus(const sia_corpus *c) {
    int64_t tokens = sia_corpus_tokens(c), first, count, sum = 0;
    sia_error err;
    for (int64_t i = 0; i < sia_corpus_documents(c); i++) {
        if (sia_corpus_document(c, i, &first, &count, &err) || first != sum) abort();
        sum += count;
    }
    if (sum != tokens) abort();
    sia_batches b = {.corpus = c, .length = 3, .sequences = 2, .order = SIA_ORDER_SHUFFLED, .seed = 1};
    uint32_t ids[8];
    if (sia_batches_windows(&b) > 0) {
        if (sia_batches_read(&b, 12345, 0, ids, NULL, &err)) abort();
        for (int i = 0; i < 8; i++)
            if (ids[i] >= sia_corpus_vocabulary(c)) abort();
    }
    sia_windows *w;
    if (sia_windows_create(&w, c, 4, 0, &err))
        fuzz_sentence(&err);
    else if (sia_windows_read(w, sia_windows_count(w) - 1, 2, 1, ids, &err))
        abort();
    sia_windows_destroy(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *second;
    size_t second_size;
    sia_corpus *c;
    sia_error err;
    sia_manifest m;
    fuzz_split(&data, &size, &second, &second_size);
    fuzz_file("data.json", data, size);
    fuzz_file("train_000000.bin", second, second_size);
    if (sia_corpus_open(&c, fuzz_folder(), &(sia_corpus_config){.scan = 1}, &err) == SIA_OK)
        check_corpus(c);
    else
        fuzz_sentence(&err);
    sia_corpus_close(c);
    if (sia_manifest_read(&m, fuzz_folder(), &err) == SIA_OK) {
        /* There is no tokenizer.json: it cannot be verified, and says so. */
        if (sia_manifest_verify(&m, fuzz_folder(), &err) == SIA_OK) abort();
        fuzz_sentence(&err);
        sia_manifest_free(&m);
    }
    return 0;
}
