/* SPDX-License-Identifier: MIT
 *
 * The forward pass of training.c over one sequence, with nothing kept for a gradient:
 *
 *     y = norm(x)      q = norm(y Wq^T)  k = norm(y Wk^T)  v = y Wv^T      (norms of q and k by head)
 *     z = attention(q, k, v)             x += z Wo^T
 *     y = norm(x)      h = max(y Win^T, 0)      x += h^2 Wout^T
 *
 * All but attention is done by blocks of tokens. What follows the last attention is left out: nobody sees it. */
#include "model/tap.h"

#include <string.h>

#include "attention/attention.h"

struct sia_tap {
    sia_model *m;
    int64_t length;
    int layer; /* whose q, k, v come next */
    const uint32_t *ids;
    float *x;             /* [length, width] the residual */
    float *q, *k, *v, *z; /* [length, heads * head_dim], k and v with kv_heads */
    float *entropy, *mass;
    float *scratch; /* [threads][worker_floats] */
    int64_t worker_floats;
    void *attention_work;
    void *memory;
};

/* ------------------------------------------------------------------------------------------------ memory */

/* With base NULL it only counts. */
static size_t carve(sia_tap *t, void *base) {
    const sia_model_config *c = &t->m->config;
    int64_t n = t->length, q = (int64_t)c->heads * c->head_dim, kv = (int64_t)c->kv_heads * c->head_dim;
    sia_carve all = {base, 0};
    t->x = sia_carve_floats(&all, n * c->width);
    t->q = sia_carve_floats(&all, n * q);
    t->k = sia_carve_floats(&all, n * kv);
    t->v = sia_carve_floats(&all, n * kv);
    t->z = sia_carve_floats(&all, n * q);
    t->entropy = sia_carve_floats(&all, n * c->heads);
    t->mass = sia_carve_floats(&all, n * c->heads * SIA_DECADES);
    t->attention_work = sia_carve_bytes(
        &all, sia_attention_workspace(t->m->attention, (sia_span){.q_len = n, .k_len = n}, SIA_PASS_FORWARD));
    /* Of one worker: y, h, and the factors of norms. */
    t->worker_floats = SIA_BLOCK_ROWS * ((int64_t)c->width + c->hidden + c->heads) + 3 * SIA_ALIGN;
    t->scratch = sia_carve_floats(&all, t->worker_floats * t->m->threads);
    return all.used;
}

sia_status sia_tap_create(sia_tap **out, sia_model *m, int64_t length, sia_error *err) {
    *out = NULL;
    if (length < 1 || length > SIA_MAX_POSITION)
        return sia_fail(err, SIA_ARGUMENT, "length %lld: want 1 to %lld", (long long)length,
                        (long long)SIA_MAX_POSITION);
    sia_tap *t = sia_alloc(1, sizeof *t);
    if (!t) return sia_fail_memory(err, sizeof *t, "tap");
    *t = (sia_tap){.m = m, .length = length};
    size_t bytes = carve(t, NULL);
    t->memory = sia_alloc(bytes, 1);
    sia_status status = t->memory ? SIA_OK : sia_fail_memory(err, bytes, "activations");
    if (!status) status = sia_model_pack(m, false, err);
    if (status) {
        sia_tap_destroy(t);
        return status;
    }
    carve(t, t->memory);
    *out = t;
    return SIA_OK;
}

void sia_tap_destroy(sia_tap *t) {
    if (!t) return;
    sia_free(t->memory);
    sia_free(t);
}

/* ------------------------------------------------------------------------------------------------ layers */

static const sia_parameter *weight(const sia_tap *t, int layer, sia_kind kind) {
    return sia_block_parameter(&t->m->parameters, layer, kind);
}

/* x of a block before the first layer. */
static void embed(const sia_tap *t, int64_t first, int64_t rows, float *y, float *inverse) {
    int64_t width = t->m->config.width;
    const float *embedding = sia_embedding(&t->m->parameters)->value;
    for (int64_t i = 0; i < rows; i++)
        memcpy(y + i * width, embedding + t->ids[first + i] * width, (size_t)width * sizeof(float));
    t->m->kernel->norm_rows(y, t->x + first * width, rows, width, inverse);
}

