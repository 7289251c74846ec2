/* SPDX-License-Identifier: MIT
 *
 * Attention round a ring; see ring.h.
 *
 * Chunks are cut into slices, so that what is under way is small however long the sequences are. A turn is one slice of
 * both chunks of some sequences, once round the ring: its keys and values are a block, [count, n, kv_heads, head_dim]
 * each, n the positions of the two slices, and in step s of the turn this rank attends to the block of rank r - s. A
 * pair is a slice of queries and a slice of keys of one sequence: one call of the attention of one process, at the
 * positions of the two. */
#include "attention/ring.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "base/sha256.h"

/* Keys of a slice: enough that merging partial results is nothing beside them, and a message is a few megabytes. */
enum { SLICE = 2048 };

/* Two arrays of some positions of one rank, such as k and v. */
typedef struct block {
    float *a, *b;
} block;

/* A block on its way: both arrays, out and in. */
typedef struct passage {
    sia_transfer out[2], in[2];
} passage;

struct sia_ring {
    const sia_attention *attention;
    sia_comm *c;
    int64_t batch, length, n; /* n: positions of this rank */
    int64_t slices, rows;     /* of a chunk; positions of a slice, at most */
    int64_t sequences;        /* of a turn, at most */
    int64_t q_row, k_row;     /* floats of a position */
    sia_ring_part mine;
    block room[2];        /* keys and values: attended to, and coming in */
    block sums[2], share; /* gradients of a block: travelling, and this rank's */
    float *out, *lse;     /* of a pair */
    float *dq, *dk_dv, *dlogn;
    double *dlogn_sums;
    float *all_lse;  /* for a caller who wants none */
    uint64_t *marks; /* [ranks] of what each was asked for */
    void *work;
    void *memory;
    size_t bytes;
    bool backward;
    bool compared; /* all ranks were asked for the same */
    bool broken;   /* a pass failed: messages may be under way, in and out of this memory */
};

/* ------------------------------------------------------------------------------------------------ parts */

static int64_t chunk_begin(int64_t length, int64_t chunks, int64_t chunk) {
    return length / chunks * chunk + length % chunks * chunk / chunks;
}

sia_ring_part sia_ring_part_of(int64_t length, int ranks, int rank) {
    sia_ring_part part = {0};
    if (length < 0 || length > SIA_MAX_POSITION || rank < 0 || rank >= ranks) return part;
    const int64_t all = 2 * (int64_t)ranks, chunks[2] = {rank, all - 1 - rank};
    for (int i = 0; i < 2; i++) {
        part.first[i] = chunk_begin(length, all, chunks[i]);
        part.count[i] = chunk_begin(length, all, chunks[i] + 1) - part.first[i];
    }
    return part;
}

static int wrapped(const sia_ring *r, int rank) {
    int size = sia_comm_size(r->c);
    return (rank % size + size) % size;
}

/* One slice of both chunks of a rank; any of the two may be empty. */
static sia_ring_part slice_of(const sia_ring *r, int rank, int64_t slice) {
    sia_ring_part part = sia_ring_part_of(r->length, sia_comm_size(r->c), wrapped(r, rank));
    for (int i = 0; i < 2; i++) {
        int64_t begin = chunk_begin(part.count[i], r->slices, slice);
        part.first[i] += begin;
        part.count[i] = chunk_begin(part.count[i], r->slices, slice + 1) - begin;
    }
    return part;
}

int64_t sia_ring_positions(const sia_ring *r) { return r->n; }
size_t sia_ring_bytes(const sia_ring *r) { return r->bytes; }

void sia_ring_pick(const sia_ring *r, const uint32_t *from, uint32_t *to) {
    for (int i = 0; i < 2; i++) {
        memcpy(to, from + r->mine.first[i], (size_t)r->mine.count[i] * sizeof *to);
        to += r->mine.count[i];
    }
}

/* ------------------------------------------------------------------------------------------------ creation */

static block carve_block(const sia_ring *r, sia_carve *c) {
    int64_t floats = r->sequences * 2 * r->rows * r->k_row;
    float *a = sia_carve_floats(c, floats);
    return (block){a, sia_carve_floats(c, floats)};
}

