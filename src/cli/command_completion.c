/* SPDX-License-Identifier: MIT
 *
 * sia completion: what a shell needs to complete command lines of sia, made from the tables of commands and
 * options. The scripts hold everything; none of them calls sia. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/describe.h"

/* The words that a person may type first (NULL), or after the first word of a command of two. */
static void put_next_words(const char *first, int length) {
    bool any = false;
    for (const cli_command *const *command = cli_commands; *command; command++) {
        const char *name = (*command)->name;
        if (first && (cli_first_word(*command) != length || strncmp(name, first, (size_t)length) != 0))
            continue;
        if (!first && !cli_starts_group(command)) continue;
        printf("%s%.*s", any ? " " : "", first ? (int)strlen(name) : cli_first_word(*command),
               first ? cli_second_word(*command) : name);
        any = true;
    }
}

/* Calls `put` for every option of the command, --help too. */
static void each_option(const cli_command *command, void (*put)(const cli_command *, const cli_option *)) {
    for (const cli_option *option = command->options; option->name; option++) put(command, option);
    put(command, &cli_help_option);
}

/* -------------------------------------------------------------------------------------------------- bash */

static void bash_name(const cli_command *command, const cli_option *option) {
    (void)command;
    printf("--%s ", option->name);
}

static void bash_values(const cli_values *values) {
    switch (values->kind) {
    case CLI_VALUES_FREE:
        putchar(':');
        break;
    case CLI_VALUES_FILES:
        fputs("_sia_files \"$word\" -f", stdout);
        break;
    case CLI_VALUES_FOLDERS:
        fputs("_sia_files \"$word\" -d", stdout);
        break;
    case CLI_VALUES_COMMANDS:
        fputs("_sia_commands \"$word\" \"${said[@]:1}\"", stdout);
        break;
    case CLI_VALUES_WORDS:
        printf("%s \"$word\" '%s'", values->list ? "_sia_list" : "_sia_words", values->words);
        break;
    }
}

static void bash_option(const cli_command *command, const cli_option *option) {
    (void)command;
    if (option->kind == CLI_FLAG) return;
    cli_values values = cli_option_values(option);
    printf("        --%s) ", option->name);
    bash_values(&values);
    fputs("; return ;;\n", stdout);
}

static void bash_command(const cli_command *command) {
    printf("    '%s')\n        case $before in\n", command->name);
    each_option(command, bash_option);
    fputs("        esac\n        if [[ $word == -* ]]; then\n            _sia_words \"$word\" '", stdout);
    each_option(command, bash_name);
    fputs("'\n            return\n        fi\n        ", stdout);
    cli_values values = cli_operand_values(command);
    bash_values(&values);
    fputs(" ;;\n", stdout);
}

/* _sia_commands WORD SAID...: the words of commands that may follow those that were said. */
static void bash_commands(void) {
    fputs("_sia_commands() {\n    case $#:$2 in\n    1:) _sia_words \"$1\" '", stdout);
    put_next_words(NULL, 0);
    fputs("' ;;\n", stdout);
    for (const cli_command *const *command = cli_commands; *command; command++) {
        if (!cli_second_word(*command) || !cli_starts_group(command)) continue;
        printf("    2:%.*s) _sia_words \"$1\" '", cli_first_word(*command), (*command)->name);
        put_next_words((*command)->name, cli_first_word(*command));
        fputs("' ;;\n", stdout);
    }
    fputs("    esac\n}\n", stdout);
}

