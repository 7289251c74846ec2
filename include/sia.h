/* SPDX-License-Identifier: MIT
 *
 * sia: scale-invariant attention for CPUs.
 *
 *     sia_attention *a;
 *     sia_error err;
 *     sia_attention_config config = {.heads = 8, .head_dim = 64};
 *     if (sia_attention_create(&a, "si+prope", &config, &err)) puts(err.text);
 *
 *     sia_span span = {.q_len = n, .k_len = n};
 *     sia_attention_forward(a, span, &(sia_forward){.q = q, .k = k, .v = v, .out = out}, NULL, &err);
 *     sia_attention_destroy(a);
 *
 * The library never prints and never ends the process. A call that can fail returns a status, and puts one
 * sentence for a person into the caller's sia_error (which may be NULL, and is left as it is on success).
 *
 * Only destroy and close take NULL for an object. Other calls that return a status refuse it with a sentence; those
 * that only tell something, such as sia_cache_length, do not check.
 *
 * Threads: an attention object may be used by several threads at once; a cache or a ring by one thread at a
 * time. The process has one set of helping threads: of calls that run at once the first gets them, and the
 * others run on their callers' threads alone. For attention a thread of the caller needs a stack of 128 KiB,
 * for a model and its sessions one of 512 KiB. */
#ifndef SIA_H
#define SIA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIA_VERSION "0.1.0"
#define SIA_API __attribute__((visibility("default")))

/* ------------------------------------------------------------------------------------------------ errors */

/* The numbers are fixed for ever. */
typedef enum sia_status {
    SIA_OK = 0,
    SIA_ARGUMENT = 1, /* a value outside its range, a NULL where an array is needed */
    SIA_SCHEME = 2,   /* a scheme that is not known, or a combination without a meaning */
    SIA_MEMORY = 3,   /* the system gave no memory */
    SIA_FILE = 4,     /* a file could not be opened, read or written */
    SIA_FORMAT = 5,   /* a file does not hold what it should */
    SIA_STOPPED = 6,  /* the caller asked to stop */
    SIA_BUSY = 7,     /* another process holds the folder */
    SIA_NUMBER = 8,   /* a result is not finite */
    SIA_LOST = 9,     /* another process of the job failed, or does not answer */
} sia_status;

typedef struct sia_error {
    sia_status status;
    char text[512]; /* one sentence: the thing, what was found, what was wanted */
} sia_error;

SIA_API const char *sia_status_name(sia_status status); /* "argument" */
SIA_API const char *sia_version(void);                  /* of the library that was loaded */

/* The instruction set in use; SIA_ISA in the environment, read once, overrides the choice. An unknown one, or one that
 * the processor does not have, makes every sia_attention_create fail. */
SIA_API const char *sia_isa(void);

/* ----------------------------------------------------------------------------------------------- schemes
 *
 * With S = q.k / sqrt(head_dim), distance t = query position - key position >= 0, and N = query position + 1,
 * which is the number of keys that the query sees if they begin at position 0, the logit is
 *
 *     L = scale[t] * row * S' + bias[t]            S': S after the rotary slot turned q and k
 *
 * A scheme fills three slots. Its name joins one word from each with '+'; an empty slot has no word.
 *
 *     rotary      nope    q and k are not turned                          (the same as no word)
 *                 rope    pair i turns by position * base^(-2i/d)
 *                 prope   the fastest share p of the pairs turn, at frequencies from 1 to 1/prope_base
 *                 ntk     rope; beyond the training length, base * (eval_len/train_len)^(d/(d-2))
 *                 yarn    rope; beyond the training length, slow pairs interpolated, logits sharpened
 *     row         logn    row = s[head] * ln N, s learned                 (Scalable-Softmax)
 *                 sharp   row = sharp, a constant: the control for sharpness
 *     distance    si      scale = a_t, bias = m_t:  a_t^2 = 2 (ln(t/tau + 1) - ln alpha + beta/alpha),
 *                         m_t = -a_t^2 + beta/alpha
 *                 alibi   bias = -2^(-8 h/heads) t, h = 1 .. heads
 *
 * "rope+ntk" (in this order) and "ntk" are one scheme, as are "rope+yarn" and "yarn". A slot that the caller fills
 * (sia_distance_fill) has the name "own", which is no word to create one by. */
typedef enum sia_rotary {
    SIA_ROTARY_NONE,
    SIA_ROTARY_ROPE,
    SIA_ROTARY_PROPE,
    SIA_ROTARY_NTK,
    SIA_ROTARY_YARN
} sia_rotary;
typedef enum sia_row { SIA_ROW_NONE, SIA_ROW_LOGN, SIA_ROW_SHARP } sia_row;
typedef enum sia_distance {
    SIA_DISTANCE_NONE,
    SIA_DISTANCE_SI,
    SIA_DISTANCE_ALIBI,
    SIA_DISTANCE_OWN
} sia_distance;

typedef struct sia_scheme {
    sia_rotary rotary;
    sia_row row;
    sia_distance distance;
} sia_scheme;

/* name to slots. SIA_SCHEME, with a sentence, for an unknown word or two words for one slot. */
SIA_API sia_status sia_scheme_parse(const char *name, sia_scheme *scheme, sia_error *err);

