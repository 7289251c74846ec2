/* SPDX-License-Identifier: MIT
 *
 * The grammar and the blocks of the generated text: see source.h.
 *
 *     sentence   clause { , CONJUNCTION clause }
 *     clause     fact | [ADVERB] subject verb-phrase { PREPOSITION phrase }
 *     fact       NAME RELATION value
 *     subject    PRONOUN | NAME | phrase
 *     phrase     DETERMINER [ADJECTIVE] NOUN [PREPOSITION phrase]
 *     verb-phrase [AUXILIARY] VERB [phrase | PRONOUN | NAME]
 *
 * A verb takes its ending from its subject's number and from the tense, which is a word like any other and
 * so persists in blocks; many verbs go with a preposition of their own, many nouns with an adjective of
 * their own. */
#include "data/source.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "data/lexicon.h"

enum { SCALES = 8, DOCUMENT = SCALES - 1, MOST_SLOTS = 256, STYLES = 1, TRIES = 8, FIRST_NAMED = 3 };

/* What is drawn besides words of the lexicon's classes. */
enum { DRAW_NAME = SIA_WORD_CLASSES, DRAW_TENSE, DRAWS };

/* The scales: blocks of 2^log_length words; `weight`, how often a word comes from such a block, of those
 * that come from blocks; `slots`, how many words of a class a block owns; `style`, the variance that the
 * scale gives the style. The figures are fitted to the information and the recurrence by distance that
 * docs/data.md measures on books. */
static const struct scale {
    int log_length, slots;
    double weight, style;
} scales[SCALES] = {
    {4, 1, 0.00, 0.34},    {6, 2, 0.16, 0.22},    {8, 3, 0.16, 0.10},   {10, 6, 0.16, 0.05},
    {12, 12, 0.14, 0.025}, {14, 24, 0.13, 0.015}, {16, 50, 0.12, 0.01}, {62, 60, 0.13, 0.27},
};
static const double style_strength = 0.9;

struct sia_source {
    uint64_t seed;
    int64_t words;
    sia_lexicon *lexicon;
    float scale_upto[SCALES];            /* cumulated weights */
    float slot_upto[SCALES][MOST_SLOTS]; /* cumulated probability of a block's slots: ~ 1/(m+1) */
};

/* How much of a class comes from blocks. */
static const float bound[DRAWS] = {
    [SIA_WORD_DETERMINER] = 0.5f,  [SIA_WORD_PREPOSITION] = 0.3f, [SIA_WORD_PRONOUN] = 0.9f,
    [SIA_WORD_CONJUNCTION] = 0.4f, [SIA_WORD_AUXILIARY] = 0.7f,   [SIA_WORD_RELATION] = 0,
    [SIA_WORD_ADVERB] = 0.5f,      [SIA_WORD_ADJECTIVE] = 0.55f,  [SIA_WORD_NOUN] = 0.6f,
    [SIA_WORD_VERB] = 0.55f,       [DRAW_NAME] = 0.95f,           [DRAW_TENSE] = 0.95f,
};

/* ------------------------------------------------------------------------------------------- the writer */

typedef struct writer {
    const sia_source *source;
    uint64_t stream;  /* this document's random numbers */
    uint64_t blocks;  /* and the contents of its blocks */
    uint64_t counter; /* random numbers used */
    int64_t phase[SCALES];
    int64_t block[SCALES];       /* the blocks around t */
    double part[SCALES][STYLES]; /* what each of them adds to the style */
    double style[STYLES];
    int64_t t; /* words so far */
    char *text;
    size_t length, room;
    bool capital, failed;
    double *tally; /* [SIA_WORD_CLASSES] when only classes are counted; NULL when text is written */
} writer;

static uint64_t next(writer *w) { return sia_random_u64(w->stream, w->counter++); }
static bool chance(writer *w, double p) { return (double)(next(w) >> 11) * 0x1p-53 < p; }

static void put(writer *w, const char *bytes, size_t count) {
    if (!sia_grow(&w->text, &w->room, w->length + count, 1)) w->failed = true;
    if (w->failed) return;
    memcpy(w->text + w->length, bytes, count);
    w->length += count;
}

static void put_word(writer *w, const char *word, const char *ending) {
    if (w->length && w->text[w->length - 1] != '\n') put(w, " ", 1);
    size_t start = w->length;
    put(w, word, strlen(word));
    put(w, ending, strlen(ending));
    if (w->capital && !w->failed && w->text[start] >= 'a')
        w->text[start] = (char)(w->text[start] - ('a' - 'A'));
    w->capital = false;
    w->t++;
}

/* ---------------------------------------------------------------------------------------------- drawing */

/* Random bits that belong to what the block of scale k around the current place owns. */
static uint64_t block_bits(const writer *w, int k, uint64_t what) {
    return sia_random_u64(w->blocks, sia_mix((uint64_t)w->block[k]) ^ ((uint64_t)(k + 1) << 32 | what));
}

