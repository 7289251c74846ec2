/* SPDX-License-Identifier: MIT
 *
 * What the tests of text share: cmocka, real data where there is some, a small tokenizer, and merging and
 * training as a textbook has them, to compare with. */
#ifndef SIA_TESTS_TEXT_SUPPORT_H
#define SIA_TESTS_TEXT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/random.h"
#include "real_data.h"
#include "sia.h"
#include "text/tokenizer.h"

static inline void check(sia_status status, const sia_error *err) {
    if (status) fail_msg("%s: %s", sia_status_name(status), err->text);
}

static inline double seconds_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Random bytes of one of several flavours: any bytes, ASCII words, or a mixture of characters that the
 * pattern treats differently, valid UTF-8 or broken here and there. */
static inline size_t random_text(uint64_t seed, char *text, size_t room) {
    static const char *const parts[] = {" ",
                                        "  ",
                                        "\n",
                                        "\t",
                                        "\xc2\xa0",
                                        "\xe2\x80\x83",
                                        "\xe3\x80\x80",
                                        "\xe1\xa0\x8e",
                                        "a",
                                        "B",
                                        "\xc3\xa9",
                                        "\xe6\xbc\xa2",
                                        "1",
                                        "\xc2\xbd",
                                        "\xd9\xa3",
                                        "'",
                                        "'s",
                                        "'ll",
                                        "'re",
                                        "'x",
                                        ",",
                                        "!?",
                                        "\xf0\x9f\x98\x80",
                                        "\xf0\x9d\x94\xb8",
                                        "\xe2\x80\x99",
                                        "\x01",
                                        "the",
                                        "ing",
                                        "\xff",
                                        "\xc3",
                                        "\xe2\x80",
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xc0\xaf"};
    enum { PARTS = sizeof parts / sizeof *parts, BROKEN = 6 };
    uint64_t flavour = sia_random_below(seed, 0, 4), n = 1;
    size_t wanted = 1 + (size_t)sia_random_below(seed, n++, room - 8), used = 0;
    while (used < wanted) {
        if (flavour == 0)
            text[used++] = (char)sia_random_below(seed, n++, 256);
        else if (flavour == 1)
            text[used++] = "abc d"[sia_random_below(seed, n++, 5)];
        else {
            const char *part = parts[sia_random_below(seed, n++, flavour == 2 ? PARTS - BROKEN : PARTS)];
            memcpy(text + used, part, strlen(part));
            used += strlen(part);
        }
    }
    return used;
}

/* Merging as it is defined, looking at all pairs again and again. */
static inline size_t naive_merge(const sia_tokenizer *t, const char *bytes, size_t length, uint32_t *ids) {
    size_t n = length;
    for (size_t i = 0; i < n; i++) ids[i] = t->byte_id[(unsigned char)bytes[i]];
    for (;;) {
        uint32_t best = SIA_NONE;
        size_t where = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (uint32_t rank = 0; rank < t->merge_count && rank < best; rank++)
                if (t->merges[rank].left == ids[i] && t->merges[rank].right == ids[i + 1]) {
                    best = rank;
                    where = i;
                }
        if (best == SIA_NONE) return n;
        ids[where] = t->merges[best].result;
        memmove(&ids[where + 1], &ids[where + 2], (n - where - 2) * sizeof *ids);
        n--;
    }
}

/* A tokenizer trained on a little text. */
static inline sia_tokenizer *small_tokenizer(uint32_t size) {
    static const char story[] = "Once upon a time there was a tokenizer that read the theory of other "
                                "tokenizers. It didn't say what it was "
                                "reading, and it's not known whether they'd read it. There, there, said the "
                                "other; then the thing is there. "
                                "In 1984, 1985 and 1986 there were 1980 readings of the theory, and another "
                                "reading in the thirties.\n";
    sia_tokenizer *t;
    sia_error err;
    sia_text text = {story, sizeof story - 1};
    check(sia_tokenizer_train(&t, &(sia_tokenizer_training){.size = size, .min_count = 1}, &text, 1, &err),
          &err);
    return t;
}

#endif
