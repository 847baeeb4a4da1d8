/* Variables in host memory, and the threads that update them. */
#include "strategy/exchange/store.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const size_t part_bytes_least = 64 << 10;

typedef struct server {
    clq_store *store;
    size_t first, floats; /* its part */
    uint64_t updates;     /* written by its thread, between put and wait of its channel */
    /* (variables) sums of squares over what the part has of each variable; NULL: not needed. */
    double *squares;    /* of the gradient */
    double (*steps)[2]; /* of the weights, and of the direction of their step */
    clq_channel *work;  /* NULL: the first part, which has no thread */
    clq_thread *thread;
} server;

struct clq_store {
    clq_optimizer optimizers[CLQ_OPTIMIZERS_MAX]; /* the main one, and the others */
    unsigned optimizer_count, states_count;       /* states_count: of the optimizer that has most */
    clq_clip clip;
    size_t bytes;
    float *parameters, *gradient, *states[CLQ_UPDATE_STATES_MAX], *average;
    clq_store_variable *variables; /* (variable_count) if they are updated one by one; else NULL */
    size_t variable_count;
    const clq_held *held; /* (held_count) */
    size_t held_count;
    float *factors; /* (variables) factors that clip the gradient; NULL: it is not clipped by a norm */
    float *ratios;  /* (variables) norm(weights) / norm(direction); NULL: no optimizer has a trust ratio */
    server servers[CLQ_STORE_PARTS_MAX];
    unsigned parts;
    /* Readers and updates under way; under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool locked; /* the lock was made */
    unsigned readers;
    bool writing;
    uint64_t version;
};

/* ---- the servers ---- */

typedef enum task { SUM, MEASURE, DIRECT, UPDATE, FOLLOW } task;
typedef struct order {
    const clq_store_change *change; /* lives until the task is done */
    task kind;
} order;

/* The range of a variable that lies in the server's part; false: none. */
static bool own_range(const server *s, const clq_store_variable *variable, size_t *first, size_t *end) {
    *first = CLQ_MAX(variable->first, s->first);
    *end = CLQ_MIN(variable->first + variable->floats, s->first + s->floats);
    return *first < *end;
}

static void measure(const server *s) {
    const clq_store *store = s->store;
    size_t first, end;
    for (size_t v = 0; v < store->variable_count; v++)
        s->squares[v] = own_range(s, &store->variables[v], &first, &end)
                            ? clq_square_sum_on_host(store->gradient + first, end - first)
                            : 0;
}

/* Updates variable by variable. The gaps between variables stay. DIRECT: only the first pass of optimizers with a trust
 * ratio. */
static void update_variables(const server *s, const order *o, clq_host_update update) {
    const clq_store *store = s->store;
    for (size_t v = 0; v < store->variable_count; v++) {
        const clq_store_variable *variable = &store->variables[v];
        const clq_optimizer *optimizer = &store->optimizers[variable->treatment.optimizer];
        clq_update_rates rates = o->change->rates.of[variable->treatment.optimizer];
        size_t end;
        if (o->kind == DIRECT) s->steps[v][0] = s->steps[v][1] = 0;
        if (!own_range(s, variable, &update.first, &end)) continue;
        update.floats = end - update.first;
        if (store->factors) update.factor = store->factors[v];
        if (store->ratios) update.ratio = store->ratios[v];
        if (variable->treatment.spared) rates.decay = 0;
        if (o->kind == UPDATE)
            clq_update_on_host(optimizer, &update, &rates, o->change->average);
        else if (clq_optimizer_has_trust_ratio(optimizer))
            clq_directions_on_host(optimizer, &update, &rates, s->steps[v]);
    }
}

/* Changes the variables that a property changes after each update (held), in the parameters and their copies. Each
 * server takes some of these variables, and takes them whole. */
