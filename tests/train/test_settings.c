/* SPDX-License-Identifier: MIT
 *
 * Settings to JSON and back, and config files that nobody should believe: each is refused with a sentence
 * that names the file and what was wanted. */
#include "support.h"

#include "base/json.h"
#include "model/config.h"
#include "train/data.h"
#include "train/settings.h"
#include "train/train.h"

static const char *const presets[] = {"tiny", "small", "medium", "paper-162m", "paper-304m"};

static json_t *parse(const char *text) {
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!json) fail_msg("no JSON: %s", text);
    return json;
}

/* All of it, every number to its last bit, through the text of a file. */
static void test_round_trip(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        sia_settings s, back = {0};
        OK(sia_settings_preset(&s, presets[i], &said));
        s.model.tau = 0.1;
        s.training.matrix_rate = 1.0 / 3;
        s.training.data_seed = 8999999999999999;
        OK(sia_settings_complete(&s, &said));
        json_t *json = sia_settings_json(&s);
        char *text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
        json_t *again = parse(text);
        OK(sia_settings_read(&back, again, "config.json", &said));
        OK(sia_settings_complete(&back, &said));
        json_t *second = sia_settings_json(&back);
        assert_true(json_equal(json, second));
        assert_true(back.model.tau == s.model.tau && back.training.matrix_rate == s.training.matrix_rate);
        json_decref(json);
        json_decref(again);
        json_decref(second);
        free(text);
    }
}

/* What a file sets is what attention gets, each number by its name; heads and lengths among them. */
static void test_attention(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t offset;
    } reals[] = {
        {"tau", offsetof(sia_attention_config, tau)},
        {"alpha", offsetof(sia_attention_config, alpha)},
        {"beta", offsetof(sia_attention_config, beta)},
        {"sharp", offsetof(sia_attention_config, sharp)},
        {"rotary_base", offsetof(sia_attention_config, rotary_base)},
        {"prope_base", offsetof(sia_attention_config, prope_base)},
        {"prope_share", offsetof(sia_attention_config, prope_share)},
    };
    size_t found = 0;
    for (const sia_field *field = sia_model_fields; field->name; field++) {
        if (field->kind != SIA_FIELD_REAL) continue;
        sia_model_config c = {
            .layers = 1, .width = 32, .heads = 4, .kv_heads = 2, .vocabulary = 9, .train_len = 64};
        sia_field_set(&c, field, 0.75);
        OK(sia_model_config_complete(&c, &said));
        sia_attention_config a = sia_model_attention(&c, 3, 128);
        double got = 0;
        for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
            if (!strcmp(reals[i].name, field->name))
                memcpy(&got, (const char *)&a + reals[i].offset, sizeof got);
        if (!(got == 0.75))
            fail_msg("%s: not in the table of this test, or it does not reach attention", field->name);
        assert_true(a.heads == 4 && a.kv_heads == 2 && a.head_dim == 8 && a.train_len == 64 &&
                    a.eval_len == 128 && a.threads == 3);
        found++;
    }
    assert_int_equal(found, sizeof reals / sizeof *reals);
}

/* A file that names little changes little. */
static void test_part(void **state) {
    (void)state;
    sia_settings s, tiny;
    OK(sia_settings_preset(&s, "tiny", &said));
    tiny = s;
    json_t *json = parse("{\"training\": {\"steps\": 7, \"multiples\": [1, 2]}, \"note\": \"mine\"}");
    OK(sia_settings_read(&s, json, "mine.json", &said));
    json_decref(json);
    assert_int_equal(s.training.steps, 7);
    assert_int_equal(s.training.multiples[1], 2);
    assert_int_equal(s.training.multiples[2], 0);
    s.training.steps = tiny.training.steps;
    memcpy(s.training.multiples, tiny.training.multiples, sizeof s.training.multiples);
    assert_memory_equal(&s, &tiny, sizeof s);
}

/* The text of a config.json, and what is said of it; the file's name comes first wherever the file is at
 * fault. */
