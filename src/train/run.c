/* SPDX-License-Identifier: MIT
 *
 * A run's folder, its lock and its logs: see run.h. */
#include "train/run.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/path.h"
#include "base/temporary.h"

#define LOCK_MARK "sia " /* before the number of the process: by this the lock is known as ours */

enum {
    NUMBER_ROOM = 32,       /* for both */
    PROOF_MOST = 256 << 20, /* of bytes: lines of a needle study */
};

struct sia_run {
    char *folder;
    int lock;   /* -1: not held */
    bool known; /* the folder was ours before */
    bool made;  /* the lock was made now, and is held */
    bool fresh; /* the folder, too, was made now */
    struct {
        char *path;
        int fd; /* -1: not opened yet, so that a run without evaluation has no empty file */
    } logs[SIA_RUN_LOGS];
};

static const char *const log_names[SIA_RUN_LOGS] = {"metrics.jsonl", "eval.jsonl", "compare.jsonl",
                                                    "needle.jsonl"};

/* What is written into the folder of a run or a study, beside the logs. */
static const char *const other_names[] = {"lock",           "config.json", "study.json",
                                          "tokenizer.json", "data",        "runs"};

/* ---------------------------------------------------------------------------------------------- the folder */

/* A folder may come from someone else. */
static sia_status refuse_links(const char *folder, sia_error *err) {
    sia_status status = SIA_OK;
    for (int i = 0; !status && i < SIA_RUN_LOGS; i++) status = sia_link_refuse(folder, log_names[i], err);
    for (size_t i = 0; !status && i < sizeof other_names / sizeof *other_names; i++)
        status = sia_link_refuse(folder, other_names[i], err);
    return status;
}

/* A run or a study is known by one of these, should its lock not have been copied with it. Folders of all kinds have a
 * config.json: it has to be one that we write. */
static bool proves_run(json_t *json) {
    const char *scheme, *kind;
    json_int_t steps;
    return json_unpack(json, "{s:{s:s}, s:{s:I}, s:{s:s}}", "model", "scheme", &scheme, "training", "steps",
                       &steps, "data", "kind", &kind) == 0;
}
static bool proves_study(json_t *json) {
    const char *kind;
    json_t *model;
    return json_unpack(json, "{s:{s:{s:o}}, s:{s:s}}", "budget", "settings", "model", &model, "data", "kind",
                       &kind) == 0;
}
static bool proves_needles(json_t *json) {
    const char *kind;
    json_t *runs;
    return json_unpack(json, "{s:s, s:o}", "kind", &kind, "runs", &runs) == 0 && !strcmp(kind, "study");
}
static const struct {
    const char *name;
    bool (*proves)(json_t *first); /* the first object in it */
} proofs[] = {{"config.json", proves_run}, {"study.json", proves_study}, {"needle.jsonl", proves_needles}};

static sia_status is_proof(const char *path, bool (*proves)(json_t *), bool *proof, sia_error *err) {
    char *text;
    size_t bytes;
    json_t *json = NULL;
    sia_status status = sia_file_there(path, proof, err);
    if (status || !*proof) return status;
    status = sia_file_read(path, PROOF_MOST, &text, &bytes, err);
    if (status) return status;
    status = sia_json_parse(&json, text, bytes, JSON_DISABLE_EOF_CHECK, path, err);
    *proof = !status && proves(json);
    json_decref(json);
    free(text);
    return status == SIA_MEMORY ? status : SIA_OK;
}

/* The lock of a start that was killed before it wrote config.json; empty, or absent, when that came at once. */
static sia_status is_lock(const char *path, bool *ours, bool *empty, sia_error *err) {
    char *text;
    size_t bytes;
    sia_status status = sia_file_there(path, ours, err);
    *empty = !*ours;
    if (status || !*ours) return status;
    status = sia_file_read(path, PROOF_MOST, &text, &bytes, err);
    if (status) { /* it may have been taken away meanwhile, by one who failed to begin here */
        sia_status look = sia_file_there(path, ours, NULL);
        *empty = !look && !*ours;
        return *empty ? SIA_OK : status;
    }
    *ours = bytes > strlen(LOCK_MARK) && strncmp(text, LOCK_MARK, strlen(LOCK_MARK)) == 0;
    *empty = bytes == 0;
    free(text);
    return SIA_OK;
}

/* Whether a name is one that is written, renamed or removed in a folder of ours, and that a person may have chosen: a
 * temporary name nobody chooses. */
static bool is_taken(const char *name) {
    if (sia_temporary_is(name)) return false;
    if (strncmp(name, "step-", 5) == 0 || sia_folder_is_leftover(name)) return true;
    for (int i = 0; i < SIA_RUN_LOGS; i++)
        if (!strcmp(name, log_names[i])) return true;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (!strcmp(name, other_names[i])) return true;
    return false;
}

