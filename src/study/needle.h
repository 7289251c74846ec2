/* SPDX-License-Identifier: MIT
 *
 * The needle study (the paper, section 5, Table 2): runs are fine-tuned on haystacks of the length that they were
 * trained at, then asked for needles in haystacks of that length and of longer ones.
 *
 *     sia_needle_source runs[] = {{"runs/si"}, {"runs/rope"}};
 *     sia_needle_settings settings = sia_needle_usual;
 *     sia_needle_job job = {.folder = "needle", .runs = runs, .count = 2, .settings = &settings};
 *     status = sia_needle_run(&job, err);
 *
 *     FOLDER/needle.jsonl      what was found, below
 *     FOLDER/NAME              the fine-tuned copy of the run NAME: a run like any other
 *
 * A study that was stopped or killed at any moment and then resumed ends with the same lines as one that was
 * not: what has its lines is not done again, and fine-tuning goes on from its newest checkpoint. Lines:
 *
 *     {"kind": "study", "study": "needle", "version": .., "command": .., "machine": {..}, "config": {..},
 *      "runs": {NAME: PATH, ..}}
 *     {"kind": "needle-depth", "run": .., "scheme": "rope", "seed": 0, "length": 1024, "depth_from": 0.0,
 *      "depth_to": 0.1, "count": 36, "right": 30}                                       ten for each length
 *     {"kind": "needle", "run": .., "scheme": "rope", "seed": 0, "length": 1024, "train_len": 256,
 *      "count": 300, "right": 37, "steps": 300, "learnt": true}                         after them
 *     {"kind": "needle", "run": .., .., "count": null, "right": null, .., "diverged": ".."}     where it diverged
 *
 * "learnt" says whether at least half of the needles are found at the training length. Where not, the task
 * was not learnt at this budget, and what is found at longer ones says nothing about length; a study that
 * does not measure the training length has no such word. A fine-tuning that diverges has that for its result at every
 * length, and the other runs go on: it would diverge again. */
#ifndef SIA_STUDY_NEEDLE_H
#define SIA_STUDY_NEEDLE_H

#include "eval/retrieval.h"
#include "train/train.h"

#define SIA_NEEDLE_LEARNT 0.5

/* A rate that is negative is the run's own. */
typedef struct sia_needle_settings {
    int64_t steps, batch; /* of fine-tuning */
    int64_t warmup;       /* steps; negative: a third of them */
    double cooldown;      /* the share of steps at the end in which the rates fall to 0 */
    double embedding_rate, matrix_rate, unembedding_rate, scalar_rate;
    int64_t save_every;
    int64_t samples; /* haystacks of each length */
    uint64_t seed;   /* of the haystacks */
    int needles, digits;
    bool name_cities, one_token_a_digit, alike, literal, numbers_only; /* data/haystack.h */
    bool
        new_cities; /* asked for cities that fine-tuning never showed: a small model knows its cities by heart
                        and does not copy others. Numbers are always new */
    int64_t multiples[SIA_MAX_LENGTHS]; /* of train_len; ended by 0 */
} sia_needle_settings;

extern const sia_needle_settings sia_needle_usual;
extern const sia_field sia_needle_fields[]; /* all but multiples */

typedef struct sia_needle_source {
    const char *path; /* the folder of a run */
    const char *name; /* NULL: the last part of path */
} sia_needle_source;

typedef enum sia_needle_kind {
    SIA_NEEDLE_BEGUN,    /* a run; scheme, seed, train_len are known from here on */
    SIA_NEEDLE_TRAINING, /* training: an event of its fine-tuning */
    SIA_NEEDLE_READING,  /* done of the samples of this length, 0 to 1 */
    SIA_NEEDLE_MEASURED, /* a length; also when its lines were there already */
    SIA_NEEDLE_FINISHED, /* a run */
} sia_needle_kind;

typedef struct sia_needle_event {
    sia_needle_kind kind;
    int run, runs; /* which of how many */
    const char *name, *scheme;
    uint64_t seed;
    int64_t train_len, length;
    double done;
    const sia_train_event *training;
    const sia_retrieval_result *result; /* MEASURED; NULL: diverged */
    const char *diverged;               /* MEASURED: how, in a sentence; or NULL */
    bool found;                         /* MEASURED: the lines were there already */
    bool in_training_text;              /* MEASURED: no held-out text is long enough for the haystacks */
} sia_needle_event;

/* Not 0: stop. What was measured is kept; a fine-tuning writes a checkpoint first. */
typedef int sia_needle_hook(void *context, const sia_needle_event *event);

typedef struct sia_needle_job {
    const char *folder;
    const sia_needle_source *runs;
    int count;
    const sia_needle_settings
        *settings;         /* a resumed study must have been begun with the same; its runs may be
                                            more than before */
    int threads;           /* 0: all processors; results do not depend on it */
    bool resume;           /* go on; a folder without a study is begun */
    const char *command;   /* how it was called; may be NULL */
    const json_t *machine; /* for the report; may be NULL */
    sia_comm *comm; /* or NULL: ranks fine-tune together (train/train.h), and take turns at the samples */
    sia_stopped *stopped; /* or NULL: asked while the text of a run is generated, when there is no event */
    sia_needle_hook *hook;
    void *hook_context;
} sia_needle_job;

sia_status sia_needle_run(const sia_needle_job *job, sia_error *err);

#endif
