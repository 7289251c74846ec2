/* SPDX-License-Identifier: MIT
 *
 * Made-up results in the form of real ones. */
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/random.h"

static const struct scheme {
    const char *name;
    double at1, at4, at16; /* sample losses */
    double needle[3];      /* sample accuracies at 1x, 4x, 16x */
} schemes[] = {
    {"si+prope", 3.674, 3.669, 3.694, {0.99, 0.95, 0.91}},
    {"logn+prope", 3.717, 3.766, 3.885, {0.97, 0.82, 0.43}},
    {"alibi", 3.887, 3.867, 3.861, {0.38, 0.24, 0.08}},
    {"rope+ntk", 3.720, 3.845, 4.097, {0.96, 0.31, 0.02}},
    {"rope+yarn", 3.720, 3.838, 4.051, {0.96, 0.12, 0.00}},
    {"prope", 3.736, 3.901, 4.151, {0.95, 0.20, 0.01}},
    {"rope", 3.720, 3.918, 4.211, {0.96, 0.00, 0.00}},
    {"nope", 4.087, 4.114, 4.143, {0.21, 0.10, 0.02}},
    {"logn+rope", 3.715, 3.790, 3.930, {0.94, 0.28, 0.06}},
    {"logn+ntk", 3.715, 3.781, 3.921, {0.94, 0.30, 0.07}},
    {"sharp+prope", 3.717, 3.783, 3.976, {0.97, 0.55, 0.10}},
    {"si+rope", 3.690, 3.702, 3.790, {0.97, 0.80, 0.50}},
};
enum { SCHEMES = sizeof schemes / sizeof *schemes };

static const int lengths[] = {256, 1024, 4096};

/* A number in -1 .. 1 from the place where it is used. */
static double wobble(int a, int b, int c) {
    return 2 * sia_random_uniform(1, (uint64_t)a * 1000003 + (uint64_t)b * 1009 + (uint64_t)c) - 1;
}

static double loss_at(int scheme, int length, int seed) {
    const struct scheme *s = &schemes[scheme];
    double loss = length <= 256 ? s->at1 : length <= 1024 ? s->at4 : s->at16;
    return loss + 0.012 * wobble(scheme, length, seed) + 0.008 * wobble(scheme, 0, seed);
}

static void write_study(FILE *f, const char *command) {
    fprintf(f,
            "{\"kind\":\"study\",\"command\":\"%s\",\"version\":\"0.1.0\",\"machine\":{\"isa\":\"avx2\","
            "\"threads\":2,\"processor\":\"a sample processor\",\"compiler\":\"gcc 12.2.0\"},\"config\":{"
            "\"layers\":3,\"width\":96,\"heads\":2,\"vocabulary\":1024,\"optimiser\":{\"muon\":0.02,"
            "\"embedding\":0.3,\"betas\":[0.9,0.95]}},\"train_len\":256,\"lengths\":[256,1024,4096],\"data\":"
            "\"sample numbers, not measured\",\"date\":\"2026-01-01\"}\n",
            command);
}

static void write_curves(FILE *f, int s, int seed) {
    for (int step = 10; step <= 500; step += 10)
        fprintf(f, "{\"kind\":\"curve\",\"scheme\":\"%s\",\"seed\":%d,\"step\":%d,\"loss\":%.4f}\n",
                schemes[s].name, seed, step,
                loss_at(s, 256, seed) + 3.2 * exp(-step / 70.0) + 0.05 * wobble(s, step, seed));
    for (int step = 125; step <= 500; step += 125)
        for (int l = 0; l < 3; l++)
            fprintf(
                f,
                "{\"kind\":\"validation\",\"scheme\":\"%s\",\"seed\":%d,\"step\":%d,\"length\":%d,\"loss\":"
                "%.4f}\n",
                schemes[s].name, seed, step, lengths[l],
                loss_at(s, lengths[l], seed) + 3.2 * exp(-step / 70.0));
}

static void write_positions(FILE *f, int s, int seed, int length) {
    fprintf(f, "{\"kind\":\"position\",\"scheme\":\"%s\",\"seed\":%d,\"length\":%d,\"bins\":[",
            schemes[s].name, seed, length);
    for (int from = 0, to = 16; from < length; from = to, to *= 2) {
        double middle = sqrt((from + 1.0) * to), late = fmax(0, log(middle / 256)) / log(16);
        fprintf(f, "%s{\"from\":%d,\"to\":%d,\"loss\":%.4f}", from ? "," : "", from,
                to > length ? length : to,
                schemes[s].at1 + 2.2 / pow(middle, 0.6) + 1.2 * late * (schemes[s].at16 - schemes[s].at1) +
                    0.01 * wobble(s, from, seed));
    }
    fprintf(f, "]}\n");
}

