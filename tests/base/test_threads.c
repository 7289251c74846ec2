/* SPDX-License-Identifier: MIT
 *
 * Threads: every task once, those of a group in order, rooms that no two groups have at the same time, and
 * help for a group that another worker has begun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/threads.h"

enum { MOST_GROUPS = 12, MOST_TASKS = 40, MOST_THREADS = 8 };

typedef struct record {
    int64_t groups, tasks, rooms;
    int threads;
    _Atomic int runs[MOST_GROUPS][MOST_TASKS];
    _Atomic int64_t inside[MOST_THREADS][MOST_GROUPS]; /* tasks of a group at work in a room */
    _Atomic int64_t wrong;
} record;

/* cmocka's checks are for the main thread: what is wrong is counted. */
static void expect(record *r, bool holds) {
    if (!holds) atomic_fetch_add(&r->wrong, 1);
}

/* The first half of the tasks prepare, the others wait for all of those: a lock-up would show here. */
static void count_task(void *context, sia_task_group *group, int64_t number, int64_t task, int worker) {
    record *r = context;
    int64_t room = atomic_load(&group->room), preparations = r->tasks / 2;
    expect(r, worker >= 0 && worker < r->threads);
    expect(r, room >= 0 && room < r->rooms);
    atomic_fetch_add(&r->inside[room][number], 1);
    for (int64_t other = 0; other < r->groups; other++)
        expect(r, other == number || atomic_load(&r->inside[room][other]) == 0);
    if (task < preparations)
        atomic_fetch_add(&group->ready, 1);
    else
        sia_threads_wait(&group->ready, preparations);
    atomic_fetch_add(&r->runs[number][task], 1);
    atomic_fetch_sub(&r->inside[room][number], 1);
}

static void runs_every_task_once(void **state) {
    (void)state;
    static record r;
    sia_task_group groups[MOST_GROUPS];
    for (int repeat = 0; repeat < 20; repeat++)
        for (int threads = 1; threads <= MOST_THREADS; threads++)
            for (int64_t count = 0; count <= MOST_GROUPS; count++) {
                memset(&r, 0, sizeof r);
                memset(groups, 0x55, sizeof groups); /* what a workspace holds */
                r.threads = threads;
                r.groups = count;
                r.tasks = count == 0 ? 0 : MOST_TASKS / count;
                r.rooms = sia_group_rooms(threads, count);
                sia_parallel_groups(threads, count, r.tasks, groups, count_task, &r);
                assert_int_equal(r.wrong, 0);
                for (int64_t g = 0; g < count; g++)
                    for (int64_t t = 0; t < r.tasks; t++) assert_int_equal(r.runs[g][t], 1);
            }
}

/* Two tasks of one group that wait for each other: only two workers can do that. */
static void meet(void *context, sia_task_group *group, int64_t number, int64_t task, int worker) {
    (void)context, (void)number, (void)task, (void)worker;
    atomic_fetch_add(&group->ready, 1);
    sia_threads_wait(&group->ready, 2);
}

static void workers_help_each_other(void **state) {
    (void)state;
    sia_task_group group;
    for (int repeat = 0; repeat < 100; repeat++) sia_parallel_groups(2, 1, 2, &group, meet, NULL);
}

/* A call from within a task is done by that task's worker alone. */
static void nested_task(void *context, int64_t task, int worker) {
    (void)worker;
    record *r = (record *)context + task;
    sia_task_group groups[4];
    sia_parallel_groups(4, 4, r->tasks, groups, count_task, r);
}

static void works_within_a_task(void **state) {
    (void)state;
    static record r[4];
    for (int i = 0; i < 4; i++) {
        r[i].groups = r[i].rooms = r[i].threads = 4;
        r[i].tasks = 10;
    }
    sia_parallel(4, 4, nested_task, r);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(r[i].wrong, 0);
        for (int64_t g = 0; g < 4; g++)
            for (int64_t t = 0; t < 10; t++) assert_int_equal(r[i].runs[g][t], 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_every_task_once),
                                       cmocka_unit_test(workers_help_each_other),
                                       cmocka_unit_test(works_within_a_task)};
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
