/* SPDX-License-Identifier: MIT
 *
 * The model behind sia.h, and what training, evaluation and generation ask of it.
 *
 *     sia_training *t;                                     a place for activations and gradients
 *     sia_training_create(&t, m, batch, length, recompute, err);
 *     sia_model_pack(m, true, err);                        after every change of the weights
 *     sia_training_run(t, ids, targets, scale, add, &sum, &scored, err);
 *
 * Matrices are kept in two forms: as the table has them, and as panels for products (kernel/multiply.h), which
 * sia_model_pack makes. Work is cut into blocks of SIA_BLOCK_ROWS tokens, or of rows of a gradient: results do
 * not depend on the number of threads. */
#ifndef SIA_MODEL_MODEL_H
#define SIA_MODEL_MODEL_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "comm/comm.h"
#include "kernel/kernel.h"
#include "kernel/matrix.h"
#include "model/config.h"
#include "model/parameters.h"

/* Matrices as panels: one for each parameter, NULL for what is no matrix of a product. */
typedef struct sia_panels {
    float **of; /* [parameters.count] */
    float *memory;
    size_t bytes;
} sia_panels;

struct sia_model {
    sia_model_config config;
    int threads;
    const sia_kernel *kernel;
    sia_parameters parameters;
    sia_attention *attention;
    sia_panels forward;   /* for x W^T; empty until they are packed */
    sia_panels back;      /* for dy W; empty until the model is trained */
    _Atomic int sessions; /* that are open, and read attention and panels */
};

/* A model whose weights are all 0, for one who fills them from a file. */
sia_status sia_model_create_blank(sia_model **m, const sia_model_config *config, int threads, sia_error *err);

/* Attention by this scheme for texts of up to eval_len tokens, as sia_model_set_scheme puts it into the model. */
sia_status sia_model_fit_attention(const sia_model *m, const char *scheme, int64_t eval_len,
                                   sia_attention **attention, sia_error *err);

/* Panels from the weights as they are now; `back` too when gradients will be asked for. */
sia_status sia_model_pack(sia_model *m, bool back, sia_error *err);

/* The same for a model that other threads may be using in sessions: panels that are right already are not written to. */
sia_status sia_model_pack_shared(sia_model *m, sia_error *err);

/* A target that is not scored. */
#define SIA_NO_TARGET UINT32_MAX

/* SIA_ARGUMENT, naming the first of `what` that is outside the vocabulary; with may_miss SIA_NO_TARGET is fine. */
sia_status sia_model_check_ids(const sia_model *m, const uint32_t *ids, int64_t count, const char *what,
                               bool may_miss, sia_error *err);

/* Blocks of `size` that n things fill. */
static inline int64_t sia_blocks(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* One product of a block of rows: c = beta c + a W^T, or with back: c = beta c + a W. */
void sia_model_product(const sia_model *m, const sia_parameter *w, bool back, int64_t rows, const float *a,
                       float *c, float beta);

/* Rows [tokens, vocabulary] of logits that one chunk of the loss holds: at most 32 MB of them. */
int64_t sia_loss_rows(const sia_model_config *config);

/* ------------------------------------------------------------------------------------------------ training */

typedef struct sia_training sia_training;

/* For `batch` sequences of `length`. With recompute, a layer keeps its input alone and is computed again for
 * its gradient: a third more work, a tenth of the memory. */
sia_status sia_training_create(sia_training **t, sia_model *m, int64_t batch, int64_t length, bool recompute,
                               sia_error *err);

/* What a pass is made for. */
typedef struct sia_training_plan {
    int64_t batch, length; /* of whole sequences */
    bool recompute;
    bool forward_only; /* losses alone: no gradients, and the memory of one layer */
    sia_comm *ring;    /* sequences are divided over these ranks (attention/ring.h); NULL: they are whole */
} sia_training_plan;
sia_status sia_training_plan_create(sia_training **t, sia_model *m, const sia_training_plan *plan,
                                    sia_error *err);
void sia_training_destroy(sia_training *t);
size_t sia_training_bytes(const sia_training *t);

/* Tokens of a sequence that this rank has: all of them without a ring; and which: to[i] of a whole row. */
int64_t sia_training_positions(const sia_training *t);
void sia_training_pick(const sia_training *t, const uint32_t *row, uint32_t *to);

/* From now on a run takes so many sequences, at most as many as it was created for. */
sia_status sia_training_resize(sia_training *t, int64_t batch, sia_error *err);

/* Called by a run on its way back: the gradients of parameters first .. first + count - 1 of the table are whole.
 * count 0: nothing new, a moment to move other things on. What fails here ends the run. NULL: nobody watches. */
typedef sia_status sia_gradient_ready(void *context, int first, int count, sia_error *err);
void sia_training_watch(sia_training *t, sia_gradient_ready *ready, void *context);

/* Forward and backward over ids [batch, positions], targets the same shape (SIA_NO_TARGET: not scored).
 * Gradients of scale * (sum of the losses) are written into the parameters' gradients, or added to them where
 * add is set. *sum is the sum of the losses, *scored how many there were. */
sia_status sia_training_run(sia_training *t, const uint32_t *ids, const uint32_t *targets, float scale,
                            bool add, double *sum, int64_t *scored, sia_error *err);

/* Forward alone: losses [batch, positions], 0 where there is no target. The model's forward panels must be packed. */
sia_status sia_training_losses(sia_training *t, const uint32_t *ids, const uint32_t *targets, float *losses,
                               sia_error *err);

/* Useful floating-point operations of the products and of attention for one token of a sequence of this
 * length, forward and backward. */
double sia_model_flops(const sia_model_config *config, int64_t length);

/* Those of the optimiser: sia_muon_flops (optim/muon.h). */

#endif
