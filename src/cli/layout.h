/* SPDX-License-Identifier: MIT
 *
 * Text in columns, for help screens and man pages: what the tables hold is written without a thought of how
 * wide a terminal is.
 *
 *     cli_flow flow = {.stream = stdout, .column = 29, .indent = 29, .width = CLI_COLUMNS};
 *     cli_flow_words(&flow, "words that go on in the next line, under this column");
 *     cli_flow_end(&flow); */
#ifndef SIA_CLI_LAYOUT_H
#define SIA_CLI_LAYOUT_H

#include <stdbool.h>
#include <stdio.h>

enum { CLI_COLUMNS = 80 };

typedef struct cli_flow {
    FILE *stream;
    int column; /* where the next letter goes */
    int indent; /* of every further line */
    int width;
    bool broken; /* a word is behind us: a space goes before the next */
} cli_flow;

/* Words divided by any white space; a word that is longer than a line is not cut. */
void cli_flow_words(cli_flow *flow, const char *text);
void cli_flow_end(cli_flow *flow); /* the newline */

/* The lines of a command's examples, "  sia COMMAND ...      what for". When one is too long, what they are for
 * moves to the left, or to a line of its own, and a command breaks with backslashes, as a shell wants them. */
void cli_put_examples(FILE *stream, const char *lines, int width);

/* Notes: an empty line divides paragraphs; a line that starts with a space stays a line; others flow. */
void cli_put_notes(FILE *stream, const char *notes, int width);

#endif
