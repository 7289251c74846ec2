/* SPDX-License-Identifier: MIT
 *
 * The comparison: the table of losses by scheme and length with the best of each column marked, and the
 * sentence that opens the report. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "position/scheme.h"
#include "report/sections.h"

/* ------------------------------------------------------------------------------------------------ gathering */

bool sia_shares_training(const char *scheme, char trained[SIA_SCHEME_NAME]) {
    sia_scheme slots;
    char own[SIA_SCHEME_NAME];
    if (sia_scheme_parse(scheme, &slots, NULL)) return false;
    (void)sia_scheme_name(slots, own);
    (void)sia_scheme_name(sia_scheme_to_train(slots), trained);
    return strcmp(own, trained) != 0;
}

bool sia_comparison_has(const sia_comparison *c, const json_t *line) {
    return c->variants == (*sia_line_text(line, "variant") != 0);
}

void sia_comparison_gather(sia_comparison *c) {
    const json_t *study = sia_lines_first(c->lines, "study");
    double first = sia_line_number(study, "train_len");
    bool several = false;
    for (size_t i = 0; i < c->lines->count; i++) {
        json_t *line = c->lines->list[i], *loss;
        const char *key;
        char label[SIA_LABEL];
        if (!sia_line_is(line, "result") || !sia_comparison_has(c, line)) continue;
        double own = sia_line_number(line, "train_len");
        if (!isfinite(first)) first = own;
        several = several || (isfinite(own) && own != first);
        json_object_foreach(json_object_get(line, "loss"), key, loss) {
            double length = strtod(key, NULL);
            sia_list_add(c->lengths, &c->length_count, SIA_REPORT_LENGTHS, length);
            sia_gather_add(&c->losses, sia_line_label(line, label), length, sia_line_number(line, "seed"),
                           json_is_number(loss) ? json_number_value(loss) : NAN);
        }
    }
    c->train_len = several ? NAN : first; /* a sweep of it has none for all */
    sia_gather_finish(&c->losses);
    for (int i = 0; i < c->losses.count; i++)
        for (size_t p = 0; p < c->losses.groups[i].count; p++) {
            int seeds = c->losses.groups[i].seeds[p];
            if (!c->fewest_seeds || seeds < c->fewest_seeds) c->fewest_seeds = seeds;
            if (seeds > c->most_seeds) c->most_seeds = seeds;
        }
}

const char *sia_length_text(const sia_comparison *c, double length, char text[96]) {
    double times = length / c->train_len;
    if (isfinite(times) && times > 0)
        (void)snprintf(text, 96, "%.0f tokens (%.4g\xc3\x97)", length, times);
    else
        (void)snprintf(text, 96, "%.0f tokens", length);
    return text;
}

/* ------------------------------------------------------------------------------------------------ the table */

static const sia_gathered *lowest(const sia_comparison *c, double length) {
    const sia_gathered *best = NULL;
    for (int i = 0; i < c->losses.count; i++) {
        const sia_gathered *g = &c->losses.groups[i];
        int at = sia_gathered_at(g, length);
        if (at < 0 || !isfinite(g->mean[at])) continue;
        if (!best || g->mean[at] < best->mean[sia_gathered_at(best, length)]) best = g;
    }
    return best;
}

/* Whether what stands above the best by d may be level with it; one seed: it cannot be said. */
static bool near(sia_difference d) { return isfinite(d.error) && !sia_difference_clear(d); }

static void table_cell(sia_page *page, const sia_comparison *c, const sia_gathered *g, double length) {
    const sia_gathered *best = lowest(c, length);
    int at = sia_gathered_at(g, length);
    if (at < 0) {
        sia_page_add(page, "<td class=\"n\">\xe2\x80\x93<i></i></td>");
        return;
    }
    bool equal = best && c->losses.count > 1 && g->mean[at] == best->mean[sia_gathered_at(best, length)];
    bool close = best && !equal && near(sia_gathered_difference(g, best, length));
    sia_page_printf(page, "<td class=\"n%s\">", equal ? " best" : "");
    sia_page_number(page, g->mean[at], 3);
    if (isfinite(g->error[at])) {
        sia_page_add(page, " <small>\xc2\xb1 ");
        sia_page_number(page, g->error[at], 3);
        sia_page_add(page, "</small>");
    }
    sia_page_printf(page, "<i>%s</i></td>", equal ? "\xe2\x98\x85" : close ? "\xe2\x89\x88" : "");
}

