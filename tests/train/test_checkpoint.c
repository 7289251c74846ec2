/* SPDX-License-Identifier: MIT
 *
 * Checkpoints: what was saved comes back in the same bits; one that is damaged or of another model is refused
 * with a sentence; a kill or a full disk at any moment leaves the last whole one. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/file.h"
#include "base/random.h"
#include "base/safetensors.h"
#include "support.h"
#include "train/checkpoint.h"

/* A model of two tensors, with two of state for each; every value is a function of the step. */
enum { ROWS = 37, COLUMNS = 29, TENSORS = 2, STATES = 4 };

static float embed[ROWS * COLUMNS], norm[COLUMNS], state_values[STATES][ROWS * COLUMNS];
static sia_tensor_entry model_entries[] = {{"embed.weight", embed, 2, {ROWS, COLUMNS}},
                                           {"norm", norm, 1, {COLUMNS}}};
static sia_tensor_entry state_entries[] = {{"embed.weight.m", state_values[0], 2, {ROWS, COLUMNS}},
                                           {"embed.weight.v", state_values[1], 2, {ROWS, COLUMNS}},
                                           {"norm.m", state_values[2], 1, {COLUMNS}},
                                           {"norm.v", state_values[3], 1, {COLUMNS}}};
static const sia_tensor_table model = {model_entries, TENSORS}, optimizer = {state_entries, STATES};

static size_t length_of(const sia_tensor_entry *e) {
    size_t n = 1;
    for (int i = 0; i < e->dims; i++) n *= (size_t)e->shape[i];
    return n;
}

/* Any bits, not numbers alone: a checkpoint does not look at them. */
static uint32_t bits_of(int64_t step, uint64_t tensor, uint64_t i) {
    return (uint32_t)sia_random_u64(sia_random_stream((uint64_t)step, tensor), i);
}

static void set_values(int64_t step) {
    for (uint64_t t = 0; t < TENSORS + STATES; t++) {
        const sia_tensor_entry *e = t < TENSORS ? &model_entries[t] : &state_entries[t - TENSORS];
        for (size_t i = 0; i < length_of(e); i++)
            memcpy(&e->data[i], &(uint32_t){bits_of(step, t, i)}, sizeof(uint32_t));
    }
}

static bool values_are(int64_t step) {
    for (uint64_t t = 0; t < TENSORS + STATES; t++) {
        const sia_tensor_entry *e = t < TENSORS ? &model_entries[t] : &state_entries[t - TENSORS];
        for (size_t i = 0; i < length_of(e); i++) {
            uint32_t bits;
            memcpy(&bits, &e->data[i], sizeof bits);
            if (bits != bits_of(step, t, i)) return false;
        }
    }
    return true;
}

static sia_status save(sia_run *run, int64_t step, int64_t keep, sia_error *err) {
    char tokens[32];
    (void)snprintf(tokens, sizeof tokens, "%" PRId64, step + 64);
    sia_pair metadata[] = {{"config", "{\"layers\": 1}"}, {"tokens", tokens}};
    set_values(step);
    return sia_checkpoint_save(run, step, &model, &optimizer, metadata, 2, keep, err);
}

/* The path of a run, which stays. */
static const char *run_folder(const char *name) {
    static char path[512];
    (void)snprintf(path, sizeof path, "%s", in_scratch(name));
    return path;
}

static const char *metadata(const sia_checkpoint *c, const char *key) {
    return sia_safetensors_metadata(sia_checkpoint_model(c), key);
}

/* Reads and compares. */
static sia_status take(void *context, const sia_checkpoint *c, sia_error *err) {
    int64_t *step = context;
    set_values(-1);
    sia_status status = sia_checkpoint_read(c, &model, &optimizer, err);
    if (status) return status;
    *step = sia_checkpoint_step(c);
    assert_true(values_are(*step));
    assert_int_equal(atoll(metadata(c, "tokens")), *step + 64);
    return SIA_OK;
}

/* The step that was found, -1 for none. What was passed over is in `skipped`, which a test may look at. */
static char *skipped;
static int64_t load_newest(const char *folder, sia_error *err) {
    int64_t step = -1;
    free(skipped);
    return sia_checkpoint_newest(folder, false, take, &step, &skipped, err) ? -1 : step;
}

static int64_t load_step(const char *folder, int64_t wanted, sia_error *err) {
    sia_checkpoint *c;
    int64_t step = -1;
    if (sia_checkpoint_open(&c, folder, wanted, false, err)) return -1;
    sia_status status = take(&step, c, err);
    sia_checkpoint_close(c);
    return status ? -1 : step;
}

