/* SPDX-License-Identifier: MIT
 *
 * The trainings of the plan, each of them trained and evaluated, several at a time; see compare.h. */
#include "study/compare.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/path.h"
#include "data/windows.h"
#include "model/validation.h"
#include "study/compare_lines.h"
#include "study/compare_plan.h"
#include "train/contents.h"
#include "train/model_file.h"

enum { STUDY_MOST = 1 << 20 };

typedef struct study {
    const sia_compare_job *job;
    sia_comm *comm;
    sia_run *run;  /* rank 0's: the lock, and compare.jsonl */
    json_t *lines; /* of other ranks, until rank 0 gets them */
    sia_train_data data;
    sia_train_data run_data; /* the same, described as it is found from the folder of a run */
    sia_plan plan;
    sia_held_out held_out;
    int inner_threads;
    sia_finished finished; /* results from before */
    pthread_mutex_t lock;
    sia_status status; /* the first failure */
    sia_error err;
    bool stopping;
} study;

/* ------------------------------------------------------------------------------------------------ the folder */

/* The text is made, and the windows are laid, for the largest value of a sweep like these: with a larger one, results
 * from before would be of other text or of other tokens. */
static bool sizes_text(const char *sweep, const json_t *data) {
    const char *kind = json_string_value(json_object_get(data, "kind"));
    bool generated = kind && !strcmp(kind, "generated");
    return !strcmp(sweep, "train_len") || (generated && (!strcmp(sweep, "steps") || !strcmp(sweep, "batch")));
}

/* What must be the same for a study to go on: all but the schemes, the number of seeds and most values of a sweep. */
static json_t *budget_json(const study *s, const json_t *data) {
    const sia_compare_job *job = s->job;
    sia_settings settings = *job->settings;
    memset(settings.model.scheme, 0, sizeof settings.model.scheme);
    json_t *json = json_pack("{s:o}", "settings", sia_settings_json(&settings));
    if (job->sweep) sia_json_set(&json, "sweep", sia_json_text(job->sweep));
    if (job->sweep && sizes_text(job->sweep, data)) {
        double largest = job->sweep_values[0];
        for (int i = 1; i < job->sweep_count; i++) largest = fmax(largest, job->sweep_values[i]);
        sia_json_set(&json, "sweep_largest", json_integer((json_int_t)largest));
    }
    return json;
}

static void at_least(int64_t *number, int64_t least) {
    if (*number < least) *number = least;
}

/* The text must be enough for the largest of the variants, whatever is swept. */
static sia_status prepare_data(study *s, sia_settings *settings, sia_error *err) {
    sia_training_settings *t = &settings->training;
    for (int64_t i = 0; i < s->plan.count; i++) {
        const sia_settings *part = &s->plan.parts[i].settings;
        at_least(&settings->model.train_len, part->model.train_len);
        at_least(&t->steps, part->training.steps);
        at_least(&t->batch, part->training.batch);
    }
    return sia_train_data_prepare(&s->data, s->job->source, s->job->folder, settings, err);
}

static sia_status open_old(study *s, const char *path, sia_error *err) {
    json_t *json = NULL, *budget = NULL;
    sia_status status = sia_json_read(&json, path, STUDY_MOST, err);
    if (!status && !(budget = budget_json(s, json_object_get(json, "data"))))
        status = sia_fail_memory(err, 4096, "study.json");
    const json_t *before = json_object_get(json, "budget");
    bool same_sweep = json_equal(json_object_get(before, "sweep"), json_object_get(budget, "sweep"));
    int64_t was = json_integer_value(json_object_get(before, "sweep_largest"));
    if (!status && same_sweep && was != json_integer_value(json_object_get(budget, "sweep_largest")))
        status = sia_fail(err, SIA_ARGUMENT,
                          "%s: holds a sweep of %s up to %lld: want that value among those here, and none "
                          "above it; or name another folder",
                          s->job->folder, s->job->sweep, (long long)was);
    if (!status && !json_equal(before, budget))
        status = sia_fail(err, SIA_ARGUMENT, "%s: holds a study with %s: name another folder", s->job->folder,
                          sia_json_difference(before, budget, (char[160]){0}));
    if (!status) status = sia_train_data_same(json_object_get(json, "data"), s->job->source, err);
    if (!status)
        status = sia_train_data_open(&s->data, json_object_get(json, "data"),
                                     &(sia_data_opening){.folder = s->job->folder,
                                                         .threads = s->job->threads,
                                                         .stopped = s->job->source->stopped},
                                     err);
    json_decref(json);
    json_decref(budget);
    return status;
}

