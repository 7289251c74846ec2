/* SPDX-License-Identifier: MIT
 *
 * What is written about the program is what the program does. Every command and option of the tables is in
 * --help, in its man page and in the completions; every option that the documents and the examples use
 * exists. New commands are checked without a line here. */
#define _GNU_SOURCE
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../commands.h"
#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/layout.h"
#include "model/config.h"
#include "source_pages.h"
#include "study/needle.h"
#include "train/settings.h"

static char output[1 << 20];

static const char *ask(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *ask(const char *format, ...) {
    char command[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    if (run_command(command, output, sizeof output) != 0) fail_msg("%s: %s", command, output);
    return output;
}

static bool have(const char *tool) {
    char command[128];
    (void)snprintf(command, sizeof command, "command -v %s >/dev/null", tool);
    bool found = system(command) == 0;
    if (!found) print_message("skipped: no %s here\n", tool);
    return found;
}

/* ------------------------------------------------------------------------------------------------- help */

static void check_table(const cli_command *command) {
    if (!command->summary || !*command->summary) fail_msg("%s: no summary", command->name);
    if (!command->examples || !strstr(command->examples, "sia ")) fail_msg("%s: no example", command->name);
    for (const cli_option *option = command->options; option->name; option++) {
        if (!option->help || !*option->help) fail_msg("%s --%s: no help", command->name, option->name);
        bool argument = option->argument && option->argument[0] != '['; /* "[auto]" may follow a flag */
        if ((option->kind == CLI_FLAG) == argument)
            fail_msg("%s --%s: a flag has no argument, every other option one", command->name, option->name);
        for (const cli_option *other = command->options; other < option; other++)
            assert_string_not_equal(other->name, option->name);
    }
}

static void check_width(const char *name, const char *text) {
    for (const char *line = text; *line;) {
        int length = (int)strcspn(line, "\n"), columns = 0;
        for (int i = 0; i < length; i++) columns += ((unsigned char)line[i] & 0xc0) != 0x80;
        if (columns > CLI_COLUMNS) fail_msg("%s: %d columns: %.*s", name, columns, length, line);
        line += length + (line[length] == '\n');
    }
}

static void test_help(void **state) {
    (void)state;
    check_width("sia --help", ask("$SIA --help"));
    for (const cli_command *const *command = cli_commands; *command; command++) {
        char line[256];
        check_table(*command);
        (void)snprintf(line, sizeof line, "\n  sia %s ", (*command)->name);
        if (!strstr(ask("$SIA --help"), line)) fail_msg("%s: not in sia --help", (*command)->name);
        const char *help = ask("$SIA %s --help", (*command)->name);
        check_width((*command)->name, help);
        assert_non_null(strstr(help, "\n\nExamples:\n  "));
        for (const cli_option *option = (*command)->options; option->name; option++) {
            (void)snprintf(line, sizeof line, "\n  --%s%s%s", option->name, option->argument ? " " : "",
                           option->argument ? option->argument : "");
            const char *found = strstr(help, line);
            if (!found || !strchr(" \n", found[strlen(line)]))
                fail_msg("%s --%s: not in its help", (*command)->name, option->name);
        }
        char *first = strdup(help);
        assert_string_equal(first, ask("$SIA help %s", (*command)->name));
        free(first);
    }
}

/* Long lines, as no table has them now. */
static void test_layout(void **state) {
    (void)state;
    static const struct {
        const char *text, *wanted;
    } notes[] =
        {
            {"one two three four five six\nseven\n", "one two three four\nfive six seven\n"},
            {"one\n\ntwo\n  kept as it is\nthree\n", "one\n\ntwo\n  kept as it is\nthree\n"},
            {"averyveryverylongwordindeed x", "averyveryverylongwordindeed\nx\n"},
            {"\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4 123456789 x",
             "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4 "
             "123456789\nx\n"},
        },
      examples[] = {
          {"  sia a    b\n", "  sia a    b\n"},
          {"  sia aa         what for\n  sia b          no\n", "  sia aa  what for\n  sia b   no\n"},
          {"  sia --aa 1 --bb 2 --cc 3\n", "  sia --aa 1 \\\n      --bb 2 --cc 3\n"},
          {"  sia 'a b c d e f g h i j k'\n", "  sia \\\n      'a b c d e f g h i j k'\n"},
          {"  sia abcdefgh   for a long time\n", "  sia abcdefgh\n      for a long\n      time\n"},
          {"  siaabcdefghijklmnopqrstuvw\n", "  siaabcdefghijklmnopqrstuvw\n"},
      };
    char *text;
    size_t size;
    for (size_t i = 0; i < sizeof notes / sizeof *notes + sizeof examples / sizeof *examples; i++) {
        bool note = i < sizeof notes / sizeof *notes;
        size_t e = note ? 0 : i - sizeof notes / sizeof *notes;
        FILE *memory = open_memstream(&text, &size);
        assert_non_null(memory);
        if (note)
            cli_put_notes(memory, notes[i].text, 20);
        else
            cli_put_examples(memory, examples[e].text, 20);
        assert_int_equal(fclose(memory), 0);
        assert_string_equal(text, note ? notes[i].wanted : examples[e].wanted);
        free(text);
    }
}

/* ------------------------------------------------------------------------------------------------ fields */

static cli_kind kind_of(const sia_field *field) {
    switch (field->kind) {
    case SIA_FIELD_REAL:
        return CLI_REAL;
    case SIA_FIELD_BOOL:
        return CLI_FLAG;
    case SIA_FIELD_CHOICE:
        return CLI_TEXT;
    default:
        return CLI_INT;
    }
}

static const cli_option *option_of(const cli_command *command, const char *field) {
    for (const cli_option *option = command->options; option->name; option++) {
        size_t i = 0;
        while (field[i] && option->name[i] == (field[i] == '_' ? '-' : field[i])) i++;
        if (!field[i] && !option->name[i]) return option;
    }
    return NULL;
}

static void check_field(const char *command, const cli_option *option, const sia_field *field) {
    /* -1 is "as the run has it", which is said by leaving the option out. */
    double min = field->min == -1 ? 0 : field->min;
    if (option->kind != kind_of(field)) fail_msg("%s --%s: of another kind", command, option->name);
    if ((option->kind == CLI_INT || option->kind == CLI_REAL) &&
        (option->min != min || option->max != field->max))
        fail_msg("%s --%s: %g to %g, but the setting may be %g to %g", command, option->name, option->min,
                 option->max, min, field->max);
    if (field->kind != SIA_FIELD_CHOICE) return;
    char words[256];
    (void)snprintf(words, sizeof words, "%s", option->argument);
    for (char *c = words; *c; c++)
        if (*c == '|') *c = ' ';
    assert_string_equal(words, field->choices);
}

/* Options and the fields that they set are written down apart: kinds, ranges and words are the same. */
static void test_fields(void **state) {
    (void)state;
    static const struct {
        const cli_command *command;
        const sia_field *fields;
        bool all; /* every field has its option */
    } tables[] = {
        {&command_train, sia_model_fields, true},       {&command_train, sia_training_fields, true},
        {&command_compare, sia_model_fields, true},     {&command_compare, sia_training_fields, true},
        {&command_bench_train, sia_model_fields, true}, {&command_bench_train, sia_training_fields, false},
        {&command_needle, sia_needle_fields, true},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const cli_command *command = tables[i].command;
        int checked = 0;
        for (const sia_field *field = tables[i].fields; field->name; field++) {
            const cli_option *option = option_of(command, field->name);
            if (!option && tables[i].all) fail_msg("%s: no option for %s", command->name, field->name);
            if (!option) continue;
            check_field(command->name, option, field);
            checked++;
        }
        assert_true(checked > 0);
    }
}

/* -------------------------------------------------------------------------------------------- man pages */

/* Numbers as a person writes them: not 1e+06, not 1e-09. */
static void test_ranges(void **state) {
    (void)state;
    static const struct {
        cli_option option;
        const char *wanted;
    } cases[] = {
        {{"x", CLI_INT, "N", NULL, "", 0, 9e15}, "0 to 9000000000000000"},
        {{"x", CLI_REAL, "X", NULL, "", 0.001, 1e6}, "0.001 to 1000000"},
        {{"x", CLI_REAL, "X", NULL, "", 1e-9, 1e12}, "1e-9 to 1e12"},
        {{"x", CLI_REAL, "X", NULL, "", -1e-30, 2.5e100}, "-1e-30 to 2.5e100"},
        {{"x", CLI_REAL, "X", NULL, "", 0, 0.9999999}, "0 to 0.9999999"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        assert_true(cli_option_range(&cases[i].option, text, sizeof text));
        assert_string_equal(text, cases[i].wanted);
    }
}

/* As roff writes it: every - is \-. */
static void roff(const char *text, char *to) {
    for (; *text; text++) {
        if (*text == '-') *to++ = '\\';
        *to++ = *text;
    }
    *to = 0;
}

static void check_sections(const char *name, const char *page, bool notes) {
    static const char *const sections[] = {"NAME",  "SYNOPSIS",    "DESCRIPTION", "EXAMPLES", "OPTIONS",
                                           "NOTES", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO", NULL};
    for (const char *const *section = sections; *section; section++) {
        char line[64];
        if (!notes && strcmp(*section, "NOTES") == 0) continue;
        (void)snprintf(line, sizeof line, "\n.SH %s\n", *section);
        page = strstr(page, line);
        if (!page) {
            fail_msg("%s: its page has no %s, or not in its place", name, *section);
            return;
        }
    }
}

static void check_page(const cli_command *command, const char *page) {
    check_sections(command->name, page, command->notes != NULL);
    for (const cli_option *option = command->options; option->name; option++) {
        char name[128], wanted[512], range[128], fallback[512];
        roff(option->name, name);
        (void)snprintf(wanted, sizeof wanted, "\n.TP\n\\fB\\-\\-%s\\fR", name);
        const char *entry = strstr(page, wanted);
        const char *end = entry ? strstr(entry + 1, "\n.TP\n") : NULL;
        if (!end) {
            fail_msg("%s --%s: not in its man page", command->name, option->name);
            return;
        }
        if (option->fallback && strpbrk(option->fallback, "'`~^\\") == NULL) {
            roff(option->fallback, fallback);
            (void)snprintf(wanted, sizeof wanted, "\nDefault: %.480s.\n", fallback);
            const char *found = strstr(entry, wanted);
            if (!found || found > end)
                fail_msg("%s --%s: no default in its page", command->name, option->name);
        }
        /* "length scale [10]": a default that stands in the help is told as every other one is. */
        size_t help = strlen(option->help);
        const char *bracket = strrchr(option->help, '[');
        if (bracket && option->help[help - 1] == ']') {
            const char *found = strstr(entry, "\nDefault: ");
            if (!found || found > end)
                fail_msg("%s --%s: no default in its page", command->name, option->name);
            found = strstr(entry, bracket);
            if (found && found < end)
                fail_msg("%s --%s: a default in brackets in its page", command->name, option->name);
        }
        if (cli_option_range(option, range, sizeof range)) {
            roff(range, fallback);
            (void)snprintf(wanted, sizeof wanted, "\nRange: %.480s.\n", fallback);
            const char *found = strstr(entry, wanted);
            if (!found || found > end) fail_msg("%s --%s: no range in its page", command->name, option->name);
        }
    }
}

static void test_man(void **state) {
    (void)state;
    /* A date would have to be kept by hand, and the version says more. */
    bool groff = have("groff"), mandoc = have("mandoc");
    for (const cli_command *const *command = cli_commands; *command; command++) {
        const char *name = (*command)->name;
        check_page(*command, ask("$SIA man %s", name));
        if (groff) assert_string_equal(ask("$SIA man %s | groff -man -ww -Tutf8 -z", name), "");
        if (mandoc)
            assert_string_equal(
                ask("$SIA man %s | mandoc -Tlint -Wwarning | grep -v 'missing date' || true", name), "");
    }
    check_sections("sia", ask("$SIA man"), false);
    if (groff) assert_string_equal(ask("$SIA man | groff -man -ww -Tutf8 -z"), "");
    if (mandoc)
        assert_string_equal(ask("$SIA man | mandoc -Tlint -Wwarning | grep -v 'missing date' || true"), "");
}

/* Each variable that the source asks for is in the pages. */
static void test_environment(void **state) {
    (void)state;
    char *names = strdup(ask("grep -rhoE 'getenv\\(\"[A-Z_]+' \"$SOURCE\"/src | sed 's/.*\"//' | sort -u"));
    const char *page = ask("$SIA man info");
    int count = 0;
    for (char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n"), count++) {
        char line[128];
        (void)snprintf(line, sizeof line, "\n.TP\n.B %s\n", name);
        if (!strstr(page, line))
            fail_msg("%s: read by the source, not in ENVIRONMENT of command_man.c", name);
    }
    assert_true(count >= 2);
    free(names);
}

/* ------------------------------------------------------------------------------------------- completions */

/* complete LINE: prints the answers in one line. Words are cut as readline cuts them: = stands alone. */
static const char bash_driver[] = "source ./sia.bash\n"
                                  "complete_line() {\n"
                                  "    read -ra COMP_WORDS <<<\"${1//=/ = }\"\n"
                                  "    [[ $1 == *' ' ]] && COMP_WORDS+=('')\n"
                                  "    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                                  "    _sia sia \"${COMP_WORDS[COMP_CWORD]}\"\n"
                                  "    echo \"${COMPREPLY[*]}\"\n"
                                  "}\n"
                                  "while IFS= read -r line; do complete_line \"$line\"; done\n";

static void write_file(const char *name, const char *text) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", command_folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

typedef struct completion_case {
    const char *line, *answer;
} completion_case;

static const completion_case completions[] = {
    {"sia --v", "--version"},
    {"sia tok", "tokenizer"},
    {"sia hel", "help"},
    {"sia nothing ", ""},
    {"sia data ", "pack info generate"},
    {"sia data pa", "pack"},
    {"sia help data ", "pack info generate"},
    {"sia man data p", "pack"},
    {"sia completion ", "bash zsh fish"},
    {"sia tokenizer encode --fo", "--format"},
    {"sia tokenizer encode --format ", "text u16 u32"},
    {"sia tokenizer encode --format=", "text u16 u32"},
    {"sia tokenizer encode --format=u1", "u16"},
    {"sia bench attention --schemes nope,si+p", "nope,si+prope"},
    {"sia bench attention --ops fma", "fma_peak"},
    {"sia data pack --threads ", ""},
    {"sia data pack --tokenizer a_fi", "a_file"},
    {"sia data pack --out a_f", "a_folder"},
    {"sia data pack --json a_fo", "a_folder"},
    {"sia data generate a_f", ""},
};

static void test_bash(void **state) {
    (void)state;
    enum { CASES = sizeof completions / sizeof *completions };
    if (!have("bash")) skip();
    (void)ask("$SIA completion bash >sia.bash; mkdir -p a_folder; touch a_file");
    write_file("driver.bash", bash_driver);
    char lines[65536], *wanted = lines + sizeof lines / 2;
    int used = 0, expected = 0;
    const int room = sizeof lines / 2;
    for (int i = 0; i < CASES; i++) {
        used += snprintf(lines + used, (size_t)(room - used), "%s\n", completions[i].line);
        expected += snprintf(wanted + expected, (size_t)(room - expected), "%s\n", completions[i].answer);
    }
    for (const cli_command *const *command = cli_commands; *command; command++) {
        used += snprintf(lines + used, (size_t)(room - used), "sia %s --\n", (*command)->name);
        for (const cli_option *option = (*command)->options; option->name; option++)
            expected += snprintf(wanted + expected, (size_t)(room - expected), "--%s ", option->name);
        expected += snprintf(wanted + expected, (size_t)(room - expected), "--help\n");
        assert_true(used < room && expected < room);
    }
    write_file("lines", lines);
    assert_string_equal(ask("LC_ALL=C bash driver.bash <lines"), wanted);
}

/* The part of a zsh script that is about one command. */
static void check_zsh_part(const cli_command *command, const char *script) {
    char wanted[128];
    (void)snprintf(wanted, sizeof wanted, "\n    '%s')\n", command->name);
    const char *part = strstr(script, wanted), *end = part ? strstr(part, " ;;\n") : NULL;
    if (!end) {
        fail_msg("%s: not in the zsh completion", command->name);
        return;
    }
    for (const cli_option *option = command->options; option->name; option++) {
        (void)snprintf(wanted, sizeof wanted, "\n            '--%s%s[", option->name,
                       option->kind == CLI_FLAG ? "" : "=");
        const char *found = strstr(part, wanted);
        if (!found || found > end)
            fail_msg("%s --%s: not in the zsh completion", command->name, option->name);
    }
}

static void test_zsh(void **state) {
    (void)state;
    const char *script = ask("$SIA completion zsh");
    for (const cli_command *const *command = cli_commands; *command; command++)
        check_zsh_part(*command, script);
    if (have("zsh")) assert_string_equal(ask("$SIA completion zsh >_sia; zsh -n _sia"), "");
}

static void test_fish(void **state) {
    (void)state;
    const char *script = ask("$SIA completion fish");
    for (const cli_command *const *command = cli_commands; *command; command++)
        for (const cli_option *option = (*command)->options; option->name; option++) {
            char wanted[256];
            (void)snprintf(wanted, sizeof wanted, "\ncomplete -c sia -n '__sia_said %s' -l %s ",
                           (*command)->name, option->name);
            if (!strstr(script, wanted))
                fail_msg("%s --%s: not in the fish completion", (*command)->name, option->name);
        }
    if (!have("fish")) return;
    (void)ask("$SIA completion fish >sia.fish; fish -n sia.fish");
    assert_string_equal(ask("HOME=$PWD fish -c 'source sia.fish; complete -C \"sia data \"' | cut -f1"),
                        "generate\ninfo\npack\n");
    assert_string_equal(
        ask("HOME=$PWD fish -c 'source sia.fish; complete -C \"sia tokenizer encode --format u\"' | cut -f1"),
        "u16\nu32\n");
}

/* -------------------------------------------------------------------------------------------- documents */

static int options_checked;

static const cli_command *command_at(const char *text) {
    const cli_command *best = NULL;
    for (const cli_command *const *command = cli_commands; *command; command++) {
        size_t length = strlen((*command)->name);
        if (strncmp(text, (*command)->name, length) == 0 && !isalpha((unsigned char)text[length]) &&
            (!best || length > strlen(best->name)))
            best = *command;
    }
    return best;
}

/* A word that can stand after "sia" in code, although it is no whole command: "data", "help", "--version". */
static bool known_first_word(const char *text) {
    size_t length = strcspn(text, " \n`'");
    if (!islower((unsigned char)text[0])) return true; /* COMMAND, --version, an ellipsis */
    if (strncmp(text, "help", length) == 0) return true;
    for (const cli_command *const *command = cli_commands; *command; command++)
        if ((size_t)cli_first_word(*command) == length && strncmp((*command)->name, text, length) == 0)
            return true;
    return false;
}

/* The options in the rest of a command line, which ends with the line, the code, a pipe, or a wide gap. */
static void check_options(const char *where, const cli_command *command, const char *text) {
    char quote = 0;
    for (; *text && *text != '\n' && (quote || !strchr("`|;&)", *text)); text++) {
        if (quote || *text == '\'' || *text == '"') {
            quote = !quote ? *text : *text == quote ? 0 : quote;
            continue;
        }
        if (strncmp(text, "   ", 3) == 0) return;
        if (strncmp(text, " --", 3) != 0 || !islower((unsigned char)text[3])) continue;
        size_t length = strspn(text + 3, "abcdefghijklmnopqrstuvwxyz0123456789-");
        bool known = length == 4 && strncmp(text + 3, "help", 4) == 0;
        for (const cli_option *option = command->options; option->name; option++)
            known = known || (strlen(option->name) == length && strncmp(option->name, text + 3, length) == 0);
        if (!known) fail_msg("%s: sia %s has no option --%.*s", where, command->name, (int)length, text + 3);
        options_checked++;
    }
}

/* Whether "sia" at this place is the start of code: after a backquote, or first in an indented line. */
static bool starts_code(const char *text, const char *at) {
    if (at > text && at[-1] == '`') return true;
    const char *line = at;
    while (line > text && line[-1] == ' ') line--;
    return at - line >= 4 && (line == text || line[-1] == '\n');
}

static void check_text(const char *where, const char *text) {
    for (const char *at = text; (at = strstr(at, "sia ")); at += 4) {
        if (at > text && (isalnum((unsigned char)at[-1]) || strchr("-_.", at[-1]))) continue;
        const cli_command *command = command_at(at + 4);
        if (command)
            check_options(where, command, at + 4 + strlen(command->name));
        else if (starts_code(text, at) && !known_first_word(at + 4))
            fail_msg("%s: no command 'sia %.*s'", where, (int)strcspn(at + 4, " \n`"), at + 4);
    }
}

/* A backslash at the end of a line joins it with the next one, as in a shell. */
static void join_lines(char *text) {
    char *to = text;
    while (*text) {
        if (text[0] == '\\' && text[1] == '\n') {
            text += 2;
            text += strspn(text, " ");
            continue;
        }
        *to++ = *text++;
    }
    *to = 0;
}

static void test_documents(void **state) {
    (void)state;
    glob_t files = source_pages();
    for (size_t i = 0; i < files.gl_pathc; i++) {
        FILE *file = fopen(files.gl_pathv[i], "r");
        assert_non_null(file);
        size_t used = fread(output, 1, sizeof output - 1, file);
        (void)fclose(file);
        output[used] = 0;
        join_lines(output);
        check_text(files.gl_pathv[i], output);
    }
    globfree(&files);
    assert_true(options_checked >= 5);
    for (const cli_command *const *each = cli_commands; *each; each++) {
        const cli_command *command = *each;
        check_text(command->name, command->examples);
        if (command->notes) check_text(command->name, command->notes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help),      cmocka_unit_test(test_layout), cmocka_unit_test(test_man),
        cmocka_unit_test(test_ranges),    cmocka_unit_test(test_fields), cmocka_unit_test(test_environment),
        cmocka_unit_test(test_bash),      cmocka_unit_test(test_zsh),    cmocka_unit_test(test_fish),
        cmocka_unit_test(test_documents),
    };
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
