/* SPDX-License-Identifier: MIT
 *
 * sia eval: the loss of a model by length and by position. */
#include "cli/commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/threads.h"
#include "cli/machine.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/show.h"
#include "data/windows.h"
#include "eval/loss.h"
#include "eval/text.h"
#include "model/session.h"
#include "train/contents.h"
#include "train/run.h"

typedef struct job {
    const cli_args *args;
    cli_model model;
    sia_eval_text text;
    sia_windows *windows;
    sia_run *run; /* to record in; or NULL */
    char *lines;  /* for it, until the last figure is known: an evaluation that fails and is called again is
                     not there twice */
    sia_lengths lengths;
    sia_loss_eval eval;
    const char *scheme;
    const char *data; /* what the text is called */
    char name[512];   /* that of the run */
    cli_progress progress;
    int at;      /* the length that is evaluated */
    double done; /* operations of those before it */
} job;

/* Operations a token: what a length costs grows with it, so tokens would tell the time left wrongly. */
static double work(const job *j, int64_t length) {
    return sia_model_flops(sia_model_settings(j->model.m), length);
}

static int show_progress(void *context, const char *phase, double done) {
    (void)phase;
    job *j = context;
    cli_progress_update(&j->progress, j->done + done * work(j, j->lengths.list[j->at]));
    return cli_stopped();
}

/* -------------------------------------------------------------------------------------------------- report */

static json_t *bins_json(const sia_loss_result *r) {
    json_t *bins = json_array();
    for (int i = 0; i < r->bin_count; i++)
        sia_json_push(&bins, json_pack("{s:I, s:I, s:f}", "from", (json_int_t)r->bins[i].from, "to",
                                       (json_int_t)r->bins[i].to, "loss", r->bins[i].loss));
    return bins;
}

static sia_status remember_line(job *j, const char *line, sia_error *err) {
    size_t used = j->lines ? strlen(j->lines) : 0, room = used + strlen(line) + 2;
    char *longer = realloc(j->lines, room);
    if (!longer) return sia_fail_memory(err, room, "eval.jsonl");
    (void)snprintf(longer + used, room - used, "%s%s", used ? "\n" : "", line);
    j->lines = longer;
    return SIA_OK;
}

/* A line for stdout, for the run's log, or both; takes the object. */
static sia_status put_line(job *j, json_t *object, sia_error *err) {
    if (!object) return sia_fail(err, SIA_NUMBER, "a figure is not finite");
    sia_status status = SIA_OK;
    if (j->run) {
        char *line = json_dumps(object, JSON_REAL_PRECISION(9));
        status = line ? remember_line(j, line, err) : sia_fail_memory(err, 256, "eval.jsonl");
        free(line);
    }
    if (!status && cli_flag(j->args, "json"))
        status = cli_json_line(object, err);
    else
        json_decref(object);
    return status;
}

static sia_status put_lines(job *j, const sia_loss_result *r, double seconds, sia_error *err) {
    json_int_t seed = (json_int_t)sia_model_settings(j->model.m)->seed, step = (json_int_t)j->model.step;
    sia_status status = put_line(
        j,
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:o, s:o, s:I, s:I, s:f, s:f, s:s, s:f, s:o}", "kind",
                  "eval", "scheme", j->scheme, "seed", seed, "step", step, "length", (json_int_t)r->length,
                  "loss", r->mean.loss, "error", sia_json_number(r->mean.error > 0 ? r->mean.error : NAN),
                  "perplexity", sia_json_number(exp(r->mean.loss)), "tokens", (json_int_t)r->mean.tokens,
                  "windows", (json_int_t)sia_windows_count(j->windows), "seconds", seconds, "tokens_per_s",
                  (double)r->mean.tokens / seconds, "cache", cli_text(j->args, "cache"), "peak_mb",
                  cli_peak_megabytes(), "data", sia_json_text(j->data)),
        err);
    if (!status && r->bin_count)
        status = put_line(j,
                          json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "kind", "position", "scheme", j->scheme,
                                    "seed", seed, "step", step, "length", (json_int_t)r->length, "bins",
                                    bins_json(r)),
                          err);
    return status;
}

