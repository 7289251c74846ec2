/* SPDX-License-Identifier: MIT
 *
 * The program under mpirun: the same curve on any number of ranks, the same bits for the same number, resuming on
 * another one, refusals, and ranks that die or fall silent. MPIRUN is the launcher, SIA the program. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../commands.h"
#include "../train/program.h"

enum { STEPS = 50 };

#define SMALL                                                                                            \
    " --steps 50 --layers 2 --width 64 --heads 4 --kv-heads 2 --train-len 63 --batch 6 --vocabulary 512" \
    " --log-every 1 --threads 1 --eval-windows 3 --quiet"

/* Runs ranks in the folder of the tests; what they said is in said_text. */
static int on_ranks(int ranks, const char *line) {
    char command[1500];
    (void)snprintf(command, sizeof command, "%s -n %d $SIA %s", getenv("MPIRUN"), ranks, line);
    return run_command(command, said_text, sizeof said_text);
}

static void must_on(int ranks, const char *line) {
    int code = on_ranks(ranks, line);
    if (code) fail_msg("%d ranks, sia %s: exit code %d: %s", ranks, line, code, said_text);
}

static void read_curve(const char *run, double loss[STEPS]) {
    char name[256], line[4096];
    (void)snprintf(name, sizeof name, "%s/metrics.jsonl", run);
    FILE *file = fopen(in_folder(name), "r");
    assert_non_null(file);
    for (int i = 0; i < STEPS; i++) loss[i] = NAN;
    while (fgets(line, sizeof line, file)) {
        long long step;
        double found;
        if (sscanf(line, "{\"step\":%lld,\"loss\":%lf", &step, &found) == 2) loss[step - 1] = found;
    }
    (void)fclose(file);
}

/* The largest relative difference of the losses of all steps. */
static void same_curve(const char *run, const char *other) {
    double a[STEPS], b[STEPS], most = 0;
    read_curve(run, a);
    read_curve(other, b);
    for (int i = 0; i < STEPS; i++) {
        assert_false(isnan(a[i]) || isnan(b[i]));
        most = fmax(most, fabs(a[i] - b[i]) / a[i]);
    }
    print_message("%s, %s: curves differ by %.1e, bound 1e-05\n", run, other, most);
    assert_true(most <= 1e-5);
}

static void any_number_of_ranks(void **state) {
    (void)state;
    must("train --out one" SMALL, 0);
    must_on(2, "train --out two --save-every 25" SMALL);
    must_on(4, "train --out four --save-every 25" SMALL); /* rows 1, 2, 1, 2 */
    same_curve("one", "two");
    same_curve("one", "four");
    must_on(4, "train --out again --save-every 25" SMALL);
    assert_true(same_checkpoint("four", "again", 25));
    assert_true(same_checkpoint("four", "again", STEPS));
}

static void sequences_divided(void **state) {
    (void)state;
    must("train --out logn --scheme logn+rope" SMALL, 0);
    must_on(3, "train --out three --scheme logn+rope --context-parallel 3 --recompute" SMALL);
    must_on(4, "train --out both --scheme logn+rope --context-parallel 2 --micro-batch 2" SMALL);
    same_curve("logn", "three");
    same_curve("logn", "both");
    /* The same table from one process, from windows divided, from sequences divided; speeds aside. */
    char one[4096], other[4096];
    const char *eval = "eval logn --threads 1 --quiet --lengths 1x,16x --windows 3 2>/dev/null | cut -c 1-50";
    char command[512];
    (void)snprintf(command, sizeof command, "$SIA %s", eval);
    assert_int_equal(run_command(command, one, sizeof one), 0);
    for (int together = 1; together <= 2; together++) {
        (void)snprintf(command, sizeof command, "%s -n 2 $SIA eval logn --context-parallel %d%s",
                       getenv("MPIRUN"), together, eval + strlen("eval logn"));
        assert_int_equal(run_command(command, other, sizeof other), 0);
        assert_string_equal(one, other);
    }
}

static void another_number(void **state) {
    (void)state;
    assert_int_equal(
        run_command("cp -r four moved; cp -r four alone; rm -r moved/step-000050 alone/step-000050",
                    said_text, sizeof said_text),
        0);
    must_on(3, "train --out moved --resume auto --threads 1 --quiet");
    must("train --out alone --resume --threads 1 --quiet", 0);
    same_curve("one", "moved");
    same_curve("one", "alone");
    assert_int_equal(newest_checkpoint("moved"), STEPS);
    /* And on as many as before: the bits of a run that never stopped. */
    assert_int_equal(run_command("rm -r again/step-000050", said_text, sizeof said_text), 0);
    must_on(4, "train --out again --resume auto --threads 1 --quiet");
    assert_true(same_checkpoint("four", "again", STEPS));
}

