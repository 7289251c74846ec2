/* SPDX-License-Identifier: MIT */
#include "problem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

static bool is_tested(const sia_kernel *kernel) {
    const char *only = getenv("SIA_TEST_ISA");
    return (!only || strcmp(only, kernel->name) == 0) && kernel->supported();
}

bool test_in_haste(void) { return getenv("SIA_TEST_HASTE") != NULL; }

bool test_of_tiles;

#ifdef __x86_64__
static bool tiles_are_emulated(void) {
    extern const sia_kernel sia_kernel_amx;
    return getenv("SIA_TEST_ISA") || (test_of_tiles && !sia_kernel_amx.supported());
}
#endif

const sia_kernel *test_kernel(int i) {
    int left = i;
    for (int j = 0; sia_kernel_table[j]; j++)
        if (is_tested(sia_kernel_table[j]) && left-- == 0) return sia_kernel_table[j];
#ifdef __x86_64__
    extern const sia_kernel sia_kernel_wide, sia_kernel_tiles;
    if (is_tested(&sia_kernel_wide) && left-- == 0) return &sia_kernel_wide;
    if (tiles_are_emulated() && is_tested(&sia_kernel_tiles) && left == 0) return &sia_kernel_tiles;
#endif
    if (i == 0) fail_msg("SIA_TEST_ISA %s: not to be had here", getenv("SIA_TEST_ISA"));
    return NULL;
}

int test_dim(const sia_kernel *kernel, int dim) { return kernel->tile == 16 ? 4 * dim : dim; }

/* What is not written is no result. */
static void tensor_forget(tensor *t) {
    for (int64_t i = 0; i < t->count; i++) t->f[i] = NAN;
}

static void forget(tensor *const *results, int count) {
    for (int i = 0; i < count; i++) tensor_forget(results[i]);
}

static tensor tensor_create(int64_t count) {
    tensor t = {.count = count,
                .f = malloc((size_t)count * sizeof(float)),
                .d = calloc((size_t)count, sizeof(double))};
    assert_true(t.f && t.d);
    tensor_forget(&t);
    return t;
}

static void tensor_random(tensor *t, uint64_t seed, double size, double middle) {
    for (int64_t i = 0; i < t->count; i++) {
        t->f[i] = (float)(middle + size * sia_random_normal(seed, (uint64_t)i));
        t->d[i] = t->f[i]; /* the same number: rounding of the inputs is no error of ours */
    }
}

double tensor_error(const tensor *t) {
    double error = 0, most = 0;
    for (int64_t i = 0; i < t->count; i++) {
        if (isnan(t->f[i]) && isnan(t->d[i])) continue;
        if (isinf(t->d[i]) && t->f[i] == t->d[i]) continue;
        if (!isfinite(t->f[i]) || !isfinite(t->d[i])) return INFINITY;
        error = fmax(error, fabs(t->f[i] - t->d[i]));
        most = fmax(most, fabs(t->d[i]));
    }
    return most > 0 ? error / most : error;
}

problem problem_create(const char *scheme, shape s, const sia_attention_config *config, uint64_t seed,
                       double size) {
    problem p = {.scheme = scheme, .shape = s, .logn = strstr(scheme, "logn") != NULL};
    sia_attention_config c = config ? *config : (sia_attention_config){0};
    sia_error err;
    c.heads = s.heads;
    c.kv_heads = s.kv_heads;
    c.head_dim = s.head_dim;
    if (c.train_len == 0) c.train_len = 64; /* so that ntk and yarn have a longer length to work on */
    if (c.eval_len == 0) c.eval_len = 256;
    if (c.threads == 0) c.threads = 2;
    if (sia_attention_create(&p.a, scheme, &c, &err)) fail_msg("%s: %s", scheme, err.text);
    if (p.shape.span.batch == 0) p.shape.span.batch = 1;
    sia_span span = p.shape.span;
    int64_t queries = span.batch * span.q_len * s.heads, keys = span.batch * span.k_len * s.kv_heads;
    p.q = tensor_create(queries * s.head_dim);
    p.k = tensor_create(keys * s.head_dim);
    p.v = tensor_create(keys * s.head_dim);
    p.s = tensor_create(s.heads);
    p.out = tensor_create(queries * s.head_dim);
    p.lse = tensor_create(queries);
    p.entropy = tensor_create(queries);
    p.mass = tensor_create(queries * SIA_DECADES);
    p.d_out = tensor_create(queries * s.head_dim);
    p.d_q = tensor_create(queries * s.head_dim);
    p.d_k = tensor_create(keys * s.head_dim);
    p.d_v = tensor_create(keys * s.head_dim);
    p.d_s = tensor_create(s.heads);
    tensor_random(&p.q, sia_random_stream(seed, 0), size, 0);
    tensor_random(&p.k, sia_random_stream(seed, 1), size, 0);
    tensor_random(&p.v, sia_random_stream(seed, 2), 1, 0);
    tensor_random(&p.d_out, sia_random_stream(seed, 3), 1, 0);
    tensor_random(&p.s, sia_random_stream(seed, 4), 0.05, 0.24);
    return p;
}

