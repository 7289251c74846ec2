/* SPDX-License-Identifier: MIT
 *
 * How a function of the library fails: it returns what sia_fail returns.
 *
 *     if (head_dim % 8) return sia_fail(err, SIA_ARGUMENT, "head_dim %d: want a multiple of 8", head_dim); */
#ifndef SIA_BASE_ERROR_H
#define SIA_BASE_ERROR_H

#include "sia.h"

/* Writes the sentence into err (which may be NULL) and returns status. The sentence, which may quote a
 * file, is made harmless (base/harmless.h): an error cannot carry escape sequences to a terminal. */
sia_status sia_fail(sia_error *err, sia_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The sentence of an allocation that failed. */
sia_status sia_fail_memory(sia_error *err, size_t bytes, const char *what);

/* The static analyzer does not see into other files: this tells it that what failed is not SIA_OK. */
#ifdef __clang_analyzer__
#    define sia_fail(err, status, ...) (sia_fail(err, status, __VA_ARGS__), (status))
#    define sia_fail_memory(err, bytes, what) (sia_fail_memory(err, bytes, what), SIA_MEMORY)
#endif

#endif
