/* SPDX-License-Identifier: MIT
 *
 * A tokenizer to a tokenizer.json that Hugging Face's tokenizers reads: byte-level BPE with GPT-2's pattern.
 * Special tokens are in added_tokens and in the vocabulary, as in GPT-2's own file; merges are "left right",
 * which every version of that library reads. */
#include "text/tokenizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

/* A token as the file writes it; freed with free. */
static char *token_text(const sia_tokenizer *t, uint32_t id) {
    size_t length = t->length[id];
    char *text = malloc(2 * length + 1);
    if (!text) return NULL;
    if (t->special[id])
        memcpy(text, t->bytes + t->start[id], length + 1);
    else
        (void)sia_bytes_to_text(t->bytes + t->start[id], length, text);
    return text;
}

static json_t *vocabulary(const sia_tokenizer *t) {
    json_t *vocab = json_object();
    for (uint32_t id = 0; id < t->size && vocab; id++) {
        char *text = token_text(t, id);
        if (!text || json_object_set_new(vocab, text, json_integer(id)) != 0) {
            json_decref(vocab);
            vocab = NULL;
        }
        free(text);
    }
    return vocab;
}

static json_t *merge_list(const sia_tokenizer *t) {
    json_t *list = json_array();
    for (uint32_t rank = 0; rank < t->merge_count && list; rank++) {
        char *left = token_text(t, t->merges[rank].left), *right = token_text(t, t->merges[rank].right);
        if (!left || !right || json_array_append_new(list, json_sprintf("%s %s", left, right)) != 0) {
            json_decref(list);
            list = NULL;
        }
        free(left);
        free(right);
    }
    return list;
}

static json_t *added_tokens(const sia_tokenizer *t) {
    json_t *list = json_array();
    for (uint32_t id = 0; id < t->size && list; id++) {
        if (!t->special[id]) continue;
        json_t *token = json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content",
                                  t->bytes + t->start[id], "single_word", 0, "lstrip", 0, "rstrip", 0,
                                  "normalized", 0, "special", 1);
        if (!token || json_array_append_new(list, token) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static json_t *byte_level(void) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                     "use_regex", 1);
}

/* json_pack's "o" takes ownership, and fails as a whole when one of them is NULL. */
static json_t *document(const sia_tokenizer *t) {
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                  "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                  "ignore_merges", 0, "vocab", vocabulary(t), "merges", merge_list(t));
    return json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation",
                     "padding", "added_tokens", added_tokens(t), "normalizer", "pre_tokenizer", byte_level(),
                     "post_processor", byte_level(), "decoder", byte_level(), "model", model);
}

typedef struct writing {
    sia_output *out;
    sia_error *err;
    sia_status status;
} writing;

static int write_part(const char *bytes, size_t size, void *context) {
    writing *w = context;
    w->status = sia_output_write(w->out, bytes, size, w->err);
    return w->status ? -1 : 0;
}

sia_status sia_tokenizer_save(const sia_tokenizer *t, const char *path, sia_error *err) {
    if (!t || !path) return sia_fail(err, SIA_ARGUMENT, "tokenizer: want one and a path, got NULL");
    json_t *root = document(t);
    if (!root) return sia_fail_memory(err, (size_t)t->size * 64, path);
    writing w = {.err = err};
    w.status = sia_output_open(&w.out, path, err);
    if (!w.status) {
        bool whole = json_dump_callback(root, write_part, &w, JSON_INDENT(2)) == 0;
        if (whole)
            w.status = sia_output_write(w.out, "\n", 1, err);
        else if (!w.status)
            w.status = sia_fail_memory(err, (size_t)t->size * 64, path);
        if (!w.status)
            w.status = sia_output_commit(w.out, err);
        else
            sia_output_abandon(w.out);
    }
    json_decref(root);
    return w.status;
}
