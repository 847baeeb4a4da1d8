/* Recomputation that fits the devices' memory: how many bytes of activations each replica may have. A first strategy is
 * made only to count memory. Its plans are unbound, so that no kernel is built and activations take no memory. All else
 * that a training allocates is there. The rest of a device's budget is for activations. */
#include "strategy/module.h"

/* What one replica's device has to hold. */
typedef struct needs {
    uint64_t budget, used; /* used: without activations */
    uint64_t later;        /* bytes for binding plans that are made now and later, and for outputs of predictions */
    uint64_t activations;  /* of one plan */
    unsigned plans;        /* how many plans have activations at the same time */
} needs;

/* A plan for prediction has buffers for the model's outputs, in place of losses. */
static uint64_t output_bytes(const clq_model *model, size_t capacity) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < model->output_count; i++) {
        const clq_model_tensor *output = clq_model_output(model, i);
        bytes += capacity * clq_values_bytes(output->dtype, output->elements);
    }
    return bytes;
}

/* out: by replica. */
static clq_status count(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config,
                        clq_recompute_kind recompute, needs *out) {
    enum { BYTES_FOR_A_LAUNCH = 1024, BYTES_FOR_PLANS = 64 << 10 };
    clq_strategy_config counting = *config;
    clq_strategy *strategy;
    counting.plan.recompute = recompute;
    counting.plan.unbound = true;
    counting.tuning = CLQ_TUNING_OFF;
    counting.world = NULL; /* each process counts by itself */
    CLQ_TRY(clq_strategy_make(model, devices, &counting, NULL, &strategy));
    for (unsigned r = 0; r < strategy->count; r++) {
        const clq_replica *replica = &strategy->replicas[r];
        clq_plan_memory memory;
        clq_plan_get_memory(replica->plan, &memory);
        out[r] = (needs){.budget = clq_device_memory_budget(replica->worker.device),
                         .used = clq_device_memory_used(replica->worker.device),
                         .later = BYTES_FOR_PLANS +
                                  BYTES_FOR_A_LAUNCH * clq_list_launch_count(clq_plan_list(replica->plan)) +
                                  output_bytes(model, replica->capacity),
                         .activations = memory.activation_bytes,
                         .plans = CLQ_MAX(replica->flights, 1u)};
    }
    clq_strategy_destroy(strategy);
    return CLQ_OK;
}

static uint64_t whole(const needs *n) { return n->used + n->plans * n->activations + n->later; }

/* The first replica whose device has too little memory; `count`: none. */
static unsigned too_large(const needs *n, unsigned count) {
    unsigned r = 0;
    while (r < count && whole(&n[r]) <= n[r].budget) r++;
    return r;
}

/* Halves the batch until it fits, and returns this batch; 0: none fits. */
static size_t batch_that_fits(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config) {
    needs n[CLQ_REPLICAS_MAX];
    clq_strategy_config smaller = *config;
    for (size_t batch = config->global_batch / 2; batch >= config->total; batch /= 2) {
        smaller.global_batch = batch;
        if (count(model, devices, &smaller, CLQ_RECOMPUTE_ALL, n) == CLQ_OK &&
            too_large(n, devices->count) == devices->count)
            return batch;
    }
    return 0;
}

static clq_status refuse(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config,
                         const needs *n, unsigned replica) {
    const size_t batch = batch_that_fits(model, devices, config);
    clq_text fits = {0};
    if (batch > 0)
        clq_text_add(&fits, "a batch of %zu would fit", batch);
    else
        clq_text_add(&fits, "no smaller batch would fit");
    /* Exact bytes: a user can give this number as the memory limit, and it would be enough. */
    const clq_status status = clq_fail(
        CLQ_ERROR_DEVICE_MEMORY,
        "replica %u: a batch of %zu needs %llu bytes even with the most recomputation, and %llu are allowed: %s",
        replica, config->global_batch, (unsigned long long)whole(n), (unsigned long long)n->budget,
        fits.failed ? "" : fits.data);
    clq_free(fits.data);
    return status;
}

/* AUTO: no recomputation if that fits. Otherwise as much as makes the plans fit. */
static clq_status make_fitting(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config,
                               clq_strategy **out) {
    needs n[CLQ_REPLICAS_MAX];
    size_t most[CLQ_REPLICAS_MAX];
    CLQ_TRY(count(model, devices, config, CLQ_RECOMPUTE_OFF, n));
    if (too_large(n, devices->count) == devices->count) return clq_strategy_make(model, devices, config, NULL, out);
    for (unsigned r = 0; r < devices->count; r++) {
        const uint64_t taken = n[r].used + n[r].later;
        most[r] = (size_t)((n[r].budget - CLQ_MIN(n[r].budget, taken)) / n[r].plans);
    }
    CLQ_TRY(count(model, devices, config, CLQ_RECOMPUTE_ALL, n));
    const unsigned refused = too_large(n, devices->count);
    if (refused < devices->count) return refuse(model, devices, config, &n[refused], refused);
    return clq_strategy_make(model, devices, config, most, out);
}

clq_status clq_strategy_create(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config,
                               clq_strategy **out) {
    CLQ_TRY(clq_devices_check(devices));
    const bool fits = config->plan.recompute == CLQ_RECOMPUTE_AUTO && config->plan.update;
    clq_strategy_config counted = *config;
    CLQ_TRY(clq_ranks_count(&counted, devices));
    CLQ_TRY(clq_strategy_check(&counted, devices->count));
    return fits ? make_fitting(model, devices, &counted, out) : clq_strategy_make(model, devices, &counted, NULL, out);
}
