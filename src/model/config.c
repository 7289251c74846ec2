/* SPDX-License-Identifier: MIT
 *
 * Presets, defaults, checks and JSON of the configuration of a model. */
#include "model/config.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

/* ------------------------------------------------------------------------------------------------ presets */

/* One list: their names, and their settings. */
#define PRESETS(PRESET)                                                                                  \
    PRESET("tiny", .layers = 3, .width = 96, .heads = 2, .vocabulary = 1024, .train_len = 256,           \
           .init = SIA_INIT_NARROW)                                                                      \
    PRESET("small", .layers = 4, .width = 256, .heads = 4, .vocabulary = 4096, .train_len = 512)         \
    PRESET("medium", .layers = 6, .width = 512, .heads = 8, .vocabulary = 6144, .train_len = 1024)       \
    PRESET("paper-162m", .layers = 12, .width = 768, .heads = 6, .vocabulary = 50304, .train_len = 4096) \
    PRESET("paper-304m", .layers = 16, .width = 1024, .heads = 8, .vocabulary = 50304, .train_len = 4096)

#define NAME(name, ...) name,
static const char *const names[] = {PRESETS(NAME) NULL};

#define NAMED(name, ...) {name, {__VA_ARGS__}},
static const struct preset {
    const char *name;
    sia_model_config config;
} presets[] = {PRESETS(NAMED)};
enum { COUNT = sizeof presets / sizeof *presets };

const char *const *sia_model_presets(void) { return names; }

sia_status sia_model_preset(const char *name, sia_model_config *config, sia_error *err) {
    if (!name || !config)
        return sia_fail(err, SIA_ARGUMENT, "model: want a preset and a place for it, got NULL");
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(presets[i].name, name)) {
            *config = presets[i].config;
            return SIA_OK;
        }
    return sia_fail(err, SIA_ARGUMENT, "preset '%s': want tiny, small, medium, paper-162m or paper-304m",
                    name);
}

/* ---------------------------------------------------------------------------------------------- the fields */

const sia_field sia_model_fields[] = {
    {"layers", SIA_FIELD_INT, offsetof(sia_model_config, layers), 1, 1024, NULL},
    {"width", SIA_FIELD_INT, offsetof(sia_model_config, width), 8, 65536, NULL},
    {"heads", SIA_FIELD_INT, offsetof(sia_model_config, heads), 1, 1024, NULL},
    {"kv_heads", SIA_FIELD_INT, offsetof(sia_model_config, kv_heads), 1, 1024, NULL},
    {"head_dim", SIA_FIELD_INT, offsetof(sia_model_config, head_dim), 8, 256, NULL},
    {"hidden", SIA_FIELD_INT, offsetof(sia_model_config, hidden), 8, 1048576, NULL},
    {"vocabulary", SIA_FIELD_UINT32, offsetof(sia_model_config, vocabulary), 2, 1048576, NULL},
    {"train_len", SIA_FIELD_INT64, offsetof(sia_model_config, train_len), 1, 1073741824, NULL},
    {"tau", SIA_FIELD_REAL, offsetof(sia_model_config, tau), 1e-9, 1e12, NULL},
    {"alpha", SIA_FIELD_REAL, offsetof(sia_model_config, alpha), 1e-9, 1e9, NULL},
    {"beta", SIA_FIELD_REAL, offsetof(sia_model_config, beta), 1e-9, 1e9, NULL},
    {"sharp", SIA_FIELD_REAL, offsetof(sia_model_config, sharp), 1e-9, 1e6, NULL},
    {"rotary_base", SIA_FIELD_REAL, offsetof(sia_model_config, rotary_base), 1e-9, 1e15, NULL},
    {"prope_base", SIA_FIELD_REAL, offsetof(sia_model_config, prope_base), 1e-9, 1e15, NULL},
    {"prope_share", SIA_FIELD_REAL, offsetof(sia_model_config, prope_share), 1e-9, 1, NULL},
    {"init", SIA_FIELD_CHOICE, offsetof(sia_model_config, init), 0, 0, "paper narrow"},
    {"seed", SIA_FIELD_UINT64, offsetof(sia_model_config, seed), 0, 9e15, NULL},
    {0}};

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
    if (c->hidden == 0 && c->width > 0 && c->width <= 65536) c->hidden = 4 * c->width;
    if (c->tau == 0) c->tau = 10;
    if (c->alpha == 0) c->alpha = exp(0.5);
    if (c->beta == 0) c->beta = exp(0.5);
    if (c->sharp == 0) c->sharp = 2;
    if (c->rotary_base == 0) c->rotary_base = 10000.0 * (double)c->train_len / 4096;
    if (c->prope_base == 0) c->prope_base = (double)c->train_len / 4;
    if (c->prope_share == 0) c->prope_share = 0.5;
    return sia_fields_check(c, sia_model_fields, err);
}

void sia_model_config_forget(sia_model_config *c) {
    sia_model_config made = *c;
    made.kv_heads = made.head_dim = made.hidden = 0;
    made.rotary_base = made.prope_base = 0;
    if (sia_model_config_complete(&made, NULL)) return;
    if (c->kv_heads == made.kv_heads) c->kv_heads = 0;
    if (c->head_dim == made.head_dim) c->head_dim = 0;
    if (c->hidden == made.hidden) c->hidden = 0;
    if (c->rotary_base == made.rotary_base) c->rotary_base = 0;
    if (c->prope_base == made.prope_base) c->prope_base = 0;
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
    sia_json_set(&object, "scheme", json_string(config->scheme));
    sia_fields_write(config, sia_model_fields, &object);
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

sia_status sia_model_config_read(sia_model_config *config, json_t *object, const char *name, sia_error *err) {
    if (!json_is_object(object)) return sia_fail(err, SIA_FORMAT, "%s: the model is not a JSON object", name);
    const char *key;
    json_t *value;
    sia_status status = SIA_OK;
    json_object_foreach(object, key, value) {
        const sia_field *field = sia_field_find(sia_model_fields, key);
        if (!strcmp(key, "scheme"))
            status = read_scheme(config, value, name, err);
        else if (field)
            status = sia_field_read(config, field, value, name, err);
        else
            status = sia_fail(err, SIA_FORMAT,
                              "%s: '%s' is not a model setting that sia " SIA_VERSION " knows", name, key);
        if (status) return status;
    }
    return SIA_OK;
}
