/* A lane moves bytes from one device to another, for clique bench p2p. */
#ifndef CLQ_BENCH_LANE_H
#define CLQ_BENCH_LANE_H

#include "bench.h"

/* Staged: the source's queue reads a chunk into one of two host slots that are pinned for the source's device.
 * Meanwhile the host copies the chunk before to one of two slots that are pinned for the target's device, and the
 * target's queue writes it. Peer: one copy command inside a shared context, then a command of the target's device that
 * uses the copied bytes. Within one device: one copy command. */
typedef struct clq_bench_lane {
    clq_queue *down, *up; /* on the source's and the target's device; not shared, so that lanes can run side by side */
    clq_buffer *source, *target;
    clq_buffer *slots, *arrivals; /* pinned for the source's and the target's device; NULL: not staged */
    clq_buffer *seen;             /* gets some of a peer's bytes, which uses them; NULL: staged, or one device */
    size_t bytes;
    uint64_t seed; /* of the pattern that the lane sends */
} clq_bench_lane;

/* Opens a lane: fills the source with the pattern and the target with zeros. Release the lane also after a failure. */
clq_status clq_bench_lane_open(clq_device *from, clq_device *to, bool staged, size_t bytes, uint64_t seed,
                               clq_bench_lane *lane);
void clq_bench_lane_release(clq_bench_lane *lane);
/* Moves all bytes `repeats` times, one after the other, and waits. Only one thread may use the lane at a time. */
clq_status clq_bench_lane_move(clq_bench_lane *lane, uint64_t repeats);
/* Counts the bytes of the target that differ from the source's. */
clq_status clq_bench_lane_check(clq_bench_lane *lane, uint64_t *wrong);

#endif
