/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a safetensors file: refused with a sentence, or every tensor is found under its name, its size
 * is that of its shape, and the tensors cover the data, each byte once: their sum reads all of it. */
#include "fuzz.h"

#include "base/safetensors.h"

static volatile unsigned char read_bytes; /* so that the reads happen */

static size_t check_tensor(const sia_safetensors *file, const sia_stored_tensor *t) {
    const sia_stored_tensor *same;
    size_t bytes = sia_dtype_size(t->dtype);
    if (sia_safetensors_find(file, t->name) != t || t->dims < 0 || t->dims > SIA_SAFETENSORS_DIMS) abort();
    for (int i = 0; i < t->dims; i++) bytes *= (size_t)t->shape[i];
    if (bytes != t->bytes) abort();
    for (size_t i = 0; i < t->bytes; i++) read_bytes ^= ((const unsigned char *)t->data)[i];
    if (sia_safetensors_want(file, t->name, t->dtype, t->dims, t->shape, &same, NULL) || same != t) abort();
    return t->bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sia_safetensors *file;
    sia_error err;
    uint64_t header;
    if (sia_safetensors_parse(&file, (const char *)data, size, "model.safetensors", &err) != SIA_OK) {
        fuzz_sentence(&err);
        return 0;
    }
    size_t bytes = 0;
    for (int64_t i = 0; i < sia_safetensors_count(file); i++)
        bytes += check_tensor(file, sia_safetensors_at(file, i));
    memcpy(&header, data, sizeof header);
    if (bytes + sizeof header + header != size) abort();
    for (int64_t i = 0; i < sia_safetensors_metadata_count(file); i++)
        if (!sia_safetensors_metadata(file, sia_safetensors_metadata_key(file, i))) abort();
    sia_safetensors_close(file);
    return 0;
}
