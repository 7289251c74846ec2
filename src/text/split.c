/* SPDX-License-Identifier: MIT
 *
 * GPT-2's pattern, twice: in PCRE2, and as a scanner.
 *
 * The scanner sees text as characters of four classes: letter (\p{L}), number (\p{N}), space (\s) and other.
 * A piece is then
 *
 *     an apostrophe and s, t, re, ve, m, ll or d;
 *     else a run of one class that is not space, with one U+0020 before it if there is one;
 *     else a run of spaces, without its last one if another character follows and the run has more than one.
 *
 * The third line is \s+(?!\S)|\s+ : the first half gives back one space so that a word can have it. */
#include "text/split.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "base/threads.h"

/* Unicode's White_Space, spelled out. */
#define SPACES                                                                                               \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{" \
    "3000}"
#define PATTERN                                                                                          \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES "\\p{L}\\p{N}]+|[" SPACES "]+(?![^" SPACES \
    "])|[" SPACES "]+"
/* One run of one class; the group that took part names it. */
#define CLASSES "(\\p{L}+)|(\\p{N}+)|([" SPACES "]+)|([^" SPACES "\\p{L}\\p{N}]+)"

/* INVALID is what no text run goes on with: the end, and bytes that are not UTF-8. */
enum { INVALID, LETTER, NUMBER, SPACE, OTHER };

enum { CODE_POINTS = 0x110000, PAGE = 256 };

static struct {
    pthread_once_t once;
    sia_error failure;
    pcre2_code *pattern, *classes;
    pcre2_match_data *match; /* needed when a page of classes is filled, one at a time */
} split = {.once = PTHREAD_ONCE_INIT};

/* The class of every code point; 0 is not known yet. Filled by pages of 256 when one of them is first seen,
 * since all of Unicode would take 15 ms; what is never touched takes no memory. Accessed atomically. */
static uint8_t class_of[CODE_POINTS];

/* -------------------------------------------------------------------------------------------------- UTF-8 */

static inline bool follows(unsigned char c) { return (c & 0xc0) == 0x80; }

/* Decodes the first character. Returns its length, 0 when it is not valid. */
static inline size_t decode(const unsigned char *s, size_t bytes, uint32_t *code) {
    unsigned char c = s[0];
    if (c < 0x80) {
        *code = c;
        return 1;
    }
    if (c < 0xc2 || c > 0xf4) return 0;
    if (c < 0xe0) {
        if (bytes < 2 || !follows(s[1])) return 0;
        *code = (uint32_t)(c & 0x1f) << 6 | (s[1] & 0x3f);
        return 2;
    }
    if (c < 0xf0) {
        if (bytes < 3 || !follows(s[1]) || !follows(s[2])) return 0;
        *code = (uint32_t)(c & 0x0f) << 12 | (uint32_t)(s[1] & 0x3f) << 6 | (s[2] & 0x3f);
        return *code < 0x800 || (*code >= 0xd800 && *code < 0xe000) ? 0 : 3;
    }
    if (bytes < 4 || !follows(s[1]) || !follows(s[2]) || !follows(s[3])) return 0;
    *code = (uint32_t)(c & 0x07) << 18 | (uint32_t)(s[1] & 0x3f) << 12 | (uint32_t)(s[2] & 0x3f) << 6 |
            (s[3] & 0x3f);
    return *code < 0x10000 || *code >= CODE_POINTS ? 0 : 4;
}

