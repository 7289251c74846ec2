/* SPDX-License-Identifier: MIT
 *
 * Words from syllables, and their probabilities. */
#include "data/lexicon.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

/* --------------------------------------------------------------------------------------------- spelling */

static const char onsets[] = "bdfghjklmnprstvz"; /* 16 */
static const char vowels[] = "aeiou";
static const char finals[] = "lmnrs";
enum { SYLLABLES = 80 };

static int put_syllable(char *word, unsigned number) {
    word[0] = onsets[number % 16];
    word[1] = vowels[number / 16 % 5];
    return 2;
}

/* Words of n syllables are numbered 0 .. 80^n - 1; multiplying by a number without a factor in common with
 * 80 scatters neighbouring ranks over the whole range, and no two ranks share a word. Frequent words are
 * short. */
int sia_lexicon_spell(int rank, char word[SIA_WORD_LENGTH]) {
    enum { ONE = 60, TWO = 3000 };
    int syllables = rank < ONE ? 1 : rank < TWO ? 2 : 3, length = 0;
    unsigned number = syllables == 1   ? (unsigned)rank * 33u % 80u
                      : syllables == 2 ? (unsigned)(rank - ONE) * 2731u % 6400u
                                       : (unsigned)(rank - TWO) * 7919u % 512000u;
    for (int i = 0; i < syllables; i++, number /= SYLLABLES)
        length += put_syllable(word + length, number % SYLLABLES);
    word[length] = 0;
    return length;
}

int sia_lexicon_name(uint64_t bits, char word[SIA_WORD_LENGTH]) {
    int length = 0;
    for (int i = bits % 3 == 0 ? 1 : 0; i < 3; i++) {
        length += put_syllable(word + length, (unsigned)(bits >> (8 + 12 * i)) & 0xfffu);
    }
    word[length++] = finals[(bits >> 48) % 5];
    word[0] = (char)(word[0] - ('a' - 'A'));
    word[length] = 0;
    return length;
}

/* ---------------------------------------------------------------------------------------------- classes */

static double probability(int rank) {
    double r = rank + 1;
    return pow(r + 2.7, -1.06) * pow(1 + r / 5000, -0.9);
}

static bool is_closed(int class) { return class <= SIA_WORD_RELATION; }

/* The class that the next rank goes to: of those that may take it, the one of whose share most is still to
 * fill. A word is at most a quarter of a closed class and a fortieth of an open one, as in English, where
 * the first noun comes after some forty other words; closed classes fill up first, and get no rare words. */
static int choose_class(const double share[SIA_WORD_CLASSES], const double left[SIA_WORD_CLASSES], int rank,
                        double p) {
    enum { LAST_CLOSED = 300, CLOSED_FIRST = 3 };
    int best = SIA_WORD_NOUN;
    double best_score = -1;
    for (int class = 0; class < SIA_WORD_CLASSES; class ++) {
        bool closed = is_closed(class);
        if (p > share[class] * (closed ? 0.25 : 0.025) ||
            (closed && (left[class] < p || rank >= LAST_CLOSED)))
            continue;
        double score = left[class] / share[class] * (closed ? CLOSED_FIRST : 1);
        if (score > best_score) best_score = score, best = class;
    }
    return best;
}

static void deal_out(sia_lexicon *lexicon, const double tally[SIA_WORD_CLASSES]) {
    double total = 0, tallies = 0, share[SIA_WORD_CLASSES], left[SIA_WORD_CLASSES],
           held[SIA_WORD_CLASSES] = {0};
    for (int rank = 0; rank < SIA_LEXICON_SIZE; rank++) total += probability(rank);
    for (int class = 0; class < SIA_WORD_CLASSES; class ++) tallies += tally[class];
    for (int class = 0; class < SIA_WORD_CLASSES; class ++)
        left[class] = share[class] = tally[class] / tallies;
    for (int rank = 0; rank < SIA_LEXICON_SIZE; rank++) {
        double p = probability(rank) / total;
        int class = choose_class(share, left, rank, p);
        int at = lexicon->classes[class].count++;
        left[class] -= p;
        held[class] += p;
        lexicon->classes[class].rank[at] = (uint16_t)rank;
        lexicon->classes[class].upto[at] = (float)held[class];
    }
    for (int class = 0; class < SIA_WORD_CLASSES; class ++)
        for (int i = 0; i < lexicon->classes[class].count; i++)
            lexicon->classes[class].upto[i] /= (float)held[class];
}

static void make_guide(sia_lexicon *lexicon, int class) {
    int at = 0;
    for (int i = 0; i < SIA_LEXICON_GUIDE; i++) {
        while (at + 1 < lexicon->classes[class].count &&
               lexicon->classes[class].upto[at] * SIA_LEXICON_GUIDE <= (float)i)
            at++;
        lexicon->classes[class].guide[i] = (uint16_t)at;
    }
}

sia_status sia_lexicon_create(sia_lexicon **out, const double share[SIA_WORD_CLASSES], sia_error *err) {
    sia_lexicon *lexicon = calloc(1, sizeof *lexicon);
    *out = NULL;
    bool complete = lexicon != NULL;
    for (int class = 0; complete && class < SIA_WORD_CLASSES; class ++) {
        lexicon->classes[class].rank = calloc(SIA_LEXICON_SIZE, sizeof(uint16_t));
        lexicon->classes[class].upto = calloc(SIA_LEXICON_SIZE, sizeof(float));
        lexicon->classes[class].guide = calloc(SIA_LEXICON_GUIDE, sizeof(uint16_t));
        complete =
            lexicon->classes[class].rank && lexicon->classes[class].upto && lexicon->classes[class].guide;
    }
    if (!complete) {
        sia_lexicon_destroy(lexicon);
        return sia_fail_memory(err, SIA_LEXICON_SIZE * 6 * SIA_WORD_CLASSES, "the words of generated text");
    }
    deal_out(lexicon, share);
    for (int class = 0; class < SIA_WORD_CLASSES; class ++) make_guide(lexicon, class);
    *out = lexicon;
    return SIA_OK;
}

void sia_lexicon_destroy(sia_lexicon *lexicon) {
    if (!lexicon) return;
    for (int class = 0; class < SIA_WORD_CLASSES; class ++) {
        free(lexicon->classes[class].rank);
        free(lexicon->classes[class].upto);
        free(lexicon->classes[class].guide);
    }
    free(lexicon);
}

int sia_lexicon_draw(const sia_lexicon *lexicon, sia_word_class class, uint64_t bits) {
    float u = (float)(bits >> 40) * 0x1p-24f; /* below 1 */
    int at = lexicon->classes[class].guide[(int)(u * SIA_LEXICON_GUIDE)];
    while (at + 1 < lexicon->classes[class].count && lexicon->classes[class].upto[at] <= u) at++;
    return lexicon->classes[class].rank[at];
}
