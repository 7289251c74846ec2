/* SPDX-License-Identifier: MIT
 *
 * Settings as a table: see fields.h. */
#include "base/fields.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"

/* A value outside its range. Ten digits, so that what is one above a limit does not look like it. */
#define OUTSIDE "%s %.10g: want %.10g to %.10g"

const sia_field *sia_field_find(const sia_field *fields, const char *name) {
    for (; fields->name; fields++)
        if (!strcmp(fields->name, name)) return fields;
    return NULL;
}

static double get(const void *settings, const sia_field *field) {
    const void *at = (const char *)settings + field->offset;
    switch (field->kind) {
    case SIA_FIELD_INT:
        return *(const int *)at;
    case SIA_FIELD_INT64:
        return (double)*(const int64_t *)at;
    case SIA_FIELD_UINT32:
        return *(const uint32_t *)at;
    case SIA_FIELD_UINT64:
        return (double)*(const uint64_t *)at;
    case SIA_FIELD_BOOL:
        return *(const bool *)at;
    case SIA_FIELD_CHOICE:
        return *(const unsigned *)at;
    default:
        return *(const double *)at;
    }
}

void sia_field_set(void *settings, const sia_field *field, double value) {
    void *at = (char *)settings + field->offset;
    switch (field->kind) {
    case SIA_FIELD_INT:
        *(int *)at = (int)value;
        break;
    case SIA_FIELD_INT64:
        *(int64_t *)at = (int64_t)value;
        break;
    case SIA_FIELD_UINT32:
        *(uint32_t *)at = (uint32_t)value;
        break;
    case SIA_FIELD_UINT64:
        *(uint64_t *)at = (uint64_t)value;
        break;
    case SIA_FIELD_BOOL:
        *(bool *)at = value != 0;
        break;
    case SIA_FIELD_CHOICE:
        *(unsigned *)at = (unsigned)value;
        break;
    default:
        *(double *)at = value;
    }
}

/* The word at place i of "paper narrow"; its length is 0 behind the last one. */
static const char *choice_at(const char *choices, int i, size_t *length) {
    for (; i > 0 && *choices; i--) {
        choices += strcspn(choices, " ");
        choices += *choices == ' ';
    }
    *length = strcspn(choices, " ");
    return choices;
}

sia_status sia_field_choose(void *settings, const sia_field *field, const char *word, sia_error *err) {
    size_t length;
    for (int i = 0;; i++) {
        const char *choice = choice_at(field->choices, i, &length);
        if (length == 0) break;
        if (strlen(word) != length || strncmp(word, choice, length) != 0) continue;
        sia_field_set(settings, field, i);
        return SIA_OK;
    }
    return sia_fail(err, SIA_ARGUMENT, "%s '%s': want one of: %s", field->name, word, field->choices);
}

static bool in_range(const sia_field *field, double value) {
    if (field->kind == SIA_FIELD_BOOL) return true;
    if (field->kind != SIA_FIELD_CHOICE) return value >= field->min && value <= field->max;
    size_t length;
    (void)choice_at(field->choices, value < 64 ? (int)value : 64, &length);
    return length > 0;
}

sia_status sia_fields_check(const void *settings, const sia_field *fields, sia_error *err) {
    for (; fields->name; fields++) {
        double value = get(settings, fields);
        if (in_range(fields, value)) continue;
        if (fields->kind == SIA_FIELD_CHOICE)
            return sia_fail(err, SIA_ARGUMENT, "%s: want one of: %s", fields->name, fields->choices);
        return sia_fail(err, SIA_ARGUMENT, OUTSIDE, fields->name, value, fields->min, fields->max);
    }
    return SIA_OK;
}

void sia_fields_write(const void *settings, const sia_field *fields, json_t **object) {
    for (; fields->name; fields++) {
        double value = get(settings, fields);
        json_t *json;
        size_t length;
        const char *word;
        switch (fields->kind) {
        case SIA_FIELD_REAL:
            json = json_real(value);
            break;
        case SIA_FIELD_BOOL:
            json = json_boolean(value != 0);
            break;
        case SIA_FIELD_CHOICE:
            word = choice_at(fields->choices, (int)value, &length);
            json = json_stringn(word, length);
            break;
        default:
            json = json_integer((json_int_t)value);
        }
        sia_json_set(object, fields->name, json);
    }
}

sia_status sia_field_read(void *settings, const sia_field *field, const json_t *value, const char *name,
                          sia_error *err) {
    if (field->kind == SIA_FIELD_CHOICE) {
        if (json_is_string(value) && !sia_field_choose(settings, field, json_string_value(value), NULL))
            return SIA_OK;
        return sia_fail(err, SIA_FORMAT, "%s: %s: want one of: %s", name, field->name, field->choices);
    }
    if (field->kind == SIA_FIELD_BOOL) {
        if (!json_is_boolean(value))
            return sia_fail(err, SIA_FORMAT, "%s: %s: want true or false", name, field->name);
        sia_field_set(settings, field, json_is_true(value));
        return SIA_OK;
    }
    double number = json_number_value(value);
    bool whole = field->kind != SIA_FIELD_REAL;
    if (!json_is_number(value) || (whole && !json_is_integer(value)))
        return sia_fail(err, SIA_FORMAT, "%s: %s is not a %snumber", name, field->name,
                        whole ? "whole " : "");
    if (!in_range(field, number))
        return sia_fail(err, SIA_FORMAT, "%s: " OUTSIDE, name, field->name, number, field->min, field->max);
    sia_field_set(settings, field, number);
    return SIA_OK;
}
