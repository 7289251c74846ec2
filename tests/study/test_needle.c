/* SPDX-License-Identifier: MIT
 *
 * The needle study on runs that take a moment: what it leaves, that it goes on to the same lines, and that a
 * small model learns a small task. */
#include "eval/small_run.h"
#include "support.h"

#include "base/file.h"
#include "study/needle.h"
#include "train/model_file.h"

enum { VOCABULARY = 400 };

static sia_settings small_settings(const char *scheme) {
    sia_settings s;
    OK(sia_settings_preset(&s, "tiny", &said));
    s.model.layers = 1;
    s.model.width = 32;
    s.model.heads = 2;
    s.model.vocabulary = VOCABULARY;
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

/* A haystack as the study makes it, read by the model under a scheme that knows the length. */
static sia_retrieval_result read_as(sia_model *m, const sia_train_data *data, const sia_needle_settings *s,
                                    int64_t length, const char *scheme) {
    sia_retrieval_result result;
    sia_retrieval r = {.haystack = {.corpus = data->val,
                                    .tokenizer = data->tokenizer,
                                    .length = length,
                                    .needles = s->needles,
                                    .digits = s->digits,
                                    .one_token_a_digit = s->one_token_a_digit,
                                    .numbers_only = s->numbers_only,
                                    .known_cities = true,
                                    .seed = s->seed},
                       .samples = s->samples,
                       .threads = 1};
    assert_true(sia_corpus_tokens(data->val) >= length);
    OK(sia_model_set_scheme(m, scheme, length, &said));
    OK(sia_retrieval_of_model(m, &r, &result, &said));
    return result;
}

/* The numbers that a study found at a length. */
static sia_retrieval_result result_in(char *text, int64_t length) {
    sia_retrieval_result r = {0};
    int depth = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *json = json_loads(line, 0, NULL);
        if (number(json, "length") == length && is(json, "kind", "needle-depth")) {
            assert_true(depth < SIA_DEPTHS);
            r.depth_count[depth] = number(json, "count");
            r.depth_right[depth++] = number(json, "right");
        } else if (number(json, "length") == length) {
            r.count = number(json, "count");
            r.right = number(json, "right");
        }
        json_decref(json);
    }
    return r;
}

/* Of a run with random weights: its model expects numbers for validation and nothing else, which of them the text
 * decides. */
static void expect_digits(const char *path, const sia_train_data *data) {
    sia_model *m;
    OK(sia_model_load(&m, path, 1, NULL, &said));
    for (int i = 0; i < sia_model_tensors(m); i++) {
        sia_tensor t = sia_model_tensor(m, i);
        memset(t.value, 0, (size_t)(t.rows * t.columns) * sizeof(float));
    }
    draw_weights(m, 1);
    const sia_parameter *unembedding = sia_unembedding(&m->parameters);
    int64_t width = unembedding->columns, kept = 0;
    float *rows = calloc((size_t)(unembedding->rows * width), sizeof *rows);
    assert_non_null(rows);
    for (int digit = 1; digit <= 9; digit++) {
        const char text = (char)('0' + digit);
        uint32_t id;
        size_t count;
        OK(sia_tokenizer_encode(data->tokenizer, &text, 1, &id, &count, &said));
        if (!sia_haystack_for_validation((uint64_t)digit)) continue;
        /* Each second row is the one before it turned round: one of them is above all others, which are 0. */
        for (int64_t c = 0; c < width; c++)
            rows[id * width + c] = (kept % 2 ? -1 : 1) * unembedding->value[kept / 2 * width + c];
        kept++;
    }
    memcpy(unembedding->value, rows, (size_t)(unembedding->rows * width) * sizeof *rows);
    free(rows);
    OK(save_run(path, m, NULL, &said));
    sia_model_destroy(m);
}

/* NTK and YaRN turn by other angles at every length: the study tells the model how long the text will be. */
static void schemes_that_know_the_length(void **state) {
    (void)state;
    static const char *const schemes[] = {"rope+ntk", "rope+yarn"};
    sia_needle_settings s = *quick();
    s.steps = 1;
    s.digits = 1;
    s.samples = 50;
    s.numbers_only = true;
    s.multiples[1] = 4;
    s.embedding_rate = s.matrix_rate = s.unembedding_rate = s.scalar_rate = 0;
    for (int i = 0; i < 2; i++) {
        char folder[512], copy[540];
        sia_needle_source run = {in_scratch(schemes[i]), NULL};
        sia_settings settings = small_settings(schemes[i]), ignored;
        sia_train_data data;
        sia_model *m;
        json_t *description;
        (void)snprintf(folder, sizeof folder, "%s-study", run.path);
        (void)snprintf(copy, sizeof copy, "%s/%s", folder, schemes[i]);
        pretrain(run.path, &settings);
        OK(sia_train_config_read(run.path, &ignored, &description, &said));
        OK(sia_train_data_open(&data, description, &(sia_data_opening){.folder = run.path, .threads = 1},
                               &said));
        expect_digits(run.path, &data);
        sia_needle_job job = {.folder = folder, .runs = &run, .count = 1, .settings = &s, .threads = 1};
        OK(sia_needle_run(&job, &said));
        OK(sia_model_load(&m, copy, 1, NULL, &said));
        char *text = lines_of(folder);
        sia_retrieval_result found = result_in(text, 512), told = read_as(m, &data, &s, 512, schemes[i]),
                             untold = read_as(m, &data, &s, 512, "rope");
        assert_memory_equal(&found, &told, sizeof found);
        assert_memory_not_equal(&found, &untold, sizeof found); /* else this test could not fail */
        free(text);
        sia_model_destroy(m);
        sia_train_data_close(&data);
        json_decref(description);
    }
}

/* Names go into JSON, which holds UTF-8 alone: the path of a run, and that of its text, which is in the run's folder. */
static void names_of_any_bytes(void **state) {
    (void)state;
    sia_settings settings = small_settings("rope");
    sia_source *words;
    char *text;
    size_t length;
    OK(sia_source_create(&words, 99, 20000, &said));
    OK(sia_source_document(words, 0, NULL, &text, &length, &said));
    char *path = write_file("text.txt", text, length);
    const struct {
        const char *folder;
        sia_data_source source;
        const char *sentence;
    } cases[] = {
        {in_scratch("a\xff"), {.threads = 1}, "a?: the name is not UTF-8"},
        {in_scratch("b\xff"),
         {.paths = &path, .count = 1, .val_fraction = 0.1, .threads = 1},
         "b?/data: the name is not UTF-8"},
    };
    for (int i = 0; i < 2; i++) {
        sia_train_job job = {
            .folder = cases[i].folder, .settings = &settings, .source = &cases[i].source, .threads = 1};
        counter c = {0};
        sia_needle_source run = {cases[i].folder, "good"};
        OK(sia_train(&job, &said));
        assert_int_equal(study(in_scratch("bytes"), &run, 1, 1, &c), SIA_ARGUMENT);
        assert_sentence(&said, cases[i].sentence);
        assert_int_equal(c.kinds[SIA_NEEDLE_TRAINING], 0);
    }
    free(text);
    sia_source_destroy(words);
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
    assert_sentence(&said, "line 2: want a JSON object");
    (void)write_text("whole/needle.jsonl", "{\"kind\":\"result\"}\n");
    assert_int_equal(sia_needle_run(&job, &said), SIA_FORMAT);
    assert_sentence(&said, "line 1 is not that of a needle study");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_study_goes_on),
        cmocka_unit_test(schemes_that_know_the_length),
        cmocka_unit_test(names_of_any_bytes),
        cmocka_unit_test(other_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_create, scratch_destroy);
}
