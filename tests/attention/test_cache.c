/* SPDX-License-Identifier: MIT
 *
 * The KV cache: decode equals prefill, for every scheme, type, instruction set and way of cutting the
 * sequence. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "larger.h"
#include "problem.h"

/* What rounding of the stored keys and values does to the output, relative to its largest number: f16 has 11
 * bits, i8 has 7. */
static const struct {
    sia_type type;
    const char *name;
    double bound;
} types[] = {{SIA_F32, "f32", 2e-5}, {SIA_F16, "f16", 1e-2}, {SIA_I8, "i8", 1e-1}};

static void check(const sia_kernel *kernel, const char *scheme, shape s, int64_t step) {
    problem p = problem_create(scheme, s, NULL, 40, 1);
    problem_oracle(&p, false);
    for (int i = 0; i < 3; i++) {
        problem_decode(&p, types[i].type, step);
        double out = tensor_error(&p.out), lse = tensor_error(&p.lse);
        bool good = out < types[i].bound && lse < types[i].bound;
        if (!good || step == 1)
            printf("%-9s %-12s %-3s %lld keys, %d/%d heads of %d, steps of %lld: out %.1e, lse %.1e, bound "
                   "%.0e, %s\n",
                   kernel->name, scheme, types[i].name, (long long)s.span.k_len, s.heads, s.kv_heads,
                   s.head_dim, (long long)step, out, lse, types[i].bound, good ? "good" : "BAD");
        assert_true(good);
    }
    problem_destroy(&p);
}

static void every_scheme(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel)
        for (const char *const *scheme = sia_scheme_list(); *scheme; scheme++)
            check(kernel, *scheme, (shape){2, 1, 40, {.q_len = 70, .k_len = 70}}, 1);
}

/* Steps that take the decode kernel, once (rows = step * heads / kv_heads up to 16) and in turns, and the kernel of the
 * forward pass (from 25 on); head dimensions around the panels; caches of several blocks; one kv head for
 * more heads than the decode kernel takes rows. */
static void every_cut(void **state) {
    (void)state;
    const int64_t steps[] = {1, 2, 3, 5, 7, 16, 17, 24, 25, 64, 300};
    const shape shapes[] = {{2, 2, 8, {.q_len = 300, .k_len = 300}},
                            {4, 1, 48, {.q_len = 300, .k_len = 300}},
                            {6, 2, 72, {.q_len = 270, .k_len = 270}},
                            {1, 1, 256, {.q_len = 130, .k_len = 130}},
                            {34, 2, 16, {.q_len = 70, .k_len = 70}}};
    FOR_EACH_ISA (kernel)
        for (int s = 0; s < 5; s++)
            for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
                check(kernel, i % 2 ? "si+prope" : "logn+rope", shapes[s], steps[i]);
}

/* More rows than the decode kernel takes, over keys of two stretches, of which the queries see different parts: the last
 * n of 24 queries ask a cache that was filled at once. */
static void turns_over_stretches(void **state) {
    (void)state;
    enum { QUERIES = 24, KEYS = 8200, HEADS = 34, DIM = 16, ROW = HEADS * DIM };
    const shape s = {HEADS, 2, DIM, {.q_len = QUERIES, .k_len = KEYS, .q_pos = KEYS - QUERIES}};
    const int64_t counts[] = {1, 3, QUERIES};
    FOR_EACH_ISA (kernel) {
        problem p = problem_create("si+prope", s, NULL, 40, 1);
        problem_oracle(&p, false);
        for (int i = 0; i < 3; i++) {
            sia_cache *c;
            sia_error err;
            assert_int_equal(sia_cache_create(&c, p.a, types[i].type, &err), SIA_OK);
            assert_int_equal(sia_cache_append(c, KEYS, p.k.f, p.v.f, &err), SIA_OK);
            for (int n = 0; n < 3; n++) {
                int64_t before = QUERIES - counts[n];
                problem_forward(&p); /* of which rows that are not asked for keep their own */
                for (int64_t j = before * ROW; j < p.out.count; j++) p.out.f[j] = NAN;
                for (int64_t j = before * HEADS; j < p.lse.count; j++) p.lse.f[j] = NAN;
                if (sia_cache_attend(c, counts[n], p.q.f + before * ROW, NULL, p.out.f + before * ROW,
                                     p.lse.f + before * HEADS, &err))
                    fail_msg("%s", err.text);
                assert_true(tensor_error(&p.out) < types[i].bound);
                assert_true(tensor_error(&p.lse) < types[i].bound);
            }
            sia_cache_destroy(c);
        }
        problem_destroy(&p);
    }
}

