/* SPDX-License-Identifier: MIT
 *
 * The properties in three ways and their limits, the fits, and the whole of the Gaussian model: what it must
 * show, the same bits for any number of threads, what it refuses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "eval/theory.h"

static sia_error said;

static sia_row_model si(double tau, double alpha, double beta) {
    sia_row_model model;
    sia_attention_config config = {.tau = tau, .alpha = alpha, .beta = beta};
    if (sia_row_model_create(&model, "si", &config, &said)) fail_msg("%s", said.text);
    return model;
}

static const struct parameters {
    double tau, alpha, beta;
} parameters[] = {{10, 0, 0}, {0.01, 0, 0}, {1000, 0, 0}, {10, 1, 0.25}, {1, 3, 20}, {5, 0.1, 8}};
enum { PARAMETERS = sizeof parameters / sizeof *parameters };

/* Closed form, quadrature and samples agree; the closed form is the sum that Lemmas 1 and 2 name. */
static void test_three_ways(void **state) {
    (void)state;
    static const int64_t ts[] = {1, 10, 1000, 100000};
    for (int p = 0; p < PARAMETERS; p++)
        for (size_t i = 0; i < sizeof ts / sizeof *ts; i++)
            for (int d = 0; d < SIA_RATIOS; d++) {
                sia_row_model model = si(parameters[p].tau, parameters[p].alpha, parameters[p].beta);
                const sia_attention_config *c = &model.config;
                sia_property both[2];
                sia_property_check(&model, ts[i], sia_ratios[d], 1 << 14, 5, 2, both);
                double sum = 0;
                for (int64_t k = ts[i]; k < ts[i] * sia_ratios[d]; k++) sum += 1 / ((double)k / c->tau + 1);
                for (int q = 0; q < 2; q++) {
                    double want = (q ? c->beta : c->alpha) * sum;
                    if (!both[q].holds || fabs(both[q].closed / want - 1) > 1e-10)
                        fail_msg(
                            "tau %g alpha %g beta %g t %lld D %d: closed %.12g, sum %.12g, quadrature %.12g, "
                            "sampled %g +- %g",
                            c->tau, c->alpha, c->beta, (long long)ts[i], sia_ratios[d], both[q].closed, want,
                            both[q].quadrature, both[q].sampled, both[q].error);
                }
            }
}

static void test_limits(void **state) {
    (void)state;
    for (int p = 0; p < PARAMETERS; p++)
        for (int64_t t = 1000000; t <= 100000000; t *= 10)
            for (int d = 0; d < SIA_RATIOS; d++) {
                sia_row_model model = si(parameters[p].tau, parameters[p].alpha, parameters[p].beta);
                const sia_attention_config *c = &model.config;
                sia_property both[2];
                sia_property_check(&model, t, sia_ratios[d], 1, 5, 1, both);
                double ln = log(sia_ratios[d]), bound = (c->tau + 1) / (double)t;
                assert_true(fabs(both[0].limit - c->alpha * c->tau * ln) <= 1e-12 * both[0].limit);
                assert_true(fabs(both[1].limit - c->beta * c->tau * ln) <= 1e-12 * both[1].limit);
                for (int q = 0; q < 2; q++) assert_true(fabs(both[q].closed / both[q].limit - 1) < bound);
            }
}

/* What the paper's figures rest on: at t = 10^6, tau = 10, within 0.1% in every way. */
static void test_a_million(void **state) {
    (void)state;
    sia_row_model model = si(10, 0, 0);
    sia_property both[2];
    sia_property_check(&model, 1000000, 10, 1 << 18, 1, 2, both);
    assert_true(fabs(both[0].quadrature / both[0].closed - 1) < 1e-3);
    assert_true(fabs(both[0].sampled / both[0].closed - 1) < 1e-3);
    /* A sample of Z differs by k / (k + tau) alone. The mean of L is beta/alpha at every distance, so that a sample of
     * N differs by a g; distances are spread evenly in ln k. */
    double root = sqrt(1 << 18), square = 0, a, m;
    for (int i = 0; i < 100; i++) {
        sia_distance_values(model.scheme, &model.config, 0, (int64_t)(1e6 * pow(10, (i + 0.5) / 100)), 1, &a,
                            &m);
        square += a * a / 100;
    }
    assert_true(both[0].error < 1e-5 * both[0].closed / root);
    assert_true(fabs(both[1].error / (both[0].closed * sqrt(square) / root) - 1) < 0.02);
    /* And where the tables are not those of the closed form, the check says so. */
    model.row = 1.001;
    sia_property_check(&model, 1000000, 10, 1 << 14, 1, 2, both);
    assert_false(both[0].holds || both[1].holds);
}

