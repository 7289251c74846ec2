/* SPDX-License-Identifier: MIT
 *
 * sia compare: which trainings a list of schemes needs, that a study which was stopped ends in the same results
 * as one that was not, that threads do not matter, its figures against those of its runs, and what is refused. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "commands.h"
#include "study/compare_plan.h"

/* Seconds for a whole study. */
#define SMALL                                                                                              \
    " --layers 1 --width 16 --heads 2 --vocabulary 300 --train-len 16 --batch 4 --steps 12 --save-every 3" \
    " --eval-windows 4 --schemes rope,rope+ntk,rope+yarn,si+prope,logn+prope"

static void trained_schemes(void **state) {
    (void)state;
    const struct {
        const char *scheme, *trained;
    } cases[] = {{"rope", "rope"},          {"rope+ntk", "rope"},          {"yarn", "rope"},
                 {"logn+ntk", "logn+rope"}, {"si+prope", "si+prope"},      {"alibi", "alibi"},
                 {"nope", "nope"},          {"sharp+prope", "sharp+prope"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[SIA_SCHEME_NAME];
        assert_int_equal(sia_trained_scheme(cases[i].scheme, name, NULL), SIA_OK);
        assert_string_equal(name, cases[i].trained);
    }
    assert_int_equal(sia_trained_scheme("si+alibi", (char[SIA_SCHEME_NAME]){0}, NULL), SIA_SCHEME);
}

/* What the command line refuses before, a caller of the library may ask for. */
static void plans(void **state) {
    (void)state;
    static const char *const all[] = {"rope", "rope+ntk",  "ntk",     "rope+yarn",
                                      "yarn", "logn+rope", "logn+ntk"};
    static const struct {
        int64_t seeds;
        const char *sweep;
        int64_t parts;
        const char *sentence;
    } cases[] = {
        {2, NULL, 4, ""},
        {2, "matrix_rate", 8, ""},
        {0, NULL, 0, "seeds 0: want 1 to 100"},
        {-1, NULL, 0, "seeds -1: want 1 to 100"},
        {101, NULL, 0, "seeds 101: want 1 to 100"},
        {1, "order", 0,
         "sweep 'order': want the name of a number among the settings, such as tau, train_len, matrix_rate"},
    };
    sia_settings settings;
    assert_int_equal(sia_settings_preset(&settings, "tiny", NULL), SIA_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_plan plan;
        sia_error err = {0};
        sia_compare_job job = {.settings = &settings,
                               .schemes = all,
                               .scheme_count = sizeof all / sizeof *all,
                               .seeds = cases[i].seeds,
                               .sweep = cases[i].sweep,
                               .sweep_values = {1, 2},
                               .sweep_count = 2};
        bool good = !*cases[i].sentence;
        assert_int_equal(sia_plan_make(&plan, &job, &err), good ? SIA_OK : SIA_ARGUMENT);
        assert_string_equal(err.text, cases[i].sentence);
        if (good) assert_int_equal(plan.count, cases[i].parts);
        for (int64_t p = 0; good && p < plan.count; p++) /* a training of rope, and one of logn+rope */
            assert_int_equal(plan.parts[p].scheme_count, p % 2 ? 2 : 3);
        sia_free(plan.parts);
    }
}

/* The results of a study: {"scheme|seed": {"16": loss, ...}}, and how many lines there were. */
static json_t *results_of(const char *folder, int *lines) {
    char path[256], line[65536];
    (void)snprintf(path, sizeof path, "%s/%s/compare.jsonl", command_folder, folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    json_t *results = json_object();
    *lines = 0;
    while (fgets(line, sizeof line, file)) {
        json_t *json = json_loads(line, 0, NULL);
        assert_non_null(json);
        const char *kind = json_string_value(json_object_get(json, "kind"));
        if (!strcmp(kind, "result")) {
            char key[64];
            (void)snprintf(key, sizeof key, "%s|%lld", json_string_value(json_object_get(json, "scheme")),
                           (long long)json_integer_value(json_object_get(json, "seed")));
            assert_null(json_object_get(results, key)); /* nothing twice */
            (void)json_object_set(results, key, json_object_get(json, "loss"));
            ++*lines;
        }
        json_decref(json);
    }
    (void)fclose(file);
    return results;
}

static int run_quietly(const char *command) {
    char output[65536];
    int code = run_command(command, output, sizeof output);
    if (code != 0 && code != 130 && code != 137) print_error("%s\n", output);
    return code;
}

static void whole_study(void **state) {
    (void)state;
    assert_int_equal(run_quietly("$SIA compare --out one --threads 1 --quiet" SMALL), 0);
    assert_int_equal(run_quietly("test -s one/report.html && test $(ls one/runs | wc -l) = 3"), 0);
    int lines;
    json_t *one = results_of("one", &lines);
    assert_int_equal(lines, 5);
    const json_t *rope = json_object_get(one, "rope|0"), *ntk = json_object_get(one, "rope+ntk|0");
    /* At the training length NTK is rope; beyond it, it is not. */
    assert_true(json_equal(json_object_get(rope, "16"), json_object_get(ntk, "16")));
    assert_false(json_equal(json_object_get(rope, "256"), json_object_get(ntk, "256")));

    /* Two at a time, and with kills on the way: the same figures. */
    assert_int_equal(run_quietly("$SIA compare --out two --threads 2 --quiet" SMALL), 0);
    json_t *two = results_of("two", &lines);
    assert_true(json_equal(one, two));
    for (int i = 1; i <= 5; i++) {
        char command[512];
        (void)snprintf(command, sizeof command,
                       "timeout -s %s 0.%d $SIA compare --out killed --threads 2 --quiet" SMALL,
                       i % 2 ? "KILL" : "INT", i + 1);
        (void)run_quietly(command);
    }
    assert_int_equal(run_quietly("$SIA compare --out killed --threads 2 --quiet" SMALL), 0);
    json_t *killed = results_of("killed", &lines);
    assert_true(json_equal(one, killed));

    /* More seeds are added to what is there. */
    assert_int_equal(run_quietly("$SIA compare --out one --seeds 2 --quiet" SMALL), 0);
    json_t *more = results_of("one", &lines);
    assert_int_equal(lines, 10);
    assert_true(json_equal(json_object_get(more, "rope|0"), rope));
    assert_false(json_equal(json_object_get(more, "rope|1"), rope));
    json_decref(one);
    json_decref(two);
    json_decref(killed);
    json_decref(more);
}

/* ------------------------------------------------------------------------------------------------ lines */

#define FEW                                                                                              \
    "--layers 1 --width 16 --heads 2 --vocabulary 300 --train-len 16 --batch 2 --steps 3 --log-every 1 " \
    "--eval-every 3 --eval-windows 2 --lengths 1x,2x --threads 1 --quiet "

static char *path_of(const char *name) {
    static char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", command_folder, name);
    return path;
}

/* A log as an array, without what a clock said. */
static json_t *lines_of(const char *name) {
    json_t *lines = json_array(), *line;
    FILE *file = fopen(path_of(name), "r");
    assert_non_null(file);
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL))) {
        (void)json_object_del(line, "train_seconds");
        (void)json_object_del(line, "date");
        (void)json_array_append_new(lines, line);
    }
    (void)fclose(file);
    return lines;
}

