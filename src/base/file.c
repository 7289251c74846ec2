/* SPDX-License-Identifier: MIT
 *
 * Files in, files out: see file.h for what is promised. Every call into the system is retried when a signal
 * interrupts it, and goes on where a short read or write stopped. */
#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/harmless.h"
#include "base/temporary.h"

enum { BUFFER = 1 << 18 };

sia_status(sia_fail_file)(sia_error *err, const char *path) {
    int cause = errno;
    char sentence[128];
    /* The GNU form, which may return a text of its own: strerror is not for threads. */
    return sia_fail(err, cause == ENOMEM ? SIA_MEMORY : SIA_FILE, "%s: %s", *path ? path : "\"\"",
                    strerror_r(cause, sentence, sizeof sentence));
}

/* O_CLOEXEC: a program that we start must not inherit what we read. */
int sia_fd_open(const char *path, int flags, unsigned mode) {
    int fd;
    do fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

sia_status sia_file_there(const char *path, bool *there, sia_error *err) {
    struct stat about;
    *there = stat(path, &about) == 0;
    return *there || errno == ENOENT || errno == ENOTDIR ? SIA_OK : sia_fail_file(err, path);
}

bool sia_same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

sia_status sia_link_refuse(const char *folder, const char *name, sia_error *err) {
    struct stat about;
    int fd = sia_fd_open(folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return sia_fail_file(err, folder);
    bool there = fstatat(fd, name, &about, AT_SYMLINK_NOFOLLOW) == 0;
    sia_status status = there || errno == ENOENT ? SIA_OK : sia_fail_file(err, folder);
    (void)close(fd);
    if (there && S_ISLNK(about.st_mode))
        return sia_fail(err, SIA_FILE, "%s/%s: is a link: want a file of the folder itself, or none", folder,
                        name);
    if (there && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        return sia_fail(err, SIA_FILE, "%s/%s: is neither a file nor a folder", folder, name);
    return status;
}

/* ------------------------------------------------------------------------------------------------ reading */

/* A folder from someone else may hold a named pipe, which must not hang us, or a device without an end. */
static sia_status open_regular(int *fd, const char *path, struct stat *about, sia_error *err) {
    *fd = sia_fd_open(path, O_RDONLY | O_NONBLOCK, 0);
    if (*fd < 0) return sia_fail_file(err, path);
    sia_status status = SIA_OK;
    if (fstat(*fd, about) != 0)
        status = sia_fail_file(err, path);
    else if (S_ISDIR(about->st_mode))
        status = sia_fail(err, SIA_FILE, "%s: is a folder, want a file", path);
    else if (!S_ISREG(about->st_mode))
        status = sia_fail(err, SIA_FILE, "%s: not a regular file", path);
    if (status) {
        (void)close(*fd);
        *fd = -1;
    }
    return status;
}

sia_status sia_map_open_kept(sia_map *map, int *kept, const char *path, sia_error *err) {
    *map = (sia_map){.bytes = "", .size = 0};
    struct stat about;
    sia_status status = open_regular(kept, path, &about, err);
    if (status) return status;
    if ((uintmax_t)about.st_size > PTRDIFF_MAX)
        status = sia_fail(err, SIA_FILE, "%s: too large to map", path);
    else if (about.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, *kept, 0);
        if (bytes == MAP_FAILED)
            status = sia_fail_file(err, path);
        else
            *map = (sia_map){.bytes = bytes, .size = (size_t)about.st_size};
    }
    if (status) {
        (void)close(*kept);
        *kept = -1;
    }
    return status;
}

sia_status sia_map_open(sia_map *map, const char *path, sia_error *err) {
    int fd;
    sia_status status = sia_map_open_kept(map, &fd, path, err);
    if (!status) (void)close(fd);
    return status;
}

void sia_map_close(sia_map *map) {
    if (map->size) (void)munmap((void *)map->bytes, map->size);
    *map = (sia_map){.bytes = "", .size = 0};
}

void sia_map_sequential(const sia_map *map) {
    if (map->size) (void)madvise((void *)map->bytes, map->size, MADV_SEQUENTIAL);
}

sia_status sia_fd_read(int fd, const char *name, sia_stopped *stopped, char *bytes, size_t room, size_t *got,
                       sia_error *err) {
    *got = 0;
    while (*got < room) {
        if (stopped && stopped()) return sia_fail(err, SIA_STOPPED, "stopped");
        size_t want = room - *got < SSIZE_MAX ? room - *got : SSIZE_MAX;
        ssize_t n = read(fd, bytes + *got, want);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return sia_fail_file(err, name);
        if (n == 0) break;
        *got += (size_t)n;
    }
    return SIA_OK;
}

sia_status sia_fd_read_at(int fd, const char *name, void *bytes, size_t room, size_t offset, sia_error *err) {
    for (size_t got = 0; got < room;) {
        size_t want = room - got < SSIZE_MAX ? room - got : SSIZE_MAX;
        ssize_t n = pread(fd, (char *)bytes + got, want, (off_t)(offset + got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return sia_fail_file(err, name);
        if (n == 0)
            return sia_fail(err, SIA_FILE, "%s: ends at byte %zu: it was cut while it was read", name,
                            offset + got);
        got += (size_t)n;
    }
    return SIA_OK;
}

/* The room for a first try: a regular file in one piece (and one byte to see its end), anything else by
 * doubling. */
static size_t first_room(int fd, size_t limit) {
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size < 0) return BUFFER;
    return (uintmax_t)about.st_size < limit ? (size_t)about.st_size + 1 : BUFFER;
}

static sia_status read_all(int fd, const char *name, size_t limit, sia_stopped *stopped, char **bytes,
                           size_t *size, sia_error *err) {
    size_t room = first_room(fd, limit), used = 0;
    char *buffer = NULL;
    for (;;) {
        char *larger = realloc(buffer, room + 1);
        if (!larger) {
            free(buffer);
            return sia_fail_memory(err, room + 1, name);
        }
        buffer = larger;
        size_t got;
        sia_status status = sia_fd_read(fd, name, stopped, buffer + used, room - used, &got, err);
        used += got;
        if (!status && used > limit)
            status = sia_fail(err, SIA_FORMAT, "%s: more than %zu bytes, which is the limit", name, limit);
        if (status) {
            free(buffer);
            return status;
        }
        if (used < room) break;
        room = room < SIZE_MAX / 4 ? room * 2 : SIZE_MAX / 2;
    }
    buffer[used] = 0;
    *bytes = buffer;
    *size = used;
    return SIA_OK;
}

sia_status sia_stdin_read(size_t limit, sia_stopped *stopped, char **bytes, size_t *size, sia_error *err) {
    *bytes = NULL;
    *size = 0;
    return read_all(STDIN_FILENO, "stdin", limit, stopped, bytes, size, err);
}

sia_status sia_file_read(const char *path, size_t limit, char **bytes, size_t *size, sia_error *err) {
    *bytes = NULL;
    *size = 0;
    if (strcmp(path, "-") == 0) return sia_stdin_read(limit, NULL, bytes, size, err);
    int fd;
    sia_status status = open_regular(&fd, path, &(struct stat){0}, err);
    if (status) return status;
    status = read_all(fd, path, limit, NULL, bytes, size, err);
    (void)close(fd);
    return status;
}

sia_status sia_input_read(const char *path, size_t limit, sia_stopped *stopped, char **bytes, size_t *size,
                          sia_error *err) {
    *bytes = NULL;
    *size = 0;
    int fd;
    do fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR && !stopped());
    if (fd < 0 && errno == EINTR) return sia_fail(err, SIA_STOPPED, "stopped");
    if (fd < 0) return sia_fail_file(err, path);
    sia_status status = read_all(fd, path, limit, stopped, bytes, size, err);
    (void)close(fd);
    return status;
}

/* ------------------------------------------------------------------------------------------------ writing */

sia_status sia_fd_write_at(int fd, const char *name, const void *bytes, size_t count, size_t offset,
                           sia_error *err) {
    for (size_t done = 0; done < count;) {
        ssize_t n = pwrite(fd, (const char *)bytes + done, count - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return sia_fail_file(err, name);
        done += (size_t)n;
    }
    return SIA_OK;
}

sia_status sia_fd_sync(int fd, const char *name, sia_error *err) {
    int result;
    do result = fsync(fd);
    while (result != 0 && errno == EINTR);
    return result == 0 ? SIA_OK : sia_fail_file(err, name);
}

struct sia_output {
    int fd;
    bool terminal;   /* a person looks at it: what is written is made harmless */
    bool owned;      /* the descriptor is ours to close; stdout is not */
    char *path;      /* the final name, links followed; for sentences when there is no temporary one */
    char *temporary; /* NULL: written in place */
    size_t used;     /* of the buffer */
    char buffer[BUFFER];
};

static sia_status open_target(sia_output *out, const char *path, sia_error *err) {
    struct stat about;
    if (strcmp(path, "-") == 0) {
        out->fd = STDOUT_FILENO;
        out->terminal = isatty(out->fd) == 1;
        out->path = strdup("stdout");
        return out->path ? SIA_OK : sia_fail_memory(err, sizeof "stdout", path);
    }
    out->owned = true;
    bool exists = stat(path, &about) == 0;
    if (!exists && errno != ENOENT) return sia_fail_file(err, path);
    if (exists && S_ISDIR(about.st_mode))
        return sia_fail(err, SIA_FILE, "%s: is a folder, want a file", path);
    /* Without math-errno gcc takes it that strdup leaves errno alone: no memory is said by hand. */
    bool replaced = exists && S_ISREG(about.st_mode);
    out->path = replaced ? realpath(path, NULL) : strdup(path);
    if (!out->path) return replaced ? sia_fail_file(err, path) : sia_fail_memory(err, strlen(path), path);
    if (exists && !replaced) {
        out->fd = open(out->path, O_WRONLY | O_CLOEXEC); /* a signal ends the wait for who reads a pipe */
        out->terminal = out->fd >= 0 && isatty(out->fd) == 1;
        return out->fd < 0 ? sia_fail_file(err, path) : SIA_OK;
    }
    /* A file that others may not read stays so, from its first moment. */
    out->fd = sia_temporary_file(out->path, replaced ? about.st_mode & 0777 : 0666, &out->temporary);
    if (out->fd < 0) return sia_fail_file(err, path);
    if (replaced) (void)fchmod(out->fd, about.st_mode & 07777); /* what umask took away */
    return SIA_OK;
}

sia_status sia_output_open(sia_output **result, const char *path, sia_error *err) {
    *result = NULL;
    sia_output *out = malloc(sizeof *out);
    if (!out) {
        (void)sia_fail_memory(err, sizeof *out, path);
        return SIA_MEMORY; /* spelled out for the analyser, which does not see into sia_fail */
    }
    out->fd = -1;
    out->owned = out->terminal = false;
    out->path = out->temporary = NULL;
    out->used = 0;
    sia_status status = open_target(out, path, err);
    if (status) {
        sia_output_abandon(out);
        return status;
    }
    *result = out;
    return SIA_OK;
}

static sia_status write_all(sia_output *out, const char *data, size_t bytes, sia_error *err) {
    while (bytes) {
        ssize_t n = write(out->fd, data, bytes < SSIZE_MAX ? bytes : SSIZE_MAX);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return sia_fail_file(err, out->path);
        data += n;
        bytes -= (size_t)n;
    }
    return SIA_OK;
}

/* On a terminal a character that is not whole waits for its rest, unless this is the end. */
static sia_status flush(sia_output *out, bool end, sia_error *err) {
    size_t bytes = out->used;
    if (out->terminal && end) (void)sia_harmless(out->buffer, bytes, "\n\t");
    if (out->terminal && !end) bytes = sia_harmless_part(out->buffer, bytes, "\n\t");
    out->used -= bytes;
    sia_status status = write_all(out, out->buffer, bytes, err);
    memmove(out->buffer, out->buffer + bytes, out->used);
    return status;
}

sia_status sia_output_write(sia_output *out, const void *data, size_t bytes, sia_error *err) {
    const char *from = data;
    while (bytes > BUFFER - out->used) {
        if (out->used == 0 && !out->terminal) return write_all(out, from, bytes, err);
        size_t part = out->terminal ? BUFFER - out->used : 0;
        if (part) memcpy(out->buffer + out->used, from, part);
        out->used += part;
        from += part;
        bytes -= part;
        sia_status status = flush(out, false, err);
        if (status) return status;
    }
    if (bytes) memcpy(out->buffer + out->used, from, bytes);
    out->used += bytes;
    return SIA_OK;
}

sia_status sia_output_printf(sia_output *out, sia_error *err, const char *format, ...) {
    char *line = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (length < 0) return sia_fail_memory(err, strlen(format), out->path);
    sia_status status = sia_output_write(out, line, (size_t)length, err);
    free(line);
    return status;
}

sia_status sia_output_patch(sia_output *out, size_t offset, const void *data, size_t bytes, sia_error *err) {
    sia_status status = flush(out, true, err);
    return status ? status : sia_fd_write_at(out->fd, out->path, data, bytes, offset, err);
}

sia_status sia_output_commit(sia_output *out, sia_error *err) {
    sia_status status = flush(out, true, err);
    if (!status && out->temporary) {
        /* The descriptor stays open until after the rename: it holds the lock of the temporary name. */
        status = sia_fd_sync(out->fd, out->path, err);
        if (!status && rename(out->temporary, out->path) != 0) status = sia_fail_file(err, out->path);
        if (!status) {
            free(out->temporary);
            out->temporary = NULL;
            status = sia_folder_sync_above(out->path, err); /* the rename itself is on the disk only then */
        }
    }
    sia_output_abandon(out);
    return status;
}

void sia_output_abandon(sia_output *out) {
    if (!out) return;
    if (out->owned && out->fd >= 0) (void)close(out->fd);
    if (out->temporary) (void)unlink(out->temporary);
    free(out->temporary);
    free(out->path);
    free(out);
}

sia_status sia_file_replace(const char *path, const void *data, size_t bytes, sia_error *err) {
    sia_output *out;
    sia_status status = sia_output_open(&out, path, err);
    if (status) return status;
    status = sia_output_write(out, data, bytes, err);
    if (!status) return sia_output_commit(out, err);
    sia_output_abandon(out);
    return status;
}
