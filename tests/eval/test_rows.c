/* SPDX-License-Identifier: MIT
 *
 * The sampler of Gaussian logits: its normal numbers, its sums against plain double arithmetic, long ranges
 * drawn by their largest logits against the same ranges drawn logit by logit, sums over distances. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "eval/distance_sum.h"
#include "eval/rows.h"
#include "eval/thin.h"

static sia_error said;

static sia_row_model model_of(const char *scheme, double row) {
    sia_row_model model;
    if (sia_row_model_create(&model, scheme, &(sia_attention_config){0}, &said)) fail_msg("%s", said.text);
    model.row = row;
    return model;
}

/* Fails when value is more than `most` errors away from wanted. */
static void near(const char *what, double value, double wanted, double error, double most) {
    double off = (value - wanted) / error;
    if (!(fabs(off) <= most))
        fail_msg("%s: %g, want %g: %.1f errors off, at most %.1f", what, value, wanted, off, most);
}

/* ------------------------------------------------------------------------------------------------ normals */

static double above(double x) { return 0.5 * erfc(x / sqrt(2)); }

static void test_normals(void **state) {
    (void)state;
    enum { COUNT = 1 << 20, EDGES = 9 };
    static const double edges[EDGES] = {-4, -3, -2, -1, 0, 1, 2, 3, 4};
    float *g = malloc(COUNT * sizeof *g);
    assert_non_null(g);
    sia_normal_fill(7, 0, COUNT, g);
    double moment[5] = {0}, neighbours = 0, halves = 0, more[EDGES] = {0};
    for (int i = 0; i < COUNT; i++) {
        double x = (double)g[i], power = 1;
        for (int k = 0; k < 5; k++, power *= x) moment[k] += power / COUNT;
        for (int k = 0; k < EDGES; k++) more[k] += x > edges[k];
        if (i) neighbours += x * (double)g[i - 1] / COUNT;
        /* The two of a pair stand half a block apart; their squares share the radius, they must not correlate. */
        if (i % SIA_NORMAL_BLOCK < SIA_NORMAL_BLOCK / 2) {
            double y = (double)g[i + SIA_NORMAL_BLOCK / 2];
            halves += (x * x - 1) * (y * y - 1) / (COUNT / 2.0);
        }
    }
    double root = sqrt(COUNT);
    near("mean", moment[1], 0, 1 / root, 5);
    near("variance", moment[2], 1, sqrt(2) / root, 5);
    near("third moment", moment[3], 0, sqrt(15) / root, 5);
    near("fourth moment", moment[4], 3, sqrt(96) / root, 5);
    near("neighbours", neighbours, 0, 1 / root, 5);
    near("squares of a pair", halves, 0, 2 * sqrt(2) / root, 5);
    for (int k = 0; k < EDGES; k++) {
        double p = above(edges[k]);
        near("share above an edge", more[k] / COUNT, p, sqrt(p * (1 - p)) / root, 5);
    }
    /* A part of the stream is the stream's part. */
    float part[2 * SIA_NORMAL_BLOCK];
    sia_normal_fill(7, 3 * SIA_NORMAL_BLOCK, 2 * SIA_NORMAL_BLOCK, part);
    assert_memory_equal(part, g + 3 * SIA_NORMAL_BLOCK, sizeof part);
    free(g);
}

/* ------------------------------------------------------------------------------------------------ sums */

