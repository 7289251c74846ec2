/* SPDX-License-Identifier: MIT
 *
 * The optimiser: checks, state, and the cutting of a step into tasks. A step has two phases,
 *
 *     norms     one task a chunk of a gradient: its sum of squares; added up in the order of the tensors
 *     updates   one task a matrix, the costly ones first; then one a chunk of every other tensor
 *
 * so that nothing is written before every gradient is known to be finite. Chunks do not depend on the number
 * of threads, and a matrix is one thread's work: same bits for any number. Matrices before chunks, large
 * before small: the threads end together. Where there are more threads than matrices, the rows of a product
 * can be cut at multiples of SIA_BLOCK_ROWS without a change of bits; this is not done yet. */
#include "optim/optimizer.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "kernel/kernel.h"
#include "optim/muon.h"

/* Four arrays of this many floats stay in the second cache. */
enum { CHUNK = 16384 };

typedef struct piece {
    int64_t tensor, from, count;
} piece;

/* Where the state of what this rank has of a tensor lies; from: the number in the tensor that it begins with. */
typedef struct state_of {
    float *first, *second; /* Muon: momentum, none; Adam: m, v */
    int64_t from, count;   /* 0 numbers: none of it is ours */
} state_of;

struct sia_optimizer {
    sia_optim_config config;
    sia_optim_tensor *tensors;
    int64_t count;

    sia_optim_part *parts;
    int64_t part_count;

    float *memory; /* of all states */
    size_t memory_bytes;
    state_of *state;
    sia_optim_state *table;
    char *names;
    int64_t states;

    piece *chunks; /* of all tensors, in their order */
    double *squares;
    int64_t chunk_count;
    piece *updates;
    int64_t update_count;

    float *work; /* for each thread */
    int64_t work_floats;

    /* Of the step that runs. */
    int64_t step;
    double rate_factor, clip_factor;
};

/* ---------------------------------------------------------------------------------------------- config */

static const char *const group_names[SIA_GROUPS] = {"embedding", "matrix", "unembedding", "scalar"};

sia_optim_config sia_optim_config_default(void) {
    return (sia_optim_config){.rate = {[SIA_GROUP_EMBEDDING] = 0.3,
                                       [SIA_GROUP_MATRIX] = 0.02,
                                       [SIA_GROUP_UNEMBEDDING] = 0.002,
                                       [SIA_GROUP_SCALAR] = 0.002},
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .epsilon = 1e-8,
                              .momentum = 0.95};
}

static bool in_unit(double x) { return x >= 0 && x < 1; }
static bool not_negative(double x) { return x >= 0 && isfinite(x); }

static sia_status check_config(const sia_optim_config *c, sia_error *err) {
    for (int g = 0; g < SIA_GROUPS; g++)
        if (!not_negative(c->rate[g]))
            return sia_fail(err, SIA_ARGUMENT, "learning rate %g of the group %s: want 0 or more", c->rate[g],
                            group_names[g]);
    if (!in_unit(c->beta1) || !in_unit(c->beta2))
        return sia_fail(err, SIA_ARGUMENT, "betas %g %g: want both in 0 .. 1, below 1", c->beta1, c->beta2);
    if (!(c->epsilon >= 1e-30 && c->epsilon <= 1)) /* below, it is 0 as a float, and 0/0 follows */
        return sia_fail(err, SIA_ARGUMENT, "epsilon %g: want 1e-30 to 1", c->epsilon);
    if (!in_unit(c->momentum))
        return sia_fail(err, SIA_ARGUMENT, "momentum %g: want 0 or more, below 1", c->momentum);
    if (!not_negative(c->weight_decay))
        return sia_fail(err, SIA_ARGUMENT, "weight decay %g: want 0 or more", c->weight_decay);
    if (!not_negative(c->clip))
        return sia_fail(err, SIA_ARGUMENT, "clipping at %g: want a norm, or 0 for none", c->clip);
    if (c->threads < 0 || c->threads > SIA_MAX_THREADS)
        return sia_fail(err, SIA_ARGUMENT, "threads %d: want 0 to %d", c->threads, SIA_MAX_THREADS);
    if (c->ranks < 0 || c->rank < 0 || (c->rank && c->rank >= c->ranks) || (c->ranks > 1 && !c->add_up))
        return sia_fail(err, SIA_ARGUMENT, "rank %d of %d: want it below their number, and a way to add up",
                        c->rank, c->ranks);
    return SIA_OK;
}

