/* SPDX-License-Identifier: MIT
 *
 * sia data pack: text files to a folder of token shards. */
#include "cli/commands.h"

#include <jansson.h>
#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "base/threads.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "data/pack.h"

static int show_progress(void *context, const char *phase, double done) {
    (void)phase;
    cli_progress *progress = context;
    cli_progress_update(progress, done * progress->total);
    return cli_stopped();
}

static void say_part(const char *name, const sia_manifest_part *part) {
    fprintf(stderr, "  %-6s %lld tokens, %lld document%s, %lld shard%s, %.2f bytes a token\n", name,
            (long long)part->tokens, (long long)part->documents, part->documents == 1 ? "" : "s",
            (long long)part->shard_count, part->shard_count == 1 ? "" : "s",
            part->tokens ? (double)part->bytes / (double)part->tokens : 0);
}

static void say(const char *folder, const sia_manifest *m, const sia_inputs *inputs, bool tails) {
    fprintf(stderr, "%s\n", cli_shown(folder));
    for (int part = 0; part < SIA_PARTS; part++)
        if (m->parts[part].shard_count) say_part(sia_part_names[part], &m->parts[part]);
    if (tails) fputs("  too few documents to hold any out: val is the end of every document\n", stderr);
    int64_t skipped = inputs[SIA_PART_TRAIN].skipped + inputs[SIA_PART_VAL].skipped;
    if (skipped)
        fprintf(stderr, "  %lld empty or binary file%s left out\n", (long long)skipped,
                skipped == 1 ? "" : "s");
}

static sia_status say_json(const char *folder, const sia_manifest *m, sia_error *err) {
    json_t *object = json_pack("{s:o}", "folder", sia_json_text(folder));
    for (int part = 0; part < SIA_PARTS; part++)
        if (m->parts[part].shard_count)
            sia_json_set(&object, sia_part_names[part],
                         json_pack("{s:I, s:I, s:I}", "tokens", (json_int_t)m->parts[part].tokens,
                                   "documents", (json_int_t)m->parts[part].documents, "bytes",
                                   (json_int_t)m->parts[part].bytes));
    return cli_json_line(object, err);
}

static int pack(const cli_args *args, const sia_tokenizer *tokenizer, const sia_inputs *inputs) {
    sia_error err;
    sia_manifest manifest;
    bool tails;
    cli_progress progress;
    sia_pack_options options = {
        .tokenizer = tokenizer,
        .folder = cli_text(args, "out"),
        .inputs = {&inputs[SIA_PART_TRAIN], inputs[SIA_PART_VAL].count ? &inputs[SIA_PART_VAL] : NULL},
        .val_fraction = cli_real(args, "val-fraction"),
        .whole_files = cli_flag(args, "whole-files"),
        .shard_tokens = cli_int(args, "shard-tokens"),
        .threads = (int)cli_int(args, "threads"),
        .progress = show_progress,
        .progress_context = &progress,
    };
    cli_progress_start(&progress, "pack", (double)(inputs[0].bytes + inputs[1].bytes), "MB", 1e6);
    sia_status status = sia_pack(&options, &manifest, &tails, &err);
    cli_progress_end(&progress);
    if (status) return cli_fail(&err);
    if (!cli_flag(args, "quiet")) say(options.folder, &manifest, inputs, tails);
    if (cli_flag(args, "json")) status = say_json(options.folder, &manifest, &err);
    sia_manifest_free(&manifest);
    return status ? cli_fail(&err) : CLI_DONE;
}

static sia_status find_inputs(const cli_args *args, sia_inputs inputs[SIA_PARTS], sia_error *err) {
    char **operands;
    int count = cli_operands(args, &operands);
    bool skip = cli_flag(args, "skip-unusable");
    bool wanted[SIA_PARTS] = {true, cli_given(args, "val")};
    sia_status status = SIA_OK;
    for (int i = 0; !status && i < count; i++)
        status = sia_inputs_add(&inputs[SIA_PART_TRAIN], operands[i], skip, err);
    if (!status && wanted[SIA_PART_VAL])
        status = sia_inputs_add(&inputs[SIA_PART_VAL], cli_text(args, "val"), skip, err);
    for (int part = 0; !status && part < SIA_PARTS; part++)
        if (wanted[part] && !inputs[part].count)
            status = sia_fail(err, SIA_FILE, "no text for %s: all files (%lld) are empty or binary",
                              sia_part_names[part], (long long)inputs[part].skipped);
    return status;
}

