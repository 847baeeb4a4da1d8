/* Replicas with a store: waiting, transfers, steps by hand, snapshots and reports. */
#include "strategy/exchange/storage.h"

#include <string.h>

static size_t arena_bytes(const clq_strategy *strategy) {
    return clq_weights_arena_bytes(strategy->replicas[0].weights, CLQ_ARENA_PARAMETERS);
}

/* ---- waiting ---- */

double clq_storage_until(const clq_storage *storage) { return clq_now_running() + storage->deadline_s; }

clq_status clq_storage_await(clq_storage *storage, double until, unsigned late) {
    if (atomic_load(&storage->aborted)) return CLQ_ERROR_ABORTED;
    if (clq_now_running() >= until)
        return clq_fail(CLQ_ERROR_TIMEOUT, "replica %u (%s) did not come within the deadline of %g s (deadline_s)",
                        late, clq_device_label(storage->strategy->replicas[late].worker.device), storage->deadline_s);
    clq_lock_wait(&storage->lock, &storage->changed, CLQ_RUNNING_LOOK_S);
    return CLQ_OK;
}

void clq_storage_abort(clq_strategy *strategy) {
    clq_storage *storage = strategy->own;
    pthread_mutex_lock(&storage->lock);
    atomic_store(&storage->aborted, true);
    pthread_cond_broadcast(&storage->changed);
    pthread_mutex_unlock(&storage->lock);
    /* Other processes may wait for the gradient of the replica that failed. */
    if (storage->remote) clq_world_fail(strategy->config.world, &strategy->pool.failure);
}

typedef clq_status (*common_work)(clq_strategy *strategy, const clq_step_params *params);

/* A barrier of all replicas' threads. The last thread to arrive does the work while the others wait. If the work fails,
 * the others wait until they are aborted. work NULL: none. */
static clq_status meet(clq_replica *replica, common_work work, const clq_step_params *params) {
    clq_storage *storage = clq_storage_of(replica);
    const double until = clq_storage_until(storage);
    clq_status status = CLQ_OK;
    pthread_mutex_lock(&storage->lock);
    const uint64_t mine = storage->meetings;
    if (++storage->present < storage->count) {
        clq_client_of(replica)->met = true;
        while (storage->meetings == mine && status == CLQ_OK) {
            unsigned late = 0;
            while (late + 1 < storage->count && storage->clients[late].met) late++;
            status = clq_storage_await(storage, until, late);
        }
    } else { /* all others wait, so the work may hold the lock */
        if (work) status = work(replica->strategy, params);
        for (unsigned r = 0; r < storage->count; r++) storage->clients[r].met = false;
        storage->present = 0;
        storage->meetings += status == CLQ_OK;
        pthread_cond_broadcast(&storage->changed);
    }
    pthread_mutex_unlock(&storage->lock);
    return status;
}

/* ---- between a replica and the store ---- */

/* Waits for an event, and not for the queue to finish: only the wait for an event has a deadline and can be aborted. */
clq_status clq_storage_push(clq_replica *replica) {
    clq_storage *storage = clq_storage_of(replica);
    clq_client *own = clq_client_of(replica);
    clq_queue *queue = replica->worker.queue;
    if (own->pinned) {
        CLQ_TRY(clq_queue_read_after(queue, clq_weights_arena(replica->weights, CLQ_ARENA_GRADIENT), 0,
                                     clq_buffer_host(own->pinned), clq_buffer_bytes(own->pinned),
                                     &(clq_order){.done = &own->done}));
        CLQ_TRY(clq_queue_flush(queue));
    } else {
        CLQ_TRY(clq_queue_mark_again(queue, &own->done));
    }
    const clq_status status = clq_event_wait_until(own->done, clq_storage_until(storage), &storage->aborted);
    if (status != CLQ_ERROR_TIMEOUT) return status;
    return clq_fail(status, "its gradient did not arrive within the deadline of %g s (deadline_s)",
                    storage->deadline_s);
}