static const struct {
    const char *text, *sentence;
} hostile[] = {
    {"", "config.json: line 1: "},
    {"{", "config.json: line 1: "},
    {"\n\n{\"model\": }", "config.json: line 3: "},
    {"[]", "config.json: not a JSON object"},
    {"7", "config.json: "},
    {"{\"model\": {\"layers\": 1, \"layers\": 2}}", "config.json: line 1: duplicate"},
    {"{\"model\": {\"scheme\": \"\xff\"}}", "config.json: line 1: "},
    {"{\"model\": 3}", "config.json: the model is not a JSON object"},
    {"{\"model\": {\"layer\": 3}}", "config.json: 'layer' is not a model setting"},
    {"{\"model\": {\"layers\": \"3\"}}", "config.json: layers is not a whole number"},
    {"{\"model\": {\"layers\": 3.5}}", "config.json: layers is not a whole number"},
    {"{\"model\": {\"layers\": 0}}", "config.json: layers 0: want 1 to 1024"},
    {"{\"model\": {\"vocabulary\": 1048577}}", "config.json: vocabulary 1048577: want 2 to 1048576"},
    {"{\"model\": {\"layers\": -1}}", "config.json: layers -1: want 1 to 1024"},
    {"{\"model\": {\"layers\": 9223372036854775807}}", "config.json: layers 9.223372037e+18: want 1 to 1024"},
    {"{\"model\": {\"layers\": 99999999999999999999}}", "config.json: line 1: too big integer"},
    {"{\"model\": {\"layers\": null}}", "config.json: layers is not a whole number"},
    {"{\"model\": {\"width\": 100000}}", "config.json: width 100000: want 8 to 65536"},
    {"{\"model\": {\"tau\": 0}}", "config.json: tau 0: want"},
    {"{\"model\": {\"tau\": 1e999}}", "config.json: line 1: real number overflow"},
    {"{\"model\": {\"tau\": true}}", "config.json: tau is not a number"},
    {"{\"model\": {\"prope_share\": 1.5}}", "config.json: prope_share 1.5: want 1e-09 to 1"},
    {"{\"model\": {\"init\": \"wide\"}}", "config.json: init: want one of: paper narrow"},
    {"{\"model\": {\"init\": 1}}", "config.json: init: want one of: paper narrow"},
    {"{\"model\": {\"scheme\": 1}}", "config.json: scheme is not a text"},
    {"{\"model\": {\"scheme\": \"si+what\"}}", "what"},
    {"{\"model\": {\"seed\": 9007199254740993}}", "config.json: seed 9.007199255e+15: want 0 to 9e+15"},
    {"{\"model\": {\"seed\": -1}}", "config.json: seed -1: want"},
    {"{\"model\": {\"layers\": 1, \"width\": 32, \"heads\": 3, \"vocabulary\": 64, \"train_len\": 8}}",
     "width 32: want a multiple of the 3 heads"},
    {"{\"model\": {\"layers\": 1}}", "width 0: want 8 to 65536"},
    {"{\"training\": []}", "config.json: training is not a JSON object"},
    {"{\"training\": {\"step\": 3}}", "config.json: 'step' is not a training setting"},
    {"{\"training\": {\"steps\": 0}}", "config.json: steps 0: want 1 to"},
    {"{\"training\": {\"recompute\": 1}}", "config.json: recompute: want true or false"},
    {"{\"training\": {\"schedule\": \"step\"}}",
     "config.json: schedule: want one of: constant linear cosine"},
    {"{\"training\": {\"order\": \"up\"}}", "config.json: order: want one of: sequential shuffled"},
    {"{\"training\": {\"matrix_rate\": -0.1}}", "config.json: matrix_rate -0.1: want 0 to 1000"},
    {"{\"training\": {\"beta1\": 1}}", "config.json: beta1 1: want"},
    {"{\"training\": {\"multiples\": [1,2,3,4,5,6,7,8]}}",
     "config.json: multiples: want a list of at most 7"},
    {"{\"training\": {\"multiples\": 4}}", "config.json: multiples: want a list"},
    {"{\"training\": {\"multiples\": [1, 0]}}", "config.json: multiples: want whole numbers from 1 on"},
    {"{\"training\": {\"multiples\": [1.5]}}", "config.json: multiples: want whole numbers from 1 on"},
};

