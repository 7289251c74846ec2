/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "base/random.h"

#define MARK ".tmp-"

enum { DIGITS = 12, TRIES = 100, OPEN_FOLDERS = 8 };

/* ---------------------------------------------------------------------------------------------------- names */

/* The n-th try. Two processes draw different ones; O_EXCL and mkdir see to the rest. */
static char *draw_name(const char *path, uint64_t n) {
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = (uint64_t)now.tv_nsec ^ ((uint64_t)now.tv_sec << 30) ^ ((uint64_t)getpid() << 44);
    size_t room = strlen(path) + sizeof MARK + DIGITS;
    char *name = malloc(room);
    if (name)
        (void)snprintf(name, room, "%s" MARK "%012llx", path,
                       (unsigned long long)(sia_random_u64(seed, n) >> 16));
    return name;
}

char *sia_temporary_name(const char *path) { return draw_name(path, 0); }

bool sia_temporary_is(const char *name) {
    size_t length = strlen(name), ending = strlen(MARK) + DIGITS;
    if (length <= ending) return false;
    const char *tail = name + length - ending, *digits = tail + strlen(MARK);
    return strncmp(tail, MARK, strlen(MARK)) == 0 && strspn(digits, "0123456789abcdef") == DIGITS;
}

/* ------------------------------------------------------------------------------------------------- removing */

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *place) {
    (void)about, (void)type, (void)place;
    return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

void sia_tree_remove(const char *path) { (void)nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS); }

static bool take_lock(int fd) {
    int result;
    do result = flock(fd, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

void sia_temporary_remove(const char *name) {
    struct stat about;
    if (lstat(name, &about) != 0) return;
    int fd = S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)
                 ? sia_fd_open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0)
                 : -1;
    /* What is neither a file nor a folder nobody is at work on. */
    if (fd >= 0 ? take_lock(fd) : !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)) sia_tree_remove(name);
    if (fd >= 0) (void)close(fd);
}

/* What processes that were killed left of path. A folder that cannot be listed is no reason not to write into it. */
static void remove_leftovers(const char *path) {
    size_t length;
    const char *last = sia_path_last(path, &length);
    char *above = sia_path_above(path);
    DIR *open = above ? opendir(above) : NULL;
    for (struct dirent *entry; open && (entry = readdir(open));) {
        const char *name = entry->d_name;
        if (strncmp(name, last, length) != 0 || strlen(name) != length + strlen(MARK) + DIGITS ||
            !sia_temporary_is(name))
            continue;
        char *whole = sia_path_join(above, name);
        if (whole) sia_temporary_remove(whole);
        free(whole);
    }
    if (open) (void)closedir(open);
    free(above);
}

/* --------------------------------------------------------------------------------------------------- making */

static int make(const char *name, bool folder, unsigned mode) {
    if (!folder) return sia_fd_open(name, O_RDWR | O_CREAT | O_EXCL, mode);
    if (mkdir(name, mode) != 0) return -1;
    int fd = sia_fd_open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0), cause = errno;
    if (fd < 0) (void)rmdir(name);
    errno = cause;
    return fd;
}

/* Between its making and its lock another process may have taken it for a leftover: then it is about to be removed,
 * or is removed already. Where there are no locks, nobody takes it for one. */
static bool is_ours(int fd) {
    struct stat about;
    if (!take_lock(fd) && errno == EWOULDBLOCK) return false;
    return fstat(fd, &about) != 0 || about.st_nlink > 0;
}

static int make_locked(const char *path, bool folder, unsigned mode, char **name) {
    remove_leftovers(path);
    for (uint64_t n = 0; n < TRIES; n++) {
        *name = draw_name(path, n);
        if (!*name) {
            errno = ENOMEM; /* which gcc believes malloc does not set, without math-errno */
            return -1;
        }
        int fd = make(*name, folder, mode), cause = errno;
        if (fd >= 0 && is_ours(fd)) return fd;
        if (fd >= 0) {
            (void)remove(*name);
            (void)close(fd);
        }
        free(*name);
        *name = NULL;
        errno = fd >= 0 ? EEXIST : cause;
        if (errno != EEXIST) return -1;
    }
    return -1;
}

int sia_temporary_file(const char *path, unsigned mode, char **name) {
    return make_locked(path, false, mode, name);
}

int sia_temporary_folder(const char *path, char **name) { return make_locked(path, true, 0777, name); }
