/* SPDX-License-Identifier: MIT
 *
 * Training: from the counts of words to merges.
 *
 *     until the vocabulary is full:
 *         (a, b) = the commonest pair of neighbours, counted over all words, each as often as it occurs;
 *                  of equally common ones that with the smallest a, then with the smallest b
 *         everywhere, from left to right, a b becomes the new token x
 *
 * Only what changes is touched. All distinct words lie one behind the other in one array of slots, a slot a
 * byte, and a slot between them:
 *
 *     [ ][t][h][e][|][t][h][a][t][|]       before
 *     [ ][x][x][e][|][x][x][a][t][|]       x = "th": the first and the last of its slots hold its id
 *
 * The neighbour to the right of a token starts its length further, the one to the left ends one slot before:
 * two steps in an array, no lists. Each pair knows the places where it was seen. All places of a pair arise
 * in the pass that makes the younger of its two tokens, in ascending order; later passes can only destroy
 * some, and a place is checked when it is used. A pass costs as much as the pair has places, whatever the
 * length of the words: n places in all at the start and two new ones for each of at most n merges.
 *
 * Counts of a pair only fall once its pass is over. So the heap may hold counts that are too high: what comes
 * out is compared with the true count, and goes in again with that one if it is lower.
 *
 * No two merges make the same bytes: how a stretch of bytes is merged, as long as no token reaches across its
 * ends, depends on these bytes alone. Where the stretch is there again, it has become the same token in the
 * same pass. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "text/tokenizer.h"
#include "text/pieces.h"

enum { BYTES = 256, SPECIALS = 1 };

typedef struct pair {
    uint64_t key;   /* left << 32 | right: ascending keys are the order among equals */
    uint64_t count; /* now */
    size_t first;   /* its places are where[first .. first + places) */
    uint32_t places;
} pair;

typedef struct candidate {
    uint64_t count;
    uint32_t pair;
} candidate;

typedef struct seen {
    uint32_t pair, place;
} seen;

/* Asked for each pair of tokens: whether there is room is seen without a call. */
#define ROOM(array, room, wanted) \
    ((wanted) <= (room) || sia_grow(&(array), &(room), (wanted), sizeof *(array)))

typedef struct trainer {
    uint32_t *slot, *word; /* the token of a slot; the word that it belongs to */
    size_t slots;
    uint64_t *count;    /* of each word */
    uint32_t *length;   /* of each token */
    uint64_t min_count; /* below it nothing is merged */
    pair *pairs;
    size_t pair_count, pair_room;
    uint32_t *index; /* hash table of pairs */
    size_t index_mask;
    uint32_t *where;
    size_t where_count, where_room;
    seen *fresh; /* what the running pass has seen */
    size_t fresh_count, fresh_room;
    candidate *heap;
    size_t heap_count, heap_room;
} trainer;

static void release(trainer *t) {
    free(t->slot);
    free(t->word);
    free(t->count);
    free(t->length);
    free(t->pairs);
    free(t->index);
    free(t->where);
    free(t->fresh);
    free(t->heap);
}

/* -------------------------------------------------------------------------------------------------- pairs */

static uint32_t *find_index(const trainer *t, uint64_t key) {
    for (uint64_t at = sia_pair_hash(key);; at++) {
        uint32_t *place = &t->index[at & t->index_mask];
        if (*place == SIA_NONE || t->pairs[*place].key == key) return place;
    }
}

static bool grow_index(trainer *t) {
    size_t places = 2 * (t->index_mask + 1);
    uint32_t *index = malloc(places * sizeof *index);
    if (!index) return false;
    memset(index, 0xff, places * sizeof *index);
    free(t->index);
    t->index = index;
    t->index_mask = places - 1;
    for (size_t i = 0; i < t->pair_count; i++) *find_index(t, t->pairs[i].key) = (uint32_t)i;
    return true;
}

