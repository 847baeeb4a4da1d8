/* Checks that replicas which must have the same weights do: each device hashes its weights, and the host compares. */
#include "strategy/module.h"

#include <inttypes.h>
#include <string.h>

/* The hashes of a replica's blocks. */
typedef struct hashes {
    uint64_t *parameters, *state;
} hashes;

/* The first replica whose weights must have the same bits as those of replica r. Devices of different kinds get
 * different bits from the same update, because their compilers round differently. With a sharded optimizer, one replica
 * computes each value for all, so all have the same bits. */
static unsigned first_alike(const clq_strategy *strategy, unsigned r) {
    for (unsigned i = 0; i < r; i++) {
        const clq_replica *a = &strategy->replicas[i], *b = &strategy->replicas[r];
        if (a->stage == b->stage &&
            (strategy->shards_optimizer || clq_selections_are_shared(a->worker.device, b->worker.device)))
            return i;
    }
    return r;
}

/* ---- when a strategy is opened ---- */

static clq_status compare_layout(const clq_strategy *strategy, unsigned a, unsigned b) {
    const clq_weights *left = strategy->replicas[a].weights, *right = strategy->replicas[b].weights;
    for (size_t v = 0; v < strategy->model->variable_count; v++)
        if (clq_weights_offset(left, v) != clq_weights_offset(right, v))
            return clq_fail(CLQ_ERROR_INTERNAL, "replicas %u and %u have '%s' in different places", a, b,
                            strategy->model->variables[v].name);
    return CLQ_OK;
}

static clq_status refuse(const clq_strategy *strategy, bool store) {
    if (store)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "strategy %s has one copy of the weights, in the host's memory: leave out the check of "
                        "replicas, or use strategy mirrored",
                        strategy->module->name);
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "strategy %s on these devices has no two replicas with the same weights, on devices that round "
                    "alike: leave out the check of replicas",
                    strategy->module->name);
}

clq_status clq_alike_open(const clq_strategy *strategy) {
    const bool store = strategy->module->stores && strategy->config.plan.update;
    bool any = false;
    for (unsigned r = 0; r < strategy->count && !store; r++) {
        const unsigned first = first_alike(strategy, r);
        any = any || first < r;
        CLQ_TRY(compare_layout(strategy, first, r));
    }
    return any || clq_strategy_spans(strategy) ? CLQ_OK : refuse(strategy, store);
}

/* ---- hashes ---- */

static clq_status run_hash(clq_worker *worker, const clq_command *command) {
    clq_weights *weights = clq_replica_of(worker)->weights;
    const hashes *to = command->to;
    CLQ_TRY(clq_weights_hash(weights, worker->queue, CLQ_ARENA_PARAMETERS, to->parameters));
    return clq_weights_hash(weights, worker->queue, CLQ_ARENA_STATE, to->state);
}
static const clq_command_kind hash_kind = {.name = "hash", .run = run_hash};

static clq_status open_hashes(const clq_weights *weights, hashes *out) {
    const size_t blocks = clq_weights_blocks(weights, CLQ_ARENA_STATE);
    out->parameters = clq_alloc(clq_weights_blocks(weights, CLQ_ARENA_PARAMETERS), sizeof *out->parameters);
    if (blocks > 0) out->state = clq_alloc(blocks, sizeof *out->state);
    return out->parameters && (out->state || blocks == 0) ? CLQ_OK : CLQ_ERROR_MEMORY;
}

/* The hash of a variable: a hash over those of its blocks. */
static uint64_t hash_of(const clq_strategy *strategy, const hashes *all, unsigned r, size_t variable) {
    const clq_weights *weights = strategy->replicas[r].weights;
    const bool state = clq_variable_arena(&strategy->model->variables[variable]) == CLQ_ARENA_STATE;
    const size_t first = clq_weights_offset(weights, variable) / CLQ_VARIABLE_ALIGN,
                 count = clq_ceil_div(clq_weights_variable_bytes(weights, variable), (size_t)CLQ_VARIABLE_ALIGN);
    return clq_hash128_of((state ? all[r].state : all[r].parameters) + first, count * sizeof(uint64_t), 0).low;
}

