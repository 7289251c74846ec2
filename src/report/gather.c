/* SPDX-License-Identifier: MIT
 *
 * Means over seeds, and figures of them. */
#define _GNU_SOURCE
#include "report/gather.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { KNOWN = 13 };

/* A scheme has one style in every figure of a report. Names that are not known get theirs when all are there. */
static int style_of(const char *name) {
    /* The first eight have a colour of their own: those that the paper's argument is about. */
    static const char *const known[KNOWN] = {"si+prope", "alibi",   "logn+prope", "sharp+prope", "prope",
                                             "rope",     "nope",    "rope+yarn",  "rope+ntk",    "logn+rope",
                                             "si+nope",  "si+rope", "logn+ntk"};
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(name, known[i]) == 0) return i;
    /* The theory and others may leave the rotary slot away. */
    if (strcmp(name, "si") == 0) return 0;
    if (strcmp(name, "logn") == 0) return 2;
    if (strcmp(name, "plain") == 0) return 5;
    return KNOWN;
}

/* ------------------------------------------------------------------------------------------------ gathering */

static int find_group(sia_gather *g, const char *name) {
    for (int i = 0; i < g->count; i++)
        if (strcmp(g->groups[i].name, name) == 0) return i;
    if (g->count == SIA_REPORT_NAMES) return -1;
    sia_gathered *group = &g->groups[g->count];
    *group = (sia_gathered){.style = style_of(name)};
    (void)snprintf(group->name, sizeof group->name, "%s", name);
    return g->count++;
}

void sia_gather_add(sia_gather *g, const char *name, double x, double seed, double value) {
    char label[SIA_LABEL];
    (void)snprintf(label, sizeof label, "%s", name);
    int group = find_group(g, label);
    if (group < 0) g->left_out++;
    if (group < 0 || g->failed || !isfinite(x)) return;
    if (!sia_grow(&g->samples, &g->sample_room, g->sample_count + 1, sizeof *g->samples)) {
        g->failed = true;
        return;
    }
    g->samples[g->sample_count] = (struct sia_sample){group, x, seed, value, g->sample_count};
    g->sample_count++;
}

static int compare_samples(const void *first, const void *second) {
    const struct sia_sample *a = first, *b = second;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    if (a->x != b->x) return a->x < b->x ? -1 : 1;
    if (a->seed != b->seed) return a->seed < b->seed ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static bool same_place(const struct sia_sample *a, const struct sia_sample *b) {
    return a->group == b->group && a->x == b->x;
}

/* Of sorted samples of one seed at one place the last stays. */
static size_t drop_repeated(struct sia_sample *samples, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool again =
            kept && same_place(&samples[kept - 1], &samples[i]) && samples[kept - 1].seed == samples[i].seed;
        samples[again ? kept - 1 : kept++] = samples[i];
    }
    return kept;
}

static double standard_error(double squares, int n) { return n > 1 ? sqrt(squares / (n - 1) / n) : NAN; }

static void reduce(const struct sia_sample *samples, int n, double *mean, double *error) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += samples[i].value;
    *mean = sum / n;
    for (int i = 0; i < n; i++) squares += (samples[i].value - *mean) * (samples[i].value - *mean);
    *error = standard_error(squares, n);
}

static int compare_groups(const void *first, const void *second) {
    const sia_gathered *a = first, *b = second;
    if (a->style != b->style) return a->style < b->style ? -1 : 1;
    const char *x = strrchr(a->name, '='), *y = strrchr(b->name, '=');
    if (x && y && x - a->name == y - b->name && !strncmp(a->name, b->name, (size_t)(x - a->name))) {
        double of_a = strtod(x + 1, NULL), of_b = strtod(y + 1, NULL); /* 2 before 10, 0.25 before 0.5 */
        if (of_a < of_b || of_a > of_b) return of_a < of_b ? -1 : 1;
    }
    return strverscmp(a->name, b->name);
}

void sia_gather_finish(sia_gather *g) {
    size_t n = g->sample_count;
    if (g->failed || !n) return;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(g->samples[i].seed)) g->samples[i].seed = 0; /* sorting wants an order */
    qsort(g->samples, n, sizeof *g->samples, compare_samples);
    n = g->sample_count = drop_repeated(g->samples, n);
    g->numbers = calloc(3 * n, sizeof *g->numbers);
    g->seeds = calloc(n, sizeof *g->seeds);
    g->starts = calloc(n, sizeof *g->starts);
    if (!g->numbers || !g->seeds || !g->starts) {
        g->failed = true;
        return;
    }
    size_t used = 0;
    for (size_t from = 0, to; from < n; from = to) {
        const struct sia_sample *s = &g->samples[from];
        sia_gathered *group = &g->groups[s->group];
        for (to = from + 1; to < n && same_place(&g->samples[to], s);) to++;
        if (!group->count) {
            group->x = g->numbers + used;
            group->mean = g->numbers + n + used;
            group->error = g->numbers + 2 * n + used;
            group->seeds = g->seeds + used;
            group->samples = g->starts + used;
        }
        size_t at = group->count++;
        group->x[at] = s->x;
        group->samples[at] = s;
        group->seeds[at] = (int)(to - from);
        reduce(s, group->seeds[at], &group->mean[at], &group->error[at]);
        used++;
    }
    qsort(g->groups, (size_t)g->count, sizeof *g->groups, compare_groups);
    /* Strangers are counted in the order of their names, so that each figure of them has the same styles; where no
     * name is known there is nothing to keep apart from, and they begin at the first. */
    int first = g->count && g->groups[0].style == KNOWN ? 0 : KNOWN;
    for (int i = 0, strangers = 0; i < g->count; i++)
        if (g->groups[i].style == KNOWN) g->groups[i].style = first + strangers++;
    for (int i = 0; g->like && i < g->count; i++) {
        const sia_gathered *same = sia_gather_find(g->like, g->groups[i].name);
        if (same) g->groups[i].style = same->style;
    }
}