static void print_head(const job *j) {
    printf("%s, %s, step %lld: %lld window%s of %lld tokens\n\n%10s %9s %9s %11s %12s %10s\n",
           cli_shown(j->model.path), j->scheme, (long long)j->model.step,
           (long long)sia_windows_count(j->windows), sia_windows_count(j->windows) == 1 ? "" : "s",
           (long long)j->eval.longest, "length", "loss", "std error", "perplexity", "tokens", "tokens/s");
}

static void print_row(const sia_loss_result *r, double seconds) {
    printf("%10lld %9.4f ", (long long)r->length, r->mean.loss);
    if (r->mean.error > 0)
        printf("%9.4f", r->mean.error);
    else
        printf("%9s", "-"); /* of one window nothing can be said */
    printf(" %11.3f %12lld %10.0f\n", exp(r->mean.loss), (long long)r->mean.tokens,
           (double)r->mean.tokens / seconds);
}

static void print_bins(const sia_loss_result *r) {
    printf("\nlength %lld, loss by position\n\n%22s %9s\n", (long long)r->length, "position, in tokens",
           "nats");
    for (int i = 0; i < r->bin_count; i++)
        printf("%10lld - %-9lld %9.4f\n", (long long)r->bins[i].from, (long long)r->bins[i].to - 1,
               r->bins[i].loss);
}

/* ------------------------------------------------------------------------------------------------ evaluating */

static sia_status evaluate(job *j, sia_error *err) {
    bool json = cli_flag(j->args, "json");
    sia_loss_result *results = calloc((size_t)j->lengths.count, sizeof *results);
    if (!results) return sia_fail_memory(err, sizeof *results, "results");
    sia_status status = SIA_OK;
    double total = 0;
    for (int i = 0; i < j->lengths.count; i++) total += work(j, j->lengths.list[i]);
    if (!json) print_head(j);
    cli_progress_start(&j->progress, "eval", total, "", 1);
    for (j->at = 0; !status && j->at < j->lengths.count; j->at++) {
        sia_loss_result *r = &results[j->at];
        double started = cli_seconds();
        cli_flush();
        status = sia_eval_loss(j->model.m, &j->eval, j->lengths.list[j->at], r, err);
        double seconds = cli_seconds() - started;
        if (!status && !json) cli_progress_clear(&j->progress);
        if (!status && !json) print_row(r, seconds);
        if (!status) status = put_lines(j, r, seconds, err);
        j->done += work(j, j->lengths.list[j->at]);
        status = sia_comm_agree(cli_ranks(), status, err);
    }
    cli_progress_end(&j->progress);
    for (int i = 0; !status && !json && i < j->lengths.count; i++)
        if (results[i].bin_count) print_bins(&results[i]);
    free(results);
    cli_flush(); /* the table stands before the last line when both go to one place */
    /* Figures that could not be shown are a failure too, which cli_main tells. */
    if (!status && j->lines && !ferror(stdout))
        status = sia_run_append_lines(j->run, SIA_RUN_EVAL, j->lines, err);
    status = sia_comm_agree(cli_ranks(), status, err);
    if (!status && !cli_flag(j->args, "quiet") && cli_first_rank())
        fprintf(stderr, "at most %.0f MB of memory\n", cli_peak_megabytes());
    return status;
}

/* The scheme in its canonical form, so that lines can be compared. */
static sia_status name_scheme(job *j, char name[SIA_SCHEME_NAME], sia_error *err) {
    sia_scheme scheme;
    const char *given = cli_text(j->args, "scheme");
    j->scheme = sia_model_settings(j->model.m)->scheme;
    if (!given) return SIA_OK;
    sia_status status = sia_scheme_parse(given, &scheme, err);
    if (!status) j->eval.scheme = j->scheme = sia_scheme_name(scheme, name);
    /* Refused before the text is read. */
    if (!status) status = sia_model_set_scheme(j->model.m, j->scheme, 0, err);
    return status;
}

