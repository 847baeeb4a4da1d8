/* clique/comm.h: collectives over OpenCL devices from any vendors, on the caller's own contexts, queues and buffers.
 *
 *     clq_rank ranks[2] = {{context_a, device_a, queue_a}, {context_b, device_b, queue_b}};
 *     clq_group *group;
 *     clq_group_create(ranks, 2, NULL, &group);
 *     clq_slice data[2] = {{memory_a, 0}, {memory_b, 0}};
 *     cl_event done[2];
 *     clq_all_reduce(group, data, data, count, CLQ_F32, CLQ_REDOP_SUM, NULL, done);   // in place; returns at once
 *     clEnqueueNDRangeKernel(queue_a, kernel, …, 1, &done[0], NULL);            // goes on with the result
 *     …
 *     clq_group_destroy(group);
 *
 * A group has n ranks; a rank is (context, device, queue). One program drives all of them. A collective takes one slice
 * (cl_mem, byte offset) for each rank, and the group's own threads, one for each rank, do the work. One device may be
 * several ranks, each with its own buffers; ranks may share a context, or each have one.
 *
 * Order
 *
 * - A call starts on a rank when that rank's wait event is complete, and so is what was enqueued on the rank's queue
 *   before the call.
 * - It gives one event for each rank, which completes when that rank's part does. Commands that the caller enqueues
 *   after the call wait for it by these events alone.
 * - A rank carries out a group's calls in the order in which they were issued. A collective waits for all ranks in the
 *   group, a send/recv for its two ranks only.
 * - Groups are independent, also if they were split from one group (clq_group_split): a second group with the same
 *   ranks is a second stream of collectives on the same devices.
 * - The first call with an element type and operation may compile kernels and make links, and returns when that is
 *   done; the deadline does not run meanwhile.
 * - Exception: PoCL's basic devices run commands in the calling thread and cannot wait for an event of the host's. If a
 *   rank is one, a call returns only when it is done, unless it, or an earlier call, waits for a user event that is not
 *   complete. Nothing on the ranks' queues may then wait for such an event.
 *
 * Counts and shapes are NCCL's. all_reduce, broadcast and reduce take `count` elements from each rank and give as many;
 * reduce_scatter takes n * count and gives count; all_gather takes count and gives n * count. Any count is fine, 0 too,
 * and any offset that is a multiple of the element's size. In place means in == out; for reduce_scatter out[r] == in[r]
 * + r * count, for all_gather in[r] == out[r] + r * count. Ranges that overlap otherwise are an error.
 *
 * Element types. All but bool can be reduced; f64 on devices that have it. f16 and bf16 are stored as such and added
 * (multiplied, …) in float; partial results that travel between ranks are rounded to the type. Integers wrap around.
 * Min and max of floats are NaN if any value is NaN (which NaN is undefined; so is +0 or -0). Devices may treat floats
 * below the smallest normal number as zero. Avg is the sum times 1/n, for integers the (wrapped) sum divided by n,
 * toward zero. Collectives that only move elements take every type and any bits.
 *
 * Results have the same bits on every rank and in every run: the group's size, the algorithm and the count determine
 * who adds what in which order; timing does not.
 *
 * Failures. Every function that can fail returns a status, and leaves one line about it in clq_error_detail. Invalid
 * arguments are rejected before anything is enqueued. A later failure (a device's error, a wait event that turns
 * negative, a rank that is not done within the deadline) ends the group: within the deadline + 1 s the events of all
 * calls under way complete with a negative status, later calls fail, and clq_group_wait returns the first failure, with
 * rank, step, chunk and device. Groups that were split from one another, directly or not, end together.
 *
 * Thread rules. One thread at a time calls into a group; clq_group_abort is for any thread. Groups that were split from
 * one another may each have a thread. PoCL 3.1's basic devices deadlock if two threads enqueue on one queue, therefore:
 *
 * - Calls into groups that were split from one another take turns by themselves.
 * - If groups were created separately on one queue, call them from one thread.
 * - While another thread calls into a rank's group, enqueue nothing on that rank's queue. */
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

/* One rank of a group: a device in a context. */
typedef struct clq_rank {
    cl_context context;
    cl_device_id device;
    cl_command_queue queue; /* in-order; NULL: no queue to wait for */
} clq_rank;

/* Elements of a buffer, from an offset on. */
typedef struct clq_slice {
    cl_mem memory; /* in its rank's context; NULL if the rank has no part in it */
    size_t offset; /* bytes, a multiple of the element's size */
} clq_slice;

