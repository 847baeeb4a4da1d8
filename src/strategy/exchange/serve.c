/* A store rank keeps a part of the variables for a training on other ranks, and updates this part. It has a thread for
 * each thread of a training process that sends requests (remote.h). That thread does what the requesting thread would
 * do beside a store in its own process: it waits until the bound allows a read or an update (bound.h), or until all
 * processes have come to a round. */
#include "strategy/exchange/bound.h"
#include "strategy/exchange/remote.h"
#include "strategy/strategy.h"

#include <string.h>

/* Between two requests, a training process may do other things for as long as it likes. */
static const double idle_most_s = 1e9;

typedef struct service service;

/* The conversation with one thread of a training process. */
typedef struct talk {
    service *s;
    unsigned rank, tag;
    float *values;  /* (bytes of the part) a gradient that was received, or values to send */
    bool came;      /* under the lock: its process has come to the next round */
    double seconds; /* under the lock, of posters: the time of a batch on the process's fastest replica; 0: not known */
    clq_thread *thread;
} talk;

struct service {
    clq_world *world;
    clq_terms terms;
    clq_store *store;
    clq_store_variable *variables;
    uint32_t *replicas; /* (processes) how many each process has */
    unsigned places;    /* replicas of all processes */
    talk *talks;        /* (talk_count) first that of rank 0's poster */
    unsigned talk_count;
    float *squares; /* (variables) of the last round; NULL: not measured */
    atomic_bool failed;
    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool locked; /* the lock was made */
    clq_error failure;
    uint64_t version;      /* the number of updates so far; begins at the step that the training goes on from */
    uint64_t issued;       /* the first step that is not handed out yet */
    bool updating;         /* an update is under way */
    uint64_t made, pushed; /* rounds so far; gradients that were pushed */
    unsigned arrived;      /* processes that have come to the next round */
    clq_bound bound;
    uint64_t *histogram; /* (bound + 1) updates by their staleness; NULL: synchronous, or not the first store rank */
};

/* ---- waiting ---- */

static double until_of(const service *s) { return clq_now_running() + s->terms.deadline_s; }

/* The rank of the first process that has not come to the round. */
static unsigned first_missing(const service *s) {
    for (unsigned i = 0; i < s->talk_count; i++)
        if (s->talks[i].tag == clq_tag_of_replica(0) && !s->talks[i].came) return s->talks[i].rank;
    return 0;
}

/* The process that has the replica with this number. */
static unsigned rank_of_place(const service *s, unsigned place) {
    unsigned rank = 0;
    for (; rank + 1 < s->terms.processes && place >= s->replicas[rank]; rank++) place -= s->replicas[rank];
    return rank;
}

/* Fails, and names whom all wait for. Without staleness this is a process that has not come to the round. Otherwise the
 * first store rank waits for the replica with the oldest gradient, and the other store ranks wait for the first. Called
 * with the lock held. */
static clq_status fail_late(const service *s) {
    const clq_bound *bound = &s->bound;
    const unsigned first = clq_world_size(s->world), oldest = clq_bound_oldest(bound);
    char whom[CLQ_DETAIL_MAX / 2];
    if (bound->most == 0)
        clq_format(whom, sizeof whom, "%s did not come to the update", clq_world_name(s->world, first_missing(s)));
    else if (!s->terms.is_first)
        clq_format(whom, sizeof whom, "the update of %s, the first store rank, did not come",
                   clq_world_name(s->world, first));
    else if (bound->places[oldest].is)
        clq_format(whom, sizeof whom, "the gradient of replica %u, of %s, did not come", oldest,
                   clq_world_name(s->world, rank_of_place(s, oldest)));
    else
        clq_format(whom, sizeof whom, "no replica came to the next step");
    return clq_fail(CLQ_ERROR_TIMEOUT, "%s within the deadline of %g s (deadline_s)", whom, s->terms.deadline_s);
}

