/* SPDX-License-Identifier: MIT
 *
 * Every wrong argument of the attention functions: its status and its sentence, and nothing written. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sia.h"

static void fill(void *context, int head, int heads, int64_t first, int64_t count, double *scale,
                 double *bias) {
    (void)context, (void)head, (void)heads, (void)first;
    for (int64_t i = 0; i < count; i++) scale[i] = 1, bias[i] = 0;
}

static const struct {
    const char *scheme;
    sia_attention_config config;
    sia_status status;
    const char *sentence;
} creations[] = {
    {"si+prope", {.heads = 2, .head_dim = 64}, SIA_OK, ""},
    {"si+prope",
     {.heads = 2, .head_dim = 60},
     SIA_ARGUMENT,
     "head_dim 60: want a multiple of 8, from 8 to 256"},
    {"si+prope",
     {.heads = 2, .head_dim = 0},
     SIA_ARGUMENT,
     "head_dim 0: want a multiple of 8, from 8 to 256"},
    {"si+prope",
     {.heads = 2, .head_dim = 264},
     SIA_ARGUMENT,
     "head_dim 264: want a multiple of 8, from 8 to 256"},
    {"si+prope", {.heads = 0, .head_dim = 64}, SIA_ARGUMENT, "heads 0: want 1 to 4096"},
    {"si+prope", {.heads = -1, .head_dim = 64}, SIA_ARGUMENT, "heads -1: want 1 to 4096"},
    {"si+prope",
     {.heads = 6, .kv_heads = 4, .head_dim = 64},
     SIA_ARGUMENT,
     "kv_heads 4: want a divisor of heads, 6"},
    {"si+prope",
     {.heads = 6, .kv_heads = -6, .head_dim = 64},
     SIA_ARGUMENT,
     "kv_heads -6: want a divisor of heads, 6"},
    {"si+prope",
     {.heads = 2, .head_dim = 64, .threads = -1},
     SIA_ARGUMENT,
     "threads -1: want 1 to 1024, or 0 for all processors"},
    {"si+prope", {.heads = 4096, .head_dim = 8}, SIA_OK, ""},
    {"si+prope", {.heads = 4097, .head_dim = 8}, SIA_ARGUMENT, "heads 4097: want 1 to 4096"},
    {"si+prope",
     {.heads = 2, .head_dim = 64, .threads = 1025},
     SIA_ARGUMENT,
     "threads 1025: want 1 to 1024, or 0 for all processors"},
    {"si+prope", {.heads = 2, .head_dim = 64, .alpha = 1, .beta = 100}, SIA_OK, ""},
    {"si+prope",
     {.heads = 2, .head_dim = 64, .alpha = 1, .beta = 101},
     SIA_ARGUMENT,
     "beta 101: want at most 100 alpha, which is 100; above it distances cannot be told apart"},
    {"si+prope",
     {.heads = 2, .head_dim = 64, .tau = 0.9e-9},
     SIA_ARGUMENT,
     "tau 9e-10: want a number from 1e-9 to 1e15"},
    {"si+prope",
     {.heads = 2, .head_dim = 64, .tau = 2e15},
     SIA_ARGUMENT,
     "tau 2e+15: want a number from 1e-9 to 1e15"},
    {"si+prope",
     {.heads = 2, .head_dim = 64, .tau = -1},
     SIA_ARGUMENT,
     "tau -1: want a number from 1e-9 to 1e15"},
    {"si+prope",
     {.heads = 2, .head_dim = 64, .tau = NAN},
     SIA_ARGUMENT,
     "tau nan: want a number from 1e-9 to 1e15"},
    {"si+prope",
     {.heads = 2, .head_dim = 64, .alpha = 4, .beta = 1},
     SIA_ARGUMENT,
     "beta 1: want beta >= alpha ln alpha, about 5.54518; below it a_0^2 is negative"},
    {"prope",
     {.heads = 2, .head_dim = 64, .prope_share = 1.5},
     SIA_ARGUMENT,
     "prope_share 1.5: want at most 1"},
    {"si+prope",
     {.heads = 2, .head_dim = 64, .prope_share = 0.0156},
     SIA_ARGUMENT,
     "prope_share 0.0156: turns none of the 32 pairs; want at least 1/64, or nope in the place of prope"},
    {"prope", {.heads = 2, .head_dim = 64, .prope_share = 1.0 / 64}, SIA_OK, ""}, /* one pair */
    {"prope", {.heads = 2, .head_dim = 56, .prope_share = 1.0 / 56}, SIA_OK, ""},
    {"rope", {.heads = 2, .head_dim = 64, .prope_share = 0.001}, SIA_OK, ""}, /* which does not use it */
    {"prope",
     {.heads = 2, .head_dim = 64, .prope_base = INFINITY},
     SIA_ARGUMENT,
     "prope_base inf: want a number from 1e-9 to 1e15"},
    {"rope",
     {.heads = 2, .head_dim = 64, .train_len = -5},
     SIA_ARGUMENT,
     "train_len -5: want 1 to 1073741824"},
    {"ntk",
     {.heads = 2, .head_dim = 64, .eval_len = 1LL << 40},
     SIA_ARGUMENT,
     "eval_len 1099511627776: want 1 to 1073741824"},
    {"rope",
     {.heads = 2, .head_dim = 64, .pairs = (sia_pairs)7},
     SIA_ARGUMENT,
     "pairs 7: want halves or adjacent"},
    {"si+rope",
     {.heads = 2, .head_dim = 64, .fill = fill},
     SIA_SCHEME,
     "fill: the scheme's distance slot already holds 'si'"},
    {"si+alibi",
     {.heads = 2, .head_dim = 64},
     SIA_SCHEME,
     "scheme si+alibi: 'si' and 'alibi' both fill the distance slot"},
    {"prope+rope",
     {.heads = 2, .head_dim = 64},
     SIA_SCHEME,
     "scheme prope+rope: 'prope' and 'rope' both fill the rotary slot"},
    {"prope", {.heads = 2, .head_dim = 64, .prope_share = 1}, SIA_OK, ""}, /* all pairs turn */
    {NULL,
     {.heads = 2, .head_dim = 64},
     SIA_ARGUMENT,
     "scheme: want a name and a place for the result, got NULL"},
};

