/* SPDX-License-Identifier: MIT
 *
 * Choosing the next token: p = softmax(logits / temperature), cut to the most likely ones, then one number
 * from the stream of the seed. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "sia.h"

typedef struct candidate {
    float logit;
    uint32_t id;
} candidate;

static int by_logit(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static sia_status check(const float *logits, uint32_t vocabulary, const sia_sampling *s, const uint32_t *id,
                        sia_error *err) {
    if (!logits || !s || !id)
        return sia_fail(err, SIA_ARGUMENT, "sample: want logits, settings and a place, got NULL");
    if (vocabulary < 1 || s->limit > vocabulary)
        return sia_fail(err, SIA_ARGUMENT, "sample: limit %u: want at most the vocabulary, %u", s->limit,
                        vocabulary);
    if (!(s->temperature >= 0 && s->temperature <= 1000))
        return sia_fail(err, SIA_ARGUMENT, "temperature %g: want 0 to 1000", s->temperature);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return sia_fail(err, SIA_ARGUMENT, "top_p %g: want 0 to 1", s->top_p);
    if (s->top_k < 0) return sia_fail(err, SIA_ARGUMENT, "top_k %lld: want 1 or more", (long long)s->top_k);
    return SIA_OK;
}

/* The candidates are sorted: how many of them stay, and the sum of their probabilities (of all: `whole`). */
static uint32_t cut(const candidate *c, uint32_t count, const sia_sampling *s, double *sum) {
    double whole = 0, top_p = s->top_p > 0 ? s->top_p : 1;
    uint32_t most = s->top_k && s->top_k < count ? (uint32_t)s->top_k : count, kept = 0;
    for (uint32_t i = 0; i < most; i++) whole += exp((double)(c[i].logit - c[0].logit) / s->temperature);
    for (*sum = 0; kept < most && (kept == 0 || *sum < top_p * whole); kept++)
        *sum += exp((double)(c[kept].logit - c[0].logit) / s->temperature);
    return kept;
}

sia_status sia_sample(const float *logits, uint32_t vocabulary, const sia_sampling *s, uint64_t index,
                      uint32_t *id, sia_error *err) {
    sia_status status = check(logits, vocabulary, s, id, err);
    if (status) return status;
    uint32_t count = s->limit ? s->limit : vocabulary, best = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(logits[i]))
            return sia_fail(err, SIA_NUMBER, "the logit of token %u is %g", i, (double)logits[i]);
        if (logits[i] > logits[best]) best = i;
    }
    *id = best;
    if (s->temperature == 0 || s->top_k == 1) return SIA_OK;
    candidate *c = sia_alloc(count, sizeof *c);
    if (!c) return sia_fail_memory(err, count * sizeof *c, "sample");
    for (uint32_t i = 0; i < count; i++) c[i] = (candidate){logits[i], i};
    qsort(c, count, sizeof *c, by_logit);
    double sum, at = 0;
    uint32_t kept = cut(c, count, s, &sum);
    double wanted = sia_random_uniform(s->seed, index) * sum;
    *id = c[kept - 1].id;
    for (uint32_t i = 0; i < kept; i++) {
        at += exp((double)(c[i].logit - c[0].logit) / s->temperature);
        if (at > wanted) {
            *id = c[i].id;
            break;
        }
    }
    sia_free(c);
    return SIA_OK;
}
