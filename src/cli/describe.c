/* SPDX-License-Identifier: MIT
 *
 * What the tables say, and the help screens, in 80 columns. */
#include "cli/describe.h"

#include <math.h>
#include <string.h>

#include "cli/blas.h"
#include "cli/layout.h"
#include "cli/machine.h"
#include "comm/comm_mpi.h"

const cli_option cli_help_option = {.name = "help", .help = "this text"};

/* ------------------------------------------------------------------------------------------------- values */

static void put_list(cli_values *values, const char *text, char divider) {
    size_t used = 0;
    values->kind = CLI_VALUES_WORDS;
    for (; *text && used + 1 < sizeof values->words; text++)
        if (*text != '[' && *text != ']') values->words[used++] = *text == divider ? ' ' : *text;
    values->words[used] = 0;
}

static void put_schemes(cli_values *values) {
    size_t used = 0;
    values->kind = CLI_VALUES_WORDS;
    for (const char *const *name = sia_scheme_list(); *name; name++) {
        int n = snprintf(values->words + used, sizeof values->words - used, "%s%s", used ? " " : "", *name);
        if (n < 0 || (size_t)n >= sizeof values->words - used) break;
        used += (size_t)n;
    }
}

static bool names_a_path(const char *argument) {
    static const char *const words[] = {"PATH", "FILE", "RUN", "MODEL", NULL};
    for (const char *const *word = words; *word; word++)
        if (strstr(argument, *word)) return true;
    return false;
}

cli_values cli_option_values(const cli_option *option) {
    cli_values values = {.kind = CLI_VALUES_FREE};
    const char *argument = option->argument;
    if (option->kind != CLI_TEXT || !argument) return values;
    values.list = strstr(argument, "LIST") || strcmp(argument, "SCHEMES") == 0;
    if (strchr(argument, '|'))
        put_list(&values, argument, '|');
    else if (strncmp(option->name, "scheme", 6) == 0 || strncmp(argument, "SCHEME", 6) == 0)
        put_schemes(&values);
    else if (values.list && option->fallback)
        put_list(&values, option->fallback, ',');
    else if (strstr(argument, "FOLDER"))
        values.kind = CLI_VALUES_FOLDERS;
    else if (names_a_path(argument))
        values.kind = CLI_VALUES_FILES;
    return values;
}

cli_values cli_operand_values(const cli_command *command) {
    cli_values values = {.kind = CLI_VALUES_FREE};
    const char *operands = command->operands;
    if (!operands) return values;
    if (strchr(operands, '|'))
        put_list(&values, operands, '|');
    else if (strstr(operands, "COMMAND"))
        values.kind = CLI_VALUES_COMMANDS;
    else if (strstr(operands, "FOLDER"))
        values.kind = CLI_VALUES_FOLDERS;
    else if (names_a_path(operands))
        values.kind = CLI_VALUES_FILES;
    return values;
}

void cli_words_sentence(const char *choices, char *text, size_t room) {
    size_t used = 0;
    text[0] = 0;
    for (const char *word = choices; word && used < room;) {
        const char *next = strchr(word, '|');
        int length = next ? (int)(next - word) : (int)strlen(word);
        const char *before = word == choices ? "" : next ? ", " : " or ";
        int n = snprintf(text + used, room - used, "%s%.*s", before, length, word);
        used += n > 0 ? (size_t)n : 0;
        word = next ? next + 1 : NULL;
    }
}

/* 1000000, 0.9999999, 1e12, 1e-9: C would write 1e+06 and 1e-09. */
static const char *plain_number(double value, char text[32]) {
    bool whole = value == floor(value) && fabs(value) < 1e9;
    (void)snprintf(text, 32, whole ? "%.0f" : "%.7g", value); // NOLINT(clang-diagnostic-format-nonliteral)
    char *power = strchr(text, 'e');
    if (!power) return text;
    char *to = power + 1, *from = to;
    if (*from == '-') to++;
    from++; /* the sign, and zeros behind it */
    while (*from == '0') from++;
    memmove(to, from, strlen(from) + 1);
    return text;
}

bool cli_option_range(const cli_option *option, char *text, size_t room) {
    char min[32], max[32];
    if ((option->kind != CLI_INT && option->kind != CLI_REAL) || (option->min == 0 && option->max == 0))
        return false;
    if (option->kind == CLI_INT)
        (void)snprintf(text, room, "%.0f to %.0f", option->min, option->max);
    else
        (void)snprintf(text, room, "%s to %s", plain_number(option->min, min),
                       plain_number(option->max, max));
    return true;
}

/* -------------------------------------------------------------------------------------------------- names */

int cli_first_word(const cli_command *command) { return (int)strcspn(command->name, " "); }

const char *cli_second_word(const cli_command *command) {
    const char *space = strchr(command->name, ' ');
    return space ? space + 1 : NULL;
}

