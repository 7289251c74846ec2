/* SPDX-License-Identifier: MIT
 *
 * Several schemes under one budget: the same text in the same order, the same initial weights, evaluated at
 * multiples of the training length on the same tokens.
 *
 *     sia_compare_job job = {.folder = "study", .settings = &settings, .schemes = names, .scheme_count = 10,
 *                            .seeds = 3, .source = &source};
 *     status = sia_compare(&job, err);
 *
 * The folder holds
 *
 *     study.json       what was asked for       data/, tokenizer.json    what it was trained on
 *     runs/NAME/       a run for each training  compare.jsonl            the results, a line each
 *
 * Schemes that differ at evaluation only (rope, rope+ntk, rope+yarn) share a training. What is finished is not
 * done again: a study that was stopped, or is called with more schemes or seeds, goes on where it was, and ends with
 * the same lines, each once. Trainings side by side write theirs in the order in which they end. One that diverges has
 * that for its result, and the others go on: it would diverge again. */
#ifndef SIA_STUDY_COMPARE_H
#define SIA_STUDY_COMPARE_H

#include "train/train.h"

enum { SIA_MAX_VARIANTS = 16 };

typedef struct sia_compare_result {
    const char *scheme, *variant; /* variant "" without a sweep */
    uint64_t seed;
    int64_t parameters, train_len;
    const int64_t *multiples;
    double losses[SIA_MAX_LENGTHS]; /* at each of them; not a number where the training has diverged */
    double seconds;                 /* of training; 0 when it was not trained in one go */
    const char *diverged;           /* how, in a sentence; or NULL */
} sia_compare_result;

typedef struct sia_compare_event {
    double done;                      /* of all the work, 0 to 1 */
    double found;                     /* of it, what was done before this call */
    const sia_train_data *data;       /* at the start, else NULL */
    sia_held_out held_out;            /* at the start */
    const char *running;              /* which training has just done a step, or which evaluation goes on */
    double loss;                      /* of that step; 0 during evaluations */
    const sia_compare_result *result; /* when there is a new one, or one from before */
} sia_compare_event;

/* Called by one thread at a time. Not 0: stop. */
typedef int sia_compare_hook(void *context, const sia_compare_event *event);

/* Schemes, times values of a sweep, in the lines of a study: as many as a report shows. */
enum { SIA_COMPARE_NAMES = 64 };

typedef struct sia_compare_job {
    const char *folder;
    const sia_settings *settings; /* the scheme and the seed are set by the study */
    const char *const *schemes;
    int scheme_count;
    int64_t seeds;
    const char *sweep; /* the name of a setting, such as "tau" or "train_len"; or NULL */
    double sweep_values[SIA_MAX_VARIANTS];
    int sweep_count;
    const sia_data_source *source;
    int threads; /* 0: all processors: so many trainings at a time, or threads of the only one */
    const char *command;
    const json_t *machine; /* for the report; may be NULL */
    sia_comm *comm; /* or NULL: the ranks take turns at the trainings; rank 0 writes the lines of all */
    sia_compare_hook *hook;
    void *hook_context;
} sia_compare_job;

sia_status sia_compare(const sia_compare_job *job, sia_error *err);

#endif
