/* SPDX-License-Identifier: MIT
 *
 * sia bench decode: how fast a model says the next token after a long text, against what memory allows.
 *
 * To say one token, every weight is read once, and the keys and values of all positions:
 *
 *     bound = read bandwidth / (bytes of the weights + bytes of the caches)       tokens a second
 *
 * The weights are random and the caches hold random numbers: neither changes how long it takes. Cells (cache
 * type x threads) are measured in rounds, each between two measurements of the bandwidth. */
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "cli/bench.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "model/session.h"

enum {
    TYPES = SIA_I8 + 1,
    CELLS = TYPES * CLI_MAX_LIST,
    FILLED = 1 << 14, /* positions of a cache between two looks whether to stop */
};

typedef struct cell {
    const char *cache;
    int threads;
    sia_model *m; /* one for each number of threads, borrowed */
    sia_session *s;
    double seconds[CLI_MAX_ROUNDS];   /* of a token */
    double read_rate[CLI_MAX_ROUNDS]; /* bytes a second */
} cell;

typedef struct bench {
    sia_model_config config;
    int64_t context, tokens;
    int rounds, thread_count, cell_count, type_count;
    int64_t threads[CLI_MAX_LIST];
    char cache_room[64];
    const char *caches[CLI_MAX_LIST];
    sia_model *models[CLI_MAX_LIST];
    cell cells[CELLS];
    cli_roofs *roofs;
    float *logits;
} bench;

