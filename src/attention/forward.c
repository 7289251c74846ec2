/* SPDX-License-Identifier: MIT
 *
 * The forward pass. For each group (one kv head of one sequence), first its keys and values are packed, then
 * each block of queries of its heads goes over all the keys that it sees:
 *
 *     pack tasks      a chunk of keys       k turned, to key panels;  v to column panels
 *     softmax tasks   a block of queries    q turned and scaled, to column panels;  online softmax
 *
 * A softmax task waits until the group's pack tasks, which started before it, are done. Groups that begin one
 * after the other on the same core share a room for packed keys, which stays in its cache. Blocks of queries go
 * from the last, which sees the most keys, to the first, so that threads end together. */
#include "attention/attention.h"

enum { PACK_CHUNK = SIA_BLOCK_K }; /* keys in a pack task */

typedef struct forward {
    const sia_attention *a;
    const sia_kernel *kernel;
    const sia_tables *tables;
    sia_span span;
    sia_forward io;
    int64_t q_rows, q_blocks; /* queries in a task; tasks for a head */
    int64_t k_chunks, k_padded, width;
    int64_t groups, ready_floats;
    sia_task_group *state;
    char *rooms;       /* see room */
    char *scratch;     /* a part for each worker */
    size_t room, part; /* their bytes */
} forward;

/* What the tasks of a group share. Values stand before keys: their panels lie farthest apart, and what a core asks for
 * behind the last of them (sia_carve_gap) is then of this room. */
typedef struct room {
    float *v, *k;     /* k_len * width, k_padded * head_dim */
    float *ready;     /* [k_chunks] blocks of keys as the kernel wants them, if it does */
    float *k_squares; /* [k_chunks] largest sum of squares of a key */
} room;

static room carve_room(const forward *f, sia_carve *c) {
    room r;
    r.v = sia_carve_floats(c, f->span.k_len * f->width);
    r.k = sia_carve_floats(c, f->k_padded * f->a->config.head_dim);
    r.ready = sia_carve_floats(c, f->k_chunks * f->ready_floats);
    r.k_squares = sia_carve_floats(c, f->k_chunks);
    sia_carve_gap(c);
    return r;
}

static room room_of(const forward *f, const sia_task_group *group) {
    int64_t number = atomic_load_explicit(&group->room, memory_order_relaxed);
    sia_carve mine = sia_carve_part(f->rooms, f->room, number);
    return carve_room(f, &mine);
}

static void carve_worker(const forward *f, sia_carve *c, float **factors, float **q, float **softmax) {
    *factors = sia_carve_floats(c, SIA_BLOCK_Q);
    *q = sia_carve_floats(c, sia_query_panel(f->kernel, SIA_BLOCK_Q) * f->width);
    *softmax = sia_carve_floats(c, (int64_t)f->kernel->softmax_floats(f->a->config.head_dim));
    sia_carve_gap(c);
}

/* The one description of the workspace: counts with base NULL, places otherwise. */
static size_t carve(forward *f, void *base) {
    const sia_attention_config *c = &f->a->config;
    f->groups = f->span.batch * c->kv_heads;
    f->kernel = f->a->kernel;
    f->width = sia_padded(f->kernel, c->head_dim);
    f->q_rows = sia_task_rows(f->a, f->span.q_len, f->span.batch * c->heads);
    f->q_blocks = (f->span.q_len + f->q_rows - 1) / f->q_rows;
    f->k_chunks = (f->span.k_len + PACK_CHUNK - 1) / PACK_CHUNK;
    f->k_padded = sia_padded(f->kernel, f->span.k_len);
    f->ready_floats = (int64_t)f->kernel->block_floats(c->head_dim);
    sia_carve all = {base, 0}, shared = {NULL, 0}, worker = {NULL, 0};
    float *unused;
    (void)carve_room(f, &shared);
    carve_worker(f, &worker, &unused, &unused, &unused);
    f->room = shared.used;
    f->part = worker.used;
    f->state = sia_carve_bytes(&all, (size_t)f->groups * sizeof *f->state);
    f->rooms = sia_carve_bytes(&all, f->room * (size_t)sia_group_rooms(c->threads, f->groups));
    f->scratch = sia_carve_bytes(&all, f->part * (size_t)c->threads);
    return all.used;
}

