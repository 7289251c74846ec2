/* SPDX-License-Identifier: MIT
 *
 * Training on several ranks, measured: seconds of a step, bytes that a rank sends, memory of a rank.
 *
 *     over one = seconds of a step of one process with ranks * threads threads / seconds of a step on the ranks
 *
 * The processor's time is beside it: what all ranks together, and that one process, were at work for. On a machine that
 * others use as well, seconds are theirs too, the more so for ranks, whose parts are equal whatever their cores do.
 *
 * While rank 0 measures one process the others wait, asleep but for a look every few milliseconds. */
#define _GNU_SOURCE
#include "cli/bench_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/bench.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/show.h"

static const double sample_seconds = 0.2;

/* One way of training the model. */
typedef struct way {
    sia_settings settings;
    sia_model *m;
    sia_trainer *trainer;
    int64_t step, repeats;
    double seconds[CLI_MAX_ROUNDS],
        busy[CLI_MAX_ROUNDS]; /* of a step; busy: of the processor, on all ranks */
} way;

typedef struct measured {
    const cli_bench_ranks *b;
    sia_comm *comm;
    way ranks, one;
    double sent;          /* bytes of a step, mean over the ranks */
    double planned, peak; /* megabytes of a rank, the largest */
} measured;

static sia_status make_way(way *w, const cli_bench_ranks *b, int threads, sia_trainer_ranks ranks,
                           sia_error *err) {
    w->settings = *b->settings;
    sia_status status = sia_settings_complete(&w->settings, err);
    if (!status) status = sia_model_create(&w->m, &w->settings.model, threads, err);
    status = sia_comm_agree(ranks.comm, status, err);
    if (!status)
        status = sia_trainer_create_ranks(&w->trainer, w->m, &w->settings, b->fill, &w->settings, ranks, err);
    return status;
}

static void free_way(way *w) {
    sia_trainer_destroy(w->trainer);
    sia_model_destroy(w->m);
}

static sia_status steps(way *w, int64_t count, double *seconds, double *busy, sia_error *err) {
    sia_step_result result;
    sia_status status = SIA_OK;
    double started = cli_seconds(), before = cli_process_seconds();
    for (int64_t i = 0; i < count && !status; i++)
        status = sia_trainer_step(w->trainer, w->step++, &result, err);
    *seconds = (cli_seconds() - started) / (double)count;
    *busy = (cli_process_seconds() - before) / (double)count;
    return status;
}

/* The largest over the ranks, by way of a sum in which each rank has its own place. */
static sia_status largest(sia_comm *c, double *value, sia_error *err) {
    int size = sia_comm_size(c);
    double *all = calloc((size_t)size, sizeof *all);
    if (!all) return sia_fail_memory(err, (size_t)size * sizeof *all, "bench");
    all[sia_comm_rank(c)] = *value;
    sia_status status = sia_comm_sum(c, all, size, err);
    for (int r = 0; r < size; r++) *value = all[r] > *value ? all[r] : *value;
    free(all);
    return status;
}

/* As many steps on every rank, and as many of both ways, as rank 0 thinks long enough. */
static sia_status warm_up(measured *x, sia_error *err) {
    double seconds, busy, sent = (double)sia_comm_sent(x->comm);
    sia_status status = x->one.trainer ? steps(&x->one, 1, &seconds, &busy, err) : SIA_OK;
    if (!status) status = steps(&x->ranks, 1, &seconds, &busy, err);
    x->sent = (double)sia_comm_sent(x->comm) - sent;
    x->ranks.repeats = x->one.repeats = (int64_t)(sample_seconds / seconds) + 1;
    if (!status) status = sia_comm_sum(x->comm, &x->sent, 1, err);
    x->sent /= sia_comm_size(x->comm);
    return status ? status : sia_comm_broadcast(x->comm, &x->ranks.repeats, sizeof x->ranks.repeats, 0, err);
}

static sia_status measure(measured *x, sia_error *err) {
    cli_progress progress;
    sia_status status = warm_up(x, err);
    cli_progress_start(&progress, "bench train", x->b->rounds, "", 1);
    for (int round = 0; round < x->b->rounds && !status; round++) {
        int64_t repeats = x->ranks.repeats;
        if (x->one.trainer)
            status = steps(&x->one, repeats, &x->one.seconds[round], &x->one.busy[round], err);
        status = sia_comm_agree(x->comm, status, err);
        if (!status) status = steps(&x->ranks, repeats, &x->ranks.seconds[round], &x->ranks.busy[round], err);
        if (!status) status = sia_comm_sum(x->comm, &x->ranks.busy[round], 1, err);
        cli_progress_update(&progress, round + 1);
    }
    cli_progress_end(&progress);
    x->peak = cli_peak_megabytes();
    return status ? status : largest(x->comm, &x->peak, err);
}

