/* SPDX-License-Identifier: MIT
 *
 * sia probe: the attention of trained models on text. */
#define _GNU_SOURCE
#include "cli/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/threads.h"
#include "cli/probe_report.h"
#include "cli/progress.h"
#include "cli/deliver.h"
#include "cli/model.h"
#include "cli/show.h"
#include "data/windows.h"
#include "eval/text.h"
#include "train/model_file.h"

/* Lines of JSON are held until the last model is done: a file is whole or not there. */
typedef struct output {
    FILE *stream;
    char *lines;
    size_t size;
    bool begun; /* the study's line is written */
} output;

static int show_progress(void *context, const char *phase, double done) {
    (void)phase;
    cli_progress_update(context, 100 * done);
    return cli_stopped();
}

/* "4096", or "16x": times the training length. 0 when it is neither. */
static int64_t parse_length(const char *text, int64_t train_len) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool times = end > text && end[0] == 'x' && !end[1];
    if (errno || value < 1 || value > SIA_MAX_POSITION || end == text || (*end && !times)) return 0;
    if (times && value > SIA_MAX_POSITION / train_len) return 0;
    return times ? value * train_len : value;
}

static sia_status probe_windows(const cli_args *args, output *out, sia_model *m, const sia_windows *windows,
                                int64_t length, probe_subject *subject, sia_error *err) {
    sia_probe *p;
    cli_progress progress;
    char what[96];
    (void)snprintf(what, sizeof what, "%s", cli_shown(subject->path));
    cli_progress_start(&progress, what, 100, "%", 1);
    sia_probe_options options = {.windows = windows,
                                 .length = length,
                                 .seed = (uint64_t)cli_int(args, "seed"),
                                 .progress = show_progress,
                                 .progress_context = &progress};
    sia_status status = sia_probe_run(&p, m, &options, err);
    cli_progress_end(&progress);
    if (status) return status;
    subject->probe = p;
    if (!cli_flag(args, "quiet")) probe_print(cli_flag(args, "json") ? stderr : stdout, subject);
    cli_flush();
    char command[1024];
    cli_command_line(args, command, sizeof command);
    if (!out->begun)
        status = probe_write_study(out->stream, command, subject->data, (int)cli_int(args, "threads"), err);
    out->begun = true;
    if (!status) status = probe_write(out->stream, subject, err);
    sia_probe_destroy(p);
    return status;
}

/* The scheme, the length and the windows of a model that is open. */
static sia_status probe_text(const cli_args *args, output *out, sia_model *m, const sia_eval_text *text,
                             probe_subject *subject, sia_error *err) {
    const char *scheme = cli_given(args, "scheme") ? cli_text(args, "scheme") : subject->config->scheme;
    int64_t length = parse_length(cli_text(args, "length"), subject->config->train_len);
    if (!length)
        return sia_fail(err, SIA_ARGUMENT, "length %s: want tokens, like 4096, or training lengths, like 16x",
                        cli_text(args, "length"));
    sia_status status = sia_model_set_scheme(m, scheme, length, err);
    if (status) return status;
    subject->scheme = sia_attention_scheme(m->attention);
    char name[512];
    const char *path = cli_text(args, "data");
    subject->data = path ? path : sia_train_data_val_text(&text->run, name, sizeof name);
    sia_windows *windows = NULL;
    status = sia_windows_make(&windows, text->corpus, length, cli_int(args, "windows"), text->join, err);
    if (!status) status = probe_windows(args, out, m, windows, length, subject, err);
    sia_windows_destroy(windows);
    return status;
}

static sia_status probe_model(const cli_args *args, output *out, const char *path, sia_error *err) {
    cli_model model;
    sia_eval_text text = {0};
    int threads = (int)cli_int(args, "threads");
    sia_status status = cli_model_open(&model, path, cli_text(args, "tokenizer"), threads, err);
    if (!status) {
        probe_subject subject = {.path = path, .step = model.step, .config = sia_model_settings(model.m)};
        sia_eval_source source = {.run = model.run,
                                  .path = cli_text(args, "data"),
                                  .tokenizer = model.tokenizer,
                                  .vocabulary = subject.config->vocabulary,
                                  .threads = threads,
                                  .stopped = cli_stopped};
        status = sia_eval_text_open(&text, &source, err);
        if (!status) status = probe_text(args, out, model.m, &text, &subject, err);
        sia_eval_text_close(&text);
    }
    cli_model_close(&model);
    return status;
}

