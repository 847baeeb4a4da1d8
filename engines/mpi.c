/* The engine over MPI: built once for each MPI that was found, since their binary interfaces differ. MPI 3.0 functions
 * only. */
#include "world/engine.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Both MPIs' requests are as large as a pointer, or smaller: the caller keeps them in one. */
_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "a request does not fit into a pointer");

typedef struct run {
    MPI_Comm comm;
    int finalizes; /* MPI was initialized here */
} run;

/* Open MPI sends up to 64 KiB with its header at once over TCP (btl_tcp_eager_limit), MPICH over UCX somewhat more than
 * 16 KiB. */
#ifdef OPEN_MPI
static const size_t message_bytes = (size_t)60 << 10;
#else
static const size_t message_bytes = (size_t)16 << 10;
#endif

/* Errors of this file, beside those of MPI. */
enum { NO_MEMORY = -1, FEW_THREADS = -2 };

static void *kept(MPI_Request request) {
    void *pointer = NULL;
    memcpy(&pointer, &request, sizeof request);
    return pointer;
}

static MPI_Request request_of(void *pointer) {
    MPI_Request request;
    memcpy(&request, &pointer, sizeof request);
    return request;
}

/* MPI belongs to this thread alone, or to a program that says how many threads it lets in. */
static int initialize(run *self) {
    int is_initialized, provided;
    MPI_Initialized(&is_initialized);
    if (is_initialized) {
        MPI_Query_thread(&provided);
        return provided < MPI_THREAD_SERIALIZED ? FEW_THREADS : MPI_SUCCESS;
    }
    const int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (error != MPI_SUCCESS) return error;
    self->finalizes = 1;
    return provided < MPI_THREAD_FUNNELED ? FEW_THREADS : MPI_SUCCESS;
}

/* Messages of a communicator of our own meet none of the program's. */
static int join(run *self, const void *communicator, unsigned *rank, unsigned *size) {
    int mine, all, error = initialize(self);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_dup(communicator ? *(const MPI_Comm *)communicator : MPI_COMM_WORLD, &self->comm);
    if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(self->comm, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS) error = MPI_Comm_rank(self->comm, &mine);
    if (error == MPI_SUCCESS) error = MPI_Comm_size(self->comm, &all);
    if (error != MPI_SUCCESS) return error;
    *rank = (unsigned)mine;
    *size = (unsigned)all;
    return MPI_SUCCESS;
}

static int open_run(const void *communicator, void **link, unsigned *rank, unsigned *size) {
    run *self = calloc(1, sizeof *self);
    if (!self) return NO_MEMORY;
    const int error = join(self, communicator, rank, size);
    if (error == MPI_SUCCESS)
        *link = self;
    else
        free(self);
    return error;
}

static int close_run(void *link) {
    run *self = link;
    const int finalizes = self->finalizes;
    int error = MPI_Comm_free(&self->comm);
    free(self);
    if (error == MPI_SUCCESS && finalizes) error = MPI_Finalize();
    return error;
}

static void abandon_run(void *link) { free(link); }

static int begin_send(void *link, unsigned to, unsigned tag, const void *data, size_t bytes, void **request) {
    const run *self = link;
    MPI_Request begun;
    const int error = MPI_Isend(data, (int)bytes, MPI_BYTE, (int)to, (int)tag, self->comm, &begun);
    if (error == MPI_SUCCESS) *request = kept(begun);
    return error;
}

static int begin_receive(void *link, unsigned from, unsigned tag, void *data, size_t bytes, void **request) {
    const run *self = link;
    MPI_Request begun;
    const int error = MPI_Irecv(data, (int)bytes, MPI_BYTE, (int)from, (int)tag, self->comm, &begun);
    if (error == MPI_SUCCESS) *request = kept(begun);
    return error;
}

static int test_request(void *link, void **request, int *done) {
    (void)link;
    MPI_Request tested = request_of(*request);
    const int error = MPI_Test(&tested, done, MPI_STATUS_IGNORE);
    if (error == MPI_SUCCESS) *request = *done ? NULL : kept(tested);
    return error;
}

static int all_reduce(void *link, const float *in, float *out, size_t count) {
    const run *self = link;
    return MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, (int)count, MPI_FLOAT, MPI_SUM, self->comm);
}

static void tell(void *link, int error, char *text, size_t bytes) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    (void)link;
    if (error == NO_MEMORY)
        snprintf(words, sizeof words, "out of memory");
    else if (error == FEW_THREADS)
        snprintf(words, sizeof words, "MPI lets no second thread call it: initialize it with MPI_THREAD_MULTIPLE");
    else
        (void)MPI_Error_string(error, words, &length);
    snprintf(text, bytes, "%s", words);
}

__attribute__((visibility("default"))) const clq_engine clq_engine_table = {.version = CLQ_ENGINE_VERSION,
                                                                            .name = CLIQUE_MPI_NAME,
                                                                            .message_bytes = message_bytes,
                                                                            .open = open_run,
                                                                            .close = close_run,
                                                                            .abandon = abandon_run,
                                                                            .send = begin_send,
                                                                            .receive = begin_receive,
                                                                            .test = test_request,
                                                                            .tell = tell,
                                                                            .all_reduce = all_reduce};
