/* SPDX-License-Identifier: MIT
 *
 * Decoding: a few queries over a cache of keys and values, every byte of which is read once. This is bound by
 * the memory's bandwidth, so the layout is made for long runs of reads and few instructions for each byte.
 *
 * A block holds SIA_CACHE_BLOCK positions of one head:
 *
 *     f32, f16   k  [block/NR][d][NR]         key panels
 *                v  [width/NR][block][NR]     column panels
 *     i8         k  [block/NR][d/4][NR][4]    four d of a key together
 *                v  [width/NR][block/4][NR][4]    four keys of a column together
 *                then the scales of the rows in float, k [block] and v [block]
 *
 * Four bytes that belong together are one 32-bit lane, and no byte needs to change lanes. For keys, products
 * of bytes with the query, rounded to 16 bits, are summed in integers: what that rounding loses is a
 * hundredth of what the bytes lost already. For values, a shift and a mask bring each byte to the top of its
 * lane, where it is the number times 2^24; that factor goes into the row's scale. */
#ifndef SIA_KERNEL_DECODE_H
#define SIA_KERNEL_DECODE_H

#include "kernel/pack.h"

enum { CB = SIA_CACHE_BLOCK };

INLINE int64_t width_of(int d) { return (d + NR - 1) / NR * NR; }
INLINE int64_t type_bytes(sia_type type) { return type == SIA_F32 ? 4 : type == SIA_F16 ? 2 : 1; }

static size_t cache_block_bytes(sia_type type, int d) {
    size_t scales = type == SIA_I8 ? 2 * CB * sizeof(float) : 0;
    return (size_t)(CB * (d + width_of(d)) * type_bytes(type)) + scales;
}

INLINE const uint8_t *values_of(sia_type type, int d, const void *block) {
    return (const uint8_t *)block + CB * d * type_bytes(type);
}
INLINE const float *scales_of(int d, const void *block) {
    const void *scales = (const int8_t *)block + CB * (d + width_of(d));
    return scales;
}

/* ------------------------------------------------------------------------------------------------ half
 * floats */

/* Rounded to nearest even; what is too large becomes the largest, for an infinity in a cache would spoil
 * every later query. NaN stays, and an infinity that was given becomes one: it must not pass for a number. */
INLINE uint16_t half_from_float(float x) {
    uint32_t bits, sign, magnitude;
    memcpy(&bits, &x, 4);
    sign = bits >> 16 & 0x8000;
    magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7bff);
    if (magnitude < 0x38800000) { /* below the smallest normal half: let the float adder do the rounding */
        float y;
        memcpy(&y, &magnitude, 4);
        y += 0.5f;
        memcpy(&bits, &y, 4);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

INLINE vf vload_half(const uint16_t *p) {
#if defined(__AVX512F__) && VW == 16
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__F16C__) && VW == 8
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
    /* Exponent and mantissa one step further left, then the exponent's bias corrected by a product, which is
     * exact and also right for numbers below the normal ones. NaN has the highest exponent and must keep it.
     */
    typedef uint32_t vu __attribute__((vector_size(VW * 4)));
    vu h = {0};
    for (int i = 0; i < VW; i++) h[i] = p[i];
    vf x = (vf)((h & 0x7fff) << 13) * vdup(0x1p112f);
    vu nan = (vu)((h & 0x7fff) > 0x7c00);
    return (vf)((vu)x | (h & 0x8000) << 16 | (nan & 0x7fc00000));
#endif
}

/* ------------------------------------------------------------------------------------------------ write */

static float quantize_scale(int d, const float *x) {
    float most = 0;
    for (int i = 0; i < d; i++) {
        if (!(fabsf(x[i]) <= FLT_MAX)) return NAN; /* NaN or infinite: the whole row says so */
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    }
    return most / 127;
}

INLINE int8_t quantize(float x, float scale) {
    if (!(scale > 0)) return 0;
    float y = rintf(x / scale);
    return (int8_t)(y > 127 ? 127 : y < -127 ? -127 : y);
}

INLINE int64_t key_place(int d, int row, int c) { return (int64_t)(row / NR) * d * NR + c * NR + row % NR; }
INLINE int64_t value_place(int row, int c) { return ((int64_t)(c / NR) * CB + row) * NR + c % NR; }
INLINE int64_t key_place_i8(int d, int row, int c) {
    return (int64_t)(row / NR) * d * NR + c / 4 * 4 * NR + row % NR * 4 + c % 4;
}
INLINE int64_t value_place_i8(int row, int c) {
    return ((int64_t)(c / NR) * CB + row / 4 * 4) * NR + c % NR * 4 + row % 4;
}

