/* SPDX-License-Identifier: MIT
 *
 * Unsigned arithmetic that is meant to wrap: hashes, checksums, random numbers.
 *
 *     SIA_WRAPS static uint64_t hash(const char *bytes, size_t length) { ...
 *
 * Everywhere else it is a mistake, which the preset ubsan looks for. */
#ifndef SIA_BASE_WRAP_H
#define SIA_BASE_WRAP_H

#ifdef __clang__
#    define SIA_WRAPS __attribute__((no_sanitize("unsigned-integer-overflow", "unsigned-shift-base")))
#else
#    define SIA_WRAPS
#endif

#endif
