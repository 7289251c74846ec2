/* SPDX-License-Identifier: MIT */
#include "cli/show.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/harmless.h"

enum { SHOWN = 8, ROOM = 512 };

const char *cli_shown(const char *text) {
    static _Thread_local char rooms[SHOWN][ROOM];
    static _Thread_local unsigned turn;
    char *room = rooms[turn++ % SHOWN];
    (void)snprintf(room, ROOM, "%s", text);
    return sia_harmless(room, strlen(room), "");
}

/* 127 stands in strings only. */
static int write_escaped(const char *bytes, size_t size, void *to) {
    for (const char *at = bytes, *end = bytes + size; at < end;) {
        const char *found = memchr(at, 127, (size_t)(end - at));
        size_t plain = (size_t)((found ? found : end) - at);
        if (fwrite(at, 1, plain, to) != plain || (found && fputs("\\u007F", to) < 0)) return -1;
        at += plain + (found ? 1 : 0);
    }
    return 0;
}

int cli_json_dump(const json_t *object, FILE *to, size_t flags) {
    if (isatty(fileno(to)) == 1) flags |= JSON_ENSURE_ASCII;
    return json_dump_callback(object, write_escaped, to, flags);
}

sia_status cli_json_line(json_t *object, sia_error *err) {
    if (!object) return sia_fail(err, SIA_NUMBER, "JSON: a figure is not finite, or there is no memory");
    int failed = cli_json_dump(object, stdout, JSON_REAL_PRECISION(6));
    json_decref(object);
    if (failed || putchar('\n') == EOF) return sia_fail(err, SIA_FILE, "stdout: %s", strerror(errno));
    return SIA_OK;
}
