/* SPDX-License-Identifier: MIT
 *
 * sia compare: train several schemes under one budget and see what each does beyond its training length. The
 * main job of the program. */
#include "cli/commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/threads.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/settings.h"
#include "cli/show.h"
#include "cli/train_progress.h"
#include "report/lines.h"
#include "report/report.h"
#include "study/compare.h"

/* What --schemes calls table1: Table 1 of the paper, and the control for sharpness. */
static const char table_1[] =
    "rope,prope,nope,rope+ntk,rope+yarn,logn+rope,logn+prope,logn+ntk,alibi,si+prope,sharp+prope";

enum { MAX_ROWS = CLI_MAX_LIST * SIA_MAX_VARIANTS };
_Static_assert((int)SIA_COMPARE_NAMES <= (int)SIA_REPORT_NAMES, "a report shows all of a study");

/* A row of the table: a scheme (and a variant of it) over the seeds. */
typedef struct row {
    char scheme[SIA_SCHEME_NAME], variant[48];
    int seeds;
    double sum[SIA_MAX_LENGTHS], squares[SIA_MAX_LENGTHS];
} row;

typedef struct table {
    const char *const *schemes; /* in the order of the table */
    int scheme_count;
    const char *sweep; /* or NULL */
    cli_phases shown;
    bool quiet;
    row rows[MAX_ROWS];
    int count;
    int64_t multiples[SIA_MAX_LENGTHS];
} table;

static row *row_of(table *t, const sia_compare_result *r) {
    for (int i = 0; i < t->count; i++)
        if (!strcmp(t->rows[i].scheme, r->scheme) && !strcmp(t->rows[i].variant, r->variant))
            return &t->rows[i];
    if (t->count == MAX_ROWS) return NULL;
    row *new = &t->rows[t->count++];
    (void)snprintf(new->scheme, sizeof new->scheme, "%s", r->scheme);
    (void)snprintf(new->variant, sizeof new->variant, "%s", r->variant);
    return new;
}

static void add_result(table *t, const sia_compare_result *r) {
    row *to = row_of(t, r);
    memcpy(t->multiples, r->multiples, sizeof t->multiples);
    if (!to) return;
    to->seeds++;
    for (int i = 0; r->multiples[i]; i++) {
        to->sum[i] += r->losses[i];
        to->squares[i] += r->losses[i] * r->losses[i];
    }
    if (t->quiet) return;
    cli_progress_clear(&t->shown.line);
    fprintf(stderr, "%-12s %-14s seed %llu", r->scheme, r->variant, (unsigned long long)r->seed);
    for (int i = 0; r->multiples[i] && !r->diverged; i++)
        fprintf(stderr, "   %.3f at %lldx", r->losses[i], (long long)r->multiples[i]);
    if (r->diverged) fprintf(stderr, "   diverged: %s", cli_shown(r->diverged));
    fputc('\n', stderr);
}

static int hook(void *context, const sia_compare_event *e) {
    table *t = context;
    if (e->data) {
        char text[256];
        cli_progress_end(&t->shown.line);
        if (!t->quiet) {
            fprintf(stderr, "%s: %lld train, %lld val tokens\n",
                    sia_train_data_text(e->data, text, sizeof text),
                    (long long)sia_corpus_tokens(e->data->train), (long long)sia_corpus_tokens(e->data->val));
            cli_show_held_out(&e->held_out);
        }
        cli_progress_start(&t->shown.line, t->shown.what, 100, "", 1);
    }
    if (e->result) add_result(t, e->result);
    if (e->running && e->loss > 0)
        (void)snprintf(t->shown.what, sizeof t->shown.what, "%-18s loss %.3f", e->running, e->loss);
    else if (e->running)
        (void)snprintf(t->shown.what, sizeof t->shown.what, "%-18s evaluate  ", e->running);
    t->shown.line.found = 100 * e->found;
    cli_progress_update(&t->shown.line, 100 * e->done);
    return cli_stopped();
}

static int place_of(const table *t, const row *r) {
    for (int i = 0; i < t->scheme_count; i++) {
        sia_scheme scheme;
        char name[SIA_SCHEME_NAME];
        if (!sia_scheme_parse(t->schemes[i], &scheme, NULL) &&
            !strcmp(sia_scheme_name(scheme, name), r->scheme))
            return i;
    }
    return t->scheme_count;
}

