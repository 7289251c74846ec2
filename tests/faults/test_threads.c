/* SPDX-License-Identifier: MIT
 *
 * Threads of the caller: two objects in two threads, one object in several threads where sia.h allows it,
 * and a fork after all of that. Every result is that of one thread, bit for bit. The thread sanitizer runs
 * this too (make test PRESET=tsan). */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

#include "base/random.h"
#include "base/threads.h"
#include "end_child.h"
#include "model/model.h"
#include "support.h"
#include "train/train.h"
#include "tree.h"

// Bits are compared, not values: that is the promise. NOLINTBEGIN(bugprone-suspicious-memory-comparison)

enum { CALLERS = 4, ROUNDS = 6, LENGTH = 70, HEADS = 2, DIM = 16, FLOATS = LENGTH * HEADS * DIM };

typedef struct caller {
    const void *shared;
    int index;
    bool good; /* all results were right */
} caller;

/* Runs f in CALLERS threads at once. */
static void together(void *(*f)(void *), const void *shared) {
    pthread_t threads[CALLERS];
    caller callers[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.shared = shared, .index = i};
        assert_int_equal(pthread_create(&threads[i], NULL, f, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < CALLERS; i++) assert_true(callers[i].good);
}

/* ------------------------------------------------------------------------------------------------ attention */

typedef struct problem {
    sia_attention *a;
    float q[FLOATS], k[FLOATS], v[FLOATS], logn[HEADS], out[FLOATS], lse[LENGTH * HEADS];
} problem;

static const char *const schemes[] = {"si+prope", "logn+yarn", "alibi", "sharp+rope"};

static void make_problem(problem *p, int scheme, int threads) {
    sia_attention_config config = {
        .heads = HEADS, .head_dim = DIM, .threads = threads, .train_len = 32, .eval_len = 128};
    OK(sia_attention_create(&p->a, schemes[scheme], &config, &said));
    for (uint64_t i = 0; i < FLOATS; i++) {
        p->q[i] = (float)sia_random_normal(1, i);
        p->k[i] = (float)sia_random_normal(2, i);
        p->v[i] = (float)sia_random_normal(3, i);
    }
    p->logn[0] = 0.3F, p->logn[1] = 0.4F;
}

static bool forward(const problem *p, int64_t length, float *out, float *lse) {
    bool logn = strncmp(sia_attention_scheme(p->a), "logn", 4) == 0;
    sia_forward io = {.q = p->q, .k = p->k, .v = p->v, .logn = logn ? p->logn : NULL, .out = out, .lse = lse};
    return sia_attention_forward(p->a, (sia_span){.q_len = length, .k_len = length}, &io, NULL, NULL) ==
           SIA_OK;
}

/* The table of distances grows while others read it: lengths differ between the callers. */
static void *attend(void *context) {
    caller *c = context;
    const problem *p = c->shared;
    float *out = calloc(FLOATS, sizeof *out), lse[LENGTH * HEADS];
    c->good = out != NULL;
    for (int round = 0; c->good && round < ROUNDS; round++) {
        int64_t length = 1 + (round * 13 + c->index * 17) % LENGTH;
        c->good = forward(p, length, out, lse) &&
                  memcmp(out, p->out, (size_t)length * HEADS * DIM * sizeof *out) == 0 &&
                  memcmp(lse, p->lse, (size_t)length * HEADS * sizeof *lse) == 0;
    }
    free(out);
    return NULL;
}

static void test_shared_attention(void **state) {
    (void)state;
    for (int scheme = 0; scheme < 4; scheme++) {
        problem *p = calloc(1, sizeof *p), *fresh = calloc(1, sizeof *fresh);
        assert_true(p && fresh);
        make_problem(p, scheme, 2);
        make_problem(fresh, scheme, 2);
        assert_true(forward(p, LENGTH, p->out, p->lse));
        memcpy(fresh->out, p->out, sizeof p->out);
        memcpy(fresh->lse, p->lse, sizeof p->lse);
        together(attend, fresh); /* whose tables are empty yet */
        sia_attention_destroy(p->a);
        sia_attention_destroy(fresh->a);
        free(p);
        free(fresh);
    }
}

/* Each its own object and its own cache, on threads of the library. */
static void *attend_alone(void *context) {
    caller *c = context;
    problem *p = calloc(1, sizeof *p);
    sia_cache *cache = NULL;
    float out[HEADS * DIM];
    c->good = p != NULL;
    if (!p) return NULL;
    make_problem(p, c->index % 4, 2);
    bool logn = c->index % 4 == 1;
    c->good = forward(p, LENGTH, p->out, p->lse) && sia_cache_create(&cache, p->a, SIA_F32, NULL) == SIA_OK;
    for (int64_t i = 0; c->good && i < LENGTH; i++) {
        const size_t at = (size_t)i * HEADS * DIM;
        c->good = !sia_cache_append(cache, 1, p->k + at, p->v + at, NULL) &&
                  !sia_cache_attend(cache, 1, p->q + at, logn ? p->logn : NULL, out, NULL, NULL);
        for (int j = 0; j < HEADS * DIM; j++)
            c->good = c->good && fabsf(out[j] - p->out[at + (size_t)j]) < 1e-4F;
    }
    sia_cache_destroy(cache);
    sia_attention_destroy(p->a);
    free(p);
    return NULL;
}

static void test_own_attention(void **state) {
    (void)state;
    together(attend_alone, NULL);
}

/* ------------------------------------------------------------------------------------------------ tokenizers */

typedef struct texts {
    sia_tokenizer *t;
    char *text;
    size_t bytes, count;
    uint32_t *ids;
} texts;

static void *encode(void *context) {
    caller *c = context;
    const texts *x = c->shared;
    uint32_t *ids = malloc(x->bytes * sizeof *ids);
    size_t count = 0;
    c->good = ids != NULL;
    for (int round = 0; c->good && round < ROUNDS; round++) {
        sia_status status =
            (c->index + round) % 2
                ? sia_tokenizer_encode(x->t, x->text, x->bytes, ids, &count, NULL)
                : sia_tokenizer_encode_parallel(x->t, 2, x->text, x->bytes, ids, &count, NULL);
        c->good = !status && count == x->count && memcmp(ids, x->ids, count * sizeof *ids) == 0;
    }
    free(ids);
    return NULL;
}

static void test_shared_tokenizer(void **state) {
    (void)state;
    sia_source *source;
    texts x = {.t = small_tokenizer(400)};
    OK(sia_source_create(&source, 5, 3000, &said));
    OK(sia_source_document(source, 0, NULL, &x.text, &x.bytes, &said));
    x.ids = malloc(x.bytes * sizeof *x.ids);
    assert_non_null(x.ids);
    OK(sia_tokenizer_encode(x.t, x.text, x.bytes, x.ids, &x.count, &said));
    together(encode, &x);
    sia_tokenizer_close(x.t);
    sia_source_destroy(source);
    free(x.text);
    free(x.ids);
}

/* ------------------------------------------------------------------------------------------------ corpora */

static void *read_batches(void *context) {
    caller *c = context;
    uint32_t ids[2 * 9];
    sia_batches b = {
        .corpus = c->shared, .length = 8, .sequences = 2, .order = SIA_ORDER_SHUFFLED, .seed = 4};
    c->good = true;
    for (int64_t step = 0; c->good && step < 200; step++) {
        c->good = sia_batches_read(&b, step, 0, ids, NULL, NULL) == SIA_OK;
        /* Token i of the corpus is i modulo 500: a window is a run of numbers. */
        for (int i = 1; c->good && i < 9; i++) c->good = ids[i] == (ids[i - 1] + 1) % 500;
    }
    return NULL;
}

static void test_shared_corpus(void **state) {
    (void)state;
    static uint16_t tokens[5000];
    sia_corpus *c;
    for (int i = 0; i < 5000; i++) tokens[i] = (uint16_t)(i % 500);
    OK(sia_corpus_borrow(&c, tokens, 5000,
                         &(sia_corpus_config){.vocabulary = 500, .end_of_text = 499, .scan = 1}, &said));
    together(read_batches, c);
    sia_corpus_close(c);
}

/* ------------------------------------------------------------------------------------------------ models */

enum { VOCABULARY = 64 };

typedef struct thinker {
    sia_model *m;
    float logits[VOCABULARY];
} thinker;

static const uint32_t prompt[] = {1, 5, 9, 2, 2, 63, 0, 7};

static bool think(sia_model *m, float *logits) {
    sia_session *s;
    bool good = sia_session_create(&s, m, SIA_F32, NULL) == SIA_OK &&
                sia_session_feed(s, prompt, 8, NULL, NULL, logits, NULL) == SIA_OK;
    sia_session_destroy(s);
    return good;
}

static void *think_again(void *context) {
    caller *c = context;
    const thinker *t = c->shared;
    float logits[VOCABULARY];
    c->good = true;
    for (int round = 0; c->good && round < ROUNDS; round++)
        c->good = think(t->m, logits) && memcmp(logits, t->logits, sizeof logits) == 0;
    return NULL;
}

static void test_shared_model(void **state) {
    (void)state;
    thinker t;
    sia_model_config config = {
        .layers = 2, .width = 32, .heads = 2, .vocabulary = VOCABULARY, .train_len = 16};
    OK(sia_model_create(&t.m, &config, 2, &said));
    for (int i = 0; i < sia_model_tensors(t.m); i++) {
        sia_tensor tensor = sia_model_tensor(t.m, i);
        for (int64_t j = 0; j < tensor.rows * tensor.columns; j++)
            tensor.value[j] = 0.1F * (float)sia_random_normal((uint64_t)i, (uint64_t)j);
    }
    assert_true(think(t.m, t.logits));
    together(think_again, &t);
    sia_model_destroy(t.m);
}

/* ------------------------------------------------------------------------------------------------ whole trainings */

static sia_settings small_settings(void) {
    sia_settings s;
    OK(sia_settings_preset(&s, "tiny", &said));
    s.model.layers = 1, s.model.width = 16, s.model.heads = 1, s.model.train_len = 16,
    s.model.vocabulary = 300;
    s.training.steps = 4, s.training.batch = 2, s.training.log_every = 1, s.training.eval_windows = 2;
    s.training.multiples[0] = 1, s.training.multiples[1] = 0;
    return s;
}

/* Two or more trainings, each in its folder. */
static void *train(void *context) {
    caller *c = context;
    char folder[300];
    sia_error err;
    sia_settings settings = small_settings();
    sia_data_source source = {.threads = 2};
    (void)snprintf(folder, sizeof folder, "%s/train-%d", scratch, c->index);
    sia_train_job job = {.folder = folder, .settings = &settings, .source = &source, .threads = 2};
    c->good = sia_train(&job, &err) == SIA_OK;
    return NULL;
}

static void test_trainings(void **state) {
    (void)state;
    SKIP_WITH_THREAD_SANITIZER(); /* 24 documents of generated text for each tokenizer: minutes */
    char why[TREE_WHY];
    together(train, NULL);
    tree first = tree_read(in_scratch("train-0"));
    for (int i = 1; i < CALLERS; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "train-%d", i);
        tree other = tree_read(in_scratch(name));
        if (!tree_same(&first, &other, why)) fail_msg("%s: %s", name, why);
        tree_free(&other);
    }
    tree_free(&first);
}

