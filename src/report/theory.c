/* SPDX-License-Identifier: MIT
 *
 * The Gaussian model: curves that the table below knows, and for every other figure in the file its lines as a
 * table, so that nothing that was computed is left out. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/sections.h"

static const struct curve {
    const char *figure, *x, *y, *error;
    const char *title, *x_label, *y_label, *file;
} curves[] = {
    {"entropy-range", "t", "entropy", "error", "Entropy over the distances [t, tD)", "t, tokens",
     "entropy, nats", "theory-entropy-range.csv"},
    {"context", "length", "entropy", "entropy_error", "Entropy of attention against context, Gaussian logits",
     "context, tokens", "entropy, nats", "theory-entropy.csv"},
    {"context", "length", "last100", "last100_error", "Attention to the last 100 tokens, Gaussian logits",
     "context, tokens", "share of attention", "theory-last100.csv"},
};
enum { CURVES = sizeof curves / sizeof *curves, MOST_FIGURES = 24 };

static bool of_figure(const json_t *line, const char *figure) {
    return strcmp(sia_line_text(line, "figure"), figure) == 0;
}

/* "si, D = 10" */
static const char *curve_name(const json_t *line, char name[SIA_LABEL]) {
    char number[SIA_NUMBER_TEXT];
    double d = sia_line_number(line, "D");
    sia_line_label(line, name);
    size_t used = strlen(name);
    if (isfinite(d)) (void)snprintf(name + used, SIA_LABEL - used, ", D = %s", sia_number_exact(d, number));
    return name;
}

/* ------------------------------------------------------------------------------------------------ curves */

/* Errors come with the lines: these are no seeds to take a mean of. */
static void set_errors(sia_gather *g, const sia_lines *lines, const struct curve *c) {
    for (size_t i = 0; i < lines->count; i++) {
        char name[SIA_LABEL];
        const json_t *line = lines->list[i];
        if (!of_figure(line, c->figure)) continue;
        const sia_group *group = sia_gather_find(g, curve_name(line, name));
        int at = group ? sia_group_at(group, sia_line_number(line, c->x)) : -1;
        if (at >= 0) group->error[at] = sia_line_number(line, c->error);
    }
}

static void curve_figure(sia_report *r, const sia_lines *lines, const struct curve *c) {
    sia_gather g = {0};
    for (size_t i = 0; i < lines->count; i++) {
        char name[SIA_LABEL];
        const json_t *line = lines->list[i];
        double y = sia_line_number(line, c->y);
        if (of_figure(line, c->figure) && isfinite(y))
            sia_gather_add(&g, curve_name(line, name), sia_line_number(line, c->x), 0, y);
    }
    sia_gather_finish(&g);
    if (g.failed || !g.sample_count) {
        r->body.failed = r->body.failed || g.failed;
        sia_gather_free(&g);
        return;
    }
    set_errors(&g, lines, c);
    sia_series series[SIA_REPORT_NAMES];
    sia_data data = {.heads = {"curve", c->x, c->y, "standard error"}, .columns = 4};
    bool errors = false;
    for (int i = 0; i < g.count; i++) {
        sia_group *group = &g.groups[i];
        series[i] = (sia_series){.name = group->name,
                                 .style = group->style,
                                 .x = group->x,
                                 .y = group->mean,
                                 .error = group->error,
                                 .count = group->count};
        for (size_t p = 0; p < group->count; p++) {
            errors = errors || isfinite(group->error[p]);
            sia_data_text(&data, group->name);
            sia_data_number(&data, group->x[p]);
            sia_data_number(&data, group->mean[p]);
            sia_data_number(&data, group->error[p]);
        }
    }
    sia_html_figure_open(&r->body, c->title, errors ? "Bars: one standard error of the samples." : NULL);
    sia_svg_lines(&r->body, &(sia_figure){.title = c->title,
                                          .x = {.label = c->x_label, .log = true},
                                          .y = {.label = c->y_label},
                                          .series = series,
                                          .series_count = g.count});
    sia_html_figure_close(&r->body, &data, c->file);
    sia_gather_free(&g);
}

/* ------------------------------------------------------------------------------------------------ tables */

static void add_value(sia_data *data, const json_t *value) {
    if (json_is_string(value))
        sia_data_text(data, json_string_value(value));
    else if (json_is_boolean(value))
        sia_data_text(data, json_is_true(value) ? "yes" : "no");
    else
        sia_data_number(data, json_is_number(value) ? json_number_value(value) : NAN);
}

/* The columns are the plain fields of the first line of the figure. */
static void figure_table(sia_report *r, const sia_lines *lines, const char *figure) {
    sia_data data = {0};
    for (size_t i = 0; i < lines->count; i++) {
        json_t *line = lines->list[i], *value;
        const char *key;
        if (!of_figure(line, figure)) continue;
        if (!data.columns) json_object_foreach(line, key, value) {
                bool plain = !json_is_object(value) && !json_is_array(value) && strcmp(key, "figure") != 0;
                if (plain && data.columns < SIA_DATA_COLUMNS) data.heads[data.columns++] = key;
            }
        for (int c = 0; c < data.columns; c++) add_value(&data, json_object_get(line, data.heads[c]));
    }
    if (data.columns) {
        sia_page_add(&r->body, "<h3>");
        sia_page_escape(&r->body, figure);
        sia_page_add(&r->body, "</h3>\n");
        sia_html_data(&r->body, &data, "theory.csv");
    }
    sia_data_free(&data);
}

static bool has_curve(const char *figure) {
    for (int i = 0; i < CURVES; i++)
        if (strcmp(curves[i].figure, figure) == 0) return true;
    return false;
}

void sia_section_theory(sia_report *r, const sia_lines *lines) {
    const char *seen[MOST_FIGURES];
    int count = 0;
    sia_report_section(r, "The Gaussian model");
    for (int i = 0; i < CURVES; i++) curve_figure(r, lines, &curves[i]);
    for (size_t i = 0; i < lines->count; i++) {
        const char *figure = sia_line_text(lines->list[i], "figure");
        int at = 0;
        if (!*figure || has_curve(figure)) continue;
        while (at < count && strcmp(seen[at], figure) != 0) at++;
        if (at < count || count == MOST_FIGURES) continue;
        seen[count++] = figure;
        figure_table(r, lines, figure);
    }
}
