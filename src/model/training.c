/* SPDX-License-Identifier: MIT
 *
 * Forward and backward over a batch.
 *
 * A token's residual x [width] goes through the layers; a layer keeps what its gradient needs:
 *
 *     y1 = norm(x)      q = norm(y1 Wq^T)  k = norm(y1 Wk^T)  v = y1 Wv^T      (norms of q and k by head)
 *     z  = attention(q, k, v)              x += z Wo^T
 *     y2 = norm(x)      h = max(y2 Win^T, 0)      x += h^2 Wout^T
 *
 * and backward, d.. being the gradient of the loss by ..:
 *
 *     dh = 2 h (dx Wout)          dmid = dx + norm'(dh Win)       dz = dmid Wo
 *     dq, dk, dv = attention'     dx = dmid + norm'(dq Wq + dk Wk + dv Wv)
 *     dWout = dx^T h^2   dWin = dh^T y2   dWo = dmid^T z   dWq = dq^T y1   ...
 *
 * All but attention is local to a token, so a layer is two passes over blocks of tokens, with attention
 * between them. norm'(g) = r (g - y mean(g y)) needs y and r = 1/rms alone; x itself is not kept. */
#include "model/training.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------ memory */

static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }

/* Scratch of one worker: h^2 and a row of the residual of a block of tokens, or a product's packing. */
static int64_t worker_floats(const sia_training *t) {
    const sia_model_config *c = &t->m->config;
    int64_t rows = SIA_BLOCK_ROWS * (largest(c->hidden, c->width) + 2 * (int64_t)c->width + 1);
    sia_product product = {
        .m = SIA_GRADIENT_ROWS, .n = SIA_GRADIENT_COLUMNS, .k = SIA_BLOCK_SUM, .a_transposed = true};
    return largest(rows, sia_product_floats(&product)) + SIA_ALIGN;
}

static void carve_layer(sia_training *t, sia_carve *carve, sia_layer *layer) {
    const sia_model_config *c = &t->m->config;
    int64_t n = t->tokens, q = (int64_t)c->heads * c->head_dim, kv = (int64_t)c->kv_heads * c->head_dim;
    layer->y1 = sia_carve_floats(carve, n * c->width);
    layer->r1 = sia_carve_floats(carve, n);
    layer->q = sia_carve_floats(carve, n * q);
    layer->k = sia_carve_floats(carve, n * kv);
    layer->v = sia_carve_floats(carve, n * kv);
    layer->rq = sia_carve_floats(carve, n * c->heads);
    layer->rk = sia_carve_floats(carve, n * c->kv_heads);
    layer->z = sia_carve_floats(carve, n * q);
    layer->lse = sia_carve_floats(carve, n * c->heads);
    layer->y2 = sia_carve_floats(carve, n * c->width);
    layer->r2 = sia_carve_floats(carve, n);
    layer->h = sia_carve_floats(carve, n * c->hidden);
}

static void carve_gradients(sia_training *t, sia_carve *carve) {
    const sia_model_config *c = &t->m->config;
    int64_t n = t->tokens, q = (int64_t)c->heads * c->head_dim, kv = (int64_t)c->kv_heads * c->head_dim;
    t->dx = sia_carve_floats(carve, n * c->width);
    t->dmid = sia_carve_floats(carve, n * c->width);
    t->dh = sia_carve_floats(carve, n * c->hidden);
    t->dz = sia_carve_floats(carve, n * q);
    t->dq = sia_carve_floats(carve, n * q);
    t->dk = sia_carve_floats(carve, n * kv);
    t->dv = sia_carve_floats(carve, n * kv);
    t->dlogn = sia_carve_floats(carve, c->heads);
}

/* A ring has its own. */
static size_t attention_bytes(const sia_training *t) {
    if (t->ring) return 0;
    size_t forward = sia_attention_workspace(t->m->attention, t->span, SIA_PASS_FORWARD);
    size_t back = t->forward_only ? 0 : sia_attention_workspace(t->m->attention, t->span, SIA_PASS_BACKWARD);
    return forward > back ? forward : back;
}

