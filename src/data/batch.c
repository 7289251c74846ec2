/* SPDX-License-Identifier: MIT
 *
 * Which tokens make a batch, and which a validation window. Sequence g of a run, g = (step * ranks + rank)
 * * sequences + s, is window g mod W of epoch g / W, where W is the number of windows; a shuffled epoch
 * takes the window that its permutation puts there. */
#include <limits.h>
#include <stdlib.h>

#include "base/error.h"
#include "data/permutation.h"
#include "data/windows.h"
#include "sia.h"

/* ---------------------------------------------------------------------------------------------- batches */

static int64_t ranks_of(const sia_batches *b) { return b->ranks ? b->ranks : 1; }

int64_t sia_batches_windows(const sia_batches *b) {
    int64_t tokens = sia_corpus_tokens(b->corpus);
    return b->length > 0 && tokens > 0 ? (tokens - 1) / b->length : 0;
}

double sia_batches_epochs(const sia_batches *b, int64_t steps) {
    int64_t windows = sia_batches_windows(b);
    if (!windows) return 0;
    return (double)steps * (double)ranks_of(b) * (double)b->sequences / (double)windows;
}

static sia_status check_batches(const sia_batches *b, int64_t windows, int64_t step, int64_t rank,
                                sia_error *err) {
    int64_t ranks = ranks_of(b);
    if (b->length < 1)
        return sia_fail(err, SIA_ARGUMENT, "length %lld: want at least 1", (long long)b->length);
    if (b->sequences < 1 || ranks < 1 || b->sequences > INT64_MAX / ranks)
        return sia_fail(err, SIA_ARGUMENT, "%lld sequences for %lld ranks: want at least 1 of each",
                        (long long)b->sequences, (long long)ranks);
    if (rank < 0 || rank >= ranks)
        return sia_fail(err, SIA_ARGUMENT, "rank %lld: want 0 to %lld", (long long)rank,
                        (long long)(ranks - 1));
    if (step < 0 || step > INT64_MAX / (ranks * b->sequences) - 1)
        return sia_fail(err, SIA_ARGUMENT, "step %lld: out of range", (long long)step);
    if (b->order != SIA_ORDER_SEQUENTIAL && b->order != SIA_ORDER_SHUFFLED)
        return sia_fail(err, SIA_ARGUMENT, "order %d: want sequential or shuffled", (int)b->order);
    if (windows < 1)
        return sia_fail(err, SIA_ARGUMENT, "the corpus has %lld tokens: want at least %llu for one sequence",
                        (long long)sia_corpus_tokens(b->corpus), (unsigned long long)b->length + 1);
    return SIA_OK;
}

static int64_t window_of(const sia_batches *b, int64_t windows, int64_t sequence) {
    int64_t epoch = sequence / windows, window = sequence % windows;
    if (b->order == SIA_ORDER_SEQUENTIAL) return window;
    uint64_t seed = sia_random_stream(b->seed, (uint64_t)epoch);
    return (int64_t)sia_permute(seed, (uint64_t)windows, (uint64_t)window);
}

sia_status sia_batches_read(const sia_batches *b, int64_t step, int64_t rank, uint32_t *ids,
                            sia_batch_place *place, sia_error *err) {
    if (!b || !b->corpus || !ids)
        return sia_fail(err, SIA_ARGUMENT, "batches: want a corpus and a place for ids, got NULL");
    int64_t windows = sia_batches_windows(b);
    sia_status status = check_batches(b, windows, step, rank, err);
    if (status) return status;
    int64_t first = (step * ranks_of(b) + rank) * b->sequences;
    for (int64_t s = 0; s < b->sequences; s++) {
        int64_t at = window_of(b, windows, first + s) * b->length;
        status = sia_corpus_read(b->corpus, at, b->length + 1, ids + s * (b->length + 1), err);
        if (status) return status;
    }
    if (place)
        *place = (sia_batch_place){first / windows, (first + b->sequences - 1) / windows,
                                   window_of(b, windows, first)};
    return SIA_OK;
}

/* ---------------------------------------------------------------------------------------------- windows */

struct sia_windows {
    const sia_corpus *corpus;
    int64_t length, count;
    int64_t *first; /* [count] */
};

static sia_status make_windows(sia_windows **out, const sia_corpus *c, int64_t length, int64_t count,
                               sia_error *err) {
    sia_windows *w = calloc(1, sizeof *w);
    int64_t *places = calloc((size_t)count, sizeof *places);
    if (!w || !places) {
        free(w);
        free(places);
        return sia_fail_memory(err, (size_t)count * sizeof *places, "validation windows");
    }
    w->corpus = c;
    w->length = length;
    w->count = count;
    w->first = places;
    *out = w;
    return SIA_OK;
}

