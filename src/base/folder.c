/* SPDX-License-Identifier: MIT
 *
 * Whole or absent: see folder.h. A rename is the one step that the system promises to do wholly or not at
 * all, but it does not replace a folder that has files in it. So either two names are exchanged, or the old
 * folder is renamed to path.tmp-aside first: while that exists and path does not, it is the folder that
 * counts. */
#define _GNU_SOURCE
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"

#define ASIDE ".tmp-aside"

enum { OPEN_FOLDERS = 8 };

/* path and ending, in new memory. */
static char *with_ending(const char *path, const char *ending) {
    size_t room = strlen(path) + strlen(ending) + 1;
    char *name = malloc(room);
    if (name) (void)snprintf(name, room, "%s%s", path, ending);
    return name;
}

sia_status sia_folder_sync(const char *path, sia_error *err) {
    int fd = sia_fd_open(path, O_RDONLY | O_DIRECTORY, 0), result;
    if (fd < 0) return sia_fail_file(err, path);
    do result = fsync(fd);
    while (result != 0 && errno == EINTR);
    /* Some network file systems know no fsync of a folder, and have it on the disk already. */
    sia_status status = result == 0 || errno == EINVAL ? SIA_OK : sia_fail_file(err, path);
    (void)close(fd);
    return status;
}

static sia_status sync_parent(const char *path, sia_error *err) {
    char *parent = sia_path_above(path);
    if (!parent) return sia_fail_memory(err, strlen(path), path);
    sia_status status = sia_folder_sync(parent, err);
    free(parent);
    return status;
}

/* ------------------------------------------------------------------------------------------------- removing */

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *place) {
    (void)about, (void)type, (void)place;
    return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

/* Links are removed, not followed. What cannot be removed stays, under a name that nobody reads. */
static void remove_tree(const char *path) {
    (void)nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

sia_status sia_folder_remove(const char *path, sia_error *err) {
    char *temporary = sia_path_temporary(path, 0);
    if (!temporary) return sia_fail_memory(err, strlen(path), path);
    sia_status status = rename(path, temporary) == 0 ? SIA_OK : sia_fail_file(err, path);
    /* The new name has to reach the disk before the files leave it; if it cannot, a kill is still harmless. */
    if (!status) (void)sync_parent(path, NULL);
    if (!status) remove_tree(temporary);
    free(temporary);
    return status;
}

void sia_folder_abandon(char *temporary) {
    if (temporary) remove_tree(temporary);
    free(temporary);
}

/* -------------------------------------------------------------------------------------------------- placing */

bool sia_folder_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool sia_folder_holds(const char *folder, const char *name) {
    struct stat info;
    char *path = sia_path_join(folder, name);
    bool there = path && stat(path, &info) == 0;
    free(path);
    return there;
}

sia_status sia_folder_look(const char *folder, const char *name, bool *there, sia_error *err) {
    char *path = sia_path_join(folder, name);
    *there = false;
    sia_status status =
        path ? sia_file_there(path, there, err) : sia_fail_memory(err, strlen(folder), folder);
    free(path);
    return status;
}

sia_status sia_folder_ensure(const char *path, sia_error *err) {
    if (mkdir(path, 0777) == 0) return sync_parent(path, err);
    if (errno == EEXIST)
        return sia_folder_exists(path) ? SIA_OK
                                       : sia_fail(err, SIA_FILE, "%s: is a file, want a folder", path);
    char *above = errno == ENOENT ? sia_path_above(path) : NULL;
    if (!above) return sia_fail_file(err, path);
    sia_status status = sia_folder_ensure(above, err);
    free(above);
    if (status) return status;
    if (mkdir(path, 0777) == 0) return sync_parent(path, err);
    return errno == EEXIST ? SIA_OK : sia_fail_file(err, path);
}

sia_status sia_folder_create(char **temporary, const char *path, sia_error *err) {
    for (uint64_t n = 0;; n++) {
        *temporary = sia_path_temporary(path, n);
        if (!*temporary) return sia_fail_memory(err, strlen(path), path);
        if (mkdir(*temporary, 0777) == 0) return SIA_OK;
        if (errno != EEXIST || n == SIA_PATH_TRIES) break;
        free(*temporary);
    }
    sia_status status = sia_fail_file(err, path);
    free(*temporary);
    *temporary = NULL;
    return status;
}

static bool exchange_names(const char *a, const char *b) {
#ifdef RENAME_EXCHANGE
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0;
#else
    (void)a, (void)b;
    return false;
#endif
}

/* path exists. Ends with the old folder under the temporary name, or as it began. */
static sia_status swap_by_renames(const char *temporary, const char *path, sia_error *err) {
    char *aside = with_ending(path, ASIDE);
    if (!aside) return sia_fail_memory(err, strlen(path), path);
    remove_tree(aside); /* path exists, so it is an old leftover */
    sia_status status = rename(path, aside) == 0 ? SIA_OK : sia_fail_file(err, path);
    if (!status && rename(temporary, path) != 0) {
        status = sia_fail_file(err, path);
        (void)rename(aside, path);
    } else if (!status) {
        (void)rename(aside, temporary);
    }
    free(aside);
    return status;
}

sia_status sia_folder_commit(char *temporary, const char *path, bool exchange, sia_error *err) {
    sia_status status = sia_folder_sync(temporary, err);
    if (!status && rename(temporary, path) != 0) {
        if (errno != EEXIST && errno != ENOTEMPTY)
            status = sia_fail_file(err, path);
        else if (!exchange || !exchange_names(temporary, path))
            status = swap_by_renames(temporary, path, err);
    }
    if (!status) status = sync_parent(path, err);
    /* Now the old folder, if there was one; else there is nothing, and that is fine. */
    sia_folder_abandon(temporary);
    return status;
}

/* ------------------------------------------------------------------------------------------------- cleaning */

/* A folder that stood aside when its process was killed comes back, unless the new one has its name. */
static sia_status put_back(const char *aside, sia_error *err) {
    char *path = strdup(aside);
    if (!path) return sia_fail_memory(err, strlen(aside), aside);
    path[strlen(path) - strlen(ASIDE)] = 0;
    sia_status status = SIA_OK;
    if (access(path, F_OK) == 0)
        remove_tree(aside);
    else if (rename(aside, path) != 0)
        status = sia_fail_file(err, path);
    free(path);
    return status;
}

sia_status sia_folder_clean(const char *path, sia_error *err) {
    struct dirent **entries = NULL; /* all names first: what is removed while it is listed may hide others */
    int count = scandir(path, &entries, NULL, NULL);
    if (count < 0) return sia_fail_file(err, path);
    sia_status status = SIA_OK;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name, *ending = strstr(name, ASIDE);
        bool aside = ending && ending != name && ending[strlen(ASIDE)] == 0;
        if (!status && (aside || sia_path_is_temporary(name))) {
            char *whole = sia_path_join(path, name);
            if (!whole)
                status = sia_fail_memory(err, strlen(path), path);
            else if (aside)
                status = put_back(whole, err);
            else
                remove_tree(whole);
            free(whole);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}
