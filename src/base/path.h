/* SPDX-License-Identifier: MIT
 *
 * Paths as text: nothing here looks at the disk. What is made is freed with free, and NULL without memory. */
#ifndef SIA_BASE_PATH_H
#define SIA_BASE_PATH_H

#include <stddef.h>

/* The length of path without slashes at the end; the root keeps its own. */
size_t sia_path_length(const char *path);

/* folder/name, whether folder ends in a slash or not. */
char *sia_path_join(const char *folder, const char *name);

/* The folder that path is in, "." when it names none. */
char *sia_path_above(const char *path);

/* The last part of a path, which is what a person calls it: where it begins, and its length without slashes at
 * the end. */
const char *sia_path_last(const char *path, size_t *length);

#endif
