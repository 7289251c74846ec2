/* SPDX-License-Identifier: MIT
 *
 * sia bench train under mpirun: steps on all ranks against steps of one process with the threads of all of them, in
 * the same rounds. */
#ifndef SIA_CLI_BENCH_RANKS_H
#define SIA_CLI_BENCH_RANKS_H

#include "cli/options.h"
#include "train/trainer.h"

typedef struct cli_bench_ranks {
    const char *preset;
    const sia_settings *settings;
    sia_fill_batch *fill; /* with the complete settings as its context */
    int threads;          /* of each rank */
    int together;         /* ranks of a sequence */
    int rounds;
    bool alone; /* compare with one process */
    bool json;
} cli_bench_ranks;

/* Every rank calls; rank 0 prints. CLI_DONE or an exit code. */
int cli_bench_on_ranks(const cli_bench_ranks *b);

#endif
