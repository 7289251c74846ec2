/* SPDX-License-Identifier: MIT
 *
 * Files for another reader, and what we read in another writer's: see tests/outside/safetensors_agree.py.
 *
 *     safetensors_tool write FILE     a tensor of each type, an empty one, a scalar; byte i of tensor t is
 *                                     (37 i + 11 t) mod 251, with 0 and 1 alone in BOOL
 *     safetensors_tool read FILE      a line for each: "tensor NAME F32 [2, 3] SHA256", "metadata KEY VALUE" */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/safetensors.h"
#include "base/sha256.h"

static const int64_t shape[2] = {5, 7};

static int dims_of(int t) { return t == SIA_DTYPE_I64 ? 0 : 2; }

static const int64_t *shape_of(int t) {
    static const int64_t empty[2] = {0, 7};
    return t == SIA_DTYPE_U64 ? empty : shape;
}

/* Wider types first. */
static const sia_dtype order[SIA_DTYPES] = {
    SIA_DTYPE_F64,  SIA_DTYPE_I64, SIA_DTYPE_U64, SIA_DTYPE_F32, SIA_DTYPE_I32, SIA_DTYPE_U32, SIA_DTYPE_F16,
    SIA_DTYPE_BF16, SIA_DTYPE_I16, SIA_DTYPE_U16, SIA_DTYPE_I8,  SIA_DTYPE_U8,  SIA_DTYPE_BOOL};

static sia_status write_all(sia_safetensors_writer *w, sia_error *err) {
    sia_status status = sia_safetensors_describe(w, "step", "500", err);
    if (!status) status = sia_safetensors_describe(w, "config", "{\"name\": \"\xc3\xa9t\xc3\xa9\\\"\"}", err);
    for (int i = 0; !status && i < SIA_DTYPES; i++)
        status = sia_safetensors_declare(w, sia_dtype_name(order[i]), order[i], dims_of((int)order[i]),
                                         shape_of((int)order[i]), err);
    for (int i = 0; !status && i < SIA_DTYPES; i++) {
        unsigned char bytes[8 * 35];
        size_t size = sia_dtype_size(order[i]);
        for (int k = 0; k < dims_of((int)order[i]); k++) size *= (size_t)shape_of((int)order[i])[k];
        for (size_t k = 0; k < size; k++)
            bytes[k] = (unsigned char)((37 * k + 11 * (size_t)i) % (order[i] == SIA_DTYPE_BOOL ? 2 : 251));
        status = sia_safetensors_write(w, sia_dtype_name(order[i]), bytes, size, err);
    }
    return status;
}

static sia_status write_file(const char *path, sia_error *err) {
    sia_safetensors_writer *w;
    sia_status status = sia_safetensors_create(&w, path, err);
    if (!status) status = write_all(w, err);
    if (!status) return sia_safetensors_finish(w, err);
    sia_safetensors_abandon(w);
    return status;
}

static sia_status read_file(const char *path, sia_error *err) {
    sia_safetensors *file;
    sia_status status = sia_safetensors_open(&file, path, err);
    if (status) return status;
    for (int64_t i = 0; i < sia_safetensors_count(file); i++) {
        const sia_stored_tensor *t = sia_safetensors_at(file, i);
        char sum[SIA_SHA256_TEXT], text[SIA_TENSOR_TEXT];
        sia_sha256(t->data, t->bytes, sum);
        printf("tensor %s %s %s\n", t->name, sia_tensor_text(t->dtype, t->dims, t->shape, text), sum);
    }
    for (int64_t i = 0; i < sia_safetensors_metadata_count(file); i++) {
        const char *key = sia_safetensors_metadata_key(file, i);
        printf("metadata %s %s\n", key, sia_safetensors_metadata(file, key));
    }
    sia_safetensors_close(file);
    return SIA_OK;
}

int main(int argc, char **argv) {
    sia_error err;
    if (argc != 3) return 2;
    sia_status status = strcmp(argv[1], "write") == 0 ? write_file(argv[2], &err) : read_file(argv[2], &err);
    if (!status) return 0;
    (void)fprintf(stderr, "%s\n", err.text);
    return 1;
}
