/* SPDX-License-Identifier: MIT
 *
 * Results as lines of compare.jsonl, and which of its lines count: see compare_lines.h. */
#include "study/compare_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"

enum { LOG_MOST = 1 << 28, KEY = 160 /* more than the names of a plan take: a longer one is none of them */ };

static const char file_name[] = "compare.jsonl";

/* ------------------------------------------------------------------------------------------------ writing */

enum { LENGTH = 24 };

/* What the loss at length i is called. */
static const char *length_at(const sia_compare_result *r, int i, char text[LENGTH]) {
    (void)snprintf(text, LENGTH, "%" PRId64, r->multiples[i] * r->train_len);
    return text;
}

sia_compare_result sia_result_of(const sia_part *p, const char *scheme) {
    return (sia_compare_result){.scheme = scheme,
                                .variant = p->variant,
                                .seed = p->seed,
                                .train_len = p->settings.model.train_len,
                                .multiples = p->settings.training.multiples};
}

json_t *sia_result_line(const sia_compare_result *r, const sia_settings *settings) {
    int64_t tokens = settings->training.steps * settings->training.batch * r->train_len;
    json_t *loss = json_object();
    for (int i = 0; r->multiples[i]; i++)
        sia_json_set(&loss, length_at(r, i, (char[LENGTH]){0}),
                     r->diverged ? json_null() : json_real(r->losses[i]));
    json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:o, s:f, s:I}", "kind", "result", "scheme", r->scheme,
                             "seed", (json_int_t)r->seed, "train_len", (json_int_t)r->train_len, "loss", loss,
                             "train_seconds", r->seconds, "tokens", (json_int_t)tokens);
    if (r->diverged)
        sia_json_set(&json, "diverged", sia_json_text(r->diverged));
    else
        sia_json_set(&json, "params", json_integer(r->parameters));
    if (*r->variant) sia_json_set(&json, "variant", sia_json_text(r->variant));
    return json;
}

/* Losses by position, in bins that grow by a factor of 2, for the report. */
static json_t *position_bins(const double *by_position, int64_t length) {
    json_t *bins = json_array();
    for (int64_t from = 0, to = 8; from < length; from = to, to *= 2) {
        double sum = 0;
        if (to > length) to = length;
        for (int64_t i = from; i < to; i++) sum += by_position[i];
        sia_json_push(&bins, json_pack("{s:I, s:I, s:f}", "from", (json_int_t)from, "to", (json_int_t)to,
                                       "loss", sum / (double)(to - from)));
    }
    return bins;
}

json_t *sia_position_line(const sia_compare_result *r, int64_t length, const double *by_position) {
    json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:o}", "kind", "position", "scheme", r->scheme, "seed",
                             (json_int_t)r->seed, "length", (json_int_t)length, "bins",
                             position_bins(by_position, length));
    if (*r->variant) sia_json_set(&json, "variant", sia_json_text(r->variant));
    return json;
}

/* ------------------------------------------------------------------------------------------------ reading */

static void make_key(char key[KEY], const char *scheme, const char *variant, uint64_t seed) {
    (void)snprintf(key, KEY, "%s|%s|%" PRIu64, scheme, variant, seed);
}

/* What a line is about. */
typedef struct about {
    const char *kind, *scheme, *variant;
    uint64_t seed;
    bool named; /* it has a scheme and a seed */
} about;

static about about_line(const json_t *line) {
    const char *kind = json_string_value(json_object_get(line, "kind"));
    const char *scheme = json_string_value(json_object_get(line, "scheme"));
    const char *variant = json_string_value(json_object_get(line, "variant"));
    const json_t *seed = json_object_get(line, "seed");
    return (about){.kind = kind ? kind : "",
                   .scheme = scheme ? scheme : "",
                   .variant = variant ? variant : "",
                   .seed = (uint64_t)json_integer_value(seed),
                   .named = scheme && json_is_integer(seed) && json_integer_value(seed) >= 0};
}

static const char *command_of(const json_t *line) {
    const char *command = json_string_value(json_object_get(line, "command"));
    return command ? command : "";
}

bool sia_finished_has(const sia_finished *f, const char *scheme, const char *variant, uint64_t seed) {
    char key[KEY];
    make_key(key, scheme, variant, seed);
    return json_object_get(f->results, key) != NULL;
}

bool sia_finished_result(const sia_finished *f, sia_compare_result *r) {
    char key[KEY];
    make_key(key, r->scheme, r->variant, r->seed);
    const json_t *line = json_object_get(f->results, key), *loss = json_object_get(line, "loss");
    r->parameters = json_integer_value(json_object_get(line, "params"));
    r->diverged = json_string_value(json_object_get(line, "diverged"));
    for (int i = 0; r->multiples[i]; i++)
        r->losses[i] =
            r->diverged ? NAN : json_number_value(json_object_get(loss, length_at(r, i, (char[LENGTH]){0})));
    return line != NULL;
}

bool sia_finished_training(const sia_finished *f, const char *trained, const char *variant, uint64_t seed) {
    char key[KEY];
    make_key(key, trained, variant, seed);
    return json_object_get(f->trainings, key) != NULL;
}

/* ------------------------------------------------------------------------------------------------ results */

/* The part of the plan that a result is of, or NULL: a study may have been called with other schemes before. */
static const sia_part *part_of(const sia_plan *plan, const about *a) {
    for (int64_t i = 0; i < plan->count; i++) {
        const sia_part *p = &plan->parts[i];
        if (p->seed != a->seed || strcmp(p->variant, a->variant) != 0) continue;
        for (int j = 0; j < p->scheme_count; j++)
            if (!strcmp(p->schemes[j], a->scheme)) return p;
    }
    return NULL;
}

