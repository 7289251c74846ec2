/* SPDX-License-Identifier: MIT
 *
 * What `sia bench attention` found: tables for people, lines of JSON for machines. All figures are medians
 * over the rounds; a fraction or a ratio is taken within each round first. */
#include "cli/bench_attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/threads.h"
#include "cli/blas.h"
#include "cli/machine.h"
#include "cli/show.h"

/* ---------------------------------------------------------------------------------------------- figures */

static const bench_cell *find(const bench *b, bench_op op, const char *scheme, const bench_problem *like,
                              int threads, sia_type type) {
    for (int i = 0; i < b->cell_count; i++) {
        const bench_cell *cell = &b->cells[i];
        const bench_problem *p = cell->problem;
        if (p && cell->op == op && cell->threads == threads && cell->type == type && p->len == like->len &&
            p->heads == like->heads && p->head_dim == like->head_dim && strcmp(p->scheme, scheme) == 0)
            return cell;
    }
    return NULL;
}

/* The cells that a cell is compared with; NULL when there is none, or when it is the cell itself. */
static const bench_cell *other(const bench_cell *cell, const bench_cell *found) {
    return found == cell ? NULL : found;
}
static const bench_cell *plain_of(const bench *b, const bench_cell *cell) {
    return other(cell, find(b, cell->op, "nope", cell->problem, cell->threads, cell->type));
}
static const bench_cell *single_of(const bench *b, const bench_cell *cell) {
    return other(cell, find(b, cell->op, cell->problem->scheme, cell->problem, 1, cell->type));
}
static const bench_cell *f32_of(const bench *b, const bench_cell *cell) {
    return other(cell, find(b, cell->op, cell->problem->scheme, cell->problem, cell->threads, SIA_F32));
}

static double time_ratio(const bench *b, const bench_cell *over, const bench_cell *under) {
    return cli_median_ratio(over->seconds, under->seconds, 1, b->set.rounds);
}

/* Over the rounds: work / seconds, as a fraction of a roof when there is one. */
static cli_quartiles rate(const bench *b, const bench_cell *cell, double work, const double *roof) {
    double values[CLI_MAX_ROUNDS];
    for (int i = 0; i < b->set.rounds; i++) values[i] = work / cell->seconds[i] / (roof ? roof[i] : 1);
    return cli_quartiles_of(values, b->set.rounds);
}

/* Whether the cores were ours in a round: they took nearly the most that was seen in the whole run. False where
 * that is not measured. */
static bool alone(const bench *b, const bench_cell *cell, int round) {
    return b->most_instructions > 0 && cell->instructions[round] >= 0.9 * b->most_instructions;
}

/* The median over the rounds in which the cores were ours, and how many they are; NAN and 0 when there is none:
 * of the fraction of a roof, of how much longer a cell takes than another. */
static double fraction_alone(const bench *b, const bench_cell *cell, double work, const double *roof,
                             int *rounds) {
    double values[CLI_MAX_ROUNDS];
    *rounds = 0;
    for (int i = 0; i < b->set.rounds; i++)
        if (alone(b, cell, i)) values[(*rounds)++] = work / cell->seconds[i] / roof[i];
    return *rounds ? cli_quartiles_of(values, *rounds).median : NAN;
}
static double time_ratio_alone(const bench *b, const bench_cell *over, const bench_cell *under, int *rounds) {
    double values[CLI_MAX_ROUNDS];
    *rounds = 0;
    for (int i = 0; i < b->set.rounds; i++)
        if (alone(b, over, i) && alone(b, under, i))
            values[(*rounds)++] = over->seconds[i] / under->seconds[i];
    return *rounds ? cli_quartiles_of(values, *rounds).median : NAN;
}

static cli_quartiles milliseconds(const bench *b, const bench_cell *cell) {
    cli_quartiles q = cli_quartiles_of(cell->seconds, b->set.rounds);
    return (cli_quartiles){q.low * 1e3, q.median * 1e3, q.high * 1e3};
}

/* ---------------------------------------------------------------------------------------------- JSON */

static void put(json_t *line, const char *name, double value) {
    json_object_set_new(line, name, sia_json_number(value));
}

static void put_quartiles(json_t *line, const char *name, cli_quartiles q) {
    json_object_set_new(line, name, json_pack("[f,f,f]", q.low, q.median, q.high));
}

