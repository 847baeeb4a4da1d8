/* The parameter server (Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014). In
 * asynchronous training, a whole batch goes to the next replica that is free. That replica reads the parameters,
 * computes the gradient, and has the store make an update by it, without the gradients of other replicas. The staleness
 * of an update is the number of updates between the replica's read of the parameters and this update. It has a bound,
 * for which replicas wait (bound.h). With a bound of 0, steps are synchronous (central.c).
 *
 * With several processes, the store lies on store ranks (remote.h). The first store rank keeps the bound over all
 * replicas, and hands out the steps. Every process goes through all steps, in the order of the data, and makes the
 * steps that it was given. */
#include "strategy/modules/ps.h"

/* ---- a replica's step ---- */

static clq_status read_parameters(clq_replica *replica) {
    clq_ps *ps = clq_ps_of(replica);
    clq_storage *storage = &ps->rounds.storage;
    clq_under_way *own = &ps->under_way[replica->worker.index];
    if (storage->remote) return clq_storage_begin_far(replica);
    const double until = clq_storage_until(storage);
    clq_status status = CLQ_OK;
    pthread_mutex_lock(&storage->lock);
    while ((ps->updating || !clq_bound_may_read(&ps->bound)) && status == CLQ_OK)
        status = clq_storage_await(storage, until, clq_bound_oldest(&ps->bound));
    *own = (clq_under_way){.is = status == CLQ_OK, .read = storage->version};
    pthread_mutex_unlock(&storage->lock);
    CLQ_TRY(status);
    /* By now the copied version may be a later one, which can only make the staleness smaller. */
    uint64_t read;
    status = clq_storage_pull(replica, 0, &read);
    pthread_mutex_lock(&storage->lock);
    own->read = read;
    pthread_cond_broadcast(&storage->changed);
    pthread_mutex_unlock(&storage->lock);
    return status;
}

/* Notes that a step was applied, and up to which step all steps were applied. Called with the lock held. */
static void note_applied(clq_ps *ps, uint64_t step) {
    const double before = ps->times[ps->finished % CLQ_STEP_TIMES].ended;
    ps->times[step % CLQ_STEP_TIMES].step = step;
    ps->times[step % CLQ_STEP_TIMES].ended = CLQ_MAX(clq_now(), before);
    for (uint64_t next = ps->finished + 1; ps->times[next % CLQ_STEP_TIMES].step == next; next++) {
        const double last = ps->times[ps->finished % CLQ_STEP_TIMES].ended;
        double *ended = &ps->times[next % CLQ_STEP_TIMES].ended;
        *ended = CLQ_MAX(*ended, last);
        ps->finished = next;
    }
}

static clq_status update_here(clq_replica *replica, const clq_step_params *params, uint64_t *staleness) {
    clq_ps *ps = clq_ps_of(replica);
    clq_storage *storage = &ps->rounds.storage;
    clq_under_way *own = &ps->under_way[replica->worker.index];
    const clq_client *client = clq_client_of(replica);
    const double until = clq_storage_until(storage);
    clq_status status = CLQ_OK;
    pthread_mutex_lock(&storage->lock);
    storage->pushed++;
    while ((ps->updating || !clq_bound_may_apply(&ps->bound, storage->version, replica->worker.index)) &&
           status == CLQ_OK)
        status = clq_storage_await(storage, until, clq_bound_oldest(&ps->bound));
    ps->updating = status == CLQ_OK;
    own->is = false;
    pthread_mutex_unlock(&storage->lock);
    CLQ_TRY(status);
    const uint64_t version = clq_store_update(storage->store, &(clq_store_change){.gradients = &client->gradient,
                                                                                  .count = 1,
                                                                                  .factor = 1.0f,
                                                                                  .rates = clq_rates_of_params(params),
                                                                                  .average = params->average});
    clq_storage_measure(replica->strategy, params->slot, clq_store_gradient(storage->store));
    pthread_mutex_lock(&storage->lock);
    *staleness = version - 1 - own->read;
    storage->version = version;
    ps->updating = false;
    storage->histogram[*staleness]++;
    pthread_mutex_unlock(&storage->lock);
    return CLQ_OK;
}

