/* What the strict layer counts for each device; shared by the layer and the tests that read the counts. */
#ifndef CLQ_TEST_STRICT_COUNTS_H
#define CLQ_TEST_STRICT_COUNTS_H

typedef enum strict_count {
    STRICT_COMMANDS, /* of any kind, enqueued */
    STRICT_LAUNCHES,
    STRICT_MARKERS,
    STRICT_FLUSHES,
    STRICT_FINISHES,
    STRICT_WAITS,     /* clWaitForEvents */
    STRICT_CALLBACKS, /* clSetEventCallback */
    STRICT_POLLS,     /* queries of an event's execution status */
    STRICT_BLOCKING_READS,
    STRICT_BLOCKING_WRITES,
    STRICT_PAGEABLE,       /* non-blocking transfers with host memory that is not pinned */
    STRICT_FOREIGN_PINNED, /* non-blocking transfers with host memory that is pinned in another context */
    STRICT_NULL_LOCALS,    /* launches without a local size */
    STRICT_MIGRATIONS,     /* copies of a whole memory object from the device that wrote it last */
    /* Violations of OpenCL's rules or the device's limits: */
    STRICT_UNFLUSHED, /* waits for commands that were not flushed, and callbacks of such commands */
    STRICT_LIMITS,    /* launches beyond the limits of work-groups or local memory */
    STRICT_LATER,     /* calls that are newer than OpenCL 1.2 */
    STRICT_VIEWS,     /* releases of a sub-buffer that a newer one overlaps: NVIDIA's driver ends the process */
    STRICT_COUNTS
} strict_count;

#endif
