/* SPDX-License-Identifier: MIT
 *
 * The table of parameters: names, shapes, first values; see parameters.h. */
#include "model/parameters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"

static void describe(sia_parameter *p, const sia_model_config *c, int block, sia_kind kind) {
    static const char *const names[] = {
        [SIA_KIND_Q] = "attention.q.weight", [SIA_KIND_K] = "attention.k.weight",
        [SIA_KIND_V] = "attention.v.weight", [SIA_KIND_O] = "attention.o.weight",
        [SIA_KIND_IN] = "mlp.in.weight",     [SIA_KIND_OUT] = "mlp.out.weight",
        [SIA_KIND_LOGN] = "attention.logn",
    };
    int64_t q = (int64_t)c->heads * c->head_dim, kv = (int64_t)c->kv_heads * c->head_dim;
    const int64_t shapes[][2] = {
        [SIA_KIND_Q] = {q, c->width},
        [SIA_KIND_K] = {kv, c->width},
        [SIA_KIND_V] = {kv, c->width},
        [SIA_KIND_O] = {c->width, q},
        [SIA_KIND_IN] = {c->hidden, c->width},
        [SIA_KIND_OUT] = {c->width, c->hidden},
        [SIA_KIND_LOGN] = {1, c->heads},
        [SIA_KIND_EMBEDDING] = {c->vocabulary, c->width},
        [SIA_KIND_UNEMBEDDING] = {c->vocabulary, c->width},
    };
    p->kind = kind;
    p->rows = shapes[kind][0];
    p->columns = shapes[kind][1];
    switch (kind) {
    case SIA_KIND_EMBEDDING:
        p->group = SIA_GROUP_EMBEDDING;
        (void)snprintf(p->name, sizeof p->name, "embedding.weight");
        return;
    case SIA_KIND_UNEMBEDDING:
        p->group = SIA_GROUP_UNEMBEDDING;
        (void)snprintf(p->name, sizeof p->name, "unembedding.weight");
        return;
    default:
        p->group = kind == SIA_KIND_LOGN ? SIA_GROUP_SCALAR : SIA_GROUP_MATRIX;
        (void)snprintf(p->name, sizeof p->name, "blocks.%d.%s", block, names[kind]);
    }
}

double sia_parameters_total(const sia_model_config *config, bool logn) {
    double total = 0;
    for (int kind = 0; kind <= SIA_KIND_UNEMBEDDING; kind++) {
        sia_parameter p;
        if (kind == SIA_KIND_LOGN && !logn) continue;
        describe(&p, config, 0, (sia_kind)kind);
        total += (kind < SIA_KINDS ? config->layers : 1) * (double)p.rows * (double)p.columns;
    }
    return total;
}

/* Every tensor starts at a whole cache line. */
static int64_t room_of(const sia_parameter *p) {
    return (int64_t)(sia_aligned((size_t)(p->rows * p->columns) * sizeof(float)) / sizeof(float));
}

static int64_t room_of_all(const sia_parameters *p) {
    int64_t room = 0;
    for (int i = 0; i < p->count; i++) room += room_of(&p->list[i]);
    return room;
}

sia_status sia_parameters_create(sia_parameters *p, const sia_model_config *config, sia_error *err) {
    sia_scheme scheme;
    sia_status status = sia_scheme_parse(config->scheme, &scheme, err);
    if (status) return status;
    *p = (sia_parameters){.per_block = scheme.row == SIA_ROW_LOGN ? SIA_KINDS : SIA_KINDS - 1};
    int count = 2 + config->layers * p->per_block;
    p->list = sia_alloc((size_t)count, sizeof *p->list);
    if (!p->list) return sia_fail_memory(err, (size_t)count * sizeof *p->list, "model");
    describe(&p->list[p->count++], config, 0, SIA_KIND_EMBEDDING);
    for (int block = 0; block < config->layers; block++)
        for (int kind = 0; kind < p->per_block; kind++)
            describe(&p->list[p->count++], config, block, (sia_kind)kind);
    describe(&p->list[p->count++], config, 0, SIA_KIND_UNEMBEDDING);

    int64_t room = room_of_all(p), at = 0;
    p->values = sia_alloc((size_t)room, sizeof(float));
    if (!p->values) {
        sia_parameters_destroy(p);
        return sia_fail_memory(err, (size_t)room * sizeof(float), "model");
    }
    for (int i = 0; i < p->count; i++) {
        p->list[i].value = p->values + at;
        at += room_of(&p->list[i]);
        p->total += p->list[i].rows * p->list[i].columns;
    }
    return SIA_OK;
}

void sia_parameters_destroy(sia_parameters *p) {
    sia_free(p->gradients);
    sia_free(p->values);
    sia_free(p->list);
    *p = (sia_parameters){0};
}

sia_status sia_parameters_gradients(sia_parameters *p, sia_error *err) {
    if (p->gradients) return SIA_OK;
    int64_t room = room_of_all(p);
    p->gradients = sia_alloc((size_t)room, sizeof(float));
    if (!p->gradients) return sia_fail_memory(err, (size_t)room * sizeof(float), "gradients");
    for (int i = 0; i < p->count; i++) p->list[i].gradient = p->gradients + (p->list[i].value - p->values);
    return SIA_OK;
}

void sia_parameters_initialise(sia_parameters *p, const sia_model_config *config) {
    /* A uniform number within +-b has the standard deviation b / sqrt(3). */
    double bound = config->init == SIA_INIT_PAPER ? 1.0 : 0.5 * sqrt(3.0);
    for (int i = 0; i < p->count; i++) {
        sia_parameter *w = &p->list[i];
        int64_t numbers = w->rows * w->columns;
        /* By place, not by i: models that differ only in LogN's scales start from the same matrices. */
        int block = i ? (i - 1) / p->per_block : 0;
        uint64_t seed = sia_random_stream(config->seed, (uint64_t)block * 16 + w->kind);
        double range = bound / sqrt((double)w->columns);
        switch (w->kind) {
        case SIA_KIND_EMBEDDING:
            for (int64_t j = 0; j < numbers; j++) w->value[j] = (float)sia_random_normal(seed, (uint64_t)j);
            break;
        case SIA_KIND_Q:
        case SIA_KIND_K:
        case SIA_KIND_V:
        case SIA_KIND_IN:
            for (int64_t j = 0; j < numbers; j++)
                w->value[j] = (float)(range * (2 * sia_random_uniform(seed, (uint64_t)j) - 1));
            break;
        case SIA_KIND_LOGN:
            /* At the end of a training sequence the factor is then 1. */
            for (int64_t j = 0; j < numbers; j++)
                w->value[j] = (float)(1 / log((double)(config->train_len > 2 ? config->train_len : 3)));
            break;
        default:
            memset(w->value, 0, (size_t)numbers * sizeof(float));
        }
    }
}
