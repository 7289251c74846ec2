/* SPDX-License-Identifier: MIT
 *
 * Samples of the needle task: see haystack.h. The sentences are encoded one by one, and as much text is
 * taken around them as makes the length exact. */
#include "data/haystack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

/* Even places are for training, odd ones for validation. */
static const char *const cities[] = {
    "Paris",     "London",   "Madrid",   "Berlin",     "Vienna",    "Rome",      "Lisbon",    "Dublin",
    "Oslo",      "Prague",   "Warsaw",   "Athens",     "Budapest",  "Helsinki",  "Stockholm", "Bern",
    "Geneva",    "Zurich",   "Munich",   "Hamburg",    "Cologne",   "Milan",     "Naples",    "Turin",
    "Venice",    "Florence", "Seville",  "Valencia",   "Porto",     "Lyon",      "Nice",      "Bordeaux",
    "Brussels",  "Antwerp",  "Ghent",    "Rotterdam",  "Utrecht",   "Tokyo",     "Osaka",     "Kyoto",
    "Nagoya",    "Seoul",    "Busan",    "Beijing",    "Shanghai",  "Nanjing",   "Taipei",    "Hanoi",
    "Bangkok",   "Manila",   "Jakarta",  "Bandung",    "Delhi",     "Mumbai",    "Chennai",   "Kolkata",
    "Karachi",   "Lahore",   "Tehran",   "Baghdad",    "Damascus",  "Beirut",    "Amman",     "Cairo",
    "Tunis",     "Algiers",  "Rabat",    "Dakar",      "Accra",     "Lagos",     "Abuja",     "Nairobi",
    "Kampala",   "Lusaka",   "Harare",   "Maputo",     "Durban",    "Pretoria",  "Luanda",    "Kinshasa",
    "Toronto",   "Montreal", "Ottawa",   "Calgary",    "Vancouver", "Boston",    "Chicago",   "Seattle",
    "Denver",    "Dallas",   "Houston",  "Atlanta",    "Miami",     "Phoenix",   "Portland",  "Havana",
    "Bogota",    "Medellin", "Quito",    "Lima",       "Santiago",  "Valdivia",  "Rosario",   "Cordoba",
    "Recife",    "Salvador", "Brasilia", "Manaus",     "Sydney",    "Perth",     "Adelaide",  "Brisbane",
    "Melbourne", "Hobart",   "Auckland", "Wellington", "Dunedin",   "Moscow",    "Kazan",     "Riga",
    "Vilnius",   "Tallinn",  "Minsk",    "Odessa",     "Sofia",     "Bucharest", "Belgrade",  "Zagreb"};
enum { CITIES = sizeof cities / sizeof *cities, CITIES_OF_A_SET = CITIES / 2, PIECE = 1024 };

/* ---------------------------------------------------------------------------------------------- drawing */

typedef struct draws {
    uint64_t stream, used;
} draws;

static uint64_t below(draws *d, uint64_t bound) { return sia_random_below(d->stream, d->used++, bound); }

bool sia_haystack_for_validation(uint64_t number) { return sia_mix(number ^ 0x6e6565646c65u) >> 63; }

static void draw_number(const sia_haystack *h, int digits, draws *d, char *text) {
    uint64_t smallest = 1, number;
    for (int i = 1; i < digits; i++) smallest *= 10;
    do number = smallest + below(d, 9 * smallest);
    while (sia_haystack_for_validation(number) != h->validation);
    (void)snprintf(text, SIA_DIGITS_MOST + 1, "%llu", (unsigned long long)number);
}