/* Slots to the name in its one canonical form, such as "logn+ntk" or "nope". Returns name. */
enum { SIA_SCHEME_NAME = 32 };
SIA_API char *sia_scheme_name(sia_scheme scheme, char name[SIA_SCHEME_NAME]);

/* The canonical names of the schemes that the paper compares, its ablations and the control, ended by NULL. */
SIA_API const char *const *sia_scheme_list(void);

/* A distance slot of your own: fills scale[i], bias[i] for t = first + i, i < count. A pure function: it may be
 * called again, for any range, from any thread. It must not attend or reserve, with any object, nor wait for a thread
 * that does: tables grow while it runs, and a call that needs longer ones is refused (sia_attention_tables of another
 * object is fine). A bias of -infinity makes every weight at that distance 0; a NaN in a key or value there is still
 * passed on. See CONTRIBUTING.md for adding a scheme to the library. */
typedef void sia_distance_fill(void *context, int head, int heads, int64_t first, int64_t count,
                               double *scale, double *bias);

/* ---------------------------------------------------------------------------------------------- attention */

typedef enum sia_pairs {
    SIA_PAIRS_HALVES,   /* pair i is (x[i], x[i + d/2]): GPT-NeoX, modded-nanogpt, Hugging Face */
    SIA_PAIRS_ADJACENT, /* pair i is (x[2i], x[2i+1]): the RoFormer paper, llama2.c */
} sia_pairs;

/* A field that is 0 takes the default in brackets. Reals are 1e-9 .. 1e15, lengths 1 .. SIA_MAX_POSITION. */
typedef struct sia_attention_config {
    int heads;    /* query heads, 1 .. 4096 */
    int kv_heads; /* [heads] heads is a multiple of it; query head h reads key head h / (heads/kv_heads) */
    int head_dim; /* a multiple of 8, 8 .. 256 */
    int threads;  /* [all processors] 1 .. 1024 */
    int64_t train_len;       /* [4096] for ntk, yarn and the default of prope_base */
    int64_t eval_len;        /* [train_len] for ntk and yarn: the longest length to be used; see below */
    double tau;              /* [10] si: the length scale */
    double alpha, beta;      /* [sqrt(e)] si: alpha ln alpha <= beta <= 100 alpha */
    double sharp;            /* [2] sharp: the constant */
    double rotary_base;      /* [10000] rope, ntk, yarn */
    double prope_base;       /* [train_len/4] prope: the slowest pair that turns has frequency 1/prope_base */
    double prope_share;      /* [0.5] prope: the share p of the pairs that turn, from one to all */
    sia_pairs pairs;         /* [halves] */
    sia_distance_fill *fill; /* [none] a distance slot of your own, with a scheme whose own one is empty */
    void *fill_context;
} sia_attention_config;

/* ntk and yarn have one set of frequencies, that of eval_len: with the default it is rope's. A call with positions
 * beyond eval_len is not refused, since generated text may have no known end: it is computed with the same
 * frequencies, which are those of a shorter text. Give the longest length that there will be. */
typedef struct sia_attention sia_attention;

SIA_API sia_status sia_attention_create(sia_attention **a, const char *scheme,
                                        const sia_attention_config *config, sia_error *err);
SIA_API void sia_attention_destroy(sia_attention *a); /* NULL is fine */

/* The scheme's canonical name, and the configuration with every default filled in; both live as long as a. */
SIA_API const char *sia_attention_scheme(const sia_attention *a);
SIA_API const sia_attention_config *sia_attention_settings(const sia_attention *a);

/* scale[t], bias[t] for t < count, as the kernels use them (before they fold 1/sqrt(d) and log2 e in). */
SIA_API sia_status sia_attention_tables(const sia_attention *a, int head, int64_t count, float *scale,
                                        float *bias, sia_error *err);

/* Makes the tables long enough for positions below `length` now, and not in the first call that needs them.
 *
 * Tables have a row for every position up to the last one of a call, however short its distances: 8 bytes a position
 * (with ALiBi or a slot of your own, 8 for each head), 4 more with logn, at most head_dim/64 more with a rotary slot.
 * When a call needs longer ones they grow at least to twice their length; calls of any object that need longer ones
 * too wait meanwhile. The shorter ones are kept, since another call may be reading them: all together take up to four
 * times the above. As the first call of an object this makes them as long as `length` (1024 at least), and no longer.
 *
 * Forward and backward passes up to this length that are lent their workspace then allocate nothing, except that the
 * first one with several threads starts them. Calls of a cache, which has memory of its own, may allocate. */
SIA_API sia_status sia_attention_reserve(const sia_attention *a, int64_t length, sia_error *err);

/* Which queries meet which keys: query i stands at position q_pos + i, key j at k_pos + j, and i sees j when
 * q_pos + i >= k_pos + j. A whole sequence has q_pos = k_pos = 0; a chunk of a long prompt, q_pos > 0. */
typedef struct sia_span {
    int64_t batch;        /* [1] batch times the longer of q_len and k_len is at most 2^36 */
    int64_t q_len, k_len; /* at least 1 */
    int64_t q_pos, k_pos; /* q_pos + q_len and k_pos + k_len are at most SIA_MAX_POSITION */
} sia_span;

