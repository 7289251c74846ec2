/* SPDX-License-Identifier: MIT
 *
 * The loop of a run: start or go on, step, log, save, validate; see train.h.
 *
 * On several ranks rank 0 alone has the run's folder open: it says how the run starts, logs and saves; what it reads
 * or writes ends with all ranks agreeing. */
#define _GNU_SOURCE
#include "train/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/path.h"
#include "data/windows.h"
#include "model/validation.h"
#include "train/contents.h"
#include "train/gather.h"
#include "train/model_file.h"

enum {
    CONFIG_MOST = 1 << 20,
    LOSS_MOST = 1000,           /* of batches that a model may never have seen the like of */
    PREPARING_MOST = 7 * 86400, /* seconds: other ranks wait while one packs text */
};

typedef struct state {
    const sia_train_job *job;
    sia_settings settings; /* complete */
    sia_train_data own;    /* when the job brings none */
    const sia_train_data *data;
    sia_comm *comm;
    sia_run *run; /* rank 0's */
    sia_model *m;
    sia_trainer *trainer;
    sia_windows *windows;
    sia_batches batches;
    uint32_t *rows; /* [batch, length + 1] */
    int64_t step;
    int64_t validated_at; /* the multiple of the training length that validation is at */
    bool stop;            /* the hook asked for it */
} state;

static bool is_first(const state *s) { return sia_comm_rank(s->comm) == 0; }

static double epochs(const state *s) { return s->job->fill ? 0 : sia_batches_epochs(&s->batches, s->step); }

/* A wish to stop is kept until a step has been done, whatever event it came with. */
static int tell(state *s, sia_train_event event) {
    event.step = s->step;
    if (s->job->hook && s->job->hook(s->job->hook_context, &event)) s->stop = true;
    return s->stop;
}

/* ------------------------------------------------------------------------------------------------ config.json */

/* config.json, whole, and the settings in it. */
static sia_status read_config(const char *folder, json_t **json, sia_settings *settings, sia_error *err) {
    char *path = sia_path_join(folder, "config.json");
    *json = NULL;
    *settings = (sia_settings){0};
    sia_status status =
        path ? sia_json_read(json, path, CONFIG_MOST, err) : sia_fail_memory(err, strlen(folder), "path");
    if (!status) status = sia_settings_read(settings, *json, path, err);
    if (!status) status = sia_settings_complete(settings, err);
    free(path);
    return status;
}

sia_status sia_train_config_read(const char *folder, sia_settings *settings, json_t **data, sia_error *err) {
    json_t *json;
    sia_status status = read_config(folder, &json, settings, err);
    if (!status && data) *data = json_incref(json_object_get(json, "data"));
    json_decref(json);
    return status;
}

/* Settings and data. The description is copied: trainings in other threads share it, and jansson's counts of
 * references are not for several threads. */
static json_t *whole_config(const state *s) {
    json_t *json = sia_settings_json(&s->settings);
    sia_json_set(&json, "data", json_deep_copy(s->data->description));
    return json;
}

static sia_status config_write(const state *s, sia_error *err) {
    json_t *json = whole_config(s);
    sia_json_set(&json, "version", json_string(sia_version()));
    if (s->job->command) sia_json_set(&json, "command", sia_json_text(s->job->command));
    if (s->job->initial) sia_json_set(&json, "from", sia_json_text(s->job->initial));
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    char *path = sia_path_join(s->job->folder, "config.json");
    json_decref(json);
    sia_status status = text && path ? sia_file_replace(path, text, strlen(text), err)
                                     : sia_fail_memory(err, 4096, "config.json");
    free(text);
    free(path);
    return status;
}

/* A run that was begun has its weights: other ones that are named now would not be looked at. */
static sia_status same_beginning(const char *now, const json_t *config, sia_error *err) {
    const char *then = json_string_value(json_object_get(config, "from"));
    if (now && !then)
        return sia_fail(err, SIA_ARGUMENT, "--from %s: the run was begun without it: leave it out", now);
    if (now && strcmp(then, now) != 0)
        return sia_fail(err, SIA_ARGUMENT, "--from %s: the run was begun from %s: leave it out", now, then);
    return SIA_OK;
}