/* One more place of a pair, in a word that occurs weight times. */
static bool see_pair(trainer *t, uint32_t left, uint32_t right, uint32_t place, uint64_t weight) {
    uint64_t key = (uint64_t)left << 32 | right;
    uint32_t *index = find_index(t, key);
    if (*index == SIA_NONE) {
        if (t->pair_count >= SIA_NONE - 1 || !ROOM(t->pairs, t->pair_room, t->pair_count + 1)) return false;
        t->pairs[t->pair_count] = (pair){.key = key};
        *index = (uint32_t)t->pair_count++;
        if (t->pair_count > t->index_mask / 2 && !grow_index(t)) return false;
        index = find_index(t, key);
    }
    if (!ROOM(t->fresh, t->fresh_room, t->fresh_count + 1)) return false;
    t->fresh[t->fresh_count++] = (seen){*index, place};
    t->pairs[*index].count += weight;
    return true;
}

static void lose_pair(trainer *t, uint32_t left, uint32_t right, uint64_t weight) {
    uint32_t index = *find_index(t, (uint64_t)left << 32 | right);
    if (index != SIA_NONE) t->pairs[index].count -= weight;
}

/* --------------------------------------------------------------------------------------------------- heap */

static bool before(const trainer *t, candidate a, candidate b) {
    return a.count != b.count ? a.count > b.count : t->pairs[a.pair].key < t->pairs[b.pair].key;
}

static void sift_down(trainer *t, size_t i) {
    candidate entry = t->heap[i];
    for (size_t child; (child = 2 * i + 1) < t->heap_count; i = child) {
        if (child + 1 < t->heap_count && before(t, t->heap[child + 1], t->heap[child])) child++;
        if (!before(t, t->heap[child], entry)) break;
        t->heap[i] = t->heap[child];
    }
    t->heap[i] = entry;
}

static bool push(trainer *t, uint32_t index) {
    if (!ROOM(t->heap, t->heap_room, t->heap_count + 1)) return false;
    candidate entry = {t->pairs[index].count, index};
    size_t i = t->heap_count++;
    for (; i > 0 && before(t, entry, t->heap[(i - 1) / 2]); i = (i - 1) / 2)
        t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = entry;
    return true;
}

/* The pair to merge next; SIA_NONE when none is common enough. */
static uint32_t pop(trainer *t) {
    while (t->heap_count) {
        candidate *top = &t->heap[0];
        uint64_t count = t->pairs[top->pair].count;
        if (count == top->count) {
            uint32_t index = top->pair;
            *top = t->heap[--t->heap_count];
            if (t->heap_count) sift_down(t, 0);
            return index;
        }
        if (count < t->min_count)
            *top = t->heap[--t->heap_count];
        else
            top->count = count;
        if (t->heap_count) sift_down(t, 0);
    }
    return SIA_NONE;
}

/* ------------------------------------------------------------------------------------------------- passes */

/* The end of a pass: the places that it saw are sorted by pair (each pair's stay in ascending order), and
 * pairs that can ever be merged go to the heap. */
static bool settle(trainer *t, size_t first_new) {
    for (size_t i = 0; i < t->fresh_count; i++) {
        pair *p = &t->pairs[t->fresh[i].pair];
        if (p->count >= t->min_count) p->places++;
    }
    size_t total = t->where_count;
    for (size_t i = first_new; i < t->pair_count; i++) {
        t->pairs[i].first = total;
        total += t->pairs[i].places;
        t->pairs[i].places = 0;
    }
    if (!ROOM(t->where, t->where_room, total)) return false;
    t->where_count = total;
    for (size_t i = 0; i < t->fresh_count; i++) {
        pair *p = &t->pairs[t->fresh[i].pair];
        if (p->count >= t->min_count) t->where[p->first + p->places++] = t->fresh[i].place;
    }
    t->fresh_count = 0;
    for (size_t i = first_new; i < t->pair_count; i++)
        if (t->pairs[i].count >= t->min_count && !push(t, (uint32_t)i)) return false;
    return true;
}