static sia_status prepare(job *j, char scheme[SIA_SCHEME_NAME], sia_error *err) {
    const sia_model_config *config = sia_model_settings(j->model.m);
    j->eval = (sia_loss_eval){.positions = cli_flag(j->args, "positions"),
                              .progress = show_progress,
                              .progress_context = j,
                              .comm = cli_ranks(),
                              .together = (int)cli_int(j->args, "context-parallel")};
    sia_status status = sia_type_parse(cli_text(j->args, "cache"), &j->eval.cache, err);
    if (!status && j->eval.together > 1 && j->eval.cache != SIA_F32)
        status = sia_fail(err, SIA_ARGUMENT, "--context-parallel: there is no cache; want --cache f32");
    if (!status && sia_comm_size(cli_ranks()) % j->eval.together)
        status =
            sia_fail(err, SIA_ARGUMENT, "--context-parallel %d: want a divisor of the number of ranks, %d",
                     j->eval.together, sia_comm_size(cli_ranks()));
    if (!status) status = name_scheme(j, scheme, err);
    if (!status)
        status = sia_lengths_parse(&j->lengths, cli_text(j->args, "lengths"), config->train_len, err);
    if (!status && cli_flag(j->args, "record") && cli_first_rank())
        status = sia_run_open(&j->run, j->model.run, err);
    sia_eval_source source = {.path = cli_text(j->args, "data"),
                              .run = j->model.run,
                              .tokenizer = j->model.tokenizer,
                              .vocabulary = config->vocabulary,
                              .threads = (int)cli_int(j->args, "threads"),
                              .stopped = cli_stopped};
    if (!status) status = sia_eval_text_open(&j->text, &source, err);
    if (status) return status;
    j->data = source.path ? source.path : sia_train_data_val_text(&j->text.run, j->name, sizeof j->name);
    j->eval.longest = sia_lengths_longest(&j->lengths);
    int64_t windows = cli_int(j->args, "windows");
    status = sia_windows_make(&j->windows, j->text.corpus, j->eval.longest, windows,
                              cli_flag(j->args, "join") || j->text.join, err);
    j->eval.windows = j->windows;
    return status;
}

/* Weights that were trained otherwise differ everywhere: the first of each tensor tell. */
static void mark_model(const sia_model *m, char sum[SIA_SHA256_TEXT]) {
    enum { FLOATS = 1024 };
    struct {
        char before[SIA_SHA256_TEXT], name[64];
        int64_t rows, columns;
        float values[FLOATS];
    } look;
    (void)sia_sha256("", 0, sum);
    for (int i = 0; i < sia_model_tensors(m); i++) {
        sia_tensor t = sia_model_tensor(m, i);
        int64_t count = t.rows * t.columns < FLOATS ? t.rows * t.columns : FLOATS;
        memset(&look, 0, sizeof look);
        memcpy(look.before, sum, sizeof look.before);
        (void)snprintf(look.name, sizeof look.name, "%s", t.name);
        look.rows = t.rows;
        look.columns = t.columns;
        memcpy(look.values, t.value, (size_t)count * sizeof(float));
        (void)sia_sha256(&look, sizeof look, sum);
    }
}

/* Ranks that found another model or other text under the names that they were given are refused. */
static sia_status same_everywhere(const job *j, sia_error *err) {
    char text[SIA_SHA256_TEXT + SIA_SCHEME_NAME + 1];
    if (sia_comm_size(cli_ranks()) == 1) return SIA_OK;
    mark_model(j->model.m, text);
    (void)snprintf(text + strlen(text), sizeof text - strlen(text), " %s", j->scheme);
    sia_status status = sia_comm_same(cli_ranks(), "model", text, err);
    return status ? status : sia_corpus_same(cli_ranks(), "text", j->text.corpus, err);
}

