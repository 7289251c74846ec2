/* SPDX-License-Identifier: MIT
 *
 * The Gaussian model: curves that the table below knows, and for every other figure in the file its lines as a
 * table, so that nothing that was computed is left out. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/sections.h"

/* The place of a line on the x axis. */
static double at_t(const json_t *line) { return sia_line_number(line, "t"); }
static double at_n(const json_t *line) { return sia_line_number(line, "n"); }
static double
at_middle(const json_t *line) { /* of a range, on a logarithmic axis, distances counted from 1 */
    return sqrt((sia_line_number(line, "from") + 1) * sia_line_number(line, "to"));
}

static const struct curve {
    const char *figure, *quantity; /* quantity: only the lines of this one, or NULL */
    const char *y, *error;
    double (*x)(const json_t *line);
    const char *title, *x_label, *y_label, *file;
    const char *note;
    bool by_ratio;  /* D is a part of the curve's name */
    bool largest_n; /* only the lines with the largest n */
    double least;   /* what is below is not drawn, lest the others become one line; 0: all is */
} curves[] = {
    {"property", "Z", "closed", NULL, at_t, "Total attention: the expected Z over the distances t to tD",
     "t, tokens", "Z, closed form", "theory-z.csv",
     "Scale-invariant logits. Z is the sum of e to the logit over the distances t \xe2\x89\xa4 k < tD, what "
     "they get of "
     "the attention before it is divided. Far beyond tau it is the same at every t.",
     true, false, 0},
    {"property", "N", "closed", NULL, at_t,
     "Unnormalised sparsity: the expected N over the distances t to tD", "t, tokens", "N, closed form",
     "theory-n.csv",
     "Scale-invariant logits. N is the sum of A ln A, with A = e to the logit. The entropy within a range is "
     "ln Z \xe2\x88\x92 N/Z.",
     true, false, 0},
    {"total", NULL, "log10_Z", NULL, at_t, "Total attention over the distances t to 10t", "t, tokens",
     "log\xe2\x82\x81\xe2\x82\x80 of the expected Z", "theory-total.csv",
     "What each decade of distances gets, for plain logits, with LogN, ALiBi and the scale-invariant "
     "transform (si), "
     "in a context of 10t keys.",
     false, false, -20},
    {"entropy-range", NULL, "entropy", "error", at_t, "Entropy over the distances t to tD", "t, tokens",
     "entropy, nats", "theory-entropy-range.csv",
     "How many keys of a range share its attention: e to the entropy.", true, false, 0},
    {"context", NULL, "entropy", "error", at_n, "Entropy of attention against context, Gaussian logits",
     "context, tokens", "entropy, nats", "theory-entropy.csv", NULL, false, false, 0},
    {"context", NULL, "last100", "last100_error", at_n, "Attention to the last 100 tokens, Gaussian logits",
     "context, tokens", "share of attention", "theory-last100.csv", NULL, false, false, 0},
    {"context-range", NULL, "entropy", "error", at_middle,
     "Entropy within ranges of distances, at the longest context", "distance, tokens", "entropy, nats",
     "theory-ranges.csv", "Each point is a range of distances, at its middle.", false, true, 0},
};
enum { CURVES = sizeof curves / sizeof *curves, MOST_FIGURES = 24, ROWS_OPEN = 16 };

static bool of_figure(const json_t *line, const char *figure) {
    return strcmp(sia_line_text(line, "figure"), figure) == 0;
}

/* "si, D = 10", "D = 2", "si" */
static const char *curve_name(const struct curve *c, const json_t *line, char name[SIA_LABEL]) {
    char number[SIA_NUMBER_TEXT];
    const char *scheme = sia_line_text(line, "scheme");
    double d = sia_line_number(line, "D");
    if (c->by_ratio && isfinite(d))
        (void)snprintf(name, SIA_LABEL, "%.100s%sD = %s", scheme, *scheme ? ", " : "",
                       sia_number_exact(d, number));
    else
        (void)snprintf(name, SIA_LABEL, "%s", scheme);
    return name;
}

/* ------------------------------------------------------------------------------------------------ curves */

static double largest_n(const sia_lines *lines, const char *figure) {
    double largest = 0;
    for (size_t i = 0; i < lines->count; i++)
        if (of_figure(lines->list[i], figure)) largest = fmax(largest, at_n(lines->list[i]));
    return largest;
}

/* Errors come with the lines: these are no seeds to take a mean of. */
static void set_error(sia_gather *g, const json_t *line, const struct curve *c) {
    char name[SIA_LABEL];
    const sia_gathered *group = sia_gather_find(g, curve_name(c, line, name));
    int at = group && c->error ? sia_gathered_at(group, c->x(line)) : -1;
    if (at >= 0) group->error[at] = sia_line_number(line, c->error);
}

static void gather(sia_gather *g, const sia_lines *lines, const struct curve *c) {
    double n = c->largest_n ? largest_n(lines, c->figure) : NAN;
    for (int pass = 0; pass < 2 && !g->failed; pass++) {
        for (size_t i = 0; i < lines->count; i++) {
            char name[SIA_LABEL];
            const json_t *line = lines->list[i];
            if (!of_figure(line, c->figure) || (c->largest_n && at_n(line) != n)) continue;
            if (c->quantity && strcmp(sia_line_text(line, "quantity"), c->quantity) != 0) continue;
            if (!isfinite(sia_line_number(line, c->y))) continue;
            if (pass)
                set_error(g, line, c);
            else
                sia_gather_add(g, curve_name(c, line, name), c->x(line), 0, sia_line_number(line, c->y));
        }
        if (pass == 0) sia_gather_finish(g);
    }
}

