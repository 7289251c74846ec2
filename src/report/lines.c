/* SPDX-License-Identifier: MIT
 *
 * Reads and checks JSON lines. The table below is the contract with those who write them. */
#include "report/lines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

/* Of a file of 64 MiB all lines could be "{}": their objects must have a bound of their own. */
enum { FILE_MOST = 64 << 20, LINES_MOST = 1 << 20 };

typedef enum field_type {
    TEXT,
    NUMBER,
    OBJECT,
    LOSSES, /* {"256": 3.67, ...}: lengths to numbers */
    LENGTHS,
    BINS,  /* [{"from": 0, "to": 16, "loss": 5.1}, ...] */
    PAIRS, /* [[-2.3, -2.1], ...] */
} field_type;

static const struct field {
    const char *kind; /* NULL: a line without a kind */
    const char *name;
    field_type type;
    bool needed;
} fields[] = {
    {"study", "command", TEXT, false},
    {"study", "machine", OBJECT, false},
    {"study", "config", OBJECT, false},
    {"study", "train_len", NUMBER, false},
    {"study", "lengths", LENGTHS, false},
    {"study", "windows", NUMBER, false},
    {"study", "data", TEXT, false},
    {"study", "date", TEXT, false},
    {"study", "version", TEXT, false},
    {"result", "scheme", TEXT, true},
    {"result", "variant", TEXT, false},
    {"result", "seed", NUMBER, true},
    {"result", "params", NUMBER, false},
    {"result", "train_len", NUMBER, false},
    {"result", "loss", LOSSES, true},
    {"result", "train_seconds", NUMBER, false},
    {"result", "tokens", NUMBER, false},
    {"position", "scheme", TEXT, true},
    {"position", "seed", NUMBER, true},
    {"position", "length", NUMBER, true},
    {"position", "bins", BINS, true},
    {"curve", "scheme", TEXT, true},
    {"curve", "seed", NUMBER, true},
    {"curve", "step", NUMBER, true},
    {"curve", "loss", NUMBER, true},
    {"validation", "scheme", TEXT, true},
    {"validation", "seed", NUMBER, true},
    {"validation", "step", NUMBER, true},
    {"validation", "length", NUMBER, true},
    {"validation", "loss", NUMBER, true},
    {"needle", "scheme", TEXT, true},
    {"needle", "seed", NUMBER, true},
    {"needle", "length", NUMBER, true},
    {"needle", "train_len", NUMBER, false},
    {"needle", "count", NUMBER, true},
    {"needle", "right", NUMBER, true},
    {"needle-depth", "scheme", TEXT, true},
    {"needle-depth", "seed", NUMBER, true},
    {"needle-depth", "length", NUMBER, true},
    {"needle-depth", "depth_from", NUMBER, true},
    {"needle-depth", "depth_to", NUMBER, true},
    {"needle-depth", "count", NUMBER, true},
    {"needle-depth", "right", NUMBER, true},
    {"probe-context", "scheme", TEXT, true},
    {"probe-context", "length", NUMBER, true},
    {"probe-mass", "scheme", TEXT, true},
    {"probe-mass", "layer", NUMBER, true},
    {"probe-mass", "head", NUMBER, true},
    {"probe-mass", "decade", NUMBER, true},
    {"probe-mass", "mass", NUMBER, true},
    {"probe-logits", "scheme", TEXT, true},
    {"probe-logits", "layer", NUMBER, true},
    {"probe-logits", "head", NUMBER, true},
    {"probe-logits", "qq", PAIRS, false},
    {NULL, "step", NUMBER, false},
    {NULL, "loss", NUMBER, false},
    {NULL, "validation", LOSSES, false},
};

static const char *const type_names[] = {
    "a text",
    "a number or null",
    "an object",
    "an object of lengths and losses, such as {\"256\": 3.67}",
    "an array of numbers",
    "an array of {\"from\": 0, \"to\": 16, \"loss\": 5.1}",
    "an array of pairs of numbers",
};

/* ------------------------------------------------------------------------------------------------ types */

static bool is_number(const json_t *value) { return json_is_number(value) || json_is_null(value); }

static bool is_losses(json_t *value) {
    const char *key;
    json_t *loss;
    if (!json_is_object(value) || json_object_size(value) > SIA_REPORT_LENGTHS) return false;
    json_object_foreach(value, key, loss) {
        char *end;
        long long length = strtoll(key, &end, 10);
        if (*end || length <= 0 || length > 1LL << 50 || !is_number(loss)) return false;
    }
    return true;
}