static void test_hostile(void **state) {
    (void)state;
    int failures = 0;
    assert_int_equal(mkdir(in_scratch("run"), 0700), 0);
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        sia_settings s;
        sia_error err = {0};
        json_t *data = NULL;
        (void)write_text("run/config.json", hostile[i].text);
        sia_status status = sia_train_config_read(in_scratch("run"), &s, &data, &err);
        if (status != SIA_OK && strstr(err.text, hostile[i].sentence) && !data) continue;
        failures++;
        print_message("%s\n  status %d, '%s'; want '%s'\n", hostile[i].text, (int)status, err.text,
                      hostile[i].sentence);
        json_decref(data);
    }
    assert_int_equal(failures, 0);
    (void)remove(in_scratch("run/config.json"));
    sia_settings s;
    sia_error err;
    assert_int_equal(sia_train_config_read(in_scratch("run"), &s, NULL, &err), SIA_FILE);
    assert_sentence(&err, "config.json: No such file");
}

/* A whole file that is cut anywhere is refused; so is one that is larger than any that we write. */
static void test_cut(void **state) {
    (void)state;
    sia_settings s, found;
    OK(sia_settings_preset(&s, "tiny", &said));
    OK(sia_settings_complete(&s, &said));
    json_t *json = sia_settings_json(&s);
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(json);
    size_t size = strlen(text);
    (void)write_text("run/config.json", text);
    OK(sia_train_config_read(in_scratch("run"), &found, NULL, &said));
    for (size_t cut = 0; cut < size; cut += 7) {
        (void)write_file("run/config.json", text, cut);
        assert_int_equal(sia_train_config_read(in_scratch("run"), &found, NULL, NULL), SIA_FORMAT);
    }
    free(text);
    char *large = calloc(1, 2 << 20);
    assert_non_null(large);
    memset(large, ' ', 2 << 20);
    (void)write_file("run/config.json", large, 2 << 20);
    sia_status status = sia_train_config_read(in_scratch("run"), &found, NULL, NULL);
    free(large);
    assert_true(status != SIA_OK);
}

static void test_multiples(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int count;
    } cases[] = {{"1x", 1},
                 {"1x,4x,16x", 3},
                 {"1x,2x,3x,4x,5x,6x,7x", 7},
                 {"1x,2x,3x,4x,5x,6x,7x,8x", 0},
                 {"", 0},
                 {"x", 0},
                 {"0x", 0},
                 {"-1x", 0},
                 {"1x,", 0},
                 {"1", 0},
                 {"1x 4x", 0},
                 {"1x,4x,1x", 0},
                 {"99999999999999999999x", 0},
                 {"1xx", 0},
                 {",1x", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t multiples[SIA_MAX_LENGTHS];
        sia_error err;
        sia_status status = sia_multiples_parse(cases[i].text, multiples, &err);
        int count = 0;
        while (!status && count < SIA_MAX_LENGTHS && multiples[count]) count++;
        /* A number beyond 2^63 is read as the largest, and is then refused with the rest of the settings. */
        if (status == SIA_OK && strlen(cases[i].text) > 20 && count == 1) continue;
        if (count != cases[i].count) fail_msg("'%s': %d multiples", cases[i].text, count);
    }
}

/* Lengths of evaluation that no position reaches. */
static void test_lengths(void **state) {
    (void)state;
    const int64_t wrong[] = {-1, SIA_MAX_POSITION, INT64_MAX};
    for (int i = 0; i < 3; i++) {
        sia_settings s;
        sia_error err;
        OK(sia_settings_preset(&s, "tiny", &said));
        s.training.multiples[0] = wrong[i];
        assert_int_equal(sia_settings_complete(&s, &err), SIA_ARGUMENT);
        assert_sentence(&err, "want 1x or more, and at most 2^30 tokens");
    }
}