static sia_status check_tensor(const sia_optim_tensor *t, int64_t index, sia_error *err) {
    if (!t->name) return sia_fail(err, SIA_ARGUMENT, "tensor %" PRId64 ": it has no name", index);
    if (!t->value || !t->gradient)
        return sia_fail(err, SIA_ARGUMENT, "%s: want values and a gradient", t->name);
    if ((unsigned)t->group >= SIA_GROUPS)
        return sia_fail(err, SIA_ARGUMENT, "%s: group %d, there are %d", t->name, (int)t->group, SIA_GROUPS);
    /* Small enough that no sum of sizes below overflows. */
    if (t->rows < 1 || t->columns < 1 || t->rows > (INT64_C(1) << 40) / t->columns)
        return sia_fail(err, SIA_ARGUMENT, "%s: shape %" PRId64 " x %" PRId64 " is empty or too large",
                        t->name, t->rows, t->columns);
    return SIA_OK;
}

/* ---------------------------------------------------------------------------------------------- tensors */

static bool is_muon(const sia_optim_tensor *t) { return t->group == SIA_GROUP_MATRIX; }
static int64_t size_of(const sia_optim_tensor *t) { return t->rows * t->columns; }
static int64_t chunks_of(const sia_optim_tensor *t) { return (size_of(t) + CHUNK - 1) / CHUNK; }
static size_t part_bytes(const sia_optim_part *p) { return sia_aligned((size_t)p->count * sizeof(float)); }
static int states_of(const sia_optim_tensor *t) { return is_muon(t) ? 1 : 2; }

static const char *const muon_suffix[] = {"momentum"}, *const adam_suffix[] = {"m", "v"};

/* ---------------------------------------------------------------------------------------------- owners */

/* The matrix that costs most among those without an owner, the first of equal ones; -1 when all have one. */
static int64_t costliest_left(const sia_optimizer *o, const int *owner) {
    int64_t found = -1;
    double most = 0;
    for (int64_t i = 0; i < o->count; i++) {
        double cost = sia_muon_flops(o->tensors[i].rows, o->tensors[i].columns);
        if (!is_muon(&o->tensors[i]) || owner[i] >= 0 || cost <= most) continue;
        found = i;
        most = cost;
    }
    return found;
}

/* Each goes to the rank that has the least to do so far. */
static void deal_matrices(const sia_optimizer *o, int *owner, double *load) {
    for (int64_t i = 0; i < o->count; i++) owner[i] = -1;
    for (int64_t i; (i = costliest_left(o, owner)) >= 0;) {
        int least = 0;
        for (int r = 1; r < o->config.ranks; r++)
            if (load[r] < load[least]) least = r;
        owner[i] = least;
        load[least] += sia_muon_flops(o->tensors[i].rows, o->tensors[i].columns);
    }
}

/* Whole chunks, so that a chunk has one owner on any number of ranks. */
static void cut_evenly(sia_optimizer *o, int64_t tensor, int64_t first_state) {
    const sia_optim_tensor *t = &o->tensors[tensor];
    int64_t chunks = chunks_of(t), ranks = o->config.ranks;
    for (int64_t r = 0; r < ranks; r++) {
        int64_t from = r * chunks / ranks * CHUNK, to = (r + 1) * chunks / ranks * CHUNK;
        if (to > size_of(t)) to = size_of(t);
        if (to > from)
            o->parts[o->part_count++] =
                (sia_optim_part){tensor, from, to - from, (int)r, first_state, 2, {NULL, NULL}};
    }
}

static sia_status create_parts(sia_optimizer *o, sia_error *err) {
    size_t most = (size_t)o->count * (size_t)o->config.ranks;
    int *owner = calloc((size_t)o->count, sizeof *owner);
    double *load = calloc((size_t)o->config.ranks, sizeof *load);
    o->parts = calloc(most, sizeof *o->parts);
    sia_status status = owner && load && o->parts
                            ? SIA_OK
                            : sia_fail_memory(err, most * sizeof *o->parts, "the optimiser's parts");
    if (!status) deal_matrices(o, owner, load);
    for (int64_t i = 0; !status && i < o->count; i++) {
        if (is_muon(&o->tensors[i]))
            o->parts[o->part_count++] =
                (sia_optim_part){i, 0, size_of(&o->tensors[i]), owner[i], o->states, 1, {NULL, NULL}};
        else
            cut_evenly(o, i, o->states);
        o->states += states_of(&o->tensors[i]);
    }
    free(owner);
    free(load);
    return status;
}