/* x of a block from the attention of `layer` to its end. */
static void finish(const sia_tap *t, int layer, int64_t first, int64_t rows, float *y, float *h,
                   float *inverse) {
    const sia_model_config *c = &t->m->config;
    float *x = t->x + first * c->width;
    sia_model_product(t->m, weight(t, layer, SIA_KIND_O), false, rows,
                      t->z + first * c->heads * (int64_t)c->head_dim, x, 1);
    t->m->kernel->norm_rows(x, y, rows, c->width, inverse);
    sia_model_product(t->m, weight(t, layer, SIA_KIND_IN), false, rows, y, h, 0);
    t->m->kernel->relu_square(h, h, rows * c->hidden);
    sia_model_product(t->m, weight(t, layer, SIA_KIND_OUT), false, rows, h, x, 1);
}

static void block_task(void *context, int64_t task, int worker) {
    const sia_tap *t = context;
    const sia_model_config *c = &t->m->config;
    const sia_kernel *kernel = t->m->kernel;
    int64_t first = task * SIA_BLOCK_ROWS;
    int64_t rows = t->length - first < SIA_BLOCK_ROWS ? t->length - first : SIA_BLOCK_ROWS;
    sia_carve mine = {(char *)(t->scratch + worker * t->worker_floats), 0};
    float *y = sia_carve_floats(&mine, SIA_BLOCK_ROWS * (int64_t)c->width);
    float *h = sia_carve_floats(&mine, SIA_BLOCK_ROWS * (int64_t)c->hidden);
    float *inverse = sia_carve_floats(&mine, SIA_BLOCK_ROWS * (int64_t)c->heads);
    if (t->layer == 0)
        embed(t, first, rows, y, inverse);
    else
        finish(t, t->layer - 1, first, rows, y, h, inverse);

    int64_t kv = (int64_t)c->kv_heads * c->head_dim;
    float *q = t->q + first * c->heads * (int64_t)c->head_dim, *k = t->k + first * kv;
    kernel->norm_rows(t->x + first * c->width, y, rows, c->width, inverse);
    sia_model_product(t->m, weight(t, t->layer, SIA_KIND_Q), false, rows, y, q, 0);
    sia_model_product(t->m, weight(t, t->layer, SIA_KIND_K), false, rows, y, k, 0);
    sia_model_product(t->m, weight(t, t->layer, SIA_KIND_V), false, rows, y, t->v + first * kv, 0);
    kernel->norm_rows(q, q, rows * c->heads, c->head_dim, inverse);
    kernel->norm_rows(k, k, rows * c->kv_heads, c->head_dim, inverse);
}

sia_status sia_tap_run(sia_tap *t, const uint32_t *ids, sia_tap_look *look, void *context, sia_error *err) {
    sia_status status = sia_model_check_ids(t->m, ids, t->length, "input", false, err);
    bool has_logn = t->m->parameters.per_block > SIA_KIND_LOGN;
    t->ids = ids;
    for (t->layer = 0; !status && t->layer < t->m->config.layers; t->layer++) {
        sia_parallel(t->m->threads, (t->length + SIA_BLOCK_ROWS - 1) / SIA_BLOCK_ROWS, block_task, t);
        const float *logn = has_logn ? weight(t, t->layer, SIA_KIND_LOGN)->value : NULL;
        sia_forward io = {.q = t->q,
                          .k = t->k,
                          .v = t->v,
                          .logn = logn,
                          .out = t->z,
                          .entropy = t->entropy,
                          .mass = t->mass};
        status = sia_attention_forward(t->m->attention, (sia_span){.q_len = t->length, .k_len = t->length},
                                       &io, t->attention_work, err);
        sia_tap_view view = {t->layer, t->length, t->q, t->k, t->v, logn, t->entropy, t->mass};
        if (!status) status = look(context, &view, err);
    }
    return status;
}
