/* SPDX-License-Identifier: MIT
 *
 * How attention goes round a ring of ranks; sia.h has what a caller needs, sia_ring_create to sia_ring_backward.
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

/* to[i] = from[position of i]: what this rank has of a whole sequence. */
void sia_ring_pick(const sia_ring *ring, const uint32_t *from, uint32_t *to);

#endif
