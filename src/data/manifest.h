/* SPDX-License-Identifier: MIT
 *
 * data.json: what a folder made by 'sia data pack' holds.
 *
 *     {"format": "sia data", "version": 1,
 *      "tokenizer": {"file": "tokenizer.json", "vocabulary": 4096, "end_of_text": 4095, "sha256": "..."},
 *      "train": {"tokens": 9, "documents": 2, "bytes": 40,
 *                "shards": [{"file": "train_000000.bin", "tokens": 9, "sha256": "..."}]},
 *      "val": {...}}
 *
 * bytes are those of the text; checksums are those of sha256sum. */
#ifndef SIA_DATA_MANIFEST_H
#define SIA_DATA_MANIFEST_H

#include "base/sha256.h"
#include "sia.h"

enum { SIA_PART_TRAIN, SIA_PART_VAL, SIA_PARTS, SIA_SHARD_NAME = 64 };

typedef struct sia_manifest_shard {
    char file[SIA_SHARD_NAME];
    int64_t tokens;
    char sha256[SIA_SHA256_TEXT];
} sia_manifest_shard;

typedef struct sia_manifest_part {
    int64_t tokens, documents, bytes;
    int64_t shard_count;
    size_t shard_room;
    sia_manifest_shard *shards;
} sia_manifest_part;

typedef struct sia_manifest {
    uint32_t vocabulary, end_of_text;
    char tokenizer_sha256[SIA_SHA256_TEXT];
    sia_manifest_part parts[SIA_PARTS];
} sia_manifest;

extern const char *const sia_part_names[SIA_PARTS]; /* "train", "val" */

/* A folder's data.json. What the file can show by itself is checked: every field is there, of its type and in
 * its range, a part's tokens are the sum of its shards', a shard's name has no '/' in it. Whether the fields
 * are true of the files is for sia_manifest_verify. */
sia_status sia_manifest_read(sia_manifest *m, const char *folder, sia_error *err);
sia_status sia_manifest_parse(sia_manifest *m, const char *json, size_t bytes, const char *name,
                              sia_error *err);
sia_status sia_manifest_write(const sia_manifest *m, const char *folder, sia_error *err);
sia_status sia_manifest_add_shard(sia_manifest_part *part, const sia_manifest_shard *shard, sia_error *err);
void sia_manifest_free(sia_manifest *m);

/* The folder of packed text that shards, named one by one or by a pattern, lie in; NULL for none. Freed with free. */
sia_status sia_packed_folder(const char *shards, char **folder, sia_error *err);

/* The checksum of a file. */
sia_status sia_file_sha256(const char *path, char text[SIA_SHA256_TEXT], sia_error *err);

/* Compares everything that the manifest says with the files of the folder, which are all read: checksums;
 * vocabulary and end_of_text with those of tokenizer.json; tokens of each shard with its header; documents of
 * a part with its end-of-text tokens; its bytes with those that its tokens stand for. */
sia_status sia_manifest_verify(const sia_manifest *m, const char *folder, sia_error *err);

#endif
