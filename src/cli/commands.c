/* SPDX-License-Identifier: MIT
 *
 * The table of the commands. */
#include "cli/commands.h"

#define ENTRY(name) &command_##name,
const cli_command *const cli_commands[] = {CLI_COMMANDS(ENTRY) NULL};
