/* SPDX-License-Identifier: MIT
 *
 * Decoding: a few queries over a cache of keys and values, every byte of which is read once. This is bound by
 * the memory's bandwidth, so the layout is made for long runs of reads and few instructions for each byte.
 *
 * A block holds SIA_CACHE_BLOCK positions of one head:
 *
 *     f32, f16   k  [block/NR][d][NR]            key panels
 *                v  [width/NR][block][NR]        column panels
 *     i8         k  [block/NR] of [d/4][NR][4]   four d of a key together, then the NR keys' scales in float
 *                the values' scales [block]
 *                v  [width/NR][block/4][NR][4]   four keys of a column together
 *
 * Four bytes that belong together are one 32-bit lane, and no byte needs to change lanes. Products of bytes
 * with the query, and with the weights of a block, are summed in integers, both rounded to 16 bits of their
 * largest: what that rounding loses is a hundredth of what the bytes lost already where numbers are of one size, and
 * at most 256 * 127 / 65534 of the largest, half a byte of its row, where one towers over the others.
 *
 * A block is read from its start to its end, which the hardware can foresee, and is asked for by hand where that helps
 * (sia_reading). How far the core itself runs ahead is a matter of registers: a multiply-add that waits for
 * memory holds one, and so does each number of a query. So one to three queries go over several blocks at a time,
 * in long streams that are far from each other and share the numbers of a query. How many is for the processor to say;
 * four queries have too many sums, and take one block after the other (docs/speed.md). */
#ifndef SIA_KERNEL_DECODE_H
#define SIA_KERNEL_DECODE_H

#include "kernel/pack.h"

enum { CB = SIA_CACHE_BLOCK };

INLINE int64_t type_bytes(sia_type type) { return type == SIA_F32 ? 4 : type == SIA_F16 ? 2 : 1; }

INLINE int64_t key_panel_bytes(sia_type type, int d) {
    return NR * (d * type_bytes(type) + (type == SIA_I8 ? (int64_t)sizeof(float) : 0));
}

INLINE const void *key_panel(sia_type type, int d, const void *block, int64_t row) {
    return (const uint8_t *)block + row / NR * key_panel_bytes(type, d);
}
INLINE int64_t values_offset(sia_type type, int d) {
    return CB / NR * key_panel_bytes(type, d) + (type == SIA_I8 ? CB * (int64_t)sizeof(float) : 0);
}
INLINE const uint8_t *values_of(sia_type type, int d, const void *block) {
    return (const uint8_t *)block + values_offset(type, d);
}
/* int8: of the keys of a panel, of the values of a block. */
INLINE const float *key_scales(int d, const void *panel) {
    const void *scales = (const int8_t *)panel + NR * d;
    return scales;
}
INLINE const float *value_scales(int d, const void *block) {
    const void *values = values_of(SIA_I8, d, block);
    return (const float *)values - CB;
}

static size_t cache_block_bytes(sia_type type, int d) {
    return (size_t)(values_offset(type, d) + CB * width_of(d) * type_bytes(type));
}

/* --------------------------------------------------------------------------------------------- half floats */

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
     * exact and right for numbers below the normal ones, too. NaN has the highest exponent and must keep it. */
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

/* Where a number is, in its panel (k) or among the values (v). */
INLINE int64_t key_place(int row, int c) { return (int64_t)c * NR + row % NR; }
INLINE int64_t value_place(int row, int c) { return ((int64_t)(c / NR) * CB + row) * NR + c % NR; }
INLINE int64_t key_place_i8(int row, int c) { return (int64_t)(c / 4 * NR + row % NR) * 4 + c % 4; }
INLINE int64_t value_place_i8(int row, int c) {
    return ((int64_t)(c / NR) * CB + row / 4 * 4) * NR + c % NR * 4 + row % 4;
}

