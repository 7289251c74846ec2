/* SPDX-License-Identifier: MIT
 *
 * Mean losses over windows, each read whole or in parts through a session. */
#include "model/validation.h"

#include <math.h>
#include <string.h>

typedef struct buffers {
    uint32_t *ids;
    float *losses;
    double *means; /* [windows] */
} buffers;

/* The sum of the losses of one part of a window. */
static sia_status part_loss(sia_session *s, const sia_validation *v, int64_t window, int64_t part,
                            buffers room, double *sum, sia_error *err) {
    int64_t n = v->length / v->parts;
    sia_status status = sia_windows_read(v->windows, window, v->parts, part, room.ids, err);
    if (!status) status = sia_session_truncate(s, 0, err);
    /* In pieces, so that a person who wants to stop a text of a million tokens is heard. */
    enum { PIECE = 8192 };
    for (int64_t at = 0; !status && at < n; at += PIECE) {
        int64_t count = n - at < PIECE ? n - at : PIECE;
        status = sia_session_feed(s, room.ids + at, count, room.ids + at + 1, room.losses + at, NULL, err);
        double done = ((double)(window * v->parts + part) + (double)(at + count) / (double)n) /
                      (double)(sia_windows_count(v->windows) * v->parts);
        if (!status && v->progress && v->progress(v->progress_context, "evaluate", done))
            status = sia_fail(err, SIA_STOPPED, "stopped");
    }
    if (status) return status;
    *sum = 0;
    for (int64_t i = 0; i < n; i++) {
        *sum += room.losses[i];
        if (v->by_position) v->by_position[i] += room.losses[i];
    }
    return SIA_OK;
}

/* Mean losses of the windows that are this rank's; those of others are 0. */
static sia_status own_windows(sia_session *s, const sia_validation *v, buffers room, double *means,
                              sia_error *err) {
    for (int64_t w = sia_comm_rank(v->comm); w < sia_windows_count(v->windows); w += sia_comm_size(v->comm)) {
        double part;
        for (int64_t p = 0; p < v->parts; p++) {
            sia_status status = part_loss(s, v, w, p, room, &part, err);
            if (status) return status;
            means[w] += part;
        }
        means[w] /= (double)v->length;
    }
    return SIA_OK;
}

/* Sums go over all windows in their order: the same bits on any number of ranks, but for by_position. */
static sia_status all_windows(sia_session *s, const sia_validation *v, buffers room,
                              sia_validation_result *result, sia_error *err) {
    int64_t windows = sia_windows_count(v->windows), n = v->length / v->parts;
    double sum = 0, squares = 0;
    sia_status status = own_windows(s, v, room, room.means, err);
    status = sia_comm_agree(v->comm, status, err);
    if (!status) status = sia_comm_sum(v->comm, room.means, windows, err);
    if (!status && v->by_position) status = sia_comm_sum(v->comm, v->by_position, n, err);
    if (status) return status;
    for (int64_t w = 0; w < windows; w++) {
        if (v->by_window) v->by_window[w] = room.means[w];
        sum += room.means[w];
        squares += room.means[w] * room.means[w];
    }
    double mean = sum / (double)windows, spread = squares / (double)windows - mean * mean;
    *result = (sia_validation_result){.loss = mean, .tokens = windows * v->length};
    if (windows > 1 && spread > 0) result->error = sqrt(spread / (double)(windows - 1));
    for (int64_t i = 0; v->by_position && i < n; i++) v->by_position[i] /= (double)(windows * v->parts);
    return isfinite(mean) ? SIA_OK : sia_fail(err, SIA_NUMBER, "the loss on validation text is %g", mean);
}

sia_status sia_validate(sia_model *m, const sia_validation *v, sia_validation_result *result,
                        sia_error *err) {
    if (v->parts < 1 || v->length % v->parts)
        return sia_fail(err, SIA_ARGUMENT, "%lld parts: want a divisor of the window's %lld tokens",
                        (long long)v->parts, (long long)v->length);
    int64_t n = v->length / v->parts;
    int64_t windows = sia_windows_count(v->windows);
    buffers room = {sia_alloc((size_t)n + 1, sizeof(uint32_t)), sia_alloc((size_t)n, sizeof(float)),
                    sia_alloc((size_t)windows, sizeof(double))};
    sia_session *s = NULL;
    sia_status status = room.ids && room.losses && room.means
                            ? SIA_OK
                            : sia_fail_memory(err, (size_t)n * sizeof(float), "validation");
    if (!status) status = sia_session_create(&s, m, v->cache, err);
    status = sia_comm_agree(v->comm, status, err);
    if (!status && v->by_position) memset(v->by_position, 0, (size_t)n * sizeof(double));
    if (!status) status = all_windows(s, v, room, result, err);
    sia_session_destroy(s);
    sia_free(room.ids);
    sia_free(room.losses);
    sia_free(room.means);
    return status;
}