/* The mean of a field over the results of a row; not a number where it is missing. */
static double row_mean(const sia_comparison *c, const char *name, const char *field) {
    double sum = 0;
    int count = 0;
    for (size_t i = 0; i < c->lines->count; i++) {
        char label[SIA_LABEL];
        if (!sia_line_is(c->lines->list[i], "result")) continue;
        if (strcmp(sia_line_label(c->lines->list[i], label), name) != 0) continue;
        double value = sia_line_number(c->lines->list[i], field);
        if (!isfinite(value)) continue; /* a training that has diverged */
        sum += value;
        count++;
    }
    return count ? sum / count : NAN;
}

typedef struct row {
    const sia_gathered *group;
    double key;
} row;

static int compare_rows(const void *first, const void *second) {
    const row *a = first, *b = second;
    if (isfinite(a->key) != isfinite(b->key)) return isfinite(a->key) ? -1 : 1;
    if (isfinite(a->key) && a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->group < b->group ? -1 : a->group > b->group;
}

/* Ordered by the loss at the longest length that a row has. */
static int sorted_rows(const sia_comparison *c, row rows[SIA_REPORT_NAMES]) {
    for (int i = 0; i < c->losses.count; i++) {
        const sia_gathered *g = &c->losses.groups[i];
        rows[i] = (row){g, g->count ? g->mean[g->count - 1] : NAN};
    }
    qsort(rows, (size_t)c->losses.count, sizeof *rows, compare_rows);
    return c->losses.count;
}

static void table_head(sia_page *page, const sia_comparison *c) {
    sia_page_add(page, "<p class=\"soft\">Validation loss, nats a token, by length in tokens</p>\n"
                       "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">Scheme</th>");
    for (int i = 0; i < c->length_count; i++) {
        double times = c->lengths[i] / c->train_len;
        sia_page_printf(page, "<th class=\"n\" scope=\"col\">%.0f<i></i>", c->lengths[i]);
        if (isfinite(times)) sia_page_printf(page, "<small>%.4g\xc3\x97<i></i></small>", times);
        sia_page_add(page, "</th>");
    }
    sia_page_add(page, "<th class=\"n\" scope=\"col\">Seeds</th><th class=\"n\" scope=\"col\">Parameters</th>"
                       "</tr></thead>\n<tbody>\n");
}

/* Schemes that are another way to read the weights of one: nobody should take them for trainings of their own. */
static void say_shared(sia_page *page, const sia_comparison *c) {
    for (int i = 0; i < c->losses.count; i++) {
        char trained[SIA_SCHEME_NAME];
        const char *name = c->losses.groups[i].name;
        if (!sia_shares_training(name, trained)) continue;
        sia_page_printf(page, " %s: the weights of %s, read in another way.", name, trained);
    }
}

/* " Diverged, so that there is no mean: rope, seed 1; nope, seed 0." */
static void say_diverged(sia_page *page, const sia_comparison *c) {
    bool any = false;
    for (size_t i = 0; i < c->lines->count; i++) {
        const json_t *line = c->lines->list[i];
        char label[SIA_LABEL];
        if (!sia_line_is(line, "result") || !sia_comparison_has(c, line)) continue;
        if (!*sia_line_text(line, "diverged")) continue;
        sia_page_add(page, any ? "; " : " Diverged, so that there is no mean: ");
        sia_page_escape(page, sia_line_label(line, label));
        sia_page_printf(page, ", seed %.0f", sia_line_number(line, "seed"));
        any = true;
    }
    if (any) sia_page_add(page, ".");
}

void sia_compare_table(sia_page *page, const sia_comparison *c) {
    row rows[SIA_REPORT_NAMES];
    int count = sorted_rows(c, rows);
    table_head(page, c);
    for (int i = 0; i < count; i++) {
        const sia_gathered *g = rows[i].group;
        int seeds = 0;
        for (size_t p = 0; p < g->count; p++) seeds = g->seeds[p] > seeds ? g->seeds[p] : seeds;
        sia_page_add(page, "<tr><th scope=\"row\">");
        sia_page_escape(page, g->name);
        sia_page_add(page, "</th>");
        for (int l = 0; l < c->length_count; l++) table_cell(page, c, g, c->lengths[l]);
        sia_page_printf(page, "<td class=\"n\">%d</td><td class=\"n\">", seeds);
        sia_page_number(page, row_mean(c, g->name, "params"), 0);
        sia_page_add(page, "</td></tr>\n");
    }
    sia_page_add(page, "</tbody></table></div>\n");
    sia_page_add(page, "<p class=\"note\">");
    if (count > 1) sia_page_add(page, "\xe2\x98\x85 the lowest mean of its column.");
    if (c->most_seeds > 1)
        sia_page_add(
            page,
            " \xe2\x89\x88 above it, but not clearly: the data do not tell the two apart. A difference is "
            "clear where its 95 % interval leaves out 0: by Student\xe2\x80\x99s t, over the differences "
            "of each seed, since runs with the same seed begin with the same weights and read the same text. "
            "\xc2\xb1 one standard error of the mean over seeds.");
    if (c->fewest_seeds == 1)
        sia_page_add(page, c->most_seeds > 1
                               ? " Where there is one seed there is no standard error, and no difference is "
                                 "claimed."
                               : " One seed: there are no standard errors, and no difference is claimed.");
    if (c->fewest_seeds != c->most_seeds)
        sia_page_add(
            page, " Rows do not have the same number of seeds: a part of the difference between two such "
                  "means is that of the seeds; whether it is clear is judged by the seeds that both have.");
    if (count > 1) sia_page_add(page, " Rows are ordered by the loss at their longest length.");
    say_shared(page, c);
    say_diverged(page, c);
    sia_page_add(page, "</p>\n");
}

/* ------------------------------------------------------------------------------------------------ the lead */

static void say_tokens(sia_page *page, double tokens) {
    if (tokens < 1e6)
        sia_page_printf(page, "%.0f tokens", tokens);
    else
        sia_page_printf(page, "%.4g %s tokens", tokens < 1e9 ? tokens / 1e6 : tokens / 1e9,
                        tokens < 1e9 ? "million" : "billion");
}

/* ", trained at 32, 64 or 128 tokens" */
static void lead_train_lens(sia_page *lead, const sia_comparison *c) {
    double list[SIA_REPORT_LENGTHS];
    int count = sia_list_distinct(c->lines, "result", "train_len", list);
    for (int i = 0; i < count; i++)
        sia_page_printf(lead, "%s%.0f", i == 0 ? ", trained at " : i + 1 < count ? ", " : " or ", list[i]);
    if (count) sia_page_add(lead, " tokens");
}

static void lead_counts(sia_page *lead, const sia_comparison *c) {
    const json_t *study = sia_lines_first(c->lines, "study"), *first = NULL;
    for (size_t i = 0; i < c->lines->count && !first; i++)
        if (sia_line_is(c->lines->list[i], "result") && sia_comparison_has(c, c->lines->list[i]))
            first = c->lines->list[i];
    sia_page_printf(lead, "%d %s%s, ", c->losses.count, c->variants ? "variant" : "scheme",
                    c->losses.count == 1 ? "" : "s");
    if (c->fewest_seeds == c->most_seeds)
        sia_page_printf(lead, "%d seed%s%s", c->most_seeds, c->most_seeds == 1 ? "" : "s",
                        c->losses.count > 1 ? " each" : "");
    else
        sia_page_printf(lead, "%d to %d seeds each", c->fewest_seeds, c->most_seeds);
    double least = sia_line_number(first, "tokens"), most = least;
    for (size_t i = 0; i < c->lines->count; i++) {
        double tokens = sia_line_number(c->lines->list[i], "tokens");
        if (!sia_line_is(c->lines->list[i], "result") || !sia_comparison_has(c, c->lines->list[i])) continue;
        if (tokens < least) least = tokens;
        if (tokens > most) most = tokens;
    }
    if (isfinite(c->train_len))
        sia_page_printf(lead, ", trained at %.0f tokens", c->train_len);
    else
        lead_train_lens(lead, c);
    if (isfinite(least)) {
        sia_page_add(lead, " on ");
        say_tokens(lead, least);
        if (most > least) { /* of a sweep: then the longer training is a part of what is compared */
            sia_page_add(lead, " to ");
            say_tokens(lead, most);
        }
        sia_page_add(lead, c->losses.count > 1 && most == least ? " each" : "");
    }
    const char *data = sia_line_text(study, "data");
    if (*data) {
        sia_page_add(lead, " (");
        sia_page_escape(lead, data);
        sia_page_add(lead, ")");
    }
    sia_page_add(lead, ". ");
}

static void lead_value(sia_page *lead, const sia_gathered *g, double length) {
    int at = sia_gathered_at(g, length);
    sia_page_number(lead, g->mean[at], 3);
    if (!isfinite(g->error[at])) return;
    sia_page_add(lead, " \xc2\xb1 ");
    sia_page_number(lead, g->error[at], 3);
}

/* The best at the longest length, and by how much it is ahead of the next. */
static void lead_best(sia_page *lead, const sia_comparison *c) {
    double length = c->lengths[c->length_count - 1];
    const sia_gathered *best = lowest(c, length), *next = NULL;
    char text[96];
    for (int i = 0; best && i < c->losses.count; i++) {
        const sia_gathered *g = &c->losses.groups[i];
        int at = sia_gathered_at(g, length);
        if (g == best || at < 0 || !isfinite(g->mean[at])) continue;
        if (!next || g->mean[at] < next->mean[sia_gathered_at(next, length)]) next = g;
    }
    if (!best || !next) return;
    sia_page_printf(lead, "At %s ", sia_length_text(c, length, text));
    sia_page_add(lead, "<strong>");
    sia_page_escape(lead, best->name);
    sia_page_add(lead, "</strong> has the lowest loss, ");
    lead_value(lead, best, length);
    sia_page_add(lead, "; next is ");
    sia_page_escape(lead, next->name);
    sia_page_add(lead, " with ");
    lead_value(lead, next, length);
    sia_difference d = sia_gathered_difference(next, best, length);
    if (isfinite(d.error))
        sia_page_add(lead, sia_difference_clear(d) ? ", a clear difference" : ", no clear difference");
    sia_page_add(lead, isfinite(d.error) ? ". " : " (one seed: no claim). ");
}

/* ------------------------------------------------------------------------------------------------ the section */

const char *sia_compare_title(const sia_lines *lines) {
    for (size_t i = 0; i < lines->count; i++)
        if (sia_line_is(lines->list[i], "result") && *sia_line_text(lines->list[i], "variant"))
            return "A sweep of one setting";
    return "Schemes under one budget";
}

void sia_section_compare(sia_report *r, const sia_lines *lines) {
    sia_comparison c = {.lines = lines, .train_len = NAN};
    sia_comparison_gather(&c);
    if (!c.losses.sample_count) { /* a sweep and nothing else */
        sia_gather_free(&c.losses, &r->body);
        c = (sia_comparison){.lines = lines, .train_len = NAN, .variants = true};
        sia_comparison_gather(&c);
    }
    if (c.losses.count && c.length_count && !c.losses.failed) {
        sia_report_lead(r);
        lead_counts(&r->lead, &c);
        lead_best(&r->lead, &c);
        sia_page_add(&r->lead, "</p>\n");
        sia_report_section(r, "Loss by length");
        sia_compare_table(&r->body, &c);
        sia_compare_paper(r, &c);
        sia_compare_control(r, &c);
    }
    sia_compare_figures(r, &c);
    sia_compare_sweep(r, &c);
    sia_gather_free(&c.losses, &r->body);
}
