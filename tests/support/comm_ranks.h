/* A communicator for tests: devices chosen by kind, one queue per device, and one thread per rank during a call. */
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
    clq_error results[CLQ_REPLICAS_MAX]; /* by rank, of the last ranks_run */
} ranks;

/* kinds: one letter per rank. b: PoCL's basic devices, the next one each time. c: always PoCL's first basic device. p:
 * PoCL's pool. i: Intel's CPU. r: Rusticl's first device. n: NVIDIA's GPUs, a: AMD's GPUs, the next one each time;
 * these may be PoCL's devices that the strict layer disguises. Ranks with the same digit behind their letters share a
 * context ("b1i2b1i2"). Each rank without a digit has a context of its own, or, if `island` is true, all of them share
 * one. Fails the test if a device is missing. */
void ranks_open(ranks *all, const char *kinds, bool island, const clq_group_config *config);
void ranks_close(ranks *all);
/* Makes a communicator of some of the ranks by clq_comm_split, with queues of its own: who[i] becomes rank i of
 * *part. */
void ranks_split(const ranks *all, const unsigned *who, unsigned count, ranks *part);
void ranks_close_part(
    ranks *part); /* before or after `all`'s communicator is destroyed, and before its devices close */
/* Calls body(all, rank, context) on one thread per rank, and waits for all. results has the status and the error detail
 * of each rank. */
typedef clq_status ranks_body(ranks *all, unsigned rank, void *context);
void ranks_run(ranks *all, ranks_body *body, void *context);
void ranks_expect_ok(const ranks *all);
clq_status ranks_meet(clq_comm *comm, unsigned rank); /* a barrier */

/* The index, in the system's list, of the nth device of a kind, counted from 0. */
uint32_t ranks_device_index(const clq_system *system, char kind, unsigned nth);

/* For tests that make OpenCL calls and events themselves. */
void cl_ok(cl_int error);
cl_int state_of(cl_event event); /* CL_QUEUED, …, CL_COMPLETE, or a negative error */
cl_event user_event(const ranks *all, unsigned rank);

#endif
