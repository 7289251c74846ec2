/* SPDX-License-Identifier: MIT
 *
 * Several processes that work on one job: ranks 0 .. size - 1, each running the same program.
 *
 *     sia_comm *c;                                        NULL is one process: every call below takes it
 *     sia_comm_create(&c, &transport, 600, err);
 *     sia_transfer sent = {0}, got = {0};
 *     sia_comm_send(c, next, block, bytes, SIA_TAG_RING, &sent, err);           both start, and go on
 *     sia_comm_receive(c, before, room, bytes, SIA_TAG_RING, &got, err);        while this rank computes
 *     sia_comm_wait(c, &got, err), sia_comm_wait(c, &sent, err);
 *     status = sia_comm_agree(c, status, err);                                  all ranks go on, or none does
 *
 * What moves bytes is a transport of three functions, in sia.h with the object and its creation: MPI in the program
 * (comm/comm_mpi.h), threads in the tests. The library has none of its own, and needs none for one process.
 *
 * Nothing here waits for ever: a rank from which nothing came for `timeout` seconds is SIA_LOST, with a sentence that
 * names it. Every sum has a fixed order: same bits for the same number of ranks, whatever arrives first. One thread
 * of a process, always the same, makes these calls. */
#ifndef SIA_COMM_COMM_H
#define SIA_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sia.h"

/* Ranks first .. first + size - 1 of c as 0 .. size - 1. This rank must be one of them. Borrows c's transport. */
sia_status sia_comm_part(sia_comm **part, const sia_comm *c, int first, int size, sia_error *err);

int sia_comm_rank(const sia_comm *c);
int sia_comm_size(const sia_comm *c);
int64_t sia_comm_sent(const sia_comm *c); /* bytes that this rank has sent so far, parts of c included */
double sia_comm_set_timeout(sia_comm *c, double seconds); /* returns the one before */

/* -------------------------------------------------------------------------------------------- one to another */

enum { SIA_TAG_TREE = 1, SIA_TAG_SPREAD, SIA_TAG_GATHER, SIA_TAG_SUM, SIA_TAG_RING, SIA_TAG_RING_BACK };

enum { SIA_TRANSFER_PARTS = 16 };
typedef struct sia_transfer {
    sia_request parts[SIA_TRANSFER_PARTS];
    int count; /* parts that are not done yet; 0: done, or never started */
    int peer;
} sia_transfer;

sia_status sia_comm_send(sia_comm *c, int to, const void *data, size_t bytes, int tag, sia_transfer *t,
                         sia_error *err);
sia_status sia_comm_receive(sia_comm *c, int from, void *data, size_t bytes, int tag, sia_transfer *t,
                            sia_error *err);

/* Moves all transfers of this process on, and says whether this one is done. */
sia_status sia_comm_test(sia_comm *c, sia_transfer *t, bool *done, sia_error *err);
sia_status sia_comm_wait(sia_comm *c, sia_transfer *t, sia_error *err);

/* For a loop of tests: a pause, or SIA_LOST when nothing was done for too long.
 *
 *     sia_patience p = {0};
 *     while (!done) { ... test ...;  if (something was done) p = (sia_patience){0};
 *                     else if (sia_comm_pause(c, &p, peer, err)) return err->status; } */
typedef struct sia_patience {
    int looks;
    double since;
} sia_patience;
sia_status sia_comm_pause(const sia_comm *c, sia_patience *p, int peer, sia_error *err);

/* ------------------------------------------------------------------------------------------------ all together
 *
 * Every rank calls, in the same order. */

sia_status sia_comm_broadcast(sia_comm *c, void *data, size_t bytes, int from, sia_error *err);

/* values[i] becomes its sum over the ranks, on every rank, added along one tree. */
sia_status sia_comm_sum(sia_comm *c, double *values, int64_t count, sia_error *err);

/* The worst that happened on any rank happens on all, with the sentence of the first rank that it happened to:
 * SIA_OK only where all say so; SIA_STOPPED gives way to an error. A rank that only says SIA_LOST is not waited for:
 * it cannot be heard, and the others find out by themselves. One that failed, and finds another lost, is SIA_LOST with
 * its own sentence. */
sia_status sia_comm_agree(sia_comm *c, sia_status status, sia_error *err);

/* The static analyzer does not see into other files: this tells it that what failed here has failed. */
#ifdef __clang_analyzer__
static inline sia_status sia_agree_or_fail(sia_comm *c, sia_status status, sia_error *err) {
    sia_status all = sia_comm_agree(c, status, err);
    return status ? status : all;
}
#    define sia_comm_agree(c, status, err) sia_agree_or_fail(c, status, err)
#endif

/* Whether the last failure came out of sia_comm_agree: then all ranks know, and one of them tells. */
bool sia_comm_agreed(const sia_comm *c);

/* SIA_ARGUMENT on all ranks unless the text, of any length, is the same on all; `what` names it in the sentence:
 * "rank 2: its WHAT is not that of rank 0". */
sia_status sia_comm_same(sia_comm *c, const char *what, const char *text, sia_error *err);

/* texts[r], on rank 0, is that of rank r; each freed with free. NULL elsewhere. On failure none is there. */
sia_status sia_comm_gather_texts(sia_comm *c, const char *text, char **texts, sia_error *err);

/* Rank 0's text, ended by 0, on every rank; freed with free. */
sia_status sia_comm_share_text(sia_comm *c, const char *text, char **shared, sia_error *err);

#endif
