/* Which algorithm an all-reduce gets if there are several. They are measured once for the devices, their drivers and
 * the links between them, and the costs are kept with the built kernels. Each candidate's time for S bytes is taken as
 * alpha + beta S, from runs with few bytes and with many.
 *
 * Costs are used only once they have been kept, and as they are read back. Another algorithm adds in another order, and
 * a run must give the same bits as the run before it. If nothing can be kept, a rule decides. */
#include "comm/communicator.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 5 };
static const double deadline_s = 30; /* the least deadline of a trial */
static const size_t few_bytes = (size_t)4 << 10, most_bytes = (size_t)4 << 20;

/* Enough bytes to use every slot often, but no more, since tiny chunks are slow. */
static size_t many_bytes(const clq_comm *comm) {
    return CLQ_MIN(CLQ_MAX(16 * comm->chunk_bytes, 2 * few_bytes), most_bytes);
}

static const clq_algorithm candidates[] = {CLQ_ALGORITHM_RING, CLQ_ALGORITHM_REDUCE_TO_ONE, CLQ_ALGORITHM_DOUBLING,
                                           CLQ_ALGORITHM_HIERARCHICAL};

static bool is_nested(const clq_comm *comm) { return comm->islands.count > 1 && comm->islands.count < comm->size; }

/* With doubling, both partners compute the same sum. If one treats tiny numbers as zero and the other does not, the
 * sums differ. Hosted ranks all compute as the host does. */
static bool all_compute_alike(const clq_comm *comm) {
    const clq_device_info *first = clq_device_get_info(comm->members[0].device);
    for (unsigned r = 1; r < comm->size; r++) {
        const clq_device_info *info = clq_device_get_info(comm->members[r].device);
        if (comm->members[r].hosted != comm->members[0].hosted) return false;
        if (comm->members[r].hosted) continue;
        if (strcmp(info->driver, first->driver) != 0 || strcmp(info->name, first->name) != 0) return false;
    }
    return true;
}

/* Whether AUTO may take the algorithm. */
static bool is_candidate(const clq_comm *comm, clq_algorithm algorithm) {
    if (algorithm == CLQ_ALGORITHM_HIERARCHICAL) return is_nested(comm);
    return algorithm != CLQ_ALGORITHM_DOUBLING || all_compute_alike(comm);
}

/* ---- measuring ---- */

typedef struct trial_rank {
    const clq_member *member;
    size_t bytes;
    clq_queue *queue;
    clq_buffer *buffer;
    clq_thread *thread;
    double best_s;
} trial_rank;

static clq_status run_rounds(trial_rank *t) {
    t->best_s = 1e9;
    for (int round = 0; round <= ROUNDS; round++) {
        double begun = clq_now();
        CLQ_TRY(clq_comm_all_reduce(t->member->comm, t->member->rank, t->queue, t->buffer, 0, t->buffer, 0,
                                    clq_values_count(CLQ_F32, t->bytes), CLQ_F32));
        if (round > 0) t->best_s = CLQ_MIN(t->best_s, clq_now() - begun); /* the first one makes links and kernels */
    }
    return CLQ_OK;
}

static void trial_body(void *context) { (void)run_rounds(context); /* the communicator keeps a failure */ }

/* Measures one size with the communicator's present algorithm, on all ranks at once. */
static clq_status measure_size(clq_comm *comm, trial_rank *ranks, size_t bytes, double *seconds) {
    clq_status status = CLQ_OK;
    for (unsigned r = 0; r < comm->size; r++) {
        ranks[r].bytes = bytes;
        if (r > 0 && status == CLQ_OK) status = clq_thread_start("trial", trial_body, &ranks[r], &ranks[r].thread);
    }
    clq_error why;
    clq_error_take(status, &why);
    if (status == CLQ_OK)
        trial_body(&ranks[0]);
    else
        clq_comm_abort(comm, &why);
    *seconds = 0;
    for (unsigned r = 0; r < comm->size; r++) {
        clq_thread_join(ranks[r].thread);
        ranks[r].thread = NULL;
        *seconds = CLQ_MAX(*seconds, ranks[r].best_s);
    }
    clq_error first; /* the first failure itself, not the others' ABORTED */
    if (status == CLQ_OK && clq_comm_failure(comm, &first) != CLQ_OK) status = clq_error_raise(&first);
    return status;
}

static clq_status measure_candidates(clq_comm *comm, trial_rank *ranks, clq_cost *costs) {
    for (size_t i = 0; i < CLQ_COUNT_OF(candidates); i++) {
        if (!is_candidate(comm, candidates[i])) continue;
        double few, many;
        comm->algorithm = candidates[i];
        CLQ_TRY(measure_size(comm, ranks, few_bytes, &few));
        CLQ_TRY(measure_size(comm, ranks, many_bytes(comm), &many));
        clq_cost *cost = &costs[candidates[i]];
        cost->beta_s = CLQ_MAX(many - few, 0) / (double)(many_bytes(comm) - few_bytes);
        cost->alpha_s = CLQ_MAX(few - cost->beta_s * (double)few_bytes, 1e-9);
    }
    return CLQ_OK;
}

