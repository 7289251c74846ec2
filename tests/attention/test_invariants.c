/* SPDX-License-Identifier: MIT
 *
 * What the header promises beyond the numbers: the same bits for any number of threads, chunks that equal the
 * whole, NaNs that stay where they belong, extremes, strides, a workspace that is not overrun, tables that
 * grow under use. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "position/table.h"
#include "problem.h"
#include "sanitizers.h"

static const double FORWARD_BOUND = 2e-5, GRADIENT_BOUND = 1e-4;

/* Sanitizers put guards around what is on the stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SMALL_STACK = 1 << 20 };
#else
enum { SMALL_STACK = 128 << 10 };
#endif

static void same_floats(const tensor *x, const tensor *y) {
    assert_int_equal(x->count, y->count);
    assert_memory_equal(x->f, y->f, (size_t)x->count * sizeof(float));
    for (int64_t i = 0; i < x->count; i++) assert_false(isnan(x->f[i])); /* what was not written is */
}

static void threads_same_bits(void **state) {
    (void)state;
    const int threads[] = {1, 2, 3, 8};
    /* In the third, a task has 384, 192 or 96 queries, as there are threads; in the fourth, 192 keys; the last has
       groups left over when the backward pass takes as many at a time as there are threads. */
    const shape shapes[] = {{3, 1, 64, {.q_len = 500, .k_len = 500}},
                            {1, 1, 40, {.q_len = 333, .k_len = 333}},
                            {4, 2, 16, {.q_len = 800, .k_len = 800}},
                            {1, 1, 8, {.q_len = 2100, .k_len = 2100}},
                            {5, 5, 8, {.q_len = 1030, .k_len = 1030}}};
    FOR_EACH_ISA (kernel)
        for (int s = 0; s < 5; s++) {
            problem reference = {0};
            for (int i = 0; i < 4; i++) {
                sia_attention_config config = {.threads = threads[i]};
                problem p = problem_create("logn+si+prope", shapes[s], &config, 30, 1);
                problem_statistics(&p);
                problem_backward(&p);
                if (i == 0) {
                    reference = p;
                    continue;
                }
                same_floats(&p.out, &reference.out);
                same_floats(&p.lse, &reference.lse);
                same_floats(&p.entropy, &reference.entropy);
                same_floats(&p.mass, &reference.mass);
                same_floats(&p.d_q, &reference.d_q);
                same_floats(&p.d_k, &reference.d_k);
                same_floats(&p.d_v, &reference.d_v);
                same_floats(&p.d_s, &reference.d_s);
                problem_destroy(&p);
            }
            problem_destroy(&reference);
        }
}

/* Statistics beside the output change none of its bits, nor does one of them those of the other. With them the kernels
 * always look for the largest logit of a row; without, they need not where logits are near 0 (forward.h). From 2 on, such
 * rows have weights that are large for a float, and from 3.5 on, logits are too far. */
static void statistics_same_bits(void **state) {
    (void)state;
    const char *const schemes[] = {"nope", "si+prope", "alibi", "logn+rope"};
    const double sizes[] = {1e-3, 1, 2, 2.5, 3, 3.5, 10};
    const shape shapes[] = {{1, 1, 64, {.q_len = 300, .k_len = 300}},
                            {1, 1, 40, {.q_len = 120, .k_len = 300, .q_pos = 40, .k_pos = 50}}};
    FOR_EACH_ISA (kernel)
        for (int scheme = 0; scheme < 4; scheme++)
            for (int size = 0; size < 7; size++)
                for (int i = 0; i < 2; i++) {
                    problem all = problem_create(schemes[scheme], shapes[i], NULL, 33, sizes[size]);
                    for (int with = 3; with >= 0; with--) { /* both, mass, entropy, none */
                        problem p = problem_create(schemes[scheme], shapes[i], NULL, 33, sizes[size]);
                        problem *to = with == 3 ? &all : &p;
                        sia_forward io = {.q = p.q.f,
                                          .k = p.k.f,
                                          .v = p.v.f,
                                          .logn = p.logn ? p.s.f : NULL,
                                          .out = to->out.f,
                                          .lse = to->lse.f,
                                          .entropy = with & 1 ? to->entropy.f : NULL,
                                          .mass = with & 2 ? to->mass.f : NULL};
                        assert_int_equal(sia_attention_forward(p.a, p.shape.span, &io, NULL, NULL), SIA_OK);
                        same_floats(&to->out, &all.out);
                        same_floats(&to->lse, &all.lse);
                        if (with & 1) same_floats(&to->entropy, &all.entropy);
                        if (with & 2) same_floats(&to->mass, &all.mass);
                        problem_destroy(&p);
                    }
                    problem_destroy(&all);
                }
}

