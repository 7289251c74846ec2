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

/* The processors this process may use. */
int sia_threads_available(void);

/* For a task that waits on another: a pause that does not starve it when cores are few. */
void sia_threads_pause(int *patience);

/* Waits until the counter has that value; what was written before it got it can then be read. */
void sia_threads_wait(_Atomic int64_t *counter, int64_t value);

#endif
