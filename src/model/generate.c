/* SPDX-License-Identifier: MIT
 *
 * Generating: feed the prompt, then draw, hand on, feed, until something ends it. Text goes through two holds:
 * bytes that may begin the stop text wait until that is decided, then those that may begin a character. */
#define _GNU_SOURCE
#include "model/generate.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/harmless.h"
#include "base/memory.h"

enum { PIECE = 8192 }; /* of a prompt: between two of them a wish to stop is heard */

/* ------------------------------------------------------------------------------------------------ text */

typedef struct holding {
    const sia_generation *g;
    char *bytes; /* what was not handed on yet */
    size_t count, room;
    bool stopped; /* the stop text came up */
} holding;

/* How many bytes at the end may be the start of the stop text. */
static size_t undecided(const holding *h) {
    sia_text stop = h->g->stop;
    size_t most = stop.size ? stop.size - 1 : 0;
    if (most > h->count) most = h->count;
    for (; most > 0; most--)
        if (memcmp(h->bytes + h->count - most, stop.bytes, most) == 0) return most;
    return 0;
}

/* Hands on the characters of the first `limit` bytes, whole runs of them at once, and keeps the rest. */
static sia_status hand_on(holding *h, size_t limit, sia_error *err) {
    static const char replacement[] = "\xef\xbf\xbd";
    sia_status status = SIA_OK;
    size_t from = 0, at = 0;
    while (!status && at < limit) {
        uint32_t number;
        int length = sia_utf8_character(h->bytes + at, limit - at, &number);
        if (length < 0) break;
        if (length > 0) {
            at += (size_t)length;
            continue;
        }
        if (at > from) status = h->g->write(h->g->write_context, h->bytes + from, at - from, err);
        if (!status) status = h->g->write(h->g->write_context, replacement, sizeof replacement - 1, err);
        from = ++at;
    }
    if (!status && at > from) status = h->g->write(h->g->write_context, h->bytes + from, at - from, err);
    h->count -= at;
    if (h->count) memmove(h->bytes, h->bytes + at, h->count);
    return status;
}

static sia_status hold(holding *h, const char *bytes, size_t count, sia_error *err) {
    if (!sia_grow(&h->bytes, &h->room, h->count + count, 1)) return sia_fail_memory(err, count, "text");
    if (count) memcpy(h->bytes + h->count, bytes, count);
    h->count += count;
    sia_text stop = h->g->stop;
    char *found = stop.size && h->count ? memmem(h->bytes, h->count, stop.bytes, stop.size) : NULL;
    if (found) {
        h->stopped = true;
        h->count = (size_t)(found - h->bytes);
    }
    return hand_on(h, h->count - (found ? 0 : undecided(h)), err);
}

/* ------------------------------------------------------------------------------------------------ tokens */

static sia_status heard(const sia_generation *g, sia_error *err) {
    return g->stopped && g->stopped() ? sia_fail(err, SIA_STOPPED, "stopped") : SIA_OK;
}

static sia_status feed_prompt(sia_session *s, const sia_generation *g, sia_generated *result, float *logits,
                              sia_error *err) {
    size_t count = 1;
    uint32_t *ids = sia_alloc(g->prompt.size + 1, sizeof *ids);
    if (!ids) return sia_fail_memory(err, g->prompt.size * sizeof *ids, "prompt");
    sia_status status = SIA_OK;
    double started = sia_seconds();
    if (g->prompt.size)
        status = sia_tokenizer_encode(g->tokenizer, g->prompt.bytes, g->prompt.size, ids, &count, err);
    else
        ids[0] = sia_tokenizer_end_of_text(g->tokenizer);
    for (size_t at = 0; !status && at < count; at += PIECE) {
        size_t n = count - at < PIECE ? count - at : PIECE;
        status = sia_session_feed(s, ids + at, (int64_t)n, NULL, NULL, at + n == count ? logits : NULL, err);
        if (!status) status = heard(g, err);
    }
    result->prompt_tokens = (int64_t)count;
    result->prompt_seconds = sia_seconds() - started;
    sia_free(ids);
    return status;
}

/* What is not to be drawn becomes as unlikely as a number can say. */
static void forbid(const sia_generation *g, float *logits, uint32_t limit) {
    for (uint32_t id = 0; id < limit; id++)
        if (sia_tokenizer_special(g->tokenizer, id) &&
            (g->ignore_end || id != sia_tokenizer_end_of_text(g->tokenizer)))
            logits[id] = -FLT_MAX;
}

static sia_status draw_tokens(sia_session *s, const sia_generation *g, uint32_t limit, float *logits,
                              holding *h, sia_generated *result, sia_error *err) {
    sia_sampling sampling = g->sampling;
    sampling.limit = limit;
    double started = sia_seconds();
    sia_status status = SIA_OK;
    while (!status && (!g->tokens || result->tokens < g->tokens)) {
        uint32_t id;
        size_t length;
        forbid(g, logits, limit);
        status = sia_sample(logits, limit, &sampling, (uint64_t)result->tokens, &id, err);
        if (!status && id == sia_tokenizer_end_of_text(g->tokenizer)) {
            result->end = SIA_END_DOCUMENT;
            break;
        }
        const char *bytes = status ? NULL : sia_tokenizer_bytes(g->tokenizer, id, &length);
        if (!status) status = hold(h, bytes, length, err);
        if (!status) result->tokens++;
        if (!status && h->stopped) {
            result->end = SIA_END_STOP;
            break;
        }
        if (!status) status = heard(g, err);
        if (!status && result->tokens != g->tokens)
            status = sia_session_feed(s, &id, 1, NULL, NULL, logits, err);
        result->seconds = sia_seconds() - started;
    }
    return status;
}

sia_status sia_generate(sia_session *s, const sia_model *m, const sia_generation *g, sia_generated *result,
                        sia_error *err) {
    *result = (sia_generated){0};
    uint32_t vocabulary = m->config.vocabulary, limit = sia_tokenizer_size(g->tokenizer);
    if (limit > vocabulary)
        return sia_fail(err, SIA_ARGUMENT, "the tokenizer has %u tokens, the model's vocabulary ends at %u",
                        limit, vocabulary);
    float *logits = sia_alloc(vocabulary, sizeof *logits);
    if (!logits) return sia_fail_memory(err, vocabulary * sizeof *logits, "logits");
    holding h = {.g = g};
    sia_status status = feed_prompt(s, g, result, logits, err);
    if (!status) status = draw_tokens(s, g, limit, logits, &h, result, err);
    /* Bytes that could have begun the stop text did not. */
    if (!h.stopped && h.count && (!status || status == SIA_STOPPED)) {
        sia_status written = hand_on(&h, h.count, status ? NULL : err);
        if (!status) status = written;
    }
    free(h.bytes);
    sia_free(logits);
    return status;
}
