/* SPDX-License-Identifier: MIT
 *
 * Measures attention: each cell once a round, between two measurements of the roofs that it is compared with.
 *
 *     ... FMA | forward nope | FMA | forward si+nope | FMA | ...
 *     ... FMA read | decode f32 | FMA read | decode f16 | FMA read | ...
 *
 * The roof after a sample is the one before the next, when the threads are the same.
 * Every other round runs backwards: what comes second in one is first in the next.
 *
 * Operations of a causal pass over N positions: the two products of the forward pass, each 2 d for each of
 * the N (N + 1) / 2 pairs of a head; the backward pass has five products for those two. */
#include "cli/bench_attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "attention/attention.h"
#include "base/random.h"
#include "cli/progress.h"

const char *const bench_op_names[OPS] = {"fma_peak", "sgemm", "read", "forward", "backward", "decode"};
const char *const bench_type_names[BENCH_TYPES] = {"f32", "f16", "int8"};

static const double sample_seconds = 8e-3;

enum { Q, K, V, D_OUT, D_Q, D_K, D_V, ARRAYS };
enum { APPENDED = 1024 }; /* positions that join a cache at a time */

static float *array(const bench *b, int which) { return b->data + which * b->array; }

/* ---------------------------------------------------------------------------------------------- problems */

static int64_t width(const bench_problem *p) { return p->heads * p->head_dim; }

static sia_status create_problem(bench *b, int scheme, int shape, int64_t len, bool decode, sia_error *err) {
    const bench_settings *set = &b->set;
    bench_problem *p = &b->problems[b->problem_count++];
    *p = (bench_problem){
        .heads = set->heads[shape], .head_dim = set->head_dim[shape], .len = len, .decode = decode};
    sia_attention_config config = {
        .heads = (int)p->heads, .head_dim = (int)p->head_dim, .threads = b->most_threads};
    sia_status status = sia_attention_create(&p->a, set->schemes[scheme], &config, err);
    if (status) return status;
    p->scheme = sia_attention_scheme(p->a);
    p->logn = p->a->scheme.row == SIA_ROW_LOGN;
    return sia_attention_reserve(p->a, len, err);
}

/* Decode is measured at the widest shape alone, so that no cache of the processor holds the KV cache. */
static int widest(const bench_settings *set) {
    int best = 0;
    for (int i = 1; i < set->shape_count; i++)
        if (set->heads[i] * set->head_dim[i] > set->heads[best] * set->head_dim[best]) best = i;
    return best;
}

static sia_status create_problems(bench *b, sia_error *err) {
    const bench_settings *set = &b->set;
    bool whole = set->wanted[OP_FORWARD] || set->wanted[OP_BACKWARD];
    int most = set->scheme_count * (set->shape_count * set->len_count + 1);
    b->problems = calloc((size_t)most, sizeof *b->problems);
    if (!b->problems) return sia_fail_memory(err, (size_t)most * sizeof *b->problems, "problems");
    sia_status status = SIA_OK;
    for (int shape = 0; whole && shape < set->shape_count; shape++)
        for (int len = 0; len < set->len_count; len++)
            for (int i = 0; i < set->scheme_count && !status; i++)
                status = create_problem(b, i, shape, set->len[len], false, err);
    for (int i = 0; set->wanted[OP_DECODE] && i < set->scheme_count && !status; i++)
        status = create_problem(b, i, widest(set), set->keys, true, err);
    return status;
}

static void carve_results(bench *b, sia_carve *carve) {
    for (int i = 0; i < b->problem_count; i++) {
        bench_problem *p = &b->problems[i];
        int64_t rows = p->decode ? 1 : p->len;
        p->out = sia_carve_floats(carve, rows * width(p));
        p->lse = sia_carve_floats(carve, rows * p->heads);
    }
}

/* The largest that any problem needs of each array, and the workspace. */
static void size_arrays(bench *b, int64_t *heads) {
    *heads = 1;
    for (int i = 0; i < b->problem_count; i++) {
        const bench_problem *p = &b->problems[i];
        int64_t floats = (p->decode ? APPENDED : p->len) * width(p);
        if (floats > b->array) b->array = floats;
        if (p->heads > *heads) *heads = p->heads;
        sia_span span = {.q_len = p->len, .k_len = p->len};
        for (int pass = SIA_PASS_FORWARD; !p->decode && pass <= SIA_PASS_BACKWARD; pass++) {
            size_t bytes = sia_attention_workspace(p->a, span, (sia_pass)pass);
            if (bytes > b->work_bytes) b->work_bytes = bytes;
        }
    }
}