/* A run goes on under the settings that it was begun with. */
static sia_status same_settings(const state *s, const sia_settings *then, sia_error *err) {
    json_t *a = sia_settings_json(then), *b = sia_settings_json(&s->settings);
    bool made = a && b, same = made && json_equal(a, b);
    char other[160];
    if (made) (void)sia_json_difference(a, b, other);
    json_decref(a);
    json_decref(b);
    if (!made) return sia_fail_memory(err, 4096, "settings");
    return same ? SIA_OK
                : sia_fail(err, SIA_ARGUMENT,
                           "%s: was begun with %s: a run is resumed as it was begun (or --from it in another "
                           "folder)",
                           s->job->folder, other);
}

/* ------------------------------------------------------------------------------------------------ checkpoints */

static sia_tensor_entry *optimizer_entries(const state *s, float *whole, int64_t *count) {
    const sia_optimizer *optimizer = sia_trainer_optimizer(s->trainer);
    const sia_optim_state *states = sia_optimizer_states(optimizer, count);
    sia_tensor_entry *entries = sia_alloc((size_t)*count, sizeof *entries);
    for (int64_t i = 0; entries && i < *count; i++)
        entries[i] = (sia_tensor_entry){
            states[i].name, sia_state_at(optimizer, whole, i), 2, {states[i].rows, states[i].columns}};
    return entries;
}

static char *json_line(json_t *object) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(object);
    return text;
}

static sia_status write_checkpoint(state *s, float *whole, sia_error *err) {
    int64_t states;
    sia_tensor_entry *model = sia_model_entries(s->m), *optimizer = optimizer_entries(s, whole, &states);
    char *config = json_line(sia_model_config_json(&s->m->config));
    sia_pair pairs[] = {{"model", config}, {"format", "sia"}};
    sia_status status = model && optimizer && config ? SIA_OK : sia_fail_memory(err, 4096, "checkpoint");
    if (!status)
        status = sia_checkpoint_save(s->run, s->step, &(sia_tensor_table){model, sia_model_tensors(s->m)},
                                     &(sia_tensor_table){optimizer, states}, pairs, 2,
                                     s->settings.training.keep, err);
    sia_free(model);
    sia_free(optimizer);
    free(config);
    return status;
}

/* Rank 0 writes what all ranks have; it is saved when all know that it is whole. */
static sia_status save(state *s, sia_error *err) {
    float *whole;
    sia_status status = sia_states_collect(s->comm, sia_trainer_optimizer(s->trainer), &whole, err);
    if (!status && is_first(s)) status = write_checkpoint(s, whole, err);
    sia_free(whole);
    status = sia_comm_agree(s->comm, status, err);
    if (!status) (void)tell(s, (sia_train_event){.kind = SIA_TRAIN_SAVED});
    return status;
}

typedef struct places {
    sia_tensor_table model, optimizer;
    int64_t step;
} places;

static sia_status take_checkpoint(void *context, const sia_checkpoint *c, sia_error *err) {
    places *to = context;
    to->step = sia_checkpoint_step(c);
    return sia_checkpoint_read(c, &to->model, &to->optimizer, err);
}

/* The newest checkpoint that is whole, if there is one. */
static sia_status read_checkpoint(state *s, float *whole, char **note, sia_error *err) {
    int64_t *steps, count, states;
    sia_status status = sia_checkpoint_list(s->job->folder, &steps, &count, err);
    if (status || count == 0) return status;
    free(steps);
    sia_tensor_entry *model = sia_model_entries(s->m), *optimizer = optimizer_entries(s, whole, &states);
    places to = {{model, sia_model_tensors(s->m)}, {optimizer, states}, 0};
    status = model && optimizer
                 ? sia_checkpoint_newest(s->job->folder, false, take_checkpoint, &to, note, err)
                 : sia_fail_memory(err, 4096, "checkpoint");
    s->step = to.step;
    sia_free(model);
    sia_free(optimizer);
    if (!status && s->step > s->settings.training.steps)
        status = sia_fail(err, SIA_FORMAT, "%s: the checkpoint is of step %lld of %lld", s->job->folder,
                          (long long)s->step, (long long)s->settings.training.steps);
    return status;
}

