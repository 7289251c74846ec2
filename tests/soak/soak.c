/* SPDX-License-Identifier: MIT
 *
 * A long soak: training with checkpoints, evaluation, generation and random calls of the library, again and again.
 *
 *     soak SECONDS [FOLDER]
 *
 * Every part is a function of its seeds, so a round must give the bits that it gave before: a checksum of each part
 * is kept from the first time. Memory is looked at after each round: once it is warm, the process may not grow
 * by more than GROWTH, nor hold more open files or threads. The last line says what was done. */
#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/path.h"
#include "base/random.h"
#include "base/sha256.h"
#include "eval/loss.h"
#include "model/generate.h"
#include "train/train.h"

enum {
    SETS = 8,        /* sets of seeds, one a round, then the first again */
    WARM = 2 * SETS, /* rounds after which memory may not grow */
    GROWTH = 4096,   /* KiB: what the allocator may still shift about */
    CALLS = 6,       /* random attention problems in a round */
    SHORT = 32,      /* the training length */
    REPORT_SECONDS = 30,
};

static sia_error said;

static void ended(const char *what) {
    fprintf(stderr, "soak: %s: %s\n", what, said.text);
    exit(1);
}
#define DO(call)                \
    do {                        \
        if (call) ended(#call); \
    } while (0)
#define MUST(condition)                                        \
    do {                                                       \
        if (!(condition)) {                                    \
            (void)snprintf(said.text, sizeof said.text, "no"); \
            ended(#condition);                                 \
        }                                                      \
    } while (0)

/* ------------------------------------------------------------------------------------------ checksums */

typedef struct digest {
    char text[SIA_SHA256_TEXT];
} digest;

/* Of what was there before and these bytes. */
static void digest_add(digest *d, const void *data, size_t bytes) {
    char both[2 * SIA_SHA256_TEXT] = "";
    memcpy(both, d->text, SIA_SHA256_TEXT);
    (void)sia_sha256(data, bytes, both + SIA_SHA256_TEXT);
    (void)sia_sha256(both, sizeof both, d->text);
}

/* ------------------------------------------------------------------------------------------ what is shared */

typedef struct soak {
    const char *folder;
    sia_tokenizer *tokenizer;
    sia_train_data data;
} soak;

static void soak_create(soak *s, const char *folder) {
    *s = (soak){.folder = folder};
    char text[20000];
    size_t used = 0;
    for (uint64_t i = 0; used + 32 < sizeof text; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%c",
                             (const char *const[]){"the", "river", "runs", "north", "and", "seven", "stones",
                                                   "lie", "in", "it"}[sia_random_below(1, i, 10)],
                             i % 11 == 10 ? '\n' : ' ');
    sia_tokenizer_training training = {.size = 290, .threads = 1};
    DO(sia_tokenizer_train(&s->tokenizer, &training, &(sia_text){text, used}, 1, &said));
    s->data.tokenizer = s->tokenizer;
    DO(sia_corpus_generate(&s->data.train, s->tokenizer, 1, 0, 8, 300, 1, &said));
    DO(sia_corpus_generate(&s->data.val, s->tokenizer, 2, 0, 4, 200, 1, &said));
    s->data.description = json_object();
}

static void soak_destroy(soak *s) {
    json_decref(s->data.description);
    sia_corpus_close(s->data.train);
    sia_corpus_close(s->data.val);
    sia_tokenizer_close(s->tokenizer);
}

/* ------------------------------------------------------------------------------------------ a run, start to end */

static void train(const soak *s, const char *folder, uint64_t seed, int threads) {
    static const char *const schemes[] = {"si+prope", "logn+rope", "alibi", "rope"};
    sia_settings settings;
    DO(sia_settings_preset(&settings, "tiny", &said));
    settings.model = (sia_model_config){.layers = 2,
                                        .width = 32,
                                        .heads = 2,
                                        .vocabulary = sia_tokenizer_size(s->tokenizer),
                                        .train_len = SHORT,
                                        .seed = seed};
    (void)snprintf(settings.model.scheme, sizeof settings.model.scheme, "%s", schemes[seed % 4]);
    settings.training.steps = 12;
    settings.training.batch = settings.training.micro_batch = 4;
    settings.training.save_every = 5;
    settings.training.eval_windows = 2;
    settings.training.multiples[0] = 1;
    settings.training.multiples[1] = 4;
    settings.training.multiples[2] = 0;
    sia_train_job job = {.folder = folder, .settings = &settings, .data = &s->data, .threads = threads};
    DO(sia_train(&job, &said));
}

static sia_status collect(void *context, const char *bytes, size_t count, sia_error *err) {
    (void)err;
    digest_add(context, bytes, count);
    return SIA_OK;
}

/* Trains, opens what was saved, evaluates it at two lengths, generates with each type of cache. */
static void whole_run(const soak *s, uint64_t seed, int threads, digest *d) {
    char *folder = sia_path_join(s->folder, "run");
    train(s, folder, seed, threads);
    sia_model *m;
    DO(sia_model_open(&m, folder, threads, &said));
    for (int i = 0; i < sia_model_tensors(m); i++) {
        sia_tensor t = sia_model_tensor(m, i);
        digest_add(d, t.value, (size_t)(t.rows * t.columns) * sizeof(float));
    }
    sia_windows *w;
    DO(sia_windows_create(&w, s->data.val, 4 * SHORT, 3, &said));
    sia_loss_eval eval = {.windows = w, .longest = 4 * SHORT, .positions = true};
    for (int64_t length = SHORT; length <= 4 * SHORT; length *= 4) {
        sia_loss_result loss;
        DO(sia_eval_loss(m, &eval, length, &loss, &said));
        MUST(isfinite(loss.mean.loss));
        digest_add(d, &loss.mean.loss, sizeof loss.mean.loss);
    }
    sia_windows_destroy(w);
    for (int type = 0; type < 3; type++) {
        sia_session *session;
        DO(sia_session_create(&session, m, (sia_type)type, &said));
        sia_generation g = {.tokenizer = s->tokenizer,
                            .prompt = {"the river", 9},
                            .sampling = {.temperature = 0.9, .top_k = 40, .seed = seed},
                            .tokens = 40,
                            .ignore_end = true,
                            .write = collect,
                            .write_context = d};
        sia_generated result;
        DO(sia_generate(session, m, &g, &result, &said));
        sia_session_destroy(session);
    }
    sia_model_destroy(m);
    DO(sia_folder_remove(folder, &said));
    free(folder);
}

/* ------------------------------------------------------------------------------------------ random calls */

static float *random_floats(int64_t count, uint64_t seed) {
    float *x = malloc((size_t)count * sizeof(float));
    MUST(x);
    for (int64_t i = 0; i < count; i++) x[i] = (float)sia_random_normal(seed, (uint64_t)i);
    return x;
}

/* The next whole number below bound. */
typedef struct dice {
    uint64_t seed, drawn;
} dice;
static int64_t roll(dice *d, int64_t bound) {
    return (int64_t)sia_random_below(d->seed, d->drawn++, (uint64_t)bound);
}

static void caches(const sia_attention *a, dice *r, int64_t length, const float *q, const float *k,
                   const float *v, digest *d) {
    const sia_attention_config *c = sia_attention_settings(a);
    int64_t q_row = (int64_t)c->heads * c->head_dim, k_row = (int64_t)c->kv_heads * c->head_dim;
    float *out = malloc((size_t)(length * q_row) * sizeof(float));
    sia_cache *cache;
    DO(sia_cache_create(&cache, a, (sia_type)roll(r, 3), &said));
    for (int64_t at = 0; at < length;) {
        int64_t n = 1 + roll(r, length - at < 40 ? length - at : 40);
        DO(sia_cache_append(cache, n, k + at * k_row, v + at * k_row, &said));
        DO(sia_cache_attend(cache, n, q + at * q_row, NULL, out + at * q_row, NULL, &said));
        at += n;
        if (roll(r, 5) == 0 && at > 3) { /* another try from here */
            at -= roll(r, 3);
            DO(sia_cache_truncate(cache, at, &said));
        }
    }
    MUST(sia_cache_truncate(cache, length + 1, &said) == SIA_ARGUMENT);
    digest_add(d, out, (size_t)(length * q_row) * sizeof(float));
    sia_cache_destroy(cache);
    free(out);
}

static void attention(uint64_t seed, digest *d) {
    static const char *const schemes[] = {"si+prope", "rope", "alibi", "nope", "si+yarn", "sharp+ntk"};
    dice r = {seed, 0};
    int kv_heads = (int)(1 + roll(&r, 2)), heads = kv_heads * (int)(1 + roll(&r, 3));
    int head_dim = 8 * (int)(1 + roll(&r, 9));
    int64_t length = 1 + roll(&r, 300), queries = length * heads * head_dim,
            keys = length * kv_heads * head_dim;
    sia_attention_config config = {.heads = heads,
                                   .kv_heads = kv_heads,
                                   .head_dim = head_dim,
                                   .threads = (int)(1 + roll(&r, 2)),
                                   .train_len = 64};
    sia_attention *a;
    DO(sia_attention_create(&a, schemes[roll(&r, 6)], &config, &said));
    float *q = random_floats(queries, seed + 1), *k = random_floats(keys, seed + 2),
          *v = random_floats(keys, seed + 3);
    float *d_out = random_floats(queries, seed + 4), *out = malloc((size_t)queries * 4),
          *d_q = malloc((size_t)queries * 4);
    float *lse = malloc((size_t)(length * heads) * 4), *d_k = malloc((size_t)keys * 4),
          *d_v = malloc((size_t)keys * 4);
    sia_span span = {.q_len = length, .k_len = length};
    DO(sia_attention_forward(a, span, &(sia_forward){.q = q, .k = k, .v = v, .out = out, .lse = lse}, NULL,
                             &said));
    sia_backward io = {
        .q = q, .k = k, .v = v, .out = out, .lse = lse, .d_out = d_out, .d_q = d_q, .d_k = d_k, .d_v = d_v};
    DO(sia_attention_backward(a, span, &io, NULL, &said));
    digest_add(d, out, (size_t)queries * 4);
    digest_add(d, d_q, (size_t)queries * 4);
    digest_add(d, d_k, (size_t)keys * 4);
    digest_add(d, d_v, (size_t)keys * 4);
    caches(a, &r, length, q, k, v, d);
    /* Calls that must be refused, and leave nothing behind. */
    MUST(sia_attention_forward(a, (sia_span){.q_len = -1, .k_len = 1}, &(sia_forward){.q = q}, NULL, &said) ==
         SIA_ARGUMENT);
    float *all[] = {q, k, v, d_out, out, d_q, lse, d_k, d_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    sia_attention_destroy(a);
    MUST(sia_attention_create(&a, "si+rope+prope", &config, &said) == SIA_SCHEME);
}

/* Any bytes there and back. */
static void tokens(const soak *s, uint64_t seed, digest *d) {
    char text[700], back[700];
    uint32_t ids[700];
    size_t bytes = 1 + (size_t)sia_random_below(seed, 0, sizeof text - 1), count, room = sizeof back;
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)(unsigned char)sia_random_below(seed, i + 1, i % 3 ? 128 : 256);
    DO(sia_tokenizer_encode(s->tokenizer, text, bytes, ids, &count, &said));
    DO(sia_tokenizer_decode(s->tokenizer, ids, count, back, &room, &said));
    MUST(room == bytes && memcmp(text, back, bytes) == 0);
    digest_add(d, ids, count * sizeof *ids);
}

/* ------------------------------------------------------------------------------------------ watching */

typedef struct watch {
    long rss, files, threads; /* KiB; numbers */
} watch;

static long entries_of(const char *path) {
    DIR *folder = opendir(path);
    long count = 0;
    while (folder && readdir(folder)) count++;
    if (folder) (void)closedir(folder);
    return count;
}

static watch look(void) {
    watch w = {.files = entries_of("/proc/self/fd"), .threads = entries_of("/proc/self/task")};
    FILE *f = fopen("/proc/self/statm", "r");
    long size = 0, pages = 0;
    if (f && fscanf(f, "%ld %ld", &size, &pages) == 2) w.rss = pages * (sysconf(_SC_PAGESIZE) / 1024);
    if (f) (void)fclose(f);
    return w;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0, reported = 0;
    char folder[] = "/tmp/sia-soak-XXXXXX";
    const char *where = argc > 2 ? argv[2] : mkdtemp(folder);
    if (seconds <= 0 || !where) {
        fprintf(stderr, "usage: soak SECONDS [FOLDER]\n");
        return 2;
    }
    soak s;
    soak_create(&s, where);
    digest first[SETS] = {0};
    watch warm = {0}, most = {0};
    double start = sia_seconds();
    int64_t rounds = 0;
    for (; sia_seconds() - start < seconds || rounds <= SETS; rounds++) {
        uint64_t set = (uint64_t)(rounds % SETS);
        digest d = {""};
        /* The number of threads changes between the visits of a set, and may not change a bit. */
        whole_run(&s, set, (int)(1 + rounds / SETS % 2), &d);
        for (uint64_t i = 0; i < CALLS; i++) attention(sia_random_stream(set, i), &d);
        for (uint64_t i = 0; i < CALLS; i++) tokens(&s, sia_random_stream(set + SETS, i), &d);
        if (rounds < SETS) first[set] = d;
        if (memcmp(&first[set], &d, sizeof d) != 0) {
            fprintf(stderr, "soak: round %lld, seeds %llu: other bits than the first time\n",
                    (long long)rounds, (unsigned long long)set);
            return 1;
        }
        watch now = look();
        if (rounds <= WARM) warm = most = now;
        if (now.rss > most.rss) most.rss = now.rss;
        if (now.rss > warm.rss + GROWTH || now.files > warm.files || now.threads > warm.threads) {
            fprintf(stderr,
                    "soak: round %lld: %ld KiB, %ld files, %ld threads; when warm %ld KiB, %ld files, %ld "
                    "threads\n",
                    (long long)rounds, now.rss, now.files, now.threads, warm.rss, warm.files, warm.threads);
            return 1;
        }
        if (sia_seconds() - start - reported >= REPORT_SECONDS) {
            reported = sia_seconds() - start;
            printf("%6.0f s  %lld rounds  %ld KiB\n", reported, (long long)rounds + 1, now.rss);
            (void)fflush(stdout);
        }
    }
    printf("soak: %.0f s, %lld rounds of training, evaluation, generation, %lld attention problems and %lld "
           "texts: the same "
           "bits each time; %ld KiB when warm, %ld KiB at most after that\n",
           sia_seconds() - start, (long long)rounds, (long long)rounds * CALLS, (long long)rounds * CALLS,
           warm.rss, most.rss);
    soak_destroy(&s);
    if (argc <= 2) (void)rmdir(folder);
    return 0;
}
