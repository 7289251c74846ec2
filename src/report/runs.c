/* SPDX-License-Identifier: MIT
 *
 * Runs of 'sia train': loss, speed and rate through training, side by side. */
#include <math.h>
#include <stdio.h>

#include "report/sections.h"

static void run_figure(sia_report *r, const sia_report_run *runs, int count, const char *field,
                       const char *title, const char *label, const char *note, const char *file) {
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
    if (g.sample_count) sia_gather_figure(&r->body, &g, figure, note, names, file);
    sia_gather_free(&g, &r->body);
}

static void validation_figure(sia_report *r, const sia_report_run *runs, int count) {
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
    sia_gather_free(&g, &r->body);
}

static void run_lead(sia_page *lead, const sia_report_run *runs, int count) {
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
        sia_page_printf(lead, " stands at step %.0f; the last batch in its log had a loss of ", step);
        sia_page_number(lead, loss, 3);
    }
    sia_page_add(lead, ".</p>\n");
}

void sia_section_runs(sia_report *r, const sia_report_run *runs, int count) {
    r->folder = NULL; /* the runs are named one by one */
    run_lead(&r->lead, runs, count);
    sia_report_section(r, count == 1 ? "Training run" : "Training runs");
    run_figure(r, runs, count, "loss", "Training loss", "loss, nats a token", "Of single batches.",
               "training.csv");
    validation_figure(r, runs, count);
    run_figure(r, runs, count, "tokens_per_s", "Speed", "tokens a second", NULL, "speed.csv");
    run_figure(r, runs, count, "gradient_norm", "Norm of the gradient", "norm", NULL, "gradient.csv");
    run_figure(r, runs, count, "rate_matrix", "Learning rate of the matrices", "rate", NULL, "rate.csv");
    for (int i = 0; i < count; i++) {
        char title[SIA_LABEL + 40];
        (void)snprintf(title, sizeof title, "Configuration of %s", runs[i].name);
        sia_object_table(&r->body, title, runs[i].config);
    }
}
