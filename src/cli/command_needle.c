/* SPDX-License-Identifier: MIT
 *
 * sia needle: fine-tunes runs on haystacks and measures what they find in longer ones. */
#include "cli/commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/threads.h"
#include "cli/machine.h"
#include "cli/ranks.h"
#include "cli/settings.h"
#include "cli/show.h"
#include "cli/progress.h"
#include "study/needle.h"

/* What a person sees: one bar for the whole study on stderr, rows of a table on stdout. */
typedef struct view {
    bool quiet, json;
    const sia_needle_settings *settings;
    cli_phases shown;
    double loss;                      /* of fine-tuning, smoothed; negative: not seen yet */
    double accuracy[SIA_MAX_LENGTHS]; /* of the run at work; not a number where it diverged */
    bool diverged;                    /* of the run at work, at some length */
    bool worked;                      /* something of it was left to do */
    bool headed;
} view;

static void print_head(view *v) {
    if (v->headed) return;
    v->headed = true;
    printf("%-16s %6s", "scheme", "seed");
    for (int i = 0; v->settings->multiples[i]; i++) printf(" %6lldx", (long long)v->settings->multiples[i]);
    puts("   needles found");
}

static void print_row(view *v, const sia_needle_event *e) {
    print_head(v);
    printf("%-16s %6llu", e->scheme, (unsigned long long)e->seed);
    bool learnt = true;
    for (int i = 0; v->settings->multiples[i]; i++) {
        if (isnan(v->accuracy[i]))
            printf(" %7s", "-");
        else
            printf(" %7.3f", v->accuracy[i]);
        if (v->settings->multiples[i] == 1) learnt = v->accuracy[i] >= SIA_NEEDLE_LEARNT;
    }
    puts(v->diverged ? "   diverged" : learnt ? "" : "   not learnt at this budget");
    cli_flush();
}

static void print_json(const sia_needle_event *e) {
    json_t *line = json_pack("{s:o, s:s, s:I, s:I, s:I, s:o, s:o}", "run", sia_json_text(e->name), "scheme",
                             e->scheme, "seed", (json_int_t)e->seed, "train_len", (json_int_t)e->train_len,
                             "length", (json_int_t)e->length, "count",
                             e->diverged ? json_null() : json_integer((json_int_t)e->result->count), "right",
                             e->diverged ? json_null() : json_integer((json_int_t)e->result->right));
    if (e->diverged) sia_json_set(&line, "diverged", sia_json_text(e->diverged));
    (void)cli_json_line(line, NULL);
    cli_flush();
}

static void begun(view *v, const sia_needle_event *e) {
    v->loss = -1;
    v->diverged = v->worked = false;
    if (e->run == 0) cli_progress_start(&v->shown.line, v->shown.what, e->runs, "", 1);
}

/* Tokens that a run reads: in fine-tuning, where one costs about three, and in the haystacks up to those of `length`, of
 * which `done` are read. */
static double tokens_read(const view *v, int64_t train_len, double step, int64_t length, double done) {
    double haystacks = 0;
    for (int i = 0; v->settings->multiples[i]; i++) {
        int64_t size = v->settings->multiples[i] * train_len;
        if (size <= length) haystacks += (size < length ? 1 : done) * (double)size;
    }
    return 3 * step * (double)v->settings->batch * (double)train_len +
           haystacks * (double)v->settings->samples;
}

/* The same as a share of all that the run reads. */
static double share_read(const view *v, const sia_needle_event *e, double step, int64_t length, double done) {
    return tokens_read(v, e->train_len, step, length, done) /
           tokens_read(v, e->train_len, (double)v->settings->steps, INT64_MAX, 1);
}

static void advance(view *v, const sia_needle_event *e, double step, int64_t length, double done) {
    v->worked = true;
    cli_progress_update(&v->shown.line, e->run + share_read(v, e, step, length, done));
}

static void stepped(view *v, const sia_needle_event *e) {
    if (e->training->kind == SIA_TRAIN_STARTED)
        v->shown.line.found += share_read(v, e, (double)e->training->step, 0, 0);
    if (e->training->kind != SIA_TRAIN_STEP) return;
    double loss = e->training->result->loss;
    v->loss = v->loss < 0 ? loss : 0.95 * v->loss + 0.05 * loss;
    (void)snprintf(v->shown.what, sizeof v->shown.what, "%-12s %d of %d  loss %.3f", e->scheme, e->run + 1,
                   e->runs, v->loss);
    advance(v, e, (double)e->training->step, 0, 0);
}

