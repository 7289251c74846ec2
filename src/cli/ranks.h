/* SPDX-License-Identifier: MIT
 *
 * The program as one rank of several, under mpirun or srun. A command that can be divided says so in its table
 * (.ranks), and finds its ranks here; for every other command, and for a process that was started by itself, there is
 * one.
 *
 *     job.comm = cli_ranks();
 *     if (!quiet && cli_first_rank()) fprintf(stderr, ...);         one rank speaks
 *
 * What all ranks agreed on is told once, by rank 0. What only one knows, that one tells, and the job ends. */
#ifndef SIA_CLI_RANKS_H
#define SIA_CLI_RANKS_H

#include "cli/options.h"
#include "comm/comm.h"

/* clang-format off */
#define CLI_RANK_OPTIONS                                                                                          \
    {"timeout", CLI_INT, "S", "1800", "under mpirun: seconds that a rank may be silent before the job ends", 1, 1e7}

/* And for commands that can divide a sequence. */
#define CLI_CONTEXT_OPTIONS                                                                                       \
    {"context-parallel", CLI_INT, "R", "1", "so many ranks divide each sequence among them", 1, 65536}
/* clang-format on */

/* Starts MPI where a launcher started us; refuses ranks of different builds, and ranks that were called for something
 * else. code: what parsing came to, with the sentence of a failure: if it failed on any rank, no rank goes on.
 * Returns CLI_DONE or an exit code. */
int cli_ranks_start(const cli_args *args, int code, const char *sentence);

/* The last call of the program: ends the job, and returns the exit code. */
int cli_ranks_end(int code);

sia_comm *cli_ranks(void); /* NULL: one process */
bool cli_first_rank(void); /* before the start: as the launcher's environment says */

/* Whether a failure is this rank's to tell; prefix: "rank 3: " or "". Notes a failure that the others do not know. */
bool cli_ranks_tell(char prefix[32]);

#endif
