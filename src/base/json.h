/* SPDX-License-Identifier: MIT
 *
 * JSON without silent losses. jansson says the same of a file that is wrong and of memory that ran out, and a value that
 * found no memory is left out of its object without a word.
 *
 *     if (sia_json_parse(&json, bytes, size, JSON_REJECT_DUPLICATES, "config.json", err)) return err->status;
 *
 *     json_t *line = json_object();
 *     sia_json_set(&line, "step", json_integer(500));
 *     sia_json_set(&line, "command", sia_json_text(command));
 *     if (!line) return sia_fail_memory(...);                        one check sees all that went before */
#ifndef SIA_BASE_JSON_H
#define SIA_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sia.h"

/* SIA_FORMAT, and *at says where and why; SIA_MEMORY only where memory is what was missing: a checkpoint
 * must not be taken for damaged because of it. Without a sentence. *json is NULL on failure. */
sia_status sia_json_load(json_t **json, const char *bytes, size_t size, size_t flags, json_error_t *at);

/* The same with a sentence: "config.json: line 3: '}' expected near ','". */
sia_status sia_json_parse(json_t **json, const char *bytes, size_t size, size_t flags, const char *name,
                          sia_error *err);

/* A file that is one value, of at most `most` bytes; a name that stands twice in an object is an error. */
sia_status sia_json_read(json_t **json, const char *path, size_t most, sia_error *err);

/* A log, line by line.
 *
 *     sia_json_log log;
 *     status = sia_json_log_open(&log, folder, "metrics.jsonl", 1 << 28, err);
 *     while (!status && sia_json_log_next(&log, &line, &status, err)) {
 *         ...
 *         json_decref(line);
 *     }
 *     sia_json_log_close(&log);
 */
typedef struct sia_json_log {
    char *path, *text;
    const char *line, *next, *end; /* of the text: the line that was read last, and what is behind it */
    int64_t number;                /* of the line, from 1 on */
} sia_json_log;

/* A log that is not there has no lines, and its text is NULL; one of more than `most` bytes is an error. To be closed
 * after a failure, too. */
sia_status sia_json_log_open(sia_json_log *log, const char *folder, const char *name, size_t most,
                             sia_error *err);
void sia_json_log_close(sia_json_log *log);

/* Whether there was one more line. *line is NULL for what is no JSON, such as a line that a crash cut off. false with
 * a *status that is not SIA_OK: out of memory. */
bool sia_json_log_next(sia_json_log *log, json_t **line, sia_status *status, sia_error *err);

/* Adds to an object, to the end of an array; takes value. On failure (value NULL too) *to is released and
 * becomes NULL, and stays so. */
void sia_json_set(json_t **to, const char *key, json_t *value);
void sia_json_push(json_t **to, json_t *value);

/* The first setting of `now` that `then` has otherwise, as words, "steps 500, not 9"; "other settings" when only
 * `then` has it. Objects are looked into. */
const char *sia_json_difference(const json_t *then, const json_t *now, char room[static 160]);

/* A number, or null for one that is not finite, which JSON has no word for. */
json_t *sia_json_number(double value);

/* A text; bytes that are no UTF-8 become question marks. NULL without memory. */
json_t *sia_json_text(const char *text);

#endif
