/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the folder of a run: two bytes are the length of config.json, which follows; the rest is
 * metrics.jsonl. Both are refused with a sentence, or settings that are complete come out, and a log from
 * which later steps are gone. */
#include "fuzz.h"

#include "base/file.h"
#include "base/json.h"
#include "train/run.h"
#include "train/train.h"

enum { STEP = 5 };

/* Whole lines, none of a later step. */
static void check_log(void) {
    char path[128], *text;
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/metrics.jsonl", fuzz_folder());
    if (sia_file_read(path, 1 << 20, &text, &bytes, NULL)) abort();
    for (char *line = text, *end; line < text + bytes; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + bytes - line));
        if (!end) abort();
        json_t *json = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (!json || json_number_value(json_object_get(json, "step")) > STEP) abort();
        json_decref(json);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *second;
    size_t second_size;
    sia_settings settings;
    json_t *description = NULL;
    sia_run *run;
    sia_error err;
    fuzz_split(&data, &size, &second, &second_size);
    fuzz_file("config.json", data, size);
    fuzz_file("metrics.jsonl", second, second_size);
    fuzz_file("lock", (const uint8_t *)"sia 1", 5); /* whatever config.json says, it is a run's folder */
    if (sia_train_config_read(fuzz_folder(), &settings, &description, &err)) {
        fuzz_sentence(&err);
    } else {
        sia_train_data text = {.description = description};
        char shown[512];
        if (settings.model.layers < 1 || settings.training.steps < 1) abort();
        (void)sia_train_data_text(&text, shown, sizeof shown);
        for (const char *c = shown; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f) abort();
    }
    json_decref(description);
    if (sia_run_open(&run, fuzz_folder(), &err)) abort();
    if (sia_run_rewind(run, STEP, &err))
        fuzz_sentence(&err);
    else
        check_log();
    sia_run_close(run);
    return 0;
}
