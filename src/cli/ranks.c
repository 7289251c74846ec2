/* SPDX-License-Identifier: MIT
 *
 * The start and the end of a job of several ranks; see ranks.h. */
#define _GNU_SOURCE
#include "cli/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "cli/progress.h"
#include "comm/comm_mpi.h"

static struct {
    sia_comm *comm;
    bool started, alone; /* alone: a failure that other ranks have not heard of */
} ranks;

sia_comm *cli_ranks(void) { return ranks.comm; }

bool cli_first_rank(void) {
    if (ranks.comm) return sia_comm_rank(ranks.comm) == 0;
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        /* Slurm's is in a batch script, too, where there is one process. */
        if (strcmp(names[i], "SLURM_PROCID") == 0 && sia_launched() == 1) continue;
        const char *rank = getenv(names[i]);
        if (rank) return strtol(rank, NULL, 10) == 0;
    }
    return true;
}

bool cli_ranks_tell(char prefix[32]) {
    prefix[0] = 0;
    if (sia_comm_size(ranks.comm) == 1) {
        if (cli_first_rank() || sia_launched() == 1) return true;
        /* Processes that do not know of each other: the end of this one must not be that of the one that tells. */
        (void)nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        return false;
    }
    if (sia_comm_agreed(ranks.comm)) return cli_first_rank();
    ranks.alone = true;
    /* Often all ranks have met the same, on their own: a wrong option. Then rank 0 tells it, and ends the job before the
     * others do. */
    if (!cli_first_rank() && nanosleep(&(struct timespec){.tv_sec = 5}, NULL) != 0) return false;
    (void)snprintf(prefix, 32, "rank %d: ", sia_comm_rank(ranks.comm));
    return true;
}

/* The program file itself, where the system shows it. */
static sia_status same_build(sia_error *err) {
    char text[256], sum[SIA_SHA256_TEXT] = "", *bytes = NULL;
    size_t size;
    if (sia_file_read("/proc/self/exe", (size_t)1 << 30, &bytes, &size, NULL) == SIA_OK)
        (void)sia_sha256(bytes, size, sum);
    free(bytes);
    (void)snprintf(text, sizeof text, "%s %s %s", sia_version(), __VERSION__, sum);
    return sia_comm_same(ranks.comm, "build of the program", text, err);
}

/* One command on all ranks, which all could read. */
static sia_status same_command(const cli_args *args, int code, const char *sentence, sia_error *err) {
    char *choices = cli_choices(args);
    sia_status status = choices ? SIA_OK : sia_fail_memory(err, 4096, "options");
    if (code) status = sia_fail(err, SIA_ARGUMENT, "%s", sentence);
    status = sia_comm_agree(ranks.comm, status, err);
    if (!status) status = sia_comm_same(ranks.comm, "command line", choices, err);
    free(choices);
    return status;
}

int cli_ranks_start(const cli_args *args, int code, const char *sentence) {
    sia_error err;
    sia_status status = sia_mpi_start(&ranks.comm, (double)cli_int(args, "timeout"), &err);
    ranks.started = true;
    if (!status && sia_comm_size(ranks.comm) > 1) {
        status = same_build(&err);
        if (!status) status = same_command(args, code, sentence, &err);
    }
    if (code && cli_first_rank()) return code; /* which it has told */
    if (status) return cli_fail(&err);
    if (code) return code;
    if (cli_first_rank()) return CLI_DONE;
    /* Results are rank 0's to print; stderr stays open for what goes wrong. */
    cli_progress_silence();
    if (!freopen("/dev/null", "w", stdout)) perror("sia: /dev/null");
    return CLI_DONE;
}

int cli_ranks_end(int code) {
    if (!ranks.started) return code;
    (void)fflush(NULL);
    sia_mpi_end(ranks.comm, !ranks.alone, code);
    ranks.comm = NULL;
    return code;
}
