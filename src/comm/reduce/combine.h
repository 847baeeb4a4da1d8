/* The arithmetic of the collectives on a device: one kernel for every element type and operation (cl/comm.cl). */
#ifndef CLQ_COMM_COMBINE_H
#define CLQ_COMM_COMBINE_H

#include "device/device.h"
#include <clique/comm.h>

/* Compiles to the end, which may take seconds. Errors: UNSUPPORTED (bool; f64 where the device has none), and those of
 * clq_kernel_create and of a launch. */
clq_status clq_combine_create(clq_device *device, clq_dtype dtype, clq_redop op, clq_kernel **out);

typedef struct clq_place_at {
    clq_buffer *buffer;
    size_t offset; /* bytes, a multiple of the element's size */
} clq_place_at;

/* Enqueues to = operand op received, `bytes` of them. ranks: how many an average divides by; 0: none is taken yet.
 * order may be NULL. */
clq_status clq_combine_launch(clq_queue *queue, clq_kernel *kernel, clq_dtype dtype, clq_place_at to,
                              clq_place_at operand, clq_place_at received, size_t bytes, unsigned ranks,
                              const clq_order *order);

#endif
