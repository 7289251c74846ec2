/* SPDX-License-Identifier: MIT
 *
 * Names of schemes, their tables, and the two identities that the paper's transform is made for. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "larger.h"
#include "position/table.h"

static const struct {
    const char *name, *canonical; /* NULL: refused */
    const char *sentence;         /* a part of it */
} names[] = {
    {"nope", "nope", NULL},
    {"rope", "rope", NULL},
    {"prope", "prope", NULL},
    {"rope+ntk", "rope+ntk", NULL},
    {"ntk", "rope+ntk", NULL},
    {"yarn", "rope+yarn", NULL},
    {"rope+yarn", "rope+yarn", NULL},
    {"alibi", "alibi", NULL},
    {"alibi+nope", "alibi", NULL},
    {"logn+rope", "logn+rope", NULL},
    {"rope+logn", "logn+rope", NULL},
    {"logn+prope", "logn+prope", NULL},
    {"logn+ntk", "logn+ntk", NULL},
    {"logn+rope+ntk", "logn+ntk", NULL},
    {"si+prope", "si+prope", NULL},
    {"prope+si", "si+prope", NULL},
    {"si+rope", "si+rope", NULL},
    {"si", "si+nope", NULL},
    {"si+nope", "si+nope", NULL},
    {"sharp+prope", "sharp+prope", NULL},
    {"logn+si+prope", "logn+si+prope", NULL},
    {"", NULL, "scheme: empty; want nope, rope, prope, "},
    {"+", NULL, "scheme +: no word at one end of '+'; want nope, "},
    {"si+", NULL, "scheme si+: no word at one end of '+'; want nope, "},
    {"+si", NULL, "scheme +si: no word at one end of '+'; want nope, "},
    {"si++prope", NULL, "scheme si++prope: no word at one end of '+'; want nope, "},
    {"pope", NULL, "scheme pope: unknown word 'pope'; want nope, rope, prope, "},
    {"SI", NULL, "unknown word 'SI'"},
    {"si+si", NULL, "'si' is there twice"},
    {"si+alibi", NULL, "'si' and 'alibi' both fill the distance slot"},
    {"logn+sharp", NULL, "'logn' and 'sharp' both fill the row slot"},
    {"rope+prope", NULL, "'rope' and 'prope' both fill the rotary slot"},
    {"nope+rope", NULL, "both fill the rotary slot"},
    {"prope+ntk", NULL, "both fill the rotary slot"},
    {"ntk+yarn", NULL, "both fill the rotary slot"},
    {"ntk+rope", NULL, "scheme ntk+rope: 'ntk' and 'rope' both fill the rotary slot; want rope+ntk"},
    {"logn+yarn+rope", NULL, "'yarn' and 'rope' both fill the rotary slot; want rope+yarn"},
    {"rope\033[31m", NULL, "?[31m"}, /* no escape sequence gets through */
};

static void parsing(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sia_scheme scheme;
        sia_error err = {0};
        char canonical[SIA_SCHEME_NAME];
        sia_status status = sia_scheme_parse(names[i].name, &scheme, &err);
        if (names[i].canonical) {
            assert_int_equal(status, SIA_OK);
            assert_string_equal(sia_scheme_name(scheme, canonical), names[i].canonical);
        } else {
            assert_int_equal(status, SIA_SCHEME);
            if (!strstr(err.text, names[i].sentence)) fail_msg("'%s' says: %s", names[i].name, err.text);
        }
    }
    for (const char *const *name = sia_scheme_list(); *name; name++) {
        sia_scheme scheme;
        char canonical[SIA_SCHEME_NAME];
        assert_int_equal(sia_scheme_parse(*name, &scheme, NULL), SIA_OK);
        assert_string_equal(sia_scheme_name(scheme, canonical), *name);
    }
}

static sia_attention *attention(const char *scheme, sia_attention_config config) {
    sia_attention *a;
    sia_error err;
    if (config.heads == 0) config.heads = 1;
    if (config.head_dim == 0) config.head_dim = 64;
    if (sia_attention_create(&a, scheme, &config, &err)) fail_msg("%s: %s", scheme, err.text);
    return a;
}