/* Every line has the same first fields; what an operation does not have is null. */
static json_t *json_cell(const bench *b, const bench_cell *cell) {
    const bench_problem *p = cell->problem;
    json_t *line = json_pack("{s:s,s:s?}", "op", bench_op_names[cell->op], "scheme", p ? p->scheme : NULL);
    if (!line) return NULL;
    json_object_set_new(line, "heads", p ? json_integer(p->heads) : json_null());
    json_object_set_new(line, "head_dim", p ? json_integer(p->head_dim) : json_null());
    json_object_set_new(line, "len", p ? json_integer(p->len) : json_null());
    json_object_set_new(line, "threads", json_integer(cell->threads));
    cli_quartiles ms = milliseconds(b, cell), fraction = {NAN, NAN, NAN};
    put(line, "ms", ms.median);
    if (cell->operations > 0) fraction = rate(b, cell, cell->operations, cell->fma_rate);
    put(line, "gflops", cell->operations > 0 ? rate(b, cell, cell->operations / 1e9, NULL).median : NAN);
    put(line, "peak_fraction", fraction.median);
    if (cell->op == OP_DECODE) json_object_set_new(line, "type", json_string(bench_type_names[cell->type]));
    if (cell->bytes > 0) {
        put(line, "gb_per_s", rate(b, cell, cell->bytes / 1e9, NULL).median);
        put(line, "bandwidth_fraction", rate(b, cell, cell->bytes, cell->read_rate).median);
    }
    put_quartiles(line, "ms_quartiles", ms);
    if (cell->operations > 0) put_quartiles(line, "peak_fraction_quartiles", fraction);
    int rounds;
    if (cell->operations > 0) {
        put(line, "peak_fraction_alone", fraction_alone(b, cell, cell->operations, cell->fma_rate, &rounds));
        json_object_set_new(line, "rounds_alone", json_integer(rounds));
    }
    if (cell->bytes > 0) {
        put(line, "bandwidth_fraction_alone", fraction_alone(b, cell, cell->bytes, cell->read_rate, &rounds));
        put_quartiles(line, "bandwidth_fraction_quartiles", rate(b, cell, cell->bytes, cell->read_rate));
    }
    const bench_cell *plain = p ? plain_of(b, cell) : NULL, *single = p ? single_of(b, cell) : NULL,
                     *f32 = p ? f32_of(b, cell) : NULL;
    if (plain) put(line, "time_over_plain", time_ratio(b, cell, plain));
    if (single) {
        put(line, "speed_over_one_thread", time_ratio(b, single, cell));
        put(line, "speed_over_one_thread_alone", time_ratio_alone(b, single, cell, &rounds));
    }
    if (f32) put(line, "speed_over_f32", time_ratio(b, f32, cell));
    json_object_set_new(line, "rounds", json_integer(b->set.rounds));
    json_object_set_new(line, "isa", json_string(sia_isa()));
    return line;
}

sia_status bench_print_json(const bench *b, sia_error *err) {
    sia_status status = SIA_OK;
    for (int i = 0; i < b->cell_count && !status; i++)
        status = cli_json_line(json_cell(b, &b->cells[i]), err);
    return status;
}

/* ---------------------------------------------------------------------------------------------- tables */

void bench_print_machine(const bench *b, bool to_stderr) {
    FILE *stream = to_stderr ? stderr : stdout;
    fprintf(stream, "sia %s   kernels %s   processors %d   compiler %s\n", sia_version(), sia_isa(),
            sia_threads_available(), CLI_COMPILER);
    if (b->set.wanted[OP_SGEMM]) fprintf(stream, "%s, one thread a call\n", cli_blas_get()->name);
}

static const char *shape_text(const bench_problem *p, char text[24]) {
    (void)snprintf(text, 24, "%d x %d", (int)p->heads, (int)p->head_dim);
    return text;
}

static void print_roofs(const bench *b) {
    char product[32], read[32];
    (void)snprintf(read, sizeof read, "read %.0f MB", (double)b->set.read_bytes / (1 << 20));
    (void)snprintf(product, sizeof product, "sgemm %dx%dx%d", CLI_SGEMM_M, CLI_SGEMM_N, CLI_SGEMM_K);
    for (int i = 0; i < b->cell_count; i++) {
        const bench_cell *cell = &b->cells[i];
        const char *name = cell->op == OP_FMA_PEAK ? "fma peak" : cell->op == OP_SGEMM ? product : read;
        if (cell->problem) continue;
        printf("%-35s %7d %8.2f", name, cell->threads, milliseconds(b, cell).median);
        if (cell->op == OP_READ)
            printf(" %7.1f GB/s\n", rate(b, cell, cell->bytes / 1e9, NULL).median);
        else
            printf(" %7.1f %7.3f\n", rate(b, cell, cell->operations / 1e9, NULL).median,
                   rate(b, cell, cell->operations, cell->fma_rate).median);
    }
}

