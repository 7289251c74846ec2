/* SPDX-License-Identifier: MIT
 *
 * Generated text: a stochastic source that needs no file and has no end. Document n of a seed is a pure
 * function of (seed, n). Its form follows what docs/data.md measures on books.
 *
 * Every word is drawn in two steps. The grammar asks for a class (determiner, noun, name, ...). Then the word
 * is either drawn afresh from the class, or taken from one of nested blocks that hold the place t:
 *
 *     scale k: blocks of 2^k words, k = 4 .. 17, and the whole document
 *     block b = floor((t + phase_k) / 2^k)           phase_k uniform in 0 .. 2^k - 1, drawn for each document
 *     each block owns a few words of each class: n_k ~ 2^(0.4 k) of them, drawn from the class as any word is
 *
 * Words of short blocks come back soon and then never, those of long blocks now and then over a long stretch;
 * all scales together make what was said come back at distances by a power law. Since a block's words are
 * drawn as any others, the frequency of words is that of the class whatever the blocks do; and since the
 * phases are uniform and a block's contents come from hashing (document, k, b), the source has no memory that
 * fills up: its statistics are the same at every place of a document.
 *
 * Names are drawn from blocks in the same way, but are made for their block. What a fact says of a name (NAME
 * relation VALUE) is fixed for as long as the block lasts: whoever has read it once can tell it again. */
#ifndef SIA_DATA_SOURCE_H
#define SIA_DATA_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "sia.h"

typedef struct sia_source sia_source;

/* A source does not change once it is made: several threads may use it at once. */
sia_status sia_source_create(sia_source **source, uint64_t seed, int64_t words, sia_error *err);
void sia_source_destroy(sia_source *source);

/* Writes document n, which is at least `words` words long and ends with its sentence, to *text: *length
 * bytes, to be freed by the caller. */
sia_status sia_source_document(const sia_source *source, uint64_t n, char **text, size_t *length,
                               sia_error *err);

#endif
