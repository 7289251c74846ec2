/* SPDX-License-Identifier: MIT
 *
 * How often each piece occurs in some texts: all that training needs to know of them.
 *
 *     sia_pieces pieces;
 *     sia_pieces_count(&pieces, texts, count, threads, progress, context, err);
 *     ... pieces.list[0 .. pieces.count) ...      in no particular order
 *     sia_pieces_free(&pieces); */
#ifndef SIA_TEXT_PIECES_H
#define SIA_TEXT_PIECES_H

#include "sia.h"

typedef struct sia_piece {
    const char *bytes; /* in one of the texts, which must outlive it */
    size_t length;
    uint64_t count;
} sia_piece;

typedef struct sia_pieces {
    sia_piece *list;
    size_t count;
    uint64_t total; /* of more than one byte, the sum of the counts */
} sia_pieces;

/* Pieces of a single byte are left out: they have no pairs. */
sia_status sia_pieces_count(sia_pieces *pieces, const sia_text *texts, size_t count, int threads,
                            sia_progress *progress, void *context, sia_error *err);
void sia_pieces_free(sia_pieces *pieces);

#endif
