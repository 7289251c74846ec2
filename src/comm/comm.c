/* SPDX-License-Identifier: MIT
 *
 * What all ranks do together, on a transport that only sends and receives.
 *
 * Sums and agreements go up a binomial tree and come down it again: rank r's parent is r without its lowest set bit,
 * and a rank merges its children in the order r + 1, r + 2, r + 4, ...: an order that depends on the number of
 * ranks alone. 2 log2(size) messages deep. */
#define _GNU_SOURCE
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/threads.h"

struct sia_comm {
    sia_transport transport;
    int first, rank, size; /* rank 0 of this one is `first` of the transport's */
    double timeout;
    bool agreed;
    int64_t *sent, own_sent; /* bytes: counted by the whole, for all its parts */
};

/* ------------------------------------------------------------------------------------------------ the object */

sia_status sia_comm_create(sia_comm **out, const sia_transport *transport, double timeout, sia_error *err) {
    if (out) *out = NULL;
    if (!out || !transport)
        return sia_fail(err, SIA_ARGUMENT, "comm: want a transport and a place for the result, got NULL");
    if (!transport->send || !transport->receive || !transport->test)
        return sia_fail(err, SIA_ARGUMENT, "transport: %s: NULL, want a function",
                        !transport->send      ? "send"
                        : !transport->receive ? "receive"
                                              : "test");
    if (!(timeout > 0)) return sia_fail(err, SIA_ARGUMENT, "timeout %g: want seconds, above 0", timeout);
    if (transport->size < 1 || transport->rank < 0 || transport->rank >= transport->size)
        return sia_fail(err, SIA_ARGUMENT, "rank %d of %d: want 0 or more, below the size", transport->rank,
                        transport->size);
    sia_comm *c = sia_alloc(1, sizeof *c);
    if (!c) return sia_fail_memory(err, sizeof *c, "ranks");
    *c = (sia_comm){
        .transport = *transport, .rank = transport->rank, .size = transport->size, .timeout = timeout};
    c->sent = &c->own_sent;
    *out = c;
    return SIA_OK;
}

sia_status sia_comm_part(sia_comm **part, const sia_comm *c, int first, int size, sia_error *err) {
    *part = NULL;
    if (size < 1 || first < 0 || first + size > c->size || c->rank < first || c->rank >= first + size)
        return sia_fail(err, SIA_ARGUMENT, "ranks %d to %d of %d do not hold rank %d", first,
                        first + size - 1, c->size, c->rank);
    sia_comm *p = sia_alloc(1, sizeof *p);
    if (!p) return sia_fail_memory(err, sizeof *p, "ranks");
    *p = *c;
    p->first = c->first + first;
    p->rank = c->rank - first;
    p->size = size;
    *part = p;
    return SIA_OK;
}

void sia_comm_destroy(sia_comm *c) { sia_free(c); }
int sia_comm_rank(const sia_comm *c) { return c ? c->rank : 0; }
int sia_comm_size(const sia_comm *c) { return c ? c->size : 1; }
int64_t sia_comm_sent(const sia_comm *c) { return c ? *c->sent : 0; }
bool sia_comm_agreed(const sia_comm *c) { return !c || c->size == 1 || c->agreed; }
double sia_comm_set_timeout(sia_comm *c, double seconds) {
    double before = c ? c->timeout : seconds;
    if (c) c->timeout = seconds;
    return before;
}

/* -------------------------------------------------------------------------------------------- one to another */

static sia_status check_message(const sia_comm *c, int peer, size_t bytes, sia_transfer *t, sia_error *err) {
    *t = (sia_transfer){.peer = peer};
    if (peer < 0 || peer >= sia_comm_size(c) || peer == sia_comm_rank(c))
        return sia_fail(err, SIA_ARGUMENT, "a message from rank %d to rank %d of %d", sia_comm_rank(c), peer,
                        sia_comm_size(c));
    if (bytes > SIA_MESSAGE_MOST * SIA_TRANSFER_PARTS)
        return sia_fail(err, SIA_ARGUMENT, "a message of %zu bytes: want %zu at most", bytes,
                        SIA_MESSAGE_MOST * SIA_TRANSFER_PARTS);
    return SIA_OK;
}

/* A transport may leave the sentence out; and the caller may want none. */
static sia_status passed_on(sia_status status, const sia_error *said, const char *call, int peer,
                            sia_error *err) {
    if (!status) return SIA_OK;
    if (!said->text[0])
        return sia_fail(err, status, "transport: %s failed, rank %d (%s)", call, peer,
                        sia_status_name(status));
    return sia_fail(err, status, "rank %d: %.*s", peer, (int)sizeof said->text - 1, said->text);
}

static size_t part_bytes(size_t left) { return left < SIA_MESSAGE_MOST ? left : SIA_MESSAGE_MOST; }

