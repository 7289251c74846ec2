/* SPDX-License-Identifier: MIT
 *
 * Settings of training: the recipes of the presets, checks, JSON. */
#include "train/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

#define AT(field) offsetof(sia_training_settings, field)
const sia_field sia_training_fields[] = {
    {"steps", SIA_FIELD_INT64, AT(steps), 1, 1e9, NULL},
    {"batch", SIA_FIELD_INT64, AT(batch), 1, 1e6, NULL},
    {"micro_batch", SIA_FIELD_INT64, AT(micro_batch), 1, 1e6, NULL},
    {"embedding_rate", SIA_FIELD_REAL, AT(embedding_rate), 0, 1e3, NULL},
    {"matrix_rate", SIA_FIELD_REAL, AT(matrix_rate), 0, 1e3, NULL},
    {"unembedding_rate", SIA_FIELD_REAL, AT(unembedding_rate), 0, 1e3, NULL},
    {"scalar_rate", SIA_FIELD_REAL, AT(scalar_rate), 0, 1e3, NULL},
    {"beta1", SIA_FIELD_REAL, AT(beta1), 0, 0.9999999, NULL},
    {"beta2", SIA_FIELD_REAL, AT(beta2), 0, 0.9999999, NULL},
    {"epsilon", SIA_FIELD_REAL, AT(epsilon), 1e-30, 1, NULL},
    {"momentum", SIA_FIELD_REAL, AT(momentum), 0, 0.9999999, NULL},
    {"weight_decay", SIA_FIELD_REAL, AT(weight_decay), 0, 1e3, NULL},
    {"clip", SIA_FIELD_REAL, AT(clip), 0, 1e12, NULL},
    {"schedule", SIA_FIELD_CHOICE, AT(schedule), 0, 0, "constant linear cosine"},
    {"warmup", SIA_FIELD_INT64, AT(warmup), 0, 1e9, NULL},
    {"cooldown", SIA_FIELD_REAL, AT(cooldown), 0, 1, NULL},
    {"order", SIA_FIELD_CHOICE, AT(order), 0, 0, "sequential shuffled"},
    {"data_seed", SIA_FIELD_UINT64, AT(data_seed), 0, 9e15, NULL},
    {"recompute", SIA_FIELD_BOOL, AT(recompute), 0, 1, NULL},
    {"log_every", SIA_FIELD_INT64, AT(log_every), 1, 1e9, NULL},
    {"eval_every", SIA_FIELD_INT64, AT(eval_every), 0, 1e9, NULL},
    {"save_every", SIA_FIELD_INT64, AT(save_every), 0, 1e9, NULL},
    {"keep", SIA_FIELD_INT64, AT(keep), 0, 1e6, NULL},
    {"eval_windows", SIA_FIELD_INT64, AT(eval_windows), 1, 1e6, NULL},
    {"join", SIA_FIELD_BOOL, AT(join), 0, 1, NULL},
    {0}};

/* ------------------------------------------------------------------------------------------------ presets */

static const sia_training_settings usual = {
    .batch = 8,
    .schedule = SIA_SCHEDULE_LINEAR,
    .cooldown = SIA_SCHEDULE_COOLDOWN,
    .order = SIA_ORDER_SHUFFLED,
    .log_every = 10,
    .save_every = 500,
    .keep = 2,
    .eval_windows = 32,
    .multiples = {1, 4, 16},
};

static void set_optim(sia_training_settings *t, const sia_optim_config *c) {
    t->embedding_rate = c->rate[SIA_GROUP_EMBEDDING];
    t->matrix_rate = c->rate[SIA_GROUP_MATRIX];
    t->unembedding_rate = c->rate[SIA_GROUP_UNEMBEDDING];
    t->scalar_rate = c->rate[SIA_GROUP_SCALAR];
    t->beta1 = c->beta1;
    t->beta2 = c->beta2;
    t->epsilon = c->epsilon;
    t->momentum = c->momentum;
}

