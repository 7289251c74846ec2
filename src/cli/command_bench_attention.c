/* SPDX-License-Identifier: MIT
 *
 * sia bench attention: how near the kernels come to what the machine can do, and what a scheme costs over
 * plain attention. Options to settings; bench_attention.c measures, bench_attention_report.c prints. */
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "cli/blas.h"
#include "cli/bench_attention.h"

/* sgemm only where OpenBLAS is installed; that it is not is an error only for who asked. */
static int read_ops(const cli_args *args, bench_settings *set) {
    char room[128];
    const char *words[CLI_MAX_LIST];
    int count, code = cli_word_list(args, "ops", room, sizeof room, words, &count);
    for (int i = 0; i < count && !code; i++) {
        int op = 0;
        while (op < OPS && strcmp(words[i], bench_op_names[op]) != 0) op++;
        if (op == OPS)
            return cli_usage(args, "--ops %s: want some of fma_peak, sgemm, read, forward, backward, decode",
                             words[i]);
        set->wanted[op] = true;
    }
    if (set->wanted[OP_SGEMM] && !cli_blas_get()) {
        if (cli_given(args, "ops")) return cli_usage(args, "--ops sgemm: OpenBLAS is not installed");
        set->wanted[OP_SGEMM] = false;
    }
    return code;
}

/* --heads and --head-dim are two columns of one table; a single value goes with every other. */
static int read_shapes(const cli_args *args, bench_settings *set) {
    int heads, dims;
    int code = cli_number_list(args, "heads", 1, 1024, set->heads, &heads);
    if (!code) code = cli_number_list(args, "head-dim", 8, 256, set->head_dim, &dims);
    if (code) return code;
    if (heads != dims && heads != 1 && dims != 1)
        return cli_usage(args, "--heads has %d numbers and --head-dim %d: want the same, or one", heads,
                         dims);
    set->shape_count = heads > dims ? heads : dims;
    for (int i = 1; i < set->shape_count; i++) {
        if (heads == 1) set->heads[i] = set->heads[0];
        if (dims == 1) set->head_dim[i] = set->head_dim[0];
    }
    return CLI_DONE;
}

static int read_settings(const cli_args *args, bench_settings *set) {
    bool quick = cli_flag(args, "quick");
    set->keys = cli_int(args, "keys");
    set->rounds = (int)cli_int(args, "rounds");
    set->read_bytes = (size_t)cli_int(args, "megabytes") << 20;
    if (quick && !cli_given(args, "rounds")) set->rounds = 3;
    int code = read_ops(args, set);
    if (!code) code = read_shapes(args, set);
    if (!code) code = cli_thread_list(args, set->threads, &set->thread_count);
    if (!code) code = cli_number_list(args, "len", 1, 1 << 20, set->len, &set->len_count);
    if (quick && !cli_given(args, "len")) set->len_count = 2;
    if (!code)
        code = cli_word_list(args, "schemes", set->scheme_room, sizeof set->scheme_room, set->schemes,
                             &set->scheme_count);
    return code;
}

static int run(const cli_args *args) {
    bool json = cli_flag(args, "json");
    sia_error err;
    bench *b = calloc(1, sizeof *b);
    if (!b) return cli_fail_memory(sizeof *b, "bench");
    int code = read_settings(args, &b->set);
    if (!code) {
        sia_status status = bench_create(b, &err);
        if (!status) bench_print_machine(b, json);
        if (!status) status = bench_measure(b, &err);
        if (!status && !json) bench_print_tables(b);
        if (!status && json) status = bench_print_json(b, &err);
        if (!status) bench_print_warnings(b);
        if (status) code = cli_fail(&err);
    }
    bench_destroy(b);
    free(b);
    return code;
}

static const cli_option options[] = {
    {"json", CLI_FLAG, NULL, NULL, "one JSON object a line on stdout", 0, 0},
    {"quick", CLI_FLAG, NULL, NULL, "3 rounds, the two smallest lengths: about 10 seconds", 0, 0},
    {"ops", CLI_TEXT, "LIST", "fma_peak,sgemm,read,forward,backward,decode", "what to measure", 0, 0},
    {"schemes", CLI_TEXT, "LIST", "nope,si+nope", "schemes; nope is plain attention", 0, 0},
    {"heads", CLI_TEXT, "LIST", "4,6", "heads, one number for each shape", 0, 0},
    {"head-dim", CLI_TEXT, "LIST", "64,128", "head dimensions, one for each shape", 0, 0},
    {"len", CLI_TEXT, "LIST", "256,1024,4096", "lengths of the forward and backward passes", 0, 0},
    {"keys", CLI_INT, "N", "65536", "positions in the cache for decode, at the widest shape", .min = 1,
     .max = 1 << 24},
    {"threads", CLI_TEXT, "LIST", "1,2", "numbers of threads, as far as the machine has them", 0, 0},
    {"megabytes", CLI_INT, "N", "512", "memory to measure the read bandwidth on: more than any cache",
     .min = 1, .max = 1 << 20},
    {"rounds", CLI_INT, "N", "11", "rounds", .min = 1, .max = CLI_MAX_ROUNDS},
    {0}};

const cli_command command_bench_attention = {
    .name = "bench attention",
    .summary = "The speed of attention, against what this machine can do",
    .examples = "  sia bench attention                                    a bit more than a minute\n"
                "  sia bench attention --quick\n"
                "  sia bench attention --json >speed.jsonl\n"
                "  sia bench attention --ops forward,backward --heads 8 --head-dim 64 --len 2048\n"
                "  sia bench attention --schemes nope,rope,si+prope --ops forward --threads 1\n"
                "  SIA_ISA=baseline sia bench attention --quick           the plain kernels\n",
    .options = options,
    .notes =
        "Each sample is taken between two measurements of the machine's rate of multiply-adds in registers\n"
        "(fma_peak), for decode also of its read bandwidth; fractions and ratios are taken in each "
        "round, and\n"
        "the median over the rounds is shown. Operations: 2 d N (N + 1) a head forward, 2.5 times that\n"
        "backward. For decode, 'x f32' is the speed over that of f32, 'read' the fraction of the read "
        "bandwidth. JSON has the quartiles too.\n"
        "\n"
        "With AMX (SIA_ISA=amx) products of floats are made of tiles of bfloat16, which take more of them a\n"
        "cycle than multiply-adds do: a pass may then be above the peak.\n"
        "\n"
        "A neighbour on the other hardware thread of the core takes half of its front end, which slows\n"
        "kernels down and the peak hardly at all. So before and after each sample its cores\n"
        "are given instructions that do nothing, to see how many they take in a cycle. 'alone' is the "
        "median\n"
        "over the rounds in which every core took at least 0.9 of the most in this run, with the number of\n"
        "these rounds.\n",
    .run = run,
};
