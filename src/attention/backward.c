/* SPDX-License-Identifier: MIT
 *
 * The backward pass. The tasks of a group (one kv head of one sequence), in three phases:
 *
 *     phase 1   a block of queries   q, dO to column panels;  delta = dO . out;  lse in base 2
 *               a block of keys      k and v to key panels, k to column panels
 *     phase 2   a block of keys      dk, dv of the block, complete;  its part of every dq
 *     phase 3   a block of queries   dq turned back and scaled;  its part of ds
 *
 * A task of phase 2 waits until phase 1 is done, one of phase 3 until all keys have added to its queries.
 *
 * The sum over blocks of keys in dq has a fixed order without a buffer for each: a task adds its part to a
 * block of queries when the counter `turn` says that the blocks of keys before it have done so. Tasks start
 * in ascending order and wait only for earlier ones, so this cannot lock up. */
#include "attention/attention.h"

#include <math.h>
#include <string.h>

typedef struct backward {
    const sia_attention *a;
    const sia_kernel *kernel;
    const sia_tables *tables;
    sia_span span;
    sia_backward io;
    int64_t groups, share;     /* share: heads of a group */
    int64_t k_rows;            /* keys in a task */
    int64_t q_blocks, queries; /* blocks of queries of a head, of a group */
    int64_t k_blocks, width, q_panel, k_panel;
    sia_task_group *state;
    double *d_logn;    /* [groups, queries] */
    char *rooms;       /* see room */
    char *scratch;     /* a part for each worker */
    size_t room, part; /* their bytes */
} backward;

/* What the tasks of a group share. Panels stand before what is no panel, as in the forward pass. */
typedef struct room {
    float *q, *d_out;      /* [queries] column panels of a block */
    float *k, *k_t, *v_t;  /* [k_blocks] */
    float *d_q;            /* [queries][SIA_BLOCK_BQ][width] */
    float *lse, *delta;    /* [queries][SIA_BLOCK_BQ] */
    _Atomic int64_t *turn; /* [queries] the block of keys whose turn it is */
} room;

static room carve_room(const backward *b, sia_carve *c) {
    room r;
    r.q = sia_carve_floats(c, b->queries * b->q_panel);
    r.d_out = sia_carve_floats(c, b->queries * b->q_panel);
    r.k = sia_carve_floats(c, b->k_blocks * b->k_panel);
    r.k_t = sia_carve_floats(c, b->k_blocks * b->k_panel);
    r.v_t = sia_carve_floats(c, b->k_blocks * b->k_panel);
    r.d_q = sia_carve_floats(c, b->queries * b->q_panel);
    r.lse = sia_carve_floats(c, b->queries * SIA_BLOCK_BQ);
    r.delta = sia_carve_floats(c, b->queries * SIA_BLOCK_BQ);
    r.turn = sia_carve_bytes(c, (size_t)b->queries * sizeof *r.turn);
    sia_carve_gap(c);
    return r;
}

static room room_of(const backward *b, const sia_task_group *group) {
    int64_t number = atomic_load_explicit(&group->room, memory_order_relaxed);
    sia_carve mine = sia_carve_part(b->rooms, b->room, number);
    return carve_room(b, &mine);
}

static void carve_worker(const backward *b, sia_carve *c, float **d_k, float **d_v, float **weights) {
    *d_k = sia_carve_floats(c, b->k_rows * b->width);
    *d_v = sia_carve_floats(c, b->k_rows * b->width);
    *weights = sia_carve_floats(c, (int64_t)b->kernel->gradient_floats(b->a->config.head_dim));
    sia_carve_gap(c);
}

/* Every task reads all the queries that see its keys: the more keys, the fewer passes. Short sequences are
 * cut finer, so that there is work for several threads: a kv head of 1024 keys has six tasks. Gradients depend on it in
 * their last bits, so the number of threads has no say. */
static int64_t keys_of_task(int64_t k_len) { return k_len < 1024 ? SIA_BLOCK_BK / 2 : SIA_BLOCK_BK; }

