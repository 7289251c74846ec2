/* SPDX-License-Identifier: MIT
 *
 * The lines of a needle study: see needle_lines.h. */
#include "study/needle_lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "study/needle.h"

enum { LOG_MOST = 1 << 28 };

static const char file_name[] = "needle.jsonl";

/* ------------------------------------------------------------------------------------------------ the file */

static sia_status add(sia_needle_lines *lines, json_t *line, sia_error *err) {
    return json_array_append_new(lines->list, line) ? sia_fail_memory(err, 256, "lines") : SIA_OK;
}

static sia_status read_file(sia_needle_lines *lines, const char *folder, sia_error *err) {
    sia_json_log log;
    json_t *line;
    sia_status status = sia_json_log_open(&log, folder, file_name, LOG_MOST, err);
    while (!status && sia_json_log_next(&log, &line, &status, err))
        if (json_is_object(line)) {
            status = add(lines, line, err);
        } else {
            json_decref(line);
            status = sia_fail(err, SIA_FORMAT, "%s: line %lld: want a JSON object", log.path,
                              (long long)log.number);
        }
    sia_json_log_close(&log);
    return status;
}

static sia_status write_file(const sia_needle_lines *lines, sia_error *err) {
    sia_output *out;
    sia_status status = sia_output_open(&out, lines->path, err);
    if (status) return status;
    for (size_t i = 0; !status && i < json_array_size(lines->list); i++) {
        char *line = json_dumps(json_array_get(lines->list, i), JSON_COMPACT | JSON_REAL_PRECISION(17));
        status = line ? sia_output_printf(out, err, "%s\n", line) : sia_fail_memory(err, 256, "lines");
        free(line);
    }
    if (!status) return sia_output_commit(out, err);
    sia_output_abandon(out);
    return status;
}

static const char *text_of(const json_t *line, const char *key) {
    const char *text = json_string_value(json_object_get(line, key));
    return text ? text : "";
}

static bool is_kind(const json_t *line, const char *kind) { return !strcmp(text_of(line, "kind"), kind); }

/* ------------------------------------------------------------------------------------------------ the study */

static json_t *runs_of(const sia_needle_lines *lines) {
    return json_object_get(json_array_get(lines->list, 0), "runs");
}

static sia_status go_on(const sia_needle_lines *lines, const char *folder, const json_t *header, bool resume,
                        sia_error *err) {
    if (!resume)
        return sia_fail(err, SIA_ARGUMENT, "%s: holds a study already: want --resume, or another folder",
                        folder);
    const json_t *first = json_array_get(lines->list, 0);
    if (!is_kind(first, "study") || !json_is_object(runs_of(lines)))
        return sia_fail(err, SIA_FORMAT, "%s: line 1 is not that of a needle study", lines->path);
    const json_t *then = json_object_get(first, "config"), *now = json_object_get(header, "config");
    if (json_equal(now, then)) return SIA_OK;
    char other[160];
    (void)sia_json_difference(then, now, other);
    return sia_fail(err, SIA_ARGUMENT, "%s: was begun with %s: a study is resumed as it was begun", folder,
                    other);
}

sia_status sia_needle_lines_begin(sia_needle_lines *lines, const char *folder, json_t *header, bool resume,
                                  sia_error *err) {
    *lines = (sia_needle_lines){sia_path_join(folder, file_name), json_array()};
    sia_status status = lines->path && lines->list && header ? read_file(lines, folder, err)
                                                             : sia_fail_memory(err, 4096, "lines");
    if (!status) {
        /* One that failed before its first run had a name has nothing to lose: it begins anew. */
        const json_t *runs = runs_of(lines);
        if (json_array_size(lines->list) == 1 && json_is_object(runs) && json_object_size(runs) == 0)
            json_array_clear(lines->list);
        status = json_array_size(lines->list) == 0 ? add(lines, json_incref(header), err)
                                                   : go_on(lines, folder, header, resume, err);
    }
    json_decref(header);
    return status;
}

void sia_needle_lines_free(sia_needle_lines *lines) {
    free(lines->path);
    json_decref(lines->list);
    *lines = (sia_needle_lines){0};
}

