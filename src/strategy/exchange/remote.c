/* The side of a training process, whose variables lie on store ranks. */
#include "strategy/exchange/remote.h"

#include <string.h>

/* The conversations of one thread, one with each store rank. */
typedef struct talk {
    clq_message *messages; /* (stores) */
    unsigned tag;
} talk;

struct clq_remote {
    clq_world *world;
    unsigned stores, first_rank, replicas, states;
    size_t *begins; /* (stores + 1) bytes: the part of store rank k is [begins[k], begins[k + 1]) */
    float *gradient, *parameters;
    clq_store_variable *variables; /* (variable_count) */
    size_t variable_count;
    float *squares; /* (stores, variable_count); NULL: not measured */
    uint64_t bound;
    double deadline_s;
    talk talks[CLQ_REPLICAS_MAX + 1]; /* of each replica, then the poster's */
    bool is_open, is_written; /* the store ranks listen; something was put that clq_remote_settle has to wait for */
};

/* ---- messages ---- */

/* The memory that is sent to, or received from, store rank k: `bytes` at `data` + k * `stride`; or, if `bytes` is 0,
 * the rank's part of the arena at `data`. */
typedef struct load {
    void *data;
    size_t bytes, stride;
} load;

/* Sends to, or receives from, store ranks [first, end), all at the same time. */
static clq_status move(clq_remote *remote, const talk *t, unsigned first, unsigned end, bool sends, load what) {
    clq_status status = CLQ_OK;
    clq_error error = {.status = CLQ_OK};
    unsigned begun = first;
    for (; begun < end && status == CLQ_OK; begun += status == CLQ_OK) {
        const size_t at = what.bytes ? begun * what.stride : remote->begins[begun];
        t->messages[begun] = (clq_message){.is_sent = sends,
                                           .peer = remote->first_rank + begun,
                                           .tag = t->tag,
                                           .data = (char *)what.data + at,
                                           .bytes = what.bytes ? what.bytes : remote->begins[begun + 1] - at,
                                           .deadline_s = remote->deadline_s};
        status = clq_world_begin_message(remote->world, &t->messages[begun]);
    }
    if (status != CLQ_OK) clq_error_take(status, &error);
    for (unsigned k = first; k < begun; k++) {
        status = clq_world_wait(remote->world, &t->messages[k].job);
        if (status != CLQ_OK && error.status == CLQ_OK) clq_error_take(status, &error);
    }
    return clq_error_raise(&error);
}

static load part_of(const void *arena) { return (load){.data = (void *)(uintptr_t)arena}; }

static clq_status ask(clq_remote *remote, const talk *t, unsigned first, unsigned end, const clq_request *request) {
    return move(remote, t, first, end, true, (load){.data = (void *)(uintptr_t)request, .bytes = sizeof *request});
}

static clq_status hear_first(clq_remote *remote, const talk *t, clq_answer_head *out) {
    return move(remote, t, 0, 1, false, (load){.data = out, .bytes = sizeof *out});
}

/* Waits until all have answered. The answers themselves are not needed. */
static clq_status hear_all(clq_remote *remote, const talk *t, unsigned first, unsigned end) {
    clq_answer_head head;
    for (unsigned k = first; k < end; k++)
        CLQ_TRY(move(remote, t, k, k + 1, false, (load){.data = &head, .bytes = sizeof head}));
    return CLQ_OK;
}

static const talk *poster_of(const clq_remote *remote) { return &remote->talks[remote->replicas]; }
static const talk *talk_of(const clq_remote *remote, unsigned r) {
    return &remote->talks[CLQ_MIN(r, remote->replicas)];
}

/* ---- steps ---- */

clq_status clq_remote_begin(clq_remote *remote, unsigned r, unsigned place, float *to) {
    const talk *t = talk_of(remote, r);
    const clq_request begin = {.kind = CLQ_REQUEST_BEGIN, .place = place};
    clq_answer_head head;
    CLQ_TRY(ask(remote, t, 0, 1, &begin));
    CLQ_TRY(hear_first(remote, t, &head));
    /* The other store ranks may give a later version, but no older one. */
    const clq_request rest = {.kind = CLQ_REQUEST_GET, .array = CLQ_ARRAY_PARAMETERS, .version = head.version};
    CLQ_TRY(ask(remote, t, 1, remote->stores, &rest));
    return move(remote, t, 0, remote->stores, false, part_of(to));
}

