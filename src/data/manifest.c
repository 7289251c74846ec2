/* SPDX-License-Identifier: MIT
 *
 * Reads, writes and verifies data.json. */
#include "data/manifest.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/path.h"
#include "data/shard.h"

enum { MANIFEST_VERSION = 1, MANIFEST_MOST = 1 << 28 };

const char *const sia_part_names[SIA_PARTS] = {"train", "val"};

sia_status sia_manifest_add_shard(sia_manifest_part *part, const sia_manifest_shard *shard, sia_error *err) {
    if (!sia_grow(&part->shards, &part->shard_room, (size_t)part->shard_count + 1, sizeof *shard))
        return sia_fail_memory(err, ((size_t)part->shard_count + 1) * sizeof *shard, "data.json");
    part->shards[part->shard_count++] = *shard;
    return SIA_OK;
}

void sia_manifest_free(sia_manifest *m) {
    for (int part = 0; part < SIA_PARTS; part++) free(m->parts[part].shards);
    *m = (sia_manifest){0};
}

/* ---------------------------------------------------------------------------------------------- reading */

/* A whole number in 0 .. most. */
static sia_status get_count(json_t *object, const char *key, int64_t most, const char *name, int64_t *value,
                            sia_error *err) {
    json_t *found = json_object_get(object, key);
    if (!json_is_integer(found))
        return sia_fail(err, SIA_FORMAT, "%s: \"%s\": want a whole number", name, key);
    *value = json_integer_value(found);
    if (*value < 0 || *value > most)
        return sia_fail(err, SIA_FORMAT, "%s: \"%s\" is %lld: want 0 to %lld", name, key, (long long)*value,
                        (long long)most);
    return SIA_OK;
}

static sia_status get_text(json_t *object, const char *key, const char *name, char *text, size_t room,
                           sia_error *err) {
    const char *found = json_string_value(json_object_get(object, key));
    if (!found || !*found || strlen(found) >= room)
        return sia_fail(err, SIA_FORMAT, "%s: \"%s\": want a text of 1 to %zu bytes", name, key, room - 1);
    (void)snprintf(text, room, "%s", found);
    return SIA_OK;
}

static sia_status read_shard(json_t *object, const char *name, sia_manifest_shard *shard, sia_error *err) {
    sia_status status = get_text(object, "file", name, shard->file, sizeof shard->file, err);
    if (!status && (strchr(shard->file, '/') || shard->file[0] == '.'))
        status = sia_fail(err, SIA_FORMAT, "%s: shard \"%s\": want the name of a file in the same folder",
                          name, shard->file);
    if (!status) status = get_count(object, "tokens", SIA_SHARD_MOST, name, &shard->tokens, err);
    if (!status) status = get_text(object, "sha256", name, shard->sha256, sizeof shard->sha256, err);
    return status;
}

static sia_status read_part(json_t *object, const char *name, const char *what, sia_manifest_part *part,
                            sia_error *err) {
    if (!json_is_object(object)) return sia_fail(err, SIA_FORMAT, "%s: \"%s\": want an object", name, what);
    sia_status status = get_count(object, "tokens", INT64_MAX, name, &part->tokens, err);
    if (!status) status = get_count(object, "documents", INT64_MAX, name, &part->documents, err);
    if (!status) status = get_count(object, "bytes", INT64_MAX, name, &part->bytes, err);
    json_t *shards = json_object_get(object, "shards");
    if (!status && !json_is_array(shards))
        return sia_fail(err, SIA_FORMAT, "%s: \"shards\": want an array", name);
    int64_t tokens = 0;
    for (size_t i = 0; !status && i < json_array_size(shards); i++) {
        sia_manifest_shard shard = {0};
        status = read_shard(json_array_get(shards, i), name, &shard, err);
        if (!status) status = sia_manifest_add_shard(part, &shard, err);
        tokens += shard.tokens;
    }
    if (!status && tokens != part->tokens)
        status = sia_fail(err, SIA_FORMAT, "%s: \"%s\" says %lld tokens, its shards have %lld", name, what,
                          (long long)part->tokens, (long long)tokens);
    return status;
}