/* Copies an arena to the replica. The replica's device must be idle, as it is at the end of a push. */
static clq_status bring(clq_replica *replica, clq_arena arena, const float *from) {
    clq_buffer *to = clq_weights_arena(replica->weights, arena);
    void *host = clq_buffer_host(to);
    if (!host) return clq_queue_write(replica->worker.queue, to, 0, from, clq_buffer_bytes(to), true);
    memcpy(host, from, clq_buffer_bytes(to));
    return CLQ_OK;
}

/* Where parameters from store ranks are received: in the device's memory if the host sees it, otherwise in
 * `landing`. */
static float *landing_of(const clq_replica *replica) {
    const clq_client *own = clq_client_of(replica);
    return own->parameters ? own->parameters : clq_buffer_host(own->landing);
}
static clq_status land(clq_replica *replica) {
    const clq_client *own = clq_client_of(replica);
    return own->parameters ? CLQ_OK : bring(replica, CLQ_ARENA_PARAMETERS, clq_buffer_host(own->landing));
}

clq_status clq_storage_pull(clq_replica *replica, uint64_t least, uint64_t *version) {
    const clq_storage *storage = clq_storage_of(replica);
    if (storage->remote) {
        CLQ_TRY(
            clq_remote_get(storage->remote, replica->worker.index, CLQ_ARRAY_PARAMETERS, least, landing_of(replica)));
        return land(replica);
    }
    const uint64_t read = clq_store_begin_read(storage->store);
    if (version) *version = read;
    const clq_status status = bring(replica, CLQ_ARENA_PARAMETERS, clq_store_parameters(storage->store));
    clq_store_end_read(storage->store);
    return status;
}

clq_status clq_storage_begin_far(clq_replica *replica) {
    const unsigned r = replica->worker.index;
    CLQ_TRY(clq_remote_begin(clq_storage_of(replica)->remote, r, replica->strategy->first + r, landing_of(replica)));
    return land(replica);
}

void clq_storage_measure(const clq_strategy *strategy, uint32_t slot, const float *gradient) {
    const clq_storage *storage = strategy->own;
    const clq_weights *weights = strategy->replicas[0].weights;
    for (size_t v = 0; storage->squares && v < strategy->model->variable_count; v++) {
        const clq_variable *variable = &strategy->model->variables[v];
        float *out = &storage->squares[slot * strategy->model->variable_count + v];
        if (variable->role != CLQ_ROLE_TRAINABLE) continue;
        *out = (float)clq_square_sum_on_host(gradient + clq_values_count(CLQ_F32, clq_weights_offset(weights, v)),
                                             variable->elements);
    }
}

clq_status clq_storage_note_exchange(clq_replica *replica, double began) {
    clq_peers_note_exposed(replica, (uint64_t)((clq_now() - began) * 1e9));
    if (!replica->worker.tracing) return CLQ_OK;
    return clq_timeline_add(&replica->exchanges, began, "update", "bytes",
                            clq_weights_arena_bytes(replica->weights, CLQ_ARENA_GRADIENT));
}

/* ---- rounds of store ranks ---- */

/* The sum of this process's gradients. A single gradient is not copied. */
static const float *add_up(const clq_storage *storage, const float *const *gradients, unsigned count) {
    float *sum = clq_remote_gradient(storage->remote);
    const size_t floats = clq_values_count(CLQ_F32, arena_bytes(storage->strategy));
    if (count == 1) return gradients[0];
    clq_sum_on_host(&(clq_host_update){
        .gradients = gradients, .gradient_count = count, .factor = 1.0f, .sum = sum, .floats = floats});
    return sum;
}

/* squares: in the order of the store ranks' variables, which is that of the arenas. */
static void keep_squares(const clq_strategy *strategy, uint32_t slot, const float *squares) {
    const clq_storage *storage = strategy->own;
    float *row = storage->squares + slot * strategy->model->variable_count;
    for (uint32_t i = strategy->model->variable_count; i-- > 0;)
        if (strategy->model->variables[i].role == CLQ_ROLE_TRAINABLE) row[i] = *squares++;
}

