/* SPDX-License-Identifier: MIT
 *
 * Saves and loads checkpoints: see checkpoint.h. The files are written into a temporary folder beside the
 * others, which takes its name when both are on the disk (base/folder.h): there is no moment at which a kill
 * leaves one file of two, or a part of one, under a name that counts. */
#include "train/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/path.h"
#include "base/safetensors.h"

/* The files of a checkpoint. */
enum { MODEL, OPTIMIZER, FILES };
static const char *const file_names[FILES] = {"model.safetensors", "optimizer.safetensors"};

/* Steps are below 10^18, which every reader of an int64 can hold. */
#define STEP_MOST INT64_C(999999999999999999)

enum { STEP_NAME = 32 };

static void step_name(int64_t step, char name[STEP_NAME]) {
    (void)snprintf(name, STEP_NAME, "step-%06" PRId64, step);
}

/* Only the name that we would give it: "step-7", which a person may have made, is not a second step 7. */
int64_t sia_checkpoint_step_of(const char *name) {
    char again[STEP_NAME];
    if (strncmp(name, "step-", 5) != 0 || strlen(name) > 5 + 18) return -1;
    if (!name[5] || name[5 + strspn(name + 5, "0123456789")]) return -1;
    int64_t step = strtoll(name + 5, NULL, 10);
    step_name(step, again);
    return strcmp(name, again) == 0 ? step : -1;
}

/* RUN/step-000500, and a file in it for a name. */
static char *step_path(const char *folder, int64_t step, const char *file) {
    char name[2 * STEP_NAME];
    step_name(step, name);
    size_t used = strlen(name);
    if (file) (void)snprintf(name + used, sizeof name - used, "/%s", file);
    return sia_path_join(folder, name);
}

/* --------------------------------------------------------------------------------------------------- listing */

static int compare_steps(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

sia_status sia_checkpoint_list(const char *folder, int64_t **steps, int64_t *count, sia_error *err) {
    *steps = NULL;
    *count = 0;
    sia_names names;
    sia_status status = sia_folder_list(folder, &names, err);
    if (!status && names.count && !(*steps = malloc(names.count * sizeof **steps)))
        status = sia_fail_memory(err, names.count * sizeof **steps, folder);
    for (size_t i = 0; !status && i < names.count; i++) {
        int64_t step = sia_checkpoint_step_of(names.list[i]);
        if (step >= 0) (*steps)[(*count)++] = step;
    }
    sia_names_free(&names);
    if (*count) {
        qsort(*steps, (size_t)*count, sizeof **steps, compare_steps);
    } else {
        free(*steps);
        *steps = NULL;
    }
    return status;
}

/* ---------------------------------------------------------------------------------------------------- saving */

typedef struct contents {
    int64_t step, pairs;
    const sia_pair *metadata;
    const sia_tensor_table *tables[FILES];
} contents;

static sia_status check_dims(const sia_tensor_entry *e, sia_error *err) {
    if (e->dims >= 0 && e->dims <= SIA_TENSOR_ENTRY_DIMS) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT, "tensor \"%.100s\": %d dimensions: want 0 to %d", e->name, e->dims,
                    SIA_TENSOR_ENTRY_DIMS);
}

static size_t entry_bytes(const sia_tensor_entry *e) {
    size_t bytes = sizeof(float);
    for (int i = 0; i < e->dims; i++) bytes *= (size_t)e->shape[i];
    return bytes;
}

static sia_status declare_all(sia_safetensors_writer *w, const contents *c, const sia_tensor_table *table,
                              sia_error *err) {
    char step[STEP_NAME];
    (void)snprintf(step, sizeof step, "%" PRId64, c->step);
    sia_status status = sia_safetensors_describe(w, "step", step, err);
    for (int64_t i = 0; !status && i < c->pairs; i++)
        status = sia_safetensors_describe(w, c->metadata[i].key, c->metadata[i].value, err);
    for (int64_t i = 0; !status && table && i < table->count; i++) {
        const sia_tensor_entry *e = &table->entries[i];
        status = check_dims(e, err);
        if (!status) status = sia_safetensors_declare(w, e->name, SIA_DTYPE_F32, e->dims, e->shape, err);
    }
    return status;
}

