/* SPDX-License-Identifier: MIT
 *
 * What a scheme's slots compute, in double. Everything that a kernel uses is filled from here. */
#ifndef SIA_POSITION_SCHEME_H
#define SIA_POSITION_SCHEME_H

#include <stdbool.h>

#include "sia.h"

/* Whether it is rope with other frequencies, fitted to a longer text: the weights that it wants are those of rope. */
bool sia_extends_rope(sia_rotary rotary);

/* The scheme that a model has to be trained with to be used with this one. */
sia_scheme sia_scheme_to_train(sia_scheme scheme);

/* Whether a setting, such as "tau", makes a difference to the scheme. One that no slot has for its own does. */
bool sia_scheme_uses(sia_scheme scheme, const char *setting);

/* Fills every field that is 0 with its default and checks all of them for this scheme, as far as doubles go: what floats
 * ask of beta, sia_attention_create checks. */
sia_status sia_config_complete(sia_scheme *scheme, sia_attention_config *config, sia_error *err);

/* A complete configuration as text, every bit of it but threads, and what fill computes: of equal ones it is equal.
 * Returns text. */
enum { SIA_CONFIG_TEXT = 1024 };
char *sia_config_text(const sia_attention_config *config, char text[SIA_CONFIG_TEXT]);

/* The distance slot: scale[i], bias[i] for t = first + i >= 0. */
void sia_distance_values(sia_scheme scheme, const sia_attention_config *config, int head, int64_t first,
                         int64_t count, double *scale, double *bias);

/* The rotary slot: angular frequency of each of the head_dim/2 pairs, 0 for a pair that does not turn. The
 * pairs that turn come first; returns how many they are. */
int sia_rotary_frequencies(sia_scheme scheme, const sia_attention_config *config, double *frequency);

/* The row slot without logn's s[head] and ln N: sharp's constant, and the factor that yarn puts on the
 * logits. */
double sia_row_constant(sia_scheme scheme, const sia_attention_config *config);

#endif
