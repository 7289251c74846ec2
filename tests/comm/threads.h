/* SPDX-License-Identifier: MIT
 *
 * Ranks as threads of one process: a transport for tests, which can lose a rank when told to.
 *
 *     static void work(sia_comm *c, void *context) { ... every rank ... }
 *     run_ranks(4, 10, work, &context);
 *
 * A send copies its message at once into the mailbox of its receiver. As with MPI, the oldest message of a sender and a
 * tag is for the receive that was started first, whichever of them is tested first. */
#ifndef SIA_TESTS_COMM_THREADS_H
#define SIA_TESTS_COMM_THREADS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm.h"

enum { MOST_RANKS = 8 };

typedef struct letter {
    int from, tag;
    size_t bytes;
    struct letter *next;
    char data[];
} letter;

typedef struct post_office {
    pthread_mutex_t lock;
    letter *mail[MOST_RANKS];
    int size;
} post_office;

typedef struct rank_thread {
    post_office *office;
    int rank;
    double timeout;
    void (*work)(sia_comm *c, void *context);
    void *context;
    pthread_t thread;
    struct awaited *receives; /* started, and not found done yet; the oldest first */
} rank_thread;

/* A receive that waits for its letter. */
typedef struct awaited {
    void *data;
    size_t bytes;
    int from, tag;
    bool come;
    struct awaited *next;
} awaited;

static inline sia_status thread_send(void *context, int to, const void *data, size_t bytes, int tag,
                                     sia_request *request, sia_error *err) {
    rank_thread *me = context;
    letter *l = malloc(sizeof *l + bytes), **end = &me->office->mail[to];
    if (!l) return sia_fail_memory(err, bytes, "letter");
    *l = (letter){.from = me->rank, .tag = tag, .bytes = bytes};
    memcpy(l->data, data, bytes);
    pthread_mutex_lock(&me->office->lock);
    while (*end) end = &(*end)->next;
    *end = l;
    pthread_mutex_unlock(&me->office->lock);
    *request = 0;
    return SIA_OK;
}

static inline sia_status thread_receive(void *context, int from, void *data, size_t bytes, int tag,
                                        sia_request *request, sia_error *err) {
    rank_thread *me = context;
    awaited *a = malloc(sizeof *a), **end = &me->receives;
    if (!a) return sia_fail_memory(err, sizeof *a, "receive");
    *a = (awaited){data, bytes, from, tag, false, NULL};
    while (*end) end = &(*end)->next;
    *end = a;
    *request = (sia_request)(uintptr_t)a;
    return SIA_OK;
}

/* The oldest letter of this sender and tag, taken out of the mail; NULL: none has come. */
static inline letter *thread_fetch(rank_thread *me, int from, int tag) {
    pthread_mutex_lock(&me->office->lock);
    letter **at = &me->office->mail[me->rank];
    while (*at && ((*at)->from != from || (*at)->tag != tag)) at = &(*at)->next;
    letter *l = *at;
    if (l) *at = l->next;
    pthread_mutex_unlock(&me->office->lock);
    return l;
}

static inline sia_status thread_test(void *context, sia_request *request, int *done, sia_error *err) {
    rank_thread *me = context;
    awaited *a = (awaited *)(uintptr_t)*request, **at;
    *done = a == NULL;
    for (at = &me->receives; a && *at; at = &(*at)->next) {
        awaited *first = *at;
        letter *l = NULL;
        if (!first->come && first->from == a->from && first->tag == a->tag) {
            if (!(l = thread_fetch(me, a->from, a->tag))) return SIA_OK;
            bool fits = l->bytes == first->bytes;
            if (fits) memcpy(first->data, l->data, l->bytes);
            free(l);
            if (!fits)
                return sia_fail(err, SIA_ARGUMENT, "a letter for a receive of %zu bytes has another size",
                                first->bytes);
            first->come = true;
        }
        if (first != a) continue;
        *at = a->next;
        free(a);
        *request = 0;
        *done = 1;
        break;
    }
    return SIA_OK;
}

static inline void *rank_main(void *argument) {
    rank_thread *me = argument;
    sia_comm *c;
    sia_transport transport = {me, me->rank, me->office->size, thread_send, thread_receive, thread_test};
    if (sia_comm_create(&c, &transport, me->timeout, NULL)) abort();
    me->work(c, me->context);
    sia_comm_destroy(c);
    for (awaited *a = me->receives, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    return NULL;
}

/* Returns when every rank has. Letters that nobody fetched are thrown away. */
static inline void run_ranks(int size, double timeout, void (*work)(sia_comm *c, void *context),
                             void *context) {
    post_office office = {.lock = PTHREAD_MUTEX_INITIALIZER, .size = size};
    rank_thread ranks[MOST_RANKS];
    for (int r = 0; r < size; r++) {
        ranks[r] =
            (rank_thread){.office = &office, .rank = r, .timeout = timeout, .work = work, .context = context};
        if (pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r])) abort();
    }
    for (int r = 0; r < size; r++) (void)pthread_join(ranks[r].thread, NULL);
    for (int r = 0; r < size; r++)
        for (letter *l = office.mail[r], *next; l; l = next) {
            next = l->next;
            free(l);
        }
}

#endif
