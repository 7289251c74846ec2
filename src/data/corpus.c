/* SPDX-License-Identifier: MIT
 *
 * Several shards, or an array in memory, as one sequence of tokens with its documents. */
#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/threads.h"
#include "data/manifest.h"
#include "data/shard.h"
#include "data/source.h"
#include "text/split.h"
#include "text/tokenizer.h"

enum { GPT2_VOCABULARY = 50257, GPT2_END_OF_TEXT = 50256 };

typedef struct shard {
    char *name; /* for sentences; NULL: in memory */
    sia_map map;
    const uint16_t *tokens;
    int64_t first, count;
} shard;

struct sia_corpus {
    uint32_t vocabulary, end_of_text;
    shard *shards;
    int64_t shard_count, count;
    size_t shard_room;
    int64_t *starts; /* [documents + 1] when scanned */
    int64_t documents;
    uint16_t *owned;
};

/* ----------------------------------------------------------------------------------------------- shards */

static sia_status add_shard(sia_corpus *c, const char *name, const uint16_t *tokens, int64_t count,
                            sia_map *map, sia_error *err) {
    if (!sia_grow(&c->shards, &c->shard_room, (size_t)c->shard_count + 1, sizeof *c->shards))
        return sia_fail_memory(err, ((size_t)c->shard_count + 1) * sizeof *c->shards, "corpus");
    char *copy = name ? strdup(name) : NULL;
    if (name && !copy) return sia_fail_memory(err, strlen(name), "corpus");
    c->shards[c->shard_count++] = (shard){copy, map ? *map : (sia_map){0}, tokens, c->count, count};
    c->count += count;
    return SIA_OK;
}

