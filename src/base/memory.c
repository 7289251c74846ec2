/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A wish, not a condition: a system without huge pages says no, and all works as before. Activations are read
 * in rows that lie kilobytes apart, each on a small page of its own: with huge ones a step of training is a
 * tenth faster. */
static void wish_huge(void *block, size_t bytes) { (void)madvise(block, bytes, MADV_HUGEPAGE); }

void *sia_alloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX - SIA_ALIGN) return NULL;
    if (bytes == 0) bytes = 1; /* an empty array is not an error */
    bytes = sia_aligned(bytes);
    bool large = bytes >= SIA_HUGE_PAGE;
    void *block;
    if (posix_memalign(&block, large ? SIA_HUGE_PAGE : SIA_ALIGN, bytes) != 0) return NULL;
    if (large) wish_huge(block, bytes);
    memset(block, 0, bytes);
    return block;
}

void sia_free(void *block) { free(block); }

/* A pointer to whatever it is. */
typedef void *any_pointer __attribute__((may_alias));

bool sia_grow(void *array, size_t *room, size_t wanted, size_t size) {
    if (wanted <= *room) return true;
    size_t larger = *room + *room / 2 + 64, bytes;
    if (larger < wanted) larger = wanted;
    if (__builtin_mul_overflow(larger, size, &bytes) || bytes > PTRDIFF_MAX) return false;
    any_pointer *place = array;
    void *moved = realloc(*place, bytes);
    if (!moved) return false;
    *place = moved;
    *room = larger;
    return true;
}

static void *map(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* A mapping that starts at a huge page: the system starts it anywhere, and what lies before the first multiple
 * of 2 MiB stays on small pages. More is mapped than is wanted, and both ends are given back. */
static void *map_aligned(size_t bytes) {
    if (bytes > SIZE_MAX - SIA_HUGE_PAGE) return NULL;
    char *pages = map(bytes + SIA_HUGE_PAGE);
    if (!pages) return NULL;
    size_t before = (SIA_HUGE_PAGE - (uintptr_t)pages % SIA_HUGE_PAGE) % SIA_HUGE_PAGE,
           page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used = (before + bytes + page - 1) / page * page;
    if (before) (void)munmap(pages, before);
    (void)munmap(pages + used, bytes + SIA_HUGE_PAGE - used);
    return pages + before;
}

void *sia_pages_map(size_t bytes) {
    void *pages = bytes < SIA_HUGE_PAGE ? NULL : map_aligned(bytes);
    if (pages)
        wish_huge(pages, bytes);
    else
        pages = map(bytes);
    return pages;
}

void sia_pages_unmap(void *pages, size_t bytes) {
    if (pages) (void)munmap(pages, bytes);
}
