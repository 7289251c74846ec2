/* SPDX-License-Identifier: MIT */
#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

void *sia_alloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX - SIA_ALIGN) return NULL;
    if (bytes == 0) bytes = 1; /* an empty array is not an error */
    bytes = sia_aligned(bytes);
    void *block = aligned_alloc(SIA_ALIGN, bytes);
    if (block) memset(block, 0, bytes);
    return block;
}

void sia_free(void *block) { free(block); }

void *sia_pages_map(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    /* A wish, not a condition: a system without huge pages says no, and all works as before. */
    if (bytes >= HUGE_PAGE) (void)madvise(pages, bytes, MADV_HUGEPAGE);
    return pages;
}

void sia_pages_unmap(void *pages, size_t bytes) {
    if (pages) (void)munmap(pages, bytes);
}
