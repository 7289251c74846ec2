/* SPDX-License-Identifier: MIT
 *
 * Which trainings a list of schemes needs: see compare_plan.h. */
#include "study/compare_plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "position/scheme.h"

sia_status sia_trained_scheme(const char *scheme, char name[SIA_SCHEME_NAME], sia_error *err) {
    sia_scheme slots;
    sia_status status = sia_scheme_parse(scheme, &slots, err);
    if (status) return status;
    (void)sia_scheme_name(sia_scheme_to_train(slots), name);
    return SIA_OK;
}

/* A number among the settings of the model or of the training, by its name. */
static sia_status sweep_set(sia_settings *settings, const char *name, double value, sia_error *err) {
    const sia_field *field = sia_field_find(sia_model_fields, name);
    void *at = &settings->model;
    if (!field) {
        field = sia_field_find(sia_training_fields, name);
        at = &settings->training;
    }
    if (!field || field->kind == SIA_FIELD_CHOICE || field->kind == SIA_FIELD_BOOL)
        return sia_fail(err, SIA_ARGUMENT,
                        "sweep '%s': want the name of a number among the settings, such as tau, train_len, "
                        "matrix_rate",
                        name);
    if (!strcmp(name, "vocabulary"))
        return sia_fail(err, SIA_ARGUMENT, "sweep 'vocabulary': all variants read the same tokens");
    static const char *const no_difference[] = {"log_every", "eval_every", "save_every", "keep",
                                                "micro_batch"};
    for (size_t i = 0; i < sizeof no_difference / sizeof *no_difference; i++)
        if (!strcmp(name, no_difference[i]))
            return sia_fail(err, SIA_ARGUMENT, "sweep '%s': it makes no difference to what is learnt", name);
    if (!strcmp(name, "eval_windows"))
        return sia_fail(err, SIA_ARGUMENT,
                        "sweep 'eval_windows': all variants are judged by the same tokens");
    if (!strcmp(name, "seed") || !strcmp(name, "data_seed"))
        return sia_fail(err, SIA_ARGUMENT, "sweep '%s': every variant has the same seeds (--seeds)", name);
    if (field->kind != SIA_FIELD_REAL && value != floor(value))
        return sia_fail(err, SIA_ARGUMENT, "sweep %s=%g: want whole numbers", name, value);
    if (!(value >= field->min && value <= field->max))
        return sia_fail(err, SIA_ARGUMENT, "sweep %s=%.10g: want %.10g to %.10g", name, value, field->min,
                        field->max);
    sia_field_set(at, field, value);
    return SIA_OK;
}

static sia_part *find_part(sia_plan *plan, const char *name) {
    for (int64_t i = 0; i < plan->count; i++)
        if (!strcmp(plan->parts[i].name, name)) return &plan->parts[i];
    return NULL;
}

static sia_status plan_one(sia_plan *plan, const sia_compare_job *job, const char *scheme, int variant,
                           uint64_t seed, sia_error *err) {
    char trained[SIA_SCHEME_NAME], canonical[SIA_SCHEME_NAME];
    char text[SIA_PART_VARIANT] = "", name[SIA_PART_NAME];
    sia_scheme slots;
    sia_status status = sia_trained_scheme(scheme, trained, err);
    if (!status) status = sia_scheme_parse(scheme, &slots, err);
    if (status) return status;
    (void)sia_scheme_name(slots, canonical);
    if (job->sweep) (void)snprintf(text, sizeof text, "%s=%g", job->sweep, job->sweep_values[variant]);
    (void)snprintf(name, sizeof name, "%s%s%s-seed%llu", trained, *text ? "-" : "", text,
                   (unsigned long long)seed);
    sia_part *p = find_part(plan, name);
    if (!p) {
        p = &plan->parts[plan->count++];
        *p = (sia_part){.seed = seed, .settings = *job->settings};
        memcpy(p->name, name, sizeof name);
        memcpy(p->variant, text, sizeof text);
        memcpy(p->settings.model.scheme, trained, sizeof trained);
        p->settings.model.seed = job->settings->model.seed + seed;
        p->settings.training.data_seed = job->settings->training.data_seed + seed;
        if (job->sweep) status = sweep_set(&p->settings, job->sweep, job->sweep_values[variant], err);
        if (!status) status = sia_settings_complete(&p->settings, err);
        if (!status) status = sia_multiples_check(p->settings.training.multiples, err);
        if (status) return status;
    }
    for (int i = 0; i < p->scheme_count; i++)
        if (!strcmp(p->schemes[i], canonical)) return SIA_OK;
    memcpy(p->schemes[p->scheme_count++], canonical, sizeof canonical);
    return SIA_OK;
}

/* Some scheme uses what is swept. And values are named by their text: two that look the same would be one training. */
static sia_status check_sweep(const sia_compare_job *job, sia_error *err) {
    bool used = !job->sweep;
    for (int i = 0; i < job->scheme_count && !used; i++) {
        sia_scheme scheme;
        sia_status status = sia_scheme_parse(job->schemes[i], &scheme, err);
        if (status) return status;
        used = sia_scheme_uses(scheme, job->sweep);
    }
    if (!used) return sia_fail(err, SIA_ARGUMENT, "sweep '%s': none of the schemes uses it", job->sweep);
    for (int i = 1; job->sweep && i < job->sweep_count; i++)
        for (int j = 0; j < i; j++) {
            char a[SIA_PART_VARIANT], b[SIA_PART_VARIANT];
            (void)snprintf(a, sizeof a, "%g", job->sweep_values[i]);
            (void)snprintf(b, sizeof b, "%g", job->sweep_values[j]);
            if (!strcmp(a, b))
                return sia_fail(err, SIA_ARGUMENT, "sweep %s: %s is there twice", job->sweep, a);
        }
    return SIA_OK;
}

/* Seeds outermost: after the first round every scheme has a result. */
sia_status sia_plan_make(sia_plan *plan, const sia_compare_job *job, sia_error *err) {
    *plan = (sia_plan){0};
    int variants = job->sweep ? job->sweep_count : 1;
    if (job->seeds < 1 || job->seeds > 100)
        return sia_fail(err, SIA_ARGUMENT, "seeds %lld: want 1 to 100", (long long)job->seeds);
    sia_status status = check_sweep(job, err);
    if (status) return status;
    plan->parts = sia_alloc((size_t)(job->seeds * variants * job->scheme_count), sizeof *plan->parts);
    if (!plan->parts) return sia_fail_memory(err, sizeof *plan->parts, "study");
    for (int64_t seed = 0; seed < job->seeds; seed++)
        for (int variant = 0; variant < variants; variant++)
            for (int i = 0; !status && i < job->scheme_count; i++)
                status = plan_one(plan, job, job->schemes[i], variant, (uint64_t)seed, err);
    return status;
}
