/* SPDX-License-Identifier: MIT
 *
 * One token shard: 256 little-endian int32 (20240520, 1, count, zeros), then count uint16 tokens.
 *
 *     sia_shard_writer *w;
 *     sia_shard_create(&w, "train_000000.bin", &err);
 *     sia_shard_add(w, ids, n, &err);  ...
 *     sia_shard_finish(w, &err);          the file has its name from here on */
#ifndef SIA_DATA_SHARD_H
#define SIA_DATA_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sia.h"

enum { SIA_SHARD_MAGIC = 20240520, SIA_SHARD_VERSION = 1, SIA_SHARD_HEADER = 1024 };

/* Tokens a shard can count in its header. */
#define SIA_SHARD_MOST ((int64_t)INT32_MAX)

/* Checks a file that is in memory, and finds its tokens (little-endian, at an even address; borrowed). name
 * is for the sentence. Trusts nothing: every count is compared with size. */
sia_status sia_shard_parse(const char *bytes, size_t size, const char *name, const uint16_t **tokens,
                           int64_t *count, sia_error *err);

/* Whether the file starts as a shard does. */
bool sia_shard_looks_like(const char *bytes, size_t size);

/* The first token that is not below vocabulary, or count. */
int64_t sia_shard_outside(const uint16_t *tokens, int64_t count, uint32_t vocabulary);

typedef struct sia_shard_writer sia_shard_writer;

sia_status sia_shard_create(sia_shard_writer **w, const char *path, sia_error *err);
sia_status sia_shard_add(sia_shard_writer *w, const uint32_t *ids, size_t count,
                         sia_error *err);                         /* ids below 65536 */
int64_t sia_shard_count(const sia_shard_writer *w);               /* so far */
sia_status sia_shard_finish(sia_shard_writer *w, sia_error *err); /* frees w, on failure too */
void sia_shard_abandon(sia_shard_writer *w);                      /* frees w, leaves no file; NULL is fine */

#endif
