/* SPDX-License-Identifier: MIT
 *
 * sia bench train: how many tokens a second a model learns from, and how near that comes to what the machine
 * can do.
 *
 *     gradient    forward and backward over a batch, with the packing of the weights that every step needs
 *     optimizer   Muon and Adam
 *     step        all of it, as 'sia train' does it
 *
 *     of peak = (operations of the model's products and attention + those of Muon) / seconds / FMA peak
 *
 * What is computed twice (a backward pass of attention, --recompute) counts once. The tokens are random and
 * new in every step, so the weights stay those of a model in training. */
#include "cli/commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/threads.h"
#include "cli/bench.h"
#include "cli/bench_ranks.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/settings.h"
#include "cli/show.h"
#include "optim/muon.h"
#include "train/trainer.h"

typedef enum train_op { OP_GRADIENT, OP_OPTIMIZER, OP_STEP, OPS } train_op;
static const char *const op_names[OPS] = {"gradient", "optimizer", "step"};

enum { WARM_STEPS = 3 };
static const double sample_seconds = 0.05;

/* One model on one number of threads, and what was measured with it. */
typedef struct problem {
    const char *preset;
    sia_settings set;
    int threads;
    sia_model *m;
    sia_trainer *trainer;
    sia_training *training; /* a second place for activations, to run gradients alone */
    uint32_t *ids, *targets;
    int64_t step;
    double operations[OPS];
    int64_t repeats[OPS];
    double seconds[OPS][CLI_MAX_ROUNDS], fma_rate[OPS][CLI_MAX_ROUNDS];
} problem;

typedef struct bench {
    char preset_room[128];
    const char *presets[CLI_MAX_LIST];
    int64_t threads[CLI_MAX_LIST];
    int preset_count, thread_count, rounds, problem_count;
    problem *problems;
    cli_roofs *roofs;
    double wall,
        busy; /* seconds of the samples on one thread, and what of them the processor worked for us */
} bench;

/* ---------------------------------------------------------------------------------------------- problems */

static sia_status fill(void *context, int64_t step, uint32_t *ids, uint32_t *targets, sia_error *err) {
    (void)err;
    const sia_settings *set = context;
    int64_t tokens = set->training.batch * set->model.train_len;
    for (int64_t i = 0; i < tokens; i++) {
        ids[i] = (uint32_t)sia_random_below((uint64_t)step, 2 * (uint64_t)i, set->model.vocabulary);
        targets[i] = (uint32_t)sia_random_below((uint64_t)step, 2 * (uint64_t)i + 1, set->model.vocabulary);
    }
    return SIA_OK;
}

static int64_t tokens_of(const problem *p) { return p->set.training.batch * p->set.model.train_len; }

static void count_operations(problem *p) {
    const sia_parameters *list = &p->m->parameters;
    double model = sia_model_flops(&p->set.model, p->set.model.train_len) * (double)tokens_of(p), muon = 0;
    for (int i = 0; i < list->count; i++)
        if (list->list[i].group == SIA_GROUP_MATRIX)
            muon += sia_muon_flops(list->list[i].rows, list->list[i].columns);
    p->operations[OP_GRADIENT] = model;
    p->operations[OP_OPTIMIZER] = muon;
    p->operations[OP_STEP] = model + muon;
}

static sia_status problem_create(problem *p, sia_error *err) {
    const sia_training_settings *t = &p->set.training;
    sia_status status = sia_settings_complete(&p->set, err);
    if (!status) status = sia_model_create(&p->m, &p->set.model, p->threads, err);
    if (!status) status = sia_trainer_create(&p->trainer, p->m, &p->set, fill, &p->set, err);
    if (!status)
        status = sia_training_create(&p->training, p->m, t->micro_batch, p->set.model.train_len, t->recompute,
                                     err);
    if (status) return status;
    p->ids = sia_alloc((size_t)tokens_of(p), sizeof *p->ids);
    p->targets = sia_alloc((size_t)tokens_of(p), sizeof *p->targets);
    if (!p->ids || !p->targets) return sia_fail_memory(err, (size_t)tokens_of(p) * sizeof *p->ids, "batch");
    (void)fill(&p->set, 0, p->ids, p->targets, err);
    count_operations(p);
    return SIA_OK;
}