clq_status clq_remote_push(clq_remote *remote, unsigned r, unsigned place, const float *gradient,
                           const clq_step_params *params, uint64_t *staleness) {
    const talk *t = talk_of(remote, r);
    clq_request request = {.kind = CLQ_REQUEST_PUSH, .place = place, .params = *params};
    clq_answer_head head;
    CLQ_TRY(ask(remote, t, 0, remote->stores, &request));
    CLQ_TRY(move(remote, t, 0, remote->stores, true, part_of(gradient)));
    CLQ_TRY(hear_first(remote, t, &head));
    *staleness = head.staleness;
    request = (clq_request){.kind = CLQ_REQUEST_APPLY, .version = head.version, .params = *params};
    return ask(remote, t, 1, remote->stores, &request);
}

clq_status clq_remote_get(clq_remote *remote, unsigned r, unsigned array, uint64_t version, float *to) {
    const talk *t = talk_of(remote, r);
    const clq_request get = {.kind = CLQ_REQUEST_GET, .array = array, .version = version};
    CLQ_TRY(ask(remote, t, 0, remote->stores, &get));
    return move(remote, t, 0, remote->stores, false, part_of(to));
}

/* Each store rank has the squares of its part of a variable, so they are added up. */
static clq_status hear_squares(clq_remote *remote, const talk *t, float *squares) {
    const size_t bytes = remote->variable_count * sizeof *squares;
    if (!remote->squares) return CLQ_OK;
    CLQ_TRY(
        move(remote, t, 0, remote->stores, false, (load){.data = remote->squares, .bytes = bytes, .stride = bytes}));
    for (size_t v = 0; v < remote->variable_count; v++) {
        double sum = 0;
        for (unsigned k = 0; k < remote->stores; k++) sum += (double)remote->squares[k * remote->variable_count + v];
        squares[v] = (float)sum;
    }
    return CLQ_OK;
}

clq_status clq_remote_round(clq_remote *remote, clq_request_kind kind, uint64_t version, const float *from,
                            const clq_step_params *params, float *to, float *squares) {
    const talk *t = talk_of(remote, 0);
    clq_request request = {.kind = kind, .version = version};
    if (params) request.params = *params;
    CLQ_TRY(ask(remote, t, 0, remote->stores, &request));
    if (kind == CLQ_REQUEST_BY_SUM) {
        CLQ_TRY(hear_all(remote, t, 0, remote->stores));
    } else {
        CLQ_TRY(move(remote, t, 0, remote->stores, true, part_of(from)));
        CLQ_TRY(move(remote, t, 0, remote->stores, false, part_of(to)));
    }
    return kind == CLQ_REQUEST_SUM ? CLQ_OK : hear_squares(remote, t, squares);
}

/* ---- by the poster ---- */

clq_status clq_remote_put(clq_remote *remote, unsigned array, uint64_t version, size_t first, size_t bytes,
                          const void *from) {
    const talk *t = poster_of(remote);
    remote->is_written = true;
    for (unsigned k = 0; clq_world_rank(remote->world) == 0 && k < remote->stores; k++) {
        const size_t begin = CLQ_MAX(first, remote->begins[k]), end = CLQ_MIN(first + bytes, remote->begins[k + 1]);
        if (begin >= end) continue;
        const clq_request put = {.kind = CLQ_REQUEST_PUT,
                                 .array = array,
                                 .version = version,
                                 .first = begin - remote->begins[k],
                                 .bytes = end - begin};
        CLQ_TRY(ask(remote, t, k, k + 1, &put));
        CLQ_TRY(clq_world_send(remote->world, remote->first_rank + k, t->tag, (const char *)from + (begin - first),
                               end - begin, remote->deadline_s));
        CLQ_TRY(hear_all(remote, t, k, k + 1));
    }
    return CLQ_OK;
}

