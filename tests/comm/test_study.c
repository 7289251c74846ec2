/* SPDX-License-Identifier: MIT
 *
 * Studies on ranks that are threads: the lines of one process, whoever trained what, and told by rank 0 once each. */
#include "data/support.h"

#include <jansson.h>

#include "study/compare.h"
#include "study/needle.h"
#include "threads.h"

enum { MOST_LINES = 64 };

typedef struct job {
    const char *folder;
    sia_needle_source *runs; /* of a needle study; NULL: a comparison */
    sia_status status[MOST_RANKS];
    sia_error said[MOST_RANKS];
    int results[MOST_RANKS]; /* that the hook heard of */
    double done[MOST_RANKS]; /* as it last heard */
    bool wrong;              /* done fell, or was no share */
} job;

typedef struct listener {
    job *j;
    int rank;
} listener;

static int compare_hook(void *context, const sia_compare_event *e) {
    const listener *l = context;
    /* Shares are sums of numbers that are not exact. */
    if (!(e->done >= l->j->done[l->rank] - 1e-9 && e->done <= 1 + 1e-9)) l->j->wrong = true;
    l->j->done[l->rank] = e->done;
    l->j->results[l->rank] += e->result != NULL;
    return 0;
}

static int needle_hook(void *context, const sia_needle_event *e) {
    const listener *l = context;
    l->j->results[l->rank] += e->kind == SIA_NEEDLE_MEASURED;
    return 0;
}

static void compare_work(sia_comm *c, void *context) {
    static const char *const schemes[] = {"rope", "rope+ntk", "si+prope", "alibi", "logn+rope"};
    job *j = context;
    listener l = {j, sia_comm_rank(c)};
    sia_settings s;
    sia_data_source source = {.threads = 1};
    if (sia_settings_preset(&s, "tiny", NULL)) abort();
    s.model.layers = 1;
    s.model.width = 16;
    s.model.heads = 2;
    s.model.vocabulary = 300;
    s.model.train_len = 128;
    s.training.batch = 2;
    s.training.steps = 3;
    s.training.log_every = 1;
    s.training.eval_every = 3;
    s.training.eval_windows = 2;
    memcpy(s.training.multiples, (int64_t[SIA_MAX_LENGTHS]){1, 2}, sizeof s.training.multiples);
    sia_compare_job study = {.folder = j->folder,
                             .settings = &s,
                             .schemes = schemes,
                             .scheme_count = 5,
                             .seeds = 1,
                             .source = &source,
                             .threads = 1,
                             .comm = c,
                             .hook = compare_hook,
                             .hook_context = &l};
    j->status[l.rank] = sia_compare(&study, &j->said[l.rank]);
}

static void needle_work(sia_comm *c, void *context) {
    job *j = context;
    listener l = {j, sia_comm_rank(c)};
    sia_needle_settings s = sia_needle_usual;
    s.steps = 2;
    s.batch = 3;
    s.samples = 5;
    s.needles = 1;
    s.multiples[1] = 2;
    s.multiples[2] = 0;
    sia_needle_job study = {.folder = j->folder,
                            .runs = j->runs,
                            .count = 1,
                            .settings = &s,
                            .threads = 1,
                            .comm = c,
                            .hook = needle_hook,
                            .hook_context = &l};
    j->status[l.rank] = sia_needle_run(&study, &j->said[l.rank]);
}

static job run(int ranks, void (*work)(sia_comm *c, void *context), job j) {
    run_ranks(ranks, 60, work, &j);
    for (int r = 0; r < ranks; r++)
        if (j.status[r]) fail_msg("rank %d of %d: %s", r, ranks, j.said[r].text);
    assert_false(j.wrong);
    return j;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The lines of a log, sorted, without what a clock said; returns how many there are. */
static int sorted_lines(const char *folder, const char *name, char **lines) {
    char path[1200];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    int count = 0;
    assert_non_null(file);
    for (json_t *line; (line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)); count++) {
        assert_true(count < MOST_LINES);
        (void)json_object_del(line, "train_seconds");
        (void)json_object_del(line, "date");
        lines[count] = json_dumps(line, JSON_SORT_KEYS);
        json_decref(line);
    }
    (void)fclose(file);
    qsort(lines, (size_t)count, sizeof *lines, by_text);
    return count;
}

static void assert_same_lines(const char *one, const char *all, const char *name) {
    char *want[MOST_LINES], *found[MOST_LINES];
    int count = sorted_lines(one, name, want);
    assert_int_equal(sorted_lines(all, name, found), count);
    for (int i = 0; i < count; i++) {
        assert_string_equal(found[i], want[i]);
        free(found[i]);
        free(want[i]);
    }
}

/* Five results of four trainings, on ranks that divide them, that do not, and that are more. */
static void comparisons(void **state) {
    (void)state;
    static const int ranks[] = {2, 3, 5};
    job one = run(1, compare_work, (job){.folder = in_scratch("compare-1")});
    assert_int_equal(one.results[0], 5);
    assert_true(one.done[0] > 1 - 1e-9);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "compare-%d", ranks[i]);
        job all = run(ranks[i], compare_work, (job){.folder = in_scratch(name)});
        assert_same_lines(in_scratch("compare-1"), all.folder, "compare.jsonl");
        assert_int_equal(all.results[0], 5); /* its own, and those of the others in the end */
        assert_true(all.done[0] > 1 - 1e-9);
        /* What is there is told again, and nothing is written. */
        job again = run(ranks[i], compare_work, (job){.folder = all.folder});
        assert_int_equal(again.results[0], 5);
        assert_same_lines(in_scratch("compare-1"), all.folder, "compare.jsonl");
    }
}

/* All ranks fine-tune together, and read their samples. */
static void needles(void **state) {
    (void)state;
    sia_needle_source runs[] = {{in_scratch("compare-1/runs/alibi-seed0"), NULL}};
    job one = run(1, needle_work, (job){.folder = in_scratch("needle-1"), .runs = runs});
    job all = run(3, needle_work, (job){.folder = in_scratch("needle-3"), .runs = runs});
    assert_int_equal(one.results[0], 2);
    assert_int_equal(all.results[0], 2);
    assert_same_lines(one.folder, all.folder, "needle.jsonl");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(comparisons), cmocka_unit_test(needles)};
    return cmocka_run_group_tests(tests, scratch_create, scratch_destroy);
}
