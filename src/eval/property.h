/* SPDX-License-Identifier: MIT
 *
 * The two properties of scale-invariant attention over distances t <= k < t D, Gaussian logits:
 *
 *     E[Z] = sum of E[e^L]     ->  alpha tau ln D        total attention
 *     E[N] = sum of E[L e^L]   ->  beta tau ln D         unnormalised sparsity        as t grows
 *
 * each computed in three ways that share nothing but the tables a_k, m_k (and the first not even these):
 *
 *     closed       Lemmas 1 and 2: sum of alpha / (k/tau + 1) = alpha tau (psi(tD + tau) - psi(t + tau))
 *     quadrature   of e^L and L e^L against the density of L ~ N(m, a^2), at each distance
 *     sampled      L from the tilted Gaussian N(m + a^2, a^2), where the weight e^L has its mass; k from the
 *                  distribution that is uniform in ln k
 *
 *     sia_property property[2];
 *     sia_property_check(&model, t, D, draws, seed, threads, property);      Z, then N */
#ifndef SIA_EVAL_PROPERTY_H
#define SIA_EVAL_PROPERTY_H

#include "eval/rows.h"

typedef struct sia_property {
    char quantity; /* 'Z' or 'N' */
    int ratio;     /* D */
    int64_t t;
    double limit, closed, quadrature;
    double sampled, error; /* the mean over the samples and its standard error */
    bool holds;            /* quadrature within 1e-6 of closed, sampled within 5 standard errors */
} sia_property;

enum { SIA_PROPERTY_DRAWS = 1 << 22 };

/* model: si. draws are samples, SIA_PROPERTY_DRAWS at most, rounded up to whole blocks. */
void sia_property_check(const sia_row_model *model, int64_t t, int ratio, int64_t draws, uint64_t seed,
                        int threads, sia_property property[2]);

/* The standard deviation of one sample of Z over its mean: what makes plain sample means useless. E[e^(2L)] is
 * e^(2 beta/alpha) at every distance, so that the variance grows like t while the mean stays. */
double sia_property_spread(const sia_row_model *model, int64_t t, int ratio);

#endif