static void put_bash(void) {
    printf("# bash completion for sia %s; made by 'sia completion bash'.\n\n", sia_version());
    fputs("# $1: the word so far; the others: the candidates, as compgen wants them.\n"
          "_sia_reply() { mapfile -t COMPREPLY < <(compgen \"${@:2}\" -- \"$1\"); }\n"
          "_sia_words() { _sia_reply \"$1\" -W \"$2\"; }\n"
          "_sia_files() { _sia_reply \"$1\" \"$2\"; compopt -o filenames 2>/dev/null; }\n"
          "# Words with commas between them: the last one is completed.\n"
          "_sia_list() {\n"
          "    _sia_reply \"${1##*,}\" -P \"${1%\"${1##*,}\"}\" -W \"$2\"\n"
          "    compopt -o nospace 2>/dev/null\n"
          "}\n",
          stdout);
    bash_commands();
    fputs("_sia() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command\n"
          "    local -a said=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n"
          "    COMPREPLY=()\n"
          "    # --name=value comes as three words.\n"
          "    if [[ $word == = ]]; then\n"
          "        word=\n"
          "    elif [[ $before == = ]]; then\n"
          "        before=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    if ((${#said[@]} == 0)) && [[ $word == -* ]]; then\n"
          "        _sia_words \"$word\" '--help --version'\n"
          "        return\n"
          "    fi\n"
          "    case ${said[0]-} in\n"
          "    '') _sia_commands \"$word\"; COMPREPLY+=($(compgen -W help -- \"$word\")); return ;;\n"
          "    help) _sia_commands \"$word\" \"${said[@]:1}\"; return ;;\n",
          stdout);
    for (const cli_command *const *command = cli_commands; *command; command++)
        if (cli_second_word(*command) && cli_starts_group(command))
            printf(
                "    %.*s)\n        if ((${#said[@]} == 1)); then\n            _sia_commands \"$word\" "
                "\"${said[0]}\"\n            return\n        fi\n        command=\"${said[0]} ${said[1]}\" "
                ";;\n",
                cli_first_word(*command), (*command)->name);
    fputs("    *) command=${said[0]} ;;\n    esac\n    case $command in\n", stdout);
    for (const cli_command *const *command = cli_commands; *command; command++) bash_command(*command);
    fputs("    esac\n}\ncomplete -F _sia sia\n", stdout);
}

/* --------------------------------------------------------------------------------------------------- zsh */

/* Inside a specification of _arguments, which is in single quotes: its own signs get a backslash. */
static void zsh_put(const char *text, const char *special) {
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
            continue;
        }
        if (strchr(special, *text)) putchar('\\');
        putchar(*text);
    }
}

static void zsh_values(const char *argument, const cli_values *values) {
    putchar(':');
    zsh_put(argument, "\\:[]");
    switch (values->kind) {
    case CLI_VALUES_FREE:
        fputs(": ", stdout);
        break;
    case CLI_VALUES_FILES:
        fputs(":_files", stdout);
        break;
    case CLI_VALUES_FOLDERS:
        fputs(":_files -/", stdout);
        break;
    case CLI_VALUES_COMMANDS:
        fputs(":_sia_commands", stdout);
        break;
    case CLI_VALUES_WORDS:
        printf(values->list ? ":_sequence compadd - %s" : ":(%s)", values->words);
        break;
    }
}

static void zsh_option(const cli_command *command, const cli_option *option) {
    (void)command;
    printf(" \\\n            '--%s%s[", option->name, option->kind == CLI_FLAG ? "" : "=");
    zsh_put(option->help, "\\[]");
    putchar(']');
    if (option->kind != CLI_FLAG) {
        cli_values values = cli_option_values(option);
        zsh_values(option->argument, &values);
    }
    putchar('\'');
}

static void zsh_command(const cli_command *command) {
    bool two = cli_second_word(command) != NULL;
    /* _arguments takes the first of its words for the command. */
    printf("    '%s')\n        shift %d words; (( CURRENT -= %d ))\n        _arguments", command->name,
           two ? 2 : 1, two ? 2 : 1);
    each_option(command, zsh_option);
    if (command->operands) {
        cli_values values = cli_operand_values(command);
        fputs(" \\\n            '*", stdout);
        zsh_values(command->operands, &values);
        putchar('\'');
    }
    fputs(" ;;\n", stdout);
}

/* One line for _describe: 'word:what it does'. */
static void zsh_describe(const char *word, int length, const char *what) {
    printf("\n            '%.*s:", length, word);
    zsh_put(what, "\\:");
    putchar('\'');
}