static sia_status make(measured *x, sia_error *err) {
    const cli_bench_ranks *b = x->b;
    int ranks = sia_comm_size(x->comm);
    sia_status status = make_way(&x->ranks, b, b->threads, (sia_trainer_ranks){x->comm, b->together}, err);
    if (!status) {
        x->planned = (double)sia_trainer_bytes(x->ranks.trainer) / 1e6;
        status = largest(x->comm, &x->planned, err);
    }
    if (!status && b->alone && ranks > 1 && cli_first_rank())
        status = make_way(&x->one, b, b->threads * ranks, (sia_trainer_ranks){0}, err);
    return sia_comm_agree(x->comm, status, err);
}

/* ---------------------------------------------------------------------------------------------- report */

/* Medians over the rounds. */
typedef struct figures {
    double tokens, seconds, one; /* of a step; one 0: not measured */
    double speed, work;          /* over one process, by the clock and by the processor's time */
    double at_work;              /* the share of their time that the ranks computed */
} figures;

static figures figures_of(const measured *x) {
    int rounds = x->b->rounds, threads = sia_comm_size(x->comm) * x->b->threads;
    const sia_settings *s = &x->ranks.settings;
    figures f = {.tokens = (double)s->training.batch * (double)s->model.train_len,
                 .seconds = cli_quartiles_of(x->ranks.seconds, rounds).median,
                 .at_work = cli_median_ratio(x->ranks.busy, x->ranks.seconds, 1.0 / threads, rounds)};
    if (!x->one.trainer) return f;
    f.one = cli_quartiles_of(x->one.seconds, rounds).median;
    f.speed = cli_median_ratio(x->one.seconds, x->ranks.seconds, 1, rounds);
    f.work = cli_median_ratio(x->one.busy, x->ranks.busy, 1, rounds);
    return f;
}

static json_t *json_of(const measured *x, const figures *f) {
    const cli_bench_ranks *b = x->b;
    const sia_settings *s = &x->ranks.settings;
    json_t *line = json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:s}", "op", "ranks",
        "preset", b->preset, "ranks", sia_comm_size(x->comm), "threads", b->threads, "context_parallel",
        b->together, "parameters", (json_int_t)sia_model_size(x->ranks.m), "len",
        (json_int_t)s->model.train_len, "batch", (json_int_t)s->training.batch, "ms", 1e3 * f->seconds,
        "tokens_per_s", f->tokens / f->seconds, "sent_mb", x->sent / 1e6, "memory_mb", x->planned, "peak_mb",
        x->peak, "at_work", f->at_work, "rounds", b->rounds, "isa", sia_isa());
    if (!line || f->one <= 0) return line;
    (void)json_object_set_new(line, "one_process_ms", json_real(1e3 * f->one));
    (void)json_object_set_new(line, "speed_over_one_process", json_real(f->speed));
    (void)json_object_set_new(line, "processor_over_one_process", json_real(f->work));
    return line;
}

static void print_way(int ranks, int threads, double seconds, double tokens) {
    printf("%5d rank%s of %d thread%s  %10.2f ms a step  %8.0f tokens/s\n", ranks, ranks == 1 ? " " : "s",
           threads, threads == 1 ? " " : "s", 1e3 * seconds, tokens / seconds);
}

static void print_text(const measured *x, const figures *f) {
    const cli_bench_ranks *b = x->b;
    const sia_settings *s = &x->ranks.settings;
    int ranks = sia_comm_size(x->comm);
    printf("median of %d round%s; kernels %s\n", b->rounds, cli_plural(b->rounds), sia_isa());
    printf("%s: %s, %.2f M parameters, batch %lld of %lld tokens\n", b->preset, s->model.scheme,
           (double)sia_model_size(x->ranks.m) / 1e6, (long long)s->training.batch,
           (long long)s->model.train_len);
    printf("  a rank sends %.2f MB a step, and has %.0f MB of memory, %.0f at most\n", x->sent / 1e6,
           x->planned, x->peak);
    print_way(ranks, b->threads, f->seconds, f->tokens);
    if (f->one <= 0) return;
    print_way(1, b->threads * ranks, f->one, f->tokens);
    printf("  the ranks have %.3f of its speed, %.3f by processor time\n", f->speed, f->work);
}

static sia_status report(const measured *x, sia_error *err) {
    figures f = figures_of(x);
    if (x->b->json) return cli_json_line(json_of(x, &f), err);
    print_text(x, &f);
    (void)fflush(stdout);
    if (f.at_work < 0.9)
        fprintf(
            stderr,
            "sia bench train: the ranks were at work for %.0f%% of their time: other processes, or waits\n",
            100 * f.at_work);
    return SIA_OK;
}

int cli_bench_on_ranks(const cli_bench_ranks *b) {
    measured x = {.b = b, .comm = cli_ranks()};
    sia_error err;
    if (!isatty(STDERR_FILENO)) cli_progress_silence();
    sia_status status = make(&x, &err);
    if (!status) status = measure(&x, &err);
    if (!status && cli_first_rank()) status = report(&x, &err);
    free_way(&x.one);
    free_way(&x.ranks);
    return status ? cli_fail(&err) : CLI_DONE;
}
