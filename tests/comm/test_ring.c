/* SPDX-License-Identifier: MIT
 *
 * Attention round a ring against attention in one process: every scheme, lengths that the ranks do not divide, grouped
 * heads, several sequences, chunks that travel whole and in slices; forward, all gradients, and the same bits when it is
 * done again. And what is refused, on which ranks, and what a rank that is gone leaves behind. */
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
    int64_t slice;
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
    sia_ring_plan plan = {.batch = p->c.batch, .length = p->c.length, .backward = true, .slice = p->c.slice};
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
        if (!(fabs(p.ring_logn[h] - (double)p.d_logn[h]) <=
              GRADIENT_BOUND * fmax(1, fabs((double)p.d_logn[h])))) {
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

/* ------------------------------------------------------------------------------------------------ refusals */

static const struct {
    int ranks;
    sia_ring_plan plan;
    const char *sentence;
} plans[] = {
    {4, {.batch = 1, .length = 7}, "length 7 on 4 ranks: want 8 to 1073741824"},
    {1, {.batch = 1, .length = 1}, "length 1 on 1 ranks: want 2 to 1073741824"},
    {2, {.batch = 1, .length = 0}, "length 0 on 2 ranks: want 4 to 1073741824"},
    {2, {.batch = 1, .length = -5}, "length -5 on 2 ranks: want 4 to 1073741824"},
    {2, {.batch = 1, .length = SIA_MAX_POSITION + 1}, "length 1073741825 on 2 ranks: want 4 to 1073741824"},
    {2, {.batch = 0, .length = 64}, "batch 0 of length 64: want 1 to 16777216"},
    {2, {.batch = -1, .length = 64}, "batch -1 of length 64: want 1 to 16777216"},
    {2, {.batch = 16777217, .length = 64}, "batch 16777217 of length 64: want 1 to 16777216"},
    {2, {.batch = INT64_MAX, .length = 64}, "batch 9223372036854775807 of length 64: want 1 to 16777216"},
    {2, {.batch = 1, .length = 64, .slice = -1}, "slice -1: want 1 to 67108864, or 0 for 2048"},
    {2,
     {.batch = 1, .length = 64, .slice = INT64_MAX},
     "slice 9223372036854775807: want 1 to 67108864, or 0 for 2048"},
};

static void refused_plan(sia_comm *c, void *context) {
    problem *p = context;
    sia_ring *ring = (sia_ring *)p;
    const sia_ring_plan *plan = &plans[p->c.batch].plan;
    if (sia_ring_create(&ring, p->a, c, plan, &p->said[sia_comm_rank(c)]) != SIA_ARGUMENT || ring)
        p->failed++;
}

static void refused_plans(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        problem p = create("rope", cases[1]);
        p.c.batch = (int64_t)i;
        run_ranks(plans[i].ranks, 60, refused_plan, &p);
        assert_int_equal(p.failed, 0);
        for (int r = 0; r < plans[i].ranks; r++) assert_string_equal(p.said[r].text, plans[i].sentence);
        destroy(&p);
    }
    sia_ring *ring;
    sia_error err;
    problem p = create("rope", cases[1]);
    sia_ring_plan plan = {.batch = 1, .length = 64};
    assert_int_equal(sia_ring_create(NULL, p.a, NULL, &plan, &err), SIA_ARGUMENT);
    assert_int_equal(sia_ring_create(&ring, NULL, NULL, &plan, &err), SIA_ARGUMENT);
    assert_int_equal(sia_ring_create(&ring, p.a, NULL, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "ring: want an attention, a plan and a place for the result, got NULL");
    assert_int_equal(sia_ring_create(&ring, p.a, NULL, NULL, NULL), SIA_ARGUMENT);
    sia_ring_destroy(NULL);
    destroy(&p);
    static const int no_rank[][2] = {{0, 0}, {-1, 0}, {2, 2}, {2, -1}};
    for (size_t i = 0; i < sizeof no_rank / sizeof *no_rank; i++) {
        sia_ring_part none = sia_ring_part_of(64, no_rank[i][0], no_rank[i][1]);
        assert_int_equal(none.count[0] + none.count[1], 0);
    }
    assert_int_equal(sia_ring_part_of(-1, 2, 0).count[1], 0);
    assert_int_equal(sia_ring_part_of(SIA_MAX_POSITION + 1, 2, 0).count[1], 0);
    sia_ring_part last = sia_ring_part_of(SIA_MAX_POSITION, INT32_MAX, 0);
    assert_int_equal(last.first[1] + last.count[1], SIA_MAX_POSITION);
}

/* Calls of a ring of one process, of two sequences of 8 positions, heads 2, head_dim 8. */
enum { CALL_FLOATS = 2 * 8 * 2 * 8 };
static float some[CALL_FLOATS], result[CALL_FLOATS], per_head[32];
#define GOOD .q = some, .k = some, .v = some, .out = result

static const struct {
    const char *scheme;
    int64_t batch;
    sia_forward io;
    const char *sentence;
} forwards[] = {
    {"si", 0, {GOOD}, "batch 0: want 1 to 2, as planned"},
    {"si", 3, {GOOD}, "batch 3: want 1 to 2, as planned"},
    {"si", 2, {.k = some, .v = some, .out = result}, "q: NULL, want an array"},
    {"si", 2, {.q = some, .v = some, .out = result}, "k: NULL, want an array"},
    {"si", 2, {.q = some, .k = some, .out = result}, "v: NULL, want an array"},
    {"si", 2, {.q = some, .k = some, .v = some}, "out: NULL, want an array"},
    {"si", 2, {GOOD, .logn = per_head}, "logn: given, but scheme si+nope has no logn"},
    {"logn+rope", 2, {GOOD}, "logn: NULL, want one number for each head with scheme logn+rope"},
    {"si", 2, {GOOD, .entropy = per_head}, "entropy: given, but a ring has no statistics"},
    {"si", 2, {GOOD, .mass = per_head}, "mass: given, but a ring has no statistics"},
    {"si", 2, {GOOD, .q_stride = 32}, "q_stride 32: a ring wants dense arrays, 16 or 0"},
    {"si",
     2,
     {GOOD, .k_stride = -16},
     "k_stride -16: want at least a row, 16, and at most 2^32, or 0 for dense"},
    {"si", 2, {GOOD, .v_stride = 24}, "v_stride 24: a ring wants dense arrays, 16 or 0"},
    {"si", 2, {GOOD, .out_stride = 17}, "out_stride 17: a ring wants dense arrays, 16 or 0"},
    {"si", 2, {GOOD, .q_stride = 16, .k_stride = 16, .v_stride = 16, .out_stride = 16}, ""},
};

static sia_ring *ring_of_one(problem *p, const char *scheme, int backward) {
    sia_ring *ring;
    sia_error err;
    *p = create(scheme, (ring_case){1, 2, 2, 8, 2, 8, 0});
    sia_ring_plan plan = {.batch = 2, .length = 8, .backward = backward};
    if (sia_ring_create(&ring, p->a, NULL, &plan, &err)) fail_msg("%s", err.text);
    assert_int_equal(sia_ring_positions(ring), 8);
    return ring;
}

static void refused_forwards(void **state) {
    (void)state;
    problem p;
    sia_error err;
    for (size_t i = 0; i < sizeof forwards / sizeof *forwards; i++) {
        sia_ring *ring = ring_of_one(&p, forwards[i].scheme, 0);
        bool good = !*forwards[i].sentence;
        err.text[0] = 0;
        result[0] = 42;
        assert_int_equal(sia_ring_forward(ring, forwards[i].batch, &forwards[i].io, &err),
                         good ? SIA_OK : SIA_ARGUMENT);
        assert_string_equal(err.text, forwards[i].sentence);
        assert_true(good || result[0] == 42);
        sia_ring_destroy(ring);
        destroy(&p);
    }
    sia_ring *ring = ring_of_one(&p, "si", 0);
    assert_int_equal(sia_ring_forward(NULL, 1, &(sia_forward){GOOD}, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "ring: NULL");
    assert_int_equal(sia_ring_forward(ring, 1, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "io: NULL, want the struct of the call's arrays");
    assert_int_equal(sia_ring_forward(ring, 1, NULL, NULL), SIA_ARGUMENT);
    sia_ring_destroy(ring);
    destroy(&p);
}

static void refused_backwards(void **state) {
    (void)state;
    static const sia_backward good = {.q = some,
                                      .k = some,
                                      .v = some,
                                      .out = some,
                                      .lse = per_head,
                                      .d_out = some,
                                      .d_q = result,
                                      .d_k = result,
                                      .d_v = result};
    static const size_t needed[] = {
        offsetof(sia_backward, q),   offsetof(sia_backward, k),   offsetof(sia_backward, v),
        offsetof(sia_backward, out), offsetof(sia_backward, lse), offsetof(sia_backward, d_out),
        offsetof(sia_backward, d_q), offsetof(sia_backward, d_k), offsetof(sia_backward, d_v)};
    problem p, q;
    sia_error err;
    sia_ring *ring = ring_of_one(&p, "si", 1), *forward_only = ring_of_one(&q, "si", 0);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        sia_backward io = good;
        memset((char *)&io + needed[i], 0, sizeof(void *));
        assert_int_equal(sia_ring_backward(ring, 2, &io, &err), SIA_ARGUMENT);
        assert_non_null(strstr(err.text, ": NULL, want an array"));
    }
    sia_backward io = good;
    io.d_logn = per_head;
    assert_int_equal(sia_ring_backward(ring, 2, &io, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "d_logn: given, but scheme si+nope has no logn");
    io = good;
    io.v_stride = 1;
    assert_int_equal(sia_ring_backward(ring, 2, &io, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "v_stride 1: want at least a row, 16, and at most 2^32, or 0 for dense");
    assert_int_equal(sia_ring_backward(ring, 3, &good, &err), SIA_ARGUMENT);
    assert_int_equal(sia_ring_backward(NULL, 1, &good, &err), SIA_ARGUMENT);
    assert_int_equal(sia_ring_backward(ring, 1, NULL, &err), SIA_ARGUMENT);
    assert_int_equal(sia_ring_backward(forward_only, 1, &good, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "ring: its plan has no backward pass");
    assert_int_equal(sia_ring_backward(ring, 2, &good, &err), SIA_OK);
    sia_ring_destroy(ring);
    sia_ring_destroy(forward_only);
    destroy(&p);
    destroy(&q);
}

/* ------------------------------------------------------------------------------------------------ failures */

static sia_status one_forward(sia_ring *ring, const problem *p, sia_error *err) {
    int64_t floats = p->c.batch * sia_ring_positions(ring) * p->c.heads * p->c.head_dim;
    float *x = calloc((size_t)floats, sizeof *x), *out = calloc((size_t)floats, sizeof *out);
    sia_status status =
        x && out ? sia_ring_forward(ring, p->c.batch, &(sia_forward){.q = x, .k = x, .v = x, .out = out}, err)
                 : SIA_MEMORY;
    free(x);
    free(out);
    return status;
}

/* Rank 2 plans for another length, or has another setting: all ranks say so, at once and each time. */
static void asked_differently(sia_comm *c, void *context) {
    problem *p = context;
    int rank = sia_comm_rank(c);
    sia_attention *other;
    sia_attention_config config = *sia_attention_settings(p->a);
    sia_ring_plan plan = {.batch = 1, .length = 64};
    config.tau = 11;
    if (sia_attention_create(&other, "si", &config, &p->said[rank])) abort();
    for (int what = 0; what < 2; what++) {
        sia_ring *ring;
        bool odd = rank == 2;
        plan.length = odd && what == 0 ? 66 : 64;
        if (sia_ring_create(&ring, odd && what == 1 ? other : p->a, c, &plan, &p->said[rank])) abort();
        for (int again = 0; again < 2; again++)
            if (one_forward(ring, p, &p->said[rank]) != SIA_ARGUMENT) p->failed++;
        sia_ring_destroy(ring);
    }
    sia_attention_destroy(other);
}

static void different_plans(void **state) {
    (void)state;
    problem p = create("si", (ring_case){4, 1, 1, 8, 1, 64, 0});
    run_ranks(4, 60, asked_differently, &p);
    assert_int_equal(p.failed, 0);
    for (int r = 0; r < 4; r++)
        assert_string_equal(p.said[r].text,
                            "ring: rank 2 was given another scheme, setting or plan than rank 0");
    destroy(&p);
}

/* Rank 2 has another number in one field of its configuration: every one of them is compared. */
typedef struct other_setting {
    problem p;
    sia_attention_config config;
} other_setting;

static void set_differently(sia_comm *c, void *context) {
    other_setting *o = context;
    int rank = sia_comm_rank(c);
    sia_attention *mine = NULL;
    sia_ring *ring;
    sia_error *err = &o->p.said[rank];
    sia_ring_plan plan = {.batch = 1, .length = 64};
    if (rank == 2 && sia_attention_create(&mine, "si", &o->config, err)) abort();
    if (sia_ring_create(&ring, mine ? mine : o->p.a, c, &plan, err)) abort();
    if (one_forward(ring, &o->p, err) != SIA_ARGUMENT) o->p.failed++;
    sia_ring_destroy(ring);
    sia_attention_destroy(mine);
}

static void expect_refused(other_setting *o, const char *field) {
    run_ranks(3, 60, set_differently, o);
    if (o->p.failed) fail_msg("%s: another value on rank 2, and the ring did not refuse it", field);
}

static void different_settings(void **state) {
    (void)state;
    other_setting o = {.p = create("si", (ring_case){3, 2, 2, 8, 1, 64, 0})};
    const sia_attention_config same = *sia_attention_settings(o.p.a);
    char field[32];
    /* All that lies there, so that a real that is new is among them. */
    for (size_t at = offsetof(sia_attention_config, tau); at < offsetof(sia_attention_config, pairs);
         at += sizeof(double)) {
        double value;
        o.config = same;
        memcpy(&value, (char *)&o.config + at, sizeof value);
        value *= 1 + 1e-15;
        memcpy((char *)&o.config + at, &value, sizeof value);
        (void)snprintf(field, sizeof field, "the real at byte %zu", at);
        expect_refused(&o, field);
    }
    const struct {
        const char *field;
        sia_attention_config config;
    } others[] = {
        {"heads", {.heads = 4, .kv_heads = 2, .head_dim = 8, .train_len = 32, .eval_len = 64}},
        {"kv_heads", {.heads = 2, .kv_heads = 1, .head_dim = 8, .train_len = 32, .eval_len = 64}},
        {"head_dim", {.heads = 2, .head_dim = 16, .train_len = 32, .eval_len = 64}},
        {"train_len", {.heads = 2, .head_dim = 8, .train_len = 33, .eval_len = 64, .prope_base = 8}},
        {"eval_len", {.heads = 2, .head_dim = 8, .train_len = 32, .eval_len = 65}},
        {"pairs", {.heads = 2, .head_dim = 8, .train_len = 32, .eval_len = 64, .pairs = SIA_PAIRS_ADJACENT}}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        o.config = others[i].config;
        o.config.threads = 1;
        expect_refused(&o, others[i].field);
    }
    destroy(&o.p);
}

/* Rank 1 is gone after the first pass. Who waits for it says so in time; then the ring is of no more use. */
static void one_gone(sia_comm *c, void *context) {
    problem *p = context;
    int rank = sia_comm_rank(c);
    sia_ring *ring;
    sia_error *err = &p->said[rank];
    if (sia_ring_create(&ring, p->a, c, &(sia_ring_plan){.batch = 1, .length = 64}, err)) abort();
    if (one_forward(ring, p, err)) p->failed++;
    (void)sia_comm_set_timeout(c, 0.3);
    if (rank != 1) {
        if (one_forward(ring, p, err) != SIA_LOST) p->failed++;
        sia_error then;
        if (one_forward(ring, p, &then) != SIA_ARGUMENT ||
            strcmp(then.text, "ring: an earlier pass failed") != 0)
            p->failed++;
    }
    sia_ring_destroy(ring);
}

static void lost(void **state) {
    (void)state;
    problem p = create("si", (ring_case){3, 1, 1, 8, 1, 64, 0});
    run_ranks(3, 60, one_gone, &p);
    assert_int_equal(p.failed, 0);
    const char *wanted = "rank 1 of 3 has not answered for "; /* 0 s, or more on a busy machine */
    assert_memory_equal(p.said[2].text, wanted, strlen(wanted));
    destroy(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_split),          cmocka_unit_test(every_scheme),
        cmocka_unit_test(same_bits),          cmocka_unit_test(memory),
        cmocka_unit_test(refused_plans),      cmocka_unit_test(refused_forwards),
        cmocka_unit_test(refused_backwards),  cmocka_unit_test(different_plans),
        cmocka_unit_test(different_settings), cmocka_unit_test(lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