static sia_status map(void **pages, size_t bytes, const char *what, sia_error *err) {
    if (bytes == 0) return SIA_OK;
    *pages = sia_pages_map(bytes);
    return *pages ? SIA_OK : sia_fail_memory(err, bytes, what);
}

/* Unit-normal numbers, as QK-norm would leave them. */
static sia_status create_data(bench *b, sia_error *err) {
    int64_t heads;
    sia_carve carve = {NULL, 0};
    size_arrays(b, &heads);
    carve_results(b, &carve);
    b->result_bytes = carve.used;
    void *data = NULL;
    sia_status status = map(&data, (size_t)b->array * sizeof(float) * ARRAYS, "arrays", err);
    b->data = data;
    if (!status) status = map(&b->results, b->result_bytes, "results", err);
    if (!status) status = map(&b->work, b->work_bytes, "workspace", err);
    if (status) return status;
    b->logn = sia_alloc((size_t)heads * 2, sizeof(float));
    if (!b->logn) return sia_fail_memory(err, (size_t)heads * 2 * sizeof(float), "logn");
    b->d_logn = b->logn + heads;
    for (int64_t i = 0; i < heads; i++) b->logn[i] = 1 / logf(256);
    for (int64_t i = 0; b->data && i < b->array * D_Q; i++)
        b->data[i] = (float)sia_random_normal(1, (uint64_t)i);
    carve = (sia_carve){b->results, 0};
    carve_results(b, &carve);
    return SIA_OK;
}

static sia_status fill_caches(bench *b, bench_problem *p, sia_error *err) {
    sia_status status = SIA_OK;
    for (int type = 0; type < BENCH_TYPES && !status; type++) {
        status = sia_cache_create(&p->cache[type], p->a, (sia_type)type, err);
        for (int64_t have = 0; have < p->len && !status; have += APPENDED) {
            int64_t n = p->len - have < APPENDED ? p->len - have : APPENDED;
            status = sia_cache_append(p->cache[type], n, array(b, K), array(b, V), err);
        }
    }
    return status;
}

/* ---------------------------------------------------------------------------------------------- cells */

static void add_cell(bench *b, bench_op op, const bench_problem *p, sia_type type, int64_t threads) {
    bench_cell *cell = &b->cells[b->cell_count++];
    *cell = (bench_cell){.op = op, .problem = p, .type = type, .threads = (int)threads, .repeats = 1};
    double t = (double)threads;
    if (op == OP_FMA_PEAK) cell->operations = cli_fma_operations(b->roofs, (int)threads);
    if (op == OP_SGEMM) cell->operations = 2.0 * CLI_SGEMM_M * CLI_SGEMM_N * CLI_SGEMM_K * t;
    if (op == OP_READ) cell->bytes = cli_read_bytes(b->roofs);
    if (!p) return;
    double d = (double)p->head_dim, n = (double)p->len, heads = (double)p->heads;
    if (op == OP_FORWARD) cell->operations = 2 * d * n * (n + 1) * heads;
    if (op == OP_BACKWARD) cell->operations = 5 * d * n * (n + 1) * heads;
    if (op == OP_DECODE) {
        cell->operations = 4 * d * n * heads;
        size_t block = p->a->kernel->cache_block_bytes(type, (int)p->head_dim);
        cell->bytes = (double)block / SIA_CACHE_BLOCK * n * heads;
    }
}

