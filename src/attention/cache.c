/* SPDX-License-Identifier: MIT
 *
 * The KV cache of one sequence in one layer. Positions live in blocks of SIA_CACHE_BLOCK (layout:
 * kernel/decode.h), blocks in chunks of memory that double up to a limit; a table of pointers finds a block.
 * Within a chunk the blocks of a head lie one after the other, [kv_heads][blocks]: who goes over the keys of a
 * head reads one long stream. Nothing in the cache ever moves.
 *
 * Attending with few queries streams the cache through the decode kernel: tasks (kv head, stretch of keys, rows),
 * whose partial results (max, sum, out) are merged in the order of the keys. With many queries, blocks go
 * through the kernel of the forward pass, a block of queries at a time. Stretches are fixed: the result does
 * not depend on the number of threads. */
#include "attention/attention.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BLOCKS = 16, /* 4096 positions, the largest chunk; more where these are small: largest_chunk() */
    STRETCH = 32,      /* blocks in a decode task, which reads its parts side by side (decode.h) */
    STRETCH_KEYS = STRETCH * SIA_CACHE_BLOCK,
    FEW_QUERIES = 24, /* with more, tiles of queries are faster than rows (docs/speed.md) */
};

typedef struct chunk {
    void *pages;
    size_t bytes;
} chunk;

typedef struct block {
    char *head_0;       /* the part of head 0 */
    size_t head_stride; /* bytes to the part of the next head */
} block;

struct sia_cache {
    const sia_attention *a;
    sia_type type;
    int64_t length;
    size_t head_bytes;     /* of one head's part of a block */
    int64_t largest_chunk; /* in blocks */
    block *blocks;         /* [block_count] */
    int64_t block_count;
    size_t block_room;
    chunk *chunks;
    int64_t chunk_count;
    size_t chunk_room;
    float *partials; /* of the decode tasks; grows with the cache */
    int64_t partial_floats;
};

/* In blocks. A chunk ends on small pages, less than a huge one of them, and so is to be several huge pages long. */
static int64_t largest_chunk(size_t block_bytes) {
    int64_t blocks = CHUNK_BLOCKS;
    while ((size_t)blocks * block_bytes < 4 * SIA_HUGE_PAGE) blocks *= 2;
    return blocks;
}

sia_status sia_cache_create(sia_cache **out, const sia_attention *a, sia_type type, sia_error *err) {
    if (!out || !a)
        return sia_fail(err, SIA_ARGUMENT,
                        "cache: want a place for the result and an attention object, got NULL");
    *out = NULL;
    if (type != SIA_F32 && type != SIA_F16 && type != SIA_I8)
        return sia_fail(err, SIA_ARGUMENT, "cache type %d: want f32, f16 or i8", (int)type);
    sia_cache *c = sia_alloc(1, sizeof *c);
    if (!c) return sia_fail_memory(err, sizeof *c, "cache");
    c->a = a;
    c->type = type;
    c->head_bytes = sia_aligned(a->kernel->cache_block_bytes(type, a->config.head_dim));
    c->largest_chunk = largest_chunk(c->head_bytes * (size_t)a->config.kv_heads);
    *out = c;
    return SIA_OK;
}

void sia_cache_destroy(sia_cache *c) {
    if (!c) return;
    for (int64_t i = 0; i < c->chunk_count; i++) sia_pages_unmap(c->chunks[i].pages, c->chunks[i].bytes);
    free(c->chunks);
    free(c->blocks);
    sia_free(c->partials);
    sia_free(c);
}

int64_t sia_cache_length(const sia_cache *c) { return c->length; }

size_t sia_cache_bytes(const sia_cache *c) {
    size_t bytes = 0;
    for (int64_t i = 0; i < c->chunk_count; i++) bytes += c->chunks[i].bytes;
    return bytes;
}