static sia_status open_shard(sia_corpus *c, const char *path, sia_error *err) {
    sia_map map;
    const uint16_t *tokens = NULL;
    int64_t count = 0;
    sia_status status = sia_map_open(&map, path, err);
    if (status) return status;
    status = sia_shard_parse(map.bytes, map.size, path, &tokens, &count, err);
    if (!status) status = add_shard(c, path, tokens, count, &map, err);
    if (status) sia_map_close(&map);
    return status;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* A pattern may come from someone else's config.json: with wildcards in the names of folders too, a line of it
 * goes through more paths than anyone has time for. */
static sia_status open_pattern(sia_corpus *c, const char *pattern, sia_error *err) {
    glob_t found = {0};
    const char *last = strrchr(pattern, '/');
    if (last && strcspn(pattern, "*?[") < (size_t)(last - pattern))
        return sia_fail(err, SIA_ARGUMENT, "%s: want * ? [ in the names of files alone, not of folders",
                        pattern);
    int code = glob(pattern, GLOB_ERR | GLOB_NOSORT, NULL, &found);
    sia_status status = SIA_OK;
    if (code == GLOB_NOMATCH)
        status = sia_fail(err, SIA_FILE, "%s: no file matches", pattern);
    else if (code == GLOB_NOSPACE)
        status = sia_fail_memory(err, strlen(pattern), pattern);
    else if (code)
        status = sia_fail(err, SIA_FILE, "%s: a folder could not be read", pattern);
    /* glob would sort by the host's language, and then the text would depend on it. */
    if (!status) qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
    for (size_t i = 0; !status && i < found.gl_pathc; i++) status = open_shard(c, found.gl_pathv[i], err);
    globfree(&found);
    return status;
}

static sia_status open_listed(sia_corpus *c, const char *folder, const sia_manifest_part *part,
                              sia_error *err) {
    for (int64_t i = 0; i < part->shard_count; i++) {
        char *path = sia_path_join(folder, part->shards[i].file);
        if (!path) return sia_fail_memory(err, strlen(folder), "corpus");
        sia_status status = open_shard(c, path, err);
        if (!status && c->shards[i].count != part->shards[i].tokens)
            status = sia_fail(err, SIA_FORMAT, "%s: data.json says %lld tokens, file holds %lld", path,
                              (long long)part->shards[i].tokens, (long long)c->shards[i].count);
        free(path);
        if (status) return status;
    }
    return SIA_OK;
}

/* The numbers of two vocabularies may agree, and their tokens mean other texts. */
static sia_status check_tokenizer(const char *folder, const sia_tokenizer *wanted, sia_error *err) {
    sia_tokenizer *packed = NULL;
    sia_status status = sia_tokenizer_open(&packed, folder, err);
    if (!status && !sia_tokenizer_same(packed, wanted))
        status = sia_fail(err, SIA_FORMAT,
                          "%s: packed with another tokenizer than the one it is to be read with", folder);
    sia_tokenizer_close(packed);
    return status;
}

static sia_status open_folder(sia_corpus *c, const char *folder, const char *name, bool given,
                              const sia_tokenizer *tokenizer, sia_error *err) {
    int part = 0;
    while (part < SIA_PARTS && strcmp(sia_part_names[part], name) != 0) part++;
    if (part == SIA_PARTS) return sia_fail(err, SIA_ARGUMENT, "part \"%s\": want train or val", name);
    sia_manifest m;
    sia_status status = sia_manifest_read(&m, folder, err);
    if (status) return status;
    if (given && (m.vocabulary != c->vocabulary || m.end_of_text != c->end_of_text))
        status =
            sia_fail(err, SIA_FORMAT,
                     "%s: packed for a vocabulary of %u with end-of-text %u, the tokenizer has %u and %u",
                     folder, m.vocabulary, m.end_of_text, c->vocabulary, c->end_of_text);
    else if (!m.parts[part].shard_count)
        status = sia_fail(err, SIA_FORMAT, "%s: has no part \"%s\"", folder, name);
    c->vocabulary = m.vocabulary;
    c->end_of_text = m.end_of_text;
    if (!status && tokenizer) status = check_tokenizer(folder, tokenizer, err);
    if (!status) status = open_listed(c, folder, &m.parts[part], err);
    sia_manifest_free(&m);
    return status;
}

/* What the data.json beside shards that were named one by one, or by a pattern, says of their tokens. */
static sia_status ask_beside(sia_corpus *c, const char *path, const sia_corpus_config *config, bool given,
                             sia_error *err) {
    char *folder;
    sia_manifest m;
    sia_status status = sia_packed_folder(path, &folder, err);
    if (folder && config->tokenizer)
        status = check_tokenizer(folder, config->tokenizer, err);
    else if (folder && !given && !(status = sia_manifest_read(&m, folder, err))) {
        c->vocabulary = m.vocabulary;
        c->end_of_text = m.end_of_text;
        sia_manifest_free(&m);
    }
    free(folder);
    return status;
}

/* --------------------------------------------------------------------------------------------- scanning */

static sia_status fail_outside(const sia_corpus *c, const shard *s, int64_t at, sia_error *err) {
    return sia_fail(err, SIA_FORMAT, "%s: token %lld is %u: want below %u", s->name ? s->name : "corpus",
                    (long long)at, s->tokens[at], c->vocabulary);
}

static int64_t count_documents(const sia_corpus *c) {
    int64_t found = 0;
    for (int64_t i = 0; i < c->shard_count; i++)
        for (int64_t j = 0; j < c->shards[i].count; j++) found += c->shards[i].tokens[j] == c->end_of_text;
    return found;
}

static sia_status scan(sia_corpus *c, sia_error *err) {
    for (int64_t i = 0; i < c->shard_count; i++) {
        const shard *s = &c->shards[i];
        int64_t at = sia_shard_outside(s->tokens, s->count, c->vocabulary);
        if (at < s->count) return fail_outside(c, s, at, err);
    }
    /* Room for the document before the first end-of-text, and for the end. */
    size_t bytes = ((size_t)count_documents(c) + 2) * sizeof *c->starts;
    c->starts = malloc(bytes);
    if (!c->starts) return sia_fail_memory(err, bytes, "documents");
    for (int64_t i = 0; i < c->shard_count; i++) {
        const shard *s = &c->shards[i];
        for (int64_t j = 0; j < s->count; j++)
            if (s->tokens[j] == c->end_of_text || s->first + j == 0) c->starts[c->documents++] = s->first + j;
    }
    c->starts[c->documents] = c->count;
    return SIA_OK;
}

/* ---------------------------------------------------------------------------------------------- opening */

static sia_status start(sia_corpus **out, const sia_corpus_config *config, bool *given, sia_error *err) {
    *out = calloc(1, sizeof **out);
    if (!*out) return sia_fail_memory(err, sizeof **out, "corpus");
    sia_corpus *c = *out;
    c->vocabulary = GPT2_VOCABULARY;
    c->end_of_text = GPT2_END_OF_TEXT;
    *given = config->vocabulary || config->tokenizer;
    if (config->vocabulary) {
        c->vocabulary = config->vocabulary;
        c->end_of_text = config->end_of_text;
    } else if (config->tokenizer) {
        c->vocabulary = sia_tokenizer_size(config->tokenizer);
        c->end_of_text = sia_tokenizer_end_of_text(config->tokenizer);
    }
    return SIA_OK;
}

static sia_status finish(sia_corpus **out, sia_corpus *c, const sia_corpus_config *config, sia_status status,
                         sia_error *err) {
    if (!status && config->scan) status = scan(c, err);
    if (status) {
        sia_corpus_close(c);
        c = NULL;
    }
    *out = c;
    return status;
}

sia_status sia_corpus_open(sia_corpus **out, const char *path, const sia_corpus_config *config,
                           sia_error *err) {
    if (!out || !path)
        return sia_fail(err, SIA_ARGUMENT, "corpus: want a place for the result and a path, got NULL");
    static const sia_corpus_config defaults;
    if (!config) config = &defaults;
    sia_corpus *c;
    bool given;
    *out = NULL;
    sia_status status = start(&c, config, &given, err);
    if (status) return status;
    struct stat info;
    bool exists = stat(path, &info) == 0;
    bool folder = exists && S_ISDIR(info.st_mode);
    if (!exists && strpbrk(path, "*?["))
        status = open_pattern(c, path, err);
    else if (!exists)
        status = sia_fail_file(err, path);
    else if (folder)
        status = open_folder(c, path, config->part ? config->part : "train", given, config->tokenizer, err);
    else
        status = open_shard(c, path, err);
    if (!status && !folder) status = ask_beside(c, path, config, given, err);
    return finish(out, c, config, status, err);
}

sia_status sia_corpus_borrow(sia_corpus **out, const uint16_t *tokens, int64_t count,
                             const sia_corpus_config *config, sia_error *err) {
    sia_corpus *c;
    bool given;
    if (!out || !tokens || !config)
        return sia_fail(err, SIA_ARGUMENT,
                        "corpus: want a place for the result, tokens and a config, got NULL");
    *out = NULL;
    if (count < 0) return sia_fail(err, SIA_ARGUMENT, "a corpus of %lld tokens in memory", (long long)count);
    sia_status status = start(&c, config, &given, err);
    if (status) return status;
    if (!given) status = sia_fail(err, SIA_ARGUMENT, "a corpus in memory: want a vocabulary or a tokenizer");
    if (!status) status = add_shard(c, NULL, tokens, count, NULL, err);
    return finish(out, c, config, status, err);
}

void sia_corpus_close(sia_corpus *c) {
    if (!c) return;
    for (int64_t i = 0; i < c->shard_count; i++) {
        free(c->shards[i].name);
        sia_map_close(&c->shards[i].map);
    }
    free(c->shards);
    free(c->starts);
    free(c->owned);
    free(c);
}

/* ------------------------------------------------------------------------------------------- generating */

typedef struct generation {
    const sia_tokenizer *tokenizer;
    sia_source *source;
    sia_stopped *stopped;
    int64_t first;
    struct document {
        uint16_t *tokens;
        size_t count;
        sia_status status;
        sia_error error;
    } * documents;
} generation;

/* By blocks, which together give the ids of the whole, so that a wish to stop is heard in a long text too. */
static sia_status encode(const generation *g, const char *text, size_t length, uint32_t *ids, size_t *count,
                         sia_error *err) {
    sia_status status = SIA_OK;
    for (size_t b = 0; !status && b < sia_split_blocks(length); b++) {
        size_t start, end, found = 0;
        if (g->stopped && g->stopped()) return sia_fail(err, SIA_STOPPED, "stopped");
        if (!sia_split_block(text, length, b, &start, &end)) continue;
        status = sia_tokenizer_encode(g->tokenizer, text + start, end - start, ids + *count, &found, err);
        *count += found;
    }
    return status;
}

/* One document: text, then its tokens after an end-of-text. */
static void generate_document(void *context, int64_t task, int worker) {
    generation *g = context;
    struct document *d = &g->documents[task];
    char *text = NULL;
    size_t length = 0, count = 0;
    (void)worker;
    if (g->stopped && g->stopped()) { /* the others need not begin */
        d->status = sia_fail(&d->error, SIA_STOPPED, "stopped");
        return;
    }
    d->status =
        sia_source_document(g->source, (uint64_t)(g->first + task), g->stopped, &text, &length, &d->error);
    if (d->status) return;
    uint32_t *ids = malloc(length * sizeof *ids);
    d->tokens = malloc((length + 1) * sizeof *d->tokens);
    if (!ids || !d->tokens) d->status = sia_fail_memory(&d->error, length * 6, "generated text");
    if (!d->status) d->status = encode(g, text, length, ids, &count, &d->error);
    if (!d->status) {
        d->tokens[0] = (uint16_t)sia_tokenizer_end_of_text(g->tokenizer);
        for (size_t i = 0; i < count; i++) d->tokens[i + 1] = (uint16_t)ids[i];
        d->count = count + 1;
        uint16_t *smaller = realloc(d->tokens, d->count * sizeof *smaller);
        if (smaller) d->tokens = smaller;
    }
    free(ids);
    free(text);
}

static sia_status join_documents(generation *g, int64_t documents, uint16_t **tokens, int64_t *count,
                                 sia_error *err) {
    *count = 0;
    for (int64_t i = 0; i < documents; i++) {
        if (g->documents[i].status) {
            if (err) *err = g->documents[i].error;
            return g->documents[i].status;
        }
        *count += (int64_t)g->documents[i].count;
    }
    *tokens = malloc((size_t)*count * sizeof **tokens);
    if (!*tokens) return sia_fail_memory(err, (size_t)*count * sizeof **tokens, "generated text");
    uint16_t *at = *tokens;
    for (int64_t i = 0; i < documents; at += g->documents[i++].count)
        memcpy(at, g->documents[i].tokens, g->documents[i].count * sizeof *at);
    return SIA_OK;
}

sia_status sia_corpus_generate(sia_corpus **out, const sia_tokenizer *tokenizer, uint64_t seed, int64_t first,
                               int64_t documents, int64_t words, int threads, sia_error *err) {
    return sia_corpus_generate_until(out, tokenizer, seed, first, documents, words, threads, NULL, err);
}

sia_status sia_corpus_generate_until(sia_corpus **out, const sia_tokenizer *tokenizer, uint64_t seed,
                                     int64_t first, int64_t documents, int64_t words, int threads,
                                     sia_stopped *stopped, sia_error *err) {
    if (!out || !tokenizer)
        return sia_fail(err, SIA_ARGUMENT, "corpus: want a place for the result and a tokenizer, got NULL");
    *out = NULL;
    if (first < 0 || documents < 1 || documents > INT32_MAX)
        return sia_fail(err, SIA_ARGUMENT, "%lld documents from %lld on: want at least 1",
                        (long long)documents, (long long)first);
    if (sia_tokenizer_size(tokenizer) > 65536)
        return sia_fail(err, SIA_ARGUMENT, "a vocabulary of %u: a corpus has tokens below 65536",
                        sia_tokenizer_size(tokenizer));
    if (threads < 0 || threads > SIA_MAX_THREADS)
        return sia_fail(err, SIA_ARGUMENT, "threads %d: want 0 to %d", threads, SIA_MAX_THREADS);
    generation g = {.tokenizer = tokenizer, .stopped = stopped, .first = first};
    uint16_t *tokens = NULL;
    int64_t count = 0;
    sia_status status = sia_source_create(&g.source, seed, words, err);
    if (status) return status;
    g.documents = calloc((size_t)documents, sizeof *g.documents);
    if (!g.documents)
        status = sia_fail_memory(err, (size_t)documents * sizeof *g.documents, "generated text");
    if (!status) {
        sia_parallel(threads ? threads : sia_threads_available(), documents, generate_document, &g);
        status = join_documents(&g, documents, &tokens, &count, err);
    }
    for (int64_t i = 0; g.documents && i < documents; i++) free(g.documents[i].tokens);
    free(g.documents);
    sia_source_destroy(g.source);
    if (!status)
        status = sia_corpus_borrow(out, tokens, count,
                                   &(sia_corpus_config){.tokenizer = tokenizer, .scan = 1}, err);
    if (status)
        free(tokens);
    else
        (*out)->owned = tokens;
    return status;
}

/* ---------------------------------------------------------------------------------------------- reading */

int64_t sia_corpus_tokens(const sia_corpus *c) { return c->count; }
int64_t sia_corpus_shards(const sia_corpus *c) { return c->shard_count; }
uint32_t sia_corpus_vocabulary(const sia_corpus *c) { return c->vocabulary; }
uint32_t sia_corpus_end_of_text(const sia_corpus *c) { return c->end_of_text; }
int64_t sia_corpus_documents(const sia_corpus *c) { return c->documents; }

/* The shard that holds a place: the last one that starts at or before it. */
static const shard *shard_at(const sia_corpus *c, int64_t place) {
    int64_t low = 0, high = c->shard_count - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (c->shards[middle].first <= place)
            low = middle;
        else
            high = middle - 1;
    }
    return &c->shards[low];
}

