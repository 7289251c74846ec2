/* SPDX-License-Identifier: MIT
 *
 * A strict reader of the report's HTML: every tag is closed in its order, attributes are quoted, text has no bare < or
 * &, no control characters, and nothing is named that would be fetched or run. */
#ifndef SIA_TESTS_REPORT_MARKUP_H
#define SIA_TESTS_REPORT_MARKUP_H

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct markup {
    char open[64][24]; /* the tags that are open */
    int depth;
    int elements;
    char wrong[200]; /* "" while all is well */
} markup;

static inline bool markup_fail(markup *m, const char *what, const char *at) {
    if (!m->wrong[0]) (void)snprintf(m->wrong, sizeof m->wrong, "%s: %.80s", what, at);
    return false;
}

static inline bool markup_void(const char *tag) {
    return strcmp(tag, "meta") == 0 || strcmp(tag, "link") == 0;
}

/* & must begin a reference that the page uses. */
static inline bool markup_reference(const char *at) {
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (int i = 0; i < 5; i++)
        if (strncmp(at, known[i], strlen(known[i])) == 0) return true;
    return false;
}

/* Attributes up to > or />; *at is left behind it. */
static inline bool markup_attributes(markup *m, const char **at, bool *closed) {
    const char *s = *at, *start = s;
    *closed = false;
    for (;;) {
        while (*s == ' ') s++;
        if (*s == '>') break;
        if (s[0] == '/' && s[1] == '>') {
            *closed = true;
            s++;
            break;
        }
        const char *name = s;
        while (islower((unsigned char)*s) || *s == '-' || isdigit((unsigned char)*s) || *s == 'B') s++;
        if (s == name) return markup_fail(m, "bad attribute", start);
        if (strncmp(name, "on", 2) == 0 || strncmp(name, "src", 3) == 0)
            return markup_fail(m, "attribute that acts", start);
        if (*s != '=') continue; /* <details open> */
        if (s[1] != '"') return markup_fail(m, "value without quotes", start);
        for (s += 2; *s && *s != '"'; s++)
            if (*s == '<' || (*s == '&' && !markup_reference(s))) return markup_fail(m, "bad value", start);
        if (!*s) return markup_fail(m, "value without an end", start);
        s++;
    }
    *at = s + 1;
    return true;
}

static inline bool markup_tag(markup *m, const char **at) {
    const char *s = *at + 1, *start = *at;
    bool closing = *s == '/', closed;
    char tag[24];
    size_t n = 0;
    if (closing) s++;
    while ((isalnum((unsigned char)*s)) && n + 1 < sizeof tag) tag[n++] = *s++;
    tag[n] = 0;
    if (!n) return markup_fail(m, "bare <", start);
    if (strcmp(tag, "script") == 0) return markup_fail(m, "script", start);
    if (!markup_attributes(m, &s, &closed)) return false;
    *at = s;
    if (closing) {
        if (!m->depth || strcmp(m->open[m->depth - 1], tag) != 0)
            return markup_fail(m, "closes what is not open", start);
        m->depth--;
        return true;
    }
    m->elements++;
    if (closed || markup_void(tag)) return true;
    if (m->depth == 64) return markup_fail(m, "too deep", start);
    memcpy(m->open[m->depth++], tag, sizeof tag);
    if (strcmp(tag, "style") == 0) { /* its text is no markup */
        const char *end = strstr(s, "</style>");
        if (!end) return markup_fail(m, "style without an end", start);
        *at = end;
    }
    return true;
}

/* Reads all of a page, or a part that is balanced in itself. */
static inline bool markup_read(markup *m, const char *text) {
    *m = (markup){0};
    if (strncmp(text, "<!DOCTYPE html>\n", 16) == 0) text += 16;
    for (const char *s = text; *s && !m->wrong[0];) {
        unsigned char c = (unsigned char)*s;
        if (*s == '<') {
            if (!markup_tag(m, &s)) return false;
            continue;
        }
        if (*s == '&' && !markup_reference(s)) return markup_fail(m, "bare &", s);
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) return markup_fail(m, "control character", s);
        s++;
    }
    if (m->depth && !m->wrong[0]) return markup_fail(m, "left open", m->open[m->depth - 1]);
    return !m->wrong[0];
}

/* The page must not name anything outside of itself. */
static inline const char *markup_outside(const char *text) {
    static const char *const words[] = {"http://", "https://",    "src=", "url(",    "@import",
                                        "//fonts", "<iframe",     "<img", "<object", "<embed",
                                        "<form",   "javascript:", "file:"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i])) return words[i];
    return NULL;
}

#endif