static sia_status write_file(const char *path, const contents *c, const sia_tensor_table *table,
                             sia_error *err) {
    sia_safetensors_writer *w;
    sia_status status = sia_safetensors_create(&w, path, err);
    if (status) return status;
    status = declare_all(w, c, table, err);
    for (int64_t i = 0; !status && table && i < table->count; i++) {
        const sia_tensor_entry *e = &table->entries[i];
        status = sia_safetensors_write(w, e->name, e->data, entry_bytes(e), err);
    }
    if (!status) return sia_safetensors_finish(w, err);
    sia_safetensors_abandon(w);
    return status;
}

static sia_status write_folder(const char *path, const contents *c, sia_error *err) {
    sia_new_folder made;
    sia_status status = sia_folder_create(&made, path, err);
    if (status) return status;
    for (int i = 0; !status && i < FILES; i++) {
        char *file = sia_path_join(made.path, file_names[i]);
        status = file ? write_file(file, c, c->tables[i], err) : sia_fail_memory(err, strlen(path), path);
        free(file);
    }
    if (!status) return sia_folder_commit(&made, path, true, err);
    sia_folder_abandon(&made);
    return status;
}

static sia_status remove_step(const char *folder, int64_t step, sia_error *err) {
    char *path = step_path(folder, step, NULL);
    if (!path) return sia_fail_memory(err, strlen(folder), folder);
    sia_status status = sia_folder_remove(path, err);
    free(path);
    return status;
}

/* Oldest first, until `keep` are left. */
static sia_status remove_oldest(const char *folder, int64_t keep, int64_t saved, sia_error *err) {
    int64_t *steps, count;
    sia_status status = sia_checkpoint_list(folder, &steps, &count, err);
    int64_t left = count;
    for (int64_t i = 0; !status && i < count && left > keep; i++)
        if (steps[i] != saved) {
            status = remove_step(folder, steps[i], err);
            left--;
        }
    free(steps);
    return status;
}

sia_status sia_checkpoint_save(sia_run *run, int64_t step, const sia_tensor_table *model,
                               const sia_tensor_table *optimizer, const sia_pair *metadata, int64_t pairs,
                               int64_t keep, sia_error *err) {
    const char *folder = sia_run_folder(run);
    if (step < 0 || step > STEP_MOST)
        return sia_fail(err, SIA_ARGUMENT, "step %" PRId64 ": want 0 to %" PRId64, step, STEP_MOST);
    if (keep < 0) return sia_fail(err, SIA_ARGUMENT, "keep %" PRId64 " checkpoints: want 0 or more", keep);
    contents c = {.step = step, .pairs = pairs, .metadata = metadata, .tables = {model, optimizer}};
    char *path = step_path(folder, step, NULL);
    if (!path) return sia_fail_memory(err, strlen(folder), folder);
    char name[STEP_NAME];
    step_name(step, name);
    sia_status status = sia_link_refuse(folder, name, err);
    if (!status) status = sia_run_sync(run, err);
    if (!status) status = write_folder(path, &c, err);
    if (!status && keep) status = remove_oldest(folder, keep, step, err);
    free(path);
    return status;
}

sia_status sia_checkpoint_rewind(sia_run *run, int64_t step, int64_t keep, sia_error *err) {
    const char *folder = sia_run_folder(run);
    int64_t *steps, count;
    sia_status status = sia_checkpoint_list(folder, &steps, &count, err);
    /* The newest goes first: a kill on the way leaves a run that can be rewound again. */
    for (int64_t i = count; !status && i-- > 0 && steps[i] > step;)
        status = remove_step(folder, steps[i], err);
    free(steps);
    return !status && keep ? remove_oldest(folder, keep, step, err) : status;
}

