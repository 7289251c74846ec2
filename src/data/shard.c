/* SPDX-License-Identifier: MIT
 *
 * Token shards, read and written: see shard.h for the layout. */
#include "data/shard.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "shards are read in place: a little-endian machine is needed"
#endif

/* ---------------------------------------------------------------------------------------------- reading */

bool sia_shard_looks_like(const char *bytes, size_t size) {
    int32_t magic;
    if (size < sizeof magic) return false;
    memcpy(&magic, bytes, sizeof magic);
    return magic == SIA_SHARD_MAGIC;
}

sia_status sia_shard_parse(const char *bytes, size_t size, const char *name, const uint16_t **tokens,
                           int64_t *count, sia_error *err) {
    int32_t header[3];
    if (size < SIA_SHARD_HEADER)
        return sia_fail(err, SIA_FORMAT, "%s: %zu bytes: want a token shard, whose header alone has %d", name,
                        size, SIA_SHARD_HEADER);
    memcpy(header, bytes, sizeof header);
    if (header[0] != SIA_SHARD_MAGIC)
        return sia_fail(err, SIA_FORMAT, "%s: not a token shard: its first number is %d, want %d", name,
                        header[0], SIA_SHARD_MAGIC);
    if (header[1] != SIA_SHARD_VERSION)
        return sia_fail(err, SIA_FORMAT, "%s: shard of version %d: want version %d", name, header[1],
                        SIA_SHARD_VERSION);
    size_t body = size - SIA_SHARD_HEADER;
    if (header[2] < 0) return sia_fail(err, SIA_FORMAT, "%s: header says %d tokens", name, header[2]);
    if (body % 2)
        return sia_fail(err, SIA_FORMAT, "%s: header says %d tokens, file holds %zu and half of one", name,
                        header[2], body / 2);
    if (body / 2 != (size_t)header[2])
        return sia_fail(err, SIA_FORMAT, "%s: header says %d tokens, file holds %zu", name, header[2],
                        body / 2);
    *tokens = (const uint16_t *)(const void *)(bytes + SIA_SHARD_HEADER);
    *count = header[2];
    return SIA_OK;
}

int64_t sia_shard_outside(const uint16_t *tokens, int64_t count, uint32_t vocabulary) {
    enum { BLOCK = 4096 };
    if (vocabulary > UINT16_MAX) return count;
    /* The largest of a block first: a loop that vectorises; the place only when there is one. */
    for (int64_t block = 0; block < count; block += BLOCK) {
        int64_t end = block + BLOCK < count ? block + BLOCK : count;
        uint16_t largest = 0;
        for (int64_t i = block; i < end; i++) largest = tokens[i] > largest ? tokens[i] : largest;
        if (largest < vocabulary) continue;
        for (int64_t i = block; i < end; i++)
            if (tokens[i] >= vocabulary) return i;
    }
    return count;
}

/* ---------------------------------------------------------------------------------------------- writing */

struct sia_shard_writer {
    sia_output *out;
    int64_t count;
};

sia_status sia_shard_create(sia_shard_writer **out, const char *path, sia_error *err) {
    static const char header[SIA_SHARD_HEADER];
    *out = NULL;
    sia_shard_writer *w = calloc(1, sizeof *w);
    if (!w) return sia_fail_memory(err, sizeof *w, path);
    sia_status status = sia_output_open(&w->out, path, err);
    if (!status) status = sia_output_write(w->out, header, sizeof header, err);
    if (status) {
        sia_shard_abandon(w);
        return status;
    }
    *out = w;
    return SIA_OK;
}

sia_status sia_shard_add(sia_shard_writer *w, const uint32_t *ids, size_t count, sia_error *err) {
    enum { BLOCK = 16384 };
    uint16_t block[BLOCK];
    if ((int64_t)count > SIA_SHARD_MOST - w->count)
        return sia_fail(err, SIA_ARGUMENT, "a shard of more than %lld tokens", (long long)SIA_SHARD_MOST);
    for (size_t done = 0; done < count;) {
        size_t n = count - done < BLOCK ? count - done : BLOCK;
        for (size_t i = 0; i < n; i++) {
            if (ids[done + i] > UINT16_MAX)
                return sia_fail(err, SIA_ARGUMENT, "token %u: a shard holds tokens below 65536",
                                ids[done + i]);
            block[i] = (uint16_t)ids[done + i];
        }
        sia_status status = sia_output_write(w->out, block, n * sizeof *block, err);
        if (status) return status;
        done += n;
        w->count += (int64_t)n;
    }
    return SIA_OK;
}

int64_t sia_shard_count(const sia_shard_writer *w) { return w->count; }

sia_status sia_shard_finish(sia_shard_writer *w, sia_error *err) {
    int32_t header[3] = {SIA_SHARD_MAGIC, SIA_SHARD_VERSION, (int32_t)w->count};
    sia_status status = sia_output_patch(w->out, 0, header, sizeof header, err);
    if (status) {
        sia_shard_abandon(w);
        return status;
    }
    status = sia_output_commit(w->out, err);
    free(w);
    return status;
}

void sia_shard_abandon(sia_shard_writer *w) {
    if (!w) return;
    sia_output_abandon(w->out);
    free(w);
}