static void problem_destroy(problem *p) {
    sia_trainer_destroy(p->trainer);
    sia_training_destroy(p->training);
    sia_model_destroy(p->m);
    sia_free(p->ids);
    sia_free(p->targets);
}

/* ---------------------------------------------------------------------------------------------- measuring */

static sia_status run_gradient(problem *p, sia_error *err) {
    int64_t tokens = tokens_of(p), part = p->set.training.micro_batch * p->set.model.train_len, scored;
    double sum;
    sia_status status = sia_model_pack(p->m, true, err);
    for (int64_t at = 0; at < tokens && !status; at += part)
        status = sia_training_run(p->training, p->ids + at, p->targets + at, 1 / (float)tokens, at > 0, &sum,
                                  &scored, err);
    return status;
}

static sia_status call(problem *p, train_op op, sia_error *err) {
    sia_step_result result;
    if (op == OP_GRADIENT) return run_gradient(p, err);
    if (op == OP_STEP) return sia_trainer_step(p->trainer, p->step++, &result, err);
    /* A rate of 0: many steps along one gradient would lead the weights astray. */
    return sia_optimizer_step(sia_trainer_optimizer(p->trainer), p->step, 0, NULL, err);
}

static double fma_rate(const bench *b, int threads) {
    return cli_fma_operations(b->roofs, threads) / cli_fma_seconds(b->roofs, threads);
}

static sia_status sample(bench *b, problem *p, train_op op, int round, sia_error *err) {
    sia_status status = SIA_OK;
    int64_t repeats = p->repeats[op];
    double before = fma_rate(b, p->threads), busy = cli_process_seconds(), started = cli_seconds();
    for (int64_t i = 0; i < repeats && !status; i++) status = call(p, op, err);
    double seconds = cli_seconds() - started;
    if (p->threads == 1) {
        b->busy += cli_process_seconds() - busy;
        b->wall += seconds;
    }
    p->seconds[op][round] = seconds / (double)repeats;
    p->fma_rate[op][round] = (before + fma_rate(b, p->threads)) / 2;
    return status;
}

/* Some real steps, after which no matrix is zero any more; then how many calls make a sample. */
static sia_status warm_up(problem *p, sia_error *err) {
    sia_status status = SIA_OK;
    for (int i = 0; i < WARM_STEPS && !status; i++) status = call(p, OP_STEP, err);
    for (int op = 0; op < OPS && !status; op++) {
        double started = cli_seconds();
        status = call(p, (train_op)op, err);
        p->repeats[op] = (int64_t)(sample_seconds / fmax(cli_seconds() - started, 1e-6)) + 1;
    }
    return status;
}

static sia_status measure(bench *b, sia_error *err) {
    cli_progress progress;
    sia_status status = SIA_OK;
    int count = b->problem_count;
    if (!isatty(STDERR_FILENO)) cli_progress_silence();
    cli_catch_stop();
    cli_progress_start(&progress, "bench train", (b->rounds + 1.0) * count, "", 1);
    for (int round = -1; round < b->rounds; round++)
        for (int i = 0; i < count && !status; i++) {
            problem *p = &b->problems[round % 2 == 0 ? i : count - 1 - i];
            if (cli_stopped()) status = sia_fail(err, SIA_STOPPED, "stopped");
            if (!status && round < 0) status = warm_up(p, err);
            for (int op = 0; op < OPS && !status && round >= 0; op++)
                status = sample(b, p, (train_op)op, round, err);
            cli_progress_update(&progress, (round + 1.0) * count + i + 1);
        }
    cli_progress_end(&progress);
    return status;
}

/* ---------------------------------------------------------------------------------------------- report */

