/* SPDX-License-Identifier: MIT
 *
 * What the attention of a trained model does on text: the paper's figure 1 (bottom) and figures 9 to 14.
 *
 *     sia_probe *p;
 *     sia_probe_options options = {.windows = w, .length = 4096};
 *     if (sia_probe_run(&p, m, &options, err)) return err->status;
 *     ... p->contexts[0 .. p->context_count), sia_probe_logits_of(p, layer, head, SIA_PROBE_BASE), ...
 *     sia_probe_destroy(p);
 *
 * With q and k after their norms, distance t = query position - key position:
 *
 *     base     S  = q.k / sqrt(d)
 *     rotary   S' = the same with q and k turned by their positions
 *     final    L  = a_t row S' + m_t, what the softmax is given
 *
 * Means, variances and quantiles are those of a sample of pairs: queries are spread over the window, each with
 * keys drawn from those that it sees. The first token is left out, which models use as a sink. Entropies and
 * masses are of whole rows, the first token among them.
 *
 * Rows are computed in double from the model's q and k. Same bits for any number of threads. */
#ifndef SIA_EVAL_PROBE_H
#define SIA_EVAL_PROBE_H

#include "model/model.h"

enum {
    SIA_PROBE_CONTEXTS = 32,   /* 16, 32, 64 ... and the length itself */
    SIA_PROBE_RANGES = 10,     /* [0, 10), [10, 100), ... as `sia theory` has them */
    SIA_PROBE_LEVELS = 101,    /* 0.1%, 1%, 2% ... 99%, 99.9% */
    SIA_PROBE_KEYS = 64,       /* drawn for a query */
    SIA_PROBE_QUERIES = 64,    /* of a window, at most */
    SIA_PROBE_PAIRS = 1 << 17, /* of a head, at most: with many windows each has fewer queries */
    SIA_PROBE_WINDOWS = 1024,  /* at most, so that each has two */
};

/* 0.001, 0.01, 0.02 ... 0.99, 0.999 for i < SIA_PROBE_LEVELS. */
double sia_probe_level(int i);

typedef struct sia_probe_options {
    const sia_windows *windows; /* SIA_PROBE_WINDOWS at most; borrowed */
    int64_t length;             /* of a window, as they were created; 16 at least */
    uint64_t seed;              /* of the pairs */
    sia_progress *progress;     /* or NULL; done goes from 0 to 1 */
    void *progress_context;
} sia_probe_options;

/* The mean over layers, heads, rows and windows; its standard error, from the spread of the windows (0 with
 * one). */
typedef struct sia_probe_value {
    double mean, error;
} sia_probe_value;

typedef struct sia_probe_range {
    int64_t from, to; /* distances from <= t < to; the context may end before `to` */
    sia_probe_value entropy, mass;
} sia_probe_range;

/* Queries that see about `length` keys: `rows` of them in a window, the last one seeing that many. */
typedef struct sia_probe_context {
    int64_t length;
    int rows;
    sia_probe_value entropy; /* nats */
    sia_probe_value last100; /* weight on t < 100 */
    sia_probe_value self;    /* on t = 0 */
    sia_probe_value first;   /* on the first token of the window */
    int ranges;
    sia_probe_range range[SIA_PROBE_RANGES]; /* weights normalised within the range */
} sia_probe_context;

typedef enum sia_probe_kind {
    SIA_PROBE_BASE,
    SIA_PROBE_ROTARY,
    SIA_PROBE_FINAL,
    SIA_PROBE_KINDS
} sia_probe_kind;

typedef struct sia_probe_logits {
    double mean, variance;
    double within;   /* the mean over queries of the variance over the keys of one: what a softmax sees */
    double kurtosis; /* excess: 0 for a Gaussian */
    double quantile[SIA_PROBE_LEVELS];
} sia_probe_logits;

typedef struct sia_probe {
    int layers, heads;
    int64_t length, windows, pairs; /* pairs of a head */
    int64_t queries;                /* of a window */
    int context_count;
    sia_probe_context contexts[SIA_PROBE_CONTEXTS];
    int ranges;               /* that the window has */
    double *mass;             /* [layers, heads, ranges]: means over the second half of the window */
    sia_probe_logits *logits; /* [layers, heads, SIA_PROBE_KINDS] */
} sia_probe;

static inline const sia_probe_logits *sia_probe_logits_of(const sia_probe *p, int layer, int head,
                                                          sia_probe_kind kind) {
    return &p->logits[((int64_t)layer * p->heads + head) * SIA_PROBE_KINDS + kind];
}

/* Attention is that of the model's scheme as it is set. SIA_STOPPED when progress says so; SIA_NUMBER when a
 * logit is not finite. */
sia_status sia_probe_run(sia_probe **p, sia_model *m, const sia_probe_options *options, sia_error *err);
void sia_probe_destroy(sia_probe *p); /* NULL is fine */

/* The place of pair `i` of a window, for the tests: query >= 1, 1 <= key <= query. */
void sia_probe_pair(const sia_probe *p, uint64_t seed, int64_t window, int64_t i, int64_t *query,
                    int64_t *key);

#endif
