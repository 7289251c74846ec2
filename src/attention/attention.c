/* SPDX-License-Identifier: MIT
 *
 * The attention object: creation, its tables as they grow, and the checks of a call's arguments. */
#include "attention/attention.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------- the object */

/* m_0 is near -beta / alpha, and its table holds floats. */
static sia_status check_beta(const sia_attention *a, sia_error *err) {
    double most = 100 * a->config.alpha;
    if (a->scheme.distance != SIA_DISTANCE_SI || a->config.beta <= most) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT,
                    "beta %g: want at most 100 alpha, which is %g; above it distances cannot be told apart",
                    a->config.beta, most);
}

sia_status sia_attention_create(sia_attention **out, const char *scheme, const sia_attention_config *config,
                                sia_error *err) {
    if (!out || !config)
        return sia_fail(err, SIA_ARGUMENT, "attention: want a place for the result and a config, got NULL");
    *out = NULL;
    sia_status status = sia_kernel_check(err);
    if (status) return status;
    sia_attention *a = sia_alloc(1, sizeof *a);
    if (!a) return sia_fail_memory(err, sizeof *a, "attention");
    a->config = *config;
    if (a->config.threads == 0) a->config.threads = sia_threads_available();
    status = sia_scheme_parse(scheme, &a->scheme, err);
    if (!status) status = sia_config_complete(&a->scheme, &a->config, err);
    if (!status) status = check_beta(a, err);
    if (status) {
        sia_free(a);
        return status;
    }
    sia_scheme_name(a->scheme, a->name);
    a->kernel = sia_kernel_get();
    *out = a;
    return SIA_OK;
}

void sia_attention_destroy(sia_attention *a) {
    if (!a) return;
    sia_tables_destroy(a->tables);
    sia_free(a);
}

const char *sia_attention_scheme(const sia_attention *a) { return a->name; }
const sia_attention_config *sia_attention_settings(const sia_attention *a) { return &a->config; }

/* ------------------------------------------------------------------------------------------------ tables */

enum { SHORTEST_TABLE = 1024 };

/* Held while tables grow. One for all objects, so that a forked child, which has only the thread that forked, can make it
 * free again whoever held it: nothing is left half done, for tables are seen only when they are whole. Nobody waits for
 * it before a fork: who holds it may be in a fill that itself waits for the one who forks, as for Python's lock. */
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool held_here;

static void free_in_child(void) {
    if (!held_here) pthread_mutex_init(&growing, NULL);
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, free_in_child); }

/* Called with the lock held. */
static sia_status grow(sia_attention *a, int64_t length, sia_error *err) {
    sia_tables *longest = atomic_load(&a->tables), *grown;
    if (longest && longest->length >= length) return SIA_OK;
    /* At least twice the old one: all tables together take less than twice the longest. */
    int64_t wanted = longest ? 2 * longest->length : SHORTEST_TABLE;
    if (wanted > SIA_MAX_POSITION) wanted = SIA_MAX_POSITION;
    if (wanted < length) wanted = length;
    sia_error said = {0};
    sia_status status = sia_tables_create(&grown, a->scheme, &a->config, wanted, &said);
    if (status == SIA_MEMORY && wanted > length) /* what was asked for may still fit */
        status = sia_tables_create(&grown, a->scheme, &a->config, length, &said);
    if (status && err) *err = said;
    if (status) return status;
    grown->older = longest;
    atomic_store_explicit(&a->tables, grown, memory_order_release);
    return SIA_OK;
}

sia_status sia_attention_tables_for(const sia_attention *a, int64_t length, const sia_tables **tables,
                                    sia_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    /* The tables are a cache: growing them changes nothing that a caller can see, hence the const. */
    sia_attention *self = (sia_attention *)a;
    *tables = atomic_load_explicit(&self->tables, memory_order_acquire);
    if (*tables && (*tables)->length >= length) return SIA_OK;
    if (held_here)
        return sia_fail(err, SIA_ARGUMENT, "fill: it made a call for which tables have to grow, want none");
    (void)pthread_once(&once, watch_forks);
    pthread_mutex_lock(&growing);
    held_here = true;
    sia_status status = grow(self, length, err);
    held_here = false;
    pthread_mutex_unlock(&growing);
    *tables = atomic_load_explicit(&self->tables, memory_order_acquire);
    return status;
}

sia_status sia_attention_reserve(const sia_attention *a, int64_t length, sia_error *err) {
    const sia_tables *tables;
    if (!a) return sia_fail(err, SIA_ARGUMENT, "attention: NULL");
    if (length < 1 || length > SIA_MAX_POSITION)
        return sia_fail(err, SIA_ARGUMENT, "length %lld: want 1 to %lld", (long long)length,
                        (long long)SIA_MAX_POSITION);
    return sia_attention_tables_for(a, length, &tables, err);
}