/* work / seconds, over a roof where there is one. */
static cli_quartiles rate(const bench *b, const problem *p, train_op op, double work, bool over_peak) {
    double values[CLI_MAX_ROUNDS];
    for (int i = 0; i < b->rounds; i++)
        values[i] = work / p->seconds[op][i] / (over_peak ? p->fma_rate[op][i] : 1);
    return cli_quartiles_of(values, b->rounds);
}

/* The same on one thread; NULL when it was not measured or is this one. */
static const problem *single_of(const bench *b, const problem *p) {
    for (int i = 0; i < b->problem_count && p->threads > 1; i++)
        if (b->problems[i].threads == 1 && !strcmp(b->problems[i].preset, p->preset)) return &b->problems[i];
    return NULL;
}

static void put_quartiles(json_t *line, const char *name, cli_quartiles q, double scale) {
    (void)json_object_set_new(line, name,
                              json_pack("[f,f,f]", scale * q.low, scale * q.median, scale * q.high));
}

static json_t *json_of(const bench *b, const problem *p, train_op op) {
    const sia_model_config *c = &p->set.model;
    cli_quartiles seconds = cli_quartiles_of(p->seconds[op], b->rounds);
    cli_quartiles fraction = rate(b, p, op, p->operations[op], true);
    json_t *line = json_pack(
        "{s:s, s:s, s:i, s:f, s:f, s:f, s:f}", "op", op_names[op], "preset", p->preset, "threads", p->threads,
        "tokens_per_s", rate(b, p, op, (double)tokens_of(p), false).median, "peak_fraction", fraction.median,
        "ms", 1e3 * seconds.median, "gflops", rate(b, p, op, p->operations[op] / 1e9, false).median);
    if (!line) return NULL;
    put_quartiles(line, "peak_fraction_quartiles", fraction, 1);
    put_quartiles(line, "ms_quartiles", seconds, 1e3);
    const problem *single = single_of(b, p);
    if (single)
        (void)json_object_set_new(
            line, "speed_over_one_thread",
            json_real(cli_median_ratio(single->seconds[op], p->seconds[op], 1, b->rounds)));
    json_t *shape = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:f, s:i, s:s}", "scheme", c->scheme, "layers",
        c->layers, "width", c->width, "heads", c->heads, "vocabulary", (int)c->vocabulary, "len",
        (json_int_t)c->train_len, "batch", (json_int_t)p->set.training.batch, "micro_batch",
        (json_int_t)p->set.training.micro_batch, "parameters", (json_int_t)sia_model_size(p->m), "memory_mb",
        (double)sia_trainer_bytes(p->trainer) / 1e6, "rounds", b->rounds, "isa", sia_isa());
    (void)json_object_update_missing(line, shape);
    json_decref(shape);
    return line;
}

static sia_status print_json(const bench *b, sia_error *err) {
    sia_status status = SIA_OK;
    for (int i = 0; i < b->problem_count; i++)
        for (int op = 0; op < OPS && !status; op++)
            status = cli_json_line(json_of(b, &b->problems[i], (train_op)op), err);
    return status;
}

static void print_shapes(const bench *b) {
    for (int i = 0; i < b->problem_count; i++) {
        const problem *p = &b->problems[i];
        const sia_model_config *c = &p->set.model;
        if (i && !strcmp(p->preset, p[-1].preset)) continue;
        printf("%s: %s, %d layers, width %d, %d heads, vocabulary %u\n"
               "  batch %lld of %lld tokens; %.2f M parameters, %.0f MB of memory\n",
               p->preset, c->scheme, c->layers, c->width, c->heads, c->vocabulary,
               (long long)p->set.training.batch, (long long)c->train_len, (double)sia_model_size(p->m) / 1e6,
               (double)sia_trainer_bytes(p->trainer) / 1e6);
    }
}