static void cache_write(sia_type type, int d, void *block, int row, const float *k, const float *v) {
    void *keys = (void *)key_panel(type, d, block, row), *values = (void *)values_of(type, d, block);
    if (type == SIA_F32) {
        for (int c = 0; c < d; c++) ((float *)keys)[key_place(row, c)] = k[c];
        for (int c = 0; c < d; c++) ((float *)values)[value_place(row, c)] = v[c];
    } else if (type == SIA_F16) {
        for (int c = 0; c < d; c++) ((uint16_t *)keys)[key_place(row, c)] = half_from_float(k[c]);
        for (int c = 0; c < d; c++) ((uint16_t *)values)[value_place(row, c)] = half_from_float(v[c]);
    } else {
        float of_k = quantize_scale(d, k), of_v = quantize_scale(d, v);
        for (int c = 0; c < d; c++) ((int8_t *)keys)[key_place_i8(row, c)] = quantize(k[c], of_k);
        for (int c = 0; c < d; c++) ((int8_t *)values)[value_place_i8(row, c)] = quantize(v[c], of_v);
        ((float *)key_scales(d, keys))[row % NR] = of_k;
        ((float *)value_scales(d, block))[row] = of_v;
    }
}

/* ----------------------------------------------------------------------------------------- read and attend */

/* Vector v of row i of a panel (k: of d, v: of a key). */
INLINE vf load_row(sia_type type, const void *panel, int64_t i, int v) {
    if (type == SIA_F16) return vload_half((const uint16_t *)panel + i * NR + v * VW);
    return vload((const float *)panel + i * NR + v * VW);
}

/* Byte i of each lane, times 2^24: at the top, where it brings its sign. */
INLINE vf byte_of_lanes(vi lanes, int i) {
    return __builtin_convertvector((lanes << (24 - 8 * i)) & (int32_t)0xff000000, vf);
}

/* Rows of a panel to float, without a change of layout. For int8 four at a time, each times the scale of its
 * lanes or its own. */
INLINE void panel_to_float(sia_type type, const void *panel, int64_t rows, const float *of_lanes,
                           const float *of_rows, float *out) {
    for (int64_t row = 0; row < rows && type != SIA_I8; row++)
        FOR_VECTORS(vstore(out + row * NR + v * VW, load_row(type, panel, row, v));)
    for (int64_t row = 0; row < rows && type == SIA_I8; row += 4)
        FOR_VECTORS({
            vi bytes = vload_bytes((const int8_t *)panel + row * NR + v * VW * 4);
            for (int i = 0; i < 4; i++) {
                vf scale = of_lanes ? vload(of_lanes + v * VW) : vdup(of_rows[row + i]);
                vstore(out + (row + i) * NR + v * VW, byte_of_lanes(bytes, i) * (scale * vdup(0x1p-24f)));
            }
        })
}

INLINE void cache_read_type(sia_type type, int d, const void *block, float *k, float *v) {
    bool scaled = type == SIA_I8;
    for (int64_t row = 0; row < CB; row += NR) {
        const void *panel = key_panel(type, d, block, row);
        panel_to_float(type, panel, d, scaled ? key_scales(d, panel) : NULL, NULL, k + row * d);
    }
    const uint8_t *values = values_of(type, d, block);
    for (int64_t c = 0; c < width_of(d); c += NR)
        panel_to_float(type, values + c * CB * type_bytes(type), CB, NULL,
                       scaled ? value_scales(d, block) : NULL, v + c * CB);
}

static void cache_read(sia_type type, int d, const void *block, float *k, float *v) {
    if (type == SIA_F16)
        cache_read_type(SIA_F16, d, block, k, v);
    else if (type == SIA_I8)
        cache_read_type(SIA_I8, d, block, k, v);
    else
        cache_read_type(SIA_F32, d, block, k, v);
}

/* `rows` (1, 2 or 4) queries and `blocks` (1, 2 or 4) blocks meet in slots, one for each block and row: there are
 * never more than four. */
enum { SLOTS = 4 };
#define SLOT(s, r) ((s)*rows + (r))

/* Statements for each slot, block by block, written out as in tile.h. */
#define FOR_SLOTS(...)                                       \
    {                                                        \
        WITH(slot, 0, __VA_ARGS__)                           \
        WITH(slot, 1, if (slot < blocks * rows) __VA_ARGS__) \
        WITH(slot, 2, if (slot < blocks * rows) __VA_ARGS__) \
        WITH(slot, 3, if (slot < blocks * rows) __VA_ARGS__) \
    }

