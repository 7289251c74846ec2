/* SPDX-License-Identifier: MIT
 *
 * A text going through the model with a KV cache for each layer (sia.h). The mathematics is that of
 * training.c, forward alone. Each step is cut among the threads by blocks of rows and of columns of its
 * result, so that a single token keeps all of them busy: then every weight is read once, and reading is what
 * takes the time. */
#include "model/session.h"

#include <string.h>

#include "base/random.h"

enum {
    CHUNK = 768,            /* tokens that go through the layers together, at most */
    LOSS_ROWS = 48,         /* rows of logits that exist at a time for each thread, at most */
    LOSS_BYTES = 128 << 20, /* for those of all threads, if it can be */
    COLUMNS = 128,          /* of a product in one task */
};

struct sia_session {
    sia_model *m;
    sia_type type;
    sia_cache **caches; /* [layers] */
    int64_t length;
    float *x, *y, *q, *k, *v, *z, *h, *inverse; /* [CHUNK][..] */
    char *memory;                               /* of all these */
    float *logits; /* [threads][loss_rows][vocabulary], once losses are asked for */
    int64_t loss_rows;
    size_t bytes;
};

/* ------------------------------------------------------------------------------------------------ creation */

/* With base NULL it only counts. */
static size_t carve_buffers(sia_session *s, char *base) {
    const sia_model_config *c = &s->m->config;
    int64_t q = (int64_t)c->heads * c->head_dim, kv = (int64_t)c->kv_heads * c->head_dim;
    sia_carve all = {base, 0};
    s->x = sia_carve_floats(&all, CHUNK * (int64_t)c->width);
    s->y = sia_carve_floats(&all, CHUNK * (int64_t)c->width);
    s->q = sia_carve_floats(&all, CHUNK * q);
    s->k = sia_carve_floats(&all, CHUNK * kv);
    s->v = sia_carve_floats(&all, CHUNK * kv);
    s->z = sia_carve_floats(&all, CHUNK * q);
    s->h = sia_carve_floats(&all, CHUNK * (int64_t)c->hidden);
    s->inverse = sia_carve_floats(&all, CHUNK * (int64_t)(c->heads > c->kv_heads ? c->heads : c->kv_heads));
    return all.used;
}

static sia_status make_buffers(sia_session *s, sia_error *err) {
    s->bytes = carve_buffers(s, NULL);
    s->memory = sia_alloc(s->bytes, 1);
    if (!s->memory) return sia_fail_memory(err, s->bytes, "session");
    (void)carve_buffers(s, s->memory);
    return SIA_OK;
}

/* Room for logits of which losses are made; text that is only continued needs none. */
static sia_status make_loss_room(sia_session *s, sia_error *err) {
    if (s->logits) return SIA_OK;
    size_t row = s->m->config.vocabulary * sizeof(float) * (size_t)s->m->threads;
    int64_t rows = (int64_t)(LOSS_BYTES / row) / 6 * 6; /* whole tiles of a product */
    s->loss_rows = rows > LOSS_ROWS ? LOSS_ROWS : rows > 6 ? rows : 6;
    size_t bytes = (size_t)s->loss_rows * row;
    s->logits = sia_alloc(bytes, 1);
    if (!s->logits) return sia_fail_memory(err, bytes, "losses");
    s->bytes += bytes;
    return SIA_OK;
}

sia_status sia_session_create(sia_session **out, sia_model *m, sia_type type, sia_error *err) {
    if (!out || !m)
        return sia_fail(err, SIA_ARGUMENT, "session: want a place for the result and a model, got NULL");
    *out = NULL;
    sia_session *s = sia_alloc(1, sizeof *s);
    if (!s) return sia_fail_memory(err, sizeof *s, "session");
    s->m = m;
    atomic_fetch_add(&m->sessions, 1);
    s->type = type;
    s->caches = sia_alloc((size_t)m->config.layers, sizeof(sia_cache *));
    sia_status status = s->caches ? SIA_OK : sia_fail_memory(err, sizeof(sia_cache *), "session");
    for (int i = 0; !status && i < m->config.layers; i++)
        status = sia_cache_create(&s->caches[i], m->attention, type, err);
    if (!status) status = make_buffers(s, err);
    if (!status) status = sia_model_pack_shared(m, err);
    if (status) {
        sia_session_destroy(s);
        return status;
    }
    *out = s;
    return SIA_OK;
}

