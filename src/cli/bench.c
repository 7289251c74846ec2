/* SPDX-License-Identifier: MIT
 *
 * Figures, lists and roofs for `sia bench`. The roofs are those that a kernel meets: the rate of
 * multiply-adds when nothing leaves the registers, the rate of a matrix product in OpenBLAS, the rate at
 * which memory is read. All run on the same threads as the attention that is compared with them. */
#include "cli/bench.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"
#include "cli/blas.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/show.h"
#include "kernel/kernel.h"

/* ---------------------------------------------------------------------------------------------- figures */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int count, double share) {
    double place = share * (count - 1);
    int below = (int)place;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (place - below) * (sorted[below + 1] - sorted[below]);
}

cli_quartiles cli_quartiles_of(const double *values, int count) {
    double sorted[CLI_MAX_ROUNDS];
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return (cli_quartiles){quantile(sorted, count, 0.25), quantile(sorted, count, 0.5),
                           quantile(sorted, count, 0.75)};
}

double cli_median_ratio(const double *over, const double *under, double scale, int rounds) {
    double ratios[CLI_MAX_ROUNDS] = {0};
    for (int i = 0; i < rounds; i++) ratios[i] = scale * (over ? over[i] : 1) / under[i];
    return cli_quartiles_of(ratios, rounds).median;
}

int cli_thread_list(const cli_args *args, int64_t *threads, int *count) {
    int available = sia_threads_available(), given = 0;
    int code = cli_number_list(args, "threads", 1, SIA_MAX_THREADS, threads, &given);
    *count = 0;
    for (int i = 0; i < given && !code; i++) {
        bool asked = cli_given(args, "threads");
        if (threads[i] > available && asked && !cli_ranks())
            return cli_usage(args, "--threads %d: this process may use %d", (int)threads[i], available);
        if (threads[i] <= available || asked) threads[(*count)++] = threads[i];
    }
    return code;
}

/* ---------------------------------------------------------------------------------------------- roofs */

/* The work of one measurement is cut into several parts for each thread, which take them as they come: a
 * thread that is held up for a moment does not hold up the figure. */
enum { PEAK_PARTS = 8, READ_PARTS = 64 };
static const double peak_part_seconds = 400e-6;

struct cli_roofs {
    const sia_kernel *kernel;
    int64_t peak_rounds;    /* of a part */
    double peak_operations; /* of a part */
    float *memory;
    size_t read_bytes;
    float *matrices; /* a, b, c for each thread */
    const cli_blas *blas;
    int threads;
};

enum {
    SGEMM_A = CLI_SGEMM_M * CLI_SGEMM_K,
    SGEMM_B = CLI_SGEMM_K * CLI_SGEMM_N,
    SGEMM_C = CLI_SGEMM_M * CLI_SGEMM_N,
    SGEMM_FLOATS = SGEMM_A + SGEMM_B + SGEMM_C,
};

static void peak_task(void *context, int64_t task, int worker) {
    (void)task;
    (void)worker;
    const cli_roofs *roofs = context;
    (void)roofs->kernel->fma_peak(roofs->peak_rounds);
}

double cli_fma_seconds(const cli_roofs *roofs, int threads) {
    double started = cli_seconds();
    sia_parallel(threads, (int64_t)threads * PEAK_PARTS, peak_task, (void *)roofs);
    return cli_seconds() - started;
}

double cli_fma_operations(const cli_roofs *roofs, int threads) {
    return roofs->peak_operations * PEAK_PARTS * threads;
}

static void sgemm_task(void *context, int64_t task, int worker) {
    (void)worker;
    const cli_roofs *roofs = context;
    float *a = roofs->matrices + task * SGEMM_FLOATS, *b = a + SGEMM_A, *c = b + SGEMM_B;
    roofs->blas->multiply(CLI_SGEMM_M, CLI_SGEMM_N, CLI_SGEMM_K, a, b, c);
}

double cli_sgemm_seconds(const cli_roofs *roofs, int threads) {
    double started = cli_seconds();
    sia_parallel(threads, threads, sgemm_task, (void *)roofs);
    return cli_seconds() - started;
}

static void read_task(void *context, int64_t task, int worker) {
    (void)worker;
    const cli_roofs *roofs = context;
    int64_t floats = (int64_t)(roofs->read_bytes / sizeof(float) / READ_PARTS);
    volatile float sum = roofs->kernel->read_memory(roofs->memory + task * floats, floats);
    (void)sum;
}

double cli_read_seconds(const cli_roofs *roofs, int threads) {
    double started = cli_seconds();
    sia_parallel(threads, READ_PARTS, read_task, (void *)roofs);
    return cli_seconds() - started;
}

double cli_read_bytes(const cli_roofs *roofs) { return (double)roofs->read_bytes; }

#if defined(__x86_64__) || defined(__aarch64__)

#    define TEN(line) line line line line line line line line line line

/* Additions that wait for each other, one a cycle. */
static double chain_seconds(int64_t tens) {
    uint64_t sum = 0, one = 1;
    double started = cli_seconds();
    for (int64_t i = 0; i < tens; i++) {
#    if defined(__x86_64__)
        __asm__ volatile(TEN("add %1, %0\n\t") : "+r"(sum) : "r"(one));
#    else
        __asm__ volatile(TEN("add %0, %0, %1\n\t") : "+r"(sum) : "r"(one));
#    endif
    }
    return cli_seconds() - started;
}

