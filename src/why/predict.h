/* Rows of predictions: from probes to a step of each strategy. Arithmetic alone; decisions/055 derives it. Private to
 * why. */
#ifndef CLQ_WHY_PREDICT_H
#define CLQ_WHY_PREDICT_H

#include "why/why.h"

/* How much longer what a device does takes beside the others: by memory, and by arithmetic, each as far as the step
 * consists of it. */
typedef struct clq_slowing {
    double memory, cores;
} clq_slowing;

/* What a row says of a step: all but waiting for the pipeline, and for the caller's thread where the step is shorter
 * than what that does. */
typedef struct clq_outline {
    clq_step_parts parts; /* mean over replicas */
    clq_slowing slow;     /* likewise */
    double posts;         /* that the caller's thread makes */
    bool bubble;          /* who waits does for another stage */
    const double *shares; /* given: (replicas) how mirrored shares a batch out, in proportion; NULL: evenly */
} clq_outline;

/* One of a row's functions. False: not with so many, or nothing was probed for it. */
typedef bool (*clq_predict_fn)(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_single(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_mirrored(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_sharded(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_central(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_asynchronous(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_pipeline(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_tensor(const clq_probes *probes, const clq_way *way, clq_outline *out);

/* clq_why_predict_one, with such shares. */
bool clq_predict_by_shares(const clq_probes *probes, const clq_way *way, const double *shares, clq_prediction *out);

/* Compute, or the largest of the other parts; which limits sharing and waiting stand for (predict.c). */
clq_limit clq_limit_of(const clq_step_parts *parts, clq_limit sharing, clq_limit waiting);

/* What rows share (predict_alone.c). */
const clq_group_probe *clq_group_of(const clq_probes *probes, unsigned count); /* NULL: none was probed */
double clq_step_alone(const clq_device_probe *device, size_t batch);
/* Whether a step of so many samples fits the device's memory, as far as probes found. */
bool clq_step_fits(const clq_device_probe *device, size_t batch);
/* The parts of a step of one batch or of several on a device that trains alone, which together are it. */
clq_step_parts clq_parts_alone(const clq_probes *probes, const clq_device_probe *device, size_t batch, size_t batches);
/* Adding a batch's gradient to those before it. */
double clq_adding_seconds(const clq_probes *probes, const clq_device_probe *device);
double clq_parts_sum(const clq_step_parts *parts);
void clq_parts_add(clq_step_parts *to, const clq_step_parts *more, double factor);
clq_slowing clq_slowing_of(const clq_probes *probes, const clq_group_probe *group, unsigned replica);
double clq_host_seconds(const clq_probes *probes, unsigned replicas); /* of the caller's thread, beside the devices */

#endif
