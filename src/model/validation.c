/* SPDX-License-Identifier: MIT
 *
 * Mean losses over windows, each read whole or in parts: through a session, or, where ranks divide a sequence among
 * them, through a forward pass round their ring. */
#include "model/validation.h"

#include <math.h>
#include <string.h>

#include "attention/ring.h"

/* What a text goes through: one of the two. */
typedef struct reader {
    const sia_model_config *config;
    sia_session *session;
    sia_training *training;
    sia_comm *ring;
    int64_t first, step; /* windows that are this rank's, or its ring's */
    uint32_t *ids;       /* [length / parts + 1] */
    uint32_t *part_ids, *part_targets;
    float *losses;
    double *means; /* [windows] */
} reader;

/* Operations that the first n tokens of a text take: those of attention grow with the square. */
static double work(const sia_model_config *config, int64_t n) {
    return sia_model_flops(config, n) * (double)n;
}

static int show(const reader *r, const sia_validation *v, int64_t window, int64_t part, int64_t tokens) {
    double share = work(r->config, tokens) / work(r->config, v->length / v->parts);
    double done =
        ((double)(window * v->parts + part) + share) / (double)(sia_windows_count(v->windows) * v->parts);
    return v->progress ? v->progress(v->progress_context, "evaluate", done) : 0;
}

/* The losses of one part of a window. */
static sia_status by_session(const reader *r, const sia_validation *v, int64_t window, int64_t part,
                             sia_error *err) {
    int64_t n = v->length / v->parts;
    sia_status status = sia_session_truncate(r->session, 0, err);
    /* In pieces, so that a person who wants to stop a text of a million tokens is heard. */
    enum { PIECE = 8192 };
    for (int64_t at = 0; !status && at < n; at += PIECE) {
        int64_t count = n - at < PIECE ? n - at : PIECE;
        status = sia_session_feed(r->session, r->ids + at, count, r->ids + at + 1, r->losses + at, NULL, err);
        if (!status && show(r, v, window, part, at + count)) status = sia_fail(err, SIA_STOPPED, "stopped");
    }
    return status;
}

static sia_status by_ring(const reader *r, const sia_validation *v, int64_t window, int64_t part,
                          sia_error *err) {
    sia_training_pick(r->training, r->ids, r->part_ids);
    sia_training_pick(r->training, r->ids + 1, r->part_targets);
    sia_status status = sia_training_losses(r->training, r->part_ids, r->part_targets, r->losses, err);
    if (!status && show(r, v, window, part, v->length / v->parts))
        status = sia_fail(err, SIA_STOPPED, "stopped");
    return sia_comm_agree(r->ring, status, err);
}

/* The sum of the losses that this rank finds in one part of a window. */
static sia_status part_loss(const reader *r, const sia_validation *v, int64_t window, int64_t part,
                            double *sum, sia_error *err) {
    int64_t n = v->length / v->parts, count = r->training ? sia_training_positions(r->training) : n;
    sia_ring_part at = sia_ring_part_of(n, sia_comm_size(r->ring), sia_comm_rank(r->ring));
    sia_status status = sia_windows_read(v->windows, window, v->parts, part, r->ids, err);
    if (!status)
        status = r->training ? by_ring(r, v, window, part, err) : by_session(r, v, window, part, err);
    if (status) return status;
    *sum = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t position = !r->training      ? i
                           : i < at.count[0] ? at.first[0] + i
                                             : at.first[1] + i - at.count[0];
        *sum += r->losses[i];
        if (v->by_position) v->by_position[position] += r->losses[i];
    }
    return SIA_OK;
}

/* Mean losses of the windows that are this rank's; those of others are 0. */
static sia_status own_windows(const reader *r, const sia_validation *v, sia_error *err) {
    for (int64_t w = r->first; w < sia_windows_count(v->windows); w += r->step) {
        double part;
        for (int64_t p = 0; p < v->parts; p++) {
            sia_status status = part_loss(r, v, w, p, &part, err);
            if (status) return status;
            r->means[w] += part;
        }
        r->means[w] /= (double)v->length;
    }
    return SIA_OK;
}

