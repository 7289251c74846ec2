/* SPDX-License-Identifier: MIT
 *
 * Sums for their owners. An array is cut into buckets. What a rank does not own it sends at once, from where it lies.
 * What it owns waits in a queue of (bucket, rank) pairs; for the first few pairs receives are posted into a ring of
 * buffers, and the head of the queue alone is tested and added, so that the order of the sums is that of the queue. */
#include "comm/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* Floats of a bucket, and buffers for those that come in: 1 MB each. */
enum { BUCKET = 1 << 18, BUFFERS = 8 };

typedef struct arrival {
    float *to;
    int64_t count;
    int from;
    sia_transfer transfer;
} arrival;

struct sia_exchange {
    sia_comm *c;
    float *buffers; /* [BUFFERS][BUCKET] */
    sia_transfer *sends;
    int64_t send_count, sends_done;
    arrival *queue;
    int64_t added, posted, done; /* done <= posted <= added; posted - done <= BUFFERS */
    size_t send_room, queue_room;
};

sia_status sia_exchange_create(sia_exchange **out, sia_comm *c, sia_error *err) {
    *out = NULL;
    sia_exchange *x = sia_alloc(1, sizeof *x);
    if (!x) return sia_fail_memory(err, sizeof *x, "exchange");
    x->c = c;
    if (sia_comm_size(c) > 1) x->buffers = sia_alloc((size_t)BUFFERS * BUCKET, sizeof(float));
    if (sia_comm_size(c) > 1 && !x->buffers) {
        sia_exchange_destroy(x);
        return sia_fail_memory(err, (size_t)BUFFERS * BUCKET * sizeof(float), "buffers of the exchange");
    }
    *out = x;
    return SIA_OK;
}

void sia_exchange_destroy(sia_exchange *x) {
    if (!x) return;
    sia_free(x->buffers);
    free(x->sends);
    free(x->queue);
    sia_free(x);
}

size_t sia_exchange_bytes(const sia_exchange *x) {
    return x->buffers ? (size_t)BUFFERS * BUCKET * sizeof(float) : 0;
}

static sia_status add_send(sia_exchange *x, const float *data, int64_t count, int owner, sia_error *err) {
    /* They may move in memory: the transport knows transfers by their requests. */
    if (!sia_grow(&x->sends, &x->send_room, (size_t)x->send_count + 1, sizeof *x->sends))
        return sia_fail_memory(err, sizeof *x->sends, "exchange");
    return sia_comm_send(x->c, owner, data, (size_t)count * sizeof(float), SIA_TAG_SUM,
                         &x->sends[x->send_count++], err);
}

static sia_status add_arrivals(sia_exchange *x, float *data, int64_t count, sia_error *err) {
    for (int rank = 0; rank < sia_comm_size(x->c); rank++) {
        if (rank == sia_comm_rank(x->c)) continue;
        if (!sia_grow(&x->queue, &x->queue_room, (size_t)x->added + 1, sizeof *x->queue))
            return sia_fail_memory(err, sizeof *x->queue, "exchange");
        x->queue[x->added++] = (arrival){.to = data, .count = count, .from = rank};
    }
    return SIA_OK;
}

sia_status sia_exchange_add(sia_exchange *x, float *data, int64_t count, int owner, sia_error *err) {
    if (sia_comm_size(x->c) == 1) return SIA_OK;
    sia_status status = SIA_OK;
    bool mine = owner == sia_comm_rank(x->c);
    for (int64_t at = 0; !status && at < count; at += BUCKET) {
        int64_t part = count - at < BUCKET ? count - at : BUCKET;
        status = mine ? add_arrivals(x, data + at, part, err) : add_send(x, data + at, part, owner, err);
    }
    return status ? status : sia_exchange_poll(x, err);
}

static float *buffer_of(const sia_exchange *x, int64_t place) {
    return x->buffers + place % BUFFERS * BUCKET;
}

static sia_status post(sia_exchange *x, sia_error *err) {
    sia_status status = SIA_OK;
    while (!status && x->posted < x->added && x->posted - x->done < BUFFERS) {
        arrival *a = &x->queue[x->posted];
        status = sia_comm_receive(x->c, a->from, buffer_of(x, x->posted), (size_t)a->count * sizeof(float),
                                  SIA_TAG_SUM, &a->transfer, err);
        if (!status) x->posted++;
    }
    return status;
}

static void add_floats(float *restrict to, const float *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

sia_status sia_exchange_poll(sia_exchange *x, sia_error *err) {
    if (!x || sia_comm_size(x->c) == 1) return SIA_OK;
    bool done = true;
    sia_status status = post(x, err);
    while (!status && done && x->done < x->posted) {
        arrival *a = &x->queue[x->done];
        status = sia_comm_test(x->c, &a->transfer, &done, err);
        if (status || !done) break;
        add_floats(a->to, buffer_of(x, x->done), a->count);
        x->done++;
        status = post(x, err);
    }
    done = true;
    while (!status && done && x->sends_done < x->send_count) {
        status = sia_comm_test(x->c, &x->sends[x->sends_done], &done, err);
        if (!status && done) x->sends_done++;
    }
    return status;
}

sia_status sia_exchange_finish(sia_exchange *x, sia_error *err) {
    sia_patience patience = {0};
    while (x->done < x->added || x->sends_done < x->send_count) {
        int64_t before = x->done + x->sends_done;
        sia_status status = sia_exchange_poll(x, err);
        int peer = x->done < x->added              ? x->queue[x->done].from
                   : x->sends_done < x->send_count ? x->sends[x->sends_done].peer
                                                   : 0;
        if (x->done + x->sends_done > before)
            patience = (sia_patience){0};
        else if (!status)
            status = sia_comm_pause(x->c, &patience, peer, err);
        if (status) return status;
    }
    x->added = x->posted = x->done = x->send_count = x->sends_done = 0;
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ spreading */

static sia_status start_share(sia_comm *c, const sia_share *s, sia_transfer **at, sia_error *err) {
    size_t bytes = (size_t)s->count * sizeof(float);
    if (s->owner != sia_comm_rank(c))
        return sia_comm_receive(c, s->owner, s->data, bytes, SIA_TAG_SPREAD, (*at)++, err);
    sia_status status = SIA_OK;
    /* Each owner begins with the rank after it: not all with rank 0. */
    for (int i = 1; !status && i < sia_comm_size(c); i++)
        status =
            sia_comm_send(c, (s->owner + i) % sia_comm_size(c), s->data, bytes, SIA_TAG_SPREAD, (*at)++, err);
    return status;
}

sia_status sia_spread(sia_comm *c, const sia_share *shares, int64_t count, sia_error *err) {
    if (sia_comm_size(c) == 1) return SIA_OK;
    int64_t transfers = 0;
    for (int64_t i = 0; i < count; i++)
        transfers += shares[i].owner == sia_comm_rank(c) ? sia_comm_size(c) - 1 : 1;
    if (transfers == 0) return SIA_OK;
    sia_transfer *list = calloc((size_t)transfers, sizeof *list), *at = list;
    if (!list) return sia_fail_memory(err, (size_t)transfers * sizeof *list, "transfers");
    sia_status status = SIA_OK;
    for (int64_t i = 0; !status && i < count; i++) status = start_share(c, &shares[i], &at, err);
    for (sia_transfer *t = list; !status && t < at; t++) status = sia_comm_wait(c, t, err);
    free(list);
    return status;
}
