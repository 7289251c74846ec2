/* SPDX-License-Identifier: MIT
 *
 * Attention round a ring against attention in one process: every scheme, lengths that the ranks do not divide, grouped
 * heads, several sequences, chunks that travel whole and in slices; forward, all gradients, and the same bits when it is
 * done again. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "attention/ring.h"
#include "base/random.h"
#include "threads.h"

static const double FORWARD_BOUND = 2e-5, GRADIENT_BOUND = 1e-4;

typedef struct ring_case {
    int ranks, heads, kv_heads, head_dim;
    int64_t batch, length;
    int64_t piece;
} ring_case;

typedef enum array { Q, K, V, D_OUT, OUT, LSE, D_Q, D_K, D_V, ARRAYS } array;
static const char *const names[ARRAYS] = {"q", "k", "v", "d_out", "out", "lse", "d_q", "d_k", "d_v"};

typedef struct problem {
    ring_case c;
    const char *scheme;
    sia_attention *a;
    float *logn, *d_logn; /* NULL without logn */
    float *of[ARRAYS];    /* of one process */
    float *ring[ARRAYS];  /* put together from the ranks' parts */
    double ring_logn[64];
    sia_error said[MOST_RANKS];
    _Atomic int failed;
} problem;

static bool of_keys(array i) { return i == K || i == V || i == D_K || i == D_V; }
static int64_t row_of(const problem *p, array i) {
    if (i == LSE) return p->c.heads;
    return (int64_t)(of_keys(i) ? p->c.kv_heads : p->c.heads) * p->c.head_dim;
}
static int64_t size_of(const problem *p, array i) { return p->c.batch * p->c.length * row_of(p, i); }