static void creating(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof creations / sizeof *creations; i++) {
        sia_attention *a;
        sia_error err = {0};
        sia_status status = sia_attention_create(&a, creations[i].scheme, &creations[i].config, &err);
        assert_int_equal(status, creations[i].status);
        assert_string_equal(err.text, creations[i].sentence);
        assert_true((a != NULL) == (status == SIA_OK));
        sia_attention_destroy(a);
        assert_int_equal(sia_attention_create(&a, creations[i].scheme, &creations[i].config, NULL),
                         status); /* err may be NULL */
        sia_attention_destroy(a);
    }
    sia_attention *a;
    for (int i = 0; i < 2; i++) {
        sia_error err = {0};
        assert_int_equal(sia_attention_create(i ? &a : NULL, "si", i ? NULL : &creations[0].config, &err),
                         SIA_ARGUMENT);
        assert_string_equal(err.text, "attention: want a place for the result and a config, got NULL");
    }
    sia_attention_destroy(NULL);
}

enum { N = 4, HEADS = 2, DIM = 8, SIZE = N * HEADS * DIM };
static float x[SIZE], y[SIZE], lse[N * HEADS], s[HEADS];

static const sia_forward good_forward = {.q = x, .k = x, .v = x, .out = y};
static const sia_backward good_backward = {
    .q = x, .k = x, .v = x, .out = x, .lse = lse, .d_out = x, .d_q = y, .d_k = y, .d_v = y};
#define SPAN \
    { .q_len = N, .k_len = N }

