/* SPDX-License-Identifier: MIT
 *
 * Calls of the library while memory runs out: of every allocation of each, and of every mapping, the n-th fails, for
 * all n. Then the call succeeds all the same or says SIA_MEMORY with a sentence, and holds no block more than before.
 * What jansson takes is left out: see docs/reliability.md. And folders, where another process is quicker or a disk
 * fails between two renames. */
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>

#include "attention/attention.h"
#include "attention/ring.h"
#include "base/file.h"
#include "base/folder.h"
#include "comm/exchange.h"
#include "data/pack.h"
#include "data/statistics.h"
#include "data/windows.h"
#include "eval/probe.h"
#include "faults.h"
#include "model/tap.h"
#include "model/validation.h"
#include "position/scheme.h"
#include "report/report.h"
#include "support.h"
#include "text/tokenizer.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

enum { VOCABULARY = 300, LENGTH = 16, BATCH = 2, WORD = 5000 };

/* What calls use and do not make. */
static sia_tokenizer *tokenizer;
static sia_corpus *corpus;
static sia_windows *windows;
static sia_model *model;
static sia_settings settings;
static char study[512], tokenizer_path[512];

/* ------------------------------------------------------------------------------------------------ the calls */

/* The first failure: what follows is not called. */
#define TRY(call)                   \
    do {                            \
        if (!status) status = call; \
    } while (0)

static sia_status tokenizers(sia_error *err) {
    static const char words[] = "some words of a text, some more words of it, and a text of some words";
    static char word[WORD];
    static uint32_t ids[WORD];
    sia_tokenizer *made = NULL, *found = NULL;
    sia_text text = {words, sizeof words - 1};
    size_t count;
    sia_status status = SIA_OK;
    for (int i = 0; i < WORD; i++) word[i] = "some"[i % 4];
    TRY(sia_tokenizer_train(&made, &(sia_tokenizer_training){.size = 264, .threads = 1}, &text, 1, err));
    TRY(sia_tokenizer_encode(made, word, WORD, ids, &count, err)); /* longer than what is merged by looking */
    TRY(sia_tokenizer_save(made, tokenizer_path, err));
    TRY(sia_tokenizer_open(&found, tokenizer_path, err));
    sia_tokenizer_close(made);
    sia_tokenizer_close(found);
    return status;
}

/* Two threads, which fail in any order. */
static sia_status parallel_encoding(sia_error *err) {
    enum { BYTES = 1 << 20 };
    static char text[BYTES];
    static uint32_t ids[BYTES];
    size_t count;
    sia_tokenizer *own = NULL; /* one that was used keeps what it needs */
    for (int i = 0; i < BYTES; i++) text[i] = "some words "[i % 11];
    sia_status status = sia_tokenizer_open(&own, tokenizer_path, err);
    TRY(sia_tokenizer_encode_parallel(own, 2, text, BYTES, ids, &count, err));
    sia_tokenizer_close(own);
    return status;
}

static sia_status generated_text(sia_error *err) {
    sia_corpus *c = NULL;
    sia_windows *w = NULL;
    sia_status status = sia_corpus_generate(&c, tokenizer, 1, 0, 2, 300, 1, err);
    TRY(sia_windows_create(&w, c, LENGTH, 3, err));
    sia_windows_destroy(w);
    sia_corpus_close(c);
    return status;
}

static sia_status statistics(sia_error *err) {
    sia_sequence slice = {0};
    static uint32_t symbols[4000];
    for (uint32_t i = 0; i < 4000; i++) symbols[i] = i * i % 37;
    static const int64_t starts[] = {0, 1500, 4000};
    sia_sequence text = {.symbols = symbols, .count = 4000, .starts = starts, .documents = 2};
    sia_statistics result;
    sia_status status = sia_sequence_slice(&text, 0.1, 0.9, &slice, err);
    TRY(sia_statistics_compute(&slice, &(sia_statistics_options){.classes = 8, .max_distance = 100}, &result,
                               err));
    sia_sequence_free(&slice);
    return status;
}