static void test_joins(void **state) {
    (void)state;
    assert_true(sia_weight_entropy(sia_weight_none) == 0);
    sia_weight_sum one = {5, 1, 0}, sum = sia_weight_none;
    assert_true(sia_weight_entropy(one) == 0);
    for (int i = 0; i < 1000; i++) sum = sia_weight_join(sum, one);
    near("entropy of 1000 equal weights", sia_weight_entropy(sum), log(1000), 1e-12, 1);
    /* Logits of 1000 and -1000: neither overflows. Weights p and 1 - p have a known entropy. */
    sum = sia_weight_join((sia_weight_sum){1000, 1, 0}, (sia_weight_sum){998, 1, 0});
    double p = 1 / (1 + exp(-2));
    near("two weights", sia_weight_entropy(sum), -p * log(p) - (1 - p) * log(1 - p), 1e-12, 1);
    sum = sia_weight_join((sia_weight_sum){-1000, 1, 0}, (sia_weight_sum){1000, 1, 0});
    assert_true(sum.top == 1000 && sum.z == 1 && sum.n == 0);
}

/* Every scheme and odd lengths: the same normal numbers, summed one by one in double. */
static void test_against_double(void **state) {
    (void)state;
    static const struct {
        const char *scheme;
        double row;
    } cases[] = {{"nope", 1}, {"nope", 5}, {"nope", 500}, {"si", 1}, {"alibi", 1}};
    static const int64_t bounds[] = {0, 1, 512, 1025, 6000, 7000};
    enum { RANGES = 5, ROWS = 19 };
    float g[12 * SIA_NORMAL_BLOCK];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        sia_row_model model = model_of(cases[c].scheme, cases[c].row);
        sia_weight_sum sums[ROWS * RANGES];
        sia_row_sampling rows = {.count = ROWS, .bounds = bounds, .ranges = RANGES, .seed = 11, .threads = 2};
        assert_int_equal(sia_rows_sample(&model, &rows, sums, &said), SIA_OK);
        for (int row = 0; row < ROWS; row += 6)
            for (int range = 0; range < RANGES; range++) {
                uint64_t seed = sia_random_stream(sia_random_stream(11, (uint64_t)row), (uint64_t)range);
                sia_weight_sum want = sia_weight_none;
                sia_normal_fill(seed, 0, 12 * SIA_NORMAL_BLOCK, g);
                for (int64_t t = bounds[range]; t < bounds[range + 1]; t++) {
                    double a, m;
                    sia_distance_values(model.scheme, &model.config, 0, t, 1, &a, &m);
                    double l = a * model.row * (double)g[t - bounds[range]] + m;
                    want = sia_weight_join(want, (sia_weight_sum){l, 1, 0});
                }
                sia_weight_sum got = sums[row * RANGES + range];
                double bound = 2e-6 * (1 + 10 * model.row); /* float logits: absolute errors grow with them */
                near("ln Z", got.top + log(got.z), want.top + log(want.z), bound, 1);
                near("entropy", sia_weight_entropy(got), sia_weight_entropy(want), bound, 1);
            }
    }
}

/* ------------------------------------------------------------------------------------------------ thin */

typedef struct mean_sd {
    double mean, sd;
} mean_sd;

static mean_sd statistics(const sia_weight_sum *sums, int count, bool entropy) {
    mean_sd s = {0, 0};
    for (int i = 0; i < count; i++)
        s.mean += (entropy ? sia_weight_entropy(sums[i]) : sums[i].top + log(sums[i].z)) / count;
    for (int i = 0; i < count; i++) {
        double d = (entropy ? sia_weight_entropy(sums[i]) : sums[i].top + log(sums[i].z)) - s.mean;
        s.sd += d * d / (count - 1);
    }
    s.sd = sqrt(s.sd);
    return s;
}

