/* SPDX-License-Identifier: MIT
 *
 * Rows of Gaussian logits, made and summed.
 *
 * Normal numbers by Box and Muller, both of each pair:  r = sqrt(-2 ln u),  (r cos v, r sin v). One random word
 * of 64 bits makes a pair: 40 bits for u (so that r goes to 7.4, which one in 10^13 exceeds) and 24 for the
 * angle, of which 3 choose one of eight octants and 21 the place in it: sine and cosine are then short
 * polynomials on [0, pi/4].
 *
 * Sums are taken in blocks of 512 distances. In a block the weights are multiples of its largest one, as in the
 * online softmax, in base 2 and in float; blocks are joined in double. */
#define VW 4 /* what every processor family has: the same bits on all of them */
#include "kernel/vector.h"

#include "eval/rows.h"

#include <math.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/random.h"
#include "base/threads.h"
#include "eval/thin.h"

enum { BLOCK = SIA_NORMAL_BLOCK, PAIRS = BLOCK / 2 };

/* Rows that share the tables of a block: log and sqrt for each distance are then a small part of the time. */
enum { ROWS_TOGETHER = 16 };

/* With a slope of 2^-8, weights this much further away than the first are e^-40 of it. */
static const int64_t alibi_reach = 40 * 256;

/* ------------------------------------------------------------------------------------------------ sums */

const sia_weight_sum sia_weight_none = {-INFINITY, 0, 0};

sia_weight_sum sia_weight_of(const double *logits, int64_t count) {
    sia_weight_sum sum = sia_weight_none;
    for (int64_t i = 0; i < count; i++) sum.top = fmax(sum.top, logits[i]);
    for (int64_t i = 0; i < count; i++) {
        double below = logits[i] - sum.top, weight = exp(below);
        sum.z += weight;
        sum.n += weight * below;
    }
    return sum;
}

sia_weight_sum sia_weight_join(sia_weight_sum a, sia_weight_sum b) {
    if (a.top < b.top) {
        sia_weight_sum swap = a;
        a = b;
        b = swap;
    }
    if (!(b.z > 0)) return a;
    double lower = b.top - a.top, factor = exp(lower);
    return (sia_weight_sum){a.top, a.z + factor * b.z, a.n + factor * (b.n + lower * b.z)};
}

double sia_weight_entropy(sia_weight_sum sum) {
    if (!(sum.z > 0)) return 0;
    double entropy = log(sum.z) - sum.n / sum.z;
    return entropy > 0 ? entropy : 0; /* one key: 0, and not a rounding below it */
}

/* ------------------------------------------------------------------------------------------------ normals */

/* -2 ln(u), u = scaled / 2^40. u = 2^e m with sqrt(1/2) <= m < sqrt(2), ln m = 2 artanh((m - 1)/(m + 1)). */
INLINE vf minus_two_ln(vf scaled) {
    vi bits = (vi)scaled, exponent = (bits - 0x3f3504f3) >> 23;
    vf m = (vf)(bits - (exponent << 23)), e = __builtin_convertvector(exponent - 40, vf);
    vf s = (m - 1.0f) / (m + 1.0f), ss = s * s;
    vf series = ((ss * (1 / 9.0f) + 1 / 7.0f) * ss + 1 / 5.0f) * ss + 1 / 3.0f;
    return -2.0f * (2.0f * s * (series * ss + 1.0f) + e * (float)M_LN2);
}

/* The unit vector at an angle in the octant and with the place that the low 24 bits say. */
INLINE void direction(vi bits, vf *x, vf *y) {
    vf place = __builtin_convertvector((bits & 0xffffff) >> 3, vf) + 0.5f;
    vf v = place * (float)(M_PI / 4 / (1 << 21)), vv = v * v;
    vf sine = (((vv * (1 / 362880.0f) - 1 / 5040.0f) * vv + 1 / 120.0f) * vv - 1 / 6.0f) * vv * v + v;
    vf cosine = (((vv * (1 / 40320.0f) - 1 / 720.0f) * vv + 1 / 24.0f) * vv - 0.5f) * vv + 1.0f;
    vi swap = -(bits & 1);
    *x = (vf)((vi)vselect(swap, sine, cosine) ^ (-(bits >> 1 & 1) & INT32_MIN));
    *y = (vf)((vi)vselect(swap, cosine, sine) ^ (-(bits >> 2 & 1) & INT32_MIN));
}

