/* SPDX-License-Identifier: MIT
 *
 * The configuration of a model: defaults, checks, presets, and its form in JSON, in which it stands in a
 * run's config.json and in the metadata of its weights. */
#ifndef SIA_MODEL_CONFIG_H
#define SIA_MODEL_CONFIG_H

#include "base/fields.h"

/* All settings but the scheme. */
extern const sia_field sia_model_fields[];

/* Fills in what is 0 and checks all of it. */
sia_status sia_model_config_complete(sia_model_config *config, sia_error *err);

/* The other way: what is as the rest makes it becomes 0 again, so that it follows when the rest is changed. */
void sia_model_config_forget(sia_model_config *config);

/* The attention that a complete configuration asks for. */
sia_attention_config sia_model_attention(const sia_model_config *config, int threads, int64_t eval_len);

/* The configuration as a JSON object; NULL when there is no memory. */
json_t *sia_model_config_json(const sia_model_config *config);

/* Sets what the object names, each field in its range; a field that is not known is an error. `name` is the
 * file, for the sentence. */
sia_status sia_model_config_read(sia_model_config *config, json_t *object, const char *name, sia_error *err);

#endif
