/* SPDX-License-Identifier: MIT
 *
 * The probe against a float64 model whose rows and pairs are computed as their definitions read; quantiles of known
 * samples; threads; what it refuses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "eval/probe.h"
#include "eval/quantile.h"
#include "larger.h"
#include "position/scheme.h"
#include "reference.h"

enum {
    VOCABULARY = 61,
    LENGTH = 105, /* of the last six rows the first does not reach the distance 100 */
    WINDOWS = 2,
    TOKENS = 1 + WINDOWS * (LENGTH + 5),
    LAYERS = 2,
    HEADS = 4,
    KV_HEADS = 2,
    DIM = 24
};
enum { SEED = 5, ALL_PAIRS = WINDOWS * SIA_PROBE_QUERIES * SIA_PROBE_KEYS };

/* ------------------------------------------------------------------------------------------------ the problem */

static sia_model *model_of(const char *trained, const char *scheme, int threads) {
    sia_model_config config = {.layers = LAYERS,
                               .width = 40,
                               .heads = HEADS,
                               .kv_heads = KV_HEADS,
                               .head_dim = DIM,
                               .hidden = 72,
                               .vocabulary = VOCABULARY,
                               .train_len = 32,
                               .seed = 9};
    (void)snprintf(config.scheme, sizeof config.scheme, "%s", trained);
    return reference_model(&config, scheme, LENGTH, threads);
}

typedef struct text {
    uint16_t tokens[TOKENS];
    sia_corpus *corpus;
    sia_windows *windows;
} text;

static void text_open(text *t, int64_t length, uint32_t vocabulary) {
    sia_error err;
    t->tokens[0] = 0;
    for (int i = 1; i < TOKENS; i++)
        t->tokens[i] = (uint16_t)(1 + sia_random_below(1, (uint64_t)i, (uint64_t)vocabulary - 1));
    sia_corpus_config config = {.vocabulary = vocabulary, .end_of_text = 0, .scan = 1};
    if (sia_corpus_borrow(&t->corpus, t->tokens, TOKENS, &config, &err)) fail_msg("%s", err.text);
    if (sia_windows_create(&t->windows, t->corpus, length, WINDOWS, &err)) fail_msg("%s", err.text);
}

static void text_close(text *t) {
    sia_windows_destroy(t->windows);
    sia_corpus_close(t->corpus);
}

static sia_probe *probe_of(sia_model *m, const text *t) {
    sia_probe *p;
    sia_error err;
    sia_probe_options options = {.windows = t->windows, .length = LENGTH, .seed = SEED};
    if (sia_probe_run(&p, m, &options, &err)) fail_msg("%s", err.text);
    return p;
}

/* ------------------------------------------------------------------------------------------------ by definition */

typedef struct wanted {
    const reference *r;
    const sia_probe *p; /* its contexts, ranges and pairs; not its results */
    int64_t window;
    sia_probe_value entropy[SIA_PROBE_CONTEXTS], last100[SIA_PROBE_CONTEXTS], self[SIA_PROBE_CONTEXTS],
        first[SIA_PROBE_CONTEXTS];
    sia_probe_range range[SIA_PROBE_CONTEXTS][SIA_PROBE_RANGES];
    double mass[LAYERS][HEADS][SIA_PROBE_RANGES];
    double pairs[LAYERS][HEADS][SIA_PROBE_KINDS][ALL_PAIRS];
} wanted;

static void turned(const reference *r, int64_t position, const double *x, double *out) {
    double frequency[SIA_MAX_DIM / 2];
    (void)sia_rotary_frequencies(r->scheme, &r->attention, frequency);
    for (int i = 0; i < DIM / 2; i++) {
        double angle = (double)position * frequency[i], re = x[i], im = x[i + DIM / 2];
        out[i] = re * cos(angle) - im * sin(angle);
        out[i + DIM / 2] = re * sin(angle) + im * cos(angle);
    }
}

static double product(const double *x, const double *y) {
    double sum = 0;
    for (int i = 0; i < DIM; i++) sum += x[i] * y[i];
    return sum / sqrt(DIM);
}

