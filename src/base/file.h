/* SPDX-License-Identifier: MIT
 *
 * Files in, files out.
 *
 *     sia_map map;
 *     if (sia_map_open(&map, "books.txt", err)) return err->status;
 *     ... map.bytes[0 .. map.size) ...
 *     sia_map_close(&map);
 *
 *     sia_output *out;
 *     if (sia_output_open(&out, "tokenizer.json", err)) return err->status;
 *     if (!(status = sia_output_write(out, data, bytes, err))) status = sia_output_commit(out, err);
 *     else sia_output_abandon(out);
 *
 * An output has its final name only once it is whole and on the disk: it is written under a temporary name in
 * the same folder, then fsync, rename, fsync of the folder. A crash leaves the old file or the new one, never
 * a part. */
#ifndef SIA_BASE_FILE_H
#define SIA_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "sia.h"

/* ------------------------------------------------------------------------------------------------ reading */

/* A regular file, mapped read-only. An empty file has size 0 and bytes "". A file that another process
 * cuts while it is mapped raises SIGBUS, as with every mapped file: shards and texts are read so, being
 * too large to copy; models are not (base/safetensors.h). */
typedef struct sia_map {
    const char *bytes;
    size_t size;
} sia_map;

sia_status sia_map_open(sia_map *map, const char *path, sia_error *err);

/* The same, with its descriptor, which is the caller's to close: for one who copies from the file and
 * wants an error where the map would raise SIGBUS. -1 on failure. */
sia_status sia_map_open_kept(sia_map *map, int *fd, const char *path, sia_error *err);
void sia_map_close(sia_map *map); /* a zeroed map is fine; may be called again */

/* Tells the system that the map will be read once, from its start to its end. */
void sia_map_sequential(const sia_map *map);

/* All of a regular file, or of stdin for "-"; more than limit bytes are an error. *bytes is ended by a 0 that
 * is not counted in *size; freed with free. */
sia_status sia_file_read(const char *path, size_t limit, char **bytes, size_t *size, sia_error *err);

/* Whether the person wants us to stop. */
typedef bool sia_stopped(void);

/* sia_file_read of "-" that fails with SIA_STOPPED when `stopped` says so. It is asked before every read, and
 * a signal ends a read: one who waits for a terminal is heard at once. */
sia_status sia_stdin_read(size_t limit, sia_stopped *stopped, char **bytes, size_t *size, sia_error *err);

/* The same of what a person named, be it a file, a pipe or a device. */
sia_status sia_input_read(const char *path, size_t limit, sia_stopped *stopped, char **bytes, size_t *size,
                          sia_error *err);

/* Reads until room bytes or the end of the input; *got < room means the end. name is for the sentence;
 * stopped may be NULL. */
sia_status sia_fd_read(int fd, const char *name, sia_stopped *stopped, char *bytes, size_t room, size_t *got,
                       sia_error *err);

/* All of bytes[0 .. room) from offset on; a file that ends before is SIA_FILE: it was cut since its size
 * was asked for. */
sia_status sia_fd_read_at(int fd, const char *name, void *bytes, size_t room, size_t offset, sia_error *err);

/* Whether there is something of this name. What could not be looked at (no memory, a broken disk) is an
 * error, not absent. */
sia_status sia_file_there(const char *path, bool *there, sia_error *err);

/* Whether both describe one file or folder. */
bool sia_same_file(const struct stat *a, const struct stat *b);

/* Fails for a name in a folder, which a person named without naming it, that is a link, a pipe or a device: a
 * folder from someone else must not make us write elsewhere. */
sia_status sia_link_refuse(const char *folder, const char *name, sia_error *err);

/* open, with O_CLOEXEC, again when a signal came. */
int sia_fd_open(const char *path, int flags, unsigned mode);

/* Fails with the sentence of errno: "books.txt: No such file or directory". */
sia_status sia_fail_file(sia_error *err, const char *path);
#ifdef __clang_analyzer__
#    define sia_fail_file(err, path) (sia_fail_file(err, path), SIA_FILE)
#endif

/* ------------------------------------------------------------------------------------------------ writing */

/* All of bytes[0 .. count) at offset; what is written is on the disk after sia_fd_sync. */
sia_status sia_fd_write_at(int fd, const char *name, const void *bytes, size_t count, size_t offset,
                           sia_error *err);
sia_status sia_fd_sync(int fd, const char *name, sia_error *err);

typedef struct sia_output sia_output;

/* path "-" is stdout. A path that exists and is no regular file (a pipe, /dev/null) is written in place:
 * there is nothing to replace; on a terminal the text is made harmless (base/harmless.h). A link to
 * a file that is there is followed, and the mode of a file that is replaced is kept. */
sia_status sia_output_open(sia_output **out, const char *path, sia_error *err);
sia_status sia_output_write(sia_output *out, const void *data, size_t bytes, sia_error *err);
sia_status sia_output_printf(sia_output *out, sia_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Ends the output, in either way; out is freed. A commit that fails leaves nothing behind. */
sia_status sia_output_commit(sia_output *out, sia_error *err);
void sia_output_abandon(sia_output *out); /* NULL is fine */

/* The output at byte offset (already written) is overwritten: for a header whose counts come last. Not for
 * pipes. */
sia_status sia_output_patch(sia_output *out, size_t offset, const void *data, size_t bytes, sia_error *err);

/* open, write, commit. */
sia_status sia_file_replace(const char *path, const void *data, size_t bytes, sia_error *err);

#endif