/* a_0 = 1, m_0 = 0; with Gaussian logits E[e^L] = e^(m + a^2/2) = alpha / (t/tau + 1), and
 * E[L e^L] = (m + a^2) e^(m + a^2/2) = beta / (t/tau + 1). */
static void scale_invariant_tables(void **state) {
    (void)state;
    const double parameters[][3] = {{10, 0, 0}, {0.1, 0, 0}, {100, 1, 1}, {7, 0.5, 3}};
    enum { COUNT = 100000 };
    float *scale = malloc(sizeof(float) * COUNT), *bias = malloc(sizeof(float) * COUNT);
    for (int i = 0; i < 4; i++) {
        sia_attention *a = attention("si+nope", (sia_attention_config){.tau = parameters[i][0],
                                                                       .alpha = parameters[i][1],
                                                                       .beta = parameters[i][2]});
        const sia_attention_config *c = sia_attention_settings(a);
        assert_int_equal(sia_attention_tables(a, 0, COUNT, scale, bias, NULL), SIA_OK);
        if (parameters[i][1] == 0) assert_true(scale[0] == 1 && bias[0] == 0);
        for (int64_t t = 0; t < COUNT; t += 997) {
            double square = (double)scale[t] * scale[t], mean = exp(bias[t] + square / 2),
                   want = 1 / ((double)t / c->tau + 1);
            assert_true(fabs(mean / (c->alpha * want) - 1) < 1e-5);
            assert_true(fabs((bias[t] + square) * mean / (c->beta * want) - 1) < 1e-5);
        }
        sia_attention_destroy(a);
    }
    free(scale);
    free(bias);
}

static void other_tables(void **state) {
    (void)state;
    float scale[100], bias[100];
    sia_attention *a = attention("alibi", (sia_attention_config){.heads = 4});
    for (int head = 0; head < 4; head++) {
        assert_int_equal(sia_attention_tables(a, head, 100, scale, bias, NULL), SIA_OK);
        for (int t = 0; t < 100; t++) {
            assert_true(scale[t] == 1);
            assert_true(fabs(bias[t] + pow(2, -2.0 * (head + 1)) * t) < 1e-5);
        }
    }
    sia_attention_destroy(a);
    a = attention("logn+rope", (sia_attention_config){0});
    assert_int_equal(sia_attention_tables(a, 0, 100, scale, bias, NULL), SIA_OK);
    for (int t = 0; t < 100; t++) assert_true(scale[t] == 1 && bias[t] == 0);
    sia_attention_destroy(a);
}

/* p-RoPE: half of the pairs turn, from 1 to 1/base; RoPE: base^(-2i/d); NTK and YaRN leave the training
 * length alone. */
static void frequencies(void **state) {
    (void)state;
    double f[64], g[64];
    sia_attention_config c = {.heads = 1, .head_dim = 128, .threads = 1};
    sia_scheme scheme;
    assert_int_equal(sia_scheme_parse("prope", &scheme, NULL), SIA_OK);
    assert_int_equal(sia_config_complete(&scheme, &c, NULL), SIA_OK);
    assert_int_equal(sia_rotary_frequencies(scheme, &c, f), 32);
    assert_true(f[0] == 1 && fabs(f[31] * 1024 - 1) < 1e-12 && f[32] == 0);
    assert_int_equal(sia_scheme_parse("rope", &scheme, NULL), SIA_OK);
    assert_int_equal(sia_rotary_frequencies(scheme, &c, f), 64);
    assert_true(f[0] == 1 && fabs(f[32] - 0.01) < 1e-15);
    for (const char *const *name = (const char *const[]){"ntk", "yarn", NULL}; *name; name++) {
        assert_int_equal(sia_scheme_parse(*name, &scheme, NULL), SIA_OK);
        c.eval_len = c.train_len;
        sia_rotary_frequencies(scheme, &c, g);
        assert_memory_equal(f, g, sizeof f);
        c.eval_len = 16 * c.train_len;
        sia_rotary_frequencies(scheme, &c, g);
        assert_true(g[0] == 1);                           /* the fastest pair stays */
        assert_true(fabs(g[63] / f[63] * 16 - 1) < 1e-9); /* the slowest is stretched by 16 */
    }
    assert_true(fabs(sia_row_constant(scheme, &c) - pow(0.1 * log(16) + 1, 2)) < 1e-12);
}

