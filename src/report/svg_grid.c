/* SPDX-License-Identifier: MIT
 *
 * Heat maps and bars. The value is written into each cell and behind each bar, so that neither needs its colour to
 * be read. */
#include "report/svg.h"

#include <math.h>
#include <stdio.h>

#include "report/svg_parts.h"

enum { NAME_LETTERS = 18, BAR_LETTERS = 30 };

static double names_room(const char *const *names, int count, int most, const sia_svg_size *size) {
    int longest = 1;
    for (int i = 0; i < count; i++) {
        int letters = sia_svg_letters(names[i]);
        if (letters > longest) longest = letters;
    }
    return (longest > most ? most + 1 : longest) * size->letter + 10;
}

static void draw_box(sia_page *page, const char *class, double x, double y, double width, double height) {
    char a[SIA_NUMBER_TEXT], b[SIA_NUMBER_TEXT], c[SIA_NUMBER_TEXT], d[SIA_NUMBER_TEXT];
    sia_page_printf(page, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"", class,
                    sia_svg_at(x, a), sia_svg_at(y, b), sia_svg_at(width, c), sia_svg_at(height, d));
}

/* ------------------------------------------------------------------------------------------------ heat map */

static double shade(const sia_heat *h, double value) {
    double share = h->most > h->least ? (value - h->least) / (h->most - h->least) : 0;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static const char *cell_text(const sia_heat *h, double value, char text[SIA_NUMBER_TEXT]) {
    if (h->percent) return sia_number_text(100 * value, 0, text);
    return sia_number_text(value, h->columns > 8 ? 1 : 2, text);
}

static void draw_cell(sia_page *page, const sia_heat *h, double value, double x, double y, double width,
                      double height) {
    char text[SIA_NUMBER_TEXT];
    if (!isfinite(value)) {
        draw_box(page, "n", x, y, width, height);
        sia_page_add(page, "/>\n");
        return;
    }
    double dark = shade(h, value);
    draw_box(page, "h", x, y, width, height);
    sia_page_printf(page, " fill-opacity=\"%s\"/>\n", sia_svg_at(dark, text));
    cell_text(h, value, text);
    if (width < 7.4 * sia_svg_letters(text)) return; /* no room: the shade and the table below say it */
    sia_page_printf(page, "<g class=\"%s\">", dark > 0.55 ? "i" : "o");
    sia_svg_text(page, x + width / 2, y + height / 2 + 4.5, "middle", 12, text);
    sia_page_add(page, "</g>\n");
}

/* What the shades mean: six steps from the least to the most. */
static void draw_shades(sia_page *page, const sia_heat *h, const sia_svg_size *size, double left,
                        double top) {
    enum { STEPS = 6 };
    char text[SIA_NUMBER_TEXT];
    const char *unit = h->percent ? " %" : "";
    char low[SIA_NUMBER_TEXT + 8], high[SIA_NUMBER_TEXT + 8];
    (void)snprintf(low, sizeof low, "%s%s", cell_text(h, h->least, text), unit);
    (void)snprintf(high, sizeof high, "%s%s", cell_text(h, h->most, text), unit);
    double at = left + sia_svg_letters(low) * size->letter + 6;
    sia_svg_text(page, left, top + 12, "start", 20, low);
    for (int i = 0; i < STEPS; i++) {
        draw_box(page, "h", at + 20 * i, top + 1, 20, 13);
        sia_page_printf(page, " fill-opacity=\"%s\"/>\n", sia_svg_at((double)i / (STEPS - 1), text));
    }
    sia_svg_text(page, at + 20 * STEPS + 6, top + 12, "start", 20, high);
}

void sia_svg_heat(sia_page *page, const sia_heat *h) {
    const sia_svg_size *size = &sia_svg_small;
    double left = names_room(h->row_names, h->rows, NAME_LETTERS, size), top = size->line * 1.35;
    double width = (size->width - left) / (h->columns > 0 ? h->columns : 1), height = 30;
    double bottom = top + height * h->rows, shades = bottom + size->line * 2.6;
    sia_svg_open(page, size, shades + size->line, h->title);
    sia_svg_text(page, 0, size->line * 0.75, "start", 60, h->y_label);
    for (int row = 0; row < h->rows; row++) {
        double y = top + height * row;
        sia_svg_text(page, left - 8, y + height / 2 + 5, "end", NAME_LETTERS, h->row_names[row]);
        for (int column = 0; column < h->columns; column++)
            draw_cell(page, h, h->values[row * h->columns + column], left + width * column, y, width, height);
    }
    double free_from = 0;
    for (int column = 0; column < h->columns; column++) {
        double at = left + width * (column + 0.5);
        double half = sia_svg_letters(h->column_names[column]) * size->letter / 2;
        if (at - half < free_from) continue;
        sia_svg_text(page, at, bottom + size->line * 0.85, "middle", NAME_LETTERS, h->column_names[column]);
        free_from = at + half + 4;
    }
    sia_svg_text(page, (left + size->width) / 2, bottom + size->line * 1.9, "middle", 60, h->x_label);
    draw_shades(page, h, size, left, shades);
    sia_svg_close(page);
}

/* ------------------------------------------------------------------------------------------------ bars */

void sia_svg_bars(sia_page *page, const sia_bars *b) {
    const sia_svg_size *size = &sia_svg_wide;
    char text[SIA_NUMBER_TEXT];
    double longest = 0, height = size->line + 5, top = size->line * 1.35;
    for (int i = 0; i < b->count; i++)
        if (isfinite(b->values[i]) && fabs(b->values[i]) < 1e100) longest = fmax(longest, b->values[i]);
    double left = names_room(b->names, b->count, BAR_LETTERS, size),
           room = size->width - left - 16 * size->letter;
    sia_svg_open(page, size, top + height * b->count + 4, b->title);
    sia_svg_text(page, 0, size->line * 0.75, "start", 60, b->label);
    for (int i = 0; i < b->count; i++) {
        double y = top + height * i, value = b->values[i];
        bool drawn = isfinite(value) && value >= 0 && value <= longest && longest > 0;
        double end = left + (drawn ? room * value / longest : 0);
        sia_svg_text(page, left - 8, y + height / 2 + 5, "end", BAR_LETTERS, b->names[i]);
        if (drawn) {
            sia_page_printf(page, "<g class=\"c%d\">", b->styles[i] % SVG_COLOURS);
            draw_box(page, "b", left, y + 4, end - left, height - 8);
            sia_page_add(page, "/></g>\n");
        }
        char label[3 * SIA_NUMBER_TEXT];
        bool error = b->errors && isfinite(b->errors[i]);
        char spread[SIA_NUMBER_TEXT];
        (void)snprintf(label, sizeof label, "%s%s%s", sia_number_text(value, b->digits, text),
                       error ? " \xc2\xb1 " : "",
                       error ? sia_number_text(b->errors[i], b->digits, spread) : "");
        sia_svg_text(page, end + 8, y + height / 2 + 5, "start", 30, label);
    }
    sia_page_printf(page, "<path class=\"a\" d=\"M%s,%sv%s\"/>\n", sia_svg_at(left, text),
                    sia_svg_at(top, (char[SIA_NUMBER_TEXT]){0}),
                    sia_svg_at(height * b->count, (char[SIA_NUMBER_TEXT]){0}));
    sia_svg_close(page);
}
