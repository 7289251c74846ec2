/* SPDX-License-Identifier: MIT
 *
 * Packing: rows of q, k, v, dO into the layouts of kernel.h, turned by the rotary slot on the way, and the
 * way back.
 *
 *     (x, y) of a pair  ->  (x cos - y sin, x sin + y cos),  angle = position * frequency
 *
 * cos and sin of the position come from two tables, coarse and fine, by the addition theorems. Work is in
 * groups of 8 rows and 8 columns (head_dim is a multiple of 8) whatever the width of a vector: with NR a
 * multiple of 8 everything is whole. */
#ifndef SIA_KERNEL_PACK_H
#define SIA_KERNEL_PACK_H

#include "kernel/kernel.h"
#include "kernel/tile.h"

typedef float v8 __attribute__((vector_size(32)));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef float v8_in_memory __attribute__((vector_size(32), aligned(4), may_alias));

INLINE v8 load8(const float *p) { return *(const v8_in_memory *)p; }
INLINE void store8(float *p, v8 x) { *(v8_in_memory *)p = x; }

/* cosine[i], sine[i] of the pairs at a position, times factor; the sine of the angle times `by`. Eight at a time: up to 7
 * numbers behind the last pair are read and written. */
INLINE void angles_at(const sia_tables *t, int64_t position, float by, float factor, float *cosine,
                      float *sine) {
    int n = t->turning;
    const float *f = t->fine + position % SIA_ROTARY_FINE * 2 * n;
    const float *c = t->coarse + position / SIA_ROTARY_FINE * 2 * n;
    for (int i = 0; i < n; i += 8) {
        v8 f_cosine = load8(f + i), f_sine = load8(f + n + i);
        v8 c_cosine = load8(c + i), c_sine = load8(c + n + i);
        store8(cosine + i, (c_cosine * f_cosine - c_sine * f_sine) * factor);
        store8(sine + i, (c_sine * f_cosine + c_cosine * f_sine) * (by * factor));
    }
}

/* out = x turned (by = 1) or turned back (by = -1), times factor. */
INLINE void turn_row(const sia_tables *t, int d, int64_t position, float by, float factor,
                     const float *restrict x, float *restrict out) {
    float cosine[SIA_MAX_DIM / 2 + 8], sine[SIA_MAX_DIM / 2 + 8];
    int half = d / 2, n = t->turning, i = 0;
    angles_at(t, position, by, factor, cosine, sine);
    if (t->pairs == SIA_PAIRS_ADJACENT) {
        for (; i < n; i++) {
            out[2 * i] = x[2 * i] * cosine[i] - x[2 * i + 1] * sine[i];
            out[2 * i + 1] = x[2 * i] * sine[i] + x[2 * i + 1] * cosine[i];
        }
        for (i = 2 * n; i < d; i++) out[i] = x[i] * factor;
        return;
    }
    const float *y = x + half;
    float *to_y = out + half;
    for (; i + 8 <= n; i += 8) {
        v8 a = load8(x + i), b = load8(y + i), c = load8(cosine + i), s = load8(sine + i);
        store8(out + i, a * c - b * s);
        store8(to_y + i, a * s + b * c);
    }
    for (; i < n; i++) {
        float a = x[i], b = y[i];
        out[i] = a * cosine[i] - b * sine[i];
        to_y[i] = a * sine[i] + b * cosine[i];
    }
    for (; i + 8 <= half; i += 8) {
        store8(out + i, load8(x + i) * factor);
        store8(to_y + i, load8(y + i) * factor);
    }
    for (; i < half; i++) {
        out[i] = x[i] * factor;
        to_y[i] = y[i] * factor;
    }
}

/* A head dimension in whole panels. */
INLINE int64_t width_of(int d) { return (d + NR - 1) / NR * NR; }

/* out = x times factor. */
INLINE void scale_row(int d, float factor, const float *x, float *out) {
    const float *whole = x + d / NR * NR;
    for (; x < whole; x += NR, out += NR) FOR_VECTORS(vstore(out + v * VW, vload(x + v * VW) * vdup(factor));)
    for (int c = 0; c < d % NR; c += 8) store8(out + c, load8(x + c) * factor);
}

/* Row i of x, turned and scaled: either where it lies, or in `room`. */
INLINE const float *row_ready(const sia_rows *x, int64_t i, float *room) {
    const float *row = x->x + i * x->stride;
    float factor = x->factor ? x->factor[i] : 1;
    if (x->turn && x->turn->turning) {
        turn_row(x->turn, x->head_dim, x->position + i, 1, factor, row, room);
        return room;
    }
    if (!x->factor) return row;
    scale_row(x->head_dim, factor, row, room);
    return room;
}

/* The caller's rows lie far apart, where the hardware does not guess what comes next: row i is asked for before it is
 * read or written. What is to be written may be in another core's cache: it is asked for to be its own at once. */
enum { ROWS_AHEAD = 8 };
typedef enum intent { TO_READ, TO_WRITE } intent;

