/* SPDX-License-Identifier: MIT
 *
 * The page around the figures: head and style, sections, tables of data with a download, figures.
 *
 *     sia_html_open(page, "Ten schemes under one budget");
 *     sia_html_heading(page, "Loss by length");
 *     sia_html_figure_open(page, "Loss against length", "Mean over seeds.");
 *     sia_svg_lines(page, &figure);
 *     sia_html_figure_close(page, &data, "loss.csv");
 *     sia_html_close(page);
 *
 * The page is one file. It has no script and asks for nothing: its content security policy forbids both. */
#ifndef SIA_REPORT_HTML_H
#define SIA_REPORT_HTML_H

#include <stdbool.h>
#include <stddef.h>

#include "report/page.h"

/* ------------------------------------------------------------------------------------------------ data */

enum { SIA_DATA_COLUMNS = 12 };

/* A table that is filled cell by cell, row after row. Text is copied. */
typedef struct sia_data {
    const char *heads[SIA_DATA_COLUMNS];
    int columns;
    struct sia_data_cell {
        char *text; /* NULL: a number */
        double number;
    } * cells;
    size_t count, room;
    bool open; /* the table is shown without a click */
    bool failed;
} sia_data;

void sia_data_text(sia_data *data, const char *text);
void sia_data_number(sia_data *data, double number); /* not a number: an empty cell */
void sia_data_free(sia_data *data);

/* RFC 4180: fields in quotes where they need it, lines ended by CR LF. A text that a spreadsheet would take for
 * a formula gets an apostrophe in front. */
void sia_data_csv(const sia_data *data, sia_page *out);

/* ------------------------------------------------------------------------------------------------ page */

/* In the head of a page: by this it is known as ours. */
#define SIA_HTML_MARK "<meta name=\"generator\" content=\"sia\">"

void sia_html_open(sia_page *page, const char *title);
void sia_html_close(sia_page *page);

/* <h3>; the title is escaped. */
void sia_html_heading(sia_page *page, const char *title);

/* title and note are escaped; note may be NULL. file: what a download is called. Frees data. */
void sia_html_figure_open(sia_page *page, const char *title, const char *note);
void sia_html_figure_close(sia_page *page, sia_data *data, const char *file);

/* The folded table of data with its download, by itself. Frees data. */
void sia_html_data(sia_page *page, sia_data *data, const char *file);

/* A table of two columns from pairs of texts, rows = count / 2; nothing for none. */
void sia_html_pairs(sia_page *page, const sia_data *pairs);

#endif
