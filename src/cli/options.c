/* SPDX-License-Identifier: MIT
 *
 * The command line: finds the command, parses its options by its table, prints help. */
#include "cli/options.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 64 };

struct cli_args {
    const cli_command *command;
    const char *value[MAX_OPTIONS]; /* by the option's place in the table; NULL: not given */
    char **operands;
    int operand_count;
};

/* ------------------------------------------------------------------------------------------------ values */

static int find(const cli_command *command, const char *name, size_t length) {
    for (int i = 0; command->options[i].name; i++) {
        const char *known = command->options[i].name;
        if (strlen(known) == length && strncmp(known, name, length) == 0) return i;
    }
    return -1;
}

static const char *value_of(const cli_args *args, const char *name, cli_kind kind) {
    int i = find(args->command, name, strlen(name));
    assert(i >= 0 && args->command->options[i].kind == kind);
    (void)kind;
    return args->value[i] ? args->value[i] : args->command->options[i].fallback;
}

bool cli_flag(const cli_args *args, const char *name) { return value_of(args, name, CLI_FLAG) != NULL; }
const char *cli_text(const cli_args *args, const char *name) { return value_of(args, name, CLI_TEXT); }

int64_t cli_int(const cli_args *args, const char *name) {
    const char *text = value_of(args, name, CLI_INT);
    return text ? strtoll(text, NULL, 10) : 0;
}

double cli_real(const cli_args *args, const char *name) {
    const char *text = value_of(args, name, CLI_REAL);
    return text ? strtod(text, NULL) : 0;
}

bool cli_given(const cli_args *args, const char *name) {
    int i = find(args->command, name, strlen(name));
    assert(i >= 0);
    return args->value[i] != NULL;
}

int cli_operands(const cli_args *args, char ***operands) {
    *operands = args->operands;
    return args->operand_count;
}

/* ------------------------------------------------------------------------------------------------ failing */

int cli_fail(const sia_error *err) {
    fprintf(stderr, "sia: %s\n", err->text);
    if (err->status == SIA_STOPPED) return CLI_INTERRUPTED;
    return err->status == SIA_ARGUMENT || err->status == SIA_SCHEME ? CLI_USAGE : CLI_FAILED;
}

