/* SPDX-License-Identifier: MIT */
#include "kernel/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------- definitions */

/* Angular frequency of pair i, by the formulas of the paper's section on baselines. */
static double frequency(const oracle *o, int i) {
    const sia_attention_config *c = &o->config;
    double d = c->head_dim, stretch = (double)c->eval_len / (double)c->train_len, base = c->rotary_base;
    switch (o->scheme.rotary) {
    case SIA_ROTARY_NONE:
        return 0;
    case SIA_ROTARY_ROPE:
        return pow(base, -2 * i / d);
    case SIA_ROTARY_PROPE: {
        double turning = round(c->prope_share * d / 2);
        if (i >= turning) return 0;
        return turning == 1 ? 1 : exp(-log(c->prope_base) * i / (turning - 1));
    }
    case SIA_ROTARY_NTK:
        if (stretch > 1) base *= pow(stretch, d / (d - 2));
        return pow(base, -2 * i / d);
    case SIA_ROTARY_YARN: {
        double f = pow(base, -2 * i / d), r = (double)c->train_len * f / (2 * M_PI), g = (r - 1) / 31;
        if (stretch <= 1) return f;
        g = fmin(1, fmax(0, g));
        return (1 - g) * f / stretch + g * f;
    }
    }
    return 0;
}

/* The factor of a row of logits, but for LogN's s. */
static double factor_without_s(const oracle *o, int64_t position) {
    const sia_attention_config *c = &o->config;
    double factor = 1, stretch = (double)c->eval_len / (double)c->train_len;
    if (o->scheme.row == SIA_ROW_LOGN) factor = log((double)position + 1);
    if (o->scheme.row == SIA_ROW_SHARP) factor = c->sharp;
    if (o->scheme.rotary == SIA_ROTARY_YARN && stretch > 1)
        factor *= (0.1 * log(stretch) + 1) * (0.1 * log(stretch) + 1);
    return factor;
}

static double row_factor(const oracle *o, int head, int64_t position) {
    double s = o->scheme.row == SIA_ROW_LOGN ? o->logn[head] : 1;
    return s * factor_without_s(o, position);
}

static void scale_and_bias(const oracle *o, int head, double t, double *scale, double *bias) {
    const sia_attention_config *c = &o->config;
    *scale = 1;
    *bias = 0;
    if (o->scheme.distance == SIA_DISTANCE_SI) {
        double a2 = 2 * (log(t / c->tau + 1) - log(c->alpha) + c->beta / c->alpha);
        *scale = sqrt(fmax(a2, 0));
        *bias = -a2 + c->beta / c->alpha;
    }
    if (o->scheme.distance == SIA_DISTANCE_ALIBI) *bias = -pow(2, -8.0 * (head + 1) / c->heads) * t;
    if (o->scheme.distance == SIA_DISTANCE_OWN)
        c->fill(c->fill_context, head, c->heads, (int64_t)t, 1, scale, bias);
}

/* x turned by its position (sign 1), or back (sign -1). */
static void turn(const oracle *o, int64_t position, double sign, const double *x, double *out) {
    int d = o->config.head_dim;
    for (int i = 0; i < d / 2; i++) {
        int a = o->config.pairs == SIA_PAIRS_HALVES ? i : 2 * i,
            b = o->config.pairs == SIA_PAIRS_HALVES ? i + d / 2 : 2 * i + 1;
        double angle = (double)position * frequency(o, i) * sign;
        double re = x[a] * cos(angle) - x[b] * sin(angle), im = x[a] * sin(angle) + x[b] * cos(angle);
        out[a] = re;
        out[b] = im;
    }
}

/* ------------------------------------------------------------------------------------------------ one row */

typedef struct row {
    int64_t query, key; /* where its q and the first k are */
    int64_t keys;       /* that it sees */
    int64_t out;        /* its place in [batch, q_len, heads] */
    int head;
    int64_t position;
    double *turned; /* q after rotary, before the row factor */
    double *keys_turned, *weight, *scale;
    double lse;
} row;

static double dot(const double *x, const double *y, int d) {
    double sum = 0;
    for (int i = 0; i < d; i++) sum += x[i] * y[i];
    return sum;
}

static const double *key_of(const oracle *o, const row *r, const double *x, int64_t j) {
    return x + r->key + j * o->config.kv_heads * o->config.head_dim;
}

/* Weights of the row, normalised; keys_turned holds all keys of its head, turned. */
static void compute_row(const oracle *o, row *r) {
    int d = o->config.head_dim;
    double most = -INFINITY, sum = 0;
    turn(o, r->position, 1, o->q + r->query, r->turned);
    for (int64_t j = 0; j < r->keys; j++) {
        double bias,
            s = dot(r->turned, r->keys_turned + j * d, d) / sqrt(d) * row_factor(o, r->head, r->position);
        scale_and_bias(o, r->head, (double)(r->position - (o->span.k_pos + j)), &r->scale[j], &bias);
        r->weight[j] = r->scale[j] * s + bias;
        most = fmax(most, r->weight[j]);
    }
    for (int64_t j = 0; j < r->keys; j++) sum += exp(r->weight[j] - most);
    for (int64_t j = 0; j < r->keys; j++) r->weight[j] = exp(r->weight[j] - most) / sum;
    r->lse = r->keys ? most + log(sum) : -INFINITY;
}

