/* SPDX-License-Identifier: MIT
 *
 * The parts of a report, each from the lines of one file. A part writes its sections into body, its links into
 * nav, and what a reader should know first into lead, as paragraphs; all of it comes from the data. Memory that runs out is
 * remembered in the pages. */
#ifndef SIA_REPORT_SECTIONS_H
#define SIA_REPORT_SECTIONS_H

#include <jansson.h>

#include "report/gather.h"
#include "report/lines.h"
#include "report/page.h"

typedef struct sia_report {
    sia_page lead, nav, body;
    int sections;
    const char *folder; /* named in the titles of sections; NULL when there is one folder only */
    bool alike;         /* two folders hold the same kind of study: the lead names them, too */
} sia_report;

/* <h2> with a link to it in nav. */
void sia_report_section(sia_report *r, const char *title);

/* Opens a paragraph of the lead, which says of which folder it is where that is not plain. */
void sia_report_lead(sia_report *r);

void sia_section_compare(sia_report *r, const sia_lines *lines);
const char *sia_compare_title(const sia_lines *lines); /* of a page that begins with it */
void sia_section_needle(sia_report *r, const sia_lines *lines);
void sia_section_theory(sia_report *r, const sia_lines *lines);
void sia_section_probe(sia_report *r, const sia_lines *lines);

/* The study line of a file: command, data, machine, configuration. What: "Comparison", ... */
void sia_section_setting(sia_report *r, const sia_lines *lines, const char *what);

/* The runs of 'sia train': all of them in one section. */
typedef struct sia_report_run {
    char name[SIA_LABEL];
    sia_lines metrics;
    json_t *config; /* or NULL */
} sia_report_run;
void sia_section_runs(sia_report *r, const sia_report_run *runs, int count);

/* An object as pairs of dotted name and value, depth first, at most a few hundred of them. */
void sia_object_pairs(sia_data *pairs, const json_t *object);

/* These pairs as a table under a heading; nothing for NULL and for an empty object. */
void sia_object_table(sia_page *page, const char *title, const json_t *object);

/* ------------------------------------------------------------------------------------- within the comparison */

typedef struct sia_comparison {
    const sia_lines *lines;
    bool variants; /* the rows are the variants of a sweep; otherwise they are the results that are none */
    sia_gather losses; /* x: the length */
    double lengths[SIA_REPORT_LENGTHS];
    int length_count;
    double train_len; /* not a number when no line tells it */
    int fewest_seeds, most_seeds;
} sia_comparison;

/* Whether a scheme is another way to read the weights of one that was trained, as rope+ntk is of rope. */
bool sia_shares_training(const char *scheme, char trained[SIA_SCHEME_NAME]);

/* Whether a line, a result or a curve, is of this comparison. */
bool sia_comparison_has(const sia_comparison *c, const json_t *line);

/* The table of losses with the best marked, and what the marks mean. */
void sia_compare_table(sia_page *page, const sia_comparison *c);

/* "4096 tokens (16x)", the multiple only where the training length is known. */
const char *sia_length_text(const sia_comparison *c, double length, char text[96]);

/* Where the order differs from the paper's, and what the control for sharpness explains. */
void sia_compare_paper(sia_report *r, const sia_comparison *c);
void sia_compare_control(sia_report *r, const sia_comparison *c);
void sia_compare_figures(sia_report *r, const sia_comparison *c);

/* The variants of a sweep: the figure, and their table unless c is that table already. */
void sia_compare_sweep(sia_report *r, const sia_comparison *c);

void sia_comparison_gather(sia_comparison *c);

#endif