static size_t count_kind(const json_t *lines, const char *kind) {
    size_t i, count = 0;
    json_t *line;
    json_array_foreach(lines, i, line) count +=
        !strcmp(json_string_value(json_object_get(line, "kind")), kind);
    return count;
}

static double number_of(const json_t *line, const char *key) {
    const json_t *number = json_object_get(line, key);
    assert_true(json_is_number(number));
    return json_number_value(number);
}

/* Numbers of a study have seven digits, those of its table six. */
static void close_to(const char *what, double found, double wanted) {
    if (!(fabs(found - wanted) <= 1e-5 * fabs(wanted))) fail_msg("%s: %.8g, want %.8g", what, found, wanted);
}

static const json_t *line_of(const json_t *lines, const char *kind, const char *scheme, int seed) {
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line) {
        const char *name = json_string_value(json_object_get(line, "scheme"));
        if (!strcmp(json_string_value(json_object_get(line, "kind")), kind) && name &&
            !strcmp(name, scheme) && json_integer_value(json_object_get(line, "seed")) == seed)
            return line;
    }
    fail_msg("no %s of %s, seed %d", kind, scheme, seed);
    return NULL;
}

/* Bins of 8, 8, 16 positions: their losses, by their sizes, make the loss of the whole length. */
static void check_bins(const json_t *position, double loss) {
    static const int bounds[] = {0, 8, 16, 32};
    const json_t *bins = json_object_get(position, "bins");
    double sum = 0;
    assert_int_equal(number_of(position, "length"), 32);
    assert_int_equal(json_array_size(bins), 3);
    for (int i = 0; i < 3; i++) {
        const json_t *bin = json_array_get(bins, (size_t)i);
        assert_int_equal(number_of(bin, "from"), bounds[i]);
        assert_int_equal(number_of(bin, "to"), bounds[i + 1]);
        sum += number_of(bin, "loss") * (bounds[i + 1] - bounds[i]) / 32;
    }
    close_to("mean of the bins", sum, loss);
}

