/* SPDX-License-Identifier: MIT
 *
 * What trained models do: entropy and attention to the last 100 tokens against the context, attention by
 * decade of distance for each head, and the logits' quantiles beside the Gaussian's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/sections.h"

enum { PANELS = 64, DECADES = 12, HEADS = 256, ROWS_OPEN = 16 };

/* ------------------------------------------------------------------------------------------------ names */

typedef struct probes {
    const sia_lines *lines;
    bool by_model;      /* two models have the same scheme and seed: each is named by its path */
    bool several_seeds; /* of one scheme: what is shown of single heads is not a mean over them */
} probes;

/* Of a curve, which is a mean over seeds. */
static const char *name_of(const probes *p, const json_t *line, char name[SIA_LABEL]) {
    if (!p->by_model) return sia_line_label(line, name);
    (void)snprintf(name, SIA_LABEL, "%s", sia_line_text(line, "model"));
    return name;
}

/* Of heads, which are those of one model. */
static const char *head_name_of(const probes *p, const json_t *line, char name[SIA_LABEL]) {
    char label[SIA_LABEL];
    if (p->by_model || !p->several_seeds) return name_of(p, line, name);
    (void)snprintf(name, SIA_LABEL, "%.100s, seed %.0f", sia_line_label(line, label),
                   sia_line_number(line, "seed"));
    return name;
}

/* ------------------------------------------------------------------------------------------------ context */

/* Where there is one seed, what is known is the error over windows, which comes with the line. */
static bool set_errors(sia_gather *g, const probes *p, const char *field) {
    bool any = false;
    char error[64], name[SIA_LABEL];
    (void)snprintf(error, sizeof error, "%s_error", field);
    for (size_t i = 0; i < p->lines->count && !g->failed; i++) {
        const json_t *line = p->lines->list[i];
        if (!sia_line_is(line, "probe-context")) continue;
        const sia_gathered *group = sia_gather_find(g, name_of(p, line, name));
        int at = group ? sia_gathered_at(group, sia_line_number(line, "length")) : -1;
        double value = sia_line_number(line, error);
        if (at < 0 || group->seeds[at] > 1 || !(value > 0)) continue;
        group->error[at] = value;
        any = true;
    }
    return any;
}

static void context_figure(sia_report *r, const probes *p, const char *field, const char *title,
                           const char *label, const char *file) {
    sia_gather g = {0};
    for (size_t i = 0; i < p->lines->count; i++) {
        char name[SIA_LABEL];
        const json_t *line = p->lines->list[i];
        if (!sia_line_is(line, "probe-context") || !isfinite(sia_line_number(line, field))) continue;
        double seed = sia_line_number(line, "seed");
        sia_gather_add(&g, name_of(p, line, name), sia_line_number(line, "length"), isfinite(seed) ? seed : 0,
                       sia_line_number(line, field));
    }
    sia_gather_finish(&g);
    sia_figure figure = {
        .title = title, .x = {.label = "context, tokens", .log = true}, .y = {.label = label}};
    const char *const names[] = {"scheme", "context", field, "standard error", "seeds"};
    bool errors = set_errors(&g, p, field);
    if (g.sample_count)
        sia_gather_figure(&r->body, &g, figure,
                          errors ? "Mean over layers, heads and windows. Bars where there is one seed: one "
                                   "standard error over windows."
                                 : "Mean over layers, heads and windows.",
                          names, file);
    sia_gather_free(&g, &r->body);
}

/* ------------------------------------------------------------------------------------------------ heads */

/* Layer and head as one number, so that heads sort by layer. */
static double head_key(const json_t *line) {
    double layer = sia_line_number(line, "layer"), head = sia_line_number(line, "head");
    return layer >= 0 && layer < 1e6 && head >= 0 && head < 1e6 ? layer * 1e6 + head : NAN;
}

typedef struct mass {
    double heads[HEADS], decades[DECADES], values[HEADS * DECADES];
    char row_text[HEADS][48], column_text[DECADES][48];
    const char *rows[HEADS], *columns[DECADES];
    int head_count, decade_count;
} mass;

static bool mass_of(const probes *p, const json_t *line, const char *name) {
    char label[SIA_LABEL];
    return sia_line_is(line, "probe-mass") && strcmp(head_name_of(p, line, label), name) == 0;
}

