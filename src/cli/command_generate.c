/* SPDX-License-Identifier: MIT
 *
 * sia generate: text from a model. */
#include "cli/commands.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/harmless.h"
#include "base/memory.h"
#include "base/threads.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "model/generate.h"
#include "model/session.h"
#include "position/scheme.h"

enum { PROMPT_MOST = 1 << 30 };

/* Where the text goes: to stdout at once, or into memory for --json. */
typedef struct sink {
    bool keep;
    bool terminal; /* what a model says is not for it to obey */
    bool closed;   /* nobody reads any more */
    char *text;
    size_t count, room;
} sink;

static sia_status keep(sink *out, const char *bytes, size_t count, sia_error *err) {
    if (!sia_grow(&out->text, &out->room, out->count + count, 1)) return sia_fail_memory(err, count, "text");
    memcpy(out->text + out->count, bytes, count);
    out->count += count;
    return SIA_OK;
}

/* Not through stdio: a reader sees each token when it comes, and a pipe that was closed leaves no error there
 * for the end of the program to speak of. */
static sia_status write_all(sink *out, const char *bytes, size_t count, sia_error *err) {
    while (count) {
        ssize_t n = write(STDOUT_FILENO, bytes, count);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EPIPE) {
            out->closed = true;
            return sia_fail(err, SIA_STOPPED, "nobody reads");
        }
        if (n < 0) return sia_fail_file(err, "stdout");
        bytes += n;
        count -= (size_t)n;
    }
    return SIA_OK;
}

/* Text comes in whole characters. */
static sia_status write_text(void *context, const char *bytes, size_t count, sia_error *err) {
    sink *out = context;
    if (out->keep) return keep(out, bytes, count, err);
    if (!out->terminal || !count) return write_all(out, bytes, count, err);
    char *shown = malloc(count);
    if (!shown) return sia_fail_memory(err, count, "text");
    memcpy(shown, bytes, count);
    sia_status status = write_all(out, sia_harmless(shown, count, "\n\t"), count, err);
    free(shown);
    return status;
}

/* -------------------------------------------------------------------------------------------------- report */

static const char *const end_names[] = {"tokens", "end-of-text", "stop"};

/* The first token comes with the prompt: what is timed are the others. */
static double speed(const sia_generated *r) {
    return r->seconds > 0 && r->tokens > 1 ? (double)(r->tokens - 1) / r->seconds : 0;
}

static void say(const sia_generated *r) {
    if (isatty(STDOUT_FILENO) == 1) fputs("\n", stderr);
    fprintf(stderr, "prompt %lld token%s", (long long)r->prompt_tokens, r->prompt_tokens == 1 ? "" : "s");
    if (r->prompt_seconds > 0) fprintf(stderr, ", %.1f/s", (double)r->prompt_tokens / r->prompt_seconds);
    fprintf(stderr, "; text %lld token%s", (long long)r->tokens, r->tokens == 1 ? "" : "s");
    if (speed(r) > 0) fprintf(stderr, ", %.1f/s", speed(r));
    fputs("\n", stderr);
}

static sia_status say_json(const sink *out, const sia_generated *r, const sia_session *s, sia_error *err) {
    double prompt = r->prompt_seconds > 0 ? (double)r->prompt_tokens / r->prompt_seconds : 0;
    return cli_json_line(json_pack("{s:s%, s:I, s:I, s:s, s:f, s:f, s:I}", "text", out->text ? out->text : "",
                                   out->count, "prompt_tokens", (json_int_t)r->prompt_tokens, "tokens",
                                   (json_int_t)r->tokens, "end", end_names[r->end], "prompt_tokens_per_s",
                                   prompt, "tokens_per_s", speed(r), "session_bytes",
                                   (json_int_t)sia_session_bytes(s)),
                         err);
}

/* ---------------------------------------------------------------------------------------------- generating */

