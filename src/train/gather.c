/* SPDX-License-Identifier: MIT
 *
 * Parts of the optimiser's states to rank 0 and back; see gather.h. */
#include "train/gather.h"

#include <stdlib.h>
#include <string.h>

float *sia_state_at(const sia_optimizer *o, float *whole, int64_t i) {
    int64_t count;
    const sia_optim_state *states = sia_optimizer_states(o, &count);
    if (!whole) return states[i].data;
    for (int64_t s = 0; s < i; s++) whole += states[s].rows * states[s].columns;
    return whole;
}

sia_status sia_states_room(sia_comm *c, const sia_optimizer *o, float **whole, sia_error *err) {
    int64_t count, floats = 0;
    const sia_optim_state *states = sia_optimizer_states(o, &count);
    sia_status status = SIA_OK;
    *whole = NULL;
    if (sia_comm_size(c) == 1) return SIA_OK;
    for (int64_t i = 0; i < count; i++) floats += states[i].rows * states[i].columns;
    if (sia_comm_rank(c) == 0 && !(*whole = sia_alloc((size_t)floats, sizeof(float))))
        status = sia_fail_memory(err, (size_t)floats * sizeof(float), "the optimiser's whole state");
    return sia_comm_agree(c, status, err);
}

/* One state of one part, in the direction of the move; nothing where neither end is this rank. */
static sia_status move_part(sia_comm *c, const sia_optim_part *p, int s, float *place, bool collect,
                            sia_transfer *t, sia_error *err) {
    size_t bytes = (size_t)p->count * sizeof(float);
    int rank = sia_comm_rank(c);
    if (p->owner == 0 && rank == 0) {
        float *state = p->state[s]; /* both are here */
        if (state && place) memcpy(collect ? place : state, collect ? state : place, bytes);
        return SIA_OK;
    }
    if (rank != 0 && rank != p->owner) return SIA_OK;
    int peer = rank == 0 ? p->owner : 0;
    float *here = rank == 0 ? place : p->state[s];
    return (rank == 0) == collect ? sia_comm_receive(c, peer, here, bytes, SIA_TAG_GATHER, t, err)
                                  : sia_comm_send(c, peer, here, bytes, SIA_TAG_GATHER, t, err);
}

static sia_status move_states(sia_comm *c, const sia_optimizer *o, float *whole, bool collect,
                              sia_error *err) {
    int64_t count;
    const sia_optim_part *parts = sia_optimizer_parts(o, &count);
    sia_transfer *moves = calloc((size_t)count * 2, sizeof *moves);
    sia_status status = moves ? SIA_OK : sia_fail_memory(err, (size_t)count * 2 * sizeof *moves, "transfers");
    for (int64_t i = 0; !status && i < count; i++)
        for (int s = 0; !status && s < parts[i].states; s++) {
            float *place = whole ? sia_state_at(o, whole, parts[i].first_state + s) + parts[i].from : NULL;
            status = move_part(c, &parts[i], s, place, collect, &moves[2 * i + s], err);
        }
    for (int64_t i = 0; !status && i < 2 * count; i++) status = sia_comm_wait(c, &moves[i], err);
    free(moves);
    return status;
}

sia_status sia_states_collect(sia_comm *c, const sia_optimizer *o, float **whole, sia_error *err) {
    sia_status status = sia_states_room(c, o, whole, err);
    if (status || sia_comm_size(c) == 1) return status;
    return move_states(c, o, *whole, true, err);
}

sia_status sia_states_deal(sia_comm *c, sia_optimizer *o, const float *whole, sia_error *err) {
    if (sia_comm_size(c) == 1) return SIA_OK;
    return move_states(c, o, (float *)whole, false, err);
}

sia_status sia_weights_spread(sia_comm *c, sia_model *m, sia_error *err) {
    sia_status status = SIA_OK;
    for (int i = 0; !status && i < sia_model_tensors(m); i++) {
        sia_tensor t = sia_model_tensor(m, i);
        status = sia_comm_broadcast(c, t.value, (size_t)(t.rows * t.columns) * sizeof(float), 0, err);
    }
    return status;
}