sia_status sia_corpus_read(const sia_corpus *c, int64_t first, int64_t count, uint32_t *ids, sia_error *err) {
    if (!c || (count && !ids))
        return sia_fail(err, SIA_ARGUMENT, "corpus: want one and a place for ids, got NULL");
    if (first < 0 || count < 0 || first > c->count || count > c->count - first)
        return sia_fail(err, SIA_ARGUMENT, "%lld tokens from %lld on: the corpus has %lld", (long long)count,
                        (long long)first, (long long)c->count);
    while (count > 0) {
        const shard *s = shard_at(c, first);
        int64_t offset = first - s->first, n = s->count - offset < count ? s->count - offset : count;
        int64_t outside = sia_shard_outside(s->tokens + offset, n, c->vocabulary);
        if (outside < n) return fail_outside(c, s, offset + outside, err);
        for (int64_t i = 0; i < n; i++) ids[i] = s->tokens[offset + i];
        ids += n;
        first += n;
        count -= n;
    }
    return SIA_OK;
}

sia_status sia_corpus_document(const sia_corpus *c, int64_t i, int64_t *first, int64_t *count,
                               sia_error *err) {
    if (!c || !first || !count)
        return sia_fail(err, SIA_ARGUMENT, "corpus: want one and places for the result, got NULL");
    if (i < 0 || i >= c->documents)
        return sia_fail(err, SIA_ARGUMENT, "document %lld: the corpus has %lld", (long long)i,
                        (long long)c->documents);
    *first = c->starts[i];
    *count = c->starts[i + 1] - c->starts[i];
    return SIA_OK;
}
