/* SPDX-License-Identifier: MIT
 *
 * Lines of results on their way out: to stdout, and into the folder that a report reads. */
#ifndef SIA_CLI_DELIVER_H
#define SIA_CLI_DELIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "sia.h"

/* On stdout if so wanted, and as a file of the folder, if there is one, whole or not at all; `tell` says on stderr that
 * it is written. */
typedef struct cli_lines {
    const char *lines;
    size_t size;
    const char *folder, *file;
    bool on_stdout, tell;
} cli_lines;

sia_status cli_deliver(const cli_lines *l, sia_error *err);

#endif
