/* SPDX-License-Identifier: MIT
 *
 * From what a person names to corpora for training and validation, and a description to open them again. */
#include "train/data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/harmless.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/path.h"
#include "data/inputs.h"
#include "data/pack.h"
#include "data/source.h"
#include "train/contents.h"
#include "train/run.h"

enum {
    WORDS = 16384,                   /* of a generated document, at least */
    TOKENIZER_DOCUMENTS = 24,        /* of generated text that a tokenizer is trained on */
    VAL_FIRST = 1000000000,          /* the number of the first generated document for validation */
    TOKENS_MOST = 128 * 1024 * 1024, /* of generated text; a longer training goes through it again */
    VAL_MOST = 64 * 1024 * 1024,     /* words of generated text for validation */
    SHARD_TOKENS = 100000000,
};

static bool ends_in(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

/* ------------------------------------------------------------------------------------------------ contents */

static sia_status describe_contents(sia_train_data *d, sia_error *err) {
    char train[SIA_CONTENTS_TEXT], val[SIA_CONTENTS_TEXT];
    sia_status status = sia_contents_of(d->train, train, err);
    if (!status) status = sia_contents_of(d->val, val, err);
    if (!status)
        sia_json_set(&d->description, "contents", json_pack("{s:s, s:s}", "train", train, "val", val));
    return status || d->description ? status : sia_fail_memory(err, 256, "description");
}

/* Text outside of a run may be packed again, or shards may join a pattern: it is another text then, and a run that went
 * on with it would have been trained on two. */
static sia_status check_contents(const sia_train_data *d, const char *path, bool val_only, sia_error *err) {
    const json_t *contents = json_object_get(d->description, "contents");
    const struct {
        const char *key, *what;
        const sia_corpus *c;
    } parts[] = {{"train", "train on", d->train}, {"val", "validate on", d->val}};
    for (int i = val_only ? 1 : 0; i < 2; i++) {
        char now[SIA_CONTENTS_TEXT];
        const char *then = json_string_value(json_object_get(contents, parts[i].key));
        sia_status status = then ? sia_contents_of(parts[i].c, now, err) : SIA_OK;
        if (!status && then && strcmp(then, now) != 0)
            status = sia_fail(err, SIA_FORMAT, "%s: the text to %s is not what it was when the run was begun",
                              path, parts[i].what);
        if (status) return status;
    }
    return SIA_OK;
}

/* ------------------------------------------------------------------------------------------------ opening */

/* Documents of generated text. */
typedef struct amount {
    int64_t words, train, val; /* of each document; documents */
} amount;

/* What generated_amount can come to. A bound by the run's own settings would not do: runs of a study have the text of
 * the largest of them, and one who writes a description into config.json writes the settings too. */
static bool is_possible(const amount *a) {
    return a->words >= WORDS && a->words <= VAL_MOST && a->val <= VAL_MOST / a->words &&
           a->train - 1 <= TOKENS_MOST / a->words;
}

static sia_status open_generated(sia_train_data *d, const sia_data_opening *o, sia_error *err) {
    json_int_t seed, words, documents, val_documents;
    if (json_unpack(d->description, "{s:I, s:I, s:I, s:I}", "seed", &seed, "words", &words, "documents",
                    &documents, "val_documents", &val_documents) ||
        seed < 0 || words < 1 || documents < 1 || val_documents < 1)
        return sia_fail(err, SIA_FORMAT, "config.json: the generated text is not described in full");
    if (!is_possible(&(amount){words, documents, val_documents}))
        return sia_fail(err, SIA_FORMAT, "config.json: describes more generated text than a run is given");
    sia_status status = SIA_OK;
    if (!o->val_only)
        status = sia_corpus_generate_until(&d->train, d->tokenizer, (uint64_t)seed, 0, documents, words,
                                           o->threads, o->stopped, err);
    if (!status)
        status = sia_corpus_generate_until(&d->val, d->tokenizer, (uint64_t)seed, VAL_FIRST, val_documents,
                                           words, o->threads, o->stopped, err);
    return status;
}

/* Whether the manifest of a packed folder has a part for validation. */
static sia_status open_packed(sia_train_data *d, const char *path, bool val_only, sia_error *err) {
    sia_manifest manifest;
    sia_status status = sia_manifest_read(&manifest, path, err);
    if (status) return status;
    bool val = manifest.parts[SIA_PART_VAL].shard_count > 0;
    sia_manifest_free(&manifest);
    if (!val_only)
        status = sia_corpus_open(&d->train, path,
                                 &(sia_corpus_config){.part = "train", .tokenizer = d->tokenizer}, err);
    if (!status && val)
        status = sia_corpus_open(
            &d->val, path, &(sia_corpus_config){.part = "val", .tokenizer = d->tokenizer, .scan = 1}, err);
    return status;
}

static sia_status open_shards(sia_train_data *d, const char *path, bool val_only, sia_error *err) {
    const char *val = json_string_value(json_object_get(d->description, "val"));
    sia_status status = SIA_OK;
    if (!val_only)
        status = sia_corpus_open(&d->train, path, &(sia_corpus_config){.tokenizer = d->tokenizer}, err);
    if (!status && val)
        status =
            sia_corpus_open(&d->val, val, &(sia_corpus_config){.tokenizer = d->tokenizer, .scan = 1}, err);
    return status;
}

sia_status sia_train_data_open(sia_train_data *d, const json_t *description, const sia_data_opening *opening,
                               sia_error *err) {
    const char *folder = opening->folder;
    *d = (sia_train_data){.description = json_deep_copy(description)};
    const char *kind = json_string_value(json_object_get(description, "kind"));
    const char *named = json_string_value(json_object_get(description, "path"));
    bool inside = named && named[0] != '/', generated = kind && !strcmp(kind, "generated");
    if (description && !d->description) return sia_fail_memory(err, 64, "config.json");
    if (!kind || (!generated && !named)) {
        sia_train_data_close(d);
        return sia_fail(err, SIA_FORMAT, "%s/config.json: %s", folder,
                        kind ? "the data has no path" : "no data is described");
    }
    char *path = inside ? sia_path_join(folder, named) : strdup(named ? named : "");
    char *tokenizer = sia_path_join(folder, "tokenizer.json");
    sia_status status = path && tokenizer ? SIA_OK : sia_fail_memory(err, strlen(folder) + 16, "path");
    bool there = false;
    if (!status) status = sia_file_there(tokenizer, &there, err);
    if (!status && there) status = sia_tokenizer_open(&d->tokenizer, tokenizer, err);
    if (!status && !d->tokenizer && strcmp(kind, "shards") != 0)
        status = sia_fail(err, SIA_FILE, "%s: no tokenizer.json", folder);
    if (!status) {
        if (generated)
            status = open_generated(d, opening, err);
        else if (!strcmp(kind, "packed"))
            status = open_packed(d, path, opening->val_only, err);
        else if (!strcmp(kind, "shards"))
            status = open_shards(d, path, opening->val_only, err);
        else
            status =
                sia_fail(err, SIA_FORMAT, "%s/config.json: data of kind '%s' is not known", folder, kind);
    }
    if (!status) status = check_contents(d, path, opening->val_only, err);
    free(path);
    free(tokenizer);
    if (status) sia_train_data_close(d);
    return status;
}

void sia_train_data_close(sia_train_data *d) {
    sia_corpus_close(d->train);
    sia_corpus_close(d->val);
    sia_tokenizer_close(d->tokenizer);
    json_decref(d->description);
    *d = (sia_train_data){0};
}

/* What a description says of itself counts only for data inside the run or its study: a file elsewhere is named as it
 * is. */
static bool is_inside(const char *path) {
    return path && (!strcmp(path, "data") || !strcmp(path, "../../data"));
}

char *sia_train_data_text(const sia_train_data *d, char *text, size_t room) {
    const char *kind = json_string_value(json_object_get(d->description, "kind"));
    const char *from = json_string_value(json_object_get(d->description, "from"));
    const char *path = json_string_value(json_object_get(d->description, "path"));
    if (kind && !strcmp(kind, "generated"))
        (void)snprintf(text, room, "generated text, seed %lld",
                       (long long)json_integer_value(json_object_get(d->description, "seed")));
    else
        (void)snprintf(text, room, "%s", from && is_inside(path) ? from : path ? path : "");
    return sia_harmless(text, strlen(text), "");
}

char *sia_train_data_val_text(const sia_train_data *d, char *text, size_t room) {
    const char *path = json_string_value(json_object_get(d->description, "path"));
    const char *val = json_string_value(json_object_get(d->description, "val")); /* shards: what is opened */
    if (is_inside(path))
        val = json_string_value(json_object_get(json_object_get(d->description, "names"), "val"));
    if (val) {
        (void)snprintf(text, room, "%s", val);
        return sia_harmless(text, strlen(text), "");
    }
    (void)sia_train_data_text(d, text, room);
    size_t used = strlen(text);
    (void)snprintf(text + used, room - used, ", its validation part");
    return text;
}

/* ------------------------------------------------------------------------------------------------ tokenizers */

static sia_status train_tokenizer(sia_tokenizer **t, const sia_text *texts, size_t count,
                                  const sia_data_source *s, uint32_t size, sia_error *err) {
    sia_tokenizer_training training = {.size = size,
                                       .threads = s->threads,
                                       .progress = s->progress,
                                       .progress_context = s->progress_context};
    return sia_tokenizer_train(t, &training, texts, count, err);
}

static sia_status tokenizer_from_source(sia_tokenizer **t, const sia_data_source *s, uint64_t seed,
                                        uint32_t size, sia_error *err) {
    sia_source *source;
    sia_text texts[TOKENIZER_DOCUMENTS] = {{0}};
    char *held[TOKENIZER_DOCUMENTS] = {0};
    sia_status status = sia_source_create(&source, seed, WORDS, err);
    if (status) return status;
    for (int i = 0; !status && i < TOKENIZER_DOCUMENTS; i++) {
        status = sia_source_document(source, (uint64_t)i, s->stopped, &held[i], &texts[i].size, err);
        texts[i].bytes = held[i];
    }
    if (!status) status = train_tokenizer(t, texts, TOKENIZER_DOCUMENTS, s, size, err);
    for (int i = 0; i < TOKENIZER_DOCUMENTS; i++) free(held[i]);
    sia_source_destroy(source);
    return status;
}

static sia_status tokenizer_from_inputs(sia_tokenizer **t, const sia_data_source *s, const sia_inputs *inputs,
                                        uint32_t size, sia_error *err) {
    sia_input_text *open = calloc((size_t)inputs->count, sizeof *open);
    sia_text *texts = calloc((size_t)inputs->count, sizeof *texts);
    sia_status status =
        open && texts ? SIA_OK : sia_fail_memory(err, (size_t)inputs->count * sizeof *texts, "texts");
    for (int64_t i = 0; !status && i < inputs->count; i++) {
        status = sia_input_open(&inputs->list[i], &open[i], err);
        if (!status) texts[i] = (sia_text){open[i].bytes, open[i].size};
    }
    if (!status) status = train_tokenizer(t, texts, (size_t)inputs->count, s, size, err);
    for (int64_t i = 0; open && i < inputs->count; i++) sia_input_close(&open[i]);
    free(open);
    free(texts);
    return status;
}

sia_status sia_train_tokenizer_save(const sia_tokenizer *t, const char *folder, sia_error *err) {
    char *path = sia_path_join(folder, "tokenizer.json");
    sia_status status =
        path ? sia_tokenizer_save(t, path, err) : sia_fail_memory(err, strlen(folder), "path");
    free(path);
    return status;
}

/* ------------------------------------------------------------------------------------------------ preparing */

sia_status sia_train_fit_vocabulary(sia_settings *settings, const sia_data_source *s, const sia_corpus *text,
                                    sia_error *err) {
    uint32_t tokens = sia_corpus_vocabulary(text);
    if (!s->vocabulary_given) settings->model.vocabulary = (tokens + 63) / 64 * 64;
    if (settings->model.vocabulary >= tokens) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT, "vocabulary %u: the tokenizer has %u tokens",
                    settings->model.vocabulary, tokens);
}

