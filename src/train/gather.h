/* SPDX-License-Identifier: MIT
 *
 * The state of a run that several ranks hold, on the one rank that reads and writes files.
 *
 *     float *whole;                                              rank 0: the states one after another; else NULL
 *     sia_states_collect(comm, optimizer, &whole, err);          before a checkpoint is written
 *     sia_states_deal(comm, optimizer, whole, err);              after one was read, on any number of ranks
 *     sia_free(whole);
 *
 * On one rank the optimiser itself has them all, and whole stays NULL. */
#ifndef SIA_TRAIN_GATHER_H
#define SIA_TRAIN_GATHER_H

#include "comm/comm.h"
#include "model/model.h"
#include "optim/optimizer.h"

/* Room for all states on rank 0 of several; NULL elsewhere. The failure of rank 0 is that of all. */
sia_status sia_states_room(sia_comm *c, const sia_optimizer *o, float **whole, sia_error *err);

sia_status sia_states_collect(sia_comm *c, const sia_optimizer *o, float **whole, sia_error *err);
sia_status sia_states_deal(sia_comm *c, sia_optimizer *o, const float *whole, sia_error *err);

/* Where state i lies, on the rank that has it whole: in `whole`, or with the optimiser on one rank. */
float *sia_state_at(const sia_optimizer *o, float *whole, int64_t i);

/* All weights as rank 0 has them. */
sia_status sia_weights_spread(sia_comm *c, sia_model *m, sia_error *err);

#endif