/* What the header gives in brackets. */
static void defaults(void **state) {
    (void)state;
    sia_attention *a = attention("si+prope", (sia_attention_config){.heads = 3});
    const sia_attention_config *c = sia_attention_settings(a);
    assert_int_equal(c->kv_heads, 3);
    assert_true(c->threads >= 1);
    assert_int_equal(c->train_len, 4096);
    assert_int_equal(c->eval_len, 4096);
    assert_true(c->tau == 10 && c->alpha == exp(0.5) && c->beta == exp(0.5) && c->sharp == 2);
    assert_true(c->rotary_base == 10000 && c->prope_base == 1024 && c->prope_share == 0.5);
    assert_int_equal(c->pairs, SIA_PAIRS_HALVES);
    sia_attention_destroy(a);
    a = attention("si+prope", (sia_attention_config){.train_len = 100});
    assert_int_equal(sia_attention_settings(a)->eval_len, 100);
    assert_true(sia_attention_settings(a)->prope_base == 25);
    sia_attention_destroy(a);
}

static void count_fills(void *context, int head, int heads, int64_t first, int64_t count, double *scale,
                        double *bias) {
    (void)heads;
    if (head == 0 && first == 0) ++*(int *)context;
    for (int64_t i = 0; i < count; i++) scale[i] = 1, bias[i] = 0;
}

/* Tables that grow with a context of one more position each time at least double; a length that was reserved is
 * made once. */
static void tables_double(void **state) {
    (void)state;
    int fills = 0;
    sia_attention *a = attention("nope", (sia_attention_config){.fill = count_fills, .fill_context = &fills});
    for (int64_t length = 1; length <= 1024; length++)
        assert_int_equal(sia_attention_reserve(a, length, NULL), SIA_OK);
    assert_int_equal(fills, 1);
    for (int64_t length = 1025; length <= 64 * 1024; length++)
        assert_int_equal(sia_attention_reserve(a, length, NULL), SIA_OK);
    assert_int_equal(fills, 7);
    assert_int_equal(sia_attention_reserve(a, 1000 * 1000, NULL), SIA_OK);
    assert_int_equal(sia_attention_reserve(a, 999 * 1000, NULL), SIA_OK);
    assert_int_equal(fills, 8);
    sia_attention_destroy(a);
}

/* Turning by the coarse and the fine table, far out: angles to 1e-6 at a million positions. */
static void rotary_tables_far_out(void **state) {
    (void)state;
    sia_attention_config c = {.heads = 1, .head_dim = 64, .threads = 1};
    sia_scheme scheme;
    sia_tables *t;
    double f[32], worst = 0;
    assert_int_equal(sia_scheme_parse("rope", &scheme, NULL), SIA_OK);
    assert_int_equal(sia_config_complete(&scheme, &c, NULL), SIA_OK);
    assert_int_equal(sia_tables_create(&t, scheme, &c, 1 << 20, NULL), SIA_OK);
    sia_rotary_frequencies(scheme, &c, f);
    for (int64_t position = 0; position < 1 << 20; position += 9973)
        for (int i = 0; i < 32; i++) {
            const float *fine = t->fine + position % 256 * 64, *coarse = t->coarse + position / 256 * 64;
            double cosine = (double)coarse[i] * fine[i] - (double)coarse[32 + i] * fine[32 + i];
            worst = larger(worst, fabs(cosine - cos((double)position * f[i])));
        }
    assert_true(worst < 2e-7);
    sia_tables_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parsing),
                                       cmocka_unit_test(scale_invariant_tables),
                                       cmocka_unit_test(other_tables),
                                       cmocka_unit_test(frequencies),
                                       cmocka_unit_test(defaults),
                                       cmocka_unit_test(tables_double),
                                       cmocka_unit_test(rotary_tables_far_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
