/* SPDX-License-Identifier: MIT
 *
 * What measuring and generating ask of a session beyond sia.h. */
#ifndef SIA_MODEL_SESSION_H
#define SIA_MODEL_SESSION_H

#include "model/model.h"

/* Lengthens the caches by count positions of random keys and values, as if so many tokens had been fed: for
 * measuring how fast the next token comes after a text of any length. */
sia_status sia_session_pretend(sia_session *s, int64_t count, uint64_t seed, sia_error *err);

/* What feeding one token reads: every weight of a product once, and the keys and values of all positions. */
double sia_session_read_bytes(const sia_session *s);

/* "f32", "f16" or "int8" to a type; SIA_ARGUMENT for another word. */
sia_status sia_type_parse(const char *name, sia_type *type, sia_error *err);

#endif