static void reading(view *v, const sia_needle_event *e) {
    (void)snprintf(v->shown.what, sizeof v->shown.what, "%-12s %d of %d  at %-7lld", e->scheme, e->run + 1,
                   e->runs, (long long)e->length);
    advance(v, e, (double)v->settings->steps, e->length, e->done);
}

static void measured(view *v, const sia_needle_event *e) {
    for (int i = 0; v->settings->multiples[i]; i++)
        if (v->settings->multiples[i] * e->train_len == e->length)
            v->accuracy[i] = e->diverged ? NAN : (double)e->result->right / (double)e->result->count;
    cli_progress_clear(&v->shown.line);
    if (e->diverged && !v->diverged && !v->quiet)
        fprintf(stderr, "%s diverged: %s\n", cli_shown(e->name), cli_shown(e->diverged));
    v->diverged = v->diverged || e->diverged;
    if (e->in_training_text && !v->quiet)
        fprintf(stderr,
                "%s at %lld: haystacks of text that was trained on, for what was held out is shorter\n",
                cli_shown(e->name), (long long)e->length);
    if (v->json) print_json(e);
}

static int hook(void *context, const sia_needle_event *e) {
    view *v = context;
    switch (e->kind) {
    case SIA_NEEDLE_BEGUN:
        begun(v, e);
        break;
    case SIA_NEEDLE_TRAINING:
        stepped(v, e);
        break;
    case SIA_NEEDLE_READING:
        reading(v, e);
        break;
    case SIA_NEEDLE_MEASURED:
        measured(v, e);
        break;
    case SIA_NEEDLE_FINISHED:
        if (!v->worked) v->shown.line.found++; /* all of it was there */
        if (!v->json) print_row(v, e);
        break;
    }
    return cli_stopped();
}

static int run(const cli_args *args) {
    const char *out;
    char **paths, command[1024];
    sia_error err;
    int count = cli_operands(args, &paths), code = cli_study_folder(args, &out);
    if (code) return code;
    if (count < 1) return cli_usage(args, "want RUNS, folders that 'sia train' made");
    bool quiet = cli_flag(args, "quiet") || !cli_first_rank();
    if (quiet) cli_progress_silence();
    cli_catch_stop();
    sia_needle_settings settings = sia_needle_usual;
    sia_status status = cli_apply(args, sia_needle_fields, &settings, &err);
    if (!status) status = sia_multiples_parse(cli_text(args, "lengths"), settings.multiples, &err);
    if (status) return cli_fail(&err);
    sia_needle_source *runs = calloc((size_t)count, sizeof *runs);
    if (!runs) return cli_fail_memory((size_t)count * sizeof *runs, "runs");
    for (int i = 0; i < count; i++) runs[i].path = paths[i];
    cli_command_line(args, command, sizeof command);
    view v = {.quiet = quiet, .json = cli_flag(args, "json"), .settings = &settings};
    cli_progress_start(&v.shown.line, v.shown.what, 0, "", 1);
    json_t *machine = cli_machine_json((int)cli_int(args, "threads"));
    sia_needle_job job = {.folder = out,
                          .runs = runs,
                          .count = count,
                          .settings = &settings,
                          .threads = (int)cli_int(args, "threads"),
                          .resume = cli_flag(args, "resume"),
                          .command = command,
                          .machine = machine,
                          .comm = cli_ranks(),
                          .stopped = cli_stopped,
                          .hook = hook,
                          .hook_context = &v};
    status = machine ? sia_needle_run(&job, &err) : sia_fail_memory(&err, 256, "machine");
    cli_progress_end(&v.shown.line);
    free(runs);
    json_decref(machine);
    if (status == SIA_STOPPED && !v.quiet)
        (void)sia_fail(&err, SIA_STOPPED, "stopped; the same command with --resume goes on");
    return status ? cli_fail(&err) : CLI_DONE;
}

