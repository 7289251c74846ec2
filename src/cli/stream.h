/* SPDX-License-Identifier: MIT
 *
 * Input for commands that work as filters: the files that were named, one after another, or stdin when there
 * are none (or for "-").
 *
 *     cli_stream in;
 *     cli_stream_open(&in, path, err);
 *     while (!(status = cli_stream_fill(&in, err)) && in.used) {
 *         ... take some of in.bytes[0 .. in.used), all of it when in.end ...
 *         cli_stream_take(&in, taken);        what was not taken stays; the buffer grows when
 *     }                                       nothing was taken
 *     cli_stream_close(&in); */
#ifndef SIA_CLI_STREAM_H
#define SIA_CLI_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "sia.h"

typedef struct cli_stream {
    const char *name;
    int fd;
    char *bytes;
    size_t used, room;
    bool end;    /* nothing comes after bytes[0 .. used) */
    double read; /* bytes so far */
} cli_stream;

/* The size of a regular file, 0 for all else; to show progress. */
double cli_stream_size(const char *path);

/* Fails if out is the file that is read, under whatever name. */
sia_status cli_refuse_input(const char *out, const char *input, sia_error *err);

sia_status cli_stream_open(cli_stream *in, const char *path, sia_error *err);
sia_status cli_stream_fill(cli_stream *in, sia_error *err); /* SIA_STOPPED after Ctrl-C */
void cli_stream_take(cli_stream *in, size_t bytes);
void cli_stream_close(cli_stream *in);

#endif