/* Sums go over all windows in their order: the same bits on any number of ranks, but for by_position and rings. */
static sia_status all_windows(const reader *r, const sia_validation *v, sia_validation_result *result,
                              sia_error *err) {
    int64_t windows = sia_windows_count(v->windows), n = v->length / v->parts;
    double sum = 0, squares = 0;
    sia_status status = sia_comm_agree(v->comm, own_windows(r, v, err), err);
    if (!status) status = sia_comm_sum(v->comm, r->means, windows, err);
    if (!status && v->by_position) status = sia_comm_sum(v->comm, v->by_position, n, err);
    if (status) return status;
    for (int64_t w = 0; w < windows; w++) {
        if (v->by_window) v->by_window[w] = r->means[w];
        sum += r->means[w];
        squares += r->means[w] * r->means[w];
    }
    double mean = sum / (double)windows, spread = squares / (double)windows - mean * mean;
    *result = (sia_validation_result){.loss = mean, .tokens = windows * v->length};
    if (windows > 1 && spread > 0) result->error = sqrt(spread / (double)(windows - 1));
    for (int64_t i = 0; v->by_position && i < n; i++) v->by_position[i] /= (double)(windows * v->parts);
    return isfinite(mean) ? SIA_OK : sia_fail(err, SIA_NUMBER, "the loss on validation text is %g", mean);
}

static sia_status join_ring(reader *r, sia_model *m, const sia_validation *v, sia_error *err) {
    int ranks = sia_comm_size(v->comm), group = sia_comm_rank(v->comm) / v->together;
    if (v->cache != SIA_F32)
        return sia_fail(err, SIA_ARGUMENT, "context parallel: there is no cache, so its type must be f32");
    if (ranks % v->together)
        return sia_fail(err, SIA_ARGUMENT, "context parallel %d on %d rank%s: want a divisor of their number",
                        v->together, ranks, ranks == 1 ? "" : "s");
    r->first = group;
    r->step = ranks / v->together;
    sia_status status = sia_comm_part(&r->ring, v->comm, group * v->together, v->together, err);
    sia_training_plan plan = {
        .batch = 1, .length = v->length / v->parts, .forward_only = true, .ring = r->ring};
    if (!status) status = sia_model_pack(m, false, err);
    if (!status) status = sia_training_plan_create(&r->training, m, &plan, err);
    if (status) return status;
    size_t positions = (size_t)sia_training_positions(r->training);
    r->part_ids = sia_alloc(positions, sizeof *r->part_ids);
    r->part_targets = sia_alloc(positions, sizeof *r->part_targets);
    return r->part_ids && r->part_targets ? SIA_OK : sia_fail_memory(err, positions * 8, "validation");
}

static sia_status open_reader(reader *r, sia_model *m, const sia_validation *v, sia_error *err) {
    int64_t n = v->length / v->parts, windows = sia_windows_count(v->windows);
    *r = (reader){
        .config = sia_model_settings(m), .first = sia_comm_rank(v->comm), .step = sia_comm_size(v->comm)};
    r->ids = sia_alloc((size_t)n + 1, sizeof *r->ids);
    r->losses = sia_alloc((size_t)n, sizeof *r->losses);
    r->means = sia_alloc((size_t)windows, sizeof *r->means);
    if (!r->ids || !r->losses || !r->means)
        return sia_fail_memory(err, (size_t)n * sizeof(float), "validation");
    return v->together > 1 ? join_ring(r, m, v, err) : sia_session_create(&r->session, m, v->cache, err);
}

static void close_reader(reader *r) {
    sia_session_destroy(r->session);
    sia_training_destroy(r->training);
    sia_comm_destroy(r->ring);
    sia_free(r->ids);
    sia_free(r->part_ids);
    sia_free(r->part_targets);
    sia_free(r->losses);
    sia_free(r->means);
}

/* A session and a ring have the attention that the model has when they are made. Those of others, of a training that is
 * at work, keep theirs. */
sia_status sia_validate(sia_model *m, const sia_validation *v, sia_validation_result *result,
                        sia_error *err) {
    if (v->parts < 1 || v->length % v->parts)
        return sia_fail(err, SIA_ARGUMENT, "%lld parts: want a divisor of the window's %lld tokens",
                        (long long)v->parts, (long long)v->length);
    reader r = {0};
    sia_attention *own = m->attention, *fitted;
    const char *scheme = v->scheme ? v->scheme : m->config.scheme;
    sia_status status = sia_model_fit_attention(m, scheme, v->length / v->parts, &fitted, err);
    if (!status) {
        m->attention = fitted;
        status = open_reader(&r, m, v, err);
    }
    status = sia_comm_agree(v->comm, status, err);
    if (!status && v->by_position) memset(v->by_position, 0, (size_t)(v->length / v->parts) * sizeof(double));
    if (!status) status = all_windows(&r, v, result, err);
    close_reader(&r);
    m->attention = own;
    sia_attention_destroy(fitted);
    return status;
}
