/* SPDX-License-Identifier: MIT
 *
 * sia bench text: how fast text becomes tokens, as ratios within one run.
 *
 *     split     the text is cut by GPT-2's pattern in PCRE2 (compiled to machine code), nothing else: the measure
 *     scan      the same by the scanner that encoding uses
 *     encode    on one thread; caches are empty at the start of each run
 *     parallel  the same on several threads
 *     peer      another program on the same text, see bench/peer_tiktoken.py
 *
 * Rounds are interleaved: each measures all of them once, and ratios are taken within a round, so that a
 * machine that is slow for a while is slow for all. What is shown is the median over the rounds. */
#define _GNU_SOURCE
#include "cli/commands.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "base/threads.h"
#include "cli/bench.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "text/split.h"
#include "text/tokenizer.h"

enum { SPLIT, SCAN, ENCODE, PARALLEL, PEER, KINDS };
static const char *const kind_names[KINDS] = {"split", "scan", "encode", "parallel", "peer"};

typedef struct bench {
    const char *text;
    size_t bytes;
    sia_tokenizer *t;
    sia_splitter *splitter;
    uint32_t *ids;
    int threads;
    FILE *to_peer, *from_peer;
    pid_t peer;
    size_t tokens, peer_tokens, pieces;
    double seconds[KINDS][CLI_MAX_ROUNDS];
} bench;

/* --------------------------------------------------------------------------------------------------- text */

/* Without a file: words of random letters, drawn as Zipf's law has it (rank r with probability about 1/r), in
 * lines. */
static char *make_text(size_t bytes) {
    enum { WORDS = 50000, LONGEST = 14 };
    char *text = malloc(bytes);
    for (size_t at = 0, n = 0; text && at < bytes; n++) {
        uint64_t rank = (uint64_t)(exp(sia_random_uniform(1, n) * log(WORDS)));
        uint64_t length = 2 + sia_random_below(2, rank, 2 + (uint64_t)log((double)rank + 1));
        for (uint64_t i = 0; i < length && at < bytes; i++)
            text[at++] = (char)('a' + sia_random_below(3, rank * LONGEST + i, 26));
        uint64_t end = sia_random_below(4, n, 60);
        if (end < 4 && at < bytes) text[at++] = ",.?'"[end];
        if (at < bytes) text[at++] = end == 5 ? '\n' : ' ';
    }
    return text;
}

/* --------------------------------------------------------------------------------------------------- peer */