/* Waits for a change, at most until the time `until`. Called with the lock held. */
static clq_status await(service *s, double until) {
    if (atomic_load(&s->failed)) return CLQ_ERROR_ABORTED;
    CLQ_TRY(clq_world_failure(s->world));
    if (clq_now_running() >= until) return fail_late(s);
    clq_lock_wait(&s->lock, &s->changed, CLQ_RUNNING_LOOK_S);
    return CLQ_OK;
}

/* Waits until `version` updates are made. Called with the lock held. */
static clq_status await_version(service *s, uint64_t version) {
    const double until = until_of(s);
    while (s->version < version) CLQ_TRY(await(s, until));
    return CLQ_OK;
}

/* ---- messages ---- */

static clq_status receive(const talk *t, void *to, size_t bytes, double deadline_s) {
    return clq_world_receive(t->s->world, t->rank, t->tag, to, bytes, deadline_s);
}

static clq_status reply(const talk *t, const void *from, size_t bytes) {
    return clq_world_send(t->s->world, t->rank, t->tag, from, bytes, t->s->terms.deadline_s);
}

static clq_status receive_values(const talk *t) {
    return receive(t, t->values, t->s->terms.bytes, t->s->terms.deadline_s);
}

static clq_status reply_head(const talk *t, clq_answer_head head) { return reply(t, &head, sizeof head); }

/* ---- arrays ---- */

static float *array_of(const service *s, unsigned array) {
    if (array == CLQ_ARRAY_PARAMETERS) return clq_store_parameters(s->store);
    if (array == CLQ_ARRAY_GRADIENT) return (float *)(uintptr_t)clq_store_gradient(s->store);
    return clq_store_state(s->store, array - CLQ_ARRAY_FIRST_STATE);
}

static clq_status check_array(const service *s, const clq_request *r) {
    if (r->array < CLQ_ARRAY_FIRST_STATE + clq_store_states(s->store) && r->first <= s->terms.bytes &&
        r->bytes <= s->terms.bytes - r->first)
        return CLQ_OK;
    return clq_fail(CLQ_ERROR_INTERNAL, "a store rank was asked for array %u, which it does not have", r->array);
}

/* Values are sent from a copy, so that updates do not wait for the network. */
static void copy_out(const talk *t, unsigned array) {
    const service *s = t->s;
    (void)clq_store_begin_read(s->store);
    memcpy(t->values, array_of(s, array), s->terms.bytes);
    clq_store_end_read(s->store);
}

static clq_status get(const talk *t, const clq_request *r) {
    service *s = t->s;
    CLQ_TRY(check_array(s, r));
    pthread_mutex_lock(&s->lock);
    const clq_status status = await_version(s, r->version);
    pthread_mutex_unlock(&s->lock);
    CLQ_TRY(status);
    copy_out(t, r->array);
    return reply(t, t->values, s->terms.bytes);
}

static clq_status put(const talk *t, const clq_request *r) {
    service *s = t->s;
    CLQ_TRY(check_array(s, r));
    CLQ_TRY(receive(t, t->values, r->bytes, s->terms.deadline_s));
    pthread_mutex_lock(&s->lock);
    const clq_status status = await_version(s, r->version);
    pthread_mutex_unlock(&s->lock);
    CLQ_TRY(status);
    clq_store_begin_write(s->store);
    memcpy((char *)array_of(s, r->array) + r->first, t->values, r->bytes);
    clq_store_end_write(s->store);
    return reply_head(t, (clq_answer_head){0});
}

/* ---- one gradient after the other ---- */

static clq_status begin(const talk *t, const clq_request *r) {
    service *s = t->s;
    clq_under_way *own = &s->bound.places[r->place];
    const double until = until_of(s);
    clq_status status = CLQ_OK;
    pthread_mutex_lock(&s->lock);
    while ((s->updating || !clq_bound_may_read(&s->bound)) && status == CLQ_OK) status = await(s, until);
    *own = (clq_under_way){.is = status == CLQ_OK, .read = s->version};
    pthread_mutex_unlock(&s->lock);
    CLQ_TRY(status);
    /* By now the parameters may be of a later version. The copy then is less stale than counted. */
    copy_out(t, CLQ_ARRAY_PARAMETERS);
    CLQ_TRY(reply_head(t, (clq_answer_head){.version = own->read}));
    return reply(t, t->values, s->terms.bytes);
}