static void print_table(const bench *b) {
    printf("median of %d round%s; kernels %s\n", b->rounds, cli_plural(b->rounds), sia_isa());
    print_shapes(b);
    printf("\n%-11s %-10s %7s %9s %9s %8s %7s %8s\n", "preset", "op", "threads", "ms", "tokens/s", "GFLOP/s",
           "of peak", "over one");
    for (int i = 0; i < b->problem_count; i++)
        for (int op = 0; op < OPS; op++) {
            const problem *p = &b->problems[i], *single = single_of(b, p);
            printf("%-11s %-10s %7d %9.2f %9.0f %8.1f %7.3f", p->preset, op_names[op], p->threads,
                   1e3 * cli_quartiles_of(p->seconds[op], b->rounds).median,
                   rate(b, p, (train_op)op, (double)tokens_of(p), false).median,
                   rate(b, p, (train_op)op, p->operations[op] / 1e9, false).median,
                   rate(b, p, (train_op)op, p->operations[op], true).median);
            if (single) printf(" %8.2f", cli_median_ratio(single->seconds[op], p->seconds[op], 1, b->rounds));
            putchar('\n');
        }
}

static void print_warnings(const bench *b) {
    cli_flush();
    if (b->busy < 0.97 * b->wall)
        fprintf(
            stderr,
            "sia bench train: other processes took %.0f%% of the processor meanwhile: the figures are theirs "
            "too\n",
            100 * (1 - b->busy / b->wall));
}

/* ---------------------------------------------------------------------------------------------- options */

/* `bench` is the shape that this project's figures of speed are given for. */
static sia_status preset_settings(const char *name, sia_settings *s, sia_error *err) {
    if (strcmp(name, "bench") != 0) return sia_settings_preset(s, name, err);
    sia_status status = sia_settings_preset(s, "small", err);
    s->model.layers = 6;
    s->model.train_len = 256;
    return status;
}

/* A preset as the options change it; returns CLI_DONE or an exit code. */
static int read_settings(const cli_args *args, const char *preset, sia_settings *settings) {
    sia_error err;
    sia_settings base;
    if (preset_settings(preset, &base, &err)) return cli_fail(&err);
    if (cli_given(args, "len")) base.model.train_len = cli_int(args, "len");
    return cli_settings(args, &base, settings);
}

static int make_problems(const cli_args *args, bench *b) {
    b->problems = calloc((size_t)b->preset_count * (size_t)b->thread_count + 1, sizeof *b->problems);
    if (!b->problems) return cli_fail_memory(sizeof *b->problems, "bench");
    for (int i = 0; i < b->preset_count; i++) {
        sia_error err;
        sia_settings settings;
        int code = read_settings(args, b->presets[i], &settings);
        if (code) return code;
        for (int j = 0; j < b->thread_count; j++) {
            problem *p = &b->problems[b->problem_count++];
            p->preset = b->presets[i];
            p->set = settings;
            p->threads = (int)b->threads[j];
            if (problem_create(p, &err)) return cli_fail(&err);
        }
    }
    return CLI_DONE;
}

/* Under mpirun: each preset on all ranks, each rank with the first of the numbers of threads. */
static int run_ranks(const cli_args *args, const bench *b) {
    int code = CLI_DONE;
    for (int i = 0; i < b->preset_count && !code; i++) {
        sia_settings settings;
        code = read_settings(args, b->presets[i], &settings);
        if (!code)
            code = cli_bench_on_ranks(&(cli_bench_ranks){.preset = b->presets[i],
                                                         .settings = &settings,
                                                         .fill = fill,
                                                         .threads = (int)b->threads[0],
                                                         .together = (int)cli_int(args, "context-parallel"),
                                                         .rounds = b->rounds,
                                                         .alone = !cli_flag(args, "ranks-only"),
                                                         .json = cli_flag(args, "json")});
    }
    return code;
}

