/* SPDX-License-Identifier: MIT
 *
 * The command line: finds the command, parses its options by its table. describe.c prints help. */
#include "cli/options.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/harmless.h"
#include "cli/describe.h"
#include "cli/ranks.h"
#include "cli/show.h"

struct cli_args {
    const cli_command *command;
    const char **value; /* by the option's place in the table; NULL: not given */
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

bool cli_has(const cli_args *args, const char *name) { return find(args->command, name, strlen(name)) >= 0; }

bool cli_given(const cli_args *args, const char *name) {
    int i = find(args->command, name, strlen(name));
    assert(i >= 0);
    return args->value[i] != NULL;
}

/* As a shell takes it: within quotes where it has to be, and a quote in them as '\''. */
static void add_word(char *text, size_t room, const char *before, const char *word) {
    size_t used = strlen(text);
    const char *quote = !*word || word[strcspn(word, " \t\n\"$`*?[]()<>|&;#~\\'")] ? "'" : "";
    if (used < room) used += (size_t)snprintf(text + used, room - used, "%s%s", before, quote);
    for (; *word && used < room; word++)
        used += (size_t)(*word == '\'' ? snprintf(text + used, room - used, "'\\''")
                                       : snprintf(text + used, room - used, "%c", *word));
    if (used < room) (void)snprintf(text + used, room - used, "%s", quote);
}

void cli_command_line(const cli_args *args, char *text, size_t room) {
    (void)snprintf(text, room, "sia %s", args->command->name);
    for (int i = 0; i < args->operand_count; i++) add_word(text, room, " ", args->operands[i]);
    for (int i = 0; args->command->options[i].name; i++) {
        if (!args->value[i]) continue;
        add_word(text, room, " --", args->command->options[i].name);
        if (args->command->options[i].kind != CLI_FLAG) add_word(text, room, " ", args->value[i]);
    }
}

char *cli_choices(const cli_args *args) {
    static const char *const own[] = {"threads", "timeout", "quiet", "json"};
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return NULL;
    fprintf(to, "%s", args->command->name);
    for (int i = 0; i < args->operand_count; i++) fprintf(to, "\n%s", args->operands[i]);
    for (int i = 0; args->command->options[i].name; i++) {
        const char *name = args->command->options[i].name;
        bool decides = args->value[i] != NULL;
        for (size_t j = 0; j < sizeof own / sizeof *own; j++) decides = decides && strcmp(name, own[j]) != 0;
        if (decides) fprintf(to, "\n--%s=%s", name, args->value[i]);
    }
    if (fclose(to) == 0) return text;
    free(text);
    return NULL;
}

int cli_operands(const cli_args *args, char ***operands) {
    *operands = args->operands;
    return args->operand_count;
}

/* ------------------------------------------------------------------------------------------------ failing */

int cli_fail(const sia_error *err) {
    char prefix[32];
    if (cli_ranks_tell(prefix)) fprintf(stderr, "sia: %s%s\n", prefix, err->text);
    if (err->status == SIA_STOPPED) return CLI_INTERRUPTED;
    return err->status == SIA_ARGUMENT || err->status == SIA_SCHEME ? CLI_USAGE : CLI_FAILED;
}

int cli_fail_memory(size_t bytes, const char *what) {
    sia_error err;
    (void)sia_fail_memory(&err, bytes, what);
    return cli_fail(&err);
}

/* The last sentence about the usage; what was typed may be a name that the shell found, so it is long. */
static char usage_sentence[1024];

int cli_usage(const cli_args *args, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(usage_sentence, sizeof usage_sentence, format, arguments);
    va_end(arguments);
    /* Mostly every rank was called alike; of options that are wrong elsewhere alone rank 0 hears (cli/ranks.h). */
    if (!cli_first_rank()) return CLI_USAGE;
    fprintf(stderr, "sia %s: %s\nTry 'sia %s --help'.\n", args->command->name,
            sia_harmless(usage_sentence, strlen(usage_sentence), ""), args->command->name);
    return CLI_USAGE;
}

/* ------------------------------------------------------------------------------------------------ parsing */

/* An option whose argument is "text|u16|u32" takes one of these words. */
static int check_word(const cli_args *args, const cli_option *option, const char *text) {
    const char *choices = option->argument;
    size_t length = strlen(text);
    if (!choices || !strchr(choices, '|')) return CLI_DONE;
    for (const char *word = choices; word; word = strchr(word, '|')) {
        if (*word == '|') word++;
        if (strcspn(word, "|") == length && strncmp(word, text, length) == 0) return CLI_DONE;
    }
    char sentence[256];
    cli_words_sentence(choices, sentence, sizeof sentence);
    return cli_usage(args, "--%s %s: want %s", option->name, text, sentence);
}

static int check_value(const cli_args *args, const cli_option *option, const char *text) {
    if (option->kind == CLI_TEXT) return check_word(args, option, text);
    char *end;
    errno = 0;
    double value = option->kind == CLI_INT ? (double)strtoll(text, &end, 10) : strtod(text, &end);
    bool whole = option->kind == CLI_INT, ranged = option->min != 0 || option->max != 0;
    /* A number too large for its type is still a number: the range is what to say of it. */
    bool too_large = errno == ERANGE && (whole || isinf(value));
    if (end == text || *end || (!too_large && !isfinite(value)) || (too_large && !whole && !ranged))
        return cli_usage(args, "--%s %s: want a %snumber", option->name, text, whole ? "whole " : "");
    char range[128];
    if (cli_option_range(option, range, sizeof range) &&
        (too_large || value < option->min || value > option->max))
        return cli_usage(args, "--%s %s: want %s", option->name, text, range);
    if (too_large)
        return cli_usage(args, "--%s %s: want %lld to %lld", option->name, text, LLONG_MIN, LLONG_MAX);
    return CLI_DONE;
}

static int unknown_option(const cli_args *args, const char *name) {
    /* Alone it was answered before; here it has a value. */
    if (strcmp(name, cli_help_option.name) == 0) return cli_usage(args, "--%s takes no value", name);
    cli_nearest best = {.typed = name};
    for (const cli_option *option = args->command->options; option->name; option++)
        cli_consider(&best, option->name);
    cli_consider(&best, cli_help_option.name);
    if (best.name) return cli_usage(args, "unknown option --%s; did you mean --%s?", name, best.name);
    return cli_usage(args, "unknown option --%s", name);
}

/* A flag whose argument is "[auto]" means the same with this word behind it. */
static bool may_follow(const cli_option *flag, const char *word) {
    size_t length = strlen(word);
    return flag->argument && strlen(flag->argument) == length + 2 &&
           strncmp(flag->argument + 1, word, length) == 0;
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
            if (equals && !may_follow(option, equals + 1))
                return cli_usage(args, "--%s takes no value", option->name);
            if (!equals && i + 1 < argc && may_follow(option, argv[i + 1])) i++;
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

/* The number of words of argv that the command's name takes ("bench attention": 2), 0 for another name. */
static int matches(const cli_command *command, int argc, char **argv) {
    const char *space = strchr(command->name, ' ');
    if (!space) return argc >= 1 && strcmp(argv[0], command->name) == 0 ? 1 : 0;
    size_t first = (size_t)(space - command->name);
    if (argc < 2 || strlen(argv[0]) != first || strncmp(argv[0], command->name, first) != 0) return 0;
    return strcmp(argv[1], space + 1) == 0 ? 2 : 0;
}

/* Whether the word begins commands of two words. */
static bool is_group(const char *word) {
    size_t length = strlen(word);
    for (const cli_command *const *command = cli_commands; *command; command++)
        if (strncmp((*command)->name, word, length) == 0 && (*command)->name[length] == ' ') return true;
    return false;
}

/* argv[0] begins commands of two words, and argv[1] is none of the second ones. */
static int unknown_second_word(int argc, char **argv) {
    cli_nearest best = {.typed = argc > 1 ? argv[1] : ""};
    size_t length = strlen(argv[0]);
    for (const cli_command *const *command = cli_commands; *command; command++)
        if (strncmp((*command)->name, argv[0], length) == 0 && (*command)->name[length] == ' ')
            cli_consider(&best, (*command)->name + length + 1);
    if (best.name) {
        fprintf(stderr, "sia: unknown command '%s %s'; did you mean 'sia %s %s'?\n", argv[0],
                cli_shown(argv[1]), argv[0], best.name);
        fprintf(stderr, "Try 'sia %s --help'.\n", argv[0]);
    } else {
        fprintf(stderr, "sia %s: want one of these\n", argv[0]);
        cli_print_group(stderr, argv[0]);
    }
    return CLI_USAGE;
}

static int unknown_command(char **argv) {
    char first[64];
    cli_nearest best = {.typed = argv[0]};
    cli_consider(&best, "help");
    cli_consider(&best, "--help");
    cli_consider(&best, "--version");
    for (const cli_command *const *command = cli_commands; *command; command++) {
        cli_nearest one = {.typed = argv[0]};
        (void)snprintf(first, sizeof first, "%.*s", cli_first_word(*command), (*command)->name);
        cli_consider(&one, first);
        if (one.name && (!best.name || one.distance < best.distance))
            best = (cli_nearest){argv[0], (*command)->name, one.distance};
    }
    fprintf(stderr, "sia: unknown command '%s'", cli_shown(argv[0]));
    if (best.name) fprintf(stderr, "; did you mean 'sia %.*s'?", (int)strcspn(best.name, " "), best.name);
    fputs("\nTry 'sia --help'.\n", stderr);
    return CLI_USAGE;
}

static const cli_command *find_command(int argc, char **argv, int *words) {
    for (const cli_command *const *command = cli_commands; *command; command++)
        if ((*words = matches(*command, argc, argv)) > 0) return *command;
    return NULL;
}

/* -h is what many type first. */
static bool asks_for_help(const char *word) { return !strcmp(word, "--help") || !strcmp(word, "-h"); }

/* argv holds what follows the program's name. */
static int run_command(int argc, char **argv) {
    int words;
    const cli_command *command = find_command(argc, argv, &words);
    if (!command && is_group(argv[0])) {
        if (argc == 1 || !asks_for_help(argv[1])) return unknown_second_word(argc, argv);
        puts("Commands:");
        cli_print_group(stdout, argv[0]);
        printf("\n'sia %s COMMAND --help' tells more, with examples.\n", argv[0]);
        return CLI_DONE;
    }
    if (!command) return unknown_command(argv);
    for (int i = words; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (asks_for_help(argv[i])) {
            cli_print_help(command);
            return CLI_DONE;
        }
    size_t options = 0;
    while (command->options[options].name) options++;
    cli_args args = {.command = command, .value = calloc(options + 1, sizeof *args.value)};
    if (!args.value) return cli_fail_memory(options * sizeof *args.value, "options");
    int code = parse(&args, argc - words, argv + words);
    if (command->ranks) code = cli_ranks_start(&args, code, usage_sentence);
    if (code == CLI_DONE) code = command->run(&args);
    free(args.value);
    return code;
}

/* sia help COMMAND is sia COMMAND --help. */
static int run_help(int argc, char **argv) {
    static char help[] = "--help";
    if (argc == 0 || asks_for_help(argv[0])) {
        cli_print_overview(stdout);
        return CLI_DONE;
    }
    int words = 0;
    if (!find_command(argc, argv, &words) && argc > 1) return run_command(argc, argv);
    if (words && argc > words) {
        fprintf(stderr, "sia help: %s: want one command\nTry 'sia --help'.\n", cli_shown(argv[words]));
        return CLI_USAGE;
    }
    char *asked[] = {argv[0], words == 2 ? argv[1] : help, help};
    return run_command(words == 2 ? 3 : 2, asked);
}

/* jansson reads and writes outside of its buffers once an allocation has failed within it (2.14). So none fails: the
 * program ends, as if it had been killed, and nothing that was saved is lost. */
static void *json_memory(size_t bytes) {
    static const char sentence[] = "sia: no memory for JSON\n";
    void *block = malloc(bytes);
    if (block || bytes == 0) return block;
    (void)!write(STDERR_FILENO, sentence, sizeof sentence - 1);
    _exit(CLI_FAILED);
}

static int flush_failure; /* why the first flush that failed did */

void cli_flush(void) {
    if (fflush(stdout) != 0 && !flush_failure) flush_failure = errno;
}

int cli_main(int argc, char **argv) {
    json_set_alloc_funcs(json_memory, free);
    if (argc < 2) {
        cli_print_overview(stderr);
        return CLI_USAGE;
    }
    int code = CLI_DONE;
    if (asks_for_help(argv[1]) || strcmp(argv[1], "help") == 0)
        code = run_help(argc - 2, argv + 2);
    else if (strcmp(argv[1], "--version") == 0)
        cli_print_version();
    else
        code = run_command(argc - 1, argv + 1);
    /* Output that could not be written (a full disk, a closed pipe) is a failure. */
    cli_flush();
    if ((flush_failure || ferror(stdout)) && code == CLI_DONE) {
        /* stdio flushes by itself as well; the cause of such a failure is forgotten by now. */
        fprintf(stderr, "sia: stdout: %s\n",
                flush_failure ? strerror(flush_failure) : "not all of the output could be written");
        code = CLI_FAILED;
    }
    return cli_ranks_end(code);
}

/* ---------------------------------------------------------------------------------------------- lists */

int cli_number_list(const cli_args *args, const char *name, int64_t min, int64_t max, int64_t *numbers,
                    int *count) {
    const char *text = cli_text(args, name), *at = text;
    for (*count = 0;; at++) {
        char *end;
        errno = 0;
        long long number = strtoll(at, &end, 10);
        if (end == at || errno || (*end && *end != ','))
            return cli_usage(args, "--%s %s: want whole numbers with commas between them", name, text);
        if (number < min || number > max)
            return cli_usage(args, "--%s %s: want numbers from %lld to %lld", name, text, (long long)min,
                             (long long)max);
        if (*count == CLI_MAX_LIST)
            return cli_usage(args, "--%s %s: want %d at most", name, text, CLI_MAX_LIST);
        numbers[(*count)++] = number;
        at = end;
        if (!*at) return CLI_DONE;
    }
}

int cli_word_list(const cli_args *args, const char *name, char *room, size_t room_bytes, const char **words,
                  int *count) {
    const char *text = cli_text(args, name);
    size_t length = strlen(text);
    if (length >= room_bytes) return cli_usage(args, "--%s: want %zu letters at most", name, room_bytes - 1);
    memcpy(room, text, length + 1);
    *count = 0;
    for (char *word = room, *comma; word; word = comma) {
        comma = strchr(word, ',');
        if (comma) *comma++ = 0;
        if (!*word) return cli_usage(args, "--%s %s: want words with commas between them", name, text);
        if (*count == CLI_MAX_LIST)
            return cli_usage(args, "--%s %s: want %d at most", name, text, CLI_MAX_LIST);
        for (int i = 0; i < *count; i++)
            if (strcmp(words[i], word) == 0)
                return cli_usage(args, "--%s %s: %s is there twice", name, text, word);
        words[(*count)++] = word;
    }
    return CLI_DONE;
}