static void write_compare(FILE *f, int seeds) {
    write_study(f, "sia compare --steps 500 --seeds 3");
    for (int s = 0; s < SCHEMES; s++)
        for (int seed = 0; seed < seeds; seed++) {
            fprintf(f,
                    "{\"kind\":\"result\",\"scheme\":\"%s\",\"seed\":%d,\"params\":528390,\"train_len\":256,"
                    "\"loss\":{\"256\":%.4f,\"1024\":%.4f,\"4096\":%.4f},\"train_seconds\":%.1f,\"tokens\":"
                    "1024000}\n",
                    schemes[s].name, seed, loss_at(s, 256, seed), loss_at(s, 1024, seed),
                    loss_at(s, 4096, seed), 60 + 8 * wobble(s, 1, 1) + wobble(s, 2, seed));
            write_curves(f, s, seed);
            for (int l = 1; l < 3; l++) write_positions(f, s, seed, lengths[l]);
        }
    static const double taus[] = {0.1, 1, 10, 100};
    for (int t = 0; t < 4; t++)
        fprintf(
            f,
            "{\"kind\":\"result\",\"scheme\":\"si+prope\",\"variant\":\"tau=%g\",\"seed\":0,\"params\":"
            "528390,"
            "\"loss\":{\"256\":%.3f,\"1024\":%.3f,\"4096\":%.3f},\"train_seconds\":61,\"tokens\":1024000}\n",
            taus[t], 3.675 + 0.01 * pow(log10(taus[t] / 10), 2), 3.67 + 0.02 * pow(log10(taus[t] / 10), 2),
            3.70 + 0.03 * pow(log10(taus[t] / 10), 2));
}

static void write_needle(FILE *f, int seeds) {
    write_study(f, "sia needle --steps 400");
    for (int s = 0; s < 7; s++)
        for (int seed = 0; seed < seeds; seed++)
            for (int l = 0; l < 3; l++) {
                int all = 0;
                for (int depth = 0; depth < 10; depth++) {
                    double share = schemes[s].needle[l] + 0.08 * wobble(s, depth, seed) +
                                   (l ? 0.25 * (depth - 4.5) / 4.5 * schemes[s].needle[l] : 0);
                    int right = (int)(36 * fmin(1, fmax(0, share)) + 0.5);
                    all += right;
                    fprintf(f,
                            "{\"kind\":\"needle-depth\",\"scheme\":\"%s\",\"seed\":%d,\"length\":%d,"
                            "\"depth_from\":%.1f,\"depth_to\":%.1f,\"count\":36,\"right\":%d}\n",
                            schemes[s].name, seed, lengths[l], depth / 10.0, (depth + 1) / 10.0, right);
                }
                fprintf(f,
                        "{\"kind\":\"needle\",\"scheme\":\"%s\",\"seed\":%d,\"length\":%d,\"count\":360,"
                        "\"right\":%d}\n",
                        schemes[s].name, seed, lengths[l], all);
            }
}

static void write_theory(FILE *f) {
    static const char *const names[] = {"si", "plain"};
    static const int factors[] = {2, 5, 10};
    fprintf(f, "{\"figure\":\"settings\",\"tau\":10,\"rows\":2048,\"seed\":1}\n");
    for (int t = 10; t < 3000000; t *= 10)
        for (int d = 0; d < 3; d++)
            for (int q = 0; q < 2; q++)
                fprintf(f,
                        "{\"figure\":\"property\",\"quantity\":\"%s\",\"D\":%d,\"t\":%d,\"limit\":%.4f,"
                        "\"closed\":"
                        "%.4f,\"quadrature\":%.4f,\"sampled\":%.4f,\"error\":0.01,\"holds\":true}\n",
                        q ? "N" : "Z", factors[d], t, 16.49 * log(factors[d]),
                        16.49 * log((10.0 + (double)t * factors[d]) / (t + 10)),
                        16.49 * log((10.0 + (double)t * factors[d]) / (t + 10)),
                        16.49 * log((10.0 + (double)t * factors[d]) / (t + 10)));
    for (int s = 0; s < 2; s++)
        for (int d = 0; d < 3; d++) {
            for (int t = 10; t < 3000000; t *= 10)
                fprintf(f,
                        "{\"figure\":\"entropy-range\",\"scheme\":\"%s\",\"D\":%d,\"t\":%d,\"entropy\":%.4f,"
                        "\"error\":0.01}\n",
                        names[s], factors[d], t, log(factors[d]) + (s ? log(t) - 0.5 : 1.3 * sqrt(log(t))));
            fprintf(
                f,
                "{\"figure\":\"fit\",\"scheme\":\"%s\",\"D\":%d,\"x\":\"%s\",\"intercept\":0.5,\"slope\":1,"
                "\"r2\":0.999}\n",
                names[s], factors[d], s ? "log t" : "sqrt(log t)");
        }
    static const char *const context[] = {"plain", "logn", "si"};
    for (int s = 0; s < 3; s++)
        for (int n = 100; n < 200000; n *= 10) {
            fprintf(f,
                    "{\"figure\":\"context\",\"scheme\":\"%s\",\"n\":%d,\"entropy\":%.4f,\"error\":0.02,"
                    "\"last100\":%.4f,\"last100_error\":0.001}\n",
                    context[s], n, (s == 0 ? 1 : 0.5) * log(n),
                    s == 2 ? 1 / (1 + 0.4 * log(n / 100.0)) : 100.0 / n);
            for (int from = 0, to = 10; from < n; from = to, to *= 10)
                fprintf(f,
                        "{\"figure\":\"context-range\",\"scheme\":\"%s\",\"n\":%d,\"from\":%d,\"to\":%d,"
                        "\"entropy\":%.4f,\"error\":0.02}\n",
                        context[s], n, from, to, s == 2 ? 2 + 0.2 * log(to) : log(to));
        }
}