/* part[slot] = the sum over i < n, a multiple of 4, of a[slot][i] times row i of the block's panel. Where slots are few,
 * each has several sums, so that a multiply-add does not wait for the one before. */
INLINE void panel_times(sia_type type, int blocks, int rows, const void *const panel[SLOTS], int64_t ahead,
                        int64_t n, const float *const a[SLOTS], vf part[SLOTS][NV]) {
    vf sum[SLOTS][SLOTS][NV] = {0};
    int split = SLOTS / (blocks * rows);
    int64_t row_bytes = NR * type_bytes(type);
    for (int64_t four = 0; four < n; four += 4)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            vf x[NV];
            FOR_SLOTS({
                if (slot % rows == 0) { /* the first row of a block */
                    const void *block_panel = panel[slot / rows];
                    FOR_VECTORS(x[v] = load_row(type, block_panel, four + i, v);)
                    if (ahead && i * row_bytes % 64 == 0)
                        prefetch_bytes((const char *)block_panel + (four + i) * row_bytes, ahead / blocks,
                                       row_bytes);
                }
                vf y = vdup(a[slot][four + i]);
                FOR_VECTORS({
                    vf *to = &sum[i & (split - 1)][slot][v];
                    if (rows == 4) /* left to itself, gcc keeps one of the eight sums in memory */
                        vaccumulate(to, y, x[v]);
                    else
                        *to = vfma(y, x[v], *to);
                })
            })
        }
    for (int slot = 0; slot < blocks * rows; slot++)
        FOR_VECTORS({
            part[slot][v] = sum[0][slot][v];
            for (int i = 1; i < split; i++) part[slot][v] += sum[i][slot][v];
        })
}

/* Numbers that bytes are multiplied with, in 16 bits: pair[i] of every four holds the numbers i and i + 2 for
 * i = 0, 1, the order in which the bytes of a lane are taken; the other two are not used. */
typedef struct numbers16 {
    int32_t pair[CB];
    float scale; /* NaN where a number is not finite */
} numbers16;
_Static_assert((int)CB >= (int)SIA_MAX_DIM, "room for a query");

/* n numbers, a multiple of 4, with room for whole vectors. */
INLINE void numbers_to_16(const float *x, int64_t n, numbers16 *out) {
    vf most = vzero(), bad = vzero();
    int64_t whole = n / VW * VW;
    float rest[VW] = {0};
    for (int64_t i = whole; i < n; i++) rest[i - whole] = x[i];
    for (int64_t i = 0; i < n; i += VW) {
        vf y = vload(i < whole ? x + i : rest);
        most = vmax(vabs(y), most);
        bad += y * vzero(); /* NaN where y is not finite */
    }
    float largest = vmaximum(most);
    float up = largest < 0x1p-64f ? 0x1p80f : 1; /* the inverse of a small number is not finite */
    float inverse = largest > 0 ? 32767 / (largest * up) : 0;
    out->scale = largest * (1.0f / 32767) + vsum(bad);
    for (int64_t i = 0; i < n; i += VW) {
        /* The sum's low bits are the rounded number. */
        vf number = vload(i < whole ? x + i : rest) * vdup(up);
        vi y = (vi)vfma(number, vdup(inverse), vdup(0x1.8p23f));
        vi pairs = (y & 0xffff) | SWAP_LANES(y, 2) << 16;
        memcpy(out->pair + i, &pairs, sizeof pairs);
    }
}