static void assert_steps(const char *folder, const int64_t *wanted, int64_t count) {
    int64_t *steps, found;
    OK(sia_checkpoint_list(folder, &steps, &found, &said));
    assert_int_equal(found, count);
    for (int64_t i = 0; i < count; i++) assert_int_equal(steps[i], wanted[i]);
    free(steps);
}

#define STEPS(folder, ...) \
    assert_steps(folder, (int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8)

/* -------------------------------------------------------------------------------------- saving and loading */

static void test_round_trip(void **state) {
    (void)state;
    sia_run *run;
    sia_error err;
    sia_checkpoint *c;
    const char *folder = run_folder("trip");
    OK(sia_run_open(&run, folder, &said));
    assert_int_equal(load_newest(folder, &err), -1);
    assert_sentence(&err,
                    "trip: no checkpoint: want a run of 'sia train', which holds step-N/model.safetensors");
    OK(save(run, 0, 0, &said));
    OK(save(run, 500, 0, &said));
    assert_true(exists(in_scratch("trip/step-000500/model.safetensors")));
    assert_true(exists(in_scratch("trip/step-000500/optimizer.safetensors")));
    assert_int_equal(count_entries(in_scratch("trip/step-000500")), 2);
    assert_int_equal(count_entries(in_scratch("trip")), 3);
    assert_int_equal(load_newest(folder, &said), 500);
    assert_int_equal(load_step(folder, 0, &said), 0);
    assert_int_equal(load_step(folder, 700, &err), -1);
    assert_sentence(&err, "step-000700/model.safetensors: No such file");
    assert_int_equal(load_newest(folder, &said), 500);
    assert_null(skipped);

    OK(sia_checkpoint_open(&c, folder, 500, false, &said));
    assert_string_equal(metadata(c, "config"), "{\"layers\": 1}");
    assert_null(metadata(c, "absent"));
    sia_checkpoint_close(c);

    /* Without the optimiser's file the model can be had. */
    assert_int_equal(unlink(in_scratch("trip/step-000500/optimizer.safetensors")), 0);
    OK(sia_checkpoint_open(&c, folder, 500, true, &said));
    OK(sia_checkpoint_read(c, &model, NULL, &said));
    assert_int_equal(sia_checkpoint_read(c, &model, &optimizer, &err), SIA_ARGUMENT);
    sia_checkpoint_close(c);
    assert_int_equal(sia_checkpoint_save(run, -1, &model, NULL, NULL, 0, 0, &err), SIA_ARGUMENT);
    assert_int_equal(sia_checkpoint_save(run, 1, &model, NULL, NULL, 0, -1, &err), SIA_ARGUMENT);
    assert_int_equal(sia_checkpoint_save(run, 1, &model, NULL, &(sia_pair){"step", "2"}, 1, 0, &err),
                     SIA_ARGUMENT);
    assert_sentence(&err, "\"step\" is there twice");
    sia_tensor_entry five = {"five", embed, 5, {1, 1, 1, 1}};
    assert_int_equal(sia_checkpoint_save(run, 1, &(sia_tensor_table){&five, 1}, NULL, NULL, 0, 0, &err),
                     SIA_ARGUMENT);
    assert_int_equal(count_entries(in_scratch("trip")), 3);
    sia_run_close(run);
}

/* By number, not by text; names that are not ours are no steps. */
static void test_order(void **state) {
    (void)state;
    static const char *const others[] = {"step-7",
                                         "step-0000007",
                                         "step-",
                                         "step-00000x",
                                         "step-000007 ",
                                         "Step-000007",
                                         "step-00007",
                                         "step--00007",
                                         "step-+000007",
                                         "step-000008.tmp-aside",
                                         "step-9999999999999999999"};
    sia_run *run;
    const char *folder = run_folder("order");
    OK(sia_run_open(&run, folder, &said));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char name[100];
        (void)snprintf(name, sizeof name, "order/%s", others[i]);
        assert_int_equal(mkdir(in_scratch(name), 0777), 0);
    }
    OK(save(run, 1000000, 0, &said));
    OK(save(run, 999999, 0, &said));
    OK(save(run, 20, 0, &said));
    OK(save(run, 999999999999999999, 0, &said));
    STEPS(folder, 20, 999999, 1000000, 999999999999999999);
    assert_int_equal(load_newest(folder, &said), 999999999999999999);
    OK(sia_checkpoint_rewind(run, 1000000, 0, &said));
    assert_int_equal(load_newest(folder, &said), 1000000);
    OK(sia_checkpoint_rewind(run, 999999, 0, &said));
    STEPS(folder, 20, 999999);
    OK(sia_checkpoint_rewind(run, 20, 0, &said));
    OK(sia_checkpoint_rewind(run, 20, 0, &said));
    STEPS(folder, 20);
    sia_run_close(run);
}

