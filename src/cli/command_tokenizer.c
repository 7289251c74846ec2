/* SPDX-License-Identifier: MIT
 *
 * sia tokenizer train: a tokenizer from text. sia tokenizer info: what a tokenizer is. */
#include "cli/commands.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "base/json.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "cli/stream.h"

/* -------------------------------------------------------------------------------------------------- train */

/* The texts of all operands: files are mapped, stdin is read. */
typedef struct inputs {
    sia_text *texts;
    sia_map *maps;
    char *standard; /* what was read of stdin */
    int count;
    size_t bytes;
} inputs;

static void close_inputs(inputs *in) {
    for (int i = 0; i < in->count && in->maps; i++) sia_map_close(&in->maps[i]);
    free(in->texts);
    free(in->maps);
    free(in->standard);
}

/* A byte 0 is in no text, and in nearly all that is not text. */
static sia_status check_text(const char *path, sia_text text, bool any_bytes, sia_error *err) {
    if (text.size == 0) return sia_fail(err, SIA_FORMAT, "%s: there is nothing in it to train on", path);
    const char *zero = any_bytes ? NULL : memchr(text.bytes, 0, text.size);
    if (!zero) return SIA_OK;
    return sia_fail(err, SIA_FORMAT, "%s: not text, byte %zu is 0 (--any-bytes takes it all the same)", path,
                    (size_t)(zero - text.bytes));
}

static sia_status open_inputs(inputs *in, char **paths, int count, bool any_bytes, sia_error *err) {
    *in = (inputs){.count = count};
    in->texts = calloc((size_t)count, sizeof *in->texts);
    in->maps = calloc((size_t)count, sizeof *in->maps);
    if (!in->texts || !in->maps) return sia_fail_memory(err, (size_t)count * sizeof *in->texts, "inputs");
    for (int i = 0; i < count; i++) {
        sia_status status;
        if (strcmp(paths[i], "-") == 0) {
            if (in->standard) return sia_fail(err, SIA_ARGUMENT, "stdin is named twice");
            status = sia_stdin_read(PTRDIFF_MAX, cli_stopped, &in->standard, &in->texts[i].size, err);
            in->texts[i].bytes = in->standard;
        } else {
            status = sia_map_open(&in->maps[i], paths[i], err);
            in->texts[i] = (sia_text){in->maps[i].bytes, in->maps[i].size};
        }
        if (!status)
            status = check_text(strcmp(paths[i], "-") ? paths[i] : "stdin", in->texts[i], any_bytes, err);
        if (status) return status;
        in->bytes += in->texts[i].size;
    }
    return SIA_OK;
}

/* Each phase has a line of its own. */
typedef struct phases {
    cli_progress line;
    const char *phase;
    double bytes, merges;
} phases;

static int show(void *context, const char *phase, double done) {
    phases *p = context;
    double total = strcmp(phase, "count") == 0 ? p->bytes : p->merges;
    if (!p->phase || strcmp(p->phase, phase) != 0) {
        cli_progress_end(&p->line);
        if (total == p->bytes)
            cli_progress_start(&p->line, "count words", total, "MB", 1e6);
        else
            cli_progress_start(&p->line, "merge pairs", total, "merges", 1);
        p->phase = phase;
    }
    cli_progress_update(&p->line, done * total);
    return cli_stopped();
}

static void report_training(const cli_args *args, const inputs *in, double seconds, const char *out) {
    int size = (int)cli_int(args, "size");
    if (cli_flag(args, "json"))
        printf("{\"size\": %d, \"bytes\": %zu, \"files\": %d, \"seconds\": %.3f}\n", size, in->bytes,
               in->count, seconds);
    if (!cli_flag(args, "quiet"))
        fprintf(stderr, "%s: %d tokens, trained on %.1f MB in %.1f s\n", cli_shown(out), size,
                (double)in->bytes / 1e6, seconds);
}

static int run_train(const cli_args *args) {
    static char standard[] = "-";
    char **paths, *none[] = {standard};
    sia_error err;
    inputs in = {0};
    sia_tokenizer *t = NULL;
    int count = cli_operands(args, &paths);
    const char *out = cli_text(args, "out");
    if (strcmp(out, "-") == 0 && cli_flag(args, "json"))
        return cli_usage(args, "--json and --out - both want stdout");
    if (cli_flag(args, "quiet")) cli_progress_silence();
    cli_catch_stop();
    sia_status status = SIA_OK;
    for (int i = 0; !status && i < count; i++) status = cli_refuse_input(out, paths[i], &err);
    if (!status)
        status = open_inputs(&in, count ? paths : none, count ? count : 1, cli_flag(args, "any-bytes"), &err);
    double started = cli_seconds();
    sia_tokenizer_training training = {.size = (uint32_t)cli_int(args, "size"),
                                       .min_count = (uint32_t)cli_int(args, "min-count"),
                                       .threads = (int)cli_int(args, "threads"),
                                       .progress = show};
    phases p = {.bytes = (double)in.bytes, .merges = training.size > 257 ? training.size - 257.0 : 0};
    cli_progress_start(&p.line, "", 0, "", 1);
    training.progress_context = &p;
    if (!status) status = sia_tokenizer_train(&t, &training, in.texts, (size_t)in.count, &err);
    cli_progress_end(&p.line);
    if (!status) status = sia_tokenizer_save(t, out, &err);
    if (!status) report_training(args, &in, cli_seconds() - started, out);
    sia_tokenizer_close(t);
    close_inputs(&in);
    return status ? cli_fail(&err) : CLI_DONE;
}