sia_status sia_cache_truncate(sia_cache *c, int64_t length, sia_error *err) {
    if (!c) return sia_fail(err, SIA_ARGUMENT, "cache: NULL");
    if (length < 0 || length > c->length)
        return sia_fail(err, SIA_ARGUMENT, "length %lld: the cache holds %lld", (long long)length,
                        (long long)c->length);
    c->length = length;
    return SIA_OK;
}

/* The part of a head in the block that holds a position. */
static char *part_of(const sia_cache *c, int64_t position, int64_t kv_head) {
    const block *b = &c->blocks[position / SIA_CACHE_BLOCK];
    return b->head_0 + (size_t)kv_head * b->head_stride;
}

/* ------------------------------------------------------------------------------------------------ growing */

static sia_status add_chunk(sia_cache *c, sia_error *err) {
    int64_t blocks = c->block_count ? c->block_count : 1; /* as many as there are: the cache doubles */
    if (blocks > c->largest_chunk) blocks = c->largest_chunk;
    size_t head_stride = (size_t)blocks * c->head_bytes, bytes = head_stride * (size_t)c->a->config.kv_heads;
    size_t chunks = (size_t)c->chunk_count + 1, all_blocks = (size_t)(c->block_count + blocks);
    bool room = sia_grow(&c->chunks, &c->chunk_room, chunks, sizeof *c->chunks) &&
                sia_grow(&c->blocks, &c->block_room, all_blocks, sizeof *c->blocks);
    char *pages = room ? sia_pages_map(bytes) : NULL;
    if (!pages) return sia_fail_memory(err, bytes, "cache");
    c->chunks[c->chunk_count++] = (chunk){pages, bytes};
    for (int64_t i = 0; i < blocks; i++)
        c->blocks[c->block_count++] = (block){pages + (size_t)i * c->head_bytes, head_stride};
    return SIA_OK;
}

typedef struct append {
    sia_cache *c;
    const sia_tables *tables;
    const float *k, *v;
    int64_t n;
} append;

enum { APPEND_ROWS = 64 };

static void append_task(void *context, int64_t task, int worker) {
    (void)worker;
    const append *p = context;
    const sia_cache *c = p->c;
    const sia_attention_config *config = &c->a->config;
    int d = config->head_dim;
    int64_t end = (task + 1) * APPEND_ROWS < p->n ? (task + 1) * APPEND_ROWS : p->n;
    for (int64_t i = task * APPEND_ROWS; i < end; i++) {
        int64_t position = c->length + i;
        for (int head = 0; head < config->kv_heads; head++) {
            float turned[SIA_MAX_DIM];
            int64_t at = (i * config->kv_heads + head) * d;
            c->a->kernel->turn(p->tables, d, position, 1, p->k + at, turned);
            c->a->kernel->cache_write(c->type, d, part_of(c, position, head),
                                      (int)(position % SIA_CACHE_BLOCK), turned, p->v + at);
        }
    }
}

sia_status sia_cache_append(sia_cache *c, int64_t n, const float *k, const float *v, sia_error *err) {
    if (!c) return sia_fail(err, SIA_ARGUMENT, "cache: NULL");
    if (n < 1 || n > SIA_MAX_POSITION - c->length)
        return sia_fail(err, SIA_ARGUMENT, "n %lld: want 1 to %lld", (long long)n,
                        (long long)(SIA_MAX_POSITION - c->length));
    append p = {.c = c, .k = k, .v = v, .n = n};
    sia_status status = sia_array_check("k", k, err);
    if (!status) status = sia_array_check("v", v, err);
    if (!status) status = sia_attention_tables_for(c->a, c->length + n, &p.tables, err);
    while (!status && c->block_count * SIA_CACHE_BLOCK < c->length + n) status = add_chunk(c, err);
    if (status) return status;
    sia_parallel(c->a->config.threads, (n + APPEND_ROWS - 1) / APPEND_ROWS, append_task, &p);
    c->length += n;
    return SIA_OK;
}

/* ---------------------------------------------------------------------------------------------- attending */

