/* SPDX-License-Identifier: MIT
 *
 * Which trainings a comparison needs, and what each is evaluated with: one for each seed, value of the sweep and scheme; but
 * schemes that differ at evaluation only (rope, rope+ntk, rope+yarn) share one. */
#ifndef SIA_STUDY_COMPARE_PLAN_H
#define SIA_STUDY_COMPARE_PLAN_H

#include "study/compare.h"

enum { SIA_PART_NAME = 128, SIA_PART_VARIANT = 48, SIA_PART_SCHEMES = 3 /* with rope, ntk, yarn */ };

/* A training, and the schemes that its model is evaluated with. */
typedef struct sia_part {
    char name[SIA_PART_NAME];       /* of its run */
    char variant[SIA_PART_VARIANT]; /* "tau=10"; "" without a sweep */
    uint64_t seed;
    sia_settings settings;
    char schemes[SIA_PART_SCHEMES][SIA_SCHEME_NAME];
    int scheme_count;
    double done, found; /* 0 to 1; what was done before */
} sia_part;

/* In the order in which they are trained; to be freed with sia_free, also after a failure. */
typedef struct sia_plan {
    sia_part *parts;
    int64_t count;
    int64_t
        longest; /* of all parts, and a multiple of each one's: all are judged by windows of it, the same tokens */
} sia_plan;

/* The longest length that a part is evaluated at. */
int64_t sia_part_longest(const sia_part *p);

sia_status sia_plan_make(sia_plan *plan, const sia_compare_job *job, sia_error *err);

/* The scheme that a model is trained with to be evaluated with this one: "rope" for "rope+yarn". */
sia_status sia_trained_scheme(const char *scheme, char name[SIA_SCHEME_NAME], sia_error *err);

#endif
