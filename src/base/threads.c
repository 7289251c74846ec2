/* SPDX-License-Identifier: MIT
 *
 * A pool of threads, made on first use. The caller is worker 0; helpers 1 .. n sleep between jobs. A job is
 * published by raising `generation`; every helper that the job wants checks in and out, and the caller leaves
 * when the last one is out. */
#define _GNU_SOURCE
#include "base/threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

/* How often a helper looks for work before it sleeps: about 20 microseconds, which covers the gap between the
 * phases of one call and costs nothing between calls. */
enum { SPINS = 4000 };

static struct {
    pthread_mutex_t owner; /* held by the caller whose job runs */
    pthread_mutex_t lock;  /* guards all below but the atomics */
    pthread_cond_t wake, done;
    pthread_t helper[SIA_MAX_THREADS];
    int index[SIA_MAX_THREADS]; /* what each helper is told to be */
    int helpers;
    bool quit;
    _Atomic unsigned generation;
    sia_task *run;
    void *context;
    int64_t tasks;
    int wanted; /* helpers with a smaller index take part */
    _Atomic int inside;
    _Atomic int64_t next;
} pool = {.owner = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

static inline void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void sia_threads_pause(int *patience) {
    if (++*patience < 100)
        cpu_relax();
    else
        (void)sched_yield();
}

void sia_threads_wait(_Atomic int64_t *counter, int64_t value) {
    int patience = 0;
    while (atomic_load_explicit(counter, memory_order_acquire) != value) sia_threads_pause(&patience);
}

/* The processors that this process may use, 0 if nobody says. The kernel refuses a set that is smaller than its own. */
static int processors(void) {
    for (int bits = CPU_SETSIZE; bits <= 1 << 20; bits *= 2) {
        size_t bytes = CPU_ALLOC_SIZE(bits);
        cpu_set_t *set = CPU_ALLOC(bits);
        if (!set) return 0;
        int result = sched_getaffinity(0, bytes, set), reason = errno;
        int count = result == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (result == 0 || reason != EINVAL) return count;
    }
    return 0;
}

int sia_threads_available(void) {
    int count = processors();
    return count < 1 ? 1 : count > SIA_MAX_THREADS ? SIA_MAX_THREADS : count;
}

static void work(int worker) {
    for (;;) {
        int64_t task = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed);
        if (task >= pool.tasks) return;
        pool.run(pool.context, task, worker);
    }
}

static void *helper_main(void *argument) {
    int index = *(const int *)argument;
    unsigned seen = 0;
    for (;;) {
        for (int spin = 0; spin < SPINS && atomic_load(&pool.generation) == seen; spin++) cpu_relax();
        pthread_mutex_lock(&pool.lock);
        while (atomic_load(&pool.generation) == seen && !pool.quit) pthread_cond_wait(&pool.wake, &pool.lock);
        bool quit = pool.quit;
        seen = atomic_load(&pool.generation);
        bool mine = index < pool.wanted;
        pthread_mutex_unlock(&pool.lock);
        if (quit) return NULL;
        if (!mine) continue;
        work(index + 1);
        if (atomic_fetch_sub(&pool.inside, 1) == 1) {
            pthread_mutex_lock(&pool.lock);
            pthread_cond_signal(&pool.done);
            pthread_mutex_unlock(&pool.lock);
        }
    }
}

