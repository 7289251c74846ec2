/* SPDX-License-Identifier: MIT
 *
 * Small distances are added one by one. From t = 4096 on the sum is an integral,
 *
 *     sum of f(t) over b <= t < e  =  integral of f from b - 1/2 to e - 1/2  +  O(f'(b))
 *
 * whose error f'/24 is below 1e-8 of f there; it is taken by Gauss and Legendre's rule with 8 points on pieces
 * whose ends are at most a factor 2 apart: for 1/t the rule's error is 1e-12. */
#include "eval/distance_sum.h"

#include <math.h>

static const int64_t one_by_one = 4096;

/* The positive half of the points on [-1, 1], with their weights. */
static const double points[4][2] = {{0.18343464249564980, 0.36268378337836198},
                                    {0.52553240991632899, 0.31370664587788729},
                                    {0.79666647741362674, 0.22238103445337447},
                                    {0.96028985649753623, 0.10122853629037626}};

typedef struct summing {
    const sia_row_model *model;
    int count;
    sia_distance_term *term;
    const void *context;
    double *sums;
} summing;

static void add(const summing *s, double weight, double a, double m) {
    double values[SIA_DISTANCE_SUMS];
    s->term(s->context, a * s->model->row, m, values);
    for (int i = 0; i < s->count; i++) s->sums[i] += weight * values[i];
}

/* Between two whole distances the tables are joined by a line: at t >= 4096 that is off by 1 / (8 t^2). */
static void add_between(const summing *s, double weight, double t) {
    double a[2], m[2], whole = floor(t), part = t - whole;
    sia_distance_values(s->model->scheme, &s->model->config, 0, (int64_t)whole, 2, a, m);
    add(s, weight, a[0] + part * (a[1] - a[0]), m[0] + part * (m[1] - m[0]));
}

void sia_distance_sum(const sia_row_model *model, int64_t begin, int64_t end, int count,
                      sia_distance_term *term, const void *context, double *sums) {
    summing s = {model, count, term, context, sums};
    for (int i = 0; i < count; i++) sums[i] = 0;
    for (; begin < end && begin < one_by_one; begin++) {
        double a, m;
        sia_distance_values(model->scheme, &model->config, 0, begin, 1, &a, &m);
        add(&s, 1, a, m);
    }
    double from = (double)begin - 0.5, last = (double)end - 0.5;
    while (from < last) {
        double to = 2 * from < last ? 2 * from : last, middle = (from + to) / 2, half = (to - from) / 2;
        for (int i = 0; i < 4; i++) {
            add_between(&s, half * points[i][1], middle - half * points[i][0]);
            add_between(&s, half * points[i][1], middle + half * points[i][0]);
        }
        from = to;
    }
}