static bool is_whole(const json_t *line, const sia_part *part, const char *scheme) {
    sia_compare_result r = sia_result_of(part, scheme);
    const json_t *loss = json_object_get(line, "loss");
    bool whole = json_integer_value(json_object_get(line, "train_len")) == r.train_len;
    if (json_is_string(json_object_get(line, "diverged"))) return whole;
    whole = whole && json_integer_value(json_object_get(line, "params")) > 0;
    for (int i = 0; r.multiples[i]; i++) {
        const json_t *value = json_object_get(loss, length_at(&r, i, (char[LENGTH]){0}));
        whole = whole && json_is_number(value) && json_number_value(value) >= 0;
    }
    return whole;
}

sia_status sia_finished_take(sia_finished *f, const sia_plan *plan, json_t *line, const char *name,
                             sia_error *err) {
    about a = about_line(line);
    char key[KEY], trained[SIA_SCHEME_NAME];
    if (!strcmp(a.kind, "study") && json_object_set_new(f->commands, command_of(line), json_true()))
        return sia_fail_memory(err, KEY, "commands");
    if (strcmp(a.kind, "result") != 0) return SIA_OK;
    if (!a.named) return sia_fail(err, SIA_FORMAT, "%s: is a result without a scheme or a seed", name);
    const sia_part *part = part_of(plan, &a);
    if (part && !is_whole(line, part, a.scheme))
        return sia_fail(err, SIA_FORMAT,
                        "%s: the result of %s, seed %" PRIu64
                        ", is not whole: without this line it is made again",
                        name, a.scheme, a.seed);
    make_key(key, a.scheme, a.variant, a.seed);
    if (json_object_set(f->results, key, line)) return sia_fail_memory(err, KEY, "results");
    /* A scheme that is not known here, of another version, is its own training. */
    make_key(key, sia_trained_scheme(a.scheme, trained, NULL) ? a.scheme : trained, a.variant, a.seed);
    return json_object_set(f->trainings, key, line) ? sia_fail_memory(err, KEY, "results") : SIA_OK;
}

sia_status sia_finished_check_names(const sia_finished *f, const sia_plan *plan, sia_error *err) {
    json_t *names = json_object(), *line;
    const char *ignored;
    char key[KEY];
    bool failed = !names;
    for (int64_t i = 0; i < plan->count; i++)
        for (int j = 0; j < plan->parts[i].scheme_count; j++) {
            make_key(key, plan->parts[i].schemes[j], plan->parts[i].variant, 0);
            failed = failed || json_object_set_new(names, key, json_null());
        }
    json_object_foreach(f->results, ignored, line) {
        about a = about_line(line);
        make_key(key, a.scheme, a.variant, 0);
        failed = failed || json_object_set_new(names, key, json_null());
    }
    size_t all = json_object_size(names);
    json_decref(names);
    if (failed) return sia_fail_memory(err, KEY, "names");
    if (all <= SIA_COMPARE_NAMES) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT,
                    "%zu schemes and values together with those that the study has: want %d at most, as a "
                    "report can show: name another folder",
                    all, SIA_COMPARE_NAMES);
}

/* ------------------------------------------------------------------------------------------------ the file */

sia_status sia_finished_read(sia_finished *f, const sia_plan *plan, const char *folder, sia_error *err) {
    sia_json_log log;
    json_t *line;
    *f = (sia_finished){.results = json_object(), .trainings = json_object(), .commands = json_object()};
    sia_status status = sia_json_log_open(&log, folder, file_name, LOG_MOST, err);
    if (!status && (!f->results || !f->trainings || !f->commands))
        status = sia_fail_memory(err, 64, "results");
    while (!status && sia_json_log_next(&log, &line, &status, err)) {
        char name[512];
        (void)snprintf(name, sizeof name, "%s: line %" PRId64, log.path, log.number);
        status = sia_finished_take(f, plan, line, name, err);
        json_decref(line);
    }
    sia_json_log_close(&log);
    return status;
}

void sia_finished_free(sia_finished *f) {
    json_decref(f->results);
    json_decref(f->trainings);
    json_decref(f->commands);
    *f = (sia_finished){0};
}

/* What is not of ours, or cannot be read, stays. */
static bool stays(const sia_finished *f, const json_t *line, json_t *commands) {
    about a = about_line(line);
    if (!strcmp(a.kind, "study")) { /* one for each command */
        bool first = !json_object_get(commands, command_of(line));
        (void)json_object_set_new(commands, command_of(line), json_true());
        return first && json_object_size(f->results) > 0;
    }
    if (!strcmp(a.kind, "curve") || !strcmp(a.kind, "validation"))
        return sia_finished_training(f, a.scheme, a.variant, a.seed);
    if (!strcmp(a.kind, "position")) return sia_finished_has(f, a.scheme, a.variant, a.seed);
    return true;
}

sia_status sia_finished_drop_rest(const sia_finished *f, const char *folder, sia_error *err) {
    sia_json_log log;
    json_t *line;
    json_t *commands = json_object();
    char *kept; /* what stays moves to the front of the text */
    sia_status status = sia_json_log_open(&log, folder, file_name, LOG_MOST, err);
    kept = log.text;
    while (!status && sia_json_log_next(&log, &line, &status, err)) {
        if (stays(f, line, commands)) {
            memmove(kept, log.line, (size_t)(log.next - log.line));
            kept += log.next - log.line;
        }
        json_decref(line);
    }
    json_decref(commands);
    if (!status && kept < log.end)
        status = sia_file_replace(log.path, log.text, (size_t)(kept - log.text), err);
    sia_json_log_close(&log);
    return status;
}
