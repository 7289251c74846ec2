/* SPDX-License-Identifier: MIT
 *
 * The comparison beside the paper's: Table 1 of Scale-invariant attention (Anson, Wang, Aitchison, 2025), which
 * pairs of schemes stand the other way round here, and how much of the lead is sharpness alone.
 *
 * A pair is swapped when the paper has a below b and we have a above b. Two numbers of the paper that are equal are
 * no order. Closed by the control: (prope - sharp+prope) / (prope - si+prope). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/sections.h"

enum { COLUMNS = 3, SCHEMES = 10, PAIRS_SAID = 5 };

static const double multiples[COLUMNS] = {1, 4, 16};
static const char *const paper_lengths[COLUMNS] = {"4k", "16k", "64k"};

static const struct paper_row {
    const char *name, *scheme;
    double loss[COLUMNS];
} paper[SCHEMES] = {
    {"RoPE", "rope", {3.261, 3.936, 5.260}},
    {"p-RoPE", "prope", {3.260, 3.984, 5.735}},
    {"NoPE", "nope", {3.397, 6.430, 8.125}},
    {"RoPE+NTK", "rope+ntk", {3.261, 3.703, 5.430}},
    {"YaRN", "rope+yarn", {3.261, 3.958, 5.353}},
    {"LogN+RoPE", "logn+rope", {3.260, 3.273, 3.378}},
    {"LogN+p-RoPE", "logn+prope", {3.256, 3.262, 3.317}},
    {"LogN+NTK", "logn+ntk", {3.261, 3.272, 3.394}},
    {"ALiBi", "alibi", {3.281, 3.272, 3.270}},
    {"Scale-invariant p-RoPE", "si+prope", {3.244, 3.235, 3.247}},
};

/* Our schemes may come under another name of the same scheme, such as ntk for rope+ntk. */
static const sia_gathered *find(const sia_comparison *c, const char *scheme) {
    const sia_gathered *found = sia_gather_find(&c->losses, scheme);
    sia_scheme wanted, slots;
    if (found || sia_scheme_parse(scheme, &wanted, NULL)) return found;
    for (int i = 0; i < c->losses.count; i++) {
        if (sia_scheme_parse(c->losses.groups[i].name, &slots, NULL)) continue;
        if (slots.rotary == wanted.rotary && slots.row == wanted.row && slots.distance == wanted.distance)
            return &c->losses.groups[i];
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ the order */

typedef struct order {
    int pairs, swapped, clear, without_error;
} order;

static void say_pair(sia_page *page, const order *o, const struct paper_row *a, const struct paper_row *b,
                     int column, const sia_gathered *ours_a, const sia_gathered *ours_b, double length) {
    sia_page_printf(page, "%s%s above %s (", o->clear == 1 ? ": " : "; ", a->scheme, b->scheme);
    sia_page_number(page, ours_a->mean[sia_gathered_at(ours_a, length)], 3);
    sia_page_add(page, " against ");
    sia_page_number(page, ours_b->mean[sia_gathered_at(ours_b, length)], 3);
    sia_page_printf(page, ", in the paper %.3f against %.3f)", a->loss[column], b->loss[column]);
}

/* One pair that the paper orders, a below b; the swapped ones go into the data, the clear ones also into text. */
static void judge(order *o, sia_page *clear, sia_data *data, const sia_comparison *c, int column, int a,
                  int b) {
    double length = multiples[column] * c->train_len;
    const sia_gathered *ours_a = find(c, paper[a].scheme), *ours_b = find(c, paper[b].scheme);
    if (!ours_a || !ours_b) return;
    sia_difference d = sia_gathered_difference(ours_a, ours_b, length);
    /* Two that share a training are the same model at its length: no order at all. */
    if (!isfinite(d.value) || d.value == 0) return;
    o->pairs++;
    if (d.value < 0) return;
    o->swapped++;
    sia_data_number(data, length);
    sia_data_text(data, paper[a].scheme);
    sia_data_text(data, paper[b].scheme);
    sia_data_number(data, round(1e3 * (paper[a].loss[column] - paper[b].loss[column])) / 1e3);
    sia_data_number(data, d.value);
    sia_data_number(data, d.error);
    if (!isfinite(d.error)) o->without_error++;
    if (!sia_difference_clear(d)) return;
    if (++o->clear > PAIRS_SAID) return;
    say_pair(clear, o, &paper[a], &paper[b], column, ours_a, ours_b, length);
}

static void say_order(sia_page *page, const order *o, const sia_page *clear, const char *length, int column,
                      bool one_seed) {
    sia_page_printf(page, "<li>At %s, the paper\xe2\x80\x99s %s: ", length, paper_lengths[column]);
    if (o->pairs == 1)
        sia_page_printf(page, "the one pair that the paper orders stands %s",
                        o->swapped ? "the other way round here" : "in its order");
    else if (!o->swapped)
        sia_page_printf(page, "all %d pairs that the paper orders stand in its order", o->pairs);
    else
        sia_page_printf(page, "of %d pairs that the paper orders, %d %s the other way round here", o->pairs,
                        o->swapped, o->swapped == 1 ? "stands" : "stand");
    if (o->clear) {
        if (o->clear < o->swapped)
            sia_page_printf(page, ", %d of them clearly", o->clear);
        else
            sia_page_add(page, ", clearly");
        sia_page_add(page, clear->bytes ? clear->bytes : "");
        if (o->clear > PAIRS_SAID)
            sia_page_printf(page, "; and %d more, in the table below", o->clear - PAIRS_SAID);
    } else if (o->swapped > o->without_error) {
        sia_page_add(page, ", none clearly");
    }
    if (one_seed)
        sia_page_add(page, "; one seed: no claim");
    else if (o->without_error)
        sia_page_printf(page, "; %d rest%s on one seed: no claim", o->without_error,
                        o->without_error == 1 ? "s" : "");
    sia_page_add(page, ".</li>\n");
}

static void orders(sia_report *r, const sia_comparison *c) {
    sia_data data = {.heads = {"length", "lower in the paper", "higher in the paper",
                               "difference in the paper", "difference here", "standard error by seed"},
                     .columns = 6};
    sia_page list = {0};
    for (int column = 0; column < COLUMNS; column++) {
        order o = {0};
        sia_page clear = {0};
        char text[96];
        for (int a = 0; a < SCHEMES; a++)
            for (int b = 0; b < SCHEMES; b++)
                if (paper[a].loss[column] < paper[b].loss[column]) judge(&o, &clear, &data, c, column, a, b);
        double length = multiples[column] * c->train_len;
        if (o.pairs)
            say_order(&list, &o, &clear, sia_length_text(c, length, text), column, c->most_seeds == 1);
        r->body.failed = r->body.failed || clear.failed;
        sia_page_free(&clear);
    }
    if (list.bytes) {
        sia_html_heading(&r->body, "The order of the schemes, here and in the paper");
        sia_page_add(&r->body, "<ul>\n");
        sia_page_add(&r->body, list.bytes);
        sia_page_add(&r->body, "</ul>\n");
        if (data.count) sia_html_data(&r->body, &data, "swapped.csv");
    }
    r->body.failed = r->body.failed || list.failed || data.failed;
    sia_data_free(&data);
    sia_page_free(&list);
}

/* ------------------------------------------------------------------------------------------------ the numbers */

static void paper_head(sia_page *page, const sia_comparison *c) {
    sia_page_add(
        page,
        "<p class=\"soft\">The paper\xe2\x80\x99s Table 1 (162 M parameters, trained at 4k on 2.4 billion "
        "tokens of FineWeb) beside this study, at the same multiples of the training length</p>\n"
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">Scheme</th>");
    for (int i = 0; i < COLUMNS; i++)
        sia_page_printf(page, "<th class=\"n\" scope=\"col\">%s<small>paper</small></th>", paper_lengths[i]);
    for (int i = 0; i < COLUMNS; i++)
        sia_page_printf(page, "<th class=\"n\" scope=\"col\">%.0f<small>here, %.0f\xc3\x97</small></th>",
                        multiples[i] * c->train_len, multiples[i]);
    sia_page_add(page, "</tr></thead>\n<tbody>\n");
}

static void paper_table(sia_page *page, const sia_comparison *c) {
    sia_html_heading(page, "The paper\xe2\x80\x99s numbers");
    paper_head(page, c);
    for (int s = 0; s < SCHEMES; s++) {
        const sia_gathered *ours = find(c, paper[s].scheme);
        sia_page_printf(page, "<tr><th scope=\"row\">%s<small>%s</small></th>", paper[s].name,
                        paper[s].scheme);
        for (int i = 0; i < COLUMNS; i++)
            sia_page_printf(page, "<td class=\"n\">%.3f</td>", paper[s].loss[i]);
        for (int i = 0; i < COLUMNS; i++) {
            int at = ours ? sia_gathered_at(ours, multiples[i] * c->train_len) : -1;
            sia_page_add(page, "<td class=\"n\">");
            sia_page_number(page, at < 0 ? NAN : ours->mean[at], 3);
            sia_page_add(page, "</td>");
        }
        sia_page_add(page, "</tr>\n");
    }
    sia_page_add(page, "</tbody></table></div>\n<p class=\"note\">The paper\xe2\x80\x99s model, data and "
                       "training length are its "
                       "own: what can be compared is the order, not the losses.</p>\n");
}

void sia_compare_paper(sia_report *r, const sia_comparison *c) {
    if (!isfinite(c->train_len) || !(c->train_len > 0)) return;
    int both = 0; /* one scheme has no order */
    for (int s = 0; s < SCHEMES; s++) both += find(c, paper[s].scheme) != NULL;
    if (both < 2) return;
    orders(r, c);
    paper_table(&r->body, c);
}

/* ------------------------------------------------------------------------------------------------ sharpness */

static void say_share(sia_page *page, const sia_comparison *c, double length, const sia_gathered *plain,
                      const sia_gathered *sharp, const sia_gathered *si) {
    sia_difference lead = sia_gathered_difference(plain, si, length);
    sia_difference part = sia_gathered_difference(plain, sharp, length);
    char text[96];
    if (!isfinite(lead.value) || !isfinite(part.value)) return;
    sia_page_printf(page, "<li>At %s: ", sia_length_text(c, length, text));
    if (lead.value <= 0) {
        char above[SIA_NUMBER_TEXT];
        sia_number_text(-lead.value, 3, above);
        if (strcmp(above, "0.000") == 0)
            sia_page_add(page, "si+prope and prope are level, there is nothing to close.</li>\n");
        else
            sia_page_printf(
                page, "si+prope does not lead prope (%s above it), there is nothing to close.</li>\n", above);
        return;
    }
    sia_page_add(page, "si+prope is below prope by ");
    sia_page_number(page, lead.value, 3);
    if (isfinite(lead.error)) {
        sia_page_add(page, " \xc2\xb1 ");
        sia_page_number(page, lead.error, 3);
    }
    sia_page_add(page, part.value >= 0 ? ", sharp+prope by " : ", sharp+prope is above it by ");
    sia_page_number(page, fabs(part.value), 3);
    if (isfinite(part.error)) {
        sia_page_add(page, " \xc2\xb1 ");
        sia_page_number(page, part.error, 3);
    }
    if (isfinite(lead.error) && !sia_difference_clear(lead)) {
        sia_page_add(page, ": the lead is not clear, a share of it would mean little");
    } else if (part.value < 0) {
        sia_page_add(page, ": the control closes none of the lead");
    } else {
        sia_page_add(page, ": the control closes <strong>");
        sia_page_number(page, 100 * part.value / lead.value, 0);
        sia_page_add(page, " %</strong> of the lead");
    }
    if (!isfinite(lead.error)) sia_page_add(page, "; one seed: no claim");
    sia_page_add(page, ".</li>\n");
}

void sia_compare_control(sia_report *r, const sia_comparison *c) {
    const sia_gathered *plain = find(c, "prope"), *sharp = find(c, "sharp+prope"), *si = find(c, "si+prope");
    if (!plain || !sharp || !si) return;
    sia_page_add(
        &r->body,
        "<h3>How much of the lead is sharpness</h3>\n"
        "<p>The scale-invariant transform multiplies logits by a factor that grows with the distance. The "
        "control, sharp+prope, is prope with all logits times one constant: what it gains over prope does "
        "not "
        "come from a dependence on distance.</p>\n<ul>\n");
    for (int i = 0; i < c->length_count; i++) say_share(&r->body, c, c->lengths[i], plain, sharp, si);
    sia_page_add(&r->body, "</ul>\n");
}