/* The three logits of one pair. */
static void pair_logits(const reference *r, int layer, int head, int64_t query, int64_t key, const double *q,
                        const double *k, double logits[SIA_PROBE_KINDS]) {
    const double *one = q + (query * HEADS + head) * DIM,
                 *other = k + (key * KV_HEADS + head / (HEADS / KV_HEADS)) * DIM;
    double a[DIM], b[DIM], scale, bias, row = sia_row_constant(r->scheme, &r->attention);
    turned(r, query, one, a);
    turned(r, key, other, b);
    sia_distance_values(r->scheme, &r->attention, head, query - key, 1, &scale, &bias);
    if (r->scheme.row == SIA_ROW_LOGN)
        row *= (double)sia_block_parameter(&r->m->parameters, layer, SIA_KIND_LOGN)->value[head] *
               log((double)query + 1);
    logits[SIA_PROBE_BASE] = product(one, other);
    logits[SIA_PROBE_ROTARY] = product(a, b);
    logits[SIA_PROBE_FINAL] = scale * row * product(a, b) + bias;
}

static double range_entropy(const double *weight, int64_t from, int64_t to, double *mass) {
    double sum = 0, h = 0;
    for (int64_t t = from; t < to; t++) sum += weight[t];
    for (int64_t t = from; t < to; t++) h -= weight[t] > 0 ? weight[t] / sum * log(weight[t] / sum) : 0;
    *mass = sum;
    return h;
}