static const cli_option train_options[] = {
    {"size", CLI_INT, "N", "4096", "tokens: 256 bytes, the merges, <|endoftext|>", .min = 257,
     .max = 1000000},
    {"out", CLI_TEXT, "PATH", "tokenizer.json", "the tokenizer.json to write, - for stdout", 0, 0},
    {"min-count", CLI_INT, "N", "2", "pairs that are rarer are not merged", .min = 1, .max = 1e9},
    {"any-bytes", CLI_FLAG, NULL, NULL, "take files that are not text", 0, 0},
    {"threads", CLI_INT, "N", "0", "threads, 0 for all processors", .min = 0, .max = SIA_MAX_THREADS},
    {"json", CLI_FLAG, NULL, NULL, "a JSON object on stdout when done", 0, 0},
    {"quiet", CLI_FLAG, NULL, NULL, "no progress, no report", 0, 0},
    {0}};

const cli_command command_tokenizer_train = {
    .name = "tokenizer train",
    .summary = "Train a byte-level BPE tokenizer on text",
    .examples = "  sia tokenizer train books.txt\n"
                "  sia tokenizer train --size 16384 --out my.json corpus/*.txt\n"
                "  zcat corpus.gz | sia tokenizer train --out my.json\n",
    .operands = "[FILES...]",
    .options = train_options,
    .notes = "Without files, or for the file -, text comes from stdin. The result does not depend on the "
             "order of the\n"
             "files or on the number of threads. Hugging Face's tokenizers reads it.\n",
    .run = run_train,
};

/* --------------------------------------------------------------------------------------------------- info */

typedef struct summary {
    uint32_t specials, longest;
    size_t longest_bytes;
    double mean_bytes; /* of the tokens that are not special */
} summary;

static summary summarise(const sia_tokenizer *t) {
    summary s = {0};
    double bytes = 0;
    for (uint32_t id = 0; id < sia_tokenizer_size(t); id++) {
        size_t length;
        (void)sia_tokenizer_bytes(t, id, &length);
        if (sia_tokenizer_special(t, id)) s.specials++;
        if (length > s.longest_bytes) {
            s.longest = id;
            s.longest_bytes = length;
        }
        bytes += (double)length;
    }
    s.mean_bytes = bytes / (sia_tokenizer_size(t) - s.specials);
    return s;
}

/* JSON on one line; strings that are not UTF-8 cannot occur: names of special tokens come from JSON. */
static int print_json(const sia_tokenizer *t, const summary *s) {
    json_t *specials = json_object();
    for (uint32_t id = 0; id < sia_tokenizer_size(t); id++)
        if (sia_tokenizer_special(t, id))
            sia_json_set(&specials, sia_tokenizer_special(t, id), json_integer(id));
    json_t *root = json_pack("{s:I, s:I, s:I, s:o, s:I, s:f}", "size", (json_int_t)sia_tokenizer_size(t),
                             "merges", (json_int_t)sia_tokenizer_merges(t), "end_of_text",
                             (json_int_t)sia_tokenizer_end_of_text(t), "specials", specials, "longest_bytes",
                             (json_int_t)s->longest_bytes, "mean_bytes", s->mean_bytes);
    sia_error err;
    return cli_json_line(root, &err) ? cli_fail(&err) : CLI_DONE;
}

static void print_token(const sia_tokenizer *t, uint32_t id, size_t limit) {
    size_t length;
    const char *bytes = sia_tokenizer_bytes(t, id, &length);
    putchar('\'');
    for (size_t i = 0; i < length && i < limit; i++)
        if (bytes[i] >= 0x20 && bytes[i] < 0x7f && bytes[i] != '\\' && bytes[i] != '\'')
            putchar(bytes[i]);
        else
            printf("\\x%02x", (unsigned char)bytes[i]);
    printf(length > limit ? "'..." : "'");
}

static int run_info(const cli_args *args) {
    char **paths;
    sia_error err;
    sia_tokenizer *t;
    if (cli_operands(args, &paths) != 1)
        return cli_usage(args, "want one tokenizer: a tokenizer.json or a folder");
    if (sia_tokenizer_open(&t, paths[0], &err)) return cli_fail(&err);
    summary s = summarise(t);
    int code = CLI_DONE;
    if (cli_flag(args, "json"))
        code = print_json(t, &s);
    else {
        printf("size         %u\n", sia_tokenizer_size(t));
        printf("merges       %u\n", sia_tokenizer_merges(t));
        printf("end of text  %u\n", sia_tokenizer_end_of_text(t));
        for (uint32_t id = 0; id < sia_tokenizer_size(t); id++)
            if (sia_tokenizer_special(t, id))
                printf("special      %u %s\n", id, cli_shown(sia_tokenizer_special(t, id)));
        printf("mean length  %.2f bytes\n", s.mean_bytes);
        printf("longest      %zu bytes, %u ", s.longest_bytes, s.longest);
        print_token(t, s.longest, 40);
        putchar('\n');
    }
    sia_tokenizer_close(t);
    return code;
}

static const cli_option info_options[] = {{"json", CLI_FLAG, NULL, NULL, "one JSON object on stdout", 0, 0},
                                          {0}};

const cli_command command_tokenizer_info = {
    .name = "tokenizer info",
    .summary = "What a tokenizer is: size, merges, special tokens",
    .examples = "  sia tokenizer info tokenizer.json\n"
                "  sia tokenizer info gpt2/            a folder with encoder.json and vocab.bpe\n",
    .operands = "PATH",
    .options = info_options,
    .run = run_info,
};
