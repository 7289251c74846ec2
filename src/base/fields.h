/* SPDX-License-Identifier: MIT
 *
 * Settings as a table: where each stands in its struct, what it may be. Checks, JSON in both directions and the
 * options of commands are derived from it.
 *
 *     static const sia_field fields[] = {
 *         {"layers", SIA_FIELD_INT, offsetof(settings, layers), 1, 1024, NULL},
 *         {"init", SIA_FIELD_CHOICE, offsetof(settings, init), 0, 0, "paper narrow"},
 *         {0}}; */
#ifndef SIA_BASE_FIELDS_H
#define SIA_BASE_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "sia.h"

typedef enum sia_field_kind {
    SIA_FIELD_INT,
    SIA_FIELD_INT64,
    SIA_FIELD_UINT32,
    SIA_FIELD_UINT64, /* up to 2^53 */
    SIA_FIELD_REAL,
    SIA_FIELD_BOOL,
    SIA_FIELD_CHOICE, /* an enum; its words, in the order of their numbers, stand in `choices` */
} sia_field_kind;

typedef struct sia_field {
    const char *name;
    sia_field_kind kind;
    size_t offset;
    double min, max;
    const char *choices;
} sia_field;

const sia_field *sia_field_find(const sia_field *fields, const char *name); /* NULL when there is none */

void sia_field_set(void *settings, const sia_field *field, double value); /* in its range */

/* Sets a choice by its word; any other field must be set by number. */
sia_status sia_field_choose(void *settings, const sia_field *field, const char *word, sia_error *err);

/* All fields are in their ranges. */
sia_status sia_fields_check(const void *settings, const sia_field *fields, sia_error *err);

/* Adds every field to *object, which becomes NULL when there is no memory. */
void sia_fields_write(const void *settings, const sia_field *fields, json_t **object);

/* Sets one field from JSON; `name` is the file, for the sentence. SIA_FORMAT for a value of another kind or
 * outside its range. */
sia_status sia_field_read(void *settings, const sia_field *field, const json_t *value, const char *name,
                          sia_error *err);

#endif
