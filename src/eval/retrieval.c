/* SPDX-License-Identifier: MIT
 *
 * Retrieval: see retrieval.h. */
#include "eval/retrieval.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"

enum {
    ANSWER = 4096, /* bytes of an answer, at most */
    SLACK = 24,    /* tokens that a wrong answer may have more than the right one */
    ROUND = 4,     /* samples of a thread between two looks at the progress */
    LONG = 8192,   /* tokens: of longer samples one */
};

/* ------------------------------------------------------------------------------------------------ scoring */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Whether text starts with "city=number"; *end is what follows it. */
static bool starts_with(const char *text, const sia_needle *needle, const char **end) {
    size_t city = strlen(needle->city), number = strlen(needle->number);
    if (strncmp(text, needle->city, city) != 0 || text[city] != '=' ||
        strncmp(text + city + 1, needle->number, number) != 0)
        return false;
    *end = text + city + 1 + number;
    return true;
}

void sia_answer_score(const char *answer, const sia_needle *needles, int count, bool *right) {
    for (int i = 0; i < count; i++) {
        const char *end;
        right[i] = answer && starts_with(answer, &needles[i], &end) &&
                   (i + 1 < count ? *end == ';' : !is_digit(*end));
        answer = answer ? strchr(answer, ';') : NULL;
        if (answer) answer++;
    }
}

/* Whether nothing that follows can change the score: all needles are answered, and the last one by as many
 * bytes as it has. */
static bool is_whole(const char *answer, const sia_needle *needles, int count) {
    for (int i = 0; i + 1 < count; i++) {
        answer = strchr(answer, ';');
        if (!answer) return false;
        answer++;
    }
    return strlen(answer) >= strlen(needles[count - 1].city) + 1 + strlen(needles[count - 1].number);
}

/* ------------------------------------------------------------------------------------------------ answers */

typedef struct work {
    const sia_retrieval *r;
    sia_haystack haystack;
    int needles;
    int64_t first; /* of this rank's samples, that of task 0 */
    sia_predict *predict;
    void *context;
    struct {
        uint32_t *ids; /* [length + 1] */
        uint8_t *mask; /* [length] */
    } * workers;
    bool (*right)[SIA_NEEDLES_MOST]; /* [samples] */
    int (*depth)[SIA_NEEDLES_MOST];  /* [samples] */
    sia_status *statuses;            /* [samples] */
    sia_error *errors;               /* [a round's samples] */
} work;

static sia_status write_answer(const work *w, int worker, const sia_needle *needles, char *answer,
                               sia_error *err) {
    const sia_tokenizer *t = w->haystack.tokenizer;
    const uint32_t *ids = w->workers[worker].ids;
    int64_t at = needles[0].answer_first, limit = w->haystack.length + 1 + SLACK;
    size_t used = 0;
    uint32_t next;
    sia_status status = w->predict(w->context, worker, 0, ids, at, &next, err);
    for (; !status; at++) {
        size_t bytes;
        if (w->haystack.numbers_only && at <= w->haystack.length && !w->workers[worker].mask[at - 1])
            next = ids[at]; /* given */
        const char *piece = sia_tokenizer_bytes(t, next, &bytes);
        if (bytes == 0 || used + bytes >= ANSWER) break; /* end of text, or no end */
        memcpy(answer + used, piece, bytes);
        used += bytes;
        answer[used] = 0;
        if (at >= limit || is_whole(answer, needles, w->needles)) break;
        status = w->predict(w->context, worker, at, &next, 1, &next, err);
    }
    answer[used] = 0;
    return status;
}

/* The ranks take turns. */
static int64_t sample_of(const work *w, int64_t own) {
    return sia_comm_rank(w->r->comm) + own * sia_comm_size(w->r->comm);
}

