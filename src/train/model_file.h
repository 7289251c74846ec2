/* SPDX-License-Identifier: MIT
 *
 * A model's weights in files: the tables that checkpoints want, and models from runs. */
#ifndef SIA_TRAIN_MODEL_FILE_H
#define SIA_TRAIN_MODEL_FILE_H

#include "model/model.h"
#include "train/checkpoint.h"

/* The model's tensors as a table, freed with sia_free; NULL when there is no memory. */
sia_tensor_entry *sia_model_entries(const sia_model *m);

/* Where a model came from. */
typedef struct sia_loaded {
    int64_t step;
    char *run;     /* the folder of its run, or the one that the file is in; freed with free */
    char *skipped; /* what is wrong with a newer checkpoint, a sentence, or NULL; freed with free */
} sia_loaded;

/* A model with the weights of a checkpoint. path: the folder of a run (its newest checkpoint that is whole), of a
 * checkpoint, whatever its name is, or a model.safetensors. loaded may be NULL. */
sia_status sia_model_load(sia_model **m, const char *path, int threads, sia_loaded *loaded, sia_error *err);

/* Which tokenizer text is to be read with for the model of such a path: the tokenizer.json of its run; where there is
 * none, the one that is named (NULL: none). Freed with free. To name another one than the run's is SIA_ARGUMENT: the
 * same numbers would mean other texts. */
sia_status sia_model_tokenizer(const char *path, const char *named, char **tokenizer, sia_error *err);

#endif
