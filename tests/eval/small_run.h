/* SPDX-License-Identifier: MIT
 *
 * The folder of a run without its training: a model with every weight drawn, saved as a checkpoint, with its
 * tokenizer beside it. */
#ifndef SIA_TESTS_SMALL_RUN_H
#define SIA_TESTS_SMALL_RUN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/random.h"
#include "train/checkpoint.h"
#include "train/model_file.h"

/* What starts at 0 would make every logit 0. */
static inline void draw_weights(sia_model *m, float size) {
    for (int i = 0; i < sia_model_tensors(m); i++) {
        sia_tensor t = sia_model_tensor(m, i);
        for (int64_t j = 0; j < t.rows * t.columns; j++)
            if (t.value[j] == 0) t.value[j] = size * (float)sia_random_normal((uint64_t)i, (uint64_t)j);
    }
}

static inline sia_status save_run(const char *folder, const sia_model *m, const sia_tokenizer *tokenizer,
                                  sia_error *err) {
    sia_run *run;
    sia_status status = sia_run_open(&run, folder, err);
    if (status) return status;
    sia_tensor_entry *entries = sia_model_entries(m);
    json_t *json = sia_model_config_json(sia_model_settings(m));
    char *text = json_dumps(json, 0), *path = sia_path_join(folder, "tokenizer.json");
    status = sia_checkpoint_save(run, 7, &(sia_tensor_table){entries, sia_model_tensors(m)}, NULL,
                                 &(sia_pair){"model", text}, 1, 0, err);
    if (!status && tokenizer) status = sia_tokenizer_save(tokenizer, path, err);
    free(path);
    free(text);
    json_decref(json);
    sia_free(entries);
    sia_run_close(run);
    return status;
}

#endif