/* The last column. */
static void print_alone(const bench *b, const bench_cell *cell, double work, const double *roof) {
    int rounds;
    double fraction = fraction_alone(b, cell, work, roof, &rounds);
    if (rounds) printf(" %.3f (%d)", fraction, rounds);
    putchar('\n');
}

static void print_passes(const bench *b) {
    char shape[24];
    const bool *wanted = b->set.wanted;
    bool only_decode = true;
    for (int op = 0; op < OPS; op++) only_decode = only_decode && (op == OP_DECODE || !wanted[op]);
    if (only_decode) return;
    printf("\n%-8s %-10s %8s %6s %7s %8s %7s %7s %s\n", "op", "scheme", "h x dim", "len", "threads", "ms",
           "GFLOP/s", "of peak", "alone");
    print_roofs(b);
    for (int i = 0; i < b->cell_count; i++) {
        const bench_cell *cell = &b->cells[i];
        const bench_problem *p = cell->problem;
        if (!p || cell->op == OP_DECODE) continue;
        printf("%-8s %-10s %8s %6d %7d %8.2f %7.1f %7.3f", bench_op_names[cell->op], p->scheme,
               shape_text(p, shape), (int)p->len, cell->threads, milliseconds(b, cell).median,
               rate(b, cell, cell->operations / 1e9, NULL).median,
               rate(b, cell, cell->operations, cell->fma_rate).median);
        print_alone(b, cell, cell->operations, cell->fma_rate);
    }
}

static void print_decode(const bench *b) {
    char shape[24];
    if (!b->set.wanted[OP_DECODE]) return;
    printf("\n%-6s %-10s %8s %6s %7s %7s %6s %6s %6s %s\n", "decode", "scheme", "h x dim", "keys", "threads",
           "ms", "GB/s", "x f32", "read", "alone");
    for (int i = 0; i < b->cell_count; i++) {
        const bench_cell *cell = &b->cells[i];
        const bench_problem *p = cell->problem;
        if (cell->op != OP_DECODE) continue;
        const bench_cell *f32 = f32_of(b, cell);
        printf("%-6s %-10s %8s %6d %7d %7.2f %6.1f ", bench_type_names[cell->type], p->scheme,
               shape_text(p, shape), (int)p->len, cell->threads, milliseconds(b, cell).median,
               rate(b, cell, cell->bytes / 1e9, NULL).median);
        if (f32)
            printf("%6.2f", time_ratio(b, f32, cell));
        else
            printf("%6s", "");
        printf(" %6.3f", rate(b, cell, cell->bytes, cell->read_rate).median);
        print_alone(b, cell, cell->bytes, cell->read_rate);
    }
}

/* What a cell is compared with, and over which rounds. */
typedef enum comparison { WITH_PLAIN, WITH_ONE_THREAD, WITH_ONE_THREAD_ALONE, COMPARISONS } comparison;

static const bench_cell *base_of(const bench *b, const bench_cell *cell, comparison with) {
    return with == WITH_PLAIN ? plain_of(b, cell) : single_of(b, cell);
}

static void print_ratio(const bench *b, const bench_cell *cell, comparison with) {
    const bench_cell *base = base_of(b, cell, with);
    int rounds = 1;
    double ratio = with == WITH_PLAIN        ? time_ratio(b, cell, base)
                   : with == WITH_ONE_THREAD ? time_ratio(b, base, cell)
                                             : time_ratio_alone(b, base, cell, &rounds);
    if (rounds)
        printf(" %7.3f", ratio);
    else
        printf(" %7s", "-");
    if (with == WITH_ONE_THREAD_ALONE) printf(" (%d)", rounds);
}

/* One line: an operation, a shape, and the ratio at each length. */
static void print_ratio_line(const bench *b, const bench_cell *first, comparison with, const int64_t *len,
                             int len_count) {
    char shape[24];
    const bench_problem *p = first->problem;
    const char *name = first->op == OP_DECODE ? bench_type_names[first->type] : bench_op_names[first->op];
    printf("%-8s %-10s %12s %7d ", name, p->scheme, shape_text(p, shape), first->threads);
    for (int i = 0; i < len_count; i++) {
        bench_problem like = *p;
        like.len = len[i];
        print_ratio(b, find(b, first->op, p->scheme, &like, first->threads, first->type), with);
    }
    putchar('\n');
}

