/* SPDX-License-Identifier: MIT
 *
 * Any bytes as what a study finds when it goes on: two bytes are the length of study.json, which follows; the rest is
 * compare.jsonl to 'sia compare', and to 'sia needle' what follows the first line of needle.jsonl. Where the first is
 * empty, study.json is the program's own; else the rest is all of needle.jsonl. Both commands are called; nothing can be
 * trained, since the names of the trainings are taken by files and the run has no tokenizer. What they tell as finished
 * is of the study and has its numbers; of the lines that stay each has its result; once more ends in the same bytes. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <ftw.h>

#include "base/file.h"
#include "base/json.h"
#include "study/compare_plan.h"
#include "study/needle.h"

enum {
    TRAIN_LEN = 4,
    SEEDS = 2,
    SAMPLES = 3,
    NEEDLES = 2,
    LOG_MOST = 1 << 24,
    SHARD_HEAD = 512,
    SHARD_TOKENS = 40
};

static const char *const schemes[] = {"rope+ntk", "rope", "si+prope"};

static char *in_folder(const char *name, char path[256]) {
    (void)snprintf(path, 256, "%s/%s", fuzz_folder(), name);
    return path;
}

static char *read_text(const char *name, size_t *size) {
    char path[256], *text;
    if (sia_file_read(in_folder(name, path), LOG_MOST, &text, size, NULL)) abort();
    return text;
}

/* A log that was changed is not changed again. */
static void check_again(const char *name, const uint8_t *before, size_t before_size,
                        sia_status (*read)(sia_error *err)) {
    size_t once_size, again_size;
    sia_error err = {0};
    char *once = read_text(name, &once_size);
    if (once_size != before_size || memcmp(once, before, once_size) != 0) {
        if (read(&err)) fuzz_sentence(&err);
        char *again = read_text(name, &again_size);
        if (once_size != again_size || memcmp(once, again, once_size) != 0) abort();
        free(again);
    }
    free(once);
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *place) {
    (void)about, (void)type, (void)place;
    return remove(path);
}