#define GENERATED(words, documents, val_documents)                                           \
    "{\"kind\": \"generated\", \"seed\": 1, \"words\": " words ", \"documents\": " documents \
    ", \"val_documents\": " val_documents "}"

/* What a config.json says of the data, and a folder that has it or not. */
static void test_descriptions(void **state) {
    (void)state;
    static const struct {
        const char *description;
        bool tokenizer;
        sia_status status;
        const char *sentence;
    } cases[] = {
        {"{}", true, SIA_FORMAT, "described/config.json: no data is described"},
        {"{\"kind\": 7}", true, SIA_FORMAT, "described/config.json: no data is described"},
        {"{\"kind\": \"packed\"}", true, SIA_FORMAT, "described/config.json: the data has no path"},
        {"{\"kind\": \"packed\", \"path\": \"data\"}", false, SIA_FILE, "described: no tokenizer.json"},
        {"{\"kind\": \"packed\", \"path\": \"data\"}", true, SIA_FILE, "described/data"},
        {"{\"kind\": \"tape\", \"path\": \"data\"}", true, SIA_FORMAT, "data of kind 'tape' is not known"},
        {"{\"kind\": \"generated\", \"seed\": 1}", true, SIA_FORMAT,
         "the generated text is not described in full"},
        {GENERATED("1073741824", "1", "3"), true, SIA_FORMAT, "more generated text than a run is given"},
        {GENERATED("16384", "1125899906842624", "1"), true, SIA_FORMAT,
         "more generated text than a run is given"},
        {GENERATED("16384", "8194", "1"), true, SIA_FORMAT, "more generated text than a run is given"},
        {GENERATED("16384", "1", "4097"), true, SIA_FORMAT, "more generated text than a run is given"},
        {GENERATED("0", "1", "1"), true, SIA_FORMAT, "the generated text is not described in full"},
        {"{\"kind\": \"shards\", \"path\": \"d*/../d*/../t.bin\"}", true, SIA_ARGUMENT, "not of folders"},
    };
    assert_int_equal(mkdir(in_scratch("described"), 0777), 0);
    sia_tokenizer *tokenizer = small_tokenizer(400);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].tokenizer)
            OK(sia_tokenizer_save(tokenizer, in_scratch("described/tokenizer.json"), &said));
        else
            (void)unlink(in_scratch("described/tokenizer.json"));
        json_t *json = parse(cases[i].description);
        sia_train_data d;
        sia_error err;
        assert_int_equal(
            sia_train_data_open(&d, json,
                                &(sia_data_opening){.folder = in_scratch("described"), .threads = 1}, &err),
            cases[i].status);
        assert_sentence(&err, cases[i].sentence);
        assert_null(d.description); /* nothing is held */
        json_decref(json);
    }
    sia_tokenizer_close(tokenizer);
}

static bool stop_now(void) { return true; }

