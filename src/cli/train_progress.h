/* SPDX-License-Identifier: MIT
 *
 * What a person sees of a training: the progress line with step, loss, smoothed loss, speed and time left, in which
 * validation does not count; lines for validation and for what happens once. */
#ifndef SIA_CLI_TRAIN_PROGRESS_H
#define SIA_CLI_TRAIN_PROGRESS_H

#include "cli/progress.h"
#include "train/train.h"

typedef struct cli_train_progress {
    bool quiet;                   /* no lines; the progress line is silenced for the process */
    cli_phases shown, validating; /* one of the two is on the line */
    double trained; /* when the last step, or saving it, was done: what follows is not training */
    double smoothed;
    bool seen;                          /* the smoothed loss has begun */
    int64_t first_step, steps, tokens;  /* of a step */
    int64_t multiples[SIA_MAX_LENGTHS]; /* a copy: it is read after the run has ended */
    bool validated;
    double validation[SIA_MAX_LENGTHS]; /* the last ones */
} cli_train_progress;

/* A line that says what the losses of validation stand on. */
void cli_show_held_out(const sia_held_out *held_out);

/* A sia_train_hook on a cli_train_progress; asks to stop when a person does. */
int cli_train_hook(void *context, const sia_train_event *event);
void cli_train_progress_end(cli_train_progress *progress); /* takes the line away */

#endif
