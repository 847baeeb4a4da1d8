/* Central storage: variables lie in the host's memory, replicas compute gradients, and the store updates once for all
 * (tf.distribute's CentralStorageStrategy). With backup replicas it is the synchronous parameter server (Chen et al.,
 * "Revisiting distributed synchronous SGD", 2016). */
#include "strategy/modules/central.h"

#include <string.h>

/* ---- waiting ---- */

double clq_central_until(const clq_central *central) { return clq_now_running() + central->deadline_s; }

clq_status clq_central_await(clq_central *central, double until, unsigned late) {
    if (atomic_load(&central->aborted)) return CLQ_ABORTED;
    if (clq_now_running() >= until)
        return clq_fail(CLQ_TIMEOUT, "replica %u (%s) did not come within the deadline of %g s (deadline_s)", late,
                        clq_device_label(central->strategy->replicas[late].worker.device), central->deadline_s);
    clq_lock_wait(&central->lock, &central->changed, CLQ_RUNNING_LOOK_S);
    return CLQ_OK;
}

void clq_central_abort(clq_strategy *strategy) {
    clq_central *central = strategy->own;
    pthread_mutex_lock(&central->lock);
    atomic_store(&central->aborted, true);
    pthread_cond_broadcast(&central->changed);
    pthread_mutex_unlock(&central->lock);
}

/* A barrier of all replicas' threads; the last to arrive does the work while the others wait. work NULL: none. */
static clq_status meet(clq_replica *replica, void (*work)(clq_strategy *strategy, const clq_step_params *params),
                       const clq_step_params *params) {
    clq_central *central = clq_central_of(replica);
    const double until = clq_central_until(central);
    clq_status status = CLQ_OK;
    pthread_mutex_lock(&central->lock);
    const uint64_t mine = central->meetings;
    if (++central->present < central->count) {
        clq_client_of(replica)->met = true;
        while (central->meetings == mine && status == CLQ_OK) {
            unsigned late = 0;
            while (late + 1 < central->count && central->clients[late].met) late++;
            status = clq_central_await(central, until, late);
        }
    } else { /* all others wait, so nobody wants the lock for long */
        if (work) work(replica->strategy, params);
        for (unsigned r = 0; r < central->count; r++) central->clients[r].met = false;
        central->present = 0;
        central->meetings++;
        pthread_cond_broadcast(&central->changed);
    }
    pthread_mutex_unlock(&central->lock);
    return status;
}

/* ---- between a replica and the store ---- */

/* Waits for an event and not for the queue to finish: the wait for an event has a deadline and can be aborted. */
clq_status clq_central_push(clq_replica *replica) {
    clq_central *central = clq_central_of(replica);
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
    const clq_status status = clq_event_wait_until(own->done, clq_central_until(central), &central->aborted);
    if (status != CLQ_TIMEOUT) return status;
    return clq_fail(status, "its gradient did not arrive within the deadline of %g s (deadline_s)",
                    central->deadline_s);
}

/* Copies an arena to the replica, whose device is idle, as at the end of a push. */
static clq_status bring(clq_replica *replica, clq_arena arena, const float *from) {
    clq_buffer *to = clq_weights_arena(replica->weights, arena);
    void *host = clq_buffer_host(to);
    if (!host) return clq_queue_write(replica->worker.queue, to, 0, from, clq_buffer_bytes(to), true);
    memcpy(host, from, clq_buffer_bytes(to));
    return CLQ_OK;
}

clq_status clq_central_pull(clq_replica *replica, uint64_t *version) {
    clq_store *store = clq_central_of(replica)->store;
    const uint64_t read = clq_store_begin_read(store);
    if (version) *version = read;
    const clq_status status = bring(replica, CLQ_ARENA_PARAMETERS, clq_store_parameters(store));
    clq_store_end_read(store);
    return status;
}

void clq_central_measure(const clq_strategy *strategy, uint32_t slot) {
    const clq_central *central = strategy->own;
    const clq_weights *weights = strategy->replicas[0].weights;
    const char *gradient = (const char *)clq_store_gradient(central->store);
    for (size_t v = 0; central->squares && v < strategy->model->variable_count; v++) {
        const clq_variable *variable = &strategy->model->variables[v];
        float *out = &central->squares[slot * strategy->model->variable_count + v];
        if (variable->role != CLQ_ROLE_TRAINABLE) continue;
        *out = (float)clq_square_sum_on_host((const float *)(const void *)(gradient + clq_weights_offset(weights, v)),
                                             variable->elements);
    }
}

/* ---- the synchronous step ---- */

/* By the thread that completes the step, with the lock held. Without backup replicas all others wait, so their copies
 * of the parameters are written in the same pass. */