static int run_bench(const cli_args *args, bench *b) {
    sia_error err;
    int most = 1;
    if (cli_given(args, "len") && cli_given(args, "train-len"))
        return cli_usage(args, "want --len or --train-len, which are the same, not both");
    b->rounds = (int)cli_int(args, "rounds");
    int code =
        cli_word_list(args, "preset", b->preset_room, sizeof b->preset_room, b->presets, &b->preset_count);
    if (!code) code = cli_thread_list(args, b->threads, &b->thread_count);
    if (!code && cli_ranks()) return run_ranks(args, b);
    if (!code && (cli_int(args, "context-parallel") > 1 || cli_flag(args, "ranks-only")))
        return cli_usage(args, "--context-parallel and --ranks-only are for mpirun");
    if (!code) code = make_problems(args, b);
    if (code) return code;
    for (int i = 0; i < b->thread_count; i++) most = b->threads[i] > most ? (int)b->threads[i] : most;
    sia_status status = cli_roofs_create(&b->roofs, most, false, 0, &err);
    if (!status) status = measure(b, &err);
    if (!status && cli_flag(args, "json")) status = print_json(b, &err);
    if (status) return cli_fail(&err);
    if (!cli_flag(args, "json")) print_table(b);
    print_warnings(b);
    return CLI_DONE;
}

static int run(const cli_args *args) {
    bench *b = calloc(1, sizeof *b);
    if (!b) return cli_fail_memory(sizeof *b, "bench");
    int code = run_bench(args, b);
    for (int i = 0; i < b->problem_count; i++) problem_destroy(&b->problems[i]);
    cli_roofs_destroy(b->roofs);
    free(b->problems);
    free(b);
    return code;
}

static const cli_option options[] = {
    {"json", CLI_FLAG, NULL, NULL, "one JSON object a line on stdout", 0, 0},
    {"preset", CLI_TEXT, "LIST", "bench,tiny", "also small, medium, paper-162m, paper-304m", 0, 0},
    {"threads", CLI_TEXT, "LIST", "1,2", "numbers of threads, as far as the machine has them", 0, 0},
    {"rounds", CLI_INT, "N", "7", "rounds", .min = 1, .max = CLI_MAX_ROUNDS},
    {"batch", CLI_INT, "N", NULL, "sequences of a step", 1, 1e6},
    {"micro-batch", CLI_INT, "N", NULL, "of them in memory at a time [all]", 1, 1e6},
    {"recompute", CLI_FLAG, NULL, NULL, "less memory, a third more work", 0, 0},
    {"len", CLI_INT, "N", NULL, "tokens of a sequence; the same as --train-len", 1, 1 << 24},
    {"scheme", CLI_TEXT, "SCHEME", NULL, "scheme of attention [si+prope]", 0, 0},
    CLI_SHAPE_OPTIONS,
    CLI_CONTEXT_OPTIONS,
    {"ranks-only", CLI_FLAG, NULL, NULL, "under mpirun: no comparison with one process", 0, 0},
    CLI_RANK_OPTIONS,
    {0}};

const cli_command command_bench_train = {
    .name = "bench train",
    .summary = "The speed of training, against what this machine can do",
    .examples = "  sia bench train                                        half a minute\n"
                "  sia bench train --preset tiny --threads 1 --rounds 21\n"
                "  sia bench train --preset bench --scheme rope --len 1024 --batch 2 --json\n"
                "  sia bench train --preset paper-162m --batch 1 --rounds 1\n"
                "  mpirun -n 2 sia bench train --preset bench --threads 1\n",
    .options = options,
    .notes =
        "bench is 6 layers, width 256, 4 heads, vocabulary 4096, 8 sequences of 256 tokens. gradient is the "
        "forward and backward pass, optimizer is Muon and Adam, step is both.\n"
        "Operations are those of the products and of attention, each counted once, and in step and optimizer "
        "those of Muon's products; the rate of multiply-adds in registers is measured right before and after "
        "each sample.\n"
        "Under mpirun, steps on all ranks, each with the first number of --threads, are compared with steps "
        "of one "
        "process with "
        "as many threads as all of them have, in the same rounds.\n",
    .ranks = true,
    .run = run,
};
