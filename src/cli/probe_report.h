/* SPDX-License-Identifier: MIT
 *
 * What `sia probe` says: a few tables for people, lines of JSON for the report. */
#ifndef SIA_CLI_PROBE_REPORT_H
#define SIA_CLI_PROBE_REPORT_H

#include <stdio.h>

#include "eval/probe.h"

/* A model that was looked at. */
typedef struct probe_subject {
    const char *path;   /* as it was named */
    const char *scheme; /* that its attention was computed by */
    const char *data;
    int64_t step;
    const sia_model_config *config;
    const sia_probe *probe;
} probe_subject;

void probe_print(FILE *to, const probe_subject *subject);

/* The first line: how it was called, and where; then those of each model. */
sia_status probe_write_study(FILE *stream, const char *command, const char *data, int threads,
                             sia_error *err);
sia_status probe_write(FILE *stream, const probe_subject *subject, sia_error *err);

#endif