clq_status clq_remote_settle(clq_remote *remote) {
    if (!remote->is_written) return CLQ_OK;
    remote->is_written = false;
    return clq_world_barrier(remote->world);
}

clq_status clq_remote_claim(clq_remote *remote, uint64_t step, bool wants, double seconds, clq_answer_head *out) {
    const clq_request claim = {.kind = CLQ_REQUEST_CLAIM, .wants = wants, .version = step, .seconds = seconds};
    CLQ_TRY(ask(remote, poster_of(remote), 0, 1, &claim));
    return hear_first(remote, poster_of(remote), out);
}

clq_status clq_remote_go_on(clq_remote *remote, uint64_t step) {
    const clq_request go_on = {.kind = CLQ_REQUEST_GO_ON, .version = step};
    remote->is_written = false;
    CLQ_TRY(clq_world_barrier(remote->world)); /* from here on no process waits for a version that never comes */
    if (clq_world_rank(remote->world) == 0) {
        CLQ_TRY(ask(remote, poster_of(remote), 0, remote->stores, &go_on));
        CLQ_TRY(hear_all(remote, poster_of(remote), 0, remote->stores));
    }
    return clq_world_barrier(remote->world);
}

clq_status clq_remote_count(clq_remote *remote, uint64_t version, clq_remote_counts *out, uint64_t *histogram) {
    const talk *t = poster_of(remote);
    clq_request request = {.kind = CLQ_REQUEST_COUNTS, .version = version};
    *out = (clq_remote_counts){.least = UINT64_MAX};
    for (unsigned k = 0; k < remote->stores; k++) {
        clq_remote_counts own;
        CLQ_TRY(ask(remote, t, k, k + 1, &request));
        CLQ_TRY(move(remote, t, k, k + 1, false, (load){.data = &own, .bytes = sizeof own}));
        if (k == 0) *out = own;
        request.version = out->version; /* the others follow the first, and may not have got there yet */
        if (k == 0 && histogram)
            CLQ_TRY(move(remote, t, 0, 1, false,
                         (load){.data = histogram, .bytes = (size_t)(remote->bound + 1) * sizeof *histogram}));
        if (k == 0) continue;
        out->servers += own.servers;
        out->least = CLQ_MIN(out->least, own.least);
        out->most = CLQ_MAX(out->most, own.most);
    }
    return CLQ_OK;
}

/* ---- parts ---- */

/* Whether the update of an element needs all of its variable, because it needs the variable's norm. */
static bool is_by_variable(const clq_store_config *config) {
    bool ratios = clq_optimizer_has_trust_ratio(&config->optimizer);
    for (unsigned i = 0; i < config->other_count; i++)
        ratios = ratios || clq_optimizer_has_trust_ratio(&config->others[i]);
    return ratios || config->clip.kind == CLQ_CLIP_NORM;
}

/* The begin of a variable that is nearest to `wanted` bytes. It lies behind `before`, and at least `more` variables
 * follow. Returns the arena's end if there is no such variable. */
static size_t nearest_begin(const clq_store_config *config, size_t before, size_t wanted, size_t more) {
    size_t best = config->bytes;
    for (size_t v = 0; v + more < config->variable_count; v++) {
        const size_t begin = clq_values_bytes(CLQ_F32, config->variables[v].first);
        const size_t far = begin > wanted ? begin - wanted : wanted - begin;
        const size_t far_best = best > wanted ? best - wanted : wanted - best;
        if (begin > before && (best == config->bytes || far < far_best)) best = begin;
    }
    return best;
}

/* Cuts the arenas into parts of nearly the same size: between any two blocks or, if updates need whole variables, only
 * in front of variables. */
