/* SPDX-License-Identifier: MIT
 *
 * Whole operations with faults in them. For each operation and each kind of fault, for n = 1, 2, 3, ... until none is
 * hit: the operation is run as a person runs it, on a copy of the same folder, and its n-th allocation, write, ... fails.
 *
 *     it may succeed:  then the folder is, byte for byte, as without the fault
 *     else it fails:   exit code 1, a sentence; every file is the old one or the new one, whole; and the same command
 *                      once more, without a fault, ends in the folder that it would have made
 *     in both:         no block of memory and no descriptor more than before, and no crash; but an allocation that fails
 *                      within jansson ends the program with its sentence, and what it leaves is as after a kill
 *
 *     test_faults [--all[=N]] [OPERATION|KIND...]   without --all a sample of the n, so that it takes seconds;
 *                                                   =N: from N on; kinds by the names in faults.c */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "cli/options.h"
#include "end_child.h"
#include "faults.h"
#include "tree.h"

enum { SAMPLE = 10, SAID = 8192 };

#define MODEL " --layers 1 --width 16 --heads 1 --train-len 16 --batch 2 --log-every 1 --threads 1"
#define TRAIN "train text.txt --tokenizer tok.json --quiet --steps 4 --eval-windows 2 --lengths 1x,2x" MODEL

typedef struct operation {
    const char *name;
    const char *prepare; /* commands, divided by ';', that make the folder it starts from; "-PATH" removes */
    const char *command;
    bool refused; /* must fail, and change nothing */
} operation;

#define TEXT "data generate --words 300 --documents 2 --seed 3 --out text.txt;"
#define TOKENIZER "tokenizer train --size 262 --min-count 2 --out tok.json --quiet --threads 1 text.txt;"
#define HALF TEXT TOKENIZER TRAIN " --out run --resume --save-every 2 --keep 0;-run/step-000004"

static const operation operations[] = {
    {"tokenizer train", TEXT TOKENIZER,
     "tokenizer train --size 270 --out tok.json --quiet --threads 1 text.txt", false},
    {"tokenizer encode", TEXT TOKENIZER "tokenizer encode --tokenizer tok.json --out ids --quiet tok.json",
     "tokenizer encode --tokenizer tok.json --format u16 --out ids --quiet --threads 1 text.txt", false},
    {"data pack", TEXT TOKENIZER,
     "data pack --tokenizer tok.json --out packed --val-fraction 0.2 --shard-tokens 500 --quiet --threads 1 "
     "text.txt",
     false},
    {"train", TEXT TOKENIZER, TRAIN " --out run --resume --save-every 2 --keep 0", false},
    {"train, own tokenizer", TEXT,
     "train text.txt --vocabulary 262 --quiet --steps 1 --eval-windows 2 --lengths 1x --out run "
     "--resume" MODEL,
     false},
    {"resume", HALF, TRAIN " --out run --resume --save-every 2 --keep 0", false},
    {"train, keep 1", TEXT TOKENIZER, TRAIN " --out run --resume --save-every 1 --keep 1", false},
    {"from", HALF,
     "train text.txt --tokenizer tok.json --from run --out new --resume --quiet --steps 1 --eval-windows 2 "
     "--lengths 1x" MODEL,
     false},
    {"train where a run is", HALF, TRAIN " --out run --save-every 2 --keep 0 --seed 7", true},
    {"compare where a run is", HALF,
     "compare text.txt --tokenizer tok.json --out run --schemes rope --steps 2 --quiet" MODEL, true},
    {"eval", HALF, "eval run --record --lengths 1x,2x --windows 2 --quiet --threads 1 --json", false},
    {"generate", HALF, "generate run --prompt the --tokens 5 --temperature 0 --threads 1 --json", false},
    {"compare", TEXT TOKENIZER,
     "compare text.txt --tokenizer tok.json --out timed --schemes si+prope,rope,rope+ntk --steps 2 "
     "--save-every 1 "
     "--eval-windows 2 --lengths 1x,2x --quiet" MODEL,
     false},
    {"needle",
     TEXT TOKENIZER
     "train text.txt --val text.txt --tokenizer tok.json --quiet --steps 1 --eval-windows 2 --lengths 1x "
     "--out run --layers 1 "
     "--width 16 --heads 1 --train-len 128 --batch 2 --threads 1",
     "needle run --out study --resume --steps 2 --save-every 1 --batch 1 --samples 2 --needles 1 --digits 1 "
     "--literal --lengths 1x,2x --quiet --threads 1",
     false},
    {"report",
     TEXT TOKENIZER
     "compare text.txt --tokenizer tok.json --out study --schemes rope,alibi --steps 2 --eval-windows 2 "
     "--lengths 1x,2x --quiet" MODEL ";report --quiet --title old study",
     "report --quiet study", false},
};

