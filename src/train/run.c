/* Runs the caller's functions on each replica, and provides what they may call. */
#include "train/distribute.h"

#include <float.h>
#include <math.h>

struct clq_replica_run {
    clq_trainer *trainer;
    clq_replica_call *call;
    clq_mode mode;
};

typedef struct run {
    clq_trainer *trainer;
    const clq_distributed_batch *batch; /* NULL: none */
    clq_mode mode;
    clq_replica_function function;
    void *context;
} run;

/* ---- what the function calls ---- */

static clq_status compute(clq_replica_context *replica, clq_mode mode, double scale) {
    const struct clq_replica_run *own = replica->own;
    if (own->mode != mode)
        return clq_fail(CLQ_ERROR_STATE, mode == CLQ_MODE_TRAIN
                                             ? "clq_replica_gradients is for functions of clq_run"
                                             : "clq_replica_evaluate is for functions of clq_run_evaluation");
    if (mode == CLQ_MODE_TRAIN && own->trainer->config.inference_only)
        return clq_fail(CLQ_ERROR_STATE, "an inference-only trainer makes no gradients");
    if (!replica->batch) return clq_fail(CLQ_ERROR_STATE, "the run has no batch to compute on: give clq_run one");
    return clq_replica_call_compute(own->call, scale);
}

clq_status clq_replica_gradients(clq_replica_context *replica, double scale) {
    if (!(fabs(scale) <= (double)FLT_MAX))
        return clq_fail(CLQ_ERROR_ARGUMENT, "a loss cannot be scaled by %g: expected what float32 can hold", scale);
    return compute(replica, CLQ_MODE_TRAIN, scale);
}

clq_status clq_replica_evaluate(clq_replica_context *replica) {
    return compute(replica, CLQ_MODE_EVALUATE, 1.0 / (double)CLQ_MAX(replica->global_count, (size_t)1));
}

clq_status clq_replica_read_sized(clq_replica_context *replica, clq_totals *out, size_t out_bytes) {
    double *row = clq_alloc(clq_trainer_width(replica->own->trainer), sizeof *row);
    clq_status status = row ? clq_replica_call_read(replica->own->call, row) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) {
        clq_totals totals = {.samples = replica->batch->count};
        clq_trainer_tell(replica->own->trainer, row, totals.samples, &totals.loss, &totals.metrics);
        clq_struct_give(&totals, sizeof totals, out, out_bytes);
    }
    clq_free(row);
    return status;
}

/* ---- the run ---- */

static clq_status run_replica(void *context, unsigned index, clq_replica_call *call) {
    const run *r = context;
    struct clq_replica_run own = {.trainer = r->trainer, .call = call, .mode = r->mode};
    clq_replica_context replica = {.index = index,
                                   .replicas = clq_trainer_replicas(r->trainer),
                                   .device = clq_device_get_info(clq_strategy_device(r->trainer->strategy, index)),
                                   .batch = r->batch ? &r->batch->parts[index] : NULL,
                                   .global_count = r->batch ? r->trainer->parts->total : 0,
                                   .own = &own};
    return r->function(&replica, r->context);
}

static clq_status take_parts(clq_trainer *trainer, const clq_distributed_batch *batch, clq_mode mode) {
    const unsigned replicas = clq_trainer_replicas(trainer);
    if (batch->replicas != replicas)
        return clq_fail(CLQ_ERROR_ARGUMENT, "the batch has parts for %u replica%s and the trainer has %u",
                        batch->replicas, clq_plural(batch->replicas), replicas);
    if (!trainer->parts) trainer->parts = clq_alloc(1, sizeof *trainer->parts);
    if (!trainer->parts) return CLQ_ERROR_MEMORY;
    return clq_trainer_take_parts(trainer, batch->parts, mode == CLQ_MODE_TRAIN ? CLQ_TO_TRAIN : CLQ_TO_EVALUATE,
                                  trainer->parts);
}

