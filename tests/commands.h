/* SPDX-License-Identifier: MIT
 *
 * Tests of the program as a person calls it: a table of command lines, each with the exit code and the words
 * that must come out. Include cmocka first.
 *
 *     static const command_case cases[] = {{"$SIA info", 0, "kernels"}, ...};
 *     ...
 *     run_cases(cases, sizeof cases / sizeof *cases, NULL);
 *     ...
 *     return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
 *
 * Lines are run by sh in one new folder, in the order of the table; $SIA is the program. */
#ifndef SIA_TESTS_COMMANDS_H
#define SIA_TESTS_COMMANDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct command_case {
    const char *command;
    int code;
    const char *says; /* part of stdout and stderr together */
} command_case;

static char command_folder[] = "/tmp/sia-test-XXXXXX";

/* A path with spaces would be several words of a line: then $SIA is a link in the folder. */
static inline int open_command_folder(void **state) {
    (void)state;
    const char *program = getenv("SIA");
    if (!program) print_error("want the program's path in SIA\n");
    if (!program || !mkdtemp(command_folder)) return -1;
    char link[64];
    (void)snprintf(link, sizeof link, "%s/.sia", command_folder);
    return strchr(program, ' ') && (symlink(program, link) || setenv("SIA", link, 1)) ? -1 : 0;
}

static inline int close_command_folder(void **state) {
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", command_folder);
    return system(command);
}

/* The exit code, -1 when the shell was killed. */
static inline int run_command(const char *command, char *output, size_t room) {
    char line[2048];
    int length = snprintf(line, sizeof line, "cd %s; { %s; } 2>&1", command_folder, command);
    assert_true(length < (int)sizeof line);
    FILE *p = popen(line, "r");
    assert_non_null(p);
    size_t used = fread(output, 1, room - 1, p);
    output[used] = 0;
    int status = pclose(p);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs all, shows each that fails. wrong_after: looks at the folder after each line; not 0 is a failure;
 * NULL: no look. */
static inline void run_cases(const command_case *cases, size_t count, int (*wrong_after)(void)) {
    char output[65536];
    int failures = 0;
    for (size_t c = 0; c < count; c++) {
        int code = run_command(cases[c].command, output, sizeof output);
        bool wrong = wrong_after && wrong_after() != 0;
        if (code == cases[c].code && strstr(output, cases[c].says) && !wrong) continue;
        failures++;
        print_message("%s\n  exit code %d, want %d; want '%s' in:\n%s\n", cases[c].command, code,
                      cases[c].code, cases[c].says, output);
    }
    assert_int_equal(failures, 0);
}

#endif