/* X(name, text). The order of these lists is part of the binary interface: add at the end. */
#define CLQ_REDOP_MAP(X) X(SUM, "sum") X(PROD, "prod") X(MIN, "min") X(MAX, "max") X(AVG, "avg")
/* How elements of the ranks are combined. AVG: their sum divided by the number of ranks. */
typedef enum clq_redop {
#define CLQ_REDOP_ENUM(name, text) CLQ_REDOP_##name,
    CLQ_REDOP_MAP(CLQ_REDOP_ENUM)
#undef CLQ_REDOP_ENUM
        CLQ_REDOP_COUNT
} clq_redop;

/* Who sends what to whom, for a message with S bytes and n ranks. Steps and bytes: in src/comm, next to each algorithm.
 *
 * - ring: every rank sends to the next only, in n parts. 2 (n - 1) steps, with the least bytes on each link.
 * - direct: every rank reads the others' memory through the host's pointers. Ranks meet twice; nothing is transferred.
 * - reduce-to-one: all ranks send to one rank, which sends the result back. 2 steps; that rank's link carries
 *   everything.
 * - doubling: partners at distance 1, 2, 4, … exchange everything. log2 n steps; for small messages.
 * - hierarchical: within each shared context to a leader, a ring across the leaders, and back within the context.
 * - torus: rings along a grid's rows, then along its columns. As many bytes as a ring's, in some 4 sqrt(n) steps; a
 *   ring if n is prime.
 *
 * A collective for which an algorithm has no form uses the ring. */
#define CLQ_ALGORITHM_MAP(X)                                                                                           \
    X(AUTO, "auto")                                                                                                    \
    X(RING, "ring")                                                                                                    \
    X(DIRECT, "direct")                                                                                                \
    X(REDUCE_TO_ONE, "reduce-to-one")                                                                                  \
    X(DOUBLING, "doubling")                                                                                            \
    X(HIERARCHICAL, "hierarchical")                                                                                    \
    X(TORUS, "torus")
/* How a collective is cut into steps: see CLQ_ALGORITHM_MAP. */
typedef enum clq_algorithm {
#define CLQ_ALGORITHM_ENUM(name, text) CLQ_ALGORITHM_##name,
    CLQ_ALGORITHM_MAP(CLQ_ALGORITHM_ENUM)
#undef CLQ_ALGORITHM_ENUM
        CLQ_ALGORITHM_COUNT
} clq_algorithm;

/* How bytes move between two ranks:
 *
 * - STAGED: through pinned slots in the host's memory.
 * - PEER: by copies within a shared context. The driver must lose nothing when two devices write to one buffer at the
 *   same time. That is tested: if the test fails, PEER is an error, and AUTO takes STAGED.
 * - MAPPED: through the host's pointers, if both devices share the host's memory.
 * - AUTO, for each link: MAPPED if both devices share the host's memory; within a shared context STAGED or PEER,
 *   whichever was measured to be faster for chunks with that size; else STAGED.
 *
 * If devices have their own memory, give each rank its own memory object: ranks that write to slices in one object
 * depend on the driver as PEER does. */
#define CLQ_TRANSPORT_MAP(X) X(AUTO, "auto") X(STAGED, "staged") X(PEER, "peer") X(MAPPED, "mapped")
/* How bytes move between two ranks: see CLQ_TRANSPORT_MAP. */
typedef enum clq_transport {
#define CLQ_TRANSPORT_ENUM(name, text) CLQ_TRANSPORT_##name,
    CLQ_TRANSPORT_MAP(CLQ_TRANSPORT_ENUM)
#undef CLQ_TRANSPORT_ENUM
        CLQ_TRANSPORT_COUNT
} clq_transport;

/* "sum", "prod", "min", "max" or "avg"; "unknown" for other values. */
CLQ_API const char *clq_redop_name(clq_redop op);
/* "ring", "direct", …; "unknown" for other values. */
CLQ_API const char *clq_algorithm_name(clq_algorithm algorithm);
/* "staged", "mapped", …; "unknown" for other values. */
CLQ_API const char *clq_transport_name(clq_transport transport);

/* All zero is the default. */
typedef struct clq_group_config {
    clq_algorithm algorithm;
    /* AUTO: the best for each link. */
    clq_transport transport;
    size_t chunk_bytes; /* size of a staging slot; 0: 256 KiB */
    unsigned slots;     /* slots for each link, at most 64; 0: 4 */
    /* Seconds for one collective, from when a rank can start. Time while the process is stopped (Ctrl-Z) does not
     * count. 0: 30; in a trainer 600. */
    double deadline_s;
    /* clq_group_start: the most bytes that travel as one message. 0: 512 KiB; 1: calls are not combined. */
    size_t bucket_bytes;
    double reserved[6]; /* 0 */
} clq_group_config;

