/* SPDX-License-Identifier: MIT
 *
 * Windows go through the model one by one (model/tap.h). Of each layer:
 *
 *     rows     some queries at each context length over all keys that they see; with weights e^(L - top) over a
 *              range of distances,  z = sum e^(L - top),  n = sum (L - top) e^(L - top):
 *              entropy within it  H = ln z - n/z;  ranges are joined for the entropy of the row, and masses
 *     pairs    a sample of (query, key) with their three logits, kept until the end for the quantiles
 *     mass     by range of distances, from what the attention kernels count on the way
 *
 * The work of a layer is cut into tasks that each write their own place; sums are taken afterwards, in order. */
#include "eval/probe.h"

#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "base/random.h"
#include "eval/quantile.h"
#include "eval/rows.h"
#include "model/tap.h"

enum {
    SHORTEST = 16,   /* context, and length */
    ROWS_SHARE = 16, /* of a context of N the rows that see N - N/16 to N keys are taken, ... */
    ROWS_MOST = 16,  /* ... the last so many of them */
    ROWS = SIA_PROBE_CONTEXTS * ROWS_MOST,
    TURN_BLOCK = 256, /* keys in a task */
};

/* What is known of a row. */
enum { ENTROPY, LAST100, SELF, FIRST, RANGE_ENTROPY, RANGE_MASS = RANGE_ENTROPY + SIA_PROBE_RANGES };
enum { VALUES = RANGE_MASS + SIA_PROBE_RANGES };

typedef struct probing {
    sia_probe *p;
    sia_model *m;
    const sia_probe_options *options;
    const sia_tables *tables; /* for the rotary slot */
    int64_t window;
    const sia_tap_view *view;
    int row_count;
    int64_t position[ROWS];                       /* of the rows' queries, ascending by context */
    int context[ROWS];                            /* that they belong to */
    double in_window[SIA_PROBE_CONTEXTS][VALUES]; /* sums over layers, heads, rows */
    double sum[SIA_PROBE_CONTEXTS][VALUES];       /* over windows, of their means */
    double squares[SIA_PROBE_CONTEXTS][VALUES];   /* of the means */
    double *scale, *bias;                         /* [distance_tables][length] */
    float *keys;                                  /* [length, kv_heads, head_dim], turned */
    double *logits;                               /* [threads][length] of a row, by distance */
    double (*values)[VALUES];                     /* [row_count][heads] */
    float *pairs;                                 /* [layers, heads, kinds][pairs] */
} probing;

double sia_probe_level(int i) {
    return i == 0 ? 0.001 : i == SIA_PROBE_LEVELS - 1 ? 0.999 : (double)i / (SIA_PROBE_LEVELS - 1);
}

