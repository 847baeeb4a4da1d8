/* The arithmetic of the collectives on a device: one kernel for every element type and operation (cl/comm.cl). */
#ifndef CLQ_COMM_COMBINE_H
#define CLQ_COMM_COMBINE_H

#include "device/device.h"
#include <clique/comm.h>

/* Makes the kernel, and launches it once so that the driver has compiled it completely. That may take seconds. Errors:
 * UNSUPPORTED (bool; f64 if the device has none), and those of clq_kernel_create and of a launch. */
clq_status clq_combine_create(clq_device *device, clq_dtype dtype, clq_redop op, clq_kernel **out);

typedef struct clq_place_at {
    clq_buffer *buffer;
    size_t offset; /* bytes, a multiple of the element's size */
} clq_place_at;

/* Enqueues to = operand op received, for `bytes` bytes. ranks: what an average divides by; 0: no division (another
 * operation, or a sum that is not complete yet). order may be NULL. */
clq_status clq_combine_launch(clq_queue *queue, clq_kernel *kernel, clq_dtype dtype, clq_place_at to,
                              clq_place_at operand, clq_place_at received, size_t bytes, unsigned ranks,
                              const clq_order *order);

#endif