/* Distances are counted in int32. */
#define SIA_MAX_POSITION ((int64_t)1 << 30)

/* Entropy and attention mass for each query, computed on the way. mass[0] is the weight on the token itself
 * (t = 0), mass[i] the weight on 10^(i-1) <= t < 10^i; they add up to 1. Entropy is in nats. */
enum { SIA_DECADES = 11 };

typedef struct sia_forward {
    const float *q;     /* [batch, q_len, heads, head_dim] */
    const float *k, *v; /* [batch, k_len, kv_heads, head_dim] */
    const float *logn;  /* [heads], s; schemes with logn only */
    float *out;         /* [batch, q_len, heads, head_dim] */
    float *lse;         /* [batch, q_len, heads] log of the row sum, for the backward pass; or NULL */
    float *entropy;     /* [batch, q_len, heads] or NULL */
    float *mass;        /* [batch, q_len, heads, SIA_DECADES] or NULL */
    /* Floats from one position to the next, at most 2^32; sequence b of a batch begins at position b * length.
     * [dense: heads * head_dim, kv_heads * head_dim] */
    int64_t q_stride, k_stride, v_stride, out_stride;
} sia_forward;

typedef struct sia_backward {
    const float *q, *k, *v, *logn;                    /* as they were in the forward pass */
    const float *out, *lse;                           /* as the forward pass left them */
    const float *d_out;                               /* like out */
    float *d_q, *d_k, *d_v;                           /* like q, k, v; written, not added to */
    float *d_logn;                                    /* [heads], written; NULL unless the scheme has logn */
    int64_t q_stride, k_stride, v_stride, out_stride; /* of q and d_q, k and d_k, v and d_v, out and d_out */
} sia_backward;

typedef enum sia_pass { SIA_PASS_FORWARD, SIA_PASS_BACKWARD } sia_pass;

/* Bytes of workspace for a call, a multiple of 64; linear in the lengths. 0 for a span that the call would refuse. */
SIA_API size_t sia_attention_workspace(const sia_attention *a, sia_span span, sia_pass pass);

/* out = softmax(L) v, causal.
 *
 * work: sia_attention_workspace bytes, borrowed for the call, at an address that is a multiple of 64 (another one is
 * refused); or NULL, then it is allocated.
 *
 * A query that sees no key has out = 0, lse = -infinity, entropy = 0, mass = 0. A NaN or an infinity in q
 * stays in its row; one in k or v reaches the queries that see that key, and no others. A logit of -infinity
 * is a weight of 0, and a query that has no other is one that sees no key; a row with a logit that is NaN or
 * above the range of float is NaN. Every other row is finite as long as |v| <= 1e29, whatever the size of its
 * logits; values below 1e-29 may lose bits. All this holds for logits as floats give them: where the sum q.k
 * goes beyond the range of float on its way, q times the factor of its row (|q| and |k| of 1e18 are safe where that is
 * 1), the logit does, too. A logit is known to 1e-7 of the larger of scale |q| |k| / sqrt(head_dim) and bias. Arrays
 * that are written may not overlap others.
 *
 * Sums are taken in a fixed order: the result does not depend on the number of threads, nor a row on anything but
 * what it sees. */
SIA_API sia_status sia_attention_forward(const sia_attention *a, sia_span span, const sia_forward *io,
                                         void *work, sia_error *err);

/* The exact gradients, recomputing the weights from lse: each is known to 1e-7 times the size of its row's
 * largest logit, and none is taken to be above 1. Same bits for any number of threads. */
SIA_API sia_status sia_attention_backward(const sia_attention *a, sia_span span, const sia_backward *io,
                                          void *work, sia_error *err);

/* ----------------------------------------------------------------------------------------------- KV cache
 *
 * The keys (turned by the rotary slot) and values of one sequence in one layer.
 *
 *     sia_cache_create(&c, a, SIA_F16, &err);
 *     for each chunk of new tokens:    sia_cache_append(c, n, k, v, &err);
 *                                      sia_cache_attend(c, n, q, NULL, out, NULL, &err);
 *
 * Attending equals a forward pass over all that was appended, up to the rounding of the cache's type. In f16
 * what is above 65504 becomes 65504 and what is below 3e-8 becomes 0; in i8 a row whose largest number is below
 * 1e-33 may become 0; in both an infinity becomes a NaN. In i8 a number is known to 1/254 of the largest of its row.
 * Up to 24 queries at a time lose as much again at most: of the largest number of a query, and of the largest weight
 * times row among 256 keys, in every column, also those in which that row is 0. */
typedef enum sia_type {
    SIA_F32,
    SIA_F16,
    SIA_I8, /* one scale for each row of each head */
} sia_type;

typedef struct sia_cache sia_cache;

/* The cache borrows a, which must outlive it. */
SIA_API sia_status sia_cache_create(sia_cache **c, const sia_attention *a, sia_type type, sia_error *err);
SIA_API void sia_cache_destroy(sia_cache *c); /* NULL is fine */

