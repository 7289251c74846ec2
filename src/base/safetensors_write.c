/* SPDX-License-Identifier: MIT
 *
 * Writes safetensors files: see safetensors.h. The header is collected while tensors are declared and goes
 * out before the first byte of data, padded with spaces so that 8 + n is a multiple of SIA_SAFETENSORS_ALIGN.
 * jansson keeps keys in the order in which they were set: the same calls give the same bytes. */
#include "base/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/harmless.h"
#include "base/json.h"
#include "base/memory.h"

#define METADATA "__metadata__"

typedef struct declared {
    const char *name; /* the key in the header */
    int64_t left;     /* bytes that have not come yet */
} declared;

struct sia_safetensors_writer {
    char *path;
    sia_output *out;
    json_t *root, *metadata;
    int64_t count, turn; /* tensors; the one whose data comes next */
    size_t room;
    declared *tensors;
    int64_t bytes; /* of the data of all tensors */
    bool started;  /* the header is out */
};

sia_status sia_safetensors_create(sia_safetensors_writer **result, const char *path, sia_error *err) {
    *result = NULL;
    sia_safetensors_writer *w = calloc(1, sizeof *w);
    if (!w) return sia_fail_memory(err, sizeof *w, path);
    w->path = strdup(path);
    w->root = json_object();
    w->metadata = json_object();
    /* First in the header, where a person looks for it. */
    bool made = w->path && w->root && w->metadata && json_object_set(w->root, METADATA, w->metadata) == 0;
    sia_status status = made ? SIA_OK : sia_fail_memory(err, sizeof *w, path);
    if (!status) status = sia_output_open(&w->out, path, err);
    if (status) {
        sia_safetensors_abandon(w);
        return status;
    }
    *result = w;
    return SIA_OK;
}

void sia_safetensors_abandon(sia_safetensors_writer *w) {
    if (!w) return;
    sia_output_abandon(w->out);
    json_decref(w->root);
    json_decref(w->metadata);
    free(w->tensors);
    free(w->path);
    free(w);
}

/* ------------------------------------------------------------------------------------------------ declaring */

/* One key more in object, in text that a JSON file can hold; text, unless it is NULL, is what value was
 * made of. Takes value. */
static sia_status set_once(const sia_safetensors_writer *w, json_t *object, const char *key, const char *text,
                           json_t *value, sia_error *err) {
    sia_status status = SIA_OK;
    if (w->started)
        status = sia_fail(err, SIA_ARGUMENT, "%s: \"%.100s\" comes after the data", w->path, key);
    else if (json_object_get(object, key))
        status = sia_fail(err, SIA_ARGUMENT, "%s: \"%.100s\" is there twice", w->path, key);
    else if (!value || json_object_set(object, key, value) != 0)
        status = sia_is_utf8(key, strlen(key)) && (!text || sia_is_utf8(text, strlen(text)))
                     ? sia_fail_memory(err, 256, w->path)
                     : sia_fail(err, SIA_ARGUMENT, "%s: \"%.100s\": want UTF-8", w->path, key);
    json_decref(value);
    return status;
}

sia_status sia_safetensors_describe(sia_safetensors_writer *w, const char *key, const char *value,
                                    sia_error *err) {
    return set_once(w, w->metadata, key, value, json_string(value), err);
}

static sia_status tensor_bytes(const sia_safetensors_writer *w, const char *name, sia_dtype dtype, int dims,
                               const int64_t *shape, int64_t *bytes, sia_error *err) {
    if (dims < 0 || dims > SIA_SAFETENSORS_DIMS)
        return sia_fail(err, SIA_ARGUMENT, "%s: tensor \"%.100s\": %d dimensions: want 0 to %d", w->path,
                        name, dims, SIA_SAFETENSORS_DIMS);
    int64_t size = (int64_t)sia_dtype_size(dtype), product = size, end;
    bool good = true, empty = false;
    for (int i = 0; i < dims; i++) {
        good = good && shape[i] >= 0 && !__builtin_mul_overflow(product, shape[i] ? shape[i] : 1, &product);
        empty = empty || shape[i] == 0;
    }
    char text[SIA_TENSOR_TEXT];
    if (empty) product = 0;
    if (!good || __builtin_add_overflow(w->bytes, product, &end))
        return sia_fail(err, SIA_ARGUMENT, "%s: tensor \"%.100s\": %s is not a size for a tensor", w->path,
                        name, sia_tensor_text(dtype, dims, shape, text));
    if (w->bytes % size)
        return sia_fail(err, SIA_ARGUMENT,
                        "%s: tensor \"%.100s\": %s would start at byte %" PRId64
                        ": declare wider types first",
                        w->path, name, sia_tensor_text(dtype, dims, shape, text), w->bytes);
    *bytes = product;
    return SIA_OK;
}