/* A row has the same bits whatever stands where it does not see, with any number of threads, and with statistics: also
 * where weights or products are near the ends of float. */
enum { SEEING_HEADS = 4, SEEING_ROWS = 400, UNSEEN = 300, SEEING_DIM = 8 };

/* Keys with this logit and up to four spreads of it more; the key at UNSEEN, or 0: like the others. */
static void set_logits(problem *p, float logit, float spread, float value, float unseen) {
    for (int64_t i = 0; i < p->q.count; i++) {
        int64_t row = i / (SEEING_HEADS * SEEING_DIM);
        float other = 1 + spread * (float)(row % 5);
        p->q.f[i] = i % SEEING_DIM ? 0 : (float)sqrt(SEEING_DIM);
        p->k.f[i] = i % SEEING_DIM ? 0 : row == UNSEEN && unseen != 0 ? unseen : logit * other;
        p->v.f[i] = value * (1 + (float)(i % 7));
    }
}

static void rows_depend_on_what_they_see(void **state) {
    (void)state;
    const struct {
        float unseen;
        bool threads, statistics;
    } runs[] = {{0, false, false},   {0, true, false},         {0, false, true},    {1e10f, false, false},
                {NAN, false, false}, {INFINITY, false, false}, {1e10f, false, true}};
    const float logits[] = {-87, -86.2f, -85, -70.3f, -45, -21, -11.2f, 0, 18.5f, 21, 87},
                values[] = {1e-40f, 1e-36f, 1, 1e28f, 1e31f}, spreads[] = {0.001f, 0.05f, -0.5f};
    enum { SPREADS = sizeof spreads / sizeof *spreads, LOGITS = sizeof logits / sizeof *logits };
    const size_t cases = SPREADS * LOGITS * (sizeof values / sizeof *values);
    const shape s = {SEEING_HEADS, SEEING_HEADS, SEEING_DIM, {.q_len = SEEING_ROWS, .k_len = SEEING_ROWS}};
    FOR_EACH_ISA (kernel) {
        problem one = problem_create("nope", s, NULL, 34, 1),
                reference = problem_create("nope", s, NULL, 34, 1),
                many = problem_create("nope", s, &(sia_attention_config){.threads = 4}, 34, 1);
        for (size_t c = 0; c < cases; c++)
            for (size_t run = 0; run < sizeof runs / sizeof *runs; run++) {
                problem *p = run == 0 ? &reference : runs[run].threads ? &many : &one;
                set_logits(p, logits[c / SPREADS % LOGITS], spreads[c % SPREADS],
                           values[c / SPREADS / LOGITS], runs[run].unseen);
                sia_forward io = problem_forward_io(p, runs[run].statistics);
                assert_int_equal(sia_attention_forward(p->a, s.span, &io, NULL, NULL), SIA_OK);
                p->out.count = UNSEEN * SEEING_HEADS * SEEING_DIM;
                p->lse.count = UNSEEN * SEEING_HEADS;
                same_floats(&p->out, &reference.out);
                same_floats(&p->lse, &reference.lse);
            }
        problem_destroy(&one);
        problem_destroy(&reference);
        problem_destroy(&many);
    }
}

/* A sequence in chunks of queries, each with all the keys before it, equals the whole. */
static void chunks_equal_the_whole(void **state) {
    (void)state;
    const int64_t n = 300, chunk = 77;
    FOR_EACH_ISA (kernel)
        for (const char *const *scheme = sia_scheme_list(); *scheme; scheme++) {
            problem p = problem_create(*scheme, (shape){2, 1, 48, {.q_len = n, .k_len = n}}, NULL, 31, 1);
            problem_oracle(&p, false);
            sia_error err;
            for (int64_t first = 0; first < n; first += chunk) {
                int64_t rows = n - first < chunk ? n - first : chunk, at = first * 2 * 48;
                sia_span span = {.q_len = rows, .k_len = first + rows, .q_pos = first};
                sia_forward io = {.q = p.q.f + at,
                                  .k = p.k.f,
                                  .v = p.v.f,
                                  .logn = p.logn ? p.s.f : NULL,
                                  .out = p.out.f + at};
                if (sia_attention_forward(p.a, span, &io, NULL, &err)) fail_msg("%s", err.text);
            }
            assert_true(tensor_error(&p.out) < FORWARD_BOUND);
            problem_destroy(&p);
        }
}

