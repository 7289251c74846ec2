/* SPDX-License-Identifier: MIT
 *
 * The learning rate as a function of the step: see schedule.h for the equations. */
#include "optim/schedule.h"

#include <inttypes.h>
#include <math.h>

#include "base/error.h"

static const double PI = 3.14159265358979323846;

static int64_t cooldown_steps(const sia_schedule *s) {
    return s->shape == SIA_SCHEDULE_LINEAR ? llround(s->cooldown * (double)s->steps) : 0;
}

sia_status sia_schedule_check(const sia_schedule *s, sia_error *err) {
    if ((unsigned)s->shape >= SIA_SCHEDULES)
        return sia_fail(err, SIA_ARGUMENT, "schedule %d: there are %d", (int)s->shape, SIA_SCHEDULES);
    if (s->steps < 1) return sia_fail(err, SIA_ARGUMENT, "steps %" PRId64 ": want at least 1", s->steps);
    if (s->warmup < 0 || s->warmup > s->steps)
        return sia_fail(err, SIA_ARGUMENT, "warm-up of %" PRId64 " steps: want 0 to %" PRId64, s->warmup,
                        s->steps);
    if (s->shape != SIA_SCHEDULE_LINEAR) return SIA_OK;
    if (!(s->cooldown >= 0 && s->cooldown <= 1))
        return sia_fail(err, SIA_ARGUMENT, "cooldown %g: want a share of the steps, 0 to 1", s->cooldown);
    if (s->warmup > s->steps - cooldown_steps(s))
        return sia_fail(err, SIA_ARGUMENT,
                        "warm-up of %" PRId64 " and cooldown of %" PRId64 " steps: there are only %" PRId64,
                        s->warmup, cooldown_steps(s), s->steps);
    return SIA_OK;
}

double sia_schedule_factor(const sia_schedule *s, int64_t step) {
    if (step < s->warmup) return (double)(step + 1) / (double)s->warmup;
    if (s->shape == SIA_SCHEDULE_CONSTANT) return 1;
    if (step >= s->steps) return 0;
    if (s->shape == SIA_SCHEDULE_COSINE)
        return 0.5 * (1 + cos(PI * (double)(step - s->warmup) / (double)(s->steps - s->warmup)));
    int64_t cooldown = cooldown_steps(s), left = s->steps - step;
    return left < cooldown ? (double)left / (double)cooldown : 1;
}
