/* SPDX-License-Identifier: MIT
 *
 * 'sia train' as a person meets it: killed, stopped, out of disk, called twice, fed with every kind of data.
 * A run that was disturbed and then resumed ends in the same bits as one that was not. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../commands.h"
#include "base/random.h"
#include "program.h"
#include "train/model_file.h"
#include "train/train.h"

enum { STEPS = 60, KILLS = 10 };

/* A model of 35,000 numbers on 60 KB of text: a step takes a millisecond. Validation does not fall on the
 * steps of checkpoints. */
#define TRAIN "train text.txt --vocabulary 300 --quiet"
#define SMALL " --layers 2 --width 32 --heads 2 --train-len 32 --batch 4 --steps 60 --log-every 1"
#define CHECKS " --eval-every 7 --eval-windows 4 --lengths 1x,2x"
#define WHOLE SMALL CHECKS " --save-every 5"
#define FROM                                                                                             \
    " --vocabulary 300 --layers 2 --width 32 --heads 2 --train-len 32 --batch 4 --steps 2 --log-every 1" \
    " --lengths 1x --eval-windows 4"

static double whole_seconds; /* of the run that nobody disturbs */

static int prepare(void **state) {
    if (open_command_folder(state)) return -1;
    double started = clock_seconds();
    if (run_program("data generate --words 10000 --seed 3 --out text.txt", 0)) return -1;
    if (run_program(TRAIN " --out whole --threads 1" WHOLE, 0)) {
        print_error("%s\n", said_text);
        return -1;
    }
    whole_seconds = clock_seconds() - started;
    return 0;
}

static void assert_whole(const char *run) {
    if (!same_checkpoint("whole", run, STEPS)) fail_msg("%s: other bits than the whole run", run);
}

/* -------------------------------------------------------------------------------------------- the metrics */

/* losses[step], seen[step]: lines of a step; validations likewise. */
typedef struct metrics {
    double loss[STEPS + 1], validation[STEPS + 1];
    int seen[STEPS + 1], validated[STEPS + 1], others;
} metrics;

static void read_metrics(const char *run, metrics *m) {
    char name[256], line[4096];
    memset(m, 0, sizeof *m);
    (void)snprintf(name, sizeof name, "%s/metrics.jsonl", run);
    FILE *file = fopen(in_folder(name), "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        json_t *json = json_loads(line, 0, NULL), *table = json_object_get(json, "validation");
        int64_t step = json_integer_value(json_object_get(json, "step"));
        if (step < 1 || step > STEPS)
            m->others++;
        else if (table) {
            m->validated[step]++;
            m->validation[step] = json_real_value(json_object_get(table, "64"));
        } else {
            m->seen[step]++;
            m->loss[step] = json_real_value(json_object_get(json, "loss"));
        }
        json_decref(json);
    }
    (void)fclose(file);
}

/* Every step once, every validation once, with the figures of the run that was not disturbed. */
static void assert_metrics(const char *run) {
    metrics whole, found;
    read_metrics("whole", &whole);
    read_metrics(run, &found);
    assert_int_equal(found.others, 0);
    for (int step = 1; step <= STEPS; step++) {
        bool due = step % 7 == 0 || step == STEPS;
        if (found.seen[step] != 1 || found.validated[step] != due)
            fail_msg("%s: step %d: %d lines, %d validations", run, step, found.seen[step],
                     found.validated[step]);
        assert_true(found.loss[step] > 0 && found.loss[step] == whole.loss[step]);
        assert_true(found.validation[step] == whole.validation[step]);
    }
}

/* ------------------------------------------------------------------------------------- killed and stopped */

static void test_threads(void **state) {
    (void)state;
    must(TRAIN " --out two --threads 2" WHOLE, 0);
    must(TRAIN " --out three --threads 3" WHOLE, 0);
    assert_whole("two");
    assert_whole("three");
    assert_metrics("whole");
    assert_metrics("three");
}

