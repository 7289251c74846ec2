/* SPDX-License-Identifier: MIT
 *
 * The model that a command is given, with the tokenizer beside it. */
#ifndef SIA_CLI_MODEL_H
#define SIA_CLI_MODEL_H

#include <stdbool.h>

#include "sia.h"

typedef struct cli_model {
    const char *path; /* as it was named */
    sia_model *m;
    int64_t step;
    char *run;                /* the folder of its run, or the one that the file is in */
    sia_tokenizer *tokenizer; /* NULL when there is none */
} cli_model;

/* Whether a path is the folder of a run, not of one checkpoint. */
bool cli_is_run(const char *path);

/* tokenizer: a path, or NULL for the run's own. */
sia_status cli_model_open(cli_model *model, const char *path, const char *tokenizer, int threads,
                          sia_error *err);
void cli_model_close(cli_model *model); /* also after an open that failed */

#endif
