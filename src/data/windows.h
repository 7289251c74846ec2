/* SPDX-License-Identifier: MIT
 *
 * Windows for validation (sia_windows in sia.h) over documents that are too short for them. */
#ifndef SIA_DATA_WINDOWS_H
#define SIA_DATA_WINDOWS_H

#include "sia.h"

/* As sia_windows_create, but all documents are one: a window may begin in one and end in another. c need not
 * have been scanned. */
sia_status sia_windows_join(sia_windows **w, const sia_corpus *c, int64_t length, int64_t count,
                            sia_error *err);

#endif
