/* SPDX-License-Identifier: MIT
 *
 * Retrieval: accuracy by scheme and length, and heat maps by length and depth.
 *
 * A scheme that finds fewer than half of the needles at the training length has not learnt the task: what it
 * does at other lengths says nothing about length, and it is not ranked. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "report/sections.h"
#include "study/needle.h"

enum { DEPTHS = 24 };

typedef struct needles {
    const sia_lines *lines;
    sia_gather accuracy; /* x: the length; a value for each seed */
    double lengths[SIA_REPORT_LENGTHS];
    int length_count;
    double train_len;                    /* of all runs; not a number when they have several */
    double train_lens[SIA_REPORT_NAMES]; /* of each group, then */
    bool by_run;  /* two runs have the same scheme and seed: each is named by its folder */
    bool assumed; /* no line told the training length: it is the shortest length that was measured */
} needles;

static double share(const json_t *line) {
    double count = sia_line_number(line, "count"), right = sia_line_number(line, "right");
    return count > 0 && right >= 0 && right <= count ? right / count : NAN;
}

static const char *name_of(const needles *n, const json_t *line, char label[SIA_LABEL]) {
    if (!n->by_run) return sia_line_label(line, label);
    (void)snprintf(label, SIA_LABEL, "%s", sia_line_text(line, "run"));
    return label;
}

static void gather(needles *n) {
    n->by_run = sia_lines_twins(n->lines, "needle", "run", &n->accuracy.failed);
    double first = sia_line_number(sia_lines_first(n->lines, "study"), "train_len");
    bool several = false;
    for (size_t i = 0; i < n->lines->count; i++) {
        const json_t *line = n->lines->list[i];
        char label[SIA_LABEL];
        if (!sia_line_is(line, "needle")) continue;
        double own = sia_line_number(line, "train_len");
        if (!isfinite(first)) first = own;
        several = several || (isfinite(own) && own != first);
        sia_list_add(n->lengths, &n->length_count, SIA_REPORT_LENGTHS, sia_line_number(line, "length"));
        sia_gather_add(&n->accuracy, name_of(n, line, label), sia_line_number(line, "length"),
                       sia_line_number(line, "seed"), share(line));
    }
    sia_gather_finish(&n->accuracy);
    n->assumed = !isfinite(first) && n->length_count;
    n->train_len = several ? NAN : n->assumed ? n->lengths[0] : first;
    for (size_t i = 0; several && i < n->lines->count; i++) {
        char label[SIA_LABEL];
        const json_t *line = n->lines->list[i];
        const sia_gathered *g =
            sia_line_is(line, "needle") ? sia_gather_find(&n->accuracy, name_of(n, line, label)) : NULL;
        if (g) n->train_lens[g - n->accuracy.groups] = sia_line_number(line, "train_len");
    }
}

static double train_len_of(const needles *n, const sia_gathered *g) {
    return isfinite(n->train_len) ? n->train_len : n->train_lens[g - n->accuracy.groups];
}

static bool learnt(const needles *n, const sia_gathered *g) {
    int at = sia_gathered_at(g, train_len_of(n, g));
    return at >= 0 && g->mean[at] >= SIA_NEEDLE_LEARNT;
}

/* Why a scheme is not ranked, or at some length has no share; "" for all others. */
static const char *remark(const needles *n, const sia_gathered *g) {
    for (size_t i = 0; i < n->lines->count; i++) {
        const json_t *line = n->lines->list[i];
        char label[SIA_LABEL];
        if (sia_line_is(line, "needle") && *sia_line_text(line, "diverged") &&
            !strcmp(name_of(n, line, label), g->name))
            return "diverged";
    }
    if (learnt(n, g)) return "";
    return sia_gathered_at(g, train_len_of(n, g)) < 0 ? "not measured at 1\xc3\x97"
                                                      : "not learnt at this budget";
}

/* ------------------------------------------------------------------------------------------------ the table */

static double highest(const needles *n, double length) {
    double best = NAN;
    for (int i = 0; i < n->accuracy.count; i++) {
        const sia_gathered *g = &n->accuracy.groups[i];
        int at = sia_gathered_at(g, length);
        if (at >= 0 && learnt(n, g) && isfinite(g->mean[at]) && !(g->mean[at] <= best)) best = g->mean[at];
    }
    return best;
}

