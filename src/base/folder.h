/* SPDX-License-Identifier: MIT
 *
 * Folders that are whole or absent, as base/file.h has files.
 *
 *     sia_new_folder made;
 *     if (sia_folder_create(&made, "run/step-000500", err)) return err->status;
 *     ... files in made.path ...
 *     if (!status) status = sia_folder_commit(&made, "run/step-000500", true, err);
 *     else sia_folder_abandon(&made);
 *
 * A kill at any moment leaves the old folder or the new one under the name, and perhaps leftovers beside it,
 * which sia_folder_clean removes. */
#ifndef SIA_BASE_FOLDER_H
#define SIA_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "sia.h"

/* Whether path is a folder; whether a folder holds something of this name. What could not be looked at (no memory, a
 * broken disk) is an error, not absent. */
sia_status sia_folder_there(const char *path, bool *there, sia_error *err);
sia_status sia_folder_look(const char *folder, const char *name, bool *there, sia_error *err);

/* The names in a folder but "." and "..", in the order of their bytes. */
typedef struct sia_names {
    char **list;
    size_t count;
} sia_names;

sia_status sia_folder_list(const char *path, sia_names *names, sia_error *err);
void sia_names_free(sia_names *names);
sia_status sia_folder_empty(const char *path, bool *empty, sia_error *err);

/* Makes a folder unless it is there, and those above it. */
sia_status sia_folder_ensure(const char *path, sia_error *err);

/* A folder that is being made, under a temporary name beside its own (base/temporary.h). */
typedef struct sia_new_folder {
    char *path;
    int fd; /* holds its lock */
} sia_new_folder;

sia_status sia_folder_create(sia_new_folder *made, const char *path, sia_error *err);

/* Puts the new folder, whose files are on the disk, in the place of path, which may exist, and waits until the
 * folders are on the disk too. A file system that can exchange two names does so at once; on others, and with
 * exchange false, the old folder stands aside between two renames, and a kill between them is repaired by
 * sia_folder_clean. A failure before the last rename leaves path as it was and removes the new folder. */
sia_status sia_folder_commit(sia_new_folder *made, const char *path, bool exchange, sia_error *err);

/* Removes what is left under the temporary name, and ends with it; a zeroed one is fine. */
void sia_folder_abandon(sia_new_folder *made);

/* Removes a folder and all in it. It loses its name first: a kill leaves no half of it under the name. */
sia_status sia_folder_remove(const char *path, sia_error *err);

/* Removes from a folder what processes that were killed left there: temporary names of files and folders.
 * Only for one who holds the lock of the folder: one that stands aside comes back. */
sia_status sia_folder_clean(const char *path, sia_error *err);
bool sia_folder_is_leftover(const char *name); /* a name that it takes for one */

/* Waits until the names in a folder are on the disk. */
sia_status sia_folder_sync(const char *path, sia_error *err);
sia_status sia_folder_sync_above(const char *path, sia_error *err); /* of the folder that path is in */

#endif
