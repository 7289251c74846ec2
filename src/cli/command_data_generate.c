/* SPDX-License-Identifier: MIT
 *
 * sia data generate: text that needs no download. */
#include "cli/commands.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/error.h"
#include "cli/progress.h"
#include "data/source.h"

static sia_status write_documents(const cli_args *args, const sia_source *source, sia_output *out,
                                  sia_error *err) {
    int64_t first = cli_int(args, "first"), documents = cli_int(args, "documents");
    cli_progress progress;
    cli_progress_start(&progress, "generate", (double)documents * (double)cli_int(args, "words"), "M words",
                       1e6);
    sia_status status = SIA_OK;
    for (int64_t i = 0; !status && i < documents; i++) {
        char *text = NULL;
        size_t length = 0;
        status = sia_source_document(source, (uint64_t)(first + i), cli_stopped, &text, &length, err);
        if (!status && i) status = sia_output_write(out, "\f\n", 2, err);
        if (!status) status = sia_output_write(out, text, length, err);
        free(text);
        if (!status && cli_stopped()) status = sia_fail(err, SIA_STOPPED, "stopped");
        cli_progress_update(&progress, (double)(i + 1) * (double)cli_int(args, "words"));
    }
    cli_progress_end(&progress);
    return status;
}

static int run(const cli_args *args) {
    sia_error err;
    sia_source *source;
    sia_output *out = NULL;
    cli_catch_stop();
    sia_status status =
        sia_source_create(&source, (uint64_t)cli_int(args, "seed"), cli_int(args, "words"), &err);
    if (status) return cli_fail(&err);
    status = sia_output_open(&out, cli_text(args, "out"), &err);
    if (!status) status = write_documents(args, source, out, &err);
    if (!status)
        status = sia_output_commit(out, &err);
    else
        sia_output_abandon(out);
    sia_source_destroy(source);
    return status ? cli_fail(&err) : CLI_DONE;
}

static const cli_option options[] = {
    {"documents", CLI_INT, "N", "1", "how many", 1, 2147483647},
    {"words", CLI_INT, "N", "16384", "at least so many in a document, which ends with its sentence", 1,
     4294967296},
    {"seed", CLI_INT, "N", "0", "another seed, other documents", 0, 9e15},
    {"first", CLI_INT, "N", "0", "the number of the first document", 0, 9e15},
    {"out", CLI_TEXT, "FILE", "-", "where to write; - is stdout", 0, 0},
    {0}};

const cli_command command_data_generate = {
    .name = "data generate",
    .summary = "Text from a random source with the statistics of books",
    .examples =
        "  sia data generate --words 200\n"
        "  sia data generate --documents 500 --out made.txt\n"
        "  sia data generate --documents 20 --first 500 --out made-val.txt     the next 20 documents\n",
    .options = options,
    .notes =
        "Document n of a seed is always the same. A line with a form feed stands between two documents.\n"
        "docs/data.md says how the source is made and measured.\n",
    .run = run,
};
