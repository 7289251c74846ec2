/* SPDX-License-Identifier: MIT
 *
 * Two builds of the library, one against the other, in one process:
 *
 *     make bench-versions OLD=path/to/old/libsia.so
 *
 * The two must have been built with the same sia.h; that they compute the same is checked. They do it on the same
 * memory, in turns, on one thread. A call of one and the next call of the other meet the same neighbours, clock and
 * caches, so the median of their ratios is known to a few thousandths where single runs differ by a tenth. The ratio at
 * the slow and at the fast calls is shown, too: on a shared machine these are calls with and without a neighbour on the
 * core. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <sia.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef struct version {
    __typeof__(&sia_attention_create) create;
    __typeof__(&sia_attention_destroy) destroy;
    __typeof__(&sia_attention_workspace) workspace;
    __typeof__(&sia_attention_forward) forward;
    __typeof__(&sia_attention_backward) backward;
    sia_attention *a;
} version;

typedef struct shape {
    int heads, head_dim;
    int64_t length;
    double seconds; /* to spend on each pass, unless others are asked for */
} shape;

static const shape shapes[] = {
    {4, 64, 256, 4},   {6, 128, 256, 4},  {4, 64, 1024, 6},
    {6, 128, 1024, 6}, {4, 64, 4096, 20}, {6, 128, 4096, 20},
};

enum { OLD, NEW, VERSIONS };
enum { MOST_CALLS = 100000 };

static double seconds_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool open_version(const char *path, version *v) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* open until the end */
    if (!library) return (void)fprintf(stderr, "%s\n", dlerror()), false;
    v->create = dlsym(library, "sia_attention_create");
    v->destroy = dlsym(library, "sia_attention_destroy");
    v->workspace = dlsym(library, "sia_attention_workspace");
    v->forward = dlsym(library, "sia_attention_forward");
    v->backward = dlsym(library, "sia_attention_backward");
    if (v->create && v->destroy && v->workspace && v->forward && v->backward) return true;
    (void)fprintf(stderr, "%s: no libsia\n", path);
    return false;
}

static void *map(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) perror("mmap"), exit(1);
    (void)madvise(pages, bytes, MADV_HUGEPAGE);
    return pages;
}

/* The arrays of a problem, one after the other. */
typedef struct arrays {
    float *q, *k, *v, *out, *d_out, *d_q, *d_k, *d_v, *lse;
    void *work;
    size_t bytes, work_bytes;
} arrays;

static arrays create_arrays(const shape *s, size_t work_bytes) {
    int64_t n = s->length * s->heads * s->head_dim;
    arrays x = {.bytes = sizeof(float) * (size_t)(8 * n + s->length * s->heads), .work_bytes = work_bytes};
    float *p = map(x.bytes);
    uint32_t state = 1;
    for (int64_t i = 0; i < 5 * n; i++) { /* about normal: the sum of four uniform numbers */
        float sum = 0;
        for (int j = 0; j < 4; j++)
            sum += (float)((state = state * 1664525u + 1013904223u) >> 8) / 0x1p24f - 0.5f;
        p[i] = sum * 1.732f;
    }
    x.q = p, x.k = p + n, x.v = p + 2 * n, x.out = p + 3 * n, x.d_out = p + 4 * n;
    x.d_q = p + 5 * n, x.d_k = p + 6 * n, x.d_v = p + 7 * n, x.lse = p + 8 * n;
    x.work = map(work_bytes);
    return x;
}

static void call(const version *v, const shape *s, const arrays *x, sia_pass pass) {
    sia_span span = {.q_len = s->length, .k_len = s->length};
    sia_forward forward = {.q = x->q, .k = x->k, .v = x->v, .out = x->out, .lse = x->lse};
    sia_backward backward = {.q = x->q,
                             .k = x->k,
                             .v = x->v,
                             .out = x->out,
                             .lse = x->lse,
                             .d_out = x->d_out,
                             .d_q = x->d_q,
                             .d_k = x->d_k,
                             .d_v = x->d_v};
    sia_error err;
    sia_status status = pass == SIA_PASS_FORWARD ? v->forward(v->a, span, &forward, x->work, &err)
                                                 : v->backward(v->a, span, &backward, x->work, &err);
    if (status) (void)fprintf(stderr, "%s\n", err.text), exit(1);
}

