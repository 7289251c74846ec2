/* SPDX-License-Identifier: MIT
 *
 * The Gaussian model of attention: what the paper proves and what it shows for independent normal scores.
 *
 *     sia_theory *theory;
 *     sia_theory_options options = {.threads = 2};
 *     if (sia_theory_run(&theory, &options, err)) return err->status;
 *     ... theory->properties[0 .. theory->property_count), and so on ...
 *     sia_theory_destroy(theory);
 *
 * Same bits for any number of threads. */
#ifndef SIA_EVAL_THEORY_H
#define SIA_EVAL_THEORY_H

#include "eval/property.h"

typedef enum sia_logits {
    SIA_LOGITS_PLAIN, /* L = S */
    SIA_LOGITS_LOGN,  /* L = s ln(n) S, n keys in the context */
    SIA_LOGITS_ALIBI, /* L = S - 2^-8 t, the gentlest slope it has */
    SIA_LOGITS_SI,    /* L = a_t S + m_t */
    SIA_LOGITS
} sia_logits;
extern const char *const sia_logits_names[SIA_LOGITS]; /* "plain", "logn", "alibi", "si" */

/* D, and the most of each thing that there can be: t = 10, 30, 100 ... 10^8. */
enum { SIA_RATIOS = 3, SIA_THEORY_STEPS = 15, SIA_THEORY_DECADES = 8 };
extern const int sia_ratios[SIA_RATIOS]; /* 2, 5, 10 */

#define SIA_THEORY_MIN_T ((int64_t)1000)
#define SIA_THEORY_MAX_T ((int64_t)100000000)
#define SIA_THEORY_MAX_ROWS ((int64_t)100000)

/* A field that is 0 takes the default in brackets. */
typedef struct sia_theory_options {
    double tau, alpha, beta; /* as in sia_attention_config */
    double logn;             /* [0.4] s */
    int64_t max_t;           /* [10^6] SIA_THEORY_MIN_T .. SIA_THEORY_MAX_T */
    int64_t rows;            /* [2048] sampled for each entropy, 16 .. SIA_THEORY_MAX_ROWS */
    int64_t draws;           /* [128 rows] tilted samples for each property, SIA_PROPERTY_DRAWS at most */
    uint64_t seed;
    int threads; /* [all processors] */
    /* Called with points of the figures, done and in all, or NULL; not 0 stops the work, with SIA_STOPPED. */
    int (*progress)(void *context, double done, double total);
    void *progress_context;
} sia_theory_options;

/* A mean over rows with its standard error. */
typedef struct sia_estimate {
    double mean, error;
} sia_estimate;

/* What happens to one who takes the plain mean of Z over rows, D = 10. */
typedef struct sia_plain_mean {
    int64_t t;
    double closed;
    sia_estimate sampled; /* its own idea of its error included */
    double true_error;    /* the standard error that the mean of so many rows really has */
    double rows_needed;   /* for a standard error of 0.1% */
} sia_plain_mean;

/* log10 of E[Z] over t <= k < 10 t, in a context of 10 t keys. */
typedef struct sia_total {
    int64_t t;
    double log10_z[SIA_LOGITS];
} sia_total;

/* Figures 2 and 6: E[H] over t <= k < t D. */
typedef struct sia_range_point {
    sia_logits logits; /* si or plain */
    int64_t t;
    sia_estimate entropy[SIA_RATIOS];
} sia_range_point;

/* E[H] = intercept + slope x by least squares, x = ln t or sqrt(ln t). */
typedef struct sia_fit {
    sia_logits logits;
    int ratio;
    bool root; /* x = sqrt(ln t) */
    double intercept, slope, r2;
} sia_fit;

/* Figure 1, top: a query that sees n keys. */
typedef struct sia_context_point {
    sia_logits logits;
    int64_t n;
    sia_estimate entropy, last100;             /* of the whole row; the weight on distances below 100 */
    int ranges;                                /* [0, 10), [10, 100), ... the last one ends at n */
    int64_t bounds[SIA_THEORY_DECADES + 1];    /* [ranges + 1] */
    sia_estimate by_range[SIA_THEORY_DECADES]; /* entropy within each range */
} sia_context_point;

typedef struct sia_theory {
    sia_theory_options options; /* with every default filled in */
    int property_count, plain_count, total_count, range_count, fit_count, context_count;
    sia_property properties[SIA_THEORY_DECADES * SIA_RATIOS * 2];
    sia_plain_mean plain[SIA_THEORY_DECADES];
    sia_total totals[SIA_THEORY_DECADES];
    sia_range_point ranges[SIA_THEORY_STEPS * 2];
    sia_fit fits[2 * SIA_RATIOS * 2];
    sia_context_point contexts[SIA_THEORY_STEPS * SIA_LOGITS];
} sia_theory;

sia_status sia_theory_run(sia_theory **theory, const sia_theory_options *options, sia_error *err);
void sia_theory_destroy(sia_theory *theory); /* NULL is fine */

/* Least squares through x[i], y[i], count >= 2. R^2 is the share of y's variance that the line explains. */
void sia_fit_line(const double *x, const double *y, int count, sia_fit *fit);

#endif
