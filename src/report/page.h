/* SPDX-License-Identifier: MIT
 *
 * Text that grows: what the report is written into before it goes to the disk in one piece.
 *
 *     sia_page page = {0};
 *     sia_page_add(&page, "<p>");
 *     sia_page_escape(&page, name);            any bytes: they cannot leave the text or the attribute
 *     sia_page_printf(&page, ", %d runs</p>", runs);
 *     if (page.failed) ...                     memory ran out somewhere on the way
 *     sia_page_free(&page);
 *
 * Failure is remembered, so that the code that writes a page need not ask after every line. */
#ifndef SIA_REPORT_PAGE_H
#define SIA_REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct sia_page {
    char *bytes; /* ended by 0 once something was added */
    size_t size, room;
    bool failed;
} sia_page;

void sia_page_free(sia_page *page);

/* Markup, as it is. */
void sia_page_add(sia_page *page, const char *text);
void sia_page_printf(sia_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text from outside, for an element or a quoted attribute: & < > " ' are written as references; control
 * characters, bytes that are no UTF-8 and the characters that turn the direction of writing are each replaced by
 * U+FFFD. */
void sia_page_escape(sia_page *page, const char *text);

/* Bytes for a data: address: all but letters, digits and - . _ ~ as %XX. */
void sia_page_percent(sia_page *page, const char *bytes, size_t count);

/* A number to read, with `digits` behind the point; a dash for what is no number; a true minus sign. Numbers
 * that would be long in this form are written as 1.2e+30. */
enum { SIA_NUMBER_TEXT = 40 };
const char *sia_number_text(double value, int digits, char text[SIA_NUMBER_TEXT]);
void sia_page_number(sia_page *page, double value, int digits);

/* The shortest text that reads back as the same double; "" for what is no number. For files and tables of
 * data. */
const char *sia_number_exact(double value, char text[SIA_NUMBER_TEXT]);

/* The same to read: six digits are enough, the download has all. Whole numbers are whole. */
const char *sia_number_shown(double value, char text[SIA_NUMBER_TEXT]);

#endif
