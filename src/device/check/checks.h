/* The known-answer checks: each runs on a queue of its device and tells in *ok and `detail` what came out. A status is
 * a call that failed. */
#ifndef CLQ_DEVICE_CHECKS_H
#define CLQ_DEVICE_CHECKS_H

#include "device/device.h"

typedef struct clq_verdict {
    bool ok;
    char detail[CLQ_REASON_MAX];
} clq_verdict;

/* check_compute.c */
clq_status clq_check_arithmetic(clq_queue *queue, clq_verdict *out);
clq_status clq_check_vectors(clq_queue *queue, clq_verdict *out);
clq_status clq_check_long_loop(clq_queue *queue, clq_verdict *out);
clq_status clq_check_barrier(clq_queue *queue, clq_verdict *out);
clq_status clq_check_random(clq_queue *queue, clq_verdict *out);
/* check_memory.c. The last makes a device whose host memory is not coherent one with memory of its own. */
clq_status clq_check_copies(clq_queue *queue, clq_verdict *out);
clq_status clq_check_fills(clq_queue *queue, clq_verdict *out);
clq_status clq_check_offsets(clq_queue *queue, clq_verdict *out);
clq_status clq_check_host_memory(clq_queue *queue, clq_verdict *out);

/* check_coherence.c: for devices whose buffers the host sees */
clq_status clq_check_coherence(clq_queue *queue, clq_verdict *out);

/* A kernel of selftest.cl; those that every device is tested with when it is opened first are a program of their own.
 */
clq_status clq_check_kernel(clq_device *device, const char *function, clq_kernel **out);
void clq_verdict_wrong(clq_verdict *verdict, const char *format, ...) CLQ_PRINTF(2, 3);

#endif