static void cache_write(sia_type type, int d, void *block, int row, const float *k, const float *v) {
    void *values = (void *)values_of(type, d, block);
    if (type == SIA_F32) {
        for (int c = 0; c < d; c++) ((float *)block)[key_place(d, row, c)] = k[c];
        for (int c = 0; c < d; c++) ((float *)values)[value_place(row, c)] = v[c];
    } else if (type == SIA_F16) {
        for (int c = 0; c < d; c++) ((uint16_t *)block)[key_place(d, row, c)] = half_from_float(k[c]);
        for (int c = 0; c < d; c++) ((uint16_t *)values)[value_place(row, c)] = half_from_float(v[c]);
    } else {
        float *scale = (float *)scales_of(d, block), of_k = quantize_scale(d, k), of_v = quantize_scale(d, v);
        for (int c = 0; c < d; c++) ((int8_t *)block)[key_place_i8(d, row, c)] = quantize(k[c], of_k);
        for (int c = 0; c < d; c++) ((int8_t *)values)[value_place_i8(row, c)] = quantize(v[c], of_v);
        scale[row] = of_k;
        scale[CB + row] = of_v * 0x1p-24f;
    }
}

/* ------------------------------------------------------------------------------------------------ read and
 * attend */

/* Four consecutive rows (k: d, v: keys) of a panel: NV vectors each. */
INLINE void load_four(sia_type type, const void *panel, int64_t four, vf x[4][NV]) {
    const uint8_t *at = (const uint8_t *)panel + four * 4 * NR * type_bytes(type);
    for (int v = 0; v < NV; v++) {
        if (type == SIA_F32)
            for (int i = 0; i < 4; i++) x[i][v] = vload((const float *)(const void *)at + i * NR + v * VW);
        else if (type == SIA_F16)
            for (int i = 0; i < 4; i++) x[i][v] = vload_half((const uint16_t *)at + i * NR + v * VW);
        else {
            vi w = vload_bytes((const int8_t *)at + v * VW * 4);
            for (int i = 0; i < 4; i++)
                x[i][v] = __builtin_convertvector((w << (24 - 8 * i)) & (int32_t)0xff000000, vf);
        }
    }
}

/* A block to float, without a change of layout: four rows at a time, each times a factor of its own or its
 * lanes'. */
INLINE void cache_read_type(sia_type type, int d, const void *block, float *k, float *v) {
    const float *scale = type == SIA_I8 ? scales_of(d, block) : NULL;
    vf x[4][NV];
    for (int64_t four = 0; four < (int64_t)CB * d / NR / 4; four++) {
        load_four(type, block, four, x);
        int64_t key = four * 4 / d * NR; /* of lane 0 */
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < NV; j++) {
                vf y = scale ? x[i][j] * (vload(scale + key + j * VW) * vdup(0x1p-24f)) : x[i][j];
                vstore(k + (four * 4 + i) * NR + j * VW, y);
            }
    }
    const void *values = values_of(type, d, block);
    for (int64_t four = 0; four < CB * width_of(d) / NR / 4; four++) {
        load_four(type, values, four, x);
        for (int i = 0; i < 4; i++) {
            vf factor = vdup(scale ? scale[CB + (four * 4 + i) % CB] : 1);
            for (int j = 0; j < NV; j++) vstore(v + (four * 4 + i) * NR + j * VW, x[i][j] * factor);
        }
    }
}

static void cache_read(sia_type type, int d, const void *block, float *k, float *v) {
    if (type == SIA_F16)
        cache_read_type(SIA_F16, d, block, k, v);
    else if (type == SIA_I8)
        cache_read_type(SIA_I8, d, block, k, v);
    else
        cache_read_type(SIA_F32, d, block, k, v);
}

/* How far ahead of the reads the cache lines of f16 and int8 are asked for: so much is computed for each byte
 * of them that the hardware does not run ahead far enough by itself. For f32 it does, and asking is in its
 * way. */
enum { AHEAD_F16 = 4096, AHEAD_I8 = 2048 };

