/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The length of the first characters of path without slashes at their end; the root keeps its own. */
static size_t without_slashes(const char *path, size_t length) {
    while (length > 1 && path[length - 1] == '/') length--;
    return length;
}

size_t sia_path_length(const char *path) { return without_slashes(path, strlen(path)); }

char *sia_path_join(const char *folder, const char *name) {
    size_t length = sia_path_length(folder), room = length + strlen(name) + 2;
    char *path = malloc(room);
    if (path) (void)snprintf(path, room, "%.*s/%s", (int)length, folder, name);
    return path;
}

const char *sia_path_last(const char *path, size_t *length) {
    size_t end = sia_path_length(path), start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    *length = end - start;
    return path + start;
}

char *sia_path_above(const char *path) {
    size_t ignored;
    size_t length = without_slashes(path, (size_t)(sia_path_last(path, &ignored) - path));
    return length ? strndup(path, length) : strdup(".");
}
