/* SPDX-License-Identifier: MIT
 *
 * What tells one text from another, without keeping either: so that a run goes on with the text that it was begun with,
 * and ranks work on one. */
#ifndef SIA_TRAIN_CONTENTS_H
#define SIA_TRAIN_CONTENTS_H

#include "base/sha256.h"
#include "comm/comm.h"

enum { SIA_CONTENTS_TEXT = SIA_SHA256_TEXT + 64 };

/* A checksum, the number of tokens and the vocabulary; "none" for NULL. A text of up to four million tokens counts
 * whole, a longer one in 64 places of 65,536 tokens each. */
sia_status sia_contents_of(const sia_corpus *c, char text[SIA_CONTENTS_TEXT], sia_error *err);

/* SIA_ARGUMENT on all ranks unless the text is the same on all: "rank 2: its WHAT is not that of rank 0". c may be
 * NULL. */
sia_status sia_corpus_same(sia_comm *comm, const char *what, const sia_corpus *c, sia_error *err);

#endif
