/* SPDX-License-Identifier: MIT
 *
 * What products in tiles of 16 x 32 might get wrong (kernel/forward_amx.h, backward_amx.h), for every instruction set: from
 * head dimension 32 on, where they begin, at the ends of tiles, of pairs of strips and of blocks of 96, 128 and 192 rows;
 * and rows that go another way for a number in them, among rows that do not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "problem.h"

static const double FORWARD_BOUND = 2e-5, GRADIENT_BOUND = 1e-4;

/* ------------------------------------------------------------------------------------------ shapes */

static void check(const tensor *t, const char *name, double bound, const char *kernel, const problem *p) {
    double error = tensor_error(t);
    const sia_span *s = &p->shape.span;
    if (!(error < bound))
        fail_msg("%s %s: %s of %lld x %lld at %lld and %lld, %d heads of %d: error %.1e, bound %.0e", kernel,
                 p->scheme, name, (long long)s->q_len, (long long)s->k_len, (long long)s->q_pos,
                 (long long)s->k_pos, p->shape.heads, p->shape.head_dim, error, bound);
}

static void check_results(const problem *p, const char *kernel) {
    check(&p->out, "out", FORWARD_BOUND, kernel, p);
    check(&p->lse, "lse", FORWARD_BOUND, kernel, p);
    check(&p->d_q, "d_q", GRADIENT_BOUND, kernel, p);
    check(&p->d_k, "d_k", GRADIENT_BOUND, kernel, p);
    check(&p->d_v, "d_v", GRADIENT_BOUND, kernel, p);
    if (p->logn) check(&p->d_s, "d_logn", GRADIENT_BOUND, kernel, p);
}

static void check_shape(const char *scheme, shape s, uint64_t seed) {
    problem p = problem_create(scheme, s, NULL, seed, 1);
    problem_oracle(&p, true);
    FOR_EACH_ISA (kernel) {
        problem_renew(&p);
        problem_forward(&p);
        problem_backward(&p);
        check_results(&p, kernel->name);
    }
    problem_destroy(&p);
}

static void dimensions_and_lengths(void **state) {
    (void)state;
    const int dims[] = {24, 32, 40, 48, 56, 64, 80, 96, 200, 256};
    const int64_t lengths[] = {2,  15, 17, 31,  32,  33,  47,  48,  49,  63,
                               65, 96, 97, 127, 128, 129, 144, 161, 191, 193};
    for (int d = 0; d < 10; d++)
        for (int n = d % 2; n < 20; n += 2)
            check_shape(n % 3 ? "nope" : "logn+si+prope",
                        (shape){2, n % 4 ? 1 : 2, dims[d], {.q_len = lengths[n], .k_len = lengths[n]}},
                        (uint64_t)n + 100 * (uint64_t)d);
}

/* Few queries and keys, at every distance: queries that see none, some before others that do, rows in no whole pair. */
static void offsets(void **state) {
    (void)state;
    const int64_t q_lens[] = {1, 7, 16, 17, 33, 48}, k_lens[] = {1, 15, 17, 32, 33, 130, 160};
    const int64_t apart[] = {-47, -32, -31, -17, -16, -15, -1, 0, 1, 15, 16, 31, 32, 33, 127, 128, 129, 200};
    uint64_t seed = 0;
    for (int q = 0; q < 6; q++)
        for (int k = 0; k < 7; k++)
            for (int t = 0; t < 18; t++, seed++) {
                if (apart[t] + q_lens[q] <= 0) continue; /* nothing is seen */
                int64_t late = apart[t] < 0 ? -apart[t] : 0;
                sia_span span = {
                    .q_len = q_lens[q], .k_len = k_lens[k], .q_pos = apart[t] + late, .k_pos = late};
                check_shape(seed % 2 ? "nope" : "si", (shape){2, 2, seed % 3 ? 32 : 40, span}, seed);
            }
}