/* Moments over the whole of the run, every third one over its first tenth, where the text is packed and no
 * checkpoint is there yet. A run that ended before the blow is looked at and begun again. */
static void test_kill(void **state) {
    (void)state;
    char line[1024];
    int kills = 0, ends = 0;
    for (uint64_t n = 0; kills < KILLS; n++) {
        double share = sia_random_uniform(7, n) * (n % 3 ? 0.6 : 0.1);
        (void)snprintf(line, sizeof line, TRAIN " --out killed --resume --threads %d" WHOLE,
                       (int)(n % 3) + 1);
        pid_t child = start_program(line, 0);
        sleep_seconds(share * whole_seconds);
        (void)kill(child, SIGKILL);
        int code = end_program(child);
        if (code == 1000 + SIGKILL) {
            kills++;
            continue;
        }
        if (code != 0) fail_msg("after %d kills: exit code %d: %s", kills, code, said_text);
        assert_whole("killed");
        assert_metrics("killed");
        assert_int_equal(run_command("rm -r killed", said_text, sizeof said_text), 0);
        ends++;
        assert_true(n < 100);
    }
    print_message("  %d kills, %d runs that ended before\n", kills, ends);
    (void)snprintf(line, sizeof line, TRAIN " --out killed --resume --threads 1" WHOLE);
    must(line, 0);
    assert_whole("killed");
    assert_metrics("killed");
}

/* No checkpoint but the one that the signal asks for. */
static void test_stop(void **state) {
    (void)state;
    static const struct {
        int number;
        int64_t step;
        const char *run;
    } cases[] = {{SIGINT, 3, "interrupted"}, {SIGTERM, 17, "terminated"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[1024];
        (void)snprintf(line, sizeof line,
                       TRAIN " --out %s --resume --threads 2" SMALL CHECKS " --save-every 0", cases[i].run);
        pid_t child = start_program(line, 0);
        wait_for_step(child, cases[i].run, cases[i].step);
        assert_int_equal(kill(child, cases[i].number), 0);
        assert_int_equal(end_program(child), 130);
        int64_t step = newest_checkpoint(cases[i].run);
        print_message("  signal %d: checkpoint of step %d\n", cases[i].number, (int)step);
        assert_true(step >= cases[i].step && step < STEPS);
        assert_int_equal(step, last_step(cases[i].run));
        must(line, 0);
        assert_whole(cases[i].run);
        assert_metrics(cases[i].run);
        must(line, 0); /* nothing is left to do, and nothing changes */
        assert_whole(cases[i].run);
        assert_metrics(cases[i].run);
    }
}

/* Asks to stop as soon as a validation of `step` begins; puts the run's folder elsewhere for that, if told so. */
typedef struct stopping {
    int64_t step;
    const char *folder, *elsewhere;
    int saves;
} stopping;

static int stop_validation(void *context, const sia_train_event *event) {
    stopping *s = context;
    s->saves += event->kind == SIA_TRAIN_SAVED;
    if (event->kind != SIA_TRAIN_VALIDATING || event->step != s->step) return 0;
    if (s->elsewhere) assert_int_equal(rename(s->folder, s->elsewhere), 0);
    return 1;
}

/* Step 7 has a checkpoint because of the stop alone; 35 and 60 have theirs before they are validated. A stop whose
 * checkpoint cannot be written is an error. Each of them goes on to the bits and the lines of the whole run. */
static void test_stop_during_validation(void **state) {
    (void)state;
    static const struct {
        int64_t step, newest;
        bool moved;
        sia_status status;
        int saves;
        const char *sentence;
    } cases[] = {{7, 7, false, SIA_STOPPED, 2, "stopped"},
                 {35, 35, false, SIA_STOPPED, 7, "stopped"},
                 {60, 60, false, SIA_STOPPED, 12, "stopped"},
                 {7, 5, true, SIA_FILE, 1, "No such file or directory"}};
    sia_settings settings;
    json_t *description;
    sia_train_data data;
    sia_error err;
    assert_int_equal(sia_train_config_read(in_folder("whole"), &settings, &description, &err), SIA_OK);
    assert_int_equal(sia_train_data_open(&data, description,
                                         &(sia_data_opening){.folder = in_folder("whole"), .threads = 1},
                                         &err),
                     SIA_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32], folder[512], elsewhere[512];
        (void)snprintf(name, sizeof name, "validated-%d", (int)i);
        (void)snprintf(folder, sizeof folder, "%s", in_folder(name));
        (void)snprintf(elsewhere, sizeof elsewhere, "%s", in_folder("elsewhere"));
        stopping s = {cases[i].step, folder, cases[i].moved ? elsewhere : NULL, 0};
        sia_train_job job = {.folder = folder,
                             .settings = &settings,
                             .data = &data,
                             .threads = 1,
                             .resume = true,
                             .hook = stop_validation,
                             .hook_context = &s};
        assert_int_equal(sia_train(&job, &err), cases[i].status);
        if (!strstr(err.text, cases[i].sentence)) fail_msg("%s", err.text);
        if (cases[i].moved) assert_int_equal(rename(elsewhere, folder), 0);
        assert_int_equal(s.saves, cases[i].saves);
        assert_int_equal(newest_checkpoint(name), cases[i].newest);
        metrics found;
        read_metrics(name, &found);
        assert_int_equal(found.seen[cases[i].step], 1);
        assert_int_equal(found.validated[cases[i].step], 0);
        job.hook = NULL;
        if (sia_train(&job, &err)) fail_msg("%s", err.text);
        assert_whole(name);
        assert_metrics(name);
    }
    sia_train_data_close(&data);
    json_decref(description);
}

