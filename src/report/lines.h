/* SPDX-License-Identifier: MIT
 *
 * The files that a report is made from: one JSON object a line, each of a kind, checked when it is read.
 *
 *     sia_lines lines;
 *     if (sia_lines_read(&lines, "study/compare.jsonl", err)) return err->status;
 *     for (size_t i = 0; i < lines.count; i++)
 *         if (sia_line_is(lines.list[i], "result")) ... sia_line_number(lines.list[i], "train_seconds") ...
 *     sia_lines_free(&lines);
 *
 * After a read that succeeded every field that the table in lines.c names has its type, if it is there at all,
 * and those that a kind cannot do without are there. Other fields and kinds are let through. A number may be null:
 * a loss that is not finite has no other form in JSON. */
#ifndef SIA_REPORT_LINES_H
#define SIA_REPORT_LINES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sia.h"

/* More schemes (with their variants) than this have no place in one figure; more lengths none in one table. */
enum { SIA_REPORT_NAMES = 64, SIA_REPORT_LENGTHS = 24 };

typedef struct sia_lines {
    json_t **list;
    size_t count;
    bool found; /* there is such a file */
} sia_lines;

/* A file that is not there: SIA_OK, no lines, found is false. Errors name file and line. */
sia_status sia_lines_read(sia_lines *lines, const char *path, sia_error *err);
void sia_lines_free(sia_lines *lines);

/* The same from memory; name is for the sentences. */
sia_status sia_lines_parse(sia_lines *lines, const char *text, size_t size, const char *name, sia_error *err);

/* One JSON object that is a whole file, such as config.json; NULL in *object when there is none. */
sia_status sia_object_read(json_t **object, const char *path, sia_error *err);

bool sia_line_is(const json_t *line, const char *kind);

/* The first line of a kind, or NULL. */
const json_t *sia_lines_first(const sia_lines *lines, const char *kind);

/* Not a number when the field is missing, null or something else; "" likewise. */
double sia_line_number(const json_t *line, const char *field);
const char *sia_line_text(const json_t *line, const char *field);

/* Whether two lines of a kind with one label and one seed differ in a field: two runs, or two models, that must not be
 * taken for one. */
bool sia_lines_twins(const sia_lines *lines, const char *kind, const char *field, bool *failed);

/* Whether there are lines of a kind with one label and several seeds. */
bool sia_lines_seeds(const sia_lines *lines, const char *kind, bool *failed);

/* What a row or a curve of this line is called: "si+prope", or "si+prope, tau=10" with a variant. */
enum { SIA_LABEL = 160 };
const char *sia_line_label(const json_t *line, char label[SIA_LABEL]);

#endif
