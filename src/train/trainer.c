/* SPDX-License-Identifier: MIT
 *
 * One step: fill the batch, gradients by micro-batches, a look at the loss, the optimisers.
 *
 * On several ranks every rank fills the whole batch, which is cheap, and so knows how many targets are scored without
 * a word; then it takes rows [r B / R, (r + 1) B / R) of B. Gradients are those of the mean over the whole batch:
 * parts need no weights. Ranks that work on a sequence together (attention/ring.h) have the same rows, and each its own
 * positions of them; gradients are summed over all ranks alike. */
#include "train/trainer.h"

#include <math.h>

#include "comm/exchange.h"

struct sia_trainer {
    sia_model *m;
    sia_settings settings;
    sia_fill_batch *fill;
    void *context;
    sia_training *training;
    sia_optimizer *optimizer;
    sia_optim_tensor *tensors;
    uint32_t *ids, *targets; /* [batch, length] */
    double limit;            /* of the loss */

    sia_comm *comm;
    sia_comm *ring; /* ranks that have the same rows, each a part of every sequence; NULL: this one alone */
    uint32_t *part_ids, *part_targets; /* [micro_batch, positions], with a ring */
    int64_t first_row, rows;           /* this rank's */
    int64_t micro_batch;               /* of them at a time */
    sia_exchange *exchange;            /* NULL on one rank */
    sia_share *values;                 /* of the parts of the optimiser, in their order */
    int64_t *first_part;               /* [tensors + 1] */
};

/* ------------------------------------------------------------------------------------------------ creation */

static sia_status add_up(void *context, double *numbers, int64_t count, sia_error *err) {
    return sia_comm_sum(context, numbers, count, err);
}

static sia_status make_optimizer(sia_trainer *t, sia_error *err) {
    const sia_parameters *p = &t->m->parameters;
    t->tensors = sia_alloc((size_t)p->count, sizeof *t->tensors);
    if (!t->tensors) return sia_fail_memory(err, (size_t)p->count * sizeof *t->tensors, "optimiser");
    for (int i = 0; i < p->count; i++) {
        const sia_parameter *w = &p->list[i];
        t->tensors[i] = (sia_optim_tensor){w->name, w->value, w->gradient, w->rows, w->columns, w->group};
    }
    sia_optim_config config = sia_settings_optim(&t->settings, t->m->threads);
    config.rank = sia_comm_rank(t->comm);
    config.ranks = sia_comm_size(t->comm);
    config.add_up = add_up;
    config.add_up_context = t->comm;
    return sia_optimizer_create(&t->optimizer, t->tensors, p->count, &config, err);
}

/* What belongs to whom, as the exchange wants it. */
static sia_status make_exchange(sia_trainer *t, sia_error *err) {
    if (sia_comm_size(t->comm) == 1) return SIA_OK;
    int64_t count, tensors = t->m->parameters.count;
    const sia_optim_part *parts = sia_optimizer_parts(t->optimizer, &count);
    t->values = sia_alloc((size_t)count, sizeof *t->values);
    t->first_part = sia_alloc((size_t)tensors + 1, sizeof *t->first_part);
    if (!t->values || !t->first_part)
        return sia_fail_memory(err, (size_t)count * sizeof *t->values, "exchange");
    for (int64_t i = 0; i < count; i++) {
        t->values[i] =
            (sia_share){t->tensors[parts[i].tensor].value + parts[i].from, parts[i].count, parts[i].owner};
        t->first_part[parts[i].tensor + 1] = i + 1;
    }
    return sia_exchange_create(&t->exchange, t->comm, err);
}

static sia_status take_rows(sia_trainer *t, int together, sia_error *err) {
    int ranks = sia_comm_size(t->comm);
    int64_t batch = t->settings.training.batch;
    if (together < 1 || ranks % together)
        return sia_fail(err, SIA_ARGUMENT, "context parallel %d on %d rank%s: want a divisor of their number",
                        together, ranks, ranks == 1 ? "" : "s");
    int64_t groups = ranks / together, group = sia_comm_rank(t->comm) / together;
    if (batch < groups)
        return sia_fail(err, SIA_ARGUMENT, "a batch of %lld sequences on %lld %s: want one each at least",
                        (long long)batch, (long long)groups, together > 1 ? "groups of ranks" : "ranks");
    if (together > 1) {
        sia_status status = sia_comm_part(&t->ring, t->comm, (int)group * together, together, err);
        if (status) return status;
    }
    t->first_row = group * batch / groups;
    t->rows = (group + 1) * batch / groups - t->first_row;
    t->micro_batch = t->settings.training.micro_batch < t->rows ? t->settings.training.micro_batch : t->rows;
    return SIA_OK;
}

