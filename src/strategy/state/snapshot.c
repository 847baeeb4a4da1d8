/* Snapshots. Taking one: the replicas' threads copy what replicas and stores hold to the host, and the snapshot lists
 * it by variable. Putting one: the way back. */
#include "strategy/exchange/storage.h"

#include <string.h>

/* Host copies of a replica's arenas, optimizer slots and compression error. NULL: not read. */
typedef struct image {
    char *arenas[CLQ_ARENA_STATE + 1], *slots[CLQ_UPDATE_STATES_MAX], *error;
} image;

typedef struct work {
    clq_strategy *strategy;
    clq_snapshot *snapshot;
    clq_kept kept;
    image *images;       /* (replicas of all processes); the snapshot owns the memory */
    unsigned slots;      /* of the optimizer */
    unsigned first;      /* this process's first replica */
    unsigned begin, end; /* the replicas that have an image here: those of this process, or of all processes */
    bool only_gives;     /* another process gets the snapshot: this one reads only what no other process has */
} work;

void clq_snapshot_release(clq_snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->block_count; i++) clq_free(snapshot->blocks[i]);
    clq_free(snapshot->blocks);
    clq_free(snapshot->entries);
    *snapshot = (clq_snapshot){0};
}

/* Allocates zeroed memory, which the snapshot owns. */
static void *take_block(clq_snapshot *snapshot, size_t bytes) {
    void **grown = clq_grow(snapshot->blocks, snapshot->block_count, &snapshot->block_capacity, 16, sizeof *grown);
    if (!grown) return NULL;
    snapshot->blocks = grown;
    void *block = clq_alloc(CLQ_MAX(bytes, (size_t)1), 1);
    if (block) snapshot->blocks[snapshot->block_count++] = block;
    return block;
}