static sia_status read_root(json_t *root, const char *name, sia_manifest *m, sia_error *err) {
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!format || strcmp(format, "sia data") != 0)
        return sia_fail(err, SIA_FORMAT, "%s: not written by 'sia data pack'", name);
    int64_t version = 0, vocabulary = 0, end_of_text = 0;
    json_t *tokenizer = json_object_get(root, "tokenizer");
    const char *file = json_string_value(json_object_get(tokenizer, "file"));
    sia_status status = get_count(root, "version", INT64_MAX, name, &version, err);
    if (!status && version != MANIFEST_VERSION)
        return sia_fail(err, SIA_FORMAT, "%s: version %lld: want %d%s", name, (long long)version,
                        MANIFEST_VERSION,
                        version > MANIFEST_VERSION ? "; a newer sia wrote it, and can read it" : "");
    if (!status && (!file || strcmp(file, "tokenizer.json") != 0))
        status = sia_fail(err, SIA_FORMAT, "%s: \"tokenizer\": \"file\": want \"tokenizer.json\"", name);
    if (!status) status = get_count(tokenizer, "vocabulary", 65536, name, &vocabulary, err);
    if (!status) status = get_count(tokenizer, "end_of_text", vocabulary - 1, name, &end_of_text, err);
    if (!status) status = get_text(tokenizer, "sha256", name, m->tokenizer_sha256, SIA_SHA256_TEXT, err);
    if (status) return status;
    m->vocabulary = (uint32_t)vocabulary;
    m->end_of_text = (uint32_t)end_of_text;
    for (int part = 0; part < SIA_PARTS; part++) {
        json_t *object = json_object_get(root, sia_part_names[part]);
        if (!object && part != SIA_PART_TRAIN) continue;
        if ((status = read_part(object, name, sia_part_names[part], &m->parts[part], err))) return status;
    }
    return SIA_OK;
}

sia_status sia_manifest_parse(sia_manifest *m, const char *json, size_t bytes, const char *name,
                              sia_error *err) {
    *m = (sia_manifest){0};
    json_t *root;
    sia_status status = sia_json_parse(&root, json, bytes, JSON_REJECT_DUPLICATES, name, err);
    if (status) return status;
    status = read_root(root, name, m, err);
    json_decref(root);
    if (status) sia_manifest_free(m);
    return status;
}

sia_status sia_manifest_read(sia_manifest *m, const char *folder, sia_error *err) {
    *m = (sia_manifest){0};
    char *path = sia_path_join(folder, "data.json"), *json = NULL;
    size_t bytes = 0;
    if (!path) return sia_fail_memory(err, strlen(folder), "data.json");
    sia_status status = sia_file_read(path, MANIFEST_MOST, &json, &bytes, err);
    if (!status) status = sia_manifest_parse(m, json, bytes, path, err);
    free(json);
    free(path);
    return status;
}

/* ---------------------------------------------------------------------------------------------- writing */

static json_t *part_to_json(const sia_manifest_part *part) {
    json_t *shards = json_array();
    for (int64_t i = 0; i < part->shard_count; i++) {
        const sia_manifest_shard *shard = &part->shards[i];
        sia_json_push(&shards, json_pack("{s:s, s:I, s:s}", "file", shard->file, "tokens",
                                         (json_int_t)shard->tokens, "sha256", shard->sha256));
    }
    return json_pack("{s:I, s:I, s:I, s:o}", "tokens", (json_int_t)part->tokens, "documents",
                     (json_int_t)part->documents, "bytes", (json_int_t)part->bytes, "shards", shards);
}

sia_status sia_manifest_write(const sia_manifest *m, const char *folder, sia_error *err) {
    json_t *root =
        json_pack("{s:s, s:i, s:{s:s, s:I, s:I, s:s}}", "format", "sia data", "version", MANIFEST_VERSION,
                  "tokenizer", "file", "tokenizer.json", "vocabulary", (json_int_t)m->vocabulary,
                  "end_of_text", (json_int_t)m->end_of_text, "sha256", m->tokenizer_sha256);
    for (int part = 0; part < SIA_PARTS; part++)
        if (m->parts[part].shard_count)
            sia_json_set(&root, sia_part_names[part], part_to_json(&m->parts[part]));
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL, *path = sia_path_join(folder, "data.json");
    json_decref(root);
    sia_status status = SIA_OK;
    if (!text || !path) status = sia_fail_memory(err, 4096, "data.json");
    sia_output *out = NULL;
    if (!status) status = sia_output_open(&out, path, err);
    if (!status) status = sia_output_printf(out, err, "%s\n", text);
    if (!status)
        status = sia_output_commit(out, err);
    else
        sia_output_abandon(out);
    free(text);
    free(path);
    return status;
}

/* -------------------------------------------------------------------------------------------- verifying */

sia_status sia_packed_folder(const char *shards, char **folder, sia_error *err) {
    bool packed = false;
    *folder = sia_path_above(shards);
    sia_status status = *folder ? sia_folder_look(*folder, "data.json", &packed, err)
                                : sia_fail_memory(err, strlen(shards), shards);
    if (packed) return status;
    free(*folder);
    *folder = NULL;
    return status;
}

sia_status sia_file_sha256(const char *path, char text[SIA_SHA256_TEXT], sia_error *err) {
    sia_map map;
    sia_status status = sia_map_open(&map, path, err);
    if (status) return status;
    sia_map_sequential(&map);
    sia_sha256(map.bytes, map.size, text);
    sia_map_close(&map);
    return SIA_OK;
}

