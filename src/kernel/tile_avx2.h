/* SPDX-License-Identifier: MIT
 *
 * The steps of a product with AVX2 (tile.h includes this) in assembly, four in each round of a loop:
 *
 *     for each k of four      ymm12, ymm13 = row k of b
 *         for each row r          ymm14 = a(r, k) in every lane;  c[r][0] += ymm14 * ymm12;  c[r][1] += ymm14 * ymm13
 *
 * Twelve sums in ymm0 to ymm11, one row of b and one number of a; a in rax, b in rdx. On a core of one's own, C does it
 * nearly as fast. When another thread shares the core, it gets every second chance to fetch instructions, and throws out
 * what the core had kept of ours: then it counts how many there are, and how long they are (docs/speed.md). So
 *
 *     no moves from register to register, which gcc puts between steps;
 *     distances that fit one byte: b is met in its middle, rows of a that are far apart by index registers. A loop has
 *     84 instructions in 449 or 457 bytes; gcc's had 85 to 104 in 467 to 606;
 *     one copy of the loop, which a tile that has begun enters behind the first step. */
#ifndef SIA_KERNEL_TILE_AVX2_H
#define SIA_KERNEL_TILE_AVX2_H

/* The sums, in the registers that the assembly names, and back: not even there are moves, once this is inlined. */
#define TAKE_SUMS(c)                                                                        \
    register vf c00 __asm__("ymm0") = (c)->sum[0][0], c01 __asm__("ymm1") = (c)->sum[0][1]; \
    register vf c10 __asm__("ymm2") = (c)->sum[1][0], c11 __asm__("ymm3") = (c)->sum[1][1]; \
    register vf c20 __asm__("ymm4") = (c)->sum[2][0], c21 __asm__("ymm5") = (c)->sum[2][1]; \
    register vf c30 __asm__("ymm6") = (c)->sum[3][0], c31 __asm__("ymm7") = (c)->sum[3][1]; \
    register vf c40 __asm__("ymm8") = (c)->sum[4][0], c41 __asm__("ymm9") = (c)->sum[4][1]; \
    register vf c50 __asm__("ymm10") = (c)->sum[5][0], c51 __asm__("ymm11") = (c)->sum[5][1];
#define SUMS                                                                                           \
    "+x"(c00), "+x"(c01), "+x"(c10), "+x"(c11), "+x"(c20), "+x"(c21), "+x"(c30), "+x"(c31), "+x"(c40), \
        "+x"(c41), "+x"(c50), "+x"(c51)
#define GIVE_SUMS(c)                                                                        \
    (c)->sum[0][0] = c00, (c)->sum[0][1] = c01, (c)->sum[1][0] = c10, (c)->sum[1][1] = c11, \
    (c)->sum[2][0] = c20, (c)->sum[2][1] = c21, (c)->sum[3][0] = c30, (c)->sum[3][1] = c31, \
    (c)->sum[4][0] = c40, (c)->sum[4][1] = c41, (c)->sum[5][0] = c50, (c)->sum[5][1] = c51

#define ROW(address, left, right)                     \
    "vbroadcastss " address ", %%ymm14\n\t"           \
    "vfmadd231ps %%ymm12, %%ymm14, %%ymm" left "\n\t" \
    "vfmadd231ps %%ymm13, %%ymm14, %%ymm" right "\n\t"
#define STEP(k, row0, row1, row2, row3, row4, row5)                                                        \
    "vmovups -128+64*" k "(%%rdx), %%ymm12\n\t"                                                            \
    "vmovups -96+64*" k "(%%rdx), %%ymm13\n\t" ROW(row0, "0", "1") ROW(row1, "2", "3") ROW(row2, "4", "5") \
        ROW(row3, "6", "7") ROW(row4, "8", "9") ROW(row5, "10", "11")
/* The loop, until b is at `end`. Label 2 is behind the first step. */
#define ROUNDS(step0, step1, step2, step3, advance, end)     \
    "1:\n\t" step0 "2:\n\t" step1 step2 step3 advance "\n\t" \
    "add $256, %%rdx\n\t"                                    \
    "cmp " end ", %%rdx\n\t"                                 \
    "jne 1b\n\t"
#define ENTER                       \
    "lea 128(%[b]), %%rdx\n\t"      \
    "test %k[begun], %k[begun]\n\t" \
    "jnz 2f\n"

/* a by rows: the numbers of a step lie `row` apart, those of the next one behind them. */
#define STEP_BY_ROWS(k)                                                                                  \
    STEP(k, "4*" k "(%%rax)", "4*" k "(%%rax,%[row])", "4*" k "(%%rax,%[row],2)", "4*" k "(%%rax,%%r8)", \
         "4*" k "(%%rax,%[row],4)", "4*" k "(%%rax,%%r9)")