static void follow(const server *s, const clq_store_change *change) {
    const clq_store *store = s->store;
    for (size_t i = (size_t)(s - store->servers); i < store->held_count; i += store->parts) {
        const clq_held *held = &store->held[i];
        const size_t first = held->block * CLQ_UPDATE_BLOCK;
        clq_follow_on_host(held, store->parameters);
        for (unsigned k = 0; k < change->copy_count; k++)
            memcpy(change->copies[k] + first, store->parameters + first,
                   held->variable->elements * sizeof *store->parameters);
    }
}

/* Whether an update first sums the gradients in a pass of its own. */
static bool sums_first(const clq_store *store) { return store->factors || store->ratios; }

static void serve(server *s, const order *o) {
    const clq_store *store = s->store;
    if (o->kind == FOLLOW) {
        follow(s, o->change);
        return;
    }
    const float *const summed[] = {store->gradient};
    clq_host_update update = {.w = store->parameters,
                              .gradients = o->change->gradients,
                              .gradient_count = o->change->count,
                              .factor = o->change->factor,
                              .sum = store->gradient,
                              .average = store->average,
                              .limit = store->clip.kind == CLQ_CLIP_VALUE ? (float)store->clip.limit : 0,
                              .copies = o->change->copies,
                              .copy_count = o->change->copy_count,
                              .first = s->first,
                              .floats = s->floats};
    for (unsigned i = 0; i < CLQ_UPDATE_STATES_MAX; i++) update.states[i] = store->states[i];
    if (o->kind != UPDATE || sums_first(store)) {
        if (o->kind == SUM) clq_sum_on_host(&update);
        if (o->kind == MEASURE) measure(s);
        update.gradients = summed;
        update.gradient_count = 1;
        update.sum = NULL;
    }
    if (o->kind == SUM || o->kind == MEASURE) return;
    if (store->variables)
        update_variables(s, o, update);
    else
        clq_update_on_host(&store->optimizers[0], &update, &o->change->rates.of[0], o->change->average);
    if (o->kind == UPDATE) s->updates++;
}

static void drive(void *context) {
    server *s = context;
    order o;
    while (clq_channel_take(s->work, &o)) {
        serve(s, &o);
        clq_channel_done(s->work);
    }
}

static void serve_all(clq_store *store, const clq_store_change *change, task kind) {
    const order o = {.change = change, .kind = kind};
    for (unsigned i = 1; i < store->parts; i++) clq_channel_put(store->servers[i].work, &o);
    serve(&store->servers[0], &o);
    for (unsigned i = 1; i < store->parts; i++) clq_channel_wait(store->servers[i].work);
}

/* The factor that clips a gradient, as in Keras. NaN stays NaN. */
static float factor_of(const clq_store *store, double squares) {
    const double norm = sqrt(squares);
    return norm <= store->clip.limit ? 1.0f : (float)(store->clip.limit / norm);
}

/* Parts are added in their order. */
static void find_factors(clq_store *store) {
    double all = 0;
    for (size_t v = 0; v < store->variable_count; v++) {
        double squares = 0;
        for (unsigned i = 0; i < store->parts; i++) squares += store->servers[i].squares[v];
        store->factors[v] = factor_of(store, squares);
        all += squares;
    }
    for (size_t v = 0; v < store->variable_count && store->clip.kind == CLQ_CLIP_GLOBAL_NORM; v++)
        store->factors[v] = factor_of(store, all);
}

static void find_ratios(clq_store *store) {
    for (size_t v = 0; v < store->variable_count; v++) {
        double weights = 0, direction = 0;
        for (unsigned i = 0; i < store->parts; i++) {
            weights += store->servers[i].steps[v][0];
            direction += store->servers[i].steps[v][1];
        }
        store->ratios[v] = weights != 0 && direction != 0 ? (float)(sqrt(weights) / sqrt(direction)) : 1.0f;
    }
}

/* ---- readers and writers ---- */

uint64_t clq_store_begin_read(clq_store *store) {
    pthread_mutex_lock(&store->lock);
    while (store->writing) pthread_cond_wait(&store->changed, &store->lock);
    store->readers++;
    const uint64_t version = store->version;
    pthread_mutex_unlock(&store->lock);
    return version;
}