/* Beyond the tables that an object begins with: appending makes them longer. */
static void long_cache(void **state) {
    (void)state;
    FOR_EACH_ISA (kernel) check(kernel, "logn+rope", (shape){1, 1, 16, {.q_len = 1500, .k_len = 1500}}, 700);
}

/* Up to three rows at a time go over several blocks at once where all see them whole: none, one and two such groups, and
 * blocks that are left over. */
static void blocks_side_by_side(void **state) {
    (void)state;
    const shape own = {1, 1, 24, {.q_len = 1100, .k_len = 1100}},
                shared = {2, 1, 24, {.q_len = 1100, .k_len = 1100}},
                two_groups_of_four = {1, 1, 24, {.q_len = 2100, .k_len = 2100}};
    for (sia_processor processor = SIA_PROCESSOR_PLAIN; processor <= SIA_PROCESSOR_ZEN_5; processor++) {
        sia_processor_set(processor);
        FOR_EACH_ISA (kernel) {
            for (int64_t step = 1; step <= 4; step++) check(kernel, "si+prope", own, step);
            check(kernel, "logn+rope", shared, 1);
            if (processor == SIA_PROCESSOR_ZEN_3) check(kernel, "si+prope", two_groups_of_four, 1);
        }
    }
    sia_processor_set(0);
}

/* What decoding has functions for: blocks and rows that meet in no more than four slots. */
static void readings(void **state) {
    (void)state;
    for (sia_processor processor = SIA_PROCESSOR_PLAIN; processor <= SIA_PROCESSOR_ZEN_5; processor++) {
        sia_processor_set(processor);
        for (int type = 0; type < 3; type++)
            for (int rows = 1; rows <= SIA_DECODE_ROWS; rows++) {
                sia_reading reading = sia_reading_of_cache((sia_type)type, rows);
                int most = rows == 1 ? 4 : rows < 4 ? 2 : 1;
                assert_true(reading.streams == 1 || reading.streams == 2 || reading.streams == 4);
                assert_true(reading.streams <= most);
                assert_in_range(reading.ahead, 0, 8192);
            }
    }
    sia_processor_set(0);
    assert_in_range(sia_processor_get(), SIA_PROCESSOR_PLAIN, SIA_PROCESSOR_ZEN_5);
}

/* Keys and values that f16 and i8 hold exactly: then no rounding excuses a difference. */
static void exact_in_every_type(void **state) {
    (void)state;
    const shape shapes[] = {{2, 2, 24, {.q_len = 290, .k_len = 290}},
                            {4, 2, 64, {.q_len = 150, .k_len = 150}}};
    const int64_t steps[] = {1, 3, 290};
    FOR_EACH_ISA (kernel)
        for (int type = 0; type < 3; type++)
            for (int i = 0; i < 6; i++) {
                problem p = problem_create("si+nope", shapes[i % 2], NULL, 44, 1);
                int d = p.shape.head_dim;
                for (int64_t j = 0; j < p.k.count; j++) {
                    /* whole numbers up to 127, which stands in every row, times a power of two */
                    double size = ldexp(1, -6 + (int)(j / d % 2));
                    p.k.d[j] = j % d ? size * (double)((int)sia_random_below(48, (uint64_t)j, 255) - 127)
                                     : size * 127;
                    p.v.d[j] = j % d ? size * (double)((int)sia_random_below(49, (uint64_t)j, 255) - 127)
                                     : size * -127;
                    p.k.f[j] = (float)p.k.d[j];
                    p.v.f[j] = (float)p.v.d[j];
                }
                problem_oracle(&p, false);
                problem_decode(&p, (sia_type)type, steps[i / 2]);
                double bound =
                    type == SIA_I8 ? 5e-4 : 2e-5; /* with int8 keys, decoding rounds queries to 16 bits */
                if (tensor_error(&p.out) > bound)
                    fail_msg("%s %s: %g", kernel->name, types[type].name, tensor_error(&p.out));
                problem_destroy(&p);
            }
}