static clq_status update_far(clq_replica *replica, const clq_step_params *params, uint64_t *staleness) {
    const clq_client *client = clq_client_of(replica);
    const unsigned place = replica->strategy->first + replica->worker.index;
    CLQ_TRY(clq_remote_push(clq_storage_of(replica)->remote, replica->worker.index, place, client->gradient, params,
                            staleness));
    clq_storage_measure(replica->strategy, params->slot, client->gradient);
    return CLQ_OK;
}

static clq_status make_update(clq_replica *replica, const clq_step_params *params) {
    clq_ps *ps = clq_ps_of(replica);
    clq_storage *storage = &ps->rounds.storage;
    const unsigned place = replica->strategy->first + replica->worker.index;
    uint64_t staleness = 0;
    CLQ_TRY((storage->remote ? update_far : update_here)(replica, params, &staleness));
    pthread_mutex_lock(&storage->lock);
    storage->origins[params->slot] =
        (clq_origin){.replica = (int32_t)place, .staleness = (uint32_t)staleness, .part = 1.0};
    note_applied(ps, params->step);
    ps->clients[replica->worker.index].outstanding--;
    pthread_cond_broadcast(&storage->changed);
    pthread_mutex_unlock(&storage->lock);
    return CLQ_OK;
}

static clq_status asynchronous_step(clq_replica *replica, const clq_command *command) {
    clq_ps *ps = clq_ps_of(replica);
    clq_storage *storage = &ps->rounds.storage;
    CLQ_TRY(read_parameters(replica));
    const double began = clq_now();
    CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_BACKWARD));
    CLQ_TRY(clq_uploads_send_next(replica));
    CLQ_TRY(clq_storage_push(replica));
    const double pushed = clq_now();
    pthread_mutex_lock(&storage->lock);
    ps->clients[replica->worker.index].seconds = pushed - began;
    pthread_mutex_unlock(&storage->lock);
    CLQ_TRY(make_update(replica, &command->params));
    return clq_storage_note_exchange(replica, pushed);
}

/* An update by hand counts as a step, too. */
static clq_status apply(clq_replica *replica, const clq_step_params *params) {
    clq_ps *ps = clq_ps_of(replica);
    CLQ_TRY(clq_storage_apply(replica, params));
    if (!ps->asynchronous || replica->worker.index > 0) return CLQ_OK;
    pthread_mutex_lock(&ps->rounds.storage.lock);
    note_applied(ps, params->step);
    pthread_mutex_unlock(&ps->rounds.storage.lock);
    return CLQ_OK;
}

/* ---- handing out ---- */

static double fastest_of(const clq_ps *ps) {
    double fastest = ps->clients[0].seconds;
    for (unsigned r = 1; r < ps->rounds.storage.count; r++) fastest = CLQ_MIN(fastest, ps->clients[r].seconds);
    return fastest;
}

/* Finds a replica for the next batch. Called with the lock held. An idle replica comes first, round-robin. Otherwise a
 * replica that computes its last batch gets the next one, so that it need not wait for the poster. It must not be much
 * slower than the fastest replica; with `any`, it may be. Returns `count` if there is none. */
static unsigned find_free(const clq_ps *ps, bool any) {
    static const double slow = 2.0;
    const unsigned count = ps->rounds.storage.count;
    double fastest = fastest_of(ps);
    if (ps->elsewhere > 0) fastest = CLQ_MIN(fastest, ps->elsewhere);
    for (unsigned waiting = 0; waiting < 2; waiting++)
        for (unsigned i = 0; i < count; i++) {
            const unsigned r = (ps->last_given + 1 + i) % count;
            const clq_free_client *client = &ps->clients[r];
            if (client->outstanding == waiting && (waiting == 0 || any || client->seconds <= slow * fastest)) return r;
        }
    return count;
}

/* How long a process without a free replica waits until it asks again how many steps are handed out, in seconds. */
static const double ask_again_s = 5e-3;

/* Finds out, with store ranks, which process makes the step that is posted. *given: this process makes the step, by its
 * replica `next`. *known: false if the caller has to wait, because the step is not handed out yet, or because this
 * process has the step and no replica is free. Called with the lock held, and releases the lock while it asks. */