static void pack(const forward *f, int64_t group, const room *shared, int64_t chunk) {
    const sia_attention_config *c = &f->a->config;
    const sia_span *s = &f->span;
    int64_t batch = group / c->kv_heads, head = group % c->kv_heads;
    int64_t first = chunk * PACK_CHUNK, rows = s->k_len - first < PACK_CHUNK ? s->k_len - first : PACK_CHUNK;
    int64_t position = batch * s->k_len + first;
    sia_rows k = {.x = f->io.k + position * f->io.k_stride + head * c->head_dim,
                  .stride = f->io.k_stride,
                  .rows = rows,
                  .head_dim = c->head_dim,
                  .turn = f->tables,
                  .position = s->k_pos + first};
    float *k_panels = shared->k + first * c->head_dim, *v_panels = shared->v + first * f->kernel->panel;
    shared->k_squares[chunk] = f->kernel->pack_keys(&k, k_panels);
    sia_rows v = {.x = f->io.v + position * f->io.v_stride + head * c->head_dim,
                  .stride = f->io.v_stride,
                  .rows = rows,
                  .head_dim = c->head_dim};
    f->kernel->pack_columns(&v, v_panels, s->k_len, rows);
    if (f->ready_floats == 0) return;
    sia_keys block = {.k = k_panels, .v = v_panels, .v_rows = s->k_len, .count = rows};
    f->kernel->ready_block(c->head_dim, &block, shared->ready + chunk * f->ready_floats);
}

/* sia_softmax.near for queries that see the first `seen` keys, and no distance beyond `farthest`: a logit is at
 * most |q| |k| scale + bias. Within one of the limit, for what is computed is rounded; and with sums of squares far
 * from where floats end. */
static float near_squares(const forward *f, const room *shared, int64_t seen, int64_t farthest,
                          const float *scale, const float *bias) {
    float k_squares = 1e-30f;
    for (int64_t i = 0; i * PACK_CHUNK < seen; i++) {
        float squares = shared->k_squares[i];
        if (!(squares <= 1e30f)) return 0;
        if (squares > k_squares) k_squares = squares;
    }
    float left = SIA_NEAR - 1 - f->kernel->largest_magnitude(bias - farthest, farthest + 1);
    float product = left / f->kernel->largest_magnitude(scale - farthest, farthest + 1);
    if (!(left > 0 && product >= 1e-15f)) return 0;
    if (product > 1e15f) product = 1e15f;
    float q_squares = product * product / k_squares;
    return q_squares > 1e-30f ? q_squares : 0;
}

static void attend(const forward *f, int64_t group, const room *shared, int head, int64_t block, int worker) {
    const sia_attention_config *c = &f->a->config;
    const sia_span *s = &f->span;
    int64_t first = block * f->q_rows, row = group / c->kv_heads * s->q_len + first;
    int64_t rows = s->q_len - first < f->q_rows ? s->q_len - first : f->q_rows;
    int64_t panel = sia_query_panel(f->kernel, rows);

    float *factors, *q, *scratch;
    sia_carve mine = sia_carve_part(f->scratch, f->part, worker);
    carve_worker(f, &mine, &factors, &q, &scratch);
    sia_rows x = {.x = f->io.q + row * f->io.q_stride + (int64_t)head * c->head_dim,
                  .stride = f->io.q_stride,
                  .rows = rows,
                  .head_dim = c->head_dim,
                  .turn = f->tables,
                  .position = s->q_pos + first,
                  .factor =
                      sia_row_factors(f->a, f->tables, f->io.logn, head, s->q_pos + first, rows, factors)};
    f->kernel->pack_columns(&x, q, panel, panel);

    sia_softmax softmax = {.head_dim = c->head_dim,
                           .rows = rows,
                           .scale = sia_tables_scale(f->tables, head),
                           .bias = sia_tables_bias(f->tables, head),
                           .q = q,
                           .q_rows = panel,
                           .scratch = scratch,
                           .statistics = f->io.entropy || f->io.mass};
    int64_t offset = s->q_pos + first - s->k_pos, seen = offset + rows;
    sia_keys keys = {.k = shared->k,
                     .v = shared->v,
                     .ready = f->ready_floats ? shared->ready : NULL,
                     .v_rows = s->k_len,
                     .count = seen < 0          ? 0
                              : seen < s->k_len ? seen
                                                : s->k_len,
                     .offset = offset};
    if (keys.count > 0)
        softmax.near = near_squares(f, shared, keys.count, offset + rows - 1, softmax.scale, softmax.bias);
    f->kernel->softmax_begin(&softmax);
    f->kernel->softmax_keys(&softmax, &keys);
    int64_t at = row * c->heads + head;
    f->kernel->softmax_end(&softmax, f->io.out + row * f->io.out_stride + (int64_t)head * c->head_dim,
                           f->io.out_stride, f->io.lse ? f->io.lse + at : NULL,
                           f->io.entropy ? f->io.entropy + at : NULL,
                           f->io.mass ? f->io.mass + at * SIA_DECADES : NULL, c->heads);
}

