/* SPDX-License-Identifier: MIT
 *
 * The tables and the JSON of `sia theory`. A table shows what a person wants to see, the JSON everything. */
#include "cli/theory_report.h"

#include <jansson.h>
#include <math.h>

#include "base/json.h"
#include "cli/show.h"

/* ---------------------------------------------------------------------------------------------- verdicts */

int theory_broken(const sia_theory *theory) {
    int broken = 0;
    for (int i = 0; i < theory->property_count; i++) broken += !theory->properties[i].holds;
    return broken;
}

/* Fits come in pairs: ln t, then sqrt(ln t). */
bool theory_fits_as_expected(const sia_theory *theory) {
    bool as_expected = true;
    for (int i = 0; i < theory->fit_count; i += 2) {
        bool root_better = theory->fits[i + 1].r2 > theory->fits[i].r2;
        as_expected = as_expected && root_better == (theory->fits[i].logits == SIA_LOGITS_SI);
    }
    return as_expected;
}

/* ---------------------------------------------------------------------------------------------- tables */

static void print_properties(const sia_theory *th) {
    int broken = theory_broken(th);
    printf("The two properties, over distances t <= k < t D\n"
           "Total attention E[Z] goes to alpha tau ln D,\n"
           "unnormalised sparsity E[N] to beta tau ln D.\n\n"
           "             t  D    limit   closed off limit quad.off  sampled   error\n");
    for (int i = 0; i < th->property_count; i++) {
        const sia_property *p = &th->properties[i];
        /* D = 10 at every t; all D at the largest. */
        bool largest = p->t == th->properties[th->property_count - 1].t;
        if (p->ratio != 10 && !largest) continue;
        printf("E[%c] %9lld %2d %8.4f %8.4f %8.4f%% %8.1e %8.4f %7.1e  %s\n", p->quantity, (long long)p->t,
               p->ratio, p->limit, p->closed, 100 * (p->closed / p->limit - 1), p->quadrature / p->closed - 1,
               p->sampled, p->error, p->holds ? "holds" : "FAILS");
    }
    printf("\n%d of %d hold: quadrature within 1e-6 of the closed form,\n"
           "tilted samples within 5 errors.\n",
           th->property_count - broken, th->property_count);
}

/* "+- 12.3%", and "-" where a quotient has no value: parameters can be such that no number holds the variance. */
static const char *percent(double part, double whole, char text[24]) {
    double share = 100 * part / whole;
    if (isfinite(share))
        (void)snprintf(text, 24, "+- %.1f%%", share);
    else
        (void)snprintf(text, 24, "-");
    return text;
}

static void print_plain_means(const sia_theory *th) {
    printf("\nWhy the samples are tilted: the plain mean of Z over %lld rows, D = 10\n\n"
           "              t     closed  plain mean    it claims        truth  rows for 0.1%%\n",
           (long long)th->options.rows);
    for (int i = 0; i < th->plain_count; i++) {
        const sia_plain_mean *p = &th->plain[i];
        char claim[24], truth[24];
        printf("E[Z] %10lld  %9.4f  %10.4f  %11s  %11s  %13.1e\n", (long long)p->t, p->closed,
               p->sampled.mean, percent(p->sampled.error, p->sampled.mean, claim),
               percent(p->true_error, p->closed, truth), p->rows_needed);
    }
    printf("\nThe variance of Z grows like t. Rare rows hold most of its mean, and a sample\n"
           "that missed them claims a small error.\n");
}

static void print_totals(const sia_theory *th) {
    printf("\nlog10 of E[Z] over t <= k < 10 t, in a context of 10 t keys\n\n              t");
    for (int i = 0; i < SIA_LOGITS; i++) printf("  %9s", sia_logits_names[i]);
    putchar('\n');
    for (int i = 0; i < th->total_count; i++) {
        printf("     %10lld", (long long)th->totals[i].t);
        for (int j = 0; j < SIA_LOGITS; j++) printf("  %9.2f", th->totals[i].log10_z[j]);
        putchar('\n');
    }
    /* Said where it is so: si stays within half a decade from the first t to the last, and the others do not. */
    if (th->total_count < 2) return;
    const double *first = th->totals[0].log10_z, *last = th->totals[th->total_count - 1].log10_z;
    bool alone = true;
    for (int j = 0; j < SIA_LOGITS; j++)
        alone = alone && (fabs(last[j] - first[j]) < 0.5) == (j == SIA_LOGITS_SI);
    if (alone) printf("\nOnly si neither drowns near tokens in far ones nor forgets the far ones.\n");
}