/* A forked child has only the thread that forked: it starts a pool of its own when it needs one. */
static void forget_helpers(void) {
    pthread_mutex_init(&pool.owner, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.helpers = 0;
    atomic_store(&pool.generation, 0u);
    atomic_store(&pool.inside, 0);
}

static pthread_mutex_t locks[SIA_LOCKS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                           PTHREAD_MUTEX_INITIALIZER};

static void take_all(void) {
    for (int i = 0; i < SIA_LOCKS; i++) pthread_mutex_lock(&locks[i]);
}

static void leave_all(void) {
    for (int i = 0; i < SIA_LOCKS; i++) pthread_mutex_unlock(&locks[i]);
}

static void begin_child(void) {
    forget_helpers();
    leave_all();
}

static void watch_forks(void) { (void)pthread_atfork(take_all, leave_all, begin_child); }
static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;

void sia_lock_take(sia_lock which) {
    (void)pthread_once(&forks_watched, watch_forks);
    pthread_mutex_lock(&locks[which]);
}

void sia_lock_leave(sia_lock which) { pthread_mutex_unlock(&locks[which]); }

/* Kernels keep up to 256 KiB on the stack, which is more than some systems give a thread. */
static bool helper_attributes(pthread_attr_t *attributes) {
    enum { LEAST = 1 << 20 };
    size_t stack = 0;
    if (pthread_attr_init(attributes) != 0) return false;
    if (pthread_attr_getstacksize(attributes, &stack) == 0 && stack < LEAST)
        (void)pthread_attr_setstacksize(attributes, LEAST);
    return true;
}

/* Called with the lock held. Fewer helpers than wished is no error: the work gets done all the same. */
static void grow(int helpers) {
    pthread_attr_t attributes;
    if (pool.helpers >= helpers || !helper_attributes(&attributes)) return;
    for (int index = pool.helpers; index < helpers; index++) {
        pool.index[index] = index;
        if (pthread_create(&pool.helper[index], &attributes, helper_main, &pool.index[index]) != 0) break;
        pool.helpers++;
    }
    (void)pthread_attr_destroy(&attributes);
}

void sia_parallel(int threads, int64_t tasks, sia_task *run, void *context) {
    if (threads > tasks) threads = (int)tasks;
    if (threads > SIA_MAX_THREADS) threads = SIA_MAX_THREADS;
    if (threads > 1) (void)pthread_once(&forks_watched, watch_forks); /* before a lock is held */
    if (threads <= 1 || pthread_mutex_trylock(&pool.owner) != 0) {
        for (int64_t task = 0; task < tasks; task++) run(context, task, 0);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    grow(threads - 1);
    pool.run = run;
    pool.context = context;
    pool.tasks = tasks;
    pool.wanted = pool.helpers < threads - 1 ? pool.helpers : threads - 1;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.inside, pool.wanted);
    atomic_fetch_add(&pool.generation, 1u);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);

    work(0);
    for (int spin = 0; spin < SPINS && atomic_load(&pool.inside) != 0; spin++) cpu_relax();
    if (atomic_load(&pool.inside) != 0) {
        pthread_mutex_lock(&pool.lock);
        while (atomic_load(&pool.inside) != 0) pthread_cond_wait(&pool.done, &pool.lock);
        pthread_mutex_unlock(&pool.lock);
    }
    pthread_mutex_unlock(&pool.owner);
}

enum { NO_ROOM = -1 };

typedef struct groups {
    int threads;
    int64_t count, tasks;
    sia_task_group *state;
    sia_group_task *run;
    void *context;
} groups;

int64_t sia_group_rooms(int threads, int64_t count) { return threads < count ? threads : count; }

static void work_on_group(const groups *g, int64_t number, int worker) {
    sia_task_group *group = &g->state[number];
    for (;;) {
        int64_t task = atomic_fetch_add_explicit(&group->next, 1, memory_order_relaxed);
        if (task >= g->tasks) return;
        g->run(g->context, group, number, task, worker);
    }
}

/* A worker has one room for all groups that it begins: nobody helps while a group is not begun, so the one
 * before is done. */
static void begin_group(const groups *g, int64_t number, int worker) {
    int64_t room = NO_ROOM;
    /* Asked before it is tried: a try takes the line of the cache from those who are at the group. Either way what its
     * beginner did before, in the same room, is seen by those who help later. */
    if (atomic_load_explicit(&g->state[number].room, memory_order_acquire) == NO_ROOM &&
        atomic_compare_exchange_strong(&g->state[number].room, &room,
                                       g->threads < g->count ? worker : number))
        work_on_group(g, number, worker);
}

/* Its own groups are the same in every call: their data may still be in its core's cache. They are neighbours: a core
 * also fetches what lies beside its data, and what another core writes there goes back and forth. */
static void groups_worker(void *context, int64_t task, int worker) {
    (void)task;
    const groups *g = context;
    for (int64_t own = g->count * worker / g->threads; own < g->count * (worker + 1) / g->threads; own++)
        begin_group(g, own, worker);
    for (int64_t other = g->count - 1; other >= 0; other--) begin_group(g, other, worker);
    for (int64_t i = 0; i < g->count; i++) work_on_group(g, (worker + i) % g->count, worker);
}

void sia_parallel_groups(int threads, int64_t count, int64_t tasks, sia_task_group *state,
                         sia_group_task *run, void *context) {
    groups g = {
        .threads = threads, .count = count, .tasks = tasks, .state = state, .run = run, .context = context};
    for (int64_t i = 0; i < count; i++) {
        atomic_init(&state[i].next, 0);
        atomic_init(&state[i].room, NO_ROOM);
        atomic_init(&state[i].ready, 0);
    }
    int64_t most = count * tasks; /* no helper is woken for nothing */
    sia_parallel(threads, most < threads ? most : threads, groups_worker, &g);
}

/* So that the library can be unloaded, and leak checkers find nothing. */
__attribute__((destructor)) static void end_helpers(void) {
    pthread_mutex_lock(&pool.lock);
    pool.quit = true;
    pthread_cond_broadcast(&pool.wake);
    int helpers = pool.helpers;
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < helpers; i++) pthread_join(pool.helper[i], NULL);
}
