/* comm: groups of ranks, and their links, transports and algorithms. <clique/comm.h> documents the public calls. This
 * header is for the training engine: it offers the same algorithms, which each rank's own thread calls.
 *
 * A communicator (as NCCL's) has n ranks. Each rank's thread calls the same collectives in the same order, each with
 * its own buffer, as MPI ranks do. If ranks call different collectives, their caller has a defect, and the calls fail
 * with INTERNAL. The public calls run on threads that use a communicator in this way.
 *
 * Only the sender and the receiver need to call a send/recv. Sends between different pairs run concurrently.
 *
 * A communicator can be split: some of its ranks then form a new communicator, whose collectives do not wait for the
 * other ranks. A rank can be in several communicators (in one and in another split from it, in two that overlap, or in
 * two with the same ranks). Their collectives run concurrently if each communicator has its own thread and its own
 * queue for that rank. So a second communicator with the same ranks is a second stream of collectives. */
#ifndef CLQ_COMM_INTERNAL_H
#define CLQ_COMM_INTERNAL_H

#include "comm/outer/outer.h"
#include "comm/schedule/schedule.h"
#include "device/device.h"
#include "world/world.h"
#include <clique/comm.h>

/* clq_group_create with the caller's build limit: the group's devices are lost together with all others that share
 * limit->stuck. limit NULL: the group has a limit of its own. */
clq_status clq_group_create_within(const clq_rank *ranks, unsigned count, const clq_group_config *config,
                                   const clq_build_limit *limit, clq_group **out);

typedef struct clq_comm clq_comm;
/* One rank per device. The caller keeps the devices open; one device may be several ranks. config: as for
 * clq_group_create; may be NULL. */
clq_status clq_comm_create(clq_device *const *devices, unsigned count, const clq_group_config *config, clq_comm **out);
/* Makes a communicator of `count` ranks of `comm`, with its devices and config: ranks[i] becomes rank i.
 * (MPI_Group_incl and MPI_Comm_create do the same. In ncclCommSplit, the color selects the ranks of this list, and the
 * key their order.) One thread makes the call for all ranks; any thread may. If algorithms are measured (see
 * clq_group_create), no rank should be in a collective meanwhile. The two communicators may be destroyed in any order.
 *
 * The new communicator fails together with all that were split from the same one, as NCCL's communicators do with
 * splitShare. To have communicators fail separately, create them instead of splitting one. Error messages name ranks by
 * their rank in the first communicator. Errors: INTERNAL (no ranks, too many, out of range, or one twice), UNSUPPORTED
 * (`comm` spans several processes), ABORTED, and those of clq_comm_create. */
clq_status clq_comm_split(clq_comm *comm, const unsigned *ranks, unsigned count, clq_comm **out);
void clq_comm_destroy(clq_comm *comm); /* takes NULL; no rank may be in a collective */
/* Joins the communicators in all processes of a world into one. Its ranks are those of the world's rank 0, then those
 * of rank 1, …. A process's ranks still call clq_comm_run with their numbers within the process, but a task's `root`
 * and `to` count among all ranks. Reduce-scatter and all-gather need equally many ranks in each process.
 *
 * Each process first sums over its own ranks, in an order that its own algorithm fixes. The processes then sum by the
 * algorithm of clq_schedule_between: unless the config names one, a ring, but doubling for few bytes, or a torus for 64
 * or more processes.
 *
 * The communicator and the world fail together. Every process makes this call before its ranks' first collective, and
 * destroys the communicator before it closes the world. Errors: MISMATCH (processes with different algorithms), STATE
 * (the communicator spans a world already), UNSUPPORTED, MEMORY, and those of clq_world_gather. */
clq_status clq_comm_span(clq_comm *comm, clq_world *world);
unsigned clq_comm_first(const clq_comm *comm); /* this process's first rank, counted among all ranks */
unsigned clq_comm_total(const clq_comm *comm); /* number of ranks in all processes */

/* One rank's part of a collective. count, in and out are as in the public calls. A buffer that the rank's part does not
 * need is not looked at. */
