/* SPDX-License-Identifier: MIT
 *
 * Which kernels run: every set that was compiled, and the choice among them, made once. */
#include "kernel/kernel.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

extern const sia_kernel sia_kernel_baseline, sia_kernel_avx2, sia_kernel_avx512, sia_kernel_neon;

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
    NULL,
};

static _Atomic(const sia_kernel *) chosen;

/* With a wish that cannot be had, the best: sia_kernel_check is what refuses. */
static const sia_kernel *choose(void) {
    const char *wish = getenv("SIA_ISA");
    const sia_kernel *best = sia_kernel_table[0];
    for (int i = 0; sia_kernel_table[i]; i++) {
        if (!sia_kernel_table[i]->supported()) continue;
        best = sia_kernel_table[i];
        if (wish && strcmp(wish, best->name) == 0) break;
    }
    return best;
}

const sia_kernel *sia_kernel_get(void) {
    const sia_kernel *kernel = atomic_load_explicit(&chosen, memory_order_acquire);
    if (kernel) return kernel;
    kernel = choose();
    atomic_store_explicit(&chosen, kernel, memory_order_release);
    return kernel;
}

sia_status sia_kernel_check(sia_error *err) {
    const char *wish = getenv("SIA_ISA");
    if (!wish || !*wish) return SIA_OK;
    char known[128] = "";
    for (int i = 0; sia_kernel_table[i]; i++) {
        const sia_kernel *kernel = sia_kernel_table[i];
        if (!kernel->supported()) continue;
        if (strcmp(wish, kernel->name) == 0) return SIA_OK;
        (void)snprintf(known + strlen(known), sizeof known - strlen(known), " %s", kernel->name);
    }
    return sia_fail(err, SIA_ARGUMENT, "SIA_ISA=%.32s: this processor and this build have%s", wish, known);
}

void sia_kernel_set(const sia_kernel *kernel) { atomic_store(&chosen, kernel); }

const char *sia_isa(void) { return sia_kernel_get()->name; }
const char *sia_version(void) { return SIA_VERSION; }
