/* SPDX-License-Identifier: MIT
 *
 * Tokenizers from files: Hugging Face's tokenizer.json, and GPT-2's pair of encoder.json and vocab.bpe.
 *
 * The files are not trusted, and not everything that a tokenizer.json can ask for is done here. What would
 * change ids (a normaliser, another pattern, dropout, tokens that are cut out of the text) is refused by
 * name. What cannot change them (an unknown-token, when every byte is known; truncation and padding, which
 * concern batches) is not looked at. */
#include "text/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/path.h"

static sia_status load_json(json_t **root, const char *name, const char *json, size_t bytes, sia_error *err) {
    json_error_t where;
    sia_status status = sia_json_load(root, json, bytes, JSON_REJECT_DUPLICATES, &where);
    if (status == SIA_MEMORY) return sia_fail_memory(err, bytes, name);
    if (status)
        return sia_fail(err, SIA_FORMAT, "%s: line %d: %s; want a tokenizer in JSON", name, where.line,
                        where.text);
    if (json_is_object(*root)) return SIA_OK;
    json_decref(*root);
    *root = NULL;
    return sia_fail(err, SIA_FORMAT, "%s: want a JSON object", name);
}

/* --------------------------------------------------------------------------------------------- vocabulary */

static sia_status check_id(const char *name, const json_t *value, uint32_t size, uint32_t *id,
                           sia_error *err) {
    if (!json_is_integer(value))
        return sia_fail(err, SIA_FORMAT, "%s: a token's id is not a whole number", name);
    json_int_t n = json_integer_value(value);
    if (n < 0 || n >= size)
        return sia_fail(err, SIA_FORMAT, "%s: a token has id %lld, want 0 to %u, the number of tokens less 1",
                        name, (long long)n, size ? size - 1 : 0);
    *id = (uint32_t)n;
    return SIA_OK;
}

/* All of vocab but the tokens whose names are keys of special, which are set elsewhere. */
static sia_status set_vocabulary(sia_tokenizer *t, json_t *vocab, json_t *special, sia_error *err) {
    const char *key;
    json_t *value;
    sia_status status = SIA_OK;
    json_object_foreach(vocab, key, value) {
        if (json_object_get(special, key)) continue;
        uint32_t id = 0;
        size_t length;
        status = check_id(t->name, value, t->size, &id, err);
        if (status) return status;
        char *bytes = malloc(strlen(key) + 1);
        if (!bytes) return sia_fail_memory(err, strlen(key) + 1, t->name);
        if (sia_text_to_bytes(key, bytes, &length))
            status = sia_vocabulary_set(t, id, bytes, length, err);
        else
            status = sia_fail(err, SIA_FORMAT, "%s: token %u has a character that stands for no byte",
                              t->name, id);
        free(bytes);
        if (status) return status;
    }
    return SIA_OK;
}

static uint32_t find_token(json_t *vocab, const char *text, uint32_t size) {
    const json_t *value = json_object_get(vocab, text);
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    return n >= 0 && n < size ? (uint32_t)n : SIA_NONE;
}

/* A merge of two tokens, given as they are written in the files. */
static sia_status set_merge(sia_tokenizer *t, json_t *vocab, uint32_t rank, const char *left,
                            size_t left_length, const char *right, size_t right_length, sia_error *err) {
    size_t length = left_length + right_length;
    char *text = malloc(length + 1);
    if (!text) return sia_fail_memory(err, length + 1, t->name);
    uint32_t ids[3];
    memcpy(text, left, left_length);
    text[left_length] = 0;
    ids[0] = find_token(vocab, text, t->size);
    memcpy(text, right, right_length);
    text[right_length] = 0;
    ids[1] = find_token(vocab, text, t->size);
    memcpy(text, left, left_length);
    memcpy(text + left_length, right, right_length);
    text[length] = 0;
    ids[2] = find_token(vocab, text, t->size);
    free(text);
    for (int i = 0; i < 3; i++)
        if (ids[i] == SIA_NONE)
            return sia_fail(err, SIA_FORMAT, "%s: merge %u: its %s is not in the vocabulary", t->name, rank,
                            i == 0   ? "left part"
                            : i == 1 ? "right part"
                                     : "result");
    return sia_vocabulary_set_merge(t, rank, ids[0], ids[1], ids[2], err);
}