static sia_status look_for_stop(sia_error *err) {
    return cli_stopped() ? sia_fail(err, SIA_STOPPED, "stopped") : SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ settings */

static int read_settings(const cli_args *args, bench *b) {
    sia_error err;
    sia_type type;
    b->context = cli_int(args, "context");
    b->tokens = cli_int(args, "tokens");
    b->rounds = (int)cli_int(args, "rounds");
    if (sia_model_preset(cli_text(args, "preset"), &b->config, &err)) return cli_usage(args, "%s", err.text);
    if (cli_given(args, "scheme")) {
        sia_scheme scheme;
        if (sia_scheme_parse(cli_text(args, "scheme"), &scheme, &err)) return cli_usage(args, "%s", err.text);
        (void)sia_scheme_name(scheme, b->config.scheme);
    }
    int code = cli_thread_list(args, b->threads, &b->thread_count);
    if (!code)
        code = cli_word_list(args, "cache", b->cache_room, sizeof b->cache_room, b->caches, &b->type_count);
    for (int i = 0; i < b->type_count && !code; i++)
        if (sia_type_parse(b->caches[i], &type, &err)) code = cli_usage(args, "--cache: %s", err.text);
    return code;
}

/* ------------------------------------------------------------------------------------------------ creation */

static sia_status create_cell(bench *b, int threads, int cache, sia_error *err) {
    cell *c = &b->cells[b->cell_count++];
    *c = (cell){.cache = b->caches[cache], .threads = (int)b->threads[threads], .m = b->models[threads]};
    sia_type type = SIA_F32;
    sia_status status = sia_type_parse(c->cache, &type, err);
    if (!status) status = sia_session_create(&c->s, c->m, type, err);
    for (int64_t left = b->context; left > 0 && !status; left -= FILLED) {
        status = look_for_stop(err);
        if (!status) status = sia_session_pretend(c->s, left < FILLED ? left : FILLED, 1, err);
    }
    return status;
}

static sia_status create(bench *b, sia_error *err) {
    int most = 1;
    sia_status status = SIA_OK;
    for (int t = 0; t < b->thread_count && !status; t++) {
        if (b->threads[t] > most) most = (int)b->threads[t];
        status = look_for_stop(err);
        if (!status) status = sia_model_create(&b->models[t], &b->config, (int)b->threads[t], err);
        for (int i = 0; i < b->type_count && !status; i++) status = create_cell(b, t, i, err);
    }
    b->logits = calloc(b->config.vocabulary, sizeof *b->logits);
    if (!status && !b->logits) status = sia_fail_memory(err, b->config.vocabulary * sizeof(float), "logits");
    if (!status) status = cli_roofs_create(&b->roofs, most, false, (size_t)512 << 20, err);
    return status;
}

static void destroy(bench *b) {
    for (int i = 0; i < b->cell_count; i++) sia_session_destroy(b->cells[i].s);
    for (int i = 0; i < b->thread_count; i++) sia_model_destroy(b->models[i]);
    cli_roofs_destroy(b->roofs);
    free(b->logits);
}

/* ----------------------------------------------------------------------------------------------- measuring */

/* The text is cut back after each sample, so that all are of the same length. */
static sia_status measure(bench *b, cell *c, int round, sia_error *err) {
    double before = cli_read_seconds(b->roofs, c->threads), started = cli_seconds();
    sia_status status = SIA_OK;
    for (int64_t i = 0; i < b->tokens && !status; i++) {
        uint32_t id = (uint32_t)i % b->config.vocabulary;
        status = look_for_stop(err);
        if (!status) status = sia_session_feed(c->s, &id, 1, NULL, NULL, b->logits, err);
    }
    c->seconds[round] = (cli_seconds() - started) / (double)b->tokens;
    double after = cli_read_seconds(b->roofs, c->threads);
    c->read_rate[round] = cli_read_bytes(b->roofs) * (1 / before + 1 / after) / 2;
    if (!status) status = sia_session_truncate(c->s, b->context, err);
    return status;
}

static sia_status measure_all(bench *b, sia_error *err) {
    sia_status status = SIA_OK;
    cli_progress progress;
    cli_progress_start(&progress, "decode", (double)b->rounds, "rounds", 1);
    for (int round = 0; round < b->rounds && !status; round++) {
        for (int i = 0; i < b->cell_count && !status; i++) status = measure(b, &b->cells[i], round, err);
        cli_progress_update(&progress, round + 1);
    }
    cli_progress_end(&progress);
    return status;
}

/* -------------------------------------------------------------------------------------------------- report */

static sia_status report(const bench *b, bool json, const char *preset, sia_error *err) {
    sia_status status = SIA_OK;
    if (!json)
        printf("%s after %lld tokens, %s; median of %d round%s\n\n%-6s %7s %10s %10s %10s %8s\n", preset,
               (long long)b->context, sia_model_settings(b->models[0])->scheme, b->rounds,
               cli_plural(b->rounds), "cache", "threads", "MB/token", "tokens/s", "read GB/s", "of bound");
    for (int i = 0; i < b->cell_count && !status; i++) {
        const cell *c = &b->cells[i];
        double bytes = sia_session_read_bytes(c->s), ratios[CLI_MAX_ROUNDS], rate, read;
        for (int r = 0; r < b->rounds; r++) ratios[r] = bytes / c->seconds[r] / c->read_rate[r];
        cli_quartiles of_bound = cli_quartiles_of(ratios, b->rounds);
        rate = cli_median_ratio(NULL, c->seconds, 1, b->rounds);
        read = cli_quartiles_of(c->read_rate, b->rounds).median;
        if (json)
            status = cli_json_line(
                json_pack("{s:s,s:s,s:I,s:s,s:i,s:f,s:f,s:f,s:[f,f,f],s:i}", "bench", "decode", "preset",
                          preset, "context", (json_int_t)b->context, "cache", c->cache, "threads", c->threads,
                          "bytes", bytes, "tokens_per_s", rate, "gb_per_s", read / 1e9, "of_bound",
                          of_bound.low, of_bound.median, of_bound.high, "rounds", b->rounds),
                err);
        else
            printf("%-6s %7d %10.1f %10.2f %10.1f %8.2f\n", c->cache, c->threads, bytes / 1e6, rate,
                   read / 1e9, of_bound.median);
    }
    return status;
}

static int run(const cli_args *args) {
    sia_error err;
    bench *b = calloc(1, sizeof *b);
    if (!b) return cli_fail_memory(sizeof *b, "bench");
    int code = read_settings(args, b);
    if (!code) {
        cli_catch_stop();
        sia_status status = create(b, &err);
        if (!status) status = measure_all(b, &err);
        if (!status) status = report(b, cli_flag(args, "json"), cli_text(args, "preset"), &err);
        if (status) code = cli_fail(&err);
    }
    destroy(b);
    free(b);
    return code;
}

static const cli_option options[] = {
    {"preset", CLI_TEXT, "NAME", "small", "the model: tiny, small, medium, paper-162m, paper-304m", 0, 0},
    {"scheme", CLI_TEXT, "SCHEME", NULL, "its scheme [si+prope]", 0, 0},
    {"context", CLI_INT, "N", "65536", "tokens before", .min = 1, .max = 1 << 24},
    {"cache", CLI_TEXT, "LIST", "f32,f16,int8", "types of the KV cache", 0, 0},
    {"threads", CLI_TEXT, "LIST", "1,2", "numbers of threads, as far as the machine has them", 0, 0},
    {"tokens", CLI_INT, "N", "2", "in a sample", .min = 1, .max = 100000},
    {"rounds", CLI_INT, "N", "11", "rounds", .min = 1, .max = CLI_MAX_ROUNDS},
    {"json", CLI_FLAG, NULL, NULL, "one JSON object a line on stdout", 0, 0},
    {0}};

const cli_command command_bench_decode = {
    .name = "bench decode",
    .summary = "How fast the next token comes after a long text, against what memory allows",
    .examples = "  sia bench decode\n"
                "  sia bench decode --preset paper-162m --context 4096 --cache f16 --threads 1\n",
    .options = options,
    .notes = "For one token every weight is read once, and all keys and values: the bound is the read\n"
             "bandwidth, measured before and after each sample, over these bytes. The fraction is taken in\n"
             "each round, and its median is shown. The weights and the text are random.\n",
    .run = run,
};