/* ------------------------------------------------------------------------------------------ rows that go another way */

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void same_rows(const problem *p, const problem *clean, int64_t from, int64_t to, const char *kernel,
                      const char *what, float number, int64_t row) {
    int64_t heads = p->shape.heads, d = p->shape.head_dim;
    for (int64_t i = from * heads; i < to * heads; i++)
        if (memcmp(p->out.f + i * d, clean->out.f + i * d, (size_t)d * sizeof(float)) != 0 ||
            bits_of(p->lse.f[i]) != bits_of(clean->lse.f[i]))
            fail_msg("%s: %g in %s of row %lld changes row %lld: out %a, was %a, lse %a, was %a", kernel,
                     (double)number, what, (long long)row, (long long)(i / heads), (double)p->out.f[i * d],
                     (double)clean->out.f[i * d], (double)p->lse.f[i], (double)clean->lse.f[i]);
}

static const float wild_numbers[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 2e18f, 1e-35f, 1e-40f};
enum { WILD_NUMBERS = sizeof wild_numbers / sizeof *wild_numbers };

static void set_number(tensor *t, int64_t i, float x) {
    t->f[i] = x;
    t->d[i] = x;
}

/* Of numbers that are none, or of logits in which nothing but their size is known, no oracle tells. */
static bool is_plain(float x) { return fabsf(x) < 1; }

static void wild_rows_forward(void **state) {
    (void)state;
    enum { LENGTH = 300, HEADS = 2 };
    const int64_t rows[] = {0, 17, 37, 127, 130, 299};
    const int dims[] = {32, 72};
    FOR_EACH_ISA (kernel)
        for (int d = 0; d < 2; d++) {
            shape s = {HEADS, 1, dims[d], {.q_len = LENGTH, .k_len = LENGTH}};
            problem clean = problem_create("si", s, NULL, 73, 1);
            problem p = problem_create("si", s, NULL, 73, 1);
            problem_forward(&clean);
            for (int number = 0; number < WILD_NUMBERS; number++)
                for (int r = 0; r < 6; r++)
                    for (int where = 0; where < 3; where++) {
                        const char *const names[] = {"q", "k", "v"};
                        tensor *x = where == 0 ? &p.q : where == 1 ? &p.k : &p.v;
                        int64_t at = rows[r] * (where ? 1 : HEADS) * dims[d] + 5;
                        float was = x->f[at], bad = wild_numbers[number];
                        set_number(x, at, bad);
                        problem_forward(&p);
                        same_rows(&p, &clean, 0, rows[r], kernel->name, names[where], bad, rows[r]);
                        if (where == 0)
                            same_rows(&p, &clean, rows[r] + 1, LENGTH, kernel->name, "q", bad, rows[r]);
                        if (r % 2 && d == 0 && isfinite(bad) && (where == 2 || is_plain(bad))) {
                            problem_oracle(&p, false);
                            check(&p.out, names[where], FORWARD_BOUND, kernel->name, &p);
                            check(&p.lse, names[where], FORWARD_BOUND, kernel->name, &p);
                        }
                        float after = p.out.f[rows[r] * HEADS * dims[d] + 5];
                        if (isnan(bad)) assert_true(isnan(after));
                        if (where == 2 && isinf(bad)) assert_true(!isfinite(after));
                        if (where == 2 && !isfinite(bad)) /* it stays in its column */
                            for (int64_t i = rows[r] * HEADS; i < LENGTH * HEADS; i++)
                                assert_true(isfinite(p.out.f[i * dims[d] + 4]) &&
                                            isfinite(p.out.f[i * dims[d] + 6]));
                        set_number(x, at, was);
                    }
            problem_destroy(&clean);
            problem_destroy(&p);
        }
}

/* One number that makes its row wild, near 0 or far away: what each of q, k, v and d_out gives to the gradients. */
static void wild_rows_backward(void **state) {
    (void)state;
    enum { LENGTH = 230, DIM = 40 };
    const float numbers[] = {1e-35f, 1e-40f, 1e19f};
    const int64_t rows[] = {0, 31, 96, 101, 229};
    for (int number = 0; number < 3; number++)
        for (int r = 0; r < 5; r++)
            for (int where = 0; where < 4; where++) {
                /* Logits are then known to no better than 1; and of a row with one key, rounding is all that is left. */
                if (numbers[number] > 1 && (where < 2 || r == 0)) continue;
                const char *const names[] = {"q", "k", "v", "d_out"};
                problem p = problem_create("nope", (shape){2, 1, DIM, {.q_len = LENGTH, .k_len = LENGTH}},
                                           NULL, 74, 1);
                tensor *x = where == 0 ? &p.q : where == 1 ? &p.k : where == 2 ? &p.v : &p.d_out;
                set_number(x, rows[r] * (where % 3 ? 1 : 2) * DIM + 5, numbers[number]);
                problem_oracle(&p, true);
                FOR_EACH_ISA (kernel) {
                    problem_renew(&p);
                    problem_forward(&p);
                    problem_backward(&p);
                    check_results(&p, kernel->name);
                }
                printf("%g in %s of row %lld\n", (double)numbers[number], names[where], (long long)rows[r]);
                problem_destroy(&p);
            }
}