static const struct {
    const char *scheme;
    sia_span span;
    sia_forward io;
    const char *sentence;
} forwards[] = {
    {"si", SPAN, {.q = NULL, .k = x, .v = x, .out = y}, "q: NULL, want an array"},
    {"si", SPAN, {.q = x, .k = NULL, .v = x, .out = y}, "k: NULL, want an array"},
    {"si", SPAN, {.q = x, .k = x, .v = NULL, .out = y}, "v: NULL, want an array"},
    {"si", SPAN, {.q = x, .k = x, .v = x, .out = NULL}, "out: NULL, want an array"},
    {"logn+rope",
     SPAN,
     {.q = x, .k = x, .v = x, .out = y},
     "logn: NULL, want one number for each head with scheme logn+rope"},
    {"si",
     SPAN,
     {.q = x, .k = x, .v = x, .out = y, .logn = s},
     "logn: given, but scheme si+nope has no logn"},
    {"si",
     SPAN,
     {.q = x, .k = x, .v = x, .out = y, .q_stride = 15},
     "q_stride 15: want at least a row, 16, and at most 2^32, or 0 for dense"},
    {"si",
     SPAN,
     {.q = x, .k = x, .v = x, .out = y, .k_stride = -16},
     "k_stride -16: want at least a row, 16, and at most 2^32, or 0 for dense"},
    {"si",
     SPAN,
     {.q = x, .k = x, .v = x, .out = y, .v_stride = 1},
     "v_stride 1: want at least a row, 16, and at most 2^32, or 0 for dense"},
    {"si",
     SPAN,
     {.q = x, .k = x, .v = x, .out = y, .out_stride = 8},
     "out_stride 8: want at least a row, 16, and at most 2^32, or 0 for dense"},
    {"si", {.q_len = 0, .k_len = N}, {.q = x, .k = x, .v = x, .out = y}, "q_len 0: want 1 to 1073741824"},
    {"si", {.q_len = N, .k_len = -3}, {.q = x, .k = x, .v = x, .out = y}, "k_len -3: want 1 to 1073741824"},
    {"si",
     {.q_len = N, .k_len = N, .batch = -1},
     {.q = x, .k = x, .v = x, .out = y},
     "batch -1: want 1 to 1073741824"},
    {"si",
     {.q_len = N, .k_len = N, .q_pos = -1},
     {.q = x, .k = x, .v = x, .out = y},
     "q_pos -1: want 0 to 1073741820"},
    {"si",
     {.q_len = N, .k_len = N, .k_pos = 1LL << 50},
     {.q = x, .k = x, .v = x, .out = y},
     "k_pos 1125899906842624: want 0 to 1073741820"},
    {"si",
     {.q_len = 1 << 20, .k_len = N, .batch = 1 << 20},
     {.q = x, .k = x, .v = x, .out = y},
     "batch 1048576: too many for the length 1048576"},
    {"si",
     {.q_len = 1 << 20, .k_len = N, .batch = (1 << 16) + 1},
     {.q = x, .k = x, .v = x, .out = y},
     "batch 65537: too many for the length 1048576"},
};