/* With base NULL it only counts. */
static void carve(sia_ring *r, sia_carve *c) {
    sia_span span = {.batch = 1, .q_len = r->rows, .k_len = r->rows};
    size_t work = sia_attention_workspace(r->attention, span, SIA_PASS_FORWARD);
    for (int i = 0; i < 2; i++) r->room[i] = carve_block(r, c);
    r->out = sia_carve_floats(c, r->rows * r->q_row);
    r->lse = sia_carve_floats(c, r->rows * r->attention->config.heads);
    r->all_lse = sia_carve_floats(c, r->batch * r->n * r->attention->config.heads);
    r->marks = sia_carve_bytes(c, (size_t)sia_comm_size(r->c) * sizeof *r->marks);
    if (r->backward) {
        size_t back = sia_attention_workspace(r->attention, span, SIA_PASS_BACKWARD);
        if (back > work) work = back;
        for (int i = 0; i < 2; i++) r->sums[i] = carve_block(r, c);
        r->share = carve_block(r, c);
        r->dq = sia_carve_floats(c, r->rows * r->q_row);
        r->dk_dv = sia_carve_floats(c, 2 * r->rows * r->k_row);
        r->dlogn = sia_carve_floats(c, r->attention->config.heads);
        r->dlogn_sums = sia_carve_bytes(c, (size_t)r->attention->config.heads * sizeof(double));
    }
    r->work = sia_carve_bytes(c, work);
}

/* The same on all ranks: it depends on the longest chunk of any. Short sequences share a turn. */
static void cut(sia_ring *r, int64_t slice) {
    int64_t chunks = 2 * (int64_t)sia_comm_size(r->c), longest = (r->length + chunks - 1) / chunks;
    r->slices = (longest + slice - 1) / slice;
    r->rows = (longest + r->slices - 1) / r->slices;
    r->sequences = slice / r->rows < r->batch ? slice / r->rows : r->batch;
}

static sia_status check_plan(const sia_attention *a, const sia_comm *c, const sia_ring_plan *plan,
                             sia_error *err) {
    int64_t batch = plan->batch, length = plan->length, least = 2 * (int64_t)sia_comm_size(c);
    if (length < least || length > SIA_MAX_POSITION)
        return sia_fail(err, SIA_ARGUMENT, "length %lld on %d ranks: want %lld to %lld", (long long)length,
                        sia_comm_size(c), (long long)least, (long long)SIA_MAX_POSITION);
    if (batch < 1 || batch > SIA_MAX_POSITION / length)
        return sia_fail(err, SIA_ARGUMENT, "batch %lld of length %lld: want 1 to %lld", (long long)batch,
                        (long long)length, (long long)(SIA_MAX_POSITION / length));
    /* Slices of both chunks are one transfer. */
    int64_t row = (int64_t)a->config.kv_heads * a->config.head_dim * (int64_t)sizeof(float);
    int64_t most = (int64_t)(SIA_MESSAGE_MOST * SIA_TRANSFER_PARTS) / (2 * row);
    if (plan->slice < 0 || plan->slice > most)
        return sia_fail(err, SIA_ARGUMENT, "slice %lld: want 1 to %lld, or 0 for %d", (long long)plan->slice,
                        (long long)most, SLICE);
    return SIA_OK;
}

sia_status sia_ring_create(sia_ring **out, const sia_attention *a, sia_comm *c, const sia_ring_plan *plan,
                           sia_error *err) {
    if (out) *out = NULL;
    if (!out || !a || !plan)
        return sia_fail(err, SIA_ARGUMENT,
                        "ring: want an attention, a plan and a place for the result, got NULL");
    sia_status status = check_plan(a, c, plan, err);
    if (status) return status;
    sia_ring *r = sia_alloc(1, sizeof *r);
    if (!r) return sia_fail_memory(err, sizeof *r, "ring");
    const sia_attention_config *config = &a->config;
    *r = (sia_ring){.attention = a,
                    .c = c,
                    .batch = plan->batch,
                    .length = plan->length,
                    .backward = plan->backward != 0};
    r->q_row = (int64_t)config->heads * config->head_dim;
    r->k_row = (int64_t)config->kv_heads * config->head_dim;
    r->mine = sia_ring_part_of(plan->length, sia_comm_size(c), sia_comm_rank(c));
    r->n = r->mine.count[0] + r->mine.count[1];
    cut(r, plan->slice ? plan->slice : SLICE);
    sia_carve count = {NULL, 0};
    carve(r, &count);
    r->bytes = count.used;
    r->memory = sia_pages_map(r->bytes);
    if (!r->memory) status = sia_fail_memory(err, r->bytes, "ring");
    if (!status) status = sia_attention_reserve(a, plan->length, err);
    if (status) {
        sia_ring_destroy(r);
        return status;
    }
    carve(r, &(sia_carve){.base = r->memory});
    *out = r;
    return SIA_OK;
}

