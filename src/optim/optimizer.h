/* SPDX-License-Identifier: MIT
 *
 * Muon for the matrices inside the blocks, Adam for everything else, over any list of tensors.
 *
 *     sia_optim_config config = sia_optim_config_default();
 *     sia_optimizer *o;
 *     if (sia_optimizer_create(&o, tensors, count, &config, &err)) ...
 *     for (int64_t step = 0; step < steps; step++) {
 *         ...                                                fill the gradients
 *         sia_optim_statistics s;
 *         if (sia_optimizer_step(o, step, sia_schedule_factor(&schedule, step), &s, &err)) ...
 *     }
 *     sia_optimizer_destroy(o);
 *
 * With g the gradient (times a factor when it is clipped), t = step + 1, and rate = rate[group] * rate_factor:
 *
 *     Adam   m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2
 *            value -= rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)           (as torch)
 *     Muon   see optim/muon.h
 *
 * The state is the m and v, or the momentum, of every tensor, and nothing else: a run goes on from its
 * states, its values and the number of the step. All state is float32. The same bits for any number of
 * threads.
 *
 * On several ranks each tensor, or each part of a large one, has an owner, which alone holds its state and updates its
 * values: a matrix of Muon's belongs to one rank, the costly ones dealt out first; other tensors are cut evenly. The
 * owner must have the gradient that is summed over the ranks, and whoever asks for a step hands its values on. */
#ifndef SIA_OPTIM_OPTIMIZER_H
#define SIA_OPTIM_OPTIMIZER_H

#include "model/group.h"
#include "sia.h"

/* Borrowed, with the arrays and the name, for as long as the optimiser lives. */
typedef struct sia_optim_tensor {
    const char *name;
    float *value;
    const float *gradient; /* read only: whoever fills it also clears it */
    int64_t rows, columns; /* row by row; a matrix has its outputs as rows, its inputs as columns */
    sia_group group;
} sia_optim_tensor;

typedef struct sia_optim_config {
    double rate[SIA_GROUPS];
    double beta1, beta2, epsilon; /* Adam */
    double momentum;              /* Muon */
    double weight_decay;          /* value -= rate * weight_decay * value, beside the step; all but scalars */
    double clip;                  /* the most that the norm of all gradients may be; 0: no limit */
    int threads;                  /* 0: all processors */
    int rank, ranks;              /* ranks 0 is 1 */
    /* Adds up over the ranks, in place: each number is 0 on all ranks but one. With ranks > 1. */
    sia_status (*add_up)(void *context, double *numbers, int64_t count, sia_error *err);
    void *add_up_context;
} sia_optim_config;

/* The paper's: 0.3, 0.02, 0.002, 0.002; betas 0.9 0.95, epsilon 1e-8 (torch's default, which its recipe leaves
 * alone); momentum 0.95; no decay, no clipping, all processors. */
sia_optim_config sia_optim_config_default(void);

typedef struct sia_optimizer sia_optimizer;

/* Allocates all that the steps need; states start at 0. SIA_ARGUMENT for a value out of its range. */
sia_status sia_optimizer_create(sia_optimizer **out, const sia_optim_tensor *tensors, int64_t count,
                                const sia_optim_config *config, sia_error *err);

/* Of the gradients before clipping. */
typedef struct sia_optim_statistics {
    double gradient_norm, group_norm[SIA_GROUPS];
    double clip_factor; /* what the gradients were multiplied with; 1 without clipping */
} sia_optim_statistics;

/* step counts from 0. statistics may be NULL. SIA_NUMBER, naming the first tensor, when a gradient is not
 * finite, or after clipping so large (a norm of 1e18) that its squares are not: nothing but the statistics
 * was touched then, and the next step may go on. */
sia_status sia_optimizer_step(sia_optimizer *o, int64_t step, double rate_factor,
                              sia_optim_statistics *statistics, sia_error *err);

/* What a checkpoint keeps, in the order of the tensors: "<tensor>.momentum", or "<tensor>.m" and "<tensor>.v".
 * The data may be written to, to resume. Owned by the optimiser. On several ranks data is NULL: see the parts. */
typedef struct sia_optim_state {
    const char *name;
    float *data;
    int64_t rows, columns;
} sia_optim_state;

const sia_optim_state *sia_optimizer_states(const sia_optimizer *o, int64_t *count);

/* Numbers from .. from + count - 1 of a tensor, and whose they are; the same on every rank, in the order of the
 * tensors. first_state: the place of the tensor's states in the list above; state[i]: the owner's, of this part, else
 * NULL. */
typedef struct sia_optim_part {
    int64_t tensor, from, count;
    int owner;
    int64_t first_state;
    int states;
    float *state[2];
} sia_optim_part;

const sia_optim_part *sia_optimizer_parts(const sia_optimizer *o, int64_t *count);

size_t sia_optimizer_bytes(const sia_optimizer *o);      /* of the states on this rank */
size_t sia_optimizer_work_bytes(const sia_optimizer *o); /* of what its threads compute in */

void sia_optimizer_destroy(sia_optimizer *o); /* NULL is no error */

#endif
