/* SPDX-License-Identifier: MIT
 *
 * The page: head, sections, data under figures. */
#include "report/html.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "report/html_style.h"

/* So many rows are shown; the download has all of them. */
enum { ROWS_SHOWN = 200 };

/* ------------------------------------------------------------------------------------------------ data */

static struct sia_data_cell *next_cell(sia_data *data) {
    if (!sia_grow(&data->cells, &data->room, data->count + 1, sizeof *data->cells)) data->failed = true;
    if (data->failed) return NULL;
    data->cells[data->count] = (struct sia_data_cell){0};
    return &data->cells[data->count++];
}

void sia_data_text(sia_data *data, const char *text) {
    struct sia_data_cell *cell = next_cell(data);
    if (cell && !(cell->text = strdup(text))) data->failed = true;
}

void sia_data_number(sia_data *data, double number) {
    struct sia_data_cell *cell = next_cell(data);
    if (cell) cell->number = number;
}

void sia_data_free(sia_data *data) {
    for (size_t i = 0; i < data->count; i++) free(data->cells[i].text);
    free(data->cells);
    data->cells = NULL;
    data->count = data->room = 0;
}

static void csv_text(sia_page *out, const char *text) {
    bool formula = text[0] && strchr("=+-@\t\r", text[0]);
    sia_page_add(out, "\"");
    if (formula) sia_page_add(out, "'");
    for (const char *s = text; *s; s++) {
        char letter[3] = {*s, *s == '"' ? '"' : 0, 0};
        sia_page_add(out, letter);
    }
    sia_page_add(out, "\"");
}

void sia_data_csv(const sia_data *data, sia_page *out) {
    for (int i = 0; i < data->columns; i++) {
        if (i) sia_page_add(out, ",");
        csv_text(out, data->heads[i]);
    }
    for (size_t i = 0; data->columns && i < data->count; i++) {
        char text[SIA_NUMBER_TEXT];
        sia_page_add(out, i % (size_t)data->columns ? "," : "\r\n");
        if (data->cells[i].text)
            csv_text(out, data->cells[i].text);
        else
            sia_page_add(out, sia_number_exact(data->cells[i].number, text));
    }
    sia_page_add(out, "\r\n");
}

static void data_table(sia_page *page, const sia_data *data) {
    size_t columns = (size_t)data->columns, rows = columns ? data->count / columns : 0;
    sia_page_add(page, "<div class=\"scroll\"><table class=\"data\"><thead><tr>");
    for (size_t c = 0; c < columns; c++) {
        bool number = data->count > c && !data->cells[c].text;
        sia_page_add(page, number ? "<th class=\"n\" scope=\"col\">" : "<th scope=\"col\">");
        sia_page_escape(page, data->heads[c]);
        sia_page_add(page, "</th>");
    }
    sia_page_add(page, "</tr></thead>\n<tbody>\n");
    for (size_t r = 0; r < rows && r < ROWS_SHOWN; r++) {
        sia_page_add(page, "<tr>");
        for (size_t c = 0; c < columns; c++) {
            const struct sia_data_cell *cell = &data->cells[r * columns + c];
            char text[SIA_NUMBER_TEXT];
            sia_page_add(page, cell->text ? "<td>" : "<td class=\"n\">");
            if (cell->text)
                sia_page_escape(page, cell->text);
            else
                sia_page_add(page, sia_number_shown(cell->number, text));
            sia_page_add(page, "</td>");
        }
        sia_page_add(page, "</tr>\n");
    }
    sia_page_add(page, "</tbody></table></div>\n");
    if (rows > ROWS_SHOWN)
        sia_page_printf(page, "<p>The first %d of %zu rows; the download has all.</p>\n", ROWS_SHOWN, rows);
}

void sia_html_data(sia_page *page, sia_data *data, const char *file) {
    sia_page csv = {0};
    size_t rows = data->columns ? data->count / (size_t)data->columns : 0;
    sia_page_printf(page, "<details%s><summary>Data, %zu row%s</summary>\n", data->open ? " open" : "", rows,
                    rows == 1 ? "" : "s");
    if (data->columns) data_table(page, data);
    sia_data_csv(data, &csv);
    sia_page_printf(page, "<p><a download=\"%s\" href=\"data:text/csv;charset=utf-8,", file);
    if (csv.bytes) sia_page_percent(page, csv.bytes, csv.size);
    sia_page_printf(page, "\">Download as CSV</a></p></details>\n");
    page->failed = page->failed || csv.failed || data->failed;
    sia_page_free(&csv);
    sia_data_free(data);
}

/* ------------------------------------------------------------------------------------------------ page */

void sia_html_open(sia_page *page, const char *title) {
    sia_page_add(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" SIA_HTML_MARK "\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'unsafe-inline'; img-src data:\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"referrer\" content=\"no-referrer\">\n<link rel=\"icon\" href=\"data:,\">\n<title>");
    sia_page_escape(page, title);
    sia_page_add(page, "</title>\n<style>\n");
    sia_page_add(page, html_style);
    sia_page_add(page, "</style>\n</head>\n<body>\n<main>\n<h1>");
    sia_page_escape(page, title);
    sia_page_add(page, "</h1>\n");
}

void sia_html_close(sia_page *page) { sia_page_add(page, "</main>\n</body>\n</html>\n"); }

void sia_html_heading(sia_page *page, const char *title) {
    sia_page_add(page, "<h3>");
    sia_page_escape(page, title);
    sia_page_add(page, "</h3>\n");
}

void sia_html_figure_open(sia_page *page, const char *title, const char *note) {
    sia_page_add(page, "<figure>\n<figcaption>");
    sia_page_escape(page, title);
    if (note) {
        sia_page_add(page, " <span>");
        sia_page_escape(page, note);
        sia_page_add(page, "</span>");
    }
    sia_page_add(page, "</figcaption>\n");
}

void sia_html_figure_close(sia_page *page, sia_data *data, const char *file) {
    sia_html_data(page, data, file);
    sia_page_add(page, "</figure>\n");
}

void sia_html_pairs(sia_page *page, const sia_data *pairs) {
    /* Where memory ran out there may be none either: the page must know. */
    page->failed = page->failed || pairs->failed;
    if (!pairs->count) return;
    sia_page_add(page, "<div class=\"scroll\"><table class=\"long\"><tbody>\n");
    for (size_t i = 0; i + 1 < pairs->count; i += 2) {
        sia_page_add(page, "<tr><th scope=\"row\">");
        sia_page_escape(page, pairs->cells[i].text ? pairs->cells[i].text : "");
        sia_page_add(page, "</th><td>");
        sia_page_escape(page, pairs->cells[i + 1].text ? pairs->cells[i + 1].text : "");
        sia_page_add(page, "</td></tr>\n");
    }
    sia_page_add(page, "</tbody></table></div>\n");
}