/* Rank 0 reads; every rank goes on from there, with its part of the states. */
static sia_status load(state *s, char **note, sia_error *err) {
    float *whole;
    sia_optimizer *optimizer = sia_trainer_optimizer(s->trainer);
    sia_status status = sia_states_room(s->comm, optimizer, &whole, err);
    if (status) return status;
    if (is_first(s)) {
        status = read_checkpoint(s, whole, note, err);
        if (!status) status = sia_run_rewind(s->run, s->step, err);
        if (!status) status = sia_checkpoint_rewind(s->run, s->step, s->settings.training.keep, err);
    }
    status = sia_comm_agree(s->comm, status, err);
    if (!status) status = sia_comm_broadcast(s->comm, &s->step, sizeof s->step, 0, err);
    if (!status) status = sia_weights_spread(s->comm, s->m, err);
    if (!status) status = sia_states_deal(s->comm, optimizer, whole, err);
    sia_free(whole);
    return status;
}

/* ------------------------------------------------------------------------------------------------ steps */

static sia_status fill(void *context, int64_t step, uint32_t *ids, uint32_t *targets, sia_error *err) {
    state *s = context;
    sia_status status = sia_batches_read(&s->batches, step, 0, s->rows, NULL, err);
    int64_t n = s->batches.length;
    for (int64_t i = 0; !status && i < s->batches.sequences; i++) {
        memcpy(ids + i * n, s->rows + i * (n + 1), (size_t)n * sizeof *ids);
        memcpy(targets + i * n, s->rows + i * (n + 1) + 1, (size_t)n * sizeof *targets);
    }
    return status;
}

static sia_status log_line(state *s, json_t *object, sia_error *err) {
    if (!is_first(s)) {
        json_decref(object);
        return SIA_OK;
    }
    char *line = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    if (!line) return sia_fail_memory(err, 256, "line of the log"); /* its figures have been looked at */
    sia_status status = sia_run_append(s->run, SIA_RUN_METRICS, line, err);
    free(line);
    return status;
}

static sia_status log_step(state *s, const sia_step_result *r, double seconds, sia_error *err) {
    const sia_training_settings *t = &s->settings.training;
    double f = r->rate_factor;
    int64_t seen = s->step * r->tokens;
    return log_line(s,
                    json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "step",
                              (json_int_t)s->step, "loss", r->loss, "rate_embedding", f * t->embedding_rate,
                              "rate_matrix", f * t->matrix_rate, "rate_unembedding", f * t->unembedding_rate,
                              "rate_scalar", f * t->scalar_rate, "gradient_norm", r->statistics.gradient_norm,
                              "tokens_per_s", (double)r->tokens / seconds, "epoch", epochs(s), "tokens",
                              (json_int_t)seen),
                    err);
}

static int show_validation(void *context, const char *phase, double done) {
    (void)phase;
    state *s = context;
    return tell(s,
                (sia_train_event){.kind = SIA_TRAIN_VALIDATING, .multiple = s->validated_at, .done = done});
}

static sia_status validate(state *s, sia_error *err) {
    const sia_training_settings *t = &s->settings.training;
    if (!s->windows) return SIA_OK;
    int64_t most = sia_multiples_longest(t->multiples);
    double losses[SIA_MAX_LENGTHS] = {0};
    json_t *table = json_object();
    sia_status status = SIA_OK;
    for (int i = 0; !status && t->multiples[i]; i++) {
        char name[24];
        sia_validation_result result;
        s->validated_at = t->multiples[i];
        sia_validation v = {.windows = s->windows,
                            .length = most * s->batches.length,
                            .parts = most / t->multiples[i],
                            .progress = show_validation,
                            .progress_context = s,
                            .comm = s->comm,
                            .together = s->job->together};
        status = sia_validate(s->m, &v, &result, err);
        if (status) break;
        losses[i] = result.loss;
        (void)snprintf(name, sizeof name, "%" PRId64, t->multiples[i] * s->batches.length);
        sia_json_set(&table, name, json_real(result.loss));
    }
    if (!status)
        status = log_line(s, json_pack("{s:I, s:O}", "step", (json_int_t)s->step, "validation", table), err);
    json_decref(table);
    status = sia_comm_agree(s->comm, status, err);
    if (!status) (void)tell(s, (sia_train_event){.kind = SIA_TRAIN_VALIDATED, .validation = losses});
    return status;
}

