/* SPDX-License-Identifier: MIT
 *
 * How often each piece occurs in some texts: all that training needs to know of them.
 *
 *     sia_words words;
 *     sia_words_count(&words, texts, count, threads, progress, context, err);
 *     ... words.list[0 .. words.count) ...      in no particular order
 *     sia_words_free(&words); */
#ifndef SIA_TEXT_WORDS_H
#define SIA_TEXT_WORDS_H

#include "sia.h"

typedef struct sia_word {
    const char *bytes; /* in one of the texts, which must outlive it */
    size_t length;
    uint64_t count;
} sia_word;

typedef struct sia_words {
    sia_word *list;
    size_t count;
    uint64_t pieces; /* of more than one byte, the sum of the counts */
} sia_words;

/* Pieces of a single byte are left out: they have no pairs. */
sia_status sia_words_count(sia_words *words, const sia_text *texts, size_t count, int threads,
                           sia_progress *progress, void *context, sia_error *err);
void sia_words_free(sia_words *words);

#endif
