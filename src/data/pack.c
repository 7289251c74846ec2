/* SPDX-License-Identifier: MIT
 *
 * Text to shards: see pack.h. */
#include "data/pack.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/memory.h"
#include "base/path.h"
#include "data/shard.h"

/* Text is encoded in chunks of about this many bytes: ids take four times as much memory as their text. */
enum { CHUNK = 8 << 20 };

typedef struct packer {
    const sia_pack_options *options;
    sia_manifest *manifest;
    sia_new_folder made; /* where the files are */
    sia_shard_writer *shard[SIA_PARTS];
    uint32_t *ids;
    size_t room;
    int64_t document; /* of those of the inputs for training */
    bool tails;
    double done, total; /* bytes */
} packer;

/* ----------------------------------------------------------------------------------------------- shards */

static sia_status close_shard(packer *p, int part, sia_error *err) {
    sia_manifest_part *m = &p->manifest->parts[part];
    sia_manifest_shard *entry = &m->shards[m->shard_count - 1];
    entry->tokens = sia_shard_count(p->shard[part]);
    sia_status status = sia_shard_finish(p->shard[part], err);
    p->shard[part] = NULL;
    if (status) return status;
    char *path = sia_path_join(p->made.path, entry->file);
    if (!path) return sia_fail_memory(err, strlen(p->made.path), "pack");
    status = sia_file_sha256(path, entry->sha256, err);
    free(path);
    return status;
}

static sia_status open_shard(packer *p, int part, sia_error *err) {
    sia_manifest_part *m = &p->manifest->parts[part];
    sia_manifest_shard entry = {0};
    (void)snprintf(entry.file, sizeof entry.file, "%s_%06lld.bin", sia_part_names[part],
                   (long long)m->shard_count);
    sia_status status = sia_manifest_add_shard(m, &entry, err);
    if (status) return status;
    char *path = sia_path_join(p->made.path, entry.file);
    if (!path) return sia_fail_memory(err, strlen(p->made.path), "pack");
    status = sia_shard_create(&p->shard[part], path, err);
    free(path);
    return status;
}

static sia_status add_ids(packer *p, int part, const uint32_t *ids, size_t count, sia_error *err) {
    sia_status status = SIA_OK;
    while (!status && count) {
        if (!p->shard[part] && (status = open_shard(p, part, err))) break;
        int64_t left = p->options->shard_tokens - sia_shard_count(p->shard[part]);
        size_t n = (int64_t)count < left ? count : (size_t)left;
        status = sia_shard_add(p->shard[part], ids, n, err);
        p->manifest->parts[part].tokens += (int64_t)n;
        ids += n;
        count -= n;
        if (!status && (int64_t)n == left) status = close_shard(p, part, err);
    }
    return status;
}

/* -------------------------------------------------------------------------------------------- documents */

static sia_status report(packer *p, sia_error *err) {
    const sia_pack_options *o = p->options;
    if (o->progress && o->progress(o->progress_context, "pack", p->total > 0 ? p->done / p->total : 1))
        return sia_fail(err, SIA_STOPPED, "stopped: %s was not made", o->folder);
    return SIA_OK;
}

static sia_status encode(packer *p, int part, const char *text, size_t bytes, sia_error *err) {
    if (!sia_grow(&p->ids, &p->room, bytes, sizeof *p->ids))
        return sia_fail_memory(err, bytes * sizeof *p->ids, "tokens");
    size_t count = 0;
    sia_status status = sia_tokenizer_encode_parallel(p->options->tokenizer, p->options->threads, text, bytes,
                                                      p->ids, &count, err);
    if (!status) status = add_ids(p, part, p->ids, count, err);
    p->done += (double)bytes;
    return status ? status : report(p, err);
}

/* How much of a text is encoded at once: up to the last place in CHUNK bytes at which a cut changes no token; without
 * one, as in text without spaces, in twice as many, and so on. */
static size_t chunk_of(const char *text, size_t bytes) {
    for (size_t reach = CHUNK; reach < bytes; reach *= 2) {
        size_t cut = sia_tokenizer_cut(text, reach);
        if (cut) return cut;
    }
    return bytes;
}