static void remove_all(void) { (void)nftw(fuzz_folder_path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

static sia_settings small_settings(void) {
    sia_settings s;
    if (sia_settings_preset(&s, "tiny", NULL)) abort();
    s.model.layers = 1;
    s.model.width = 16;
    s.model.heads = 1;
    s.model.train_len = TRAIN_LEN;
    s.training.steps = 2;
    s.training.batch = 2;
    s.training.eval_windows = 1;
    memset(s.training.multiples, 0, sizeof s.training.multiples);
    s.training.multiples[0] = 1;
    s.training.multiples[1] = 2;
    return s;
}

/* ------------------------------------------------------------------------------------------------ compare */

enum { SCHEMES = sizeof schemes / sizeof *schemes, LENGTHS = 2 };

static bool opened;
static struct told {
    bool told;
    double losses[LENGTHS];
} results[SCHEMES][SEEDS];

static int look(void *context, const sia_compare_event *e) {
    (void)context;
    const sia_compare_result *r = e->result;
    if (e->running) abort();
    if (e->data) opened = true;
    if (!r) return 0;
    size_t scheme = 0;
    while (scheme < SCHEMES && strcmp(r->scheme, schemes[scheme]) != 0) scheme++;
    if (scheme == SCHEMES || *r->variant || r->seed >= SEEDS) abort();
    if (r->train_len != TRAIN_LEN) abort();
    if (r->diverged) return 0;
    if (r->parameters < 1) abort();
    results[scheme][r->seed] = (struct told){true, {r->losses[0], r->losses[1]}};
    return 0;
}

static int stop(void *context, const sia_compare_event *e) {
    (void)context, (void)e;
    return 1;
}

static sia_status compare(char *text, sia_compare_hook *hook, sia_error *err) {
    char folder[256];
    sia_settings settings = small_settings();
    sia_data_source source = {.paths = &text, .count = text ? 1 : 0, .val = text, .threads = 1};
    sia_compare_job job = {.folder = in_folder("compare", folder),
                           .settings = &settings,
                           .schemes = schemes,
                           .scheme_count = SCHEMES,
                           .seeds = SEEDS,
                           .source = &source,
                           .threads = 1,
                           .hook = hook};
    return sia_compare(&job, err);
}

static const char *text_of(const json_t *line, const char *key) {
    const char *text = json_string_value(json_object_get(line, key));
    return text ? text : "";
}

/* Whether one of the results is of this line; a curve has the scheme that was trained. */
static bool has_result(const json_t *lines, const json_t *line, bool curve) {
    size_t i;
    json_t *other;
    json_array_foreach(lines, i, other) {
        char trained[SIA_SCHEME_NAME];
        const char *scheme = text_of(other, "scheme");
        if (strcmp(text_of(other, "kind"), "result") != 0) continue;
        if (curve && !sia_trained_scheme(scheme, trained, NULL)) scheme = trained;
        if (!strcmp(text_of(line, "scheme"), scheme) &&
            !strcmp(text_of(line, "variant"), text_of(other, "variant")) &&
            json_integer_value(json_object_get(line, "seed")) ==
                json_integer_value(json_object_get(other, "seed")))
            return true;
    }
    return false;
}

/* What was told stands there. */
static bool is_told(const json_t *lines, const char *scheme, json_int_t seed, const struct told *t) {
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line) {
        const json_t *loss = json_object_get(line, "loss");
        const json_t *first = json_object_get(loss, "4"), *second = json_object_get(loss, "8");
        const json_t *found = json_object_get(line, "seed");
        if (!strcmp(text_of(line, "kind"), "result") && !strcmp(text_of(line, "scheme"), scheme) &&
            json_is_integer(found) && json_integer_value(found) == seed && json_is_number(first) &&
            json_is_number(second) && json_number_value(first) == t->losses[0] &&
            json_number_value(second) == t->losses[1] && t->losses[0] >= 0 && t->losses[1] >= 0)
            return true;
    }
    return false;
}

static void check_compare(void) {
    sia_json_log log;
    char folder[256];
    json_t *lines = json_array(), *commands = json_object(), *line;
    size_t i;
    sia_status status =
        sia_json_log_open(&log, in_folder("compare", folder), "compare.jsonl", LOG_MOST, NULL);
    while (!status && sia_json_log_next(&log, &line, &status, NULL))
        if (line && json_array_append_new(lines, line)) abort();
    if (status) abort();
    sia_json_log_close(&log);
    json_array_foreach(lines, i, line) {
        const char *kind = text_of(line, "kind");
        const char *command = text_of(line, "command");
        if (!strcmp(kind, "study") && json_object_get(commands, command)) abort(); /* each once */
        if (!strcmp(kind, "study") && json_object_set_new(commands, command, json_true())) abort();
        bool curve = !strcmp(kind, "curve") || !strcmp(kind, "validation");
        if ((curve || !strcmp(kind, "position")) && !has_result(lines, line, curve)) abort();
    }
    json_decref(commands);
    for (size_t scheme = 0; scheme < SCHEMES; scheme++)
        for (int seed = 0; seed < SEEDS; seed++) {
            const struct told *t = &results[scheme][seed];
            if (t->told && !is_told(lines, schemes[scheme], seed, t)) abort();
        }
    json_decref(lines);
}

static sia_status compare_again(sia_error *err) { return compare(NULL, look, err); }

static void try_compare(const uint8_t *lines, size_t size) {
    sia_error err = {0};
    opened = false;
    memset(results, 0, sizeof results);
    fuzz_file("compare/compare.jsonl", lines, size);
    if (compare_again(&err)) fuzz_sentence(&err);
    if (!opened) return;
    check_compare();
    check_again("compare/compare.jsonl", lines, size, compare_again);
}

/* ------------------------------------------------------------------------------------------------ needle */

static int look_at_needle(void *context, const sia_needle_event *e) {
    (void)context;
    const sia_retrieval_result *r = e->result;
    if (e->kind == SIA_NEEDLE_TRAINING || e->kind == SIA_NEEDLE_READING) abort();
    if (e->kind != SIA_NEEDLE_MEASURED || e->diverged) return 0;
    if (!e->found || r->count != SAMPLES * NEEDLES || r->right < 0 || r->right > r->count) abort();
    int64_t count = 0, right = 0;
    for (int i = 0; i < SIA_DEPTHS; i++) {
        if (r->depth_right[i] < 0 || r->depth_right[i] > r->depth_count[i]) abort();
        count += r->depth_count[i];
        right += r->depth_right[i];
    }
    if (count != r->count || right != r->right) abort();
    return 0;
}

static sia_needle_settings needle_settings(void) {
    sia_needle_settings s = sia_needle_usual;
    s.warmup = 0;
    s.samples = SAMPLES;
    s.needles = NEEDLES;
    s.multiples[1] = 2;
    s.multiples[2] = 0;
    return s;
}

static sia_status needle(sia_error *err) {
    char folder[256], run[256];
    sia_needle_settings settings = needle_settings();
    sia_needle_source runs[] = {{in_folder("run", run), NULL}};
    sia_needle_job job = {.folder = in_folder("needle", folder),
                          .runs = runs,
                          .count = 1,
                          .settings = &settings,
                          .threads = 1,
                          .resume = true,
                          .hook = look_at_needle};
    return sia_needle_run(&job, err);
}

static void try_needle(const uint8_t *lines, size_t size) {
    sia_error err = {0};
    fuzz_file("needle/needle.jsonl", lines, size);
    if (needle(&err)) fuzz_sentence(&err);
    check_again("needle/needle.jsonl", lines, size, needle);
}

/* ------------------------------------------------------------------------------------------------ the whole */

static char *own_study, *own_line; /* study.json, the first line of needle.jsonl */
static size_t own_study_size;

/* The target's own work failed. */
static void give_up(const sia_error *err) {
    (void)fprintf(stderr, "%s\n", err->text);
    abort();
}

static void make_run(void) {
    char path[256];
    sia_settings settings = small_settings();
    (void)snprintf(settings.model.scheme, sizeof settings.model.scheme, "si+prope");
    sia_error err;
    if (sia_settings_complete(&settings, &err)) give_up(&err);
    json_t *json = sia_settings_json(&settings);
    sia_json_set(&json, "data", json_pack("{s:s, s:s}", "kind", "packed", "path", "data"));
    char *text = json_dumps(json, JSON_REAL_PRECISION(17));
    if (!text || mkdir(in_folder("run", path), 0777) != 0) abort();
    fuzz_file("run/config.json", (const uint8_t *)text, strlen(text));
    free(text);
    json_decref(json);
}

/* Its study line, with the run in it, as a study that has begun has it. */
static void make_needle(void) {
    char path[256];
    sia_error err;
    sia_needle_settings settings = needle_settings();
    json_t *config = json_object();
    sia_fields_write(&settings, sia_needle_fields, &config);
    sia_json_set(&config, "multiples", json_pack("[i, i]", 1, 2));
    json_t *line = json_pack("{s:s, s:o, s:{s:s}}", "kind", "study", "config", config, "runs", "run",
                             in_folder("run", path));
    own_line = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(line);
    if (!own_line || mkdir(in_folder("needle", path), 0777) != 0) abort();
    fuzz_file("needle/lock", (const uint8_t *)"sia 1", 5);
    fuzz_file("needle/needle.jsonl", (const uint8_t *)own_line, strlen(own_line));
    if (needle(&err) != SIA_FILE) give_up(&err); /* it goes on, and finds no tokenizer.json */
}

/* On a shard, which needs no tokenizer: opening it takes no time. */
static void make_study(void) {
    uint16_t shard[SHARD_HEAD + SHARD_TOKENS] = {20240520 & 0xffff, 20240520 >> 16, 1, 0, SHARD_TOKENS};
    char text[256], name[64];
    sia_error err;
    (void)fuzz_folder();
    (void)atexit(remove_all);
    for (int i = 0; i < SHARD_TOKENS; i++) shard[SHARD_HEAD + i] = i ? (uint16_t)i : 50256;
    if (mkdir(in_folder("compare", text), 0777) != 0) abort();
    fuzz_file("compare/lock", (const uint8_t *)"sia 1", 5); /* it is a folder of ours */
    fuzz_file("compare/text.bin", (const uint8_t *)shard, sizeof shard);
    if (compare(in_folder("compare/text.bin", text), stop, &err) != SIA_STOPPED) give_up(&err);
    for (int seed = 0; seed < SEEDS; seed++)
        for (size_t i = 1; i < SCHEMES; i++) {
            (void)snprintf(name, sizeof name, "compare/runs/%s-seed%d", schemes[i], seed);
            fuzz_file(name, (const uint8_t *)"", 0);
        }
    own_study = read_text("compare/study.json", &own_study_size);
    make_run();
    make_needle();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *lines;
    size_t lines_size;
    if (!own_study) make_study();
    fuzz_split(&data, &size, &lines, &lines_size);
    bool own = size == 0;
    fuzz_file("compare/study.json", own ? (const uint8_t *)own_study : data, own ? own_study_size : size);
    size_t head = own ? strlen(own_line) + 1 : 0;
    uint8_t *all = malloc(head + lines_size + 1);
    if (!all) abort();
    if (own) (void)snprintf((char *)all, head + 1, "%s\n", own_line);
    memcpy(all + head, lines, lines_size);
    try_compare(lines, lines_size);
    try_needle(all, head + lines_size);
    free(all);
    return 0;
}
