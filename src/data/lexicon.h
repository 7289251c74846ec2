/* SPDX-License-Identifier: MIT
 *
 * The words of the generated text: invented, pronounceable, composed from syllables by their number alone,
 * so that no list is stored. A word belongs to one class (determiner, noun, ...); its probability in the
 * whole text follows
 *
 *     p(r) ~ (r + 2.7)^-1.06 (1 + r/5000)^-0.9       r = 1, 2, ... 32768, the rank
 *
 * which is the rank-frequency curve that docs/data.md measures on books. Ranks are dealt out to the classes
 * so that each class holds as much probability as the grammar uses it: then class and word together give
 * p(r). */
#ifndef SIA_DATA_LEXICON_H
#define SIA_DATA_LEXICON_H

#include <stddef.h>
#include <stdint.h>

#include "sia.h"

typedef enum sia_word_class {
    SIA_WORD_DETERMINER,
    SIA_WORD_PREPOSITION,
    SIA_WORD_PRONOUN,
    SIA_WORD_CONJUNCTION,
    SIA_WORD_AUXILIARY,
    SIA_WORD_RELATION, /* what a fact says of a name */
    SIA_WORD_ADVERB,
    SIA_WORD_ADJECTIVE,
    SIA_WORD_NOUN,
    SIA_WORD_VERB,
    SIA_WORD_CLASSES,
} sia_word_class;

enum { SIA_LEXICON_SIZE = 32768, SIA_WORD_LENGTH = 16, SIA_LEXICON_GUIDE = 1024 };

typedef struct sia_lexicon {
    struct {
        int count;
        uint16_t *rank;  /* [count] the members, most frequent first */
        float *upto;     /* [count] cumulated probability inside the class, ends at 1 */
        uint16_t *guide; /* [SIA_LEXICON_GUIDE] the member that holds probability i/SIA_LEXICON_GUIDE */
    } classes[SIA_WORD_CLASSES];
} sia_lexicon;

/* share: how often the grammar uses each class; any positive scale. */
sia_status sia_lexicon_create(sia_lexicon **lexicon, const double share[SIA_WORD_CLASSES], sia_error *err);
void sia_lexicon_destroy(sia_lexicon *lexicon);

/* The word (its rank) of a class that the uniform random bits choose. */
int sia_lexicon_draw(const sia_lexicon *lexicon, sia_word_class class, uint64_t bits);

/* Writes the word's stem (ended by 0; it ends in a vowel, so that endings are consonants) and returns its
 * length. */
int sia_lexicon_spell(int rank, char word[SIA_WORD_LENGTH]);

/* A name for these random bits: capital letter, two or three syllables, ends in a consonant. */
int sia_lexicon_name(uint64_t bits, char word[SIA_WORD_LENGTH]);

#endif
