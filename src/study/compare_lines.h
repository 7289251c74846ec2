/* SPDX-License-Identifier: MIT
 *
 * The results in compare.jsonl, written, and read again when a study goes on. Of each training there are
 *
 *     {"kind": "curve", "scheme": "rope", "seed": 0, ..}, {"kind": "validation", ..}    once, before all of its results
 *     {"kind": "position", "scheme": "rope+ntk", "seed": 0, ..}                          of an evaluation,
 *     {"kind": "result", "scheme": "rope+ntk", "seed": 0, ..}                            and its last line
 *
 * each with its "variant" in a sweep. So what has its result is whole, and lines that wait for one were left by a
 * process that ended: they are dropped, and written again with the result.
 *
 *     sia_finished f;
 *     status = sia_finished_read(&f, &plan, "study", err);
 *     if (!status) status = sia_finished_drop_rest(&f, "study", err);          by the one who holds the study's lock
 *     ... sia_finished_has(&f, "rope+ntk", "", 0) ...
 *     sia_finished_free(&f); */
#ifndef SIA_STUDY_COMPARE_LINES_H
#define SIA_STUDY_COMPARE_LINES_H

#include <jansson.h>

#include "study/compare.h"
#include "study/compare_plan.h"

/* A result of a part, but for what was found. */
sia_compare_result sia_result_of(const sia_part *p, const char *scheme);

/* New lines, NULL without memory. by_position [length]: losses, of which the line has means over bins that grow by a
 * factor of 2. */
json_t *sia_result_line(const sia_compare_result *r, const sia_settings *settings);
json_t *sia_position_line(const sia_compare_result *r, int64_t length, const double *by_position);

typedef struct sia_finished {
    json_t *results;   /* the lines, by "scheme|variant|seed" */
    json_t *trainings; /* those that have a result, by the scheme that was trained */
    json_t *commands;  /* of the study's own lines, as keys */
} sia_finished;

/* A result of a part of the plan that lacks one of its numbers is SIA_FORMAT: it would be shown as 0. To be freed also
 * after a failure. */
sia_status sia_finished_read(sia_finished *f, const sia_plan *plan, const char *folder, sia_error *err);
void sia_finished_free(sia_finished *f);

/* A line that was written since; `name` is what the sentence calls the place where it stands. */
sia_status sia_finished_take(sia_finished *f, const sia_plan *plan, json_t *line, const char *name,
                             sia_error *err);

/* Whether there is a result, and what it says, for the scheme, variant and seed of r; whether the curve of a training is
 * there. */
bool sia_finished_has(const sia_finished *f, const char *scheme, const char *variant, uint64_t seed);
bool sia_finished_result(const sia_finished *f, sia_compare_result *r);
bool sia_finished_training(const sia_finished *f, const char *trained, const char *variant, uint64_t seed);

/* SIA_ARGUMENT where results and plan together have more than SIA_COMPARE_NAMES schemes, times the values of a sweep. */
sia_status sia_finished_check_names(const sia_finished *f, const sia_plan *plan, sia_error *err);

/* Drops the lines that have no result, in a whole new file; the study's own lines too when there is none at all: they
 * are written anew. */
sia_status sia_finished_drop_rest(const sia_finished *f, const char *folder, sia_error *err);

#endif
