/* SPDX-License-Identifier: MIT
 *
 * sia info: what this build is, and what it found on this machine. */
#include "cli/commands.h"

#include <stdio.h>

#include "base/threads.h"
#include "cli/machine.h"
#include "comm/comm_mpi.h"
#include "kernel/kernel.h"

static int run(const cli_args *args) {
    (void)args;
    sia_error err;
    if (sia_kernel_check(&err)) return cli_fail(&err);
    printf("sia        %s\n", sia_version());
    printf("compiler   %s\n", CLI_COMPILER);
    printf("kernels    %s\n", sia_isa());
    printf("available ");
    for (int i = 0; sia_kernel_table[i]; i++)
        printf(" %s%s", sia_kernel_table[i]->name,
               sia_kernel_table[i]->supported() ? "" : " (not on this processor)");
    printf("\nthreads    %d\n", sia_threads_available());
    printf("MPI        %s\n", sia_mpi_library());
    printf("schemes   ");
    for (const char *const *name = sia_scheme_list(); *name; name++) printf(" %s", *name);
    putchar('\n');
    return CLI_DONE;
}

static const cli_option options[] = {{0}};

const cli_command command_info = {
    .name = "info",
    .summary = "What this build is, and what it found on this machine",
    .examples = "  sia info\n  SIA_ISA=baseline sia info      the plain kernels, for a comparison\n",
    .options = options,
    .run = run,
};
