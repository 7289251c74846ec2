/* SPDX-License-Identifier: MIT
 *
 * sia train: one model, in the folder of its run. */
#include "cli/commands.h"

#include <stdio.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/threads.h"
#include "cli/machine.h"
#include "cli/ranks.h"
#include "cli/settings.h"
#include "cli/show.h"
#include "cli/train_progress.h"

/* What "stopped" leaves open: how to go on. */
static void tell_how_to_go_on(const char *out, sia_error *err) {
    bool begun = false;
    sia_error ignored;
    if (!sia_folder_look(out, "config.json", &begun, &ignored) && begun)
        (void)sia_fail(err, SIA_STOPPED, "stopped; 'sia train --resume --out %s' goes on", out);
    else
        (void)sia_fail(err, SIA_STOPPED, "stopped before the run had begun; the same command begins again");
}

static void say_end(const cli_train_progress *p, const char *out, double seconds) {
    fprintf(stderr, "%s: %lld steps, %.1f s, at most %.0f MB of memory\n", cli_shown(out),
            (long long)p->steps, seconds, cli_peak_megabytes());
}

static sia_status say_json(const cli_train_progress *p, const char *out, double seconds, sia_error *err) {
    json_t *validation = json_object();
    for (int i = 0; p->validated && p->multiples[i]; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "%lldx", (long long)p->multiples[i]);
        sia_json_set(&validation, name, json_real(p->validation[i]));
    }
    return cli_json_line(json_pack("{s:o, s:I, s:f, s:o}", "run", sia_json_text(out), "steps",
                                   (json_int_t)p->steps, "seconds", seconds, "validation", validation),
                         err);
}

/* A start that failed or was stopped may have packed its text: a run on generated text is not what goes on there. */
static int refuse_packed(const cli_args *args, const char *out) {
    char **paths;
    bool packed;
    sia_error err;
    if (cli_operands(args, &paths)) return CLI_DONE;
    if (sia_folder_look(out, "data", &packed, &err)) return cli_fail(&err);
    return packed ? cli_usage(args,
                              "%s: the text of a run is packed there, which has not begun: name its files "
                              "and settings again",
                              cli_shown(out))
                  : CLI_DONE;
}

static int run(const cli_args *args) {
    const char *out = cli_text(args, "out");
    if (!out) return cli_usage(args, "want --out RUN, the folder of the run");
    if (cli_given(args, "val") && cli_given(args, "val-fraction")) return cli_usage(args, CLI_TWO_VALS);
    int refused = cli_refuse_runs(args);
    if (refused) return refused;
    bool quiet = cli_flag(args, "quiet") || !cli_first_rank();
    if (quiet) cli_progress_silence();
    cli_catch_stop();
    sia_error err;
    sia_settings base, settings;
    bool resume = cli_flag(args, "resume"), begun = false;
    if (resume && sia_folder_look(out, "config.json", &begun, &err)) return cli_fail(&err);
    if (begun && sia_train_config_read(out, &base, NULL, &err)) return cli_fail(&err);
    refused = resume && !begun ? refuse_packed(args, out) : CLI_DONE;
    if (refused) return refused;
    /* A preset that is named for a run which is resumed is compared with what the run has, not ignored. */
    bool from_base = begun && !cli_given(args, "preset");
    int code = cli_settings(args, from_base ? &base : NULL, &settings);
    if (begun && !cli_vocabulary_given(args)) settings.model.vocabulary = base.model.vocabulary;
    if (code) return code;
    if (resume && !begun && !quiet)
        fprintf(stderr, "%s: no run to go on with: a new one begins\n", cli_shown(out));
    char command[1024];
    cli_command_line(args, command, sizeof command);
    cli_train_progress progress = {.quiet = quiet};
    cli_progress_start(&progress.shown.line, "", 0, "", 1);
    sia_data_source source = cli_data_source(args, &progress.shown);
    sia_train_job job = {.folder = out,
                         .settings = &settings,
                         .source = &source,
                         .threads = (int)cli_int(args, "threads"),
                         .resume = resume,
                         .initial = cli_text(args, "from"),
                         .command = command,
                         .hook = cli_train_hook,
                         .hook_context = &progress,
                         .comm = cli_ranks(),
                         .together = (int)cli_int(args, "context-parallel")};
    double started = cli_seconds();
    sia_status status = sia_train(&job, &err);
    cli_train_progress_end(&progress);
    if (status == SIA_STOPPED && !quiet) tell_how_to_go_on(out, &err);
    if (status) return cli_fail(&err);
    if (!quiet) say_end(&progress, out, cli_seconds() - started);
    if (cli_flag(args, "json")) status = say_json(&progress, out, cli_seconds() - started, &err);
    return status ? cli_fail(&err) : CLI_DONE;
}

static const cli_option options[] = {
    {"out", CLI_TEXT, "RUN", NULL, "the folder of the run", 0, 0},
    {"resume", CLI_FLAG, "[auto]", NULL, "go on from its newest checkpoint; begin where there is none", 0, 0},
    {"from", CLI_TEXT, "MODEL", NULL,
     "weights to start from, with their tokenizer: a run, a checkpoint, a file", 0, 0},
    {"scheme", CLI_TEXT, "SCHEME", NULL, "scheme of attention [si+prope]", 0, 0},
    CLI_MODEL_OPTIONS,
    CLI_TRAINING_OPTIONS,
    CLI_DATA_OPTIONS,
    {"threads", CLI_INT, "N", "0", "0: all processors; the result does not depend on it", 0, SIA_MAX_THREADS},
    CLI_CONTEXT_OPTIONS,
    CLI_RANK_OPTIONS,
    {"json", CLI_FLAG, NULL, NULL, "the result as one JSON object on stdout", 0, 0},
    {"quiet", CLI_FLAG, NULL, NULL, "no progress, no lines", 0, 0},
    {0}};

const cli_command command_train = {
    .name = "train",
    .summary = "Train one model, in a folder from which a stopped run goes on",
    .examples =
        "  sia train --out runs/first                       generated text, the tiny preset\n"
        "  sia train --out runs/books books.txt --preset small --steps 2000\n"
        "  sia train --out runs/books --resume              after Ctrl-C, a crash, a full disk\n"
        "  sia train --out runs/rope books.txt --scheme rope --seed 1\n"
        "  mpirun -n 8 sia train --out runs/big books.txt --preset small --resume auto\n"
        "  sia train --out runs/web 'fineweb/fineweb_train_*.bin' --val 'fineweb/fineweb_val_*.bin' --preset "
        "paper-162m\n",
    .operands = "[FILES...]",
    .options = options,
    .notes = "FILES are what 'sia data pack' takes (text files, folders, -), or one folder that it made, or "
             "one shard "
             "or pattern of shards (*.bin). Without FILES the text is generated. Files of a folder that are "
             "no text are left out.\n"
             "The folder gets config.json, tokenizer.json, metrics.jsonl and checkpoints "
             "step-N/model.safetensors, "
             "optimizer.safetensors. Ctrl-C writes a checkpoint and ends with exit code 130.\n"
             "Under mpirun or srun each rank takes its part of every batch; a run that was saved on some "
             "number of ranks can be resumed on any other (docs/cluster.md).\n",
    .ranks = true,
    .run = run,
};
