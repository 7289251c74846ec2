/* SPDX-License-Identifier: MIT
 *
 * The inside of a tokenizer: what is built by the readers and by training, and used by encode and decode.
 *
 *     sia_tokenizer *t = sia_vocabulary_create(257, 0, ...);     size and number of merges
 *     sia_vocabulary_set(t, id, bytes, length, err);             each id once: bytes ...
 *     sia_vocabulary_set_special(t, id, "<|endoftext|>", err);   ... or a name
 *     sia_vocabulary_set_merge(t, rank, left, right, result);    in the order of the file
 *     sia_vocabulary_finish(t, err);                             checks all of it, builds the tables
 *
 * A merge of rank r joins the neighbours (left, right) into result; of the pairs in a piece the one with the
 * smallest rank is joined first, and of equal pairs the leftmost. */
#ifndef SIA_TEXT_TOKENIZER_H
#define SIA_TEXT_TOKENIZER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sia.h"

#define SIA_END_OF_TEXT "<|endoftext|>"

/* An id, a rank or a place that does not exist. */
#define SIA_NONE UINT32_MAX

/* The largest vocabulary, whether trained or read. */
enum { SIA_VOCABULARY_MAX = 1000000 };

/* The most that is read of a tokenizer's file. */
enum { SIA_TOKENIZER_FILE_MAX = 1 << 28 };

typedef struct sia_merge {
    uint32_t left, right, result;
} sia_merge;

/* One place of the hash table from pairs to merges. */
typedef struct sia_pair {
    uint64_t key; /* left << 32 | right; UINT64_MAX: free */
    uint32_t rank, result;
} sia_pair;

typedef struct sia_encoder sia_encoder;

struct sia_tokenizer {
    const char *name; /* for sentences while it is built: the file */
    uint32_t size, merge_count, end_of_text;
    char *bytes; /* the bytes of all tokens, one after another; special names are ended by 0 */
    size_t bytes_used, bytes_room;
    size_t *start;    /* [size] where in bytes */
    uint32_t *length; /* [size] SIA_NONE: not set */
    bool *special;    /* [size] */
    sia_merge *merges;
    uint32_t byte_id[256]; /* the tokens of single bytes */
    sia_pair *pairs;       /* [pair_mask + 1] */
    uint64_t pair_mask;
    pthread_mutex_t lock; /* guards idle */
    sia_encoder *idle;    /* encoders that no call uses now, with what they have cached */
};

/* ------------------------------------------------------------------------------------------------- building
 */

sia_status sia_vocabulary_create(sia_tokenizer **t, const char *name, uint32_t size, uint32_t merges,
                                 sia_error *err);
sia_status sia_vocabulary_set(sia_tokenizer *t, uint32_t id, const char *bytes, size_t length,
                              sia_error *err);
sia_status sia_vocabulary_set_special(sia_tokenizer *t, uint32_t id, const char *name, sia_error *err);
sia_status sia_vocabulary_set_merge(sia_tokenizer *t, uint32_t rank, uint32_t left, uint32_t right,
                                    uint32_t result, sia_error *err);
sia_status sia_vocabulary_finish(sia_tokenizer *t, sia_error *err);

/* ------------------------------------------------------------------------------------------------- merging
 */

static inline uint64_t sia_pair_hash(uint64_t key) {
    key *= 0x9e3779b97f4a7c15u;
    return key ^ (key >> 29);
}

/* The merge of a pair, NULL when it has none. */
static inline const sia_pair *sia_pair_find(const sia_tokenizer *t, uint32_t left, uint32_t right) {
    uint64_t key = (uint64_t)left << 32 | right;
    for (uint64_t at = sia_pair_hash(key);; at++) {
        const sia_pair *pair = &t->pairs[at & t->pair_mask];
        if (pair->key == key) return pair;
        if (pair->key == UINT64_MAX) return NULL;
    }
}

void sia_encoder_destroy(sia_encoder *e); /* and those behind it in the list */

/* --------------------------------------------------------------------------------------- bytes as characters
 *
 * The files write a byte as a printable character: those of Latin-1 that are printable stand for themselves,
 * the other 68 bytes, in ascending order, are U+0100 and following. */

/* bytes to UTF-8; text has room for 2 * length + 1. Returns the length of text, which is ended by 0. */
size_t sia_bytes_to_text(const char *bytes, size_t length, char *text);

/* The reverse; bytes has room for strlen(text). false when a character stands for no byte. */
bool sia_text_to_bytes(const char *text, char *bytes, size_t *length);

/* --------------------------------------------------------------------------------------------------- readers
 *
 * From memory, name for the sentences. Nothing is assumed of what the files hold. */
sia_status sia_tokenizer_parse_json(sia_tokenizer **t, const char *name, const char *json, size_t bytes,
                                    sia_error *err);
sia_status sia_tokenizer_parse_gpt2(sia_tokenizer **t, const char *encoder_name, const char *encoder,
                                    size_t encoder_bytes, const char *merges_name, const char *merges,
                                    size_t merges_bytes, sia_error *err);

#endif
