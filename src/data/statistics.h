/* SPDX-License-Identifier: MIT
 *
 * How a text is made, in figures: how often the r-th most frequent symbol comes (Zipf's law), and how much
 * one symbol says about another at distance d. Symbols are words or tokens.
 *
 * Information between x_i and x_{i+d}, in nats, over pairs inside one document, with the most frequent
 * symbols as classes and all others as one more:
 *
 *     I(d) = sum n(a,b)/n  log( n(a,b) n / (n(a) n(b)) )  -  the same for n pairs drawn at random from all of
 * the text
 *
 * The second term is the bias of a finite sample (about classes^2 / 2n, several times the signal at long
 * distances). What remains is all that two places of one document share, its subject and author too:
 * `information_document` is that part alone, from pairs at random places of one document.
 *
 * Recurrence: the probability that a symbol which is not among those classes stands again at distance d,
 * divided by what chance would give. It sees the rare words, names above all, which I(d) lumps together. */
#ifndef SIA_DATA_STATISTICS_H
#define SIA_DATA_STATISTICS_H

#include <stdbool.h>

#include "data/word_list.h"

enum { SIA_STATISTICS_DISTANCES = 32, SIA_STATISTICS_RANKS = 24 };

typedef struct sia_statistics_options {
    int classes;           /* [1024] the last one is "any other symbol" */
    int64_t max_distance;  /* [1000000] distances are 1, 2, 3, 5, 7, 10, 20, ... up to this */
    uint64_t seed;         /* of the random pairs */
    bool (*stopped)(void); /* asked now and then: true ends it with SIA_STOPPED; may be NULL */
} sia_statistics_options;

typedef struct sia_statistics_at {
    int64_t distance, pairs;
    double information; /* nats; can be slightly negative, by noise */
    double noise;       /* standard deviation of that under no dependence */
    double recurrence;  /* times chance */
} sia_statistics_at;

typedef struct sia_statistics {
    int64_t documents, symbols, types, once; /* once: types that come a single time */
    double entropy;                          /* of one symbol, nats, as counted */
    int ranks;
    int64_t rank[SIA_STATISTICS_RANKS]; /* 1, 2, 5, 10, ... */
    double share[SIA_STATISTICS_RANKS]; /* of all symbols */
    double zipf_head,
        zipf_tail; /* share ~ rank^-zipf over ranks 10 .. 1000, and 1000 .. 10000; NaN: too few */
    int distances;
    sia_statistics_at at[SIA_STATISTICS_DISTANCES];
    double information_document; /* of two random places of one document */
    double recurrence_document;
    double information_power; /* I(d) ~ d^-power, least squares over 10 <= d <= 1000 where above the noise */
    double recurrence_power;  /* (recurrence - 1) ~ d^-power, over 10 <= d <= 10000 */
} sia_statistics;

sia_status sia_statistics_compute(const sia_sequence *text, const sia_statistics_options *options,
                                  sia_statistics *result, sia_error *err);

/* A part of every document, 0 <= from < to <= 1: for comparing the beginnings of documents with their ends.
 * The arrays are the caller's to free, with sia_sequence_free. */
sia_status sia_sequence_slice(const sia_sequence *text, double from, double to, sia_sequence *slice,
                              sia_error *err);
void sia_sequence_free(sia_sequence *slice);

#endif
