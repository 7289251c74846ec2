/* SPDX-License-Identifier: MIT
 *
 * A scheme of your own, without touching the library: fill two tables by distance. Here attention fades by a
 * power law, bias = -c ln(1 + t), with a c of its own for each head. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <sia.h>

static void fade(void *context, int head, int heads, int64_t first, int64_t count, double *scale,
                 double *bias) {
    double exponent = *(double *)context * (head + 1) / heads; /* each head fades at its own rate */
    for (int64_t i = 0; i < count; i++) {
        scale[i] = 1;
        bias[i] = -exponent * log1p((double)(first + i));
    }
}

int main(void) {
    enum { N = 100, HEADS = 2, DIM = 16 };
    static float q[N * HEADS * DIM], k[N * HEADS * DIM], v[N * HEADS * DIM], out[N * HEADS * DIM],
        mass[N * HEADS * SIA_DECADES];
    double exponent = 2;
    sia_error err;
    sia_attention *a;
    sia_attention_config config = {.heads = HEADS, .head_dim = DIM, .fill = fade, .fill_context = &exponent};
    if (sia_attention_create(&a, "prope", &config, &err) ||
        sia_attention_forward(a, (sia_span){.q_len = N, .k_len = N},
                              &(sia_forward){.q = q, .k = k, .v = v, .out = out, .mass = mass}, NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    for (int head = 0; head < HEADS; head++) {
        const float *last = mass + ((N - 1) * HEADS + head) * SIA_DECADES;
        printf("head %d: %.3f on itself, %.3f on distances 1-9, %.3f on 10-99\n", head, (double)last[0],
               (double)last[1], (double)last[2]);
    }
    sia_attention_destroy(a);
    return EXIT_SUCCESS;
}
