/* SPDX-License-Identifier: MIT
 *
 * Measurements to curves: values by name, place and seed to means over the seeds.
 *
 *     sia_gather g = {0};
 *     sia_gather_add(&g, "si+prope", 1024, seed, 3.66);  ...
 *     sia_gather_finish(&g);
 *     g.groups[0].name, .x[i], .mean[i], .error[i], .seeds[i]
 *     sia_gather_free(&g, page);
 *
 *     mean  = sum v / n          error = sqrt(sum (v - mean)^2 / (n - 1)) / sqrt(n), for n >= 2 only
 *
 * A value that is not finite makes the mean so: a run that diverged is not left out of its mean. Of two values with
 * the same name, place and seed the later one counts: a study that was resumed says some things twice. */
#ifndef SIA_REPORT_GATHER_H
#define SIA_REPORT_GATHER_H

#include <stdbool.h>
#include <stddef.h>

#include "report/html.h"
#include "report/lines.h"
#include "report/svg.h"

typedef struct sia_gathered {
    char name[SIA_LABEL];
    int style;
    double *x, *mean, *error; /* [count], x ascending; error is not a number for one seed */
    int *seeds;
    const struct sia_sample **samples; /* [count]: of seeds[i] samples at x[i] the first, seeds ascending */
    size_t count;
} sia_gathered;

typedef struct sia_gather {
    const struct sia_gather *like; /* names that are there, too, look as they do there; or NULL */
    sia_gathered groups
        [SIA_REPORT_NAMES]; /* known schemes first, in the order of their styles; then the others by name */
    int count;
    int left_out; /* values of names for which there was no place */
    struct sia_sample {
        int group;
        double x, seed, value;
        size_t order;
    } * samples;
    const struct sia_sample **starts; /* what samples of groups point into */
    size_t sample_count, sample_room;
    double *numbers; /* what x, mean, error point into */
    int *seeds;
    bool failed;
} sia_gather;

void sia_gather_add(sia_gather *g, const char *name, double x, double seed, double value);
void sia_gather_finish(sia_gather *g);

/* Samples that found no memory are remembered in the page, which may be NULL: what is missing must not
 * look as if it had not been there. */
void sia_gather_free(sia_gather *g, sia_page *page);

const sia_gathered *sia_gather_find(const sia_gather *g, const char *name); /* NULL: none */

/* The place of x in the group, -1 when it has none. */
int sia_gathered_at(const sia_gathered *group, double x);

/* The mean of a - b over the seeds that both have, and its standard error, which is not a number for fewer than two.
 * Runs of one seed begin with the same weights and read the same text, and what they share is not in the difference:
 * its error may be a small part of those of the two means. Without a seed in common: the difference of the means. */
typedef struct sia_difference {
    double value, error;
    int seeds;
} sia_difference;
sia_difference sia_gathered_difference(const sia_gathered *a, const sia_gathered *b, double x);

/* Whether the 95 % interval of a difference, by Student's t for so few seeds, leaves out 0; false where there is
 * none. */
bool sia_difference_clear(sia_difference d);

/* A number into an ascending list of distinct ones; left out when it is not finite or there are most
 * already. */
void sia_list_add(double *values, int *count, int most, double value);
int sia_list_find(const double *values, int count, double value); /* its place, or -1 */

/* The distinct values of a field over the lines of a kind, ascending; returns how many. */
int sia_list_distinct(const sia_lines *lines, const char *kind, const char *field,
                      double values[SIA_REPORT_LENGTHS]);

/* All groups as the series of a figure, and as its data: name, x, mean, and with more columns error and seeds. */
void sia_gather_series(const sia_gather *g, sia_series series[SIA_REPORT_NAMES]);
void sia_gather_data(const sia_gather *g, sia_data *data);

/* All groups as a figure with its data: the series (at most SIA_REPORT_NAMES), errors where there are some.
 * names[5]: the heads of the table of data: name, x, y, error, seeds. */
void sia_gather_figure(sia_page *page, const sia_gather *g, sia_figure figure, const char *note,
                       const char *const names[5], const char *file);

#endif
