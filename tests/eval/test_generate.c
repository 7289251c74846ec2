/* SPDX-License-Identifier: MIT
 *
 * Generated text: the same for a seed, whatever the threads; greedy is the likeliest token step by step; stop
 * texts and characters that span tokens; what is never drawn.
 *
 * A new model's blocks write nothing into the residual stream, so what it says depends on the last token alone:
 * with embeddings e_i and W[next] = e_last it is a chain that the test writes down. */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/generate.h"
#include "small_run.h"

enum { BYTES = 256, END = 256, SIZE = 257, VOCABULARY = 264 };

static sia_error said;
#define OK(call)                                    \
    do {                                            \
        if ((call) != 0) fail_msg("%s", said.text); \
    } while (0)

/* 256 bytes and end-of-text. */
static sia_tokenizer *byte_tokenizer(void) {
    sia_tokenizer *t;
    sia_text text = {"some text", 9};
    OK(sia_tokenizer_train(&t, &(sia_tokenizer_training){.size = SIZE, .threads = 1}, &text, 1, &said));
    assert_int_equal(sia_tokenizer_end_of_text(t), END);
    return t;
}

typedef struct heard {
    char text[4096];
    size_t used;
    int calls;
    bool cut;      /* a call ended within a character */
    int refuse_at; /* the call that fails; 0: none */
} heard;