/* --------------------------------------------------------------------------------------------------- opening */

struct sia_checkpoint {
    int64_t step;
    char *paths[FILES];
    sia_safetensors *files[FILES]; /* that of the optimiser is NULL for model_only */
};

static sia_status check_step(const sia_safetensors *file, const char *path, int64_t step, sia_error *err) {
    char wanted[STEP_NAME];
    const char *found = sia_safetensors_metadata(file, "step");
    (void)snprintf(wanted, sizeof wanted, "%" PRId64, step);
    if (found && strcmp(found, wanted) == 0) return SIA_OK;
    return sia_fail(err, SIA_FORMAT, "%s: is of step %.32s, want %s", path, found ? found : "(none)", wanted);
}

static sia_status open_files(sia_checkpoint *c, const char *folder, bool model_only, sia_error *err) {
    sia_status status = SIA_OK;
    for (int i = 0; !status && i < (model_only ? 1 : FILES); i++) {
        c->paths[i] = step_path(folder, c->step, file_names[i]);
        if (!c->paths[i]) return sia_fail_memory(err, strlen(folder), folder);
        status = sia_safetensors_open(&c->files[i], c->paths[i], err);
        if (!status) status = check_step(c->files[i], c->paths[i], c->step, err);
    }
    return status;
}

sia_status sia_checkpoint_open(sia_checkpoint **result, const char *folder, int64_t step, bool model_only,
                               sia_error *err) {
    *result = NULL;
    sia_checkpoint *c = calloc(1, sizeof *c);
    if (!c) return sia_fail_memory(err, sizeof *c, folder);
    c->step = step;
    sia_status status = open_files(c, folder, model_only, err);
    if (status)
        sia_checkpoint_close(c);
    else
        *result = c;
    return status;
}

/* Damage is what a file holds, or that it is missing. Memory that is short, or a file that cannot be read
 * just now, is none: an older checkpoint would not be the answer, and the newer one would be lost. */
static bool is_damage(sia_status status, const char *folder, int64_t step, bool model_only) {
    if (status != SIA_FILE) return status == SIA_FORMAT;
    bool missing = false;
    for (int i = 0; i < (model_only ? 1 : FILES); i++) {
        char *path = step_path(folder, step, file_names[i]);
        struct stat info;
        missing = missing || (path && stat(path, &info) != 0 && errno == ENOENT);
        free(path);
    }
    return missing;
}

/* "sia" is the only format that there is so far. One that is not written yet will have another name: it gets a
 * sentence of its own, so that nobody takes a new file for a damaged one. */
sia_status sia_format_check(const sia_safetensors *file, const char *path, sia_error *err) {
    const char *format = sia_safetensors_metadata(file, "format");
    if (!format || strncmp(format, "sia", 3) != 0 || !format[3]) return SIA_OK;
    return sia_fail(err, SIA_FORMAT,
                    "%s: format '%.32s': want 'sia'; a newer version wrote it than this one, %s", path,
                    format, sia_version());
}

static sia_status try_step(const char *folder, int64_t step, bool model_only, sia_checkpoint_take *take,
                           void *context, bool *damaged, sia_error *err) {
    sia_checkpoint *c;
    sia_status status = sia_checkpoint_open(&c, folder, step, model_only, err);
    *damaged = is_damage(status, folder, step, model_only);
    if (status) return status;
    status = sia_format_check(c->files[MODEL], c->paths[MODEL], err);
    if (!status) {
        status = take(context, c, err);
        *damaged = status == SIA_FORMAT;
    }
    sia_checkpoint_close(c);
    return status;
}