static sia_status open_new(study *s, const char *path, sia_error *err) {
    sia_settings settings = *s->job->settings;
    sia_status status = prepare_data(s, &settings, err);
    if (status) return status;
    json_t *json =
        json_pack("{s:o, s:O}", "budget", budget_json(s, s->data.description), "data", s->data.description);
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(json);
    status =
        text ? sia_file_replace(path, text, strlen(text), err) : sia_fail_memory(err, 4096, "study.json");
    free(text);
    return status;
}

/* Every part follows the text, and the text has windows for each: known before the first is trained. */
static sia_status fit_parts(study *s, sia_error *err) {
    sia_status status = SIA_OK;
    if (!s->plan.parts[0].settings.training.multiples[0])
        return sia_fail(err, SIA_ARGUMENT, "multiples: want a length to compare at");
    if (!s->data.val)
        return sia_fail(
            err, SIA_ARGUMENT,
            "there is no text to validate on: name some with --val, or pack the text with a part for it");
    for (int64_t i = 0; !status && i < s->plan.count; i++) {
        sia_settings *settings = &s->plan.parts[i].settings;
        status = sia_train_fit_vocabulary(settings, s->job->source, s->data.train, err);
        sia_windows *windows = NULL;
        if (!status && s->plan.parts[i].seed == 0) /* other seeds have the same */
            status = sia_windows_make(&windows, s->data.val, s->plan.longest, settings->training.eval_windows,
                                      settings->training.join, err);
        if (windows && (!s->held_out.windows || sia_windows_count(windows) < s->held_out.windows))
            s->held_out = (sia_held_out){.windows = sia_windows_count(windows),
                                         .wanted = settings->training.eval_windows,
                                         .length = s->plan.longest};
        sia_windows_destroy(windows);
    }
    return status;
}

static sia_status open_folder(study *s, sia_error *err) {
    char *path = sia_path_join(s->job->folder, "study.json"), *runs = sia_path_join(s->job->folder, "runs");
    bool begun = false;
    sia_status status = path && runs ? sia_file_there(path, &begun, err) : sia_fail_memory(err, 64, "path");
    if (!status) status = begun ? open_old(s, path, err) : open_new(s, path, err);
    if (!status) status = sia_folder_ensure(runs, err);
    free(path);
    free(runs);
    if (status) return status;
    s->run_data = s->data;
    s->run_data.description = json_deep_copy(s->data.description);
    const char *data = json_string_value(json_object_get(s->run_data.description, "path"));
    if (data && !strcmp(data, "data"))
        sia_json_set(&s->run_data.description, "path", json_string("../../data"));
    if (!s->run_data.description) return sia_fail_memory(err, 256, "description");
    return fit_parts(s, err);
}

/* ------------------------------------------------------------------------------------------------ results */

/* Called with the lock held. */
static int tell(study *s, sia_compare_event event) {
    for (int64_t i = 0; i < s->plan.count; i++) {
        event.done += s->plan.parts[i].done / (double)s->plan.count;
        event.found += s->plan.parts[i].found / (double)s->plan.count;
    }
    if (s->job->hook && s->job->hook(s->job->hook_context, &event)) s->stopping = true;
    return s->stopping;
}

static sia_status append(study *s, json_t *object, sia_error *err) {
    if (s->lines) {
        int failed = json_array_append_new(s->lines, object);
        return failed ? sia_fail_memory(err, 4096, "results") : SIA_OK;
    }
    char *line = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
    json_decref(object);
    sia_status status =
        line ? sia_run_append(s->run, SIA_RUN_COMPARE, line, err) : sia_fail_memory(err, 4096, "results");
    free(line);
    return status;
}

static sia_status write_header(study *s, sia_error *err) {
    const sia_settings *first = &s->plan.parts[0].settings;
    char text[512], date[16];
    time_t seconds = time(NULL);
    struct tm day;
    (void)strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&seconds, &day));
    json_t *lengths = json_array();
    for (int i = 0; first->training.multiples[i]; i++)
        sia_json_push(&lengths, json_integer(first->training.multiples[i] * first->model.train_len));
    json_t *config = sia_settings_json(first), *model = json_object_get(config, "model");
    /* Of the first part alone: each has its own. */
    if (model) (void)json_object_del(model, "scheme");
    json_t *json = json_pack("{s:s, s:s, s:o, s:I, s:o, s:I, s:s, s:s}", "kind", "study", "version",
                             sia_version(), "config", config, "train_len", (json_int_t)first->model.train_len,
                             "lengths", lengths, "windows", (json_int_t)s->held_out.windows, "data",
                             sia_train_data_text(&s->data, text, sizeof text), "date", date);
    if (s->job->command) sia_json_set(&json, "command", sia_json_text(s->job->command));
    if (s->job->machine) sia_json_set(&json, "machine", json_deep_copy(s->job->machine));
    return append(s, json, err);
}

