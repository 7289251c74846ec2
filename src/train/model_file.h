/* SPDX-License-Identifier: MIT
 *
 * A model's weights in files: the tables that checkpoints want, and models from runs. */
#ifndef SIA_TRAIN_MODEL_FILE_H
#define SIA_TRAIN_MODEL_FILE_H

#include "model/model.h"
#include "train/checkpoint.h"

/* The model's tensors as a table, freed with sia_free; NULL when there is no memory. */
sia_tensor_entry *sia_model_entries(const sia_model *m);

/* A model with the weights of a checkpoint. *step, and the folder of the run (freed with free), may be NULL.
 * path: the folder of a run (its newest checkpoint that is whole), of a checkpoint, or a model.safetensors. */
sia_status sia_model_load(sia_model **m, const char *path, int threads, int64_t *step, char **run,
                          sia_error *err);

#endif