sia_status sia_settings_preset(sia_settings *s, const char *preset, sia_error *err) {
    sia_optim_config optim = sia_optim_config_default();
    *s = (sia_settings){.training = usual};
    set_optim(&s->training, &optim);
    sia_status status = sia_model_preset(preset, &s->model, err);
    if (status) return status;
    sia_training_settings *t = &s->training;
    t->steps = 2000;
    if (!strcmp(preset, "tiny")) {
        t->steps = 500;
        t->unembedding_rate = 0.004;
    } else if (!strncmp(preset, "paper", 5)) { /* 524,288 tokens a step, in the fixed order of the shards */
        t->batch = 128;
        t->micro_batch = 1;
        t->order = SIA_ORDER_SEQUENTIAL;
        t->steps = 4578;
        t->cooldown = 1308.0 / 4578;
        t->eval_every = t->save_every = 125;
        t->eval_windows = 152; /* of 65,536: the 10 M tokens of the paper */
        t->join = true;        /* pages of the web are shorter */
        if (!strcmp(preset, "paper-304m")) {
            t->batch = 224; /* 10 B tokens in all */
            t->steps = 10900;
            t->schedule = SIA_SCHEDULE_COSINE;
            t->matrix_rate *= 768.0 / 1024;
        }
    }
    return SIA_OK;
}

void sia_settings_forget(sia_settings *s) {
    sia_model_config_forget(&s->model);
    if (s->training.micro_batch == s->training.batch) s->training.micro_batch = 0;
}

sia_status sia_settings_complete(sia_settings *s, sia_error *err) {
    sia_training_settings *t = &s->training;
    if (t->micro_batch == 0) t->micro_batch = t->batch;
    sia_status status = sia_model_config_complete(&s->model, err);
    if (!status) status = sia_fields_check(t, sia_training_fields, err);
    if (status) return status;
    if (t->batch % t->micro_batch)
        return sia_fail(err, SIA_ARGUMENT, "batch %lld: want a multiple of micro_batch, %lld",
                        (long long)t->batch, (long long)t->micro_batch);
    for (int i = 0; i < SIA_MAX_LENGTHS && t->multiples[i]; i++)
        if (t->multiples[i] < 1 || t->multiples[i] > SIA_MAX_POSITION / s->model.train_len)
            return sia_fail(err, SIA_ARGUMENT, "length %lldx: want 1x or more, and at most 2^30 tokens",
                            (long long)t->multiples[i]);
    sia_schedule schedule = sia_settings_schedule(s);
    return sia_schedule_check(&schedule, err);
}

sia_optim_config sia_settings_optim(const sia_settings *s, int threads) {
    const sia_training_settings *t = &s->training;
    return (sia_optim_config){.rate = {[SIA_GROUP_EMBEDDING] = t->embedding_rate,
                                       [SIA_GROUP_MATRIX] = t->matrix_rate,
                                       [SIA_GROUP_UNEMBEDDING] = t->unembedding_rate,
                                       [SIA_GROUP_SCALAR] = t->scalar_rate},
                              .beta1 = t->beta1,
                              .beta2 = t->beta2,
                              .epsilon = t->epsilon,
                              .momentum = t->momentum,
                              .weight_decay = t->weight_decay,
                              .clip = t->clip,
                              .threads = threads};
}

sia_schedule sia_settings_schedule(const sia_settings *s) {
    return (sia_schedule){.shape = s->training.schedule,
                          .steps = s->training.steps,
                          .warmup = s->training.warmup,
                          .cooldown = s->training.cooldown};
}

/* ------------------------------------------------------------------------------------------------ JSON */

json_t *sia_settings_json(const sia_settings *s) {
    json_t *training = json_object(), *multiples = json_array();
    sia_fields_write(&s->training, sia_training_fields, &training);
    for (int i = 0; i < SIA_MAX_LENGTHS && s->training.multiples[i]; i++)
        sia_json_push(&multiples, json_integer((json_int_t)s->training.multiples[i]));
    sia_json_set(&training, "multiples", multiples);
    return json_pack("{s:o, s:o}", "model", sia_model_config_json(&s->model), "training", training);
}

static bool holds(const int64_t multiples[SIA_MAX_LENGTHS], int64_t value) {
    for (int i = 0; i < SIA_MAX_LENGTHS && multiples[i]; i++)
        if (multiples[i] == value) return true;
    return false;
}

