/* SPDX-License-Identifier: MIT
 *
 * MPI as the transport: three calls (Isend, Irecv, Test) on a communicator of our own, and the two ends of a job.
 *
 * Collectives and sums are not MPI's: their order would be the library's choice, and none of them can be given up
 * after a time. MPI_Test can, which is all that a bounded wait needs.
 *
 * Most MPIs move long messages only while one of their functions runs. While this rank computes for long and messages
 * are under way, a thread of ours looks in five thousand times a second, one call at a time with everyone else's. */
#define _GNU_SOURCE
#include "comm/comm_mpi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* mpirun of Open MPI and of MPICH, srun. SLURM_NTASKS alone is no sign: a batch script has it, too. */
int sia_launched(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *text = getenv(sizes[i]);
        long size = text ? strtol(text, NULL, 10) : 0;
        if (size > 0 && size <= INT32_MAX) return (int)size;
    }
    return 1;
}

#ifndef SIA_MPI

sia_status sia_mpi_start(sia_comm **c, double timeout, sia_error *err) {
    (void)timeout;
    *c = NULL;
    if (sia_launched() == 1) return SIA_OK;
    return sia_fail(err, SIA_ARGUMENT, "%d processes were started, but this build has no MPI",
                    sia_launched());
}

void sia_mpi_end(sia_comm *c, bool clean, int code) { (void)c, (void)clean, (void)code; }
const char *sia_mpi_library(void) { return "none"; }

#else

#    include <mpi.h>
#    include <pthread.h>
#    include <time.h>
#    include <unistd.h>

static MPI_Comm world; /* a copy of MPI_COMM_WORLD whose errors are returned */

/* ------------------------------------------------------------------------------------------------ moving on */

static struct {
    pthread_t thread;
    bool running, quit;
    pthread_mutex_t lock; /* held during every call of MPI */
    pthread_cond_t work;
    int64_t pending; /* requests that were started and are not done */
    int64_t calls;   /* of the rank itself: while it calls, nobody else has to */
} mover = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

static void *mover_main(void *unused) {
    (void)unused;
    int64_t seen = -1;
    pthread_mutex_lock(&mover.lock);
    while (!mover.quit) {
        int there;
        if (mover.pending == 0)
            (void)pthread_cond_wait(&mover.work, &mover.lock);
        else if (mover.calls == seen)
            (void)MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &there, MPI_STATUS_IGNORE);
        seen = mover.calls;
        pthread_mutex_unlock(&mover.lock);
        (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        pthread_mutex_lock(&mover.lock);
    }
    pthread_mutex_unlock(&mover.lock);
    return NULL;
}

static void enter(void) {
    pthread_mutex_lock(&mover.lock);
    mover.calls++;
}

/* change: of the requests under way. */
static void leave(int change) {
    mover.pending += change;
    if (change > 0 && mover.pending == change) pthread_cond_signal(&mover.work);
    pthread_mutex_unlock(&mover.lock);
}

static void stop_mover(void) {
    pthread_mutex_lock(&mover.lock);
    mover.quit = true;
    pthread_cond_signal(&mover.work);
    pthread_mutex_unlock(&mover.lock);
    if (mover.running) (void)pthread_join(mover.thread, NULL);
    mover.running = false;
}

/* ------------------------------------------------------------------------------------------------ the transport */

/* A request of any MPI fits: a pointer in one, an int in another. */
_Static_assert(sizeof(MPI_Request) <= sizeof(sia_request), "requests");
static sia_request kept(MPI_Request r) {
    sia_request kept = 0;
    memcpy(&kept, &r, sizeof r);
    return kept;
}

static sia_status checked(int code, const char *call, sia_error *err) {
    if (code == MPI_SUCCESS) return SIA_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
    return sia_fail(err, SIA_LOST, "%s: %.*s", call, length, text);
}

/* The analyzer wants each request's wait in the function that starts it.
 * NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker) */
static sia_status mpi_send(void *context, int to, const void *data, size_t bytes, int tag,
                           sia_request *request, sia_error *err) {
    (void)context;
    MPI_Request r;
    enter();
    int code = MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, world, &r);
    leave(code == MPI_SUCCESS);
    if (code == MPI_SUCCESS) *request = kept(r);
    return checked(code, "MPI_Isend", err);
}

