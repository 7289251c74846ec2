/* SPDX-License-Identifier: MIT
 *
 * All settings of a run, as they stand in its config.json:
 *
 *     {"model": {"layers": 3, ...}, "training": {"steps": 500, ...}}
 *
 * Threads are not among them: results do not depend on them. */
#ifndef SIA_TRAIN_SETTINGS_H
#define SIA_TRAIN_SETTINGS_H

#include "model/config.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

enum { SIA_MAX_LENGTHS = 8 };

typedef struct sia_training_settings {
    int64_t steps;
    int64_t batch;       /* sequences of a step */
    int64_t micro_batch; /* of them that go through the model together */
    double embedding_rate, matrix_rate, unembedding_rate, scalar_rate;
    double beta1, beta2, epsilon, momentum, weight_decay, clip;
    sia_schedule_shape schedule;
    int64_t warmup;
    double cooldown;
    sia_order order;
    uint64_t data_seed;
    bool recompute;
    int64_t log_every, eval_every, save_every, keep; /* in steps; eval_every, save_every 0: at the end only */
    int64_t eval_windows;                            /* of the longest length, for validation */
    bool join;                                       /* they may run from one document into the next */
    int64_t multiples[SIA_MAX_LENGTHS];              /* of train_len: lengths of validation; ended by 0 */
} sia_training_settings;

typedef struct sia_settings {
    sia_model_config model;
    sia_training_settings training;
} sia_settings;

extern const sia_field sia_training_fields[]; /* all but multiples */

/* The recipe of a preset. */
sia_status sia_settings_preset(sia_settings *s, const char *preset, sia_error *err);

/* Fills in what is 0, and checks all of it. */
sia_status sia_settings_complete(sia_settings *s, sia_error *err);

/* The other way: what is as the rest makes it becomes 0 again, so that it follows when the rest is changed. */
void sia_settings_forget(sia_settings *s);

sia_optim_config sia_settings_optim(const sia_settings *s, int threads);
sia_schedule sia_settings_schedule(const sia_settings *s);

json_t *sia_settings_json(const sia_settings *s);

/* Sets what the object names; "model" and "training" may both be absent; "data", "version", "command",
 * "from" and "note" are left alone; anything else is an error. */
sia_status sia_settings_read(sia_settings *s, json_t *object, const char *name, sia_error *err);

/* "1x,4x,16x" to multiples. */
sia_status sia_multiples_parse(const char *text, int64_t multiples[SIA_MAX_LENGTHS], sia_error *err);

/* The largest; 0 for none. */
int64_t sia_multiples_longest(const int64_t multiples[SIA_MAX_LENGTHS]);

/* Whether windows of the longest can be cut into whole parts of each other one: the same tokens at every length. */
sia_status sia_multiples_check(const int64_t multiples[SIA_MAX_LENGTHS], sia_error *err);

#endif