/* Rows come as trainings end; the table has the schemes as they were asked for, and values of a sweep by size. */
static bool is_before(const table *t, const row *a, const row *b) {
    int places[] = {place_of(t, a), place_of(t, b)};
    if (places[0] != places[1]) return places[0] < places[1];
    const char *values[] = {strchr(a->variant, '='), strchr(b->variant, '=')};
    return values[0] && values[1] && strtod(values[0] + 1, NULL) < strtod(values[1] + 1, NULL);
}

static void sort_rows(table *t) {
    for (int i = 1; i < t->count; i++)
        for (int j = i; j > 0 && is_before(t, &t->rows[j], &t->rows[j - 1]); j--) {
            row swap = t->rows[j];
            t->rows[j] = t->rows[j - 1];
            t->rows[j - 1] = swap;
        }
}

static double mean_of(const row *r, int i) { return r->sum[i] / r->seeds; }

static double error_of(const row *r, int i) {
    if (r->seeds < 2) return 0;
    double mean = mean_of(r, i), spread = r->squares[i] / r->seeds - mean * mean;
    return spread > 0 ? sqrt(spread / (r->seeds - 1)) : 0;
}

/* Means over the seeds, with standard errors where there are several; * marks the lowest of a column. A row of which a
 * training has diverged has none. */
static void print_table(const table *t) {
    bool errors = false, diverged = false;
    int variant = 0; /* the longest */
    for (int i = 0; i < t->count; i++) {
        int length = (int)strlen(t->rows[i].variant);
        errors = errors || t->rows[i].seeds > 1;
        variant = length > variant ? length : variant;
    }
    if (variant && variant < 14) variant = 14;
    printf("%-12s %-*s", "scheme", variant ? variant + 1 : 0, variant ? "variant" : "");
    for (int i = 0; t->multiples[i]; i++)
        printf("%*s loss at %2lldx%s", errors ? 4 : 0, "", (long long)t->multiples[i], errors ? "    " : " ");
    putchar('\n');
    for (const row *r = t->rows; r < t->rows + t->count; r++) {
        printf("%-12s ", r->scheme);
        if (variant) printf("%-*s ", variant, r->variant);
        for (int i = 0; t->multiples[i]; i++) {
            bool best = true;
            if (isnan(mean_of(r, i))) {
                printf("   diverged%*s", errors ? 9 : 1, "");
                diverged = true;
                continue;
            }
            for (int other = 0; other < t->count; other++)
                best = best && !(mean_of(&t->rows[other], i) < mean_of(r, i));
            printf("      %.3f%s", mean_of(r, i), best ? "*" : " ");
            if (errors) printf(" +-%.3f", error_of(r, i));
        }
        putchar('\n');
    }
    fputs(errors ? "* lowest of its column; +- standard errors over seeds\n"
                 : "* lowest of its column; one seed: small differences say nothing\n",
          stdout);
    const char *sweep = t->sweep ? t->sweep : "";
    if (!strcmp(sweep, "train_len") || !strcmp(sweep, "steps") || !strcmp(sweep, "batch"))
        printf("values of %s differ in how many tokens they were trained on\n", sweep);
    if (diverged) puts("diverged: the loss of at least one seed left all bounds: a lower rate may help");
}

/* The words of --schemes, table1 among them standing for its own. */
static int parse_schemes(const cli_args *args, char *room, size_t bytes, const char **schemes, int *count) {
    char given[1024];
    const char *words[CLI_MAX_LIST];
    int word_count, code = cli_word_list(args, "schemes", given, sizeof given, words, &word_count);
    if (code) return code;
    room[0] = 0;
    for (int i = 0; i < word_count; i++) {
        size_t used = strlen(room);
        const char *word = strcmp(words[i], "table1") ? words[i] : table_1;
        if (snprintf(room + used, bytes - used, "%s%s", i ? "," : "", word) >= (int)(bytes - used))
            return cli_usage(args, "--schemes: too many");
    }
    *count = 0;
    for (char *word = strtok(room, ","); word; word = strtok(NULL, ",")) {
        if (*count == CLI_MAX_LIST) return cli_usage(args, "--schemes: want %d at most", CLI_MAX_LIST);
        schemes[(*count)++] = word;
    }
    return CLI_DONE;
}

