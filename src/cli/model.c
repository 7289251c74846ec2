/* SPDX-License-Identifier: MIT
 *
 * A model and its tokenizer, from the path that a person names. */
#include "cli/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/path.h"
#include "cli/ranks.h"
#include "cli/show.h"
#include "train/model_file.h"

/* One that cannot be looked at is taken for a run: opening it will say why it is none. */
bool cli_is_run(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) return errno != ENOENT && errno != ENOTDIR;
    bool model;
    return S_ISDIR(about.st_mode) && (sia_folder_look(path, "model.safetensors", &model, NULL) || !model);
}

sia_status cli_model_open(cli_model *model, const char *path, const char *tokenizer, int threads,
                          sia_error *err) {
    *model = (cli_model){.path = path};
    sia_loaded loaded;
    sia_status status = sia_model_load(&model->m, path, threads, &loaded, err);
    if (status) return status;
    model->step = loaded.step;
    model->run = loaded.run;
    if (loaded.skipped && cli_first_rank())
        (void)fprintf(stderr, "sia: a checkpoint cannot be used: %s: step %lld is used\n",
                      cli_shown(loaded.skipped), (long long)loaded.step);
    free(loaded.skipped);
    char *used;
    status = sia_model_tokenizer(path, tokenizer, &used, err);
    if (!status && used) status = sia_tokenizer_open(&model->tokenizer, used, err);
    free(used);
    return status;
}

void cli_model_close(cli_model *model) {
    sia_model_destroy(model->m);
    sia_tokenizer_close(model->tokenizer);
    free(model->run);
    *model = (cli_model){0};
}
