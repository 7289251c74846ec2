/* SPDX-License-Identifier: MIT
 *
 * The figures of the comparison: loss against length, by position, through training, over the values of a
 * sweep, and the time that training took. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/sections.h"

static const char loss_label[] = "loss, nats a token";

/* ------------------------------------------------------------------------------------------------ length */

static const char *mean_of(const sia_comparison *c) {
    return c->most_seeds > 1 ? "Mean over seeds" : "One seed";
}

static void loss_by_length(sia_report *r, const sia_comparison *c) {
    if (c->length_count < 2) return;
    sia_figure figure = {.title = "Loss against length",
                         .x = {.label = "length at evaluation, tokens",
                               .log = true,
                               .ticks = c->lengths,
                               .tick_count = c->length_count},
                         .y = {.label = loss_label}};
    char note[120];
    (void)snprintf(note, sizeof note, "%s.", mean_of(c));
    if (isfinite(c->train_len))
        (void)snprintf(note, sizeof note, "%s; trained at %.0f tokens.", mean_of(c), c->train_len);
    static const char *const names[] = {"scheme", "length", "loss", "standard error", "seeds"};
    sia_gather_figure(&r->body, &c->losses, figure, note, names, "loss-by-length.csv");
}

/* ------------------------------------------------------------------------------------------------ position */

/* The middle of a bin on a logarithmic axis, counting tokens from 1. */
static double bin_middle(const json_t *bin) {
    double from = sia_line_number(bin, "from") + 1, to = sia_line_number(bin, "to");
    return from > 0 && to >= from ? sqrt(from * to) : NAN;
}

static void loss_by_position(sia_report *r, const sia_comparison *c, double length) {
    sia_gather g = {.like = &c->losses};
    for (size_t i = 0; i < c->lines->count; i++) {
        const json_t *line = c->lines->list[i], *bin;
        char label[SIA_LABEL];
        size_t b;
        if (!sia_line_is(line, "position") || sia_line_number(line, "length") != length) continue;
        if (!sia_comparison_has(c, line)) continue;
        json_array_foreach(json_object_get(line, "bins"), b, bin) {
            sia_gather_add(&g, sia_line_label(line, label), bin_middle(bin), sia_line_number(line, "seed"),
                           sia_line_number(bin, "loss"));
        }
    }
    sia_gather_finish(&g);
    char title[80], file[64];
    char note[200] = "Each point is the mean loss of the tokens of one range of positions, at its middle.";
    (void)snprintf(title, sizeof title, "Loss by position, at length %.0f", length);
    if (isfinite(c->train_len))
        (void)snprintf(note + strlen(note), sizeof note - strlen(note), " Training ended at position %.0f.",
                       c->train_len);
    (void)snprintf(file, sizeof file, "loss-by-position-%.0f.csv", length);
    sia_figure figure = {.title = title,
                         .x = {.label = "position in the context, tokens", .log = true},
                         .y = {.label = loss_label}};
    static const char *const names[] = {"scheme", "position", "loss", "standard error", "seeds"};
    sia_gather_figure(&r->body, &g, figure, note, names, file);
    sia_gather_free(&g, &r->body);
}

static void positions(sia_report *r, const sia_comparison *c) {
    double lengths[SIA_REPORT_LENGTHS];
    int count = sia_list_distinct(c->lines, "position", "length", lengths);
    if (!count) return;
    sia_report_section(r, "Loss by position");
    for (int i = count - 1; i >= 0; i--) loss_by_position(r, c, lengths[i]); /* the longest tells most */
}

/* ------------------------------------------------------------------------------------------------ training */

