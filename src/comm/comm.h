/* comm: groups of ranks, links, transports, algorithms. See <clique/comm.h> for what callers see; below is what
 * the training engine uses: the same algorithms, called by each rank's own thread.
 *
 * A communicator (as NCCL's) is n ranks that meet: each rank's thread calls the same collectives in the same order,
 * each with its own buffer, as ranks of MPI do. Ranks that call different collectives are a defect of the caller:
 * INTERNAL. The public calls run on threads that do just this.
 *
 * Only the sender and the receiver call a send/recv. Sends between different pairs run concurrently.
 *
 * A communicator may be split: some of its ranks become a communicator of their own, in which they meet without the
 * others. Several communicators of one rank (one split from another, two that overlap, or all ranks twice) work at the
 * same time, if each of them has a thread of its own for that rank, with a queue of its own: a second communicator of
 * the same ranks is a second stream of collectives. */
#ifndef CLQ_COMM_INTERNAL_H
#define CLQ_COMM_INTERNAL_H

#include "comm/outer/outer.h"
#include "comm/schedule/schedule.h"
#include "device/device.h"
#include "world/world.h"
#include <clique/comm.h>

/* clq_group_create, with the build deadline of the caller's own devices, and lost with them. */
clq_status clq_group_create_within(const clq_rank *ranks, unsigned count, const clq_group_config *config,
                                   const clq_build_limit *limit, clq_group **out);

typedef struct clq_comm clq_comm;
/* Devices are not owned; entries may repeat. config as for groups, may be NULL. */
clq_status clq_comm_create(clq_device *const *devices, unsigned count, const clq_group_config *config, clq_comm **out);
/* A communicator of `count` of a communicator's ranks, with its devices and config: ranks[i] is rank i of the new one
 * (MPI_Group_incl and MPI_Comm_create; of ncclCommSplit the list is the color, its order the key). By any one thread.
 * Where algorithms are measured (clq_group_create), no rank should be in a collective meanwhile. The two live as long
 * as they are wanted, in any order. They fail together, with all that were split from the same communicator, as NCCL's
 * communicators do with splitShare: communicators that are to fail alone are created, not split. Error messages name
 * ranks by their rank in the first communicator. Errors: INTERNAL (none, too many, out of range, twice), ABORTED, and
 * those of creating. */
clq_status clq_comm_split(clq_comm *comm, const unsigned *ranks, unsigned count, clq_comm **out);
void clq_comm_destroy(clq_comm *comm); /* takes NULL; no rank may be inside */
/* Makes one communicator of those that all processes of a world have: its ranks are those of rank 0 of the world, then
 * those of rank 1, …. Each process's ranks go on calling clq_comm_run, with their numbers in the process; root and to
 * of a task are ranks among all. Reduce-scatter and all-gather need equally many ranks in each process. Sums are made
 * in each process first, in an order that its own algorithm fixes, then between processes by a ring, of few bytes by
 * doubling, of 64 processes and more by a torus. The communicator and the world fail together. Every process calls it, before any rank's collective, and
 * closes the world later than it destroys the communicator. Errors: MISMATCH (processes with other algorithms),
 * UNSUPPORTED, MEMORY, and those of clq_world_gather. */
clq_status clq_comm_span(clq_comm *comm, clq_world *world);
unsigned clq_comm_first(const clq_comm *comm); /* the number of this process's first rank among all */
unsigned clq_comm_total(const clq_comm *comm); /* ranks of all processes */

/* One rank's part of a collective. count, in and out are as the public calls define them; a buffer that the rank's part
 * does not need is not looked at. */
typedef struct clq_task {
    clq_collective collective;
    clq_queue *queue; /* in-order, of the rank's device; what was enqueued on it before is flushed and waited for */
    clq_buffer *in, *out;
    size_t in_offset, out_offset; /* bytes */
    size_t count;
    clq_dtype dtype;
    clq_redop op;
    bool halves;   /* sums of F32: between processes they travel, and are rounded, as F16 */
    unsigned root; /* send/recv: who sends */
    unsigned to;   /* send/recv: who receives */
    /* Barrier only: work of the rank between two meetings. It starts when all ranks have arrived and what they enqueued
     * is done; no rank returns before every rank's work is done, commands that it enqueued included. NULL: none */
    clq_status (*between)(void *context);
    void *context;
} clq_task;

/* Called by the rank's own thread; returns when the rank's part is done. All ranks call with the same collective,
 * count, dtype, op, root and to; a send/recv root and to alone (any other that calls returns at once), and they name
 * one direction: two that send to each other at the same time are a mismatch. Returns ABORTED with the first failing
 * rank's detail in every other rank, within the deadline + 1 s. */
clq_status clq_comm_run(clq_comm *comm, unsigned rank, const clq_task *call);
/* Executes all ranks' parts (tasks[rank]) in the calling thread, while no rank is in a collective: for calls that are
 * shorter than waking another thread. Only for direct calls on buffers that the host can reach (clq_comm_reaches). */
clq_status clq_comm_run_alone(clq_comm *comm, const clq_task *tasks);
/* Whether a rank's part can be executed by clq_comm_run_alone. */
bool clq_comm_reaches(const clq_comm *comm, unsigned rank, const clq_task *task);
/* Shorthands: the sum; bytes of the root's `data` to the other ranks'. */
clq_status clq_comm_all_reduce(clq_comm *comm, unsigned rank, clq_queue *queue, clq_buffer *in, size_t in_offset,
                               clq_buffer *out, size_t out_offset, size_t count, clq_dtype dtype);
clq_status clq_comm_broadcast(clq_comm *comm, unsigned rank, clq_queue *queue, clq_buffer *data, size_t offset,
                              size_t bytes, unsigned root);
/* Ends the wait of every rank, here and in all communicators that fail with this one; `why` (may be NULL) becomes the
 * first failure if there was none. From any thread. */
void clq_comm_abort(clq_comm *comm, const clq_error *why);
/* The first failure, in this communicator or in one that fails with it, or CLQ_OK. */
clq_status clq_comm_failure(const clq_comm *comm, clq_error *out);
/* Whether this process's threads execute all collectives, on mapped memory. */
bool clq_comm_is_direct(const clq_comm *comm);
/* Spin time of a rank that waits for the others, before it sleeps: 50 us unless set, and always in send/recv. Call
 * while no rank is in a collective. */
void clq_comm_set_patience(clq_comm *comm, double seconds);
/* Nanoseconds that rank 0 spent in collectives of all ranks that succeeded, each from the arrival of the last rank of
 * this process. From any thread. */
uint64_t clq_comm_busy_ns(const clq_comm *comm);
/* Nanoseconds that a rank has waited in them for the last rank to arrive. From any thread. */
uint64_t clq_comm_waited_ns(const clq_comm *comm, unsigned rank);
/* For tables: the algorithm that a call of a group uses ("ring"), of a group of several processes between these; and
 * the transport that most of its links use ("mapped"), in this process. Of send/recv: once it was called. */
clq_algorithm clq_group_algorithm(const clq_group *group, clq_collective collective, size_t bytes);
clq_transport clq_group_transport(const clq_group *group, clq_collective collective);
/* "ring over staged slots of 1 MiB", for plans, logs and clq_group_explain. Caller frees with clq_free. */
char *clq_comm_explain(clq_comm *comm);

#endif
