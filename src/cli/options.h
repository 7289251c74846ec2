/* SPDX-License-Identifier: MIT
 *
 * One table of options for each command. Parsing, defaults, range checks, --help, man pages and completion
 * are derived from it.
 *
 *     static const cli_option options[] = {
 *         {"heads", CLI_INT, "N", "6", "query heads", .min = 1, .max = 1024},
 *         {"json", CLI_FLAG, NULL, NULL, "one JSON object a line on stdout"},
 *         {0}};
 *     ...
 *     int heads = (int)cli_int(args, "heads"); */
#ifndef SIA_CLI_OPTIONS_H
#define SIA_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "sia.h"

/* Exit codes, the same for every command. */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

typedef enum cli_kind {
    CLI_FLAG, /* present or not */
    CLI_INT,  /* a whole number in min .. max */
    CLI_REAL, /* a number in min .. max */
    CLI_TEXT,
} cli_kind;

typedef struct cli_option {
    const char *name; /* without the two dashes */
    cli_kind kind;
    /* What --help calls its value; for a flag NULL, or "[word]" that may follow it. "a|b|c": one of these words, checked
     * when parsing. What completion makes of PATH, FOLDER, SCHEME, LIST: cli/describe.h. */
    const char *argument;
    const char *fallback; /* the default, as one would type it; NULL: not given */
    const char *help;
    double min, max; /* CLI_INT, CLI_REAL; both 0: no limit */
} cli_option;

typedef struct cli_args cli_args;

typedef struct cli_command {
    const char *name; /* "info", or "bench attention" */
    const char *summary;
    const char *examples; /* opens --help: lines, each ended by \n */
    const char *operands; /* "FILES..." or NULL when there are none */
    const cli_option *options;
    /* Closes --help, or NULL. It flows into the width that there is; an empty line divides paragraphs, and a
     * line that starts with a space stays a line. */
    const char *notes;
    bool ranks; /* under mpirun its work is divided over the ranks; its table has CLI_RANK_OPTIONS */
    int (*run)(const cli_args *args); /* returns an exit code */
} cli_command;

/* Ended by NULL. */
extern const cli_command *const cli_commands[];

/* Finds the command that argv names, parses, runs it, returns the exit code. */
int cli_main(int argc, char **argv);

/* The value of an option of the running command, its default when it was not given. Asking for a name that is
 * not in the command's table is a bug (assert). */
bool cli_flag(const cli_args *args, const char *name);
int64_t cli_int(const cli_args *args, const char *name);
double cli_real(const cli_args *args, const char *name);
const char *cli_text(const cli_args *args, const char *name); /* NULL when not given and without a default */
bool cli_given(const cli_args *args, const char *name);
bool cli_has(const cli_args *args, const char *name); /* whether the command's table has the option at all */
int cli_operands(const cli_args *args, char ***operands); /* their number */

/* The command as it was given, to be run again: operands first, then options in the order of the table. */
void cli_command_line(const cli_args *args, char *text, size_t room);

/* What decides about the result, as text, to be compared between ranks: the command, its operands, its options but for
 * threads, timeout and what is shown. Freed with free; NULL: no memory. */
char *cli_choices(const cli_args *args);

/* Lets stdout out now, before a long computation or a line on stderr. What goes wrong is said at the end. */
void cli_flush(void);

/* Prints "sia: sentence" on stderr and returns the exit code that goes with the status. */
int cli_fail(const sia_error *err);
int cli_fail_memory(size_t bytes, const char *what);

/* Prints "sia COMMAND: sentence" and where to find help; returns CLI_USAGE. */
int cli_usage(const cli_args *args, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Lists. They return CLI_DONE, or CLI_USAGE after saying what is wrong. */
enum { CLI_MAX_LIST = 32 };

/* "256,1024" to numbers in min .. max. */
int cli_number_list(const cli_args *args, const char *name, int64_t min, int64_t max, int64_t *numbers,
                    int *count);

/* "nope,si+nope" to words, each there once, copied into room and cut there. */
int cli_word_list(const cli_args *args, const char *name, char *room, size_t room_bytes, const char **words,
                  int *count);

#endif
