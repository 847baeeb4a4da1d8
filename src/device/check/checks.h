/* The known-answer checks. Each check runs on a queue of the device that it tests. If the device gives a wrong answer,
 * the check sets out->ok to false and tells why in out->detail. The status only tells whether a call failed. */
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
/* check_memory.c. If a device's host memory is not coherent, clq_check_host_memory turns the device into one with
 * memory of its own. */
clq_status clq_check_copies(clq_queue *queue, clq_verdict *out);
clq_status clq_check_fills(clq_queue *queue, clq_verdict *out);
clq_status clq_check_offsets(clq_queue *queue, clq_verdict *out);
clq_status clq_check_host_memory(clq_queue *queue, clq_verdict *out);

/* check_coherence.c: for devices whose buffers the host sees (clq_buffer_host) */
clq_status clq_check_coherence(clq_queue *queue, clq_verdict *out);

/* Makes a kernel of selftest.cl. The kernels of the start-up test (clq_device_self_test) are a program of their
 * own. */
clq_status clq_check_kernel(clq_device *device, const char *function, clq_kernel **out);
void clq_verdict_wrong(clq_verdict *verdict, const char *format, ...) CLQ_PRINTF(2, 3);

#endif