/* What is too large for f16 becomes its largest number, from the first that would round to infinity on. */
static void largest_half(void **state) {
    (void)state;
    enum { D = 8 };
    const float given[D] = {65503.9f, 65504, 65519, 65520, 65536, 1e9f, -65520, -1e9f};
    FOR_EACH_ISA (kernel) {
        sia_attention *a;
        sia_cache *c;
        float q[D] = {0}, out[D];
        sia_attention_config config = {.heads = 1, .head_dim = D, .threads = 1};
        assert_int_equal(sia_attention_create(&a, "nope", &config, NULL), SIA_OK);
        assert_int_equal(sia_cache_create(&c, a, SIA_F16, NULL), SIA_OK);
        assert_int_equal(sia_cache_append(c, 1, q, given, NULL), SIA_OK);
        assert_int_equal(sia_cache_attend(c, 1, q, NULL, out, NULL, NULL), SIA_OK);
        for (int i = 0; i < D; i++)
            if (!(fabsf(fabsf(out[i]) - 65504) < 0.1f && out[i] * given[i] > 0))
                fail_msg("%s: %g became %g", kernel->name, given[i], out[i]);
        sia_cache_destroy(c);
        sia_attention_destroy(a);
    }
}

static void threads_same_bits(void **state) {
    (void)state;
    enum { N = 9000, D = 32, HEADS = 2, MOST = 26 };
    const int threads[] = {1, 2, 3, 8}, asked[] = {1, 24, MOST}; /* few queries, and more, go two ways */
    static float q[MOST * HEADS * D], out[4][3][MOST * HEADS * D], lse[4][3][MOST * HEADS];
    float *kv = malloc(sizeof(float) * N * D);
    for (int i = 0; i < N * D; i++) kv[i] = (float)sia_random_normal(41, (uint64_t)i);
    for (int i = 0; i < MOST * HEADS * D; i++) q[i] = (float)sia_random_normal(42, (uint64_t)i);
    FOR_EACH_ISA (kernel)
        for (int type = 0; type < 3; type++) {
            for (int i = 0; i < 4; i++) {
                sia_attention *a;
                sia_cache *c;
                sia_attention_config config = {
                    .heads = HEADS, .kv_heads = 1, .head_dim = D, .threads = threads[i]};
                assert_int_equal(sia_attention_create(&a, "si+prope", &config, NULL), SIA_OK);
                assert_int_equal(sia_cache_create(&c, a, (sia_type)type, NULL), SIA_OK);
                assert_int_equal(sia_cache_append(c, N, kv, kv, NULL), SIA_OK);
                for (int n = 0; n < 3; n++) {
                    assert_int_equal(sia_cache_attend(c, asked[n], q, NULL, out[i][n], lse[i][n], NULL),
                                     SIA_OK);
                    assert_memory_equal(out[i][n], out[0][n], sizeof out[0][n]);
                    assert_memory_equal(lse[i][n], lse[0][n], sizeof lse[0][n]);
                }
                sia_cache_destroy(c);
                sia_attention_destroy(a);
            }
        }
    free(kv);
}

/* The same continuation from the same prompt, twice; what was forgotten leaves no trace, even when it was a
 * NaN. */