static size_t carve(backward *b, void *base) {
    const sia_attention_config *c = &b->a->config;
    b->k_rows = keys_of_task(b->span.k_len);
    b->kernel = b->a->kernel;
    b->width = sia_padded(b->kernel, c->head_dim);
    b->q_blocks = (b->span.q_len + SIA_BLOCK_BQ - 1) / SIA_BLOCK_BQ;
    b->k_blocks = (b->span.k_len + b->k_rows - 1) / b->k_rows;
    b->q_panel = SIA_BLOCK_BQ * b->width;
    b->k_panel = b->k_rows * b->width;
    b->groups = b->span.batch * c->kv_heads;
    b->share = c->heads / c->kv_heads;
    b->queries = b->share * b->q_blocks;
    sia_carve all = {base, 0}, shared = {NULL, 0}, worker = {NULL, 0};
    float *unused;
    (void)carve_room(b, &shared);
    carve_worker(b, &worker, &unused, &unused, &unused);
    b->room = shared.used;
    b->part = worker.used;
    b->state = sia_carve_bytes(&all, (size_t)b->groups * sizeof *b->state);
    b->d_logn = sia_carve_bytes(&all, (size_t)(b->groups * b->queries) * sizeof *b->d_logn);
    b->rooms = sia_carve_bytes(&all, b->room * (size_t)sia_group_rooms(c->threads, b->groups));
    b->scratch = sia_carve_bytes(&all, b->part * (size_t)c->threads);
    return all.used;
}

/* Where a block of queries lies. */
typedef struct query_block {
    int64_t number, row, position, rows; /* among all, in the arrays, in the sequence; its length */
    int head;
} query_block;

static query_block query_block_of(const backward *b, int64_t group, int64_t block) {
    int64_t number = group * b->queries + block, heads = b->a->config.heads;
    int64_t first = number % b->q_blocks * SIA_BLOCK_BQ, head = number / b->q_blocks;
    int64_t rows = b->span.q_len - first < SIA_BLOCK_BQ ? b->span.q_len - first : SIA_BLOCK_BQ;
    return (query_block){.number = number,
                         .row = head / heads * b->span.q_len + first,
                         .position = b->span.q_pos + first,
                         .rows = rows,
                         .head = (int)(head % heads)};
}

/* ------------------------------------------------------------------------------------------------ phase 1 */

static void prepare_queries(const backward *b, int64_t group, const room *shared, int64_t block) {
    const sia_attention_config *c = &b->a->config;
    query_block at = query_block_of(b, group, block);
    int64_t column = (int64_t)at.head * c->head_dim;
    float factors[SIA_BLOCK_BQ];
    sia_rows q = {.x = b->io.q + at.row * b->io.q_stride + column,
                  .stride = b->io.q_stride,
                  .rows = at.rows,
                  .head_dim = c->head_dim,
                  .turn = b->tables,
                  .position = at.position,
                  .factor =
                      sia_row_factors(b->a, b->tables, b->io.logn, at.head, at.position, at.rows, factors)};
    b->kernel->pack_columns(&q, shared->q + block * b->q_panel, SIA_BLOCK_BQ, SIA_BLOCK_BQ);
    sia_rows d_out = {.x = b->io.d_out + at.row * b->io.out_stride + column,
                      .stride = b->io.out_stride,
                      .rows = at.rows,
                      .head_dim = c->head_dim};
    b->kernel->pack_columns(&d_out, shared->d_out + block * b->q_panel, SIA_BLOCK_BQ, SIA_BLOCK_BQ);

    float *lse = shared->lse + block * SIA_BLOCK_BQ, *delta = shared->delta + block * SIA_BLOCK_BQ;
    memset(delta, 0, sizeof(float) * SIA_BLOCK_BQ);
    b->kernel->row_dots(b->io.out + at.row * b->io.out_stride + column, b->io.out_stride, d_out.x,
                        d_out.stride, at.rows, c->head_dim, delta);
    for (int64_t i = 0; i < SIA_BLOCK_BQ; i++) {
        lse[i] = i < at.rows ? b->io.lse[(at.row + i) * c->heads + at.head] * (float)M_LOG2E : 0;
        if (lse[i] == -INFINITY) lse[i] = INFINITY; /* nothing was seen: 2^(-infinity - lse) is to be 0 */
    }
    atomic_init(&shared->turn[block], 0);
}

static void prepare_keys(const backward *b, int64_t group, const room *shared, int64_t block) {
    const sia_attention_config *c = &b->a->config;
    int64_t first = block * b->k_rows;
    int64_t row = group / c->kv_heads * b->span.k_len + first, column = group % c->kv_heads * c->head_dim;
    sia_rows k = {.x = b->io.k + row * b->io.k_stride + column,
                  .stride = b->io.k_stride,
                  .rows = b->span.k_len - first < b->k_rows ? b->span.k_len - first : b->k_rows,
                  .head_dim = c->head_dim,
                  .turn = b->tables,
                  .position = b->span.k_pos + first};
    b->kernel->pack_columns(&k, shared->k + block * b->k_panel, b->k_rows, b->k_rows);
    b->kernel->pack_keys(&k, shared->k_t + block * b->k_panel);
    sia_rows v = {.x = b->io.v + row * b->io.v_stride + column,
                  .stride = b->io.v_stride,
                  .rows = k.rows,
                  .head_dim = c->head_dim};
    b->kernel->pack_keys(&v, shared->v_t + block * b->k_panel);
}

