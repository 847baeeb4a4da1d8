/* clique/comm.h: collectives over OpenCL devices of any vendors, on the caller's own contexts, queues and buffers.
 *
 *     clq_rank ranks[2] = {{context_a, device_a, queue_a}, {context_b, device_b, queue_b}};
 *     clq_group *group;
 *     clq_group_create(ranks, 2, NULL, &group);
 *     clq_slice data[2] = {{memory_a, 0}, {memory_b, 0}};
 *     cl_event done[2];
 *     clq_all_reduce(group, data, data, count, CLQ_F32, CLQ_SUM, NULL, done);   // in place; returns at once
 *     clEnqueueNDRangeKernel(queue_a, kernel, …, 1, &done[0], NULL);            // goes on with the result
 *     …
 *     clq_group_destroy(group);
 *
 * A group has n ranks; a rank is (context, device, queue). One program drives all of them: a collective takes one slice
 * (cl_mem, byte offset) per rank, and the group's own threads, one per rank, do the work. The same device may be
 * several ranks, each with buffers of its own; contexts may be one per rank or shared.
 *
 * Order. A call starts on a rank when that rank's wait event is complete and so is what was enqueued on the rank's
 * queue before the call. It gives one event per rank, complete when that rank's part is; what the caller enqueues after
 * the call is not ordered behind it but by these events. A rank carries out the calls of a group in the order they were
 * issued. A collective waits for all ranks of the group, a send/recv for its two ranks only. Several groups are
 * independent of one another, and so are those that were split from one (clq_group_split): a second group of the same
 * ranks is a second stream of collectives on the same devices. Where a rank is one of PoCL's basic devices, which run
 * commands in their caller's thread and cannot wait for an event of the host's, a call returns only when it is done
 * (unless it, or one before it, waits for a user event that is not complete; let nothing on the ranks' queues wait for
 * one). The first call of an element type and operation may have kernels to compile and links to make, and returns when
 * that is done: the deadline does not run meanwhile.
 *
 * Counts and shapes are NCCL's: `count` elements is what all_reduce, broadcast and reduce take from and give to each
 * rank; reduce_scatter takes n * count and gives count to each; all_gather takes count and gives n * count. 0 is fine,
 * and so is any count and any offset that is a multiple of the element's size. In place is in == out, for
 * reduce_scatter out[r] == in[r] + r * count, for all_gather in[r] == out[r] + r * count; ranges that overlap otherwise
 * are an error.
 *
 * Element types: all but bool can be reduced; f64 on devices that have it. f16 and bf16 are stored as such, and added
 * (multiplied, …) in float: where partial results travel from rank to rank, they are rounded to the type on the way.
 * Integers wrap around. Min and max of floats: NaN if any value is NaN (which NaN is not defined, nor which zero of +0
 * and -0). Devices may take floats below the smallest normal number for zero. Avg is the sum times 1/n, for integers
 * the (wrapped) sum divided by n, toward zero. Collectives that only move elements take every type and any bits.
 *
 * Results are bitwise the same on every rank and from run to run: who adds what, in which order, is fixed by the
 * group's size, the algorithm and the count, never by timing.
 *
 * Failures. Every function that can fail returns a status, and leaves one line about it in clq_error_detail. Invalid
 * arguments are rejected before anything is enqueued. What fails later (a device's error, a wait event that
 * turns negative, a rank that is not done within the deadline) ends the group: within the deadline + 1 s the events of
 * all calls under way complete with a negative status, later calls fail, and clq_group_wait returns the first failure,
 * with rank, step, chunk and device. Groups that were split from one another, directly or not, end together.
 *
 * Thread rules: one thread at a time calls into a group, but clq_group_abort, which any thread may call. Groups that
 * were split from one another may have a thread each. (PoCL 3.1's basic devices deadlock where two threads enqueue on
 * one queue. Calls of groups that were split from one another take turns. Groups that were created separately on one
 * queue do not: call them from one thread. A caller who enqueues on a rank's queue does it while no other thread calls
 * into a group of that rank.) */
#ifndef CLIQUE_COMM_H
#define CLIQUE_COMM_H

#include <clique/device.h>
#include <clique/world.h>

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
    cl_command_queue queue; /* in-order; NULL: none to wait for */
} clq_rank;

