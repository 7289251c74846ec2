/* SPDX-License-Identifier: MIT
 *
 * What the kinds of figures share: sizes, and text that keeps to its room. */
#ifndef SIA_REPORT_SVG_PARTS_H
#define SIA_REPORT_SVG_PARTS_H

#include "report/page.h"

/* `letter` is the room that one letter takes, `line` that of a line of text, in the largest size that the style
 * gives to the figure: see html_style.h. */
typedef struct sia_svg_size {
    const char *class;
    double width, plot_height, letter, line;
} sia_svg_size;

static const sia_svg_size sia_svg_wide = {"wide", 640, 320, 11.5, 25},
                          sia_svg_small = {"small", 420, 230, 8.3, 19};

/* Characters, not bytes. */
int sia_svg_letters(const char *text);

/* Opens with class, role, name and viewBox. */
void sia_svg_open(sia_page *page, const sia_svg_size *size, double height, const char *title);
void sia_svg_close(sia_page *page);

/* anchor: start, middle or end. At most `letters` characters, the last of them an ellipsis. */
void sia_svg_text(sia_page *page, double x, double y, const char *anchor, int letters, const char *text);

/* A coordinate with two digits at most behind the point. */
const char *sia_svg_at(double value, char text[SIA_NUMBER_TEXT]);

/* The marker of a style around (x, y), without the end of its tag, the name of that tag, and the dashes ("" for
 * none). */
void sia_svg_marker(sia_page *page, int style, double x, double y, double radius);
const char *sia_svg_marker_tag(int style);
const char *sia_svg_dashes(int style);

/* Colours 0 .. SVG_COLOURS-1 are the classes c0, c1, ... */
enum { SVG_COLOURS = 8 };

#endif