/* ---------------------------------------------------------------------------------------------- full disk */

static void assert_loads(const char *run, int64_t step) {
    sia_model *m;
    sia_error err;
    sia_loaded found;
    if (sia_model_load(&m, in_folder(run), 1, &found, &err)) fail_msg("%s", err.text);
    assert_int_equal(found.step, step);
    free(found.run);
    free(found.skipped);
    sia_model_destroy(m);
}

/* That it was stopped is said once, with the command that goes on. */
static void test_stop_said(void **state) {
    (void)state;
    pid_t child =
        start_program("train text.txt --vocabulary 300 --out told --threads 1 --layers 1 --width 16 "
                      "--heads 2 --train-len 32 --batch 2 --steps 1000000 --log-every 1 --lengths 1x",
                      0);
    wait_for_step(child, "told", 3);
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(end_program(child), 130);
    must_say("\nsia: stopped; 'sia train --resume --out told' goes on\n");
    assert_null(strstr(strstr(said_text, "stopped") + 1, "stopped"));
}

/* Files of up to 200 KB: the weights fit, the state of the optimiser does not. */
static void test_full_disk(void **state) {
    (void)state;
    const char *line = TRAIN " --out full --resume --threads 1" WHOLE;
    pid_t child = start_program(line, 0);
    wait_for_step(child, "full", 12);
    (void)kill(child, SIGINT);
    assert_int_equal(end_program(child), 130);
    int64_t step = newest_checkpoint("full");
    assert_int_equal(run_program(line, 200000), 1);
    must_say("optimizer.safetensors: File too large");
    assert_int_equal(newest_checkpoint("full"), step);
    assert_loads("full", step);
    assert_int_equal(run_program(line, 200000), 1); /* and again: nothing half-written is in the way */
    assert_int_equal(newest_checkpoint("full"), step);
    must(line, 0);
    assert_whole("full");
    assert_metrics("full");
}

/* ----------------------------------------------------------------------------------------------- refusals */

