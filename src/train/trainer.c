/* SPDX-License-Identifier: MIT
 *
 * One step: fill the batch, gradients by micro-batches, a look at the loss, the optimisers. */
#include "train/trainer.h"

#include <math.h>

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
};

static sia_status make_optimizer(sia_trainer *t, sia_error *err) {
    const sia_parameters *p = &t->m->parameters;
    t->tensors = sia_alloc((size_t)p->count, sizeof *t->tensors);
    if (!t->tensors) return sia_fail_memory(err, (size_t)p->count * sizeof *t->tensors, "optimiser");
    for (int i = 0; i < p->count; i++) {
        const sia_parameter *w = &p->list[i];
        t->tensors[i] = (sia_optim_tensor){w->name, w->value, w->gradient, w->rows, w->columns, w->group};
    }
    sia_optim_config config = sia_settings_optim(&t->settings, t->m->threads);
    return sia_optimizer_create(&t->optimizer, t->tensors, p->count, &config, err);
}

sia_status sia_trainer_create(sia_trainer **out, sia_model *m, const sia_settings *settings,
                              sia_fill_batch *fill, void *context, sia_error *err) {
    *out = NULL;
    sia_trainer *t = sia_alloc(1, sizeof *t);
    if (!t) return sia_fail_memory(err, sizeof *t, "training");
    *t = (sia_trainer){.m = m, .settings = *settings, .fill = fill, .context = context};
    t->limit = 2 * log((double)settings->model.vocabulary) + 2;
    size_t tokens = (size_t)settings->training.batch * (size_t)settings->model.train_len;
    t->ids = sia_alloc(tokens, sizeof *t->ids);
    t->targets = sia_alloc(tokens, sizeof *t->targets);
    sia_status status =
        t->ids && t->targets ? SIA_OK : sia_fail_memory(err, 2 * tokens * sizeof *t->ids, "batch");
    if (!status)
        status = sia_training_create(&t->training, m, settings->training.micro_batch,
                                     settings->model.train_len, settings->training.recompute, err);
    if (!status) status = make_optimizer(t, err);
    if (status) {
        sia_trainer_destroy(t);
        return status;
    }
    *out = t;
    return SIA_OK;
}

void sia_trainer_destroy(sia_trainer *t) {
    if (!t) return;
    sia_optimizer_destroy(t->optimizer);
    sia_training_destroy(t->training);
    sia_free(t->tensors);
    sia_free(t->ids);
    sia_free(t->targets);
    sia_free(t);
}

void sia_trainer_allow(sia_trainer *t, double loss) { t->limit = loss; }
sia_optimizer *sia_trainer_optimizer(sia_trainer *t) { return t->optimizer; }
size_t sia_trainer_bytes(const sia_trainer *t) { return sia_training_bytes(t->training); }

/* The gradients of the mean loss, a micro-batch at a time. */
static sia_status gradients(sia_trainer *t, double *loss, int64_t *scored, sia_error *err) {
    int64_t tokens = t->settings.training.batch * t->settings.model.train_len;
    int64_t part = t->settings.training.micro_batch * t->settings.model.train_len;
    *scored = 0;
    for (int64_t i = 0; i < tokens; i++) *scored += t->targets[i] != SIA_NO_TARGET;
    if (*scored == 0) return sia_fail(err, SIA_ARGUMENT, "a batch without a target");
    double total = 0;
    for (int64_t at = 0; at < tokens; at += part) {
        double sum;
        int64_t count;
        sia_status status = sia_training_run(t->training, t->ids + at, t->targets + at,
                                             (float)(1.0 / (double)*scored), at > 0, &sum, &count, err);
        if (status) return status;
        total += sum;
    }
    *loss = total / (double)*scored;
    return SIA_OK;
}

sia_status sia_trainer_step(sia_trainer *t, int64_t step, sia_step_result *result, sia_error *err) {
    *result = (sia_step_result){.tokens = t->settings.training.batch * t->settings.model.train_len};
    int64_t scored;
    sia_schedule schedule = sia_settings_schedule(&t->settings);
    result->rate_factor = sia_schedule_factor(&schedule, step);
    sia_status status = t->fill(t->context, step, t->ids, t->targets, err);
    if (!status) status = sia_model_pack(t->m, true, err);
    if (!status) status = gradients(t, &result->loss, &scored, err);
    if (status) return status;
    if (!isfinite(result->loss))
        return sia_fail(err, SIA_NUMBER, "step %lld: the loss is %s: a lower rate may help",
                        (long long)step + 1, isnan(result->loss) ? "not a number" : "infinite");
    if (result->loss > t->limit)
        return sia_fail(err, SIA_NUMBER,
                        "step %lld: the loss is %.3g, that of a model that knows nothing is %.3g: "
                        "a lower rate may help",
                        (long long)step + 1, result->loss, log((double)t->settings.model.vocabulary));
    return sia_optimizer_step(t->optimizer, step, result->rate_factor, &result->statistics, err);
}
