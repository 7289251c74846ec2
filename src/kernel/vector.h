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
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#    include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* For the functions that hold one tile: inlined into their loops, they would share registers with the loops'
 * constants, and sums would be spilled. */
#define NOINLINE static __attribute__((noinline))

/* Sanitizers do not see what assembly reads. */
#if defined(__has_feature)
#    define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define SANITIZED 1
#else
#    define SANITIZED 0
#endif

typedef float vf __attribute__((vector_size(VW * 4)));
typedef int32_t vi __attribute__((vector_size(VW * 4)));
typedef float vf_in_memory __attribute__((vector_size(VW * 4), aligned(4), may_alias));
typedef int32_t vi_in_memory __attribute__((vector_size(VW * 4), aligned(1), may_alias));

INLINE vf vload(const float *p) { return *(const vf_in_memory *)p; }
INLINE void vstore(float *p, vf x) { *(vf_in_memory *)p = x; }
INLINE vi vload_bytes(const int8_t *p) { return *(const vi_in_memory *)p; }

/* Into the second-level cache. May reach behind the end of what is mapped. */
INLINE void prefetch_bytes(const void *p, int64_t ahead, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)p + ahead + i, 0, 2);
}

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

INLINE vf vabs(vf x) { return (vf)((vi)x & 0x7fffffff); }

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

/* 2^x for x <= 0 (and somewhat above), relative error below 1.2e-7 with AVX2, 1.7e-7 with AVX-512, 2.2e-7 elsewhere;
 * from 0 to 2^-126 for x between -127 and -126, 0 from -127 down; NaN stays NaN.
 *
 * x = n + f, n a multiple of a step, |f| at most half of one. Adding EXP2_MAGIC leaves n in the low bits, from
 * where a shift puts it into the exponent. 2^f is a polynomial (minimax in relative error), with the constant term 1;
 * where there is a table, and 2^n is no power of two and rounded itself, 2^n + 2^n (2^f - 1) has one rounding less. At
 * n = -127 the exponent's bits are 0, and so is the result: a weight that underflows is a true 0.
 *
 * 2^(x - m) for a whole m (exp2_rounded) up to EXP2_FAR goes by what vexp2_reference makes of m, which costs no
 * instruction: it is taken off along with the rounding of x. So f does not depend on m, and another m is another
 * power of two, exactly, as long as the result is a normal number. (2^n + 2^n (2^f - 1) without an FMA would not be:
 * where 2^n is near the smallest normal number, the product is below it and loses bits.)
 *
 *     vexp2_power      2^n, from the sum of x and EXP2_MAGIC
 *     vexp2_rest       f, from x and that sum
 *     vexp2_product    2^f 2^n */
typedef struct vexp2_from {
    vf low; /* the least x that counts */
    vf magic;
} vexp2_from;

#if defined(__AVX2__) && defined(__FMA__) && VW == 8
/* Steps of 1/8, and what n has beside its whole part from a table in a register: degree 3 is enough. The bits of
 * 2^(j/8) come less j steps, which the shift adds again. */
#    define EXP2_MAGIC 0x1.8p20f
#    define EXP2_FAR 0x1p18f
INLINE vf vexp2_power(vf x_and_magic) {
    const vi eighths = {0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7,
                        0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7};
    return (vf)((vi)_mm256_permutevar8x32_ps((__m256)eighths, (__m256i)x_and_magic) +
                ((vi)x_and_magic << 20));
}
INLINE vf vexp2_rest(vf x, vf x_and_magic, vf magic) { return x - (x_and_magic - magic); }
INLINE vf vexp2_fraction(vf f) { /* 2^f - 1 */
    vf high = vfma(vdup(5.54962218e-2f), f, vdup(2.40257630e-1f));
    return vfma(high, f, vdup(6.93147214e-1f)) * f;
}
INLINE vf vexp2_product(vf fraction, vf power) {
    return (vf)_mm256_fmadd_ps((__m256)fraction, (__m256)power, (__m256)power);
}
#elif defined(__AVX512DQ__) && VW == 16
/* The same with steps of 1/32 from two registers: degree 2. */
#    define EXP2_MAGIC 0x1.8p18f
#    define EXP2_FAR 0x1p16f
INLINE vf vexp2_power(vf x_and_magic) {
    const vi low = {0x3f800000, 0x3f7ecd87, 0x3f7daac3, 0x3f7c980f, 0x3f7b95c2, 0x3f7aa43a,
                    0x3f79c3d3, 0x3f78f4f0, 0x3f7837f0, 0x3f778d3a, 0x3f76f532, 0x3f767043,
                    0x3f75fed7, 0x3f75a15b, 0x3f75583f, 0x3f7523f6};
    const vi high = {0x3f7504f3, 0x3f74fbaf, 0x3f7508a4, 0x3f752c4d, 0x3f75672a, 0x3f75b9be,
                     0x3f76248c, 0x3f76a81e, 0x3f7744fd, 0x3f77fbb8, 0x3f78ccdf, 0x3f79b907,
                     0x3f7ac0c7, 0x3f7be4ba, 0x3f7d257d, 0x3f7e83b3};
    vi table = (vi)_mm512_permutex2var_epi32((__m512i)low, (__m512i)x_and_magic, (__m512i)high);
    return (vf)(table + ((vi)x_and_magic << 18));
}
/* Where there are tiles, on Intel's processors, one instruction takes the nearest multiple of 2^-5 off. The sum
 * with magic is rounded to the same one, a tie to the even one, too, for magic is a whole number. On Zen 5 two
 * subtractions are faster (docs/speed.md). */