static void zsh_first_words(void) {
    for (const cli_command *const *command = cli_commands; *command; command++) {
        if (!cli_starts_group(command)) continue;
        const char *name = (*command)->name;
        if (!cli_second_word(*command)) {
            zsh_describe(name, cli_first_word(*command), (*command)->summary);
            continue;
        }
        printf("\n            '%.*s:", cli_first_word(*command), name);
        put_next_words(name, cli_first_word(*command));
        putchar('\'');
    }
}

/* The words of commands that may follow words[2 .. CURRENT-1], whatever stands in words[1]. */
static void zsh_commands(void) {
    fputs("_sia_commands() {\n    local -a list\n    case $CURRENT:$words[2] in\n    2:*)\n        list=(",
          stdout);
    zsh_first_words();
    fputs(") ;;\n", stdout);
    for (const cli_command *const *group = cli_commands; *group; group++) {
        int length = cli_first_word(*group);
        if (!cli_second_word(*group) || !cli_starts_group(group)) continue;
        printf("    3:%.*s)\n        list=(", length, (*group)->name);
        for (const cli_command *const *command = group; *command; command++)
            if (cli_first_word(*command) == length &&
                strncmp((*command)->name, (*group)->name, (size_t)length) == 0)
                zsh_describe(cli_second_word(*command), (int)strlen(cli_second_word(*command)),
                             (*command)->summary);
        fputs(") ;;\n", stdout);
    }
    fputs("    esac\n    (( $#list )) && _describe -t commands 'sia command' list\n}\n", stdout);
}

static void put_zsh(void) {
    printf("#compdef sia\n# zsh completion for sia %s; made by 'sia completion zsh'.\n\n", sia_version());
    zsh_commands();
    fputs("_sia() {\n"
          "    local curcontext=$curcontext command\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _sia_commands\n"
          "        compadd -- help\n"
          "        [[ $words[2] == -* ]] && compadd -- --help --version\n"
          "        return\n"
          "    fi\n"
          "    case $words[2] in\n"
          "    help) shift words; (( CURRENT -= 1 )); _sia_commands; return ;;\n",
          stdout);
    for (const cli_command *const *command = cli_commands; *command; command++)
        if (cli_second_word(*command) && cli_starts_group(command))
            printf("    %.*s)\n        if (( CURRENT == 3 )); then\n            _sia_commands\n            "
                   "return\n        fi\n        command=\"$words[2] $words[3]\" ;;\n",
                   cli_first_word(*command), (*command)->name);
    fputs("    *) command=$words[2] ;;\n    esac\n    case $command in\n", stdout);
    for (const cli_command *const *command = cli_commands; *command; command++) zsh_command(*command);
    fputs("    esac\n}\n\n"
          "# Loaded by its name from a folder of fpath, or read with source.\n"
          "if [[ $funcstack[1] == _sia ]]; then\n    _sia \"$@\"\nelse\n    compdef _sia sia\nfi\n",
          stdout);
}

/* -------------------------------------------------------------------------------------------------- fish */

/* In single quotes, as fish reads them back. */
static void fish_quoted(const char *text) {
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') putchar('\\');
        putchar(*text);
    }
    putchar('\'');
}

static void fish_start(const char *condition, const char *words) {
    printf("complete -c sia -n '%s%s%s'", condition, *words ? " " : "", words);
}

static void fish_values(const cli_values *values, const char *files) {
    switch (values->kind) {
    case CLI_VALUES_FREE:
        break;
    case CLI_VALUES_FILES:
        fputs(files, stdout);
        break;
    case CLI_VALUES_FOLDERS:
        fputs(" -a '(__fish_complete_directories)'", stdout);
        break;
    case CLI_VALUES_COMMANDS:
        break; /* fish_next says it for the command man */
    case CLI_VALUES_WORDS:
        printf(values->list ? " -a '(__sia_list %s)'" : " -a '%s'", values->words);
        break;
    }
}