static sia_status mpi_receive(void *context, int from, void *data, size_t bytes, int tag,
                              sia_request *request, sia_error *err) {
    (void)context;
    MPI_Request r;
    enter();
    int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, world, &r);
    leave(code == MPI_SUCCESS);
    if (code == MPI_SUCCESS) *request = kept(r);
    return checked(code, "MPI_Irecv", err);
}

/* NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker) */

static sia_status mpi_test(void *context, sia_request *request, int *done, sia_error *err) {
    (void)context;
    MPI_Request r;
    int flag = 0;
    memcpy(&r, request, sizeof r);
    enter();
    int code = MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
    leave(flag ? -1 : 0);
    *request = kept(r);
    *done = flag;
    return checked(code, "MPI_Test", err);
}

/* A launcher's environment without a size of the job, such as PMIx alone, still means a launcher. */
static bool under_launcher(void) { return sia_launched() > 1 || getenv("PMIX_RANK") || getenv("PMI_RANK"); }

/* A thread that ends the process when MPI does not return in time. */
static struct {
    pthread_t thread;
    bool running;
    time_t seconds;
    const char *sentence; /* what it says then; NULL: nothing */
    int code;
} watch;

static void *watch_main(void *unused) {
    (void)unused;
    (void)nanosleep(&(struct timespec){.tv_sec = watch.seconds}, NULL);
    if (watch.sentence) (void)!write(STDERR_FILENO, watch.sentence, strlen(watch.sentence));
    _exit(watch.code);
}

static void watch_begin(time_t seconds, const char *sentence, int code) {
    watch.seconds = seconds;
    watch.sentence = sentence;
    watch.code = code;
    watch.running = pthread_create(&watch.thread, NULL, watch_main, NULL) == 0;
}

static void watch_end(void) {
    if (!watch.running) return;
    (void)pthread_cancel(watch.thread);
    (void)pthread_join(watch.thread, NULL);
}

/* MPI_Init and MPI_Comm_dup wait for all ranks, and not every launcher ends a job of which one was gone before it. */
static int start_in_time(double timeout, int *given) {
    watch_begin((time_t)timeout + 1, "sia: MPI does not start: not all ranks are there\n", 1);
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, given);
    if (code == MPI_SUCCESS) code = MPI_Comm_dup(MPI_COMM_WORLD, &world);
    watch_end();
    return code;
}

sia_status sia_mpi_start(sia_comm **c, double timeout, sia_error *err) {
    *c = NULL;
    if (!under_launcher()) return SIA_OK;
    int given, rank, size;
    if (start_in_time(timeout, &given) != MPI_SUCCESS) return sia_fail(err, SIA_LOST, "MPI does not start");
    (void)MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    (void)MPI_Comm_rank(world, &rank);
    (void)MPI_Comm_size(world, &size);
    if (size == 1 && sia_launched() > 1)
        return sia_fail(
            err, SIA_ARGUMENT,
            "%d processes were started, but MPI sees 1: srun may want --mpi=pmix, or another mpirun "
            "belongs to this MPI",
            sia_launched());
    if (given < MPI_THREAD_FUNNELED)
        return sia_fail(err, SIA_ARGUMENT, "this MPI does not let a process have threads");
    if (given >= MPI_THREAD_SERIALIZED && size > 1)
        mover.running = pthread_create(&mover.thread, NULL, mover_main, NULL) == 0;
    return sia_comm_create(
        c,
        &(sia_transport){
            .rank = rank, .size = size, .send = mpi_send, .receive = mpi_receive, .test = mpi_test},
        timeout, err);
}

void sia_mpi_end(sia_comm *c, bool clean, int code) {
    int started = 0, ended = 0;
    sia_comm_destroy(c);
    if (MPI_Initialized(&started) != MPI_SUCCESS || !started) return;
    if (MPI_Finalized(&ended) != MPI_SUCCESS || ended) return;
    /* With the other ranks gone, neither MPI_Finalize nor MPI_Abort promises to return. */
    watch_begin(clean ? 60 : 10, NULL, code ? code : 1);
    if (clean) {
        stop_mover();
        (void)MPI_Comm_free(&world);
        (void)MPI_Finalize();
        watch_end();
        return;
    }
    /* A launcher that ends the job at once may not have read what this rank said last. */
    (void)nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    enter();
    (void)MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}

const char *sia_mpi_library(void) {
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (MPI_Get_library_version(name, &length) != MPI_SUCCESS) return "unknown";
    name[strcspn(name, ",\n")] = 0;
    for (char *tab = name; (tab = strchr(tab, '\t'));) *tab = ' '; /* MPICH's */
    return name;
}

#endif
