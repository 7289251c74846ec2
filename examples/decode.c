/* SPDX-License-Identifier: MIT
 *
 * Generation's inner loop: a prompt goes into the cache in one piece, then tokens follow one by one. */
#include <stdio.h>
#include <stdlib.h>

#include <sia.h>

enum { PROMPT = 1000, TOKENS = 24, HEADS = 4, KV_HEADS = 2, DIM = 64 };

/* Stands in for a model's projections. */
static void project(float *x, int count, int seed) {
    for (int i = 0; i < count; i++) x[i] = (float)((i * 31 + seed * 17) % 23) / 11 - 1;
}

static int fail(const sia_error *err) {
    fprintf(stderr, "%s\n", err->text);
    return EXIT_FAILURE;
}

int main(void) {
    static float q[PROMPT * HEADS * DIM], k[PROMPT * KV_HEADS * DIM], v[PROMPT * KV_HEADS * DIM],
        out[PROMPT * HEADS * DIM];
    sia_error err;
    sia_attention *a;
    sia_cache *cache;
    sia_attention_config config = {.heads = HEADS, .kv_heads = KV_HEADS, .head_dim = DIM};
    if (sia_attention_create(&a, "si+prope", &config, &err) || sia_cache_create(&cache, a, SIA_F16, &err))
        return fail(&err);

    for (int step = 0; step <= TOKENS; step++) {
        int n = step == 0 ? PROMPT : 1;
        project(q, n * HEADS * DIM, step);
        project(k, n * KV_HEADS * DIM, step + 1);
        project(v, n * KV_HEADS * DIM, step + 2);
        if (sia_cache_append(cache, n, k, v, &err) || sia_cache_attend(cache, n, q, NULL, out, NULL, &err))
            return fail(&err);
    }
    printf("%lld positions in %zu bytes, last out[0] = %g\n", (long long)sia_cache_length(cache),
           sia_cache_bytes(cache), (double)out[0]);
    sia_cache_destroy(cache);
    sia_attention_destroy(a);
    return EXIT_SUCCESS;
}
