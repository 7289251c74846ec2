/* SPDX-License-Identifier: MIT
 *
 * The loss of a model on long windows of text, at any length: the same targets are scored whether a window is
 * read as one sequence or in parts (sia_windows in sia.h).
 *
 *     sia_validation v = {.windows = w, .length = 4096, .parts = 16};
 *     sia_validate(m, &v, &result, err);                                16 parts of 256 tokens of each window */
#ifndef SIA_MODEL_VALIDATION_H
#define SIA_MODEL_VALIDATION_H

#include "comm/comm.h"
#include "model/model.h"

typedef struct sia_validation {
    const sia_windows *windows;
    int64_t length; /* of a window, as they were created */
    int64_t parts;
    const char *scheme;     /* or NULL, the model's own. NTK and YaRN are fitted to length / parts */
    sia_type cache;         /* the type of the KV cache: f32 for figures that are compared */
    sia_progress *progress; /* or NULL; done is the share of the operations, 0 to 1 */
    void *progress_context;
    double *by_position; /* [length / parts] or NULL: mean losses over windows and parts */
    double *by_window;   /* [windows] or NULL: mean losses over a window */
    sia_comm *comm;      /* or NULL: the ranks take turns at the windows, and all get the result */
    int together; /* [1] so many neighbouring ranks divide each sequence among them; the cache is then f32 */
} sia_validation;

typedef struct sia_validation_result {
    double loss;  /* the mean over all targets */
    double error; /* its standard error, from the spread of the windows; 0 with one window */
    int64_t tokens;
} sia_validation_result;

/* SIA_STOPPED when progress says so. */
sia_status sia_validate(sia_model *m, const sia_validation *v, sia_validation_result *result, sia_error *err);

#endif