/* The same for bytes, times the scale of the numbers, before that of the bytes. */
INLINE void panel_times_i8(int blocks, int rows, const void *const panel[SLOTS], int64_t ahead, int64_t n,
                           const numbers16 *const a[SLOTS], vf part[SLOTS][NV]) {
    vi sum[2][SLOTS][NV] = {0};
    int split = blocks * rows < SLOTS ? 2 : 1;
    for (int64_t four = 0; four < n; four += 4) {
        vi even[NV], odd[NV];
        FOR_SLOTS({
            if (slot % rows == 0) {
                const int8_t *bytes = (const int8_t *)panel[slot / rows] + four * NR;
                if (ahead) prefetch_bytes(bytes, ahead / blocks, 4 * NR);
                FOR_VECTORS({
                    vi lanes = vload_bytes(bytes + v * VW * 4);
                    even[v] = vbytes_even(lanes);
                    odd[v] = vbytes_odd(lanes);
                })
            }
            const int32_t *pair = a[slot]->pair + four;
            vi x = (vi){0} + pair[0], y = (vi){0} + pair[1];
            FOR_VECTORS({
                sum[0][slot][v] += vdot16(even[v], x);
                sum[split - 1][slot][v] += vdot16(odd[v], y);
            })
        })
    }
    for (int slot = 0; slot < blocks * rows; slot++)
        FOR_VECTORS({
            vi both = split > 1 ? sum[0][slot][v] + sum[1][slot][v] : sum[0][slot][v];
            part[slot][v] = __builtin_convertvector(both, vf) * vdup(a[slot]->scale);
        })
}

/* Vector v of one key's values from column c on; of int8 values before their scale. */
INLINE vf load_values(sia_type type, const void *values, int64_t key, int64_t c, int v) {
    const void *panel = (const uint8_t *)values + c * CB * type_bytes(type);
    if (type != SIA_I8) return load_row(type, panel, key, v);
    vi bytes = vload_bytes((const int8_t *)panel + key / 4 * 4 * NR + v * VW * 4);
    return byte_of_lanes(bytes, (int)(key % 4)) * vdup(0x1p-24f);
}

/* What decode_blocks works on: `rows` queries from `row` on, and one or more blocks. */
typedef struct decoding {
    const sia_decode *q;
    int row;
    const void *block[SLOTS];
    const float *scale[SLOTS], *bias[SLOTS]; /* of each slot, at the block's first key */
    int64_t n;                               /* keys of a block: CB if there are several */
    int64_t ahead;                           /* sia_reading.ahead */
    int64_t sees[SLOTS];                     /* keys of a single block that the row sees; of several, all */
    float weight[SLOTS][CB];                 /* logits at first */
    vf best[SLOTS];                          /* of each row */
} decoding;

/* The logits of a slot for NR keys from j on, from their products with the query; keys that the row does not see are
 * masked later. `scales` of int8 keys, or NULL. */
INLINE void decode_logits(decoding *b, int slot, int r, int64_t j, const float *scales, const vf part[NV]) {
    const float *scale = b->scale[slot] + j, *bias = b->bias[slot] + j;
    FOR_VECTORS({
        vf l = part[v];
        if (scales) l *= vload(scales + v * VW);
        l = vfma(vload(scale + v * VW), l, vload(bias + v * VW));
        vstore(b->weight[slot] + j + v * VW, l);
        b->best[r] = vmax(l, b->best[r]);
    })
}

INLINE void decode_keys(sia_type type, int blocks, int rows, decoding *b, const numbers16 *q16) {
    int d = b->q->head_dim;
    const float *q[SLOTS];
    const numbers16 *in_16[SLOTS];
    for (int s = 0; s < blocks; s++)
        for (int r = 0; r < rows; r++) {
            q[SLOT(s, r)] = b->q->q + (b->row + r) * d;
            in_16[SLOT(s, r)] = q16 + r;
        }
    for (int64_t j = 0; j < b->n; j += NR) {
        vf part[SLOTS][NV];
        const void *panel[SLOTS];
        for (int s = 0; s < blocks; s++) panel[s] = key_panel(type, d, b->block[s], j);
        if (type == SIA_I8)
            panel_times_i8(blocks, rows, panel, b->ahead, d, in_16, part);
        else
            panel_times(type, blocks, rows, panel, b->ahead, d, q, part);
        for (int s = 0; s < blocks; s++)
            for (int r = 0; r < rows; r++)
                decode_logits(b, SLOT(s, r), r, j, type == SIA_I8 ? key_scales(d, panel[s]) : NULL,
                              part[SLOT(s, r)]);
    }
}

/* Minus infinity for the keys of a single block that row r does not see. */
INLINE void mask_logits(decoding *b, int r) {
    float *logits = b->weight[r];
    for (int64_t j = b->sees[r]; j < CB; j++) logits[j] = -INFINITY;
    b->best[r] = vdup(-INFINITY);
    for (int64_t j = 0; j < b->sees[r]; j += VW) b->best[r] = vmax(vload(logits + j), b->best[r]);
}

