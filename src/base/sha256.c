/* SPDX-License-Identifier: MIT
 *
 * SHA-256 of a block of memory (files are mapped first). The constants are the first 32 bits of the
 * fractional parts of the square roots (start) and cube roots (rounds) of the first primes. */
#include "base/sha256.h"

#include <stdint.h>
#include <string.h>

#include "base/wrap.h"

static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

SIA_WRAPS static uint32_t turn(uint32_t x, int by) { return x >> by | x << (32 - by); }

SIA_WRAPS static void add_block(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t t =
            v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + rounds[i] + w[i];
        uint32_t u = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t;
        v[0] = t + u;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

char *sia_sha256(const void *data, size_t bytes, char text[SIA_SHA256_TEXT]) {
    static const char digits[] = "0123456789abcdef";
    uint32_t state[8];
    memcpy(state, start, sizeof state);
    const unsigned char *at = data;
    size_t left = bytes;
    for (; left >= 64; at += 64, left -= 64) add_block(state, at);
    /* The rest, a 1 bit, zeros, and the number of bits as 64 bits, end on a block. */
    unsigned char tail[128] = {0};
    if (left) memcpy(tail, at, left);
    tail[left] = 0x80;
    size_t whole = left < 56 ? 64 : 128;
    for (int i = 0; i < 8; i++)
        tail[whole - 1 - (size_t)i] = (unsigned char)((uint64_t)bytes << 3 >> (8 * i));
    for (size_t i = 0; i < whole; i += 64) add_block(state, tail + i);
    for (int i = 0; i < 64; i++) text[i] = digits[state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    text[64] = 0;
    return text;
}