static sia_status add_document(packer *p, int part, sia_text document, sia_error *err) {
    uint32_t end_of_text = p->manifest->end_of_text;
    sia_status status = add_ids(p, part, &end_of_text, 1, err);
    for (size_t at = 0, take; !status && at < document.size; at += take) {
        take = chunk_of(document.bytes + at, document.size - at);
        status = encode(p, part, document.bytes + at, take, err);
    }
    p->manifest->parts[part].documents++;
    p->manifest->parts[part].bytes += (int64_t)document.size;
    return status;
}

/* Where the end of a document that is for validation starts: after a line, else after a space; its size if
 * nowhere. */
static size_t find_tail(sia_text document, double fraction) {
    static const char after[] = "\n ";
    size_t ideal = (size_t)((double)document.size * (1 - fraction));
    for (int i = 0; i < 2; i++)
        for (size_t at = ideal; at < document.size; at++)
            if (at && document.bytes[at - 1] == after[i]) return at;
    return document.size;
}

static sia_status place_document(packer *p, int part, sia_text document, sia_error *err) {
    double f = p->options->val_fraction;
    if (part == SIA_PART_VAL || f <= 0) return add_document(p, part, document, err);
    int64_t i = p->document++;
    if (!p->tails) {
        bool held_out = floor((double)(i + 1) * f) > floor((double)i * f);
        return add_document(p, held_out ? SIA_PART_VAL : SIA_PART_TRAIN, document, err);
    }
    size_t cut = find_tail(document, f);
    sia_status status = add_document(p, SIA_PART_TRAIN, (sia_text){document.bytes, cut}, err);
    if (!status && cut < document.size)
        status = add_document(p, SIA_PART_VAL, (sia_text){document.bytes + cut, document.size - cut}, err);
    return status;
}

