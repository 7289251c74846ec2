/* SPDX-License-Identifier: MIT
 *
 * The tables that kernels read: computed in double, rounded once to float.
 *
 * Distance. Along a row of keys the distance falls, so tables are stored backwards and a kernel walks them
 * forwards: with `scale` pointing at t = 0, the value for distance t is scale[-t]. What kernels exponentiate
 * is base 2, so log2(e) is folded in, and so is 1/sqrt(head_dim):
 *
 *     log2 of the weight = scale[-t] * (q.k) + bias[-t]
 *
 * SIA_TABLE_PAD entries more stand at both ends (t < 0: keys that the row does not see), so that a kernel can
 * load whole vectors at the diagonal. Their values are finite and without meaning.
 *
 * Rotary. The angle of a position is split, position = 256 coarse + fine, and a kernel joins the two by one
 * complex product: a million positions then need 4,352 rows instead of a million. Behind the last row there are
 * SIA_ROTARY_PAD numbers more, for whole vectors there, too. */
#ifndef SIA_POSITION_TABLE_H
#define SIA_POSITION_TABLE_H

#include "position/scheme.h"

enum { SIA_TABLE_PAD = 256, SIA_ROTARY_FINE = 256, SIA_ROTARY_PAD = 8 };

typedef struct sia_tables {
    int64_t length;      /* distances and positions below it are covered */
    int distance_tables; /* 1 when every head has the same, else one a head */
    float *memory;
    float *scale, *bias; /* of table 0, at t = 0; table i begins i * stride later */
    int64_t stride;
    float *log_n;       /* [length] ln(position + 1), with logn only */
    int turning;        /* pairs that turn */
    float *fine;        /* [256][2][turning] cosines, then sines */
    float *coarse;      /* [ceil(length/256)][2][turning] */
    float row_constant; /* sharp, yarn */
    sia_pairs pairs;
    struct sia_tables *older; /* tables that a call still running may use */
} sia_tables;

sia_status sia_tables_create(sia_tables **tables, sia_scheme scheme, const sia_attention_config *config,
                             int64_t length, sia_error *err);
void sia_tables_destroy(sia_tables *tables); /* and the older ones */

static inline const float *sia_tables_scale(const sia_tables *t, int head) {
    return t->scale + (t->distance_tables > 1 ? head : 0) * t->stride;
}
static inline const float *sia_tables_bias(const sia_tables *t, int head) {
    return t->bias + (t->distance_tables > 1 ? head : 0) * t->stride;
}

#endif
