/* A communicator whose ranks are the devices of all processes of a world: those of rank 0 of the world first, then
 * those of rank 1, …. Each process has a communicator of its own devices; its first rank is the leader. A collective
 * goes in three parts: among the devices of a process, to the leader; between the leaders, on the host's memory
 * (outer.c); and back. So what crosses between machines is a process's part, whatever the number of its devices.
 *
 * Sums are made as by the hierarchical algorithm with the processes as islands: of the devices of a process first, in
 * an order that its own algorithm fixes, then between processes. */
#ifndef CLQ_COMM_WIDE_H
#define CLQ_COMM_WIDE_H

#include "comm/comm.h"
#include "world/world.h"

typedef struct clq_wide clq_wide;
/* clq_comm_span, of a world of several processes. local: of this process's devices, not owned. */
clq_status clq_wide_create(clq_comm *local, clq_world *world, clq_algorithm algorithm, clq_wide **out);
void clq_wide_destroy(clq_wide *wide); /* takes NULL */
/* Ends the world, and with it the leader's wait for other processes: the communicator has failed. From any thread. */
void clq_wide_fail(const clq_wide *wide, const clq_error *why);
/* What clq_walk_prepare_all makes for the ranks of this process. */
clq_status clq_wide_prepare(clq_wide *wide, const clq_task *task);

unsigned clq_wide_first(const clq_wide *wide);                                     /* clq_comm_first */
unsigned clq_wide_total(const clq_wide *wide);                                     /* clq_comm_total */
clq_status clq_wide_check_spread(const clq_wide *wide, clq_collective collective); /* clq_comm_check_spread */
/* Between processes, of so many bytes of the call. */
clq_algorithm clq_wide_algorithm(const clq_wide *wide, clq_collective collective, size_t bytes);
void clq_wide_explain(const clq_wide *wide, clq_text *text);
/* Nanoseconds that the leader spent between processes. From any thread. */
uint64_t clq_wide_busy_ns(const clq_wide *wide);

/* clq_comm_run. A failure ends the world, and that of the world ends the communicator. */
clq_status clq_wide_run(clq_wide *wide, unsigned rank, const clq_task *task);

#endif