/* Needles with different cities and, when there are enough numbers, different numbers. */
static void draw_needles(const sia_haystack *h, int count, int digits, draws *d, sia_needle *needles) {
    for (int i = 0; i < count; i++) {
        bool again = true;
        while (again) {
            again = false;
            (void)snprintf(needles[i].city, sizeof needles[i].city, "%s",
                           cities[2 * below(d, CITIES_OF_A_SET) + (h->validation && !h->known_cities)]);
            draw_number(h, digits, d, needles[i].number);
            for (int j = 0; j < i; j++)
                again = again || strcmp(needles[j].city, needles[i].city) == 0 ||
                        (digits > 2 && strcmp(needles[j].number, needles[i].number) == 0);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- writing */

/* Tokens of the sentences, one after another. */
typedef struct pieces {
    const sia_haystack *h;
    uint32_t ids[PIECE * (SIA_NEEDLES_MOST + 2)];
    int64_t count;
    sia_status status;
    sia_error *err;
} pieces;

static void put_text(pieces *p, const char *text) {
    size_t count = 0, bytes = strlen(text);
    if (p->status) return;
    p->status = sia_tokenizer_encode(p->h->tokenizer, text, bytes, p->ids + p->count, &count, p->err);
    p->count += (int64_t)count;
}

static bool by_digits(const sia_haystack *h) { return h->one_token_a_digit || h->numbers_only; }

static void put_number(pieces *p, const char *number) {
    if (!by_digits(p->h)) {
        put_text(p, number);
        return;
    }
    for (; *number; number++) put_text(p, (char[]){*number, 0});
}

/* After a space, which stays by itself when the city is to have the tokens that it has in the answer. */
static void put_city(pieces *p, const char *city) {
    char text[32];
    if (p->h->alike) put_text(p, " ");
    (void)snprintf(text, sizeof text, "%s%s", p->h->alike ? "" : " ", city);
    put_text(p, text);
}

/* Pieces that the splitting pattern would cut apart anyway may be encoded one by one: the ids are those of
 * the whole sentence. */
static void put_sentence(pieces *p, const sia_needle *needle) {
    char text[32];
    put_text(p, " The special magic");
    put_city(p, needle->city);
    put_text(p, " number is");
    if (by_digits(p->h) || p->h->alike) {
        put_text(p, " ");
        put_number(p, needle->number);
    } else {
        (void)snprintf(text, sizeof text, " %s", needle->number);
        put_text(p, text);
    }
    put_text(p, ".");
}

/* City and number as the answer has them. */
static void put_pair(pieces *p, const sia_needle *needle) {
    put_text(p, needle->city);
    put_text(p, "=");
    put_number(p, needle->number);
}

static void put_needle(pieces *p, sia_needle *needle) {
    needle->first = p->count;
    if (p->h->literal) {
        put_text(p, " ");
        put_pair(p, needle);
        put_text(p, ";");
    } else {
        put_sentence(p, needle);
    }
    needle->count = p->count - needle->first;
}

static void put_question(pieces *p, const sia_needle *needles, int count) {
    put_text(p, "\nWhat are the special magic numbers");
    for (int i = 0; p->h->name_cities && i < count; i++) {
        put_text(p, i ? "," : " of");
        put_city(p, needles[i].city);
    }
    put_text(p, "?\n");
}

static void put_answer(pieces *p, sia_needle *needles, int count) {
    for (int i = 0; i < count; i++) {
        if (i) put_text(p, ";");
        needles[i].answer_first = p->count;
        put_pair(p, &needles[i]);
        needles[i].answer_count = p->count - needles[i].answer_first;
    }
}

static int by_place(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Text and needles to ids[1 ..], needle i before the text token places[i]; moves the needles' places to
 * where they are in ids. */
static sia_status lay_out(const pieces *p, sia_needle *needles, int count, int64_t text_first,
                          int64_t text_count, const int64_t *places, uint32_t *ids) {
    int64_t at = 1, used = 0;
    for (int i = 0; i <= count; i++) {
        int64_t until = i < count ? places[i] : text_count;
        sia_status status = sia_corpus_read(p->h->corpus, text_first + used, until - used, ids + at, p->err);
        if (status) return status;
        at += until - used;
        used = until;
        if (i == count) break;
        memcpy(ids + at, p->ids + needles[i].first, (size_t)needles[i].count * sizeof *ids);
        needles[i].first = at;
        at += needles[i].count;
    }
    return SIA_OK;
}

/* Fisher and Yates. */
static void shuffle(sia_needle *needles, int count, draws *d) {
    for (int i = count - 1; i > 0; i--) {
        int j = (int)below(d, (uint64_t)i + 1);
        sia_needle swap = needles[i];
        needles[i] = needles[j];
        needles[j] = swap;
    }
}

static sia_status check(const sia_haystack *h, int needles, int digits, sia_error *err) {
    if (needles < 1 || needles > SIA_NEEDLES_MOST)
        return sia_fail(err, SIA_ARGUMENT, "%d needles: want 1 to %d", needles, SIA_NEEDLES_MOST);
    if (digits < 1 || digits > SIA_DIGITS_MOST)
        return sia_fail(err, SIA_ARGUMENT, "numbers of %d digits: want 1 to %d", digits, SIA_DIGITS_MOST);
    if (sia_tokenizer_size(h->tokenizer) != sia_corpus_vocabulary(h->corpus))
        return sia_fail(err, SIA_ARGUMENT, "the tokenizer has %u tokens, the corpus is for %u",
                        sia_tokenizer_size(h->tokenizer), sia_corpus_vocabulary(h->corpus));
    return SIA_OK;
}

/* Which targets are scored: all from `answer` on, or the numbers alone. */
static void make_mask(const sia_haystack *h, int64_t answer, const sia_needle *asked, int count,
                      uint8_t *mask) {
    for (int64_t i = 0; i < h->length; i++) mask[i] = !h->numbers_only && i + 1 >= answer;
    for (int i = 0; h->numbers_only && i < count; i++) {
        int64_t end = asked[i].answer_first + asked[i].answer_count,
                digits = (int64_t)strlen(asked[i].number);
        for (int64_t at = end - digits; at < end; at++) mask[at - 1] = 1;
    }
}

static sia_status make(pieces *p, draws *d, int count, sia_needle needles[SIA_NEEDLES_MOST], uint32_t *ids,
                       uint8_t *mask) {
    const sia_haystack *h = p->h;
    for (int i = 0; i < count; i++) put_needle(p, &needles[i]);
    int64_t sentences = p->count;
    /* The order of the answer; the needles' places in the text are drawn for the order they have now. */
    sia_needle asked[SIA_NEEDLES_MOST];
    memcpy(asked, needles, sizeof asked);
    if (h->name_cities) shuffle(asked, count, d);
    put_question(p, asked, count);
    int64_t answer = p->count;
    put_answer(p, asked, count);
    if (p->status) return p->status;
    int64_t text = h->length - p->count; /* of length + 1 tokens the first is the end-of-text */
    if (text < 0)
        return sia_fail(
            p->err, SIA_ARGUMENT,
            "length %lld: the needles, question and answer alone take %lld tokens: want fewer needles or "
            "digits, or a longer length",
            (long long)h->length, (long long)p->count);
    if (text > sia_corpus_tokens(h->corpus))
        return sia_fail(p->err, SIA_ARGUMENT, "length %lld: the corpus has %lld tokens", (long long)h->length,
                        (long long)sia_corpus_tokens(h->corpus));
    int64_t first = (int64_t)below(d, (uint64_t)(sia_corpus_tokens(h->corpus) - text) + 1),
            places[SIA_NEEDLES_MOST] = {0};
    for (int i = 0; i < count; i++) places[i] = (int64_t)below(d, (uint64_t)text + 1);
    qsort(places, (size_t)count, sizeof *places, by_place);
    ids[0] = sia_tokenizer_end_of_text(h->tokenizer);
    sia_status status = lay_out(p, needles, count, first, text, places, ids);
    if (status) return status;
    int64_t tail = h->length + 1 - (p->count - sentences), moved = tail - sentences;
    memcpy(ids + tail, p->ids + sentences, (size_t)(p->count - sentences) * sizeof *ids);
    for (int i = 0; i < count; i++) {
        asked[i].answer_first += moved;
        for (int j = 0; j < count; j++)
            if (strcmp(asked[i].city, needles[j].city) == 0) asked[i].first = needles[j].first;
    }
    make_mask(h, answer + moved, asked, count, mask);
    memcpy(needles, asked, sizeof asked);
    return SIA_OK;
}

sia_status sia_haystack_read(const sia_haystack *h, uint64_t n, uint32_t *ids, uint8_t *mask,
                             sia_needle *needles, sia_error *err) {
    int count = h->needles ? h->needles : SIA_NEEDLES_USUAL,
        digits = h->digits ? h->digits : SIA_DIGITS_USUAL;
    sia_status status = check(h, count, digits, err);
    if (status) return status;
    sia_needle own[SIA_NEEDLES_MOST] = {0};
    draws d = {.stream = sia_random_stream(sia_random_stream(h->seed, n), h->validation)};
    pieces *p = malloc(sizeof *p);
    if (!p) return sia_fail_memory(err, sizeof *p, "haystack");
    p->h = h;
    p->count = 0;
    p->status = SIA_OK;
    p->err = err;
    draw_needles(h, count, digits, &d, own);
    status = make(p, &d, count, own, ids, mask);
    for (int i = 0; !status && needles && i < count; i++) needles[i] = own[i];
    free(p);
    return status;
}
