/* clique/world.h: the processes of one run.
 *
 * A run on several machines is one process on each machine, started by a launcher of MPI (mpirun, srun). Each process
 * opens the world: it learns its rank, from 0 to size - 1, and can reach the others. A process that no launcher started
 * is a world of size 1, which costs nothing: so one program serves both. (Open MPI's mpirun, PMIx and PMI are known by
 * their environment. Under another launcher each process believes that it is alone: check the size.) A run may have
 * several processes on one machine, which then choose their devices themselves.
 *
 * All ranks call the collective functions in the same order: clq_world_open, _close, _gather, _barrier, clq_group_span,
 * and all calls of what spans the world.
 *
 * Failures. If a rank fails and says so, all ranks know within a second. If a rank falls silent (it was killed,
 * stopped, or cut off), they know silence_s later, and a second more for the heartbeat. If a rank lives but does not
 * come, its collective fails after a deadline. Then the world has ended: each call on each rank that can be reached
 * fails, with a line that names the rank and its host. There is no way back. A program prints what failed, calls
 * clq_world_close, and ends with a status other than 0; it goes on from its checkpoint in a new run. A failed world
 * leaves MPI without MPI_Finalize, and messages of it may still be under way: the program calls no function of MPI any
 * more but MPI_Abort. Before the world is open MPI itself decides what happens: if a rank does not come as far, the
 * others wait in MPI_Init.
 *
 * Ranks trust one another and the network between them: nothing is encrypted.
 *
 * Thread rules: one thread at a time calls the collective functions. clq_world_rank, _size, _name, _abort: any thread.
 */
#ifndef CLIQUE_WORLD_H
#define CLIQUE_WORLD_H

#include <clique/status.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clq_world clq_world;

/* All zero is the default. */
typedef struct clq_world_config {
    /* Address of an MPI_Comm of the program's own, which is read and duplicated; its ranks are the world's. The program
     * has called MPI_Init_thread with MPI_THREAD_MULTIPLE, or with MPI_THREAD_SERIALIZED if it calls no MPI itself
     * while the world is open, and calls MPI_Finalize after clq_world_close. NULL: all processes that the launcher
     * started. Then Clique calls MPI_Init_thread and MPI_Finalize, unless the program has initialized MPI before: so a
     * process opens such a world once. */
    const void *communicator;
    /* "openmpi", "mpich", or the path of an engine's library; borrowed until the call returns. NULL: $CLIQUE_ENGINE;
     * else, with a communicator, the MPI that the program is linked with; else the MPI of the launcher. */
    const char *engine;
    /* Seconds for which nothing may be heard of a rank before it counts as lost, 2 to 1e6; 0: 5. Time for which this
     * process is stopped does not count. A rank that is stopped in a debugger for so long ends the run: raise it then.
     */
    double silence_s;
    /* Seconds for which a collective function waits for ranks that live but do not come, up to 1e6; 0: 600. Time for
     * which this process is stopped does not count. */
    double deadline_s;
    double reserved[4]; /* 0 */
} clq_world_config;

/* config may be NULL. Errors: ARGUMENT (silence_s, deadline_s), NOT_FOUND (the engine's library; the MPI of the
 * program's communicator), UNSUPPORTED (a launcher of another MPI), FORMAT (the engine is another library, or of another
 * version), SYSTEM (the engine's own errors, threads), MISMATCH (ranks of different versions of Clique, or of different
 * byte order), ABORTED, TIMEOUT, MEMORY. */
CLQ_API clq_status clq_world_open(const clq_world_config *config, clq_world **out);
/* Once nothing of the library uses the world any more. Waits for the other ranks, at most deadline_s; call
 * clq_world_barrier first if you need to know that all have come as far. If the world has failed, it waits only until
 * one second after the failure: a launcher ends all ranks as soon as one has ended, so each prints its error before it
 * closes. An MPI that does not return from MPI_Finalize within 5 s is left behind in its thread, with a warning. Takes
 * NULL. */
CLQ_API void clq_world_close(clq_world *world);

/* In the functions below NULL is a world of one process. */
CLQ_API unsigned clq_world_rank(const clq_world *world);
CLQ_API unsigned clq_world_size(const clq_world *world);
/* "rank 2 on n3", by the name of its host; "rank 0" of a process alone. Belongs to the world, until it is closed. */
CLQ_API const char *clq_world_name(const clq_world *world, unsigned rank);

/* Sets the last `count` ranks apart: from now on clq_world_size leaves them out, and the collective functions are of
 * the others alone. They keep the variables of strategy ps: each calls clq_serve (clique/train.h), and nothing else,
 * until the others take all back by clq_serve_end. Collective. A failure of any rank still ends the world for all.
 * Errors: ARGUMENT (none would remain), STATE (some are set apart), MISMATCH (another count on another rank), and those
 * of clq_world_gather. */
CLQ_API clq_status clq_world_set_apart(clq_world *world, unsigned count);
CLQ_API unsigned clq_world_apart(const clq_world *world); /* how many are */
CLQ_API bool clq_world_is_apart(const clq_world *world);  /* whether this rank is */

/* all (size * bytes): all[r * bytes] and what follows is `mine` (bytes) of rank r. bytes is the same on all ranks, and
 * small, as each rank gets everything: size * bytes is at most 1 GiB. `mine` may lie in its place in `all`. Errors:
 * ARGUMENT (bytes), STATE (this rank is set apart), TIMEOUT, ABORTED, SYSTEM, MEMORY; all but ARGUMENT and STATE end
 * the world. */
CLQ_API clq_status clq_world_gather(clq_world *world, const void *mine, size_t bytes, void *all);
/* No rank returns before every rank has called it. Errors: likewise. */
CLQ_API clq_status clq_world_barrier(clq_world *world);
/* Ends the world, and returns at once; clq_world_close gives the others the time to learn of it. On this rank calls
 * fail with ABORTED and the line `why`, on others with "rank 2 on n3: WHY". NULL or "": "the program ended the run". */
CLQ_API void clq_world_abort(clq_world *world, const char *why);

#ifdef __cplusplus
}
#endif
#endif