INLINE void ask_ahead(sia_type type, const void *at) {
    if (type == SIA_F32) return;
    const uint8_t *ahead = (const uint8_t *)at + (type == SIA_F16 ? AHEAD_F16 : AHEAD_I8);
    for (int64_t i = 0; i < 4 * NR * type_bytes(type); i += 64) __builtin_prefetch(ahead + i);
}

/* The start of each stream that is read next, while something else is computed: the hardware runs ahead by
 * itself once it has seen a stream begin. */
INLINE void ask_for_starts(const void *at, int streams, int64_t apart) {
    enum { LINES = 8 };
    for (int i = 0; i < streams; i++)
        for (int j = 0; j < LINES; j++) __builtin_prefetch((const uint8_t *)at + i * apart + j * 64);
}

/* Memory gives more to several streams than to one, so a block is read in several places at once. */
INLINE int ways_of(sia_type type, int rows) {
    int most = type == SIA_F32 ? 4 : type == SIA_F16 ? 2 : 1;
    return rows * most <= 4 ? most : 4 / rows;
}

/* part[w][r] = the sum over i < 4n of a[w][r][i] times row i of the panel at w * way_bytes. A single row in a
 * single place keeps four sums, so that a multiply-add does not wait for the one before. */
INLINE void panels_times(sia_type type, int ways, int rows, const void *panel, int64_t way_bytes, int64_t n,
                         const float *a, int64_t a_way, int64_t a_stride, vf part[4][4][NV]) {
    vf sum[4][4][NV];
    int split = (rows == 1 ? 4 : rows == 2 ? 2 : 1) / ways;
    for (int w = 0; w < ways * split; w++)
        for (int r = 0; r < rows; r++) FOR_VECTORS(sum[w][r][v] = vzero();)
    for (int64_t four = 0; four < n; four++)
#pragma GCC unroll 4
        for (int w = 0; w < ways; w++) {
            vf x[4][NV];
            const uint8_t *at = (const uint8_t *)panel + w * way_bytes;
            ask_ahead(type, at + four * 4 * NR * type_bytes(type));
            load_four(type, at, four, x);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++) {
                    vf y = vdup(a[w * a_way + r * a_stride + four * 4 + i]);
                    int to = w * split + i % split;
                    FOR_VECTORS(sum[to][r][v] = vfma(y, x[i][v], sum[to][r][v]);)
                }
        }
    for (int w = 0; w < ways; w++)
        for (int r = 0; r < rows; r++)
            FOR_VECTORS({
                part[w][r][v] = sum[w * split][r][v];
                for (int i = 1; i < split; i++) part[w][r][v] += sum[w * split + i][r][v];
            })
}

/* Queries for int8 keys: 16 bits each, in the order in which the bytes of a lane are taken, two lanes for
 * four numbers. */
typedef struct query16 {
    int32_t pair[SIA_DECODE_ROWS][SIA_MAX_DIM / 2];
    float scale[SIA_DECODE_ROWS]; /* NaN where the query is not finite */
} query16;

INLINE int32_t two16(float low, float high) {
    return (int32_t)((uint32_t)(uint16_t)(int16_t)lrintf(low) | (uint32_t)(uint16_t)(int16_t)lrintf(high)
                                                                    << 16);
}

static void quantize_queries(const sia_decode *q, query16 *out) {
    for (int r = 0; r < q->rows; r++) {
        const float *x = q->q + r * q->head_dim;
        float scale = quantize_scale(q->head_dim, x) * (127.0f / 32767), inverse = scale > 0 ? 1 / scale : 0;
        if (inverse > FLT_MAX) inverse = 0; /* a query below 1e-34 is 0 */
        for (int i = 0; i < q->head_dim; i += 4) {
            out->pair[r][i / 2] = two16(x[i] * inverse, x[i + 2] * inverse);
            out->pair[r][i / 2 + 1] = two16(x[i + 1] * inverse, x[i + 3] * inverse);
        }
        out->scale[r] = scale;
    }
}

/* The same for int8 keys in one place: part[r] = the query's product with the NR keys of a panel, before both
 * scales. */
