/* SPDX-License-Identifier: MIT
 *
 * SHA-256 (FIPS 180-4): checksums that anyone can check with sha256sum. */
#ifndef SIA_BASE_SHA256_H
#define SIA_BASE_SHA256_H

#include <stddef.h>

enum { SIA_SHA256_TEXT = 65 };

/* The checksum in hexadecimal, ended by 0. Returns text. */
char *sia_sha256(const void *data, size_t bytes, char text[SIA_SHA256_TEXT]);

#endif
