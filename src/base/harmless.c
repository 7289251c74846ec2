/* SPDX-License-Identifier: MIT */
#include "base/harmless.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

int sia_utf8_character(const char *text, size_t bytes, uint32_t *number) {
    const unsigned char *b = (const unsigned char *)text;
    int length = b[0] < 0x80 ? 1 : b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 0;
    *number = length < 2 ? b[0] : b[0] & (0x7fu >> length);
    /* The second byte tells overlong forms, surrogates and what is above U+10FFFF. */
    unsigned char low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < length; i++) {
        if ((size_t)i == bytes) return -1;
        if (b[i] < low || b[i] > high) return 0;
        *number = *number << 6 | (b[i] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

bool sia_is_harmful(uint32_t c, const char *kept) {
    if (c < 0x20) return c == 0 || !strchr(kept, (int)c);
    return (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t sia_harmless_part(char *text, size_t bytes, const char *kept) {
    size_t at = 0;
    while (at < bytes) {
        uint32_t number;
        int length = sia_utf8_character(text + at, bytes - at, &number);
        if (length < 0) break;
        if (length == 0 || sia_is_harmful(number, kept)) {
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
        int length = sia_utf8_character(text + at, bytes - at, &number);
        if (length <= 0) return false;
        at += (size_t)length;
    }
    return true;
}