static void test_thin_against_full(void **state) {
    (void)state;
    static const struct {
        const char *scheme;
        double row;
    } cases[] = {{"nope", 1}, {"nope", 2.5}, {"nope", 5}, {"si", 1}};
    enum { ROWS = 768 };
    static const int64_t bounds[] = {5000, 25000};
    sia_weight_sum *sums = malloc(2 * ROWS * sizeof *sums);
    assert_non_null(sums);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        sia_row_model model = model_of(cases[c].scheme, cases[c].row);
        sia_row_sampling rows = {
            .count = ROWS, .bounds = bounds, .ranges = 1, .seed = 100 + 2 * c, .threads = 2};
        assert_int_equal(sia_rows_sample(&model, &rows, sums, &said), SIA_OK);
        rows.full = 1 << 20;
        rows.seed++;
        assert_int_equal(sia_rows_sample(&model, &rows, sums + ROWS, &said), SIA_OK);
        for (int entropy = 0; entropy < 2; entropy++) {
            mean_sd thin = statistics(sums, ROWS, entropy), full = statistics(sums + ROWS, ROWS, entropy);
            double error = full.sd * sqrt(2.0 / ROWS);
            print_message("%-5s row %-4g %-8s thin %9.5f +- %.5f  full %9.5f +- %.5f\n", cases[c].scheme,
                          cases[c].row, entropy ? "entropy" : "ln Z", thin.mean, thin.sd, full.mean, full.sd);
            near("mean", thin.mean, full.mean, error, 5);
            /* sd of the sd is sd / sqrt(2 n) for normal numbers; twice that for what has heavier tails. */
            near("standard deviation", thin.sd, full.sd, 2 * full.sd / sqrt(ROWS), 5);
        }
    }
    free(sums);
}

/* Plain logits have known moments: Z has mean n e^(1/2) and variance n (e^2 - e). */
static void test_thin_moments(void **state) {
    (void)state;
    enum { ROWS = 4096 };
    const double n = 1e6;
    sia_row_model model = model_of("nope", 1);
    sia_thin thin = sia_thin_prepare(&model, 1000000, 2000000);
    double mean = 0, variance = 0;
    static double z[ROWS];
    for (uint64_t i = 0; i < ROWS; i++) {
        sia_weight_sum sum = sia_thin_sample(&thin, sia_random_stream(21, i));
        z[i] = exp(sum.top) * sum.z / n;
        mean += z[i] / ROWS;
    }
    for (int i = 0; i < ROWS; i++) variance += (z[i] - mean) * (z[i] - mean) / (ROWS - 1);
    double wanted = (exp(2) - exp(1)) / n;
    near("mean of Z", mean, exp(0.5), sqrt(wanted / ROWS), 5);
    near("variance of Z", variance, wanted, wanted * sqrt(2.0 / ROWS), 5);
}

/* Integrals of phi(g) (l w)^i w^j, w = e^l, l = a g + m - top, over g below u, by Simpson's rule. */
static void below(double a, double m, double u, double top, double moment[5]) {
    enum { STEPS = 2000 };
    const double low = -12, step = (u - low) / STEPS;
    for (int i = 0; i < 5; i++) moment[i] = 0;
    for (int i = 0; i <= STEPS; i++) {
        double g = low + i * step, l = a * g + m - top, w = exp(l);
        double weight = (i == 0 || i == STEPS ? 1
                         : i % 2              ? 4
                                              : 2) *
                        step / 3 * exp(-g * g / 2) / sqrt(2 * M_PI);
        moment[0] += weight * w;
        moment[1] += weight * l * w;
        moment[2] += weight * w * w;
        moment[3] += weight * l * w * w;
        moment[4] += weight * l * w * l * w;
    }
}

/* What is drawn for the logits below the threshold has the means and the covariance that they have; rows of 8 and 20
 * reach the far tail. */