typedef struct clq_slice {
    cl_mem memory; /* in its rank's context; NULL where a rank has no part in it */
    size_t offset; /* bytes, a multiple of the element's size */
} clq_slice;

/* X(name, text). The order of these lists is part of the binary interface: add at the end. */
#define CLQ_REDOP_MAP(X) X(SUM, "sum") X(PROD, "prod") X(MIN, "min") X(MAX, "max") X(AVG, "avg")
typedef enum clq_redop {
#define CLQ_REDOP_ENUM(name, text) CLQ_##name,
    CLQ_REDOP_MAP(CLQ_REDOP_ENUM)
#undef CLQ_REDOP_ENUM
        CLQ_REDOP_COUNT
} clq_redop;

/* Who sends what to whom, for a message of S bytes and n ranks (steps and bytes: src/comm, beside each):
 *
 * - ring: every rank sends to the next only, in n parts. The least bytes per link, 2 (n - 1) steps.
 * - direct: every rank reads the others' memory through the host's pointers. Two meetings, no transfers.
 * - reduce-to-one: all ranks send to one rank, which sends the result back. 2 steps deep; its link carries everything.
 * - doubling: partners at distance 1, 2, 4, … exchange everything. log2 n steps, for small messages.
 * - hierarchical: inside islands (devices of one context) to a leader, a ring across the leaders, back inside.
 * - torus: rings along the rows of a grid, then along its columns. As many bytes as a ring's, in some 4 sqrt(n) steps; of
 *   a prime number of ranks it is a ring.
 *
 * A collective for which an algorithm has no form of its own uses the ring. */
#define CLQ_ALGORITHM_MAP(X)                                                                                           \
    X(AUTO, "auto")                                                                                                    \
    X(RING, "ring")                                                                                                    \
    X(DIRECT, "direct")                                                                                                \
    X(REDUCE_TO_ONE, "reduce-to-one")                                                                                  \
    X(DOUBLING, "doubling")                                                                                            \
    X(HIERARCHICAL, "hierarchical")                                                                                    \
    X(TORUS, "torus")
typedef enum clq_algorithm {
#define CLQ_ALGORITHM_ENUM(name, text) CLQ_ALGORITHM_##name,
    CLQ_ALGORITHM_MAP(CLQ_ALGORITHM_ENUM)
#undef CLQ_ALGORITHM_ENUM
        CLQ_ALGORITHM_COUNT
} clq_algorithm;

/* How bytes move between two ranks: through pinned host slots; by copies inside a shared context; by the host's own
 * pointers, where both devices share host memory. AUTO takes for each link what it can do best: mapped where both
 * devices share the host's memory; else staged, or inside a shared context staged or peer by what was measured for
 * chunks of that size. PEER needs a driver that loses nothing when two devices write to one buffer at the same time.
 * That is tested: if the test fails, PEER is an error, and AUTO takes staged. Where devices have memory of their own,
 * give each rank a memory object of its own: ranks that write to slices of one object depend on the driver in the same
 * way. */
#define CLQ_TRANSPORT_MAP(X) X(AUTO, "auto") X(STAGED, "staged") X(PEER, "peer") X(MAPPED, "mapped")
typedef enum clq_transport {
#define CLQ_TRANSPORT_ENUM(name, text) CLQ_TRANSPORT_##name,
    CLQ_TRANSPORT_MAP(CLQ_TRANSPORT_ENUM)
#undef CLQ_TRANSPORT_ENUM
        CLQ_TRANSPORT_COUNT
} clq_transport;

/* "sum", "ring", "staged", …; "unknown" for what is none. */
CLQ_API const char *clq_redop_name(clq_redop op);
CLQ_API const char *clq_algorithm_name(clq_algorithm algorithm);
CLQ_API const char *clq_transport_name(clq_transport transport);

/* All zero is the default. */
typedef struct clq_group_config {
    clq_algorithm algorithm;
    clq_transport transport; /* AUTO: the best that each link can do */
    size_t chunk_bytes;      /* of a staging slot; 0: 256 KiB */
    unsigned slots;          /* per link; 0: 4 */
    double deadline_s;       /* of one collective, from when a rank can start; time for which the process is stopped
                                (Ctrl-Z) does not count. 0: 30; of a trainer: 600 */
    size_t bucket_bytes;     /* clq_group_start: what travels as one message at most; 0: 512 KiB; 1: nothing does */
    double reserved[6]; /* 0 */
} clq_group_config;

