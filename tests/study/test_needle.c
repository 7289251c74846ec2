/* SPDX-License-Identifier: MIT
 *
 * The needle study on runs that take a moment: what it leaves, that it goes on to the same lines, and that a
 * small model learns a small task. */
#include "support.h"

#include "base/file.h"
#include "study/needle.h"

static sia_settings small_settings(const char *scheme) {
    sia_settings s;
    OK(sia_settings_preset(&s, "tiny", &said));
    s.model.layers = 1;
    s.model.width = 32;
    s.model.heads = 2;
    s.model.vocabulary = 400;
    s.model.train_len = 128;
    (void)snprintf(s.model.scheme, sizeof s.model.scheme, "%s", scheme);
    s.training.steps = 4;
    s.training.batch = 2;
    s.training.eval_windows = 2;
    return s;
}

static void pretrain(const char *path, const sia_settings *settings) {
    sia_data_source source = {.threads = 1};
    sia_train_job job = {.folder = path, .settings = settings, .source = &source, .threads = 1};
    OK(sia_train(&job, &said));
}

/* Asks to stop once it has been called so often, and goes on asking. */
typedef struct counter {
    int calls, stop_at, measured, found;
    int kinds[SIA_NEEDLE_FINISHED + 1];
} counter;

static int count(void *context, const sia_needle_event *e) {
    counter *c = context;
    c->kinds[e->kind]++;
    c->measured += e->kind == SIA_NEEDLE_MEASURED && !e->found;
    c->found += e->kind == SIA_NEEDLE_MEASURED && e->found;
    return ++c->calls >= c->stop_at && c->stop_at > 0;
}

static const sia_needle_settings *quick(void) {
    static sia_needle_settings s;
    s = sia_needle_usual;
    s.steps = 4;
    s.batch = 3;
    s.save_every = 2;
    s.samples = 5;
    s.needles = 1;
    s.digits = 3;
    s.multiples[1] = 2;
    s.multiples[2] = 0;
    return &s;
}

static sia_status study(const char *folder, const sia_needle_source *runs, int runs_count, int threads,
                        counter *c) {
    sia_needle_job job = {.folder = folder,
                          .runs = runs,
                          .count = runs_count,
                          .settings = quick(),
                          .threads = threads,
                          .resume = c->stop_at != -1,
                          .command = "sia needle",
                          .hook = count,
                          .hook_context = c};
    return sia_needle_run(&job, &said);
}

static char *lines_of(const char *folder) {
    char path[600], *text;
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/needle.jsonl", folder);
    OK(sia_file_read(path, 1 << 24, &text, &bytes, &said));
    return text;
}

static int64_t number(const json_t *line, const char *key) {
    return json_integer_value(json_object_get(line, key));
}

static bool is(const json_t *line, const char *key, const char *value) {
    const char *text = json_string_value(json_object_get(line, key));
    return text && strcmp(text, value) == 0;
}

/* ------------------------------------------------------------------------------------------------ tests */

/* Ten depths and a sum for each run and length, which agree. */
static void check_lines(char *text) {
    int sums = 0, depths = 0;
    int64_t depth_count = 0, depth_right = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *json = json_loads(line, 0, NULL);
        assert_non_null(json);
        if (is(json, "kind", "study")) {
            assert_true(sums == 0 && depths == 0);
            assert_int_equal(number(json_object_get(json, "config"), "digits"), 3);
            assert_true(is(json, "command", "sia needle"));
        } else if (is(json, "kind", "needle-depth")) {
            depths++;
            depth_count += number(json, "count");
            depth_right += number(json, "right");
        } else {
            assert_true(is(json, "kind", "needle"));
            assert_true(is(json, "scheme", sums < 2 ? "si+prope" : "logn+rope"));
            assert_int_equal(number(json, "length"), sums % 2 ? 256 : 128);
            assert_int_equal(number(json, "train_len"), 128);
            assert_int_equal(number(json, "count"), 5);
            assert_true(json_is_false(json_object_get(json, "learnt")));
            assert_int_equal(depths, 10 * ++sums);
            assert_int_equal(depth_count, 5 * sums);
            assert_true(depth_right >= number(json, "right"));
        }
        json_decref(json);
    }
    assert_int_equal(sums, 4);
}

