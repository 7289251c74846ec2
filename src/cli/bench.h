/* SPDX-License-Identifier: MIT
 *
 * What the commands `sia bench ...` share: figures over rounds, and the roofs of the machine that speeds are
 * compared with.
 *
 * Samples are taken in rounds: all of them once, then all again. Ratios are taken within a round and the
 * median over the rounds is shown, so that a machine that is slow for a while is slow for both sides of a
 * ratio. */
#ifndef SIA_CLI_BENCH_H
#define SIA_CLI_BENCH_H

#include "cli/options.h"

enum { CLI_MAX_ROUNDS = 101 };

/* ---------------------------------------------------------------------------------------------- figures */

typedef struct cli_quartiles {
    double low, median, high;
} cli_quartiles;

/* Of values[0 .. count), 1 <= count <= CLI_MAX_ROUNDS; between two values in proportion. */
cli_quartiles cli_quartiles_of(const double *values, int count);

/* The median over the rounds of scale * over[i] / under[i]; of scale / under[i] when over is NULL. */
double cli_median_ratio(const double *over, const double *under, double scale, int rounds);

/* "1 round", "3 rounds": what stands behind the word. */
static inline const char *cli_plural(int count) { return count == 1 ? "" : "s"; }

/* --threads, a list: the default is cut to what this process may use, and more than that is refused. But where there are
 * ranks, which may share a machine that only looks small to each of them, what was asked for is taken. */
int cli_thread_list(const cli_args *args, int64_t *threads, int *count);

/* ---------------------------------------------------------------------------------------------- roofs */

typedef struct cli_roofs cli_roofs;

/* Room for up to `threads` threads; for matrix products where they are wanted; for passes over read_bytes of
 * memory, which no cache should hold (0: none). sgemm only where there is cli_blas_get(). */
sia_status cli_roofs_create(cli_roofs **roofs, int threads, bool sgemm, size_t read_bytes, sia_error *err);
void cli_roofs_destroy(cli_roofs *roofs);

/* Multiply-adds in registers on `threads` threads at once, for about 3 ms: seconds, and the floating-point
 * operations that were done. */
double cli_fma_seconds(const cli_roofs *roofs, int threads);
double cli_fma_operations(const cli_roofs *roofs, int threads);

/* One product of CLI_SGEMM_M x _N x _K in OpenBLAS on each of `threads` threads: seconds. */
enum { CLI_SGEMM_M = 1024, CLI_SGEMM_N = 768, CLI_SGEMM_K = 768 };
double cli_sgemm_seconds(const cli_roofs *roofs, int threads);

/* A pass over the memory: seconds. */
double cli_read_seconds(const cli_roofs *roofs, int threads);
double cli_read_bytes(const cli_roofs *roofs);

/* How many instructions that do nothing a core takes in a cycle, the lowest of `threads` at a time: fewer when
 * another hardware thread shares its front end, in which case a kernel is slow for no fault of its own, while
 * the FMA peak hardly shows it. Takes about 40 microseconds. 0 where it is not known how. */
double cli_instructions_per_cycle(int threads);

/* A line of the cache to another core and back: seconds. 0 without a second thread. */
double cli_hand_over_seconds(void);

#endif
