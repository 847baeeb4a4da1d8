/* Collectives between the processes of a world, on the host's memory: the schedules that walks carry out between the
 * devices of one process (schedule/schedule.h), carried out by the world's thread. So the order of sums, and thus their
 * bits, is that of the schedule with as many ranks, whatever the MPI. */
#ifndef CLQ_COMM_OUTER_H
#define CLQ_COMM_OUTER_H

#include "comm/schedule/schedule.h"
#include "world/world.h"

/* What one communicator has for its collectives between processes: a tag, and memory. */
typedef struct clq_outer clq_outer;
/* By every rank of the world, in the same order as its other users. chunk_bytes: of a message; 0:
 * what goes fastest between these ranks. Errors: UNSUPPORTED, MEMORY. */
clq_status clq_outer_create(clq_world *world, size_t chunk_bytes, clq_outer **out);
void clq_outer_destroy(clq_outer *outer); /* takes NULL */

typedef struct clq_outer_task {
    clq_collective collective; /* no barrier */
    clq_algorithm algorithm;   /* neither AUTO, DIRECT nor HIERARCHICAL; what has no form of its own: ring */
    const void *in;            /* as the public calls have them; in place, too */
    void *out;
    size_t count;
    clq_dtype dtype;
    clq_redop op;
    unsigned root, to; /* ranks of the world */
    unsigned divisor;  /* what an average divides by; 0: the world's size */
    double deadline_s; /* 0: the world's */
} clq_outer_task;
/* This rank's part, by one thread at a time; returns when it is done. All ranks call with the same task but for `in`
 * and `out`. A failure ends the world. Errors: MEMORY (which ends the world, too), and those of clq_world_wait. */
clq_status clq_outer_run(clq_outer *outer, const clq_outer_task *task);

/* Bytes from one rank to another, to measure the way between the two. */
typedef struct clq_outer_way {
    unsigned from, to;
    bool returns; /* and back */
    size_t bytes;
    const char *out; /* (bytes) of both, */
    char *in;        /* likewise */
} clq_outer_way;
/* As clq_outer_run, by the two; another rank that calls returns at once. */
clq_status clq_outer_travel(clq_outer *outer, const clq_outer_way *way);

#endif
