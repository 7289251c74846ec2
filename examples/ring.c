/* SPDX-License-Identifier: MIT
 *
 * Attention of one sequence over the ranks of an MPI job, forward and backward: each holds its part of the
 * positions, and keys and values go round.
 *
 *     mpicc ring.c $(pkg-config --cflags --libs sia) -lm -o ring && mpirun -n 2 ./ring
 *
 * So that there is something to compare with, every rank also computes the whole sequence by itself. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sia.h>

enum { LENGTH = 4096, HEADS = 2, DIM = 64, ROW = HEADS * DIM };

/* ------------------------------------------------------------------------------------------ the transport */

/* A handle of any MPI fits into a sia_request: in some it is a pointer, in others an int. */
_Static_assert(sizeof(MPI_Request) <= sizeof(sia_request), "requests");

static sia_status status_of(int code, const char *call, sia_error *err) {
    if (code == MPI_SUCCESS) return SIA_OK;
    (void)snprintf(err->text, sizeof err->text, "%s failed with the code %d", call, code);
    return SIA_LOST;
}

/* The analyzer wants each request's wait in the function that starts it.
 * NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker) */
static sia_status start_send(void *context, int to, const void *data, size_t bytes, int tag,
                             sia_request *request, sia_error *err) {
    MPI_Request handle;
    int code = MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, *(MPI_Comm *)context, &handle);
    memcpy(request, &handle, sizeof handle);
    return status_of(code, "MPI_Isend", err);
}

static sia_status start_receive(void *context, int from, void *data, size_t bytes, int tag,
                                sia_request *request, sia_error *err) {
    MPI_Request handle;
    int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, *(MPI_Comm *)context, &handle);
    memcpy(request, &handle, sizeof handle);
    return status_of(code, "MPI_Irecv", err);
}

/* NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker) */

static sia_status test(void *context, sia_request *request, int *done, sia_error *err) {
    (void)context;
    MPI_Request handle;
    memcpy(&handle, request, sizeof handle);
    int code = MPI_Test(&handle, done, MPI_STATUS_IGNORE);
    memcpy(request, &handle, sizeof handle);
    return status_of(code, "MPI_Test", err);
}

/* ------------------------------------------------------------------------------------------------ the work */

typedef enum array { Q, K, V, D_OUT, OUT, D_Q, D_K, D_V, ARRAYS } array;
static float whole[ARRAYS][LENGTH * ROW], part[ARRAYS][LENGTH * ROW]; /* a rank's part is shorter */
static float whole_lse[LENGTH * HEADS], part_lse[LENGTH * HEADS];

static sia_forward forward_of(float x[ARRAYS][LENGTH * ROW], float *lse) {
    return (sia_forward){.q = x[Q], .k = x[K], .v = x[V], .out = x[OUT], .lse = lse};
}

static sia_backward backward_of(float x[ARRAYS][LENGTH * ROW], const float *lse) {
    return (sia_backward){.q = x[Q],
                          .k = x[K],
                          .v = x[V],
                          .out = x[OUT],
                          .lse = lse,
                          .d_out = x[D_OUT],
                          .d_q = x[D_Q],
                          .d_k = x[D_K],
                          .d_v = x[D_V]};
}

/* The rank's two chunks, one behind the other, are row 0, 1, ... of its part. */
static const float *in_whole(array i, sia_ring_part at, int64_t row) {
    int64_t position = row < at.count[0] ? at.first[0] + row : at.first[1] + row - at.count[0];
    return whole[i] + position * ROW;
}

static sia_status run(sia_comm *c, const sia_attention *a, sia_ring_part at, double *most, sia_error *err) {
    sia_ring *ring;
    sia_ring_plan plan = {.batch = 1, .length = LENGTH, .backward = 1};
    sia_status status = sia_ring_create(&ring, a, c, &plan, err);
    if (status) return status;
    int64_t rows = sia_ring_positions(ring);
    for (array i = Q; i <= D_OUT; i++)
        for (int64_t row = 0; row < rows; row++)
            memcpy(part[i] + row * ROW, in_whole(i, at, row), ROW * sizeof(float));

    sia_forward forward = forward_of(part, part_lse);
    sia_backward backward = backward_of(part, part_lse);
    status = sia_ring_forward(ring, 1, &forward, err);
    if (!status) status = sia_ring_backward(ring, 1, &backward, err);
    sia_ring_destroy(ring);

    sia_span span = {.q_len = LENGTH, .k_len = LENGTH};
    forward = forward_of(whole, whole_lse);
    backward = backward_of(whole, whole_lse);
    if (!status) status = sia_attention_forward(a, span, &forward, NULL, err);
    if (!status) status = sia_attention_backward(a, span, &backward, NULL, err);
    *most = 0;
    for (array i = OUT; !status && i < ARRAYS; i++)
        for (int64_t j = 0; j < rows * ROW; j++)
            *most = fmax(*most, fabs((double)part[i][j] - (double)in_whole(i, at, j / ROW)[j % ROW]));
    return status;
}

int main(int count, char **arguments) {
    MPI_Comm own; /* nobody else's messages, and errors that are returned */
    sia_transport transport = {.context = &own, .send = start_send, .receive = start_receive, .test = test};
    MPI_Init(&count, &arguments);
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    MPI_Comm_rank(own, &transport.rank);
    MPI_Comm_size(own, &transport.size);

    unsigned seed = 1; /* the same numbers on every rank, between -1 and 1 */
    for (array i = Q; i <= D_OUT; i++)
        for (int j = 0; j < LENGTH * ROW; j++) {
            seed = (unsigned)(seed * 1664525ull + 1013904223);
            whole[i][j] = (float)(seed >> 8) / (1 << 23) - 1;
        }

    sia_error err;
    sia_comm *c = NULL;
    sia_attention *a = NULL;
    sia_attention_config config = {.heads = HEADS, .head_dim = DIM, .threads = 1};
    sia_ring_part at = sia_ring_part_of(LENGTH, transport.size, transport.rank);
    double most, all;
    if (sia_attention_create(&a, "si+prope", &config, &err) || sia_comm_create(&c, &transport, 60, &err) ||
        run(c, a, at, &most, &err)) {
        fprintf(stderr, "rank %d: %s\n", transport.rank, err.text);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    sia_comm_destroy(c);
    sia_attention_destroy(a);
    MPI_Allreduce(&most, &all, 1, MPI_DOUBLE, MPI_MAX, own);
    if (transport.rank == 0)
        printf("%d rank%s, %d positions: largest difference %.1e\n", transport.size,
               transport.size == 1 ? "" : "s", LENGTH, all);
    MPI_Comm_free(&own);
    MPI_Finalize();
    return all < 1e-4 ? EXIT_SUCCESS : EXIT_FAILURE;
}