sia_status sia_safetensors_declare(sia_safetensors_writer *w, const char *name, sia_dtype dtype, int dims,
                                   const int64_t *shape, sia_error *err) {
    int64_t bytes = 0;
    sia_status status = tensor_bytes(w, name, dtype, dims, shape, &bytes, err);
    if (status) return status;
    if (!sia_grow(&w->tensors, &w->room, (size_t)w->count + 1, sizeof *w->tensors))
        return sia_fail_memory(err, ((size_t)w->count + 1) * sizeof *w->tensors, w->path);
    json_int_t begin = w->bytes, end = begin + bytes;
    json_t *lengths = json_array();
    for (int i = 0; i < dims; i++) sia_json_push(&lengths, json_integer(shape[i]));
    json_t *tensor = json_pack("{s:s, s:o, s:[I, I]}", "dtype", sia_dtype_name(dtype), "shape", lengths,
                               "data_offsets", begin, end);
    if ((status = set_once(w, w->root, name, NULL, tensor, err))) return status;
    name = json_object_iter_key(json_object_iter_at(w->root, name)); /* stays while the header does */
    w->tensors[w->count++] = (declared){.name = name, .left = bytes};
    w->bytes += bytes;
    return SIA_OK;
}

/* -------------------------------------------------------------------------------------------------- writing */

static sia_status write_header(sia_safetensors_writer *w, sia_error *err) {
    if (json_object_size(w->metadata) == 0) (void)json_object_del(w->root, METADATA);
    char *text = json_dumps(w->root, JSON_COMPACT);
    if (!text) return sia_fail_memory(err, 1 << 16, w->path);
    static const char spaces[SIA_SAFETENSORS_ALIGN] =
        "                                                                ";
    size_t used = strlen(text);
    size_t padding = (SIA_SAFETENSORS_ALIGN - (8 + used) % SIA_SAFETENSORS_ALIGN) % SIA_SAFETENSORS_ALIGN;
    uint64_t length = used + padding;
    sia_status status = SIA_OK;
    if (length > SIA_SAFETENSORS_HEADER)
        status = sia_fail(err, SIA_ARGUMENT, "%s: header of %" PRIu64 " bytes: want at most %d", w->path,
                          length, SIA_SAFETENSORS_HEADER);
    if (!status) status = sia_output_write(w->out, &length, sizeof length, err);
    if (!status) status = sia_output_write(w->out, text, used, err);
    if (!status) status = sia_output_write(w->out, spaces, padding, err);
    free(text);
    w->started = true;
    return status;
}

sia_status sia_safetensors_write(sia_safetensors_writer *w, const char *name, const void *data, size_t bytes,
                                 sia_error *err) {
    sia_status status = w->started ? SIA_OK : write_header(w, err);
    if (status) return status;
    if (bytes == 0) return SIA_OK;
    while (w->turn < w->count && w->tensors[w->turn].left == 0) w->turn++;
    const char *turn = w->turn < w->count ? w->tensors[w->turn].name : "the end";
    if (w->turn == w->count || strcmp(name, turn) != 0)
        return sia_fail(err, SIA_ARGUMENT, "%s: data of \"%.100s\" where that of \"%.100s\" was due", w->path,
                        name, turn);
    declared *t = &w->tensors[w->turn];
    if (bytes > (size_t)t->left)
        return sia_fail(err, SIA_ARGUMENT, "%s: tensor \"%.100s\": %zu bytes, %" PRId64 " were left", w->path,
                        name, bytes, t->left);
    t->left -= (int64_t)bytes;
    return sia_output_write(w->out, data, bytes, err);
}

sia_status sia_safetensors_finish(sia_safetensors_writer *w, sia_error *err) {
    sia_status status = w->started ? SIA_OK : write_header(w, err);
    for (int64_t i = w->turn; !status && i < w->count; i++)
        if (w->tensors[i].left)
            status = sia_fail(err, SIA_ARGUMENT, "%s: tensor \"%.100s\": %" PRId64 " bytes are missing",
                              w->path, w->tensors[i].name, w->tensors[i].left);
    if (!status) {
        status = sia_output_commit(w->out, err);
        w->out = NULL;
    }
    sia_safetensors_abandon(w);
    return status;
}