/* Which faults, and how. */
static const struct {
    fault_kind kind;
    fault_mode mode;
    bool harmless; /* the operation must not fail */
} plans[] = {
    {FAULT_MEMORY, FAULT_ONCE, false},   {FAULT_MEMORY, FAULT_ONWARD, false},
    {FAULT_SHORT, FAULT_EVERY, true},    {FAULT_ENOSPC, FAULT_ONCE, false},
    {FAULT_ENOSPC, FAULT_ONWARD, false}, {FAULT_EIO, FAULT_ONCE, false},
    {FAULT_EINTR, FAULT_EVERY, true},    {FAULT_FSYNC, FAULT_ONCE, false},
    {FAULT_FSYNC, FAULT_ONWARD, false},  {FAULT_RENAME, FAULT_ONCE, false},
    {FAULT_RENAME, FAULT_ONWARD, false}, {FAULT_RENAME, FAULT_EVERY, false},
    {FAULT_EXISTS, FAULT_ONCE, false},   {FAULT_EXISTS, FAULT_ONWARD, false},
    {FAULT_OPEN, FAULT_ONCE, false},     {FAULT_OPEN, FAULT_ONWARD, false},
    {FAULT_READ, FAULT_ONCE, false},     {FAULT_SHORT_READ, FAULT_EVERY, true},
    {FAULT_MAP, FAULT_ONCE, false},      {FAULT_STAT, FAULT_ONCE, false},
    {FAULT_CLOSE, FAULT_ONCE, false},
};

static char home[64];
static char said[SAID], wrote[SAID]; /* on stderr, on stdout */
static char now[256];                /* what is being done, for one who meets a failure */
static uint64_t start_at;            /* the first n that is tried: to see one failure again */
static uint64_t unsynced_renames, ended_in_json;
static uint64_t faults_done, survived, failed_well, wrong;

/* ------------------------------------------------------------------------------------------------- one command */

static void take(int fd, char *text) {
    if (lseek(fd, 0, SEEK_SET) != 0) abort();
    ssize_t n = read(fd, text, SAID - 1);
    text[n > 0 ? n : 0] = 0;
    if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0) abort();
}

static int caught[2]; /* files in memory that take the place of stdout and stderr */

/* What was said since the last time. */
static void catch_up(void) {
    take(caught[0], wrote);
    take(caught[1], said);
}

/* In this process, in the folder where it is; what it says is caught. */
static int run_caught(const char *line) {
    char copy[1024], *words[100] = {"sia"}, *rest = NULL;
    int count = 1;
    (void)snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    (void)fflush(NULL);
    int old_out = dup(STDOUT_FILENO), old_err = dup(STDERR_FILENO);
    if (dup2(caught[0], STDOUT_FILENO) < 0 || dup2(caught[1], STDERR_FILENO) < 0) abort();
    int code = cli_main(count, words);
    faults_disarm();
    (void)fflush(NULL);
    if (dup2(old_out, STDOUT_FILENO) < 0 || dup2(old_err, STDERR_FILENO) < 0) abort();
    (void)close(old_out);
    (void)close(old_err);
    return code;
}

static int run(const char *line) {
    int code = run_caught(line);
    catch_up();
    return code;
}

static int descriptors(void) {
    int count = 0;
    DIR *open = opendir("/proc/self/fd");
    while (open && readdir(open)) count++;
    if (open) (void)closedir(open);
    return count;
}

/* ------------------------------------------------------------------------------------------------ one operation */

typedef struct trial {
    const operation *op;
    tree before, after;
    char *output; /* on stdout, without a fault */
} trial;

static void start_from(const tree *t) {
    tree_remove("work");
    tree_write(t, "work");
    if (chdir("work") != 0) abort();
}

static void back(void) {
    if (chdir(home) != 0) abort();
}

static void prepare(trial *t) {
    char lines[2048], *rest = NULL;
    (void)snprintf(lines, sizeof lines, "%s", t->op->prepare);
    start_from(&(tree){0});
    for (char *line = strtok_r(lines, ";", &rest); line; line = strtok_r(NULL, ";", &rest)) {
        if (line[0] == '-')
            tree_remove(line + 1);
        else if (run(line) != 0) {
            (void)fprintf(stderr, "%s: %s: %s", t->op->name, line, said);
            exit(1);
        }
    }
    back();
    t->before = tree_read("work");
    start_from(&t->before);
    int code = run(t->op->command);
    if ((code != 0) != t->op->refused) {
        (void)fprintf(stderr, "%s: %s: exit code %d: %s", t->op->name, t->op->command, code, said);
        exit(1);
    }
    t->output = strdup(wrote);
    back();
    t->after = tree_read("work");
}