/* The words of a command, divided by spaces: no shell reads it. Returns only when it could not be started. */
static void run_words(const char *command) {
    enum { WORDS = 64 };
    char *words[WORDS + 1] = {NULL}, *copy = strdup(command), *rest = NULL;
    int count = 0;
    for (char *word = copy ? strtok_r(copy, " ", &rest) : NULL; word && count < WORDS;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    if (count) (void)execvp(words[0], words);
    free(copy);
}

/* The peer is started once. For each line "run" it encodes the text and answers "seconds tokens". */
static sia_status start_peer(bench *b, const char *command, sia_error *err) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0) return sia_fail_file(err, "pipe");
    if (pipe2(from, O_CLOEXEC) != 0) {
        (void)close(to[0]);
        (void)close(to[1]);
        return sia_fail_file(err, "pipe");
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a peer that is gone is told of in a sentence */
    b->peer = fork();
    if (b->peer == 0) {
        if (dup2(to[0], STDIN_FILENO) >= 0 && dup2(from[1], STDOUT_FILENO) >= 0) run_words(command);
        _exit(127);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    b->to_peer = fdopen(to[1], "w");
    b->from_peer = fdopen(from[0], "r");
    if (b->peer < 0 || !b->to_peer || !b->from_peer) return sia_fail_file(err, command);
    return SIA_OK;
}

static sia_status ask_peer(bench *b, double *seconds, sia_error *err) {
    char line[128];
    if (fputs("run\n", b->to_peer) == EOF || fflush(b->to_peer) != 0 ||
        !fgets(line, sizeof line, b->from_peer) || sscanf(line, "%lf %zu", seconds, &b->peer_tokens) != 2 ||
        *seconds <= 0)
        return sia_fail(err, SIA_FORMAT, "--peer: want a line with seconds and tokens for each line 'run'");
    return SIA_OK;
}

static void end_peer(bench *b) {
    if (b->to_peer) (void)fclose(b->to_peer);
    if (b->from_peer) (void)fclose(b->from_peer);
    if (b->peer > 0) (void)waitpid(b->peer, NULL, 0);
}

/* ---------------------------------------------------------------------------------------------- measuring */

static size_t run_split(const bench *b) {
    size_t pieces = 0;
    for (size_t at = 0, length; at < b->bytes; at += length, pieces++) {
        length = sia_split_reference(b->splitter, b->text, b->bytes, at);
        if (length == 0) return 0;
    }
    return pieces;
}

static size_t run_scan(const bench *b) {
    size_t pieces = 0;
    for (size_t at = 0; at < b->bytes; pieces++) at += sia_split_next(b->text + at, b->bytes - at);
    return pieces;
}

static sia_status measure(bench *b, int kind, double *seconds, sia_error *err) {
    if (kind == PEER) return ask_peer(b, seconds, err);
    sia_encoder_destroy(b->t->idle);
    b->t->idle = NULL;
    double started = cli_seconds();
    sia_status status = SIA_OK;
    size_t tokens = b->tokens, pieces = b->pieces;
    if (kind == SPLIT)
        pieces = run_split(b);
    else if (kind == SCAN)
        pieces = run_scan(b);
    else if (kind == ENCODE)
        status = sia_tokenizer_encode(b->t, b->text, b->bytes, b->ids, &tokens, err);
    else
        status = sia_tokenizer_encode_parallel(b->t, b->threads, b->text, b->bytes, b->ids, &tokens, err);
    *seconds = cli_seconds() - started;
    if (status) return status;
    if ((b->tokens && b->tokens != tokens) || (b->pieces && b->pieces != pieces))
        return sia_fail(err, SIA_NUMBER, "%s: %zu pieces and %zu tokens, another way found %zu and %zu",
                        kind_names[kind], pieces, tokens, b->pieces, b->tokens);
    b->tokens = tokens;
    b->pieces = pieces;
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------- report */

typedef struct figures {
    double rate[KINDS]; /* MB/s; 0 when it was not measured */
    double over_split, parallel, over_peer, training;
    int rounds;
} figures;

static figures figures_of(const bench *b, double training, int rounds) {
    figures f = {.training = training, .rounds = rounds, .parallel = 1};
    for (int k = 0; k < KINDS; k++)
        if (b->seconds[k][0] > 0)
            f.rate[k] = cli_median_ratio(NULL, b->seconds[k], (double)b->bytes / 1e6, rounds);
    f.over_split = cli_median_ratio(b->seconds[SPLIT], b->seconds[ENCODE], 1, rounds);
    if (b->threads > 1) f.parallel = cli_median_ratio(b->seconds[ENCODE], b->seconds[PARALLEL], 1, rounds);
    if (b->peer) f.over_peer = cli_median_ratio(b->seconds[PEER], b->seconds[ENCODE], 1, rounds);
    return f;
}

static sia_status report_json(const bench *b, const figures *f, sia_error *err) {
    char name[32];
    json_t *line = json_pack("{s:s,s:I,s:I,s:I,s:i,s:i}", "bench", "text", "bytes", (json_int_t)b->bytes,
                             "tokens", (json_int_t)b->tokens, "pieces", (json_int_t)b->pieces, "vocabulary",
                             (int)sia_tokenizer_size(b->t), "rounds", f->rounds);
    for (int k = 0; k < KINDS && line; k++) {
        (void)snprintf(name, sizeof name, "%s_mb_per_s", kind_names[k]);
        if (f->rate[k] > 0) json_object_set_new(line, name, json_real(f->rate[k]));
    }
    json_object_set_new(line, "encode_over_split", json_real(f->over_split));
    json_object_set_new(line, "threads", json_integer(b->threads));
    json_object_set_new(line, "parallel_over_encode", json_real(f->parallel));
    if (b->peer) {
        json_object_set_new(line, "encode_over_peer", json_real(f->over_peer));
        json_object_set_new(line, "peer_tokens", json_integer((json_int_t)b->peer_tokens));
    }
    if (f->training > 0) json_object_set_new(line, "train_seconds", json_real(f->training));
    json_object_set_new(line, "peak_mb", json_real(cli_peak_megabytes()));
    return cli_json_line(line, err);
}

static void report(const bench *b, const cli_args *args, const figures *f) {
    printf("%.1f MB, %zu pieces, %zu tokens of %u; median of %d round%s\n", (double)b->bytes / 1e6, b->pieces,
           b->tokens, sia_tokenizer_size(b->t), f->rounds, cli_plural(f->rounds));
    for (int k = 0; k < KINDS; k++)
        if (f->rate[k] > 0) printf("  %-10s %8.1f MB/s\n", kind_names[k], f->rate[k]);
    printf("  encode / split         %6.2f\n", f->over_split);
    if (b->threads > 1) printf("  %2d threads / 1         %6.2f\n", b->threads, f->parallel);
    if (b->peer)
        printf("  encode / peer          %6.2f   %s\n", f->over_peer,
               b->peer_tokens == b->tokens ? "(the same number of tokens)" : "(another number of tokens)");
    if (f->training > 0)
        printf("  training               %6.2f s for %d tokens\n", f->training, (int)cli_int(args, "train"));
}

/* ---------------------------------------------------------------------------------------------- the whole */

static sia_status open_tokenizer(bench *b, const cli_args *args, double *training, sia_error *err) {
    const char *path = cli_text(args, "tokenizer");
    sia_text text = {b->text, b->bytes};
    *training = 0;
    if (path) {
        sia_status status = sia_tokenizer_open(&b->t, path, err);
        if (status || !cli_given(args, "train")) return status;
    }
    sia_tokenizer *trained;
    sia_tokenizer_training how = {.size = (uint32_t)cli_int(args, "train"), .threads = b->threads};
    double started = cli_seconds();
    sia_status status = sia_tokenizer_train(&trained, &how, &text, 1, err);
    *training = cli_seconds() - started;
    if (!path)
        b->t = trained;
    else
        sia_tokenizer_close(trained);
    return status;
}

static sia_status run_bench(bench *b, const cli_args *args, sia_error *err) {
    int rounds = (int)cli_int(args, "rounds");
    double training, seconds;
    sia_status status = open_tokenizer(b, args, &training, err);
    if (!status) status = sia_splitter_create(&b->splitter, err);
    if (!status && cli_text(args, "peer")) status = start_peer(b, cli_text(args, "peer"), err);
    b->ids = malloc((b->bytes + 1) * sizeof *b->ids);
    if (!status && !b->ids) status = sia_fail_memory(err, b->bytes * sizeof *b->ids, "tokens");
    /* Round -1 is not counted: pages are touched for the first time, the peer loads its files. */
    for (int round = -1; round < rounds && !status; round++)
        for (int kind = 0; kind < KINDS && !status; kind++) {
            if ((kind == PARALLEL && b->threads < 2) || (kind == PEER && !b->peer)) continue;
            status = measure(b, kind, &seconds, err);
            if (!status && round >= 0) b->seconds[kind][round] = seconds;
        }
    if (!status) {
        figures f = figures_of(b, training, rounds);
        if (cli_flag(args, "json"))
            status = report_json(b, &f, err);
        else
            report(b, args, &f);
    }
    end_peer(b);
    free(b->ids);
    sia_splitter_destroy(b->splitter);
    sia_tokenizer_close(b->t);
    return status;
}

/* The bare split wants valid text: what PCRE2 does with the rest is another matter than speed. */
static sia_status check_utf8(const char *path, const char *text, size_t bytes, sia_error *err) {
    for (size_t at = 0, length; at < bytes; at += length) {
        length = sia_utf8_length(text + at, bytes - at);
        if (length == 0) return sia_fail(err, SIA_FORMAT, "%s: byte %zu is not valid UTF-8", path, at);
    }
    return SIA_OK;
}

static int run(const cli_args *args) {
    char **paths, *made = NULL;
    int count = cli_operands(args, &paths);
    sia_error err;
    sia_map map = {.bytes = ""};
    if (count > 1) return cli_usage(args, "want one file at most");
    if (count && cli_given(args, "megabytes"))
        return cli_usage(args, "%s: --megabytes is for text that is made up: want one or the other",
                         paths[0]);
    bench *b = calloc(1, sizeof *b);
    if (!b) return cli_fail_memory(sizeof *b, "bench");
    b->threads = (int)cli_int(args, "threads") ? (int)cli_int(args, "threads") : sia_threads_available();
    sia_status status = SIA_OK;
    if (count) {
        status = sia_map_open(&map, paths[0], &err);
        if (!status && map.size == 0) status = sia_fail(&err, SIA_FORMAT, "%s: the file is empty", paths[0]);
        b->text = map.bytes;
        b->bytes = map.size;
        if (!status) status = check_utf8(paths[0], b->text, b->bytes, &err);
    } else {
        b->bytes = (size_t)(cli_real(args, "megabytes") * 1e6);
        b->text = made = make_text(b->bytes);
        if (!made) status = sia_fail_memory(&err, b->bytes, "text");
    }
    if (!status) status = run_bench(b, args, &err);
    sia_map_close(&map);
    free(made);
    free(b);
    return status ? cli_fail(&err) : CLI_DONE;
}

static const cli_option options[] = {
    {"tokenizer", CLI_TEXT, "PATH", NULL, "the tokenizer; one is trained on the text when none is given", 0,
     0},
    {"train", CLI_INT, "N", "4096", "the vocabulary to train, timed; with --tokenizer only if it is given",
     .min = 257, .max = 1000000},
    {"megabytes", CLI_REAL, "X", "10", "how much text to make up when no file is given", .min = 0.01,
     .max = 4000},
    {"rounds", CLI_INT, "N", "5", "rounds", .min = 1, .max = CLI_MAX_ROUNDS},
    {"threads", CLI_INT, "N", "0", "threads, 0 for all processors", .min = 0, .max = SIA_MAX_THREADS},
    {"peer", CLI_TEXT, "COMMAND", NULL,
     "a program to measure in the same rounds; its words are divided by spaces", 0, 0},
    {"json", CLI_FLAG, NULL, NULL, "one JSON object on stdout", 0, 0},
    {0}};

const cli_command command_bench_text = {
    .name = "bench text",
    .summary = "The speed of the tokenizer, against a bare split",
    .examples = "  sia bench text\n"
                "  sia bench text --tokenizer gpt2/ books.txt\n"
                "  sia bench text --tokenizer gpt2/ books.txt --peer 'python bench/peer_tiktoken.py gpt2/ "
                "books.txt'\n",
    .operands = "[FILE]",
    .options = options,
    .run = run,
};
