/* SPDX-License-Identifier: MIT
 *
 * The oracle's gradients against central differences of its own forward pass: what the kernels are measured
 * by is right. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "larger.h"
#include "problem.h"

static double loss(problem *p) {
    double sum = 0;
    problem_oracle(p, false);
    for (int64_t i = 0; i < p->out.count; i++) sum += p->out.d[i] * p->d_out.d[i];
    return sum;
}

/* The largest difference over every `step`-th number of x, relative to the largest gradient. */
static double difference(problem *p, double *x, const tensor *gradient, int64_t step) {
    const double h = 1e-5;
    double worst = 0, most = 0;
    for (int64_t i = 0; i < gradient->count; i += step) {
        double before = x[i];
        x[i] = before + h;
        double up = loss(p);
        x[i] = before - h;
        double down = loss(p);
        x[i] = before;
        worst = larger(worst, fabs((up - down) / (2 * h) - gradient->d[i]));
        most = larger(most, fabs(gradient->d[i]));
    }
    return worst / most;
}

static void gradients(void **state) {
    (void)state;
    const shape shapes[] = {{2, 1, 16, {.q_len = 9, .k_len = 9}},
                            {2, 2, 8, {.q_len = 4, .k_len = 7, .q_pos = 3, .batch = 2}}};
    const double bound = 1e-8;
    for (const char *const *scheme = sia_scheme_list(); *scheme; scheme++)
        for (int i = 0; i < 2; i++) {
            problem p = problem_create(*scheme, shapes[i], NULL, 20, 1);
            problem_oracle(&p, true);
            double q = difference(&p, p.q.d, &p.d_q, 3), k = difference(&p, p.k.d, &p.d_k, 3);
            double v = difference(&p, p.v.d, &p.d_v, 3), s = p.logn ? difference(&p, p.s.d, &p.d_s, 1) : 0;
            printf("%-14s d_q %.0e  d_k %.0e  d_v %.0e  d_logn %.0e  bound %.0e\n", *scheme, q, k, v, s,
                   bound);
            assert_true(q < bound && k < bound && v < bound && s < bound);
            problem_destroy(&p);
        }
}

/* LogN's s may be 0, where the factor of a row is 0 whatever else is in it. */
static void gradient_at_no_scale(void **state) {
    (void)state;
    sia_attention_config longer = {.train_len = 4, .eval_len = 32};
    problem p = problem_create("logn+yarn", (shape){2, 1, 16, {.q_len = 9, .k_len = 9}}, &longer, 22, 1);
    for (int64_t i = 0; i < p.s.count; i++) p.s.d[i] = 0;
    problem_oracle(&p, true);
    assert_true(difference(&p, p.s.d, &p.d_s, 1) < 1e-8);
    problem_destroy(&p);
}

/* Rows whose result needs no oracle: one key, equal keys, two keys with a known logit. */
static void by_hand(void **state) {
    (void)state;
    problem p = problem_create("si+nope", (shape){1, 1, 8, {.q_len = 2, .k_len = 2}}, NULL, 21, 0);
    for (int i = 0; i < 16; i++) p.v.d[i] = i < 8 ? 1 : 3;
    problem_oracle(&p, false);
    assert_true(fabs(p.out.d[0] - 1) < 1e-15);
    /* q = 0: L_0 = m_0 = 0, L_1 = m_1 = -2 ln(1/10 + 1) */
    double far = exp(-2 * log(1.1)), out = (3 + far) / (1 + far);
    assert_true(fabs(p.out.d[8] - out) < 1e-12);
    assert_true(fabs(p.lse.d[1] - log(1 + far)) < 1e-12);
    problem_destroy(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients), cmocka_unit_test(gradient_at_no_scale),
                                       cmocka_unit_test(by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
