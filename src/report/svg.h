/* SPDX-License-Identifier: MIT
 *
 * Figures as SVG inside of a page of HTML: lines with markers, heat maps, bars.
 *
 *     double x[] = {256, 1024}, y[] = {3.67, 3.66};
 *     sia_series series[] = {{.name = "si+prope", .x = x, .y = y, .count = 2}};
 *     sia_figure figure = {.title = "Loss against length", .x = {"length, tokens", .log = true},
 *                          .y = {"loss, nats a token"}, .series = series, .series_count = 1};
 *     sia_svg_lines(page, &figure);
 *
 * Text stays text. Colours are variables of the page's style (html_style.h), so that light, dark and print
 * each have their own; a series also has its own marker and dashes, so that colour is never all there is. Every
 * name is escaped. A value that is no number, or that a logarithm does not have, leaves a gap.
 *
 * Sizes are in units of the viewBox, which the page scales. Two widths: wide figures fill a column and get
 * larger letters on a narrow screen (the layout leaves room for these), small ones stand side by side. */
#ifndef SIA_REPORT_SVG_H
#define SIA_REPORT_SVG_H

#include <stdbool.h>
#include <stddef.h>

#include "report/page.h"

typedef struct sia_axis {
    const char *label; /* with the unit */
    bool log;
    bool fixed;          /* the axis also takes in least and most */
    double least, most;  /* when fixed */
    const double *ticks; /* ascending, or NULL: round numbers are chosen */
    int tick_count;
} sia_axis;

typedef struct sia_series {
    const char *name;
    const double *x, *y;
    const double *error; /* bars of y - error .. y + error; NULL or not a number: none */
    size_t count;
    int style;  /* 0, 1, ...: colour, marker and dashes */
    bool loose; /* points without a line */
} sia_series;

typedef struct sia_figure {
    const char *title; /* for those who hear the page; the page itself shows it above the figure */
    sia_axis x, y;
    const sia_series *series;
    int series_count;
    bool small;
    bool diagonal; /* y = x, thin */
} sia_figure;

void sia_svg_lines(sia_page *page, const sia_figure *figure);

/* Of a long series every sia_svg_stride(count)-th point is drawn. */
size_t sia_svg_stride(size_t count);

/* values[row][column] in least .. most, written into the cells and shown by shade; not a number: an empty
 * cell. Rows go downwards. */
typedef struct sia_heat {
    const char *title, *x_label, *y_label;
    const char *const *column_names, *const *row_names;
    const double *values;
    int columns, rows;
    double least, most;
    bool percent; /* 0.97 is written as 97 */
} sia_heat;

void sia_svg_heat(sia_page *page, const sia_heat *heat);

/* A bar for each name from 0 to its value, with the value written behind it. */
typedef struct sia_bars {
    const char *title, *label; /* label: what the values are, with the unit */
    const char *const *names;
    const int *styles;
    const double *values, *errors; /* errors: NULL or not a number: none */
    int count, digits;
} sia_bars;

void sia_svg_bars(sia_page *page, const sia_bars *bars);

/* Round numbers in least .. most, ascending: steps of 1, 2 or 5 times a power of ten, or on a logarithmic axis
 * powers of ten and, where they are few, 2 and 5 times these. Returns how many. */
enum { SIA_TICKS = 16 };
int sia_ticks(double least, double most, bool log, double ticks[SIA_TICKS]);

/* A tick's label: with the digits that the step needs, or 10 to a power in superscript. */
const char *sia_tick_text(double value, double step, bool log, char text[SIA_NUMBER_TEXT]);

#endif
