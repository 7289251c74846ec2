/* SPDX-License-Identifier: MIT
 *
 * Choosing the next token: p = softmax(logits / temperature), cut to the most likely ones, then one number
 * from the stream of the seed. */
#include <math.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "sia.h"

typedef struct candidate {
    float logit;
    uint32_t id;
} candidate;

/* Candidates by their logits; of equals, the first in the vocabulary. A draw looks at few of them in most cases, so
 * they are not sorted, but taken from a heap one by one. */
typedef struct ranking {
    candidate
        *c; /* a heap of `left`, c[i] before c[2 i + 1] and c[2 i + 2]; behind it those that were taken, */
    uint32_t count, left; /* the first of them last */
} ranking;

static bool is_before(candidate a, candidate b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

static void sink(candidate *c, uint32_t count, uint32_t i) {
    candidate moved = c[i];
    for (uint32_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && is_before(c[child + 1], c[child])) child++;
        if (!is_before(c[child], moved)) break;
        c[i] = c[child];
    }
    c[i] = moved;
}

static candidate nth(ranking *r, uint32_t n) {
    while (r->count - r->left <= n) {
        candidate most = r->c[0];
        r->c[0] = r->c[--r->left];
        r->c[r->left] = most;
        sink(r->c, r->left, 0);
    }
    return r->c[r->count - 1 - n];
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

static double likelihood(candidate of, float best, const sia_sampling *s) {
    return exp((double)(of.logit - best) / s->temperature);
}

static uint32_t draw(ranking *r, const sia_sampling *s, uint64_t index) {
    bool all = s->top_k == 0 || s->top_k >= r->count;
    uint32_t most = all ? r->count : (uint32_t)s->top_k, kept = most;
    float best = nth(r, 0).logit;
    double sum = 0, at = 0;
    for (uint32_t i = 0; i < most; i++) sum += likelihood(all ? r->c[i] : nth(r, i), best, s);
    if (s->top_p > 0 && s->top_p < 1) {
        double enough = s->top_p * sum;
        for (kept = 0, sum = 0; kept < most && (kept == 0 || sum < enough); kept++)
            sum += likelihood(nth(r, kept), best, s);
    }
    double wanted = sia_random_uniform(s->seed, index) * sum;
    for (uint32_t i = 0; i < kept - 1; i++) {
        at += likelihood(nth(r, i), best, s);
        if (at > wanted) return nth(r, i).id;
    }
    return nth(r, kept - 1).id;
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
    ranking r = {sia_alloc(count, sizeof *r.c), count, count};
    if (!r.c) return sia_fail_memory(err, count * sizeof *r.c, "sample");
    for (uint32_t i = 0; i < count; i++) r.c[i] = (candidate){logits[i], i};
    for (uint32_t i = count / 2; i > 0; i--) sink(r.c, count, i - 1);
    *id = draw(&r, s, index);
    sia_free(r.c);
    return SIA_OK;
}
