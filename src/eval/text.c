/* SPDX-License-Identifier: MIT */
#include "eval/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/folder.h"
#include "data/inputs.h"
#include "data/manifest.h"
#include "train/train.h"

static bool is_there(const char *folder, const char *name) {
    struct stat info;
    char *path = sia_folder_path(folder, name);
    bool there = path && stat(path, &info) == 0;
    free(path);
    return there;
}

static bool ends_in(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

/* ------------------------------------------------------------------------------------------------ the run's own */

static sia_status open_run(sia_eval_text *text, const sia_eval_source *s, sia_error *err) {
    sia_settings settings;
    json_t *description;
    if (!is_there(s->run, "config.json"))
        return sia_fail(err, SIA_ARGUMENT, "%s: no run is there, hence no validation text: name some text",
                        s->run);
    sia_status status = sia_train_config_read(s->run, &settings, &description, err);
    if (status) return status;
    status = sia_train_data_open(&text->run_data, description, s->run, s->threads, err);
    json_decref(description);
    if (status) return status;
    text->corpus = text->run_data.val;
    char name[400];
    (void)snprintf(text->name, sizeof text->name, "the validation text of %s",
                   sia_train_data_text(&text->run_data, name, sizeof name));
    if (text->corpus) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT, "%s: the run has no validation text: name some text", s->run);
}

/* ------------------------------------------------------------------------------------------------ other text */

/* Room for the ids of every document: a token is at least a byte, and each document has one more before it. */
typedef struct encoding {
    const sia_tokenizer *tokenizer;
    int threads;
    uint32_t *ids; /* of a document */
    size_t room;
    uint16_t *tokens;
    int64_t count, limit;
} encoding;

static sia_status grow(encoding *e, size_t bytes, sia_error *err) {
    if (bytes > e->room) {
        uint32_t *ids = realloc(e->ids, bytes * sizeof *ids);
        if (!ids) return sia_fail_memory(err, bytes * sizeof *ids, "tokens");
        e->ids = ids;
        e->room = bytes;
    }
    int64_t wanted = e->count + (int64_t)bytes + 1;
    if (wanted <= e->limit) return SIA_OK;
    wanted += wanted / 2;
    uint16_t *tokens = realloc(e->tokens, (size_t)wanted * sizeof *tokens);
    if (!tokens) return sia_fail_memory(err, (size_t)wanted * sizeof *tokens, "tokens");
    e->tokens = tokens;
    e->limit = wanted;
    return SIA_OK;
}

static sia_status encode_document(encoding *e, const sia_text *document, sia_error *err) {
    size_t count;
    sia_status status = grow(e, document->size, err);
    if (!status)
        status = sia_tokenizer_encode_parallel(e->tokenizer, e->threads, document->bytes, document->size,
                                               e->ids, &count, err);
    if (status) return status;
    e->tokens[e->count++] = (uint16_t)sia_tokenizer_end_of_text(e->tokenizer);
    for (size_t i = 0; i < count; i++) e->tokens[e->count++] = (uint16_t)e->ids[i];
    return SIA_OK;
}

static sia_status encode_inputs(encoding *e, const sia_inputs *inputs, sia_error *err) {
    sia_status status = SIA_OK;
    for (int64_t i = 0; !status && i < inputs->count; i++) {
        sia_input_text text;
        sia_text document;
        size_t at = 0;
        status = sia_input_open(&inputs->list[i], &text, err);
        if (status) break;
        while (!status && sia_next_document(text.bytes, text.size, false, &at, &document)) {
            status = encode_document(e, &document, err);
            if (!status && inputs->stopped && inputs->stopped())
                status = sia_fail(err, SIA_STOPPED, "stopped");
        }
        sia_input_close(&text);
    }
    return status;
}

static sia_status open_files(sia_eval_text *text, const sia_eval_source *s, const sia_tokenizer *tokenizer,
                             sia_error *err) {
    if (!tokenizer)
        return sia_fail(err, SIA_ARGUMENT, "%s: no tokenizer.json is there: name one, or shards of tokens",
                        s->run);
    if (sia_tokenizer_size(tokenizer) > UINT16_MAX + 1)
        return sia_fail(err, SIA_ARGUMENT, "the tokenizer has %u tokens: want 65536 at most",
                        sia_tokenizer_size(tokenizer));
    sia_inputs inputs = {.stopped = s->stopped};
    encoding e = {.tokenizer = tokenizer, .threads = s->threads};
    sia_status status = sia_inputs_add(&inputs, s->path, false, err);
    if (!status) status = encode_inputs(&e, &inputs, err);
    sia_inputs_free(&inputs);
    free(e.ids);
    text->tokens = e.tokens;
    if (!status && !e.count) status = sia_fail(err, SIA_FORMAT, "%s: holds no text", s->path);
    if (!status)
        status = sia_corpus_borrow(&text->own, e.tokens, e.count,
                                   &(sia_corpus_config){.tokenizer = tokenizer, .scan = 1}, err);
    return status;
}

/* The part for validation of a packed folder, else the other. */
static sia_status open_packed(sia_eval_text *text, const char *path, const sia_tokenizer *tokenizer,
                              sia_error *err) {
    sia_manifest manifest;
    sia_status status = sia_manifest_read(&manifest, path, err);
    if (status) return status;
    bool val = manifest.parts[SIA_PART_VAL].shard_count > 0;
    sia_manifest_free(&manifest);
    sia_corpus_config config = {.part = val ? "val" : "train", .tokenizer = tokenizer, .scan = 1};
    return sia_corpus_open(&text->own, path, &config, err);
}

static sia_status open_named(sia_eval_text *text, const sia_eval_source *s, sia_error *err) {
    sia_tokenizer *tokenizer = NULL;
    sia_status status = SIA_OK;
    if (s->tokenizer || is_there(s->run, "tokenizer.json"))
        status = sia_tokenizer_open(&tokenizer, s->tokenizer ? s->tokenizer : s->run, err);
    if (!status) {
        if (ends_in(s->path, ".bin"))
            status = sia_corpus_open(&text->own, s->path,
                                     &(sia_corpus_config){.tokenizer = tokenizer, .scan = 1}, err);
        else if (is_there(s->path, "data.json"))
            status = open_packed(text, s->path, tokenizer, err);
        else
            status = open_files(text, s, tokenizer, err);
    }
    sia_tokenizer_close(tokenizer);
    text->corpus = text->own;
    (void)snprintf(text->name, sizeof text->name, "%s", s->path);
    return status;
}

sia_status sia_eval_text_open(sia_eval_text *text, const sia_eval_source *source, sia_error *err) {
    *text = (sia_eval_text){0};
    sia_status status = source->path ? open_named(text, source, err) : open_run(text, source, err);
    if (status) sia_eval_text_close(text);
    return status;
}

void sia_eval_text_close(sia_eval_text *text) {
    sia_corpus_close(text->own);
    free(text->tokens);
    sia_train_data_close(&text->run_data);
    *text = (sia_eval_text){0};
}