/* k, v [n, kv_heads, head_dim] join at positions sia_cache_length(c) and following. The cache grows by
 * chunks, each as large as all before it, up to 4096 positions, or more where these are less than 8 MiB; what is in it
 * never moves. On failure nothing was appended. */
SIA_API sia_status sia_cache_append(sia_cache *c, int64_t n, const float *k, const float *v, sia_error *err);

/* The last n positions of the cache ask: q, out [n, heads, head_dim], each seeing all positions up to its
 * own. logn [heads] for schemes with logn; lse [n, heads] or NULL.
 *
 * Memory: with up to 24 queries, some that the cache keeps: at most twice that of q, and 8 n heads (head_dim + 2) bytes
 * for each 8192 positions, head_dim rounded up to whole tiles. With more queries, some for each thread, given back
 * when the call ends. */
SIA_API sia_status sia_cache_attend(sia_cache *c, int64_t n, const float *q, const float *logn, float *out,
                                    float *lse, sia_error *err);

SIA_API int64_t sia_cache_length(const sia_cache *c);
SIA_API size_t sia_cache_bytes(const sia_cache *c); /* of its chunks, not what attending takes */

/* Forgets all positions from length on, keeping the memory: for another try from the same prompt. */
SIA_API sia_status sia_cache_truncate(sia_cache *c, int64_t length, sia_error *err);

/* ---------------------------------------------------------------------------------------------- tokenizer
 *
 * Byte-level BPE. Any bytes can be encoded; decoding gives them back. Special tokens never arise from text.
 * A tokenizer does not change once it is open: several threads may use it at once.
 *
 *     sia_tokenizer *t;
 *     sia_tokenizer_open(&t, "tokenizer.json", &err);
 *     uint32_t *ids = malloc(bytes * sizeof *ids);
 *     sia_tokenizer_encode(t, text, bytes, ids, &count, &err);
 *     sia_tokenizer_close(t);
 *
 * Text is cut into pieces by GPT-2's pattern, and each piece is merged on its own. A byte that is no part of
 * valid UTF-8 is a piece of its own, and what stands on its two sides is cut as two texts. */
typedef struct sia_tokenizer sia_tokenizer;

/* path: a Hugging Face tokenizer.json, or a folder with one, or with GPT-2's encoder.json and vocab.bpe (also
 * under their later names, vocab.json and merges.txt). A tokenizer.json that asks for more than byte-level
 * BPE on GPT-2's pattern is refused: ids would differ without a word. */
SIA_API sia_status sia_tokenizer_open(sia_tokenizer **t, const char *path, sia_error *err);
SIA_API sia_status sia_tokenizer_parse(sia_tokenizer **t, const char *json, size_t bytes, sia_error *err);
SIA_API void sia_tokenizer_close(sia_tokenizer *t); /* NULL is fine */

/* Writes a tokenizer.json, whole or not at all. */
SIA_API sia_status sia_tokenizer_save(const sia_tokenizer *t, const char *path, sia_error *err);

SIA_API uint32_t sia_tokenizer_size(const sia_tokenizer *t);        /* ids are below it */
SIA_API uint32_t sia_tokenizer_merges(const sia_tokenizer *t);      /* how many merges it has */
SIA_API uint32_t sia_tokenizer_end_of_text(const sia_tokenizer *t); /* stands before every document */

/* ids must have room for `bytes` of them (a token is at least one byte); *count is set. */
SIA_API sia_status sia_tokenizer_encode(const sia_tokenizer *t, const char *text, size_t bytes, uint32_t *ids,
                                        size_t *count, sia_error *err);

/* The same ids, by several threads; 0 for all processors. */
SIA_API sia_status sia_tokenizer_encode_parallel(const sia_tokenizer *t, int threads, const char *text,
                                                 size_t bytes, uint32_t *ids, size_t *count, sia_error *err);

/* For text that comes in parts: the last place at which text can be cut whatever follows it, so that text[0
 * .. cut) and text[cut ..) encoded one after the other give the ids of the whole. 0 when there is none. (A
 * cut is between a character that is no space and an ASCII space.) */
SIA_API size_t sia_tokenizer_cut(const char *text, size_t bytes);

/* The bytes of one token (not ended by 0); length 0 for a special token or an id outside the vocabulary. */
SIA_API const char *sia_tokenizer_bytes(const sia_tokenizer *t, uint32_t id, size_t *length);

/* A special token's name, such as "<|endoftext|>"; NULL for all other ids. */
SIA_API const char *sia_tokenizer_special(const sia_tokenizer *t, uint32_t id);

/* Writes the bytes of the tokens, special tokens having none. *bytes is the room of text, and becomes the
 * number of bytes that there are, also where they do not fit, which is an error; text may be NULL to ask for
 * that number. An id outside the vocabulary is an error, and leaves *bytes and text as they are. */
SIA_API sia_status sia_tokenizer_decode(const sia_tokenizer *t, const uint32_t *ids, size_t count, char *text,
                                        size_t *bytes, sia_error *err);

/* Called now and then from one thread; done goes from 0 to 1 in each phase. Not 0: stop, with SIA_STOPPED. */
typedef int sia_progress(void *context, const char *phase, double done);

typedef struct sia_text {
    const char *bytes;
    size_t size;
} sia_text;