/* "--schemes rope si+prope" leaves a scheme where a file should be. */
static int refuse_schemes(const cli_args *args) {
    char **paths;
    int count = cli_operands(args, &paths);
    sia_scheme scheme;
    for (int i = 0; i < count; i++)
        if (access(paths[i], F_OK) != 0 && !sia_scheme_parse(paths[i], &scheme, NULL))
            return cli_usage(args, "%s: a scheme, where a text file was wanted; --schemes takes A,B,C",
                             paths[i]);
    return CLI_DONE;
}

/* "tau=0.01,0.1,1" */
static int parse_sweep(const cli_args *args, const char *text, char name[48], sia_compare_job *job) {
    const char *equals = strchr(text, '='), *at = equals ? equals + 1 : text;
    if (!equals || equals == text || equals - text > 40)
        return cli_usage(args, "--sweep '%s': want NAME=VALUE,VALUE,...", text);
    (void)snprintf(name, 48, "%.*s", (int)(equals - text), text);
    for (char *c = name; *c; c++)
        if (*c == '-') *c = '_';
    job->sweep = name;
    for (;;) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || (*end && *end != ',') || job->sweep_count == SIA_MAX_VARIANTS)
            return cli_usage(args, "--sweep '%s': want up to %d numbers with commas between them", text,
                             SIA_MAX_VARIANTS);
        job->sweep_values[job->sweep_count++] = value;
        if (!*end) return CLI_DONE;
        at = end + 1;
    }
}

static sia_status print_json(const table *t, sia_error *err) {
    for (int r = 0; r < t->count; r++) {
        const row *now = &t->rows[r];
        json_t *loss = json_object();
        for (int i = 0; t->multiples[i]; i++) {
            char name[24];
            (void)snprintf(name, sizeof name, "%lldx", (long long)t->multiples[i]);
            bool diverged = isnan(mean_of(now, i));
            sia_json_set(&loss, name,
                         json_pack("{s:o, s:o}", "mean", diverged ? json_null() : json_real(mean_of(now, i)),
                                   "error",
                                   now->seeds > 1 && !diverged ? json_real(error_of(now, i)) : json_null()));
        }
        json_t *line = json_pack("{s:s, s:s, s:i, s:o}", "scheme", now->scheme, "variant", now->variant,
                                 "seeds", now->seeds, "loss", loss);
        sia_status status = cli_json_line(line, err);
        if (status) return status;
    }
    return SIA_OK;
}

static int finish(const cli_args *args, table *t, const char *out) {
    sia_error err;
    sort_rows(t);
    if (cli_flag(args, "json")) {
        if (print_json(t, &err)) return cli_fail(&err);
    } else {
        print_table(t);
    }
    cli_flush();
    if (sia_report_write(&out, 1, NULL, &err)) return cli_fail(&err);
    if (!t->quiet) fprintf(stderr, "report: %s/report.html\n", cli_shown(out));
    return CLI_DONE;
}

/* What can be told from the names alone: rather now than after all is trained. */
static int check_names(const cli_args *args, const char **out) {
    sia_error err;
    bool there;
    int code = cli_study_folder(args, out);
    if (code) return code;
    if (sia_folder_there(*out, &there, &err) || (there && sia_report_refuse(*out, &err)))
        return cli_fail(&err);
    if (cli_given(args, "val") && cli_given(args, "val-fraction")) return cli_usage(args, CLI_TWO_VALS);
    code = cli_refuse_runs(args);
    return code ? code : refuse_schemes(args);
}