/* ------------------------------------------------------------------------------------------------ fork */

/* The child has none of the library's threads, and makes its own. */
static void test_fork(void **state) {
    (void)state;
    SKIP_WITH_THREAD_SANITIZER(); /* it does not let a forked child start threads */
    problem *p = calloc(1, sizeof *p);
    assert_non_null(p);
    make_problem(p, 0, 4);
    assert_true(forward(p, LENGTH, p->out, p->lse));
    for (int round = 0; round < 5; round++) {
        int result;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            float *out = calloc(FLOATS, sizeof *out), lse[LENGTH * HEADS];
            (void)alarm(60); /* a child that hangs is a failure, not a test that never ends */
            bool good = out && forward(p, LENGTH, out, lse) &&
                        memcmp(out, p->out, FLOATS * sizeof *out) == 0 &&
                        memcmp(lse, p->lse, sizeof p->lse) == 0;
            free(out);
            end_child(good ? 0 : 1);
        }
        assert_true(forward(p, LENGTH, p->out, p->lse));
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_int_equal(result, 0);
    }
    sia_attention_destroy(p->a);
    free(p);
}

/* A fill that stays where it is until it is told to go on: meanwhile tables are growing. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool wait, inside;
} slow = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void slow_fill(void *context, int head, int heads, int64_t first, int64_t count, double *scale,
                      double *bias) {
    (void)context, (void)head, (void)heads, (void)first;
    for (int64_t i = 0; i < count; i++) scale[i] = 1, bias[i] = 0;
    pthread_mutex_lock(&slow.lock);
    slow.inside = true;
    if (slow.wait) pthread_cond_broadcast(&slow.changed); /* in the child nobody is there to hear it */
    while (slow.wait) pthread_cond_wait(&slow.changed, &slow.lock);
    pthread_mutex_unlock(&slow.lock);
}