typedef struct clq_task {
    clq_collective collective;
    clq_queue *queue; /* in-order, on the rank's device; the call first flushes it and waits for its commands */
    clq_buffer *in, *out;
    size_t in_offset, out_offset; /* bytes */
    size_t count;
    clq_dtype dtype;
    clq_redop op;
    bool halves;   /* sums of F32 travel between processes as F16, and are rounded to it */
    unsigned root; /* of a broadcast or reduce; of a send/recv: the sender */
    unsigned to;   /* of a send/recv: the receiver */
    /* Barrier only: work that the rank does between two meetings. It starts when all ranks have arrived and the
     * commands that they had enqueued are done. No rank returns before every rank's work is done, including the
     * commands that this work enqueued. NULL: no work. */
    clq_status (*between)(void *context);
    void *context;
} clq_task;

/* Carries out a rank's part; the rank's own thread calls it, and it returns when the part is done. All ranks pass the
 * same collective, count, dtype, op, root and to. Only ranks `root` and `to` need to call a send/recv; any other rank
 * that calls returns at once. Both must name one direction: two ranks that send to each other at the same time are a
 * mismatch. If a rank fails, every other rank returns ABORTED with the first failure's detail, at most 1 s after the
 * deadline. */
clq_status clq_comm_run(clq_comm *comm, unsigned rank, const clq_task *call);
/* Carries out all ranks' parts (tasks[rank]) in the calling thread. No rank may be in a collective meanwhile. Meant for
 * calls that take less time than waking another thread. Only for direct collectives on buffers that the host can reach
 * (clq_comm_reaches). */
clq_status clq_comm_run_alone(clq_comm *comm, const clq_task *tasks);
/* Whether clq_comm_run_alone can carry out this part of the rank. */
bool clq_comm_reaches(const clq_comm *comm, unsigned rank, const clq_task *task);
/* Shorthands for clq_comm_run: an all-reduce that sums, and a broadcast of bytes from the root's `data` to the other
 * ranks' `data`. */
clq_status clq_comm_all_reduce(clq_comm *comm, unsigned rank, clq_queue *queue, clq_buffer *in, size_t in_offset,
                               clq_buffer *out, size_t out_offset, size_t count, clq_dtype dtype);
clq_status clq_comm_broadcast(clq_comm *comm, unsigned rank, clq_queue *queue, clq_buffer *data, size_t offset,
                              size_t bytes, unsigned root);
/* Fails this communicator and all that fail with it: no rank in any of them waits any longer. `why` becomes the first
 * failure if there was none; NULL: aborted by its owner. Any thread may call this. */
void clq_comm_abort(clq_comm *comm, const clq_error *why);
/* The first failure of this communicator or of one that fails with it; CLQ_OK: there is none. out may be NULL. */
clq_status clq_comm_failure(const clq_comm *comm, clq_error *out);
/* Whether the threads of this process alone carry out all collectives, on mapped memory (the direct algorithm). */
bool clq_comm_is_direct(const clq_comm *comm);
/* Sets for how long a rank that waits for the others spins before it sleeps: 50 us unless set, and always in send/recv.
 * Call it while no rank is in a collective. */
void clq_comm_set_patience(clq_comm *comm, double seconds);
/* Nanoseconds that rank 0 spent in successful collectives of all ranks. Each one counts from the arrival of this
 * process's last rank. Any thread may call this. */
uint64_t clq_comm_busy_ns(const clq_comm *comm);
/* Nanoseconds that a rank has waited in these collectives for the last rank to arrive. Any thread may call this. */
uint64_t clq_comm_waited_ns(const clq_comm *comm, unsigned rank);
/* For tables: the algorithm that a group uses for a call ("ring"), and the transport that most of the links for it use
 * in this process ("mapped"). If the group spans several processes, the algorithm is the one between processes. For
 * send/recv, ask after the first such call. */
clq_algorithm clq_group_algorithm(const clq_group *group, clq_collective collective, size_t bytes);
clq_transport clq_group_transport(const clq_group *group, clq_collective collective);
/* The algorithm for each size, each link's transport, and why; for plans, logs and clq_group_explain. The caller frees
 * it with clq_free. NULL: out of memory. */
char *clq_comm_explain(clq_comm *comm);

#endif