static void through_training(sia_report *r, const sia_comparison *c, const char *kind, double length) {
    sia_gather g = {.like = &c->losses};
    for (size_t i = 0; i < c->lines->count; i++) {
        const json_t *line = c->lines->list[i];
        char label[SIA_LABEL];
        if (!sia_line_is(line, kind) || !sia_comparison_has(c, line)) continue;
        if (isfinite(length) && sia_line_number(line, "length") != length) continue;
        sia_gather_add(&g, sia_line_label(line, label), sia_line_number(line, "step"),
                       sia_line_number(line, "seed"), sia_line_number(line, "loss"));
    }
    sia_gather_finish(&g);
    char title[96] = "Training loss", file[64] = "training-loss.csv", text[96];
    if (isfinite(length)) {
        (void)snprintf(title, sizeof title, "Validation loss at %s", sia_length_text(c, length, text));
        (void)snprintf(file, sizeof file, "validation-loss-%.0f.csv", length);
    }
    sia_figure figure = {.title = title, .x = {.label = "step"}, .y = {.label = loss_label}};
    static const char *const names[] = {"scheme", "step", "loss", "standard error", "seeds"};
    if (g.sample_count)
        sia_gather_figure(&r->body, &g, figure,
                          isfinite(length)    ? NULL
                          : c->most_seeds > 1 ? "Smoothed, mean over seeds."
                                              : "Smoothed.",
                          names, file);
    sia_gather_free(&g, &r->body);
}

static void training(sia_report *r, const sia_comparison *c) {
    double lengths[SIA_REPORT_LENGTHS];
    int count = sia_list_distinct(c->lines, "validation", "length", lengths);
    if (!count && !sia_lines_first(c->lines, "curve")) return;
    sia_report_section(r, "Loss through training");
    through_training(r, c, "curve", NAN);
    for (int i = 0; i < count; i++) through_training(r, c, "validation", lengths[i]);
}

/* ------------------------------------------------------------------------------------------------ sweeps */

/* "tau=10" to its number, when the part before = is name (or name is "": then it is copied there). */
static double sweep_value(const char *variant, char name[32]) {
    const char *equals = strchr(variant, '=');
    char *end;
    if (!equals || equals == variant || equals - variant >= 32) return NAN;
    if (name[0] && (strlen(name) != (size_t)(equals - variant) || strncmp(variant, name, strlen(name)) != 0))
        return NAN;
    double value = strtod(equals + 1, &end);
    if (end == equals + 1 || *end || !isfinite(value)) return NAN;
    if (!name[0]) (void)snprintf(name, 32, "%.*s", (int)(equals - variant), variant);
    return value;
}

void sia_compare_sweep(sia_report *r, const sia_comparison *c) {
    char name[32] = "";
    double values[SIA_REPORT_LENGTHS];
    int value_count = 0;
    sia_gather g = {0};
    bool positive = true;
    for (size_t i = 0; i < c->lines->count; i++) {
        const json_t *line = c->lines->list[i];
        json_t *loss;
        const char *key;
        if (!sia_line_is(line, "result")) continue;
        double value = sweep_value(sia_line_text(line, "variant"), name);
        if (!isfinite(value)) continue;
        positive = positive && value > 0;
        sia_list_add(values, &value_count, SIA_REPORT_LENGTHS, value);
        json_object_foreach(json_object_get(line, "loss"), key, loss) {
            char label[SIA_LABEL];
            double times = strtod(key, NULL) / sia_line_number(line, "train_len");
            /* Of models with different training lengths, what they have in common is its multiples. */
            if (!isfinite(c->train_len) && isfinite(times))
                (void)snprintf(label, sizeof label, "%.100s at %.4g\xc3\x97", sia_line_text(line, "scheme"),
                               times);
            else
                (void)snprintf(label, sizeof label, "%.100s at %s", sia_line_text(line, "scheme"), key);
            sia_gather_add(&g, label, value, sia_line_number(line, "seed"),
                           json_is_number(loss) ? json_number_value(loss) : NAN);
        }
    }
    sia_gather_finish(&g);
    bool several = false;
    for (int i = 0; i < g.count; i++) several = several || g.groups[i].count > 1;
    sia_comparison variants = {.lines = c->lines, .variants = true, .train_len = c->train_len};
    if (!c->variants) sia_comparison_gather(&variants);
    if (several || variants.losses.count) sia_report_section(r, "Sweep");
    if (variants.losses.count) sia_compare_table(&r->body, &variants);
    sia_gather_free(&variants.losses, &r->body);
    if (several) {
        char title[64];
        (void)snprintf(title, sizeof title, "Loss against %s", name);
        sia_figure figure = {
            .title = title,
            .x = {.label = name, .log = positive, .ticks = values, .tick_count = value_count},
            .y = {.label = loss_label}};
        const char *const names[] = {"scheme and length", name, "loss", "standard error", "seeds"};
        sia_gather_figure(&r->body, &g, figure, "One line for each scheme and length at evaluation.", names,
                          "sweep.csv");
    }
    sia_gather_free(&g, &r->body);
}

