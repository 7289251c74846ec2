/* SPDX-License-Identifier: MIT
 *
 * A forked child of a test ends without the exit handlers of its parent. One of them writes the counters of a coverage
 * build, which are written here instead: what such a child alone reaches is reached by a test. */
#ifndef SIA_TESTS_END_CHILD_H
#define SIA_TESTS_END_CHILD_H

#include <unistd.h>

#ifdef SIA_COVERAGE
extern void __gcov_dump(void);
#endif

static inline _Noreturn void end_child(int code) {
#ifdef SIA_COVERAGE
    __gcov_dump();
#endif
    _exit(code);
}

#endif
