/* clique/comm.h: collectives over OpenCL devices of any vendors, on the caller's own contexts, queues and buffers.
 *
 * A group has n ranks; a rank is (context, device, queue). A collective takes one slice (cl_mem, byte offset) per rank
 * and runs on the group's own threads, one per rank: the call returns at once. It starts when its wait events are
 * complete and gives one event per rank that completes with it. Calls of a group run in the order they were issued.
 * Results are bitwise the same on every rank and from run to run: who adds what, in which order, is fixed by the
 * group's size and the count.
 *
 * What was enqueued on a rank's queue before a call is waited for too; what is enqueued after it is not ordered behind
 * it but by the call's events. Where a rank is one of PoCL's basic devices, which run commands in their caller's thread
 * and cannot wait for an event of the host's, a call returns only when it is done (unless it waits for a user event).
 *
 * Thread rules: one thread at a time calls into a group; several groups are independent. */
#ifndef CLIQUE_COMM_H
#define CLIQUE_COMM_H

#include <clique/device.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clq_rank {
    cl_context context;
    cl_device_id device;
    cl_command_queue queue; /* in-order; NULL: the group makes one */
} clq_rank;

typedef struct clq_slice {
    cl_mem memory; /* in its rank's context */
    size_t offset; /* bytes, a multiple of the element's size */
} clq_slice;

typedef enum clq_redop { CLQ_SUM } clq_redop;
typedef enum clq_algorithm { CLQ_ALGORITHM_AUTO, CLQ_ALGORITHM_RING, CLQ_ALGORITHM_DIRECT } clq_algorithm;
/* How bytes move between two ranks: through pinned host slots; by copies inside a shared context; by the host's own
 * pointers, where both devices share host memory. */
typedef enum clq_transport {
    CLQ_TRANSPORT_AUTO,
    CLQ_TRANSPORT_STAGED,
    CLQ_TRANSPORT_PEER,
    CLQ_TRANSPORT_MAPPED
} clq_transport;

typedef struct clq_group_config {
    clq_algorithm algorithm;
    clq_transport transport; /* AUTO: the best that each link can do */
    size_t chunk_bytes;      /* of a staging slot; 0: 1 MiB */
    unsigned slots;          /* per link; 0: 2 (double buffering) */
    double deadline_s;       /* of one collective; 0: 30 */
} clq_group_config;

typedef struct clq_group clq_group;
/* config may be NULL. The contexts, devices and queues are retained. Errors: ARGUMENT, DEVICE, DEVICE_MEMORY,
 * UNSUPPORTED (a forced transport that a link cannot do), SYSTEM, MEMORY. */
CLQ_API clq_status clq_group_create(const clq_rank *ranks, unsigned count, const clq_group_config *config,
                                    clq_group **out);
/* Waits for what was issued (abort first where that may never end). Takes NULL. */
CLQ_API void clq_group_destroy(clq_group *group);

/* out[r] = sum over all ranks of in[r], `count` elements each (0 is fine). in == out, or in[r] equal to out[r]: in
 * place; ranges that overlap otherwise are an error. dtype CLQ_F32. waits: one event per rank that must complete first
 * (entries may be NULL), or NULL. done: n events to be released by the caller, or NULL: then the call blocks until all
 * is done. A failed collective completes its events with a negative status; clq_group_wait tells why. Errors: ARGUMENT,
 * UNSUPPORTED, MEMORY, and what ended the group. */
CLQ_API clq_status clq_all_reduce(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                                  clq_dtype dtype, clq_redop op, const cl_event *waits, cl_event *done);
/* data[r] of every rank becomes data[root]: `count` elements. */
CLQ_API clq_status clq_broadcast(clq_group *group, const clq_slice *data, size_t count, clq_dtype dtype, unsigned root,
                                 const cl_event *waits, cl_event *done);
/* Waits for all calls issued so far; the first failure, naming rank, step and device. A group that
 * has failed stays so. */
CLQ_API clq_status clq_group_wait(clq_group *group);
/* Ends every call under way and to come with CLQ_ABORTED. From any thread. */
CLQ_API void clq_group_abort(clq_group *group);
/* One line per link and size range: which algorithm and transport is used, and why. Caller frees with free(). */
CLQ_API clq_status clq_group_explain(const clq_group *group, char **out);

#ifdef __cplusplus
}
#endif
#endif