int cli_usage(const cli_args *args, const char *format, ...) {
    va_list arguments;
    fprintf(stderr, "sia %s: ", args->command->name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nTry 'sia %s --help'.\n", args->command->name);
    return CLI_USAGE;
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

/* Of the known names the nearest, if it is near enough to be meant. */
typedef struct nearest {
    const char *wanted, *name;
    int distance;
} nearest;

static void consider(nearest *best, const char *name) {
    int distance = edit_distance(best->wanted, name);
    if (distance <= 1 + (int)strlen(name) / 4 && distance < best->distance)
        *best = (nearest){best->wanted, name, distance};
}

/* ------------------------------------------------------------------------------------------------ help */

static void print_option(const cli_option *option) {
    char left[64];
    (void)snprintf(left, sizeof left, "--%s%s%s", option->name, option->argument ? " " : "",
                   option->argument ? option->argument : "");
    printf("  %-26s %s", left, option->help);
    if (option->fallback) printf(" [%s]", option->fallback);
    putchar('\n');
}

static void print_help(const cli_command *command) {
    printf("%s\n\nExamples:\n%s\nUsage: sia %s [options]%s%s\n\nOptions:\n", command->summary,
           command->examples, command->name, command->operands ? " " : "",
           command->operands ? command->operands : "");
    for (const cli_option *option = command->options; option->name; option++) print_option(option);
    print_option(&(cli_option){.name = "help", .help = "this text"});
    if (command->notes) printf("\n%s", command->notes);
}

static void print_overview(FILE *stream) {
    fputs("sia: scale-invariant attention. Trained short, it works long.\n\nCommands:\n", stream);
    for (const cli_command *const *command = cli_commands; *command; command++)
        fprintf(stream, "  sia %-18s %s\n", (*command)->name, (*command)->summary);
    fputs("\n'sia COMMAND --help' tells more, with examples. 'sia --version' names the build.\n", stream);
}

/* ------------------------------------------------------------------------------------------------ parsing */

static int check_value(const cli_args *args, const cli_option *option, const char *text) {
    if (option->kind == CLI_TEXT) return CLI_DONE;
    char *end;
    errno = 0;
    double value = option->kind == CLI_INT ? (double)strtoll(text, &end, 10) : strtod(text, &end);
    bool whole = option->kind == CLI_INT, ranged = option->min != 0 || option->max != 0;
    /* A number too large for its type is still a number: the range is what to say of it. */
    bool too_large = errno == ERANGE && (whole || isinf(value));
    if (end == text || *end || (!too_large && !isfinite(value)) || (too_large && !whole && !ranged))
        return cli_usage(args, "--%s %s: want a %snumber", option->name, text, whole ? "whole " : "");
    if (ranged && (too_large || value < option->min || value > option->max))
        return cli_usage(args, whole ? "--%s %s: want %.0f to %.0f" : "--%s %s: want %g to %g", option->name,
                         text, option->min, option->max);
    if (too_large)
        return cli_usage(args, "--%s %s: want %lld to %lld", option->name, text, LLONG_MIN, LLONG_MAX);
    return CLI_DONE;
}

static int unknown_option(const cli_args *args, const char *name) {
    nearest best = {name, NULL, 1000};
    for (const cli_option *option = args->command->options; option->name; option++)
        consider(&best, option->name);
    consider(&best, "help");
    if (best.name) return cli_usage(args, "unknown option --%s; did you mean --%s?", name, best.name);
    return cli_usage(args, "unknown option --%s", name);
}

/* argv holds what follows the command's name. Operands are moved to its front. */
static int parse(cli_args *args, int argc, char **argv) {
    bool only_operands = false;
    args->operands = argv;
    for (int i = 0; i < argc; i++) {
        char *word = argv[i];
        if (only_operands || strncmp(word, "--", 2) != 0) {
            if (!only_operands && word[0] == '-' && word[1])
                return cli_usage(args, "%s: options are words, such as --help", word);
            args->operands[args->operand_count++] = word;
            continue;
        }
        if (word[2] == 0) {
            only_operands = true;
            continue;
        }
        char *name = word + 2, *equals = strchr(name, '=');
        int place = find(args->command, name, equals ? (size_t)(equals - name) : strlen(name));
        if (place < 0) {
            if (equals) *equals = 0;
            return unknown_option(args, name);
        }
        const cli_option *option = &args->command->options[place];
        if (option->kind == CLI_FLAG) {
            if (equals) return cli_usage(args, "--%s takes no value", option->name);
            args->value[place] = "yes";
            continue;
        }
        const char *value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value) return cli_usage(args, "--%s: want a value, %s", option->name, option->argument);
        int code = check_value(args, option, value);
        if (code) return code;
        /* Which of two values is meant, nobody can tell; a flag twice is a flag. */
        if (args->value[place]) return cli_usage(args, "--%s: given twice", option->name);
        args->value[place] = value;
    }
    if (args->operand_count && !args->command->operands)
        return cli_usage(args, "%s: this command takes no operands", args->operands[0]);
    return CLI_DONE;
}

/* The number of words of argv that the command's name takes ("bench attention": 2), 0 if it is another one.
 */
static int matches(const cli_command *command, int argc, char **argv) {
    const char *space = strchr(command->name, ' ');
    if (!space) return argc >= 1 && strcmp(argv[0], command->name) == 0 ? 1 : 0;
    size_t first = (size_t)(space - command->name);
    if (argc < 2 || strlen(argv[0]) != first || strncmp(argv[0], command->name, first) != 0) return 0;
    return strcmp(argv[1], space + 1) == 0 ? 2 : 0;
}

static int unknown_command(int argc, char **argv) {
    /* One word of a two-word command: show what goes with it. */
    bool started = false;
    size_t length = strlen(argv[0]);
    for (const cli_command *const *command = cli_commands; *command; command++) {
        if (strncmp((*command)->name, argv[0], length) != 0 || (*command)->name[length] != ' ') continue;
        bool asked = argc > 1 && strcmp(argv[1], "--help") == 0;
        if (!started && !asked) fprintf(stderr, "sia %s: want one of these\n", argv[0]);
        started = true;
        fprintf(asked ? stdout : stderr, "  sia %-18s %s\n", (*command)->name, (*command)->summary);
        if (!(*(command + 1)) && asked) return CLI_DONE;
    }
    if (started) return argc > 1 && strcmp(argv[1], "--help") == 0 ? CLI_DONE : CLI_USAGE;
    nearest best = {argv[0], NULL, 1000};
    for (const cli_command *const *command = cli_commands; *command; command++)
        consider(&best, (*command)->name);
    fprintf(stderr, "sia: unknown command '%s'", argv[0]);
    if (best.name) fprintf(stderr, "; did you mean 'sia %s'?", best.name);
    fputs("\nTry 'sia --help'.\n", stderr);
    return CLI_USAGE;
}

int cli_main(int argc, char **argv) {
    if (argc < 2) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_overview(stdout);
        return CLI_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("sia %s\ncompiler  %s\nkernels   %s\n", sia_version(), __VERSION__, sia_isa());
        return CLI_DONE;
    }
    for (const cli_command *const *command = cli_commands; *command; command++) {
        int words = matches(*command, argc - 1, argv + 1);
        if (!words) continue;
        for (int i = 1 + words; i < argc && strcmp(argv[i], "--") != 0; i++)
            if (strcmp(argv[i], "--help") == 0) {
                print_help(*command);
                return CLI_DONE;
            }
        cli_args args = {.command = *command};
        int code = parse(&args, argc - 1 - words, argv + 1 + words);
        if (code == CLI_DONE) code = (*command)->run(&args);
        /* Output that could not be written (a full disk, a closed pipe) is a failure. */
        if (fflush(stdout) != 0 && code == CLI_DONE) {
            perror("sia: stdout");
            code = CLI_FAILED;
        }
        /* An earlier flush failed and nothing was left for this one: its cause is forgotten by now. */
        if (ferror(stdout) && code == CLI_DONE) {
            fputs("sia: stdout: not all of the output could be written\n", stderr);
            code = CLI_FAILED;
        }
        return code;
    }
    return unknown_command(argc - 1, argv + 1);
}