void problem_renew(problem *p) {
    sia_error err;
    sia_attention_config config = *sia_attention_settings(p->a);
    sia_attention_destroy(p->a);
    if (sia_attention_create(&p->a, p->scheme, &config, &err)) fail_msg("%s: %s", p->scheme, err.text);
}

void problem_destroy(problem *p) {
    tensor *all[] = {&p->q,    &p->k,     &p->v,   &p->s,   &p->out, &p->lse, &p->entropy,
                     &p->mass, &p->d_out, &p->d_q, &p->d_k, &p->d_v, &p->d_s};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]->f);
        free(all[i]->d);
    }
    sia_attention_destroy(p->a);
}

void problem_oracle(problem *p, bool backward) {
    oracle o = {.config = *sia_attention_settings(p->a),
                .span = p->shape.span,
                .q = p->q.d,
                .k = p->k.d,
                .v = p->v.d,
                .logn = p->s.d,
                .out = p->out.d,
                .lse = p->lse.d,
                .entropy = p->entropy.d,
                .mass = p->mass.d,
                .d_out = p->d_out.d,
                .d_q = p->d_q.d,
                .d_k = p->d_k.d,
                .d_v = p->d_v.d,
                .d_logn = p->logn ? p->d_s.d : NULL};
    assert_int_equal(sia_scheme_parse(p->scheme, &o.scheme, NULL), SIA_OK);
    if (o.config.fill) o.scheme.distance = SIA_DISTANCE_OWN;
    oracle_forward(&o);
    if (backward) oracle_backward(&o);
}

sia_forward problem_forward_io(problem *p, bool statistics) {
    tensor *results[] = {&p->out, &p->lse, &p->entropy, &p->mass};
    forget(results, 4);
    return (sia_forward){.q = p->q.f,
                         .k = p->k.f,
                         .v = p->v.f,
                         .logn = p->logn ? p->s.f : NULL,
                         .out = p->out.f,
                         .lse = p->lse.f,
                         .entropy = statistics ? p->entropy.f : NULL,
                         .mass = statistics ? p->mass.f : NULL};
}

sia_backward problem_backward_io(problem *p) {
    tensor *results[] = {&p->d_q, &p->d_k, &p->d_v, &p->d_s};
    forget(results, 4);
    return (sia_backward){.q = p->q.f,
                          .k = p->k.f,
                          .v = p->v.f,
                          .logn = p->logn ? p->s.f : NULL,
                          .out = p->out.f,
                          .lse = p->lse.f,
                          .d_out = p->d_out.f,
                          .d_q = p->d_q.f,
                          .d_k = p->d_k.f,
                          .d_v = p->d_v.f,
                          .d_logn = p->logn ? p->d_s.f : NULL};
}

static void forward(problem *p, bool statistics) {
    sia_error err;
    sia_forward io = problem_forward_io(p, statistics);
    if (sia_attention_forward(p->a, p->shape.span, &io, NULL, &err)) fail_msg("%s: %s", p->scheme, err.text);
}

void problem_forward(problem *p) { forward(p, false); }
void problem_statistics(problem *p) { forward(p, true); }

void problem_backward(problem *p) {
    sia_error err;
    sia_backward io = problem_backward_io(p);
    if (sia_attention_backward(p->a, p->shape.span, &io, NULL, &err)) fail_msg("%s: %s", p->scheme, err.text);
}

void problem_decode(problem *p, sia_type type, int64_t step) {
    sia_forward io = problem_forward_io(p, false);
    int64_t length = p->shape.span.k_len, q_row = (int64_t)p->shape.heads * p->shape.head_dim,
            k_row = (int64_t)p->shape.kv_heads * p->shape.head_dim;
    sia_cache *c;
    sia_error err;
    assert_int_equal(sia_cache_create(&c, p->a, type, &err), SIA_OK);
    for (int64_t i = 0; i < length; i += step) {
        int64_t n = length - i < step ? length - i : step;
        if (sia_cache_append(c, n, io.k + i * k_row, io.v + i * k_row, &err)) fail_msg("%s", err.text);
        if (sia_cache_attend(c, n, io.q + i * q_row, io.logn, io.out + i * q_row, io.lse + i * p->shape.heads,
                             &err))
            fail_msg("%s", err.text);
    }
    assert_int_equal(sia_cache_length(c), length);
    assert_true(sia_cache_bytes(c) > 0);
    sia_cache_destroy(c);
}