static sia_status no_message(void *context, int peer, const void *data, size_t bytes, int tag,
                             sia_request *request, sia_error *err) {
    (void)context, (void)peer, (void)data, (void)bytes, (void)tag, (void)request, (void)err;
    return SIA_LOST;
}
static sia_status no_answer(void *context, int peer, void *data, size_t bytes, int tag, sia_request *request,
                            sia_error *err) {
    return no_message(context, peer, data, bytes, tag, request, err);
}
static sia_status no_test(void *context, sia_request *request, int *done, sia_error *err) {
    (void)context, (void)request, (void)done, (void)err;
    return SIA_LOST;
}

static sia_status ranks(sia_error *err) {
    sia_transport transport = {.size = 2, .send = no_message, .receive = no_answer, .test = no_test};
    sia_attention_config config = {.heads = 2, .head_dim = 8, .threads = 1};
    sia_comm *c = NULL;
    sia_exchange *x = NULL;
    sia_attention *a = NULL;
    sia_ring *ring = NULL;
    sia_ring_plan plan = {.batch = 1, .length = 64, .backward = 1};
    sia_status status = sia_comm_create(&c, &transport, 1, err);
    TRY(sia_exchange_create(&x, c, err));
    TRY(sia_attention_create(&a, "logn+alibi", &config, err));
    TRY(sia_ring_create(&ring, a, c, &plan, err));
    sia_ring_destroy(ring);
    sia_attention_destroy(a);
    sia_exchange_destroy(x);
    sia_comm_destroy(c);
    return status;
}

static sia_status any_batch(void *context, int64_t step, uint32_t *ids, uint32_t *targets, sia_error *err) {
    (void)context, (void)err;
    for (uint32_t i = 0; i < BATCH * LENGTH; i++) {
        ids[i] = (uint32_t)step + i;
        targets[i] = (uint32_t)step + i + 1;
    }
    return SIA_OK;
}

static sia_status training(sia_error *err) {
    sia_model *m = NULL;
    sia_trainer *trainer = NULL;
    sia_step_result result;
    sia_status status = sia_model_create(&m, &settings.model, 1, err);
    TRY(sia_trainer_create(&trainer, m, &settings, any_batch, NULL, err));
    TRY(sia_trainer_step(trainer, 0, &result, err));
    sia_trainer_destroy(trainer);
    sia_model_destroy(m);
    return status;
}

static sia_status reading(sia_error *err) {
    sia_validation_result result;
    sia_probe *p = NULL;
    sia_validation v = {.windows = windows, .length = LENGTH, .parts = 1};
    sia_probe_options options = {.windows = windows, .length = LENGTH, .seed = 1};
    sia_status status = sia_validate(model, &v, &result, err);
    TRY(sia_probe_run(&p, model, &options, err));
    sia_probe_destroy(p);
    return status;
}

/* A run with what a killed process left, a checkpoint that is saved and read again. */
static sia_status runs(sia_error *err) {
    enum { TENSORS = 100 };
    static float numbers[TENSORS];
    static char names[TENSORS][16];
    sia_tensor_entry entries[TENSORS];
    sia_tensor_table table = {entries, TENSORS};
    sia_run *run = NULL;
    sia_checkpoint *c = NULL;
    sia_pair pair = {"key", "value"};
    char folder[512];
    (void)snprintf(folder, sizeof folder, "%s", in_scratch("run"));
    for (int i = 0; i < TENSORS; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        entries[i] = (sia_tensor_entry){names[i], &numbers[i], 1, {1}};
    }
    (void)close(open(in_scratch("run/x.tmp-ghijklmnopqr"), O_WRONLY | O_CREAT, 0600));
    (void)unlink(in_scratch("run/lock")); /* it is known by its config.json */
    sia_status status = sia_run_open(&run, folder, err);
    TRY(sia_checkpoint_save(run, 1, &table, &table, &pair, 1, 1, err));
    TRY(sia_checkpoint_open(&c, folder, 1, false, err));
    TRY(sia_checkpoint_read(c, &table, &table, err));
    sia_checkpoint_close(c);
    sia_run_close(run);
    return status;
}

static sia_status report(sia_error *err) {
    const char *folder = study;
    return sia_report_write(&folder, 1, NULL, err);
}

/* ------------------------------------------------------------------------------------------------ the sweep */

static const struct {
    const char *name;
    sia_status (*call)(sia_error *err);
} calls[] = {{"tokenizers", tokenizers},
             {"parallel encoding", parallel_encoding},
             {"generated text", generated_text},
             {"statistics", statistics},
             {"ranks", ranks},
             {"training", training},
             {"reading", reading},
             {"report", report},
             {"runs", runs}};