/* ------------------------------------------------------------------------------------------------ one part */

typedef struct worker {
    study *s;
    sia_part *p;
    bool whole;                 /* it was trained from its first step on, so that its time is known */
    double share_before, share; /* of the part's work that this step covers */
} worker;

/* Training is most of a part: each evaluation counts as a tenth of it. */
static double training_share(const sia_part *p) { return 1 / (1 + 0.1 * p->scheme_count); }

static int train_hook(void *context, const sia_train_event *e) {
    worker *w = context;
    double trained = training_share(w->p) * (double)e->step / (double)w->p->settings.training.steps;
    if (e->kind == SIA_TRAIN_STARTED) w->whole = e->step == 0;
    pthread_mutex_lock(&w->s->lock);
    int stop = w->s->stopping;
    if (e->kind == SIA_TRAIN_STARTED) w->p->done = w->p->found = trained;
    if (e->kind == SIA_TRAIN_STEP || e->kind == SIA_TRAIN_VALIDATING) {
        w->p->done = trained;
        stop =
            tell(w->s, (sia_compare_event){.running = w->p->name, .loss = e->result ? e->result->loss : 0});
    }
    pthread_mutex_unlock(&w->s->lock);
    return stop;
}

static int evaluation_progress(void *context, const char *phase, double done) {
    (void)phase;
    worker *w = context;
    pthread_mutex_lock(&w->s->lock);
    w->p->done = w->share_before + done * w->share;
    int stop = tell(w->s, (sia_compare_event){.running = w->p->name});
    pthread_mutex_unlock(&w->s->lock);
    return stop;
}

static sia_status evaluate_lengths(worker *w, sia_model *m, const char *scheme, const sia_windows *windows,
                                   int64_t longest, sia_compare_result *r, double *by_position,
                                   sia_error *err) {
    const int64_t *multiples = w->p->settings.training.multiples;
    int64_t train_len = w->p->settings.model.train_len;
    int count = 0;
    while (multiples[count]) count++;
    double begun = w->p->done, share = 0.1 * training_share(w->p) / count;
    for (int i = 0; i < count; i++) {
        sia_validation_result result;
        w->share_before = begun + i * share;
        w->share = share;
        sia_validation v = {.windows = windows,
                            .length = longest,
                            .parts = longest / (multiples[i] * train_len),
                            .scheme = scheme,
                            .progress = evaluation_progress,
                            .progress_context = w,
                            .by_position =
                                multiples[i] * train_len == sia_part_longest(w->p) ? by_position : NULL};
        sia_status status = sia_validate(m, &v, &result, err);
        if (status) return status;
        r->losses[i] = result.loss;
    }
    return SIA_OK;
}

/* A result from before is told, so that tables are whole. */
static bool tell_finished(worker *w, const char *scheme) {
    sia_compare_result r = sia_result_of(w->p, scheme);
    if (!sia_finished_result(&w->s->finished, &r)) return false;
    pthread_mutex_lock(&w->s->lock);
    (void)tell(w->s, (sia_compare_event){.result = &r});
    pthread_mutex_unlock(&w->s->lock);
    return true;
}

static sia_status evaluate(worker *w, const char *folder, const char *scheme, const sia_windows *windows,
                           int64_t longest, double seconds, sia_error *err) {
    sia_compare_result r = sia_result_of(w->p, scheme);
    int64_t own = sia_part_longest(w->p); /* the windows may be longer */
    double *by_position = sia_alloc((size_t)own, sizeof *by_position);
    sia_model *m = NULL;
    sia_status status =
        by_position ? SIA_OK : sia_fail_memory(err, (size_t)own * sizeof *by_position, "evaluation");
    if (!status) status = sia_model_load(&m, folder, w->s->inner_threads, NULL, err);
    if (!status) status = evaluate_lengths(w, m, scheme, windows, longest, &r, by_position, err);
    if (!status) {
        r.parameters = sia_model_size(m);
        r.seconds = seconds;
        pthread_mutex_lock(&w->s->lock);
        /* The result comes last: where it is, all of the evaluation is. */
        status = append(w->s, sia_position_line(&r, own, by_position), err);
        if (!status) status = append(w->s, sia_result_line(&r, &w->p->settings), err);
        if (!status) (void)tell(w->s, (sia_compare_event){.result = &r});
        pthread_mutex_unlock(&w->s->lock);
    }
    sia_model_destroy(m);
    sia_free(by_position);
    return status;
}

