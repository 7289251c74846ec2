/* SPDX-License-Identifier: MIT
 *
 * What goes to a terminal and was not written by us: names of files and folders, texts of tokens, descriptions in a run's
 * config.json. An escape sequence in it must not reach the terminal.
 *
 *     fprintf(stderr, "%s: %lld steps\n", cli_shown(path), steps); */
#ifndef SIA_CLI_SHOW_H
#define SIA_CLI_SHOW_H

#include <jansson.h>
#include <stdio.h>

#include "sia.h"

/* text, harmless (base/harmless.h), at most 511 bytes of it; good until this thread has asked for eight
 * more. */
const char *cli_shown(const char *text);

/* Prints object as one line on stdout, six digits a number, and takes the reference. NULL (json_pack's answer
 * to a number that is not finite, or to no memory) is a failure. */
sia_status cli_json_line(json_t *object, sia_error *err);

/* The same for many lines, nine digits a number, until one fails:
 *
 *     cli_json_out out = {stream, SIA_OK, err};
 *     cli_json_put(&out, json_pack(...));
 *     cli_json_put(&out, json_pack(...));
 *     return out.status; */
typedef struct cli_json_out {
    FILE *stream;
    sia_status status;
    sia_error *err;
} cli_json_out;

void cli_json_put(cli_json_out *out, json_t *line);

#endif