static void sweep(const char *name, sia_status (*call)(sia_error *), fault_kind kind) {
    sia_error err = {0};
    int failed = 0;
    if (call(&err)) fail_msg("%s: %s", name, err.text); /* what is made once is made now */
    for (uint64_t n = 1;; n++) {
        size_t before = faults_live();
        err.text[0] = 0;
        faults_arm(kind, FAULT_ONCE, n);
        sia_status status = call(&err);
        uint64_t hit = faults_hit();
        faults_disarm();
        if (status && (!hit || status != SIA_MEMORY || !err.text[0]))
            fail_msg("%s, %s %d: status %d: %s", name, fault_name(kind), (int)n, (int)status, err.text);
        if (faults_live() > before)
            fail_msg("%s, %s %d: %d blocks more than before", name, fault_name(kind), (int)n,
                     (int)(faults_live() - before));
        failed += status != SIA_OK;
        if (!hit) {
            print_message("  %-20s %-7s %4d times, %4d failures\n", name, fault_name(kind), (int)n - 1,
                          failed);
            return;
        }
    }
}

static void every_allocation(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        sweep(calls[i].name, calls[i].call, FAULT_MEMORY);
}

static void every_mapping(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) sweep(calls[i].name, calls[i].call, FAULT_MAP);
}

/* Where memory does not suffice for tables of twice the length, those for the length that is wanted are made. */
static void tables_that_cannot_double(void **state) {
    (void)state;
    sia_attention *a;
    sia_attention_config config = {.heads = 2, .head_dim = 8, .threads = 1};
    OK(sia_attention_create(&a, "si+prope", &config, &said));
    OK(sia_attention_reserve(a, 4096, &said));
    faults_arm(FAULT_MEMORY, FAULT_ONCE, 1);
    said = (sia_error){0};
    OK(sia_attention_reserve(a, 4097, &said));
    assert_int_equal(faults_hit(), 1);
    assert_int_equal(said.status, SIA_OK); /* what failed on the way is not said */
    faults_arm(FAULT_MEMORY, FAULT_ONCE, 1);
    OK(sia_attention_reserve(a, 4097, &said)); /* they are there */
    assert_int_equal(faults_calls(), 0);
    OK(sia_attention_reserve(a, 4098, &said)); /* and no longer */
    assert_int_equal(faults_hit(), 1);
    faults_arm(FAULT_MEMORY, FAULT_ONWARD, 1);
    assert_int_equal(sia_attention_reserve(a, 4099, &said), SIA_MEMORY);
    faults_disarm();
    sia_attention_destroy(a);
}

/* Attending has room for later calls where there is memory for it, and what it needs where there is not. */
static void sums_that_cannot_double(void **state) {
    (void)state;
    sia_attention *a;
    sia_cache *c;
    sia_attention_config config = {.heads = 1, .head_dim = 8, .threads = 1};
    float numbers[8] = {1}, out[8];
    OK(sia_attention_create(&a, "si+nope", &config, &said));
    OK(sia_cache_create(&c, a, SIA_F32, &said));
    OK(sia_cache_append(c, 1, numbers, numbers, &said));
    OK(sia_attention_reserve(a, 4096, &said));
    faults_arm(FAULT_MEMORY, FAULT_ONCE, 1);
    OK(sia_cache_attend(c, 1, numbers, NULL, out, NULL, &said));
    assert_int_equal(faults_hit(), 1);
    assert_true(out[0] == 1);
    faults_disarm();
    sia_cache_destroy(c);
    sia_attention_destroy(a);
}

/* Every pair of bytes is a token: its file takes several writes. */
static sia_tokenizer *large_tokenizer(void) {
    enum { TOKENS = 256 + 65536 };
    sia_tokenizer *t;
    OK(sia_vocabulary_create(&t, "large", TOKENS + 1, 0, &said));
    for (uint32_t i = 0; i < TOKENS; i++) {
        uint32_t pair = i < 256 ? i << 8 : i - 256;
        char bytes[2] = {(char)(pair >> 8), (char)(pair & 0xff)};
        OK(sia_vocabulary_set(t, i, bytes, i < 256 ? 1 : 2, &said));
    }
    OK(sia_vocabulary_set_special(t, TOKENS, "<|endoftext|>", &said));
    OK(sia_vocabulary_finish(t, &said));
    return t;
}