/* Two halves of the keys, merged by their row sums, equal the whole: what a ring of machines does. */
static void halves_merge(void **state) {
    (void)state;
    enum { N = 200, D = 32, CUT = 90 };
    problem p = problem_create("si+prope", (shape){1, 1, D, {.q_len = N, .k_len = N}}, NULL, 32, 1);
    problem_oracle(&p, false);
    float out[2][N * D], lse[2][N];
    sia_error err;
    for (int half = 0; half < 2; half++) {
        sia_span span = {.q_len = N, .k_len = half ? N - CUT : CUT, .k_pos = half ? CUT : 0};
        sia_forward io = {.q = p.q.f,
                          .k = p.k.f + half * CUT * D,
                          .v = p.v.f + half * CUT * D,
                          .out = out[half],
                          .lse = lse[half]};
        if (sia_attention_forward(p.a, span, &io, NULL, &err)) fail_msg("%s", err.text);
    }
    for (int i = 0; i < N; i++) {
        assert_true(i >= CUT || lse[1][i] == -INFINITY);
        double whole = lse[0][i] + log1p(exp((double)lse[1][i] - lse[0][i])), w0 = exp(lse[0][i] - whole),
               w1 = exp(lse[1][i] - whole);
        for (int j = 0; j < D; j++)
            p.out.f[i * D + j] = (float)(w0 * out[0][i * D + j] + w1 * out[1][i * D + j]);
    }
    assert_true(tensor_error(&p.out) < FORWARD_BOUND);
    problem_destroy(&p);
}

/* Rows [0, from) of a tensor with `width` floats a row are finite; `at` says what the others are. */
static void check_finite(const tensor *t, int64_t width, int64_t from, int64_t to, bool finite,
                         const char *name) {
    for (int64_t i = from * width; i < to * width; i++)
        if ((isfinite(t->f[i]) != 0) != finite)
            fail_msg("%s row %lld is %g, want it %s", name, (long long)(i / width), (double)t->f[i],
                     finite ? "finite" : "not finite");
}

static void nan_stays(void **state) {
    (void)state;
    enum { N = 230, D = 24, ROW = 101 };
    const float bad[] = {NAN, INFINITY, -INFINITY};
    FOR_EACH_ISA (kernel)
        for (int kind = 0; kind < 3; kind++)
            for (int where = 0; where < 4; where++) {
                problem p =
                    problem_create("si+prope", (shape){1, 1, D, {.q_len = N, .k_len = N}}, NULL, 33, 1);
                tensor *input[] = {&p.q, &p.k, &p.v, &p.d_out};
                float payload; /* a NaN that carries a number, too */
                memcpy(&payload, &(uint32_t){0x7fc00001}, 4);
                for (int j = 0; j < D; j++)
                    input[where]->f[ROW * D + j] = j == 3 ? bad[kind] : j == 4 && kind == 0 ? payload : 0;
                problem_forward(&p);
                check_finite(&p.out, D, 0, ROW, true, "out");
                if (where == 0) check_finite(&p.out, D, ROW + 1, N, true, "out after a NaN in q");
                if (where == 0 && kind == 0)
                    check_finite(&p.out, D, ROW, ROW + 1, false, "out of a NaN in q");
                if (where == 1 && kind == 0) check_finite(&p.out, D, ROW, N, false, "out of a NaN in k");
                if (where == 2)
                    for (int64_t i = ROW; i < N; i++) assert_false(isfinite(p.out.f[i * D + 3]));
                problem_backward(&p);
                check_finite(&p.d_q, D, 0, ROW, true, "d_q");
                if (where == 0 || where == 3) { /* the query's own row, and the keys that it sees */
                    check_finite(&p.d_q, D, ROW + 1, N, true, "d_q");
                    check_finite(&p.d_k, D, ROW + 1, N, true, "d_k");
                    check_finite(&p.d_v, D, ROW + 1, N, true, "d_v");
                }
                problem_destroy(&p);
            }
}