static void update(clq_strategy *strategy, const clq_step_params *params) {
    clq_central *central = strategy->own;
    const float *gradients[CLQ_REPLICAS_MAX];
    float *copies[CLQ_REPLICAS_MAX];
    clq_store_change change = {
        .gradients = gradients, .rates = clq_rates_of_params(params), .average = params->average, .copies = copies};
    const bool all = central->needed == central->count;
    uint64_t samples = 0, measured_by = 0;
    for (unsigned r = 0; r < central->count; r++) {
        clq_client *client = &central->clients[r];
        if (all && client->parameters) copies[change.copy_count++] = client->parameters;
        /* Without backup replicas one without samples counts, too: it may have accumulated a gradient. */
        if (client->came && (all || client->samples > 0)) {
            gradients[change.count++] = client->gradient;
            samples += client->samples;
            measured_by |= UINT64_C(1) << r;
        }
        client->came = false;
    }
    const double part = all ? 1.0 : (double)samples * (double)params->scale; /* of the batch */
    change.factor = (float)(1.0 / part);
    central->version = clq_store_update(central->store, &change);
    if (!all) {
        strategy->measured_by[params->slot] = measured_by;
        central->origins[params->slot].part = part;
    }
    clq_central_measure(strategy, params->slot);
}

/* Adds the replica's gradient to step `mine`, and waits until that step is made. Drops the gradient where it was made.
 */
static clq_status join(clq_replica *replica, uint64_t mine, const clq_step_params *params) {
    clq_central *central = clq_central_of(replica);
    clq_client *own = clq_client_of(replica);
    const double until = clq_central_until(central);
    clq_status status = CLQ_OK;
    pthread_mutex_lock(&central->lock);
    central->pushed++;
    if (central->steps > mine) {
        central->dropped++;
    } else {
        own->came = true;
        own->samples = params->count;
        central->arrived++;
        bool any = false; /* samples: replicas may have none of a small batch */
        for (unsigned r = 0; r < central->count; r++)
            any = any || (central->clients[r].came && central->clients[r].samples > 0);
        if (any && central->arrived >= central->needed) {
            update(replica->strategy, params);
            central->arrived = 0;
            central->steps++;
            pthread_cond_broadcast(&central->changed);
        }
        while (central->steps == mine && status == CLQ_OK) {
            unsigned late = 0;
            while (late + 1 < central->count && central->clients[late].came) late++;
            status = clq_central_await(central, until, late);
        }
    }
    pthread_mutex_unlock(&central->lock);
    return status;
}

/* Whether the step was made without this replica, which was busy with one before. */
static bool is_late(clq_central *central, uint64_t mine) {
    pthread_mutex_lock(&central->lock);
    const bool late = central->steps > mine;
    if (late) central->dropped++;
    pthread_mutex_unlock(&central->lock);
    return late;
}

clq_status clq_central_note_exchange(clq_replica *replica, double began) {
    clq_peers_note_exposed(replica, (uint64_t)((clq_now() - began) * 1e9));
    if (!replica->worker.tracing) return CLQ_OK;
    return clq_timeline_add(&replica->exchanges, began, "update", "bytes",
                            clq_weights_arena_bytes(replica->weights, CLQ_ARENA_GRADIENT));
}

clq_status clq_central_step(clq_replica *replica, const clq_command *command) {
    clq_central *central = clq_central_of(replica);
    clq_client *own = clq_client_of(replica);
    const uint64_t mine = own->steps++;
    const bool all = central->needed == central->count;
    if (!all && is_late(central, mine)) {
        if (command->staged) clq_replica_free_slot(replica);
        return CLQ_OK;
    }
    if (!all) CLQ_TRY(clq_central_pull(replica, NULL));
    CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_BACKWARD));
    CLQ_TRY(clq_uploads_send_next(replica));
    CLQ_TRY(clq_central_push(replica));
    const double began = clq_now();
    CLQ_TRY(join(replica, mine, &command->params));
    if (all && !own->parameters) CLQ_TRY(clq_central_pull(replica, NULL));
    return clq_central_note_exchange(replica, began);
}

/* ---- the step by hand ---- */

static void sum_all(clq_strategy *strategy, const clq_step_params *params) {
    const clq_central *central = strategy->own;
    const float *gradients[CLQ_REPLICAS_MAX];
    (void)params;
    for (unsigned r = 0; r < central->count; r++) gradients[r] = central->clients[r].gradient;
    clq_store_sum(central->store, &(clq_store_change){.gradients = gradients, .count = central->count, .factor = 1.0f});
}

clq_status clq_central_reduce(clq_replica *replica) {
    CLQ_TRY(clq_central_push(replica));
    CLQ_TRY(meet(replica, sum_all, NULL));
    return bring(replica, CLQ_ARENA_GRADIENT, clq_store_gradient(clq_central_of(replica)->store));
}