/* The token at this place and its neighbour become x. False: no memory. */
static bool merge_at(trainer *t, uint32_t place, uint32_t left, uint32_t right, uint32_t x) {
    size_t middle = (size_t)place + t->length[left], end = middle + t->length[right];
    uint64_t weight = t->count[t->word[place]];
    uint32_t before_it = place ? t->slot[place - 1] : SIA_NONE, behind = t->slot[end];
    if (before_it != SIA_NONE) lose_pair(t, before_it, left, weight);
    if (behind != SIA_NONE) lose_pair(t, right, behind, weight);
    /* The old ends inside must not be taken for tokens. */
    t->slot[middle - 1] = t->slot[middle] = SIA_NONE;
    t->slot[place] = t->slot[end - 1] = x;
    if (before_it != SIA_NONE && !see_pair(t, before_it, x, place - t->length[before_it], weight))
        return false;
    return behind == SIA_NONE || see_pair(t, x, behind, place, weight);
}

static bool run_pass(trainer *t, uint32_t index, uint32_t x) {
    uint32_t left = (uint32_t)(t->pairs[index].key >> 32), right = (uint32_t)t->pairs[index].key;
    size_t first = t->pairs[index].first, places = t->pairs[index].places, first_new = t->pair_count;
    t->length[x] = t->length[left] + t->length[right];
    for (size_t i = 0; i < places; i++) {
        uint32_t place = t->where[first + i];
        if (t->slot[place] != left || t->slot[place + t->length[left]] != right) continue;
        if (!merge_at(t, place, left, right, x)) return false;
    }
    t->pairs[index].count = 0;
    return settle(t, first_new);
}

/* -------------------------------------------------------------------------------------------------- start */

static sia_status lay_out(trainer *t, sia_pieces *words, uint32_t size, sia_error *err) {
    t->slots = 0;
    for (size_t i = 0; i < words->count; i++) t->slots += words->list[i].length + 1;
    if (t->slots >= SIA_NONE || words->count >= SIA_NONE)
        return sia_fail(err, SIA_ARGUMENT, "the distinct words have %zu bytes, want less than 4 GiB",
                        t->slots);
    t->slot = malloc((t->slots + 1) * sizeof *t->slot);
    t->word = malloc((t->slots + 1) * sizeof *t->word);
    t->count = malloc((words->count + 1) * sizeof *t->count);
    t->length = malloc((size_t)size * sizeof *t->length);
    t->index_mask = 4095;
    t->index = malloc((t->index_mask + 1) * sizeof *t->index);
    if (!t->slot || !t->word || !t->count || !t->length || !t->index)
        return sia_fail_memory(err, 8 * t->slots, "training");
    memset(t->index, 0xff, (t->index_mask + 1) * sizeof *t->index);
    for (int b = 0; b < BYTES; b++) t->length[b] = 1;
    size_t at = 0;
    for (size_t i = 0; i < words->count; i++) {
        t->count[i] = words->list[i].count;
        for (size_t j = 0; j <= words->list[i].length; j++, at++) {
            t->word[at] = (uint32_t)i;
            t->slot[at] = j < words->list[i].length ? (unsigned char)words->list[i].bytes[j] : SIA_NONE;
        }
    }
    return SIA_OK;
}

static sia_status first_pairs(trainer *t, sia_error *err) {
    bool good = true;
    for (size_t i = 0; i + 1 < t->slots && good; i++)
        if (t->slot[i] != SIA_NONE && t->slot[i + 1] != SIA_NONE)
            good = see_pair(t, t->slot[i], t->slot[i + 1], (uint32_t)i, t->count[t->word[i]]);
    return good && settle(t, 0) ? SIA_OK : sia_fail_memory(err, 8 * t->slots, "training");
}

/* ---------------------------------------------------------------------------------------------- the whole */