/* Whether the log has the validation of this step: a run may have been stopped before it. */
static sia_status validated(const state *s, bool *found, sia_error *err) {
    sia_json_log log;
    json_t *line;
    *found = false;
    sia_status status = sia_json_log_open(&log, s->job->folder, "metrics.jsonl", PTRDIFF_MAX, err);
    /* A line that is no JSON is no validation either; sia_run_rewind says more of it. */
    while (!status && sia_json_log_next(&log, &line, &status, err)) {
        if (json_object_get(line, "validation") &&
            json_integer_value(json_object_get(line, "step")) == s->step)
            *found = true;
        json_decref(line);
    }
    sia_json_log_close(&log);
    return status;
}

/* As rank 0's log says. */
static sia_status all_validated(state *s, bool *found, sia_error *err) {
    sia_status status = is_first(s) ? validated(s, found, err) : SIA_OK;
    status = sia_comm_agree(s->comm, status, err);
    return status ? status : sia_comm_broadcast(s->comm, found, sizeof *found, 0, err);
}

static bool due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

static bool validation_due(const state *s) {
    const sia_training_settings *t = &s->settings.training;
    return s->step == t->steps || due(t->eval_every, s->step);
}

/* What stopped a run during validation finds a checkpoint of this step when it goes on. */
static sia_status validate_or_save(state *s, bool saved, sia_error *err) {
    sia_status status = validate(s, err);
    if (status != SIA_STOPPED || saved) return status;
    sia_error later;
    if (save(s, &later) == SIA_OK) return status;
    if (err) *err = later;
    return later.status;
}

/* Whether the hook of any rank asked to stop: all do. */
static sia_status any_stop(state *s, bool *stop, sia_error *err) {
    double stops = *stop ? 1 : 0;
    sia_status status = sia_comm_sum(s->comm, &stops, 1, err);
    *stop = s->stop = stops > 0;
    return status;
}