/* ---------------------------------------------------------------------------------------------- creation */

static void place_states(sia_optimizer *o) {
    char *memory = (char *)o->memory;
    for (int64_t i = 0; i < o->part_count; i++) {
        sia_optim_part *p = &o->parts[i];
        if (p->owner != o->config.rank) continue;
        for (int s = 0; s < p->states; s++, memory += part_bytes(p)) {
            p->state[s] = (float *)(void *)memory;
            if (o->config.ranks == 1) o->table[p->first_state + s].data = p->state[s];
        }
        o->state[p->tensor] = (state_of){p->state[0], p->state[1], p->from, p->count};
    }
}

static sia_status create_states(sia_optimizer *o, sia_error *err) {
    size_t name_bytes = 0;
    for (int64_t i = 0; i < o->count; i++)
        name_bytes += (strlen(o->tensors[i].name) + sizeof ".momentum") * (size_t)states_of(&o->tensors[i]);
    for (int64_t i = 0; i < o->part_count; i++)
        if (o->parts[i].owner == o->config.rank)
            o->memory_bytes += part_bytes(&o->parts[i]) * (size_t)o->parts[i].states;
    o->state = calloc((size_t)o->count, sizeof *o->state);
    o->table = calloc((size_t)o->states, sizeof *o->table);
    o->names = malloc(name_bytes);
    if (!o->state || !o->table || !o->names)
        return sia_fail_memory(err, name_bytes, "the optimiser's table of states");
    /* A rank may own nothing. */
    o->memory = o->memory_bytes ? sia_pages_map(o->memory_bytes) : NULL;
    if (o->memory_bytes && !o->memory) return sia_fail_memory(err, o->memory_bytes, "the optimiser's state");

    char *name = o->names;
    sia_optim_state *row = o->table;
    for (int64_t i = 0; i < o->count; i++) {
        const sia_optim_tensor *t = &o->tensors[i];
        const char *const *suffix = is_muon(t) ? muon_suffix : adam_suffix;
        for (int s = 0; s < states_of(t); s++, row++) {
            *row = (sia_optim_state){name, NULL, t->rows, t->columns};
            name += sprintf(name, "%s.%s", t->name, suffix[s]) + 1;
        }
    }
    place_states(o);
    return SIA_OK;
}

static int64_t cut(piece *out, int64_t index, int64_t first, int64_t count) {
    int64_t pieces = 0;
    for (int64_t at = 0; at < count; at += CHUNK)
        out[pieces++] = (piece){index, first + at, count - at < CHUNK ? count - at : CHUNK};
    return pieces;
}

static bool is_ours(const sia_optimizer *o, int64_t tensor) { return o->state[tensor].count > 0; }

/* Inserts a matrix so that the costly ones come first, equal ones in their order. */
static void insert_matrix(sia_optimizer *o, int64_t index) {
    const sia_optim_tensor *t = &o->tensors[index];
    int64_t at = o->update_count++;
    for (; at > 0; at--) {
        const sia_optim_tensor *before = &o->tensors[o->updates[at - 1].tensor];
        if (sia_muon_flops(before->rows, before->columns) >= sia_muon_flops(t->rows, t->columns)) break;
        o->updates[at] = o->updates[at - 1];
    }
    o->updates[at] = (piece){index, 0, size_of(t)};
}

static sia_status create_tasks(sia_optimizer *o, sia_error *err) {
    for (int64_t i = 0; i < o->count; i++) o->chunk_count += chunks_of(&o->tensors[i]);
    size_t bytes = (size_t)o->chunk_count * (2 * sizeof(piece) + sizeof(double));
    o->chunks = calloc((size_t)o->chunk_count, sizeof *o->chunks);
    o->updates = calloc((size_t)o->chunk_count, sizeof *o->updates);
    o->squares = calloc((size_t)o->chunk_count, sizeof *o->squares);
    if (!o->chunks || !o->updates || !o->squares) return sia_fail_memory(err, bytes, "the optimiser's tasks");

    piece *chunk = o->chunks;
    for (int64_t i = 0; i < o->count; i++) {
        const sia_optim_tensor *t = &o->tensors[i];
        chunk += cut(chunk, i, 0, size_of(t));
        if (is_muon(t) && is_ours(o, i)) insert_matrix(o, i);
    }
    for (int64_t i = 0; i < o->count; i++)
        if (!is_muon(&o->tensors[i]))
            o->update_count += cut(o->updates + o->update_count, i, o->state[i].from, o->state[i].count);
    return SIA_OK;
}