/* A field that is 0 takes the default in brackets. */
typedef struct sia_tokenizer_training {
    uint32_t size; /* of the vocabulary: 256 bytes, then the merges, then <|endoftext|>; 257 .. 1000000 */
    uint32_t min_count;     /* [2] a pair that is rarer is not merged */
    int threads;            /* [all processors] */
    sia_progress *progress; /* [none] */
    void *progress_context;
} sia_tokenizer_training;

/* Again and again the commonest pair of neighbours within the pieces becomes a token. Of pairs that are
 * equally common, the one with the smaller left id is taken, then the one with the smaller right id. Id b <
 * 256 is the byte b. The result depends on the texts alone, not on their order and not on the number of
 * threads. Text that has too few pairs for the size is an error. */
SIA_API sia_status sia_tokenizer_train(sia_tokenizer **t, const sia_tokenizer_training *training,
                                       const sia_text *texts, size_t count, sia_error *err);

/* ------------------------------------------------------------------------------------------------- corpus
 *
 * Tokens to train on, in shards as llm.c and modded-nanogpt write them: 256 little-endian int32 (20240520,
 * 1, count, zeros), then count uint16 tokens. They are mapped and read in place.
 *
 *     sia_corpus *c;
 *     sia_corpus_open(&c, "fineweb10B/fineweb_train_*.bin", NULL, &err);
 *     sia_batches batches = {.corpus = c, .length = 1024, .sequences = 8};
 *     for (int64_t step = 0; step < steps; step++) sia_batches_read(&batches, step, 0, ids, NULL, &err);
 *     sia_corpus_close(c);
 *
 * Several shards, in the order of their names, are one sequence of tokens. A document starts at each
 * end-of-text token, which is a part of it, and may run on into the next shard. A corpus does not change
 * once it is open: several threads may use it at once. */
typedef struct sia_corpus sia_corpus;

/* A field that is 0 takes the default in brackets. */
typedef struct sia_corpus_config {
    const char *part;               /* ["train"] of a folder made by 'sia data pack': "train" or "val" */
    const sia_tokenizer *tokenizer; /* [none] whose ids they are; borrowed for the call */
    uint32_t vocabulary;  /* [of the tokenizer, else of data.json, else 50257] tokens are below it */
    uint32_t end_of_text; /* taken when vocabulary is given [else as above, 50256] */
    int scan;             /* read every token now: check it, and find the documents */
} sia_corpus_config;

/* path: a shard; a folder made by 'sia data pack' (its data.json lists the shards); or a pattern of shards,
 * with * ? [] in the names of files, not of folders. Headers and sizes are checked here, tokens when they are
 * read (or here, with scan). */
SIA_API sia_status sia_corpus_open(sia_corpus **c, const char *path, const sia_corpus_config *config,
                                   sia_error *err);

/* A corpus of tokens in memory, borrowed until it is closed. vocabulary or tokenizer must be given. */
SIA_API sia_status sia_corpus_borrow(sia_corpus **c, const uint16_t *tokens, int64_t count,
                                     const sia_corpus_config *config, sia_error *err);

/* A corpus of generated text (docs/data.md): `documents` documents of at least `words` words each, from
 * number `first` of this seed on, in the tokenizer's ids. A pure function of these; scanned. Texts for
 * training and for validation differ in seed, or do not overlap in their documents. threads: 0 for all
 * processors. */
SIA_API sia_status sia_corpus_generate(sia_corpus **c, const sia_tokenizer *tokenizer, uint64_t seed,
                                       int64_t first, int64_t documents, int64_t words, int threads,
                                       sia_error *err);
SIA_API void sia_corpus_close(sia_corpus *c); /* NULL is fine */

SIA_API int64_t sia_corpus_tokens(const sia_corpus *c);
SIA_API int64_t sia_corpus_shards(const sia_corpus *c);
SIA_API uint32_t sia_corpus_vocabulary(const sia_corpus *c);
SIA_API uint32_t sia_corpus_end_of_text(const sia_corpus *c);

/* ids = tokens[first .. first + count). A token outside the vocabulary is an error that says which. */
SIA_API sia_status sia_corpus_read(const sia_corpus *c, int64_t first, int64_t count, uint32_t *ids,
                                   sia_error *err);

/* Documents of a corpus that was opened with scan, else 0. Document i is tokens[*first .. *first + *count);
 * what stands before the first end-of-text, if anything, is document 0. */
SIA_API int64_t sia_corpus_documents(const sia_corpus *c);
SIA_API sia_status sia_corpus_document(const sia_corpus *c, int64_t i, int64_t *first, int64_t *count,
                                       sia_error *err);

/* ------------------------------------------------------------------------------------------------ batches
 *
 * A batch is a pure function of (seed, step, rank). The corpus is cut into windows of `length` tokens, each
 * read with the one token more that is its last target; what is left at the end, less than a window, is not
 * used. One step takes ranks * sequences windows; rank r takes its share of them, so that the windows of a
 * step do not depend on how they are divided among ranks. After the last window comes the next epoch. */
