/* SPDX-License-Identifier: MIT
 *
 * The machine and the build, for the results of studies; what this process has taken of it. */
#ifndef SIA_CLI_MACHINE_H
#define SIA_CLI_MACHINE_H

#include <jansson.h>

#if defined(__clang__)
#    define CLI_COMPILER __VERSION__ /* names itself */
#else
#    define CLI_COMPILER "gcc " __VERSION__
#endif

/* {"processor", "isa", "threads", "compiler"}; NULL without memory. threads: 0 for all. */
json_t *cli_machine_json(int threads);

/* The most memory that this process has had, and the processor time of all its threads. */
double cli_peak_megabytes(void);
double cli_process_seconds(void);

#endif
