/* SPDX-License-Identifier: MIT
 *
 * The steps of a product that AVX2 takes in assembly, four at a time, against the same steps in C: the same bits, and
 * nothing read that C does not read. Both operands end where a page without access begins. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define VW 8
#define MR 6
#define NV 2
#include "base/random.h"
#include "kernel/tile.h"

enum { MOST_STEPS = 37, ROOM = 1 << 16 };

/* `floats` numbers, the last right before a page that cannot be read. */
static float *at_the_end(char *pages, int64_t floats, uint64_t seed) {
    void *end = pages + ROOM;
    float *x = (float *)end - floats;
    for (int64_t i = 0; i < floats; i++) x[i] = (float)sia_random_normal(seed, (uint64_t)i);
    return x;
}

static char *room_before_a_wall(void) {
    char *pages = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + ROOM, ROOM, PROT_NONE), 0);
    return pages;
}

static bool same_bits(const tile *x, const tile *y) {
    for (int i = 0; i < MR * NV * VW; i++) {
        vi a = (vi)x->sum[i / (NV * VW)][i / VW % NV], b = (vi)y->sum[i / (NV * VW)][i / VW % NV];
        if (a[i % VW] != b[i % VW]) return false;
    }
    return true;
}

/* Sums that are no zeros. */
static tile some_sums(void) {
    tile c;
    for (int i = 0; i < MR * NV; i++) c.sum[i / NV][i % NV] = vdup((float)i);
    return c;
}

static void same_bits_as_in_c(void **state) {
    (void)state;
    /* By rows of odd and even lengths; by columns: of strips, of a block. */
    static const struct {
        int64_t row, next;
    } forms[] = {{NR, 1}, {1000, 1}, {37, 1}, {256, 1}, {1, MR}, {1, 192}, {1, 1}};
    char *a_room = room_before_a_wall(), *b_room = room_before_a_wall();
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int64_t steps = 0; steps <= MOST_STEPS; steps++)
            for (int begun = 0; begun < (steps > 0 ? 2 : 1); begun++) {
                int64_t row = forms[f].row, next = forms[f].next,
                        last = steps ? (MR - 1) * row + (steps - 1) * next + 1 : 0;
                const float *a = at_the_end(a_room, last, 100 + f);
                const float *b = at_the_end(b_room, steps * NR, 200 + f);
                tile wanted = some_sums(), found = wanted;
                if (row == 1)
                    tile_steps(&found, begun, steps, a, 1, next, b);
                else
                    tile_steps(&found, begun, steps, a, row, 1, b);
                for (int64_t k = begun; k < steps; k++)
                    tile_step(&wanted, 0, MR, a + k * next, row, b + k * NR);
                if (!same_bits(&found, &wanted))
                    fail_msg("%lld steps, rows %lld and steps %lld apart%s", (long long)steps, (long long)row,
                             (long long)next, begun ? ", begun" : "");
            }
    (void)munmap(a_room, 2 * ROOM);
    (void)munmap(b_room, 2 * ROOM);
}

static void same_bits_from_panels(void **state) {
    (void)state;
    char *a_room = room_before_a_wall(), *b_room = room_before_a_wall();
    for (int d = 8; d <= 256; d += 8)
        for (int64_t rows = MR; rows <= 2 * MR; rows += MR) {
            int64_t between = rows * NR, panels = (d + NR - 1) / NR;
            const float *a = at_the_end(a_room, panels * between, 1), *b = at_the_end(b_room, d * NR, 2);
            tile wanted = some_sums(), found = wanted;
            a += (rows - MR) * NR; /* the last rows of the panels */
            tile_from_panels(&found, d, a, between, b);
            for (int k = 1; k < d; k++)
                tile_step(&wanted, 0, MR, a + k / NR * between + k % NR, NR, b + k * NR);
            if (!same_bits(&found, &wanted)) fail_msg("dimension %d, panels of %d rows", d, (int)rows);
        }
    (void)munmap(a_room, 2 * ROOM);
    (void)munmap(b_room, 2 * ROOM);
}

int main(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits_as_in_c),
                                       cmocka_unit_test(same_bits_from_panels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
