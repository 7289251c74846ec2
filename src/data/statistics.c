/* SPDX-License-Identifier: MIT
 *
 * Rank-frequency, information and recurrence by distance: see statistics.h for what they are. */
#include "data/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

typedef struct job {
    sia_sequence text;
    int classes;
    uint64_t seed;
    uint64_t draws;     /* random numbers used so far */
    int64_t *counts;    /* [types] */
    uint16_t *class_of; /* [count] the symbols as classes */
    uint32_t *table;    /* [classes, classes] */
    double *margins;    /* [2, classes] its sums by row and by column */
    bool (*asked)(void);
    bool stopped; /* since then nothing is counted, and the result is not used */
} job;

typedef struct ranked {
    int64_t count;
    uint32_t symbol;
} ranked;

static int by_count(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->count != b->count) return a->count < b->count ? 1 : -1;
    return a->symbol < b->symbol ? -1 : a->symbol > b->symbol;
}

/* Least squares of y = intercept - power * x; NaN for fewer than three points. */
static double fit_power(const double *x, const double *y, int n) {
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0;
    if (n < 3) return NAN;
    for (int i = 0; i < n; i++) mean_x += x[i] / n, mean_y += y[i] / n;
    for (int i = 0; i < n; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    return -xy / xx;
}

/* ------------------------------------------------------------------------------------------ frequencies */

/* Zipf's exponent over a range of ranks, read at 20 places a decade so that the many high ranks do not
 * outvote the low ones. */
static double fit_zipf(const ranked *order, int64_t types, double first, double last) {
    double x[64], y[64];
    int n = 0;
    if ((double)types < last) return NAN;
    for (double rank = first; rank <= last * 1.0001 && n < 64; rank *= pow(10, 0.05), n++) {
        int64_t at = (int64_t)(rank + 0.5);
        x[n] = log((double)at);
        y[n] = log((double)order[at - 1].count);
    }
    return fit_power(x, y, n);
}

static void rank_frequencies(const ranked *order, sia_statistics *result) {
    static const int steps[] = {1, 2, 5};
    for (int64_t decade = 1; result->ranks < SIA_STATISTICS_RANKS; decade *= 10)
        for (int i = 0; i < 3 && result->ranks < SIA_STATISTICS_RANKS; i++) {
            int64_t rank = decade * steps[i];
            if (rank > result->types) return;
            result->rank[result->ranks] = rank;
            result->share[result->ranks++] = (double)order[rank - 1].count / (double)result->symbols;
        }
}

static sia_status count_symbols(job *j, sia_statistics *result, sia_error *err) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < j->text.count; i++)
        if (j->text.symbols[i] > largest) largest = j->text.symbols[i];
    size_t range = (size_t)largest + 1;
    j->counts = calloc(range, sizeof *j->counts);
    uint16_t *classes = calloc(range, sizeof *classes);
    ranked *order = malloc(range * sizeof *order);
    sia_status status = SIA_OK;
    if (!j->counts || !order || !classes) {
        status = sia_fail_memory(err, range * (sizeof *order + 10), "statistics");
        goto done;
    }
    for (int64_t i = 0; i < j->text.count; i++) j->counts[j->text.symbols[i]]++;
    for (uint32_t symbol = 0; symbol < range; symbol++) {
        if (!j->counts[symbol]) continue;
        order[result->types++] = (ranked){j->counts[symbol], symbol};
        result->once += j->counts[symbol] == 1;
        double p = (double)j->counts[symbol] / (double)j->text.count;
        result->entropy -= p * log(p);
    }
    qsort(order, (size_t)result->types, sizeof *order, by_count);
    rank_frequencies(order, result);
    result->zipf_head = fit_zipf(order, result->types, 10, 1000);
    result->zipf_tail = fit_zipf(order, result->types, 1000, 10000);
    for (int64_t rank = 0; rank < result->types; rank++)
        classes[order[rank].symbol] = (uint16_t)(rank < j->classes - 1 ? rank : j->classes - 1);
    for (int64_t i = 0; i < j->text.count; i++) j->class_of[i] = classes[j->text.symbols[i]];
done:
    free(order);
    free(classes);
    return status;
}

/* ------------------------------------------------------------------------------------------------ pairs */

typedef enum pairing { PAIR_AT_DISTANCE, PAIR_ANYWHERE, PAIR_IN_DOCUMENT } pairing;