INLINE void panel_times_i8(int rows, const int8_t *panel, int d, int32_t (*query)[SIA_MAX_DIM / 2],
                           vf part[4][NV]) {
    vi sum[2][4][NV];
    for (int r = 0; r < rows; r++) FOR_VECTORS(sum[0][r][v] = sum[1][r][v] = (vi){0};)
    for (int i = 0; i < d / 2; i += 2, panel += 4 * NR) {
        vi even[NV], odd[NV];
        ask_ahead(SIA_I8, panel);
        FOR_VECTORS({
            vi bytes = vload_bytes(panel + v * VW * 4);
            even[v] = vbytes_even(bytes);
            odd[v] = vbytes_odd(bytes);
        })
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            vi x = (vi){0} + query[r][i], y = (vi){0} + query[r][i + 1];
            FOR_VECTORS({
                sum[0][r][v] += vdot16(even[v], x);
                sum[1][r][v] += vdot16(odd[v], y);
            })
        }
    }
    for (int r = 0; r < rows; r++)
        FOR_VECTORS(part[r][v] = __builtin_convertvector(sum[0][r][v] + sum[1][r][v], vf);)
}

/* One row of v, for the few keys at the end that not all queries see. */
INLINE float one_value(sia_type type, const void *values, int row, int c) {
    if (type == SIA_F32) return ((const float *)values)[value_place(row, c)];
    if (type == SIA_F16) {
        uint16_t same[VW];
        for (int i = 0; i < VW; i++) same[i] = ((const uint16_t *)values)[value_place(row, c)];
        return vload_half(same)[0];
    }
    return (float)((const int8_t *)values)[value_place_i8(row, c)] * 0x1p24f;
}

/* What decode_block works on: `rows` (1, 2 or 4) queries from `row` on, keys 0 .. n-1 of a block with
 * `before` keys before it. */
typedef struct decoding {
    const sia_decode *q;
    query16 *q16;
    int row;
    int64_t before, n;
    const void *k, *v;
    const float *scales;
    float weight[4][CB];
    vf best[4];
} decoding;

/* The logits of NR keys from j on, from their products with the queries. */
INLINE void decode_logits(sia_type type, int rows, decoding *b, int64_t j, vf part[4][NV]) {
    for (int r = 0; r < rows; r++) {
        const float *scale = b->q->scale[b->row + r], *bias = b->q->bias[b->row + r];
        int64_t sees = b->q->limit[b->row + r] - b->before, t = sees - 1 - j;
        if (sees > b->n) sees = b->n;
        FOR_VECTORS({
            vf l = part[r][v];
            if (type == SIA_I8) l *= vload(b->scales + j + v * VW) * vdup(b->q16->scale[b->row + r]);
            l = vfma(vload(scale - t + v * VW), l, vload(bias - t + v * VW));
            if (j + NR > sees) l = vselect(viota() + v * VW < (int32_t)(sees - j), l, vdup(-INFINITY));
            vstore(b->weight[r] + j + v * VW, l);
            b->best[r] = vmax(l, b->best[r]);
        })
    }
}

/* Panels j, j + step, ... at once: `ways` of them. */
INLINE void decode_keys(sia_type type, int ways, int rows, decoding *b, int64_t step) {
    int d = b->q->head_dim;
    for (int64_t j = 0; j < step; j += NR) {
        vf part[4][4][NV];
        const uint8_t *panel = (const uint8_t *)b->k + j * d * type_bytes(type);
        int64_t way = step * d * type_bytes(type);
        if (type == SIA_I8)
            panel_times_i8(rows, (const int8_t *)panel, d, b->q16->pair + b->row, part[0]);
        else
            panels_times(type, ways, rows, panel, way, d / 4, b->q->q + b->row * d, 0, d, part);
        for (int w = 0; w < ways; w++) decode_logits(type, rows, b, j + w * step, part[w]);
    }
}

/* out = correction * out + the weights of the first `keys` keys times their values: `ways` panels of columns at
 * once from column c on. A panel is read from its start to its end: streams that are cut short cost more than
 * they bring. */
INLINE void decode_columns(sia_type type, int ways, int rows, const decoding *b, int64_t keys,
                           const float *correction, float *out, int64_t c) {
    int64_t width = width_of(b->q->head_dim), way = (int64_t)CB * NR * type_bytes(type);
    vf part[4][4][NV];
    const uint8_t *panel = (const uint8_t *)b->v + c * CB * type_bytes(type);
    panels_times(type, ways, rows, panel, way, keys / 4, b->weight[0], 0, CB, part);
    for (int r = 0; r < rows; r++)
        for (int w = 0; w < ways; w++)
            FOR_VECTORS({
                float *o = out + r * width + c + w * NR + v * VW;
                vstore(o, vfma(vload(o), vdup(correction[r]), part[w][r][v]));
            })
}