static clq_status look_for_owner(clq_strategy *strategy, unsigned next, bool *known, bool *given) {
    clq_ps *ps = strategy->own;
    clq_storage *storage = &ps->rounds.storage;
    const uint64_t step = strategy->posted;
    const bool is_free = next < storage->count;
    if (ps->mine < step && (is_free || ps->issued <= step)) {
        clq_answer_head head;
        const double fastest = fastest_of(ps);
        pthread_mutex_unlock(&storage->lock);
        const clq_status status = clq_remote_claim(storage->remote, step, is_free, fastest, &head);
        pthread_mutex_lock(&storage->lock);
        CLQ_TRY(status);
        if (head.step > 0) ps->mine = head.step;
        ps->issued = head.issued;
        ps->elsewhere = head.seconds;
    }
    *given = ps->mine == step && is_free;
    *known = *given || ps->mine > step || (ps->mine < step && ps->issued > step);
    return CLQ_OK;
}

/* Chooses the replica that gets the step that is posted. Returns `count` if no replica of this process gets it, or
 * after a failure. Called with the lock held. Waits without a deadline: the replicas that it waits for have one. */
static unsigned choose(clq_strategy *strategy) {
    clq_ps *ps = strategy->own;
    clq_storage *storage = &ps->rounds.storage;
    while (!atomic_load(&storage->aborted)) {
        /* If this process has the step, it does not wait for a better replica: no other process makes the step. */
        const unsigned next = find_free(ps, storage->remote && ps->mine == strategy->posted);
        bool known = true, given = next < storage->count;
        if (storage->remote && look_for_owner(strategy, next, &known, &given) != CLQ_OK) break;
        if (given) return next;
        if (storage->remote && known) break;
        clq_lock_wait(&storage->lock, &storage->changed, storage->remote ? ask_again_s : CLQ_RUNNING_LOOK_S);
    }
    return storage->count;
}

static void split(clq_strategy *strategy, const clq_command_kind *kind, size_t total, clq_batch_part *parts) {
    clq_ps *ps = strategy->own;
    clq_storage *storage = &ps->rounds.storage;
    const unsigned step = CLQ_COMMAND_BATCH | CLQ_COMMAND_ENDS_STEP;
    if (storage->remote && kind) (void)clq_remote_settle(storage->remote); /* the step meets a failure again */
    if (!ps->asynchronous || (kind && (kind->traits & step) != step)) {
        clq_strategy_split_shares(strategy, kind, total, parts);
        return;
    }
    for (unsigned r = 0; r < storage->count; r++) parts[r] = (clq_batch_part){.count = kind ? 0 : total};
    if (!kind) return; /* a report: a replica gets a whole batch */
    pthread_mutex_lock(&storage->lock);
    const unsigned next = choose(strategy);
    if (next < storage->count) {
        ps->clients[next].outstanding++;
        ps->last_given = next;
        parts[next] = (clq_batch_part){.count = total, .runs = true, .measures = true};
    } else if (storage->remote) {
        note_applied(ps, strategy->posted); /* another process makes the step, perhaps only later */
    }
    pthread_mutex_unlock(&storage->lock);
}

/* ---- life ---- */

static clq_status check(const clq_strategy *strategy) {
    const clq_strategy_options *options = &strategy->config.options;
    if (options->staleness < 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a staleness of %d is below 0: 0 is synchronous, 4 the default",
                        (int)options->staleness);
    if (options->staleness > CLQ_STALENESS_MAX) /* the histogram has a count for each staleness */
        return clq_fail(CLQ_ERROR_ARGUMENT, "a staleness of %d is too large: use at most %d", (int)options->staleness,
                        (int)CLQ_STALENESS_MAX);
    if (options->backup == 0) return CLQ_OK;
    if (options->staleness > 0)
        return clq_fail(
            CLQ_ERROR_ARGUMENT,
            "backup replicas need a staleness of 0, and it is %d: asynchronous updates wait for no replica; set 0, or "
            "leave out backup replicas",
            (int)options->staleness);
    if (options->backup >= strategy->count)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%u backup replicas of %u replicas leave none to train: use at most %u",
                        options->backup, strategy->count, strategy->count - 1);
    return CLQ_OK;
}

