/* SPDX-License-Identifier: MIT
 *
 * A figure of lines. From the top: what the y axis shows, the plot with its grid, the ticks of x, what the x
 * axis shows, the legend in as many columns as its names leave room for. */
#include "report/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/svg_parts.h"

enum { MOST_POINTS = 1200, MOST_MARKERS = 24, MOST_NAME = 44 };

/* Where values go: pixel = start + length * (value - least) / (most - least), in logarithms if log. */
typedef struct scale {
    bool log;
    double least, most, start, length;
    double ticks[SIA_TICKS], step;
    int tick_count;
} scale;

/* Larger than 1e100 is no measurement, and its squares and differences would overflow. */
static bool usable(double value, bool log) {
    return isfinite(value) && fabs(value) < 1e100 && (!log || value > 1e-100);
}

static double place(const scale *s, double value) {
    double least = s->log ? log(s->least) : s->least, most = s->log ? log(s->most) : s->most;
    return s->start + s->length * ((s->log ? log(value) : value) - least) / (most - least);
}

size_t sia_svg_stride(size_t count) { return (count + MOST_POINTS - 1) / MOST_POINTS + (count == 0); }

/* ------------------------------------------------------------------------------------------------ ranges */

static void take_in(scale *s, double value) {
    if (!usable(value, s->log)) return;
    if (!(s->least <= value)) s->least = value;
    if (!(s->most >= value)) s->most = value;
}

/* A range of no width gets one: a single run is a figure too. */
static void widen(scale *s) {
    if (!isfinite(s->least)) s->least = s->most = 1;
    if (s->log) {
        double room = s->most / s->least < 1.001 ? 2 : pow(s->most / s->least, 0.04);
        s->least /= room;
        s->most *= room;
        return;
    }
    double span = s->most - s->least, size = fmax(fabs(s->least), fabs(s->most));
    if (span <= 1e-9 * size || span <= 0) {
        s->least -= size > 0 ? size / 2 : 1;
        s->most += size > 0 ? size / 2 : 1;
    }
}

static void find_range(const sia_figure *f, bool x_axis, scale *s) {
    const sia_axis *axis = x_axis ? &f->x : &f->y;
    *s = (scale){.log = axis->log, .least = NAN, .most = NAN};
    for (int i = 0; i < f->series_count; i++) {
        const sia_series *line = &f->series[i];
        for (size_t p = 0; p < line->count; p++) {
            if (!usable(line->x[p], f->x.log) || !usable(line->y[p], f->y.log)) continue;
            take_in(s, x_axis ? line->x[p] : line->y[p]);
            if (x_axis || !line->error || !usable(line->error[p], false)) continue;
            take_in(s, line->y[p] - line->error[p]);
            take_in(s, line->y[p] + line->error[p]);
        }
    }
    if (axis->fixed) take_in(s, axis->least);
    if (axis->fixed) take_in(s, axis->most);
    widen(s);
}

static void find_ticks(const sia_axis *axis, bool to_ticks, scale *s) {
    for (int i = 0; axis->ticks && i < axis->tick_count && s->tick_count < SIA_TICKS; i++)
        if (axis->ticks[i] >= s->least && axis->ticks[i] <= s->most)
            s->ticks[s->tick_count++] = axis->ticks[i];
    if (!s->tick_count) s->tick_count = sia_ticks(s->least, s->most, s->log, s->ticks);
    s->step = s->tick_count > 1 ? s->ticks[1] - s->ticks[0] : fabs(s->least);
    if (s->log || !to_ticks || s->tick_count < 2) return;
    /* The y axis ends on ticks, so that the grid frames the plot. */
    s->least = fmin(s->least, floor(s->least / s->step + 1e-9) * s->step);
    s->most = fmax(s->most, ceil(s->most / s->step - 1e-9) * s->step);
    s->tick_count = sia_ticks(s->least, s->most, false, s->ticks);
    if (s->tick_count > 1) s->step = s->ticks[1] - s->ticks[0];
}

/* ------------------------------------------------------------------------------------------------ the frame */

static void draw_line(sia_page *page, const char *class, double x1, double y1, double x2, double y2) {
    char a[SIA_NUMBER_TEXT], b[SIA_NUMBER_TEXT], c[SIA_NUMBER_TEXT], d[SIA_NUMBER_TEXT];
    sia_page_printf(page, "<path class=\"%s\" d=\"M%s,%sL%s,%s\"/>\n", class, sia_svg_at(x1, a),
                    sia_svg_at(y1, b), sia_svg_at(x2, c), sia_svg_at(y2, d));
}

static double label_room(const scale *s, const sia_svg_size *size) {
    int longest = 1;
    for (int i = 0; i < s->tick_count; i++) {
        char text[SIA_NUMBER_TEXT];
        int letters = sia_svg_letters(sia_tick_text(s->ticks[i], s->step, s->log, text));
        if (letters > longest) longest = letters;
    }
    return longest * size->letter + 10;
}

