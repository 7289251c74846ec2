/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
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

/* A file that we open must not get the number of a stdin, stdout or stderr that is closed: what is printed would go into it.
 * So the number is taken, in a way in which it cannot be used: who prints to a stdout that is closed hears of it. */
static bool take_closed_numbers(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

int main(int argc, char **argv) {
    if (!take_closed_numbers()) return CLI_FAILED;
    (void)signal(SIGBUS, on_lost_page);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow further is an error of write */
    return cli_main(argc, argv);
}
