/* SPDX-License-Identifier: MIT
 *
 * The merging of one piece: from bytes to ids.
 *
 *     sia_merger m = {0};
 *     sia_merger_run(&m, t, bytes, length, ids, &count, err);      ids has room for length
 *     sia_merger_free(&m); */
#ifndef SIA_TEXT_MERGE_H
#define SIA_TEXT_MERGE_H

#include "text/tokenizer.h"

/* Memory that grows to what the longest piece so far needed, kept from piece to piece. */
typedef struct sia_merger {
    uint32_t *next, *previous, *rank;
    uint64_t *heap;
    size_t room;
} sia_merger;

/* O(n log n) for a piece of n bytes. */
sia_status sia_merger_run(sia_merger *m, const sia_tokenizer *t, const char *bytes, size_t length,
                          uint32_t *ids, size_t *count, sia_error *err);
void sia_merger_free(sia_merger *m);

/* The two ways that sia_merger_run chooses from, for the tests. Short: length <= SIA_SHORT_PIECE. */
enum { SIA_SHORT_PIECE = 64 };
size_t sia_merge_short(const sia_tokenizer *t, const char *bytes, size_t length, uint32_t *ids);
sia_status sia_merge_long(sia_merger *m, const sia_tokenizer *t, const char *bytes, size_t length,
                          uint32_t *ids, size_t *count, sia_error *err);

#endif