static sia_status make_training(sia_trainer *t, sia_error *err) {
    sia_training_plan plan = {.batch = t->micro_batch,
                              .length = t->settings.model.train_len,
                              .recompute = t->settings.training.recompute,
                              .ring = t->ring};
    sia_status status = sia_training_plan_create(&t->training, t->m, &plan, err);
    if (status || !t->ring) return status;
    size_t tokens = (size_t)(t->micro_batch * sia_training_positions(t->training));
    t->part_ids = sia_alloc(tokens, sizeof *t->part_ids);
    t->part_targets = sia_alloc(tokens, sizeof *t->part_targets);
    return t->part_ids && t->part_targets ? SIA_OK
                                          : sia_fail_memory(err, 2 * tokens * sizeof *t->part_ids, "batch");
}

sia_status sia_trainer_create(sia_trainer **t, sia_model *m, const sia_settings *settings,
                              sia_fill_batch *fill, void *context, sia_error *err) {
    return sia_trainer_create_ranks(t, m, settings, fill, context, (sia_trainer_ranks){0}, err);
}

sia_status sia_trainer_create_ranks(sia_trainer **out, sia_model *m, const sia_settings *settings,
                                    sia_fill_batch *fill, void *context, sia_trainer_ranks ranks,
                                    sia_error *err) {
    *out = NULL;
    sia_trainer *t = sia_alloc(1, sizeof *t);
    if (!t) return sia_fail_memory(err, sizeof *t, "training");
    *t = (sia_trainer){.m = m, .settings = *settings, .fill = fill, .context = context, .comm = ranks.comm};
    t->limit = 2 * log((double)settings->model.vocabulary) + 2;
    size_t tokens = (size_t)settings->training.batch * (size_t)settings->model.train_len;
    t->ids = sia_alloc(tokens, sizeof *t->ids);
    t->targets = sia_alloc(tokens, sizeof *t->targets);
    sia_status status =
        t->ids && t->targets ? SIA_OK : sia_fail_memory(err, 2 * tokens * sizeof *t->ids, "batch");
    if (!status) status = take_rows(t, ranks.together ? ranks.together : 1, err);
    if (!status) status = make_training(t, err);
    if (!status) status = make_optimizer(t, err);
    if (!status) status = make_exchange(t, err);
    status = sia_comm_agree(ranks.comm, status, err);
    if (status) {
        sia_trainer_destroy(t);
        return status;
    }
    *out = t;
    return SIA_OK;
}

void sia_trainer_destroy(sia_trainer *t) {
    if (!t) return;
    sia_exchange_destroy(t->exchange);
    sia_optimizer_destroy(t->optimizer);
    sia_training_destroy(t->training);
    sia_comm_destroy(t->ring);
    sia_free(t->part_ids);
    sia_free(t->part_targets);
    sia_free(t->values);
    sia_free(t->first_part);
    sia_free(t->tensors);
    sia_free(t->ids);
    sia_free(t->targets);
    sia_free(t);
}

void sia_trainer_allow(sia_trainer *t, double loss) { t->limit = loss; }
sia_optimizer *sia_trainer_optimizer(const sia_trainer *t) { return t->optimizer; }
size_t sia_trainer_bytes(const sia_trainer *t) {
    enum { COPIES = 4 }; /* of the model's numbers: weights, gradients, weights packed for each pass */
    return COPIES * (size_t)sia_model_size(t->m) * sizeof(float) + sia_optimizer_bytes(t->optimizer) +
           sia_optimizer_work_bytes(t->optimizer) + sia_training_bytes(t->training) +
           (t->exchange ? sia_exchange_bytes(t->exchange) : 0);
}

/* ------------------------------------------------------------------------------------------------ gradients */

/* Gradients that are whole go to their owners; others move on. */
static sia_status send_ready(void *context, int first, int count, sia_error *err) {
    sia_trainer *t = context;
    int64_t all;
    const sia_optim_part *parts = sia_optimizer_parts(t->optimizer, &all);
    if (count == 0) return sia_exchange_poll(t->exchange, err);
    sia_status status = SIA_OK;
    for (int64_t i = t->first_part[first]; !status && i < t->first_part[first + count]; i++) {
        float *gradient = t->m->parameters.list[parts[i].tensor].gradient;
        status = sia_exchange_add(t->exchange, gradient + parts[i].from, parts[i].count, parts[i].owner, err);
    }
    return status;
}

