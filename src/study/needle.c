/* SPDX-License-Identifier: MIT
 *
 * The needle study: see needle.h. */
#include "study/needle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/threads.h"
#include "position/scheme.h"
#include "study/needle_lines.h"
#include "text/tokenizer.h"
#include "train/model_file.h"
#include "train/run.h"

#define AT(field) offsetof(sia_needle_settings, field)
const sia_field sia_needle_fields[] = {
    {"steps", SIA_FIELD_INT64, AT(steps), 1, 1e9, NULL},
    {"batch", SIA_FIELD_INT64, AT(batch), 1, 1e6, NULL},
    {"warmup", SIA_FIELD_INT64, AT(warmup), -1, 1e9, NULL},
    {"cooldown", SIA_FIELD_REAL, AT(cooldown), 0, 1, NULL},
    {"embedding_rate", SIA_FIELD_REAL, AT(embedding_rate), -1, 1e3, NULL},
    {"matrix_rate", SIA_FIELD_REAL, AT(matrix_rate), -1, 1e3, NULL},
    {"unembedding_rate", SIA_FIELD_REAL, AT(unembedding_rate), -1, 1e3, NULL},
    {"scalar_rate", SIA_FIELD_REAL, AT(scalar_rate), -1, 1e3, NULL},
    {"save_every", SIA_FIELD_INT64, AT(save_every), 0, 1e9, NULL},
    {"samples", SIA_FIELD_INT64, AT(samples), 1, 1e6, NULL},
    {"seed", SIA_FIELD_UINT64, AT(seed), 0, 9e15, NULL},
    {"needles", SIA_FIELD_INT, AT(needles), 1, SIA_NEEDLES_MOST, NULL},
    {"digits", SIA_FIELD_INT, AT(digits), 1, SIA_DIGITS_MOST, NULL},
    {"name_cities", SIA_FIELD_BOOL, AT(name_cities), 0, 1, NULL},
    {"one_token_a_digit", SIA_FIELD_BOOL, AT(one_token_a_digit), 0, 1, NULL},
    {"alike", SIA_FIELD_BOOL, AT(alike), 0, 1, NULL},
    {"literal", SIA_FIELD_BOOL, AT(literal), 0, 1, NULL},
    {"numbers_only", SIA_FIELD_BOOL, AT(numbers_only), 0, 1, NULL},
    {"new_cities", SIA_FIELD_BOOL, AT(new_cities), 0, 1, NULL},
    {0}};

const sia_needle_settings sia_needle_usual = {
    .steps = 300,
    .batch = 16,
    .warmup = -1,
    .cooldown = 1.0 / 3,
    .embedding_rate = -1,
    .matrix_rate = -1,
    .unembedding_rate = -1,
    .scalar_rate = -1,
    .save_every = 100,
    .samples = 100,
    .needles = SIA_NEEDLES_USUAL,
    .digits = SIA_DIGITS_USUAL,
    .multiples = {1, 4, 16},
};

/* A run of the study while it is at work on it. */
typedef struct subject {
    int index;
    const char *path;
    char *name, *folder;   /* of its copy */
    sia_settings settings; /* of its fine-tuning */
    double first_accuracy; /* negative: not measured */
} subject;

typedef struct state {
    const sia_needle_job *job;
    sia_needle_settings settings;
    sia_run *lock;
    sia_needle_lines lines; /* rank 0's */
    sia_train_data data;    /* of the last run that needed it; the next may have the same */
    char *tokenizer_text;
    size_t tokenizer_bytes;
    subject *now;
    uint32_t *row; /* [train_len + 1] */
    uint8_t *mask;
} state;

static int tell(const state *s, sia_needle_event event) {
    const subject *u = s->now;
    event.run = u->index;
    event.runs = s->job->count;
    event.name = u->name;
    event.scheme = u->settings.model.scheme;
    event.seed = u->settings.model.seed;
    event.train_len = u->settings.model.train_len;
    return s->job->hook ? s->job->hook(s->job->hook_context, &event) : 0;
}

static bool is_first(const state *s) { return sia_comm_rank(s->job->comm) == 0; }

static sia_status stopped(sia_error *err) { return sia_fail(err, SIA_STOPPED, "stopped"); }

/* ------------------------------------------------------------------------------------------------ the study's line */