/* What is not finite reaches the gradients of the rows that have to do with it. */
static void not_finite_backward(void **state) {
    (void)state;
    enum { LENGTH = 230, DIM = 40 };
    const int64_t rows[] = {31, 101, 200};
    FOR_EACH_ISA (kernel)
        for (int kind = 0; kind < 4; kind++)
            for (int r = 0; r < 3; r++)
                for (int where = 0; where < 4; where++) {
                    problem p = problem_create(
                        "si+prope", (shape){1, 1, DIM, {.q_len = LENGTH, .k_len = LENGTH}}, NULL, 33, 1);
                    tensor *input[] = {&p.q, &p.k, &p.v, &p.d_out};
                    input[where]->f[rows[r] * DIM + 3] = wild_numbers[kind];
                    problem_forward(&p);
                    problem_backward(&p);
                    bool query = where % 3 == 0;
                    for (int64_t i = 0; i < LENGTH * DIM; i++) {
                        int64_t row = i / DIM;
                        /* A query reaches its own row of d_q and the keys that it sees; a key the queries that see it, and
                         * what these see. */
                        if ((row < rows[r] || (query && row > rows[r])) && !isfinite(p.d_q.f[i]))
                            fail_msg("%s: %g in %d of row %lld: d_q of row %lld", kernel->name,
                                     (double)wild_numbers[kind], where, (long long)rows[r], (long long)row);
                        if (query && row > rows[r] && !(isfinite(p.d_k.f[i]) && isfinite(p.d_v.f[i])))
                            fail_msg("%s: %g in %d of row %lld: d_k or d_v of row %lld", kernel->name,
                                     (double)wild_numbers[kind], where, (long long)rows[r], (long long)row);
                    }
                    if (kind == 0 && where != 2) assert_true(isnan(p.d_q.f[rows[r] * DIM]));
                    problem_destroy(&p);
                }
}

/* ------------------------------------------------------------------------------------------ the same bits */

/* Keys with this logit and up to four spreads of it more; values of this size. What does not matter is set aside: */
typedef struct beside {
    bool threads, statistics;
    float key, value; /* of the row UNSEEN, if not 0 */
} beside;

enum { ROWS = 260, UNSEEN = 200, DIM = 40, HEADS = 2 };

static void set_logits(problem *p, float logit, float spread, float value, const beside *b) {
    for (int64_t i = 0; i < p->q.count; i++) {
        int64_t row = i / (HEADS * DIM);
        bool there = row == UNSEEN;
        p->q.f[i] = i % DIM ? 0 : (float)sqrt(DIM);
        p->k.f[i] = i % DIM ? 0 : there && b->key != 0 ? b->key : logit * (1 + spread * (float)(row % 5));
        p->v.f[i] = there && b->value != 0 && i % DIM == 3 ? b->value : value * (1 + (float)(i % 7));
    }
}

/* Weights of 2^-16 to 2^31 need no reference, others move it in the middle of a block; a strip whose neighbour's moves gets
 * the same bits as one whose neighbour's does not. */
