/* SPDX-License-Identifier: MIT
 *
 * One step of Muon for one matrix W [rows][columns], G its gradient:
 *
 *     M = momentum M + G           U = G + momentum M           X = U / (|U| + 1e-7)        |U|: all entries
 *     five times   X = (a I + b A + c A A) X,  A = X X'         3.4445, -4.7750, 2.0315
 *     W = keep W - rate sqrt(max(1, rows/columns)) X
 *
 * The polynomial drives every singular value of X that is not tiny towards 1 (into about 0.7 .. 1.2), so that
 * all directions of a matrix learn at one speed. Rows are outputs of the layer and columns inputs, as torch
 * stores weights: the factor depends on it.
 *
 *     float *work = sia_alloc(sia_muon_floats(rows, columns), sizeof(float));
 *     sia_muon_step(&(sia_muon){.value = w, ...}, work);
 *
 * On the calling thread; the order of every sum is fixed by the shape alone. */
#ifndef SIA_OPTIM_MUON_H
#define SIA_OPTIM_MUON_H

#include <stdint.h>

typedef struct sia_muon {
    float *value, *momentum; /* [rows][columns] */
    const float *gradient;
    int64_t rows, columns;
    double factor; /* of the gradient: below 1 when it is clipped */
    double beta;   /* the momentum's */
    double rate, keep;
} sia_muon;

/* Floats of workspace, aligned to 64 bytes, for matrices of this shape. */
int64_t sia_muon_floats(int64_t rows, int64_t columns);

void sia_muon_step(const sia_muon *p, float *work);

/* Floating-point operations of the products of one step; symmetric results count half. */
double sia_muon_flops(int64_t rows, int64_t columns);

#endif