/* "left right" with exactly one space. */
static sia_status set_merge_line(sia_tokenizer *t, json_t *vocab, uint32_t rank, const char *line,
                                 size_t length, sia_error *err) {
    const char *space = memchr(line, ' ', length);
    size_t left = space ? (size_t)(space - line) : 0;
    if (!space || left == 0 || left + 1 == length || memchr(space + 1, ' ', length - left - 1))
        return sia_fail(err, SIA_FORMAT, "%s: merge %u: want two tokens with a space between", t->name, rank);
    return set_merge(t, vocab, rank, line, left, space + 1, length - left - 1, err);
}

/* ----------------------------------------------------------------------------------------- tokenizer.json */

/* The value at "outer.inner" of root, NULL when there is none or when it is null. */
static json_t *value_at(json_t *root, const char *outer, const char *inner) {
    json_t *value = json_object_get(root, outer);
    if (inner) value = json_object_get(value, inner);
    return json_is_null(value) ? NULL : value;
}

/* What would change ids and is not done here. */
static sia_status check_settings(json_t *root, const char *name, sia_error *err) {
    static const struct {
        const char *outer, *inner,
            *want; /* want: NULL absent, "" absent or empty or false or 0, else that text */
        bool required;
    } rules[] = {
        {"normalizer", NULL, NULL, false},
        {"model", "type", "BPE", false},
        {"model", "dropout", "", false},
        {"model", "continuing_subword_prefix", "", false},
        {"model", "end_of_word_suffix", "", false},
        {"model", "ignore_merges", "", false},
        {"pre_tokenizer", "type", "ByteLevel", true},
        {"pre_tokenizer", "add_prefix_space", "false", true},
        {"pre_tokenizer", "use_regex", "true", false},
        {"decoder", "type", "ByteLevel", false},
        {"post_processor", "type", "ByteLevel", false},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        json_t *value = value_at(root, rules[i].outer, rules[i].inner);
        const char *want = rules[i].want;
        bool good = !value;
        if (value && want) {
            const char *text = json_is_string(value)  ? json_string_value(value)
                               : json_is_true(value)  ? "true"
                               : json_is_false(value) ? "false"
                               : json_is_number(value) && json_number_value(value) == 0 ? ""
                                                                                        : "something else";
            good = strcmp(text, want) == 0 || (!*want && json_is_false(value));
        }
        if (!value && rules[i].required) good = false;
        if (!good)
            return sia_fail(err, SIA_FORMAT, "%s: %s%s%s: want %s, nothing else is supported", name,
                            rules[i].outer, rules[i].inner ? "." : "", rules[i].inner ? rules[i].inner : "",
                            want && *want ? want : "none");
    }
    return SIA_OK;
}

/* The special tokens as an object from name to id, from the list of added tokens. */
static sia_status list_special(json_t *root, const char *name, json_t *special, sia_error *err) {
    json_t *added = value_at(root, "added_tokens", NULL);
    if (added && !json_is_array(added))
        return sia_fail(err, SIA_FORMAT, "%s: added_tokens: want a list", name);
    for (size_t i = 0; i < json_array_size(added); i++) {
        json_t *token = json_array_get(added, i), *content = json_object_get(token, "content");
        json_t *id = json_object_get(token, "id");
        if (!json_is_string(content) || !json_is_integer(id) || json_string_length(content) == 0)
            return sia_fail(err, SIA_FORMAT, "%s: added_tokens[%zu]: want a content and an id", name, i);
        if (!json_is_true(json_object_get(token, "special")))
            return sia_fail(
                err, SIA_FORMAT,
                "%s: added_tokens[%zu] is not special: tokens cut out of the text are not supported", name,
                i);
        if (json_object_get(special, json_string_value(content)))
            return sia_fail(err, SIA_FORMAT, "%s: added_tokens[%zu] has the name of another one", name, i);
        if (json_object_set(special, json_string_value(content), id) != 0)
            return sia_fail_memory(err, 64, name);
    }
    return SIA_OK;
}

static sia_status set_special(sia_tokenizer *t, json_t *vocab, json_t *special, sia_error *err) {
    const char *key;
    json_t *value;
    json_object_foreach(special, key, value) {
        const json_t *other = json_object_get(vocab, key);
        uint32_t id = 0;
        if (other && !json_equal(other, value))
            return sia_fail(err, SIA_FORMAT,
                            "%s: a special token has one id in added_tokens and another in vocab", t->name);
        sia_status status = check_id(t->name, value, t->size, &id, err);
        if (!status) status = sia_vocabulary_set_special(t, id, key, err);
        if (status) return status;
    }
    return SIA_OK;
}

