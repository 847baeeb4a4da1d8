/* The pipeline at work: the ring of assembled batches, which a thread fills ahead. */
#include "data/dataset.h"

#include <string.h>

enum { ALIGNMENT = 64 };
/* Batches ahead, where the caller leaves it open: enough to ride over the drawing of a new order and over the slow
 * wake-ups of a virtual machine's idle core (0.1 ms each, one in a thousand 6 ms). */
enum { AHEAD_LEAST = 4, AHEAD_MOST = 16, AHEAD_BYTES = 1 << 20 };

typedef struct slot {
    char *samples, *labels[CLQ_MODEL_OUTPUTS_MAX];
    clq_labels more[CLQ_MODEL_OUTPUTS_MAX - 1]; /* what the caller gets of those behind the first */
    size_t count;
} slot;

/* Three counts of batches since the start say it all: produced >= taken >= released, and produced -
 * released <= slots. Without a thread there is one slot, and the caller fills it. What stands before
 * `mutex` is written by whoever fills slots, and by nobody else. */
struct clq_data_ring {
    const clq_dataset *dataset;
    clq_place place; /* of the batch to be assembled next */
    clq_order order;

    pthread_mutex_t mutex;
    pthread_cond_t ready, room;
    uint64_t produced, taken, released;
    bool stop;

    clq_thread *thread; /* NULL: no prefetch */
    void *memory;       /* of all slots */
    size_t slots;
    slot slot[];
};

/* ---- assembling ---- */

/* Fills `to` with the batch at ring->place and goes on to the next place. */
static void assemble(clq_data_ring *ring, slot *to) {
    const clq_dataset *d = ring->dataset;
    clq_rows rows = clq_rows_at(d, &ring->order, ring->place);
    to->count = rows.count;
    clq_rows_copy_samples(&rows, to->samples);
    for (size_t i = 0; i < rows.labels_count; i++) clq_rows_copy_labels(&rows, i, to->labels[i]);
    if (++ring->place.index == clq_dataset_batches(d)) ring->place = (clq_place){ring->place.epoch + 1, 0};
}

static slot *slot_of(clq_data_ring *ring, uint64_t number) { return &ring->slot[number % ring->slots]; }

static void assemble_ahead(void *context) {
    clq_data_ring *ring = context;
    pthread_mutex_lock(&ring->mutex);
    for (;;) {
        while (!ring->stop && ring->produced - ring->released == ring->slots)
            pthread_cond_wait(&ring->room, &ring->mutex);
        if (ring->stop) break;
        slot *to = slot_of(ring, ring->produced);
        pthread_mutex_unlock(&ring->mutex);
        assemble(ring, to);
        pthread_mutex_lock(&ring->mutex);
        ring->produced++;
        pthread_cond_signal(&ring->ready);
    }
    pthread_mutex_unlock(&ring->mutex);
}

/* ---- starting and stopping ---- */

/* Where a slot's rows lie in memory[0 … its bytes), which are returned. */
static size_t lay_out(const clq_dataset *d, char *memory, slot *to) {
    size_t rows = CLQ_MIN(d->batch, d->info.samples), used = clq_round_up(rows * d->sample_bytes, ALIGNMENT);
    to->samples = memory;
    for (size_t i = 0; i < d->info.labels_count; i++) {
        const clq_labels_info *info = &d->info.labels[i];
        to->labels[i] = memory ? memory + used : NULL;
        if (i > 0)
            to->more[i - 1] =
                (clq_labels){.values = to->labels[i], .is_float = info->is_float, .elements = info->elements};
        used += clq_round_up(rows * d->label_rows[i].bytes, ALIGNMENT);
    }
    return used;
}

static clq_status allocate(const clq_dataset *d, clq_data_ring *ring) {
    /* A batch is no larger than the set, which is in memory: only all slots together may be too much. */
    size_t bytes = lay_out(d, NULL, &ring->slot[0]), all;
    if (!clq_mul_size(bytes, ring->slots, &all))
        return clq_fail(CLQ_MEMORY, "%s: %zu batches ahead do not fit in memory", d->info.name, ring->slots - 1);
    ring->memory = clq_alloc_aligned(ALIGNMENT, all);
    if (!ring->memory) return CLQ_MEMORY;
    for (size_t i = 0; i < ring->slots; i++) (void)lay_out(d, (char *)ring->memory + i * bytes, &ring->slot[i]);
    return clq_order_allocate(&ring->order, d);
}

static clq_status initialise_locks(clq_data_ring *ring) {
    int error = pthread_mutex_init(&ring->mutex, NULL);
    if (error != 0) goto failed;
    error = pthread_cond_init(&ring->ready, NULL);
    if (error != 0) goto destroy_mutex;
    error = pthread_cond_init(&ring->room, NULL);
    if (error == 0) return CLQ_OK;
    pthread_cond_destroy(&ring->ready);
destroy_mutex:
    pthread_mutex_destroy(&ring->mutex);
failed:
    return clq_fail_lock("a dataset", error);
}