/* Logits to weights: the new maximum of row r, the sum; returns what the old sums must be multiplied by. */
INLINE float decode_weights(sia_type type, int blocks, int rows, decoding *b, int r) {
    if (blocks == 1 && b->sees[r] < CB) mask_logits(b, r);
    float *max = b->q->max + b->row + r, *sum = b->q->sum + b->row + r, before = *max,
          most = vmaximum(b->best[r]);
    *max = most > before ? most : before;
    vexp2_from zero = vexp2_reference(vzero());
    vf z = vzero(), m = vdup(*max);
    for (int s = 0; s < blocks; s++) {
        float *w = b->weight[SLOT(s, r)];
        const float *scales = type == SIA_I8 ? value_scales(b->q->head_dim, b->block[s]) : NULL;
        for (int64_t j = 0; j < b->n; j += 2 * VW) { /* logits are there in whole panels */
            vf p[2] = {vload(w + j) - m, vload(w + j + VW) - m};
            vexp2_two(&p[0], zero, &p[1], zero);
            z += p[0] + p[1];
            for (int i = 0; i < 2; i++)
                vstore(w + j + i * VW, scales ? p[i] * vload(scales + j + i * VW) : p[i]);
        }
    }
    float correction = scalar_exp2(before - *max);
    *sum = *sum * correction + vsum(z);
    return correction;
}

/* out = correction * out + the weights of the first `keys` keys of each block times their values. */
INLINE void decode_values(sia_type type, int blocks, int rows, const decoding *b, int64_t keys,
                          const float *correction, float *out) {
    int64_t width = width_of(b->q->head_dim);
    const float *weights[SLOTS];
    numbers16 w16[SLOTS];
    const numbers16 *in_16[SLOTS];
    for (int slot = 0; slot < blocks * rows; slot++) {
        weights[slot] = b->weight[slot];
        in_16[slot] = &w16[slot];
        if (type == SIA_I8) numbers_to_16(weights[slot], keys, &w16[slot]);
    }
    for (int64_t c = 0; c < width; c += NR) {
        vf part[SLOTS][NV];
        const void *panel[SLOTS];
        for (int s = 0; s < blocks; s++)
            panel[s] = values_of(type, b->q->head_dim, b->block[s]) + c * CB * type_bytes(type);
        if (type == SIA_I8)
            panel_times_i8(blocks, rows, panel, b->ahead, keys, in_16, part);
        else
            panel_times(type, blocks, rows, panel, b->ahead, keys, weights, part);
        for (int r = 0; r < rows; r++)
            FOR_VECTORS({
                float *o = out + r * width + c + v * VW;
                vf more = part[r][v];
                for (int s = 1; s < blocks; s++) more += part[SLOT(s, r)][v];
                vstore(o, vfma(vload(o), vdup(correction[r]), more));
            })
    }
}

INLINE void decode_blocks(sia_type type, int blocks, int rows, const sia_decode *q, const numbers16 *q16,
                          int row, const int64_t *number) {
    int d = q->head_dim;
    int64_t width = width_of(d), left = q->count - number[0] * CB, common = CB;
    decoding b; /* field by field: an initializer would set its weights to 0 for each block */
    b.q = q;
    b.row = row;
    b.ahead = q->reading.ahead;
    b.n = blocks > 1 || left > CB ? CB : left;
    float *out = q->out + row * width, correction[SLOTS];
    for (int s = 0; s < blocks; s++) b.block[s] = q->block[number[s]];
    for (int r = 0; r < rows; r++) {
        for (int s = 0; s < blocks; s++) {
            int64_t t = q->limit[row + r] - 1 - number[s] * CB; /* distance of the first key */
            b.scale[SLOT(s, r)] = q->scale[row + r] - t;
            b.bias[SLOT(s, r)] = q->bias[row + r] - t;
        }
        int64_t sees = q->limit[row + r] - number[0] * CB;
        b.sees[r] = sees < 0 ? 0 : sees < b.n ? sees : b.n;
        b.best[r] = vdup(-INFINITY);
        if (b.sees[r] < common) common = b.sees[r];
    }
    common = common / 4 * 4; /* keys that all rows see, in fours; the few after them one by one */

    decode_keys(type, blocks, rows, &b, q16);
    for (int r = 0; r < rows; r++) correction[r] = decode_weights(type, blocks, rows, &b, r);
    decode_values(type, blocks, rows, &b, blocks > 1 ? CB : common, correction, out);
    const void *values = values_of(type, d, b.block[0]);
    for (int r = 0; r < rows && blocks == 1; r++)
        for (int64_t j = common; j < b.sees[r]; j++) {
            vf weight = vdup(b.weight[r][j]);
            for (int64_t c = 0; c < width; c += NR)
                FOR_VECTORS({
                    float *o = out + r * width + c + v * VW;
                    vstore(o, vfma(weight, load_values(type, values, j, c, v), vload(o)));
                })
        }
}

