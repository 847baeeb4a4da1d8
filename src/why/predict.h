/* Rows of predictions: from probes to a step of each strategy. Arithmetic alone; decisions/055 derives it. Private to
 * why. */
#ifndef CLQ_WHY_PREDICT_H
#define CLQ_WHY_PREDICT_H

#include "why/why.h"

/* How much longer a device's step takes beside the others, as a part of the step. memory: because of memory traffic,
 * weighted by its part of the step. cores: the same for arithmetic. */
typedef struct clq_slowing {
    double memory, cores;
} clq_slowing;

/* What a row says of a step. It leaves out waiting for the input pipeline, and for a caller's thread that takes longer
 * than the step. */
typedef struct clq_outline {
    clq_step_parts parts; /* mean over replicas */
    clq_slowing slow;     /* mean over replicas */
    double posts;         /* how often the caller's thread posts work in a step, to all replicas together */
    bool bubble;          /* replicas wait for other stages of a pipeline */
    const double *shares; /* given: (replicas) the proportions in which mirrored shares a batch out; NULL: evenly */
} clq_outline;

/* Predicts a row. False: the row does not take so many replicas, or nothing was probed for it. */
typedef bool (*clq_predict_fn)(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_single(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_mirrored(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_sharded(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_central(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_asynchronous(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_pipeline(const clq_probes *probes, const clq_way *way, clq_outline *out);
bool clq_predict_tensor(const clq_probes *probes, const clq_way *way, clq_outline *out);

/* clq_why_predict_one with these shares (clq_outline). */
bool clq_predict_by_shares(const clq_probes *probes, const clq_way *way, const double *shares, clq_prediction *out);

/* What limits a step: COMPUTE, or the largest of the other parts. sharing, waiting: the limits that these two parts
 * stand for (predict.c). */
clq_limit clq_limit_of(const clq_step_parts *parts, clq_limit sharing, clq_limit waiting);

/* What rows share (predict_alone.c). */
const clq_group_probe *clq_group_of(const clq_probes *probes, unsigned count); /* NULL: none was probed */
double clq_step_alone(const clq_device_probe *device, size_t batch);
/* Whether a step of `batch` samples fits the device's memory, as far as probes found. */
bool clq_step_fits(const clq_device_probe *device, size_t batch);
/* The parts of a step of `batches` batches on a device that trains alone. They add up to the step. */
clq_step_parts clq_parts_alone(const clq_probes *probes, const clq_device_probe *device, size_t batch, size_t batches);
/* Seconds to add a batch's gradient to the earlier ones. */
double clq_adding_seconds(const clq_probes *probes, const clq_device_probe *device);
double clq_parts_sum(const clq_step_parts *parts);
void clq_parts_add(clq_step_parts *to, const clq_step_parts *more, double factor);
clq_slowing clq_slowing_of(const clq_probes *probes, const clq_group_probe *group, unsigned replica);
/* Seconds that the caller's thread adds to a step, if it takes a core from the devices; otherwise 0. */
double clq_host_seconds(const clq_probes *probes, unsigned replicas);

#endif
