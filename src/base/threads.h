/* SPDX-License-Identifier: MIT
 *
 * One way to use several cores: numbered tasks, claimed in order.
 *
 *     sia_parallel(threads, tasks, run, &context);     calls run(&context, task, worker), 0 <= task < tasks
 *
 * Tasks are started in ascending order, so a task may wait for one with a smaller number. What a task writes
 * must not depend on the worker that runs it: then results are the same for any number of threads.
 *
 * Why not OpenMP: a process that forks after its first parallel region hangs in libgomp, and the thread
 * sanitizer cannot see libgomp's synchronisation. This is small, and both work. */
#ifndef SIA_BASE_THREADS_H
#define SIA_BASE_THREADS_H

#include <stdint.h>

enum { SIA_MAX_THREADS = 1024 };

typedef void sia_task(void *context, int64_t task, int worker);

/* Returns when every task has run. worker < threads. Called from a task, or while another thread of the
 * program is in here, it runs the tasks on the calling thread. */
void sia_parallel(int threads, int64_t tasks, sia_task *run, void *context);

/* Tasks in groups that share something, such as keys packed by the first of them. A worker takes whole groups,
 * its own and then any that nobody has begun, so that what a group shares stays in its core's cache; in the end
 * it helps with those that others have begun. Tasks of a group are started in ascending order, so a task may
 * wait for one of its group with a smaller number.
 *
 * A group has a room while its tasks run, 0 <= room < sia_group_rooms(threads, groups), for what it shares. */
typedef struct sia_task_group {
    _Atomic int64_t next;  /* the task that is started next */
    _Atomic int64_t room;  /* negative: not begun */
    _Atomic int64_t ready; /* 0 at the start; for the tasks to count what others wait for */
    char line[40];         /* to a line of the cache: each worker is at another group */
} sia_task_group;

typedef void sia_group_task(void *context, sia_task_group *group, int64_t number, int64_t task, int worker);

int64_t sia_group_rooms(int threads, int64_t groups);

/* Calls run(context, &state[group], group, task, worker) for 0 <= group < groups and 0 <= task < tasks. The
 * caller lends `state`, one for each group, in any condition. */
void sia_parallel_groups(int threads, int64_t groups, int64_t tasks, sia_task_group *state,
                         sia_group_task *run, void *context);

/* Locks for what all threads of a program share, each held for a short time by code that calls nothing of the caller's.
 * A fork takes them all: the child has the forking thread alone, and finds them free and what they guard whole. No
 * thread takes one while it holds another. */
typedef enum sia_lock {
    SIA_LOCK_ENCODERS, /* of tokenizers, that no call uses now */
    SIA_LOCK_CLASSES,  /* of characters, while they are learnt */
    SIA_LOCK_PANELS,   /* of models, while they are packed for a session */
    SIA_LOCKS
} sia_lock;
void sia_lock_take(sia_lock which);
void sia_lock_leave(sia_lock which);

/* The processors this process may use. */
int sia_threads_available(void);

/* For a task that waits on another: a pause that does not starve it when cores are few. */
void sia_threads_pause(int *patience);

/* Waits until the counter has that value; what was written before it got it can then be read. */
void sia_threads_wait(_Atomic int64_t *counter, int64_t value);

#endif