static const cli_option options[] = {
    {"out", CLI_TEXT, "FOLDER", NULL, "the folder of the study", 0, 0},
    {"resume", CLI_FLAG, NULL, NULL, "go on where it was; begin where there is nothing", 0, 0},
    {"steps", CLI_INT, "N", NULL, "steps of fine-tuning [300]", 1, 1e9},
    {"batch", CLI_INT, "N", NULL, "haystacks of a step [16]", 1, 1e6},
    {"warmup", CLI_INT, "N", NULL, "steps in which the rates rise [a third]", 0, 1e9},
    {"cooldown", CLI_REAL, "X", NULL, "the share of steps in which they fall [a third]", 0, 1},
    {"embedding-rate", CLI_REAL, "X", NULL, "Adam's rate for the embedding [the run's]", 0, 1e3},
    {"matrix-rate", CLI_REAL, "X", NULL, "Muon's rate for matrices [the run's]", 0, 1e3},
    {"unembedding-rate", CLI_REAL, "X", NULL, "Adam's rate for the unembedding [the run's]", 0, 1e3},
    {"scalar-rate", CLI_REAL, "X", NULL, "Adam's rate for LogN's scales [the run's]", 0, 1e3},
    {"save-every", CLI_INT, "N", NULL, "steps from one checkpoint to the next, 0: at the end [100]", 0, 1e9},
    {"lengths", CLI_TEXT, "LIST", "1x,4x,16x", "lengths of the haystacks, in training lengths", 0, 0},
    {"samples", CLI_INT, "N", NULL, "haystacks of each length [100]", 1, 1e6},
    {"seed", CLI_INT, "N", NULL, "of the haystacks [0]", 0, 9e15},
    {"needles", CLI_INT, "N", NULL, "needles in a haystack [3]", 1, 16},
    {"digits", CLI_INT, "N", NULL, "digits of a number [7]", 1, 15},
    {"name-cities", CLI_FLAG, NULL, NULL, "the question names the cities: an easier task", 0, 0},
    {"one-token-a-digit", CLI_FLAG, NULL, NULL, "numbers are not merged into longer tokens", 0, 0},
    {"alike", CLI_FLAG, NULL, NULL, "cities and numbers have the same tokens in text and answer", 0, 0},
    {"literal", CLI_FLAG, NULL, NULL, "needles stand in the text as in the answer, Lima=4830172;: easier", 0,
     0},
    {"numbers-only", CLI_FLAG, NULL, NULL,
     "the cities of the answer are given, its numbers alone are learnt and counted: easier", 0, 0},
    {"new-cities", CLI_FLAG, NULL, NULL, "cities too are others than in fine-tuning, as numbers are: harder",
     0, 0},
    {"threads", CLI_INT, "N", "0", "0: all processors; the result does not depend on it", 0, SIA_MAX_THREADS},
    CLI_RANK_OPTIONS,
    {"json", CLI_FLAG, NULL, NULL, "one JSON object a line on stdout, for each run and length", 0, 0},
    {"quiet", CLI_FLAG, NULL, NULL, "no progress, no lines but the table", 0, 0},
    {0}};

const cli_command command_needle = {
    .name = "needle",
    .summary = "Fine-tune runs on haystacks, and measure what they find in longer ones",
    .examples = "  sia train --out runs/si --scheme si+prope && sia train --out runs/rope --scheme rope\n"
                "  sia needle runs/si runs/rope --out needle\n"
                "  sia needle runs/si runs/rope --out needle --resume         after Ctrl-C\n"
                "  sia needle runs/si --out easy --name-cities --needles 1    an easier task\n",
    .operands = "RUNS...",
    .options = options,
    .notes =
        "A haystack is text of the run with sentences in it: The special magic Lima number is 4830172. The "
        "answer is Lima=4830172;Oslo=1094427;Quito=7740813, in the order of the text. Runs are fine-tuned at "
        "their "
        "training length, in FOLDER, with the loss on the answer alone; RUNS are not touched. Then they "
        "answer "
        "with numbers that fine-tuning never showed, each token being the most likely after what "
        "they wrote themselves. A needle is right when city and number are.\n"
        "What is found goes to FOLDER/needle.jsonl, by depth as well. A run that finds less than half at its "
        "training length has not learnt the task at this budget, which says nothing about length. One whose "
        "fine-tuning diverges is shown as such, and not tried again; the others go on.\n"
        "Under mpirun or srun the ranks fine-tune together, each with its part of every batch, and the "
        "haystacks are "
        "divided over them.\n",
    .ranks = true,
    .run = run,
};