static void weights_of(const reference *r, int layer, int head, int64_t query, const double *q,
                       const double *k, double weight[LENGTH]) {
    double logits[SIA_PROBE_KINDS], most = -INFINITY, sum = 0;
    for (int64_t key = 0; key <= query; key++) {
        pair_logits(r, layer, head, query, key, q, k, logits);
        weight[query - key] = logits[SIA_PROBE_FINAL];
        most = fmax(most, logits[SIA_PROBE_FINAL]);
    }
    for (int64_t t = 0; t <= query; t++) sum += weight[t] = exp(weight[t] - most);
    for (int64_t t = 0; t <= query; t++) weight[t] /= sum;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void want_contexts(wanted *w, int layer, int head, const double *q, const double *k) {
    double weight[LENGTH] = {0}, mass;
    for (int i = 0; i < w->p->context_count; i++) {
        const sia_probe_context *c = &w->p->contexts[i];
        double all = c->rows * LAYERS * HEADS * WINDOWS;
        for (int row = 0; row < c->rows; row++) {
            int64_t query = c->length - 1 - row, n = query + 1;
            weights_of(w->r, layer, head, query, q, k, weight);
            w->entropy[i].mean += range_entropy(weight, 0, n, &mass) / all;
            (void)range_entropy(weight, 0, n < 100 ? n : 100, &mass);
            w->last100[i].mean += mass / all;
            w->self[i].mean += weight[0] / all;
            w->first[i].mean += weight[query] / all;
            for (int r = 0; r < c->ranges; r++) {
                int64_t from = c->range[r].from, to = c->range[r].to < n ? c->range[r].to : n;
                if (from >= to) continue;
                /* The mean is over the rows that reach the range. */
                double reach = all / c->rows * (double)smaller(c->rows, c->length - from);
                w->range[i][r].entropy.mean += range_entropy(weight, from, to, &mass) / reach;
                w->range[i][r].mass.mean += mass / reach;
            }
        }
    }
}

static void want_mass(wanted *w, int layer, int head, const double *q, const double *k) {
    const int64_t bounds[] = {0, 10, 100, 1000};
    double weight[LENGTH] = {0}, mass;
    assert_int_equal(w->p->ranges, 3);
    const int64_t first = LENGTH / 2, rows = (LENGTH - first) * WINDOWS;
    for (int64_t query = first; query < LENGTH; query++) {
        weights_of(w->r, layer, head, query, q, k, weight);
        for (int range = 0; range < 3; range++) {
            int64_t to = bounds[range + 1] < query + 1 ? bounds[range + 1] : query + 1;
            (void)range_entropy(weight, bounds[range], to, &mass);
            w->mass[layer][head][range] += mass / (double)rows;
        }
    }
}

static void want_pairs(wanted *w, int layer, int head, const double *q, const double *k) {
    int64_t each = w->p->queries * SIA_PROBE_KEYS, query, key;
    double logits[SIA_PROBE_KINDS];
    for (int64_t i = 0; i < each; i++) {
        sia_probe_pair(w->p, SEED, w->window, i, &query, &key);
        assert_true(key >= 1 && key <= query && query < LENGTH);
        pair_logits(w->r, layer, head, query, key, q, k, logits);
        for (int kind = 0; kind < SIA_PROBE_KINDS; kind++)
            w->pairs[layer][head][kind][w->window * each + i] = logits[kind];
    }
}

static void look(void *context, int layer, int64_t length, const double *q, const double *k) {
    assert_int_equal(length, LENGTH);
    for (int head = 0; head < HEADS; head++) {
        want_contexts(context, layer, head, q, k);
        want_mass(context, layer, head, q, k);
        want_pairs(context, layer, head, q, k);
    }
}

static wanted *want(sia_model *m, const text *t, const sia_probe *p) {
    wanted *w = calloc(1, sizeof *w);
    reference r = reference_create(m);
    uint32_t ids[LENGTH + 1];
    sia_error err;
    assert_non_null(w);
    *w = (wanted){.r = &r, .p = p};
    r.look = look;
    r.look_context = w;
    for (; w->window < WINDOWS; w->window++) {
        if (sia_windows_read(t->windows, w->window, 1, 0, ids, &err)) fail_msg("%s", err.text);
        (void)reference_loss(&r, 1, LENGTH, ids, ids + 1, NULL);
    }
    w->r = NULL;
    reference_destroy(&r);
    return w;
}

/* ------------------------------------------------------------------------------------------------ comparison */

/* The largest difference so far, relative to 1 or to the number when that is larger. */
static void compare(double *worst, double got, double number) {
    double difference = fabs(got - number) / fmax(1, fabs(number));
    *worst = difference > *worst || isnan(difference) ? difference : *worst;
}

static double compare_contexts(const sia_probe *p, const wanted *w) {
    double worst = 0;
    for (int i = 0; i < p->context_count; i++) {
        const sia_probe_context *c = &p->contexts[i];
        compare(&worst, c->entropy.mean, w->entropy[i].mean);
        compare(&worst, c->last100.mean, w->last100[i].mean);
        compare(&worst, c->self.mean, w->self[i].mean);
        compare(&worst, c->first.mean, w->first[i].mean);
        double sum = 0; /* of the mass of all rows */
        for (int r = 0; r < c->ranges; r++) {
            compare(&worst, c->range[r].entropy.mean, w->range[i][r].entropy.mean);
            compare(&worst, c->range[r].mass.mean, w->range[i][r].mass.mean);
            sum += c->range[r].mass.mean * (double)smaller(c->rows, c->length - c->range[r].from) / c->rows;
        }
        compare(&worst, sum, 1);
    }
    return worst;
}

static double compare_mass(const sia_probe *p, const wanted *w) {
    double worst = 0;
    for (int head = 0; head < LAYERS * HEADS; head++) {
        double sum = 0;
        for (int range = 0; range < p->ranges; range++) {
            double mass = p->mass[head * p->ranges + range];
            compare(&worst, mass, w->mass[head / HEADS][head % HEADS][range]);
            sum += mass;
        }
        compare(&worst, sum, 1);
    }
    return worst;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double compare_sample(const sia_probe_logits *l, double *x) {
    double worst = 0, sum = 0, square = 0, fourth = 0, within = 0;
    for (int i = 0; i < ALL_PAIRS; i++) sum += x[i] / ALL_PAIRS;
    for (int i = 0; i < ALL_PAIRS; i++) {
        square += pow(x[i] - sum, 2) / ALL_PAIRS;
        fourth += pow(x[i] - sum, 4) / ALL_PAIRS;
    }
    for (int i = 0; i < ALL_PAIRS; i += SIA_PROBE_KEYS) {
        double mean = 0;
        for (int j = 0; j < SIA_PROBE_KEYS; j++) mean += x[i + j] / SIA_PROBE_KEYS;
        for (int j = 0; j < SIA_PROBE_KEYS; j++)
            within += pow(x[i + j] - mean, 2) / (SIA_PROBE_KEYS - 1) / ((double)ALL_PAIRS / SIA_PROBE_KEYS);
    }
    compare(&worst, l->mean, sum);
    compare(&worst, l->variance, square * ALL_PAIRS / (ALL_PAIRS - 1));
    compare(&worst, l->within, within);
    compare(&worst, l->kurtosis, fourth / (square * square) - 3);
    qsort(x, ALL_PAIRS, sizeof *x, ascending);
    for (int i = 0; i < SIA_PROBE_LEVELS; i++) {
        double place = sia_probe_level(i) * (ALL_PAIRS - 1), low = floor(place);
        compare(&worst, l->quantile[i], x[(int)low] + (place - low) * (x[(int)low + 1] - x[(int)low]));
    }
    return worst;
}

static void check_plan(const sia_probe *p, const int64_t *lengths, const int *rows, int count) {
    assert_int_equal(p->context_count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(p->contexts[i].length, lengths[i]);
        assert_int_equal(p->contexts[i].rows, rows[i]);
    }
}

static void against_reference(void **state) {
    (void)state;
    const char *const cases[][2] = {{"si+prope", "si+prope"},
                                    {"rope", "rope"},
                                    {"rope", "yarn"},
                                    {"rope", "ntk"},
                                    {"nope", "nope"},
                                    {"alibi", "alibi"},
                                    {"sharp+prope", "sharp+prope"},
                                    {"logn+prope", "logn+prope"}};
    text t;
    text_open(&t, LENGTH, VOCABULARY);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_model *m = model_of(cases[i][0], cases[i][1], 2);
        sia_probe *p = probe_of(m, &t);
        assert_int_equal(p->pairs, ALL_PAIRS);
        check_plan(p, (const int64_t[]){16, 32, 64, LENGTH}, (const int[]){1, 2, 4, 6}, 4);
        assert_int_equal(p->contexts[3].ranges, 3);
        assert_int_equal(p->contexts[0].ranges, 2);
        wanted *w = want(m, &t, p);
        double rows = compare_contexts(p, w), mass = compare_mass(p, w), sample = 0;
        for (int layer = 0; layer < LAYERS; layer++)
            for (int head = 0; head < HEADS; head++)
                for (int kind = 0; kind < SIA_PROBE_KINDS; kind++)
                    sample = larger(sample,
                                    compare_sample(sia_probe_logits_of(p, layer, head, (sia_probe_kind)kind),
                                                   w->pairs[layer][head][kind]));
        printf("%-12s  rows %.0e  mass %.0e  logits %.0e  bound 1e-05\n", cases[i][1], rows, mass, sample);
        assert_true(rows < 1e-5);
        assert_true(mass < 1e-5);
        assert_true(sample < 1e-5);
        free(w);
        sia_probe_destroy(p);
        sia_model_destroy(m);
    }
    text_close(&t);
}

/* Which rows and how many queries there are, of short and long windows, few and many. */
static void plans(void **state) {
    (void)state;
    static const struct {
        int64_t length, windows, queries;
        int count;
        int64_t lengths[6];
        int rows[6];
    } cases[] = {{16, 40, 51, 1, {16}, {1}},
                 {16, 32, 64, 1, {16}, {1}},
                 {256, 1, 64, 5, {16, 32, 64, 128, 256}, {1, 2, 4, 8, 16}},
                 {272, 1, 64, 6, {16, 32, 64, 128, 256, 272}, {1, 2, 4, 8, 16, 16}}};
    static uint16_t tokens[641];
    for (int i = 1; i < 641; i++) tokens[i] = (uint16_t)(1 + i % (VOCABULARY - 1));
    sia_corpus_config config = {.vocabulary = VOCABULARY, .end_of_text = 0, .scan = 1};
    sia_model *m = model_of("si+prope", "si+prope", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_corpus *c;
        sia_windows *w = NULL;
        sia_probe *p;
        sia_error err;
        sia_probe_options options = {.length = cases[i].length};
        if (sia_corpus_borrow(&c, tokens, 641, &config, &err) ||
            sia_windows_create(&w, c, cases[i].length, cases[i].windows, &err))
            fail_msg("%s", err.text);
        options.windows = w;
        if (sia_probe_run(&p, m, &options, &err)) fail_msg("%s", err.text);
        check_plan(p, cases[i].lengths, cases[i].rows, cases[i].count);
        assert_int_equal(p->queries, cases[i].queries);
        assert_int_equal(p->pairs, cases[i].windows * cases[i].queries * SIA_PROBE_KEYS);
        sia_probe_destroy(p);
        sia_windows_destroy(w);
        sia_corpus_close(c);
    }
    sia_model_destroy(m);
}

/* Query i is in the i-th of equal parts of the window; its keys are anywhere from 1 to itself, and windows differ. */
static void pairs(void **state) {
    (void)state;
    enum { LONG = 4096, QUERIES = 64, COUNT = QUERIES * SIA_PROBE_KEYS };
    const sia_probe p = {.length = LONG, .queries = QUERIES};
    double mean = 0, squares = 0;
    int other = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        int64_t query, key, elsewhere, none, number = i / SIA_PROBE_KEYS;
        sia_probe_pair(&p, SEED, 0, i, &query, &key);
        sia_probe_pair(&p, SEED, 1, i, &elsewhere, &none);
        double part = (double)(query - 1) * QUERIES / (LONG - 1);
        assert_true(part > (double)number - 0.02 && part < (double)number + 1);
        assert_true(key >= 1 && key <= query);
        double share = ((double)key - 0.5) / (double)query;
        mean += share / COUNT;
        squares += share * share / COUNT;
        other += query != elsewhere;
    }
    /* Of uniform numbers: variances 1/12 and 4/45. */
    assert_true(fabs(mean - 0.5) < 5 * sqrt(1 / 12.0 / COUNT));
    assert_true(fabs(squares - 1 / 3.0) < 5 * sqrt(4 / 45.0 / COUNT));
    assert_true(other > COUNT / 2);
    /* Of the shortest window: every key of a query comes up. */
    const sia_probe shortest = {.length = 16, .queries = QUERIES};
    bool seen[16][16] = {{false}};
    for (int64_t i = 0; i < COUNT; i++) {
        int64_t query, key;
        sia_probe_pair(&shortest, SEED, 0, i, &query, &key);
        assert_true(query >= 1 && query < 16 && key >= 1 && key <= query);
        seen[query][key] = true;
    }
    for (int query = 1; query < 16; query++)
        for (int key = 1; key <= query; key++) assert_true(seen[query][key]);
}