static void table_row(sia_page *page, const needles *n, const sia_gathered *g) {
    bool ranked = learnt(n, g);
    sia_page_add(page, ranked ? "<tr><th scope=\"row\">" : "<tr class=\"muted\"><th scope=\"row\">");
    sia_page_escape(page, g->name);
    sia_page_add(page, "</th>");
    for (int l = 0; l < n->length_count; l++) {
        int at = sia_gathered_at(g, n->lengths[l]);
        bool best = at >= 0 && ranked && g->mean[at] == highest(n, n->lengths[l]);
        sia_page_printf(page, "<td class=\"n%s\">", best ? " best" : "");
        sia_page_number(page, at < 0 ? NAN : 100 * g->mean[at], 1);
        if (at >= 0 && isfinite(g->error[at])) {
            sia_page_add(page, " <small>\xc2\xb1 ");
            sia_page_number(page, 100 * g->error[at], 1);
            sia_page_add(page, "</small>");
        }
        sia_page_printf(page, "<i>%s</i></td>", best ? "\xe2\x98\x85" : "");
    }
    sia_page_printf(page, "<td class=\"n\">%d</td><td class=\"nowrap\">%s</td></tr>\n",
                    g->count ? g->seeds[0] : 0, remark(n, g));
}

static void table(sia_page *page, const needles *n) {
    sia_page_add(
        page,
        "<p class=\"soft\">Needles found, percent, by length in tokens</p>\n<div class=\"scroll\"><table>"
        "<thead><tr><th scope=\"col\">Scheme</th>");
    for (int i = 0; i < n->length_count; i++) {
        sia_page_printf(page, "<th class=\"n\" scope=\"col\">%.0f<i></i>", n->lengths[i]);
        if (isfinite(n->train_len))
            sia_page_printf(page, "<small>%.4g\xc3\x97<i></i></small>", n->lengths[i] / n->train_len);
        sia_page_add(page, "</th>");
    }
    sia_page_add(page,
                 "<th class=\"n\" scope=\"col\">Seeds</th><th scope=\"col\"></th></tr></thead>\n<tbody>\n");
    for (int i = 0; i < n->accuracy.count; i++) table_row(page, n, &n->accuracy.groups[i]);
    bool ranked = false;
    for (int i = 0; i < n->accuracy.count; i++) ranked = ranked || learnt(n, &n->accuracy.groups[i]);
    sia_page_printf(page, "</tbody></table></div>\n<p class=\"note\">%s",
                    ranked ? "\xe2\x98\x85 the most of its column. " : "");
    sia_page_add(
        page,
        "A scheme that finds fewer than half at 1\xc3\x97 has not learnt the task at this budget: it is not "
        "ranked, and "
        "what it does at other lengths says nothing about length.");
    if (n->assumed)
        sia_page_add(page, " No line tells the training length; the shortest one measured is taken for it.");
    sia_page_add(page, "</p>\n");
}

/* ------------------------------------------------------------------------------------------------ heat maps */

typedef struct heat_cells {
    double lengths[SIA_REPORT_LENGTHS], depths[DEPTHS]; /* depths: where the ranges begin */
    double ends[DEPTHS];
    double right[SIA_REPORT_LENGTHS * DEPTHS], count[SIA_REPORT_LENGTHS * DEPTHS];
    int rows, columns;
} heat_cells;

static bool depth_of(const needles *n, const json_t *line, const char *name) {
    char label[SIA_LABEL];
    return sia_line_is(line, "needle-depth") && strcmp(name_of(n, line, label), name) == 0;
}

/* Needles of all seeds are put together: a cell has few. */
static void fill_cells(heat_cells *cells, const needles *n, const char *name) {
    *cells = (heat_cells){0};
    for (size_t i = 0; i < n->lines->count; i++) {
        const json_t *line = n->lines->list[i];
        if (!depth_of(n, line, name)) continue;
        sia_list_add(cells->lengths, &cells->rows, SIA_REPORT_LENGTHS, sia_line_number(line, "length"));
        sia_list_add(cells->depths, &cells->columns, DEPTHS, sia_line_number(line, "depth_from"));
    }
    for (size_t i = 0; i < n->lines->count; i++) {
        const json_t *line = n->lines->list[i];
        if (!depth_of(n, line, name)) continue;
        int row = sia_list_find(cells->lengths, cells->rows, sia_line_number(line, "length"));
        int column = sia_list_find(cells->depths, cells->columns, sia_line_number(line, "depth_from"));
        if (row < 0 || column < 0 || !isfinite(share(line))) continue;
        cells->ends[column] = sia_line_number(line, "depth_to");
        cells->right[row * DEPTHS + column] += sia_line_number(line, "right");
        cells->count[row * DEPTHS + column] += sia_line_number(line, "count");
    }
}

