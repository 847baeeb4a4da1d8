/* Collectives between the processes of a world, on the host's memory. They use the same schedules as the collectives
 * between the devices of one process (schedule/schedule.h), carried out as jobs of the world (world/world.h). So the
 * schedule for that number of ranks fixes the order of sums, and thus their bits, whatever the MPI. */
#ifndef CLQ_COMM_OUTER_H
#define CLQ_COMM_OUTER_H

#include "comm/schedule/schedule.h"
#include "world/world.h"

/* One communicator's message tag and memory for its collectives between processes. */
typedef struct clq_outer clq_outer;
/* All ranks of the world call it, in the same order as their other calls that take tags (clq_world_new_tags).
 * chunk_bytes: size of a message; 0: the size that is fastest between these ranks. Errors: UNSUPPORTED, MEMORY. */
clq_status clq_outer_create(clq_world *world, size_t chunk_bytes, clq_outer **out);
void clq_outer_destroy(clq_outer *outer); /* takes NULL */

typedef struct clq_outer_task {
    clq_collective collective; /* any but CLQ_BARRIER */
    clq_algorithm algorithm;   /* not AUTO, DIRECT or HIERARCHICAL; a collective without such a form uses the ring */
    const void *in;            /* in and out: as in the public calls; in == out is allowed */
    void *out;
    size_t count;
    clq_dtype dtype;
    clq_redop op;
    unsigned root, to; /* ranks of the world */
    unsigned divisor;  /* what an average divides by; 0: the world's size */
    double deadline_s; /* 0: the world's */
} clq_outer_task;
/* Carries out this rank's part, and returns when it is done. One thread at a time calls it. All ranks pass the same
 * task, except for `in` and `out`. Any failure ends the world. Errors: MEMORY, and those of clq_world_wait. */
clq_status clq_outer_run(clq_outer *outer, const clq_outer_task *task);

/* A message from one rank to another, to measure the path between them. */
typedef struct clq_outer_way {
    unsigned from, to;
    bool returns; /* `to` then sends as many bytes back */
    size_t bytes;
    const char *out; /* (bytes) what a rank sends */
    char *in;        /* (bytes) where a rank receives */
} clq_outer_way;
/* Carries out this rank's part, as clq_outer_run does. The two ranks call it; any other rank that calls it returns at
 * once. */
clq_status clq_outer_travel(clq_outer *outer, const clq_outer_way *way);

#endif