typedef struct clq_group clq_group;
/* 1 to CLQ_REPLICAS_MAX ranks; config may be NULL. The contexts, devices and queues are retained. Compiles kernels, and
 * where several algorithms or transports are possible measures them, once for the devices, their drivers and links:
 * that takes seconds the first time; later, kernels and measurements come from the cache. Errors: ARGUMENT,
 * DEVICE, BUILD, TIMEOUT (a driver took more than 120 s to compile a program), DEVICE_MEMORY, UNSUPPORTED (a forced
 * algorithm or transport that a rank or link cannot do), SYSTEM, MEMORY. */
CLQ_API clq_status clq_group_create(const clq_rank *ranks, unsigned count, const clq_group_config *config,
                                    clq_group **out);
/* Splits a group as MPI_Comm_split and ncclCommSplit do: the ranks of one color become a group of their own, with the
 * group's config and devices. colors[r] is a number from 0 to count - 1 or CLQ_NO_COLOR (in none of them), for each
 * rank r of `group`; out[c] is the group of color c, of which at least one rank must be. Its ranks stand in the order
 * of their keys, equal keys in the order of the ranks in `group`; keys NULL: all are equal.
 *
 * Collectives of out[c] involve its ranks only. They run concurrently with those of `group` and of its other parts,
 * also where these have ranks in common. Memory that clq_group_alloc made on a rank may be used in all of them. Each
 * group is destroyed by itself, in any order. One that fails or is aborted ends all of them, as with NCCL's splitShare:
 * a rank that is lost is lost to every group that it is in. Error messages and clq_group_explain name ranks by their
 * rank in the group that clq_group_create made. Call it while these groups are idle: it may measure algorithms (see
 * clq_group_create), and the times are kept for later runs, too. Errors: ARGUMENT (no colors, a color out of range, a
 * color of no rank), ABORTED (the group has failed), and those of clq_group_create; then no group was made. */
#define CLQ_NO_COLOR (-1)
CLQ_API clq_status clq_group_split(clq_group *group, const int *colors, const int *keys, unsigned count,
                                   clq_group **out);
/* Joins the groups of all processes of a world into one group. Its ranks are those of rank 0 of the world, then those
 * of rank 1, …. Each process goes on passing arrays (in, out, waits, done) for its own ranks alone, and clq_group_alloc
 * counts these. Counts, roots, from and to are of the whole group: n is clq_group_total. Of send/recv, `in` is looked
 * at in the process of `from`, `out` in that of `to`.
 *
 * Every process calls it once, after clq_group_create with the same config and before the group's first call, and
 * destroys the group before it closes the world. From then on all processes make the same calls in the same order.
 * Calls that differ are not found: results are undefined, or a process is late. Sums are made of the ranks of each
 * process first, in an order that its own algorithm fixes, then between processes: by a ring, or of at most 32 KiB by
 * doubling.
 *
 * The group and the world fail together. A collective waits for other processes up to the group's deadline_s; the ranks
 * of a process wait for one another 5 % and 1 s longer. Reduce-scatter and all-gather need equally many ranks in each
 * process. A group of several processes cannot be split, and
 * its calls between clq_group_start and clq_group_end travel one by one. A world of one process changes nothing. After
 * an error the group is as it was. A world has messages for some thousand groups of one rank in each process, of 64
 * ranks for seven. Errors: MISMATCH (another algorithm in another process), STATE (the group spans a world already),
 * UNSUPPORTED, MEMORY, and those of clq_world_gather. */
CLQ_API clq_status clq_group_span(clq_group *group, clq_world *world);
/* This process's ranks are numbers clq_group_first, … of the clq_group_total ranks of the whole group. Without a world:
 * 0, and the group's own number. */
CLQ_API unsigned clq_group_first(const clq_group *group);
CLQ_API unsigned clq_group_total(const clq_group *group);
/* Waits for what was issued (abort first where that may never end). Takes NULL. */
CLQ_API void clq_group_destroy(clq_group *group);

/* Memory of a rank that collectives reach without mapping it in every call (35 to 40 us on PoCL), where its device has
 * such memory: fine-grained SVM; else a plain buffer. Zeroed, aligned for every type. It belongs to the group: given
 * back by clq_group_free or clq_group_destroy, as soon as no call uses it any more. A caller who retains it may keep it
 * longer. Errors: ARGUMENT, DEVICE, DEVICE_MEMORY, MEMORY. */
