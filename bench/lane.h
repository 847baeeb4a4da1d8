/* A lane: how bytes get from one device to another, for clique bench p2p. */
#ifndef CLQ_BENCH_LANE_H
#define CLQ_BENCH_LANE_H

#include "bench.h"

/* Staged: the source's queue reads a chunk into one of two host slots that are pinned for its device, while the chunk
 * before, copied by the host to a slot that is pinned for the target's device, is written by the target's queue.
 * Peer: one copy command inside a shared context, and a command of the target's device that uses what came; or one copy
 * inside one device. */
typedef struct clq_bench_lane {
    clq_queue *down, *up; /* of the source's device, of the target's; its own, so that lanes can run side by side */
    clq_buffer *source, *target;
    clq_buffer *slots, *arrivals; /* pinned for the source's device, for the target's; NULL: peer */
    clq_buffer *seen;             /* of the target's device: what it used of a peer's copy; NULL within one device */
    size_t bytes;
    uint64_t seed; /* of the pattern that is sent */
} clq_bench_lane;

/* The source holds a pattern, the target holds none of it. Release also after a failure. */
clq_status clq_bench_lane_open(clq_device *from, clq_device *to, bool staged, size_t bytes, uint64_t seed,
                               clq_bench_lane *lane);
void clq_bench_lane_release(clq_bench_lane *lane);
/* Moves all bytes so many times, one after the other, and waits. One thread at a time. */
clq_status clq_bench_lane_move(clq_bench_lane *lane, uint64_t repeats);
/* Bytes of the target that are not the source's. */
clq_status clq_bench_lane_check(clq_bench_lane *lane, uint64_t *wrong);

#endif
