/* SPDX-License-Identifier: MIT
 *
 * sia theory: the paper's two properties and its figures for Gaussian logits. */
#define _GNU_SOURCE
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/threads.h"
#include "cli/deliver.h"
#include "cli/progress.h"
#include "cli/theory_report.h"

static int show_progress(void *context, double done, double total) {
    cli_progress *progress = context;
    progress->total = total;
    cli_progress_update(progress, done);
    return cli_stopped();
}

static sia_status write_lines(const sia_theory *theory, const cli_args *args, sia_error *err) {
    char *lines = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&lines, &size);
    if (!memory) return sia_fail_memory(err, 65536, "JSON");
    sia_status status = theory_write_json(theory, memory, err);
    if (fclose(memory) != 0 && !status) status = sia_fail_memory(err, size, "JSON");
    cli_lines all = {.lines = lines,
                     .size = size,
                     .folder = cli_text(args, "out"),
                     .file = "theory.jsonl",
                     .on_stdout = cli_flag(args, "json"),
                     .tell = !cli_flag(args, "quiet")};
    if (!status) status = cli_deliver(&all, err);
    free(lines);
    return status;
}

/* A property that does not hold is a mistake in this program, and fails; a fit in another order is a
 * finding. */
static int report(const sia_theory *theory, const cli_args *args) {
    sia_error err;
    bool json = cli_flag(args, "json");
    if (!json) theory_print(theory);
    if ((json || cli_given(args, "out")) && write_lines(theory, args, &err)) return cli_fail(&err);
    int broken = theory_broken(theory);
    if (!broken) return CLI_DONE;
    (void)sia_fail(&err, SIA_NUMBER, "%d of %d properties do not hold", broken, theory->property_count);
    return cli_fail(&err);
}

static int run(const cli_args *args) {
    sia_error err;
    sia_theory *theory;
    cli_progress progress;
    sia_theory_options settings = {.tau = cli_real(args, "tau"),
                                   .alpha = cli_real(args, "alpha"),
                                   .beta = cli_real(args, "beta"),
                                   .logn = cli_real(args, "logn"),
                                   .max_t = cli_int(args, "max-t"),
                                   .rows = cli_int(args, "samples"),
                                   .seed = (uint64_t)cli_int(args, "seed"),
                                   .threads = (int)cli_int(args, "threads"),
                                   .progress = show_progress,
                                   .progress_context = &progress};
    if (cli_flag(args, "quiet")) cli_progress_silence();
    cli_catch_stop();
    /* A folder that cannot be made is heard of before the work. */
    if (cli_given(args, "out") && sia_folder_ensure(cli_text(args, "out"), &err)) return cli_fail(&err);
    cli_progress_start(&progress, "theory", 0, "points", 1);
    sia_status status = sia_theory_run(&theory, &settings, &err);
    cli_progress_end(&progress);
    if (status) return cli_fail(&err);
    int code = report(theory, args);
    sia_theory_destroy(theory);
    return code;
}

static const cli_option options[] = {
    {"tau", CLI_REAL, "X", "10", "the length scale", 0.001, 1e6},
    {"alpha", CLI_REAL, "X", NULL, "alpha, with beta >= alpha ln alpha [sqrt(e)]", 0.01, 100},
    {"beta", CLI_REAL, "X", NULL, "beta [sqrt(e)]", 0.01, 1000},
    {"logn", CLI_REAL, "S", "0.4", "the factor s of logn's logits, s ln(n) S", 0.001, 100},
    {"max-t", CLI_INT, "N", "1000000", "the longest distance and context", SIA_THEORY_MIN_T,
     SIA_THEORY_MAX_T},
    {"samples", CLI_INT, "N", "2048",
     "rows of logits for each entropy; for each property, 128 times as many samples", 16,
     SIA_THEORY_MAX_ROWS},
    {"seed", CLI_INT, "N", "1", "another seed, other samples", 0, 9e15},
    {"threads", CLI_INT, "N", "0", "0: all processors; the results do not depend on it", 0, SIA_MAX_THREADS},
    {"json", CLI_FLAG, NULL, NULL, "one JSON object a line on stdout, in place of the tables", 0, 0},
    {"out", CLI_TEXT, "FOLDER", NULL, "write the same lines to theory.jsonl in this folder", 0, 0},
    {"quiet", CLI_FLAG, NULL, NULL, "no progress, and no word of what was written", 0, 0},
    {0}};

const cli_command command_theory = {
    .name = "theory",
    .summary = "The two properties and the figures of the paper, for Gaussian logits",
    .examples = "  sia theory\n"
                "  sia theory --max-t 100000000 --tau 1\n"
                "  sia theory --out run            run/theory.jsonl, for the report\n"
                "  sia theory --json | grep '\"figure\":\"fit\"'\n",
    .options = options,
    .notes =
        "Lines of JSON, by their field \"figure\":\n"
        "  settings       the options; how many properties do not hold; whether the fits are as in the "
        "paper\n"
        "  property       quantity (Z, N), D, t: limit, closed, quadrature, sampled, error, holds\n"
        "  plain-mean     t: closed, mean and error of plain sampling, true_error, rows_needed for 0.1%\n"
        "  total          scheme, t: log10_Z, of E[Z] over t <= k < 10 t\n"
        "  entropy-range  scheme, D, t: entropy, error (figures 2 and 6)\n"
        "  fit            scheme, D, x (log t, sqrt(log t)): intercept, slope, r2\n"
        "  context        scheme, n: entropy, error, last100, last100_error (figure 1, top)\n"
        "  context-range  scheme, n, from, to: entropy, error within from <= k < to\n"
        "Schemes are plain, logn, alibi (slope 2^-8) and si. Errors are standard errors; entropies are in "
        "nats.\n"
        "In a range of more than 8192 distances only the largest logits are drawn one by one, and the sum of "
        "the\n"
        "others as one normal number: a context of 10^8 keys takes no longer than one of 10^4. The exit code "
        "is 1 "
        "when a\n"
        "property does not hold.\n",
    .run = run,
};
