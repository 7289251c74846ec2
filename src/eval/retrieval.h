/* SPDX-License-Identifier: MIT
 *
 * Needle retrieval (the paper, section 5): how many needles of how many haystacks a model finds, by the depth at
 * which they stand.
 *
 *     sia_retrieval r = {.haystack = {.corpus = val, .tokenizer = t, .length = 4096}, .samples = 100};
 *     sia_retrieval_result result;
 *     status = sia_retrieval_of_model(model, &r, &result, err);
 *     ... result.right of result.count ...
 *
 * The model reads haystack and question, then writes the answer token by token, each time the one that it
 * holds most likely after what it wrote itself (with numbers_only the cities of the answer are given to it).
 * The text of the answer is compared: each needle counts by itself, and is right when its city and its
 * number are both right and in their place in the answer. */
#ifndef SIA_EVAL_RETRIEVAL_H
#define SIA_EVAL_RETRIEVAL_H

#include "comm/comm.h"
#include "data/haystack.h"

enum { SIA_DEPTHS = 10 };

typedef struct sia_retrieval {
    sia_haystack haystack;  /* its `validation` is set here: numbers that training never showed */
    int64_t samples;        /* numbers 0 .. samples - 1 of the haystack's seed */
    int threads;            /* 0: all processors */
    sia_progress *progress; /* or NULL */
    void *progress_context;
    sia_comm *comm; /* or NULL: the ranks take turns at the samples, and all get the result */
} sia_retrieval;

/* Depth i holds the needles whose sentence starts at i/10 <= first/length < (i + 1)/10. */
typedef struct sia_retrieval_result {
    int64_t count, right;
    int64_t depth_count[SIA_DEPTHS], depth_right[SIA_DEPTHS];
} sia_retrieval_result;

/* Something that goes on with a text. A call with from = 0 begins a new text; later calls give what follows,
 * ids[0 .. count) at from. *next is what it expects after the last of them. Calls of different workers come
 * at the same time. */
typedef sia_status sia_predict(void *context, int worker, int64_t from, const uint32_t *ids, int64_t count,
                               uint32_t *next, sia_error *err);

/* Samples are divided among the threads; the result does not depend on them. predict is called with worker <
 * threads. SIA_STOPPED when the progress says so. */
sia_status sia_retrieval_run(const sia_retrieval *r, sia_predict *predict, void *context,
                             sia_retrieval_result *result, sia_error *err);

sia_status sia_retrieval_of_model(sia_model *m, const sia_retrieval *r, sia_retrieval_result *result,
                                  sia_error *err);

/* right[i] of an answer "city=number;city=number;...", whose last number may be followed by anything but a
 * digit: nothing says where the answer ends. */
void sia_answer_score(const char *answer, const sia_needle *needles, int count, bool *right);

#endif
