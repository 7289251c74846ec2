/* SPDX-License-Identifier: MIT
 *
 * sia report: folders of results to one HTML file. */
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "cli/show.h"
#include "report/report.h"

static int run(const cli_args *args) {
    char **folders;
    int count = cli_operands(args, &folders);
    const char *out = cli_text(args, "out");
    sia_error err;
    if (count < 1) return cli_usage(args, "want a folder of results");
    if (count > SIA_REPORT_FOLDERS)
        return cli_usage(args, "%d folders: want %d at most", count, SIA_REPORT_FOLDERS);
    if (out && !*out) return cli_usage(args, "--out: want the name of a file");
    if (sia_report_write_titled((const char *const *)folders, count, out, cli_text(args, "title"), &err))
        return cli_fail(&err);
    if (out && strcmp(out, "-") == 0) return CLI_DONE;
    if (cli_flag(args, "quiet")) return CLI_DONE;
    size_t length = sia_path_length(folders[0]);
    if (out)
        fprintf(stderr, "%s\n", cli_shown(out));
    else
        fprintf(stderr, "%.*s/report.html\n", (int)length, cli_shown(folders[0]));
    return CLI_DONE;
}

static const cli_option options[] = {{"out", CLI_TEXT, "FILE", NULL,
                                      "the file to write, - for stdout [report.html in the first folder]", 0,
                                      0},
                                     {"title", CLI_TEXT, "TEXT", NULL, "the title [one from the data]", 0, 0},
                                     {"quiet", CLI_FLAG, NULL, NULL, "do not say where the report is", 0, 0},
                                     {0}};

const cli_command command_report = {
    .name = "report",
    .summary = "Folders of results to one HTML file with tables and figures",
    .examples = "  sia report study\n"
                "  sia report study needles theory --out report.html --title \"Ten schemes, three seeds\"\n",
    .operands = "FOLDERS...",
    .options = options,
    .notes = "A folder is what 'sia compare', 'sia needle', 'sia theory', 'sia probe' or 'sia train' left. "
             "The file is "
             "complete\n"
             "in itself: it loads nothing, needs no script, prints, and has the data under each figure.\n",
    .run = run,
};