/* With base NULL it only counts. */
static void carve_all(sia_training *t, sia_carve *carve) {
    const sia_model_config *c = &t->m->config;
    int64_t n = t->tokens;
    for (int i = 0; i < c->layers; i++) {
        if (t->recompute) t->layers[i].input = sia_carve_floats(carve, n * c->width);
        if ((t->recompute || t->forward_only) && i > 0) {
            float *input = t->layers[i].input;
            t->layers[i] = t->layers[0];
            t->layers[i].input = input;
        } else
            carve_layer(t, carve, &t->layers[i]);
    }
    t->x = sia_carve_floats(carve, n * c->width);
    t->y = sia_carve_floats(carve, n * c->width);
    t->r = sia_carve_floats(carve, n);
    if (!t->forward_only) carve_gradients(t, carve);
    t->losses = sia_carve_floats(carve, n);
    t->logits = sia_carve_floats(carve, sia_loss_rows(c) * (int64_t)c->vocabulary);
    t->attention_work = sia_carve_bytes(carve, attention_bytes(t));
    t->worker_floats = worker_floats(t);
    t->scratch = sia_carve_floats(carve, t->worker_floats * t->m->threads);
}

sia_status sia_training_create(sia_training **t, sia_model *m, int64_t batch, int64_t length, bool recompute,
                               sia_error *err) {
    return sia_training_plan_create(
        t, m, &(sia_training_plan){.batch = batch, .length = length, .recompute = recompute}, err);
}

/* This rank's part of the sequences, and what attends to all of them. */
static sia_status take_positions(sia_training *t, const sia_training_plan *plan, sia_error *err) {
    t->length = plan->length;
    if (sia_comm_size(plan->ring) > 1) {
        sia_ring_plan ring = {.batch = plan->batch, .length = plan->length, .backward = !plan->forward_only};
        sia_status status = sia_ring_create(&t->ring, t->m->attention, plan->ring, &ring, err);
        if (status) return status;
        t->length = sia_ring_positions(t->ring);
    }
    t->tokens = t->batch * t->length;
    t->span = (sia_span){.batch = t->batch, .q_len = t->length, .k_len = t->length};
    return sia_attention_reserve(t->m->attention, plan->length, err);
}

sia_status sia_training_plan_create(sia_training **out, sia_model *m, const sia_training_plan *plan,
                                    sia_error *err) {
    *out = NULL;
    int64_t batch = plan->batch, length = plan->length;
    if (batch < 1 || length < 1 || length > SIA_MAX_POSITION || batch > SIA_MAX_POSITION / length)
        return sia_fail(err, SIA_ARGUMENT,
                        "batch of %lld sequences of %lld tokens: want 1 to %lld tokens in all",
                        (long long)batch, (long long)length, (long long)SIA_MAX_POSITION);
    sia_training *t = sia_alloc(1, sizeof *t);
    if (!t) return sia_fail_memory(err, sizeof *t, "training");
    *t = (sia_training){.m = m,
                        .batch = batch,
                        .most = batch,
                        .recompute = plan->recompute && !plan->forward_only,
                        .forward_only = plan->forward_only};
    t->layers = sia_alloc((size_t)m->config.layers, sizeof *t->layers);
    sia_status status = t->layers ? SIA_OK : sia_fail_memory(err, sizeof *t->layers, "training");
    if (!status && !t->forward_only) status = sia_parameters_gradients(&m->parameters, err);
    if (!status) status = take_positions(t, plan, err);
    if (!status) {
        sia_carve carve = {0};
        carve_all(t, &carve);
        t->bytes = carve.used;
        t->memory = sia_alloc(carve.used, 1);
        if (!t->memory) status = sia_fail_memory(err, carve.used, "activations");
    }
    if (status) {
        sia_training_destroy(t);
        return status;
    }
    carve_all(t, &(sia_carve){.base = t->memory});
    *out = t;
    return SIA_OK;
}

void sia_training_destroy(sia_training *t) {
    if (!t) return;
    sia_ring_destroy(t->ring);
    sia_free(t->memory);
    sia_free(t->layers);
    sia_free(t);
}

size_t sia_training_bytes(const sia_training *t) {
    return t->bytes + (t->ring ? sia_ring_bytes(t->ring) : 0);
}

