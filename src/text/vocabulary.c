/* SPDX-License-Identifier: MIT
 *
 * The vocabulary of a tokenizer: the bytes of each token, the special ones, and the merges, with the hash
 * table from a pair of neighbours to its merge. Built once, checked as a whole, then never changed. */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "text/split.h"

/* ----------------------------------------------------------------------------------------------- building */

sia_status sia_vocabulary_create(sia_tokenizer **result, const char *name, uint32_t size, uint32_t merges,
                                 sia_error *err) {
    *result = NULL;
    if (size > SIA_VOCABULARY_MAX || merges > SIA_VOCABULARY_MAX)
        return sia_fail(err, SIA_FORMAT, "%s: %u tokens and %u merges, want at most %d of each", name, size,
                        merges, SIA_VOCABULARY_MAX);
    sia_status status = sia_split_prepare(err);
    if (status) return status;
    sia_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return sia_fail_memory(err, sizeof *t, name);
    t->name = name;
    t->size = size;
    t->merge_count = merges;
    t->end_of_text = SIA_NONE;
    t->start = calloc((size_t)size + 1, sizeof *t->start);
    t->length = malloc(((size_t)size + 1) * sizeof *t->length);
    t->special = calloc((size_t)size + 1, sizeof *t->special);
    t->merges = calloc((size_t)merges + 1, sizeof *t->merges);
    if (!t->start || !t->length || !t->special || !t->merges) {
        sia_tokenizer_close(t);
        return sia_fail_memory(err, (size_t)size * 16 + (size_t)merges * sizeof *t->merges, name);
    }
    memset(t->length, 0xff, ((size_t)size + 1) * sizeof *t->length);
    *result = t;
    return SIA_OK;
}

void sia_tokenizer_close(sia_tokenizer *t) {
    if (!t) return;
    sia_encoder_destroy(t->idle);
    free(t->bytes);
    free(t->start);
    free(t->length);
    free(t->special);
    free(t->merges);
    free(t->pairs);
    free(t->byte_rank);
    free(t->result);
    free(t);
}

/* Appends to the bytes of all tokens, and a 0 that is not counted. */
sia_status sia_vocabulary_set(sia_tokenizer *t, uint32_t id, const char *bytes, size_t length,
                              sia_error *err) {
    if (id >= t->size)
        return sia_fail(err, SIA_FORMAT, "%s: a token has id %u, want ids below the number of tokens, %u",
                        t->name, id, t->size);
    if (t->length[id] != SIA_NONE) return sia_fail(err, SIA_FORMAT, "%s: two tokens have id %u", t->name, id);
    if (length == 0) return sia_fail(err, SIA_FORMAT, "%s: token %u is empty", t->name, id);
    if (length >= SIA_TOKENIZER_FILE_MAX)
        return sia_fail(err, SIA_FORMAT, "%s: token %u is too long", t->name, id);
    if (!sia_grow(&t->bytes, &t->bytes_room, t->bytes_used + length + 1, 1))
        return sia_fail_memory(err, t->bytes_used + length, t->name);
    t->start[id] = t->bytes_used;
    t->length[id] = (uint32_t)length;
    memcpy(t->bytes + t->bytes_used, bytes, length);
    t->bytes[t->bytes_used + length] = 0;
    t->bytes_used += length + 1;
    return SIA_OK;
}

sia_status sia_vocabulary_set_special(sia_tokenizer *t, uint32_t id, const char *name, sia_error *err) {
    sia_status status = sia_vocabulary_set(t, id, name, strlen(name), err);
    if (!status) t->special[id] = true;
    return status;
}