static void a_stopped_study_goes_on(void **state) {
    (void)state;
    sia_needle_source runs[] = {{in_scratch("one"), NULL}, {in_scratch("two/"), NULL}};
    sia_settings one = small_settings("si+prope"), two = small_settings("logn+rope");
    pretrain(runs[0].path, &one);
    pretrain(runs[1].path, &two);
    char whole[512], again[540];
    (void)snprintf(whole, sizeof whole, "%s", in_scratch("whole"));
    counter c = {.stop_at = -1};
    OK(study(whole, runs, 2, 1, &c));
    assert_int_equal(c.measured, 4);
    assert_int_equal(c.kinds[SIA_NEEDLE_FINISHED], 2);
    char *want = lines_of(whole);
    /* Stopped at every event in turn, with other numbers of threads; then resumed. */
    /* The last two events tell the last result: nothing is left to stop then. */
    for (int stop = 1; stop <= c.calls - 2; stop += 3) {
        (void)snprintf(again, sizeof again, "%s-%d", whole, stop);
        counter first = {.stop_at = stop}, second = {0}, third = {0};
        sia_status status = study(again, runs, 2, 1 + stop % 2, &first);
        if (status != SIA_STOPPED) fail_msg("stop %d: %s", stop, status ? said.text : "not stopped");
        OK(study(again, runs, 2, 2 - stop % 2, &second));
        assert_int_equal(first.measured + second.measured, 4);
        assert_int_equal(second.found, first.measured);
        char *found = lines_of(again);
        assert_string_equal(found, want);
        free(found);
        /* All is there: nothing is trained and nothing is read. */
        OK(study(again, runs, 2, 1, &third));
        assert_int_equal(third.found, 4);
        assert_int_equal(third.kinds[SIA_NEEDLE_TRAINING] + third.kinds[SIA_NEEDLE_READING], 0);
    }
    check_lines(want);
    free(want);
}

static void other_settings_are_refused(void **state) {
    (void)state;
    sia_needle_source runs[] = {{in_scratch("one"), NULL}, {in_scratch("one"), NULL}};
    counter c = {.stop_at = -1};
    assert_int_equal(study(in_scratch("whole"), runs, 1, 1, &c), SIA_ARGUMENT);
    assert_sentence(&said, "holds a study already");
    c.stop_at = 0;
    assert_int_equal(study(in_scratch("new"), runs, 2, 1, &c), SIA_ARGUMENT);
    assert_sentence(&said, "two runs of one name, 'one'");
    runs[1] = (sia_needle_source){in_scratch("two"), "one"};
    assert_int_equal(study(in_scratch("whole"), runs + 1, 1, 1, &c), SIA_ARGUMENT);
    assert_sentence(&said, "a study is resumed with the same runs");
    runs[1].name = "../one";
    assert_int_equal(study(in_scratch("new"), runs + 1, 1, 1, &c), SIA_ARGUMENT);
    assert_int_equal(study(in_scratch("new"), runs, 0, 1, &c), SIA_ARGUMENT);
    runs[0].path = in_scratch("absent");
    assert_int_equal(study(in_scratch("new"), runs, 1, 1, &c), SIA_FILE);
    runs[0].path = in_scratch("one");
    sia_needle_settings s = *quick();
    s.steps++;
    sia_needle_job job = {
        .folder = in_scratch("whole"), .runs = runs, .count = 1, .settings = &s, .resume = true};
    assert_int_equal(sia_needle_run(&job, &said), SIA_ARGUMENT);
    assert_sentence(&said, "was begun with ");
    s = *quick();
    s.multiples[0] = 4;
    assert_int_equal(sia_needle_run(&job, &said), SIA_ARGUMENT);
    s = *quick();
    for (int i = 0; i < SIA_MAX_LENGTHS; i++) s.multiples[i] = i + 1;
    assert_int_equal(sia_needle_run(&job, &said), SIA_ARGUMENT);
    assert_sentence(&said, "needle: want 1 to ");
    s = *quick();
    s.samples = 0;
    assert_int_equal(sia_needle_run(&job, &said), SIA_ARGUMENT);
    (void)write_text("whole/needle.jsonl", "{\"kind\":\"study\"}\nnonsense\n");
    s = *quick();
    assert_int_equal(sia_needle_run(&job, &said), SIA_FORMAT);
    assert_sentence(&said, "line 2 is no JSON object");
    (void)write_text("whole/needle.jsonl", "{\"kind\":\"result\"}\n");
    assert_int_equal(sia_needle_run(&job, &said), SIA_FORMAT);
    assert_sentence(&said, "line 1 is not that of a needle study");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_study_goes_on),
        cmocka_unit_test(other_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_create, scratch_destroy);
}
