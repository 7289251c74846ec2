/* SPDX-License-Identifier: MIT
 *
 * The needle task (the paper, section 5) over any corpus. Sample n of a seed is a pure function of (seed, n):
 *
 *     <end-of-text> text ... The special magic Lima number is 4830172. ... text
 *     What are the special magic numbers?
 *     Lima=4830172;Oslo=1094427;Quito=7740813
 *
 * Needles stand at places drawn uniformly and independently between the tokens of the text; the answer
 * names them in the order in which they stand. A question may name the cities instead, in an order of its
 * own, which the answer follows: an easier task. Numbers for training and for validation are disjoint sets, and so
 * are cities unless known_cities says otherwise. */
#ifndef SIA_DATA_HAYSTACK_H
#define SIA_DATA_HAYSTACK_H

#include <stdbool.h>
#include <stdint.h>

#include "sia.h"

enum { SIA_NEEDLES_MOST = 16, SIA_NEEDLES_USUAL = 3, SIA_DIGITS_MOST = 15, SIA_DIGITS_USUAL = 7 };

/* A field that is 0 takes the default in brackets. */
typedef struct sia_haystack {
    const sia_corpus *corpus;       /* borrowed: the text */
    const sia_tokenizer *tokenizer; /* borrowed: the corpus is in its ids */
    int64_t length;                 /* inputs of a sample: the sample has one token more, its last target */
    int needles;                    /* [3] */
    int digits;                     /* [7] of a number; the first is not 0 */
    bool name_cities;               /* the question names them */
    bool one_token_a_digit;         /* numbers are not merged into longer tokens */
    bool alike;   /* cities and numbers are the same tokens in text and answer: a space before one, which most
                   tokenizers make a part of its first token, stays by itself */
    bool literal; /* a needle is not a sentence, but stands in the text as in the answer: "Lima=4830172;" */
    bool
        numbers_only; /* the cities of the answer are given: its numbers alone are scored, one token a digit */
    bool validation;  /* cities and numbers that training never shows */
    bool known_cities; /* validation with the cities of training; its numbers stay others */
    uint64_t seed;
} sia_haystack;

typedef struct sia_needle {
    char city[16], number[SIA_DIGITS_MOST + 1];
    int64_t first, count;               /* its sentence in ids */
    int64_t answer_first, answer_count; /* "city=number" in ids; right when all of these are predicted */
} sia_needle;

/* ids [length + 1]: inputs ids[0 .. length), targets ids[1 .. length], as in sia_batches_read.
 * mask [length]: 1 where the target ids[i + 1] is a token of the answer (numbers_only: of a number in it), else 0.
 * needles [needles]: in the order of the answer; may be NULL. The depth of one is first / length. */
sia_status sia_haystack_read(const sia_haystack *h, uint64_t n, uint32_t *ids, uint8_t *mask,
                             sia_needle *needles, sia_error *err);

/* Which of the two sets a number belongs to: true for validation. */
bool sia_haystack_for_validation(uint64_t number);

#endif
