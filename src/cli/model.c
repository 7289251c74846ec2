/* SPDX-License-Identifier: MIT
 *
 * A model and its tokenizer, from the path that a person names. */
#include "cli/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/folder.h"
#include "train/model_file.h"

bool cli_is_run(const char *path) {
    return sia_folder_exists(path) && !sia_folder_holds(path, "model.safetensors");
}

sia_status cli_model_open(cli_model *model, const char *path, const char *tokenizer, int threads,
                          sia_error *err) {
    *model = (cli_model){.path = path};
    sia_status status = sia_model_load(&model->m, path, threads, &model->step, &model->run, err);
    if (status) return status;
    if (tokenizer) return sia_tokenizer_open(&model->tokenizer, tokenizer, err);
    if (!model->run || !sia_folder_holds(model->run, "tokenizer.json")) return SIA_OK;
    char *beside = sia_folder_path(model->run, "tokenizer.json");
    status = beside ? sia_tokenizer_open(&model->tokenizer, beside, err)
                    : sia_fail_memory(err, strlen(model->run), "path");
    free(beside);
    return status;
}

void cli_model_close(cli_model *model) {
    sia_model_destroy(model->m);
    sia_tokenizer_close(model->tokenizer);
    free(model->run);
    *model = (cli_model){0};
}