typedef struct attend {
    const sia_cache *c;
    const sia_tables *tables;
    int64_t n, share, stretches;
    const float *q, *logn;
    float *out, *lse;
    float *turned;   /* few queries: [kv_heads][rows][head_dim] */
    float *partials; /* few queries: [kv_heads][stretches] of (max [rows], sum [rows], out [rows][width]) */
    int64_t partial;
    char *scratch; /* many queries: a part for each worker */
    size_t part;
    int64_t q_rows, q_blocks;   /* many queries: in a task; tasks for a head */
    int64_t width, rows, turns; /* few queries: of a kv head; of up to SIA_DECODE_ROWS rows */
} attend;

/* Row r of a kv head's queries: query r / share, head kv_head * share + r % share. */
static int head_of(const attend *t, int64_t kv_head, int64_t row) {
    return (int)(kv_head * t->share + row % t->share);
}

/* Rows first to first + rows of a kv head's queries over the keys of a stretch. */
static void decode_rows(const attend *t, int64_t kv_head, int64_t stretch, const void *const *parts,
                        int64_t first, int64_t rows) {
    const sia_cache *c = t->c;
    int64_t begin = stretch * STRETCH_KEYS, left = c->length - begin;
    const float *scale[SIA_DECODE_ROWS], *bias[SIA_DECODE_ROWS];
    int64_t limit[SIA_DECODE_ROWS];
    for (int64_t r = 0; r < rows; r++) {
        int head = head_of(t, kv_head, first + r);
        scale[r] = sia_tables_scale(t->tables, head);
        bias[r] = sia_tables_bias(t->tables, head);
        limit[r] = c->length - t->n + (first + r) / t->share + 1 - begin;
    }
    float *part = t->partials + (kv_head * t->stretches + stretch) * t->partial;
    sia_decode d = {.head_dim = c->a->config.head_dim,
                    .rows = (int)rows,
                    .reading = sia_reading_of_cache(c->type, rows),
                    .q = t->turned + (kv_head * t->rows + first) * c->a->config.head_dim,
                    .scale = scale,
                    .bias = bias,
                    .limit = limit,
                    .block = parts,
                    .count = left < STRETCH_KEYS ? left : STRETCH_KEYS,
                    .max = part + first,
                    .sum = part + t->rows + first,
                    .out = part + 2 * t->rows + first * t->width};
    c->a->kernel->decode(c->type, &d);
}

/* The heads of a stretch one after the other, as they lie in chunks of half a stretch. More rows than the kernel takes go over
 * the stretch in turns, one after the other too, and find it in a cache of the processor. */
static void decode_task(void *context, int64_t task, int worker) {
    (void)worker;
    const attend *t = context;
    const sia_cache *c = t->c;
    int64_t first = task % t->turns * SIA_DECODE_ROWS, left = t->rows - first, part = task / t->turns;
    int64_t stretch = part / c->a->config.kv_heads, kv_head = part % c->a->config.kv_heads;
    int64_t begin = stretch * STRETCH_KEYS;
    const void *parts[STRETCH];
    for (int64_t i = 0; i < STRETCH && begin + i * SIA_CACHE_BLOCK < c->length; i++)
        parts[i] = part_of(c, begin + i * SIA_CACHE_BLOCK, kv_head);
    decode_rows(t, kv_head, stretch, parts, first, left < SIA_DECODE_ROWS ? left : SIA_DECODE_ROWS);
}

/* The stretches of one row in their order: m = max, z = sum of z_i 2^(m_i - m), o alike. */
static void merge_row(const attend *t, int64_t kv_head, int64_t row) {
    const sia_attention_config *config = &t->c->a->config;
    const float *parts = t->partials + kv_head * t->stretches * t->partial;
    int64_t at = row / t->share * config->heads + head_of(t, kv_head, row);
    float *out = t->out + at * config->head_dim, m = -FLT_MAX, z = 0;
    for (int64_t i = 0; i < t->stretches; i++) m = fmaxf(m, parts[i * t->partial + row]);
    memset(out, 0, sizeof(float) * (size_t)config->head_dim);
    for (int64_t i = 0; i < t->stretches; i++) {
        const float *part = parts + i * t->partial, *o = part + 2 * t->rows + row * t->width;
        if (part[t->rows + row] == 0) continue; /* sees nothing of the stretch */
        float factor = exp2f(part[row] - m);
        z += part[t->rows + row] * factor;
        for (int j = 0; j < config->head_dim; j++) out[j] += o[j] * factor;
    }
    /* All weights 0: logits of -infinity alone. */
    for (int j = 0; j < config->head_dim; j++) out[j] = z == 0 ? 0 : out[j] / z;
    if (t->lse) t->lse[at] = z == 0 ? -INFINITY : (m + log2f(z)) * (float)M_LN2;
}

