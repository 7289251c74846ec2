/* SPDX-License-Identifier: MIT */
#include "cli/blas.h"

#include "kernel/kernel.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cblas_sgemm, with the numbers that its enums have in every CBLAS. */
enum { ROW_MAJOR = 101, NOT_TRANSPOSED = 111 };
typedef void sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                   const float *a, int a_row, const float *b, int b_row, float beta, float *c, int c_row);
typedef char *text(void);

static sgemm *library_sgemm;

static void multiply(int m, int n, int k, const float *a, const float *b, float *c) {
    library_sgemm(ROW_MAJOR, NOT_TRANSPOSED, NOT_TRANSPOSED, m, n, k, 1, a, k, b, n, 0, c, n);
}

/* config: "OpenBLAS 0.3.21 and a dozen words of how it was built". */
static void name_it(cli_blas *blas, const char *config, const char *core) {
    size_t length = strcspn(config, " ");
    if (config[length]) length += 1 + strcspn(config + length + 1, " ");
    (void)snprintf(blas->name, sizeof blas->name, "%.*s (%s)", (int)length, config, core);
}

static void *open_library(text **core) {
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    *core = library ? (text *)dlsym(library, "openblas_get_corename") : NULL;
    return library;
}

/* A processor that is newer than OpenBLAS it takes for the oldest that it knows. Then it is told to use the instructions
 * that our kernels use: a roof to compare with must not be too low. */
static const char *better_core(const char *core) {
    if (strcmp(core, "Prescott") != 0) return NULL;
    const char *kernels = sia_kernel_get()->name;
    bool avx512 = strcmp(kernels, "avx512") == 0 || strcmp(kernels, "amx") == 0;
    return avx512 ? "SkylakeX" : strcmp(kernels, "avx2") == 0 ? "Haswell" : NULL;
}

static bool load(cli_blas *blas) {
    /* Read while it is loaded: no threads of its own. Ours own the parallelism. The second is what a build on OpenMP obeys. */
    if (setenv("OPENBLAS_NUM_THREADS", "1", 1) || setenv("OMP_NUM_THREADS", "1", 1)) return false;
    text *core;
    void *library = open_library(&core);
    const char *better = core ? better_core(core()) : NULL;
    if (better && setenv("OPENBLAS_CORETYPE", better, 0) == 0) { /* a person's own choice stays */
        dlclose(library);
        library = open_library(&core);
    }
    if (!library) return false;
    text *config = (text *)dlsym(library, "openblas_get_config");
    library_sgemm = (sgemm *)dlsym(library, "cblas_sgemm");
    if (!config || !core || !library_sgemm) return false;
    name_it(blas, config(), core());
    blas->multiply = multiply;
    return true;
}

const cli_blas *cli_blas_get(void) {
    static cli_blas blas;
    static bool tried, loaded;
    if (!tried) {
        tried = true;
        loaded = load(&blas);
    }
    return loaded ? &blas : NULL;
}