int64_t sia_training_positions(const sia_training *t) { return t->length; }

void sia_training_pick(const sia_training *t, const uint32_t *row, uint32_t *to) {
    if (t->ring)
        sia_ring_pick(t->ring, row, to);
    else
        memcpy(to, row, (size_t)t->length * sizeof *to);
}

sia_status sia_training_resize(sia_training *t, int64_t batch, sia_error *err) {
    if (batch < 1 || batch > t->most)
        return sia_fail(err, SIA_ARGUMENT, "batch of %lld sequences: want 1 to %lld", (long long)batch,
                        (long long)t->most);
    t->batch = t->span.batch = batch;
    t->tokens = batch * t->length;
    return SIA_OK;
}

void sia_training_watch(sia_training *t, sia_gradient_ready *ready, void *context) {
    t->ready = ready;
    t->ready_context = context;
}

/* ------------------------------------------------------------------------------------------------ blocks of tokens */

typedef struct rows_job {
    sia_training *t;
    void (*run)(sia_training *t, int layer, int64_t first, int64_t rows, float *scratch);
    int layer;
} rows_job;

static void rows_task(void *context, int64_t task, int worker) {
    const rows_job *job = context;
    sia_training *t = job->t;
    int64_t first = task * SIA_BLOCK_ROWS;
    int64_t rows = t->tokens - first < SIA_BLOCK_ROWS ? t->tokens - first : SIA_BLOCK_ROWS;
    job->run(t, job->layer, first, rows, t->scratch + worker * t->worker_floats);
}

static void each_block(sia_training *t, int layer,
                       void (*run)(sia_training *t, int layer, int64_t first, int64_t rows, float *scratch)) {
    int64_t tasks = (t->tokens + SIA_BLOCK_ROWS - 1) / SIA_BLOCK_ROWS;
    sia_parallel(t->m->threads, tasks, rows_task, &(rows_job){t, run, layer});
}

static sia_parameter *weight(const sia_training *t, int layer, sia_kind kind) {
    return sia_block_parameter(&t->m->parameters, layer, kind);
}

/* ------------------------------------------------------------------------------------------------ forward */

/* y1, q, k, v of a layer from the residual. */
static void layer_begin(sia_training *t, int layer, int64_t first, int64_t rows, const float *x) {
    const sia_model_config *c = &t->m->config;
    const sia_kernel *kernel = t->m->kernel;
    const sia_layer *l = &t->layers[layer];
    int64_t width = c->width, q = (int64_t)c->heads * c->head_dim, kv = (int64_t)c->kv_heads * c->head_dim;
    float *y1 = l->y1 + first * width, *lq = l->q + first * q, *lk = l->k + first * kv;
    kernel->norm_rows(x, y1, rows, width, l->r1 + first);
    sia_model_product(t->m, weight(t, layer, SIA_KIND_Q), false, rows, y1, lq, 0);
    sia_model_product(t->m, weight(t, layer, SIA_KIND_K), false, rows, y1, lk, 0);
    sia_model_product(t->m, weight(t, layer, SIA_KIND_V), false, rows, y1, l->v + first * kv, 0);
    kernel->norm_rows(lq, lq, rows * c->heads, c->head_dim, l->rq + first * c->heads);
    kernel->norm_rows(lk, lk, rows * c->kv_heads, c->head_dim, l->rk + first * c->kv_heads);
}

/* x after attention, y2, h; h^2 into square. */
static void layer_middle(sia_training *t, int layer, int64_t first, int64_t rows, float *x, float *square) {
    const sia_model_config *c = &t->m->config;
    const sia_layer *l = &t->layers[layer];
    int64_t width = c->width, hidden = c->hidden, q = (int64_t)c->heads * c->head_dim;
    float *h = l->h + first * hidden, *y2 = l->y2 + first * width;
    sia_model_product(t->m, weight(t, layer, SIA_KIND_O), false, rows, l->z + first * q, x, 1);
    t->m->kernel->norm_rows(x, y2, rows, width, l->r2 + first);
    sia_model_product(t->m, weight(t, layer, SIA_KIND_IN), false, rows, y2, h, 0);
    t->m->kernel->relu_square(h, square, rows * hidden);
}