static void free_ring(clq_data_ring *ring) {
    clq_free(ring->memory);
    clq_free(ring->order.places);
    clq_free(ring);
}

static void destroy_locks(clq_data_ring *ring) {
    pthread_cond_destroy(&ring->room);
    pthread_cond_destroy(&ring->ready);
    pthread_mutex_destroy(&ring->mutex);
}

static size_t batches_ahead(const clq_dataset *d) {
    size_t ahead = (size_t)d->ahead;
    if (d->ahead == CLQ_AUTO) {
        size_t bytes = d->sample_bytes;
        for (size_t i = 0; i < d->info.labels_count; i++) bytes += d->label_rows[i].bytes;
        bytes *= CLQ_MIN(d->batch, d->info.samples);
        ahead = CLQ_MAX(CLQ_MIN(AHEAD_BYTES / bytes, (size_t)AHEAD_MOST), (size_t)AHEAD_LEAST);
    }
    return CLQ_MIN(ahead, clq_dataset_batches(d)); /* further ahead than an epoch nobody needs to be */
}

static clq_status start(clq_dataset *d) {
    size_t slots = batches_ahead(d) + 1; /* one is lent to the caller */
    clq_data_ring *ring = clq_alloc(1, sizeof *ring + slots * sizeof ring->slot[0]);
    if (!ring) return clq_fail_within(CLQ_MEMORY, "%s", d->info.name);
    ring->dataset = d;
    ring->place = d->next;
    ring->slots = slots;
    clq_status status;
    CLQ_TRY_OR(fail, status, allocate(d, ring));
    CLQ_TRY_OR(fail, status, initialise_locks(ring));
    if (slots > 1) CLQ_TRY_OR(fail_thread, status, clq_thread_start("clq-data", assemble_ahead, ring, &ring->thread));
    d->ring = ring;
    return CLQ_OK;
fail_thread:
    destroy_locks(ring);
fail:
    free_ring(ring);
    return clq_fail_within(status, "%s", d->info.name);
}

void clq_pipeline_stop(clq_dataset *dataset) {
    clq_orders_free(dataset);
    clq_data_ring *ring = dataset->ring;
    if (!ring) return;
    dataset->ring = NULL;
    pthread_mutex_lock(&ring->mutex);
    ring->stop = true;
    pthread_cond_signal(&ring->room);
    pthread_mutex_unlock(&ring->mutex);
    clq_thread_join(ring->thread);
    destroy_locks(ring);
    free_ring(ring);
}

/* ---- taking batches ---- */

/* Gives the lent slot back. The thread is woken once there is room for half a ring: waking costs both sides more than a
 * batch does. */
static void release(clq_data_ring *ring) {
    pthread_mutex_lock(&ring->mutex);
    ring->released = ring->taken;
    if (ring->produced - ring->released <= ring->slots / 2) pthread_cond_signal(&ring->room);
    pthread_mutex_unlock(&ring->mutex);
}

static const slot *take(clq_data_ring *ring) {
    if (!ring->thread) {
        assemble(ring, slot_of(ring, 0));
        return slot_of(ring, 0);
    }
    pthread_mutex_lock(&ring->mutex);
    while (ring->produced == ring->taken) pthread_cond_wait(&ring->ready, &ring->mutex);
    const slot *taken = slot_of(ring, ring->taken++);
    pthread_mutex_unlock(&ring->mutex);
    return taken;
}

clq_status clq_dataset_next(clq_dataset *dataset, clq_batch *batch, bool *more) {
    if (dataset->ring && dataset->ring->thread) release(dataset->ring);
    if (dataset->next.index == clq_dataset_batches(dataset)) {
        dataset->next = (clq_place){dataset->next.epoch + 1, 0};
        *more = false;
        return CLQ_OK;
    }
    if (!dataset->ring) CLQ_TRY(start(dataset));
    const slot *taken = take(dataset->ring);
    *batch = (clq_batch){.count = taken->count,
                         .samples = taken->samples,
                         .sample_elements = dataset->info.sample_elements,
                         .sample_dtype = dataset->info.sample_dtype,
                         .labels = taken->labels[0],
                         .float_labels = dataset->info.float_labels,
                         .label_elements = dataset->info.label_elements,
                         .epoch = dataset->next.epoch,
                         .index = dataset->next.index,
                         .more_labels = taken->more,
                         .more_count = dataset->info.labels_count - 1};
    *more = true;
    dataset->next.index++;
    return CLQ_OK;
}
