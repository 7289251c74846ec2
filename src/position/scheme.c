/* SPDX-License-Identifier: MIT
 *
 * Schemes: names to slots and back, the parameters' defaults and ranges, and what each slot computes.
 *
 * CONTRIBUTING.md has the steps to add one. No kernel changes. */
#include "position/scheme.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"

/* ------------------------------------------------------------------------------------------------ names */

typedef enum slot { ROTARY, ROW, DISTANCE } slot;

static const struct word {
    const char *name;
    slot slot;
    int value;
} words[] = {
    {"nope", ROTARY, SIA_ROTARY_NONE},       {"rope", ROTARY, SIA_ROTARY_ROPE},
    {"prope", ROTARY, SIA_ROTARY_PROPE},     {"ntk", ROTARY, SIA_ROTARY_NTK},
    {"yarn", ROTARY, SIA_ROTARY_YARN},       {"logn", ROW, SIA_ROW_LOGN},
    {"sharp", ROW, SIA_ROW_SHARP},           {"si", DISTANCE, SIA_DISTANCE_SI},
    {"alibi", DISTANCE, SIA_DISTANCE_ALIBI},
};
enum { WORDS = sizeof words / sizeof *words };

static const char *const slot_names[] = {"rotary", "row", "distance"};

const char *const *sia_scheme_list(void) {
    static const char *const list[] = {"rope",      "prope",      "nope",        "rope+ntk", "rope+yarn",
                                       "logn+rope", "logn+prope", "logn+ntk",    "alibi",    "si+prope",
                                       "si+rope",   "si+nope",    "sharp+prope", NULL};
    return list;
}

static const struct word *find_word(const char *name, size_t length) {
    for (int i = 0; i < WORDS; i++)
        if (strlen(words[i].name) == length && memcmp(words[i].name, name, length) == 0) return &words[i];
    return NULL;
}

static const char *slot_word(slot which, int value) {
    for (int i = 0; i < WORDS; i++)
        if (words[i].slot == which && words[i].value == value) return words[i].name;
    return "own";
}

bool sia_extends_rope(sia_rotary rotary) { return rotary == SIA_ROTARY_NTK || rotary == SIA_ROTARY_YARN; }

sia_scheme sia_scheme_to_train(sia_scheme scheme) {
    if (sia_extends_rope(scheme.rotary)) scheme.rotary = SIA_ROTARY_ROPE;
    return scheme;
}

/* Settings that belong to a word. */
static const struct {
    const char *setting, *word;
} owners[] = {
    {"tau", "si"},           {"alpha", "si"},         {"beta", "si"},
    {"sharp", "sharp"},      {"rotary_base", "rope"}, {"rotary_base", "ntk"},
    {"rotary_base", "yarn"}, {"prope_base", "prope"}, {"prope_share", "prope"},
    {"scalar_rate", "logn"}, /* of its s, which training alone has */
};

bool sia_scheme_uses(sia_scheme scheme, const char *setting) {
    bool owned = false;
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        if (strcmp(owners[i].setting, setting) != 0) continue;
        const char *word = owners[i].word;
        if (!strcmp(slot_word(ROTARY, scheme.rotary), word) || !strcmp(slot_word(ROW, scheme.row), word) ||
            !strcmp(slot_word(DISTANCE, scheme.distance), word))
            return true;
        owned = true;
    }
    return !owned;
}

/* "rope+ntk" says rope twice, and may. */
static bool is_rope_extension(const struct word *word) {
    return word->slot == ROTARY && sia_extends_rope((sia_rotary)word->value);
}

static sia_status unknown_word(const char *name, const char *at, size_t length, sia_error *err) {
    char list[256] = "";
    for (size_t i = 0, used = 0; i < WORDS && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 i == 0          ? ""
                                 : i < WORDS - 1 ? ", "
                                                 : " or ",
                                 words[i].name);
    if (!*name) return sia_fail(err, SIA_SCHEME, "scheme: empty; want %s, joined by '+'", list);
    if (!length)
        return sia_fail(err, SIA_SCHEME, "scheme %.64s: no word at one end of '+'; want %s", name, list);
    return sia_fail(err, SIA_SCHEME, "scheme %.64s: unknown word '%.*s'; want %s, joined by '+'", name,
                    (int)(length < 32 ? length : 32), at, list);
}

