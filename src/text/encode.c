/* SPDX-License-Identifier: MIT
 *
 * Text to ids: split, look each piece up among those seen before, merge it when it is new.
 *
 * Words repeat: of a large English text 98 of 100 pieces are in a cache of 65536. An entry is one line of 64
 * bytes, the piece and its ids side by side, so that a hit touches memory once. Entries live in pairs; a new
 * one takes the first place of its pair, the one that was there moves to the second.
 *
 * A call takes an encoder (the cache and what merging needs) from the tokenizer's list of idle ones and gives
 * it back: any number of threads may encode at once, and what was learnt stays.
 *
 * In parallel, a text is encoded by blocks (split.h), which together give the ids of the whole. */
#include "text/tokenizer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "text/merge.h"
#include "text/split.h"

enum {
    KEY_WORDS = 4,
    CACHED_BYTES = 8 * KEY_WORDS - 1, /* the last byte of the key is the length */
    CACHED_IDS = 7,
    CACHE_PAIRS = 1 << 15,
    BATCH = 16,
};

typedef struct entry {
    uint64_t key[KEY_WORDS];
    uint32_t count;
    uint32_t ids[CACHED_IDS];
} entry;
_Static_assert(sizeof(entry) == 64, "an entry is one line");

struct sia_encoder {
    sia_encoder *next;
    entry *cache; /* [CACHE_PAIRS][2] */
    sia_merger merger;
    uint32_t *ids; /* what a task of a parallel call found */
    size_t room;
};

/* ----------------------------------------------------------------------------------------------- encoders */

void sia_encoder_destroy(sia_encoder *e) {
    while (e) {
        sia_encoder *next = e->next;
        sia_pages_unmap(e->cache, 2 * CACHE_PAIRS * sizeof *e->cache);
        sia_merger_free(&e->merger);
        free(e->ids);
        free(e);
        e = next;
    }
}

static sia_encoder *take_encoder(const sia_tokenizer *t) {
    sia_tokenizer *owner = (sia_tokenizer *)t; /* the list is behind a lock; all else stays const */
    sia_lock_take(SIA_LOCK_ENCODERS);
    sia_encoder *e = owner->idle;
    if (e) owner->idle = e->next;
    sia_lock_leave(SIA_LOCK_ENCODERS);
    if (e) return e;
    e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->cache = sia_pages_map(2 * CACHE_PAIRS * sizeof *e->cache);
    if (e->cache) return e;
    free(e);
    return NULL;
}

static void give_back(const sia_tokenizer *t, sia_encoder *e) {
    sia_tokenizer *owner = (sia_tokenizer *)t;
    sia_lock_take(SIA_LOCK_ENCODERS);
    e->next = owner->idle;
    owner->idle = e;
    sia_lock_leave(SIA_LOCK_ENCODERS);
}

/* -------------------------------------------------------------------------------------------------- cache */

