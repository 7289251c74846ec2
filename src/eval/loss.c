/* SPDX-License-Identifier: MIT
 *
 * Loss by length on the same tokens, and by position. */
#include "eval/loss.h"

#include <errno.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------ lengths */

static int rising(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static sia_status check(sia_lengths *l, const char *text, sia_error *err) {
    qsort(l->list, (size_t)l->count, sizeof *l->list, rising);
    int64_t longest = sia_lengths_longest(l);
    for (int i = 0; i < l->count; i++) {
        if (i && l->list[i] == l->list[i - 1])
            return sia_fail(err, SIA_ARGUMENT, "lengths '%s': %lld is there twice", text,
                            (long long)l->list[i]);
        if (longest % l->list[i])
            return sia_fail(err, SIA_ARGUMENT,
                            "lengths '%s': %lld does not divide %lld; the same tokens are scored at every "
                            "length, so each must divide the longest",
                            text, (long long)l->list[i], (long long)longest);
    }
    return SIA_OK;
}

sia_status sia_lengths_parse(sia_lengths *l, const char *text, int64_t train_len, sia_error *err) {
    l->count = 0;
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        long long number = strtoll(at, &end, 10);
        bool times = *end == 'x', good = end != at && !errno && number >= 1;
        const char *after = end + times;
        if (!good || (*after && *after != ','))
            return sia_fail(err, SIA_ARGUMENT,
                            "lengths '%s': want multiples of the training length or tokens, like 1x,4x,4096",
                            text);
        if (number > SIA_MAX_POSITION / (times ? train_len : 1))
            return sia_fail(err, SIA_ARGUMENT, "lengths '%s': want at most %lld tokens", text,
                            (long long)SIA_MAX_POSITION);
        if (l->count == SIA_EVAL_LENGTHS)
            return sia_fail(err, SIA_ARGUMENT, "lengths '%s': want %d at most", text, SIA_EVAL_LENGTHS);
        l->list[l->count++] = times ? number * train_len : number;
        at = after;
        if (!*at) return check(l, text, err);
    }
}

/* ------------------------------------------------------------------------------------------------ evaluation */

/* Positions by powers of 2: 0, 1, 2 to 3, 4 to 7, ... */
static void make_bins(sia_loss_result *r, const double *by_position) {
    for (int64_t from = 0; from < r->length; r->bin_count++) {
        int64_t to = from ? 2 * from : 1;
        if (to > r->length) to = r->length;
        double sum = 0;
        for (int64_t i = from; i < to; i++) sum += by_position[i];
        r->bins[r->bin_count] = (sia_loss_bin){from, to, sum / (double)(to - from)};
        from = to;
    }
}

sia_status sia_eval_loss(sia_model *m, const sia_loss_eval *e, int64_t length, sia_loss_result *r,
                         sia_error *err) {
    *r = (sia_loss_result){.length = length};
    sia_status status = SIA_OK;
    double *by_position = NULL;
    if (e->positions) {
        by_position = sia_alloc((size_t)length, sizeof *by_position);
        if (!by_position) status = sia_fail_memory(err, (size_t)length * sizeof *by_position, "positions");
    }
    sia_validation v = {.windows = e->windows,
                        .length = e->longest,
                        .parts = e->longest / length,
                        .scheme = e->scheme,
                        .cache = e->cache,
                        .progress = e->progress,
                        .progress_context = e->progress_context,
                        .by_position = by_position,
                        .comm = e->comm,
                        .together = e->together};
    if (!status) status = sia_validate(m, &v, &r->mean, err);
    if (!status && by_position) make_bins(r, by_position);
    sia_free(by_position);
    return status;
}
