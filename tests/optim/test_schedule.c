/* SPDX-License-Identifier: MIT
 *
 * Schedules at their corners. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "optim/schedule.h"

static const struct {
    sia_schedule schedule;
    int64_t step;
    double factor;
} corners[] = {
    {{SIA_SCHEDULE_CONSTANT, 10, 0, 0.3}, 0, 1},
    {{SIA_SCHEDULE_CONSTANT, 10, 0, 0.3}, 9, 1},
    {{SIA_SCHEDULE_CONSTANT, 10, 4, 0}, 0, 0.25},
    {{SIA_SCHEDULE_CONSTANT, 10, 4, 0}, 3, 1},
    /* the tiny recipe: 350 steps, then 150 down */
    {{SIA_SCHEDULE_LINEAR, 500, 0, 0.3}, 0, 1},
    {{SIA_SCHEDULE_LINEAR, 500, 0, 0.3}, 349, 1},
    {{SIA_SCHEDULE_LINEAR, 500, 0, 0.3}, 350, 1},
    {{SIA_SCHEDULE_LINEAR, 500, 0, 0.3}, 351, 149.0 / 150},
    {{SIA_SCHEDULE_LINEAR, 500, 0, 0.3}, 499, 1.0 / 150},
    {{SIA_SCHEDULE_LINEAR, 500, 0, 0.3}, 500, 0},
    /* the paper's 162M: 3270 and 1308 */
    {{SIA_SCHEDULE_LINEAR, 4578, 0, 1308.0 / 4578}, 3270, 1},
    {{SIA_SCHEDULE_LINEAR, 4578, 0, 1308.0 / 4578}, 3271, 1307.0 / 1308},
    /* the needle's trapezoid */
    {{SIA_SCHEDULE_LINEAR, 300, 100, 1.0 / 3}, 0, 0.01},
    {{SIA_SCHEDULE_LINEAR, 300, 100, 1.0 / 3}, 49, 0.5},
    {{SIA_SCHEDULE_LINEAR, 300, 100, 1.0 / 3}, 99, 1},
    {{SIA_SCHEDULE_LINEAR, 300, 100, 1.0 / 3}, 150, 1},
    {{SIA_SCHEDULE_LINEAR, 300, 100, 1.0 / 3}, 200, 1},
    {{SIA_SCHEDULE_LINEAR, 300, 100, 1.0 / 3}, 250, 0.5},
    {{SIA_SCHEDULE_LINEAR, 300, 100, 1.0 / 3}, 299, 0.01},
    {{SIA_SCHEDULE_LINEAR, 10, 0, 0}, 9, 1},
    {{SIA_SCHEDULE_LINEAR, 10, 0, 0}, 10, 0},
    {{SIA_SCHEDULE_LINEAR, 10, 0, 1}, 0, 1},
    {{SIA_SCHEDULE_LINEAR, 10, 0, 1}, 9, 0.1},
    {{SIA_SCHEDULE_LINEAR, 1, 0, 0.3}, 0, 1},
    {{SIA_SCHEDULE_COSINE, 100, 0, 0}, 0, 1},
    {{SIA_SCHEDULE_COSINE, 100, 0, 0}, 50, 0.5},
    {{SIA_SCHEDULE_COSINE, 100, 0, 0}, 100, 0},
    {{SIA_SCHEDULE_COSINE, 120, 20, 0}, 19, 1},
    {{SIA_SCHEDULE_COSINE, 120, 20, 0}, 20, 1},
    {{SIA_SCHEDULE_COSINE, 120, 20, 0}, 70, 0.5},
    {{SIA_SCHEDULE_COSINE, 20, 20, 0}, 19, 1},
};

static void factors_at_corners(void **state) {
    (void)state;
    bool good = true;
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) {
        const sia_schedule *s = &corners[i].schedule;
        assert_int_equal(sia_schedule_check(s, NULL), SIA_OK);
        double factor = sia_schedule_factor(s, corners[i].step);
        if (fabs(factor - corners[i].factor) < 1e-12) continue;
        printf("shape %d, %lld steps, step %lld: %.15g, want %.15g: FAILED\n", (int)s->shape,
               (long long)s->steps, (long long)corners[i].step, factor, corners[i].factor);
        good = false;
    }
    assert_true(good);
}

/* Every step of every shape has a factor above 0, at most 1, that never rises after the warm-up. */
static void factors_in_range(void **state) {
    (void)state;
    for (int shape = 0; shape < SIA_SCHEDULES; shape++)
        for (int64_t steps = 1; steps < 60; steps++)
            for (int64_t warmup = 0; warmup <= steps / 2; warmup += 7) {
                sia_schedule s = {(sia_schedule_shape)shape, steps, warmup, 0.4};
                assert_int_equal(sia_schedule_check(&s, NULL), SIA_OK);
                double before = 1;
                for (int64_t step = 0; step < steps; step++) {
                    double factor = sia_schedule_factor(&s, step);
                    assert_true(factor > 0 && factor <= 1);
                    if (step >= warmup) assert_true(factor <= before);
                    before = step >= warmup ? factor : 1;
                }
            }
}

static void refusals(void **state) {
    (void)state;
    static const struct {
        sia_schedule schedule;
        const char *sentence;
    } bad[] = {
        {{SIA_SCHEDULE_LINEAR, 0, 0, 0.3}, "steps 0: want at least 1"},
        {{SIA_SCHEDULE_LINEAR, 10, -1, 0.3}, "warm-up of -1 steps: want 0 to 10"},
        {{SIA_SCHEDULE_COSINE, 10, 11, 0}, "warm-up of 11 steps: want 0 to 10"},
        {{SIA_SCHEDULE_LINEAR, 10, 0, 1.5}, "cooldown 1.5: want a share of the steps, 0 to 1"},
        {{SIA_SCHEDULE_LINEAR, 10, 0, -0.1}, "cooldown -0.1: want a share of the steps, 0 to 1"},
        {{SIA_SCHEDULE_LINEAR, 10, 0, NAN}, "cooldown nan: want a share of the steps, 0 to 1"},
        {{SIA_SCHEDULE_LINEAR, 10, 8, 0.3}, "warm-up of 8 and cooldown of 3 steps: there are only 10"},
        {{SIA_SCHEDULES, 10, 0, 0.3}, "schedule 3: there are 3"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sia_error err;
        assert_int_equal(sia_schedule_check(&bad[i].schedule, &err), SIA_ARGUMENT);
        assert_string_equal(err.text, bad[i].sentence);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_at_corners),
        cmocka_unit_test(factors_in_range),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
