/* SPDX-License-Identifier: MIT
 *
 * Checkpoints: RUN/step-000500/model.safetensors and optimizer.safetensors, whole or absent.
 *
 * Saving:
 *
 *     sia_tensor_entry model[] = {{"embedding.weight", embedding, 2, {50257, 768}}, ...}, optimizer[] = {...};
 *     sia_pair metadata[] = {{"model", json}, {"tokens", "65536000"}};
 *     status = sia_checkpoint_save(run, 500, &(sia_tensor_table){model, 12}, &(sia_tensor_table){optimizer, 24},
 *                                  metadata, 2, 3, err);                         keeps the last 3
 *
 * Loading: the metadata comes first, for it says which tensors there have to be.
 *
 *     static sia_status take(void *context, const sia_checkpoint *c, sia_error *err) {
 *         ... sia_safetensors_metadata(sia_checkpoint_model(c), "model") ...
 *         return sia_checkpoint_read(c, &model, &optimizer, err);
 *     }
 *     status = sia_checkpoint_newest("runs/si", false, take, context, &skipped, err);
 */
#ifndef SIA_TRAIN_CHECKPOINT_H
#define SIA_TRAIN_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "sia.h"
#include "base/safetensors.h"
#include "train/run.h"

enum { SIA_TENSOR_ENTRY_DIMS = 4 };

/* A float32 tensor, row-major, by its name in the file. Saving reads data, loading writes it. */
typedef struct sia_tensor_entry {
    const char *name;
    float *data;
    int dims;
    int64_t shape[SIA_TENSOR_ENTRY_DIMS];
} sia_tensor_entry;

typedef struct sia_tensor_table {
    const sia_tensor_entry *entries;
    int64_t count;
} sia_tensor_table;

typedef struct sia_pair {
    const char *key, *value;
} sia_pair;

/* --------------------------------------------------------------------------------------------------- saving */

/* Writes both files, each with the metadata and "step"; replaces a checkpoint of the same step. On failure
 * (a full disk) all checkpoints are as they were, and nothing half-written stays. After success the oldest
 * beyond `keep` are removed, never this one; keep 0 keeps all. optimizer may be NULL: an empty file. */
sia_status sia_checkpoint_save(sia_run *run, int64_t step, const sia_tensor_table *model,
                               const sia_tensor_table *optimizer, const sia_pair *metadata, int64_t pairs,
                               int64_t keep, sia_error *err);

/* Removes the checkpoints of larger steps: a run that goes on from an older one leaves them behind. And
 * those beyond `keep`, which a save that was stopped after its success may have left. */
sia_status sia_checkpoint_rewind(sia_run *run, int64_t step, int64_t keep, sia_error *err);

/* -------------------------------------------------------------------------------------------------- loading */

/* The steps of the checkpoints of a run's folder in rising order, by number. Freed with free; NULL for none. */
sia_status sia_checkpoint_list(const char *folder, int64_t **steps, int64_t *count, sia_error *err);

/* The step of "step-000500", -1 for a name that no checkpoint has. */
int64_t sia_checkpoint_step_of(const char *name);

typedef struct sia_checkpoint sia_checkpoint;

/* Maps and checks both files: every byte has its place, both are of the step that their folder names. A
 * damaged checkpoint is SIA_FORMAT or SIA_FILE with a sentence that says which file and why. With model_only the
 * optimiser's file is not looked at, and may be absent. */
sia_status sia_checkpoint_open(sia_checkpoint **c, const char *folder, int64_t step, bool model_only,
                               sia_error *err);
void sia_checkpoint_close(sia_checkpoint *c); /* NULL is fine */

/* Reads a checkpoint that was opened; SIA_FORMAT when it does not hold what it should. */
typedef sia_status sia_checkpoint_take(void *context, const sia_checkpoint *c, sia_error *err);

/* Opens checkpoints from the newest on until one is taken. Those that are damaged, or not taken with SIA_FORMAT, are
 * passed over; every other failure ends it, and so does one that a newer version wrote, which is not damaged. *skipped
 * becomes what was wrong with the newest, a sentence for a person, freed with free, or NULL. */
sia_status sia_checkpoint_newest(const char *folder, bool model_only, sia_checkpoint_take *take,
                                 void *context, char **skipped, sia_error *err);

const sia_safetensors *sia_checkpoint_model(const sia_checkpoint *c); /* the model's file, and its path */
const char *sia_checkpoint_path(const sia_checkpoint *c);
int64_t sia_checkpoint_step(const sia_checkpoint *c);

/* Copies the tensors. Both files must hold the tensors of their table, no more, no fewer, each a float32
 * of the table's shape; else SIA_FORMAT, and no data was touched. A file that someone cuts meanwhile is
 * SIA_FILE, and the data is of no use then. A NULL table leaves its file unread. */
sia_status sia_checkpoint_read(const sia_checkpoint *c, const sia_tensor_table *model,
                               const sia_tensor_table *optimizer, sia_error *err);

/* SIA_FORMAT for a file that a newer version than this one wrote, in another format. */
sia_status sia_format_check(const sia_safetensors *file, const char *path, sia_error *err);

/* The tensors of a file, all of the table and no others. */
sia_status sia_tensors_read(const sia_safetensors *file, const char *path, const sia_tensor_table *table,
                            sia_error *err);

#endif