void sia_ring_destroy(sia_ring *r) {
    if (!r) return;
    if (!r->broken) sia_pages_unmap(r->memory, r->bytes);
    sia_free(r);
}

/* ------------------------------------------------------------------------------------------------ passing on */

typedef struct turn {
    int64_t first, count; /* sequences */
    int64_t slice;
} turn;

static size_t block_bytes(const sia_ring *r, const turn *t, int origin) {
    sia_ring_part part = slice_of(r, origin, t->slice);
    return (size_t)(t->count * (part.count[0] + part.count[1]) * r->k_row) * sizeof(float);
}

/* Between an array of this rank's positions and a block of its own. */
static void move_own(const sia_ring *r, const turn *t, float *own, float *in_block, bool out) {
    sia_ring_part part = slice_of(r, sia_comm_rank(r->c), t->slice);
    for (int64_t s = t->first; s < t->first + t->count; s++)
        for (int i = 0; i < 2; i++) {
            int64_t at = s * r->n + (i ? r->mine.count[0] : 0) + part.first[i] - r->mine.first[i];
            size_t bytes = (size_t)(part.count[i] * r->k_row) * sizeof(float);
            float *here = own + at * r->k_row;
            memcpy(out ? in_block : here, out ? here : in_block, bytes);
            in_block += part.count[i] * r->k_row;
        }
}

static sia_status start_out(sia_ring *r, passage *p, block from, size_t bytes, int tag, sia_error *err) {
    int next = wrapped(r, sia_comm_rank(r->c) + 1);
    sia_status status = sia_comm_send(r->c, next, from.a, bytes, tag, &p->out[0], err);
    return status ? status : sia_comm_send(r->c, next, from.b, bytes, tag, &p->out[1], err);
}

static sia_status start_in(sia_ring *r, passage *p, block to, size_t bytes, int tag, sia_error *err) {
    int before = wrapped(r, sia_comm_rank(r->c) - 1);
    sia_status status = sia_comm_receive(r->c, before, to.a, bytes, tag, &p->in[0], err);
    return status ? status : sia_comm_receive(r->c, before, to.b, bytes, tag, &p->in[1], err);
}

static sia_status wait_both(sia_ring *r, sia_transfer t[2], sia_error *err) {
    sia_status status = sia_comm_wait(r->c, &t[0], err);
    return status ? status : sia_comm_wait(r->c, &t[1], err);
}

/* Between the pairs: what is under way moves on. */
static sia_status move_on(sia_ring *r, passage *p, sia_error *err) {
    sia_status status = SIA_OK;
    bool done;
    for (int i = 0; !status && i < 2; i++) {
        status = sia_comm_test(r->c, &p->in[i], &done, err);
        if (!status) status = sia_comm_test(r->c, &p->out[i], &done, err);
    }
    return status;
}

static sia_status ended(sia_ring *r, sia_status status) {
    r->broken = r->broken || status != SIA_OK;
    return status;
}

/* ------------------------------------------------------------------------------------------------ checks */

/* What all ranks must be asked for alike, as a number. */
static uint64_t mark_of(const sia_ring *r) {
    char config[SIA_CONFIG_TEXT], text[SIA_CONFIG_TEXT + 256], sum[SIA_SHA256_TEXT], start[17] = "";
    (void)snprintf(text, sizeof text, "%s %s, %lld %lld %lld %lld %d", r->attention->name,
                   sia_config_text(&r->attention->config, config), (long long)r->batch, (long long)r->length,
                   (long long)r->slices, (long long)r->sequences, r->backward);
    (void)sia_sha256(text, strlen(text), sum);
    memcpy(start, sum, sizeof start - 1);
    return strtoull(start, NULL, 16);
}