static int run(const cli_args *args) {
    char **operands;
    if (cli_operands(args, &operands) < 1) return cli_usage(args, "want files, folders, or - for stdin");
    if (!cli_given(args, "tokenizer"))
        return cli_usage(args, "want --tokenizer PATH, a tokenizer.json, as 'sia tokenizer train' makes it");
    if (!cli_given(args, "out")) return cli_usage(args, "want --out FOLDER, the folder to make");
    if (cli_given(args, "val") && cli_given(args, "val-fraction"))
        return cli_usage(args, "want --val or --val-fraction, not both");
    sia_error err;
    sia_tokenizer *tokenizer;
    const char *out = cli_text(args, "out");
    sia_inputs inputs[SIA_PARTS] = {{.stopped = cli_stopped, .output = out},
                                    {.stopped = cli_stopped, .output = out}};
    if (cli_flag(args, "quiet")) cli_progress_silence();
    cli_catch_stop();
    if (sia_tokenizer_open(&tokenizer, cli_text(args, "tokenizer"), &err)) return cli_fail(&err);
    int code = find_inputs(args, inputs, &err) ? cli_fail(&err) : pack(args, tokenizer, inputs);
    for (int part = 0; part < SIA_PARTS; part++) sia_inputs_free(&inputs[part]);
    sia_tokenizer_close(tokenizer);
    return code;
}

static const cli_option options[] = {
    {"tokenizer", CLI_TEXT, "PATH", NULL,
     "a tokenizer.json, or a folder with GPT-2's encoder.json and vocab.bpe", 0, 0},
    {"out", CLI_TEXT, "FOLDER", NULL, "the folder to make", 0, 0},
    {"val-fraction", CLI_REAL, "F", NULL, "hold out this part of the documents for validation", 0, 0.5},
    {"val", CLI_TEXT, "PATH", NULL, "a file or folder to validate on instead", 0, 0},
    {"whole-files", CLI_FLAG, NULL, NULL, "a file is one document: form feeds do not divide it", 0, 0},
    {"skip-unusable", CLI_FLAG, NULL, NULL, "leave empty and binary files out, instead of failing", 0, 0},
    {"shard-tokens", CLI_INT, "N", "100000000", "at most so many tokens in a shard", 1, 2147483647},
    {"threads", CLI_INT, "N", "0", "0: all processors", 0, SIA_MAX_THREADS},
    {"json", CLI_FLAG, NULL, NULL, "the counts as one JSON object on stdout", 0, 0},
    {"quiet", CLI_FLAG, NULL, NULL, "no progress, no report", 0, 0},
    {0}};

const cli_command command_data_pack = {
    .name = "data pack",
    .summary = "Text files to token shards, as llm.c reads them",
    .examples =
        "  sia data pack --tokenizer tokenizer.json --out books books.txt\n"
        "  sia data pack --tokenizer gpt2 --out notes --val-fraction 0.05 ~/notes\n"
        "  sia data generate --documents 100 | sia data pack --tokenizer tokenizer.json --out made -\n",
    .operands = "FILES...",
    .options = options,
    .notes = "FILES are text files, folders (all files in them, in the order of their names; names that "
             "start with\n"
             "a dot are left out; an empty or a binary one is an error without --skip-unusable) or - for "
             "stdin. A document is what stands between lines that hold a form "
             "feed alone, or\n"
             "a whole file; an end-of-text token goes before each. The folder gets train_*.bin, val_*.bin, "
             "tokenizer.json\n"
             "and data.json, and appears when all of it is written.\n",
    .run = run,
};