static clq_status cut_parts(clq_remote *remote, const clq_store_config *config) {
    const size_t blocks = config->bytes / CLQ_VARIABLE_ALIGN;
    const bool by_variable = is_by_variable(config);
    if (config->clip.kind == CLQ_CLIP_GLOBAL_NORM && remote->stores > 1)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "a gradient that is clipped by its global norm is needed in one place, and there are %u store "
                        "ranks: use one (--ps-ranks 1), or clip by norm or value",
                        remote->stores);
    for (unsigned k = 1; k < remote->stores; k++) {
        const size_t wanted = blocks * k / remote->stores * CLQ_VARIABLE_ALIGN, more = remote->stores - 1 - k;
        remote->begins[k] = by_variable ? nearest_begin(config, remote->begins[k - 1], wanted, more) : wanted;
    }
    remote->begins[remote->stores] = config->bytes;
    for (unsigned k = 0; k < remote->stores; k++)
        if (remote->begins[k] >= remote->begins[k + 1])
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "the variables cannot be cut into parts for %u store ranks: use fewer "
                            "(--ps-ranks)",
                            remote->stores);
    return CLQ_OK;
}

/* What part k has of each variable. A variable of which it has nothing gets 0 floats. */
static void cut_variables(const clq_remote *remote, unsigned k, clq_store_variable *out) {
    const size_t first = remote->begins[k] / sizeof(float), end = remote->begins[k + 1] / sizeof(float);
    for (size_t v = 0; v < remote->variable_count; v++) {
        const clq_store_variable *whole = &remote->variables[v];
        const size_t begin = CLQ_MIN(CLQ_MAX(whole->first, first), end);
        const size_t stop = CLQ_MAX(CLQ_MIN(whole->first + whole->floats, end), begin);
        out[v] = *whole;
        out[v].first = begin - first;
        out[v].floats = stop - begin;
    }
}

/* ---- life ---- */

static clq_status open_memory(clq_remote *remote, const clq_remote_config *config) {
    const clq_store_config *store = &config->store;
    remote->variable_count = store->variable_count;
    remote->begins = clq_alloc(remote->stores + 1, sizeof *remote->begins);
    remote->gradient = clq_alloc_aligned(CLQ_VARIABLE_ALIGN, store->bytes);
    remote->parameters = clq_alloc_aligned(CLQ_VARIABLE_ALIGN, store->bytes);
    remote->variables = clq_alloc(CLQ_MAX(store->variable_count, (size_t)1), sizeof *remote->variables);
    if (!remote->begins || !remote->gradient || !remote->parameters || !remote->variables) return CLQ_ERROR_MEMORY;
    memcpy(remote->variables, store->variables, store->variable_count * sizeof *remote->variables);
    if (config->measures) remote->squares = clq_alloc(remote->stores, store->variable_count * sizeof *remote->squares);
    if (config->measures && !remote->squares) return CLQ_ERROR_MEMORY;
    for (unsigned r = 0; r <= remote->replicas; r++) {
        remote->talks[r].tag = r == remote->replicas ? CLQ_TAG_POSTER : clq_tag_of_replica(r);
        remote->talks[r].messages = clq_alloc(remote->stores, sizeof *remote->talks[r].messages);
        if (!remote->talks[r].messages) return CLQ_ERROR_MEMORY;
    }
    return cut_parts(remote, store);
}

static clq_terms terms_of(const clq_remote *remote, const clq_remote_config *config, unsigned k) {
    clq_terms terms = {.clip = config->store.clip,
                       .bytes = remote->begins[k + 1] - remote->begins[k],
                       .variable_count = remote->variable_count,
                       .bound = config->bound,
                       .deadline_s = config->deadline_s,
                       .other_count = config->store.other_count,
                       .processes = clq_world_size(remote->world),
                       .averages = config->store.averages,
                       .is_first = k == 0,
                       .measures = config->measures};
    terms.optimizers[0] = config->store.optimizer;
    for (unsigned i = 0; i < terms.other_count; i++) terms.optimizers[1 + i] = config->store.others[i];
    return terms;
}