/* A folder that is not ours may have anything in it, but for names that we would write: those are a person's. It is
 * listed before the lock is read: another process that begins here makes the lock first, so that its files are not
 * taken for a person's. */
static sia_status refuse_others(const char *folder, bool *known, sia_error *err) {
    bool ours = false, empty_lock = false;
    sia_names names;
    sia_status status = sia_folder_list(folder, &names, err);
    const char *taken = NULL;
    char *path = sia_path_join(folder, "lock");
    if (!status) status = path ? is_lock(path, &ours, &empty_lock, err) : sia_fail_memory(err, 16, folder);
    free(path);
    for (size_t i = 0; !status && !ours && i < sizeof proofs / sizeof *proofs; i++) {
        path = sia_path_join(folder, proofs[i].name);
        status = path ? is_proof(path, proofs[i].proves, &ours, err) : sia_fail_memory(err, 16, folder);
        free(path);
    }
    for (size_t i = 0; !status && !ours && !taken && i < names.count; i++)
        if (is_taken(names.list[i]) && !(empty_lock && !strcmp(names.list[i], "lock"))) taken = names.list[i];
    if (taken)
        status = sia_fail(err, SIA_ARGUMENT,
                          "%s/%s: is there, in a folder that is neither a run nor a study: name another",
                          folder, taken);
    sia_names_free(&names);
    *known = ours;
    return status;
}

/* For after a failure, which is what is reported: a file that cannot be cut either stays as it is. */
static void try_cut(int fd, off_t size) {
    if (ftruncate(fd, size) != 0) errno = 0;
}

/* The mark has to be on the disk before anything else: by it the folder is known, should the power fail. Where it was
 * known before, a full disk is no hindrance: the lock holds without a number, or with an old one. */
static sia_status write_holder(sia_run *run, const char *path, bool empty, sia_error *err) {
    char holder[NUMBER_ROOM];
    size_t length = (size_t)snprintf(holder, sizeof holder, LOCK_MARK "%ld", (long)getpid());
    sia_status status = sia_fd_write_at(run->lock, path, holder, length, 0, err);
    if (!status && ftruncate(run->lock, (off_t)length) != 0) status = sia_fail_file(err, path);
    if (!status && !run->known) status = sia_fd_sync(run->lock, path, err);
    if (!status && !run->known) status = sia_folder_sync(run->folder, err);
    if (status && empty) try_cut(run->lock, 0);
    return run->known ? SIA_OK : status;
}

/* Whether the name is still that of the lock: one who failed to begin takes it away. */
static sia_status is_named(const sia_run *run, const char *path, bool *named, sia_error *err) {
    struct stat held, there;
    *named = false;
    if (fstat(run->lock, &held) != 0) return sia_fail_file(err, path);
    if (lstat(path, &there) != 0) return errno == ENOENT ? SIA_OK : sia_fail_file(err, path);
    *named = sia_same_file(&held, &there);
    return SIA_OK;
}

static sia_status open_lock(sia_run *run, const char *path, bool *made, sia_error *err) {
    run->lock = sia_fd_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
    *made = run->lock >= 0;
    if (!*made && errno == EEXIST)
        run->lock = sia_fd_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666); /* it may be gone again */
    return run->lock < 0 ? sia_fail_file(err, path) : SIA_OK;
}

/* The mark and the holder's number are in the file for the look and the sentence; it is the lock that counts. A file
 * that is no lock of ours is not written to, nor is one that is empty and has a second name elsewhere. */
static sia_status take_lock(sia_run *run, const char *path, sia_error *err) {
    char holder[NUMBER_ROOM] = {0};
    size_t got = 0;
    struct stat about;
    bool made, named;
    sia_status status = open_lock(run, path, &made, err);
    if (!status) status = sia_fd_read(run->lock, path, NULL, holder, sizeof holder, &got, err);
    if (!status && fstat(run->lock, &about) != 0) status = sia_fail_file(err, path);
    if (status) return status;
    bool marked = strncmp(holder, LOCK_MARK, strlen(LOCK_MARK)) == 0;
    const char *number = marked ? holder + strlen(LOCK_MARK) : holder;
    if (got == sizeof holder || strspn(number, "0123456789") != strlen(number) ||
        (!marked && about.st_nlink > 1))
        return sia_fail(err, SIA_ARGUMENT, "%s: is not the lock of a run: name another folder", path);
    int result;
    do result = flock(run->lock, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno != EWOULDBLOCK) return sia_fail_file(err, path);
    if (result != 0)
        return sia_fail(err, SIA_BUSY, "%s: process %s is at work in this run", run->folder,
                        *number ? number : "?");
    run->made = made; /* and held */
    status = is_named(run, path, &named, err);
    if (!status && !named)
        status =
            sia_fail(err, SIA_BUSY, "%s: another process was at work in this run: try again", run->folder);
    return status ? status : write_holder(run, path, got == 0, err);
}