static sia_status attend_few(attend *t, sia_error *err) {
    sia_cache *c = (sia_cache *)t->c;
    const sia_attention_config *config = &c->a->config;
    int d = config->head_dim;
    t->rows = t->n * t->share;
    t->turns = (t->rows + SIA_DECODE_ROWS - 1) / SIA_DECODE_ROWS;
    t->stretches = (c->length + STRETCH_KEYS - 1) / STRETCH_KEYS;
    t->partial = t->rows * (2 + t->width);
    int64_t queries = config->kv_heads * t->rows * d,
            floats = queries + config->kv_heads * t->stretches * t->partial;
    if (floats > c->partial_floats) {
        sia_free(c->partials);
        c->partial_floats = 0;
        int64_t roomy = 2 * floats; /* room to grow, where there is some */
        if (!(c->partials = sia_alloc((size_t)roomy, sizeof(float))))
            c->partials = sia_alloc((size_t)(roomy = floats), sizeof(float));
        if (!c->partials) return sia_fail_memory(err, (size_t)floats * sizeof(float), "cache");
        c->partial_floats = roomy;
    }
    t->turned = c->partials;
    t->partials = c->partials + queries;
    for (int64_t kv_head = 0; kv_head < config->kv_heads; kv_head++)
        for (int64_t r = 0; r < t->rows; r++) {
            int head = head_of(t, kv_head, r);
            int64_t query = r / t->share, position = c->length - t->n + query;
            float room, factor = 1;
            const float *given = sia_row_factors(c->a, t->tables, t->logn, head, position, 1, &room);
            if (given) factor = *given;
            c->a->kernel->turn(t->tables, d, position, factor, t->q + (query * config->heads + head) * d,
                               t->turned + (kv_head * t->rows + r) * d);
        }
    sia_parallel(config->threads, config->kv_heads * t->stretches * t->turns, decode_task, t);
    for (int64_t kv_head = 0; kv_head < config->kv_heads; kv_head++)
        for (int64_t r = 0; r < t->rows; r++) merge_row(t, kv_head, r);
    return SIA_OK;
}

static void carve_worker(const attend *t, sia_carve *w, float **factors, float **q, float **softmax,
                         float **k, float **v) {
    const sia_attention *a = t->c->a;
    *v = sia_carve_floats(w, SIA_CACHE_BLOCK * t->width);
    *k = sia_carve_floats(w, (int64_t)SIA_CACHE_BLOCK * a->config.head_dim);
    *factors = sia_carve_floats(w, SIA_BLOCK_Q);
    *q = sia_carve_floats(w, sia_query_panel(a->kernel, SIA_BLOCK_Q) * t->width);
    *softmax = sia_carve_floats(w, (int64_t)a->kernel->softmax_floats(a->config.head_dim));
    sia_carve_gap(w);
}

