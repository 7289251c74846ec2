/* SPDX-License-Identifier: MIT
 *
 * A progress line on stderr, and the wish of a person to stop.
 *
 *     cli_progress progress;
 *     cli_progress_start(&progress, "encode", total_bytes, "MB", 1e6);
 *     while (...) {
 *         if (cli_stopped()) ...
 *         cli_progress_update(&progress, done_bytes);
 *     }
 *     cli_progress_end(&progress);
 *
 * On a terminal the line is drawn again in place, five times a second at most:
 *
 *     encode  [##########----------]  52%   20.8 of 40.0 MB   213 MB/s   0:03 left
 *
 * Elsewhere (a log file) it is a whole line every ten seconds; what takes less leaves no line at all. Colour
 * is used on terminals only, and not when NO_COLOR is set or TERM is dumb. */
#ifndef SIA_CLI_PROGRESS_H
#define SIA_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cli_progress {
    const char *what, *unit;
    double total, scale; /* total 0: not known, so no bar and no time left */
    double found;        /* of what is done, what was done before it started: it took none of the time */
    double started, drawn, last_line;
    int width; /* of what is on the line */
    bool quiet, terminal, colour;
    bool erases; /* the terminal knows how to clear a line */
} cli_progress;

/* total in single things; unit names scale of them ("MB", 1e6); "": only shares and times are shown. */
void cli_progress_start(cli_progress *progress, const char *what, double total, const char *unit,
                        double scale);
void cli_progress_update(cli_progress *progress, double done);
/* Makes room for other words; the next update draws it again. */
void cli_progress_clear(cli_progress *progress);
void cli_progress_end(cli_progress *progress); /* takes the line away; may be called again */

/* A line whose words change with the phase of the work. */
typedef struct cli_phases {
    cli_progress line;
    char what[96];
} cli_phases;

/* A sia_progress on a cli_phases: a new line for each phase; asks to stop when a person does. */
int cli_phases_show(void *context, const char *phase, double done);

/* For --quiet: no progress from any line of this process. */
void cli_progress_silence(void);

/* Seconds from a clock that only goes forward. */
double cli_seconds(void);

/* From now on Ctrl-C (SIGINT) and SIGTERM set a flag instead of ending the process, so that temporary files
 * are removed; a second one ends it at once. */
void cli_catch_stop(void);
bool cli_stopped(void);

#endif