/* A disk that is full from the n-th write on: the old file stays, and nothing else. */
static void every_write(void **state) {
    (void)state;
    enum { BYTES = 1 << 20 };
    static char bytes[BYTES];
    assert_int_equal(mkdir(in_scratch("full"), 0777), 0);
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_scratch("full/file"));
    sia_tokenizer *large = large_tokenizer();
    for (int what = 0; what < 2; what++)
        for (uint64_t n = 1;; n++) {
            sia_error err = {0};
            struct stat about;
            (void)write_text("full/file", "old");
            faults_arm(FAULT_ENOSPC, FAULT_ONWARD, n);
            sia_status status =
                what ? sia_tokenizer_save(large, path, &err) : sia_file_replace(path, bytes, BYTES, &err);
            uint64_t hit = faults_hit();
            faults_disarm();
            assert_int_equal(count_entries(in_scratch("full")), 1);
            assert_int_equal(stat(path, &about), 0);
            assert_int_equal(status, hit ? SIA_FILE : SIA_OK);
            assert_int_equal(about.st_size == 3, hit != 0);
            if (hit) assert_sentence(&err, "full/file: No space left on device");
            if (!hit) {
                assert_true(n > (what ? 2u : 1u)); /* in one write; in several */
                break;
            }
        }
    sia_tokenizer_close(large);
}