static void truncate_and_retry(void **state) {
    (void)state;
    enum { N = 40, D = 16 };
    FOR_EACH_ISA (kernel)
        for (int type = 0; type < 3; type++) {
            problem p = problem_create("si+prope", (shape){1, 1, D, {.q_len = N, .k_len = N}}, NULL, 43, 1);
            sia_cache *c;
            float first[D], second[D], bad[D];
            for (int i = 0; i < D; i++) bad[i] = NAN;
            assert_int_equal(sia_cache_create(&c, p.a, (sia_type)type, NULL), SIA_OK);
            assert_int_equal(sia_cache_append(c, N - 5, p.k.f, p.v.f, NULL), SIA_OK);
            assert_int_equal(sia_cache_attend(c, 1, p.q.f, NULL, first, NULL, NULL), SIA_OK);
            assert_int_equal(sia_cache_append(c, 1, bad, bad, NULL), SIA_OK);
            assert_int_equal(sia_cache_attend(c, 1, p.q.f, NULL, second, NULL, NULL), SIA_OK);
            for (int i = 0; i < D; i++) assert_true(isnan(second[i]));
            assert_int_equal(sia_cache_truncate(c, N - 5, NULL), SIA_OK);
            assert_int_equal(sia_cache_attend(c, 1, p.q.f, NULL, second, NULL, NULL), SIA_OK);
            assert_memory_equal(first, second, sizeof first);
            sia_cache_destroy(c);
            problem_destroy(&p);
        }
}

/* Appended together, attended together: a NaN in a key or a value changes no bit of the rows before it. */
static void nan_is_not_seen_before_it(void **state) {
    (void)state;
    enum { N = 23, D = 16, ROW = 2 * D };
    static const int steps[] = {2, 3, 4, 7, N};
    FOR_EACH_ISA (kernel)
        for (int way = 0; way < 3 * (int)(sizeof steps / sizeof *steps); way++) {
            sia_type type = (sia_type)(way % 3);
            int step = steps[way / 3];
            problem p = problem_create("si+prope", (shape){2, 2, D, {.q_len = N, .k_len = N}}, NULL, 44, 1);
            float clean[N * ROW];
            problem_decode(&p, type, step);
            memcpy(clean, p.out.f, sizeof clean);
            for (int bad = 1; bad < N; bad++)
                for (int value = 0; value < 2; value++) {
                    float *at = (value ? p.v.f : p.k.f) + (ptrdiff_t)bad * ROW + D / 2, kept = *at;
                    *at = NAN;
                    problem_decode(&p, type, step);
                    *at = kept;
                    assert_memory_equal(p.out.f, clean, sizeof(float) * (size_t)(bad * ROW));
                    assert_true(isnan(p.out.f[bad * ROW + D / 2]));
                }
            problem_destroy(&p);
        }
}

/* Partial results grow with the cache, one for each stretch of 8192 keys: after the first attention there is room for
 * twice as many numbers, and three stretches need a little more than that. */
static void partial_results_grow(void **state) {
    (void)state;
    enum { STRETCH = 8192, N = 2 * STRETCH + 1, D = 16 };
    float *kv = malloc(sizeof(float) * N * D), grown[D], at_once[D];
    assert_non_null(kv);
    for (int i = 0; i < N * D; i++) kv[i] = (float)sia_random_normal(43, (uint64_t)i);
    FOR_EACH_ISA (kernel) {
        sia_attention *a;
        sia_cache *c, *whole;
        sia_attention_config config = {.heads = 1, .head_dim = D};
        assert_int_equal(sia_attention_create(&a, "si+prope", &config, NULL), SIA_OK);
        assert_int_equal(sia_cache_create(&c, a, SIA_F32, NULL), SIA_OK);
        assert_int_equal(sia_cache_create(&whole, a, SIA_F32, NULL), SIA_OK);
        for (int64_t from = 0, n = STRETCH; from < N; from += n, n = N - STRETCH) {
            assert_int_equal(sia_cache_append(c, n, kv + from * D, kv + from * D, NULL), SIA_OK);
            assert_int_equal(sia_cache_attend(c, 1, kv, NULL, grown, NULL, NULL), SIA_OK);
        }
        assert_int_equal(sia_cache_append(whole, N, kv, kv, NULL), SIA_OK);
        assert_int_equal(sia_cache_attend(whole, 1, kv, NULL, at_once, NULL, NULL), SIA_OK);
        assert_memory_equal(grown, at_once, sizeof grown);
        sia_cache_destroy(c);
        sia_cache_destroy(whole);
        sia_attention_destroy(a);
    }
    free(kv);
}

