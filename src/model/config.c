/* SPDX-License-Identifier: MIT */
#include "model/config.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"

/* ------------------------------------------------------------------------------------------------ presets */

static const struct preset {
    const char *name;
    sia_model_config config;
} presets[] = {
    {"tiny",
     {.layers = 3, .width = 96, .heads = 2, .vocabulary = 1024, .train_len = 256, .init = SIA_INIT_NARROW}},
    {"small", {.layers = 4, .width = 256, .heads = 4, .vocabulary = 4096, .train_len = 512}},
    {"medium", {.layers = 6, .width = 512, .heads = 8, .vocabulary = 6144, .train_len = 1024}},
    {"paper-162m", {.layers = 12, .width = 768, .heads = 6, .vocabulary = 50304, .train_len = 4096}},
    {"paper-304m", {.layers = 16, .width = 1024, .heads = 8, .vocabulary = 50304, .train_len = 4096}},
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

const char *const *sia_model_presets(void) {
    static const char *names[PRESETS + 1];
    for (int i = 0; i < PRESETS; i++) names[i] = presets[i].name;
    return names;
}

sia_status sia_model_preset(const char *name, sia_model_config *config, sia_error *err) {
    if (!name || !config)
        return sia_fail(err, SIA_ARGUMENT, "model: want a preset and a place for it, got NULL");
    for (int i = 0; i < PRESETS; i++)
        if (!strcmp(presets[i].name, name)) {
            *config = presets[i].config;
            return SIA_OK;
        }
    return sia_fail(err, SIA_ARGUMENT, "preset '%s': want tiny, small, medium, paper-162m or paper-304m",
                    name);
}

/* ------------------------------------------------------------------------------------------------ the fields
 *
 * One table for JSON and for the checks. */
typedef enum field_kind { FIELD_INT, FIELD_INT64, FIELD_UINT32, FIELD_UINT64, FIELD_REAL } field_kind;

static const struct field {
    const char *name;
    field_kind kind;
    size_t offset;
    double min, max;
} fields[] = {
    {"layers", FIELD_INT, offsetof(sia_model_config, layers), 1, 1024},
    {"width", FIELD_INT, offsetof(sia_model_config, width), 8, 65536},
    {"heads", FIELD_INT, offsetof(sia_model_config, heads), 1, 1024},
    {"kv_heads", FIELD_INT, offsetof(sia_model_config, kv_heads), 1, 1024},
    {"head_dim", FIELD_INT, offsetof(sia_model_config, head_dim), 8, 256},
    {"hidden", FIELD_INT, offsetof(sia_model_config, hidden), 8, 1048576},
    {"vocabulary", FIELD_UINT32, offsetof(sia_model_config, vocabulary), 2, 1048576},
    {"train_len", FIELD_INT64, offsetof(sia_model_config, train_len), 1, 1073741824},
    {"tau", FIELD_REAL, offsetof(sia_model_config, tau), 0, INFINITY},
    {"alpha", FIELD_REAL, offsetof(sia_model_config, alpha), 0, INFINITY},
    {"beta", FIELD_REAL, offsetof(sia_model_config, beta), 0, INFINITY},
    {"sharp", FIELD_REAL, offsetof(sia_model_config, sharp), 0, INFINITY},
    {"rotary_base", FIELD_REAL, offsetof(sia_model_config, rotary_base), 0, INFINITY},
    {"prope_base", FIELD_REAL, offsetof(sia_model_config, prope_base), 0, INFINITY},
    {"prope_share", FIELD_REAL, offsetof(sia_model_config, prope_share), 0, 1},
    {"seed", FIELD_UINT64, offsetof(sia_model_config, seed), 0, 9e15},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static double field_get(const sia_model_config *config, const struct field *f) {
    const void *at = (const char *)config + f->offset;
    switch (f->kind) {
    case FIELD_INT:
        return *(const int *)at;
    case FIELD_INT64:
        return (double)*(const int64_t *)at;
    case FIELD_UINT32:
        return *(const uint32_t *)at;
    case FIELD_UINT64:
        return (double)*(const uint64_t *)at;
    default:
        return *(const double *)at;
    }
}

static void field_set(sia_model_config *config, const struct field *f, double value) {
    void *at = (char *)config + f->offset;
    switch (f->kind) {
    case FIELD_INT:
        *(int *)at = (int)value;
        break;
    case FIELD_INT64:
        *(int64_t *)at = (int64_t)value;
        break;
    case FIELD_UINT32:
        *(uint32_t *)at = (uint32_t)value;
        break;
    case FIELD_UINT64:
        *(uint64_t *)at = (uint64_t)value;
        break;
    default:
        *(double *)at = value;
    }
}

static sia_status check_fields(const sia_model_config *config, sia_error *err) {
    for (int i = 0; i < FIELDS; i++) {
        double value = field_get(config, &fields[i]);
        if (!(value >= fields[i].min && value <= fields[i].max))
            return sia_fail(err, SIA_ARGUMENT, "%s %g: want %g to %g", fields[i].name, value, fields[i].min,
                            fields[i].max);
    }
    return SIA_OK;
}

sia_status sia_model_config_complete(sia_model_config *c, sia_error *err) {
    if (!memchr(c->scheme, 0, sizeof c->scheme))
        return sia_fail(err, SIA_ARGUMENT, "scheme: the name has no end");
    if (!c->scheme[0]) strcpy(c->scheme, "si+prope");
    sia_scheme scheme;
    sia_status status = sia_scheme_parse(c->scheme, &scheme, err);
    if (status) return status;
    (void)sia_scheme_name(scheme, c->scheme);
    if (c->kv_heads == 0) c->kv_heads = c->heads;
    if (c->head_dim == 0 && c->heads > 0) {
        if (c->width % c->heads)
            return sia_fail(err, SIA_ARGUMENT, "width %d: want a multiple of the %d heads, or a head_dim",
                            c->width, c->heads);
        c->head_dim = c->width / c->heads;
    }
    if (c->hidden == 0 && c->width <= 65536) c->hidden = 4 * c->width;
    if (c->tau == 0) c->tau = 10;
    if (c->alpha == 0) c->alpha = exp(0.5);
    if (c->beta == 0) c->beta = exp(0.5);
    if (c->sharp == 0) c->sharp = 2;
    if (c->rotary_base == 0) c->rotary_base = 10000.0 * (double)c->train_len / 4096;
    if (c->prope_base == 0) c->prope_base = (double)c->train_len / 4;
    if (c->prope_share == 0) c->prope_share = 0.5;
    if (c->init != SIA_INIT_PAPER && c->init != SIA_INIT_NARROW)
        return sia_fail(err, SIA_ARGUMENT, "init %d: want paper or narrow", (int)c->init);
    return check_fields(c, err);
}

sia_attention_config sia_model_attention(const sia_model_config *c, int threads, int64_t eval_len) {
    return (sia_attention_config){.heads = c->heads,
                                  .kv_heads = c->kv_heads,
                                  .head_dim = c->head_dim,
                                  .threads = threads,
                                  .train_len = c->train_len,
                                  .eval_len = eval_len,
                                  .tau = c->tau,
                                  .alpha = c->alpha,
                                  .beta = c->beta,
                                  .sharp = c->sharp,
                                  .rotary_base = c->rotary_base,
                                  .prope_base = c->prope_base,
                                  .prope_share = c->prope_share};
}

/* ------------------------------------------------------------------------------------------------ JSON */

json_t *sia_model_config_json(const sia_model_config *config) {
    json_t *object = json_object();
    for (int i = 0; object && i < FIELDS; i++) {
        double value = field_get(config, &fields[i]);
        json_t *number = fields[i].kind == FIELD_REAL ? json_real(value) : json_integer((json_int_t)value);
        (void)json_object_set_new(object, fields[i].name, number);
    }
    (void)json_object_set_new(object, "scheme", json_string(config->scheme));
    (void)json_object_set_new(object, "init",
                              json_string(config->init == SIA_INIT_NARROW ? "narrow" : "paper"));
    return object;
}

static sia_status read_scheme(sia_model_config *config, const json_t *value, const char *name,
                              sia_error *err) {
    sia_scheme scheme;
    if (!json_is_string(value)) return sia_fail(err, SIA_FORMAT, "%s: scheme is not a text", name);
    sia_status status = sia_scheme_parse(json_string_value(value), &scheme, err);
    if (!status) (void)sia_scheme_name(scheme, config->scheme);
    return status;
}

static sia_status read_init(sia_model_config *config, const json_t *value, const char *name, sia_error *err) {
    const char *text = json_string_value(value);
    if (text && !strcmp(text, "paper"))
        config->init = SIA_INIT_PAPER;
    else if (text && !strcmp(text, "narrow"))
        config->init = SIA_INIT_NARROW;
    else
        return sia_fail(err, SIA_FORMAT, "%s: init: want \"paper\" or \"narrow\"", name);
    return SIA_OK;
}

static sia_status read_number(sia_model_config *config, const char *key, const json_t *value,
                              const char *name, sia_error *err) {
    for (int i = 0; i < FIELDS; i++) {
        const struct field *f = &fields[i];
        if (strcmp(f->name, key) != 0) continue;
        double number = json_number_value(value);
        if (!json_is_number(value) || (f->kind != FIELD_REAL && !json_is_integer(value)))
            return sia_fail(err, SIA_FORMAT, "%s: %s is not a %snumber", name, key,
                            f->kind == FIELD_REAL ? "" : "whole ");
        if (!(number >= f->min && number <= f->max))
            return sia_fail(err, SIA_FORMAT, "%s: %s %g: want %g to %g", name, key, number, f->min, f->max);
        field_set(config, f, number);
        return SIA_OK;
    }
    return sia_fail(err, SIA_FORMAT, "%s: '%s' is no setting of a model", name, key);
}

sia_status sia_model_config_read(sia_model_config *config, const json_t *object, const char *name,
                                 sia_error *err) {
    if (!json_is_object(object)) return sia_fail(err, SIA_FORMAT, "%s: the model is not a JSON object", name);
    const char *key;
    json_t *value;
    sia_status status = SIA_OK;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        if (!strcmp(key, "scheme"))
            status = read_scheme(config, value, name, err);
        else if (!strcmp(key, "init"))
            status = read_init(config, value, name, err);
        else
            status = read_number(config, key, value, name, err);
        if (status) return status;
    }
    return SIA_OK;
}