/* Standard errors: of two windows, half the difference. */
static void errors(void **state) {
    (void)state;
    text t;
    text_open(&t, LENGTH, VOCABULARY);
    sia_model *m = model_of("rope", "rope", 1);
    sia_probe *both = probe_of(m, &t), *one;
    sia_windows *first;
    sia_error err;
    assert_int_equal(sia_windows_create(&first, t.corpus, LENGTH, 1, &err), SIA_OK);
    sia_probe_options options = {.windows = first, .length = LENGTH, .seed = SEED};
    assert_int_equal(sia_probe_run(&one, m, &options, &err), SIA_OK);
    assert_int_equal(sia_windows_first(first, 0), sia_windows_first(t.windows, 0));
    for (int i = 0; i < both->context_count; i++) {
        double distance = fabs(both->contexts[i].entropy.mean - one->contexts[i].entropy.mean);
        assert_true(distance > 1e-6);
        assert_true(fabs(both->contexts[i].entropy.error - distance) < 1e-6 * distance + 1e-9);
        assert_true(one->contexts[i].entropy.error == 0);
    }
    sia_probe_destroy(both);
    sia_probe_destroy(one);
    sia_windows_destroy(first);
    sia_model_destroy(m);
    text_close(&t);
}

static void threads(void **state) {
    (void)state;
    text t;
    sia_probe *first = NULL;
    text_open(&t, LENGTH, VOCABULARY);
    for (int n = 1; n <= 3; n++) {
        sia_model *m = model_of("si+prope", "si+prope", n);
        sia_probe *p = probe_of(m, &t);
        if (!first) first = p;
        size_t heads = (size_t)LAYERS * HEADS;
        assert_memory_equal(p->contexts, first->contexts, sizeof p->contexts);
        assert_memory_equal(p->mass, first->mass, heads * (size_t)p->ranges * sizeof *p->mass);
        assert_memory_equal(p->logits, first->logits, heads * SIA_PROBE_KINDS * sizeof *p->logits);
        if (p != first) sia_probe_destroy(p);
        sia_model_destroy(m);
    }
    sia_probe_destroy(first);
    text_close(&t);
}

