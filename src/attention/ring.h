/* SPDX-License-Identifier: MIT
 *
 * Attention of sequences that are longer than one rank should hold: each rank of a ring has a part of the positions,
 * with its queries, keys and values.
 *
 *     sia_ring *ring;
 *     sia_ring_create(&ring, a, comm, &(sia_ring_plan){.batch = 4, .length = 65536, .backward = true}, err);
 *     int64_t n = sia_ring_positions(ring);                      of this rank; arrays below are [batch, n, ...]
 *     sia_ring_forward(ring, batch, &io, err);
 *     sia_ring_backward(ring, batch, &io, err);
 *
 * The positions are cut into 2 R chunks, and rank r holds chunks r and 2 R - 1 - r, in this order: an early one, which
 * sees little, and a late one, which sees much. So each rank has the same work in each of the R steps: its own keys
 * first, then those of the rank before it, and so on round the ring. While one block of keys and values is attended to,
 * it is sent on and the next one comes in. Long chunks go round in slices, one after the other, so that blocks on their
 * way take no more memory for a longer sequence. Partial results are merged by their log sums,
 *
 *     lse = log(e^l1 + e^l2)        out = e^(l1 - lse) out1 + e^(l2 - lse) out2
 *
 * and on the way back the gradients of keys and values travel with the blocks, until they are home.
 *
 * Schemes are functions of absolute positions, so every one works. Same bits for the same number of ranks. */
#ifndef SIA_ATTENTION_RING_H
#define SIA_ATTENTION_RING_H

#include "comm/comm.h"

/* The positions of a rank: first[i] .. first[i] + count[i] - 1, i = 0, 1. Lengths that 2 R does not divide leave
 * chunks of two lengths; chunks may be empty. */
typedef struct sia_ring_part {
    int64_t first[2], count[2];
} sia_ring_part;

sia_ring_part sia_ring_part_of(int64_t length, int ranks, int rank);

typedef struct sia_ring sia_ring;

typedef struct sia_ring_plan {
    int64_t batch, length; /* for up to `batch` sequences of `length` tokens in all */
    bool backward;         /* both passes */
    int64_t piece;         /* positions of a slice, at most; 0: as many as are fast */
} sia_ring_plan;

/* Borrows a and c. Every rank of c calls this and all that follows in the same order. A length below 2 R is
 * SIA_ARGUMENT. */
sia_status sia_ring_create(sia_ring **ring, const sia_attention *a, sia_comm *c, const sia_ring_plan *plan,
                           sia_error *err);
void sia_ring_destroy(sia_ring *ring); /* NULL is fine */

int64_t sia_ring_positions(const sia_ring *ring);
size_t sia_ring_bytes(const sia_ring *ring);

/* to[i] = from[position of i]: what this rank has of a whole sequence. */
void sia_ring_pick(const sia_ring *ring, const uint32_t *from, uint32_t *to);

/* As sia_attention_forward with dense arrays; entropy and mass are not computed (SIA_ARGUMENT). lse may be NULL. */
sia_status sia_ring_forward(sia_ring *ring, int64_t batch, const sia_forward *io, sia_error *err);

/* As sia_attention_backward. d_logn is this rank's share: the gradient is the sum over the ranks. */
sia_status sia_ring_backward(sia_ring *ring, int64_t batch, const sia_backward *io, sia_error *err);

#endif