bool cli_starts_group(const cli_command *const *command) {
    int length = cli_first_word(*command);
    for (const cli_command *const *before = cli_commands; before < command; before++)
        if (cli_first_word(*before) == length && strncmp((*before)->name, (*command)->name, length) == 0)
            return false;
    return true;
}

/* Letters to insert, delete, replace or swap to get from a to b: what a typing error is made of. */
static int edit_distance(const char *a, const char *b) {
    enum { LONGEST = 40 };
    int n = (int)strlen(a), m = (int)strlen(b), cost[LONGEST + 1][LONGEST + 1];
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            int best = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (cost[i - 1][j] + 1 < best) best = cost[i - 1][j] + 1;
            if (cost[i][j - 1] + 1 < best) best = cost[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                cost[i - 2][j - 2] + 1 < best)
                best = cost[i - 2][j - 2] + 1;
            cost[i][j] = best;
        }
    return cost[n][m];
}

void cli_consider(cli_nearest *best, const char *name) {
    enum { SHORTEST_START = 3 };
    size_t typed = strlen(best->typed);
    int distance = edit_distance(best->typed, name);
    /* A word cut short is meant as well as one with a slip, but less so than one with a single slip. */
    bool cut = typed >= SHORTEST_START && strncmp(best->typed, name, typed) == 0;
    if (cut && distance > 2) distance = 2;
    if (!cut && distance > 1 + (int)strlen(name) / 4) return;
    if (!best->name || distance < best->distance) *best = (cli_nearest){best->typed, name, distance};
}

/* ------------------------------------------------------------------------------------------------ screens */

/* Two columns: a name, and words that flow beside it; a name that is too long has a line of its own. */
static cli_flow put_left(FILE *stream, const char *left, int indent) {
    cli_flow flow = {.stream = stream, .column = indent, .indent = indent, .width = CLI_COLUMNS};
    if ((int)strlen(left) + 2 < indent)
        fprintf(stream, "  %-*s", indent - 2, left);
    else
        fprintf(stream, "  %s\n%*s", left, indent, "");
    return flow;
}

static void print_option(const cli_option *option) {
    enum { INDENT = 29 };
    char left[128];
    (void)snprintf(left, sizeof left, "--%s%s%s", option->name, option->argument ? " " : "",
                   option->argument ? option->argument : "");
    cli_flow flow = put_left(stdout, left, INDENT);
    cli_flow_words(&flow, option->help);
    if (option->fallback) {
        char fallback[512];
        (void)snprintf(fallback, sizeof fallback, "[%s]", option->fallback);
        cli_flow_words(&flow, fallback);
    }
    cli_flow_end(&flow);
}

void cli_print_help(const cli_command *command) {
    cli_flow flow = {.stream = stdout, .width = CLI_COLUMNS};
    cli_flow_words(&flow, command->summary);
    cli_flow_end(&flow);
    printf("\nExamples:\n");
    cli_put_examples(stdout, command->examples, CLI_COLUMNS);
    printf("\nUsage: sia %s [options]%s%s\n\nOptions:\n", command->name, command->operands ? " " : "",
           command->operands ? command->operands : "");
    for (const cli_option *option = command->options; option->name; option++) print_option(option);
    print_option(&cli_help_option);
    if (!command->notes) return;
    putchar('\n');
    cli_put_notes(stdout, command->notes, CLI_COLUMNS);
}

static void print_summary(FILE *stream, const cli_command *command) {
    int widest = 0;
    for (const cli_command *const *other = cli_commands; *other; other++)
        if ((int)strlen((*other)->name) > widest) widest = (int)strlen((*other)->name);
    char left[128];
    (void)snprintf(left, sizeof left, "sia %s", command->name);
    cli_flow flow = put_left(stream, left, widest + 8);
    cli_flow_words(&flow, command->summary);
    cli_flow_end(&flow);
}

void cli_print_overview(FILE *stream) {
    fputs("sia: scale-invariant attention. Trained short, it works long.\n\nCommands:\n", stream);
    for (const cli_command *const *command = cli_commands; *command; command++)
        print_summary(stream, *command);
    fputs("\n'sia COMMAND --help' tells more, with examples. 'sia --version' names the build.\n", stream);
}

void cli_print_group(FILE *stream, const char *first_word) {
    size_t length = strlen(first_word);
    for (const cli_command *const *command = cli_commands; *command; command++)
        if (strncmp((*command)->name, first_word, length) == 0 && (*command)->name[length] == ' ')
            print_summary(stream, *command);
}

void cli_print_version(void) {
    const cli_blas *blas = cli_blas_get();
    printf("sia %s\ncompiler  %s\nkernels   %s\nBLAS      %s\nMPI       %s\n", sia_version(), CLI_COMPILER,
           sia_isa(), blas ? blas->name : "not installed (for sia bench attention)", sia_mpi_library());
}