/* The style is a sum over the scales: each block adds or takes away its part. */
static void enter(writer *w) {
    enum { STYLE = 0xffff0000 };
    bool moved = false;
    for (int k = 0; k < SCALES; k++) {
        int64_t block = (w->t + w->phase[k]) >> scales[k].log_length;
        if (block == w->block[k] && w->t) continue;
        w->block[k] = block;
        uint64_t signs = block_bits(w, k, STYLE);
        for (int j = 0; j < STYLES; j++) w->part[k][j] = (signs >> j & 1 ? 1 : -1) * sqrt(scales[k].style);
        moved = true;
    }
    if (!moved) return;
    for (int j = 0; j < STYLES; j++) {
        w->style[j] = 0;
        for (int k = 0; k < SCALES; k++) w->style[j] += w->part[k][j];
        w->style[j] = fmax(-1.1, fmin(1.1, w->style[j]));
    }
}

/* The random bits that stand for the next thing of a kind: fresh ones, or those of a slot of a block around
 * the current place. Bits drawn again from the same slot are the same word, name or tense again. */
static uint64_t draw(writer *w, int kind) {
    uint64_t choice = next(w);
    if ((float)(choice >> 40) * 0x1p-24f >= bound[kind]) return next(w);
    const sia_source *s = w->source;
    float u = (float)(choice & 0xffffff) * 0x1p-24f, v = (float)(next(w) >> 40) * 0x1p-24f;
    int k = 0, slot = 0;
    while (k + 1 < SCALES && s->scale_upto[k] <= u) k++;
    while (slot + 1 < scales[k].slots && s->slot_upto[k][slot] <= v) slot++;
    if (kind == DRAW_NAME && k < FIRST_NAMED) k += 2;
    return block_bits(w, k, (uint64_t)kind << 16 | (uint64_t)slot);
}

/* Bits for a word of the class that suits the style: every word leans to one side of one axis of style, and
 * is the more often kept the more the style leans to that side. */
static uint64_t class_bits(writer *w, sia_word_class class) {
    enter(w);
    if (w->tally) {
        w->tally[class]++;
        return 0;
    }
    uint64_t bits = 0;
    for (int i = 0; i < TRIES; i++) {
        bits = draw(w, (int)class);
        uint64_t lean = sia_mix((uint64_t)sia_lexicon_draw(w->source->lexicon, class, bits));
        double towards = w->style[lean % STYLES] * (lean >> 32 & 1 ? 1 : -1);
        if (chance(w, 0.5 * (1 + style_strength * towards))) break;
    }
    return bits;
}

static int rank_of(const writer *w, sia_word_class class, uint64_t bits) {
    return w->tally ? 0 : sia_lexicon_draw(w->source->lexicon, class, bits);
}

static int word_from(writer *w, sia_word_class class, uint64_t bits, const char *ending) {
    if (w->tally) {
        w->t++;
        return 0;
    }
    char word[SIA_WORD_LENGTH];
    int rank = sia_lexicon_draw(w->source->lexicon, class, bits);
    sia_lexicon_spell(rank, word);
    put_word(w, word, ending);
    return rank;
}

static int word(writer *w, sia_word_class class) { return word_from(w, class, class_bits(w, class), ""); }

/* A word that often goes with another one, such as an auxiliary with its pronoun: then it is that one's
 * own. */
static int word_with(writer *w, sia_word_class class, int with, double often) {
    uint64_t bits = class_bits(w, class);
    if (with >= 0 && chance(w, often)) bits = sia_random_u64(class, (uint64_t)with);
    return word_from(w, class, bits, "");
}

static uint64_t name_bits(writer *w) {
    enter(w);
    return draw(w, DRAW_NAME);
}

static void name_from(writer *w, uint64_t bits) {
    char spelt[SIA_WORD_LENGTH];
    if (w->tally) {
        w->t++;
        return;
    }
    sia_lexicon_name(bits, spelt);
    put_word(w, spelt, "");
}

/* -------------------------------------------------------------------------------------- the grammar */

static void phrase(writer *w, int depth, bool *plural, int before) {
    static const char *const noun_ending[] = {"", "s"};
    *plural = chance(w, 0.25);
    word_with(w, SIA_WORD_DETERMINER, before, 0.4);
    uint64_t noun = class_bits(w, SIA_WORD_NOUN);
    if (chance(w, 0.3)) word_with(w, SIA_WORD_ADJECTIVE, rank_of(w, SIA_WORD_NOUN, noun), 0.4);
    word_from(w, SIA_WORD_NOUN, noun, noun_ending[*plural]);
    if (depth > 0 || !chance(w, 0.25)) return;
    bool inner;
    int preposition = word(w, SIA_WORD_PREPOSITION);
    phrase(w, depth + 1, &inner, preposition);
}

static void fact(writer *w) {
    enum { RELATIONS = 4 };
    uint64_t who = name_bits(w);
    uint64_t relation = sia_mix(who ^ next(w) % RELATIONS);
    name_from(w, who);
    if (w->tally) w->tally[SIA_WORD_RELATION]++;
    word_from(w, SIA_WORD_RELATION, relation, "");
    uint64_t value = sia_mix(relation);
    if (value & 1) {
        name_from(w, sia_mix(value));
    } else {
        if (w->tally) w->tally[SIA_WORD_NOUN]++;
        word_from(w, SIA_WORD_NOUN, sia_mix(value), "");
    }
}

