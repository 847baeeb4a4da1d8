/* A stepper: a model's training step on one device with made-up samples, to be run and timed launch by launch. */
#ifndef CLQ_BENCH_STEPPER_H
#define CLQ_BENCH_STEPPER_H

#include "bench.h"

typedef struct clq_bench_stepper {
    clq_device *device;
    clq_plan *plan;
    size_t launches; /* of a step */
    /* All its batches, one behind the other, as they are uploaded: in pinned memory, as in training. */
    clq_buffer *images, *labels; /* u8, i32 */
    size_t batch, batches, next;
    size_t places; /* labels of a sample */
} clq_bench_stepper;

/* Trains with Adam from initial weights; samples of one byte per element, as they come from files. Release also after a
 * failure. */
clq_status clq_bench_stepper_open(clq_device *device, const clq_model *model, size_t batch, clq_tuning tuning,
                                  clq_bench_stepper *stepper);
void clq_bench_stepper_release(clq_bench_stepper *stepper); /* after its queues */

/* So many steps, each on the next batch: its upload and all its launches, waited for at the end. */
clq_status clq_bench_stepper_run(clq_bench_stepper *stepper, clq_queue *queue, size_t steps);

/* How a launch's time is taken: from the driver's record of when it ran, within steps that are not disturbed; or by the
 * host's clock around the launch and a wait. */
typedef enum clq_bench_timing { CLQ_BENCH_BY_PROFILE, CLQ_BENCH_ALONE } clq_bench_timing;

typedef struct clq_bench_step_times {
    clq_bench_timing timing;
    clq_bench_times *launches;      /* in the plan's order */
    clq_bench_times step, profiled; /* of a step, with its upload: as in training, and while launches are recorded */
} clq_bench_step_times;
/* Over as many steps. choice: NULL takes the profile where it agrees with the host's clock. The caller frees
 * out->launches with clq_free. */
clq_status clq_bench_stepper_time(clq_bench_stepper *stepper, clq_queue *queue, size_t warm_ups, size_t steps,
                                  const clq_bench_timing *choice, clq_bench_step_times *out);

#endif