static void mass_fill(mass *m, const probes *p, const char *name, sia_data *data) {
    const sia_lines *lines = p->lines;
    *m = (mass){0};
    for (size_t i = 0; i < lines->count; i++) {
        if (!mass_of(p, lines->list[i], name)) continue;
        sia_list_add(m->heads, &m->head_count, HEADS, head_key(lines->list[i]));
        sia_list_add(m->decades, &m->decade_count, DECADES, sia_line_number(lines->list[i], "decade"));
    }
    for (int i = 0; i < m->head_count * m->decade_count; i++) m->values[i] = NAN;
    for (size_t i = 0; i < lines->count; i++) {
        const json_t *line = lines->list[i];
        if (!mass_of(p, line, name)) continue;
        int row = sia_list_find(m->heads, m->head_count, head_key(line));
        int column = sia_list_find(m->decades, m->decade_count, sia_line_number(line, "decade"));
        if (row < 0 || column < 0) continue;
        m->values[row * m->decade_count + column] = sia_line_number(line, "mass");
        sia_data_number(data, sia_line_number(line, "layer"));
        sia_data_number(data, sia_line_number(line, "head"));
        sia_data_number(data, sia_line_number(line, "decade"));
        sia_data_number(data, sia_line_number(line, "mass"));
    }
    for (int i = 0; i < m->head_count; i++) {
        (void)snprintf(m->row_text[i], sizeof m->row_text[i], "%.0f.%.0f", floor(m->heads[i] / 1e6),
                       fmod(m->heads[i], 1e6));
        m->rows[i] = m->row_text[i];
    }
    for (int i = 0; i < m->decade_count; i++) {
        char from[SIA_NUMBER_TEXT];
        double decade = m->decades[i];
        bool small = decade >= 0 && decade < 16;
        (void)snprintf(m->column_text[i], sizeof m->column_text[i], "%.40s",
                       decade == 0 ? "0" /* the token itself is with the nearest ones */
                       : small     ? sia_tick_text(pow(10, decade), 1, true, from)
                                   : sia_number_text(decade, 0, from));
        m->columns[i] = m->column_text[i];
    }
}

static void mass_maps(sia_report *r, const probes *p, const sia_gather *names) {
    mass *m = malloc(sizeof *m);
    if (!m) {
        r->body.failed = true;
        return;
    }
    sia_html_heading(&r->body, "Attention by distance");
    sia_page_add(
        &r->body,
        "<p>The share of each head\xe2\x80\x99s attention that goes to each decade of distance, over the "
        "second half of the window.</p>\n"
        "<div class=\"grid\">\n");
    for (int i = 0; i < names->count; i++) {
        sia_data data = {.heads = {"layer", "head", "decade", "mass"}, .columns = 4};
        mass_fill(m, p, names->groups[i].name, &data);
        if (m->head_count && m->decade_count) {
            sia_html_figure_open(&r->body, names->groups[i].name, NULL);
            sia_svg_heat(&r->body, &(sia_heat){.title = names->groups[i].name,
                                               .x_label = "distance from, tokens",
                                               .y_label = "layer.head; attention, percent",
                                               .column_names = m->columns,
                                               .row_names = m->rows,
                                               .values = m->values,
                                               .columns = m->decade_count,
                                               .rows = m->head_count,
                                               .least = 0,
                                               .most = 1,
                                               .percent = true});
            sia_html_figure_close(&r->body, &data, "attention-by-distance.csv");
        }
        sia_data_free(&data);
    }
    sia_page_add(&r->body, "</div>\n");
    free(m);
}

/* ------------------------------------------------------------------------------------------------ quantiles */

/* One panel for a model and a layer; heads and with or without rotary are its series. */
static void quantile_panel(sia_report *r, const probes *of, const char *model, double layer) {
    const sia_lines *lines = of->lines;
    sia_gather g = {0};
    for (size_t i = 0; i < lines->count; i++) {
        const json_t *line = lines->list[i], *pair;
        char label[SIA_LABEL], name[96];
        size_t p;
        if (!sia_line_is(line, "probe-logits") || sia_line_number(line, "layer") != layer) continue;
        if (strcmp(head_name_of(of, line, label), model) != 0) continue;
        const json_t *rotary = json_object_get(line, "rotary");
        (void)snprintf(name, sizeof name, "head %.0f%s", sia_line_number(line, "head"),
                       !json_is_boolean(rotary) ? ""
                       : json_is_true(rotary)   ? ", after rotary"
                                                : ", before rotary");
        json_array_foreach(json_object_get(line, "qq"), p, pair) {
            const json_t *y = json_array_get(pair, 1), *x = json_array_get(pair, 0);
            sia_gather_add(&g, name, json_is_number(x) ? json_number_value(x) : NAN, 0,
                           json_is_number(y) ? json_number_value(y) : NAN);
        }
    }
    sia_gather_finish(&g);
    char title[SIA_LABEL + 40];
    (void)snprintf(title, sizeof title, "%s, layer %.0f", model, layer);
    sia_series series[SIA_REPORT_NAMES];
    sia_data data = {.heads = {"series", "Gaussian quantile", "observed"}, .columns = 3};
    if (g.sample_count && !g.failed) {
        sia_gather_series(&g, series);
        for (int i = 0; i < g.count; i++) series[i].loose = true;
        sia_gather_data(&g, &data);
        sia_html_figure_open(&r->body, title, NULL);
        sia_svg_lines(&r->body, &(sia_figure){.title = title,
                                              .x = {.label = "Gaussian quantile"},
                                              .y = {.label = "quantile of the logits"},
                                              .series = series,
                                              .series_count = g.count,
                                              .small = true,
                                              .diagonal = true});
        sia_html_figure_close(&r->body, &data, "quantiles.csv");
    }
    sia_gather_free(&g, &r->body);
}