typedef enum sia_order {
    SIA_ORDER_SEQUENTIAL, /* windows as they stand in the corpus, in every epoch, as in modded-nanogpt */
    SIA_ORDER_SHUFFLED,   /* each epoch a permutation of all windows of its own, drawn by the seed */
} sia_order;

/* A field that is 0 takes the default in brackets. */
typedef struct sia_batches {
    const sia_corpus *corpus; /* borrowed */
    int64_t length;           /* of a sequence */
    int64_t sequences;        /* of one rank in one step */
    int64_t ranks;            /* [1] */
    sia_order order;          /* [sequential] */
    uint64_t seed;            /* of the shuffled order */
} sia_batches;

/* Where a batch came from. An epoch above 0 means that text is seen again: callers report it. */
typedef struct sia_batch_place {
    int64_t first_epoch, last_epoch; /* of its first and last sequence */
    int64_t first_window;            /* of its first sequence, as it stands in the corpus */
} sia_batch_place;

/* Windows in an epoch; 0 when the corpus is too short for one. */
SIA_API int64_t sia_batches_windows(const sia_batches *b);

/* How often the corpus is gone through in so many steps: 0.5 is half of it, once. */
SIA_API double sia_batches_epochs(const sia_batches *b, int64_t steps);

/* ids [sequences, length + 1]: row s holds the inputs ids[s][0 .. length) and the targets ids[s][1 ..
 * length]. place may be NULL. */
SIA_API sia_status sia_batches_read(const sia_batches *b, int64_t step, int64_t rank, uint32_t *ids,
                                    sia_batch_place *place, sia_error *err);

/* Long windows for validation, each from a single document, not overlapping. The same tokens can be scored
 * at several lengths: window i in 1 part of `length` tokens, or in 4 of length/4, or in 16; the targets are
 * the same ones.
 *
 *     sia_windows_create(&w, val, 16 * 256, 64, &err);
 *     sia_windows_read(w, i, 1, 0, ids, &err);                          window i: one sequence of 4096 + 1
 *     for (p = 0; p < 16; p++) sia_windows_read(w, i, 16, p, ids, &err);    or 16 sequences of 256 + 1 */
typedef struct sia_windows sia_windows;

/* c must have been scanned; borrowed. At most `count` windows (0: all that there are), spread evenly over
 * those that the documents hold. No document that is long enough is an error, which says how long the
 * longest is. */
SIA_API sia_status sia_windows_create(sia_windows **w, const sia_corpus *c, int64_t length, int64_t count,
                                      sia_error *err);
SIA_API void sia_windows_destroy(sia_windows *w); /* NULL is fine */
SIA_API int64_t sia_windows_count(const sia_windows *w);
SIA_API int64_t sia_windows_first(const sia_windows *w, int64_t i); /* its place in the corpus */

/* ids [length/parts + 1]: part `part` of window i; parts must divide the length. */
SIA_API sia_status sia_windows_read(const sia_windows *w, int64_t i, int64_t parts, int64_t part,
                                    uint32_t *ids, sia_error *err);

/* -------------------------------------------------------------------------------------------------- model
 *
 * A GPT in the style of modded-nanogpt on these attention schemes: token embedding and RMSNorm; blocks of
 * x += attention(norm(x)), x += mlp(norm(x)), with RMSNorm on each head's q and k before the rotary slot, and
 * squared ReLU in the MLP; a last RMSNorm; an unembedding of its own. No biases, no gains.
 *
 *     sia_model_config config;
 *     sia_model_preset("tiny", &config, &err);
 *     sia_model *m;
 *     sia_model_create(&m, &config, 0, &err);
 *     sia_model_destroy(m); */
typedef enum sia_init {
    SIA_INIT_PAPER,  /* block matrices uniform within 1/sqrt(fan_in), as in modded-nanogpt */
    SIA_INIT_NARROW, /* uniform with the standard deviation 0.5/sqrt(fan_in) */
} sia_init;

/* A field that is 0 takes the default in brackets. */
typedef struct sia_model_config {
    int layers, width, heads;
    int kv_heads;                 /* [heads] */
    int head_dim;                 /* [width / heads] */
    int hidden;                   /* [4 width] of the MLP */
    uint32_t vocabulary;          /* ids are below it */
    int64_t train_len;            /* the length that it is trained at */
    char scheme[SIA_SCHEME_NAME]; /* ["si+prope"] */
    double tau, alpha, beta;      /* [10, sqrt(e), sqrt(e)] */
    double sharp;                 /* [2] */
    double rotary_base;           /* [10000 train_len / 4096] */
    double prope_base;            /* [train_len / 4] */
    double prope_share;           /* [0.5] */
    sia_init init;
    uint64_t seed; /* of the initial weights */
} sia_model_config;

typedef struct sia_model sia_model;

/* The names of the presets, ended by NULL, and their settings. */
SIA_API const char *const *sia_model_presets(void);
SIA_API sia_status sia_model_preset(const char *name, sia_model_config *config, sia_error *err);

/* A new model, its weights drawn by the seed: embeddings N(0, 1); what writes into the residual stream and
 * the unembedding 0, so that the first loss is ln(vocabulary). threads: 0 for all processors. A norm of any
 * finite row is finite, and that of zeros is 0; a NaN in a weight makes every loss and logit that it reaches NaN. */