static void test_busy(void **state) {
    (void)state;
    pid_t child = start_program(TRAIN " --out busy --threads 1 --steps 1000000 --log-every 1" CHECKS
                                      " --layers 1 --width 16 --heads 1 --train-len 16 --batch 1",
                                0);
    wait_for_step(child, "busy", 1);
    char sentence[128];
    (void)snprintf(sentence, sizeof sentence, "process %ld is at work in this run", (long)child);
    int code = run_program("train --out busy --quiet --resume", 0);
    must_say(sentence);
    int second = run_program(TRAIN " --out busy" WHOLE, 0);
    must_say(sentence);
    (void)kill(child, SIGKILL);
    assert_int_equal(end_program(child), 1000 + SIGKILL);
    assert_int_equal(code, 1);
    assert_int_equal(second, 1);
}

static const command_case refusals[] = {
    {"$SIA " TRAIN " --out whole" WHOLE, 2, "whole: holds a run already: want --resume, or another folder"},
    {"$SIA " TRAIN " --out whole --resume --layers 3", 2,
     "whole: was begun with layers 2, not 3: a run is resumed as it was begun (or --from it in another "
     "folder)"},
    {"$SIA " TRAIN " --out whole --resume --matrix-rate 0.01", 2, "matrix_rate 0.02, not 0.01"},
    {"$SIA " TRAIN " --out whole --resume --lengths 1x", 2, "was begun with multiples "},
    {"$SIA train --quiet --resume --out whole && echo done", 0, "done"},
    /* A name of any bytes. */
    {"bad=$(printf 'b\\377d.txt'); cp text.txt \"$bad\"; $SIA train \"$bad\" --quiet --out bytes "
     "--vocabulary 300 --layers 1 "
     "--width 16 --heads 2 --train-len 16 --batch 2 --steps 1 --lengths 1x && grep -c '\"from\": "
     "\"b?d.txt\"' bytes/config.json",
     0, "1"},
    /* Documents that are too short for the longest length are joined for it, if that is asked for. */
    {"for i in $(seq 60); do echo \"words of document number $i\"; printf '\\f\\n'; done > pages.txt; "
     "$SIA train --quiet --out pages pages.txt --val pages.txt --vocabulary 270 --layers 1 --width 16 "
     "--heads 1 "
     "--train-len 16 --batch 1 --steps 1 --lengths 1x,16x --eval-windows 2",
     2, "no document of 257 tokens"},
    {"$SIA train --quiet --out pages pages.txt --val pages.txt --vocabulary 270 --layers 1 --width 16 "
     "--heads 1 "
     "--train-len 16 --batch 1 --steps 1 --lengths 1x,16x --eval-windows 2 --join && "
     "grep -c '\"validation\":{\"16\":[0-9.]*,\"256\":' pages/metrics.jsonl",
     0, "1\n"},
    {"$SIA eval pages --lengths 256 --windows 2 && $SIA probe pages --length 256 --windows 1 | grep -c .", 0,
     "perplexity"},
    /* A kill before the first line leaves a checkpoint without a log; --from is for the beginning, and named again it is
     * the same. */
    {"cp -r whole nolog && rm nolog/metrics.jsonl && $SIA train --quiet --resume --out nolog && grep -c "
     "validation "
     "nolog/metrics.jsonl",
     0, "1"},
    {"$SIA train --quiet --resume --out whole --from absent", 2,
     "--from absent: the run was begun without it: leave it out"},
    {"$SIA train --quiet --out tuned --from whole --config whole/config.json --steps 2 --warmup 1 --cooldown "
     "0 "
     "$PWD/whole/data && $SIA train --quiet --resume --out tuned --from whole && "
     "$SIA train --quiet --resume --out tuned && $SIA train --quiet --resume --out tuned --from nolog",
     2, "--from nolog: the run was begun from whole: leave it out"},
    {"cp -r whole later && sed -i 's/\"steps\": 60/\"steps\": 50/' later/config.json && "
     "$SIA train --quiet --resume --out later",
     1, "later: the checkpoint is of step 60 of 50"},
    {"$SIA report whole --out -", 0, "Learning rate of the matrices"},
    {"$SIA train", 2, "want --out RUN"},
    {"$SIA train --out x --val text.txt --val-fraction 0.1 text.txt", 2,
     "want --val or --val-fraction, not both"},
    {"touch plain && $SIA train --out plain/x --quiet", 1, "plain/x: Not a directory"},
    {"$SIA train --out x --preset large", 2, "large"},
    {"$SIA train --out x --quiet --scheme si+rope+rope", 2, "scheme"},
    {"$SIA train --out x --quiet --lengths 1,2", 2, "like 1x,4x,16x"},
    {"$SIA train --out x --quiet --lengths 4x,1x,4x", 2, "lengths '4x,1x,4x': 4x is there twice"},
    {"$SIA train --out x --quiet --lengths 2x,3x text.txt --vocabulary 300", 2,
     "length 2x: want a divisor of the longest, 3x"},
    {"rm -rf x; $SIA train --out x --quiet --batch 6 --micro-batch 4", 2,
     "batch 6: want a multiple of micro_batch, 4"},
    {"rm -rf x; $SIA train --out x --quiet --warmup 400 --steps 500 --cooldown 0.5", 2, "warm"},
    {"rm -rf x; $SIA train --out x --quiet absent.txt", 1, "absent.txt: No such file"},
    {"rm -rf x; $SIA train --out x --quiet 'absent/*.bin'", 1, "sia: absent: No such file or directory"},
    {"rm -rf x; $SIA train --out x --quiet --config absent.json", 1, "absent.json: No such file"},
    {"rm -rf x; : > empty.txt; $SIA train --out x --quiet empty.txt", 1, "an empty file"},
    /* A start that failed after it had packed its text: what goes on is not a run on generated text. */
    {"rm -rf x; $SIA train --out x --quiet text.txt --vocabulary 300 --lengths 4096x", 2, "no document of"},
    {"$SIA train --out x --quiet --resume", 2,
     "x: the text of a run is packed there, which has not begun: name its files and settings again"},
    {"rm -rf x; $SIA train --out x --quiet --train-len 1000000 text.txt --vocabulary 300", 2,
     "too few for a sequence of 1000000"},
    {"rm -rf x; $SIA train --out x --quiet --tokenizer whole/tokenizer.json --vocabulary 299 text.txt", 2,
     "vocabulary 299: the tokenizer has 300 tokens"},
    {"$SIA train 'whole/data/train_*.bin' --quiet --out bare --layers 1 --width 16 --heads 2 --train-len 16 "
     "--steps 1 "
     "--batch 1 && $SIA eval bare",
     2, "bare: was trained without validation text: name one with --data"},
    {"rm -rf x; bad=$(printf 'b\\377d'); mkdir \"$bad\" && cp whole/data/train_*.bin \"$bad\" && $SIA train "
     "--out x --quiet \"$bad/train_*.bin\"",
     2, "b?d/train_*.bin: the name is not UTF-8"},
    {"rm -rf x; $SIA train --out x --quiet --from absent", 1, "absent"},
    {"rm -rf x; $SIA train --out x --quiet --from whole --width 64 --train-len 32 --lengths 1x --vocabulary "
     "300 text.txt",
     2,
     "whole: its embedding.weight is 300 x 32, here 300 x 64 is wanted: --config with the config.json of its "
     "run "
     "takes its shape"},
    {"rm -rf x; $SIA train --out x --quiet --from whole --width 32 --layers 3 --heads 2 --train-len 32 "
     "--lengths "
     "1x --vocabulary 300 text.txt",
     2, "whole: has no blocks.2."},
    /* A person's folder stays as it is, whatever is begun there; so does his data in a folder where a start failed. */
    {"rm -rf p; mkdir -p p/data; cp text.txt p/data/book.txt; printf mine > p/eval.jsonl; mkdir "
     "p/notes.tmp-aside; "
     "cp -r p q; for how in 'train --out p' 'train --resume --out p' 'compare --schemes rope --out p' "
     "'train --resume=auto --out p'; do "
     "$SIA $how p/data/book.txt --quiet --steps 1; test $? = 2 || exit 9; done; "
     "$SIA needle whole --out p; test $? = 2 || exit 9; diff -r p q && echo untouched",
     0, "is there, in a folder that is neither a run nor a study: name another\nuntouched"},
    {"rm -rf p q; mkdir -p p/data; cp text.txt p/data/book.txt; printf 'sia 1' > p/lock; $SIA train --out p "
     "p/data/book.txt "
     "--quiet --steps 1; test $? = 2 && cmp text.txt p/data/book.txt",
     0, "p/data: holds files that are not packed text"},
    {"rm -rf p; mkdir p; $SIA train p/../text.txt --vocabulary 300 --quiet --out p --layers 1 --width 32 "
     "--heads 2 "
     "--train-len 32 --batch 2 --steps 1 --lengths 1x --eval-windows 1 && echo begun",
     0, "begun"},
    /* A start that failed leaves no run behind: the folder can be used. */
    {"for bad in '--lengths 2x,3x' '--train-len 1000000' '--from absent'; do rm -rf x; $SIA train --out x "
     "--quiet "
     "text.txt --vocabulary 300 $bad; test ! -e x/config.json || exit 9; done; echo fresh",
     0, "fresh"},
};

