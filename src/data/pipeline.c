/* The pipeline at work: the order of an epoch, the assembling of batches, and the ring that a thread
 * fills ahead. */
#include "data/dataset.h"

#include <string.h>

enum { ALIGNMENT = 64 };
/* Batches ahead, where the caller leaves it open: enough to ride over the drawing of a new order and over the slow
 * wake-ups of a virtual machine's idle core (0.1 ms each, one in a thousand 6 ms). */
enum { AHEAD_LEAST = 4, AHEAD_MOST = 16, AHEAD_BYTES = 1 << 20 };
/* Samples lie all over the set, and the processor sees one coming only when it is read: they are fetched so far ahead.
 */
enum { FETCH_SAMPLES = 8, FETCH_BYTES = 8 << 10, LINE_BYTES = 64 };

typedef struct slot {
    char *samples, *labels;
    size_t count;
} slot;

/* Three counts of batches since the start say it all: produced >= taken >= released, and produced -
 * released <= slots. Without a thread there is one slot, and the caller fills it. What stands before
 * `mutex` is written by whoever fills slots, and by nobody else. */
struct clq_data_ring {
    const clq_dataset *dataset;
    clq_place place; /* of the batch to be assembled next */
    size_t *order;   /* (samples) the epoch's order; NULL where there is no shuffle */
    uint64_t order_epoch;
    bool ordered; /* whether `order` is order_epoch's */

    pthread_mutex_t mutex;
    pthread_cond_t ready, room;
    uint64_t produced, taken, released;
    bool stop;

    clq_thread *thread; /* NULL: no prefetch */
    void *memory;       /* of all slots */
    size_t slots;
    slot slot[];
};

/* ---- the order of an epoch ---- */

/* A shuffle buffer in place: before step i it is the range [i, i + buffer). The drawn sample leaves it
 * to i, the one that was at i takes the hole, and the next sample of the source comes in at the range's
 * end. With a buffer of all samples this is Fisher and Yates's shuffle. */
static void draw_order(size_t *order, size_t samples, size_t buffer, uint64_t seed, uint64_t epoch) {
    clq_random random = clq_random_start(seed, clq_random_stream(CLQ_RANDOM_SHUFFLE, epoch));
    for (size_t i = 0; i < samples; i++) order[i] = i;
    for (size_t i = 0; i < samples; i++) {
        size_t drawn = i + (size_t)clq_random_below(&random, CLQ_MIN(buffer, samples - i));
        size_t sample = order[drawn];
        order[drawn] = order[i];
        order[i] = sample;
    }
}

/* ---- assembling ---- */

static void fetch(const char *sample, size_t bytes) {
    for (size_t at = 0; at < bytes; at += LINE_BYTES) __builtin_prefetch(sample + at);
}

/* `count` samples, at these places of the set, one behind the other. Three times as fast as without fetching (784
 * bytes each, from a set that no cache holds). */
static void gather(const clq_dataset *d, const size_t *places, size_t count, char *to) {
    const char *from = d->samples.data;
    size_t bytes = d->sample_bytes, fetched = CLQ_MIN(bytes, (size_t)FETCH_BYTES);
    size_t ahead = CLQ_MAX(CLQ_MIN((size_t)FETCH_SAMPLES, FETCH_BYTES / bytes), (size_t)1);
    for (size_t i = 0; i < CLQ_MIN(ahead, count); i++) fetch(from + places[i] * bytes, fetched);
    for (size_t i = 0; i < count; i++) {
        if (i + ahead < count) fetch(from + places[i + ahead] * bytes, fetched);
        memcpy(to + i * bytes, from + places[i] * bytes, bytes);
    }
}

/* Fills `to` with the batch at ring->place and goes on to the next place. */
static void assemble(clq_data_ring *ring, slot *to) {
    const clq_dataset *d = ring->dataset;
    size_t first = (size_t)ring->place.index * d->batch;
    to->count = CLQ_MIN(d->batch, d->info.samples - first);
    if (ring->order && !(ring->ordered && ring->order_epoch == ring->place.epoch)) {
        draw_order(ring->order, d->info.samples, d->buffer, d->seed, ring->place.epoch);
        ring->order_epoch = ring->place.epoch;
        ring->ordered = true;
    }
    const char *labels = d->labels.data;
    if (ring->order) {
        const size_t *places = ring->order + first;
        gather(d, places, to->count, to->samples);
        for (size_t i = 0; i < to->count; i++)
            memcpy(to->labels + i * d->label_bytes, labels + places[i] * d->label_bytes, d->label_bytes);
    } else {
        memcpy(to->samples, (const char *)d->samples.data + first * d->sample_bytes, to->count * d->sample_bytes);
        memcpy(to->labels, labels + first * d->label_bytes, to->count * d->label_bytes);
    }
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

static clq_status allocate(const clq_dataset *d, clq_data_ring *ring) {
    /* A batch is no larger than the set, which is in memory: only all slots together may be too much. */
    size_t rows = CLQ_MIN(d->batch, d->info.samples), all;
    size_t samples = clq_round_up(rows * d->sample_bytes, ALIGNMENT);
    size_t both = samples + clq_round_up(rows * d->label_bytes, ALIGNMENT);
    if (!clq_mul_size(both, ring->slots, &all))
        return clq_fail(CLQ_MEMORY, "%s: %zu batches ahead do not fit in memory", d->info.name, ring->slots - 1);
    ring->memory = clq_alloc_aligned(ALIGNMENT, all);
    if (!ring->memory) return CLQ_MEMORY;
    for (size_t i = 0; i < ring->slots; i++) {
        ring->slot[i].samples = (char *)ring->memory + i * both;
        ring->slot[i].labels = ring->slot[i].samples + samples;
    }
    if (d->buffer == 0) return CLQ_OK;
    ring->order = clq_alloc(d->info.samples, sizeof *ring->order);
    return ring->order ? CLQ_OK : CLQ_MEMORY;
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
    return clq_fail(CLQ_SYSTEM, "cannot make a lock for prefetching: %s", strerror(error));
}

static void free_ring(clq_data_ring *ring) {
    clq_free(ring->memory);
    clq_free(ring->order);
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
        size_t bytes = CLQ_MIN(d->batch, d->info.samples) * (d->sample_bytes + d->label_bytes);
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
                         .labels = taken->labels,
                         .soft_labels = dataset->info.soft_labels,
                         .classes = dataset->info.classes,
                         .epoch = dataset->next.epoch,
                         .index = dataset->next.index};
    *more = true;
    dataset->next.index++;
    return CLQ_OK;
}
