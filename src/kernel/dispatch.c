/* SPDX-License-Identifier: MIT
 *
 * Which kernels run: every set that was compiled, and the choice among them, made once. */
#include "kernel/kernel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

extern const sia_kernel sia_kernel_baseline, sia_kernel_avx2, sia_kernel_avx512, sia_kernel_amx,
    sia_kernel_neon;

const sia_kernel *const sia_kernel_table[] = {
    &sia_kernel_baseline,
#ifdef SIA_HAVE_NEON
    &sia_kernel_neon,
#endif
#ifdef SIA_HAVE_AVX2
    &sia_kernel_avx2,
#endif
#ifdef SIA_HAVE_AVX512
    &sia_kernel_avx512,
#endif
#ifdef SIA_HAVE_AMX
    &sia_kernel_amx,
#endif
    NULL,
};

/* What SIA_ISA wishes, looked at once: programs that change their environment do so while threads ask. */
static struct {
    const sia_kernel *best; /* the one that was wished for, if it can be had */
    sia_error refusal;      /* else a sentence */
} at_start;
static pthread_once_t started = PTHREAD_ONCE_INIT;

static void choose(void) {
    const char *wish = getenv("SIA_ISA");
    char known[128] = "";
    bool found = false;
    if (wish && !*wish) wish = NULL;
    for (int i = 0; sia_kernel_table[i] && !found; i++) {
        const sia_kernel *kernel = sia_kernel_table[i];
        if (!kernel->supported()) continue;
        at_start.best = kernel;
        found = wish && strcmp(wish, kernel->name) == 0;
        (void)snprintf(known + strlen(known), sizeof known - strlen(known), " %s", kernel->name);
    }
    if (wish && !found)
        (void)sia_fail(&at_start.refusal, SIA_ARGUMENT, "SIA_ISA=%.32s: this processor and this build have%s",
                       wish, known);
}

static _Atomic(const sia_kernel *) set; /* by a test; NULL: as at the start */

const sia_kernel *sia_kernel_get(void) {
    const sia_kernel *kernel = atomic_load_explicit(&set, memory_order_acquire);
    if (kernel) return kernel;
    (void)pthread_once(&started, choose);
    return at_start.best;
}

void sia_kernel_set(const sia_kernel *kernel) { atomic_store(&set, kernel); }

sia_status sia_kernel_check(sia_error *err) {
    (void)pthread_once(&started, choose);
    const sia_error *refusal = &at_start.refusal;
    return refusal->status ? sia_fail(err, refusal->status, "%s", refusal->text) : SIA_OK;
}

const char *sia_isa(void) { return sia_kernel_get()->name; }
const char *sia_version(void) { return SIA_VERSION; }