INLINE void prefetch_row(intent why, const float *x, int64_t stride, int64_t i, int64_t rows, int d) {
    if (i >= rows) return;
    const float *row = x + i * stride, *end = row + d;
    for (; row < end; row += 16)
        if (why == TO_WRITE)
            __builtin_prefetch(row, 1);
        else
            __builtin_prefetch(row);
}

static void pack_columns(const sia_rows *x, float *out, int64_t panel_rows, int64_t fill_rows) {
    float room[SIA_MAX_DIM];
    int d = x->head_dim, rest = d % NR;
    for (int64_t i = 0; i < x->rows; i++) {
        prefetch_row(TO_READ, x->x, x->stride, i + ROWS_AHEAD, x->rows, d);
        const float *row = row_ready(x, i, room), *whole = row + (d - rest);
        float *to = out + i * NR;
        for (; row < whole; row += NR, to += panel_rows * NR)
            FOR_VECTORS(vstore(to + v * VW, vload(row + v * VW));)
        for (int c = 0; rest && c < NR; c += 8) store8(to + c, c < rest ? load8(row + c) : (v8){0});
    }
    int panels = (d + NR - 1) / NR;
    for (int p = 0; p < panels && x->rows < fill_rows; p++)
        memset(out + (p * panel_rows + x->rows) * NR, 0, (size_t)(fill_rows - x->rows) * NR * sizeof(float));
}

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_in_memory __attribute__((vector_size(16), aligned(4), may_alias));

INLINE v8 halves(const float *low, const float *high) {
    v4 a = *(const v4_in_memory *)low, b = *(const v4_in_memory *)high;
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
}

/* Columns c to c + 7 of 8 rows, as rows of out. Each half of a vector stays in its half, where shuffles are
 * cheap: rows 4 to 7 are brought to the upper one by the loads. If `squares` is not NULL, it is given the squares of
 * each row, in four sums. */
INLINE void transpose8(const float *const row[8], int64_t c, float *out, int64_t out_stride, v8 squares[4]) {
    for (int64_t end = c + 8; c < end; c += 4, out += 4 * out_stride) {
        v8 r[4], pairs[4], turned[4];
        for (int i = 0; i < 4; i++) r[i] = halves(row[i] + c, row[i + 4] + c);
        for (int i = 0; i < 2; i++) {
            pairs[i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
            pairs[i + 2] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
        }
        for (int i = 0; i < 4; i += 2) {
            turned[i] = __builtin_shufflevector(pairs[i], pairs[i + 1], 0, 1, 8, 9, 4, 5, 12, 13);
            turned[i + 1] = __builtin_shufflevector(pairs[i], pairs[i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
        }
        for (int i = 0; i < 4; i++) {
            store8(out + i * out_stride, turned[i]);
            if (squares) squares[i] += turned[i] * turned[i];
        }
    }
}

static float pack_keys(const sia_rows *x, float *out) {
    float room[8][SIA_MAX_DIM];
    static const float nothing[SIA_MAX_DIM];
    int d = x->head_dim;
    int64_t rows = (x->rows + NR - 1) / NR * NR;
    i8 most = {0};
    for (int64_t first = 0; first < rows; first += 8) {
        const float *row[8];
        for (int i = 0; i < 8; i++) prefetch_row(TO_READ, x->x, x->stride, first + 8 + i, x->rows, d);
        for (int i = 0; i < 8; i++) row[i] = first + i < x->rows ? row_ready(x, first + i, room[i]) : nothing;
        float *panel = out + first / NR * NR * d + first % NR;
        v8 squares[4] = {{0}};
        for (int c = 0; c < d; c += 8) transpose8(row, c, panel + c * NR, NR, squares);
        /* Floats that are not negative compare like their bits, and a NaN, its sign apart, is above all. */
        i8 sum = (i8)((squares[0] + squares[1]) + (squares[2] + squares[3])) & 0x7fffffff, more = sum > most;
        most = (sum & more) | (most & ~more);
    }
    int32_t largest = 0;
    for (int i = 0; i < 8; i++) largest = most[i] > largest ? most[i] : largest;
    float result;
    memcpy(&result, &largest, sizeof result);
    return result;
}

static void unpack(const sia_rows *shape, const float *x, int64_t width, float constant, float *out) {
    int d = shape->head_dim;
    for (int64_t i = 0; i < shape->rows; i++) {
        const float *row = x + i * width;
        float *to = out + i * shape->stride;
        prefetch_row(TO_WRITE, out, shape->stride, i + ROWS_AHEAD, shape->rows, d);
        if (shape->turn && shape->turn->turning)
            turn_row(shape->turn, d, shape->position + i, -1, constant, row, to);
        else
            scale_row(d, constant, row, to);
    }
}

static void turn(const sia_tables *tables, int d, int64_t position, float factor, const float *x,
                 float *out) {
    turn_row(tables, d, position, 1, factor, x, out);
}

/* out[i] = x[i] . y[i] */
static void row_dots(const float *x, int64_t x_stride, const float *y, int64_t y_stride, int64_t rows, int d,
                     float *out) {
    for (int64_t i = 0; i < rows; i++) {
        v8 sum = {0};
        for (int c = 0; c < d; c += 8) sum += load8(x + i * x_stride + c) * load8(y + i * y_stride + c);
        out[i] = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
    }
}

#endif