static inline uint64_t load(const char *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Where the last byte of a word is, in memory's order. */
enum { LAST_BYTE = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 56 : 0 };

/* Bytes to keep, then bytes to clear: a window on it, shifted by the length, is the mask for a piece. */
static const unsigned char window[16 * KEY_WORDS] = {
#define FF8 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff
    FF8, FF8, FF8, FF8};

/* The piece, zeros behind it, and its length in the last byte: without a branch on the length, which no
 * processor can guess. readable: how many bytes may be read from the piece on, the text's end being near. */
static inline void make_key(uint64_t key[KEY_WORDS], const char *piece, size_t length, size_t readable) {
    char copy[8 * KEY_WORDS] = {0};
    if (readable < sizeof copy) piece = memcpy(copy, piece, length);
    const char *mask = (const char *)window + sizeof copy - length;
    for (int i = 0; i < KEY_WORDS; i++) key[i] = load(piece + 8 * i) & load(mask + 8 * i);
    key[KEY_WORDS - 1] |= (uint64_t)length << LAST_BYTE;
}

static inline uint64_t fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_key(const uint64_t key[KEY_WORDS]) {
    return fold(key[0] ^ 0x9e3779b97f4a7c15u, key[1] ^ 0xbf58476d1ce4e5b9u) ^
           fold(key[2] ^ 0x94d049bb133111ebu, key[3] ^ 0xd6e8feb86659fd93u);
}

static inline bool same_key(const uint64_t a[KEY_WORDS], const uint64_t b[KEY_WORDS]) {
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
}

/* A piece that was cut off and is to be looked up. */
typedef struct piece {
    const char *bytes;
    size_t length;
    entry *pair; /* where it is if it is in the cache; NULL: too long for it */
    uint64_t key[KEY_WORDS];
} piece;

/* Cuts off up to BATCH pieces. Their places in the cache are asked for long before they are looked at: most
 * are not in the nearest memory, and waiting for them one by one took a sixth of the time. */
static size_t cut_off(const sia_encoder *e, const char *text, size_t bytes, size_t *at, piece batch[BATCH]) {
    size_t n = 0;
    for (; n < BATCH && *at < bytes; n++) {
        piece *p = &batch[n];
        p->bytes = text + *at;
        p->length = sia_split_next(p->bytes, bytes - *at);
        p->pair = NULL;
        if (p->length <= CACHED_BYTES) {
            make_key(p->key, p->bytes, p->length, bytes - *at);
            p->pair = &e->cache[2 * (hash_key(p->key) % CACHE_PAIRS)];
            __builtin_prefetch(p->pair);
        }
        *at += p->length;
    }
    return n;
}

/* Not found: a short piece is merged, and remembered if its ids fit. Returns how many ids there are. */
static size_t encode_new(const sia_tokenizer *t, const piece *p, uint32_t *ids) {
    size_t count = sia_merge_short(t, p->bytes, p->length, ids);
    if (count > CACHED_IDS) return count;
    p->pair[1] = p->pair[0];
    memcpy(p->pair[0].key, p->key, sizeof p->key);
    p->pair[0].count = (uint32_t)count;
    memcpy(p->pair[0].ids, ids, count * sizeof *ids);
    return count;
}

/* room: for ids, at least as much as bytes of text are left. */
static inline size_t encode_short(const sia_tokenizer *t, const piece *p, uint32_t *ids, size_t room) {
    const entry *found = &p->pair[0];
    if (!same_key(found->key, p->key)) {
        found = &p->pair[1];
        if (!same_key(found->key, p->key)) return encode_new(t, p, ids);
    }
    /* All are copied at once, used or not: a copy of known length is a few instructions. */
    if (room >= CACHED_IDS)
        memcpy(ids, found->ids, sizeof found->ids);
    else
        for (uint32_t i = 0; i < found->count; i++) ids[i] = found->ids[i];
    return found->count;
}

static sia_status encode_text(sia_encoder *e, const sia_tokenizer *t, const char *text, size_t bytes,
                              uint32_t *ids, size_t *count, sia_error *err) {
    piece batch[BATCH];
    size_t used = 0, at = 0;
    while (at < bytes) {
        size_t n = cut_off(e, text, bytes, &at, batch);
        for (size_t i = 0; i < n; i++) {
            size_t found = 0;
            if (batch[i].pair)
                found = encode_short(t, &batch[i], ids + used, bytes - used);
            else {
                sia_status status =
                    sia_merger_run(&e->merger, t, batch[i].bytes, batch[i].length, ids + used, &found, err);
                if (status) return status;
            }
            used += found;
        }
    }
    *count = used;
    return SIA_OK;
}

sia_status sia_tokenizer_encode(const sia_tokenizer *t, const char *text, size_t bytes, uint32_t *ids,
                                size_t *count, sia_error *err) {
    if (!t || !count || (bytes && (!text || !ids)))
        return sia_fail(err, SIA_ARGUMENT,
                        "tokenizer: want one, a text, and places for ids and their number, got NULL");
    *count = 0;
    sia_encoder *e = take_encoder(t);
    if (!e) return sia_fail_memory(err, 2 * CACHE_PAIRS * sizeof(entry), "encoder");
    sia_status status = encode_text(e, t, text, bytes, ids, count, err);
    give_back(t, e);
    return status;
}

/* ----------------------------------------------------------------------------------------------- parallel */

size_t sia_tokenizer_cut(const char *text, size_t bytes) {
    for (size_t at = bytes; at > 1;)
        if (sia_split_can_cut(text, --at)) return at;
    return 0;
}

/* What a block gave, if it was done before the one in front of it. */
typedef struct stash {
    uint32_t *ids; /* NULL when count is 0 */
    size_t count;
    bool done;
} stash;

typedef struct parallel {
    const sia_tokenizer *t;
    const char *text;
    size_t bytes;
    sia_encoder **encoder; /* [threads] a worker keeps its own: it is in the caches of that processor */
    pthread_mutex_t lock;  /* guards all below */
    uint32_t *ids;
    size_t count, next; /* ids so far, from the blocks before next */
    stash *stash;       /* [blocks] */
    sia_status status;  /* of the first block that failed */
    sia_error error;
} parallel;

static sia_status encode_block(parallel *p, sia_encoder *e, size_t b, size_t *count, sia_error *err) {
    *count = 0;
    size_t start, end;
    if (!sia_split_block(p->text, p->bytes, b, &start, &end)) return SIA_OK;
    if (!e) return sia_fail_memory(err, 2 * CACHE_PAIRS * sizeof(entry), "encoder");
    if (end - start > e->room) {
        free(e->ids);
        e->room = 0;
        e->ids = malloc((end - start) * sizeof *e->ids);
        if (!e->ids) return sia_fail_memory(err, (end - start) * sizeof *e->ids, "encoder");
        e->room = end - start;
    }
    return encode_text(e, p->t, p->text + start, end - start, e->ids, count, err);
}

/* Called with the lock held: the ids of the block whose turn it is, and of those that waited for it. */
static void append(parallel *p, const uint32_t *ids, size_t count) {
    if (count) memcpy(p->ids + p->count, ids, count * sizeof *ids);
    p->count += count;
    p->next++;
}

static sia_status put_aside(stash *s, const uint32_t *ids, size_t count, sia_error *err) {
    s->done = true;
    if (count == 0) return SIA_OK;
    s->ids = malloc(count * sizeof *ids);
    if (!s->ids) return sia_fail_memory(err, count * sizeof *ids, "tokens");
    memcpy(s->ids, ids, count * sizeof *ids);
    s->count = count;
    return SIA_OK;
}

/* No worker waits for another: one that the system has put to sleep would hold up all. */
static void run_block(void *context, int64_t task, int worker) {
    parallel *p = context;
    size_t b = (size_t)task, count, blocks = sia_split_blocks(p->bytes);
    sia_error error;
    if (!p->encoder[worker]) p->encoder[worker] = take_encoder(p->t);
    sia_encoder *e = p->encoder[worker];
    sia_status status = encode_block(p, e, b, &count, &error);
    if (status) count = 0;
    pthread_mutex_lock(&p->lock);
    if (p->next == b) {
        append(p, e ? e->ids : NULL, count);
        for (stash *s; p->next < blocks && (s = &p->stash[p->next])->done;) {
            append(p, s->ids, s->count);
            free(s->ids);
            s->ids = NULL;
        }
    } else {
        sia_status aside = put_aside(&p->stash[b], e ? e->ids : NULL, count, status ? NULL : &error);
        if (!status) status = aside;
    }
    if (status && !p->status) {
        p->status = status;
        p->error = error;
    }
    pthread_mutex_unlock(&p->lock);
}

sia_status sia_tokenizer_encode_parallel(const sia_tokenizer *t, int threads, const char *text, size_t bytes,
                                         uint32_t *ids, size_t *count, sia_error *err) {
    if (threads < 0 || threads > SIA_MAX_THREADS)
        return sia_fail(err, SIA_ARGUMENT, "threads %d: want 0 to %d", threads, SIA_MAX_THREADS);
    if (threads == 0) threads = sia_threads_available();
    if (threads == 1 || bytes <= SIA_SPLIT_BLOCK || !t || !text || !ids || !count)
        return sia_tokenizer_encode(t, text, bytes, ids, count, err);
    *count = 0;
    size_t blocks = sia_split_blocks(bytes);
    parallel p = {.t = t, .text = text, .bytes = bytes, .ids = ids, .lock = PTHREAD_MUTEX_INITIALIZER};
    p.stash = calloc(blocks, sizeof *p.stash);
    p.encoder = calloc((size_t)threads, sizeof(sia_encoder *));
    if (p.stash && p.encoder) {
        sia_parallel(threads, (int64_t)blocks, run_block, &p);
        *count = p.status ? 0 : p.count;
        for (int i = 0; i < threads; i++)
            if (p.encoder[i]) give_back(t, p.encoder[i]);
    } else
        p.status = sia_fail_memory(&p.error, blocks * sizeof *p.stash, "encoder");
    free(p.encoder);
    free(p.stash);
    if (p.status && err) *err = p.error;
    return p.status;
}