static void curve_figure(sia_report *r, const sia_lines *lines, const struct curve *c) {
    sia_gather g = {0};
    gather(&g, lines, c);
    if (g.failed || !g.sample_count) {
        sia_gather_free(&g, &r->body);
        return;
    }
    sia_series series[SIA_REPORT_NAMES];
    sia_data data = {.heads = {"curve", c->x_label, c->y, "standard error"}, .columns = 4};
    sia_gather_series(&g, series);
    sia_gather_data(&g, &data);
    bool errors = false, cut = false;
    for (int i = 0; i < g.count; i++)
        for (size_t p = 0; p < g.groups[i].count; p++) {
            errors = errors || isfinite(g.groups[i].error[p]);
            bool below = c->least < 0 && g.groups[i].mean[p] < c->least;
            if (below) g.groups[i].mean[p] = NAN;
            cut = cut || below;
        }
    char note[400];
    (void)snprintf(
        note, sizeof note, "%s%s%s", c->note ? c->note : "",
        cut ? " What is below 10\xe2\x81\xbb\xc2\xb2\xe2\x81\xb0, no attention at all, is not drawn; the "
              "data has it."
            : "",
        errors ? " Bars: one standard error of the samples." : "");
    sia_html_figure_open(&r->body, c->title, *note ? note : NULL);
    sia_svg_lines(&r->body, &(sia_figure){.title = c->title,
                                          .x = {.label = c->x_label, .log = true},
                                          .y = {.label = c->y_label},
                                          .series = series,
                                          .series_count = g.count});
    sia_html_figure_close(&r->body, &data, c->file);
    sia_gather_free(&g, &r->body);
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

static const char *table_title(const char *figure) {
    static const char *const titles[][2] = {
        {"settings", "Settings of the Gaussian model"},
        {"property", "The two properties, computed in three ways"},
        {"plain-mean", "The plain mean of Z over sampled rows, beside the closed form"},
        {"fit", "Least squares for the entropy"},
    };
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strcmp(titles[i][0], figure) == 0) return titles[i][1];
    return figure;
}

/* The columns are the plain fields of the first line of the figure. */
static void find_columns(sia_data *data, json_t *line) {
    const char *key;
    json_t *value;
    json_object_foreach(line, key, value) {
        bool plain = !json_is_object(value) && !json_is_array(value) && strcmp(key, "figure") != 0;
        if (plain && data->columns < SIA_DATA_COLUMNS) data->heads[data->columns++] = key;
    }
}

/* A figure of one line is a list of names and values. */
static void figure_pairs(sia_report *r, const json_t *line) {
    sia_data pairs = {.columns = 2};
    json_t *rest = json_copy((json_t *)line);
    if (!rest) r->body.failed = true;
    (void)json_object_del(rest, "figure");
    sia_object_pairs(&pairs, rest);
    sia_html_pairs(&r->body, &pairs);
    sia_data_free(&pairs);
    json_decref(rest);
}

static void figure_table(sia_report *r, const sia_lines *lines, const char *figure) {
    sia_data data = {0};
    json_t *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < lines->count; i++) {
        json_t *line = lines->list[i];
        if (!of_figure(line, figure)) continue;
        if (!first) find_columns(&data, line);
        if (!first) first = line;
        count++;
        for (int c = 0; c < data.columns; c++) add_value(&data, json_object_get(line, data.heads[c]));
    }
    data.open = count <= ROWS_OPEN;
    bool folded = count > 1 && !data.open; /* not printed, and its heading neither */
    sia_page_add(&r->body, folded ? "<div class=\"folded\">\n" : "");
    sia_html_heading(&r->body, table_title(figure));
    if (count == 1)
        figure_pairs(r, first);
    else if (data.columns)
        sia_html_data(&r->body, &data, "theory.csv");
    sia_page_add(&r->body, folded ? "</div>\n" : "");
    sia_data_free(&data);
}

/* A property has more columns than its curve shows. */
static bool curve_tells_all(const char *figure) {
    if (strcmp(figure, "property") == 0) return false;
    for (int i = 0; i < CURVES; i++)
        if (strcmp(curves[i].figure, figure) == 0) return true;
    return false;
}

/* How many of the checks hold, as the lines say themselves. */
static void lead(sia_report *r, const sia_lines *lines) {
    int checks = 0, hold = 0;
    for (size_t i = 0; i < lines->count; i++) {
        const json_t *holds = json_object_get(lines->list[i], "holds");
        if (!of_figure(lines->list[i], "property") || !json_is_boolean(holds)) continue;
        checks++;
        hold += json_is_true(holds);
    }
    if (!checks) return;
    sia_report_lead(r);
    sia_page_printf(&r->lead, "Gaussian model: %d of %d checks of the two properties hold.</p>\n", hold,
                    checks);
}

void sia_section_theory(sia_report *r, const sia_lines *lines) {
    const char *seen[MOST_FIGURES];
    int count = 0;
    lead(r, lines);
    sia_report_section(r, "The Gaussian model");
    sia_page_add(&r->body,
                 "<p>Logits of independent normal scores, as if attention knew nothing of the text: what is "
                 "left is what "
                 "each scheme does with distance. The key at distance t has the logit S (plain), S s ln n in "
                 "a context "
                 "of n (logn), S \xe2\x88\x92 c t (alibi), or a S + m with a and m of t (si).</p>\n");
    for (int i = 0; i < CURVES; i++) curve_figure(r, lines, &curves[i]);
    for (size_t i = 0; i < lines->count; i++) {
        const char *figure = sia_line_text(lines->list[i], "figure");
        int at = 0;
        if (!*figure || curve_tells_all(figure)) continue;
        while (at < count && strcmp(seen[at], figure) != 0) at++;
        if (at < count || count == MOST_FIGURES) continue;
        seen[count++] = figure;
        figure_table(r, lines, figure);
    }
}
