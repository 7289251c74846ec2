/* SPDX-License-Identifier: MIT
 *
 * Models from files: the metadata says which model, and must fit the data before anything is allocated. */
#define _GNU_SOURCE
#include "train/model_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/folder.h"
#include "base/path.h"
#include "base/safetensors.h"
#include "text/tokenizer.h"

sia_tensor_entry *sia_model_entries(const sia_model *m) {
    int count = sia_model_tensors(m);
    sia_tensor_entry *entries = sia_alloc((size_t)count, sizeof *entries);
    for (int i = 0; entries && i < count; i++) {
        sia_tensor t = sia_model_tensor(m, i);
        bool vector = m->parameters.list[i].kind == SIA_KIND_LOGN;
        entries[i] = (sia_tensor_entry){.name = t.name, .data = t.value, .dims = vector ? 1 : 2};
        entries[i].shape[0] = vector ? t.columns : t.rows;
        entries[i].shape[1] = vector ? 0 : t.columns;
    }
    return entries;
}

static double data_bytes(const sia_safetensors *file) {
    double bytes = 0;
    for (int64_t i = 0; i < sia_safetensors_count(file); i++)
        bytes += (double)sia_safetensors_at(file, i)->bytes;
    return bytes;
}

/* The model that the metadata of a file describes; its weights are not read yet. A description alone costs nothing: it
 * has to fit the data that the file really holds. */
static sia_status model_of(sia_model **m, const sia_safetensors *file, const char *path, int threads,
                           sia_error *err) {
    const char *text = sia_safetensors_metadata(file, "model");
    sia_status status = sia_format_check(file, path, err);
    if (status) return status;
    if (!text) return sia_fail(err, SIA_FORMAT, "%s: its metadata has no 'model': not a model of sia", path);
    json_t *json;
    sia_model_config config = {0};
    sia_scheme scheme;
    json_error_t at;
    status = sia_json_load(&json, text, strlen(text), JSON_REJECT_DUPLICATES, &at);
    if (status == SIA_MEMORY) return sia_fail_memory(err, strlen(text), path);
    if (status) return sia_fail(err, SIA_FORMAT, "%s: the model in its metadata: %s", path, at.text);
    status = sia_model_config_read(&config, json, path, err);
    json_decref(json);
    if (status) return status;
    sia_error said;
    if (sia_model_config_complete(&config, &said))
        return sia_fail(err, SIA_FORMAT, "%s: %s", path, said.text);
    if (sia_scheme_parse(config.scheme, &scheme, &said))
        return sia_fail(err, said.status, "%s: %s", path, said.text);
    double wanted = sia_parameters_total(&config, scheme.row == SIA_ROW_LOGN) * sizeof(float);
    if (wanted != data_bytes(file))
        return sia_fail(err, SIA_FORMAT, "%s: its tensors have %.0f bytes, its model %.0f", path,
                        data_bytes(file), wanted);
    return sia_model_create_blank(m, &config, threads, err);
}

typedef struct loading {
    sia_model **m;
    int threads;
    sia_loaded *found;
} loading;

static sia_status take_model(void *context, const sia_checkpoint *c, sia_error *err) {
    loading *to = context;
    sia_status status = model_of(to->m, sia_checkpoint_model(c), sia_checkpoint_path(c), to->threads, err);
    sia_tensor_entry *entries = status ? NULL : sia_model_entries(*to->m);
    if (!status)
        status = entries ? sia_checkpoint_read(c, &(sia_tensor_table){entries, sia_model_tensors(*to->m)},
                                               NULL, err)
                         : sia_fail_memory(err, sizeof *entries, "model");
    sia_free(entries);
    to->found->step = sia_checkpoint_step(c);
    if (!status) return SIA_OK;
    sia_model_destroy(*to->m);
    *to->m = NULL;
    return status;
}

static sia_status copy_tensors(sia_model *m, const sia_safetensors *file, const char *path, sia_error *err) {
    sia_tensor_entry *entries = sia_model_entries(m);
    sia_status status =
        entries ? sia_tensors_read(file, path, &(sia_tensor_table){entries, sia_model_tensors(m)}, err)
                : sia_fail_memory(err, sizeof *entries, "model");
    sia_free(entries);
    return status;
}