static void test_fit(void **state) {
    (void)state;
    double x[] = {1, 2, 3, 4}, line[] = {5, 7, 9, 11}, bent[] = {0, 1, 1, 0}, flat[] = {2, 2, 2, 2};
    sia_fit fit = {0};
    sia_fit_line(x, line, 4, &fit);
    assert_true(fabs(fit.intercept - 3) < 1e-12 && fabs(fit.slope - 2) < 1e-12 && fit.r2 == 1);
    sia_fit_line(x, bent, 4, &fit);
    assert_true(fabs(fit.slope) < 1e-12 && fabs(fit.intercept - 0.5) < 1e-12 && fabs(fit.r2) < 1e-12);
    sia_fit_line(x, flat, 4, &fit);
    assert_true(fit.slope == 0 && fit.r2 == 0);
}

/* ------------------------------------------------------------------------------------------------ the whole */

static const sia_context_point *context_of(const sia_theory *th, sia_logits logits, int64_t n) {
    for (int i = 0; i < th->context_count; i++)
        if (th->contexts[i].logits == logits && th->contexts[i].n == n) return &th->contexts[i];
    fail_msg("no context of %lld", (long long)n);
    return NULL;
}

static void check_fits(const sia_theory *th) {
    assert_int_equal(th->fit_count, 12);
    for (int i = 0; i < th->fit_count; i += 2) {
        const sia_fit *line = &th->fits[i], *root = &th->fits[i + 1];
        print_message("%-5s D %2d  R2 of ln t %.5f  of sqrt(ln t) %.5f\n", sia_logits_names[line->logits],
                      line->ratio, line->r2, root->r2);
        assert_true(!line->root && root->root);
        if (line->logits == SIA_LOGITS_SI)
            assert_true(root->r2 > line->r2 && root->r2 > 0.98);
        else
            assert_true(line->r2 > root->r2 && line->r2 > 0.999 && fabs(line->slope - 1) < 0.02);
    }
}

static void check_plain_means(const sia_theory *th) {
    const sia_plain_mean *first = &th->plain[0], *last = &th->plain[th->plain_count - 1];
    for (const sia_plain_mean *p = first; p <= last; p++)
        print_message("t %7lld  closed %8.4f  plain mean %8.4f  claims +- %5.1f%%  truth +- %6.1f%%\n",
                      (long long)p->t, p->closed, p->sampled.mean, 100 * p->sampled.error / p->sampled.mean,
                      100 * p->true_error / p->closed);
    /* The variance is near n e^2 - n's small share; at t = 10^6 the mean of 256 rows is worth nothing. */
    double spread = sqrt(9e6 * exp(2)) / last->closed;
    assert_true(fabs(last->true_error / last->closed * sqrt((double)th->options.rows) / spread - 1) < 1e-3);
    assert_true(last->true_error > last->closed && first->true_error < 0.1 * first->closed);
    assert_true(fabs(first->sampled.mean - first->closed) < 5 * first->true_error);
    assert_true(fabs(first->sampled.error / first->true_error - 1) < 0.5);
    for (const sia_plain_mean *p = first; p <= last;
         p++) /* with so many rows it is a thousandth of the mean */
        assert_true(fabs(p->true_error * sqrt((double)th->options.rows / p->rows_needed) - 1e-3 * p->closed) <
                    1e-9 * p->closed);
}

/* ln n - 1/2 is the entropy of n plain logits as n grows; weights on 100 of n alike are 100/n. */
static void check_contexts(const sia_theory *th) {
    const sia_context_point *plain = context_of(th, SIA_LOGITS_PLAIN, 1000000);
    assert_true(fabs(plain->entropy.mean - (log(1e6) - 0.5)) < 0.01);
    assert_true(fabs(plain->last100.mean - 1e-4) < 5 * plain->last100.error);
    assert_int_equal(plain->ranges, 6);
    assert_true(fabs(plain->by_range[5].mean - (log(9e5) - 0.5)) < 0.01);
    assert_true(plain->bounds[0] == 0 && plain->bounds[1] == 10 && plain->bounds[6] == 1000000);
    /* alibi sees no further than its slope lets it; si keeps the last 100 in sight. */
    const sia_context_point *near = context_of(th, SIA_LOGITS_ALIBI, 10000),
                            *far = context_of(th, SIA_LOGITS_ALIBI, 1000000);
    assert_true(fabs(near->entropy.mean - far->entropy.mean) <
                5 * hypot(near->entropy.error, far->entropy.error));
    assert_true(context_of(th, SIA_LOGITS_SI, 1000000)->last100.mean > 0.1);
    assert_true(context_of(th, SIA_LOGITS_LOGN, 1000000)->last100.mean < 0.01);
    assert_true(context_of(th, SIA_LOGITS_SI, 300)->ranges == 3);
    assert_true(context_of(th, SIA_LOGITS_SI, 100)->last100.mean == 1);
}