static int run(const cli_args *args) {
    char **models;
    int count = cli_operands(args, &models);
    if (!count) return cli_usage(args, "want models: runs, checkpoints or files");
    if (!parse_length(cli_text(args, "length"), 1))
        return cli_usage(args, "--length %s: want tokens, like 4096, or training lengths, like 16x",
                         cli_text(args, "length"));
    sia_error err;
    sia_scheme scheme;
    if (cli_given(args, "scheme") && sia_scheme_parse(cli_text(args, "scheme"), &scheme, &err))
        return cli_fail(&err);
    if (cli_flag(args, "quiet")) cli_progress_silence();
    cli_catch_stop();
    const char *folder = cli_text(args, "out");
    sia_status status = folder ? sia_folder_ensure(folder, &err) : SIA_OK;
    output out = {0};
    if (!status && !(out.stream = open_memstream(&out.lines, &out.size)))
        status = sia_fail_memory(&err, 65536, "JSON");
    for (int i = 0; !status && i < count; i++) status = probe_model(args, &out, models[i], &err);
    if (out.stream && fclose(out.stream) != 0 && !status) status = sia_fail_memory(&err, out.size, "JSON");
    if (!status)
        status = cli_deliver(&(cli_lines){.lines = out.lines,
                                          .size = out.size,
                                          .folder = folder,
                                          .file = "probe.jsonl",
                                          .on_stdout = cli_flag(args, "json"),
                                          .tell = !cli_flag(args, "quiet")},
                             &err);
    free(out.lines);
    return status ? cli_fail(&err) : CLI_DONE;
}

static const cli_option options[] = {
    {"data", CLI_TEXT, "PATH", NULL, "text or shards [the run's validation text]", 0, 0},
    {"tokenizer", CLI_TEXT, "PATH", NULL, "of --data [that of the run]", 0, 0},
    {"length", CLI_TEXT, "N", "16x", "tokens of a window, or training lengths", 0, 0},
    {"windows", CLI_INT, "N", "16", "windows, at most, spread over the text", 1, SIA_PROBE_WINDOWS},
    {"scheme", CLI_TEXT, "SCHEME", NULL, "look at the model as this one: ntk, yarn for rope", 0, 0},
    {"seed", CLI_INT, "N", "0", "of the sampled pairs", 0, 9e15},
    {"threads", CLI_INT, "N", "0", "0: all processors; the result does not depend on it", 0, SIA_MAX_THREADS},
    {"out", CLI_TEXT, "FOLDER", NULL, "write FOLDER/probe.jsonl, for the report", 0, 0},
    {"json", CLI_FLAG, NULL, NULL, "one JSON object a line on stdout", 0, 0},
    {"quiet", CLI_FLAG, NULL, NULL, "no tables, no progress", 0, 0},
    {0}};

const cli_command command_probe = {
    .name = "probe",
    .summary = "What the attention of trained models does on text: entropy, distances, logits",
    .examples = "  sia probe runs/si runs/rope\n"
                "  sia probe runs/si --data novel.txt --length 4096\n"
                "  sia probe runs/rope --scheme ntk --out probe      probe/probe.jsonl, for the report\n"
                "  sia probe runs/si/step-000500 --json | grep probe-context\n",
    .operands = "MODELS...",
    .options = options,
    .notes =
        "A model is the folder of a run (its newest checkpoint), of one checkpoint, or a model.safetensors. "
        "Each "
        "window is a part of one document.\n"
        "Lines of JSON, by their field \"kind\"; scheme and seed are in all but the first:\n"
        "  study          how this was called, version, machine, data\n"
        "  probe-model    model, step, train_len, length, windows, pairs of each head, data\n"
        "  probe-context  length: entropy, last100, self, first, of rows that see about so many keys\n"
        "  probe-range    length, from, to: entropy within from <= t < to, mass; keys there at that length\n"
        "  probe-mass     layer, head, decade: mass on from <= t < to, over the window's second half\n"
        "  probe-logits   layer, head, rotary: mean, variance, off_unit, within, kurtosis, qq\n"
        "  probe-final    layer, head: the same of the logits that the softmax is given\n"
        "Entropies are in nats, t is the distance, self is the weight on t = 0, first that on the first "
        "token of "
        "the window. Errors are standard errors over windows.\n"
        "Logits are those of a sample of pairs, keys drawn evenly from what a query sees, the first token "
        "left "
        "out. "
        "off_unit is the variance less 1: the transform assumes 0. within is the mean variance over the keys "
        "of one "
        "query. qq holds 101 pairs at 0.1%, 1%, 2% ... 99%, 99.9%: the quantile of the Gaussian of the same "
        "mean "
        "and variance, and the one found.\n",
    .run = run,
};