static void update_by_sum(clq_strategy *strategy, const clq_step_params *params) {
    clq_central *central = strategy->own;
    const float *const gradients[] = {clq_store_gradient(central->store)};
    central->version = clq_store_update(central->store, &(clq_store_change){.gradients = gradients,
                                                                            .count = 1,
                                                                            .factor = 1.0f,
                                                                            .rates = clq_rates_of_params(params),
                                                                            .average = params->average});
    clq_central_measure(strategy, params->slot);
}

clq_status clq_central_apply(clq_replica *replica, const clq_step_params *params) {
    CLQ_TRY(meet(replica, update_by_sum, params));
    CLQ_TRY(clq_central_pull(replica, NULL));
    return meet(replica, NULL, NULL); /* else the next step of a replica that is ahead could change what others pull */
}

/* ---- what is apart ---- */

/* Copies the store's arena to every replica. A replica that is done waits for the others: its next step would change
 * the store. */
static clq_status run_fetch(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    CLQ_TRY(meet(replica, NULL, NULL));
    CLQ_TRY(clq_queue_finish(worker->queue));
    if (command->memory == CLQ_ARENA_PARAMETERS)
        CLQ_TRY(clq_central_pull(replica, NULL));
    else
        CLQ_TRY(bring(replica, CLQ_ARENA_GRADIENT, clq_store_gradient(clq_central_of(replica)->store)));
    return meet(replica, NULL, NULL);
}

static const clq_command_kind fetch_kind = {.name = "fetch", .run = run_fetch};

void clq_central_collect(clq_strategy *strategy, unsigned what) {
    clq_pool_post(&strategy->pool, &(clq_command){.kind = &fetch_kind, .memory = what});
}

clq_status clq_central_write(clq_strategy *strategy, size_t variable, const void *from) {
    const clq_variable *v = &strategy->model->variables[variable];
    clq_store *store = ((clq_central *)strategy->own)->store;
    if (!store || clq_variable_arena(v) != CLQ_ARENA_PARAMETERS) return CLQ_OK;
    CLQ_TRY(clq_strategy_wait(strategy)); /* so that no update of a posted step overwrites the value */
    clq_store_begin_write(store);
    memcpy((char *)clq_store_parameters(store) + clq_weights_offset(strategy->replicas[0].weights, variable), from,
           clq_variable_bytes(v));
    clq_store_end_write(store);
    return CLQ_OK;
}

void clq_central_keeps(clq_strategy *strategy, clq_kept *out) {
    out->store = ((const clq_central *)strategy->own)->store;
}

/* ---- life ---- */

clq_status clq_central_prepare(clq_strategy *strategy) {
    CLQ_TRY(clq_strategy_prepare_shares(strategy));
    strategy->replicas[0].measures_norms = false; /* the store does */
    strategy->config.plan.updated_elsewhere = strategy->config.plan.update != NULL;
    return CLQ_OK;
}

static clq_status open_client(clq_strategy *strategy, unsigned r) {
    const clq_weights *weights = strategy->replicas[r].weights;
    clq_client *client = &((clq_central *)strategy->own)->clients[r];
    client->parameters = clq_buffer_host(clq_weights_arena(weights, CLQ_ARENA_PARAMETERS));
    client->gradient = clq_buffer_host(clq_weights_arena(weights, CLQ_ARENA_GRADIENT));
    if (client->gradient) return CLQ_OK;
    CLQ_TRY(clq_buffer_create(strategy->replicas[r].worker.device, CLQ_MEMORY_PINNED,
                              clq_weights_arena_bytes(weights, CLQ_ARENA_GRADIENT), "the gradient on its way",
                              &client->pinned));
    client->gradient = clq_buffer_host(client->pinned);
    return CLQ_OK;
}

static clq_status open_figures(clq_strategy *strategy) {
    clq_central *central = strategy->own;
    const size_t slots = strategy->config.plan.metric_slots, variables = strategy->model->variable_count;
    central->origins = clq_alloc(slots, sizeof *central->origins);
    if (!central->origins) return CLQ_MEMORY;
    for (size_t i = 0; i < slots; i++) central->origins[i] = (clq_origin){.replica = -1, .part = 1.0};
    if (!strategy->config.plan.gradient_norms || !strategy->config.plan.update) return CLQ_OK;
    central->squares = clq_alloc(slots * CLQ_MAX(variables, (size_t)1), sizeof *central->squares);
    return central->squares ? CLQ_OK : CLQ_MEMORY;
}

