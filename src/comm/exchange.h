/* SPDX-License-Identifier: MIT
 *
 * Sums over the ranks of large arrays, each wanted by one rank alone, while all ranks still compute.
 *
 *     sia_exchange *x;
 *     sia_exchange_create(&x, comm, err);
 *     ... a gradient is ready:   sia_exchange_add(x, gradient, count, owner, err);      starts, does not wait
 *     ... now and then:          sia_exchange_poll(x, err);                             moves on what can be
 *     sia_exchange_finish(x, err);             on its owner an array is now the sum; elsewhere it is as it was
 *     sia_spread(comm, shares, count, err);    the other way: every rank has what the owner has
 *
 * All ranks add the same arrays with the same owners in the same order. An owner adds what comes to its own values,
 * rank by rank in rising order: same bits for the same number of ranks, whatever arrives first.
 *
 * Each rank sends what it does not own once and receives what it owns size - 1 times: with arrays owned evenly, as
 * many bytes as the first half of an all-reduce; spreading is the second half. */
#ifndef SIA_COMM_EXCHANGE_H
#define SIA_COMM_EXCHANGE_H

#include "comm/comm.h"

typedef struct sia_exchange sia_exchange;

sia_status sia_exchange_create(sia_exchange **x, sia_comm *c, sia_error *err);
void sia_exchange_destroy(sia_exchange *x); /* NULL is fine; nothing may be under way, or the job ends */

/* data stays as it is until finish has returned, but for the sums that its owner sees grow. */
sia_status sia_exchange_add(sia_exchange *x, float *data, int64_t count, int owner, sia_error *err);
sia_status sia_exchange_poll(sia_exchange *x, sia_error *err);
sia_status sia_exchange_finish(sia_exchange *x, sia_error *err);

size_t sia_exchange_bytes(const sia_exchange *x); /* of its buffers */

typedef struct sia_share {
    float *data;
    int64_t count;
    int owner;
} sia_share;

/* data of every share as its owner has it, on every rank. */
sia_status sia_spread(sia_comm *c, const sia_share *shares, int64_t count, sia_error *err);

#endif
