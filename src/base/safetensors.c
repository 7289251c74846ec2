/* SPDX-License-Identifier: MIT
 *
 * Reads and checks safetensors files: see safetensors.h for the format. A file is taken when
 *
 *     8 + n <= size, n <= SIA_SAFETENSORS_HEADER, the header is one JSON object without a key twice;
 *     for each tensor: end - begin = size of dtype * product of shape, all without overflow;
 *     sorted by begin: begin[0] = 0, begin[i+1] = end[i], end[last] = size - 8 - n.
 *
 * The last line is what makes a cut or grown file visible, whichever tensor is asked for. */
#include "base/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are little-endian and read in place");

struct sia_safetensors {
    char *path; /* for sentences */
    sia_map map;
    int fd;                  /* of the map; -1 for bytes of the caller */
    json_t *root, *metadata; /* own the names, keys and values; metadata is NULL where there is none */
    int64_t count;
    sia_stored_tensor *tensors;        /* by the place of their data */
    const sia_stored_tensor **by_name; /* the same, sorted */
};

/* The types, by sia_dtype. */
static const struct {
    const char *name;
    size_t size;
} dtypes[SIA_DTYPES] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4}, {"I16", 2},
                        {"I8", 1},  {"U64", 8}, {"U32", 4}, {"U16", 2},  {"U8", 1},  {"BOOL", 1}};

const char *sia_dtype_name(sia_dtype dtype) { return dtypes[dtype].name; }

size_t sia_dtype_size(sia_dtype dtype) { return dtypes[dtype].size; }

const char *sia_tensor_text(sia_dtype dtype, int dims, const int64_t *shape, char text[SIA_TENSOR_TEXT]) {
    int used = snprintf(text, SIA_TENSOR_TEXT, "%s [", dtypes[dtype].name);
    for (int i = 0; i < dims; i++)
        used +=
            snprintf(text + used, (size_t)(SIA_TENSOR_TEXT - used), "%s%" PRId64, i ? ", " : "", shape[i]);
    (void)snprintf(text + used, (size_t)(SIA_TENSOR_TEXT - used), "]");
    return text;
}

/* ------------------------------------------------------------------------------------------------ one tensor */

/* What every sentence about a tensor starts with. A name is cut: the rest of the sentence has to fit. */
#define TENSOR "%s: tensor \"%.100s\": "

static sia_status read_dtype(json_t *value, const char *path, sia_stored_tensor *t, sia_error *err) {
    const char *name = json_string_value(value);
    if (!name) return sia_fail(err, SIA_FORMAT, TENSOR "\"dtype\": want a text", path, t->name);
    for (int i = 0; i < SIA_DTYPES; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            t->dtype = (sia_dtype)i;
            return SIA_OK;
        }
    return sia_fail(err, SIA_FORMAT,
                    TENSOR "dtype \"%.32s\": want F64, F32, F16, BF16, I64 to I8, U64 to U8 or BOOL", path,
                    t->name, name);
}

/* Fills in shape and bytes. Zeros count last: [2^40, 2^40, 0] is empty, but a program that multiplies it up
 * would overflow on the way, so it is refused. */
static sia_status read_shape(json_t *value, const char *path, sia_stored_tensor *t, sia_error *err) {
    if (!json_is_array(value))
        return sia_fail(err, SIA_FORMAT, TENSOR "\"shape\": want an array", path, t->name);
    size_t dims = json_array_size(value);
    if (dims > SIA_SAFETENSORS_DIMS)
        return sia_fail(err, SIA_FORMAT, TENSOR "%zu dimensions: want at most %d", path, t->name, dims,
                        SIA_SAFETENSORS_DIMS);
    int64_t product = (int64_t)dtypes[t->dtype].size;
    for (size_t i = 0; i < dims; i++) {
        json_t *length = json_array_get(value, i);
        int64_t n = json_integer_value(length);
        if (!json_is_integer(length) || n < 0)
            return sia_fail(err, SIA_FORMAT, TENSOR "dimension %zu: want a whole number from 0 on", path,
                            t->name, i);
        t->shape[t->dims++] = n;
        if (__builtin_mul_overflow(product, n ? n : 1, &product)) {
            char text[SIA_TENSOR_TEXT];
            return sia_fail(err, SIA_FORMAT, TENSOR "%s does not fit into memory", path, t->name,
                            sia_tensor_text(t->dtype, t->dims, t->shape, text));
        }
    }
    for (int i = 0; i < t->dims; i++)
        if (t->shape[i] == 0) product = 0;
    t->bytes = (size_t)product;
    return SIA_OK;
}