static double half_label(const scale *s, int tick, const sia_svg_size *size) {
    char text[SIA_NUMBER_TEXT];
    return sia_svg_letters(sia_tick_text(s->ticks[tick], s->step, s->log, text)) * size->letter / 2;
}

/* How long the x axis can be: the label of its last tick has room, too. */
static double x_length(const scale *x, double left, const sia_svg_size *size) {
    double length = size->width - left - 14;
    if (!x->tick_count) return length;
    int last = x->tick_count - 1;
    scale unit = *x;
    unit.start = 0;
    unit.length = 1;
    double part = place(&unit, x->ticks[last]), room = size->width - left - half_label(x, last, size);
    return part * length <= room ? length : room / part;
}

static void draw_axes(sia_page *page, const sia_figure *f, const sia_svg_size *size, const scale *x,
                      const scale *y) {
    double left = x->start, right = x->start + x->length, bottom = y->start;
    char text[SIA_NUMBER_TEXT];
    for (int i = 0; i < y->tick_count; i++) {
        double at = place(y, y->ticks[i]);
        draw_line(page, "g", left, at, right, at);
        sia_svg_text(page, left - 8, at + 5, "end", 16, sia_tick_text(y->ticks[i], y->step, y->log, text));
    }
    draw_line(page, "a", left, bottom, right, bottom);
    /* The last one has its label, for the longest length is what most figures are about; others that would touch
     * it, or the one before, have none. */
    int last = x->tick_count - 1;
    double free_from = 0, gap = size->letter / 2;
    double free_to = last < 0 ? 0 : place(x, x->ticks[last]) - half_label(x, last, size) - gap;
    for (int i = 0; i <= last; i++) {
        double at = place(x, x->ticks[i]), half = half_label(x, i, size);
        draw_line(page, "a", at, bottom, at, bottom + 5);
        if (i < last && (at - half < free_from || at + half > free_to)) continue;
        sia_svg_text(page, at, bottom + 2 + size->line * 0.85, "middle", 16,
                     sia_tick_text(x->ticks[i], x->step, x->log, text));
        free_from = at + half + gap;
    }
    sia_svg_text(page, 0, size->line * 0.75, "start", 60, f->y.label);
    sia_svg_text(page, (left + right) / 2, bottom + size->line * 1.9, "middle", 60, f->x.label);
}

/* ------------------------------------------------------------------------------------------------ series */

static bool drawn(const sia_figure *f, const sia_series *s, size_t p) {
    return usable(s->x[p], f->x.log) && usable(s->y[p], f->y.log);
}

static void draw_path(sia_page *page, const sia_figure *f, const sia_series *s, const scale *x,
                      const scale *y) {
    bool pen_down = false;
    const char *dashes = sia_svg_dashes(s->style);
    size_t stride = sia_svg_stride(s->count);
    sia_page_add(page, "<path class=\"l\"");
    if (*dashes) sia_page_printf(page, " stroke-dasharray=\"%s\"", dashes);
    sia_page_add(page, " d=\"");
    for (size_t p = 0; p < s->count; p += stride) {
        char a[SIA_NUMBER_TEXT], b[SIA_NUMBER_TEXT];
        if (!drawn(f, s, p)) {
            pen_down = false;
            continue;
        }
        sia_page_printf(page, "%s%s,%s", pen_down ? "L" : "M", sia_svg_at(place(x, s->x[p]), a),
                        sia_svg_at(place(y, s->y[p]), b));
        pen_down = true;
    }
    sia_page_add(page, "\"/>\n");
}

static void draw_error(sia_page *page, const sia_series *s, size_t p, const scale *x, const scale *y) {
    if (!s->error || !usable(s->error[p], false) || s->error[p] <= 0) return;
    double low = s->y[p] - s->error[p], high = s->y[p] + s->error[p], at = place(x, s->x[p]);
    if (!usable(low, y->log) || !usable(high, y->log)) return;
    double from = place(y, low), to = place(y, high);
    draw_line(page, "e", at, from, at, to);
    draw_line(page, "e", at - 3, from, at + 3, from);
    draw_line(page, "e", at - 3, to, at + 3, to);
}

static void draw_point(sia_page *page, const sia_series *s, size_t p, const scale *x, const scale *y) {
    char text[SIA_NUMBER_TEXT];
    sia_svg_marker(page, s->style, place(x, s->x[p]), place(y, s->y[p]), s->loose ? 2.6 : 4);
    if (s->loose) {
        sia_page_add(page, "/>\n");
        return;
    }
    sia_page_add(page, "><title>"); /* browsers show it under the pointer */
    sia_page_escape(page, s->name);
    sia_page_printf(page, " at %s: ", sia_number_shown(s->x[p], text));
    sia_page_number(page, s->y[p], 4);
    if (s->error && usable(s->error[p], false)) {
        sia_page_add(page, " \xc2\xb1 ");
        sia_page_number(page, s->error[p], 4);
    }
    sia_page_printf(page, "</title></%s>\n", sia_svg_marker_tag(s->style));
}

