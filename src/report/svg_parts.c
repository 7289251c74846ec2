/* SPDX-License-Identifier: MIT
 *
 * Text, markers and frames of figures, and the choice of round numbers for an axis. */
#include "report/svg_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/svg.h"

/* ------------------------------------------------------------------------------------------------ text */

int sia_svg_letters(const char *text) {
    int count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

void sia_svg_open(sia_page *page, const sia_svg_size *size, double height, const char *title) {
    sia_page_printf(page, "<svg class=\"%s\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"",
                    size->class, size->width, ceil(height));
    sia_page_escape(page, title);
    sia_page_add(page, "\">\n");
}

void sia_svg_close(sia_page *page) { sia_page_add(page, "</svg>\n"); }

const char *sia_svg_at(double value, char text[SIA_NUMBER_TEXT]) {
    (void)snprintf(text, SIA_NUMBER_TEXT, "%.2f", value);
    char *end = text + strlen(text);
    while (end[-1] == '0') *--end = 0;
    if (end[-1] == '.') *--end = 0;
    return strcmp(text, "-0") == 0 ? "0" : text;
}

void sia_svg_text(sia_page *page, double x, double y, const char *anchor, int letters, const char *text) {
    char a[SIA_NUMBER_TEXT], b[SIA_NUMBER_TEXT];
    sia_page_printf(page, "<text x=\"%s\" y=\"%s\" text-anchor=\"%s\">", sia_svg_at(x, a), sia_svg_at(y, b),
                    anchor);
    if (sia_svg_letters(text) <= letters) {
        sia_page_escape(page, text);
    } else {
        size_t bytes = 0;
        for (int count = 0; count < letters && text[bytes]; count++) do
                bytes++;
            while (((unsigned char)text[bytes] & 0xc0) == 0x80);
        char *head = strndup(text, bytes);
        if (!head)
            page->failed = true;
        else
            sia_page_escape(page, head);
        free(head);
        sia_page_add(page, "\xe2\x80\xa6");
    }
    sia_page_add(page, "</text>\n");
}

/* ------------------------------------------------------------------------------------------------ styles */

/* Eight shapes and five dashes: 40 styles differ without colour. The shapes move on by one with each round of the
 * colours, so that two styles of one colour have different markers. */
enum { SHAPES = 8 };
static int shape_of(int style) { return (style + style / SVG_COLOURS) % SHAPES; }

const char *sia_svg_marker_tag(int style) { return shape_of(style) == 0 ? "circle" : "path"; }

void sia_svg_marker(sia_page *page, int style, double x, double y, double radius) {
    /* Relative to the middle, for a radius of 1; plus and cross are drawn as areas, so that one rule of
     * style fills every marker. */
    static const float shapes[SHAPES][25] = {
        {0}, /* a circle, below */
        {4, -.9F, -.9F, .9F, -.9F, .9F, .9F, -.9F, .9F},
        {3, 0, -1.15F, 1.1F, .8F, -1.1F, .8F},
        {4, 0, -1.25F, 1.25F, 0, 0, 1.25F, -1.25F, 0},
        {3, 0, 1.15F, 1.1F, -.8F, -1.1F, -.8F},
        {12,  -.4F, -1.2F, .4F,  -1.2F, .4F, -.4F,  1.2F, -.4F,  1.2F, .4F,  .4F, .4F,
         .4F, 1.2F, -.4F,  1.2F, -.4F,  .4F, -1.2F, .4F,  -1.2F, -.4F, -.4F, -.4F},
        {12,   -1.1F, -.6F, -.6F, -1.1F, 0,   -.5F, .6F,  -1.1F, 1.1F, -.6F, .5F, 0,
         1.1F, .6F,   .6F,  1.1F, 0,     .5F, -.6F, 1.1F, -1.1F, .6F,  -.5F, 0},
        {5, 0, -1.25F, 1.2F, -.35F, .75F, 1.05F, -.75F, 1.05F, -1.2F, -.35F},
    };
    char a[SIA_NUMBER_TEXT], b[SIA_NUMBER_TEXT];
    const float *shape = shapes[shape_of(style)];
    if (shape_of(style) == 0) {
        char r[SIA_NUMBER_TEXT];
        sia_page_printf(page, "<circle class=\"m\" cx=\"%s\" cy=\"%s\" r=\"%s\"", sia_svg_at(x, a),
                        sia_svg_at(y, b), sia_svg_at(radius, r));
        return;
    }
    sia_page_add(page, "<path class=\"m\" d=\"");
    for (int i = 0; i < (int)shape[0]; i++)
        sia_page_printf(page, "%s%s,%s", i ? "L" : "M", sia_svg_at(x + radius * (double)shape[1 + 2 * i], a),
                        sia_svg_at(y + radius * (double)shape[2 + 2 * i], b));
    sia_page_add(page, "z\"");
}

const char *sia_svg_dashes(int style) {
    static const char *const dashes[] = {"", "8 4", "2.5 3.5", "10 3 2.5 3", "5 3"};
    /* For one shape the rounds of colours have different dashes. */
    return dashes[(style / SVG_COLOURS + shape_of(style)) % 5];
}

/* ------------------------------------------------------------------------------------------------ ticks */

/* The largest of 1, 2, 5 times a power of ten that gives about `wanted` steps. */
static double round_step(double span, int wanted) {
    double raw = span / wanted, power = pow(10, floor(log10(raw)));
    double times = raw / power;
    return power * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}

static int linear_ticks(double least, double most, double ticks[SIA_TICKS]) {
    double step = round_step(most - least, 5);
    /* Whole multiples of the step, so that 0.1 + 0.2 does not add up to something else. */
    double first = ceil(least / step - 1e-9), last = floor(most / step + 1e-9);
    int count = 0;
    for (double k = first; k <= last && count < SIA_TICKS; k++) ticks[count++] = k == 0 ? 0 : k * step;
    return count;
}

static int log_ticks(double least, double most, double ticks[SIA_TICKS]) {
    double low = log10(least), high = log10(most);
    int count = 0, every = (int)ceil((high - low) / 8);
    bool fine = high - low < 3;
    static const double times[] = {1, 2, 5};
    for (int power = (int)floor(low); power <= (int)ceil(high); power++)
        for (int i = 0; i < (fine ? 3 : 1); i++) {
            double tick = times[i] * pow(10, power);
            bool inside = tick >= least * (1 - 1e-9) && tick <= most * (1 + 1e-9);
            if (inside && (fine || power % every == 0) && count < SIA_TICKS) ticks[count++] = tick;
        }
    return count;
}

int sia_ticks(double least, double most, bool log, double ticks[SIA_TICKS]) {
    if (!isfinite(least) || !isfinite(most) || least >= most || (log && least <= 0)) return 0;
    int count = log ? log_ticks(least, most, ticks) : 0;
    return count >= 2 ? count : linear_ticks(least, most, ticks);
}

const char *sia_tick_text(double value, double step, bool log, char text[SIA_NUMBER_TEXT]) {
    static const char *const raised[] = {"\xe2\x81\xb0", "\xc2\xb9",     "\xc2\xb2",     "\xc2\xb3",
                                         "\xe2\x81\xb4", "\xe2\x81\xb5", "\xe2\x81\xb6", "\xe2\x81\xb7",
                                         "\xe2\x81\xb8", "\xe2\x81\xb9"};
    if (log && value > 0) {
        double power = floor(log10(value) + 1e-9), times = value / pow(10, power);
        bool ten = fabs(times - 1) < 1e-6;
        bool plain = value < (ten ? 9999.5 : 99999.5) && value > 0.00099;
        if (plain || fabs(times - round(times)) > 1e-6 || fabs(power) > 99) {
            bool whole = value == floor(value) && value < 1e9;
            (void)snprintf(text, SIA_NUMBER_TEXT, whole ? "%.0f" : "%.5g", value);
            return text;
        }
        char head[8] = "10", digits[8];
        if (round(times) != 1)
            (void)snprintf(head, sizeof head,
                           "%.0f\xc2\xb7"
                           "10",
                           times);
        (void)snprintf(digits, sizeof digits, "%.0f", fabs(power));
        (void)snprintf(text, SIA_NUMBER_TEXT, "%s%s", head, power < 0 ? "\xe2\x81\xbb" : "");
        for (const char *d = digits; *d; d++)
            (void)snprintf(text + strlen(text), SIA_NUMBER_TEXT - strlen(text), "%s", raised[*d - '0']);
        return text;
    }
    double digits = step > 0 ? -floor(log10(step) + 1e-9) : 0;
    return sia_number_text(value, digits < 0 ? 0 : digits > 6 ? 6 : (int)digits, text);
}