static sia_status create_cells(bench *b, sia_error *err) {
    const bench_settings *set = &b->set;
    int schemes = set->scheme_count, most = (OPS + b->problem_count * (2 + BENCH_TYPES)) * set->thread_count;
    b->cells = calloc((size_t)most, sizeof *b->cells);
    if (!b->cells) return sia_fail_memory(err, (size_t)most * sizeof *b->cells, "cells");
    for (int op = OP_FMA_PEAK; op <= OP_READ; op++)
        for (int t = 0; set->wanted[op] && t < set->thread_count; t++)
            add_cell(b, (bench_op)op, NULL, SIA_F32, set->threads[t]);
    /* What is compared stands side by side: the schemes, then the numbers of threads. */
    for (int first = 0; first < b->problem_count && !b->problems[first].decode; first += schemes)
        for (int op = OP_FORWARD; op <= OP_BACKWARD; op++)
            for (int t = 0; set->wanted[op] && t < set->thread_count; t++)
                for (int i = first; i < first + schemes; i++)
                    add_cell(b, (bench_op)op, &b->problems[i], SIA_F32, set->threads[t]);
    for (int t = 0; t < set->thread_count; t++)
        for (int i = 0; i < b->problem_count; i++)
            for (int type = 0; b->problems[i].decode && type < BENCH_TYPES; type++)
                add_cell(b, OP_DECODE, &b->problems[i], (sia_type)type, set->threads[t]);
    return SIA_OK;
}

sia_status bench_create(bench *b, sia_error *err) {
    const bench_settings *set = &b->set;
    b->most_threads = 1;
    for (int i = 0; i < set->thread_count; i++)
        if (set->threads[i] > b->most_threads) b->most_threads = (int)set->threads[i];
    sia_status status = sia_kernel_check(err);
    if (!status) status = create_problems(b, err);
    bool read = set->wanted[OP_READ] || set->wanted[OP_DECODE];
    if (!status)
        status = cli_roofs_create(&b->roofs, b->most_threads, set->wanted[OP_SGEMM],
                                  read ? set->read_bytes : 0, err);
    if (!status) status = create_data(b, err);
    for (int i = 0; i < b->problem_count && !status; i++)
        if (b->problems[i].decode) status = fill_caches(b, &b->problems[i], err);
    if (!status) status = create_cells(b, err);
    return status;
}

void bench_destroy(bench *b) {
    for (int i = 0; i < b->problem_count; i++) {
        for (int type = 0; type < BENCH_TYPES; type++) sia_cache_destroy(b->problems[i].cache[type]);
        sia_attention_destroy(b->problems[i].a);
    }
    cli_roofs_destroy(b->roofs);
    sia_pages_unmap(b->data, (size_t)b->array * sizeof(float) * ARRAYS);
    sia_pages_unmap(b->results, b->result_bytes);
    sia_pages_unmap(b->work, b->work_bytes);
    sia_free(b->logn);
    free(b->problems);
    free(b->cells);
}

/* ---------------------------------------------------------------------------------------------- measuring */

static sia_status call(bench *b, const bench_cell *cell, sia_error *err) {
    const bench_problem *p = cell->problem;
    const float *logn = p->logn ? b->logn : NULL;
    sia_span span = {.q_len = p->len, .k_len = p->len};
    if (cell->op == OP_FORWARD) {
        sia_forward io = {
            .q = array(b, Q), .k = array(b, K), .v = array(b, V), .logn = logn, .out = p->out, .lse = p->lse};
        return sia_attention_forward(p->a, span, &io, b->work, err);
    }
    if (cell->op == OP_BACKWARD) {
        sia_backward io = {.q = array(b, Q),
                           .k = array(b, K),
                           .v = array(b, V),
                           .logn = logn,
                           .out = p->out,
                           .lse = p->lse,
                           .d_out = array(b, D_OUT),
                           .d_q = array(b, D_Q),
                           .d_k = array(b, D_K),
                           .d_v = array(b, D_V),
                           .d_logn = p->logn ? b->d_logn : NULL};
        return sia_attention_backward(p->a, span, &io, b->work, err);
    }
    return sia_cache_attend(p->cache[cell->type], 1, array(b, Q), logn, p->out, NULL, err);
}

/* Seconds of one call, over a whole sample. */
static sia_status sample(bench *b, const bench_cell *cell, double *seconds, sia_error *err) {
    if (cell->op == OP_FMA_PEAK) *seconds = cli_fma_seconds(b->roofs, cell->threads);
    if (cell->op == OP_SGEMM) *seconds = cli_sgemm_seconds(b->roofs, cell->threads);
    if (cell->op == OP_READ) *seconds = cli_read_seconds(b->roofs, cell->threads);
    if (!cell->problem) return SIA_OK;
    /* One object serves every number of threads: its tables, and the caches that borrow it, are large. */
    cell->problem->a->config.threads = cell->threads;
    sia_status status = SIA_OK;
    double started = cli_seconds();
    for (int64_t i = 0; i < cell->repeats && !status; i++) status = call(b, cell, err);
    *seconds = (cli_seconds() - started) / (double)cell->repeats;
    return status;
}

