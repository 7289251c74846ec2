/* SPDX-License-Identifier: MIT
 *
 * The parts of `sia bench attention`: what was asked for, the cells of the table, what was measured.
 *
 *     bench_create     settings to problems (a scheme at a shape and a length) and cells (a row of the table)
 *     bench_measure    rounds over all cells
 *     bench_report     the medians, as tables for people or as lines of JSON */
#ifndef SIA_CLI_BENCH_ATTENTION_H
#define SIA_CLI_BENCH_ATTENTION_H

#include "cli/bench.h"

typedef enum bench_op { OP_FMA_PEAK, OP_SGEMM, OP_READ, OP_FORWARD, OP_BACKWARD, OP_DECODE, OPS } bench_op;
extern const char *const bench_op_names[OPS];

enum { BENCH_TYPES = SIA_I8 + 1 };
extern const char *const bench_type_names[BENCH_TYPES];

typedef struct bench_settings {
    bool wanted[OPS];
    char scheme_room[256];
    const char *schemes[CLI_MAX_LIST];
    int64_t heads[CLI_MAX_LIST], head_dim[CLI_MAX_LIST], len[CLI_MAX_LIST], threads[CLI_MAX_LIST];
    int scheme_count, shape_count, len_count, thread_count;
    int64_t keys; /* of the cache */
    int rounds;
    size_t read_bytes;
} bench_settings;

/* One scheme at one shape and length, with what its forward pass leaves for its backward pass. */
typedef struct bench_problem {
    const char *scheme; /* in its canonical form */
    int64_t heads, head_dim, len;
    sia_attention *a;
    bool decode, logn;
    float *out, *lse;              /* [len], for decode [1] */
    sia_cache *cache[BENCH_TYPES]; /* for decode */
} bench_problem;

/* One row of the table. */
typedef struct bench_cell {
    bench_op op;
    const bench_problem *problem; /* NULL for the roofs */
    sia_type type;                /* of the cache */
    int threads;
    int64_t repeats;          /* calls in a sample */
    double operations, bytes; /* of a call; 0 where they do not count */
    /* By round. A roof is the mean of its rates right before and right after the sample. */
    double seconds[CLI_MAX_ROUNDS];   /* of a call */
    double fma_rate[CLI_MAX_ROUNDS];  /* operations a second */
    double read_rate[CLI_MAX_ROUNDS]; /* bytes a second; decode and read only */
    /* The lower of cli_instructions_per_cycle right before and right after. */
    double instructions[CLI_MAX_ROUNDS];
} bench_cell;

typedef struct bench {
    bench_settings set;
    cli_roofs *roofs;
    bench_problem *problems;
    bench_cell *cells;
    int problem_count, cell_count, most_threads;
    float *data; /* q, k, v, d_out, d_q, d_k, d_v one after another, each of `array` floats; read by all */
    int64_t array;
    float *logn, *d_logn;
    void *work;
    size_t work_bytes;
    double wall;              /* seconds of the samples on one thread */
    double busy;              /* what of them the processor worked for us */
    double most_instructions; /* of all cells and rounds: what cores take that are ours */
    struct {
        int samples, far;
        double least, sum; /* of all, of the far ones */
    } hand_over;           /* cli_hand_over_seconds behind each sample of several threads */
    void *results;         /* out and lse of every problem */
    size_t result_bytes;
} bench;

sia_status bench_create(bench *b, sia_error *err);
void bench_destroy(bench *b); /* also after a create that failed */

sia_status bench_measure(bench *b, sia_error *err);

void bench_print_machine(const bench *b, bool to_stderr);
void bench_print_tables(const bench *b);
sia_status bench_print_json(const bench *b, sia_error *err);
void bench_print_warnings(const bench *b); /* on stderr: what may be wrong with the figures */

#endif
