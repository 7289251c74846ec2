/* SPDX-License-Identifier: MIT
 *
 * Products by amx.h, compiled with AMX and without it (CMakeLists.txt); what they are called says which. */
#include "amx_product.h"

#define VW 16
#include "kernel/amx.h"

#ifdef REAL_TILES
#    define NAMED(name) name
#else
#    define NAMED(name) name##_emulated
#endif

void NAMED(amx_tile_product)(const uint16_t *a, const uint16_t *b, float *c) {
    tiles_begin();
    TILE_LOAD(0, c, 0, 64);
    TILE_LOAD(4, a, 0, 64);
    TILE_LOAD(6, b, 0, 64);
    TILE_PRODUCT(0, 4, 6);
    TILE_STORE(0, c, 0, 64);
    tiles_end();
}

void NAMED(amx_product)(const float *a, const float *b, int steps, int columns, float *c) {
    float rows[2][TRIPLE], right[2][TRIPLE];
    bool both = columns == 2 * SIDE;
    tiles_begin();
    sums_load(c, columns, both);
    for (int step = 0; step < steps; step++) {
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < SIDE; i++) {
                const float *row = a + ((half * SIDE + i) * steps + step) * DEPTH;
                split(vload(row), vload(row + VW), rows[half], i);
            }
        for (int half = 0; half < columns / SIDE; half++)
            for (int i = 0; i < SIDE; i++) {
                const float *row = b + (step * DEPTH + i) * columns + half * SIDE;
                split(vload(row), vload(row + SIDE * columns), right[half], i);
            }
        if (both)
            products(rows[0], rows[1], right[0], right[1], true);
        else
            products(rows[0], rows[1], right[0], right[0], false);
    }
    sums_store(c, columns, both);
    tiles_end();
}
