/* SPDX-License-Identifier: MIT
 *
 * The Gaussian model, experiment by experiment: properties, totals, entropies over ranges with their fits
 * (figures 2 and 6), contexts (figure 1). Each entropy is a mean over rows of independent logits: entropy is
 * bounded, so its sample mean converges, which that of Z does not. */
#include "eval/theory.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"

const char *const sia_logits_names[SIA_LOGITS] = {"plain", "logn", "alibi", "si"};
const int sia_ratios[SIA_RATIOS] = {2, 5, 10};

typedef struct work {
    sia_theory *theory;
    sia_row_model model[SIA_LOGITS]; /* logn: its row is set for each context */
    sia_weight_sum *sums;            /* [rows, SIA_ROWS_RANGES] */
    double points;                   /* of the figures */
    double total, done, now;         /* cost of all of them, of those done, of the one in work */
    sia_error *err;
} work;

/* ------------------------------------------------------------------------------------------------ options */

static sia_status check_whole(const char *name, int64_t value, int64_t min, int64_t max, sia_error *err) {
    if (value >= min && value <= max) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT, "%s %lld: want %lld to %lld", name, (long long)value, (long long)min,
                    (long long)max);
}

static sia_status complete(work *w, sia_theory_options *o) {
    if (o->logn == 0) o->logn = 0.4;
    if (o->max_t == 0) o->max_t = 1000000;
    if (o->rows == 0) o->rows = 2048;
    if (o->threads == 0) o->threads = sia_threads_available();
    static const char *const schemes[SIA_LOGITS] = {"nope", "nope", "alibi", "si"};
    sia_attention_config config = {.tau = o->tau, .alpha = o->alpha, .beta = o->beta};
    for (int i = 0; i < SIA_LOGITS; i++) {
        sia_status status = sia_row_model_create(&w->model[i], schemes[i], &config, w->err);
        if (status) return status;
    }
    o->tau = w->model[SIA_LOGITS_SI].config.tau;
    o->alpha = w->model[SIA_LOGITS_SI].config.alpha;
    o->beta = w->model[SIA_LOGITS_SI].config.beta;
    if (!isfinite(o->logn) || o->logn <= 0)
        return sia_fail(w->err, SIA_ARGUMENT, "logn %g: want a number above 0", o->logn);
    sia_status status = check_whole("max_t", o->max_t, SIA_THEORY_MIN_T, SIA_THEORY_MAX_T, w->err);
    if (!status) status = check_whole("rows", o->rows, 16, SIA_THEORY_MAX_ROWS, w->err);
    /* After the check: rows may be anything before it. */
    if (!status && o->draws == 0)
        o->draws = 128 * o->rows < SIA_PROPERTY_DRAWS ? 128 * o->rows : SIA_PROPERTY_DRAWS;
    if (!status) status = check_whole("draws", o->draws, 16, SIA_PROPERTY_DRAWS, w->err);
    if (!status) status = check_whole("threads", o->threads, 1, SIA_MAX_THREADS, w->err);
    return status;
}

/* 10, 30, 100, 300, ... */
static int64_t next_step(int64_t t) {
    int64_t power = 1;
    while (power * 10 <= t) power *= 10;
    return t == power ? 3 * power : 10 * power;
}

/* ------------------------------------------------------------------------------------------------ jobs */

static double job_cost(const int64_t *bounds, int ranges) {
    double cost = 0;
    for (int i = 0; i < ranges; i++) cost += fmin((double)(bounds[i + 1] - bounds[i]), (double)SIA_ROWS_FULL);
    return cost;
}

static int tell(work *w, double part) {
    const sia_theory_options *o = &w->theory->options;
    double fraction = (w->done + part * w->now) / w->total;
    return o->progress ? o->progress(o->progress_context, fraction * w->points, w->points) : 0;
}

static int on_rows(void *context, int64_t rows) {
    work *w = context;
    return tell(w, (double)rows / (double)w->theory->options.rows);
}

/* Fills w->sums [rows, ranges]. part numbers the job, so that each has random numbers of its own. */
static sia_status sample(work *w, const sia_row_model *model, const int64_t *bounds, int ranges,
                         uint64_t part) {
    const sia_theory_options *o = &w->theory->options;
    w->now = job_cost(bounds, ranges);
    sia_row_sampling rows = {.count = o->rows,
                             .bounds = bounds,
                             .ranges = ranges,
                             .seed = sia_random_stream(o->seed, part),
                             .threads = o->threads,
                             .progress = on_rows,
                             .progress_context = w};
    sia_status status = sia_rows_sample(model, &rows, w->sums, w->err);
    w->done += w->now;
    return status;
}

/* The mean of a function of the rows. */
typedef double row_value(const sia_weight_sum *row, int ranges, int which);