static json_t *config_json(const sia_needle_settings *settings) {
    json_t *config = json_object(), *multiples = json_array();
    sia_fields_write(settings, sia_needle_fields, &config);
    for (int i = 0; i < SIA_MAX_LENGTHS && settings->multiples[i]; i++)
        sia_json_push(&multiples, json_integer((json_int_t)settings->multiples[i]));
    sia_json_set(&config, "multiples", multiples);
    return config;
}

static json_t *study_line(const state *s) {
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:o*, s:o, s:{}}", "kind", "study", "study", "needle", "version",
                  sia_version(), "command", s->job->command ? sia_json_text(s->job->command) : NULL, "config",
                  config_json(&s->settings), "runs");
    if (s->job->machine) sia_json_set(&line, "machine", json_deep_copy(s->job->machine));
    return line;
}

/* ------------------------------------------------------------------------------------------------ data */

/* Data that is named from the folder of the run: its copy is elsewhere. */
static sia_status absolute(json_t *description, const char *home, sia_error *err) {
    const char *path = json_string_value(json_object_get(description, "path"));
    if (!path || *path == '/') return SIA_OK;
    char *joined = sia_path_join(home, path);
    sia_status status = joined ? SIA_OK : sia_fail_memory(err, strlen(home), "path");
    if (!status && json_object_set_new(description, "path", json_string(joined)))
        status = sia_fail(err, SIA_ARGUMENT, "%s: the name is not UTF-8", joined);
    free(joined);
    return status;
}

/* The text of the run, unless that of the last one is the same in the same tokens. */
static sia_status open_data(state *s, json_t *description, sia_error *err) {
    char *home = realpath(s->now->path, NULL), *path = NULL, *text = NULL;
    size_t bytes = 0;
    sia_status status = home ? SIA_OK : sia_fail_file(err, s->now->path);
    if (!status) {
        path = sia_path_join(home, "tokenizer.json");
        status = path ? sia_file_read(path, SIA_TOKENIZER_FILE_MAX, &text, &bytes, err)
                      : sia_fail_memory(err, strlen(home), "path");
    }
    if (!status) status = absolute(description, home, err);
    bool same = !status && s->tokenizer_text && bytes == s->tokenizer_bytes &&
                memcmp(text, s->tokenizer_text, bytes) == 0 && json_equal(description, s->data.description);
    if (!status && !same) {
        free(s->tokenizer_text);
        s->tokenizer_text = text;
        s->tokenizer_bytes = bytes;
        text = NULL;
        sia_train_data_close(&s->data);
        status = sia_train_data_open(
            &s->data, description,
            &(sia_data_opening){.folder = home, .threads = s->job->threads, .stopped = s->job->stopped}, err);
    }
    free(text);
    free(path);
    free(home);
    return status;
}

/* Held-out text, where there is enough of it. */
static const sia_corpus *text_of(const state *s, int64_t length) {
    return s->data.val && sia_corpus_tokens(s->data.val) >= length ? s->data.val : s->data.train;
}

static sia_haystack haystack(const state *s, const sia_corpus *corpus, int64_t length) {
    const sia_needle_settings *t = &s->settings;
    return (sia_haystack){.corpus = corpus,
                          .tokenizer = s->data.tokenizer,
                          .length = length,
                          .needles = t->needles,
                          .digits = t->digits,
                          .name_cities = t->name_cities,
                          .one_token_a_digit = t->one_token_a_digit,
                          .alike = t->alike,
                          .literal = t->literal,
                          .numbers_only = t->numbers_only,
                          .known_cities = !t->new_cities,
                          .seed = t->seed};
}