static clq_status measure(clq_comm *comm, clq_cost *costs) {
    trial_rank ranks[CLQ_REPLICAS_MAX] = {0};
    clq_status status = CLQ_OK;
    for (unsigned r = 0; r < comm->size && status == CLQ_OK; r++) {
        trial_rank *t = &ranks[r];
        t->member = &comm->members[r];
        status = clq_queue_create(t->member->device, 0, &t->queue);
        if (status == CLQ_OK)
            status = clq_buffer_create(t->member->device, CLQ_MEMORY_DEVICE, most_bytes, "a trial", &t->buffer);
        if (status == CLQ_OK) status = clq_queue_fill_zero(t->queue, t->buffer, 0, most_bytes);
    }
    const double asked_s = comm->deadline_s; /* meant for the caller's collectives */
    comm->deadline_s = CLQ_MAX(asked_s, deadline_s);
    if (status == CLQ_OK) status = measure_candidates(comm, ranks, costs);
    comm->deadline_s = asked_s;
    comm->algorithm = CLQ_ALGORITHM_AUTO;
    for (unsigned r = 0; r < comm->size; r++) {
        clq_buffer_destroy(ranks[r].buffer);
        clq_queue_destroy(ranks[r].queue);
        atomic_store(&comm->members[r].busy_ns, 0);
        atomic_store(&comm->members[r].waited_ns, 0);
    }
    return status;
}

/* ---- keeping ---- */

/* *out: a hash of all that the times depend on. */
static clq_status make_key(const clq_comm *comm, clq_hash128 *out) {
    clq_text text = {0};
    clq_text_add(&text, "costs of all-reduces 5, transport %d, %u slots of %zu\n", (int)comm->transport, comm->slots,
                 comm->chunk_bytes);
    for (unsigned r = 0; r < comm->size; r++) {
        const clq_device_info *info = clq_device_get_info(comm->members[r].device);
        clq_text_add(&text, "%s %s %s %s %u units, island %u\n", info->driver, info->name, info->driver_version,
                     info->pci, info->compute_units, comm->islands.of[r]);
    }
    if (!text.failed) *out = clq_hash128_of(text.data, text.length, 0);
    clq_free(text.data);
    return text.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}

static clq_status recall(clq_comm *comm, clq_hash128 key, bool *found) {
    void *kept;
    size_t bytes;
    CLQ_TRY(clq_device_recall(comm->members[0].device, key, &kept, &bytes));
    *found = kept && bytes == sizeof comm->costs;
    if (*found) memcpy(comm->costs, kept, bytes);
    clq_free(kept);
    return CLQ_OK;
}

clq_status clq_comm_measure(clq_comm *comm) {
    clq_hash128 key;
    CLQ_TRY(make_key(comm, &key));
    CLQ_TRY(recall(comm, key, &comm->measured));
    if (comm->measured || !clq_device_remembers(comm->members[0].device)) return CLQ_OK;
    clq_cost costs[CLQ_ALGORITHM_COUNT] = {{0}};
    CLQ_TRY(measure(comm, costs));
    clq_device_remember(comm->members[0].device, key, costs, sizeof costs);
    return recall(comm, key, &comm->measured); /* another process may have kept its costs first */
}

/* ---- choosing ---- */

static clq_algorithm choose_by_rule(const clq_comm *comm, size_t bytes) {
    if (bytes <= (size_t)32 << 10 && is_candidate(comm, CLQ_ALGORITHM_DOUBLING)) return CLQ_ALGORITHM_DOUBLING;
    return is_nested(comm) ? CLQ_ALGORITHM_HIERARCHICAL : CLQ_ALGORITHM_RING;
}

/* By the measured costs, if there are any; otherwise by the rule. */
static clq_algorithm find_fastest(const clq_comm *comm, size_t bytes) {
    if (!comm->measured) return choose_by_rule(comm, bytes);
    clq_algorithm best = CLQ_ALGORITHM_RING;
    double least = INFINITY;
    for (size_t i = 0; i < CLQ_COUNT_OF(candidates); i++) {
        const clq_cost *cost = &comm->costs[candidates[i]];
        double time = cost->alpha_s + cost->beta_s * (double)bytes;
        if (cost->alpha_s == 0 || time >= least) continue;
        least = time;
        best = candidates[i];
    }
    return best;
}

clq_algorithm clq_comm_choose(const clq_comm *comm, clq_collective collective, size_t bytes) {
    if (comm->algorithm == CLQ_ALGORITHM_DIRECT) return CLQ_ALGORITHM_DIRECT; /* needs no schedule */
    const bool is_free = comm->algorithm == CLQ_ALGORITHM_AUTO && collective == CLQ_ALL_REDUCE;
    return clq_schedule_form(is_free ? find_fastest(comm, bytes) : comm->algorithm, collective, comm->size);
}

/* ---- telling ---- */

/* Tells which algorithm each range of sizes gets. The limits are right to one part in 64. */
void clq_comm_explain_choice(const clq_comm *comm, clq_text *text) {
    size_t from = 0;
    clq_algorithm now = clq_comm_choose(comm, CLQ_ALL_REDUCE, 0);
    for (size_t bytes = 64; bytes < (size_t)1 << 40; bytes += CLQ_MAX(bytes / 64, (size_t)4)) {
        clq_algorithm next = clq_comm_choose(comm, CLQ_ALL_REDUCE, bytes);
        if (next == now) continue;
        clq_text_add(text, "all-reduce of %zu bytes to %zu: %s\n", from, bytes - 1, clq_algorithm_name(now));
        from = bytes;
        now = next;
    }
    clq_text_add(text, "all-reduce of %zu bytes and more: %s (%s%s)\n", from, clq_algorithm_name(now), comm->reason,
                 comm->measured ? "; measured once for these devices and drivers" : "; by rule, not measured");
    for (size_t i = 0; i < CLQ_COUNT_OF(candidates) && comm->measured; i++) {
        const clq_cost *cost = &comm->costs[candidates[i]];
        if (cost->alpha_s > 0)
            clq_text_add(text, "  %s takes %.1f us + %.3f us per KiB\n", clq_algorithm_name(candidates[i]),
                         cost->alpha_s * 1e6, cost->beta_s * 1e6 * 1024);
    }
    clq_text_add(text, "other collectives, any size: ring\n");
}