static sia_status pass_mark(sia_ring *r, int step, sia_error *err) {
    int rank = sia_comm_rank(r->c);
    uint64_t *out = &r->marks[wrapped(r, rank - step)], *in = &r->marks[wrapped(r, rank - step - 1)];
    sia_transfer sent, got;
    sia_status status = sia_comm_receive(r->c, wrapped(r, rank - 1), in, sizeof *in, SIA_TAG_RING, &got, err);
    if (!status)
        status = sia_comm_send(r->c, wrapped(r, rank + 1), out, sizeof *out, SIA_TAG_RING, &sent, err);
    if (!status) status = sia_comm_wait(r->c, &got, err);
    return status ? status : sia_comm_wait(r->c, &sent, err);
}

/* Ranks that were asked for different things would take a message for another one. Before the first pass the marks of
 * all go round, so that every rank finds out and says the same. */
static sia_status compare(sia_ring *r, sia_error *err) {
    int size = sia_comm_size(r->c);
    sia_status status = SIA_OK;
    if (r->compared) return SIA_OK;
    r->marks[sia_comm_rank(r->c)] = mark_of(r);
    for (int step = 0; !status && step + 1 < size; step++) status = ended(r, pass_mark(r, step, err));
    for (int rank = 1; !status && rank < size; rank++)
        if (r->marks[rank] != r->marks[0])
            status = sia_fail(err, SIA_ARGUMENT,
                              "ring: rank %d was given another scheme, setting or plan than rank 0", rank);
    r->compared = !status;
    return status;
}

static sia_status check_call(const sia_ring *r, int64_t batch, const void *io, sia_error *err) {
    if (!r) return sia_fail(err, SIA_ARGUMENT, "ring: NULL");
    if (r->broken) return sia_fail(err, SIA_ARGUMENT, "ring: an earlier pass failed");
    if (batch < 1 || batch > r->batch)
        return sia_fail(err, SIA_ARGUMENT, "batch %lld: want 1 to %lld, as planned", (long long)batch,
                        (long long)r->batch);
    return sia_io_check(io, err);
}

/* Rows of q and out, rows of k and v: what goes from rank to rank is one piece. */
static sia_status check_dense(const sia_ring *r, int64_t q, int64_t k, int64_t v, int64_t out,
                              sia_error *err) {
    const struct {
        const char *name;
        int64_t stride, row;
    } all[] = {{"q_stride", q, r->q_row},
               {"k_stride", k, r->k_row},
               {"v_stride", v, r->k_row},
               {"out_stride", out, r->q_row}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].stride != all[i].row)
            return sia_fail(err, SIA_ARGUMENT, "%s %lld: a ring wants dense arrays, %lld or 0", all[i].name,
                            (long long)all[i].stride, (long long)all[i].row);
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ pairs */

typedef struct pair {
    sia_span span;
    int64_t q_at, k_at; /* rows in the arrays of this rank, and in the block */
} pair;

/* Chunk i of a slice of this rank's queries, chunk j of the block's keys: whether the one sees any of the other. */
static bool pair_of(const sia_ring *r, const sia_ring_part *queries, const sia_ring_part *keys, int i, int j,
                    pair *p) {
    p->span = (sia_span){.batch = 1,
                         .q_len = queries->count[i],
                         .k_len = keys->count[j],
                         .q_pos = queries->first[i],
                         .k_pos = keys->first[j]};
    p->q_at = queries->first[i] - r->mine.first[i] + (i ? r->mine.count[0] : 0);
    p->k_at = j ? keys->count[0] : 0;
    return p->span.q_len > 0 && p->span.k_len > 0 && p->span.q_pos + p->span.q_len > p->span.k_pos;
}

typedef sia_status each_pair(sia_ring *r, void *context, const pair *p, block keys, sia_error *err);