/* ---- what differs ---- */

/* Among the replicas that are like `first`, the lowest one with the hash that is the most frequent. */
static unsigned majority(const clq_strategy *strategy, const uint64_t *values, unsigned first) {
    unsigned best = first, most = 0;
    for (unsigned r = first; r < strategy->count; r++) {
        unsigned count = 0;
        for (unsigned k = first; k < strategy->count; k++)
            count += first_alike(strategy, k) == first && values[k] == values[r];
        if (first_alike(strategy, r) == first && count > most) best = r, most = count;
    }
    return best;
}

static clq_status tell(const clq_strategy *strategy, const uint64_t *values, unsigned first, size_t variable,
                       uint64_t step) {
    const unsigned reference = majority(strategy, values, first);
    clq_text text = {0};
    for (unsigned r = first; r < strategy->count; r++)
        if (first_alike(strategy, r) == first && values[r] != values[reference])
            clq_text_add(&text, "%s%016" PRIx64 " on replica %u (%s)", text.length ? ", " : "", values[r], r,
                         clq_device_label(strategy->replicas[r].worker.device));
    const clq_status status = clq_fail(
        CLQ_ERROR_REPLICAS_DIFFER,
        "step %" PRIu64 ": replicas have different weights in '%s': hash %016" PRIx64
        " on replica %u (%s), and %s; test the device with `clique doctor`, or leave it out",
        step, strategy->model->variables[variable].name, values[reference], reference,
        clq_device_label(strategy->replicas[reference].worker.device), text.data ? text.data : "another on others");
    clq_free(text.data);
    return status;
}

static bool is_of_all(const clq_strategy *strategy, size_t variable) {
    const clq_variable *v = &strategy->model->variables[variable];
    for (unsigned r = 0; r < strategy->count; r++)
        if (clq_replica_has_slice(&strategy->replicas[r], variable)) return false;
    return v->role != CLQ_ROLE_STATE || clq_variable_is_shared(v) || !strategy->outdated[CLQ_ARENA_STATE];
}

static clq_status compare(const clq_strategy *strategy, const hashes *all, uint64_t step) {
    for (size_t v = 0; v < strategy->model->variable_count; v++) {
        uint64_t values[CLQ_REPLICAS_MAX] = {0};
        if (!is_of_all(strategy, v)) continue;
        for (unsigned r = 0; r < strategy->count; r++) {
            if (clq_weights_offset(strategy->replicas[r].weights, v) == CLQ_NO_OFFSET) continue;
            const unsigned first = first_alike(strategy, r);
            values[r] = hash_of(strategy, all, r, v);
            if (values[r] == values[first]) continue;
            for (unsigned k = r + 1; k < strategy->count; k++)
                if (first_alike(strategy, k) == first) values[k] = hash_of(strategy, all, k, v);
            return tell(strategy, values, first, v, step);
        }
    }
    return CLQ_OK;
}

/* ---- other processes ---- */

/* A hash of a device's kind. It depends on what clq_selections_are_shared compares. */
static uint64_t kind_of(const clq_device *device, uint64_t seed) {
    const clq_device_info *info = clq_device_get_info(device);
    const char *const texts[] = {info->driver, info->name, info->driver_version};
    uint64_t kind = seed + info->compute_units;
    for (size_t i = 0; i < CLQ_COUNT_OF(texts); i++) kind = clq_hash128_of(texts[i], strlen(texts[i]), kind).low;
    return kind;
}

/* The first replica that has the variable. A stage has only some of them. */
static unsigned holder_of(const clq_strategy *strategy, size_t variable) {
    unsigned r = 0;
    while (clq_weights_offset(strategy->replicas[r].weights, variable) == CLQ_NO_OFFSET) r++;
    return r;
}

/* What a process tells the others about its first model, with which its other models were compared: the kind of the
 * devices, then the hash of each variable. The hash is 0 if each replica has its own values or its own slice. */
