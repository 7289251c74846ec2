/* SPDX-License-Identifier: MIT
 *
 * Folders as values: see tree.h. A failure of the test's own work ends the program. */
#define _GNU_SOURCE
#include "tree.h"

#include <ftw.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void must(bool done, const char *what) {
    if (done) return;
    perror(what);
    abort();
}

/* ------------------------------------------------------------------------------------------------- reading */

static tree *filled; /* nftw hands on no context */
static size_t skip;

static int add_entry(const char *path, const struct stat *about, int type, struct FTW *place) {
    (void)place;
    if (strlen(path) <= skip) return 0;
    filled->files = realloc(filled->files, (filled->count + 1) * sizeof *filled->files);
    must(filled->files != NULL, path);
    tree_file *f = &filled->files[filled->count++];
    *f = (tree_file){.path = strdup(path + skip)};
    must(f->path != NULL, path);
    if (type != FTW_F) return 0;
    f->size = (size_t)about->st_size;
    f->bytes = malloc(f->size + 1);
    FILE *file = fopen(path, "rb");
    must(file && f->bytes && fread(f->bytes, 1, f->size, file) == f->size, path);
    f->bytes[f->size] = 0;
    (void)fclose(file);
    return 0;
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(((const tree_file *)a)->path, ((const tree_file *)b)->path);
}

tree tree_read(const char *folder) {
    tree t = {0};
    filled = &t;
    skip = strlen(folder) + 1;
    must(nftw(folder, add_entry, 16, FTW_PHYS) == 0, folder);
    filled = NULL;
    if (t.count) qsort(t.files, t.count, sizeof *t.files, compare_paths);
    return t;
}

void tree_free(tree *t) {
    for (size_t i = 0; i < t->count; i++) {
        free(t->files[i].path);
        free(t->files[i].bytes);
    }
    free(t->files);
    *t = (tree){0};
}

const tree_file *tree_find(const tree *t, const char *path) {
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->files[i].path, path) == 0) return &t->files[i];
    return NULL;
}

/* ------------------------------------------------------------------------------------------------- comparing */

static bool ends_in(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool same_line(const char *a, size_t a_length, const char *b, size_t b_length) {
    static const char *const measured[] = {"seconds", "tokens_per_s",  "peak_mb",
                                           "date",    "train_seconds", "threads"};
    json_t *x = json_loadb(a, a_length, 0, NULL), *y = json_loadb(b, b_length, 0, NULL);
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        (void)json_object_del(x, measured[i]);
        (void)json_object_del(y, measured[i]);
    }
    bool same = x && y && json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return same;
}

/* The lines of a are the first ones of b, or all of them. */
static bool same_lines(const tree_file *a, const tree_file *b, bool all) {
    const char *x = a->bytes, *y = b->bytes;
    while (*x) {
        const char *x_end = strchr(x, '\n'), *y_end = strchr(y, '\n');
        if (!x_end || !y_end || !same_line(x, (size_t)(x_end - x), y, (size_t)(y_end - y))) return false;
        x = x_end + 1;
        y = y_end + 1;
    }
    return !all || !*y;
}

static bool same_file(const tree_file *a, const tree_file *b) {
    if (!a || !b) return a == b;
    if (!a->bytes || !b->bytes) return a->bytes == b->bytes;
    if (ends_in(a->path, "timed/report.html"))
        return ends_in(a->bytes, "</html>\n") && ends_in(b->bytes, "</html>\n");
    if (ends_in(a->path, ".jsonl")) return same_lines(a, b, true);
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

static bool is_lock(const char *path) { return ends_in(path, "lock"); }

/* Where two files part. */
static void describe(const tree_file *wanted, const tree_file *found, char why[TREE_WHY]) {
    size_t at = 0;
    while (at < wanted->size && at < found->size && wanted->bytes[at] == found->bytes[at]) at++;
    (void)snprintf(why, TREE_WHY, "%s: byte %zu: '%.40s', want '%.40s'", wanted->path, at, found->bytes + at,
                   wanted->bytes + at);
}

bool tree_same(const tree *wanted, const tree *found, char why[TREE_WHY]) {
    for (size_t i = 0; i < wanted->count; i++) {
        const char *path = wanted->files[i].path;
        const tree_file *other = tree_find(found, path);
        if (is_lock(path) || same_file(&wanted->files[i], other)) continue;
        if (other && other->bytes && wanted->files[i].bytes)
            describe(&wanted->files[i], other, why);
        else
            (void)snprintf(why, TREE_WHY, "%s: is missing", path);
        return false;
    }
    for (size_t i = 0; i < found->count; i++) {
        const char *path = found->files[i].path;
        if (is_lock(path) || tree_find(wanted, path)) continue;
        (void)snprintf(why, TREE_WHY, "%s: was not wanted", path);
        return false;
    }
    return true;
}

bool tree_between(const tree *before, const tree *after, const tree *found, char why[TREE_WHY]) {
    for (size_t i = 0; i < found->count; i++) {
        const tree_file *f = &found->files[i], *old = tree_find(before, f->path),
                        *new = tree_find(after, f->path);
        (void)snprintf(why, TREE_WHY, "%s: is neither the old nor the new file", f->path);
        if (strstr(f->path, ".tmp-")) return false;
        if (is_lock(f->path) || same_file(f, old) || same_file(f, new)) continue;
        if (!old && !new &&strstr(f->path, "/step-"))
            continue; /* a checkpoint on the way, which is not kept */
        bool log = f->bytes && ends_in(f->path, ".jsonl");
        if (log && old && same_lines(f, old, false)) continue;
        if (log && new &&same_lines(f, new, false)) continue;
        return false;
    }
    for (size_t i = 0; i < before->count; i++) {
        const char *path = before->files[i].path;
        if (!tree_find(after, path) || tree_find(found, path)) continue;
        (void)snprintf(why, TREE_WHY, "%s: was lost", path);
        return false;
    }
    return true;
}

void tree_drop_temporary(tree *t) {
    size_t kept = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (!strstr(t->files[i].path, ".tmp-")) {
            t->files[kept++] = t->files[i];
            continue;
        }
        free(t->files[i].path);
        free(t->files[i].bytes);
    }
    t->count = kept;
}

/* ------------------------------------------------------------------------------------------------- writing */

void tree_write(const tree *t, const char *folder) {
    char path[4096];
    must(mkdir(folder, 0777) == 0, folder);
    for (size_t i = 0; i < t->count; i++) { /* sorted: a folder comes before what is in it */
        const tree_file *f = &t->files[i];
        (void)snprintf(path, sizeof path, "%s/%s", folder, f->path);
        if (!f->bytes) {
            must(mkdir(path, 0777) == 0, path);
            continue;
        }
        FILE *file = fopen(path, "wb");
        must(file && fwrite(f->bytes, 1, f->size, file) == f->size && fclose(file) == 0, path);
    }
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *place) {
    (void)about, (void)type, (void)place;
    return remove(path);
}

void tree_remove(const char *folder) { (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }
