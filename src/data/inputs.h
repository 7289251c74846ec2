/* SPDX-License-Identifier: MIT
 *
 * The text files that a person names: files, folders (gone through recursively, in the order of the bytes
 * of their names; names that start with a dot are left out, and those of files that are still being made),
 * "-" for stdin. And the documents in a text.
 *
 *     sia_inputs inputs = {0};
 *     sia_inputs_add(&inputs, "books", skip, &err);
 *     for (i < inputs.count) { sia_input_open(&inputs.list[i], &text, &err); ... sia_input_close(&text); } */
#ifndef SIA_DATA_INPUTS_H
#define SIA_DATA_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file.h"
#include "sia.h"

typedef struct sia_input {
    char *path;
    char *held; /* the text, when it came from stdin */
    size_t size;
} sia_input;

typedef struct sia_entered {
    dev_t device;
    ino_t number;
} sia_entered;

typedef struct sia_inputs {
    sia_input *list;
    int64_t count;
    size_t room;
    int64_t bytes;        /* of all */
    int64_t skipped;      /* files that could not be used, and were to be left out */
    sia_stopped *stopped; /* asked while folders are listed and stdin is read; NULL: nobody stops it */
    const char *output;   /* the folder that is written to, which is no text, wherever it lies; NULL: none */
    sia_entered *entered; /* the folders of the path at hand, each of which is gone through once */
    size_t entered_count, entered_room;
} sia_inputs;

/* Adds what path names; a folder without a file is an error, and so is one that sia made: packed text, a run, a
 * study. Such a folder inside of path is left out. Each file is looked at: an empty one and a binary one are errors,
 * or are left out and counted when skip is set (all of them may be: look at count). Binary: it has a zero byte, or of
 * its first 64 KiB more than a tenth are control characters or no UTF-8. */
sia_status sia_inputs_add(sia_inputs *inputs, const char *path, bool skip, sia_error *err);
void sia_inputs_free(sia_inputs *inputs);

typedef struct sia_input_text {
    const char *bytes;
    size_t size;
    sia_map map; /* of a large file */
    char *read;  /* a small one: a process may not have more than some ten thousand maps */
} sia_input_text;

sia_status sia_input_open(const sia_input *input, sia_input_text *text, sia_error *err);
void sia_input_close(sia_input_text *text);

/* The next document of a text: what stands between lines that hold a form feed alone, if it is more than
 * white space. *at starts at 0. Returns false after the last one. With whole, all of the text is one
 * document. */
bool sia_next_document(const char *text, size_t size, bool whole, size_t *at, sia_text *document);

#endif
