/* SPDX-License-Identifier: MIT
 *
 * A table shows what a person wants to see, the JSON everything. */
#include "cli/probe_report.h"

#include <jansson.h>
#include <math.h>

#include "base/json.h"
#include "cli/machine.h"
#include "cli/show.h"
#include "eval/quantile.h"

/* ---------------------------------------------------------------------------------------------- tables */

static void print_contexts(FILE *to, const sia_probe *p) {
    fprintf(to, "context      entropy  last 100 itself  first   entropy by distance, from\n%45s", "");
    for (int range = 0; range < p->ranges; range++)
        fprintf(to, " %6lld", (long long)p->contexts[p->context_count - 1].range[range].from);
    fputc('\n', to);
    for (int i = 0; i < p->context_count; i++) {
        const sia_probe_context *c = &p->contexts[i];
        fprintf(to, "%7lld %5.2f ", (long long)c->length, c->entropy.mean);
        if (p->windows > 1)
            fprintf(to, "+-%.2f", c->entropy.error);
        else
            fprintf(to, "%6s", "-"); /* of one window nothing can be said */
        fprintf(to, "  %8.3f %6.3f %6.3f ", c->last100.mean, c->self.mean, c->first.mean);
        for (int range = 0; range < c->ranges; range++) fprintf(to, " %6.2f", c->range[range].entropy.mean);
        fputc('\n', to);
    }
}

/* Means over the heads of a layer. */
static sia_probe_logits layer_logits(const sia_probe *p, int layer, sia_probe_kind kind) {
    sia_probe_logits mean = {0};
    for (int head = 0; head < p->heads; head++) {
        const sia_probe_logits *l = sia_probe_logits_of(p, layer, head, kind);
        mean.mean += l->mean / p->heads;
        mean.variance += l->variance / p->heads;
        mean.within += l->within / p->heads;
        mean.kurtosis += l->kurtosis / p->heads;
    }
    return mean;
}

static void print_logits(FILE *to, const sia_probe *p) {
    fprintf(to, "\n       base logits, before rotary                after rotary             final\n"
                "layer    mean variance  off 1 within kurtosis     mean variance within variance\n");
    for (int layer = 0; layer < p->layers; layer++) {
        sia_probe_logits base = layer_logits(p, layer, SIA_PROBE_BASE);
        sia_probe_logits rotary = layer_logits(p, layer, SIA_PROBE_ROTARY);
        sia_probe_logits last = layer_logits(p, layer, SIA_PROBE_FINAL);
        fprintf(to, "%5d %7.2f %8.3f %+6.2f %6.3f %8.2f  %7.2f %8.3f %6.3f %8.3f\n", layer, base.mean,
                base.variance, base.variance - 1, base.within, base.kurtosis, rotary.mean, rotary.variance,
                rotary.within, last.variance);
    }
}

void probe_print(FILE *to, const probe_subject *s) {
    const sia_probe *p = s->probe;
    fprintf(to, "%s: %s, step %lld\n%lld window%s of %lld tokens of %s\n\n", cli_shown(s->path), s->scheme,
            (long long)s->step, (long long)p->windows, p->windows == 1 ? "" : "s", (long long)p->length,
            cli_shown(s->data));
    print_contexts(to, p);
    print_logits(to, p);
    fputc('\n', to);
}

/* ---------------------------------------------------------------------------------------------- JSON */

/* The lines of a subject. */
typedef struct lines {
    cli_json_out out;
    const probe_subject *subject;
} lines;

/* A line of one kind, whose other fields follow: of `more`, which it takes. */
static void put(lines *to, const char *kind, json_t *more) {
    json_t *line = json_pack("{s:s,s:s,s:I}", "kind", kind, "scheme", to->subject->scheme, "seed",
                             (json_int_t)to->subject->config->seed);
    if (!more || json_object_update(line, more) ||
        json_object_set_new(line, "model", sia_json_text(to->subject->path))) {
        json_decref(line);
        line = NULL;
    }
    json_decref(more);
    cli_json_put(&to->out, line);
}

sia_status probe_write_study(FILE *stream, const char *command, const char *data, int threads,
                             sia_error *err) {
    cli_json_out out = {stream, SIA_OK, err};
    cli_json_put(&out, json_pack("{s:s,s:o,s:s,s:o,s:o}", "kind", "study", "command", sia_json_text(command),
                                 "version", sia_version(), "machine", cli_machine_json(threads), "data",
                                 sia_json_text(data)));
    return out.status;
}