/* Blocks of 256 positions: as many new ones as there are, until 16 of them or more are 8 MiB, then that many. */
static int64_t blocks_for(int64_t length, size_t block) {
    int64_t blocks = 1, most = 16;
    while ((size_t)most * block < 8 << 20) most *= 2;
    while (blocks * SIA_CACHE_BLOCK < length) blocks += blocks < most ? blocks : most;
    return blocks;
}

static void bytes_of_blocks(void **state) {
    (void)state;
    enum { DIM = 64, HEADS = 4, STEP = 1000, STEPS = 40 }; /* 8 MiB are 16, 32 and 64 blocks */
    sia_attention *a;
    sia_attention_config config = {.heads = HEADS, .head_dim = DIM};
    assert_int_equal(sia_attention_create(&a, "nope", &config, NULL), SIA_OK);
    float *x = calloc((size_t)STEP * HEADS * DIM, sizeof *x);
    for (int type = 0; type < 3; type++) {
        sia_cache *c;
        assert_int_equal(sia_cache_create(&c, a, types[type].type, NULL), SIA_OK);
        assert_int_equal(sia_cache_bytes(c), 0);
        assert_int_equal(sia_cache_append(c, 1, x, x, NULL), SIA_OK);
        size_t block = sia_cache_bytes(c), element = types[type].type == SIA_F32 ? 4 : 1;
        assert_true(block >= 2 * element * SIA_CACHE_BLOCK * HEADS * DIM);
        assert_int_equal(sia_cache_truncate(c, 0, NULL), SIA_OK);
        for (int64_t length = STEP; length <= (int64_t)STEP * STEPS; length += STEP) {
            assert_int_equal(sia_cache_append(c, STEP, x, x, NULL), SIA_OK);
            assert_int_equal(sia_cache_bytes(c), (size_t)blocks_for(length, block) * block);
        }
        sia_cache_destroy(c);
    }
    free(x);
    sia_attention_destroy(a);
}

/* What the cache asks of base/memory.h, and memory.c of the system: the linker puts these between them. */
static struct {
    void *pages[64];
    size_t bytes[64];
    int count;
    size_t huge; /* bytes for which huge pages were wished */
    int unmapped;
} mapped;

void *__real_sia_pages_map(size_t bytes);
void __real_sia_pages_unmap(void *pages, size_t bytes);
int __real_madvise(void *start, size_t bytes, int advice);

void *__wrap_sia_pages_map(size_t bytes);
void *__wrap_sia_pages_map(size_t bytes) {
    void *pages = __real_sia_pages_map(bytes);
    if (mapped.count < 64) {
        mapped.pages[mapped.count] = pages;
        mapped.bytes[mapped.count++] = bytes;
    }
    return pages;
}

void __wrap_sia_pages_unmap(void *pages, size_t bytes);
void __wrap_sia_pages_unmap(void *pages, size_t bytes) {
    mapped.unmapped++;
    __real_sia_pages_unmap(pages, bytes);
}

int __wrap_madvise(void *start, size_t bytes, int advice);
int __wrap_madvise(void *start, size_t bytes, int advice) {
    if (advice == MADV_HUGEPAGE) mapped.huge += bytes;
    return __real_madvise(start, bytes, advice);
}

/* Whatever the heads: all of a long cache may be on huge pages, but for the chunks that it began with. */
static void huge_pages(void **state) {
    (void)state;
    enum { HUGE_PAGE = 2 << 20, STEP = 1 << 16, ROW = 4 * 64 };
    static const struct { int heads, dim, steps; } shapes[] = {{1, 8, 8}, {1, 64, 1}, {2, 64, 1}, {4, 64, 1}};
    float *x = calloc((size_t)STEP * ROW, sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < 12; i++) {
        sia_attention *a;
        sia_cache *c;
        sia_attention_config config = {.heads = shapes[i / 3].heads, .head_dim = shapes[i / 3].dim};
        assert_int_equal(sia_attention_create(&a, "nope", &config, NULL), SIA_OK);
        assert_int_equal(sia_cache_create(&c, a, types[i % 3].type, NULL), SIA_OK);
        /* Tables that long ask for huge pages, too: before. */
        assert_int_equal(sia_attention_reserve(a, (int64_t)STEP * shapes[i / 3].steps, NULL), SIA_OK);
        mapped.huge = 0;
        for (int step = 0; step < shapes[i / 3].steps; step++)
            assert_int_equal(sia_cache_append(c, STEP, x, x, NULL), SIA_OK);
        assert_true(sia_cache_bytes(c) > 4 * (size_t)HUGE_PAGE);
        assert_true(mapped.huge <= sia_cache_bytes(c));
        assert_true(sia_cache_bytes(c) - mapped.huge < 2 * HUGE_PAGE);
        sia_cache_destroy(c);
        sia_attention_destroy(a);
    }
    free(x);
}

