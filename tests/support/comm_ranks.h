/* A communicator for tests: devices by kind, a queue each, and a thread per rank for the length of a call. */
#ifndef CLQ_TEST_COMM_RANKS_H
#define CLQ_TEST_COMM_RANKS_H

#include "comm/comm.h"
#include "support/check.h"

typedef struct ranks {
    clq_system *system;
    unsigned count;
    clq_device *devices[CLQ_REPLICAS_MAX];
    clq_queue *queues[CLQ_REPLICAS_MAX];
    clq_comm *comm;
    clq_error results[CLQ_REPLICAS_MAX]; /* of the last ranks_run */
} ranks;

/* kinds: a letter per rank: b and c PoCL's basic devices, the next one of them each time or (c) always the first; p
 * PoCL's pool; i Intel's; r Rusticl's first; n NVIDIA's and a AMD's: GPUs, or PoCL's devices that the strict layer
 * makes look like them, the next one each time. A digit behind a letter: those of one digit are in one context
 * ("b1i2b1i2"); without: each has its own, or (island) all are in one. Fails the test where something is missing. */
void ranks_open(ranks *all, const char *kinds, bool island, const clq_group_config *config);
void ranks_close(ranks *all);
/* A communicator of some of the ranks, by clq_comm_split, with queues of its own: who[i] is rank i of *part. */
void ranks_split(const ranks *all, const unsigned *who, unsigned count, ranks *part);
void ranks_close_part(
    ranks *part); /* before or after `all`'s communicator is destroyed, and before its devices close */
/* body(all, rank, context) on a thread per rank; what each returns is in results, with its detail. */
typedef clq_status ranks_body(ranks *all, unsigned rank, void *context);
void ranks_run(ranks *all, ranks_body *body, void *context);
void ranks_expect_ok(const ranks *all);
clq_status ranks_meet(clq_comm *comm, unsigned rank); /* a barrier */

/* The index of a device of a kind in the system's list. */
uint32_t ranks_device_index(const clq_system *system, char kind, unsigned nth);

/* OpenCL's calls and events, where tests make them themselves. */
void cl_ok(cl_int error);
cl_int state_of(cl_event event); /* CL_QUEUED, …, CL_COMPLETE, or a negative error */
cl_event user_event(const ranks *all, unsigned rank);

#endif