/* One who evaluates has the text to validate on alone; one who wants to stop is heard. */
static void test_generated(void **state) {
    (void)state;
    sia_train_data both, val;
    sia_error err;
    assert_int_equal(mkdir(in_scratch("made"), 0777), 0);
    sia_tokenizer *tokenizer = small_tokenizer(400);
    OK(sia_train_tokenizer_save(tokenizer, in_scratch("made"), &said));
    json_t *json = parse(GENERATED("16384", "3", "2"));
    sia_data_opening opening = {.folder = in_scratch("made"), .threads = 1};
    OK(sia_train_data_open(&both, json, &opening, &said));
    opening.val_only = true;
    OK(sia_train_data_open(&val, json, &opening, &said));
    assert_null(val.train);
    assert_int_equal(sia_corpus_documents(both.train), 3);
    assert_int_equal(sia_corpus_documents(val.val), 2);
    assert_int_equal(sia_corpus_tokens(val.val), sia_corpus_tokens(both.val));
    sia_train_data_close(&both);
    sia_train_data_close(&val);
    opening.stopped = stop_now;
    assert_int_equal(sia_train_data_open(&val, json, &opening, &err), SIA_STOPPED);
    json_decref(json);
    sia_tokenizer_close(tokenizer);
    /* More than may be described is refused when a run is begun: four windows are in a document, 4096 documents the most. */
    sia_settings s;
    sia_train_data d;
    OK(sia_settings_preset(&s, "tiny", &said));
    s.training.eval_windows = 4 * 4096 + 1;
    assert_int_equal(
        sia_train_data_prepare(&d, &(sia_data_source){.threads = 1}, in_scratch("made"), &s, &err),
        SIA_ARGUMENT);
    assert_sentence(&err, "validation on 16385 windows of 4096 tokens: want at most 67108864 words");
    s.training.eval_windows = 2;
    assert_int_equal(sia_train_data_prepare(&d, &(sia_data_source){.threads = 1, .stopped = stop_now},
                                            in_scratch("made"), &s, &err),
                     SIA_STOPPED);
}

/* What is where a run packs its text: only a pack, which a start that was killed left, is removed. */
static void test_old_pack(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_scratch("old"), 0777), 0);
    assert_int_equal(mkdir(in_scratch("old/data"), 0777), 0);
    assert_int_equal(symlink(in_scratch("old/data"), in_scratch("way")), 0);
    sia_tokenizer *tokenizer = small_tokenizer(400);
    OK(sia_tokenizer_save(tokenizer, in_scratch("old.json"), &said));
    char *text = NULL;
    size_t bytes;
    sia_source *source;
    OK(sia_source_create(&source, 5, 3000, &said));
    OK(sia_source_document(source, 0, NULL, &text, &bytes, &said));
    sia_source_destroy(source);
    (void)write_file("book.txt", text, bytes);
    /* Of each case the next one finds what it left: a pack after one that was begun. */
    const struct {
        const char *left, *input, *tokenizer, *sentence; /* sentence NULL: the run is begun */
    } cases[] = {
        {NULL, "book.txt", "old.json", NULL},
        {NULL, "book.txt", "old.json", NULL}, /* over the pack of the first */
        {NULL, "way/tokenizer.json", "old.json", "way/tokenizer.json: lies in "},
        {NULL, "book.txt", "old/data/tokenizer.json", "old/data/tokenizer.json: lies in "},
        {"old/data/notes.txt", "book.txt", "old.json", "old/data: holds files that are not packed text"},
        {"old/data/data.json", "book.txt", "old.json", "old/data: holds files that are not packed text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *paths[] = {in_scratch(cases[i].input)};
        if (cases[i].left) (void)write_text(cases[i].left, "{}");
        sia_settings s;
        sia_train_data d;
        sia_error err;
        OK(sia_settings_preset(&s, "tiny", &said));
        sia_data_source from = {.paths = paths,
                                .count = 1,
                                .tokenizer = in_scratch(cases[i].tokenizer),
                                .val_fraction = 0.1,
                                .threads = 1};
        sia_status status = sia_train_data_prepare(&d, &from, in_scratch("old"), &s, &err);
        if (status != (cases[i].sentence ? SIA_ARGUMENT : SIA_OK))
            fail_msg("case %zu: %s", i, status ? err.text : "taken");
        if (cases[i].sentence) assert_sentence(&err, cases[i].sentence);
        assert_true(exists(in_scratch("old/data/train_000000.bin")));
        if (cases[i].left) assert_int_equal(unlink(in_scratch(cases[i].left)), 0);
        sia_train_data_close(&d);
    }
    free(text);
    sia_tokenizer_close(tokenizer);
}