static void extremes(void **state) {
    (void)state;
    const double sizes[] = {0, 1e-30, 1e-20, 30, 1e3, 1e15};
    FOR_EACH_ISA (kernel)
        for (int i = 0; i < 6; i++) {
            problem p =
                problem_create("nope", (shape){1, 1, 32, {.q_len = 150, .k_len = 150}}, NULL, 34, sizes[i]);
            problem_oracle(&p, true);
            problem_forward(&p);
            problem_backward(&p);
            check_finite(&p.out, 1, 0, p.out.count, true, "out");
            check_finite(&p.d_q, 1, 0, p.d_q.count, true, "d_q");
            check_finite(&p.d_k, 1, 0, p.d_k.count, true, "d_k");
            /* Logits of 1e4 and more carry their own rounding: an error of 1e-7 of them is one of 1e-3 in the
             * weight. */
            if (sizes[i] <= 30) assert_true(tensor_error(&p.out) < 1e-3);
            if (sizes[i] <= 1) assert_true(tensor_error(&p.out) < FORWARD_BOUND);
            problem_destroy(&p);
        }
    /* Logits of exactly +-1e4: the largest takes all. */
    FOR_EACH_ISA (kernel) {
        problem p = problem_create("nope", (shape){1, 1, 16, {.q_len = 40, .k_len = 40}}, NULL, 35, 0);
        for (int i = 0; i < 40; i++) {
            p.q.f[i * 16] = 200;
            p.k.f[i * 16] = i % 7 == 3 ? 200 : -200; /* S = 40000 / sqrt(16) */
            p.q.d[i * 16] = p.q.f[i * 16];
            p.k.d[i * 16] = p.k.f[i * 16];
        }
        problem_oracle(&p, true);
        problem_forward(&p);
        problem_backward(&p);
        assert_true(tensor_error(&p.out) < FORWARD_BOUND);
        assert_true(tensor_error(&p.lse) < FORWARD_BOUND);
        /* The backward pass knows the row sum as a float: its logarithm, 1e4, is known to 5e-4, and so is
         * each weight. */
        assert_true(tensor_error(&p.d_v) < 1e-3);
        problem_destroy(&p);
    }
}

/* q, k, v side by side in one array, as one matrix product leaves them; gradients into the same layout. */
static void strides(void **state) {
    (void)state;
    enum { N = 70, H = 2, D = 16, ROW = 3 * H * D };
    FOR_EACH_ISA (kernel) {
        problem p =
            problem_create("si+rope", (shape){H, H, D, {.q_len = N, .k_len = N, .batch = 2}}, NULL, 36, 1);
        problem_forward(&p);
        problem_backward(&p);
        float *x = calloc(2 * N * ROW, sizeof(float)), *dx = calloc(2 * N * ROW, sizeof(float)),
              *out = calloc(2 * N * ROW, sizeof(float));
        float *d_out = calloc(2 * N * ROW, sizeof(float));
        for (int i = 0; i < 2 * N; i++) {
            memcpy(x + i * ROW, p.q.f + i * H * D, H * D * sizeof(float));
            memcpy(x + i * ROW + H * D, p.k.f + i * H * D, H * D * sizeof(float));
            memcpy(x + i * ROW + 2 * H * D, p.v.f + i * H * D, H * D * sizeof(float));
            memcpy(d_out + i * ROW, p.d_out.f + i * H * D, H * D * sizeof(float));
        }
        sia_error err;
        float lse[2 * N * H];
        sia_forward f = {.q = x,
                         .k = x + H * D,
                         .v = x + 2 * H * D,
                         .out = out,
                         .lse = lse,
                         .q_stride = ROW,
                         .k_stride = ROW,
                         .v_stride = ROW,
                         .out_stride = ROW};
        if (sia_attention_forward(p.a, p.shape.span, &f, NULL, &err)) fail_msg("%s", err.text);
        sia_backward b = {.q = x,
                          .k = x + H * D,
                          .v = x + 2 * H * D,
                          .out = out,
                          .lse = lse,
                          .d_out = d_out,
                          .d_q = dx,
                          .d_k = dx + H * D,
                          .d_v = dx + 2 * H * D,
                          .q_stride = ROW,
                          .k_stride = ROW,
                          .v_stride = ROW,
                          .out_stride = ROW};
        if (sia_attention_backward(p.a, p.shape.span, &b, NULL, &err)) fail_msg("%s", err.text);
        for (int i = 0; i < 2 * N; i++) {
            assert_memory_equal(out + i * ROW, p.out.f + i * H * D, H * D * sizeof(float));
            assert_memory_equal(dx + i * ROW, p.d_q.f + i * H * D, H * D * sizeof(float));
            assert_memory_equal(dx + i * ROW + H * D, p.d_k.f + i * H * D, H * D * sizeof(float));
            assert_memory_equal(dx + i * ROW + 2 * H * D, p.d_v.f + i * H * D, H * D * sizeof(float));
        }
        free(x);
        free(dx);
        free(out);
        free(d_out);
        problem_destroy(&p);
    }
}

