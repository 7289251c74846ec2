/* SPDX-License-Identifier: MIT
 *
 * The vector vocabulary of the kernels: a few words on GNU vector extensions. A file that includes it defines
 *
 *     VW   floats in a vector of the instruction set
 *
 * Everything is inlined; nothing here has a name that the linker sees. */
#ifndef SIA_KERNEL_VECTOR_H
#define SIA_KERNEL_VECTOR_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#    include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* For the functions that hold one tile: inlined into their loops, they would share registers with the loops'
 * constants, and sums would be spilled. */
#define NOINLINE static __attribute__((noinline))

typedef float vf __attribute__((vector_size(VW * 4)));
typedef int32_t vi __attribute__((vector_size(VW * 4)));
typedef float vf_in_memory __attribute__((vector_size(VW * 4), aligned(4), may_alias));
typedef int32_t vi_in_memory __attribute__((vector_size(VW * 4), aligned(1), may_alias));

INLINE vf vload(const float *p) { return *(const vf_in_memory *)p; }
INLINE void vstore(float *p, vf x) { *(vf_in_memory *)p = x; }
INLINE vi vload_bytes(const int8_t *p) { return *(const vi_in_memory *)p; }

/* x in every lane. */
INLINE vf vdup(float x) {
#if VW == 4
    return (vf){x, x, x, x};
#elif VW == 8
    return (vf){x, x, x, x, x, x, x, x};
#elif VW == 16
    return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#endif
}

INLINE vf vzero(void) { return (vf){0}; }

INLINE vi viota(void) { /* 0, 1, 2, ... */
#if VW == 4
    return (vi){0, 1, 2, 3};
#elif VW == 8
    return (vi){0, 1, 2, 3, 4, 5, 6, 7};
#elif VW == 16
    return (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#endif
}

/* Where x is a NaN, the result is y: a maximum of rows skips NaNs, and a clamp vmax(limit, x) keeps them. */
INLINE vf vmax(vf x, vf y) {
#if defined(__AVX512F__) && VW == 16
    return (vf)_mm512_max_ps((__m512)x, (__m512)y);
#elif defined(__AVX__) && VW == 8
    return (vf)_mm256_max_ps((__m256)x, (__m256)y);
#elif defined(__SSE2__) && VW == 4
    return (vf)_mm_max_ps((__m128)x, (__m128)y);
#else
    vi take_x = x > y;
    return (vf)(((vi)x & take_x) | ((vi)y & ~take_x));
#endif
}

/* The same for the smaller of two: vmin(limit, x) keeps a NaN in x. */
INLINE vf vmin(vf x, vf y) {
#if defined(__AVX512F__) && VW == 16
    return (vf)_mm512_min_ps((__m512)x, (__m512)y);
#elif defined(__AVX__) && VW == 8
    return (vf)_mm256_min_ps((__m256)x, (__m256)y);
#elif defined(__SSE2__) && VW == 4
    return (vf)_mm_min_ps((__m128)x, (__m128)y);
#else
    vi take_x = x < y;
    return (vf)(((vi)x & take_x) | ((vi)y & ~take_x));
#endif
}

/* Lanes where mask is -1 from x, where it is 0 from y. */
INLINE vf vselect(vi mask, vf x, vf y) { return (vf)(((vi)x & mask) | ((vi)y & ~mask)); }

/* Holds x in a register here, and hides its value from the compiler. */
#if VW == 16 && !defined(__AVX512F__)
#    define KEEP_IN_REGISTER(x) (void)(x) /* no register is that wide */
#elif defined(__AVX512F__)
#    define KEEP_IN_REGISTER(x) __asm__ volatile("" : "+v"(x))
#elif defined(__aarch64__)
#    define KEEP_IN_REGISTER(x) __asm__ volatile("" : "+w"(x))
#else
#    define KEEP_IN_REGISTER(x) __asm__ volatile("" : "+x"(x))
#endif

/* sum += x * y for the sums of a tile, which fill the registers. Left to themselves, compilers pick forms of
 * the instruction that overwrite x or y, copy, and spill: a fifth of the speed (docs/speed.md). */
INLINE void vaccumulate(vf *sum, vf x, vf y) {
#if defined(__AVX512F__) && VW == 16
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(x), "v"(y));
#elif defined(__FMA__) && VW == 8
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(x), "x"(y));
#else
    *sum = x * y + *sum;
    KEEP_IN_REGISTER(*sum);
#endif
}

