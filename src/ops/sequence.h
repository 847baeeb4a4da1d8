/* A launch list as one kernel, for CPU devices of the TILE family: handing a launch to a driver's threads costs as much
 * as a small launch takes (40 us to wake PoCL's on a virtual machine), and none may begin before the last thread is
 * done with the one before. In a sequence the device's threads are called once; they take items of all launches in
 * order, and wait for what those depend on and for nothing else. Results are bit for bit those of the launches one by
 * one: the same functions make the same items. */
#ifndef CLQ_OPS_SEQUENCE_H
#define CLQ_OPS_SEQUENCE_H

#include "ops/list.h"

/* The kernel's parameters: buffers of its own, numbers, and the buffers in which values are placed. */
enum {
    CLQ_SEQUENCE_WORDS,
    CLQ_SEQUENCE_PROGRESS,
    CLQ_SEQUENCE_FIRST_NUMBER,                     /* first and end of the launches, groups, */
    CLQ_SEQUENCE_NUMBERS = 3 + CLQ_PARAM_COUNT_OF, /* then the list's parameters */
    CLQ_SEQUENCE_FIRST_BUFFER = CLQ_SEQUENCE_FIRST_NUMBER + CLQ_SEQUENCE_NUMBERS,
    CLQ_SEQUENCE_BUFFERS_MAX = 32
};

typedef struct clq_sequence {
    clq_list *list;
    clq_kernel *kernel;
    clq_buffer *words, *progress;
    clq_buffer *buffers[CLQ_SEQUENCE_BUFFERS_MAX]; /* of the list's values; not owned */
    size_t buffer_count;
    uint32_t numbers[CLQ_SEQUENCE_NUMBERS]; /* as the kernel has them */
    bool called;                            /* it has them */
    size_t groups;
} clq_sequence;

/* Of a list whose values are placed. *out stays NULL where it cannot be one: launches of other kinds are in it (calls,
 * work-groups of more than one item), or fewer than two. */
clq_status clq_sequence_create(clq_list *list, clq_sequence **out);
void clq_sequence_destroy(clq_sequence *sequence); /* takes NULL */
/* Another buffer in the place of one that values are placed in. */
clq_status clq_sequence_replace(clq_sequence *sequence, const clq_buffer *before, clq_buffer *buffer);
/* Two of them change places. */
clq_status clq_sequence_swap(clq_sequence *sequence, clq_buffer *a, clq_buffer *b);
/* Launches first .. end - 1, by the list's parameters. */
clq_status clq_sequence_run(clq_sequence *sequence, clq_queue *queue, size_t first, size_t end);

#endif