/* The two offsets against the size of the data and of the shape. */
static sia_status read_offsets(json_t *value, const char *path, const char *data, size_t size,
                               sia_stored_tensor *t, sia_error *err) {
    json_t *first = json_array_get(value, 0), *second = json_array_get(value, 1);
    int64_t begin = json_integer_value(first), end = json_integer_value(second);
    if (json_array_size(value) != 2 || !json_is_integer(first) || !json_is_integer(second))
        return sia_fail(err, SIA_FORMAT, TENSOR "\"data_offsets\": want two whole numbers", path, t->name);
    if (begin < 0 || end < begin || (uint64_t)end > size)
        return sia_fail(err, SIA_FORMAT,
                        TENSOR "data_offsets [%" PRId64 ", %" PRId64 "]: the data has %zu bytes", path,
                        t->name, begin, end, size);
    if ((uint64_t)(end - begin) != t->bytes) {
        char text[SIA_TENSOR_TEXT];
        return sia_fail(err, SIA_FORMAT,
                        TENSOR "data_offsets [%" PRId64 ", %" PRId64 "] are %" PRId64 " bytes, %s needs %zu",
                        path, t->name, begin, end, end - begin,
                        sia_tensor_text(t->dtype, t->dims, t->shape, text), t->bytes);
    }
    t->data = data + begin;
    return SIA_OK;
}

static sia_status read_tensor(json_t *object, const char *path, const char *data, size_t size,
                              sia_stored_tensor *t, sia_error *err) {
    if (!json_is_object(object)) return sia_fail(err, SIA_FORMAT, TENSOR "want an object", path, t->name);
    /* A fourth key would be an extension of the format, such as a packing, and the bytes not what they seem. */
    if (json_object_size(object) != 3)
        return sia_fail(err, SIA_FORMAT, TENSOR "%zu keys: want \"dtype\", \"shape\" and \"data_offsets\"",
                        path, t->name, json_object_size(object));
    sia_status status = read_dtype(json_object_get(object, "dtype"), path, t, err);
    if (!status) status = read_shape(json_object_get(object, "shape"), path, t, err);
    if (!status) status = read_offsets(json_object_get(object, "data_offsets"), path, data, size, t, err);
    return status;
}

/* ---------------------------------------------------------------------------------------------- all of them */

static sia_status read_metadata(sia_safetensors *file, sia_error *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(file->metadata))
        return sia_fail(err, SIA_FORMAT, "%s: \"__metadata__\": want an object", file->path);
    json_object_foreach(file->metadata, key, value) {
        if (!json_is_string(value))
            return sia_fail(err, SIA_FORMAT, "%s: \"__metadata__\": \"%.100s\": want a text", file->path,
                            key);
    }
    return SIA_OK;
}

