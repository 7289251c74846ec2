/* SPDX-License-Identifier: MIT
 *
 * What the tables say of a command, an option, a value: read here once, for --help, man pages and completion
 * alike. A new command needs nothing but its table.
 *
 *     cli_values values = cli_option_values(option);
 *     if (values.kind == CLI_VALUES_WORDS) ... values.words ...
 *
 * What a value may be is told by the word that stands for it:
 *     text|u16|u32                    one of these words: parsing refuses others
 *     FOLDER                          a folder
 *     PATH, FILE, FILES, RUN, MODEL   a file or a folder
 *     SCHEME, or an option --scheme   a scheme
 *     LIST with a default             words with commas between them, such as those of the default;
 *                                     of --schemes all schemes
 *     COMMAND, as an operand          a command of sia */
#ifndef SIA_CLI_DESCRIBE_H
#define SIA_CLI_DESCRIBE_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/options.h"

typedef enum cli_values_kind {
    CLI_VALUES_FREE, /* a number, a text */
    CLI_VALUES_WORDS,
    CLI_VALUES_FILES,
    CLI_VALUES_FOLDERS,
    CLI_VALUES_COMMANDS,
} cli_values_kind;

typedef struct cli_values {
    cli_values_kind kind;
    bool list;       /* CLI_VALUES_WORDS: several, with commas */
    char words[512]; /* CLI_VALUES_WORDS: divided by spaces */
} cli_values;

cli_values cli_option_values(const cli_option *option);
cli_values cli_operand_values(const cli_command *command);

/* "text, u16 or u32" of "text|u16|u32". */
void cli_words_sentence(const char *choices, char *text, size_t room);

/* "1 to 101", for numbers that have limits; false for others. */
bool cli_option_range(const cli_option *option, char *text, size_t room);

/* --help, which every command has without listing it. */
extern const cli_option cli_help_option;

/* The first word of a command's name, and the second or NULL: "bench", "attention". */
int cli_first_word(const cli_command *command); /* its length */
const char *cli_second_word(const cli_command *command);

/* The command comes first of those with this first word: for lists of first words. */
bool cli_starts_group(const cli_command *const *command);

/* Of these names the nearest to what was typed, if it is near enough to be meant. Start with {.typed = ...}. */
typedef struct cli_nearest {
    const char *typed, *name;
    int distance;
} cli_nearest;
void cli_consider(cli_nearest *best, const char *name);

/* The screens. */
void cli_print_help(const cli_command *command);
void cli_print_overview(FILE *stream);
void cli_print_group(FILE *stream, const char *first_word);
void cli_print_version(void);

#endif
