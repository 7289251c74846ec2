/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the two files of a checkpoint: refused with a sentence, or a model that runs. Two bytes are
 * the length of model.safetensors, which follows; the rest is optimizer.safetensors. */
#include "fuzz.h"

#include "train/checkpoint.h"

static void check_checkpoint(const sia_checkpoint *c) {
    float values[32];
    sia_tensor_entry entry = {"embedding.weight", values, 2, {4, 8}};
    sia_error err;
    if (sia_checkpoint_step(c) != 1) abort();
    sia_status status = sia_checkpoint_read(c, &(sia_tensor_table){&entry, 1}, NULL, &err);
    if (status) fuzz_sentence(&err);
}

static void check_model(sia_model *m) {
    sia_session *s;
    sia_error err;
    const sia_model_config *config = sia_model_settings(m);
    float *logits = malloc(config->vocabulary * sizeof *logits);
    if (!logits || sia_session_create(&s, m, SIA_F32, &err)) abort();
    const uint32_t ids[] = {0, config->vocabulary - 1};
    if (sia_session_feed(s, ids, 2, NULL, NULL, logits, &err)) fuzz_sentence(&err);
    sia_session_destroy(s);
    free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *second;
    size_t second_size;
    char path[128];
    sia_error err;
    sia_checkpoint *c;
    sia_model *m;
    (void)snprintf(path, sizeof path, "%s/step-000001", fuzz_folder());
    (void)mkdir(path, 0777);
    fuzz_split(&data, &size, &second, &second_size);
    fuzz_file("step-000001/model.safetensors", data, size);
    fuzz_file("step-000001/optimizer.safetensors", second, second_size);
    if (sia_checkpoint_open(&c, fuzz_folder(), 1, false, &err) == SIA_OK)
        check_checkpoint(c);
    else
        fuzz_sentence(&err);
    sia_checkpoint_close(c);
    if (sia_model_open(&m, fuzz_folder(), 1, &err) == SIA_OK)
        check_model(m);
    else
        fuzz_sentence(&err);
    sia_model_destroy(m);
    return 0;
}