static sia_estimate estimate(const work *w, int ranges, row_value *value, int which) {
    int64_t count = w->theory->options.rows;
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) mean += value(w->sums + i * ranges, ranges, which);
    mean /= (double)count;
    for (int64_t i = 0; i < count; i++) {
        double d = value(w->sums + i * ranges, ranges, which) - mean;
        squares += d * d;
    }
    return (sia_estimate){mean, sqrt(squares / ((double)count * (double)(count - 1)))};
}

static sia_weight_sum join(const sia_weight_sum *row, int count) {
    sia_weight_sum sum = sia_weight_none;
    for (int i = 0; i < count; i++) sum = sia_weight_join(sum, row[i]);
    return sum;
}

static double first_entropy(const sia_weight_sum *row, int ranges, int which) {
    (void)ranges;
    return sia_weight_entropy(join(row, which));
}
static double range_entropy(const sia_weight_sum *row, int ranges, int which) {
    (void)ranges;
    return sia_weight_entropy(row[which]);
}
static double total_weight(const sia_weight_sum *row, int ranges, int which) {
    (void)which;
    sia_weight_sum sum = join(row, ranges);
    return exp(sum.top) * sum.z;
}
/* The weight on the first `which` ranges. */
static double near_share(const sia_weight_sum *row, int ranges, int which) {
    sia_weight_sum all = join(row, ranges), near = join(row, which);
    return exp(near.top - all.top) * near.z / all.z;
}

/* ------------------------------------------------------------------------------------------------ properties */

/* ln E[Z] over t <= k < 10 t: ln of a sum of e^(m + a^2/2). */
static double log_total(const work *w, sia_logits logits, int64_t t, double si_total) {
    double count = 9 * (double)t, bias, scale;
    if (logits == SIA_LOGITS_SI) return log(si_total);
    if (logits == SIA_LOGITS_PLAIN) return log(count) + 0.5;
    if (logits == SIA_LOGITS_LOGN) {
        double a = w->theory->options.logn * log(10 * (double)t);
        return log(count) + a * a / 2;
    }
    /* alibi: a geometric series whose ratio is e^slope, the slope read off the library's table. */
    const sia_row_model *model = &w->model[SIA_LOGITS_ALIBI];
    sia_distance_values(model->scheme, &model->config, 0, 1, 1, &scale, &bias);
    return 0.5 + bias * (double)t + log(expm1(bias * count) / expm1(bias));
}

