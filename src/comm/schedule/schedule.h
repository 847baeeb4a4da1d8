/* Schedules: who sends which bytes to whom, as plain arithmetic. A collective has a few phases, and a phase has a
 * number of rounds. In a round a rank sends at most one range and receives at most one. Nothing here touches a device:
 * walk.c carries schedules out between devices, outer.c between processes, and the tests on arrays. */
#ifndef CLQ_COMM_SCHEDULE_H
#define CLQ_COMM_SCHEDULE_H

#include "base/base.h"
#include <clique/comm.h>

/* Parts of a buffer begin at multiples of this many bytes, so that two ranks share no cache line and no vector. */
enum { CLQ_PART_ALIGN = 64, CLQ_PHASES_MAX = 3 };
/* Divides `bytes` into `parts` equal parts, and returns the byte at which a part begins and the part before it ends.
 * The last parts may be shorter or empty. */
size_t clq_part_begin(unsigned part, unsigned parts, size_t bytes);

typedef enum clq_collective {
    CLQ_BARRIER,
    CLQ_ALL_REDUCE,
    CLQ_REDUCE_SCATTER,
    CLQ_ALL_GATHER,
    CLQ_BROADCAST,
    CLQ_REDUCE,
    CLQ_SEND_RECV,
    CLQ_COLLECTIVE_COUNT
} clq_collective;
const char *clq_collective_name(clq_collective collective); /* "all-reduce" */
/* How many bytes a rank reads and writes. bytes: the call's count, in bytes. 0: the rank reads or writes nothing. */
size_t clq_collective_in_bytes(clq_collective collective, unsigned ranks, unsigned rank, unsigned root, size_t bytes);
size_t clq_collective_out_bytes(clq_collective collective, unsigned ranks, unsigned rank, unsigned root, unsigned to,
                                size_t bytes);
bool clq_collective_reduces(clq_collective collective);

/* A rank's memory: the call's input, the call's output, and work memory for what passes through, with
 * clq_schedule.work_bytes. */
typedef enum clq_place { CLQ_PLACE_IN, CLQ_PLACE_OUT, CLQ_PLACE_WORK, CLQ_PLACE_COUNT } clq_place;
typedef struct clq_range {
    clq_place place;
    size_t begin, bytes;
} clq_range;

typedef struct clq_hop {
    unsigned to, from;
    clq_range sent, received; /* 0 bytes: the rank does not send, does not receive */
    bool forwarded;           /* the sent bytes were received earlier in this phase, chunk by chunk */
    bool reduced;             /* received = operand op the message; false: received = the message */
    clq_range operand;
    bool last;       /* reduced: the sum is then complete, and an average divides it */
    bool came_first; /* reduced: received = the message op operand */
    bool exchanged;  /* the rank may write what it receives over the bytes that it sends */
} clq_hop;

/* Islands of ranks that reach one another cheaply. `ranks` lists the islands' members one island after the other, and
 * in each island its leader first. */
typedef struct clq_islands {
    unsigned count, of[CLQ_REPLICAS_MAX]; /* of[rank]: its island */
    unsigned begin[CLQ_REPLICAS_MAX + 1]; /* island i: ranks[begin[i]] to ranks[begin[i + 1] - 1] */
    unsigned ranks[CLQ_REPLICAS_MAX];
} clq_islands;
/* Ranks whose names[r] are equal form one island. */
void clq_islands_make(const unsigned *names, unsigned ranks, clq_islands *out);

typedef struct clq_schedule clq_schedule;
typedef struct clq_phase {
    unsigned rounds;
    size_t most_bytes; /* of the longest range */
    bool by_chunk;     /* a pipeline: each chunk goes through all rounds before the next one; false: round by round */
    void (*step)(const clq_schedule *schedule, unsigned rank, unsigned round, clq_hop *out);
} clq_phase;

struct clq_schedule {
    unsigned ranks, root, to;
    size_t bytes, work_bytes;
    const clq_islands *islands; /* for HIERARCHICAL */
    unsigned phases;
    clq_phase phase[CLQ_PHASES_MAX];
};

/* The algorithm that a collective uses if the config asks for `asked`, which is not DIRECT. Only all-reduce has other
 * algorithms than the ring (or a pipeline along the ring), and a torus needs a number of ranks that is not prime. */
clq_algorithm clq_schedule_form(clq_algorithm asked, clq_collective collective, unsigned ranks);
/* Makes the schedule of a collective other than a barrier, for at least two ranks. algorithm: not AUTO or DIRECT;
 * clq_schedule_form says which one is used. bytes: the call's count, in bytes. islands: for HIERARCHICAL; the caller
 * keeps them. */
void clq_schedule_make(clq_algorithm algorithm, clq_collective collective, unsigned ranks, unsigned root, unsigned to,
                       size_t bytes, const clq_islands *islands, clq_schedule *out);
/* The algorithm of an all-reduce between processes. It depends only on `asked`, the bytes and the number of processes,
 * so all processes choose alike. REDUCE_TO_ONE is for at most CLQ_REPLICAS_MAX ranks; more ranks use a ring.
 * HIERARCHICAL is a ring, too. AUTO and DIRECT leave the choice to the bytes: doubling takes fewer messages one after
 * the other than a ring, but each carries all the bytes; a torus takes fewer messages than a ring, with as many bytes
 * in all. */
clq_algorithm clq_schedule_between(clq_algorithm asked, unsigned ranks, size_t bytes);
/* What a rank does in a round; all zero if the rank rests. */
clq_hop clq_schedule_hop(const clq_schedule *schedule, unsigned phase, unsigned rank, unsigned round);
/* The range of its output that a rank fills from its own input; 0 bytes: none. */
clq_range clq_schedule_own(const clq_schedule *schedule, clq_collective collective, unsigned rank);

#endif