static void print_ranges(const sia_theory *th) {
    int half = th->range_count / 2; /* si, then plain, at the same t */
    printf("\nEntropy E[H] over t <= k < t D, in nats (figures 2 and 6)\n\n%14s  %-35s    %s\n%14s", "", "si",
           "plain", "t");
    for (int d = 0; d < SIA_RATIOS; d++) printf("  D = %-7d", sia_ratios[d]);
    printf("  ");
    for (int d = 0; d < SIA_RATIOS; d++) printf("  D = %-2d", sia_ratios[d]);
    putchar('\n');
    for (int i = 0; i < half; i++) {
        const sia_range_point *si = &th->ranges[i], *plain = &th->ranges[half + i];
        printf("     %9lld", (long long)si->t);
        for (int d = 0; d < SIA_RATIOS; d++)
            printf("  %.2f +-%.2f", si->entropy[d].mean, si->entropy[d].error);
        printf("  ");
        for (int d = 0; d < SIA_RATIOS; d++) printf("  %6.3f", plain->entropy[d].mean);
        putchar('\n');
    }
}

static void print_fits(const sia_theory *th) {
    printf("\nLeast squares for E[H] against t\n\n"
           "logits   D   R2 of ln t   R2 of sqrt(ln t)   better fit\n");
    for (int i = 0; i < th->fit_count; i += 2) {
        const sia_fit *line = &th->fits[i], *root = &th->fits[i + 1];
        bool better = root->r2 > line->r2;
        const sia_fit *best = better ? root : line;
        printf("%-6s  %2d   %10.5f   %16.5f   %.2f %c %.2f %s\n", sia_logits_names[line->logits], line->ratio,
               line->r2, root->r2, best->intercept, best->slope < 0 ? '-' : '+', fabs(best->slope),
               better ? "sqrt(ln t)" : "ln t");
    }
    printf(theory_fits_as_expected(th)
               ? "\nAs the paper sees it: sqrt(ln t) for scale-invariant logits,\nln t for plain ones.\n"
               : "\nNot in the paper's order: it sees sqrt(ln t) for scale-invariant logits,\n"
                 "ln t for plain ones.\n");
}

static const sia_context_point *context_at(const sia_theory *th, int logits, int place) {
    return &th->contexts[logits * (th->context_count / SIA_LOGITS) + place];
}

static void print_contexts(const sia_theory *th) {
    int places = th->context_count / SIA_LOGITS;
    printf("\nA query that sees n keys (figure 1, top); logn has s = %g,\n"
           "alibi its gentlest slope, 2^-8\n\n"
           "            entropy, nats                      weight on the last 100\n        n",
           th->options.logn);
    for (int column = 0; column < 2; column++) {
        for (int i = 0; i < SIA_LOGITS; i++) printf("  %6s", sia_logits_names[i]);
        if (!column) printf("  ");
    }
    putchar('\n');
    for (int place = 0; place < places; place++) {
        printf("%9lld", (long long)context_at(th, 0, place)->n);
        for (int i = 0; i < SIA_LOGITS; i++) printf("  %6.2f", context_at(th, i, place)->entropy.mean);
        printf("  ");
        for (int i = 0; i < SIA_LOGITS; i++) printf("  %6.4f", context_at(th, i, place)->last100.mean);
        putchar('\n');
    }
}

static void print_context_ranges(const sia_theory *th) {
    int last = th->context_count / SIA_LOGITS - 1;
    const sia_context_point *first = context_at(th, 0, last);
    printf("\nEntropy within each range of distances, n = %lld\n\n    from         to", (long long)first->n);
    for (int i = 0; i < SIA_LOGITS; i++) printf("  %6s", sia_logits_names[i]);
    putchar('\n');
    for (int range = 0; range < first->ranges; range++) {
        printf("%8lld  %9lld", (long long)first->bounds[range], (long long)first->bounds[range + 1]);
        for (int i = 0; i < SIA_LOGITS; i++) printf("  %6.2f", context_at(th, i, last)->by_range[range].mean);
        putchar('\n');
    }
}

void theory_print(const sia_theory *th) {
    const sia_theory_options *o = &th->options;
    printf(
        "Attention on Gaussian logits: tau %g, alpha %g, beta %g\n%lld rows for each entropy, seed %llu\n\n",
        o->tau, o->alpha, o->beta, (long long)o->rows, (unsigned long long)o->seed);
    print_properties(th);
    print_plain_means(th);
    print_totals(th);
    print_ranges(th);
    print_fits(th);
    print_contexts(th);
    print_context_ranges(th);
}

/* ---------------------------------------------------------------------------------------------- JSON */

static void put_settings(cli_json_out *out, const sia_theory *th) {
    const sia_theory_options *o = &th->options;
    cli_json_put(out, json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:I,s:I,s:I,s:I,s:s,s:i,s:b}", "figure", "settings",
                                "tau", o->tau, "alpha", o->alpha, "beta", o->beta, "logn", o->logn, "alibi",
                                0x1p-8, "max_t", (json_int_t)o->max_t, "rows", (json_int_t)o->rows, "draws",
                                (json_int_t)o->draws, "seed", (json_int_t)o->seed, "version", sia_version(),
                                "properties_broken", theory_broken(th), "fits_as_expected",
                                theory_fits_as_expected(th)));
}

