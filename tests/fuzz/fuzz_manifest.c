/* SPDX-License-Identifier: MIT
 *
 * Any bytes as data.json: refused with a sentence, or its counts add up and no shard is outside of its
 * folder. */
#include "fuzz.h"

#include "data/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sia_manifest m;
    sia_error err;
    if (sia_manifest_parse(&m, (const char *)data, size, "data.json", &err) != SIA_OK) {
        fuzz_sentence(&err);
        return 0;
    }
    if (m.end_of_text >= m.vocabulary || m.vocabulary > 65536) abort();
    for (int part = 0; part < SIA_PARTS; part++) {
        int64_t tokens = 0;
        for (int64_t i = 0; i < m.parts[part].shard_count; i++) {
            if (strchr(m.parts[part].shards[i].file, '/') || m.parts[part].shards[i].file[0] == '.') abort();
            tokens += m.parts[part].shards[i].tokens;
        }
        if (tokens != m.parts[part].tokens) abort();
    }
    sia_manifest_free(&m);
    return 0;
}
