/* SPDX-License-Identifier: MIT
 *
 * sia man: the man pages, in roff with the man macros, made from the tables of commands and options. The
 * build calls it, so that a page cannot say anything but what the program does. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/layout.h"

/* Lines of examples: what man leaves of 80 columns, 78 less the indent of a section; the two spaces with which
 * the tables indent them are left out. */
enum { EXAMPLE_COLUMNS = 78 - 7 + 2 };

/* What the library and the program read from the environment. */
static const struct {
    const char *name, *text;
} environment[] = {
    {"SIA_ISA",
     "The kernels to use: baseline, avx2, avx512, amx or neon, as far as this processor and this build "
     "have them. Unset, the best ones are taken; 'sia info' names them."},
    {"NO_COLOR", "If set and not empty, the progress line has no colour."},
    {"TERM", "If it is dumb or unset, the progress line has no colour."},
    {"PMIX_RANK", "Set by mpirun or srun, as are OMPI_COMM_WORLD_RANK and _SIZE, PMI_SIZE, SLURM_PROCID and "
                  "SLURM_STEP_NUM_TASKS: where they are, train, eval, compare, needle and bench train start "
                  "MPI and are one "
                  "rank of several. Other commands do not look at them."},
    {"PMI_RANK", "The same, set by other launchers."},
};

static const struct {
    int code;
    const char *text;
} exits[] = {
    {CLI_DONE, "Done."},
    {CLI_FAILED, "Failed; a sentence on stderr says what was found and what was wanted."},
    {CLI_USAGE, "Wrong usage: an unknown command, option or value."},
    {CLI_INTERRUPTED, "Stopped by Ctrl-C or a request to end."},
};

/* -------------------------------------------------------------------------------------------------- roff */

/* Text as it is: roff's own signs, and those that it would make prettier, are escaped. */
static void put_letters(FILE *page, const char *text, int length) {
    if (length > 0 && (text[0] == '.' || text[0] == '\'')) fputs("\\&", page);
    for (int i = 0; i < length; i++) switch (text[i]) {
        case '\\':
            fputs("\\e", page);
            break;
        case '-':
            fputs("\\-", page);
            break;
        case '\'':
            fputs("\\(aq", page);
            break;
        case '`':
            fputs("\\(ga", page);
            break;
        case '^':
            fputs("\\(ha", page);
            break;
        case '~':
            fputs("\\(ti", page);
            break;
        default:
            fputc(text[i], page);
        }
}

static void put_text(FILE *page, const char *text) { put_letters(page, text, (int)strlen(text)); }

/* A sentence of the tables, which have neither a capital nor a full stop where a line is short. */
static void put_sentence(FILE *page, const char *text) {
    size_t length = strlen(text), word = strcspn(text, " ");
    /* "rope+ntk or ..", "si: .." begin with a name. */
    bool name = memchr(text, '+', word) || (word && text[word - 1] == ':');
    char first = name ? text[0] : (char)toupper((unsigned char)text[0]);
    put_letters(page, &first, length ? 1 : 0);
    put_text(page, length ? text + 1 : text);
    if (length && !strchr(".!?:", text[length - 1])) fputc('.', page);
    fputc('\n', page);
}

/* Lines that stay lines; an empty one is a paragraph, or roff would warn. */
static void put_lines(FILE *page, const char *lines) {
    fputs(".nf\n", page);
    while (*lines) {
        int length = (int)strcspn(lines, "\n"), indent = length >= 2 && strncmp(lines, "  ", 2) == 0 ? 2 : 0;
        if (length)
            put_letters(page, lines + indent, length - indent);
        else
            fputs(".sp", page);
        fputc('\n', page);
        lines += length + (lines[length] == '\n');
    }
    fputs(".fi\n", page);
}

/* Lines are folded first, as help folds them. */
static void put_folded(FILE *page, const char *lines) {
    char *folded = NULL;
    size_t size;
    FILE *memory = open_memstream(&folded, &size);
    if (!memory) return;
    cli_put_examples(memory, lines, EXAMPLE_COLUMNS);
    if (fclose(memory) == 0) put_lines(page, folded);
    free(folded);
}

/* Notes: paragraphs flow, lines that start with a space stay lines. */
static void put_notes(FILE *page, const char *notes) {
    bool first = true, flowing = false;
    while (*notes) {
        size_t length = strcspn(notes, "\n");
        bool kept = notes[0] == ' ';
        if (length && !first && (kept || !flowing)) fputs(".PP\n", page);
        if (kept) {
            const char *end = notes;
            while (*end == ' ') end += strcspn(end, "\n"), end += *end == '\n';
            char *block = strndup(notes, (size_t)(end - notes));
            if (block) put_folded(page, block);
            free(block);
            length = (size_t)(end - notes);
        } else {
            put_letters(page, notes, (int)length);
            if (length) fputc('\n', page);
            length += notes[length] == '\n';
        }
        flowing = !kept && length > 1;
        first = false;
        notes += length;
    }
}