/* Of White_Space, what is beyond ASCII. */
static bool is_wide_space(uint32_t c) {
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* A byte that starts a character is never inside of another: what is whole seen from here is so from the front. */
bool sia_split_ends_character(const char *text, size_t at) {
    for (size_t back = 2; back <= 4 && back <= at; back++) {
        const unsigned char *s = (const unsigned char *)text + at - back;
        uint32_t code = 0;
        if (!follows(*s)) return decode(s, back, &code) == back && !is_wide_space(code);
    }
    return false;
}

size_t sia_utf8_length(const char *text, size_t bytes) {
    uint32_t code;
    return bytes ? decode((const unsigned char *)text, bytes, &code) : 0;
}

static size_t put_utf8(unsigned char *s, uint32_t code) {
    if (code < 0x80) {
        s[0] = (unsigned char)code;
        return 1;
    }
    if (code < 0x800) {
        s[0] = (unsigned char)(0xc0 | code >> 6);
        s[1] = (unsigned char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        s[0] = (unsigned char)(0xe0 | code >> 12);
        s[1] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        s[2] = (unsigned char)(0x80 | (code & 0x3f));
        return 3;
    }
    s[0] = (unsigned char)(0xf0 | code >> 18);
    s[1] = (unsigned char)(0x80 | (code >> 12 & 0x3f));
    s[2] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
    s[3] = (unsigned char)(0x80 | (code & 0x3f));
    return 4;
}

/* ------------------------------------------------------------------------------------------------ classes */

static sia_status compile(const char *pattern, pcre2_code **code, sia_error *err) {
    int number;
    PCRE2_SIZE offset;
    *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &number, &offset, NULL);
    if (!*code) {
        PCRE2_UCHAR sentence[128] = "";
        (void)pcre2_get_error_message(number, sentence, sizeof sentence);
        return sia_fail(err, SIA_MEMORY, "splitting pattern: PCRE2 says '%s' at %zu", (const char *)sentence,
                        offset);
    }
    /* Where the system allows no code to be made at run time, PCRE2 interprets: slower, the same result. */
    (void)pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE);
    return SIA_OK;
}

/* Fills the page that holds code, running the pattern of the classes over all of its characters in a row. Two
 * threads may come here for one page: they write the same. */
static unsigned learn_page(uint32_t code) {
    uint32_t first = code / PAGE * PAGE;
    unsigned char text[4 * PAGE];
    size_t bytes = 0, at = 0;
    for (uint32_t i = 0; i < PAGE; i++)
        if (first + i < 0xd800 || first + i >= 0xe000) bytes += put_utf8(text + bytes, first + i);
    sia_lock_take(SIA_LOCK_CLASSES);
    while (at < bytes) {
        int group = pcre2_match(split.classes, text, bytes, at, PCRE2_NO_UTF_CHECK, split.match, NULL);
        size_t end = group > 1 ? pcre2_get_ovector_pointer(split.match)[1] : bytes;
        unsigned class =
            group > 1 ? (unsigned)group - 1 : OTHER; /* the groups are in the order of the enum */
        assert(group > 1);
        while (at < end) {
            uint32_t c = first;
            at += decode(text + at, bytes - at, &c);
            __atomic_store_n(&class_of[c], (uint8_t) class, __ATOMIC_RELAXED);
        }
    }
    sia_lock_leave(SIA_LOCK_CLASSES);
    return __atomic_load_n(&class_of[code], __ATOMIC_RELAXED);
}

static void prepare(void) {
    if (compile(PATTERN, &split.pattern, &split.failure) || compile(CLASSES, &split.classes, &split.failure))
        return;
    split.match = pcre2_match_data_create_from_pattern(split.classes, NULL);
    if (!split.match)
        (void)sia_fail_memory(&split.failure, 64, "character classes");
    else
        (void)learn_page(0); /* the scanner takes ASCII as known */
}

sia_status sia_split_prepare(sia_error *err) {
    (void)pthread_once(&split.once, prepare);
    if (split.failure.status && err) *err = split.failure;
    return split.failure.status;
}

__attribute__((destructor)) static void release(void) {
    pcre2_match_data_free(split.match);
    pcre2_code_free(split.classes);
    pcre2_code_free(split.pattern);
    split.match = NULL;
    split.classes = split.pattern = NULL;
}

/* ------------------------------------------------------------------------------------------------ scanner */

/* The class of the character at s[at], and its length; INVALID and 0 at the end and where it is not UTF-8. */
static inline unsigned class_at(const unsigned char *s, size_t bytes, size_t at, size_t *length) {
    *length = 0;
    if (at >= bytes) return INVALID;
    if (s[at] < 0x80) {
        *length = 1;
        return class_of[s[at]];
    }
    uint32_t code;
    *length = decode(s + at, bytes - at, &code);
    if (!*length) return INVALID;
    unsigned class = __atomic_load_n(&class_of[code], __ATOMIC_RELAXED);
    return class ? class : learn_page(code);
}