/* ------------------------------------------------------------------------------------------------ phase 2 */

static void gradients(const backward *b, int64_t group, const room *shared, int64_t block, int worker) {
    const sia_attention_config *c = &b->a->config;
    const sia_span *s = &b->span;
    int64_t first = block * b->k_rows;
    int64_t batch = group / c->kv_heads, kv_head = group % c->kv_heads;
    int64_t rows = s->k_len - first < b->k_rows ? s->k_len - first : b->k_rows;

    float *d_k, *d_v, *weights;
    sia_carve mine = sia_carve_part(b->scratch, b->part, worker);
    carve_worker(b, &mine, &d_k, &d_v, &weights);
    memset(d_k, 0, (size_t)b->k_panel * sizeof(float));
    memset(d_v, 0, (size_t)b->k_panel * sizeof(float));

    sia_gradient g = {.head_dim = c->head_dim,
                      .k_rows = rows,
                      .k = shared->k + block * b->k_panel,
                      .k_panel = b->k_rows * b->kernel->panel,
                      .k_t = shared->k_t + block * b->k_panel,
                      .v_t = shared->v_t + block * b->k_panel,
                      .d_k = d_k,
                      .d_v = d_v,
                      .weights = weights};
    b->kernel->gradient_begin(&g);
    for (int64_t i = 0; i < b->queries; i++) {
        query_block at = query_block_of(b, group, i);
        g.q_rows = at.rows;
        g.offset = at.position - (s->k_pos + first);
        if (g.offset + at.rows <= 0) continue; /* these queries stand before all of the keys */
        g.scale = sia_tables_scale(b->tables, at.head);
        g.bias = sia_tables_bias(b->tables, at.head);
        g.q = shared->q + i * b->q_panel;
        g.d_out = shared->d_out + i * b->q_panel;
        g.lse = shared->lse + i * SIA_BLOCK_BQ;
        g.delta = shared->delta + i * SIA_BLOCK_BQ;
        g.d_q = shared->d_q + i * b->q_panel;
        b->kernel->gradient_weights(&g);
        sia_threads_wait(&shared->turn[i], block);
        b->kernel->gradient_q(&g, block == 0);
        atomic_store_explicit(&shared->turn[i], block + 1, memory_order_release);
        b->kernel->gradient_kv(&g);
    }
    b->kernel->gradient_end(&g);

    int64_t row = batch * s->k_len + first;
    sia_rows k = {.stride = b->io.k_stride,
                  .rows = rows,
                  .head_dim = c->head_dim,
                  .turn = b->tables,
                  .position = s->k_pos + first};
    b->kernel->unpack(&k, d_k, b->width, (float)M_LN2,
                      b->io.d_k + row * b->io.k_stride + kv_head * c->head_dim);
    sia_rows v = {.stride = b->io.v_stride, .rows = rows, .head_dim = c->head_dim};
    b->kernel->unpack(&v, d_v, b->width, 1, b->io.d_v + row * b->io.v_stride + kv_head * c->head_dim);
}

/* ------------------------------------------------------------------------------------------------ phase 3 */

/* With x = s[head] ln(N) * turned(q): ds = sum over rows of ln(N) * constant * (q . turned back dx). */
static double logn_gradient(const backward *b, const query_block *at, const float *d_q, const float *q) {
    float dots[SIA_BLOCK_BQ];
    b->kernel->row_dots(d_q, b->io.q_stride, q, b->io.q_stride, at->rows, b->a->config.head_dim, dots);
    double sum = 0;
    for (int64_t i = 0; i < at->rows; i++) sum += (double)dots[i] * b->tables->log_n[at->position + i];
    return sum * b->tables->row_constant;
}

/* Blocks of keys that add to a block of queries. */
static int64_t turns_of(const backward *b, const query_block *at) {
    int64_t seen = at->position + at->rows - b->span.k_pos;
    int64_t turns = seen <= 0 ? 0 : (seen + b->k_rows - 1) / b->k_rows;
    return turns < b->k_blocks ? turns : b->k_blocks;
}

