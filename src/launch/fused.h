/* Fused launches: a run of a list's launches as one kernel, for CPU devices of the TILE family. Handing a launch to a
 * driver's threads costs as much as a small launch takes (40 us to wake PoCL's on a virtual machine), and none may
 * begin before the last thread is done with the one before. Of fused launches the device's threads are called once;
 * they take items of all launches in order, and wait for what those depend on and for nothing else. Results are bit for
 * bit those of the launches one by one: the same functions make the same items. */
#ifndef CLQ_LAUNCH_FUSED_H
#define CLQ_LAUNCH_FUSED_H

#include "launch/list.h"

/* The kernel's parameters: buffers of its own, numbers, and the buffers in which values are placed. */
enum {
    CLQ_FUSED_WORDS,
    CLQ_FUSED_PROGRESS,
    CLQ_FUSED_FIRST_NUMBER,                     /* first and end of the launches, groups, */
    CLQ_FUSED_NUMBERS = 3 + CLQ_PARAM_COUNT_OF, /* then the list's parameters */
    CLQ_FUSED_FIRST_BUFFER = CLQ_FUSED_FIRST_NUMBER + CLQ_FUSED_NUMBERS,
    CLQ_FUSED_BUFFERS_MAX = 32
};

typedef struct clq_fused {
    clq_list *list;
    size_t first, end; /* the list's launches that it is */
    clq_kernel *kernel;
    clq_buffer *words, *progress;
    clq_buffer *buffers[CLQ_FUSED_BUFFERS_MAX]; /* of the list's values; not owned */
    size_t buffer_count;
    uint32_t numbers[CLQ_FUSED_NUMBERS]; /* as the kernel has them */
    bool called;                         /* it has them */
    size_t groups;
} clq_fused;

/* Where the run of launches that can be one kernel ends, of those from `first` on, in a list whose values are placed;
 * `first` where that launch cannot be fused: calls, and kernels whose work-groups have several items. A run has no more
 * launches and buffers than one kernel takes: what is left begins the next one. */
size_t clq_fused_end(const clq_list *list, size_t first);
/* One kernel of the launches of such a run; NULL where the device's compiler does not make it: it refused it, or did
 * not end within the build deadline, now or in an earlier process. */
clq_status clq_fused_create(clq_list *list, size_t first, size_t end, clq_fused **out);
void clq_fused_destroy(clq_fused *fused); /* takes NULL */
/* Another buffer in the place of one that values are placed in. */
clq_status clq_fused_replace(clq_fused *fused, const clq_buffer *before, clq_buffer *buffer);
/* Two of them change places. */
clq_status clq_fused_swap(clq_fused *fused, clq_buffer *a, clq_buffer *b);
/* The list's launches first .. end - 1, which are among its own, by the list's parameters. */
clq_status clq_fused_run(clq_fused *fused, clq_queue *queue, size_t first, size_t end, const clq_order *order);

#endif