static int run(const cli_args *args) {
    const char *out, *schemes[CLI_MAX_LIST];
    char room[1024], sweep[48], command[1024];
    sia_settings settings;
    sia_error err;
    int code = check_names(args, &out);
    if (code) return code;
    bool quiet = cli_flag(args, "quiet") || !cli_first_rank();
    if (quiet) cli_progress_silence();
    cli_catch_stop();
    code = cli_settings(args, NULL, &settings);
    sia_compare_job job = {
        .folder = out, .settings = &settings, .schemes = schemes, .seeds = cli_int(args, "seeds")};
    if (!code) code = parse_schemes(args, room, sizeof room, schemes, &job.scheme_count);
    if (!code) code = cli_refuse_unused(args, schemes, job.scheme_count);
    if (!code && cli_given(args, "sweep")) code = parse_sweep(args, cli_text(args, "sweep"), sweep, &job);
    if (code) return code;
    int names = job.scheme_count * (job.sweep_count ? job.sweep_count : 1);
    if (names > SIA_COMPARE_NAMES)
        return cli_usage(args, "%d schemes and values together: want %d at most, as a report can show", names,
                         SIA_COMPARE_NAMES);
    table *t = calloc(1, sizeof *t);
    if (!t) return cli_fail_memory(sizeof *t, "table");
    t->quiet = quiet;
    t->schemes = schemes;
    t->scheme_count = job.scheme_count;
    t->sweep = job.sweep;
    cli_progress_start(&t->shown.line, "", 0, "", 1);
    cli_command_line(args, command, sizeof command);
    json_t *machine = cli_machine_json((int)cli_int(args, "threads"));
    sia_data_source source = cli_data_source(args, &t->shown);
    job.source = &source;
    job.threads = (int)cli_int(args, "threads");
    job.command = command;
    job.machine = machine;
    job.comm = cli_ranks();
    job.hook = hook;
    job.hook_context = t;
    sia_status status = machine ? sia_compare(&job, &err) : sia_fail_memory(&err, 256, "machine");
    cli_progress_end(&t->shown.line);
    if (status == SIA_STOPPED && !t->quiet)
        (void)sia_fail(&err, SIA_STOPPED, "stopped; the same command goes on");
    if (status)
        code = cli_fail(&err);
    else if (cli_first_rank())
        code = finish(args, t, out);
    json_decref(machine);
    free(t);
    return code;
}

static const cli_option options[] = {
    {"out", CLI_TEXT, "FOLDER", NULL, "the folder of the study", 0, 0},
    {"schemes", CLI_TEXT, "LIST", "table1",
     "what to compare; table1: those of the paper's Table 1, and sharp+prope", 0, 0},
    {"seeds", CLI_INT, "N", "1", "trainings of each, for means and standard errors", 1, 100},
    {"sweep", CLI_TEXT, "NAME=LIST", NULL, "train each with several values of a setting: tau=0.1,1,10", 0, 0},
    CLI_MODEL_OPTIONS,
    CLI_TRAINING_OPTIONS,
    CLI_DATA_OPTIONS,
    {"threads", CLI_INT, "N", "0", "trainings at a time, or threads of the only one; 0: all processors", 0,
     SIA_MAX_THREADS},
    CLI_RANK_OPTIONS,
    {"json", CLI_FLAG, NULL, NULL, "one JSON object a line on stdout, in place of the table", 0, 0},
    {"quiet", CLI_FLAG, NULL, NULL, "no progress, no lines but the table", 0, 0},
    {0}};

const cli_command command_compare = {
    .name = "compare",
    .summary = "Train several schemes under one budget; loss at 1x, 4x, 16x; report",
    .examples =
        "  sia compare --out study                          generated text, all of the paper's Table 1\n"
        "  sia compare --out books books.txt --seeds 3      your own text, with standard errors\n"
        "  sia compare --out quick --schemes rope,si+prope --steps 200\n"
        "  sia compare --out tau --schemes si+prope --sweep tau=0.01,0.1,1,10,100\n"
        "  sia compare --out lengths --schemes rope,si+prope --sweep train-len=64,128,256\n",
    .operands = "[FILES...]",
    .options = options,
    .notes = "FILES are what 'sia train' takes; without FILES the text is generated. The same tokens are "
             "scored at "
             "every length. Stopped by Ctrl-C or by a crash, the same command goes on where it was; with "
             "more schemes "
             "or seeds it adds them.\n"
             "The folder gets compare.jsonl (one line a result), report.html, and a run for each training.\n"
             "Under mpirun or srun the trainings are divided over the ranks; results do not depend on it.\n",
    .ranks = true,
    .run = run,
};