static double nothing_seconds(int64_t hundreds) {
    double started = cli_seconds();
    for (int64_t i = 0; i < hundreds; i++) __asm__ volatile(TEN(TEN("nop\n\t")));
    return cli_seconds() - started;
}

/* The shortest of several chains: one that was interrupted would make a cycle too long, and a figure that no
 * other reaches. */
static double instructions_per_cycle(void) {
    enum { HUNDREDS = 800, CHAINS = 8, TENS = HUNDREDS * 10 / CHAINS };
    double cycle = INFINITY;
    for (int i = 0; i < CHAINS; i++) cycle = fmin(cycle, chain_seconds(TENS) / (TENS * 10));
    return cycle * HUNDREDS * 100 / fmax(nothing_seconds(HUNDREDS), 1e-9);
}

#else

static double instructions_per_cycle(void) { return 0; }

#endif

typedef struct instructions {
    int threads;
    _Atomic int here;
    double of_task[SIA_MAX_THREADS];
} instructions;

/* Tasks begin together, so that each has a thread of its own; one that waits in vain goes on. */
static void instructions_task(void *context, int64_t task, int worker) {
    (void)worker;
    instructions *all = context;
    atomic_fetch_add(&all->here, 1);
    double started = cli_seconds();
    while (atomic_load(&all->here) < all->threads && cli_seconds() - started < 1e-3) {
    }
    all->of_task[task] = instructions_per_cycle();
}

double cli_instructions_per_cycle(int threads) {
    instructions all = {.threads = threads < SIA_MAX_THREADS ? threads : SIA_MAX_THREADS};
    sia_parallel(all.threads, all.threads, instructions_task, &all);
    double least = all.of_task[0];
    for (int i = 1; i < all.threads; i++) least = fmin(least, all.of_task[i]);
    return least;
}

enum { TRIPS = 250, TRIES = 4, PATIENCE = 1 << 20 };

typedef struct hand_over {
    _Atomic int times;     /* that the line was handed on: task 0 has it when even, task 1 when odd */
    double seconds[TRIES]; /* of a trip; 0 when the other task did not come */
} hand_over;

/* One that waits in vain, for both tasks may run on one thread, gives up. */
static void hand_over_task(void *context, int64_t task, int worker) {
    (void)worker;
    hand_over *h = context;
    for (int attempt = 0, times = (int)task; attempt < TRIES; attempt++) {
        double started = cli_seconds();
        for (int trip = 0; trip < TRIPS; trip++, times += 2) {
            for (int i = 0; atomic_load(&h->times) != times; i++)
                if (i == PATIENCE) return;
            atomic_store(&h->times, times + 1);
        }
        if (task == 0) h->seconds[attempt] = (cli_seconds() - started) / TRIPS;
    }
}

double cli_hand_over_seconds(void) {
    hand_over h = {0};
    sia_parallel(2, 2, hand_over_task, &h);
    double least = h.seconds[0];
    for (int i = 1; i < TRIES; i++) least = fmin(least, h.seconds[i]);
    return least;
}

/* The first call warms the unit up; the fastest of the next few tells how many rounds make a part. */
static void calibrate_peak(cli_roofs *roofs) {
    const int64_t rounds = 10000;
    double best = 1;
    for (int i = 0; i < 20; i++) {
        double started = cli_seconds();
        (void)roofs->kernel->fma_peak(rounds);
        best = fmin(best, cli_seconds() - started);
    }
    double wanted = peak_part_seconds / fmax(best, 1e-9) * (double)rounds;
    roofs->peak_rounds = (int64_t)fmin(wanted, SIA_PEAK_ROUNDS - 1) + 1;
    roofs->peak_operations = roofs->kernel->fma_peak(roofs->peak_rounds);
}

sia_status cli_roofs_create(cli_roofs **out, int threads, bool sgemm, size_t read_bytes, sia_error *err) {
    cli_roofs *roofs = *out = calloc(1, sizeof *roofs);
    if (!roofs) return sia_fail_memory(err, sizeof *roofs, "roofs");
    roofs->kernel = sia_kernel_get();
    roofs->threads = threads;
    calibrate_peak(roofs);
    if (sgemm) {
        roofs->blas = cli_blas_get();
        int64_t floats = (int64_t)threads * SGEMM_FLOATS;
        roofs->matrices = sia_pages_map((size_t)floats * sizeof(float));
        if (!roofs->matrices) return sia_fail_memory(err, (size_t)floats * sizeof(float), "matrices");
        for (int64_t i = 0; i < floats; i++)
            roofs->matrices[i] = (float)(sia_random_uniform(1, (uint64_t)i) - 0.5);
    }
    if (read_bytes) {
        roofs->memory = sia_pages_map(read_bytes);
        if (!roofs->memory) return sia_fail_memory(err, read_bytes, "memory to read");
        roofs->read_bytes = read_bytes;
        /* Pages that were never written all read from one page of zeros, out of the cache. */
        for (size_t i = 0; i < read_bytes / sizeof(float); i++) roofs->memory[i] = 1;
    }
    return SIA_OK;
}

void cli_roofs_destroy(cli_roofs *roofs) {
    if (!roofs) return;
    sia_pages_unmap(roofs->memory, roofs->read_bytes);
    sia_pages_unmap(roofs->matrices, (size_t)roofs->threads * SGEMM_FLOATS * sizeof(float));
    free(roofs);
}
