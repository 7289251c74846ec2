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

/* json_dumpf leaves a control character as it is, 127, which stands in strings only. */
static int write_escaped(const char *bytes, size_t size, void *to) {
    for (const char *at = bytes, *end = bytes + size; at < end;) {
        const char *found = memchr(at, 127, (size_t)(end - at));
        size_t plain = (size_t)((found ? found : end) - at);
        if (fwrite(at, 1, plain, to) != plain || (found && fputs("\\u007F", to) < 0)) return -1;
        at += plain + (found ? 1 : 0);
    }
    return 0;
}

static sia_status write_line(json_t *line, FILE *to, size_t flags, sia_error *err) {
    if (!line) return sia_fail(err, SIA_NUMBER, "JSON: a figure is not finite, or there is no memory");
    if (isatty(fileno(to)) == 1) flags |= JSON_ENSURE_ASCII;
    int failed = json_dump_callback(line, write_escaped, to, flags);
    json_decref(line);
    if (!failed && fputc('\n', to) != EOF) return SIA_OK;
    return sia_fail(err, SIA_FILE, "%s: %s", to == stdout ? "stdout" : "JSON", strerror(errno));
}

sia_status cli_json_line(json_t *object, sia_error *err) {
    return write_line(object, stdout, JSON_REAL_PRECISION(6), err);
}

void cli_json_put(cli_json_out *out, json_t *line) {
    if (out->status)
        json_decref(line);
    else
        out->status = write_line(line, out->stream, JSON_REAL_PRECISION(9) | JSON_COMPACT, out->err);
}
