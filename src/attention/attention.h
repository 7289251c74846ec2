/* SPDX-License-Identifier: MIT
 *
 * What the forward pass, the backward pass and the cache share: the object, its tables, checks of a call. */
#ifndef SIA_ATTENTION_ATTENTION_H
#define SIA_ATTENTION_ATTENTION_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "kernel/kernel.h"

struct sia_attention {
    sia_scheme scheme;
    char name[SIA_SCHEME_NAME];
    sia_attention_config config;
    const sia_kernel *kernel;
    /* The longest; shorter ones live on behind it, other threads may still read them. */
    _Atomic(sia_tables *) tables;
};

/* Tables that cover positions and distances below length. */
sia_status sia_attention_tables_for(const sia_attention *a, int64_t length, const sia_tables **tables,
                                    sia_error *err);

/* Fills in batch and checks the span against what the library can address. */
sia_status sia_span_check(const sia_attention *a, sia_span *span, sia_error *err);

/* *stride = dense when 0; else checked to hold a row. */
sia_status sia_stride_check(const char *name, int64_t *stride, int64_t dense, sia_error *err);

/* A NULL where the struct of a call or an array is needed, s without logn, logn without s. */
sia_status sia_io_check(const void *io, sia_error *err);
sia_status sia_array_check(const char *name, const void *array, sia_error *err);
sia_status sia_logn_check(const sia_attention *a, const char *name, const float *s, sia_error *err);

/* All that a call of a pass gives; strides that are 0 become those of dense rows. */
sia_status sia_forward_check(const sia_attention *a, sia_forward *io, sia_error *err);
sia_status sia_backward_check(const sia_attention *a, sia_backward *io, sia_error *err);

/* A workspace that is lent, NULL when there is none: kernels read whole lines of it. */
sia_status sia_work_check(const void *work, sia_error *err);

/* The factors of the row slot for `rows` positions from `position` on; NULL when all are 1. */
const float *sia_row_factors(const sia_attention *a, const sia_tables *t, const float *logn, int head,
                             int64_t position, int64_t rows, float *room);

/* Queries in a task of the forward pass, over `heads` heads in all. No result depends on it. */
int64_t sia_task_rows(const sia_attention *a, int64_t q_len, int64_t heads);

/* Rows of a column panel for that many queries: whole tiles, an odd number of them, so that neighbours in a
 * row of q do not fall into the same places of the first-level cache. */
static inline int64_t sia_query_panel(const sia_kernel *kernel, int64_t rows) {
    return ((rows + kernel->tile - 1) / kernel->tile | 1) * kernel->tile;
}

/* For a span that was checked. */
size_t sia_forward_workspace(const sia_attention *a, sia_span span);
size_t sia_backward_workspace(const sia_attention *a, sia_span span);

#endif