static void test_refusals(void **state) {
    (void)state;
    run_cases(refusals, sizeof refusals / sizeof *refusals, NULL);
    assert_whole("whole");
}

/* Text without an end, and what comes before the first round of a benchmark: the first signal is heard. */
static void test_stop_early(void **state) {
    (void)state;
    static const char *const lines[] = {
        "data generate --words 4000000000 --out endless.txt",
        "train --out endless --vocabulary 300 --steps 100000000 --batch 1000 --quiet --threads 1",
        "bench decode --context 16000000 --preset tiny --threads 1",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        pid_t child = start_program(lines[i], 0);
        siginfo_t ended = {0};
        sleep_seconds(1);
        assert_int_equal(kill(child, SIGINT), 0);
        for (double until = clock_seconds() + 20; !ended.si_pid && clock_seconds() < until;
             sleep_seconds(0.01))
            assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
        if (!ended.si_pid) (void)kill(child, SIGKILL);
        int code = end_program(child);
        if (code != 130) fail_msg("sia %s: exit code %d: %s", lines[i], code, said_text);
        must_say("stopped");
    }
    assert_int_not_equal(access(in_folder("endless.txt"), F_OK), 0);
    assert_int_not_equal(access(in_folder("endless/config.json"), F_OK), 0);
}

