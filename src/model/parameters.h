/* SPDX-License-Identifier: MIT
 *
 * The one table of parameters. Allocation, initialisation, checkpoints, optimiser groups and counts are
 * derived from it.
 *
 *     embedding.weight              [vocabulary, width]
 *     blocks.N.attention.q.weight   [heads head_dim, width]         k, v: [kv_heads head_dim, width]
 *     blocks.N.attention.o.weight   [width, heads head_dim]
 *     blocks.N.mlp.in.weight        [hidden, width]
 *     blocks.N.mlp.out.weight       [width, hidden]
 *     blocks.N.attention.logn       [heads]                         schemes with logn only
 *     unembedding.weight            [vocabulary, width] */
#ifndef SIA_MODEL_PARAMETERS_H
#define SIA_MODEL_PARAMETERS_H

#include <stdbool.h>

#include "model/group.h"
#include "sia.h"

/* What a block holds, in the order of the table; LOGN is left out by schemes without it. */
typedef enum sia_kind {
    SIA_KIND_Q,
    SIA_KIND_K,
    SIA_KIND_V,
    SIA_KIND_O,
    SIA_KIND_IN,
    SIA_KIND_OUT,
    SIA_KIND_LOGN,
    SIA_KINDS,
    SIA_KIND_EMBEDDING = SIA_KINDS,
    SIA_KIND_UNEMBEDDING,
} sia_kind;

typedef struct sia_parameter {
    char name[48];
    sia_kind kind;
    sia_group group;
    int64_t rows, columns;
    float *value;
    float *gradient; /* NULL unless the model is trained */
} sia_parameter;

typedef struct sia_parameters {
    sia_parameter *list;
    int count;
    int per_block; /* parameters of one block */
    int64_t total; /* numbers in all */
    float *values, *gradients;
} sia_parameters;

/* How many numbers a complete configuration asks for; nothing is allocated. */
double sia_parameters_total(const sia_model_config *config, bool logn);

/* From a complete configuration; values are 0, there are no gradients. */
sia_status sia_parameters_create(sia_parameters *p, const sia_model_config *config, sia_error *err);
void sia_parameters_destroy(sia_parameters *p);

/* Room for gradients, 0. */
sia_status sia_parameters_gradients(sia_parameters *p, sia_error *err);

/* Values as the configuration's seed and init say. A number is a function of (seed, tensor, index): the same
 * for any number of threads. */
void sia_parameters_initialise(sia_parameters *p, const sia_model_config *config);

static inline sia_parameter *sia_embedding(const sia_parameters *p) { return &p->list[0]; }
static inline sia_parameter *sia_unembedding(const sia_parameters *p) { return &p->list[p->count - 1]; }
static inline sia_parameter *sia_block_parameter(const sia_parameters *p, int block, sia_kind kind) {
    return &p->list[1 + block * p->per_block + (int)kind];
}

#endif