/* ntk after rope is one scheme, and rope after ntk would read as if it took ntk away: the name is said. */
static sia_status two_words(const char *name, const struct word *before, const struct word *word,
                            sia_error *err) {
    char hint[48] = "";
    if (is_rope_extension(before) && word->value == SIA_ROTARY_ROPE)
        (void)snprintf(hint, sizeof hint, "; want rope+%s", before->name);
    return sia_fail(err, SIA_SCHEME, "scheme %.64s: '%s' and '%s' both fill the %s slot%s", name,
                    before->name, word->name, slot_names[word->slot], hint);
}

sia_status sia_scheme_parse(const char *name, sia_scheme *scheme, sia_error *err) {
    if (!name || !scheme)
        return sia_fail(err, SIA_ARGUMENT, "scheme: want a name and a place for the result, got NULL");
    const struct word *slots[3] = {0};
    for (const char *at = name;; at++) {
        size_t length = strcspn(at, "+");
        const struct word *word = find_word(at, length);
        if (!word) return unknown_word(name, at, length, err);
        const struct word *before = slots[word->slot];
        if (before == word)
            return sia_fail(err, SIA_SCHEME, "scheme %.64s: '%s' is there twice", name, word->name);
        if (before && !(is_rope_extension(word) && before->value == SIA_ROTARY_ROPE))
            return two_words(name, before, word, err);
        slots[word->slot] = word;
        at += length;
        if (!*at) break;
    }
    *scheme =
        (sia_scheme){.rotary = slots[ROTARY] ? (sia_rotary)slots[ROTARY]->value : SIA_ROTARY_NONE,
                     .row = slots[ROW] ? (sia_row)slots[ROW]->value : SIA_ROW_NONE,
                     .distance = slots[DISTANCE] ? (sia_distance)slots[DISTANCE]->value : SIA_DISTANCE_NONE};
    return SIA_OK;
}

/* Row, distance, rotary, in this order, as the paper names them: "rope+ntk" alone but "logn+ntk", "alibi" but
 * "si+nope" and "logn+nope". */
char *sia_scheme_name(sia_scheme scheme, char name[SIA_SCHEME_NAME]) {
    const char *part[4];
    int parts = 0;
    if (scheme.row != SIA_ROW_NONE) part[parts++] = slot_word(ROW, (int)scheme.row);
    if (scheme.distance != SIA_DISTANCE_NONE) part[parts++] = slot_word(DISTANCE, (int)scheme.distance);
    if (parts == 0 && sia_extends_rope(scheme.rotary)) part[parts++] = "rope";
    int bias_only =
        parts == 1 && (scheme.distance == SIA_DISTANCE_ALIBI || scheme.distance == SIA_DISTANCE_OWN);
    if (scheme.rotary != SIA_ROTARY_NONE || !bias_only) part[parts++] = slot_word(ROTARY, (int)scheme.rotary);
    size_t used = 0;
    for (int i = 0; i < parts; i++)
        used += (size_t)snprintf(name + used, SIA_SCHEME_NAME - used, "%s%s", i ? "+" : "", part[i]);
    return name;
}

/* ---------------------------------------------------------------------------------------------- parameters */

static sia_status check_shape(const sia_attention_config *c, sia_error *err) {
    if (c->heads < 1 || c->heads > 4096)
        return sia_fail(err, SIA_ARGUMENT, "heads %d: want 1 to 4096", c->heads);
    if (c->kv_heads < 1 || c->heads % c->kv_heads)
        return sia_fail(err, SIA_ARGUMENT, "kv_heads %d: want a divisor of heads, %d", c->kv_heads, c->heads);
    if (c->head_dim < 8 || c->head_dim > 256 || c->head_dim % 8)
        return sia_fail(err, SIA_ARGUMENT, "head_dim %d: want a multiple of 8, from 8 to 256", c->head_dim);
    if (c->threads < 1 || c->threads > SIA_MAX_THREADS)
        return sia_fail(err, SIA_ARGUMENT, "threads %d: want 1 to %d, or 0 for all processors", c->threads,
                        SIA_MAX_THREADS);
    if (c->pairs != SIA_PAIRS_HALVES && c->pairs != SIA_PAIRS_ADJACENT)
        return sia_fail(err, SIA_ARGUMENT, "pairs %d: want halves or adjacent", (int)c->pairs);
    return SIA_OK;
}