static void heat_map(sia_page *page, const heat_cells *cells, const char *name) {
    double values[SIA_REPORT_LENGTHS * DEPTHS];
    char rows[SIA_REPORT_LENGTHS][24], columns[DEPTHS][24];
    const char *row_names[SIA_REPORT_LENGTHS], *column_names[DEPTHS];
    sia_data data = {.heads = {"length", "depth from", "depth to", "right", "of"}, .columns = 5};
    for (int column = 0; column < cells->columns; column++) {
        (void)snprintf(columns[column], sizeof columns[column], "%.3g", 100 * cells->depths[column]);
        column_names[column] = columns[column];
    }
    for (int row = 0; row < cells->rows; row++) {
        (void)snprintf(rows[row], sizeof rows[row], "%.8g", cells->lengths[row]);
        row_names[row] = rows[row];
        for (int column = 0; column < cells->columns; column++) {
            double count = cells->count[row * DEPTHS + column], right = cells->right[row * DEPTHS + column];
            values[row * cells->columns + column] = count > 0 ? right / count : NAN;
            if (!(count > 0)) continue;
            sia_data_number(&data, cells->lengths[row]);
            sia_data_number(&data, cells->depths[column]);
            sia_data_number(&data, cells->ends[column]);
            sia_data_number(&data, right);
            sia_data_number(&data, count);
        }
    }
    sia_html_figure_open(page, name, NULL);
    sia_svg_heat(page, &(sia_heat){.title = name,
                                   .x_label = "depth, percent of the context, from",
                                   .y_label = "length, tokens; needles found, percent",
                                   .column_names = column_names,
                                   .row_names = row_names,
                                   .values = values,
                                   .columns = cells->columns,
                                   .rows = cells->rows,
                                   .least = 0,
                                   .most = 1,
                                   .percent = true});
    sia_html_figure_close(page, &data, "needle-depth.csv");
}

static void heat_maps(sia_report *r, const needles *n) {
    if (!sia_lines_first(n->lines, "needle-depth")) return;
    heat_cells *cells = malloc(sizeof *cells);
    if (!cells) {
        r->body.failed = true;
        return;
    }
    sia_html_heading(&r->body, "By length and depth");
    sia_page_add(&r->body, "<p>Depth 0 is the start of the context. Needles of all seeds together. Empty: "
                           "none stood there.</p>\n"
                           "<div class=\"grid\">\n");
    for (int i = 0; i < n->accuracy.count; i++) {
        const sia_gathered *g = &n->accuracy.groups[i];
        char title[SIA_LABEL + 40];
        const char *why = remark(n, g);
        fill_cells(cells, n, g->name);
        (void)snprintf(title, sizeof title, "%s%s%s", g->name, *why ? ": " : "", why);
        if (cells->rows && cells->columns) heat_map(&r->body, cells, title);
    }
    sia_page_add(&r->body, "</div>\n");
    free(cells);
}

/* ------------------------------------------------------------------------------------------------ the section */

/* "si+prope finds the most of them, 92.0 %", "rope and nope find as many, 3.1 %", "none finds any" */
static void say_best(sia_page *page, const needles *n, double length, double best) {
    int count = 0;
    bool one_seed = false;
    for (int i = 0; i < n->accuracy.count && best > 0; i++) {
        const sia_gathered *g = &n->accuracy.groups[i];
        int at = sia_gathered_at(g, length);
        if (at < 0 || !learnt(n, g) || g->mean[at] != best) continue;
        sia_page_add(page, count++ ? " and " : "");
        sia_page_escape(page, g->name);
        one_seed = one_seed || g->seeds[at] == 1;
    }
    if (!count) {
        sia_page_add(page, "none of them finds any");
        return;
    }
    sia_page_add(page, count == 1 ? " finds the most of them, " : " find as many, ");
    sia_page_number(page, 100 * best, 1);
    sia_page_printf(page, " %%%s", one_seed ? " (one seed: no claim)" : "");
}

static void lead(sia_page *page, const needles *n) {
    int learnt_count = 0;
    double length = n->lengths[n->length_count - 1], best = highest(n, length);
    for (int i = 0; i < n->accuracy.count; i++) learnt_count += learnt(n, &n->accuracy.groups[i]);
    sia_page_printf(page, "Needles: %d of %d schemes learnt the task", learnt_count, n->accuracy.count);
    if (isfinite(best)) {
        sia_page_printf(page, "; at %.0f tokens ", length);
        if (isfinite(n->train_len)) sia_page_printf(page, "(%.4g\xc3\x97) ", length / n->train_len);
        say_best(page, n, length, best);
    }
    sia_page_add(page, ".</p>\n");
}

void sia_section_needle(sia_report *r, const sia_lines *lines) {
    needles n = {.lines = lines};
    gather(&n);
    if (n.accuracy.count && n.length_count && !n.accuracy.failed) {
        sia_report_lead(r);
        lead(&r->lead, &n);
        sia_report_section(r, "Needles");
        table(&r->body, &n);
        sia_figure figure = {
            .title = "Needles found, against length",
            .x = {.label = "length, tokens", .log = true, .ticks = n.lengths, .tick_count = n.length_count},
            .y = {.label = "share of needles found", .fixed = true, .least = 0, .most = 1}};
        static const char *const names[] = {"scheme", "length", "share found", "standard error", "seeds"};
        if (n.length_count > 1)
            sia_gather_figure(
                &r->body, &n.accuracy, figure,
                "Schemes that have not learnt the task at 1\xc3\x97 are drawn too: see the table.", names,
                "needle.csv");
        heat_maps(r, &n);
    }
    sia_gather_free(&n.accuracy, &r->body);
}
