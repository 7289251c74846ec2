/* SPDX-License-Identifier: MIT
 *
 * The loss and the gradients of a model on a random batch, for another implementation to compare with: see
 * tests/outside/model_agree.py.
 *
 *     gradient_tool MODEL BATCH LENGTH OUT        MODEL: a run, a checkpoint or a file
 *
 * OUT is a safetensors file: a gradient for each tensor of the model, by its name; ids and targets [batch,
 * length] as I32, -1 for the targets that are not scored (every seventh); the mean loss as metadata. */
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "base/safetensors.h"
#include "model/model.h"
#include "train/model_file.h"

typedef struct batch {
    int64_t shape[2];
    uint32_t *ids, *targets;
    double loss;
} batch;

static sia_status make_batch(batch *b, uint32_t vocabulary, sia_error *err) {
    int64_t tokens = b->shape[0] * b->shape[1];
    b->ids = malloc((size_t)tokens * sizeof *b->ids);
    b->targets = malloc((size_t)tokens * sizeof *b->targets);
    if (!b->ids || !b->targets) return sia_fail_memory(err, (size_t)tokens * sizeof *b->ids, "batch");
    for (int64_t i = 0; i < tokens; i++) {
        b->ids[i] = (uint32_t)sia_random_below(1, (uint64_t)i, vocabulary);
        b->targets[i] = i % 7 == 3 ? SIA_NO_TARGET : (uint32_t)sia_random_below(2, (uint64_t)i, vocabulary);
    }
    return SIA_OK;
}

static sia_status compute(sia_model *m, batch *b, sia_error *err) {
    sia_training *t;
    int64_t scored = 0, counted;
    double sum;
    for (int64_t i = 0; i < b->shape[0] * b->shape[1]; i++) scored += b->targets[i] != SIA_NO_TARGET;
    sia_status status = sia_training_create(&t, m, b->shape[0], b->shape[1], false, err);
    if (!status) status = sia_model_pack(m, true, err);
    if (!status)
        status = sia_training_run(t, b->ids, b->targets, 1 / (float)scored, false, &sum, &counted, err);
    if (!status) b->loss = sum / (double)scored;
    sia_training_destroy(t);
    return status;
}

static sia_status write_all(sia_safetensors_writer *w, const sia_model *m, const batch *b, sia_error *err) {
    char loss[32];
    (void)snprintf(loss, sizeof loss, "%.17g", b->loss);
    sia_status status = sia_safetensors_describe(w, "loss", loss, err);
    const sia_parameters *p = &m->parameters;
    for (int i = 0; !status && i < p->count; i++)
        status = sia_safetensors_declare(w, p->list[i].name, SIA_DTYPE_F32, 2,
                                         (int64_t[]){p->list[i].rows, p->list[i].columns}, err);
    if (!status) status = sia_safetensors_declare(w, "ids", SIA_DTYPE_I32, 2, b->shape, err);
    if (!status) status = sia_safetensors_declare(w, "targets", SIA_DTYPE_I32, 2, b->shape, err);
    for (int i = 0; !status && i < p->count; i++)
        status = sia_safetensors_write(w, p->list[i].name, p->list[i].gradient,
                                       (size_t)(p->list[i].rows * p->list[i].columns) * sizeof(float), err);
    size_t bytes = (size_t)(b->shape[0] * b->shape[1]) * sizeof *b->ids;
    if (!status) status = sia_safetensors_write(w, "ids", b->ids, bytes, err);
    if (!status) status = sia_safetensors_write(w, "targets", b->targets, bytes, err);
    return status;
}

static sia_status write_file(const char *path, const sia_model *m, const batch *b, sia_error *err) {
    sia_safetensors_writer *w;
    sia_status status = sia_safetensors_create(&w, path, err);
    if (status) return status;
    status = write_all(w, m, b, err);
    if (!status) return sia_safetensors_finish(w, err);
    sia_safetensors_abandon(w);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    batch b = {.shape = {strtoll(argv[2], NULL, 10), strtoll(argv[3], NULL, 10)}};
    if (b.shape[0] < 1 || b.shape[1] < 1) return 2;
    sia_model *m;
    sia_error err;
    sia_status status = sia_model_load(&m, argv[1], 1, NULL, &err);
    if (!status) status = make_batch(&b, m->config.vocabulary, &err);
    if (!status) status = compute(m, &b, &err);
    if (!status) status = write_file(argv[4], m, &b, &err);
    if (status) (void)fprintf(stderr, "%s\n", err.text);
    sia_model_destroy(m);
    free(b.ids);
    free(b.targets);
    return status ? 1 : 0;
}