/* The keys of rank `origin` are here, while others move: `run` is called with every pair of them and this rank's queries. */
typedef struct visit {
    const turn *t;
    int origin;
    block keys;
    passage *under_way;
    each_pair *run;
    void *context;
} visit;

/* The pairs of one slice of queries of sequence t->first + s. */
static sia_status over_keys(sia_ring *r, const visit *v, int64_t s, int64_t q_slice, sia_error *err) {
    sia_ring_part q_part = slice_of(r, sia_comm_rank(r->c), q_slice),
                  k_part = slice_of(r, v->origin, v->t->slice);
    sia_status status = SIA_OK;
    for (int i = 0; !status && i < 2; i++)
        for (int j = 0; !status && j < 2; j++) {
            pair p;
            if (!pair_of(r, &q_part, &k_part, i, j, &p)) continue;
            p.q_at += (v->t->first + s) * r->n;
            p.k_at += s * (k_part.count[0] + k_part.count[1]);
            status = v->run(r, v->context, &p, v->keys, err);
            if (!status) status = move_on(r, v->under_way, err);
        }
    return status;
}

static sia_status over_pairs(sia_ring *r, const visit *v, sia_error *err) {
    sia_status status = SIA_OK;
    for (int64_t s = 0; !status && s < v->t->count; s++)
        for (int64_t q_slice = 0; !status && q_slice < r->slices; q_slice++)
            status = over_keys(r, v, s, q_slice, err);
    return status;
}

typedef sia_status each_turn(sia_ring *r, const turn *t, const void *io, sia_error *err);

static sia_status over_turns(sia_ring *r, int64_t batch, each_turn *run, const void *io, sia_error *err) {
    sia_status status = SIA_OK;
    for (turn t = {0}; !status && t.first < batch; t.first += t.count) {
        t.count = batch - t.first < r->sequences ? batch - t.first : r->sequences;
        for (t.slice = 0; !status && t.slice < r->slices; t.slice++) status = run(r, &t, io, err);
    }
    return status;
}

/* Keys that are attended to go on to the next rank, and the next ones come in. */
static sia_status start_keys(sia_ring *r, const turn *t, int step, passage *p, sia_error *err) {
    int rank = sia_comm_rank(r->c);
    if (step + 1 == sia_comm_size(r->c)) return SIA_OK;
    sia_status status =
        start_in(r, p, r->room[(step + 1) % 2], block_bytes(r, t, rank - step - 1), SIA_TAG_RING, err);
    if (status) return status;
    return start_out(r, p, r->room[step % 2], block_bytes(r, t, rank - step), SIA_TAG_RING, err);
}

/* ------------------------------------------------------------------------------------------------ forward */

typedef struct merging {
    const float *out, *lse;
    float *to, *to_lse;
    int64_t heads, head_dim, rows;
} merging;

enum { MERGE_ROWS = 64 };

/* A row that has seen nothing so far has lse = -infinity, and out = 0. */
static void merge_task(void *context, int64_t task, int worker) {
    (void)worker;
    const merging *m = context;
    int64_t end = (task + 1) * MERGE_ROWS < m->rows ? (task + 1) * MERGE_ROWS : m->rows;
    for (int64_t i = task * MERGE_ROWS * m->heads; i < end * m->heads; i++) {
        double one = m->to_lse[i], two = m->lse[i], most = one > two ? one : two;
        if (two == -INFINITY) continue;
        double sum = exp(one - most) + exp(two - most), lse = most + log(sum);
        float keep = (float)exp(one - lse), take = (float)exp(two - lse);
        float *to = m->to + i * m->head_dim;
        const float *from = m->out + i * m->head_dim;
        for (int64_t j = 0; j < m->head_dim; j++) to[j] = keep * to[j] + take * from[j];
        m->to_lse[i] = (float)lse;
    }
}

typedef struct forward_call {
    const sia_forward *io;
    float *lse;
} forward_call;