/* A function for each: in one for all, the compiler runs out of registers. */
#define DECODE_FUNCTION(name, type, blocks, rows)                                                   \
    NOINLINE void name(const sia_decode *q, const numbers16 *q16, int row, const int64_t *number) { \
        decode_blocks(type, blocks, rows, q, q16, row, number);                                     \
    }
#define DECODE_FUNCTIONS(name, type)        \
    DECODE_FUNCTION(name##_1x4, type, 1, 4) \
    DECODE_FUNCTION(name##_1x2, type, 1, 2) \
    DECODE_FUNCTION(name##_1x1, type, 1, 1) \
    DECODE_FUNCTION(name##_2x2, type, 2, 2) \
    DECODE_FUNCTION(name##_2x1, type, 2, 1) \
    DECODE_FUNCTION(name##_4x1, type, 4, 1)
DECODE_FUNCTIONS(decode_f32, SIA_F32)
DECODE_FUNCTIONS(decode_f16, SIA_F16)
DECODE_FUNCTIONS(decode_i8, SIA_I8)

typedef void (*decode_function)(const sia_decode *q, const numbers16 *q16, int row, const int64_t *number);

/* For 1, 2 and 4 blocks, and in each for 4, 2 and 1 rows. */
#define DECODE_TABLE(name)                                                                               \
    {                                                                                                    \
        {name##_1x4, name##_1x2, name##_1x1}, {NULL, name##_2x2, name##_2x1}, { NULL, NULL, name##_4x1 } \
    }

/* All rows over one block, or several that are `apart` from each other. */
INLINE void decode_rows(const decode_function by_rows[3], const sia_decode *q, const numbers16 *q16,
                        int64_t first, int64_t apart) {
    const int64_t number[SLOTS] = {first, first + apart, first + 2 * apart, first + 3 * apart};
    for (int row = 0, size = 0; size < 3; size++)
        for (int rows = 4 >> size; row + rows <= q->rows; row += rows)
            by_rows[size](q, q16 + row, row, number);
}

static void decode(sia_type type, const sia_decode *q) {
    static const decode_function functions[][3][3] = {[SIA_F32] = DECODE_TABLE(decode_f32),
                                                      [SIA_F16] = DECODE_TABLE(decode_f16),
                                                      [SIA_I8] = DECODE_TABLE(decode_i8)};
    numbers16 q16[SIA_DECODE_ROWS];
    int64_t seen = q->count; /* by all rows */
    for (int r = 0; r < q->rows; r++) {
        if (type == SIA_I8) numbers_to_16(q->q + r * q->head_dim, q->head_dim, &q16[r]);
        q->max[r] = -FLT_MAX;
        q->sum[r] = 0;
        if (q->limit[r] < seen) seen = q->limit[r] < 0 ? 0 : q->limit[r];
    }
    memset(q->out, 0, sizeof(float) * (size_t)(q->rows * width_of(q->head_dim)));
    int streams = q->reading.streams;
    int64_t apart = seen / CB / streams;
    for (int64_t i = 0; i < apart; i++) decode_rows(functions[type][streams / 2], q, q16, i, apart);
    for (int64_t i = apart * streams; i * CB < q->count; i++) decode_rows(functions[type][0], q, q16, i, 0);
}

#endif