static void object(writer *w) {
    bool plural;
    double u = (double)(next(w) >> 11) * 0x1p-53;
    if (u < 0.4)
        phrase(w, 0, &plural, -1);
    else if (u < 0.55)
        word(w, SIA_WORD_PRONOUN);
    else if (u < 0.6)
        name_from(w, name_bits(w));
}

static void clause(writer *w) {
    static const char *const verb_ending[] = {"", "n", "d", "r"};
    bool plural = false, inner;
    if (chance(w, 0.06)) {
        fact(w);
        return;
    }
    if (chance(w, 0.2)) word(w, SIA_WORD_ADVERB);
    double subject = (double)(next(w) >> 11) * 0x1p-53;
    int pronoun = -1;
    if (subject < 0.55)
        pronoun = word(w, SIA_WORD_PRONOUN);
    else if (subject < 0.67)
        name_from(w, name_bits(w));
    else
        phrase(w, 0, &plural, -1);
    if (chance(w, 0.35)) word_with(w, SIA_WORD_AUXILIARY, pronoun, 0.6);
    uint64_t verb = class_bits(w, SIA_WORD_VERB);
    bool past = draw(w, DRAW_TENSE) & 1;
    int verb_rank = word_from(w, SIA_WORD_VERB, verb, verb_ending[2 * past + plural]);
    object(w);
    while (chance(w, 0.35)) {
        int preposition = word_with(w, SIA_WORD_PREPOSITION, verb_rank, 0.5);
        if (chance(w, 0.1))
            name_from(w, name_bits(w));
        else
            phrase(w, 0, &inner, preposition);
    }
}

static void sentence(writer *w) {
    w->capital = true;
    clause(w);
    while (chance(w, 0.5)) {
        if (!w->tally && chance(w, 0.5)) put(w, ",", 1);
        word(w, SIA_WORD_CONJUNCTION);
        clause(w);
    }
    if (w->tally) return;
    put(w, ".", 1);
    if (chance(w, 0.2)) put(w, "\n\n", 2);
}

/* ------------------------------------------------------------------------------------------- the source */

static void start_document(writer *w, uint64_t seed, uint64_t n) {
    uint64_t document = sia_random_stream(seed, n);
    w->stream = sia_random_stream(document, 1);
    w->blocks = sia_random_stream(document, 2);
    uint64_t phases = sia_random_stream(document, 3);
    for (int k = 0; k < DOCUMENT; k++)
        w->phase[k] = (int64_t)sia_random_below(phases, (uint64_t)k, (uint64_t)1 << scales[k].log_length);
}

static void fill_slots(sia_source *s) {
    double weight = 0;
    for (int k = 0; k < SCALES; k++) {
        s->scale_upto[k] = (float)(weight += scales[k].weight);
        double sum = 0, upto = 0;
        for (int m = 0; m < scales[k].slots; m++) sum += 1.0 / (m + 1);
        for (int m = 0; m < scales[k].slots; m++) s->slot_upto[k][m] = (float)((upto += 1.0 / (m + 1)) / sum);
    }
}

sia_status sia_source_create(sia_source **out, uint64_t seed, int64_t words, sia_error *err) {
    *out = NULL;
    if (words < 1 || words > (int64_t)1 << 32)
        return sia_fail(err, SIA_ARGUMENT, "documents of %lld words: want 1 to 2^32", (long long)words);
    sia_source *s = calloc(1, sizeof *s);
    if (!s) return sia_fail_memory(err, sizeof *s, "generated text");
    s->seed = seed;
    s->words = words;
    fill_slots(s);
    /* How often the grammar uses each class: it is run once, counting only. */
    double tally[SIA_WORD_CLASSES] = {0};
    writer w = {.source = s, .tally = tally};
    start_document(&w, 0, 0);
    for (int i = 0; i < 20000; i++) sentence(&w);
    sia_status status = sia_lexicon_create(&s->lexicon, tally, err);
    if (status) {
        sia_source_destroy(s);
        return status;
    }
    *out = s;
    return SIA_OK;
}

void sia_source_destroy(sia_source *s) {
    if (!s) return;
    sia_lexicon_destroy(s->lexicon);
    free(s);
}

sia_status sia_source_document(const sia_source *s, uint64_t n, sia_stopped *stopped, char **text,
                               size_t *length, sia_error *err) {
    writer w = {.source = s};
    bool stop = false;
    start_document(&w, s->seed, n);
    while (w.t < s->words && !w.failed && !(stop = stopped && stopped())) sentence(&w);
    /* A text file's last line ends. */
    while (w.length && w.text[w.length - 1] == '\n') w.length--;
    put(&w, "\n", 1);
    if (w.failed || stop) {
        free(w.text);
        return stop ? sia_fail(err, SIA_STOPPED, "stopped")
                    : sia_fail_memory(err, w.length + 1, "generated text");
    }
    *text = w.text;
    *length = w.length;
    return SIA_OK;
}