/* Makes an update by the talk's gradient, and returns the update's number. Called by one thread at a time. */
static uint64_t update(const talk *t, const clq_step_params *params) {
    service *s = t->s;
    const float *const gradients[] = {t->values};
    (void)clq_store_update(s->store, &(clq_store_change){.gradients = gradients,
                                                         .count = 1,
                                                         .factor = 1.0f,
                                                         .rates = clq_rates_of_params(params),
                                                         .average = params->average});
    pthread_mutex_lock(&s->lock);
    const uint64_t version = ++s->version;
    s->updating = false;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return version;
}

/* The first store rank makes the update, once it has the gradient and the bound allows it: this decides the order of
 * updates. The other store ranks follow this order (apply). */
static clq_status push(const talk *t, const clq_request *r) {
    service *s = t->s;
    CLQ_TRY(receive_values(t));
    if (!s->terms.is_first) return CLQ_OK;
    clq_under_way *own = &s->bound.places[r->place];
    const double until = until_of(s);
    clq_status status = CLQ_OK;
    pthread_mutex_lock(&s->lock);
    s->pushed++;
    while ((s->updating || !clq_bound_may_apply(&s->bound, s->version, r->place)) && status == CLQ_OK)
        status = await(s, until);
    const uint64_t staleness = s->version - own->read;
    s->updating = status == CLQ_OK;
    own->is = false;
    if (status == CLQ_OK) s->histogram[staleness]++;
    pthread_mutex_unlock(&s->lock);
    CLQ_TRY(status);
    const uint64_t version = update(t, &r->params);
    return reply_head(t, (clq_answer_head){.version = version, .staleness = staleness});
}

static clq_status apply(const talk *t, const clq_request *r) {
    service *s = t->s;
    pthread_mutex_lock(&s->lock);
    s->pushed++;
    const clq_status status = await_version(s, r->version - 1);
    pthread_mutex_unlock(&s->lock);
    CLQ_TRY(status);
    (void)update(t, &r->params);
    return CLQ_OK;
}

/* Every process goes through all steps, and makes the steps that it was given. A step is given to one process alone. A
 * process with a free replica gets the next step. A busy process only learns how many steps are handed out. */
static clq_status claim(talk *t, const clq_request *r) {
    service *s = t->s;
    clq_answer_head head = {0};
    pthread_mutex_lock(&s->lock);
    s->issued = CLQ_MAX(s->issued, r->version); /* all processes make the steps by hand, without a claim */
    if (r->wants) head.step = s->issued++;
    head.issued = s->issued;
    t->seconds = r->seconds;
    for (unsigned i = 0; i < s->talk_count; i++) {
        const double seconds = s->talks[i].seconds;
        if (seconds > 0 && (head.seconds <= 0 || seconds < head.seconds)) head.seconds = seconds;
    }
    pthread_mutex_unlock(&s->lock);
    return reply_head(t, head);
}

/* ---- rounds of all processes ---- */

static void measure(const service *s) {
    const float *gradient = clq_store_gradient(s->store);
    for (size_t v = 0; s->squares && v < s->terms.variable_count; v++)
        s->squares[v] = (float)clq_square_sum_on_host(gradient + s->variables[v].first, s->variables[v].floats);
}

/* Called by the thread that came last, with the lock held, while all others wait. Gradients are added in the order of
 * the ranks. */
static clq_status make_round(service *s, const clq_request *r) {
    const float *const summed[] = {clq_store_gradient(s->store)};
    const float **gradients = clq_alloc(s->terms.processes, sizeof *gradients);
    if (!gradients) return CLQ_ERROR_MEMORY;
    clq_store_change change = {
        .gradients = gradients, .factor = 1.0f, .rates = clq_rates_of_params(&r->params), .average = r->params.average};
    for (unsigned i = 0; i < s->talk_count; i++)
        if (s->talks[i].came) gradients[change.count++] = s->talks[i].values;
    if (r->kind == CLQ_REQUEST_BY_SUM) change.gradients = summed, change.count = 1;
    if (r->kind == CLQ_REQUEST_SUM)
        clq_store_sum(s->store, &change);
    else
        (void)clq_store_update(s->store, &change);
    if (r->kind != CLQ_REQUEST_SUM) s->version++;
    if (r->kind != CLQ_REQUEST_SUM) measure(s);
    if (r->kind != CLQ_REQUEST_BY_SUM) s->pushed += s->terms.processes;
    clq_free(gradients);
    return CLQ_OK;
}