sia_status sia_attention_tables(const sia_attention *a, int head, int64_t count, float *scale, float *bias,
                                sia_error *err) {
    if (!a || !scale || !bias)
        return sia_fail(err, SIA_ARGUMENT, "tables: want an attention object and two arrays, got NULL");
    if (head < 0 || head >= a->config.heads)
        return sia_fail(err, SIA_ARGUMENT, "head %d: want 0 to %d", head, a->config.heads - 1);
    if (count < 0 || count > SIA_MAX_POSITION)
        return sia_fail(err, SIA_ARGUMENT, "count %lld: want 0 to %lld", (long long)count,
                        (long long)SIA_MAX_POSITION);
    enum { RUN = 512 };
    double s[RUN], b[RUN];
    for (int64_t first = 0; first < count; first += RUN) {
        int64_t n = count - first < RUN ? count - first : RUN;
        sia_distance_values(a->scheme, &a->config, head, first, n, s, b);
        for (int64_t i = 0; i < n; i++) {
            scale[first + i] = (float)s[i];
            bias[first + i] = (float)b[i];
        }
    }
    return SIA_OK;
}

size_t sia_attention_workspace(const sia_attention *a, sia_span span, sia_pass pass) {
    if (sia_span_check(a, &span, NULL)) return 0;
    return pass == SIA_PASS_FORWARD ? sia_forward_workspace(a, span) : sia_backward_workspace(a, span);
}

const float *sia_row_factors(const sia_attention *a, const sia_tables *t, const float *logn, int head,
                             int64_t position, int64_t rows, float *room) {
    bool with_log = a->scheme.row == SIA_ROW_LOGN;
    if (!with_log && t->row_constant == 1) return NULL;
    for (int64_t i = 0; i < rows; i++)
        room[i] = t->row_constant * (with_log ? logn[head] * t->log_n[position + i] : 1);
    return room;
}

/* Every task reads all the keys that it sees, from the third-level cache or from memory, and others may be at
 * work there: the more queries a pass serves, the less it is felt. Limits are the second-level cache, which
 * holds q and the output besides the keys, and that each thread should have several tasks. */
int64_t sia_task_rows(const sia_attention *a, int64_t q_len, int64_t heads) {
    enum { FLOATS = 384 * 128, TASKS = 8, LEAST = 96 };
    int64_t rows = SIA_BLOCK_Q, width = sia_padded(a->kernel, a->config.head_dim);
    while (rows > LEAST &&
           (rows * width > FLOATS || (q_len + rows - 1) / rows * heads < (int64_t)TASKS * a->config.threads))
        rows /= 2;
    return rows;
}

/* ------------------------------------------------------------------------------------------------ checks */

static sia_status check_range(const char *name, int64_t value, int64_t least, int64_t most, sia_error *err) {
    if (value >= least && value <= most) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT, "%s %lld: want %lld to %lld", name, (long long)value, (long long)least,
                    (long long)most);
}

sia_status sia_span_check(const sia_attention *a, sia_span *s, sia_error *err) {
    if (!a) return sia_fail(err, SIA_ARGUMENT, "attention: NULL");
    if (s->batch == 0) s->batch = 1;
    sia_status status = check_range("batch", s->batch, 1, SIA_MAX_POSITION, err);
    if (!status) status = check_range("q_len", s->q_len, 1, SIA_MAX_POSITION, err);
    if (!status) status = check_range("k_len", s->k_len, 1, SIA_MAX_POSITION, err);
    if (!status) status = check_range("q_pos", s->q_pos, 0, SIA_MAX_POSITION - s->q_len, err);
    if (!status) status = check_range("k_pos", s->k_pos, 0, SIA_MAX_POSITION - s->k_len, err);
    if (status) return status;
    /* Batch times length times the largest row must leave room for every factor in the workspace's sum. */
    int64_t longest = s->q_len > s->k_len ? s->q_len : s->k_len, positions;
    if (__builtin_mul_overflow(s->batch, longest, &positions) || positions > ((int64_t)1 << 36))
        return sia_fail(err, SIA_ARGUMENT, "batch %lld: too many for the length %lld", (long long)s->batch,
                        (long long)longest);
    return SIA_OK;
}

sia_status sia_stride_check(const char *name, int64_t *stride, int64_t dense, sia_error *err) {
    if (*stride == 0) *stride = dense;
    if (*stride >= dense && *stride <= (int64_t)1 << 32) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT, "%s %lld: want at least a row, %lld, and at most 2^32, or 0 for dense",
                    name, (long long)*stride, (long long)dense);
}

sia_status sia_io_check(const void *io, sia_error *err) {
    return io ? SIA_OK : sia_fail(err, SIA_ARGUMENT, "io: NULL, want the struct of the call's arrays");
}

sia_status sia_array_check(const char *name, const void *array, sia_error *err) {
    return array ? SIA_OK : sia_fail(err, SIA_ARGUMENT, "%s: NULL, want an array", name);
}

sia_status sia_logn_check(const sia_attention *a, const char *name, const float *s, sia_error *err) {
    bool wanted = a->scheme.row == SIA_ROW_LOGN;
    if (wanted == (s != NULL)) return SIA_OK;
    if (wanted)
        return sia_fail(err, SIA_ARGUMENT, "%s: NULL, want one number for each head with scheme %s", name,
                        a->name);
    return sia_fail(err, SIA_ARGUMENT, "%s: given, but scheme %s has no logn", name, a->name);
}

sia_status sia_work_check(const void *work, sia_error *err) {
    if ((uintptr_t)work % SIA_ALIGN == 0) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT, "work %p: want an address that is a multiple of %d", work, SIA_ALIGN);
}