static void put_properties(cli_json_out *out, const sia_theory *th) {
    for (int i = 0; i < th->property_count; i++) {
        const sia_property *p = &th->properties[i];
        cli_json_put(out,
                     json_pack("{s:s,s:s#,s:i,s:I,s:o,s:o,s:o,s:o,s:o,s:b}", "figure", "property", "quantity",
                               &p->quantity, 1, "D", p->ratio, "t", (json_int_t)p->t, "limit",
                               sia_json_number(p->limit), "closed", sia_json_number(p->closed), "quadrature",
                               sia_json_number(p->quadrature), "sampled", sia_json_number(p->sampled),
                               "error", sia_json_number(p->error), "holds", p->holds));
    }
    for (int i = 0; i < th->plain_count; i++) {
        const sia_plain_mean *p = &th->plain[i];
        cli_json_put(out, json_pack("{s:s,s:s,s:i,s:I,s:o,s:o,s:o,s:o,s:o}", "figure", "plain-mean",
                                    "quantity", "Z", "D", 10, "t", (json_int_t)p->t, "closed",
                                    sia_json_number(p->closed), "mean", sia_json_number(p->sampled.mean),
                                    "error", sia_json_number(p->sampled.error), "true_error",
                                    sia_json_number(p->true_error), "rows_needed",
                                    sia_json_number(p->rows_needed)));
    }
    for (int i = 0; i < th->total_count; i++)
        for (int j = 0; j < SIA_LOGITS; j++)
            cli_json_put(out, json_pack("{s:s,s:s,s:i,s:I,s:o}", "figure", "total", "scheme",
                                        sia_logits_names[j], "D", 10, "t", (json_int_t)th->totals[i].t,
                                        "log10_Z", sia_json_number(th->totals[i].log10_z[j])));
}

static void put_ranges(cli_json_out *out, const sia_theory *th) {
    for (int i = 0; i < th->range_count; i++)
        for (int d = 0; d < SIA_RATIOS; d++) {
            const sia_range_point *p = &th->ranges[i];
            cli_json_put(out, json_pack("{s:s,s:s,s:i,s:I,s:o,s:o}", "figure", "entropy-range", "scheme",
                                        sia_logits_names[p->logits], "D", sia_ratios[d], "t",
                                        (json_int_t)p->t, "entropy", sia_json_number(p->entropy[d].mean),
                                        "error", sia_json_number(p->entropy[d].error)));
        }
    for (int i = 0; i < th->fit_count; i++) {
        const sia_fit *f = &th->fits[i];
        cli_json_put(out,
                     json_pack("{s:s,s:s,s:i,s:s,s:o,s:o,s:o}", "figure", "fit", "scheme",
                               sia_logits_names[f->logits], "D", f->ratio, "x",
                               f->root ? "sqrt(log t)" : "log t", "intercept", sia_json_number(f->intercept),
                               "slope", sia_json_number(f->slope), "r2", sia_json_number(f->r2)));
    }
}

static void put_contexts(cli_json_out *out, const sia_theory *th) {
    for (int i = 0; i < th->context_count; i++) {
        const sia_context_point *p = &th->contexts[i];
        cli_json_put(out,
                     json_pack("{s:s,s:s,s:I,s:o,s:o,s:o,s:o}", "figure", "context", "scheme",
                               sia_logits_names[p->logits], "n", (json_int_t)p->n, "entropy",
                               sia_json_number(p->entropy.mean), "error", sia_json_number(p->entropy.error),
                               "last100", sia_json_number(p->last100.mean), "last100_error",
                               sia_json_number(p->last100.error)));
        for (int range = 0; range < p->ranges; range++)
            cli_json_put(out, json_pack("{s:s,s:s,s:I,s:I,s:I,s:o,s:o}", "figure", "context-range", "scheme",
                                        sia_logits_names[p->logits], "n", (json_int_t)p->n, "from",
                                        (json_int_t)p->bounds[range], "to", (json_int_t)p->bounds[range + 1],
                                        "entropy", sia_json_number(p->by_range[range].mean), "error",
                                        sia_json_number(p->by_range[range].error)));
    }
}

sia_status theory_write_json(const sia_theory *theory, FILE *stream, sia_error *err) {
    cli_json_out out = {stream, SIA_OK, err};
    put_settings(&out, theory);
    put_properties(&out, theory);
    put_ranges(&out, theory);
    put_contexts(&out, theory);
    return out.status;
}