static clq_status run_round(clq_strategy *strategy, clq_request_kind kind, const float *from,
                            const clq_step_params *params, float *to) {
    const clq_storage *storage = strategy->own;
    const size_t variables = CLQ_MAX(strategy->model->variable_count, 1u);
    float *squares = storage->squares ? clq_alloc(variables, sizeof *squares) : NULL;
    if (storage->squares && !squares) return CLQ_ERROR_MEMORY;
    const uint64_t before = kind == CLQ_REQUEST_SUM ? strategy->replicas[0].behind : params->step - 1;
    const clq_status status = clq_remote_round(storage->remote, kind, before, from, params, to, squares);
    if (status == CLQ_OK && squares && kind != CLQ_REQUEST_SUM) keep_squares(strategy, params->slot, squares);
    clq_free(squares);
    return status;
}

clq_status clq_storage_round(clq_strategy *strategy, const float *const *gradients, unsigned count,
                             const clq_step_params *params) {
    clq_storage *storage = strategy->own;
    float *alone = storage->count == 1 ? storage->clients[0].parameters : NULL;
    storage->version = params->step;
    return run_round(strategy, CLQ_REQUEST_ROUND, add_up(storage, gradients, count), params,
                     alone ? alone : clq_remote_parameters(storage->remote));
}

clq_status clq_storage_take(clq_replica *replica) {
    const clq_storage *storage = clq_storage_of(replica);
    if (storage->count == 1 && storage->clients[0].parameters) return CLQ_OK; /* they were received there */
    return bring(replica, CLQ_ARENA_PARAMETERS, clq_remote_parameters(storage->remote));
}

/* ---- the step by hand ---- */

static const float *sum_of(const clq_storage *storage) {
    return storage->remote ? clq_remote_gradient(storage->remote) : clq_store_gradient(storage->store);
}

static clq_status sum_all(clq_strategy *strategy, const clq_step_params *params) {
    const clq_storage *storage = strategy->own;
    const float *gradients[CLQ_REPLICAS_MAX];
    (void)params;
    for (unsigned r = 0; r < storage->count; r++) gradients[r] = storage->clients[r].gradient;
    if (storage->remote)
        return run_round(strategy, CLQ_REQUEST_SUM, add_up(storage, gradients, storage->count), NULL,
                         clq_remote_gradient(storage->remote));
    clq_store_sum(storage->store, &(clq_store_change){.gradients = gradients, .count = storage->count, .factor = 1.0f});
    return CLQ_OK;
}

clq_status clq_storage_reduce(clq_replica *replica) {
    CLQ_TRY(clq_storage_push(replica));
    CLQ_TRY(meet(replica, sum_all, NULL));
    return bring(replica, CLQ_ARENA_GRADIENT, sum_of(clq_storage_of(replica)));
}

static clq_status update_by_sum(clq_strategy *strategy, const clq_step_params *params) {
    clq_storage *storage = strategy->own;
    if (storage->remote) {
        storage->version = params->step;
        return run_round(strategy, CLQ_REQUEST_BY_SUM, NULL, params, NULL);
    }
    const float *const gradients[] = {clq_store_gradient(storage->store)};
    storage->version = clq_store_update(storage->store, &(clq_store_change){.gradients = gradients,
                                                                            .count = 1,
                                                                            .factor = 1.0f,
                                                                            .rates = clq_rates_of_params(params),
                                                                            .average = params->average});
    clq_storage_measure(strategy, params->slot, gradients[0]);
    return CLQ_OK;
}

clq_status clq_storage_apply(clq_replica *replica, const clq_step_params *params) {
    CLQ_TRY(meet(replica, update_by_sum, params));
    CLQ_TRY(clq_storage_pull(replica, params->step, NULL));
    return meet(replica, NULL, NULL); /* otherwise a faster replica's next step could change what others still pull */
}

/* ---- making current ---- */

static clq_status get_gradient(clq_strategy *strategy, const clq_step_params *params) {
    const clq_storage *storage = strategy->own;
    if (!storage->remote) return CLQ_OK;
    return clq_remote_get(storage->remote, 0, CLQ_ARRAY_GRADIENT, params->step, clq_remote_gradient(storage->remote));
}

/* Copies the store's arena to every replica. A replica that is done waits for the others: its next step would change
 * the store. */