/* What this rank has of each row. */
static void pick_parts(const sia_trainer *t, const uint32_t *ids, const uint32_t *targets, int64_t rows) {
    int64_t length = t->settings.model.train_len, positions = sia_training_positions(t->training);
    for (int64_t i = 0; i < rows; i++) {
        sia_training_pick(t->training, ids + i * length, t->part_ids + i * positions);
        sia_training_pick(t->training, targets + i * length, t->part_targets + i * positions);
    }
}

/* The gradients of the mean loss, a micro-batch at a time; with the last one they leave. */
static sia_status gradients(sia_trainer *t, int64_t scored, double *loss, sia_error *err) {
    int64_t length = t->settings.model.train_len;
    double total = 0;
    sia_status status = SIA_OK;
    for (int64_t row = 0, rows; !status && row < t->rows; row += rows) {
        double sum;
        int64_t count;
        const uint32_t *ids = t->ids + (t->first_row + row) * length;
        const uint32_t *targets = t->targets + (t->first_row + row) * length;
        rows = t->rows - row < t->micro_batch ? t->rows - row : t->micro_batch;
        bool last = row + rows == t->rows;
        sia_training_watch(t->training, last && t->exchange ? send_ready : NULL, t);
        if (t->ring) {
            pick_parts(t, ids, targets, rows);
            ids = t->part_ids;
            targets = t->part_targets;
        }
        status = sia_training_resize(t->training, rows, err);
        if (!status)
            status = sia_training_run(t->training, ids, targets, (float)(1.0 / (double)scored), row > 0, &sum,
                                      &count, err);
        if (!status) total += sum;
    }
    if (!status && t->exchange) status = sia_exchange_finish(t->exchange, err);
    if (!status) status = sia_comm_sum(t->comm, &total, 1, err);
    *loss = total / (double)scored;
    return status;
}

/* ------------------------------------------------------------------------------------------------ a step */

/* What may fail on one rank alone comes first, so that none waits for another's gradients in vain. */
static sia_status prepare(sia_trainer *t, int64_t step, int64_t *scored, sia_error *err) {
    int64_t tokens = t->settings.training.batch * t->settings.model.train_len;
    sia_status status = t->fill(t->context, step, t->ids, t->targets, err);
    if (!status) status = sia_model_check_ids(t->m, t->ids, tokens, "input", false, err);
    if (!status) status = sia_model_check_ids(t->m, t->targets, tokens, "target", true, err);
    *scored = 0;
    for (int64_t i = 0; !status && i < tokens; i++) *scored += t->targets[i] != SIA_NO_TARGET;
    if (!status && *scored == 0) status = sia_fail(err, SIA_ARGUMENT, "a batch without a target");
    if (!status) status = sia_model_pack(t->m, true, err);
    return sia_comm_agree(t->comm, status, err);
}

static sia_status look_at(const sia_trainer *t, int64_t step, double loss, sia_error *err) {
    if (!isfinite(loss))
        return sia_fail(err, SIA_NUMBER, "step %lld: the loss is %s: a lower rate may help",
                        (long long)step + 1, isnan(loss) ? "not a number" : "infinite");
    if (loss > t->limit)
        return sia_fail(err, SIA_NUMBER,
                        "step %lld: the loss is %.3g, that of a model that knows nothing is %.3g: "
                        "a lower rate may help",
                        (long long)step + 1, loss, log((double)t->settings.model.vocabulary));
    return SIA_OK;
}

sia_status sia_trainer_step(sia_trainer *t, int64_t step, sia_step_result *result, sia_error *err) {
    *result = (sia_step_result){.tokens = t->settings.training.batch * t->settings.model.train_len};
    int64_t scored, parts;
    sia_schedule schedule = sia_settings_schedule(&t->settings);
    result->rate_factor = sia_schedule_factor(&schedule, step);
    sia_status status = prepare(t, step, &scored, err);
    if (!status) status = gradients(t, scored, &result->loss, err);
    if (status) return status;
    /* Every rank has the same loss and the same norms: from here on all fail, or none. */
    status = look_at(t, step, result->loss, err);
    if (!status)
        status = sia_optimizer_step(t->optimizer, step, result->rate_factor, &result->statistics, err);
    if (status == SIA_NUMBER) return sia_comm_agree(t->comm, status, err);
    (void)sia_optimizer_parts(t->optimizer, &parts);
    return status ? status : sia_spread(t->comm, t->values, parts, err);
}