sia_status sia_needle_lines_check_name(const sia_needle_lines *lines, const char *name, const char *path,
                                       sia_error *err) {
    const char *before = json_string_value(json_object_get(runs_of(lines), name));
    if (!before || !strcmp(before, path)) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT, "%s: '%s' is the run %s there: a study is resumed with the same runs",
                    lines->path, name, before);
}

sia_status sia_needle_lines_name(sia_needle_lines *lines, const char *name, const char *path,
                                 sia_error *err) {
    if (json_object_get(runs_of(lines), name)) return SIA_OK;
    if (json_object_set_new(runs_of(lines), name, json_string(path)))
        return sia_fail(err, SIA_ARGUMENT, "%s: the name is not UTF-8", path);
    return write_file(lines, err);
}

/* ------------------------------------------------------------------------------------------------ results */

static bool is_about(const json_t *line, const sia_needle_about *a) {
    return !strcmp(text_of(line, "run"), a->run) &&
           json_integer_value(json_object_get(line, "length")) == a->length;
}

/* Takes a line; false for one that cannot be of this study. */
static bool take_line(const json_t *line, const sia_needle_about *a, sia_retrieval_result *result,
                      int *depths, int *sums) {
    int64_t count = json_integer_value(json_object_get(line, "count"));
    int64_t right = json_integer_value(json_object_get(line, "right"));
    bool depth = is_kind(line, "needle-depth"), sum = is_kind(line, "needle");
    if (!depth && !sum) return true;
    if (strcmp(text_of(line, "scheme"), a->scheme) != 0 || right < 0 || right > count || count > a->needles ||
        (depth && *depths == SIA_DEPTHS))
        return false;
    if (sum) {
        result->count = count;
        result->right = right;
        ++*sums;
        return true;
    }
    result->depth_count[*depths] = count;
    result->depth_right[(*depths)++] = right;
    return true;
}

sia_status sia_needle_lines_find(const sia_needle_lines *lines, const sia_needle_about *about,
                                 sia_retrieval_result *result, bool *found, sia_error *err) {
    int depths = 0, sums = 0;
    bool good = true;
    *result = (sia_retrieval_result){0};
    for (size_t i = 0; good && i < json_array_size(lines->list); i++) {
        const json_t *line = json_array_get(lines->list, i);
        if (is_about(line, about)) good = take_line(line, about, result, &depths, &sums);
    }
    int64_t count = 0, right = 0;
    for (int i = 0; i < SIA_DEPTHS; i++) {
        count += result->depth_count[i];
        right += result->depth_right[i];
    }
    *found = sums == 1;
    if (good && depths == 0 && sums == 0) return SIA_OK;
    if (good && depths == SIA_DEPTHS && sums == 1 && result->count == about->needles &&
        count == result->count && right == result->right)
        return SIA_OK;
    return sia_fail(err, SIA_FORMAT,
                    "%s: the lines of '%s' at %lld are not whole, or of another model: without them it is "
                    "measured again",
                    lines->path, about->run, (long long)about->length);
}

sia_status sia_needle_lines_put(sia_needle_lines *lines, const sia_needle_about *a,
                                const sia_retrieval_result *r, sia_error *err) {
    sia_status status = SIA_OK;
    for (int i = 0; !status && i < SIA_DEPTHS; i++)
        status = add(lines,
                     json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:I, s:I}", "kind", "needle-depth", "run",
                               a->run, "scheme", a->scheme, "seed", (json_int_t)a->seed, "length",
                               (json_int_t)a->length, "depth_from", (double)i / SIA_DEPTHS, "depth_to",
                               (double)(i + 1) / SIA_DEPTHS, "count", (json_int_t)r->depth_count[i], "right",
                               (json_int_t)r->depth_right[i]),
                     err);
    if (status) return status;
    json_t *line = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "kind", "needle", "run", a->run, "scheme", a->scheme,
        "seed", (json_int_t)a->seed, "length", (json_int_t)a->length, "train_len", (json_int_t)a->train_len,
        "count", (json_int_t)r->count, "right", (json_int_t)r->right, "steps", (json_int_t)a->steps);
    if (a->first_accuracy >= 0)
        sia_json_set(&line, "learnt", json_boolean(a->first_accuracy >= SIA_NEEDLE_LEARNT));
    status = add(lines, line, err);
    return status ? status : write_file(lines, err);
}
