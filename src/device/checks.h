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
/* check_memory.c */
clq_status clq_check_copies(clq_queue *queue, clq_verdict *out);
clq_status clq_check_fills(clq_queue *queue, clq_verdict *out);
clq_status clq_check_offsets(clq_queue *queue, clq_verdict *out);
clq_status clq_check_host_memory(clq_queue *queue, clq_verdict *out);

void clq_verdict_wrong(clq_verdict *verdict, const char *format, ...) CLQ_PRINTF(2, 3);

#endif
