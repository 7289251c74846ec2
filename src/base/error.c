/* SPDX-License-Identifier: MIT
 *
 * Statuses and the sentences that go with them. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/harmless.h"

const char *sia_status_name(sia_status status) {
    switch (status) {
    case SIA_OK:
        return "ok";
    case SIA_ARGUMENT:
        return "argument";
    case SIA_SCHEME:
        return "scheme";
    case SIA_MEMORY:
        return "memory";
    case SIA_FILE:
        return "file";
    case SIA_FORMAT:
        return "format";
    case SIA_STOPPED:
        return "stopped";
    case SIA_BUSY:
        return "busy";
    case SIA_NUMBER:
        return "number";
    case SIA_LOST:
        return "lost";
    }
    return "unknown";
}

sia_status(sia_fail)(sia_error *err, sia_status status, const char *format, ...) {
    if (!err) return status;
    err->status = status;
    char whole[8192]; /* a path may have 4096 bytes */
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(whole, sizeof whole, format, arguments);
    va_end(arguments);
    /* A sentence begins with the thing, and ends with what is wrong: of one that is too long, the middle goes. */
    enum { HEAD = 120, ROOM = sizeof err->text };
    size_t length = strlen(whole);
    if (length < ROOM)
        memcpy(err->text, whole, length + 1);
    else
        (void)snprintf(err->text, ROOM, "%.*s ... %s", HEAD, whole, whole + length - (ROOM - HEAD - 6));
    (void)sia_harmless(err->text, strlen(err->text), "");
    return status;
}

sia_status(sia_fail_memory)(sia_error *err, size_t bytes, const char *what) {
    return sia_fail(err, SIA_MEMORY, "%s: no memory for %zu bytes", what, bytes);
}
