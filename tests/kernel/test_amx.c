/* SPDX-License-Identifier: MIT
 *
 * Products of floats in tiles of bfloat16 (amx.h): that the emulation of tiles is the tiles to the last bit, where the
 * processor has them; that a float is the sum of its three parts; which numbers are wild; and how exact the products are,
 * against float64. Compiled for AVX2. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VW 16
#include "amx_product.h"
#include "base/random.h"
#include "kernel/amx.h"
#include "kernel/kernel.h"

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool has_tiles(void) {
    for (int i = 0; sia_kernel_table[i]; i++)
        if (!strcmp(sia_kernel_table[i]->name, "amx")) return sia_kernel_table[i]->supported();
    return false;
}

/* ------------------------------------------------------------------------------------------ the emulation */

enum { NUMBERS = SIDE * DEPTH, SUMS = SIDE * SIDE };

/* Numbers with exponents from `least` to `most` in base 2, of 8 bits as bfloat16 has, or 24; some of them others. */
typedef struct numbers {
    const char *name;
    int least, most;
    const uint16_t *other; /* one of `others` is one of `count` of these */
    int count, others;
} numbers;

static const uint16_t zeros[] = {0, 0x8000}, tiny[] = {0, 0x8000, 1, 0x8001, 0x7f, 0x40, 0x80, 0x8080},
                      huge[] = {0x7f80, 0xff80, 0x7f7f, 0xff7f},
                      none[] = {0x7fc0, 0xffc1, 0x7f81, 0x7f80, 0xff80, 0};
#define OTHERS(x) x, sizeof(x) / sizeof *(x)

static const numbers kinds[] = {
    {"near 1", -3, 3, OTHERS(zeros), 5},
    {"products that underflow", -70, -56, OTHERS(zeros), 9},
    {"sums that underflow", -66, -62, OTHERS(zeros), 3},
    {"subnormal numbers", -126, 30, OTHERS(tiny), 2},
    {"products of large and subnormal numbers", 100, 127, OTHERS(tiny), 2},
    {"many exponents", -126, 127, OTHERS(zeros), 50},
    {"products that overflow", 55, 66, OTHERS(zeros), 9},
    {"infinities", -20, 20, OTHERS(huge), 40},
    {"no numbers", -20, 20, OTHERS(none), 40},
};

static float random_number(uint64_t seed, uint64_t i, const numbers *n, uint32_t mask) {
    uint64_t r = sia_random_below(seed, 3 * i, UINT64_C(1) << 32);
    uint64_t exponent = 127 + (uint64_t)n->least +
                        sia_random_below(seed, 3 * i + 1, (uint64_t)n->most - (uint64_t)n->least + 1);
    uint64_t other = sia_random_below(seed, 3 * i + 2, (uint64_t)n->others * (uint64_t)n->count);
    if (other < (uint64_t)n->count) return float_of((uint32_t)n->other[other] << 16);
    return float_of((uint32_t)((r & 0x807fffff & mask) | exponent << 23));
}

/* Any NaN is as good as any other. */
static bool same_number(float x, float y) { return bits_of(x) == bits_of(y) || (isnan(x) && isnan(y)); }

