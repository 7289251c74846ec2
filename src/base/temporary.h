/* SPDX-License-Identifier: MIT
 *
 * Temporary names of files and folders that are being made: path.tmp- and 12 letters of g to v, which no date and no
 * person makes, beside path, so that one rename puts them in its place. A name that is too long for that is cut.
 *
 * Who makes one holds a lock on it (flock) as long as its descriptor is open. So one that nobody holds was left by
 * a process that was killed: the next who makes path removes it, and so does sia_folder_clean. What another user owns
 * stays, and so do leftovers where the file system knows no locks. */
#ifndef SIA_BASE_TEMPORARY_H
#define SIA_BASE_TEMPORARY_H

#include <stdbool.h>

/* Makes and locks a new one, after what was left of path is gone. Returns its descriptor, -1 with errno; *name is
 * freed with free, and NULL on failure. */
int sia_temporary_file(const char *path, unsigned mode, char **name);
int sia_temporary_folder(const char *path, char **name);

/* A name for what is about to be removed, in new memory. */
char *sia_temporary_name(const char *path);

/* Whether the end of a name is that of a temporary one. */
bool sia_temporary_is(const char *name);

/* Removes one, a file or a folder, unless a process is at work on it. */
void sia_temporary_remove(const char *name);

/* Removes what has the temporary name now: the folder that we made, whose descriptor this is, or one that gave its name to
 * it; or nothing, when it was renamed. Closes the descriptor. */
void sia_temporary_drop(const char *name, int fd);

/* Removes a file, or a folder and all in it. No link is followed, not even one that another process puts in the place of a
 * folder meanwhile. What cannot be removed stays. */
void sia_tree_remove(const char *path);

#endif
