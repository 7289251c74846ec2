/* SPDX-License-Identifier: MIT
 *
 * One forward and one backward pass on one thread, for instructions.sh to count:
 *
 *     instructions SCHEME HEADS HEAD_DIM LENGTH
 *
 * Tables are made before, so that the passes do what they do in every call but the first. */
#include <sia.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *sentence) {
    (void)fprintf(stderr, "%s\n", sentence);
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 5) return fail("usage: instructions SCHEME HEADS HEAD_DIM LENGTH");
    sia_attention_config config = {.heads = atoi(argv[2]), .head_dim = atoi(argv[3]), .threads = 1};
    sia_span span = {.q_len = atoll(argv[4]), .k_len = atoll(argv[4])};
    sia_attention *a;
    sia_error err;
    if (sia_attention_create(&a, argv[1], &config, &err)) return fail(err.text);
    if (sia_attention_reserve(a, span.q_len, &err)) return fail(err.text);

    size_t n = (size_t)(span.q_len * config.heads * config.head_dim),
           rows = (size_t)(span.q_len * config.heads);
    float *x = malloc((8 * n + rows) * sizeof *x), logn[4096], d_logn[4096];
    if (!x) return fail("no memory");
    uint32_t state = 1;
    for (size_t i = 0; i < 8 * n; i++) { /* about as large as normal numbers are */
        state = (uint32_t)(state * 1664525ull + 1013904223u);
        x[i] = ((float)(state >> 8) / 0x1p24f - 0.5f) * 3.4f;
    }
    for (int i = 0; i < config.heads; i++) logn[i] = 0.3f;
    sia_scheme scheme;
    int row_is_learnt = !sia_scheme_parse(argv[1], &scheme, NULL) && scheme.row == SIA_ROW_LOGN;

    sia_forward forward = {.q = x, .k = x + n, .v = x + 2 * n, .out = x + 3 * n, .lse = x + 8 * n};
    sia_backward backward = {.q = x,
                             .k = x + n,
                             .v = x + 2 * n,
                             .out = x + 3 * n,
                             .d_out = x + 4 * n,
                             .d_q = x + 5 * n,
                             .d_k = x + 6 * n,
                             .d_v = x + 7 * n,
                             .lse = x + 8 * n};
    if (row_is_learnt) forward.logn = backward.logn = logn, backward.d_logn = d_logn;
    int failed = sia_attention_forward(a, span, &forward, NULL, &err) ||
                 sia_attention_backward(a, span, &backward, NULL, &err);
    free(x);
    sia_attention_destroy(a);
    return failed ? fail(err.text) : 0;
}