typedef void visit(const oracle *o, row *r);

static void each_row(const oracle *o, visit *with_row) {
    const sia_attention_config *c = &o->config;
    const sia_span *s = &o->span;
    int d = c->head_dim;
    row r = {.turned = calloc((size_t)d, sizeof(double)),
             .keys_turned = calloc((size_t)(s->k_len * d), sizeof(double)),
             .weight = calloc((size_t)s->k_len, sizeof(double)),
             .scale = calloc((size_t)s->k_len, sizeof(double))};
    for (int64_t batch = 0; batch < s->batch; batch++)
        for (int head = 0; head < c->heads; head++) {
            r.head = head;
            r.key = (batch * s->k_len * c->kv_heads + head / (c->heads / c->kv_heads)) * d;
            for (int64_t j = 0; j < s->k_len; j++)
                turn(o, s->k_pos + j, 1, key_of(o, &r, o->k, j), r.keys_turned + j * d);
            for (int64_t i = 0; i < s->q_len; i++) {
                r.out = (batch * s->q_len + i) * c->heads + head;
                r.query = r.out * d;
                r.position = s->q_pos + i;
                int64_t sees = r.position - s->k_pos + 1;
                r.keys = sees < 0 ? 0 : sees < s->k_len ? sees : s->k_len;
                compute_row(o, &r);
                with_row(o, &r);
            }
        }
    free(r.turned);
    free(r.keys_turned);
    free(r.weight);
    free(r.scale);
}

/* ------------------------------------------------------------------------------------------------ forward */

static void statistics(const oracle *o, const row *r) {
    double entropy = 0, *mass = o->mass + r->out * SIA_DECADES;
    for (int i = 0; i < SIA_DECADES; i++) mass[i] = 0;
    for (int64_t j = 0; j < r->keys; j++) {
        int64_t t = r->position - (o->span.k_pos + j);
        mass[t == 0 ? 0 : 1 + (int)floor(log10((double)t) + 1e-12)] += r->weight[j];
        if (r->weight[j] > 0) entropy -= r->weight[j] * log(r->weight[j]);
    }
    o->entropy[r->out] = entropy;
}

static void forward_row(const oracle *o, row *r) {
    int d = o->config.head_dim;
    for (int i = 0; i < d; i++) {
        double sum = 0;
        for (int64_t j = 0; j < r->keys; j++) sum += r->weight[j] * key_of(o, r, o->v, j)[i];
        o->out[r->query + i] = sum;
    }
    if (o->lse) o->lse[r->out] = r->lse;
    if (o->entropy) statistics(o, r);
}

void oracle_forward(const oracle *o) { each_row(o, forward_row); }

/* ---------------------------------------------------------------------------------------------- backward */

/* With p the weights and dp = dO . v:  dL = p (dp - sum p dp),  then the chain rule through L = scale * row *
 * S + bias. */
static void backward_row(const oracle *o, row *r) {
    int d = o->config.head_dim;
    const double *d_out = o->d_out + r->query;
    double delta = 0, factor = row_factor(o, r->head, r->position), d_factor = 0;
    double *d_turned = calloc((size_t)d, sizeof(double));
    for (int64_t j = 0; j < r->keys; j++) delta += r->weight[j] * dot(d_out, key_of(o, r, o->v, j), d);
    for (int64_t j = 0; j < r->keys; j++) {
        const double *k = r->keys_turned + j * d;
        double *d_v = o->d_v + (key_of(o, r, o->v, j) - o->v), *d_k = o->d_k + (key_of(o, r, o->k, j) - o->k);
        double d_logit =
            r->weight[j] * (dot(d_out, key_of(o, r, o->v, j), d) - delta) * r->scale[j] / sqrt(d);
        for (int i = 0; i < d; i++) d_v[i] += r->weight[j] * d_out[i];
        for (int i = 0; i < d; i++) d_turned[i] += d_logit * factor * k[i];
        for (int i = 0; i < d; i++) d_k[i] += d_logit * factor * r->turned[i];
        d_factor += d_logit * dot(r->turned, k, d);
    }
    turn(o, r->position, -1, d_turned, o->d_q + r->query);
    if (o->d_logn) o->d_logn[r->head] += d_factor * factor_without_s(o, r->position);
    free(d_turned);
}

void oracle_backward(const oracle *o) {
    const sia_attention_config *c = &o->config;
    size_t keys = (size_t)(o->span.batch * o->span.k_len * c->kv_heads * c->head_dim);
    memset(o->d_k, 0, keys * sizeof(double));
    memset(o->d_v, 0, keys * sizeof(double));
    if (o->d_logn) memset(o->d_logn, 0, (size_t)c->heads * sizeof(double));
    each_row(o, backward_row);
    /* d_k was summed as the gradient of turned keys. */
    for (int64_t i = 0; i < o->span.batch * o->span.k_len; i++)
        for (int head = 0; head < c->kv_heads; head++) {
            double *d_k = o->d_k + (i * c->kv_heads + head) * c->head_dim;
            turn(o, o->span.k_pos + i % o->span.k_len, -1, d_k, d_k);
        }
}