sia_status sia_checkpoint_newest(const char *folder, bool model_only, sia_checkpoint_take *take,
                                 void *context, char **skipped, sia_error *err) {
    int64_t *steps, count;
    *skipped = NULL;
    sia_status status = sia_checkpoint_list(folder, &steps, &count, err);
    if (!status && count == 0)
        status = sia_fail(
            err, SIA_FILE,
            "%s: no checkpoint: want a run of 'sia train', which holds step-N/model.safetensors", folder);
    sia_error newest = {SIA_OK, ""};
    bool taken = false;
    for (int64_t i = count; !status && !taken && i-- > 0;) {
        sia_error said;
        bool damaged;
        taken = try_step(folder, steps[i], model_only, take, context, &damaged, &said) == SIA_OK;
        if (!taken && !damaged) status = sia_fail(err, said.status, "%s", said.text);
        if (!taken && !newest.status) newest = said;
    }
    free(steps);
    if (!status && !taken)
        status = sia_fail(err, newest.status, "no checkpoint can be used, the newest: %s", newest.text);
    if (!status && newest.status && !(*skipped = strdup(newest.text)))
        status = sia_fail_memory(err, sizeof newest.text, folder);
    return status;
}

void sia_checkpoint_close(sia_checkpoint *c) {
    if (!c) return;
    for (int i = 0; i < FILES; i++) {
        sia_safetensors_close(c->files[i]);
        free(c->paths[i]);
    }
    free(c);
}

const sia_safetensors *sia_checkpoint_model(const sia_checkpoint *c) { return c->files[MODEL]; }

const char *sia_checkpoint_path(const sia_checkpoint *c) { return c->paths[MODEL]; }

int64_t sia_checkpoint_step(const sia_checkpoint *c) { return c->step; }

/* --------------------------------------------------------------------------------------------------- reading */

static bool has_name(const sia_tensor_table *table, const char *name) {
    for (int64_t i = 0; i < table->count; i++)
        if (strcmp(table->entries[i].name, name) == 0) return true;
    return false;
}

/* Every tensor of the table is in the file, and every tensor of the file in the table. */
static sia_status check_table(const sia_safetensors *file, const char *path, const sia_tensor_table *table,
                              sia_error *err) {
    sia_status status = SIA_OK;
    const sia_stored_tensor *tensor;
    for (int64_t i = 0; !status && i < table->count; i++) {
        const sia_tensor_entry *e = &table->entries[i];
        status = check_dims(e, err);
        if (!status)
            status = sia_safetensors_want(file, e->name, SIA_DTYPE_F32, e->dims, e->shape, &tensor, err);
    }
    for (int64_t i = 0; !status && (tensor = sia_safetensors_at(file, i)); i++)
        if (!has_name(table, tensor->name))
            status = sia_fail(err, SIA_FORMAT, "%s: tensor \"%.100s\": not wanted here", path, tensor->name);
    return status;
}

static sia_status copy_table(const sia_safetensors *file, const sia_tensor_table *table, sia_error *err) {
    sia_status status = SIA_OK;
    for (int64_t i = 0; !status && i < table->count; i++) {
        const sia_tensor_entry *e = &table->entries[i];
        status = sia_safetensors_copy(file, sia_safetensors_find(file, e->name), e->data, err);
    }
    return status;
}

sia_status sia_tensors_read(const sia_safetensors *file, const char *path, const sia_tensor_table *table,
                            sia_error *err) {
    sia_status status = check_table(file, path, table, err);
    return status ? status : copy_table(file, table, err);
}

sia_status sia_checkpoint_read(const sia_checkpoint *c, const sia_tensor_table *model,
                               const sia_tensor_table *optimizer, sia_error *err) {
    const sia_tensor_table *tables[FILES] = {model, optimizer};
    if (optimizer && !c->files[OPTIMIZER])
        return sia_fail(err, SIA_ARGUMENT, "the state of the optimiser: it was opened for the model only");
    sia_status status = SIA_OK;
    for (int f = 0; f < FILES && !status; f++)
        if (tables[f]) status = check_table(c->files[f], c->paths[f], tables[f], err);
    for (int f = 0; f < FILES && !status; f++) /* nothing is written before all are looked at */
        if (tables[f]) status = copy_table(c->files[f], tables[f], err);
    return status;
}
