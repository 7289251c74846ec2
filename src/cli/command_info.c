/* SPDX-License-Identifier: MIT
 *
 * sia info: what this build is, and what it found on this machine. */
#include "cli/commands.h"

#include <stdio.h>

#include "base/threads.h"
#include "cli/layout.h"
#include "cli/machine.h"
#include "comm/comm_mpi.h"
#include "kernel/kernel.h"

/* A name, and words that flow beside it. */
static cli_flow start_list(const char *name) {
    enum { INDENT = 11 };
    printf("%-*s", INDENT, name);
    return (cli_flow){.stream = stdout, .column = INDENT, .indent = INDENT, .width = CLI_COLUMNS};
}

static int run(const cli_args *args) {
    (void)args;
    sia_error err;
    if (sia_kernel_check(&err)) return cli_fail(&err);
    printf("sia        %s\n", sia_version());
    printf("compiler   %s\n", CLI_COMPILER);
    printf("kernels    %s\n", sia_isa());
    cli_flow flow = start_list("available");
    for (int i = 0; sia_kernel_table[i]; i++) {
        cli_flow_words(&flow, sia_kernel_table[i]->name);
        if (!sia_kernel_table[i]->supported()) cli_flow_words(&flow, "(not on this processor)");
    }
    cli_flow_end(&flow);
    printf("threads    %d\n", sia_threads_available());
    printf("MPI        %s\n", sia_mpi_library());
    flow = start_list("schemes");
    for (const char *const *name = sia_scheme_list(); *name; name++) cli_flow_words(&flow, *name);
    cli_flow_end(&flow);
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
