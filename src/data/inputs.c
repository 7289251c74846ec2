/* SPDX-License-Identifier: MIT
 *
 * Finds the files, looks whether they are text, and cuts them into documents: see inputs.h. */
#include "data/inputs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/harmless.h"
#include "base/memory.h"
#include "base/path.h"
#include "data/manifest.h"

/* ------------------------------------------------------------------------------------------- is it text */

static bool is_binary(const char *text, size_t size) {
    enum { LOOK_AT = 65536, SHARE = 10 };
    if (memchr(text, 0, size)) return true;
    size_t look = size < LOOK_AT ? size : LOOK_AT, strange = 0;
    for (size_t i = 0; i < look;) {
        uint32_t c;
        int length = sia_utf8_character(text + i, look - i, &c);
        if (length < 0) break; /* cut by the end of the look */
        strange += length == 0 || (c < 0x20 && !strchr("\t\n\v\f\r\b\033", (int)c));
        i += length ? (size_t)length : 1;
    }
    return strange > look / SHARE;
}

/* ---------------------------------------------------------------------------------------------- finding */

static sia_status append(sia_inputs *inputs, const char *path, char *held, size_t size, sia_error *err) {
    if (!sia_grow(&inputs->list, &inputs->room, (size_t)inputs->count + 1, sizeof *inputs->list))
        return sia_fail_memory(err, ((size_t)inputs->count + 1) * sizeof *inputs->list, path);
    sia_input *input = &inputs->list[inputs->count];
    *input = (sia_input){strdup(path), held, size};
    if (!input->path) return sia_fail_memory(err, strlen(path), path);
    inputs->count++;
    inputs->bytes += (int64_t)size;
    return SIA_OK;
}

/* Looks at a text; *usable says whether it is one to take. */
static sia_status look(sia_inputs *inputs, const char *path, const char *text, size_t size, bool skip,
                       bool *usable, sia_error *err) {
    bool binary = size && is_binary(text, size);
    *usable = size && !binary;
    if (*usable) return SIA_OK;
    if (skip) {
        inputs->skipped++;
        return SIA_OK;
    }
    return sia_fail(err, SIA_FORMAT, binary ? "%s: a binary file: want text" : "%s: an empty file: want text",
                    path);
}

static sia_status add_file(sia_inputs *inputs, const char *path, bool skip, sia_error *err) {
    sia_map map;
    bool usable = false;
    sia_status status = sia_map_open(&map, path, err);
    if (status) return status;
    size_t size = map.size;
    status = look(inputs, path, map.bytes, size, skip, &usable, err);
    sia_map_close(&map);
    return !status && usable ? append(inputs, path, NULL, size, err) : status;
}

static sia_status add_stdin(sia_inputs *inputs, bool skip, sia_error *err) {
    char *text = NULL;
    size_t size = 0;
    bool usable = false;
    for (int64_t i = 0; i < inputs->count; i++)
        if (inputs->list[i].held) return sia_fail(err, SIA_ARGUMENT, "stdin is named twice");
    sia_status status = sia_stdin_read(SIZE_MAX / 4, inputs->stopped, &text, &size, err);
    if (!status) status = look(inputs, "stdin", text, size, skip, &usable, err);
    if (!status && usable) {
        status = append(inputs, "stdin", text, size, err);
        if (!status) text = NULL;
    }
    free(text);
    return status;
}

static sia_status add_path(sia_inputs *inputs, const char *path, bool skip, int depth, sia_error *err);

static bool is_output(const sia_inputs *inputs, const struct stat *about) {
    struct stat output;
    return inputs->output && stat(inputs->output, &output) == 0 && sia_same_file(about, &output);
}

/* Links can make any number of ways to one folder, and circles: each is gone through once. */
static sia_status enter(sia_inputs *inputs, const char *folder, const struct stat *about, bool *first,
                        sia_error *err) {
    *first = true;
    for (size_t i = 0; i < inputs->entered_count && *first; i++)
        *first = inputs->entered[i].device != about->st_dev || inputs->entered[i].number != about->st_ino;
    if (!*first) return SIA_OK;
    if (!sia_grow(&inputs->entered, &inputs->entered_room, inputs->entered_count + 1,
                  sizeof *inputs->entered))
        return sia_fail_memory(err, (inputs->entered_count + 1) * sizeof *inputs->entered, folder);
    inputs->entered[inputs->entered_count++] = (sia_entered){about->st_dev, about->st_ino};
    return SIA_OK;
}

static bool has(const sia_names *names, const char *name) {
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->list[i], name) == 0) return true;
    return false;
}

/* Packed text, a run, a study: their JSON is no text. */
static bool is_ours(const sia_names *names) {
    if (has(names, "data.json") && has(names, "tokenizer.json")) return true;
    return has(names, "lock") && (has(names, "config.json") || has(names, "study.json") ||
                                  has(names, "compare.jsonl") || has(names, "needle.jsonl"));
}

