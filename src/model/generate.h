/* SPDX-License-Identifier: MIT
 *
 * Text from a model, token by token, handed on as it comes.
 *
 *     sia_generation g = {.tokenizer = t, .prompt = {"Once", 4}, .sampling = {.temperature = 0.8},
 *                         .tokens = 200, .write = to_stdout};
 *     sia_generate(session, m, &g, &result, err);
 *
 * What is written is whole characters of UTF-8: a token may end inside of one, and the rest comes with the
 * next. A byte that is no part of a character is written as U+FFFD; a character that is not finished when the
 * text ends is left out. */
#ifndef SIA_MODEL_GENERATE_H
#define SIA_MODEL_GENERATE_H

#include "base/file.h"
#include "model/model.h"

/* Called with one or more characters. A failure ends the text with that status. */
typedef sia_status sia_generate_write(void *context, const char *bytes, size_t count, sia_error *err);

typedef struct sia_generation {
    const sia_tokenizer *tokenizer;
    sia_text prompt;       /* empty: the text starts at its end-of-text token */
    sia_sampling sampling; /* its limit is set here: to the tokenizer's ids, of which special ones are not
                              drawn, but end-of-text is, and ends the text */
    int64_t tokens;        /* at most; 0: as far as memory goes */
    sia_text stop;         /* ends the text where it comes up, and is not written; empty: none */
    bool ignore_end;       /* end-of-text is not drawn either */
    sia_generate_write *write;
    void *write_context;
    sia_stopped *stopped; /* or NULL */
} sia_generation;

typedef enum sia_generate_end {
    SIA_END_TOKENS,   /* as many as were asked for */
    SIA_END_DOCUMENT, /* end-of-text was drawn */
    SIA_END_STOP,     /* the stop text came up */
} sia_generate_end;

typedef struct sia_generated {
    int64_t prompt_tokens, tokens;  /* the end-of-text that ends the text is not counted */
    double prompt_seconds, seconds; /* of the tokens after the first, which the prompt gives */
    sia_generate_end end;
} sia_generated;

/* The session, of this model, may hold a text already: the prompt joins it. SIA_STOPPED when `stopped` says
 * so, with *result as far as it came. */
sia_status sia_generate(sia_session *s, const sia_model *m, const sia_generation *g, sia_generated *result,
                        sia_error *err);

#endif