static sia_status check_lengths(const sia_attention_config *c, sia_error *err) {
    if (c->train_len < 1 || c->train_len > SIA_MAX_POSITION)
        return sia_fail(err, SIA_ARGUMENT, "train_len %lld: want 1 to %lld", (long long)c->train_len,
                        (long long)SIA_MAX_POSITION);
    if (c->eval_len < 1 || c->eval_len > SIA_MAX_POSITION)
        return sia_fail(err, SIA_ARGUMENT, "eval_len %lld: want 1 to %lld", (long long)c->eval_len,
                        (long long)SIA_MAX_POSITION);
    return SIA_OK;
}

/* Every real of a configuration: its range is checked, and ranks of a ring compare it. */
static const struct {
    const char *name;
    size_t offset;
} reals[] = {{"tau", offsetof(sia_attention_config, tau)},
             {"alpha", offsetof(sia_attention_config, alpha)},
             {"beta", offsetof(sia_attention_config, beta)},
             {"sharp", offsetof(sia_attention_config, sharp)},
             {"rotary_base", offsetof(sia_attention_config, rotary_base)},
             {"prope_base", offsetof(sia_attention_config, prope_base)},
             {"prope_share", offsetof(sia_attention_config, prope_share)}};
enum { REALS = sizeof reals / sizeof *reals };

/* A field that is new does not compile before it is here: a real in the table, another one in sia_config_text too. */
_Static_assert(offsetof(sia_attention_config, pairs) ==
                   4 * sizeof(int) + 2 * sizeof(int64_t) + REALS * sizeof(double),
               "a field of sia_attention_config that no table of scheme.c knows");
_Static_assert(SIA_CONFIG_TEXT >= 7 * 24 + REALS * 32, "room for sia_config_text");

static double real_of(const sia_attention_config *c, int i) {
    double value;
    memcpy(&value, (const char *)c + reals[i].offset, sizeof value);
    return value;
}

static int prope_turning(const sia_attention_config *c) {
    return (int)lround(c->prope_share * c->head_dim / 2);
}

static sia_status check_reals(sia_scheme scheme, const sia_attention_config *c, sia_error *err) {
    for (int i = 0; i < REALS; i++) {
        double value = real_of(c, i);
        if (!(value >= 1e-9 && value <= 1e15))
            return sia_fail(err, SIA_ARGUMENT, "%s %g: want a number from 1e-9 to 1e15", reals[i].name,
                            value);
    }
    if (c->prope_share > 1)
        return sia_fail(err, SIA_ARGUMENT, "prope_share %g: want at most 1", c->prope_share);
    if (scheme.rotary == SIA_ROTARY_PROPE && prope_turning(c) == 0)
        return sia_fail(
            err, SIA_ARGUMENT,
            "prope_share %g: turns none of the %d pairs; want at least 1/%d, or nope in the place of prope",
            c->prope_share, c->head_dim / 2, c->head_dim);
    double least = c->alpha * log(c->alpha);
    if (scheme.distance == SIA_DISTANCE_SI && c->beta < least)
        return sia_fail(err, SIA_ARGUMENT,
                        "beta %g: want beta >= alpha ln alpha, about %g; below it a_0^2 is negative", c->beta,
                        least);
    return SIA_OK;
}

sia_status sia_config_complete(sia_scheme *scheme, sia_attention_config *c, sia_error *err) {
    if (c->kv_heads == 0) c->kv_heads = c->heads;
    if (c->train_len == 0) c->train_len = 4096;
    if (c->eval_len == 0) c->eval_len = c->train_len;
    if (c->tau == 0) c->tau = 10;
    if (c->alpha == 0) c->alpha = exp(0.5);
    if (c->beta == 0) c->beta = exp(0.5);
    if (c->sharp == 0) c->sharp = 2;
    if (c->rotary_base == 0) c->rotary_base = 10000;
    if (c->prope_base == 0) c->prope_base = (double)c->train_len / 4;
    if (c->prope_share == 0) c->prope_share = 0.5;
    if (c->fill) {
        if (scheme->distance != SIA_DISTANCE_NONE)
            return sia_fail(err, SIA_SCHEME, "fill: the scheme's distance slot already holds '%s'",
                            slot_word(DISTANCE, (int)scheme->distance));
        scheme->distance = SIA_DISTANCE_OWN;
    }
    sia_status status = check_shape(c, err);
    if (!status) status = check_lengths(c, err);
    return status ? status : check_reals(*scheme, c, err);
}

