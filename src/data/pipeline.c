/* The running pipeline: the ring of assembled batches, which a thread fills ahead of the caller. */
#include "data/dataset.h"

enum { ALIGNMENT = 64 };
/* How many batches a thread assembles ahead if the caller leaves the number open. They are enough to bridge the drawing
 * of a new order, and the slow wake-ups of a virtual machine's idle core (0.1 ms each, one in a thousand 6 ms). */
enum { AHEAD_LEAST = 4, AHEAD_MOST = 16, AHEAD_BYTES = 1 << 20 };
/* The slots that are not in the channel: one is lent to the caller, one is being filled. */
enum { BESIDE_CHANNEL = 2 };

typedef struct slot {
    char *arrays[CLQ_FEED_MAX];                 /* in the order of the dataset's feed */
    clq_labels more[CLQ_MODEL_OUTPUTS_MAX - 1]; /* the caller's labels for the outputs after the first */
    size_t count;
} slot;

/* Without a thread, there is one slot, and the caller fills it. With a thread, the slots form a ring: one is lent to
 * the caller, one is being filled, and the channel has the numbers of the others. */
struct clq_data_ring {
    const clq_dataset *dataset;
    clq_place place; /* of the batch to assemble next. Only the thread that fills slots uses `place` and `order` */
    clq_order order;
    clq_thread *thread;     /* NULL: no prefetch */
    clq_channel *assembled; /* numbers of assembled slots (size_t), in order */
    void *memory;           /* the memory of all slots */
    size_t slots;
    slot slot[];
};

/* ---- assembling ---- */

/* Fills `to` with the batch at ring->place and goes on to the next place. */
static void assemble(clq_data_ring *ring, slot *to) {
    const clq_dataset *d = ring->dataset;
    clq_rows rows = clq_rows_at(d, &ring->order, ring->place);
    to->count = rows.count;
    for (unsigned i = 0; i < rows.feed->count; i++) clq_rows_copy(&rows, i, to->arrays[i]);
    if (++ring->place.index == clq_dataset_batches(d)) ring->place = (clq_place){ring->place.epoch + 1, 0};
}

static void assemble_ahead(void *context) {
    clq_data_ring *ring = context;
    for (size_t next = 0;; next = (next + 1) % ring->slots) {
        assemble(ring, &ring->slot[next]);
        if (!clq_channel_put(ring->assembled, &next)) return;
    }
}

/* ---- starting and stopping ---- */

/* Sets where a slot's arrays lie in `memory` (NULL: only measures). Returns the bytes of a slot. */
static size_t lay_out(const clq_dataset *d, char *memory, slot *to) {
    size_t rows = CLQ_MIN(clq_dataset_rows(d), d->info.samples), used = 0;
    for (unsigned i = 0; i < d->feed.count; i++) {
        const clq_feed_array *array = &d->feed.arrays[i];
        to->arrays[i] = memory ? memory + used : NULL;
        used += clq_round_up(rows * array->bytes, ALIGNMENT);
        if (array->role != CLQ_FEED_LABELS || array->index == 0) continue;
        const clq_labels_info *info = &d->info.labels[array->index];
        to->more[array->index - 1] =
            (clq_labels){.values = to->arrays[i], .is_float = info->is_float, .elements = info->elements};
    }
    return used;
}

static clq_status allocate(const clq_dataset *d, clq_data_ring *ring) {
    /* A single slot's size cannot overflow, because a batch is no larger than the set, which is in memory. The size of
     * all slots can. */
    size_t bytes = lay_out(d, NULL, &ring->slot[0]), all;
    if (!clq_mul_size(bytes, ring->slots, &all))
        return clq_fail(CLQ_ERROR_MEMORY, "%s: %zu batches ahead do not fit in memory", d->info.name, ring->slots - 1);
    ring->memory = clq_alloc_aligned(ALIGNMENT, all);
    if (!ring->memory) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < ring->slots; i++) (void)lay_out(d, (char *)ring->memory + i * bytes, &ring->slot[i]);
    return clq_order_allocate(&ring->order, d);
}

static void free_ring(clq_data_ring *ring) {
    clq_channel_destroy(ring->assembled);
    clq_free(ring->memory);
    clq_free(ring->order.places);
    clq_free(ring);
}

