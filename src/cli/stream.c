/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "cli/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/progress.h"

enum { FIRST_ROOM = 1 << 23 };

double cli_stream_size(const char *path) {
    struct stat about;
    int result = strcmp(path, "-") == 0 ? fstat(STDIN_FILENO, &about) : stat(path, &about);
    return result == 0 && S_ISREG(about.st_mode) ? (double)about.st_size : 0;
}

sia_status cli_refuse_input(const char *out, const char *input, sia_error *err) {
    struct stat to, from;
    if (strcmp(out, "-") == 0 || stat(out, &to) != 0 || !S_ISREG(to.st_mode)) return SIA_OK;
    if (stat(input, &from) != 0 || !sia_same_file(&to, &from)) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT, "--out %s: is also an input: name another file", out);
}

sia_status cli_stream_open(cli_stream *in, const char *path, sia_error *err) {
    bool standard = strcmp(path, "-") == 0;
    *in = (cli_stream){.name = standard ? "stdin" : path, .fd = -1, .room = FIRST_ROOM};
    do in->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    while (in->fd < 0 && errno == EINTR && !cli_stopped()); /* a pipe waits for who writes it */
    if (in->fd < 0 && errno == EINTR) return sia_fail(err, SIA_STOPPED, "stopped");
    if (in->fd < 0) return sia_fail_file(err, path);
    in->bytes = malloc(in->room);
    return in->bytes ? SIA_OK : sia_fail_memory(err, in->room, path);
}

sia_status cli_stream_fill(cli_stream *in, sia_error *err) {
    if (!sia_grow(&in->bytes, &in->room, in->used + 1, 1)) return sia_fail_memory(err, in->room, in->name);
    if (in->end) return SIA_OK;
    size_t got = 0, room = in->room - in->used;
    sia_status status = sia_fd_read(in->fd, in->name, cli_stopped, in->bytes + in->used, room, &got, err);
    in->end = got < room;
    in->used += got;
    in->read += (double)got;
    return status;
}

void cli_stream_take(cli_stream *in, size_t bytes) {
    in->used -= bytes;
    memmove(in->bytes, in->bytes + bytes, in->used);
}

void cli_stream_close(cli_stream *in) {
    if (in->fd > STDIN_FILENO) (void)close(in->fd);
    free(in->bytes);
    in->bytes = NULL;
    in->fd = -1;
}