static problem create(const char *scheme, ring_case c) {
    problem p = {.c = c, .scheme = scheme};
    sia_attention_config config = {.heads = c.heads,
                                   .kv_heads = c.kv_heads,
                                   .head_dim = c.head_dim,
                                   .threads = 1,
                                   .train_len = 32,
                                   .eval_len = c.length};
    sia_error err;
    if (sia_attention_create(&p.a, scheme, &config, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < ARRAYS; i++) {
        p.of[i] = calloc((size_t)size_of(&p, (array)i), sizeof(float));
        p.ring[i] = calloc((size_t)size_of(&p, (array)i), sizeof(float));
        for (int64_t j = 0; i <= D_OUT && j < size_of(&p, (array)i); j++)
            p.of[i][j] = (float)sia_random_normal((uint64_t)i + 7, (uint64_t)j);
    }
    if (strstr(scheme, "logn")) {
        p.logn = calloc((size_t)c.heads, sizeof(float));
        p.d_logn = calloc((size_t)c.heads, sizeof(float));
        for (int h = 0; h < c.heads; h++) p.logn[h] = 0.2f + 0.05f * (float)h;
    }
    return p;
}

static void destroy(problem *p) {
    for (int i = 0; i < ARRAYS; i++) {
        free(p->of[i]);
        free(p->ring[i]);
    }
    free(p->logn);
    free(p->d_logn);
    sia_attention_destroy(p->a);
}

static sia_forward forward_of(float *const x[ARRAYS], const float *logn) {
    return (sia_forward){.q = x[Q], .k = x[K], .v = x[V], .logn = logn, .out = x[OUT], .lse = x[LSE]};
}

static sia_backward backward_of(float *const x[ARRAYS], const float *logn, float *d_logn) {
    return (sia_backward){.q = x[Q],
                          .k = x[K],
                          .v = x[V],
                          .logn = logn,
                          .out = x[OUT],
                          .lse = x[LSE],
                          .d_out = x[D_OUT],
                          .d_q = x[D_Q],
                          .d_k = x[D_K],
                          .d_v = x[D_V],
                          .d_logn = d_logn};
}

static void in_one_process(problem *p) {
    sia_error err;
    sia_span span = {.batch = p->c.batch, .q_len = p->c.length, .k_len = p->c.length};
    sia_forward forward = forward_of(p->of, p->logn);
    sia_backward backward = backward_of(p->of, p->logn, p->d_logn);
    if (sia_attention_forward(p->a, span, &forward, NULL, &err)) fail_msg("%s", err.text);
    if (sia_attention_backward(p->a, span, &backward, NULL, &err)) fail_msg("%s", err.text);
}

/* Rows between the whole sequences and a rank's part. */
static void move_rows(const problem *p, array i, float *whole, float *part, int rank, bool out) {
    sia_ring_part at = sia_ring_part_of(p->c.length, p->c.ranks, rank);
    int64_t row = row_of(p, i);
    for (int64_t s = 0; s < p->c.batch; s++)
        for (int chunk = 0; chunk < 2; chunk++) {
            size_t bytes = (size_t)(at.count[chunk] * row) * sizeof(float);
            float *there = whole + (s * p->c.length + at.first[chunk]) * row;
            memcpy(out ? part : there, out ? there : part, bytes);
            part += at.count[chunk] * row;
        }
}

static void rank_work(sia_comm *c, void *context) {
    problem *p = context;
    int rank = sia_comm_rank(c);
    sia_error *err = &p->said[rank];
    sia_ring *ring = NULL;
    float *mine[ARRAYS], d_logn[64] = {0};
    sia_ring_plan plan = {.batch = p->c.batch, .length = p->c.length, .backward = true, .piece = p->c.piece};
    sia_status status = sia_ring_create(&ring, p->a, c, &plan, err);
    for (int i = 0; !status && i < ARRAYS; i++) {
        mine[i] =
            calloc((size_t)(p->c.batch * sia_ring_positions(ring) * row_of(p, (array)i)) + 1, sizeof(float));
        if (i <= D_OUT) move_rows(p, (array)i, p->of[i], mine[i], rank, true);
    }
    if (status) {
        p->failed++;
        return;
    }
    sia_forward forward = forward_of(mine, p->logn);
    sia_backward backward = backward_of(mine, p->logn, p->logn ? d_logn : NULL);
    status = sia_ring_forward(ring, p->c.batch, &forward, err);
    if (!status) status = sia_ring_backward(ring, p->c.batch, &backward, err);
    double sums[64];
    for (int h = 0; h < 64; h++) sums[h] = (double)d_logn[h];
    if (!status) status = sia_comm_sum(c, sums, 64, err);
    if (rank == 0) memcpy(p->ring_logn, sums, sizeof sums);
    for (int i = 0; i < ARRAYS; i++) {
        if (i > D_OUT) move_rows(p, (array)i, p->ring[i], mine[i], rank, false);
        free(mine[i]);
    }
    if (status) p->failed++;
    sia_ring_destroy(ring);
}

static double difference(const float *x, const float *y, int64_t count) {
    double most = 0, error = 0;
    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)x[i]));
        error = fmax(error, fabs((double)x[i] - (double)y[i]));
        if (isnan(y[i])) return INFINITY;
    }
    return error / most;
}

static int check(const char *scheme, ring_case c) {
    problem p = create(scheme, c);
    int failures = 0;
    in_one_process(&p);
    run_ranks(c.ranks, 60, rank_work, &p);
    for (int r = 0; p.failed && r < c.ranks; r++) print_error("rank %d: %s\n", r, p.said[r].text);
    failures += p.failed;
    for (int i = OUT; i < ARRAYS; i++) {
        double error = difference(p.of[i], p.ring[i], size_of(&p, (array)i));
        double bound = i <= LSE ? FORWARD_BOUND : GRADIENT_BOUND;
        if (error <= bound) continue;
        failures++;
        print_error("%s, %d ranks, %lld x %lld, heads %d/%d: %s: error %.2e, bound %.0e\n", scheme, c.ranks,
                    (long long)c.batch, (long long)c.length, c.heads, c.kv_heads, names[i], error, bound);
    }
    for (int h = 0; p.logn && h < c.heads; h++)
        if (fabs(p.ring_logn[h] - (double)p.d_logn[h]) >
            GRADIENT_BOUND * fmax(1, fabs((double)p.d_logn[h]))) {
            failures++;
            print_error("%s: d_logn[%d]: %g, want %g\n", scheme, h, p.ring_logn[h], (double)p.d_logn[h]);
        }
    destroy(&p);
    return failures;
}

/* Lengths around tiles and chunks; 2 R tokens is the shortest. In slices: several sequences a turn (5 = 2 + 2 + 1),
 * slices of two lengths, slices that are empty on some ranks, slices of one position. */
