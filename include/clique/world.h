/* clique/world.h: the processes of one run.
 *
 * A run on several machines is one process on each, started by a launcher of MPI (mpirun, srun). Each process opens the
 * world: it learns its rank, from 0 to size - 1, and can reach the others. A program that no launcher started is alone:
 * its world has size 1, costs nothing, and everything works. So one program serves both.
 *
 * All ranks call the collective functions below in the same order. A rank that fails, is killed, is stopped or cannot
 * be reached any more ends the world: within ten seconds every call on every rank that can be reached fails, with one
 * line that names the rank and its host. There is no way back: a program ends then, and goes on from its checkpoint in
 * a new run. Ranks trust one another and the network between them: nothing is encrypted.
 *
 * Thread rules: one thread at a time calls the collective functions. rank, size and name: any thread. */
#ifndef CLIQUE_WORLD_H
#define CLIQUE_WORLD_H

#include <clique/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clq_world clq_world;

/* All zero is the default. */
typedef struct clq_world_config {
    /* Address of an MPI_Comm of the program's own, which is read and duplicated; its ranks are the world's. The program
     * has called MPI_Init_thread with MPI_THREAD_MULTIPLE, or with MPI_THREAD_SERIALIZED if it calls no MPI itself
     * while the world is open. It calls MPI_Finalize after clq_world_close. NULL: all processes that the launcher
     * started, and MPI is Clique's from MPI_Init_thread to MPI_Finalize. */
    const void *communicator;
    /* "openmpi", "mpich", or the path of an engine's library; borrowed until the call returns. NULL: $CLIQUE_ENGINE,
     * else as the launcher's environment says. */
    const char *engine;
    /* Seconds for which nothing may be heard of a rank before it counts as lost; 0: 5. Time for which this process is
     * stopped does not count. At least 2, since a rank tells each second that it lives. */
    double silence_s;
    /* Seconds for which a collective function waits for ranks that live but do not come; 0: 600. */
    double deadline_s;
} clq_world_config;

/* Every rank calls it. config may be NULL. Errors: ARGUMENT (silence_s, deadline_s), NOT_FOUND (the library of the
 * engine), UNSUPPORTED (another version of it; a launcher of another MPI), SYSTEM (the engine's own errors, threads),
 * MISMATCH (ranks of different versions of Clique, or of different byte order), MEMORY. */
CLQ_API clq_status clq_world_open(const clq_world_config *config, clq_world **out);
/* Every rank calls it, once nothing of the library uses the world any more. Waits for the other ranks; if the world has
 * failed only until a second after that, since launchers end all ranks when one ends: print what failed before. Takes
 * NULL. */
CLQ_API void clq_world_close(clq_world *world);

/* NULL is a world of one process for all of these. */
CLQ_API unsigned clq_world_rank(const clq_world *world);
CLQ_API unsigned clq_world_size(const clq_world *world);
/* "rank 2 on n3", by the name of its host. The world's, until it is closed. */
CLQ_API const char *clq_world_name(const clq_world *world, unsigned rank);

/* all (size * bytes): `mine` (bytes) of every rank, in the order of the ranks. For what is small: every rank has all of
 * it. Errors: TIMEOUT, ABORTED, and what ended the world. */
CLQ_API clq_status clq_world_gather(clq_world *world, const void *mine, size_t bytes, void *all);
/* No rank returns before every rank has called it. Errors: as above. */
CLQ_API clq_status clq_world_barrier(clq_world *world);
/* Ends the world, from any thread: every rank's calls fail with `why`, one line, behind this rank's name. */
CLQ_API void clq_world_abort(clq_world *world, const char *why);

#ifdef __cplusplus
}
#endif
#endif