static sia_status run_properties(work *w) {
    sia_theory *th = w->theory;
    const sia_theory_options *o = &th->options;
    for (int64_t t = 10; t <= o->max_t; t *= 10) {
        for (int d = 0; d < SIA_RATIOS; d++) {
            uint64_t seed = sia_random_stream(o->seed, 1000 + (uint64_t)th->property_count);
            sia_property_check(&w->model[SIA_LOGITS_SI], t, sia_ratios[d], o->draws, seed, o->threads,
                               &th->properties[th->property_count]);
            th->property_count += 2;
            if (tell(w, 0)) return sia_fail(w->err, SIA_STOPPED, "stopped");
        }
        sia_total *total = &th->totals[th->total_count++];
        total->t = t;
        /* Of the last two, Z and N over the largest ratio, Z. */
        double si_total = th->properties[th->property_count - 2].closed;
        for (int i = 0; i < SIA_LOGITS; i++)
            total->log10_z[i] = log_total(w, (sia_logits)i, t, si_total) / M_LN10;
    }
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ figures 2, 6 */

static void note_plain_mean(work *w, int64_t t) {
    sia_theory *th = w->theory;
    sia_plain_mean *plain = &th->plain[th->plain_count++];
    double spread = sia_property_spread(&w->model[SIA_LOGITS_SI], t, 10);
    plain->t = t;
    for (int i = 0; i < th->property_count; i++) {
        const sia_property *p = &th->properties[i];
        if (p->t == t && p->ratio == 10 && p->quantity == 'Z') plain->closed = p->closed;
    }
    plain->sampled = estimate(w, SIA_RATIOS, total_weight, 0);
    plain->true_error = plain->closed * spread / sqrt((double)th->options.rows);
    plain->rows_needed = spread * spread * 1e6;
}

static sia_status run_ranges(work *w, sia_logits logits) {
    sia_theory *th = w->theory;
    uint64_t part = 2000 + 100 * (uint64_t)logits;
    for (int64_t t = 10; t <= th->options.max_t; t = next_step(t)) {
        int64_t bounds[SIA_RATIOS + 1] = {t, 2 * t, 5 * t, 10 * t};
        sia_status status = sample(w, &w->model[logits], bounds, SIA_RATIOS, part++);
        if (status) return status;
        sia_range_point *point = &th->ranges[th->range_count++];
        *point = (sia_range_point){.logits = logits, .t = t};
        for (int d = 0; d < SIA_RATIOS; d++)
            point->entropy[d] = estimate(w, SIA_RATIOS, first_entropy, d + 1);
        bool decade = next_step(t) == 3 * t;
        if (logits == SIA_LOGITS_SI && decade) note_plain_mean(w, t);
    }
    return SIA_OK;
}

void sia_fit_line(const double *x, const double *y, int count, sia_fit *fit) {
    double mx = 0, my = 0, xx = 0, xy = 0, yy = 0;
    for (int i = 0; i < count; i++) {
        mx += x[i] / count;
        my += y[i] / count;
    }
    for (int i = 0; i < count; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        xy += (x[i] - mx) * (y[i] - my);
        yy += (y[i] - my) * (y[i] - my);
    }
    fit->slope = xy / xx;
    fit->intercept = my - fit->slope * mx;
    double rest = 0; /* from the residuals: yy - slope xy would cancel where the fit is good */
    for (int i = 0; i < count; i++) {
        double d = y[i] - fit->intercept - fit->slope * x[i];
        rest += d * d;
    }
    fit->r2 = yy > 0 ? 1 - rest / yy : 0;
}

static void run_fits(work *w, sia_logits logits) {
    sia_theory *th = w->theory;
    for (int d = 0; d < SIA_RATIOS; d++)
        for (int root = 0; root < 2; root++) {
            double x[SIA_THEORY_STEPS], y[SIA_THEORY_STEPS];
            int count = 0;
            for (int i = 0; i < th->range_count; i++) {
                if (th->ranges[i].logits != logits) continue;
                double log_t = log((double)th->ranges[i].t);
                x[count] = root ? sqrt(log_t) : log_t;
                y[count++] = th->ranges[i].entropy[d].mean;
            }
            sia_fit *fit = &th->fits[th->fit_count++];
            *fit = (sia_fit){.logits = logits, .ratio = sia_ratios[d], .root = root != 0};
            sia_fit_line(x, y, count, fit);
        }
}

/* ------------------------------------------------------------------------------------------------ figure 1 */

/* 0, 10, 100, ... n. */
static int context_bounds(int64_t n, int64_t *bounds) {
    int ranges = 0;
    bounds[0] = 0;
    for (int64_t t = 10; t < n; t *= 10) bounds[++ranges] = t;
    bounds[++ranges] = n;
    return ranges;
}

static sia_status run_contexts(work *w, sia_logits logits) {
    sia_theory *th = w->theory;
    uint64_t part = 3000 + 100 * (uint64_t)logits;
    for (int64_t n = 100; n <= th->options.max_t; n = next_step(n)) {
        sia_context_point *point = &th->contexts[th->context_count++];
        sia_row_model model = w->model[logits];
        if (logits == SIA_LOGITS_LOGN) model.row = th->options.logn * log((double)n);
        *point = (sia_context_point){.logits = logits, .n = n};
        point->ranges = context_bounds(n, point->bounds);
        sia_status status = sample(w, &model, point->bounds, point->ranges, part++);
        if (status) return status;
        point->entropy = estimate(w, point->ranges, first_entropy, point->ranges);
        point->last100 = estimate(w, point->ranges, near_share, 2);
        for (int i = 0; i < point->ranges; i++)
            point->by_range[i] = estimate(w, point->ranges, range_entropy, i);
    }
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ all */

static void count_work(work *w) {
    int64_t bounds[SIA_THEORY_DECADES + 1], max_t = w->theory->options.max_t;
    for (int64_t t = 10; t <= max_t; t = next_step(t), w->points += 2)
        w->total += 2 * job_cost((int64_t[]){t, 2 * t, 5 * t, 10 * t}, SIA_RATIOS);
    for (int64_t n = 100; n <= max_t; n = next_step(n), w->points += SIA_LOGITS)
        w->total += SIA_LOGITS * job_cost(bounds, context_bounds(n, bounds));
}

static sia_status run(work *w) {
    sia_status status = run_properties(w);
    const sia_logits ranged[2] = {SIA_LOGITS_SI, SIA_LOGITS_PLAIN};
    for (int i = 0; i < 2 && !status; i++) {
        status = run_ranges(w, ranged[i]);
        if (!status) run_fits(w, ranged[i]);
    }
    for (int i = 0; i < SIA_LOGITS && !status; i++) status = run_contexts(w, (sia_logits)i);
    return status;
}

sia_status sia_theory_run(sia_theory **theory, const sia_theory_options *options, sia_error *err) {
    *theory = sia_alloc(1, sizeof **theory);
    if (!*theory) return sia_fail_memory(err, sizeof **theory, "theory");
    work w = {.theory = *theory, .err = err};
    (*theory)->options = *options;
    sia_status status = complete(&w, &(*theory)->options);
    if (!status) {
        size_t sums = (size_t)(*theory)->options.rows * SIA_ROWS_RANGES;
        count_work(&w);
        w.sums = sia_alloc(sums, sizeof *w.sums);
        status = w.sums ? run(&w) : sia_fail_memory(err, sums * sizeof *w.sums, "rows");
        sia_free(w.sums);
    }
    if (status) {
        sia_theory_destroy(*theory);
        *theory = NULL;
    }
    return status;
}

void sia_theory_destroy(sia_theory *theory) { sia_free(theory); }
