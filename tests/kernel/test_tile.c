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

static void same_bits_as_in_c(void **state) {
    (void)state;
    /* From panels, by rows of odd and even lengths; by columns: of strips, of a block. */
    static const struct {
        int64_t row, next;
    } forms[] = {{NR, 1}, {1000, 1}, {37, 1}, {256, 1}, {1, MR}, {1, 192}, {1, 1}};
    char *a_room = room_before_a_wall(), *b_room = room_before_a_wall();
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int64_t steps = 0; steps <= MOST_STEPS; steps++) {
            int64_t row = forms[f].row, next = forms[f].next,
                    last = steps ? (MR - 1) * row + (steps - 1) * next + 1 : 0;
            const float *a = at_the_end(a_room, last, 100 + f), *b = at_the_end(b_room, steps * NR, 200 + f);
            tile found, wanted;
            for (int i = 0; i < MR * NV; i++) wanted.sum[i / NV][i % NV] = vdup((float)i);
            found = wanted;
            if (row == 1)
                tile_steps(&found, steps, a, 1, next, b);
            else
                tile_steps(&found, steps, a, row, 1, b);
            for (int64_t k = 0; k < steps; k++) tile_step(&wanted, 0, MR, a + k * next, row, b + k * NR);
            if (!same_bits(&found, &wanted))
                fail_msg("%lld steps, rows %lld and steps %lld apart", (long long)steps, (long long)row,
                         (long long)next);
        }
    (void)munmap(a_room, 2 * ROOM);
    (void)munmap(b_room, 2 * ROOM);
}

int main(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits_as_in_c)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