static sia_status generated_amount(amount *a, const sia_settings *settings, sia_error *err) {
    const sia_training_settings *t = &settings->training;
    int64_t most = sia_multiples_longest(t->multiples),
            longest = (most ? most : 1) * settings->model.train_len;
    a->words = longest + 1 > WORDS ? longest + 1 : WORDS; /* a word is at least a token */
    double wanted = (double)t->steps * (double)t->batch * (double)settings->model.train_len;
    int64_t tokens = wanted > TOKENS_MOST ? TOKENS_MOST : (int64_t)wanted, windows = a->words / longest;
    a->train = tokens / a->words + 1;
    a->val = (t->eval_windows + windows - 1) / windows;
    if (is_possible(a)) return SIA_OK;
    return sia_fail(
        err, SIA_ARGUMENT,
        "validation on %lld windows of %lld tokens: want at most %d words of generated text: shorter "
        "lengths, fewer windows, or text of your own",
        (long long)t->eval_windows, (long long)longest, VAL_MOST);
}

static sia_status prepare_generated(json_t **description, sia_tokenizer **tokenizer, const sia_data_source *s,
                                    const sia_settings *settings, sia_error *err) {
    const sia_training_settings *t = &settings->training;
    amount a;
    sia_status status = generated_amount(&a, settings, err);
    if (status) return status;
    *description =
        json_pack("{s:s, s:I, s:I, s:I, s:I}", "kind", "generated", "seed", (json_int_t)t->data_seed, "words",
                  (json_int_t)a.words, "documents", (json_int_t)a.train, "val_documents", (json_int_t)a.val);
    if (!*description) return sia_fail_memory(err, 64, "description");
    if (*tokenizer) return SIA_OK;
    return tokenizer_from_source(tokenizer, s, t->data_seed, settings->model.vocabulary, err);
}