static size_t batches_ahead(const clq_dataset *d) {
    size_t ahead = (size_t)d->ahead;
    if (d->ahead == CLQ_PREFETCH_AUTO) {
        const size_t bytes = clq_feed_bytes(&d->feed) * CLQ_MIN(clq_dataset_rows(d), d->info.samples);
        ahead = CLQ_MAX(CLQ_MIN(AHEAD_BYTES / bytes, (size_t)AHEAD_MOST), (size_t)AHEAD_LEAST);
    }
    return CLQ_MIN(ahead, clq_dataset_batches(d)); /* more than an epoch ahead is useless */
}

/* One of the batches ahead is being filled or waits for room. The others are in the channel. */
static clq_status start_thread(clq_data_ring *ring) {
    CLQ_TRY(clq_channel_create(sizeof(size_t), ring->slots - BESIDE_CHANNEL, &ring->assembled));
    return clq_thread_start("clq-data", assemble_ahead, ring, &ring->thread);
}

static clq_status start(clq_dataset *d) {
    const size_t ahead = batches_ahead(d), slots = ahead > 0 ? CLQ_MAX(ahead - 1, (size_t)1) + BESIDE_CHANNEL : 1;
    clq_data_ring *ring = clq_alloc(1, sizeof *ring + slots * sizeof ring->slot[0]);
    if (!ring) return clq_fail_within(CLQ_ERROR_MEMORY, "%s", d->info.name);
    ring->dataset = d;
    ring->place = d->next;
    ring->slots = slots;
    clq_status status = allocate(d, ring);
    if (status == CLQ_OK && ahead > 0) status = start_thread(ring);
    if (status != CLQ_OK) {
        free_ring(ring);
        return clq_fail_within(status, "%s", d->info.name);
    }
    d->ring = ring;
    return CLQ_OK;
}

void clq_pipeline_stop(clq_dataset *dataset) {
    clq_orders_free(dataset);
    clq_data_ring *ring = dataset->ring;
    if (!ring) return;
    dataset->ring = NULL;
    if (ring->thread) clq_channel_close(ring->assembled);
    clq_thread_join(ring->thread);
    free_ring(ring);
}

/* ---- taking batches ---- */

/* Returns the slot that is now lent. The slot that was lent before belongs to the thread again. */
static const slot *take(clq_data_ring *ring) {
    size_t next = 0;
    if (ring->thread)
        (void)clq_channel_take(ring->assembled, &next); /* the channel is not closed, so there is a next slot */
    else
        assemble(ring, &ring->slot[0]);
    return &ring->slot[next];
}

/* The slot's array with this role and index 0; NULL: the dataset has none. */
static const void *array_of(const clq_dataset *d, const slot *taken, clq_feed_role role) {
    const unsigned at = clq_feed_find(&d->feed, role, 0);
    return at < d->feed.count ? taken->arrays[at] : NULL;
}

clq_status clq_dataset_next(clq_dataset *dataset, clq_batch *batch, bool *more) {
    if (dataset->next.index == clq_dataset_batches(dataset)) {
        dataset->next = (clq_place){dataset->next.epoch + 1, 0};
        *more = false;
        return CLQ_OK;
    }
    if (!dataset->ring) CLQ_TRY(start(dataset));
    const slot *taken = take(dataset->ring);
    *batch = (clq_batch){.count = taken->count,
                         .samples = array_of(dataset, taken, CLQ_FEED_SAMPLES),
                         .sample_elements = dataset->info.sample_elements,
                         .sample_dtype = dataset->info.sample_dtype,
                         .labels = array_of(dataset, taken, CLQ_FEED_LABELS),
                         .float_labels = dataset->info.float_labels,
                         .label_elements = dataset->info.label_elements,
                         .epoch = dataset->next.epoch,
                         .index = dataset->next.index,
                         .more_labels = taken->more,
                         .more_count = dataset->info.labels_count - 1,
                         .weights = array_of(dataset, taken, CLQ_FEED_WEIGHTS)};
    *more = true;
    dataset->next.index++;
    return CLQ_OK;
}
