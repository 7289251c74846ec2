/* SPDX-License-Identifier: MIT
 *
 * Unembedding and cross entropy, and the gradients of weights.
 *
 *     logits = y W^T      loss = log(sum exp(logits)) - logits[target]      y the last norm of the residual
 *     dlogits = scale (softmax(logits) - target)      dy = dlogits W      dW = dlogits^T y
 *
 * Logits exist for one chunk of rows at a time. */
#include "model/training.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------ gradients */

typedef struct gradient_job {
    sia_training *t;
    const sia_gradient_of *list;
    int count;
    int64_t tokens;
    bool add;
} gradient_job;

/* With several threads every weight is cut at least in two, so that three equal ones do not leave a thread idle.
 * Where rows are cut does not change a bit of the result. */
static int64_t rows_of_block(const gradient_job *job, const sia_parameter *w) {
    int64_t blocks = sia_blocks(w->rows, SIA_GRADIENT_ROWS);
    if (job->t->m->threads > 1 && blocks < 2) blocks = 2;
    return sia_blocks(sia_blocks(w->rows, blocks), SIA_MAX_TILE) * SIA_MAX_TILE;
}

static int64_t gradient_tasks(const gradient_job *job, const sia_parameter *w) {
    return sia_blocks(w->rows, rows_of_block(job, w)) * sia_blocks(w->columns, SIA_GRADIENT_COLUMNS);
}

static void gradient_block(const gradient_job *job, const sia_gradient_of *g, int64_t block, float *work) {
    const sia_parameter *w = g->weight;
    int64_t across = sia_blocks(w->columns, SIA_GRADIENT_COLUMNS), rows = rows_of_block(job, w);
    int64_t row = block / across * rows, column = block % across * SIA_GRADIENT_COLUMNS;
    sia_product product = {
        .m = w->rows - row < rows ? w->rows - row : rows,
        .n = w->columns - column < SIA_GRADIENT_COLUMNS ? w->columns - column : SIA_GRADIENT_COLUMNS,
        .k = job->tokens,
        .a = g->dy + row,
        .a_stride = w->rows,
        .a_transposed = true,
        .b = g->x + column,
        .b_stride = w->columns,
        .c = w->gradient + row * w->columns + column,
        .c_stride = w->columns,
        .alpha = 1,
        .beta = job->add ? 1 : 0,
    };
    sia_product_run(&product, work);
}

static void gradient_task(void *context, int64_t task, int worker) {
    const gradient_job *job = context;
    for (int i = 0; i < job->count; i++) {
        int64_t tasks = gradient_tasks(job, job->list[i].weight);
        if (task < tasks) {
            gradient_block(job, &job->list[i], task, job->t->scratch + worker * job->t->worker_floats);
            return;
        }
        task -= tasks;
    }
}

void sia_training_gradients(sia_training *t, const sia_gradient_of *list, int count, int64_t tokens,
                            bool add) {
    gradient_job job = {t, list, count, tokens, add};
    int64_t tasks = 0;
    for (int i = 0; i < count; i++) tasks += gradient_tasks(&job, list[i].weight);
    sia_parallel(t->m->threads, tasks, gradient_task, &job);
}

/* ------------------------------------------------------------------------------------------------ the loss */

typedef struct loss_job {
    sia_training *t;
    const uint32_t *targets;
    float scale;
    int64_t first, rows, block; /* of the chunk */
} loss_job;

/* A chunk is cut among the threads in small blocks, but not below a tile's rows. */
static int64_t block_of(int64_t chunk) {
    return chunk > SIA_BLOCK_ROWS ? SIA_BLOCK_ROWS : chunk > 24 ? 24 : chunk;
}