/* Every byte of a borrowed workspace may hold anything, and none beyond it is touched. */
static void borrowed_workspace(void **state) {
    (void)state;
    enum { GUARD = 4096, FINITE = 0x3e }; /* a NaN that is scaled stays what it is; 0.186 does not */
    /* One thread, whose part is the last; tasks of as many queries and of as many keys as there may be. */
    const shape shapes[] = {{8, 1, 40, {.q_len = 400, .k_len = 400}},
                            {1, 1, 8, {.q_len = 2100, .k_len = 2100}}};
    FOR_EACH_ISA (kernel)
        for (int s = 0; s < 2; s++) {
            sia_attention_config config = {.threads = 1};
            problem p = problem_create("logn+rope", shapes[s], &config, 37, 1);
            problem_oracle(&p, true);
            size_t bytes[2] = {sia_attention_workspace(p.a, p.shape.span, SIA_PASS_FORWARD),
                               sia_attention_workspace(p.a, p.shape.span, SIA_PASS_BACKWARD)};
            size_t most = bytes[0] > bytes[1] ? bytes[0] : bytes[1];
            unsigned char *work = sia_alloc(most + GUARD, 1);
            for (int pass = 0; pass < 2; pass++) {
                memset(work, 0xff, bytes[pass]); /* NaNs */
                memset(work + bytes[pass], FINITE, most + GUARD - bytes[pass]);
                if (pass == 0) {
                    sia_forward f = problem_forward_io(&p, true);
                    assert_int_equal(sia_attention_forward(p.a, p.shape.span, &f, work, NULL), SIA_OK);
                } else {
                    sia_backward b = problem_backward_io(&p);
                    assert_int_equal(sia_attention_backward(p.a, p.shape.span, &b, work, NULL), SIA_OK);
                }
                for (size_t i = bytes[pass]; i < most + GUARD; i++) assert_int_equal(work[i], FINITE);
            }
            assert_true(tensor_error(&p.out) < FORWARD_BOUND);
            assert_true(tensor_error(&p.entropy) < FORWARD_BOUND && tensor_error(&p.mass) < FORWARD_BOUND);
            assert_true(tensor_error(&p.d_q) < GRADIENT_BOUND);
            assert_true(tensor_error(&p.d_k) < GRADIENT_BOUND);
            sia_free(work);
            problem_destroy(&p);
        }
}

/* A backward pass needs no forward pass of the same object: its tables grow to the later of the two ends. */
static void backward_alone(void **state) {
    (void)state;
    const shape shapes[] = {{2, 1, 16, {.q_len = 20, .k_len = 30, .q_pos = 5000, .k_pos = 13}},
                            {2, 1, 16, {.q_len = 20, .k_len = 5000}}};
    for (int i = 0; i < 2; i++) {
        problem p = problem_create("si+rope", shapes[i], NULL, 38, 1);
        problem_oracle(&p, true);
        problem_forward(&p);
        sia_attention_config config = *sia_attention_settings(p.a);
        sia_attention_destroy(p.a);
        assert_int_equal(sia_attention_create(&p.a, "si+rope", &config, NULL), SIA_OK);
        problem_backward(&p);
        assert_true(tensor_error(&p.d_q) < GRADIENT_BOUND && tensor_error(&p.d_k) < GRADIENT_BOUND &&
                    tensor_error(&p.d_v) < GRADIENT_BOUND);
        problem_destroy(&p);
    }
}

/* Angles are kept for the first SIA_ROTARY_FINE positions and for every such number of them: the last position of tables
 * that end beside one. */