static void test_keep(void **state) {
    (void)state;
    sia_run *run;
    const char *folder = run_folder("keep");
    OK(sia_run_open(&run, folder, &said));
    for (int64_t step = 1; step <= 5; step++) OK(save(run, step, 3, &said));
    STEPS(folder, 3, 4, 5);
    assert_int_equal(count_entries(folder), 4); /* and the lock */
    OK(save(run, 6, 1, &said));
    STEPS(folder, 6);
    /* One that is older than the rest is not removed by its own saving. */
    OK(save(run, 2, 1, &said));
    STEPS(folder, 2);
    /* The same step again: replaced. */
    set_values(77);
    OK(sia_checkpoint_save(run, 2, &model, &optimizer, NULL, 0, 1, &said));
    sia_checkpoint *c;
    OK(sia_checkpoint_open(&c, folder, 2, false, &said));
    set_values(0);
    OK(sia_checkpoint_read(c, &model, &optimizer, &said));
    assert_true(values_are(77));
    sia_checkpoint_close(c);
    assert_int_equal(count_entries(folder), 2);
    sia_run_close(run);
}

/* -------------------------------------------------------------------------------------------------- refusals */

/* A table that is not that of the file: a sentence, and not a value was changed. */
static void test_tables(void **state) {
    (void)state;
    static float other[ROWS * COLUMNS];
    static const sia_tensor_entry swapped[] = {{"embed.weight", other, 2, {COLUMNS, ROWS}},
                                               {"norm", other, 1, {COLUMNS}}},
                                  flat[] = {{"embed.weight", other, 1, {ROWS * COLUMNS}},
                                            {"norm", other, 1, {COLUMNS}}},
                                  more[] = {{"embed.weight", other, 2, {ROWS, COLUMNS}},
                                            {"norm", other, 1, {COLUMNS}},
                                            {"head", other, 2, {COLUMNS, ROWS}}},
                                  twice[] = {{"norm", other, 1, {COLUMNS}}, {"norm", other, 1, {COLUMNS}}},
                                  five[] = {{"norm", other, 5, {COLUMNS}}};
    static const struct {
        sia_tensor_table model, optimizer;
        sia_status status;
        const char *sentence;
    } cases[] = {
        {{swapped, 2},
         {state_entries, STATES},
         SIA_FORMAT,
         "model.safetensors: tensor \"embed.weight\": F32 [37, 29], want F32 [29, 37]"},
        {{flat, 2}, {state_entries, STATES}, SIA_FORMAT, "F32 [37, 29], want F32 [1073]"},
        {{more, 3},
         {state_entries, STATES},
         SIA_FORMAT,
         "model.safetensors: tensor \"head\": not there, want F32 [29, 37]"},
        {{more, 1},
         {state_entries, STATES},
         SIA_FORMAT,
         "model.safetensors: tensor \"norm\": not wanted here"},
        {{twice, 2}, {state_entries, STATES}, SIA_FORMAT, "tensor \"embed.weight\": not wanted here"},
        {{more, 2},
         {state_entries, STATES - 1},
         SIA_FORMAT,
         "optimizer.safetensors: tensor \"norm.v\": not wanted here"},
        {{more, 2}, {more, 2}, SIA_FORMAT, "optimizer.safetensors: tensor \"embed.weight\": not there"},
        {{NULL, 0}, {state_entries, STATES}, SIA_FORMAT, "tensor \"embed.weight\": not wanted here"},
        {{five, 1}, {state_entries, STATES}, SIA_ARGUMENT, "tensor \"norm\": 5 dimensions: want 0 to 4"},
    };
    sia_run *run;
    sia_checkpoint *c;
    OK(sia_run_open(&run, in_scratch("tables"), &said));
    OK(save(run, 1, 0, &said));
    OK(sia_checkpoint_open(&c, in_scratch("tables"), 1, false, &said));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_error err = {0};
        set_values(2);
        assert_int_equal(sia_checkpoint_read(c, &cases[i].model, &cases[i].optimizer, &err), cases[i].status);
        print_message("  %s\n", strrchr(err.text, '/') ? strrchr(err.text, '/') + 1 : err.text);
        assert_sentence(&err, cases[i].sentence);
        assert_true(values_are(2));
        for (size_t k = 0; k < ROWS * COLUMNS; k++) assert_true(other[k] == 0);
    }
    sia_checkpoint_close(c);
    sia_run_close(run);
}

