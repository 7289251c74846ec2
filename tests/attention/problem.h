/* SPDX-License-Identifier: MIT
 *
 * One attention problem for the tests: random inputs, what the oracle says of them, what the library says,
 * and how far apart the two are. */
#ifndef SIA_TESTS_PROBLEM_H
#define SIA_TESTS_PROBLEM_H

#include "kernel/kernel.h"
#include "kernel/oracle.h"

typedef struct shape {
    int heads, kv_heads, head_dim;
    sia_span span;
} shape;

typedef struct tensor {
    int64_t count;
    float *f;  /* the library's */
    double *d; /* the oracle's */
} tensor;

typedef struct problem {
    sia_attention *a;
    const char *scheme;
    shape shape;
    bool logn;
    tensor q, k, v, s, out, lse, entropy, mass, d_out, d_q, d_k, d_v, d_s;
} problem;

/* Inputs are standard normal times `size`; s around 1/ln(train_len). config may be NULL. */
problem problem_create(const char *scheme, shape s, const sia_attention_config *config, uint64_t seed,
                       double size);
void problem_renew(problem *p); /* the same with the kernels of now */
void problem_destroy(problem *p);

void problem_oracle(problem *p, bool backward); /* fills the d sides of out, lse, ..., d_s */

/* These fill the f sides, and fail the test when the library does. Results are NaN before, so that what is not
 * written is noticed. */
void problem_forward(problem *p);
void problem_statistics(problem *p); /* the same, with entropy and mass */
void problem_backward(problem *p);
/* out and lse from a cache, `step` positions at a time. */
void problem_decode(problem *p, sia_type type, int64_t step);

/* The arguments of a pass, for tests that make the call themselves; its results are NaN. */
sia_forward problem_forward_io(problem *p, bool statistics);
sia_backward problem_backward_io(problem *p);

/* Largest |f - d| over largest |d|; infinite where one is finite and the other is not. */
double tensor_error(const tensor *t);

/* The i-th set of kernels that can be tested here, NULL after the last: those of the library that this
 * processor has, and on x86 the stand-ins for AVX-512 (isa_wide.c) and, where it is of use, AMX (isa_tiles.c). The
 * environment's SIA_TEST_ISA leaves that one alone: tests/mutate.py changes one set, and has no time for the others. */
const sia_kernel *test_kernel(int i);

/* Whether the program's tests meet products in tiles. The stand-in for AMX is slow; it is tested in these alone, and only
 * where the processor has no AMX. */
extern bool test_of_tiles;

/* The head dimension to test it with: dim, or four times that where a kernel multiplies in tiles of 16 rows, which it does
 * from 32 on. */
int test_dim(const sia_kernel *kernel, int dim);

/* Whether the environment's SIA_TEST_HASTE asks to leave out what takes seconds and sees what short lengths see. */
bool test_in_haste(void);

/* Runs body with each of them, and leaves the one chosen at start. */
#define FOR_EACH_ISA(kernel)                                                                         \
    for (int isa_ = 0; test_kernel(isa_) ? true : (sia_kernel_set(NULL), false); isa_++)             \
        for (const sia_kernel *kernel = test_kernel(isa_); kernel && (sia_kernel_set(kernel), true); \
             kernel = NULL)

#endif