static void quantile_panels(sia_report *r, const probes *p, const sia_gather *names) {
    const sia_lines *lines = p->lines;
    double layers[PANELS];
    int count = 0, panels = 0;
    for (size_t i = 0; i < lines->count; i++)
        if (sia_line_is(lines->list[i], "probe-logits"))
            sia_list_add(layers, &count, PANELS, sia_line_number(lines->list[i], "layer"));
    sia_html_heading(&r->body, "Are the logits Gaussian?");
    sia_page_add(&r->body, "<p>Quantiles of the logits against those of the Gaussian of the same mean and "
                           "variance. On the dashed "
                           "line the two are the same.</p>\n<div class=\"grid\">\n");
    for (int i = 0; i < names->count; i++)
        for (int l = 0; l < count && panels < PANELS; l++, panels++)
            quantile_panel(r, p, names->groups[i].name, layers[l]);
    sia_page_add(&r->body, "</div>\n");
    if (names->count * count > PANELS)
        sia_page_printf(&r->body, "<p class=\"note\">The first %d of %d panels.</p>\n", (int)PANELS,
                        names->count * count);
}

static void moments(sia_report *r, const probes *p) {
    const sia_lines *lines = p->lines;
    sia_data data = {.heads = {"scheme", "layer", "head", "rotary", "mean", "variance"}, .columns = 6};
    for (size_t i = 0; i < lines->count; i++) {
        const json_t *line = lines->list[i], *rotary = json_object_get(line, "rotary");
        char label[SIA_LABEL];
        if (!sia_line_is(line, "probe-logits")) continue;
        sia_data_text(&data, head_name_of(p, line, label));
        sia_data_number(&data, sia_line_number(line, "layer"));
        sia_data_number(&data, sia_line_number(line, "head"));
        sia_data_text(&data, json_is_true(rotary) ? "yes" : json_is_false(rotary) ? "no" : "");
        sia_data_number(&data, sia_line_number(line, "mean"));
        sia_data_number(&data, sia_line_number(line, "variance"));
    }
    data.open = data.count / (size_t)data.columns <= ROWS_OPEN;
    sia_page_printf(&r->body, "<div%s>\n<p>Mean and variance of the logits, by head:</p>\n",
                    data.open ? "" : " class=\"folded\"");
    sia_html_data(&r->body, &data, "logits.csv");
    sia_page_add(&r->body, "</div>\n");
}

/* ------------------------------------------------------------------------------------------------ the section */

/* The names in the lines of a kind, in the order of their styles. */
static void find_names(sia_gather *g, const probes *p, const char *kind) {
    *g = (sia_gather){0};
    for (size_t i = 0; i < p->lines->count; i++) {
        char label[SIA_LABEL];
        if (sia_line_is(p->lines->list[i], kind))
            sia_gather_add(g, head_name_of(p, p->lines->list[i], label), 0, 0, 0);
    }
    sia_gather_finish(g);
}

/* How many models, trained and looked at at which lengths. */
static void lead(sia_report *r, const sia_lines *lines) {
    double trained[SIA_REPORT_LENGTHS], lengths[SIA_REPORT_LENGTHS];
    int trained_count = sia_list_distinct(lines, "probe-model", "train_len", trained);
    int length_count = sia_list_distinct(lines, "probe-model", "length", lengths), models = 0;
    for (size_t i = 0; i < lines->count; i++) models += sia_line_is(lines->list[i], "probe-model");
    if (!models) return;
    sia_report_lead(r);
    sia_page_printf(&r->lead, "Probe: %d trained model%s", models, models == 1 ? "" : "s");
    if (trained_count == 1) sia_page_printf(&r->lead, ", trained at %.0f tokens", trained[0]);
    if (length_count == 1) sia_page_printf(&r->lead, ", on windows of %.0f", lengths[0]);
    sia_page_add(&r->lead, ".</p>\n");
}

void sia_section_probe(sia_report *r, const sia_lines *lines) {
    sia_gather names;
    probes p = {.lines = lines};
    bool *failed = &r->body.failed;
    p.by_model = sia_lines_twins(lines, "probe-context", "model", failed) ||
                 sia_lines_twins(lines, "probe-logits", "model", failed);
    p.several_seeds =
        sia_lines_seeds(lines, "probe-mass", failed) || sia_lines_seeds(lines, "probe-logits", failed);
    lead(r, lines);
    sia_report_section(r, "Inside the trained models");
    context_figure(r, &p, "entropy", "Entropy of attention against context", "entropy, nats",
                   "probe-entropy.csv");
    context_figure(r, &p, "last100", "Attention to the last 100 tokens", "share of attention",
                   "probe-last100.csv");
    find_names(&names, &p, "probe-mass");
    if (names.count) mass_maps(r, &p, &names);
    sia_gather_free(&names, &r->body);
    find_names(&names, &p, "probe-logits");
    if (names.count) {
        quantile_panels(r, &p, &names);
        moments(r, &p);
    }
    sia_gather_free(&names, &r->body);
}