/* A start that failed before anything was written leaves no sign that the folder is ours. */
static void give_back(const sia_run *run) {
    sia_names names;
    bool used = false, named = false;
    if (sia_folder_list(run->folder, &names, NULL)) return;
    for (size_t i = 0; i < names.count; i++)
        used = used || (is_taken(names.list[i]) && strcmp(names.list[i], "lock") != 0);
    char *path = used ? NULL : sia_path_join(run->folder, "lock");
    if (path && !is_named(run, path, &named, NULL) && named && unlink(path) == 0 && run->fresh)
        (void)rmdir(run->folder); /* unless something is in it by now */
    free(path);
    sia_names_free(&names);
}

/* An editor may have left out the end of the last line: it is whole all the same. */
static sia_status look_for_object(const char *line, size_t length, bool *found, const char *path,
                                  sia_error *err) {
    json_t *json = NULL;
    json_error_t at;
    *found = false;
    if (length == 0) return SIA_OK;
    if (sia_json_load(&json, line, length, 0, &at) == SIA_MEMORY) return sia_fail_memory(err, length, path);
    *found = json_is_object(json);
    json_decref(json);
    return SIA_OK;
}

static sia_status end_line(const char *path, size_t size, sia_error *err) {
    int fd = sia_fd_open(path, O_WRONLY | O_NOFOLLOW, 0);
    if (fd < 0) return sia_fail_file(err, path);
    sia_status status = sia_fd_write_at(fd, path, "\n", 1, size, err);
    (void)close(fd);
    return status;
}

/* A process that was killed while it wrote a line left the start of it. A log that has a second name, in a backup
 * say, becomes a file of its own first: lines are written in place. */
static sia_status cut_partial_line(const char *path, sia_error *err) {
    sia_map map;
    bool there;
    struct stat about;
    sia_status status = sia_file_there(path, &there, err);
    if (status || !there) return status;
    int fd;
    status = sia_map_open_kept(&map, &fd, path, err);
    if (status) return status;
    if (fstat(fd, &about) != 0) status = sia_fail_file(err, path);
    (void)close(fd);
    size_t whole = map.size;
    while (whole && map.bytes[whole - 1] != '\n') whole--;
    bool unended = false;
    if (!status) status = look_for_object(map.bytes + whole, map.size - whole, &unended, path, err);
    if (unended) whole = map.size;
    if (!status && about.st_nlink > 1)
        status = sia_file_replace(path, map.bytes, whole, err);
    else if (!status && whole != map.size && truncate(path, (off_t)whole) != 0)
        status = sia_fail_file(err, path);
    sia_map_close(&map);
    return !status && unended ? end_line(path, whole, err) : status;
}

static sia_status open_folder(sia_run *run, sia_error *err) {
    bool there = false;
    sia_status status = sia_file_there(run->folder, &there, err);
    if (!status) status = sia_folder_ensure(run->folder, err);
    run->fresh = !there;
    if (!status) status = refuse_links(run->folder, err);
    if (!status) status = refuse_others(run->folder, &run->known, err);
    char *lock = sia_path_join(run->folder, "lock");
    if (!status) status = lock ? take_lock(run, lock, err) : sia_fail_memory(err, 16, run->folder);
    free(lock);
    if (!status) status = sia_folder_clean(run->folder, err);
    if (!status) status = refuse_links(run->folder, err); /* what stood aside may be a link as well */
    for (int i = 0; !status && i < SIA_RUN_LOGS; i++) {
        run->logs[i].path = sia_path_join(run->folder, log_names[i]);
        status = run->logs[i].path ? cut_partial_line(run->logs[i].path, err)
                                   : sia_fail_memory(err, 16, run->folder);
    }
    return status;
}

sia_status sia_run_open(sia_run **result, const char *folder, sia_error *err) {
    *result = NULL;
    sia_run *run = calloc(1, sizeof *run);
    if (!run) return sia_fail_memory(err, sizeof *run, folder);
    run->lock = -1;
    for (int i = 0; i < SIA_RUN_LOGS; i++) run->logs[i].fd = -1;
    run->folder = strdup(folder);
    sia_status status = run->folder ? open_folder(run, err) : sia_fail_memory(err, strlen(folder), folder);
    if (status) {
        sia_run_close(run);
        return status;
    }
    *result = run;
    return SIA_OK;
}

void sia_run_close(sia_run *run) {
    if (!run) return;
    for (int i = 0; i < SIA_RUN_LOGS; i++) {
        if (run->logs[i].fd >= 0) (void)close(run->logs[i].fd);
        free(run->logs[i].path);
    }
    if (run->made) give_back(run);
    if (run->lock >= 0) (void)close(run->lock);
    free(run->folder);
    free(run);
}

