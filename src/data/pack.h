/* SPDX-License-Identifier: MIT
 *
 * Text files to a folder of token shards:
 *
 *     FOLDER/train_000000.bin ...   end-of-text, document, end-of-text, document, ...
 *     FOLDER/val_000000.bin ...     when a validation part is asked for
 *     FOLDER/tokenizer.json
 *     FOLDER/data.json              see manifest.h
 *
 * The folder is made under another name beside it, and takes its own when all of it is on the disk. */
#ifndef SIA_DATA_PACK_H
#define SIA_DATA_PACK_H

#include <stdbool.h>

#include "data/inputs.h"
#include "data/manifest.h"

typedef struct sia_pack_options {
    const sia_tokenizer *tokenizer;
    const char *folder;                  /* must not exist, or be empty */
    const sia_inputs *inputs[SIA_PARTS]; /* what to train on; what to validate on, or NULL */
    double val_fraction;    /* or this part of the documents of the first, evenly spread; 0: none */
    bool whole_files;       /* a file is one document: form feeds do not divide it */
    int64_t shard_tokens;   /* at most, in one shard */
    int threads;            /* 0: all processors */
    sia_progress *progress; /* or NULL */
    void *progress_context;
} sia_pack_options;

/* When val_fraction of the documents is not even one of them, the end of every document is validated on
 * instead: *tails is set then. The manifest is the caller's to free. */
sia_status sia_pack(const sia_pack_options *options, sia_manifest *manifest, bool *tails, sia_error *err);

#endif
