/* SPDX-License-Identifier: MIT
 *
 * The machine and the build, from what the system and the compiler say. */
#include "cli/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/threads.h"
#include "sia.h"

/* From Linux's table; "unknown" elsewhere. */
static void processor_name(char *name, size_t room) {
    char line[256];
    (void)snprintf(name, room, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        (void)snprintf(name, room, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file) (void)fclose(file);
}

json_t *cli_machine_json(int threads) {
    char processor[128];
    processor_name(processor, sizeof processor);
    return json_pack("{s:s, s:s, s:i, s:s}", "processor", processor, "isa", sia_isa(), "threads",
                     threads ? threads : sia_threads_available(), "compiler", CLI_COMPILER);
}

double cli_peak_megabytes(void) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024 / 1e6;
}

double cli_process_seconds(void) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}
