/* SPDX-License-Identifier: MIT
 *
 * Products of floats on AMX, whose tiles multiply bfloat16: 16 rows of 32 numbers times 32 rows of 16, in sums that
 * are floats. A float is the sum of three such numbers, exactly, each the next eight bits of its 24,
 *
 *     x = h + m + l        x y = l h' + m m' + h l'  +  m h' + h m'  +  h h'        but for 2^-21 of it, 2^-23 mostly
 *
 * so that six products of tiles make one of floats, as exact as a multiply-add is: what is left out is what rounding
 * leaves out. Sixteen times as many products a cycle as in vectors, divided by six.
 *
 *     triple       three tiles one after the other, h, m, l: TRIPLE floats of room
 *     rows         16 rows of 32 numbers, the operand on the left; in the tile, numbers i and i + 16 side by side
 *     columns      32 rows of 16 numbers, the operand on the right; in the tile, rows i and i + 16 in turns
 *
 * Both come from two vectors by a shift and a blend: which terms of a sum stand together is free, as long as both operands
 * agree, and to put a vector's own neighbours together would take a permutation, which is several times as dear.
 *
 * Tiles read numbers below 2^-126 as 0 and do not stop at the diagonal: an infinity there times a weight of 0 would be a
 * NaN. So a row that has a number beyond these bounds is `wild`: it becomes zeros here, and whoever multiplies sees to
 * it apart, in floats. No bit of a product depends on the rows and columns beside it. */
#ifndef SIA_KERNEL_AMX_H
#define SIA_KERNEL_AMX_H

#include "kernel/vector.h"

enum { SIDE = 16, DEPTH = 32, TILE_BYTES = 1024, TRIPLE = 3 * TILE_BYTES / 4 };

typedef uint32_t vu __attribute__((vector_size(VW * 4)));

/* Compilers differ in the name. */
#if defined(__AMX_BF16__) || defined(__AMXBF16__)
#    define REAL_TILES
#endif

/* ---------------------------------------------------------------------------------------------- tiles */

/* tiles_begin(), tiles_end()           around all that uses tiles
 * TILE_ZERO(i)                         tile i = 0
 * TILE_LOAD(i, p, offset, stride)      from 16 rows of 64 bytes, `stride` bytes apart, the first at p + offset; a constant
 * TILE_STORE(i, p, offset, stride)
 * TILE_PRODUCT(c, a, b)                c += a b */
#ifdef REAL_TILES
/* Assembly, because the compilers' own words do not say which memory they read and write. */
#    define TILE_TEXT(x) #    x
#    define TILE_ZERO(i) __asm__ volatile("tilezero %%tmm" TILE_TEXT(i)::)
#    define TILE_LOAD(i, p, offset, stride)                                                       \
        __asm__ volatile("tileloadd %c2(%0,%1,1), %%tmm" TILE_TEXT(i)                             \
                         :                                                                        \
                         : "r"((const void *)(p)), "r"((int64_t)(stride)), "i"((int64_t)(offset)) \
                         : "memory")
#    define TILE_STORE(i, p, offset, stride)                                                \
        __asm__ volatile("tilestored %%tmm" TILE_TEXT(i) ", %c2(%0,%1,1)"                   \
                         :                                                                  \
                         : "r"((void *)(p)), "r"((int64_t)(stride)), "i"((int64_t)(offset)) \
                         : "memory")
#    define TILE_PRODUCT(c, a, b) \
        __asm__ volatile("tdpbf16ps %%tmm" TILE_TEXT(b) ", %%tmm" TILE_TEXT(a) ", %%tmm" TILE_TEXT(c)::)
INLINE void tiles_begin(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = SIDE;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
}
INLINE void tiles_end(void) { __asm__ volatile("tilerelease" ::); }
#else
/* The same for AVX2, for the tests on other processors. Numbers below 2^-126 are read and written as 0; the first and the
 * second numbers of the pairs have a sum each. */
