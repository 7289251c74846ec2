/* SPDX-License-Identifier: MIT
 *
 * Checksums of what a corpus holds: see contents.h. */
#include "train/contents.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* Checksums of places, one after the other: each is that of the tokens and of the one before. */
enum { PLACES = 64, PLACE_TOKENS = 65536 };
typedef struct look {
    char before[SIA_SHA256_TEXT];
    uint32_t ids[PLACE_TOKENS];
} look;

static sia_status sum_of(const sia_corpus *c, char sum[SIA_SHA256_TEXT], sia_error *err) {
    look *l = sia_alloc(1, sizeof *l);
    if (!l) return sia_fail_memory(err, sizeof *l, "a look at the text");
    int64_t tokens = sia_corpus_tokens(c), whole = (tokens + PLACE_TOKENS - 1) / PLACE_TOKENS;
    int64_t places = whole < PLACES ? whole : PLACES;
    sia_status status = SIA_OK;
    (void)sia_sha256("", 0, sum);
    for (int64_t i = 0; !status && i < places; i++) {
        int64_t first = i * whole / places * PLACE_TOKENS;
        int64_t count = tokens - first < PLACE_TOKENS ? tokens - first : PLACE_TOKENS;
        memcpy(l->before, sum, sizeof l->before);
        status = sia_corpus_read(c, first, count, l->ids, err);
        (void)sia_sha256(l, offsetof(look, ids) + (size_t)count * sizeof *l->ids, sum);
    }
    sia_free(l);
    return status;
}

sia_status sia_contents_of(const sia_corpus *c, char text[SIA_CONTENTS_TEXT], sia_error *err) {
    char sum[SIA_SHA256_TEXT];
    (void)snprintf(text, SIA_CONTENTS_TEXT, "none");
    sia_status status = c ? sum_of(c, sum, err) : SIA_OK;
    if (c && !status)
        (void)snprintf(text, SIA_CONTENTS_TEXT, "%s %lld %u", sum, (long long)sia_corpus_tokens(c),
                       sia_corpus_vocabulary(c));
    return status;
}

sia_status sia_corpus_same(sia_comm *comm, const char *what, const sia_corpus *c, sia_error *err) {
    char text[SIA_CONTENTS_TEXT];
    if (sia_comm_size(comm) == 1) return SIA_OK;
    sia_status status = sia_comm_agree(comm, sia_contents_of(c, text, err), err);
    return status ? status : sia_comm_same(comm, what, text, err);
}