/* Studies: the same lines, but for seconds and the like. */
static void studies(void **state) {
    (void)state;
#define SCHEMES                                                                          \
    " --schemes rope,rope+yarn,si+prope,alibi --steps 8 --layers 1 --width 32 --heads 2" \
    " --train-len 200 --batch 2 --vocabulary 512 --threads 1 --eval-windows 2 --quiet"
    must("compare --out study" SCHEMES, 0);
    must_on(3, "compare --out spread" SCHEMES);
    const char *same =
        "for s in study spread; do grep -v '\"kind\":\"study\"' $s/compare.jsonl | "
        "sed 's/\"train_seconds\":[^,]*//' | sort >$s.lines; done; cmp study.lines spread.lines && "
        "grep -c '\"result\"' spread.lines";
    assert_int_equal(run_command(same, said_text, sizeof said_text), 0);
    assert_string_equal(said_text, "4\n");
#define HAYSTACKS " --steps 3 --batch 3 --samples 5 --lengths 1x,2x --threads 1 --quiet"
    must("needle study/runs/alibi-seed0 --out needle" HAYSTACKS, 0);
    must_on(2, "needle study/runs/alibi-seed0 --out needles" HAYSTACKS);
    const char *lines = "for s in needle needles; do tail -n +2 $s/needle.jsonl >$s.lines; done; "
                        "cmp needle.lines needles.lines && wc -l <needles.lines";
    assert_int_equal(run_command(lines, said_text, sizeof said_text), 0);
    assert_int_equal(atoi(said_text), 22);
}