static void loss_task(void *context, int64_t task, int worker) {
    (void)worker;
    const loss_job *job = context;
    sia_training *t = job->t;
    const sia_parameter *w = sia_unembedding(&t->m->parameters);
    int64_t width = w->columns, vocabulary = w->rows;
    int64_t row = task * job->block, rows = job->rows - row < job->block ? job->rows - row : job->block;
    float *logits = t->logits + row * vocabulary;
    int64_t first = job->first + row;
    sia_model_product(t->m, w, false, rows, t->y + first * width, logits, 0);
    for (int64_t i = 0; i < rows; i++) {
        uint32_t target = job->targets[first + i];
        t->losses[first + i] = 0;
        if (target == SIA_NO_TARGET)
            memset(logits + i * vocabulary, 0, (size_t)vocabulary * sizeof(float));
        else
            t->losses[first + i] =
                t->m->kernel->cross_entropy(logits + i * vocabulary, vocabulary, target, job->scale);
    }
    if (t->forward_only) return;
    float *dx = t->dx + first * width;
    sia_model_product(t->m, w, true, rows, logits, dx, 0);
    t->m->kernel->norm_rows_back(t->y + first * width, t->r + first, dx, NULL, dx, rows, width);
}

void sia_training_score(sia_training *t, const uint32_t *targets) {
    int64_t chunk = sia_loss_rows(&t->m->config);
    loss_job job = {.t = t, .targets = targets};
    job.block = block_of(chunk);
    for (; job.first < t->tokens; job.first += job.rows) {
        job.rows = t->tokens - job.first < chunk ? t->tokens - job.first : chunk;
        sia_parallel(t->m->threads, sia_blocks(job.rows, job.block), loss_task, &job);
    }
}

/* So many rows without a target, one after another, are left out. */
enum { GAP = 24 };

/* How many rows from `first` on have no target. */
static int64_t unscored_rows(const uint32_t *targets, int64_t first, int64_t end) {
    int64_t at = first;
    while (at < end && targets[at] == SIA_NO_TARGET) at++;
    return at - first;
}

/* How many rows there are from `first` to the next ones that are left out. */
static int64_t scored_rows(const uint32_t *targets, int64_t first, int64_t end) {
    int64_t at = first;
    while (at < end) {
        int64_t gap = unscored_rows(targets, at, end);
        if (gap >= GAP) break;
        at += gap + 1;
    }
    return (at < end ? at : end) - first;
}

/* One chunk of rows. */
static void loss_of_rows(loss_job *job, bool add) {
    sia_training *t = job->t;
    sia_parallel(t->m->threads, sia_blocks(job->rows, job->block), loss_task, job);
    sia_parameter *w = sia_unembedding(&t->m->parameters);
    sia_gradient_of unembedding = {w, t->logits, t->y + job->first * w->columns};
    sia_training_gradients(t, &unembedding, 1, job->rows, add);
}

/* Long stretches without a target, as in text of which an answer alone is scored, cost nothing. Where every row
 * has one, chunks are what they are without looking. */
void sia_training_loss(sia_training *t, const uint32_t *targets, float scale, bool add, double *sum,
                       int64_t *scored) {
    int64_t chunk = sia_loss_rows(&t->m->config), width = t->m->config.width;
    loss_job job = {.t = t, .targets = targets, .scale = scale};
    job.block = block_of(chunk);
    while (job.first < t->tokens) {
        int64_t gap = unscored_rows(targets, job.first, t->tokens);
        if (gap >= GAP) {
            memset(t->dx + job.first * width, 0, (size_t)(gap * width) * sizeof(float));
            memset(t->losses + job.first, 0, (size_t)gap * sizeof *t->losses);
            job.first += gap;
            continue;
        }
        job.rows = t->tokens - job.first < chunk ? t->tokens - job.first : chunk;
        job.rows = scored_rows(targets, job.first, job.first + job.rows);
        loss_of_rows(&job, add);
        add = true;
        job.first += job.rows;
    }
    if (!add) {
        const sia_parameter *w = sia_unembedding(&t->m->parameters);
        memset(w->gradient, 0, (size_t)(w->rows * w->columns) * sizeof(float));
    }
    *sum = 0;
    *scored = 0;
    for (int64_t i = 0; i < t->tokens; i++) {
        *sum += t->losses[i];
        *scored += targets[i] != SIA_NO_TARGET;
    }
}