/* ------------------------------------------------------------------------------------------------- parts */

static void put_page_name(FILE *page, const char *command) {
    fputs("sia", page);
    if (*command) fputs("\\-", page);
    for (; *command; command++) put_letters(page, *command == ' ' ? "-" : command, 1);
}

static void put_title(FILE *page, const char *command, const char *summary) {
    /* No date: the version says more, and the same source gives the same page. */
    fputs(".TH \"SIA", page);
    if (*command) fputc('-', page);
    for (const char *c = command; *c; c++) fputc(*c == ' ' ? '-' : toupper((unsigned char)*c), page);
    fprintf(page, "\" 1 \"\" \"sia %s\" \"sia manual\"\n.nh\n.ad l\n.SH NAME\n", sia_version());
    put_page_name(page, command);
    fputs(" \\- ", page);
    /* "Text to ids" becomes "text to ids"; "BPE" stays. */
    bool lower = summary[0] && !isupper((unsigned char)summary[1]);
    char first = lower ? (char)tolower((unsigned char)summary[0]) : summary[0];
    fputc(first, page);
    put_text(page, summary[0] ? summary + 1 : summary);
    fputc('\n', page);
}

static void put_fact(FILE *page, const char *name, const char *text, int length) {
    fprintf(page, "%s: ", name);
    put_letters(page, text, length);
    fputs(".\n", page);
}

/* Some defaults no table can hold, and the help ends with them: "length scale [10]". Where the bracket is, or the end. */
static int help_end(const char *help) {
    int length = (int)strlen(help);
    const char *bracket = strrchr(help, '[');
    return bracket > help && help[length - 1] == ']' ? (int)(bracket - help) : length;
}

static void put_option(FILE *page, const cli_option *option) {
    char range[128], help[512];
    int end = help_end(option->help);
    const char *told = option->help + end;
    (void)snprintf(help, sizeof help, "%.*s", end && *told ? end - 1 : end, option->help);
    fputs(".TP\n\\fB\\-\\-", page);
    put_text(page, option->name);
    fputs("\\fR", page);
    if (option->argument) {
        fputs(" \\fI", page);
        put_text(page, option->argument);
        fputs("\\fR", page);
    }
    fputc('\n', page);
    put_sentence(page, help);
    if (option->fallback)
        put_fact(page, "Default", option->fallback, (int)strlen(option->fallback));
    else if (*told)
        put_fact(page, "Default", told + 1, (int)strlen(told) - 2);
    if (cli_option_range(option, range, sizeof range)) put_fact(page, "Range", range, (int)strlen(range));
}

static void put_exits(FILE *page) {
    fputs(".SH EXIT STATUS\n", page);
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++) {
        fprintf(page, ".TP\n.B %d\n", exits[i].code);
        put_sentence(page, exits[i].text);
    }
}

static void put_environment(FILE *page) {
    fputs(".SH ENVIRONMENT\n", page);
    for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
        fprintf(page, ".TP\n.B %s\n", environment[i].name);
        put_sentence(page, environment[i].text);
    }
}

static bool same_group(const cli_command *a, const cli_command *b) {
    int length = cli_first_word(a);
    return cli_first_word(b) == length && strncmp(a->name, b->name, (size_t)length) == 0;
}

/* sia(1) and the other commands with the same first word; for sia(1) all commands. */
static void put_see_also(FILE *page, const cli_command *of) {
    fputs(".SH SEE ALSO\n", page);
    bool first = true;
    if (of) fputs(".BR sia (1)", page);
    if (of) first = false;
    for (const cli_command *const *command = cli_commands; *command; command++) {
        if (of && (*command == of || !same_group(*command, of))) continue;
        fputs(first ? ".BR " : ",\n.BR ", page);
        put_page_name(page, (*command)->name);
        fputs(" (1)", page);
        first = false;
    }
    fputc('\n', page);
}

/* ------------------------------------------------------------------------------------------------- pages */

static void put_command_page(FILE *page, const cli_command *command) {
    put_title(page, command->name, command->summary);
    fputs(".SH SYNOPSIS\n.B sia ", page);
    put_text(page, command->name);
    fputs("\n[\\fIoptions\\fR]\n", page);
    if (command->operands) {
        fputs("\\fI", page);
        put_text(page, command->operands);
        fputs("\\fR\n", page);
    }
    fputs(".SH DESCRIPTION\n", page);
    put_sentence(page, command->summary);
    fputs(".SH EXAMPLES\n", page);
    put_folded(page, command->examples);
    fputs(
        ".SH OPTIONS\nA value follows its option after a space or an equals sign; \\-\\- ends the options.\n",
        page);
    for (const cli_option *option = command->options; option->name; option++) put_option(page, option);
    put_option(page, &(cli_option){.name = "help", .help = "Prints a summary of this page."});
    if (command->notes) {
        fputs(".SH NOTES\n", page);
        put_notes(page, command->notes);
    }
    put_exits(page);
    put_environment(page);
    put_see_also(page, command);
}