static void refusals(void **state) {
    (void)state;
    const struct {
        int ranks;
        const char *line, *says;
    } cases[] = {
        {3, "train --out no --steps 5 --batch 2", "sia: a batch of 2 sequences on 3 ranks"},
        {2, "train --out no --steps 5 --context-parallel 3", "sia: context parallel 3 on 2 ranks"},
        {2, "train --out one --steps 5", "sia: one: holds a run already"},
        {2, "train --out one --resume --batch 12", "sia: one: was begun with batch "},
        {2, "train --out no --timeout 0", "--timeout 0: want 1 to"},
        {2, "eval one --context-parallel 2 --cache f16", "there is no cache"},
        {2, "train --out no none.txt", "sia: none.txt"},
        {2, "train --out no --config none.json", "none.json: No such file"},
        {2, "eval one --scheme alibi", "sia: scheme 'alibi'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_not_equal(on_ranks(cases[i].ranks, cases[i].line), 0);
        const char *found = strstr(said_text, cases[i].says);
        if (!found)
            fail_msg("%s: want '%s' in: %s", cases[i].line, cases[i].says, said_text);
        else if (strstr(found + 1, cases[i].says))
            fail_msg("%s: said twice: %s", cases[i].line, said_text);
    }
}

/* A table for people: every line within 80 columns, with the longest names that there are. */
static void speed(void **state) {
    (void)state;
    must_on(2,
            "bench train --rounds 1 --preset paper-162m --scheme sharp+prope --layers 1 --width 16 --heads 1"
            " --vocabulary 512 --len 64 --batch 128 --threads 1 2>/dev/null | tee speed");
    must_say("2 ranks of 1 thread ");
    must_say("1 rank  of 2 threads");
    must_say("by processor time\n");
    const char *wide = "awk 'length > 80' speed";
    assert_int_equal(run_command(wide, said_text, sizeof said_text), 0);
    assert_string_equal(said_text, "");
}

/* Two ranks, each with its own command; the job ends with a sentence. A launcher that ended without a word, which Open MPI's
 * was seen to do once, says nothing of sia: once more, then. */
static void must_refuse(const char *first, const char *second, const char *says) {
    char command[1500];
    (void)snprintf(command, sizeof command, "%s -n 1 %s : -n 1 %s", getenv("MPIRUN"), first, second);
    said_text[0] = 0;
    for (int tries = 0; tries < 3 && !said_text[0]; tries++)
        assert_int_not_equal(run_command(command, said_text, sizeof said_text), 0);
    must_say(says);
}

/* Two ranks with one command, in folders of their own: d0 and d1. */
static void must_refuse_in_folders(const char *line, const char *says) {
    char command[1500];
    (void)snprintf(command, sizeof command,
                   "%s -n 2 sh -c 'cd d$OMPI_COMM_WORLD_RANK$PMI_RANK; exec $SIA %s --quiet --threads 1'",
                   getenv("MPIRUN"), line);
    assert_int_not_equal(run_command(command, said_text, sizeof said_text), 0);
    must_say(says);
}

static void other_commands(void **state) {
    (void)state;
    const char *other = "sia: rank 1: its command line is not that of rank 0";
    must_refuse("$SIA train --out no --steps 5", "$SIA train --out no --steps 6", other);
    must_refuse("$SIA train --out no a.txt", "$SIA train --out no b.txt", other);
    must_refuse("$SIA train --out no --context-parallel 2", "$SIA train --out no", other);
    must_refuse("$SIA eval one --lengths 1x", "$SIA eval one --lengths 2x", other);
    must_refuse("$SIA compare --out no", "$SIA compare --out no --seeds 2", other);
    must_refuse("$SIA needle one --out no", "$SIA needle one --out no --rate 1",
                "sia: rank 1: unknown option --rate");
    assert_int_equal(run_command("cp $SIA other; echo >>other", said_text, sizeof said_text), 0);
    must_refuse("$SIA train --out no", "./other train --out no",
                "sia: rank 1: its build of the program is not that of rank 0");
    /* A launcher may not mind that a rank is gone before MPI has begun. It does mind, and ends the other without a word
     * of it, when that has called MPI's start by then: so rank 0 comes second. */
    must_refuse("sh -c 'sleep 1; exec $SIA train --out no --timeout 2'", "true", "sia: MPI does not start");
}

/* The same names, and other things behind them. */
static void other_files(void **state) {
    (void)state;
    const char *make = "mkdir d0 d1; cp one/config.json d0/c.json; sed 's/\"steps\": 50/\"steps\": 49/' "
                       "one/config.json >d1/c.json; cp -r one d0/m; cp -r logn d1/m; "
                       "seq 5000 >d0/t.txt; seq 4999 >d1/t.txt; echo 6000 >>d1/t.txt";
    assert_int_equal(run_command(make, said_text, sizeof said_text), 0);
    must_refuse_in_folders("train --out ../no --config c.json",
                           "sia: rank 1: its configuration is not that of rank 0");
    must_refuse_in_folders("eval m --data ../d0/t.txt --join --lengths 1x",
                           "sia: rank 1: its model is not that of rank 0");
    must_refuse_in_folders("eval ../one --data t.txt --join --lengths 1x",
                           "sia: rank 1: its text is not that of rank 0");
}

/* -------------------------------------------------------------------------------------- ranks that are gone */

/* Starts two ranks that save every 10 steps, waits until they have done 30, sends the signal to rank 1; returns the
 * seconds until the job has ended. */
static double lose_rank(const char *run, int signal_number, int timeout) {
    char line[1024], name[128];
    (void)snprintf(
        line, sizeof line,
        "cd %s; exec %s -n 2 sh -c 'echo $$ >%s.$OMPI_COMM_WORLD_RANK$PMI_RANK; exec $SIA train --out %s"
        " --steps 2000 --save-every 10 --timeout %d"
        " --layers 2 --width 64 --heads 2 --train-len 64"
        " --batch 4 --vocabulary 512 --log-every 1 --threads 1 --schedule constant' >said 2>&1",
        command_folder, getenv("MPIRUN"), run, run, timeout);
    pid_t job = fork();
    assert_true(job >= 0);
    if (job == 0) {
        (void)execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(99);
    }
    wait_for_step(job, run, 30);
    (void)snprintf(name, sizeof name, "%s.1", run);
    FILE *file = fopen(in_folder(name), "r");
    int rank = 0;
    assert_true(file && fscanf(file, "%d", &rank) == 1 && rank > 1);
    (void)fclose(file);
    double started = clock_seconds();
    assert_int_equal(kill(rank, signal_number), 0);
    assert_int_not_equal(end_program(job), 0);
    return clock_seconds() - started;
}

static void wait_until_said(pid_t child, const char *words) {
    double until = clock_seconds() + 60;
    for (said_text[0] = 0; !strstr(said_text, words); sleep_seconds(0.01)) {
        FILE *file = fopen(in_folder("said"), "r");
        said_text[file ? fread(said_text, 1, sizeof said_text - 1, file) : 0] = 0;
        if (file) (void)fclose(file);
        if (kill(child, 0) != 0 || clock_seconds() > until) fail_msg("want '%s' in: %s", words, said_text);
    }
}

static void goes_on(const char *run) {
    int64_t saved = newest_checkpoint(run);
    assert_true(saved >= 20); /* that of step 30 may have been under way */
    sia_checkpoint *c;
    sia_error err;
    if (sia_checkpoint_open(&c, in_folder(run), saved, false, &err)) fail_msg("%s", err.text);
    sia_checkpoint_close(c);
    char line[256];
    pid_t child;
    (void)snprintf(line, sizeof line, "train --out %s --resume auto --threads 1", run);
    child = start_program(line, 0);
    wait_until_said(child, "continues from step"); /* until then the log is that of before */
    wait_for_step(child, run, saved + 5);
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(end_program(child), 130);
}

static void a_rank_dies(void **state) {
    (void)state;
    assert_true(lose_rank("dead", SIGKILL, 40) < 60);
    goes_on("dead");
}

/* It still has its place in the job, but says nothing more: the other one waits as long as it was told to. */
static void a_rank_is_silent(void **state) {
    (void)state;
    double seconds = lose_rank("silent", SIGSTOP, 8); /* more than a crowded machine keeps a rank waiting */
    must_say("rank 0: rank 1 of 2 has not answered for ");
    assert_true(seconds > 7 && seconds < 60);
    goes_on("silent");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks),
        cmocka_unit_test(sequences_divided),
        cmocka_unit_test(another_number),
        cmocka_unit_test(refusals),
        cmocka_unit_test(other_commands),
        cmocka_unit_test(other_files),
        cmocka_unit_test(studies),
        cmocka_unit_test(speed),
        cmocka_unit_test(a_rank_dies),
        cmocka_unit_test(a_rank_is_silent),
    };
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