sia_status sia_comm_send(sia_comm *c, int to, const void *data, size_t bytes, int tag, sia_transfer *t,
                         sia_error *err) {
    sia_status status = check_message(c, to, bytes, t, err);
    const char *at = data;
    for (size_t left = bytes, part; !status && left; left -= part, at += part) {
        sia_error said;
        said.text[0] = 0;
        part = part_bytes(left);
        status =
            c->transport.send(c->transport.context, c->first + to, at, part, tag, &t->parts[t->count], &said);
        status = passed_on(status, &said, "send", to, err);
        if (!status) t->count++;
    }
    if (!status) *c->sent += (int64_t)bytes;
    return status;
}

sia_status sia_comm_receive(sia_comm *c, int from, void *data, size_t bytes, int tag, sia_transfer *t,
                            sia_error *err) {
    sia_status status = check_message(c, from, bytes, t, err);
    char *at = data;
    for (size_t left = bytes, part; !status && left; left -= part, at += part) {
        sia_error said;
        said.text[0] = 0;
        part = part_bytes(left);
        status = c->transport.receive(c->transport.context, c->first + from, at, part, tag,
                                      &t->parts[t->count], &said);
        status = passed_on(status, &said, "receive", from, err);
        if (!status) t->count++;
    }
    return status;
}

/* From the last part to the first: what is done drops off the end. */
sia_status sia_comm_test(sia_comm *c, sia_transfer *t, bool *done, sia_error *err) {
    sia_status status = SIA_OK;
    int part = 1;
    while (!status && part && t->count > 0) {
        sia_error said;
        said.text[0] = 0;
        status = c->transport.test(c->transport.context, &t->parts[t->count - 1], &part, &said);
        status = passed_on(status, &said, "test", t->peer, err);
        if (!status && part) t->count--;
    }
    *done = t->count == 0;
    return status;
}

/* A short wait spins, for that is fastest; a long one leaves the core to others: ranks may share it. The longer it has
 * been, the less another moment matters. */
sia_status sia_comm_pause(const sia_comm *c, sia_patience *p, int peer, sia_error *err) {
    enum { SPINS = 100, YIELDS = 2000 };
    if (p->looks == 0) p->since = sia_seconds();
    if (p->looks < SPINS + YIELDS) {
        int pace = p->looks++;
        sia_threads_pause(&pace);
        return SIA_OK;
    }
    double waited = sia_seconds() - p->since;
    (void)nanosleep(&(struct timespec){.tv_nsec = waited < 0.01  ? 50000
                                                  : waited < 0.5 ? 200000
                                                                 : 2000000},
                    NULL);
    if (waited < c->timeout) return SIA_OK;
    return sia_fail(err, SIA_LOST, "rank %d of %d has not answered for %.0f s", peer, c->size, waited);
}

sia_status sia_comm_wait(sia_comm *c, sia_transfer *t, sia_error *err) {
    sia_patience patience = {0};
    bool done;
    for (;;) {
        sia_status status = sia_comm_test(c, t, &done, err);
        if (!status && !done) status = sia_comm_pause(c, &patience, t->peer, err);
        if (status || done) return status;
    }
}

static sia_status send_now(sia_comm *c, int to, const void *data, size_t bytes, int tag, sia_error *err) {
    sia_transfer t;
    sia_status status = sia_comm_send(c, to, data, bytes, tag, &t, err);
    return status ? status : sia_comm_wait(c, &t, err);
}

static sia_status receive_now(sia_comm *c, int from, void *data, size_t bytes, int tag, sia_error *err) {
    sia_transfer t;
    sia_status status = sia_comm_receive(c, from, data, bytes, tag, &t, err);
    return status ? status : sia_comm_wait(c, &t, err);
}

/* ------------------------------------------------------------------------------------------------ all together */

sia_status sia_comm_broadcast(sia_comm *c, void *data, size_t bytes, int from, sia_error *err) {
    int size = sia_comm_size(c);
    if (size == 1 || bytes == 0) return SIA_OK;
    int place = (c->rank - from + size) % size, step = 1; /* the tree has `from` as its root */
    sia_status status = SIA_OK;
    while (step < size && !(place & step)) step *= 2;
    if (place) status = receive_now(c, (place - step + from) % size, data, bytes, SIA_TAG_TREE, err);
    for (step /= 2; !status && step > 0; step /= 2)
        if (place + step < size)
            status = send_now(c, (place + step + from) % size, data, bytes, SIA_TAG_TREE, err);
    return status;
}

typedef void merge(void *mine, const void *other, int64_t count);

/* Rank 0 has what all ranks had, merged. */
static sia_status up_the_tree(sia_comm *c, void *mine, size_t bytes, int64_t count, merge *with,
                              sia_error *err) {
    void *other = sia_alloc(bytes, 1);
    if (!other) return sia_fail_memory(err, bytes, "a message");
    sia_status status = SIA_OK;
    for (int step = 1; !status && step < c->size; step *= 2) {
        if (c->rank & step) {
            status = send_now(c, c->rank - step, mine, bytes, SIA_TAG_TREE, err);
            break;
        }
        if (c->rank + step >= c->size) continue;
        status = receive_now(c, c->rank + step, other, bytes, SIA_TAG_TREE, err);
        if (!status) with(mine, other, count);
    }
    sia_free(other);
    return status;
}

