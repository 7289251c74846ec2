/* SPDX-License-Identifier: MIT */
#include "cli/show.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/harmless.h"

enum { SHOWN = 8, ROOM = 512 };

const char *cli_shown(const char *text) {
    static _Thread_local char rooms[SHOWN][ROOM];
    static _Thread_local unsigned turn;
    char *room = rooms[turn++ % SHOWN];
    (void)snprintf(room, ROOM, "%s", text);
    return sia_harmless(room, strlen(room), "");
}

size_t cli_json_flags(void) { return isatty(STDOUT_FILENO) == 1 ? JSON_ENSURE_ASCII : 0; }
