/* SPDX-License-Identifier: MIT
 *
 * The commands in the order in which 'sia --help' lists them. */
#include "cli/commands.h"

const cli_command *const cli_commands[] = {
    &command_bench_attention,
    &command_info,
    NULL,
};