static void *reserve(void *context) {
    caller *c = context;
    c->good = sia_attention_reserve(c->shared, LENGTH, NULL) == SIA_OK;
    return NULL;
}

/* The thread that grows tables is not in the child, and what it held must not stay held. */
static void test_fork_while_growing(void **state) {
    (void)state;
    SKIP_WITH_THREAD_SANITIZER(); /* it sees a lock that nobody opens */
    pthread_t thread;
    problem *p = calloc(1, sizeof *p);
    caller grower = {0};
    int result;
    assert_non_null(p);
    make_problem(p, 0, 1);
    sia_attention_config config = {.heads = HEADS, .head_dim = DIM, .threads = 1, .fill = slow_fill};
    sia_attention *own;
    OK(sia_attention_create(&own, "nope", &config, &said));
    grower.shared = own;
    slow.wait = true;
    assert_int_equal(pthread_create(&thread, NULL, reserve, &grower), 0);
    pthread_mutex_lock(&slow.lock);
    while (!slow.inside) pthread_cond_wait(&slow.changed, &slow.lock);
    pid_t child = fork(); /* with slow.lock, which is then the child's own too */
    assert_true(child >= 0);
    if (child == 0) {
        slow.wait = false;
        pthread_mutex_unlock(&slow.lock);
        (void)alarm(20); /* a child that hangs is a failure, not a test that never ends */
        bool good = sia_attention_reserve(own, LENGTH, NULL) == SIA_OK && /* the one that was growing */
                    forward(p, LENGTH, p->out, p->lse);                   /* and one that had no tables */
        end_child(good ? 0 : 1);
    }
    slow.wait = false;
    pthread_cond_broadcast(&slow.changed);
    pthread_mutex_unlock(&slow.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(grower.good);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    sia_attention_destroy(own);
    sia_attention_destroy(p->a);
    free(p);
}

static _Atomic bool encoding;

static void *encode_on(void *context) {
    caller *c = context;
    uint32_t ids[8];
    size_t count;
    c->good = true;
    while (c->good && encoding)
        c->good = sia_tokenizer_encode(c->shared, "short", 5, ids, &count, NULL) == SIA_OK;
    return NULL;
}

/* Many short texts: in a tenth of the moments one of the threads held what the child needs. */
static void test_fork_while_encoding(void **state) {
    (void)state;
    SKIP_WITH_THREAD_SANITIZER();
    enum { CHILDREN = 50 };
    pthread_t threads[CALLERS];
    caller callers[CALLERS];
    int result = 0;
    sia_tokenizer *t = small_tokenizer(300);
    encoding = true;
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.shared = t};
        assert_int_equal(pthread_create(&threads[i], NULL, encode_on, &callers[i]), 0);
    }
    for (int i = 0; i < CHILDREN && result == 0; i++) {
        uint32_t ids[8];
        size_t count;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)alarm(20); /* a child that hangs is a failure, not a test that never ends */
            end_child(sia_tokenizer_encode(t, "\xce\xb1", 2, ids, &count, NULL) == SIA_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &result, 0), child);
    }
    encoding = false;
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < CALLERS; i++) assert_true(callers[i].good);
    assert_int_equal(result, 0);
    sia_tokenizer_close(t);
}

