/* SPDX-License-Identifier: MIT
 *
 * Text that grows, and the ways in which text from outside gets into it. */
#include "report/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/harmless.h"
#include "base/memory.h"

void sia_page_free(sia_page *page) {
    free(page->bytes);
    *page = (sia_page){0};
}

/* Room for so many more bytes and the 0. A page that has failed stays as it is: what it has is ended by a 0. */
static bool reserve(sia_page *page, size_t more) {
    if (!page->failed && !sia_grow(&page->bytes, &page->room, page->size + more + 1, 1)) page->failed = true;
    return !page->failed;
}

static void add_bytes(sia_page *page, const char *bytes, size_t count) {
    if (!reserve(page, count)) return;
    memcpy(page->bytes + page->size, bytes, count);
    page->size += count;
    page->bytes[page->size] = 0;
}

void sia_page_add(sia_page *page, const char *text) { add_bytes(page, text, strlen(text)); }

void sia_page_printf(sia_page *page, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length < 0) page->failed = true;
    if (length >= 0 && reserve(page, (size_t)length)) {
        (void)vsnprintf(page->bytes + page->size, (size_t)length + 1, format, again);
        page->size += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

/* ------------------------------------------------------------------------------------------------ escaping */

/* Beside what is harmful: the numbers that Unicode gives to no character, which HTML does not allow. */
static bool may_stand(uint32_t c) {
    bool nothing = (c & 0xfffe) == 0xfffe || (c >= 0xfdd0 && c < 0xfdf0);
    return !nothing && !sia_is_harmful(c, "\t\n");
}

void sia_page_escape(sia_page *page, const char *text) {
    size_t left = strlen(text);
    for (const char *s = text; left;) {
        uint32_t c;
        int length = sia_utf8_character(s, left, &c);
        if (length <= 0 || !may_stand(c))
            sia_page_add(page, "\xef\xbf\xbd");
        else if (c == '&')
            sia_page_add(page, "&amp;");
        else if (c == '<')
            sia_page_add(page, "&lt;");
        else if (c == '>')
            sia_page_add(page, "&gt;");
        else if (c == '"')
            sia_page_add(page, "&quot;");
        else if (c == '\'')
            sia_page_add(page, "&#39;");
        else
            add_bytes(page, s, (size_t)length);
        size_t step = length > 0 ? (size_t)length : 1;
        s += step;
        left -= step;
    }
}

void sia_page_percent(sia_page *page, const char *bytes, size_t count) {
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("-._~", c));
        if (plain)
            add_bytes(page, bytes + i, 1);
        else
            add_bytes(page, (char[]){'%', digits[c >> 4], digits[c & 15]}, 3);
    }
}

/* ------------------------------------------------------------------------------------------------ numbers */

const char *sia_number_text(double value, int digits, char text[SIA_NUMBER_TEXT]) {
    char plain[SIA_NUMBER_TEXT - 4]; /* 1e9 and digits: 17 at most, and the minus sign is three bytes */
    if (!isfinite(value)) {
        (void)snprintf(text, SIA_NUMBER_TEXT, "\xe2\x80\x93");
        return text;
    }
    /* 0.0002 among numbers of three digits is 0.000; what is far smaller is said. */
    double size = fabs(value);
    if (size >= 1e9 || (size < pow(10, -digits - 3) && size > 0))
        (void)snprintf(plain, sizeof plain, "%.*e", digits < 3 ? digits : 3, size);
    else
        (void)snprintf(plain, sizeof plain, "%.*f", digits, size);
    (void)snprintf(text, SIA_NUMBER_TEXT, "%s%s", value < 0 ? "\xe2\x88\x92" : "", plain);
    return text;
}

void sia_page_number(sia_page *page, double value, int digits) {
    char text[SIA_NUMBER_TEXT];
    sia_page_add(page, sia_number_text(value, digits, text));
}

const char *sia_number_exact(double value, char text[SIA_NUMBER_TEXT]) {
    text[0] = 0;
    for (int digits = 6; isfinite(value) && digits <= 17; digits++) {
        (void)snprintf(text, SIA_NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return text;
}

const char *sia_number_shown(double value, char text[SIA_NUMBER_TEXT]) {
    text[0] = 0;
    bool whole = (value == trunc(value) || fabs(value) >= 1e5) && fabs(value) < 1e15;
    if (isfinite(value)) (void)snprintf(text, SIA_NUMBER_TEXT, whole ? "%.0f" : "%.6g", value);
    return text;
}