static clq_status join_round(talk *t, const clq_request *r) {
    service *s = t->s;
    const double until = until_of(s);
    pthread_mutex_lock(&s->lock);
    clq_status status = await_version(s, r->version);
    const uint64_t mine = s->made;
    t->came = true;
    if (status == CLQ_OK && ++s->arrived == s->terms.processes) {
        status = make_round(s, r);
        for (unsigned i = 0; i < s->talk_count; i++) s->talks[i].came = false;
        s->arrived = 0;
        s->made++;
        pthread_cond_broadcast(&s->changed);
    }
    while (s->made == mine && status == CLQ_OK) status = await(s, until);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* The results of a round stay until all processes have come to the next round, so they are sent without a copy. */
static clq_status take_part(talk *t, const clq_request *r) {
    const service *s = t->s;
    if (r->kind != CLQ_REQUEST_BY_SUM) CLQ_TRY(receive_values(t));
    CLQ_TRY(join_round(t, r));
    if (r->kind == CLQ_REQUEST_BY_SUM)
        CLQ_TRY(reply_head(t, (clq_answer_head){0}));
    else
        CLQ_TRY(reply(t, array_of(s, r->kind == CLQ_REQUEST_SUM ? CLQ_ARRAY_GRADIENT : CLQ_ARRAY_PARAMETERS),
                      s->terms.bytes));
    if (r->kind == CLQ_REQUEST_SUM || !s->squares) return CLQ_OK;
    return reply(t, s->squares, s->terms.variable_count * sizeof *s->squares);
}

/* ---- between steps ---- */

static clq_status go_on(const talk *t, const clq_request *r) {
    service *s = t->s;
    pthread_mutex_lock(&s->lock);
    s->version = r->version;
    s->issued = r->version + 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return reply_head(t, (clq_answer_head){0});
}

/* Reads the counts while no update is under way. Called with the lock held. histogram: gets a copy (bound + 1); NULL:
 * there is none. */
static clq_status read_counts(service *s, uint64_t version, clq_remote_counts *out, uint64_t *histogram) {
    const double until = until_of(s);
    CLQ_TRY(await_version(s, version));
    while (s->updating) CLQ_TRY(await(s, until));
    *out = (clq_remote_counts){
        .version = s->version, .servers = clq_store_parts(s->store), .least = UINT64_MAX, .pushed = s->pushed};
    for (unsigned i = 0; i < out->servers; i++) {
        const uint64_t made = clq_store_part_updates(s->store, i);
        out->least = CLQ_MIN(out->least, made);
        out->most = CLQ_MAX(out->most, made);
    }
    out->updates = out->most;
    for (uint64_t i = 0; histogram && i <= s->terms.bound; i++) histogram[i] = s->histogram[i];
    return CLQ_OK;
}

static clq_status count(const talk *t, const clq_request *r) {
    service *s = t->s;
    clq_remote_counts counts;
    const size_t bounds = s->histogram ? (size_t)s->terms.bound + 1 : 0;
    uint64_t *histogram = bounds > 0 ? clq_alloc(bounds, sizeof *histogram) : NULL;
    if (bounds > 0 && !histogram) return CLQ_ERROR_MEMORY;
    pthread_mutex_lock(&s->lock);
    clq_status status = read_counts(s, r->version, &counts, histogram);
    pthread_mutex_unlock(&s->lock);
    if (status == CLQ_OK) status = reply(t, &counts, sizeof counts);
    if (status == CLQ_OK && histogram) status = reply(t, histogram, bounds * sizeof *histogram);
    clq_free(histogram);
    return status;
}

/* ---- a conversation ---- */

static clq_status answer(talk *t, const clq_request *r) {
    if (r->place >= CLQ_MAX(t->s->places, 1u)) return clq_fail(CLQ_ERROR_INTERNAL, "there is no replica %u", r->place);
    switch ((clq_request_kind)r->kind) {
    case CLQ_REQUEST_CLAIM: return claim(t, r);
    case CLQ_REQUEST_BEGIN: return begin(t, r);
    case CLQ_REQUEST_GET: return get(t, r);
    case CLQ_REQUEST_PUT: return put(t, r);
    case CLQ_REQUEST_PUSH: return push(t, r);
    case CLQ_REQUEST_APPLY: return apply(t, r);
    case CLQ_REQUEST_ROUND:
    case CLQ_REQUEST_SUM:
    case CLQ_REQUEST_BY_SUM: return take_part(t, r);
    case CLQ_REQUEST_GO_ON: return go_on(t, r);
    case CLQ_REQUEST_COUNTS: return count(t, r);
    case CLQ_REQUEST_OPEN:
        return clq_fail(CLQ_ERROR_STATE,
                        "store ranks serve one trainer at a time: destroy the first one before the next");
    case CLQ_REQUEST_END:
        return clq_fail(CLQ_ERROR_STATE,
                        "clq_serve_end: a trainer still uses the store ranks: destroy the trainer first");
    case CLQ_REQUEST_CLOSE: break;
    }
    return clq_fail(CLQ_ERROR_INTERNAL, "a store rank cannot answer request %u", r->kind);
}

/* Keeps the first failure, and ends the world with it unless the world has ended. */
static void fail(service *s, clq_status status) {
    clq_error error;
    clq_error_take(clq_world_fail_with(s->world, status), &error);
    pthread_mutex_lock(&s->lock);
    if (!atomic_load(&s->failed)) s->failure = error;
    atomic_store(&s->failed, true);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void converse(void *context) {
    talk *t = context;
    clq_status status = CLQ_OK;
    while (status == CLQ_OK) {
        clq_request request;
        status = receive(t, &request, sizeof request, idle_most_s);
        if (status == CLQ_OK && request.kind == CLQ_REQUEST_CLOSE) return;
        if (status == CLQ_OK) status = answer(t, &request);
    }
    fail(t->s, status);
}

/* ---- life ---- */

static clq_status open_store(service *s) {
    const clq_terms *terms = &s->terms;
    const clq_store_config config = {.optimizer = terms->optimizers[0],
                                     .others = terms->optimizers + 1,
                                     .other_count = terms->other_count,
                                     .bytes = terms->bytes,
                                     .clip = terms->clip,
                                     .averages = terms->averages,
                                     .variables = s->variables,
                                     .variable_count = terms->variable_count};
    if (terms->measures && !(s->squares = clq_alloc(CLQ_MAX(terms->variable_count, UINT64_C(1)), sizeof *s->squares)))
        return CLQ_ERROR_MEMORY;
    s->bound = (clq_bound){.most = terms->bound, .count = s->places};
    if (!(s->bound.places = clq_alloc(CLQ_MAX(s->places, 1u), sizeof *s->bound.places))) return CLQ_ERROR_MEMORY;
    if (terms->is_first && terms->bound > 0 && !(s->histogram = clq_alloc(terms->bound + 1, sizeof *s->histogram)))
        return CLQ_ERROR_MEMORY;
    return clq_store_create(&config, &s->store);
}

static clq_status open_talks(service *s) {
    s->talks = clq_alloc(s->terms.processes + s->places, sizeof *s->talks);
    if (!s->talks) return CLQ_ERROR_MEMORY;
    for (unsigned rank = 0; rank < s->terms.processes; rank++)
        for (unsigned i = 0; i <= s->replicas[rank]; i++) {
            talk *t = &s->talks[s->talk_count++];
            *t = (talk){.s = s, .rank = rank, .tag = i == 0 ? CLQ_TAG_POSTER : clq_tag_of_replica(i - 1)};
            if (!(t->values = clq_alloc_aligned(CLQ_VARIABLE_ALIGN, s->terms.bytes))) return CLQ_ERROR_MEMORY;
        }
    return CLQ_OK;
}

static clq_status open_service(service *s) {
    for (unsigned p = 0; p < s->terms.processes; p++) s->places += s->replicas[p];
    s->issued = 1;
    CLQ_TRY(clq_lock_create("a store rank", &s->lock, &s->changed));
    s->locked = true;
    CLQ_TRY(open_store(s));
    return open_talks(s);
}

static void close_service(service *s) {
    for (unsigned i = 0; i < s->talk_count; i++) clq_thread_join(s->talks[i].thread);
    for (unsigned i = 0; i < s->talk_count; i++) clq_free(s->talks[i].values);
    clq_store_destroy(s->store);
    if (s->locked) {
        pthread_mutex_destroy(&s->lock);
        pthread_cond_destroy(&s->changed);
    }
    clq_free(s->talks);
    clq_free(s->bound.places);
    clq_free(s->histogram);
    clq_free(s->squares);
    clq_free(s->variables);
    clq_free(s->replicas);
}

/* Receives the terms that follow an OPEN. */
static clq_status hear_terms(service *s, const talk *t) {
    const double most_s = s->terms.deadline_s;
    CLQ_TRY(receive(t, &s->terms, sizeof s->terms, most_s));
    const size_t variables = CLQ_MAX(s->terms.variable_count, UINT64_C(1));
    s->variables = clq_alloc(variables, sizeof *s->variables);
    s->replicas = clq_alloc(s->terms.processes, sizeof *s->replicas);
    if (!s->variables || !s->replicas) return CLQ_ERROR_MEMORY;
    CLQ_TRY(receive(t, s->variables, variables * sizeof *s->variables, most_s));
    return receive(t, s->replicas, s->terms.processes * sizeof *s->replicas, most_s);
}

/* Serves one training: from its OPEN until all conversations are closed. */
static clq_status serve_training(service *s, const talk *first) {
    CLQ_TRY(hear_terms(s, first));
    const clq_status opened = open_service(s);
    clq_answer_head head = {.status = (uint32_t)opened};
    if (opened != CLQ_OK) snprintf(head.detail, sizeof head.detail, "%s", clq_error_detail());
    CLQ_TRY(reply_head(first, head));
    if (opened != CLQ_OK) return CLQ_OK;
    clq_status status = CLQ_OK;
    for (unsigned i = 1; i < s->talk_count && status == CLQ_OK; i++)
        status = clq_thread_start("store rank", converse, &s->talks[i], &s->talks[i].thread);
    if (status != CLQ_OK) fail(s, status);
    converse(&s->talks[0]);
    for (unsigned i = 1; i < s->talk_count; i++) {
        clq_thread_join(s->talks[i].thread);
        s->talks[i].thread = NULL;
    }
    return clq_error_raise(&s->failure);
}

clq_status clq_stores_serve(clq_world *world) {
    for (;;) {
        service s = {.world = world, .failure.status = CLQ_OK};
        const talk first = {.s = &s, .rank = 0, .tag = CLQ_TAG_POSTER};
        clq_request request;
        CLQ_TRY(receive(&first, &request, sizeof request, idle_most_s));
        if (request.kind == CLQ_REQUEST_END) return CLQ_OK;
        clq_status status = serve_training(&s, &first);
        clq_error error;
        clq_error_take(status, &error);
        close_service(&s);
        if (status != CLQ_OK) return clq_error_raise(&error);
    }
}

clq_status clq_stores_end(clq_world *world) {
    const clq_request end = {.kind = CLQ_REQUEST_END};
    clq_status status = clq_world_failure(world);
    const unsigned first = clq_world_size(world), count = clq_world_apart(world);
    /* The trainer of this rank is destroyed, but a trainer of another rank may not be yet. */
    if (status == CLQ_OK && count > 0) status = clq_world_barrier(world);
    for (unsigned k = 0; status == CLQ_OK && clq_world_rank(world) == 0 && k < count; k++)
        status = clq_world_send(world, first + k, CLQ_TAG_POSTER, &end, sizeof end, 0);
    if (count > 0) clq_world_take_back(world);
    return status;
}
