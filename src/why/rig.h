/* A rig: threads that run made-up work on several devices at once, to measure what the devices cost one another.
 * Private to why. */
#ifndef CLQ_WHY_RIG_H
#define CLQ_WHY_RIG_H

#include "why/why.h"

typedef struct clq_rig clq_rig;
typedef struct clq_rig_member {
    clq_rig *rig;
    unsigned rank;
    clq_device *device;
    clq_queue *queue;
    clq_load *arithmetic, *memory;
    clq_buffer *values; /* of the all-reduce */
    clq_thread *thread;
    double seconds;  /* of a round */
    clq_error error; /* of its thread; status OK: none */
} clq_rig_member;

struct clq_rig {
    unsigned count; /* opened */
    clq_rig_member members[CLQ_REPLICAS_MAX];
    /* Of a run: */
    unsigned at_work;
    clq_barrier *start;
    clq_comm *comm;
    clq_status (*round)(clq_rig_member *member);
    double lasts_s;       /* rounds are begun for this many seconds, */
    size_t rounds_wanted; /* or, where not 0, this many rounds are made */
    size_t rounds_before; /* rounds before them that are not counted */
    clq_load_kind load;
    int rounds[CLQ_REPLICAS_MAX]; /* of the load, in a round of each member */
    size_t exchanged;             /* bytes */
};

/* memory_bytes: of the memory that made-up traffic changes. value_bytes: of the largest all-reduce. Close in any case.
 */
clq_status clq_rig_open(const clq_devices *devices, size_t memory_bytes, size_t value_bytes, clq_rig *rig);
void clq_rig_close(clq_rig *rig);

/* Seconds of a launch of an empty kernel, among many. */
clq_status clq_rig_launch(clq_rig *rig, unsigned member, double *seconds);
/* The rate of made-up work in 1e9 operations or bytes per second: of one member alone, and of the first `count` at the
 * same time. Best measured alternately, several times: machines change their speed. */
clq_status clq_rig_rate_alone(clq_rig *rig, clq_load_kind kind, unsigned member, double *rate);
clq_status clq_rig_rates(clq_rig *rig, clq_load_kind kind, unsigned count, double *rates);
/* Seconds of an all-reduce of `bytes` over the first `count` members. */
clq_status clq_rig_all_reduce(clq_rig *rig, unsigned count, size_t bytes, double *seconds);
/* Seconds that an all-reduce of `bytes` adds to rounds of made-up arithmetic. work_s (count): how long each member's
 * round is, at its rate `gflops` alone. */
clq_status clq_rig_exchange(clq_rig *rig, unsigned count, size_t bytes, const double *work_s, const double *gflops,
                            double *seconds);

double clq_median(double *values, size_t count); /* sorts them */

#endif