/* A line of the training itself, whatever its model is evaluated with; takes `loss`. length 0: it has none. */
static sia_status append_step(worker *w, const char *kind, int64_t step, int64_t length, json_t *loss,
                              sia_error *err) {
    const sia_part *p = w->p;
    json_t *json =
        json_pack("{s:s, s:s, s:s*, s:I, s:I}", "kind", kind, "scheme", p->settings.model.scheme, "variant",
                  *p->variant ? p->variant : NULL, "seed", (json_int_t)p->seed, "step", (json_int_t)step);
    if (length) sia_json_set(&json, "length", json_integer((json_int_t)length));
    sia_json_set(&json, "loss", loss);
    pthread_mutex_lock(&w->s->lock);
    sia_status status = append(w->s, json, err);
    pthread_mutex_unlock(&w->s->lock);
    return status;
}

/* How much of the mean so far stays when a loss comes: over five lines of the log, or a tenth of a log that is shorter
 * than 50. More would show the beginning of a short training at its end. */
static double kept_of_mean(const sia_training_settings *t) {
    double lines = (double)t->steps / (double)t->log_every;
    return fmax(0, fmin(0.8, 1 - 10 / lines));
}

/* Lines of the run's metrics go to compare.jsonl with the name of the scheme: about 50 of the loss, which is smoothed,
 * and all of validation. */
static sia_status append_curve(worker *w, const char *folder, sia_error *err) {
    sia_json_log log;
    json_t *line;
    sia_status status = sia_json_log_open(&log, folder, "metrics.jsonl", PTRDIFF_MAX, err);
    if (!status && !log.text) status = sia_fail(err, SIA_FILE, "%s: not there after training", log.path);
    int64_t every = w->p->settings.training.steps / 50 + 1, next = every;
    double smoothed = 0, keep = kept_of_mean(&w->p->settings.training);
    while (!status && sia_json_log_next(&log, &line, &status, err)) {
        int64_t step = json_integer_value(json_object_get(line, "step"));
        const json_t *loss = json_object_get(line, "loss");
        const char *length;
        json_t *value;
        if (loss)
            smoothed = smoothed == 0 ? json_number_value(loss)
                                     : keep * smoothed + (1 - keep) * json_number_value(loss);
        if (loss && step >= next) {
            next = step + every;
            status = append_step(w, "curve", step, 0, json_real(smoothed), err);
        }
        json_object_foreach(json_object_get(line, "validation"), length, value) {
            if (!status) status = append_step(w, "validation", step, atoll(length), json_incref(value), err);
        }
        json_decref(line);
    }
    sia_json_log_close(&log);
    return status;
}

static void set_done(worker *w) {
    pthread_mutex_lock(&w->s->lock);
    w->p->done = 1;
    pthread_mutex_unlock(&w->s->lock);
}

/* What a scheme has for its result where the training, or its loss at some length, left all bounds. */
static sia_status put_divergence(worker *w, const char *scheme, const sia_error *how, sia_error *err) {
    sia_compare_result r = sia_result_of(w->p, scheme);
    r.diverged = how->text;
    for (int i = 0; r.multiples[i]; i++) r.losses[i] = NAN;
    pthread_mutex_lock(&w->s->lock);
    sia_status status = append(w->s, sia_result_line(&r, &w->p->settings), err);
    if (!status) (void)tell(w->s, (sia_compare_event){.result = &r});
    pthread_mutex_unlock(&w->s->lock);
    return status;
}

static sia_status put_divergences(worker *w, const sia_error *how, sia_error *err) {
    sia_status status = SIA_OK;
    set_done(w);
    for (int i = 0; !status && i < w->p->scheme_count; i++)
        if (!tell_finished(w, w->p->schemes[i])) status = put_divergence(w, w->p->schemes[i], how, err);
    return status;
}