static const ring_case cases[] = {
    {1, 2, 2, 16, 1, 37, 0},  {2, 2, 2, 16, 1, 128, 0}, {2, 4, 2, 32, 2, 101, 0},  {3, 2, 1, 16, 1, 97, 0},
    {4, 4, 1, 16, 2, 259, 0}, {4, 2, 2, 8, 1, 8, 0},    {4, 1, 1, 8, 3, 13, 0},    {8, 2, 2, 64, 1, 530, 0},
    {1, 2, 2, 16, 2, 37, 7},  {2, 4, 2, 16, 5, 35, 19}, {3, 4, 1, 16, 2, 259, 20}, {4, 1, 1, 8, 3, 13, 1},
};

static void every_scheme(void **state) {
    (void)state;
    int failures = 0;
    for (const char *const *scheme = sia_scheme_list(); *scheme; scheme++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) failures += check(*scheme, cases[i]);
    assert_int_equal(failures, 0);
}

static void same_bits(void **state) {
    (void)state;
    ring_case c = {4, 4, 1, 16, 2, 259, 20};
    problem one = create("logn+rope", c), two = create("logn+rope", c);
    run_ranks(c.ranks, 60, rank_work, &one);
    run_ranks(c.ranks, 60, rank_work, &two);
    for (int i = OUT; i < ARRAYS; i++)
        assert_memory_equal(one.ring[i], two.ring[i], (size_t)size_of(&one, (array)i) * sizeof(float));
    destroy(&one);
    destroy(&two);
}

/* Every position has one rank, and causal work is the same for all, up to the rounding of chunks. */
static void the_split(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 9; ranks++)
        for (int64_t length = 2 * ranks; length < 200; length++) {
            char held[200] = {0};
            double least = INFINITY, most = 0;
            for (int r = 0; r < ranks; r++) {
                sia_ring_part part = sia_ring_part_of(length, ranks, r);
                double work = 0;
                for (int i = 0; i < 2; i++)
                    for (int64_t at = part.first[i]; at < part.first[i] + part.count[i]; at++) {
                        held[at]++;
                        work += (double)at + 1;
                    }
                least = fmin(least, work);
                most = fmax(most, work);
            }
            for (int64_t at = 0; at < length; at++) assert_int_equal(held[at], 1);
            assert_true(most - least <= 2 * (double)length + 2);
        }
}

/* However long a sequence is, what travels takes no more memory; room for an lse of a caller without one aside. */
static void little_room(sia_comm *c, void *context) {
    problem *p = context;
    size_t bytes[2] = {0};
    for (int i = 0; i < 2; i++) {
        sia_ring *ring;
        sia_ring_plan plan = {.batch = 1, .length = i ? 262144 : 16384, .backward = true};
        if (sia_ring_create(&ring, p->a, c, &plan, &p->said[sia_comm_rank(c)])) {
            p->failed++;
            return;
        }
        bytes[i] = sia_ring_bytes(ring) - (size_t)(sia_ring_positions(ring) * p->c.heads) * sizeof(float);
        sia_ring_destroy(ring);
    }
    if (bytes[1] > bytes[0]) p->failed++;
}

static void memory(void **state) {
    (void)state;
    problem p = create("rope", cases[1]);
    run_ranks(2, 60, little_room, &p);
    assert_int_equal(p.failed, 0);
    destroy(&p);
}

static void too_short(sia_comm *c, void *context) {
    sia_ring *ring;
    problem *p = context;
    sia_status status = sia_ring_create(&ring, p->a, c, &(sia_ring_plan){.batch = 1, .length = 7},
                                        &p->said[sia_comm_rank(c)]);
    if (status != SIA_ARGUMENT || ring) p->failed++;
}

static void errors(void **state) {
    (void)state;
    problem p = create("rope", cases[1]);
    run_ranks(4, 60, too_short, &p);
    assert_int_equal(p.failed, 0);
    assert_non_null(strstr(p.said[0].text, "want 8 tokens at least"));
    destroy(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_split), cmocka_unit_test(every_scheme),
                                       cmocka_unit_test(same_bits), cmocka_unit_test(memory),
                                       cmocka_unit_test(errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
