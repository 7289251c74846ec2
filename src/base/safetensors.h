/* SPDX-License-Identifier: MIT
 *
 * Hugging Face's safetensors files: named tensors in one file, read in place.
 *
 *     8 bytes   n, little-endian: the length of the header
 *     n bytes   JSON: {"__metadata__": {"key": "value", ...},
 *                      "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}, then spaces
 *     the rest  the data: every byte belongs to exactly one tensor; offsets count from its start
 *
 * Reading:
 *
 *     sia_safetensors *file;
 *     const sia_stored_tensor *weights;
 *     if (sia_safetensors_open(&file, "model.safetensors", err)) return err->status;
 *     status = sia_safetensors_want(file, "embed.weight", SIA_DTYPE_F32, 2, (int64_t[]){50257, 768}, &weights, err);
 *     if (!status) status = sia_safetensors_copy(file, weights, floats, err);        [50257 * 768]
 *     sia_safetensors_close(file);
 *
 * Writing: everything is declared, then the data follows in the order of the declarations.
 *
 *     sia_safetensors_writer *w;
 *     if (sia_safetensors_create(&w, "model.safetensors", err)) return err->status;
 *     status = sia_safetensors_describe(w, "step", "500", err);
 *     if (!status) status = sia_safetensors_declare(w, "norm", SIA_DTYPE_F32, 1, (int64_t[]){768}, err);
 *     if (!status) status = sia_safetensors_write(w, "norm", norm, 768 * sizeof(float), err);
 *     if (!status) status = sia_safetensors_finish(w, err);
 *     else sia_safetensors_abandon(w);
 */
#ifndef SIA_BASE_SAFETENSORS_H
#define SIA_BASE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "sia.h"

typedef enum sia_dtype {
    SIA_DTYPE_F64,
    SIA_DTYPE_F32,
    SIA_DTYPE_F16,
    SIA_DTYPE_BF16,
    SIA_DTYPE_I64,
    SIA_DTYPE_I32,
    SIA_DTYPE_I16,
    SIA_DTYPE_I8,
    SIA_DTYPE_U64,
    SIA_DTYPE_U32,
    SIA_DTYPE_U16,
    SIA_DTYPE_U8,
    SIA_DTYPE_BOOL,
    SIA_DTYPES
} sia_dtype;

const char *sia_dtype_name(sia_dtype dtype); /* "F32" */
size_t sia_dtype_size(sia_dtype dtype);      /* bytes of an element */

/* The longest header that is read, that of Hugging Face's own reader; the most dimensions; where the data of
 * a file that we write starts is a multiple of the last, so that a mapped tensor can be read in vectors. */
enum { SIA_SAFETENSORS_HEADER = 100000000, SIA_SAFETENSORS_DIMS = 8, SIA_SAFETENSORS_ALIGN = 64 };

/* -------------------------------------------------------------------------------------------------- reading */

typedef struct sia_safetensors sia_safetensors;

/* A tensor of a file. No dimension is a scalar, a dimension of 0 an empty tensor. data is row-major and
 * starts wherever the file has it: at a multiple of the element's size in files that we and Hugging Face
 * write, at any byte in others. */
typedef struct sia_stored_tensor {
    const char *name;
    sia_dtype dtype;
    int dims;
    int64_t shape[SIA_SAFETENSORS_DIMS];
    const void *data;
    size_t bytes;
} sia_stored_tensor;

/* SIA_FORMAT, with a sentence, for a file that breaks any rule above; what it holds is checked whole before
 * the first tensor can be had, and nothing is allocated on the word of a header alone. */
sia_status sia_safetensors_open(sia_safetensors **file, const char *path, sia_error *err);

/* The same on bytes that stay the caller's, and stay as they are until the close. name is for sentences. */
sia_status sia_safetensors_parse(sia_safetensors **file, const char *bytes, size_t size, const char *name,
                                 sia_error *err);
void sia_safetensors_close(sia_safetensors *file); /* NULL is fine */

/* Tensors 0 .. count-1 in the order of their data; find gives NULL for a name that is not there. */
int64_t sia_safetensors_count(const sia_safetensors *file);
const sia_stored_tensor *sia_safetensors_at(const sia_safetensors *file, int64_t i);
const sia_stored_tensor *sia_safetensors_find(const sia_safetensors *file, const char *name);

/* The value of a key of the metadata, or NULL; its keys 0 .. count-1 in the order of the file. */
const char *sia_safetensors_metadata(const sia_safetensors *file, const char *key);
int64_t sia_safetensors_metadata_count(const sia_safetensors *file);
const char *sia_safetensors_metadata_key(const sia_safetensors *file, int64_t i);

/* The tensor, which must be there and have this type and this shape. */
sia_status sia_safetensors_want(const sia_safetensors *file, const char *name, sia_dtype dtype, int dims,
                                const int64_t *shape, const sia_stored_tensor **tensor, sia_error *err);

/* Copies the data of a tensor of this file, t->bytes of it. Unlike a look at t->data this cannot raise
 * SIGBUS when someone cuts the file: that is SIA_FILE. */
sia_status sia_safetensors_copy(const sia_safetensors *file, const sia_stored_tensor *t, void *to,
                                sia_error *err);

/* "F32 [2, 3]", for sentences; returns text. */
enum { SIA_TENSOR_TEXT = 8 + 22 * SIA_SAFETENSORS_DIMS };
const char *sia_tensor_text(sia_dtype dtype, int dims, const int64_t *shape, char text[SIA_TENSOR_TEXT]);

/* -------------------------------------------------------------------------------------------------- writing */

typedef struct sia_safetensors_writer sia_safetensors_writer;

/* The file has its name only once it is whole and on the disk (base/file.h). The same calls give the same
 * bytes. */
sia_status sia_safetensors_create(sia_safetensors_writer **w, const char *path, sia_error *err);

/* A pair of the metadata; a tensor. Both before any data. Names are UTF-8, each once. A tensor may not start
 * between two elements of its type: declare wider types first. */
sia_status sia_safetensors_describe(sia_safetensors_writer *w, const char *key, const char *value,
                                    sia_error *err);
sia_status sia_safetensors_declare(sia_safetensors_writer *w, const char *name, sia_dtype dtype, int dims,
                                   const int64_t *shape, sia_error *err);

/* The next bytes of the data, which belong to the tensor `name`: all of it or a part. An empty tensor needs
 * no call. */
sia_status sia_safetensors_write(sia_safetensors_writer *w, const char *name, const void *data, size_t bytes,
                                 sia_error *err);

/* Ends the writer, in either way; w is freed. Data that is missing is SIA_ARGUMENT, and leaves no file. */
sia_status sia_safetensors_finish(sia_safetensors_writer *w, sia_error *err);
void sia_safetensors_abandon(sia_safetensors_writer *w); /* NULL is fine */

#endif