static void emulation_is_the_tiles(void **state) {
    (void)state;
    enum { ROUNDS = 3000 };
    if (!has_tiles()) {
        printf("no AMX here: its emulation is compared with nothing\n");
        skip();
    }
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        int64_t flushed = 0, nans = 0;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t seed = sia_random_stream(500 + kind, round);
            uint16_t a[NUMBERS], b[NUMBERS];
            float c[SUMS], found[SUMS], wanted[SUMS];
            for (uint64_t i = 0; i < NUMBERS; i++) {
                a[i] = (uint16_t)(bits_of(random_number(seed, i, &kinds[kind], 0xffff0000)) >> 16);
                b[i] = (uint16_t)(bits_of(random_number(seed, NUMBERS + i, &kinds[kind], 0xffff0000)) >> 16);
            }
            /* Sums of all bits of a float, in every other round none before. */
            for (uint64_t i = 0; i < SUMS; i++)
                c[i] = round % 2 ? 0 : random_number(seed, 2 * NUMBERS + i, &kinds[kind], UINT32_MAX);
            memcpy(found, c, sizeof c);
            memcpy(wanted, c, sizeof c);
            amx_tile_product(a, b, wanted);
            amx_tile_product_emulated(a, b, found);
            for (int i = 0; i < SUMS; i++) {
                flushed += wanted[i] == 0;
                nans += isnan(wanted[i]);
                if (!same_number(found[i], wanted[i]))
                    fail_msg("%s, round %d, sum %d from %a: found %a, the processor's is %a",
                             kinds[kind].name, (int)round, i, (double)c[i], (double)found[i],
                             (double)wanted[i]);
            }
        }
        printf("%-40s %d sums alike: %lld are 0, %lld NaN\n", kinds[kind].name, ROUNDS * SUMS,
               (long long)flushed, (long long)nans);
    }
}

/* ------------------------------------------------------------------------------------------ three parts */

static float number_in(const float *tile, int i) {
    uint16_t half;
    memcpy(&half, (const char *)tile + 2 * i, sizeof half);
    return float_of((uint32_t)half << 16);
}

static void parts_are_exact(void **state) {
    (void)state;
    enum { ROUNDS = 200 };
    float triple[TRIPLE];
    for (int exponent = -100; exponent <= 60; exponent++)
        for (uint64_t round = 0; round < ROUNDS; round++) {
            const numbers of_size = {"", exponent, exponent, OTHERS(zeros), 20};
            float x[2][VW];
            for (uint64_t i = 0; i < 2 * VW; i++)
                x[i / VW][i % VW] =
                    random_number(sia_random_stream(600, (uint64_t)exponent + 100), round * 2 * VW + i,
                                  &of_size, round ? UINT32_MAX : 0xff800000);
            int row = (int)round % SIDE;
            split(vload(x[0]), vload(x[1]), triple, row);
            for (int i = 0; i < 2 * VW; i++) { /* the numbers of the two vectors in turns */
                double want = (double)x[i % 2][i / 2], sum = 0, size = INFINITY;
                for (int part = 0; part < 3; part++) {
                    double number = (double)number_in(triple + part * (TRIPLE / 3) + row * SIDE, i);
                    /* Each is below the last bit of the one before. */
                    if (number != 0 && !(fabs(number) < size * 0x1p-7))
                        fail_msg("part %d of %a is %a", part, want, number);
                    if (number != 0) size = fabs(number);
                    sum += number;
                }
                if (sum != want) fail_msg("the parts of %a have the sum %a", want, sum);
            }
        }
}

/* ------------------------------------------------------------------------------------------ wild numbers */

