/* SPDX-License-Identifier: MIT
 *
 * Memory for arrays that vectors are read from: aligned to 64 bytes; large blocks are asked for in huge
 * pages, which are worth a tenth of a step of training, and more of a token (docs/speed.md). */
#ifndef SIA_BASE_MEMORY_H
#define SIA_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIA_ALIGN = 64, SIA_HUGE_PAGE = 2 << 20 };

/* NULL when there is no memory or when count * size does not fit. Zeroed. Freed with sia_free. */
void *sia_alloc(size_t count, size_t size);
void sia_free(void *block);

/* Room for `wanted` elements in the array whose address `array` is, and which has *room: half as many more than before
 * when it has to move, so that adding one by one takes linear time. Freed with free. Where there is no memory, all stays
 * as it was, and false is returned. */
bool sia_grow(void *array, size_t *room, size_t wanted, size_t size);

/* Whole pages straight from the system, zeroed; from SIA_HUGE_PAGE bytes on, huge where it gives them. NULL on
 * failure. */
void *sia_pages_map(size_t bytes);
void sia_pages_unmap(void *pages, size_t bytes);

/* bytes rounded up so that the next array starts aligned. */
static inline size_t sia_aligned(size_t bytes) { return (bytes + SIA_ALIGN - 1) / SIA_ALIGN * SIA_ALIGN; }

/* One block cut into arrays, each aligned, by adding up: with base NULL it only counts. */
typedef struct sia_carve {
    char *base;
    size_t used;
} sia_carve;
static inline void *sia_carve_bytes(sia_carve *c, size_t bytes) {
    void *at = c->base ? c->base + c->used : NULL;
    c->used += sia_aligned(bytes);
    return at;
}
static inline float *sia_carve_floats(sia_carve *c, int64_t floats) {
    return (float *)sia_carve_bytes(c, (size_t)floats * sizeof(float));
}

/* The number-th of several parts of the same size, cut further. */
static inline sia_carve sia_carve_part(char *parts, size_t bytes, int64_t number) {
    if (!parts) __builtin_unreachable(); /* which an analyzer does not know */
    return (sia_carve){parts + (size_t)number * bytes, 0};
}

/* Behind what one thread writes, before what another does. A core that reads with a stride is ahead of itself by several
 * strides, behind the end of its data too: what it takes there, the other has to fetch back. */
static inline void sia_carve_gap(sia_carve *c) {
    enum { GAP = 32 << 10 };
    c->used += GAP;
}

#endif
