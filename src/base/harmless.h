/* SPDX-License-Identifier: MIT
 *
 * Text from a file, a model or another person, made fit to be shown: it cannot move the cursor, change colours, set the
 * title of a window, answer in the place of the person, or stand in another order than it is read.
 *
 *     (void)sia_harmless(name, strlen(name), "");           a name: one line
 *     (void)sia_harmless(text, bytes, "\n\t");              a text: lines and tabs stay */
#ifndef SIA_BASE_HARMLESS_H
#define SIA_BASE_HARMLESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In place: every byte that is part of none of these becomes '?', so that the length stays: printable
 * ASCII; the control characters in `kept`; characters of UTF-8 other than C1 controls (U+0080 to U+009F,
 * which terminals take for escape sequences), separators of lines (U+2028, U+2029) and marks that turn the
 * order of text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069). Returns the bytes before a
 * character that is not whole at the end, which are the ones that can be shown when more is to come; those
 * behind them are left as they are. */
size_t sia_harmless_part(char *text, size_t bytes, const char *kept);

/* The same for a text that is all there: what is not whole at its end is replaced too. Returns text. */
char *sia_harmless(char *text, size_t bytes, const char *kept);

/* The character of UTF-8 at the start of text (RFC 3629), which has a byte at least: its length and number; 0 when none
 * starts so, -1 when more bytes must come to tell. */
int sia_utf8_character(const char *text, size_t bytes, uint32_t *number);

/* Whether a character is one of those that become '?'. */
bool sia_is_harmful(uint32_t c, const char *kept);

/* Whether all of it is UTF-8, harmless or not. */
bool sia_is_utf8(const char *text, size_t bytes);

#endif