/* The curve is the run's own, smoothed: of each new loss a fifth, and more in a log of less than 50 lines. */
static void check_curve(const json_t *lines, const json_t *metrics, int seed, size_t steps, double share) {
    double smooth = 0;
    size_t i, at = 0;
    json_t *line;
    json_array_foreach(lines, i, line) {
        if (strcmp(json_string_value(json_object_get(line, "kind")), "curve") != 0) continue;
        if (number_of(line, "seed") != seed) continue;
        const json_t *metric = json_array_get(metrics, at);
        smooth = at++ ? smooth + (number_of(metric, "loss") - smooth) * share : number_of(metric, "loss");
        assert_int_equal(number_of(line, "step"), number_of(metric, "step"));
        close_to("smoothed loss", number_of(line, "loss"), smooth);
    }
    assert_int_equal(at, steps);
}

static void smoothing(void **state) {
    (void)state;
    static const struct {
        size_t steps;
        double share;
    } cases[] = {{10, 1}, {20, 0.5}, {49, 10.0 / 49}}; /* from 50 on not each of them has a line of a curve */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[400];
        (void)snprintf(
            command, sizeof command,
            "rm -rf smooth; $SIA compare --out smooth --quiet --schemes rope --layers 1 --width 16 "
            "--heads 2 --vocabulary 300 --train-len 16 --batch 2 --log-every 1 --lengths 1x "
            "--eval-windows 2 --steps %zu",
            cases[i].steps);
        assert_int_equal(run_quietly(command), 0);
        json_t *lines = lines_of("smooth/compare.jsonl"),
               *metrics = lines_of("smooth/runs/rope-seed0/metrics.jsonl");
        check_curve(lines, metrics, 0, cases[i].steps, cases[i].share);
        json_decref(lines);
        json_decref(metrics);
    }
}

/* What a study writes, from what its runs wrote; means and standard errors of two seeds. */
static void figures(void **state) {
    (void)state;
    static const char *const lengths[] = {"16", "32"}, *const schemes[] = {"rope", "rope+ntk"};
    double loss[2][2][2]; /* scheme, length, seed */
    assert_int_equal(run_quietly("$SIA compare --out figures --seeds 2 --schemes rope,rope+ntk " FEW), 0);
    json_t *lines = lines_of("figures/compare.jsonl");
    for (int seed = 0; seed < 2; seed++) {
        json_t *metrics = lines_of(seed ? "figures/runs/rope-seed1/metrics.jsonl"
                                        : "figures/runs/rope-seed0/metrics.jsonl");
        check_curve(lines, metrics, seed, 3, 1);
        const json_t *validation = json_object_get(json_array_get(metrics, 3), "validation");
        for (int s = 0; s < 2; s++) {
            const json_t *result = line_of(lines, "result", schemes[s], seed);
            assert_int_equal(number_of(result, "tokens"), 3 * 2 * 16);
            /* Embedding and unembedding; q, k, v, o; the MLP. */
            assert_int_equal(number_of(result, "params"), 2 * 300 * 16 + 4 * 16 * 16 + 2 * 16 * 64);
            for (int i = 0; i < 2; i++)
                loss[s][i][seed] = number_of(json_object_get(result, "loss"), lengths[i]);
            check_bins(line_of(lines, "position", schemes[s], seed), loss[s][1][seed]);
        }
        for (int i = 0; i < 2; i++)
            close_to("validation", loss[0][i][seed], number_of(validation, lengths[i]));
        json_decref(metrics);
    }
    json_decref(lines);
    assert_int_equal(run_quietly("$SIA compare --out figures --json --seeds 2 --schemes rope,rope+ntk " FEW
                                 ">figures/table"),
                     0);
    json_t *table = lines_of("figures/table");
    assert_int_equal(json_array_size(table), 2);
    for (size_t s = 0; s < 2; s++)
        for (int i = 0; i < 2; i++) {
            const json_t *row = json_array_get(table, s), *of = json_object_get(row, "loss");
            const double *x = loss[s][i], half = fabs(x[0] - x[1]) / 2;
            of = json_object_get(of, i ? "2x" : "1x");
            assert_string_equal(json_string_value(json_object_get(row, "scheme")), schemes[s]);
            close_to("mean", number_of(of, "mean"), (x[0] + x[1]) / 2);
            assert_true(half > 1e-4 && fabs(number_of(of, "error") - half) < 1e-3 * half);
        }
    json_decref(table);
}