static sia_status add_folder(sia_inputs *inputs, const char *folder, bool skip, int depth, sia_error *err) {
    enum { DEEPEST = 64 };
    sia_names names;
    if (depth > DEEPEST) return sia_fail(err, SIA_FILE, "%s: more than %d folders deep", folder, DEEPEST);
    sia_status status = sia_folder_list(folder, &names, err);
    bool ours = !status && is_ours(&names);
    if (ours && depth == 0)
        status = sia_fail(err, SIA_ARGUMENT, "%s: packed text, a run or a study: want text files", folder);
    for (size_t i = 0; !status && !ours && i < names.count; i++) {
        if (names.list[i][0] == '.' || sia_folder_is_leftover(names.list[i]))
            continue; /* hidden, unfinished */
        if (inputs->stopped && inputs->stopped()) {
            status = sia_fail(err, SIA_STOPPED, "stopped");
            break;
        }
        char *path = sia_path_join(folder, names.list[i]);
        status = path ? add_path(inputs, path, skip, depth + 1, err)
                      : sia_fail_memory(err, strlen(folder), folder);
        free(path);
    }
    sia_names_free(&names);
    return status;
}

static sia_status add_path(sia_inputs *inputs, const char *path, bool skip, int depth, sia_error *err) {
    struct stat info;
    if (stat(path, &info) != 0) return sia_fail_file(err, path);
    if (!S_ISDIR(info.st_mode)) return add_file(inputs, path, skip, err);
    if (is_output(inputs, &info)) {
        if (depth) return SIA_OK;
        return sia_fail(err, SIA_ARGUMENT, "%s: is the folder that is written to: name the texts in it",
                        path);
    }
    bool first;
    sia_status status = enter(inputs, path, &info, &first, err);
    return status || !first ? status : add_folder(inputs, path, skip, depth, err);
}

sia_status sia_inputs_add(sia_inputs *inputs, const char *path, bool skip, sia_error *err) {
    if (strcmp(path, "-") == 0) return add_stdin(inputs, skip, err);
    int64_t before = inputs->count + inputs->skipped;
    inputs->entered_count = 0;
    sia_status status = add_path(inputs, path, skip, 0, err);
    if (!status && inputs->count + inputs->skipped == before)
        status = sia_fail(err, SIA_FILE, "%s: no text in it", path);
    return status;
}

void sia_inputs_free(sia_inputs *inputs) {
    for (int64_t i = 0; i < inputs->count; i++) {
        free(inputs->list[i].path);
        free(inputs->list[i].held);
    }
    free(inputs->list);
    free(inputs->entered);
    *inputs = (sia_inputs){0};
}

/* ---------------------------------------------------------------------------------------------- reading */

enum { SMALL = 1 << 16 }; /* a file of up to so many bytes is read, not mapped */

sia_status sia_input_open(const sia_input *input, sia_input_text *text, sia_error *err) {
    *text = (sia_input_text){.bytes = input->held, .size = input->size};
    if (input->held) return SIA_OK;
    sia_status status = SIA_OK;
    if (input->size <= SMALL) {
        status = sia_file_read(input->path, SMALL, &text->read, &text->size, err);
        text->bytes = text->read;
    } else {
        status = sia_map_open(&text->map, input->path, err);
        text->bytes = text->map.bytes;
        text->size = text->map.size;
    }
    if (status) return status;
    if (text->size != input->size) {
        sia_input_close(text);
        return sia_fail(err, SIA_FILE, "%s: changed while it was read", input->path);
    }
    return SIA_OK;
}

void sia_input_close(sia_input_text *text) {
    sia_map_close(&text->map);
    free(text->read);
    text->read = NULL;
}

static bool is_blank(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!strchr(" \t\r\n", text[i]) || !text[i]) return false;
    return true;
}

/* The next line with a form feed alone from `from` on; *after is where the text goes on. */
static size_t find_separator(const char *text, size_t size, size_t from, size_t *after) {
    for (size_t at = from; at < size; at++) {
        const char *found = memchr(text + at, '\f', size - at);
        if (!found) break;
        at = (size_t)(found - text);
        size_t end = at + 1;
        if (end < size && text[end] == '\r') end++;
        if ((at == 0 || text[at - 1] == '\n') && (end == size || text[end] == '\n')) {
            *after = end < size ? end + 1 : size;
            return at;
        }
    }
    *after = size;
    return size;
}

bool sia_next_document(const char *text, size_t size, bool whole, size_t *at, sia_text *document) {
    while (*at < size) {
        size_t start = *at, end = size;
        if (whole)
            *at = size;
        else
            end = find_separator(text, size, start, at);
        *document = (sia_text){text + start, end - start};
        if (!is_blank(document->bytes, document->size)) return true;
    }
    return false;
}