/* What a call leaves must not depend on the version, but for rounding. */
static void check_agreement(const version *versions, const shape *s, const arrays *x, sia_pass pass) {
    size_t n = (size_t)(s->length * s->heads * s->head_dim);
    const float *result = pass == SIA_PASS_FORWARD ? x->out : x->d_q;
    float *old = malloc(n * sizeof *old), largest = 0, difference = 0;
    if (!old) perror("malloc"), exit(1);
    call(&versions[OLD], s, x, pass);
    memcpy(old, result, n * sizeof *old);
    call(&versions[NEW], s, x, pass);
    for (size_t i = 0; i < n; i++) {
        largest = fmaxf(largest, fabsf(old[i]));
        difference = fmaxf(difference, fabsf(result[i] - old[i]));
    }
    free(old);
    if (difference <= 1e-3f * largest) return;
    (void)fprintf(stderr, "the two builds compute different numbers: have they the same sia.h?\n");
    exit(1);
}

static void compare(const version *versions, const shape *s, const arrays *x, sia_pass pass, double seconds) {
    static double speed[VERSIONS][MOST_CALLS], ratio[MOST_CALLS];
    double n = (double)s->length, end = seconds_now() + seconds;
    double operations = (pass == SIA_PASS_FORWARD ? 2 : 5) * s->head_dim * n * (n + 1) * s->heads;
    int calls = 0;
    check_agreement(versions, s, x, pass);
    for (; calls < MOST_CALLS && (calls == 0 || seconds_now() < end); calls++) {
        for (int i = 0; i < VERSIONS; i++) {
            int which = (calls + i) % VERSIONS; /* who is first in one pair is second in the next */
            double started = seconds_now();
            call(&versions[which], s, x, pass);
            speed[which][calls] = operations / (seconds_now() - started) / 1e9;
        }
        ratio[calls] = speed[NEW][calls] / speed[OLD][calls];
    }
    for (int i = 0; i < VERSIONS; i++) qsort(speed[i], (size_t)calls, sizeof(double), ascending);
    qsort(ratio, (size_t)calls, sizeof(double), ascending);
    printf("%-9s %d x %-3d %5lld %8d   %6.3f  ", pass == SIA_PASS_FORWARD ? "forward" : "backward", s->heads,
           s->head_dim, (long long)s->length, calls, ratio[calls / 2]);
    static const int percent[] = {10, 25, 50, 75, 90};
    for (int i = 0; i < 5; i++) {
        int at = calls * percent[i] / 100;
        printf("  %6.3f", speed[NEW][at] / speed[OLD][at]);
    }
    printf("   %6.1f %6.1f\n", speed[OLD][calls / 2], speed[NEW][calls / 2]);
    (void)fflush(stdout);
}

int main(int argc, char **argv) {
    version versions[VERSIONS] = {0};
    if (argc != 3 && argc != 4)
        return (void)fprintf(stderr, "usage: versions OLD/libsia.so NEW/libsia.so [SECONDS]\n"), 2;
    for (int i = 0; i < VERSIONS; i++)
        if (!open_version(argv[1 + i], &versions[i])) return 1;
    printf("speed of the new one over the old one, si+nope, one thread, in turns\n\n"
           "op        heads     len    calls   paired    at the slowest 10, 25, 50, 75, 90 %% of calls   "
           "GFLOP/s old, new\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        double seconds = argc == 4 ? atof(argv[3]) : s->seconds;
        if (seconds == 0 && s->length > 1024) continue; /* for a test, that was enough */
        sia_span span = {.q_len = s->length, .k_len = s->length};
        size_t work_bytes = 0;
        for (int j = 0; j < VERSIONS; j++) {
            sia_attention_config config = {.heads = s->heads, .head_dim = s->head_dim, .threads = 1};
            sia_error err;
            if (versions[j].create(&versions[j].a, "si+nope", &config, &err))
                return (void)fprintf(stderr, "%s\n", err.text), 1;
            for (int pass = SIA_PASS_FORWARD; pass <= SIA_PASS_BACKWARD; pass++) {
                size_t bytes = versions[j].workspace(versions[j].a, span, (sia_pass)pass);
                if (bytes > work_bytes) work_bytes = bytes;
            }
        }
        arrays x = create_arrays(s, work_bytes);
        compare(versions, s, &x, SIA_PASS_FORWARD, seconds);
        compare(versions, s, &x, SIA_PASS_BACKWARD, seconds);
        (void)munmap(x.q, x.bytes);
        (void)munmap(x.work, x.work_bytes);
        for (int j = 0; j < VERSIONS; j++) versions[j].destroy(versions[j].a);
    }
    return 0;
}