CLQ_API clq_status clq_group_alloc(clq_group *group, unsigned rank, size_t bytes, cl_mem *out);
/* With the group that made it; any other memory is ignored. Takes NULL. */
CLQ_API void clq_group_free(clq_group *group, cl_mem memory);

/* The calls. in, out: n slices each; `in` is only read, and where a rank has no part in one (broadcast: in of all but
 * the root; reduce: out of all but the root) its slice is not looked at. waits: one event per rank that must complete
 * first (entries may be NULL), or NULL. The caller keeps its waits: the call retains them, and array and events may be
 * released when it returns. The arrays in, out and waits are not read afterwards; memory objects are retained until the
 * call is done. done: n events to be released by the caller, or NULL: then the call blocks until all is done. A failed
 * collective completes its events with a negative status. Errors: ARGUMENT, UNSUPPORTED (the type), BUILD and TIMEOUT
 * (the first collective of a type or operation may compile), MEMORY, and what ended the group. */

/* out[r] = in[0] op in[1] op … op in[n - 1], element by element: `count` of them. */
CLQ_API clq_status clq_all_reduce(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                                  clq_dtype dtype, clq_redop op, const cl_event *waits, cl_event *done);
/* out[r] (count elements) = part r of the reduction of all in (n * count elements). */
CLQ_API clq_status clq_reduce_scatter(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                                      clq_dtype dtype, clq_redop op, const cl_event *waits, cl_event *done);
/* out[r] (n * count elements) = in[0], in[1], … (count each), one behind the other. */
CLQ_API clq_status clq_all_gather(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                                  clq_dtype dtype, const cl_event *waits, cl_event *done);
/* out[r] = in[root], for every r. */
CLQ_API clq_status clq_broadcast(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                                 clq_dtype dtype, unsigned root, const cl_event *waits, cl_event *done);
/* out[root] = in[0] op in[1] op … op in[n - 1]. */
CLQ_API clq_status clq_reduce(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                              clq_dtype dtype, clq_redop op, unsigned root, const cl_event *waits, cl_event *done);
/* What rank `from` sends and rank `to` receives: *out (of `to`) = *in (of `from`). from == to is a copy. Only these
 * two ranks wait for each other. Sends between different pairs run concurrently. waits and
 * done are as above: n entries, one per rank; the event of a rank without a part is complete once its earlier calls,
 * its wait event and its queue are. */
CLQ_API clq_status clq_send_recv(clq_group *group, unsigned from, const clq_slice *in, unsigned to,
                                 const clq_slice *out, size_t count, clq_dtype dtype, const cl_event *waits,
                                 cl_event *done);
/* No rank's event completes before every rank has come. */
CLQ_API clq_status clq_group_barrier(clq_group *group, const cl_event *waits, cl_event *done);

/* Grouping. Between start and end, calls are checked and noted, and end issues them, in order, as one: all-reduces of
 * one type and operation that follow one another travel as one message, up to the config's bucket_bytes, unless one
 * needs what another gives. A call that asks for no events blocks in end, not where it is made. What was enqueued on
 * the ranks' queues before end comes first. Do not wait, nor let commands wait, for the events of noted calls before
 * end. Packed floats may be added in another order than alone; which, is fixed by the calls between start and end.
 * Errors: STATE (started twice, or not at all), those of the calls. Where end fails, calls that were not issued
 * complete their events with a negative status. */
CLQ_API clq_status clq_group_start(clq_group *group);
CLQ_API clq_status clq_group_end(clq_group *group);

/* Waits for all calls issued so far. A group that has failed stays so. Errors: what ended the group (DEVICE, TIMEOUT,
 * ABORTED, …): the first failure, naming rank, step and device. */
CLQ_API clq_status clq_group_wait(clq_group *group);
/* Ends every call under way and to come with CLQ_ABORTED, here and in the groups that end with this one. From any
 * thread. */
CLQ_API void clq_group_abort(clq_group *group);
/* One line per link and size range: which algorithm and transport is used, and why. Caller frees with free(). Errors:
 * MEMORY. */
CLQ_API clq_status clq_group_explain(const clq_group *group, char **out);

#ifdef __cplusplus
}
#endif
#endif