static sia_status over_the_tree(sia_comm *c, void *mine, size_t bytes, int64_t count, merge *with,
                                sia_error *err) {
    sia_status status = up_the_tree(c, mine, bytes, count, with, err);
    return status ? status : sia_comm_broadcast(c, mine, bytes, 0, err);
}

static void add(void *mine, const void *other, int64_t count) {
    double *to = mine;
    const double *from = other;
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

sia_status sia_comm_sum(sia_comm *c, double *values, int64_t count, sia_error *err) {
    if (sia_comm_size(c) == 1 || count == 0) return SIA_OK;
    return over_the_tree(c, values, (size_t)count * sizeof *values, count, add, err);
}

/* ------------------------------------------------------------------------------------------------ agreement */

typedef struct verdict {
    int32_t status, rank;
    char text[sizeof((sia_error *)NULL)->text];
} verdict;

static void worse(void *mine, const void *other, int64_t count) {
    (void)count;
    const verdict *theirs = other;
    int32_t now = ((const verdict *)mine)->status;
    bool milder = now == SIA_OK || (now == SIA_STOPPED && theirs->status != SIA_STOPPED);
    if (theirs->status && milder) memcpy(mine, other, sizeof(verdict));
}

sia_status(sia_comm_agree)(sia_comm *c, sia_status status, sia_error *err) {
    if (sia_comm_size(c) == 1) return status;
    c->agreed = false;
    if (status == SIA_LOST) return status;
    verdict v = {.status = (int32_t)status, .rank = c->rank};
    if (status && err) memcpy(v.text, err->text, sizeof v.text);
    sia_error unheard;
    sia_status heard = over_the_tree(c, &v, sizeof v, 1, worse, &unheard);
    /* Its own reason says more than that others do not answer; but that a rank is lost is what all who come next have
     * to know, lest they wait for it, too. */
    if (heard && !status) return sia_fail(err, heard, "%s", unheard.text);
    if (heard && err) err->status = heard;
    if (heard) return heard;
    c->agreed = v.status != SIA_OK;
    if (v.status == SIA_OK) return SIA_OK;
    v.text[sizeof v.text - 1] = 0;
    if (v.rank == 0 || v.status == SIA_STOPPED) return sia_fail(err, (sia_status)v.status, "%s", v.text);
    return sia_fail(err, (sia_status)v.status, "rank %d: %s", v.rank, v.text);
}

sia_status sia_comm_same(sia_comm *c, const char *what, const char *text, sia_error *err) {
    if (sia_comm_size(c) == 1) return SIA_OK;
    char sum[SIA_SHA256_TEXT], first[SIA_SHA256_TEXT];
    (void)sia_sha256(text, strlen(text), sum);
    memcpy(first, sum, sizeof first);
    sia_status status = sia_comm_broadcast(c, first, sizeof first, 0, err);
    if (!status && memcmp(first, sum, sizeof sum) != 0)
        status = sia_fail(err, SIA_ARGUMENT, "its %s is not that of rank 0", what);
    return sia_comm_agree(c, status, err);
}

sia_status sia_comm_share_text(sia_comm *c, const char *text, char **shared, sia_error *err) {
    uint64_t bytes = sia_comm_rank(c) == 0 ? strlen(text) + 1 : 0;
    *shared = NULL;
    sia_status status = sia_comm_broadcast(c, &bytes, sizeof bytes, 0, err);
    if (status) return status;
    *shared = calloc((size_t)bytes + 1, 1);
    if (!*shared) return sia_fail_memory(err, (size_t)bytes, "a text");
    if (sia_comm_rank(c) == 0) memcpy(*shared, text, (size_t)bytes);
    return sia_comm_broadcast(c, *shared, (size_t)bytes, 0, err);
}

static sia_status receive_text(sia_comm *c, int from, char **text, sia_error *err) {
    uint64_t bytes;
    sia_status status = receive_now(c, from, &bytes, sizeof bytes, SIA_TAG_GATHER, err);
    if (status) return status;
    *text = calloc((size_t)bytes + 1, 1);
    if (!*text) return sia_fail_memory(err, (size_t)bytes, "a text");
    return receive_now(c, from, *text, (size_t)bytes, SIA_TAG_GATHER, err);
}

sia_status sia_comm_gather_texts(sia_comm *c, const char *text, char **texts, sia_error *err) {
    uint64_t bytes = strlen(text);
    if (sia_comm_rank(c) != 0) {
        sia_status sent = send_now(c, 0, &bytes, sizeof bytes, SIA_TAG_GATHER, err);
        return sent ? sent : send_now(c, 0, text, (size_t)bytes, SIA_TAG_GATHER, err);
    }
    for (int r = 0; r < sia_comm_size(c); r++) texts[r] = NULL;
    texts[0] = strdup(text);
    sia_status status = texts[0] ? SIA_OK : sia_fail_memory(err, (size_t)bytes, "a text");
    for (int r = 1; !status && r < sia_comm_size(c); r++) status = receive_text(c, r, &texts[r], err);
    for (int r = 0; status && r < sia_comm_size(c); r++) {
        free(texts[r]);
        texts[r] = NULL;
    }
    return status;
}
