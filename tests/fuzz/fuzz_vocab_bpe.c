/* SPDX-License-Identifier: MIT
 *
 * Any bytes as GPT-2's two files: encoder.json up to the first byte 0, vocab.bpe behind it. Without a byte 0
 * it is all vocab.bpe, to a vocabulary of the 256 bytes and some pairs of them. */
#include "fuzz.h"

#include "text/tokenizer.h"

/* 256 bytes, "th", "the", "in", the end of text. */
static const char *small_encoder(void) {
    static char json[8192];
    if (json[0]) return json;
    int used = snprintf(json, sizeof json, "{");
    for (int b = 0; b < 256; b++) {
        char byte = (char)b, text[4];
        (void)sia_bytes_to_text(&byte, 1, text);
        const char *escape = text[0] == '"' || text[0] == '\\' ? "\\" : "";
        used += snprintf(json + used, sizeof json - (size_t)used, "\"%s%s\":%d,", escape, text, b);
    }
    (void)snprintf(json + used, sizeof json - (size_t)used,
                   "\"th\":256,\"the\":257,\"in\":258,\"" SIA_END_OF_TEXT "\":259}");
    return json;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sia_tokenizer *t;
    sia_error err;
    const char *bytes = (const char *)data, *zero = size ? memchr(data, 0, size) : NULL;
    const char *encoder = zero ? bytes : small_encoder(), *merges = zero ? zero + 1 : bytes;
    size_t encoder_size = zero ? (size_t)(zero - bytes) : strlen(encoder);
    size_t merges_size = zero ? size - encoder_size - 1 : size;
    if (sia_tokenizer_parse_gpt2(&t, "encoder.json", encoder, encoder_size, "vocab.bpe", merges, merges_size,
                                 &err) == SIA_OK)
        fuzz_tokenizer(t, data, size);
    else
        fuzz_sentence(&err);
    return 0;
}
