/* SPDX-License-Identifier: MIT
 *
 * The pre-tokeniser: cuts text into pieces by GPT-2's pattern,
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 *     if (sia_split_prepare(err)) ...                    once; again costs nothing
 *     for (size_t at = 0; at < bytes; at += length) {
 *         length = sia_split_next(text + at, bytes - at);
 *         ... the piece is text[at .. at + length) ...
 *     }
 *
 * The pieces cover the text without a gap. A byte that is no part of valid UTF-8 is a piece of its own, and
 * the valid text before it and after it is cut as if it were all there is. \s is Unicode's White_Space, as in
 * the regular expressions of Rust, Python and Oniguruma (PCRE2's own \s also takes U+180E, which left that
 * class in Unicode 6.3).
 *
 * Two versions. sia_split_next is a scanner written for this one pattern; PCRE2 tells it which characters are
 * letters, numbers and spaces. sia_split_reference is the pattern itself in PCRE2: the tests compare the two
 * on all kinds of bytes, and the benchmark measures against it. */
#ifndef SIA_TEXT_SPLIT_H
#define SIA_TEXT_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sia.h"

/* Compiles the patterns. All that follows needs it. */
sia_status sia_split_prepare(sia_error *err);

/* The length of the piece that text starts with, >= 1; bytes >= 1. Linear in that length. */
size_t sia_split_next(const char *text, size_t bytes);

/* The length of the first UTF-8 character of text: 1 .. 4, or 0 when it does not start with a valid one (as
 * the Unicode standard's table 3-7 has it: no surrogates, nothing overlong, nothing beyond U+10FFFF). */
size_t sia_utf8_length(const char *text, size_t bytes);

/* ---------------------------------------------------------------------------------------------------- blocks
 *
 * No piece reaches from a character that is no space into one that is. So text can be cut between such a character and
 * an ASCII space: the pieces of the parts are the pieces of the whole. */

/* Whether the bytes beyond ASCII before text[at] are a character, and no space. */
bool sia_split_ends_character(const char *text, size_t at);

static inline bool sia_split_can_cut(const char *text, size_t at) {
    if (text[at] != ' ' && !(text[at] >= '\t' && text[at] <= '\r')) return false;
    unsigned char before = (unsigned char)text[at - 1];
    return before < 0x80 ? before > 0x20 && before < 0x7f : sia_split_ends_character(text, at);
}

/* Blocks of about this many bytes, for parallel work; the same for any number of threads. */
enum { SIA_SPLIT_BLOCK = 1 << 17 };

static inline size_t sia_split_blocks(size_t bytes) { return bytes ? (bytes - 1) / SIA_SPLIT_BLOCK + 1 : 0; }

/* Block b is text[*start .. *end). false: nothing, it is in the middle of a very long word and goes with the
 * block in which that word starts. */
bool sia_split_block(const char *text, size_t bytes, size_t b, size_t *start, size_t *end);

/* ----------------------------------------------------------------------------------------------- in PCRE2 */

/* The pattern in PCRE2. One for each thread. */
typedef struct sia_splitter sia_splitter;
sia_status sia_splitter_create(sia_splitter **s, sia_error *err);
void sia_splitter_destroy(sia_splitter *s);

/* Like sia_split_next for text[at ..); text[0 .. bytes) must be valid UTF-8. 0 on an error inside PCRE2. */
size_t sia_split_reference(sia_splitter *s, const char *text, size_t bytes, size_t at);

#endif
