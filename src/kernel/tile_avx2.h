/* SPDX-License-Identifier: MIT
 *
 * Four steps of a product with AVX2 (tile.h includes this), as one piece of assembly:
 *
 *     for each k of four      ymm12, ymm13 = row k of b
 *         for each row r          ymm14 = a(r, k) in every lane;  c[r][0] += ymm14 * ymm12;  c[r][1] += ymm14 * ymm13
 *
 * Twelve sums, one row of b and one number of a. From C, gcc moves sums from register to register between steps, and
 * reaches rows that are far apart by distances of four bytes in every instruction. Here an index register does that, and
 * b is met in its middle, so that distances fit one byte: a loop of 84 instructions in 457 bytes, which had 85 to 104 in
 * 467 to 606. On a core of one's own that is hardly felt; when another thread shares it, it gets every second chance to
 * fetch instructions (docs/speed.md). */
#ifndef SIA_KERNEL_TILE_AVX2_H
#define SIA_KERNEL_TILE_AVX2_H

#define ROUND_ROW(address, left, right)             \
    "vbroadcastss " address ", %%ymm14\n\t"         \
    "vfmadd231ps %%ymm12, %%ymm14, %[" left "]\n\t" \
    "vfmadd231ps %%ymm13, %%ymm14, %[" right "]\n\t"
#define ROUND_STEP(k, row0, row1, row2, row3, row4, row5)                                                 \
    "vmovups -128+64*" k "(%[b]), %%ymm12\n\t"                                                            \
    "vmovups -96+64*" k "(%[b]), %%ymm13\n\t" ROUND_ROW(row0, "c00", "c01") ROUND_ROW(row1, "c10", "c11") \
        ROUND_ROW(row2, "c20", "c21") ROUND_ROW(row3, "c30", "c31") ROUND_ROW(row4, "c40", "c41")         \
            ROUND_ROW(row5, "c50", "c51")
#define ROUND_SUMS(c)                                                                       \
    [c00] "+x"((c)->sum[0][0]), [c01] "+x"((c)->sum[0][1]), [c10] "+x"((c)->sum[1][0]),     \
        [c11] "+x"((c)->sum[1][1]), [c20] "+x"((c)->sum[2][0]), [c21] "+x"((c)->sum[2][1]), \
        [c30] "+x"((c)->sum[3][0]), [c31] "+x"((c)->sum[3][1]), [c40] "+x"((c)->sum[4][0]), \
        [c41] "+x"((c)->sum[4][1]), [c50] "+x"((c)->sum[5][0]), [c51] "+x"((c)->sum[5][1])

/* a by rows: the numbers of a step lie `row` apart, those of the next one behind them. */
#define STEP_BY_ROWS(k)                                                              \
    ROUND_STEP(k, "4*" k "(%[a])", "4*" k "(%[a],%[row])", "4*" k "(%[a],%[row],2)", \
               "4*" k "(%[a],%[row3])", "4*" k "(%[a],%[row],4)", "4*" k "(%[a],%[row5])")
INLINE void round_by_rows(tile *c, const float *a, int64_t row, const float *b) {
    row *= (int64_t)sizeof *a;
    __asm__ volatile(STEP_BY_ROWS("0") STEP_BY_ROWS("1") STEP_BY_ROWS("2") STEP_BY_ROWS("3")
                     : ROUND_SUMS(c)
                     : [a] "r"(a), [row] "r"(row), [row3] "r"(3 * row), [row5] "r"(5 * row), [b] "R"(b + 32)
                     : "xmm12", "xmm13", "xmm14", "memory");
}

/* a by columns: the numbers of a step are neighbours, those of the next one `next` further on. */
#define STEP_BY_COLUMNS(k, index)                                                                 \
    ROUND_STEP(k, "(%[a]" index ")", "4(%[a]" index ")", "8(%[a]" index ")", "12(%[a]" index ")", \
               "16(%[a]" index ")", "20(%[a]" index ")")
INLINE void round_by_columns(tile *c, const float *a, int64_t next, const float *b) {
    next *= (int64_t)sizeof *a;
    __asm__ volatile(STEP_BY_COLUMNS("0", "") STEP_BY_COLUMNS("1", ",%[next]")
                         STEP_BY_COLUMNS("2", ",%[next],2") STEP_BY_COLUMNS("3", ",%[next3]")
                     : ROUND_SUMS(c)
                     : [a] "r"(a), [next] "r"(next), [next3] "r"(3 * next), [b] "R"(b + 32)
                     : "xmm12", "xmm13", "xmm14", "memory");
}

INLINE void tile_round(tile *c, const float *a, int64_t row, int64_t next, const float *b) {
    if (next == 1) /* which compilers know */
        round_by_rows(c, a, row, b);
    else
        round_by_columns(c, a, next, b);
}

#endif