static void prefill_task(void *context, int64_t task, int worker) {
    const attend *t = context;
    const sia_cache *c = t->c;
    const sia_attention_config *config = &c->a->config;
    const sia_kernel *kernel = c->a->kernel;
    int64_t first = (t->q_blocks - 1 - task / config->heads) * t->q_rows;
    int64_t rows = t->n - first < t->q_rows ? t->n - first : t->q_rows, panel = sia_query_panel(kernel, rows),
            position = c->length - t->n + first;
    int head = (int)(task % config->heads), d = config->head_dim;
    float *factors, *q, *scratch, *k, *v;
    sia_carve mine = sia_carve_part(t->scratch, t->part, worker);
    carve_worker(t, &mine, &factors, &q, &scratch, &k, &v);
    sia_rows x = {.x = t->q + (first * config->heads + head) * d,
                  .stride = (int64_t)config->heads * d,
                  .rows = rows,
                  .head_dim = d,
                  .turn = t->tables,
                  .position = position,
                  .factor = sia_row_factors(c->a, t->tables, t->logn, head, position, rows, factors)};
    kernel->pack_columns(&x, q, panel, panel);
    sia_softmax softmax = {.head_dim = d,
                           .rows = rows,
                           .scale = sia_tables_scale(t->tables, head),
                           .bias = sia_tables_bias(t->tables, head),
                           .q = q,
                           .q_rows = panel,
                           .scratch = scratch};
    kernel->softmax_begin(&softmax);
    for (int64_t key = 0; key < position + rows; key += SIA_CACHE_BLOCK) {
        const void *part = part_of(c, key, head / t->share);
        int64_t left = position + rows - key;
        sia_keys keys = {.k = (const float *)part,
                         .v = (const float *)part + (int64_t)SIA_CACHE_BLOCK * d,
                         .v_rows = SIA_CACHE_BLOCK,
                         .count = left < SIA_CACHE_BLOCK ? left : SIA_CACHE_BLOCK,
                         .offset = position - key};
        if (c->type != SIA_F32) {
            kernel->cache_read(c->type, d, part, k, v);
            keys.k = k;
            keys.v = v;
        }
        kernel->softmax_keys(&softmax, &keys);
    }
    int64_t at = first * config->heads + head;
    kernel->softmax_end(&softmax, t->out + at * d, (int64_t)config->heads * d, t->lse ? t->lse + at : NULL,
                        NULL, NULL, config->heads);
}

static sia_status attend_many(attend *t, sia_error *err) {
    const sia_attention_config *config = &t->c->a->config;
    sia_carve worker = {NULL, 0};
    float *unused;
    carve_worker(t, &worker, &unused, &unused, &unused, &unused, &unused);
    t->part = worker.used;
    size_t bytes = t->part * (size_t)config->threads;
    t->scratch = sia_pages_map(bytes);
    if (!t->scratch) return sia_fail_memory(err, bytes, "workspace");
    t->q_rows = sia_task_rows(t->c->a, t->n, config->heads);
    t->q_blocks = (t->n + t->q_rows - 1) / t->q_rows;
    sia_parallel(config->threads, t->q_blocks * config->heads, prefill_task, t);
    sia_pages_unmap(t->scratch, bytes);
    return SIA_OK;
}

sia_status sia_cache_attend(sia_cache *c, int64_t n, const float *q, const float *logn, float *out,
                            float *lse, sia_error *err) {
    if (!c) return sia_fail(err, SIA_ARGUMENT, "cache: NULL");
    if (c->length == 0)
        return sia_fail(err, SIA_ARGUMENT, "n %lld: the cache is empty: want positions appended first",
                        (long long)n);
    if (n < 1 || n > c->length)
        return sia_fail(err, SIA_ARGUMENT, "n %lld: want 1 to %lld, the length of the cache", (long long)n,
                        (long long)c->length);
    const sia_attention_config *config = &c->a->config;
    attend t = {.c = c, .n = n, .q = q, .logn = logn, .out = out, .lse = lse};
    t.share = config->heads / config->kv_heads;
    t.width = sia_padded(c->a->kernel, config->head_dim);
    sia_status status = sia_array_check("q", q, err);
    if (!status) status = sia_array_check("out", out, err);
    if (!status) status = sia_logn_check(c->a, "logn", logn, err);
    if (!status) status = sia_attention_tables_for(c->a, c->length, &t.tables, err);
    if (status) return status;
    return n <= FEW_QUERIES ? attend_few(&t, err) : attend_many(&t, err);
}