/* Windows that document i holds: the token after the last one must be in it too. */
static int64_t windows_in(const sia_corpus *c, int64_t i, int64_t length, int64_t *first, int64_t *tokens) {
    (void)sia_corpus_document(c, i, first, tokens, NULL);
    return (*tokens - 1) / length;
}

sia_status sia_windows_create(sia_windows **out, const sia_corpus *c, int64_t length, int64_t count,
                              sia_error *err) {
    if (!out || !c)
        return sia_fail(err, SIA_ARGUMENT, "windows: want a place for the result and a corpus, got NULL");
    *out = NULL;
    if (length < 1 || count < 0)
        return sia_fail(err, SIA_ARGUMENT, "%lld windows of %lld tokens", (long long)count,
                        (long long)length);
    if (!sia_corpus_documents(c) && sia_corpus_tokens(c))
        return sia_fail(err, SIA_ARGUMENT, "the corpus was not scanned for documents");
    int64_t total = 0, longest = 0, first, tokens;
    for (int64_t i = 0; i < sia_corpus_documents(c); i++) {
        total += windows_in(c, i, length, &first, &tokens);
        if (tokens > longest) longest = tokens;
    }
    if (!total)
        return sia_fail(err, SIA_ARGUMENT,
                        "no document of %llu tokens: the longest has %lld; want longer documents or shorter "
                        "lengths",
                        (unsigned long long)length + 1, (long long)longest);
    if (count == 0 || count > total) count = total;
    sia_status status = make_windows(out, c, length, count, err);
    if (status) return status;
    int64_t *places = (*out)->first;
    /* Window n of all is taken when it is the k-th of the evenly spread ones: n = floor(k total / count). */
    int64_t taken = 0, passed = 0;
    for (int64_t i = 0; i < sia_corpus_documents(c) && taken < count; i++) {
        int64_t here = windows_in(c, i, length, &first, &tokens);
        for (; taken < count; taken++) {
            int64_t n = (int64_t)((__int128)taken * total / count);
            if (n >= passed + here) break;
            places[taken] = first + (n - passed) * length;
        }
        passed += here;
    }
    return SIA_OK;
}

sia_status sia_windows_make(sia_windows **out, const sia_corpus *c, int64_t length, int64_t count, bool join,
                            sia_error *err) {
    if (!join) return sia_windows_create(out, c, length, count, err);
    *out = NULL;
    if (length < 1 || count < 0)
        return sia_fail(err, SIA_ARGUMENT, "%lld windows of %lld tokens", (long long)count,
                        (long long)length);
    int64_t tokens = sia_corpus_tokens(c), total = (tokens - 1) / length;
    if (total < 1)
        return sia_fail(err, SIA_ARGUMENT, "all documents together have %lld tokens: want %llu",
                        (long long)tokens, (unsigned long long)length + 1);
    if (count == 0 || count > total) count = total;
    sia_status status = make_windows(out, c, length, count, err);
    for (int64_t i = 0; !status && i < count; i++)
        (*out)->first[i] = (int64_t)((__int128)i * total / count) * length;
    return status;
}

void sia_windows_destroy(sia_windows *w) {
    if (!w) return;
    free(w->first);
    free(w);
}

int64_t sia_windows_count(const sia_windows *w) { return w->count; }
int64_t sia_windows_first(const sia_windows *w, int64_t i) {
    return i < 0 || i >= w->count ? -1 : w->first[i];
}

sia_status sia_windows_read(const sia_windows *w, int64_t i, int64_t parts, int64_t part, uint32_t *ids,
                            sia_error *err) {
    if (!w || !ids) return sia_fail(err, SIA_ARGUMENT, "windows: want some and a place for ids, got NULL");
    if (i < 0 || i >= w->count)
        return sia_fail(err, SIA_ARGUMENT, "window %lld: want 0 to %lld", (long long)i,
                        (long long)(w->count - 1));
    if (parts < 1 || w->length % parts)
        return sia_fail(err, SIA_ARGUMENT, "%lld parts: want a divisor of the length %lld", (long long)parts,
                        (long long)w->length);
    if (part < 0 || part >= parts)
        return sia_fail(err, SIA_ARGUMENT, "part %lld: want 0 to %lld", (long long)part,
                        (long long)(parts - 1));
    int64_t length = w->length / parts;
    return sia_corpus_read(w->corpus, w->first[i] + part * length, length + 1, ids, err);
}