static sia_status read_prompt(const cli_args *args, char **held, sia_text *prompt, sia_error *err) {
    const char *text = cli_text(args, "prompt"), *file = cli_text(args, "prompt-file");
    sia_status status = SIA_OK;
    if (text) *prompt = (sia_text){text, strlen(text)};
    if (!file) return SIA_OK;
    if (strcmp(file, "-") == 0)
        status = sia_stdin_read(PROMPT_MOST, cli_stopped, held, &prompt->size, err);
    else
        status = sia_input_read(file, PROMPT_MOST, cli_stopped, held, &prompt->size, err);
    prompt->bytes = *held;
    return status;
}

static sia_status count_tokens(const cli_model *model, sia_text text, size_t *count, sia_error *err) {
    uint32_t *ids = sia_alloc(text.size + 1, sizeof *ids);
    if (!ids) return sia_fail_memory(err, (text.size + 1) * sizeof *ids, "prompt");
    sia_status status =
        sia_tokenizer_encode(model->tokenizer, text.bytes ? text.bytes : "", text.size, ids, count, err);
    sia_free(ids);
    return status;
}

/* The scheme that is asked for (NULL: the model's own). NTK and YaRN are fitted to the length that the text will have. */
static sia_status fit_scheme(const cli_model *model, const char *asked, sia_text prompt, int64_t tokens,
                             sia_error *err) {
    const char *name = asked ? asked : sia_model_settings(model->m)->scheme;
    size_t count = 0;
    sia_scheme scheme;
    sia_status status = sia_scheme_parse(name, &scheme, err);
    if (status) return status;
    if (!sia_extends_rope(scheme.rotary))
        return asked ? sia_model_set_scheme(model->m, name, 0, err) : SIA_OK;
    if (tokens == 0)
        return sia_fail(err, SIA_ARGUMENT,
                        "%s is fitted to the length of the text: want --tokens 1 or more, or --scheme rope",
                        name);
    status = count_tokens(model, prompt, &count, err);
    return status ? status : sia_model_set_scheme(model->m, name, (int64_t)count + 1 + tokens, err);
}

static sia_status generate(const cli_args *args, const cli_model *model, sia_text prompt, sink *out,
                           sia_error *err) {
    const char *stop = cli_text(args, "stop");
    sia_generation g = {.tokenizer = model->tokenizer,
                        .prompt = prompt,
                        .sampling = {.temperature = cli_real(args, "temperature"),
                                     .top_k = cli_int(args, "top-k"),
                                     .top_p = cli_real(args, "top-p"),
                                     .seed = (uint64_t)cli_int(args, "seed")},
                        .tokens = cli_int(args, "tokens"),
                        .stop = {stop, stop ? strlen(stop) : 0},
                        .ignore_end = cli_flag(args, "ignore-end"),
                        .write = write_text,
                        .write_context = out,
                        .stopped = cli_stopped};
    sia_session *s = NULL;
    sia_type type = SIA_F32;
    sia_generated result = {0};
    sia_status status = sia_type_parse(cli_text(args, "cache"), &type, err);
    if (!status) status = fit_scheme(model, cli_text(args, "scheme"), prompt, g.tokens, err);
    if (!status) status = sia_session_create(&s, model->m, type, err);
    if (!status) status = sia_generate(s, model->m, &g, &result, err);
    bool came = !status || status == SIA_STOPPED;
    if (came && !out->keep && !out->closed && !cli_flag(args, "quiet")) say(&result);
    sia_error unsaid;
    if (came && out->keep) {
        sia_status said = say_json(out, &result, s, status ? &unsaid : err);
        if (!status) status = said;
    }
    sia_session_destroy(s);
    return status;
}

