/* SPDX-License-Identifier: MIT
 *
 * The progress line, and Ctrl-C. */
#define _GNU_SOURCE
#include "cli/progress.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { BAR = 24, LINE = 160 };
static const double redraw_seconds = 0.2, line_seconds = 10;

static bool silenced;
static volatile sig_atomic_t stop_signal;

/* ----------------------------------------------------------------------------------------------- stopping */

static void on_signal(int signal_number) {
    stop_signal = signal_number;
    /* The second time we do not answer: the person means it. */
    struct sigaction plain = {.sa_handler = SIG_DFL};
    (void)sigaction(signal_number, &plain, NULL);
}

void cli_catch_stop(void) {
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    const int signals[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        /* What the shell set to be ignored (nohup, a job in the background) stays ignored. */
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN) continue;
        (void)sigaction(signals[i], &action, NULL);
    }
}

bool cli_stopped(void) { return stop_signal != 0; }

/* ----------------------------------------------------------------------------------------------- the line */

double cli_seconds(void) { return sia_seconds(); }

void cli_progress_silence(void) { silenced = true; }

static bool knows_escapes(void) {
    const char *term = getenv("TERM");
    return term && *term && strcmp(term, "dumb") != 0;
}

static bool wants_colour(void) {
    const char *no = getenv("NO_COLOR");
    return !(no && *no) && knows_escapes();
}

void cli_progress_start(cli_progress *progress, const char *what, double total, const char *unit,
                        double scale) {
    double now = cli_seconds();
    *progress = (cli_progress){.what = what,
                               .unit = unit,
                               .total = total,
                               .scale = scale,
                               .started = now,
                               .drawn = now,
                               .last_line = now,
                               .quiet = silenced,
                               .terminal = isatty(STDERR_FILENO) == 1};
    progress->colour = progress->terminal && wants_colour();
    progress->erases = progress->terminal && knows_escapes();
}

static int columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

typedef struct line {
    char text[LINE];
    int used;
} line;

static void put(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(line *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(l->text + l->used, sizeof l->text - (size_t)l->used, format, arguments);
    va_end(arguments);
    if (n > 0) l->used = l->used + n < LINE ? l->used + n : LINE - 1;
}

static void put_time(line *l, double seconds) {
    long s = (long)(seconds + 0.5);
    if (s >= 3600)
        put(l, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        put(l, "%ld:%02ld", s / 60, s % 60);
}

/* Three digits, whatever the size. */
static void put_number(line *l, double value) {
    put(l,
        value < 10    ? "%.2f"
        : value < 100 ? "%.1f"
                      : "%.0f",
        value); // NOLINT(clang-diagnostic-format-nonliteral)
}

/* Of single things only whole ones count: nobody wants 7.68 rounds. */
static void put_amount(const cli_progress *progress, line *l, double amount) {
    if (progress->scale == 1)
        put(l, "%.0f", floor(amount));
    else
        put_number(l, amount / progress->scale);
}

/* A unit "" means that the share says it all: then only the time left stands here. */
static void put_facts(const cli_progress *progress, line *l, double done, double elapsed, bool brief) {
    double own = done - progress->found;
    bool early = elapsed < 0.5 || own <= 0;
    const char *gap = brief ? "  " : "   ";
    if (*progress->unit && !(brief && early)) {
        if (!brief) {
            put(l, "  ");
            put_amount(progress, l, done);
            if (progress->total > 0) {
                put(l, " of ");
                put_amount(progress, l, progress->total);
            }
            put(l, " %s", progress->unit);
        }
        if (early) return;
        put(l, "%s", gap);
        put_number(l, own / progress->scale / elapsed);
        put(l, " %s/s", progress->unit);
    }
    if (early || progress->total <= 0) return;
    put(l, "%s", gap);
    put_time(l, (progress->total - done) * elapsed / own);
    put(l, " left");
}

/* The bar is left out where the facts would not fit beside it; on a narrow terminal the share and the amounts
 * too, so that the rate and the time left are seen. */
static void draw(cli_progress *progress, double done, double elapsed) {
    line l = {.used = 0}, facts = {.used = 0};
    put_facts(progress, &facts, done, elapsed, false);
    double share = progress->total > 0 ? done / progress->total : 0;
    int filled = (int)(share * BAR), room = columns() - 1, name = (int)strlen(progress->what) + 2;
    if (progress->total > 0 && name + BAR + 7 + facts.used <= room)
        put(&l, "[%.*s%.*s] ", filled, "########################", BAR - filled, "------------------------");
    bool brief = progress->total > 0 && name + 4 + facts.used > room;
    if (brief)
        put_facts(progress, &l, done, elapsed, true);
    else {
        if (progress->total > 0) put(&l, "%3.0f%%", 100 * share);
        put(&l, "%s", facts.text);
    }
    int shown = name + l.used < room ? l.used : room > name ? room - name : 0;
    fprintf(stderr, "\r%s%s%s  %.*s%*s", progress->colour ? "\x1b[1m" : "", progress->what,
            progress->colour ? "\x1b[0m" : "", shown, l.text,
            progress->width > name + shown ? progress->width - name - shown : 0, "");
    progress->width = name + shown;
    (void)fflush(stderr);
}

void cli_progress_update(cli_progress *progress, double done) {
    if (progress->quiet) return;
    double now = cli_seconds(), elapsed = now - progress->started;
    if (progress->total > 0 && done > progress->total) done = progress->total;
    if (progress->terminal) {
        if (now - progress->drawn < redraw_seconds) return;
        progress->drawn = now;
        draw(progress, done, elapsed);
        return;
    }
    if (now - progress->last_line < line_seconds) return;
    progress->last_line = now;
    line l = {.used = 0};
    if (progress->total > 0) put(&l, " %3.0f%%", 100 * done / progress->total);
    put_facts(progress, &l, done, elapsed, false);
    fprintf(stderr, "%s%s\n", progress->what, l.text);
}

/* The "^C" with which a terminal answers to Ctrl-C stands behind the line, and goes with it. */
void cli_progress_clear(cli_progress *progress) {
    enum { ANSWER = 2 };
    if (progress->width) {
        int room = columns() - 1, wide = progress->width + ANSWER < room ? progress->width + ANSWER : room;
        if (progress->erases)
            fputs("\r\x1b[K", stderr);
        else
            fprintf(stderr, "\r%*s\r", wide, "");
        (void)fflush(stderr);
    }
    progress->width = 0;
}

void cli_progress_end(cli_progress *progress) {
    cli_progress_clear(progress);
    progress->quiet = true;
}

int cli_phases_show(void *context, const char *phase, double done) {
    cli_phases *p = context;
    if (strcmp(p->what, phase) != 0) {
        cli_progress_end(&p->line);
        (void)snprintf(p->what, sizeof p->what, "%s", phase);
        cli_progress_start(&p->line, p->what, 100, "", 1);
    }
    cli_progress_update(&p->line, 100 * done);
    return cli_stopped();
}