sia_status sia_vocabulary_set_merge(sia_tokenizer *t, uint32_t rank, uint32_t left, uint32_t right,
                                    uint32_t result, sia_error *err) {
    if (rank >= t->merge_count || left >= t->size || right >= t->size || result >= t->size)
        return sia_fail(err, SIA_FORMAT, "%s: merge %u (%u, %u to %u): no such token", t->name, rank, left,
                        right, result);
    t->merges[rank] = (sia_merge){left, right, result};
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------- checks */

/* Every byte must have a token, or there would be text without ids. */
static sia_status find_bytes(sia_tokenizer *t, sia_error *err) {
    for (int b = 0; b < 256; b++) t->byte_id[b] = SIA_NONE;
    for (uint32_t id = 0; id < t->size; id++) {
        if (t->length[id] == SIA_NONE)
            return sia_fail(err, SIA_FORMAT, "%s: no token has id %u, want ids without gaps", t->name, id);
        if (t->special[id] || t->length[id] != 1) continue;
        uint32_t *place = &t->byte_id[(unsigned char)t->bytes[t->start[id]]];
        if (*place != SIA_NONE)
            return sia_fail(err, SIA_FORMAT, "%s: tokens %u and %u are the same byte", t->name, *place, id);
        *place = id;
    }
    for (int b = 0; b < 256; b++)
        if (t->byte_id[b] == SIA_NONE)
            return sia_fail(err, SIA_FORMAT, "%s: no token for byte %d, want one for each of the 256",
                            t->name, b);
    return SIA_OK;
}

static sia_status find_end_of_text(sia_tokenizer *t, sia_error *err) {
    for (uint32_t id = 0; id < t->size; id++) {
        if (!t->special[id]) continue;
        bool named = strcmp(t->bytes + t->start[id], SIA_END_OF_TEXT) == 0;
        if (named && t->end_of_text != SIA_NONE &&
            strcmp(t->bytes + t->start[t->end_of_text], SIA_END_OF_TEXT) == 0)
            return sia_fail(err, SIA_FORMAT, "%s: two tokens are named " SIA_END_OF_TEXT, t->name);
        if (named || t->end_of_text == SIA_NONE) t->end_of_text = id;
    }
    if (t->end_of_text == SIA_NONE)
        return sia_fail(err, SIA_FORMAT, "%s: no special token, want " SIA_END_OF_TEXT, t->name);
    return SIA_OK;
}

/* What a merge makes must be what its parts are, or decoding would not give the text back. */
static sia_status check_merge(const sia_tokenizer *t, uint32_t rank, sia_error *err) {
    sia_merge m = t->merges[rank];
    const char *whole = t->bytes + t->start[m.result];
    uint32_t left = t->length[m.left], right = t->length[m.right];
    if (t->special[m.left] || t->special[m.right] || t->special[m.result])
        return sia_fail(err, SIA_FORMAT, "%s: merge %u uses a special token", t->name, rank);
    if (t->length[m.result] != left + right || memcmp(whole, t->bytes + t->start[m.left], left) != 0 ||
        memcmp(whole + left, t->bytes + t->start[m.right], right) != 0)
        return sia_fail(err, SIA_FORMAT, "%s: merge %u (%u, %u) does not give token %u", t->name, rank,
                        m.left, m.right, m.result);
    return SIA_OK;
}

static sia_status index_merges(sia_tokenizer *t, sia_error *err) {
    size_t places = 64;
    while (places < 2 * (size_t)t->merge_count) places *= 2;
    t->pair_mask = places - 1;
    t->pairs = calloc(places, sizeof *t->pairs);
    t->result = malloc(((size_t)t->merge_count + 1) * sizeof *t->result);
    t->byte_rank = malloc(256 * 256 * sizeof *t->byte_rank);
    if (!t->pairs || !t->result || !t->byte_rank)
        return sia_fail_memory(err, places * sizeof *t->pairs, t->name);
    memset(t->byte_rank, 0xff, 256 * 256 * sizeof *t->byte_rank);
    for (uint32_t rank = 0; rank < t->merge_count; rank++) {
        sia_status status = check_merge(t, rank, err);
        if (status) return status;
        sia_merge m = t->merges[rank];
        uint32_t other = sia_pair_find(t, m.left, m.right);
        if (other != SIA_NONE)
            return sia_fail(err, SIA_FORMAT, "%s: merge %u is also merge %u", t->name, rank, other);
        uint64_t key = sia_pair_key(m.left, m.right) | SIA_PAIR_TAKEN, at = sia_pair_hash(key);
        while (t->pairs[at & t->pair_mask]) at++;
        t->pairs[at & t->pair_mask] = key | rank;
        t->result[rank] = m.result;
        if (t->length[m.result] == 2) {
            const unsigned char *two = (const unsigned char *)t->bytes + t->start[m.result];
            t->byte_rank[two[0] * 256 + two[1]] = rank;
        }
    }
    return SIA_OK;
}

sia_status sia_vocabulary_finish(sia_tokenizer *t, sia_error *err) {
    sia_status status = find_bytes(t, err);
    if (!status) status = find_end_of_text(t, err);
    if (!status) status = index_merges(t, err);
    t->name = "tokenizer"; /* the caller's name need not live on */
    return status;
}

/* ---------------------------------------------------------------------------------------------- questions */

uint32_t sia_tokenizer_size(const sia_tokenizer *t) { return t->size; }
uint32_t sia_tokenizer_merges(const sia_tokenizer *t) { return t->merge_count; }
uint32_t sia_tokenizer_end_of_text(const sia_tokenizer *t) { return t->end_of_text; }

const char *sia_tokenizer_bytes(const sia_tokenizer *t, uint32_t id, size_t *length) {
    bool text = id < t->size && !t->special[id];
    *length = text ? t->length[id] : 0;
    return text ? t->bytes + t->start[id] : "";
}

const char *sia_tokenizer_special(const sia_tokenizer *t, uint32_t id) {
    return id < t->size && t->special[id] ? t->bytes + t->start[id] : NULL;
}

bool sia_tokenizer_same(const sia_tokenizer *a, const sia_tokenizer *b) {
    if (a->size != b->size || a->merge_count != b->merge_count || a->end_of_text != b->end_of_text)
        return false;
    for (uint32_t i = 0; i < a->size; i++)
        if (a->special[i] != b->special[i] || a->length[i] != b->length[i] ||
            memcmp(a->bytes + a->start[i], b->bytes + b->start[i], a->length[i]) != 0)
            return false;
    for (uint32_t i = 0; i < a->merge_count; i++) {
        const sia_merge *x = &a->merges[i], *y = &b->merges[i];
        if (x->left != y->left || x->right != y->right || x->result != y->result) return false;
    }
    return true;
}

sia_status sia_tokenizer_decode(const sia_tokenizer *t, const uint32_t *ids, size_t count, char *text,
                                size_t *bytes, sia_error *err) {
    if (!t || !bytes || (count && !ids))
        return sia_fail(err, SIA_ARGUMENT,
                        "tokenizer: want one, ids, and a place for the number of bytes, got NULL");
    size_t room = *bytes, wanted = 0, length;
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= t->size)
            return sia_fail(err, SIA_ARGUMENT, "token %zu is %u, want ids below %u", i, ids[i], t->size);
    /* What does not fit is counted all the same: the caller learns how much room to bring. */
    for (size_t i = 0; i < count; i++) {
        const char *token = sia_tokenizer_bytes(t, ids[i], &length);
        if (text && wanted <= room && length <= room - wanted) memcpy(text + wanted, token, length);
        wanted += length;
    }
    *bytes = wanted;
    if (text && wanted > room)
        return sia_fail(err, SIA_ARGUMENT, "the text of %zu tokens does not fit into %zu bytes: want %zu",
                        count, room, wanted);
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------ bytes as characters */

static inline bool stands_for_itself(unsigned b) {
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
}

/* The others are 0x00 .. 0x20, 0x7f .. 0xa0 and 0xad: U+0100 + their place in that row. */
static unsigned byte_to_code(unsigned b) {
    if (stands_for_itself(b)) return b;
    return 0x100 + (b <= 0x20 ? b : b <= 0xa0 ? b - 0x7f + 0x21 : 0x43);
}

static int code_to_byte(unsigned code) {
    if (code < 0x100) return stands_for_itself(code) ? (int)code : -1;
    unsigned place = code - 0x100;
    if (place > 0x43) return -1;
    return (int)(place <= 0x20 ? place : place < 0x43 ? place - 0x21 + 0x7f : 0xad);
}

size_t sia_bytes_to_text(const char *bytes, size_t length, char *text) {
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned code = byte_to_code((unsigned char)bytes[i]);
        if (code < 0x80)
            text[used++] = (char)code;
        else {
            text[used++] = (char)(0xc0 | code >> 6);
            text[used++] = (char)(0x80 | (code & 0x3f));
        }
    }
    text[used] = 0;
    return used;
}

bool sia_text_to_bytes(const char *text, char *bytes, size_t *length) {
    const unsigned char *s = (const unsigned char *)text;
    *length = 0;
    while (*s) {
        unsigned code = *s++;
        if (code >= 0x80) {
            /* All that stand for a byte are below U+0144, so that they take two bytes. */
            if (code < 0xc2 || code > 0xdf || (*s & 0xc0) != 0x80) return false;
            code = (code & 0x1f) << 6 | (*s++ & 0x3f);
        }
        int byte = code_to_byte(code);
        if (byte < 0) return false;
        bytes[(*length)++] = (char)byte;
    }
    return true;
}