/* Where names cannot be exchanged a folder is replaced by two renames: the second fails, and the old one is back. */
static void second_rename(void **state) {
    (void)state;
    char *path = in_scratch("place/one");
    sia_new_folder made;
    sia_error err;
    assert_int_equal(mkdir(in_scratch("place"), 0777), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    (void)write_text("place/one/old", "");
    OK(sia_folder_create(&made, path, &said));
    /* Over the old one, which is not empty; the exchange; the old one aside; the new one in its place. */
    faults_arm(FAULT_RENAME, FAULT_EVERY, 2);
    sia_status status = sia_folder_commit(&made, path, true, &err);
    uint64_t hit = faults_hit();
    faults_disarm();
    assert_int_equal(hit, 2);
    assert_int_equal(status, SIA_FILE);
    assert_sentence(&err, "place/one: Input/output error");
    assert_true(exists(in_scratch("place/one/old")));
    assert_int_equal(count_entries(in_scratch("place")), 1);
}

/* Someone else made the folder after those above it were made: so it is there. */
static void made_by_another(void **state) {
    (void)state;
    sia_error err;
    faults_arm(FAULT_EXISTS, FAULT_ONCE, 3);
    sia_status status = sia_folder_ensure(in_scratch("above/folder"), &err);
    uint64_t hit = faults_hit();
    faults_disarm();
    assert_int_equal(hit, 1);
    assert_int_equal(status, SIA_OK);
    assert_true(exists(in_scratch("above")));
    OK(sia_folder_ensure(in_scratch("above/folder"), &said));
    assert_true(exists(in_scratch("above/folder")));
}

/* A folder that cannot be listed to its end is neither empty nor without checkpoints. */
static void listing_ends_early(void **state) {
    (void)state;
    sia_error err;
    sia_run *run;
    int64_t *steps, count;
    assert_int_equal(mkdir(in_scratch("listed"), 0777), 0);
    (void)write_text("listed/notes.tmp-ghijklmnopqr", "");
    char *inputs_path = write_text("listed.txt", "Some words to pack, and more of them.\n");
    sia_inputs inputs = {0};
    OK(sia_inputs_add(&inputs, inputs_path, false, &said));
    sia_pack_options options = {.tokenizer = tokenizer,
                                .folder = in_scratch("listed"),
                                .inputs = {&inputs},
                                .shard_tokens = 1000,
                                .threads = 1};
    for (int which = 0; which < 3; which++) {
        sia_manifest manifest;
        bool tails;
        sia_status status;
        faults_arm(FAULT_READ, FAULT_ONCE, 1);
        if (which == 0)
            status = sia_run_open(&run, in_scratch("listed"), &err);
        else if (which == 1)
            status = sia_checkpoint_list(in_scratch("listed"), &steps, &count, &err);
        else
            status = sia_pack(&options, &manifest, &tails, &err);
        uint64_t hit = faults_hit();
        faults_disarm();
        assert_int_equal(hit, 1);
        assert_int_equal(status, SIA_FILE);
        assert_sentence(&err, "listed: Input/output error");
        assert_int_equal(count_entries(in_scratch("listed")), 1);
    }
    sia_inputs_free(&inputs);
}

static const char *const lines[][2] = {
    {"compare.jsonl",
     "{\"kind\":\"study\",\"train_len\":100,\"machine\":{\"cores\":2},\"config\":{\"a\":[1],\"b\":2}}\n"
     "{\"kind\":\"result\",\"scheme\":\"rope\",\"seed\":0,\"loss\":{\"100\":3.0,\"400\":4}}\n"
     "{\"kind\":\"result\",\"scheme\":\"prope\",\"seed\":0,\"loss\":{\"100\":3.3,\"400\":5}}\n"
     "{\"kind\":\"result\",\"scheme\":\"rope\",\"variant\":\"tau=1\",\"seed\":0,\"loss\":{\"100\":3.3}}\n"
     "{\"kind\":\"curve\",\"scheme\":\"rope\",\"seed\":0,\"step\":1,\"loss\":4}\n"
     "{\"kind\":\"curve\",\"scheme\":\"rope\",\"seed\":0,\"step\":2,\"loss\":3}\n"},
    {"needle.jsonl",
     "{\"kind\":\"needle-depth\",\"scheme\":\"rope\",\"seed\":0,\"length\":100,\"depth_from\":0,\"depth_to\":"
     "1,"
     "\"count\":10,\"right\":9}\n"
     "{\"kind\":\"needle\",\"scheme\":\"rope\",\"seed\":0,\"length\":100,\"count\":10,\"right\":9}\n"},
    {"probe.jsonl",
     "{\"kind\":\"probe-mass\",\"scheme\":\"rope\",\"layer\":0,\"head\":0,\"decade\":1,\"mass\":0.5}\n"
     "{\"kind\":\"probe-logits\",\"scheme\":\"rope\",\"layer\":0,\"head\":0,\"mean\":0,\"variance\":1,\"qq\":"
     "[[0,1],"
     "[1,2]]}\n"},
    {"metrics.jsonl", "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4,\"validation\":{\"9\":1}}\n"},
};

static int prepare(void **state) {
    if (scratch_create(state)) return -1;
    (void)snprintf(study, sizeof study, "%s", in_scratch("study"));
    (void)snprintf(tokenizer_path, sizeof tokenizer_path, "%s", in_scratch("tokenizer.json"));
    assert_int_equal(mkdir(study, 0777), 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "study/%s", lines[i][0]);
        (void)write_text(name, lines[i][1]);
    }
    if (mkdir(in_scratch("run"), 0777) != 0) return -1;
    (void)write_text("run/config.json", "{\"model\": {\"scheme\": \"rope\"}, \"training\": {\"steps\": 3}, "
                                        "\"data\": {\"kind\": \"shards\"}}");
    tokenizer = small_tokenizer(VOCABULARY);
    OK(sia_settings_preset(&settings, "tiny", &said));
    settings.model.layers = 1;
    settings.model.width = 16;
    settings.model.heads = 2;
    settings.model.vocabulary = VOCABULARY;
    settings.model.train_len = LENGTH;
    settings.training.batch = BATCH;
    (void)snprintf(settings.model.scheme, sizeof settings.model.scheme, "logn+rope");
    OK(sia_settings_complete(&settings, &said));
    OK(sia_corpus_generate(&corpus, tokenizer, 1, 0, 1, 200, 1, &said));
    OK(sia_windows_create(&windows, corpus, LENGTH, 2, &said));
    OK(sia_model_create(&model, &settings.model, 1, &said));
    return 0;
}

static int finish(void **state) {
    sia_model_destroy(model);
    sia_windows_destroy(windows);
    sia_corpus_close(corpus);
    sia_tokenizer_close(tokenizer);
    return scratch_destroy(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation),
                                       cmocka_unit_test(every_mapping),
                                       cmocka_unit_test(tables_that_cannot_double),
                                       cmocka_unit_test(sums_that_cannot_double),
                                       cmocka_unit_test(every_write),
                                       cmocka_unit_test(second_rename),
                                       cmocka_unit_test(made_by_another),
                                       cmocka_unit_test(listing_ends_early)};
    return cmocka_run_group_tests_name("calls", tests, prepare, finish);
}
