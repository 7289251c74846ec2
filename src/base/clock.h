/* SPDX-License-Identifier: MIT
 *
 * Seconds from a clock that only goes forward. */
#ifndef SIA_BASE_CLOCK_H
#define SIA_BASE_CLOCK_H

#include <time.h>

static inline double sia_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