static sia_status forward_pair(sia_ring *r, void *context, const pair *p, block keys, sia_error *err) {
    const forward_call *call = context;
    const sia_attention_config *config = &r->attention->config;
    sia_forward io = {.q = call->io->q + p->q_at * r->q_row,
                      .k = keys.a + p->k_at * r->k_row,
                      .v = keys.b + p->k_at * r->k_row,
                      .logn = call->io->logn,
                      .out = r->out,
                      .lse = r->lse};
    sia_status status = sia_attention_forward(r->attention, p->span, &io, r->work, err);
    if (status) return status;
    merging m = {.out = r->out,
                 .lse = r->lse,
                 .to = call->io->out + p->q_at * r->q_row,
                 .to_lse = call->lse + p->q_at * config->heads,
                 .heads = config->heads,
                 .head_dim = config->head_dim,
                 .rows = p->span.q_len};
    sia_parallel(config->threads, (m.rows + MERGE_ROWS - 1) / MERGE_ROWS, merge_task, &m);
    return SIA_OK;
}

static sia_status forward_turn(sia_ring *r, const turn *t, const void *context, sia_error *err) {
    const forward_call *call = context;
    int rank = sia_comm_rank(r->c), size = sia_comm_size(r->c);
    sia_status status = SIA_OK;
    move_own(r, t, (float *)call->io->k, r->room[0].a, true);
    move_own(r, t, (float *)call->io->v, r->room[0].b, true);
    for (int step = 0; !status && step < size; step++) {
        passage under_way = {0};
        status = start_keys(r, t, step, &under_way, err);
        visit v = {t, rank - step, r->room[step % 2], &under_way, forward_pair, (void *)call};
        if (!status) status = over_pairs(r, &v, err);
        if (!status) status = wait_both(r, under_way.in, err);
        if (!status) status = wait_both(r, under_way.out, err);
    }
    return status;
}

static sia_status check_forward(const sia_ring *r, const sia_forward *io, sia_error *err) {
    sia_forward full = *io;
    sia_status status = sia_forward_check(r->attention, &full, err);
    if (!status) status = check_dense(r, full.q_stride, full.k_stride, full.v_stride, full.out_stride, err);
    if (!status && (io->entropy || io->mass))
        status = sia_fail(err, SIA_ARGUMENT, "%s: given, but a ring has no statistics",
                          io->entropy ? "entropy" : "mass");
    return status;
}

sia_status sia_ring_forward(sia_ring *r, int64_t batch, const sia_forward *io, sia_error *err) {
    sia_status status = check_call(r, batch, io, err);
    if (!status) status = check_forward(r, io, err);
    if (!status) status = compare(r, err);
    if (status) return status;
    int64_t heads = r->attention->config.heads;
    forward_call call = {io, io->lse ? io->lse : r->all_lse};
    memset(io->out, 0, (size_t)(batch * r->n * r->q_row) * sizeof(float));
    for (int64_t i = 0; i < batch * r->n * heads; i++) call.lse[i] = -INFINITY;
    return ended(r, over_turns(r, batch, forward_turn, &call, err));
}

/* ------------------------------------------------------------------------------------------------ backward */

