/* SPDX-License-Identifier: MIT
 *
 * Attention as a textbook writes it, in float64, from the definitions in sia.h alone: no tiles, no tables, no
 * tricks. The fast kernels are tested against it; it is not part of the library. Memory is linear, time is
 * not a concern. */
#ifndef SIA_KERNEL_ORACLE_H
#define SIA_KERNEL_ORACLE_H

#include "position/scheme.h"

/* All arrays dense, as in sia_forward and sia_backward. Config complete (sia_config_complete). Outputs may be
 * NULL. */
typedef struct oracle {
    sia_scheme scheme;
    sia_attention_config config;
    sia_span span;
    const double *q, *k, *v, *logn;
    double *out, *lse, *entropy, *mass;
    const double *d_out;
    double *d_q, *d_k, *d_v, *d_logn;
} oracle;

void oracle_forward(const oracle *o);
void oracle_backward(const oracle *o); /* from q, k, v, logn and d_out alone */

#endif