/* Before anything is counted: pages are touched, the forward pass leaves what the backward pass needs, and
 * the number of calls in a sample is found. */
static sia_status warm_up(bench *b, bench_cell *cell, sia_error *err) {
    double seconds = 0;
    sia_status status = SIA_OK;
    if (cell->op == OP_BACKWARD) {
        bench_cell forward = {.op = OP_FORWARD, .problem = cell->problem};
        status = call(b, &forward, err);
    }
    for (int i = 0; i < 2 && !status && (i == 0 || seconds < 0.1); i++)
        status = sample(b, cell, &seconds, err);
    if (cell->problem && seconds < sample_seconds)
        cell->repeats = (int64_t)(sample_seconds / fmax(seconds, 1e-7)) + 1;
    return status;
}

typedef struct roof_rates {
    int threads; /* 0: not measured */
    double fma, read, instructions;
} roof_rates;

static roof_rates measure_roofs(const bench *b, const bench_cell *cell) {
    roof_rates rates = {.threads = cell->threads};
    if (cell->op == OP_DECODE)
        rates.read = cli_read_bytes(b->roofs) / cli_read_seconds(b->roofs, cell->threads);
    rates.fma = cli_fma_operations(b->roofs, cell->threads) / cli_fma_seconds(b->roofs, cell->threads);
    rates.instructions = cli_instructions_per_cycle(cell->threads);
    return rates;
}

static double thread_seconds(void) {
    struct timespec used;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* On Zen 5, the only one that was measured, cores of one cache take 45 to 75 ns, others 310 and more. */
static const double far_seconds = 170e-9;

/* Where the system runs the threads may change at any time, in a virtual machine without its knowledge. */
static void measure_hand_over(bench *b) {
    double seconds = cli_hand_over_seconds();
    if (seconds == 0) return;
    b->hand_over.least = b->hand_over.samples++ ? fmin(b->hand_over.least, seconds) : seconds;
    if (seconds < far_seconds) return;
    b->hand_over.far++;
    b->hand_over.sum += seconds;
}

static sia_status measure_cell(bench *b, bench_cell *cell, int round, roof_rates *last, sia_error *err) {
    double seconds = 0;
    roof_rates before = *last;
    if (before.threads != cell->threads || (cell->op == OP_DECODE && before.read == 0))
        before = measure_roofs(b, cell);
    double busy = thread_seconds();
    sia_status status = sample(b, cell, &seconds, err);
    if (cell->threads == 1) {
        b->busy += thread_seconds() - busy;
        b->wall += seconds * (double)cell->repeats;
    }
    if (cell->threads > 1) measure_hand_over(b);
    *last = measure_roofs(b, cell);
    cell->seconds[round] = seconds;
    cell->fma_rate[round] = (before.fma + last->fma) / 2;
    cell->read_rate[round] = (before.read + last->read) / 2;
    cell->instructions[round] = fmin(before.instructions, last->instructions);
    b->most_instructions = fmax(b->most_instructions, cell->instructions[round]);
    if (cell->op == OP_FMA_PEAK) cell->fma_rate[round] = cell->operations / seconds;
    if (cell->op == OP_READ) cell->read_rate[round] = cell->bytes / seconds;
    return status;
}

sia_status bench_measure(bench *b, sia_error *err) {
    cli_progress progress;
    int rounds = b->set.rounds, cells = b->cell_count;
    sia_status status = SIA_OK;
    roof_rates last = {0};
    if (!isatty(STDERR_FILENO)) cli_progress_silence();
    cli_catch_stop();
    cli_progress_start(&progress, "bench attention", (rounds + 1.0) * cells, "", 1);
    for (int round = -1; round < rounds; round++)
        for (int i = 0; i < cells && !status; i++) {
            bench_cell *cell = &b->cells[round % 2 == 0 ? i : cells - 1 - i];
            if (cli_stopped()) status = sia_fail(err, SIA_STOPPED, "stopped");
            if (!status && round < 0)
                status = warm_up(b, cell, err);
            else if (!status)
                status = measure_cell(b, cell, round, &last, err);
            cli_progress_update(&progress, (round + 1.0) * cells + i);
        }
    cli_progress_end(&progress);
    return status;
}