/* ------------------------------------------------------------------------------------------ files of models */

/* What is changed in a copy of a model's file. */
typedef struct altered {
    const char *key, *value;   /* of the metadata; value NULL: it is left out */
    const char *tensor, *name; /* gets another name; tensor NULL: a tensor of no numbers is added */
    const char *sentence;      /* "": none, it is loaded */
} altered;

static const altered files[] = {
    {"other", "", "none", "", ""},
    {"other", "", NULL, "extra", ": tensor \"extra\": not wanted here"},
    {"other", "", "embedding.weight", "embedding",
     ": tensor \"embedding.weight\": not there, want F32 [300, 32]"},
    {"model", NULL, "none", "", ": its metadata has no 'model': not a model of sia"},
    {"model", "{", "none", "", ": the model in its metadata: "},
    {"format", "sia 2", "none", "", ": format 'sia 2': want 'sia'; a newer version wrote it than this one, "},
};

static void write_altered(const sia_safetensors *from, const char *path, const altered *a) {
    sia_safetensors_writer *w;
    sia_error err;
    assert_int_equal(sia_safetensors_create(&w, path, &err), SIA_OK);
    for (int64_t i = 0; i < sia_safetensors_metadata_count(from); i++) {
        const char *key = sia_safetensors_metadata_key(from, i);
        const char *value = strcmp(key, a->key) ? sia_safetensors_metadata(from, key) : a->value;
        if (value) assert_int_equal(sia_safetensors_describe(w, key, value, &err), SIA_OK);
    }
    if (!a->tensor)
        assert_int_equal(sia_safetensors_declare(w, a->name, SIA_DTYPE_F32, 1, (int64_t[]){0}, &err), SIA_OK);
    for (int writing = 0; writing < 2; writing++)
        for (int64_t i = 0; i < sia_safetensors_count(from); i++) {
            const sia_stored_tensor *t = sia_safetensors_at(from, i);
            const char *name = a->tensor && !strcmp(t->name, a->tensor) ? a->name : t->name;
            assert_int_equal(writing ? sia_safetensors_write(w, name, t->data, t->bytes, &err)
                                     : sia_safetensors_declare(w, name, t->dtype, t->dims, t->shape, &err),
                             SIA_OK);
        }
    assert_int_equal(sia_safetensors_finish(w, &err), SIA_OK);
}

