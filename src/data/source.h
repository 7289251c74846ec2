/* SPDX-License-Identifier: MIT
 *
 * Generated text: a stochastic source that needs no file and has no end. Document n of a seed is a pure
 * function of (seed, n). Its form follows what docs/data.md measures on books.
 *
 * The grammar asks for a class (determiner, noun, name, ...). The word is then either drawn afresh from the
 * class, or taken from one of nested blocks that hold the place t, counted in words:
 *
 *     scale k: blocks of 2^4, 2^6, ... 2^16 words, and the whole document
 *     block b = floor((t + phase_k) / length_k)
 *     phase_k is uniform in 0 .. length_k - 1, drawn for each document
 *     each block owns a few words of each class, the more the longer it is, drawn from the class
 *
 * Words of short blocks come back soon and then never, those of long blocks now and then over a long
 * stretch; all scales together make what was said come back at distances by a power law. Since a block's
 * words are drawn as any others, blocks do not change how frequent a word is; and since the phases are
 * uniform and a block's contents come from hashing (document, k, b), the source has no memory that must
 * fill up: its statistics are the same at every place of a document, and what a perfect reader expects of
 * the next word can only gain from a longer past.
 *
 * The style (think of speech and narration) is one number for each place, a sum over the blocks around it,
 * each adding or taking away its part; every word leans to one side of it, and comes more often when the
 * style does too.
 *
 * Names are made for their block. What a fact says of a name (NAME relation value) is fixed for as long as
 * the block lasts: whoever has read it can tell it again. */
#ifndef SIA_DATA_SOURCE_H
#define SIA_DATA_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "sia.h"

typedef struct sia_source sia_source;

/* A source does not change once it is made: several threads may use it at once. */
sia_status sia_source_create(sia_source **source, uint64_t seed, int64_t words, sia_error *err);
void sia_source_destroy(sia_source *source);

/* Writes document n, which is at least `words` words long and ends with its sentence, to *text: *length
 * bytes, to be freed by the caller. SIA_STOPPED when `stopped`, which may be NULL, says so: it is asked before
 * every sentence, a document being as long as a person likes. */
sia_status sia_source_document(const sia_source *source, uint64_t n, sia_stopped *stopped, char **text,
                               size_t *length, sia_error *err);

/* sia_corpus_generate that can be stopped in the same way. */
sia_status sia_corpus_generate_until(sia_corpus **c, const sia_tokenizer *tokenizer, uint64_t seed,
                                     int64_t first, int64_t documents, int64_t words, int threads,
                                     sia_stopped *stopped, sia_error *err);

#endif