/* ------------------------------------------------------------------------------------------------ quantiles */

static void quantiles(void **state) {
    (void)state;
    const struct {
        double level, x;
    } gaussian[] = {{0.5, 0},
                    {0.975, 1.959963984540054},
                    {0.025, -1.959963984540054},
                    {0.999, 3.090232306167813},
                    {0.001, -3.090232306167813},
                    {0.9, 1.2815515655446004},
                    {1e-6, -4.753424308822899}};
    for (size_t i = 0; i < sizeof gaussian / sizeof *gaussian; i++)
        assert_true(fabs(sia_gaussian_quantile(gaussian[i].level) - gaussian[i].x) < 1e-10);
    float values[] = {3, 1, 4, 2, NAN /* is not theirs */}, many[1 << 14];
    sia_sort_floats(values, 4);
    const struct { double level, x; } sample[] = {{0, 1}, {0.25, 1.75}, {0.5, 2.5}, {0.9, 3.7}, {1, 4}};
    for (size_t i = 0; i < sizeof sample / sizeof *sample; i++)
        assert_true(fabs(sia_sorted_quantile(values, 4, sample[i].level) - sample[i].x) < 1e-12);
    assert_true(sia_sorted_quantile(values, 1, 0.3) == 1);
    /* A normal sample lies on the diagonal, within 4.5 standard errors of a quantile. */
    const int64_t n = sizeof many / sizeof *many;
    for (int64_t i = 0; i < n; i++) many[i] = (float)sia_random_normal(3, (uint64_t)i);
    sia_sort_floats(many, n);
    for (int i = 0; i < SIA_PROBE_LEVELS; i++) {
        double p = sia_probe_level(i), x = sia_gaussian_quantile(p);
        double error = sqrt(p * (1 - p) / (double)n) * sqrt(2 * M_PI) * exp(x * x / 2);
        assert_true(fabs(sia_sorted_quantile(many, n, p) - x) < 4.5 * error);
    }
}