static void tell_first_model(const clq_strategy *strategy, const hashes *all, uint64_t *out) {
    out[0] = 0;
    for (unsigned r = 0; r < strategy->group; r++) out[0] = kind_of(strategy->replicas[r].worker.device, out[0]);
    for (size_t v = 0; v < strategy->model->variable_count; v++)
        out[1 + v] = is_of_all(strategy, v) ? hash_of(strategy, all, holder_of(strategy, v), v) : 0;
}

/* Among the ranks with devices of `rank`'s kind, the lowest one with the value that is the most frequent. */
static unsigned majority_of_ranks(const uint64_t *all, size_t width, unsigned size, unsigned rank, size_t at) {
    unsigned best = rank, most = 0;
    for (unsigned r = 0; r < size; r++) {
        unsigned count = 0;
        for (unsigned k = 0; k < size; k++)
            count += all[k * width] == all[rank * width] && all[k * width + at] == all[r * width + at];
        if (all[r * width] == all[rank * width] && count > most) best = r, most = count;
    }
    return best;
}

static clq_status compare_with_ranks(const clq_strategy *strategy, const uint64_t *all, size_t width, uint64_t step) {
    const clq_world *world = strategy->config.world;
    const unsigned size = clq_world_size(world), rank = clq_world_rank(world);
    for (size_t v = 0; v < strategy->model->variable_count; v++) {
        const unsigned most = majority_of_ranks(all, width, size, rank, 1 + v);
        const uint64_t mine = all[rank * width + 1 + v], right = all[most * width + 1 + v];
        if (mine != right)
            return clq_fail(CLQ_ERROR_REPLICAS_DIFFER,
                            "step %" PRIu64 ": processes have different weights in '%s': hash %016" PRIx64
                            " on %s, and %016" PRIx64 " on %s, whose device is of the same kind; test the device with "
                            "`clique doctor`, or leave it out",
                            step, strategy->model->variables[v].name, mine, clq_world_name(world, rank), right,
                            clq_world_name(world, most));
    }
    return CLQ_OK;
}

/* Compares the processes. status: the result of comparing this process's replicas. All processes call it. */
static clq_status check_ranks(clq_strategy *strategy, const hashes *own, uint64_t step, clq_status status) {
    clq_world *world = strategy->config.world;
    const size_t width = 1 + strategy->model->variable_count;
    if (!clq_strategy_spans(strategy)) return status;
    uint64_t *mine = clq_alloc(width, sizeof *mine), *all = clq_alloc(clq_world_size(world), width * sizeof *all);
    if (status == CLQ_OK && (!mine || !all)) status = CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) tell_first_model(strategy, own, mine);
    status = clq_world_check(world, status);
    if (status == CLQ_OK) status = clq_world_gather(world, mine, width * sizeof *mine, all);
    if (status == CLQ_OK) status = clq_world_check(world, compare_with_ranks(strategy, all, width, step));
    clq_free(mine);
    clq_free(all);
    return status;
}

clq_status clq_strategy_check_replicas(clq_strategy *strategy, uint64_t step, bool *checked) {
    const clq_kept kept = clq_exchange_kept(strategy);
    hashes all[CLQ_REPLICAS_MAX] = {{.state = NULL}};
    clq_status status = CLQ_OK;
    *checked = !kept.local_steps || *kept.local_steps == 0;
    if (!*checked) return CLQ_OK;
    status = clq_strategy_failure(strategy);
    for (unsigned r = 0; r < strategy->count && status == CLQ_OK; r++)
        status = open_hashes(strategy->replicas[r].weights, &all[r]);
    for (unsigned r = 0; r < strategy->count && status == CLQ_OK; r++)
        clq_channel_put(strategy->replicas[r].worker.commands, &(clq_command){.kind = &hash_kind, .to = &all[r]});
    if (status == CLQ_OK) status = clq_strategy_wait(strategy);
    if (status == CLQ_OK) status = compare(strategy, all, step);
    status = check_ranks(strategy, all, step, status);
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_free(all[r].parameters);
        clq_free(all[r].state);
    }
    return status;
}