static sia_status read_multiples(sia_training_settings *t, const json_t *list, const char *name,
                                 sia_error *err) {
    if (!json_is_array(list) || json_array_size(list) >= SIA_MAX_LENGTHS)
        return sia_fail(err, SIA_FORMAT, "%s: multiples: want a list of at most %d whole numbers", name,
                        SIA_MAX_LENGTHS - 1);
    memset(t->multiples, 0, sizeof t->multiples);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_integer(value) || json_integer_value(value) < 1)
            return sia_fail(err, SIA_FORMAT, "%s: multiples: want whole numbers from 1 on", name);
        if (holds(t->multiples, json_integer_value(value)))
            return sia_fail(err, SIA_FORMAT, "%s: multiples: %lld is there twice", name,
                            (long long)json_integer_value(value));
        t->multiples[i] = json_integer_value(value);
    }
    return SIA_OK;
}

static sia_status read_training(sia_training_settings *t, json_t *object, const char *name, sia_error *err) {
    if (!json_is_object(object)) return sia_fail(err, SIA_FORMAT, "%s: training is not a JSON object", name);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        const sia_field *field = sia_field_find(sia_training_fields, key);
        sia_status status =
            !strcmp(key, "multiples") ? read_multiples(t, value, name, err)
            : field
                ? sia_field_read(t, field, value, name, err)
                : sia_fail(err, SIA_FORMAT,
                           "%s: '%s' is not a training setting that sia " SIA_VERSION " knows", name, key);
        if (status) return status;
    }
    return SIA_OK;
}

sia_status sia_settings_read(sia_settings *s, json_t *object, const char *name, sia_error *err) {
    static const char *const parts[] = {"model",   "training", "data", "version",
                                        "command", "from",     "note", NULL};
    if (!json_is_object(object)) return sia_fail(err, SIA_FORMAT, "%s: not a JSON object", name);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        int i = 0;
        while (parts[i] && strcmp(parts[i], key) != 0) i++;
        if (!parts[i])
            return sia_fail(err, SIA_FORMAT,
                            "%s: '%s' is not part of a config file: want 'model' and 'training'", name, key);
    }
    json_t *model = json_object_get(object, "model"), *training = json_object_get(object, "training");
    sia_status status = model ? sia_model_config_read(&s->model, model, name, err) : SIA_OK;
    if (!status && training) status = read_training(&s->training, training, name, err);
    return status;
}

sia_status sia_multiples_parse(const char *text, int64_t multiples[SIA_MAX_LENGTHS], sia_error *err) {
    memset(multiples, 0, SIA_MAX_LENGTHS * sizeof *multiples);
    const char *at = text;
    for (int i = 0; i < SIA_MAX_LENGTHS - 1; i++) {
        char *end;
        long long value = strtoll(at, &end, 10);
        if (end == at || value < 1 || *end != 'x' || (end[1] && end[1] != ',')) break;
        if (holds(multiples, value))
            return sia_fail(err, SIA_ARGUMENT, "lengths '%s': %lldx is there twice", text, value);
        multiples[i] = value;
        if (!end[1]) return SIA_OK;
        at = end + 2;
    }
    return sia_fail(err, SIA_ARGUMENT,
                    "lengths '%s': want up to %d multiples of the training length, like 1x,4x,16x", text,
                    SIA_MAX_LENGTHS - 1);
}

int64_t sia_multiples_longest(const int64_t multiples[SIA_MAX_LENGTHS]) {
    int64_t most = 0;
    for (int i = 0; i < SIA_MAX_LENGTHS && multiples[i]; i++)
        if (multiples[i] > most) most = multiples[i];
    return most;
}

sia_status sia_multiples_check(const int64_t multiples[SIA_MAX_LENGTHS], sia_error *err) {
    int64_t most = sia_multiples_longest(multiples);
    for (int i = 0; i < SIA_MAX_LENGTHS && multiples[i]; i++)
        if (most % multiples[i])
            return sia_fail(err, SIA_ARGUMENT, "length %lldx: want a divisor of the longest, %lldx",
                            (long long)multiples[i], (long long)most);
    return SIA_OK;
}