static void test_thin_below(void **state) {
    (void)state;
    static const struct {
        const char *scheme;
        double row;
    } cases[] = {{"nope", 0.5}, {"nope", 1}, {"nope", 3}, {"nope", 8}, {"nope", 20}, {"si", 1}, {"si", 2}};
    enum { BEGIN = 50, END = 1050 };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        sia_row_model model = model_of(cases[c].scheme, cases[c].row);
        sia_thin thin = sia_thin_prepare(&model, BEGIN, END);
        double top = -INFINITY, u = thin.threshold, sum[5] = {0}, moment[5] = {0}, keep = 1 - above(u);
        near("share above", thin.above, SIA_THIN_LARGE / (double)(END - BEGIN), 1e-12, 1);
        near("threshold", above(u), thin.above, 1e-12, 1);
        for (int64_t t = BEGIN; t < END; t++) {
            double a, m;
            sia_distance_values(model.scheme, &model.config, 0, t, 1, &a, &m);
            top = fmax(top, m + a * model.row * u);
            if (t == BEGIN || model.scheme.distance) below(a * model.row, m, u, thin.top, moment);
            double z = moment[0] / keep, n = moment[1] / keep;
            sum[0] += z;
            sum[1] += n;
            sum[2] += moment[2] - keep * z * z;
            sum[3] += moment[3] - keep * z * n;
            sum[4] += moment[4] - keep * n * n;
        }
        near("largest", thin.top, top, 1e-9, 1);
        near("mean of Z", thin.mean_z, sum[0], 1e-4 * sum[0], 1);
        near("mean of N", thin.mean_n, sum[1], 1e-4 * fabs(sum[1]), 1);
        near("variance of Z", thin.root_zz * thin.root_zz, sum[2], 1e-4 * sum[2], 1);
        near("covariance", thin.root_zz * thin.root_nz, sum[3], 1e-4 * fabs(sum[3]), 1);
        near("variance of N", thin.root_nz * thin.root_nz + thin.root_nn * thin.root_nn, sum[4],
             1e-4 * sum[4], 1);
    }
}

/* Logits of 0: Z is the number of distances, whichever of them are called large, however many. */
static void test_thin_counts(void **state) {
    (void)state;
    sia_row_model model = model_of("nope", 0);
    sia_thin thin = sia_thin_prepare(&model, 0, 100000);
    for (uint64_t i = 0; i < 200; i++) {
        sia_weight_sum sum = sia_thin_sample(&thin, sia_random_stream(5, i));
        near("Z", exp(sum.top) * sum.z, 100000, 1e-6, 1);
        near("entropy", sia_weight_entropy(sum), log(100000), 1e-9, 1);
    }
}

/* ------------------------------------------------------------------------------------------------ distances */

static void powers(const void *context, double a, double m, double *values) {
    (void)context;
    values[0] = exp(m + a * a / 2);
    values[1] = a * a;
}

static void test_distance_sum(void **state) {
    (void)state;
    static const int64_t ends[][2] = {{0, 1}, {0, 0}, {10, 20}, {4090, 4100}, {3000, 300000}, {50000, 50001}};
    sia_row_model model = model_of("si", 1);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        double sums[2], want[2] = {0, 0};
        sia_distance_sum(&model, ends[i][0], ends[i][1], 2, powers, NULL, sums);
        for (int64_t t = ends[i][0]; t < ends[i][1]; t++) {
            double a, m, values[2];
            sia_distance_values(model.scheme, &model.config, 0, t, 1, &a, &m);
            powers(NULL, a, m, values);
            want[0] += values[0];
            want[1] += values[1];
        }
        for (int k = 0; k < 2; k++) near("sum", sums[k], want[k], 1e-8 * want[k] + 1e-300, 1);
    }
}

static int stop_at_once(void *context, int64_t rows) {
    (void)context;
    return rows > 0;
}

static void test_stop(void **state) {
    (void)state;
    static const int64_t bounds[] = {0, 100};
    sia_row_model model = model_of("si", 1);
    sia_weight_sum sums[64];
    sia_row_sampling rows = {
        .count = 64, .bounds = bounds, .ranges = 1, .threads = 1, .progress = stop_at_once};
    assert_int_equal(sia_rows_sample(&model, &rows, sums, &said), SIA_STOPPED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normals),        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_against_double), cmocka_unit_test(test_thin_against_full),
        cmocka_unit_test(test_thin_moments),   cmocka_unit_test(test_thin_below),
        cmocka_unit_test(test_thin_counts),    cmocka_unit_test(test_distance_sum),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
