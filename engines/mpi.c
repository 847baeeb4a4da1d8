/* The engine over MPI: built once for each MPI that was found, since their binary interfaces differ. MPI 3.0 functions
 * only. */
#include "world/engine.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* A message under way. */
typedef struct message {
    struct message *before, *next; /* all of the run */
    MPI_Request request;
    int bytes;
    int is_received;
} message;

typedef struct run {
    MPI_Comm comm;
    int finalizes;   /* MPI was initialized here */
    int takes_turns; /* MPI lets in any thread, one at a time */
    message *messages;
} run;

/* Eager limits over TCP: 64 KiB with the header in Open MPI (btl_tcp_eager_limit), somewhat more than 16 KiB in MPICH
 * over UCX. */
#ifdef OPEN_MPI
static const size_t message_bytes = (size_t)60 << 10;
#else
static const size_t message_bytes = (size_t)16 << 10;
#endif

/* Errors of this file, beside those of MPI. */
enum { NO_MEMORY = -1, FEW_THREADS = -2, FINALIZED = -3, OTHER_SIZE = -4, TOO_LONG = -5 };

static const char *own_text(int error) {
    switch (error) {
    case NO_MEMORY: return "out of memory";
    case FEW_THREADS: return "MPI lets no second thread call it: initialize it with MPI_THREAD_MULTIPLE";
    case FINALIZED: return "MPI was finalized already: a process opens its launcher's world once";
    case OTHER_SIZE: return "a message has another size than its receiver expects: ranks made different calls";
    case TOO_LONG: return "a message is too long";
    default: return NULL;
    }
}

/* MPI belongs to this thread alone, or to a program that says how many threads it lets in. */
static int initialize(run *self) {
    int is_initialized, is_finalized, provided;
    MPI_Finalized(&is_finalized);
    if (is_finalized) return FINALIZED;
    MPI_Initialized(&is_initialized);
    if (is_initialized) {
        MPI_Query_thread(&provided);
        self->takes_turns = 1;
        return provided < MPI_THREAD_SERIALIZED ? FEW_THREADS : MPI_SUCCESS;
    }
    const int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (error != MPI_SUCCESS) return error;
    self->finalizes = 1;
    self->takes_turns = provided >= MPI_THREAD_SERIALIZED;
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

static int takes_turns(void *link) { return ((const run *)link)->takes_turns; }

static int close_run(void *link) {
    run *self = link;
    const int finalizes = self->finalizes;
    int error = MPI_Comm_free(&self->comm);
    free(self);
    if (error == MPI_SUCCESS && finalizes) error = MPI_Finalize();
    return error;
}

/* ---- messages ---- */

static int begin_message(run *self, int is_received, size_t bytes, message **out) {
    if (bytes > INT_MAX) return TOO_LONG;
    message *begun = malloc(sizeof *begun);
    if (!begun) return NO_MEMORY;
    *begun =
        (message){.next = self->messages, .request = MPI_REQUEST_NULL, .bytes = (int)bytes, .is_received = is_received};
    if (begun->next) begun->next->before = begun;
    self->messages = begun;
    *out = begun;
    return MPI_SUCCESS;
}

static void end_message(run *self, message *ended) {
    if (ended->next) ended->next->before = ended->before;
    if (ended->before)
        ended->before->next = ended->next;
    else
        self->messages = ended->next;
    free(ended);
}

static int begin_send(void *link, unsigned to, unsigned tag, const void *data, size_t bytes, void **request) {
    run *self = link;
    message *begun;
    int error = begin_message(self, 0, bytes, &begun);
    if (error != MPI_SUCCESS) return error;
    error = MPI_Isend(data, begun->bytes, MPI_BYTE, (int)to, (int)tag, self->comm, &begun->request);
    if (error == MPI_SUCCESS)
        *request = begun;
    else
        end_message(self, begun);
    return error;
}

static int begin_receive(void *link, unsigned from, unsigned tag, void *data, size_t bytes, void **request) {
    run *self = link;
    message *begun;
    int error = begin_message(self, 1, bytes, &begun);
    if (error != MPI_SUCCESS) return error;
    error = MPI_Irecv(data, begun->bytes, MPI_BYTE, (int)from, (int)tag, self->comm, &begun->request);
    if (error == MPI_SUCCESS)
        *request = begun;
    else
        end_message(self, begun);
    return error;
}

static int test_request(void *link, void **request, int *done) {
    run *self = link;
    message *tested = *request;
    MPI_Status status;
    int received = tested->bytes;
    int error = MPI_Test(&tested->request, done, &status);
    if (error != MPI_SUCCESS || !*done) return error;
    if (tested->is_received) error = MPI_Get_count(&status, MPI_BYTE, &received);
    if (error == MPI_SUCCESS && received != tested->bytes) error = OTHER_SIZE;
    end_message(self, tested);
    *request = NULL;
    return error;
}

/* What is received is cancelled: a program that goes on calling MPI must not have its memory written. What MPI does not
 * give back within a tenth of a second stays with it. */
static void abandon_run(void *link) {
    run *self = link;
    const double until = MPI_Wtime() + 0.1;
    for (message *at = self->messages; at; at = at->next)
        if (at->is_received && at->request != MPI_REQUEST_NULL) (void)MPI_Cancel(&at->request);
    while (self->messages && MPI_Wtime() < until)
        for (message *at = self->messages, *next; at; at = next) {
            int done = 0;
            next = at->next;
            if (MPI_Test(&at->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done) end_message(self, at);
        }
    if (!self->messages) free(self);
}

static int all_reduce(void *link, const float *in, float *out, size_t count) {
    const run *self = link;
    return MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, (int)count, MPI_FLOAT, MPI_SUM, self->comm);
}

static void tell(void *link, int error, char *text, size_t bytes) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    (void)link;
    if (!own_text(error)) (void)MPI_Error_string(error, words, &length);
    snprintf(text, bytes, "%s", own_text(error) ? own_text(error) : words);
}

__attribute__((visibility("default"))) const clq_engine clq_engine_table = {.version = CLQ_ENGINE_VERSION,
                                                                            .name = CLIQUE_MPI_NAME,
                                                                            .message_bytes = message_bytes,
                                                                            .open = open_run,
                                                                            .takes_turns = takes_turns,
                                                                            .close = close_run,
                                                                            .abandon = abandon_run,
                                                                            .send = begin_send,
                                                                            .receive = begin_receive,
                                                                            .test = test_request,
                                                                            .tell = tell,
                                                                            .all_reduce = all_reduce};