static _Thread_local float tiles[8][SIDE][SIDE];
INLINE void tiles_begin(void) {}
INLINE void tiles_end(void) {}
static void tile_copy(char *to, int64_t to_stride, const char *from, int64_t from_stride) {
    for (int i = 0; i < SIDE; i++) memcpy(to + i * to_stride, from + i * from_stride, 64);
}
INLINE __m256 first_of_pair(__m256 pair) { return (__m256)_mm256_slli_epi32((__m256i)pair, 16); }
INLINE __m256 second_of_pair(__m256 pair) {
    return _mm256_and_ps(pair, (__m256)_mm256_set1_epi32((int32_t)0xffff0000));
}
/* Not inlined: for the compiler, its numbers have nothing to do with the mode that is set around it. */
NOINLINE void tile_columns(float c[SIDE][SIDE], float a[SIDE][SIDE], float b[SIDE][SIDE], int column) {
    __m256 first[SIDE], second[SIDE];
    for (int k = 0; k < SIDE; k++) {
        __m256 pair = _mm256_loadu_ps(&b[k][column]);
        first[k] = first_of_pair(pair);
        second[k] = second_of_pair(pair);
    }
    for (int i = 0; i < SIDE; i++) {
        __m256 even = _mm256_setzero_ps(), odd = even;
        for (int k = 0; k < SIDE; k++) {
            __m256 pair = _mm256_broadcast_ss(&a[i][k]);
            even = _mm256_fmadd_ps(first_of_pair(pair), first[k], even);
            odd = _mm256_fmadd_ps(second_of_pair(pair), second[k], odd);
        }
        __m256 sum = _mm256_add_ps(_mm256_loadu_ps(&c[i][column]), _mm256_add_ps(even, odd));
        _mm256_storeu_ps(&c[i][column], sum);
    }
}
static void tile_product(float c[SIDE][SIDE], float a[SIDE][SIDE], float b[SIDE][SIDE]) {
    enum { DEFAULT = 0x1f80, DENORMALS_ARE_ZEROS = 1 << 6, FLUSH_TO_ZERO = 1 << 15 };
    unsigned mode = _mm_getcsr();
    _mm_setcsr(DEFAULT | DENORMALS_ARE_ZEROS | FLUSH_TO_ZERO);
    tile_columns(c, a, b, 0);
    tile_columns(c, a, b, SIDE / 2);
    _mm_setcsr(mode);
}
#    define TILE_ZERO(i) memset(tiles[i], 0, TILE_BYTES)
#    define TILE_LOAD(i, p, offset, stride) \
        tile_copy((char *)tiles[i], 64, (const char *)(p) + (offset), (int64_t)(stride))
#    define TILE_STORE(i, p, offset, stride) \
        tile_copy((char *)(p) + (offset), (int64_t)(stride), (const char *)tiles[i], 64)
#    define TILE_PRODUCT(c, a, b) tile_product(tiles[c], tiles[a], tiles[b])
#endif

/* Tiles 0 to 3 hold sums of 32 x 32, or 0 and 2 those of 32 x 16, for two triples of rows and two of columns. The least
 * terms come first. What a product adds to is ready four products later: they go in turns. */
#define LOAD_ROWS(a0, a1, part)                  \
    {                                            \
        TILE_LOAD(4, a0, (part)*TILE_BYTES, 64); \
        TILE_LOAD(5, a1, (part)*TILE_BYTES, 64); \
    }
#define LOAD_COLUMNS(b0, b1, part, both)                   \
    {                                                      \
        TILE_LOAD(6, b0, (part)*TILE_BYTES, 64);           \
        if (both) TILE_LOAD(7, b1, (part)*TILE_BYTES, 64); \
    }
#define PRODUCTS(both)                   \
    {                                    \
        TILE_PRODUCT(0, 4, 6);           \
        if (both) TILE_PRODUCT(1, 4, 7); \
        TILE_PRODUCT(2, 5, 6);           \
        if (both) TILE_PRODUCT(3, 5, 7); \
    }
/* `meanwhile` is done after each four, while the tiles are busy: they take 64 cycles, and the processor does not look far
 * enough ahead to find other work by itself. */
enum { TURNS = 6 };
#define PRODUCTS_WITH(a0, a1, b0, b1, both, meanwhile)          \
    {                                                           \
        LOAD_ROWS(a0, a1, 0)                                    \
        LOAD_COLUMNS(b0, b1, 2, both) PRODUCTS(both) meanwhile; \
        LOAD_COLUMNS(b0, b1, 1, both) PRODUCTS(both) meanwhile; \
        LOAD_ROWS(a0, a1, 1) PRODUCTS(both) meanwhile;          \
        LOAD_COLUMNS(b0, b1, 0, both) PRODUCTS(both) meanwhile; \
        LOAD_ROWS(a0, a1, 2) PRODUCTS(both) meanwhile;          \
        LOAD_ROWS(a0, a1, 0) PRODUCTS(both) meanwhile;          \
    }
INLINE void products(const float *a0, const float *a1, const float *b0, const float *b1,
                     bool both){PRODUCTS_WITH(a0, a1, b0, b1, both, )}