static int64_t range_from(int range) {
    int64_t from = 1;
    for (int i = 0; i < range; i++) from *= 10;
    return range ? from : 0;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ------------------------------------------------------------------------------------------------ logits */

static double dot(const float *x, const float *y, int d) {
    double sum[4] = {0}; /* a head's dimension is a multiple of 8 */
    for (int i = 0; i < d; i += 4)
        for (int j = 0; j < 4; j++) sum[j] += (double)x[i + j] * (double)y[i + j];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void turn(const probing *s, int64_t position, const float *x, float *out) {
    int d = s->m->config.head_dim;
    if (s->tables->turning)
        s->m->kernel->turn(s->tables, d, position, 1, x, out);
    else
        memcpy(out, x, (size_t)d * sizeof *x);
}

/* One query of one head, ready to meet keys. */
typedef struct query {
    int64_t position;
    const float *q; /* as the model made it */
    float turned[SIA_MAX_DIM];
    const double *scale, *bias;
    double factor; /* of the row, with 1/sqrt(d) */
    int64_t key;   /* floats from the start of a position to the key of its head */
} query;

static void query_begin(const probing *s, int head, int64_t position, query *q) {
    const sia_model_config *c = &s->m->config;
    const sia_attention *a = s->m->attention;
    int64_t table = s->tables->distance_tables > 1 ? head : 0;
    q->position = position;
    q->q = s->view->q + (position * c->heads + head) * c->head_dim;
    q->scale = s->scale + table * s->p->length;
    q->bias = s->bias + table * s->p->length;
    q->factor = sia_row_constant(a->scheme, &a->config) / sqrt(c->head_dim);
    if (a->scheme.row == SIA_ROW_LOGN) q->factor *= (double)s->view->logn[head] * log((double)position + 1);
    q->key = (int64_t)(head / (c->heads / c->kv_heads)) * c->head_dim;
    turn(s, position, q->q, q->turned);
}

static double turned_dot(const probing *s, const query *q, int64_t key) {
    const sia_model_config *c = &s->m->config;
    return dot(q->turned, s->keys + key * c->kv_heads * c->head_dim + q->key, c->head_dim);
}

static double final_logit(const query *q, int64_t key, double turned) {
    int64_t t = q->position - key;
    return q->scale[t] * (q->factor * turned) + q->bias[t];
}

static void turn_task(void *context, int64_t task, int worker) {
    (void)worker;
    const probing *s = context;
    const sia_model_config *c = &s->m->config;
    int64_t end = smaller((task + 1) * TURN_BLOCK, s->p->length);
    for (int64_t i = task * TURN_BLOCK; i < end; i++)
        for (int head = 0; head < c->kv_heads; head++) {
            int64_t at = (i * c->kv_heads + head) * c->head_dim;
            turn(s, i, s->view->k + at, s->keys + at);
        }
}

/* ------------------------------------------------------------------------------------------------ rows */

static void row_values(const double *logits, int64_t seen, double *values) {
    sia_weight_sum range[SIA_PROBE_RANGES], all = sia_weight_none;
    memset(values, 0, VALUES * sizeof *values);
    for (int i = 0; i < SIA_PROBE_RANGES; i++) {
        int64_t from = range_from(i), to = smaller(range_from(i + 1), seen);
        range[i] = sia_weight_of(logits + from, to - from);
        all = sia_weight_join(all, range[i]);
        values[RANGE_ENTROPY + i] = sia_weight_entropy(range[i]);
    }
    for (int i = 0; i < SIA_PROBE_RANGES; i++)
        if (range[i].z > 0) values[RANGE_MASS + i] = range[i].z * exp(range[i].top - all.top) / all.z;
    values[ENTROPY] = sia_weight_entropy(all);
    values[LAST100] = values[RANGE_MASS] + values[RANGE_MASS + 1];
    values[SELF] = exp(logits[0] - all.top) / all.z;
    values[FIRST] = exp(logits[seen - 1] - all.top) / all.z;
}

/* The longest rows first, so that threads end together. */
static void row_task(void *context, int64_t task, int worker) {
    const probing *s = context;
    int heads = s->p->heads, head = (int)(task % heads);
    int64_t row = s->row_count - 1 - task / heads, position = s->position[row];
    double *logits = s->logits + worker * s->p->length;
    query q;
    query_begin(s, head, position, &q);
    for (int64_t key = 0; key <= position; key++)
        logits[position - key] = final_logit(&q, key, turned_dot(s, &q, key));
    row_values(logits, position + 1, s->values[row * heads + head]);
}

static void add_rows(probing *s) {
    for (int row = 0; row < s->row_count; row++)
        for (int head = 0; head < s->p->heads; head++)
            for (int i = 0; i < VALUES; i++)
                s->in_window[s->context[row]][i] += s->values[row * s->p->heads + head][i];
}

/* ------------------------------------------------------------------------------------------------ pairs */

void sia_probe_pair(const sia_probe *p, uint64_t seed, int64_t window, int64_t i, int64_t *query_at,
                    int64_t *key) {
    uint64_t stream = sia_random_stream(seed, (uint64_t)window);
    int64_t number = i / SIA_PROBE_KEYS;
    /* A query in each of as many equal parts of the window. */
    double share = ((double)number + sia_random_uniform(stream, (uint64_t)number)) / (double)p->queries;
    *query_at = smaller(1 + (int64_t)(share * (double)(p->length - 1)), p->length - 1);
    uint64_t keys = sia_random_stream(stream, (uint64_t)number);
    *key = 1 + (int64_t)sia_random_below(keys, (uint64_t)(i % SIA_PROBE_KEYS), (uint64_t)*query_at);
}

static float *pairs_of(const probing *s, int layer, int head, sia_probe_kind kind) {
    return s->pairs + (((int64_t)layer * s->p->heads + head) * SIA_PROBE_KINDS + kind) * s->p->pairs;
}

/* The pairs of one query of one head. */
static void pair_task(void *context, int64_t task, int worker) {
    (void)worker;
    const probing *s = context;
    const sia_model_config *c = &s->m->config;
    int head = (int)(task % c->heads), layer = s->view->layer;
    int64_t first = task / c->heads * SIA_PROBE_KEYS, at = s->window * s->p->queries * SIA_PROBE_KEYS + first;
    float *base = pairs_of(s, layer, head, SIA_PROBE_BASE) + at;
    float *rotary = pairs_of(s, layer, head, SIA_PROBE_ROTARY) + at;
    float *final = pairs_of(s, layer, head, SIA_PROBE_FINAL) + at;
    int64_t position, key;
    query q;
    sia_probe_pair(s->p, s->options->seed, s->window, first, &position, &key);
    query_begin(s, head, position, &q);
    for (int i = 0; i < SIA_PROBE_KEYS; i++) {
        sia_probe_pair(s->p, s->options->seed, s->window, first + i, &position, &key);
        const float *k = s->view->k + key * c->kv_heads * c->head_dim + q.key;
        double turned = turned_dot(s, &q, key);
        base[i] = (float)(dot(q.q, k, c->head_dim) / sqrt(c->head_dim));
        rotary[i] = (float)(turned / sqrt(c->head_dim));
        final[i] = (float)final_logit(&q, key, turned);
    }
}

/* Mean and central moments of one array of pairs; then it is sorted. */
static void logits_task(void *context, int64_t task, int worker) {
    (void)worker;
    const probing *s = context;
    sia_probe_logits *l = &s->p->logits[task];
    float *x = s->pairs + task * s->p->pairs;
    int64_t n = s->p->pairs;
    double sum = 0, second = 0, fourth = 0, within = 0, queries = (double)n / SIA_PROBE_KEYS;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    l->mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double square = ((double)x[i] - l->mean) * ((double)x[i] - l->mean);
        second += square;
        fourth += square * square;
    }
    for (int64_t i = 0; i < n; i += SIA_PROBE_KEYS) {
        double of_query = 0;
        for (int j = 0; j < SIA_PROBE_KEYS; j++) of_query += (double)x[i + j] / SIA_PROBE_KEYS;
        for (int j = 0; j < SIA_PROBE_KEYS; j++)
            within += ((double)x[i + j] - of_query) * ((double)x[i + j] - of_query);
    }
    l->variance = second / (double)(n - 1);
    l->within = within / (queries * (SIA_PROBE_KEYS - 1));
    l->kurtosis = second > 0 ? fourth * (double)n / (second * second) - 3 : 0;
    if (!isfinite(sum) || !isfinite(second)) return; /* the caller looks */
    sia_sort_floats(x, n);
    for (int i = 0; i < SIA_PROBE_LEVELS; i++) l->quantile[i] = sia_sorted_quantile(x, n, sia_probe_level(i));
}

/* ------------------------------------------------------------------------------------------------ layers */

/* Queries of the second half of the window, which see far; range 0 holds t = 0 and the kernel's first decade. */
static void add_mass(const probing *s) {
    int64_t first = s->p->length / 2, rows = s->p->length - first;
    for (int head = 0; head < s->p->heads; head++) {
        double *mass = s->p->mass + ((int64_t)s->view->layer * s->p->heads + head) * s->p->ranges;
        for (int range = 0; range < s->p->ranges; range++) {
            double sum = 0;
            for (int64_t i = first; i < s->p->length; i++) {
                const float *of = s->view->mass + (i * s->p->heads + head) * SIA_DECADES;
                sum += (double)of[range + 1] + (range ? 0 : (double)of[0]);
            }
            mass[range] += sum / (double)(rows * s->p->windows);
        }
    }
}

static sia_status look(void *context, const sia_tap_view *view, sia_error *err) {
    probing *s = context;
    s->view = view;
    int threads = s->m->threads, heads = s->p->heads;
    sia_parallel(threads, (s->p->length + TURN_BLOCK - 1) / TURN_BLOCK, turn_task, s);
    sia_parallel(threads, (int64_t)s->row_count * heads, row_task, s);
    sia_parallel(threads, s->p->queries * heads, pair_task, s);
    add_rows(s);
    add_mass(s);
    double done = ((double)s->window + (view->layer + 1.0) / s->p->layers) / (double)s->p->windows;
    if (s->options->progress && s->options->progress(s->options->progress_context, "probe", done))
        return sia_fail(err, SIA_STOPPED, "stopped");
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ contexts */

/* The distance slots in double, and which rows there are. */
static void plan(probing *s) {
    const sia_attention *a = s->m->attention;
    sia_probe *p = s->p;
    for (int i = 0; i < s->tables->distance_tables; i++)
        sia_distance_values(a->scheme, &a->config, i, 0, p->length, s->scale + i * p->length,
                            s->bias + i * p->length);
    for (int64_t n = SHORTEST; n; n = n == p->length ? 0 : smaller(2 * n, p->length)) {
        sia_probe_context *context = &p->contexts[p->context_count];
        *context = (sia_probe_context){.length = n, .rows = (int)smaller(n / ROWS_SHARE, ROWS_MOST)};
        for (int i = 0; i < context->rows; i++) {
            s->position[s->row_count] = n - context->rows + i;
            s->context[s->row_count++] = p->context_count;
        }
        p->context_count++;
    }
    while (p->ranges < SIA_PROBE_RANGES && range_from(p->ranges) < p->length) p->ranges++;
}

/* Rows of a context, of all layers and heads, that reach a distance. */
static double rows_reaching(const probing *s, int context, int64_t distance) {
    int64_t rows = 0;
    for (int i = 0; i < s->row_count; i++) rows += s->context[i] == context && s->position[i] >= distance;
    return (double)(rows * s->p->heads * s->p->layers);
}

static void end_window(probing *s) {
    for (int context = 0; context < s->p->context_count; context++)
        for (int i = 0; i < VALUES; i++) {
            int range = i < RANGE_ENTROPY ? 0 : (i - RANGE_ENTROPY) % SIA_PROBE_RANGES;
            double rows = rows_reaching(s, context, range_from(range));
            double mean = rows > 0 ? s->in_window[context][i] / rows : 0;
            s->sum[context][i] += mean;
            s->squares[context][i] += mean * mean;
        }
    memset(s->in_window, 0, sizeof s->in_window);
}

static sia_probe_value value_of(const probing *s, int context, int i) {
    double n = (double)s->p->windows, mean = s->sum[context][i] / n;
    double spread = s->squares[context][i] / n - mean * mean;
    return (sia_probe_value){mean, n > 1 && spread > 0 ? sqrt(spread / (n - 1)) : 0};
}

static void finish_contexts(const probing *s) {
    for (int i = 0; i < s->p->context_count; i++) {
        sia_probe_context *context = &s->p->contexts[i];
        context->entropy = value_of(s, i, ENTROPY);
        context->last100 = value_of(s, i, LAST100);
        context->self = value_of(s, i, SELF);
        context->first = value_of(s, i, FIRST);
        for (int range = 0; range < s->p->ranges && context->length > range_from(range); range++)
            context->range[context->ranges++] =
                (sia_probe_range){range_from(range), range_from(range + 1),
                                  value_of(s, i, RANGE_ENTROPY + range), value_of(s, i, RANGE_MASS + range)};
    }
}

static sia_status finish_logits(probing *s, sia_error *err) {
    sia_probe *p = s->p;
    sia_parallel(s->m->threads, (int64_t)p->layers * p->heads * SIA_PROBE_KINDS, logits_task, s);
    for (int64_t i = 0; i < (int64_t)p->layers * p->heads * SIA_PROBE_KINDS; i++) {
        int64_t head = i / SIA_PROBE_KINDS;
        if (!isfinite(p->logits[i].mean) || !isfinite(p->logits[i].variance))
            return sia_fail(err, SIA_NUMBER, "layer %lld, head %lld: its logits are not finite",
                            (long long)(head / p->heads), (long long)(head % p->heads));
    }
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ the whole */

static sia_status check(const sia_probe_options *o, sia_error *err) {
    int64_t windows = sia_windows_count(o->windows);
    if (o->length < SHORTEST || o->length > SIA_MAX_POSITION)
        return sia_fail(err, SIA_ARGUMENT, "length %lld: want %d to %lld", (long long)o->length, SHORTEST,
                        (long long)SIA_MAX_POSITION);
    if (windows < 1 || windows > SIA_PROBE_WINDOWS)
        return sia_fail(err, SIA_ARGUMENT, "%lld windows: want 1 to %d", (long long)windows,
                        SIA_PROBE_WINDOWS);
    return SIA_OK;
}

static sia_status create(sia_probe **out, const sia_model *m, const sia_probe_options *o, sia_error *err) {
    sia_probe *p = sia_alloc(1, sizeof *p);
    if (!p) return sia_fail_memory(err, sizeof *p, "probe");
    int64_t windows = sia_windows_count(o->windows);
    *p = (sia_probe){.layers = m->config.layers,
                     .heads = m->config.heads,
                     .length = o->length,
                     .windows = windows,
                     .queries = smaller(SIA_PROBE_QUERIES, SIA_PROBE_PAIRS / (SIA_PROBE_KEYS * windows))};
    p->pairs = windows * p->queries * SIA_PROBE_KEYS;
    size_t heads = (size_t)p->layers * (size_t)p->heads;
    p->mass = sia_alloc(heads * SIA_PROBE_RANGES, sizeof *p->mass);
    p->logits = sia_alloc(heads * SIA_PROBE_KINDS, sizeof *p->logits);
    *out = p;
    return p->mass && p->logits ? SIA_OK : sia_fail_memory(err, heads * sizeof *p->logits, "probe");
}

void sia_probe_destroy(sia_probe *p) {
    if (!p) return;
    sia_free(p->mass);
    sia_free(p->logits);
    sia_free(p);
}

static sia_status make_room(probing *s, sia_error *err) {
    const sia_model_config *c = &s->m->config;
    size_t length = (size_t)s->p->length, heads = (size_t)c->heads;
    sia_status status = sia_attention_tables_for(s->m->attention, s->p->length, &s->tables, err);
    if (status) return status;
    size_t distances = (size_t)s->tables->distance_tables * length;
    size_t pairs = (size_t)c->layers * heads * SIA_PROBE_KINDS * (size_t)s->p->pairs;
    s->scale = sia_alloc(distances, sizeof *s->scale);
    s->bias = sia_alloc(distances, sizeof *s->bias);
    s->keys = sia_alloc(length * (size_t)c->kv_heads * (size_t)c->head_dim, sizeof *s->keys);
    s->logits = sia_alloc((size_t)s->m->threads * length, sizeof *s->logits);
    s->values = sia_alloc(ROWS * heads, sizeof *s->values);
    s->pairs = sia_alloc(pairs, sizeof *s->pairs);
    if (!s->scale || !s->bias || !s->keys || !s->logits || !s->values || !s->pairs)
        return sia_fail_memory(err, pairs * sizeof *s->pairs, "probe");
    return SIA_OK;
}

static sia_status run_windows(probing *s, sia_error *err) {
    sia_tap *tap;
    sia_status status = sia_tap_create(&tap, s->m, s->p->length, err);
    if (status) return status;
    uint32_t *ids = sia_alloc((size_t)s->p->length + 1, sizeof *ids);
    if (!ids) status = sia_fail_memory(err, (size_t)s->p->length * sizeof *ids, "window");
    for (s->window = 0; !status && s->window < s->p->windows; s->window++) {
        status = sia_windows_read(s->options->windows, s->window, 1, 0, ids, err);
        if (!status) status = sia_tap_run(tap, ids, look, s, err);
        if (!status) end_window(s);
    }
    sia_free(ids);
    sia_tap_destroy(tap);
    return status;
}

sia_status sia_probe_run(sia_probe **out, sia_model *m, const sia_probe_options *options, sia_error *err) {
    *out = NULL;
    sia_status status = check(options, err);
    if (status) return status;
    sia_probe *p = NULL;
    probing *s = sia_alloc(1, sizeof *s);
    status = s ? create(&p, m, options, err) : sia_fail_memory(err, sizeof *s, "probe");
    if (!status) {
        *s = (probing){.p = p, .m = m, .options = options};
        status = make_room(s, err);
    }
    if (!status) plan(s);
    if (!status) status = run_windows(s, err);
    if (!status) status = finish_logits(s, err);
    if (!status) finish_contexts(s);
    if (s) {
        sia_free(s->scale);
        sia_free(s->bias);
        sia_free(s->keys);
        sia_free(s->logits);
        sia_free(s->values);
        sia_free(s->pairs);
        sia_free(s);
    }
    if (status)
        sia_probe_destroy(p);
    else
        *out = p;
    return status;
}
