/* SPDX-License-Identifier: MIT
 *
 * What a run is trained and validated on, from whatever a person names:
 *
 *     nothing                      generated text (docs/data.md)
 *     text files and folders       packed into FOLDER/data, with a tokenizer that is given or trained on them
 *     a folder of 'sia data pack'  used where it is
 *     shards, or a pattern         used where they are
 *
 * It is described by a JSON object in the run's config.json, from which it can be opened again, if it is still what it
 * was. */
#ifndef SIA_TRAIN_DATA_H
#define SIA_TRAIN_DATA_H

#include "base/file.h"
#include "train/settings.h"

typedef struct sia_train_data {
    sia_tokenizer *tokenizer; /* NULL when shards came without one */
    sia_corpus *train, *val;  /* val scanned; NULL when there is none */
    json_t *description;
} sia_train_data;

typedef struct sia_data_source {
    char *const *paths;
    int count;       /* 0: generated text */
    const char *val; /* text, or shards, to validate on; NULL: a part of the text, of the folder; none */
    const char *tokenizer;  /* NULL: trained on the text, or that of the folder */
    double val_fraction;    /* of text without val */
    bool fraction_given;    /* it was asked for: refused where there is no text to divide */
    bool vocabulary_given;  /* the settings' vocabulary was asked for: else it follows the tokenizer */
    sia_stopped *stopped;   /* or NULL */
    sia_progress *progress; /* or NULL */
    void *progress_context;
    int threads;
} sia_data_source;

/* Prepares the data of a new run in its folder (which a sia_run has open), and opens it. The settings' vocabulary
 * is adapted. What is packed goes to FOLDER/data, which a start that was killed may have left: nothing else is
 * removed there, and no text that lies in it is taken. */
sia_status sia_train_data_prepare(sia_train_data *d, const sia_data_source *source, const char *folder,
                                  sia_settings *settings, sia_error *err);

/* A vocabulary that was not asked for follows the tokens of the text, in whole rows of 64. */
sia_status sia_train_fit_vocabulary(sia_settings *settings, const sia_data_source *source,
                                    const sia_corpus *text, sia_error *err);

/* Whether what was named for a run that is resumed, if anything was, is what it was begun with. */
sia_status sia_train_data_same(const json_t *description, const sia_data_source *source, sia_error *err);

typedef struct sia_data_opening {
    const char *folder; /* whose config.json has the description: a path that is not absolute starts there */
    bool val_only;      /* what is validated on is all that is needed: train stays NULL */
    int threads;
    sia_stopped *stopped; /* asked while text is generated; or NULL */
} sia_data_opening;

/* Opens what a description names; text that is no longer what the description says is SIA_FORMAT. One from someone
 * else costs no more than the largest that sia_train_data_prepare makes: more generated text than that is
 * SIA_FORMAT. */
sia_status sia_train_data_open(sia_train_data *d, const json_t *description, const sia_data_opening *opening,
                               sia_error *err);

void sia_train_data_close(sia_train_data *d);

/* As tokenizer.json of a run. */
sia_status sia_train_tokenizer_save(const sia_tokenizer *t, const char *folder, sia_error *err);

/* A sentence for people: "generated text, seed 0". Returns text. */
char *sia_train_data_text(const sia_train_data *d, char *text, size_t room);
/* The same of what it is validated on: "va.txt", "books.txt, its validation part". */
char *sia_train_data_val_text(const sia_train_data *d, char *text, size_t room);

#endif
