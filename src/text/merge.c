/* SPDX-License-Identifier: MIT
 *
 * Merging: a piece starts as one token a byte; as long as a pair of neighbours has a merge, the pair of the
 * smallest rank (of equal ones, the leftmost) becomes one token.
 *
 * Short pieces, which is nearly all of them: the ranks of all neighbours in an array, the smallest found by
 * looking at each. That is O(n^2), and for n <= 64 faster than anything clever.
 *
 * Long pieces: the tokens are a linked list, the pairs a heap of (rank, place). A merge changes the two pairs
 * beside it; their new ranks are pushed, their old entries stay in the heap and are known as old when they
 * come up, because the place then has another rank. Each merge (there are less than n) pushes
 * at most two: O(n log n). */
#include "text/merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* -------------------------------------------------------------------------------------------------- short */

/* The order of merging in one number: rank, then place. */
enum { PLACE_BITS = 6, PLACES = 1 << PLACE_BITS };
_Static_assert((int)SIA_SHORT_PIECE <= (int)PLACES, "a place fits");
_Static_assert(SIA_VOCABULARY_MAX < INT32_MAX >> PLACE_BITS, "a rank fits");

static inline uint32_t order_of(const sia_tokenizer *t, const uint32_t *ids, unsigned place, unsigned next) {
    uint32_t rank = sia_pair_find(t, ids[place], ids[next]);
    return rank != SIA_NONE ? rank << PLACE_BITS | place : SIA_NONE;
}

size_t sia_merge_short(const sia_tokenizer *t, const char *bytes, size_t length, uint32_t *ids) {
    uint32_t order[PLACES]; /* of the pair that starts at a place; SIA_NONE: it has no merge, or is gone */
    uint8_t next[PLACES + 1], previous[PLACES + 1];
    unsigned n = (unsigned)length;
    if (n == 0) return 0;
    for (unsigned i = 0; i < n; i++) {
        ids[i] = t->byte_id[(unsigned char)bytes[i]];
        next[i] = (uint8_t)(i + 1);
        previous[i + 1] = (uint8_t)i;
    }
    for (unsigned i = 0; i + 1 < n; i++) {
        uint32_t rank = t->byte_rank[(unsigned char)bytes[i] * 256 + (unsigned char)bytes[i + 1]];
        order[i] = rank != SIA_NONE ? rank << PLACE_BITS | i : SIA_NONE;
    }
    order[n - 1] = SIA_NONE;
    for (;;) {
        uint32_t best = order[0];
        for (unsigned i = 1; i < n; i++) best = order[i] < best ? order[i] : best;
        if (best == SIA_NONE) break;
        unsigned i = best % PLACES, gone = next[i];
        ids[i] = t->result[best >> PLACE_BITS];
        order[gone] = SIA_NONE;
        next[i] = next[gone];
        previous[next[i]] = (uint8_t)i;
        order[i] = next[i] < n ? order_of(t, ids, i, next[i]) : SIA_NONE;
        if (i > 0) order[previous[i]] = order_of(t, ids, previous[i], i);
    }
    size_t count = 0;
    for (unsigned i = 0; i < n; i = next[i]) ids[count++] = ids[i];
    return count;
}

/* --------------------------------------------------------------------------------------------------- heap */

/* The smallest on top; an entry is rank << 32 | place, so that its order is the order of merging. */
static void sift_down(uint64_t *heap, size_t n, size_t i) {
    uint64_t entry = heap[i];
    for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= entry) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = entry;
}

static void sift_up(uint64_t *heap, size_t i) {
    uint64_t entry = heap[i];
    while (i > 0 && heap[(i - 1) / 2] > entry) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = entry;
}

/* --------------------------------------------------------------------------------------------------- long */