static int run(const cli_args *args) {
    char **operands;
    if (cli_operands(args, &operands) != 1)
        return cli_usage(args, "want one MODEL: a run, a checkpoint or a model.safetensors");
    if (cli_given(args, "prompt") && cli_given(args, "prompt-file"))
        return cli_usage(args, "want --prompt or --prompt-file, not both");
    cli_catch_stop();
    (void)signal(SIGPIPE, SIG_IGN);
    sia_error err;
    cli_model model = {0};
    sink out = {.keep = cli_flag(args, "json"), .terminal = isatty(STDOUT_FILENO) == 1};
    char *held = NULL;
    sia_text prompt = {NULL, 0};
    sia_status status =
        cli_model_open(&model, operands[0], cli_text(args, "tokenizer"), (int)cli_int(args, "threads"), &err);
    if (!status && !model.tokenizer)
        status = sia_fail(&err, SIA_ARGUMENT, "%s: no tokenizer.json beside the model: want --tokenizer PATH",
                          operands[0]);
    if (!status) status = read_prompt(args, &held, &prompt, &err);
    if (!status) status = generate(args, &model, prompt, &out, &err);
    free(held);
    free(out.text);
    cli_model_close(&model);
    if (out.closed || !status) return CLI_DONE;
    if (status == SIA_STOPPED) return CLI_INTERRUPTED; /* the text says enough */
    return cli_fail(&err);
}

static const cli_option options[] = {
    {"prompt", CLI_TEXT, "TEXT", NULL, "the beginning, which the text continues [nothing: a new document]", 0,
     0},
    {"prompt-file", CLI_TEXT, "PATH", NULL, "the same from a file, - for stdin", 0, 0},
    {"tokens", CLI_INT, "N", "200", "at most; 0: until it ends, or memory does", .min = 0, .max = 1 << 30},
    {"temperature", CLI_REAL, "X", "0.8", "below 1: likelier tokens; 0: always the likeliest", .min = 0,
     .max = 1000},
    {"top-k", CLI_INT, "N", "0", "only the N likeliest tokens; 0: all", .min = 0, .max = 1 << 30},
    {"top-p", CLI_REAL, "P", "1", "only the likeliest tokens that reach this probability together",
     .min = 1e-6, .max = 1},
    {"seed", CLI_INT, "N", "0", "another seed, another text", .min = 0, .max = 9e15},
    {"stop", CLI_TEXT, "TEXT", NULL, "end before this text", 0, 0},
    {"ignore-end", CLI_FLAG, NULL, NULL, "never end the document: end-of-text is not drawn", 0, 0},
    {"cache", CLI_TEXT, "f32|f16|int8", "f32", "the type of the KV cache", 0, 0},
    {"scheme", CLI_TEXT, "SCHEME", NULL,
     "rope+ntk or rope+yarn for a model that was trained with rope [the model's]", 0, 0},
    {"tokenizer", CLI_TEXT, "PATH", NULL, "a tokenizer.json [the run's]", 0, 0},
    {"threads", CLI_INT, "N", "0", "0: all processors; the text does not depend on it", 0, SIA_MAX_THREADS},
    {"json", CLI_FLAG, NULL, NULL, "text, counts and speeds as one JSON object on stdout", 0, 0},
    {"quiet", CLI_FLAG, NULL, NULL, "the text alone", 0, 0},
    {0}};

const cli_command command_generate = {
    .name = "generate",
    .summary = "Text from a model, as far beyond its training length as memory goes",
    .examples = "  sia generate runs/books --prompt 'It was a dark'\n"
                "  sia generate runs/books --prompt-file chapter.txt --tokens 2000 --cache int8\n"
                "  sia generate runs/books --temperature 0 --stop '.'\n",
    .operands = "MODEL",
    .options = options,
    .notes = "MODEL is the folder of a run (its newest checkpoint that is whole), of a checkpoint, or a "
             "model.safetensors.\n"
             "The text goes to stdout as it comes, without the prompt, in whole characters of UTF-8. It "
             "depends on the model, "
             "the prompt and the options, not on the number of threads. Ctrl-C ends it, with exit code "
             "130.\n",
    .run = run,
};
