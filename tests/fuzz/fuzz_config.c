/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a config.json: refused with a sentence, or complete settings that come back from their own
 * JSON. */
#include "fuzz.h"

#include "train/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sia_settings s, back = {0};
    sia_error err;
    json_t *json = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (!json) return 0;
    if (sia_settings_preset(&s, "tiny", NULL)) abort();
    sia_status status = sia_settings_read(&s, json, "config.json", &err);
    if (!status) status = sia_settings_complete(&s, &err);
    json_decref(json);
    if (status) {
        fuzz_sentence(&err);
        return 0;
    }
    json_t *first = sia_settings_json(&s);
    char *text = first ? json_dumps(first, JSON_REAL_PRECISION(17)) : NULL;
    json_t *again = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!again || sia_settings_read(&back, again, "config.json", NULL) || sia_settings_complete(&back, NULL))
        abort();
    json_t *second = sia_settings_json(&back);
    if (!json_equal(first, second)) abort();
    json_decref(first);
    json_decref(again);
    json_decref(second);
    free(text);
    return 0;
}