static sia_status steps(state *s, sia_error *err) {
    const sia_training_settings *t = &s->settings.training;
    bool found = true;
    sia_status status = s->step > 0 && validation_due(s) ? all_validated(s, &found, err) : SIA_OK;
    if (!status && !found) status = validate_or_save(s, true, err);
    while (!status && s->step < t->steps) {
        sia_step_result result;
        double started = sia_seconds();
        status = sia_trainer_step(s->trainer, s->step, &result, err);
        if (status) return status;
        double seconds = sia_seconds() - started;
        s->step++;
        bool last = s->step == t->steps;
        if (last || due(t->log_every, s->step))
            status = sia_comm_agree(s->comm, log_step(s, &result, seconds, err), err);
        bool stop = tell(s, (sia_train_event){.kind = SIA_TRAIN_STEP, .result = &result}) != 0;
        if (!status) status = any_stop(s, &stop, err);
        bool saving = last || stop || due(t->save_every, s->step);
        if (!status && saving) status = save(s, err);
        if (!status && stop && !last)
            return sia_comm_agree(s->comm, sia_fail(err, SIA_STOPPED, "stopped"), err);
        if (!status && validation_due(s)) status = validate_or_save(s, saving, err);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------ the whole */

/* Weights of another model with tensors of the same names and shapes; its scheme may be another one. */
static sia_status take_weights(sia_model *m, const char *path, sia_error *err) {
    sia_model *from;
    sia_status status = sia_model_load(&from, path, 1, NULL, err);
    for (int i = 0; !status && i < sia_model_tensors(m); i++) {
        sia_tensor to = sia_model_tensor(m, i), found = {0};
        for (int j = 0; j < sia_model_tensors(from) && !found.name; j++)
            if (!strcmp(sia_model_tensor(from, j).name, to.name)) found = sia_model_tensor(from, j);
        if (found.name && found.rows == to.rows && found.columns == to.columns)
            memcpy(to.value, found.value, (size_t)(to.rows * to.columns) * sizeof(float));
        else if (m->parameters.list[i].kind == SIA_KIND_LOGN)
            continue; /* these may start afresh */
        else if (found.name)
            status = sia_fail(err, SIA_ARGUMENT,
                              "%s: its %s is %lld x %lld, here %lld x %lld is wanted: --config with the "
                              "config.json of its run takes its shape",
                              path, to.name, (long long)found.rows, (long long)found.columns,
                              (long long)to.rows, (long long)to.columns);
        else
            status = sia_fail(err, SIA_ARGUMENT, "%s: has no %s: it has fewer layers", path, to.name);
    }
    sia_model_destroy(from);
    return status;
}

static sia_status make_windows(state *s, sia_error *err) {
    const sia_training_settings *t = &s->settings.training;
    int64_t most = sia_multiples_longest(t->multiples);
    if (!s->data->val || most == 0 || s->job->fill) return SIA_OK;
    sia_status status = sia_multiples_check(t->multiples, err);
    if (status) return status;
    return sia_windows_make(&s->windows, s->data->val, most * s->batches.length, t->eval_windows, t->join,
                            err);
}

static sia_held_out held_out(const state *s) {
    const sia_training_settings *t = &s->settings.training;
    return (sia_held_out){.windows = s->windows ? sia_windows_count(s->windows) : 0,
                          .wanted = t->eval_windows,
                          .length = sia_multiples_longest(t->multiples) * s->settings.model.train_len};
}

static sia_status open_described(state *s, const json_t *description, sia_error *err) {
    sia_data_opening opening = {.folder = s->job->folder,
                                .threads = s->job->threads,
                                .stopped = s->job->source ? s->job->source->stopped : NULL};
    return sia_train_data_open(&s->own, description, &opening, err);
}

/* A study has data and a tokenizer of its own under the same names; and checkpoints without the config.json that they
 * were made with are not of this run. But a start from other weights that was killed has left step 0, which goes. */
static sia_status refuse_old(const char *folder, sia_error *err) {
    static const char *const studies[] = {"study.json", "compare.jsonl", "needle.jsonl"};
    for (size_t i = 0; i < sizeof studies / sizeof *studies; i++) {
        bool there;
        sia_status status = sia_folder_look(folder, studies[i], &there, err);
        if (status) return status;
        if (there)
            return sia_fail(err, SIA_ARGUMENT, "%s: holds a study: a run needs a folder of its own", folder);
    }
    int64_t *steps, count;
    sia_status status = sia_checkpoint_list(folder, &steps, &count, err);
    int64_t newest = count ? steps[count - 1] : 0;
    free(steps);
    if (status || !count) return status;
    if (newest)
        return sia_fail(err, SIA_ARGUMENT, "%s: holds checkpoints, but not the config.json of their run",
                        folder);
    char *path = sia_path_join(folder, "step-000000");
    status = path ? sia_folder_remove(path, err) : sia_fail_memory(err, strlen(folder), "path");
    free(path);
    return status;
}

/* Whether there can be such a model, and what it starts from is there: asked before a text is packed for it. */
static sia_status check_possible(const state *s, sia_error *err) {
    const sia_model_config *model = &s->settings.model;
    sia_attention_config config = sia_model_attention(model, 1, 0);
    sia_attention *attention;
    sia_status status = sia_attention_create(&attention, model->scheme, &config, err);
    if (status) return status;
    sia_attention_destroy(attention);
    const char *initial = s->job->initial;
    return initial && access(initial, R_OK) != 0 ? sia_fail_file(err, initial) : SIA_OK;
}

/* A run that goes on is what it was. */
static sia_status begin_again(state *s, sia_error *err) {
    const sia_train_job *job = s->job;
    sia_settings then;
    json_t *config;
    sia_status status = read_config(job->folder, &config, &then, err);
    const json_t *data = json_object_get(config, "data");
    if (!status) status = same_beginning(job->initial, config, err);
    if (!status) status = same_settings(s, &then, err);
    if (!status && !job->data && job->source) status = sia_train_data_same(data, job->source, err);
    if (!status && !job->data) status = open_described(s, data, err);
    json_decref(config);
    return status;
}

static sia_status begin_new(state *s, sia_error *err) {
    const sia_train_job *job = s->job;
    sia_status status = check_possible(s, err);
    if (status) return status;
    if (job->data)
        return s->data->tokenizer ? sia_train_tokenizer_save(s->data->tokenizer, job->folder, err) : SIA_OK;
    /* Weights from elsewhere go on with the tokens that they know. */
    sia_data_source source = *job->source;
    char *tokenizer = NULL;
    if (job->initial) {
        status = sia_model_tokenizer(job->initial, source.tokenizer, &tokenizer, err);
        if (!source.tokenizer) source.tokenizer = tokenizer; /* a resume compares what was named */
    }
    if (!status) status = sia_train_data_prepare(&s->own, &source, job->folder, &s->settings, err);
    free(tokenizer);
    return status;
}

/* Settings and data: what a run is. */
static sia_status begin_first(state *s, bool begun, sia_error *err) {
    const sia_train_job *job = s->job;
    if (begun && !job->resume)
        return sia_fail(err, SIA_ARGUMENT, "%s: holds a run already: want --resume, or another folder",
                        job->folder);
    s->settings = *job->settings;
    s->data = job->data ? job->data : &s->own;
    sia_status status = begun ? SIA_OK : refuse_old(job->folder, err);
    if (!status) status = sia_settings_complete(&s->settings, err);
    if (status) return status;
    return begun ? begin_again(s, err) : begin_new(s, err);
}

/* What rank 0 found, as text. */
static char *beginning_text(const state *s) { return json_line(whole_config(s)); }

/* Another rank opens the same, and is asked whether it was called for the same. */
static sia_status begin_other(state *s, const char *text, sia_error *err) {
    const sia_train_job *job = s->job;
    json_t *json;
    sia_settings shared = {0};
    sia_status status = sia_json_parse(&json, text, strlen(text), 0, "rank 0", err);
    if (!status) status = sia_settings_read(&shared, json, "rank 0", err);
    if (!status) status = sia_settings_complete(&shared, err);
    s->settings = *job->settings;
    if (!job->data && !(job->source && job->source->vocabulary_given))
        s->settings.model.vocabulary = shared.model.vocabulary;
    if (!status) status = sia_settings_complete(&s->settings, err);
    s->data = job->data ? job->data : &s->own;
    if (!status && !job->data) status = open_described(s, json_object_get(json, "data"), err);
    json_decref(json);
    return status;
}

/* One run on all ranks, or none. What is validated on may be missing, but then on all. */
static sia_status check_same(state *s, sia_error *err) {
    char *settings = NULL;
    if (sia_comm_size(s->comm) == 1) return SIA_OK;
    sia_status status = SIA_OK;
    if (!(settings = json_line(sia_settings_json(&s->settings))))
        status = sia_fail_memory(err, 4096, "settings");
    status = sia_comm_agree(s->comm, status, err);
    if (!status) status = sia_comm_same(s->comm, "configuration", settings, err);
    if (!status) status = sia_corpus_same(s->comm, "text to train on", s->data->train, err);
    if (!status) status = sia_corpus_same(s->comm, "text to validate on", s->data->val, err);
    free(settings);
    return status;
}

/* Rank 0 first: it may have to prepare the data, for as long as that takes; then the others open it. */
static sia_status begin(state *s, bool *begun, sia_error *err) {
    char *text = NULL, *shared = NULL;
    sia_status status = SIA_OK;
    bool first = is_first(s);
    if (first) {
        status = sia_folder_look(s->job->folder, "config.json", begun, err);
        if (!status) status = begin_first(s, *begun, err);
        if (!status && !(text = beginning_text(s))) status = sia_fail_memory(err, 4096, "settings");
    }
    double timeout = sia_comm_set_timeout(s->comm, PREPARING_MOST);
    status = sia_comm_agree(s->comm, status, err);
    if (!status) status = sia_comm_share_text(s->comm, text, &shared, err);
    if (!status) {
        if (!first) status = begin_other(s, shared, err);
        status = sia_comm_agree(s->comm, status, err);
    }
    (void)sia_comm_set_timeout(s->comm, timeout);
    if (!status) status = check_same(s, err);
    free(text);
    free(shared);
    if (status) return status;
    s->batches = (sia_batches){.corpus = s->data->train,
                               .length = s->settings.model.train_len,
                               .sequences = s->settings.training.batch,
                               .order = s->settings.training.order,
                               .seed = s->settings.training.data_seed};
    if (sia_batches_windows(&s->batches) < 1)
        return sia_fail(err, SIA_ARGUMENT,
                        "the text has %lld tokens: too few for a sequence of %lld and what comes next",
                        (long long)sia_corpus_tokens(s->data->train), (long long)s->batches.length);
    return make_windows(s, err);
}

/* Weights that came from elsewhere are a part of the run before its first step: a resume may not find them.
 * config.json is the last thing that a start writes: one that failed leaves a folder in which a run can be begun. */
static sia_status write_beginning(state *s, sia_error *err) {
    sia_status status = s->job->initial ? save(s, err) : SIA_OK;
    if (!status && is_first(s)) status = config_write(s, err);
    return sia_comm_agree(s->comm, status, err);
}

/* Weights from elsewhere are for a beginning: a run that was begun has them in its checkpoints. */
static sia_status make_model(state *s, bool begun, sia_error *err) {
    s->rows = sia_alloc((size_t)(s->batches.sequences * (s->batches.length + 1)), sizeof *s->rows);
    if (!s->rows) return sia_fail_memory(err, 4096, "batch");
    sia_status status = sia_model_create(&s->m, &s->settings.model, s->job->threads, err);
    if (!status && s->job->initial && !begun && is_first(s))
        status = take_weights(s->m, s->job->initial, err);
    return status;
}

static sia_status start(state *s, sia_error *err) {
    bool begun = false;
    char *note = NULL;
    sia_status status = begin(s, &begun, err);
    if (!status) status = sia_comm_broadcast(s->comm, &begun, sizeof begun, 0, err);
    if (!status) status = sia_comm_agree(s->comm, make_model(s, begun, err), err);
    if (!status)
        status = sia_trainer_create_ranks(&s->trainer, s->m, &s->settings, s->job->fill ? s->job->fill : fill,
                                          s->job->fill ? s->job->fill_context : s,
                                          (sia_trainer_ranks){s->comm, s->job->together}, err);
    if (!status && s->job->fill) sia_trainer_allow(s->trainer, LOSS_MOST);
    if (!status && !begun) status = write_beginning(s, err);
    if (!status) status = load(s, &note, err);
    if (!status)
        (void)tell(s, (sia_train_event){.kind = SIA_TRAIN_STARTED,
                                        .note = note,
                                        .data = s->data,
                                        .settings = &s->settings,
                                        .threads = s->m->threads,
                                        .ranks = sia_comm_size(s->comm),
                                        .held_out = held_out(s),
                                        .bytes = sia_trainer_bytes(s->trainer)});
    free(note);
    return status;
}

sia_status sia_train(const sia_train_job *job, sia_error *err) {
    state s = {.job = job, .comm = job->comm};
    sia_status status = is_first(&s) ? sia_run_open(&s.run, job->folder, err) : SIA_OK;
    status = sia_comm_agree(s.comm, status, err);
    if (!status) status = start(&s, err);
    if (!status) status = steps(&s, err);
    sia_trainer_destroy(s.trainer);
    sia_model_destroy(s.m);
    sia_windows_destroy(s.windows);
    sia_free(s.rows);
    sia_train_data_close(&s.own);
    sia_run_close(s.run);
    return status;
}
