/* SPDX-License-Identifier: MIT
 *
 * The groups of parameters that the optimisers treat alike. */
#ifndef SIA_MODEL_GROUP_H
#define SIA_MODEL_GROUP_H

typedef enum sia_group {
    SIA_GROUP_EMBEDDING,   /* Adam */
    SIA_GROUP_MATRIX,      /* Muon: the matrices of the blocks */
    SIA_GROUP_UNEMBEDDING, /* Adam */
    SIA_GROUP_SCALAR,      /* Adam; no weight decay */
    SIA_GROUPS,
} sia_group;

#endif