/* The first line of each command's examples. */
static void put_first_examples(FILE *page) {
    char *lines = NULL;
    size_t size;
    FILE *memory = open_memstream(&lines, &size);
    if (!memory) return;
    for (const cli_command *const *command = cli_commands; *command; command++)
        fprintf(memory, "%.*s\n", (int)strcspn((*command)->examples, "\n"), (*command)->examples);
    if (fclose(memory) == 0) put_folded(page, lines);
    free(lines);
}

static void put_program_page(FILE *page) {
    put_title(page, "", "scale-invariant attention: trained short, it works long");
    fputs(".SH SYNOPSIS\n.B sia\n\\fIcommand\\fR [\\fIoptions\\fR] [\\fIoperands\\fR]\n.SH DESCRIPTION\n",
          page);
    put_text(page,
             "Scale-invariant attention on CPUs. Each command has a page of its own, which 'sia COMMAND "
             "--help' sums up. Results go to stdout, progress and errors to stderr.");
    fputs("\n.SH COMMANDS\n", page);
    for (const cli_command *const *command = cli_commands; *command; command++) {
        fputs(".TP\n.B sia ", page);
        put_text(page, (*command)->name);
        fputc('\n', page);
        put_sentence(page, (*command)->summary);
    }
    fputs(".SH EXAMPLES\n", page);
    put_first_examples(page);
    fputs(".SH OPTIONS\n", page);
    put_option(page, &(cli_option){.name = "help", .help = "Lists the commands."});
    put_option(page, &(cli_option){.name = "version",
                                   .help = "Names the version, the compiler, the kernels, BLAS and MPI."});
    put_exits(page);
    put_environment(page);
    put_see_also(page, NULL);
}

/* ----------------------------------------------------------------------------------------------- command */

/* command NULL: the page of the program. */
static sia_status write_page(const char *folder, const cli_command *command, sia_error *err) {
    char path[4096], *text = NULL;
    size_t size;
    int length =
        snprintf(path, sizeof path, "%s/sia%s%s.1", folder, command ? "-" : "", command ? command->name : "");
    if (length < 0 || length >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return sia_fail_file(err, folder);
    }
    for (char *c = path + strlen(folder); *c; c++)
        if (*c == ' ') *c = '-';
    FILE *page = open_memstream(&text, &size);
    if (!page) return sia_fail_file(err, path);
    if (command)
        put_command_page(page, command);
    else
        put_program_page(page);
    sia_output *out;
    sia_status status = fclose(page) == 0 ? SIA_OK : sia_fail_file(err, path);
    if (!status) status = sia_output_open(&out, path, err);
    if (!status) {
        status = sia_output_write(out, text, size, err);
        if (!status)
            status = sia_output_commit(out, err);
        else
            sia_output_abandon(out);
    }
    free(text);
    return status;
}

static sia_status write_pages(const char *folder, sia_error *err) {
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) return sia_fail_file(err, folder);
    sia_status status = write_page(folder, NULL, err);
    for (const cli_command *const *command = cli_commands; *command && !status; command++)
        status = write_page(folder, *command, err);
    return status;
}

static int run(const cli_args *args) {
    char **words, name[128];
    int count = cli_operands(args, &words);
    sia_error err;
    if (cli_given(args, "out")) {
        if (count) return cli_usage(args, "%s: --out writes every page, want no command", words[0]);
        return write_pages(cli_text(args, "out"), &err) ? cli_fail(&err) : CLI_DONE;
    }
    if (count == 0) {
        put_program_page(stdout);
        return CLI_DONE;
    }
    (void)snprintf(name, sizeof name, "%s%s%s", words[0], count > 1 ? " " : "", count > 1 ? words[1] : "");
    cli_nearest best = {.typed = name};
    for (const cli_command *const *command = cli_commands; *command && count <= 2; command++) {
        if (strcmp((*command)->name, name) == 0) {
            put_command_page(stdout, *command);
            return CLI_DONE;
        }
        cli_consider(&best, (*command)->name);
    }
    if (best.name) return cli_usage(args, "unknown command '%s'; did you mean '%s'?", name, best.name);
    return cli_usage(args, "unknown command '%s'", name);
}

static const cli_option options[] = {
    {"out", CLI_TEXT, "FOLDER", NULL, "write the pages of all commands into this folder", 0, 0}, {0}};

const cli_command command_man = {
    .name = "man",
    .summary = "The man page of the program, or of a command",
    .examples = "  sia man data pack | man -l -\n"
                "  sia man --out man1              sia.1, sia-data-pack.1, ...\n",
    .operands = "[COMMAND]",
    .options = options,
    .notes = "An installation has the pages already: 'man sia', 'man sia-data-pack'.\n",
    .run = run,
};
