/* Schedules: who sends which bytes to whom, as plain arithmetic. A collective is a few phases, a phase a number of
 * rounds; in a round a rank sends at most one range and receives at most one. Nothing here touches a device: walk.c
 * carries schedules out, and the tests carry them out on arrays. */
#ifndef CLQ_COMM_SCHEDULE_H
#define CLQ_COMM_SCHEDULE_H

#include "base/base.h"
#include <clique/comm.h>

/* Parts of a buffer begin at multiples of this many bytes: no cache line and no vector is shared by two ranks. */
enum { CLQ_PART_ALIGN = 64, CLQ_PHASES_MAX = 3 };
/* Where one of `parts` equal parts of `bytes` begins (and the one before it ends); trailing parts may be empty. */
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
/* What a rank reads and writes, in bytes, where `bytes` is the call's count of elements; 0: it has no part in it. */
size_t clq_collective_in_bytes(clq_collective collective, unsigned ranks, unsigned rank, unsigned root, size_t bytes);
size_t clq_collective_out_bytes(clq_collective collective, unsigned ranks, unsigned rank, unsigned root, unsigned to,
                                size_t bytes);
bool clq_collective_reduces(clq_collective collective);

/* Memory of a rank: the call's input and output, and for what passes through, `clq_schedule.work_bytes` of its own. */
typedef enum clq_place { CLQ_PLACE_IN, CLQ_PLACE_OUT, CLQ_PLACE_WORK, CLQ_PLACE_COUNT } clq_place;
typedef struct clq_range {
    clq_place place;
    size_t begin, bytes;
} clq_range;

typedef struct clq_hop {
    unsigned to, from;
    clq_range sent, received; /* 0 bytes: the rank does not send, does not receive */
    bool forwarded;           /* what is sent was received earlier in this phase, chunk by chunk */
    bool reduced;             /* received = operand op what came, else what came */
    clq_range operand;
    bool last;       /* reduced: the sum is complete, and an average is taken of it */
    bool came_first; /* reduced: received = what came op operand */
    bool exchanged;  /* what is received is written to where the sent bytes are */
} clq_hop;

/* Ranks that reach one another cheaply. Members of an island stand together in `ranks`, its leader first. */
typedef struct clq_islands {
    unsigned count, of[CLQ_REPLICAS_MAX]; /* of[rank]: its island */
    unsigned begin[CLQ_REPLICAS_MAX + 1]; /* island i: ranks[begin[i]] to ranks[begin[i + 1] - 1] */
    unsigned ranks[CLQ_REPLICAS_MAX];
} clq_islands;
/* names[r] equal: the same island. */
void clq_islands_make(const unsigned *names, unsigned ranks, clq_islands *out);

typedef struct clq_schedule clq_schedule;
typedef struct clq_phase {
    unsigned rounds;
    size_t most_bytes; /* of any range */
    bool by_chunk;     /* a chunk goes through all rounds before the next one does: a pipeline; else round by round */
    void (*step)(const clq_schedule *schedule, unsigned rank, unsigned round, clq_hop *out);
} clq_phase;

struct clq_schedule {
    unsigned ranks, root, to;
    size_t bytes, work_bytes;
    const clq_islands *islands; /* hierarchical */
    unsigned phases;
    clq_phase phase[CLQ_PHASES_MAX];
};

/* The algorithm that a collective gets if `asked` is asked for: only all-reduce has others than the ring (or a pipeline
 * along it), and a torus has two axes. `asked` is not DIRECT. */
clq_algorithm clq_schedule_form(clq_algorithm asked, clq_collective collective, unsigned ranks);
/* `algorithm` is neither AUTO nor DIRECT; what clq_schedule_form makes of it is made. bytes: of the call's count.
 * islands: for HIERARCHICAL, kept by the caller. Not for barriers, nor for one rank. */
void clq_schedule_make(clq_algorithm algorithm, clq_collective collective, unsigned ranks, unsigned root, unsigned to,
                       size_t bytes, const clq_islands *islands, clq_schedule *out);
/* Which algorithm an all-reduce between processes gets, by what is asked for, its bytes and their number alone, so that
 * all choose alike. A star has a group's most ranks (CLQ_REPLICAS_MAX); more of them make a ring. AUTO and DIRECT leave
 * it to the bytes: partners that exchange all they have (doubling) take fewer messages, one after the other, than
 * a ring, but each is whole; a torus takes fewer than a ring, with as many bytes. */
clq_algorithm clq_schedule_between(clq_algorithm asked, unsigned ranks, size_t bytes);
/* What a rank does; zeroed where it rests. */
clq_hop clq_schedule_hop(const clq_schedule *schedule, unsigned phase, unsigned rank, unsigned round);
/* Own bytes that go from in to out on the rank itself: the range of out; 0 bytes: none. */
clq_range clq_schedule_own(const clq_schedule *schedule, clq_collective collective, unsigned rank);

#endif
