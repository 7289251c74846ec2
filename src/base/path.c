/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"

#define TEMPORARY ".tmp-"

enum { TEMPORARY_DIGITS = 12 };

/* The length of the first characters of path without slashes at their end; the root keeps its own. */
static size_t without_slashes(const char *path, size_t length) {
    while (length > 1 && path[length - 1] == '/') length--;
    return length;
}

char *sia_path_join(const char *folder, const char *name) {
    size_t length = without_slashes(folder, strlen(folder)), room = length + strlen(name) + 2;
    char *path = malloc(room);
    if (path) (void)snprintf(path, room, "%.*s/%s", (int)length, folder, name);
    return path;
}

const char *sia_path_last(const char *path, size_t *length) {
    size_t end = without_slashes(path, strlen(path)), start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    *length = end - start;
    return path + start;
}

char *sia_path_above(const char *path) {
    size_t ignored;
    size_t length = without_slashes(path, (size_t)(sia_path_last(path, &ignored) - path));
    return length ? strndup(path, length) : strdup(".");
}

char *sia_path_temporary(const char *path, uint64_t n) {
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = (uint64_t)now.tv_nsec ^ ((uint64_t)now.tv_sec << 30) ^ ((uint64_t)getpid() << 44);
    size_t room = strlen(path) + sizeof TEMPORARY + TEMPORARY_DIGITS;
    char *name = malloc(room);
    if (name)
        (void)snprintf(name, room, "%s" TEMPORARY "%012llx", path,
                       (unsigned long long)(sia_random_u64(seed, n) >> 16));
    return name;
}

bool sia_path_is_temporary(const char *path) {
    size_t length = strlen(path), ending = strlen(TEMPORARY) + TEMPORARY_DIGITS;
    if (length <= ending) return false;
    const char *tail = path + length - ending, *digits = tail + strlen(TEMPORARY);
    return strncmp(tail, TEMPORARY, strlen(TEMPORARY)) == 0 &&
           strspn(digits, "0123456789abcdef") == TEMPORARY_DIGITS;
}
