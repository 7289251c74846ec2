/* SPDX-License-Identifier: MIT
 *
 * Inside a training pass: its activations, and what training.c and loss.c share. */
#ifndef SIA_MODEL_TRAINING_H
#define SIA_MODEL_TRAINING_H

#include "attention/attention.h"
#include "attention/ring.h"
#include "model/model.h"

/* What a layer keeps for its gradient; shapes [tokens][..]. */
typedef struct sia_layer {
    float *input; /* recompute only: the residual that it was given */
    float *y1, *r1;
    float *q, *k, *v, *rq, *rk;
    float *z, *lse;
    float *y2, *r2, *h;
} sia_layer;

struct sia_training {
    sia_model *m;
    int64_t batch, length, tokens; /* length: positions of this rank */
    int64_t most;                  /* sequences that there is room for */
    sia_span span;
    bool recompute, forward_only;
    sia_ring *ring; /* or NULL */
    sia_layer *layers;
    const uint32_t *ids;
    float *x, *y, *r; /* the residual; its last norm */
    float *dx, *dmid, *dh, *dz, *dq, *dk, *dv, *dlogn;
    float *losses, *logits;
    void *attention_work;
    sia_gradient_ready *ready; /* or NULL */
    void *ready_context;
    float *scratch; /* [threads][worker_floats] */
    int64_t worker_floats;
    void *memory;
    size_t bytes;
};

/* Unembedding and cross entropy from t->y, in chunks of rows; leaves the gradient of the residual in t->dx. */
void sia_training_loss(sia_training *t, const uint32_t *targets, float scale, bool add, double *sum,
                       int64_t *scored);

/* Losses alone, without a gradient. */
void sia_training_score(sia_training *t, const uint32_t *targets);

/* The gradient of a weight is dy^T x over all tokens, cut into blocks of the weight. */
enum { SIA_GRADIENT_ROWS = 384, SIA_GRADIENT_COLUMNS = 512 };
typedef struct sia_gradient_of {
    sia_parameter *weight;
    const float *dy; /* [tokens][rows of the weight] */
    const float *x;  /* [tokens][columns] */
} sia_gradient_of;
void sia_training_gradients(sia_training *t, const sia_gradient_of *list, int count, int64_t tokens,
                            bool add);

#endif