/* By begin, then by end: an empty tensor stands before the one that starts where it does. */
static int compare_places(const void *a, const void *b) {
    const sia_stored_tensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int compare_names(const void *a, const void *b) {
    const sia_stored_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static sia_status check_places(const sia_safetensors *file, const char *data, size_t size, sia_error *err) {
    size_t end = 0;
    for (int64_t i = 0; i < file->count; i++) {
        const sia_stored_tensor *t = &file->tensors[i];
        size_t begin = (size_t)((const char *)t->data - data);
        if (begin != end)
            return sia_fail(err, SIA_FORMAT,
                            TENSOR "data starts at %zu, the data before it ends at %zu: want no %s",
                            file->path, t->name, begin, end, begin < end ? "overlap" : "gap");
        end = begin + t->bytes;
    }
    if (end != size)
        return sia_fail(err, SIA_FORMAT, "%s: the tensors end at byte %zu of the data, the file has %zu",
                        file->path, end, size);
    return SIA_OK;
}

static sia_status read_tensors(sia_safetensors *file, const char *data, size_t size, sia_error *err) {
    size_t room = json_object_size(file->root) + 1;
    file->tensors = calloc(room, sizeof *file->tensors);
    file->by_name = calloc(room, sizeof *file->by_name);
    if (!file->tensors || !file->by_name)
        return sia_fail_memory(err, room * sizeof *file->tensors, file->path);
    const char *key;
    json_t *value;
    json_object_foreach(file->root, key, value) {
        if (value == file->metadata) continue;
        sia_stored_tensor *t = &file->tensors[file->count];
        t->name = key;
        sia_status status = read_tensor(value, file->path, data, size, t, err);
        if (status) return status;
        file->count++;
    }
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, compare_places);
    for (int64_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, compare_names);
    return check_places(file, data, size, err);
}

static sia_status check_size(const sia_safetensors *file, size_t size, sia_error *err) {
    if (size >= sizeof(uint64_t)) return SIA_OK;
    return sia_fail(err, SIA_FORMAT, "%s: %zu bytes: want a safetensors file, which starts with 8",
                    file->path, size);
}

/* header[0 .. length) may be a copy; the data is what stands behind it in a file of this size. */
static sia_status read_header(sia_safetensors *file, const char *header, uint64_t length, const char *data,
                              size_t size, sia_error *err) {
    if (length == 0 || header[0] != '{')
        return sia_fail(err, SIA_FORMAT, "%s: the header does not start with {", file->path);
    json_error_t where;
    sia_status status = sia_json_load(&file->root, header, (size_t)length, JSON_REJECT_DUPLICATES, &where);
    if (status == SIA_MEMORY) return sia_fail_memory(err, (size_t)length, file->path);
    if (status)
        return sia_fail(err, SIA_FORMAT, "%s: header, byte %d: %s", file->path, where.position, where.text);
    file->metadata = json_object_get(file->root, "__metadata__");
    if (file->metadata) status = read_metadata(file, err);
    return status ? status : read_tensors(file, data, size - sizeof length - (size_t)length, err);
}

static sia_status check_length(const sia_safetensors *file, uint64_t length, size_t size, sia_error *err) {
    if (length > SIA_SAFETENSORS_HEADER)
        return sia_fail(
            err, SIA_FORMAT,
            "%s: not a safetensors file: its first 8 bytes, the length of the header, say %" PRIu64
            ", and %d is the most",
            file->path, length, SIA_SAFETENSORS_HEADER);
    if (length > size - sizeof length)
        return sia_fail(err, SIA_FORMAT,
                        "%s: header of %" PRIu64 " bytes: the file has %zu behind its length", file->path,
                        length, size - sizeof length);
    return SIA_OK;
}

static sia_status read_memory(sia_safetensors *file, const char *bytes, size_t size, sia_error *err) {
    uint64_t length = 0;
    sia_status status = check_size(file, size, err);
    if (!status) memcpy(&length, bytes, sizeof length);
    if (!status) status = check_length(file, length, size, err);
    if (status) return status;
    const char *header = bytes + sizeof length;
    return read_header(file, header, length, header + length, size, err);
}

/* The header is read, not looked at in the map: the file may be cut at any moment, and JSON is no place to
 * die in. */
static sia_status read_file(sia_safetensors *file, sia_error *err) {
    uint64_t length = 0;
    sia_status status = check_size(file, file->map.size, err);
    if (!status) status = sia_fd_read_at(file->fd, file->path, &length, sizeof length, 0, err);
    if (!status) status = check_length(file, length, file->map.size, err);
    if (status) return status;
    char *header = malloc((size_t)length + 1);
    if (!header) return sia_fail_memory(err, (size_t)length, file->path);
    status = sia_fd_read_at(file->fd, file->path, header, (size_t)length, sizeof length, err);
    if (!status)
        status =
            read_header(file, header, length, file->map.bytes + sizeof length + length, file->map.size, err);
    free(header);
    return status;
}

static sia_status create(sia_safetensors **file, const char *name, sia_error *err) {
    *file = calloc(1, sizeof **file);
    if (!*file) return sia_fail_memory(err, sizeof **file, name);
    (*file)->fd = -1;
    (*file)->path = strdup(name);
    return (*file)->path ? SIA_OK : sia_fail_memory(err, strlen(name), name);
}

/* What a reader made, or nothing. */
static sia_status finish(sia_safetensors **result, sia_safetensors *file, sia_status status) {
    *result = status ? NULL : file;
    if (status) sia_safetensors_close(file);
    return status;
}

sia_status sia_safetensors_parse(sia_safetensors **result, const char *bytes, size_t size, const char *name,
                                 sia_error *err) {
    sia_safetensors *file;
    sia_status status = create(&file, name, err);
    if (!status) status = read_memory(file, bytes, size, err);
    return finish(result, file, status);
}

sia_status sia_safetensors_open(sia_safetensors **result, const char *path, sia_error *err) {
    sia_safetensors *file;
    sia_status status = create(&file, path, err);
    if (!status) status = sia_map_open_kept(&file->map, &file->fd, path, err);
    if (!status) status = read_file(file, err);
    return finish(result, file, status);
}

void sia_safetensors_close(sia_safetensors *file) {
    if (!file) return;
    json_decref(file->root);
    sia_map_close(&file->map);
    if (file->fd >= 0) (void)close(file->fd);
    free(file->tensors);
    free(file->by_name);
    free(file->path);
    free(file);
}

/* -------------------------------------------------------------------------------------------------- looking */

int64_t sia_safetensors_count(const sia_safetensors *file) { return file->count; }

const sia_stored_tensor *sia_safetensors_at(const sia_safetensors *file, int64_t i) {
    return i >= 0 && i < file->count ? &file->tensors[i] : NULL;
}

const sia_stored_tensor *sia_safetensors_find(const sia_safetensors *file, const char *name) {
    const sia_stored_tensor key = {.name = name}, *wanted = &key;
    const sia_stored_tensor **found =
        bsearch(&wanted, file->by_name, (size_t)file->count, sizeof *file->by_name, compare_names);
    return found ? *found : NULL;
}

const char *sia_safetensors_metadata(const sia_safetensors *file, const char *key) {
    return json_string_value(json_object_get(file->metadata, key));
}

int64_t sia_safetensors_metadata_count(const sia_safetensors *file) {
    return (int64_t)json_object_size(file->metadata);
}

const char *sia_safetensors_metadata_key(const sia_safetensors *file, int64_t i) {
    const char *key;
    json_t *value;
    json_object_foreach(file->metadata, key, value) if (i-- == 0) return key;
    return NULL;
}

sia_status sia_safetensors_want(const sia_safetensors *file, const char *name, sia_dtype dtype, int dims,
                                const int64_t *shape, const sia_stored_tensor **tensor, sia_error *err) {
    char found[SIA_TENSOR_TEXT], wanted[SIA_TENSOR_TEXT];
    const sia_stored_tensor *t = *tensor = sia_safetensors_find(file, name);
    if (dims < 0 || dims > SIA_SAFETENSORS_DIMS)
        return sia_fail(err, SIA_ARGUMENT, TENSOR "%d dimensions: want 0 to %d", file->path, name, dims,
                        SIA_SAFETENSORS_DIMS);
    if (!t)
        return sia_fail(err, SIA_FORMAT, TENSOR "not there, want %s", file->path, name,
                        sia_tensor_text(dtype, dims, shape, wanted));
    bool same = t->dtype == dtype && t->dims == dims;
    for (int i = 0; same && i < dims; i++) same = t->shape[i] == shape[i];
    if (same) return SIA_OK;
    return sia_fail(err, SIA_FORMAT, TENSOR "%s, want %s", file->path, name,
                    sia_tensor_text(t->dtype, t->dims, t->shape, found),
                    sia_tensor_text(dtype, dims, shape, wanted));
}

sia_status sia_safetensors_copy(const sia_safetensors *file, const sia_stored_tensor *t, void *to,
                                sia_error *err) {
    if (file->fd >= 0)
        return sia_fd_read_at(file->fd, file->path, to, t->bytes,
                              (size_t)((const char *)t->data - file->map.bytes), err);
    if (t->bytes) memcpy(to, t->data, t->bytes);
    return SIA_OK;
}