/* For state alone: gradients go to the store. */
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
    clq_store_variable *variables = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *variables);
    if (!variables) return CLQ_MEMORY;
    for (uint32_t i = model->variable_count; i-- > 0;) /* as they lie in the arenas */
        if (model->variables[i].role == CLQ_ROLE_TRAINABLE)
            variables[config.variable_count++] =
                (clq_store_variable){.first = clq_values_count(CLQ_F32, clq_weights_offset(weights, i)),
                                     .floats = model->variables[i].elements,
                                     .spared = options->spared && options->spared[i],
                                     .optimizer = options->optimizer_of ? options->optimizer_of[i] : 0};
    config.variables = variables;
    const clq_status status = clq_store_create(&config, &((clq_central *)strategy->own)->store);
    clq_free(variables);
    return status;
}

clq_status clq_central_open(clq_strategy *strategy, const clq_exchange_kind *exchange) {
    clq_central *central = clq_alloc(1, sizeof *central);
    const clq_weights *weights = strategy->replicas[0].weights;
    if (!central) return CLQ_MEMORY;
    strategy->own = central;
    strategy->left_apart = 1u << CLQ_ARENA_GRADIENT;
    central->strategy = strategy;
    central->count = central->needed = strategy->count;
    central->deadline_s = clq_strategy_deadline(strategy);
    CLQ_TRY(clq_lock_create("the store's replicas", &central->lock, &central->changed));
    central->locked = true;
    CLQ_TRY(open_peers(strategy));
    CLQ_TRY(clq_exchange_choose(strategy, exchange));
    CLQ_TRY(open_figures(strategy));
    if (!strategy->config.plan.update) return CLQ_OK;
    if (clq_weights_dtype(weights, CLQ_ARENA_PARAMETERS) != CLQ_F32)
        return clq_fail(CLQ_UNSUPPORTED, "parameters in the host's memory are f32, and the model's are %s",
                        clq_dtype_name(clq_weights_dtype(weights, CLQ_ARENA_PARAMETERS)));
    for (unsigned r = 0; r < strategy->count; r++) CLQ_TRY(open_client(strategy, r));
    return open_store(strategy);
}

static clq_status open(clq_strategy *strategy) {
    static const clq_exchange_kind exchange = {.step = clq_central_step,
                                               .reduce = clq_central_reduce,
                                               .collect = clq_central_collect,
                                               .keeps = clq_central_keeps,
                                               .elsewhere = true};
    return clq_central_open(strategy, &exchange);
}

void clq_central_close(clq_strategy *strategy) {
    clq_central *central = strategy->own;
    if (!central) return;
    clq_store_destroy(central->store);
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_event_destroy(central->clients[r].done);
        clq_buffer_destroy(central->clients[r].pinned);
    }
    if (central->locked) {
        pthread_mutex_destroy(&central->lock);
        pthread_cond_destroy(&central->changed);
    }
    clq_free(central->squares);
    clq_free(central->origins);
    clq_free(central->histogram);
    clq_free(central->times);
    clq_free(central);
}

/* ---- reports ---- */

void clq_central_squares(const clq_strategy *strategy, uint32_t slot, float *out) {
    const size_t variables = strategy->model->variable_count;
    const clq_central *central = strategy->own;
    memcpy(out, central->squares + slot * variables, variables * sizeof *out);
}

clq_origin *clq_central_origin(const clq_strategy *strategy, uint32_t slot) {
    return &((clq_central *)strategy->own)->origins[slot];
}

clq_gradient_counts clq_strategy_gradient_counts(const clq_strategy *strategy) {
    const bool stored = strategy->module->stores;
    const clq_central *central = stored ? strategy->own : NULL;
    if (!central || !central->store) return (clq_gradient_counts){0};
    clq_gradient_counts counts = {.servers = clq_store_parts(central->store),
                                  .updates = central->version,
                                  .least = UINT64_MAX,
                                  .pushed = central->pushed,
                                  .dropped = central->dropped,
                                  .staleness = central->histogram,
                                  .bound = (size_t)central->bound};
    for (unsigned i = 0; i < counts.servers; i++) {
        const uint64_t made = clq_store_part_updates(central->store, i);
        counts.least = CLQ_MIN(counts.least, made);
        counts.most = CLQ_MAX(counts.most, made);
    }
    return counts;
}

const clq_strategy_module clq_strategy_central = {.kind = CLQ_STRATEGY_CENTRAL,
                                                  .name = "central",
                                                  .accumulates = true,
                                                  .runs_functions = true,
                                                  .stores = true,
                                                  .sums_in_step = true,
                                                  .prepare = clq_central_prepare,
                                                  .open = open,
                                                  .close = clq_central_close,
                                                  .abort = clq_central_abort,
                                                  .apply = clq_central_apply,
                                                  .write = clq_central_write,
                                                  .squares = clq_central_squares,
                                                  .origin = clq_central_origin};