/* Ranks that take part in collectives together. From clq_group_create to clq_group_destroy. */
typedef struct clq_group clq_group;
/* Makes a group with 1 to CLQ_REPLICAS_MAX ranks; config NULL: the default. The group retains contexts, devices and
 * queues. Compiles kernels; if several algorithms or transports are possible, measures them, once for these devices,
 * drivers and links. That takes seconds the first time; later, kernels and measurements come from the cache. The caller
 * destroys *out. Errors: ARGUMENT, DEVICE, BUILD, TIMEOUT (a driver took more than 120 s to compile a program),
 * DEVICE_MEMORY, UNSUPPORTED (a forced algorithm or transport that a rank or link cannot do), SYSTEM, MEMORY. */
CLQ_API clq_status clq_group_create(const clq_rank *ranks, unsigned count, const clq_group_config *config,
                                    clq_group **out);
/* The color of a rank that clq_group_split puts in no new group. */
#define CLQ_NO_COLOR (-1)
/* Splits a group as MPI_Comm_split and ncclCommSplit do: the ranks with one color become their own group, with this
 * group's config and devices. colors[r], for each rank r in `group`: a number from 0 to count - 1, or CLQ_NO_COLOR (in
 * no new group). keys[r]: ranks are ordered by their keys; with equal keys, as in `group`; keys NULL: all are equal.
 * out[c]: the group with color c; each color needs at least one rank.
 *
 * Collectives in out[c] involve its ranks only. They run concurrently with those in `group` and in its other parts,
 * also if ranks are shared. Memory that clq_group_alloc made on a rank may be used in all these groups. Destroy each
 * group, in any order. If one fails or is aborted, all end, as with NCCL's splitShare: a lost rank is lost to every
 * group that has it. Error messages and clq_group_explain number ranks as in the group that clq_group_create made. Call
 * it while these groups are idle: it may measure algorithms (see clq_group_create), and results are kept for later
 * runs, too. Errors: ARGUMENT (no colors, a color out of range, a color without ranks), ABORTED (the group has failed),
 * and those of clq_group_create; no group is then made. */
CLQ_API clq_status clq_group_split(clq_group *group, const int *colors, const int *keys, unsigned count,
                                   clq_group **out);
/* Joins the groups in all processes of a world into one group. Its ranks are those on the world's rank 0, then those on
 * rank 1, …. Each process still passes arrays (in, out, waits, done) for its own ranks alone, and clq_group_alloc
 * counts these. Counts, roots, from and to refer to the joined group: n is clq_group_total. For send/recv, `in` is read
 * in the process that has `from`, `out` in the one that has `to`.
 *
 * Use. Every process calls it once, after clq_group_create with the same config and before the group's first call, and
 * destroys the group before it closes the world. From then on all processes make the same calls in the same order.
 * Calls that differ are not detected: results are undefined, or a process comes too late. Sums are first made within
 * each process, in an order that its own algorithm fixes, then between processes: by a ring, or by doubling up to 32
 * KiB.
 *
 * Limits. Reduce-scatter and all-gather need equally many ranks in each process. A group that spans several processes
 * cannot be split, and its calls between clq_group_start and clq_group_end travel one by one. A world with one process
 * changes nothing. A world has messages for some thousand groups with one rank in each process, or for seven with 64
 * ranks.
 *
 * Failures. The group and the world fail together. A collective waits for other processes up to the group's deadline_s;
 * a process's ranks wait for one another 5 % and 1 s longer. After an error the group is unchanged. Errors: MISMATCH
 * (another algorithm in another process), STATE (the group spans a world already), UNSUPPORTED, MEMORY, and those of
 * clq_world_gather. */
CLQ_API clq_status clq_group_span(clq_group *group, clq_world *world);
/* This process's ranks are clq_group_first, clq_group_first + 1, … among clq_group_total ranks. Without a world: 0, and
 * the group's number of ranks. */
CLQ_API unsigned clq_group_first(const clq_group *group);
/* How many ranks the whole group has: those of all processes. */
CLQ_API unsigned clq_group_total(const clq_group *group);
/* Waits for the issued calls and destroys the group; first abort calls that may never end. Takes NULL. */
CLQ_API void clq_group_destroy(clq_group *group);