static clq_status run_fetch(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    const bool gradient = command->memory == CLQ_ARENA_GRADIENT;
    CLQ_TRY(meet(replica, gradient ? get_gradient : NULL, &command->params));
    CLQ_TRY(clq_queue_finish(worker->queue));
    if (gradient)
        CLQ_TRY(bring(replica, CLQ_ARENA_GRADIENT, sum_of(clq_storage_of(replica))));
    else
        CLQ_TRY(clq_storage_pull(replica, command->params.step, NULL));
    return meet(replica, NULL, NULL);
}

static const clq_command_kind fetch_kind = {.name = "fetch", .run = run_fetch};

/* Store ranks answer once all posted updates are made, of all processes. The barrier then keeps each process from
 * making the next update before all have what they asked for. A failure is not returned here: the next call meets it
 * again. */
void clq_storage_collect(clq_strategy *strategy, unsigned what) {
    const clq_storage *storage = strategy->own;
    clq_pool_post(&strategy->pool,
                  &(clq_command){.kind = &fetch_kind, .memory = what, .params.step = (uint32_t)strategy->posted});
    if (storage->remote && clq_strategy_wait(strategy) == CLQ_OK) (void)clq_world_barrier(strategy->config.world);
}

clq_status clq_storage_write(clq_strategy *strategy, size_t variable, const void *from) {
    const clq_variable *v = &strategy->model->variables[variable];
    const clq_storage *storage = strategy->own;
    const size_t first = clq_weights_offset(strategy->replicas[0].weights, variable), bytes = clq_variable_bytes(v);
    if ((!storage->store && !storage->remote) || clq_variable_arena(v) != CLQ_ARENA_PARAMETERS) return CLQ_OK;
    CLQ_TRY(clq_strategy_wait(strategy)); /* so that no update of a posted step overwrites the value */
    if (storage->remote)
        return clq_remote_put(storage->remote, CLQ_ARRAY_PARAMETERS, strategy->posted, first, bytes, from);
    clq_store_begin_write(storage->store);
    memcpy((char *)clq_store_parameters(storage->store) + first, from, bytes);
    clq_store_end_write(storage->store);
    return CLQ_OK;
}

/* ---- snapshots ---- */

void clq_storage_keeps(clq_strategy *strategy, clq_kept *out) {
    const clq_storage *storage = strategy->own;
    out->storage = storage->store || storage->remote ? storage : NULL;
}

unsigned clq_storage_states(const clq_storage *storage) {
    return storage->remote ? clq_remote_states(storage->remote) : clq_store_states(storage->store);
}

clq_status clq_storage_read_all(const clq_storage *storage, char *parameters, char *const *slots) {
    const size_t bytes = arena_bytes(storage->strategy);
    const unsigned states = clq_storage_states(storage);
    const uint64_t version = storage->strategy->posted;
    clq_store *store = storage->store;
    if (storage->remote) {
        clq_remote *remote = storage->remote;
        CLQ_TRY(clq_remote_get(remote, CLQ_REPLICAS_MAX, CLQ_ARRAY_PARAMETERS, version, (float *)(void *)parameters));
        for (unsigned k = 0; k < states; k++)
            CLQ_TRY(clq_remote_get(remote, CLQ_REPLICAS_MAX, CLQ_ARRAY_FIRST_STATE + k, version,
                                   (float *)(void *)slots[k]));
        return CLQ_OK;
    }
    (void)clq_store_begin_read(store);
    memcpy(parameters, clq_store_parameters(store), bytes);
    for (unsigned k = 0; k < states; k++) memcpy(slots[k], clq_store_state(store, k), bytes);
    clq_store_end_read(store);
    return CLQ_OK;
}

clq_status clq_storage_write_all(const clq_storage *storage, const char *parameters, char *const *slots) {
    const size_t bytes = arena_bytes(storage->strategy);
    const unsigned states = clq_storage_states(storage);
    const uint64_t version = storage->strategy->posted;
    clq_store *store = storage->store;
    if (storage->remote) {
        CLQ_TRY(clq_remote_put(storage->remote, CLQ_ARRAY_PARAMETERS, version, 0, bytes, parameters));
        for (unsigned k = 0; k < states; k++)
            CLQ_TRY(clq_remote_put(storage->remote, CLQ_ARRAY_FIRST_STATE + k, version, 0, bytes, slots[k]));
        return CLQ_OK;
    }
    clq_store_begin_write(store);
    memcpy(clq_store_parameters(store), parameters, bytes);
    for (unsigned k = 0; k < states; k++) memcpy(clq_store_state(store, k), slots[k], bytes);
    clq_store_end_write(store);
    return CLQ_OK;
}

