/* SPDX-License-Identifier: MIT */
#include "reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "kernel/oracle.h"

sia_model *reference_model(const sia_model_config *config, const char *scheme, int64_t eval_len,
                           int threads) {
    sia_model *m;
    sia_error err;
    if (sia_model_create(&m, config, threads, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < sia_model_tensors(m); i++) {
        sia_tensor t = sia_model_tensor(m, i);
        for (int64_t j = 0; j < t.rows * t.columns; j++)
            if (t.value[j] == 0) t.value[j] = 0.3f * (float)sia_random_normal((uint64_t)i, (uint64_t)j);
    }
    if (sia_model_set_scheme(m, scheme, eval_len, &err)) fail_msg("%s", err.text);
    return m;
}

reference reference_create(const sia_model *m) {
    reference r = {.m = m, .attention = *sia_attention_settings(m->attention)};
    (void)sia_scheme_parse(sia_attention_scheme(m->attention), &r.scheme, NULL);
    r.values = calloc((size_t)sia_model_tensors(m), sizeof *r.values);
    for (int i = 0; i < sia_model_tensors(m); i++) {
        sia_tensor t = sia_model_tensor(m, i);
        r.values[i] = malloc((size_t)(t.rows * t.columns) * sizeof(double));
        for (int64_t j = 0; j < t.rows * t.columns; j++) r.values[i][j] = t.value[j];
    }
    return r;
}

void reference_destroy(reference *r) {
    for (int i = 0; i < sia_model_tensors(r->m); i++) free(r->values[i]);
    free(r->values);
}

static void norm(const double *x, double *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    for (int64_t i = 0; i < n; i++) y[i] = x[i] / sqrt(sum / (double)n + 0x1p-23);
}

/* y = W x */
static void apply(const double *w, int64_t rows, int64_t columns, const double *x, double *y) {
    for (int64_t i = 0; i < rows; i++) {
        y[i] = 0;
        for (int64_t j = 0; j < columns; j++) y[i] += w[i * columns + j] * x[j];
    }
}

static const double *tensor_of(const reference *r, int layer, sia_kind kind) {
    return r->values[sia_block_parameter(&r->m->parameters, layer, kind) - r->m->parameters.list];
}

static void attention(const reference *r, int layer, int64_t n, double *x) {
    const sia_model_config *c = &r->m->config;
    int64_t width = c->width, d = c->head_dim, q_width = c->heads * d, kv_width = c->kv_heads * d;
    double *q = calloc((size_t)(n * q_width), sizeof *q), *k = calloc((size_t)(n * kv_width), sizeof *k);
    double *v = malloc((size_t)(n * kv_width) * sizeof *v), *z = malloc((size_t)(n * q_width) * sizeof *z);
    double *y = malloc((size_t)width * sizeof *y);
    for (int64_t i = 0; i < n; i++) {
        norm(x + i * width, y, width);
        apply(tensor_of(r, layer, SIA_KIND_Q), q_width, width, y, q + i * q_width);
        apply(tensor_of(r, layer, SIA_KIND_K), kv_width, width, y, k + i * kv_width);
        apply(tensor_of(r, layer, SIA_KIND_V), kv_width, width, y, v + i * kv_width);
    }
    for (int64_t i = 0; i < n * c->heads; i++) norm(q + i * d, q + i * d, d);
    for (int64_t i = 0; i < n * c->kv_heads; i++) norm(k + i * d, k + i * d, d);
    if (r->look) r->look(r->look_context, layer, n, q, k);
    oracle o = {.scheme = r->scheme,
                .config = r->attention,
                .span = {.batch = 1, .q_len = n, .k_len = n},
                .q = q,
                .k = k,
                .v = v,
                .logn = r->scheme.row == SIA_ROW_LOGN ? tensor_of(r, layer, SIA_KIND_LOGN) : NULL,
                .out = z};
    oracle_forward(&o);
    for (int64_t i = 0; i < n; i++) {
        apply(tensor_of(r, layer, SIA_KIND_O), width, q_width, z + i * q_width, y);
        for (int64_t j = 0; j < width; j++) x[i * width + j] += y[j];
    }
    free(q);
    free(k);
    free(v);
    free(z);
    free(y);
}

static void mlp(const reference *r, int layer, double *x) {
    const sia_model_config *c = &r->m->config;
    double *y = malloc((size_t)c->width * sizeof *y), *h = malloc((size_t)c->hidden * sizeof *h);
    norm(x, y, c->width);
    apply(tensor_of(r, layer, SIA_KIND_IN), c->hidden, c->width, y, h);
    for (int i = 0; i < c->hidden; i++) h[i] = h[i] > 0 ? h[i] * h[i] : 0;
    apply(tensor_of(r, layer, SIA_KIND_OUT), c->width, c->hidden, h, y);
    for (int i = 0; i < c->width; i++) x[i] += y[i];
    free(y);
    free(h);
}

static double token_loss(const reference *r, const double *x, uint32_t target) {
    const sia_model_config *c = &r->m->config;
    double *y = malloc((size_t)c->width * sizeof *y), *logits = malloc(c->vocabulary * sizeof *logits);
    norm(x, y, c->width);
    apply(r->values[sia_model_tensors(r->m) - 1], c->vocabulary, c->width, y, logits);
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < c->vocabulary; i++) max = fmax(max, logits[i]);
    for (uint32_t i = 0; i < c->vocabulary; i++) sum += exp(logits[i] - max);
    /* A vocabulary is never empty. */
    double loss = max + log(sum) - logits[target]; // cppcheck-suppress invalidFunctionArg
    free(y);
    free(logits);
    return loss;
}

double reference_loss(const reference *r, int64_t batch, int64_t length, const uint32_t *ids,
                      const uint32_t *targets, double *losses) {
    const sia_model_config *c = &r->m->config;
    double *x = malloc((size_t)(length * c->width) * sizeof *x), sum = 0;
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t i = 0; i < length; i++)
            norm(r->values[0] + ids[b * length + i] * (int64_t)c->width, x + i * c->width, c->width);
        for (int layer = 0; layer < c->layers; layer++) {
            attention(r, layer, length, x);
            for (int64_t i = 0; i < length; i++) mlp(r, layer, x + i * c->width);
        }
        for (int64_t i = 0; i < length; i++) {
            uint32_t target = targets[b * length + i];
            double loss = target == SIA_NO_TARGET ? 0 : token_loss(r, x + i * c->width, target);
            if (losses) losses[b * length + i] = loss;
            sum += loss;
        }
    }
    free(x);
    return sum;
}
