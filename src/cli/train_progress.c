/* SPDX-License-Identifier: MIT
 *
 * The events of a training, as lines and as one line that is drawn again. */
#include "cli/train_progress.h"

#include <stdio.h>
#include <string.h>

#include "base/threads.h"
#include "cli/show.h"

void cli_show_held_out(const sia_held_out *h) {
    if (!h->windows) return;
    fprintf(stderr, "validation on %lld window%s of %lld tokens", (long long)h->windows,
            h->windows == 1 ? "" : "s", (long long)h->length);
    if (h->windows < h->wanted)
        fprintf(stderr, ": the text has no more, %lld are wanted", (long long)h->wanted);
    fputc('\n', stderr);
}

static void started(cli_train_progress *p, const sia_train_event *e) {
    const sia_settings *s = e->settings;
    char text[512];
    p->first_step = e->step;
    p->steps = s->training.steps;
    p->tokens = s->training.batch * s->model.train_len;
    memcpy(p->multiples, s->training.multiples, sizeof p->multiples);
    cli_progress_end(&p->shown.line);
    if (!p->quiet) {
        if (e->note) fprintf(stderr, "sia: a checkpoint cannot be used: %s\n", cli_shown(e->note));
        fprintf(stderr, "%s, %s: %lld train, %lld val tokens\n%.2f epochs in %lld steps of %lld tokens\n",
                s->model.scheme, sia_train_data_text(e->data, text, sizeof text),
                (long long)sia_corpus_tokens(e->data->train),
                (long long)(e->data->val ? sia_corpus_tokens(e->data->val) : 0),
                (double)p->steps * (double)p->tokens / (double)sia_corpus_tokens(e->data->train),
                (long long)p->steps, (long long)p->tokens);
        cli_show_held_out(&e->held_out);
        fprintf(stderr, "about %.0f MB of memory; kernels %s, %d thread%s", (double)e->bytes / 1e6, sia_isa(),
                e->threads, e->threads == 1 ? "" : "s");
        if (e->ranks > 1) fprintf(stderr, " on each of %d ranks", e->ranks);
        fputc('\n', stderr);
        if (e->step) fprintf(stderr, "continues from step %lld\n", (long long)e->step);
    }
    *p->shown.what = 0;
    cli_progress_start(&p->shown.line, p->shown.what, (double)((p->steps - e->step) * p->tokens), "k tokens",
                       1e3);
}

static void stepped(cli_train_progress *p, const sia_train_event *e) {
    double loss = e->result->loss;
    p->smoothed = p->seen ? 0.95 * p->smoothed + 0.05 * loss : loss;
    p->seen = true;
    (void)snprintf(p->shown.what, sizeof p->shown.what, "step %lld/%lld  loss %.3f, smoothed %.3f",
                   (long long)e->step, (long long)p->steps, loss, p->smoothed);
    cli_progress_update(&p->shown.line, (double)((e->step - p->first_step) * p->tokens));
}

static void validating(cli_train_progress *p, const sia_train_event *e) {
    char phase[sizeof p->validating.what];
    (void)snprintf(phase, sizeof phase, "step %lld/%lld  validation at %lldx", (long long)e->step,
                   (long long)p->steps, (long long)e->multiple);
    cli_progress_clear(&p->shown.line);
    (void)cli_phases_show(&p->validating, phase, e->done);
}

/* The line of training goes on as if validation had taken no time. */
static void leave_validation(cli_train_progress *p) {
    cli_progress_end(&p->validating.line);
    *p->validating.what = 0;
    p->shown.line.started += cli_seconds() - p->trained;
}

static void validated(cli_train_progress *p, const sia_train_event *e) {
    leave_validation(p);
    memcpy(p->validation, e->validation, sizeof p->validation);
    p->validated = true;
    if (p->quiet) return;
    cli_progress_clear(&p->shown.line);
    fprintf(stderr, "step %lld  validation", (long long)e->step);
    for (int i = 0; p->multiples[i]; i++)
        fprintf(stderr, "  %.3f at %lldx", e->validation[i], (long long)p->multiples[i]);
    fputc('\n', stderr);
}

int cli_train_hook(void *context, const sia_train_event *event) {
    cli_train_progress *p = context;
    switch (event->kind) {
    case SIA_TRAIN_STARTED:
        started(p, event);
        break;
    case SIA_TRAIN_STEP:
        stepped(p, event);
        break;
    case SIA_TRAIN_VALIDATING:
        validating(p, event);
        break;
    case SIA_TRAIN_VALIDATED:
        validated(p, event);
        break;
    case SIA_TRAIN_SAVED:
        break;
    }
    if (event->kind != SIA_TRAIN_VALIDATING) p->trained = cli_seconds();
    return cli_stopped();
}

void cli_train_progress_end(cli_train_progress *progress) {
    cli_progress_end(&progress->validating.line);
    cli_progress_end(&progress->shown.line);
}
