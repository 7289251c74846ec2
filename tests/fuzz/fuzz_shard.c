/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a token shard: it is refused with a sentence, or every token of it can be reached and is below
 * the vocabulary, and its documents add up. */
#include "fuzz.h"

#include "data/shard.h"

enum { VOCABULARY = 1000, END_OF_TEXT = 999 };

static void check_corpus(const sia_corpus *c, int64_t count) {
    int64_t first, length, next = 0;
    if (sia_corpus_tokens(c) != count) abort();
    for (int64_t i = 0; i < sia_corpus_documents(c); i++) {
        if (sia_corpus_document(c, i, &first, &length, NULL) || first != next || length < 1) abort();
        next = first + length;
    }
    if (next != count) abort();
    for (int64_t i = 0; i < count; i++) {
        uint32_t id;
        if (sia_corpus_read(c, i, 1, &id, NULL) || id >= VOCABULARY) abort();
    }
    if (sia_corpus_read(c, 0, count + 1, NULL, NULL) != SIA_ARGUMENT) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint16_t *tokens;
    int64_t count;
    sia_error err;
    if (sia_shard_parse((const char *)data, size, "shard.bin", &tokens, &count, &err) != SIA_OK) {
        fuzz_sentence(&err);
        return 0;
    }
    if (SIA_SHARD_HEADER + 2 * (size_t)count != size) abort();
    sia_corpus *c;
    sia_corpus_config config = {.vocabulary = VOCABULARY, .end_of_text = END_OF_TEXT, .scan = 1};
    if (sia_corpus_borrow(&c, tokens, count, &config, &err) != SIA_OK)
        fuzz_sentence(&err);
    else
        check_corpus(c, count);
    sia_corpus_close(c);
    return 0;
}