static void test_model_files(void **state) {
    (void)state;
    sia_safetensors *from;
    sia_error err;
    char *path = in_folder("altered.safetensors");
    assert_int_equal(sia_safetensors_open(&from, in_folder("whole/step-000060/model.safetensors"), &err),
                     SIA_OK);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char sentence[700];
        sia_model *m;
        write_altered(from, path, &files[i]);
        bool good = !*files[i].sentence;
        assert_int_equal(sia_model_open(&m, path, 1, &err), good ? SIA_OK : SIA_FORMAT);
        assert_int_equal(m != NULL, good);
        (void)snprintf(sentence, sizeof sentence, "%s%s", path, files[i].sentence);
        if (!good && strncmp(err.text, sentence, strlen(sentence)) != 0) fail_msg("%s", err.text);
        sia_model_destroy(m);
    }
    sia_safetensors_close(from);
}

/* A run, a checkpoint, its file, and a checkpoint that someone put elsewhere under a name of his own. */
static void test_model_places(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_folder("best"), 0777), 0);
    char target[700];
    (void)snprintf(target, sizeof target, "%s", in_folder("best/model.safetensors"));
    assert_int_equal(link(in_folder("whole/step-000060/model.safetensors"), target), 0);
    static const char *const places[] = {
        "whole", "whole/step-000060",     "whole/step-000060/", "whole/step-000060/model.safetensors",
        "best",  "best/model.safetensors"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) assert_loads(places[i], 60);
}

/* The checkpoint before the loss left the ground stays, and has finite weights. */
static void test_explosion(void **state) {
    (void)state;
    must(TRAIN " --out exploded --unembedding-rate 1000" SMALL CHECKS " --save-every 1 --keep 2", 1);
    must_say("a lower rate may help");
    int64_t step = newest_checkpoint("exploded");
    assert_true(step >= 1 && step < STEPS);
    assert_loads("exploded", step);
    must(TRAIN " --out exploded --resume --unembedding-rate 1000" SMALL CHECKS " --save-every 1 --keep 2", 1);
    must_say("a lower rate may help");
    assert_int_equal(newest_checkpoint("exploded"), step);
}

/* --------------------------------------------------------------------------------------------------- data */

/* Every way to name text ends in a run that can be resumed; the same text by another way ends in the same
 * bits. */