typedef struct pair_counts {
    int64_t pairs;
    double information; /* as counted, biased */
    double recurrence;  /* the share of rare symbols that meet themselves */
} pair_counts;

/* Where pairs that start in a document end: for PAIR_AT_DISTANCE at i + d, else at a random place of [low,
 * high). */
typedef struct pair_range {
    int64_t first, last; /* of i */
    int64_t distance, low, high;
} pair_range;

static void count_range(job *j, pair_range range, int64_t *rare, int64_t *again) {
    enum { ASK_EVERY = 1 << 20 };
    int rest = j->classes - 1;
    for (int64_t i = range.first; i < range.last; i++) {
        if (i % ASK_EVERY == 0 && j->asked && j->asked()) j->stopped = true;
        if (j->stopped) return;
        int64_t other = range.distance
                            ? i + range.distance
                            : range.low + (int64_t)sia_random_below(j->seed, j->draws++,
                                                                    (uint64_t)(range.high - range.low));
        int a = j->class_of[i], b = j->class_of[other];
        j->table[(size_t)a * (size_t)j->classes + (size_t)b]++;
        if (a != rest) continue;
        ++*rare;
        *again += j->text.symbols[i] == j->text.symbols[other];
    }
}

static double table_information(const job *j, int64_t pairs) {
    size_t classes = (size_t)j->classes;
    double *rows = j->margins, *columns = j->margins + classes;
    memset(j->margins, 0, 2 * classes * sizeof *j->margins);
    for (size_t a = 0; a < classes; a++)
        for (size_t b = 0; b < classes; b++) {
            rows[a] += j->table[a * classes + b];
            columns[b] += j->table[a * classes + b];
        }
    double sum = 0, n = (double)pairs;
    for (size_t a = 0; a < classes; a++)
        for (size_t b = 0; b < classes; b++) {
            double joint = j->table[a * classes + b];
            if (joint > 0) sum += joint * log(joint * n / (rows[a] * columns[b]));
        }
    return sum / n;
}

/* Pairs anywhere and in a document are as many as those at distance d would be: the bias depends on the
 * number. */
static pair_counts count_pairs(job *j, pairing how, int64_t distance) {
    int64_t rare = 0, again = 0;
    pair_counts result = {0};
    if (j->stopped) return result;
    memset(j->table, 0, (size_t)j->classes * (size_t)j->classes * sizeof *j->table);
    for (int64_t document = 0; document < j->text.documents; document++) {
        int64_t start = j->text.starts[document], end = j->text.starts[document + 1];
        if (end - start <= distance) continue;
        pair_range range = {start, end - distance, 0, 0, j->text.count};
        if (how == PAIR_AT_DISTANCE) range.distance = distance;
        if (how == PAIR_IN_DOCUMENT) range.low = start, range.high = end;
        count_range(j, range, &rare, &again);
        result.pairs += range.last - range.first;
    }
    if (result.pairs) result.information = table_information(j, result.pairs);
    if (rare) result.recurrence = (double)again / (double)rare;
    return result;
}

/* The probability that a rare symbol meets itself at a random place. */
static double chance_of_recurrence(const job *j) {
    double rare = 0, squares = 0, n = (double)j->text.count;
    for (int64_t i = 0; i < j->text.count; i++) {
        if (j->class_of[i] != j->classes - 1) continue;
        rare++;
        squares += (double)j->counts[j->text.symbols[i]] / n;
    }
    return rare > 0 ? squares / rare : NAN;
}

static void fit_powers(sia_statistics *result) {
    double x[SIA_STATISTICS_DISTANCES], y[SIA_STATISTICS_DISTANCES];
    int n = 0;
    for (int i = 0; i < result->distances; i++) {
        const sia_statistics_at *at = &result->at[i];
        if (at->distance < 10 || at->distance > 1000 || at->information <= 2 * at->noise) continue;
        x[n] = log((double)at->distance);
        y[n++] = log(at->information);
    }
    result->information_power = fit_power(x, y, n);
    n = 0;
    for (int i = 0; i < result->distances; i++) {
        const sia_statistics_at *at = &result->at[i];
        if (at->distance < 10 || at->distance > 10000 || !(at->recurrence > 1)) continue;
        x[n] = log((double)at->distance);
        y[n++] = log(at->recurrence - 1);
    }
    result->recurrence_power = fit_power(x, y, n);
}

