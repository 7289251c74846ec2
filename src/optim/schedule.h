/* SPDX-License-Identifier: MIT
 *
 * What the learning rates are multiplied with at each step.
 *
 *     sia_schedule s = {.shape = SIA_SCHEDULE_LINEAR, .steps = 500, .cooldown = 0.3};
 *     if (sia_schedule_check(&s, &err)) ...
 *     sia_optimizer_step(optimizer, step, sia_schedule_factor(&s, step), &statistics, &err);
 *
 *     constant   1
 *     linear     1, then (steps - step) / cooldown steps over the last round(cooldown * steps)
 *     cosine     (1 + cos(pi (step - warmup) / (steps - warmup))) / 2
 *
 * each after (step + 1) / warmup for step < warmup. Steps are counted from 0; the last one, steps - 1, still
 * has a small factor, and steps would have 0. A trapezoid is linear with a warm-up: 300 steps, 100 of them
 * warm-up, cooldown 1/3. */
#ifndef SIA_OPTIM_SCHEDULE_H
#define SIA_OPTIM_SCHEDULE_H

#include "sia.h"

typedef enum sia_schedule_shape {
    SIA_SCHEDULE_CONSTANT,
    SIA_SCHEDULE_LINEAR,
    SIA_SCHEDULE_COSINE,
    SIA_SCHEDULES
} sia_schedule_shape;

#define SIA_SCHEDULE_COOLDOWN 0.3 /* of the recipes */

typedef struct sia_schedule {
    sia_schedule_shape shape;
    int64_t steps, warmup;
    double cooldown; /* linear: the share of the steps; not used by the others */
} sia_schedule;

/* SIA_ARGUMENT when a field is out of its range, or when warm-up and cooldown overlap. */
sia_status sia_schedule_check(const sia_schedule *schedule, sia_error *err);

/* Of a schedule that passed the check; in 0 .. 1 for every step >= 0. */
double sia_schedule_factor(const sia_schedule *schedule, int64_t step);

#endif
