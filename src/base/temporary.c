/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
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
#define LETTERS "ghijklmnopqrstuv"

enum { DRAWN = 12, ENDING = sizeof MARK - 1 + DRAWN, TRIES = 100, DEEPEST = 64 };

/* ---------------------------------------------------------------------------------------------------- names */

/* How much of the last part of a path stands in its temporary names; *last is where that part begins. */
static size_t kept_length(const char *path, const char **last) {
    size_t length;
    *last = sia_path_last(path, &length);
    return length < NAME_MAX - ENDING ? length : NAME_MAX - ENDING;
}

/* The n-th try. Two processes draw different ones; O_EXCL and mkdir see to the rest. */
static char *draw_name(const char *path, uint64_t n) {
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = (uint64_t)now.tv_nsec ^ ((uint64_t)now.tv_sec << 30) ^ ((uint64_t)getpid() << 44);
    uint64_t drawn = sia_random_u64(seed, n);
    const char *last;
    size_t kept = kept_length(path, &last), length = (size_t)(last - path) + kept;
    char *name = malloc(length + ENDING + 1);
    if (!name) return NULL;
    memcpy(name, path, length);
    memcpy(name + length, MARK, strlen(MARK));
    for (int i = 0; i < DRAWN; i++) name[length + strlen(MARK) + (size_t)i] = LETTERS[drawn >> 4 * i & 15];
    name[length + ENDING] = 0;
    return name;
}

char *sia_temporary_name(const char *path) { return draw_name(path, 0); }

bool sia_temporary_is(const char *name) {
    size_t length = strlen(name);
    if (length <= ENDING) return false;
    const char *tail = name + length - ENDING, *drawn = tail + strlen(MARK);
    return strncmp(tail, MARK, strlen(MARK)) == 0 && strspn(drawn, LETTERS) == DRAWN;
}

/* ------------------------------------------------------------------------------------------------- removing */

enum { OF_A_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW };

static void empty_folder(int fd, int depth);

static bool remove_entry(int fd, const char *name, int depth) {
    if (unlinkat(fd, name, 0) == 0) return true;
    int within = depth < DEEPEST ? openat(fd, name, OF_A_FOLDER | O_CLOEXEC) : -1;
    if (within < 0) return false;
    empty_folder(within, depth + 1);
    return unlinkat(fd, name, AT_REMOVEDIR) == 0;
}

/* All in a folder, whose descriptor is closed in the end. By descriptors, never by paths: a folder on the way may be
 * exchanged for a link while we are in it. Listed again after a removal, which may hide other names from the listing,
 * and once after a listing that failed. */
static void empty_folder(int fd, int depth) {
    DIR *open = fdopendir(fd);
    if (!open) (void)close(fd);
    bool again = open != NULL, failed = false;
    while (again) {
        again = false;
        rewinddir(open);
        errno = 0;
        for (struct dirent *entry; (entry = readdir(open)); errno = 0) {
            bool self = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
            if (!self && remove_entry(fd, entry->d_name, depth)) again = true;
        }
        if (errno && !failed) again = failed = true;
    }
    if (open) (void)closedir(open);
}

void sia_tree_remove(const char *path) {
    if (unlink(path) == 0 || errno == ENOENT) return;
    int fd = sia_fd_open(path, OF_A_FOLDER, 0);
    if (fd < 0) return;
    empty_folder(fd, 0);
    (void)rmdir(path);
}

/* Ours is emptied by the descriptor that we have: there may be no other. */
void sia_temporary_drop(const char *name, int fd) {
    struct stat made, named;
    if (fstat(fd, &made) == 0 && lstat(name, &named) == 0 && sia_same_file(&made, &named)) {
        empty_folder(fd, 0);
        (void)rmdir(name);
    } else {
        (void)close(fd);
        sia_tree_remove(name);
    }
}

static bool take_lock(int fd) {
    int result;
    do result = flock(fd, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

/* In a folder that others may write into, what they made is not ours to remove. */
static void remove_unlocked(const char *name, bool files, bool folders) {
    struct stat about;
    int fd = sia_fd_open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) return;
    bool ours = fstat(fd, &about) == 0 && about.st_uid == geteuid() && take_lock(fd);
    if (ours && files && S_ISREG(about.st_mode)) (void)unlink(name);
    if (ours && folders && S_ISDIR(about.st_mode)) {
        sia_temporary_drop(name, fd);
        return;
    }
    (void)close(fd);
}

void sia_temporary_remove(const char *name) { remove_unlocked(name, true, true); }

/* What processes that were killed left of path. A folder that cannot be listed is no reason not to write into it. */
static void remove_leftovers(const char *path, bool folder) {
    const char *last;
    size_t kept = kept_length(path, &last);
    char *above = sia_path_above(path);
    DIR *open = above ? opendir(above) : NULL;
    for (struct dirent *entry; open && (entry = readdir(open));) {
        const char *name = entry->d_name;
        if (strncmp(name, last, kept) != 0 || strlen(name) != kept + ENDING || !sia_temporary_is(name))
            continue;
        char *whole = sia_path_join(above, name);
        if (whole) remove_unlocked(whole, !folder, folder);
        free(whole);
    }
    if (open) (void)closedir(open);
    free(above);
}

/* --------------------------------------------------------------------------------------------------- making */

static int make(const char *name, bool folder, unsigned mode) {
    if (!folder) return sia_fd_open(name, O_RDWR | O_CREAT | O_EXCL, mode);
    if (mkdir(name, mode) != 0) return -1;
    int fd = sia_fd_open(name, OF_A_FOLDER, 0), cause = errno;
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
    remove_leftovers(path, folder);
    for (uint64_t n = 0; n < TRIES; n++) {
        *name = draw_name(path, n);
        if (!*name) {
            errno = ENOMEM; /* which gcc believes malloc does not set, without math-errno */
            return -1;
        }
        int fd = make(*name, folder, mode), cause = errno;
        if (fd >= 0 && is_ours(fd)) return fd;
        if (fd >= 0) {
            sia_tree_remove(*name);
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
