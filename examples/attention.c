/* SPDX-License-Identifier: MIT
 *
 * The whole of attention in a few lines: scale-invariant p-RoPE over a short sequence, forward and backward.
 */
#include <stdio.h>
#include <stdlib.h>

#include <sia.h>

enum { N = 64, HEADS = 2, DIM = 32, SIZE = N * HEADS * DIM };

int main(void) {
    static float q[SIZE], k[SIZE], v[SIZE], out[SIZE], lse[N * HEADS], d_q[SIZE], d_k[SIZE], d_v[SIZE];
    for (int i = 0; i < SIZE; i++)
        q[i] = (float)(i % 7) - 3, k[i] = (float)(i % 5) - 2, v[i] = (float)(i % 11);

    sia_error err;
    sia_attention *a;
    sia_span span = {.q_len = N, .k_len = N};
    sia_forward forward = {.q = q, .k = k, .v = v, .out = out, .lse = lse};
    sia_backward backward = {
        .q = q, .k = k, .v = v, .out = out, .lse = lse, .d_out = out, .d_q = d_q, .d_k = d_k, .d_v = d_v};
    if (sia_attention_create(&a, "si+prope", &(sia_attention_config){.heads = HEADS, .head_dim = DIM},
                             &err) ||
        sia_attention_forward(a, span, &forward, NULL, &err) ||
        sia_attention_backward(a, span, &backward, NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    printf("%s with %s kernels: out[0] = %g, d_q[last] = %g\n", sia_attention_scheme(a), sia_isa(),
           (double)out[0], (double)d_q[SIZE - 1]);
    sia_attention_destroy(a);
    return EXIT_SUCCESS;
}
