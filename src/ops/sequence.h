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
    CLQ_SEQUENCE_FIRST_NUMBER,                     /* first and end of the launches, groups, role, */
    CLQ_SEQUENCE_NUMBERS = 4 + CLQ_PARAM_COUNT_OF, /* then the list's parameters */
    CLQ_SEQUENCE_FIRST_BUFFER = CLQ_SEQUENCE_FIRST_NUMBER + CLQ_SEQUENCE_NUMBERS,
    CLQ_SEQUENCE_BUFFERS_MAX = 32
};

/* The counters of progress, as in cl/sequence.cl: two for each launch, groups that left, the gate, each on a line of
 * its own; behind the gate how many helpers came through it. */
enum { CLQ_SEQUENCE_COUNTER = 16 };
#define CLQ_SEQUENCE_COUNTERS(list) (2 * (list)->launch_count + 2)
#define CLQ_SEQUENCE_HELPS(list) ((2 * (list)->launch_count + 1) * CLQ_SEQUENCE_COUNTER + 1)

/* As in cl/sequence.cl: a launch that is all, one that is open to helpers, and a helper's. */
typedef enum clq_role { CLQ_ROLE_ALONE, CLQ_ROLE_OWNER, CLQ_ROLE_HELPER } clq_role;

/* The kernel with its arguments as they are. */
typedef struct clq_caller {
    clq_kernel *kernel;
    clq_buffer *buffers[CLQ_SEQUENCE_BUFFERS_MAX]; /* not owned */
    size_t buffer_count;
    uint32_t numbers[CLQ_SEQUENCE_NUMBERS];
    bool called; /* numbers are set */
} clq_caller;
clq_status clq_caller_set_buffer(clq_caller *caller, size_t k, clq_buffer *buffer);
/* By the parameters of `list`. groups: that share the items; launched: of them by this launch. */
clq_status clq_caller_run(clq_caller *caller, clq_queue *queue, const clq_list *list, size_t first, size_t end,
                          size_t groups, clq_role role, size_t launched);

typedef struct clq_sequence {
    clq_list *list;
    clq_caller caller;
    clq_buffer *words, *progress;
    size_t groups;
    clq_hash128 text; /* of its source */
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
