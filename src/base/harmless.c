/* SPDX-License-Identifier: MIT */
#include "base/harmless.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The length of the character of UTF-8 at text and its number; 0 for none, -1 for the start of one that is
 * cut off. */
static int read_character(const unsigned char *text, size_t bytes, uint32_t *number) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = text[0];
    int length = first < 0x80   ? 1
                 : first < 0xc2 ? 0
                 : first < 0xe0 ? 2
                 : first < 0xf0 ? 3
                 : first < 0xf5 ? 4
                                : 0;
    if (length < 2) {
        *number = first;
        return length;
    }
    *number = first & (0x7f >> length);
    for (int i = 1; i < length; i++) {
        if ((size_t)i == bytes) return -1;
        if ((text[i] & 0xc0) != 0x80) return 0;
        *number = *number << 6 | (text[i] & 0x3f);
    }
    bool surrogate = *number >= 0xd800 && *number <= 0xdfff;
    return *number < least[length] || *number > 0x10ffff || surrogate ? 0 : length;
}

static bool is_harmful(uint32_t c, const char *kept) {
    if (c < 0x20) return c == 0 || !strchr(kept, (int)c);
    return (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t sia_harmless_part(char *text, size_t bytes, const char *kept) {
    size_t at = 0;
    while (at < bytes) {
        uint32_t number;
        int length = read_character((const unsigned char *)text + at, bytes - at, &number);
        if (length < 0) break;
        if (length == 0 || is_harmful(number, kept)) {
            if (length == 0) length = 1;
            memset(text + at, '?', (size_t)length);
        }
        at += (size_t)length;
    }
    return at;
}

char *sia_harmless(char *text, size_t bytes, const char *kept) {
    size_t whole = sia_harmless_part(text, bytes, kept);
    memset(text + whole, '?', bytes - whole);
    return text;
}

bool sia_is_utf8(const char *text, size_t bytes) {
    uint32_t number;
    for (size_t at = 0; at < bytes;) {
        int length = read_character((const unsigned char *)text + at, bytes - at, &number);
        if (length <= 0) return false;
        at += (size_t)length;
    }
    return true;
}
