/* SPDX-License-Identifier: MIT
 *
 * The model as an object: its parameters, its attention, and its matrices packed for products. */
#include "model/model.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------ creation */

sia_status sia_model_create(sia_model **m, const sia_model_config *config, int threads, sia_error *err) {
    sia_status status = sia_model_create_blank(m, config, threads, err);
    if (!status) sia_parameters_initialise(&(*m)->parameters, &(*m)->config);
    return status;
}

sia_status sia_model_create_blank(sia_model **out, const sia_model_config *config, int threads,
                                  sia_error *err) {
    if (!out || !config)
        return sia_fail(err, SIA_ARGUMENT,
                        "model: want a place for the result and a configuration, got NULL");
    *out = NULL;
    if (threads < 0 || threads > SIA_MAX_THREADS)
        return sia_fail(err, SIA_ARGUMENT, "threads %d: want 0 to %d", threads, SIA_MAX_THREADS);
    sia_model *m = sia_alloc(1, sizeof *m);
    if (!m) return sia_fail_memory(err, sizeof *m, "model");
    m->config = *config;
    m->threads = threads ? threads : sia_threads_available();
    sia_status status = sia_kernel_check(err);
    if (!status) status = sia_model_config_complete(&m->config, err);
    if (!status) {
        sia_attention_config attention = sia_model_attention(&m->config, m->threads, m->config.train_len);
        status = sia_attention_create(&m->attention, m->config.scheme, &attention, err);
    }
    if (!status) status = sia_parameters_create(&m->parameters, &m->config, err);
    if (status) {
        sia_model_destroy(m);
        return status;
    }
    m->kernel = sia_kernel_get();
    *out = m;
    return SIA_OK;
}

static void free_panels(sia_panels *panels) {
    sia_pages_unmap(panels->memory, panels->bytes);
    sia_free(panels->of);
    *panels = (sia_panels){0};
}

void sia_model_destroy(sia_model *m) {
    if (!m) return;
    free_panels(&m->forward);
    free_panels(&m->back);
    sia_parameters_destroy(&m->parameters);
    sia_attention_destroy(m->attention);
    sia_free(m);
}

const sia_model_config *sia_model_settings(const sia_model *m) { return &m->config; }
int64_t sia_model_size(const sia_model *m) { return m->parameters.total; }
int sia_model_tensors(const sia_model *m) { return m->parameters.count; }

sia_tensor sia_model_tensor(const sia_model *m, int i) {
    if (i < 0 || i >= m->parameters.count) return (sia_tensor){0};
    const sia_parameter *p = &m->parameters.list[i];
    return (sia_tensor){p->name, p->rows, p->columns, p->value};
}

/* NTK and YaRN are rope with other frequencies, si and alibi only change the logits: weights fit as long as
 * LogN's scales are there or not. But a model that never turned its keys is not asked to. */
static sia_status scheme_fits(const char *trained, const char *wanted, sia_error *err) {
    sia_scheme a, b;
    sia_status status = sia_scheme_parse(trained, &a, err);
    if (!status) status = sia_scheme_parse(wanted, &b, err);
    if (status) return status;
    a = sia_scheme_to_train(a);
    b = sia_scheme_to_train(b);
    if (a.rotary != b.rotary || a.row != b.row || a.distance != b.distance)
        return sia_fail(err, SIA_SCHEME,
                        "scheme '%s': the model was trained with '%s'; only rope, ntk and yarn can "
                        "stand for one another",
                        wanted, trained);
    return SIA_OK;
}

sia_status sia_model_fit_attention(const sia_model *m, const char *scheme, int64_t eval_len,
                                   sia_attention **attention, sia_error *err) {
    *attention = NULL;
    sia_status status = scheme_fits(m->config.scheme, scheme, err);
    sia_attention_config config = sia_model_attention(&m->config, m->threads, eval_len);
    return status ? status : sia_attention_create(attention, scheme, &config, err);
}