INLINE void decode_values(sia_type type, int ways, int rows, const decoding *b, int64_t keys,
                          const float *correction, float *out) {
    int64_t width = width_of(b->q->head_dim), c = 0;
    for (; c + ways * NR <= width; c += ways * NR)
        decode_columns(type, ways, rows, b, keys, correction, out, c);
    for (; ways > 1 && c < width; c += NR) decode_columns(type, 1, rows, b, keys, correction, out, c);
}

/* Logits to weights: the new maximum of row r, the sum; returns what the old sums must be multiplied by. */
INLINE float decode_weights(sia_type type, decoding *b, int r) {
    float *max = b->q->max + b->row + r, *sum = b->q->sum + b->row + r, before = *max,
          most = vmaximum(b->best[r]);
    *max = most > before ? most : before;
    vf z = vzero();
    for (int64_t j = 0; j < b->n; j += VW) {
        vf p = vexp2(vload(b->weight[r] + j) - vdup(*max));
        z += p;
        if (type == SIA_I8) p *= vload(b->scales + CB + j);
        vstore(b->weight[r] + j, p);
    }
    float correction = scalar_exp2(before - *max);
    *sum = *sum * correction + vsum(z);
    return correction;
}

INLINE void decode_block(sia_type type, int rows, const sia_decode *q, query16 *q16, int row, int block,
                         int64_t before, int64_t n) {
    enum { PANELS = (CB + NR - 1) / NR };
    int d = q->head_dim, ways = ways_of(type, rows);
    int64_t width = width_of(d), common = n;
    decoding b = {.q = q, .q16 = q16, .row = row, .before = before, .n = n, .k = q->block[block]};
    b.v = values_of(type, d, b.k);
    if (type == SIA_I8) b.scales = scales_of(d, b.k);
    float *out = q->out + row * width, correction[4];
    for (int r = 0; r < rows; r++) b.best[r] = vdup(-INFINITY);
    for (int r = 0; r < rows; r++)
        if (q->limit[row + r] - before < common) common = q->limit[row + r] - before;
    common =
        common < 0 ? 0 : common / 4 * 4; /* keys that all rows see, in fours; the few after them one by one */

    if (n == CB)
        decode_keys(type, ways, rows, &b, PANELS * NR / ways);
    else
        decode_keys(type, 1, rows, &b, (n + NR - 1) / NR * NR);
    if (type == SIA_F32 && n == CB) ask_for_starts(b.v, ways, (int64_t)CB * NR * type_bytes(type));
    for (int r = 0; r < rows; r++) correction[r] = decode_weights(type, &b, r);
    if (type == SIA_F32 && before + CB < q->count && row + rows == q->rows)
        ask_for_starts(q->block[block + 1], ways, (int64_t)PANELS * NR / ways * d * type_bytes(type));
    decode_values(type, ways, rows, &b, common, correction, out);
    for (int r = 0; r < rows; r++)
        for (int64_t j = common; j < n && j < q->limit[row + r] - before; j++)
            for (int c = 0; c < d; c++)
                out[r * width + c] += b.weight[r][j] * one_value(type, b.v, (int)j, c);
}

INLINE void decode_type(sia_type type, const sia_decode *q) {
    int64_t width = width_of(q->head_dim);
    query16 q16;
    if (type == SIA_I8) quantize_queries(q, &q16);
    for (int r = 0; r < q->rows; r++) {
        q->max[r] = -FLT_MAX;
        q->sum[r] = 0;
    }
    memset(q->out, 0, sizeof(float) * (size_t)(q->rows * width));
    for (int64_t before = 0; before < q->count; before += CB) {
        int64_t n = q->count - before < CB ? q->count - before : CB;
        int block = (int)(before / CB), row = 0;
        for (; row + 4 <= q->rows; row += 4) decode_block(type, 4, q, &q16, row, block, before, n);
        for (; row + 2 <= q->rows; row += 2) decode_block(type, 2, q, &q16, row, block, before, n);
        for (; row < q->rows; row++) decode_block(type, 1, q, &q16, row, block, before, n);
    }
}

static void decode(sia_type type, const sia_decode *q) {
    if (type == SIA_F32)
        decode_type(SIA_F32, q);
    else if (type == SIA_F16)
        decode_type(SIA_F16, q);
    else
        decode_type(SIA_I8, q);
}

#endif
