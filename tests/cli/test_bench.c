/* SPDX-License-Identifier: MIT
 *
 * What the benches compute with: medians and quartiles by hand-made examples, and the lines of JSON that
 * `sia bench attention` and `sia bench train` print: every field, its type, and that rates, times and counted
 * operations agree. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "../commands.h"
#include "cli/bench.h"

/* ---------------------------------------------------------------------------------------------- figures */

static void test_quartiles(void **state) {
    (void)state;
    static const struct {
        double values[6];
        int count;
        double low, median, high;
    } cases[] = {
        {{7}, 1, 7, 7, 7},
        {{3, 1}, 2, 1.5, 2, 2.5},
        {{5, 1, 3}, 3, 2, 3, 4},
        {{4, 1, 3, 2}, 4, 1.75, 2.5, 3.25},
        {{50, 10, 30, 20, 40}, 5, 20, 30, 40},
        {{1, 1, 1, 1, 1, 1e9}, 6, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cli_quartiles q = cli_quartiles_of(cases[i].values, cases[i].count);
        assert_true(q.low == cases[i].low && q.median == cases[i].median && q.high == cases[i].high);
    }
}

static void test_median_ratio(void **state) {
    (void)state;
    /* A machine that is ten times slower in the second round: the ratio is 2 in each, whatever the medians
     * are. */
    const double over[] = {2, 20, 2.2}, under[] = {1, 10, 1.1};
    assert_true(fabs(cli_median_ratio(over, under, 1, 3) - 2) < 1e-12);
    assert_true(fabs(cli_median_ratio(over, under, 3, 2) - 6) < 1e-12);
    assert_true(fabs(cli_median_ratio(NULL, over, 10, 3) - 10 / 2.2) < 1e-12);
}

/* ---------------------------------------------------------------------------------------------- JSON */

static double number(const json_t *line, const char *name) {
    const json_t *value = json_object_get(line, name);
    if (!json_is_number(value)) fail_msg("%s: want a number", name);
    return json_number_value(value);
}

static void check_null(const json_t *line, const char *name) {
    if (!json_is_null(json_object_get(line, name))) fail_msg("%s: want null", name);
}

static void check_quartiles(const json_t *line, const char *name, double median) {
    const json_t *q = json_object_get(line, name);
    assert_int_equal(json_array_size(q), 3);
    double low = json_number_value(json_array_get(q, 0)), middle = json_number_value(json_array_get(q, 1)),
           high = json_number_value(json_array_get(q, 2));
    assert_true(low <= middle && middle <= high && middle == median);
}

/* work a second is rate; work in ms is known; both are printed with six digits. */
static void check_rate(const char *what, double rate, double ms, double work) {
    if (fabs(rate * ms / 1e3 / work - 1) > 1e-4)
        fail_msg("%s: %g a second for %g ms is not %g", what, rate, ms, work);
}

static void check_attention(const json_t *line, const char *op) {
    double n = number(line, "len"), d = number(line, "head_dim"), heads = number(line, "heads");
    double work = 2 * d * n * (n + 1) * heads;
    if (strcmp(op, "backward") == 0) work *= 2.5;
    const char *scheme = json_string_value(json_object_get(line, "scheme"));
    assert_true(scheme && (strcmp(scheme, "nope") == 0 || strcmp(scheme, "si+nope") == 0));
    if (strcmp(op, "decode") == 0) {
        const char *type = json_string_value(json_object_get(line, "type"));
        /* k and v, and what the layout adds: scales of int8 rows, whole panels. */
        double each = strcmp(type, "f32") == 0 ? 4 : strcmp(type, "f16") == 0 ? 2 : 1;
        double bytes = number(line, "gb_per_s") * number(line, "ms") * 1e6, least = 2 * each * d * n * heads;
        assert_true(bytes > 0.999 * least && bytes < 1.5 * least);
        assert_true(number(line, "bandwidth_fraction") > 0);
        assert_int_equal(json_is_number(json_object_get(line, "speed_over_f32")), strcmp(type, "f32") != 0);
        work = 4 * d * n * heads;
    }
    check_rate(op, number(line, "gflops") * 1e9, number(line, "ms"), work);
    assert_int_equal(json_is_number(json_object_get(line, "time_over_plain")), strcmp(scheme, "nope") != 0);
}

static void check_line(const json_t *line) {
    const char *op = json_string_value(json_object_get(line, "op"));
    if (!op) op = "none";
    bool read = strcmp(op, "read") == 0;
    assert_true(number(line, "threads") >= 1);
    assert_true(number(line, "ms") > 0);
    check_quartiles(line, "ms_quartiles", number(line, "ms"));
    if (read) {
        check_null(line, "gflops");
        check_null(line, "peak_fraction");
        check_rate(op, number(line, "gb_per_s") * 1e9, number(line, "ms"), 1 << 20);
    } else {
        assert_true(number(line, "gflops") > 0);
        assert_true(number(line, "peak_fraction") > 0);
        check_quartiles(line, "peak_fraction_quartiles", number(line, "peak_fraction"));
        /* One round, and so either this one or none. */
        if (number(line, "rounds_alone") == 0)
            check_null(line, "peak_fraction_alone");
        else
            assert_true(number(line, "peak_fraction_alone") == number(line, "peak_fraction"));
    }
    if (json_object_get(line, "bandwidth_fraction")) {
        double fraction = json_number_value(json_object_get(line, "bandwidth_fraction_alone"));
        assert_true(fraction == 0 || fraction == number(line, "bandwidth_fraction"));
    }
    /* Against one thread, over the same round or none. */
    if (number(line, "threads") == 2 && json_object_get(line, "speed_over_one_thread_alone")) {
        double speed = json_number_value(json_object_get(line, "speed_over_one_thread_alone"));
        assert_true(speed == 0 || speed == number(line, "speed_over_one_thread"));
    }
    if (read || strcmp(op, "fma_peak") == 0 || strcmp(op, "sgemm") == 0) {
        static const char *const absent[] = {"scheme", "heads", "head_dim", "len"};
        for (int i = 0; i < 4; i++) check_null(line, absent[i]);
        if (strcmp(op, "sgemm") == 0)
            check_rate(op, number(line, "gflops") * 1e9, number(line, "ms"),
                       2.0 * 1024 * 768 * 768 * number(line, "threads"));
    } else
        check_attention(line, op);
}

/* One round: then a median is the one value, and rate and time belong together. */
static void test_json(void **state) {
    (void)state;
    static const char command[] =
        "$SIA bench attention --quick --json --rounds 1 --len 40,100 --heads 2,3 --head-dim 16,24 "
        "--keys 300 --megabytes 1 --threads 1,2 2>/dev/null";
    static const struct {
        const char *op;
        int lines;
    } wanted[] = {{"fma_peak", 2}, {"sgemm", 2},     {"read", 2},
                  {"forward", 16}, {"backward", 16}, {"decode", 12}};
    char output[1 << 17];
    int seen[6] = {0}, lines = 0;
    assert_int_equal(run_command(command, output, sizeof output), 0);
    for (char *at = output, *end; (end = strchr(at, '\n')); at = end + 1, lines++) {
        json_error_t error;
        *end = 0;
        json_t *line = json_loads(at, JSON_REJECT_DUPLICATES, &error);
        if (!line) fail_msg("%s: %s", error.text, at);
        check_line(line);
        for (int i = 0; i < 6; i++)
            seen[i] += strcmp(wanted[i].op, json_string_value(json_object_get(line, "op"))) == 0;
        json_decref(line);
    }
    for (int i = 0; i < 6; i++) assert_int_equal(seen[i], wanted[i].lines);
    assert_int_equal(lines, 50);
}

/* Operations counted by hand for 1 layer, width 16, hidden 64, vocabulary 64, 2 sequences of 8 tokens:
 *     weights   4 x 16 x 16 + 2 x 16 x 64 + 16 x 64 = 4096      attention   16 x 9 = 144 terms a token
 *     gradient  6 x (4096 + 144) x 16 tokens = 407040
 *     Muon      5 x (3 x 16 x entries + 16^3): 81920 for each of q, k, v, o; 266240 for the MLP's two each */
static void test_train_json(void **state) {
    (void)state;
    static const struct {
        const char *op;
        double work;
    } wanted[] = {{"gradient", 407040}, {"optimizer", 860160}, {"step", 1267200}};
    char output[65536];
    int lines = 0;
    assert_int_equal(
        run_command("$SIA bench train --json --rounds 1 --preset tiny --threads 1,2 --layers 1 --width 16 "
                    "--heads 1 --vocabulary 64 --len 8 --batch 2 2>/dev/null",
                    output, sizeof output),
        0);
    for (char *at = output, *end; (end = strchr(at, '\n')); at = end + 1, lines++) {
        *end = 0;
        json_t *line = json_loads(at, JSON_REJECT_DUPLICATES, NULL);
        if (!line) fail_msg("no JSON: %s", at);
        const char *op = json_string_value(json_object_get(line, "op"));
        assert_string_equal(op, wanted[lines % 3].op);
        assert_string_equal(json_string_value(json_object_get(line, "preset")), "tiny");
        int threads = 1 + lines / 3;
        assert_true(number(line, "threads") == threads);
        check_rate(op, number(line, "gflops") * 1e9, number(line, "ms"), wanted[lines % 3].work);
        check_rate(op, number(line, "tokens_per_s"), number(line, "ms"), 16);
        check_quartiles(line, "ms_quartiles", number(line, "ms"));
        check_quartiles(line, "peak_fraction_quartiles", number(line, "peak_fraction"));
        assert_true(number(line, "peak_fraction") > 0 && number(line, "memory_mb") > 0);
        assert_true(number(line, "parameters") == 4096 + 16 * 64);
        assert_int_equal(json_is_number(json_object_get(line, "speed_over_one_thread")), lines / 3);
        json_decref(line);
    }
    assert_int_equal(lines, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quartiles), cmocka_unit_test(test_median_ratio),
                                       cmocka_unit_test(test_json), cmocka_unit_test(test_train_json)};
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