/* Ways to lose a checkpoint. */
static void cut_a_byte(const char *file) {
    struct stat about;
    assert_int_equal(stat(file, &about), 0);
    assert_int_equal(truncate(file, about.st_size - 1), 0);
}
static void empty(const char *file) { assert_int_equal(truncate(file, 0), 0); }
static void remove_it(const char *file) { assert_int_equal(unlink(file), 0); }
static void of_another_step(const char *file) {
    char other[100];
    char *bytes;
    size_t size;
    (void)snprintf(other, sizeof other, "damage/step-000002/%s", strrchr(file, '/') + 1);
    OK(sia_file_read(in_scratch(other), 1 << 20, &bytes, &size, &said));
    OK(sia_file_replace(file, bytes, size, &said));
    free(bytes);
}

/* A letter of a tensor's name. */
static void of_another_name(const char *file) {
    char *bytes, *name;
    size_t size;
    OK(sia_file_read(file, 1 << 20, &bytes, &size, &said));
    assert_non_null(name = memmem(bytes, size, "\"norm", 5));
    name[1] = 'm';
    OK(sia_file_replace(file, bytes, size, &said));
    free(bytes);
}

static void test_damage(void **state) {
    (void)state;
    static const struct {
        void (*how)(const char *file);
        const char *file, *sentence;
        sia_status status;
    } cases[] = {
        {cut_a_byte, "model", "model.safetensors: tensor \"norm\": data_offsets [4292, 4408]", SIA_FORMAT},
        {cut_a_byte, "optimizer", "optimizer.safetensors: tensor \"norm.v\"", SIA_FORMAT},
        {empty, "model", "model.safetensors: 0 bytes", SIA_FORMAT},
        {empty, "optimizer", "optimizer.safetensors: 0 bytes", SIA_FORMAT},
        {remove_it, "model", "model.safetensors: No such file", SIA_FILE},
        {remove_it, "optimizer", "optimizer.safetensors: No such file", SIA_FILE},
        {of_another_step, "model", "model.safetensors: is of step 2, want 3", SIA_FORMAT},
        {of_another_step, "optimizer", "optimizer.safetensors: is of step 2, want 3", SIA_FORMAT},
        {of_another_name, "model", "model.safetensors: tensor \"norm\": not there", SIA_FORMAT},
        {of_another_name, "optimizer", "optimizer.safetensors: tensor \"norm.m\": not there", SIA_FORMAT},
    };
    sia_run *run;
    sia_checkpoint *c;
    const char *folder = run_folder("damage");
    OK(sia_run_open(&run, folder, &said));
    OK(save(run, 2, 0, &said));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_error err = {0};
        char file[100];
        (void)snprintf(file, sizeof file, "damage/step-000003/%s.safetensors", cases[i].file);
        OK(save(run, 3, 0, &said));
        cases[i].how(in_scratch(file));
        /* Its own bytes say it where they can; else those who know what it should hold. */
        sia_status status = sia_checkpoint_open(&c, folder, 3, false, &err);
        if (!status) status = sia_checkpoint_read(c, &model, &optimizer, &err);
        sia_checkpoint_close(c);
        assert_int_equal(status, cases[i].status);
        print_message("  %s\n", err.text);
        assert_sentence(&err, "step-000003/");
        assert_sentence(&err, cases[i].sentence);
        assert_int_equal(load_newest(folder, &said), 2);
        assert_non_null(strstr(skipped, cases[i].sentence));
        /* A damaged one is replaced as a whole one is. */
        OK(save(run, 3, 0, &said));
        assert_int_equal(load_newest(folder, &said), 3);
    }
    sia_error err;
    cut_a_byte(in_scratch("damage/step-000002/model.safetensors"));
    cut_a_byte(in_scratch("damage/step-000003/model.safetensors"));
    assert_int_equal(load_newest(folder, &err), -1);
    assert_int_equal(err.status, SIA_FORMAT);
    assert_sentence(&err, "no checkpoint can be used, the newest: ");
    assert_sentence(&err, "step-000003/");
    sia_run_close(run);
}