sia_status sia_model_set_scheme(sia_model *m, const char *scheme, int64_t eval_len, sia_error *err) {
    if (!m || !scheme) return sia_fail(err, SIA_ARGUMENT, "model: want a model and a scheme, got NULL");
    int sessions = atomic_load(&m->sessions); /* their caches borrow the attention that would go */
    if (sessions)
        return sia_fail(err, SIA_ARGUMENT, "model: %d session%s open: want none for another scheme", sessions,
                        sessions == 1 ? "" : "s");
    sia_attention *attention;
    sia_status status = sia_model_fit_attention(m, scheme, eval_len, &attention, err);
    if (status) return status;
    sia_attention_destroy(m->attention);
    m->attention = attention;
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ packing */

static bool in_products(const sia_parameter *p) {
    return p->kind != SIA_KIND_EMBEDDING && p->kind != SIA_KIND_LOGN;
}

static int64_t panels_of(const sia_parameter *p, bool back) {
    if (!in_products(p)) return 0;
    return back ? sia_panel_floats(p->rows, p->columns) : sia_panel_floats(p->columns, p->rows);
}

/* All panels in one block of memory: in huge pages, and small ones among them too. */
static sia_status make_room(sia_model *m, sia_panels *panels, bool back, sia_error *err) {
    if (panels->memory) return SIA_OK;
    int count = m->parameters.count;
    int64_t floats = 0;
    for (int i = 0; i < count; i++) floats += panels_of(&m->parameters.list[i], back);
    size_t bytes = (size_t)floats * sizeof(float);
    panels->bytes = bytes;
    panels->of = sia_alloc((size_t)count, sizeof *panels->of);
    panels->memory = panels->of ? sia_pages_map(bytes) : NULL;
    if (!panels->memory) {
        free_panels(panels);
        return sia_fail_memory(err, bytes, "packed weights");
    }
    float *at = panels->memory;
    for (int i = 0; i < count; i++) {
        const sia_parameter *p = &m->parameters.list[i];
        if (in_products(p)) panels->of[i] = at;
        at += panels_of(p, back);
    }
    return SIA_OK;
}

/* Packing is cut into groups of panels: one large unembedding would keep all other threads waiting. */
enum { PANELS_IN_TASK = 64 };

typedef struct packing {
    const sia_model *m;
    bool back;
    bool shared;         /* others may be reading */
    _Atomic bool failed; /* without memory for a copy to compare */
} packing;

static int64_t pack_tasks(const sia_model *m, const sia_parameter *p, bool back) {
    int64_t columns = back ? p->columns : p->rows, width = (int64_t)m->kernel->panel * PANELS_IN_TASK;
    return in_products(p) ? (columns + width - 1) / width : 0;
}

static void pack_part(const sia_model *m, int i, bool back, int64_t part) {
    const sia_parameter *p = &m->parameters.list[i];
    int64_t width = (int64_t)m->kernel->panel * PANELS_IN_TASK, first = part * width;
    int64_t n = back ? p->columns : p->rows, k = back ? p->rows : p->columns;
    if (n - first < width) width = n - first;
    if (back)
        m->kernel->panels_from_rows(p->value + first, p->columns, k, width, m->back.of[i] + first * k);
    else
        m->kernel->panels_from_columns(p->value + first * p->columns, p->columns, k, width,
                                       m->forward.of[i] + first * k);
}

/* Packed aside, and copied only where it differs: as long as nobody changes the weights, nothing is written that another
 * session reads. */
static bool pack_part_shared(const sia_model *m, int i, int64_t part) {
    const sia_parameter *p = &m->parameters.list[i];
    int64_t width = (int64_t)m->kernel->panel * PANELS_IN_TASK, first = part * width, k = p->columns;
    if (p->rows - first < width) width = p->rows - first;
    size_t floats = (size_t)sia_panel_floats(k, width);
    float *aside = sia_alloc(floats, sizeof *aside), *panels = m->forward.of[i] + first * k;
    if (!aside) return false;
    m->kernel->panels_from_columns(p->value + first * k, k, k, width, aside);
    /* Bits, not values: a NaN is equal to itself here. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
    if (memcmp(aside, panels, floats * sizeof *aside) != 0) memcpy(panels, aside, floats * sizeof *aside);
    sia_free(aside);
    return true;
}

static void pack_task(void *context, int64_t task, int worker) {
    (void)worker;
    packing *job = context;
    for (int i = 0; i < job->m->parameters.count; i++)
        for (int back = 0; back < (job->back ? 2 : 1); back++) {
            int64_t tasks = pack_tasks(job->m, &job->m->parameters.list[i], back);
            if (task < tasks) {
                if (!job->shared)
                    pack_part(job->m, i, back, task);
                else if (!pack_part_shared(job->m, i, task))
                    job->failed = true;
                return;
            }
            task -= tasks;
        }
}

static sia_status pack(sia_model *m, bool back, bool shared, sia_error *err) {
    sia_status status = make_room(m, &m->forward, false, err);
    if (!status && back) status = make_room(m, &m->back, true, err);
    if (status) return status;
    int64_t tasks = 0;
    for (int i = 0; i < m->parameters.count; i++)
        for (int way = 0; way < (back ? 2 : 1); way++) tasks += pack_tasks(m, &m->parameters.list[i], way);
    packing job = {.m = m, .back = back, .shared = shared};
    sia_parallel(m->threads, tasks, pack_task, &job);
    return job.failed ? sia_fail_memory(err, m->forward.bytes, "packed weights") : SIA_OK;
}

sia_status sia_model_pack(sia_model *m, bool back, sia_error *err) { return pack(m, back, false, err); }

sia_status sia_model_pack_shared(sia_model *m, sia_error *err) {
    sia_lock_take(SIA_LOCK_PANELS);
    sia_status status = pack(m, false, m->forward.memory != NULL, err);
    sia_lock_leave(SIA_LOCK_PANELS);
    return status;
}

void sia_model_product(const sia_model *m, const sia_parameter *w, bool back, int64_t rows, const float *a,
                       float *c, float beta) {
    int64_t i = w - m->parameters.list, n = back ? w->columns : w->rows, k = back ? w->rows : w->columns;
    m->kernel->multiply(&(sia_multiply){.m = rows,
                                        .n = n,
                                        .k = k,
                                        .a = a,
                                        .a_stride = k,
                                        .b = back ? m->back.of[i] : m->forward.of[i],
                                        .c = c,
                                        .c_stride = n,
                                        .alpha = 1,
                                        .beta = beta});
}

sia_status sia_model_check_ids(const sia_model *m, const uint32_t *ids, int64_t count, const char *what,
                               bool may_miss, sia_error *err) {
    for (int64_t i = 0; i < count; i++)
        if (ids[i] >= m->config.vocabulary && !(may_miss && ids[i] == SIA_NO_TARGET))
            return sia_fail(err, SIA_ARGUMENT, "%s %lld is token %u: the vocabulary ends at %u", what,
                            (long long)i, ids[i], m->config.vocabulary);
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ counts */

int64_t sia_loss_rows(const sia_model_config *config) {
    int64_t rows = ((int64_t)32 << 20) / ((int64_t)config->vocabulary * (int64_t)sizeof(float));
    return rows > SIA_BLOCK_ROWS ? rows / SIA_BLOCK_ROWS * SIA_BLOCK_ROWS : rows > 6 ? rows / 6 * 6 : 6;
}

double sia_model_flops(const sia_model_config *c, int64_t length) {
    double q = (double)c->heads * c->head_dim, kv = (double)c->kv_heads * c->head_dim, width = c->width;
    double block = width * (2 * q + 2 * kv + 2 * (double)c->hidden);
    double weights = c->layers * block + width * (double)c->vocabulary;
    /* A query meets (length + 1) / 2 keys on average: q k and w v forward, twice that backward. What is
     * computed again does not count. */
    double attention = c->layers * q * 2 * ((double)length + 1) / 2;
    return 6 * weights + 6 * attention;
}