static void fill_block(uint64_t seed, uint64_t first_pair, float normal[BLOCK]) {
    float scaled[PAIRS], radius[PAIRS];
    int32_t angle[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        uint64_t word = sia_random_u64(seed, first_pair + (uint64_t)i);
        scaled[i] = (float)(int64_t)(word >> 24) + 0.5f;
        angle[i] = (int32_t)(word & 0xffffff);
    }
    for (int i = 0; i < PAIRS; i += VW) vstore(radius + i, minus_two_ln(vload(scaled + i)));
    /* Rounding can leave -0 or a hair below 0 where u is next to 1. */
    for (int i = 0; i < PAIRS; i++) radius[i] = sqrtf(radius[i] > 0 ? radius[i] : 0);
    for (int i = 0; i < PAIRS; i += VW) {
        vf x, y, r = vload(radius + i);
        vi bits;
        memcpy(&bits, angle + i, sizeof bits);
        direction(bits, &x, &y);
        vstore(normal + i, r * x);
        vstore(normal + PAIRS + i, r * y);
    }
}

void sia_normal_fill(uint64_t seed, uint64_t first, int64_t count, float *normal) {
    for (int64_t i = 0; i < count; i += BLOCK) fill_block(seed, (first + (uint64_t)i) / 2, normal + i);
}

/* ------------------------------------------------------------------------------------------------ blocks */

sia_status sia_row_model_create(sia_row_model *model, const char *scheme, const sia_attention_config *config,
                                sia_error *err) {
    *model = (sia_row_model){.row = 1};
    sia_status status = sia_scheme_parse(scheme, &model->scheme, err);
    if (status) return status;
    model->config = (sia_attention_config){.heads = 1,
                                           .head_dim = 8,
                                           .threads = 1,
                                           .tau = config->tau,
                                           .alpha = config->alpha,
                                           .beta = config->beta};
    return sia_config_complete(&model->scheme, &model->config, err);
}

/* Scale and bias of a block in base 2, the bias above that of the block's first distance, which is `reference`
 * (in nats): far away, a bias of alibi in float would have lost its small steps. */
typedef struct block_table {
    float scale[BLOCK], bias[BLOCK];
    double reference;
} block_table;

static void fill_table(const sia_row_model *model, int64_t first, int64_t count, block_table *table) {
    double scale[BLOCK], bias[BLOCK];
    sia_distance_values(model->scheme, &model->config, 0, first, count, scale, bias);
    table->reference = bias[0];
    for (int64_t i = 0; i < BLOCK; i++) {
        /* Places past the end get a weight that is a true 0. */
        table->scale[i] = i < count ? (float)(scale[i] * model->row * M_LOG2E) : 0;
        table->bias[i] = i < count ? (float)((bias[i] - bias[0]) * M_LOG2E) : -1e30f;
    }
}

static sia_weight_sum sum_block(const block_table *table, float logit[BLOCK]) {
    vf top = vdup(-INFINITY), z[4] = {vzero(), vzero(), vzero(), vzero()}, n[4] = {z[0], z[0], z[0], z[0]};
    for (int i = 0; i < BLOCK; i += VW) {
        vf x = vload(table->scale + i) * vload(logit + i) + vload(table->bias + i);
        vstore(logit + i, x);
        top = vmax(top, x);
    }
    top = vmax_all(top);
    /* Four sums at a time: a float then adds up 32 terms, and errors stay near 1e-6. */
    for (int i = 0; i < BLOCK; i += 4 * VW)
        for (int j = 0; j < 4; j++) {
            vf x = vload(logit + i + j * VW) - top, w = vexp2(x);
            z[j] += w;
            n[j] += w * x;
        }
    double z_sum = 0, n_sum = 0;
    for (int j = 0; j < 4; j++)
        for (int lane = 0; lane < VW; lane++) {
            z_sum += (double)z[j][lane];
            n_sum += (double)n[j][lane];
        }
    return (sia_weight_sum){(double)top[0] * M_LN2 + table->reference, z_sum, n_sum * M_LN2};
}