/* Between the attention of layer - 1 and that of `layer`. */
static void forward_rows(sia_training *t, int layer, int64_t first, int64_t rows, float *scratch) {
    const sia_model *m = t->m;
    int64_t width = m->config.width;
    float *x = t->x + first * width;
    if (layer == 0) {
        float *inverse = scratch + SIA_BLOCK_ROWS * width;
        for (int64_t i = 0; i < rows; i++)
            memcpy(scratch + i * width, sia_embedding(&m->parameters)->value + t->ids[first + i] * width,
                   (size_t)width * sizeof(float));
        m->kernel->norm_rows(scratch, x, rows, width, inverse);
    } else {
        layer_middle(t, layer - 1, first, rows, x, scratch);
        sia_model_product(m, weight(t, layer - 1, SIA_KIND_OUT), false, rows, scratch, x, 1);
    }
    if (layer == m->config.layers) {
        m->kernel->norm_rows(x, t->y + first * width, rows, width, t->r + first);
        return;
    }
    if (t->recompute)
        memcpy(t->layers[layer].input + first * width, x, (size_t)(rows * width) * sizeof(float));
    layer_begin(t, layer, first, rows, x);
}

static const float *logn_of(const sia_training *t, int layer) {
    return t->m->parameters.per_block > SIA_KIND_LOGN ? weight(t, layer, SIA_KIND_LOGN)->value : NULL;
}

static sia_status attend(sia_training *t, int layer, sia_error *err) {
    const sia_layer *l = &t->layers[layer];
    sia_forward io = {.q = l->q, .k = l->k, .v = l->v, .logn = logn_of(t, layer), .out = l->z, .lse = l->lse};
    return t->ring ? sia_ring_forward(t->ring, t->batch, &io, err)
                   : sia_attention_forward(t->m->attention, t->span, &io, t->attention_work, err);
}

static sia_status forward(sia_training *t, sia_error *err) {
    sia_status status = SIA_OK;
    for (int layer = 0; !status && layer < t->m->config.layers; layer++) {
        each_block(t, layer, forward_rows);
        status = attend(t, layer, err);
    }
    if (!status) each_block(t, t->m->config.layers, forward_rows);
    return status;
}

/* ------------------------------------------------------------------------------------------------ backward */

static void again_begin(sia_training *t, int layer, int64_t first, int64_t rows, float *scratch) {
    (void)scratch;
    layer_begin(t, layer, first, rows, t->layers[layer].input + first * t->m->config.width);
}

static void again_middle(sia_training *t, int layer, int64_t first, int64_t rows, float *scratch) {
    const sia_model_config *c = &t->m->config;
    float *x = scratch + SIA_BLOCK_ROWS * largest(c->hidden, c->width);
    memcpy(x, t->layers[layer].input + first * c->width, (size_t)(rows * c->width) * sizeof(float));
    layer_middle(t, layer, first, rows, x, scratch);
}

static sia_status compute_again(sia_training *t, int layer, sia_error *err) {
    each_block(t, layer, again_begin);
    sia_status status = attend(t, layer, err);
    if (!status) each_block(t, layer, again_middle);
    return status;
}

/* From dx to dh, dmid and dz; h becomes h^2. */
static void backward_mlp_rows(sia_training *t, int layer, int64_t first, int64_t rows, float *scratch) {
    const sia_model_config *c = &t->m->config;
    const sia_layer *l = &t->layers[layer];
    int64_t width = c->width, hidden = c->hidden, q = (int64_t)c->heads * c->head_dim;
    const float *dx = t->dx + first * width;
    float *dh = t->dh + first * hidden, *dmid = t->dmid + first * width;
    sia_model_product(t->m, weight(t, layer, SIA_KIND_OUT), true, rows, dx, dh, 0);
    t->m->kernel->relu_square_back(l->h + first * hidden, dh, rows * hidden);
    sia_model_product(t->m, weight(t, layer, SIA_KIND_IN), true, rows, dh, scratch, 0);
    t->m->kernel->norm_rows_back(l->y2 + first * width, l->r2 + first, scratch, dx, dmid, rows, width);
    sia_model_product(t->m, weight(t, layer, SIA_KIND_O), true, rows, dmid, t->dz + first * q, 0);
}