static void task(void *context, sia_task_group *state, int64_t group, int64_t number, int worker) {
    const forward *f = context;
    const sia_attention_config *c = &f->a->config;
    int64_t part = number - f->k_chunks;
    room shared = room_of(f, state);
    if (part < 0) {
        pack(f, group, &shared, number);
        atomic_fetch_add_explicit(&state->ready, 1, memory_order_release);
        return;
    }
    int64_t share = c->heads / c->kv_heads;
    int head = (int)(group % c->kv_heads * share + part % share);
    sia_threads_wait(&state->ready, f->k_chunks);
    attend(f, group, &shared, head, f->q_blocks - 1 - part / share, worker);
}

sia_status sia_forward_check(const sia_attention *a, sia_forward *io, sia_error *err) {
    const sia_attention_config *c = &a->config;
    int64_t q_row = (int64_t)c->heads * c->head_dim, k_row = (int64_t)c->kv_heads * c->head_dim;
    sia_status status = sia_array_check("q", io->q, err);
    if (!status) status = sia_array_check("k", io->k, err);
    if (!status) status = sia_array_check("v", io->v, err);
    if (!status) status = sia_array_check("out", io->out, err);
    if (!status) status = sia_logn_check(a, "logn", io->logn, err);
    if (!status) status = sia_stride_check("q_stride", &io->q_stride, q_row, err);
    if (!status) status = sia_stride_check("k_stride", &io->k_stride, k_row, err);
    if (!status) status = sia_stride_check("v_stride", &io->v_stride, k_row, err);
    if (!status) status = sia_stride_check("out_stride", &io->out_stride, q_row, err);
    return status;
}

size_t sia_forward_workspace(const sia_attention *a, sia_span span) {
    return carve(&(forward){.a = a, .span = span}, NULL);
}

sia_status sia_attention_forward(const sia_attention *a, sia_span span, const sia_forward *io, void *work,
                                 sia_error *err) {
    sia_status status = sia_span_check(a, &span, err);
    if (!status) status = sia_io_check(io, err);
    if (status) return status;
    forward f = {.a = a, .span = span, .io = *io};
    int64_t q_end = span.q_pos + span.q_len, k_end = span.k_pos + span.k_len;
    status = sia_forward_check(a, &f.io, err);
    if (!status) status = sia_work_check(work, err);
    if (!status) status = sia_attention_tables_for(a, q_end > k_end ? q_end : k_end, &f.tables, err);
    if (status) return status;

    size_t bytes = carve(&f, NULL);
    void *own = NULL;
    if (!work) {
        work = own = sia_pages_map(bytes);
        if (!own) return sia_fail_memory(err, bytes, "workspace");
    }
    carve(&f, work);
    int64_t softmax_tasks = a->config.heads / a->config.kv_heads * f.q_blocks;
    sia_parallel_groups(a->config.threads, f.groups, f.k_chunks + softmax_tasks, f.state, task, &f);
    sia_pages_unmap(own, bytes);
    return SIA_OK;
}