/* ln of the sum of e^(m + a^2/2) over t <= k < 10 t, term by term. */
static double log_sum(sia_logits logits, int64_t t, const sia_theory_options *o) {
    double top = 0, rest = 0, a = logits == SIA_LOGITS_LOGN ? o->logn * log(10 * (double)t) : 1;
    for (int64_t k = t; k < 10 * t; k++) {
        double term = a * a / 2 - (logits == SIA_LOGITS_ALIBI ? (double)k / 256 : 0);
        if (logits == SIA_LOGITS_SI) term = log(o->alpha / ((double)k / o->tau + 1));
        if (k == t)
            top = term;
        else
            rest += exp(term - top);
    }
    return top + log1p(rest);
}

static void check_totals(const sia_theory *th) {
    assert_int_equal(th->total_count, 6);
    for (int i = 0; i < 4; i++) /* 10 to 10^4 */
        for (int logits = 0; logits < SIA_LOGITS; logits++) {
            const sia_total *total = &th->totals[i];
            double wanted = log_sum((sia_logits)logits, total->t, &th->options) / log(10);
            assert_int_equal(total->t, pow(10, i + 1));
            if (!(fabs(total->log10_z[logits] - wanted) < 1e-9 * fmax(1, fabs(wanted))))
                fail_msg("%s, t %lld: %.12g, want %.12g", sia_logits_names[logits], (long long)total->t,
                         total->log10_z[logits], wanted);
        }
}

/* Contexts drawn once more, for themselves: means within their errors, and errors that are those of the rows. */
static void check_redrawn(const sia_theory *th) {
    static const struct {
        sia_logits logits;
        const char *scheme;
        int64_t n;
    } cases[] = {{SIA_LOGITS_LOGN, "nope", 100},
                 {SIA_LOGITS_LOGN, "nope", 1000},
                 {SIA_LOGITS_SI, "si", 1000},
                 {SIA_LOGITS_PLAIN, "nope", 300},
                 {SIA_LOGITS_ALIBI, "alibi", 3000}};
    enum { ROWS = 2048 };
    static sia_weight_sum sums[ROWS][2];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const sia_context_point *point = context_of(th, cases[c].logits, cases[c].n);
        sia_row_model model;
        if (sia_row_model_create(&model, cases[c].scheme, &(sia_attention_config){0}, &said))
            fail_msg("%s", said.text);
        if (cases[c].logits == SIA_LOGITS_LOGN) model.row = 0.4 * log((double)cases[c].n);
        const int64_t bounds[] = {0, 100, cases[c].n};
        sia_row_sampling rows = {.count = ROWS, .bounds = bounds, .ranges = 2, .seed = 77, .threads = 1};
        assert_int_equal(sia_rows_sample(&model, &rows, sums[0], &said), SIA_OK);
        double mean[2] = {0}, squares[2] = {0};
        for (int i = 0; i < ROWS; i++) {
            sia_weight_sum all = sia_weight_join(sums[i][0], sums[i][1]);
            double value[2] = {sia_weight_entropy(all), exp(sums[i][0].top - all.top) * sums[i][0].z / all.z};
            for (int k = 0; k < 2; k++) {
                mean[k] += value[k] / ROWS;
                squares[k] += value[k] * value[k] / ROWS;
            }
        }
        const sia_estimate *found[2] = {&point->entropy, &point->last100};
        for (int k = 0; k < 2; k++) {
            double error = sqrt((squares[k] - mean[k] * mean[k]) / (double)th->options.rows);
            if (cases[c].n == 100 && k) continue; /* all of it is near */
            if (!(fabs(found[k]->mean - mean[k]) < 5 * error && fabs(found[k]->error / error - 1) < 0.3))
                fail_msg("%s of %lld, %s: %g +- %g, want %g +- %g", sia_logits_names[cases[c].logits],
                         (long long)cases[c].n, k ? "last 100" : "entropy", found[k]->mean, found[k]->error,
                         mean[k], error);
        }
    }
}