INLINE vf vexp2_rest(vf x, vf x_and_magic, vf magic) {
#    ifdef TILES
    (void)x_and_magic, (void)magic;
    return (vf)_mm512_reduce_ps((__m512)x, 5 << 4);
#    else
    return x - (x_and_magic - magic);
#    endif
}
INLINE vf vexp2_fraction(vf f) { return vfma(vdup(2.40226507e-1f), f, vdup(6.93157315e-1f)) * f; }
INLINE vf vexp2_product(vf fraction, vf power) {
    return (vf)_mm512_fmadd_ps((__m512)fraction, (__m512)power, (__m512)power);
}
#else
/* Steps of 1, and degree 5, summed in pairs to shorten the chain of dependent instructions. */
#    define EXP2_MAGIC (0x1.8p23f + 127.0f)
#    define EXP2_FAR 0x1p20f
INLINE vf vexp2_power(vf x_and_magic) { return (vf)((vi)x_and_magic << 23); }
INLINE vf vexp2_rest(vf x, vf x_and_magic, vf magic) { return x - (x_and_magic - magic); }
INLINE vf vexp2_fraction(vf f) { /* 2^f */
    vf ff = f * f, a = vfma(vdup(6.93147004e-1f), f, vdup(1.0f));
    vf b = vfma(vdup(5.55073358e-2f), f, vdup(2.40222424e-1f));
    vf c = vfma(vdup(1.32647273e-3f), f, vdup(9.67151299e-3f));
    return vfma(vfma(c, ff, b), ff, a);
}
INLINE vf vexp2_product(vf fraction, vf power) { return fraction * power; }
#endif

/* The nearest whole number, as long as that is of use: up to 2^22. */
INLINE float exp2_rounded(float m) { return fabsf(m) < 0x1p22f ? (m + 0x1.8p23f) - 0x1.8p23f : m; }
INLINE vexp2_from vexp2_reference(vf m) { return (vexp2_from){m - vdup(127.0f), vdup(EXP2_MAGIC) - m}; }

INLINE vf vexp2(vf x) {
    vexp2_from zero = vexp2_reference(vzero());
    x = vmax(zero.low, x);
    vf n = x + zero.magic;
    return vexp2_product(vexp2_fraction(vexp2_rest(x, n, zero.magic)), vexp2_power(n));
}

/* x = 2^(x - m), y = 2^(y - n) for exponents between -126 and 127, step by step: each is a chain of instructions
 * that wait for each other, and compilers put one chain behind the other, longer than the processor looks
 * ahead. */
INLINE void vexp2_two_near(vf *x, vexp2_from m, vf *y, vexp2_from n) {
    vf a_whole = *x + m.magic, b_whole = *y + n.magic;
    vf a = vexp2_rest(*x, a_whole, m.magic), b = vexp2_rest(*y, b_whole, n.magic);
    KEEP_IN_REGISTER(a);
    KEEP_IN_REGISTER(b);
    vf a_power = vexp2_power(a_whole), b_power = vexp2_power(b_whole);
    KEEP_IN_REGISTER(a_power);
    KEEP_IN_REGISTER(b_power);
    a = vexp2_fraction(a);
    b = vexp2_fraction(b);
    KEEP_IN_REGISTER(a);
    KEEP_IN_REGISTER(b);
    *x = vexp2_product(a, a_power);
    *y = vexp2_product(b, b_power);
}

/* The same for all that vexp2 takes. */
INLINE void vexp2_two(vf *x, vexp2_from m, vf *y, vexp2_from n) {
    *x = vmax(m.low, *x);
    *y = vmax(n.low, *y);
    KEEP_IN_REGISTER(*x);
    KEEP_IN_REGISTER(*y);
    vexp2_two_near(x, m, y, n);
}

/* ln(z 2^m) for z > 0 and a whole m, error below 2e-7 and half of the last bit; the same for all z and m with the same
 * product. What is not finite stays as it is. */
INLINE vf vlog_times(vf z, vf m) {
    vi n = ((vi)z - 0x3f3504f3) >> 23; /* z = f 2^n, f from sqrt(1/2) to sqrt(2) */
    vf f = (vf)((vi)z - (n << 23)), t = (f - vdup(1.0f)) / (f + vdup(1.0f)), tt = t * t;
    /* ln f = 2 (t + t^3/3 + t^5/5 + ...) */
    vf series =
        vfma(vfma(vfma(vfma(vdup(2 / 9.0f), tt, vdup(2 / 7.0f)), tt, vdup(2 / 5.0f)), tt, vdup(2 / 3.0f)), tt,
             vdup(2.0f));
    vf log = vfma(m + __builtin_convertvector(n, vf), vdup((float)M_LN2), t * series);
    return vselect(z <= vdup(FLT_MAX), log, z);
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
#else
#    error "write SWAP_LANES for this VW"
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
