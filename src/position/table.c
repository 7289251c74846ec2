/* SPDX-License-Identifier: MIT */
#include "position/table.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"

/* Values are computed in runs of this many, so that the doubles never take more than a few pages. */
enum { RUN = 512 };

static void fill_distance(sia_tables *t, sia_scheme scheme, const sia_attention_config *config) {
    double scale[RUN], bias[RUN], fold = M_LOG2E / sqrt(config->head_dim);
    for (int head = 0; head < t->distance_tables; head++) {
        float *s = t->scale + head * t->stride, *b = t->bias + head * t->stride;
        for (int64_t first = 0; first < t->length; first += RUN) {
            int64_t count = t->length - first < RUN ? t->length - first : RUN;
            sia_distance_values(scheme, config, head, first, count, scale, bias);
            for (int64_t i = 0; i < count; i++) {
                s[-(first + i)] = (float)(scale[i] * fold);
                b[-(first + i)] = (float)(bias[i] * M_LOG2E);
            }
        }
    }
}

static void fill_angles(float *row, double position, const double *frequency, int turning) {
    for (int i = 0; i < turning; i++) {
        row[i] = (float)cos(position * frequency[i]);
        row[turning + i] = (float)sin(position * frequency[i]);
    }
}

static void fill_rotary(sia_tables *t, const double *frequency) {
    int64_t coarse = (t->length + SIA_ROTARY_FINE - 1) / SIA_ROTARY_FINE;
    for (int64_t i = 0; i < SIA_ROTARY_FINE; i++)
        fill_angles(t->fine + i * 2 * t->turning, (double)i, frequency, t->turning);
    for (int64_t i = 0; i < coarse; i++)
        fill_angles(t->coarse + i * 2 * t->turning, (double)(i * SIA_ROTARY_FINE), frequency, t->turning);
}

sia_status sia_tables_create(sia_tables **tables, sia_scheme scheme, const sia_attention_config *config,
                             int64_t length, sia_error *err) {
    double frequency[128];
    sia_tables *t = sia_alloc(1, sizeof *t);
    if (!t) return sia_fail_memory(err, sizeof *t, "tables");
    t->length = length;
    t->pairs = config->pairs;
    t->turning = sia_rotary_frequencies(scheme, config, frequency);
    t->row_constant = (float)sia_row_constant(scheme, config);
    t->distance_tables =
        scheme.distance == SIA_DISTANCE_ALIBI || scheme.distance == SIA_DISTANCE_OWN ? config->heads : 1;
    t->stride = length + 2 * (int64_t)SIA_TABLE_PAD;

    int64_t distance = t->stride * t->distance_tables, logs = scheme.row == SIA_ROW_LOGN ? length : 0;
    int64_t fine = SIA_ROTARY_FINE * 2 * (int64_t)t->turning;
    int64_t coarse = (length + SIA_ROTARY_FINE - 1) / SIA_ROTARY_FINE * 2 * t->turning;
    int64_t floats = 2 * distance + logs + fine + coarse + SIA_ROTARY_PAD;
    t->memory = sia_alloc((size_t)floats, sizeof(float));
    if (!t->memory) {
        sia_free(t);
        return sia_fail_memory(err, (size_t)floats * sizeof(float), "tables");
    }
    t->scale = t->memory + SIA_TABLE_PAD + length - 1;
    t->bias = t->scale + distance;
    t->log_n = t->memory + 2 * distance;
    t->fine = t->log_n + logs;
    t->coarse = t->fine + fine;

    fill_distance(t, scheme, config);
    for (int64_t i = 0; i < logs; i++) t->log_n[i] = (float)log((double)(i + 1));
    fill_rotary(t, frequency);
    *tables = t;
    return SIA_OK;
}

void sia_tables_destroy(sia_tables *tables) {
    while (tables) {
        sia_tables *older = tables->older;
        sia_free(tables->memory);
        sia_free(tables);
        tables = older;
    }
}
