/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a command line, words divided by line ends: parsed by the tables of the real commands,
 * which are not run. A command that would run has values of the kinds and in the ranges of its table. */
#include "fuzz.h"

#include "cli/commands.h"

enum { WORDS = 40, MOST = 4096 };

static const cli_command *const real[] = {
    &command_compare,
    &command_train,
    &command_eval,
    &command_generate,
    &command_needle,
    &command_tokenizer_train,
    &command_tokenizer_encode,
    &command_tokenizer_decode,
    &command_tokenizer_info,
    &command_data_pack,
    &command_data_info,
    &command_data_generate,
    &command_theory,
    &command_probe,
    &command_report,
    &command_bench_attention,
    &command_bench_train,
    &command_bench_decode,
    &command_bench_text,
    &command_info,
};
enum { COMMANDS = sizeof real / sizeof *real };

static cli_command copies[COMMANDS];
const cli_command *const cli_commands[COMMANDS + 1] = {
    &copies[0],  &copies[1],  &copies[2],  &copies[3],  &copies[4],  &copies[5],  &copies[6],
    &copies[7],  &copies[8],  &copies[9],  &copies[10], &copies[11], &copies[12], &copies[13],
    &copies[14], &copies[15], &copies[16], &copies[17], &copies[18], &copies[19], NULL};

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
#define LOOK(i) \
    static int look_##i(const cli_args *args) { return parsed = real[i], look(args); }
LOOK(0)
LOOK(1)
LOOK(2)
LOOK(3)
LOOK(4)
LOOK(5)
LOOK(6)
LOOK(7)
LOOK(8)
LOOK(9)
LOOK(10)
LOOK(11)
LOOK(12)
LOOK(13)
LOOK(14)
LOOK(15)
LOOK(16)
LOOK(17)
LOOK(18)
LOOK(19)
static int (*const looks[COMMANDS])(const cli_args *) = {
    look_0,  look_1,  look_2,  look_3,  look_4,  look_5,  look_6,  look_7,  look_8,  look_9,
    look_10, look_11, look_12, look_13, look_14, look_15, look_16, look_17, look_18, look_19};

static void prepare(void) {
    for (int i = 0; i < COMMANDS; i++) {
        copies[i] = *real[i];
        copies[i].run = looks[i];
    }
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
