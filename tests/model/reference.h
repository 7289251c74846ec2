/* SPDX-License-Identifier: MIT
 *
 * The model as its definition reads, forward only, in float64: what the gradients and losses of the library
 * are tested against. */
#ifndef SIA_TESTS_REFERENCE_H
#define SIA_TESTS_REFERENCE_H

#include "model/model.h"

/* Sees what a layer's attention is given: q [length, heads, head_dim], k [length, kv_heads, head_dim], after their
 * norms. */
typedef void reference_look(void *context, int layer, int64_t length, const double *q, const double *k);

typedef struct reference {
    const sia_model *m;
    sia_attention_config attention; /* complete */
    sia_scheme scheme;
    double **values;      /* [tensors], copied from the model; may be changed */
    reference_look *look; /* or NULL */
    void *look_context;
} reference;

/* A model none of whose tensors is 0, so that every part of it has an effect, trained with config->scheme and used
 * with `scheme` for eval_len tokens; fails the test when the library does. */
sia_model *reference_model(const sia_model_config *config, const char *scheme, int64_t eval_len, int threads);

reference reference_create(const sia_model *m);
void reference_destroy(reference *r);

/* The sum of the losses over ids, targets [batch, length]; losses [batch * length] may be NULL. */
double reference_loss(const reference *r, int64_t batch, int64_t length, const uint32_t *ids,
                      const uint32_t *targets, double *losses);

#endif