/* Fails for a file that lies in a folder, by whatever name. */
static sia_status refuse_within(const char *folder, const char *file, sia_error *err) {
    char *outer = realpath(folder, NULL), *inner = outer ? realpath(file, NULL) : NULL;
    sia_status status = inner ? SIA_OK : sia_fail_file(err, outer ? file : folder);
    size_t length = outer ? strlen(outer) : 0;
    if (inner && !strncmp(inner, outer, length) && inner[length] == '/')
        status = sia_fail(err, SIA_ARGUMENT,
                          "%s: lies in %s, where the run packs its text: name another folder", file, folder);
    free(outer);
    free(inner);
    return status;
}

static bool is_listed(const sia_manifest *m, const char *name) {
    if (!strcmp(name, "data.json") || !strcmp(name, "tokenizer.json")) return true;
    for (int part = 0; part < SIA_PARTS; part++)
        for (int64_t i = 0; i < m->parts[part].shard_count; i++)
            if (!strcmp(name, m->parts[part].shards[i].file)) return true;
    return false;
}

/* Whether a folder is a packed text and nothing else. */
static sia_status is_pack(const char *path, bool *pack, sia_error *err) {
    sia_manifest manifest;
    sia_names names;
    *pack = false;
    sia_status status = sia_manifest_read(&manifest, path, err);
    if (status) return status == SIA_MEMORY ? status : SIA_OK;
    status = sia_folder_list(path, &names, err);
    *pack = !status;
    for (size_t i = 0; i < names.count; i++) *pack = *pack && is_listed(&manifest, names.list[i]);
    sia_names_free(&names);
    sia_manifest_free(&manifest);
    return status;
}