static bool is_bins(const json_t *value) {
    size_t i;
    const json_t *bin;
    if (!json_is_array(value)) return false;
    json_array_foreach(value, i, bin) {
        if (!json_is_number(json_object_get(bin, "from")) || !json_is_number(json_object_get(bin, "to")) ||
            !is_number(json_object_get(bin, "loss")))
            return false;
    }
    return true;
}

static bool is_numbers(const json_t *value, size_t each) {
    size_t i;
    const json_t *item;
    if (!json_is_array(value)) return false;
    json_array_foreach(value, i, item) {
        if (each == 1 && !json_is_number(item)) return false;
        if (each == 2 && (json_array_size(item) != 2 || !is_number(json_array_get(item, 0)) ||
                          !is_number(json_array_get(item, 1))))
            return false;
    }
    return true;
}

static bool has_type(json_t *value, field_type type) {
    switch (type) {
    case TEXT:
        return json_is_string(value);
    case NUMBER:
        return is_number(value);
    case OBJECT:
        return json_is_object(value);
    case LOSSES:
        return is_losses(value);
    case LENGTHS:
        return is_numbers(value, 1) && json_array_size(value) <= SIA_REPORT_LENGTHS;
    case BINS:
        return is_bins(value);
    case PAIRS:
        break;
    }
    return is_numbers(value, 2);
}

static sia_status check_line(json_t *line, const char *path, size_t number, sia_error *err) {
    const char *kind = json_string_value(json_object_get(line, "kind"));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const struct field *f = &fields[i];
        if (kind ? !f->kind || strcmp(kind, f->kind) != 0 : f->kind != NULL) continue;
        json_t *value = json_object_get(line, f->name);
        if (!value && !f->needed) continue;
        if (!value || !has_type(value, f->type))
            return sia_fail(err, SIA_FORMAT, "%s:%zu: \"%s\": want %s", path, number, f->name,
                            type_names[f->type]);
    }
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ reading */

static sia_status keep_line(sia_lines *lines, size_t *room, json_t *line, const char *path, sia_error *err) {
    if (lines->count == LINES_MOST)
        return sia_fail(err, SIA_FORMAT, "%s: more than %d lines", path, (int)LINES_MOST);
    if (!sia_grow(&lines->list, room, lines->count + 1, sizeof *lines->list))
        return sia_fail_memory(err, (lines->count + 1) * sizeof *lines->list, path);
    lines->list[lines->count++] = json_incref(line);
    return SIA_OK;
}

static bool is_blank(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!strchr(" \t\r", text[i]) || !text[i]) return false;
    return true;
}

static sia_status parse_lines(sia_lines *lines, const char *text, size_t size, const char *path,
                              sia_error *err) {
    size_t room = 0, number = 0;
    sia_status status = SIA_OK;
    for (const char *at = text, *end = text + size; !status && at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        number++;
        size_t length = (size_t)(stop - at);
        if (!is_blank(at, length)) {
            json_t *line;
            json_error_t wrong;
            status = sia_json_load(&line, at, length, 0, &wrong);
            if (status == SIA_MEMORY)
                (void)sia_fail_memory(err, length, path);
            else if (status)
                (void)sia_fail(err, SIA_FORMAT, "%s:%zu: not JSON: %s", path, number, wrong.text);
            else if (!json_is_object(line))
                status = sia_fail(err, SIA_FORMAT, "%s:%zu: want a JSON object", path, number);
            if (!status) status = check_line(line, path, number, err);
            if (!status) status = keep_line(lines, &room, line, path, err);
            json_decref(line);
        }
        at = stop + 1;
    }
    return status;
}