static sia_status hear(void *context, const char *bytes, size_t count, sia_error *err) {
    heard *h = context;
    if (++h->calls == h->refuse_at) return sia_fail(err, SIA_FILE, "no more");
    assert_true(h->used + count < sizeof h->text);
    memcpy(h->text + h->used, bytes, count);
    h->used += count;
    h->text[h->used] = 0;
    /* The last character starts at the last byte that is none of 10xxxxxx. */
    size_t back = 1;
    while (back < count && ((unsigned char)bytes[count - back] & 0xc0) == 0x80) back++;
    unsigned char first = (unsigned char)bytes[count - back];
    size_t wanted = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (wanted != back) h->cut = true;
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ chains */

/* After each byte of the text the next one, then `last`; bytes must differ. */
static sia_model *chain(const char *text, uint32_t last) {
    sia_model_config config = {.layers = 1,
                               .width = VOCABULARY,
                               .heads = 1,
                               .head_dim = 8,
                               .hidden = 8,
                               .vocabulary = VOCABULARY,
                               .train_len = 8};
    sia_model *m;
    OK(sia_model_create(&m, &config, 1, &said));
    float *embedding = sia_model_tensor(m, 0).value;
    float *unembedding = sia_model_tensor(m, sia_model_tensors(m) - 1).value;
    memset(embedding, 0, sizeof(float) * VOCABULARY * VOCABULARY);
    for (int i = 0; i < VOCABULARY; i++) embedding[i * VOCABULARY + i] = 1;
    for (size_t i = 0; text[i]; i++) {
        uint32_t next = text[i + 1] ? (unsigned char)text[i + 1] : last;
        unembedding[next * VOCABULARY + (unsigned char)text[i]] = 10;
    }
    return m;
}

#define E_ACUTE "\xc3\xa9"
#define EURO "\xe2\x82\xac"
#define FACE "\xf0\x9f\x98\x80"
#define UNKNOWN "\xef\xbf\xbd"

static const struct chain_case {
    const char *name, *says; /* the first byte is the prompt */
    uint32_t last;
    int tokens;
    const char *stop;
    bool ignore_end;
    const char *wanted;
    sia_generate_end end;
    int drawn;
} chain_cases[] = {
    {"whole characters", "a" E_ACUTE EURO FACE "b", END, 50, NULL, false, E_ACUTE EURO FACE "b",
     SIA_END_DOCUMENT, 10},
    {"cut in a character", "a" E_ACUTE EURO, END, 4, NULL, false, E_ACUTE, SIA_END_TOKENS, 4},
    {"no character",
     "a\xc3"
     "b",
     END, 50, NULL, false, UNKNOWN "b", SIA_END_DOCUMENT, 2},
    {"overlong",
     "a\xc0\x80"
     "b",
     END, 50, NULL, false, UNKNOWN UNKNOWN "b", SIA_END_DOCUMENT, 3},
    {"surrogate",
     "a\xed\xa0\x80"
     "b",
     END, 50, NULL, false, UNKNOWN UNKNOWN UNKNOWN "b", SIA_END_DOCUMENT, 4},
    {"above U+10FFFF",
     "a\xf4\x90"
     "b",
     END, 50, NULL, false, UNKNOWN UNKNOWN "b", SIA_END_DOCUMENT, 3},
    {"stop", "abcdefg", END, 50, "de", false, "bc", SIA_END_STOP, 4},
    {"stop at once", "abcdefg", END, 50, "b", false, "", SIA_END_STOP, 1},
    {"stop over characters", "a" E_ACUTE EURO FACE "b", END, 50, EURO FACE, false, E_ACUTE, SIA_END_STOP, 9},
    {"stop that does not come", "abcdef", END, 50, "efx", false, "bcdef", SIA_END_DOCUMENT, 5},
    {"stop begun at the end", "abcdef", END, 4, "dex", false, "bcde", SIA_END_TOKENS, 4},
    {"end-of-text at once", "a", END, 50, NULL, false, "", SIA_END_DOCUMENT, 0},
    /* Without it all others are equally likely: the smallest id, 0, whose successor is 0 too. */
    {"ignored end", "ab", END, 3, NULL, true, "b", SIA_END_TOKENS, 3},
    {"an id of padding", "ab", 260, 2, NULL, false, "b", SIA_END_TOKENS, 2},
};

static void test_chains(void **state) {
    (void)state;
    sia_tokenizer *t = byte_tokenizer();
    for (size_t i = 0; i < sizeof chain_cases / sizeof *chain_cases; i++) {
        const struct chain_case *c = &chain_cases[i];
        sia_model *m = chain(c->says, c->last);
        sia_session *s;
        sia_generated result;
        heard h = {.used = 0};
        sia_generation g = {.tokenizer = t,
                            .prompt = {c->says, 1},
                            .tokens = c->tokens,
                            .stop = {c->stop, c->stop ? strlen(c->stop) : 0},
                            .ignore_end = c->ignore_end,
                            .write = hear,
                            .write_context = &h};
        OK(sia_session_create(&s, m, SIA_F32, &said));
        OK(sia_generate(s, m, &g, &result, &said));
        /* 0 bytes at the end are drawn where nothing else can be. */
        if (strcmp(h.text, c->wanted) != 0 || h.cut || result.end != c->end || result.tokens != c->drawn)
            fail_msg("%s: '%s'%s, end %d, %d tokens; want '%s', %d, %d", c->name, h.text, h.cut ? " cut" : "",
                     result.end, (int)result.tokens, c->wanted, c->end, c->drawn);
        sia_session_destroy(s);
        sia_model_destroy(m);
    }
    sia_tokenizer_close(t);
}

static bool now(void) { return true; }

static void test_ends(void **state) {
    (void)state;
    sia_tokenizer *t = byte_tokenizer();
    sia_model *m = chain("abcdef", 'a');
    sia_session *s;
    sia_generated result;
    heard h = {.refuse_at = 3};
    sia_generation g = {.tokenizer = t, .prompt = {"a", 1}, .write = hear, .write_context = &h};
    OK(sia_session_create(&s, m, SIA_F32, &said));
    assert_int_equal(sia_generate(s, m, &g, &result, &said), SIA_FILE); /* 0 tokens: no limit */
    assert_string_equal(h.text, "bc");
    OK(sia_session_truncate(s, 0, &said));
    g.stopped = now;
    assert_int_equal(sia_generate(s, m, &g, &result, &said), SIA_STOPPED);
    sia_session_destroy(s);
    sia_model_destroy(m);
    sia_model_config small = {.layers = 1, .width = 16, .heads = 1, .vocabulary = 64, .train_len = 8};
    OK(sia_model_create(&m, &small, 1, &said));
    OK(sia_session_create(&s, m, SIA_F32, &said));
    assert_int_equal(sia_generate(s, m, &g, &result, &said), SIA_ARGUMENT);
    assert_string_equal(said.text, "the tokenizer has 257 tokens, the model's vocabulary ends at 64");
    sia_session_destroy(s);
    sia_model_destroy(m);
    sia_tokenizer_close(t);
}

/* ------------------------------------------------------------------------------------------------ any model */

static void text_of(const sia_tokenizer *t, int threads, sia_sampling sampling, sia_type type, heard *h) {
    sia_model_config config = {
        .layers = 2, .width = 48, .heads = 2, .vocabulary = VOCABULARY, .train_len = 16, .seed = 4};
    sia_model *m;
    sia_session *s;
    sia_generated result;
    *h = (heard){.used = 0};
    sia_generation g = {.tokenizer = t,
                        .prompt = {"hello", 5},
                        .sampling = sampling,
                        .tokens = 100,
                        .ignore_end = true,
                        .write = hear,
                        .write_context = h};
    OK(sia_model_create(&m, &config, threads, &said));
    draw_weights(m, 0.5f);
    OK(sia_session_create(&s, m, type, &said));
    OK(sia_generate(s, m, &g, &result, &said));
    assert_int_equal(result.tokens, 100);
    assert_int_equal(result.prompt_tokens, 5);
    sia_session_destroy(s);
    sia_model_destroy(m);
}

static void test_seeds(void **state) {
    (void)state;
    sia_tokenizer *t = byte_tokenizer();
    static heard one, two, other;
    for (int type = SIA_F32; type <= SIA_I8; type++) {
        text_of(t, 1, (sia_sampling){.temperature = 1, .seed = 5}, (sia_type)type, &one);
        text_of(t, 2, (sia_sampling){.temperature = 1, .seed = 5}, (sia_type)type, &two);
        text_of(t, 2, (sia_sampling){.temperature = 1, .seed = 6}, (sia_type)type, &other);
        assert_int_equal(one.used, two.used);
        assert_memory_equal(one.text, two.text, one.used);
        assert_true(one.used != other.used || memcmp(one.text, other.text, one.used) != 0);
    }
    sia_tokenizer_close(t);
}

/* Step by step, without anything of generate.c. */
static void test_greedy(void **state) {
    (void)state;
    enum { TOKENS = 100 };
    sia_tokenizer *t = byte_tokenizer();
    static heard h;
    text_of(t, 1, (sia_sampling){.temperature = 0}, SIA_F32, &h);
    sia_model_config config = {
        .layers = 2, .width = 48, .heads = 2, .vocabulary = VOCABULARY, .train_len = 16, .seed = 4};
    sia_model *m;
    sia_session *s;
    float logits[VOCABULARY];
    uint32_t ids[5 + TOKENS], count = 5;
    for (int i = 0; i < 5; i++) ids[i] = (unsigned char)"hello"[i];
    OK(sia_model_create(&m, &config, 1, &said));
    draw_weights(m, 0.5f);
    for (int i = 0; i < TOKENS; i++) {
        OK(sia_session_create(&s, m, SIA_F32, &said)); /* all of it again: no cache that could be wrong */
        OK(sia_session_feed(s, ids, count, NULL, NULL, logits, &said));
        sia_session_destroy(s);
        uint32_t best = 0;
        for (uint32_t id = 1; id < BYTES; id++)
            if (logits[id] > logits[best]) best = id;
        ids[count++] = best;
    }
    sia_model_destroy(m);
    /* Compared where the bytes are plain: the others are U+FFFD, or parts of characters. */
    size_t at = 0;
    int compared = 0;
    for (uint32_t i = 5; i < count; i++) {
        if (ids[i] >= 0x80) continue;
        while (at < h.used && (unsigned char)h.text[at] >= 0x80) at++;
        assert_true(at < h.used);
        assert_int_equal((unsigned char)h.text[at++], ids[i]);
        compared++;
    }
    while (at < h.used && (unsigned char)h.text[at] >= 0x80) at++;
    assert_int_equal(at, h.used);
    printf("greedy: %d of %d tokens are plain characters\n", compared, TOKENS);
    assert_true(compared > 10);
    sia_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains), cmocka_unit_test(test_ends),
                                       cmocka_unit_test(test_seeds), cmocka_unit_test(test_greedy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