/* A start that was killed may have left its pack, which has data.json from the moment it has its name: nothing refers
 * to it yet. Anything else there is a person's. */
static sia_status remove_old_pack(const char *path, const sia_data_source *s,
                                  const sia_inputs inputs[SIA_PARTS], sia_error *err) {
    bool there = false, packed = false, empty = false;
    sia_status status = sia_file_there(path, &there, err);
    if (status || !there) return status;
    status = sia_folder_empty(path, &empty, err);
    if (!status && !empty) status = is_pack(path, &packed, err);
    if (!status && empty) return SIA_OK;
    if (!status && !packed)
        status = sia_fail(err, SIA_ARGUMENT,
                          "%s: holds files that are not packed text: name another folder for the run", path);
    for (int part = 0; part < SIA_PARTS; part++)
        for (int64_t i = 0; !status && i < inputs[part].count; i++)
            if (!inputs[part].list[i].held) status = refuse_within(path, inputs[part].list[i].path, err);
    if (!status && s->tokenizer) status = refuse_within(path, s->tokenizer, err);
    return status ? status : sia_folder_remove(path, err);
}

static sia_status pack_text(const sia_data_source *s, sia_tokenizer **tokenizer, const char *folder,
                            const sia_inputs inputs[SIA_PARTS], uint32_t size, sia_error *err) {
    char *path = sia_path_join(folder, "data");
    sia_manifest manifest;
    bool tails;
    sia_status status =
        path ? remove_old_pack(path, s, inputs, err) : sia_fail_memory(err, strlen(folder), "path");
    if (!status && !*tokenizer)
        status = tokenizer_from_inputs(tokenizer, s, &inputs[SIA_PART_TRAIN], size, err);
    sia_pack_options options = {
        .tokenizer = *tokenizer,
        .folder = path,
        .inputs = {&inputs[SIA_PART_TRAIN], s->val ? &inputs[SIA_PART_VAL] : NULL},
        .val_fraction = s->val ? 0 : s->val_fraction,
        .shard_tokens = SHARD_TOKENS,
        .threads = s->threads,
        .progress = s->progress,
        .progress_context = s->progress_context,
    };
    if (!status) status = sia_pack(&options, &manifest, &tails, err);
    if (!status) sia_manifest_free(&manifest);
    free(path);
    return status;
}