/* What a person names and has no meaning is refused, before anything is read. */
static void test_sources(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_scratch("packed"), 0777), 0);
    (void)write_text("packed/data.json", "{}");
    char *two[] = {"a.txt", "b.bin"}, *text[] = {"a.txt"}, *packed[] = {in_scratch("packed")};
    const struct {
        sia_data_source source;
        const char *sentence;
    } cases[] = {
        {{.paths = two, .count = 2}, "b.bin: shards stand alone: want one folder or one pattern"},
        {{.val = "v.txt"}, "val v.txt: generated text has its own text to validate on"},
        {{.paths = packed, .count = 1, .val = "v.txt"},
         "val v.txt: a packed folder has its own text to validate on"},
        {{.fraction_given = true}, "val-fraction: only for text files"},
        {{.paths = two + 1, .count = 1, .fraction_given = true}, "val-fraction: only for text files"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_settings s;
        sia_train_data d;
        sia_error err;
        OK(sia_settings_preset(&s, "tiny", &said));
        assert_int_equal(sia_train_data_prepare(&d, &cases[i].source, scratch, &s, &err), SIA_ARGUMENT);
        assert_sentence(&err, cases[i].sentence);
        sia_train_data_close(&d);
    }
    /* A run goes on with what it was begun with, or with nothing named. */
    json_t *begun = parse("{\"names\": {\"files\": [\"a.txt\"], \"val\": \"v.txt\"}}");
    const struct {
        sia_data_source source;
        const char *other;
    } again[] = {
        {{0}, NULL},
        {{.paths = text, .count = 1}, NULL},
        {{.paths = text, .count = 1, .val = "v.txt"}, NULL},
        {{.paths = two, .count = 2}, "a.txt"},
        {{.paths = text, .count = 1, .val = "w.txt"}, "w.txt"},
        {{.tokenizer = "t.json"}, "t.json"},
    };
    for (size_t i = 0; i < sizeof again / sizeof *again; i++) {
        sia_error err;
        char sentence[100];
        sia_status status = sia_train_data_same(begun, &again[i].source, &err);
        assert_int_equal(status, again[i].other ? SIA_ARGUMENT : SIA_OK);
        if (!again[i].other) continue;
        (void)snprintf(sentence, sizeof sentence, "%s: the run was begun with other files: leave them out",
                       again[i].other);
        assert_sentence(&err, sentence);
    }
    json_decref(begun);
}

/* The first difference, for people; and text that is no UTF-8 as JSON. */
static void test_json(void **state) {
    (void)state;
    static const struct {
        const char *then, *now, *sentence;
    } cases[] = {
        {"{\"a\": 1}", "{\"a\": 2}", "a 1, not 2"},
        {"{\"a\": {\"b\": 1, \"c\": 2}}", "{\"a\": {\"b\": 1, \"c\": 3}}", "c 2, not 3"},
        {"{}", "{\"a\": true}", "a nothing, not true"},
        {"{\"a\": {\"b\": 1}, \"d\": 1}", "{\"a\": {}, \"d\": 2}", "d 1, not 2"},
        {"{\"a\": 1}", "{}", "other settings"},
        {"{\"a\": 1}", "{\"a\": \"0123456789012345678901234567890123456789012345678901234567890\"}",
         "a 1, not something long"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char room[160];
        json_t *then = parse(cases[i].then), *now = parse(cases[i].now);
        assert_string_equal(sia_json_difference(then, now, room), cases[i].sentence);
        json_decref(then);
        json_decref(now);
    }
    json_t *good = sia_json_text("caf\xc3\xa9"), *bad = sia_json_text("a\xff"
                                                                      "b");
    assert_string_equal(json_string_value(good), "caf\xc3\xa9");
    assert_non_null(bad);
    assert_true(json_string_value(bad)[0] == 'a' && !strstr(json_string_value(bad), "\xff"));
    json_decref(good);
    json_decref(bad);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_attention),
        cmocka_unit_test(test_part),       cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_cut),        cmocka_unit_test(test_multiples),
        cmocka_unit_test(test_lengths),    cmocka_unit_test(test_descriptions),
        cmocka_unit_test(test_sources),    cmocka_unit_test(test_generated),
        cmocka_unit_test(test_old_pack),   cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests_name("settings", tests, scratch_create, scratch_destroy);
}
