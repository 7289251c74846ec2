/* SPDX-License-Identifier: MIT
 *
 * Counting pieces: each worker has a hash table of its own, over blocks of the texts; the tables are added up
 * at the end. Sums do not depend on who counted what, so the result is the same for any number of threads. */
#include "text/pieces.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "base/wrap.h"
#include "text/split.h"

/* Open addressing; a place with length 0 is free. At most two thirds are taken. */
typedef struct table {
    sia_piece *places;
    size_t mask, used;
} table;

typedef struct counting {
    const sia_text *texts;
    size_t text_count;
    int64_t *first_block; /* [text_count + 1] the number of the first block of each text */
    table *tables;        /* [threads] */
    sia_progress *progress;
    void *context;
    _Atomic int64_t blocks_done;
    _Atomic sia_status status;
} counting;

SIA_WRAPS static inline uint64_t hash_bytes(const char *bytes, size_t length) {
    uint64_t h = length * 0x9e3779b97f4a7c15u, word = 0;
    size_t i = 0;
    for (; i + 8 <= length; i += 8) {
        memcpy(&word, bytes + i, 8);
        h = (h ^ word) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 31;
    }
    word = 0;
    memcpy(&word, bytes + i, length - i);
    h = (h ^ word) * 0x94d049bb133111ebu;
    return h ^ (h >> 29);
}

/* The place of the piece, or the free one where it belongs. */
static sia_piece *find_place(const table *t, const char *bytes, size_t length) {
    for (uint64_t at = hash_bytes(bytes, length);; at++) {
        sia_piece *place = &t->places[at & t->mask];
        if (place->length == 0 || (place->length == length && memcmp(place->bytes, bytes, length) == 0))
            return place;
    }
}

static sia_status grow(table *t) {
    table larger = {.mask = t->places ? 2 * t->mask + 1 : 4095, .used = t->used};
    larger.places = calloc(larger.mask + 1, sizeof *larger.places);
    if (!larger.places) return SIA_MEMORY;
    for (size_t i = 0; t->places && i <= t->mask; i++)
        if (t->places[i].length) *find_place(&larger, t->places[i].bytes, t->places[i].length) = t->places[i];
    free(t->places);
    *t = larger;
    return SIA_OK;
}

static sia_status add(table *t, const char *bytes, size_t length, uint64_t count) {
    if (!t->places || t->used > t->mask / 3 * 2) {
        sia_status status = grow(t);
        if (status) return status;
    }
    sia_piece *place = find_place(t, bytes, length);
    if (place->length == 0) {
        *place = (sia_piece){.bytes = bytes, .length = length};
        t->used++;
    }
    place->count += count;
    return SIA_OK;
}

static sia_status count_block(table *t, const char *text, size_t bytes) {
    for (size_t at = 0, length; at < bytes; at += length) {
        length = sia_split_next(text + at, bytes - at);
        if (length == 1) continue;
        sia_status status = add(t, text + at, length, 1);
        if (status) return status;
    }
    return SIA_OK;
}

static void run_block(void *context, int64_t task, int worker) {
    counting *c = context;
    size_t text = 0, start, end;
    if (atomic_load(&c->status)) return;
    for (size_t low = 0, high = c->text_count; low < high;) { /* the last text whose first block is <= task */
        text = (low + high) / 2;
        if (c->first_block[text + 1] <= task)
            low = text + 1;
        else if (c->first_block[text] > task)
            high = text;
        else
            break;
    }
    const sia_text *whole = &c->texts[text];
    sia_status status = SIA_OK;
    if (sia_split_block(whole->bytes, whole->size, (size_t)(task - c->first_block[text]), &start, &end))
        status = count_block(&c->tables[worker], whole->bytes + start, end - start);
    int64_t done = atomic_fetch_add(&c->blocks_done, 1) + 1;
    /* Worker 0 is the thread of the caller, which alone hears of progress. */
    if (!status && worker == 0 && c->progress &&
        c->progress(c->context, "count", (double)done / (double)c->first_block[c->text_count]))
        status = SIA_STOPPED;
    if (status) atomic_store(&c->status, status);
}

/* All tables into the first, which becomes the list. */
static sia_status add_up(table *tables, int threads, sia_pieces *pieces) {
    for (int i = 1; i < threads; i++) {
        for (size_t p = 0; tables[i].places && p <= tables[i].mask; p++) {
            const sia_piece *word = &tables[i].places[p];
            if (word->length && add(&tables[0], word->bytes, word->length, word->count)) return SIA_MEMORY;
        }
        free(tables[i].places);
        tables[i].places = NULL;
    }
    pieces->list = tables[0].places;
    for (size_t p = 0; pieces->list && p <= tables[0].mask; p++)
        if (pieces->list[p].length) {
            pieces->total += pieces->list[p].count;
            pieces->list[pieces->count++] = pieces->list[p];
        }
    tables[0].places = NULL;
    return SIA_OK;
}

sia_status sia_pieces_count(sia_pieces *pieces, const sia_text *texts, size_t count, int threads,
                            sia_progress *progress, void *context, sia_error *err) {
    *pieces = (sia_pieces){0};
    sia_status status = sia_split_prepare(err);
    if (status) return status;
    counting c = {.texts = texts, .text_count = count, .progress = progress, .context = context};
    c.first_block = malloc((count + 1) * sizeof *c.first_block);
    c.tables = calloc((size_t)threads, sizeof *c.tables);
    if (c.first_block && c.tables) {
        c.first_block[0] = 0;
        for (size_t i = 0; i < count; i++)
            c.first_block[i + 1] = c.first_block[i] + (int64_t)sia_split_blocks(texts[i].size);
        sia_parallel(threads, c.first_block[count], run_block, &c);
        status = atomic_load(&c.status);
        if (!status) status = add_up(c.tables, threads, pieces);
    } else
        status = SIA_MEMORY;
    for (int i = 0; i < threads && c.tables; i++) free(c.tables[i].places);
    free(c.tables);
    free(c.first_block);
    if (status == SIA_STOPPED) return sia_fail(err, status, "stopped while counting pieces");
    return status ? sia_fail_memory(err, (size_t)1 << 20, "counting pieces") : SIA_OK;
}

void sia_pieces_free(sia_pieces *pieces) {
    free(pieces->list);
    *pieces = (sia_pieces){0};
}