static void by_distance(job *j, int64_t max_distance, sia_statistics *result) {
    static const int steps[] = {1, 2, 3, 5, 7};
    double chance = chance_of_recurrence(j), deviation = 0;
    for (int64_t decade = 1; decade <= max_distance; decade *= 10)
        for (int step = 0; step < 5 && decade * steps[step] <= max_distance; step++) {
            int64_t distance = decade * steps[step];
            pair_counts found = count_pairs(j, PAIR_AT_DISTANCE, distance);
            /* Documents that are shorter have dropped out; with under half of the text left the rest is not
             * it. */
            if (found.pairs * 2 < j->text.count || result->distances == SIA_STATISTICS_DISTANCES)
                goto measured;
            double bias = count_pairs(j, PAIR_ANYWHERE, distance).information;
            double bias_again = count_pairs(j, PAIR_ANYWHERE, distance).information;
            deviation +=
                (bias - bias_again) * (bias - bias_again) / 2 * (double)found.pairs * (double)found.pairs;
            result->at[result->distances++] = (sia_statistics_at){
                .distance = distance,
                .pairs = found.pairs,
                .information = found.information - (bias + bias_again) / 2,
                .recurrence = found.recurrence / chance,
            };
        }
measured:
    /* One deviation for all distances, from every pair of shuffles; the mean of two baselines adds half as
     * much. */
    for (int i = 0; i < result->distances; i++)
        result->at[i].noise = sqrt(1.5 * deviation / result->distances) / (double)result->at[i].pairs;
    pair_counts whole = count_pairs(j, PAIR_IN_DOCUMENT, 0);
    result->information_document = whole.information - count_pairs(j, PAIR_ANYWHERE, 0).information;
    result->recurrence_document = whole.recurrence / chance;
    fit_powers(result);
}

sia_status sia_statistics_compute(const sia_sequence *text, const sia_statistics_options *options,
                                  sia_statistics *result, sia_error *err) {
    int classes = options && options->classes ? options->classes : 1024;
    int64_t max_distance = options && options->max_distance ? options->max_distance : 1000000;
    if (classes < 2 || classes > 4096)
        return sia_fail(err, SIA_ARGUMENT, "classes %d: want 2 to 4096", classes);
    if (text->count < 2)
        return sia_fail(err, SIA_ARGUMENT, "statistics of %lld symbols: want at least 2",
                        (long long)text->count);
    *result = (sia_statistics){.documents = text->documents, .symbols = text->count};
    job j = {.text = *text, .classes = classes, .seed = options ? options->seed : 0};
    if (options) j.asked = options->stopped;
    j.class_of = calloc((size_t)text->count, sizeof *j.class_of);
    j.table = malloc((size_t)classes * (size_t)classes * sizeof *j.table);
    j.margins = malloc((size_t)classes * 2 * sizeof *j.margins);
    sia_status status = SIA_OK;
    if (!j.class_of || !j.table || !j.margins)
        status = sia_fail_memory(err, (size_t)text->count * 2, "statistics");
    if (!status) status = count_symbols(&j, result, err);
    if (!status) by_distance(&j, max_distance, result);
    if (!status && (j.stopped || (j.asked && j.asked()))) status = sia_fail(err, SIA_STOPPED, "stopped");
    free(j.class_of);
    free(j.table);
    free(j.margins);
    free(j.counts);
    return status;
}

/* ----------------------------------------------------------------------------------------------- slices */

sia_status sia_sequence_slice(const sia_sequence *text, double from, double to, sia_sequence *slice,
                              sia_error *err) {
    uint32_t *symbols = malloc(((size_t)text->count + 1) * sizeof *symbols);
    int64_t *starts = malloc(((size_t)text->documents + 1) * sizeof *starts), count = 0;
    if (!symbols || !starts) {
        free(symbols);
        free(starts);
        return sia_fail_memory(err, (size_t)text->count * sizeof *symbols, "statistics");
    }
    for (int64_t i = 0; i < text->documents; i++) {
        int64_t length = text->starts[i + 1] - text->starts[i];
        int64_t first = (int64_t)((double)length * from), last = (int64_t)((double)length * to);
        starts[i] = count;
        for (int64_t j = first; j < last; j++) symbols[count++] = text->symbols[text->starts[i] + j];
    }
    starts[text->documents] = count;
    *slice = (sia_sequence){symbols, count, starts, text->documents};
    return SIA_OK;
}

void sia_sequence_free(sia_sequence *slice) {
    free((void *)slice->symbols);
    free((void *)slice->starts);
    *slice = (sia_sequence){0};
}
