/* SPDX-License-Identifier: MIT
 *
 * Folders of small files as values: read, compared, copied, removed.
 *
 *     tree before = tree_read("work"), after;
 *     ... work ...
 *     after = tree_read("work");
 *     if (!tree_same(&before, &after, why)) print_error("%s\n", why);
 *
 * Lines of logs are compared without what a clock or the system said: "seconds", "tokens_per_s", ... The figures in
 * timed/report.html are such too; of it only the end is looked at. */
#ifndef SIA_TESTS_TREE_H
#define SIA_TESTS_TREE_H

#include <stdbool.h>
#include <stddef.h>

enum { TREE_WHY = 512 };

typedef struct tree_file {
    char *path; /* from the folder on; a folder has bytes NULL */
    char *bytes;
    size_t size;
} tree_file;

typedef struct tree {
    tree_file *files; /* sorted by path */
    size_t count;
} tree;

tree tree_read(const char *folder);
void tree_free(tree *t);
const tree_file *tree_find(const tree *t, const char *path); /* or NULL */

/* The same files with the same bytes; else false, and a sentence. The lock of a run is left out. */
bool tree_same(const tree *wanted, const tree *found, char why[TREE_WHY]);

/* Every file that was found is whole: as it was before, or as it would be after; of a log, lines of either
 * from the first on. What both have is there. No temporary name is left. */
bool tree_between(const tree *before, const tree *after, const tree *found, char why[TREE_WHY]);

/* Forgets what has a temporary name. */
void tree_drop_temporary(tree *t);

void tree_write(const tree *t, const char *folder); /* which is made */
void tree_remove(const char *folder);

#endif