static clq_status run_on_replicas(run *r, const char *name) {
    clq_trainer *trainer = r->trainer;
    bool computed[CLQ_REPLICAS_MAX] = {false}, all;
    CLQ_TRY(clq_trainer_refuse_call(trainer, name));
    CLQ_TRY(clq_strategy_failure(trainer->strategy));
    CLQ_TRY(clq_strategy_may_run(trainer->strategy));
    if (r->batch && r->mode == CLQ_MODE_TRAIN) CLQ_TRY(clq_trainer_refuse_local_steps(trainer));
    if (r->batch && r->mode == CLQ_MODE_TRAIN && trainer->accumulated > 0)
        return clq_fail(CLQ_ERROR_STATE,
                        "clq_step_accumulate began an update: clq_run comes after the step that ends it");
    if (r->batch) CLQ_TRY(take_parts(trainer, r->batch, r->mode));
    if (r->mode == CLQ_MODE_EVALUATE) CLQ_TRY(clq_trainer_keep_last_step(trainer));
    const clq_strategy_call call = {.mode = r->mode,
                                    .parts = r->batch ? trainer->parts->rows : NULL,
                                    .params = clq_trainer_forward_params(trainer),
                                    .run = run_replica,
                                    .context = r,
                                    .computed = computed};
    trainer->running = true;
    clq_status status = clq_strategy_run(trainer->strategy, &call, &all);
    trainer->running = false;
    if (status == CLQ_ERROR_STATE && r->mode == CLQ_MODE_TRAIN) trainer->gradient = CLQ_GRADIENT_NONE;
    CLQ_TRY(status);
    if (all && r->mode == CLQ_MODE_TRAIN) clq_trainer_end_batch(trainer, trainer->parts->total, true);
    if (all && r->mode == CLQ_MODE_EVALUATE) trainer->rows++;
    return CLQ_OK;
}

clq_status clq_run(clq_trainer *trainer, const clq_distributed_batch *batch, clq_replica_function function,
                   void *context) {
    run r = {.trainer = trainer, .batch = batch, .mode = CLQ_MODE_TRAIN, .function = function, .context = context};
    return run_on_replicas(&r, "clq_run");
}

clq_status clq_run_evaluation(clq_trainer *trainer, const clq_distributed_batch *batch, clq_replica_function function,
                              void *context) {
    run r = {.trainer = trainer, .batch = batch, .mode = CLQ_MODE_EVALUATE, .function = function, .context = context};
    return run_on_replicas(&r, "clq_run_evaluation");
}

/* ---- metrics ---- */

struct clq_metric_sums {
    const clq_trainer *trainer;
    unsigned width;
    clq_per_replica *sums; /* number of samples, then a row of metrics */
};

clq_status clq_metric_sums_create(const clq_trainer *trainer, clq_metric_sums **out) {
    clq_metric_sums *sums = clq_alloc(1, sizeof *sums);
    if (!sums) return CLQ_ERROR_MEMORY;
    sums->trainer = trainer;
    sums->width = clq_trainer_width(trainer);
    clq_status status =
        clq_per_replica_create(clq_trainer_replicas(trainer), 1, (size_t[]){sums->width + 1}, &sums->sums);
    if (status != CLQ_OK)
        clq_free(sums);
    else
        *out = sums;
    return status;
}

void clq_metric_sums_destroy(clq_metric_sums *sums) {
    if (sums) clq_per_replica_destroy(sums->sums);
    clq_free(sums);
}

clq_status clq_metric_sums_add(clq_metric_sums *sums, clq_replica_context *replica) {
    double *own = clq_per_replica_of(sums->sums, replica->index);
    if (replica->own->trainer != sums->trainer)
        return clq_fail(CLQ_ERROR_ARGUMENT, "these sums were made for another trainer");
    double *row = clq_alloc(sums->width, sizeof *row);
    clq_status status = row ? clq_replica_call_read(replica->own->call, row) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) own[0] += (double)replica->batch->count;
    for (unsigned k = 0; k < sums->width && status == CLQ_OK; k++) own[k + 1] += row[k];
    clq_free(row);
    return status;
}

void clq_metric_sums_read_sized(const clq_metric_sums *sums, clq_totals *out, size_t out_bytes) {
    double row[CLQ_METRICS_ROW_MAX + 1];
    (void)clq_per_replica_reduce(sums->sums, CLQ_REDUCE_SUM, CLQ_NO_AXIS, row, sums->width + 1);
    clq_totals totals = {.samples = (size_t)row[0]};
    clq_trainer_tell(sums->trainer, row + 1, totals.samples, &totals.loss, &totals.metrics);
    clq_struct_give(&totals, sizeof totals, out, out_bytes);
}

clq_status clq_metric_sums_read_matrix(const clq_metric_sums *sums, size_t index, uint64_t *counts) {
    double row[CLQ_METRICS_ROW_MAX + 1];
    (void)clq_per_replica_reduce(sums->sums, CLQ_REDUCE_SUM, CLQ_NO_AXIS, row, sums->width + 1);
    return clq_trainer_take_matrix(sums->trainer, row + 1, index, counts);
}

void clq_metric_sums_reset(clq_metric_sums *sums) { clq_per_replica_clear(sums->sums); }