/* What was named has to be text; what lies in a folder beside text need not be. */
static sia_status add_text(sia_inputs *inputs, const char *path, sia_error *err) {
    struct stat info;
    return sia_inputs_add(inputs, path, stat(path, &info) == 0 && S_ISDIR(info.st_mode), err);
}

static sia_status prepare_text(json_t **description, sia_tokenizer **tokenizer, const sia_data_source *s,
                               const char *folder, const sia_settings *settings, sia_error *err) {
    sia_inputs inputs[SIA_PARTS] = {{.stopped = s->stopped, .output = folder},
                                    {.stopped = s->stopped, .output = folder}};
    sia_status status = SIA_OK;
    for (int i = 0; !status && i < s->count; i++)
        status = add_text(&inputs[SIA_PART_TRAIN], s->paths[i], err);
    if (!status && s->val) status = add_text(&inputs[SIA_PART_VAL], s->val, err);
    if (!status && (!inputs[SIA_PART_TRAIN].count || (s->val && !inputs[SIA_PART_VAL].count)))
        status =
            sia_fail(err, SIA_FILE, "no text: all files of the folders that were named are empty or binary");
    if (!status) status = pack_text(s, tokenizer, folder, inputs, settings->model.vocabulary, err);
    for (int part = 0; part < SIA_PARTS; part++) sia_inputs_free(&inputs[part]);
    if (status) return status;
    *description =
        json_pack("{s:s, s:s, s:o}", "kind", "packed", "path", "data", "from", sia_json_text(s->paths[0]));
    return *description ? SIA_OK : sia_fail_memory(err, 64, "description");
}