static void rows_depend_on_what_they_see(void **state) {
    (void)state;
    const beside runs[] = {{0},
                           {.threads = true},
                           {.statistics = true},
                           {.key = 1e10f},
                           {.key = 1e-35f},
                           {.key = NAN},
                           {.key = -INFINITY},
                           {.value = 1e30f},
                           {.value = 1e-35f},
                           {.value = NAN},
                           {.key = 1e10f, .statistics = true},
                           {.value = INFINITY, .statistics = true}};
    const float logits[] = {-87, -85, -45, -21, -16.6f, -15, -11.2f, -10, 0, 15.9f, 16.2f, 17, 18.5f, 21, 87},
                values[] = {1e-36f, 1, 1e28f}, spreads[] = {0.001f, 0.05f, -0.5f};
    const shape s = {HEADS, HEADS, DIM, {.q_len = ROWS, .k_len = ROWS}};
    FOR_EACH_ISA (kernel) {
        problem one = problem_create("nope", s, NULL, 34, 1),
                reference = problem_create("nope", s, NULL, 34, 1),
                many = problem_create("nope", s, &(sia_attention_config){.threads = 4}, 34, 1);
        for (size_t l = 0; l < sizeof logits / sizeof *logits; l++)
            for (size_t c = 0; c < 3; c++)
                for (size_t run = 0; run < sizeof runs / sizeof *runs; run++) {
                    problem *p = run == 0 ? &reference : runs[run].threads ? &many : &one;
                    set_logits(p, logits[l], spreads[c], values[(l + c) % 3], &runs[run]);
                    sia_forward io = problem_forward_io(p, runs[run].statistics);
                    assert_int_equal(sia_attention_forward(p->a, s.span, &io, NULL, NULL), SIA_OK);
                    if (run > 0)
                        same_rows(p, &reference, 0, UNSEEN, kernel->name, "a later row; logits", logits[l],
                                  (int64_t)run);
                }
        problem_destroy(&one);
        problem_destroy(&reference);
        problem_destroy(&many);
    }
}

/* A row of the whole is the row of a chunk that begins elsewhere: other neighbours in its tile, the same keys. */
static void rows_do_not_depend_on_neighbours(void **state) {
    (void)state;
    enum { LENGTH = 290 };
    const int64_t firsts[] = {1, 15, 17, 32, 100, 129, 250};
    const double sizes[] = {1, 2.5, 3.5, 10};
    FOR_EACH_ISA (kernel)
        for (int size = 0; size < 4; size++) {
            problem whole = problem_create("si+prope", (shape){1, 1, DIM, {.q_len = LENGTH, .k_len = LENGTH}},
                                           NULL, 35, sizes[size]);
            problem p = problem_create("si+prope", (shape){1, 1, DIM, {.q_len = LENGTH, .k_len = LENGTH}},
                                       NULL, 35, sizes[size]);
            problem_forward(&whole);
            for (int f = 0; f < 7; f++)
                for (int64_t n = 1; n <= 33; n += 8) {
                    int64_t first = firsts[f];
                    sia_span span = {.q_len = n, .k_len = LENGTH, .q_pos = first};
                    sia_forward io = {.q = p.q.f + first * DIM,
                                      .k = p.k.f,
                                      .v = p.v.f,
                                      .out = p.out.f + first * DIM,
                                      .lse = p.lse.f + first};
                    assert_int_equal(sia_attention_forward(p.a, span, &io, NULL, NULL), SIA_OK);
                    same_rows(&p, &whole, first, first + n, kernel->name, "chunk", (float)n, first);
                }
            problem_destroy(&whole);
            problem_destroy(&p);
        }
}

/* With statistics and without, where rows are wild or references move. */
static void statistics_same_bits(void **state) {
    (void)state;
    enum { LENGTH = 200 };
    const double sizes[] = {1e-3, 1, 2, 2.5, 3, 3.5, 10};
    FOR_EACH_ISA (kernel)
        for (int size = 0; size < 7; size++)
            for (int wild = 0; wild < 4; wild++) {
                const shape s = {1, 1, DIM, {.q_len = LENGTH, .k_len = LENGTH, .q_pos = wild == 3 ? 40 : 0}};
                problem p = problem_create("si", s, NULL, 36, sizes[size]);
                problem all = problem_create("si", s, NULL, 36, sizes[size]);
                for (int i = 0; i < 2 && wild; i++) {
                    problem *to = i ? &all : &p;
                    tensor *x = wild == 1 ? &to->q : wild == 2 ? &to->k : &to->v;
                    x->f[77 * DIM + 2] = 1e-36f;
                }
                problem_forward(&p);
                problem_statistics(&all);
                same_rows(&p, &all, 0, LENGTH, kernel->name, "statistics", (float)sizes[size], wild);
                problem_destroy(&p);
                problem_destroy(&all);
            }
}

/* ------------------------------------------------------------------------------------------ workspaces and caches */

