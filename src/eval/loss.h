/* SPDX-License-Identifier: MIT
 *
 * The loss of a model at several lengths, on the same tokens: windows of the longest length are read whole, or
 * in parts of the shorter lengths.
 *
 *     sia_lengths_parse(&lengths, "1x,4x,16x", 256, err);
 *     sia_loss_eval e = {.windows = w, .longest = sia_lengths_longest(&lengths)};
 *     for (i < lengths.count) sia_eval_loss(m, &e, lengths.list[i], &result, err);
 *
 * A text goes through the model in chunks, with a KV cache: memory is that of the cache, and a constant. */
#ifndef SIA_EVAL_LOSS_H
#define SIA_EVAL_LOSS_H

#include "model/validation.h"

enum { SIA_EVAL_LENGTHS = 16, SIA_EVAL_BINS = 32 };

typedef struct sia_lengths {
    int64_t list[SIA_EVAL_LENGTHS]; /* rising; each divides the last */
    int count;
} sia_lengths;

/* "1x,4x,16x" (of the training length) or "256,4096", or both, in any order. */
sia_status sia_lengths_parse(sia_lengths *lengths, const char *text, int64_t train_len, sia_error *err);

static inline int64_t sia_lengths_longest(const sia_lengths *l) { return l->list[l->count - 1]; }

typedef struct sia_loss_eval {
    const sia_windows *windows;
    int64_t longest;    /* of a window, as they were created */
    const char *scheme; /* NULL: the model's own */
    sia_type cache;
    bool positions;
    sia_progress *progress; /* or NULL; done goes from 0 to 1 for each length */
    void *progress_context;
    sia_comm *comm; /* or NULL: ranks divide the windows, or each sequence over `together` of them */
    int together;
} sia_loss_eval;

/* The mean loss over the positions from <= i < to. */
typedef struct sia_loss_bin {
    int64_t from, to;
    double loss;
} sia_loss_bin;

typedef struct sia_loss_result {
    int64_t length;
    sia_validation_result mean;
    sia_loss_bin bins[SIA_EVAL_BINS]; /* 0, 1, 2 to 3, 4 to 7, ...; with positions */
    int bin_count;
} sia_loss_result;

/* NTK and YaRN are fitted to the length. The model keeps the scheme that was set last. */
sia_status sia_eval_loss(sia_model *m, const sia_loss_eval *e, int64_t length, sia_loss_result *result,
                         sia_error *err);

#endif