void sia_gather_free(sia_gather *g, sia_page *page) {
    if (page) page->failed = page->failed || g->failed;
    free(g->samples);
    free(g->numbers);
    free(g->seeds);
    free(g->starts);
    *g = (sia_gather){0};
}

/* ------------------------------------------------------------------------------------------------ asking */

const sia_gathered *sia_gather_find(const sia_gather *g, const char *name) {
    for (int i = 0; i < g->count; i++)
        if (strcmp(g->groups[i].name, name) == 0) return &g->groups[i];
    return NULL;
}

int sia_gathered_at(const sia_gathered *group, double x) {
    for (size_t i = 0; i < group->count; i++)
        if (group->x[i] == x) return (int)i;
    return -1;
}

sia_difference sia_gathered_difference(const sia_gathered *a, const sia_gathered *b, double x) {
    int i = sia_gathered_at(a, x), j = sia_gathered_at(b, x);
    if (i < 0 || j < 0) return (sia_difference){NAN, NAN, 0};
    const struct sia_sample *of_a = a->samples[i], *of_b = b->samples[j];
    const struct sia_sample *end_a = of_a + a->seeds[i], *end_b = of_b + b->seeds[j];
    double mean = 0, squares = 0;
    int n = 0;
    while (of_a < end_a && of_b < end_b) { /* Welford's sums over the seeds of both */
        if (of_a->seed == of_b->seed) {
            double d = of_a->value - of_b->value, before = d - mean;
            mean += before / ++n;
            squares += before * (d - mean);
        }
        bool next_a = of_a->seed <= of_b->seed, next_b = of_b->seed <= of_a->seed;
        of_a += next_a;
        of_b += next_b;
    }
    return (sia_difference){n ? mean : a->mean[i] - b->mean[j], standard_error(squares, n), n};
}

/* Student's t: what a mean of n values is within, in standard errors, in 95 of 100 cases. */
static double student(int n) {
    static const double quantiles[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                       2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
    enum { KEPT = sizeof quantiles / sizeof *quantiles };
    return quantiles[n - 2 < KEPT ? n - 2 : KEPT - 1];
}

bool sia_difference_clear(sia_difference d) {
    return isfinite(d.value) && isfinite(d.error) && fabs(d.value) > student(d.seeds) * d.error;
}

void sia_list_add(double *values, int *count, int most, double value) {
    int at = 0;
    while (at < *count && values[at] < value) at++;
    if ((at < *count && values[at] == value) || *count == most || !isfinite(value)) return;
    memmove(&values[at + 1], &values[at], (size_t)(*count - at) * sizeof *values);
    values[at] = value;
    ++*count;
}

int sia_list_find(const double *values, int count, double value) {
    for (int i = 0; i < count; i++)
        if (values[i] == value) return i;
    return -1;
}

int sia_list_distinct(const sia_lines *lines, const char *kind, const char *field,
                      double values[SIA_REPORT_LENGTHS]) {
    int count = 0;
    for (size_t i = 0; i < lines->count; i++)
        if (sia_line_is(lines->list[i], kind))
            sia_list_add(values, &count, SIA_REPORT_LENGTHS, sia_line_number(lines->list[i], field));
    return count;
}

/* ------------------------------------------------------------------------------------------------ figures */

void sia_gather_series(const sia_gather *g, sia_series series[SIA_REPORT_NAMES]) {
    for (int i = 0; i < g->count; i++) {
        const sia_gathered *group = &g->groups[i];
        series[i] = (sia_series){.name = group->name,
                                 .style = group->style,
                                 .x = group->x,
                                 .y = group->mean,
                                 .error = group->error,
                                 .count = group->count};
    }
}

void sia_gather_data(const sia_gather *g, sia_data *data) {
    for (int i = 0; i < g->count; i++)
        for (size_t p = 0; p < g->groups[i].count; p++) {
            const sia_gathered *group = &g->groups[i];
            sia_data_text(data, group->name);
            sia_data_number(data, group->x[p]);
            sia_data_number(data, group->mean[p]);
            if (data->columns > 3) sia_data_number(data, group->error[p]);
            if (data->columns > 4) sia_data_number(data, group->seeds[p]);
        }
}

void sia_gather_figure(sia_page *page, const sia_gather *g, sia_figure figure, const char *note,
                       const char *const names[5], const char *file) {
    sia_series series[SIA_REPORT_NAMES];
    bool errors = false, bars = false, thinned = false;
    sia_gather_series(g, series);
    for (int i = 0; i < g->count; i++) {
        const sia_gathered *group = &g->groups[i];
        for (size_t p = 0; p < group->count; p++) {
            errors = errors || group->seeds[p] > 1;
            bars = bars || isfinite(group->error[p]); /* which may have come with the values */
        }
        thinned = thinned || sia_svg_stride(group->count) > 1;
    }
    figure.series = series;
    figure.series_count = g->count;
    char all[512];
    (void)snprintf(all, sizeof all, "%s%s%s%s", note ? note : "",
                   errors ? " Bars: one standard error over seeds." : "",
                   thinned ? " Of long curves not every point is drawn." : "",
                   g->left_out ? " There are more names than fit; the rest is not shown." : "");
    sia_html_figure_open(page, figure.title, *all ? all : NULL);
    sia_svg_lines(page, &figure);
    sia_data data = {.heads = {names[0], names[1], names[2], names[3], names[4]},
                     .columns = errors ? 5
                                : bars ? 4
                                       : 3};
    sia_gather_data(g, &data);
    sia_html_figure_close(page, &data, file);
}
