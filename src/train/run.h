/* SPDX-License-Identifier: MIT
 *
 * The folder of a run:
 *
 *     config.json  tokenizer.json  metrics.jsonl  eval.jsonl  step-000500/{model,optimizer}.safetensors  lock
 *
 *     sia_run *run;
 *     if (sia_run_open(&run, "runs/si", err)) return err->status;     SIA_BUSY: another process is at work there
 *     status = sia_run_rewind(run, 500, err);                         when it continues from step 500
 *     status = sia_run_append(run, SIA_RUN_METRICS, "{\"step\": 501, \"loss\": 3.25}", err);
 *     sia_run_close(run);
 *
 * One process writes into a run; any number may read its checkpoints (train/checkpoint.h) and its logs. */
#ifndef SIA_TRAIN_RUN_H
#define SIA_TRAIN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "sia.h"

typedef struct sia_run sia_run;

/* The logs: a JSON object on each line. */
typedef enum sia_run_log {
    SIA_RUN_METRICS,
    SIA_RUN_EVAL,
    SIA_RUN_COMPARE,
    SIA_RUN_NEEDLE,
    SIA_RUN_LOGS
} sia_run_log;

/* Opens a folder for writing, and makes it, and those above it, where they are absent. Refused are one in which a
 * name that is written to is a link, and one that is no run and no study but has such a name in it: that is a
 * person's. Takes the lock, which is the first file in a folder of ours and ends with the process however that ends;
 * then removes what a killed process left: temporary names, and the part of a line at the end of a log.
 *
 * The lock's file stays, unless it was new and nothing else was written until sia_run_close: then it goes again. */
sia_status sia_run_open(sia_run **run, const char *folder, sia_error *err);
void sia_run_close(sia_run *run); /* NULL is fine */

const char *sia_run_folder(const sia_run *run);

/* Appends a line, which has no line end of its own. It is there as a whole or not at all, on a full disk too.
 * It outlives the process at once, and a power failure after the next sia_run_sync; a checkpoint calls that,
 * so that the log of a run which goes on from a checkpoint has every step up to it. */
sia_status sia_run_append(sia_run *run, sia_run_log log, const char *line, sia_error *err);
sia_status sia_run_sync(sia_run *run, sia_error *err);

/* Several lines that belong together, with line ends between them: after a failure none of them is there. */
sia_status sia_run_append_lines(sia_run *run, sia_run_log log, const char *lines, sia_error *err);

/* Drops the lines whose "step" is larger than this from all logs, so that a run which goes on from there
 * has no step twice. A line without a step stays; one that is not a JSON object is SIA_FORMAT. */
sia_status sia_run_rewind(sia_run *run, int64_t step, sia_error *err);

#endif