static void ends_of_tables(void **state) {
    (void)state;
    for (int64_t blocks = 20; blocks < 60; blocks += 13)
        for (int64_t length = blocks * SIA_ROTARY_FINE - 1; length <= blocks * SIA_ROTARY_FINE + 1;
             length++) {
            assert_true(length > 1024); /* the shortest table */
            shape s = {1, 1, 16, {.q_len = 3, .k_len = 3, .q_pos = length - 3, .k_pos = length - 3}};
            problem p = problem_create("rope", s, NULL, 40, 1);
            problem_oracle(&p, false);
            problem_forward(&p);
            assert_true(tensor_error(&p.out) < FORWARD_BOUND);
            problem_destroy(&p);
        }
}

/* Keys are packed 256 at a time: lengths around multiples of that, for several groups in a workspace that is full of NaNs. */
static void lengths_of_chunks(void **state) {
    (void)state;
    const int64_t lengths[] = {1022, 1023, 1024, 1025, 2047, 2048};
    for (int i = 0; i < 6; i++) {
        int64_t n = lengths[i];
        shape s = {2, 2, 8, {.batch = 2, .q_len = 3, .k_len = n, .q_pos = n - 3}};
        problem p = problem_create("si", s, NULL, 39, 1);
        problem_oracle(&p, false);
        size_t bytes = sia_attention_workspace(p.a, s.span, SIA_PASS_FORWARD);
        unsigned char *work = sia_alloc(bytes + 64, 1);
        memset(work, 0xff, bytes + 64);
        sia_forward io = problem_forward_io(&p, false);
        assert_int_equal(sia_attention_forward(p.a, s.span, &io, work, NULL), SIA_OK);
        assert_true(tensor_error(&p.out) < FORWARD_BOUND && tensor_error(&p.lse) < FORWARD_BOUND);
        for (size_t j = bytes; j < bytes + 64; j++) assert_int_equal(work[j], 0xff);
        sia_free(work);
        problem_destroy(&p);
    }
}

static void memory_is_linear(void **state) {
    (void)state;
    sia_attention *a;
    sia_attention_config config = {.heads = 4, .head_dim = 64, .threads = 2};
    assert_int_equal(sia_attention_create(&a, "si+prope", &config, NULL), SIA_OK);
    for (int pass = 0; pass < 2; pass++) {
        double one =
            (double)sia_attention_workspace(a, (sia_span){.q_len = 16384, .k_len = 16384}, (sia_pass)pass);
        double four =
            (double)sia_attention_workspace(a, (sia_span){.q_len = 65536, .k_len = 65536}, (sia_pass)pass);
        assert_true(four / one < 4.01);
    }
    sia_attention_destroy(a);
}

/* A forward pass holds the packed keys and values of a few heads, however many there are. */
static void memory_of_heads(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        size_t bytes[2];
        for (int many = 0; many < 2; many++) {
            sia_attention *a;
            sia_attention_config config = {.heads = many ? 64 : 8, .head_dim = 64, .threads = threads};
            assert_int_equal(sia_attention_create(&a, "nope", &config, NULL), SIA_OK);
            bytes[many] =
                sia_attention_workspace(a, (sia_span){.q_len = 4096, .k_len = 4096}, SIA_PASS_FORWARD);
            sia_attention_destroy(a);
        }
        assert_true((double)bytes[1] < 1.01 * (double)bytes[0]);
    }
}

/* A short sequence first, then longer ones, with the same object. */
static void tables_grow(void **state) {
    (void)state;
    problem p = problem_create("si+rope", (shape){2, 1, 16, {.q_len = 20, .k_len = 30}}, NULL, 41, 1);
    problem_forward(&p);
    for (int64_t at = 1000; at < 100000; at *= 7) {
        p.shape.span.q_pos = at + 10;
        p.shape.span.k_pos = at % 3 * 13;
        problem_oracle(&p, false);
        problem_forward(&p);
        assert_true(tensor_error(&p.out) < FORWARD_BOUND);
    }
    problem_destroy(&p);
}

/* Several threads share one object while its tables grow. */
static void *grow_and_compute(void *argument) {
    problem *p = argument;
    for (int64_t length = 100; length < 300000; length = length * 3 / 2) {
        float scale[8], bias[8];
        assert_int_equal(sia_attention_tables(p->a, 0, 8, scale, bias, NULL), SIA_OK);
        assert_int_equal(sia_attention_reserve(p->a, length, NULL), SIA_OK);
        problem_forward(p);
    }
    return NULL;
}