/* Before anything is written for a run: its text has room for the needles at every length. */
static sia_status try_haystacks(const state *s, sia_error *err) {
    sia_status status = SIA_OK;
    for (int i = -1; !status && (i < 0 || s->settings.multiples[i]); i++) {
        int64_t length = s->now->settings.model.train_len * (i < 0 ? 1 : s->settings.multiples[i]);
        sia_haystack h = haystack(s, i < 0 ? s->data.train : text_of(s, length), length);
        uint32_t *ids = sia_alloc((size_t)length + 1, sizeof *ids);
        uint8_t *mask = sia_alloc((size_t)length, 1);
        status = ids && mask ? sia_haystack_read(&h, 0, ids, mask, NULL, err)
                             : sia_fail_memory(err, (size_t)length * sizeof *ids, "haystack");
        sia_free(ids);
        sia_free(mask);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------ fine-tuning */

static int64_t divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static double rate(double asked, double own) { return asked < 0 ? own : asked; }

/* The run's settings with those of the study. */
static void take_settings(sia_training_settings *t, const sia_needle_settings *n) {
    t->micro_batch = divisor(n->batch, t->micro_batch);
    t->batch = n->batch;
    t->steps = n->steps;
    t->schedule = SIA_SCHEDULE_LINEAR;
    t->warmup = n->warmup;
    t->cooldown = n->cooldown;
    t->embedding_rate = rate(n->embedding_rate, t->embedding_rate);
    t->matrix_rate = rate(n->matrix_rate, t->matrix_rate);
    t->unembedding_rate = rate(n->unembedding_rate, t->unembedding_rate);
    t->scalar_rate = rate(n->scalar_rate, t->scalar_rate);
    t->data_seed = n->seed;
    t->log_every = 10;
    t->eval_every = 0;
    t->save_every = n->save_every;
    t->keep = 1;
    memcpy(t->multiples, n->multiples, sizeof t->multiples);
}

/* Haystacks step * batch and following; the answers alone are scored. */
static sia_status fill(void *context, int64_t step, uint32_t *ids, uint32_t *targets, sia_error *err) {
    state *s = context;
    int64_t n = s->now->settings.model.train_len, batch = s->settings.batch;
    sia_haystack h = haystack(s, s->data.train, n);
    sia_status status = SIA_OK;
    for (int64_t i = 0; !status && i < batch; i++) {
        status = sia_haystack_read(&h, (uint64_t)(step * batch + i), s->row, s->mask, NULL, err);
        memcpy(ids + i * n, s->row, (size_t)n * sizeof *ids);
        for (int64_t j = 0; j < n; j++) targets[i * n + j] = s->mask[j] ? s->row[j + 1] : SIA_NO_TARGET;
    }
    return status;
}

static int show_training(void *context, const sia_train_event *event) {
    return tell(context, (sia_needle_event){.kind = SIA_NEEDLE_TRAINING, .training = event});
}

static sia_status fine_tune(state *s, sia_error *err) {
    const subject *u = s->now;
    size_t length = (size_t)u->settings.model.train_len;
    s->row = sia_alloc(length + 1, sizeof *s->row);
    s->mask = sia_alloc(length, 1);
    sia_train_job job = {.folder = u->folder,
                         .settings = &u->settings,
                         .data = &s->data,
                         .threads = s->job->threads,
                         .resume = true,
                         .initial = u->path,
                         .command = s->job->command,
                         .fill = fill,
                         .fill_context = s,
                         .hook = show_training,
                         .hook_context = s,
                         .comm = s->job->comm};
    sia_status status =
        s->row && s->mask ? SIA_OK : sia_fail_memory(err, length * sizeof *s->row, "haystack");
    /* The folder of a study may come from someone else. */
    if (!status && is_first(s)) status = sia_link_refuse(s->job->folder, u->name, err);
    status = sia_comm_agree(s->job->comm, status, err);
    if (!status) status = sia_train(&job, err);
    if (status == SIA_NUMBER && err) (void)sia_fail(err, status, "%s: %s", u->name, err->text);
    sia_free(s->row);
    sia_free(s->mask);
    s->row = NULL;
    s->mask = NULL;
    return status;
}

/* ------------------------------------------------------------------------------------------------ measuring */

typedef struct measuring {
    const state *s;
    int64_t length;
} measuring;

static int show_reading(void *context, const char *phase, double done) {
    (void)phase;
    const measuring *m = context;
    return tell(m->s, (sia_needle_event){.kind = SIA_NEEDLE_READING, .length = m->length, .done = done});
}

static sia_status measure(state *s, sia_model *model, int64_t length, sia_retrieval_result *result,
                          sia_error *err) {
    measuring m = {s, length};
    sia_retrieval r = {.haystack = haystack(s, text_of(s, length), length),
                       .samples = s->settings.samples,
                       .threads = s->job->threads,
                       .progress = show_reading,
                       .progress_context = &m,
                       .comm = s->job->comm};
    sia_scheme scheme;
    sia_status status = sia_scheme_parse(s->now->settings.model.scheme, &scheme, err);
    /* NTK and YaRN know how long the text will be. */
    if (!status && sia_extends_rope(scheme.rotary))
        status = sia_model_set_scheme(model, s->now->settings.model.scheme, length, err);
    if (!status) status = sia_retrieval_of_model(model, &r, result, err);
    return status;
}

static void remember(subject *u, int64_t length, const sia_retrieval_result *result) {
    if (length == u->settings.model.train_len)
        u->first_accuracy = (double)result->right / (double)result->count;
}

static sia_needle_about about(const state *s, int64_t length) {
    const sia_model_config *m = &s->now->settings.model;
    return (sia_needle_about){.run = s->now->name,
                              .scheme = m->scheme,
                              .seed = m->seed,
                              .train_len = m->train_len,
                              .length = length,
                              .steps = s->settings.steps,
                              .needles = s->settings.samples * s->settings.needles,
                              .first_accuracy = s->now->first_accuracy};
}

static sia_status put_lines(state *s, int64_t length, const sia_retrieval_result *result, sia_error *err) {
    sia_needle_about a = about(s, length);
    return is_first(s) ? sia_needle_lines_put(&s->lines, &a, result, err) : SIA_OK;
}

/* What rank 0 has of a length, on all ranks. */
static sia_status find_lines(state *s, int64_t length, sia_retrieval_result *result, bool *found,
                             sia_error *err) {
    sia_needle_about a = about(s, length);
    *found = false;
    sia_status status = is_first(s) ? sia_needle_lines_find(&s->lines, &a, result, found, err) : SIA_OK;
    status = sia_comm_agree(s->job->comm, status, err);
    if (!status) status = sia_comm_broadcast(s->job->comm, found, sizeof *found, 0, err);
    return status ? status : sia_comm_broadcast(s->job->comm, result, sizeof *result, 0, err);
}

/* Goes through the lengths. Without a model it tells those whose lines are there, with one it measures the others.
 * *missing: how many had no lines. */
static sia_status lengths(state *s, sia_model *model, int *missing, sia_error *err) {
    *missing = 0;
    for (int i = 0; s->settings.multiples[i]; i++) {
        int64_t length = s->settings.multiples[i] * s->now->settings.model.train_len;
        sia_retrieval_result result;
        bool found = false;
        sia_status status = find_lines(s, length, &result, &found, err);
        if (status) return status;
        *missing += !found;
        if (found != !model) continue;
        if (!found) status = measure(s, model, length, &result, err);
        if (status) return status;
        remember(s->now, length, &result);
        if (!found) status = put_lines(s, length, &result, err);
        if (!status &&
            tell(s, (sia_needle_event){.kind = SIA_NEEDLE_MEASURED,
                                       .length = length,
                                       .result = &result,
                                       .found = found,
                                       .in_training_text = !found && text_of(s, length) == s->data.train}))
            status = stopped(err);
        status = sia_comm_agree(s->job->comm, status, err);
        if (status) return status;
    }
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ the whole */

static sia_status work_on(state *s, sia_error *err) {
    json_t *description = NULL;
    subject *u = s->now;
    sia_status status = sia_train_config_read(u->path, &u->settings, &description, err);
    if (status) return status;
    take_settings(&u->settings.training, &s->settings);
    status = sia_settings_complete(&u->settings, err);
    if (!status && is_first(s)) status = sia_needle_lines_check_name(&s->lines, u->name, u->path, err);
    if (!status && tell(s, (sia_needle_event){.kind = SIA_NEEDLE_BEGUN})) status = stopped(err);
    status = sia_comm_agree(s->job->comm, status, err);
    int missing = 0;
    if (!status) status = lengths(s, NULL, &missing, err);
    if (!status && missing) {
        sia_model *model = NULL;
        status = open_data(s, description, err);
        if (!status) status = try_haystacks(s, err);
        if (!status && is_first(s)) status = sia_needle_lines_name(&s->lines, u->name, u->path, err);
        status = sia_comm_agree(s->job->comm, status, err);
        if (!status) status = fine_tune(s, err);
        if (!status)
            status = sia_comm_agree(s->job->comm,
                                    sia_model_load(&model, u->folder, s->job->threads, NULL, err), err);
        if (!status) status = lengths(s, model, &missing, err);
        sia_model_destroy(model);
    }
    json_decref(description);
    if (!status && tell(s, (sia_needle_event){.kind = SIA_NEEDLE_FINISHED})) status = stopped(err);
    return sia_comm_agree(s->job->comm, status, err);
}

static sia_status check_names(const sia_needle_job *job, char **names, sia_error *err) {
    for (int i = 0; i < job->count; i++) {
        size_t length;
        const char *last = sia_path_last(job->runs[i].path, &length);
        names[i] = job->runs[i].name ? strdup(job->runs[i].name) : strndup(last, length);
        if (!names[i]) return sia_fail_memory(err, strlen(job->runs[i].path), "names");
        if (!*names[i] || strchr(names[i], '/') || !strcmp(names[i], ".") || !strcmp(names[i], "..") ||
            !strcmp(names[i], "lock") || !strcmp(names[i], "needle.jsonl"))
            return sia_fail(err, SIA_ARGUMENT, "'%s': a run needs a folder with a name of its own",
                            job->runs[i].path);
        for (int j = 0; j < i; j++)
            if (!strcmp(names[i], names[j]))
                return sia_fail(err, SIA_ARGUMENT, "%s and %s: two runs of one name, '%s'", job->runs[j].path,
                                job->runs[i].path, names[i]);
    }
    return SIA_OK;
}

static sia_status check(state *s, sia_error *err) {
    sia_needle_settings *t = &s->settings;
    sia_status status = sia_fields_check(t, sia_needle_fields, err);
    if (status) return status;
    if (t->warmup < 0) t->warmup = t->steps / 3;
    if (s->job->count < 1) return sia_fail(err, SIA_ARGUMENT, "needle: no run is named");
    if (t->multiples[0] < 1 || t->multiples[SIA_MAX_LENGTHS - 1])
        return sia_fail(err, SIA_ARGUMENT, "needle: want 1 to %d lengths", SIA_MAX_LENGTHS - 1);
    /* The training length first: it says whether the task was learnt. */
    for (int i = 1; t->multiples[i]; i++)
        if (t->multiples[i] <= t->multiples[i - 1])
            return sia_fail(err, SIA_ARGUMENT, "lengths: %lldx after %lldx: want them in rising order",
                            (long long)t->multiples[i], (long long)t->multiples[i - 1]);
    return SIA_OK;
}

/* Before anything is written: all runs are there. */
static sia_status look_at_runs(const sia_needle_job *job, sia_error *err) {
    sia_status status = SIA_OK;
    for (int i = 0; !status && i < job->count; i++) {
        sia_settings ignored;
        status = sia_train_config_read(job->runs[i].path, &ignored, NULL, err);
    }
    return status;
}

static sia_status all_runs(state *s, char **names, sia_error *err) {
    sia_status status = SIA_OK;
    if (is_first(s))
        status = sia_needle_lines_begin(&s->lines, s->job->folder, study_line(s), s->job->resume, err);
    status = sia_comm_agree(s->job->comm, status, err);
    for (int i = 0; !status && i < s->job->count; i++) {
        subject u = {.index = i, .path = s->job->runs[i].path, .name = names[i], .first_accuracy = -1};
        u.folder = sia_path_join(s->job->folder, names[i]);
        s->now = &u;
        status = u.folder ? work_on(s, err) : sia_fail_memory(err, strlen(names[i]), "path");
        free(u.folder);
        s->now = NULL;
    }
    return status;
}

sia_status sia_needle_run(const sia_needle_job *job, sia_error *err) {
    state s = {.job = job, .settings = *job->settings};
    sia_status status = check(&s, err);
    if (status) return status;
    char **names = calloc((size_t)job->count, sizeof *names);
    status = names ? check_names(job, names, err) : sia_fail_memory(err, 64, "names");
    if (!status) status = look_at_runs(job, err);
    if (!status && is_first(&s)) status = sia_run_open(&s.lock, job->folder, err);
    status = sia_comm_agree(job->comm, status, err);
    if (!status) status = all_runs(&s, names, err);
    sia_run_close(s.lock);
    sia_train_data_close(&s.data);
    sia_needle_lines_free(&s.lines);
    free(s.tokenizer_text);
    for (int i = 0; names && i < job->count; i++) free(names[i]);
    free(names);
    return status;
}