/* Calls `each` for every document of the inputs, in order; only counts them when it is NULL. */
static sia_status for_documents(packer *p, int part, int64_t *count,
                                sia_status (*each)(packer *, int, sia_text, sia_error *), sia_error *err) {
    const sia_inputs *inputs = p->options->inputs[part];
    for (int64_t i = 0; inputs && i < inputs->count; i++) {
        sia_input_text text;
        sia_text document;
        sia_status status = sia_input_open(&inputs->list[i], &text, err);
        if (status) return status;
        for (size_t at = 0;
             !status && sia_next_document(text.bytes, text.size, p->options->whole_files, &at, &document);
             ++*count)
            if (each) status = each(p, part, document, err);
        sia_input_close(&text);
        if (status) return status;
    }
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------- the folder */

static sia_status check_free(const char *folder, sia_error *err) {
    bool there, empty;
    struct stat about;
    if (lstat(folder, &about) == 0 && S_ISLNK(about.st_mode)) /* a rename cannot take the place of one */
        return sia_fail(err, SIA_FILE, "%s: is a link: name the folder itself", folder);
    sia_status status = sia_file_there(folder, &there, err);
    if (status || !there) return status;
    status = sia_folder_empty(folder, &empty, err);
    if (status || empty) return status;
    return sia_fail(err, SIA_FILE, "%s: exists already and is not empty: remove it or name another", folder);
}

/* The folder is made under another name and then takes its own: ".", ".." and "/" cannot be taken. */
static sia_status check_name(const char *folder, sia_error *err) {
    size_t length;
    const char *last = sia_path_last(folder, &length);
    if (length && !(last[0] == '.' && (length == 1 || (length == 2 && last[1] == '.')))) return SIA_OK;
    return sia_fail(err, SIA_FILE, "\"%s\": want a folder that can be made or replaced, by its name", folder);
}

static sia_status make_folder(packer *p, sia_error *err) {
    /* Slashes at the end are not part of the name, which the temporary one begins with. */
    size_t length = sia_path_length(p->options->folder);
    char *name = strndup(p->options->folder, length);
    if (!name) return sia_fail_memory(err, length, p->options->folder);
    sia_status status = sia_folder_create(&p->made, name, err);
    free(name);
    return status;
}

/* A sentence about a file in the temporary folder is made to be about the folder that was asked for. */
static void name_folder(const packer *p, sia_error *err) {
    char *at = err ? strstr(err->text, p->made.path) : NULL;
    if (!at) return;
    /* The temporary name is the other, without slashes at its end, and more. */
    size_t length = sia_path_length(p->options->folder);
    char *rest = at + strlen(p->made.path);
    memmove(at + length, rest, strlen(rest) + 1);
}

static sia_status take_name(const packer *p, sia_error *err) {
    sia_status status = sia_folder_sync(p->made.path, err);
    if (status) return status;
    /* Not sia_folder_commit, which replaces: a folder that someone filled in the meantime stays. */
    if (rename(p->made.path, p->options->folder) != 0) return sia_fail_file(err, p->options->folder);
    (void)sia_folder_sync_above(p->options->folder, NULL); /* the name is on the disk when its folder is */
    return SIA_OK;
}

static sia_status save_tokenizer(packer *p, sia_error *err) {
    char *path = sia_path_join(p->made.path, "tokenizer.json");
    if (!path) return sia_fail_memory(err, strlen(p->made.path), "pack");
    sia_status status = sia_tokenizer_save(p->options->tokenizer, path, err);
    if (!status) status = sia_file_sha256(path, p->manifest->tokenizer_sha256, err);
    free(path);
    return status;
}

/* ---------------------------------------------------------------------------------------------- packing */

static sia_status check_options(const sia_pack_options *o, sia_error *err) {
    uint32_t size = sia_tokenizer_size(o->tokenizer);
    if (size > 65536)
        return sia_fail(err, SIA_ARGUMENT, "a vocabulary of %u: shards hold tokens below 65536", size);
    if (o->shard_tokens < 1 || o->shard_tokens > SIA_SHARD_MOST)
        return sia_fail(err, SIA_ARGUMENT, "shards of %lld tokens: want 1 to %lld",
                        (long long)o->shard_tokens, (long long)SIA_SHARD_MOST);
    if (!(o->val_fraction >= 0 && o->val_fraction <= 0.5))
        return sia_fail(err, SIA_ARGUMENT, "a validation part of %g: want 0 to 0.5", o->val_fraction);
    if (o->val_fraction > 0 && o->inputs[SIA_PART_VAL])
        return sia_fail(err, SIA_ARGUMENT, "the validation part: want a fraction or files, not both");
    sia_status status = check_name(o->folder, err);
    return status ? status : check_free(o->folder, err);
}

static sia_status fill(packer *p, sia_error *err) {
    int64_t count = 0;
    sia_status status = for_documents(p, SIA_PART_TRAIN, &count, NULL, err);
    p->tails = p->options->val_fraction > 0 && floor((double)count * p->options->val_fraction) < 1;
    for (int part = 0; !status && part < SIA_PARTS; part++)
        status = for_documents(p, part, &count, place_document, err);
    for (int part = 0; !status && part < SIA_PARTS; part++)
        if (p->shard[part]) status = close_shard(p, part, err);
    static const char *const names[SIA_PARTS] = {"training", "validation"};
    bool wanted[SIA_PARTS] = {true, p->options->val_fraction > 0 || p->options->inputs[SIA_PART_VAL]};
    for (int part = 0; !status && part < SIA_PARTS; part++)
        if (wanted[part] && !p->manifest->parts[part].shard_count)
            status = sia_fail(err, SIA_ARGUMENT,
                              "no text is left for %s: give more text, or a text of its own", names[part]);
    if (!status) status = save_tokenizer(p, err);
    return status ? status : sia_manifest_write(p->manifest, p->made.path, err);
}

sia_status sia_pack(const sia_pack_options *o, sia_manifest *manifest, bool *tails, sia_error *err) {
    packer p = {.options = o, .manifest = manifest};
    *manifest = (sia_manifest){0};
    *tails = false;
    sia_status status = check_options(o, err);
    if (!status) status = make_folder(&p, err);
    if (status) return status;
    manifest->vocabulary = sia_tokenizer_size(o->tokenizer);
    manifest->end_of_text = sia_tokenizer_end_of_text(o->tokenizer);
    for (int part = 0; part < SIA_PARTS; part++)
        p.total += o->inputs[part] ? (double)o->inputs[part]->bytes : 0;
    status = fill(&p, err);
    if (!status) status = take_name(&p, err);
    for (int part = 0; part < SIA_PARTS; part++) sia_shard_abandon(p.shard[part]);
    if (status) {
        name_folder(&p, err);
        sia_manifest_free(manifest);
    }
    sia_folder_abandon(&p.made); /* which nothing is left of, if it has its name */
    *tails = p.tails;
    free(p.ids);
    return status;
}