SIA_API sia_status sia_model_create(sia_model **m, const sia_model_config *config, int threads,
                                    sia_error *err);

/* A model with the weights of a file. path: the folder of a run (its newest checkpoint that is whole), of one
 * checkpoint, or a model.safetensors; the configuration is in its metadata. */
SIA_API sia_status sia_model_open(sia_model **m, const char *path, int threads, sia_error *err);
SIA_API void sia_model_destroy(sia_model *m); /* NULL is fine */

/* The configuration with every default filled in. */
SIA_API const sia_model_config *sia_model_settings(const sia_model *m);

/* From now on attention is computed by this scheme, for texts of up to eval_len tokens: NTK and YaRN for a
 * model that was trained with rope. A scheme that asks for other weights than the model has is refused, and
 * so is any while a session of the model is open. A longer text is not refused, but has the frequencies of one of
 * eval_len tokens (as in sia_attention_config; 0: of train_len, as has a model that is new or was just opened). */
SIA_API sia_status sia_model_set_scheme(sia_model *m, const char *scheme, int64_t eval_len, sia_error *err);

/* Its tensors, in a fixed order: a vector has rows = 1. Values may be changed between calls. */
SIA_API int64_t sia_model_size(const sia_model *m); /* parameters in all */
SIA_API int sia_model_tensors(const sia_model *m);
typedef struct sia_tensor {
    const char *name;
    int64_t rows, columns;
    float *value;
} sia_tensor;
SIA_API sia_tensor sia_model_tensor(const sia_model *m, int i);

/* ------------------------------------------------------------------------------------------------ session
 *
 * A text going through the model, with a KV cache: chunk by chunk, or token by token.
 *
 *     sia_session_create(&s, m, SIA_F16, &err);
 *     sia_session_feed(s, ids, count, NULL, NULL, logits, &err);           logits of what comes next
 *     next = ...;
 *     sia_session_feed(s, &next, 1, NULL, NULL, logits, &err);
 *     sia_session_destroy(s);
 *
 * Memory is that of the cache, and a constant. A session is used by one thread at a time; several may share
 * a model as long as nobody changes its weights. */
typedef struct sia_session sia_session;

/* Packs the weights as they are now. The session borrows m. */
SIA_API sia_status sia_session_create(sia_session **s, sia_model *m, sia_type cache, sia_error *err);
SIA_API void sia_session_destroy(sia_session *s); /* NULL is fine */

/* Appends count tokens. targets [count] and losses [count] go together, or both are NULL: losses[i] is the
 * cross entropy of targets[i] after ids[i]. logits [vocabulary], after the last token, may be NULL. On failure
 * the session holds what it held before. */
SIA_API sia_status sia_session_feed(sia_session *s, const uint32_t *ids, int64_t count,
                                    const uint32_t *targets, float *losses, float *logits, sia_error *err);

SIA_API int64_t sia_session_length(const sia_session *s); /* tokens so far */
SIA_API size_t sia_session_bytes(const sia_session *s);   /* of its caches and buffers */

/* Forgets all tokens from length on. */
SIA_API sia_status sia_session_truncate(sia_session *s, int64_t length, sia_error *err);

/* Which token comes next. A field that is 0 takes the default in brackets. */
typedef struct sia_sampling {
    double temperature; /* 0: the most likely token */
    int64_t top_k;      /* [all] only the k most likely */
    double top_p;       /* [1] only the most likely whose probabilities reach this sum */
    uint32_t limit;     /* [vocabulary] only ids below it */
    uint64_t seed;
} sia_sampling;

/* The choice is a function of (logits, sampling, index): index counts the tokens drawn so far. Of equal
 * logits the smaller id comes first. SIA_NUMBER when a logit is not finite. */
SIA_API sia_status sia_sample(const float *logits, uint32_t vocabulary, const sia_sampling *sampling,
                              uint64_t index, uint32_t *id, sia_error *err);

/* -------------------------------------------------------------------------------------- several processes
 *
 * Attention of sequences that are longer than one process should hold. The processes of a job are its ranks,
 * 0 .. size - 1, and each has a part of the positions of every sequence, with their queries, keys and values.
 * Keys and values go round the ring of ranks while they are attended to, so that no rank ever holds all of
 * them. The result is that of one process up to rounding, with every scheme, and has the same bits each time
 * for the same number of ranks. Parts are merged by their lse, which is a float: weights are known to 1e-7
 * times the size of their row's largest logit.
 *
 *     sia_transport transport = {.context = &mine, .rank = rank, .size = size,
 *                                .send = my_send, .receive = my_receive, .test = my_test};
 *     sia_comm_create(&c, &transport, 600, &err);
 *     sia_ring_create(&ring, a, c, &(sia_ring_plan){.batch = 1, .length = 65536, .backward = 1}, &err);
 *     sia_ring_forward(ring, 1, &(sia_forward){.q = q, .k = k, .v = v, .out = out, .lse = lse}, &err);
 *     sia_ring_destroy(ring);
 *     sia_comm_destroy(c);
 *
 * The library moves no bytes between processes: three functions of the caller's do, on MPI, sockets, or what
 * the job has. examples/ring.c is a whole program with those for MPI.
 *
 * All ranks make the same calls of sia_ring_forward and sia_ring_backward in the same order. One thread at a
 * time uses a comm and its rings, and the transport is called by that thread alone, within these calls.
 *
 * Nothing waits for ever: a rank that was waited for, and from which nothing came for `timeout` seconds, is
 * SIA_LOST, with a sentence that names it. A rank whose call was refused sends nothing: unless the caller
 * tells them, that is how the others notice. */