/* ---- life ---- */

clq_status clq_storage_prepare(clq_strategy *strategy) {
    CLQ_TRY(clq_strategy_prepare_shares(strategy));
    strategy->replicas[0].measures_norms = false; /* the store measures them */
    strategy->config.plan.updated_elsewhere = strategy->config.plan.update != NULL;
    return CLQ_OK;
}

static clq_status open_client(clq_strategy *strategy, unsigned r) {
    const clq_weights *weights = strategy->replicas[r].weights;
    clq_client *client = &((clq_storage *)strategy->own)->clients[r];
    client->parameters = clq_buffer_host(clq_weights_arena(weights, CLQ_ARENA_PARAMETERS));
    client->gradient = clq_buffer_host(clq_weights_arena(weights, CLQ_ARENA_GRADIENT));
    if (!client->parameters && clq_world_apart(strategy->config.world) > 0)
        CLQ_TRY(clq_buffer_create(strategy->replicas[r].worker.device, CLQ_MEMORY_PINNED, arena_bytes(strategy),
                                  "parameters on their way", &client->landing));
    if (client->gradient) return CLQ_OK;
    CLQ_TRY(clq_buffer_create(strategy->replicas[r].worker.device, CLQ_MEMORY_PINNED,
                              clq_weights_arena_bytes(weights, CLQ_ARENA_GRADIENT), "the gradient on its way",
                              &client->pinned));
    client->gradient = clq_buffer_host(client->pinned);
    return CLQ_OK;
}

static clq_status open_figures(clq_strategy *strategy) {
    clq_storage *storage = strategy->own;
    const size_t slots = strategy->config.plan.metric_slots, variables = strategy->model->variable_count;
    storage->origins = clq_alloc(slots, sizeof *storage->origins);
    if (!storage->origins) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < slots; i++) storage->origins[i] = (clq_origin){.replica = -1, .part = 1.0};
    if (!strategy->config.plan.gradient_norms || !strategy->config.plan.update) return CLQ_OK;
    storage->squares = clq_alloc(slots * CLQ_MAX(variables, (size_t)1), sizeof *storage->squares);
    return storage->squares ? CLQ_OK : CLQ_ERROR_MEMORY;
}

/* Peers exchange only state, and sums within a step. Gradients go to the store. */
static clq_status open_peers(clq_strategy *strategy) {
    const clq_replica *first = &strategy->replicas[0];
    if (!clq_plan_exchanges(first->plan) && clq_weights_apart_bytes(first->weights) == 0) return CLQ_OK;
    return clq_strategy_make_peers(strategy, 0, 1, strategy->count);
}

static clq_status open_store(clq_strategy *strategy) {
    const clq_weights *weights = strategy->replicas[0].weights;
    const clq_model *model = strategy->model;
    const clq_update_options *options = &strategy->config.plan.update_options;
    clq_store_config config = {.optimizer = *strategy->config.plan.update,
                               .others = options->others,
                               .other_count = options->other_count,
                               .bytes = clq_weights_arena_bytes(weights, CLQ_ARENA_PARAMETERS),
                               .clip = options->clip,
                               .averages = options->averages};
    config.held = clq_weights_held(weights, &config.held_count);
    clq_store_variable *variables = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *variables);
    if (!variables) return CLQ_ERROR_MEMORY;
    for (uint32_t i = model->variable_count; i-- > 0;) /* in the order of the arenas */
        if (model->variables[i].role == CLQ_ROLE_TRAINABLE)
            variables[config.variable_count++] =
                (clq_store_variable){.first = clq_values_count(CLQ_F32, clq_weights_offset(weights, i)),
                                     .floats = model->variables[i].elements,
                                     .treatment = options->treatments ? options->treatments[i] : (clq_treatment){0}};
    config.variables = variables;
    clq_storage *storage = strategy->own;
    const clq_remote_config remote = {.store = config,
                                      .world = strategy->config.world,
                                      .replicas = strategy->count,
                                      .bound = storage->bound,
                                      .deadline_s = storage->deadline_s,
                                      .measures = storage->squares != NULL};
    const clq_status status = clq_world_apart(remote.world) > 0 ? clq_remote_open(&remote, &storage->remote)
                                                                : clq_store_create(&config, &storage->store);
    clq_free(variables);
    return status;
}