void clq_store_end_read(clq_store *store) {
    pthread_mutex_lock(&store->lock);
    if (--store->readers == 0) pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

/* Readers that come while an update waits have to wait: otherwise reads could delay updates forever. */
void clq_store_begin_write(clq_store *store) {
    pthread_mutex_lock(&store->lock);
    while (store->writing) pthread_cond_wait(&store->changed, &store->lock);
    store->writing = true;
    while (store->readers > 0) pthread_cond_wait(&store->changed, &store->lock);
    pthread_mutex_unlock(&store->lock);
}

static uint64_t end_write(clq_store *store, unsigned updates) {
    pthread_mutex_lock(&store->lock);
    store->writing = false;
    store->version += updates;
    const uint64_t version = store->version;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
    return version;
}

void clq_store_end_write(clq_store *store) { (void)end_write(store, 0); }

uint64_t clq_store_update(clq_store *store, const clq_store_change *change) {
    clq_store_begin_write(store);
    if (sums_first(store)) serve_all(store, change, SUM);
    if (store->factors) {
        serve_all(store, change, MEASURE);
        find_factors(store);
    }
    if (store->ratios) {
        serve_all(store, change, DIRECT);
        find_ratios(store);
    }
    serve_all(store, change, UPDATE);
    if (store->held_count > 0) serve_all(store, change, FOLLOW);
    return end_write(store, 1);
}

void clq_store_sum(clq_store *store, const clq_store_change *change) {
    clq_store_begin_write(store);
    serve_all(store, change, SUM);
    (void)end_write(store, 0);
}

/* ---- life ---- */

static clq_status make_array(const clq_store *store, float **out) {
    *out = clq_alloc_aligned(CLQ_VARIABLE_ALIGN, store->bytes);
    return *out ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static clq_status make_arrays(clq_store *store, const clq_store_config *config) {
    bool spares = false;
    CLQ_TRY(make_array(store, &store->parameters));
    CLQ_TRY(make_array(store, &store->gradient));
    for (unsigned i = 0; i < store->states_count; i++) CLQ_TRY(make_array(store, &store->states[i]));
    if (config->averages) CLQ_TRY(make_array(store, &store->average));
    bool clips = clq_clips_by_norm(&config->clip), ratios = false;
    for (unsigned i = 0; i < store->optimizer_count; i++)
        ratios = ratios || clq_optimizer_has_trust_ratio(&store->optimizers[i]);
    const size_t variables = CLQ_MAX(config->variable_count, (size_t)1);
    for (size_t v = 0; v < config->variable_count; v++) spares = spares || config->variables[v].treatment.spared;
    if (!clips && !ratios && !spares && config->other_count == 0) return CLQ_OK;
    store->variable_count = config->variable_count;
    if (!(store->variables = clq_alloc(variables, sizeof *store->variables))) return CLQ_ERROR_MEMORY;
    memcpy(store->variables, config->variables, store->variable_count * sizeof *store->variables);
    if (clips && !(store->factors = clq_alloc(variables, sizeof *store->factors))) return CLQ_ERROR_MEMORY;
    if (ratios && !(store->ratios = clq_alloc(variables, sizeof *store->ratios))) return CLQ_ERROR_MEMORY;
    return CLQ_OK;
}

static size_t part_begin(const clq_store *store, unsigned part) {
    return store->bytes / CLQ_VARIABLE_ALIGN * part / store->parts * CLQ_VARIABLE_ALIGN;
}

void clq_store_part(const clq_store *store, unsigned part, size_t *begin, size_t *end) {
    *begin = part_begin(store, part);
    *end = part_begin(store, part + 1);
}

static clq_status start_server(clq_store *store, unsigned part) {
    server *s = &store->servers[part];
    size_t begin, end;
    char name[16];
    clq_store_part(store, part, &begin, &end);
    s->store = store;
    s->first = clq_values_count(CLQ_F32, begin);
    s->floats = clq_values_count(CLQ_F32, end - begin);
    const size_t variables = CLQ_MAX(store->variable_count, (size_t)1);
    if (store->factors && !(s->squares = clq_alloc(variables, sizeof *s->squares))) return CLQ_ERROR_MEMORY;
    if (store->ratios && !(s->steps = clq_alloc(variables, sizeof *s->steps))) return CLQ_ERROR_MEMORY;
    if (part == 0) return CLQ_OK;
    snprintf(name, sizeof name, "server %u", part % 1000u);
    CLQ_TRY(clq_channel_create(sizeof(order), 1, &s->work));
    return clq_thread_start(name, drive, s, &s->thread);
}

/* A small part costs more to hand over than to update. */
static unsigned parts_of(size_t bytes, unsigned wanted) {
    const size_t lines = bytes / CLQ_VARIABLE_ALIGN, fitting = CLQ_MAX(bytes / part_bytes_least, (size_t)1);
    const size_t parts = wanted ? wanted : CLQ_MIN((size_t)clq_cpu_count(), fitting);
    return (unsigned)CLQ_MIN(CLQ_MIN(parts, lines), (size_t)CLQ_STORE_PARTS_MAX);
}

static void take_optimizers(clq_store *store, const clq_store_config *config) {
    store->optimizers[0] = config->optimizer;
    for (unsigned i = 0; i < config->other_count; i++) store->optimizers[1 + i] = config->others[i];
    store->optimizer_count = 1 + config->other_count;
    for (unsigned i = 0; i < store->optimizer_count; i++)
        store->states_count = CLQ_MAX(store->states_count, clq_optimizer_states(&store->optimizers[i]));
}

clq_status clq_store_create(const clq_store_config *config, clq_store **out) {
    clq_store *store = clq_alloc(1, sizeof *store);
    if (!store) return CLQ_ERROR_MEMORY;
    take_optimizers(store, config);
    store->clip = config->clip;
    store->held = config->held;
    store->held_count = config->held_count;
    store->bytes = config->bytes;
    store->parts = parts_of(config->bytes, config->parts);
    clq_status status;
    CLQ_TRY_OR(fail, status, clq_lock_create("the store", &store->lock, &store->changed));
    store->locked = true;
    CLQ_TRY_OR(fail, status, make_arrays(store, config));
    for (unsigned i = 0; i < store->parts; i++) CLQ_TRY_OR(fail, status, start_server(store, i));
    *out = store;
    return CLQ_OK;
fail:
    clq_store_destroy(store);
    return status;
}

void clq_store_destroy(clq_store *store) {
    if (!store) return;
    for (unsigned i = 0; i < store->parts; i++) {
        if (store->servers[i].thread) clq_channel_close(store->servers[i].work);
        clq_thread_join(store->servers[i].thread);
        clq_channel_destroy(store->servers[i].work);
        clq_free(store->servers[i].squares);
        clq_free(store->servers[i].steps);
    }
    if (store->locked) {
        pthread_mutex_destroy(&store->lock);
        pthread_cond_destroy(&store->changed);
    }
    clq_free(store->parameters);
    clq_free(store->gradient);
    for (unsigned i = 0; i < CLQ_UPDATE_STATES_MAX; i++) clq_free(store->states[i]);
    clq_free(store->average);
    clq_free(store->variables);
    clq_free(store->factors);
    clq_free(store->ratios);
    clq_free(store);
}

/* ---- reports ---- */

float *clq_store_parameters(const clq_store *store) { return store->parameters; }
unsigned clq_store_states(const clq_store *store) { return store->states_count + (store->average ? 1 : 0); }
float *clq_store_state(const clq_store *store, unsigned slot) {
    return slot < store->states_count ? store->states[slot] : store->average;
}
const float *clq_store_gradient(const clq_store *store) { return store->gradient; }
unsigned clq_store_parts(const clq_store *store) { return store->parts; }
uint64_t clq_store_part_updates(const clq_store *store, unsigned part) { return store->servers[part].updates; }
size_t clq_store_bytes(const clq_store *store) { return store->bytes * (2 + clq_store_states(store)); }