static void complain(const char *why) {
    wrong++;
    if (wrong <= 40) (void)fprintf(stderr, "%s: %s\n    %s", now, why, *said ? said : "\n");
}

/* The words that measure are not compared. */
static bool same_output(const char *a, const char *b) {
    const char *x = strstr(a, "\"text\""), *y = strstr(b, "\"text\"");
    if (!x || !y) return !x == !y;
    return strncmp(x, y, strcspn(x, "}") < 40 ? strcspn(x, "}") : 40) == 0;
}

/* With the fault, then without. */
static void check(const trial *t, int code, bool harmless, bool finished) {
    char why[TREE_WHY];
    tree found = tree_read("work");
    if (code == 0) {
        survived++;
        if (t->op->refused) complain("was done, and should have been refused");
        if (!tree_same(&t->after, &found, why)) complain(why);
        if (!same_output(t->output, wrote)) complain("other output, without a word");
    } else {
        failed_well++;
        if (harmless && !t->op->refused) complain("failed, though nothing was lost");
        if (code != CLI_FAILED && !(t->op->refused && code == CLI_USAGE))
            complain("another exit code than 1");
        if (strncmp(said, "sia", 3) != 0 || !strchr(said, '\n') || strlen(said) < 10) complain("no sentence");
        if (!finished) tree_drop_temporary(&found); /* as after a kill */
        if (!tree_between(&t->before, &t->after, &found, why)) complain(why);
    }
    tree_free(&found);
    if (code == 0 || t->op->refused) return;
    char first[SAID];
    memcpy(first, said, sizeof first);
    if (chdir("work") != 0) abort();
    code = run(t->op->command);
    back();
    found = tree_read("work");
    if (!finished) tree_drop_temporary(&found);
    /* data pack refuses to write over a folder: here it was made, and only its end could not be told */
    if (code != 0 && !(tree_same(&t->after, &found, why) && strstr(said, "exists already")))
        complain("cannot be done again");
    else if (!tree_same(&t->after, &found, why)) {
        memcpy(said, first, sizeof said);
        complain(why);
    }
    tree_free(&found);
}

/* What the child that ran the command found out about itself. */
typedef struct outcome {
    bool finished; /* it came back from the command */
    uint64_t hit, unsynced;
    size_t leaked;
    int descriptors;
} outcome;

/* In a process of its own: jansson does not survive an allocation that fails within it, and the program ends there with a
 * sentence, as after a kill. Returns the exit code, -1 for a crash. */
