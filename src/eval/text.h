/* SPDX-License-Identifier: MIT
 *
 * The text that a model is evaluated on, from whatever a person names:
 *
 *     NULL                         what the run was validated on (its config.json)
 *     text files, folders, -       encoded by the tokenizer
 *     a folder of 'sia data pack'  its validation part
 *     shards, or a pattern         as they are */
#ifndef SIA_EVAL_TEXT_H
#define SIA_EVAL_TEXT_H

#include "train/data.h"

typedef struct sia_eval_text {
    const sia_corpus *corpus; /* scanned; its ids fit the model */
    sia_corpus *own;
    sia_train_data run;
    uint16_t *tokens; /* of text that was encoded */
    bool join;        /* a run's own: its windows run from one document into the next */
} sia_eval_text;

typedef struct sia_eval_source {
    const char *path;               /* or NULL */
    const char *run;                /* the folder of the run; may be NULL when there is a path */
    const sia_tokenizer *tokenizer; /* NULL: only for shards */
    uint32_t vocabulary;            /* of the model */
    int threads;
    sia_stopped *stopped; /* asked while stdin is read and while text is generated; or NULL */
} sia_eval_source;

sia_status sia_eval_text_open(sia_eval_text *t, const sia_eval_source *source, sia_error *err);
void sia_eval_text_close(sia_eval_text *t); /* also after an open that failed */

#endif