static void calling_forward(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forwards / sizeof *forwards; i++) {
        sia_attention *a;
        sia_error err = {0};
        sia_attention_config config = {.heads = HEADS, .head_dim = DIM, .threads = 1};
        assert_int_equal(sia_attention_create(&a, forwards[i].scheme, &config, NULL), SIA_OK);
        for (int j = 0; j < SIZE; j++) y[j] = 42;
        assert_int_equal(sia_attention_forward(a, forwards[i].span, &forwards[i].io, NULL, &err),
                         SIA_ARGUMENT);
        assert_string_equal(err.text, forwards[i].sentence);
        assert_int_equal(err.status, SIA_ARGUMENT);
        for (int j = 0; j < SIZE; j++) assert_true(y[j] == 42);
        sia_attention_destroy(a);
    }
    sia_error err;
    assert_int_equal(sia_attention_forward(NULL, (sia_span)SPAN, &good_forward, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "attention: NULL");
    sia_attention *a;
    sia_attention_config config = {.heads = HEADS, .head_dim = DIM, .threads = 1};
    assert_int_equal(sia_attention_create(&a, "si", &config, NULL), SIA_OK);
    assert_int_equal(sia_attention_forward(a, (sia_span)SPAN, NULL, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "io: NULL, want the struct of the call's arrays");
    sia_attention_destroy(a);
}

/* The longest stride that is taken: one row never gets to the next. */
static void longest_stride(void **state) {
    (void)state;
    sia_attention *a;
    sia_error err;
    float one[16] = {0}, out[16];
    sia_attention_config config = {.heads = 1, .head_dim = 16, .threads = 1};
    assert_int_equal(sia_attention_create(&a, "nope", &config, &err), SIA_OK);
    sia_forward io = {.q = one, .k = one, .v = one, .out = out};
    io.q_stride = io.k_stride = io.v_stride = io.out_stride = (int64_t)1 << 32;
    assert_int_equal(sia_attention_forward(a, (sia_span){.q_len = 1, .k_len = 1}, &io, NULL, &err), SIA_OK);
    io.v_stride++;
    assert_int_equal(sia_attention_forward(a, (sia_span){.q_len = 1, .k_len = 1}, &io, NULL, &err),
                     SIA_ARGUMENT);
    sia_attention_destroy(a);
}

static void calling_backward(void **state) {
    (void)state;
    sia_attention *a, *logn;
    sia_attention_config config = {.heads = HEADS, .head_dim = DIM, .threads = 1};
    assert_int_equal(sia_attention_create(&a, "si", &config, NULL), SIA_OK);
    assert_int_equal(sia_attention_create(&logn, "logn+rope", &config, NULL), SIA_OK);
    static const struct {
        size_t offset;
        const char *sentence;
    } needed[] = {{offsetof(sia_backward, q), "q: NULL, want an array"},
                  {offsetof(sia_backward, k), "k: NULL, want an array"},
                  {offsetof(sia_backward, v), "v: NULL, want an array"},
                  {offsetof(sia_backward, out), "out: NULL, want an array"},
                  {offsetof(sia_backward, lse), "lse: NULL, want an array"},
                  {offsetof(sia_backward, d_out), "d_out: NULL, want an array"},
                  {offsetof(sia_backward, d_q), "d_q: NULL, want an array"},
                  {offsetof(sia_backward, d_k), "d_k: NULL, want an array"},
                  {offsetof(sia_backward, d_v), "d_v: NULL, want an array"}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        sia_backward io = good_backward;
        sia_error err = {0};
        memset((char *)&io + needed[i].offset, 0, sizeof(void *));
        assert_int_equal(sia_attention_backward(a, (sia_span)SPAN, &io, NULL, &err), SIA_ARGUMENT);
        assert_string_equal(err.text, needed[i].sentence);
    }
    sia_error err;
    assert_int_equal(sia_attention_backward(NULL, (sia_span)SPAN, &good_backward, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "attention: NULL");
    assert_int_equal(sia_attention_backward(a, (sia_span)SPAN, NULL, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "io: NULL, want the struct of the call's arrays");
    sia_backward io = good_backward;
    io.d_logn = s;
    assert_int_equal(sia_attention_backward(logn, (sia_span)SPAN, &io, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "logn: NULL, want one number for each head with scheme logn+rope");
    io.logn = s;
    assert_int_equal(sia_attention_backward(a, (sia_span)SPAN, &io, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "logn: given, but scheme si+nope has no logn");
    io = good_backward;
    io.d_logn = s;
    assert_int_equal(sia_attention_backward(a, (sia_span)SPAN, &io, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "d_logn: given, but scheme si+nope has no logn");
    io.d_logn = NULL;
    io.logn = s;
    assert_int_equal(sia_attention_backward(logn, (sia_span)SPAN, &io, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "d_logn: NULL, want one number for each head with scheme logn+rope");
    sia_attention_destroy(a);
    sia_attention_destroy(logn);
}

static void calling_the_cache(void **state) {
    (void)state;
    sia_attention *a;
    sia_cache *c;
    sia_error err;
    sia_attention_config config = {.heads = HEADS, .head_dim = DIM, .threads = 1};
    assert_int_equal(sia_attention_create(&a, "si", &config, NULL), SIA_OK);
    assert_int_equal(sia_cache_create(&c, a, (sia_type)9, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "cache type 9: want f32, f16 or i8");
    assert_int_equal(sia_cache_create(&c, NULL, SIA_F32, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "cache: want a place for the result and an attention object, got NULL");
    assert_int_equal(sia_cache_create(NULL, a, SIA_F32, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "cache: want a place for the result and an attention object, got NULL");
    assert_int_equal(sia_cache_create(&c, a, SIA_F32, &err), SIA_OK);
    assert_int_equal(sia_cache_attend(c, 1, x, NULL, y, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "n 1: the cache is empty: want positions appended first");
    assert_int_equal(sia_cache_append(c, 0, x, x, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "n 0: want 1 to 1073741824");
    assert_int_equal(sia_cache_append(c, 2, NULL, x, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "k: NULL, want an array");
    assert_int_equal(sia_cache_append(c, 2, x, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "v: NULL, want an array");
    assert_int_equal(sia_cache_length(c), 0);
    assert_int_equal(sia_cache_append(c, 2, x, x, &err), SIA_OK);
    assert_int_equal(sia_cache_attend(c, 3, x, NULL, y, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "n 3: want 1 to 2, the length of the cache");
    assert_int_equal(sia_cache_append(c, SIA_MAX_POSITION - 1, x, x, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "n 1073741823: want 1 to 1073741822");
    assert_int_equal(sia_cache_attend(c, 1, x, s, y, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "logn: given, but scheme si+nope has no logn");
    assert_int_equal(sia_cache_truncate(c, 3, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "length 3: the cache holds 2");
    assert_int_equal(sia_cache_truncate(c, -1, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "length -1: the cache holds 2");
    assert_int_equal(sia_cache_attend(c, 1, NULL, NULL, y, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "q: NULL, want an array");
    assert_int_equal(sia_cache_attend(c, 1, x, NULL, NULL, NULL, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "out: NULL, want an array");
    assert_int_equal(sia_cache_length(c), 2);
    sia_error errors[3];
    assert_int_equal(sia_cache_append(NULL, 1, x, x, &errors[0]), SIA_ARGUMENT);
    assert_int_equal(sia_cache_attend(NULL, 1, x, NULL, y, NULL, &errors[1]), SIA_ARGUMENT);
    assert_int_equal(sia_cache_truncate(NULL, 0, &errors[2]), SIA_ARGUMENT);
    for (int i = 0; i < 3; i++) assert_string_equal(errors[i].text, "cache: NULL");
    sia_cache_destroy(c);
    sia_cache_destroy(NULL);
    sia_attention_destroy(a);
}

static void tables_and_workspace(void **state) {
    (void)state;
    sia_attention *a;
    sia_error err;
    sia_attention_config config = {.heads = HEADS, .head_dim = DIM, .threads = 1};
    assert_int_equal(sia_attention_create(&a, "si", &config, NULL), SIA_OK);
    assert_int_equal(sia_attention_tables(a, 2, 4, x, y, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "head 2: want 0 to 1");
    assert_int_equal(sia_attention_tables(a, -1, 4, x, y, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "head -1: want 0 to 1");
    assert_int_equal(sia_attention_tables(a, 0, -1, x, y, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "count -1: want 0 to 1073741824");
    sia_error errors[3];
    assert_int_equal(sia_attention_tables(a, 0, 4, NULL, y, &errors[0]), SIA_ARGUMENT);
    assert_int_equal(sia_attention_tables(a, 0, 4, x, NULL, &errors[1]), SIA_ARGUMENT);
    assert_int_equal(sia_attention_tables(NULL, 0, 4, x, y, &errors[2]), SIA_ARGUMENT);
    for (int i = 0; i < 3; i++)
        assert_string_equal(errors[i].text, "tables: want an attention object and two arrays, got NULL");
    assert_int_equal(sia_attention_tables(a, 0, 0, x, y, &err), SIA_OK);
    assert_int_equal(sia_attention_reserve(a, 0, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "length 0: want 1 to 1073741824");
    assert_int_equal(sia_attention_reserve(NULL, 1, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "attention: NULL");
    assert_int_equal(sia_attention_workspace(a, (sia_span){.q_len = -1, .k_len = 4}, SIA_PASS_FORWARD), 0);
    for (int length = 1; length < 300; length += 13) { /* whole lines: one may lie behind another */
        sia_span span = {.q_len = length, .k_len = length};
        for (int pass = 0; pass < 2; pass++) {
            size_t bytes = sia_attention_workspace(a, span, (sia_pass)pass);
            assert_true(bytes > 0 && bytes % 64 == 0);
        }
    }
    sia_attention_destroy(a);
}

/* One that begins anywhere but at a line is refused before anything is written. */
static void workspace_between_lines(void **state) {
    (void)state;
    sia_attention *a;
    sia_error err;
    char sentence[100];
    sia_attention_config config = {.heads = HEADS, .head_dim = DIM, .threads = 1};
    assert_int_equal(sia_attention_create(&a, "si", &config, NULL), SIA_OK);
    size_t forward = sia_attention_workspace(a, (sia_span)SPAN, SIA_PASS_FORWARD);
    size_t backward = sia_attention_workspace(a, (sia_span)SPAN, SIA_PASS_BACKWARD);
    char *work = aligned_alloc(64, (forward > backward ? forward : backward) + 64);
    assert_non_null(work);
    static const int offsets[] = {0, 1, 4, 32, 63, 64};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        char *from = work + offsets[i];
        sia_status wanted = offsets[i] % 64 ? SIA_ARGUMENT : SIA_OK;
        (void)snprintf(sentence, sizeof sentence, "work %p: want an address that is a multiple of 64",
                       (void *)from);
        err.text[0] = 0;
        for (int j = 0; j < SIZE; j++) y[j] = 42;
        assert_int_equal(sia_attention_forward(a, (sia_span)SPAN, &good_forward, from, &err), wanted);
        assert_string_equal(err.text, wanted ? sentence : "");
        assert_true((y[0] == 42) == (wanted != SIA_OK));
        assert_int_equal(sia_attention_backward(a, (sia_span)SPAN, &good_backward, from, &err), wanted);
        assert_string_equal(err.text, wanted ? sentence : "");
    }
    free(work);
    sia_attention_destroy(a);
}

/* A fill that attends, while tables grow for it: said, where it would wait for itself. */
typedef struct asking {
    sia_attention *a;
    sia_status status;
    sia_error err;
} asking;

static void asking_fill(void *context, int head, int heads, int64_t first, int64_t count, double *scale,
                        double *bias) {
    asking *asks = context;
    fill(NULL, head, heads, first, count, scale, bias);
    asks->status = sia_attention_forward(asks->a, (sia_span)SPAN, &good_forward, NULL, &asks->err);
}

static void fill_that_attends(void **state) {
    (void)state;
    sia_attention *own, *other;
    asking asks = {0};
    sia_attention_config config = {.heads = HEADS, .head_dim = DIM, .threads = 1};
    assert_int_equal(sia_attention_create(&other, "si", &config, NULL), SIA_OK);
    config.fill = asking_fill;
    config.fill_context = &asks;
    assert_int_equal(sia_attention_create(&own, "nope", &config, NULL), SIA_OK);
    sia_attention *const asked[] = {own, other};
    for (int i = 0; i < 2; i++) {
        asks.a = asked[i];
        assert_int_equal(sia_attention_reserve(own, 1024 << i, NULL),
                         SIA_OK); /* tables of its own, each time */
        assert_int_equal(asks.status, SIA_ARGUMENT);
        assert_string_equal(asks.err.text, "fill: it made a call for which tables have to grow, want none");
    }
    sia_attention_destroy(own);
    sia_attention_destroy(other);
}

static void names(void **state) {
    (void)state;
    static const struct {
        sia_status status;
        const char *name;
    } all[] = {{SIA_OK, "ok"},           {SIA_ARGUMENT, "argument"}, {SIA_SCHEME, "scheme"},
               {SIA_MEMORY, "memory"},   {SIA_FILE, "file"},         {SIA_FORMAT, "format"},
               {SIA_STOPPED, "stopped"}, {SIA_BUSY, "busy"},         {SIA_NUMBER, "number"},
               {SIA_LOST, "lost"},       {(sia_status)99, "unknown"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_string_equal(sia_status_name(all[i].status), all[i].name);
    assert_string_equal(sia_version(), SIA_VERSION);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(creating),
                                       cmocka_unit_test(calling_forward),
                                       cmocka_unit_test(longest_stride),
                                       cmocka_unit_test(calling_backward),
                                       cmocka_unit_test(calling_the_cache),
                                       cmocka_unit_test(tables_and_workspace),
                                       cmocka_unit_test(workspace_between_lines),
                                       cmocka_unit_test(fill_that_attends),
                                       cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