static void write_probe(FILE *f) {
    static const char *const names[] = {"rope", "si+prope"};
    for (int s = 0; s < 2; s++) {
        for (int n = 64; n <= 4096; n *= 2)
            fprintf(
                f,
                "{\"kind\":\"probe-context\",\"scheme\":\"%s\",\"length\":%d,\"entropy\":%.4f,\"last100\":"
                "%.4f}\n",
                names[s], n, (s ? 0.4 : 0.8) * log(n), fmin(1, (s ? 5 : 1) * 64.0 / n));
        for (int layer = 0; layer < 3; layer++)
            for (int head = 0; head < 2; head++) {
                for (int decade = 0; decade < 4; decade++)
                    fprintf(
                        f,
                        "{\"kind\":\"probe-mass\",\"scheme\":\"%s\",\"layer\":%d,\"head\":%d,\"decade\":%d,"
                        "\"mass\":%.4f}\n",
                        names[s], layer, head, decade, 0.25 + 0.2 * wobble(layer * 2 + head, decade, s));
                fprintf(
                    f,
                    "{\"kind\":\"probe-logits\",\"scheme\":\"%s\",\"layer\":%d,\"head\":%d,\"rotary\":true,"
                    "\"mean\":%.3f,\"variance\":%.3f,\"qq\":[",
                    names[s], layer, head, wobble(layer, head, s), 1 + 0.2 * wobble(layer, head, s + 9));
                for (int i = -20; i <= 20; i++)
                    fprintf(f, "%s[%.2f,%.3f]", i > -20 ? "," : "", i / 8.0,
                            i / 8.0 * (1 + 0.1 * head) + 0.02 * i * i / 64.0);
                fprintf(f, "]}\n");
            }
    }
}

static void write_metrics(FILE *f) {
    for (int step = 50; step <= 500; step += 50) {
        fprintf(f,
                "{\"step\":%d,\"loss\":%.4f,\"tokens_per_s\":%.0f,\"rate_matrix\":%.4f,\"gradient_norm\":%."
                "3f}\n",
                step, 3.7 + 3 * exp(-step / 80.0), 15000 + 400 * wobble(step, 0, 0),
                step < 350 ? 0.02 : 0.02 * (500 - step) / 150.0, 0.5 + 0.2 * wobble(step, 1, 1));
        if (step % 250 == 0)
            fprintf(f, "{\"step\":%d,\"validation\":{\"256\":%.3f,\"1024\":%.3f}}\n", step,
                    3.75 + 3 * exp(-step / 80.0), 3.8 + 3 * exp(-step / 80.0));
    }
}

static FILE *open_in(const char *folder, const char *file) {
    char path[512];
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) return NULL;
    return fopen(path, "w");
}

int sample_write(const char *folder, int seeds) {
    char run[512];
    if (snprintf(run, sizeof run, "%s/run", folder) >= (int)sizeof run) return -1;
    (void)mkdir(run, 0777);
    FILE *files[] = {open_in(folder, "compare.jsonl"), open_in(folder, "needle.jsonl"),
                     open_in(folder, "theory.jsonl"),  open_in(folder, "probe.jsonl"),
                     open_in(run, "metrics.jsonl"),    open_in(run, "config.json")};
    int failed = 0;
    for (int i = 0; i < 6; i++) failed = failed || !files[i];
    if (!failed) {
        write_compare(files[0], seeds);
        write_needle(files[1], seeds);
        write_theory(files[2]);
        write_probe(files[3]);
        write_metrics(files[4]);
        fprintf(files[5], "{\"layers\": 3, \"width\": 96, \"scheme\": \"si+prope\"}\n");
    }
    for (int i = 0; i < 6; i++)
        if (files[i] && fclose(files[i])) failed = 1;
    return failed ? -1 : 0;
}