/* merges: a list of "left right", or of ["left", "right"] in files of 2024 and later. */
static sia_status set_merge_list(sia_tokenizer *t, json_t *vocab, json_t *merges, sia_error *err) {
    for (uint32_t rank = 0; rank < t->merge_count; rank++) {
        json_t *merge = json_array_get(merges, rank);
        json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        sia_status status;
        if (json_is_string(merge))
            status = set_merge_line(t, vocab, rank, json_string_value(merge), json_string_length(merge), err);
        else if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right))
            status = set_merge(t, vocab, rank, json_string_value(left), json_string_length(left),
                               json_string_value(right), json_string_length(right), err);
        else
            status = sia_fail(err, SIA_FORMAT, "%s: merge %u: want two tokens", t->name, rank);
        if (status) return status;
    }
    return SIA_OK;
}

/* The number of distinct names in vocab and special. */
static size_t count_tokens(json_t *vocab, json_t *special) {
    const char *key;
    json_t *value;
    size_t count = json_object_size(vocab);
    json_object_foreach(special, key, value) if (!json_object_get(vocab, key)) count++;
    return count;
}

static uint32_t capped(size_t n) { return n < SIA_NONE ? (uint32_t)n : SIA_NONE; }

static sia_status build(sia_tokenizer **t, const char *name, json_t *root, json_t *special, sia_error *err) {
    sia_status status = check_settings(root, name, err);
    if (!status) status = list_special(root, name, special, err);
    if (status) return status;
    json_t *vocab = value_at(root, "model", "vocab"), *merges = value_at(root, "model", "merges");
    if (!json_is_object(vocab)) return sia_fail(err, SIA_FORMAT, "%s: model.vocab: want an object", name);
    if (!json_is_array(merges)) return sia_fail(err, SIA_FORMAT, "%s: model.merges: want a list", name);
    status = sia_vocabulary_create(t, name, capped(count_tokens(vocab, special)),
                                   capped(json_array_size(merges)), err);
    if (!status) status = set_vocabulary(*t, vocab, special, err);
    if (!status) status = set_special(*t, vocab, special, err);
    if (!status) status = set_merge_list(*t, vocab, merges, err);
    if (!status) status = sia_vocabulary_finish(*t, err);
    return status;
}

/* What failed half-way is closed here, for all readers. */
static sia_status close_failed(sia_tokenizer **t, sia_status status) {
    if (!status) return SIA_OK;
    sia_tokenizer_close(*t);
    *t = NULL;
    return status;
}

sia_status sia_tokenizer_parse_json(sia_tokenizer **t, const char *name, const char *json, size_t bytes,
                                    sia_error *err) {
    *t = NULL;
    json_t *root, *special = json_object();
    if (!special) return sia_fail_memory(err, 64, name);
    sia_status status = load_json(&root, name, json, bytes, err);
    if (!status) status = build(t, name, root, special, err);
    json_decref(special);
    json_decref(root);
    return close_failed(t, status);
}

sia_status sia_tokenizer_parse(sia_tokenizer **t, const char *json, size_t bytes, sia_error *err) {
    if (!t || !json)
        return sia_fail(err, SIA_ARGUMENT, "tokenizer: want a place for the result and its JSON, got NULL");
    return sia_tokenizer_parse_json(t, "tokenizer.json", json, bytes, err);
}

/* -------------------------------------------------------------------------------------- GPT-2's two files */

/* The next line that is not empty, in text[*at ..). */
static const char *next_line(const char *text, size_t bytes, size_t *at, size_t *length) {
    while (*at < bytes) {
        const char *line = text + *at, *end = memchr(line, '\n', bytes - *at);
        *length = end ? (size_t)(end - line) : bytes - *at;
        *at += *length + (end != NULL);
        if (*length && line[*length - 1] == '\r') --*length;
        if (*length) return line;
    }
    return NULL;
}

static sia_status build_gpt2(sia_tokenizer **t, json_t *vocab, json_t *special, const char *encoder_name,
                             const char *merges_name, const char *merges, size_t bytes, sia_error *err) {
    size_t at = 0, body, length, count = 0;
    json_t *end_of_text = json_object_get(vocab, SIA_END_OF_TEXT);
    if (!end_of_text) return sia_fail(err, SIA_FORMAT, "%s: no token " SIA_END_OF_TEXT, encoder_name);
    if (json_object_set(special, SIA_END_OF_TEXT, end_of_text) != 0)
        return sia_fail_memory(err, 64, encoder_name);
    const char *line = next_line(merges, bytes, &at, &length);
    body = line && length >= 9 && memcmp(line, "#version:", 9) == 0 ? at : 0;
    for (at = body; next_line(merges, bytes, &at, &length);) count++;
    sia_status status =
        sia_vocabulary_create(t, encoder_name, capped(json_object_size(vocab)), capped(count), err);
    if (!status) status = set_vocabulary(*t, vocab, special, err);
    if (!status) status = set_special(*t, vocab, special, err);
    if (status) return status;
    (*t)->name = merges_name;
    at = body;
    for (uint32_t rank = 0; (line = next_line(merges, bytes, &at, &length)) && !status; rank++)
        status = memchr(line, 0, length)
                     ? sia_fail(err, SIA_FORMAT, "%s: merge %u holds a byte 0", merges_name, rank)
                     : set_merge_line(*t, vocab, rank, line, length, err);
    return status ? status : sia_vocabulary_finish(*t, err);
}