INLINE vf vfma(vf a, vf b, vf c) { return a * b + c; } /* contracted by the compiler where there is an FMA */

/* 2^x for x <= 0 (and somewhat above), relative error below 2e-7; 0 below -126.5; NaN stays NaN.
 *
 * x = n + f, n whole, |f| <= 1/2. Adding 1.5 * 2^23 + 127 leaves n + 127 in the low bits, from where a shift
 * puts it into the exponent. 2^f is a polynomial of degree 5 (minimax in relative error, with the constant
 * term 1, so that 2^0 is 1), summed in pairs to shorten the chain of dependent instructions. At n = -127 the
 * exponent's bits are 0, and so is the product: a weight that underflows is a true 0. */
INLINE vf vexp2(vf x) {
    const vf magic = vdup(0x1.8p23f + 127.0f);
    x = vmax(vdup(-127.0f), x);
    vf shifted = x + magic, f = x - (shifted - magic), ff = f * f;
    vf a = vfma(vdup(6.93147004e-1f), f, vdup(1.0f));
    vf b = vfma(vdup(5.55073358e-2f), f, vdup(2.40222424e-1f));
    vf c = vfma(vdup(1.32647273e-3f), f, vdup(9.67151299e-3f));
    return vfma(vfma(c, ff, b), ff, a) * (vf)((vi)shifted << 23);
}

/* Each lane is two 16-bit numbers: the sum of their products with those of y. */
INLINE vi vdot16(vi x, vi y) {
#if defined(__AVX512BW__) && VW == 16
    return (vi)_mm512_madd_epi16((__m512i)x, (__m512i)y);
#elif defined(__AVX2__) && VW == 8
    return (vi)_mm256_madd_epi16((__m256i)x, (__m256i)y);
#elif defined(__SSE2__) && VW == 4
    return (vi)_mm_madd_epi16((__m128i)x, (__m128i)y);
#else
    return ((x << 16) >> 16) * ((y << 16) >> 16) + (x >> 16) * (y >> 16);
#endif
}

/* The bytes 0 and 2 (or 1 and 3) of each lane as two 16-bit numbers. */
INLINE vi vbytes_even(vi x) {
    typedef int16_t v16 __attribute__((vector_size(VW * 4)));
    return (vi)(((v16)x << 8) >> 8);
}
INLINE vi vbytes_odd(vi x) {
    typedef int16_t v16 __attribute__((vector_size(VW * 4)));
    return (vi)((v16)x >> 8);
}

/* Lanes i and i ^ distance change places. */
#if VW == 4
#    define SWAP_LANES(x, distance) \
        __builtin_shufflevector(x, x, 0 ^ distance, 1 ^ distance, 2 ^ distance, 3 ^ distance)
#elif VW == 8
#    define SWAP_LANES(x, distance)                                                                         \
        __builtin_shufflevector(x, x, 0 ^ distance, 1 ^ distance, 2 ^ distance, 3 ^ distance, 4 ^ distance, \
                                5 ^ distance, 6 ^ distance, 7 ^ distance)
#elif VW == 16
#    define SWAP_LANES(x, distance)                                                                         \
        __builtin_shufflevector(x, x, 0 ^ distance, 1 ^ distance, 2 ^ distance, 3 ^ distance, 4 ^ distance, \
                                5 ^ distance, 6 ^ distance, 7 ^ distance, 8 ^ distance, 9 ^ distance,       \
                                10 ^ distance, 11 ^ distance, 12 ^ distance, 13 ^ distance, 14 ^ distance,  \
                                15 ^ distance)
#endif

/* The sum and the maximum over the lanes, in every lane. */
INLINE vf vsum_all(vf x) {
#if VW >= 16
    x += SWAP_LANES(x, 8);
#endif
#if VW >= 8
    x += SWAP_LANES(x, 4);
#endif
    x += SWAP_LANES(x, 2);
    x += SWAP_LANES(x, 1);
    return x;
}
INLINE vf vmax_all(vf x) {
#if VW >= 16
    x = vmax(x, SWAP_LANES(x, 8));
#endif
#if VW >= 8
    x = vmax(x, SWAP_LANES(x, 4));
#endif
    x = vmax(x, SWAP_LANES(x, 2));
    return vmax(x, SWAP_LANES(x, 1));
}
INLINE float vsum(vf x) { return vsum_all(x)[0]; }
INLINE float vmaximum(vf x) { return vmax_all(x)[0]; }

INLINE float scalar_exp2(float x) { return vexp2(vdup(x))[0]; }

#endif