/* How many names and lengths there are is a bound on the figures and tables to come. */
static sia_status check_names(const sia_lines *lines, const char *path, sia_error *err) {
    static const char *const kinds[] = {"result", "curve", "needle", "probe-context", "probe-logits"};
    char(*names)[SIA_LABEL] = malloc(sizeof *names * SIA_REPORT_NAMES);
    sia_status status = names ? SIA_OK : sia_fail_memory(err, sizeof *names * SIA_REPORT_NAMES, path);
    for (size_t k = 0; !status && k < sizeof kinds / sizeof *kinds; k++) {
        int count = 0;
        for (size_t i = 0; !status && i < lines->count; i++) {
            char label[SIA_LABEL];
            int at = 0;
            if (!sia_line_is(lines->list[i], kinds[k])) continue;
            sia_line_label(lines->list[i], label);
            while (at < count && strcmp(names[at], label) != 0) at++;
            if (at < count) continue;
            if (count == SIA_REPORT_NAMES)
                status = sia_fail(err, SIA_FORMAT, "%s: more than %d schemes in lines of kind \"%s\"", path,
                                  SIA_REPORT_NAMES, kinds[k]);
            else
                memcpy(names[count++], label, SIA_LABEL);
        }
    }
    free(names);
    return status;
}

sia_status sia_lines_parse(sia_lines *lines, const char *text, size_t size, const char *name,
                           sia_error *err) {
    *lines = (sia_lines){.found = true};
    sia_status status = parse_lines(lines, text, size, name, err);
    if (!status) status = check_names(lines, name, err);
    if (status) sia_lines_free(lines);
    return status;
}

sia_status sia_lines_read(sia_lines *lines, const char *path, sia_error *err) {
    char *text = NULL;
    size_t size = 0;
    *lines = (sia_lines){0};
    bool there;
    sia_status status = sia_file_there(path, &there, err);
    if (status || !there) return status;
    status = sia_file_read(path, FILE_MOST, &text, &size, err);
    if (!status) status = sia_lines_parse(lines, text, size, path, err);
    free(text);
    return status;
}

void sia_lines_free(sia_lines *lines) {
    for (size_t i = 0; i < lines->count; i++) json_decref(lines->list[i]);
    free(lines->list);
    *lines = (sia_lines){0};
}

sia_status sia_object_read(json_t **object, const char *path, sia_error *err) {
    bool there;
    *object = NULL;
    sia_status status = sia_file_there(path, &there, err);
    if (!status && there) status = sia_json_read(object, path, FILE_MOST, err);
    if (status || !there || json_is_object(*object)) return status;
    json_decref(*object);
    *object = NULL;
    return sia_fail(err, SIA_FORMAT, "%s: want a JSON object", path);
}

/* ------------------------------------------------------------------------------------------------ fields */

bool sia_line_is(const json_t *line, const char *kind) {
    return strcmp(sia_line_text(line, "kind"), kind) == 0;
}

const json_t *sia_lines_first(const sia_lines *lines, const char *kind) {
    for (size_t i = 0; i < lines->count; i++)
        if (sia_line_is(lines->list[i], kind)) return lines->list[i];
    return NULL;
}

double sia_line_number(const json_t *line, const char *field) {
    const json_t *value = json_object_get(line, field);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *sia_line_text(const json_t *line, const char *field) {
    const char *text = json_string_value(json_object_get(line, field));
    return text ? text : "";
}

const char *sia_line_label(const json_t *line, char label[SIA_LABEL]) {
    const char *variant = sia_line_text(line, "variant");
    (void)snprintf(label, SIA_LABEL, "%s%s%s", sia_line_text(line, "scheme"), *variant ? ", " : "", variant);
    return label;
}

/* Whether two lines of a kind with one label, and one seed if that counts, differ in a field. */
static bool differ(const sia_lines *lines, const char *kind, bool of_one_seed, const char *field,
                   bool *failed) {
    json_t *seen = json_object();
    bool found = false;
    *failed = *failed || !seen;
    for (size_t i = 0; seen && !found && i < lines->count; i++) {
        json_t *line = lines->list[i], *value = json_object_get(line, field);
        char key[SIA_LABEL + 32], label[SIA_LABEL];
        if (!value || !sia_line_is(line, kind)) continue;
        (void)snprintf(key, sizeof key, "%.17g %s", of_one_seed ? sia_line_number(line, "seed") : 0,
                       sia_line_label(line, label));
        const json_t *before = json_object_get(seen, key);
        found = before && !json_equal(before, value);
        *failed = *failed || json_object_set(seen, key, value);
    }
    json_decref(seen);
    return found;
}

bool sia_lines_twins(const sia_lines *lines, const char *kind, const char *field, bool *failed) {
    return differ(lines, kind, true, field, failed);
}

bool sia_lines_seeds(const sia_lines *lines, const char *kind, bool *failed) {
    return differ(lines, kind, false, "seed", failed);
}