/* What is in the cache is not read when it grows, and not moved: it cannot be touched meanwhile, and is then found where
 * it was. */
static void grows_without_copying(void **state) {
    (void)state;
    enum { D = 16, FIRST = 4 * SIA_CACHE_BLOCK, N = 40 * SIA_CACHE_BLOCK };
    float *kv = malloc(sizeof(float) * N * D), grown[D], at_once[D];
    assert_non_null(kv);
    for (int i = 0; i < N * D; i++) kv[i] = (float)sia_random_normal(47, (uint64_t)i);
    for (int type = 0; type < 3; type++) {
        sia_attention *a;
        sia_cache *c, *whole;
        sia_attention_config config = {.heads = 1, .head_dim = D};
        assert_int_equal(sia_attention_create(&a, "si+prope", &config, NULL), SIA_OK);
        assert_int_equal(sia_cache_create(&whole, a, types[type].type, NULL), SIA_OK);
        assert_int_equal(sia_cache_append(whole, N, kv, kv, NULL), SIA_OK);
        assert_int_equal(sia_cache_attend(whole, 1, kv, NULL, at_once, NULL, NULL), SIA_OK);

        mapped.count = mapped.unmapped = 0;
        assert_int_equal(sia_cache_create(&c, a, types[type].type, NULL), SIA_OK);
        assert_int_equal(sia_cache_append(c, FIRST, kv, kv, NULL), SIA_OK);
        int before = mapped.count;
        assert_int_equal(before, 3); /* 1, 1 and 2 blocks, which are full */
        for (int i = 0; i < before; i++)
            assert_int_equal(mprotect(mapped.pages[i], mapped.bytes[i], PROT_NONE), 0);
        assert_int_equal(sia_cache_append(c, N - FIRST, kv + FIRST * D, kv + FIRST * D, NULL), SIA_OK);
        assert_true(mapped.count > before);
        assert_int_equal(mapped.unmapped, 0);
        for (int i = 0; i < before; i++)
            assert_int_equal(mprotect(mapped.pages[i], mapped.bytes[i], PROT_READ), 0);
        assert_int_equal(sia_cache_attend(c, 1, kv, NULL, grown, NULL, NULL), SIA_OK);
        assert_memory_equal(grown, at_once, sizeof grown);
        sia_cache_destroy(c);
        sia_cache_destroy(whole);
        sia_attention_destroy(a);
    }
    free(kv);
}

/* Pages of address space that the process has. */
static long pages_held(void) {
    long pages = -1;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld", &pages) != 1) pages = -1;
    if (f) (void)fclose(f);
    return pages;
}

/* Chunks are mapped, not allocated: what checks allocations does not see them. */
static void memory_is_given_back(void **state) {
    (void)state;
    enum { DIM = 64, ROUNDS = 100 };
    sia_attention *a;
    sia_attention_config config = {.heads = 1, .head_dim = DIM};
    assert_int_equal(sia_attention_create(&a, "nope", &config, NULL), SIA_OK);
    float *x = calloc((size_t)SIA_CACHE_BLOCK * DIM, sizeof *x);
    double before = 0, least = 0; /* the first round's pages, the bytes of the smallest chunk */
    for (int round = 0; round < ROUNDS; round++) {
        sia_cache *c;
        assert_int_equal(sia_cache_create(&c, a, SIA_F32, NULL), SIA_OK);
        for (int chunk = 0; chunk < 3; chunk++) {
            assert_int_equal(sia_cache_append(c, SIA_CACHE_BLOCK, x, x, NULL), SIA_OK);
            if (chunk == 0) least = (double)sia_cache_bytes(c);
        }
        sia_cache_destroy(c);
        if (round == 0) before = (double)pages_held();
    }
    if (before < 0) skip();
    assert_true(((double)pages_held() - before) * (double)sysconf(_SC_PAGESIZE) < 0.5 * ROUNDS * least);
    free(x);
    sia_attention_destroy(a);
}

