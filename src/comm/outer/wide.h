/* A communicator whose ranks are the devices of all processes of a world: first the devices of the world's rank 0, then
 * those of rank 1, …. Each process also has a communicator of its own devices, whose first rank is the process's
 * leader. A collective has three parts: from the devices of a process to its leader, between the leaders on the host's
 * memory (outer.c), and from the leader back to the devices. So only one part for each process crosses between
 * machines, however many devices the process has.
 *
 * Sums are made as by the hierarchical algorithm with the processes as islands: first over the devices of each process,
 * in an order that its own algorithm fixes, then over the processes. */
#ifndef CLQ_COMM_WIDE_H
#define CLQ_COMM_WIDE_H

#include "comm/comm.h"
#include "world/world.h"

typedef struct clq_wide clq_wide;
/* Makes what clq_comm_span needs for a world of several processes. local: the communicator of this process's devices,
 * not owned. */
clq_status clq_wide_create(clq_comm *local, clq_world *world, clq_algorithm algorithm, clq_wide **out);
void clq_wide_destroy(clq_wide *wide); /* takes NULL */
/* Ends the world because the communicator has failed. That also ends the leader's wait for other processes. Any thread
 * may call it. */
void clq_wide_fail(const clq_wide *wide, const clq_error *why);
/* Does what clq_walk_prepare_all says for the ranks of this process. Before the first collective of a kind, all
 * processes meet here, too, within the world's deadline. */
clq_status clq_wide_prepare(clq_wide *wide, const clq_task *task);

unsigned clq_wide_first(const clq_wide *wide);                                     /* clq_comm_first */
unsigned clq_wide_total(const clq_wide *wide);                                     /* clq_comm_total */
clq_status clq_wide_check_spread(const clq_wide *wide, clq_collective collective); /* clq_comm_check_spread */
/* The algorithm between processes for a call with this many bytes. */
clq_algorithm clq_wide_algorithm(const clq_wide *wide, clq_collective collective, size_t bytes);
void clq_wide_explain(const clq_wide *wide, clq_text *text);
/* Nanoseconds that the leader has spent in collectives between processes. Any thread may call it. */
uint64_t clq_wide_busy_ns(const clq_wide *wide);

/* clq_comm_run across processes. A failure of the communicator ends the world, and a failure of the world ends the
 * communicator. */
clq_status clq_wide_run(clq_wide *wide, unsigned rank, const clq_task *task);

#endif