/* ------------------------------------------------------------------------------------------------ refusals */

static int stop_at_half(void *context, const char *phase, double done) {
    assert_string_equal(phase, "probe");
    *(double *)context = done;
    return done >= 0.5;
}

static void refused(sia_model *m, const sia_probe_options *options, sia_status status, const char *sentence) {
    sia_probe *p;
    sia_error err;
    assert_int_equal(sia_probe_run(&p, m, options, &err), status);
    assert_null(p);
    assert_string_equal(err.text, sentence);
}

static void refusals(void **state) {
    (void)state;
    text t, shorter, wide;
    double done = 0;
    text_open(&t, LENGTH, VOCABULARY);
    text_open(&shorter, 15, VOCABULARY);
    text_open(&wide, LENGTH, 2000);
    sia_model *m = model_of("si+prope", "si+prope", 2);
    refused(m, &(sia_probe_options){.windows = shorter.windows, .length = 15}, SIA_ARGUMENT,
            "length 15: want 16 to 1073741824");
    sia_windows *many;
    sia_error err;
    static uint16_t long_text[(SIA_PROBE_WINDOWS + 1) * 16 + 1];
    for (size_t i = 1; i < sizeof long_text / sizeof *long_text; i++) long_text[i] = 1;
    sia_corpus *corpus;
    sia_corpus_config config = {.vocabulary = VOCABULARY, .end_of_text = 0, .scan = 1};
    assert_int_equal(
        sia_corpus_borrow(&corpus, long_text, sizeof long_text / sizeof *long_text, &config, &err), SIA_OK);
    assert_int_equal(sia_windows_create(&many, corpus, 16, 0, &err), SIA_OK);
    refused(m, &(sia_probe_options){.windows = many, .length = 16}, SIA_ARGUMENT,
            "1025 windows: want 1 to 1024");
    sia_windows_destroy(many);
    sia_corpus_close(corpus);
    sia_probe *p;
    assert_int_equal(
        sia_probe_run(&p, m, &(sia_probe_options){.windows = wide.windows, .length = LENGTH}, &err),
        SIA_ARGUMENT);
    assert_non_null(strstr(err.text, "the vocabulary ends at 61"));
    refused(m,
            &(sia_probe_options){
                .windows = t.windows, .length = LENGTH, .progress = stop_at_half, .progress_context = &done},
            SIA_STOPPED, "stopped");
    assert_true(done == 0.5);
    /* Weights that are no numbers. */
    sia_block_parameter(&m->parameters, 1, SIA_KIND_K)->value[0] = NAN;
    refused(m, &(sia_probe_options){.windows = t.windows, .length = LENGTH}, SIA_NUMBER,
            "layer 1, head 0: its logits are not finite");
    sia_model_destroy(m);
    text_close(&t);
    text_close(&shorter);
    text_close(&wide);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_reference),
                                       cmocka_unit_test(plans),
                                       cmocka_unit_test(pairs),
                                       cmocka_unit_test(errors),
                                       cmocka_unit_test(threads),
                                       cmocka_unit_test(quantiles),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