static clq_status open_store(clq_remote *remote, const clq_remote_config *config, unsigned k, const uint32_t *replicas,
                             clq_store_variable *variables) {
    const talk *t = poster_of(remote);
    const clq_request request = {.kind = CLQ_REQUEST_OPEN};
    clq_terms terms = terms_of(remote, config, k);
    clq_answer_head head;
    cut_variables(remote, k, variables);
    CLQ_TRY(ask(remote, t, k, k + 1, &request));
    CLQ_TRY(move(remote, t, k, k + 1, true, (load){.data = &terms, .bytes = sizeof terms}));
    CLQ_TRY(move(remote, t, k, k + 1, true,
                 (load){.data = variables, .bytes = CLQ_MAX(remote->variable_count, (size_t)1) * sizeof *variables}));
    CLQ_TRY(move(remote, t, k, k + 1, true,
                 (load){.data = (void *)(uintptr_t)replicas, .bytes = terms.processes * sizeof *replicas}));
    CLQ_TRY(move(remote, t, k, k + 1, false, (load){.data = &head, .bytes = sizeof head}));
    if (head.status == CLQ_OK) return CLQ_OK;
    return clq_fail((clq_status)head.status, "%s: %s", clq_world_name(remote->world, remote->first_rank + k),
                    head.detail);
}

/* Called by rank 0, once all processes have their memory. */
static clq_status open_stores(clq_remote *remote, const clq_remote_config *config, const uint32_t *replicas) {
    clq_store_variable *variables = clq_alloc(CLQ_MAX(remote->variable_count, (size_t)1), sizeof *variables);
    clq_status status = variables ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (unsigned k = 0; k < remote->stores && status == CLQ_OK; k++)
        status = open_store(remote, config, k, replicas, variables);
    clq_free(variables);
    return status;
}

static clq_status open_all(clq_remote *remote, const clq_remote_config *config) {
    const uint32_t mine = remote->replicas;
    uint32_t *replicas = clq_alloc(clq_world_size(remote->world), sizeof *replicas);
    clq_status status = open_memory(remote, config);
    status = clq_world_check(remote->world, status == CLQ_OK && !replicas ? CLQ_ERROR_MEMORY : status);
    if (status == CLQ_OK) status = clq_world_gather(remote->world, &mine, sizeof mine, replicas);
    if (status == CLQ_OK && clq_world_rank(remote->world) == 0) status = open_stores(remote, config, replicas);
    clq_free(replicas);
    return clq_world_check(remote->world, status);
}

clq_status clq_remote_open(const clq_remote_config *config, clq_remote **out) {
    clq_remote *remote = clq_alloc(1, sizeof *remote);
    if (!remote) return clq_world_fail_with(config->world, CLQ_ERROR_MEMORY);
    remote->world = config->world;
    remote->stores = clq_world_apart(config->world);
    remote->first_rank = clq_world_size(config->world);
    remote->replicas = config->replicas;
    remote->bound = config->bound;
    remote->deadline_s = 1.05 * config->deadline_s + 1; /* the store rank's deadline ends first: it knows who is late */
    remote->states = clq_optimizer_states(&config->store.optimizer);
    for (unsigned i = 0; i < config->store.other_count; i++)
        remote->states = CLQ_MAX(remote->states, clq_optimizer_states(&config->store.others[i]));
    remote->states += config->store.averages;
    const clq_status status = open_all(remote, config);
    remote->is_open = status == CLQ_OK;
    if (status == CLQ_OK)
        *out = remote;
    else
        clq_remote_close(remote);
    return status;
}

void clq_remote_close(clq_remote *remote) {
    const clq_request close = {.kind = CLQ_REQUEST_CLOSE};
    clq_error error;
    if (!remote) return;
    clq_error_take(CLQ_ERROR_ABORTED,
                   &error); /* the failure that led to the close, if there is one, is still to be told */
    for (unsigned r = 0; remote->is_open && r <= remote->replicas; r++)
        (void)ask(remote, &remote->talks[r], 0, remote->stores, &close); /* if the world has failed, nobody listens */
    for (unsigned r = 0; r <= remote->replicas; r++) clq_free(remote->talks[r].messages);
    clq_free(remote->begins);
    clq_free(remote->gradient);
    clq_free(remote->parameters);
    clq_free(remote->variables);
    clq_free(remote->squares);
    clq_free(remote);
    (void)clq_error_raise(&error);
}

unsigned clq_remote_states(const clq_remote *remote) { return remote->states; }
float *clq_remote_gradient(const clq_remote *remote) { return remote->gradient; }
float *clq_remote_parameters(const clq_remote *remote) { return remote->parameters; }