static int run(const cli_args *args) {
    char **operands, scheme[SIA_SCHEME_NAME];
    if (cli_operands(args, &operands) != 1)
        return cli_usage(args, "want one MODEL: a run, a checkpoint or a model.safetensors");
    if (cli_flag(args, "record") && !cli_is_run(operands[0]))
        return cli_usage(args, "--record: %s is not the folder of a run", operands[0]);
    if (cli_flag(args, "quiet")) cli_progress_silence();
    cli_catch_stop();
    sia_error err;
    job j = {.args = args};
    sia_status status = cli_model_open(&j.model, operands[0], cli_text(args, "tokenizer"),
                                       (int)cli_int(args, "threads"), &err);
    if (!status) status = prepare(&j, scheme, &err);
    status = sia_comm_agree(cli_ranks(), status, &err);
    if (!status) status = same_everywhere(&j, &err);
    if (!status) status = evaluate(&j, &err);
    sia_windows_destroy(j.windows);
    sia_eval_text_close(&j.text);
    sia_run_close(j.run);
    free(j.lines);
    cli_model_close(&j.model);
    return status ? cli_fail(&err) : CLI_DONE;
}

static const cli_option options[] = {
    {"lengths", CLI_TEXT, "LIST", "1x,4x,16x", "multiples of the training length, or tokens", 0, 0},
    {"data", CLI_TEXT, "PATH", NULL, "text, a packed folder, shards, - for stdin [the run's validation text]",
     0, 0},
    {"windows", CLI_INT, "N", "16", "windows of the longest length, at most; 0: all", .min = 0,
     .max = 1 << 30},
    {"join", CLI_FLAG, NULL, NULL,
     "windows may run from one document into the next [as in the run, on its own text]", 0, 0},
    {"positions", CLI_FLAG, NULL, NULL, "the loss by position too", 0, 0},
    {"scheme", CLI_TEXT, "SCHEME", NULL, "rope+ntk or rope+yarn for a model that was trained with rope", 0,
     0},
    {"cache", CLI_TEXT, "f32|f16|int8", "f32", "the type of the KV cache", 0, 0},
    {"tokenizer", CLI_TEXT, "PATH", NULL, "a tokenizer.json [the run's]", 0, 0},
    {"record", CLI_FLAG, NULL, NULL, "append the results to the run's eval.jsonl", 0, 0},
    CLI_CONTEXT_OPTIONS,
    CLI_RANK_OPTIONS,
    {"threads", CLI_INT, "N", "0", "0: all processors; the result does not depend on it", 0, SIA_MAX_THREADS},
    {"json", CLI_FLAG, NULL, NULL, "one JSON object a line on stdout, in place of the table", 0, 0},
    {"quiet", CLI_FLAG, NULL, NULL, "no progress", 0, 0},
    {0}};

const cli_command command_eval = {
    .name = "eval",
    .summary = "The loss of a model by length, and by position",
    .examples = "  sia eval runs/first\n"
                "  sia eval runs/first --lengths 1x,16x,64x --positions --data books.txt\n"
                "  sia eval runs/rope --scheme rope+ntk\n"
                "  mpirun -n 4 sia eval runs/first --lengths 256x --windows 1 --context-parallel 4\n"
                "  sia data generate --documents 100 | sia eval runs/first --data - --join --lengths "
                "1048576 --windows 1\n",
    .operands = "MODEL",
    .options = options,
    .notes =
        "MODEL is the folder of a run (its newest checkpoint that is whole), of a checkpoint, or a "
        "model.safetensors.\n"
        "The same tokens are scored at every length: windows of the longest length, read whole or in "
        "parts. The standard error is that of the mean over windows.\n"
        "A text goes through the model in chunks, with a KV cache: only the cache "
        "grows with the length.\n"
        "Under mpirun or srun the windows are divided over the ranks; with --context-parallel, the tokens of "
        "each sequence over so many of them, without a cache.\n",
    .ranks = true,
    .run = run,
};