static int run_apart(const trial *t, size_t plan, uint64_t n, outcome *o) {
    int status;
    *o = (outcome){0};
    (void)fflush(NULL);
    pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) {
        if (chdir("work") != 0) abort();
        size_t live = faults_live();
        int open = descriptors();
        uint64_t unsynced = faults_unsynced();
        faults_arm(plans[plan].kind, plans[plan].mode, n);
        int code = run_caught(t->op->command);
        o->hit = faults_hit();
        o->leaked = faults_live() - live;
        o->descriptors = descriptors() - open;
        o->unsynced = faults_unsynced() - unsynced;
        o->finished = true;
        faults_disarm();
        end_child(code);
    }
    if (waitpid(child, &status, 0) != child) abort();
    catch_up();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool try_one(const trial *t, size_t plan, uint64_t n) {
    static outcome *o; /* shared with the child */
    if (!o) o = mmap(NULL, sizeof *o, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (o == MAP_FAILED) abort();
    (void)snprintf(now, sizeof now, "%s, %s %s %llu", t->op->name, fault_name(plans[plan].kind),
                   plans[plan].mode == FAULT_ONCE     ? "number"
                   : plans[plan].mode == FAULT_ONWARD ? "from number"
                                                      : "every",
                   (unsigned long long)n);
    tree_remove("work");
    tree_write(&t->before, "work");
    int code = run_apart(t, plan, n, o);
    char why[128];
    (void)snprintf(why, sizeof why, "%zd blocks of memory leak", (ssize_t)o->leaked);
    if (o->leaked) complain(why);
    if (o->descriptors) complain("a descriptor leaks");
    if (code < 0) complain("crashed");
    if (o->finished && !o->hit) return false;
    faults_done += o->finished ? o->hit : 1;
    unsynced_renames += o->unsynced;
    ended_in_json += !o->finished;
    check(t, code, plans[plan].harmless, o->finished);
    return true;
}

/* All n, or the first ones and some between them and the last. */
static void sweep(const trial *t, size_t plan, bool all) {
    start_from(&t->before);
    faults_arm(plans[plan].kind, FAULT_ONCE, UINT64_MAX);
    (void)run(t->op->command);
    uint64_t calls = faults_calls(), tried = 0, first = plans[plan].mode == FAULT_EVERY ? 2 : 1;
    back();
    for (uint64_t n = first > start_at ? first : start_at; n <= calls; tried++) {
        if (!try_one(t, plan, n)) break;
        uint64_t step = all || n < SAMPLE / 2 || calls <= SAMPLE ? 1 : 2 * calls / SAMPLE;
        n += step > 1 ? 1 + sia_random_below(plan, n, step) : 1;
    }
    if (calls)
        printf("  %-20s %-12s %-7s %6llu calls, %5llu tried\n", t->op->name, fault_name(plans[plan].kind),
               plans[plan].mode == FAULT_ONCE     ? "once"
               : plans[plan].mode == FAULT_ONWARD ? "onward"
                                                  : "every",
               (unsigned long long)calls, (unsigned long long)tried);
    (void)fflush(stdout);
}

/* Which operations and which kinds of fault a person named; all of them where none is named. */
typedef struct choice {
    bool operation[sizeof operations / sizeof *operations], kind[FAULT_KINDS];
} choice;

static bool choose(choice *c, int count, char **names) {
    size_t operations_named = 0, kinds_named = 0;
    *c = (choice){0};
    for (int i = 0; i < count; i++) {
        size_t before = operations_named + kinds_named;
        for (size_t k = 0; k < sizeof c->operation; k++)
            if (strcmp(names[i], operations[k].name) == 0) c->operation[k] = true, operations_named++;
        for (size_t k = 0; k < FAULT_KINDS; k++)
            if (strcmp(names[i], fault_name((fault_kind)k)) == 0) c->kind[k] = true, kinds_named++;
        if (operations_named + kinds_named == before) {
            (void)fprintf(stderr, "test_faults: no operation and no kind of fault has the name %s\n",
                          names[i]);
            return false;
        }
    }
    if (!operations_named) memset(c->operation, true, sizeof c->operation);
    if (!kinds_named) memset(c->kind, true, sizeof c->kind);
    return true;
}

/* The layer itself: what is renamed before it was synced is seen. */
static bool sees_unsynced(void) {
    uint64_t before = faults_unsynced();
    tree_remove("work");
    if (mkdir("work", 0777) != 0) return false;
    int fd = open("work/a", O_CREAT | O_WRONLY, 0666);
    bool written = fd >= 0 && write(fd, "x", 1) == 1;
    return written && rename("work/a", "work/b") == 0 && close(fd) == 0 && faults_unsynced() == before + 1;
}

int main(int argc, char **argv) {
    bool all = argc > 1 && strncmp(argv[1], "--all", 5) == 0;
    if (all && argv[1][5] == '=') start_at = strtoull(argv[1] + 6, NULL, 10);
    choice chosen;
    if (!choose(&chosen, argc - 1 - all, argv + 1 + all)) return 2;
    faults_install();
    caught[0] = memfd_create("out", 0);
    caught[1] = memfd_create("err", 0);
    /* In memory where the system has such a place: thousands of small folders come and go. */
    (void)snprintf(home, sizeof home, "%s/sia-faults-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(home) || chdir(home) != 0) return 1;
    if (!sees_unsynced()) {
        (void)fputs("the fault layer does not see a rename without fsync\n", stderr);
        return 1;
    }
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (!chosen.operation[i]) continue;
        trial t = {.op = &operations[i]};
        prepare(&t);
        for (size_t plan = 0; plan < sizeof plans / sizeof *plans; plan++)
            if (chosen.kind[plans[plan].kind]) sweep(&t, plan, all);
        tree_free(&t.before);
        tree_free(&t.after);
        free(t.output);
    }
    printf("%llu faults: %llu runs succeeded all the same, %llu failed as they should, %llu went wrong; %llu "
           "renames "
           "before the data was synced; %llu ended within jansson\n",
           (unsigned long long)faults_done, (unsigned long long)survived, (unsigned long long)failed_well,
           (unsigned long long)wrong, (unsigned long long)unsynced_renames,
           (unsigned long long)ended_in_json);
    if (chdir("/") == 0) tree_remove(home);
    return wrong || unsynced_renames || faults_done < 10;
}
