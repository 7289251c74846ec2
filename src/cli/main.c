/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <unistd.h>

#include "cli/options.h"

/* Texts and shards are mapped: one that is cut meanwhile, or whose disk fails, ends the program here. What it was writing
 * has no name yet, and goes with the next start. */
static void on_lost_page(int number) {
    static const char sentence[] =
        "sia: a file was cut while it was read, or cannot be read any more; what was saved is whole\n";
    ssize_t written = write(STDERR_FILENO, sentence, sizeof sentence - 1);
    (void)number, (void)written;
    _exit(CLI_FAILED);
}

int main(int argc, char **argv) {
    (void)signal(SIGBUS, on_lost_page);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow further is an error of write */
    return cli_main(argc, argv);
}