static void sample_task(void *context, int64_t task, int worker) {
    work *w = context;
    int64_t n = sample_of(w, w->first + task);
    char answer[ANSWER];
    sia_needle needles[SIA_NEEDLES_MOST];
    sia_error *err = &w->errors[task];
    sia_status status = sia_haystack_read(&w->haystack, (uint64_t)n, w->workers[worker].ids,
                                          w->workers[worker].mask, needles, err);
    if (!status) status = write_answer(w, worker, needles, answer, err);
    w->statuses[n] = status;
    if (status) return;
    sia_answer_score(answer, needles, w->needles, w->right[n]);
    for (int i = 0; i < w->needles; i++)
        w->depth[n][i] = (int)(needles[i].first * SIA_DEPTHS / w->haystack.length);
}

static void add_up_own(const work *w, sia_retrieval_result *result) {
    *result = (sia_retrieval_result){0};
    for (int64_t own = 0, n; (n = sample_of(w, own)) < w->r->samples; own++)
        for (int i = 0; i < w->needles; i++) {
            int depth = w->depth[n][i] < SIA_DEPTHS ? w->depth[n][i] : SIA_DEPTHS - 1;
            result->count++;
            result->depth_count[depth]++;
            result->right += w->right[n][i];
            result->depth_right[depth] += w->right[n][i];
        }
}

/* Whole numbers: exact in any order. */
static sia_status add_up(const work *w, sia_retrieval_result *result, sia_error *err) {
    double numbers[2 + 2 * SIA_DEPTHS];
    add_up_own(w, result);
    numbers[0] = (double)result->count;
    numbers[1] = (double)result->right;
    for (int i = 0; i < SIA_DEPTHS; i++) {
        numbers[2 + i] = (double)result->depth_count[i];
        numbers[2 + SIA_DEPTHS + i] = (double)result->depth_right[i];
    }
    sia_status status = sia_comm_sum(w->r->comm, numbers, 2 + 2 * SIA_DEPTHS, err);
    result->count = (int64_t)numbers[0];
    result->right = (int64_t)numbers[1];
    for (int i = 0; i < SIA_DEPTHS; i++) {
        result->depth_count[i] = (int64_t)numbers[2 + i];
        result->depth_right[i] = (int64_t)numbers[2 + SIA_DEPTHS + i];
    }
    return status;
}

static sia_status rounds(work *w, int threads, sia_error *err) {
    int ranks = sia_comm_size(w->r->comm);
    /* Between rounds a person who wants it to stop is heard. */
    int64_t round = w->haystack.length > LONG ? threads : (int64_t)threads * ROUND;
    int64_t samples = (w->r->samples - sia_comm_rank(w->r->comm) + ranks - 1) / ranks;
    for (w->first = 0; w->first < samples; w->first += round) {
        const sia_retrieval *r = w->r;
        if (r->progress && r->progress(r->progress_context, "retrieval", (double)w->first / (double)samples))
            return sia_fail(err, SIA_STOPPED, "stopped");
        int64_t tasks = samples - w->first < round ? samples - w->first : round;
        sia_parallel(threads, tasks, sample_task, w);
        for (int64_t i = 0; i < tasks; i++)
            if (w->statuses[sample_of(w, w->first + i)]) {
                if (err) *err = w->errors[i];
                return w->statuses[sample_of(w, w->first + i)];
            }
    }
    return SIA_OK;
}

static sia_status make_room(work *w, int threads, sia_error *err) {
    size_t samples = (size_t)w->r->samples, length = (size_t)w->haystack.length;
    w->workers = sia_alloc((size_t)threads, sizeof *w->workers);
    w->right = sia_alloc(samples, sizeof *w->right);
    w->depth = sia_alloc(samples, sizeof *w->depth);
    w->statuses = sia_alloc(samples, sizeof *w->statuses);
    w->errors = sia_alloc((size_t)threads * ROUND, sizeof *w->errors);
    bool made = w->workers && w->right && w->depth && w->statuses && w->errors;
    for (int i = 0; made && i < threads; i++) {
        w->workers[i].ids = sia_alloc(length + 1, sizeof *w->workers[i].ids);
        w->workers[i].mask = sia_alloc(length, 1);
        made = w->workers[i].ids && w->workers[i].mask;
    }
    return made ? SIA_OK : sia_fail_memory(err, length * sizeof(uint32_t), "retrieval");
}

