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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wrap.h"
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
    uint64_t *pairs;       /* [pair_mask + 1] hash table from pairs to merges, see sia_pair_find */
    uint64_t pair_mask;
    uint32_t *byte_rank; /* [256 * 256] the ranks of pairs of bytes: half of all questions are for them */
    uint32_t *result;    /* [merge_count] merges[rank].result, which is asked for most */
    sia_encoder *idle;   /* encoders that no call uses now, with what they have cached */
};

/* Whether they give the same ids to every text, and the same texts to all ids. */
bool sia_tokenizer_same(const sia_tokenizer *a, const sia_tokenizer *b);

/* ----------------------------------------------------------------------------------------------- building */

sia_status sia_vocabulary_create(sia_tokenizer **t, const char *name, uint32_t size, uint32_t merges,
                                 sia_error *err);
sia_status sia_vocabulary_set(sia_tokenizer *t, uint32_t id, const char *bytes, size_t length,
                              sia_error *err);
sia_status sia_vocabulary_set_special(sia_tokenizer *t, uint32_t id, const char *name, sia_error *err);
sia_status sia_vocabulary_set_merge(sia_tokenizer *t, uint32_t rank, uint32_t left, uint32_t right,
                                    uint32_t result, sia_error *err);
sia_status sia_vocabulary_finish(sia_tokenizer *t, sia_error *err);

/* ------------------------------------------------------------------------------------------------ merging */

SIA_WRAPS static inline uint64_t sia_pair_hash(uint64_t key) {
    key *= 0x9e3779b97f4a7c15u;
    return key ^ (key >> 29);
}

/* An entry is left, right and rank in one word, so that a table of GPT-2's merges is 1 MB and most of it
 * stays near the processor. Bits above say that the entry is taken. */
enum { SIA_RANK_BITS = 20 };
_Static_assert(SIA_VOCABULARY_MAX <= 1 << SIA_RANK_BITS, "ids and ranks fit");
#define SIA_PAIR_TAKEN ((uint64_t)1 << 63)

static inline uint64_t sia_pair_key(uint32_t left, uint32_t right) {
    return (uint64_t)left << 2 * SIA_RANK_BITS | (uint64_t)right << SIA_RANK_BITS;
}

/* The rank of a pair's merge, SIA_NONE when it has none. */
static inline uint32_t sia_pair_find(const sia_tokenizer *t, uint32_t left, uint32_t right) {
    uint64_t key = sia_pair_key(left, right) | SIA_PAIR_TAKEN;
    for (uint64_t at = sia_pair_hash(key);; at++) {
        uint64_t entry = t->pairs[at & t->pair_mask], rank = entry ^ key;
        if (rank >> SIA_RANK_BITS == 0) return (uint32_t)rank;
        if (entry == 0) return SIA_NONE;
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
