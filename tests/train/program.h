/* SPDX-License-Identifier: MIT
 *
 * The program in a process of its own: started, watched, killed, its checkpoints compared byte by byte.
 * Include cmocka and ../commands.h first: everything happens in the folder of commands.h.
 *
 *     pid_t child = start_program("train --out runs/a --steps 60", 0);
 *     wait_for_step(child, "runs/a", 12);
 *     kill(child, SIGINT);
 *     assert_int_equal(end_program(child), 130);                    what it said is in said_text */
#ifndef SIA_TESTS_TRAIN_PROGRAM_H
#define SIA_TESTS_TRAIN_PROGRAM_H

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "train/checkpoint.h"

static char said_text[65536];

/* A path in the folder; good until four more were asked for. */
static inline char *in_folder(const char *name) {
    static char paths[4][512];
    static int turn;
    char *path = paths[turn++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", command_folder, name);
    return path;
}

static inline double clock_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void sleep_seconds(double seconds) {
    struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    (void)nanosleep(&t, NULL);
}

/* Runs "SIA line"; words are divided by spaces, there is no shell between us and the process. most: no file
 * may grow beyond these bytes, as on a full disk; 0: no limit. */
static inline pid_t start_program(const char *line, rlim_t most) {
    char copy[2048], *words[128] = {getenv("SIA")};
    int count = 1;
    assert_true(strlen(line) < sizeof copy);
    memcpy(copy, line, strlen(line) + 1);
    for (char *word = strtok(copy, " "); word && count < 127; word = strtok(NULL, " ")) words[count++] = word;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    if (!words[0]) _exit(98);
    int out = open(in_folder("said"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct rlimit limit = {most, most};
    (void)signal(SIGXFSZ, SIG_IGN); /* a full disk sends no signal */
    if (chdir(command_folder) == 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0 &&
        (!most || setrlimit(RLIMIT_FSIZE, &limit) == 0))
        (void)execv(words[0], words);
    _exit(99);
}

/* The exit code, or 1000 + the signal that ended it. */
static inline int end_program(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    FILE *file = fopen(in_folder("said"), "r");
    said_text[file ? fread(said_text, 1, sizeof said_text - 1, file) : 0] = 0;
    if (file) (void)fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static inline int run_program(const char *line, rlim_t most) {
    return end_program(start_program(line, most));
}

/* Fails with what the program said. */
static inline void must(const char *line, int code) {
    int found = run_program(line, 0);
    if (found != code) fail_msg("sia %s: exit code %d, want %d: %s", line, found, code, said_text);
}

static inline void must_say(const char *words) {
    if (!strstr(said_text, words)) fail_msg("want '%s' in: %s", words, said_text);
}

/* ---------------------------------------------------------------------------------------- what a run left */

/* The largest step in the metrics of a run, 0 when there are none. */
static inline int64_t last_step(const char *run) {
    char name[256], line[4096];
    long long step = 0, found;
    (void)snprintf(name, sizeof name, "%s/metrics.jsonl", run);
    FILE *file = fopen(in_folder(name), "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "{\"step\":%lld", &found) == 1 && found > step) step = found;
    if (file) (void)fclose(file);
    return step;
}

static inline void wait_for_step(pid_t child, const char *run, int64_t step) {
    double until = clock_seconds() + 60;
    while (last_step(run) < step) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child) {
            (void)end_program(start_program("--version", 0));
            fail_msg("%s: ended (%d) before step %d", run, status, (int)step);
        }
        assert_true(clock_seconds() < until);
        sleep_seconds(0.0005);
    }
}

static inline int64_t newest_checkpoint(const char *run) {
    int64_t *steps, count;
    assert_int_equal(sia_checkpoint_list(in_folder(run), &steps, &count, NULL), SIA_OK);
    int64_t newest = count ? steps[count - 1] : 0;
    free(steps);
    return newest;
}

static inline char *bytes_of(const char *run, int64_t step, const char *file, size_t *size) {
    char name[256], *bytes;
    sia_error err;
    (void)snprintf(name, sizeof name, "%s/step-%06d/%s.safetensors", run, (int)step, file);
    if (sia_file_read(in_folder(name), 1 << 28, &bytes, size, &err)) fail_msg("%s", err.text);
    return bytes;
}

/* Both files of the checkpoint: tensors and metadata alike. */
static inline bool same_checkpoint(const char *a, const char *b, int64_t step) {
    bool same = true;
    static const char *const files[] = {"model", "optimizer"};
    for (int i = 0; i < 2; i++) {
        size_t sizes[2];
        char *one = bytes_of(a, step, files[i], &sizes[0]), *two = bytes_of(b, step, files[i], &sizes[1]);
        same = same && sizes[0] == sizes[1] && memcmp(one, two, sizes[0]) == 0;
        free(one);
        free(two);
    }
    return same;
}

#endif