static void test_whole(void **state) {
    (void)state;
    sia_theory *th;
    sia_theory_options options = {.rows = 256, .draws = 1 << 14, .seed = 1, .threads = 2};
    if (sia_theory_run(&th, &options, &said)) fail_msg("%s", said.text);
    assert_int_equal(th->property_count, 6 * 3 * 2);
    for (int i = 0; i < th->property_count; i++) assert_true(th->properties[i].holds);
    assert_int_equal(th->range_count, 2 * 11);
    assert_int_equal(th->context_count, 4 * 9);
    check_fits(th);
    check_plain_means(th);
    check_contexts(th);
    check_redrawn(th);
    check_totals(th);
    const sia_total *last = &th->totals[th->total_count - 1];
    assert_true(fabs(last->log10_z[SIA_LOGITS_SI] - log10(th->properties[34].closed)) < 1e-12);
    assert_true(fabs(last->log10_z[SIA_LOGITS_PLAIN] - log10(9e6 * exp(0.5))) < 1e-12);
    assert_true(last->log10_z[SIA_LOGITS_ALIBI] < -1000);
    sia_theory_destroy(th);
}

/* Everything sampled, in one row of doubles. */
static int sampled_numbers(const sia_theory *th, double *out) {
    int used = 0;
    for (int i = 0; i < th->property_count; i++) {
        out[used++] = th->properties[i].sampled;
        out[used++] = th->properties[i].error;
    }
    for (int i = 0; i < th->range_count; i++)
        for (int d = 0; d < SIA_RATIOS; d++) {
            out[used++] = th->ranges[i].entropy[d].mean;
            out[used++] = th->ranges[i].entropy[d].error;
        }
    for (int i = 0; i < th->context_count; i++) {
        out[used++] = th->contexts[i].entropy.mean;
        out[used++] = th->contexts[i].last100.error;
        for (int r = 0; r < th->contexts[i].ranges; r++) out[used++] = th->contexts[i].by_range[r].mean;
    }
    for (int i = 0; i < th->plain_count; i++) out[used++] = th->plain[i].sampled.mean;
    return used;
}

static void test_same_bits(void **state) {
    (void)state;
    static double one[2000], other[2000];
    int count = 0;
    for (int threads = 1; threads <= 4; threads++) {
        sia_theory *th;
        /* The fourth time with another seed: the numbers must differ. */
        sia_theory_options options = {.max_t = 30000, .rows = 37, .draws = 20000, .threads = threads % 4};
        options.seed = threads == 4;
        if (sia_theory_run(&th, &options, &said)) fail_msg("%s", said.text);
        int used = sampled_numbers(th, threads == 1 ? one : other);
        if (threads == 1) count = used;
        assert_int_equal(used, count);
        if (threads == 2 || threads == 3) assert_memory_equal(one, other, (size_t)count * sizeof *one);
        if (threads == 4) assert_memory_not_equal(one, other, (size_t)count * sizeof *one);
        sia_theory_destroy(th);
    }
    assert_true(count > 200);
}

static int stop_in_the_middle(void *context, double done, double total) {
    (void)context;
    return done > total / 2;
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        sia_theory_options options;
        sia_status status;
        const char *says;
    } cases[] = {
        {{.alpha = 2, .beta = 1}, SIA_ARGUMENT, "beta 1: want beta >= alpha ln alpha, about 1.38629"},
        {{.tau = -1}, SIA_ARGUMENT, "tau -1: want a number from 1e-9 to 1e15"},
        {{.tau = NAN}, SIA_ARGUMENT, "tau nan: want a number from 1e-9 to 1e15"},
        {{.logn = INFINITY}, SIA_ARGUMENT, "logn inf: want a number above 0"},
        {{.max_t = 999}, SIA_ARGUMENT, "max_t 999: want 1000 to 100000000"},
        {{.max_t = INT64_MAX}, SIA_ARGUMENT, "want 1000 to 100000000"},
        {{.rows = 1}, SIA_ARGUMENT, "rows 1: want 16 to 100000"},
        {{.rows = INT64_MIN}, SIA_ARGUMENT, "want 16 to 100000"},
        {{.draws = -1}, SIA_ARGUMENT, "draws -1: want 16 to"},
        {{.threads = -1}, SIA_ARGUMENT, "threads -1: want 1 to 1024"},
        {{.rows = 16, .max_t = 1000, .draws = 16, .threads = 2, .progress = stop_in_the_middle},
         SIA_STOPPED,
         "stopped"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_theory *th;
        assert_int_equal(sia_theory_run(&th, &cases[i].options, &said), cases[i].status);
        assert_null(th);
        if (!strstr(said.text, cases[i].says)) fail_msg("\"%s\": want \"%s\"", said.text, cases[i].says);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_ways), cmocka_unit_test(test_limits), cmocka_unit_test(test_a_million),
        cmocka_unit_test(test_fit),        cmocka_unit_test(test_whole),  cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