/* A packed folder brings its tokenizer. */
static sia_status prepare_packed(json_t **description, sia_tokenizer **tokenizer, const char *path,
                                 sia_error *err) {
    char *absolute = realpath(path, NULL);
    sia_status status = absolute ? SIA_OK : sia_fail_file(err, path);
    if (!status && !*tokenizer) status = sia_tokenizer_open(tokenizer, path, err);
    if (!status) {
        *description = json_pack("{s:s, s:s}", "kind", "packed", "path", absolute);
        if (!*description) status = sia_fail(err, SIA_ARGUMENT, "%s: the name is not UTF-8", path);
    }
    free(absolute);
    return status;
}

/* A pattern stays one; the folder before its last slash is made absolute. */
static sia_status absolute_pattern(const char *pattern, char **joined, sia_error *err) {
    const char *slash = strrchr(pattern, '/');
    char *folder = slash ? strndup(pattern, slash == pattern ? 1 : (size_t)(slash - pattern)) : strdup(".");
    char *absolute = folder ? realpath(folder, NULL) : NULL;
    sia_status status = absolute ? SIA_OK : sia_fail_file(err, folder ? folder : pattern);
    if (!status && !(*joined = sia_path_join(absolute, slash ? slash + 1 : pattern)))
        status = sia_fail_memory(err, strlen(pattern), "path");
    free(folder);
    free(absolute);
    return status;
}

/* Of shards in a folder of 'sia data pack', the one that is there. */
static sia_status tokenizer_beside(sia_tokenizer **tokenizer, const char *shards, sia_error *err) {
    char *folder;
    sia_status status = sia_packed_folder(shards, &folder, err);
    if (folder) status = sia_tokenizer_open(tokenizer, folder, err);
    free(folder);
    return status;
}

static sia_status prepare_shards(json_t **description, sia_tokenizer **tokenizer, const sia_data_source *s,
                                 sia_error *err) {
    char *train = NULL, *val = NULL;
    sia_status status = *tokenizer ? SIA_OK : tokenizer_beside(tokenizer, s->paths[0], err);
    if (!status) status = absolute_pattern(s->paths[0], &train, err);
    if (!status && s->val) status = absolute_pattern(s->val, &val, err);
    if (!status) *description = json_pack("{s:s, s:s, s:s*}", "kind", "shards", "path", train, "val", val);
    if (!status && !*description)
        status = sia_fail(err, SIA_ARGUMENT, "%s: the name is not UTF-8", s->paths[0]);
    free(train);
    free(val);
    return status;
}

typedef enum source_kind { GENERATED, PACKED, SHARDS, TEXTS } source_kind;

static sia_status kind_of(const sia_data_source *s, source_kind *kind, sia_error *err) {
    *kind = s->count ? TEXTS : GENERATED;
    for (int i = 0; i < s->count; i++) {
        bool packed;
        sia_status status = sia_folder_look(s->paths[i], "data.json", &packed, err);
        if (status) return status;
        if (packed || ends_in(s->paths[i], ".bin")) *kind = packed ? PACKED : SHARDS;
        if (*kind != TEXTS && s->count > 1)
            return sia_fail(err, SIA_ARGUMENT, "%s: shards stand alone: want one folder or one pattern",
                            s->paths[i]);
    }
    return SIA_OK;
}

/* What was asked for and has no meaning here is an error, never ignored. */
static sia_status check_source(const sia_data_source *s, source_kind kind, sia_error *err) {
    if (s->val && (kind == GENERATED || kind == PACKED))
        return sia_fail(err, SIA_ARGUMENT, "val %s: %s its own text to validate on", s->val,
                        kind == PACKED ? "a packed folder has" : "generated text has");
    if (s->fraction_given && kind != TEXTS)
        return sia_fail(err, SIA_ARGUMENT,
                        "val-fraction: only for text files, which are divided into documents");
    return SIA_OK;
}