static void finish_queries(const backward *b, int64_t group, const room *shared, int64_t block) {
    const sia_attention_config *c = &b->a->config;
    query_block at = query_block_of(b, group, block);
    int64_t start = at.row * b->io.q_stride + (int64_t)at.head * c->head_dim;
    float factors[SIA_BLOCK_BQ], *d_q = b->io.d_q + start, *sums = shared->d_q + block * b->q_panel;
    int64_t turns = turns_of(b, &at);
    sia_threads_wait(&shared->turn[block], turns);
    if (turns == 0) memset(sums, 0, (size_t)b->q_panel * sizeof(float)); /* nothing was added */
    sia_rows q = {.stride = b->io.q_stride,
                  .rows = at.rows,
                  .head_dim = c->head_dim,
                  .turn = b->tables,
                  .position = at.position};
    b->kernel->unpack(&q, sums, b->width, (float)M_LN2, d_q);
    if (b->io.d_logn) b->d_logn[at.number] = logn_gradient(b, &at, d_q, b->io.q + start);
    const float *factor =
        sia_row_factors(b->a, b->tables, b->io.logn, at.head, at.position, at.rows, factors);
    for (int64_t i = 0; factor && i < at.rows; i++)
        for (int j = 0; j < c->head_dim; j++) d_q[i * b->io.q_stride + j] *= factor[i];
}

static void sum_logn(const backward *b) {
    int heads = b->a->config.heads;
    for (int head = 0; head < heads; head++) {
        double sum = 0;
        for (int64_t batch = 0; batch < b->span.batch; batch++)
            for (int64_t i = 0; i < b->q_blocks; i++)
                sum += b->d_logn[(batch * heads + head) * b->q_blocks + i];
        b->io.d_logn[head] = (float)sum;
    }
}

static void task(void *context, sia_task_group *state, int64_t group, int64_t number, int worker) {
    const backward *b = context;
    int64_t preparations = b->queries + b->k_blocks;
    room shared = room_of(b, state);
    if (number < preparations) {
        if (number < b->queries)
            prepare_queries(b, group, &shared, number);
        else
            prepare_keys(b, group, &shared, number - b->queries);
        atomic_fetch_add_explicit(&state->ready, 1, memory_order_release);
        return;
    }
    sia_threads_wait(&state->ready, preparations);
    number -= preparations;
    if (number < b->k_blocks)
        gradients(b, group, &shared, number, worker);
    else
        finish_queries(b, group, &shared, number - b->k_blocks);
}

/* ---------------------------------------------------------------------------------------------- the call */

sia_status sia_backward_check(const sia_attention *a, sia_backward *io, sia_error *err) {
    const sia_attention_config *c = &a->config;
    const struct {
        const char *name;
        const void *array;
    } arrays[] = {{"q", io->q},     {"k", io->k},     {"v", io->v},
                  {"out", io->out}, {"lse", io->lse}, {"d_out", io->d_out},
                  {"d_q", io->d_q}, {"d_k", io->d_k}, {"d_v", io->d_v}};
    sia_status status = SIA_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && !status; i++)
        status = sia_array_check(arrays[i].name, arrays[i].array, err);
    if (!status) status = sia_logn_check(a, "logn", io->logn, err);
    if (!status) status = sia_logn_check(a, "d_logn", io->d_logn, err);
    int64_t q_row = (int64_t)c->heads * c->head_dim, k_row = (int64_t)c->kv_heads * c->head_dim;
    if (!status) status = sia_stride_check("q_stride", &io->q_stride, q_row, err);
    if (!status) status = sia_stride_check("k_stride", &io->k_stride, k_row, err);
    if (!status) status = sia_stride_check("v_stride", &io->v_stride, k_row, err);
    if (!status) status = sia_stride_check("out_stride", &io->out_stride, q_row, err);
    return status;
}

size_t sia_backward_workspace(const sia_attention *a, sia_span span) {
    return carve(&(backward){.a = a, .span = span}, NULL);
}

sia_status sia_attention_backward(const sia_attention *a, sia_span span, const sia_backward *io, void *work,
                                  sia_error *err) {
    sia_status status = sia_span_check(a, &span, err);
    if (!status) status = sia_io_check(io, err);
    if (status) return status;
    backward b = {.a = a, .span = span, .io = *io};
    int64_t q_end = span.q_pos + span.q_len, k_end = span.k_pos + span.k_len;
    status = sia_backward_check(a, &b.io, err);
    if (!status) status = sia_work_check(work, err);
    if (!status) status = sia_attention_tables_for(a, q_end > k_end ? q_end : k_end, &b.tables, err);
    if (status) return status;

    size_t bytes = carve(&b, NULL);
    void *own = NULL;
    if (!work) {
        work = own = sia_pages_map(bytes);
        if (!own) return sia_fail_memory(err, bytes, "workspace");
    }
    carve(&b, work);
    sia_parallel_groups(a->config.threads, b.groups, 2 * (b.queries + b.k_blocks), b.state, task, &b);
    if (b.io.d_logn) sum_logn(&b);
    sia_pages_unmap(own, bytes);
    return SIA_OK;
}