/* A send or a receive that was started, as the transport knows it: a number, a pointer, a handle's bits. */
typedef uint64_t sia_request;

/* Bytes of one message, at most: an int can count them. Longer ones are cut before they are sent. */
#define SIA_MESSAGE_MOST ((size_t)1 << 30)

/* Three functions, of which none waits for another rank. One that fails returns a status, SIA_LOST when it
 * cannot reach a rank, and puts a sentence into err->text; err is not NULL. */
typedef struct sia_transport {
    void *context; /* given to each of the three */
    int rank, size;
    /* Start a message of 1 .. SIA_MESSAGE_MOST bytes to, or from, another rank; both sides name the same
     * number. The memory is left alone until test says that the message is done. Of two messages with one
     * tag between two ranks, the one that was sent first is for the receive that was started first; messages
     * with other tags may overtake them. Tags are 1 .. 15. No other message of the job may be taken for one
     * of these: with MPI, let them have a communicator of their own. */
    sia_status (*send)(void *context, int to, const void *data, size_t bytes, int tag, sia_request *request,
                       sia_error *err);
    sia_status (*receive)(void *context, int from, void *data, size_t bytes, int tag, sia_request *request,
                          sia_error *err);
    /* *done = 1 when the message is done, and else 0. Called again and again, also between pieces of work, so
     * that it can move messages on; not again for one that was done. */
    sia_status (*test)(void *context, sia_request *request, int *done, sia_error *err);
} sia_transport;

typedef struct sia_comm sia_comm;

/* This process as one rank of a job. The transport is copied, its context borrowed. timeout: seconds, above
 * 0, that this rank waits for another one, what that one does before its call included. Sends nothing. */
SIA_API sia_status sia_comm_create(sia_comm **c, const sia_transport *transport, double timeout,
                                   sia_error *err);
SIA_API void sia_comm_destroy(sia_comm *c); /* NULL is fine; its rings go first */

/* The positions of a rank: first[i] .. first[i] + count[i] - 1 for i = 0 and then 1. With R ranks they are
 * cut into 2 R chunks, which differ in length by 1 at most, and rank r has chunks r and 2 R - 1 - r: an
 * early one, which sees little, and a late one, which sees much, so that all ranks have the same work. */
typedef struct sia_ring_part {
    int64_t first[2], count[2];
} sia_ring_part;

/* All 0 for a length outside 0 .. SIA_MAX_POSITION, or a rank that is not one of `ranks`. */
SIA_API sia_ring_part sia_ring_part_of(int64_t length, int ranks, int rank);

/* The same on all ranks. A field that is 0 takes the default in brackets. */
typedef struct sia_ring_plan {
    int64_t batch;  /* sequences in a call, at most; batch times length is at most SIA_MAX_POSITION */
    int64_t length; /* positions of a sequence on all ranks together, at least 2 of them for each rank */
    int backward;   /* not 0: both passes; 0: sia_ring_backward is refused */
    int64_t slice;  /* [2048] positions of a chunk that go round at a time, at most: fewer take less memory */
} sia_ring_plan;

typedef struct sia_ring sia_ring;

/* Borrows a and c. c may be NULL: a job of one process. Sends nothing: whether all ranks have the same
 * scheme, settings (but for threads) and plan is seen by the first pass, which is SIA_ARGUMENT on all when
 * they have not. What a distance slot of your own computes cannot be compared. */
SIA_API sia_status sia_ring_create(sia_ring **ring, const sia_attention *a, sia_comm *c,
                                   const sia_ring_plan *plan, sia_error *err);
SIA_API void sia_ring_destroy(sia_ring *ring); /* NULL is fine */

SIA_API int64_t sia_ring_positions(const sia_ring *ring); /* of this rank */
SIA_API size_t sia_ring_bytes(const sia_ring *ring);      /* that it holds: blocks on their way, one lse */

/* As sia_attention_forward, with q_len = k_len = sia_ring_positions: arrays hold what this rank has of each
 * of `batch` sequences, positions in the order of sia_ring_part. They are dense; entropy and mass are NULL.
 *
 * A call that is refused for its arguments leaves the ring as it was. After any other failure all calls of
 * the ring are refused, and its memory, which messages may still come into, is not given back. */
SIA_API sia_status sia_ring_forward(sia_ring *ring, int64_t batch, const sia_forward *io, sia_error *err);

/* As sia_attention_backward. d_logn is this rank's share: the gradient is its sum over the ranks, which the
 * caller takes. */
SIA_API sia_status sia_ring_backward(sia_ring *ring, int64_t batch, const sia_backward *io, sia_error *err);

#ifdef __cplusplus
}
#endif

#endif