static sia_status compare_checksum(const char *path, const char *found, const char *wanted, sia_error *err) {
    if (strcmp(found, wanted) == 0) return SIA_OK;
    return sia_fail(err, SIA_FORMAT, "%s: sha256 %.16s...: data.json says %.16s...: the file has changed",
                    path, found, wanted);
}

static sia_status compare_count(const char *folder, const char *part, const char *field, int64_t said,
                                int64_t found, const char *where, sia_error *err) {
    if (said == found) return SIA_OK;
    return sia_fail(err, SIA_FORMAT, "%s/data.json: \"%s\": \"%s\" is %lld: %s %lld", folder, part, field,
                    (long long)said, where, (long long)found);
}

static sia_status verify_tokenizer(const sia_manifest *m, const char *folder, sia_tokenizer **tokenizer,
                                   sia_error *err) {
    static const char where[] = "tokenizer.json has";
    char found[SIA_SHA256_TEXT], *path = sia_path_join(folder, "tokenizer.json");
    if (!path) return sia_fail_memory(err, strlen(folder), "data.json");
    sia_status status = sia_file_sha256(path, found, err);
    if (!status) status = compare_checksum(path, found, m->tokenizer_sha256, err);
    if (!status) status = sia_tokenizer_open(tokenizer, path, err);
    if (!status)
        status = compare_count(folder, "tokenizer", "vocabulary", m->vocabulary,
                               sia_tokenizer_size(*tokenizer), where, err);
    if (!status)
        status = compare_count(folder, "tokenizer", "end_of_text", m->end_of_text,
                               sia_tokenizer_end_of_text(*tokenizer), where, err);
    free(path);
    return status;
}

/* One shard: its checksum, its count; adds how often it has each token to times. */
static sia_status verify_shard(const sia_manifest *m, const char *path, const sia_manifest_shard *shard,
                               int64_t times[65536], sia_error *err) {
    sia_map map;
    char found[SIA_SHA256_TEXT];
    const uint16_t *tokens = NULL;
    int64_t count = 0;
    sia_status status = sia_map_open(&map, path, err);
    if (status) return status;
    sia_map_sequential(&map);
    sia_sha256(map.bytes, map.size, found);
    status = compare_checksum(path, found, shard->sha256, err);
    if (!status) status = sia_shard_parse(map.bytes, map.size, path, &tokens, &count, err);
    if (!status && count != shard->tokens)
        status = sia_fail(err, SIA_FORMAT, "%s: data.json says %lld tokens, file holds %lld", path,
                          (long long)shard->tokens, (long long)count);
    int64_t outside = status ? count : sia_shard_outside(tokens, count, m->vocabulary);
    if (outside < count)
        status = sia_fail(err, SIA_FORMAT, "%s: token %lld is %u: want below %u", path, (long long)outside,
                          tokens[outside], m->vocabulary);
    for (int64_t i = 0; !status && i < count; i++) times[tokens[i]]++;
    sia_map_close(&map);
    return status;
}

static sia_status verify_part(const sia_manifest *m, int part, const char *folder,
                              const sia_tokenizer *tokenizer, sia_error *err) {
    const sia_manifest_part *p = &m->parts[part];
    int64_t *times = calloc(65536, sizeof *times), bytes = 0;
    if (!times) return sia_fail_memory(err, 65536 * sizeof *times, "data.json");
    sia_status status = SIA_OK;
    for (int64_t i = 0; !status && i < p->shard_count; i++) {
        char *path = sia_path_join(folder, p->shards[i].file);
        status = path ? verify_shard(m, path, &p->shards[i], times, err)
                      : sia_fail_memory(err, strlen(folder), "data.json");
        free(path);
    }
    for (uint32_t id = 0; id < m->vocabulary; id++) {
        size_t length;
        (void)sia_tokenizer_bytes(tokenizer, id, &length);
        bytes += times[id] * (int64_t)length;
    }
    /* An end-of-text token stands before every document and nowhere else, and tokens keep every byte. */
    if (!status)
        status = compare_count(folder, sia_part_names[part], "documents", p->documents, times[m->end_of_text],
                               "its shards have", err);
    if (!status)
        status = compare_count(folder, sia_part_names[part], "bytes", p->bytes, bytes,
                               "the text of its tokens has", err);
    free(times);
    return status;
}

sia_status sia_manifest_verify(const sia_manifest *m, const char *folder, sia_error *err) {
    sia_tokenizer *tokenizer = NULL;
    sia_status status = verify_tokenizer(m, folder, &tokenizer, err);
    for (int part = 0; !status && part < SIA_PARTS; part++)
        status = verify_part(m, part, folder, tokenizer, err);
    sia_tokenizer_close(tokenizer);
    return status;
}