/* What a newer version wrote is not damaged: nobody goes back behind it. */
static void test_newer(void **state) {
    (void)state;
    sia_run *run;
    sia_error err;
    const char *folder = run_folder("newer");
    const sia_pair format = {"format", "sia 2"};
    OK(sia_run_open(&run, folder, &said));
    OK(save(run, 2, 0, &said));
    OK(sia_checkpoint_save(run, 3, &model, &optimizer, &format, 1, 0, &said));
    assert_int_equal(load_newest(folder, &err), -1);
    assert_sentence(&err,
                    "step-000003/model.safetensors: format 'sia 2': want 'sia'; a newer version wrote it");
    assert_null(skipped);
    sia_run_close(run);
}

/* --------------------------------------------------------------------------------------- kills, full disks */

/* The limit on the size of files plays the full disk. */
static int save_on_full_disk(const char *folder, rlim_t limit) {
    sia_run *run;
    sia_error err = {0};
    struct rlimit most = {limit, limit};
    if (sia_run_open(&run, folder, NULL)) return 1;
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &most) != 0) return 2;
    for (int64_t step = 4; step <= 5; step++) {
        if (save(run, step, 1, &err) != SIA_FILE) return 3;
        if (!strstr(err.text, "File too large")) return 4;
    }
    return 0;
}

static void test_full_disk(void **state) {
    (void)state;
    /* Within the header, in the model, in its last byte, in the optimiser's file. */
    static const rlim_t limits[] = {1, 100, 1000, 4095, 4096, 4600, 5000, 9000};
    const char *folder = run_folder("full");
    sia_run *run;
    OK(sia_run_open(&run, folder, &said));
    OK(save(run, 4, 0, &said));
    sia_run_close(run);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        int result;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) _exit(save_on_full_disk(folder, limits[i]));
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_int_equal(result, 0);
        assert_int_equal(count_entries(folder), 2); /* step 4 and the lock: no leftovers */
        assert_int_equal(load_newest(folder, &said), 4);
    }
}

/* Saves steps in a loop, the same one twice, until it is killed. */
static void save_for_ever(const char *folder, int64_t step) {
    sia_run *run;
    if (sia_run_open(&run, folder, NULL)) _exit(1);
    for (;; step++)
        for (int again = 0; again < 2; again++)
            if (save(run, step, 2, NULL)) _exit(1);
}

static uint64_t microseconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void test_kill(void **state) {
    (void)state;
    enum { ROUNDS = 30 };
    const char *folder = run_folder("kill");
    int64_t last = 0, saved = 0, leftovers = 0, before = 1;
    sia_run *run;
    OK(sia_run_open(&run, folder, &said));
    /* Kills are spread over the time of six saves as this disk takes it, and not over a fixed one. */
    uint64_t start = microseconds();
    for (int i = 0; i < 4; i++) OK(save(run, 0, 2, &said));
    uint64_t span = 1000 + (microseconds() - start) * 6 / 4;
    if (span > 200000) span = 200000;
    sia_run_close(run);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        int result;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) save_for_ever(folder, last + 1);
        /* The first one is let through to a whole checkpoint. */
        for (int i = 0; round == 0 && i < 10000 && !exists(in_scratch("kill/step-000001")); i++)
            (void)usleep(1000);
        (void)usleep((useconds_t)sia_random_below(7, round, span));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result)); /* not ended by a failure */

        /* A reader needs no lock and no repair. */
        int64_t *steps, count, entries = count_entries(folder);
        OK(sia_checkpoint_list(folder, &steps, &count, &said));
        /* One more when it was killed before the removal, and that can happen twice in a row. */
        assert_true(count >= 1);
        assert_true(count <= (before > 2 ? before : 2) + 1);
        before = count;
        leftovers += entries - count - 1;
        for (int64_t i = 0; i < count; i++)
            if (load_step(folder, steps[i], &said) != steps[i]) fail_msg("%s", said.text);
        assert_true(steps[count - 1] >= last);
        saved += steps[count - 1] - last;
        last = steps[count - 1];
        free(steps);

        OK(sia_run_open(&run, folder, &said));
        assert_int_equal(count_entries(folder), count + 1); /* and the lock */
        sia_run_close(run);
    }
    print_message("  %d kills, %lld steps saved, %lld leftovers removed\n", ROUNDS, (long long)saved,
                  (long long)leftovers);
    assert_true(saved > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_order),  cmocka_unit_test(test_keep),
        cmocka_unit_test(test_tables),     cmocka_unit_test(test_damage), cmocka_unit_test(test_newer),
        cmocka_unit_test(test_full_disk),  cmocka_unit_test(test_kill),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, scratch_create, scratch_destroy);
}