/* What a run was begun with, as it was named, so that a resume under other names is noticed. */
static json_t *names_of(const sia_data_source *s) {
    json_t *names = json_object(), *files = json_array();
    for (int i = 0; i < s->count; i++) sia_json_push(&files, sia_json_text(s->paths[i]));
    sia_json_set(&names, "files", files);
    if (s->val) sia_json_set(&names, "val", sia_json_text(s->val));
    if (s->tokenizer) sia_json_set(&names, "tokenizer", sia_json_text(s->tokenizer));
    if (s->count && !s->val) sia_json_set(&names, "val_fraction", json_real(s->val_fraction));
    return names;
}

static sia_status same_fraction(const json_t *then, const sia_data_source *s, sia_error *err) {
    const json_t *fraction = json_object_get(then, "val_fraction");
    if (!s->fraction_given || !fraction || json_number_value(fraction) == s->val_fraction) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT, "val-fraction %g: it was begun with %g: leave it out", s->val_fraction,
                    json_number_value(fraction));
}

sia_status sia_train_data_same(const json_t *description, const sia_data_source *s, sia_error *err) {
    json_t *now = names_of(s), *files = json_object_get(now, "files");
    if (!now) return sia_fail_memory(err, 256, "names");
    const json_t *then = json_object_get(description, "names");
    const char *other = NULL;
    if (json_array_size(files) && !json_equal(files, json_object_get(then, "files"))) other = s->paths[0];
    if (s->val && !json_equal(json_object_get(now, "val"), json_object_get(then, "val"))) other = s->val;
    if (s->tokenizer && !json_equal(json_object_get(now, "tokenizer"), json_object_get(then, "tokenizer")))
        other = s->tokenizer;
    json_decref(now);
    return other
               ? sia_fail(err, SIA_ARGUMENT, "%s: the run was begun with other files: leave them out", other)
               : same_fraction(then, s, err);
}

/* A start that failed may have left the tokenizer of another text. */
static sia_status remove_old_tokenizer(const char *folder, sia_error *err) {
    char *path = sia_path_join(folder, "tokenizer.json");
    if (!path) return sia_fail_memory(err, strlen(folder), "path");
    sia_status status = unlink(path) == 0 || errno == ENOENT ? SIA_OK : sia_fail_file(err, path);
    free(path);
    return status;
}

sia_status sia_train_data_prepare(sia_train_data *d, const sia_data_source *s, const char *folder,
                                  sia_settings *settings, sia_error *err) {
    *d = (sia_train_data){0};
    source_kind kind;
    sia_status status = kind_of(s, &kind, err);
    if (!status) status = check_source(s, kind, err);
    if (status) return status;
    sia_tokenizer *tokenizer = NULL;
    json_t *description = NULL;
    status = s->tokenizer ? sia_tokenizer_open(&tokenizer, s->tokenizer, err) : SIA_OK;
    if (!status && kind == GENERATED)
        status = prepare_generated(&description, &tokenizer, s, settings, err);
    else if (!status && kind == PACKED)
        status = prepare_packed(&description, &tokenizer, s->paths[0], err);
    else if (!status && kind == SHARDS)
        status = prepare_shards(&description, &tokenizer, s, err);
    else if (!status)
        status = prepare_text(&description, &tokenizer, s, folder, settings, err);
    if (!status)
        status =
            tokenizer ? sia_train_tokenizer_save(tokenizer, folder, err) : remove_old_tokenizer(folder, err);
    sia_tokenizer_close(tokenizer);
    if (!status) sia_json_set(&description, "names", names_of(s));
    if (!status && !description) status = sia_fail_memory(err, 256, "description");
    if (!status)
        status = sia_train_data_open(
            d, description,
            &(sia_data_opening){.folder = folder, .threads = s->threads, .stopped = s->stopped}, err);
    json_decref(description);
    if (!status && kind != GENERATED) status = describe_contents(d, err);
    if (!status) status = sia_train_fit_vocabulary(settings, s, d->train, err);
    if (status) sia_train_data_close(d);
    return status;
}
