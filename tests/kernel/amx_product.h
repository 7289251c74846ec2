/* SPDX-License-Identifier: MIT
 *
 * What test_amx.c asks of amx.h, which is compiled twice: for tiles, and for AVX2, which emulates them. */
#ifndef SIA_TESTS_AMX_PRODUCT_H
#define SIA_TESTS_AMX_PRODUCT_H

#include <stdint.h>

/* c += a b: tiles of 16 rows of 64 bytes, a and b of bfloat16. */
typedef void tile_product_test(const uint16_t *a, const uint16_t *b, float *c);

/* c [32][columns] = a b, of steps times 32 terms, added to what c holds: 16 columns, or 32. As attention multiplies. */
typedef void product_test(const float *a, const float *b, int steps, int columns, float *c);

tile_product_test amx_tile_product, amx_tile_product_emulated;
product_test amx_product, amx_product_emulated;

#endif