static void shared_object(void **state) {
    (void)state;
    enum { WORKERS = 3 };
    problem p[WORKERS];
    pthread_t thread[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        p[i] = problem_create("si+prope", (shape){2, 1, 32, {.q_len = 90, .k_len = 90}}, NULL, 38, 1);
        if (i) {
            sia_attention_destroy(p[i].a);
            p[i].a = p[0].a;
        }
    }
    problem_oracle(&p[0], false);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, grow_and_compute, &p[i]), 0);
    for (int i = 0; i < WORKERS; i++) pthread_join(thread[i], NULL);
    assert_true(tensor_error(&p[0].out) < FORWARD_BOUND);
    for (int i = 1; i < WORKERS; i++) same_floats(&p[i].out, &p[0].out);
    for (int i = WORKERS - 1; i >= 0; i--) {
        if (i) p[i].a = NULL;
        problem_destroy(&p[i]);
    }
}

/* A child that was forked after the threads were started computes with threads of its own. */
static void fork_after_use(void **state) {
    (void)state;
    problem p = problem_create("si+prope", (shape){2, 1, 32, {.q_len = 200, .k_len = 200}}, NULL, 39, 1);
    problem_forward(&p);
    float *before = malloc((size_t)p.out.count * sizeof(float));
    memcpy(before, p.out.f, (size_t)p.out.count * sizeof(float));
    pid_t child = fork();
    if (child == 0) {
        alarm(20); /* a hang is a failure */
        memset(p.out.f, 0, (size_t)p.out.count * sizeof(float));
        problem_forward(&p);
        _exit(memcmp(before, p.out.f, (size_t)p.out.count * sizeof(float)) ? 1 : 0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    free(before);
    problem_destroy(&p);
}

/* Positions beyond eval_len are not refused, and turn at the frequencies of eval_len: those of rope with another base. */
static void beyond_eval_len(void **state) {
    (void)state;
    enum { DIM = 16 };
    const shape shapes[] = {{1, 1, DIM, {.q_len = 200, .k_len = 200}},
                            {1, 1, DIM, {.q_len = 3, .k_len = 5, .q_pos = 1000, .k_pos = 998}}};
    for (int i = 0; i < 2; i++) {
        sia_attention_config ntk = {.threads = 1, .train_len = 32, .eval_len = 64};
        sia_attention_config rope = {.threads = 1, .rotary_base = 10000 * pow(2, (double)DIM / (DIM - 2))};
        problem p = problem_create("rope+ntk", shapes[i], &ntk, 40, 1);
        problem same = problem_create("rope", shapes[i], &rope, 40, 1);
        problem_forward(&p);
        problem_forward(&same);
        same_floats(&p.out, &same.out);
        problem_destroy(&p);
        problem_destroy(&same);
    }
}

/* sia.h says how much of the calling thread's stack attention takes. */
static void *attend_in_every_way(void *problem_) {
    problem *p = problem_;
    problem_statistics(p);
    problem_forward(p);
    problem_backward(p);
    for (int type = 0; type < 3; type++) {
        problem_decode(p, (sia_type)type, 1);
        problem_decode(p, (sia_type)type, 30);
    }
    return NULL;
}

static void small_stack(void **state) {
    (void)state;
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, SMALL_STACK), 0);
    FOR_EACH_ISA (kernel) {
        shape s = {2, 1, 256, {.q_len = 300, .k_len = 300}};
        problem p = problem_create("logn+prope", s, &(sia_attention_config){.threads = 1}, 44, 1);
        assert_int_equal(pthread_create(&thread, &attributes, attend_in_every_way, &p), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        problem_destroy(&p);
    }
    (void)pthread_attr_destroy(&attributes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_same_bits),
        cmocka_unit_test(statistics_same_bits),
        cmocka_unit_test(rows_depend_on_what_they_see),
        cmocka_unit_test(chunks_equal_the_whole),
        cmocka_unit_test(halves_merge),
        cmocka_unit_test(nan_stays),
        cmocka_unit_test(extremes),
        cmocka_unit_test(strides),
        cmocka_unit_test(borrowed_workspace),
        cmocka_unit_test(beyond_eval_len),
        cmocka_unit_test(backward_alone),
        cmocka_unit_test(lengths_of_chunks),
        cmocka_unit_test(ends_of_tables),
        cmocka_unit_test(memory_is_linear),
        cmocka_unit_test(memory_of_heads),
        cmocka_unit_test(tables_grow),
        cmocka_unit_test(shared_object),
        cmocka_unit_test(fork_after_use),
        cmocka_unit_test(small_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
