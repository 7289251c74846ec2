/* SPDX-License-Identifier: MIT
 *
 * Folders that are whole or absent, as base/file.h has files.
 *
 *     char *temporary;
 *     if (sia_folder_create(&temporary, "run/step-000500", err)) return err->status;
 *     ... files in temporary ...
 *     if (!status) status = sia_folder_commit(temporary, "run/step-000500", true, err);
 *     else sia_folder_abandon(temporary);
 *
 * A kill at any moment leaves the old folder or the new one under the name, and perhaps leftovers beside it,
 * which sia_folder_clean removes. */
#ifndef SIA_BASE_FOLDER_H
#define SIA_BASE_FOLDER_H

#include <stdbool.h>

#include "sia.h"

/* Whether path is a folder; whether a folder holds something of this name. */
bool sia_folder_exists(const char *path);
bool sia_folder_holds(const char *folder, const char *name);

/* The same where an answer must not be wrong: what could not be looked at is an error, not absent. */
sia_status sia_folder_look(const char *folder, const char *name, bool *there, sia_error *err);

/* Makes a folder unless it is there, and those above it. */
sia_status sia_folder_ensure(const char *path, sia_error *err);

/* Makes a folder beside path, under a temporary name of base/path.h. *temporary is freed by the commit or the
 * abandoning. */
sia_status sia_folder_create(char **temporary, const char *path, sia_error *err);

/* Puts temporary, whose files are on the disk, in the place of path, which may exist, and waits until the
 * folders are on the disk too. A file system that can exchange two names does so at once; on others, and with
 * exchange false, the old folder stands aside between two renames, and a kill between them is repaired by
 * sia_folder_clean. A failure before the last rename leaves path as it was and removes temporary. */
sia_status sia_folder_commit(char *temporary, const char *path, bool exchange, sia_error *err);
void sia_folder_abandon(char *temporary); /* NULL is fine */

/* Removes a folder and all in it. It loses its name first: a kill leaves no half of it under the name. */
sia_status sia_folder_remove(const char *path, sia_error *err);

/* Removes from a folder what processes that were killed left there: temporary names of files and folders.
 * Only for one who knows that no other process writes into it. */
sia_status sia_folder_clean(const char *path, sia_error *err);

/* Waits until the names in a folder are on the disk. */
sia_status sia_folder_sync(const char *path, sia_error *err);

#endif