static void which_are_wild(void **state) {
    (void)state;
    static const struct {
        const char *name;
        float x;
        bool tame;
    } cases[] = {
        {"0", 0, true},
        {"1", 1, true},
        {"2^60", 0x1p60f, true},
        {"the next above 2^60", 0x1.000002p60f, false},
        {"the next below 2^60", 0x1.fffffep59f, true},
        {"2^-75", 0x1p-75f, true},
        {"the next below 2^-75", 0x1.fffffep-76f, false},
        {"the next above 2^-75", 0x1.000002p-75f, true},
        {"2^-126", 0x1p-126f, false},
        {"the largest subnormal number", 0x1.fffffcp-127f, false},
        {"the least number", 0x1p-149f, false},
        {"the largest number", FLT_MAX, false},
        {"infinity", INFINITY, false},
        {"NaN", NAN, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int sign = 0; sign < 2; sign++)
            for (int lane = 0; lane < VW; lane++)
                for (int order = 0; order < 3; order++) { /* first, last, alone */
                    float x = float_of(bits_of(cases[i].x) | (sign ? 0x80000000 : 0)), one[VW];
                    for (int j = 0; j < VW; j++) one[j] = j == lane ? x : 0.25f * (float)j;
                    extent e = extent_none();
                    if (order == 1) extent_add(&e, vdup(3));
                    extent_add(&e, vload(one));
                    if (order == 0) extent_add(&e, vdup(-3));
                    vi tame = extent_tame(e);
                    for (int j = 0; j < VW; j++)
                        if ((tame[j] != 0) != (j != lane || cases[i].tame))
                            fail_msg("%s%s in lane %d: lane %d is %s", sign ? "minus " : "", cases[i].name,
                                     lane, j, tame[j] ? "tame" : "wild");
                    if (all_lanes(tame) != cases[i].tame)
                        fail_msg("%s in lane %d: all lanes are %s", cases[i].name, lane,
                                 cases[i].tame ? "wild" : "tame");
                }
    assert_true(all_lanes(extent_tame(extent_none())));
}

static void rows_are_looked_at_whole(void **state) {
    (void)state;
    enum { ROWS = 7, APART = 3 * SIDE };
    for (int row = 0; row < ROWS; row++)
        for (int at = 0; at < APART; at++) {
            float x[ROWS * APART] = {0};
            x[row * APART + at] = NAN;
            for (int rows = 0; rows <= ROWS; rows++)
                assert_int_equal(all_lanes(extent_tame(extent_of_rows(x, APART, rows))),
                                 at >= SIDE || row >= rows);
        }
}

/* ------------------------------------------------------------------------------------------ products of floats */

/* The largest error of a product of 32 rows, relative to the lengths of row and column. */
static double product_error(product_test *product, const char *who, int steps, int columns, int exponents) {
    int depth = steps * DEPTH;
    const numbers of_size = {"", -exponents, exponents, OTHERS(zeros), 30};
    float *a = malloc((size_t)(2 * SIDE * depth) * sizeof *a),
          *b = malloc((size_t)(depth * columns) * sizeof *b);
    float c[2 * SIDE * 2 * SIDE];
    assert_true(a && b);
    for (uint64_t i = 0; i < 2 * (uint64_t)SIDE * (uint64_t)depth; i++)
        a[i] = random_number(701, i, &of_size, UINT32_MAX);
    for (uint64_t i = 0; i < (uint64_t)depth * (uint64_t)columns; i++)
        b[i] = random_number(702, i, &of_size, UINT32_MAX);
    for (int i = 0; i < 2 * SIDE * columns; i++) c[i] = (float)(i % 7); /* is added to */
    product(a, b, steps, columns, c);
    double worst = 0x1p-60; /* not 0, whose log is printed */
    for (int i = 0; i < 2 * SIDE; i++)
        for (int j = 0; j < columns; j++) {
            double sum = (i * columns + j) % 7, left = 0, right = 0;
            double most = sum;
            for (int k = 0; k < depth; k++) {
                double x = (double)a[i * depth + k], y = (double)b[k * columns + j];
                sum += x * y;
                left += x * x;
                right += y * y;
            }
            most += sqrt(left * right);
            worst = fmax(worst, fabs((double)c[i * columns + j] - sum) / most);
        }
    printf("%-9s %4d terms, %2d columns, exponents to %2d: error 2^%.2f of |a| |b|\n", who, depth, columns,
           exponents, log2(worst));
    free(a);
    free(b);
    return worst;
}

static void products_are_exact(void **state) {
    (void)state;
    const int steps[] = {1, 2, 3, 8, 32}, exponents[] = {0, 2, 20};
    for (int i = 0; i < 5; i++)
        for (int columns = SIDE; columns <= 2 * SIDE; columns += SIDE)
            for (int j = 0; j < 3; j++) {
                double emulated =
                    product_error(amx_product_emulated, "emulated", steps[i], columns, exponents[j]);
                assert_true(emulated < 0x1p-22);
                if (has_tiles())
                    assert_true(product_error(amx_product, "AMX", steps[i], columns, exponents[j]) ==
                                emulated);
            }
}

int main(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emulation_is_the_tiles), cmocka_unit_test(parts_are_exact),
        cmocka_unit_test(which_are_wild),         cmocka_unit_test(rows_are_looked_at_whole),
        cmocka_unit_test(products_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