/* From dq, dk, dv (which become the gradients before their norms) and dmid to dx. */
static void backward_attention_rows(sia_training *t, int layer, int64_t first, int64_t rows, float *scratch) {
    const sia_model_config *c = &t->m->config;
    const sia_kernel *kernel = t->m->kernel;
    const sia_layer *l = &t->layers[layer];
    int64_t width = c->width, q = (int64_t)c->heads * c->head_dim, kv = (int64_t)c->kv_heads * c->head_dim;
    float *dq = t->dq + first * q, *dk = t->dk + first * kv;
    kernel->norm_rows_back(l->q + first * q, l->rq + first * c->heads, dq, NULL, dq, rows * c->heads,
                           c->head_dim);
    kernel->norm_rows_back(l->k + first * kv, l->rk + first * c->kv_heads, dk, NULL, dk, rows * c->kv_heads,
                           c->head_dim);
    sia_model_product(t->m, weight(t, layer, SIA_KIND_Q), true, rows, dq, scratch, 0);
    sia_model_product(t->m, weight(t, layer, SIA_KIND_K), true, rows, dk, scratch, 1);
    sia_model_product(t->m, weight(t, layer, SIA_KIND_V), true, rows, t->dv + first * kv, scratch, 1);
    kernel->norm_rows_back(l->y1 + first * width, l->r1 + first, scratch, t->dmid + first * width,
                           t->dx + first * width, rows, width);
}

static sia_status backward_attention(sia_training *t, int layer, bool add, sia_error *err) {
    const sia_layer *l = &t->layers[layer];
    const float *logn = logn_of(t, layer);
    sia_backward io = {.q = l->q,
                       .k = l->k,
                       .v = l->v,
                       .logn = logn,
                       .out = l->z,
                       .lse = l->lse,
                       .d_out = t->dz,
                       .d_q = t->dq,
                       .d_k = t->dk,
                       .d_v = t->dv,
                       .d_logn = logn ? t->dlogn : NULL};
    sia_status status = t->ring
                            ? sia_ring_backward(t->ring, t->batch, &io, err)
                            : sia_attention_backward(t->m->attention, t->span, &io, t->attention_work, err);
    for (int h = 0; !status && logn && h < t->m->config.heads; h++) {
        float *gradient = weight(t, layer, SIA_KIND_LOGN)->gradient + h;
        *gradient = t->dlogn[h] + (add ? *gradient : 0);
    }
    return status;
}

/* `count` parameters of the table from this one on. */
static sia_status tell_ready(sia_training *t, const sia_parameter *first, int count, sia_error *err) {
    if (!t->ready) return SIA_OK;
    return t->ready(t->ready_context, (int)(first - t->m->parameters.list), count, err);
}

static sia_status backward_layer(sia_training *t, int layer, bool add, sia_error *err) {
    const sia_layer *l = &t->layers[layer];
    sia_status status = t->recompute ? compute_again(t, layer, err) : SIA_OK;
    if (status) return status;
    each_block(t, layer, backward_mlp_rows);
    status = tell_ready(t, weight(t, layer, SIA_KIND_O), 0, err);
    if (status) return status;
    const sia_gradient_of mlp[] = {{weight(t, layer, SIA_KIND_OUT), t->dx, l->h},
                                   {weight(t, layer, SIA_KIND_IN), t->dh, l->y2},
                                   {weight(t, layer, SIA_KIND_O), t->dmid, l->z}};
    sia_training_gradients(t, mlp, 3, t->tokens, add);
    status = tell_ready(t, weight(t, layer, SIA_KIND_O), 3, err); /* o, in, out */
    if (!status) status = backward_attention(t, layer, add, err);
    if (!status) status = tell_ready(t, weight(t, layer, SIA_KIND_Q), 0, err);
    if (status) return status;
    each_block(t, layer, backward_attention_rows);
    const sia_gradient_of attention[] = {{weight(t, layer, SIA_KIND_Q), t->dq, l->y1},
                                         {weight(t, layer, SIA_KIND_K), t->dk, l->y1},
                                         {weight(t, layer, SIA_KIND_V), t->dv, l->y1}};
    sia_training_gradients(t, attention, 3, t->tokens, add);
    status = tell_ready(t, weight(t, layer, SIA_KIND_Q), 3, err); /* q, k, v */
    if (!status && logn_of(t, layer)) status = tell_ready(t, weight(t, layer, SIA_KIND_LOGN), 1, err);
    return status;
}