/* A workspace full of NaNs, or of what is left from another call; and one in which all rows go the other way. */
static void workspaces(void **state) {
    (void)state;
    const shape shapes[] = {{4, 2, 40, {.q_len = 49, .k_len = 49}},
                            {1, 1, 72, {.q_len = 161, .k_len = 193, .q_pos = 20}},
                            {2, 1, 256, {.q_len = 33, .k_len = 130, .q_pos = 97}}};
    const unsigned char fillings[] = {0xff, 0x7e, 0x01};
    FOR_EACH_ISA (kernel)
        for (int s = 0; s < 3; s++)
            for (int wild = 0; wild < 2; wild++) {
                problem p = problem_create("logn+rope", shapes[s], NULL, 37, 1);
                if (wild) set_number(&p.v, 9 * shapes[s].head_dim, 1e-36f);
                problem_oracle(&p, true);
                size_t bytes[] = {sia_attention_workspace(p.a, p.shape.span, SIA_PASS_FORWARD),
                                  sia_attention_workspace(p.a, p.shape.span, SIA_PASS_BACKWARD)};
                unsigned char *work = sia_alloc(bytes[0] + bytes[1], 1);
                for (int filling = 0; filling < 3; filling++) {
                    sia_forward f = problem_forward_io(&p, false);
                    sia_backward b = problem_backward_io(&p);
                    memset(work, fillings[filling], bytes[0] + bytes[1]);
                    assert_int_equal(sia_attention_forward(p.a, p.shape.span, &f, work, NULL), SIA_OK);
                    memset(work, fillings[filling], bytes[0] + bytes[1]);
                    assert_int_equal(sia_attention_backward(p.a, p.shape.span, &b, work, NULL), SIA_OK);
                    check_results(&p, kernel->name);
                }
                sia_free(work);
                problem_destroy(&p);
            }
}

/* Chunks of a cache that many queries attend to go through the forward kernel: as exact as all at once, and a NaN that a
 * longer sequence left behind in its blocks goes nowhere. */
static void caches(void **state) {
    (void)state;
    enum { LENGTH = 300 };
    const int64_t chunks[] = {25, 33, 64, 100};
    FOR_EACH_ISA (kernel)
        for (int c = 0; c < 4; c++) {
            problem p = problem_create("si+prope", (shape){2, 1, DIM, {.q_len = LENGTH, .k_len = LENGTH}},
                                       NULL, 38, 1);
            sia_cache *cache;
            assert_int_equal(sia_cache_create(&cache, p.a, SIA_F32, NULL), SIA_OK);
            float *nans = sia_alloc(LENGTH * DIM, sizeof(float));
            for (int64_t i = 0; i < LENGTH * DIM; i++) nans[i] = NAN;
            assert_int_equal(sia_cache_append(cache, LENGTH, nans, nans, NULL), SIA_OK);
            assert_int_equal(sia_cache_truncate(cache, 0, NULL), SIA_OK);
            for (int64_t i = 0; i < LENGTH; i += chunks[c]) {
                int64_t n = LENGTH - i < chunks[c] ? LENGTH - i : chunks[c];
                assert_int_equal(sia_cache_append(cache, n, p.k.f + i * DIM, p.v.f + i * DIM, NULL), SIA_OK);
                assert_int_equal(sia_cache_attend(cache, n, p.q.f + i * 2 * DIM, NULL, p.out.f + i * 2 * DIM,
                                                  p.lse.f + i * 2, NULL),
                                 SIA_OK);
            }
            problem_oracle(&p, false);
            check(&p.out, "out of a cache", FORWARD_BOUND, kernel->name, &p);
            check(&p.lse, "lse of a cache", FORWARD_BOUND, kernel->name, &p);
            sia_free(nans);
            sia_cache_destroy(cache);
            problem_destroy(&p);
        }
}

int main(void) {
    test_of_tiles = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dimensions_and_lengths),
        cmocka_unit_test(offsets),
        cmocka_unit_test(wild_rows_forward),
        cmocka_unit_test(wild_rows_backward),
        cmocka_unit_test(not_finite_backward),
        cmocka_unit_test(rows_depend_on_what_they_see),
        cmocka_unit_test(rows_do_not_depend_on_neighbours),
        cmocka_unit_test(statistics_same_bits),
        cmocka_unit_test(workspaces),
        cmocka_unit_test(caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
