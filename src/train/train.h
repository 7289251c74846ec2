/* SPDX-License-Identifier: MIT
 *
 * A whole run in its folder: steps, metrics, validation, checkpoints, and going on after a stop.
 *
 *     sia_train_job job = {.folder = "runs/si", .settings = &settings, .source = &source, .threads = 2};
 *     status = sia_train(&job, err);
 *
 * A run that was stopped or killed at any moment and then resumed ends in the same bits as one that was not.
 *
 * On several ranks all call it with one job, in one folder that all can read; rank 0 writes. Ranks that have another
 * configuration or other text are refused. A run that was saved on some number of ranks goes on on any other; its bits
 * are then those of the ranks that it had in turn. */
#ifndef SIA_TRAIN_TRAIN_H
#define SIA_TRAIN_TRAIN_H

#include "train/data.h"
#include "train/trainer.h"

typedef enum sia_train_kind {
    SIA_TRAIN_STARTED,    /* step: where it goes on */
    SIA_TRAIN_STEP,       /* a step was done */
    SIA_TRAIN_VALIDATING, /* at `multiple` of the training length; done: how much of it, 0 to 1 */
    SIA_TRAIN_VALIDATED,  /* validation[i] is the loss at multiples[i] of the training length */
    SIA_TRAIN_SAVED,
} sia_train_kind;

/* What validation stands on: windows of the longest length. A text may have fewer than are wanted. */
typedef struct sia_held_out {
    int64_t windows, wanted, length; /* 0 windows: there is no validation */
} sia_held_out;

typedef struct sia_train_event {
    sia_train_kind kind;
    int64_t step; /* steps done */
    const sia_step_result *result;
    int64_t multiple;
    double done;
    const double *validation;
    const sia_train_data *data;   /* STARTED */
    const sia_settings *settings; /* STARTED: complete */
    int threads;                  /* STARTED: of each rank */
    int ranks;                    /* STARTED */
    sia_held_out held_out;        /* STARTED */
    size_t bytes;                 /* STARTED: of weights, gradients, optimiser and activations */
    const char *note; /* STARTED: a sentence about a newer checkpoint that cannot be used, or NULL */
} sia_train_event;

/* Not 0: stop; after a step a checkpoint is written first. */
typedef int sia_train_hook(void *context, const sia_train_event *event);

typedef struct sia_train_job {
    const char *folder;
    const sia_settings *settings; /* a resumed run must have been begun with the same */
    const sia_data_source
        *source;                /* of a run that is begun; one that is resumed opens what it was begun with */
    const sia_train_data *data; /* or data that is open already, whose vocabulary the settings have */
    int threads;                /* 0: all processors */
    bool resume;                /* go on from the newest checkpoint; a folder without one is begun */
    const char *initial; /* weights to start from: a run, a checkpoint or a file; NULL: drawn by the seed */
    const char *command; /* how it was called, for config.json; may be NULL */
    sia_fill_batch
        *fill; /* batches of another kind; then there is no validation. NULL: windows of the data */
    void *fill_context;
    sia_train_hook *hook; /* on every rank */
    void *hook_context;
    sia_comm *comm; /* or NULL: one process */
    int together;   /* so many ranks divide a sequence among them; 0 is 1 */
} sia_train_job;

/* SIA_STOPPED when the hook asked for it; SIA_BUSY when another process is at work in the folder; SIA_NUMBER
 * when the loss left the ground, with all checkpoints as they were. */
sia_status sia_train(const sia_train_job *job, sia_error *err);

/* The settings and the description of the data (a new reference) of a run, from its config.json. */
sia_status sia_train_config_read(const char *folder, sia_settings *settings, json_t **data, sia_error *err);

#endif