/* A process may be killed at any byte of the log: the same command ends in the same lines, each once. */
static void goes_on_from_every_line(void **state) {
    (void)state;
    static const char command[] = "$SIA compare --out cut --schemes rope+ntk,rope,si+prope " FEW;
    assert_int_equal(run_quietly(command), 0);
    json_t *wanted = lines_of("cut/compare.jsonl");
    assert_int_equal(count_kind(wanted, "study"), 1);
    assert_int_equal(count_kind(wanted, "curve"), 2 * 3); /* rope and si+prope are trained */
    assert_int_equal(count_kind(wanted, "validation"), 2 * 2);
    assert_int_equal(count_kind(wanted, "position"), 3);
    assert_int_equal(count_kind(wanted, "result"), 3);
    static char whole[65536];
    FILE *file = fopen(path_of("cut/compare.jsonl"), "r");
    size_t bytes = fread(whole, 1, sizeof whole, file);
    (void)fclose(file);
    assert_true(bytes > 0 && bytes < sizeof whole);
    for (size_t at = 0, lines = 0; at < bytes; at++) {
        if (whole[at] != '\n') continue;
        size_t kept = lines++ % 3 ? at + 1 : at - 5; /* some are cut within a line */
        assert_non_null(file = fopen(path_of("cut/compare.jsonl"), "w"));
        assert_int_equal(fwrite(whole, 1, kept, file), kept);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(run_quietly(command), 0);
        json_t *found = lines_of("cut/compare.jsonl");
        if (!json_equal(found, wanted))
            print_error("cut at byte %zu: %zu lines, want %zu\n", kept, json_array_size(found),
                        json_array_size(wanted));
        assert_true(json_equal(found, wanted));
        json_decref(found);
    }
    json_decref(wanted);
}

/* A scheme that shares a training with one from before does not bring its curve again. */
static void shared_curve(void **state) {
    (void)state;
    assert_int_equal(run_quietly("$SIA compare --out shared --schemes rope+ntk " FEW), 0);
    assert_int_equal(run_quietly("$SIA compare --out shared --schemes rope,rope+ntk " FEW), 0);
    assert_int_equal(run_quietly("$SIA compare --out shared --schemes rope " FEW), 0); /* adds nothing */
    json_t *lines = lines_of("shared/compare.jsonl");
    assert_int_equal(count_kind(lines, "study"), 2); /* a line for each command that added something */
    assert_int_equal(count_kind(lines, "curve"), 3);
    assert_int_equal(count_kind(lines, "result"), 2);
    json_decref(lines);
}

