/* Fused launches: a run of consecutive launches of a list as one kernel, for CPU devices of the TILE family. A separate
 * launch costs as much as the work of a small launch: waking PoCL's threads takes 40 us on a virtual machine, and no
 * launch begins before the last thread is done with the launch before. For fused launches the driver wakes the device's
 * threads once. They take the items of all launches in order, and wait only for the launches that these items depend
 * on. The results are bit for bit those of separate launches, since the same functions compute the same items. */
#ifndef CLQ_LAUNCH_FUSED_H
#define CLQ_LAUNCH_FUSED_H

#include "launch/list.h"

/* The kernel's parameters: two buffers of its own, numbers, and the buffers in which values are placed. */
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
    size_t first, end; /* the list's launches that it runs: first .. end - 1 */
    clq_kernel *kernel;
    clq_buffer *words, *progress;
    clq_buffer *buffers[CLQ_FUSED_BUFFERS_MAX]; /* of the list's values; not owned */
    size_t buffer_count;
    uint32_t numbers[CLQ_FUSED_NUMBERS]; /* the kernel's arguments as they were last set */
    bool called;                         /* `numbers` were set */
    size_t groups;
} clq_fused;

/* The end of the run of launches from `first` on that can become one kernel. The list's values must be placed. Returns
 * `first` if that launch cannot be fused: the list's family is not TILE, or the launch is a call, or it has a source of
 * its own or work-groups that may have several items. A kernel takes a limited number of launches and buffers; the
 * launches beyond these begin the next run. */
size_t clq_fused_end(const clq_list *list, size_t first);
/* Makes one kernel of such a run. *out is NULL and the status CLQ_OK if the compiler refuses the kernel, or if it
 * refused it or missed the build deadline in an earlier process. If it misses the deadline now, the status is TIMEOUT
 * and the device is lost. */
clq_status clq_fused_create(clq_list *list, size_t first, size_t end, clq_fused **out);
void clq_fused_destroy(clq_fused *fused); /* takes NULL */
/* Puts `buffer` in the place of `before`, a buffer in which values are placed. */
clq_status clq_fused_replace(clq_fused *fused, const clq_buffer *before, clq_buffer *buffer);
/* Exchanges two buffers in which values are placed. */
clq_status clq_fused_swap(clq_fused *fused, clq_buffer *a, clq_buffer *b);
/* Runs the list's launches first .. end - 1, which must be among the fused ones, with the list's parameters. */
clq_status clq_fused_run(clq_fused *fused, clq_queue *queue, size_t first, size_t end, const clq_order *order);

#endif