static void add(float *to, const float *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

/* Adds to d_q, and to this rank's share of the block's d_k and d_v. */
static sia_status backward_pair(sia_ring *r, void *context, const pair *p, block keys, sia_error *err) {
    const sia_backward *io = context;
    const sia_attention_config *config = &r->attention->config;
    sia_backward part = {.q = io->q + p->q_at * r->q_row,
                         .k = keys.a + p->k_at * r->k_row,
                         .v = keys.b + p->k_at * r->k_row,
                         .logn = io->logn,
                         .out = io->out + p->q_at * r->q_row,
                         .lse = io->lse + p->q_at * config->heads,
                         .d_out = io->d_out + p->q_at * r->q_row,
                         .d_q = r->dq,
                         .d_k = r->dk_dv,
                         .d_v = r->dk_dv + p->span.k_len * r->k_row,
                         .d_logn = io->d_logn ? r->dlogn : NULL};
    sia_status status = sia_attention_backward(r->attention, p->span, &part, r->work, err);
    if (status) return status;
    add(io->d_q + p->q_at * r->q_row, part.d_q, p->span.q_len * r->q_row);
    add(r->share.a + p->k_at * r->k_row, part.d_k, p->span.k_len * r->k_row);
    add(r->share.b + p->k_at * r->k_row, part.d_v, p->span.k_len * r->k_row);
    for (int h = 0; io->d_logn && h < config->heads; h++) r->dlogn_sums[h] += (double)r->dlogn[h];
    return SIA_OK;
}

/* What the ranks before this one found for the block, and this rank's share, go on to the next; what comes in is for
 * the block of the step that follows, and after the last step it is this rank's own. */
static sia_status pass_sums(sia_ring *r, const turn *t, int step, passage *p, sia_error *err) {
    int rank = sia_comm_rank(r->c);
    size_t bytes = block_bytes(r, t, rank - step);
    block sums = r->sums[step % 2], after = r->sums[(step + 1) % 2];
    sia_status status = wait_both(r, p->in, err);
    if (!status) status = wait_both(r, p->out, err); /* `after` is free again */
    if (status) return status;
    if (step == 0) {
        memcpy(sums.a, r->share.a, bytes);
        memcpy(sums.b, r->share.b, bytes);
    } else {
        add(sums.a, r->share.a, (int64_t)(bytes / sizeof(float)));
        add(sums.b, r->share.b, (int64_t)(bytes / sizeof(float)));
    }
    if (sia_comm_size(r->c) == 1) return SIA_OK;
    status = start_out(r, p, sums, bytes, SIA_TAG_RING_BACK, err);
    if (status) return status;
    return start_in(r, p, after, block_bytes(r, t, rank - step - 1), SIA_TAG_RING_BACK, err);
}

static sia_status backward_step(sia_ring *r, const turn *t, const sia_backward *io, int step, passage *sums,
                                sia_error *err) {
    int origin = sia_comm_rank(r->c) - step;
    passage under_way = {0};
    sia_status status = start_keys(r, t, step, &under_way, err);
    memset(r->share.a, 0, block_bytes(r, t, origin));
    memset(r->share.b, 0, block_bytes(r, t, origin));
    visit v = {t, origin, r->room[step % 2], &under_way, backward_pair, (void *)io};
    if (!status) status = over_pairs(r, &v, err);
    if (!status) status = pass_sums(r, t, step, sums, err);
    if (!status) status = wait_both(r, under_way.in, err);
    return status ? status : wait_both(r, under_way.out, err);
}

static sia_status backward_turn(sia_ring *r, const turn *t, const void *context, sia_error *err) {
    const sia_backward *io = context;
    int size = sia_comm_size(r->c);
    passage sums = {0};
    sia_status status = SIA_OK;
    move_own(r, t, (float *)io->k, r->room[0].a, true);
    move_own(r, t, (float *)io->v, r->room[0].b, true);
    for (int step = 0; !status && step < size; step++) status = backward_step(r, t, io, step, &sums, err);
    if (!status) status = wait_both(r, sums.in, err);
    if (!status) status = wait_both(r, sums.out, err);
    if (status) return status;
    block home = r->sums[size == 1 ? 0 : size % 2];
    move_own(r, t, io->d_k, home.a, false);
    move_own(r, t, io->d_v, home.b, false);
    return SIA_OK;
}

static sia_status check_backward(const sia_ring *r, const sia_backward *io, sia_error *err) {
    sia_backward full = *io;
    if (!r->backward) return sia_fail(err, SIA_ARGUMENT, "ring: its plan has no backward pass");
    sia_status status = sia_backward_check(r->attention, &full, err);
    return status ? status
                  : check_dense(r, full.q_stride, full.k_stride, full.v_stride, full.out_stride, err);
}

sia_status sia_ring_backward(sia_ring *r, int64_t batch, const sia_backward *io, sia_error *err) {
    sia_status status = check_call(r, batch, io, err);
    if (!status) status = check_backward(r, io, err);
    if (!status) status = compare(r, err);
    if (status) return status;
    int heads = r->attention->config.heads;
    memset(io->d_q, 0, (size_t)(batch * r->n * r->q_row) * sizeof(float));
    memset(r->dlogn_sums, 0, (size_t)heads * sizeof(double));
    status = ended(r, over_turns(r, batch, backward_turn, io, err));
    for (int h = 0; !status && io->d_logn && h < heads; h++) io->d_logn[h] = (float)r->dlogn_sums[h];
    return status;
}