sia_status sia_tokenizer_parse_gpt2(sia_tokenizer **t, const char *encoder_name, const char *encoder,
                                    size_t encoder_bytes, const char *merges_name, const char *merges,
                                    size_t merges_bytes, sia_error *err) {
    *t = NULL;
    json_t *vocab, *special = json_object();
    if (!special) return sia_fail_memory(err, 64, encoder_name);
    sia_status status = load_json(&vocab, encoder_name, encoder, encoder_bytes, err);
    if (!status) status = build_gpt2(t, vocab, special, encoder_name, merges_name, merges, merges_bytes, err);
    json_decref(special);
    json_decref(vocab);
    return close_failed(t, status);
}

/* ------------------------------------------------------------------------------------------------ opening */

static sia_status open_json(sia_tokenizer **t, const char *path, sia_error *err) {
    char *json;
    size_t bytes;
    sia_status status = sia_file_read(path, SIA_TOKENIZER_FILE_MAX, &json, &bytes, err);
    if (!status && bytes == 0) status = sia_fail(err, SIA_FORMAT, "%s: the file is empty", path);
    if (!status) status = sia_tokenizer_parse_json(t, path, json, bytes, err);
    free(json);
    return status;
}

static sia_status open_gpt2(sia_tokenizer **t, const char *encoder_path, const char *merges_path,
                            sia_error *err) {
    char *encoder, *merges = NULL;
    size_t encoder_bytes, merges_bytes;
    sia_status status = sia_file_read(encoder_path, SIA_TOKENIZER_FILE_MAX, &encoder, &encoder_bytes, err);
    if (!status) status = sia_file_read(merges_path, SIA_TOKENIZER_FILE_MAX, &merges, &merges_bytes, err);
    if (!status)
        status = sia_tokenizer_parse_gpt2(t, encoder_path, encoder, encoder_bytes, merges_path, merges,
                                          merges_bytes, err);
    free(encoder);
    free(merges);
    return status;
}

/* The two files of GPT-2's form, by the names that they have in the folder. */
static sia_status open_pair(sia_tokenizer **t, const char *folder, const char *encoder, const char *merges,
                            sia_error *err) {
    char *first = sia_path_join(folder, encoder), *second = sia_path_join(folder, merges);
    sia_status status =
        first && second ? open_gpt2(t, first, second, err) : sia_fail_memory(err, strlen(folder), folder);
    free(first);
    free(second);
    return status;
}

static sia_status open_folder(sia_tokenizer **t, const char *folder, sia_error *err) {
    static const char *const pairs[][2] = {{"encoder.json", "vocab.bpe"}, {"vocab.json", "merges.txt"}};
    bool there[2];
    sia_status status = sia_folder_look(folder, "tokenizer.json", &there[0], err);
    if (!status && there[0]) {
        char *path = sia_path_join(folder, "tokenizer.json");
        status = path ? open_json(t, path, err) : sia_fail_memory(err, strlen(folder), folder);
        free(path);
        return status;
    }
    for (int i = 0; !status && i < 2; i++) {
        for (int j = 0; !status && j < 2; j++) status = sia_folder_look(folder, pairs[i][j], &there[j], err);
        if (!status && there[0] && there[1]) return open_pair(t, folder, pairs[i][0], pairs[i][1], err);
    }
    if (status) return status;
    return sia_fail(err, SIA_FILE, "%s: holds neither tokenizer.json nor encoder.json and vocab.bpe", folder);
}

sia_status sia_tokenizer_open(sia_tokenizer **t, const char *path, sia_error *err) {
    if (!t || !path)
        return sia_fail(err, SIA_ARGUMENT, "tokenizer: want a place for the result and a path, got NULL");
    *t = NULL;
    bool folder;
    sia_status status = sia_folder_there(path, &folder, err);
    if (status) return status;
    return folder ? open_folder(t, path, err) : open_json(t, path, err);
}
