/* SPDX-License-Identifier: MIT
 *
 * FOLDER/needle.jsonl, the lines of a needle study (needle.h says what they are). The file is small, and is written anew,
 * whole, whenever lines are added: the lines of a length are all there, or none is.
 *
 *     sia_needle_lines lines;
 *     status = sia_needle_lines_begin(&lines, "needle", header, resume, err);
 *     if (!status) status = sia_needle_lines_name(&lines, "si", "/runs/si", err);
 *     if (!status) status = sia_needle_lines_find(&lines, &about, &found, err);
 *     if (!status && !found.there) ... status = sia_needle_lines_put(&lines, &about, &found, err);
 *     sia_needle_lines_free(&lines);
 *
 * Rank 0's alone. */
#ifndef SIA_STUDY_NEEDLE_LINES_H
#define SIA_STUDY_NEEDLE_LINES_H

#include <jansson.h>
#include <stdbool.h>

#include "eval/retrieval.h"

typedef struct sia_needle_lines {
    char *path;
    json_t *list;
} sia_needle_lines;

/* The needles of one run at one length. */
typedef struct sia_needle_about {
    const char *run, *scheme;
    uint64_t seed;
    int64_t train_len, length, steps;
    int64_t needles;       /* that are asked for */
    double first_accuracy; /* at the training length; negative: not measured */
} sia_needle_about;

/* What came of it: needles, or a fine-tuning that left all bounds. */
typedef struct sia_needle_found {
    bool there; /* the file has it */
    sia_retrieval_result result;
    char diverged[sizeof(((sia_error *)0)->text)]; /* how, in a sentence; "" where it did not */
} sia_needle_found;

/* What the file has, or the study's line (`header`, which is taken) where it has nothing yet; that is written with the
 * first run's name: until then there is nothing to go on with. To be freed also after a failure. */
sia_status sia_needle_lines_begin(sia_needle_lines *lines, const char *folder, json_t *header, bool resume,
                                  sia_error *err);
void sia_needle_lines_free(sia_needle_lines *lines);

/* A run keeps its name for the whole of a study: whether another one has it, and that it has it. */
sia_status sia_needle_lines_check_name(const sia_needle_lines *lines, const char *name, const char *path,
                                       sia_error *err);
sia_status sia_needle_lines_name(sia_needle_lines *lines, const char *name, const char *path, sia_error *err);

sia_status sia_needle_lines_find(const sia_needle_lines *lines, const sia_needle_about *about,
                                 sia_needle_found *found, sia_error *err);
sia_status sia_needle_lines_put(sia_needle_lines *lines, const sia_needle_about *about,
                                const sia_needle_found *found, sia_error *err);

#endif