/* The cells of the first length stand for a line; those of the others are found from them. */
static void print_ratios(const bench *b, comparison with, bool decode) {
    static const char *const titles[] = {"time over plain (nope)", "speed over one thread",
                                         "the same, alone (rounds)"};
    const int64_t *len = decode ? &b->set.keys : b->set.len;
    int len_count = decode ? 1 : b->set.len_count;
    bool started = false;
    for (int i = 0; i < b->cell_count; i++) {
        const bench_cell *cell = &b->cells[i];
        if (!cell->problem || cell->problem->decode != decode || cell->problem->len != len[0]) continue;
        if (!base_of(b, cell, with)) continue;
        if (!started) {
            printf("\n%s%-*s %7s ", decode ? "decode: " : "", decode ? 24 : 32, titles[with], "threads");
            for (int j = 0; j < len_count; j++)
                printf(with == WITH_ONE_THREAD_ALONE ? " %7d    " : " %7d", (int)len[j]);
            putchar('\n');
        }
        started = true;
        print_ratio_line(b, cell, with, len, len_count);
    }
}

/* Bytes of the last cache that a processor has for itself or shares; 0 when the system does not say. (sysconf
 * answers for the whole socket on some processors, whose parts do not share.) */
static double last_cache(void) {
    double kilobytes = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (file && fscanf(file, "%lfK", &kilobytes) != 1) kilobytes = 0;
    if (file) (void)fclose(file);
    return kilobytes * 1024;
}

/* A core that is shared: a neighbour on its other hardware thread takes half of its front end. */
static void warn_of_sharing(const bench *b) {
    int shared = 0, samples = 0;
    for (int i = 0; i < b->cell_count; i++)
        for (int round = 0; round < b->set.rounds && b->cells[i].instructions[round] > 0; round++, samples++)
            shared += !alone(b, &b->cells[i], round);
    if (samples && shared > samples / 10)
        fprintf(stderr,
                "sia bench attention: another hardware thread shared a core in %.0f%% of the samples; "
                "'alone' is the median over the others (their number)\n",
                100.0 * shared / samples);
}

/* What one core wrote, another waits for, the longer the farther it is. */
static void warn_of_distance(const bench *b) {
    int far = b->hand_over.far, samples = b->hand_over.samples;
    if (far > samples / 10)
        fprintf(
            stderr,
            "sia bench attention: in %.0f%% of the samples of several threads a line of the cache took %.0f "
            "ns to another core and back (%.0f at best): cores that share no cache, or that others use; at "
            "short lengths threads then add up less\n",
            100.0 * far / samples, 1e9 * b->hand_over.sum / far, 1e9 * b->hand_over.least);
}

/* Threads that do not add up have no cores of their own: others are at work, or two share one. */
static void warn_of_threads(const bench *b) {
    const bench_cell *single = NULL;
    for (int i = 0; i < b->cell_count; i++)
        if (b->cells[i].op == OP_FMA_PEAK && b->cells[i].threads == 1) single = &b->cells[i];
    for (int i = 0; single && i < b->cell_count; i++) {
        const bench_cell *cell = &b->cells[i];
        if (cell->op != OP_FMA_PEAK) continue;
        double times = cli_median_ratio(cell->fma_rate, single->fma_rate, 1, b->set.rounds);
        if (times < 0.9 * cell->threads)
            fprintf(
                stderr,
                "sia bench attention: %d threads reach %.2f times the FMA peak of one: they had fewer cores "
                "to themselves, and speeds over one thread say little\n",
                cell->threads, times);
    }
}

void bench_print_warnings(const bench *b) {
    double largest = last_cache(), least = INFINITY;
    cli_flush();
    for (int i = 0; i < b->cell_count; i++)
        if (b->cells[i].op == OP_DECODE) least = fmin(least, b->cells[i].bytes);
    if (least < 2 * largest)
        fprintf(
            stderr,
            "sia bench attention: the smallest KV cache has %.0f MB, the processor's last cache %.0f: decode "
            "reads partly from it; --keys makes it larger\n",
            least / 1e6, largest / 1e6);
    if (b->busy < 0.97 * b->wall)
        fprintf(
            stderr,
            "sia bench attention: other processes took %.0f%% of the processor meanwhile: the figures are "
            "theirs too\n",
            100 * (1 - b->busy / b->wall));
    if (strcmp(sia_isa(), "amx") == 0)
        fprintf(stderr, "sia bench attention: with AMX the passes go through tiles; the FMA peak is that of "
                        "vectors, and no "
                        "bound for them\n");
    warn_of_sharing(b);
    warn_of_distance(b);
    warn_of_threads(b);
}

void bench_print_tables(const bench *b) {
    printf("median of %d round%s\n", b->set.rounds, cli_plural(b->set.rounds));
    print_passes(b);
    print_decode(b);
    for (int with = 0; with < COMPARISONS; with++)
        for (int decode = 0; decode < 2; decode++) print_ratios(b, (comparison)with, decode);
}
