/* A stepper runs a model's training step on one device with made-up samples, and times it launch by launch. */
#ifndef CLQ_BENCH_STEPPER_H
#define CLQ_BENCH_STEPPER_H

#include "bench.h"

typedef struct clq_bench_stepper {
    clq_device *device;
    clq_plan *plan;
    size_t launches; /* in a step */
    /* All batches, one after the other, in the form that is uploaded; in pinned memory, as in training. */
    clq_buffer *images, *labels; /* u8, i32 */
    size_t batch, batches, next;
    size_t places; /* labels per sample */
} clq_bench_stepper;

/* Trains with Adam from the initial weights. Samples have one byte per element, as they come from files. Release the
 * stepper also after a failure. */
clq_status clq_bench_stepper_open(clq_device *device, const clq_model *model, size_t batch, clq_tuning tuning,
                                  clq_bench_stepper *stepper);
void clq_bench_stepper_release(clq_bench_stepper *stepper); /* its queues must be idle */

/* Runs `steps` steps, each on the next batch: its upload and all its launches. Waits once, at the end. */
clq_status clq_bench_stepper_run(clq_bench_stepper *stepper, clq_queue *queue, size_t steps);

/* How a launch is timed. BY_PROFILE: by the driver's record of when the launch ran, within undisturbed steps. ALONE: by
 * the host's clock, around the launch and a wait for it. */
typedef enum clq_bench_timing { CLQ_BENCH_BY_PROFILE, CLQ_BENCH_ALONE } clq_bench_timing;

typedef struct clq_bench_step_times {
    clq_bench_timing timing;
    clq_bench_times *launches;      /* in the plan's order */
    clq_bench_times step, profiled; /* a step with its upload: as in training; while launches are recorded */
} clq_bench_step_times;
/* Times `steps` steps. choice NULL: takes the driver's record if it agrees with the host's clock, otherwise ALONE. The
 * caller frees out->launches with clq_free. */
clq_status clq_bench_stepper_time(clq_bench_stepper *stepper, clq_queue *queue, size_t warm_ups, size_t steps,
                                  const clq_bench_timing *choice, clq_bench_step_times *out);

#endif
