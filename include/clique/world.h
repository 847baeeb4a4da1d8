/* clique/world.h: the processes in one run.
 *
 * A run on several machines has one process on each machine, started by an MPI launcher (mpirun, srun). Each process
 * opens the world: it learns its rank, from 0 to size - 1, and can reach the others. A process that no launcher started
 * is a world with size 1, which costs nothing: one program serves both. Launchers are recognised by their environment:
 * Open MPI's mpirun, PMIx and PMI. Under another launcher each process believes that it is alone: check the size. A run
 * may have several processes on one machine, which then choose their devices themselves.
 *
 * All ranks call the collective functions in the same order: clq_world_open, _close, _gather, _barrier, clq_group_span,
 * and all calls of objects that span the world.
 *
 * Failures. Three kinds end the world:
 *
 * - A rank fails and says so: all ranks know within a second.
 * - A rank falls silent (it was killed, stopped, or cut off): the others know silence_s later, plus a second for the
 *   heartbeat.
 * - A rank lives but does not come: its collective fails after a deadline.
 *
 * Then each call on each rank that can be reached fails, with a line that names the rank and its host. There is no way
 * back. A program prints what failed, calls clq_world_close, and ends with a status other than 0; a new run continues
 * from its checkpoint. A failed world leaves MPI without MPI_Finalize, and its messages may still be under way: the
 * program may call no function of MPI any more except MPI_Abort. Before the world is open, MPI itself decides what
 * happens: if a rank does not get there, the others wait in MPI_Init.
 *
 * Ranks trust one another and the network between them: nothing is encrypted.
 *
 * Thread rules: one thread at a time calls the collective functions. Any thread may call clq_world_rank, _size, _name
 * and _abort. */
#ifndef CLIQUE_WORLD_H
#define CLIQUE_WORLD_H

#include <clique/status.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The processes of a run. From clq_world_open to clq_world_close. */
typedef struct clq_world clq_world;

/* All zero is the default. */
typedef struct clq_world_config {
    /* Address of the program's own MPI_Comm, which is read and duplicated; its ranks are the world's. The program has
     * called MPI_Init_thread with MPI_THREAD_MULTIPLE; MPI_THREAD_SERIALIZED is enough if it calls no MPI itself while
     * the world is open. It calls MPI_Finalize after clq_world_close. NULL: all processes that the launcher started.
     * Clique then calls MPI_Init_thread and MPI_Finalize, unless the program has initialized MPI before: so a process
     * opens such a world once. */
    const void *communicator;
    /* The MPI engine: "openmpi", "mpich", or a library's path; borrowed until the call returns. NULL: $CLIQUE_ENGINE;
     * else, with a communicator, the MPI that the program is linked with; else the launcher's MPI. */
    const char *engine;
    /* Seconds without a sign of life after which a rank counts as lost, 2 to 1e6; 0: 5. Time while this process is
     * stopped does not count. A rank that a debugger stops for that long ends the run: choose a larger value then. */
    double silence_s;
    /* Seconds that a collective function waits for ranks that live but do not come, up to 1e6; 0: 600. Time while this
     * process is stopped does not count. */
    double deadline_s;
    double reserved[4]; /* 0 */
} clq_world_config;

/* Opens the world; config NULL: the default. The caller closes *out. Errors: ARGUMENT (silence_s, deadline_s),
 * NOT_FOUND (the engine's library; the MPI of the program's communicator), UNSUPPORTED (another MPI's launcher), FORMAT
 * (the engine is another library, or has another version), SYSTEM (the engine's own errors, threads), MISMATCH (ranks
 * have different Clique versions or byte orders), ABORTED, TIMEOUT, MEMORY. */
CLQ_API clq_status clq_world_open(const clq_world_config *config, clq_world **out);
/* Closes the world, once nothing in the library uses it any more. Takes NULL. Waits for the other ranks, at most
 * deadline_s; to know that all have come this far, call clq_world_barrier first. If the world has failed, it waits only
 * until one second after the failure: a launcher ends all ranks as soon as one has ended, so each prints its error
 * before it closes. An MPI that does not return from MPI_Finalize within 5 s stays in its thread, with a warning. */
CLQ_API void clq_world_close(clq_world *world);

/* In the functions below NULL is a world with one process. */
CLQ_API unsigned clq_world_rank(const clq_world *world);
/* How many ranks there are, without those that are set apart. */
CLQ_API unsigned clq_world_size(const clq_world *world);
/* A rank's name and its host's: "rank 2 on n3"; "rank 0" for a process alone. Belongs to the world, until it is
 * closed. */
CLQ_API const char *clq_world_name(const clq_world *world, unsigned rank);

/* Sets the last `count` ranks apart, to keep the variables for strategy ps. From now on clq_world_size does not count
 * them, and the collective functions involve the other ranks alone. Each such rank calls clq_serve (clique/train.h),
 * and nothing else, until the others end that with clq_serve_end. Collective. A failure on any rank still ends the
 * world for all. Errors: ARGUMENT (no rank would remain), STATE (some are set apart), MISMATCH (another count on
 * another rank), and those of clq_world_gather. */
CLQ_API clq_status clq_world_set_apart(clq_world *world, unsigned count);
CLQ_API unsigned clq_world_apart(const clq_world *world); /* how many ranks are set apart */
CLQ_API bool clq_world_is_apart(const clq_world *world);  /* whether this rank is set apart */

/* Gathers bytes from all ranks: all (size * bytes) gets rank r's `mine` (bytes) at all[r * bytes]. bytes is the same on
 * all ranks, and small, since each rank gets everything: size * bytes is at most 1 GiB. `mine` may lie in its place in
 * `all`, which is the caller's. Errors: ARGUMENT (bytes), STATE (this rank is set apart), TIMEOUT, ABORTED, SYSTEM,
 * MEMORY; all but ARGUMENT and STATE end the world. */
CLQ_API clq_status clq_world_gather(clq_world *world, const void *mine, size_t bytes, void *all);
/* A barrier: no rank returns before every rank has called it. Errors: those of clq_world_gather. */
CLQ_API clq_status clq_world_barrier(clq_world *world);
/* Ends the world, and returns at once; clq_world_close gives the others time to learn about it. Calls then fail with
 * ABORTED: on this rank with the line `why`, on others with "rank 2 on n3: WHY". why NULL or "": "the program ended the
 * run". */
CLQ_API void clq_world_abort(clq_world *world, const char *why);

#ifdef __cplusplus
}
#endif
#endif
