/* SPDX-License-Identifier: MIT
 *
 * Text to evaluate on: that of the run, text that is encoded now, or tokens as they are. */
#include "eval/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/memory.h"
#include "data/inputs.h"
#include "data/manifest.h"
#include "data/shard.h"
#include "train/train.h"

/* ------------------------------------------------------------------------------------------------ text */

typedef struct growing {
    uint16_t *tokens;
    size_t count, room;
} growing;

static sia_status add(growing *g, const uint32_t *ids, size_t count, sia_error *err) {
    if (!sia_grow(&g->tokens, &g->room, g->count + count, sizeof *g->tokens))
        return sia_fail_memory(err, count * sizeof *g->tokens, "tokens");
    for (size_t i = 0; i < count; i++) g->tokens[g->count + i] = (uint16_t)ids[i];
    g->count += count;
    return SIA_OK;
}

/* An end-of-text token, then the document. */
static sia_status add_document(growing *g, const sia_eval_source *s, sia_text document, sia_error *err) {
    uint32_t mark = sia_tokenizer_end_of_text(s->tokenizer);
    uint32_t *ids = malloc(document.size * sizeof *ids);
    size_t count = 0;
    if (!ids) return sia_fail_memory(err, document.size * sizeof *ids, "tokens");
    sia_status status = sia_tokenizer_encode_parallel(s->tokenizer, s->threads, document.bytes, document.size,
                                                      ids, &count, err);
    if (!status) status = add(g, &mark, 1, err);
    if (!status) status = add(g, ids, count, err);
    free(ids);
    return status;
}

static sia_status add_file(growing *g, const sia_eval_source *s, const sia_input *input, sia_error *err) {
    sia_input_text text;
    sia_text document;
    size_t at = 0;
    sia_status status = sia_input_open(input, &text, err);
    if (status) return status;
    while (!status && sia_next_document(text.bytes, text.size, false, &at, &document)) {
        status = add_document(g, s, document, err);
        if (!status && s->stopped && s->stopped()) status = sia_fail(err, SIA_STOPPED, "stopped");
    }
    sia_input_close(&text);
    return status;
}

static sia_status open_text(sia_eval_text *t, const sia_eval_source *s, sia_error *err) {
    if (!s->tokenizer)
        return sia_fail(err, SIA_ARGUMENT,
                        "%s is text, and the model has no tokenizer.json beside it: want "
                        "a tokenizer",
                        s->path);
    if (sia_tokenizer_size(s->tokenizer) > 65536)
        return sia_fail(err, SIA_ARGUMENT, "the tokenizer has %u tokens: want at most 65536",
                        sia_tokenizer_size(s->tokenizer));
    sia_inputs inputs = {.stopped = s->stopped};
    growing g = {0};
    sia_status status = sia_inputs_add(&inputs, s->path, false, err);
    for (int64_t i = 0; !status && i < inputs.count; i++) status = add_file(&g, s, &inputs.list[i], err);
    sia_inputs_free(&inputs);
    t->tokens = g.tokens;
    if (!status && !g.count) status = sia_fail(err, SIA_FORMAT, "%s: nothing but white space", s->path);
    if (!status)
        status = sia_corpus_borrow(&t->own, g.tokens, (int64_t)g.count,
                                   &(sia_corpus_config){.tokenizer = s->tokenizer, .scan = 1}, err);
    return status;
}

/* ------------------------------------------------------------------------------------------------ choosing */

/* Whether the path names tokens: a packed folder, a shard, a pattern. */
static sia_status is_packed(const char *path, bool *packed, sia_error *err) {
    struct stat info;
    *packed = false;
    if (stat(path, &info) != 0) {
        *packed = errno == ENOENT && strpbrk(path, "*?[");
        return SIA_OK; /* a text that is not there is refused by who opens it */
    }
    if (S_ISDIR(info.st_mode)) return sia_folder_look(path, "data.json", packed, err);
    if (!S_ISREG(info.st_mode)) return SIA_OK;
    sia_map map;
    sia_status status = sia_map_open(&map, path, err);
    if (status) return status;
    *packed = sia_shard_looks_like(map.bytes, map.size);
    sia_map_close(&map);
    return SIA_OK;
}

/* The validation part of the run's own data. */
static sia_status open_run(sia_eval_text *t, const sia_eval_source *s, sia_error *err) {
    sia_settings settings;
    json_t *description = NULL;
    if (!s->run) return sia_fail(err, SIA_ARGUMENT, "want the text to evaluate on");
    bool there;
    sia_status status = sia_folder_look(s->run, "config.json", &there, err);
    if (!status && !there)
        status = sia_fail(err, SIA_ARGUMENT, "%s: no run is there, hence no validation text: name some text",
                          s->run);
    if (!status) status = sia_train_config_read(s->run, &settings, &description, err);
    if (status) return status;
    t->join = settings.training.join;
    status = sia_train_data_open(
        &t->run, description,
        &(sia_data_opening){.folder = s->run, .val_only = true, .threads = s->threads, .stopped = s->stopped},
        err);
    json_decref(description);
    if (!status && !t->run.val)
        status = sia_fail(err, SIA_ARGUMENT, "%s: was trained without validation text: name one with --data",
                          s->run);
    return status;
}

/* The part for validation, where there is one. */
static sia_status open_packed(sia_eval_text *t, const sia_eval_source *s, sia_error *err) {
    const char *part = NULL; /* shards have none */
    bool folder;
    sia_status status = sia_folder_there(s->path, &folder, err);
    if (status) return status;
    if (folder) {
        sia_manifest manifest;
        status = sia_manifest_read(&manifest, s->path, err);
        if (status) return status;
        part = sia_part_names[manifest.parts[SIA_PART_VAL].shard_count ? SIA_PART_VAL : SIA_PART_TRAIN];
        sia_manifest_free(&manifest);
    }
    return sia_corpus_open(&t->own, s->path,
                           &(sia_corpus_config){.part = part, .tokenizer = s->tokenizer, .scan = 1}, err);
}

sia_status sia_eval_text_open(sia_eval_text *t, const sia_eval_source *s, sia_error *err) {
    *t = (sia_eval_text){0};
    if (s->tokenizer && sia_tokenizer_size(s->tokenizer) > s->vocabulary)
        return sia_fail(err, SIA_ARGUMENT, "the tokenizer has %u tokens, the model's vocabulary ends at %u",
                        sia_tokenizer_size(s->tokenizer), s->vocabulary);
    bool packed = false;
    sia_status status = s->path && strcmp(s->path, "-") != 0 ? is_packed(s->path, &packed, err) : SIA_OK;
    if (status) return status;
    if (!s->path)
        status = open_run(t, s, err);
    else if (packed)
        status = open_packed(t, s, err);
    else
        status = open_text(t, s, err);
    t->corpus = t->own ? t->own : t->run.val;
    if (!status && sia_corpus_vocabulary(t->corpus) > s->vocabulary)
        status = sia_fail(err, SIA_ARGUMENT, "the text has a vocabulary of %u, the model's ends at %u",
                          sia_corpus_vocabulary(t->corpus), s->vocabulary);
    return status;
}

void sia_eval_text_close(sia_eval_text *t) {
    sia_corpus_close(t->own);
    sia_train_data_close(&t->run);
    free(t->tokens);
    *t = (sia_eval_text){0};
}