void sia_session_destroy(sia_session *s) {
    if (!s) return;
    for (int i = 0; s->caches && i < s->m->config.layers; i++) sia_cache_destroy(s->caches[i]);
    sia_free(s->caches);
    sia_free(s->memory);
    sia_free(s->logits);
    atomic_fetch_sub(&s->m->sessions, 1);
    sia_free(s);
}

int64_t sia_session_length(const sia_session *s) { return s->length; }

size_t sia_session_bytes(const sia_session *s) {
    size_t bytes = s->bytes;
    for (int i = 0; i < s->m->config.layers; i++) bytes += sia_cache_bytes(s->caches[i]);
    return bytes;
}

sia_status sia_session_truncate(sia_session *s, int64_t length, sia_error *err) {
    if (!s) return sia_fail(err, SIA_ARGUMENT, "session: NULL");
    if (length < 0 || length > s->length)
        return sia_fail(err, SIA_ARGUMENT, "length %lld: the session holds %lld tokens", (long long)length,
                        (long long)s->length);
    for (int i = 0; i < s->m->config.layers; i++) {
        /* A feed that failed may have reached some layers only. */
        int64_t held = sia_cache_length(s->caches[i]);
        sia_status status = held > length ? sia_cache_truncate(s->caches[i], length, err) : SIA_OK;
        if (status) return status;
    }
    s->length = length;
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ steps in parallel */

typedef struct product_job {
    const sia_model *m;
    const sia_parameter *w;
    const float *a;
    float *c;
    int64_t rows;
    float beta;
} product_job;

static void product_task(void *context, int64_t task, int worker) {
    (void)worker;
    const product_job *job = context;
    int64_t n = job->w->rows, k = job->w->columns, across = sia_blocks(n, COLUMNS);
    int64_t column = task % across * COLUMNS, row = task / across * SIA_BLOCK_ROWS;
    job->m->kernel->multiply(
        &(sia_multiply){.m = job->rows - row < SIA_BLOCK_ROWS ? job->rows - row : SIA_BLOCK_ROWS,
                        .n = n - column < COLUMNS ? n - column : COLUMNS,
                        .k = k,
                        .a = job->a + row * k,
                        .a_stride = k,
                        .b = job->m->forward.of[job->w - job->m->parameters.list] + column * k,
                        .c = job->c + row * n + column,
                        .c_stride = n,
                        .alpha = 1,
                        .beta = job->beta});
}

/* c = beta c + a W^T for all rows. */
static void product(const sia_session *s, int layer, sia_kind kind, int64_t rows, const float *a, float *c,
                    float beta) {
    const sia_parameter *w = sia_block_parameter(&s->m->parameters, layer, kind);
    sia_parallel(s->m->threads, sia_blocks(w->rows, COLUMNS) * sia_blocks(rows, SIA_BLOCK_ROWS), product_task,
                 &(product_job){s->m, w, a, c, rows, beta});
}

typedef struct rows_job {
    const sia_session *s;
    const float *x;
    float *y;
    int64_t rows, n, block;
} rows_job;

static void norm_task(void *context, int64_t task, int worker) {
    (void)worker;
    const rows_job *job = context;
    int64_t first = task * job->block, rows = job->rows - first < job->block ? job->rows - first : job->block;
    job->s->m->kernel->norm_rows(job->x + first * job->n, job->y + first * job->n, rows, job->n,
                                 job->s->inverse + first);
}

static void norm(const sia_session *s, const float *x, float *y, int64_t rows, int64_t n) {
    rows_job job = {s, x, y, rows, n, 65536 / n + 1};
    sia_parallel(s->m->threads, sia_blocks(rows, job.block), norm_task, &job);
}

static void relu_square_task(void *context, int64_t task, int worker) {
    (void)worker;
    const rows_job *job = context;
    int64_t first = task * job->block, rows = job->rows - first < job->block ? job->rows - first : job->block;
    float *h = job->y + first * job->n;
    job->s->m->kernel->relu_square(h, h, rows * job->n);
}

/* ------------------------------------------------------------------------------------------------ layers */

static sia_status layer(sia_session *s, int i, int64_t rows, sia_error *err) {
    const sia_model_config *c = &s->m->config;
    bool logn = s->m->parameters.per_block > SIA_KIND_LOGN;
    norm(s, s->x, s->y, rows, c->width);
    product(s, i, SIA_KIND_Q, rows, s->y, s->q, 0);
    product(s, i, SIA_KIND_K, rows, s->y, s->k, 0);
    product(s, i, SIA_KIND_V, rows, s->y, s->v, 0);
    norm(s, s->q, s->q, rows * c->heads, c->head_dim);
    norm(s, s->k, s->k, rows * c->kv_heads, c->head_dim);
    sia_status status = sia_cache_append(s->caches[i], rows, s->k, s->v, err);
    if (!status)
        status = sia_cache_attend(
            s->caches[i], rows, s->q,
            logn ? sia_block_parameter(&s->m->parameters, i, SIA_KIND_LOGN)->value : NULL, s->z, NULL, err);
    if (status) return status;
    product(s, i, SIA_KIND_O, rows, s->z, s->x, 1);
    norm(s, s->x, s->y, rows, c->width);
    product(s, i, SIA_KIND_IN, rows, s->y, s->h, 0);
    rows_job job = {s, NULL, s->h, rows, c->hidden, 65536 / c->hidden + 1};
    sia_parallel(s->m->threads, sia_blocks(rows, job.block), relu_square_task, &job);
    product(s, i, SIA_KIND_OUT, rows, s->h, s->x, 1);
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ results */

typedef struct loss_job {
    const sia_session *s;
    const uint32_t *targets;
    float *losses;
    int64_t rows;
} loss_job;

static void loss_task(void *context, int64_t task, int worker) {
    const loss_job *job = context;
    const sia_model *m = job->s->m;
    int64_t most = job->s->loss_rows, first = task * most;
    int64_t rows = job->rows - first < most ? job->rows - first : most;
    int64_t vocabulary = m->config.vocabulary, width = m->config.width;
    float *logits = job->s->logits + worker * most * vocabulary;
    m->kernel->multiply(
        &(sia_multiply){.m = rows,
                        .n = vocabulary,
                        .k = width,
                        .a = job->s->y + first * width,
                        .a_stride = width,
                        .cut = true, /* loss_rows knows the number of threads */
                        .b = m->forward.of[sia_unembedding(&m->parameters) - m->parameters.list],
                        .c = logits,
                        .c_stride = vocabulary,
                        .alpha = 1});
    for (int64_t i = 0; i < rows; i++) {
        uint32_t target = job->targets[first + i];
        job->losses[first + i] = target == SIA_NO_TARGET ? 0
                                                         : m->kernel->cross_entropy(logits + i * vocabulary,
                                                                                    vocabulary, target, 0);
    }
}

static sia_status feed_chunk(sia_session *s, const uint32_t *ids, int64_t rows, const uint32_t *targets,
                             float *losses, float *logits, sia_error *err) {
    const sia_model *m = s->m;
    int64_t width = m->config.width;
    const float *embedding = sia_embedding(&m->parameters)->value;
    for (int64_t i = 0; i < rows; i++)
        memcpy(s->y + i * width, embedding + ids[i] * width, (size_t)width * sizeof(float));
    norm(s, s->y, s->x, rows, width);
    for (int i = 0; i < m->config.layers; i++) {
        sia_status status = layer(s, i, rows, err);
        if (status) return status;
    }
    norm(s, s->x, s->y, rows, width);
    if (losses)
        sia_parallel(m->threads, sia_blocks(rows, s->loss_rows), loss_task,
                     &(loss_job){s, targets, losses, rows});
    if (logits) {
        const sia_parameter *w = sia_unembedding(&m->parameters);
        sia_parallel(m->threads, sia_blocks(w->rows, COLUMNS), product_task,
                     &(product_job){m, w, s->y + (rows - 1) * width, logits, 1, 0});
    }
    s->length += rows;
    return SIA_OK;
}

sia_status sia_session_feed(sia_session *s, const uint32_t *ids, int64_t count, const uint32_t *targets,
                            float *losses, float *logits, sia_error *err) {
    if (!s || (!ids && count))
        return sia_fail(err, SIA_ARGUMENT, "session: want a session and tokens, got NULL");
    if (!targets != !losses) return sia_fail(err, SIA_ARGUMENT, "session: targets and losses go together");
    if (count < 1 || count > SIA_MAX_POSITION - s->length)
        return sia_fail(err, SIA_ARGUMENT, "%lld tokens after %lld: want 1 to %lld in all", (long long)count,
                        (long long)s->length, (long long)SIA_MAX_POSITION);
    sia_status status = sia_model_check_ids(s->m, ids, count, "input", false, err);
    if (!status && targets) status = sia_model_check_ids(s->m, targets, count, "target", true, err);
    if (!status && targets) status = make_loss_room(s, err);
    if (status) return status;
    int64_t before = s->length;
    for (int64_t at = 0; !status && at < count; at += CHUNK) {
        int64_t rows = count - at < CHUNK ? count - at : CHUNK;
        status = feed_chunk(s, ids + at, rows, targets ? targets + at : NULL, losses ? losses + at : NULL,
                            at + rows == count ? logits : NULL, err);
    }
    if (status) (void)sia_session_truncate(s, before, NULL);
    return status;
}

/* ------------------------------------------------------------------------------------------------ measuring */

sia_status sia_session_pretend(sia_session *s, int64_t count, uint64_t seed, sia_error *err) {
    const sia_model_config *c = &s->m->config;
    int64_t row = (int64_t)c->kv_heads * c->head_dim, before = s->length;
    if (count < 1 || count > SIA_MAX_POSITION - s->length)
        return sia_fail(err, SIA_ARGUMENT, "%lld tokens after %lld: want 1 to %lld in all", (long long)count,
                        (long long)s->length, (long long)SIA_MAX_POSITION);
    /* The same rows over and over: what they are does not matter, that they are there does. */
    for (int64_t i = 0; i < CHUNK * row; i++) {
        s->k[i] = (float)sia_random_normal(seed, (uint64_t)(2 * i));
        s->v[i] = (float)sia_random_normal(seed, (uint64_t)(2 * i + 1));
    }
    sia_status status = SIA_OK;
    for (int i = 0; !status && i < c->layers; i++)
        for (int64_t at = 0; !status && at < count; at += CHUNK)
            status = sia_cache_append(s->caches[i], count - at < CHUNK ? count - at : CHUNK, s->k, s->v, err);
    if (status)
        (void)sia_session_truncate(s, before, NULL);
    else
        s->length += count;
    return status;
}

double sia_session_read_bytes(const sia_session *s) {
    const sia_model *m = s->m;
    double weights = 0;
    for (int i = 0; i < m->parameters.count; i++)
        if (m->forward.of[i])
            weights += (double)(m->parameters.list[i].rows * m->parameters.list[i].columns) * sizeof(float);
    double position = (double)m->kernel->cache_block_bytes(s->type, m->config.head_dim) / SIA_CACHE_BLOCK;
    return weights + position * (double)s->length * m->config.kv_heads * m->config.layers;
}

sia_status sia_type_parse(const char *name, sia_type *type, sia_error *err) {
    static const char *const names[] = {[SIA_F32] = "f32", [SIA_F16] = "f16", [SIA_I8] = "int8"};
    for (int i = SIA_F32; i <= SIA_I8; i++)
        if (!strcmp(names[i], name)) {
            *type = (sia_type)i;
            return SIA_OK;
        }
    return sia_fail(err, SIA_ARGUMENT, "cache '%s': want f32, f16 or int8", name);
}
