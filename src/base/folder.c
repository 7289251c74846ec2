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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/temporary.h"

#define ASIDE ".tmp-aside"

/* path and ending, in new memory. */
static char *with_ending(const char *path, const char *ending) {
    size_t room = strlen(path) + strlen(ending) + 1;
    char *name = malloc(room);
    if (name) (void)snprintf(name, room, "%s%s", path, ending);
    return name;
}

/* -------------------------------------------------------------------------------------------------- listing */

static sia_status append_name(sia_names *names, size_t *room, const char *name, sia_error *err) {
    if (!sia_grow(&names->list, room, names->count + 1, sizeof *names->list))
        return sia_fail_memory(err, (names->count + 1) * sizeof *names->list, "names of a folder");
    char *copy = strdup(name);
    if (!copy) return sia_fail_memory(err, strlen(name), name);
    names->list[names->count++] = copy;
    return SIA_OK;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

sia_status sia_folder_list(const char *path, sia_names *names, sia_error *err) {
    *names = (sia_names){0};
    DIR *open = opendir(path);
    if (!open) return sia_fail_file(err, path);
    size_t room = 0;
    sia_status status = SIA_OK;
    while (!status) {
        errno = 0; /* the one way to tell a failure from the end */
        const struct dirent *entry = readdir(open);
        if (!entry && errno) status = sia_fail_file(err, path);
        if (!entry) break;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = append_name(names, &room, entry->d_name, err);
    }
    (void)closedir(open);
    if (status)
        sia_names_free(names);
    else if (names->count)
        qsort(names->list, names->count, sizeof *names->list, by_bytes);
    return status;
}

void sia_names_free(sia_names *names) {
    for (size_t i = 0; i < names->count; i++) free(names->list[i]);
    free(names->list);
    *names = (sia_names){0};
}

sia_status sia_folder_empty(const char *path, bool *empty, sia_error *err) {
    sia_names names;
    sia_status status = sia_folder_list(path, &names, err);
    *empty = !status && names.count == 0;
    sia_names_free(&names);
    return status;
}

/* -------------------------------------------------------------------------------------------------- syncing */

sia_status sia_folder_sync(const char *path, sia_error *err) {
    int fd = sia_fd_open(path, O_RDONLY | O_DIRECTORY, 0), result;
    if (fd < 0 && errno == EACCES) return SIA_OK; /* we may write to it, but not read it */
    if (fd < 0) return sia_fail_file(err, path);
    do result = fsync(fd);
    while (result != 0 && errno == EINTR);
    /* Some network file systems know no fsync of a folder, and have it on the disk already. */
    sia_status status = result == 0 || errno == EINVAL ? SIA_OK : sia_fail_file(err, path);
    (void)close(fd);
    return status;
}

sia_status sia_folder_sync_above(const char *path, sia_error *err) {
    char *parent = sia_path_above(path);
    if (!parent) return sia_fail_memory(err, strlen(path), path);
    sia_status status = sia_folder_sync(parent, err);
    free(parent);
    return status;
}

/* ------------------------------------------------------------------------------------------------- removing */

sia_status sia_folder_remove(const char *path, sia_error *err) {
    int fd = sia_fd_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    bool folder = fd >= 0 || (errno != ENOTDIR && errno != ELOOP); /* else a link, which goes as such */
    if (folder && fd < 0) return sia_fail_file(err, path);
    char *temporary = sia_temporary_name(path);
    sia_status status = temporary ? SIA_OK : sia_fail_memory(err, strlen(path), path);
    if (!status && rename(path, temporary) != 0) status = sia_fail_file(err, path);
    /* The new name has to reach the disk before the files leave it; if it cannot, a kill is still harmless. */
    if (!status) (void)sia_folder_sync_above(path, NULL);
    if (!status && folder)
        sia_temporary_drop(temporary, fd);
    else if (!status)
        sia_tree_remove(temporary);
    else if (folder)
        (void)close(fd);
    free(temporary);
    return status;
}

void sia_folder_abandon(sia_new_folder *made) {
    if (!made->path) return;
    sia_temporary_drop(made->path, made->fd);
    free(made->path);
    made->path = NULL;
}

/* -------------------------------------------------------------------------------------------------- placing */

sia_status sia_folder_there(const char *path, bool *there, sia_error *err) {
    struct stat info;
    *there = stat(path, &info) == 0;
    if (!*there) return errno == ENOENT || errno == ENOTDIR ? SIA_OK : sia_fail_file(err, path);
    *there = S_ISDIR(info.st_mode);
    return SIA_OK;
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
    if (mkdir(path, 0777) == 0) return sia_folder_sync_above(path, err);
    if (errno == EEXIST) {
        bool there;
        sia_status status = sia_folder_there(path, &there, err);
        return status || there ? status : sia_fail(err, SIA_FILE, "%s: is a file, want a folder", path);
    }
    char *above = errno == ENOENT ? sia_path_above(path) : NULL;
    if (!above) return sia_fail_file(err, path);
    sia_status status = sia_folder_ensure(above, err);
    free(above);
    if (status) return status;
    if (mkdir(path, 0777) == 0) return sia_folder_sync_above(path, err);
    return errno == EEXIST ? SIA_OK : sia_fail_file(err, path);
}

sia_status sia_folder_create(sia_new_folder *made, const char *path, sia_error *err) {
    made->fd = sia_temporary_folder(path, &made->path);
    return made->fd < 0 ? sia_fail_file(err, path) : SIA_OK;
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
    sia_tree_remove(aside); /* path exists, so it is an old leftover */
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

sia_status sia_folder_commit(sia_new_folder *made, const char *path, bool exchange, sia_error *err) {
    sia_status status = sia_folder_sync(made->path, err);
    if (!status && rename(made->path, path) != 0) {
        if (errno != EEXIST && errno != ENOTEMPTY)
            status = sia_fail_file(err, path);
        else if (!exchange || !exchange_names(made->path, path))
            status = swap_by_renames(made->path, path, err);
    }
    if (!status) status = sia_folder_sync_above(path, err);
    /* Now the old folder, if there was one; else there is nothing, and that is fine. */
    sia_folder_abandon(made);
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
        sia_tree_remove(aside);
    else if (rename(aside, path) != 0)
        status = sia_fail_file(err, path);
    free(path);
    return status;
}

static bool is_aside(const char *name) {
    size_t length = strlen(name), ending = strlen(ASIDE);
    return length > ending && strcmp(name + length - ending, ASIDE) == 0;
}

bool sia_folder_is_leftover(const char *name) { return is_aside(name) || sia_temporary_is(name); }

sia_status sia_folder_clean(const char *path, sia_error *err) {
    sia_names names; /* all first: what is removed while it is listed may hide others */
    sia_status status = sia_folder_list(path, &names, err);
    for (size_t i = 0; !status && i < names.count; i++) {
        if (!sia_folder_is_leftover(names.list[i])) continue;
        char *whole = sia_path_join(path, names.list[i]);
        if (!whole)
            status = sia_fail_memory(err, strlen(path), path);
        else if (is_aside(whole))
            status = put_back(whole, err);
        else
            sia_temporary_remove(whole);
        free(whole);
    }
    sia_names_free(&names);
    return status;
}