static sia_status run_part(worker *w, const char *folder, sia_error *err) {
    const sia_settings *settings = &w->p->settings;
    /* Validation on the way is for curves; the figures of the table are made below. */
    sia_settings training = *settings;
    if (training.training.eval_every == 0)
        memset(training.training.multiples, 0, sizeof training.training.multiples);
    sia_train_job job = {.folder = folder,
                         .settings = &training,
                         .data = &w->s->run_data,
                         .threads = w->s->inner_threads,
                         .resume = true,
                         .hook = train_hook,
                         .hook_context = w};
    double started = sia_seconds();
    sia_status status = sia_train(&job, err);
    double seconds = w->whole ? sia_seconds() - started : 0;
    sia_error how = *err;
    if (status == SIA_NUMBER) return put_divergences(w, &how, err);
    if (status) return status;
    sia_windows *windows;
    int64_t longest = w->s->plan.longest;
    status = sia_windows_make(&windows, w->s->data.val, longest, settings->training.eval_windows,
                              settings->training.join, err);
    if (status) return status;
    bool curve = sia_finished_training(&w->s->finished, settings->model.scheme, w->p->variant, w->p->seed);
    for (int i = 0; !status && i < w->p->scheme_count; i++)
        if (!tell_finished(w, w->p->schemes[i])) {
            if (!curve) status = append_curve(w, folder, err);
            curve = true;
            if (!status) status = evaluate(w, folder, w->p->schemes[i], windows, longest, seconds, err);
            how = *err;
            if (status == SIA_NUMBER) status = put_divergence(w, w->p->schemes[i], &how, err);
        }
    sia_windows_destroy(windows);
    set_done(w);
    return status;
}

/* The parts of this rank, by number. */
static sia_part *own_part(const study *s, int64_t i) {
    return &s->plan.parts[sia_comm_rank(s->comm) + i * sia_comm_size(s->comm)];
}

static bool is_finished(const study *s, const sia_part *p) {
    for (int i = 0; i < p->scheme_count; i++)
        if (!sia_finished_has(&s->finished, p->schemes[i], p->variant, p->seed)) return false;
    return true;
}

static void part_task(void *context, int64_t task, int worker_index) {
    (void)worker_index;
    study *s = context;
    worker w = {.s = s, .p = own_part(s, task)};
    pthread_mutex_lock(&s->lock);
    bool skip = s->status || s->stopping;
    pthread_mutex_unlock(&s->lock);
    if (skip) return;
    if (is_finished(s, w.p)) {
        for (int i = 0; i < w.p->scheme_count; i++) (void)tell_finished(&w, w.p->schemes[i]);
        return;
    }
    sia_error err = {0};
    char *runs = sia_path_join(s->job->folder, "runs"),
         *folder = runs ? sia_path_join(runs, w.p->name) : NULL;
    sia_status status = folder ? sia_link_refuse(runs, w.p->name, &err) : sia_fail_memory(&err, 64, "path");
    if (!status) status = run_part(&w, folder, &err);
    free(runs);
    free(folder);
    pthread_mutex_lock(&s->lock);
    if (status && !s->status) {
        s->status = status;
        s->err = err;
        s->stopping = true; /* the others write their checkpoints and end */
    }
    pthread_mutex_unlock(&s->lock);
}

/* ------------------------------------------------------------------------------------------------ ranks */

/* Waits for other ranks may be as long as their trainings. A rank that dies ends the job without them. */
static const double training_most = 365.0 * 86400;

/* The lines of other ranks, in the order of the ranks. */
static sia_status write_lines(study *s, char **texts, sia_error *err) {
    sia_status status = SIA_OK;
    for (int r = 1; !status && r < sia_comm_size(s->comm); r++) {
        json_t *lines, *line;
        size_t i;
        status = sia_json_parse(&lines, texts[r], strlen(texts[r]), 0, "lines of a rank", err);
        json_array_foreach(lines, i, line) {
            if (!status) status = sia_finished_take(&s->finished, &s->plan, line, "a rank", err);
            if (!status) status = append(s, json_incref(line), err);
        }
        json_decref(lines);
    }
    return status;
}

