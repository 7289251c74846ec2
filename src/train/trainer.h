/* SPDX-License-Identifier: MIT
 *
 * Steps of training: batch, gradients, optimiser.
 *
 *     sia_trainer *t;
 *     sia_trainer_create(&t, model, &settings, fill, context, err);
 *     for (int64_t step = 0; step < steps; step++) sia_trainer_step(t, step, &result, err);
 *     sia_trainer_destroy(t);
 *
 * On several ranks (settings and weights the same on all) each takes its rows of the batch. A gradient is sent to its
 * owner as soon as the backward pass has it, while the pass goes on; owners update what they own (optim/optimizer.h)
 * and hand it on. The loss of a step is that of the whole batch, on every rank. */
#ifndef SIA_TRAIN_TRAINER_H
#define SIA_TRAIN_TRAINER_H

#include "comm/comm.h"
#include "model/model.h"
#include "train/settings.h"

/* Fills ids and targets [batch, length] of a step; a pure function of the step. */
typedef sia_status sia_fill_batch(void *context, int64_t step, uint32_t *ids, uint32_t *targets,
                                  sia_error *err);

typedef struct sia_trainer sia_trainer;

/* The model and the context are borrowed. Settings must be complete. */
sia_status sia_trainer_create(sia_trainer **t, sia_model *m, const sia_settings *settings,
                              sia_fill_batch *fill, void *context, sia_error *err);
/* The same on several ranks; comm NULL is one. Sequences are divided over `together` neighbouring ranks (0 is 1), which
 * must divide the number of ranks; batches over the groups of them, of which there may be no more than sequences. */
typedef struct sia_trainer_ranks {
    sia_comm *comm;
    int together;
} sia_trainer_ranks;
sia_status sia_trainer_create_ranks(sia_trainer **t, sia_model *m, const sia_settings *settings,
                                    sia_fill_batch *fill, void *context, sia_trainer_ranks ranks,
                                    sia_error *err);
void sia_trainer_destroy(sia_trainer *t); /* NULL is fine */

typedef struct sia_step_result {
    double loss; /* the mean over the scored targets */
    int64_t tokens;
    double rate_factor;
    sia_optim_statistics statistics;
} sia_step_result;

/* Every rank calls; what fails on one fails on all, but for SIA_LOST.
 *
 * SIA_NUMBER, before any weight was changed, when the loss or a gradient is not finite, or when the loss is
 * far above that of a model that knows nothing. */
sia_status sia_trainer_step(sia_trainer *t, int64_t step, sia_step_result *result, sia_error *err);

/* Another bound for the loss than that of SIA_NUMBER above, twice that of a model that knows nothing: a model that
 * learns a new kind of text may begin beyond it. */
void sia_trainer_allow(sia_trainer *t, double loss);

sia_optimizer *sia_trainer_optimizer(const sia_trainer *t);
size_t sia_trainer_bytes(const sia_trainer *t); /* all that training takes, the model too */

#endif