/* Each thread that may get a matrix has room for the largest. */
static sia_status create_work(sia_optimizer *o, sia_error *err) {
    for (int64_t i = 0; i < o->count; i++) {
        const sia_optim_tensor *t = &o->tensors[i];
        if (!is_muon(t) || !is_ours(o, i)) continue;
        int64_t floats = (sia_muon_floats(t->rows, t->columns) + 15) / 16 * 16;
        if (floats > o->work_floats) o->work_floats = floats;
    }
    if (!o->work_floats) return SIA_OK;
    o->work = sia_alloc((size_t)o->config.threads, (size_t)o->work_floats * sizeof(float));
    return o->work ? SIA_OK : sia_fail_memory(err, sia_optimizer_work_bytes(o), "the optimiser's workspace");
}

sia_status sia_optimizer_create(sia_optimizer **out, const sia_optim_tensor *tensors, int64_t count,
                                const sia_optim_config *config, sia_error *err) {
    *out = NULL;
    if (count < 1 || !tensors) return sia_fail(err, SIA_ARGUMENT, "the optimiser has no tensors");
    sia_status status = check_config(config, err);
    for (int64_t i = 0; i < count && !status; i++) status = check_tensor(&tensors[i], i, err);
    if (status) return status;

    sia_optimizer *o = calloc(1, sizeof *o);
    if (!o) return sia_fail_memory(err, sizeof *o, "the optimiser");
    o->config = *config;
    if (!o->config.threads) o->config.threads = sia_threads_available();
    if (!o->config.ranks) o->config.ranks = 1;
    o->count = count;
    o->tensors = calloc((size_t)count, sizeof *tensors);
    if (!o->tensors) {
        status = sia_fail_memory(err, (size_t)count * sizeof *tensors, "the optimiser's tensors");
    } else {
        memcpy(o->tensors, tensors, (size_t)count * sizeof *tensors);
        status = create_parts(o, err);
    }
    if (!status) status = create_states(o, err);
    if (!status) status = create_tasks(o, err);
    if (!status) status = create_work(o, err);
    if (status) {
        sia_optimizer_destroy(o);
        return status;
    }
    *out = o;
    return SIA_OK;
}

const sia_optim_state *sia_optimizer_states(const sia_optimizer *o, int64_t *count) {
    *count = o->states;
    return o->table;
}

const sia_optim_part *sia_optimizer_parts(const sia_optimizer *o, int64_t *count) {
    *count = o->part_count;
    return o->parts;
}

size_t sia_optimizer_bytes(const sia_optimizer *o) { return o->memory_bytes; }

size_t sia_optimizer_work_bytes(const sia_optimizer *o) {
    return (size_t)o->config.threads * (size_t)o->work_floats * sizeof(float);
}

void sia_optimizer_destroy(sia_optimizer *o) {
    if (!o) return;
    sia_free(o->work);
    sia_pages_unmap(o->memory, o->memory_bytes);
    free(o->parts);
    free(o->tensors);
    free(o->state);
    free(o->table);
    free(o->names);
    free(o->chunks);
    free(o->squares);
    free(o->updates);
    free(o);
}

/* ---------------------------------------------------------------------------------------------- a step */

static void square_chunk(void *context, int64_t task, int worker) {
    (void)worker;
    sia_optimizer *o = context;
    const piece *p = &o->chunks[task];
    const state_of *ours = &o->state[p->tensor];
    o->squares[task] = 0;
    if (p->from < ours->from || p->from >= ours->from + ours->count) return;
    o->squares[task] = sia_kernel_get()->sum_squares(o->tensors[p->tensor].gradient + p->from, p->count);
}

/* Sums of doubles in a fixed order. No square of a float overflows a double: a sum that is not finite has met
 * a number that is not. */
static sia_optim_statistics norms(const sia_optimizer *o, const sia_optim_tensor **not_finite) {
    sia_optim_statistics s = {.clip_factor = 1};
    double all = 0, group[SIA_GROUPS] = {0};
    *not_finite = NULL;
    for (int64_t i = 0; i < o->chunk_count; i++) {
        const sia_optim_tensor *t = &o->tensors[o->chunks[i].tensor];
        if (!isfinite(o->squares[i]) && !*not_finite) *not_finite = t;
        all += o->squares[i];
        group[t->group] += o->squares[i];
    }
    s.gradient_norm = sqrt(all);
    for (int g = 0; g < SIA_GROUPS; g++) s.group_norm[g] = sqrt(group[g]);
    if (o->config.clip > 0 && s.gradient_norm > o->config.clip)
        s.clip_factor = o->config.clip / s.gradient_norm;
    return s;
}