/* Rank 0 writes what the others found, and tells it. */
static sia_status collect(study *s, sia_error *err) {
    int ranks = sia_comm_size(s->comm), rank = sia_comm_rank(s->comm);
    if (ranks == 1) return SIA_OK;
    char **texts = calloc((size_t)ranks, sizeof *texts);
    char *text = s->lines ? json_dumps(s->lines, JSON_COMPACT | JSON_REAL_PRECISION(17)) : strdup("[]");
    sia_status status = texts && text ? SIA_OK : sia_fail_memory(err, 4096, "lines");
    status = sia_comm_agree(s->comm, status, err);
    if (!status) status = sia_comm_gather_texts(s->comm, text, texts, err);
    if (!status && rank == 0) {
        status = write_lines(s, texts, err);
        for (int64_t i = 0; !status && i < s->plan.count; i++) {
            worker w = {.s = s, .p = &s->plan.parts[i]};
            if (i % ranks == 0) continue;
            w.p->done = 1;
            for (int j = 0; j < w.p->scheme_count; j++) (void)tell_finished(&w, w.p->schemes[j]);
        }
    }
    for (int r = 0; texts && r < ranks; r++) free(texts[r]);
    free(texts);
    free(text);
    return status;
}

/* ------------------------------------------------------------------------------------------------ the whole */

/* Whether the study has no line of its own yet, or this command is another one and finds something to do: the report
 * names all that it takes to make the study again. */
static bool is_new_command(const study *s) {
    const char *command = s->job->command ? s->job->command : "";
    if (json_object_size(s->finished.results) == 0) return true;
    if (json_object_get(s->finished.commands, command)) return false;
    for (int64_t i = 0; i < s->plan.count; i++)
        if (!is_finished(s, &s->plan.parts[i])) return true;
    return false;
}

/* Rank 0 first, which may have to prepare the data; the others find it done. */
static sia_status open_study(study *s, sia_error *err) {
    bool first = sia_comm_rank(s->comm) == 0;
    sia_status status = first ? sia_run_open(&s->run, s->job->folder, err) : SIA_OK;
    if (!first && !(s->lines = json_array())) status = sia_fail_memory(err, 64, "lines");
    if (!status) status = sia_plan_make(&s->plan, s->job, err);
    if (!status && first) status = open_folder(s, err);
    status = sia_comm_agree(s->comm, status, err);
    if (!status && !first) status = open_folder(s, err);
    if (!status) status = sia_finished_read(&s->finished, &s->plan, s->job->folder, err);
    if (!status) status = sia_finished_check_names(&s->finished, &s->plan, err);
    if (!status && first) status = sia_finished_drop_rest(&s->finished, s->job->folder, err);
    status = sia_comm_agree(s->comm, status, err);
    if (!status) status = sia_corpus_same(s->comm, "text to train on", s->data.train, err);
    if (!status) status = sia_corpus_same(s->comm, "text to validate on", s->data.val, err);
    if (!status && first && is_new_command(s)) status = write_header(s, err);
    return status;
}

static sia_status train_parts(study *s, sia_error *err) {
    int threads = s->job->threads ? s->job->threads : sia_threads_available();
    int ranks = sia_comm_size(s->comm);
    int64_t own = (s->plan.count - sia_comm_rank(s->comm) + ranks - 1) / ranks, left = 0;
    for (int64_t i = 0; i < own; i++) left += !is_finished(s, own_part(s, i));
    for (int64_t i = 0; i < s->plan.count; i++)
        if (is_finished(s, &s->plan.parts[i])) s->plan.parts[i].done = s->plan.parts[i].found = 1;
    bool side_by_side = left > 1; /* one each, with a thread for each; the only one has all threads */
    s->inner_threads = side_by_side ? 1 : threads;
    pthread_mutex_lock(&s->lock);
    (void)tell(s, (sia_compare_event){.data = &s->data, .held_out = s->held_out});
    pthread_mutex_unlock(&s->lock);
    sia_parallel(side_by_side ? threads : 1, own, part_task, s);
    if (s->status && err) *err = s->err;
    if (s->status) return s->status;
    return s->stopping ? sia_fail(err, SIA_STOPPED, "stopped") : SIA_OK;
}

sia_status sia_compare(const sia_compare_job *job, sia_error *err) {
    study s = {.job = job, .comm = job->comm, .lock = PTHREAD_MUTEX_INITIALIZER};
    double timeout = sia_comm_set_timeout(job->comm, training_most);
    sia_status status = sia_comm_agree(job->comm, open_study(&s, err), err);
    if (!status) {
        sia_error later;
        status = train_parts(&s, err);
        sia_status collected = collect(&s, &later);
        if (!status && collected && err) *err = later;
        if (!status) status = collected;
        status = sia_comm_agree(job->comm, status, err);
    }
    (void)sia_comm_set_timeout(job->comm, timeout);
    json_decref(s.lines);
    sia_finished_free(&s.finished);
    json_decref(s.run_data.description);
    sia_train_data_close(&s.data);
    sia_free(s.plan.parts);
    sia_run_close(s.run);
    return status;
}