/* A long line has a few markers only, and those of different series stand apart. */
static bool marked(const sia_series *s, size_t p) {
    size_t every = s->count > MOST_MARKERS && !s->loose ? s->count / 7 : 1;
    return (p + every - 1) % every == (size_t)s->style * every / 13 % every;
}

static void draw_series(sia_page *page, const sia_figure *f, const sia_series *s, const scale *x,
                        const scale *y) {
    sia_page_printf(page, "<g class=\"c%d%s\">\n", s->style % SVG_COLOURS, s->loose ? " loose" : "");
    if (!s->loose) draw_path(page, f, s, x, y);
    for (size_t p = 0; p < s->count; p += s->loose ? sia_svg_stride(s->count) : 1) {
        if (!drawn(f, s, p)) continue;
        if (s->count <= MOST_MARKERS || marked(s, p)) {
            draw_error(page, s, p, x, y);
            draw_point(page, s, p, x, y);
        }
    }
    sia_page_add(page, "</g>\n");
}

/* ------------------------------------------------------------------------------------------------ legend */

static int legend_columns(const sia_figure *f, const sia_svg_size *size) {
    int longest = 1;
    for (int i = 0; i < f->series_count; i++) {
        int letters = sia_svg_letters(f->series[i].name);
        if (letters > longest) longest = letters;
    }
    if (longest > MOST_NAME) longest = MOST_NAME + 1;
    int columns = (int)(size->width / (longest * size->letter + 52));
    if (columns > f->series_count) columns = f->series_count;
    return columns < 1 ? 1 : columns;
}

static void draw_legend(sia_page *page, const sia_figure *f, const sia_svg_size *size, double top) {
    int columns = legend_columns(f, size);
    for (int i = 0; i < f->series_count; i++) {
        const sia_series *s = &f->series[i];
        int row = i / columns, column = i % columns;
        double left = size->width * column / columns, middle = top + size->line * (row + 0.5);
        const char *dashes = sia_svg_dashes(s->style);
        char a[SIA_NUMBER_TEXT], b[SIA_NUMBER_TEXT];
        sia_page_printf(page, "<g class=\"c%d\">", s->style % SVG_COLOURS);
        if (!s->loose) {
            sia_page_printf(page, "<path class=\"l\" d=\"M%s,%sh34\"", sia_svg_at(left + 1, a),
                            sia_svg_at(middle, b));
            if (*dashes) sia_page_printf(page, " stroke-dasharray=\"%s\"", dashes);
            sia_page_add(page, "/>");
        }
        sia_svg_marker(page, s->style, left + 18, middle, 4);
        sia_page_add(page, "/></g>\n");
        sia_svg_text(page, left + 42, middle + 5, "start", MOST_NAME, s->name);
    }
}

void sia_svg_lines(sia_page *page, const sia_figure *f) {
    const sia_svg_size *size = f->small ? &sia_svg_small : &sia_svg_wide;
    scale x, y;
    find_range(f, true, &x);
    find_range(f, false, &y);
    if (!x.log) { /* the first and the last point stand clear of the edge */
        double margin = 0.02 * (x.most - x.least);
        x.least -= margin;
        x.most += margin;
    }
    find_ticks(&f->x, false, &x);
    find_ticks(&f->y, true, &y);
    double top = size->line * 1.35, bottom = top + size->plot_height, left = label_room(&y, size);
    y.start = bottom;
    y.length = top - bottom;
    x.start = left;
    x.length = x_length(&x, left, size);
    bool legend = f->series_count > 1 || (f->series_count == 1 && f->series[0].name[0] && !f->small);
    int columns = legend_columns(f, size), rows = legend ? (f->series_count + columns - 1) / columns : 0;
    double legend_top = bottom + size->line * 2.5;
    sia_svg_open(page, size, legend_top + rows * size->line, f->title);
    draw_axes(page, f, size, &x, &y);
    if (f->diagonal && !f->x.log && !f->y.log) {
        double from = fmax(x.least, y.least), to = fmin(x.most, y.most);
        if (from < to) draw_line(page, "r", place(&x, from), place(&y, from), place(&x, to), place(&y, to));
    }
    for (int i = f->series_count - 1; i >= 0; i--) /* the first is on top */
        draw_series(page, f, &f->series[i], &x, &y);
    if (legend) draw_legend(page, f, size, legend_top);
    sia_svg_close(page);
}