/* The square of a float above 1e19 is infinite: in Adam's v it would stay for ever, and the number would never
 * move again. */
static const double LARGEST_GRADIENT = 1e18;

static const sia_optim_tensor *too_large(const sia_optimizer *o, double clip_factor) {
    for (int64_t i = 0; i < o->chunk_count; i++)
        if (sqrt(o->squares[i]) * clip_factor > LARGEST_GRADIENT) return &o->tensors[o->chunks[i].tensor];
    return NULL;
}

static void update_chunk(const sia_optimizer *o, const piece *p, double rate, double keep) {
    const sia_optim_tensor *t = &o->tensors[p->tensor];
    const sia_optim_config *c = &o->config;
    double correction1 = 1 - pow(c->beta1, (double)o->step + 1);
    double correction2 = 1 - pow(c->beta2, (double)o->step + 1);
    sia_adam adam = {.value = t->value + p->from,
                     .m = o->state[p->tensor].first + (p->from - o->state[p->tensor].from),
                     .v = o->state[p->tensor].second + (p->from - o->state[p->tensor].from),
                     .gradient = t->gradient + p->from,
                     .factor = (float)o->clip_factor,
                     .beta1 = (float)c->beta1,
                     .rest1 = (float)(1 - c->beta1),
                     .beta2 = (float)c->beta2,
                     .rest2 = (float)(1 - c->beta2),
                     .rate = (float)(rate / correction1),
                     .root = (float)(1 / sqrt(correction2)),
                     .epsilon = (float)c->epsilon,
                     .keep = (float)keep};
    sia_kernel_get()->update_adam(&adam, p->count);
}

static void update_piece(void *context, int64_t task, int worker) {
    const sia_optimizer *o = context;
    const piece *p = &o->updates[task];
    const sia_optim_tensor *t = &o->tensors[p->tensor];
    double rate = o->config.rate[t->group] * o->rate_factor;
    double keep = t->group == SIA_GROUP_SCALAR ? 1 : 1 - rate * o->config.weight_decay;
    if (!is_muon(t)) {
        update_chunk(o, p, rate, keep);
        return;
    }
    sia_muon muon = {.value = t->value,
                     .momentum = o->state[p->tensor].first,
                     .gradient = t->gradient,
                     .rows = t->rows,
                     .columns = t->columns,
                     .factor = o->clip_factor,
                     .beta = o->config.momentum,
                     .rate = rate,
                     .keep = keep};
    sia_muon_step(&muon, o->work + worker * o->work_floats);
}

sia_status sia_optimizer_step(sia_optimizer *o, int64_t step, double rate_factor,
                              sia_optim_statistics *statistics, sia_error *err) {
    if (step < 0) return sia_fail(err, SIA_ARGUMENT, "step %" PRId64 ": want 0 or more", step);
    if (!not_negative(rate_factor))
        return sia_fail(err, SIA_ARGUMENT, "learning rate times %g: want 0 or more", rate_factor);
    sia_parallel(o->config.threads, o->chunk_count, square_chunk, o);
    sia_status status = o->config.ranks == 1
                            ? SIA_OK
                            : o->config.add_up(o->config.add_up_context, o->squares, o->chunk_count, err);
    if (status) return status;
    const sia_optim_tensor *not_finite;
    sia_optim_statistics found = norms(o, &not_finite);
    if (statistics) *statistics = found;
    if (not_finite)
        return sia_fail(err, SIA_NUMBER, "%s: its gradient is not finite at step %" PRId64, not_finite->name,
                        step + 1);
    const sia_optim_tensor *large = too_large(o, found.clip_factor);
    if (large)
        return sia_fail(err, SIA_NUMBER, "%s: its gradient is above %g at step %" PRId64, large->name,
                        LARGEST_GRADIENT, step + 1);
    o->step = step;
    o->rate_factor = rate_factor;
    o->clip_factor = found.clip_factor;
    sia_parallel(o->config.threads, o->update_count, update_piece, o);
    return SIA_OK;
}
