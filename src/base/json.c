/* SPDX-License-Identifier: MIT */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/harmless.h"
#include "base/path.h"

/* jansson needs some ten bytes for each of the file, in the worst case (an array of small numbers) forty. */
enum { BYTES_FOR_ONE = 40, BYTES_BESIDE = 1 << 16 };

/* Whether there is memory for what a file of this size can become. */
static bool has_memory(size_t size) {
    void *probe =
        size < SIZE_MAX / BYTES_FOR_ONE - BYTES_BESIDE ? malloc(size * BYTES_FOR_ONE + BYTES_BESIDE) : NULL;
    free(probe);
    return probe != NULL;
}

sia_status sia_json_load(json_t **json, const char *bytes, size_t size, size_t flags, json_error_t *at) {
    *json = NULL;
    /* Asked before, for jansson (2.14) reads outside of its buffers once an allocation has failed within it. */
    if (!has_memory(size)) return SIA_MEMORY;
    *json = json_loadb(bytes, size, flags, at);
    if (*json) return SIA_OK;
    /* "invalid token" is what jansson says of a string that it has no memory for. Only a failure where
     * there is memory is one of the file. */
    if (!has_memory(size)) return SIA_MEMORY;
    *json = json_loadb(bytes, size, flags, at);
    return *json ? SIA_OK : SIA_FORMAT;
}

sia_status sia_json_parse(json_t **json, const char *bytes, size_t size, size_t flags, const char *name,
                          sia_error *err) {
    json_error_t at;
    sia_status status = sia_json_load(json, bytes, size, flags, &at);
    if (status == SIA_MEMORY) return sia_fail_memory(err, size, name);
    return status ? sia_fail(err, SIA_FORMAT, "%s: line %d: %s", name, at.line, at.text) : SIA_OK;
}

sia_status sia_json_read(json_t **json, const char *path, size_t most, sia_error *err) {
    char *text = NULL;
    size_t size;
    *json = NULL;
    sia_status status = sia_file_read(path, most, &text, &size, err);
    if (!status) status = sia_json_parse(json, text, size, JSON_REJECT_DUPLICATES, path, err);
    free(text);
    return status;
}

sia_status sia_json_log_open(sia_json_log *log, const char *folder, const char *name, size_t most,
                             sia_error *err) {
    *log = (sia_json_log){.path = sia_path_join(folder, name)};
    size_t bytes = 0;
    bool there = false;
    sia_status status =
        log->path ? sia_file_there(log->path, &there, err) : sia_fail_memory(err, strlen(folder), "path");
    if (!status && there) status = sia_file_read(log->path, most, &log->text, &bytes, err);
    log->line = log->next = log->text;
    log->end = log->text ? log->text + bytes : NULL;
    return status;
}

void sia_json_log_close(sia_json_log *log) {
    free(log->path);
    free(log->text);
}

bool sia_json_log_next(sia_json_log *log, json_t **line, sia_status *status, sia_error *err) {
    *line = NULL;
    if (log->next == log->end) return false;
    const char *stop = memchr(log->next, '\n', (size_t)(log->end - log->next));
    if (!stop) stop = log->end;
    size_t size = (size_t)(stop - log->next);
    json_error_t wrong;
    if (sia_json_load(line, log->next, size, 0, &wrong) == SIA_MEMORY)
        *status = sia_fail_memory(err, size, log->path);
    log->line = log->next;
    log->next = stop < log->end ? stop + 1 : stop;
    log->number++;
    return *status == SIA_OK;
}

static void keep(json_t **to, int failed) {
    if (!failed) return;
    json_decref(*to);
    *to = NULL;
}

void sia_json_set(json_t **to, const char *key, json_t *value) {
    keep(to, json_object_set_new(*to, key, value));
}

void sia_json_push(json_t **to, json_t *value) { keep(to, json_array_append_new(*to, value)); }

json_t *sia_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *sia_json_text(const char *text) {
    json_t *made = json_string(text);
    if (made) return made;
    char *copy = strdup(text);
    if (copy) {
        (void)sia_harmless(copy, strlen(copy), "\t\n\r");
        made = json_string(copy);
    }
    free(copy);
    return made;
}

static void value_text(const json_t *value, char room[static 48]) {
    size_t used =
        value ? json_dumpb(value, room, 47, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6)) : 0;
    if (used && used <= 47)
        room[used] = 0;
    else
        (void)snprintf(room, 48, "%s", value ? "something long" : "nothing");
}

static bool find_difference(const json_t *then, const json_t *now, char room[static 160]) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)now, key, value) {
        const json_t *before = json_object_get(then, key);
        char was[48], is[48];
        if (json_equal(before, value)) continue;
        if (json_is_object(before) && json_is_object(value)) {
            if (find_difference(before, value, room)) return true;
            continue;
        }
        value_text(before, was);
        value_text(value, is);
        (void)snprintf(room, 160, "%.40s %s, not %s", key, was, is);
        return true;
    }
    return false;
}

const char *sia_json_difference(const json_t *then, const json_t *now, char room[static 160]) {
    if (!find_difference(then, now, room)) (void)snprintf(room, 160, "other settings");
    return room;
}