static sia_status reserve(sia_merger *m, size_t n, sia_error *err) {
    if (n <= m->room) return SIA_OK;
    sia_merger_free(m);
    /* n pairs at first; each of n merges takes one entry and pushes two. */
    m->next = malloc(n * sizeof *m->next);
    m->previous = malloc(n * sizeof *m->previous);
    m->rank = malloc(n * sizeof *m->rank);
    m->heap = malloc(2 * n * sizeof *m->heap);
    if (!m->next || !m->previous || !m->rank || !m->heap) {
        sia_merger_free(m);
        (void)sia_fail_memory(err, n * 28, "merging a long word");
        return SIA_MEMORY;
    }
    m->room = n;
    return SIA_OK;
}

void sia_merger_free(sia_merger *m) {
    free(m->next);
    free(m->previous);
    free(m->rank);
    free(m->heap);
    *m = (sia_merger){0};
}

/* The list, and the heap of all pairs that have a merge. Returns the heap's size. */
static size_t start(sia_merger *m, const sia_tokenizer *t, const char *bytes, uint32_t n, uint32_t *ids) {
    size_t heap = 0;
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = t->byte_id[(unsigned char)bytes[i]];
        m->previous[i] = i ? i - 1 : SIA_NONE;
        m->next[i] = i + 1 < n ? i + 1 : SIA_NONE;
    }
    for (uint32_t i = 0; i < n; i++) {
        m->rank[i] =
            i + 1 < n ? t->byte_rank[(unsigned char)bytes[i] * 256 + (unsigned char)bytes[i + 1]] : SIA_NONE;
        if (m->rank[i] != SIA_NONE) m->heap[heap++] = (uint64_t)m->rank[i] << 32 | i;
    }
    for (size_t i = heap / 2; i > 0; i--) sift_down(m->heap, heap, i - 1);
    return heap;
}

/* The pair that starts at place i has changed. */
static void renew(sia_merger *m, const sia_tokenizer *t, const uint32_t *ids, uint32_t i, size_t *heap) {
    m->rank[i] = m->next[i] != SIA_NONE ? sia_pair_find(t, ids[i], ids[m->next[i]]) : SIA_NONE;
    if (m->rank[i] == SIA_NONE) return;
    m->heap[*heap] = (uint64_t)m->rank[i] << 32 | i;
    sift_up(m->heap, (*heap)++);
}

sia_status sia_merge_long(sia_merger *m, const sia_tokenizer *t, const char *bytes, size_t length,
                          uint32_t *ids, size_t *count, sia_error *err) {
    if (length >= SIA_NONE)
        return sia_fail(err, SIA_ARGUMENT, "a word of %zu bytes, want less than 4 GiB", length);
    sia_status status = reserve(m, length, err);
    if (status) return status;
    size_t heap = start(m, t, bytes, (uint32_t)length, ids);
    while (heap) {
        uint64_t entry = m->heap[0];
        m->heap[0] = m->heap[--heap];
        if (heap) sift_down(m->heap, heap, 0);
        uint32_t i = (uint32_t)entry, rank = (uint32_t)(entry >> 32);
        if (m->rank[i] != rank) continue; /* an old entry */
        uint32_t gone = m->next[i];
        ids[i] = t->result[rank];
        m->rank[gone] = SIA_NONE;
        m->next[i] = m->next[gone];
        if (m->next[i] != SIA_NONE) m->previous[m->next[i]] = i;
        renew(m, t, ids, i, &heap);
        if (m->previous[i] != SIA_NONE) renew(m, t, ids, m->previous[i], &heap);
    }
    *count = 0;
    for (uint32_t i = 0; i != SIA_NONE; i = m->next[i]) ids[(*count)++] = ids[i];
    return SIA_OK;
}

sia_status sia_merger_run(sia_merger *m, const sia_tokenizer *t, const char *bytes, size_t length,
                          uint32_t *ids, size_t *count, sia_error *err) {
    if (length > SIA_SHORT_PIECE) return sia_merge_long(m, t, bytes, length, ids, count, err);
    *count = sia_merge_short(t, bytes, length, ids);
    return SIA_OK;
}