/* ------------------------------------------------------------------------------------------------ time */

/* Whether the scheme that a result was trained as has one of its own: then the time is that one's. */
static bool has_result(const sia_comparison *c, const json_t *of, const char *trained) {
    for (size_t i = 0; i < c->lines->count; i++) {
        const json_t *line = c->lines->list[i];
        if (sia_line_is(line, "result") && !strcmp(sia_line_text(line, "scheme"), trained) &&
            !strcmp(sia_line_text(line, "variant"), sia_line_text(of, "variant")))
            return true;
    }
    return false;
}

static void training_time(sia_report *r, const sia_comparison *c) {
    sia_gather g = {.like = &c->losses};
    for (size_t i = 0; i < c->lines->count; i++) {
        char label[SIA_LABEL];
        char trained[SIA_SCHEME_NAME];
        const json_t *line = c->lines->list[i];
        if (!sia_line_is(line, "result") || !sia_comparison_has(c, line)) continue;
        if (sia_shares_training(sia_line_text(line, "scheme"), trained) && has_result(c, line, trained))
            continue;
        double seconds = sia_line_number(line, "train_seconds");
        if (isfinite(seconds) && seconds > 0) /* 0: trained in several sittings */
            sia_gather_add(&g, sia_line_label(line, label), 0, sia_line_number(line, "seed"), seconds);
    }
    sia_gather_finish(&g);
    const char *names[SIA_REPORT_NAMES];
    double values[SIA_REPORT_NAMES], errors[SIA_REPORT_NAMES];
    int styles[SIA_REPORT_NAMES];
    sia_data data = {.heads = {"scheme", "seconds", "standard error", "seeds"}, .columns = 4};
    for (int i = 0; i < g.count && !g.failed; i++) {
        names[i] = g.groups[i].name;
        values[i] = g.groups[i].mean[0];
        errors[i] = g.groups[i].error[0];
        styles[i] = g.groups[i].style;
        sia_data_text(&data, names[i]);
        sia_data_number(&data, values[i]);
        sia_data_number(&data, errors[i]);
        sia_data_number(&data, g.groups[i].seeds[0]);
    }
    if (g.count > 1 && !g.failed) {
        sia_report_section(r, "Time to train");
        sia_html_figure_open(
            &r->body, "Time to train, by scheme",
            c->most_seeds > 1
                ? "Mean over seeds; wall-clock time of trainings that ran side by side, and with "
                  "whatever else the machine did: no measure of a scheme."
                : "Wall-clock time of trainings that ran side by side, and with whatever else the "
                  "machine did: no measure of a scheme.");
        sia_svg_bars(&r->body, &(sia_bars){.title = "Time to train, by scheme",
                                           .label = "seconds",
                                           .names = names,
                                           .styles = styles,
                                           .values = values,
                                           .errors = errors,
                                           .count = g.count,
                                           .digits = 1});
        sia_html_figure_close(&r->body, &data, "time.csv");
    }
    sia_data_free(&data);
    sia_gather_free(&g, &r->body);
}

void sia_compare_figures(sia_report *r, const sia_comparison *c) {
    loss_by_length(r, c);
    positions(r, c);
    training(r, c);
    training_time(r, c);
}
