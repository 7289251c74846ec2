/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a command line, words divided by line ends: parsed by the tables of the real commands,
 * which are not run. A command that would run has values of the kinds and in the ranges of its table. */
#include "fuzz.h"

#include "cli/commands.h"

enum { WORDS = 40, MOST = 4096 };

#define NUMBER(name) number_##name,
enum { CLI_COMMANDS(NUMBER) COMMANDS };

static cli_command copies[COMMANDS];
#define COPY(name) &copies[number_##name],
const cli_command *const cli_commands[] = {CLI_COMMANDS(COPY) NULL};

static const cli_command *parsed; /* set by the caller of one command, for what it is asked */

static void check_option(const cli_args *args, const cli_option *o) {
    bool ranged = o->min != 0 || o->max != 0;
    switch (o->kind) {
    case CLI_FLAG:
        (void)cli_flag(args, o->name);
        break;
    case CLI_INT:
        if (cli_given(args, o->name) && ranged &&
            ((double)cli_int(args, o->name) < o->min || (double)cli_int(args, o->name) > o->max))
            abort();
        break;
    case CLI_REAL:
        if (cli_given(args, o->name) &&
            !(cli_real(args, o->name) >= -1e308 && cli_real(args, o->name) <= 1e308))
            abort();
        if (cli_given(args, o->name) && ranged &&
            !(cli_real(args, o->name) >= o->min && cli_real(args, o->name) <= o->max))
            abort();
        break;
    case CLI_TEXT:
        if (cli_given(args, o->name) && !cli_text(args, o->name)) abort();
        break;
    }
}

static int look(const cli_args *args) {
    char line[1024], **operands;
    cli_command_line(args, line, sizeof line);
    if (!memchr(line, 0, sizeof line)) abort();
    int count = cli_operands(args, &operands);
    for (int i = 0; i < count; i++)
        if (!operands[i]) abort();
    if (count && !parsed->operands) abort();
    for (const cli_option *o = parsed->options; o->name; o++) check_option(args, o);
    return CLI_DONE;
}

/* Each command knows which one it is by the function that runs it: the table has no place for more. */
#define LOOK(name) \
    static int look_##name(const cli_args *args) { return parsed = &command_##name, look(args); }
CLI_COMMANDS(LOOK)

#define PREPARE(name)                       \
    copies[number_##name] = command_##name; \
    copies[number_##name].run = look_##name;

static void prepare(void) {
    CLI_COMMANDS(PREPARE)
    /* Usage goes nowhere; libFuzzer keeps the stream that it began with. */
    stderr = fopen("/dev/null", "w");
    stdout = fopen("/dev/null", "w");
    if (!stderr || !stdout) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char program[] = "sia";
    char *words[WORDS + 2] = {program}, text[MOST + 1];
    int count = 1;
    if (!copies[0].run) prepare();
    if (size > MOST) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    for (size_t at = 0; at < size && count <= WORDS;) {
        words[count++] = text + at;
        at += strcspn(text + at, "\n");
        text[at++] = 0;
    }
    int code = cli_main(count, words);
    if (code != CLI_DONE && code != CLI_USAGE && code != CLI_FAILED) abort();
    return 0;
}