INLINE void sums_zero(void) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
}
INLINE void sums_load(const float *c, int64_t stride, bool both) {
    const float *low = c + SIDE * stride;
    TILE_LOAD(0, c, 0, stride * 4);
    if (both) TILE_LOAD(1, c, 64, stride * 4);
    TILE_LOAD(2, low, 0, stride * 4);
    if (both) TILE_LOAD(3, low, 64, stride * 4);
}
INLINE void sums_store(float *c, int64_t stride, bool both) {
    float *low = c + SIDE * stride;
    TILE_STORE(0, c, 0, stride * 4);
    if (both) TILE_STORE(1, c, 64, stride * 4);
    TILE_STORE(2, low, 0, stride * 4);
    if (both) TILE_STORE(3, low, 64, stride * 4);
}

/* ---------------------------------------------------------------------------------------------- triples */

INLINE vf upper_bits(vf x) { return (vf)((vi)x & (int32_t)0xffff0000); }

/* The upper halves of the numbers of two vectors, in turns. */
INLINE vf upper_halves(vf x, vf y) { return (vf)((vu)x >> 16 | (vu)upper_bits(y)); }

/* Row i of a triple: of rows, from the two halves of its 32 numbers; of columns, from rows i and i + 16. */
INLINE void split(vf x, vf y, float *triple, int i) {
    float *to = triple + i * SIDE;
    vstore(to, upper_halves(x, y));
    x -= upper_bits(x);
    y -= upper_bits(y);
    vstore(to + TRIPLE / 3, upper_halves(x, y));
    x -= upper_bits(x);
    y -= upper_bits(y);
    vstore(to + 2 * (TRIPLE / 3), upper_halves(x, y));
}

/* Row i of four triples from rows i and i + 16 of 32 numbers each, x[row][half]: rows of two triples of rows, `apart` floats
 * from each other, and of two triples of columns side by side. */
INLINE void split_both_ways(vf x[2][2], float *rows, int64_t apart, float *columns, int i) {
    rows += i * SIDE;
    columns += i * SIDE;
    for (int part = 0; part < 3; part++, rows += TRIPLE / 3, columns += TRIPLE / 3) {
        vstore(rows, upper_halves(x[0][0], x[0][1]));
        vstore(rows + apart, upper_halves(x[1][0], x[1][1]));
        vstore(columns, upper_halves(x[0][0], x[1][0]));
        vstore(columns + TRIPLE, upper_halves(x[0][1], x[1][1]));
        for (int j = 0; j < 4; j++) x[j / 2][j % 2] -= upper_bits(x[j / 2][j % 2]);
    }
}

/* ---------------------------------------------------------------------------------------------- wild rows */

/* Bits of 2^60 and 2^-75: products of any two numbers between have sums that are floats, and no bits of one are lost under a
 * weight of 2^-24, 128 of which need no reference (SUM_LOW in forward.h). */
enum { TAME_MOST = (127 + 60) << 23, TAME_LEAST = (127 - 75) << 23 };

/* What was seen of some numbers, in each lane: the largest, and the least that is not 0, less 1 (0 becomes the largest
 * of all). */
typedef struct extent {
    vu most, least;
} extent;

INLINE extent extent_none(void) { return (extent){(vu){0}, ~(vu){0}}; }

INLINE void extent_join(extent *e, extent f) {
#if defined(__AVX512F__)
    e->most = (vu)_mm512_max_epu32((__m512i)e->most, (__m512i)f.most);
    e->least = (vu)_mm512_min_epu32((__m512i)e->least, (__m512i)f.least);
#else
    vu more = (vu)(f.most > e->most), fewer = (vu)(f.least < e->least);
    e->most = (f.most & more) | (e->most & ~more);
    e->least = (f.least & fewer) | (e->least & ~fewer);
#endif
}

INLINE void extent_add(extent *e, vf x) {
    vu size = (vu)x & 0x7fffffff;
    extent_join(e, (extent){size, size - 1});
}

/* -1 in lanes that saw only tame numbers. */
INLINE vi extent_tame(extent e) { return (e.most <= TAME_MOST) & (e.least >= TAME_LEAST - 1); }

INLINE bool all_lanes(vi mask) {
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)mask) == 0xffff;
#else
    for (int i = 0; i < VW; i++)
        if (!mask[i]) return false;
    return true;
#endif
}

/* Rows of 16 numbers, `next` floats apart. */
INLINE extent extent_of_rows(const float *x, int64_t next, int64_t rows) {
    extent e = extent_none();
    for (int64_t i = 0; i < rows; i++) extent_add(&e, vload(x + i * next));
    return e;
}

#endif