static clq_status add_entry(work *w, const clq_snapshot_entry *entry) {
    clq_snapshot *s = w->snapshot;
    clq_snapshot_entry *grown = clq_grow(s->entries, s->count, &s->capacity, 64, sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    s->entries = grown;
    s->entries[s->count++] = *entry;
    return CLQ_OK;
}

/* ---- what is where ---- */

static unsigned slots_of(const clq_strategy *strategy, const clq_kept *kept) {
    return kept->storage ? clq_storage_states(kept->storage)
                         : clq_weights_optimizer_slots(strategy->replicas[0].weights);
}

static clq_status begin(clq_strategy *strategy, clq_snapshot *snapshot, work *out) {
    *out = (work){.strategy = strategy,
                  .snapshot = snapshot,
                  .kept = clq_exchange_kept(strategy),
                  .images = take_block(snapshot, strategy->total * sizeof *out->images),
                  .first = strategy->first,
                  .begin = strategy->first,
                  .end = strategy->first + strategy->count};
    out->slots = slots_of(strategy, &out->kept);
    return out->images ? CLQ_OK : CLQ_ERROR_MEMORY;
}

unsigned clq_strategy_slots(clq_strategy *strategy) {
    const clq_kept kept = clq_exchange_kept(strategy);
    return slots_of(strategy, &kept);
}

static bool is_here(const work *w, unsigned r) { return r - w->first < w->strategy->count; }

/* The replica of this process that has the same weights layout as replica r: r itself, or for a replica of another
 * process the first replica with the same stage. */
static const clq_replica *replica_like(const work *w, unsigned r) {
    return &w->strategy->replicas[is_here(w, r) ? r - w->first : r % w->strategy->group];
}

static bool has(const work *w, unsigned r, size_t variable) {
    return clq_weights_offset(replica_like(w, r)->weights, variable) != CLQ_NO_OFFSET;
}

static bool is_sliced(const work *w, size_t variable) {
    for (unsigned r = 0; r < w->strategy->total; r++)
        if (has(w, r, variable)) return clq_replica_has_slice(replica_like(w, r), variable);
    return false;
}

/* Whether replica r's parameters and slots are read. The first replica stands for those that have the same bits. A
 * replica has other bits if it holds or does something else, or if its device is of another kind: compilers round
 * differently. From other processes' replicas, only what they alone have is read (piece_of). */
static bool reads_all(const work *w, unsigned r) {
    const clq_strategy *strategy = w->strategy;
    const clq_replica *first = &strategy->replicas[0], *own = replica_like(w, r);
    if (!is_here(w, r) || w->only_gives) return false;
    return own == first || own->stage || strategy->config.plan.slicing || w->kept.local_steps ||
           !clq_selections_are_shared(first->worker.device, own->worker.device);
}

/* Whether replica r's state is read. With stages, the replicas of all pipelines are read. */
static bool reads_state(const work *w, unsigned r) {
    return is_here(w, r) && !w->only_gives && (reads_all(w, r) || w->strategy->outdated[CLQ_ARENA_STATE]);
}

/* Whether replica r keeps a compression error. Replicas of other processes do if those of this process do. */
static bool has_error(const work *w, unsigned r) { return w->kept.errors[is_here(w, r) ? r - w->first : 0]; }

/* ---- between a replica and its image, by the replica's thread ---- */

typedef struct transfer {
    image *image;
    clq_buffer *error;
    bool writes;
} transfer;

static clq_status move(clq_queue *queue, bool writes, clq_buffer *buffer, char *host) {
    if (!buffer || !host) return CLQ_OK;
    if (writes) return clq_queue_write(queue, buffer, 0, host, clq_buffer_bytes(buffer), true);
    return clq_queue_read(queue, buffer, 0, host, clq_buffer_bytes(buffer), true);
}

static clq_status run_transfer(clq_worker *worker, const clq_command *command) {
    const transfer *t = command->to;
    const clq_weights *weights = clq_replica_of(worker)->weights;
    size_t part, end;
    clq_weights_part(weights, &part, &end);
    for (unsigned a = 0; a <= CLQ_ARENA_STATE; a++)
        CLQ_TRY(move(worker->queue, t->writes, clq_weights_arena(weights, (clq_arena)a), t->image->arenas[a]));
    for (unsigned k = 0; k < clq_weights_optimizer_slots(weights); k++)
        CLQ_TRY(move(worker->queue, t->writes, clq_weights_optimizer_slot(weights, k),
                     t->image->slots[k] ? t->image->slots[k] + part : NULL));
    return move(worker->queue, t->writes, t->error, t->image->error);
}
static const clq_command_kind snapshot_kind = {.name = "snapshot", .run = run_transfer};

static clq_status transfer_all(work *w, bool writes) {
    transfer transfers[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < w->strategy->count; r++) {
        transfers[r] = (transfer){.image = &w->images[w->first + r], .error = w->kept.errors[r], .writes = writes};
        clq_channel_put(w->strategy->replicas[r].worker.commands,
                        &(clq_command){.kind = &snapshot_kind, .to = &transfers[r]});
    }
    return clq_strategy_wait(w->strategy);
}

/* ---- taking ---- */

/* With a sharded optimizer, one image has the slots of all replicas' parts. If there is a store, parameters and slots
 * are read from it (read_store), not from the replicas. */
static clq_status open_image(work *w, unsigned r) {
    const clq_weights *weights = replica_like(w, r)->weights;
    clq_snapshot *s = w->snapshot;
    image *own = &w->images[r];
    const size_t bytes = clq_weights_arena_bytes(weights, CLQ_ARENA_PARAMETERS);
    const size_t state = clq_weights_arena_bytes(weights, CLQ_ARENA_STATE);
    if ((reads_all(w, r) || w->kept.local_steps) && !w->kept.storage)
        if (!(own->arenas[CLQ_ARENA_PARAMETERS] = take_block(s, bytes))) return CLQ_ERROR_MEMORY;
    if (reads_state(w, r) && state > 0)
        if (!(own->arenas[CLQ_ARENA_STATE] = take_block(s, state))) return CLQ_ERROR_MEMORY;
    for (unsigned k = 0; k < w->slots && !w->kept.storage; k++) {
        const bool is_first = r == w->begin, shards = w->strategy->shards_optimizer;
        if (shards && !is_first)
            own->slots[k] = w->images[w->begin].slots[k];
        else if ((shards || reads_all(w, r) || w->kept.local_steps) && !(own->slots[k] = take_block(s, bytes)))
            return CLQ_ERROR_MEMORY;
    }
    if (has_error(w, r) && !(own->error = take_block(s, bytes))) return CLQ_ERROR_MEMORY;
    return CLQ_OK;
}

static clq_status open_images(work *w) {
    for (unsigned r = w->begin; r < w->end; r++) CLQ_TRY(open_image(w, r));
    return CLQ_OK;
}

static clq_status read_store(work *w) {
    const size_t bytes = clq_weights_arena_bytes(w->strategy->replicas[0].weights, CLQ_ARENA_PARAMETERS);
    image *first = &w->images[w->first];
    if (!w->kept.storage) return CLQ_OK;
    if (!(first->arenas[CLQ_ARENA_PARAMETERS] = take_block(w->snapshot, bytes))) return CLQ_ERROR_MEMORY;
    for (unsigned k = 0; k < w->slots; k++)
        if (!(first->slots[k] = take_block(w->snapshot, bytes))) return CLQ_ERROR_MEMORY;
    return clq_storage_read_all(w->kept.storage, first->arenas[CLQ_ARENA_PARAMETERS], first->slots);
}

/* A replica's values for an entry, in its image. NULL: it has none, or they were not read. */
static char *values_in(const work *w, unsigned r, const clq_snapshot_entry *e) {
    const clq_variable *v = &w->strategy->model->variables[e->variable];
    const image *own = &w->images[r];
    char *arena = e->kind == CLQ_SNAPSHOT_VALUE  ? own->arenas[clq_variable_arena(v)]
                  : e->kind == CLQ_SNAPSHOT_SLOT ? own->slots[e->slot]
                                                 : own->error;
    if (!arena || !has(w, r, e->variable)) return NULL;
    return arena + clq_weights_offset(replica_like(w, r)->weights, e->variable);
}

static clq_status add_slices(work *w, clq_snapshot_entry *e) {
    const clq_strategy *strategy = w->strategy;
    const clq_variable *v = &strategy->model->variables[e->variable];
    float *whole = take_block(w->snapshot, clq_variable_bytes(v));
    if (!whole) return CLQ_ERROR_MEMORY;
    for (unsigned r = 0; r < strategy->total; r++) {
        const clq_weight_slice slice = clq_weights_slice(replica_like(w, r)->weights, e->variable);
        clq_weight_slice_paste(&slice, v, (const float *)(const void *)values_in(w, r, e), whole);
    }
    e->values = whole;
    return add_entry(w, e);
}

static bool is_of_each(const work *w, const clq_snapshot_entry *e) {
    const clq_variable *v = &w->strategy->model->variables[e->variable];
    if (e->kind == CLQ_SNAPSHOT_ERROR) return true;
    if (v->role == CLQ_ROLE_STATE) return w->strategy->outdated[CLQ_ARENA_STATE] && !clq_variable_is_shared(v);
    return w->kept.local_steps != NULL;
}

static bool any_computed(const clq_strategy *strategy) {
    bool any = false;
    for (unsigned r = 0; r < strategy->total; r++) any = any || strategy->computed[r];
    return any;
}

/* The weight of replica r in the mean that stands for all replicas. */
static double weight_of(const work *w, unsigned r, const clq_snapshot_entry *e) {
    const unsigned group = w->strategy->group;
    const bool state = w->strategy->model->variables[e->variable].role == CLQ_ROLE_STATE;
    if (state && is_of_each(w, e) && any_computed(w->strategy))
        return w->strategy->computed[r / group * group] ? 1.0 : 0.0;
    if (e->kind == CLQ_SNAPSHOT_VALUE && w->kept.local_steps && *w->kept.local_steps > 0 && !state)
        return (double)w->kept.local_samples[r];
    return 1.0;
}

static clq_status add_mean(work *w, clq_snapshot_entry *e) {
    const clq_variable *v = &w->strategy->model->variables[e->variable];
    float *mean = take_block(w->snapshot, clq_variable_bytes(v));
    double total = 0.0;
    if (!mean) return CLQ_ERROR_MEMORY;
    for (unsigned r = 0; r < w->strategy->total; r++)
        if (values_in(w, r, e)) total += weight_of(w, r, e);
    for (size_t i = 0; i < v->elements && total > 0.0; i++) {
        double sum = 0.0;
        for (unsigned r = 0; r < w->strategy->total; r++) {
            const float *own = (const float *)(const void *)values_in(w, r, e);
            if (own) sum += weight_of(w, r, e) * (double)own[i];
        }
        mean[i] = (float)(sum / total);
    }
    e->values = mean;
    return add_entry(w, e);
}

static clq_status add_of_all(work *w, clq_snapshot_entry e) {
    e.replica = -1;
    if (e.kind == CLQ_SNAPSHOT_ERROR) return CLQ_OK; /* it belongs to one replica's gradient alone */
    if (is_sliced(w, e.variable)) return add_slices(w, &e);
    if (is_of_each(w, &e)) return add_mean(w, &e);
    for (unsigned r = 0; r < w->strategy->total && !e.values; r++) e.values = (void *)values_in(w, r, &e);
    return e.values ? add_entry(w, &e) : CLQ_OK;
}

/* Adds a replica's own values if they are not those of all replicas. */
static clq_status add_own(work *w, clq_snapshot_entry e) {
    const size_t bytes = clq_variable_bytes(&w->strategy->model->variables[e.variable]);
    const char *first = NULL;
    if (is_sliced(w, e.variable)) return CLQ_OK;
    for (unsigned r = 0; r < w->strategy->total; r++) {
        const char *values = values_in(w, r, &e);
        if (!values) continue;
        if (!first) first = values;
        if (!is_of_each(w, &e) && memcmp(values, first, bytes) == 0) continue;
        e.replica = (int)r;
        e.values = (const float *)(const void *)values;
        CLQ_TRY(add_entry(w, &e));
    }
    return CLQ_OK;
}

static clq_status add_all(work *w, clq_status (*add)(work *w, clq_snapshot_entry e)) {
    for (uint32_t v = 0; v < w->strategy->model->variable_count; v++) {
        const bool trained = w->strategy->model->variables[v].role == CLQ_ROLE_TRAINABLE;
        CLQ_TRY(add(w, (clq_snapshot_entry){.variable = v, .kind = CLQ_SNAPSHOT_VALUE}));
        for (unsigned k = 0; k < w->slots && trained; k++)
            CLQ_TRY(add(w, (clq_snapshot_entry){.variable = v, .kind = CLQ_SNAPSHOT_SLOT, .slot = k}));
        if (trained) CLQ_TRY(add(w, (clq_snapshot_entry){.variable = v, .kind = CLQ_SNAPSHOT_ERROR}));
    }
    return CLQ_OK;
}

/* ---- between processes ---- */

/* Values that only one replica has. */
typedef struct piece {
    char *at;
    size_t bytes;
} piece;

/* Piece i of replica r. The pieces are each slot of the optimizer, the compression error, and the parameters. bytes 0:
 * the replica has no such piece. */
static piece piece_of(const work *w, unsigned r, unsigned i) {
    const image *own = &w->images[r];
    const bool shards = w->strategy->shards_optimizer;
    const size_t bytes = clq_weights_arena_bytes(replica_like(w, r)->weights, CLQ_ARENA_PARAMETERS);
    const size_t part = shards ? bytes / w->strategy->total : bytes; /* as clq_weights_part */
    if (i == w->slots) return (piece){own->error, own->error ? bytes : 0};
    if (i == w->slots + 1) return (piece){own->arenas[CLQ_ARENA_PARAMETERS], w->kept.local_steps ? bytes : 0};
    if (!shards && !w->kept.local_steps) return (piece){0};
    return (piece){own->slots[i] ? own->slots[i] + (shards ? r * part : 0) : NULL, part};
}

static unsigned piece_count(const work *w) { return w->slots + 2; }

static bool has_pieces(const work *w) {
    return w->strategy->shards_optimizer || w->kept.local_steps || w->kept.errors[0];
}

static clq_status send_pieces(const work *w) {
    const clq_strategy *strategy = w->strategy;
    clq_world *world = strategy->config.world;
    const uint32_t which[] = {w->first, strategy->count};
    CLQ_TRY(clq_world_send(world, 0, strategy->tag, which, sizeof which, 0));
    for (unsigned r = w->first; r < w->first + strategy->count; r++)
        for (unsigned i = 0; i < piece_count(w); i++) {
            const piece own = piece_of(w, r, i);
            if (own.bytes > 0) CLQ_TRY(clq_world_send(world, 0, strategy->tag, own.at, own.bytes, 0));
        }
    return CLQ_OK;
}

static clq_status receive_pieces(const work *w, unsigned rank) {
    const clq_strategy *strategy = w->strategy;
    clq_world *world = strategy->config.world;
    uint32_t which[2];
    CLQ_TRY(clq_world_receive(world, rank, strategy->tag, which, sizeof which, 0));
    for (unsigned r = which[0]; r < which[0] + which[1]; r++)
        for (unsigned i = 0; i < piece_count(w); i++) {
            const piece its = piece_of(w, r, i);
            if (its.bytes > 0) CLQ_TRY(clq_world_receive(world, rank, strategy->tag, its.at, its.bytes, 0));
        }
    return CLQ_OK;
}

static clq_status spread_pieces(const work *w) {
    for (unsigned r = 0; r < w->strategy->total; r++)
        for (unsigned i = 0; i < piece_count(w); i++) {
            const piece its = piece_of(w, r, i);
            CLQ_TRY(clq_world_broadcast(w->strategy->config.world, its.at, its.bytes));
        }
    return CLQ_OK;
}

/* status: of this process. If any process lacks memory, all processes return MEMORY, and the training can go on. Any
 * other failure ends the world. */
static clq_status agree_on_memory(clq_world *world, clq_status status) {
    const unsigned char lacking = status == CLQ_ERROR_MEMORY;
    const unsigned size = clq_world_size(world);
    if (status != CLQ_OK && status != CLQ_ERROR_MEMORY) return clq_world_fail_with(world, status);
    clq_error own;
    clq_error_take(status, &own);
    unsigned char *all = clq_alloc(size, sizeof *all);
    if (!all) return clq_world_fail_with(world, CLQ_ERROR_MEMORY);
    status = clq_world_gather(world, &lacking, sizeof lacking, all);
    unsigned r = 0;
    while (status == CLQ_OK && r < size && !all[r]) r++;
    clq_free(all);
    CLQ_TRY(status);
    if (lacking) return clq_error_raise(&own);
    return r == size ? CLQ_OK
                     : clq_fail(CLQ_ERROR_MEMORY, "%s has too little memory for a snapshot", clq_world_name(world, r));
}

static clq_status exchange_pieces(const work *w, bool for_all) {
    clq_world *world = w->strategy->config.world;
    const unsigned rank = clq_world_rank(world);
    if (rank > 0) CLQ_TRY(send_pieces(w));
    for (unsigned r = 1; rank == 0 && r < clq_world_size(world); r++) CLQ_TRY(receive_pieces(w, r));
    return for_all ? spread_pieces(w) : CLQ_OK;
}

/* ---- a snapshot ---- */

static clq_status read_replicas(work *w, clq_status begun) {
    CLQ_TRY(begun);
    CLQ_TRY(open_images(w));
    CLQ_TRY(transfer_all(w, false));
    return read_store(w);
}

static clq_status read_images(work *w, clq_status begun, bool for_all) {
    const clq_strategy *strategy = w->strategy;
    const bool gathers = clq_strategy_spans(strategy) && has_pieces(w);
    if (gathers && (for_all || w->first == 0)) w->begin = 0, w->end = strategy->total;
    clq_status status = read_replicas(w, begun);
    if (!gathers) return status;
    CLQ_TRY(agree_on_memory(strategy->config.world, status));
    status = exchange_pieces(w, for_all);
    return status == CLQ_OK ? CLQ_OK : clq_world_fail_with(strategy->config.world, status);
}

clq_status clq_snapshot_open_counts(clq_snapshot *snapshot) {
    snapshot->local_samples = take_block(snapshot, snapshot->replicas * sizeof *snapshot->local_samples);
    snapshot->shares = take_block(snapshot, snapshot->replicas * sizeof *snapshot->shares);
    return snapshot->local_samples && snapshot->shares ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static clq_status take_counts(const work *w, clq_snapshot *out) {
    clq_strategy *strategy = w->strategy;
    CLQ_TRY(clq_snapshot_open_counts(out));
    out->slots = w->slots;
    out->state_apart = strategy->outdated[CLQ_ARENA_STATE];
    for (unsigned r = 0; r < CLQ_MIN(strategy->total, CLQ_REPLICAS_MAX); r++)
        out->computed |= (uint64_t)strategy->computed[r] << r;
    for (unsigned r = 0; w->kept.local_steps && r < strategy->total; r++)
        out->local_samples[r] = w->kept.local_samples[r];
    if (w->kept.local_steps) out->local_steps = *w->kept.local_steps;
    out->scales = clq_strategy_scales(strategy);
    (void)clq_shares_now(strategy, out->shares);
    return out->scales ? clq_strategy_read_scaling(strategy, out->scaling) : CLQ_OK;
}

static clq_status take(clq_strategy *strategy, bool for_all, clq_snapshot *out) {
    work w;
    const bool takes = for_all || !clq_strategy_spans(strategy) || clq_world_rank(strategy->config.world) == 0;
    const clq_status begun = begin(strategy, out, &w);
    w.only_gives = !takes;
    if (!takes && !has_pieces(&w)) return CLQ_OK;
    CLQ_TRY(read_images(&w, begun, for_all));
    if (!takes) return CLQ_OK;
    CLQ_TRY(take_counts(&w, out));
    CLQ_TRY(add_all(&w, add_of_all));
    return add_all(&w, add_own);
}

/* With store ranks, all processes meet at the end: while one of them reads the store, no other may update it. */
clq_status clq_strategy_take_snapshot(clq_strategy *strategy, bool for_all, clq_snapshot *out) {
    clq_error error;
    *out = (clq_snapshot){.replicas = strategy->total};
    CLQ_TRY(clq_strategy_failure(strategy));
    clq_strategy_make_current(strategy, CLQ_CURRENT_OPTIMIZER);
    clq_error_take(take(strategy, for_all, out), &error);
    if (clq_world_apart(strategy->config.world) > 0) CLQ_TRY(clq_world_barrier(strategy->config.world));
    return clq_error_raise(&error);
}

/* ---- putting ---- */

static clq_status open_to_write(work *w, unsigned r) {
    const clq_weights *weights = replica_like(w, r)->weights;
    image *own = &w->images[r];
    const size_t bytes = clq_weights_arena_bytes(weights, CLQ_ARENA_PARAMETERS);
    const size_t state = clq_weights_arena_bytes(weights, CLQ_ARENA_STATE);
    if (!(own->arenas[CLQ_ARENA_PARAMETERS] = take_block(w->snapshot, bytes))) return CLQ_ERROR_MEMORY;
    if (state > 0 && !(own->arenas[CLQ_ARENA_STATE] = take_block(w->snapshot, state))) return CLQ_ERROR_MEMORY;
    for (unsigned k = 0; k < w->slots; k++)
        if (!(own->slots[k] = take_block(w->snapshot, bytes))) return CLQ_ERROR_MEMORY;
    if (has_error(w, r) && !(own->error = take_block(w->snapshot, bytes))) return CLQ_ERROR_MEMORY;
    return CLQ_OK;
}

static void put_entry(work *w, const clq_snapshot_entry *e, unsigned r) {
    const clq_variable *v = &w->strategy->model->variables[e->variable];
    char *to = values_in(w, r, e);
    if (!to) return;
    if (is_sliced(w, e->variable)) {
        const clq_weight_slice slice = clq_weights_slice(replica_like(w, r)->weights, e->variable);
        clq_weight_slice_cut(&slice, v, e->values, (float *)(void *)to);
    } else {
        memcpy(to, e->values, clq_variable_bytes(v));
    }
}

static clq_status put_store(const work *w) {
    const image *first = &w->images[w->first];
    if (!w->kept.storage) return CLQ_OK;
    return clq_storage_write_all(w->kept.storage, first->arenas[CLQ_ARENA_PARAMETERS], first->slots);
}

/* Restores the poster's counts. */
static clq_status put_counts(const work *w, const clq_snapshot *from, bool own, uint64_t step) {
    clq_strategy *strategy = w->strategy;
    for (unsigned r = 0; r < strategy->total; r++)
        strategy->computed[r] = own && r < CLQ_REPLICAS_MAX && from->computed >> r & 1;
    strategy->steps_before = step - strategy->replicas[0].worker.steps_done;
    strategy->posted = step;
    strategy->outdated[CLQ_ARENA_STATE] = own && from->state_apart;
    for (unsigned r = 0; w->kept.local_steps && r < strategy->total; r++)
        w->kept.local_samples[r] = own ? from->local_samples[r] : 0;
    if (w->kept.local_steps) {
        *w->kept.local_steps = own ? from->local_steps : 0;
        strategy->outdated[CLQ_ARENA_PARAMETERS] = *w->kept.local_steps > 0;
    }
    if (strategy->module->go_on) CLQ_TRY(strategy->module->go_on(strategy, step));
    return own ? clq_shares_go_on(strategy, step + 1, from->shares) : CLQ_OK;
}

static clq_status put(work *w, const clq_snapshot *from, bool own, uint64_t step) {
    for (unsigned r = w->begin; r < w->end; r++) CLQ_TRY(open_to_write(w, r));
    for (size_t i = 0; i < from->count; i++) {
        const clq_snapshot_entry *e = &from->entries[i];
        for (unsigned r = w->begin; r < w->end; r++)
            if (e->replica < 0 || (own && e->replica == (int)r)) put_entry(w, e, r);
    }
    CLQ_TRY(transfer_all(w, true));
    CLQ_TRY(put_store(w));
    if (from->scales && clq_strategy_scales(w->strategy))
        CLQ_TRY(clq_strategy_write_scaling(w->strategy, from->scaling));
    return put_counts(w, from, own, step);
}

clq_status clq_strategy_put_snapshot(clq_strategy *strategy, const clq_snapshot *snapshot, bool own, uint64_t step) {
    clq_snapshot images = {0}; /* owns the images' memory; released below */
    work w;
    CLQ_TRY(clq_strategy_wait(strategy));
    clq_status status = begin(strategy, &images, &w);
    if (status == CLQ_OK) status = put(&w, snapshot, own && snapshot->replicas == strategy->total, step);
    clq_snapshot_release(&images);
    return status;
}
