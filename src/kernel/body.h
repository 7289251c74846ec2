/* SPDX-License-Identifier: MIT
 *
 * One kernel body, many compilations. A file for an instruction set defines
 *
 *     ISA    its name, as `sia info` prints it      VW    floats in a vector
 *     MR     rows of a register tile                NV    vectors of a row of the tile
 *     TILES  if products are to go through AMX (amx.h)
 *
 * and supported(), then includes this; it gets sia_kernel_<ISA>. */
#include "kernel/backward.h"
#include "kernel/decode.h"
#include "kernel/forward.h"
#ifdef TILES
#    include "kernel/backward_amx.h"
#    include "kernel/forward_amx.h"
#    include "kernel/multiply_amx.h"
#    define TILED(name) amx_##name
#else
#    define TILED(name) name
#endif
#include "kernel/measure.h"
#include "kernel/multiply.h"
#include "kernel/pack.h"
#include "kernel/rows.h"
#include "kernel/update.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

extern const sia_kernel JOIN(sia_kernel_, ISA);

const sia_kernel JOIN(sia_kernel_, ISA) = {
    .name = TEXT(ISA),
    .supported = supported,
    .panel = NR,
    .tile = MR,
    .pack_columns = pack_columns,
    .pack_keys = pack_keys,
    .unpack = unpack,
    .turn = turn,
    .row_dots = row_dots,
    .largest_magnitude = largest_magnitude,
    .block_floats = TILED(block_floats),
    .ready_block = TILED(ready_block),
    .softmax_floats = TILED(softmax_floats),
    .softmax_begin = TILED(softmax_begin),
    .softmax_keys = TILED(softmax_keys),
    .softmax_end = softmax_end,
    .gradient_floats = TILED(gradient_floats),
    .gradient_begin = TILED(gradient_begin),
    .gradient_weights = TILED(gradient_weights),
    .gradient_q = TILED(gradient_q),
    .gradient_kv = TILED(gradient_kv),
    .gradient_end = TILED(gradient_end),
    .cache_block_bytes = cache_block_bytes,
    .cache_write = cache_write,
    .cache_read = cache_read,
    .decode = decode,
    .panels_from_rows = panels_from_rows,
    .panels_from_columns = panels_from_columns,
    .strips_from_rows = strips_from_rows,
    .multiply = TILED(multiply),
    .upper_rows = UPPER_ROWS,
    .norm_rows = norm_rows,
    .norm_rows_back = norm_rows_back,
    .relu_square = relu_square,
    .relu_square_back = relu_square_back,
    .cross_entropy = cross_entropy,
    .mirror = mirror,
    .sum_squares = sum_squares,
    .scale = scale,
    .update_adam = update_adam,
    .update_momentum = update_momentum,
    .fma_peak = fma_peak,
    .read_memory = read_memory,
};