static void put_model(lines *to) {
    const probe_subject *s = to->subject;
    const sia_probe *p = s->probe;
    put(to, "probe-model",
        json_pack("{s:I,s:I,s:i,s:i,s:i,s:I,s:I,s:I,s:o}", "step", (json_int_t)s->step, "train_len",
                  (json_int_t)s->config->train_len, "layers", p->layers, "heads", p->heads, "head_dim",
                  s->config->head_dim, "length", (json_int_t)p->length, "windows", (json_int_t)p->windows,
                  "pairs", (json_int_t)p->pairs, "data", sia_json_text(s->data)));
}

static void put_contexts(lines *to) {
    const sia_probe *p = to->subject->probe;
    for (int i = 0; i < p->context_count; i++) {
        const sia_probe_context *c = &p->contexts[i];
        put(to, "probe-context",
            json_pack("{s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:i}", "length", (json_int_t)c->length, "entropy",
                      c->entropy.mean, "entropy_error", c->entropy.error, "last100", c->last100.mean,
                      "last100_error", c->last100.error, "self", c->self.mean, "first", c->first.mean, "rows",
                      c->rows));
        for (int r = 0; r < c->ranges; r++)
            put(to, "probe-range",
                json_pack("{s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f}", "length", (json_int_t)c->length, "from",
                          (json_int_t)c->range[r].from, "to", (json_int_t)c->range[r].to, "keys",
                          (json_int_t)((c->range[r].to < c->length ? c->range[r].to : c->length) -
                                       c->range[r].from),
                          "entropy", c->range[r].entropy.mean, "entropy_error", c->range[r].entropy.error,
                          "mass", c->range[r].mass.mean, "mass_error", c->range[r].mass.error));
    }
}

static void put_mass(lines *to, int layer, int head) {
    const sia_probe *p = to->subject->probe;
    for (int range = 0; range < p->ranges; range++) {
        const sia_probe_range *of = &p->contexts[p->context_count - 1].range[range];
        put(to, "probe-mass",
            json_pack("{s:i,s:i,s:i,s:I,s:I,s:f}", "layer", layer, "head", head, "decade", range, "from",
                      (json_int_t)of->from, "to", (json_int_t)of->to, "mass",
                      p->mass[((int64_t)layer * p->heads + head) * p->ranges + range]));
    }
}

/* Pairs of the Gaussian's quantile, of the same mean and variance, and the one that was found. */
static json_t *quantile_pairs(const sia_probe_logits *l) {
    json_t *list = json_array();
    for (int i = 0; i < SIA_PROBE_LEVELS; i++)
        sia_json_push(
            &list, json_pack("[f,f]", l->mean + sqrt(l->variance) * sia_gaussian_quantile(sia_probe_level(i)),
                             l->quantile[i]));
    return list;
}

static void put_logits(lines *to, int layer, int head, sia_probe_kind kind) {
    const sia_probe_logits *l = sia_probe_logits_of(to->subject->probe, layer, head, kind);
    json_t *more =
        json_pack("{s:i,s:i,s:f,s:f,s:f,s:f,s:o}", "layer", layer, "head", head, "mean", l->mean, "variance",
                  l->variance, "within", l->within, "kurtosis", l->kurtosis, "qq", quantile_pairs(l));
    if (kind != SIA_PROBE_FINAL) {
        sia_json_set(&more, "rotary", json_boolean(kind == SIA_PROBE_ROTARY));
        sia_json_set(&more, "off_unit", json_real(l->variance - 1));
    }
    put(to, kind == SIA_PROBE_FINAL ? "probe-final" : "probe-logits", more);
}

sia_status probe_write(FILE *stream, const probe_subject *subject, sia_error *err) {
    lines to = {{stream, SIA_OK, err}, subject};
    put_model(&to);
    put_contexts(&to);
    for (int layer = 0; layer < subject->probe->layers; layer++)
        for (int head = 0; head < subject->probe->heads; head++) {
            put_mass(&to, layer, head);
            for (int kind = 0; kind < SIA_PROBE_KINDS; kind++)
                put_logits(&to, layer, head, (sia_probe_kind)kind);
        }
    return to.out.status;
}
