/* Central storage: variables lie in the host's memory, replicas compute gradients, and the store updates once for all
 * (tf.distribute's CentralStorageStrategy). With backup replicas it is the synchronous parameter server (Chen et al.,
 * "Revisiting distributed synchronous SGD", 2016). */
#include "strategy/modules/central.h"

/* Called by the thread that completes the round, with the lock held. Without backup replicas, all other replicas wait.
 * So their copies of the parameters are written in the same pass. */
static clq_status update(clq_strategy *strategy, const clq_step_params *params) {
    clq_rounds *rounds = strategy->own;
    clq_storage *storage = &rounds->storage;
    const float *gradients[CLQ_REPLICAS_MAX];
    float *copies[CLQ_REPLICAS_MAX];
    clq_store_change change = {
        .gradients = gradients, .rates = clq_rates_of_params(params), .average = params->average, .copies = copies};
    const bool all = rounds->needed == storage->count;
    uint64_t samples = 0, measured_by = 0;
    for (unsigned r = 0; r < storage->count; r++) {
        const clq_client *client = &storage->clients[r];
        clq_round_share *share = &rounds->shares[r];
        if (all && client->parameters) copies[change.copy_count++] = client->parameters;
        /* Without backup replicas, a replica without samples counts, too: it may have accumulated a gradient. */
        if (share->came && (all || share->samples > 0)) {
            gradients[change.count++] = client->gradient;
            samples += share->samples;
            measured_by |= UINT64_C(1) << r;
        }
        share->came = false;
    }
    if (storage->remote) return clq_storage_round(strategy, gradients, change.count, params);
    const double part = all ? 1.0 : (double)samples * (double)params->scale; /* the fraction of the batch that came */
    change.factor = (float)(1.0 / part);
    storage->version = clq_store_update(storage->store, &change);
    if (!all) {
        strategy->measured_by[params->slot] = measured_by;
        storage->origins[params->slot].part = part;
    }
    clq_storage_measure(strategy, params->slot, clq_store_gradient(storage->store));
    return CLQ_OK;
}

/* Whether as many gradients have arrived as are needed, and one of them has samples: a small batch may leave replicas
 * without samples. With store ranks, it may leave all replicas of this process without samples. */
static bool is_complete(const clq_rounds *rounds) {
    bool any = rounds->storage.remote != NULL;
    for (unsigned r = 0; r < rounds->storage.count; r++)
        any = any || (rounds->shares[r].came && rounds->shares[r].samples > 0);
    return any && rounds->arrived >= rounds->needed;
}

static unsigned first_missing(const clq_rounds *rounds) {
    unsigned late = 0;
    while (late + 1 < rounds->storage.count && rounds->shares[late].came) late++;
    return late;
}

/* Adds the replica's gradient to round `mine`, and waits until the update of that round is made. If the update is made
 * already, drops the gradient. */
static clq_status join(clq_replica *replica, uint64_t mine, const clq_step_params *params) {
    clq_rounds *rounds = clq_rounds_of(replica);
    clq_storage *storage = &rounds->storage;
    clq_round_share *share = &rounds->shares[replica->worker.index];
    const double until = clq_storage_until(storage);
    clq_status status = CLQ_OK;
    pthread_mutex_lock(&storage->lock);
    storage->pushed++;
    if (rounds->made > mine) {
        storage->dropped++;
    } else {
        share->came = true;
        share->samples = params->count;
        rounds->arrived++;
        if (is_complete(rounds) && (status = update(replica->strategy, params)) == CLQ_OK) {
            rounds->arrived = 0;
            rounds->made++;
            pthread_cond_broadcast(&storage->changed);
        }
        while (rounds->made == mine && status == CLQ_OK)
            status = clq_storage_await(storage, until, first_missing(rounds));
    }
    pthread_mutex_unlock(&storage->lock);
    return status;
}

/* Whether the round was made without this replica, which was busy with an earlier round. If so, counts the gradient as
 * dropped. */
static bool is_late(clq_rounds *rounds, uint64_t mine) {
    clq_storage *storage = &rounds->storage;
    pthread_mutex_lock(&storage->lock);
    const bool late = rounds->made > mine;
    if (late) storage->dropped++;
    pthread_mutex_unlock(&storage->lock);
    return late;
}

clq_status clq_rounds_step(clq_replica *replica, const clq_command *command) {
    clq_rounds *rounds = clq_rounds_of(replica);
    const uint64_t mine = rounds->shares[replica->worker.index].given++;
    const bool all = rounds->needed == rounds->storage.count;
    if (!all && is_late(rounds, mine)) {
        if (command->staged) clq_replica_free_slot(replica);
        return CLQ_OK;
    }
    if (!all) CLQ_TRY(clq_storage_pull(replica, 0, NULL));
    CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_BACKWARD));
    CLQ_TRY(clq_uploads_send_next(replica));
    CLQ_TRY(clq_storage_push(replica));
    const double began = clq_now();
    CLQ_TRY(join(replica, mine, &command->params));
    if (rounds->storage.remote)
        CLQ_TRY(clq_storage_take(replica));
    else if (all && !clq_client_of(replica)->parameters)
        CLQ_TRY(clq_storage_pull(replica, 0, NULL));
    return clq_storage_note_exchange(replica, began);
}

static clq_status open(clq_strategy *strategy) {
    static const clq_exchange_kind exchange = {.step = clq_rounds_step,
                                               .reduce = clq_storage_reduce,
                                               .collect = clq_storage_collect,
                                               .keeps = clq_storage_keeps};
    clq_rounds *rounds = strategy->own = clq_alloc(1, sizeof *rounds);
    if (!rounds) return CLQ_ERROR_MEMORY;
    rounds->needed = strategy->count;
    return clq_storage_open(strategy, &exchange);
}

const clq_strategy_module clq_strategy_central = {.kind = CLQ_STRATEGY_CENTRAL,
                                                  .name = "central",
                                                  .accumulates = true,
                                                  .runs_functions = true,
                                                  .stores = true,
                                                  .sums_in_step = true,
                                                  .prepare = clq_storage_prepare,
                                                  .open = open,
                                                  .close = clq_storage_close,
                                                  .abort = clq_storage_abort,
                                                  .apply = clq_storage_apply,
                                                  .write = clq_storage_write,
                                                  .squares = clq_storage_squares,
                                                  .origin = clq_storage_origin};