static sia_status load_file(sia_model **m, const char *path, int threads, sia_loaded *loaded,
                            sia_error *err) {
    sia_safetensors *file;
    sia_status status = sia_safetensors_open(&file, path, err);
    if (status) return status;
    status = model_of(m, file, path, threads, err);
    if (!status) status = copy_tensors(*m, file, path, err);
    const char *number = sia_safetensors_metadata(file, "step");
    loaded->step = number ? strtoll(number, NULL, 10) : 0;
    sia_safetensors_close(file);
    return status;
}

/* The folder of the run that a file belongs to: RUN for RUN/step-000500/model.safetensors, else the folder
 * that it is in. */
static char *home_of_file(const char *path) {
    char *folder = sia_path_above(path);
    char *whole = folder ? realpath(folder, NULL) : NULL; /* "." has a name, too */
    size_t length;
    if (!whole || sia_checkpoint_step_of(sia_path_last(whole, &length)) < 0) {
        free(whole);
        return folder;
    }
    /* As it was named, where that tells. */
    bool named = sia_checkpoint_step_of(sia_path_last(folder, &length)) >= 0;
    char *run = sia_path_above(named ? folder : whole);
    free(folder);
    free(whole);
    return run;
}

/* What a path names: a run, or the file of a model, of which `file` is not NULL; and the folder of its run. */
static sia_status look_at(const char *path, char **file, char **run, sia_error *err) {
    *file = *run = NULL;
    struct stat info;
    if (stat(path, &info) != 0) return sia_fail_file(err, path);
    bool folder = S_ISDIR(info.st_mode), checkpoint = false; /* the folder of one, whatever its name is */
    sia_status status = folder ? sia_folder_look(path, "model.safetensors", &checkpoint, err) : SIA_OK;
    if (status) return status;
    if (folder && !checkpoint) {
        *run = strdup(path);
    } else {
        *file = checkpoint ? sia_path_join(path, "model.safetensors") : strdup(path);
        *run = *file ? home_of_file(*file) : NULL;
    }
    return *run ? SIA_OK : sia_fail_memory(err, strlen(path), path);
}

static sia_status refuse_another(const char *own, const char *named, sia_error *err) {
    sia_tokenizer *a = NULL, *b = NULL;
    sia_status status = sia_tokenizer_open(&a, own, err);
    if (!status) status = sia_tokenizer_open(&b, named, err);
    if (!status && !sia_tokenizer_same(a, b))
        status = sia_fail(err, SIA_ARGUMENT,
                          "%s: another tokenizer than %s, which the model was trained with", named, own);
    sia_tokenizer_close(a);
    sia_tokenizer_close(b);
    return status;
}

sia_status sia_model_tokenizer(const char *path, const char *named, char **tokenizer, sia_error *err) {
    char *file, *run, *own = NULL;
    bool there = false;
    *tokenizer = NULL;
    sia_status status = look_at(path, &file, &run, err);
    if (!status && !(own = sia_path_join(run, "tokenizer.json")))
        status = sia_fail_memory(err, strlen(run), "path");
    if (!status) status = sia_file_there(own, &there, err);
    if (!status && there && named) status = refuse_another(own, named, err);
    if (!status && there) {
        *tokenizer = own;
        own = NULL;
    } else if (!status && named && !(*tokenizer = strdup(named))) {
        status = sia_fail_memory(err, strlen(named), "path");
    }
    free(own);
    free(file);
    free(run);
    return status;
}

sia_status sia_model_load(sia_model **m, const char *path, int threads, sia_loaded *loaded, sia_error *err) {
    sia_loaded found = {0};
    if (loaded) *loaded = found;
    *m = NULL;
    char *file;
    sia_status status = look_at(path, &file, &found.run, err);
    loading newest = {m, threads, &found};
    if (!status && !file)
        status = sia_checkpoint_newest(path, true, take_model, &newest, &found.skipped, err);
    else if (!status)
        status = load_file(m, file, threads, &found, err);
    if (!status && loaded) {
        *loaded = found;
        found = (sia_loaded){0};
    }
    free(found.run);
    free(found.skipped);
    free(file);
    if (status) {
        sia_model_destroy(*m);
        *m = NULL;
    }
    return status;
}

sia_status sia_model_open(sia_model **m, const char *path, int threads, sia_error *err) {
    if (!m || !path)
        return sia_fail(err, SIA_ARGUMENT, "model: want a place for the result and a path, got NULL");
    return sia_model_load(m, path, threads, NULL, err);
}
