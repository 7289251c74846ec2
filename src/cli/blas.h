/* SPDX-License-Identifier: MIT
 *
 * OpenBLAS, which `sia bench attention` compares with and `sia --version` names; nothing else uses it. It is loaded on
 * demand: without it everything else works, and only who asks for it pays for what loading does (it starts threads, each
 * with 128 MB of addresses). */
#ifndef SIA_CLI_BLAS_H
#define SIA_CLI_BLAS_H

typedef struct cli_blas {
    char name[64]; /* "OpenBLAS 0.3.21 (Zen)" */
    /* c = a b, row by row: m x k times k x n. On the thread that calls. */
    void (*multiply)(int m, int n, int k, const float *a, const float *b, float *c);
} cli_blas;

/* NULL where it is not installed. To be called first while there is but one thread. */
const cli_blas *cli_blas_get(void);

#endif
