/* SPDX-License-Identifier: MIT
 *
 * Windows for validation (sia_windows in sia.h) over documents that are too short for them. */
#ifndef SIA_DATA_WINDOWS_H
#define SIA_DATA_WINDOWS_H

#include <stdbool.h>

#include "sia.h"

/* As sia_windows_create; with `join` all documents are one: a window may begin in one and end in another, and c need not
 * have been scanned. */
sia_status sia_windows_make(sia_windows **w, const sia_corpus *c, int64_t length, int64_t count, bool join,
                            sia_error *err);

#endif