/* 1,048,576 positions: a few keys and values over and over, the expected sum by the formula. */
static void million(void **state) {
    (void)state;
    enum { N = 1 << 20, D = 8, KINDS = 7, CHUNK = 1 << 14 };
    if (test_in_haste()) skip();
    sia_attention *a;
    sia_attention_config config = {.heads = 1, .head_dim = D, .threads = 2};
    assert_int_equal(sia_attention_create(&a, "si+nope", &config, NULL), SIA_OK);
    float *k = malloc(sizeof(float) * CHUNK * D), *v = malloc(sizeof(float) * CHUNK * D), q[D], out[D];
    double z = 0, o[D] = {0}, kinds[2][KINDS][D];
    for (int i = 0; i < 2 * KINDS * D; i++)
        kinds[i / D / KINDS][i / D % KINDS][i % D] = (float)sia_random_normal(46, (uint64_t)i);
    for (int i = 0; i < D; i++) q[i] = (float)sia_random_normal(45, (uint64_t)i);
    for (int type = 0; type < 3; type++) {
        sia_cache *c;
        assert_int_equal(sia_cache_create(&c, a, (sia_type)type, NULL), SIA_OK);
        for (int64_t first = 0; first < N; first += CHUNK) {
            for (int64_t i = 0; i < CHUNK; i++)
                for (int j = 0; j < D; j++) {
                    k[i * D + j] = (float)kinds[0][(first + i) % KINDS][j];
                    v[i * D + j] = (float)kinds[1][(first + i) % KINDS][j];
                }
            assert_int_equal(sia_cache_append(c, CHUNK, k, v, NULL), SIA_OK);
        }
        assert_int_equal(sia_cache_length(c), N);
        assert_int_equal(sia_cache_attend(c, 1, q, NULL, out, NULL, NULL), SIA_OK);
        for (int64_t i = 0; i < N && type == 0; i++) {
            double s = 0, square = 2 * log((double)(N - 1 - i) / 10 + 1) + 1;
            for (int j = 0; j < D; j++) s += q[j] * kinds[0][i % KINDS][j];
            double w = exp(sqrt(square) * s / sqrt(D) - square + 1);
            z += w;
            for (int j = 0; j < D; j++) o[j] += w * kinds[1][i % KINDS][j];
        }
        double worst = 0;
        for (int j = 0; j < D; j++) worst = larger(worst, fabs(out[j] - o[j] / z));
        printf("%s cache of %d positions, %.0f MB: error %.1e, bound %.0e\n", types[type].name, N,
               (double)sia_cache_bytes(c) / 1e6, worst, types[type].bound);
        assert_true(worst < types[type].bound);
        sia_cache_destroy(c);
    }
    free(k);
    free(v);
    sia_attention_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_scheme),
                                       cmocka_unit_test(every_cut),
                                       cmocka_unit_test(turns_over_stretches),
                                       cmocka_unit_test(long_cache),
                                       cmocka_unit_test(blocks_side_by_side),
                                       cmocka_unit_test(readings),
                                       cmocka_unit_test(exact_in_every_type),
                                       cmocka_unit_test(largest_half),
                                       cmocka_unit_test(threads_same_bits),
                                       cmocka_unit_test(truncate_and_retry),
                                       cmocka_unit_test(nan_is_not_seen_before_it),
                                       cmocka_unit_test(bytes_of_blocks),
                                       cmocka_unit_test(huge_pages),
                                       cmocka_unit_test(grows_without_copying),
                                       cmocka_unit_test(partial_results_grow),
                                       cmocka_unit_test(memory_is_given_back),
                                       cmocka_unit_test(million)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