static void *think_once(void *context) {
    caller *c = context;
    sia_session *s;
    c->good = sia_session_create(&s, (sia_model *)c->shared, SIA_F32, NULL) == SIA_OK;
    sia_session_destroy(s);
    return NULL;
}

/* The thread that packs the weights for the first session is not in the child, which makes a session of its own. */
static void test_fork_while_packing(void **state) {
    (void)state;
    SKIP_WITH_THREAD_SANITIZER(); /* the look at panels that another thread makes is a race, and meant to be one */
    pthread_t thread;
    sia_model *m;
    int result;
    sia_model_config config = {.layers = 1, .width = 256, .heads = 4, .vocabulary = 20000, .train_len = 16};
    OK(sia_model_create(&m, &config, 1, &said));
    caller packer = {.shared = m};
    assert_int_equal(pthread_create(&thread, NULL, think_once, &packer), 0);
    while (!*(float *volatile *)&m->forward.memory) (void)sched_yield();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        caller here = {.shared = m};
        (void)alarm(20); /* a child that hangs is a failure, not a test that never ends */
        (void)think_once(&here);
        end_child(here.good ? 0 : 1);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(packer.good);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    sia_model_destroy(m);
}

// NOLINTEND(bugprone-suspicious-memory-comparison)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_attention),
        cmocka_unit_test(test_own_attention),
        cmocka_unit_test(test_shared_tokenizer),
        cmocka_unit_test(test_shared_corpus),
        cmocka_unit_test(test_shared_model),
        cmocka_unit_test(test_trainings),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_fork_while_growing),
        cmocka_unit_test(test_fork_while_encoding),
        cmocka_unit_test(test_fork_while_packing),
    };
    return cmocka_run_group_tests_name("threads", tests, scratch_create, scratch_destroy);
}