/* dx becomes the gradient of the embedding's row of each token. */
static void backward_embedding_rows(sia_training *t, int layer, int64_t first, int64_t rows, float *scratch) {
    (void)layer;
    int64_t width = t->m->config.width;
    float *y = scratch + SIA_BLOCK_ROWS * width, *inverse = y + SIA_BLOCK_ROWS * width;
    for (int64_t i = 0; i < rows; i++)
        memcpy(scratch + i * width, sia_embedding(&t->m->parameters)->value + t->ids[first + i] * width,
               (size_t)width * sizeof(float));
    t->m->kernel->norm_rows(scratch, y, rows, width, inverse);
    float *dx = t->dx + first * width;
    t->m->kernel->norm_rows_back(y, inverse, dx, NULL, dx, rows, width);
}

/* Rows of a token that comes often are added in the order of the text; a task takes some of the columns. */
enum { EMBEDDING_COLUMNS = 64 };

typedef struct scatter {
    sia_training *t;
    bool add;
} scatter;

static void scatter_task(void *context, int64_t task, int worker) {
    (void)worker;
    const scatter *job = context;
    const sia_training *t = job->t;
    const sia_parameter *p = sia_embedding(&t->m->parameters);
    int64_t width = p->columns, first = task * EMBEDDING_COLUMNS;
    int64_t columns = width - first < EMBEDDING_COLUMNS ? width - first : EMBEDDING_COLUMNS;
    for (int64_t i = 0; !job->add && i < p->rows; i++)
        memset(p->gradient + i * width + first, 0, (size_t)columns * sizeof(float));
    for (int64_t i = 0; i < t->tokens; i++) {
        float *to = p->gradient + t->ids[i] * width + first;
        const float *from = t->dx + i * width + first;
        for (int64_t j = 0; j < columns; j++) to[j] += from[j];
    }
}

/* ------------------------------------------------------------------------------------------------ the whole */

static sia_status read_batch(sia_training *t, const uint32_t *ids, const uint32_t *targets, sia_error *err) {
    sia_status status = sia_model_check_ids(t->m, ids, t->tokens, "input", false, err);
    if (!status) status = sia_model_check_ids(t->m, targets, t->tokens, "target", true, err);
    if (status) return status;
    t->ids = ids;
    return forward(t, err);
}

sia_status sia_training_losses(sia_training *t, const uint32_t *ids, const uint32_t *targets, float *losses,
                               sia_error *err) {
    sia_status status = read_batch(t, ids, targets, err);
    if (status) return status;
    sia_training_score(t, targets);
    memcpy(losses, t->losses, (size_t)t->tokens * sizeof *losses);
    return SIA_OK;
}

sia_status sia_training_run(sia_training *t, const uint32_t *ids, const uint32_t *targets, float scale,
                            bool add, double *sum, int64_t *scored, sia_error *err) {
    sia_status status = read_batch(t, ids, targets, err);
    if (status) return status;
    sia_training_loss(t, targets, scale, add, sum, scored);
    status = tell_ready(t, sia_unembedding(&t->m->parameters), 1, err);
    for (int layer = t->m->config.layers - 1; !status && layer >= 0; layer--)
        status = backward_layer(t, layer, add, err);
    if (status) return status;
    each_block(t, 0, backward_embedding_rows);
    int64_t tasks = (t->m->config.width + EMBEDDING_COLUMNS - 1) / EMBEDDING_COLUMNS;
    sia_parallel(t->m->threads, tasks, scatter_task, &(scatter){t, add});
    return tell_ready(t, sia_embedding(&t->m->parameters), 1, err);
}