const char *sia_run_folder(const sia_run *run) { return run->folder; }

/* ------------------------------------------------------------------------------------------------- the logs */

/* All of the line and its end in one call where the system allows it, and nothing of it after a failure. */
static sia_status write_line(int fd, const char *path, const char *line, sia_error *err) {
    struct stat before;
    if (fstat(fd, &before) != 0) return sia_fail_file(err, path);
    size_t length = strlen(line), done = 0;
    while (done <= length) {
        struct iovec parts[2] = {{(char *)line + done, length - done}, {"\n", 1}};
        ssize_t n = writev(fd, parts, 2);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            sia_status status = sia_fail_file(err, path);
            try_cut(fd, before.st_size);
            return status;
        }
        done += (size_t)n;
    }
    return SIA_OK;
}

sia_status sia_run_append(sia_run *run, sia_run_log log, const char *line, sia_error *err) {
    if (strchr(line, '\n'))
        return sia_fail(err, SIA_ARGUMENT, "%s: a line with a line end in it: want one line",
                        run->logs[log].path);
    return sia_run_append_lines(run, log, line, err);
}

sia_status sia_run_append_lines(sia_run *run, sia_run_log log, const char *lines, sia_error *err) {
    const char *path = run->logs[log].path;
    if (run->logs[log].fd < 0)
        run->logs[log].fd = sia_fd_open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0666);
    if (run->logs[log].fd < 0) return sia_fail_file(err, path);
    return write_line(run->logs[log].fd, path, lines, err);
}

sia_status sia_run_sync(sia_run *run, sia_error *err) {
    for (int i = 0; i < SIA_RUN_LOGS; i++) {
        int result = 0;
        if (run->logs[i].fd < 0) continue;
        do result = fdatasync(run->logs[i].fd);
        while (result != 0 && errno == EINTR);
        if (result != 0) return sia_fail_file(err, run->logs[i].path);
    }
    return SIA_OK;
}

/* Whether a line belongs to a step that will come again. */
static sia_status read_step(const char *line, size_t length, const char *path, int64_t number, int64_t step,
                            bool *later, sia_error *err) {
    json_t *object;
    sia_status status = sia_json_parse(&object, line, length, 0, path, err);
    if (status == SIA_MEMORY) return status;
    if (!json_is_object(object)) {
        json_decref(object);
        return sia_fail(err, SIA_FORMAT, "%s: line %lld: want a JSON object", path, (long long)number);
    }
    json_t *found = json_object_get(object, "step");
    *later =
        json_is_integer(found) ? json_integer_value(found) > step : json_number_value(found) > (double)step;
    json_decref(object);
    return SIA_OK;
}

/* The lines that stay, to out; to nowhere for NULL. */
static sia_status copy_lines(const sia_map *map, const char *path, int64_t step, sia_output *out,
                             int64_t *dropped, sia_error *err) {
    sia_status status = SIA_OK;
    int64_t number = 0;
    *dropped = 0;
    for (size_t at = 0; !status && at < map->size;) {
        const char *line = map->bytes + at, *end = memchr(line, '\n', map->size - at);
        size_t length = end ? (size_t)(end - line) : map->size - at;
        bool later = false;
        status = read_step(line, length, path, ++number, step, &later, err);
        if (!status && !later && out) status = sia_output_write(out, line, length, err);
        if (!status && !later && out) status = sia_output_write(out, "\n", 1, err);
        *dropped += later;
        at += length + (end != NULL);
    }
    return status;
}

static sia_status rewind_log(const char *path, int64_t step, sia_error *err) {
    sia_map map;
    sia_output *out = NULL;
    int64_t dropped = 0;
    bool there;
    sia_status status = sia_file_there(path, &there, err);
    if (status || !there) return status;
    status = sia_map_open(&map, path, err);
    if (status) return status;
    status = copy_lines(&map, path, step, NULL, &dropped, err);
    if (!status && dropped) {
        status = sia_output_open(&out, path, err);
        if (!status) status = copy_lines(&map, path, step, out, &dropped, err);
        if (!status)
            status = sia_output_commit(out, err);
        else
            sia_output_abandon(out);
    }
    sia_map_close(&map);
    return status;
}

sia_status sia_run_rewind(sia_run *run, int64_t step, sia_error *err) {
    sia_status status = SIA_OK;
    for (int i = 0; !status && i < SIA_RUN_LOGS; i++) {
        /* The file under the name will be another one. */
        if (run->logs[i].fd >= 0) (void)close(run->logs[i].fd);
        run->logs[i].fd = -1;
        status = rewind_log(run->logs[i].path, step, err);
    }
    return status;
}
