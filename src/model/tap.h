/* SPDX-License-Identifier: MIT
 *
 * A window of text through the model, layer by layer, with a look at what attention is given and what it does.
 *
 *     sia_tap *t;
 *     sia_tap_create(&t, m, 4096, err);
 *     sia_tap_run(t, ids, look, &context, err);        calls look once a layer
 *     sia_tap_destroy(t);
 *
 * Memory is that of one layer's activations over the window. */
#ifndef SIA_MODEL_TAP_H
#define SIA_MODEL_TAP_H

#include "model/model.h"

typedef struct sia_tap sia_tap;

/* Borrowed for the call. */
typedef struct sia_tap_view {
    int layer;
    int64_t length;
    const float *q;       /* [length, heads, head_dim] after its norm, before the rotary slot */
    const float *k, *v;   /* [length, kv_heads, head_dim] the same; v as it is */
    const float *logn;    /* [heads], NULL unless the scheme has it */
    const float *entropy; /* [length, heads] of the rows of attention */
    const float *mass;    /* [length, heads, SIA_DECADES] */
} sia_tap_view;

/* Not SIA_OK ends the run, which returns it. */
typedef sia_status sia_tap_look(void *context, const sia_tap_view *view, sia_error *err);

/* For windows of `length` tokens. Packs the weights as they are now; borrows m. */
sia_status sia_tap_create(sia_tap **t, sia_model *m, int64_t length, sia_error *err);
void sia_tap_destroy(sia_tap *t); /* NULL is fine */

/* ids [length]. Same bits for any number of threads. */
sia_status sia_tap_run(sia_tap *t, const uint32_t *ids, sia_tap_look *look, void *context, sia_error *err);

#endif