/* Allocates memory for a rank that collectives reach without mapping it in every call (mapping takes 35 to 40 us on
 * PoCL), if its device has such memory: fine-grained SVM; else a plain buffer. Zeroed, aligned for every type. The
 * group owns it: clq_group_free or clq_group_destroy releases it, once no call uses it. A caller who retains it may
 * keep it longer. Errors: ARGUMENT, DEVICE, DEVICE_MEMORY, MEMORY. */
CLQ_API clq_status clq_group_alloc(clq_group *group, unsigned rank, size_t bytes, cl_mem *out);
/* Releases memory from clq_group_alloc, with the group that made it; other memory is ignored. Takes NULL. */
CLQ_API void clq_group_free(clq_group *group, cl_mem memory);

/* The calls.
 *
 * - in, out: n slices each; `in` is only read. If a rank has no part in one (broadcast: in on all but the root; reduce:
 *   out on all but the root), its slice is not read.
 * - waits: one event for each rank, which must complete first; entries may be NULL, and so may waits. The call retains
 *   them: array and events may be released when it returns.
 * - done: gets n events, which the caller releases; NULL: the call blocks until all is done.
 *
 * The arrays are not read after the call returns; memory objects are retained until the work is done. A failed
 * collective completes its events with a negative status. Errors: ARGUMENT, UNSUPPORTED (the type), BUILD and TIMEOUT
 * (the first collective with a type or operation may compile), MEMORY, and what ended the group. */

/* out[r] = in[0] op in[1] op … op in[n - 1], element by element: `count` of them. */
CLQ_API clq_status clq_all_reduce(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                                  clq_dtype dtype, clq_redop op, const cl_event *waits, cl_event *done);
/* out[r] (count elements) = part r of the reduction over all in (n * count elements). */
CLQ_API clq_status clq_reduce_scatter(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                                      clq_dtype dtype, clq_redop op, const cl_event *waits, cl_event *done);
/* out[r] (n * count elements) = in[0], in[1], … (count each), one after the other. */
CLQ_API clq_status clq_all_gather(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                                  clq_dtype dtype, const cl_event *waits, cl_event *done);
/* out[r] = in[root], for every r. */
CLQ_API clq_status clq_broadcast(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                                 clq_dtype dtype, unsigned root, const cl_event *waits, cl_event *done);
/* out[root] = in[0] op in[1] op … op in[n - 1]. */
CLQ_API clq_status clq_reduce(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                              clq_dtype dtype, clq_redop op, unsigned root, const cl_event *waits, cl_event *done);
/* Rank `from` sends and rank `to` receives: *out (on `to`) = *in (on `from`). from == to is a copy. Only these two
 * ranks wait for each other. Sends between different pairs run concurrently. waits and done are as above: n entries,
 * one for each rank. The event for a rank without a part completes once its earlier calls, its wait event and its queue
 * are complete. */
CLQ_API clq_status clq_send_recv(clq_group *group, unsigned from, const clq_slice *in, unsigned to,
                                 const clq_slice *out, size_t count, clq_dtype dtype, const cl_event *waits,
                                 cl_event *done);
/* A barrier: no rank's event completes before every rank has come. */
CLQ_API clq_status clq_group_barrier(clq_group *group, const cl_event *waits, cl_event *done);

/* Grouping. Between start and end, calls are checked and noted; end issues them, in order, as one. Consecutive
 * all-reduces with one type and operation travel as one message, up to the config's bucket_bytes, unless one needs
 * another's result. A call that asks for no events blocks in end instead. Commands on the ranks' queues from before end
 * come first. Before end, do not wait for a noted call's events, nor let commands wait. Combined floats may be added in
 * another order than alone; the calls between start and end determine it. Errors: STATE (started twice, or not at all),
 * those of the calls. If end fails, calls that were not issued complete their events with a negative status. */
CLQ_API clq_status clq_group_start(clq_group *group);
/* Issues what was noted since clq_group_start. Errors: see there. */
CLQ_API clq_status clq_group_end(clq_group *group);

/* Waits for all calls issued so far. A failed group stays failed. Errors: what ended the group (DEVICE, TIMEOUT,
 * ABORTED, …): the first failure, naming rank, step and device. */
CLQ_API clq_status clq_group_wait(clq_group *group);
/* Ends all present and future calls with CLQ_ERROR_ABORTED, here and in groups that end with this one. From any thread.
 */
CLQ_API void clq_group_abort(clq_group *group);
/* One line for each link and size range: which algorithm and transport is used, and why. The caller frees *out with
 * free(). Errors: MEMORY. */
CLQ_API clq_status clq_group_explain(const clq_group *group, char **out);

#ifdef __cplusplus
}
#endif
#endif