char *sia_config_text(const sia_attention_config *c, char text[SIA_CONFIG_TEXT]) {
    size_t used = (size_t)snprintf(text, SIA_CONFIG_TEXT, "%d %d %d %lld %lld %d %d", c->heads, c->kv_heads,
                                   c->head_dim, (long long)c->train_len, (long long)c->eval_len,
                                   (int)c->pairs, c->fill != NULL);
    for (int i = 0; i < REALS; i++) /* %a: every bit */
        used += (size_t)snprintf(text + used, SIA_CONFIG_TEXT - used, " %a", real_of(c, i));
    return text;
}

/* ---------------------------------------------------------------------------------------------- the slots */

void sia_distance_values(sia_scheme scheme, const sia_attention_config *c, int head, int64_t first,
                         int64_t count, double *scale, double *bias) {
    if (scheme.distance == SIA_DISTANCE_OWN) {
        c->fill(c->fill_context, head, c->heads, first, count, scale, bias);
        return;
    }
    double slope = exp2(-8.0 * (head + 1) / c->heads);
    for (int64_t i = 0; i < count; i++) {
        double t = (double)(first + i);
        scale[i] = 1;
        bias[i] = 0;
        if (scheme.distance == SIA_DISTANCE_ALIBI) bias[i] = -slope * t;
        if (scheme.distance == SIA_DISTANCE_SI) {
            double square = 2 * (log1p(t / c->tau) - log(c->alpha) + c->beta / c->alpha);
            scale[i] = sqrt(square > 0 ? square : 0); /* at beta = alpha ln alpha, rounding can go below 0 */
            bias[i] = -square + c->beta / c->alpha;
        }
    }
}

/* Wavelengths that fit the training length at least this often are left alone by yarn, and those that fit
 * less than once are interpolated; between, a ramp. */
enum { YARN_SLOW = 1, YARN_FAST = 32 };

static double yarn_frequency(double frequency, double train_len, double stretch) {
    double turns = train_len * frequency / (2 * M_PI);
    double keep = (turns - YARN_SLOW) / (YARN_FAST - YARN_SLOW);
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    return (1 - keep) * frequency / stretch + keep * frequency;
}

int sia_rotary_frequencies(sia_scheme scheme, const sia_attention_config *c, double *frequency) {
    int d = c->head_dim, pairs = d / 2, turning = scheme.rotary == SIA_ROTARY_NONE ? 0 : pairs;
    double stretch = (double)c->eval_len / (double)c->train_len, base = c->rotary_base;
    if (scheme.rotary == SIA_ROTARY_NTK && stretch > 1) base *= pow(stretch, (double)d / (d - 2));
    if (scheme.rotary == SIA_ROTARY_PROPE) turning = prope_turning(c);
    for (int i = 0; i < pairs; i++) {
        frequency[i] = 0;
        if (i >= turning) continue;
        if (scheme.rotary == SIA_ROTARY_PROPE)
            frequency[i] = turning == 1 ? 1 : pow(c->prope_base, -(double)i / (turning - 1));
        else
            frequency[i] = pow(base, -2.0 * i / d);
        if (scheme.rotary == SIA_ROTARY_YARN && stretch > 1)
            frequency[i] = yarn_frequency(frequency[i], (double)c->train_len, stretch);
    }
    return turning;
}

double sia_row_constant(sia_scheme scheme, const sia_attention_config *c) {
    double constant = scheme.row == SIA_ROW_SHARP ? c->sharp : 1;
    double stretch = (double)c->eval_len / (double)c->train_len;
    if (scheme.rotary == SIA_ROTARY_YARN && stretch > 1) constant *= pow(0.1 * log(stretch) + 1, 2);
    return constant;
}