static void fish_option(const cli_command *command, const cli_option *option) {
    fish_start("__sia_said", command->name);
    printf(" -l %s", option->name);
    if (option->kind != CLI_FLAG) {
        cli_values values = cli_option_values(option);
        fputs(values.kind == CLI_VALUES_FILES ? " -r" : " -x", stdout);
        fish_values(&values, " -F");
    }
    fputs(" -d ", stdout);
    fish_quoted(option->help);
    putchar('\n');
}

static void fish_command(const cli_command *command) {
    each_option(command, fish_option);
    cli_values values = cli_operand_values(command);
    if (values.kind == CLI_VALUES_FREE || values.kind == CLI_VALUES_COMMANDS) return;
    fish_start("__sia_said", command->name);
    fish_values(&values, " -F");
    putchar('\n');
}

/* The words of commands after `before` ("help", or nothing). */
static void fish_next(const char *before) {
    for (const cli_command *const *command = cli_commands; *command; command++) {
        const char *name = (*command)->name, *second = cli_second_word(*command);
        if (cli_starts_group(command)) {
            fish_start("__sia_next", before);
            printf(" -a %.*s", cli_first_word(*command), name);
            if (!second) {
                fputs(" -d ", stdout);
                fish_quoted((*command)->summary);
            }
            putchar('\n');
        }
        if (!second) continue;
        printf("complete -c sia -n '__sia_next %s%s%.*s' -a %s -d ", before, *before ? " " : "",
               cli_first_word(*command), name, second);
        fish_quoted((*command)->summary);
        putchar('\n');
    }
}

static void put_fish(void) {
    printf("# fish completion for sia %s; made by 'sia completion fish'.\n\n", sia_version());
    fputs("# What was said so far starts with these words.\n"
          "function __sia_said\n"
          "    set -l said (commandline -opc)\n"
          "    string match -q -- \"$argv *\" \"$said[2..-1] \"\n"
          "end\n"
          "# What was said so far is these words.\n"
          "function __sia_next\n"
          "    set -l said (commandline -opc)\n"
          "    test \"$said\" = (string join ' ' -- $said[1] $argv)\n"
          "end\n"
          "# Words with commas between them: the last one is completed.\n"
          "function __sia_list\n"
          "    set -l start (commandline -ct | string replace -r '^--[^=]*=' '' | string match -r '^.*,')\n"
          "    printf '%s\\n' \"$start\"$argv\n"
          "end\n\n"
          "complete -c sia -f\n"
          "complete -c sia -n __sia_next -l help -d 'list the commands'\n"
          "complete -c sia -n __sia_next -l version -d 'name the build'\n"
          "complete -c sia -n __sia_next -a help -d 'the help of a command'\n",
          stdout);
    fish_next("");
    fish_next("help");
    for (const cli_command *const *command = cli_commands; *command; command++) {
        fish_command(*command);
        if (cli_operand_values(*command).kind == CLI_VALUES_COMMANDS) fish_next((*command)->name);
    }
}

/* ----------------------------------------------------------------------------------------------- command */

static int run(const cli_args *args) {
    static const struct {
        const char *name;
        void (*put)(void);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    char **words;
    int count = cli_operands(args, &words);
    if (count != 1) return cli_usage(args, "want one shell: bash, zsh or fish");
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(words[0], shells[i].name) == 0) {
            shells[i].put();
            return CLI_DONE;
        }
    return cli_usage(args, "%s: want bash, zsh or fish", words[0]);
}

static const cli_option options[] = {{0}};

const cli_command command_completion = {
    .name = "completion",
    .summary = "Completion of sia's command lines, for bash, zsh or fish",
    .examples = "  source <(sia completion bash)            in ~/.bashrc\n"
                "  source <(sia completion zsh)             in ~/.zshrc, after compinit\n"
                "  sia completion fish | source             in ~/.config/fish/config.fish\n",
    .operands = "bash|zsh|fish",
    .options = options,
    .notes = "An installation puts the scripts where the shells look for them.\n",
    .run = run,
};