/* Results that are not whole would be shown as losses of 0. */
static void wrong_results(void **state) {
    (void)state;
    const command_case cases[] = {
        {"cp -r shared wrong && sed -i 's/\"32\":[0-9.]*//; s/,}/}/' wrong/compare.jsonl && "
         "$SIA compare --out wrong --schemes rope " FEW,
         1, "the result of rope, seed 0, is not whole: without this line it is made again"},
        {"grep -v '\"scheme\":\"rope\",.*loss.*train_seconds' wrong/compare.jsonl >w && mv w "
         "wrong/compare.jsonl && "
         "$SIA compare --out wrong --schemes rope " FEW,
         0, "rope"},
        /* Nobody knows how long a training took that was there already. */
        {"grep -o '\"kind\":\"result\",\"scheme\":\"rope\",.*\"train_seconds\":[0-9.]*,' wrong/compare.jsonl",
         0, "\"train_seconds\":0.0,"},
        {"sed -i 's/\"params\":/\"param\":/' wrong/compare.jsonl && $SIA compare --out wrong --schemes "
         "rope " FEW,
         1, "is not whole"},
        {"echo '{\"kind\":\"result\",\"scheme\":\"rope\"}' >wrong/compare.jsonl && "
         "$SIA compare --out wrong --schemes rope " FEW,
         1, "wrong/compare.jsonl: line 1: is a result without a scheme or a seed"},
    };
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

/* What makes the study again is all that made it. */
static void all_commands(void **state) {
    (void)state;
    const command_case cases[] = {
        {"grep -c 'The commands, in turn:' shared/report.html", 0, "1\n"},
        {"sed 's/<[^>]*>//g' shared/report.html | grep -o 'sia compare --out shared --schemes [^ ]*'", 0,
         "--schemes rope+ntk\nsia compare --out shared --schemes rope,rope+ntk\n"},
    };
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

/* A study from someone else does not make us write, or remove, elsewhere. */
static void links(void **state) {
    (void)state;
    const command_case cases[] = {
        {"$SIA compare --out theirs --schemes rope " FEW "&& rm -r theirs/runs/rope-seed0 && : "
         ">theirs/compare.jsonl && "
         "mkdir -p victim/keep.tmp-ghijklmnopqr && ln -s ../../victim theirs/runs/rope-seed0 && "
         "$SIA compare --out theirs --schemes rope " FEW,
         1, "theirs/runs/rope-seed0: is a link: want a file of the folder itself, or none"},
        {"ls victim", 0, "keep.tmp-ghijklmnopqr\n"},
        {"rm -r theirs/runs && ln -s ../victim theirs/runs && $SIA compare --out theirs --schemes rope " FEW,
         1, "theirs/runs: is a link"},
        {"ls victim | wc -l", 0, "1\n"},
        /* What a person names may be a link. */
        {"rm theirs/runs && ln -s theirs named && $SIA compare --out named --schemes rope " FEW, 0, "rope"},
    };
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

/* Two trainings, the second of which diverges; rope+ntk reads the weights of rope. */
#define DIVERGING                                                                                  \
    "--schemes rope,rope+ntk --sweep unembedding-rate=0.001,1000 --layers 1 --width 16 --heads 2 " \
    "--vocabulary 300 --train-len 16 --batch 2 --steps 9 --eval-windows 1 --lengths 1x"

/* The settings of the sweep in folder t. */
#define OF_T                                                                               \
    "--layers 1 --width 16 --heads 2 --vocabulary 300 --train-len 16 --batch 1 --steps 1 " \
    "--eval-windows 5 --lengths 1x,4x"

static void command_lines(void **state) {
    (void)state;
    const command_case cases[] = {
        {"$SIA compare", 2, "want --out FOLDER"},
        {"$SIA compare --out x --schemes rope,rope", 2, "there twice"},
        {"$SIA compare --out x --schemes si+alibi", 2, "alibi"},
        {"$SIA compare --out x --sweep tau", 2, "NAME=VALUE"},
        {"$SIA compare --out x --sweep tau=1,b", 2, "numbers with commas"},
        {"$SIA compare --out x --sweep colour=1 --schemes rope", 2, "'colour': want the name of a number"},
        {"$SIA compare --out x --sweep tau=1,2 --schemes rope,alibi", 2,
         "sia: sweep 'tau': none of the schemes uses it\n"},
        {"$SIA compare --out x --sweep scalar-rate=1,2 --schemes rope,alibi", 2,
         "sia: sweep 'scalar_rate': none of the schemes uses it\n"},
        {"$SIA compare --out x --sweep log-every=1,2", 2,
         "sia: sweep 'log_every': it makes no difference to what is learnt\n"},
        {"$SIA compare --out x --sweep eval-windows=1,4", 2,
         "sia: sweep 'eval_windows': all variants are judged by the same tokens\n"},
        {"$SIA compare --out x --sweep tau=-1 --schemes si", 2, "sweep tau=-1: want"},
        {"$SIA compare --out x --sweep layers=2.5 --schemes rope", 2, "sweep layers=2.5: want whole numbers"},
        {"$SIA compare --out x --sweep vocabulary=300,400 --schemes rope", 2,
         "all variants read the same tokens"},
        {"$SIA compare --out x --sweep tau=1,1.0000001 --schemes si", 2, "sweep tau: 1 is there twice"},
        {"$SIA compare --out x --lengths 4", 2, "like 1x,4x,16x"},
        {"$SIA compare --out x --lengths 1x,3x,4x", 2, "length 3x: want a divisor of the longest, 4x"},
        /* What evaluation needs is looked for before the first training. */
        {"printf '%s\\n' a b c d e f g h i j k l m n o p q r s t u v w x y z >short.txt; "
         "$SIA compare --out y short.txt --val short.txt --schemes rope --train-len 4 --tokenizer "
         "one/tokenizer.json",
         2, "no document of 65 tokens"},
        {"ls y/runs | wc -l", 0, "0"},
        {"$SIA compare --out one --quiet short.txt" SMALL, 2,
         "short.txt: the run was begun with other files"},
        {"$SIA compare --out \"it's\" --quiet --schemes rope --layers 1 --width 16 --heads 2 --vocabulary "
         "300 "
         "--train-len 16 --batch 2 --steps 2 --eval-windows 2 && grep -o \"out 'it.*'s'\" "
         "\"it's/compare.jsonl\"",
         0, "out 'it'\\\\''s'"},
        {"$SIA compare --out x none.txt", 1, "none.txt"},
        {"$SIA data generate --words 4000 --out t.txt && $SIA data pack --tokenizer one/tokenizer.json --out "
         "packed t.txt && mkdir shards && cp packed/*.bin shards && "
         "$SIA compare --out bare --quiet --vocabulary 300 'shards/train_*.bin' --steps 1",
         2, "vocabulary 300: the tokenizer has 50257 tokens"},
        {"rm -rf bare; $SIA compare --out bare --quiet 'shards/train_*.bin' --steps 1", 2,
         "there is no text to validate on: name some with --val"},
        /* A text with fewer windows than are wanted is said to have them, to the reader of the report too. */
        {"$SIA compare --out few t.txt --val-fraction 0.5 --join --schemes rope --layers 1 --width 16 "
         "--heads 2 "
         "--vocabulary 300 --train-len 64 --batch 2 --steps 1 --eval-windows 1000 2>&1 && grep -o "
         "'windows of validation</th><td>[0-9]*' few/report.html",
         0, " windows of 1024 tokens: the text has no more, 1000 are wanted\n"},
        {"$SIA compare --out one --steps 9", 2,
         "one: holds a study with layers 1, not 3: name another folder"},
        {"$SIA compare --out s --quiet --json --schemes si+prope --sweep tau=1,10 --layers 1 --width 16 "
         "--heads 2 "
         "--vocabulary 300 --train-len 16 --batch 2 --steps 2 --eval-windows 2",
         0, "\"variant\": \"tau=10\""},
        /* Rows by the schemes as they were asked for, then by the size of values. */
        {"$SIA compare --out z --quiet --json --schemes si+prope,si+nope --sweep tau=10,2 --layers 1 --width "
         "16 "
         "--heads 2 --vocabulary 300 --train-len 16 --batch 2 --steps 2 --eval-windows 2 | cut -d, -f1,2",
         0,
         "{\"scheme\": \"si+prope\", \"variant\": \"tau=2\"\n{\"scheme\": \"si+prope\", \"variant\": "
         "\"tau=10\"\n"
         "{\"scheme\": \"si+nope\", \"variant\": \"tau=2\"\n{\"scheme\": \"si+nope\", \"variant\": "
         "\"tau=10\"\n"},
        /* The text has windows for the longest of the lengths: in two documents, where one would do for 16 tokens. */
        {"$SIA compare --out t --quiet --json --schemes rope --sweep train-len=16,1024 " OF_T, 0,
         "\"variant\": \"train_len=1024\""},
        {"grep -o '\"val_documents\": .' t/study.json; grep -c "
         "'\"train_len\":1024,\"loss\":{\"1024\":[0-9.]*,"
         "\"4096\":' t/compare.jsonl",
         0, "\"val_documents\": 2\n1\n"},
        /* And for the most steps: all variants read less of it than once. */
        {"$SIA compare --out u --quiet --json --schemes rope --sweep steps=1,400 --layers 1 --width 16 "
         "--heads 2 "
         "--vocabulary 300 --train-len 16 --batch 2 --steps 1 --warmup 0 --eval-windows 1 --lengths 1x",
         0, "\"error\": null"}, /* one seed has none */
        /* A training that diverges has that for its result; the others go on, and it is not trained again. */
        {"$SIA compare --out v " DIVERGING " 2>&1 >table", 0,
         "unembedding_rate=1000 seed 0   diverged: step "},
        /* Told as it happens or read from the log later: no loss of 0, which would be the lowest. */
        {"grep -c 'unembedding_rate=1000     diverged' table", 0, "2\n"},
        {"rm -r v/runs; $SIA compare --quiet --out v " DIVERGING, 0, "unembedding_rate=1000     diverged"},
        {"$SIA compare --quiet --out v " DIVERGING " | grep -c 'rate=0.001 .*[*]$'", 0,
         "2\n"}, /* the lowest */
        {"$SIA compare --json --quiet --out v " DIVERGING, 0, "\"mean\": null, \"error\": null"},
        {"grep -c 'there is no mean: rope, unembedding_rate=1000, seed 0; rope+ntk, ' v/report.html; grep -c "
         "'\"loss\":{\"16\":null}' v/compare.jsonl",
         0, "1\n2\n"},
        {"tail -n 1 u/runs/rope-steps=400-seed0/metrics.jsonl | grep -c '\"epoch\":0\\.[0-9]'", 0, "1\n"},
        {"$SIA compare --out w --quiet --schemes rope --sweep train-len=16,24,32 --layers 1 --width 16 "
         "--heads 2 "
         "--vocabulary 300 --batch 1 --steps 1 --lengths 1x,4x",
         2,
         "train_len=24: its longest length, 96, does not divide that of the sweep, 128; all are judged by "
         "the "
         "same tokens, so each must"},
        /* Larger values later would have other windows, or text that was made for fewer steps; a seed more has not. */
        {"$SIA compare --out t --quiet --schemes rope --sweep train-len=16,2048 " OF_T, 2,
         "t: holds a sweep of train_len up to 1024: want that value among those here, and none above it; or "
         "name another folder"},
        {"$SIA compare --out u --quiet --schemes rope --sweep steps=1,800 --layers 1 --width 16 --heads 2 "
         "--vocabulary 300 --train-len 16 --batch 2 --steps 1 --warmup 0 --eval-windows 1 --lengths 1x",
         2, "u: holds a sweep of steps up to 400: want that value"},
        /* A sweep of something else, or none, is another study. */
        {"$SIA compare --out t --quiet --schemes si --sweep tau=1,2 " OF_T, 2,
         "t: holds a study with sweep \"train_len\", not \"tau\": name another folder"},
        {"$SIA compare --out t --quiet --schemes rope " OF_T, 2,
         "t: holds a study with other settings: name another folder"},
        {"$SIA compare --out u --quiet --schemes rope --sweep steps=2,400 --layers 1 --width 16 --heads 2 "
         "--vocabulary 300 --train-len 16 --batch 2 --steps 1 --warmup 0 --eval-windows 1 --lengths 1x",
         0, "values of steps differ in how many tokens they were trained on\n"},
        {"$SIA compare --out s --quiet --schemes si+prope --sweep tau=100 --layers 1 --width 16 --heads 2 "
         "--vocabulary 300 --train-len 16 --batch 2 --steps 2 --eval-windows 2",
         0, "tau=100"},
    };
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trained_schemes), cmocka_unit_test(plans),
        cmocka_unit_test(whole_study),     cmocka_unit_test(figures),
        cmocka_unit_test(smoothing),       cmocka_unit_test(goes_on_from_every_line),
        cmocka_unit_test(shared_curve),    cmocka_unit_test(all_commands),
        cmocka_unit_test(wrong_results),   cmocka_unit_test(links),
        cmocka_unit_test(command_lines)};
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
