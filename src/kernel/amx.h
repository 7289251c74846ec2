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
 *     rows         16 rows of 32 numbers, the operand on the left
 *     columns      32 rows of 16 numbers, the operand on the right: 16 rows of pairs (a row and the next) in the tile
 *
 * Tiles read numbers below 2^-126 as 0 and do not stop at the diagonal: an infinity there times a weight of 0 would be a
 * NaN. So a row that has a number beyond these bounds is `wild`: it becomes zeros here, and whoever multiplies sees to
 * it apart, in floats. No bit of a product depends on the rows and columns beside it. */
#ifndef SIA_KERNEL_AMX_H
#define SIA_KERNEL_AMX_H

#include "kernel/vector.h"

enum { SIDE = 16, DEPTH = 32, TILE_BYTES = 1024, TRIPLE = 3 * TILE_BYTES / 4 };

typedef uint32_t vu __attribute__((vector_size(VW * 4)));

/* ---------------------------------------------------------------------------------------------- tiles */

/* TILES_BEGIN, TILES_END         around all that uses tiles
 * TILE_ZERO(i)                   tile i = 0
 * TILE_LOAD(i, p, stride)        from 16 rows of 64 bytes, `stride` bytes apart
 * TILE_STORE(i, p, stride)
 * TILE_PRODUCT(c, a, b)          c += a b */
#if defined(__AMX_BF16__)
/* Assembly, because the compilers' own words do not say which memory they read and write. */
#    define TILE_TEXT(x) #    x
#    define TILE_ZERO(i) __asm__ volatile("tilezero %%tmm" TILE_TEXT(i)::)
#    define TILE_LOAD(i, p, stride)                                       \
        __asm__ volatile("tileloadd (%0,%1,1), %%tmm" TILE_TEXT(i)        \
                         :                                                \
                         : "r"((const void *)(p)), "r"((int64_t)(stride)) \
                         : "memory")
#    define TILE_STORE(i, p, stride)                                   \
        __asm__ volatile("tilestored %%tmm" TILE_TEXT(i) ", (%0,%1,1)" \
                         :                                             \
                         : "r"((void *)(p)), "r"((int64_t)(stride))    \
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
#    define TILE_LOAD(i, p, stride) tile_copy((char *)tiles[i], 64, (const char *)(p), (int64_t)(stride))
#    define TILE_STORE(i, p, stride) tile_copy((char *)(p), (int64_t)(stride), (const char *)tiles[i], 64)
#    define TILE_PRODUCT(c, a, b) tile_product(tiles[c], tiles[a], tiles[b])
#endif

/* Tiles 0 to 3 hold sums of 32 x 32, or 0 and 2 those of 32 x 16, for two triples of rows and two of columns. The least
 * terms come first. What a product adds to is ready four products later: they go in turns. */
#define PART(triple, i) ((const char *)(triple) + (i)*TILE_BYTES)
#define LOAD_ROWS(a0, a1, i)           \
    {                                  \
        TILE_LOAD(4, PART(a0, i), 64); \
        TILE_LOAD(5, PART(a1, i), 64); \
    }
#define LOAD_COLUMNS(b0, b1, i, both)            \
    {                                            \
        TILE_LOAD(6, PART(b0, i), 64);           \
        if (both) TILE_LOAD(7, PART(b1, i), 64); \
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
    TILE_LOAD(0, c, stride * 4);
    if (both) TILE_LOAD(1, c + SIDE, stride * 4);
    TILE_LOAD(2, c + SIDE * stride, stride * 4);
    if (both) TILE_LOAD(3, c + SIDE * stride + SIDE, stride * 4);
}
INLINE void sums_store(float *c, int64_t stride, bool both) {
    TILE_STORE(0, c, stride * 4);
    if (both) TILE_STORE(1, c + SIDE, stride * 4);
    TILE_STORE(2, c + SIDE * stride, stride * 4);
    if (both) TILE_STORE(3, c + SIDE * stride + SIDE, stride * 4);
}

/* ---------------------------------------------------------------------------------------------- triples */

INLINE vf upper_bits(vf x) { return (vf)((vi)x & (int32_t)0xffff0000); }

/* The upper halves of the numbers of two vectors: those of x, then those of y; or in turns. */
INLINE vi halves_in_row(vf x, vf y) {
    typedef int16_t v16 __attribute__((vector_size(64)));
    return (vi)__builtin_shufflevector((v16)x, (v16)y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29,
                                       31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63);
}
INLINE vi halves_in_turns(vf x, vf y) { return (vi)((vu)x >> 16) | (vi)upper_bits(y); }

/* Row i of a triple of rows from its 32 numbers; of columns from rows 2i and 2i + 1 of 16 numbers each. */
#define SPLIT(join, x, y, triple, i)                                     \
    {                                                                    \
        float *split_to = (triple) + (i)*SIDE;                           \
        vf split_x = (x), split_y = (y);                                 \
        vstore(split_to, (vf)join(split_x, split_y));                    \
        split_x -= upper_bits(split_x);                                  \
        split_y -= upper_bits(split_y);                                  \
        vstore(split_to + TRIPLE / 3, (vf)join(split_x, split_y));       \
        split_x -= upper_bits(split_x);                                  \
        split_y -= upper_bits(split_y);                                  \
        vstore(split_to + 2 * (TRIPLE / 3), (vf)join(split_x, split_y)); \
    }
INLINE void split_row(vf x, vf y, float *triple, int i){SPLIT(halves_in_row, x, y, triple, i)} INLINE
    void split_rows_as_columns(vf x, vf y, float *triple, int i) {
    SPLIT(halves_in_turns, x, y, triple, i)
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
