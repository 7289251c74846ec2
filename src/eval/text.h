/* SPDX-License-Identifier: MIT
 *
 * The text that a trained model is looked at with: that of its run, or any other in its tokenizer's ids.
 *
 *     sia_eval_text text;
 *     sia_eval_text_open(&text, &(sia_eval_source){.run = "runs/si", .path = "novel.txt"}, err);
 *     ... text.corpus, scanned ...
 *     sia_eval_text_close(&text); */
#ifndef SIA_EVAL_TEXT_H
#define SIA_EVAL_TEXT_H

#include "base/file.h"
#include "train/data.h"

typedef struct sia_eval_source {
    const char *run;  /* the folder of the model's run, as sia_model_load gives it */
    const char *path; /* text files, a folder of them, of 'sia data pack', or shards; NULL: the run's own */
    const char *tokenizer; /* NULL: that of the run */
    int threads;
    sia_stopped *stopped; /* or NULL */
} sia_eval_source;

typedef struct sia_eval_text {
    const sia_corpus *corpus; /* scanned */
    char name[512];           /* for people */
    sia_train_data run_data;  /* what owns it */
    sia_corpus *own;
    uint16_t *tokens;
} sia_eval_text;

sia_status sia_eval_text_open(sia_eval_text *text, const sia_eval_source *source, sia_error *err);
void sia_eval_text_close(sia_eval_text *text); /* a zeroed one is fine */

#endif