static clq_status prepare(clq_strategy *strategy) {
    CLQ_TRY(check(strategy));
    CLQ_TRY(clq_storage_prepare(strategy));
    if (strategy->config.options.staleness > 0) /* a batch is not split */
        for (unsigned r = 0; r < strategy->count; r++)
            strategy->replicas[r].capacity = (uint32_t)strategy->config.global_batch;
    return CLQ_OK;
}

static clq_status step(clq_replica *replica, const clq_command *command) {
    return clq_ps_of(replica)->asynchronous ? asynchronous_step(replica, command) : clq_rounds_step(replica, command);
}

static clq_status open(clq_strategy *strategy) {
    static const clq_exchange_kind exchange = {
        .step = step, .reduce = clq_storage_reduce, .collect = clq_storage_collect, .keeps = clq_storage_keeps};
    const clq_strategy_options *options = &strategy->config.options;
    clq_ps *ps = strategy->own = clq_alloc(1, sizeof *ps);
    if (!ps) return CLQ_ERROR_MEMORY;
    clq_storage *storage = &ps->rounds.storage;
    ps->asynchronous = options->staleness > 0;
    ps->rounds.needed = strategy->count - options->backup;
    storage->bound = (uint64_t)options->staleness;
    ps->bound = (clq_bound){.most = storage->bound, .places = ps->under_way, .count = strategy->count};
    strategy->by_batches = ps->asynchronous && clq_world_apart(strategy->config.world) > 0;
    CLQ_TRY(clq_storage_open(strategy, &exchange));
    if (!ps->asynchronous && options->backup == 0) return CLQ_OK;
    strategy->step_outdates |= 1u << CLQ_ARENA_PARAMETERS;
    clq_status status = CLQ_OK;
    if (strategy->config.plan.update && clq_plan_exchanges(strategy->replicas[0].plan))
        status = clq_fail(CLQ_ERROR_UNSUPPORTED,
                          "replicas add up sums in each step, for synchronized batch normalisation or a loss that "
                          "leaves masked steps out: use strategy ps with staleness 0 and no backup replicas, or "
                          "strategy mirrored");
    CLQ_TRY(clq_world_check(strategy->config.world, status));
    if (!ps->asynchronous || (!storage->store && !storage->remote)) return CLQ_OK;
    storage->histogram = clq_alloc((size_t)options->staleness + 1, sizeof *storage->histogram);
    ps->times = clq_alloc(CLQ_STEP_TIMES, sizeof *ps->times);
    return storage->histogram && ps->times ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static void close(clq_strategy *strategy) {
    clq_ps *ps = strategy->own;
    if (ps) clq_free(ps->times);
    clq_storage_close(strategy);
}

/* ---- reports ---- */

static bool progress(const clq_strategy *strategy, uint64_t step, uint64_t *done, double *ended) {
    clq_ps *ps = strategy->own;
    if (!ps->times) return false;
    pthread_mutex_lock(&ps->rounds.storage.lock);
    *done = ps->finished;
    *ended = ps->times[step % CLQ_STEP_TIMES].ended;
    pthread_mutex_unlock(&ps->rounds.storage.lock);
    return true;
}

static clq_status go_on(clq_strategy *strategy, uint64_t step) {
    clq_ps *ps = strategy->own;
    if (ps->rounds.storage.remote) CLQ_TRY(clq_remote_go_on(ps->rounds.storage.remote, step));
    ps->mine = ps->issued = 0;
    if (!ps->times) return CLQ_OK;
    pthread_mutex_lock(&ps->rounds.storage.lock);
    ps->finished = step;
    ps->times[step % CLQ_STEP_TIMES].step = step;
    ps->times[step % CLQ_STEP_TIMES].ended = clq_now();
    pthread_mutex_unlock(&ps->rounds.storage.lock);
    return CLQ_OK;
}

const clq_strategy_module clq_strategy_ps = {.kind = CLQ_STRATEGY_PS,
                                             .name = "ps",
                                             .accumulates = true,
                                             .runs_functions = true,
                                             .stores = true,
                                             .sums_in_step = true,
                                             .prepare = prepare,
                                             .open = open,
                                             .close = close,
                                             .abort = clq_storage_abort,
                                             .split = split,
                                             .apply = apply,
                                             .write = clq_storage_write,
                                             .go_on = go_on,
                                             .squares = clq_storage_squares,
                                             .origin = clq_storage_origin,
                                             .progress = progress};