/* ------------------------------------------------------------------------------------------------ rows */

typedef struct sampling {
    const sia_row_model *model;
    const sia_row_sampling *rows;
    sia_weight_sum *sums;
    int64_t end[SIA_ROWS_RANGES]; /* of each range, where weights are no longer too small to count */
    bool thinned[SIA_ROWS_RANGES];
    sia_thin thin[SIA_ROWS_RANGES];
    _Atomic int64_t done;
    atomic_bool stop;
} sampling;

static uint64_t row_seed(const sampling *s, int64_t row, int range) {
    return sia_random_stream(sia_random_stream(s->rows->seed, (uint64_t)row), (uint64_t)range);
}

/* Every logit of a range, for rows first .. first + count - 1. sums: of the first row; the next is `stride`
 * later. */
static void sample_full(const sampling *s, int range, int64_t first, int64_t count, sia_weight_sum *sums) {
    int64_t begin = s->rows->bounds[range], end = s->end[range];
    int stride = s->rows->ranges;
    for (int64_t t = begin; t < end; t += BLOCK) {
        block_table table;
        float normal[BLOCK];
        fill_table(s->model, t, end - t < BLOCK ? end - t : BLOCK, &table);
        for (int64_t r = 0; r < count; r++) {
            fill_block(row_seed(s, first + r, range), (uint64_t)(t - begin) / 2, normal);
            sums[r * stride] = sia_weight_join(sums[r * stride], sum_block(&table, normal));
        }
    }
}

/* One task: a few rows, all their ranges. */
static void sample_rows(void *context, int64_t task, int worker) {
    sampling *s = context;
    const sia_row_sampling *rows = s->rows;
    int64_t first = task * ROWS_TOGETHER, left = rows->count - first;
    int64_t count = left < ROWS_TOGETHER ? left : ROWS_TOGETHER;
    if (atomic_load_explicit(&s->stop, memory_order_relaxed)) return;
    for (int range = 0; range < rows->ranges; range++) {
        sia_weight_sum *sums = s->sums + first * rows->ranges + range;
        for (int64_t r = 0; r < count; r++)
            sums[r * rows->ranges] = s->thinned[range]
                                         ? sia_thin_sample(&s->thin[range], row_seed(s, first + r, range))
                                         : sia_weight_none;
        if (!s->thinned[range]) sample_full(s, range, first, count, sums);
    }
    int64_t done = atomic_fetch_add_explicit(&s->done, count, memory_order_relaxed) + count;
    if (worker == 0 && rows->progress && rows->progress(rows->progress_context, done))
        atomic_store_explicit(&s->stop, true, memory_order_relaxed);
}

sia_status sia_rows_sample(const sia_row_model *model, const sia_row_sampling *rows, sia_weight_sum *sums,
                           sia_error *err) {
    sampling s = {.model = model, .rows = rows, .sums = sums};
    int64_t full = rows->full > SIA_ROWS_FULL ? rows->full : SIA_ROWS_FULL;
    for (int i = 0; i < rows->ranges; i++) {
        int64_t begin = rows->bounds[i], end = rows->bounds[i + 1];
        bool alibi = model->scheme.distance == SIA_DISTANCE_ALIBI;
        s.end[i] = alibi && end - begin > alibi_reach ? begin + alibi_reach : end;
        s.thinned[i] = !alibi && end - begin > full;
        if (s.thinned[i]) s.thin[i] = sia_thin_prepare(model, begin, end);
    }
    sia_parallel(rows->threads, (rows->count + ROWS_TOGETHER - 1) / ROWS_TOGETHER, sample_rows, &s);
    return atomic_load(&s.stop) ? sia_fail(err, SIA_STOPPED, "stopped") : SIA_OK;
}
