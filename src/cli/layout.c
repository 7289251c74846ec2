/* SPDX-License-Identifier: MIT
 *
 * Text in columns: words that flow, command lines that break with backslashes. */
#include "cli/layout.h"

#include <stdlib.h>
#include <string.h>

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t'; }

/* Columns of UTF-8: every byte but those that continue a letter. */
static int columns(const char *text, int length) {
    int count = 0;
    for (int i = 0; i < length; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* ------------------------------------------------------------------------------------------------- words */

static void put_word(cli_flow *flow, const char *word, int length) {
    int wide = columns(word, length);
    if (flow->broken && flow->column + 1 + wide > flow->width) {
        fprintf(flow->stream, "\n%*s", flow->indent, "");
        flow->column = flow->indent;
    } else if (flow->broken) {
        fputc(' ', flow->stream);
        flow->column++;
    }
    fprintf(flow->stream, "%.*s", length, word);
    flow->column += wide;
    flow->broken = true;
}

static void put_words(cli_flow *flow, const char *text, int length) {
    for (int i = 0; i < length;) {
        int start = i;
        while (i < length && !is_space(text[i])) i++;
        if (i > start) put_word(flow, text + start, i - start);
        while (i < length && is_space(text[i])) i++;
    }
}

void cli_flow_words(cli_flow *flow, const char *text) { put_words(flow, text, (int)strlen(text)); }

void cli_flow_end(cli_flow *flow) {
    fputc('\n', flow->stream);
    flow->column = 0;
    flow->broken = false;
}

/* ---------------------------------------------------------------------------------------------- examples */

/* The last space in line[start .. limit) at which a shell may go on in the next line: outside of quotes, and
 * if there is one in the second half, before an option or after a pipe. 0: there is none. */
static int break_before(const char *line, int start, int limit) {
    int found = 0, better = 0;
    char quote = 0;
    for (int i = start; i < limit; i++) {
        if (quote)
            quote = line[i] == quote ? 0 : quote;
        else if (line[i] == '\'' || line[i] == '"')
            quote = line[i];
        else if (line[i] == ' ') {
            found = i;
            if (line[i + 1] == '-' || (i > 0 && line[i - 1] == '|')) better = i;
        }
    }
    return better > start + (limit - start) / 2 ? better : found;
}

static void put_command(FILE *stream, const char *line, int indent, int length, int width) {
    enum { FURTHER = 4, BACKSLASH = 2 };
    int at = indent, margin = indent;
    while (margin + length - at > width) {
        /* One space more may be there: the backslash stands after it. */
        int limit = at + width - margin - BACKSLASH + 1;
        int end = break_before(line, at, limit);
        if (end <= at) break;
        fprintf(stream, "%*s%.*s \\\n", margin, "", end - at, line + at);
        at = end + 1;
        margin = indent + FURTHER;
    }
    fprintf(stream, "%*s%.*s\n", margin, "", length - at, line + at);
}

/* Of "  sia COMMAND ...      what for": two spaces or more divide the command from what it is for. */
typedef struct example {
    const char *line, *what;
    int indent, command_end; /* the command is line[indent .. command_end) */
    int length, what_length; /* 0: it is told nowhere */
} example;

static example example_read(const char *line) {
    example e = {.line = line, .length = (int)strcspn(line, "\n")};
    while (e.indent < e.length && line[e.indent] == ' ') e.indent++;
    for (e.command_end = e.indent; e.command_end < e.length; e.command_end++)
        if (strncmp(line + e.command_end, "  ", 2) == 0) break;
    int start = e.command_end;
    while (start < e.length && line[start] == ' ') start++;
    e.what = line + start;
    e.what_length = e.length - start;
    return e;
}

static const char *next_line(const char *line) {
    line += strcspn(line, "\n");
    return *line ? line + 1 : line;
}

/* The column for what the commands are for: as written when all of it fits; else just behind the longest
 * command that leaves room for its own words. 0: as written; width: nothing fits beside a command. */
static int what_column(const char *lines, int width) {
    int column = 0;
    bool fits = true;
    for (const char *line = lines; *line; line = next_line(line)) {
        example e = example_read(line);
        int needed = columns(line, e.command_end) + 2;
        if (columns(line, e.length) > width) fits = false;
        if (e.what_length && needed + columns(e.what, e.what_length) <= width && needed > column)
            column = needed;
    }
    return fits ? 0 : column ? column : width;
}

static void put_example(FILE *stream, const example *e, int column, int width) {
    int command = columns(e->line, e->command_end), what = columns(e->what, e->what_length);
    if (column == 0) {
        fprintf(stream, "%.*s\n", e->length, e->line);
        return;
    }
    if (e->what_length && command + 2 <= column && column + what <= width) {
        fprintf(stream, "%.*s%*s%.*s\n", e->command_end, e->line, column - command, "", e->what_length,
                e->what);
        return;
    }
    put_command(stream, e->line, e->indent, e->command_end, width);
    if (!e->what_length) return;
    cli_flow flow = {.stream = stream, .column = e->indent + 4, .indent = e->indent + 4, .width = width};
    fprintf(stream, "%*s", flow.indent, "");
    put_words(&flow, e->what, e->what_length);
    cli_flow_end(&flow);
}

void cli_put_examples(FILE *stream, const char *lines, int width) {
    int column = what_column(lines, width);
    for (const char *line = lines; *line; line = next_line(line)) {
        example e = example_read(line);
        put_example(stream, &e, column, width);
    }
}

/* ------------------------------------------------------------------------------------------------- notes */

void cli_put_notes(FILE *stream, const char *notes, int width) {
    cli_flow flow = {.stream = stream, .width = width};
    for (; *notes; notes = next_line(notes)) {
        int length = (int)strcspn(notes, "\n");
        if (length && notes[0] != ' ') {
            put_words(&flow, notes, length);
            continue;
        }
        if (flow.broken) cli_flow_end(&flow);
        example e = example_read(notes);
        put_example(stream, &e, columns(notes, length) <= width ? 0 : width, width);
    }
    if (flow.broken) cli_flow_end(&flow);
}