/* The end of the run of one class that holds s[at]. */
static inline size_t run_end(const unsigned char *s, size_t bytes, size_t at, unsigned class) {
    for (;;) {
        while (at < bytes && s[at] < 0x80) {
            if (class_of[s[at]] != class) return at;
            at++;
        }
        size_t length;
        if (class_at(s, bytes, at, &length) != class) return at;
        at += length;
    }
}

static size_t contraction(const unsigned char *s, size_t bytes) {
    if (bytes < 2) return 0;
    switch (s[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
        return 2;
    case 'r':
    case 'v':
        return bytes > 2 && s[2] == 'e' ? 3 : 0;
    case 'l':
        return bytes > 2 && s[2] == 'l' ? 3 : 0;
    default:
        return 0;
    }
}

static size_t spaces(const unsigned char *s, size_t bytes) {
    size_t at = 0, last = 0, length;
    while (class_at(s, bytes, at, &length) == SPACE) {
        last = at;
        at += length;
    }
    /* class_at left in length what stands there: 0 for the end of the valid text. */
    return length && last ? last : at;
}

size_t sia_split_next(const char *text, size_t bytes) {
    const unsigned char *s = (const unsigned char *)text;
    size_t first, second = 0;
    if (s[0] == '\'') {
        size_t length = contraction(s, bytes);
        if (length) return length;
    }
    unsigned class = class_at(s, bytes, 0, &first);
    if (s[0] == ' ') {
        unsigned next = class_at(s, bytes, 1, &second);
        if (next == INVALID) return 1;
        if (next != SPACE) return run_end(s, bytes, 1 + second, next);
    }
    if (class == SPACE) return spaces(s, bytes);
    return class == INVALID ? 1 : run_end(s, bytes, first, class);
}

/* ------------------------------------------------------------------------------------------------- blocks */

/* The first place to cut among the bytes that block b is counted from; SIZE_MAX when there is none. */
static size_t block_start(const char *text, size_t bytes, size_t b) {
    if (b == 0) return 0;
    size_t first = b * SIA_SPLIT_BLOCK, room = bytes - first;
    for (size_t i = 0; i < room && i < SIA_SPLIT_BLOCK; i++)
        if (sia_split_can_cut(text, first + i)) return first + i;
    return SIZE_MAX;
}

bool sia_split_block(const char *text, size_t bytes, size_t b, size_t *start, size_t *end) {
    *start = block_start(text, bytes, b);
    *end = bytes;
    if (*start == SIZE_MAX) return false;
    for (size_t next = b + 1; next < sia_split_blocks(bytes); next++) {
        size_t place = block_start(text, bytes, next);
        if (place == SIZE_MAX) continue;
        *end = place;
        break;
    }
    return true;
}

/* ----------------------------------------------------------------------------------------------- in PCRE2 */

struct sia_splitter {
    pcre2_match_data *match;
};

sia_status sia_splitter_create(sia_splitter **s, sia_error *err) {
    *s = NULL;
    sia_status status = sia_split_prepare(err);
    if (status) return status;
    sia_splitter *made = malloc(sizeof *made);
    if (made) made->match = pcre2_match_data_create_from_pattern(split.pattern, NULL);
    if (!made || !made->match) {
        free(made);
        return sia_fail_memory(err, sizeof *made, "splitter");
    }
    *s = made;
    return SIA_OK;
}

void sia_splitter_destroy(sia_splitter *s) {
    if (s) pcre2_match_data_free(s->match);
    free(s);
}

size_t sia_split_reference(sia_splitter *s, const char *text, size_t bytes, size_t at) {
    int groups = pcre2_match(split.pattern, (PCRE2_SPTR)text, bytes, at, PCRE2_NO_UTF_CHECK, s->match, NULL);
    if (groups < 1) return 0;
    PCRE2_SIZE *where = pcre2_get_ovector_pointer(s->match);
    return where[0] == at ? where[1] - at : 0;
}
