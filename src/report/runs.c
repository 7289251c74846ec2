/* SPDX-License-Identifier: MIT
 *
 * Runs of 'sia train', and the setting of a study: the command, the data, the machine, the configuration. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/sections.h"

/* ------------------------------------------------------------------------------------------------ objects */

enum { PAIRS_MOST = 300, DEPTH_MOST = 6, PATH_TEXT = 200 };

/* A number as its text in the file would be, other values as JSON. */
static void add_pair(sia_data *pairs, const char *path, const json_t *value) {
    sia_data_text(pairs, path);
    if (json_is_string(value)) {
        sia_data_text(pairs, json_string_value(value));
    } else if (json_is_real(value)) {
        char number[SIA_NUMBER_TEXT];
        sia_data_text(pairs, sia_number_exact(json_real_value(value), number));
    } else {
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        if (!text)
            pairs->failed = true;
        else
            sia_data_text(pairs, text);
        free(text);
    }
}

static void walk(sia_data *pairs, const json_t *object, const char *path, int depth) {
    json_t *value;
    const char *key;
    json_object_foreach((json_t *)object, key, value) {
        char name[PATH_TEXT];
        (void)snprintf(name, sizeof name, "%s%s%s", path, *path ? "." : "", key);
        if (pairs->count >= 2 * PAIRS_MOST) return;
        if (json_is_object(value) && depth < DEPTH_MOST)
            walk(pairs, value, name, depth + 1);
        else
            add_pair(pairs, name, value);
    }
}

void sia_object_pairs(sia_data *pairs, const json_t *object) { walk(pairs, object, "", 0); }

static void object_table(sia_page *page, const char *title, const json_t *object) {
    if (!json_is_object(object) || !json_object_size(object)) return;
    sia_data pairs = {.columns = 2};
    sia_object_pairs(&pairs, object);
    sia_html_heading(page, title);
    sia_html_pairs(page, &pairs);
    if (pairs.count >= 2 * PAIRS_MOST)
        sia_page_printf(page, "<p class=\"note\">The first %d values.</p>\n", PAIRS_MOST);
    sia_data_free(&pairs);
}

/* ------------------------------------------------------------------------------------------------ setting */

void sia_section_setting(sia_report *r, const sia_lines *lines, const char *what) {
    const json_t *study = sia_lines_first(lines, "study");
    if (!study) return;
    static const char *const plain[][2] = {{"data", "data"},
                                           {"date", "date"},
                                           {"version", "version of sia"},
                                           {"train_len", "training length"},
                                           {"lengths", "lengths"}};
    char title[64];
    (void)snprintf(title, sizeof title, "%s: setting", what);
    sia_report_section(r, title);
    if (*sia_line_text(study, "command")) {
        sia_page_add(&r->body, "<p>This makes it again:</p>\n<pre><code>");
        sia_page_escape(&r->body, sia_line_text(study, "command"));
        sia_page_add(&r->body, "</code></pre>\n");
    }
    sia_data pairs = {.columns = 2};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        const json_t *value = json_object_get(study, plain[i][0]);
        if (value && !json_is_null(value)) add_pair(&pairs, plain[i][1], value);
    }
    if (pairs.count) sia_html_pairs(&r->body, &pairs);
    sia_data_free(&pairs);
    object_table(&r->body, "Machine", json_object_get(study, "machine"));
    object_table(&r->body, "Configuration", json_object_get(study, "config"));
}

/* ------------------------------------------------------------------------------------------------ runs */

static void run_figure(sia_report *r, const sia_run *runs, int count, const char *field, const char *title,
                       const char *label, const char *file) {
    sia_gather g = {0};
    for (int i = 0; i < count; i++)
        for (size_t l = 0; l < runs[i].metrics.count; l++) {
            const json_t *line = runs[i].metrics.list[l], *value = json_object_get(line, field);
            if (value)
                sia_gather_add(&g, runs[i].name, sia_line_number(line, "step"), 0,
                               json_is_number(value) ? json_number_value(value) : NAN);
        }
    sia_gather_finish(&g);
    sia_figure figure = {.title = title, .x = {.label = "step"}, .y = {.label = label}};
    const char *const names[] = {"run", "step", field, "standard error", "seeds"};
    if (g.sample_count) sia_gather_figure(&r->body, &g, figure, NULL, names, file);
    sia_gather_free(&g);
}

static void validation_figure(sia_report *r, const sia_run *runs, int count) {
    sia_gather g = {0};
    for (int i = 0; i < count; i++)
        for (size_t l = 0; l < runs[i].metrics.count; l++) {
            const json_t *line = runs[i].metrics.list[l];
            json_t *loss;
            const char *length;
            json_object_foreach(json_object_get(line, "validation"), length, loss) {
                char name[SIA_LABEL];
                (void)snprintf(name, sizeof name, "%.110s%sat %.20s", count > 1 ? runs[i].name : "",
                               count > 1 ? " " : "", length);
                sia_gather_add(&g, name, sia_line_number(line, "step"), 0,
                               json_is_number(loss) ? json_number_value(loss) : NAN);
            }
        }
    sia_gather_finish(&g);
    sia_figure figure = {
        .title = "Validation loss", .x = {.label = "step"}, .y = {.label = "loss, nats a token"}};
    static const char *const names[] = {"run and length", "step", "loss", "standard error", "seeds"};
    if (g.sample_count)
        sia_gather_figure(&r->body, &g, figure, "By length at evaluation, tokens.", names, "validation.csv");
    sia_gather_free(&g);
}

static void run_lead(sia_page *lead, const sia_run *runs, int count) {
    if (count > 1) {
        sia_page_printf(lead, "<p>%d training runs.</p>\n", count);
        return;
    }
    double step = NAN, loss = NAN;
    for (size_t l = 0; l < runs[0].metrics.count; l++) {
        const json_t *line = runs[0].metrics.list[l];
        if (!json_object_get(line, "loss")) continue;
        step = sia_line_number(line, "step");
        loss = sia_line_number(line, "loss");
    }
    sia_page_add(lead, "<p>The run <code>");
    sia_page_escape(lead, runs[0].name);
    sia_page_add(lead, "</code>");
    if (isfinite(step) && isfinite(loss)) {
        sia_page_printf(lead, " stands at step %.0f with a training loss of ", step);
        sia_page_number(lead, loss, 3);
    }
    sia_page_add(lead, ".</p>\n");
}

void sia_section_runs(sia_report *r, const sia_run *runs, int count) {
    r->folder = NULL; /* the runs are named one by one */
    run_lead(&r->lead, runs, count);
    sia_report_section(r, count == 1 ? "Training run" : "Training runs");
    run_figure(r, runs, count, "loss", "Training loss", "loss, nats a token", "training.csv");
    validation_figure(r, runs, count);
    run_figure(r, runs, count, "tokens_per_s", "Speed", "tokens a second", "speed.csv");
    run_figure(r, runs, count, "gradient_norm", "Norm of the gradient", "norm", "gradient.csv");
    run_figure(r, runs, count, "rate_matrices", "Learning rate of the matrices", "rate", "rate.csv");
    for (int i = 0; i < count; i++) {
        char title[SIA_LABEL + 40];
        (void)snprintf(title, sizeof title, "Configuration of %s", runs[i].name);
        object_table(&r->body, title, runs[i].config);
    }
}