clq_status clq_storage_open(clq_strategy *strategy, const clq_exchange_kind *exchange) {
    clq_storage *storage = strategy->own;
    const clq_weights *weights = strategy->replicas[0].weights;
    strategy->step_outdates = 1u << CLQ_ARENA_GRADIENT;
    storage->strategy = strategy;
    storage->count = strategy->count;
    storage->deadline_s = clq_strategy_deadline(strategy);
    CLQ_TRY(clq_lock_create("the store's replicas", &storage->lock, &storage->changed));
    storage->locked = true;
    CLQ_TRY(open_peers(strategy));
    CLQ_TRY(clq_exchange_choose(strategy, exchange));
    CLQ_TRY(open_figures(strategy));
    if (!strategy->config.plan.update) return CLQ_OK;
    if (clq_weights_dtype(weights, CLQ_ARENA_PARAMETERS) != CLQ_F32)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "parameters in the host's memory are f32, and the model's are %s",
                        clq_dtype_name(clq_weights_dtype(weights, CLQ_ARENA_PARAMETERS)));
    for (unsigned r = 0; r < strategy->count; r++) CLQ_TRY(open_client(strategy, r));
    return open_store(strategy);
}

void clq_storage_close(clq_strategy *strategy) {
    clq_storage *storage = strategy->own;
    if (!storage) return;
    clq_store_destroy(storage->store);
    clq_remote_close(storage->remote);
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_event_destroy(storage->clients[r].done);
        clq_buffer_destroy(storage->clients[r].landing);
        clq_buffer_destroy(storage->clients[r].pinned);
    }
    if (storage->locked) {
        pthread_mutex_destroy(&storage->lock);
        pthread_cond_destroy(&storage->changed);
    }
    clq_free(storage->squares);
    clq_free(storage->origins);
    clq_free(storage->histogram);
    clq_free(storage);
}

/* ---- reports ---- */

void clq_storage_squares(const clq_strategy *strategy, uint32_t slot, float *out) {
    const size_t variables = strategy->model->variable_count;
    const clq_storage *storage = strategy->own;
    memcpy(out, storage->squares + slot * variables, variables * sizeof *out);
}

clq_origin *clq_storage_origin(const clq_strategy *strategy, uint32_t slot) {
    return &((clq_storage *)strategy->own)->origins[slot];
}

/* All zero if the store ranks cannot be asked any more. */
static clq_gradient_counts count_far(const clq_storage *storage) {
    clq_remote_counts all;
    if (clq_remote_count(storage->remote, storage->strategy->posted, &all, storage->histogram) != CLQ_OK)
        return (clq_gradient_counts){0};
    return (clq_gradient_counts){.servers = (unsigned)all.servers,
                                 .updates = all.updates,
                                 .least = all.least,
                                 .most = all.most,
                                 .pushed = all.pushed,
                                 .staleness = storage->histogram,
                                 .bound = (size_t)storage->bound};
}

clq_gradient_counts clq_strategy_gradient_counts(const clq_strategy *strategy) {
    const clq_storage *storage = strategy->module->stores ? strategy->own : NULL;
    if (storage && storage->remote) return count_far(storage);
    if (!storage || !storage->store) return (clq_gradient_counts){0};
    clq_gradient_counts counts = {.servers = clq_store_parts(storage->store),
                                  .updates = storage->version,
                                  .least = UINT64_MAX,
                                  .pushed = storage->pushed,
                                  .dropped = storage->dropped,
                                  .staleness = storage->histogram,
                                  .bound = (size_t)storage->bound};
    for (unsigned i = 0; i < counts.servers; i++) {
        const uint64_t made = clq_store_part_updates(storage->store, i);
        counts.least = CLQ_MIN(counts.least, made);
        counts.most = CLQ_MAX(counts.most, made);
    }
    return counts;
}