sia_status sia_retrieval_run(const sia_retrieval *r, sia_predict *predict, void *context,
                             sia_retrieval_result *result, sia_error *err) {
    if (r->samples < 1 || r->haystack.length < 1)
        return sia_fail(err, SIA_ARGUMENT, "retrieval: %lld samples of length %lld: want 1 or more",
                        (long long)r->samples, (long long)r->haystack.length);
    int threads = r->threads ? r->threads : sia_threads_available();
    work w = {.r = r, .haystack = r->haystack, .predict = predict, .context = context};
    w.needles = r->haystack.needles ? r->haystack.needles : SIA_NEEDLES_USUAL;
    w.haystack.validation = true;
    sia_status status = make_room(&w, threads, err);
    if (!status) status = rounds(&w, threads, err);
    status = sia_comm_agree(r->comm, status, err);
    if (!status) status = add_up(&w, result, err);
    for (int i = 0; w.workers && i < threads; i++) {
        sia_free(w.workers[i].ids);
        sia_free(w.workers[i].mask);
    }
    sia_free(w.workers);
    sia_free(w.right);
    sia_free(w.depth);
    sia_free(w.statuses);
    sia_free(w.errors);
    return status;
}

/* ------------------------------------------------------------------------------------------------ models */

typedef struct readers {
    sia_session **sessions; /* [threads] */
    float *logits;          /* [threads, vocabulary] */
    uint32_t vocabulary, tokens;
} readers;

static sia_status predict_next(void *context, int worker, int64_t from, const uint32_t *ids, int64_t count,
                               uint32_t *next, sia_error *err) {
    readers *r = context;
    float *logits = r->logits + (size_t)worker * r->vocabulary;
    sia_status status = from == 0 ? sia_session_truncate(r->sessions[worker], 0, err) : SIA_OK;
    if (!status) status = sia_session_feed(r->sessions[worker], ids, count, NULL, NULL, logits, err);
    if (!status)
        status = sia_sample(logits, r->vocabulary, &(sia_sampling){.limit = r->tokens}, 0, next, err);
    return status;
}

sia_status sia_retrieval_of_model(sia_model *m, const sia_retrieval *r, sia_retrieval_result *result,
                                  sia_error *err) {
    sia_retrieval own = *r;
    own.threads = r->threads ? r->threads : sia_threads_available();
    readers all = {.vocabulary = sia_model_settings(m)->vocabulary,
                   .tokens = sia_tokenizer_size(r->haystack.tokenizer)};
    if (all.tokens > all.vocabulary)
        return sia_fail(err, SIA_ARGUMENT, "the tokenizer has %u tokens, the model %u", all.tokens,
                        all.vocabulary);
    all.sessions = sia_alloc((size_t)own.threads, sizeof *all.sessions);
    all.logits = sia_alloc((size_t)own.threads * all.vocabulary, sizeof *all.logits);
    sia_status status = all.sessions && all.logits
                            ? SIA_OK
                            : sia_fail_memory(err, all.vocabulary * sizeof(float), "retrieval");
    for (int i = 0; !status && i < own.threads; i++)
        status = sia_session_create(&all.sessions[i], m, SIA_F32, err);
    status = sia_comm_agree(r->comm, status, err);
    if (!status) status = sia_retrieval_run(&own, predict_next, &all, result, err);
    for (int i = 0; all.sessions && i < own.threads; i++) sia_session_destroy(all.sessions[i]);
    sia_free(all.sessions);
    sia_free(all.logits);
    return status;
}