static const command_case ways[] = {
    {"$SIA train --quiet --config whole/config.json text.txt --out by-config && cmp "
     "whole/step-000060/model.safetensors by-config/step-000060/model.safetensors",
     0, ""},
    {"mkdir texts && cp text.txt texts && $SIA train texts --vocabulary 300 --quiet --out by-folder" WHOLE
     " && cmp whole/step-000060/model.safetensors by-folder/step-000060/model.safetensors",
     0, ""},
    /* What follows from a length follows a new one; whole has a train_len of its own. */
    {"$SIA train --quiet --config whole/config.json text.txt --out longer --train-len 40 --steps 1 --lengths "
     "1x && "
     "grep -o '\"prope_base\": [0-9.]*' longer/config.json",
     0, "\"prope_base\": 10.0"},
    {"$SIA train --quiet --config whole/config.json text.txt --out smaller --batch 1 --steps 1 --lengths 1x "
     "&& "
     "grep -o '\"micro_batch\": [0-9]*' smaller/config.json",
     0, "\"micro_batch\": 1"},
    {"$SIA train - --vocabulary 300 --quiet --out by-stdin" WHOLE " < text.txt && cmp "
     "whole/step-000060/model.safetensors by-stdin/step-000060/model.safetensors",
     0, ""},
    {"$SIA train whole/data --vocabulary 300 --quiet --out by-packed" WHOLE
     " && cmp whole/step-000060/model.safetensors by-packed/step-000060/model.safetensors",
     0, ""},
    {"$SIA train 'whole/data/train_*.bin' --val 'whole/data/val_*.bin' --tokenizer whole/tokenizer.json "
     "--vocabulary 300 --quiet --out by-shards" WHOLE
     " && cmp whole/step-000060/model.safetensors by-shards/step-000060/model.safetensors",
     0, ""},
    {"for run in by-folder by-stdin by-packed by-shards; do grep '\"step\":60,\"validation\"' "
     "$run/metrics.jsonl; "
     "done | sort -u | wc -l",
     0, "1\n"},
    {"for run in by-folder by-stdin by-packed by-shards; do $SIA train --out $run --resume --quiet || exit; "
     "done",
     0, ""},
    {"$SIA train --out generated --vocabulary 300 --quiet --json" WHOLE, 0, "\"steps\": 60"},
    {"rm -rf generated; $SIA train --out generated --vocabulary 300 --quiet --json" WHOLE, 0,
     "\"validation\": {\"1x\": "},
    {"$SIA train --out generated --resume --quiet && echo done", 0, "done"},
    {"rm -rf x; $SIA train whole/data --out x --vocabulary 300" SMALL " --lengths 2x --eval-windows 4 2>&1",
     0, "\nvalidation on 4 windows of 64 tokens\n"},
    {"rm -rf x; $SIA train whole/data --out x --vocabulary 300" SMALL
     " --lengths 2x --eval-windows 1000000 2>&1",
     0, " windows of 64 tokens: the text has no more, 1000000 are wanted\n"},
    {"$SIA data generate --words 3000 --seed 8 --out half.txt", 0, ""},
    /* Weights go on with the tokens that they know, whatever the text is: none is trained anew, no other is taken. */
    {"$SIA train --out from --from whole/step-000060 --quiet half.txt --scheme logn+rope" FROM
     " && cmp from/tokenizer.json whole/tokenizer.json && echo done",
     0, "done"},
    {"rm -rf x; $SIA train --out x --from whole --quiet" FROM
     " && cmp x/tokenizer.json whole/tokenizer.json && echo done",
     0, "done"}, /* generated text */
    {"$SIA tokenizer train --size 300 --out other.json half.txt 2>&1; $SIA data pack --tokenizer "
     "other.json "
     "--out other half.txt 2>&1; rm -rf x; $SIA train --out x --from whole --quiet text.txt --tokenizer "
     "other.json" FROM,
     2, "other.json: another tokenizer than whole/tokenizer.json, which the model was trained with"},
    {"rm -rf x; $SIA train --out x --from whole --quiet other" FROM, 1,
     "other: packed with another tokenizer than the one it is to be read with"},
    {"rm -rf x; $SIA train --out x --from whole --quiet 'other/train_*.bin'" FROM, 1,
     "packed with another tokenizer"},
    {"$SIA eval whole --lengths 1x --tokenizer other.json --data text.txt", 2,
     "other.json: another tokenizer than whole/tokenizer.json"},
    {"$SIA generate whole --tokens 1 --tokenizer other.json", 2, "other.json: another tokenizer than"},
};

static void test_data(void **state) {
    (void)state;
    run_cases(ways, sizeof ways / sizeof *ways, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_stop_said),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_stop_early),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_explosion),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_stop_during_validation),
        cmocka_unit_test(test_model_files),
        cmocka_unit_test(test_model_places),
    };
    return cmocka_run_group_tests_name("train", tests, prepare, close_command_folder);
}