static sia_status add_token(sia_tokenizer *result, uint32_t rank, uint64_t key, sia_error *err) {
    uint32_t left = (uint32_t)(key >> 32), right = (uint32_t)key, x = BYTES + rank;
    size_t a, b;
    const char *left_bytes = sia_tokenizer_bytes(result, left, &a);
    const char *right_bytes = sia_tokenizer_bytes(result, right, &b);
    char *bytes = malloc(a + b);
    if (!bytes) return sia_fail_memory(err, a + b, "training");
    memcpy(bytes, left_bytes, a);
    memcpy(bytes + a, right_bytes, b);
    sia_status status = sia_vocabulary_set(result, x, bytes, a + b, err);
    free(bytes);
    return status ? status : sia_vocabulary_set_merge(result, rank, left, right, x, err);
}

static sia_status merge_all(trainer *t, const sia_tokenizer_training *training, sia_tokenizer *result,
                            sia_error *err) {
    uint32_t merges = training->size - BYTES - SPECIALS;
    for (uint32_t rank = 0; rank < merges; rank++) {
        uint32_t index = pop(t);
        if (index == SIA_NONE)
            return sia_fail(
                err, SIA_ARGUMENT,
                "the text has pairs for a vocabulary of %u, want %u: give more text or a smaller vocabulary",
                BYTES + SPECIALS + rank, training->size);
        sia_status status = add_token(result, rank, t->pairs[index].key, err);
        if (status) return status;
        if (!run_pass(t, index, BYTES + rank)) return sia_fail_memory(err, 8 * t->slots, "training");
        if (training->progress &&
            training->progress(training->progress_context, "merge", (rank + 1.0) / merges))
            return sia_fail(err, SIA_STOPPED, "stopped after %u of %u merges", rank + 1, merges);
    }
    return SIA_OK;
}

static sia_status train(sia_tokenizer *result, const sia_tokenizer_training *training, sia_pieces *words,
                        sia_error *err) {
    trainer t = {.min_count = training->min_count ? training->min_count : 2};
    sia_status status = lay_out(&t, words, training->size, err);
    sia_pieces_free(words); /* the slots have all of it */
    for (uint32_t b = 0; b < BYTES && !status; b++) {
        char byte = (char)b;
        status = sia_vocabulary_set(result, b, &byte, 1, err);
    }
    if (!status) status = first_pairs(&t, err);
    if (!status) status = merge_all(&t, training, result, err);
    if (!status) status = sia_vocabulary_set_special(result, training->size - 1, SIA_END_OF_TEXT, err);
    if (!status) status = sia_vocabulary_finish(result, err);
    release(&t);
    return status;
}

sia_status sia_tokenizer_train(sia_tokenizer **t, const sia_tokenizer_training *training,
                               const sia_text *texts, size_t count, sia_error *err) {
    if (!t || !training || (count && !texts))
        return sia_fail(err, SIA_ARGUMENT,
                        "tokenizer: want a place for the result, settings and texts, got NULL");
    *t = NULL;
    int threads = training->threads ? training->threads : sia_threads_available();
    if (training->size < BYTES + SPECIALS || training->size > SIA_VOCABULARY_MAX)
        return sia_fail(err, SIA_ARGUMENT,
                        "a vocabulary of %u: want %d to %d (256 bytes, merges, " SIA_END_OF_TEXT ")",
                        training->size, BYTES + SPECIALS, SIA_VOCABULARY_MAX);
    if (threads < 0 || threads > SIA_MAX_THREADS)
        return sia_fail(err, SIA_ARGUMENT, "threads %d: want 0 to %d", threads, SIA_MAX_THREADS);
    sia_pieces words;
    sia_status status =
        sia_pieces_count(&words, texts, count, threads, training->progress, training->progress_context, err);
    if (!status)
        status = sia_vocabulary_create(t, "training", training->size, training->size - BYTES - SPECIALS, err);
    if (!status) status = train(*t, training, &words, err);
    sia_pieces_free(&words);
    if (!status) return SIA_OK;
    sia_tokenizer_close(*t);
    *t = NULL;
    return status;
}
