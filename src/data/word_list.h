/* SPDX-License-Identifier: MIT
 *
 * Text to a sequence of numbered words, for counting. A word is a run of letters, with an apostrophe inside
 * it; bytes from 128 up count as letters (so UTF-8 stays whole), A to Z are read as a to z; all else
 * separates.
 *
 *     sia_word_list w = {0};
 *     sia_word_list_add(&w, text, bytes, &err);      one document for each call
 *     ... sia_word_list_sequence(&w) ...
 *     sia_word_list_free(&w); */
#ifndef SIA_DATA_WORD_LIST_H
#define SIA_DATA_WORD_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sia.h"

/* Documents laid end to end: document i is symbols[starts[i] .. starts[i+1]). */
typedef struct sia_sequence {
    const uint32_t *symbols;
    int64_t count;
    const int64_t *starts; /* [documents + 1] */
    int64_t documents;
} sia_sequence;

typedef struct sia_word_list {
    bool limited; /* keep the first `most` words alone, and count the others; set before the first document */
    int64_t most;
    int64_t words, texts; /* words and documents seen, kept or not */
    uint32_t *symbols;
    int64_t count;
    size_t room;
    int64_t *starts;
    int64_t documents;
    size_t document_room;
    /* Word i is text[places[i] .. places[i+1]). */
    char *text;
    size_t text_length, text_room;
    size_t *places;
    uint32_t types;
    size_t type_room;
    uint32_t *slots; /* an open-addressing table of type + 1; 0: free */
    uint64_t slot_count;
} sia_word_list;

sia_status sia_word_list_add(sia_word_list *w, const char *text, size_t bytes, sia_error *err);
sia_sequence sia_word_list_sequence(const sia_word_list *w);
const char *sia_word_list_text(const sia_word_list *w, uint32_t type, size_t *length); /* not ended by 0 */
void sia_word_list_free(sia_word_list *w);

#endif
