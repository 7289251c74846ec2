/* SPDX-License-Identifier: MIT
 *
 * Any bytes as text for a tokenizer: ids give it back; several threads give the same ids; where the text
 * may be cut, its two halves do; the splitter cuts as the pattern of GPT-2 does; and what is made harmless
 * is harmless. */
#include "fuzz.h"

#include "base/harmless.h"
#include "text/split.h"

enum { TOKENS = 300 };

/* Trained on text of several scripts, so that there are merges within and across characters. */
static const sia_tokenizer *tokenizer(void) {
    static const char text[] =
        "the quick brown fox, the lazy dog; it's we're I'll don't the 12 345 6789   spaces\n\n\ttabs "
        "\xc3\xa9t\xc3\xa9 d\xc3\xa9j\xc3\xa0 \xce\xb1\xce\xb2\xce\xb3 \xce\xb1\xce\xb2\xce\xb3 "
        "\xe6\x97\xa5\xe6\x9c\xac "
        "\xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80\xf0\x9f\x98\x80 \xc2\xa0\xe2\x80\xa8 the the quick quick";
    static sia_tokenizer *t;
    if (t) return t;
    sia_text one = {text, sizeof text - 1};
    if (sia_tokenizer_train(&t, &(sia_tokenizer_training){.size = TOKENS, .min_count = 1, .threads = 1}, &one,
                            1, NULL))
        abort();
    return t;
}

static void check_split(const char *text, size_t bytes) {
    static sia_splitter *splitter;
    if (!splitter && sia_splitter_create(&splitter, NULL)) abort();
    for (size_t at = 0; at < bytes;) {
        size_t length = sia_split_next(text + at, bytes - at);
        if (length == 0 || length > bytes - at || length != sia_split_reference(splitter, text, bytes, at))
            abort();
        at += length;
    }
}

static void check_harmless(const char *text, size_t bytes) {
    char *copy = malloc(bytes + 1);
    if (!copy) abort();
    memcpy(copy, text, bytes);
    (void)sia_harmless(copy, bytes, "\n");
    if (!sia_is_utf8(copy, bytes)) abort();
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)copy[i], next = (unsigned char)(i + 1 < bytes ? copy[i + 1] : 0);
        if ((c < 0x20 && c != '\n') || c == 0x7f || (c == 0xc2 && next < 0xa0)) abort();
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const sia_tokenizer *t = tokenizer();
    const char *text = (const char *)data;
    uint32_t *ids = malloc(3 * (size + 1) * sizeof *ids);
    char *back = malloc(size + 1);
    size_t count, other, first, second, bytes = size;
    if (!ids || !back) abort();
    uint32_t *others = ids + size + 1, *halves = others + size + 1;
    if (sia_tokenizer_encode(t, text, size, ids, &count, NULL) || count > size) abort();
    if (sia_tokenizer_decode(t, ids, count, back, &bytes, NULL) || bytes != size ||
        memcmp(back, text, size) != 0)
        abort();
    if (sia_tokenizer_encode_parallel(t, 2, text, size, others, &other, NULL) || other != count ||
        memcmp(ids, others, count * sizeof *ids) != 0)
        abort();
    size_t cut = sia_tokenizer_cut(text, size);
    if (cut > size || sia_tokenizer_encode(t, text, cut, halves, &first, NULL) ||
        sia_tokenizer_encode(t, text + cut, size - cut, halves + first, &second, NULL) ||
        first + second != count || memcmp(ids, halves, count * sizeof *ids) != 0)
        abort();
    if (sia_is_utf8(text, size)) check_split(text, size); /* the pattern has no meaning for other bytes */
    check_harmless(text, size);
    free(ids);
    free(back);
    return 0;
}