INLINE void rounds_by_rows(tile *c, bool begun, int64_t rounds, const float *a, int64_t row, const float *b) {
    TAKE_SUMS(c)
    __asm__ volatile("mov %[a], %%rax\n\t"
                     "lea (%[row],%[row],2), %%r8\n\t"
                     "lea (%[row],%[row],4), %%r9\n\t" /* three rows, and five */
                     ENTER ROUNDS(STEP_BY_ROWS("0"), STEP_BY_ROWS("1"), STEP_BY_ROWS("2"), STEP_BY_ROWS("3"),
                                  "add $16, %%rax", "%[end]")
                     : SUMS
                     : [a] "r"(a), [b] "r"(b), [row] "r"(row * (int64_t)sizeof *a),
                       [end] "r"(b + 32 + rounds * 64), [begun] "r"((int)begun)
                     : "rax", "rdx", "r8", "r9", "xmm12", "xmm13", "xmm14", "cc", "memory");
    GIVE_SUMS(c);
}

/* a by columns: the numbers of a step are neighbours, those of the next one `next` further on. */
#define STEP_BY_COLUMNS(k, index)                                                               \
    STEP(k, "(%%rax" index ")", "4(%%rax" index ")", "8(%%rax" index ")", "12(%%rax" index ")", \
         "16(%%rax" index ")", "20(%%rax" index ")")
INLINE void rounds_by_columns(tile *c, bool begun, int64_t rounds, const float *a, int64_t next,
                              const float *b) {
    TAKE_SUMS(c)
    __asm__ volatile("mov %[a], %%rax\n\t"
                     "lea (%[next],%[next],2), %%r8\n\t" /* three steps */
                     ENTER ROUNDS(STEP_BY_COLUMNS("0", ""), STEP_BY_COLUMNS("1", ",%[next]"),
                                  STEP_BY_COLUMNS("2", ",%[next],2"), STEP_BY_COLUMNS("3", ",%%r8"),
                                  "lea (%%rax,%[next],4), %%rax", "%[end]")
                     : SUMS
                     : [a] "r"(a), [b] "r"(b), [next] "r"(next * (int64_t)sizeof *a),
                       [end] "r"(b + 32 + rounds * 64), [begun] "r"((int)begun)
                     : "rax", "rdx", "r8", "xmm12", "xmm13", "xmm14", "cc", "memory");
    GIVE_SUMS(c);
}

INLINE void tile_rounds(tile *c, bool begun, int64_t rounds, const float *a, int64_t row, int64_t next,
                        const float *b) {
    if (next == 1) /* which compilers know */
        rounds_by_rows(c, begun, rounds, a, row, b);
    else
        rounds_by_columns(c, begun, rounds, a, next, b);
}

/* a from panels: its rows lie 64 bytes apart, and four of the six are within one byte's reach of the third. r9 is where
 * b is when the panel of a ends. */
#define STEP_FROM_PANELS(k)                                                                     \
    STEP(k, "-128+4*" k "(%%rax)", "-64+4*" k "(%%rax)", "4*" k "(%%rax)", "64+4*" k "(%%rax)", \
         "4*" k "(%%rax,%%r8)", "64+4*" k "(%%rax,%%r8)")
#define END_OF_PANEL       \
    "cmp %[end], %%r9\n\t" \
    "cmova %[end], %%r9\n\t"
INLINE void tile_from_panels(tile *c, int d, const float *a, int64_t between, const float *b) {
    TAKE_SUMS(c)
    __asm__ volatile("lea 128(%[a]), %%rax\n\t"
                     "lea 128(%[b]), %%rdx\n\t"
                     "mov $128, %%r8d\n\t"
                     "lea 1024(%%rdx), %%r9\n\t" END_OF_PANEL "jmp 2f\n" /* the first step is done */
                     ROUNDS(STEP_FROM_PANELS("0"), STEP_FROM_PANELS("1"), STEP_FROM_PANELS("2"),
                            STEP_FROM_PANELS("3"), "add $16, %%rax", "%%r9") /* then the next panel */
                     "cmp %[end], %%rdx\n\t"
                     "je 3f\n\t"
                     "add %[between], %%rax\n\t"
                     "add $1024, %%r9\n\t" END_OF_PANEL "jmp 1b\n"
                     "3:\n\t"
                     : SUMS
                     : [a] "r"(a), [b] "r"(b), [between] "r"((between - NR) * (int64_t)sizeof *a),
                       [end] "r"(b + 32 + (int64_t)d * NR)
                     : "rax", "rdx", "r8", "r9", "xmm12", "xmm13", "xmm14", "cc", "memory");
    GIVE_SUMS(c);
}

#endif
